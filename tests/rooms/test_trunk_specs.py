"""The other trunks as numbers: what they count, what they have room for, and that each of them trains."""

import subprocess
import sys
from pathlib import Path

import pytest
import timm
import torch

from search_spaces.space import Choice, Space
from search_spaces.study import Search, Study
from trainables import staged_specs, trunk_specs
from trainables.backbones import BACKBONES, build_model
from trainables.catalog import IRPE, PEG, Add, Composed, Concat, Fourier, Learnable, NoEncoding, RelativeBias
from trainables.encoding_spec import Takes
from trainables.host import trainable
from trainables.model_spec import DEIT_TINY
from trainables.recipe import Recipe, RedGreen, Run
from trainables.spec import SpecError
from trainables.train import train
from trainables.weight import weigh

ROOT = Path(__file__).parents[2]
ONE_GRID = ("cait", "convit", "volo", "tnt")
STAGED = ("pvt_v2", "swin", "twins")
OTHERS = {
    "cait": {"dim": 24, "depth": 3, "heads": 3, "mlp_ratio": 2.5, "class_depth": 1},
    "convit": {"dim": 40, "depth": 4, "heads": 5, "local": 3, "patch": 8},
    "volo": {"dims": [12, 24], "depths": [2, 1, 2], "heads": [2, 3], "stem": 8, "mlp_ratio": 2.5},
    "tnt": {"dim": 24, "heads": 3, "inner_dim": 12, "inner_heads": 3, "patch": 8, "stride": 3},
    "pvt_v2": {"depths": [1, 2, 1], "dims": [8, 12, 24], "heads": [1, 2, 3], "reductions": [4, 2, 1],
               "mlp_ratios": [2.5, 3, 1]},
    "twins": {"depths": [2, 1, 1], "dims": [8, 12, 24], "heads": [1, 2, 3], "reductions": [4, 2, 1],
              "mlp_ratios": [2.5, 3, 1], "peg": False},
    "swin": {"depths": [2, 1, 1], "dim": 12, "heads": [1, 2, 3], "window": 2, "relative_bias": False},
}  # fmt: skip
KINDS = [*OTHERS]
NONE = NoEncoding()


def trunk(kind, **knobs):
    return {f"model.{name}": value for name, value in {"kind": kind, **knobs}.items()}


def put(kind, encoding=NONE, **knobs):
    return Recipe().put({**trunk(kind, **knobs), "encoding": encoding})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("encoding", [Learnable(), PEG(), Fourier(enters=Concat(split=0.25))])
def test_parameters_are_counted(kind, encoding):
    if isinstance(encoding, Fourier) and kind in STAGED:
        encoding = Fourier()
    for knobs in ({}, OTHERS[kind]):
        recipe = put(kind, encoding, **knobs)
        counted = sum(parameter.numel() for parameter in build_model(recipe).parameters())
        assert weigh(recipe).parameters == counted


PRESETS = {
    "cait_xxs36_224": (trunk_specs.CAIT_XXS36, "pos_embed"),
    "convit_small": (trunk_specs.CONVIT_SMALL, "pos_embed"),
    "convit_base": (trunk_specs.CONVIT_BASE, "pos_embed"),
    "volo_d1_224": (trunk_specs.VOLO_D1, "pos_embed"),
    "volo_d2_224": (trunk_specs.VOLO_D2, "pos_embed"),
    "tnt_s_patch16_224": (trunk_specs.TNT_SMALL, "patch_pos"),
    "tnt_b_patch16_224": (trunk_specs.TNT_BASE, "patch_pos"),
    "pvt_v2_b1": (staged_specs.PVT_V2_B1, None),
    "pvt_v2_b2": (staged_specs.PVT_V2_B2, None),
    "pvt_v2_b3": (staged_specs.PVT_V2_B3, None),
    "swin_tiny_patch4_window7_224": (staged_specs.SWIN_TINY, None),
    "twins_pcpvt_small": (staged_specs.TWINS_PCPVT_SMALL, None),
}
"""timm's names, and its table that an encoding takes the place of."""


@pytest.mark.parametrize("name", PRESETS)
def test_presets_have_timms_size(name):
    """Theirs without the table (our learned code has as many numbers) and without VOLO's second head."""
    spec, table = PRESETS[name]
    with torch.device("meta"):
        theirs = {name: value.numel() for name, value in timm.create_model(name).named_parameters()}
    second_head = sum(count for name, count in theirs.items() if name.startswith("aux_head"))
    learnt = sum(Learnable().parameters(shape) for shape in spec.shapes((3, 224, 224))) if table else 0
    ours = spec.parameters((3, 224, 224), 1000, Takes()) + learnt
    assert ours == sum(theirs.values()) - second_head


def test_concatenation_saves_what_the_paper_says():
    """ConViT-S: 27.78 M with the table added, 27.57 M (27.5 printed) with one half as wide beside the content."""
    spec, size, counts = trunk_specs.CONVIT_SMALL, (3, 224, 224), []
    for code in (Learnable(), Learnable(enters=Concat())):
        (shape,) = spec.shapes(size)
        counts.append(spec.parameters(size, 1000, code.takes(shape.widths)) + code.parameters(shape))
    assert counts == [27_777_322, 27_568_882]


def test_a_trunk_can_be_searched():
    space = Space(
        domains={"model.kind": Choice(KINDS), "encoding.kind": Choice(["none", "peg"])},
        given={"model.kind": {"swin": {"model.window": Choice([2, 4])}}},
    )
    assert Study(name="trunks", question="Which?", base=Recipe(), plan=Search(space=space)).plan.space == space


def test_presets_fit_the_papers_images():
    for spec in [DEIT_TINY, trunk_specs.CAIT_XS36, *(spec for spec, _ in PRESETS.values())]:
        spec.fit((3, 224, 224))


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


@pytest.mark.parametrize("kind", BACKBONES)
@pytest.mark.parametrize("image", [32, 64])
def test_what_an_image_keeps_is_told_within_a_half(kind, image):
    recipe = put(kind).put({"data.image": image})
    model = build_model(recipe)
    kept = Kept(model)
    with kept:
        model(torch.randn(4, *recipe.data.size))
    counted = sum(count for count, _ in kept.seen.values()) / 4
    assert 1 / 1.5 < recipe.model.kept(recipe.data.size, 0) / counted < 1.5


PAIRS = (IRPE(), RelativeBias(), Learnable(enters=Add(places=("query",))), Learnable(enters=Concat(places=("value",))),
         PEG(into="query_key"), PEG(padding="valid"), Composed(parts=(PEG(padding="valid"), Learnable())),
         Composed(parts=(Learnable(), IRPE())))  # fmt: skip
LATER = (PEG(places=(0,)), Learnable(enters=Add(blocks=2)))
TAKING = (Learnable(enters=Concat()), Composed(parts=(Learnable(enters=Concat()), PEG())))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("encoding", [*PAIRS, *LATER, *TAKING])
def test_what_a_trunk_has_no_place_for_is_refused(kind, encoding):
    if encoding in (LATER if kind in STAGED else TAKING):
        assert put(kind, encoding).model.kind == kind
        return
    with pytest.raises(SpecError, match=r"^encoding must be none, or .*no place for terms of pairs.*, got "):
        put(kind, encoding)


def test_a_refusal_is_one_sentence():
    with pytest.raises(SpecError) as told:
        put("cait", IRPE())
    assert str(told.value) == (
        "encoding must be none, or what enters cait before its first block: a code or a padded convolution "
        "(its attention mixes heads and has no place for terms of pairs), got 'irpe'"
    )


@pytest.mark.parametrize(("kind", "knobs", "sentence"), [
    ("cait", {"patch": 5}, r"model\.patch must be a divisor of the image's sides \(32, 32\), got 5"),
    ("cait", {"heads": 5}, r"model\.dim must be a multiple of heads \(5\), got 64"),
    ("convit", {"local": 2}, r"model\.local must be below depth \(2\), got 2"),
    ("volo", {"patch": 5}, r"model\.patch must be 4, 8 or 16 \(pixels a side\), got 5"),
    ("volo", {"heads": [3, 4]}, r"model\.dims must be multiples of heads \(3, 4\), got \[32, 64\]"),
    ("volo", {"depths": [3]}, r"model\.depths must be two or more numbers of blocks, got \[3\]"),
    ("tnt", {"inner_heads": 3}, r"model\.inner_dim must be a multiple of inner_heads \(3\), got 16"),
    ("pvt_v2", {"dims": [8]}, r"model\.dims must be as many numbers as depths \(2\), got \[8\]"),
    ("pvt_v2", {"heads": [1, 3]}, r"model\.heads must be divisors of the stages' channels \(32, 64\), got \[1, 3\]"),
    ("twins", {"patch": 32}, r"model\.depths must be such that images of \(32, 32\) pixels can be cut and halved "
                            r"\(sides: multiples of 64\), got \[2, 2\]"),
    ("twins", {"reductions": [3, 1]}, r"model\.reductions must be divisors of the stages' sides, here \(8, 8\), got"),
    ("swin", {"window": 3}, r"model\.window must be a divisor of the stages' sides, or larger, here \(8, 8\), got 3"),
    ("bit", {}, r"model\.kind must be one of vit, cait, convit, volo, tnt, pvt_v2, swin, twins, got 'bit'"),
])  # fmt: skip
def test_mistakes_are_told_in_one_sentence(kind, knobs, sentence):
    with pytest.raises(SpecError, match=sentence):
        put(kind, **knobs)


def test_volo_and_convit_say_which_images_they_take():
    with pytest.raises(SpecError, match=r"model\.patch must be such that twice its side divides"):
        put("volo").put({"data.image": 36})
    with pytest.raises(Exception, match=r"must be one of the others where the image is not square \(16, 24\)"):
        trunk_specs.ConViT().fit((3, 16, 24))


def test_a_kind_starts_a_trunk_from_its_defaults_and_is_in_the_key():
    recipe = Recipe().put({"model.dim": 32, "model.kind": "cait", "model.depth": 3})
    assert recipe.model == trunk_specs.CaiT(dim=32, depth=3)
    assert Recipe.read(recipe.plain()) == recipe
    assert recipe.model.identity() == {"kind": "cait", "dim": 32, "depth": 3}
    assert len({Run(put(kind), 0).key for kind in BACKBONES}) == len(BACKBONES) == 8


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_says_what_is_legal(kind):
    fields = type(put(kind).model).model_fields
    assert all(info.description for name, info in fields.items() if name != "kind")


def test_looking_at_trunks_needs_no_torch():
    code = (
        "import sys; from trainables.recipe import Recipe; from trainables.weight import weigh\n"
        f"for kind in {KINDS}: weigh(Recipe().put({{'model.kind': kind}}))\n"
        "assert not {'torch', 'timm', 'numpy'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_only_position_learns_in_all_stages(kind):
    model = build_model(put(kind, Composed(parts=(Learnable(), PEG(frozen=True)))))
    trainable(model, "position")
    learning = {name for name, value in model.named_parameters() if value.requires_grad}
    assert learning == {name for name, _ in model.named_parameters() if name.endswith("learnable.table")}
    assert len(learning) == (2 if kind in STAGED else 1)


HALVES = RedGreen(task="absolute", image=16, train=400, validation=100, test=100)


@pytest.mark.parametrize("kind", KINDS)
def test_each_trunk_learns_which_half(kind, tmp_path):
    """A little training beats chance, and taken up again it says the same."""
    values = {"encoding.kind": "learnable", "encoding.std": 0.5, "optimiser.epochs": 3, "optimiser.batch": 20,
              "optimiser.lr": 0.002}  # fmt: skip
    run = Run(put(kind).put({"data": HALVES, **values}), 0)
    curve = list(train(run, tmp_path))
    assert curve[-1].values["test/accuracy"] > 0.85
    assert list(train(run, tmp_path)) == curve
