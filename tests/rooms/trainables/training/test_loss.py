"""What a training descends: the loss of a task alone, with a teacher, with DRLoc; by formulas and loops."""

import hashlib
import math

import pytest
import timm.loss
import torch
from torch.nn.functional import cross_entropy, relu

from tests.rooms.trainables.training.small_runs import folder, small, whole_if_it_goes_on
from trainables.backbones import ViT
from trainables.backbones.vit_torch import PositionedViT
from trainables.data.splits_torch import Reading, load
from trainables.encodings import PEG, Learnable
from trainables.encodings.encoding_torch import Grid, Tokens
from trainables.recipe import BinaryCrossEntropy, DRLoc, Recipe, Run, TaughtByFile, TaughtByTrial
from trainables.recipe.model_torch import build_model
from trainables.spec import LocusError, SpecError
from trainables.training.checkpoint import WEIGHTS, read, write
from trainables.training.distributed import SINGLE
from trainables.training.init import init_weights
from trainables.training.loop import Training, build_model_with_weights, train
from trainables.training.loss import Objective, summed_loss
from trainables.training.optional.distillation import Teacher
from trainables.training.optional.drloc import Localization

LOCALISES = DRLoc(pairs=5, hidden=12)


def pupil(teacher=None, **values) -> Run:
    teacher = (teacher or TaughtByTrial(values={"model.embed_dim": 12})).plain()
    return small(**({"model__pool": "distilled", "teacher": teacher} | values))


def batch(run: Run, size: int = 6):
    return load(run.recipe.data).train.batch(slice(0, size), torch.float64)


def kept(run: Run, path, **changes) -> TaughtByFile:
    """The teacher as it begins, some of its weights changed, in a file."""
    torch.save(build_model_with_weights(run.recipe.teacher_recipe, 5).state_dict() | changes, path)
    return TaughtByFile(
        path=str(path), sha256=hashlib.sha256(path.read_bytes()).hexdigest(), values=run.recipe.teacher.values
    )


@pytest.mark.parametrize("task", ["direction", "distance"])
def test_a_plain_recipes_objective_is_its_tasks_loss(task):
    run = small(data__task=task)
    model = build_model_with_weights(run.recipe, 0).double()
    images, targets = batch(run)
    objective = Objective(run, model)
    outputs = model(images)
    loss = cross_entropy(outputs, targets) if task == "direction" else (outputs - targets).square().mean()
    assert objective(images, targets).item() == pytest.approx(6 * loss.item(), rel=1e-12)
    assert objective.loss_inputs(torch.arange(6), 0) == objective.extra_state() == {}
    assert {f"model.{name}" for name in model.state_dict()} == set(objective.state_dict())


def test_a_binary_loss_asks_of_each_class_alone():
    """-(t log s + (1 - t) log(1 - s)) with s = 1 / (1 + e^-x); for labels, smoothed labels and mixed ones."""
    outputs = torch.linspace(-3, 4, 15, dtype=torch.float64).reshape(5, 3).flip(0)
    classes = torch.tensor([2, 0, 1, 1, 0])
    mixed = torch.tensor([[0.7, 0.3, 0.0], [0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.0, 0.1, 0.9], [0.4, 0.6, 0.0]]).double()
    hard = torch.eye(3, dtype=torch.float64)[classes]
    for loss, given, meant in [
        (BinaryCrossEntropy(), classes, hard),
        (BinaryCrossEntropy(smoothing=0.3), classes, 0.7 * hard + 0.1),
        (BinaryCrossEntropy(), mixed, mixed),
        (BinaryCrossEntropy(target_threshold=0.0), mixed, (mixed > 0).double()),
        (BinaryCrossEntropy(target_threshold=0.45), mixed, (mixed > 0.45).double()),
    ]:
        expected = 0.0
        for row, right in zip(outputs.tolist(), meant.tolist(), strict=True):
            shares = [1 / (1 + math.exp(-x)) for x in row]
            terms = [t * math.log(s) + (1 - t) * math.log(1 - s) for t, s in zip(right, shares, strict=True)]
            expected -= sum(terms) / 3
        assert summed_loss("accuracy", outputs, given, loss).item() == pytest.approx(expected, rel=1e-12)
        timms = timm.loss.BinaryCrossEntropy(loss.smoothing, loss.target_threshold)(outputs, given)
        assert summed_loss("accuracy", outputs, given, loss).item() == pytest.approx(5 * timms.item(), rel=1e-12)


def test_a_run_with_a_binary_loss_learns_and_is_another_run(tmp_path):
    plain, run = small(data__task="direction"), small(data__task="direction", loss__kind="bce")
    assert "loss" not in plain.recipe.identity()
    assert run.key != plain.key
    measured = list(train(run, tmp_path))
    model = build_model_with_weights(run.recipe, 0)
    images, targets = load(run.recipe.data).train.batch(slice(None), torch.float32)
    chance = Objective(run, model)(images, targets).item() / len(targets)
    assert chance == pytest.approx(math.log(2), rel=0.05), "each of two questions is a coin before training"
    losses = [one.values["train/loss"] for one in measured]
    assert losses[-1] < losses[0] < 1.2 * chance
    taught = pupil(loss__kind="bce")
    objective = Objective(taught, build_model_with_weights(taught.recipe, 0).double())
    images, targets = batch(taught)
    first, second = objective.model.predictions(objective.model.head_tokens(images))
    others = 1 - targets
    expected = 6 * timm.loss.BinaryCrossEntropy(0.0)(first, targets) + cross_entropy(second, others, reduction="sum")
    assert objective(images, targets, taught=others).item() == pytest.approx(expected.item() / 2, rel=1e-12)


def test_the_heads_gradients_of_a_pupil_are_the_formulas():
    """(softmax - one hot) / 2 by each head's own labels, times its token."""
    run = pupil()
    model = build_model_with_weights(run.recipe, 0).double()
    images, targets = batch(run)
    others = torch.tensor([0, 1, 1, 0, 1, 1])
    assert not torch.equal(others, targets)
    objective = Objective(run, model, others)
    assert objective.loss_inputs(torch.tensor([4, 0, 3]), 0)["taught"].tolist() == [1, 0, 0]
    loss = objective(images, targets, taught=others)
    loss.backward()
    t = model.features(images).x
    total = 0.0
    for head, token, labels in ((model.head, t[:, 0], targets), (model.head_dist, t[:, 1], others)):
        chances = torch.softmax(token @ head.weight.T + head.bias, dim=1)
        error = (chances - torch.eye(2, dtype=torch.float64)[labels]) / 2
        assert torch.allclose(head.weight.grad, error.T @ token, rtol=1e-10, atol=1e-14)
        assert torch.allclose(head.bias.grad, error.sum(dim=0), rtol=1e-10, atol=1e-14)
        total += -0.5 * chances[torch.arange(6), labels].log().sum().item()
    assert loss.item() == pytest.approx(total, rel=1e-12)
    assert torch.allclose(model(images), (model.head(t[:, 0]) + model.head_dist(t[:, 1])) / 2)


@pytest.mark.parametrize("values", [{}, {"model__pool": "avg"}, {"data__task": "distance"}])
def test_localization_is_added_to_any_task_and_read_out(values):
    run = small(auxiliary=LOCALISES, **values)
    model = build_model_with_weights(run.recipe, 0).double()
    objective, (images, targets) = Objective(run, model).double(), batch(run)
    extras = objective.loss_inputs(torch.arange(6), 3)
    plain = Objective(small(**values), model)(images, targets)
    added = objective.drloc(model.features(images), extras["places"])
    assert added > 0
    assert objective(images, targets, **extras).item() == pytest.approx((plain + added).item(), rel=1e-12)
    assert set(objective.extra_state()) == {f"mlp.{layer}.{name}" for layer in (0, 2, 4) for name in ("weight", "bias")}


def test_localization_goes_down_and_its_head_decays_as_linear_layers_do(tmp_path):
    run = small(auxiliary=DRLoc(pairs=5, hidden=12, weight=10.0), optimizer__epochs=12)
    losses = [measured.values["train/loss"] for measured in train(run, tmp_path)]
    assert losses[-1] < 0.9 * losses[0]
    list(train(small(), folder(tmp_path, "plain")))
    counts, plain = (
        [len(group["params"]) for group in Training(one, "cpu", {}, SINGLE, Reading()).optimizer.param_groups]
        for one in (run, small())
    )
    assert counts == [count + 3 for count in plain], "three weights decay, three biases do not"
    assert set(read(tmp_path / WEIGHTS)) == set(read(tmp_path / "plain" / WEIGHTS)), "the head is no part of a run's"


def test_a_teacher_is_asked_once_of_every_image_as_it_is_evaluated(tmp_path):
    """Its PEG normalises batches, which tells training from evaluation."""
    stack = {"model.embed_dim": 12, "encoding": {"kind": "peg", "form": "depthwise_stack"}}
    run = pupil(TaughtByTrial(values=stack), data__train_size=300)
    (teacher,) = run.needs()
    assert (teacher.recipe.model.pool, teacher.recipe.model.embed_dim, teacher.seed) == ("token", 12, 0)
    model, split = build_model_with_weights(teacher.recipe, 0).eval(), load(run.recipe.data).train
    with torch.no_grad():
        first, second = model(split.batch(slice(None), torch.float32)[0]).unbind(1)
        model.head.bias[0] -= (first - second).quantile(0.5)
    write(tmp_path / WEIGHTS, model.state_dict())
    teacher = Teacher(run.recipe, {"teacher": tmp_path / WEIGHTS}, torch.device("cpu"), torch.float32)
    labels = teacher.labels(split)
    with torch.no_grad():
        alone = [int(model(split.batch(slice(n, n + 1), torch.float32)[0]).argmax()) for n in range(300)]
    assert labels.tolist() == alone
    assert sum(alone) == 150
    assert len(list(train(run, folder(tmp_path, "pupil"), parents={"teacher": tmp_path / WEIGHTS}))) == 4


def test_a_pupil_is_pulled_to_its_teacher_against_the_labels(tmp_path):
    """A teacher who always says 1: the distilled head follows it, the class head does not."""
    run = pupil(optimizer__epochs=12)
    file = kept(run, tmp_path / "teacher.pt", **{"head.bias": torch.tensor([-50.0, 50.0])})
    run = pupil(teacher=file, optimizer__epochs=12)
    assert run.needs() == ()
    list(train(run, folder(tmp_path, "pupil")))
    images = batch(run, 50)[0].float()
    said = []
    for model in (build_model_with_weights(run.recipe, 0), build_model_with_weights(run.recipe, 0)):
        if said:
            model.load_state_dict(read(tmp_path / "pupil" / WEIGHTS))
        with torch.no_grad():
            answers = model.eval().answers(model.features(images))
        said.append([cross_entropy(answer, torch.ones(50, dtype=torch.long)).item() for answer in answers])
    assert said[1][1] < 0.1 < 0.5 < said[0][1]
    assert said[1][0] > 0.5


def test_a_teacher_may_be_the_average_in_its_file(tmp_path):
    """The average always says 1, the weights always 0."""
    run, path = pupil(), tmp_path / "teacher.pt"
    state = build_model_with_weights(run.recipe.teacher_recipe, 5).state_dict()
    always = [state | {"head.bias": torch.tensor(bias)} for bias in ([50.0, -50.0], [-50.0, 50.0])]
    torch.save({"state_dict": always[0], "state_dict_ema": always[1]}, path)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    for always_1, entry in enumerate(("state_dict", "state_dict_ema")):
        file = TaughtByFile(path=str(path), sha256=sha256, values=run.recipe.teacher.values, entry=entry)
        taught, split = pupil(teacher=file), load(run.recipe.data).train
        teacher = Teacher(taught.recipe, {}, torch.device("cpu"), torch.float32)
        assert teacher.labels(split).unique().tolist() == [always_1]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"head.bias": torch.zeros(3)}, r"teacher must have the weights of its recipe, head.bias of shape \(2,\), got"),
        ({"pos_embed": torch.zeros(1, 4)}, r"weights of its recipe, pos_embed of shape none, got \(1, 4\)"),
    ],
)
def test_weights_of_another_recipe_are_refused(tmp_path, changes, sentence):
    run = pupil(teacher=kept(pupil(), tmp_path / "teacher.pt", **changes))
    with pytest.raises(SpecError, match=sentence):
        next(train(run, tmp_path))


def test_a_soft_label_is_the_teachers_probabilities(tmp_path):
    """(1 - alpha) CE + alpha tau^2 sum p log(p / q), both at the temperature; DeiT 4, equation 2."""
    file = kept(pupil(), tmp_path / "teacher.pt")
    run = pupil(teacher=file.model_copy(update={"alpha": 0.3, "tau": 2.0}))
    assert run.key != pupil(teacher=file).key
    training = Training(run, "cpu", {}, SINGLE, Reading())
    objective = training.objective
    images, targets = training.splits.train.batch(slice(0, 6), torch.float32)
    inputs = objective.loss_inputs(torch.arange(6), 0)
    teacher = Teacher(run.recipe, {}, torch.device("cpu"), torch.float32)
    with torch.no_grad():
        logits = teacher.model(images).double()
        first, second = objective.model.predictions(objective.model.head_tokens(images))
    assert inputs["taught"].shape == (6, 2)
    expected = 0.7 * cross_entropy(first.double(), targets, reduction="sum").item()
    for theirs, ours in zip(logits.tolist(), second.double().tolist(), strict=True):
        p, q = ([math.exp(x / 2) / sum(math.exp(y / 2) for y in row) for x in row] for row in (theirs, ours))
        expected += 0.3 * 4 * sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    assert objective(images, targets, **inputs).item() == pytest.approx(expected, rel=1e-5)


def test_another_file_is_refused(tmp_path):
    file = kept(pupil(), tmp_path / "teacher.pt")
    (tmp_path / "teacher.pt").write_bytes(b"another")
    with pytest.raises(LocusError, match=r"teacher\.pt must have the SHA-256"):
        next(train(pupil(teacher=file), tmp_path))


def test_a_distilled_run_goes_on_bit_for_bit(tmp_path):
    run = pupil(teacher=kept(pupil(), tmp_path / "teacher.pt"), auxiliary=LOCALISES, optimizer__precision="bfloat16")
    whole_if_it_goes_on(run, tmp_path)


TEACHER = {"kind": "from_trial", "values": {}}
DISTILLED = {"model.pool": "distilled", "teacher": TEACHER}


def test_a_distilled_model_may_go_on_without_a_teacher():
    """As timm trains it: the mean of the two heads learns the label."""
    start = {"kind": "from_trial", "values": {"teacher": TEACHER}}
    recipe = Recipe().put({"model.pool": "distilled", "init": start})
    assert list(recipe.parents) == ["init"]
    model = build_model(recipe)
    init_weights(model, 0)
    images = torch.randn(4, *recipe.data.size, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 1, 1, 0])
    first, second = model.answers(model.features(images))
    expected = cross_entropy((first + second) / 2, labels, reduction="sum")
    assert torch.allclose(Objective(Run(recipe, 0), model)(images, labels), expected, atol=1e-5)


def test_a_teacher_is_the_pupils_recipe_read_out_at_its_class_token():
    start = {"kind": "from_trial", "values": {"data.task": "absolute"}}
    recipe = Recipe().put(
        {**DISTILLED, "auxiliary.kind": "drloc", "test_sizes": [64], "init": start, "encoding.kind": "peg"}
    )
    assert recipe.teacher_recipe == Recipe().put({"encoding.kind": "peg"})
    assert recipe.put({"teacher": {**TEACHER, "values": {"model.pool": "gap"}}}).teacher_recipe.model.pool == "gap"
    assert {use: run.recipe for use, run in Run(recipe, 4).parents.items()} == recipe.parents
    assert list(recipe.parents) == ["init", "teacher"]
    assert {run.seed for run in Run(recipe, 4).needs()} == {4}


def test_a_pupil_is_known_by_what_its_teacher_resolves_to():
    teachers = [{}, {"optimizer.lr": 0.001}, {"optimizer.lr": 0.01}, {"encoding.kind": "peg"}]
    keys = [Run(Recipe().put({**DISTILLED, "teacher": {**TEACHER, "values": one}}), 0).key for one in teachers]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3
    files = [{"kind": "from_file", "path": path, "sha256": sha * 64} for path, sha in ("aa", "ba", "ab")]
    keys = [Run(Recipe().put({**DISTILLED, "teacher": one}), 0).key for one in files]
    assert keys[0] == keys[1] != keys[2]


def test_soft_labels_are_classes_and_numbers_are_numbers():
    """The metric of the data decides, not the type of the targets."""
    outputs = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 2, 1, 1, 0])
    soft = torch.eye(3, dtype=torch.float64)[labels]
    expected = summed_loss("accuracy", outputs, labels)
    assert summed_loss("accuracy", outputs, soft).item() == pytest.approx(expected.item(), rel=1e-12)
    mixed = 0.7 * soft + 0.3 * soft.roll(1, 1)
    by_hand = -(mixed * torch.log_softmax(outputs, dim=1)).sum()
    assert summed_loss("accuracy", outputs, mixed).item() == pytest.approx(by_hand.item(), rel=1e-12)
    assert summed_loss("r2", outputs, mixed).item() == pytest.approx(((outputs - mixed) ** 2).mean(1).sum().item())


DRLOC = DRLoc(pairs=7, hidden=9, weight=0.3)


def tokens(grid: Grid, images: int = 4, dim: int = 6) -> Tokens:
    x = torch.randn((images, grid.prefix + grid.patches, dim), dtype=torch.float64, requires_grad=True)
    return Tokens(x, grid)


def by_hand(head: Localization, t: Tokens, places: torch.Tensor) -> torch.Tensor:
    """The loss, a pair at a time."""
    first, _, second, _, last = head.mlp
    grid, total = t.grid, torch.zeros((), dtype=torch.float64)
    for image, pairs in enumerate(places.tolist()):
        for one, other in pairs:
            here, there = int(one * grid.patches), int(other * grid.patches)
            pair = torch.cat([t.x[image, grid.prefix + here], t.x[image, grid.prefix + there]])
            said = last.weight @ relu(second.weight @ relu(first.weight @ pair + first.bias) + second.bias) + last.bias
            rows = abs(here // grid.columns - there // grid.columns)
            columns = abs(here % grid.columns - there % grid.columns)
            if head.spec.offsets == "unit":
                columns, rows = columns / grid.columns, rows / grid.rows
            total = total + (abs(said[0] - columns) + abs(said[1] - rows)) / (2 * len(pairs))
    return head.spec.weight * total


def test_loss_and_gradients_are_those_of_a_loop(subtests):
    for offsets in ["unit", "patches"]:
        for grid in [Grid(3, 5), Grid(4, 2, prefix=1), Grid(2, 7, prefix=2)]:
            with subtests.test(f"{offsets}, {grid}"):
                head, t = Localization(DRLOC.put({"offsets": offsets}), 6, seed=1).double(), tokens(grid)
                learnt = [t.x, *head.parameters()]
                places = head.places(4, step=2)
                losses = head(t, places), by_hand(head, t, places)
                assert torch.allclose(*losses, rtol=1e-12)
                ours, loops = (torch.autograd.grad(loss, learnt) for loss in losses)
                for one, other in zip(ours, loops, strict=True):
                    assert torch.allclose(one, other, rtol=1e-10, atol=1e-12)
                assert grid.prefix == 0 or not ours[0][:, : grid.prefix].any(), "tokens without a place are left out"


def test_the_grid_that_a_peg_has_shrunk_is_the_one_that_counts():
    model = PositionedViT(
        ViT(embed_dim=6, num_heads=2, patch_size=2, depth=2), (3, 8, 14), 2, PEG(padding="valid")
    ).double()
    init_weights(model, 0)
    t = model.features(torch.rand(4, 3, 8, 14, dtype=torch.float64))
    assert (t.grid.rows, t.grid.columns, t.grid.prefix) == (2, 5, 1)
    head = Localization(DRLOC, 6, seed=1).double()
    assert torch.allclose(head(t, head.places(4, 0)), by_hand(head, t, head.places(4, 0)), rtol=1e-12)


def test_patches_are_drawn_evenly_and_anew_each_step():
    head, grid = Localization(DRLoc(pairs=500), 6, seed=1), Grid(3, 5)
    places = head.places(60, step=4)
    counts = torch.bincount((places * grid.patches).long().flatten(), minlength=grid.patches)
    assert len(counts) == 15
    assert torch.allclose(counts.double(), torch.full((15,), 4000.0, dtype=torch.float64), atol=5 * 4000**0.5)
    chosen = (places * grid.patches).long()
    assert (chosen[..., 0] == chosen[..., 1]).double().mean() == pytest.approx(1 / 15, abs=0.01)
    assert torch.equal(places, head.places(60, step=4))
    assert not torch.equal(places, head.places(60, step=5))
    assert not torch.equal(places, Localization(DRLoc(pairs=500), 6, seed=2).places(60, step=4))


def test_units_are_shares_of_the_grids_sides():
    head, grid = Localization(DRLOC, 6, seed=1), Grid(3, 5)
    corners = torch.tensor([[[0, 14], [4, 0], [7, 7]]])
    assert head.offsets(corners, grid).tolist() == [[[4 / 5, 2 / 3], [4 / 5, 0], [0, 0]]]


def test_the_head_begins_as_torchs_layers_do_by_streams_of_its_own():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    one, other = (Localization(DRLoc(), dim, seed=3) for dim in (6, 8))
    assert torch.equal(before, torch.get_rng_state())
    assert [tuple(layer.weight.shape) for layer in one.mlp[::2]] == [(512, 12), (512, 512), (2, 512)]
    assert torch.equal(one.mlp[2].weight, other.mlp[2].weight)
    for layer in one.mlp[::2]:
        bound = layer.in_features**-0.5
        assert 0.95 * bound < layer.weight.abs().max().item() <= bound
        assert layer.bias.abs().max().item() <= bound


@pytest.mark.parametrize("pool", ["token", "avg", "gap"])
def test_bfloat16_is_finite_and_near(pool):
    model = PositionedViT(ViT(embed_dim=8, num_heads=2, pool=pool), (3, 8, 12), 2, Learnable())
    init_weights(model, 0)
    head, images = Localization(DRLOC, 8, seed=1), torch.rand(4, 3, 8, 12)
    exact = head(model.features(images), head.places(4, 0)).item()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = head(model.features(images), head.places(4, 0)).item()
    assert math.isfinite(rough)
    assert rough == pytest.approx(exact, rel=0.02)
    assert rough != exact
