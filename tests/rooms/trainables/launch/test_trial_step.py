"""A recipe is tried before anything is spent: every kind passes, and each mistake of an own encoding is found."""

import re
from pathlib import Path

import numpy as np
import pytest

from search_spaces import library
from search_spaces.study import Ablation
from tests.rooms.trainables.data.own_data import SHAPES
from trainables.launch.trial_step import TrialStepError, try_step
from trainables.recipe import Recipe, kinds

HEAD = """
from pydantic import Field
from trainables.encodings import CodeSpec, HeadsSpec, Param, normal, zeros

"""
RAMP = (
    HEAD
    + '''
class Ramp(CodeSpec):
    """Row times a slope. Source: this test."""

    kind: str = "mine.py:Ramp"

    def params(self, dim, grid):
        return {"slope": Param((dim,), normal(0.02))}

    def code(self, p, at):
        return at.prefixed(at.y[:, None] * p("slope"))
'''
)
SCALE = (
    HEAD
    + '''
from dataclasses import replace
from typing import ClassVar


class Ramp(HeadsSpec):
    """Queries times a number a head. Source: this test."""

    kind: str = "mine.py:Ramp"
    accepts_fewer_queries: ClassVar[bool] = True
    modifies_qk: ClassVar[bool] = True

    def params(self, widths, grid, depth):
        return {"slope": Param((widths.heads,), normal(0.5))}

    def terms(self, p, at):
        return (p("slope"),)

    def heads(self, h, terms, block):
        return replace(h, q=h.q * terms[0][:, None, None])
'''
)


def own(text, **values):
    put = {path.replace("__", "."): value for path, value in values.items()}
    return Recipe().put({"encoding": {"kind": "mine.py:Ramp", "source": text}, **put})


def what_a_step_reads(recipe):
    """Recipes that differ elsewhere, in their optimizer or in their number of images, take the same step."""
    data = recipe.data
    parts = (recipe.model, recipe.encoding, recipe.auxiliary, recipe.teacher, recipe.augment)
    return str([*parts, recipe.trainable, data.size, data.outputs, data.metric])


def test_every_kind_can_take_a_step():
    for kind in set(kinds.nodes()["encoding"]) - {"composed"}:
        for pool in ("token", "avg"):
            assert try_step(Recipe().put({"encoding.kind": kind, "model.pool": pool})) == [], kind


@pytest.mark.parametrize("numbers", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_arm_of_the_studies_can_take_a_step(numbers):
    """Of the arms that differ in numbers alone, in a width or a kernel, one is tried in the fast tests."""
    different = {}
    for name in library.names():
        study = library.find(name)
        arms = study.at().arms() if isinstance(study.plan, Ablation) else []
        for label, recipe in [("base", study.base), *((arm.name, arm.recipe) for arm in arms)]:
            read = what_a_step_reads(recipe)
            different.setdefault(read if numbers else re.sub(r"\d+", "", read), (f"{name}: {label}", recipe))
    assert {where: said for where, recipe in different.values() if (said := try_step(recipe))} == {}


def test_an_own_encoding_passes():
    assert try_step(own(RAMP)) == []
    assert try_step(own(RAMP, model__depth=2, model__pool="avg", optimizer__precision="bfloat16")) == []


def test_mistakes_are_found_with_their_line(subtests):
    for before, after, said in [
        ('p("slope")', 'p("slop")', r"must name one of slope; did you mean slope\? \(mine\.py, line 18\)"),
        (
            "at.prefixed(at.y[:, None] * p",
            "(at.y[:, None] * p",
            r"got shape \(64, \d+\); at\.prefixed\(code\) adds the rows",
        ),
        ("at.y[:, None] *", "torch.rand(64, 64) + at.y[:, None] *", "outputs that are the same when called twice"),
        ('p("slope"))', 'p("slope") / 0.0 * 0.0)', "must give a finite loss at its initial weights, got a loss of nan"),
        ("at.prefixed(at.y[:, None] * p", "at.prefixed(at.y[:3, None] * p", "must match the size|shape|size of tensor"),
        (
            "        return at.prefixed",
            "        boom\n        return at.prefixed",
            r"NameError: .*boom.* \(mine\.py, line 18\)",
        ),
    ]:
        with subtests.test(f"{before}, {after}"):
            assert before in RAMP
            with pytest.raises(TrialStepError, match=said):
                try_step(own(RAMP.replace("class Ramp", "import torch\n\n\nclass Ramp").replace(before, after)))


def test_a_tensor_on_the_cpu_is_said_and_no_other():
    """No GPU is needed. What needs values is not computed without them."""
    alone = "torch.arange(64, device=%s)[:, None]"
    cpu = "a tensor must be made where the others are (device=at.xy.device), got one on the CPU, which a GPU refuses"
    for code, said in [
        (f"at.prefixed({alone % repr('cpu')} * p('slope'))", [f"{cpu} (mine.py, line 18)"]),
        ("torch.ones(65, 1, dtype=at.y.dtype) @ p('slope')[None]", [f"{cpu} (mine.py, line 18)"]),
        (f"at.prefixed({alone % 'at.y.device'} * p('slope'))", []),
        ("at.prefixed(at.y[:, None] * p('slope') * (2.0 if p('slope').sum() > 0 else 1.0))", []),
        ("at.prefixed(at.y[:, None] * p('slope') * torch.tensor(2.0))", []),
    ]:
        text = RAMP.replace("class Ramp", "import torch\n\n\nclass Ramp")
        assert try_step(own(text.replace('at.prefixed(at.y[:, None] * p("slope"))', code))) == said, code


def test_a_parameter_that_nothing_reads_is_said():
    text = RAMP.replace('{"slope": ', '{"idle": Param((3,), zeros()), "slope": ')
    assert try_step(own(text)) == ["encoding.Ramp.idle gets no gradient: nothing reads it"]


def test_a_false_promise_about_fewer_queries_is_found():
    """The class token's row alone would be computed otherwise than among all rows: a wrong answer without a word."""
    assert try_step(own(SCALE)) == []
    wrong = SCALE.replace("h.q * terms", "h.q.shape[2] * h.q * terms")
    with pytest.raises(TrialStepError, match="the same for the rows that are read as for all rows"):
        try_step(own(wrong))


def test_an_encoding_that_remembers_is_found():
    wrong = RAMP.replace("        return at", "        seen.append(1)\n        return len(seen) * at")
    wrong = wrong.replace("class Ramp", "seen = []\n\n\nclass Ramp")
    with pytest.raises(TrialStepError, match=r"outputs that are the same (when called twice|for )"):
        try_step(own(wrong))


READS = RAMP.replace("class Ramp", "import numpy as np\nTABLE = np.load('table.npy')\n\n\nclass Ramp").replace(
    "at.y[:, None]", "float(open('scale.txt').read()) * at.y[:, None]"
)
UNCOUNTED = "which counts for no answer: if it changes, nothing is trained again. So write its numbers into mine.py"


def test_a_file_that_an_own_encoding_reads_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("table.npy", np.ones(3))
    Path("scale.txt").write_text("2")
    recipe = own(READS)
    for _ in range(2):  # also if the module was run before
        assert [said.partition(";")[0] for said in try_step(recipe)] == [
            f"mine.py reads {name}, {UNCOUNTED}" for name in ("table.npy", "scale.txt")
        ]
    assert try_step(own(RAMP.replace("class Ramp", "from sklearn.datasets import load_digits\n\n\nclass Ramp"))) == []


def test_a_file_that_own_images_are_read_from_is_said_where_no_fingerprint_is_declared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("seed.txt").write_text("7")
    text = SHAPES.replace("rng = np.random.default_rng(0)", "rng = np.random.default_rng(int(open('seed.txt').read()))")
    with_one = text.replace("    radius: int", "    fingerprint: ClassVar = 'seed 7'\n    radius: int")
    said, none = (try_step(Recipe().put({"data": {"kind": "mine.py:Shapes", "source": t}})) for t in (text, with_one))
    assert said == [f"mine.py reads seed.txt, {UNCOUNTED}; a data set declares a fingerprint of it"]
    assert none == []
