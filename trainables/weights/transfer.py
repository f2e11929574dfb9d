"""A trained model on images of another size, without fine-tuning.

Tables are resampled, functions of the coordinates are computed for the new grid, everything else stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from torch.nn.functional import interpolate

from trainables.backbones.backbone_torch import Host
from trainables.encodings import Shape
from trainables.encodings.encoding_torch import Composition, Grid, PositionEncoding
from trainables.recipe import Recipe
from trainables.recipe.model_torch import build_model
from trainables.spec import SpecError


def at_size(model: Host, recipe: Recipe, side: int) -> Host:
    """Returns the recipe's model for square images of another side, with this one's weights, in evaluation mode.

    Units: `side` in pixels. Raises: SpecError for a side that the recipe cannot have, and as `transferred` does.
    """
    size = recipe.size_at(side)
    other = build_model(recipe, size)
    other.load_state_dict(transferred(model, other, recipe.shapes, recipe.model.shapes(size)))
    like = next(model.parameters())
    return other.to(like.device, like.dtype).eval()


def transferred(model: Host, other: Host, old: Sequence[Shape], new: Sequence[Shape]) -> dict[str, Tensor]:
    """Returns the weights and statistics of a model as those of another one, whose stages have other grids.

    Each tensor of the encoding is resampled by the innermost encoding around it (`PositionEncoding.resampled`).
    Raises: SpecError if a tensor has another shape there and no encoding resamples it.
    """
    state = {name: model.resampled(name, value, other) for name, value in model.state_dict().items()}
    stages = [("encoding", model.encoding)]
    if not isinstance(model.encoding, Composition):
        stages = [(f"encoding.{name}", stage) for name, stage in model.encoding.named_children()]
    for (prefix, stage), before, after in zip(stages, old, new, strict=True):
        parts = {name: part for name, part in stage.named_modules() if isinstance(part, PositionEncoding)}
        for name, value in stage.state_dict().items():
            owner = max((part for part in parts if not part or name.startswith(f"{part}.")), key=len)
            leaf = name.removeprefix(f"{owner}.")
            state[f"{prefix}.{name}"] = parts[owner].resampled(leaf, value, Grid.of(before), Grid.of(after))
    for name, value in other.state_dict().items():
        if value.shape != state[name].shape:
            must = f"of shape {tuple(value.shape)} there, got {tuple(state[name].shape)}"
            how = "write a method resampled, or register a buffer that is computed for each grid with persistent=False"
            raise SpecError(f"test_sizes change the grid: {name} must be {must}; {how}")
    return state


def resized(images: Tensor, side: int) -> Tensor:
    """Resizes images, antialiased, and cuts them to [0, 1] as an image file would be, but does not round to bytes.

    Shapes: (B, channels, height, width) to (B, channels, side, side). Source: torchvision's bicubic `Resize`.
    Differs: floats, which are not rounded.
    """
    return interpolate(images, (side, side), mode="bicubic", align_corners=False, antialias=True).clamp(0, 1)
