"""A trained model with all that a prediction needs: what it is, how images are normalized, and what it answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trainables.data import MeanStd
from trainables.recipe import Recipe
from trainables.recipe.evaluation import eval_batch
from trainables.recipe.model_torch import build_model
from trainables.spec import LocusError, Spec, SpecError
from trainables.training.normalize import normalizer
from trainables.training.pictures import Pictures, listed, pixels
from trainables.training.runtime import autocast

if TYPE_CHECKING:
    from pandas import DataFrame

SHOWN = 10
"""How many images the text of some predictions lists."""


class Facts(Spec):
    """What a trained model is: what was trained, and where its weights come from.

    `classes`: the names of the outputs; empty if the outputs are numbers. `image_size`: channels, rows and columns.
    `white`: the byte by which pixels are divided first; then `normalize` is done, where it is given. `averaged`:
    whether the weights are the moving average. `scores`: those of these weights in the run's last epoch. `locus`: the
    version that wrote this; `code`: the digest of the code that trained.
    """

    recipe: Recipe
    seed: int
    classes: tuple[str, ...]
    image_size: tuple[int, int, int]
    white: int
    normalize: MeanStd | None
    averaged: bool
    scores: dict[str, float]
    study: str
    trial: str
    key: str
    code: str
    locus: str
    mlflow_run_id: str = ""


def texts(plain: Mapping[str, Any]) -> dict[str, str]:
    """Returns plain values as texts, as files of safetensors and MLflow hold them: what is no text as JSON."""
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in plain.items()}


@dataclass(frozen=True, repr=False)
class Predictions:
    """What a model answers for some images: a row an image. Shapes: outputs (N, K).

    `images`: the paths, or the numbers of the images. `classes`: the names of the outputs; empty if these are
    numbers and no classes.
    """

    images: tuple[str, ...]
    classes: tuple[str, ...]
    outputs: NDArray[np.float64]

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """The softmax of the outputs. Shapes: (N, K). Raises: SpecError if the model has no classes."""
        if not self.classes:
            raise SpecError(
                "probabilities must be those of classes, got a model whose outputs are numbers: see outputs"
            )
        shifted = np.exp(self.outputs - self.outputs.max(axis=1, keepdims=True))
        return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))

    @property
    def labels(self) -> list[str]:
        """The name of the most probable class of each image. Raises: SpecError as `probabilities` does."""
        return [self.classes[number] for number in self.probabilities.argmax(axis=1)]

    def table(self) -> DataFrame:
        """Returns a row an image: its class and the probability of that; or the numbers, where there are no classes."""
        from pandas import DataFrame

        columns: dict[str, Any] = {"image": [*self.images]}
        if self.classes:
            columns |= {"class": self.labels, "probability": self.probabilities.max(axis=1)}
        else:
            columns |= {f"output {number}": column for number, column in enumerate(self.outputs.T)}
        return DataFrame(columns)

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        text = str(self.table().head(SHOWN).to_string(index=False, float_format=lambda value: f"{value:.4f}"))
        hidden = len(self) - SHOWN
        return text + (f"\n... and {hidden:,} more" if hidden > 0 else "")

    def _repr_html_(self) -> str:
        return str(self.table().to_html(index=False, max_rows=2 * SHOWN))


class TrainedModel(nn.Module):
    """A trained model that takes images, and normalizes them itself. In evaluation mode, on the CPU.

    `model`: the model alone, which takes normalized pixels; `facts`: what it is.
    """

    def __init__(self, facts: Facts, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.facts, self.precision = facts, facts.recipe.optimizer.precision
        self.dtype = torch.float64 if self.precision == "float64" else torch.float32
        self.model = build_model(facts.recipe).to(dtype=self.dtype)
        self.model.load_state_dict(weights)
        self.normalize = normalizer(facts.recipe, torch.device("cpu"), self.dtype)
        self.eval().requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        """Returns the outputs of images as bytes, or as floats from 0 (black) to 1 (white).

        Shapes: (B, channels, height, width) to (B, outputs).
        """
        known = images.to(self.dtype)
        known = known if images.is_floating_point() else known.div(self.facts.white)
        with autocast("cpu", self.precision):
            outputs: Tensor = self.model(self.normalize(known))
        return outputs

    def predict(self, images: Pictures) -> Predictions:
        """Returns what the model answers, for an image or several: paths, Pillow's images, arrays or tensors.

        Photographs are turned, converted, resized and cropped as the run's own images were. Arrays are bytes of shape
        (H, W, C) or (N, H, W, C); tensors (C, H, W) or (N, C, H, W), of bytes, or of floats from 0 (black) to 1
        (white), which are not resized.
        Raises: LocusError for an image that cannot be read, or does not fit the model.
        """
        recipe, names, outputs = self.facts.recipe, list[str](), list[Tensor]()
        numbered = enumerate(listed(images))
        while batch := [*islice(numbered, eval_batch(recipe))]:
            called = [str(image) if isinstance(image, str | Path) else str(number) for number, image in batch]
            tensors = [pixels(name, image, recipe.data) for name, (_, image) in zip(called, batch, strict=True)]
            if len({image.dtype for image in tensors}) > 1:
                raise SpecError("images must all be floats, or all be pictures or bytes, got both")
            with torch.inference_mode():
                outputs.append(self(torch.stack(tensors)).double())
            names += called
        if not names:
            raise SpecError("images must hold an image or more, got none")
        answers = torch.cat(outputs)
        if not (finite := answers.isfinite().all(dim=1)).all():
            raise LocusError(f"outputs must be finite, got others for image {names[int(finite.int().argmin())]}")
        return Predictions(tuple(names), self.facts.classes, answers.numpy())
