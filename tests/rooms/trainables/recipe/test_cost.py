"""The weight and the arithmetic of a run, against the real model's and the formulas of a transformer."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from trainables.backbones import TNT, VOLO, CaiT, ConViT, PVTv2, Swin, Twins, ViT
from trainables.data import RedGreen
from trainables.encodings import (  # fmt: skip
    IRPE,
    KINDS,
    PEG,
    Learnable,
    NoEncoding,
    OwnEncoding,
)
from trainables.recipe import AdamW, DRLoc, FromTrial, Recipe, Run
from trainables.recipe.cost import PROCESS_BYTES, check_placement, estimate_cost, head_parameters, most_forward_flops
from trainables.recipe.evaluation import EVAL_BYTES, eval_batch, eval_bytes
from trainables.recipe.flops_torch import forward_flops, learning_flops, training_flops
from trainables.recipe.model_torch import build_model
from trainables.recipe.optimizer import normalizes_batches
from trainables.spec import SpecError
from trainables.training.loss import Objective
from trainables.weights.load import HEADS

ROOT = Path(__file__).parents[4]


def test_terms_of_pairs_weigh():
    light, heavy = (estimate_cost(Recipe(encoding=IRPE(mode=mode))).memory_bytes for mode in ("bias", "contextual"))
    assert light < heavy < estimate_cost(Recipe(encoding=IRPE(on=("k", "v")))).memory_bytes


def test_memory_grows_with_batch_depth_and_precision():
    light = estimate_cost(Recipe()).memory_bytes
    for heavier in (AdamW(batch_size=400), AdamW(precision="float64")):
        assert estimate_cost(Recipe(optimizer=heavier)).memory_bytes > light
    averaged = estimate_cost(Recipe().put({"optimizer.ema_decay": 0.999}))
    assert averaged.memory_bytes - light == 4 * averaged.parameters
    large = Recipe().put({"optimizer.batch_size": 1000, "model.depth": 4})
    in_parts = large.put({"optimizer.accumulate": 4})
    assert estimate_cost(in_parts).memory_bytes < estimate_cost(large).memory_bytes
    assert estimate_cost(Recipe(model=ViT(depth=3))).memory_bytes > light


def test_the_mlp_of_localization_is_counted():
    recipe = Recipe(model=ViT(embed_dim=24, num_heads=3), auxiliary=DRLoc(hidden=20))
    run = Run(recipe, 0)
    objective = Objective(run, build_model(recipe))
    counted = sum(parameter.numel() for parameter in objective.parameters())
    cost = estimate_cost(recipe)
    assert cost.parameters == cost.learnt == counted > estimate_cost(recipe.put({"auxiliary.kind": "none"})).parameters


def test_localization_needs_the_memory_of_all_tokens():
    """It reads all of them, where the class token's row of the last block is computed alone otherwise."""
    batch, tokens = 100, 64
    alone, localized = (
        estimate_cost(Recipe().put({"auxiliary.kind": kind, "optimizer.batch_size": batch}))
        for kind in ("none", "drloc")
    )
    mlp = localized.parameters - alone.parameters
    more = localized.memory_bytes - alone.memory_bytes - 16 * mlp
    assert more > 4 * batch * tokens * 64 * 10, "ten activations of 64 channels for each further token"


def test_heads_are_counted(subtests):
    for kind in ["vit", "cait", "convit", "volo", "tnt", "pvt_v2", "twins", "swin"]:
        with subtests.test(str(kind)):
            recipe = Recipe().put({"model.kind": kind, "data.task": "direction4"})
            named = build_model(recipe).named_parameters()
            assert head_parameters(recipe) == sum(value.numel() for name, value in named if name.startswith(HEADS))


def test_an_evaluation_fits_into_its_memory():
    """A term of pairs at 224 pixels: 256 images together would need hundreds of GiB."""
    recipe = Recipe(encoding=IRPE(on=("q", "k", "v")), model=ViT(pool="avg"))
    assert [eval_batch(recipe, side) for side in (None, 48)] == [256, 256]
    assert 1 <= eval_batch(recipe, 224) < 8
    for side in (None, 64, 80, 224):
        assert eval_batch(recipe, side) == 1 or eval_batch(recipe, side) * eval_bytes(recipe, side) <= EVAL_BYTES
    bytes_at = [estimate_cost(recipe.put({"test_sizes": sides})).memory_bytes for sides in ([], [64], [64, 80])]
    assert bytes_at[0] < bytes_at[1] <= bytes_at[2] < bytes_at[0] + 2 * EVAL_BYTES


def test_half_precision_keeps_fewer_bytes_for_the_gradient():
    """ViT-S/16 at 224, 128 images: 7.1 GiB of tensors in float32 and 4.4 in bfloat16 on an H100 (`make gpu`)."""
    small = Recipe(
        data=RedGreen(image_size=224, square=32, train_size=256, val_size=128, test_size=16),
        model=ViT(embed_dim=384, depth=12, num_heads=6, patch_size=16), encoding=Learnable(),
    ).put({"optimizer.batch_size": 128})  # fmt: skip
    for precision, measured in (("float32", 7.14), ("bfloat16", 4.39), ("float16", 4.39)):
        cost = estimate_cost(small.put({"optimizer.precision": precision}))
        predicted = (cost.memory_bytes - PROCESS_BYTES) / 2**30
        assert measured <= predicted <= 1.3 * measured, precision


STACK = PEG(form="dense_stack")


def test_workers_that_would_change_numbers_are_refused():
    said = r"^workers must be 0 or 1 on CPUs where a model has batch norms \(vit with peg\), got 2$"
    for recipe in (Recipe(encoding=STACK), Recipe(init=FromTrial(values={"encoding": STACK.plain()}, part="backbone"))):
        with pytest.raises(SpecError, match=said):
            check_placement(recipe, 2, "cpu", False)
        check_placement(recipe, 1, "cpu", False)
        check_placement(recipe, 2, "cuda", False)
    check_placement(Recipe(encoding=PEG(form="dense_stack", frozen=True)), 2, "cpu", True)
    check_placement(Recipe(), 2, "cpu", True)


def test_batch_norms_are_known_by_the_recipe(subtests):
    for kind in ["vit", "cait", "convit", "volo", "tnt", "pvt_v2", "twins", "swin"]:
        for encoding in [NoEncoding(), STACK]:
            with subtests.test(f"{kind}, {encoding}"):
                recipe = Recipe().put({"model.kind": kind})
                if kind in ("vit", "pvt_v2", "twins", "swin"):
                    recipe = recipe.put({"encoding": encoding.plain()})
                norms = any(isinstance(module, torch.nn.BatchNorm2d) for module in build_model(recipe).modules())
                assert normalizes_batches(recipe.model, recipe.encoding, recipe.trainable) == norms


TRAINS = """
import json, resource, sys, tempfile
from pathlib import Path
from trainables.recipe import Recipe, Run
from trainables.training.loop import train
values = {"optimizer.epochs": 1, "optimizer.batch_size": 200, "data.train_size": 400}
values |= {"model.embed_dim": 128, "model.depth": 4}
recipe = Recipe().put({**values, **json.loads(sys.argv[1])})
with tempfile.TemporaryDirectory() as folder:
    list(train(Run(recipe=recipe, seed=0), Path(folder)))
from trainables.recipe.cost import PROCESS_BYTES, estimate_cost
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, estimate_cost(recipe).memory_bytes)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "encoding", [{}, {"encoding.kind": "irpe", "encoding.on": ["q", "k", "v"], "model.patch_size": 2}]
)
def test_memory_is_about_what_a_run_takes(encoding):
    command = [sys.executable, "-c", TRAINS, json.dumps(encoding)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    peak, estimated = map(int, done.stdout.split())
    assert 1 / 1.6 < estimated / peak < 1.6


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
