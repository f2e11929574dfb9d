"""Shapes of a code's channels: how well Gabor waves and edge markers describe each channel's map, and what it shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from trainables.encodings.encoding import Grid
from trainables.probes.inputs.arrays import Array, codes_on, float64
from trainables.probes.inputs.subject import Subject, no_code
from trainables.recipe.findings import Findings

Form = Literal["gabor", "edge", "gabor+edge"]
SHAPES = ("chaos", "raster", "striped", "box")
EXPLAINED = 0.5
"""A channel has a pattern where waves or edges explain at least this share of its variance."""
ONE_WAY = 0.8
"""A pattern is striped where at least this share of the fitted waves' variance is along one side."""
SIGMAS, LONGEST = (0.05, 20.0), 16.0
"""Where widths of waves are looked for, and the longest wavelength. Units: half a side of the grid."""
MOST_TRIES = 25
"""How often a fit is refined at most: a channel that no wave describes has no best one."""
STEPS = (14, 28)
"""How many widths and wavelengths are tried before the best pair is refined."""


@dataclass(frozen=True)
class ChannelShapes:
    """What describes each channel. `kinds`: its shape; `unexplained`: by form, the share of variance that is left.

    `sigma`, `wavelength`, `phase`, `weight`: of the waves along x and y that fit best, as `Gabor` has them. A channel
    that is the same everywhere is chaos, and nothing of it is left.
    Shapes: kinds (D,), unexplained (D,) each, the others (D, 2). Units: half a side of the grid; phase in radians.
    """

    kinds: NDArray[np.str_]
    unexplained: dict[Form, Array]
    sigma: Array
    wavelength: Array
    phase: Array
    weight: Array


@dataclass(frozen=True)
class _Side:
    """A fit along one side: squared errors of its means, squared sizes of the fit, waves. Shapes: (D,), (D, 4)."""

    errors: Array
    sizes: Array
    waves: Array


def channel_shapes(codes: Any, grid: Grid) -> ChannelShapes:
    """Fits the Gabor paper's waves (G), edges (E) and both (G+E) to the map of each channel, by least squares.

    All forms are a function of x plus one of y. On a full grid these are fitted apart, to the means of the columns and
    of the rows; the weights follow from width and wavelength by linear least squares.
    A channel is chaos where neither waves nor edges explain half of its variance; else box where edges leave no more
    than waves; else striped where at least 80 % of the fitted waves' variance is along one side; else raster.
    Shapes: codes (P, D), without prefix tokens. Source: Gabor paper 3.1, 3.2, fig. 4, eqs. 5-9. Differs: the rules,
    which the paper does not give; waves are centered at 0, as in `Gabor`.
    Cost: 40 ms a channel.
    """
    maps = codes_on(codes, grid).reshape(grid.rows, grid.columns, -1)
    maps = maps - maps.mean(axis=(0, 1))
    along_x, along_y = maps.mean(axis=0), maps.mean(axis=1)
    mixed = ((maps - along_x - along_y[:, None]) ** 2).sum(axis=(0, 1))
    total = (maps**2).sum(axis=(0, 1))
    flat = total <= 1e-24 * np.maximum(codes_on(codes, grid) ** 2, 1e-300).sum(axis=0)
    along_x, along_y = (
        np.where(~flat & ((line**2).sum(axis=0) > 1e-20 * total), line, 0.0) for line in (along_x, along_y)
    )
    sides = {form: (_side(along_x, form), _side(along_y, form)) for form in get_args(Form)}
    left = {
        form: np.where(flat, 0.0, (mixed + grid.rows * x.errors + grid.columns * y.errors) / np.where(flat, 1, total))
        for form, (x, y) in sides.items()
    }
    left["gabor+edge"] = np.minimum.reduce([*left.values()])  # both other forms are fits of this one, too
    x, y = sides["gabor"]
    size_x, size_y = grid.rows * x.sizes, grid.columns * y.sizes
    one_way = np.maximum(size_x, size_y) >= ONE_WAY * (size_x + size_y)
    pattern = ~flat & (np.minimum(left["gabor"], left["edge"]) <= 1 - EXPLAINED)
    box = left["edge"] <= left["gabor"]
    kinds = np.select([~pattern, box, one_way], ["chaos", "box", "striped"], "raster")
    waves = np.stack([x.waves, y.waves], axis=1)
    return ChannelShapes(kinds, left, *(waves[:, :, column] for column in range(4)))


def _side(means: Array, form: Form) -> _Side:
    """Returns the fit of one side's means. Shapes: (L, D)."""
    length, channels = means.shape
    at = np.linspace(-1, 1, length) if length > 1 else np.zeros(1)
    fixed = [np.ones(length)]
    if form != "gabor" and length > 1:  # markers of both ends
        fixed += [(at == at[0]).astype(float), (at == at[-1]).astype(float)]
    if form == "edge" or length == 1:
        fit = _fitted(np.stack(fixed, axis=1), means)
        return _Side(((means - fit) ** 2).sum(axis=0), (fit**2).sum(axis=0), np.zeros((channels, 4)))
    starts = _starts(at, fixed, means)
    fits = [_refined(at, fixed, means[:, channel], starts[channel]) for channel in range(channels)]
    errors, sizes, waves = (np.array(part) for part in zip(*fits, strict=True))
    return _Side(errors, sizes, waves)


def _shortest(at: Array) -> float:
    """Returns a little over two patches: there one weight could be any number, and shorter waves look like longer."""
    return 2.01 * float(at[1] - at[0])


def _design(at: Array, fixed: list[Array], sigma: float, wavelength: float) -> Array:
    """Returns the columns that a wave of this width and wavelength has a linear weight for. Shapes: (L, 2 + fixed)."""
    envelope, angle = np.exp(-(at**2) / (2 * sigma**2)), 2 * np.pi * at / wavelength
    return np.stack([envelope * np.cos(angle), -envelope * np.sin(angle), *fixed], axis=1)


def _fitted(design: Array, values: Array) -> Array:
    fit: Array = design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return fit


def _starts(at: Array, fixed: list[Array], means: Array) -> Array:
    """Returns the best width and wavelength of each channel among those tried. Shapes: (D, 2)."""
    wavelengths = np.geomspace(1.001 * _shortest(at), 8, STEPS[1])
    pairs = [(sigma, wavelength) for sigma in np.geomspace(0.1, 4, STEPS[0]) for wavelength in wavelengths]
    errors = np.stack([((means - _fitted(_design(at, fixed, *pair), means)) ** 2).sum(axis=0) for pair in pairs])
    best: Array = np.array(pairs)[errors.argmin(axis=0)]
    return best


def _refined(at: Array, fixed: list[Array], means: Array, start: Array) -> tuple[float, float, Array]:
    """Returns the squared error and size of the best fit near a start, and its width, wavelength, phase and weight."""
    scale = float(np.abs(means).max())
    if scale == 0:
        return 0.0, 0.0, np.array([*start, 0.0, 0.0])
    low, high = np.log(np.array([SIGMAS, (_shortest(at), LONGEST)])).T

    def residuals(logs: Array) -> Array:
        return means / scale - _fitted(_design(at, fixed, *np.exp(logs)), means / scale)

    sigma, wavelength = start
    if (residuals(np.log(start)) ** 2).sum() > 1e-24:  # an exact fit has no slope, and scipy would divide by zero
        best = least_squares(
            residuals, np.log(start), bounds=(low, high), xtol=1e-10, ftol=1e-10, gtol=None, max_nfev=MOST_TRIES
        )
        sigma, wavelength = np.exp(best.x)
    design = _design(at, fixed, sigma, wavelength)
    weights = np.linalg.lstsq(design, means, rcond=None)[0]
    fit = design @ weights
    wave = np.array([sigma, wavelength, np.arctan2(weights[1], weights[0]), np.hypot(weights[0], weights[1])])
    return float(((means - fit) ** 2).sum()), float(((fit - fit.mean()) ** 2).sum()), wave


def probe(subject: Subject) -> Findings:
    """Returns the share of channels of each shape, and by form the mean share of variance that is left unexplained."""
    if subject.codes is None:
        return no_code(subject)
    shapes = channel_shapes(subject.codes, subject.grid)
    values = {kind: float(np.mean(shapes.kinds == kind)) for kind in SHAPES}
    values |= {f"unexplained_{form.replace('+', '_')}": float(left.mean()) for form, left in shapes.unexplained.items()}
    maps = float64(subject.codes).reshape(subject.grid.rows, subject.grid.columns, -1)
    arrays = {"kinds": shapes.kinds, "unexplained": np.stack([*shapes.unexplained.values()])}
    arrays["maps"] = maps.astype(np.float32)
    return Findings(
        values, arrays | {name: getattr(shapes, name) for name in ("sigma", "wavelength", "phase", "weight")}
    )
