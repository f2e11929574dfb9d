"""An encoding in a ViT of timm computes what the same encoding computes in ours."""

import copy
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import combinations

import pytest
import timm.optim
import torch
from timm.layers import Attention, HybridEmbed, PatchEmbed
from timm.models.deit import VisionTransformerDistilled
from timm.models.eva import Eva
from timm.models.vision_transformer import ResPostBlock, VisionTransformer
from torch.nn import Conv2d, LayerNorm, Sequential
from torch.nn.functional import cross_entropy

from tests.laws.conftest import SIZE, toy
from tests.laws.toys import Spiral, Tide
from trainables.backbones import ViT
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings import (
    FIRE,
    IRPE,
    PEG,
    Composed,
    Fourier,
    Learnable,
    NoEncoding,
    OwnEncoding,
    RelativeBias,
    Rotary,
)
from trainables.encodings.injection import Concat
from trainables.spec import SpecError
from trainables.training.attach import attach
from trainables.training.init import init_weights
from trainables.training.optional.layer_decay import layer_scales
from trainables.training.parameters import set_trainable
from trainables.weights.transfer import transferred

HEADS = Learnable(injection=Concat(places=("query", "value")))
"""An encoding that makes heads narrower."""

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


class Gated(Attention):
    """timm's attention with its gates."""

    def __init__(self, *args, **named):
        super().__init__(*args, gated=True, **named)


def test_the_rest_of_the_model_stays_timms(images):
    options = ({"init_values": 0.1}, {"qk_norm": True}, {"pool": "token", "qk_norm": True}, {"pool": "max"})
    options += ({"pre_norm": True}, {"qkv_bias": False}, {"scale_attn_norm": True}, {"dynamic_img_size": True})
    for more in ({}, *options, {"attn_layer": Gated}):
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
    spec = Composed(parts=(Learnable(), FIRE()))
    attached = attach(timms("token", reg_tokens=2), spec)
    own = PositionedViT(ViT(embed_dim=16, depth=2, num_heads=2, patch_size=4, registers=2), SIZE, 3, spec)
    groups = timm.optim.param_groups_layer_decay(attached, layer_decay=0.5)
    scales = {id(value): group["lr_scale"] for group in groups for value in group["params"]}
    assert {name: scales[id(value)] for name, value in attached.named_parameters()} == layer_scales(own, 0.5)
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
    assert kept(attach(model, Learnable()), images)[0] == fewer


@pytest.mark.parametrize("spec", [Rotary(form="mixed"), IRPE(), PEG(into="query_key"), Rotary(jitter_coords=1.5)])
def test_a_block_that_is_repeated_computes_the_same_inside_attention(images, spec):
    model = timms(attn_drop_rate=0.2)
    gradients = []
    for enable in (False, True):
        attached = attach(copy.deepcopy(model), spec).train()
        attached.set_grad_checkpointing(enable)
        attached.draw(0, 0)
        torch.manual_seed(0)
        cross_entropy(attached(images), LABELS).backward()
        gradients.append([value.grad for value in attached.parameters()])
    assert all(map(torch.equal, *gradients))


class Sine(VisionTransformer):
    """A user's class that adds positions of its own."""

    def _pos_embed(self, x):
        x = super()._pos_embed(x)
        return x + torch.linspace(0, 1, x.shape[1])[:, None].to(x)


class Untouched(VisionTransformer):
    """A user's class that adds its table by itself."""

    def forward_features(self, x, attn_mask=None, is_causal=False):
        return self.norm(self.blocks(self.patch_embed(x) + self.pos_embed))


class Prompted(VisionTransformer):
    """A user's class with tokens of its own, and an output of its own."""

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.prompts = torch.nn.Parameter(torch.randn(1, 4, 16))
        self.num_prefix_tokens = 5

    def _pos_embed(self, x):
        x = super()._pos_embed(x)
        return torch.cat([x[:, :1], self.prompts.expand(len(x), -1, -1), x[:, 1:]], dim=1)

    def forward(self, x):
        return {"logits": 2 * super().forward(x)}


class ByHand(Attention):
    """A user's attention, which does not call torch's."""

    def forward(self, x, attn_mask=None, is_causal=False):
        q, k, v = self.qkv(x).unflatten(2, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        return self.proj(((q @ k.mT).softmax(3) @ v).transpose(1, 2).flatten(2))


def of_class(cls, **more):
    """A model of a user's class, as large as those of `timms`."""
    torch.manual_seed(5)
    return cls(SIZE[1:], 4, 3, embed_dim=16, depth=2, num_heads=2, num_classes=3, **more).double()


def test_what_cannot_be_is_one_sentence():
    kinds = "none, learnable, .* lepe, composed, or one with its values, such as service.Rotary"
    for model, spec, said in (
        (torch.nn.Linear(2, 2), Rotary(), "model must be a VisionTransformer or an Eva of timm, .*, got Linear"),
        (attach(timms(), Rotary()), PEG(), "without an encoding, got AttachedVisionTransformer"),
        (timm.create_model("beit_base_patch16_224", depth=1), Rotary(), "without an encoding, got Beit"),
        (of_class(Sine), Rotary(), "_pos_embed of Sine must add no position but its table"),
        (of_class(Sine, pos_embed="none"), Rotary(), "_pos_embed of Sine must add no position but its table"),
        (timms(pos_drop_rate=0.1), Rotary(), "model must be without pos_drop_rate, got one that has it"),
        (timms(patch_drop_rate=0.1), Rotary(), "model must be without patch_drop_rate, got one that has it"),
        (timms(attn_layer="diff"), Rotary(), "one softmax in its attention, got differential attention"),
        (timms().half(), Rotary(), r"have weights of float32 \(torch.autocast computes .*\), got torch.float16"),
        (timms(), Rotary, rf"encoding must be one of {kinds}\(\), got the class Rotary"),
        (timms(), "rotar", rf"encoding must be one of {kinds}\(\), got 'rotar'; did you mean rotary\?"),
        (timms(), "composed", "parts must be given"),
        (timms(), PEG(places=(5,)), "encoding.places must be block indices from -1 to 0 in a model of depth 2, got"),
        (timms(qkv_bias=False), HEADS, "a plain Linear with a bias and no hooks, .* narrower, got Linear bias=False"),
        (timms(attn_drop_rate=0.1), HEADS, "a plain Attention with .* narrower, got Attention attn_drop"),
    ):
        before = [*model.state_dict()]
        with pytest.raises(SpecError, match=said):
            attach(model, spec)
        assert [*model.state_dict()] == before, "a model that is refused stays as it is"


def test_what_only_a_forward_pass_shows_is_one_sentence(images):
    for model, spec, said in (
        (of_class(Untouched, class_token=False, global_pool="avg"), "rotary", "model must call _pos_embed, then its"),
        (timms(attn_layer=ByHand), "rotary", "attention that calls scaled_dot_product_attention, .* in block 0"),
        (timms(block_fn=ResPostBlock), PEG(into="query_key"), "norm before attention, .* got AttachedResPostBlock"),
        (timms(), PEG(padding="valid"), "output_fmt must be 'NLC' where an encoding makes the grid smaller"),
    ):
        attached = attach(model, spec)
        with pytest.raises(SpecError, match=said):
            attached.forward_intermediates(images) if "NLC" in said else attached(images)
    assert attached.get_intermediate_layers(images)[0].shape == (4, 3, 16)
    for block in (0, 1):
        with pytest.raises(SpecError, match=f"then its blocks in order .*, got block {block} with 15 tokens"):
            attach(timms(), "rotary").blocks[block](torch.zeros(4, 15, 16))
    attached = attach(timms(), HEADS)
    attached.blocks[1].attn.attn_drop.p = 0.1
    with pytest.raises(SpecError, match=r"attention must be plain where an encoding makes it .*, got .*attn_drop"):
        attached(images)


def test_a_users_class_runs_its_own_methods(images):
    model = of_class(Prompted)
    for spec in ("rotary", PEG(), FIRE(), PEG(into="query_key")):
        attached = attach(copy.deepcopy(model), spec)
        assert isinstance(attached, Prompted)
        assert "pos_embed" not in attached.state_dict()
        before = attached(images)["logits"]
        assert torch.equal(pickle.loads(pickle.dumps(attached))(images)["logits"], before)
        attached.prompts.data.zero_()
        assert not torch.allclose(attached(images)["logits"], before)
    filled = attach(copy.deepcopy(model), "learnable")
    with torch.no_grad():
        filled.encoding.part("learnable").table.zero_()[[0, *range(5, 20)]] = model.pos_embed[0]
    torch.testing.assert_close(filled(images), model(images))


def test_another_size_brings_no_table_back():
    for cls in (VisionTransformer, VisionTransformerDistilled):
        attached = attach(of_class(cls), "learnable")
        names = [*attached.state_dict()]
        attached.set_input_size((16, 24))
        assert [*attached.state_dict()] == names
        assert "pos_embed" not in dict(attached.named_parameters())
        assert attached(torch.zeros(2, 3, 16, 24).double()).shape == (2, 3)


def test_attention_that_is_not_fused_shows_its_weights(images):
    for spec in ("rotary", "learnable", "fire", "lepe"):
        attached = attach(timms("token"), spec).eval()
        seen: list[torch.Tensor] = []
        fused = attached(images)
        for block in attached.blocks:
            block.attn.fused_attn = False
            block.attn.attn_drop.register_forward_hook(lambda layer, given, output, seen=seen: seen.append(output))
        torch.testing.assert_close(attached(images), fused)
        assert [weights.shape for weights in seen] == [(4, 2, 16, 16)] * 2
        assert not attached.blocks[0].attn.fused_attn


def test_dropout_acts_as_it_is_set(images):
    attached = attach(timms(), "rotary")
    for name in ("attn_drop", "proj_drop"):
        for fused in (True, False):
            layer = attached.blocks[1].attn
            layer.fused_attn, layer.get_submodule(name).p = fused, 0.5
            assert not torch.equal(attached.train()(images), attached(images))
            assert torch.equal(attached.eval()(images), attached(images))
            layer.get_submodule(name).p = 0.0
            assert torch.equal(attached.train()(images), attached(images))
    attached.pos_drop.p = 0.1
    with pytest.raises(SpecError, match="model must be without pos_drop_rate, got one that has it"):
        attached(images)


def test_masks_of_a_user_and_terms_of_an_encoding_add_up(images):
    model, mask = timms("token"), torch.rand(16, 16, generator=torch.Generator().manual_seed(0)) > 0.3
    mask[:, 0] = True
    bias = attach(copy.deepcopy(model), RelativeBias())
    torch.nn.init.zeros_(bias.encoding.get_parameter("relative_bias.table"))
    torch.nn.init.zeros_(model.pos_embed)
    for fused in (True, False):
        for block in bias.blocks:
            block.attn.fused_attn = fused
        for masked in ({"attn_mask": mask}, {"is_causal": True}):
            torch.testing.assert_close(bias(images, **masked), model(images, **masked))
    with pytest.raises(SpecError, match=r"attention must be plain .* narrower, got .*is_causal"):
        attach(timms(), HEADS)(images, is_causal=True)


def test_a_batch_of_no_images_has_no_outputs(examples, images):
    for spec in every(examples):
        for dynamic in (False, True):
            assert attach(timms("token", dynamic_img_size=dynamic), spec)(images[:0]).shape == (0, 3), spec


def test_what_stays_of_evas_own_positions(images):
    torch.manual_seed(5)
    model = Eva(SIZE[1:], 4, 3, 3, "token", 16, 2, 2, use_rot_pos_emb=True, rope_type="mixed").double().eval()
    for value in model.parameters():
        torch.nn.init.normal_(value, std=0.3)
    outputs = {keep: attach(copy.deepcopy(model), "none", keep=keep) for keep in ("nothing", "table", "rope", "both")}
    torch.testing.assert_close(outputs["both"](images), model(images))
    positions = {keep: (one.pos_embed is not None, one.rope is not None) for keep, one in outputs.items()}
    assert positions == {"nothing": (0, 0), "table": (1, 0), "rope": (0, 1), "both": (1, 1)}
    answers = [one(images) for one in outputs.values()]
    assert not any(torch.allclose(one, other) for one, other in combinations(answers, 2))
    with pytest.raises(SpecError, match="keep must be one of nothing, table for this model, got 'rope'"):
        attach(timms(), "rotary", keep="rope")
    with pytest.raises(SpecError, match="keep must be nothing or rope where an encoding makes tokens narrower"):
        attach(timms(), Learnable(injection=Concat()), keep="table")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_compiled_and_exported_it_computes_the_same():
    """In a process of its own: here torch would trace the checks of shapes, too."""
    done = subprocess.run([sys.executable, "-m", "tests.laws.compiled_attached"], capture_output=True, text=True)
    assert done.stdout.split() == ["5", "alike"], done.stderr


def test_threads_do_not_meet(images):
    attached = attach(timms("token", dynamic_img_size=True), PEG(into="query_key")).eval()
    sizes = [(12, 20), (20, 12), (16, 24), (24, 16)]
    given = [torch.randn(1, 3, *sizes[number % 4], dtype=torch.float64) for number in range(40)]
    expected = [attached(each) for each in given]
    with ThreadPoolExecutor(4) as pool:
        torch.testing.assert_close([*pool.map(attached, given)], expected)


def test_only_what_is_new_takes_the_models_kind_of_numbers(images):
    model = timms()
    model.blocks[0].mlp.float()
    kinds = {name: value.dtype for name, value in model.named_parameters()}
    attached = attach(model, Learnable(injection=Concat(places=("query",))))
    for name, value in attached.named_parameters():
        assert value.dtype == kinds.get(name, torch.float64), name
    with pytest.raises(SpecError, match=r"model must have weights of float32 .*, got torch.bfloat16"):
        attached.bfloat16()(images.bfloat16())


def test_images_of_another_size_have_the_encoding_of_their_grid(examples, make):
    """As a run's model is tested at other sizes; only tables of patches are resampled as timm does."""
    size = (3, 20, 12)
    images = torch.randn(2, *size, dtype=torch.float64)
    for spec in every(examples):
        mine, other = make(spec, "token", spread=True), make(spec, "token", size=size)
        attached = attach(timms("token", dynamic_img_size=True), spec).train()
        attached.load_state_dict(mine.state_dict())
        answers = attached(images)
        answers.square().sum().backward()
        learned = {name for name, value in attached.encoding.named_parameters() if value.grad is not None}
        assert learned == {name for name, value in attached.encoding.named_parameters() if value.requires_grad}, spec
        if "table" not in " ".join(learned):
            shapes = (ViT(embed_dim=16, depth=2, num_heads=2, patch_size=4).shapes(each) for each in (SIZE, size))
            other.load_state_dict(transferred(mine, other, *shapes))
            torch.testing.assert_close(answers, other.train()(images), atol=1e-9, rtol=1e-9)


def test_a_table_is_resampled_as_timm_does_it():
    model = timms("token", dynamic_img_size=True)
    attached = attach(copy.deepcopy(model), Learnable())
    with torch.no_grad():
        attached.encoding.part("learnable").table.copy_(model.pos_embed[0])
    for size in ((12, 20), (20, 12), (8, 8), (24, 40)):
        images = torch.randn(2, 3, *size, dtype=torch.float64)
        torch.testing.assert_close(attached(images), model(images))


def test_a_model_that_saw_another_size_is_copied_and_learns():
    images = torch.randn(2, 3, 20, 12, dtype=torch.float64)
    for spec in (Learnable(), Rotary(), PEG(form="depthwise_stack")):
        attached = attach(timms("token", dynamic_img_size=True), spec)
        with torch.inference_mode():
            attached.eval()(images)
        attached.train()(images).sum().backward()
        attached.eval()
        for other in (copy.deepcopy(attached), pickle.loads(pickle.dumps(attached))):
            assert torch.equal(other(images), attached(images))


def test_a_table_without_a_rule_is_one_sentence():
    attached = attach(timms("token", dynamic_img_size=True), toy("Marker"))
    with pytest.raises(
        SpecError, match=r"encoding.Marker.marks must be of shape \(26, 8\) on 5 x 5 patches, got .*: write"
    ):
        attached(torch.zeros(1, 3, 20, 20).double())


def test_a_grid_that_is_not_certain_is_refused(images):
    attached = attach(timms(), Rotary())
    attached.patch_embed.strict_img_size = False
    with pytest.raises(SpecError, match="model must be made with dynamic_img_size=True, or told by set_input_size"):
        attached(images.mT)


def test_only_a_plain_patch_embedding_becomes_narrower():
    stem = Sequential(Conv2d(3, 8, 1))
    stem.num_features = 8
    for more, name in (
        ({"embed_norm_layer": LayerNorm}, "PatchEmbed"),
        ({"embed_layer": lambda bias, **rest: PatchEmbed(bias=not bias, **rest)}, "Conv2d bias=False"),
        ({"embed_layer": partial(HybridEmbed, stem, feature_ratio=1, feature_size=SIZE[1:])}, "HybridEmbed"),
    ):
        model = timms(**more)
        before = [*model.state_dict()]
        with pytest.raises(SpecError, match=rf"must have a plain \w+ with a bias.* narrower, got {name}"):
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
    with pytest.raises(SpecError, match=r"model must have a plain Linear .* got LoRA: add yours after attach"):
        attach(with_lora(timms()), Learnable(injection=Concat(places=("query",))))
    for spec in (Learnable(injection=Concat()), Rotary()):
        assert {type(block.attn.qkv) for block in attach(with_lora(timms()), spec).blocks} == {LoRA}
