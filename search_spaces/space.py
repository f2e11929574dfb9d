"""What a search may try: paths of a recipe, and what each may be.

Every point of a Space builds a valid recipe, so no point is ever rejected. The sampler sees single numbers and choices;
`point` combines them into the values of a recipe. Their names carry the kind of their node (`encoding.fourier.gamma`),
because two kinds may have a field of the same name.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from trainables.own import is_own, source_of
from trainables.recipe import Recipe
from trainables.spec import WHERE, Spec, SpecError, require


class Real(Spec):
    """A number between two ends, both included; on a log scale where asked.

    `points`: how many values the grid sampler tries, evenly spaced, both ends included. Other samplers ignore it.
    """

    kind: Literal["real"] = Field(default="real", init=False)
    low: float
    high: float
    log: bool = False
    points: int | None = Field(default=None, ge=2, description="a number of grid points, 2 or more")

    @model_validator(mode="after")
    def _ordered(self) -> Real:
        require(self.low < self.high, "low", f"below high ({self.high})", self.low)
        require(not self.log or self.low > 0, "low", "positive on a log scale", self.low)
        return self

    def ends(self) -> tuple[float, float]:
        return self.low, self.high

    def grid(self) -> list[float]:
        """Returns the evenly spaced values. There must be `points`."""
        assert self.points is not None
        shares = [place / (self.points - 1) for place in range(self.points)]
        if self.log:
            inner = [self.low * (self.high / self.low) ** share for share in shares[1:-1]]
        else:
            inner = [self.low + (self.high - self.low) * share for share in shares[1:-1]]
        return [self.low, *inner, self.high]

    def holds(self, value: Any) -> bool:
        return isinstance(value, int | float) and self.low <= value <= self.high

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

    def holds(self, value: Any) -> bool:
        return value in range(self.low, self.high + 1, self.step)

    def draw(self, random: random.Random) -> int:
        return random.randrange(self.low, self.high + 1, self.step)


class Choice(Spec):
    """One of several plain values."""

    kind: Literal["choice"] = Field(default="choice", init=False)
    options: tuple[bool | int | float | str, ...] = Field(min_length=1, strict=False, description="a list of values")

    def ends(self) -> tuple[Any, ...]:
        return self.options

    def holds(self, value: Any) -> bool:
        return value in self.options

    def draw(self, random: random.Random) -> Any:
        return random.choice(self.options)


Coordinate = Real | Integer | Choice
"""What a sampler sees: one number or one choice."""


class Subset(Spec):
    """Any part of a set, the empty one included; a coordinate a member."""

    kind: Literal["subset"] = Field(default="subset", init=False)
    of: tuple[int | str, ...] = Field(min_length=1, strict=False, description="a list of members")


class Above(Spec):
    """A factor over another path, so that `alpha < beta` holds by construction. The coordinate is the factor.

    The other path is one of the space, named before this one, or one of the base recipe.
    """

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
    """Paths of a recipe and their domains; `given` adds paths for a value of another path."""

    domains: dict[str, Domain] = Field(description="{path: domain}")
    given: dict[str, dict[str, dict[str, Domain]]] = Field(
        default_factory=dict, description="{path: {value: {path: domain}}}"
    )
    sources: Annotated[dict[str, str], WHERE] = Field(
        default_factory=lambda fields: _sources(fields), description="{kind: text of its file}, of the user's own kinds"
    )

    @model_validator(mode="before")
    @classmethod
    def _written(cls, value: Any) -> Any:
        """Refuses a list in the place of a domain, and domains without their space, with the words to type."""
        domains = value.get("domains") if isinstance(value, dict) else None
        paths = [path for path in value if "." in str(path)] if isinstance(value, dict) and domains is None else []
        require(not paths, "", f"Space({{...}}) around its domains, such as that of {[*paths, ''][0]}", value)
        for path, domain in domains.items() if isinstance(domains, dict) else ():
            if isinstance(domain, list | tuple | range):
                require(False, path, _domain_words([*domain]), domain)
        return value

    @model_validator(mode="after")
    def _known(self) -> Space:
        require(bool(self.domains), "domains", "at least one path", {})
        for path, cases in self.given.items():
            require(isinstance(self.domains.get(path), Choice), f"given.{path}", "a path with a Choice", path)
            options = [str(option) for option in self.domains[path].options]  # type: ignore[union-attr]
            for case in cases:
                require(case in options, f"given.{path}", f"one of {', '.join(options)}", case)
        searched = {path for path, _ in self.every()}
        self._require_paths_once()
        before: list[str] = []
        for path, domain, earlier in self._reached():
            if path.endswith(".kind"):
                inside = [other for other in before if other.startswith(path.removesuffix("kind"))]
                require(not inside, path, f"named before the paths inside its node ({', '.join(inside)})", path)
            before.append(path)
            if isinstance(domain, Above):
                known = domain.other in earlier or domain.other not in searched
                require(known, f"{path}.other", "a path that is open before it", domain.other)
        return self

    def _require_paths_once(self) -> None:
        """Refuses a path that is open in two ways, because the sampler would see one name with two ranges."""
        for path, cases in self.given.items():
            others = {*self.domains, *(p for other in self.given if other != path for p in self._inner(other))}
            for case, domains in cases.items():
                for inner in domains:
                    must = "a path that is open in no other way"
                    require(inner not in others, f"given.{path}.{case}", must, inner)

    def _inner(self, path: str) -> Iterator[str]:
        for domains in self.given[path].values():
            yield from domains

    def _reached(self) -> Iterator[tuple[str, Domain, set[str]]]:
        """Yields every path in the order of `point`, with the paths that surely have a value before it."""
        earlier: set[str] = set()
        for path, domain in self.domains.items():
            yield path, domain, earlier
            earlier.add(path)
            for domains in self.given.get(path, {}).values():
                inner = set(earlier)
                for name, branch in domains.items():
                    yield name, branch, inner
                    inner.add(name)

    def every(self) -> Iterator[tuple[str, Domain]]:
        """Yields all paths with their domains, those under `given` too."""
        yield from self.domains.items()
        for cases in self.given.values():
            for domains in cases.values():
                yield from domains.items()

    def opened(self) -> Iterator[tuple[str, Domain, tuple[str, str] | None]]:
        """Yields every path with its domain, and the path and the value that open it; None if it is always open."""
        for path, domain in self.domains.items():
            yield path, domain, None
            for case, domains in self.given.get(path, {}).items():
                for inner, branch in domains.items():
                    yield inner, branch, (path, case)

    def pinned(self, values: Mapping[str, Any]) -> Space | None:
        """Returns the space without the paths in `values`; None if nothing is left to search.

        Paths that are searched only where a path has one of these values are now always searched.
        """
        domains: dict[str, Domain] = {}
        for path, domain in self.domains.items():
            domains |= self.given.get(path, {}).get(str(values[path]), {}) if path in values else {path: domain}
        given = {
            path: {
                case: {inner: domain for inner, domain in inside.items() if inner not in values}
                for case, inside in cases.items()
            }
            for path, cases in self.given.items()
            if path not in values
        }
        domains = {path: domain for path, domain in domains.items() if path not in values}
        return Space(domains=domains, given=given, sources=self.sources) if domains else None

    def require_kept(self, values: Iterable[str], study: str) -> None:
        """Refuses a user's values in a node whose kind is open: a kind starts its node from its own defaults."""
        for kind in (path for path, _ in self.every() if path.endswith(".kind")):
            lost = [path for path in values if path.startswith(kind.removesuffix("kind"))]
            if lost:
                raise SpecError(
                    f"{', '.join(lost)} would be lost: {study} tries values of {kind}, and each starts from its own "
                    f"defaults; set {kind}, too"
                )

    def without(self, points: Iterable[Mapping[str, Any]], values: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        """Returns points without the paths that are fixed: those that name just what is open here, each once."""
        left: list[dict[str, Any]] = []
        for point in points:
            rest = {path: value for path, value in point.items() if path not in values}
            if self.opens(rest) and rest not in left:
                left.append(rest)
        return tuple(left)

    def point(self, base: Recipe, ask: Ask) -> dict[str, Any]:
        """Returns values for every open path, each coordinate answered by `ask(name, coordinate)`."""
        values: dict[str, Any] = {}
        for path, domain in self._open(values):
            name = _name(path, base, values)
            match domain:
                case Subset(of=of):
                    values[path] = [member for member in of if ask(f"{name}.{member}", _YES_NO)]
                case Above(other=other, factor=factor):
                    values[path] = _value(other, base, values) * ask(name, factor)
                case _:
                    values[path] = ask(name, domain)
        return values

    def coordinates(self, base: Recipe, values: dict[str, Any]) -> dict[str, tuple[Coordinate, Any]]:
        """Returns the coordinates of a point, by name: the inverse of `point`."""
        coordinates: dict[str, tuple[Coordinate, Any]] = {}
        for path, domain in self._open(values):
            name = _name(path, base, values)
            match domain:
                case Subset(of=of):
                    coordinates |= {f"{name}.{member}": (_YES_NO, member in values[path]) for member in of}
                case Above(other=other, factor=factor):
                    ratio = values[path] / _value(other, base, values)
                    coordinates[name] = (factor, min(max(ratio, factor.low), factor.high))
                case _:
                    coordinates[name] = (domain, values[path])
        return coordinates

    def carried(self, values: dict[str, Any]) -> dict[str, Any]:
        """Returns a point's values, with the source beside each kind of the user's own, as a recipe needs them."""
        own = {path: value for path, value in values.items() if path.endswith("kind") and is_own(value)}
        return values | {path.removesuffix("kind") + "source": self.sources[kind] for path, kind in own.items()}

    def require_point(self, base: Recipe, values: dict[str, Any], where: str) -> None:
        """Checks with `require` that values are a point of this space: no path is missing, unknown, or out of range."""
        paths = [path for path, _ in self._open(values)]
        require(set(values) == set(paths), where, f"points with {', '.join(paths)}", sorted(values))
        for path, domain in self._open(values):
            match domain:
                case Subset(of=of):
                    holds = set(values[path]) <= set(of)
                case Above(other=other, factor=factor):
                    ratio = values[path] / _value(other, base, values)
                    holds = factor.low * (1 - CLOSE) <= ratio <= factor.high * (1 + CLOSE)
                case _:
                    holds = domain.holds(values[path])
            require(holds, f"{where}.{path}", "a value that the space has", values[path])

    def opens(self, values: dict[str, Any]) -> bool:
        """Returns whether values name just the paths that are open at them."""
        return set(values) == {path for path, _ in self._open(values)}

    def _open(self, values: dict[str, Any]) -> Iterator[tuple[str, Domain]]:
        """Yields the paths that are open at a point; `values` may grow while this is walked."""
        for path, domain in self.domains.items():
            yield path, domain
            yield from self.given.get(path, {}).get(str(values.get(path)), {}).items()


def _domain_words(values: list[Any]) -> str:
    """Returns the domains that a list may stand for, as they are typed."""
    inside, types = ", ".join(map(repr, values)), {*map(type, values)}
    if len(values) != 2 or not types <= {int, float}:
        return f"Choice([{inside}])"
    return f"Real({inside}) or Integer({inside}) or Choice([{inside}])" if types == {int} else f"Real({inside})"


_YES_NO = Choice(options=(False, True))
CLOSE = 1e-9
"""By how much, relatively, a factor may stray by rounding."""


def _sources(fields: dict[str, Any]) -> dict[str, str]:
    """Returns the text of each file whose kinds may be chosen; a study carries it, as it does for an arm."""
    given = [domains for cases in fields.get("given", {}).values() for domains in cases.values()]
    chosen = [item for domains in (fields.get("domains", {}), *given) for item in domains.items()]
    kinds = [(path, option) for path, domain in chosen if isinstance(domain, Choice) for option in domain.options]
    return {str(kind): source_of(str(kind), path) for path, kind in kinds if is_own(kind)}


def _value(path: str, base: Recipe, values: dict[str, Any]) -> Any:
    return values[path] if path in values else base.get(path)


def _name(path: str, base: Recipe, values: dict[str, Any]) -> str:
    """Writes `encoding.gamma` in a fourier node as `encoding.fourier.gamma`."""
    node, _, last = path.rpartition(".")
    if not node or last == "kind":
        return path
    kind = values.get(f"{node}.kind") or getattr(base.get(node), "kind", None)
    return f"{node}.{kind}.{last}" if kind else path


def require_base_kept(base: Recipe, point: Mapping[str, Any], recipe: Recipe) -> None:
    """Refuses a point whose kinds take the base's values away: a kind starts its node from its own defaults.

    `recipe`: that of the point on the base. What a user sets is refused by `Space.require_kept`, defaults, too.
    """
    for path in (path for path in point if path.endswith(".kind")):
        node = path.removesuffix(".kind")
        before, after = base.get(node), recipe.get(node)
        for name, field in type(before).model_fields.items():
            value = getattr(before, name)
            if name == "kind" or name not in after.fields() or value == field.get_default(call_default_factory=True):
                continue
            kept = f"{node}.{name}" in point or getattr(after, name) == value
            must = f"searched without {node}.{name} in the base, or beside it: a kind has defaults of its own"
            require(kept, path, must, value)


def probes(space: Space, base: Recipe, count: int = 64) -> Iterator[dict[str, Any]]:
    """Yields points that show whether a space is legal: both ends of every coordinate, and random points. Seeded."""
    chance = random.Random(0)
    seen: dict[str, _Draw] = {}
    for _ in range(count):
        draw = _Draw(chance, {})
        yield space.point(base, draw)
        seen |= dict.fromkeys(draw.coordinates, draw)
    for name, draw in seen.items():
        for end in draw.coordinates[name].ends():
            yield space.point(base, _Draw(chance, draw.answers | {name: end}))


class _Draw:
    """Answers coordinates with the given values, else at random, and remembers which were asked."""

    def __init__(self, chance: random.Random, answers: dict[str, Any]) -> None:
        self.chance, self.answers = chance, answers
        self.coordinates: dict[str, Coordinate] = {}

    def __call__(self, name: str, coordinate: Coordinate) -> Any:
        self.coordinates[name] = coordinate
        return self.answers.setdefault(name, coordinate.draw(self.chance))
