"""The catalogue of studies: each has a smoke budget, and says what was published and what it costs."""

import re
from pathlib import Path

import pytest

from search_spaces import library
from search_spaces.claim import NoWorse
from search_spaces.study import Ablation, Search
from search_spaces.words import rough_time
from service import api
from service.planning.run_options import RunOptions
from trainables.recipe.cost import estimate_cost

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


STUDIES = {name: library.find(name) for name in library.names()}
LARGE = {  # their plans take most of the time: many arms, or models of many small blocks
    "attention-distance", "attention-parts", "concat-places", "concat-transfer", "concat-vs-add", "cpvt-backbones",
    "cpvt-encodings", "distillation", "edge-in-value", "encodings", "gabor-channels", "gabor-depth", "gabor-fit", "gap",
    "peg-count", "peg-forms", "peg-frozen", "peg-kernel", "peg-padding", "realistic", "resolution", "rope-vit",
}  # fmt: skip


def test_every_study_says_what_each_of_its_budgets_costs() -> None:
    wrong = []
    for name, study in STUDIES.items():
        if study.family == "sweeps" or not {*study.minutes} | {*study.gpu_hours} == {*study.budgets} >= {"smoke"}:
            wrong.append(f"{name}: costs of budgets")
        if {*study.gpu_hours} != {budget for budget in study.budgets if budget.startswith(("paper", "gpu"))}:
            wrong.append(f"{name}: hours of a GPU")
        guessed = {budget: " (an estimate)" for budget in study.not_run}
        times = {budget: rough_time(minutes) + guessed.get(budget, "") for budget, minutes in study.minutes.items()}
        cost = ", ".join(f"{budget} {time}" for budget, time in times.items()) + " on 2 cores"
        if study.gpu_hours:
            cost += "; " + ", ".join(f"{budget} {hours:g} GPU-hours" for budget, hours in study.gpu_hours.items())
        if f"Cost: {cost}." not in " ".join(note(name).split()):
            wrong.append(f"{name}: the note does not say the same: {cost}")
    assert wrong == []


@pytest.mark.parametrize("large", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_hours_of_a_gpu_that_a_study_states_are_what_plan_predicts(large: bool, tmp_path: Path) -> None:
    assert {name for name, study in STUDIES.items() if study.gpu_hours} >= LARGE
    wrong = {}
    for name, study in STUDIES.items():
        for budget, hours in study.gpu_hours.items() if (name in LARGE) == large else ():
            _, estimate = api.plan(study.at(budget), RunOptions(home=str(tmp_path)))
            if estimate.gpu_hours != pytest.approx(hours, rel=0.05):
                wrong[name, budget] = (hours, estimate.gpu_hours)
    assert wrong == {}


def test_every_study_has_published_numbers_or_says_that_there_are_none() -> None:
    wrong = []
    for name, study in STUDIES.items():
        of_paper = study.family in ("thesis", "irpe", "concat", "cpvt", "gabor")
        silent = "no number published" not in " ".join((study.expected, *study.gaps))
        if not study.published and of_paper and study.claims and silent:
            wrong.append((name, "says nothing"))
        wrong += [
            (name, one)
            for one in study.published
            if not (one.source and re.search(r"table \d|README|figure \d", one.source))
        ]
    assert wrong == []


def test_a_claim_with_a_source_names_a_place_in_the_paper_or_is_ours() -> None:
    place = r"ours: |(table|figure) \d|[A-Z\d]\.\d: |the note: |README: "
    claims = [(name, claim) for name, study in STUDIES.items() for claim in study.claims if claim.source]
    assert [one for one in claims if not re.search(place, one[1].source)] == []


def test_a_smoke_budget_judges_nothing() -> None:
    assert [name for name, study in STUDIES.items() if study.claims and not study.budgets["smoke"].gap] == []


def test_no_published_number_shares_an_axis_with_scores_of_other_data() -> None:
    wrong = {}
    for name, study in STUDIES.items():
        kinds = {
            budget: study.at(budget).study.base.data.kind
            for budget, size in study.budgets.items()
            if not size.gap and any(one.same_data for one in study.published)
        }
        if len(set(kinds.values())) > 1:
            wrong[name] = kinds
    assert wrong == {}


def test_the_searches_are_compared_with_random_points_and_with_the_papers(subtests) -> None:
    for name in SEARCHES:
        with subtests.test(str(name)):
            study = STUDIES[name]
            assert isinstance(study.plan, Search)
            assert study.plan.rival
            assert study.plan.first, "what the paper has is tried first"
            for budget in ("cpu", "images"):
                if budget in study.budgets:
                    edition = study.at(budget)
                    assert edition.study.seeds >= 3
                    assert edition.study.plan.trials > len(study.plan.first), "the search proposes points of its own"
                    assert not study.budgets[budget].gap


def test_a_part_of_cifar_10_is_a_budget() -> None:
    for name in ON_IMAGES:
        edition = STUDIES[name].at("images")
        base = edition.study.base
        assert base.data.kind == "cifar10", name
        assert 5_000 <= base.data.image_counts.train <= 10_000, name
        assert edition.study.seeds >= 3, name
        assert estimate_cost(base).memory_bytes < 2 * 2**30, name


def test_the_tables_of_the_thesis_have_both_read_outs_and_five_seeds(subtests) -> None:
    for name in ["direction", "distance", "absolute", "color-shift"]:
        with subtests.test(str(name)):
            edition = STUDIES[name].at("cpu")
            assert isinstance(edition.study.plan, Ablation)
            assert edition.study.seeds >= 5
            pools = {arm.name: arm.recipe.model.pool for arm in edition.arms()}
            for encoding in ("none", "absolute", "sinusoidal", "learnable sinusoidal", "fourier", "relative"):
                assert (pools[f"{encoding}, token"], pools[f"{encoding}, mean"]) == ("token", "avg")


def test_the_paper_budgets_of_cpvt_are_deit_tiny_as_table_9_and_10_have_it() -> None:
    for name in CPVT:
        base = STUDIES[name].at("paper").study.base
        assert (base.model.embed_dim, base.model.depth, base.model.num_heads) == (192, 12, 3), name
        assert (base.data.size, base.shapes[0].rows, base.model.pool) == ((3, 224, 224), 14, "token"), name
        assert (base.optimizer.epochs, base.optimizer.batch_size, base.augment.kind) == (300, 1024, "deit"), name
        assert STUDIES[name].budgets["paper"].gap, f"{name}: its images are not ImageNet's"


def test_the_paper_budgets_of_the_concat_paper_train_its_models_as_deit(subtests) -> None:
    for name in ["concat-vs-add", "attention-distance", "concat-similarity", "logit-terms"]:
        with subtests.test(str(name)):
            study = STUDIES[name]
            sizes = {"vit": (384, 12), "cait": (192, 36), "convit": (432, 12), "tnt": (384, 12)}
            for arm in study.at("paper").arms():
                model, optimizer = arm.recipe.model, arm.recipe.optimizer
                if model.kind in sizes:
                    assert (model.embed_dim, model.depth) == sizes[model.kind]
                assert getattr(model, "drop_path", 0.0) == (0.1 if model.kind == "vit" else 0.0)
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
    study = study.model_copy(update={"claims": (*study.claims, NoWorse("best", "random", 0.02))})
    small, whole = study.at("smoke").study, study.at("cpu").study
    assert (small.plan.rival, whole.plan.rival) == (False, True)
    assert [tuple(claim.names) for claim in small.claims] == [("best",)]
    assert [tuple(claim.names) for claim in whole.claims] == [("best",), ("best", "random")]


def test_a_size_of_photographs_has_no_claims_about_chance() -> None:
    for name in ("peg-kernel", "cpvt-encodings"):
        study = STUDIES[name]
        position, photographs = (
            [claim.kind for claim in study.at(budget).study.claims] for budget in ("cpu", "images")
        )
        assert "at_chance" in position
        assert photographs == [kind for kind in position if kind != "at_chance"]
