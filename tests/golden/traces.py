"""Golden traces: what 22 studies decided and found at `smoke`, as files, so that a change of the house changes nothing.

    python -m tests.golden.traces              runs the studies and compares; `make golden`
    python -m tests.golden.traces --record     writes the files
    python -m tests.golden.traces --only folds,stopped   some of them

A trace has the facts without times, codes and machines, the verdicts, and the numbers of the page's tables. Runs train
one after another, so that facts have one order. Processors round differently: on another one than that of the files,
record first at the commit before the change.
"""

from __future__ import annotations

import argparse
import csv
import difflib
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from service.results import Result
from service.storage.facts import Ended, Fact, Measured
from service.storage.home import Home
from service.storage.journal import read
from tests.journeys.files import SPIRAL
from tests.journeys.terminal import Terminal
from tests.rooms.photographs import photographs
from tests.rooms.search_spaces.test_own_arms import RAMP

FILES = Path(__file__).parent
OPTIONS = ("--max-concurrent", "1", "--budget", "smoke", "--verbose")
PHOTOGRAPHS = ("encodings", "--data", "./photographs", "--arms", "rotary,sinusoidal")
NAMED = (
    "fourier-gamma", "irpe-abg", "irpe-ratio", "peg-placement", "concat-split", "encodings", "gap", "peg-padding",
    "resolution", "drloc", "logit-terms", "fourier-pretraining", "distillation", "direction-probe", "data-efficiency",
)  # fmt: skip
CASES: dict[str, tuple[tuple[str, ...], ...]] = {name: ((name,),) for name in NAMED} | {
    "photographs": (PHOTOGRAPHS,),
    "folds": ((*PHOTOGRAPHS, "--set", "data.folds=3"),),
    "own-encoding": (("encodings", "--arms", "rotary,./mine.py:Ramp"),),
    "own-study": (("./mine.py", "--budget", "base"),),
    "fused": (("irpe-mode", "--fuse", "2"),),
    "stopped": (("peg-kernel",), ("peg-kernel",)),
    "extended": (("peg-count",), ("peg-count", "--seeds", "4")),
}
"""The commands of each trace; the first one of `stopped` is interrupted after its third run."""
PASSING = {"time", "by", "code", "host", "pid", "version", "form", "claims", "placement", "attempt", "instead_of"}
"""What a fact says of the machine, the hour and the code, and not of the study."""
UNTOLD = ("opened", "started", "measured", "costed")
"""Facts of a session, an attempt or a machine."""
TIMES = re.compile(r"time|_s$|_gib$|images/s|images_per_s|cost|code|peak", re.IGNORECASE)
"""Columns and metrics that differ from run to run."""
FOLDER = re.compile(r"(?<!\S)/\S+")
"""A path, whose temporary folder has another name each time."""
NUMBER = re.compile(r"[-−+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")


def run(name: str) -> str:
    """Runs a case in a home of its own; its trace.

    Raises: RuntimeError with what a command printed that failed.
    """
    with tempfile.TemporaryDirectory(prefix="locus-golden-") as folder, Terminal(Path(folder)) as terminal:
        (terminal.folder / "mine.py").write_text(SPIRAL if name == "own-study" else RAMP)
        counts = {"train": 24, "test": 8} if name == "folds" else {"train": 24, "val": 8, "test": 8}
        photographs(terminal.folder / "photographs", counts)
        for number, words in enumerate(CASES[name]):
            command = terminal.begin("run", words[0], *OPTIONS, *words[1:])
            if name == "stopped" and number == 0:
                command.wait_until(lambda at=command: at.out.count(" completed") >= 3)
                command.interrupt()
            elif (ended := command.end(3600)).code:
                raise RuntimeError(f"{name}: {ended.out}{ended.err}")
            command.wait_until_gone()
        return "\n".join(lines(Home(terminal.home))) + "\n"


def lines(home: Home) -> Iterator[str]:
    """The lines of a trace: facts, verdicts and numbers of each study of a home."""
    for id in sorted(home.ids()):
        facts, _ = read(home.study(id).journal)
        yield f"study {re.sub('-[0-9a-f]{4}$', '', id)}"
        yield from (line for fact in facts if (line := told(fact, facts)))
        result = Result.open(home, id)
        yield from (f"verdict {verdict.word}" for verdict in result.claims)
        yield f"first sentence: {' '.join(NUMBER.findall(result.headline))}"
        for table in sorted(home.study(id).report.glob("*.csv")):
            yield from numbers(table)


def told(fact: Fact, facts: list[Fact]) -> str:
    """A fact in a line; of a run that ended, with its last measurement. Nothing for a fact that passes."""
    if fact.fact in UNTOLD:
        return ""
    plain = {name: value for name, value in fact.model_dump(mode="json").items() if name not in PASSING}
    if isinstance(fact, Ended):
        values = {}
        for one in facts:
            if isinstance(one, Measured) and one.run == fact.run:
                values = one.values
        plain["values"] = {name: float(f"{value:.6g}") for name, value in values.items() if not TIMES.search(name)}
    return json.dumps(plain, ensure_ascii=False)


def numbers(table: Path) -> Iterator[str]:
    """The numbers of each row of a table, but those of times and machines."""
    with table.open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    kept = [place for place, column in enumerate(head) if not TIMES.search(column)]
    for row in rows:
        cells = [FOLDER.sub("", row[place]) for place in kept]
        found = [number for cell in cells for number in NUMBER.findall(cell)]
        yield f"{table.stem}: {' '.join(found)}"


def main() -> int:
    """Runs the cases two at a time; 1 if a trace differs from its file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write the files")
    parser.add_argument("--only", default=",".join(CASES), help="names, a comma between them")
    options = parser.parse_args()
    differing = 0
    names = options.only.split(",")
    with ThreadPoolExecutor(2) as pool:
        for name, trace in zip(names, pool.map(run, names), strict=True):
            file = FILES / f"{name}.txt"
            if options.record:
                file.write_text(trace, encoding="utf-8")
            before = file.read_text(encoding="utf-8") if file.exists() else ""
            changes = list(
                difflib.unified_diff(before.splitlines(), trace.splitlines(), file.name, "now", n=0, lineterm="")
            )
            print("\n".join(changes) or f"{name}: equal", flush=True)
            differing += bool(changes)
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
