"""What a trial is for, and what follows from it: the letters of its label, and its seeds."""

from __future__ import annotations

from typing import Literal

Role = Literal["trial", "confirmation", "rival", "rival_confirmation", "tuning", "parent"]
"""An arm or a point of a search; a point again on fresh seeds; the same two of a search's random points; a trial that
tunes an arm; a parent."""
POINTS: tuple[Role, ...] = ("trial", "rival")
"""What is searched: the sampler's own points, and the random ones that they are compared with."""
CONFIRMATIONS: tuple[Role, ...] = ("confirmation", "rival_confirmation")
"""The confirmations of these points, in the same order."""
COMPARED: tuple[Role, ...] = (*POINTS, *CONFIRMATIONS)
"""The roles of trials that settle one by one; a parent settles with its children."""
RIVALS: tuple[Role, ...] = ("rival", "rival_confirmation")
"""The random points, and their confirmations."""
CONFIRMED = 5
"""How many of a search's best points are confirmed, and how many of the random ones."""
LETTERS: dict[Role, str] = {
    "trial": "", "confirmation": "c", "rival": "r", "rival_confirmation": "rc", "tuning": "t", "parent": "p",
}  # fmt: skip
"""What a label begins with: 7, c7, r7, rc7, t2.7, p1."""
FIRST_SEEDS: dict[Role, int] = {"confirmation": 1000, "rival_confirmation": 1000, "rival": 2000, "tuning": 3000}
"""The first seed, where it is not 0. Confirmations share their seeds, so that they are paired.

Random points have seeds of their own: no run is shared with the sampler's points, whose early stopping would stop it.
So have trials that tune an arm: the arm is compared on seeds that did not choose its values.
"""
MOST_SEEDS = 1000
"""How many seeds a study may have: with more, the seeds of one role would be those of the next (`FIRST_SEEDS`)."""
MOST_TRIALS = 10_000
"""How many trials a search, or the tuning of an arm, may have; a grid is as large at most."""
SEEDS, TRIALS = f"a number of seeds from 1 to {MOST_SEEDS:,}", f"a number of trials from 1 to {MOST_TRIALS:,}"
"""The same in words."""
