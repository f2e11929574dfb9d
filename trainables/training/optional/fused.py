"""Trains several runs of one shape as one: small models leave a processor idle, and a GPU nearly always.

The runs differ in their seeds, or in numbers that are no shape, such as gamma. Their parameters are stacked along a
leading axis, so a step of all is one forward pass, one backward pass and one step of one optimizer. The numbers of each
are those of a run that trains by itself, but for the last digits; checkpoints, scores and weights are each run's own.

Source: HFTA (Wang et al. 2021) fuses models in this way. Differs: torch's `vmap` makes the joint operations.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from trainables.data.splits_torch import SPLITS, Reading, Split
from trainables.recipe import AdamW, Run
from trainables.recipe.outcome import TOGETHER, Diverged, Measurement
from trainables.rng_torch import torch_stream
from trainables.training.checkpoint import CHECKPOINT
from trainables.training.distributed import SINGLE
from trainables.training.loop import Training
from trainables.training.optimizer import rate, set_rate
from trainables.training.parameters import train_mode
from trainables.training.saving import CHECKPOINT_S, SHARE, Progress, Saver

TINY = 1e-6
"""What torch's clip_grad_norm_ adds to the norm."""
NEAR = 1e-9
"""How far the losses of a run, by itself and together, may lie apart in float64: as a share of the loss."""
TRIED = 4
"""Images on which they are compared."""


class NotFusedError(Exception):
    """Runs that cannot be trained as one; each can by itself."""


class Fused:
    """Several trainings that are computed together, from their first step on.

    The parameters and buffers of each become views of the stacked ones: what changes the one changes the other.
    Raises: NotFusedError if together they would not compute what each computes by itself.
    """

    def __init__(self, trainings: Sequence[Training]) -> None:
        self.trainings, self.first, self.spec = [*trainings], trainings[0], trainings[0].spec
        first, *others = (_shapes(training) for training in trainings)
        if any(other != first for other in others):
            raise NotFusedError("their models have other shapes")
        objective = self.first.objective
        self.compute: Any = vmap(self._loss, randomness="error")
        self.shared = all(training.splits is self.first.splits for training in trainings)
        self._try()
        self.parameters = {name: self._stacked(name) for name, _ in objective.named_parameters()}
        self.buffers = {name: self._stacked(name) for name, _ in objective.named_buffers()}
        self.optimizer = self._optimizer()

    def _stacked(self, name: str) -> Tensor:
        """Returns the values of all trainings by their name, stacked; theirs are views of it from now on."""
        own = [_named(training.objective, name) for training in self.trainings]
        stacked = torch.stack([value.detach() for value in own])
        for value, row in zip(own, stacked, strict=True):
            value.data = row
        return stacked.requires_grad_(own[0].requires_grad)

    def _optimizer(self) -> torch.optim.Optimizer:
        """Returns one optimizer of the stacked parameters, in the groups of the first training's own."""
        names = {id(value): name for name, value in self.first.objective.named_parameters()}
        groups = [
            {**group, "params": [self.parameters[names[id(value)]] for value in group["params"]]}
            for group in self.first.optimizer.param_groups
        ]
        assert isinstance(self.spec, AdamW)
        return torch.optim.AdamW(groups, betas=self.spec.betas, eps=self.spec.eps, fused=True)

    def _loss(self, parameters: Values, buffers: Values, images: Tensor, targets: Tensor, rows: Values) -> Tensor:
        return _loss_of(self.first.objective, parameters, buffers, images, targets, rows)

    def _try(self) -> None:
        """Compares losses with those of each training by itself, in float64, with parameters drawn at random.

        What is no tensor, such as a number in a module, is the first training's for all of them when they are computed
        together. Values as they begin would not show it: many tables begin at zero.
        Raises: NotFusedError.
        """
        chosen = torch.arange(TRIED, device=self.first.device).expand(len(self.trainings), -1)
        images, targets = (tensor.double() if tensor.is_floating_point() else tensor for tensor in self._batch(chosen))
        inputs = self._inputs(chosen, 0)
        values = [_drawn(training.objective, place) for place, training in enumerate(self.trainings)]
        parameters, buffers = (_stacked(of_each) for of_each in zip(*values, strict=True))
        with torch.no_grad():
            alone = []
            for place, (training, own) in enumerate(zip(self.trainings, values, strict=True)):
                rows = {name: of_all[place] for name, of_all in inputs.items()}
                alone.append(_loss_of(training.objective, *own, images[place], targets[place], rows))
            try:
                together = self.compute(parameters, buffers, images, targets, inputs)
            except (RuntimeError, NotImplementedError, ValueError) as error:
                raise NotFusedError(str(error).partition("\n")[0]) from error
        expected = torch.stack(alone)
        if not bool(((together - expected).abs() <= NEAR * expected.abs()).all()):
            raise NotFusedError("they compute something else together than each by itself")

    def keep(self, places: Sequence[int]) -> None:
        """Leaves out all trainings but those at these places, which go on as they are."""
        rows = torch.tensor(places, device=self.first.device)
        states = {name: self.optimizer.state.get(value, {}) for name, value in self.parameters.items()}
        self.trainings = [self.trainings[place] for place in places]
        self.first = self.trainings[0]
        self.parameters = {name: self._stacked(name) for name in self.parameters}
        self.buffers = {name: self._stacked(name) for name in self.buffers}
        self.optimizer = self._optimizer()
        for name, state in states.items():
            if state:
                kept = {key: of_all.clone() if of_all.ndim == 0 else of_all[rows] for key, of_all in state.items()}
                self.optimizer.state[self.parameters[name]] = kept

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Gives each training values and an optimizer's state of its own, to be written, as it would have by itself."""
        for place, training in enumerate(self.trainings):
            for name, value in [*training.objective.named_parameters(), *training.objective.named_buffers()]:
                value.data = value.data.clone()
                state = self.optimizer.state.get(self.parameters[name], {}) if name in self.parameters else {}
                own = {key: of_all if of_all.ndim == 0 else of_all[place] for key, of_all in state.items()}
                if own:
                    training.optimizer.state[value] = {key: part.clone() for key, part in own.items()}
        try:
            yield
        finally:
            for place, training in enumerate(self.trainings):
                for name, of_all in {**self.parameters, **self.buffers}.items():
                    _named(training.objective, name).data = of_all.detach()[place]
                training.optimizer.state.clear()

    def learn(self, number: int) -> list[float]:
        """Learns from every training image once; returns the loss of each training, finite or not."""
        for training in self.trainings:
            train_mode(training.module)
        count = len(self.first.splits.train)
        streams = [torch_stream(training.run.seed, "order", number) for training in self.trainings]
        orders = torch.stack([torch.randperm(count, generator=stream) for stream in streams]).to(self.first.device)
        total = torch.zeros(len(self.trainings), dtype=torch.float64, device=self.first.device)
        steps = self.first.steps
        batches = torch.split(orders, self.spec.batch_size, dim=1)
        for step, chosen in enumerate(batches, (number - 1) * steps):
            set_rate(self.optimizer, rate(self.spec, step, steps * self.spec.epochs))
            total += self._step(chosen, step)
        return [float(loss) / count for loss in total.tolist()]

    def _step(self, chosen: Tensor, step: int) -> Tensor:
        """Takes one step of each, as `Training._step` does; returns their summed losses.

        Shapes: chosen (R, N); (R,).
        """
        images, targets = self._batch(chosen)
        inputs = self._inputs(chosen, step)
        self.optimizer.zero_grad()
        losses = []
        for part in SINGLE.parts(None, chosen.shape[1], self.spec.accumulate):
            rows = {name: of_all[:, part] for name, of_all in inputs.items()}
            with self.first.autocast:
                loss = self.compute(self.parameters, self.buffers, images[:, part], targets[:, part], rows)
            torch.autograd.backward((loss / chosen.shape[1]).sum())
            losses.append(loss.detach())
        if self.spec.clip_grad is not None:
            self._clip(self.spec.clip_grad)
        self.optimizer.step()
        return torch.stack(losses).sum(0)

    def _inputs(self, chosen: Tensor, step: int) -> dict[str, Tensor]:
        """Returns what the objectives need beside images and targets, stacked."""
        given = [t.objective.loss_inputs(own, step) for t, own in zip(self.trainings, chosen, strict=True)]
        return {name: torch.stack([of[name] for of in given]) for name in given[0]}

    def _batch(self, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the normalized images of each training, with their targets. Shapes: (R, N) to (R, N, C, S, S)."""
        if self.shared:
            images, targets = self._images(self.first, chosen.flatten())
            return images.view(*chosen.shape, *images.shape[1:]), targets.view(*chosen.shape, *targets.shape[1:])
        pairs = [self._images(training, own) for training, own in zip(self.trainings, chosen, strict=True)]
        return torch.stack([images for images, _ in pairs]), torch.stack([targets for _, targets in pairs])

    @staticmethod
    def _images(training: Training, chosen: Tensor) -> tuple[Tensor, Tensor]:
        assert isinstance(training.splits.train, Split)
        images, targets = training.splits.train.batch(chosen, training.dtype)
        return training.normalize(images), targets

    def _clip(self, most: float) -> None:
        """Scales the gradients of each training so that their norm is at most this, as clip_grad_norm_ does."""
        gradients = [value.grad for value in self.parameters.values() if value.grad is not None]
        norms = torch.stack([torch.linalg.vector_norm(gradient.flatten(1), dim=1) for gradient in gradients])
        factor = (most / (torch.linalg.vector_norm(norms, dim=0) + TINY)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(factor.view(-1, *[1] * (gradient.ndim - 1)))


Values = dict[str, Tensor]
"""Parameters, or buffers, by name."""


def _loss_of(
    objective: nn.Module, parameters: Values, buffers: Values, images: Tensor, targets: Tensor, rows: Values
) -> Tensor:
    """Returns the summed loss of an objective with these values in place of its own."""
    for parameter in parameters.values():
        parameter._is_param = True  # so that a module's `get_parameter` finds it
    with sdpa_kernel(SDPBackend.MATH):  # the other kernels have no gradient of a mask under vmap
        loss: Tensor = functional_call(objective, {**parameters, **buffers}, (images, targets), rows)
    return loss


def _drawn(objective: nn.Module, place: int) -> tuple[Values, Values]:
    """Returns the parameters of an objective with noise, and its buffers, in float64."""
    parameters = {}
    for name, value in objective.named_parameters():
        stream = torch_stream(place, "fused", name)
        noise = torch.randn(value.shape, generator=stream, dtype=torch.float64)
        parameters[name] = value.detach().double() + 0.1 * noise.to(value.device)
    copies = {name: value.detach().clone() for name, value in objective.named_buffers()}
    return parameters, {name: value.double() if value.is_floating_point() else value for name, value in copies.items()}


def _stacked(of_each: Sequence[Values]) -> Values:
    """Returns the values of several objectives, stacked by name."""
    return {name: torch.stack([own[name] for own in of_each]) for name in of_each[0]}


def _shapes(training: Training) -> Any:
    tensors = [*training.objective.named_parameters(), *training.objective.named_buffers()]
    groups = [
        (group["weight_decay"], group["lr_scale"], len(group["params"])) for group in training.optimizer.param_groups
    ]
    return (
        training.spec,
        len(training.splits.train),
        groups,
        [(name, value.shape, value.dtype, value.requires_grad) for name, value in tensors],
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

    def scores(self, epoch: int, loss: float, seconds: float) -> dict[str, float] | Diverged:
        """Returns what was measured of an epoch: the loss, and the scores where all is finite."""
        training = self.training
        images = len(training.splits.train)
        values = {"train/loss": loss, "train/images_per_s": images / seconds, "time/epoch_s": seconds}
        bad = training.first_nonfinite(values)
        if bad is None:
            values = training.evaluate(epoch, values)
            bad = training.first_nonfinite(values)
        return values if bad is None else Diverged(epoch=epoch, curve=tuple(self.curve), reason=f"{bad} not finite")

    def measured(
        self, epoch: int, outcome: dict[str, float] | Diverged, wall: dict[str, float]
    ) -> Measurement | Diverged:
        """Returns the measurement of an epoch, with the time that all runs took together, and adds it to the curve."""
        if isinstance(outcome, Diverged):
            return outcome
        self.curve.append(Measurement(epoch=epoch, values={**outcome, **wall}))
        return self.curve[-1]

    def write(self) -> None:
        """Writes the checkpoint, and the weights after the last epoch; nothing where nobody wants them any more."""
        progress = Progress(self.curve)
        try:
            if len(self.curve) == self.training.spec.epochs:
                self.training.finish(self.folder, self.saver, progress)
            else:
                self.training.save(self.saver, progress)
        except OSError:
            if self.wanted:
                raise


def train_together(
    runs: Sequence[Run], folders: Sequence[Path], device: str, data: Path | None = None
) -> Generator[dict[int, Measurement | Diverged]]:
    """Trains runs as one: what each measured, epoch by epoch, by its place in `runs`. Their folders must be empty.

    A run that diverges, or whose folder somebody has removed, is left out from then on. The checkpoints of all runs are
    written together: as often as one run writes its own, and when the iterator is closed. From its checkpoint each run
    goes on by itself (`loop.train`).
    `time/epoch_s` is the time of all of them together, and `time/runs` how many they were.
    Raises: NotFusedError before the first step; what `loop.train` raises.
    """
    with ExitStack() as savers:
        members: dict[int, Member] = {}
        for place, (training, folder) in enumerate(zip(_trainings(runs, device, data), folders, strict=True)):
            training.record(folder)
            members[place] = Member(training, folder, savers.enter_context(closing(Saver(folder / CHECKPOINT))))
        fused = Fused([member.training for member in members.values()])
        last, saved, took = fused.spec.epochs, time.monotonic(), 0.0
        for epoch in range(1, last + 1):
            begun = time.monotonic()
            losses = fused.learn(epoch)
            learned = time.monotonic() - begun
            outcomes = {
                place: member.scores(epoch, loss, learned)
                for (place, member), loss in zip(members.items(), losses, strict=True)
                if member.wanted
            }
            wall = {"time/epoch_s": time.monotonic() - begun, TOGETHER: float(len(members))}
            told = {place: members[place].measured(epoch, outcome, wall) for place, outcome in outcomes.items()}
            going = [place for place, outcome in told.items() if isinstance(outcome, Measurement)]
            if 0 < len(going) < len(members):
                fused.keep([[*members].index(place) for place in going])
            members = {place: members[place] for place in going}
            due = bool(members) and (epoch == last or time.monotonic() - saved >= max(CHECKPOINT_S, took / SHARE))
            if due:
                saved, took = _write(fused, members.values())
            try:
                yield told
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
        elif all(_same(getattr(first.splits, name), getattr(training.splits, name)) for name in SPLITS):
            training.splits = first.splits
        yield training


def _same(first: Any, other: Any) -> bool:
    if first.images.shape != other.images.shape:
        return False
    return torch.equal(first.images, other.images) and torch.equal(first.targets, other.targets)
