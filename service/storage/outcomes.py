"""The answers of runs, by the question (a run's key) and the code that trained it. All studies share them.

Only Completed and Diverged are answers. A file is written once, as a whole.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from search_spaces.words import plural
from service.storage.home import Home
from service.storage.whole_files import put_aside, rename_durably, write_whole
from trainables.recipe import Run
from trainables.recipe.code_digest import CodeDigest
from trainables.recipe.outcome import Answer, Diverged, Measurement
from trainables.spec import LocusError, Spec

END = b"\n}"
"""How a file of an answer ends, and no part of it that a crash may leave."""
NO_EFFECT = ("commit", "host_cores", "host_memory_gib", "ray", "optuna", "mlflow")
"""What of an environment changes no number of a run; the digest of the code counts in place of the commit."""


class Answered(Spec):
    """One file of outcomes: the run, the code that trained it, how it ended, and where.

    `environment` is recorded and shown where mixed; it does not decide. `ended` is the time of day in seconds.
    `number` is 1 for the first answer of a code. A later answer was trained for the weights that the first one lacks,
    and gave other numbers; both are kept.
    """

    run: Run
    code: CodeDigest
    outcome: Answer
    environment: dict[str, Any] = Field(default_factory=dict)
    ended: float = 0.0
    number: int = 1

    @property
    def name(self) -> str:
        """The name of this answer's files: the code's digest, with `~2` and so on for a later answer."""
        return self.code.digest + (f"~{self.number}" if self.number > 1 else "")

    @property
    def epoch(self) -> int:
        """The last epoch that was trained."""
        return self.outcome.epoch if isinstance(self.outcome, Diverged) else self.outcome.curve[-1].epoch

    def repeats(self, before: Answered) -> bool:
        """Whether this answer has the very numbers of an earlier one, apart from times."""
        same = self.outcome.kind == before.outcome.kind
        return same and not compare(before.outcome.curve, self.outcome.curve)

    def same_environment(self, before: Answered) -> bool:
        """Whether both were trained alike, as far as that can change a number."""
        mine, other = (
            {name: value for name, value in one.environment.items() if name not in NO_EFFECT} for one in (self, before)
        )
        return mine == other


class _AnyRun(Answered):
    """The file of an answer whose run is not read: to check a recipe takes longer than all the rest."""

    run: Any


class Outcomes:
    """The answers of a home."""

    def __init__(self, home: Home) -> None:
        self.folder, self.data = home.outcomes, home.data
        self._fetched = home.fetched

    @property
    def without_weights(self) -> str:
        """Why a result that was fetched has no weights, to be added to an error; empty in a home that trains."""
        if not self._fetched.is_file():
            return ""
        return f"; this result was fetched, and weights stayed in {self._fetched.read_text()}"

    def path(self, key: str, name: str) -> Path:
        """The file of an answer, by the key of its run and its own name (`Answered.name`)."""
        return self.folder / key / f"{name}.json"

    def weights(self, key: str, name: str) -> Path:
        """The file of an answer's weights: a state dict."""
        return self.folder / key / f"{name}.pt"

    def source(self, key: str, name: str) -> str:
        """Where a worker finds the weights of an answer."""
        return str(self.weights(key, name))

    def probe(self, key: str, name: str, probe: str) -> Path:
        """The file of what a probe found in the model of an answer (`service.storage.probe_files`)."""
        return self.folder / key / f"{name}.{probe}.npz"

    def of_run(self, run: Run, name: str) -> Answered | None:
        """The answer of that name to a run at hand, or None. Cost: a third of `get`, which reads the run, too."""
        answered = _read(self.path(run.key, name), _AnyRun)
        return None if answered is None else Answered(**{**dict(answered), "run": run})

    def get(self, key: str, name: str, *, whole: bool = False) -> Answered | None:
        """The answer of that name, or None; `whole`: None also where its weights are gone."""
        answered = _read(self.path(key, name))
        return answered if answered is not None and (not whole or self.is_whole(answered)) else None

    def is_there(self, key: str, name: str) -> bool:
        """Whether an answer has its file, written to its end. Cost: 20 us."""
        try:
            with self.path(key, name).open("rb") as file:
                file.seek(-len(END), os.SEEK_END)
                return file.read() == END
        except OSError:  # no file, or one that is shorter
            return False

    def is_whole(self, answered: Answered) -> bool:
        """Whether an answer has its weights, written to their end. A run that diverged has none. Cost: 50 us."""
        if isinstance(answered.outcome, Diverged):
            return True
        return zipfile.is_zipfile(self.weights(answered.run.key, answered.name))

    def has_sound_weights(self, key: str, name: str) -> bool:
        """Whether an answer has its weights, every byte as it was written. Cost: reads them."""
        weights = self.weights(key, name)
        return _is_sound(weights) and (_is_sound(averaged(weights)) or not averaged(weights).exists())

    def set_aside(self, key: str, name: str, *, answer: bool = False) -> None:
        """Renames what is damaged of an answer, so that it counts no more: the end of its files is `.damaged` then.

        `answer`: its file is renamed in any case.
        """
        path, weights = self.path(key, name), self.weights(key, name)
        for file in (weights, averaged(weights)):
            if file.exists() and not _is_sound(file):
                put_aside(file)
        if path.exists() and (answer or not self.is_there(key, name)):
            put_aside(path)

    def of(self, key: str) -> list[Answered]:
        """Every answer of a key, the newest last."""
        paths = sorted((self.folder / key).glob("*.json"), key=lambda path: path.stat().st_mtime)
        return [answered for path in paths if (answered := _read(path)) is not None]

    def usable(self, key: str, code: str, *, whole: bool, older: bool) -> Answered | None:
        """The answer of a run by a code, or of that name; with `older`, else the newest. `whole`: one with weights."""
        there = [one for one in self.of(key) if not whole or self.is_whole(one)]
        found = [one for one in there if one.name == code] or [one for one in there if one.code.digest == code]
        return next(iter(found or (there[-1:] if older else [])), None)

    def set_probe_aside(self, key: str, name: str, probe: str) -> None:
        """Renames the file of a probe, which is computed again then."""
        put_aside(self.probe(key, name, probe))

    def find(self, start: str) -> list[Answered]:
        """The answers of the run whose key begins so. Raises: LocusError for none or several."""
        known = sorted(path.name for path in self.folder.iterdir()) if self.folder.is_dir() else []
        keys = [key for key in known if key.startswith(start)]
        if len(keys) != 1:
            listed = f"{', '.join(keys[:SHOWN])}{', ...' if len(keys) > SHOWN else ''}"
            several = f"{len(keys)} runs have a key that begins with {start!r}: {listed}; give more of it"
            none = f"none of the {plural(len(known), 'run')} of {self.folder} has a key that begins with {start!r}"
            raise LocusError(f"{several if keys else none} (locus export NAME --csv prints the keys of a study)")
        return self.of(keys[0])

    def put(self, answered: Answered, weights: Path | None) -> None:
        """Writes an answer, its weights first, so that it is never without them. An answer that is there stays.

        What is left of damaged files is kept beside.
        """
        key, name = answered.run.key, answered.name
        self.set_aside(key, name)
        if weights is not None:
            if averaged(weights).exists():
                rename_durably(averaged(weights), averaged(self.weights(key, name)))
            rename_durably(weights, self.weights(key, name))
        if not self.is_there(key, name):
            write_whole(self.path(key, name), json.dumps(answered.plain(), indent=1))

    def beside(self, answered: Answered) -> Answered:
        """The same answer under the next free name of its code."""
        numbers = [one.number for one in self.of(answered.run.key) if one.code.digest == answered.code.digest]
        return answered.model_copy(update={"number": max(numbers, default=0) + 1})


def averaged(weights: Path) -> Path:
    """The file of the moving average of some weights, which lies beside them where the recipe asks for one."""
    return weights.with_stem(f"{weights.stem}_ema")


def _is_sound(weights: Path) -> bool:
    try:
        with zipfile.ZipFile(weights) as archive:
            return archive.testzip() is None
    except Exception:  # damaged bytes raise errors of many kinds
        return False


def digest_of(name: str) -> str:
    """The digest of the code that trained an answer, from the answer's name: `abc~2` is by the code `abc`."""
    return name.partition("~")[0]


SHOWN = 5
"""How many keys an error names."""

CLOCKED = ("time/", "train/images_per_s", "memory/", "energy/")
"""Metrics that no two runs share."""


@dataclass(frozen=True)
class Difference:
    """A number that did not come out again."""

    epoch: int
    name: str
    before: float | None
    now: float | None


def compare(before: Iterable[Measurement], now: Iterable[Measurement]) -> list[Difference]:
    """The numbers in which two curves of one run differ, apart from times."""
    old = {measured.epoch: measured.values for measured in before}
    new = {measured.epoch: measured.values for measured in now}
    return [
        Difference(epoch, name, old.get(epoch, {}).get(name), new.get(epoch, {}).get(name))
        for epoch in sorted({*old, *new})
        for name in sorted({*old.get(epoch, {}), *new.get(epoch, {})})
        if not name.startswith(CLOCKED) and old.get(epoch, {}).get(name) != new.get(epoch, {}).get(name)
    ]


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _read(path: Path, form: type[Answered] = Answered) -> Answered | None:
    """The answer of a file; None where there is none, or it was cut. Raises: LocusError for one of another locus."""
    try:
        text = path.read_text()
    except (FileNotFoundError, ValueError):  # no file, or no text
        return None
    try:
        return form.read_text(text)
    except LocusError as error:
        if not _is_json(text):
            return None
        how = "use the locus that wrote it, or move it away, and the run is trained again"
        raise LocusError(f"{path} cannot be read ({error}); {how}") from None
