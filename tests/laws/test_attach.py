"""An encoding in a ViT of timm computes what the same encoding computes in ours."""

import copy
import pickle
from functools import partial

import pytest
import timm.optim
import torch
from timm.layers import HybridEmbed, PatchEmbed
from timm.models.deit import VisionTransformerDistilled
from timm.models.vision_transformer import VisionTransformer
from torch.nn import Conv2d, LayerNorm, Sequential
from torch.nn.functional import cross_entropy

from tests.laws.conftest import SIZE, toy
from tests.laws.toys import Spiral, Tide
from trainables.backbones import ViT
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings import FIRE, PEG, Composed, Fourier, Learnable, NoEncoding, OwnEncoding, Rotary
from trainables.encodings.injection import Concat
from trainables.spec import SpecError
from trainables.training.attach import attach
from trainables.training.init import init_weights
from trainables.training.optional.layer_decay import layer_scales
from trainables.training.parameters import set_trainable

LABELS = torch.tensor([0, 2, 1, 2])


def timms(pool="avg", **more):
    """A ViT that timm makes, as large as those of `make`."""
    more = {"class_token": pool == "token", "global_pool": pool, "num_classes": 3} | more
    torch.manual_seed(5)
    return VisionTransformer(SIZE[1:], 4, 3, embed_dim=16, depth=2, num_heads=2, **more).double()


def losses(model, images, steps):
    """The loss at each of some steps of training."""
    optimizer, found = torch.optim.AdamW(model.parameters(), lr=0.01), []
    model.train()
    for _ in range(steps):
        loss = cross_entropy(model(images), LABELS)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def compare(spec, make, images, pool, steps):
    """Trains the spec's model of ours beside a model of timm with the same weights; their losses."""
    mine, other = make(spec, pool), timms(pool)
    set_trainable(mine, "all")  # as a run does: what is frozen keeps its values
    attached = attach(other, spec)
    drawn = {name: value for name, value in attached.named_parameters() if name.startswith("encoding.")}
    own = dict(mine.named_parameters())
    assert all(torch.equal(value, own[name]) for name, value in drawn.items())  # as a run of this seed begins
    attached.load_state_dict(mine.state_dict())
    assert attached is other
    return losses(mine, images, steps), losses(attached, images, steps)


def every(examples):
    """All examples, but a user's own that stand in for the catalog's."""
    return [spec for some in examples.values() for spec in some if not isinstance(spec, OwnEncoding)]


def test_an_encoding_of_ones_own_is_an_object_of_its_class(images):
    for own, spec in ((Spiral(turns=0.7), toy("Spiral", turns=0.7)), (Tide(), toy("Tide"))):
        given, named = attach(timms(), own), attach(timms(), spec)
        assert [*given.state_dict()] == [*named.state_dict()]
        assert torch.equal(given(images), named(images)), spec


def test_it_begins_to_train_as_our_own_with_each_encoding(examples, make, images):
    for number, spec in enumerate(every(examples)):
        mine, attached = compare(spec, make, images, ("avg", "token")[number % 2], 2)
        assert attached == pytest.approx(mine, abs=1e-12), spec


@pytest.mark.slow
def test_it_trains_as_our_own_with_each_encoding(examples, make, images):
    for spec in every(examples):
        for pool in ("avg", "token"):
            mine, attached = compare(spec, make, images, pool, 20)
            assert attached == pytest.approx(mine, abs=1e-6), spec


def test_the_rest_of_the_model_stays_timms(images):
    for more in ({}, {"init_values": 0.1}, {"qk_norm": True}, {"pool": "token", "qk_norm": True}, {"pool": "max"}):
        for registers in (0, 3):
            known = timms(reg_tokens=registers, **more)
            table = known.pos_embed.detach().clone()
            expected = known(images), known.forward_features(images)
            attached = attach(copy.deepcopy(known), Learnable())
            places = attached.encoding.part("learnable")
            with torch.no_grad():
                for value in places.parameters():
                    value.copy_(table.reshape(value.shape))
            torch.testing.assert_close((attached(images), attached.forward_features(images)), expected)
            bare = copy.deepcopy(known)
            torch.nn.init.zeros_(bare.pos_embed)
            torch.testing.assert_close(attach(copy.deepcopy(known), NoEncoding())(images), bare(images))


def test_only_layers_that_become_narrower_start_anew():
    for places in (("common",), ("query", "key"), ("value",)):
        spec = Learnable(injection=Concat(places=places))
        numbers = {"embed_dim": 16, "depth": 12, "num_heads": 2, "qk_norm": True}
        own = PositionedViT(ViT(patch_size=4, registers=2, **numbers), SIZE, 3, spec)
        init_weights(own, 0)
        known = VisionTransformer(SIZE[1:], 4, 3, num_classes=3, reg_tokens=2, **numbers)
        for value in known.parameters():
            torch.nn.init.normal_(value)
        before = {name: value.detach().clone() for name, value in known.named_parameters()}
        attached = dict(attach(known, spec).named_parameters())  # nothing else holds the layers that it replaces
        kept = {name for name, value in before.items() if name in attached and attached[name].shape == value.shape}
        replaced = attached.keys() - kept
        expected = dict(own.named_parameters()) | {name: before[name] for name in kept}
        assert attached.keys() == expected.keys()
        assert [name for name in expected if not torch.equal(attached[name], expected[name])] == []
        assert len(replaced) == {"common": 5, "query": 12 * 6 + 1, "value": 12 * 2 + 1}[places[0]], replaced


@pytest.mark.parametrize("form", ["depthwise", "depthwise_stack"])
def test_a_frozen_encoding_keeps_its_values(images, form):
    attached = attach(timms(), Composed(parts=(PEG(frozen=True, form=form), Learnable())))
    before = {name: value.clone() for name, value in attached.state_dict().items()}
    losses(attached, images, 2)
    losses(attached.train(), images, 2)
    stayed = {name for name, value in attached.state_dict().items() if torch.equal(value, before[name])}
    assert stayed == {name for name in before if name.startswith("encoding.peg.")} != set()


def test_an_encoding_evaluates_in_a_model_that_does(images):
    for training in (False, True):
        attached = attach(timms().train(training), PEG(form="depthwise_stack"))  # whose norms see the batch in training
        assert {part.training for part in attached.modules()} == {training}
        assert torch.allclose(attached(images)[:1], attached(images[:1])) is not training


def test_timms_optimizers_leave_places_without_decay(images):
    attached = attach(timms("token"), Fourier(gamma=2.0))
    groups = timm.optim.param_groups_weight_decay(attached, 0.1, no_weight_decay_list=attached.no_weight_decay())
    decaying = {id(value) for group in groups if group["weight_decay"] for value in group["params"]}
    names = {name for name, value in attached.named_parameters() if id(value) in decaying}
    assert names
    assert not any(name.startswith("encoding.") and "table" in name for name in names)
    assert "pos_embed" not in attached.state_dict()
    assert attached.half().encoding.part("fourier") is not None


def test_timms_layer_wise_decay_is_that_of_a_run():
    attached = attach(timms("token", reg_tokens=2), Composed(parts=(Learnable(), FIRE())))
    groups = timm.optim.param_groups_layer_decay(attached, layer_decay=0.5)
    scales = {id(value): group["lr_scale"] for group in groups for value in group["params"]}
    assert {name: scales[id(value)] for name, value in attached.named_parameters()} == layer_scales(attached, 0.5)
    assert scales[id(attached.encoding.part("learnable").table)] == 0.5**3 < scales[id(attached.head.weight)] == 1


def kept(model, images):
    """How many numbers a forward pass of training keeps, and the gradients that come of it."""
    numbers = []
    model.zero_grad()
    with torch.autograd.graph.saved_tensors_hooks(lambda value: (numbers.append(value.numel()), value)[1], lambda x: x):
        loss = model.train()(images).square().sum()
    loss.backward()
    return sum(numbers), [value.grad for value in model.parameters()]


def test_checkpointing_keeps_fewer_numbers_and_the_gradients(images):
    attached = attach(timms(), Learnable())
    most, gradients = kept(attached, images)
    for _ in range(2):
        attached.set_grad_checkpointing()
        fewer, others = kept(attached, images)
        assert fewer < most / 2
        assert all(map(torch.equal, gradients, others))
    attached.set_grad_checkpointing(False)
    assert kept(attached, images)[0] == most
    with pytest.raises(SpecError, match="grad_checkpointing must be false where a batch norm learns, got true"):
        attach(timms(), PEG(form="depthwise_stack")).set_grad_checkpointing()
    model = timms()
    model.set_grad_checkpointing()
    with pytest.raises(SpecError, match="model must be without gradient checkpointing until it has its encoding, got"):
        attach(model, Rotary())


def test_what_cannot_be_is_one_sentence():
    for model, spec, said in (
        (torch.nn.Linear(2, 2), Rotary(), "model must be a VisionTransformer of timm without an encoding, got Linear"),
        (attach(timms(), Rotary()), PEG(), "without an encoding, got AttachedViT"),
        (VisionTransformerDistilled(depth=1), Rotary(), "without an encoding, got VisionTransformerDistilled"),
        (timms(pre_norm=True), Rotary(), "model must be without pre_norm, got one that has it"),
        (timms(attn_drop_rate=0.1), Rotary(), "model must be without attn_drop_rate"),
        (timms(qkv_bias=False), Rotary(), "model must have biases in its projections, got qkv_bias=False"),
        (timms(dynamic_img_size=True), Rotary(), "model must have images of one size, got dynamic_img_size=True"),
        (timms(dynamic_img_pad=True), Rotary(), "model must have images of one size, got dynamic_img_pad=True"),
        (timms().half(), Rotary(), r"have weights of float32 \(torch.autocast computes .*\), got torch.float16"),
        (timms(), Rotary, r"must be one with its values, such as service.Rotary\(\), got the class Rotary"),
        (timms(), "rotary", r"encoding must be one with its values, such as service.Rotary\(\), got 'rotary'"),
        (timms(), PEG(places=(5,)), "encoding.places must be block indices from -1 to 0 in a model of depth 2, got"),
    ):
        with pytest.raises(SpecError, match=said):
            attach(model, spec)


def test_a_dropout_that_is_set_later_is_refused_where_it_is_left_out(images):
    for name, said in (
        ("pos_drop", "pos_drop_rate"),
        ("blocks.1.attn.attn_drop", "attn_drop_rate"),
        ("blocks.0.attn.proj_drop", "proj_drop_rate"),
    ):
        attached = attach(timms(), Rotary())
        attached.get_submodule(name).p = 0.1
        with pytest.raises(SpecError, match=f"model must be without {said}, got one that has it"):
            attached(images)
    attached = attach(timms(), Rotary())
    attached.head_drop.p = attached.blocks[0].mlp.drop1.p = 0.5
    assert not torch.equal(attached(images), attached(images))


def test_only_what_is_new_takes_the_models_kind_of_numbers(images):
    model = timms()
    model.blocks[0].mlp.float()
    kinds = {name: value.dtype for name, value in model.named_parameters()}
    attached = attach(model, Learnable(injection=Concat(places=("query",))))
    for name, value in attached.named_parameters():
        assert value.dtype == kinds.get(name, torch.float64), name
    with pytest.raises(SpecError, match=r"model must have weights of float32 .*, got torch.bfloat16"):
        attached.bfloat16()(images.bfloat16())


def test_images_of_another_size_are_refused(images):
    attached = attach(timms(), Rotary())
    with pytest.raises(SpecError, match="model must have its input size before an encoding is attached"):
        attached.set_input_size((24, 40))
    attached.patch_embed.strict_img_size = False
    assert attached(images).isfinite().all()
    for forward in (attached, attached.forward_features):
        with pytest.raises(SpecError, match="have 12 x 20 pixels, as when the encoding was attached, got 20 x 12"):
            forward(images.mT)
    attached.patch_embed.set_input_size(patch_size=(2, 10))
    with pytest.raises(SpecError, match="cut images into 3 x 5 patches, as when the encoding was attached, got 6 x 2"):
        attached(images)


def test_only_a_plain_patch_embedding_becomes_narrower():
    stem = Sequential(Conv2d(3, 8, 1))
    stem.num_features = 8
    for more, name in (
        ({"embed_norm_layer": LayerNorm}, "PatchEmbed"),
        ({"embed_layer": lambda bias, **rest: PatchEmbed(bias=not bias, **rest)}, "PatchEmbed"),
        ({"embed_layer": partial(HybridEmbed, stem, feature_ratio=1, feature_size=SIZE[1:])}, "HybridEmbed"),
    ):
        model = timms(**more)
        before = [*model.state_dict()]
        with pytest.raises(SpecError, match=f"model must have timm's plain patch embedding, .* narrower, got {name}"):
            attach(model, Learnable(injection=Concat()))
        assert [*model.state_dict()] == before, "a model that is refused stays as it is"
        patches = model.patch_embed
        assert attach(model, Learnable(injection=Concat(places=("query", "key")))).patch_embed is patches


def test_a_whole_model_can_be_pickled(examples, images):
    """Loaders that start processes, and `torch.save(model)`, pickle it."""
    for spec in every(examples):
        model = attach(timms("token"), spec).eval()
        model.draw(0, 0)  # most encodings need nothing
        other = pickle.loads(pickle.dumps(model))
        with torch.inference_mode():
            assert torch.equal(other(images), model(images)), spec


def test_a_seed_draws_the_encoding_alone():
    known = timms()
    before = {name: value.clone() for name, value in known.state_dict().items()}
    one, other = (attach(copy.deepcopy(known), Learnable(), seed=seed) for seed in (0, 1))
    assert not torch.equal(one.encoding.part("learnable").table, other.encoding.part("learnable").table)
    for name, value in one.state_dict().items():
        if not name.startswith("encoding."):
            assert torch.equal(value, before[name]), name


class LoRA(torch.nn.Module):
    """A layer with a product of two narrow matrices beside it, which has the layer's own weight and bias."""

    def __init__(self, base):
        super().__init__()
        self.base = base
        self.a = torch.nn.Parameter(torch.randn(2, base.in_features, dtype=base.weight.dtype))
        self.b = torch.nn.Parameter(torch.randn(base.out_features, 2, dtype=base.weight.dtype))

    weight = property(lambda self: self.base.weight)
    bias = property(lambda self: self.base.bias)
    in_features = property(lambda self: self.base.in_features)

    def forward(self, x):
        return self.base(x) + x @ self.a.T @ self.b.T


def with_lora(model):
    for block in model.blocks:
        block.attn.qkv = LoRA(block.attn.qkv)
    return model


@pytest.mark.parametrize(
    "spec", [Learnable(), Rotary(), Learnable(injection=Concat(places=("query", "value"))), Fourier(gamma=1.0)]
)
def test_layers_and_hooks_of_a_user_act_in_the_last_block_too(images, spec):
    merged = attach(timms("token"), spec)
    layered, seen = with_lora(copy.deepcopy(merged)), []
    for attention, other in zip((one.attn for one in merged.blocks), (one.attn for one in layered.blocks), strict=True):
        with torch.no_grad():
            attention.qkv.weight += other.qkv.b @ other.qkv.a
    expected = merged(images)
    torch.testing.assert_close(layered(images), expected)
    layered(images).sum().backward()
    assert all(block.attn.qkv.a.grad.any() for block in layered.blocks)
    for block in merged.blocks:
        block.attn.qkv.register_forward_hook(lambda layer, given, output: seen.append(layer) or 2 * output)
    assert not torch.allclose(merged(images), expected, atol=1e-4)
    assert seen == [block.attn.qkv for block in merged.blocks]


def test_queries_and_keys_of_their_own_input_pass_a_users_layer(images):
    merged = attach(timms("token"), PEG(into="query_key"))
    layered = with_lora(copy.deepcopy(merged))
    for block, other in zip(merged.blocks, layered.blocks, strict=True):
        with torch.no_grad():
            block.attn.qkv.weight += other.attn.qkv.b @ other.attn.qkv.a
    torch.testing.assert_close(layered(images), merged(images))


def test_a_users_layer_that_would_be_replaced_is_refused():
    for spec in (Learnable(injection=Concat(places=("query",))), Learnable(injection=Concat())):
        with pytest.raises(SpecError, match=r"model must have torch's own Linear, .* got LoRA: add yours after attach"):
            attach(with_lora(timms()), spec)
    assert {type(block.attn.qkv) for block in attach(with_lora(timms()), Rotary()).blocks} == {LoRA}
