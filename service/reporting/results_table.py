"""Makes the table of results: the test scores of arms or confirmed points, with published scores and costs."""

from __future__ import annotations

from collections.abc import Sequence

from search_spaces.study import Ablation
from search_spaces.words import listed, plural, quoted
from service.analysis.across_trials import tunings
from service.analysis.format import between, fixed, metric_words, p_text, signed, spread, whole_percent
from service.analysis.headline import point_name
from service.analysis.power import counted_images, fewest_tested, paired_spread, power_sentence, tests_together
from service.analysis.scores import group_words, most_that_fail, score_scale
from service.analysis.statistics import ALPHA, FEWEST, Scores
from service.analysis.study_result import StudyResult
from service.analysis.trial_result import TrialResult
from service.analysis.verdicts import images_words
from service.reporting.pages import Column, Table
from service.reporting.provenance import cost_columns, cost_warning
from trainables.recipe.cost import estimate_cost

RESULTS = "results"
MEANINGS = {
    "score": "Mean ± standard deviation (SD) over all seeds; a diverged seed counts at chance.",
    "interval": (
        f"With fewer than {FEWEST} seeds their scores stand in place of an interval; that of the best of several "
        "trials is wider, as it was chosen among them."
    ),
    "published": "*Published on other data or for another question: do not compare with our scores.",
    "agreement": (
        "“Equal”: the interval of our mean lies within the margin that the study states around the published number, "
        "which counts as exact; “differs”: outside. Both are adjusted for all such numbers (Holm) and for looks."
    ),
    "difference": "Differences to the baseline are paired by seed.",
    "p": "A difference that a claim asks about has the claim's p.",
    "failed": (
        "Failed: seeds that diverged, or that are at chance and far from all others; up to so many percent of all "
        "seeds may fail. It is empty for a trial that is not above guessing."
    ),
}
"""By the name of a column of the table of results: the text that explains it. The other columns need no text."""
LEGEND = (
    f"An interval of a difference leaves out 0 where p is below {ALPHA:g}. Where all seeds score the same, the "
    "interval is as wide as the rounding to whole test images. Bold: the best by validation; of a search by its own "
    "seeds, and the fresh seeds of this table chose nothing. The time is that of all epochs of a run, without that of "
    "its parents; of runs that trained as one, each has its part. Costs are medians over the completed runs."
)
"""The text on how to read the table that a page shows with every table of results."""
OTHER_IMAGES = "Other test images would move the scores."


def meanings(columns: Sequence[Column]) -> list[str]:
    """Returns the texts that explain these columns, in the order of `MEANINGS`."""
    names = {column.name for column in columns}
    return [meaning for name, meaning in MEANINGS.items() if name in names]


def measured(result: StudyResult) -> Table | None:
    """Returns the table of results; None before any test score."""
    rows, ablation = results_rows(result), bool(result.edition.study.plan.arms)
    if not any(row.test.values for row in rows):
        return None
    score = result.edition.study.score
    failed = []
    for row in rows:
        count, of = len(row.test.failed), row.test.n
        learned = of and row.test.above_chance
        failed.append(f"{count}, up to {whole_percent(most_that_fail(count, of))}" if learned else "")
    columns = [
        *_name_columns(result, rows),
        *score_columns(metric_words(score.test), [row.test for row in rows]),
        *_published_columns(result, rows),
        *_difference_columns(result, rows),
        Column("mean", [fixed(row.validation.mean) for row in rows], metric_words(score.metric), name="validation"),
        Column("seeds", [seeds(row) for row in rows], "seeds", name="seeds"),
        *([Column("failed", failed, "seeds", under=True, name="failed")] if any(failed) else []),
        *cost_columns(rows),
    ]
    compared = plural(len(rows), "arm") if ablation else plural(len(result.confirmed), "confirmed point")
    if not ablation and result.random:
        compared += f", and of the best of {plural(len(result.of('rival')), 'random point')}"
    title = f"The {metric_words(score.test)} of {compared}{'' if ablation else ', on fresh seeds'}"
    strong = frozenset(number for number, row in enumerate(rows) if row in result.winners)
    legend = " ".join([*meanings(columns), LEGEND])
    return Table(RESULTS, title, columns, strong, " ".join(_notes(result, rows)), legend)


def results_rows(result: StudyResult) -> Sequence[TrialResult]:
    """Returns the trials of the table: the tested points of a search, or the arms of an ablation.

    Arms are in the study's order, but those that are compared with the same arm stand together.
    """
    plan = result.edition.study.plan
    if not isinstance(plan, Ablation):
        return result.tested
    order = {name: number for number, name in enumerate(plan.grouped())}
    return sorted(result.of("trial"), key=lambda row: order[row.name])


def _name_columns(result: StudyResult, rows: Sequence[TrialResult]) -> list[Column]:
    """Returns the columns that name an arm or a point; for axes, one column each, that of the baseline's axis last."""
    plan = result.edition.study.plan
    if not isinstance(plan, Ablation) or not plan.axes:
        return [Column(plan.noun, [row_name(result, row) for row in rows], words=True, name="name")]
    combinations = [plan.combination(row.name) for row in rows]
    marks = [" (baseline)" if plan.is_baseline(row.name) else "" for row in rows]
    cells = {axis: [names[axis] for names in combinations] for axis in plan.other_axes}
    cells[plan.baseline_axis] = [
        names[plan.baseline_axis] + mark for names, mark in zip(combinations, marks, strict=True)
    ]
    return [Column(axis, values, words=True, name="name") for axis, values in cells.items()]


def row_name(result: StudyResult, row: TrialResult) -> str:
    """Returns a trial's name for the first column, with what is special about it, such as `(baseline)`."""
    plan = result.edition.study.plan
    if plan.arms:
        return f"{row.name} (baseline)" if plan.is_baseline(row.name) else row.name
    return point_name(result, row)


def score_columns(group: str, scores: Sequence[Scores]) -> list[Column]:
    """Returns the column of means with standard deviations, and, to stand under it, that of intervals.

    Where the seeds are too few for an interval, their scores take its place. `group` is the head over both columns.
    """
    cells = []
    for score in scores:
        values = ", ".join(fixed(value) for value in sorted(score.values.values()))
        cells.append(between(score.interval) if score.interval else values if score.n > 1 else "")
    columns = [Column("mean ± SD", [spread(score.mean, score.std) for score in scores], group, name="score")]
    if any(cells):
        head = "95 % interval" if any(score.interval for score in scores) else "seeds"
        columns.append(Column(head, cells, group, under=True, name="interval"))
    return columns


def seeds(row: TrialResult) -> str:
    """Returns the number of a trial's seeds that have an answer, as `4/5` if one lacks it, and how many diverged."""
    diverged = len(row.test.diverged)
    count = f"{row.validation.n}" if row.validation.complete else f"{row.validation.n}/{row.validation.asked}"
    return f"{count}, {diverged} diverged" if diverged else count


def _published_columns(result: StudyResult, rows: Sequence[TrialResult]) -> list[Column]:
    """Returns the columns of published scores, starred if of other data or another question, and whether ours agree."""
    published, agreements = [], []
    for row in rows:
        numbers = [
            spread(entry.value, entry.spread) + ("" if result.comparable(entry) else "*")
            for entry in result.published(row)
        ]
        published.append(", ".join(numbers))
        entries = result.edition.study.published
        judged = [
            agreement.words
            for number, agreement in result.agreements.items()
            if result.named.get(entries[number].who) is row
        ]
        agreements.append(", ".join(judged))
    group = metric_words(result.edition.study.score.test)
    columns = [Column("published", published, group, name="published")] if any(published) else []
    if any(agreements):
        columns.append(Column("ours", agreements, group, words=True, under=True, name="agreement"))
    return columns


def _difference_columns(result: StudyResult, rows: Sequence[TrialResult]) -> list[Column]:
    """Returns the columns of differences to the baseline, with intervals and p, and of published differences."""
    plan = result.edition.study.plan
    if not result.differences:
        return []
    gaps = [result.differences.get(row.name) for row in rows]
    group = f"minus {plan.baseline_words}, paired"
    columns = [Column("mean", [signed(gap.mean) if gap else "" for gap in gaps], group, name="difference")]
    if any(gap.p is not None for gap in result.differences.values()):
        intervals = [between(gap.interval) if gap else "" for gap in gaps]
        columns.append(Column("95 % interval", intervals, group, under=True, name="difference-interval"))
        p = [p_text(gap.p).removeprefix("= ") if gap else "" for gap in gaps]
        columns.append(Column("p (Holm)", p, group, name="p"))
    published = [published_difference(result, row) for row in rows]
    return columns + ([Column("published", published, group, name="published-difference")] if any(published) else [])


def published_difference(result: StudyResult, row: TrialResult) -> str:
    """Returns a paper's own difference of an arm to the baseline; empty unless one table has both numbers."""
    plan = result.edition.study.plan
    entries = {entry.who: entry for entry in result.edition.study.published}
    mine, other = entries.get(row.name), entries.get(plan.compared_with(row.name) or "")
    return signed(mine.value - other.value) if mine and other and mine.places & other.places else ""


def _notes(result: StudyResult, rows: Sequence[TrialResult]) -> list[str]:
    """Returns sentences on the numbers of this table: how they were tested, what the seeds can detect, and warnings."""
    notes = []
    if any(gap.p is not None for gap in result.differences.values()):
        notes += [f"{adjusted_words(result)}.", *earlier_words(result)]
    intervals = [row.test for row in rows if row.test.interval]
    draws = [test.estimate.draws for test in intervals if test.estimate]
    notes.append(images_words(draws, [row.recipe.data for row in rows]) if intervals else OTHER_IMAGES)
    if any(row.answer.raced for row in rows):
        notes.append("Trials that the race ended have fewer seeds, and their means are a little too low.")
    groups = [f"{row_name(result, row)}: {words}" for row in rows if (words := group_words(row.test))]
    if groups:
        notes.append(f"Seeds lie in two groups, and the mean is that of all: {'; '.join(groups)}.")
    notes += _tuning_notes(result)

    plan = result.edition.study.plan
    compared = result.compared
    if len(compared) > 1:
        std = paired_spread({row.name: row.test for row in compared}, plan)
        data, count = fewest_tested(row.recipe for row in compared), max(row.test.asked for row in compared)
        tests, look = tests_together(result.edition, len(compared)), result.history.looks
        notes.append(power_sentence(count, std, score_scale(data, "test"), counted_images(data), tests, look))
    counts = {estimate_cost(row.recipe).parameters for row in rows}
    if len(counts) == 1:
        notes.append(f"Every model has {counts.pop():,} parameters.")
    return [*notes, *filter(None, [cost_warning(result)])]


def _tuning_notes(result: StudyResult) -> list[str]:
    """Returns sentences on how arms were tuned, and how many got the highest or lowest value; empty without tuning."""
    plan = result.edition.study.plan
    if plan.tune is None:
        return []
    search = f"{plural(plan.tune.trials, 'trial')} of {listed(plan.tune.paths)}"
    notes = [f"Each arm was tuned first, by the same search over {search}, on seeds of its own."]
    arms = tunings(result.history, result.rows)
    for path in plan.tune.paths:
        ends = {"highest": 0, "lowest": 0}
        for tuning in arms:
            values = [row.value(path) for row in tuning.rows if path in row.trial.values]
            numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
            if tuning.chosen is not None and numbers and min(numbers) < max(numbers):
                ends["highest"] += tuning.chosen.value(path) == max(numbers)
                ends["lowest"] += tuning.chosen.value(path) == min(numbers)
        counts = ", ".join(f"{end}: {count}" for end, count in ends.items() if count)
        if counts:
            notes.append(
                f"{path} is at an end of what was tried for {sum(ends.values())} of {plural(len(arms), 'arm')} "
                f"({counts}): a value beyond it may suit them better."
            )
    return notes


def earlier_words(result: StudyResult) -> list[str]:
    """Returns a sentence on the differences that were found at an earlier look (a time at which verdicts are computed).

    It gives each with its seeds at that look and what all seeds say now. The list is empty if there are none.
    """
    names = [f"{quoted(name)} ({gap.seeds})" for name, gap in result.differences.items() if gap.later]
    return [f"Found at an earlier look, and so it stays: {'; '.join(names)}."] if names else []


def adjusted_words(result: StudyResult) -> str:
    """Returns the words that say for how many tests and looks the p of claims and differences are adjusted."""
    count, look = result.adjusted_over, result.history.looks
    tests = f"{count} tests (Holm) and for " if count > 1 else ""
    number = f" (this is look {look})" if look > 1 else ""
    together = "; their 95 % intervals hold together" if count > 1 else ""
    return f"p is two-sided and adjusted for {tests}looks{number}{together}"
