"""One or more examples of every kind in the catalog, and small models to put them in."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from trainables import catalog, enters, indices
from trainables.backbones.vit import PositionedViT
from trainables.catalog import EncodingSpec, OwnEncoding
from trainables.initial import draw
from trainables.model_spec import Size
from trainables.recipe import ViT
from trainables.streams import torch_stream

TOYS = (Path(__file__).parent / "toys.py").read_text()


def toy(name: str, **knobs: Any) -> OwnEncoding:
    """An encoding from the user's file toys.py."""
    return OwnEncoding(kind=f"toys.py:{name}", source=TOYS, **knobs)


PEGS = (
    catalog.PEG(form="dense"),
    catalog.PEG(form="separable", padding="circular"),
    catalog.PEG(form="depthwise_stack", places=(0,)),
    catalog.PEG(form="dense_stack"),
    catalog.PEG(padding="valid"),
    catalog.PEG(into="query_key", places=(-1, 0)),
    catalog.PEG(frozen=True),
)

EXAMPLES: dict[str, tuple[EncodingSpec, ...]] = {
    "none": (catalog.NoEncoding(),),
    "learnable": (
        catalog.Learnable(std=0.5),
        catalog.Learnable(std=0.5, enters=enters.Add(blocks=2, shared=False)),
        catalog.Learnable(std=0.5, enters=enters.Add(places=("query", "value"))),
        catalog.Learnable(std=0.5, enters=enters.Concat(split=0.25)),
        catalog.Learnable(std=0.5, enters=enters.Parts(parts=(1, 4))),
    ),
    "sinusoidal": (catalog.Sinusoidal(), catalog.Sinusoidal(enters=enters.Extend(channels=2))),
    "learnable_sinusoidal": (
        catalog.LearnableSinusoidal(),
        catalog.LearnableSinusoidal(enters=enters.Concat(places=("query", "key", "value"))),
    ),
    "fourier": (catalog.Fourier(gamma=1.5, hidden=7), catalog.Fourier(features=6, coordinates="unit", gamma=0.3)),
    "gabor": (
        catalog.Gabor(),
        catalog.Gabor(form="gabor", enters=enters.Parts(parts=(2, 3))),
        catalog.Gabor(form="edge", enters=enters.Add(places=("value",), shared=False)),
    ),
    "relative": (
        catalog.Relative(),
        catalog.Relative(value=True, shared=True),
        catalog.Relative(offsets=indices.Clipped(reach=2), value=True),
    ),
    "irpe": (
        catalog.IRPE(),
        catalog.IRPE(mapping=indices.Cross(), on=("q", "k", "v"), shared_heads=False),
        catalog.IRPE(mapping=indices.Euclidean(), index=indices.ClipRatio(), on=("k", "v"), shared=True),
        catalog.IRPE(mapping=indices.Quantization(of="rank"), mode="bias", on=("q", "k")),
        catalog.IRPE(mapping=indices.Product(), index=indices.Clip(beta=2.0), mode="bias", shared_heads=False),
    ),
    "relative_bias": (catalog.RelativeBias(), catalog.RelativeBias(shared=True)),
    "peg": (catalog.PEG(), catalog.PEG(places=(-1, 0), kernel=5), *PEGS),
    "composed": (
        catalog.Composed(parts=(catalog.Fourier(enters=enters.Concat()), catalog.Learnable(), catalog.IRPE())),
        catalog.Composed(parts=(catalog.Learnable(), catalog.RelativeBias())),
        catalog.Composed(parts=(catalog.PEG(), catalog.Fourier(), catalog.Fourier(gamma=9.0))),
    ),
    "toys.py:Spiral": (toy("Spiral"), toy("Spiral", turns=0.7)),
    "toys.py:Tide": (
        toy("Tide"),
        toy("Tide", enters=enters.Concat(split=0.25)),
        toy("Tide", enters=enters.Extend(channels=2, shared=False)),
        toy("Tide", enters=enters.Parts(parts=(1, 2))),
    ),
    "toys.py:Beside": (toy("Beside", tokens=5), toy("Beside", q=2, k=2), toy("Beside", v=3), toy("Beside", extra=4)),
    "toys.py:Marker": (toy("Marker"),),
}

SIZE = (3, 12, 20)
"""Channels and pixels: a grid of 3 rows and 5 columns of patches of 4."""

Make = Callable[..., PositionedViT]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "encoding" in metafunc.fixturenames:
        specs = [(f"{kind}-{number}", spec) for kind, some in EXAMPLES.items() for number, spec in enumerate(some)]
        metafunc.parametrize("encoding", [spec for _, spec in specs], ids=[name for name, _ in specs])


@pytest.fixture
def examples() -> dict[str, tuple[EncodingSpec, ...]]:
    return EXAMPLES


@pytest.fixture
def make() -> Make:
    """A model in float64 of two blocks on a 3 x 5 grid; `spread` makes effects large."""

    def model(
        encoding: EncodingSpec, read_out: str = "mean", seed: int = 0, spread: bool = False, size: Size = SIZE
    ) -> PositionedViT:
        made = PositionedViT(ViT(dim=16, depth=2, heads=2, patch=4, read_out=read_out), size, 3, encoding)
        draw(made, seed)
        if spread:
            for name, parameter in made.named_parameters():
                torch.nn.init.normal_(parameter, std=0.3, generator=torch_stream(seed, "spread", name))
        return made.double()

    return model


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randn(4, *SIZE, dtype=torch.float64, generator=torch_stream(0, "images"))
