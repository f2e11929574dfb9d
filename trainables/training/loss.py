"""What a training descends: the loss of the task, with what the recipe adds to it (a teacher, an auxiliary loss)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from trainables.backbones.backbone_torch import Host
from trainables.recipe import DRLoc, Run

if TYPE_CHECKING:
    from trainables.training.drloc import Localisation


class Objective(nn.Module):
    """A model with what its training adds to the task; called, it gives the summed loss of a batch.

    `taught`: the teacher's label of every training image, where there is a teacher. What is added serves the training
    only: the model alone is evaluated, and its weights alone are a run's.
    """

    drloc: Localisation | None

    def __init__(self, run: Run, model: Host, taught: Tensor | None = None) -> None:
        super().__init__()
        self.model, self.taught, self.drloc = model, taught, None
        if isinstance(run.recipe.auxiliary, DRLoc):
            from trainables.training.drloc import Localisation

            self.drloc = Localisation(run.recipe.auxiliary, run.recipe.shapes[-1].widths.dim, run.seed)

    def extras(self, chosen: Tensor, step: int) -> dict[str, Tensor]:
        """What `forward` takes of a step's images beside their pixels and targets, one row an image."""
        extras = {}
        if self.taught is not None:
            extras["taught"] = self.taught[chosen]
        if self.drloc is not None:
            extras["places"] = self.drloc.places(len(chosen), step).to(chosen.device)
        return extras

    def forward(
        self, images: Tensor, targets: Tensor, taught: Tensor | None = None, places: Tensor | None = None
    ) -> Tensor:
        """The loss, summed over the images.

        Source: DeiT 3, hard distillation: the class head learns the label, the other the teacher's, half each.
        Differs: nothing.
        """
        t = self.model.features(images)
        first, *others = (answer.to(images.dtype) for answer in self.model.answers(t))
        loss = summed_loss(first, targets)
        if taught is not None:
            (second,) = others
            loss = (loss + summed_loss(second, taught)) / 2
        if self.drloc is not None:
            assert places is not None, "localisation needs places: see extras"
            loss = loss + self.drloc(t, places).to(loss.dtype)
        return loss

    def added(self) -> dict[str, Tensor]:
        """The weights that are not the model's."""
        return {} if self.drloc is None else self.drloc.state_dict()

    def take(self, added: dict[str, Tensor]) -> None:
        """Takes up what `added` gave."""
        if self.drloc is not None:
            self.drloc.load_state_dict(added)


def summed_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy for classes, squared error (mean over the targets) for numbers; summed over the images."""
    if targets.is_floating_point():
        return (outputs - targets).square().mean(dim=1).sum()
    return cross_entropy(outputs, targets, reduction="sum")
