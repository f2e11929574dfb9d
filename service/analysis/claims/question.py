"""Whether an edition still asks its study's question, so that claims and published numbers apply to it."""

from __future__ import annotations

from dataclasses import dataclass

from search_spaces.study import Edition


@dataclass(frozen=True)
class Departure:
    """Why a study's claims are not judged at an edition. `where`: "at smoke"; `why`: a clause."""

    where: str
    why: str


def departure(edition: Edition) -> Departure | None:
    """How an edition leaves its study's question; None where it does not.

    A budget with a `gap` leaves it by its own word. An edition with values of the user's own (its mark begins with
    "~") leaves it, too: any value may change the question, and nobody has said that this one does not.
    """
    if edition.mark.startswith("~"):
        return Departure("with own values", "--set changed the recipe that the claims are about")
    budget = edition.study.budgets.get(edition.budget)
    return Departure(f"at {edition.budget}", budget.gap) if budget and budget.gap else None
