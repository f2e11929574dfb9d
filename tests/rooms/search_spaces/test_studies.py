"""The catalogue of studies: each has a smoke budget, and says what was published and what it costs."""

import re
from pathlib import Path

import pytest

from search_spaces import library
from search_spaces.study import Ablation, Search
from search_spaces.words import rough_time
from service import api
from service.planning.run_options import RunOptions
from trainables.recipe.cost import estimate_cost

NAMES = library.names()
SEARCHES = ("fourier-gamma", "irpe-abg", "irpe-ratio", "peg-placement", "concat-split")
CPVT = (
    "peg-kernel",
    "peg-count",
    "peg-forms",
    "peg-padding",
    "peg-frozen",
    "gap",
    "cpvt-encodings",
    "resolution",
)
ON_IMAGES = (
    *CPVT,
    "cpvt-backbones",
    "distillation",
    "gabor-fit",
    "gabor-depth",
    "gabor-channels",
    "image-classes",
    "irpe-abg",
    "irpe-mapping",
    "concat-split",
    "peg-placement",
    "learnable-sinusoidal",
    "fourier-pretraining",
    "realistic",
    "attention-parts",
    "edge-in-value",
    "concat-vs-add",
    "concat-places",
    "concat-similarity",
    "attention-distance",
    "logit-terms",
)


def note(name: str) -> str:
    file = Path(library.__file__).parent / "studies" / f"{name.replace('-', '_')}.py"
    return file.read_text()


@pytest.mark.parametrize("name", NAMES)
def test_every_study_says_what_each_of_its_budgets_costs(name: str) -> None:
    study = library.find(name)
    assert study.family != "sweeps"
    assert {*study.minutes} | {*study.gpu_hours} == {*study.budgets} >= {"smoke"}
    assert {*study.gpu_hours} == {budget for budget in study.budgets if budget.startswith("paper")}
    guessed = {budget: " (an estimate)" for budget in study.not_run}
    times = {budget: rough_time(minutes) + guessed.get(budget, "") for budget, minutes in study.minutes.items()}
    cost = ", ".join(f"{budget} {time}" for budget, time in times.items()) + " on 2 cores"
    if study.gpu_hours:
        cost += "; " + ", ".join(f"{budget} {hours:g} GPU-hours" for budget, hours in study.gpu_hours.items())
    assert f"Cost: {cost}." in " ".join(note(name).split()), "the note says the same"


@pytest.mark.parametrize("name", [name for name in NAMES if library.find(name).gpu_hours])
def test_the_hours_of_a_gpu_that_a_study_states_are_what_plan_predicts(name: str, tmp_path: Path) -> None:
    study = library.find(name)
    for budget, hours in study.gpu_hours.items():
        _, estimate = api.plan(study.at(budget), RunOptions(home=str(tmp_path)))
        assert estimate.gpu_hours == pytest.approx(hours, rel=0.05), f"{estimate.gpu_hours:.2g}"


@pytest.mark.parametrize("name", NAMES)
def test_every_study_has_published_numbers_or_says_that_there_are_none(name: str) -> None:
    study = library.find(name)
    if not study.published and study.family in ("thesis", "irpe", "concat", "cpvt", "gabor") and study.claims:
        assert "no number published" in " ".join((study.expected, *study.gaps))
    for one in study.published:
        assert one.source, one
        assert re.search(r"table \d|README|figure \d", one.source), one


@pytest.mark.parametrize("name", NAMES)
def test_a_claim_with_a_source_names_a_place_in_the_paper_or_is_ours(name: str) -> None:
    for claim in library.find(name).claims:
        place = r"ours: |(table|figure) \d|[A-Z\d]\.\d: |the note: |README: "
        assert not claim.source or re.search(place, claim.source), claim


@pytest.mark.parametrize("name", NAMES)
def test_a_smoke_budget_judges_nothing(name: str) -> None:
    study = library.find(name)
    if study.claims:
        assert study.budgets["smoke"].gap


@pytest.mark.parametrize("name", NAMES)
def test_no_published_number_shares_an_axis_with_scores_of_other_data(name: str) -> None:
    study = library.find(name)
    kinds = {
        budget: study.at(budget).study.base.data.kind
        for budget, size in study.budgets.items()
        if not size.gap and any(one.same_data for one in study.published)
    }
    assert len(set(kinds.values())) <= 1, kinds


@pytest.mark.parametrize("name", SEARCHES)
def test_the_searches_are_compared_with_random_points_and_with_the_papers(name: str) -> None:
    study = library.find(name)
    assert isinstance(study.plan, Search)
    assert study.plan.rival
    assert study.plan.first, "what the paper has is tried first"
    pairs = {(claim.who, getattr(claim, "than", None)): claim for claim in study.claims}
    assert pairs["best", "random"].kind == "no_worse"
    for budget in ("cpu", "images"):
        if budget in study.budgets:
            edition = study.at(budget)
            assert edition.study.seeds >= 3
            assert edition.study.plan.trials > len(study.plan.first), "the search proposes points of its own"
            assert not study.budgets[budget].gap


@pytest.mark.parametrize("name", ON_IMAGES)
def test_a_part_of_cifar_10_is_a_budget(name: str) -> None:
    edition = library.find(name).at("images")
    base = edition.study.base
    assert base.data.kind == "cifar10"
    assert 5_000 <= base.data.image_counts.train <= 10_000
    assert edition.study.seeds >= 3
    assert estimate_cost(base).memory_bytes < 2 * 2**30


@pytest.mark.parametrize("name", ["direction", "distance", "absolute", "color-shift"])
def test_the_tables_of_the_thesis_have_both_read_outs_and_five_seeds(name: str) -> None:
    edition = library.find(name).at("cpu")
    assert isinstance(edition.study.plan, Ablation)
    assert edition.study.seeds >= 5
    pools = {arm.name: arm.recipe.model.pool for arm in edition.arms()}
    for encoding in ("none", "absolute", "sinusoidal", "learnable sinusoidal", "fourier", "relative"):
        assert (pools[f"{encoding}, token"], pools[f"{encoding}, mean"]) == ("token", "avg")


@pytest.mark.parametrize("name", CPVT)
def test_the_paper_budgets_of_cpvt_are_deit_tiny_as_table_9_and_10_have_it(name: str) -> None:
    study = library.find(name)
    base = study.at("paper").study.base
    assert (base.model.embed_dim, base.model.depth, base.model.num_heads) == (192, 12, 3)
    assert (base.data.size, base.shapes[0].rows, base.model.pool) == ((3, 224, 224), 14, "token")
    assert (base.optimizer.epochs, base.optimizer.batch_size, base.augment.kind) == (300, 1024, "deit")
    assert study.budgets["paper"].gap, "its images are not ImageNet's"


@pytest.mark.parametrize("name", ["concat-vs-add", "attention-distance", "concat-similarity", "logit-terms"])
def test_the_paper_budgets_of_the_concat_paper_train_its_models_as_deit(name: str) -> None:
    study = library.find(name)
    sizes = {"vit": (384, 12), "cait": (192, 36), "convit": (432, 12), "tnt": (384, 12)}
    for arm in study.at("paper").arms():
        model, optimizer = arm.recipe.model, arm.recipe.optimizer
        if model.kind in sizes:
            assert (model.embed_dim, model.depth) == sizes[model.kind]
        assert optimizer.lr * optimizer.batch_size / optimizer.lr_base_size == pytest.approx(1e-3)
        assert (optimizer.epochs, optimizer.batch_size, optimizer.min_lr) == (300, 1024, 1e-5)
        assert (arm.recipe.data.size, arm.recipe.augment.kind) == ((3, 224, 224), "deit")
    assert study.budgets["paper"].gap, "its images are not ImageNet's"


@pytest.mark.parametrize("budget", ["smoke", "cpu", "paper"])
def test_a_model_is_fine_tuned_from_the_same_model_on_other_data(budget: str) -> None:
    for arm in library.find("concat-transfer").at(budget).arms():
        parent = arm.recipe.parent
        assert (parent is None) == arm.name.startswith("from scratch")
        if parent is not None:
            assert (parent.model, parent.encoding) == (arm.recipe.model, arm.recipe.encoding)
            assert parent.data.outputs != arm.recipe.data.outputs
            assert parent.data.image_counts.train > arm.recipe.data.image_counts.train or budget == "paper"


@pytest.mark.parametrize(("budget", "depth"), [("paper", (2, 2, 2, 2)), ("paper-small", (3, 4, 6, 3)),
                                               ("paper-medium", (3, 4, 18, 3))])  # fmt: skip
def test_pvt_has_the_published_depths_and_both_read_outs(budget: str, depth: tuple[int, ...]) -> None:
    arms = {arm.name: arm.recipe.model for arm in library.find("cpvt-backbones").at(budget).arms()}
    assert {arms[f"pvt, peg, {read_out}"].depths for read_out in ("GAP", "class token")} == {depth}
    assert (arms["pvt, peg, GAP"].pool, arms["pvt, peg, class token"].pool) == ("avg", "token")
    assert arms["swin, peg, GAP"].embed_dim == 96


def test_a_peg_fixed_as_learned_starts_from_the_run_of_the_learned_arm() -> None:
    for budget in ("smoke", "cpu", "paper"):
        arms = {arm.name: arm.recipe for arm in library.find("peg-frozen").at(budget).arms()}
        assert arms["fixed, learned"].parent.identity() == arms["learned"].identity()


def test_irpe_tries_the_published_ratio_and_the_notes_three_trials_first() -> None:
    study = library.find("irpe-abg")
    names = ("alpha", "beta", "gamma")
    first = [tuple(point[f"encoding.index.{name}"] for name in names) for point in study.plan.first]
    assert first == [(1.9, 3.8, 15.2), (2.5, 5.0, 20.0), (4.0, 5.0, 20.0), (2.5, 5.0, 10.0)]
    tied = library.find("irpe-ratio").base.put({"encoding.index.ratio": 1.9}).encoding.index
    assert (tied.alpha, tied.beta, tied.gamma) == pytest.approx(first[0])


def test_learning_curves_differ_in_the_number_of_images_alone() -> None:
    study = library.find("data-efficiency")
    arms = {arm.name: arm.recipe for arm in study.at("cpu").arms()}
    sizes = {name.rpartition(" ")[2] for name in arms}
    for encoding in {name.rpartition(" ")[0] for name in arms}:
        curve = [arms[f"{encoding} {size}"] for size in sizes]
        assert {recipe.data.train_size for recipe in curve} == {int(size) for size in sizes}
        assert len({recipe.put({"data.train_size": 100}) for recipe in curve}) == 1


def test_a_size_without_random_points_has_no_claims_about_them() -> None:
    study = library.find("fourier-gamma")
    small, whole = study.at("smoke").study, study.at("cpu").study
    assert (small.plan.rival, whole.plan.rival) == (False, True)
    assert [tuple(claim.names) for claim in small.claims] == [("best",)]
    assert [tuple(claim.names) for claim in whole.claims] == [("best",), ("best", "random")]


def test_a_size_of_photographs_has_no_claims_about_chance() -> None:
    for name in ("peg-kernel", "cpvt-encodings"):
        study = library.find(name)
        position, photographs = (
            [claim.kind for claim in study.at(budget).study.claims] for budget in ("cpu", "images")
        )
        assert "at_chance" in position
        assert photographs == [kind for kind in position if kind != "at_chance"]


def test_real_images_of_the_atlas_are_photographs_at_images_and_all_else_is_as_at_cpu() -> None:
    study = library.find("atlas")
    small, large = ({arm.name: arm.recipe for arm in study.at(budget).arms()} for budget in ("cpu", "images"))
    for name in small:
        if name.endswith("real images"):
            assert (small[name].data.kind, large[name].data.kind) == ("digits", "cifar10")
            assert (large[name].shapes[0].rows, large[name].data.skill) == (8, True)
        else:
            assert small[name] == large[name], "its answers are used again"
