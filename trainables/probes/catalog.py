"""The probes by name, and all that one finds in a run: before its first step, and after its last."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from trainables.probes.inputs.arrays import ProbeError
from trainables.probes.inputs.subject import Subject, initial, trained
from trainables.recipe import Run
from trainables.recipe.findings import LOOKS, PROBES, Findings, Probed
from trainables.spec import LocusError

BUILDING = threading.Lock()
"""One model is built at a time: timm and a user's modules draw from generators that all threads share."""


def probe_of(name: str) -> Callable[[Subject], Findings]:
    """Returns the function `probe` of the file of a name. Raises: ProbeError for an unknown name."""
    if name not in LOOKS:
        raise ProbeError(f"the probe must be one of {', '.join(LOOKS)}, got {name!r}")
    probe: Callable[[Subject], Findings] = import_module(f"trainables.probes.{name}").probe
    return probe


def probe_run(
    name: str, run: Run, weights: Path, parent: Path | None, data: Path | None, environment: Mapping[str, Any]
) -> Probed:
    """Returns what a probe finds in a run's model at its initial weights, and at the weights that were kept.

    `parent`: the weights that the run started from, where it has a parent. `data`: the folder of all data.
    `environment`: of the run's answer.
    Raises: LocusError if the kept weights, or the data, cannot be read.
    """
    probe = probe_of(name)
    with BUILDING:
        subject = trained(run, weights, data)
    after = probe(subject)
    if name not in PROBES:
        return Probed(Findings(note="test images are for trained models"), after)
    try:
        return Probed(probe(initial(run, parent, data, environment)), after)
    except LocusError as error:
        return Probed(Findings(note=f"the initial weights cannot be made again: {error}"), after)
