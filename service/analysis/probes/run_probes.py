"""The probes of one run: what is kept of them, and how they are computed from its weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from service.storage import probe_files
from service.storage.outcomes import Answered, Outcomes, require_sound
from trainables.recipe.code_digest import CodeDigests
from trainables.recipe.findings import FURTHER_IMAGES, LOOKS, Probed
from trainables.recipe.outcome import Completed
from trainables.spec import LocusError


@dataclass(frozen=True, repr=False)
class RunProbes:
    """The probes of a completed run. `parent`: the weights that it started from, where it has a parent.

    `by_other_code`: today's code is not the one that trained it, so its initial weights cannot be made again.
    """

    outcomes: Outcomes
    answered: Answered
    parent: Path | None
    by_other_code: bool
    codes: CodeDigests

    def path(self, name: str) -> Path:
        """The file of a probe. Raises: LocusError for an unknown name."""
        if name not in LOOKS:
            raise LocusError(f"the probe must be one of {', '.join(LOOKS)}, got {name!r}")
        return self.outcomes.probe(self.answered.run.key, self.answered.name, name)

    def kept(self, name: str) -> Probed | None:
        """What the probe found, where today's code of the probe has looked at this run."""
        return probe_files.kept(self.path(name), self.codes.of_probe(name).digest)

    @property
    def further(self) -> tuple[float, ...]:
        """The scores on further draws of the test images, as far as they are kept."""
        found = self.kept(FURTHER_IMAGES)
        return () if found is None else tuple(map(float, found.after.arrays["scores"]))

    @property
    def can_be_computed(self) -> bool:
        """Whether the weights are there."""
        return self.outcomes.weights(self.answered.run.key, self.answered.name).exists()

    def __call__(self, name: str) -> Probed:
        """What the probe finds: read where it is kept, else computed from the weights, and kept. Nothing is trained.

        Raises: LocusError if the run's weights were not kept, or cannot be read.
        Cost: 0.1 to 10 s, on one thread.
        """
        known = self.kept(name)
        if known is not None:
            return known
        run, answered = self.answered.run, self.answered
        weights = self.outcomes.weights(run.key, answered.name)
        if not isinstance(answered.outcome, Completed) or not weights.exists():
            why = self.outcomes.without_weights
            raise LocusError(f"the weights of {run.key} must be kept to be probed, got none{why}")
        for used in (weights, self.parent):
            if used is not None:
                require_sound(used)
        from trainables.probes.catalog import probe_run
        from trainables.training.runtime import runtime

        unknown = "today's code is not the one that trained the run" if self.by_other_code else ""
        with runtime(1, "float64"):
            found = probe_run(name, run, weights, self.parent, self.outcomes.data, answered.environment, unknown)
        probe_files.write(self.path(name), found, self.codes.of_probe(name).digest)
        return found
