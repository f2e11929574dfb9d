"""The mistakes of `make mutants` are mistakes in Python, and a test that looks sees them."""

import faulthandler

from tests.house.sources import ROOT
from tests.mutants.mutants import caught, drawn, mutated

SOURCE = """def at_least(size: int, least: int = 1) -> bool:
    return size >= least
"""
TESTS = """def test_bound():
    names = {}
    exec(open("service/sizes.py").read(), names)
    assert names["at_least"](2, 2)
"""


def test_mistakes_change_what_python_compiles(monkeypatch):
    monkeypatch.chdir(ROOT)
    for mutant in drawn()[:30]:
        source = (ROOT / mutant.file).read_bytes()
        changed = mutated(source, mutant)
        assert compile(changed, mutant.file, "exec") != compile(source, mutant.file, "exec"), mutant.name


def test_a_mistake_is_caught_by_a_test_that_looks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "service").mkdir()
    (tmp_path / "service/sizes.py").write_text(SOURCE)
    (tmp_path / "test_sizes.py").write_text(TESTS)
    faulthandler.cancel_dump_traceback_later()  # a forked process would wait for its thread
    default, returned = sorted(drawn(), key=lambda mutant: mutant.line)
    assert caught(default, ["test_sizes.py::test_bound"], 60) == ""
    assert caught(returned, ["test_sizes.py::test_bound"], 60) == "test_sizes.py::test_bound"
    assert (tmp_path / "service/sizes.py").read_text() == SOURCE
