"""Reads and writes the answers of runs, their weights, and the findings of probes in trained models.

An answer is the stored outcome (`Completed` or `Diverged`) of one run, by the run's key and the code that trained it.
Its file is written as a whole, and ends with a digest of all bytes before. A file that differs from its digest is
damaged, and counts as missing. The same holds for weights, whose digests are in the file of the answer.

The file of a probe holds the probe's revision; it counts only if that is today's. It also holds the key
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
from trainables.recipe.findings import Findings, Probed, When
from trainables.recipe.outcome import Answer, Diverged
from trainables.recipe.planned import PlannedRun
from trainables.recipe.revisions import Code
from trainables.spec import LocusError
from trainables.trusted import UntrustedError
from trainables.whole_files import put_aside, rename_durably, sealed, unsealed, write_whole


def commit() -> str:
    """Returns the git commit of this project, with `+` if files differ from it; empty if this is no checkout."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():  # installed: a checkout above site-packages is another project's
        return ""
    command = ("git", "describe", "--always", "--dirty=+", "--exclude=*")
    try:
        return subprocess.run(command, cwd=root, capture_output=True, encoding="utf-8", timeout=5).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


HEADER = "said"
"""The name of the entry of a probe's file that holds everything except the arrays, as JSON."""
TIMES: tuple[When, When] = ("before", "after")
ODD = (
    AttributeError, EOFError, KeyError, NotImplementedError, OSError, RuntimeError, TypeError, ValueError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""The errors that numpy and zipfile raise for damaged bytes, such as an unknown compression or an encrypted entry."""


class ProbeFileError(LocusError):
    """The error for a probe's file that is damaged."""


def write_probe(path: Path, probed: Probed, code: str) -> None:
    """Writes the findings of a probe in a run to a file. `code` is the probe's revision."""
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
    """Returns the revision of a probe, and its findings. Raises: ProbeFileError for a file that is damaged."""
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
    """Returns the findings in a probe's file; None if it is missing, damaged, or of another revision than `code`."""
    if not path.exists():
        return None
    try:
        code_then, probed = read_probe(path)
    except ProbeFileError:
        return None
    return probed if code_then == code else None


ENDS = (".pt", "_ema.pt")
"""The ends of the names of files of weights: of the last weights, and of their moving average."""

Curve = Mapping[int, Mapping[str, float]]
"""The values of a run, by epoch and metric."""


class Answered(PlannedRun):
    """The content of an answer's file: the run, the code that trained it, its outcome, and when and where it ended.

    `environment` describes the machine and its packages; it does not decide whether the answer counts. `weights`
    holds the SHA-256 of each file of weights, by the end of its name (`ENDS`); it is empty if none were kept.
    Units: `ended` in seconds since 1970.
    """

    code: Code
    outcome: Answer
    environment: dict[str, Any] = Field(default_factory=dict)
    ended: float = 0.0
    weights: dict[str, str] = Field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of this answer's files, without ending: the digest of its code."""
        return self.code.digest

    @property
    def curve(self) -> Curve:
        return {measured.epoch: measured.values for measured in self.outcome.curve}

    @property
    def epoch(self) -> int:
        return self.outcome.epoch if isinstance(self.outcome, Diverged) else self.outcome.curve[-1].epoch

    def repeats(self, before: Answered) -> bool:
        """Returns whether this answer has exactly the numbers of an earlier one, apart from times and memory."""
        same = self.outcome.kind == before.outcome.kind
        return same and not compare(before.curve, self.curve)


class _AnyRun(Answered):
    """An answer whose run is read without a check, as the check takes longer than all the rest."""

    run: Any


class Outcomes:
    """All answers that a home stores."""

    def __init__(self, home: Home) -> None:
        self.home, self.folder, self.data = home, home.outcomes, home.data

    @property
    def without_weights(self) -> str:
        """The text that tells, in an error, where the weights of a fetched result stayed; empty in other homes."""
        if not self.home.fetched.is_file():
            return ""
        return f"; this result was fetched, and weights stayed in {self.home.fetched.read_text(encoding='utf-8')}"

    def path(self, key: str, name: str) -> Path:
        """Returns the file of an answer. `key` is the key of its run, `name` its `Answered.name`, here and below."""
        return self.folder / key / f"{name}.json"

    def weights(self, key: str, name: str, end: str = ENDS[0]) -> Path:
        """Returns the file of an answer's weights, a state dict. `end` is one of `ENDS`."""
        return self.folder / key / f"{name}{end}"

    def source(self, key: str, name: str) -> str:
        """Returns the path or URI from which another run reads an answer's weights."""
        return str(self.weights(key, name))

    def probe(self, key: str, name: str, probe: str) -> Path:
        """Returns the file of a probe's findings in the model of an answer."""
        return self.folder / key / f"{name}.{probe}.npz"

    def of_run(self, run: Run, name: str, curve: Curve) -> Answered | None:
        """Returns the answer of that name to a run, or None. Cost: half of `get`, which reads the run, too.

        `curve` holds the run's numbers in the study's journal. If the answer has others in the last epoch, it was
        trained again for another study; this returns None then, as scores of two trainings must not be mixed.
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
        """Returns the answer of that name; None if it is missing, damaged, or the copy of another answer's file.

        If `whole`, it returns None also if the weights are missing or cut, but not for a run that diverged, which has
        no weights. Cost: 50 us for `whole`.
        """
        answered = read_answer(self.path(key, name))
        if answered is None or (answered.run.key, answered.name) != (key, name):
            return None
        if not whole or isinstance(answered.outcome, Diverged):
            return answered
        return answered if answered.weights and zipfile.is_zipfile(self.weights(key, name)) else None

    def is_there(self, key: str, name: str) -> bool:
        """Returns whether the file of an answer exists and is not damaged. Cost: 60 us."""
        return _content(self.path(key, name)) is not None

    def has_sound_weights(self, key: str, name: str) -> bool:
        """Returns whether the weights of an answer exist and are not damaged. Cost: reads them."""
        digests = _weights_of(self.path(key, name))
        return bool(digests) and all(_digest_of(self.weights(key, name, end)) == digests[end] for end in digests)

    def set_aside(self, key: str, name: str, *, answer: bool = False) -> None:
        """Renames the damaged files of an answer to `.damaged`, so that they do not count any more.

        If `answer` is true, all files of the answer are renamed, as another answer replaces it: its own file, its
        weights, whose digests are not known any more, and the findings of probes in its model.
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
        """Returns every answer to a run, sorted by the time at which the training ended, the newest last."""
        answers = [answered for path in (self.folder / key).glob("*.json") if (answered := self.get(key, path.stem))]
        return sorted(answers, key=lambda answered: answered.ended)

    def usable(self, key: str, code: str, *, whole: bool) -> Answered | None:
        """Returns the answer to use instead of training, or None. If `whole`, it must have its weights."""
        return self.get(key, code, whole=whole)

    def find(self, start: str) -> list[Answered]:
        """Returns the answers to the run whose key begins with `start`. Raises: LocusError for none or several runs."""
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
        """Writes an answer, its weights first, so that no stored answer lacks its weights.

        An answer that is stored already stays, and gets the weights if it lacks them. Damaged files become `.damaged`.
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
    """Returns the file of the moving average of some weights. It exists if the recipe asks for one."""
    return weights.with_stem(f"{weights.stem}_ema")


def require_sound(weights: Path) -> None:
    """Checks that a file of weights is not damaged. Cost: reads it. Raises: LocusError if it is damaged or missing."""
    end = next(end for end in reversed(ENDS) if weights.name.endswith(end))
    answer = weights.with_name(f"{weights.name.removesuffix(end)}.json")
    digest = _weights_of(answer).get(end)
    if digest is None or _digest_of(weights) != digest:
        raise LocusError(
            f"{weights} must be there as it was written, got {'other bytes' if weights.exists() else 'no file'} (locus "
            "verify NAME --repair sets damaged files of a study aside, and its next run makes them again)"
        )


def _digest_of(file: Path) -> str | None:
    """Returns the SHA-256 of a file; None if there is no file. Cost: 0.5 s per GiB."""
    if not file.is_file():
        return None
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _content(path: Path) -> bytes | None:
    """Returns the JSON in the file of an answer; None if the file is missing or damaged."""
    try:
        return unsealed(path.read_bytes())
    except FileNotFoundError:
        return None


def _weights_of(path: Path) -> dict[str, str]:
    """Returns the digests of the weights of an answer, by the end of their names."""
    answered = read_answer(path, _AnyRun)
    return {} if answered is None else answered.weights


CLOCKED = ("time/", "train/images_per_s", "memory/")
"""The beginnings of names of metrics that differ each time a run is trained."""


@dataclass(frozen=True)
class NumberChange:
    """A metric whose value differs between two trainings of a run; a value of None means that one lacks it."""

    epoch: int
    name: str
    before: float | None
    now: float | None


def compare(before: Curve, now: Curve) -> list[NumberChange]:
    """Returns the numbers in which two curves of one run differ, apart from those in `CLOCKED`."""
    if before == now:  # nearly always
        return []
    return [
        NumberChange(epoch, name, before.get(epoch, {}).get(name), now.get(epoch, {}).get(name))
        for epoch in sorted({*before, *now})
        for name in sorted({*before.get(epoch, {}), *now.get(epoch, {})})
        if not name.startswith(CLOCKED) and before.get(epoch, {}).get(name) != now.get(epoch, {}).get(name)
    ]


def read_answer(path: Path, form: type[Answered] = Answered) -> Answered | None:
    """Returns the answer in a file; None if the file is missing or damaged.

    Raises: LocusError for a file that another version of locus wrote.
    """
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
