"""The arithmetic of a run, against the formula of a transformer that every text book has."""

from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from trainables.backbones import TNT, VOLO, CaiT, ConViT, PVTv2, Swin, Twins, ViT
from trainables.data import RedGreen
from trainables.encodings import KINDS, PEG, NoEncoding, OwnEncoding
from trainables.recipe import AdamW, DRLoc, Recipe, Run
from trainables.recipe.cost import most_forward_flops
from trainables.recipe.flops_torch import forward_flops, learning_flops, training_flops
from trainables.recipe.model_torch import build_model
from trainables.training.loss import Objective

RECIPE = Recipe(
    data=RedGreen(image_size=32, train_size=100, val_size=10, test_size=30),
    model=ViT(depth=3, pool="avg", embed_dim=64, num_heads=4),
    encoding=NoEncoding(),
    optimizer=AdamW(epochs=2, batch_size=50),
)
PATCH = 4


def by_hand(side: int, depth: int = 3, dim: int = 64) -> int:
    """Two operations a multiplication: patches; queries, keys, values, output and MLP; attention; the head."""
    tokens = (side // PATCH) ** 2
    patches = tokens * 3 * PATCH**2 * dim
    block = tokens * (4 + 8) * dim**2 + 2 * tokens**2 * dim
    return 2 * (patches + depth * block + dim * RECIPE.data.outputs)


def test_a_forward_pass_has_the_operations_of_a_transformer() -> None:
    assert RECIPE.model.patch_size == PATCH
    assert forward_flops(RECIPE) == by_hand(32)
    assert forward_flops(RECIPE, 48) == by_hand(48)


def test_an_encoding_that_convolves_adds_its_operations() -> None:
    peg = RECIPE.put({"encoding": PEG(places=(0,)).plain()})
    assert forward_flops(peg) - forward_flops(RECIPE) == 2 * 8 * 8 * 64 * 3 * 3, "depth-wise 3 x 3 on 8 x 8 patches"


def test_a_run_trains_with_three_passes_an_image_and_validates_and_tests_with_one() -> None:
    tested = RECIPE.put({"test_sizes": [48]})
    each = 2 * (3 * 100 + 10) * by_hand(32)
    assert training_flops(RECIPE) == each + 30 * by_hand(32)
    assert training_flops(tested) == each + 30 * by_hand(32) + 30 * by_hand(48)


def test_localization_adds_an_mlp_and_reads_the_tokens_of_all_patches() -> None:
    """Where the heads read the class token alone, the last block computes that one, in evaluation only."""
    for pool in ("avg", "token"):
        recipe = RECIPE.put({"model.pool": pool, "auxiliary": DRLoc(pairs=3, hidden=8).plain()})
        run = Run(recipe=recipe, seed=0)
        objective = Objective(run, build_model(recipe))
        image, target = torch.rand(1, *recipe.data.size), torch.zeros(1, dtype=torch.long)
        with FlopCounterMode(display=False) as counter:
            objective(image, target, **objective.loss_inputs(torch.arange(1), 0))
        learned, scored = counter.get_total_flops(), forward_flops(recipe)
        assert learning_flops(recipe) == learned > scored == forward_flops(RECIPE.put({"model.pool": pool}))
        assert training_flops(recipe) == 2 * (3 * 100 * learned + 10 * scored) + 30 * scored
        assert learned <= most_forward_flops(recipe) / 2
    wide = RECIPE.put({"auxiliary": DRLoc(pairs=10_000).plain()})
    assert learning_flops(wide) <= most_forward_flops(wide) / 2


def test_all_encodings_of_the_catalogue_are_counted(subtests) -> None:
    for kind in sorted({*KINDS} - {"composed", "custom"}):
        with subtests.test(str(kind)):
            assert forward_flops(RECIPE.put({"encoding.kind": kind})) >= forward_flops(RECIPE)


def test_an_encoding_whose_tables_follow_from_numbers_is_counted() -> None:
    """The quantization looks for the distinct distances of the grid, which shapes alone do not tell."""
    same_size = RECIPE.put({"encoding.kind": "irpe", "encoding.mapping.kind": "euclidean"})
    for of in ("squared", "rank"):
        quantized = same_size.put({"encoding.mapping": {"kind": "quantization", "of": of}})
        assert forward_flops(quantized) == forward_flops(same_size) > forward_flops(RECIPE)


def test_all_backbones_are_counted(subtests) -> None:
    for backbone in [TNT, VOLO, CaiT, ConViT, PVTv2, Swin, Twins]:
        with subtests.test(str(backbone)):
            assert forward_flops(Recipe(model=backbone(), encoding=NoEncoding())) > 0


def test_an_edited_encoding_of_ones_own_is_counted_anew() -> None:
    text = (Path(__file__).parents[3] / "laws" / "toys.py").read_text()
    edited = text.replace("    extra: int = 0\n", "    extra: int = 8\n")
    before, after = (Recipe(encoding=OwnEncoding(kind="toys.py:Beside", source=source)) for source in (text, edited))
    assert before.encoding.identity() == after.encoding.identity()
    assert forward_flops(after) > forward_flops(before)


def test_the_bound_that_needs_no_torch_lies_above_every_count() -> None:
    """The plan imports torch only where the bound says that the operations may decide the time."""
    kinds = sorted({*KINDS} - {"composed", "custom"})
    encoded = [RECIPE.put({"encoding.kind": kind}) for kind in kinds]
    composed = {"kind": "composed", "parts": [{"kind": "peg"}, {"kind": "irpe"}]}
    backbones = [Recipe(model=cls(), encoding=NoEncoding()) for cls in (TNT, VOLO, CaiT, ConViT, PVTv2, Swin, Twins)]
    for recipe in [RECIPE, *encoded, RECIPE.put({"encoding": composed}), *backbones]:
        for side in (None, 64):
            counted, bound = forward_flops(recipe, side), most_forward_flops(recipe, side)
            assert counted <= bound / 2, (recipe.model.kind, recipe.encoding.label, side)
