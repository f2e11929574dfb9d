"""How a model learns: the optimizer, its schedule, and how long; and which models can learn so."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import AfterValidator, Field, model_validator

from trainables.backbones import VOLO, ModelSpec
from trainables.encodings import PEG, EncodingSpec, parts_of
from trainables.spec import Spec, require


def _betas(betas: tuple[float, float]) -> tuple[float, float]:
    require(all(0 <= beta < 1 for beta in betas), "", BETAS, list(betas))
    return betas


BETAS = "two numbers, 0 <= beta < 1"
LENGTHS = "numbers of epochs, each greater than the one before, and all below epochs"
Betas = Annotated[tuple[float, float], AfterValidator(_betas)]

_LR, _WEIGHT_DECAY, _EPS = "a positive learning rate", "a weight decay of 0 or more", "a positive number"
_MOMENTUM, _NESTEROV = "a momentum, 0 <= momentum < 1", "true (the gradient joins the momentum once more) or false"


class Pass(NamedTuple):
    """One pass over the training images: which epoch it trains, and the length whose cooldown it is of, if it is."""

    epoch: int
    cooling: int | None = None


class OptimizerSpec(Spec):
    """Fields of every optimizer: a warm-up and a schedule over all steps, and how a step is computed.

    Units: `lr` at its highest; `warmup` is a share of all steps; `clip_grad` bounds the gradient's norm.
    `schedule`: `one_cycle` rises and falls along cosines; `cosine` rises in a line and falls along a cosine;
    `constant` stays, without warm-up. `min_lr`: where `cosine` ends. `wsd` (warm-up, stable, decay) rises in a line in
    a share of the shortest length, stays, and falls as 1 - sqrt in the last `cooldown` of the epochs.
    `lengths`: of `wsd`, fewer epochs at which the run is measured as one that ends there: it falls from where such a
    run would, and then goes on from that place as if it had not. So its scores there are those of that run.
    Source of `wsd`: Hu et al. 2024, MiniCPM; Haegele et al. 2024, Scaling laws and compute-optimal training beyond
    fixed training durations. Differs: a cooldown is whole epochs, at least one.
    `precision`: `tf32` is float32 whose products a GPU computes with fewer digits, faster; `float32` computes all in
    full. `bfloat16` and `float16` compute blocks in these (autocast), the sum over blocks, heads and loss in float32.
    `float16` is for cards without bfloat16, such as V100 and T4: the loss is scaled, so that small gradients are no
    zeros; a step whose gradients overflow is left out, and the scale falls (torch's GradScaler).
    `layer_decay`: the factor of the rate from a layer to the one below it, from the head down to the patches; an
    encoding has the rate of the patches, as timm's table of positions has.
    `lr_base_size`: the batch size that `lr` is meant for; the highest rate is lr * batch_size / lr_base_size. Null: lr.
    `accumulate`: in how many parts a batch is computed, where memory is short; the step is that of the whole batch.
    `ema_decay`: the decay of a moving average of the weights, whose scores and weights are kept beside the others.
    `ema_warmup`: the decay grows with the steps up to `ema_decay`, so that the first weights are soon forgotten.
    """

    kind: str
    lr: float = Field(default=1e-3, gt=0, description=_LR)
    weight_decay: float = Field(default=0.05, ge=0, description=_WEIGHT_DECAY)
    epochs: int = Field(default=10, gt=0, description="a positive number of epochs")
    batch_size: int = Field(default=100, gt=0, description="a positive number of images a step")
    schedule: Literal["one_cycle", "cosine", "constant", "wsd"] = Field(
        default="one_cycle", description="one_cycle, cosine, constant or wsd"
    )
    lengths: tuple[int, ...] = Field(default=(), strict=False, description=LENGTHS)
    cooldown: float = Field(default=0.2, gt=0, le=1, description="a share of the epochs, 0 < cooldown <= 1")
    warmup: float = Field(default=0.3, ge=0, lt=1, description="a share of all steps, 0 <= warmup < 1")
    min_lr: float = Field(default=0.0, ge=0, description="a learning rate of 0 or more")
    clip_grad: float | None = Field(default=1.0, gt=0, description="a positive norm, or null")
    precision: Literal["float32", "float64", "bfloat16", "float16", "tf32"] = Field(
        default="float32", description="float32, tf32, bfloat16, float16 or float64"
    )
    layer_decay: float | None = Field(default=None, gt=0, le=1, description="a factor, 0 < factor <= 1, or null")
    lr_base_size: int | None = Field(default=None, gt=0, description="a positive number of images a step, or null")
    accumulate: int = Field(default=1, gt=0, description="a positive number of parts of a batch")
    ema_decay: float | None = Field(default=None, gt=0, lt=1, description="a decay, 0 < decay < 1, or null")
    ema_warmup: bool = Field(default=False, description="true (the decay grows with the steps) or false")

    @model_validator(mode="after")
    def _check_schedule(self) -> Self:
        lowest, highest = self.min_lr, self.lr * self.batch_size / (self.lr_base_size or self.batch_size)
        require(lowest == 0 or self.schedule == "cosine", "min_lr", "0 where schedule is not cosine", lowest)
        require(lowest <= highest, "min_lr", f"at most the highest rate ({highest:g})", lowest)
        averaged = self.ema_decay is not None or not self.ema_warmup
        require(averaged, "ema_warmup", "false where ema_decay is null", self.ema_warmup)
        wsd = self.schedule == "wsd"
        require(wsd or not self.lengths, "lengths", "left out where schedule is not wsd", list(self.lengths))
        require(wsd or self.cooldown == 0.2, "cooldown", "left out where schedule is not wsd", self.cooldown)
        rising = all(0 < first < second for first, second in pairwise((*self.lengths, self.epochs)))
        require(rising, "lengths", f"{LENGTHS} ({self.epochs})", list(self.lengths))
        return self

    @property
    def every_length(self) -> tuple[int, ...]:
        """All lengths at which a run is measured as one that ends there, the longest last. Units: epochs."""
        return (*self.lengths, self.epochs)

    def cooling_epochs(self, length: int) -> int:
        """Returns how many of the last epochs of a length the rate falls in."""
        return max(1, round(self.cooldown * length)) if self.schedule == "wsd" else 0

    @property
    def passes(self) -> tuple[Pass, ...]:
        """Every pass over the training images, in the order in which a run makes them."""
        made: list[Pass] = []
        done = 0
        for length in self.every_length:
            start = length - self.cooling_epochs(length)
            made += [Pass(epoch) for epoch in range(done + 1, start + 1)]
            made += [Pass(epoch, length) for epoch in range(start + 1, length + 1)]
            done = start
        return tuple(made)

    @property
    def trained_epochs(self) -> int:
        """How many epochs a run trains: the longest length, and the cooldowns of the shorter ones."""
        return self.epochs + sum(map(self.cooling_epochs, self.lengths))

    @property
    def measured_at(self) -> dict[int, int]:
        """After how many trained epochs a run is measured at each length, by length."""
        shorter = (
            length + sum(map(self.cooling_epochs, self.lengths[:n])) for n, length in enumerate(self.every_length)
        )
        return dict(zip(self.every_length, shorter, strict=True))


class AdamW(OptimizerSpec):
    """AdamW with a warm-up and a schedule over all steps.

    `betas`: how slowly the two moments forget; `eps` is added to the root of the second.
    Source: Loshchilov and Hutter 2019, Decoupled weight decay regularization, algorithm 2. Differs: nothing.
    """

    kind: Literal["adamw"] = Field(default="adamw", init=False)
    betas: Betas = Field(default=(0.9, 0.999), strict=False, description=BETAS)
    eps: float = Field(default=1e-8, gt=0, description=_EPS)


class LAMB(OptimizerSpec):
    """LAMB: the step of Adam, scaled for each parameter to the norm of its weights. DeiT III trains with it.

    `betas`, `eps`: as of `adamw`. Parameters without weight decay are not scaled, so with a weight decay of 0 none is.
    Source: You et al. 2020, Large batch optimization for deep learning; timm's Lamb, which follows NVIDIA's FusedLAMB.
    Differs: the gradient's norm is bounded by `clip_grad`, as for every optimizer here, not by LAMB itself.
    """

    kind: Literal["lamb"] = Field(default="lamb", init=False)
    betas: Betas = Field(default=(0.9, 0.999), strict=False, description=BETAS)
    eps: float = Field(default=1e-6, gt=0, description=_EPS)


class SGD(OptimizerSpec):
    """Stochastic gradient descent with momentum. The weight decay is added to the gradient, as an L2 penalty is.

    Source: Sutskever et al. 2013, On the importance of initialization and momentum; timm's sgd, which is torch's.
    Differs: rate and weight decay start at those of He et al. 2016 for ResNets.
    """

    kind: Literal["sgd"] = Field(default="sgd", init=False)
    lr: float = Field(default=0.1, gt=0, description=_LR)
    weight_decay: float = Field(default=1e-4, ge=0, description=_WEIGHT_DECAY)
    momentum: float = Field(default=0.9, ge=0, lt=1, description=_MOMENTUM)
    nesterov: bool = Field(default=True, description=_NESTEROV)

    @model_validator(mode="after")
    def _has_momentum(self) -> SGD:
        require(self.momentum > 0 or not self.nesterov, "nesterov", "false where momentum is 0", self.nesterov)
        return self


class Muon(OptimizerSpec):
    """Muon: the momentum of each weight matrix is made orthogonal; all other parameters learn by AdamW.

    AdamW has the parameters without weight decay (norms, biases, prefix tokens, tables of positions), and weights of a
    shape that timm holds unfit. `betas`, `eps`: of AdamW; `eps` also bounds the norm by which a momentum is divided.
    `adjust_lr_fn`: how the rate of a matrix follows from its sides; with `match_rms_adamw` its steps are as large as
    AdamW's, so AdamW's rates fit. `ns_steps`: Newton-Schulz iterations. `nesterov`: also of AdamW (NAdamW).
    Source: Jordan et al. 2024, Muon; Liu et al. 2025, Muon is scalable for LLM training (`match_rms_adamw`); timm's
    Muon. Differs: as timm, the iterations are computed in bfloat16 whatever the precision; the rate starts at AdamW's.
    """

    kind: Literal["muon"] = Field(default="muon", init=False)
    momentum: float = Field(default=0.95, ge=0, lt=1, description=_MOMENTUM)
    nesterov: bool = Field(default=False, description=_NESTEROV)
    ns_steps: int = Field(default=5, gt=0, description="a positive number of iterations")
    adjust_lr_fn: Literal["match_rms_adamw", "original", "rms_to_rms"] = Field(
        default="match_rms_adamw", description="match_rms_adamw, original or rms_to_rms"
    )
    betas: Betas = Field(default=(0.9, 0.95), strict=False, description=BETAS)
    eps: float = Field(default=1e-7, gt=0, description=_EPS)


Optimizer = Annotated[AdamW | LAMB | SGD | Muon, Field(discriminator="kind")]
"""Any optimizer, chosen by its kind."""


def check_learning(optimizer: OptimizerSpec, model: ModelSpec, encoding: EncodingSpec, trainable: str) -> None:
    """Checks with `require` that a model has what the optimizer's options need."""
    decay = optimizer.layer_decay
    if decay is not None:
        must = f"null where model.kind is {model.kind}, whose layers timm does not put in one order"
        require(model.ordered_layers, "optimizer.layer_decay", must, decay)
        must = "null where trainable is position, because all of an encoding has one rate"
        require(trainable != "position", "optimizer.layer_decay", must, decay)
    if normalizes_batches(model, encoding, trainable):
        must = f"1 where a batch norm learns ({model.kind} with {encoding.label}), which would see parts of a batch"
        require(optimizer.accumulate == 1, "optimizer.accumulate", must, optimizer.accumulate)


def normalizes_batches(model: ModelSpec, encoding: EncodingSpec, trainable: str) -> bool:
    """Returns whether a batch norm learns: VOLO's stem has one, and so have stacks of PEGs."""
    stacks = (part for part in parts_of(encoding) if isinstance(part, PEG) and part.form.endswith("stack"))
    return (isinstance(model, VOLO) and trainable == "all") or any(not part.frozen for part in stacks)
