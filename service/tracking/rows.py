"""What MLflow should show of a study: rows at three levels, folded from its history.

Pure, without MLflow: a `Row` describes one MLflow run, and `store` writes it. The study is the parent of its trials, a
trial of its runs. A trial is a search's point, an arm, a confirmation (`c7`), a parent (`p1`), or one that tunes an arm
(`t2.7`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, Literal

from search_spaces.roles import POINTS, Role
from search_spaces.study import Ablation, Edition, Trial
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
"""MLflow's words. `SCHEDULED`: the study was stopped, and the same command goes on with it."""
RunId = tuple[str, str, int | None]
"""How a row is known within its study: level, number label, seed."""
STUDY: RunId = ("study", "", None)
OUTCOMES: dict[MlflowStatus, str] = {
    "RUNNING": "running", "FINISHED": "completed", "FAILED": "failed", "SCHEDULED": "stopped, continues",
}  # fmt: skip
"""What is said of what did not end by itself, by how the study ended."""
KEY, CODE, AGAIN = "locus.key", "locus.code", "locus.trained_again"
"""The tags of a run's key, of the code that gave a row's numbers, and of how often an answer was lost."""
TRAIN_S = "time/train_s"
"""The training time up to an epoch: of a run its own, of a trial the sum over its seeds."""
LONGEST, LONGEST_NOTE, MOST_ROWS = 500, 5000, 20
"""The greatest length of a value, and of a description, in letters, for some MLflow servers store no longer tag; and of
the table of a description, in trials."""


@dataclass(frozen=True)
class Point:
    """Numbers at a step. Units: `time` in seconds since 1970."""

    step: int
    time: float
    values: dict[str, float]


@dataclass(frozen=True)
class Row:
    """What one MLflow run should look like. Units: times in seconds since 1970.

    `points` of a run are its epochs, each written once. `values`: the last numbers of a study or a trial, of which
    those that changed are written at the point's step.
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
    """What a study found, in words, once it has ended: its headline, a line for each claim, the sentences between."""

    headline: str = ""
    claims: tuple[str, ...] = ()
    details: tuple[str, ...] = ()

    @classmethod
    def of(cls, result: StudyResult) -> Conclusion:
        """Returns what a result says: in MLflow the same numbers as on the page."""
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
    """Yields the rows of runs with news, and their parents before them; without `is_news` every row of a study.

    `best`: the best trials, if the caller knows them; `contents`: of trials by label, kept from call to call; `marks`:
    labels of trials that are news, too.
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
    """Returns the runs that were started, or whose answer was found among the outcomes."""
    return [run for run in history.runs(trial).values() if history.state(run).was_run]


def study_row(
    history: History, ended: MlflowStatus, conclusion: Conclusion = NO_CONCLUSION, best: Best | None = None
) -> Row:
    """Returns the study's own row: how much of it is done, and the best trial's numbers."""
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
    """Returns a trial with the means over its seeds, once its seeds have ended. `best`: the study's best trials."""
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
    """Returns one training, with its curve as it came."""
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
    """What the rows of one trial have in common; it is made once."""

    trial: Trial
    label: str
    title: str
    params: dict[str, str]
    tags: dict[str, str]


def trial_content(edition: Edition, trial: Trial) -> TrialContent:
    """Returns what tells a trial from others of its study and of its experiment."""
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
    """Yields every path of plain values with its value; a list of nodes has a number for each."""
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
        return trial.name if isinstance(edition.study.plan, Ablation) else f"#{trial.number:02d} {trial.name}"
    return f"{trial.label} {trial.name}"


def role(edition: Edition, trial: Trial) -> str:
    """Returns what a trial is for: an arm, a point, a random point, a confirmation of either, tuning, or a parent."""
    names: dict[Role, str] = {"rival": "random point", "rival_confirmation": "random confirmation"}
    if trial.role == "trial":
        return "arm" if isinstance(edition.study.plan, Ablation) else "point"
    return names.get(trial.role, trial.role)


def _is_point(edition: Edition, trial: Trial) -> bool:
    """Of points no test scores are shown: the test set is looked at for the answer, not for the search."""
    return trial.role == "tuning" or (trial.role in POINTS and not isinstance(edition.study.plan, Ablation))


def seed_curve(state: RunState) -> list[Point]:
    """Returns a run's curve as it was measured, with the training time up to each epoch."""
    seconds = _train_s(state)
    return [
        Point(epoch, fact.time, {**fact.values, **({TRAIN_S: _rounded(seconds[epoch])} if seconds else {})})
        for epoch, fact in sorted(state.curve.items())
    ]


def _train_s(state: RunState) -> dict[int, float]:
    """Returns the training time of a run up to each epoch measured; empty if an epoch lacks it. Units: seconds."""
    epochs = sorted(state.curve)
    values = [state.curve[epoch].values for epoch in epochs]
    if any("time/epoch_s" not in of_epoch for of_epoch in values):
        return {}
    # of runs that trained as one, a run has its part of the time
    seconds = (of_epoch["time/epoch_s"] / of_epoch.get(TOGETHER, 1.0) for of_epoch in values)
    return dict(zip(epochs, accumulate(seconds), strict=True))


def _rounded(value: float) -> float:
    """Returns a mean, a deviation or a time in the six digits that are shown."""
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
    """Returns the test scores of the seeds that ended, a diverged one at chance; none of a point of a search."""
    if _is_point(history.edition, trial):
        return Scores({}, 0)
    states = {seed: history.state(run) for seed, run in history.runs(trial).items()}
    finals = {seed: state.value(trial.score.test) for seed, state in states.items() if state.status == "completed"}
    return scores_of(trial, "test", finals, diverged_seeds(history, trial), history.answer(trial).asked)


def score_words(scores: Scores) -> str:
    """Returns the mean, the standard deviation, how many seeds, and how many failed; empty for no score."""
    if not scores.n:
        return ""
    failed = f", {len(scores.failed)} failed" if scores.failed else ""
    return f"{spread(scores.mean, scores.std)} (n {scores.n}{failed})"


def study_note(history: History, best: Best, conclusion: Conclusion) -> str:
    """Returns the study: question, answer, verdicts, the trials in a table, the best first, source and expectation."""
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
    """Returns a text that is not too long for a tag: whole lines."""
    if len(text) <= LONGEST_NOTE:
        return text
    return text[: LONGEST_NOTE - 4].rpartition("\n")[0] + "\n..."
