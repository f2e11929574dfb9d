"""Computes the probes that a study names, and scores on further test images, for the runs that lack them.

Nothing is trained.
"""

from __future__ import annotations

from collections.abc import Callable

from search_spaces.words import plural
from service.analysis.probes.run_probes import RunProbes
from service.analysis.study_result import StudyResult
from service.analysis.trial_result import TrialResult
from trainables.recipe.findings import TEST_DRAWS
from trainables.spec import LocusError


def compute_probes(result: StudyResult, note: Callable[[str], None], stopped: Callable[[], bool]) -> None:
    """Computes what is not kept, run by run, until all is there or a person stops it.

    `note` is called with a sentence before the first one, and for each probe that fails: the others go on, and the
    report says what is missing. Where torch is not installed, nothing is computed.
    """
    named = result.edition.study.probes
    wanted: list[tuple[TrialResult, int, RunProbes, str]] = [
        (row, seed, run, name) for row in result.probed for seed, run in row.probes.items() for name in named
    ]
    wanted += [
        (row, seed, run, TEST_DRAWS)
        for row in result.drawn_again
        for seed, run in row.probes.items()
        if run.can_be_computed
    ]
    missing = [one for one in wanted if one[2].kept(one[3]) is None]
    probes = sum(name != TEST_DRAWS for _, _, _, name in missing)
    if probes:
        runs = sum(len(row.probes) for row in result.probed)
        note(f"probes: {plural(probes, 'probe')} of {plural(runs, 'run')} to compute")
    if models := len(missing) - probes:
        note(f"testing {plural(models, 'model')} on further draws of the test images")
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
            what = "test on further images" if name == TEST_DRAWS else f"probe {name}"
            note(f"the {what} of {row.name}, seed {seed}, failed: {said}")
