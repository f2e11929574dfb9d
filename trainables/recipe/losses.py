"""The loss of the task, and what a training may add to it: a teacher's labels, an auxiliary loss."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from trainables.backbones.backbone import linear
from trainables.data.augment import Augment, Mixing
from trainables.own import Values
from trainables.recipe.init_from import ENTRY, SHA256, known_by_content
from trainables.spec import FilePath, Spec, require


class TaskLoss(Spec):
    """The usual loss of the task: cross-entropy for classes, squared error for numbers."""

    kind: Literal["task"] = Field(default="task", init=False)


class BinaryCrossEntropy(Spec):
    """Each class is a question of its own: is it in the image? The mean over the classes of each one's cross-entropy.

    So an image that is mixed of two may hold both. `target_threshold`: a probability above it becomes 1, any other 0;
    null leaves the probabilities as they are. `smoothing`: of labels that the augmentation does not smooth or mix.
    Source: Wightman et al. 2021, ResNet strikes back, section 2; DeiT III 3.2 (a threshold of 0). Differs: nothing;
    timm's BinaryCrossEntropy computes it.
    """

    kind: Literal["bce"] = Field(default="bce", init=False)
    target_threshold: float | None = Field(
        default=None, ge=0, lt=1, description="a probability, 0 <= threshold < 1, or null"
    )
    smoothing: float = Field(default=0.0, ge=0, lt=1, description="a share of the label in [0, 1)")

    def check(self, augment: Augment, classes: int) -> None:
        """Checks with `require` that each image keeps its label, loses the others, and that no smoothing is undone."""
        must = f"0 where augment.kind is {augment.kind}, which smooths labels itself (augment.smoothing)"
        require(self.smoothing == 0 or not augment.soft, "loss.smoothing", must, self.smoothing)
        if self.target_threshold is None:
            return
        must = "0 where loss.target_threshold is given and images are not mixed, because it makes labels 0 and 1 again"
        require(self.smoothing == 0, "loss.smoothing", must, self.smoothing)
        if isinstance(augment, Mixing) and augment.smoothing > 0:
            share = augment.smoothing
            require(augment.mixes, "augment.smoothing", must, share)
            others, label = share / classes, 1 - share + share / classes
            must = f"more than {others:g} and less than {label:g}, what smoothing gives other classes and the label"
            require(others < self.target_threshold < label, "loss.target_threshold", must, self.target_threshold)


Loss = Annotated[TaskLoss | BinaryCrossEntropy, Field(discriminator="kind")]


class NoTeacher(Spec):
    """No teacher: the labels alone."""

    kind: Literal["none"] = Field(default="none", init=False)


class Taught(Spec):
    """Fields of every teacher. `alpha`: the share of its labels in the loss; the rest is that of the images' own.

    `tau`: null is hard distillation, the teacher's most likely class is a second label. A number is soft distillation:
    the label is the teacher's probabilities, its logits and the student's divided by `tau`.
    Source: DeiT 4, equations 2 (soft) and 3 (hard). Differs: DeiT's code divides the soft loss by the number of
    classes.
    """

    alpha: float = Field(default=0.5, gt=0, lt=1, kw_only=True, description="a share, 0 < alpha < 1")
    tau: float | None = Field(
        default=None, gt=0, kw_only=True, description="a positive temperature of soft distillation, or null for hard"
    )


class TaughtByTrial(Taught):
    """Distillation from another recipe's run at the same seed.

    `values` names only what the teacher differs in, and is put on the student's own recipe: with its class token as
    pool, all of it learning, without init, teacher, auxiliary loss and test sizes.
    `alpha`, `tau`: its share of the loss, and soft distillation (`Taught`).
    Source: DeiT 4; CPVT 4.5 (hard distillation). Differs: without augmentation the teacher labels each image once.
    """

    kind: Literal["from_trial"] = Field(default="from_trial", init=False)
    values: Values = Field(description="{path: value} of what the teacher differs in")


class TaughtByFile(Taught):
    """Distillation from a file of weights. `values`: what the teacher's recipe differs in from the student's.
    `entry`: as of `init`. `alpha`, `tau`: as of `from_trial`.

    Source: as `TaughtByTrial`. Differs: as there.
    """

    kind: Literal["from_file"] = Field(default="from_file", init=False)
    path: FilePath = Field(description="the path of a file of weights")
    sha256: str = Field(pattern="^[0-9a-f]{64}$", description=SHA256)
    values: Values = Field(default={}, description="{path: value} of what the teacher differs in")
    entry: str | None = Field(default=None, description=ENTRY)

    _digest = model_validator(mode="before")(known_by_content)


Teacher = Annotated[NoTeacher | TaughtByTrial | TaughtByFile, Field(discriminator="kind")]


class NoAuxiliary(Spec):
    """No auxiliary loss: the task alone."""

    kind: Literal["none"] = Field(default="none", init=False)

    def parameters(self, dim: int) -> int:
        return 0


class DRLoc(Spec):
    """Dense relative localization: an MLP predicts the offset of two patches from their last tokens.

    `pairs` of patches are drawn for each image; the L1 error of their absolute offsets joins the loss, times `weight`.
    Units: `offsets` in `unit`s of the grid's sides, or in `patches`.
    Source: Liu et al. 2021, which the thesis compares with (table 7). Differs: nothing; the published code has offsets
    in patches, and lets the weight warm up and fade.
    """

    kind: Literal["drloc"] = Field(default="drloc", init=False)
    pairs: int = Field(default=32, gt=0, description="a positive number of pairs an image")
    weight: float = Field(default=0.1, gt=0, description="a positive weight in the loss")
    hidden: int = Field(default=512, gt=0, description="a positive width of the MLP")
    offsets: Literal["unit", "patches"] = Field(default="unit", description="unit (of the grid's sides) or patches")

    def parameters(self, dim: int) -> int:
        """Counts the parameters of the MLP for tokens of a width."""
        return linear(2 * dim, self.hidden) + linear(self.hidden, self.hidden) + linear(self.hidden, 2)


Auxiliary = Annotated[NoAuxiliary | DRLoc, Field(discriminator="kind")]
