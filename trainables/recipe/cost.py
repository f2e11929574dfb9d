"""The cost of a run by arithmetic alone, for the plan: parameters and memory; neither torch nor timm is needed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from trainables.backbones import ViT
from trainables.data import ImagesSpec
from trainables.encodings import ReservedChannels
from trainables.recipe.evaluation import eval_batch, eval_bytes, number_bytes
from trainables.recipe.losses import DRLoc
from trainables.recipe.optimizer import normalizes_batches
from trainables.recipe.recipe import Recipe
from trainables.spec import SpecError

HALF_BYTES = 2.5
"""The bytes of a number that training keeps for the gradient, where autocast computes in 2 bytes.

Norms and the residual stream keep 4. Measured for ViT-S/16 at 224 pixels on an H100: 2.1 to 2.3."""
PROCESS_BYTES = 800 * 2**20
"""What a worker holds before it trains: Python, torch, timm (measured on a CPU: 0.7 GiB after the imports)."""


@dataclass(frozen=True)
class Cost:
    """Parameters of a training, those of them that learn, and its memory. The MLP of an auxiliary loss counts.

    Units: bytes, within a factor of about 1.5.
    """

    parameters: int
    learnt: int
    memory_bytes: int


def estimate_cost(recipe: Recipe, grad_checkpointing: bool = False) -> Cost:
    """Returns the cost of a recipe's run. A user's own encoding that does not count its parameters counts as zero.

    Memory: the process, the data as bytes, each parameter four times (value, gradient, two moments; five times with a
    moving average), and the activations of one batch, or of the part of it that is computed together: those that
    training keeps for the gradient, or those of an evaluation, at the images' own size or at a test size, whichever is
    largest. `grad_checkpointing`: training keeps the tokens before each block, and all of one block.
    """
    backbone = backbone_parameters(recipe)
    auxiliary = recipe.auxiliary.parameters(recipe.shapes[-1].widths.dim)
    parameters = backbone + position_parameters(recipe) + auxiliary
    frozen = {"all": 0, "position": backbone, "position+head": backbone - head_parameters(recipe)}[recipe.trainable]
    learnt = sum(recipe.encoding.trainable_parameters(shape) for shape in recipe.shapes) + backbone - frozen + auxiliary
    counts = recipe.data.image_counts
    streamed = isinstance(recipe.data, ImagesSpec) and recipe.data.streamed
    images = 0 if streamed else sum(counts) * math.prod(recipe.data.size)
    number = number_bytes(recipe)
    copies = 4 if recipe.optimizer.ema_decay is None else 5
    together = math.ceil(recipe.optimizer.batch_size / recipe.optimizer.accumulate)
    model = recipe.model
    if isinstance(model, ViT) and isinstance(recipe.auxiliary, DRLoc):  # it reads all tokens, as an average does
        model = model.model_copy(update={"pool": "avg"})
    activation_bytes = HALF_BYTES if recipe.optimizer.precision in ("bfloat16", "float16") else number
    activations = model.saved_activations(recipe.data.size, recipe.encoding.saved_pairs)
    if grad_checkpointing:  # the blocks of a pyramid's first stage are the largest
        tokens = sum(shape.depth * shape.tokens * shape.widths.dim for shape in recipe.shapes)
        activations = min(activations, tokens + activations // recipe.shapes[0].depth)
    kept = int(activation_bytes * together * activations)
    evaluated = 0
    for side in (None, *recipe.test_sizes):
        split = max(counts.validation if side is None else 0, counts.test)
        evaluated = max(evaluated, min(eval_batch(recipe, side), split) * eval_bytes(recipe, side))
    return Cost(parameters, learnt, PROCESS_BYTES + images + copies * number * parameters + max(kept, evaluated))


def position_parameters(recipe: Recipe) -> int:
    """Counts the parameters of the encoding, in all stages of the backbone."""
    return sum(recipe.encoding.parameters(shape) for shape in recipe.shapes)


def backbone_parameters(recipe: Recipe) -> int:
    """Counts the parameters of the backbone without its encoding, and without the channels reserved for position."""
    return recipe.model.parameters(recipe.data.size, recipe.data.outputs, _reserved(recipe))


def head_parameters(recipe: Recipe) -> int:
    """Counts the parameters of the backbone's heads: all that it has because of its outputs."""
    return backbone_parameters(recipe) - recipe.model.parameters(recipe.data.size, 0, _reserved(recipe))


def _reserved(recipe: Recipe) -> ReservedChannels:
    return sum((recipe.encoding.reserved(shape.widths) for shape in recipe.shapes), ReservedChannels())


BACKWARD = 2
"""Backward passes cost twice the forward pass: one product for the inputs of a layer, one for its weights."""
ATTENTION_TERMS = 8
"""More products of all pairs of tokens than any encoding of the catalog computes in a block."""
SAFE = 2
"""Beyond what is counted here, such as the tokens of pixels inside a patch."""


def most_forward_flops(recipe: Recipe, side: int | None = None) -> float:
    """Returns a bound of the floating-point operations of a forward pass of one image, by arithmetic; far above them.

    Each parameter multiplies once at each pixel at most, and attention multiplies pairs of tokens. Nothing is known of
    an encoding or a model of the user's own: without end. `side`: of another size than the recipe's own. Units: pixels.
    """
    if recipe.own_modules:
        return math.inf
    size = recipe.data.size if side is None else recipe.size_at(side)
    shapes = recipe.model.shapes(size)
    pixels = size[1] * size[2] + max(shape.prefix for shape in shapes)
    parameters = backbone_parameters(recipe) + position_parameters(recipe)
    pairs = sum(shape.depth * shape.tokens**2 * shape.widths.dim for shape in shapes)
    return SAFE * (2 * (parameters * pixels + ATTENTION_TERMS * pairs) + auxiliary_flops(recipe))


def auxiliary_flops(recipe: Recipe) -> int:
    """Counts the floating-point operations of the MLP of an auxiliary loss, for one image that is learned from."""
    drloc = recipe.auxiliary
    if not isinstance(drloc, DRLoc):
        return 0
    biases = 2 * drloc.hidden + 2
    return 2 * drloc.pairs * (drloc.parameters(recipe.shapes[-1].widths.dim) - biases)


def training_operations(
    recipe: Recipe, forward: Callable[[Recipe, int | None], float], learning: Callable[[Recipe], float] | None = None
) -> float:
    """Counts the floating-point operations of a run: its training, validations, and tests at all sizes of images.

    `forward`: those of a forward pass of one image, at the recipe's own size (None) or another; `learning`: of one that
    is learned from, where it has others. It is an upper bound where parts of a model are frozen; the forward passes of
    a teacher are not counted.
    """
    evaluation, counts = forward(recipe, None), recipe.data.image_counts
    training = evaluation if learning is None else learning(recipe)
    epoch = (1 + BACKWARD) * training * counts.train + evaluation * counts.validation
    tests = evaluation + sum(forward(recipe, side) for side in recipe.test_sizes)
    return recipe.optimizer.trained_epochs * epoch + tests * counts.test


def check_placement(recipe: Recipe, workers: int, device: str, grad_checkpointing: bool) -> None:
    """Refuses what would give other numbers under one key where a batch norm learns, in a recipe or those it needs.

    Raises: SpecError. Each of several workers on CPUs would normalize its own share of a batch (torch synchronizes
    batch norms on GPUs only); with gradient checkpointing a batch would move the norms' statistics twice.
    """
    if not grad_checkpointing and (workers < 2 or device.startswith("cuda")):
        return
    if normalizes_batches(recipe.model, recipe.encoding, recipe.trainable):
        kind = f"{recipe.model.kind} with {recipe.encoding.label}"
        if grad_checkpointing:
            raise SpecError(f"grad_checkpointing must be false where a model has batch norms ({kind}), got True")
        raise SpecError(f"workers must be 0 or 1 on CPUs where a model has batch norms ({kind}), got {workers}")
    for parent in recipe.parents.values():
        check_placement(parent, workers, device, grad_checkpointing)
