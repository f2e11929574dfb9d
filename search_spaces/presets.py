"""Published ways of training, as `{path: value}`: `recipe.put(DEIT)` in a study file, `--preset deit` in a command.

A preset is the same as so many values of `--set`. It says nothing of data, model size, encoding and initial weights.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from search_spaces.leaves import leaves
from trainables.spec import SpecError

DEIT: dict[str, Any] = {
    "augment.kind": "deit",
    "loss.kind": "task",
    "model.drop_path": 0.1,
    "optimizer.lr": 5e-4,
    "optimizer.lr_base_size": 512,
    "optimizer.min_lr": 1e-5,
    "optimizer.batch_size": 1024,
    "optimizer.epochs": 300,
    "optimizer.schedule": "cosine",
    "optimizer.warmup": 5 / 300,
    "optimizer.weight_decay": 0.05,
    "optimizer.betas": [0.9, 0.999],
    "optimizer.eps": 1e-8,
    "optimizer.clip_grad": None,
    "optimizer.layer_decay": None,
    "optimizer.ema_decay": 0.99996,
}
"""How DeiT is trained from scratch on ImageNet; CPVT and the concat paper train as it does.

`warmup` is 5 epochs of 300, as a share: it stays a share where `optimizer.epochs` is set to another number.
Source: CPVT table 10, column DeiT (Touvron et al. 2021, table 9), and 4.1 for the rate. Betas, eps, the decay of the
average, the lowest rate and no clipping are those of DeiT's published script. Differs: the rate changes at every step,
not at every epoch, and rises from nearly 0, not from 1e-6; precision is left to the study.
"""

DEIT3: dict[str, Any] = {
    "augment.kind": "three_augment",
    "loss.kind": "bce",
    "loss.target_threshold": 0.0,
    "model.drop_path": 0.05,
    "model.layer_scale": 1e-4,
    "optimizer.kind": "lamb",
    "optimizer.lr": 4e-3,
    "optimizer.min_lr": 1e-5,
    "optimizer.batch_size": 2048,
    "optimizer.epochs": 800,
    "optimizer.schedule": "cosine",
    "optimizer.warmup": 5 / 800,
    "optimizer.weight_decay": 0.05,
    "optimizer.eps": 1e-8,
    "optimizer.ema_decay": 0.99996,
}
"""How DeiT III trains a ViT-S from scratch on ImageNet; RoPE-ViT trains as it does.

`warmup` is 5 epochs of 800, as a share. Other sizes have another rate (ViT-B 3e-3) and another `drop_path` (0.2).
Source: the command for deit_small_patch16_LS in README_revenge.md of DeiT's repository; layer scale, lowest rate, eps
and the decay of the average are those of its code. Differs: as of `DEIT`; the bound of the gradient's norm, 1, is that
of the FusedLAMB which the command names.
"""

GABOR: dict[str, Any] = {
    **{path: value for path, value in DEIT.items() if path != "optimizer.ema_decay"},
    "trainable": "position",
    "optimizer.lr": 1e-3,
    "optimizer.lr_base_size": None,
    "optimizer.batch_size": 512,
    "optimizer.epochs": 50,
    "optimizer.warmup": 0.0,
}
"""How position learns on a frozen backbone; `init` names the backbone. The backbone itself is the run of a parent.

The paper first trains DeiT-Ti without its table: `init.part=backbone`, encoding none, `trainable=all`, at a rate of
1e-5. Its table 1 fits tables of ViT-B and DeiT-B instead, in 10 epochs.
Source: Gabor paper 5 (schedule and augmentation of DeiT, no warm-up, 512 images a step, 1e-3 to 1e-5 in 50 epochs).
Differs: erasing and repeated images are DeiT's; the paper names only CutMix, Mixup and RandAugment.
"""

PRESETS: dict[str, dict[str, Any]] = {"deit": DEIT, "deit3": DEIT3, "gabor": GABOR}
"""The presets that a command can name."""


def put_first(name: str | None, values: dict[str, Any]) -> dict[str, Any]:
    """Returns the values of a preset, then a user's own, which replace those of the same path.

    Raises: SpecError for an unknown preset.
    """
    if name is None:
        return values
    if name not in PRESETS:
        raise SpecError(f"the preset must be one of {', '.join(PRESETS)}, got {name!r}")
    return PRESETS[name] | leaves(values)


@contextmanager
def explained(name: str | None, settings: dict[str, Any]) -> Iterator[None]:
    """Adds to an error about a value of a preset that the preset sets it, where the user's own values do not."""
    try:
        yield
    except SpecError as error:
        paths = PRESETS[name].keys() - leaves(settings).keys() if name else set()
        path = next((word for word in re.findall(r"[a-z_]+(?:\.[a-z_]+)*", str(error)) if word in paths), None)
        if path is None:
            raise
        advice = "it cannot be used here" if "no field" in str(error) else f"a value of your own for {path} replaces it"
        raise SpecError(f"{error} (the preset {name} sets it; {advice})") from None
