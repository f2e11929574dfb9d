"""The points of a finite space, one after another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from search_spaces.space import Above, Coordinate, Domain, Integer, Real, Space
from trainables.recipe import Recipe


def grid(space: Space, base: Recipe) -> Iterator[dict[str, Any]]:
    """Yields every combination of the coordinates' values; the last coordinate changes first.

    The numbers of `Real` domains must have their `points`.
    """
    chosen: list[int] = []
    while True:
        point, sizes = _point(space, base, chosen)
        yield point
        chosen += [0] * (len(sizes) - len(chosen))
        while chosen and chosen[-1] + 1 == sizes[len(chosen) - 1]:
            chosen.pop()
        if not chosen:
            return
        chosen[-1] += 1


def _point(space: Space, base: Recipe, chosen: list[int]) -> tuple[dict[str, Any], list[int]]:
    """Returns the point whose first coordinates have the chosen values and whose others have their first.

    All their counts.
    """
    sizes: list[int] = []

    def answer(name: str, coordinate: Coordinate) -> Any:
        steps = values(coordinate)
        sizes.append(len(steps))
        return steps[chosen[len(sizes) - 1] if len(sizes) <= len(chosen) else 0]

    return space.point(base, answer), sizes


def values(coordinate: Coordinate) -> list[Any]:
    """Returns the values of one coordinate, in order."""
    match coordinate:
        case Real():
            return coordinate.grid()
        case Integer(low=low, high=high, step=step):
            return list(range(low, high + 1, step))
        case _:
            return list(coordinate.options)


def is_finite(space: Space) -> bool:
    """Returns whether a space has no number between two ends."""
    return not any(_real(domain) for _, domain in space.every())


def without_points(space: Space) -> list[str]:
    """Returns the paths whose numbers have no `points`, so that no grid can be laid over the space."""
    return [path for path, domain in space.every() if (real := _real(domain)) and real.points is None]


def _real(domain: Domain) -> Real | None:
    if isinstance(domain, Above):
        return domain.factor
    return domain if isinstance(domain, Real) else None
