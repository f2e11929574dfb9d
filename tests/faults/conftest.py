"""A table at the end of the fault tests: passed / tried, epochs redone, seconds to recover, a row for each fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

ROW = pytest.StashKey["Row"]()


@dataclass
class Row:
    """What is known of the tries of one fault. None: nobody measured it."""

    passed: int = 0
    tried: int = 0
    redone: int | None = None
    seconds: float | None = None

    def add(self, other: Row) -> None:
        """Adds the tries and the epochs of another row; the longest time counts."""
        self.passed += other.passed
        self.tried += other.tried
        known = [one for one in (self.redone, other.redone) if one is not None]
        self.redone = sum(known) if known else None
        self.seconds = max((one for one in (self.seconds, other.seconds) if one is not None), default=None)

    def __str__(self) -> str:
        redone = "-" if self.redone is None else str(self.redone)
        seconds = "-" if self.seconds is None else f"{self.seconds:.1f}"
        return f"{self.passed:>3} / {self.tried:<3}  {redone:>6}  {seconds:>7}"


HEAD = "passed/tried  redone  seconds  fault"


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Adds a try: `tally(epochs redone, seconds to recover)`; a test that calls it ten times tries a fault ten times.

    A test that fails has one try more than it tells, which did not pass.
    """
    row = request.node.stash.setdefault(ROW, Row())
    return lambda redone=None, seconds=None: row.add(Row(passed=1, tried=1, redone=redone, seconds=seconds))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Passes a test's row to the process that prints the table, whichever process ran the test."""
    report = yield
    if report.when == "call" and not report.skipped:
        row = item.stash.get(ROW, Row())
        if report.failed:
            row.tried += 1
        elif not row.tried:
            row.passed = row.tried = 1
        report.user_properties.append(("fault row", vars(row)))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints a row for each test function; the tries of its parameters are added up."""
    rows: dict[str, Row] = {}
    for report in [one for kind in ("passed", "failed") for one in terminalreporter.stats.get(kind, [])]:
        found = dict(report.user_properties).get("fault row")
        if found is not None:
            file, _, name = report.nodeid.partition("[")[0].partition("::")
            fault = f"{file.rpartition('/')[2].removesuffix('.py').removeprefix('test_')}: {name.removeprefix('test_')}"
            rows.setdefault(fault.replace("_", " "), Row()).add(Row(**found))
    if rows:
        terminalreporter.section("faults")
        terminalreporter.write_line(HEAD)
        for name in sorted(rows):
            terminalreporter.write_line(f"{rows[name]}  {name}")
