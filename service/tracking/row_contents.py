"""What a row in MLflow holds: its parameters, its scores, its description in Markdown, its mean curve."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from search_spaces.roles import POINTS, Role
from search_spaces.study import Ablation, Edition, Trial
from search_spaces.words import duration, plural, setting_words, value_words, without_sources
from service.analysis.best import Best, place_key, ranked
from service.analysis.format import metric_words, spread
from service.analysis.headline import details, headline
from service.analysis.scores import diverged_seeds, scores_of, validation_scores
from service.analysis.statistics import Scores
from service.storage.facts import RunState
from service.storage.history import History
from trainables.recipe import FromTrial, Recipe
from trainables.recipe.cost import estimate_cost
from trainables.recipe.outcome import TOGETHER, at_image_size, of_ema
from trainables.spec import SpecError

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult

TRAIN_S = "time/train_s"
"""The training time up to an epoch: of a run its own, of a trial the sum over its seeds."""
DIGITS = 6
"""How many digits of a mean and of a standard deviation are shown."""


@dataclass(frozen=True)
class Point:
    """Numbers at a step. Units: `time` in seconds of the day."""

    step: int
    time: float
    values: dict[str, float]


def seed_curve(state: RunState) -> list[Point]:
    """Returns a run's curve as it was measured, with the training time up to each epoch."""
    seconds = train_s(state)
    return [
        Point(epoch, fact.time, {**fact.values, **({TRAIN_S: rounded(seconds[epoch])} if seconds else {})})
        for epoch, fact in sorted(state.curve.items())
    ]


def train_s(state: RunState) -> dict[int, float]:
    """Returns the training time of a run up to each epoch measured; empty if an epoch lacks it. Units: seconds.

    Of runs that trained as one, a run has its part of the time.
    """
    epochs = sorted(state.curve)
    values = [state.curve[epoch].values for epoch in epochs]
    if not all("time/epoch_s" in of_epoch for of_epoch in values):
        return {}
    return dict(zip(epochs, accumulate(one["time/epoch_s"] / one.get(TOGETHER, 1.0) for one in values), strict=True))


def means(history: History, trial: Trial) -> dict[str, float]:
    """Returns a trial's scores over the seeds that ended: `val/accuracy_mean`, `_n`, and `_std` from two seeds on.

    Each score is the last one of a seed; a diverged seed counts as chance. Points of a search have no test scores: the
    test set is looked at for the answer, not for the search. `time/train_s` is the sum over the seeds.
    """
    states = [state for state in map(history.state, history.runs(trial).values()) if state.answered]
    finals = [_finals(state, trial) for state in states]
    values: dict[str, float] = {}
    for name in sorted({name for of_seed in finals for name in of_seed}):
        if name.startswith("test/") and is_point(history.edition, trial):
            continue
        scores = [of_seed[name] for of_seed in finals if name in of_seed]
        values |= {f"{name}_mean": rounded(fmean(scores)), f"{name}_n": len(scores)}
        if len(scores) > 1:
            values[f"{name}_std"] = rounded(stdev(scores))
    seconds = [max(train_s(state).values(), default=0.0) for state in states]
    return values | ({TRAIN_S: rounded(sum(seconds))} if any(seconds) else {})


def _finals(state: RunState, trial: Trial) -> dict[str, float]:
    """Returns the last value of each score of a seed."""
    curve = [state.curve[epoch].values for epoch in sorted(state.curve)]
    finals = {name: value for values in curve for name, value in values.items() if name.startswith(("val/", "test/"))}
    if state.status != "diverged":
        return finals
    data, test = trial.recipe.data, trial.score.test
    scores = {trial.score.metric, test, *(at_image_size(test, side) for side in trial.recipe.test_sizes)}
    if trial.recipe.optimizer.ema_decay is not None:
        scores |= {of_ema(f"{split}/{data.reported}") for split in ("val", "test")}
    return {name: data.chance("val" if name.startswith("val/") else "test") for name in finals.keys() | scores}


def rounded(value: float) -> float:
    """Returns a number in the digits that are shown."""
    return float(f"{value:.{DIGITS}g}")


ALWAYS = ("data.kind", "model.kind", "optimizer.lr", "optimizer.epochs", "optimizer.batch_size")
"""Paths that every trial shows, so that MLflow can filter and group by them over several studies."""
LONGEST = 500
"""The greatest length of a value. Units: letters."""


def title(edition: Edition, trial: Trial) -> str:
    """Returns the name of a trial in MLflow: `#07 gamma=2.31`, an arm's name, `c7 gamma=2.31`, `t2.7 ...`, `p1 ...`."""
    if trial.role == "trial":
        return trial.name if isinstance(edition.study.plan, Ablation) else f"#{trial.number:02d} {trial.name}"
    return f"{trial.label} {trial.name}"


def role(edition: Edition, trial: Trial) -> str:
    """Returns what a trial is for: an arm, a point, a random point, a confirmation of either, tuning, or a parent."""
    names: dict[Role, str] = {"rival": "random point", "rival_confirmation": "random confirmation"}
    if trial.role == "trial":
        return "arm" if isinstance(edition.study.plan, Ablation) else "point"
    return names.get(trial.role, trial.role)


def is_point(edition: Edition, trial: Trial) -> bool:
    """Returns whether a trial is a point of a search or of a tuning: its test scores are not looked at."""
    if trial.role == "tuning":
        return True
    return trial.role in POINTS and not isinstance(edition.study.plan, Ablation)


@dataclass(frozen=True)
class TrialWords:
    """What the rows of one trial say again and again; each is made once."""

    edition: Edition
    trial: Trial

    @cached_property
    def title(self) -> str:
        """The name of the trial in MLflow."""
        return title(self.edition, self.trial)

    @cached_property
    def role(self) -> str:
        """What the trial is for."""
        return role(self.edition, self.trial)

    @cached_property
    def params(self) -> dict[str, str]:
        """Everything that tells the trial from others of its study and of its experiment."""
        edition, recipe = self.edition, self.trial.recipe
        named = {
            "trial": self.title,
            "role": self.role,
            "budget": edition.budget + edition.mark,
            "data.task": getattr(recipe.data, "task", recipe.data.kind),
        }
        weight = estimate_cost(recipe)
        counts = {"parameters": str(weight.parameters), "parameters.learnt": str(weight.learnt)}
        every = _set(recipe) | named | self.varied | {"encoding.kind": recipe.encoding.label} | counts
        return {path: value if len(value) <= LONGEST else f"{value[:LONGEST]} ..." for path, value in every.items()}

    @cached_property
    def varied(self) -> dict[str, str]:
        """What the trial has at the paths in which the trials of its study differ."""
        varied = {}
        for path in self.edition.study.paths():
            try:
                varied[path] = value_words(self.trial.recipe.get(path))
            except SpecError:  # a path of another kind's; or a model's name, for which the recipe has its numbers
                if path in self.trial.values:
                    varied[path] = value_words(self.trial.values[path])
        return varied


def _set(recipe: Recipe) -> dict[str, str]:
    """Returns what a recipe sets to another value than the default, and `ALWAYS`."""
    default = {path: value_words(value) for path, value in _leaves(Recipe().identity())}
    values = without_sources(recipe.identity())
    for node, other in (("init", recipe.init), ("teacher", recipe.teacher)):
        if node in values and "values" in values[node]:  # a whole recipe, of which what was written is enough
            written = other.values if isinstance(other, FromTrial) else getattr(other, "values", {})
            values[node] = {**values[node], "values": ", ".join(setting_words(written)) or "none"}
    shown = {path: value_words(value) for path, value in _leaves(values)}
    changed = {path: value for path, value in shown.items() if default.get(path) != value}
    return {path: value_words(recipe.get(path)) for path in ALWAYS} | changed


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields every path of plain values with its value; a list of nodes has a number for each."""
    if isinstance(value, list | tuple) and any(isinstance(item, dict) for item in value):
        value = {str(number): item for number, item in enumerate(value)}
    if not isinstance(value, dict):
        yield path, value
        return
    for name, item in value.items():
        yield from _leaves(item, f"{path}.{name}" if path else str(name))


FARTHEST = 99999.0
"""The greatest distance of a mean from 1 that the order of trials tells from others."""


def score_words(scores: Scores) -> str:
    """Returns the mean, the standard deviation, how many seeds, and how many failed.

    Empty for no score.
    """
    if not scores.n:
        return ""
    failed = f", {len(scores.failed)} failed" if scores.failed else ""
    return f"{spread(scores.mean, scores.std)} (n {scores.n}{failed})"


def test_scores(history: History, trial: Trial) -> Scores:
    """Returns the test scores of the seeds that ended, a diverged one at chance.

    A point of a search or of a tuning has none: the test set is looked at for the answer, not for the search.
    """
    if is_point(history.edition, trial):
        return Scores({}, 0)
    states = {seed: history.state(run) for seed, run in history.runs(trial).items()}
    finals = {seed: state.value(trial.score.test) for seed, state in states.items() if state.status == "completed"}
    return scores_of(trial, "test", finals, diverged_seeds(history, trial), history.answer(trial).asked)


def rank_tag(history: History, trial: Trial) -> str:
    """Returns a trial's place in letters that MLflow can sort, the best first.

    It depends on this trial alone, so no other trial's tag changes when one ends.
    """
    kind, status, minus_mean, number = place_key(history, trial)
    distance = min(1.0 + minus_mean, FARTHEST)
    return f"{kind}{status} {distance:012.6f} {number:04d}"


MOST_ROWS = 20
"""How many trials the table of a description lists."""
LONGEST_NOTE = 5000
"""The greatest length of a description: some MLflow servers store no longer tag. Units: letters."""


@dataclass(frozen=True)
class Conclusion:
    """What a study found, in words, once it has ended: its headline, a line for each claim, the sentences between."""

    headline: str = ""
    claims: tuple[str, ...] = ()
    details: tuple[str, ...] = ()

    @classmethod
    def of(cls, result: StudyResult) -> Conclusion:
        """Returns what a result says: in MLflow the same numbers as on the page."""
        return cls(headline(result), tuple(map(str, result.claims)), tuple(details(result)))


NO_CONCLUSION = Conclusion()


def study_note(history: History, best: Best, conclusion: Conclusion) -> str:
    """Returns the study: question, answer, verdicts, the trials in a table, source and expectation."""
    study = history.edition.study
    parts = [
        f"**{study.question}**",
        conclusion.headline,
        " ".join(conclusion.details),
        "\n".join(f"- {claim}" for claim in conclusion.claims),
        "\n".join(_table(history, best)),
        f"Source: {study.paper}" if study.paper else "",
        f"Expected: {study.expected}" if study.expected else "",
        "The report is the artifact report/report.html." if conclusion.headline else "",
    ]
    return cut("\n\n".join(filter(None, parts)))


def experiment_note(studies: list[tuple[str, str, str]]) -> str:
    """Returns an experiment: a link to each study's trials, then the questions. `studies`: id, question, link."""
    links = ", ".join(f"[{id}]({link})" for id, _, link in studies)
    head = f"Trials, best first: {links}. The menu Views lists all views."
    return cut("\n".join([head, "", *(f"- {id}: {question}" for id, question, _ in studies)]))


def cut(text: str) -> str:
    """Returns a text that is not too long for a tag: whole lines."""
    if len(text) <= LONGEST_NOTE:
        return text
    return text[: LONGEST_NOTE - 4].rpartition("\n")[0] + "\n..."


def _table(history: History, best: Best) -> list[str]:
    """Returns the trials in a table, the best first."""
    trials = [trial for trial in ranked(history) if history.answer(trial).values]
    if not trials:
        return []
    score = history.edition.study.score
    winners = {trial.label for trial in best.trials}
    heads = ("trial", "role", metric_words(score.metric), metric_words(score.test), "training", "")
    lines = [f"| {' | '.join(heads)} |", "|---|---|---|---|---|---|"]
    for trial in trials[:MOST_ROWS]:
        mark = ("best (tie)" if best.tied else "best") if trial.label in winners else history.answer(trial).status
        states = [history.state(run) for run in history.runs(trial).values()]
        own = "" if trial.score == score else f", {metric_words(trial.score.metric).partition(' ')[2]}"
        cells = (
            _cell(title(history.edition, trial)),
            role(history.edition, trial),
            score_words(validation_scores(history, trial)) + own,
            score_words(test_scores(history, trial)) + own,
            _time(states),
            mark,
        )
        lines.append(f"| {' | '.join(cells)} |")
    hidden = len(trials) - MOST_ROWS
    return lines + ([f"\n{plural(hidden, 'further trial')}: see the view of trials."] if hidden > 0 else [])


def _time(states: list[RunState]) -> str:
    seconds = sum(max(train_s(state).values(), default=0.0) for state in states)
    return duration(seconds) if seconds else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
