"""A model of a person's own file: what a recipe holds of it, that it computes what ours does, and what is refused."""

from pathlib import Path

import pytest
import torch

from trainables.backbones import OwnModel, ViT
from trainables.data import RedGreen
from trainables.launch.trial_step import TrialStepError, try_step
from trainables.recipe import Recipe, Run
from trainables.recipe.cost import backbone_parameters, position_parameters
from trainables.recipe.model_torch import build_model
from trainables.recipe.revisions import code_of
from trainables.spec import LocusError, SpecError
from trainables.training.init import init_weights

NET = """
from functools import partial
import torch
from torch import nn
from timm.models.vision_transformer import VisionTransformer

MyViT = partial(VisionTransformer, embed_dim=32, depth=3, num_heads=4)
Tall = partial(MyViT, class_token=False, global_pool="avg", fc_norm=False)


def registers(img_size, patch_size, in_chans, num_classes):
    return MyViT(
        img_size=img_size, patch_size=patch_size, in_chans=in_chans, num_classes=num_classes, reg_tokens=2,
        init_values=0.1, qk_norm=True,
    )


def linear(**given):
    return nn.Linear(3, 4)


def normed(**given):
    model = MyViT(**given)
    model.norm = nn.BatchNorm1d(65)
    return model


def loaded(**given):
    model = MyViT(**given)
    for value in model.parameters():
        nn.init.ones_(value)
    return model


def scaled(**given):
    model = MyViT(**given)
    model.scale = nn.Parameter(torch.ones(3))
    return model


def dropped(**given):
    return MyViT(attn_drop_rate=0.1, **given)


def grows(img_size, **given):
    return MyViT(img_size=img_size, **given | {"depth": 3 if img_size[0] == 32 else 2})


def square(img_size, patch_size):
    return MyViT(img_size=img_size, patch_size=patch_size)


class Halved(VisionTransformer):
    def forward_head(self, x, pre_logits=False):
        return super().forward_head(x, pre_logits) / 2


class Doubled(VisionTransformer):
    def forward(self, x, attn_mask=None):
        return 2 * super().forward(x, attn_mask)


halved = partial(Halved, embed_dim=32, depth=3, num_heads=4)
doubled = partial(Doubled, embed_dim=32, depth=3, num_heads=4)
"""


@pytest.fixture(autouse=True)
def working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)


def own(name="MyViT", **values):
    return Recipe(data=RedGreen(image_size=32)).put({"model.kind": f"./net.py:{name}", **values})


def outputs(recipe, size=None):
    model = build_model(recipe, size)
    init_weights(model, 0)
    images = torch.rand(2, *(size or recipe.data.size), generator=torch.Generator().manual_seed(1))
    return model, model.eval()(images)


ENCODINGS = (
    {"encoding.kind": "none"},
    {"encoding.kind": "rotary"},
    {"encoding.kind": "peg"},
    {"encoding.kind": "irpe"},
    {"encoding.kind": "fourier", "encoding.injection.kind": "concat"},
)


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda values: values["encoding.kind"])
@pytest.mark.parametrize(
    ("name", "numbers"),
    [("MyViT", {}), ("Tall", {"pool": "gap"}), ("registers", {"registers": 2, "layer_scale": 0.1, "qk_norm": True})],
)
def test_it_computes_what_ours_with_these_numbers_does(name, numbers, encoding):
    """At the run's size and at another one: the same parameters, drawn from the same streams."""
    mine = own(name, **encoding)
    ours = mine.put({"model": ViT(embed_dim=32, depth=3, num_heads=4, **numbers)})
    for size in (None, (3, 48, 48)):
        (model, output), (other, expected) = outputs(mine, size), outputs(ours, size)
        assert torch.allclose(output, expected, rtol=0, atol=1e-6)
        mine_drawn, ours_drawn = model.state_dict(), other.state_dict()
        assert mine_drawn.keys() == ours_drawn.keys()
        assert all(torch.equal(value, ours_drawn[name]) for name, value in mine_drawn.items())
    model, _ = outputs(mine)
    positions = sum(value.numel() for value in model.encoding.parameters())
    counted = sum(value.numel() for value in model.parameters())
    assert backbone_parameters(mine) == counted - positions == backbone_parameters(ours)
    assert position_parameters(mine) == positions
    assert try_step(mine) == []


def test_a_recipe_holds_what_it_is_and_who_reads_it_runs_no_file():
    recipe = own(**{"model.patch_size": 8})
    assert (recipe.model.kind, recipe.model.patch_size, recipe.model.embed_dim) == ("net.py:MyViT", 8, 32)
    stored = recipe.plain()
    stored["model"]["source"] = "raise RuntimeError"
    assert isinstance(Recipe.read(stored).model, OwnModel)
    assert recipe.put({"encoding.kind": "rotary"}).model == recipe.model
    assert recipe.put({"model.kind": "vit"}).model == ViT()


def test_an_edited_file_is_other_code_of_the_same_question():
    before = own()
    Path("net.py").write_text(NET.replace("num_heads=4)", "num_heads=4, norm_layer=nn.LayerNorm)"))
    after = own()
    assert Run(recipe=before, seed=0).key == Run(recipe=after, seed=0).key
    assert code_of(before).changed(code_of(after)) == ["net.py"]
    Path("net.py").write_text(NET.replace("depth=3", "depth=2"))
    assert Run(recipe=before, seed=0).key != Run(recipe=own(), seed=0).key


def test_what_cannot_be_a_backbone_is_refused_in_a_sentence(subtests):
    for name, sentence in [
        ("MyVit", r"model.kind must name a class or a function in net.py, got 'MyVit'; did you mean MyViT\?"),
        ("linear", "model.kind must name what makes a VisionTransformer of timm, got Linear of net.py:linear"),
        (
            "square",
            "model.kind must name what makes a model of img_size, .*, got TypeError of net.py:square: .*in_chans",
        ),
        ("normed", "net.py:normed must make a model without dropout, drop path and batch norms, got a BatchNorm1d"),
        ("dropped", "net.py:dropped must make a model without dropout, .*, got a Dropout"),
        ("loaded", "net.py:loaded must make a model with random weights, .*, got the same weights twice"),
    ]:
        with subtests.test(name), pytest.raises(LocusError, match=sentence):
            own(name)
    with pytest.raises(TrialStepError, match="must set the initial value of parameter 'scale', got none"):
        try_step(own("scaled"))
    with pytest.raises(
        SpecError, match=r"must make models with equal depth for all sizes .*, got 2 for 48 x 48 pixels"
    ):
        build_model(own("grows"), (3, 48, 48))


def test_methods_of_a_subclass_compute_and_a_forward_pass_of_its_own_is_refused():
    """What a run would leave out in silence: it asks for tokens and answers, and never calls the model itself."""
    _, plain = outputs(own())
    _, output = outputs(own("halved"))
    assert torch.allclose(output, plain / 2)
    with pytest.raises(SpecError, match=r"net.py:doubled must keep timm's forward; .*, got Doubled.forward"):
        build_model(own("doubled"))
