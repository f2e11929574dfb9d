"""How a model learns: the optimizer, its schedule, and how long."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from trainables.spec import Spec, require


def _betas(betas: tuple[float, float]) -> tuple[float, float]:
    require(all(0 <= beta < 1 for beta in betas), "", BETAS, list(betas))
    return betas


BETAS = "two numbers, 0 <= beta < 1"


class AdamW(Spec):
    """AdamW with a warm-up and a schedule over all steps.

    Units: `lr` at its highest; `warmup` is a share of all steps; `clip_grad` bounds the gradient's norm.
    `schedule`: `one_cycle` rises and falls along cosines; `cosine` rises in a line and falls along a cosine;
    `constant` stays, without warm-up. `min_lr`: where `cosine` ends.
    `precision`: `tf32` is float32 whose products a GPU computes with fewer digits, faster; `float32` computes all in
    full. `bfloat16` computes blocks in bfloat16 (autocast), the sum over blocks, heads and loss in float32.
    `betas`: how slowly the two moments forget; `eps` is added to the root of the second.
    `layer_decay`: the factor of the rate from a layer to the one below it, from the head down to the patches; an
    encoding has the rate of the patches, as timm's table of positions has.
    `lr_base_size`: the batch size that `lr` is meant for; the highest rate is lr * batch_size / lr_base_size. Null: lr.
    `accumulate`: in how many parts a batch is computed, where memory is short; the step is that of the whole batch.
    `ema_decay`: the decay of a moving average of the weights, whose scores and weights are kept beside the others.
    """

    kind: Literal["adamw"] = Field(default="adamw", init=False)
    lr: float = Field(default=1e-3, gt=0, description="a positive learning rate")
    weight_decay: float = Field(default=0.05, ge=0, description="a weight decay of 0 or more")
    epochs: int = Field(default=10, gt=0, description="a positive number of epochs")
    batch_size: int = Field(default=100, gt=0, description="a positive number of images a step")
    schedule: Literal["one_cycle", "cosine", "constant"] = Field(
        default="one_cycle", description="one_cycle, cosine or constant"
    )
    warmup: float = Field(default=0.3, ge=0, lt=1, description="a share of all steps, 0 <= warmup < 1")
    min_lr: float = Field(default=0.0, ge=0, description="a learning rate of 0 or more")
    clip_grad: float | None = Field(default=1.0, gt=0, description="a positive norm, or null")
    precision: Literal["float32", "float64", "bfloat16", "tf32"] = Field(
        default="float32", description="float32, tf32, bfloat16 or float64"
    )
    betas: Annotated[tuple[float, float], AfterValidator(_betas)] = Field(
        default=(0.9, 0.999), strict=False, description=BETAS
    )
    eps: float = Field(default=1e-8, gt=0, description="a positive number")
    layer_decay: float | None = Field(default=None, gt=0, le=1, description="a factor, 0 < factor <= 1, or null")
    lr_base_size: int | None = Field(default=None, gt=0, description="a positive number of images a step, or null")
    accumulate: int = Field(default=1, gt=0, description="a positive number of parts of a batch")
    ema_decay: float | None = Field(default=None, gt=0, lt=1, description="a decay, 0 < decay < 1, or null")

    @model_validator(mode="after")
    def _falls(self) -> AdamW:
        lowest, highest = self.min_lr, self.lr * self.batch_size / (self.lr_base_size or self.batch_size)
        require(lowest == 0 or self.schedule == "cosine", "min_lr", "0 where schedule is not cosine", lowest)
        require(lowest <= highest, "min_lr", f"at most the highest rate ({highest:g})", lowest)
        return self
