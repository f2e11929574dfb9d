"""A space is legal everywhere, and `coordinates` is the inverse of `point`."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search_spaces.plans.grid import grid, is_finite, without_points
from search_spaces.space import Above, Choice, Integer, Real, Space, Subset, probes
from search_spaces.study import Edition, Search, Study
from trainables.backbones import ViT
from trainables.encodings import PEG, Composed, Fourier, OwnEncoding
from trainables.recipe import Recipe
from trainables.spec import SpecError

BASE = Recipe(model=ViT(depth=3), encoding=Composed(parts=(Fourier(), PEG())))
SPACE = Space(
    domains={
        "encoding.parts.0.gamma": Real(low=0.1, high=40, log=True),
        "encoding.parts.0.hidden": Integer(low=8, high=64, step=8),
        "encoding.parts.1.places": Subset(of=(-1, 0, 1)),
        "optimizer.lr": Real(low=1e-4, high=1e-2),
        "optimizer.weight_decay": Above(other="optimizer.lr", factor=Real(low=2, high=8, log=True)),
    }
)
BRANCHES = Space(
    domains={"encoding.kind": Choice(options=("none", "fourier", "peg")), "optimizer.lr": Real(low=1e-4, high=1e-2)},
    given={
        "encoding.kind": {
            "fourier": {
                "encoding.gamma": Real(low=0.1, high=40, log=True),
                "encoding.hidden": Choice(options=(16, 32)),
            },
            "peg": {"encoding.kernel": Integer(low=3, high=9, step=2)},
        }
    },
)
CASES = [(SPACE, BASE), (BRANCHES, Recipe())]


@given(st.sampled_from(CASES), st.integers(0, 2**32))
@settings(max_examples=80)
def test_coordinates_are_the_inverse_of_point(case, seed: int) -> None:
    space, base = case
    chance, asked = random.Random(seed), {}

    def ask(name, coordinate):
        assert name not in asked, "a coordinate is asked once"
        asked[name] = coordinate.draw(chance)
        assert coordinate.holds(asked[name])
        return asked[name]

    values = space.point(base, ask)
    back = space.coordinates(base, values)
    assert list(back) == list(asked)
    for name, (coordinate, value) in back.items():
        assert value == (pytest.approx(asked[name], rel=1e-12) if isinstance(value, float) else asked[name])
        assert coordinate.holds(value)
    assert space.point(base, lambda name, _: back[name][1]).keys() == values.keys()
    assert space.opens(values)
    space.require_point(base, values, "here")
    base.put(values)


def test_names_carry_the_kind_of_their_node() -> None:
    names = [*SPACE.coordinates(BASE, next(probes(SPACE, BASE)))]
    assert names[:2] == ["encoding.parts.0.fourier.gamma", "encoding.parts.0.fourier.hidden"]
    assert names[2:5] == [f"encoding.parts.1.peg.places.{place}" for place in (-1, 0, 1)]
    point = {"encoding.kind": "fourier", "encoding.gamma": 2.0, "encoding.hidden": 16, "optimizer.lr": 1e-3}
    named = BRANCHES.coordinates(Recipe(), point)
    assert list(named) == [
        "encoding.kind",
        "encoding.fourier.gamma",
        "encoding.fourier.hidden",
        "optimizer.adamw.lr",
    ]


def test_a_product_and_a_subset_reach_the_recipe_the_factors_the_sampler() -> None:
    answers = {"optimizer.adamw.lr": 0.01, "optimizer.adamw.weight_decay": 4.0, "encoding.parts.1.peg.places.0": True}
    values = SPACE.point(BASE, lambda name, c: answers.get(name, c.ends()[0]))
    assert values["optimizer.weight_decay"] == pytest.approx(0.04)
    assert values["encoding.parts.1.places"] == [0]
    assert SPACE.point(BASE, lambda name, c: c.ends()[0])["encoding.parts.1.places"] == []


def test_probes_visit_both_ends_of_everything() -> None:
    points = list(probes(BRANCHES, Recipe()))
    rates = [point["optimizer.lr"] for point in points]
    assert (min(rates), max(rates)) == (1e-4, 1e-2)
    assert {point["encoding.kind"] for point in points} == {"none", "fourier", "peg"}
    gammas = [point["encoding.gamma"] for point in points if "encoding.gamma" in point]
    assert (min(gammas), max(gammas)) == (0.1, 40)
    assert points == list(probes(BRANCHES, Recipe()))


def test_a_log_scale_spreads_evenly() -> None:
    drawn = [Real(low=0.1, high=10, log=True).draw(random.Random(seed)) for seed in range(400)]
    assert 0.4 < sum(value < 1 for value in drawn) / 400 < 0.6
    assert all(0.1 <= value <= 10 for value in drawn)
    assert math.isclose(Real(low=0.1, high=10, log=True).ends()[1], 10)


def test_pinning_a_kind_keeps_what_was_given_for_it() -> None:
    pinned = BRANCHES.pinned({"encoding.kind": "fourier"})
    assert list(pinned.domains) == ["encoding.gamma", "encoding.hidden", "optimizer.lr"]
    assert pinned.given == {}
    assert list(BRANCHES.pinned({"encoding.kind": "none"}).domains) == ["optimizer.lr"]
    assert BRANCHES.pinned({"encoding.kind": "none", "optimizer.lr": 0.1}) is None
    inner = BRANCHES.pinned({"encoding.gamma": 2.0})
    assert list(inner.given["encoding.kind"]["fourier"]) == ["encoding.hidden"]


def test_a_factor_stands_over_a_pinned_path_too() -> None:
    pinned = SPACE.pinned({"optimizer.lr": 0.005})
    base = BASE.put({"optimizer.lr": 0.005})
    values = pinned.point(base, lambda name, c: 4.0 if "decay" in name else c.ends()[0])
    assert values["optimizer.weight_decay"] == pytest.approx(0.02)
    assert pinned.coordinates(base, values)["optimizer.adamw.weight_decay"][1] == pytest.approx(4.0)


REAL = Real(low=1, high=2)


def test_spaces_that_are_none_are_refused(subtests) -> None:
    for make, said in [
        (lambda: Real(low=2, high=1), r"low must be below high \(1.0\), got 2"),
        (lambda: Real(low=0, high=1, log=True), r"low must be positive on a log scale, got 0"),
        (lambda: Integer(low=1, high=8, step=2), r"step must be a divisor of high - low \(7\), got 2"),
        (lambda: Above(other="a", factor=Real(low=1, high=2)), r"factor\.low must be above 1, got 1"),
        (lambda: Choice(options=()), r"options"),
        (lambda: Space(domains={}), r"domains must be at least one path"),
        (
            lambda: Space({"optimizer.lr": (5e-4, 1e-2)}),
            r"^optimizer\.lr must be Real\(0\.0005, 0\.01\), got \(0\.0005, ",
        ),
        (
            lambda: Space({"a": [1, 8]}),
            r"^a must be Real\(1, 8\) or Integer\(1, 8\) or Choice\(\[1, 8\]\), got \[1, 8\]$",
        ),
        (
            lambda: Search({"optimizer.lr": REAL}),
            r"^space must be Space\(\{\.\.\.\}\) around its domains, such as that of optimizer\.lr, got ",
        ),
        (lambda: Space({"a": ("x", "y")}), r"^a must be Choice\(\['x', 'y'\]\), got \('x', 'y'\)$"),
        (lambda: Space({"a": 0.1}), r"^domains\.a must be one of Real, Integer, Choice, Subset, Above, got 0\.1$"),
        (lambda: Space(domains={"a": REAL}, given={"a": {}}), r"given\.a must be a path with a Choice"),
        (
            lambda: Space(domains={"a": Choice(options=("x",))}, given={"a": {"y": {"b": REAL}}}),
            r"given\.a must be one of x, got 'y'",
        ),
        (
            lambda: Space(domains={"b": Above(other="a", factor=Real(low=2, high=3)), "a": REAL}),
            r"b\.other must be a path that is open before it, got 'a'",
        ),
        (
            lambda: Space(
                domains={"k": Choice(options=("x", "y")), "a": REAL},
                given={"k": {"x": {"b": Above(other="a", factor=Real(low=2, high=3))}}},
            ),
            r"b\.other must be a path that is open before it, got 'a'",
        ),
        (
            lambda: Space(
                domains={"k": Choice(options=("x", "y")), "b": Above(other="a", factor=Real(low=2, high=3))},
                given={"k": {"x": {"a": REAL}}},
            ),
            r"b\.other must be a path that is open before it, got 'a'",
        ),
    ]:
        with subtests.test(str(make)), pytest.raises(SpecError, match=said):
            make()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"encoding.kind": "fourier", "optimizer.lr": 1e-3},
            r"first must be points with encoding.kind, encoding.gamma",
        ),
        ({"encoding.kind": "none", "optimizer.lr": 1e-3, "encoding.gamma": 2.0}, r"first must be points with enc"),
        (
            {"encoding.kind": "none", "optimizer.lr": 0.1},
            r"first\.optimizer\.lr must be a value that the space has, got",
        ),
        (
            {"encoding.kind": "peg", "optimizer.lr": 1e-3, "encoding.kernel": 4},
            r"first\.encoding\.kernel must be a val",
        ),
    ],
)
def test_points_outside_are_refused(values: dict, said: str) -> None:
    class Holder(Recipe):
        def model_post_init(self, _) -> None:
            BRANCHES.require_point(Recipe(), values, "first")

    with pytest.raises(SpecError, match=said):
        Holder()


OWN = """
from trainables.encodings import EncodingSpec


class Wave(EncodingSpec):
    kind: str = "own.py:Wave"
    length: float = 2.0


class Step(EncodingSpec):
    kind: str = "own.py:Step"
"""


def test_kinds_of_ones_own_may_be_chosen(tmp_path, monkeypatch) -> None:
    """Their source comes along, also to where the file is not; an edited file is the same question."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    length = {"encoding.length": Real(low=1, high=8)}
    kinds = Choice(options=("fourier", "own.py:Wave", "own.py:Step"))
    searched = Space(domains={"encoding.kind": kinds}, given={"encoding.kind": {"own.py:Wave": length}})
    first = {"encoding.kind": "own.py:Wave", "encoding.length": 4.0}
    study = Study(name="own", question="?", base=Recipe(), plan=Search(space=searched, first=(first,)))
    (tmp_path / "own.py").write_text(OWN + "# edited")
    edited = study.plan.space.sources | {"own.py:Wave": OWN + "# edited"}
    other = study.put({"plan.space.sources": edited})
    (tmp_path / "own.py").unlink()
    edition = Edition.read(study.at().plain())
    assert edition == study.at()
    assert edition.definition == other.at().definition
    assert edition.trial(0, first).recipe.encoding == OwnEncoding(kind="own.py:Wave", source=OWN, length=4.0)
    assert edition.trial(1, {"encoding.kind": "own.py:Step"}).recipe.encoding.kind == "own.py:Step"
    assert edition.trial(2, {"encoding.kind": "fourier"}).recipe == Recipe(encoding=Fourier())
    assert list(searched.coordinates(Recipe(), first)) == ["encoding.kind", "encoding.own.py:Wave.length"]
    pinned = study.at(set={"optimizer.lr": 0.01, "encoding.kind": "own.py:Wave"}).study.plan
    assert (list(pinned.space.domains), pinned.first) == (["encoding.length"], ({"encoding.length": 4.0},))


def test_a_kind_stands_before_what_lies_in_its_node() -> None:
    """Else the sampler would be asked for `model.vit.depth` and told of `model.cait.depth`."""
    depth, kind = Integer(low=1, high=3), Choice(options=("vit", "cait"))
    with pytest.raises(SpecError, match=r"model\.kind must be named before the paths inside its node \(model\.depth\)"):
        Space({"model.depth": depth, "model.kind": kind})
    wide = Choice(options=("none", "peg"))
    with pytest.raises(SpecError, match=r"model\.kind must be named before"):
        Space({"encoding.kind": wide, "model.kind": kind}, {"encoding.kind": {"peg": {"model.depth": depth}}})
    space = Space({"model.kind": kind, "model.depth": depth})
    point = {"model.kind": "cait", "model.depth": 2}
    assert list(space.coordinates(Recipe(), point)) == ["model.kind", "model.cait.depth"]


@pytest.mark.parametrize(
    "given",
    [
        {"encoding.kind": {"fourier": {"optimizer.lr": Real(low=0.1, high=0.2)}}},
        {
            "encoding.kind": {"fourier": {"encoding.gamma": Real(low=1, high=2)}},
            "model.depth": {"2": {"encoding.gamma": Real(low=3, high=4)}},
        },
    ],
)
def test_a_path_is_open_in_one_way(given: dict) -> None:
    domains = {
        "encoding.kind": Choice(options=("fourier", "peg")),
        "model.depth": Choice(options=(2, 3)),
        "optimizer.lr": Real(low=1e-4, high=1e-2),
    }
    with pytest.raises(SpecError, match=r"given\.\S+ must be a path that is open in no other way, got"):
        Space(domains, given)


def test_a_grid_has_every_combination_of_what_is_open() -> None:
    space = Space(
        domains={"encoding.kind": Choice(options=("none", "fourier", "peg")), "optimizer.lr": Real(0, 1, points=3)},
        given={
            "encoding.kind": {
                "fourier": {"encoding.gamma": Real(low=1, high=4, log=True, points=3)},
                "peg": {"encoding.places": Subset(of=(-1, 0))},
            }
        },
    )
    found = list(grid(space, Recipe()))
    kinds = [point["encoding.kind"] for point in found]
    assert [kinds.count(kind) for kind in ("none", "fourier", "peg")] == [3, 9, 12]
    assert len({str(point) for point in found}) == 24
    assert {point["optimizer.lr"] for point in found} == {0, 0.5, 1}
    assert sorted({point["encoding.gamma"] for point in found if "encoding.gamma" in point}) == [1, pytest.approx(2), 4]
    assert not is_finite(space)
    assert is_finite(Space({"model.depth": Integer(low=1, high=3)}))
    assert without_points(SPACE) == ["encoding.parts.0.gamma", "optimizer.lr", "optimizer.weight_decay"]


def test_what_an_option_may_be_is_said_in_the_words_of_all_types(subtests):
    for options, got in (
        ((None, 5), "options.0 {} None"),
        (([24], 1), "options.0 {} [24]"),
        ((1.0, math.nan), "options.1 {} nan"),
    ):
        with subtests.test(got), pytest.raises(SpecError) as caught:
            Choice(options)
        assert str(caught.value) == got.format("must be a boolean, a number or a word, got")
    with pytest.raises(SpecError, match=r"^low must be an integer, got 1\.0$"):
        Integer(1.0, 5)
