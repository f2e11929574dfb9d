"""The answers of runs, by the question (a run's key) and the code that trained it, and what probes found beside them.

Only Completed and Diverged are answers. A file is written as a whole, and ends with a digest of all before it. A file
that differs from its digest is damaged, and counts no more than one that is not there. The same holds for weights,
whose digests are in the file of the answer.

The file of a probe holds the digest of the probe's own code; it counts only if that is today's. It also holds the key
of its run and its own name, so that a file of another run in its place counts as damaged.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from search_spaces.words import plural
from service.storage import plain_json
from service.storage.home import Home
from trainables.recipe import Run
from trainables.recipe.code_digest import CodeDigest
from trainables.recipe.findings import Findings, Probed, When
from trainables.recipe.outcome import Answer, Diverged
from trainables.recipe.planned import PlannedRun
from trainables.spec import LocusError
from trainables.trusted import UntrustedError
from trainables.whole_files import put_aside, rename_durably, sealed, unsealed, write_whole


def commit() -> str:
    """Returns the commit of this project, with `+` where files differ from it; empty if it was installed elsewhere."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():  # installed: a checkout above site-packages is another project's
        return ""
    command = ("git", "describe", "--always", "--dirty=+", "--exclude=*")
    try:
        return subprocess.run(command, cwd=root, capture_output=True, encoding="utf-8", timeout=5).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


HEADER = "said"
"""The name of the entry that holds everything but the arrays, as JSON."""
TIMES: tuple[When, When] = ("before", "after")
ODD = (
    AttributeError, EOFError, KeyError, NotImplementedError, OSError, RuntimeError, TypeError, ValueError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What numpy and zipfile raise for damaged bytes: an unknown compression, an encrypted entry, a header that is none."""


class ProbeFileError(LocusError):
    """A file of a probe that is not as it was written."""


def write_probe(path: Path, probed: Probed, code: str) -> None:
    """Writes what a probe found in a run, by the digest of the probe's code."""
    import numpy as np

    header: dict[str, Any] = {"code": code, "of": f"{path.parent.name}/{path.name}"}
    entries: dict[str, Any] = {}
    for when in TIMES:
        findings = probed.at(when)
        header[when] = {"values": dict(findings.values), "note": findings.note}
        entries |= {f"{when}.{name}": array for name, array in findings.arrays.items()}
    content = io.BytesIO()
    entries[HEADER] = np.array(json.dumps(header))
    np.savez_compressed(content, allow_pickle=False, **entries)
    write_whole(path, content.getvalue())


def read_probe(path: Path) -> tuple[str, Probed]:
    """Returns the digest of a probe's code, and what it found. Raises: ProbeFileError for a file that is damaged."""
    import numpy as np

    findings = []
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            header = plain_json(str(file[HEADER]))
            if header["of"] != f"{path.parent.name}/{path.name}":
                raise ValueError(f"what it found in {header['of']}")
            arrays = {name: file[name] for name in file.files if name != HEADER}
        for when in TIMES:
            mine = {name.removeprefix(f"{when}."): arrays[name] for name in arrays if name.startswith(f"{when}.")}
            values = {name: float(value) for name, value in header[when]["values"].items()}
            findings.append(Findings(values, mine, header[when]["note"]))
        return str(header["code"]), Probed(*findings)
    except ODD as error:
        raise ProbeFileError(f"{path.name} must be as a probe wrote it, got {type(error).__name__}: {error}") from None


def kept_probe(path: Path, code: str) -> Probed | None:
    """Returns what a probe of this code found; None if there is no such file, or it is damaged, or of other code."""
    if not path.exists():
        return None
    try:
        code_then, probed = read_probe(path)
    except ProbeFileError:
        return None
    return probed if code_then == code else None


ENDS = (".pt", "_ema.pt")
"""How the names of the files of weights end: of the weights, and of their moving average, where there is one."""

Curve = Mapping[int, Mapping[str, float]]
"""The values of each epoch of a run."""


class Answered(PlannedRun):
    """One file of outcomes: the run, the code that trained it, how it ended, and where.

    `environment` is recorded and shown where mixed; it does not decide. `ended` is the time of day in seconds.
    `weights`: the SHA-256 of each file of weights, by the end of its name (`ENDS`); empty if none were kept.
    """

    code: CodeDigest
    outcome: Answer
    environment: dict[str, Any] = Field(default_factory=dict)
    ended: float = 0.0
    weights: dict[str, str] = Field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of this answer's files: the digest of its code."""
        return self.code.digest

    @property
    def curve(self) -> Curve:
        return {measured.epoch: measured.values for measured in self.outcome.curve}

    @property
    def epoch(self) -> int:
        return self.outcome.epoch if isinstance(self.outcome, Diverged) else self.outcome.curve[-1].epoch

    def repeats(self, before: Answered) -> bool:
        """Returns whether this answer has the very numbers of an earlier one, apart from times."""
        same = self.outcome.kind == before.outcome.kind
        return same and not compare(before.curve, self.curve)


class _AnyRun(Answered):
    """The file of an answer whose run is not read: to check a recipe takes longer than all the rest."""

    run: Any


class Outcomes:
    """The answers of a home."""

    def __init__(self, home: Home) -> None:
        self.home, self.folder, self.data = home, home.outcomes, home.data

    @property
    def without_weights(self) -> str:
        """Why a result that was fetched has no weights, to be added to an error; empty in a home that trains."""
        if not self.home.fetched.is_file():
            return ""
        return f"; this result was fetched, and weights stayed in {self.home.fetched.read_text(encoding='utf-8')}"

    def path(self, key: str, name: str) -> Path:
        """Returns the file of an answer, by the key of its run and its own name (`Answered.name`)."""
        return self.folder / key / f"{name}.json"

    def weights(self, key: str, name: str, end: str = ENDS[0]) -> Path:
        """Returns the file of an answer's weights: a state dict. `end`: which of `ENDS`."""
        return self.folder / key / f"{name}{end}"

    def source(self, key: str, name: str) -> str:
        return str(self.weights(key, name))

    def probe(self, key: str, name: str, probe: str) -> Path:
        """Returns the file of what a probe found in the model of an answer."""
        return self.folder / key / f"{name}.{probe}.npz"

    def of_run(self, run: Run, name: str, curve: Curve) -> Answered | None:
        """Returns the answer of that name to a run at hand, or None. Cost: half of `get`, which reads the run, too.

        `curve`: the numbers that a study has of the run. None also if the answer has others in the last epoch: it
        was trained again for another study, and the scores of two trainings must not be mixed.
        """
        answered = read_answer(self.path(run.key, name), _AnyRun)
        if answered is None:
            return None
        # a study that reused an answer may have measured earlier epochs itself
        last = {epoch: curve[epoch] for epoch in [*curve][-1:]}
        last_of_answer = {measured.epoch: measured.values for measured in answered.outcome.curve[-1:]}
        if compare(last, last_of_answer):
            return None
        return Answered.model_construct(**{**dict(answered), "run": run})  # both are checked already

    def get(self, key: str, name: str, *, whole: bool = False) -> Answered | None:
        """Returns the answer of that name, or None; `whole`: None also if its weights are gone, or cut.

        None also if the file holds the answer of another run or code: somebody copied it there. A run that diverged
        has no weights. Cost: 50 us for `whole`.
        """
        answered = read_answer(self.path(key, name))
        if answered is None or (answered.run.key, answered.name) != (key, name):
            return None
        if not whole or isinstance(answered.outcome, Diverged):
            return answered
        return answered if answered.weights and zipfile.is_zipfile(self.weights(key, name)) else None

    def is_there(self, key: str, name: str) -> bool:
        """Returns whether an answer has its file, every byte as it was written. Cost: 60 us."""
        return _content(self.path(key, name)) is not None

    def has_sound_weights(self, key: str, name: str) -> bool:
        """Returns whether an answer has its weights, every byte as it was written. Cost: reads them."""
        digests = _weights_of(self.path(key, name))
        return bool(digests) and all(_digest_of(self.weights(key, name, end)) == digests[end] for end in digests)

    def set_aside(self, key: str, name: str, *, answer: bool = False) -> None:
        """Renames what is damaged of an answer, so that it counts no more: the end of its files is `.damaged` then.

        `answer`: its file is renamed in any case, as it gives way to another one. Weights go with it, for what their
        bytes must be is not known any more; and so does what probes found in its model.
        """
        path = self.path(key, name)
        if answer:
            for probe in path.parent.glob(f"{name}.*.npz"):
                put_aside(probe)
        if not path.exists():  # weights alone count for nothing, and are replaced
            return
        digests = {} if answer else _weights_of(path)
        for end in ENDS:
            file = self.weights(key, name, end)
            if file.exists() and _digest_of(file) != digests.get(end):
                put_aside(file)
        if answer or not self.is_there(key, name):
            put_aside(path)

    def of(self, key: str) -> list[Answered]:
        """Returns every answer of a key, the newest last. A copy of a home may have the files with other times."""
        answers = [answered for path in (self.folder / key).glob("*.json") if (answered := self.get(key, path.stem))]
        return sorted(answers, key=lambda answered: answered.ended)

    def usable(self, key: str, code: str, *, whole: bool) -> Answered | None:
        """Returns the answer to use instead of training, or None; `whole`: one with weights."""
        return self.get(key, code, whole=whole)

    def find(self, start: str) -> list[Answered]:
        """Returns the answers of the run whose key begins so. Raises: LocusError for none or several."""
        runs = sorted(path.name for path in self.folder.glob("[!.]*")) if self.folder.is_dir() else []
        keys = [key for key in runs if key.startswith(start)]
        if len(keys) != 1:
            listed = f"{', '.join(keys[:5])}{', ...' if len(keys) > 5 else ''}"
            several = f"{len(keys)} runs have a key that begins with {start!r}: {listed}; give more of it"
            none = f"none of the {plural(len(runs), 'run')} of {self.folder} has a key that begins with {start!r}"
            raise LocusError(f"{several if keys else none} (locus export NAME --csv prints the keys of a study)")
        if not (answers := self.of(keys[0])):
            raise LocusError(f"the answers of {keys[0]} are damaged; run its study again, and they are made again")
        return answers

    def put(self, answered: Answered, weights: Path | None) -> None:
        """Writes an answer, its weights first, so that it is never without them. An answer that is there stays.

        Weights that an answer lacks are added to it. What is left of damaged files is kept beside.
        """
        key, name = answered.run.key, answered.name
        before = self.get(key, name)
        self.set_aside(key, name, answer=before is None)
        answered = before or answered
        if weights is not None:
            made = {end: path for end in ENDS if (path := weights.with_name(f"{weights.stem}{end}")).exists()}
            answered = answered.model_copy(update={"weights": {end: _digest_of(path) for end, path in made.items()}})
            for end in reversed(made):
                rename_durably(made[end], self.weights(key, name, end))
        if weights is not None or not self.is_there(key, name):
            write_whole(self.path(key, name), sealed(answered.plain()))


def averaged(weights: Path) -> Path:
    """Returns the file of the moving average of some weights, which lies beside them where the recipe asks for one."""
    return weights.with_stem(f"{weights.stem}_ema")


def require_sound(weights: Path) -> None:
    """Looks whether a file of weights is as it was written. Cost: reads it. Raises: LocusError."""
    end = next(end for end in reversed(ENDS) if weights.name.endswith(end))
    answer = weights.with_name(f"{weights.name.removesuffix(end)}.json")
    digest = _weights_of(answer).get(end)
    if digest is None or _digest_of(weights) != digest:
        raise LocusError(
            f"{weights} must be there as it was written, got {'other bytes' if weights.exists() else 'no file'} (locus "
            "verify NAME --repair sets damaged files of a study aside, and its next run makes them again)"
        )


def _digest_of(file: Path) -> str | None:
    """Returns the SHA-256 of a file; None without one. Cost: 0.5 s a GiB."""
    if not file.is_file():
        return None
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _content(path: Path) -> bytes | None:
    """Returns the JSON of the file of an answer; None if there is none, or it was changed since it was written."""
    try:
        return unsealed(path.read_bytes())
    except FileNotFoundError:
        return None


def _weights_of(path: Path) -> dict[str, str]:
    answered = read_answer(path, _AnyRun)
    return {} if answered is None else answered.weights


CLOCKED = ("time/", "train/images_per_s", "memory/")
"""Metrics that no two runs share."""


@dataclass(frozen=True)
class NumberChange:
    """A number that did not come out again."""

    epoch: int
    name: str
    before: float | None
    now: float | None


def compare(before: Curve, now: Curve) -> list[NumberChange]:
    """Returns the numbers in which two curves of one run differ, apart from times."""
    if before == now:  # nearly always
        return []
    return [
        NumberChange(epoch, name, before.get(epoch, {}).get(name), now.get(epoch, {}).get(name))
        for epoch in sorted({*before, *now})
        for name in sorted({*before.get(epoch, {}), *now.get(epoch, {})})
        if not name.startswith(CLOCKED) and before.get(epoch, {}).get(name) != now.get(epoch, {}).get(name)
    ]


def read_answer(path: Path, form: type[Answered] = Answered) -> Answered | None:
    """Returns the answer of a file; None if it is gone or damaged. Raises: LocusError for one of another locus."""
    content = _content(path)
    if content is None:
        return None
    try:
        return form.read_text(content.decode())
    except UntrustedError:
        raise
    except LocusError as error:
        how = "use the locus that wrote it, or move it away, and the run is trained again"
        raise LocusError(f"{path} cannot be read ({error}); {how}") from None
