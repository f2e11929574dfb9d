"""How often locus is wrong, measured: its own verdicts, intervals and searches on data whose truth is known.

    python -m tests.calibration.calibrate            every table; `make calibration`
    python -m tests.calibration.calibrate search     some of them

Each line shows what was found beside its bar. It exits with 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from tests.calibration.rows import show

TABLES = (
    "normal", "failing", "skewed", "looks", "winners", "images", "kinds", "pages", "folds", "race", "search",
)  # fmt: skip
"""Modules of this folder. Each has `rows(repetitions)`, an iterator of rows, and `REPETITIONS` for a full table."""


def main(names: list[str]) -> int:
    """Prints the tables; 0 if all bars are met."""
    missed = 0
    for name in names or TABLES:
        print(f"\n{name}: {table(name).__doc__.partition(chr(10))[0]}", flush=True)
        missed += show(table(name).rows(table(name).REPETITIONS))
    return int(missed > 0)


def table(name: str):
    """The module of a table."""
    return import_module(f"tests.calibration.{name}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("tables", nargs="*", choices=[[], *TABLES], help="tables to print; all without one")
    sys.exit(main(parser.parse_args().tables))
