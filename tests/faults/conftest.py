"""A table at the end of the fault tests: passed / tried, epochs redone, seconds to recover, a row for each fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

Try = tuple[bool, int | None, float | None]
"""Whether it passed, and the epochs redone and the seconds to recover; None: nobody measured it."""
TRIES = pytest.StashKey[list[Try]]()


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Adds a try: `tally(epochs redone, seconds to recover)`; a test that calls it ten times tries a fault ten times.

    A test that fails has one try more than it tells, which did not pass.
    """
    tries = request.node.stash.setdefault(TRIES, [])
    return lambda redone=None, seconds=None: tries.append((True, redone, seconds))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Passes a test's tries to the process that prints the table, whichever process ran the test."""
    report = yield
    if report.when == "call" and not report.skipped:
        tries = item.stash.setdefault(TRIES, [])
        if report.failed or not tries:
            tries.append((report.passed, None, None))
        report.user_properties.append(("tries", [*tries]))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints a row for each test function; the tries of its parameters are added up, and the longest time counts."""
    rows: dict[str, list[Try]] = {}
    for report in [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]:
        tries = dict(report.user_properties).get("tries", [])
        if tries:
            file, _, name = report.nodeid.partition("[")[0].partition("::")
            fault = f"{file.rpartition('/')[2].removesuffix('.py').removeprefix('test_')}: {name.removeprefix('test_')}"
            rows.setdefault(fault.replace("_", " "), []).extend(tries)
    if rows:
        terminalreporter.section("faults")
        terminalreporter.write_line("passed/tried  redone  seconds  fault")
    for fault, tries in sorted(rows.items()):
        epochs = [redone for _, redone, _ in tries if redone is not None]
        longest = max((seconds for *_, seconds in tries if seconds is not None), default=None)
        passed, redone = sum(row[0] for row in tries), sum(epochs) if epochs else "-"
        seconds = "-" if longest is None else f"{longest:.1f}"
        terminalreporter.write_line(f"{passed:>3} / {len(tries):<3}  {redone:>6}  {seconds:>7}  {fault}")
