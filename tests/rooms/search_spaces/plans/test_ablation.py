"""Arms as all combinations of axes, and leaving one part out."""

import json
from itertools import product

import pytest

from search_spaces.claim import Better
from search_spaces.plans.ablation import leave_one_out
from search_spaces.study import Ablation, Edition, Study
from trainables.recipe import Recipe
from trainables.spec import SpecError, digest

ENCODING = {"none": {}, "fourier": {"encoding.kind": "fourier"}, "table": {"encoding.kind": "learnable"}}
READ_OUT = {"class token": {}, "mean pooling": {"model.pool": "avg"}}
AXES = {"encoding": ENCODING, "read-out": READ_OUT}


def crossed(**changes) -> Ablation:
    return Ablation(**{"axes": AXES, "baseline": "none"} | changes)


def study(plan: Ablation, **changes) -> Study:
    return Study(**{"name": "crossed", "question": "Which?", "base": Recipe(), "plan": plan} | changes)


def test_arms_are_all_combinations_in_the_order_of_the_axes() -> None:
    plan = crossed()
    assert plan.arms == {
        f"{one}, {other}": first | second
        for (one, first), (other, second) in product(ENCODING.items(), READ_OUT.items())
    }
    assert list(plan.arms)[:3] == ["none, class token", "none, mean pooling", "fourier, class token"]
    assert plan.combination("fourier, mean pooling") == {"encoding": "fourier", "read-out": "mean pooling"}


def test_an_arm_is_compared_within_the_other_axes() -> None:
    plan = crossed()
    for arm in plan.arms:
        encoding, read_out = arm.split(", ")
        assert plan.compared_with(arm) == (None if encoding == "none" else f"none, {read_out}")
        assert plan.is_baseline(arm) == (encoding == "none")
    other = crossed(baseline="mean pooling")
    assert other.compared_with("fourier, class token") == "fourier, mean pooling"
    assert (other.baseline_axis, other.other_axes) == ("read-out", ["encoding"])
    assert plan.partners([*plan.arms][1:]) == {f"{one}, mean pooling": "none, mean pooling" for one in [*ENCODING][1:]}
    assert plan.grouped() == [f"{one}, {other}" for other in READ_OUT for one in ENCODING]
    assert other.grouped() == list(other.arms)


def test_a_node_that_an_axis_gives_whole_stays_the_same_in_all_arms() -> None:
    whole = {"kind": "vit", "depth": 3}
    axes = {"model": {"small": {}, "deep": {"model": whole}}, "pool": {"avg": {"model.pool": "avg"}, "token": {}}}
    for _ in range(2):
        plan = study(Ablation(axes=axes, baseline="small")).at().study.plan
        assert {name: Recipe().put(values).model.pool for name, values in plan.arms.items()} == {
            "small, avg": "avg", "small, token": "token", "deep, avg": "avg", "deep, token": "token",
        }  # fmt: skip
    assert whole == {"kind": "vit", "depth": 3}


def test_arms_given_one_by_one_are_all_compared_with_the_baseline() -> None:
    plan = Ablation({"b": {}, "a, with a comma": {"optimizer.lr": 0.1}}, "b")
    assert [plan.compared_with(arm) for arm in plan.arms] == [None, "b"]
    assert (plan.grouped(), plan.combination("b"), plan.is_baseline("b")) == (["b", "a, with a comma"], {}, True)


def test_combinations_can_be_left_out() -> None:
    plan = crossed(without=[{"encoding": "fourier", "read-out": "mean pooling"}])
    assert list(plan.arms) == [arm for arm in crossed().arms if arm != "fourier, mean pooling"]
    lonely = crossed(without=({"encoding": "none", "read-out": "mean pooling"},))
    assert lonely.compared_with("fourier, mean pooling") is None
    assert lonely.compared_with("fourier, class token") == "none, class token"
    assert all("mean" not in arm for arm in crossed(without=[{"read-out": "mean pooling"}]).arms)


def test_it_travels_as_json() -> None:
    made = study(crossed(without=[{"encoding": "table", "read-out": "mean pooling"}]))
    again = Study.read(json.loads(json.dumps(made.plain())))
    assert again == made
    assert again.plan.axes == AXES
    edition = made.at(set={"optimizer.epochs": 3})
    assert Edition.read(json.loads(json.dumps(edition.plain()))) == edition


def test_the_definition_is_that_of_the_arms() -> None:
    """So a study whose arms are rewritten as axes stays the same study, and what arms are compared with may change."""
    plain = study(Ablation(crossed().arms, "none, class token"))
    assert study(crossed()).at().definition == plain.at().definition
    assert study(crossed(baseline="class token")).at().definition == plain.at().definition
    assert [arm.runs(1)[0].key for arm in study(crossed()).at().arms()] == [
        arm.runs(1)[0].key for arm in plain.at().arms()
    ]


def test_definitions_of_plans_without_axes_stay() -> None:
    """The digest was taken before there were axes: it is part of the id of editions that people have."""
    plan = Ablation({"none": {}, "wave": {"encoding.kind": "fourier", "encoding.gamma": 2.0}}, "none")
    edition = study(plan, name="before").at(set={"optimizer.epochs": 7})
    assert edition.definition["plan"] == {"kind": "ablation", "arms": plan.arms}
    assert edition.id == f"before@base~{digest(edition.definition, 4)}" == "before@base~e973"
    assert plan.identity() == {"kind": "ablation", "arms": plan.arms, "baseline": "none"}
    old = {"kind": "ablation", "arms": plan.arms, "baseline": "none"}
    assert Ablation.read(old) == plan


def test_values_of_ones_own_meet_axes_as_they_meet_arms() -> None:
    assert study(crossed()).at(set={"model.depth": 2}).id.startswith("crossed@base~")
    with pytest.raises(SpecError, match=r"“none, class token” would no longer be what its name says"):
        study(crossed()).at(set={"encoding.gamma": 3.0, "encoding.kind": "fourier"})
    axes = {"rate": {"low": {"optimizer.lr": 1e-4}, "high": {"optimizer.lr": 1e-2}}, "read-out": READ_OUT}
    with pytest.raises(SpecError, match=r"^optimizer.lr is set by every arm of crossed; give another path$"):
        study(Ablation(axes=axes, baseline="low")).at(set={"optimizer.lr": 0.1})
    with pytest.raises(SpecError, match=r"got 'none, class token' and 'none, mean pooling' alike"):
        study(crossed()).at(set={"model.pool": "avg"})


def test_arms_that_look_alike_are_refused() -> None:
    """The letter é is one sign or two, by the system that typed it."""
    arms = {"caf\xe9": {}, "cafe\u0301": {"encoding.kind": "none"}}
    with pytest.raises(SpecError, match=r"^arms must have names .* to the eye, got 'caf\\xe9' and 'cafe\\u0301'$"):
        Ablation(arms=arms, baseline="caf\xe9")


def test_combinations_that_are_one_recipe_are_refused() -> None:
    """Their runs are shared, so their difference would be 0 whatever is true."""
    axes = {"encoding": ENCODING, "gamma": {"usual": {}, "near": {"encoding.gamma": 1.0}}}
    with pytest.raises(SpecError, match=r"arm 'none, near'.*no field 'encoding.gamma'"):
        study(Ablation(axes=axes, baseline="usual"))
    axes = {"encoding": ENCODING, "way": {"as it is": {}, "explicit": {"model.pool": "token"}}}
    said = r"^arms must be different recipes, got 'none, as it is' and 'none, explicit' alike"
    with pytest.raises(SpecError, match=said):
        study(Ablation(axes=axes, baseline="as it is"))


def test_claims_name_whole_arms() -> None:
    study(crossed(), claims=(Better("fourier, mean pooling", "none, mean pooling"),))
    with pytest.raises(SpecError, match=r"claims must be about one of none, class token.*got 'fourier'"):
        study(crossed(), claims=(Better("fourier", "none, mean pooling"),))


def test_mistakes_are_told_in_one_sentence(subtests) -> None:
    for make, said in [
        (lambda: Ablation(baseline="none"), r"arms must be given, or made of axes, one arm or more"),
        (lambda: crossed(arms={"a": {}}), r"arms must be left out beside axes, which make them, got 'a'"),
        (lambda: crossed(baseline="nine"), r"baseline must be a value of one axis .*mean pooling\), got 'nine'"),
        (
            lambda: crossed(axes=AXES | {"more": {"none": {}, "some": {"optimizer.lr": 0.1}}}),
            r"baseline must be a value of one axis .*, got 'none of encoding and more'",
        ),
        (
            lambda: crossed(axes={"a": {"none": {}, "b, c": {}}}),
            r"axes must be named in words without commas, got 'b, c'",
        ),
        (
            lambda: crossed(axes=AXES | {"rate": {"low": {"encoding": {"kind": "peg"}}}}),
            r"axes must be such that one axis sets encoding, got 'encoding and rate'",
        ),
        (lambda: crossed(without=[{"encoding": "nine"}]), r"without must be of values of the axes encoding, read-out"),
        (lambda: crossed(without=[{}]), r"without\.0"),
        (
            lambda: crossed(without=[{"encoding": "none"}]),
            r"without must be such that an arm can be compared with one of none, got 'none'",
        ),
        (lambda: Ablation({"a": {}}, "a", without=[{"a": "b"}]), r"without must be left out where there are no axes"),
        (lambda: crossed(axes={"encoding": "none"}), r"axes"),
        (lambda: study(crossed(axes=AXES | {"w": {"x": {"optimizer.l": 1}}})), r"arm 'none, .*no field 'optimizer.l'"),
    ]:
        with subtests.test(str(make)):
            with pytest.raises(SpecError, match=said) as caught:
                make()
            assert "\n" not in str(caught.value)


def test_leaving_one_out() -> None:
    base = Recipe().put({"encoding.kind": "peg", "model.depth": 2, "optimizer.ema_decay": 0.9})
    arms = leave_one_out({"PEG": {"encoding.kind": "none"}, "the average": {"optimizer.ema_decay": None}})
    made = study(Ablation(arms, "all"), base=base)
    recipes = {trial.name: trial.recipe for trial in made.at().arms()}
    assert list(recipes) == ["all", "without PEG", "without the average"]
    assert recipes["all"] == base
    assert recipes["without PEG"] == base.put({"encoding.kind": "none"})
    assert recipes["without the average"].encoding.kind == "peg"
    assert list(leave_one_out({"a": {"optimizer.lr": 1}}, everything="whole")) == ["whole", "without a"]
    with pytest.raises(SpecError, match=r"^parts.PEG must be the values that switch it off, got none$"):
        leave_one_out({"PEG": {}})
    with pytest.raises(SpecError, match=r"^parts.PEG must be the values that switch it off, got none$"):
        leave_one_out({"PEG": None})
    with pytest.raises(SpecError, match=r"^parts.PEG must be the values that switch it off, got 'none'$"):
        leave_one_out({"PEG": "none"})
    with pytest.raises(
        SpecError, match=r"^parts must be \{part: \{path: value\}\}, what switches each off, got \['PEG'\]$"
    ):
        leave_one_out(["PEG"])
    for name, words in (("all", r"\['all'\], got 'all'"), (3, r"\['3'\], got 3")):
        with pytest.raises(SpecError, match=rf"^arms must be a list of names, such as {words}$"):
            made.at(arms=name)
    with pytest.raises(SpecError, match=r"^a version's name must be at most 60 letters"):
        made.at(name=3)
