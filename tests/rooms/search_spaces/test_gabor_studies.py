"""The studies of the Gabor paper: one frozen backbone for all arms, and the paper's sizes and counts of parameters."""

import pytest
import torch

from search_spaces import library
from search_spaces.studies import _gabor
from trainables.recipe import FromTimm, Recipe, Run
from trainables.recipe.cost import position_parameters
from trainables.training.checkpoint import read
from trainables.training.loop import train

ON_TINY = ("attention-parts", "edge-in-value", "gabor-depth", "gabor-channels", "image-classes")
GABOR = (*ON_TINY, "gabor-fit")
QUERY_KEY, EDGES = 64_512, 13_824


def recipes(name: str, budget: str) -> dict[str, Recipe]:
    return {arm.name: arm.recipe for arm in library.find(name).at(budget).arms()}


def test_all_arms_stand_on_one_backbone_and_only_position_learns() -> None:
    for name in GABOR:
        for budget in library.find(name).budgets:
            arms = recipes(name, budget)
            (parent,) = {recipe.parent for recipe in arms.values()}
            assert parent.encoding.kind == ("learnable" if name == "gabor-fit" else "none"), (name, budget)
            assert parent.trainable == "all", (name, budget)
            for arm, recipe in arms.items():
                still = arm == "none" or (name == "gabor-fit" and arm == "LE")
                assert recipe.trainable == ("all" if still else "position"), (name, budget, arm)
                assert (recipe.optimizer.lr <= 1e-12) == still, (name, budget, arm)
            learnt = {recipe.optimizer for recipe in arms.values() if recipe.trainable == "position"}
            assert len(learnt) == 1, (name, budget)


def test_an_arm_that_must_stay_as_it_is_does(tmp_path) -> None:
    small = {"data.train_size": 40, "data.val_size": 20, "data.test_size": 20, "model.depth": 2}
    start = _gabor.BASE.put({**small, "init": _gabor.backbone(_gabor.NONE, lr=0.002, epochs=1)})
    run = Run(recipe=start.put(_gabor.WITHOUT), seed=0)
    (parent,) = run.needs()
    for folder in ("parent", "child"):
        (tmp_path / folder).mkdir()
    (before,) = train(parent, tmp_path / "parent")
    (after,) = train(run, tmp_path / "child", parents={"init": tmp_path / "parent" / "weights.pt"})
    assert after.values["test/accuracy"] == before.values["test/accuracy"]
    weights, same = (read(tmp_path / folder / "weights.pt") for folder in ("parent", "child"))
    for name, value in weights.items():
        torch.testing.assert_close(same[name], value, rtol=0, atol=1e-9)


def test_the_paper_budget_is_deit_tiny_without_its_table() -> None:
    """Section 5.1: 1e-5 for 50 epochs; then frozen, position from 1e-3 to 1e-5 in 50 epochs of 512 images a step."""
    for name, arm, recipe in [(study, *pair) for study in ON_TINY for pair in recipes(study, "paper").items()]:
        where = f"{name}: {arm}"
        assert (recipe.model.embed_dim, recipe.model.depth, recipe.model.num_heads) == (192, 12, 3), where
        assert (recipe.shapes[0].rows, recipe.model.pool, recipe.model.drop_path) == (14, "token", 0.1), where
        parent = recipe.parent.optimizer
        assert (parent.lr, parent.min_lr, parent.epochs) == (1e-5, 1e-5, 50), where
        assert recipe.parent.init == FromTimm("deit_tiny_patch16_224.fb_in1k", part="backbone"), where
        for one in (recipe, recipe.parent):
            assert (one.optimizer.batch_size, one.optimizer.weight_decay, one.optimizer.warmup) == (512, 0.05, 0), where
        if arm != "none":
            assert (recipe.optimizer.lr, recipe.optimizer.min_lr, recipe.optimizer.epochs) == (1e-3, 1e-5, 50), where
    gaps = {name: library.find(name).budgets["paper"].gap for name in ON_TINY}
    assert all(gaps.values()), f"their images are not ImageNet's: {gaps}"


@pytest.mark.parametrize(("name", "counts"), [
    ("gabor-fit", {"LE, new": 151_296, "G+E": 10_752, "G": 7_680, "E": 4_608}),
    ("attention-parts", {"APE": 37_824, "4": QUERY_KEY + EDGES, "2, 3, 4": QUERY_KEY + EDGES}),
    ("edge-in-value", {
        "APE": 37_824, "E in v": EDGES, "LE in q, k": 907_776, "LE in q, k; E in v": 907_776 + EDGES,
        "G+E in q, k": QUERY_KEY, "G+E in q, k, v": 96_768, "G+E in q, k; E in v": 78_336,
    }),
    ("gabor-depth", {"APE": 37_824, **{f"1 to {n}": n * 6_528 for n in (3, 5, 6, 9, 12)}}),
])  # fmt: skip
def test_the_paper_budgets_have_the_published_counts_of_parameters(name: str, counts: dict[str, int]) -> None:
    """Tables 1, 3, 4 and 5: 151K, 10.7K, 7.6K, 4.6K; 37.8k, 78.3k; 13.8k, 907.8k, 921.6k, 64.5k, 96.8k; 19.6k ..."""
    arms = recipes(name, "paper")
    assert {arm: position_parameters(arms[arm]) for arm in counts} == counts


def test_tables_are_fitted_in_base_models_in_ten_epochs() -> None:
    for budget, name in (("paper", "deit_base_patch16_224.fb_in1k"), ("paper-vit", "vit_base_patch16_224")):
        recipe = recipes("gabor-fit", budget)["G+E"]
        assert (recipe.model.embed_dim, recipe.model.depth, recipe.model.num_heads) == (768, 12, 12)
        assert (recipe.optimizer.epochs, recipe.optimizer.lr, recipe.optimizer.batch_size) == (10, 1e-3, 512)
        assert recipe.parent.init.name.startswith(name)


def test_edges_are_in_the_values_of_every_arm_with_position_in_queries_and_keys() -> None:
    """Tables 3, 5 and figure 11; table 4 alone has arms without, which is its question."""
    for name in ("attention-parts", "gabor-depth", "gabor-channels"):
        for arm, recipe in recipes(name, "cpu").items():
            if arm in ("none", "APE", "E in v", "0"):
                continue
            rest, edges = recipe.encoding.parts
            assert (edges.form, edges.injection.places) == ("edge", ("value",)), arm
            assert edges.injection.blocks == rest.injection.blocks, arm
            assert not rest.injection.shared
            assert not edges.injection.shared
