"""What a search may try: paths of a recipe, and what each may be.

A Space is legal everywhere: there is no rejection. The recipe gets products and subsets, the sampler the coordinates
they are made of, under names that carry the kind of the node they stand in (`encoding.fourier.gamma`), for two kinds
may share a word.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from trainables.recipe import Recipe
from trainables.spec import Spec, require


class Real(Spec):
    """A number between two ends, both included; on a log scale where asked."""

    kind: Literal["real"] = Field(default="real", init=False)
    low: float
    high: float
    log: bool = False

    @model_validator(mode="after")
    def _ordered(self) -> Real:
        require(self.low < self.high, "low", f"below high ({self.high})", self.low)
        require(not self.log or self.low > 0, "low", "positive on a log scale", self.low)
        return self

    def ends(self) -> tuple[float, float]:
        return self.low, self.high

    def draw(self, random: random.Random) -> float:
        if self.log:
            drawn = math.exp(random.uniform(math.log(self.low), math.log(self.high)))
            return min(max(drawn, self.low), self.high)
        return random.uniform(self.low, self.high)


class Integer(Spec):
    """A whole number between two ends, both included, in steps."""

    kind: Literal["integer"] = Field(default="integer", init=False)
    low: int
    high: int
    step: int = Field(default=1, gt=0, description="a positive step")

    @model_validator(mode="after")
    def _ordered(self) -> Integer:
        require(self.low < self.high, "low", f"below high ({self.high})", self.low)
        whole = (self.high - self.low) % self.step == 0
        require(whole, "step", f"a divisor of high - low ({self.high - self.low})", self.step)
        return self

    def ends(self) -> tuple[int, int]:
        return self.low, self.high

    def draw(self, random: random.Random) -> int:
        return random.randrange(self.low, self.high + 1, self.step)


class Choice(Spec):
    """One of several plain values."""

    kind: Literal["choice"] = Field(default="choice", init=False)
    options: tuple[bool | int | float | str, ...] = Field(min_length=1, strict=False, description="a list of values")

    def ends(self) -> tuple[Any, ...]:
        return self.options

    def draw(self, random: random.Random) -> Any:
        return random.choice(self.options)


Coordinate = Real | Integer | Choice
"""What a sampler sees: one number or one choice."""


class Subset(Spec):
    """Any part of a set, the empty one included; a coordinate a member."""

    kind: Literal["subset"] = Field(default="subset", init=False)
    of: tuple[int | str, ...] = Field(min_length=1, strict=False, description="a list of members")


class Above(Spec):
    """A factor over another path, so that `alpha < beta` holds by construction. The coordinate is the factor."""

    kind: Literal["above"] = Field(default="above", init=False)
    other: str
    factor: Real

    @model_validator(mode="after")
    def _above(self) -> Above:
        require(self.factor.low > 1, "factor.low", "above 1", self.factor.low)
        return self


Domain = Annotated[Real | Integer | Choice | Subset | Above, Field(discriminator="kind")]
Ask = Callable[[str, Coordinate], Any]


class Space(Spec):
    """Paths of a recipe and what they may be; `given` adds paths for a value of another one."""

    domains: dict[str, Domain] = Field(description="{path: domain}")
    given: dict[str, dict[str, dict[str, Domain]]] = Field(
        default_factory=dict, description="{path: {value: {path: domain}}}"
    )

    @model_validator(mode="after")
    def _known(self) -> Space:
        require(bool(self.domains), "domains", "at least one path", {})
        for path, cases in self.given.items():
            require(isinstance(self.domains.get(path), Choice), f"given.{path}", "a path with a Choice", path)
            options = [str(option) for option in self.domains[path].options]  # type: ignore[union-attr]
            for case in cases:
                require(case in options, f"given.{path}", f"one of {', '.join(options)}", case)
        earlier: set[str] = set()
        for path, domain in self.every():
            if isinstance(domain, Above):
                require(domain.other in earlier, f"{path}.other", "a path named before it", domain.other)
            earlier.add(path)
        return self

    def every(self) -> Iterator[tuple[str, Domain]]:
        """All paths with their domains, those under `given` too."""
        yield from self.domains.items()
        for cases in self.given.values():
            for domains in cases.values():
                yield from domains.items()

    def without(self, paths: set[str]) -> Space | None:
        """The space with some paths pinned; None where nothing is left to search."""
        domains = {path: domain for path, domain in self.domains.items() if path not in paths}
        given = {
            path: {case: {inner: d for inner, d in some.items() if inner not in paths} for case, some in cases.items()}
            for path, cases in self.given.items()
            if path not in paths
        }
        return Space(domains=domains, given=given) if domains else None

    def point(self, base: Recipe, ask: Ask) -> dict[str, Any]:
        """Values for every open path, each coordinate answered by `ask(name, coordinate)`."""
        values: dict[str, Any] = {}
        for path, domain in self._open(values):
            name = _name(path, base, values)
            match domain:
                case Subset(of=of):
                    values[path] = [member for member in of if ask(f"{name}.{member}", _YES_NO)]
                case Above(other=other, factor=factor):
                    values[path] = values[other] * ask(name, factor)
                case _:
                    values[path] = ask(name, domain)
        return values

    def coordinates(self, base: Recipe, values: dict[str, Any]) -> dict[str, tuple[Coordinate, Any]]:
        """The coordinates of a point, by name: the inverse of `point`."""
        found: dict[str, tuple[Coordinate, Any]] = {}
        for path, domain in self._open(values):
            name = _name(path, base, values)
            match domain:
                case Subset(of=of):
                    found |= {f"{name}.{member}": (_YES_NO, member in values[path]) for member in of}
                case Above(other=other, factor=factor):
                    ratio = values[path] / values[other]
                    found[name] = (factor, min(max(ratio, factor.low), factor.high))
                case _:
                    found[name] = (domain, values[path])
        return found

    def _open(self, values: dict[str, Any]) -> Iterator[tuple[str, Domain]]:
        """The paths that are open at a point; `values` may grow while this is walked."""
        for path, domain in self.domains.items():
            yield path, domain
            yield from self.given.get(path, {}).get(str(values[path]), {}).items()


_YES_NO = Choice(options=(False, True))


def _name(path: str, base: Recipe, values: dict[str, Any]) -> str:
    """`encoding.gamma` in a fourier node is `encoding.fourier.gamma`."""
    node, _, last = path.rpartition(".")
    if not node or last == "kind":
        return path
    kind = values.get(f"{node}.kind") or getattr(base.get(node), "kind", None)
    return f"{node}.{kind}.{last}" if kind else path


def probes(space: Space, base: Recipe, count: int = 64) -> Iterator[dict[str, Any]]:
    """Points that show whether a space is legal: both ends of every coordinate, and random points. Seeded."""
    chance = random.Random(0)
    seen: dict[str, Coordinate] = {}

    def draw(name: str, coordinate: Coordinate) -> Any:
        seen[name] = coordinate
        return coordinate.draw(chance)

    for _ in range(count):
        yield space.point(base, draw)
    for name, coordinate in list(seen.items()):
        for end in coordinate.ends():
            yield space.point(base, lambda asked, c, n=name, e=end: e if asked == n else c.draw(chance))  # type: ignore[misc]
