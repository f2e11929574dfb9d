"""Learning rates that fall from layer to layer: timm's factors, and what a step does with them."""

import pytest
import torch
from timm.models.deit import VisionTransformerDistilled
from timm.models.vision_transformer import VisionTransformer
from timm.optim import param_groups_layer_decay

from tests.anchors.backbones import ours, timms
from tests.rooms.trainables.training.small_runs import folder, small, whole_if_it_goes_on
from trainables.backbones import ViT
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings import IRPE, PEG, Composed, Fourier, Learnable
from trainables.recipe import AdamW, DRLoc, Recipe, Run
from trainables.recipe.code_digest import CodeDigests
from trainables.recipe.model_torch import build_model
from trainables.spec import SpecError
from trainables.training.checkpoint import WEIGHTS, read
from trainables.training.loop import build_model_with_weights, train
from trainables.training.loss import Objective
from trainables.training.optimizer import build_optimizer, set_rate
from trainables.training.parameters import no_decay

SIZES = {"embed_dim": 12, "depth": 3, "num_heads": 2, "patch_size": 4}


def timms_scales(model, decay):
    names = {parameter: name for name, parameter in model.named_parameters()}
    groups = param_groups_layer_decay(model, layer_decay=decay)
    return {names[parameter]: group["lr_scale"] for group in groups for parameter in group["params"]}


def scales(model, decay, **values):
    """The factors that the optimizer uses, by name."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    groups = build_optimizer(model, AdamW(layer_decay=decay, **values), no_decay(model)).param_groups
    return {names[parameter]: group["lr_scale"] for group in groups for parameter in group["params"]}


def vit_of_timm(pool):
    kind = VisionTransformerDistilled if pool == "distilled" else VisionTransformer
    read_out = {"global_pool": "avg", "class_token": False} if pool == "avg" else {}
    return kind(img_size=16, num_classes=3, **SIZES, **read_out)


@pytest.mark.parametrize("pool", ["token", "distilled", "avg"])
def test_a_vits_factors_are_timms(pool):
    model = PositionedViT(ViT(**SIZES, pool=pool), (3, 16, 16), 3, Learnable())
    expected = timms_scales(vit_of_timm(pool), 0.7)
    expected["encoding.learnable.table"] = expected.pop("pos_embed")
    assert scales(model, 0.7) == pytest.approx(expected, rel=1e-15)
    assert expected["encoding.learnable.table"] == pytest.approx(0.7**4)


@pytest.mark.parametrize("kind", ["cait", "convit"])
def test_the_factors_of_other_backbones_are_timms(kind):
    expected = timms_scales(timms(kind), 0.5)
    expected["encoding.learnable.table"] = expected.pop("pos_embed")
    assert scales(ours(kind, Learnable()), 0.5) == pytest.approx(expected, rel=1e-15)


def test_an_encoding_inside_blocks_has_the_rate_of_the_patches():
    encoding = Composed(parts=(Fourier(), PEG(places=(0, 1)), IRPE()))
    found = scales(build_model(Recipe(model=ViT(depth=3, num_heads=2), encoding=encoding)), 0.5)
    inside = {name: scale for name, scale in found.items() if name.startswith("encoding.")}
    assert len({name.split(".")[1] for name in inside}) == 3
    assert {*inside.values()} == {found["patch_embed.proj.weight"]} == {0.5**4}
    assert found["blocks.2.mlp.fc1.weight"] == found["norm.weight"] == 0.5
    assert found["head.weight"] == 1.0


def test_what_decays_does_not_change_and_a_loss_of_its_own_has_the_heads_rate():
    run = small(auxiliary=DRLoc(pairs=3, hidden=5), model__depth=2)
    objective = Objective(run, build_model(run.recipe))
    spec = AdamW(layer_decay=0.5, weight_decay=0.3)
    optimizer = build_optimizer(objective, spec, no_decay(objective))
    names = {parameter: name for name, parameter in objective.named_parameters()}
    groups = {names[p]: group for group in optimizer.param_groups for p in group["params"]}
    assert groups.keys() == {*names.values()}
    assert {name for name, group in groups.items() if group["weight_decay"] == 0} == no_decay(objective)
    assert {group["lr_scale"] for name, group in groups.items() if name.startswith("drloc.")} == {1.0}
    assert groups["model.blocks.0.attn.qkv.weight"]["lr_scale"] == 0.25
    set_rate(optimizer, 0.1)
    set_rate(optimizer, 0.2)
    assert {group["lr"] / group["lr_scale"] for group in groups.values()} == {0.2}


def test_the_first_step_of_a_run_has_these_rates(tmp_path):
    """Adam's first step is the rate times the gradient's sign, where eps is nothing and nothing decays."""
    values = {"weight_decay": 0.0, "eps": 1e-300, "schedule": "constant", "epochs": 1, "precision": "float64"}
    run = small(model__depth=2, data__train_size=16, **{f"optimizer__{name}": value for name, value in values.items()})
    after = {}
    for decay in (0.5, None):
        recipe = run.recipe.put({"optimizer.layer_decay": decay})
        list(train(Run(recipe, 0), folder(tmp_path, str(decay))))
        after[decay] = read(tmp_path / str(decay) / WEIGHTS)
    start = build_model_with_weights(run.recipe, 0).double().state_dict()
    for name, factor in {"patch_embed.proj.weight": 0.125, "blocks.0.mlp.fc1.weight": 0.25, "head.weight": 1.0}.items():
        moved, whole = (after[decay][name] - start[name] for decay in (0.5, None))
        assert whole.abs().max() == pytest.approx(0.01, rel=1e-9)
        assert torch.allclose(moved, factor * whole, rtol=1e-9, atol=0), name


def test_a_closed_run_goes_on_bit_for_bit(tmp_path):
    whole_if_it_goes_on(small(optimizer__layer_decay=0.6, model__depth=2), tmp_path, 2)


def test_backbones_without_one_order_are_refused(subtests):
    for kind in ["volo", "tnt", "pvt_v2", "twins", "swin"]:
        with (
            subtests.test(str(kind)),
            pytest.raises(
                SpecError, match=f"optimizer.layer_decay must be null where model.kind is {kind}, .* got 0.5"
            ),
        ):
            Recipe().put({"model.kind": kind, "data.image_size": 64, "optimizer.layer_decay": 0.5})


@pytest.mark.parametrize("factor", [0, 1.1, -0.5])
def test_other_factors_are_refused(factor):
    with pytest.raises(SpecError, match=r"optimizer.layer_decay must be a factor, 0 < factor <= 1, or null"):
        Recipe().put({"optimizer.layer_decay": factor})


def test_an_encoding_alone_has_no_layers():
    values = {"init": {"kind": "from_trial", "values": {}}, "trainable": "position", "encoding.kind": "fourier"}
    with pytest.raises(SpecError, match=r"optimizer.layer_decay must be null where trainable is position"):
        Recipe().put({**values, "optimizer.layer_decay": 0.5})


def test_its_file_counts_where_it_is_set():
    plain, put = Recipe(), Recipe().put({"optimizer.layer_decay": 0.5})
    extra = {*CodeDigests().files(put)} - {*CodeDigests().files(plain)}
    assert extra == {"training/optional/layer_decay.py"}
