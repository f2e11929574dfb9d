"""What is trained: a recipe, and a run of it at one seed, identified by its key.

`recipe.put({path: value})` is the one way to change a recipe. A key names the question (recipe and seed); the outcome
records the code that computed it (`trainables.recipe.revisions`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from trainables.backbones import Model, Size, ViT
from trainables.backbones.timm_names import canonical_model
from trainables.data import Data, DatasetSpec, Folder, ImagesSpec, MeanStd, RedGreen
from trainables.data.augment import Augment, NoAugment
from trainables.encodings import Encoding, NoEncoding, OwnEncoding, ReservedChannels, Shape, canonical, parts_of
from trainables.own import OwnSpec, carry, is_own
from trainables.recipe.init_from import Fresh, FromFile, FromTimm, FromTrial, Init, Use
from trainables.recipe.looked_up import looked_up
from trainables.recipe.losses import (
    Auxiliary,
    BinaryCrossEntropy,
    Loss,
    NoAuxiliary,
    NoTeacher,
    TaskLoss,
    TaughtByFile,
    TaughtByTrial,
    Teacher,
)
from trainables.recipe.optimizer import AdamW, Optimizer, check_learning
from trainables.spec import Spec, SpecError, digest, in_order, require


def _sides(sides: tuple[int, ...]) -> tuple[int, ...]:
    require(all(side > 0 for side in sides), "", "positive sides in pixels", list(sides))
    return in_order(sides)


class Recipe(Spec):
    """Everything that decides a training, apart from its seed.

    `trainable`: what learns; the rest keeps the weights of `init`. `test_sizes`: further sides of images, in pixels, at
    which the trained model is tested, without training for them.
    """

    data: Data = RedGreen()
    model: Annotated[Model, AfterValidator(canonical_model)] = ViT()
    encoding: Annotated[Encoding, AfterValidator(canonical)] = NoEncoding()
    optimizer: Optimizer = AdamW()
    init: Init = Fresh()
    trainable: Literal["all", "position", "position+head"] = Field(
        default="all", description="'all', 'position' (the encoding's parameters only) or 'position+head'"
    )
    teacher: Teacher = NoTeacher()
    auxiliary: Auxiliary = NoAuxiliary()
    test_sizes: Annotated[tuple[int, ...], AfterValidator(_sides)] = Field(
        default=(), strict=False, description="a list of sides of images in pixels, without doubles"
    )
    augment: Augment = NoAugment()
    loss: Loss = TaskLoss()

    @field_validator("init", "teacher")
    @classmethod
    def _looks_up(cls, node: Init | Teacher, info: ValidationInfo) -> Init | Teacher:
        """Reads the images that a parent or a teacher names once: a recipe that is stored needs the same trainings."""
        if isinstance(node, FromTrial | TaughtByTrial | TaughtByFile) and "data" in info.data:
            values = looked_up(node.values, info.data["data"].kind)
            return node if values == node.values else node.model_copy(update={"values": values})
        return node

    def put(self, values: Mapping[str, Any]) -> Recipe:
        """Puts values as every spec does. A kind or an object of the user's own brings the text of its file along."""
        return super().put(_carried(values) if isinstance(values, Mapping) else values)

    def variant(self, values: Mapping[str, Any]) -> Recipe:
        """Returns what `put` does: the same object for the same values, while images that they name hold the same."""
        carried = looked_up(_carried(values), self.data.kind)
        text = json.dumps(carried, default=repr)
        if text not in self._variants:
            self._variants[text] = self.put(carried)
        return self._variants[text]

    @cached_property
    def _variants(self) -> dict[str, Recipe]:
        return {}

    @model_validator(mode="before")
    @classmethod
    def _names_weights(cls, value: Any) -> Any:
        """Takes the weights of the model's own name where `from_timm` names none."""
        init, model = (value.get(name) if isinstance(value, dict) else None for name in ("init", "model"))
        if isinstance(init, dict) and isinstance(model, dict) and {"kind": "from_timm"}.items() <= init.items():
            name = {"name": model["name"]} if model.get("kind") == "timm" and "name" in model else {}
            return {**value, "init": name | init}
        return value

    @model_validator(mode="after")
    def _fits(self) -> Recipe:
        self._check_shapes_once  # noqa: B018 (pydantic checks a recipe again in every run and trial of it)
        return self

    @cached_property
    def _check_shapes_once(self) -> None:
        self.model.check(self.data.size)
        self.model.check_encoding(self.encoding, self.data.size)
        self.data.fit_patch(self.data.size[1] // self.shapes[0].rows)
        uncounted = any(isinstance(part, OwnEncoding) for part in parts_of(self.encoding))
        counted = any(self.encoding.trainable_parameters(shape) for shape in self.shapes)
        must = f"'all' where nothing of the encoding ({self.encoding.label}) learns"
        require(self.trainable == "all" or uncounted or counted, "trainable", must, self.trainable)

    @model_validator(mode="after")
    def _check_frozen(self) -> Recipe:
        """Frozen weights must have been trained: a frozen backbone or head with random weights stays at chance."""
        if self.trainable == "position":
            loaded = not isinstance(self.init, Fresh) and self.init.part != "encoding"
            must = "'all' or 'position+head' where init gives no weights of the backbone"
            require(loaded, "trainable", must, self.trainable)
            parent = self.parent
            if parent is not None:
                mine, theirs = self.data.outputs, parent.data.outputs
                must = f"'all' or 'position+head' where the parent's head has {theirs} outputs, not {mine}"
                require(mine == theirs, "trainable", must, self.trainable)
        return self

    @model_validator(mode="after")
    def _check_learning(self) -> Recipe:
        """An augmentation must keep the labels; losses, optimizers and timm's pixels need what they name."""
        legal = self.data.augments
        must = f"{' or '.join(legal)} for {self.data.kind} images" + (", whose labels would change" * (len(legal) == 1))
        require(self.augment.kind in legal, "augment.kind", must, self.augment.kind)
        if isinstance(self.loss, BinaryCrossEntropy):
            require(self.data.metric != "r2", "loss.kind", "task where the data have no classes", self.loss.kind)
            self.loss.check(self.augment, self.data.outputs)
        check_learning(self.optimizer, self.model, self.encoding, self.trainable)
        if self.data.normalize.kind == "timm":
            must = "auto, none or mean_std where init.kind is not from_timm"
            require(self.normalize is not None, "data.normalize.kind", must, "timm")
        return self

    @model_validator(mode="after")
    def _check_init(self) -> Recipe:
        """Timm's weights need a backbone of full width; a parent's recipe must be legal.

        A file may hold the weights of a model in which position takes channels; the shapes decide when it is read.
        """
        if isinstance(self.init, FromTimm) and self.init.part != "encoding":
            whole = all(self.encoding.reserved(shape.widths) == ReservedChannels() for shape in self.shapes)
            must = "fresh, from_trial or from_file where position takes channels, which replaces timm's layers"
            require(whole, "init.kind", must, self.init.kind)
        parent = self.parent  # raises where it is not legal
        if not isinstance(self.init, FromTrial) or parent is None or self.init.part == "backbone":
            return self
        for ours, theirs in zip(self.shapes, parent.shapes, strict=False):
            # a table has its rows of patches one after the other: their number does not tell 4 x 16 from 8 x 8
            alike = ours.rows * ours.columns == theirs.rows * theirs.columns and ours.rows != theirs.rows
            grids = f"{ours.rows} x {ours.columns} patches are as many as {theirs.rows} x {theirs.columns}"
            fits = self.encoding.is_noop or self.encoding.any_grid or not alike
            require(fits, "init.part", f"'backbone' where {grids}, whose table fits, too", self.init.part)
        return self

    @model_validator(mode="after")
    def _check_test_sizes(self) -> Recipe:
        for side in self.test_sizes:
            others = f"sides other than the training's own {self.data.size[1:]}"
            require(self.size_at(side) != self.data.size, "test_sizes", others, side)
        return self

    @model_validator(mode="after")
    def _check_teacher(self) -> Recipe:
        """A teacher needs a distilled model, classes, and the student's images; without one, trained weights."""
        alone, kind = isinstance(self.teacher, NoTeacher), self.teacher.kind
        distilled = isinstance(self.model, ViT) and self.model.pool == "distilled"
        require(distilled or alone, "teacher", "none where model is not a vit with pool distilled", kind)
        untaught = distilled and alone and isinstance(self.init, Fresh)  # weights of DeiT's had a teacher
        must = "from_trial or from_file where model.pool is distilled and init is fresh"
        require(not untaught, "teacher", must, kind)
        if self.teacher_recipe is None:
            return self
        require(self.data.metric != "r2", "teacher", "none where the data have no classes", kind)
        student, teacher = self.data, self.teacher_recipe.data
        mine, theirs = _classes(student), _classes(teacher)
        require(mine == theirs, "teacher.values", f"of a teacher of {mine}", theirs)
        if isinstance(student, Folder) and isinstance(teacher, Folder) and student.names and teacher.names:
            for mine, theirs in zip(student.names, teacher.names, strict=True):
                must = f"of a teacher of the student's classes, such as {mine}"
                require(mine == theirs, "teacher.values", must, theirs)
        return self

    @model_validator(mode="after")
    def _check_held_out(self) -> Recipe:
        """A parent must not train on images on which its child is scored, nor must the parent's parent."""
        for use, parent in self.parents.items():
            for other in (parent, *parent.ancestors):
                unlike = dealt_unlike(self.data, other.data)
                names = ", ".join(f"data.{name}" for name in unlike)
                must = f"with the run's own {names}; else the parent trains on images on which the run is scored"
                got = ", ".join(str(getattr(other.data, name)) for name in unlike)
                require(not unlike, f"{use}.values", must, got)
        return self

    @property
    def own_modules(self) -> tuple[OwnSpec, ...]:
        """The model and the encodings that are of a user's own file."""
        return tuple(part for part in (self.model, *parts_of(self.encoding)) if isinstance(part, OwnSpec))

    @property
    def own_parts(self) -> tuple[OwnSpec, ...]:
        """What is of a user's own file: images, a model, encodings."""
        return (*([self.data] if isinstance(self.data, OwnSpec) else []), *self.own_modules)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The model as its encoding sees it, a shape a stage."""
        return self.model.shapes(self.data.size)

    def size_at(self, side: int) -> Size:
        """Returns the size of a square image of another side. Raises: SpecError if model or encoding cannot have it."""
        size = (self.data.size[0], side, side)
        try:
            self.model.check(size)
            self.model.check_encoding(self.encoding, size)
        except PydanticCustomError as error:
            context = error.context or {}
            must = f"such that at {side} px {context['path']} is {context['must']}"
            raise SpecError(f"test_sizes must be {must}, got {context['got']}") from None
        return size

    @property
    def parent(self) -> Recipe | None:
        """The recipe whose weights this one starts from, or None. All of it learns unless `init.values` differs."""
        if not isinstance(self.init, FromTrial):
            return None
        return self._other("init", {"init": Fresh(), "trainable": "all", "test_sizes": [], **self.init.values})

    @property
    def teacher_recipe(self) -> Recipe | None:
        """The recipe of the teacher, or None: this one with the class token as pool, all trained, on the labels."""
        if isinstance(self.teacher, NoTeacher):
            return None
        plain = {"init": Fresh(), "trainable": "all", "teacher": NoTeacher(), "auxiliary": NoAuxiliary()}
        pool = {} if {"model", "model.kind", "model.pool"} & self.teacher.values.keys() else {"model.pool": "token"}
        return self._other("teacher", {**plain, "test_sizes": [], **pool, **self.teacher.values})

    def _other(self, use: Use, values: dict[str, Any]) -> Recipe:
        try:
            return self.put(values)
        except SpecError as error:
            raise SpecError(f"{use}.values must give a valid recipe: {error}") from None

    @property
    def parents(self) -> dict[Use, Recipe]:
        """The recipes that are trained before this one, by what this one needs them for."""
        teacher = self.teacher_recipe if isinstance(self.teacher, TaughtByTrial) else None
        recipes: dict[Use, Recipe | None] = {"init": self.parent, "teacher": teacher}
        return {use: recipe for use, recipe in recipes.items() if recipe is not None}

    @property
    def ancestors(self) -> tuple[Recipe, ...]:
        """The recipes that are trained before this one, and those before them."""
        return tuple(recipe for parent in self.parents.values() for recipe in (parent, *parent.ancestors))

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of the files of weights that this one needs."""
        return tuple(node.path for node in (self.init, self.teacher) if isinstance(node, FromFile | TaughtByFile))

    @property
    def normalize(self) -> MeanStd | FromTimm | None:
        """What is done to pixels from 0 to 1: a mean and a std, those of timm's weights, or nothing.

        A child of another trial sees pixels as its parent did, where it starts from the parent's backbone.
        """
        normalize = self.data.normalize
        if isinstance(normalize, MeanStd):
            return normalize
        if normalize.kind == "none" or isinstance(self.init, Fresh | FromFile) or self.init.part == "encoding":
            return None
        if isinstance(self.init, FromTimm):
            return self.init
        return None if self.parent is None else self.parent.normalize

    def identity(self) -> Any:
        """Returns the identity, with a parent and `normalize` as what they resolve to, however they were written."""
        return deepcopy(self._identity_once)

    @cached_property
    def _identity_once(self) -> Any:
        fields = super().identity()
        fields["data"].pop("normalize", None)
        if self.normalize is not None:
            fields["data"]["normalize"] = self.normalize.identity()
        for name in ("teacher", "auxiliary", "augment", "loss"):  # recipes without them keep the keys of before
            if fields[name] in ({"kind": "none"}, {"kind": "task"}):
                del fields[name]
        if self.parent is not None:
            fields["init"]["values"] = self.parent.identity()
        if self.teacher_recipe is not None:
            taught = self.teacher_recipe.identity()
            trained = isinstance(self.teacher, TaughtByTrial)
            shaping = {"data", "model", "encoding"}  # how the weights of a file were trained does not matter
            fields["teacher"]["values"] = {name: taught[name] for name in taught if trained or name in shaping}
        return fields


def _carried(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns values to be put on a recipe, with the text of its file beside each kind and object of the user's own."""
    objects = {path for path, value in values.items() if isinstance(value, Spec) or is_own(value)}
    sources = {path.removesuffix("kind") + "source" for path in objects} & values.keys()
    return {**values, **carry({path: values[path] for path in objects | sources})}


def _classes(data: Data) -> str:
    return f"the {data.outputs} classes of {data.label} in images of {data.size}"


def dealt_unlike(spec: DatasetSpec, other: DatasetSpec) -> list[str]:
    """Returns the fields by which another spec may train on images that a spec holds out; none for other images.

    Held-out images come first in one order, so a spec that holds out more of them trains on none of these.
    """
    if not (isinstance(spec, ImagesSpec) and isinstance(other, ImagesSpec)):
        return []
    if (spec.kind, getattr(spec, "digest", None)) != (other.kind, getattr(other, "digest", None)):
        return []
    mine, theirs = spec.held_out_at(0), other.held_out_at(0)
    held, more = mine.validation + mine.test, theirs.validation + theirs.test
    sizes = {"val_size": (mine.validation, theirs.validation), "test_size": (mine.test, theirs.test)}
    fields = {"folds": (spec.folds, other.folds)} | (sizes if held > more else {})
    fields |= {"val_from": (spec.identity().get("val_from"), other.identity().get("val_from"))}
    if held:
        fields |= {"data_seed": (spec.data_seed, other.data_seed)}
    return [name for name, (value, value_of_other) in fields.items() if value != value_of_other]


class Run(Spec):
    """A recipe and a seed: one training.

    The seed moves initial weights, order and augmentation, never the data; with `data.folds` it also says which fold of
    the training images validates.
    """

    recipe: Recipe
    seed: int = Field(ge=0, description="a seed from 0 on")

    @cached_property
    def key(self) -> str:
        """16 hex digits that name the question: recipe, seed, fingerprint of the data, parents."""
        question = [self.recipe.identity(), self.seed, self.recipe.data.fingerprint]
        return digest([*question, *(parent.key for parent in self.needs())])

    @cached_property
    def parents(self) -> dict[Use, Run]:
        """The runs whose weights this one needs, by what it needs them for: the parents' recipes at the same seed."""
        return {use: Run(recipe=recipe, seed=self.seed) for use, recipe in self.recipe.parents.items()}

    def needs(self) -> tuple[Run, ...]:
        return tuple(self.parents.values())
