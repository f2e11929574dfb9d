"""Whether an edition still asks its study's question, so that claims and published numbers apply to it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from search_spaces.study import Edition
from search_spaces.words import listed
from service.storage.history import History


@dataclass(frozen=True)
class Departure:
    """Why a study's claims are not judged at an edition. `where`: "at smoke"; `why`: a clause.

    `told`: what the tests find here is said all the same: with values of their own, users ask how the claims fare.
    """

    where: str
    why: str
    told: bool = False

    @property
    def sentence(self) -> str:
        """`why` as a sentence; a path keeps its small letter."""
        first = self.why.partition(" ")[0]
        start = self.why[:1] if "." in first else self.why[:1].upper()
        return f"{start}{self.why[1:]}."


def departure(edition: Edition) -> Departure | None:
    """How an edition leaves its study's question; None where it does not.

    A budget with a `gap` leaves it, for the reason in its text. An edition with values of the user's own leaves it,
    too: any value may change the question, and no study lists values that do not.
    """
    budget = edition.study.budgets.get(edition.budget)
    own, gap = _own_words(edition), budget.gap if budget else ""
    if gap:
        return Departure(f"at {edition.budget}", f"{gap}; and {own}" if own else gap)
    return Departure("with own values", own, told=True) if own else None


def _own_words(edition: Edition) -> str:
    own = [path for path in edition.own_paths if not path.endswith(".source")]
    if not own:
        return ""
    named = listed(own) if len(own) <= 2 else f"{own[0]} and {len(own) - 1} more"
    return f"{named} {'differs' if len(own) == 1 else 'differ'} from the study's values"


def written_words(history: History) -> str:
    """Whether the claims were written before the runs, in a sentence; empty where the journal does not say."""
    known, begun = history.claims_since, history.begun
    if not known or begun is None:
        return ""
    since = known.get(history.edition.claims_digest)
    if since is None:
        return "These claims were written after the last run."
    if since <= begun:
        return "These claims were written before the first run."
    day = datetime.fromtimestamp(since, UTC).strftime("%-d %B %Y")
    return f"These claims were written, or changed, on {day}, after the first run."
