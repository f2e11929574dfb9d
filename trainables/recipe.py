"""What is trained: a recipe, and a run of it at one seed, known by its key.

`recipe.put({path: value})` is the one way to change a recipe. A key names the question (recipe and seed); the answer
carries the code that computed it (`trainables.code`).
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from trainables.catalog import Encoding, NoEncoding, Values, canonical
from trainables.encoding_spec import Shape, Widths
from trainables.spec import Spec, digest, require


class RedGreen(Spec):
    """One red and one green square on black, generated on the fly.

    Tasks: `direction` (green left or right of red), `direction4` (left / right x above / below), `distance` (column and
    row offset), `absolute` (both squares in the upper or the lower half). Squares never overlap.
    Units: sizes in pixels. Source: thesis 4 and 5.1. Differs: sizes, which the thesis leaves open.
    """

    kind: Literal["red_green"] = Field(default="red_green", init=False)
    task: Literal["direction", "direction4", "distance", "absolute"] = Field(
        default="direction", description="one of direction, direction4, distance, absolute"
    )
    image: int = Field(default=32, gt=0, description="a positive side in pixels")
    square: int = Field(default=4, gt=0, description="a positive side in pixels")
    aligned: bool = Field(default=False, description="true (squares on a grid of their own size) or false")
    train: int = Field(default=5000, gt=0, description="a positive number of images")
    validation: int = Field(default=1000, gt=0, description="a positive number of images")
    test: int = Field(default=1000, gt=0, description="a positive number of images")
    draw: int = Field(default=0, ge=0, description="a seed from 0 on: which images are drawn")

    @model_validator(mode="after")
    def _fits(self) -> RedGreen:
        require(self.image >= 4 * self.square, "square", f"at most a quarter of the image ({self.image})", self.square)
        if self.aligned:
            require(self.image % self.square == 0, "square", f"a divisor of the image ({self.image})", self.square)
        if self.task == "direction":
            for name in ("validation", "test"):
                require(getattr(self, name) % 2 == 0, name, "even: images come in mirrored pairs", getattr(self, name))
        return self

    @property
    def outputs(self) -> int:
        """How many numbers the model's head has."""
        return 4 if self.task == "direction4" else 2

    @property
    def measure(self) -> Literal["accuracy", "r2"]:
        """What is reported: accuracy, or R^2 averaged over the two offsets."""
        return "r2" if self.task == "distance" else "accuracy"

    @property
    def chance(self) -> float:
        """The score of a model that has learnt nothing."""
        return 0.0 if self.measure == "r2" else 1 / self.outputs

    @property
    def size(self) -> tuple[int, int, int]:
        """Channels, rows and columns of an image, in pixels."""
        return 3, self.image, self.image

    @property
    def fingerprint(self) -> str:
        """What the images are, beyond this spec's own fields: the generator and its version."""
        return "red_green/1"


class Digits(Spec):
    """1,797 handwritten digits of 8 x 8 pixels, as they come with scikit-learn.

    Source: scikit-learn's `load_digits`. Validation and test are drawn class-balanced; the rest is for training.
    """

    kind: Literal["digits"] = Field(default="digits", init=False)
    train: int = Field(default=1197, gt=0, description="a positive number of images")
    validation: int = Field(default=300, gt=0, description="a positive number of images")
    test: int = Field(default=300, gt=0, description="a positive number of images")
    draw: int = Field(default=0, ge=0, description="a seed from 0 on: which images go where")

    @model_validator(mode="after")
    def _fits(self) -> Digits:
        total = self.train + self.validation + self.test
        require(total <= 1797, "train", f"at most {1797 - self.validation - self.test} of the 1,797 digits", self.train)
        return self

    @property
    def outputs(self) -> int:
        return 10

    @property
    def measure(self) -> Literal["accuracy", "r2"]:
        return "accuracy"

    @property
    def chance(self) -> float:
        return 0.1

    @property
    def size(self) -> tuple[int, int, int]:
        return 1, 8, 8

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the images and labels (a test holds it against the installed set)."""
        return "65e5b4619795efb40c1082f4c350c049e4ad552200d369b6ae99e21eef5e72c5"


Data = Annotated[RedGreen | Digits, Field(discriminator="kind")]


class ViT(Spec):
    """The trunk: timm's VisionTransformer, one block of 64 channels by default.

    Units: `patch` in pixels. `read_out`: the class token; or, without one, the patch tokens: `mean` averages, then
    normalises, as timm does; `gap` normalises, then averages, as CPVT does.
    Source: thesis 4.1 (one block); CPVT 3.3 (GAP). Differs: nothing.
    """

    kind: Literal["vit"] = Field(default="vit", init=False)
    dim: int = Field(default=64, gt=0, description="a positive number of channels")
    depth: int = Field(default=1, gt=0, description="a positive number of blocks")
    heads: int = Field(default=4, gt=0, description="a positive number of heads")
    patch: int = Field(default=4, gt=0, description="a positive side in pixels")
    mlp_ratio: float = Field(default=4.0, gt=0, description="a positive ratio of the MLP's width to dim")
    read_out: Literal["class", "mean", "gap"] = Field(default="class", description="class, mean or gap")

    @model_validator(mode="after")
    def _divides(self) -> ViT:
        require(self.dim % self.heads == 0, "dim", f"a multiple of heads ({self.heads})", self.dim)
        return self

    @property
    def prefix(self) -> int:
        """How many tokens stand before the patches."""
        return int(self.read_out == "class")


class AdamW(Spec):
    """AdamW with a warm-up and a schedule over all steps.

    Units: `lr` at its highest; `warmup` is a share of all steps; `clip` bounds the gradient's norm.
    `schedule`: `one_cycle` rises and falls along cosines; `cosine` rises in a line and falls along a cosine;
    `constant` stays, without warm-up.
    """

    kind: Literal["adamw"] = Field(default="adamw", init=False)
    lr: float = Field(default=1e-3, gt=0, description="a positive learning rate")
    weight_decay: float = Field(default=0.05, ge=0, description="a weight decay of 0 or more")
    epochs: int = Field(default=10, gt=0, description="a positive number of epochs")
    batch: int = Field(default=100, gt=0, description="a positive number of images a step")
    schedule: Literal["one_cycle", "cosine", "constant"] = Field(
        default="one_cycle", description="one_cycle, cosine or constant"
    )
    warmup: float = Field(default=0.3, ge=0, lt=1, description="a share of all steps, 0 <= warmup < 1")
    clip: float | None = Field(default=1.0, gt=0, description="a positive norm, or null")
    precision: Literal["float32", "float64", "bfloat16"] = Field(
        default="float32", description="float32, float64 or bfloat16"
    )


class Fresh(Spec):
    """Begin with weights drawn from the run's seed."""

    kind: Literal["fresh"] = Field(default="fresh", init=False)


class FromTrial(Spec):
    """Begin with the weights of another recipe's run at the same seed.

    `values` names only what the parent differs in, and is put on the child's own recipe. `part`: which weights to take.
    """

    kind: Literal["from_trial"] = Field(default="from_trial", init=False)
    values: Values = Field(description="{path: value} of what the parent differs in")
    part: Literal["encoding", "backbone", "all"] = Field(default="all", description="encoding, backbone or all")


Start = Annotated[Fresh | FromTrial, Field(discriminator="kind")]


class Recipe(Spec):
    """Everything that decides a training, apart from its seed."""

    data: Data = RedGreen()
    model: ViT = ViT()
    encoding: Annotated[Encoding, AfterValidator(canonical)] = NoEncoding()
    optimiser: AdamW = AdamW()
    start: Start = Fresh()
    learns: Literal["all", "position"] = Field(
        default="all", description="'all' or 'position' (the encoding's parameters only)"
    )

    @model_validator(mode="after")
    def _fits(self) -> Recipe:
        patch = self.model.patch
        divides = all(side % patch == 0 for side in self.data.size[1:])
        require(divides, "model.patch", f"a divisor of the image's sides {self.data.size[1:]}", patch)
        self.encoding.fit(self.shape)
        learnt = self.learns == "all" or not isinstance(self.encoding, NoEncoding)
        require(learnt, "learns", "'all' where the encoding is none", self.learns)
        if isinstance(self.start, FromTrial):
            self.parent  # noqa: B018 (it must build)
        return self

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.data.size[1] // self.model.patch, self.data.size[2] // self.model.patch

    @property
    def shape(self) -> Shape:
        """The model as its encoding sees it."""
        model = self.model
        return Shape(Widths(model.dim, model.heads, model.dim // model.heads), model.depth, *self.grid, model.prefix)

    @property
    def parent(self) -> Recipe | None:
        """The recipe whose weights this one begins with, or None."""
        if isinstance(self.start, Fresh):
            return None
        return self.put({"start": Fresh(), **self.start.values})

    def identity(self) -> Any:
        """As every spec's; a parent is what it resolves to, however its values were written."""
        said = super().identity()
        if self.parent is not None:
            said["start"]["values"] = self.parent.identity()
        return said


class Run(Spec):
    """A recipe and a seed: one training. The seed moves initial weights, order and augmentation, never the data."""

    recipe: Recipe
    seed: int = Field(ge=0, description="a seed from 0 on")

    @cached_property
    def key(self) -> str:
        """16 hex digits that name the question: the recipe's identity, the seed, the data's fingerprint, the parent.

        A new field with a default changes no key.
        """
        parent = self.needs()
        said = [self.recipe.identity(), self.seed, self.recipe.data.fingerprint]
        return digest(said if parent is None else [*said, parent.key])

    def needs(self) -> Run | None:
        """The run whose weights this one begins with: the parent's recipe at the same seed."""
        parent = self.recipe.parent
        return None if parent is None else Run(recipe=parent, seed=self.seed)
