"""Shows that the fast tests protect the source: it plants the mutations of `places.toml`, one at a time.

    python -m tests.mutants.mutants                    all of them; `make mutants`
    python -m tests.mutants.mutants --only 3,holm-rank   some, by number or name
    python -m tests.mutants.mutants --results FILE     writes a line for each, and goes on with what FILE lacks
    python -m tests.mutants.mutants --compare A B      two such files: what A caught and B did not

Each mutation is put into a copy of the tree. The tests of its room come first (phase 1), then, if these pass, all other
fast tests, the nearest first (phase 2). It is caught if a test fails, if a file of tests cannot be imported, or if the
tests do not end in time. At the end the tests that caught one run without any mutation: a test that fails then, too,
says nothing.

It exits with 1 if a mutation is missed, and with 2 if something is wrong with the list or the tests.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path

PLACES = Path(__file__).with_name("places.toml")
KINDS = ("sign", "bound", "off-by-one", "swapped argument", "dropped line")
PACKAGES = ("service", "search_spaces", "trainables")
ALSO = {"trainables/encodings": ("laws", "anchors"), "trainables/backbones": ("laws", "anchors")}
"""The folders of tests that belong to a room beside its mirror in `tests/rooms`."""
OTHER_FOLDERS = ("rooms", "laws", "anchors", "house", "journeys")
"""The folders of the other tests, the nearest to the source first; those that are not named come last."""
LIMITS_S = {1: 1200.0, 2: 5400.0}
"""How long the tests of a phase may take: about four times as long as they do. Longer is a hang. Units: seconds."""
IMPORTS = "import service, search_spaces, trainables as t; print(service.__file__, search_spaces.__file__, t.__file__)"
PYTEST = ("-q", "-n0", "-p", "no:cacheprovider", "-rfE", "--tb=no", "--no-header", "--hypothesis-seed=0")


class MutantError(Exception):
    """Something is wrong with the list, the tree or the tests: nothing can be said of a mutation."""


@dataclass(frozen=True)
class Mutant:
    """One mutation."""

    number: int
    name: str
    file: str
    kind: str
    old: str
    new: str

    @property
    def room(self) -> str:
        return str(Path(self.file).parent)

    @property
    def digest(self) -> str:
        """What is changed: a result is of this mutation alone."""
        return hashlib.sha256(json.dumps([self.file, self.old, self.new]).encode()).hexdigest()[:12]

    def mutated(self, source: str) -> str:
        """The mutated text of the file. Raises: MutantError if that is not one change of the code."""
        if (count := source.count(self.old)) != 1:
            raise MutantError(f"{self.name}: the old text must be once in {self.file}, got {count} times")
        changed = source.replace(self.old, self.new)
        try:
            same = ast.dump(ast.parse(changed)) == ast.dump(ast.parse(source))
        except SyntaxError as error:
            raise MutantError(f"{self.name}: {self.file} is no Python then ({error})") from None
        if same:
            raise MutantError(f"{self.name}: the new text must change code of {self.file}")
        return changed


@dataclass(frozen=True)
class Result:
    """What became of a mutation. `by`: the test that saw it, or why nothing could be said. Units: `seconds`."""

    number: int
    name: str
    digest: str
    file: str
    kind: str
    phase: int
    caught: bool
    by: str
    seconds: float

    @property
    def done(self) -> bool:
        return self.caught or self.phase == 2

    def __str__(self) -> str:
        missed = "MISSED" if self.done else "not caught by the tests of its room"
        said = f"caught by {self.by}" if self.caught else missed
        return f"{self.number:2} {self.name} ({self.file}, {self.kind}): {said}, {self.seconds:.0f} s"


def mutants(text: str, tree: Path) -> list[Mutant]:
    """The mutations of a list, each of which fits the tree. Raises: MutantError for one that does not."""
    found = [Mutant(number, **place) for number, place in enumerate(tomllib.loads(text)["place"], start=1)]
    names = [one.name for one in found]
    for one in found:
        if names.count(one.name) > 1 or one.name.isdigit():
            raise MutantError(f"{one.name}: a name must be a word of its own")
        if one.kind not in KINDS:
            raise MutantError(f"{one.name}: the kind must be one of {', '.join(KINDS)}, got {one.kind}")
        if not (tree / one.file).is_file():
            raise MutantError(f"{one.name}: there is no {one.file}")
        one.mutated((tree / one.file).read_text())
    return found


def chosen(found: Sequence[Mutant], only: str) -> list[Mutant]:
    """Some mutations by number or name; all of them if none is named. Raises: MutantError for an unknown one."""
    asked = [word.strip() for word in only.split(",") if word.strip()]
    known = {key: one for one in found for key in (str(one.number), one.name)}
    if unknown := [word for word in asked if word not in known]:
        raise MutantError(f"--only must be numbers or names of the list, got {', '.join(unknown)}")
    return [known[word] for word in asked] if asked else list(found)


def rooms_without(found: Iterable[Mutant], tree: Path) -> list[str]:
    """The rooms of the source in which no mutation is planted."""
    files = [path.relative_to(tree) for package in PACKAGES for path in (tree / package).rglob("*.py")]
    rooms = {str(path.parent) for path in files if path.name != "__init__.py"}
    return sorted(rooms - {one.room for one in found})


def near_tests(tree: Path, file: str) -> list[str]:
    """The files of tests of a room, the nearest first; those of the room around it if it has none of its own."""
    room = Path(file).parent
    mirror = tree / "tests/rooms" / room
    while not any(mirror.glob("test_*.py")):
        mirror = mirror.parent
    folders = [mirror, *(tree / "tests" / name for name in ALSO.get(str(room), ()))]
    found = [path for folder in folders for path in sorted(folder.glob("test_*.py"))]
    return sorted((str(path.relative_to(tree)) for path in found), key=lambda path: _distance(tree, path, file))


def other_tests(tree: Path, file: str) -> list[str]:
    """All other files of tests, the nearest first."""
    every = {str(path.relative_to(tree)) for path in (tree / "tests").rglob("test_*.py")}
    return sorted(every - {*near_tests(tree, file)}, key=lambda path: (_distance(tree, path, file), path))


def _distance(tree: Path, test: str, file: str) -> tuple[bool, bool, int, int]:
    """How far a file of tests is from a file of the source: by its name, by what it imports, by its folder."""
    module = ".".join(Path(file).with_suffix("").parts)
    path, room = Path(test), Path(file).parent.parts
    parts = path.parent.parts[2:] if path.parts[1] == "rooms" else ()
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(parts, room, strict=False)))
    other = OTHER_FOLDERS.index(path.parts[1]) if path.parts[1] in OTHER_FOLDERS else len(OTHER_FOLDERS)
    named = path.stem == f"test_{Path(file).stem}"
    return not named, module not in (tree / test).read_text(), -shared, other


class Copy:
    """A copy of the tree, in which mutations are planted and tests run."""

    def __init__(self, tree: Path, folder: Path, python: str) -> None:
        self.folder, self.python = folder, python
        self._process: subprocess.Popen[bytes] | None = None
        words = ["git", "-C", str(tree), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        for name in filter(None, subprocess.run(words, capture_output=True, text=True, check=True).stdout.split("\0")):
            if (tree / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(tree / name, folder / name, follow_symlinks=False)
        path = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"
        self.env = {**os.environ, "PYTHONPATH": str(folder), "PATH": path, "OMP_NUM_THREADS": "1"}
        files = subprocess.run(
            [python, "-c", IMPORTS], cwd=folder, env=self.env, capture_output=True, text=True, check=True
        ).stdout.split()
        if not all(Path(file).is_relative_to(folder) for file in files):
            raise MutantError(f"the tests must import the copy in {folder}, got {', '.join(files)}")

    @contextlib.contextmanager
    def planted(self, mutant: Mutant) -> Iterator[None]:
        """Within the block the mutation is in the copy."""
        path = self.folder / mutant.file
        source = path.read_text()
        try:
            _write(path, mutant.mutated(source))
            yield
        finally:
            _write(path, source)

    def run(self, tests: Sequence[str], limit_s: float, *words: str) -> tuple[int | None, str]:
        """The exit code of pytest, and what it said; None for what did not end in time."""
        with tempfile.TemporaryFile("w+") as said:
            process = self._process = subprocess.Popen(
                [self.python, "-m", "pytest", *PYTEST, *words, *tests], cwd=self.folder, env=self.env, stdout=said,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            try:
                code: int | None = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                self.stop()
            said.seek(0)
            return code, said.read()

    def stop(self) -> None:
        """Ends the tests that run, and what they left behind."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def look(self, mutant: Mutant, phase: int) -> Result:
        """What the tests of a phase say of a mutation. Raises: MutantError if they say nothing."""
        begun = time.monotonic()
        tests = (near_tests if phase == 1 else other_tests)(self.folder, mutant.file)
        with self.planted(mutant):
            code, said = self.run(tests, LIMITS_S[phase], "-x")
        seconds = round(time.monotonic() - begun, 1)
        by = _verdict(code, said, LIMITS_S[phase])
        return Result(mutant.number, mutant.name, mutant.digest, mutant.file, mutant.kind, phase, bool(by), by, seconds)


def _write(path: Path, text: str) -> None:
    """Writes a file of the source, and forgets what Python compiled of it: it may compare whole seconds alone."""
    path.write_text(text)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink(missing_ok=True)


def _verdict(code: int | None, said: str, limit_s: float) -> str:
    """The test that failed; empty if all passed. Raises: MutantError if pytest ended in another way."""
    if code is None:
        return f"a hang (more than {limit_s:g} s)"
    if code == 0:
        return ""
    if failed := failures(said):
        return failed[0]
    if code == 4 and "while loading conftest" in said:
        return "tests/conftest.py"
    if code == 1 and "Timeout" in said:  # pytest-timeout ends the process if a signal does not end the test
        return "a hang (the limit of a test)"
    raise MutantError(f"pytest ended with {code}:\n{said[-2000:]}")


def failures(said: str) -> list[str]:
    """The tests that failed, and the files of tests that could not be imported, as pytest's summary names them."""
    return re.findall(r"^(?:FAILED|ERROR) (tests/[^\s\[]+(?:\[.*?\])?)(?: - .*)?$", said, re.MULTILINE)


def read_results(path: Path) -> dict[str, Result]:
    """The last result of each mutation, by name."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {(result := Result(**json.loads(line))).name: result for line in lines}


class Session:
    """Runs the tests on mutations in copies, and remembers the results in a file."""

    def __init__(self, copies: Sequence[Copy], results: Path | None) -> None:
        self.copies, self.path, self._lock = copies, results, threading.Lock()
        self._free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for copy in copies:
            self._free.put(copy)
        self.known = read_results(results) if results else {}

    def run(self, found: Sequence[Mutant]) -> list[Result]:
        """Phase 1 of all mutations comes before phase 2 of any: it is short, and catches most."""
        for phase in (1, 2):
            todo = [one for one in found if not self._is_done(one, phase)]
            with ThreadPoolExecutor(len(self.copies)) as threads:
                try:
                    for looked in [threads.submit(self._look, one, phase) for one in todo]:
                        looked.result()
                except BaseException:
                    threads.shutdown(wait=False, cancel_futures=True)
                    for copy in self.copies:
                        copy.stop()
                    raise
        return [self.known[one.name] for one in found]

    def _is_done(self, mutant: Mutant, phase: int) -> bool:
        known = self.known.get(mutant.name)
        return known is not None and known.digest == mutant.digest and (known.done or known.phase >= phase)

    def _look(self, mutant: Mutant, phase: int) -> None:
        copy = self._free.get()
        try:
            result = copy.look(mutant, phase)
        except MutantError as error:
            raise MutantError(f"{mutant.name}, phase {phase}: {error}") from None
        finally:
            self._free.put(copy)
        with self._lock:
            self.known[mutant.name] = result
            print(result, flush=True)
            if self.path:
                with self.path.open("a") as file:
                    file.write(json.dumps(asdict(result)) + "\n")


def check(copy: Copy, tests: Sequence[str]) -> None:
    """Refuses tests that fail without a mutation. Raises: MutantError."""
    if not tests:
        return
    code, said = copy.run(tests, LIMITS_S[2])
    if code != 0:
        failed = ", ".join(failures(said)) or f"pytest ended with {code}:\n{said[-2000:]}"
        raise MutantError(f"tests must pass without a mutation, got {failed}")


def table(results: Sequence[Result], found: Sequence[Mutant]) -> str:
    """How many mutations were caught, by room."""
    rooms: dict[str, list[Result]] = {}
    for one, result in zip(found, results, strict=True):
        rooms.setdefault(one.room, []).append(result)
    width = max(map(len, rooms), default=0)
    counts = {room: f"{sum(one.caught for one in some)} of {len(some)}" for room, some in sorted(rooms.items())}
    lines = [f"{room:{width}}  {count}" for room, count in counts.items()]
    phases = [sum(one.caught and one.phase == phase for one in results) for phase in (1, 2)]
    missed = [one.name for one in results if not one.caught]
    lines.append(f"{sum(phases)} of {len(results)} caught: {phases[0]} by tests of their room, {phases[1]} by others")
    return "\n".join([*lines, *([f"missed: {', '.join(missed)}"] if missed else [])])


def compare(before: dict[str, Result], after: dict[str, Result]) -> list[str]:
    """What the first tests caught and the second ones did not, a line each."""
    lost = [one for one in before.values() if one.caught and not (one.name in after and after[one.name].caught)]
    return [
        f"{one.name} ({one.file}) was caught by {one.by}, is {'missed' if one.name in after else 'not tried'}"
        for one in lost
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.mutants")
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[2], help="by default this one")
    parser.add_argument("--only", default="", help="numbers or names, with commas between them")
    parser.add_argument("--jobs", type=int, default=2, help="how many mutations are tried at the same time")
    parser.add_argument("--results", type=Path, help="a file of JSON lines, which a stopped run goes on with")
    parser.add_argument("--check", action="store_true", help="the tests must pass without a mutation first")
    parser.add_argument("--list", action="store_true", help="only print the mutations, which all fit the tree")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("A", "B"), help="two files of results")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    if asked.compare:
        lost = compare(*map(read_results, asked.compare))
        print("\n".join(lost) or "everything that was caught is caught")
        return 1 if lost else 0
    try:
        return plant(asked)
    except MutantError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def plant(asked: argparse.Namespace) -> int:
    """Plants what is asked for. Raises: MutantError."""
    tree = asked.tree.resolve()
    every = mutants(PLACES.read_text(), tree)
    if rooms := rooms_without(every, tree):
        print(f"no mutation in {', '.join(rooms)}")
    found = chosen(every, asked.only)
    if asked.list:
        print("\n".join(f"{one.number:2} {one.name} ({one.file}, {one.kind})" for one in found))
        return 0
    own = tree / ".venv/bin/python"
    python = str(own) if own.exists() else sys.executable
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        places = [Path(folder) / str(number) for number in range(asked.jobs)]
        copies = [Copy(tree, place, python) for place in places]
        if asked.check:
            check(copies[0], sorted({test for one in found for test in near_tests(copies[0].folder, one.file)}))
        results = Session(copies, asked.results).run(found)
        print(table(results, found))
        check(copies[0], sorted({one.by for one in results if "/test_" in one.by}))
    return 0 if all(result.caught for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
