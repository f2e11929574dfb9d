"""A trained model with all that a prediction needs: what it is, how images are normalized, and what it answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trainables.data import MeanStd
from trainables.encodings.declared_torch import Declared
from trainables.recipe import BinaryCrossEntropy, Recipe
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


def texts(plain: Mapping[str, Any]) -> dict[str, str]:
    """Returns plain values as texts, as files of safetensors and MLflow hold them: what is no text as JSON."""
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in plain.items()}


@dataclass(frozen=True, repr=False)
class Predictions:
    """What a model answers for some images: a row an image. Shapes: outputs (N, K).

    `images`: the paths, or the numbers of the images. `classes`: the names of the outputs; empty if these are
    numbers and no classes. `separate`: whether each class is a question of its own, as the loss `bce` asks.
    """

    images: tuple[str, ...]
    classes: tuple[str, ...]
    outputs: NDArray[np.float64]
    separate: bool

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """The softmax of the outputs; if the loss is `bce`, the sigmoid of each, and they do not add up to 1.

        Shapes: (N, K). Raises: SpecError if the model has no classes.
        """
        self._require_classes()
        if self.separate:
            return torch.from_numpy(self.outputs).sigmoid().numpy()
        shifted = np.exp(self.outputs - self.outputs.max(axis=1, keepdims=True))
        return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))

    @property
    def labels(self) -> list[str]:
        """The name of the most probable class of each image. Raises: SpecError as `probabilities` does."""
        self._require_classes()
        return [self.classes[number] for number in self.outputs.argmax(axis=1)]  # probabilities may all round to 1

    def table(self) -> DataFrame:
        """Returns a row an image: its class and the probability of that; or the numbers, where there are no classes."""
        from pandas import DataFrame

        columns: dict[str, Any] = {"image": [*self.images]}
        if self.classes:
            columns |= {"class": self.labels, "probability": self.probabilities.max(axis=1)}
        else:
            columns |= {f"output {number}": column for number, column in enumerate(self.outputs.T)}
        return DataFrame(columns)

    def _require_classes(self) -> None:
        if not self.classes:
            got = "a model whose outputs are numbers: see outputs"
            raise SpecError(f"probabilities must be those of classes, got {got}")

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

    `model`: the model alone, which takes normalized pixels; `facts`: what it is. It computes on the device, and with
    the numbers, that `to` gives it.
    """

    def __init__(self, facts: Facts, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.facts, self.precision = facts, facts.recipe.optimizer.precision
        self.model = build_model(facts.recipe).to(torch.float64 if self.precision == "float64" else torch.float32)
        self.model.load_state_dict(weights)
        leave_out_initial_values(self.model)
        self.normalize = self._normalizer()
        self.eval().requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        """Returns the outputs of images as bytes, or as floats from 0 (black) to 1 (white).

        Shapes: (B, channels, height, width) to (B, outputs).
        """
        weight = next(self.model.parameters())
        pixels = images.to(weight.device, weight.dtype)
        pixels = pixels if images.is_floating_point() else pixels.div(self.facts.white)
        with autocast(weight.device.type, self.precision):
            outputs: Tensor = self.model(self.normalize(pixels))
        return outputs

    def predict(self, images: Pictures) -> Predictions:
        """Returns what the model answers, for an image or several: paths, Pillow's images, arrays or tensors.

        Photographs are turned, converted, resized and cropped as the run's own images were. Arrays are bytes of shape
        (H, W, C) or (N, H, W, C); tensors (C, H, W) or (N, C, H, W), of bytes, or of floats from 0 (black) to 1
        (white), which are not resized. It computes in evaluation mode; a model that is in training stays so.
        Raises: LocusError for an image that cannot be read, or does not fit the model.
        """
        recipe, names, outputs = self.facts.recipe, list[str](), list[Tensor]()
        numbered = enumerate(listed(images))
        while batch := [*islice(numbered, eval_batch(recipe))]:
            batch_names = [str(image) if isinstance(image, str | Path) else str(number) for number, image in batch]
            tensors = [pixels(name, image, recipe.data) for name, (_, image) in zip(batch_names, batch, strict=True)]
            if len({image.dtype for image in tensors}) > 1:
                raise SpecError("images must all be floats, or all be pictures or bytes, got both")
            with torch.inference_mode(), evaluating(self):
                outputs.append(self(torch.stack(tensors)).cpu().double())
            names += batch_names
        if not names:
            raise SpecError("images must hold an image or more, got none")
        answers = torch.cat(outputs)
        if not (finite := answers.isfinite().all(dim=1)).all():
            raise LocusError(f"outputs must be finite, got others for image {names[int(finite.int().argmin())]}")
        separate = isinstance(recipe.loss, BinaryCrossEntropy)
        return Predictions(tuple(names), self.facts.classes, answers.numpy(), separate)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Does what `to` and its like ask for; the pixels' mean and deviation follow the weights."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.normalize = self._normalizer()
        return self

    def _normalizer(self) -> nn.Module:
        weight = next(self.model.parameters())
        return normalizer(self.facts.recipe, weight.device, weight.dtype)


def leave_out_initial_values(model: nn.Module) -> None:
    """Drops how parameters of encodings begin, which is over: those are functions, and pickle takes none."""
    for part in model.modules():
        if isinstance(part, Declared):
            part.params = {name: replace(param, init=_begun) for name, param in part.params.items()}


def _begun(value: Any, generator: Any) -> None:
    """Stands for the initial values of a parameter that has them, or others, already."""
    raise LocusError("a trained or attached encoding must keep its values, got a call for initial ones")


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Puts a model into evaluation mode, and each of its modules back into the mode that it had."""
    before = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in before.items():
            module.training = training
