"""The ViT of one of timm's names is timm's: its weights, their number, its outputs; what differs is refused."""

import pytest
import timm
import torch

from trainables.backbones import ViT
from trainables.backbones.vit_by_name_torch import vit_like
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings import Learnable, NoEncoding, ReservedChannels
from trainables.spec import SpecError

CLASSES = 7
NAMES = {
    "deit_tiny_patch16_224": ViT(embed_dim=192, depth=12, num_heads=3, patch_size=16),
    "deit_small_distilled_patch16_224": ViT(embed_dim=384, depth=12, num_heads=6, patch_size=16, pool="distilled"),
    "vit_small_patch32_384": ViT(embed_dim=384, depth=12, num_heads=6, patch_size=32),
    "vit_so400m_patch14_siglip_gap_224": ViT(
        embed_dim=1152, depth=27, num_heads=16, patch_size=14, mlp_ratio=4304 / 1152, pool="gap"
    ),
}
"""Sizes of papers: DeiT table 1, ViT-S/32, SoViT-400m/14."""


def shapes(model, table):
    return {name: tuple(value.shape) for name, value in model.state_dict().items() if name != table}


@pytest.mark.parametrize("name", NAMES)
def test_its_weights_and_their_number_are_timms(name):
    spec = vit_like(name)
    assert spec == NAMES[name]
    with torch.device("meta"):
        theirs = timm.create_model(name, num_classes=CLASSES)
        size = (3, *theirs.patch_embed.img_size)
        ours = PositionedViT(spec, size, CLASSES, NoEncoding())
    assert shapes(ours, "") == shapes(theirs, "pos_embed")
    counted = spec.parameters(size, CLASSES, ReservedChannels()) + theirs.pos_embed.numel()
    assert counted == sum(value.numel() for value in theirs.parameters())
    assert Learnable().parameters(spec.shapes(size)[0]) == theirs.pos_embed.numel()


def test_its_outputs_are_timms():
    theirs = timm.create_model("test_vit", num_classes=CLASSES).double().eval()
    weights = dict(theirs.state_dict())
    size = (3, *theirs.patch_embed.img_size)
    ours = PositionedViT(vit_like("test_vit"), size, CLASSES, Learnable()).double().eval()
    weights["encoding.learnable.table"] = weights.pop("pos_embed")[0]
    ours.load_state_dict(weights)
    images = torch.randn(3, *size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(ours(images), theirs(images), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("name", "sentence"), [
    ("deit3_small_patch16_224", "with Identity() as blocks.0.ls1, got LayerScale()"),
    ("vit_small_patch16_18x2_224", "with Block as blocks.0, got ParallelThingsBlock"),
    ("vit_base_patch16_siglip_224", "with nothing as attn_pool, got AttentionPoolLatent()"),
    ("vit_tiny_r_s16_p8_224", "with PatchEmbed as patch_embed, got HybridEmbed"),
    ("vit_so150m_patch16_reg4_gap_256", "with nothing as reg_token, got weights of shape (1, 4, 896)"),
    ("vit_betwixt_patch16_gap_256", "with Linear(in_features=640, out_features=1920, bias=True) as blocks.0.attn.qkv, "
     "got Linear(in_features=640, out_features=1920, bias=False)"),
])  # fmt: skip
def test_what_differs_is_named(name, sentence):
    with pytest.raises(SpecError) as caught:
        vit_like(name)
    assert str(caught.value) == f"{name} must be a ViT as ours is, {sentence}"


def test_other_models_and_unknown_names_are_refused():
    with pytest.raises(SpecError, match=r"^resnet18 must be a VisionTransformer of timm's, got ResNet$"):
        vit_like("resnet18")
    with pytest.raises(SpecError, match=r"^the name .* such as deit_tiny_patch16_224, .*, got 'deit_tiny_patch_224'$"):
        vit_like("deit_tiny_patch_224")


def test_no_random_number_is_drawn():
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    vit_like("deit_tiny_patch16_224.fb_in1k")
    assert torch.equal(torch.random.get_rng_state(), before)
