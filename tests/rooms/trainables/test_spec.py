"""Values that know their paths and say what decides a result; source as a value: what changes a fingerprint."""

import gc
import pickle
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pytest
from pydantic import Field, model_validator

from trainables.data import Folder
from trainables.recipe import FromFile, Recipe
from trainables.source import SourceError, fingerprint, load, require_installed
from trainables.spec import WHERE, LocusError, Spec, SpecError, digest, require


class Leaf(Spec):
    kind: Literal["leaf"] = Field(default="leaf", init=False)
    size: float = Field(default=1.0, gt=0, description="a positive size")
    folder: Annotated[str, WHERE] = "/here"


class Stone(Spec):
    kind: Literal["stone"] = Field(default="stone", init=False)
    weight: int = Field(default=3, ge=0, description="a weight of 0 or more")


class Tree(Spec):
    node: Annotated[Leaf | Stone, Field(discriminator="kind")] = Leaf()
    parts: tuple[Annotated[Leaf | Stone, Field(discriminator="kind")], ...] = Field(default=(), strict=False)
    name: str = "oak"

    @model_validator(mode="after")
    def _short(self):
        require(len(self.name) < 6, "name", "short", self.name)
        return self


def test_positional_values_follow_the_fields_and_skip_kind() -> None:
    assert Leaf(2.5) == Leaf(size=2.5)
    with pytest.raises(SpecError, match=r"Leaf takes at most 2 values \(size, folder\), got 3"):
        Leaf(1.0, "/a", "b")


def test_a_path_is_given_by_its_name_and_values_as_a_mapping(tmp_path) -> None:
    for path in (tmp_path, str(tmp_path)):
        with pytest.raises(SpecError, match=rf"^Folder must be given its path by name: Folder\(path='{tmp_path}'\)$"):
            Folder(path)
    file = tmp_path / "w.pt"
    assert FromFile(path=file, sha256="0" * 64) == FromFile(str(file), "0" * 64)
    for put in (Tree().put, Recipe().put):
        with pytest.raises(SpecError, match=r"^put must be given \{path: value\}, got 'name=ash'$"):
            put("name=ash")


def test_errors_name_the_path_the_value_and_what_is_legal(subtests) -> None:
    for values, sentence in [
        ({"node.size": 0}, "node.size must be a positive size, got 0"),
        ({"node.size": "2"}, "node.size must be a positive size, got '2'"),
        ({"node.size": float("nan")}, "node.size must be a positive size, got nan"),
        ({"node.sise": 1}, "no field 'node.sise'; known: kind, size, folder; did you mean size?"),
        ({"nodes.size": 1}, "no field 'nodes'; known: node, parts, name; did you mean node?"),
        ({"node.weight": 1}, "no field 'node.weight'; known: kind, size, folder"),
        (
            {"node": "ston"},
            "node must be a node with a kind (leaf, stone), got 'ston'; did you mean node.kind=stone, or "
            '{"kind": "stone"}?',
        ),
        ({"node": "twig"}, "node must be a node with a kind (leaf, stone), got 'twig'"),
        ({"node": [1, 2]}, "node must be one of Leaf, Stone, got [1, 2]"),
        ({"node": {"kind": "twig"}}, "node.kind must be one of leaf, stone, got 'twig'"),
        ({"node.kind": "twig"}, "node.kind must be one of leaf, stone, got 'twig'"),
        ({"node": {}}, "node.kind must be given"),
        ({"name": "sycamore"}, "name must be short, got 'sycamore'"),
        ({"parts": [{"kind": "stone", "weight": -1}]}, "parts.0.weight must be a weight of 0 or more, got -1"),
        ({"parts.0": 3}, "no field 'parts.0'; the list has 0 entries, counted from 0"),
        ({"node.size.more": 1}, "no field 'node.size'; known: kind, size, folder"),
    ]:
        with subtests.test(str(values)):
            with pytest.raises(SpecError) as caught:
                Tree().put(values)
            assert str(caught.value) == sentence
            again = pickle.loads(pickle.dumps(caught.value))
            assert type(again) is SpecError
            assert str(again) == sentence


def test_a_spec_error_is_no_value_error() -> None:
    assert issubclass(SpecError, LocusError)
    assert not issubclass(SpecError, ValueError)


def test_values_that_are_put_stay_as_they_were() -> None:
    """A node gets its defaults and what is put inside it; the value that was given is the caller's own."""
    node = {"kind": "leaf"}
    tree = Tree().put({"node": node, "node.size": 3.0})
    assert tree.node == Leaf(size=3.0)
    assert node == {"kind": "leaf"}


def test_putting_a_kind_starts_the_node_from_its_defaults() -> None:
    tree = Tree(node=Leaf(size=7.0))
    assert tree.put({"node.kind": "leaf"}).node == Leaf()
    assert tree.put({"node.weight": 5, "node.kind": "stone"}).node == Stone(weight=5)


def test_a_node_given_whole_starts_from_the_defaults_of_its_kind_too() -> None:
    class Pot(Spec):
        kind: Literal["pot"] = Field(default="pot", init=False)
        tree: Tree = Tree(node=Stone(7))

    class Garden(Spec):
        pot: Annotated[Pot | Leaf, Field(discriminator="kind")] = Leaf()

    planted = Garden().put({"pot": {"kind": "pot"}, "pot.tree.node.weight": 2})
    assert planted == Garden(pot=Pot(tree=Tree(node=Stone(2))))
    assert planted.identity() == Garden().put({"pot.kind": "pot", "pot.tree.node.weight": 2}).identity()
    given = {"kind": "pot", "tree": {"node": {"kind": "leaf", "size": 3}}}
    assert Garden().put({"pot": given}) == Garden(pot=Pot(tree=Tree(node=Leaf(3))))


def test_nodes_come_before_what_lies_in_them() -> None:
    values = {"parts.1.weight": 9, "parts.1.kind": "stone", "parts": [{"kind": "leaf"}, {"kind": "leaf"}]}
    assert Tree().put(values).parts == (Leaf(), Stone(weight=9))
    assert Tree().put({"node.size": 4.0, "node": Leaf(size=2.0)}).node == Leaf(size=4.0)


def test_put_leaves_the_old_value_alone_and_get_reads_paths() -> None:
    tree = Tree(parts=(Leaf(), Stone(weight=4)))
    assert tree.put({"parts.1.weight": 5}).get("parts.1.weight") == 5
    assert tree.get("parts.1.weight") == 4
    with pytest.raises(SpecError, match=r"no field 'node\.sise'; known: kind, size, folder"):
        tree.get("node.sise")
    with pytest.raises(SpecError, match=r"no field 'parts\.2'"):
        tree.get("parts.2.weight")


def test_identity_is_kinds_and_what_differs_from_the_defaults() -> None:
    assert Tree().identity() == {"node": {"kind": "leaf"}}
    said = Tree(node=Leaf(2, "/there"), parts=(Stone(),), name="elm").identity()
    assert said == {"node": {"kind": "leaf", "size": 2.0}, "parts": [{"kind": "stone"}], "name": "elm"}


def test_a_new_field_with_a_default_changes_no_identity() -> None:
    class Grown(Leaf):
        color: str = "green"

    assert Grown(size=2.0).identity() == Leaf(size=2.0).identity()
    assert Grown(color="red").identity() != Leaf().identity()


def test_int_and_float_of_one_number_are_one_value() -> None:
    assert Leaf(size=2) == Leaf(size=2.0)
    assert digest(Leaf(size=2).identity()) == digest(Leaf(size=2.0).identity())
    assert digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1})


def test_put_shares_the_nodes_that_stay_the_same() -> None:
    class Pair(Spec):
        one: Leaf = Leaf()
        other: Leaf = Leaf()

    pair = Pair()
    changed = pair.put({"one.size": 3.0})
    assert changed.other is pair.other
    assert changed.one is not pair.one
    assert changed == Pair(one=Leaf(size=3.0))


def test_nodes_that_are_equal_but_have_other_keys_are_not_shared() -> None:
    class Loose(Spec):
        value: int | float = 1

    class Holder(Spec):
        node: Loose = Loose()

    changed = Holder(node=Loose(value=2)).put({"node.value": 2.0})
    assert isinstance(changed.node.value, float)
    assert digest(changed.identity()) != digest(Holder(node=Loose(value=2)).identity())


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
