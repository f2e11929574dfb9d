"""One or more examples of every kind of encoding, and small models to put them in."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from trainables import encodings
from trainables.backbones import Size, ViT
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings import EncodingSpec, OwnEncoding, injection, irpe, relative
from trainables.rng_torch import torch_stream
from trainables.training.init import init_weights

TOYS = (Path(__file__).parent / "toys.py").read_text()


def toy(name: str, **knobs: Any) -> OwnEncoding:
    """An encoding from the user's file toys.py."""
    return OwnEncoding(kind=f"toys.py:{name}", source=TOYS, **knobs)


PEGS = (
    encodings.PEG(form="dense"),
    encodings.PEG(form="separable", padding="circular"),
    encodings.PEG(form="depthwise_stack", places=(0,)),
    encodings.PEG(form="dense_stack"),
    encodings.PEG(padding="valid"),
    encodings.PEG(into="query_key", places=(-1, 0)),
    encodings.PEG(frozen=True),
)

DEFAULTS = {kind: (cls(),) for kind, cls in encodings.KINDS.items() if kind != "composed"}
"""A kind that is not named below is tested with its defaults."""

EXAMPLES: dict[str, tuple[EncodingSpec, ...]] = DEFAULTS | {
    "learnable": (
        encodings.Learnable(std=0.5),
        encodings.Learnable(std=0.5, injection=injection.Add(blocks=2, shared=False)),
        encodings.Learnable(std=0.5, injection=injection.Add(places=("query", "value"))),
        encodings.Learnable(std=0.5, injection=injection.Concat(split=0.25)),
        encodings.Learnable(std=0.5, injection=injection.Parts(parts=(1, 4))),
    ),
    "sinusoidal": (encodings.Sinusoidal(), encodings.Sinusoidal(injection=injection.Extend(channels=2))),
    "learnable_sinusoidal": (
        encodings.LearnableSinusoidal(),
        encodings.LearnableSinusoidal(injection=injection.Concat(places=("query", "key", "value"))),
    ),
    "fourier": (encodings.Fourier(gamma=1.5, hidden=7), encodings.Fourier(features=6, coordinates="unit", gamma=0.3)),
    "gabor": (
        encodings.Gabor(),
        encodings.Gabor(form="gabor", injection=injection.Parts(parts=(2, 3))),
        encodings.Gabor(form="edge", injection=injection.Add(places=("value",), shared=False)),
    ),
    "rotary": (
        encodings.Rotary(),
        encodings.Rotary(form="mixed", temperature=4.0),
        encodings.Rotary(normalize_coords="min"),
        encodings.Rotary(form="sequence"),
        encodings.Composed(parts=(encodings.Learnable(), encodings.Rotary())),
        encodings.Composed(
            parts=(
                encodings.Fourier(injection=injection.Extend(channels=2)),
                encodings.Rotary(form="mixed"),
                encodings.IRPE(),
            )
        ),
    ),
    "alibi": (
        encodings.ALiBi(),
        encodings.ALiBi(distance="manhattan"),
        encodings.Composed(parts=(encodings.ALiBi(), encodings.Rotary())),
    ),
    "fire": (encodings.FIRE(hidden=6),),
    "log_cpb": (encodings.LogCPB(hidden=6, pretrained_window_size=(3, 4)),),
    "relative": (
        encodings.Relative(),
        encodings.Relative(value=True, shared=True),
        encodings.Relative(offsets=relative.ClippedOffsets(reach=2), value=True),
    ),
    "irpe": (
        encodings.IRPE(),
        encodings.IRPE(mapping=irpe.Cross(), on=("q", "k", "v"), shared_heads=False),
        encodings.IRPE(mapping=irpe.Euclidean(), index=irpe.ClipRatio(), on=("k", "v"), shared=True),
        encodings.IRPE(mapping=irpe.Quantization(of="rank"), mode="bias", on=("q", "k")),
        encodings.IRPE(mapping=irpe.Product(), index=irpe.Clip(beta=2.0), mode="bias", shared_heads=False),
    ),
    "relative_bias": (encodings.RelativeBias(), encodings.RelativeBias(shared=True)),
    "peg": (encodings.PEG(), encodings.PEG(places=(-1, 0), kernel=5), *PEGS),
    "composed": (
        encodings.Composed(
            parts=(encodings.Fourier(injection=injection.Concat()), encodings.Learnable(), encodings.IRPE())
        ),
        encodings.Composed(parts=(encodings.Learnable(), encodings.RelativeBias())),
        encodings.Composed(parts=(encodings.PEG(), encodings.Fourier(), encodings.Fourier(gamma=9.0))),
    ),
    "toys.py:Spiral": (toy("Spiral"), toy("Spiral", turns=0.7)),
    "toys.py:Tide": (
        toy("Tide"),
        toy("Tide", injection=injection.Concat(split=0.25)),
        toy("Tide", injection=injection.Extend(channels=2, shared=False)),
        toy("Tide", injection=injection.Parts(parts=(1, 2))),
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
        encoding: EncodingSpec, pool: str = "avg", seed: int = 0, spread: bool = False, size: Size = SIZE
    ) -> PositionedViT:
        made = PositionedViT(ViT(embed_dim=16, depth=2, num_heads=2, patch_size=4, pool=pool), size, 3, encoding)
        init_weights(made, seed)
        if spread:
            for name, parameter in made.named_parameters():
                torch.nn.init.normal_(parameter, std=0.3, generator=torch_stream(seed, "spread", name))
        return made.double()

    return model


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randn(4, *SIZE, dtype=torch.float64, generator=torch_stream(0, "images"))
