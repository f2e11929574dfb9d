"""Computes what MLflow should show of a study: rows at three levels, from its history.

This file does not use MLflow: a `Row` describes one MLflow run, and `store.py` writes it. The study's row is the parent
of the rows of its trials, and a trial's row that of its runs. A trial is a search's point, an arm, a confirmation
(`c7`), a parent whose weights other runs need (`p1`), or one that tunes an arm (`t2.7`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, Literal

from search_spaces.roles import POINTS, Role
from search_spaces.study import Edition, Trial
from search_spaces.words import duration, listed, plural, quoted, setting_words, value_words, without_sources
from service.analysis.best import Best, find_best, one_of, place_key, ranked
from service.analysis.format import TRIAL_COLORS, metric_words, raced_words, spread, stopped_words
from service.analysis.headline import details, headline
from service.analysis.scores import diverged_seeds, scores_of, validation_scores
from service.analysis.statistics import Scores
from service.planning.forecast import planned_runs
from service.storage.facts import RunState
from service.storage.history import History
from trainables.recipe import FromTrial, Recipe, Run
from trainables.recipe.cost import estimate_cost
from trainables.recipe.outcome import TOGETHER, at_image_size, of_ema
from trainables.spec import SpecError

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult

MlflowStatus = Literal["RUNNING", "FINISHED", "FAILED", "SCHEDULED"]
"""MLflow's words. `SCHEDULED` means that the study was stopped, and that the same command goes on with it."""
RunId = tuple[str, str, int | None]
"""The id of a row within its study: its level (study, trial or run), the label of its trial, and its seed."""
STUDY: RunId = ("study", "", None)
OUTCOMES: dict[MlflowStatus, str] = {
    "RUNNING": "running", "FINISHED": "completed", "FAILED": "failed", "SCHEDULED": "stopped, continues",
}  # fmt: skip
"""The outcome shown for a study, and for trials and runs that have not ended, by MLflow's status of the study."""
KEY, CODE, AGAIN = "locus.key", "locus.code", "locus.trained_again"
"""The tags for a run's key, for the code that gave a row's numbers, and for the number of times its answer was lost."""
TRAIN_S = "time/train_s"
"""The metric of the training time up to an epoch, in seconds; for a trial, the sum over its seeds."""
LONGEST, LONGEST_NOTE, MOST_ROWS = 500, 5000, 20
"""The most letters of a value and of a description, as some MLflow servers store no longer tag; the most trials in the
table of a description."""


@dataclass(frozen=True)
class Point:
    """The values of some metrics at a step: for a run, an epoch. Units: `time` in seconds since 1970."""

    step: int
    time: float
    values: dict[str, float]


@dataclass(frozen=True)
class Row:
    """The content that one MLflow run should have.

    `points` are the epochs of a run, each written once. `values` are the last numbers of a study or a trial; those that
    changed are written at the point's step. `begun` is the time at which the row's first run began, `last` that of its
    latest fact. Units: `begun` and `last` in seconds since 1970.
    """

    id: RunId
    name: str
    status: MlflowStatus
    params: dict[str, str]
    tags: dict[str, str]
    begun: float
    last: float
    points: tuple[Point, ...] = ()
    values: Point | None = None
    parent: RunId | None = STUDY


@dataclass(frozen=True)
class Conclusion:
    """The result of a study that has ended, in words: its headline, a line for each claim, and further sentences."""

    headline: str = ""
    claims: tuple[str, ...] = ()
    details: tuple[str, ...] = ()

    @classmethod
    def of(cls, result: StudyResult) -> Conclusion:
        """Returns the words for a result; they have the same numbers as the report's page."""
        return cls(headline(result), tuple(map(str, result.claims)), tuple(details(result)))


NO_CONCLUSION = Conclusion()


def rows(
    history: History,
    ended: MlflowStatus,
    best: Best | None = None,
    contents: dict[str, TrialContent] | None = None,
    is_news: Callable[[Run], bool] = lambda run: True,
    marks: Collection[str] = (),
) -> Iterator[Row]:
    """Yields the study's row, then each trial with news, followed by its runs with news; by default, every row.

    Args:
        history: the study's history.
        ended: MLflow's status of the study.
        best: the best trials, if the caller knows them.
        contents: the contents of trials by label, which the function fills; keep it from call to call.
        is_news: returns whether a run has news.
        marks: the labels of trials that have news, too.
    """
    best, contents = best or find_best(history), {} if contents is None else contents
    yield study_row(history, ended, best=best)
    for trial in history.trials:
        runs = _begun(history, trial)
        news = [run for run in runs if is_news(run)]
        if news or (runs and trial.label in marks):
            if trial.label not in contents:
                contents[trial.label] = trial_content(history.edition, trial)
            content = contents[trial.label]
            yield trial_row(history, content, best, ended)
            yield from (run_row(history, content, run, ended) for run in news)


def _begun(history: History, trial: Trial) -> list[Run]:
    """Returns the runs of a trial that were started, or whose answer was stored already."""
    return [run for run in history.runs(trial).values() if history.state(run).was_run]


def study_row(
    history: History, ended: MlflowStatus, conclusion: Conclusion = NO_CONCLUSION, best: Best | None = None
) -> Row:
    """Returns the study's own row, with its progress and the best trial's numbers."""
    edition, last, best = history.edition, history.last or 0.0, best or find_best(history)
    runs = [run for trial in history.trials for run in history.runs(trial).values()]
    began = min((state.begun for state in history.states.values() if state.begun), default=last)
    answered = {run.key for run in runs if history.state(run).answered and history.state(run).was_run}
    values: dict[str, float] = {
        "progress/runs": len(answered),
        "progress/asked": max(planned_runs(history), len(answered)),
        "progress/trials": sum(history.answer(trial).status != "open" for trial in history.of("trial")),
    }
    best_words = ""
    if best.trials:
        titles = [title(edition, trial) for trial in best.trials]
        best_words = f"tie: {listed([*map(quoted, titles)])}" if best.tied else titles[0]
        winner = one_of(best.trials, lambda tied: test_scores(history, tied))
        values |= {f"best/{name}": value for name, value in means(history, winner).items()} if winner else {}
    tags = {
        "locus.study": edition.id,
        "locus.level": "study",
        "locus.seeds": str(history.seeds),
        "locus.trials": str(history.trial_count or len(history.of("trial"))),
        "locus.family": edition.study.family,
        "locus.outcome": OUTCOMES[ended],
        "locus.headline": conclusion.headline,
        "locus.claims": "; ".join(conclusion.claims),
        "locus.best": best_words,
        "mlflow.note.content": study_note(history, best, conclusion),
    }
    return Row(
        STUDY, edition.id, ended, {"budget": edition.budget}, tags, began, last,
        values=Point(round(last - began), last, values), parent=None,
    )  # fmt: skip


def trial_row(history: History, content: TrialContent, best: Best, ended: MlflowStatus = "RUNNING") -> Row:
    """Returns the row of a trial, with means over its seeds once these have ended. `best` is the study's best."""
    trial, answer = content.trial, history.answer(content.trial)
    runs = _begun(history, trial)
    states = [history.state(run) for run in runs]
    is_whole = answer.status != "open" or ended == "FINISHED"
    reason = next(filter(None, map(_reason, states)), "")
    if answer.raced:
        reason = raced_words(len(answer.values), answer.asked, answer.cutoff or 0.0)
    # in letters that MLflow can sort, the best first; of this trial alone, so no other tag changes when one ends
    kind, status, minus_mean, number = place_key(history, trial, answer)
    distance = min(1.0 + minus_mean, 99999.0)  # from a mean of 1; means that are farther away count as equal
    is_best = content.label in [winner.label for winner in best.trials]
    tags = content.tags | {
        "locus.level": "trial",
        "locus.outcome": answer.status if is_whole else OUTCOMES[ended],
        "locus.seeds": str(answer.asked),
        CODE: history.code(runs[0]),
        "locus.rank": f"{kind}{status} {distance:012.6f} {number:04d}",
        "locus.reason": reason,
        "locus.best": ("best (tie)" if best.tied else "best") if is_best else "",
        "locus.score": score_words(validation_scores(history, trial, answer)) if is_whole else "",
        "locus.test": score_words(test_scores(history, trial)) if is_whole else "",
    }
    last = max(state.last or 0.0 for state in states)
    return Row(
        ("trial", content.label, None), content.title, "FINISHED" if is_whole else ended, content.params, tags,
        min(state.begun or state.last or 0.0 for state in states), last,
        values=Point(len(answer.values), last, means(history, trial)) if is_whole else None,
    )  # fmt: skip


def run_row(history: History, content: TrialContent, run: Run, ended: MlflowStatus = "RUNNING") -> Row:
    """Returns the row of a run, with the values of each epoch as they were measured."""
    title, state = content.title, history.state(run)
    status: MlflowStatus = "FAILED" if state.status == "failed" else "FINISHED"
    tags = content.tags | {
        "locus.level": "run",
        "locus.seed": str(run.seed),
        KEY: run.key,
        CODE: history.code(run),
        "locus.outcome": OUTCOMES[ended] if state.status == "running" else state.status,
        "locus.reused": "true" if state.reused else "",
        "locus.reason": _reason(state),
        AGAIN: str(state.lost or ""),
    }
    short = title if title == content.trial.name else title.split(" ", 1)[0]
    return Row(
        ("run", content.label, run.seed),
        f"{short} seed {run.seed}",
        ended if state.status == "running" else status,
        content.params | {"seed": str(run.seed)},
        tags,
        state.begun or min((fact.time for fact in state.curve.values()), default=state.last or 0.0),
        state.last or 0.0,
        tuple(seed_curve(state)),
        parent=("trial", content.label, None),
    )


def _reason(state: RunState) -> str:
    """Returns, in words, why a run failed, was stopped or diverged; empty for other runs."""
    match state.status:
        case "failed":
            return state.reason
        case "stopped":
            return stopped_words(state.epoch, state.cutoff or 0.0)
        case "diverged":
            return f"diverged after epoch {state.epoch}; counts as chance"
        case _:
            return ""


@dataclass(frozen=True)
class TrialContent:
    """The parts that all rows of one trial share; they are computed once."""

    trial: Trial
    label: str
    title: str
    params: dict[str, str]
    tags: dict[str, str]


def trial_content(edition: Edition, trial: Trial) -> TrialContent:
    """Returns the names, params and tags by which MLflow tells a trial from others of its study and experiment."""
    recipe, trial_title, trial_role = trial.recipe, title(edition, trial), role(edition, trial)
    defaults = {path: value_words(value) for path, value in _leaves(Recipe().identity())}
    identity = without_sources(recipe.identity())
    for node, other in (("init", recipe.init), ("teacher", recipe.teacher)):
        if node in identity and "values" in identity[node]:  # a whole recipe, of which what was written is enough
            written = other.values if isinstance(other, FromTrial) else getattr(other, "values", {})
            identity[node] = {**identity[node], "values": ", ".join(setting_words(written)) or "none"}
    texts = {path: value_words(value) for path, value in _leaves(identity)}
    # paths that every trial shows, so that MLflow can filter and group by them over several studies
    paths = ("data.kind", "model.kind", "optimizer.lr", "optimizer.epochs", "optimizer.batch_size")
    params = {path: value_words(recipe.get(path)) for path in paths}
    params |= {path: text for path, text in texts.items() if defaults.get(path) != text}

    params |= {"trial": trial_title, "role": trial_role, "budget": edition.budget + edition.mark}
    params |= {"data.task": getattr(recipe.data, "task", recipe.data.kind)}
    for path in edition.study.paths():
        try:
            params[path] = value_words(recipe.get(path))
        except SpecError:  # a path of another kind's; or a model's name, for which the recipe has its numbers
            if path in trial.values:
                params[path] = value_words(trial.values[path])
    cost = estimate_cost(recipe)
    params |= {"encoding.kind": recipe.encoding.label}
    params |= {"parameters": str(cost.parameters), "parameters.learnt": str(cost.learnt)}
    params = {path: text if len(text) <= LONGEST else f"{text[:LONGEST]} ..." for path, text in params.items()}

    color = TRIAL_COLORS[(trial.tunes[1] if trial.tunes else trial.number) % len(TRIAL_COLORS)]
    tags = {"locus.study": edition.id, "locus.number": trial.label, "locus.role": trial_role, "mlflow.runColor": color}
    return TrialContent(trial, trial.label, trial_title, params, tags)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the path and the value of every leaf of nested values; in the path, a list's nodes are numbered."""
    if isinstance(value, list | tuple) and any(isinstance(item, dict) for item in value):
        value = {str(number): item for number, item in enumerate(value)}
    if not isinstance(value, dict):
        yield path, value
        return
    for name, item in value.items():
        yield from _leaves(item, f"{path}.{name}" if path else str(name))


def title(edition: Edition, trial: Trial) -> str:
    """Returns the name of a trial in MLflow: `#07 gamma=2.31`, an arm's name, `c7 gamma=2.31`, `t2.7 ...`, `p1 ...`."""
    if trial.role == "trial":
        return trial.name if edition.study.plan.arms else f"#{trial.number:02d} {trial.name}"
    return f"{trial.label} {trial.name}"


def role(edition: Edition, trial: Trial) -> str:
    """Returns the role of a trial in MLflow's words, such as `arm`, `point`, `random point` or `confirmation`."""
    names: dict[Role, str] = {"rival": "random point", "rival_confirmation": "random confirmation"}
    if trial.role == "trial":
        return edition.study.plan.noun
    return names.get(trial.role, trial.role)


def _is_point(edition: Edition, trial: Trial) -> bool:
    """Returns whether a trial is a point. Its test scores are not shown, as a search must not use the test set."""
    return trial.role == "tuning" or (trial.role in POINTS and not edition.study.plan.arms)


def seed_curve(state: RunState) -> list[Point]:
    """Returns the values of a run at each measured epoch, with the training time up to it."""
    seconds = _train_s(state)
    return [
        Point(epoch, fact.time, {**fact.values, **({TRAIN_S: _rounded(seconds[epoch])} if seconds else {})})
        for epoch, fact in sorted(state.curve.items())
    ]


def _train_s(state: RunState) -> dict[int, float]:
    """Returns the training time of a run up to each measured epoch; empty if it is unknown. Units: seconds."""
    epochs = sorted(state.curve)
    values = [state.curve[epoch].values for epoch in epochs]
    if any("time/epoch_s" not in of_epoch for of_epoch in values):
        return {}
    # of runs that trained as one, a run has its part of the time
    seconds = (of_epoch["time/epoch_s"] / of_epoch.get(TOGETHER, 1.0) for of_epoch in values)
    return dict(zip(epochs, accumulate(seconds), strict=True))


def _rounded(value: float) -> float:
    """Returns a number rounded to the six digits that are shown."""
    return float(f"{value:.6g}")


def means(history: History, trial: Trial) -> dict[str, float]:
    """Returns a trial's scores over the seeds that ended: `val/accuracy_mean`, `_n`, and `_std` from two seeds on.

    Each score is the last one of a seed; a diverged seed counts as chance. Points of a search have no test scores.
    `time/train_s` is the sum over the seeds.
    """
    states = [state for state in map(history.state, history.runs(trial).values()) if state.answered]
    data, test, finals = trial.recipe.data, trial.score.test, []
    for state in states:
        curve = [state.curve[epoch].values for epoch in sorted(state.curve)]
        final = {
            name: value for values in curve for name, value in values.items() if name.startswith(("val/", "test/"))
        }
        if state.status == "diverged":
            names = {trial.score.metric, test, *(at_image_size(test, side) for side in trial.recipe.test_sizes)}
            if trial.recipe.optimizer.ema_decay is not None:
                names |= {of_ema(f"{split}/{data.reported}") for split in ("val", "test")}
            final = {name: data.chance("val" if name.startswith("val/") else "test") for name in final.keys() | names}
        finals.append(final)

    values: dict[str, float] = {}
    for name in sorted({name for final in finals for name in final}):
        if name.startswith("test/") and _is_point(history.edition, trial):
            continue
        scores = [final[name] for final in finals if name in final]
        values |= {f"{name}_mean": _rounded(fmean(scores)), f"{name}_n": len(scores)}
        if len(scores) > 1:
            values[f"{name}_std"] = _rounded(stdev(scores))
    seconds = [max(_train_s(state).values(), default=0.0) for state in states]
    return values | ({TRAIN_S: _rounded(sum(seconds))} if any(seconds) else {})


def test_scores(history: History, trial: Trial) -> Scores:
    """Returns the test scores of a trial's seeds that ended; a diverged seed counts as chance, and a point has none."""
    if _is_point(history.edition, trial):
        return Scores({}, 0)
    states = {seed: history.state(run) for seed, run in history.runs(trial).items()}
    finals = {seed: state.value(trial.score.test) for seed, state in states.items() if state.status == "completed"}
    return scores_of(trial, "test", finals, diverged_seeds(history, trial), history.answer(trial).asked)


def score_words(scores: Scores) -> str:
    """Returns, as text, the mean, the deviation, and the numbers of seeds and of failed seeds; empty without scores."""
    if not scores.n:
        return ""
    failed = f", {len(scores.failed)} failed" if scores.failed else ""
    return f"{spread(scores.mean, scores.std)} (n {scores.n}{failed})"


def study_note(history: History, best: Best, conclusion: Conclusion) -> str:
    """Returns the study's description: question, answer, verdicts, trials (the best first), source, expectation."""
    edition, study, lines = history.edition, history.edition.study, list[str]()
    trials = [trial for trial in ranked(history) if history.answer(trial).values]
    if trials:
        heads = ("trial", "role", metric_words(study.score.metric), metric_words(study.score.test), "training", "")
        lines = [f"| {' | '.join(heads)} |", "|---|---|---|---|---|---|"]
    winners = {trial.label for trial in best.trials}
    for trial in trials[:MOST_ROWS]:
        mark = ("best (tie)" if best.tied else "best") if trial.label in winners else history.answer(trial).status
        states = [history.state(run) for run in history.runs(trial).values()]
        seconds = sum(max(_train_s(state).values(), default=0.0) for state in states)
        metric = "" if trial.score == study.score else f", {metric_words(trial.score.metric).partition(' ')[2]}"
        cells = (
            title(edition, trial).replace("|", "\\|").replace("\n", " "),
            role(edition, trial),
            score_words(validation_scores(history, trial)) + metric,
            score_words(test_scores(history, trial)) + metric,
            duration(seconds) if seconds else "",
            mark,
        )
        lines.append(f"| {' | '.join(cells)} |")
    if len(trials) > MOST_ROWS:
        lines.append(f"\n{plural(len(trials) - MOST_ROWS, 'further trial')}: see the view of trials.")
    parts = [
        f"**{study.question}**",
        conclusion.headline,
        " ".join(conclusion.details),
        "\n".join(f"- {claim}" for claim in conclusion.claims),
        "\n".join(lines),
        f"Source: {study.paper}" if study.paper else "",
        f"Expected: {study.expected}" if study.expected else "",
        "The report is the artifact report/report.html." if conclusion.headline else "",
    ]
    return cut("\n\n".join(filter(None, parts)))


def cut(text: str) -> str:
    """Returns as many whole lines of a text as a tag can hold."""
    if len(text) <= LONGEST_NOTE:
        return text
    return text[: LONGEST_NOTE - 4].rpartition("\n")[0] + "\n..."
