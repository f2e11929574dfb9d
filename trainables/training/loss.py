"""The training loss: of the task, of a teacher's labels, of an auxiliary task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import timm.loss
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div

from trainables.backbones import ViT
from trainables.backbones.backbone_torch import Host
from trainables.data.dataset import Metric
from trainables.encodings.declared_torch import assign_numbers, draw_numbers, that_draw
from trainables.encodings.encoding_torch import full_precision
from trainables.recipe import BinaryCrossEntropy, DRLoc, Run
from trainables.recipe.losses import Loss, Taught

if TYPE_CHECKING:
    from trainables.training.optional.drloc import Localization


class Objective(nn.Module):
    """A model with its training loss; a call returns the summed loss of a batch.

    `teacher_labels`: the teacher's label of every training image, where there is a teacher. Parameters of the loss
    serve the training only: the model is evaluated without them, and a run's weights are the model's.
    """

    drloc: Localization | None

    def __init__(self, run: Run, model: Host, teacher_labels: Tensor | None = None) -> None:
        super().__init__()
        self.model, self.teacher_labels, self.drloc = model, teacher_labels, None
        self.metric, self.loss, self.seed = run.recipe.data.metric, run.recipe.loss, run.seed
        self.that_draw = that_draw(model)
        self.teacher = run.recipe.teacher
        self.drops_paths = isinstance(run.recipe.model, ViT) and run.recipe.model.drop_path > 0
        if isinstance(run.recipe.auxiliary, DRLoc):
            from trainables.training.optional.drloc import Localization

            self.drloc = Localization(run.recipe.auxiliary, run.recipe.shapes[-1].widths.dim, run.seed)

    def loss_inputs(self, numbers: Tensor, step: int) -> dict[str, Tensor]:
        """Returns what `forward` needs for a step's images beside their pixels and targets, one row an image."""
        inputs, count, device = {}, len(numbers), numbers.device
        if self.teacher_labels is not None:
            inputs["taught"] = self.teacher_labels[numbers]
        if self.drloc is not None:
            inputs["places"] = _on_device(self.drloc.places(count, step), device)
        if self.drops_paths:
            from trainables.backbones.drop_path_torch import draw_factors

            inputs["kept"] = _on_device(draw_factors(self.model, count, self.seed, step), device)
        if self.that_draw:
            drawn = _on_device(draw_numbers(self.that_draw, self.seed, step), device)
            inputs["drawn"] = drawn.expand(count, -1)  # the same for all images, workers and parts of a batch
        return inputs

    def forward(
        self,
        images: Tensor,
        targets: Tensor,
        taught: Tensor | None = None,
        places: Tensor | None = None,
        kept: Tensor | None = None,
        drawn: Tensor | None = None,
    ) -> Tensor:
        """Returns the loss, summed over the images. Under autocast the heads and the loss are computed in float32.

        Without a teacher the mean of all heads learns the label, as timm fine-tunes a distilled model. With one, the
        second head learns its labels by cross-entropy, or from its probabilities by tau^2 times the divergence.
        Shapes: taught (B,), or (B, K) with a tau.
        Source: DeiT 4: the class head learns the label, the other head the teacher's. Differs: nothing.
        """
        if kept is not None:
            from trainables.backbones.drop_path_torch import assign_factors

            assign_factors(self.model, kept)
        if drawn is not None:
            assign_numbers(self.that_draw, drawn[0])
        t = self.model.head_tokens(images) if self.drloc is None else self.model.features(images)
        if taught is None:
            loss = summed_loss(self.metric, self.model.output(t), targets, self.loss)
        else:
            first, second = self.model.predictions(t)
            assert isinstance(self.teacher, Taught), "labels of a teacher need one"
            alpha, tau = self.teacher.alpha, self.teacher.tau
            if tau is None:
                distillation = cross_entropy(second, taught, reduction="sum")
            else:
                distillation = tau**2 * kl_div(torch.log_softmax(second / tau, dim=1), taught, reduction="sum")
            loss = (1 - alpha) * summed_loss(self.metric, first, targets, self.loss) + alpha * distillation
        if self.drloc is not None:
            assert places is not None, "localization needs places: see loss_inputs"
            with full_precision(images):
                loss = loss + self.drloc(t, places).to(loss.dtype)
        return loss

    def extra_state(self) -> dict[str, Tensor]:
        """Returns the weights that are not the model's."""
        return {} if self.drloc is None else self.drloc.state_dict()

    def load_extra_state(self, state: dict[str, Tensor]) -> None:
        if self.drloc is not None:
            self.drloc.load_state_dict(state)


def _on_device(drawn: Tensor, device: torch.device) -> Tensor:
    """Copies numbers that were drawn on the CPU without waiting: a GPU reads pinned memory while Python goes on."""
    pinned = drawn.pin_memory() if device.type == "cuda" else drawn
    return pinned.to(device, non_blocking=True)


def summed_loss(metric: Metric, outputs: Tensor, targets: Tensor, loss: Loss | None = None) -> Tensor:
    """Sums over the images cross-entropy for classes, squared error (mean over the targets) for numbers, or `loss`.

    Shapes: outputs (N, K); targets of classes (N,), or (N, K) for a probability of each class; of numbers (N, K).
    """
    if metric == "r2":
        return (outputs - targets).square().mean(dim=1).sum()
    if isinstance(loss, BinaryCrossEntropy):
        by_class = timm.loss.BinaryCrossEntropy(loss.smoothing, loss.target_threshold, reduction="none")
        losses: Tensor = by_class(outputs, targets)
        return losses.mean(dim=1).sum()
    return cross_entropy(outputs, targets, reduction="sum")
