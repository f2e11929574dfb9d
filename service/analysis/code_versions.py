"""Two code versions of one study: the answers of each lie among the outcomes, under the digest of their code.

Trials of one study have different code, because each uses its own encoding. So a version is what some files were: an
answer belongs to it where all files that both know are the same. To name a version, the beginning of the digest of one
answer is enough, or that of a commit; `today` is the code of this checkout.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from search_spaces.study import Ablation, Trial
from search_spaces.words import listed, plural, quoted
from service.analysis.comparison import Contender, Side, arm_place, point_place
from service.analysis.scores import scores_of
from service.analysis.statistics import Scores
from service.storage.outcomes import Answered, Outcomes
from trainables.recipe import Run
from trainables.recipe.code_digest import PARENT, CodeDigests
from trainables.recipe.outcome import Completed
from trainables.spec import LocusError

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult

TODAY = "today"
SHOWN = 8
"""How many codes an error names."""
FEWEST_DIGITS = 4
"""How many digits of a digest or a commit name it."""
Files = Mapping[str, str]
Known = dict[str, list[Answered]]
"""Every answer of a study by the key of its run, whatever its code, the newest last."""


def versions(result: StudyResult, names: tuple[str, str]) -> tuple[Side, Side]:
    """Returns the two sides of a comparison of a study's code versions.

    Raises: LocusError for a name that no answer of the study has.
    """
    trials, outcomes = _compared(result), Outcomes(result.home)
    runs = [run for trial in trials for run in result.history.runs(trial).values()]
    known = {run.key: outcomes.of(run.key) for run in runs}
    side, other = (_version(result, trials, known, name) for name in names)
    return side, other


def _compared(result: StudyResult) -> list[Trial]:
    """Returns the trials that are compared: the arms, or the confirmed points that count, as in the study's report."""
    history, ablation = result.history, isinstance(result.edition.study.plan, Ablation)
    return history.of("trial") if ablation else history.confirmations("confirmation")


def known_codes(result: StudyResult) -> str:
    """Returns the codes of the answers that are compared in words, so that one can be named."""
    trials: dict[str, set[str]] = {}
    last: dict[str, float] = {}
    outcomes = Outcomes(result.home)
    for trial in _compared(result):
        for run in result.history.runs(trial).values():
            for answered in outcomes.of(run.key):
                code = answered.code.digest
                trials.setdefault(code, set()).add(trial.name)
                last[code] = max(last.get(code, 0.0), answered.ended)
    order = sorted(trials, key=lambda code: last[code])[-SHOWN:]
    words = [f"{code[:7]} ({plural(len(trials[code]), 'trial')}, {_day(last[code])})" for code in order]
    return "; ".join(words) or "none"


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%-d %B %Y")


def _version(result: StudyResult, trials: list[Trial], known: Known, name: str) -> Side:
    version = _named(result, known, name)
    contenders, lacking, several = [], [], []
    for trial in trials:
        runs = result.history.runs(trial)
        fitting = {seed: version.fitting(run, known[run.key]) for seed, run in runs.items()}
        chosen = {seed: version.nearest(answers) for seed, answers in fitting.items() if answers}
        place = arm_place(trial) if trial.role == "trial" else point_place(trial)
        contenders.append(Contender(place, trial.name, trial, _scores(trial, chosen, len(runs)), chosen))
        lacking += [] if len(chosen) == len(runs) else [quoted(trial.name)]
        many = any(len({answer.code.digest for answer in answers}) > 1 for answers in fitting.values())
        several += [quoted(trial.name)] if many else []
    remarks = [f"code {name} lacks answers of {listed(lacking)}"] if lacking else []
    if several:
        remarks.append(f"several codes of {listed(several)} fit code {name}; the answers nearest in time were taken")
    label = f"{result.edition.id}, code {name}"
    return Side(label, result.edition, tuple(contenders), tuple(remarks), result.history.looks)


class _Version:
    """A state of some files. `moment`: when its answers ended; `codes`: today's code, where that is meant."""

    def __init__(self, files: Files, moment: float, codes: CodeDigests | None = None) -> None:
        self.files, self.moment, self.codes = files, moment, codes

    def fitting(self, run: Run, answers: list[Answered]) -> list[Answered]:
        """Returns the answers of a run that may be of this version, in the order given."""
        if self.codes is not None:  # today's code is known whole: an answer of it has its very digest
            return [answer for answer in answers if answer.name == self.codes(run.recipe).digest]
        return [answer for answer in answers if _agree(answer.code.files, self.files)]

    def nearest(self, answers: list[Answered]) -> Answered:
        """Returns the answer that ended nearest to the others of this version; of equally near ones the later one."""
        return min(reversed(answers), key=lambda answer: abs(answer.ended - self.moment))


def _agree(files: Files, other: Files) -> bool:
    known = {name: digest for name, digest in files.items() if name in other or name.startswith(PARENT)}
    return known.items() <= other.items()


def _named(result: StudyResult, known: Known, name: str) -> _Version:
    """Returns the version that a name means: the files of all answers that have it."""
    if name == TODAY:
        return _Version({}, math.inf, CodeDigests())
    answers = [answer for of_run in known.values() for answer in of_run]
    digests = {answer.code.digest for answer in answers if answer.code.digest.startswith(name)}
    meant = [answer for answer in answers if answer.code.digest in digests]
    if not meant:
        meant = [answer for answer in answers if str(answer.environment.get("commit", "")).rstrip("+").startswith(name)]
    if len(name) < FEWEST_DIGITS or not meant or len(digests) > 1:
        got = f"{name!r}, which {plural(len(digests), 'code')} begin with" if len(digests) > 1 else repr(name)
        raise LocusError(
            f"code must be {TODAY!r}, or {FEWEST_DIGITS} or more digits with which one code or commit of "
            f"{result.edition.id} begins, got {got}; known: {known_codes(result)}"
        )
    meant.sort(key=lambda answer: answer.ended)
    files = {file: digest for answer in meant for file, digest in answer.code.files.items()}
    return _Version(files, meant[-1].ended)


def _scores(trial: Trial, answers: Mapping[int, Answered], asked: int) -> Scores:
    """Returns the test scores of some answers by seed, a diverged one at chance."""
    done = {seed: answer.outcome for seed, answer in answers.items() if isinstance(answer.outcome, Completed)}
    finals = {seed: outcome.final.get(trial.score.test) for seed, outcome in done.items()}
    return scores_of(trial, "test", finals, frozenset(answers.keys() - done.keys()), asked)
