"""Studies and their editions: budgets, one's own values, ids, what may change under an id."""

import json
from pathlib import Path

import pytest

from search_spaces.claim import AtLeast, Better
from search_spaces.space import Choice, Integer, Real, Space
from search_spaces.study import Ablation, Budget, Edition, Halving, Score, Search, Study
from search_spaces.words import short
from trainables.data import RedGreen
from trainables.encodings import Fourier
from trainables.recipe import FromFile, FromTrial, Recipe
from trainables.spec import SpecError

GAMMA = Real(low=0.1, high=40, log=True)


def search(**changes) -> Study:
    values = {
        "name": "reach",
        "question": "How far?",
        "base": Recipe(encoding=Fourier(gamma=2.5)),
        "plan": Search(
            space=Space({"encoding.gamma": GAMMA, "optimizer.lr": Real(low=1e-4, high=1e-1, log=True)}),
            first=({"encoding.gamma": 2.5, "optimizer.lr": 1e-3},),
            trials=12,
            stop=Halving(),
        ),
        "budgets": {
            "smoke": Budget({"optimizer.epochs": 2, "data.train_size": 500}, trials=3, seeds=2, stop=False),
            "cpu": Budget({"optimizer.epochs": 6}),
        },
    }
    return Study(**values | changes)


def arms(**changes) -> Study:
    plan = Ablation(
        arms={
            "none": {"encoding.kind": "none"},
            "near": {"encoding.kind": "fourier", "encoding.gamma": 1.0},
            "far": {"encoding": {"kind": "fourier", "gamma": 9.0}, "optimizer.lr": 0.01},
        },
        baseline="none",
    )
    return Study(**{"name": "arms", "question": "Which?", "base": Recipe(), "plan": plan} | changes)


def test_a_search_over_epochs_stops_no_point_early() -> None:
    """Of runs of other lengths the same epoch is an early one and the last."""
    space = Space({"optimizer.epochs": Integer(3, 40), "encoding.gamma": GAMMA})
    study = search(plan=Search(space=space, trials=12, stop=Halving()))
    said = r"plan.stop must be None where optimizer.epochs is searched, .*: give service.sweep\(..., stop=False\)"
    with pytest.raises(SpecError, match=said):
        study.at("cpu")
    assert study.at("smoke").study.plan.stop is None
    assert study.at("cpu", set={"optimizer.epochs": 9}).study.plan.stop == Halving()
    assert search(plan=Search(space=space, trials=12)).at("cpu").study.plan.space == space


def test_a_study_equals_its_own_json_at_every_budget() -> None:
    for study in (search(), arms()):
        assert Study.read(json.loads(json.dumps(study.plain()))) == study
        edition = study.at()
        assert Edition.read(json.loads(json.dumps(edition.plain()))) == edition
        assert Edition.read(edition.plain()).definition == edition.definition


def test_a_budget_gives_arms_and_values_of_axes_another_size() -> None:
    large = {"far": {"encoding.kind": "fourier", "encoding.gamma": 30.0, "encoding.hidden": 64}}
    study = arms(budgets={"paper": Budget({"data.image_size": 64}, arms=large), "cpu": Budget()})
    assert Study.read(json.loads(json.dumps(study.plain()))) == study
    small, paper = ({arm.name: arm.recipe for arm in study.at(name).arms()} for name in ("cpu", "paper"))
    assert (small["far"].encoding.gamma, small["far"].optimizer.lr) == (9.0, 0.01)
    assert (paper["far"].encoding.gamma, paper["far"].optimizer.lr) == (30.0, 0.001), "instead of its own values"
    assert paper["near"] == small["near"].put({"data.image_size": 64})
    assert study.at("paper").definition != study.at("cpu").definition
    axes = {"model": {"one": {}, "two": {"model.depth": 2}}, "pool": {"token": {}, "avg": {"model.pool": "avg"}}}
    crossed = arms(
        plan=Ablation(axes=axes, baseline="token", without=[{"model": "one", "pool": "avg"}]),
        budgets={"paper": Budget(arms={"two": {"model.depth": 12}})},
    )
    depths = {arm.name: arm.recipe.model.depth for arm in crossed.at("paper").arms()}
    assert depths == {"one, token": 1, "two, token": 12, "two, avg": 12}


def test_a_budget_sizes_arms_that_there_are() -> None:
    with pytest.raises(SpecError, match=r"budgets.paper.arms must be values of none, near, far, got \['tall'\]"):
        arms(budgets={"paper": Budget(arms={"tall": {}})})
    with pytest.raises(SpecError, match=r"budgets.paper.arms must be values of no arm: a search has none, got"):
        search(budgets={"paper": Budget(arms={"near": {}})})


def test_a_budget_sets_values_counts_and_stopping() -> None:
    edition = search().at("smoke")
    assert edition.id == "reach@smoke"
    assert (edition.study.seeds, edition.study.plan.trials, edition.study.plan.stop) == (2, 3, None)
    assert edition.study.base.data.train_size == 500
    assert search().at().id == "reach@cpu"
    assert search().at().study.plan.stop == Halving()
    assert arms().at().id == "arms@base"
    assert search().at("base").study.base.optimizer.epochs == 10
    with pytest.raises(SpecError, match=r"^reach has no budget 'huge'; known: base, smoke, cpu$"):
        search().at("huge")


def test_values_apply_in_order_budget_then_ones_own_then_the_point() -> None:
    edition = search().at("cpu", set={"optimizer.epochs": 8})
    assert edition.study.base.optimizer.epochs == 8
    point = edition.trial(4, {"encoding.gamma": 7.0, "optimizer.lr": 0.01})
    assert (point.recipe.encoding.gamma, point.recipe.optimizer.epochs) == (7.0, 8)
    budgets = {"cpu": Budget({"encoding.kind": "fourier", "encoding.gamma": 4.0, "encoding.hidden": 16})}
    plan = Ablation(arms={"slow": {"optimizer.lr": 1e-4}, "base": {}}, baseline="base")
    base = arms(plan=plan, budgets=budgets).at(set={"encoding.hidden": 8}).study.base
    assert base.encoding == Fourier(gamma=4.0, hidden=8)


def test_a_kind_of_ones_own_restarts_what_the_budget_said() -> None:
    plan = Ablation(arms={"slow": {"optimizer.lr": 1e-4}, "base": {}}, baseline="base")
    budgets = {"cpu": Budget({"encoding.kind": "fourier", "encoding.gamma": 4.0})}
    assert arms(plan=plan, budgets=budgets).at(set={"encoding.kind": "peg"}).study.base.encoding.kind == "peg"


def test_ones_own_values_make_another_edition_counts_do_not() -> None:
    one, same = search().at(set={"optimizer.epochs": 8}), search().at(set={"optimizer.epochs": 8}, seeds=9, trials=50)
    assert one.id == same.id
    assert one.id.startswith("reach@cpu~")
    assert len(one.mark) == 5
    assert search().at(set={"optimizer.epochs": 9}).id != one.id
    assert search().at(set={"optimizer.lr": 1}).id == search().at(set={"optimizer.lr": 1.0}).id
    assert search().at(seeds=9, trials=50).id == "reach@cpu"
    assert (same.study.seeds, same.study.plan.trials) == (9, 50)
    assert search().at(set={"optimizer.epochs": 8}, name="long").id == "reach@cpu~long"
    for name in ("../up", "a b", "v1.2"):
        with pytest.raises(SpecError, match=r"a version's name must be at most 60 letters, digits"):
            search().at(name=name)


def test_a_name_marks_another_edition_of_the_same_definition() -> None:
    edition = search().at(set={"optimizer.epochs": 8})
    assert edition.named("again").id == "reach@cpu~again"
    assert edition.named("again").definition == edition.definition
    assert edition.named("").id == search().at().id


def test_a_searched_path_can_be_pinned() -> None:
    study = search().at(set={"encoding.gamma": 3}).study
    assert list(study.plan.space.domains) == ["optimizer.lr"]
    assert study.base.encoding.gamma == 3.0
    assert study.plan.first == ({"optimizer.lr": 1e-3},)
    with pytest.raises(SpecError, match=r"reach searches only .*, so --set leaves nothing to search"):
        search().at(set={"encoding.gamma": 3, "optimizer.lr": 0.1})


def test_pinning_a_kind_leaves_its_own_first_points() -> None:
    space = Space(
        {"encoding.kind": Choice(options=("fourier", "peg"))},
        {"encoding.kind": {"fourier": {"encoding.gamma": GAMMA}, "peg": {"encoding.kernel": Choice(options=(3, 5))}}},
    )
    first = ({"encoding.kind": "peg", "encoding.kernel": 3}, {"encoding.kind": "fourier", "encoding.gamma": 2.0})
    study = search(plan=Search(space=space, first=first)).at(set={"encoding.kind": "fourier"}).study
    assert study.plan.first == ({"encoding.gamma": 2.0},)
    assert study.base.encoding == Fourier()


@pytest.mark.parametrize("path", ["encoding.kind", "encoding.gamma"])
def test_a_value_that_every_arm_overrides_is_refused(path: str) -> None:
    base = Recipe(encoding=Fourier())
    value = "peg" if path.endswith("kind") else 3.0
    with pytest.raises(SpecError, match=rf"^{path} is set by every arm of arms; give another path$"):
        arms(base=base).at(set={path: value})


def test_a_value_that_one_arm_leaves_alone_is_taken() -> None:
    assert arms().at(set={"optimizer.lr": 0.5}).arms()[1].recipe.optimizer.lr == 0.5
    assert arms().at(set={"optimizer.lr": 0.5}).arms()[2].recipe.optimizer.lr == 0.01


def test_the_definition_is_what_changes_a_run_or_chooses_a_trial() -> None:
    before = search().at("base").definition
    free = [
        search(question="Really?", claims=(AtLeast("best", 0.9),), keep=(), seeds=7, family="other"),
        search(budgets={}),
        search(plan=Search(**{**dict(search().plan), "trials": 99})),
    ]
    assert all(study.at("base").definition == before for study in free)
    ways = [{"stop": None}, {"stop": Halving(factor=2)}, {"first": ()}, {"space": Space({"encoding.gamma": GAMMA})}]
    bound = [search(plan=Search(**{**dict(search().plan), "first": (), **way})) for way in ways]
    bound += [search(base=Recipe(encoding=Fourier(gamma=2.5), data=RedGreen(task="absolute")))]
    assert all(study.at("base").definition != before for study in bound)
    other = arms(plan=Ablation(arms=arms().plan.arms, baseline="near"))
    assert other.at().definition == arms().at().definition


def test_mistakes_are_told_in_one_sentence(subtests) -> None:
    for make, said in [
        (lambda: search(claims=(AtLeast("gamma", 0.9),)), r"claims must be about one of best, first, got 'gamma'"),
        (lambda: search(claims=(Better("best", "random"),)), "claims must be about one of best, first, got 'random'"),
        (lambda: arms(claims=(Better("near", "fare"),)), r"claims must be about one of none, near, far, got 'fare'"),
        (lambda: search(score=Score("val/r2")), r"score\.metric must be 'val/accuracy' for red_green, got 'val/r2'"),
        (lambda: Score("test/accuracy"), r"metric must be a metric such as 'val/accuracy', got 'test/accuracy'"),
        (lambda: search(name="Reach"), r"name must be lower-case words joined by '-', at most 80 letters, got 'Reach'"),
        (lambda: Ablation(arms={"a": {}}, baseline="b"), r"baseline must be one of the arms a, got 'b'"),
        (lambda: arms(seeds=0), r"seeds must be a number of seeds from 1 to 1,000, got 0"),
        (lambda: arms(seeds=1001), r"seeds must be a number of seeds from 1 to 1,000, got 1001"),
        (lambda: arms().at(trials=3), r"arms is an ablation of 3 arms; trials are for searches"),
        (lambda: search().at(set={"encoding.gama": 1}), r"no field 'encoding.gama'; known: kind, gamma, features"),
        (lambda: search().at(set={"encoding.gamma": 0}), r"encoding.gamma must be a positive length in patches, got 0"),
        (
            lambda: search(plan=Search(space=Space({"encoding.gamma": Real(low=-1, high=4)}))),
            r"encoding.gamma must be a positive length in patches, got -",
        ),
        (
            lambda: search(plan=Search(space=Space({"encoding.gamma": GAMMA}), first=({"encoding.gamma": 50},))),
            r"plan.first.encoding.gamma must be a value that the space has, got 50",
        ),
        (
            lambda: search(plan=Search(space=search().plan.space, first=({"encoding.gamma": 2.5},))),
            r"plan.first must be points with encoding.gamma, optimizer.lr, got \['encoding.gamma'\]",
        ),
    ]:
        with subtests.test(str(make)), pytest.raises(SpecError, match=said):
            make()


def test_trials_know_their_label_and_their_seeds() -> None:
    trial = search().at().trial(4, {"encoding.gamma": 2.345, "optimizer.lr": 0.01})
    assert (trial.label, trial.name) == ("4", "gamma=2.35 lr=0.01")
    assert [run.seed for run in trial.runs(3)] == [0, 1, 2]
    confirmed = type(trial)(**{**dict(trial), "role": "confirmation"})
    assert (confirmed.label, list(confirmed.seeds(2))) == ("c4", [1000, 1001])
    assert arms().at().arms()[1].name == "near"
    assert short({"encoding.parts.0.kernel": 3, "encoding.parts.1.kernel": 5}).startswith("encoding.parts.0.kernel=3")
    assert (short({}), short({"encoding.places": []}), short({"encoding.places": [-1, 2]})) == (
        "base",
        "places=none",
        "places=-1+2",
    )


def test_a_budget_reaches_the_parents() -> None:
    start = FromTrial(values={"data.task": "distance"}).plain()
    study = arms(plan=Ablation(arms={"base": {}, "from": {"init": start}}, baseline="base"))
    child = study.at(set={"optimizer.epochs": 4}).arms()[1].recipe
    assert child.parent.optimizer.epochs == 4
    assert child.parent.data.task == "distance"


def test_where_a_file_of_weights_lies_is_no_part_of_the_definition() -> None:
    def study(path: str, sha256: str = "0" * 64) -> Study:
        file = {"kind": "from_file", "path": path, "sha256": sha256}
        flat = {f"init.{name}": value for name, value in file.items()}
        parent = {"kind": "from_trial", "values": {"init": file}}
        forms = {"own": {}, "dict": {"init": file}, "flat": flat, "parent": {"init": parent}}
        rates = dict(zip(forms, (0.1, 0.2, 0.3, 0.4), strict=True))  # arms must be different recipes
        arms = {name: {**values, "optimizer.lr": rates[name]} for name, values in forms.items()}
        return Study(
            name="weights", question="?", base=Recipe(init=FromFile(path, sha256)),
            plan=Ablation(arms=arms, baseline="own"),
        )  # fmt: skip

    here, there = study("w.pt").at(), study("moved/w.pt").at()
    assert here.definition == there.definition
    assert "w.pt" not in str(here.definition)
    assert [arm.runs(1)[0].key for arm in here.arms()] == [arm.runs(1)[0].key for arm in there.arms()]
    assert study("w.pt", "1" * 64).at().definition != here.definition


@pytest.mark.parametrize(
    ("values", "score"),
    [({"data.task": "distance"}, "r2, 0"), ({"data.task": "direction4"}, "accuracy, 0.25")],
)
def test_arms_whose_scores_cannot_be_compared_are_refused(values: dict, score: str) -> None:
    base = r"^arm 'far': data must have the metric and the chance of the base \(accuracy, 0\.5\)"
    said = rf"{base}.*got {score}; with data\.skill true all data have the same$"
    with pytest.raises(SpecError, match=said):
        Study(name="mixed", question="?", base=Recipe(), plan=Ablation({"near": {}, "far": values}, "near"))


def test_points_whose_scores_cannot_be_compared_are_refused() -> None:
    space = Space({"data.task": Choice(options=("direction", "distance"))})
    with pytest.raises(SpecError, match=r"^data must have the metric and the chance of the base"):
        Study(name="mixed", question="?", base=Recipe(), plan=Search(space=space))


def test_a_grid_is_for_spaces_that_have_one() -> None:
    space = Space({"encoding.gamma": Real(low=0.1, high=1.0)})
    with pytest.raises(
        SpecError, match=r"sampler must be tpe or random where encoding\.gamma has no points, got 'grid'"
    ):
        Search(space=space, sampler="grid")
    wide = Space({"encoding.gamma": Real(low=0.1, high=1.0, points=101), "encoding.hidden": Integer(low=1, high=100)})
    plan = Search(space=wide, sampler="grid")
    with pytest.raises(SpecError, match=r"plan\.space must be of at most 10000 grid points, got 'more'"):
        Study(name="wide", question="?", base=Recipe().put({"encoding.kind": "fourier"}), plan=plan)


def test_a_sampler_belongs_to_the_definition_where_it_is_not_the_default() -> None:
    space = Space({"encoding.gamma": Real(low=0.1, high=1.0)})
    base = Recipe().put({"encoding.kind": "fourier"})
    tpe, blind = (
        Study(name="reach", question="?", base=base, plan=Search(space=space, sampler=sampler)).at()
        for sampler in ("tpe", "random")
    )
    assert "sampler" not in tpe.definition["plan"]
    assert blind.definition["plan"]["sampler"] == "random"


def test_a_budget_that_would_leave_the_home_or_be_another_edition_is_refused(subtests) -> None:
    """A budget is part of the id, which names a folder."""
    for name in ["../../x", "r.2", "", "CPU", "a b"]:
        with subtests.test(str(name)):
            plan = Ablation({"near": {}}, "near")
            with pytest.raises(SpecError, match=r"budgets.*must be named by lower-case words joined by '-'"):
                Study(name="one", question="?", base=Recipe(), plan=plan, budgets={name: Budget()})
            study = Study(name="one", question="?", base=Recipe(), plan=plan)
            with pytest.raises(SpecError, match="budget must be lower-case words"):
                Edition(budget=name, study=study)
            with pytest.raises(SpecError, match="mark must be"):
                Edition(budget="base", study=study, mark="/../x")


def test_equal_values_share_one_recipe_and_close_ones_do_not() -> None:
    found = search().at()
    one, same, other = (found.study.recipe({"encoding.gamma": gamma}) for gamma in (3.0, 3.0, 3.0 + 1e-15))
    assert one is same
    assert other.encoding.gamma != one.encoding.gamma
    assert found.study.recipe({"encoding.gamma": 3}) == one
    changed = search().at(set={"optimizer.lr": 0.5})
    assert changed.study.recipe({"encoding.gamma": 3.0}).optimizer.lr == 0.5
    again = found.study.counted(seeds=7)
    assert again.recipe({"encoding.gamma": 3.0}) is one, "to count otherwise builds nothing again"
    values = {"encoding.kind": "toys.py:Spiral"}
    toys = (Path(__file__).parents[2] / "laws" / "toys.py").read_text()
    sources = [toys, toys + "# edited\n"]
    edited = [found.study.base.variant({**values, "encoding.source": source}) for source in sources]
    assert [recipe.encoding.source for recipe in edited] == sources, "an edited file is another recipe"


def test_what_was_found_belongs_to_a_budget_and_changes_no_definition() -> None:
    plain = search(budgets={"cpu": Budget()})
    told = search(budgets={"cpu": Budget()}, found={"cpu": "3 seeds: 0.99"})
    assert told.at("cpu").definition == plain.at("cpu").definition
    with pytest.raises(SpecError, match=r"found must be by budget \(cpu\), got \['images'\]"):
        search(budgets={"cpu": Budget()}, found={"images": "0.5"})


def test_names_fit_into_a_line_and_a_path(subtests):
    """A study's name becomes a folder's; an arm's is the head of a row, and no command to the terminal."""
    for name in ("x" * 81, "a b", "", "a\n"):
        with subtests.test(name), pytest.raises(SpecError, match=r"^name must be lower-case words"):
            Study(name=name, question="?", base=Recipe(), plan=Ablation({"a": {}}, "a"))
    said = r"^arms must be named in one line .* got '[ -~]*'$"
    for arm in ("", " ", "a\nb", "x" * 201, "\x1b[2J", "\x9b2J", "a\u2028b"):
        with subtests.test(repr(arm)), pytest.raises(SpecError, match=said):
            Ablation({arm: {}}, arm)
    assert Ablation({"gabor [q], é": {}}, "gabor [q], é").baseline
    with pytest.raises(SpecError, match=r"^a version's name must be at most 60 letters"):
        Study(name="a", question="?", base=Recipe(), plan=Ablation({"a": {}}, "a")).at(name="x" * 61)
