"""Computes the probes that a study names, and scores on further test images, for the runs that lack them.

Nothing is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from search_spaces.words import plural
from service.analysis.probes.run_probes import RunProbes
from service.analysis.study_result import StudyResult
from service.analysis.trial_result import TrialResult
from trainables.recipe.findings import FURTHER_IMAGES
from trainables.spec import LocusError


def compute_probes(result: StudyResult, note: Callable[[str], None], stopped: Callable[[], bool]) -> None:
    """Computes what is not kept, run by run, until all is there or a person stops it.

    `note` is called with a sentence before the first one, and for each probe that fails: the others go on, and the
    report says what is missing. If torch is not installed, nothing is computed.
    """
    named = result.edition.study.probes
    probes = _missing(result.probed, named, lambda run: True)
    models = _missing(result.drawn_again, (FURTHER_IMAGES,), lambda run: run.can_be_computed)
    if probes:
        runs = sum(len(row.probes) for row in result.probed)
        note(f"probes: {plural(len(probes), 'probe')} of {plural(runs, 'run')} to compute")
    if models:
        note(f"testing {plural(len(models), 'model')} on further draws of the test images")
    for row, seed, run, name in [*probes, *models]:
        if stopped():
            return
        try:
            run(name)
        except ModuleNotFoundError as error:
            note(f"probes need {error.name}, which is not installed here")
            return
        except Exception as error:  # the study has its answers, which no probe may take from it
            said = str(error) if isinstance(error, LocusError) else f"{type(error).__name__}: {error}"
            note(f"the probe {name} of {row.name}, seed {seed}, failed: {said}")


def _missing(
    rows: Iterable[TrialResult], names: tuple[str, ...], wanted: Callable[[RunProbes], bool]
) -> list[tuple[TrialResult, int, RunProbes, str]]:
    """What is not kept of these probes: row, seed, run and name."""
    runs = ((row, seed, run) for row in rows for seed, run in row.probes.items() if wanted(run))
    return [(row, seed, run, name) for row, seed, run in runs for name in names if run.kept(name) is None]
