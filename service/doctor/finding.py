"""What an examination found."""

from __future__ import annotations

from typing import Literal

from trainables.spec import Spec

State = Literal["ok", "look", "wrong"]
"""`look`: studies run, but perhaps not as their user expects."""


class Finding(Spec):
    """One thing that was examined. `do`: what to do about it; empty where nothing is to be done."""

    name: str
    state: State
    detail: str
    do: str = ""
