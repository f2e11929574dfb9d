"""Source as a value: what changes a fingerprint, and what a file that does not run says."""

import gc
import pickle
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from trainables.source import SourceError, fingerprint, load, require_installed
from trainables.spec import SpecError

FILE = '''"""A file."""
import math

SCALE = 2.0
"""How large."""


class Turn:
    """A turn."""

    def angle(self, x):
        """In radians."""
        return math.pi * x + SCALE  # comment


study = "a question"
'''


def test_words_and_layout_change_nothing(subtests) -> None:
    for old, new in [
        ('"""A file."""', ""),
        ('"""How large."""', '"""How very large."""'),
        ('"""A turn."""', '"""A turn, told at length.\n\n    With a second line."""'),
        ('        """In radians."""\n', ""),
        ("  # comment", "  # another comment"),
        ("math.pi * x + SCALE", "(math.pi * x\n            + SCALE)"),
        ('study = "a question"', 'study = "another question"'),
        ("\n\n\nclass", "\n\n\n\n\n# here\nclass"),
    ]:
        with subtests.test(f"{old}, {new}"):
            assert old in FILE
            assert fingerprint(FILE.replace(old, new)) == fingerprint(FILE)


def test_what_a_file_sets_for_warnings_and_numpy_is_undone() -> None:
    """Libraries of this process would end with what they warn of, such as SQLAlchemy in a driver."""
    before = [*warnings.filters], np.geterr()
    strict = "import warnings\nimport numpy as np\nwarnings.simplefilter('error')\nnp.seterr(all='raise')\n"
    module = load("strict.py", f"{strict}SET = [*warnings.filters], np.geterr()")
    assert ([*warnings.filters], np.geterr()) == before != module.SET
    with pytest.raises(SourceError, match=r"strict.py does not run: line 5: UserWarning: odd"):
        load("strict.py", f"{strict}warnings.warn('odd')")
    assert ([*warnings.filters], np.geterr()) == before


def test_code_changes_the_fingerprint(subtests) -> None:
    for old, new in [
        ("SCALE = 2.0", "SCALE = 2"),
        ("math.pi * x", "math.pi / x"),
        ("math.pi * x + SCALE", "math.pi * (x + SCALE)"),
        ("def angle(self, x)", "def angle(self, x=0)"),
        ("return math.pi", "return -math.pi"),
        ("class Turn", "class Turns"),
    ]:
        with subtests.test(f"{old}, {new}"):
            assert fingerprint(FILE.replace(old, new)) != fingerprint(FILE)


def test_a_text_is_loaded_once_under_its_digest() -> None:
    module = load("turn.py", FILE)
    assert load("turn.py", FILE) is module
    assert load("turn.py", FILE + "\nX = 1\n") is not module
    assert module.Turn().angle(1) == pytest.approx(5.14159, abs=1e-5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\ny = x / 0\n", "bad.py does not run: line 2: ZeroDivisionError: division by zero"),
        ("x = 1\nimport nowhere_at_all\n", "bad.py does not run: line 2: ModuleNotFoundError"),
        ("x = 1\n\ndef f(:\n", "bad.py does not run: line 3: SyntaxError"),
    ],
)
def test_a_file_that_does_not_run_says_where(text: str, said: str) -> None:
    before = set(sys.modules)
    with pytest.raises(SourceError) as caught:
        load("bad.py", text)
    assert str(caught.value).startswith(said)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert not [name for name in set(sys.modules) - before if name.startswith("own_")]


def test_a_value_that_no_spec_takes_says_where_in_the_file() -> None:
    with pytest.raises(SourceError, match=r"^fields.py, line 3: no field 'gama'; known: .*; did you mean gamma\?$"):
        load("fields.py", "from trainables.encodings import Fourier\n\nwave = Fourier(gama=2)\n")


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules that can be imported, and that are no installed packages."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)  # as in a script
    (tmp_path / "scales.py").write_text("SCALE = 5.0\n")
    (tmp_path / "loose_folder").mkdir()
    (tmp_path / "loose_folder/scales.py").write_text("SCALE = 5.0\n")


def test_code_that_is_not_installed_is_refused(subtests, beside) -> None:
    for line, used, said in [
        ("from scales import SCALE", "SCALE", "scales"),
        ("from scales import *", "0", "scales"),
        ("import scales as s", "s.SCALE", "scales"),
        ("import loose_folder.scales", "loose_folder.scales.SCALE", "loose_folder"),
        ("from __main__ import SCALE", "SCALE", "__main__"),
        ("import scales, tests", "scales.SCALE, tests", "scales, tests"),
    ]:
        with subtests.test(line), pytest.raises(SpecError) as caught:
            require_installed("mine.py", f"{line}\n\nx = {used}\n")
        assert str(caught.value) == (
            f"mine.py must use installed packages only, got {said}: put its code into mine.py, or install it as a "
            "package (pip install, without -e)"
        )


def test_installed_code_is_taken(subtests, beside) -> None:
    for text in [
        "import json, sys, numpy as np, torch.nn.functional as F\n\nx = json, sys, np, F\n",
        "import service, trainables\nfrom search_spaces.space import Real\n\nx = service.Fourier, Real, trainables\n",
        "try:\n    import not_there_at_all as faster\nexcept ImportError:\n    faster = None\n",
        "from scales import SCALE\n\nstudy = SCALE\n",
    ]:
        with subtests.test(text):
            require_installed("mine.py", text)


def test_ctrl_c_while_a_file_runs_is_no_mistake_of_the_file() -> None:
    with pytest.raises(KeyboardInterrupt):
        load("slow.py", "raise KeyboardInterrupt\n")


def test_two_threads_parse_at_the_same_time() -> None:
    """Each collection of garbage gives the other thread a turn in the middle of a tree, at another depth of calls."""
    texts = [path.read_text() for path in sorted(Path("trainables/encodings").glob("*.py"))]
    found: list[str] = []

    def parse(depth: int) -> None:
        if depth:
            return parse(depth - 1)
        found.extend(_said(lambda text=text: fingerprint(text)) for text in texts)

    def yield_turn(phase: str, info: dict) -> None:
        time.sleep(0)

    before = gc.get_threshold()
    threads = [threading.Thread(target=parse, args=(depth,)) for depth in (3, 30, 60)]
    try:
        gc.set_threshold(50, 5, 5)
        gc.callbacks.append(yield_turn)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.callbacks.remove(yield_turn)
        gc.set_threshold(*before)
    assert sorted(found) == sorted(3 * [fingerprint(text) for text in texts])


def _said(parse: Callable[[], str]) -> str:
    try:
        return parse()
    except SystemError as error:
        return str(error)
