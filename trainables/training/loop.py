"""The training loop: `train(run, folder)` yields a measurement an epoch, and goes on from the folder's checkpoint.

Nothing here is random but what the run's seed says: initial values come from streams by parameter name, and the order
of an epoch's images is a function of (seed, epoch), so a resumed run needs no generator's state and equals the
undisturbed one bit for bit on a CPU. The global generators are left as they were.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from trainables.backbones.backbone_torch import Host
from trainables.data.dataset_torch import Split, load
from trainables.recipe import FromFile, FromTimm, FromTrial, NoTeacher, Recipe, Run, Use
from trainables.recipe.model_torch import build_model
from trainables.recipe.outcome import Diverged, Measurement, at_image_size
from trainables.rng_torch import torch_stream
from trainables.training.checkpoint import CHECKPOINT, WEIGHTS, read, write
from trainables.training.distributed import SOLO, Team
from trainables.training.init import draw
from trainables.training.loss import Objective
from trainables.training.metrics import score, tally
from trainables.training.optimizer import adamw, rate, set_rate
from trainables.training.parameters import no_decay, set_trainable, to_learning
from trainables.weights.load import take

CHECKPOINT_S = 20.0
"""Seconds between two checkpoints, at least; and what a killed run can lose, apart from the epoch it was in."""

EVALUATED = 256
"""Images evaluated at once."""


def train(
    run: Run, folder: Path, device: str = "cpu", *, parents: Mapping[Use, Path] = {}, team: Team = SOLO
) -> Generator[Measurement | Diverged]:
    """Trains a run: one Measurement an epoch, the last with the test set's score too, or a Diverged as the last item.

    A folder with a checkpoint is gone on from; what it measured before is said again first. Checkpoints are written
    20 s apart, when the iterator is closed, and at the end, after the weights. `parents`: the files of the weights of
    the runs that this one needs, by what for (`Run.parents`).

    Raises: SpecError where a parent's weights do not fit, or nothing learns.
    """
    training = Training(run, device, parents, team)
    curve = training.resume(folder)
    epochs = run.recipe.optimizer.epochs
    if len(curve) == epochs:
        training.save(folder, curve)
    yield from tuple(curve)
    saved = time.monotonic()
    for epoch in range(len(curve) + 1, epochs + 1):
        values = training.epoch(epoch)
        ill = training.ill(values)
        if ill:
            yield Diverged(epoch=epoch, curve=tuple(curve), reason=f"{ill} not finite")
            return
        curve.append(Measurement(epoch=epoch, values=values))
        stale = epoch < epochs and time.monotonic() - saved < CHECKPOINT_S
        if not stale:
            training.save(folder, curve)
            saved = time.monotonic()
        try:
            yield curve[-1]
        except GeneratorExit:
            if stale:
                training.save(folder, curve)
            raise


class Training:
    """A run under way: its model, its optimizer, its data, on one device."""

    def __init__(self, run: Run, device: str, parents: Mapping[Use, Path], team: Team) -> None:
        recipe = run.recipe
        self.run, self.spec, self.team, self.device = run, recipe.optimizer, team, torch.device(device)
        self.metric = recipe.data.metric
        self.dtype = torch.float64 if self.spec.precision == "float64" else torch.float32
        half = self.spec.precision == "bfloat16"
        self.autocast = torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=half)
        self.splits = load(recipe.data).to(self.device)
        self.steps = math.ceil(len(self.splits.train) / self.spec.batch_size)
        self.model = begin(recipe, run.seed, parents.get("init")).to(self.device, self.dtype)
        for side in recipe.test_sizes:
            self._at(side)  # what cannot be is refused now, not after the last epoch
        self.objective = Objective(run, self.model, self._taught(parents)).to(self.device, self.dtype)
        self.module = team.wrap(self.objective)
        self.learning = [parameter for parameter in self.objective.parameters() if parameter.requires_grad]
        self.optimizer = adamw(self.objective, self.spec, no_decay(self.objective))

    def _taught(self, parents: Mapping[Use, Path]) -> Tensor | None:
        """The teacher's label of every training image, where there is a teacher."""
        if isinstance(self.run.recipe.teacher, NoTeacher):
            return None
        from trainables.training.distillation import taught

        return taught(self.run.recipe, parents, self.splits.train, self.dtype)

    def epoch(self, number: int) -> dict[str, float]:
        """Learns from every training image once, then evaluates: the epoch's values, finite or not."""
        begun = time.perf_counter()
        loss = self._learn(number)
        self.team.agree(self.model)
        learnt = time.perf_counter()
        values = {"train/loss": loss, f"val/{self.metric}": self.evaluate(self.splits.validation)}
        if number == self.spec.epochs:
            test = f"test/{self.metric}"
            values[test] = self.evaluate(self.splits.test)
            for side in self.run.recipe.test_sizes:
                values[at_image_size(test, side)] = self.evaluate(self.splits.test, side)
        values["train/images_per_s"] = len(self.splits.train) / (learnt - begun)
        values["time/epoch_s"] = time.perf_counter() - begun
        return values

    def _learn(self, number: int) -> float:
        """The epoch's mean loss an image, as it was when each batch was seen."""
        to_learning(self.module)
        count = len(self.splits.train)
        order = torch.randperm(count, generator=torch_stream(self.run.seed, "order", number)).to(self.device)
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        for step, chosen in enumerate(torch.split(order, self.spec.batch_size), start=(number - 1) * self.steps):
            set_rate(self.optimizer, rate(self.spec, step, self.steps * self.spec.epochs))
            total += self._step(chosen, step)
        return float(self.team.total(total)) / count

    def _step(self, chosen: Tensor, step: int) -> Tensor:
        """One step on a batch; this worker's summed loss, left on the device so that nothing waits for it.

        DDP averages gradients over workers; the factor makes that the gradient of the whole batch's mean loss, also
        where the shares are uneven. A worker without a share takes part with an image that counts for nothing.
        """
        idle = len(self.team.share(chosen)) == 0

        def mine(of_all: Tensor) -> Tensor:
            return of_all[:1] if idle else self.team.share(of_all)

        images, targets = self.splits.train.batch(mine(chosen), self.dtype)
        extras = {name: mine(of_all) for name, of_all in self.objective.extras(chosen, step).items()}
        self.optimizer.zero_grad()
        with self.autocast:
            loss: Tensor = self.module(images, targets, **extras)
        if idle:
            loss = loss * 0
        torch.autograd.backward(loss * (self.team.size / len(chosen)))
        if self.spec.clip_grad is not None:
            nn.utils.clip_grad_norm_(self.learning, self.spec.clip_grad)
        self.optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def evaluate(self, split: Split, side: int | None = None) -> float:
        """The score of a split, or of its images resized to another side; NaN where an output is not finite."""
        model, seen = self._at(side)
        total = torch.zeros(split.targets.shape[1:] or 1, dtype=torch.float64, device=self.device)
        stride = self.team.size * EVALUATED
        for first in range(self.team.rank, len(split), stride):
            images, targets = split.batch(slice(first, first + stride, self.team.size), self.dtype)
            with self.autocast:
                outputs = model(seen(images))
            total += tally(self.metric, outputs, targets)
        return score(self.metric, self.team.total(total), split.targets)

    def _at(self, side: int | None) -> tuple[Host, Callable[[Tensor], Tensor]]:
        """The model for images of a side (None: as they are), and what it sees of the images."""
        if side is None:
            return self.model.eval(), nn.Identity()
        from trainables.weights.transfer import at_size, resized  # computes these runs' numbers alone (trainables.code)

        return at_size(self.model, self.run.recipe, side), partial(resized, side=side)

    def ill(self, values: dict[str, float]) -> str | None:
        """What is not finite, where it began: the loss, the weights, a score; None where all is well."""
        if not math.isfinite(values["train/loss"]):
            return "train/loss"
        if not all(bool(parameter.isfinite().all()) for parameter in self.learning):
            return "weights"
        return next((name for name, value in values.items() if not math.isfinite(value)), None)

    def save(self, folder: Path, curve: list[Measurement]) -> None:
        """Writes the checkpoint, and before the last one the weights; rank 0 alone."""
        if self.team.rank > 0:
            return
        weights = self.model.state_dict()
        if len(curve) == self.spec.epochs:
            write(folder / WEIGHTS, weights)
        measured = [measurement.plain() for measurement in curve]
        optimizer, added = self.optimizer.state_dict(), self.objective.added()
        state = {"weights": weights, "added": added, "optimizer": optimizer, "curve": measured}
        write(folder / CHECKPOINT, state)

    def resume(self, folder: Path) -> list[Measurement]:
        """Takes up the folder's checkpoint, where there is one; the curve so far."""
        if not (folder / CHECKPOINT).exists():
            return []
        state: dict[str, Any] = read(folder / CHECKPOINT, self.device)
        self.model.load_state_dict(state["weights"])
        self.objective.take(state["added"])
        self.optimizer.load_state_dict(state["optimizer"])
        return [Measurement.read(measured) for measured in state["curve"]]


def begin(recipe: Recipe, seed: int, parent: Path | None = None) -> Host:
    """The model before its first step: drawn from the seed, then given what `start` takes from a parent or a file."""
    model = build_model(recipe)
    draw(model, seed)
    if isinstance(recipe.init, FromTrial):
        assert parent is not None, "a run with a parent needs the parent's weights"
        take(model, read(parent), recipe.init.part)
    elif isinstance(recipe.init, FromFile | FromTimm):
        from trainables.weights.pretrained import start_from  # computes these runs' numbers alone (trainables.code)

        start_from(model, recipe, recipe.init)
    set_trainable(model, recipe.trainable)
    return model
