"""The answer to a study's question: its first sentence, the sentences after it, and how many more seeds would help.

The first sentence has at most 25 words and two numbers. The table of results has the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from search_spaces.roles import RIVALS
from service.analysis.best import chosen_by
from service.analysis.evidence import score_and_spread
from service.analysis.findings import Finding, finding
from service.analysis.multiple_testing import Difference
from service.analysis.power import POWER, seeds_needed, smallest_difference
from service.analysis.statistics import ALPHA, FEWEST, Estimate, estimate, share_of
from service.analysis.trial_result import TrialResult, out_of_race
from service.planning.schedule import unplanned
from trainables.recipe.cost import estimate_cost

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult


MOST = 3
"""A sentence names at most this many trials; the table of results has all."""
SURE = 0.99
"""How sure a difference of costs must be; turns are many, so this asks little."""
AGREE = 0.03
"""The share by which two measurements of one arm may differ on a quiet machine; a smaller difference counts as none."""


def headline(result: StudyResult) -> str:
    """Returns one sentence that says what the study found, in at most 25 words and two numbers."""
    return str(answer(result))


def details(result: StudyResult) -> list[str]:
    """Returns the sentences of `further_findings`."""
    return [*map(str, further_findings(result))]


def answer(result: StudyResult) -> Finding:
    """Returns the finding of the first sentence; if trials have several lengths of training, it names the longest."""
    sentence, lengths = _at_any_length(result), result.lengths
    if lengths is None or not result.winners:
        return sentence
    rising = ", rising" if lengths.rising else ""
    return finding(f"headline.trained{rising}", epochs=max(lengths.ahead), found=sentence)


def _at_any_length(result: StudyResult) -> Finding:
    """Returns the finding of the first sentence, without the length of training."""
    study, ranking, missing = result.edition.study, result.ranking, missing_parts(result)
    plan = study.plan
    if ranking.ended:
        return finding("headline.race ended the leader", name=ranking.ended.name)
    if not ranking.highest:
        return finding("headline.unfinished", missing=missing[:2]) if missing else finding("headline.no seeds")
    if not result.winners:
        chance = study.base.data.chance("val")
        if missing:
            return finding("headline.at chance so far", chance=chance)
        epochs = max(row.recipe.optimizer.epochs for row in result.of("trial"))
        return finding("headline.at chance", chance=chance, epochs=epochs)
    best, so_far = result.winners[0], " so far" if missing else ""
    if len(result.winners) > 1:
        score = chosen_by(result.history, best.trial)
        if not missing and score == best.validation.scale.high and len(result.winners) == len(result.of("trial")):
            return finding("headline.too easy", trials=len(result.winners))
        trials = named_trials(result, result.winners)
        return finding(f"headline.tie{so_far}", trials=trials, metric=study.score.metric, score=score)

    if not plan.arms:
        trial = trial_part(result, best)
        if not ranking.confirmed:
            return finding("headline.unconfirmed", trial=trial, metric=study.score.metric, score=best.validation.mean)
        images = _images_part(result, best)
        test = best.test.mean
        return finding("headline.confirmed", trial=trial, metric=study.score.test, score=test, images=images)

    if plan.race and (result.departure is None or result.departure.told):
        return _of_race(result, finished=not missing)
    partner, gap, beside = plan.compared_with(best.name), result.differences.get(best.name), None
    if partner and gap and gap.adjusted:
        beside = finding(f"part.{'above' if gap.significant and gap.mean > 0 else 'not above'}", partner=partner)
    return finding(
        f"headline.best{so_far}",
        name=best.name,
        metric=study.score.test,
        score=best.test.mean,
        images=_images_part(result, best, [gap] if gap else []),
        beside=beside,
    )


def _of_race(result: StudyResult, *, finished: bool) -> Finding:
    """Returns a finding: which trial of a race to take, or that no test decides; before its end, which one is ahead."""
    (best,) = result.winners
    plan, rows = result.edition.study.plan, result.of("trial")
    if not finished:
        begun = [row for row in rows if row.validation.mean is not None]
        ahead = max(begun, key=lambda row: row.validation.mean or 0.0)
        waits = any(row.answer.status == "open" for row in begun) or len(begun) < len(result.edition.study.names())
        kind = "headline.race goes on" if waits else "headline.race failed"
        return finding(kind, name=ahead.name, seeds=ahead.validation.n, asked=ahead.validation.asked)
    if best.test.n < FEWEST:
        return finding("headline.few seeds", fewest=FEWEST, name=best.name)
    rivals = result.rivals(best, rows)
    images = _images_part(result, best, result.against_best(best, rivals).values())
    if above := result.above(best, rows):
        other = next(row for row in rows if row.trial.label in above)
        return finding("headline.another above", name=best.name, other=other.name, images=images)
    others = len(rivals) - len(result.level_with(best, rows))
    if rivals and not others:
        return finding("headline.all level", name=best.name, images=images)
    partner, gap = plan.compared_with(best.name), result.differences.get(best.name)
    if partner and gap and gap.significant:
        return finding("headline.take", name=best.name, partner=partner, images=images, gap=gap.mean)
    return finding("headline.take of others", name=best.name, others=others, images=images)


def _images_part(result: StudyResult, row: TrialResult, gaps: Iterable[Difference] = ()) -> Finding | None:
    """Returns a phrase that limits a sentence to the test images at hand; None if its intervals hold for others, too.

    `gaps` are the differences that the sentence is about.
    """
    estimates = [row.test.estimate, *(gap.estimate for gap in gaps)]
    if all(estimate and estimate.draws > 1 for estimate in estimates):
        return None
    if result.lengths is not None:  # the length of training is a number, too, and a sentence has two
        return finding("part.these images")
    return finding("part.images", count=row.recipe.data.image_counts.test)


def trial_part(result: StudyResult, row: TrialResult) -> Finding:
    """Returns the phrase that names a trial in a sentence: an arm as “name”, a point as `#7 (gamma=2.31)`."""
    if result.edition.study.plan.arms:
        return finding("part.arm", name=row.name)
    return finding("part.point", label=_label(row), name=row.name)


def point_name(result: StudyResult, row: TrialResult) -> str:
    """Returns the name of a confirmed point in a table, with what is special about it: `#0 gamma=2.5 (tried first)`."""
    if row is result.named.get("first"):
        return str(finding("part.tabled first", label=_label(row), name=row.name))
    points = len(result.of("rival")) if row is result.random else None
    return str(finding("part.tabled point", label=_label(row), name=row.name, points=points))


def _label(row: TrialResult) -> str:
    """Returns the number of a trial, with `r` before that of a random rival."""
    return f"{'r' if row.trial.role in RIVALS else ''}{row.trial.number}"


def named_trials(result: StudyResult, rows: Sequence[TrialResult]) -> list[Finding]:
    """Returns phrases that name the first `MOST` trials, and a phrase that counts the others."""
    more = [finding("part.more trials", count=len(rows) - MOST)] if len(rows) > MOST else []
    return [*(trial_part(result, row) for row in rows[:MOST]), *more]


def further_findings(result: StudyResult) -> Iterator[Finding]:
    """Yields the findings that a reader must know beside the first one: scores, rivals, costs and missing trials."""
    plan, missing, best = result.edition.study.plan, missing_parts(result), result.best
    rows = result.compared
    if best is not None:
        metric = result.edition.study.score.test
        fresh = " on fresh seeds" if result.ranking.confirmed else ""
        for row in result.winners[:MOST]:
            if row in result.tested:
                trial, score = trial_part(result, row), score_and_spread(row.test)
                yield finding(f"detail.tested{fresh}", trial=trial, metric=metric, score=score)
        if len(result.winners) == 1 and best.test.complete:
            yield from _beside_others(result, best, rows)
        if result.lengths is not None:
            yield from result.lengths.findings()

    rows = result.confirmed if result.ranking.confirmed else result.of("trial")
    diverged = [
        finding("part.diverged", diverged=len(lost), seeds=row.validation.n, trial=trial_part(result, row))
        for row in rows
        if (lost := row.validation.diverged)
    ]
    if diverged:
        more = [finding("part.more trials", count=len(diverged) - MOST)] if len(diverged) > MOST else []
        yield finding("detail.diverged", trials=[*diverged[:MOST], *more])
    if plan.race and (best or result.ranking.ended):
        if raced := out_of_race(result.of("trial")):
            yield finding("detail.raced", trials=raced)
        if best is not None:
            yield from _costs_and_sizes(result, best)
    if missing and (result.ranking.highest or result.ranking.ended or len(missing) > 2):
        yield finding("detail.missing", missing=missing)


def _beside_others(result: StudyResult, best: TrialResult, rows: Sequence[TrialResult]) -> Iterator[Finding]:
    """Yields findings that set the best trial beside the baseline, or beside the first and the best random point.

    The next findings name the trials that score significantly higher on test images, then those that tests cannot tell
    apart from the best trial.
    """
    plan, first, random = result.edition.study.plan, result.named.get("first"), result.random
    if plan.arms:
        partner, gap = plan.compared_with(best.name), result.differences.get(best.name)
        if partner and gap:
            yield finding("detail.beside", gap=gap.mean, partner=partner, sureness=gap.sureness)
    else:
        if first is not None and first is not best:
            yield finding("detail.first", trial=trial_part(result, first), score=score_and_spread(first.test))
        if random is not None:
            trial, score = trial_part(result, random), score_and_spread(random.test)
            yield finding("detail.random", points=len(result.of("rival")), trial=trial, score=score)

    above = result.above(best, rows)
    for row in rows:
        if gap := above.get(row.trial.label):
            trial = trial_part(result, row)
            yield finding("detail.above on tests", trial=trial, gap=-gap.mean, sureness=gap.p_words)

    level = result.level_with(best, rows)
    if level and not any(gap.adjusted for gap in level.values()):
        yield finding("detail.untested", seeds=best.test.n)
    tested = [row for row in rows if row.trial.label in level and level[row.trial.label].adjusted]
    nearest = sorted(tested, key=lambda row: abs(level[row.trial.label].mean))[:MOST]
    parts = []
    for row in tested:
        gap = level[row.trial.label]
        if row in nearest and gap.adjusted:
            n, estimate = gap.estimate.n, gap.estimate
            least = smallest_difference(n, estimate.spread or 0.0, alpha=gap.adjusted.level, like=estimate)
            parts.append(finding("part.level", trial=trial_part(result, row), gap=-gap.mean, seeds=n, least=least))
    if parts:
        more = [finding("part.more trials", count=len(tested) - MOST)] if len(tested) > MOST else []
        yield finding("detail.level", gaps=[*parts, *more])


def _costs_and_sizes(result: StudyResult, best: TrialResult) -> Iterator[Finding]:
    """Yields the costs of the best trial and its scores on images of other sizes, beside those of its partner.

    The partner is the arm that the best trial is compared with.
    """
    plan = result.edition.study.plan
    partner = next((row for row in result.of("trial") if row.name == plan.compared_with(best.name)), None)
    arms = result.history.costs.arms
    costs: list[Finding] = []
    own, other = arms.get(best.name), arms.get(partner.name) if partner and partner is not best else None
    for work, field in (("training", "train_s"), ("prediction", "predict_s")) if own else ():
        turns = getattr(own, field)
        values = {"own": 1000 * median(turns), "work": work}
        if other and partner:
            others = getattr(other, field)
            kind = "part.cost" if ratio(turns, others) else "part.cost alike"
            costs.append(finding(kind, **values, partner=partner.name, other=1000 * median(others)))
        else:
            costs.append(finding("part.cost", **values))
    count = estimate_cost(best.recipe).parameters
    more = count - estimate_cost(partner.recipe).parameters if partner else 0
    parameters = finding("part.parameters", count=count, more=more or None)
    yield finding("detail.cost", costs=[*costs, parameters], busy=result.history.costs.busy)
    for side in best.test_sizes:
        rows = [row for row in (best, partner) if row and side in row.test_sizes]
        scores = [finding("part.size", name=row.name, mean=row.test_sizes[side].mean) for row in rows]
        yield finding("detail.size", side=side, scores=scores)


def ratio(turns: Sequence[float], other: Sequence[float]) -> tuple[float, float] | None:
    """Returns how many times as much time one arm takes, at least and at most; None if the arms cannot be told apart.

    `turns` and `other` are times of two arms that were measured in turn. Each time is compared with the one beside it,
    so that what slows both arms down for a while does not count.
    """
    interval = estimate([math.log(a / b) for a, b in zip(turns, other, strict=True)]).interval(SURE)
    if interval is None or (interval[0] <= math.log1p(AGREE) and interval[1] >= -math.log1p(AGREE)):
        return None
    return math.exp(interval[0]), math.exp(interval[1])


def missing_parts(result: StudyResult) -> list[Finding]:
    """Returns phrases that count the study's trials that are not begun, unfinished or failed; none if it is done.

    One more counts answers (stored outcomes of runs) that other code gave.
    """
    history, plan = result.history, result.edition.study.plan
    rows = [
        row
        for row in result.rows
        if row.trial.role != "parent"
        and not history.is_replaced(row.trial)
        and not history.tuning.is_settled(row.trial)
    ]
    begun = sum(row.answer.status == "open" for row in rows)
    trials = len(plan.arms) or history.trial_count
    not_begun = max(trials - len(result.of("trial")), 0) + max(history.rival_count - len(result.of("rival")), 0)
    counts = {
        "part.stale": result.stale if begun else 0,
        "part.not begun": not_begun + len([*unplanned(history)]),
        "part.begun": begun,
        "part.failed": sum(row.answer.status == "incomplete" for row in rows),
    }
    return [finding(kind, count=count) for kind, count in counts.items() if count]


@dataclass(frozen=True)
class NextSeeds:
    """A number of seeds in all with which the next look would decide an open question, if means stay as measured.

    A look is one time at which verdicts are computed. `away` is the difference that would be found, `level` the level
    of all tests at that look, and `seconds` the time that the added runs take, one after another.
    """

    seeds: int
    away: float
    level: float
    seconds: float

    def __str__(self) -> str:
        minutes = self.seconds / 60
        return str(finding("next.seeds", gap=self.away, power=POWER, level=self.level, minutes=minutes))


def next_seeds(result: StudyResult) -> NextSeeds | None:
    """Returns the fewest seeds, at most twice as many as now, that would decide an open question; None if none would.

    An open question is a claim that is not decided, or a trial that tests cannot tell apart from the best one. Arms
    that the race has ended get no further seed.
    """
    now, look = result.history.seeds, result.history.looks
    share = share_of(look + 1) / share_of(look)
    ended = {row.trial.label: row.name for row in result.tested if row.answer.raced}
    questions: list[tuple[Estimate, float, float]] = []  # an estimate, its distance from a decision, its test's level
    for verdict in result.claims:
        undecided = verdict.word == "INCONCLUSIVE" and not {*ended.values()} & {*verdict.claim.names}
        if undecided and verdict.estimate and verdict.level and verdict.margin:
            questions.append((verdict.estimate, verdict.margin, verdict.level))
    best = result.best
    if best is not None and len(result.winners) == 1 and best in result.tested and best.test.complete:
        rows = result.compared
        for label, gap in result.level_with(best, rows).items():
            if gap.adjusted and label not in ended:
                questions.append((gap.estimate, gap.mean, gap.adjusted.level))

    options = []
    for measured, away, level in questions:
        needed = seeds_needed(away, measured.spread or 0.0, 2 * now, alpha=level * share, like=measured)
        if needed is not None:
            options.append((max(needed, now + 1), abs(away)))
    if not options:
        return None
    seeds, away = min(options, key=lambda option: (option[0], -option[1]))
    going_on = [row for row in result.tested if row.runs and not row.answer.raced]
    seconds = sum(row.seconds / len(row.runs) * (seeds - now) for row in going_on)
    return NextSeeds(seeds, away, ALPHA * share_of(look + 1), seconds)
