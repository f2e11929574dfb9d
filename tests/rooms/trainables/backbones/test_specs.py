"""The other backbones as numbers: what they count, what they have room for, and that each of them trains."""

import subprocess
import sys
from pathlib import Path

import pytest
import timm
import torch

from search_spaces.space import Choice, Space
from search_spaces.study import Search, Study
from trainables.backbones import cait, convit, pvt_v2, swin, tnt, twins, volo
from trainables.backbones.vit import DEIT_TINY
from trainables.data import RedGreen
from trainables.encodings import (
    IRPE,
    PEG,
    Add,
    Composed,
    Concat,
    Fourier,
    Learnable,
    NoEncoding,
    RelativeBias,
    ReservedChannels,
)
from trainables.recipe import Recipe, Run
from trainables.recipe.cost import estimate_cost
from trainables.recipe.model_torch import build_model
from trainables.spec import SpecError
from trainables.training.loop import train
from trainables.training.parameters import set_trainable

ROOT = Path(__file__).parents[4]
STAGED = ("pvt_v2", "swin", "twins")
OTHERS = {
    "cait": {"embed_dim": 24, "depth": 3, "num_heads": 3, "mlp_ratio": 2.5, "depth_token_only": 1},
    "convit": {"embed_dim": 40, "depth": 4, "num_heads": 5, "local_up_to_layer": 3, "patch_size": 8},
    "volo": {"embed_dims": [12, 24], "layers": [2, 1, 2], "num_heads": [2, 3], "stem_hidden_dim": 8, "mlp_ratio": 2.5},
    "tnt": {"embed_dim": 24, "num_heads": 3, "inner_dim": 12, "num_heads_inner": 3, "patch_size": 8, "first_stride": 3},
    "pvt_v2": {"depths": [1, 2, 1], "embed_dims": [8, 12, 24], "num_heads": [1, 2, 3], "sr_ratios": [4, 2, 1],
               "mlp_ratios": [2.5, 3, 1]},
    "twins": {"depths": [2, 1, 1], "embed_dims": [8, 12, 24], "num_heads": [1, 2, 3], "sr_ratios": [4, 2, 1],
              "mlp_ratios": [2.5, 3, 1], "peg": False, "pool": "token"},
    "swin": {"depths": [2, 1, 1], "embed_dim": 12, "num_heads": [1, 2, 3], "window_size": 2, "relative_bias": False},
}  # fmt: skip
KINDS = [*OTHERS]
BACKBONES = [*OTHERS, "vit"]
NONE = NoEncoding()


def backbone(kind, **knobs):
    return {f"model.{name}": value for name, value in {"kind": kind, **knobs}.items()}


def put(kind, encoding=NONE, **knobs):
    return Recipe().put({**backbone(kind, **knobs), "encoding": encoding})


def test_parameters_are_counted(subtests):
    for kind in KINDS:
        for encoding in [Learnable(), PEG(), Fourier(injection=Concat(split=0.25))]:
            with subtests.test(f"{kind}, {encoding}"):
                if isinstance(encoding, Fourier) and kind in STAGED:
                    encoding = Fourier()
                for knobs in ({}, OTHERS[kind]):
                    recipe = put(kind, encoding, **knobs)
                    counted = sum(parameter.numel() for parameter in build_model(recipe).parameters())
                    assert estimate_cost(recipe).parameters == counted


PRESETS = {
    "cait_xxs36_224": (cait.CAIT_XXS36, "pos_embed"),
    "convit_small": (convit.CONVIT_SMALL, "pos_embed"),
    "convit_base": (convit.CONVIT_BASE, "pos_embed"),
    "volo_d1_224": (volo.VOLO_D1, "pos_embed"),
    "volo_d2_224": (volo.VOLO_D2, "pos_embed"),
    "tnt_s_patch16_224": (tnt.TNT_SMALL, "patch_pos"),
    "tnt_b_patch16_224": (tnt.TNT_BASE, "patch_pos"),
    "pvt_v2_b1": (pvt_v2.PVT_V2_B1, None),
    "pvt_v2_b2": (pvt_v2.PVT_V2_B2, None),
    "pvt_v2_b3": (pvt_v2.PVT_V2_B3, None),
    "swin_tiny_patch4_window7_224": (swin.SWIN_TINY, None),
    "twins_pcpvt_small": (twins.TWINS_PCPVT_SMALL, None),
}
"""timm's names, and its table that an encoding takes the place of."""


def test_presets_have_timms_size(subtests):
    """Theirs without the table (our learned code has as many numbers) and without VOLO's second head."""
    for name in PRESETS:
        with subtests.test(str(name)):
            spec, table = PRESETS[name]
            with torch.device("meta"):
                theirs = {name: value.numel() for name, value in timm.create_model(name).named_parameters()}
            second_head = sum(count for name, count in theirs.items() if name.startswith("aux_head"))
            learnt = sum(Learnable().parameters(shape) for shape in spec.shapes((3, 224, 224))) if table else 0
            ours = spec.parameters((3, 224, 224), 1000, ReservedChannels()) + learnt
            assert ours == sum(theirs.values()) - second_head


@pytest.mark.parametrize(
    ("spec", "millions"), [(twins.PVT_TINY, 13.2), (twins.PVT_SMALL, 24.5), (twins.PVT_MEDIUM, 44.2)]
)
def test_pvt_has_the_published_size(spec, millions):
    """With its tables, of which the last has a row for the class token. Source: PVT table 1; concat paper table 1."""
    size = (3, 224, 224)
    learnt = sum(Learnable().parameters(shape) for shape in spec.shapes(size))
    assert spec.shapes(size)[-1].tokens == 50
    assert (spec.parameters(size, 1000, ReservedChannels()) + learnt) / 1e6 == pytest.approx(millions, abs=0.05)


def test_concatenation_saves_what_the_paper_says():
    """ConViT-S: 27.78 M with the table added, 27.57 M (27.5 printed) with one half as wide beside the content."""
    spec, size, counts = convit.CONVIT_SMALL, (3, 224, 224), []
    for code in (Learnable(), Learnable(injection=Concat())):
        (shape,) = spec.shapes(size)
        counts.append(spec.parameters(size, 1000, code.reserved(shape.widths)) + code.parameters(shape))
    assert counts == [27_777_322, 27_568_882]


def test_a_backbone_can_be_searched():
    space = Space(
        domains={"model.kind": Choice(KINDS), "encoding.kind": Choice(["none", "peg"])},
        given={"model.kind": {"swin": {"model.window_size": Choice([2, 4])}}},
    )
    assert Study(name="backbones", question="Which?", base=Recipe(), plan=Search(space=space)).plan.space == space


def test_presets_fit_the_papers_images():
    for spec in [DEIT_TINY, cait.CAIT_XS36, *(spec for spec, _ in PRESETS.values())]:
        spec.check((3, 224, 224))


class Kept(torch.autograd.graph.saved_tensors_hooks):
    """Counts the numbers that autograd keeps, apart from parameters."""

    def __init__(self, model):
        self.own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
        self.seen = {}
        super().__init__(self._pack, lambda value: value)

    def _pack(self, value):
        storage = value.untyped_storage()
        if storage.data_ptr() not in self.own:
            self.seen[storage.data_ptr()] = (storage.nbytes() // 4, value)  # the value keeps the address from others
        return value


def test_what_an_image_keeps_is_told_within_a_half(subtests):
    for kind in BACKBONES:
        for image in [32, 64]:
            with subtests.test(f"{kind}, {image}"):
                recipe = put(kind).put({"data.image_size": image})
                model = build_model(recipe)
                kept = Kept(model)
                with kept:
                    model(torch.randn(4, *recipe.data.size))
                counted = sum(count for count, _ in kept.seen.values()) / 4
                assert 1 / 1.5 < recipe.model.saved_activations(recipe.data.size, 0) / counted < 1.5


PAIRS = (IRPE(), RelativeBias(), Learnable(injection=Add(places=("query",))),
         Learnable(injection=Concat(places=("value",))),
         PEG(into="query_key"), PEG(padding="valid"), Composed(parts=(PEG(padding="valid"), Learnable())),
         Composed(parts=(Learnable(), IRPE())))  # fmt: skip
LATER = (PEG(places=(0,)), Learnable(injection=Add(blocks=2)))
TAKING = (Learnable(injection=Concat()), Composed(parts=(Learnable(injection=Concat()), PEG())))


def test_what_a_backbone_has_no_place_for_is_refused(subtests):
    for kind in KINDS:
        for encoding in [*PAIRS, *LATER, *TAKING]:
            with subtests.test(f"{kind}, {encoding}"):
                if encoding in (LATER if kind in STAGED else TAKING):
                    assert put(kind, encoding).model.kind == kind
                    continue
                with pytest.raises(
                    SpecError, match=r"^encoding must be none, or .*no place for terms of pairs.*, got "
                ):
                    put(kind, encoding)


def test_volo_and_convit_say_which_images_they_take():
    with pytest.raises(SpecError, match=r"model\.patch_size must be such that twice its side divides"):
        put("volo").put({"data.image_size": 36})
    with pytest.raises(Exception, match=r"must be one of the others where the image is not square \(16, 24\)"):
        convit.ConViT().check((3, 16, 24))


def test_a_kind_starts_a_backbone_from_its_defaults_and_is_in_the_key():
    recipe = Recipe().put({"model.embed_dim": 32, "model.kind": "cait", "model.depth": 3})
    assert recipe.model == cait.CaiT(embed_dim=32, depth=3)
    assert Recipe.read(recipe.plain()) == recipe
    assert recipe.model.identity() == {"kind": "cait", "embed_dim": 32, "depth": 3}
    assert len({Run(put(kind), 0).key for kind in BACKBONES}) == len(BACKBONES) == 8


def test_only_position_learns_in_all_stages(subtests):
    for kind in KINDS:
        with subtests.test(str(kind)):
            model = build_model(put(kind, Composed(parts=(Learnable(), PEG(frozen=True)))))
            set_trainable(model, "position")
            learning = {name for name, value in model.named_parameters() if value.requires_grad}
            assert learning == {name for name, _ in model.named_parameters() if name.endswith("learnable.table")}
            assert len(learning) == (2 if kind in STAGED else 1)


HALVES = RedGreen(task="absolute", image_size=16, train_size=400, val_size=100, test_size=100)


@pytest.mark.parametrize("kind", KINDS)
def test_each_backbone_learns_which_half(kind, tmp_path):
    """A little training beats chance, and taken up again it says the same."""
    values = {"encoding.kind": "learnable", "encoding.std": 0.5, "optimizer.epochs": 3, "optimizer.batch_size": 20,
              "optimizer.lr": 0.002}  # fmt: skip
    run = Run(put(kind).put({"data": HALVES, **values}), 0)
    curve = list(train(run, tmp_path))
    assert curve[-1].values["test/accuracy"] > 0.85
    assert list(train(run, tmp_path)) == curve


def test_looking_at_backbones_needs_no_torch():
    code = (
        "import sys; from trainables.recipe import Recipe; from trainables.recipe.cost import estimate_cost\n"
        f"for kind in {KINDS}: estimate_cost(Recipe().put({{'model.kind': kind}}))\n"
        "assert not {'torch', 'timm', 'numpy'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
