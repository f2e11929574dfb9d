"""A preset has the numbers of its paper, and gives the same recipe as `--set` with each of them."""

import pytest
import torch
from timm.scheduler import CosineLRScheduler

from search_spaces.presets import DEIT, DEIT3, GABOR, PRESETS
from search_spaces.study import Ablation, Budget, Study
from service import api
from service.cli import app
from trainables.backbones import CaiT, ViT
from trainables.data import Cifar10
from trainables.data.augment import DeiT, ThreeAugment
from trainables.encodings import Gabor
from trainables.recipe import LAMB, BinaryCrossEntropy, FromTimm, Recipe
from trainables.spec import SpecError
from trainables.training.optimizer import rate

BASE = Recipe(data=Cifar10(), model=ViT(depth=4))
PLAN = Ablation({"none": {}, "table": {"encoding.kind": "learnable"}}, "none")
STUDY = Study(name="presets", question="?", base=BASE, plan=PLAN, budgets={"cpu": Budget({"optimizer.epochs": 5})})
ONE_BLOCK = Study(name="one", question="?", base=Recipe(data=Cifar10()), plan=PLAN)


def test_deits_numbers_are_those_of_the_papers():
    """CPVT table 10, column DeiT, and its appendix: 5e-4 x batch / 512; RandAugment 9/0.5."""
    recipe = BASE.put(DEIT)
    spec = recipe.optimizer
    assert (spec.epochs, spec.batch_size, spec.schedule, spec.weight_decay) == (300, 1024, "cosine", 0.05)
    assert spec.warmup * spec.epochs == pytest.approx(5)
    assert (spec.clip_grad, spec.betas, spec.eps, spec.ema_decay) == (None, (0.9, 0.999), 1e-8, 0.99996)
    assert recipe.model.drop_path == 0.1
    assert recipe.augment == DeiT(
        scale=0.08, flip=0.5, rand="rand-m9-mstd0.5-inc1", erase=0.25, mixup=0.8, cutmix=1.0, smoothing=0.1, repeats=3
    )


def test_deit_3s_numbers_are_those_of_its_command():
    """README_revenge.md, deit_small_patch16_LS; augment.py and models_v2.py of the same repository."""
    recipe = BASE.put(DEIT3)
    assert recipe.optimizer == LAMB(
        lr=4e-3, min_lr=1e-5, batch_size=2048, epochs=800, schedule="cosine", warmup=5 / 800, weight_decay=0.05,
        clip_grad=1.0, betas=(0.9, 0.999), eps=1e-8, ema_decay=0.99996,
    )  # fmt: skip
    assert recipe.loss == BinaryCrossEntropy(target_threshold=0.0, smoothing=0.0)
    assert (recipe.model.drop_path, recipe.model.layer_scale) == (0.05, 1e-4)
    assert recipe.augment == ThreeAugment(
        scale=0.08, flip=0.5, color_jitter=0.3, mixup=0.8, cutmix=1.0, smoothing=0.0, repeats=3
    )


@pytest.mark.parametrize(("values", "highest", "lowest", "rising"), [(DEIT, 1e-3, 1e-5, 5), (GABOR, 1e-3, 1e-5, 0)])
def test_rates_rise_and_fall_as_published(values, highest, lowest, rising):
    """From timm's scheduler, an update a step; after the warm-up ours is a step ahead. Concat 4.1 and Gabor 5 too."""
    start = {"init": FromTimm("deit_tiny_patch16_224.fb_in1k"), "encoding": Gabor()}
    spec = BASE.put({**start, **values}).optimizer
    steps, warm = 10 * spec.epochs, 10 * rising
    rates = [rate(spec, step, steps) for step in range(steps)]
    assert max(rates) == pytest.approx(highest, rel=2e-4)
    assert rates[:warm] == pytest.approx([highest * (step + 1) / warm for step in range(warm)])
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=highest)
    theirs = CosineLRScheduler(optimizer, t_initial=steps - warm + 1, lr_min=lowest)
    assert rates[warm:] == pytest.approx([theirs._get_lr(step + 1)[0] for step in range(steps - warm)])
    assert rates[-1] == pytest.approx(lowest, rel=0.01)


def test_gabors_numbers_are_those_of_the_paper():
    """Section 5.1: 512 images a step, weight decay 0.05, smoothing 0.1, survival 0.9, 50 epochs, no warm-up."""
    recipe = BASE.put({"init": FromTimm("deit_tiny_patch16_224.fb_in1k"), "encoding": Gabor(), **GABOR})
    spec = recipe.optimizer
    assert (spec.batch_size, spec.weight_decay, spec.epochs, spec.warmup, spec.ema_decay) == (512, 0.05, 50, 0, None)
    assert (recipe.augment.smoothing, recipe.model.drop_path, recipe.trainable) == (0.1, 0.1, "position")


def test_a_preset_is_as_many_values_put_before_ones_own():
    own = {"optimizer.epochs": 7, "model.depth": 2}
    edition = api.resolve(STUDY, budget="cpu", set=own, preset="deit")
    assert edition == STUDY.at("cpu", set={**DEIT, **own})
    assert edition.study.base == BASE.put({**DEIT, **own})
    assert edition.study.base.optimizer.epochs == 7
    assert set(edition.own_paths) == {*DEIT, *own}
    assert api.resolve(STUDY, preset="deit").study.base.optimizer.epochs == 300, "also over the budget's"
    assert DEIT["optimizer.epochs"] == 300


def test_a_preset_goes_on_a_model_of_ones_own():
    """A user's kind resets its node to the defaults of that kind; then the preset's values for the node apply."""
    own = {"model.kind": "timm", "model.name": "deit_tiny_patch16_224", "data.image_size": 224}
    found = api.resolve(STUDY, set=own, preset="deit").study.base.model
    assert found == ViT(embed_dim=192, depth=12, num_heads=3, patch_size=16, drop_path=0.1)


def test_a_value_that_does_not_fit_is_refused_with_where_it_comes_from(subtests):
    for study, own, said in [
    (ONE_BLOCK, {}, r"model\.drop_path must be 0 where depth is 1, .*, got 0\.1 "
     r"\(the preset deit sets it; a value of your own for model\.drop_path replaces it\)"),
    (STUDY, {"model": CaiT()}, r"no field 'model\.drop_path'; .* \(the preset deit sets it; it cannot be used here\)"),
    (STUDY, {"data.kind": "red_green"}, r"augment\.kind must be none for red_green images, .*, got 'deit' "
     r"\(the preset deit sets it; a value of your own for augment\.kind replaces it\)"),
    (STUDY, {"optimizer.min_lr": 1.0}, r"optimizer\.min_lr must be at most the highest rate \(0\.001\), got 1\.0"),
    (STUDY, {"optimizer.lrr": 1.0}, r"no field 'optimizer\.lrr'; known: [^()]*"),
]:  # fmt: skip
        with subtests.test(f"{study}, {own}"), pytest.raises(SpecError, match=rf"^{said}$"):
            api.resolve(study, set=own, preset="deit")


def test_what_does_not_fit_can_be_replaced():
    assert api.resolve(ONE_BLOCK, set={"model.drop_path": 0.0}, preset="deit").study.base.model == ViT()


def test_an_unknown_preset_is_refused_with_those_that_are_known():
    with pytest.raises(SpecError, match=r"^the preset must be one of deit, deit3, gabor, got 'diet'$"):
        api.resolve(STUDY, preset="diet")
    with pytest.raises(SpecError, match=r"preset must be left out beside presets@cpu"):
        api.resolve(STUDY.at(), preset="deit")


def test_frozen_position_needs_weights():
    study = Study(name="g", question="?", base=BASE.put({"encoding": Gabor()}), plan=Ablation({"a": {}}, "a"))
    said = r"^trainable must be .* where init gives no weights .* \(the preset gabor sets it; "
    with pytest.raises(SpecError, match=said):
        api.resolve(study, preset="gabor")


def test_the_commands_have_the_option(subtests):
    said = r"must be 0 where depth is 1.* \(the preset deit sets it"
    for verb in ("run", "plan", "show", "submit --address http://head:8265"):
        with subtests.test(verb), pytest.raises(SpecError, match=said):
            app([*verb.split(), "fourier-gamma", "--preset", "deit"], standalone_mode=False)


def test_every_preset_is_put_on_a_recipe_as_it_is():
    start = {"init": FromTimm("deit_tiny_patch16_224.fb_in1k"), "encoding": Gabor()}
    for values in PRESETS.values():
        recipe = BASE.put({**start, **values})
        assert Recipe.read(recipe.plain()) == recipe
        for path, value in values.items():
            if path.endswith(".kind"):  # which begins its node anew
                assert recipe.get(path) == value
            else:
                assert recipe.plain() == recipe.put({path: value}).plain()
