"""The descriptions of a study's MLflow runs and of its experiment, in Markdown."""

from __future__ import annotations

from dataclasses import dataclass

from search_spaces.study import Edition, Trial
from search_spaces.words import duration, plural
from service.analysis.best import Best, ranked
from service.analysis.format import metric_words
from service.analysis.trial_scores import validation_scores
from service.storage.history import History
from service.storage.states import RunState
from service.tracking.mean_curve import train_s
from service.tracking.params import role, title, varied
from service.tracking.scores import score_words, test_scores
from trainables.recipe import Run

MOST_ROWS = 20
"""How many trials the table of a description lists."""
LONGEST = 5000
"""The greatest length of a description: some MLflow servers store no longer tag. Units: letters."""


@dataclass(frozen=True)
class Conclusion:
    """What a study found, in words, once it has ended: its headline, and a line for each claim."""

    headline: str = ""
    claims: tuple[str, ...] = ()


NO_CONCLUSION = Conclusion()


def study_note(history: History, best: Best, conclusion: Conclusion) -> str:
    """The study: question, answer, verdicts, the trials in a table, source and expectation."""
    study = history.edition.study
    parts = [
        f"**{study.question}**",
        conclusion.headline,
        "\n".join(f"- {claim}" for claim in conclusion.claims),
        "\n".join(_table(history, best)),
        f"Source: {study.paper}" if study.paper else "",
        f"Expected: {study.expected}" if study.expected else "",
        "The report is the artifact report/report.html." if conclusion.headline else "",
    ]
    return cut("\n\n".join(filter(None, parts)))


def trial_note(history: History, trial: Trial, reason: str) -> str:
    """A trial: what it is, its values, and why it did not end as asked."""
    seeds = plural(history.answer(trial).asked, "seed")
    head = f"{role(history.edition, trial).capitalize()} **{title(history.edition, trial)}** of {history.edition.id}"
    return _note(history.edition, trial, f"{head}: {seeds}.", reason)


def run_note(history: History, trial: Trial, run: Run, reason: str) -> str:
    """A run: its trial, values and seed, why it did not complete, and where its weights lie."""
    head = f"**{title(history.edition, trial)}**, seed {run.seed}, of {history.edition.id}."
    kept = "weights" in history.edition.study.keep or trial.role == "parent"
    weights = ""
    if kept and history.state(run).status == "completed":
        weights = f"Weights: `outcomes/{run.key}/{history.code(run)}.pt` in the home of the study."
    return _note(history.edition, trial, head, reason, weights)


def experiment_note(studies: list[tuple[str, str, str]]) -> str:
    """An experiment: a link to each study's trials, then the questions. `studies`: id, question, link."""
    links = ", ".join(f"[{id}]({link})" for id, _, link in studies)
    head = f"Trials, best first: {links}. The menu Views lists all views."
    return cut("\n".join([head, "", *(f"- {id}: {question}" for id, question, _ in studies)]))


def cut(text: str) -> str:
    """A text that is not too long for a tag: whole lines."""
    if len(text) <= LONGEST:
        return text
    return text[: LONGEST - 4].rpartition("\n")[0] + "\n..."


def _note(edition: Edition, trial: Trial, head: str, reason: str, more: str = "") -> str:
    values = [f"- {path} = {_cell(value)}" for path, value in varied(edition, trial).items()]
    return cut("\n\n".join(filter(None, (head, "\n".join(values), f"Why: {reason}" if reason else "", more))))


def _table(history: History, best: Best) -> list[str]:
    """The trials in a table, the best first."""
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
        cells = (
            _cell(title(history.edition, trial)),
            role(history.edition, trial),
            score_words(validation_scores(history, trial)),
            score_words(test_scores(history, trial)),
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
