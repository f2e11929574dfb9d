"""A study's question, answered: one short sentence, then what a reader must know of it, and what to type next.

The first sentence has at most 25 words and two numbers. The table of results has the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from search_spaces.roles import RIVALS
from search_spaces.study import Ablation
from search_spaces.words import listed, plural, quoted, rough_time
from service.analysis.best import chosen_by
from service.analysis.costs import cost_words
from service.analysis.evidence import spread_words
from service.analysis.format import fixed, metric_words, number
from service.analysis.methods import methods_sentence
from service.analysis.multiple_testing import Difference
from service.analysis.power import POWER, seeds_needed, smallest_difference
from service.analysis.scores import group_words
from service.analysis.statistics import ALPHA, FEWEST, Estimate, Scores, share_of
from service.analysis.trial_result import TrialResult, out_of_race
from service.planning.schedule import unplanned
from trainables.recipe.cost import estimate_cost

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.storage.history import History


LACKS = ("open", "incomplete")
"""A trial that lacks seeds cannot be best, but may be above chance."""
MOST = 3
"""How many trials a sentence names; all stand in the table of results."""


def headline(result: StudyResult) -> str:
    """Returns what was found in one sentence, of at most 25 words and two numbers."""
    sentence = _found(result)
    if result.lengths is None or not result.winners:
        return sentence
    return f"{result.lengths.trained}, {sentence[0].lower()}{sentence[1:]}"


def _found(result: StudyResult) -> str:
    """Returns what was found, without the length of training for which it holds."""
    plan, missing = result.edition.study.plan, _missing(result)
    if isinstance(plan, Ablation) and plan.tasks:
        assert result.methods is not None
        return methods_sentence(result.methods, claims=bool(result.edition.study.claims))
    if ended := result.ranking.ended:
        return f"Nothing is decided: {quoted(ended.name)}, which the race has ended, is ahead. Compare without a race."
    if not result.ranking.highest:
        return f"No answer yet: {missing or 'no trial has all its seeds'}."
    if not result.winners:
        return _at_chance(result, finished=not missing)
    if len(result.winners) > 1:
        return _tie(result, missing)
    if not isinstance(plan, Ablation):
        return _point(result)
    if not plan.race or (result.departure and not result.departure.told):
        return _arm(result, missing)
    return _ahead(result) if missing else _take(result)


def details(result: StudyResult) -> list[str]:
    """Returns what a reader must know beside the first sentence, a sentence each: scores, rivals, cost, what lacks."""
    plan, missing = result.edition.study.plan, _missing(result)
    over_tasks, best = isinstance(plan, Ablation) and plan.tasks, result.best
    has_answer = result.ranking.highest or result.ranking.ended or over_tasks
    unfinished = [f"Not finished: {missing}."] if missing and has_answer else []
    if best is None or over_tasks:
        ended = _ended(result.of("trial")) if result.ranking.ended else ""
        return [*filter(None, [_but_tests(result), _diverged(result), ended]), *unfinished]
    rows = result.of("trial") if isinstance(plan, Ablation) else result.confirmed
    sentences = [*(_tested(result, row) for row in result.winners[:MOST] if row in result.tested)]
    if len(result.winners) == 1 and best.test.complete:
        sentences += [*_beside(result, best), *_above(result, best, rows), *_not_told_apart(result, best, rows)]
    sentences += result.lengths.sentences if result.lengths else []
    sentences += [_diverged(result)]
    if isinstance(plan, Ablation) and plan.race:
        partner = next((row for row in rows if row.name == plan.compared_with(best.name)), None)
        sentences += [_ended(rows), _cost(result.history, best, partner), *_sizes(best, partner)]
    return [*filter(None, sentences), *unfinished]


def _diverged(result: StudyResult) -> str:
    """Returns the trials in which seeds diverged; their means hold these seeds at chance."""
    rows = result.confirmed if result.ranking.confirmed else result.of("trial")
    lost = [
        f"{len(row.validation.diverged)} of {plural(row.validation.n, 'seed')} of {trial_words(result, row)}"
        for row in rows
        if row.validation.diverged
    ]
    more = f" and of {plural(len(lost) - 3, 'more trial')}" if len(lost) > 3 else ""
    return f"Diverged, and counted at chance: {listed(lost[:3])}{more}." if lost else ""


def trial_words(result: StudyResult, row: TrialResult) -> str:
    """Returns a trial in a sentence: an arm as “name”, a point as `#7 (gamma=2.31)`."""
    ablation = isinstance(result.edition.study.plan, Ablation)
    return quoted(row.name) if ablation else f"{_number(row)} ({row.name})"


def point_name(result: StudyResult, row: TrialResult) -> str:
    """Returns a confirmed point in a table, with what is special about it: `#0 gamma=2.5 (tried first)`."""
    of = f"best of {plural(len(result.of('rival')), 'random point')}"
    notes = [note for note, point in (("tried first", result.named.get("first")), (of, result.random)) if point is row]
    return f"{_number(row)} {row.name}" + "".join(f" ({note})" for note in notes)


def _number(row: TrialResult) -> str:
    """Returns `#7`; for a random point `#r7`."""
    return f"#{'r' if row.trial.role in RIVALS else ''}{row.trial.number}"


def _on_images(row: TrialResult, gaps: Iterable[Difference] = ()) -> str:
    """Returns ` on these 80 test images`, where nothing is known of other images; else nothing.

    `gaps`: the differences that the sentence is about.
    """
    estimates = [row.test.estimate, *(gap.estimate for gap in gaps)]
    if all(estimate and estimate.draws > 1 for estimate in estimates):
        return ""
    return f" on these {plural(row.recipe.data.image_counts.test, 'test image')}"


def _at_chance(result: StudyResult, *, finished: bool) -> str:
    """Says that no trial is best: none is above chance, or none of those that have all their seeds."""
    noun = "arm" if isinstance(result.edition.study.plan, Ablation) else "point"
    chance = number(result.edition.study.base.data.chance("val"))
    epochs = plural(max(row.trial.recipe.optimizer.epochs for row in result.of("trial")), "epoch")
    some = result.confirmed if result.ranking.confirmed else result.of("trial")
    if ahead := [row for row in some if row.answer.status in LACKS and row.validation.any_above_chance]:
        return (
            f"No {noun} that has all its seeds is above chance ({chance}), but {trial_words(result, ahead[0])} may be."
        )
    end = f"nothing was learned in {epochs}" if finished else "nothing was learned so far"
    return f"No {noun} is above chance ({chance}): {end}."


def _but_tests(result: StudyResult) -> str:
    """Returns the highest test score where no validation score is above chance, if it is one of more images."""
    tested = result.ranking.confirmed or isinstance(result.edition.study.plan, Ablation)
    nothing = result.ranking.highest and not result.winners  # over tasks no trial is the highest
    rows = [row for row in result.of("trial") if row.test.mean is not None] if tested and nothing else []
    best = max(rows, key=lambda row: row.test.mean or 0.0, default=None)
    if best is None or not best.test.above_chance:
        return ""
    counts = best.recipe.data.image_counts
    if counts.test <= counts.validation:
        return ""
    images = plural(counts.test, "image")
    return (
        f"On the {images} of the test set, which choose nothing, {trial_words(result, best)} has {_score(best.test)}."
    )


def _tie(result: StudyResult, missing: str) -> str:
    shown, hidden = result.winners[:MOST], result.winners[MOST:]
    names = listed([*(trial_words(result, row) for row in shown), *_more(hidden)])
    value = chosen_by(result.history, result.winners[0].trial)
    top = value == result.winners[0].validation.scale.high and len(result.winners) == len(result.of("trial"))
    if top and not missing:
        return f"All {len(result.winners)} trials reach the highest score there is: the task is too easy for them."
    so_far = " so far" if missing else ""
    return f"{names} tie with the highest {metric_words(result.edition.study.score.metric)}{so_far}, {fixed(value)}."


def _more(rows: Sequence[object]) -> list[str]:
    """Returns what stands for the trials that a sentence does not name: `7 more trials`; nothing for none."""
    return [plural(len(rows), "more trial")] if rows else []


def _point(result: StudyResult) -> str:
    (best,) = result.winners
    if not result.ranking.confirmed:
        score = f"{metric_words(result.edition.study.score.metric)} {fixed(best.validation.mean)}"
        return f"{trial_words(result, best)} is highest so far: {score}, not confirmed on fresh seeds."
    score = f"{metric_words(result.edition.study.score.test)} {fixed(best.test.mean)}"
    return f"{trial_words(result, best)} comes out best: {score} on fresh seeds{_on_images(best)}."


def _arm(result: StudyResult, missing: str) -> str:
    (best,) = result.winners
    plan = result.edition.study.plan
    assert isinstance(plan, Ablation)
    partner, gap = plan.compared_with(best.name), result.differences.get(best.name)
    images = _on_images(best, [gap] if gap else [])
    score = f"{metric_words(result.edition.study.score.test)} {fixed(best.test.mean)}{images}"
    beside = ""
    if partner and gap and gap.adjusted:
        sure = "significantly above" if gap.significant and gap.mean > 0 else "not significantly above"
        beside = f", {sure} {quoted(partner)}"
    return f"{quoted(best.name)} comes out best{' so far' if missing else ''} by validation: {score}{beside}."


def _ahead(result: StudyResult) -> str:
    """Returns which arm of a race is ahead, while it goes on."""
    rows = [row for row in result.of("trial") if row.validation.mean is not None]
    ahead = max(rows, key=lambda row: row.validation.mean or 0.0)
    seeds = f"{ahead.validation.n} of {plural(ahead.validation.asked, 'seed')}"
    waits = any(row.answer.status == "open" for row in rows) or len(rows) < len(result.edition.study.names())
    why = "the race is not over" if waits else "runs failed"
    return f"Nothing to take yet: {why}; {quoted(ahead.name)} is ahead, with {seeds}."


def _take(result: StudyResult) -> str:
    """Returns which arm of a race to take; if the tests decide nothing, this."""
    (best,) = result.winners
    plan, rows = result.edition.study.plan, result.of("trial")
    assert isinstance(plan, Ablation)
    images = _on_images(best, result.against_best(best, result.rivals(best, rows)).values())
    if best.test.n < FEWEST:
        return f"Nothing is decided: a test needs {FEWEST} seeds; {quoted(best.name)} is the highest by validation."
    if above := result.above(best, rows):
        other = next(row for row in rows if row.trial.label in above)
        sure = f"{quoted(other.name)} is significantly above it{images}"
        return f"Nothing is decided: validation chooses {quoted(best.name)}, but {sure}."
    rivals, told = result.rivals(best, rows), len(result.rivals(best, rows)) - len(result.level_with(best, rows))
    if rivals and not told:
        return f"Nothing is decided: no arm is told apart from {quoted(best.name)}, the highest by validation{images}."
    partner, gap = plan.compared_with(best.name), result.differences.get(best.name)
    if partner and gap and gap.significant:
        by = "" if images and result.lengths else f", by {fixed(gap.mean)}"  # two numbers at most
        return f"Take {quoted(best.name)}: it is significantly above {quoted(partner)}{images}{by}."
    return f"Take {quoted(best.name)}: it is told apart from {plural(told, 'other arm')}{images}."


def _tested(result: StudyResult, row: TrialResult) -> str:
    """Returns a trial's test score with its interval, and the groups in which its seeds lie."""
    fresh = " on fresh seeds" if result.ranking.confirmed else ""
    score = metric_words(result.edition.study.score.test)
    return f"{trial_words(result, row)} has {score} {_score(row.test)}{fresh}."


def _score(scores: Scores) -> str:
    """Returns the mean over all seeds with its interval, and the groups in which the seeds lie."""
    return "unknown" if scores.mean is None else f"{fixed(scores.mean)} ({spread_words(scores)})"


def _beside(result: StudyResult, best: TrialResult) -> Iterator[str]:
    """Yields the best trial beside what it is compared with: the baseline; the first and the best random point."""
    plan = result.edition.study.plan
    if isinstance(plan, Ablation):
        partner, gap = plan.compared_with(best.name), result.differences.get(best.name)
        if partner and gap:
            side = "above" if gap.mean >= 0 else "below"
            yield f"It is {fixed(abs(gap.mean))} {side} {quoted(partner)} ({gap.sureness})."
        elif plan.is_baseline(best.name):
            yield "It is the baseline."
        return
    first = result.named.get("first")
    if first is best:
        yield "It was tried first."
    elif first is not None:
        yield f"The point tried first, {trial_words(result, first)}, has {_score(first.test)}."
    if result.random is not None:
        of = plural(len(result.of("rival")), "random point")
        yield f"The best of {of}, {trial_words(result, result.random)}, has {_score(result.random.test)}."


def _above(result: StudyResult, best: TrialResult, rows: Sequence[TrialResult]) -> Iterator[str]:
    """Yields the trials that score significantly higher on the test images than the one that validation chose."""
    above = result.above(best, rows)
    for row in rows:
        if gap := above.get(row.trial.label):
            who = trial_words(result, row)
            yield f"On the test images, which choose nothing, {who} is {fixed(-gap.mean)} above it (p {gap.p_words})."


def _not_told_apart(result: StudyResult, best: TrialResult, rows: Sequence[TrialResult]) -> Iterator[str]:
    """Yields the trials that are not told apart from the best one, and the difference that their seeds can detect."""
    level = result.level_with(best, rows)
    tested = {label: gap for label, gap in level.items() if gap.adjusted}
    if level and not tested:
        yield f"With {plural(best.test.n, 'seed')} no difference can be tested."
    if not tested:
        return
    order = [row for row in rows if row.trial.label in tested]
    nearest = sorted(order, key=lambda row: abs(tested[row.trial.label].mean))
    shown = [row for row in order if row in nearest[:MOST]]
    words = [_gap_words(result, row, tested[row.trial.label]) for row in shown]
    yield f"Not told apart from it: {'; '.join([*words, *_more(nearest[MOST:])])}."


def _gap_words(result: StudyResult, row: TrialResult, gap: Difference) -> str:
    """Returns `“peg”, 0.0021 below it (5 seeds; 0.0060 or more can be seen)`."""
    assert gap.adjusted is not None
    n, estimate, scale = gap.estimate.n, gap.estimate, gap.who.scale
    least = smallest_difference(n, estimate.spread or 0.0, alpha=gap.adjusted.level, like=estimate)
    seen = "" if least is None else f"; {fixed(least)} or more can be seen"
    if least is not None and least >= scale.high - scale.chance:
        seen = "; no difference can be seen"
    side = "below" if gap.mean >= 0 else "above"
    return f"{trial_words(result, row)}, {fixed(abs(gap.mean))} {side} it ({plural(n, 'seed')}{seen})"


def _ended(rows: Sequence[TrialResult]) -> str:
    """Returns which arms the race has ended."""
    ended = out_of_race(rows)
    return f"Ended by the race (validation): {ended}." if ended else ""


def _cost(history: History, best: TrialResult, partner: TrialResult | None) -> str:
    """Returns what it costs, beside the arm that it is compared with."""
    parts = cost_words(history, best.name, partner.name if partner else None)
    own_count = estimate_cost(best.recipe).parameters
    more = own_count - estimate_cost(partner.recipe).parameters if partner else 0
    beside = f" ({abs(more):,} {'more' if more > 0 else 'fewer'})" if more else ""
    return f"It costs {listed([*parts, f'{own_count:,} parameters{beside}'])}{history.costs.busy}."


def _sizes(best: TrialResult, partner: TrialResult | None) -> Iterator[str]:
    """Yields what it scores on images of other sizes, without training on them."""
    for size in best.test_sizes:
        rows = [row for row in (best, partner) if row and size in row.test_sizes]
        groups = {row.name: group_words(row.test_sizes[size]) for row in rows}
        words = {name: f" ({group})" if group else "" for name, group in groups.items()}
        scores = listed([f"{quoted(row.name)} has {fixed(row.test_sizes[size].mean)}{words[row.name]}" for row in rows])
        none = "" if any(row.test_sizes[size].any_above_chance for row in rows) else "; no seed is above guessing"
        yield f"On test images of {size} x {size} pixels {scores}{none}."


def _missing(result: StudyResult) -> str:
    """Returns what has no answer yet, in words; empty if the study is done."""
    replaced, settled = result.history.is_replaced, result.history.tuning.is_settled
    some = [row for row in result.rows if row.trial.role != "parent"]
    rows = [row for row in some if not replaced(row.trial) and not settled(row.trial)]
    opened = [row for row in rows if row.answer.status == "open"]
    broken = [row for row in rows if row.answer.status == "incomplete"]
    plan = result.edition.study.plan
    asked = len(plan.arms) if isinstance(plan, Ablation) else result.history.trial_count
    wanted = max(asked - len(result.of("trial")), 0) + max(result.history.rival_count - len(result.of("rival")), 0)
    wanted += len([*unplanned(result.history)])
    parts = [
        f"{plural(wanted, 'trial')} not begun" if wanted else "",
        f"{plural(len(opened), 'trial')} begun" if opened else "",
        f"{plural(len(broken), 'trial')} with failed runs" if broken else "",
        f"{plural(result.stale, 'answer')} of other code that do not count" if rows and result.stale and opened else "",
    ]
    return listed([words for words in parts if words])


@dataclass(frozen=True)
class NextSeeds:
    """A number of seeds in all with which an open question would be decided at the next look, if it is as measured.

    `away`: the difference that would be found; `seconds`: of the runs that are added, one after another.
    """

    seeds: int
    away: float
    level: float
    seconds: float

    def __str__(self) -> str:
        found = f"a difference of {fixed(self.away)} is found with a power of {POWER:.0%} at the level {self.level:.3g}"
        return f"{found}; about {rough_time(self.seconds / 60)} of training"


def next_seeds(result: StudyResult) -> NextSeeds | None:
    """Returns the fewest seeds, at most twice as many as now, that would decide something; None if none would.

    Questions are claims that are not decided, and the trials that are not told apart from the best one. Arms that the
    race has ended get no further seed.
    """
    now, look = result.history.seeds, result.history.looks
    share = share_of(look + 1) / share_of(look)
    options = []
    for estimate, away, level in _open_questions(result):
        needed = seeds_needed(away, estimate.spread or 0.0, 2 * now, alpha=level * share, like=estimate)
        if needed is not None:
            options.append((max(needed, now + 1), abs(away)))
    if not options:
        return None
    seeds, away = min(options, key=lambda option: (option[0], -option[1]))
    rows = [row for row in result.tested if row.runs and not row.answer.raced]
    seconds = sum(row.seconds / len(row.runs) * (seeds - now) for row in rows)
    return NextSeeds(seeds, away, ALPHA * share_of(look + 1), seconds)


def _open_questions(result: StudyResult) -> Iterator[tuple[Estimate, float, float]]:
    """Yields what is not decided: the estimate, how far it is from what would decide it, and the level of its test."""
    ended = {row.trial.label: row.name for row in result.tested if row.answer.raced}
    for verdict in result.claims:
        undecided = verdict.word == "INCONCLUSIVE" and not {*ended.values()} & {*verdict.claim.names}
        if undecided and verdict.estimate and verdict.level and verdict.margin:
            yield verdict.estimate, verdict.margin, verdict.level
    best = result.best
    if best is not None and len(result.winners) == 1 and best in result.tested and best.test.complete:
        rows = result.of("trial") if isinstance(result.edition.study.plan, Ablation) else result.confirmed
        for label, gap in result.level_with(best, rows).items():
            if gap.adjusted and label not in ended:
                yield gap.estimate, gap.mean, gap.adjusted.level
