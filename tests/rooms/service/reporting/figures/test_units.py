"""Units on axes are those of the fields."""

from service.reporting.figures.searched import axis_label, unit
from trainables.backbones import ViT
from trainables.encodings import IRPE, Composed, Fourier, Learnable
from trainables.recipe import Recipe


def test_a_field_names_its_unit():
    for recipe, path, expected in (
        (Recipe(encoding=Fourier()), "encoding.gamma", "patches"),
        (Recipe(encoding=Fourier(coordinates="unit")), "encoding.gamma", "grid widths"),
        (Recipe(encoding=Composed((Learnable(), Fourier()))), "encoding.parts.1.gamma", "patches"),
        (Recipe(encoding=IRPE()), "encoding.index.alpha", "patches"),
        (Recipe(), "data.image_size", "pixels"),
        (Recipe(model=ViT()), "optimizer.lr", ""),
        (Recipe(), "encoding.gamma", ""),
    ):
        assert unit(recipe, path) == expected


def test_a_mixture_of_units_is_no_unit():
    recipes = [Recipe(encoding=Fourier()), Recipe(encoding=Fourier(coordinates="unit"))]
    assert axis_label("encoding.gamma", recipes[:1]) == "encoding.gamma (patches)"
    assert axis_label("encoding.gamma", recipes) == "encoding.gamma"
    assert axis_label("encoding.gamma", []) == "encoding.gamma"
