"""Stochastic depth: timm's, with random numbers that depend on nothing but the seed, the step and the image's place."""

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer
from torch.nn.functional import cross_entropy

from tests.rooms.trainables.training.small_runs import LOCALISED, folder, numbers, small, whole_if_it_goes_on
from trainables.backbones import ViT
from trainables.backbones.drop_path_torch import assign_factors, draw_factors
from trainables.backbones.vit_torch import PositionedViT
from trainables.data.splits_torch import Reading
from trainables.encodings import PEG, Composed, Learnable, NoEncoding, RelativeBias
from trainables.recipe import Recipe, Run
from trainables.recipe.code_digest import CodeDigests
from trainables.spec import LocusError, SpecError
from trainables.training.checkpoint import WEIGHTS, read
from trainables.training.distributed import SINGLE
from trainables.training.init import init_weights
from trainables.training.loop import Training, build_model_with_weights, train

NONE = NoEncoding()
SIZES = {"embed_dim": 12, "depth": 4, "num_heads": 2, "patch_size": 4}
DROPS = {"model__depth": 3, "model__drop_path": 0.6}


def model(rate, encoding=NONE, **values):
    built = PositionedViT(ViT(**SIZES, **values, drop_path=rate), (3, 12, 20), 5, encoding)
    init_weights(built, 0)
    return built


def images(count, dtype=torch.float32):
    return torch.randn(count, 3, 12, 20, dtype=dtype, generator=torch.Generator().manual_seed(1))


def of_timm(rates, count):
    """The factors that timm draws from the global generator for the blocks, one branch after another."""
    return torch.stack(
        [torch.empty(count, 1, 1).bernoulli_(1 - p).div_(1 - p).flatten() for p in rates for _ in (0, 1)], 1
    )


def test_with_timms_random_numbers_it_is_timm_to_the_bit():
    mine = model(0.6).train()
    theirs = VisionTransformer(img_size=(12, 20), num_classes=5, **SIZES, drop_path_rate=0.6, pos_embed="none").train()
    theirs.load_state_dict(mine.state_dict())
    rates = [block.drop_path1.drop_prob for block in theirs.blocks[1:]]
    assert rates == [block.drop_path1.drop_prob for block in mine.blocks[1:]] == pytest.approx([0.2, 0.4, 0.6])
    with torch.random.fork_rng():
        torch.manual_seed(5)
        expected = theirs(images(9))
        torch.manual_seed(5)
        factors = of_timm(rates, 9)
    assign_factors(mine, factors)
    of_all = mine.output(mine.features(images(9)))
    assert torch.equal(of_all, expected)
    expected.square().sum().backward()
    of_all.square().sum().backward()
    gradients = dict(mine.named_parameters())
    for name, value in theirs.named_parameters():
        assert torch.equal(gradients[name].grad, value.grad), name
    assert (factors == 0).any()


@pytest.mark.parametrize("pool", ["token", "distilled"])
@pytest.mark.parametrize("encoding", [NoEncoding(), Composed(parts=(Learnable(), PEG(), RelativeBias()))])
def test_a_short_last_block_leaves_out_what_a_whole_one_does(pool, encoding):
    """The tokens that the heads read, computed alone and among all others."""
    drops = model(0.9, encoding, pool=pool).double().train()
    factors = draw_factors(drops, 6, 0, 0)
    assert {*factors[:, -2:].flatten().tolist()} > {0.0}
    assign_factors(drops, factors)
    whole = drops.features(images(6, torch.float64)).x[:, : drops.num_prefix_tokens]
    assign_factors(drops, factors)
    short = drops.head_tokens(images(6, torch.float64)).x
    assert torch.allclose(short, whole, rtol=0, atol=1e-12)


def test_factors_keep_the_mean_and_belong_to_blocks():
    factors = draw_factors(model(0.6), 20000, 3, 7)
    for branch, rate in enumerate((0.2, 0.2, 0.4, 0.4, 0.6, 0.6)):
        values, counts = factors[:, branch].unique(return_counts=True)
        assert values.tolist() == pytest.approx([0.0, 1 / (1 - rate)], rel=1e-6)
        assert float(counts[0]) / 20000 == pytest.approx(rate, abs=0.015)
    assert torch.corrcoef(factors.T).fill_diagonal_(0).abs().max() < 0.04


def test_factors_are_a_function_of_seed_and_step():
    built = model(0.6)
    assert torch.equal(draw_factors(built, 8, 3, 7), draw_factors(built, 8, 3, 7))
    assert torch.equal(draw_factors(built, 8, 3, 7), draw_factors(model(0.6, PEG()), 8, 3, 7)), "arms are paired"
    others = [draw_factors(built, 8, seed, step) for seed, step in ((3, 8), (4, 7))]
    assert not any(torch.equal(draw_factors(built, 8, 3, 7), other) for other in others)


def test_an_evaluation_drops_nothing():
    drops, plain = model(0.9).eval(), model(0.0).eval()
    assert torch.equal(drops(images(4)), plain(images(4)))


def test_a_forward_pass_in_training_needs_numbers_of_its_own():
    drops = model(0.5).train()
    with pytest.raises(LocusError, match=r"model\.drop_path must be given random numbers before each forward pass"):
        drops(images(3))
    assign_factors(drops, draw_factors(drops, 3, 0, 0))
    drops(images(3))
    with pytest.raises(LocusError, match=r"model\.drop_path must be given"):
        drops(images(3))


@pytest.mark.parametrize("values", [{}, LOCALISED, {"optimizer__accumulate": 3}], ids=["", "drloc", "parts"])
def test_a_closed_run_goes_on_bit_for_bit(tmp_path, values):
    whole = whole_if_it_goes_on(small(**DROPS, **values), tmp_path, 2)
    plain = list(train(small(**{**DROPS, "model__drop_path": 0.0}, **values), folder(tmp_path, "plain")))
    assert numbers(plain) != numbers(whole)


def test_parts_of_a_batch_drop_what_the_batch_does(tmp_path):
    values = {**DROPS, "optimizer__precision": "float64"}
    list(train(small(**values), folder(tmp_path, "whole")))
    list(train(small(**values, optimizer__accumulate=3), folder(tmp_path, "parts")))
    weights = read(tmp_path / "parts" / WEIGHTS)
    for name, value in read(tmp_path / "whole" / WEIGHTS).items():
        assert torch.allclose(weights[name], value, rtol=0, atol=1e-10), name


def test_a_step_uses_the_numbers_of_its_images():
    """The loss of a step, computed again one image after another with its row of the factors."""
    run = small(**DROPS, optimizer__precision="float64", optimizer__clip_grad=None)
    training = Training(run, "cpu", {}, SINGLE, Reading())
    chosen = torch.tensor([7, 3, 30, 11])
    pictures, targets = training.splits.train.batch(chosen, torch.float64)
    loss = training._step(chosen, pictures, targets, 5)
    fresh = build_model_with_weights(run.recipe, run.seed).double().train()
    factors, total = draw_factors(fresh, 4, run.seed, 5), 0.0
    for row in range(4):
        assign_factors(fresh, factors[row : row + 1])
        total += cross_entropy(fresh(pictures[row : row + 1]), targets[row : row + 1]).item()
    assert float(loss) == pytest.approx(total, rel=1e-12)


def test_bfloat16_multiplies_in_full():
    drops = model(0.6).train()
    assign_factors(drops, torch.full((2, 6), 1 / 3))
    with torch.autocast("cpu", torch.bfloat16):
        assert drops.blocks[3].drop_path2(torch.full((2, 4, 12), 3.0, dtype=torch.bfloat16)).unique().tolist() == [1.0]


def test_one_block_and_wrong_rates_are_refused():
    with pytest.raises(SpecError, match=r"model\.drop_path must be 0 where depth is 1, .* got 0\.1"):
        Recipe().put({"model.drop_path": 0.1})
    for rate in (1.0, -0.1):
        with pytest.raises(SpecError, match=r"model\.drop_path must be a probability"):
            Recipe().put({"model.depth": 2, "model.drop_path": rate})


def test_it_is_another_run_and_its_file_counts_where_it_drops():
    plain = Recipe().put({"model.depth": 2})
    drops = plain.put({"model.drop_path": 0.1})
    assert Run(plain.put({"model.drop_path": 0.0}), 0).key == Run(plain, 0).key != Run(drops, 0).key
    assert {*CodeDigests().files(drops)} - {*CodeDigests().files(plain)} == {"backbones/drop_path_torch.py"}
