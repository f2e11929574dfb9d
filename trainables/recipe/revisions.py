"""The code that computed an answer, as revision numbers: an answer counts only if it has today's.

Who changes the numbers of a kind raises its `REVISION`; who changes those of all trainings raises `LOOP`. The golden
numbers (`tests/golden/numbers.py`) show what was changed. A user's own file counts by its syntax tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainables.recipe.kinds import nodes
from trainables.recipe.recipe import Recipe
from trainables.source import fingerprint
from trainables.spec import LocusError, Spec, digest

LOOP = 1
"""The revision of what trainings share: the order of images, initial values, steps, scores, and what `CodeSpec` and
`HeadsSpec` do for the encodings that derive from them."""


class Code(Spec):
    """What the numbers of a run come from: revisions above 1 by the name of their kind, and digests of own files.

    First revisions are left out, so that a kind which is added later changes no other code.
    """

    revisions: dict[str, int | str]

    @property
    def digest(self) -> str:
        """12 hex digits that name this code."""
        return digest(self.revisions, 12)

    def changed(self, other: Code) -> list[str]:
        """Returns what has another revision in another code, such as `Rotary 2, not 1`, and own files that differ."""
        changes = []
        for name in sorted({*self.revisions, *other.revisions}):
            mine, theirs = self.revisions.get(name, 1), other.revisions.get(name, 1)
            if mine != theirs:
                is_file = isinstance(mine, str) or isinstance(theirs, str)
                changes.append(name if is_file else f"{name} {mine}, not {theirs}")
        return changes


def code_of(recipe: Recipe) -> Code:
    """Returns the code that would compute a recipe's numbers, its parents' included. Cost: 0.1 ms."""
    revisions: dict[str, int | str] = {"loop": LOOP}
    files: dict[str, list[str]] = {}
    for each in _with_parents(recipe):
        revisions |= {type(spec).__name__: type(spec).REVISION for spec in _specs(each)}
        for own in each.own_parts:
            files.setdefault(own.kind.partition(":")[0], []).append(fingerprint(own.source))
            revisions |= _named_in(own.source)
    above = {name: revision for name, revision in revisions.items() if revision != 1}
    # parents may hold other versions of a file: then one digest of all of them, in order
    return Code({**above, **{file: each[0] if len({*each}) == 1 else digest(each) for file, each in files.items()}})


def require_code(recipe: Recipe, planned: Code) -> None:
    """Refuses to train with other code than the study was planned with. Raises: LocusError with what differs."""
    if changed := code_of(recipe).changed(planned):
        raise LocusError(f"a worker must have the code of the driver, got {'; '.join(changed)}: run the study again")


def _named_in(source: str) -> dict[str, int]:
    """Returns the revisions of all kinds that a text names, by kind, class or module: it may compute with them."""
    words = {word.removesuffix("_torch") for word in re.findall(r"\w+", source)}
    kinds = [item for members in nodes().values() for item in members.items()]
    return {
        cls.__name__: cls.REVISION
        for kind, cls in kinds
        if words & {kind, cls.__name__, cls.__module__.rpartition(".")[2]}
    }


def _with_parents(recipe: Recipe) -> Iterator[Recipe]:
    yield recipe
    for other in (recipe.parent, recipe.teacher_recipe):
        if other is not None:
            yield from _with_parents(other)


def _specs(spec: Spec) -> Iterator[Spec]:
    for _, value in spec:
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Spec):
                yield item
                yield from _specs(item)
