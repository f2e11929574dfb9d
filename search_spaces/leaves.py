"""A user's own values by the paths of single fields, however they are written: who asks what was given, asks this."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainables.own import carry, is_own
from trainables.spec import Spec


def leaves(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `{path: value}` with a path for each field of a node that is given whole; to put it does the same.

    Of a spec those fields count as given that differ from their defaults. A node without a kind stays whole.
    """
    carried = carry(values)
    inner_last = sorted(carried, key=lambda path: path.count("."))
    return {leaf: item for path in inner_last for leaf, item in _leaves(path, carried[path], values.get(path))}


def _leaves(path: str, plain: Any, given: Any) -> Iterator[tuple[str, Any]]:
    """Yields the fields of a plain node. `given`: the same as it was written, where that is a spec."""
    if not isinstance(plain, Mapping) or "kind" not in plain:
        yield path, plain
        return
    unsaid = _unsaid(given, plain) if isinstance(given, Spec) else set()
    for name, item in plain.items():
        if name in unsaid:
            continue
        if is_own(plain["kind"]):
            yield f"{path}.{name}", item
        else:
            yield from _leaves(f"{path}.{name}", item, getattr(given, name, None) if isinstance(given, Spec) else None)


def _unsaid(node: Spec, plain: Mapping[str, Any]) -> set[str]:
    """Returns the fields of a node that have their defaults, or follow from what was read from its path."""
    fields = type(node).model_fields.items()
    usual = {name: field.get_default(call_default_factory=True) for name, field in fields if not field.is_required()}
    default = {name for name, value in usual.items() if name != "kind" and getattr(node, name) == value}
    return default | ({*plain} - {*node.unread(plain), *node.READ})


def is_of_data(path: str) -> bool:
    """Returns whether a path is one of the images."""
    return path.partition(".")[0] == "data"
