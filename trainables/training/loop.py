"""The training loop: `train(run, folder)` yields a measurement an epoch, and goes on from the folder's checkpoint.

The run's seed decides all that is random: initial values come from streams by parameter name, and the order of an
epoch's images is a function of (seed, epoch). So a resumed run needs no generator's state, and on a CPU it equals the
undisturbed one bit for bit. The global generators are left as they were.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from trainables.backbones.backbone_torch import Host
from trainables.data.augment import NoAugment
from trainables.data.splits_torch import Reading, Workers, load
from trainables.encodings import OwnEncoding, parts_of
from trainables.recipe import FromFile, FromTimm, FromTrial, NoTeacher, Recipe, Run, Use
from trainables.recipe.model_torch import build_model
from trainables.recipe.outcome import Diverged, Measurement, after_epochs, at_image_size, of_ema
from trainables.rng_torch import seeded, stream_seed, torch_stream
from trainables.spec import SpecError
from trainables.training.checkpoint import CHECKPOINT, EMA_WEIGHTS, WEIGHTS, DamagedError, read, record_sources, write
from trainables.training.distributed import SINGLE, DataParallel, check_accumulate
from trainables.training.evaluation import Evaluation
from trainables.training.init import init_weights
from trainables.training.loss import Objective
from trainables.training.normalize import normalizer
from trainables.training.optimizer import build_optimizer, rate, set_rate
from trainables.training.parameters import no_decay, set_trainable, train_mode
from trainables.training.runtime import autocast, peak_gib, reset_peak
from trainables.training.saving import Progress, Saver
from trainables.weights.load import HEADS, load_weights

if TYPE_CHECKING:
    from trainables.data.augment_torch import Augmentation
    from trainables.training.optional.distillation import Teacher

BEFORE_TESTS_S = 1.0
"""Seconds of training that are worth a checkpoint before the last tests; further test sizes always are."""


def train(
    run: Run,
    folder: Path,
    device: str = "cpu",
    *,
    parents: Mapping[Use, Path] = {},
    team: DataParallel = SINGLE,
    data: Path | None = None,
    loader_workers: int = 0,
) -> Generator[Measurement | Diverged]:
    """Trains a run: one Measurement an epoch, the last with the test set's metric too, or a Diverged as the last item.

    Epochs are counted as they are trained, those of cooldowns too (`OptimizerSpec.passes`).
    If the folder has a checkpoint, training goes on from it, also inside an epoch, after the measurements before it
    have been yielded again. Checkpoints are written as `Saver` says, when the iterator is closed (by its user, with
    `closing`: what the garbage collector has to close may save nothing), before the tests of the last epoch where a
    crash in them could lose more than a second of training, and at the end, after the weights.
    `parents`: the files of the weights of the runs that this one needs, by their use (`Run.parents`). `data`: the
    folder of known data sets and of decoded images; without it only images that are made, or in a folder of their own.
    A checkpoint that is damaged for any of the workers is set aside, and the run begins again.
    `loader_workers`: processes that decode images which are streamed; they change the speed alone.

    Raises: SpecError if a parent's weights do not fit, or nothing learns; LocusError if images cannot be read;
    OSError if a checkpoint cannot be written.
    """
    saver = Saver(folder / CHECKPOINT)
    with closing(saver), closing(Workers(loader_workers)) as workers:
        state = _checkpoint(saver, device, team)
        training = Training(run, device, parents, team, Reading(data, workers=workers))
        progress = training.resume(state) if state is not None else Progress()
        del state  # its tensors have been copied
        training.record(folder)
        curve, epochs = progress.curve, run.recipe.optimizer.trained_epochs
        if len(curve) == epochs:  # another attempt, in another folder, has trained it
            training.finish(folder, saver, progress)
        yield from tuple(curve)
        for epoch in range(len(curve) + 1, epochs + 1):
            trained = not progress.learned
            if trained and not progress.steps:
                training.turn(epoch)
            values = training.learn(epoch, progress, saver) if trained else progress.learned
            bad = training.first_nonfinite(values)
            if bad is None:
                costly = bool(run.recipe.test_sizes) or saver.since >= BEFORE_TESTS_S
                if epoch == epochs and trained and costly:
                    training.save(saver, Progress(curve, learned=values))
                with training.drawing("evaluation"):
                    values = training.evaluate(epoch, values)
                bad = training.first_nonfinite(values)
            if bad is not None:
                yield Diverged(epoch=epoch, curve=tuple(curve), reason=f"{bad} not finite")
                return
            curve.append(Measurement(epoch=epoch, values=values))
            progress = Progress(curve)
            if epoch == epochs:
                training.finish(folder, saver, progress)
            elif due := saver.due:
                training.save(saver, progress)
            try:
                yield curve[-1]
            except GeneratorExit:
                if epoch < epochs and not due and saver.is_mine:
                    training.save(saver, progress)
                raise


def _checkpoint(saver: Saver, device: str, team: DataParallel) -> dict[str, Any] | None:
    """Returns the checkpoint, if all workers can read it: they must begin alike, or they wait without end."""
    try:
        state = read(saver.path, device) if saver.path.exists() else None
    except DamagedError:
        state = None
    readers = team.all_reduce(torch.tensor(int(state is not None), device=device))
    if readers == team.world_size:
        return state
    saver.set_aside()
    return None


class Training:
    """A run in progress: its model, its optimizer, its data, on one device."""

    def __init__(
        self, run: Run, device: str, parents: Mapping[Use, Path], team: DataParallel, reading: Reading
    ) -> None:
        recipe = run.recipe
        reset_peak(torch.device(device))
        self.run, self.spec, self.team, self.device = run, recipe.optimizer, team, torch.device(device)
        self.reported = recipe.data.reported
        self.dtype = torch.float64 if self.spec.precision == "float64" else torch.float32
        self.autocast = autocast(self.device.type, self.spec.precision)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.spec.precision == "float16")
        self.augmentation = augmentation_of(run)
        change = self.augmentation.change if self.augmentation is not None and self.augmentation.by_image else None
        self.splits = load(recipe.data, replace(reading, change=change, seed=run.seed)).to(self.device)
        self.steps = math.ceil(len(self.splits.train) / self.spec.batch_size)
        self.sources: dict[str, Any] = {}
        built = build_model_with_weights(recipe, run.seed, parents.get("init"), self.sources)
        check_accumulate(built, self.spec.accumulate * team.more_parts)
        self.model = team.synchronized(built, self.device).to(self.device, self.dtype)
        self.normalize = normalizer(recipe, self.device, self.dtype)
        self.evaluation = Evaluation(recipe, self.normalize, self.dtype, self.autocast, team)
        for side in recipe.test_sizes:
            self.evaluation.model_at(self.model, side)  # refuses a side now, and not after the last epoch
        self.teacher, labels = self._taught(parents)
        self.objective = Objective(run, self.model, labels).to(self.device, self.dtype)
        self.module = team.wrap(self.objective)
        self.learning = [parameter for parameter in self.objective.parameters() if parameter.requires_grad]
        self.optimizer = build_optimizer(self.objective, self.spec, no_decay(self.objective))
        self.ema: Any = None
        if self.spec.ema_decay is not None:
            from trainables.training.optional.ema import weight_average

            self.ema = weight_average(self.model, self.spec.ema_decay, self.spec.ema_warmup)
        self.passes = self.spec.passes
        self.ends = {self.spec.measured_at[length]: length for length in self.spec.lengths}
        self.trunk: dict[str, Any] | None = None  # the state that training goes on from after a cooldown

    def _taught(self, parents: Mapping[Use, Path]) -> tuple[Teacher | None, Tensor | None]:
        """Returns a teacher, who is asked about each batch if images change, or its label of every training image."""
        if isinstance(self.run.recipe.teacher, NoTeacher):
            return None, None
        from trainables.training.optional.distillation import Teacher

        teacher = Teacher(self.run.recipe, parents, self.device, self.dtype)
        return (None, teacher.labels(self.splits.train)) if self.augmentation is None else (teacher, None)

    def turns(self, number: int) -> bool:
        """Returns whether a cooldown begins or has ended before an epoch that is trained."""
        before = self.passes[number - 2].cooling if number > 1 else None
        return self.passes[number - 1].cooling != before

    def turn(self, number: int) -> None:
        """Goes back to where a cooldown began, if it has ended, and keeps the state, if one begins before others."""
        if not self.turns(number):
            return
        cooling = self.passes[number - 1].cooling
        if self.trunk is not None:
            self._load(self.trunk)
            self.trunk = None
        if cooling is not None and cooling < self.spec.epochs:
            self.trunk = copy.deepcopy(self._state())

    def learn(self, number: int, before: Progress | None = None, saver: Saver | None = None) -> dict[str, float]:
        """Learns from every training image once: the loss, finite or not, and the time.

        `before`: what was learned of this epoch before a checkpoint. Without a saver no checkpoint is written.
        """
        before = before or Progress()
        begun = time.perf_counter() - before.seconds
        train_mode(self.module)
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        total += before.loss if self.team.rank == 0 else 0.0
        epoch, cooling = self.passes[number - 1]
        first = (epoch - 1) * self.steps
        for step, (numbers, images, targets) in enumerate(self._batches(epoch, before.steps), first + before.steps):
            set_rate(self.optimizer, rate(self.spec, step, self.steps * self.spec.epochs, cooling))
            with self.drawing("step", step):
                total += self._step(numbers, images, targets, step)
            done = step + 1 - first
            if saver and done < self.steps and self.team.rank_0(lambda: saver.due, done, self.device):
                loss = float(self.team.all_reduce(total.clone()))
                self.save(saver, Progress(before.curve, steps=done, loss=loss, seconds=time.perf_counter() - begun))
        loss = float(self.team.all_reduce(total)) / len(self.splits.train)
        for model in (self.model, *self._averages()):
            self.team.broadcast_buffers(model)
        seconds = time.perf_counter() - begun
        speed = len(self.splits.train) / seconds
        return {"train/loss": loss, "train/images_per_s": speed, "time/epoch_s": seconds}

    def drawing(self, *names: str | int) -> AbstractContextManager[None]:
        """Makes what a user's own modules draw from the global generators, while they compute, follow the run's seed.

        So a run that goes on draws the same numbers, and so does one in a process in which others ran before.
        """
        if not any(isinstance(part, OwnEncoding) for part in parts_of(self.run.recipe.encoding)):
            return nullcontext()
        return seeded(stream_seed(self.run.seed, "own", *names, self.team.rank), self.device)

    def evaluate(self, number: int, learned: Mapping[str, float]) -> dict[str, float]:
        """Returns what `learn` returned for an epoch, with the validation metric; in the last one, test metrics too."""
        begun = time.perf_counter()
        validation, test = f"val/{self.reported}", f"test/{self.reported}"
        values = {**learned, validation: self.evaluation(self.model, "val", self.splits.validation)}
        if length := self.ends.get(number):
            values[after_epochs(validation, length)] = values[validation]
        for model in self._averages():
            values[of_ema(validation)] = self.evaluation(model, "val", self.splits.validation)
            if number == len(self.passes):
                values[of_ema(test)] = self.evaluation(model, "test", self.splits.test)
        if number == len(self.passes):
            values[test] = self.evaluation(self.model, "test", self.splits.test)
            for side in self.run.recipe.test_sizes:
                values[at_image_size(test, side)] = self.evaluation(self.model, "test", self.splits.test, side)
        values["time/epoch_s"] += time.perf_counter() - begun
        return {**values, "memory/peak_gib": peak_gib(self.device)}

    def _averages(self) -> list[Host]:
        return [] if self.ema is None else [self.ema.module]

    def _batches(self, number: int, done: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yields an epoch's batches after the first `done`: the images' numbers, this worker's images and targets."""
        stream = torch_stream(self.run.seed, "order", number)
        order = torch.randperm(len(self.splits.train), generator=stream).to(self.device)
        copies = torch.zeros_like(order)
        if self.augmentation is not None:
            order, copies = self.augmentation.repeated(order)
        batches = torch.split(order, self.spec.batch_size)[done:]
        shares = [self.team.share(numbers) for numbers in batches]
        copies_of_shares = [self.team.share(numbers) for numbers in torch.split(copies, self.spec.batch_size)[done:]]
        pictures = self.splits.train.batches(shares, self.dtype, number, copies_of_shares)
        first = (number - 1) * self.steps + done
        for step, (numbers, share, (images, targets)) in enumerate(zip(batches, shares, pictures, strict=True), first):
            if self.augmentation is not None:
                images, targets = self.augmentation.batch(images, targets, share, number, step)
            yield numbers, images, targets

    def _step(self, numbers: Tensor, images: Tensor, targets: Tensor, step: int) -> Tensor:
        """Takes one step on a batch; returns this worker's summed loss, on the device so that nothing waits for it.

        `numbers`: those of the images of all workers; `images` and `targets` are this worker's share. DDP averages
        gradients over workers; the factor makes that the gradient of the whole batch's mean loss, also if the shares
        are uneven. A worker without a share takes part with an image whose loss is multiplied by 0. Gradients of
        several parts add up.
        """
        inputs = {name: self.team.share(rows) for name, rows in self.objective.loss_inputs(numbers, step).items()}
        if self.teacher is not None:
            inputs["taught"] = self.teacher(images)
        self.optimizer.zero_grad()
        losses = []
        for part in self.team.parts(self.module, len(images), self.spec.accumulate):
            inputs_of_part = {name: rows[part] for name, rows in inputs.items()}
            with self.autocast:
                loss: Tensor = self.module(self.normalize(images[part]), targets[part], **inputs_of_part)
            if self.team.idle(len(numbers)):
                loss = loss * 0
            torch.autograd.backward(self.scaler.scale(loss * (self.team.world_size / len(numbers))))
            losses.append(loss.detach())
        self.scaler.unscale_(self.optimizer)
        if self.spec.clip_grad is not None:
            nn.utils.clip_grad_norm_(self.learning, self.spec.clip_grad)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.ema is not None:
            self.ema.update(self.model, step + 1 if self.spec.ema_warmup else None)
        return torch.stack(losses).sum()

    def first_nonfinite(self, values: Mapping[str, float]) -> str | None:
        """Returns the first that is not finite of the loss, the weights and the metrics; None if all are finite."""
        if not math.isfinite(values["train/loss"]):
            return "train/loss"
        if not bool(torch.stack([parameter.isfinite().all() for parameter in self.learning]).all()):
            return "weights"
        return next((name for name, value in values.items() if not math.isfinite(value)), None)

    def record(self, folder: Path) -> None:
        """Writes where weights from elsewhere came from; rank 0 alone."""
        if self.team.rank == 0:
            record_sources(folder, self.sources)

    def save(self, saver: Saver, progress: Progress) -> None:
        """Begins to write the checkpoint; rank 0 alone."""
        if self.team.rank > 0:
            return
        if len(progress.curve) < len(self.passes):
            state = self._state() | ({} if self.trunk is None else {"trunk": self.trunk})
        else:
            state = self._weights()
        saver.save({"progress": progress.plain(), **state})

    def _weights(self) -> dict[str, Any]:
        averages = [model.state_dict() for model in self._averages()]
        return {"weights": self.model.state_dict(), "ema": averages}

    def _state(self) -> dict[str, Any]:
        learning = {"extra": self.objective.extra_state(), "optimizer": self.optimizer.state_dict()}
        return {**self._weights(), **learning, "scaler": self.scaler.state_dict()}

    def _load(self, state: Mapping[str, Any]) -> None:
        self.model.load_state_dict(state["weights"])
        for model, averaged in zip(self._averages(), state["ema"], strict=True):
            model.load_state_dict(averaged)
        if "optimizer" in state:
            self.objective.load_extra_state(state["extra"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.scaler.load_state_dict(state["scaler"])

    def finish(self, folder: Path, saver: Saver, progress: Progress) -> None:
        """Writes the weights, then the checkpoint, without what only training needs; rank 0 alone."""
        if self.team.rank > 0:
            return
        write(folder / WEIGHTS, self.model.state_dict())
        for model in self._averages():
            write(folder / EMA_WEIGHTS, model.state_dict())
        self.save(saver, progress)
        saver.wait()

    def resume(self, state: Mapping[str, Any]) -> Progress:
        """Loads the content of a checkpoint: how far the run is."""
        self._load(state)
        self.trunk = state.get("trunk")
        return Progress.read(state["progress"])


def augmentation_of(run: Run) -> Augmentation | None:
    """Returns the augmentation of a run's training images, where there is one."""
    recipe = run.recipe
    if isinstance(recipe.augment, NoAugment):
        return None
    from trainables.data.augment_torch import Augmentation

    return Augmentation(recipe.augment, run.seed, recipe.data.counts_at(run.seed).train, recipe.data.outputs)


def build_model_with_weights(
    recipe: Recipe, seed: int, parent: Path | None = None, sources: dict[str, Any] | None = None
) -> Host:
    """Returns the model before its first step: drawn from the seed, then with the weights of its `init`.

    `sources`: where weights from elsewhere come from is added here; a run's environment records it.
    Raises: SpecError if weights do not fit, or a head would be neither loaded nor trained.
    """
    model = build_model(recipe)
    init_weights(model, seed)
    loaded: list[str] = []
    if isinstance(recipe.init, FromTrial):
        assert parent is not None, "a run with a parent needs the parent's weights"
        loaded = load_weights(model, read(parent), recipe.init.part)
    elif isinstance(recipe.init, FromFile | FromTimm):
        from trainables.weights.pretrained import load_pretrained

        loaded = load_pretrained(model, recipe, recipe.init, sources)
    fresh = sorted({name for name, _ in model.named_parameters() if name.startswith(HEADS)} - {*loaded})
    if fresh and recipe.trainable == "position":
        must = f"'position+head' or 'all' where the weights have no {fresh[0]} that fits"
        raise SpecError(f"trainable must be {must}, got 'position'")
    set_trainable(model, recipe.trainable)
    return model
