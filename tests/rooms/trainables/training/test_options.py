"""Options of a training: batches in parts, stochastic depth, an average of weights, rates of layers, random draws."""

import pytest
import torch
from timm.models.deit import VisionTransformerDistilled
from timm.models.vision_transformer import VisionTransformer
from timm.optim import param_groups_layer_decay
from torch.nn.functional import cross_entropy

from tests.anchors.backbones import ours, timms
from tests.rooms.trainables.training.small_runs import ENCODINGS, LOCALISED, SMALL, folder, numbers, same, small
from trainables.backbones import ViT
from trainables.backbones.drop_path_torch import assign_factors, draw_factors
from trainables.backbones.vit_torch import PositionedViT
from trainables.data.splits_torch import Reading, load
from trainables.encodings import IRPE, PEG, Composed, Fourier, Learnable, NoEncoding, RelativeBias, Rotary
from trainables.recipe import AdamW, DRLoc, Recipe, Run
from trainables.recipe.model_torch import build_model
from trainables.spec import LocusError, SpecError
from trainables.training import loop
from trainables.training.attach import attach
from trainables.training.checkpoint import EMA_WEIGHTS, WEIGHTS, read
from trainables.training.distributed import SINGLE, check_accumulate
from trainables.training.evaluation import compute_metric, metric_sums
from trainables.training.init import init_weights
from trainables.training.loop import Training, build_model_with_weights, train
from trainables.training.loss import Objective
from trainables.training.optimizer import build_optimizer, set_rate
from trainables.training.parameters import no_decay


def cut(images, count):
    return [torch.arange(images)[part].tolist() for part in SINGLE.parts(None, images, count)]


def test_parts_are_all_images_in_order():
    assert cut(7, 3) == [[0, 1], [2, 3], [4, 5, 6]]
    assert cut(7, 1) == [[*range(7)]]
    assert cut(2, 5) == [[0], [1]]
    assert cut(1, 4) == [[0]]


def test_each_part_is_computed_alone(monkeypatch):
    training = Training(small(optimizer__accumulate=3), "cpu", {}, SINGLE, Reading())
    seen = []
    training.module.register_forward_pre_hook(lambda module, given: seen.append(len(given[0])))
    training.learn(1)
    assert seen == [5, 5, 6, 5, 5, 6, 5, 5, 6, 1, 1]


def test_a_batch_norm_of_ones_own_is_refused_where_it_is_built():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    with pytest.raises(SpecError, match=r"optimizer\.accumulate must be 1 where a batch norm learns, got 2"):
        check_accumulate(model, 2)
    check_accumulate(model, 1)
    check_accumulate(model.requires_grad_(False), 2)
    SMALL.put({"encoding": PEG(form="depthwise_stack", frozen=True), "optimizer.accumulate": 2})


NONE = NoEncoding()
SIZES = {"embed_dim": 12, "depth": 4, "num_heads": 2, "patch_size": 4}
DROPS = {"model__depth": 3, "model__drop_path": 0.6}
JITTER = {"encoding": Rotary(normalize_coords="separate", jitter_coords=3.0)}


def dropping(rate, encoding=NONE, **values):
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
    mine = dropping(0.6).train()
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
    drops = dropping(0.9, encoding, pool=pool).double().train()
    factors = draw_factors(drops, 6, 0, 0)
    assert {*factors[:, -2:].flatten().tolist()} > {0.0}
    assign_factors(drops, factors)
    whole = drops.features(images(6, torch.float64)).x[:, : drops.num_prefix_tokens]
    assign_factors(drops, factors)
    short = drops.head_tokens(images(6, torch.float64)).x
    assert torch.allclose(short, whole, rtol=0, atol=1e-12)


def test_factors_keep_the_mean_and_belong_to_blocks():
    factors = draw_factors(dropping(0.6), 20000, 3, 7)
    for branch, rate in enumerate((0.2, 0.2, 0.4, 0.4, 0.6, 0.6)):
        values, counts = factors[:, branch].unique(return_counts=True)
        assert values.tolist() == pytest.approx([0.0, 1 / (1 - rate)], rel=1e-6)
        assert float(counts[0]) / 20000 == pytest.approx(rate, abs=0.015)
    assert torch.corrcoef(factors.T).fill_diagonal_(0).abs().max() < 0.04


def test_factors_are_a_function_of_seed_and_step():
    built = dropping(0.6)
    assert torch.equal(draw_factors(built, 8, 3, 7), draw_factors(built, 8, 3, 7))
    assert torch.equal(draw_factors(built, 8, 3, 7), draw_factors(dropping(0.6, PEG()), 8, 3, 7)), "arms are paired"
    others = [draw_factors(built, 8, seed, step) for seed, step in ((3, 8), (4, 7))]
    assert not any(torch.equal(draw_factors(built, 8, 3, 7), other) for other in others)


def test_a_forward_pass_in_training_needs_numbers_of_its_own():
    drops = dropping(0.5).train()
    with pytest.raises(LocusError, match=r"model\.drop_path must be given random numbers before each forward pass"):
        drops(images(3))
    assign_factors(drops, draw_factors(drops, 3, 0, 0))
    drops(images(3))
    with pytest.raises(LocusError, match=r"model\.drop_path must be given"):
        drops(images(3))


@pytest.mark.parametrize(("values", "still"), [
    ({"encoding": ENCODINGS[1]}, {"encoding": NONE}),
    (LOCALISED, {"auxiliary": {"kind": "none"}}),
    (DROPS, {"model__drop_path": 0.0}),
    (JITTER, {"encoding": Rotary(normalize_coords="separate")}),
])  # fmt: skip
def test_a_run_in_parts_is_the_run(tmp_path, values, still):
    """50 images in batches of 16: the last batch has 2. What is drawn for a batch is drawn for its parts."""
    runs = [small(**values, optimizer__precision="float64", optimizer__accumulate=parts) for parts in (1, 3)]
    runs.append(small(**{**values, **still}, optimizer__precision="float64"))
    losses = [
        [m.values["train/loss"] for m in train(run, folder(tmp_path, str(number)))] for number, run in enumerate(runs)
    ]
    assert losses[1] == pytest.approx(losses[0], abs=1e-12)
    assert losses[2] != losses[0]
    weights = read(tmp_path / "1" / WEIGHTS)
    for name, value in read(tmp_path / "0" / WEIGHTS).items():
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
    drops = dropping(0.6).train()
    assign_factors(drops, torch.full((2, 6), 1 / 3))
    with torch.autocast("cpu", torch.bfloat16):
        assert drops.blocks[3].drop_path2(torch.full((2, 4, 12), 3.0, dtype=torch.bfloat16)).unique().tolist() == [1.0]


EMA = {"optimizer__ema_decay": 0.9}


@pytest.mark.parametrize("encoding", [Fourier(hidden=6), PEG(form="depthwise_stack")], ids=["", "statistics"])
def test_after_each_step_it_moves_towards_the_weights(encoding):
    training = Training(small(encoding=encoding, **EMA, optimizer__precision="float64"), "cpu", {}, SINGLE, Reading())
    expected = {name: value.clone() for name, value in training.model.state_dict().items()}
    loop.train_mode(training.module)
    for step in range(5):
        chosen = torch.arange(10) + step
        training._step(chosen, *training.splits.train.batch(chosen, training.dtype), step)
        for name, value in training.model.state_dict().items():
            moves = value.is_floating_point()
            expected[name] = 0.9 * expected[name] + 0.1 * value if moves else value.clone()
    for name, value in training.ema.module.state_dict().items():
        assert torch.allclose(value, expected[name], rtol=0, atol=1e-14), name
        assert value.data_ptr() != training.model.state_dict()[name].data_ptr()
    moved = [not torch.equal(expected[name], value) for name, value in training.model.state_dict().items()]
    assert sum(moved) > len(moved) / 2


def test_a_warmed_up_average_forgets_the_first_weights():
    """After step s it keeps 1 - s^(-2/3) of itself, at most the decay: nothing after the first, a half after three."""
    training = Training(
        small(**EMA, optimizer__ema_warmup=True, optimizer__precision="float64"), "cpu", {}, SINGLE, Reading()
    )
    expected = training.model.state_dict()["head.weight"].clone()
    loop.train_mode(training.module)
    for step in range(35):
        chosen = torch.arange(4) + step % 3
        training._step(chosen, *training.splits.train.batch(chosen, training.dtype), step)
        decay = min(0.9, 1 - (step + 1) ** (-2 / 3))
        expected = decay * expected + (1 - decay) * training.model.state_dict()["head.weight"]
        found = training.ema.module.state_dict()["head.weight"]
        assert torch.allclose(found, expected, rtol=0, atol=1e-13), step
        assert step > 0 or torch.equal(found, training.model.state_dict()["head.weight"])
    assert decay == 0.9


@pytest.mark.parametrize("task", ["direction", "distance"])
def test_its_scores_are_those_of_the_kept_file_and_the_rest_stays(tmp_path, task):
    plain = list(train(small(data__task=task), folder(tmp_path, "plain")))
    both = list(train(small(data__task=task, **EMA), folder(tmp_path, "both")))
    metric = small(data__task=task).recipe.data.metric
    assert numbers(both) == numbers(plain)
    added = [{*mine.values} - {*theirs.values} for mine, theirs in zip(both, plain, strict=True)]
    assert added == [{f"val/{metric}_ema"}] * 3 + [{f"val/{metric}_ema", f"test/{metric}_ema"}]
    assert same(read(tmp_path / "both" / WEIGHTS), read(tmp_path / "plain" / WEIGHTS))
    assert not (tmp_path / "plain" / EMA_WEIGHTS).exists()
    model = build_model_with_weights(small(data__task=task).recipe, 0)
    model.load_state_dict(read(tmp_path / "both" / EMA_WEIGHTS))
    splits = load(small(data__task=task).recipe.data)
    for name, split in (("val", splits.validation), ("test", splits.test)):
        images, targets = split.batch(slice(None), torch.float32)
        with torch.no_grad():
            sums = metric_sums(metric, model.eval()(images), targets)
        expected = compute_metric(metric, sums, split.targets)
        assert both[-1].values[f"{name}/{metric}_ema"] == pytest.approx(expected, abs=1e-6)
    assert not same(read(tmp_path / "both" / EMA_WEIGHTS), read(tmp_path / "both" / WEIGHTS))


def test_what_is_frozen_stays_as_it_is(tmp_path):
    run = small(**EMA, trainable="position+head", encoding=Learnable())
    list(train(run, tmp_path))
    start = build_model_with_weights(run.recipe, 0).state_dict()
    frozen = [name for name in start if not name.startswith(("encoding.", "head."))]
    assert all(torch.equal(read(tmp_path / EMA_WEIGHTS)[name], start[name]) for name in frozen)
    assert not torch.equal(read(tmp_path / EMA_WEIGHTS)["head.weight"], start["head.weight"])


THREE_LAYERS = {"embed_dim": 12, "depth": 3, "num_heads": 2, "patch_size": 4}


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
    return kind(img_size=16, num_classes=3, **THREE_LAYERS, **read_out)


@pytest.mark.parametrize("pool", ["token", "distilled", "avg"])
def test_a_vits_factors_are_timms(pool):
    model = PositionedViT(ViT(**THREE_LAYERS, pool=pool), (3, 16, 16), 3, Learnable())
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


def test_a_loop_of_ones_own_draws_before_each_step():
    torch.manual_seed(0)
    model = VisionTransformer((12, 20), 4, 3, embed_dim=16, depth=2, num_heads=2, num_classes=3)
    attached = attach(model, JITTER["encoding"]).train()
    images, outputs = torch.randn(2, 3, 12, 20), []
    for step in (0, 1, 0):
        attached.draw(5, step)
        outputs.append(attached(images))
    assert torch.equal(outputs[0], outputs[2])
    assert not torch.equal(outputs[0], outputs[1])
