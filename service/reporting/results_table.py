"""The table of results: arms, or confirmed points, on the test set, beside what was published and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from search_spaces.study import Ablation
from search_spaces.words import listed, plural, quoted
from service.analysis.arm_tunings import ArmTuning, tunings
from service.analysis.format import between, fixed, metric_words, p_text, signed, spread, whole_percent
from service.analysis.headline import point_name
from service.analysis.power import counted_images, fewest_tested, paired_spread, power_sentence, tests_together
from service.analysis.scores import failures, group_words, most_that_fail, score_scale
from service.analysis.statistics import ALPHA, FEWEST, Scores
from service.analysis.study_result import StudyResult
from service.analysis.verdicts import images_words
from service.reporting.pages import Column, Table
from service.reporting.provenance import cost_columns, cost_note

if TYPE_CHECKING:
    from service.analysis.methods import Methods
    from service.analysis.trial_result import TrialResult

RESULTS = "results"
DIVERGED = "A diverged seed counts at chance."
FEW = f"With fewer than {FEWEST} seeds the scores of the seeds are shown in place of an interval."
FAILED = (
    "Failed: seeds that diverged, or that are at chance and far from all others; up to so many percent of all seeds "
    "may fail."
)
OTHER_IMAGES = "Other test images would move the scores."


def measured(result: StudyResult) -> Table | None:
    """Returns the table, or None before any test score."""
    ablation = isinstance(result.edition.study.plan, Ablation)
    rows = shown(result)
    if not any(row.test.values for row in rows):
        return None
    score = result.edition.study.score
    columns = [
        *_names(result, rows),
        *score_columns(metric_words(score.test), [row.test for row in rows]),
        *_published(result, rows),
        *_differences(result, rows),
        Column("mean", [fixed(row.validation.mean) for row in rows], metric_words(score.metric), name="validation"),
        Column("seeds", [seeds(row) for row in rows], "seeds", name="seeds"),
        *_failed(rows),
        *cost_columns(rows),
    ]
    strong = frozenset(place for place, row in enumerate(rows) if row in result.winners)
    fresh = "" if ablation else ", on fresh seeds"
    of = plural(len(rows), "arm") if ablation else _points_words(result)
    title = f"The {metric_words(score.test)} of {of}{fresh}"
    return Table(RESULTS, title, columns, strong, _note(result, rows, columns))


def over_tasks(result: StudyResult) -> Table | None:
    """Returns the mean score of each method on each task, and over families of tasks, the highest of these first.

    None for a study without tasks, or before any test score.
    """
    methods = result.methods
    if methods is None or not any(one.n for scores in methods.tasks.values() for one in scores.values()):
        return None
    names, metric = [*(methods.means or methods.names)], metric_words(result.edition.study.score.test)
    columns = [Column("method", names, words=True)]
    columns += [
        Column(task, [_mean(scores[name]) if name in scores else "" for name in names], metric)
        for task, scores in methods.tasks.items()
    ]
    if methods.means:
        head = "mean over families" if methods.in_families else "mean over tasks"
        columns.append(Column(head, [fixed(methods.means[name]) for name in names]))
    return Table("tasks", f"The mean {metric} of each method by task", columns, note=_tasks_note(methods))


def _mean(scores: Scores) -> str:
    """Returns the mean of the seeds that there are; if some are missing, with their number: `0.9000 (1/3)`."""
    return f"{fixed(scores.mean)}{'' if scores.complete else f' ({scores.n}/{scores.asked})'}".strip()


def _tasks_note(methods: Methods) -> str:
    parts = ["Means are over all seeds, also those that failed."]
    if any(0 < one.n < one.asked for scores in methods.tasks.values() for one in scores.values()):
        parts.append("In brackets: how many seeds there are, of how many.")
    if methods.in_families:
        families: dict[str, list[str]] = {}
        for task in methods.counted:
            families.setdefault(methods.families.get(task, task), []).append(task)
        several = {family: tasks for family, tasks in families.items() if len(tasks) > 1}
        parts += [f"Family {quoted(family)}: {listed(tasks)}." for family, tasks in several.items()]
        parts.append("In the last column each family counts the same, and in it each task.")
    if methods.left_out:
        parts.append(f"Not in a mean over tasks, as some method lacks a seed there: {', '.join(methods.left_out)}.")
    return " ".join([*parts, "This table tests no difference."])


def shown(result: StudyResult) -> Sequence[TrialResult]:
    """Returns the rows: tested points, or the arms in the study's order, with those compared with one arm together."""
    plan = result.edition.study.plan
    if not isinstance(plan, Ablation):
        return result.tested
    places = {name: place for place, name in enumerate(plan.grouped())}
    return sorted(result.of("trial"), key=lambda row: places[row.name])


def _names(result: StudyResult, rows: Sequence[TrialResult]) -> list[Column]:
    """Returns what a row is: an arm or a point by its name.

    Of axes the value on each, that of the baseline's axis last.
    """
    plan = result.edition.study.plan
    if not isinstance(plan, Ablation) or not plan.axes:
        head = "arm" if isinstance(plan, Ablation) else "point"
        return [Column(head, [row_name(result, row) for row in rows], words=True, name="name")]
    combinations = [plan.combination(row.name) for row in rows]
    marks = [" (baseline)" if plan.is_baseline(row.name) else "" for row in rows]
    values = [names[plan.baseline_axis] + mark for names, mark in zip(combinations, marks, strict=True)]
    axes = {axis: [names[axis] for names in combinations] for axis in plan.other_axes}
    return [
        Column(axis, cells, words=True, name="name") for axis, cells in (axes | {plan.baseline_axis: values}).items()
    ]


def score_columns(group: str, scores: Sequence[Scores]) -> list[Column]:
    """Returns the mean with its standard deviation, and under it the interval or the seeds themselves."""
    intervals = [interval_words(score) for score in scores]
    columns = [Column("mean ± SD", [spread(score.mean, score.std) for score in scores], group, name="score")]
    if any(intervals):
        some = any(score.interval for score in scores)
        columns.append(Column("95 % interval" if some else "seeds", intervals, group, under=True, name="interval"))
    return columns


def _failed(rows: Sequence[TrialResult]) -> list[Column]:
    """Returns how many seeds failed; no column where nothing was learned."""
    cells = [failed_words(row.test) for row in rows]
    return [Column("failed", cells, "seeds", under=True, name="failed")] if any(cells) else []


def failed_words(scores: Scores) -> str:
    """Returns how many seeds failed, and up to which share of all may fail: `0, up to 45 %`; nothing at chance."""
    failed, seeds = failures(scores)
    if not seeds or not scores.above_chance:
        return ""
    return f"{failed}, up to {whole_percent(most_that_fail(failed, seeds))}"


def seeds(row: TrialResult) -> str:
    """Returns how many seeds have an answer, of how many where some lack one, and how many diverged."""
    fallen = len(row.test.diverged)
    count = f"{row.validation.n}" if row.validation.complete else f"{row.validation.n}/{row.validation.asked}"
    return f"{count}, {fallen} diverged" if fallen else count


def row_name(result: StudyResult, row: TrialResult) -> str:
    """Returns a trial's name in the first column, with what is special about it."""
    plan = result.edition.study.plan
    if isinstance(plan, Ablation):
        return f"{row.name} (baseline)" if plan.is_baseline(row.name) else row.name
    return point_name(result, row)


def _points_words(result: StudyResult) -> str:
    """Returns `4 confirmed points, and of the best of 20 random points`."""
    count = len(result.of("rival"))
    rival = f", and of the best of {plural(count, 'random point')}" if result.random else ""
    return f"{plural(len(result.confirmed), 'confirmed point')}{rival}"


def interval_words(scores: Scores) -> str:
    """Returns the interval of the mean; the seeds themselves where they are too few."""
    values = ", ".join(fixed(value) for value in sorted(scores.values.values()))
    return between(scores.interval) if scores.interval else values if scores.n > 1 else ""


def _published(result: StudyResult, rows: Sequence[TrialResult]) -> list[Column]:
    """Returns the published numbers; a star where they are of other data, or of another question."""
    cells = [
        ", ".join(
            spread(entry.value, entry.spread) + ("" if result.comparable(entry) else "*")
            for entry in result.published(row)
        )
        for row in rows
    ]
    group = metric_words(result.edition.study.score.test)
    judged = [agreement_words(result, row) for row in rows]
    columns = [Column("published", cells, group, name="published")] if any(cells) else []
    return [*columns, Column("ours", judged, group, True, under=True, name="agreement")] if any(judged) else columns


def agreement_words(result: StudyResult, row: TrialResult) -> str:
    """Returns whether a trial's score equals its published numbers, where that is judged."""
    places = result.edition.study.published
    known = [agreement for place, agreement in result.agreements.items() if result.named.get(places[place].who) is row]
    return ", ".join(agreement.words for agreement in known)


def _differences(result: StudyResult, rows: Sequence[TrialResult]) -> list[Column]:
    plan = result.edition.study.plan
    if not result.differences or not isinstance(plan, Ablation):
        return []
    gaps = [result.differences.get(row.name) for row in rows]
    group = f"minus {plan.baseline_words}, paired"
    columns = [Column("mean", [signed(gap.mean) if gap else "" for gap in gaps], group, name="difference")]
    if _tested(result):
        intervals = [between(gap.interval) if gap else "" for gap in gaps]
        columns.append(Column("95 % interval", intervals, group, under=True, name="difference-interval"))
        p = [p_text(gap.p).removeprefix("= ") if gap else "" for gap in gaps]
        columns.append(Column("p (Holm)", p, group, name="p"))
    published = [published_difference(result, row) for row in rows]
    return columns + ([Column("published", published, group, name="published-difference")] if any(published) else [])


def _tested(result: StudyResult) -> bool:
    """Returns whether any difference has enough pairs for a test."""
    return any(gap.p is not None for gap in result.differences.values())


def published_difference(result: StudyResult, row: TrialResult) -> str:
    """Returns a paper's own difference between an arm and the baseline, where both numbers are of one table.

    It may stand beside ours if data differ.
    """
    plan = result.edition.study.plan
    assert isinstance(plan, Ablation)
    known = {entry.who: entry for entry in result.edition.study.published}
    mine, other = known.get(row.name), known.get(plan.compared_with(row.name) or "")
    return signed(mine.value - other.value) if mine and other and mine.places & other.places else ""


def _note(result: StudyResult, rows: Sequence[TrialResult], columns: Sequence[Column]) -> str:
    some = any(row.test.interval for row in rows)
    interval = ", with the 95 % interval of the mean" if some else ""
    parts = [f"Mean ± standard deviation (SD) over all seeds{interval}.", *_bold(result, rows)]
    parts += filter(None, [_tuning_sentence(result)])
    if any(row.test.diverged for row in rows):
        parts += [DIVERGED]
    if any(row.answer.raced for row in rows):
        parts += ["Arms that the race ended have fewer seeds, and their means are a little too low."]
    draws = [row.test.estimate.draws for row in rows if row.test.interval and row.test.estimate]
    parts += [images_words(draws, [row.recipe.data for row in rows]) if some else OTHER_IMAGES]
    if any(1 < row.test.n < FEWEST for row in rows):
        parts += [FEW]
    if any(row.test.interval and not row.test.std and row.test.scale.step for row in rows):
        parts += ["Where all seeds score the same, the interval is as wide as the rounding to whole test images."]
    if groups := [f"{row_name(result, row)}: {words}" for row in rows if (words := group_words(row.test))]:
        parts += [f"Seeds lie in two groups, and the mean is that of all: {'; '.join(groups)}."]
    if any(row.test.above_chance for row in rows):
        parts += [FAILED]
    if any(row.test.above_chance for row in rows) and not all(row.test.above_chance for row in rows if row.test.n):
        parts += ["“Failed” is empty for a trial that is not above guessing."]
    if _tested(result):
        parts += [*_test_words(result), *earlier_words(result)]
    if result.agreements:
        tests = f"{plural(len(result.agreements), 'number')} (Holm) and for " if len(result.agreements) > 1 else ""
        parts += [
            "“Equal”: the interval of our mean lies within the margin that the study states around the published "
            f"number, which counts as exact; “differs”: outside. Both are adjusted for {tests}looks."
        ]
    parts += _power(rows, result)
    parts += cost_note(result, rows)
    parts += star_words(result, columns)
    return " ".join(parts)


def _bold(result: StudyResult, rows: Sequence[TrialResult]) -> list[str]:
    """Returns what the bold row is, and why its interval is wider; nothing without one."""
    if not any(row in result.winners for row in rows):
        return []
    if result.ranking.confirmed:
        return ["Bold: the best by the search's own seeds; the fresh seeds of this table chose nothing."]
    return ["Bold: the best by validation.", *best_of_words(row.test for row in rows)]


def best_of_words(scores: Iterable[Scores]) -> list[str]:
    """Returns why the interval of the best of several arms is wider than those of the others; nothing where none is."""
    return [
        f"The interval of the best is wider, as it was chosen: it holds for the best of {of} arms."
        for of in {one.best_of for one in scores if one.interval} - {1}
    ]


def earlier_words(result: StudyResult) -> list[str]:
    """Returns the differences that an earlier look found, with their seeds, and what is there now; nothing for none."""
    found = [f"{quoted(name)} ({gap.seeds})" for name, gap in result.differences.items() if gap.later]
    return [f"Found at an earlier look, and so it stays: {'; '.join(found)}."] if found else []


def star_words(result: StudyResult, columns: Sequence[Column]) -> list[str]:
    """Returns what the star of a published number means, where there is one."""
    if not any("*" in cell for column in columns if column.name == "published" for cell in column.cells):
        return []
    return [f"*Published on other data or for another question{_why(result)}: do not compare with our scores."]


def _why(result: StudyResult) -> str:
    return f" (here {result.departure.why})" if result.departure else ""


def _power(rows: Sequence[TrialResult], result: StudyResult) -> list[str]:
    """Returns which differences the study's seeds can detect in its tests: of a search between confirmed points."""
    plan = result.edition.study.plan
    rows = rows if isinstance(plan, Ablation) else result.confirmed
    if len(rows) < 2:
        return []
    count = max(row.test.asked for row in rows)
    std, data = paired_spread({row.name: row.test for row in rows}, plan), fewest_tested(row.recipe for row in rows)
    tests, look = tests_together(result.edition, len(rows)), result.history.looks
    return [power_sentence(count, std, score_scale(data, "test"), counted_images(data), tests, look)]


def _test_words(result: StudyResult) -> list[str]:
    """Returns how differences are tested: together with the claims, whose note says how, or by themselves."""
    zero = f"An interval leaves out 0 where p is below {ALPHA:g}."
    if tested_claims(result):
        how = "Differences are paired by seed, and tested together with the claims."
    else:
        how = f"Differences are paired by seed; {adjusted_words(result)}."
    return [how, zero, *claimed_words(result)]


def tested_claims(result: StudyResult) -> bool:
    """Returns whether claims are tested here, so that their note says how all tests of the page are."""
    return bool(result.edition.study.claims) and (result.departure is None or result.departure.told)


def adjusted_words(result: StudyResult, *, together: bool = True, look: bool = True) -> str:
    """Returns how claims and differences are adjusted. `together`: with their intervals; `look`: with a later look."""
    count, number = result.adjusted_over, result.history.looks
    tests = f"{count} tests (Holm) and for " if count > 1 else ""
    this = f" (this is look {number})" if look and number > 1 else ""
    intervals = "; their 95 % intervals hold together" if together and count > 1 else ""
    return f"p is two-sided and adjusted for {tests}looks{this}{intervals}"


def claimed_words(result: StudyResult) -> list[str]:
    """Returns how many differences a claim tests alone, if any."""
    claimed = sum(gap.claimed for gap in result.differences.values())
    words = (
        "is that of a claim, and has the claim's p" if claimed == 1 else "are those of claims, and have the claims' p"
    )
    return [f"{plural(claimed, 'difference')} {words}."] if claimed else []


def _tuning_sentence(result: StudyResult) -> str:
    """Returns how the arms were tuned, for the note under a table; empty if they were not."""
    plan = result.edition.study.plan
    if not isinstance(plan, Ablation) or plan.tune is None:
        return ""
    search = f"{plural(plan.tune.trials, 'trial')} of {listed(plan.tune.paths)}"
    tuned = f"Each arm was tuned first, by the same search over {search}, on seeds of its own."
    return " ".join([tuned, *_at_ends(tunings(result), plan.tune.paths)])


def _at_ends(arms: Sequence[ArmTuning], paths: Iterable[str]) -> Iterator[str]:
    """Yields, for each path of numbers, how many arms take the highest or the lowest value that was tried for them."""
    for path in paths:
        ends = {"highest": 0, "lowest": 0}
        for tuning in arms:
            values = [row.value(path) for row in tuning.rows if path in row.trial.values]
            tried = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
            if tuning.chosen is not None and tried and min(tried) < max(tried):
                ends["highest"] += tuning.chosen.value(path) == max(tried)
                ends["lowest"] += tuning.chosen.value(path) == min(tried)
        counts = ", ".join(f"{end}: {count}" for end, count in ends.items() if count)
        if counts:
            yield (
                f"{path} is at an end of what was tried for {sum(ends.values())} of {plural(len(arms), 'arm')} "
                f"({counts}): a value beyond it may suit them better."
            )
