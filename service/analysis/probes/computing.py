"""Computes the probes that a study names, for the runs that lack them. Nothing is trained."""

from __future__ import annotations

from collections.abc import Callable

from search_spaces.words import plural
from service.analysis.study_result import StudyResult
from trainables.spec import LocusError


def compute_probes(result: StudyResult, note: Callable[[str], None], stopped: Callable[[], bool]) -> None:
    """Computes what is not kept, run by run, until all is there or a person stops it.

    `note` is called with a sentence before the first one, and for each probe that fails: the others go on, and the
    report says what is missing. Where torch is not installed, nothing is computed.
    """
    names = result.edition.study.probes
    runs = [(row, seed, run) for row in result.probed for seed, run in row.probes.items()]
    missing = [(row, seed, run, name) for row, seed, run in runs for name in names if run.kept(name) is None]
    if not missing:
        return
    note(f"probes: {plural(len(missing), 'probe')} of {plural(len(runs), 'run')} to compute")
    for row, seed, run, name in missing:
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
