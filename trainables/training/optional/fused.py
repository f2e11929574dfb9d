"""Trains several runs of one shape as one: small models leave a processor idle, and a GPU nearly always.

The runs differ in their seeds, or in numbers that are no shape, such as gamma. Their parameters are stacked along a
leading axis, so a step of all is one forward pass, one backward pass and one step of one optimizer. The numbers of each
are those of a run that trains by itself, but for the last digits; checkpoints, scores and weights are each run's own.

Source: HFTA (Wang et al. 2021) fuses models in this way. Differs: torch's `vmap` makes the joint operations.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from trainables.data.dataset import SplitName
from trainables.data.splits_torch import SPLITS, Reading, Split
from trainables.recipe import AdamW, Run
from trainables.recipe.evaluation import eval_batch
from trainables.recipe.outcome import TOGETHER, Diverged, Measurement, after_epochs, at_image_size
from trainables.rng_torch import torch_stream
from trainables.training.checkpoint import CHECKPOINT
from trainables.training.distributed import SINGLE
from trainables.training.evaluation import compute_metric, metric_sums
from trainables.training.loop import Training
from trainables.training.optimizer import rate, set_rate
from trainables.training.parameters import train_mode
from trainables.training.runtime import peak_gib
from trainables.training.saving import CHECKPOINT_S, SHARE, Progress, Saver

TINY = 1e-6
"""What torch's clip_grad_norm_ adds to the norm."""
NEAR = 1e-9
"""How far numbers of a run, by itself and together, may lie apart in float64: as a share of the largest."""
TRIED = 4
"""Images on which they are compared."""


Wrap = Callable[[Any], Any]
"""What makes a function of the joint loss that computes the same."""


class NotFusedError(Exception):
    """Runs that cannot be trained as one; each can by itself."""


class Fused:
    """Several trainings that are computed together, from their first step on. `wrap` may compile their joint loss.

    The parameters and buffers of each become views of the stacked ones: what changes the one changes the other.
    Raises: NotFusedError if together they would not compute what each computes by itself.
    """

    def __init__(self, trainings: Sequence[Training], wrap: Wrap) -> None:
        self.trainings, self.first, self.spec = [*trainings], trainings[0], trainings[0].spec
        first, *others = (_shapes(training) for training in trainings)
        if any(other != first for other in others):
            raise NotFusedError("their models have other shapes")

        def loss(values: Values, images: Tensor, targets: Tensor, rows: Values) -> Tensor:
            return _called(self.first.objective, values, images, targets, **rows)

        def output(values: Values, images: Tensor) -> Tensor:
            return _called(self.first.model, values, images)

        self.losses: Any = vmap(loss, randomness="error")
        self.outputs: Any = vmap(output, randomness="error")
        self.shared = all(training.splits is self.first.splits for training in trainings)
        self._try()
        self.losses = wrap(self.losses)
        self._stack()

    def _stack(self) -> None:
        """Stacks the values of all trainings, which are views of them from now on, for one optimizer."""
        objective, stacked = self.first.objective, Values()
        for name, _ in [*objective.named_parameters(), *objective.named_buffers()]:
            values = [_named(training.objective, name) for training in self.trainings]
            rows = torch.stack([value.detach() for value in values])
            for value, row in zip(values, rows, strict=True):
                value.data = row
            stacked[name] = rows.requires_grad_(values[0].requires_grad)
        self.parameters = {name: stacked[name] for name, _ in objective.named_parameters()}
        self.buffers = {name: stacked[name] for name, _ in objective.named_buffers()}
        names = {id(value): name for name, value in objective.named_parameters()}
        groups = [
            {**group, "params": [self.parameters[names[id(value)]] for value in group["params"]]}
            for group in self.first.optimizer.param_groups
        ]
        assert isinstance(self.spec, AdamW)
        self.optimizer = torch.optim.AdamW(groups, betas=self.spec.betas, eps=self.spec.eps, fused=True)

    def _try(self) -> None:
        """Compares losses and outputs with those of each by itself, in float64: as they begin, and with random values.

        What is no tensor, such as a number in a module, is the first training's for all of them when they are computed
        together. Values as they begin may not show it: many tables begin at zero. Random ones may not either: noise can
        move a parameter to where the number does not matter. Then the gradient of all is computed, as a step does: in
        half precision torch may not have one.
        Raises: NotFusedError.
        """
        numbers = torch.arange(TRIED, device=self.first.device).expand(len(self.trainings), -1)
        batch, inputs = self._batch(numbers), self._inputs(numbers, 0)
        images, targets = (tensor.double() if tensor.is_floating_point() else tensor for tensor in batch)
        try:
            for deviation in (0.0, 0.1):
                self._compare(deviation, images, targets, inputs)
            train_mode(self.first.module)
            objectives = [training.objective for training in self.trainings]
            with torch.enable_grad():
                parameters = _stacked([dict(objective.named_parameters()) for objective in objectives])
                buffers = _stacked([dict(objective.named_buffers()) for objective in objectives])
                learning = [values for name, values in parameters.items() if _named(objectives[0], name).requires_grad]
                with self.first.autocast:
                    losses = self.losses(parameters | buffers, *batch, inputs)
                torch.autograd.grad(losses.sum(), learning, allow_unused=True)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, NotImplementedError, ValueError) as error:
            raise NotFusedError(str(error).partition("\n")[0]) from error

    @torch.no_grad()
    def _compare(self, deviation: float, images: Tensor, targets: Tensor, inputs: Values) -> None:
        """Compares losses and outputs on some images, in float64, with noise of a deviation in the parameters."""
        values = [_noisy(training.objective, index, deviation) for index, training in enumerate(self.trainings)]
        stacked, losses, outputs = _stacked(values), [], []
        for index, training in enumerate(self.trainings):
            rows = {name: stacked_rows[index] for name, stacked_rows in inputs.items()}
            train_mode(training.module)
            losses.append(_called(training.objective, values[index], images[index], targets[index], **rows))
            outputs.append(_called(training.model.eval(), _of_model(values[index]), images[index]))
        train_mode(self.first.module)
        _require_near(self.losses(stacked, images, targets, inputs), losses)
        self.first.model.eval()
        _require_near(self.outputs(_of_model(stacked), images), outputs)

    def keep(self, indices: Sequence[int]) -> None:
        """Leaves out all trainings but these, which go on as they are."""
        rows = torch.tensor(indices, device=self.first.device)
        states = {name: self.optimizer.state.get(value, {}) for name, value in self.parameters.items()}
        self.trainings = [self.trainings[index] for index in indices]
        self.first = self.trainings[0]
        self._stack()
        for name, state in states.items():
            if state:
                rest = {key: value.clone() if value.ndim == 0 else value[rows] for key, value in state.items()}
                self.optimizer.state[self.parameters[name]] = rest

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Gives each training values and an optimizer's state of its own, to be written, as it would have by itself."""
        for index, training in enumerate(self.trainings):
            for name, value in [*training.objective.named_parameters(), *training.objective.named_buffers()]:
                value.data = value.data.clone()
                state = self.optimizer.state.get(self.parameters[name], {}) if name in self.parameters else {}
                if state:
                    parts = {key: part if part.ndim == 0 else part[index] for key, part in state.items()}
                    training.optimizer.state[value] = {key: part.clone() for key, part in parts.items()}
        try:
            yield
        finally:
            for index, training in enumerate(self.trainings):
                for name, stacked in {**self.parameters, **self.buffers}.items():
                    _named(training.objective, name).data = stacked.detach()[index]
                training.optimizer.state.clear()

    def turn(self, number: int) -> None:
        """Lets each training turn as it would by itself (`Training.turn`)."""
        if not self.first.turns(number):
            return
        with self.apart():
            for training in self.trainings:
                training.turn(number)
            self._stack()
            for name, stacked in self.parameters.items():
                states = [training.optimizer.state[_named(training.objective, name)] for training in self.trainings]
                parts = {key: [state[key] for state in states] for key in states[0]}
                joined = {key: each[0] if each[0].ndim == 0 else torch.stack(each) for key, each in parts.items()}
                self.optimizer.state[stacked] = joined

    def learn(self, number: int) -> list[float]:
        """Learns from every training image once; returns the loss of each training, finite or not."""
        epoch, cooling = self.first.passes[number - 1]
        for training in self.trainings:
            train_mode(training.module)
        count = len(self.first.splits.train)
        streams = [torch_stream(training.run.seed, "order", epoch) for training in self.trainings]
        orders = torch.stack([torch.randperm(count, generator=stream) for stream in streams]).to(self.first.device)
        total = torch.zeros(len(self.trainings), dtype=torch.float64, device=self.first.device)
        steps = self.first.steps
        batches = torch.split(orders, self.spec.batch_size, dim=1)
        for step, numbers in enumerate(batches, (epoch - 1) * steps):
            set_rate(self.optimizer, rate(self.spec, step, steps * self.spec.epochs, cooling))
            total += self._step(numbers, epoch, step)
        return [float(loss) / count for loss in total.tolist()]

    def _step(self, numbers: Tensor, epoch: int, step: int) -> Tensor:
        """Takes one step of each; returns their summed losses. Shapes: numbers of images (R, N); to (R,)."""
        images, targets = self._batch(numbers, change=None if self.first.augmentation is None else (epoch, step))
        inputs = self._inputs(numbers, step)
        self.optimizer.zero_grad()
        losses = []
        for part in SINGLE.parts(None, numbers.shape[1], self.spec.accumulate):
            rows = {name: stacked[:, part] for name, stacked in inputs.items()}
            with self.first.autocast:
                loss = self.losses(self.parameters | self.buffers, images[:, part], targets[:, part], rows)
            torch.autograd.backward((loss / numbers.shape[1]).sum())
            losses.append(loss.detach())
        if self.spec.clip_grad is not None:  # the gradients of each training by themselves, as clip_grad_norm_ does
            gradients = [value.grad for value in self.parameters.values() if value.grad is not None]
            norms = torch.stack([torch.linalg.vector_norm(gradient.flatten(1), dim=1) for gradient in gradients])
            factor = (self.spec.clip_grad / (torch.linalg.vector_norm(norms, dim=0) + TINY)).clamp(max=1.0)
            for gradient in gradients:
                gradient.mul_(factor.view(-1, *[1] * (gradient.ndim - 1)))
        self.optimizer.step()
        return torch.stack(losses).sum(0)

    @torch.no_grad()
    def evaluate(self, number: int) -> list[dict[str, float]]:
        """Returns the scores of each training after an epoch, as `Training.evaluate` does."""
        first, last = self.first, number == self.spec.trained_epochs
        test = f"test/{first.reported}"
        by_metric = {f"val/{first.reported}": self._scores("val")} | ({test: self._scores("test")} if last else {})
        scores = [dict(zip(by_metric, row, strict=True)) for row in zip(*by_metric.values(), strict=True)]
        for training, row in zip(self.trainings, scores, strict=True):
            if length := training.ends.get(number):
                row[after_epochs(f"val/{first.reported}", length)] = row[f"val/{first.reported}"]
            for side in first.run.recipe.test_sizes if last else ():
                row[at_image_size(test, side)] = training.evaluation(training.model, "test", training.splits.test, side)
            row["memory/peak_gib"] = peak_gib(training.device)
        return scores

    def _scores(self, name: SplitName) -> list[float]:
        recipe, split = self.first.run.recipe, "validation" if name == "val" else name
        targets = [getattr(training.splits, split).targets for training in self.trainings]
        total = torch.zeros(len(targets), recipe.data.outputs, dtype=torch.float64, device=self.first.device)
        values = _of_model(self.parameters | self.buffers)
        self.first.model.eval()
        together = max(self.spec.batch_size, eval_batch(recipe) // len(targets))
        for part in torch.split(torch.arange(len(targets[0]), device=self.first.device), together):
            images, of_images = self._batch(part.expand(len(targets), -1), split)
            with self.first.autocast:
                outputs = self.outputs(values, images)
            rows = [metric_sums(recipe.data.metric, *pair) for pair in zip(outputs, of_images, strict=True)]
            total += torch.stack(rows)
        metrics = [compute_metric(recipe.data.metric, *pair) for pair in zip(total, targets, strict=True)]
        return [recipe.data.score(metric, name) for metric in metrics]

    def _inputs(self, numbers: Tensor, step: int) -> dict[str, Tensor]:
        pairs = zip(self.trainings, numbers, strict=True)
        return _stacked([training.objective.loss_inputs(row, step) for training, row in pairs])

    def _batch(
        self, numbers: Tensor, split: str = "train", change: tuple[int, int] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Returns the normalized images of each training, with their targets. Shapes: (R, N) to (R, N, C, S, S).

        `change`: the epoch and the step for which each training's augmentation changes them.
        """
        if self.shared and change is None:
            images, targets = self._images(self.first, numbers.flatten(), split)
            return images.view(*numbers.shape, *images.shape[1:]), targets.view(*numbers.shape, *targets.shape[1:])
        rows = zip(self.trainings, numbers, strict=True)
        pairs = [self._images(training, row, split, change) for training, row in rows]
        return torch.stack([images for images, _ in pairs]), torch.stack([targets for _, targets in pairs])

    @staticmethod
    def _images(
        training: Training, numbers: Tensor, split_name: str, change: tuple[int, int] | None = None
    ) -> tuple[Tensor, Tensor]:
        split = getattr(training.splits, split_name)
        assert isinstance(split, Split)
        images, targets = split.batch(numbers, training.dtype)
        if change is not None:
            assert training.augmentation is not None, "those of a pack have one, or none has"
            images, targets = training.augmentation.batch(images, targets, numbers, *change)
        return training.normalize(images), targets


Values = dict[str, Tensor]
"""Parameters, or buffers, by name."""


def _called(module: nn.Module, values: Values, *inputs: Tensor, **more: Tensor) -> Tensor:
    for name, _ in module.named_parameters():
        values[name]._is_param = True  # so that a module's `get_parameter` finds it
    with sdpa_kernel(SDPBackend.MATH):  # the other kernels have no gradient of a mask under vmap
        computed: Tensor = functional_call(module, values, inputs, more)
    return computed


def _of_model(values: Values) -> Values:
    return {name.removeprefix("model."): value for name, value in values.items() if name.startswith("model.")}


def _require_near(together: Tensor, alone: Sequence[Tensor]) -> None:
    expected = torch.stack([*alone])
    if not bool(((together - expected).abs() <= NEAR * expected.abs().max()).all()):
        raise NotFusedError("they compute something else together than each by itself")


def _noisy(objective: nn.Module, index: int, deviation: float) -> Values:
    """Returns the parameters of an objective with noise, and its buffers, in float64."""
    noisy = {}
    for name, value in objective.named_parameters():
        noise = torch.randn(value.shape, generator=torch_stream(index, "fused", name), dtype=torch.float64)
        noisy[name] = value.detach().double() + deviation * noise.to(value.device)
    copies = {name: value.detach().clone() for name, value in objective.named_buffers()}
    return noisy | {name: copy.double() if copy.is_floating_point() else copy for name, copy in copies.items()}


def _stacked(values: Sequence[Values]) -> Values:
    return {name: torch.stack([each[name] for each in values]) for name in values[0]}


def _shapes(training: Training) -> Any:
    tensors = [*training.objective.named_parameters(), *training.objective.named_buffers()]
    inputs = training.objective.loss_inputs(torch.arange(TRIED, device=training.device), 0)
    groups = [
        (group["weight_decay"], group["lr_scale"], len(group["params"])) for group in training.optimizer.param_groups
    ]
    return (
        training.spec,
        [len(getattr(training.splits, name)) for name in SPLITS],
        groups,
        [(name, value.shape, value.dtype, value.requires_grad) for name, value in tensors],
        {name: value.shape for name, value in inputs.items()},  # encodings of one kind may draw other counts of numbers
    )


def _named(module: nn.Module, name: str) -> Tensor:
    owner, _, last = name.rpartition(".")
    value: Tensor = getattr(module.get_submodule(owner), last)
    return value


@dataclass
class Member:
    """One of the runs that train together: its training, its folder, and what was measured."""

    training: Training
    folder: Path
    saver: Saver
    curve: list[Measurement] = field(default_factory=list)

    @property
    def wanted(self) -> bool:
        """Whether somebody still waits for the run: whoever does not removes its folder."""
        return self.folder.is_dir()

    def measured(self, epoch: int, values: dict[str, float]) -> Measurement | Diverged:
        """Returns the measurement of an epoch, and adds it to the curve."""
        if bad := self.training.first_nonfinite(values):
            return Diverged(epoch=epoch, curve=tuple(self.curve), reason=f"{bad} not finite")
        self.curve.append(Measurement(epoch=epoch, values=values))
        return self.curve[-1]

    def write(self) -> None:
        """Writes the checkpoint, and the weights after the last epoch; nothing where nobody wants them any more."""
        progress = Progress(self.curve)
        try:
            if len(self.curve) == self.training.spec.trained_epochs:
                self.training.finish(self.folder, self.saver, progress)
            else:
                self.training.save(self.saver, progress)
        except OSError:
            if self.wanted:
                raise


def train_together(
    runs: Sequence[Run], folders: Sequence[Path], device: str, data: Path | None = None, wrap: Wrap = lambda loss: loss
) -> Generator[dict[int, Measurement | Diverged]]:
    """Trains runs as one: what each measured, epoch by epoch, by its place in `runs`. Their folders must be empty.

    A run that diverges, or whose folder somebody has removed, is left out from then on. The checkpoints of all runs are
    written together: as often as one run writes its own, and when the iterator is closed. From its checkpoint each run
    goes on by itself (`loop.train`).
    `time/epoch_s` is the time of all of them together, and `time/runs` how many they were. `wrap`: as for `Fused`.
    Raises: NotFusedError before the first step; what `loop.train` raises.
    """
    with ExitStack() as savers:
        members: dict[int, Member] = {}
        for index, (training, folder) in enumerate(zip(_trainings(runs, device, data), folders, strict=True)):
            training.record(folder)
            members[index] = Member(training, folder, savers.enter_context(closing(Saver(folder / CHECKPOINT))))
        fused = Fused([member.training for member in members.values()], wrap)
        last, saved, took = fused.spec.trained_epochs, time.monotonic(), 0.0
        for epoch in range(1, last + 1):
            begun = time.monotonic()
            fused.turn(epoch)
            losses = fused.learn(epoch)
            speed = len(fused.first.splits.train) / (time.monotonic() - begun)
            scores = fused.evaluate(epoch)
            seconds = time.monotonic() - begun
            times = {"train/images_per_s": speed, "time/epoch_s": seconds, TOGETHER: float(len(members))}
            outcomes = {
                index: member.measured(epoch, {"train/loss": loss, **times, **values})
                for (index, member), loss, values in zip(members.items(), losses, scores, strict=True)
                if member.wanted
            }
            going = [index for index, outcome in outcomes.items() if isinstance(outcome, Measurement)]
            if 0 < len(going) < len(members):
                fused.keep([[*members].index(index) for index in going])
            members = {index: members[index] for index in going}
            due = bool(members) and (epoch == last or time.monotonic() - saved >= max(CHECKPOINT_S, took / SHARE))
            if due:
                saved, took = _write(fused, members.values())
            try:
                yield outcomes
            except GeneratorExit:
                if members and not due and all(member.saver.is_mine for member in members.values()):
                    _write(fused, members.values())
                raise
            if not members:
                return


def _write(fused: Fused, members: Iterable[Member]) -> tuple[float, float]:
    """Writes the checkpoints of all; returns when it was done, and how long it took. Units: seconds."""
    begun = time.monotonic()
    with fused.apart():
        for member in members:
            member.write()
    done = time.monotonic()
    return done, done - begun


def _trainings(runs: Sequence[Run], device: str, data: Path | None) -> Iterator[Training]:
    """Yields the trainings; those that learn from the same images share them."""
    first: Training | None = None
    for run in runs:
        training = Training(run, device, {}, SINGLE, Reading(data))
        if first is None:
            first = training
        else:  # torch.equal is False for other shapes
            pairs: Any = [(getattr(first.splits, name), getattr(training.splits, name)) for name in SPLITS]
            if all(torch.equal(a.images, b.images) and torch.equal(a.targets, b.targets) for a, b in pairs):
                training.splits = first.splits
        yield training
