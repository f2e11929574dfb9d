"""Makes the further tables of a report: data efficiency, a search's points, parents, unfinished runs, probes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from search_spaces.plans.ablation import overrides
from search_spaces.study import Ablation
from search_spaces.words import (
    Setting,
    configuration,
    domain_words,
    duration,
    listed,
    opened_words,
    plural,
    quoted,
    setting_words,
)
from service.analysis.across_trials import tunings
from service.analysis.best import ranked
from service.analysis.data_efficiency import LEVELS
from service.analysis.format import between, fixed, metric_words, number, spread, two
from service.analysis.probes import probe_scores
from service.analysis.statistics import Scores
from service.analysis.study_result import StudyResult
from service.analysis.trial_result import TrialResult
from service.reporting.figures.search import axis_label, panels, shares
from service.reporting.pages import FEW_ROWS, Column, Table
from service.reporting.provenance import cost_columns
from service.reporting.results_table import row_name, score_columns, seeds
from service.storage.history import ancestors
from service.storage.outcomes import TIMES
from trainables.recipe.findings import Findings, Probed, When
from trainables.spec import SpecError


def points(result: StudyResult) -> Table | None:
    """Returns the table of a search's points with their validation scores, the best first; None for an ablation."""
    if result.edition.study.plan.arms:
        return None
    return _points(result, "points", "point", result.of("trial"), result.winners)


def random_points(result: StudyResult) -> Table | None:
    """Returns the table of the random points with which a search is compared; None if there are none."""
    return _points(result, "random", "random point", result.of("rival"), [result.random] if result.random else [])


def tuning_points(result: StudyResult) -> Table | None:
    """Returns the table of the trials that tune arms, arm by arm in the order of trying; None if there are none."""
    arms = tunings(result.history, result.rows)
    chosen = [tuning.chosen for tuning in arms if tuning.chosen]
    return _points(result, "tuning", "trial", [row for tuning in arms for row in tuning.rows], chosen)


def _points(
    result: StudyResult, name: str, noun: str, rows: Sequence[TrialResult], best: Sequence[TrialResult]
) -> Table | None:
    """Returns a table of these trials, with validation scores and the best in bold; None without trials."""
    if not rows:
        return None
    metric = metric_words(result.edition.study.score.metric)
    title = f"All {plural(len(rows), noun)} on {metric}"
    if name == "tuning":
        title = f"All {plural(len(rows), noun)} of the tuning"
    else:
        order = {trial.label: number for number, trial in enumerate(ranked(result.history))}
        rows = sorted(rows, key=lambda row: order[row.trial.label])
    columns = [
        Column(
            "trial" if name == "tuning" else "point", [f"#{row.trial.label} {row.name}" for row in rows], words=True
        ),
        Column("mean ± SD", [spread(row.validation.mean, row.validation.std) for row in rows], metric),
        Column("seeds", [seeds(row) for row in rows]),
        Column("epochs", [str(row.answer.epoch) for row in rows]),
        Column("state", [row.answer.status for row in rows], words=True),
        *(cost_columns(rows) if name != "tuning" else []),
    ]
    numbers = {row.trial.number for row in best}
    strong = frozenset(number for number, row in enumerate(rows) if row.trial.number in numbers)
    return Table(name, title, columns, strong, folded=True)


RUNGS = (
    "Rank correlation (Spearman) of the first seed's validation score there with the trial's final mean over all "
    "seeds, over the trials that completed. Trials that were stopped have no final score: the correlation is then that "
    "among the better ones, which is lower than among all."
)


def rungs(result: StudyResult) -> Table | None:
    """Returns a table on how well the scores at each rung, an epoch of early stopping, order the trials as at the end.

    None if there are no rungs, or nothing to say of them.
    """
    ladder, plan, saved = result.rungs, result.edition.study.plan, str(result.saved)
    correlated = any(rung.correlation is not None for rung in ladder)
    if not ladder or not (correlated or saved):
        return None
    columns = [
        Column("after epoch", [str(rung.epoch) for rung in ladder]),
        Column("trials measured", [str(rung.reached) for rung in ladder]),
        Column("completed", [str(rung.ended) for rung in ladder]),
        Column("rank correlation", ["" if rung.correlation is None else two(rung.correlation) for rung in ladder]),
    ]
    title = "How well early scores order the trials" if plan.stop is None else "How early stopping did"
    return Table("rungs", title, columns, note=f"{RUNGS} {saved}".rstrip())


def parents(result: StudyResult) -> Table | None:
    """Returns the table of parents, trials from whose weights others start or learn; None if there are none."""
    rows = result.of("parent")
    if not rows:
        return None
    arms = result.edition.study.plan.arms
    children = []
    for parent in rows:
        keys = {run.run.key for run in parent.runs.values()}
        needing = [
            quoted(row.name) if arms else f"#{row.trial.label}"
            for row in result.rows
            if row.trial.role != "parent"
            and any(ancestor.key in keys for run in row.runs.values() for ancestor in ancestors(run.run))
        ]
        children.append(listed(needing))
    metrics = [metric_words(row.trial.score.test) for row in rows]
    mixed = len({*metrics}) > 1
    group = "test score" if mixed else metrics[0]
    columns = [
        Column("parent", [f"{row.trial.label} {row.name}" for row in rows], words=True),
        *score_columns(group, [row.test for row in rows]),
        *([Column("metric", metrics, group, words=True)] if mixed else []),
        Column("seeds", [seeds(row) for row in rows]),
        Column("epochs", [str(row.answer.epoch) for row in rows]),
        Column("state", [row.answer.status for row in rows], words=True),
        Column("needed by", children, words=True),
        *cost_columns(rows),
    ]
    note = "Other trials start from a parent's weights, or learn from them. Its score is that of its own data."
    return Table("parents", f"{plural(len(rows), 'parent')} of trials", columns, note=note)


def unfinished(result: StudyResult) -> Table | None:
    """Returns the table of runs that were stopped, diverged or failed, with the reason; None if there are none.

    A page shows the table only on demand if all these runs were stopped early.
    """
    ends = ("failed", "diverged", "stopped")
    arms = result.edition.study.plan.arms
    runs, names = [], []
    for status in ends:
        for row in result.rows:
            ended = [run for run in row.runs.values() if run.state.status == status]
            mark = "" if row.trial.role != "trial" else "#"
            arm = arms and row.trial.role == "trial"
            runs += ended
            names += [row.name if arm else f"{mark}{row.trial.label} {row.name}"] * len(ended)
    if not runs:
        return None
    columns = [
        Column("trial", names, words=True),
        Column("seed", [str(run.run.seed) for run in runs]),
        Column("end", [run.state.status for run in runs], words=True),
        Column("why", [run.reason for run in runs], words=True),
    ]
    stopped = all(run.state.status == "stopped" for run in runs)
    return Table("unfinished", f"{plural(len(runs), 'run')} that did not run to the end", columns, folded=stopped)


def tuned(result: StudyResult) -> Table | None:
    """Returns the table of the values that tuning chose for each arm; None without tuning, or before one has ended."""
    arms, plan = tunings(result.history, result.rows), result.edition.study.plan
    if plan.tune is None:
        return None
    values, given = [], []
    for tuning in arms:
        waiting = "left out" if tuning.ended == tuning.trials else "not yet"
        values.append("not tuned" if tuning.settled and tuning.chosen is None else tuning.values or waiting)
        recipe, settings = result.edition.study.recipe(plan.arms[tuning.arm]), {}
        for path in plan.tune.paths:
            try:
                settings[path] = recipe.get(path)
            except SpecError:  # a path that opens with a value of another one
                continue
        given.append(", ".join(setting_words(settings)))
    if all(value == "not yet" for value in values):
        return None
    metric = metric_words(result.edition.study.score.metric)
    chosen = [tuning.chosen for tuning in arms]
    scores = [spread(row.validation.mean, row.validation.std) if row else "" for row in chosen]
    columns = [
        Column("arm", [tuning.arm for tuning in arms], words=True),
        Column("trials", [tuning.trial_counts for tuning in arms]),
        Column("chosen", [f"#{row.trial.label}" if row else "" for row in chosen], words=True),
        Column("tuned to", values, words=True),
        Column("given", given, words=True, under=True),
        Column("mean ± SD", scores, metric),
        Column("time of all trials", [duration(tuning.seconds) if tuning.seconds else "" for tuning in arms]),
    ]
    every = [seed for tuning in arms for row in tuning.rows for seed in row.runs]
    on = f" ({min(every)}{f' to {max(every)}' if max(every) > min(every) else ''})" if every else ""
    note = (
        f"A trial is scored by its {metric} over {plural(plan.tune.seeds, 'seed')}{on}, on which no arm is compared. "
        "An arm gets the values of its highest trial, of equal ones of the first. The time is that of all runs that "
        "tuned the arm; no other table counts it."
    )
    count, paths = plural(plan.tune.trials, "trial"), plural(len(plan.tune.paths), "path")
    return Table("tuned", f"Each arm is tuned over {count} of {paths}", columns, note=note)


def varied(result: StudyResult) -> Table:
    """Returns the table of what the study changes: each arm's values, or the searched paths with their importance."""
    plan = result.edition.study.plan
    if isinstance(plan, Ablation):
        return _arms(result, plan)
    searched = panels(plan.space)
    recipes = [row.recipe for row in result.rows]
    names = [opened_words(axis_label(panel.path, recipes), panel.given) for panel in searched]
    columns = [
        Column("searched", names, words=True),
        Column("may be", [domain_words(panel.domain) for panel in searched], words=True),
    ]
    importances = shares(result)
    if not importances:
        return Table("space", "What the search may change", columns)
    from service.planning.sampling import MOST_POINTS, scored_points  # Optuna takes a while to import

    count = len(scored_points(result.history))
    drawn = f"{MOST_POINTS} of " if count > MOST_POINTS else ""
    note = (
        "Importance: the share of the score's variance that a path explains (fANOVA of Optuna), estimated from "
        f"{drawn}the {plural(count, 'point')} that were not stopped at a rung; random points count, too. A sampler "
        "that learns chooses its points near good ones."
    )
    cells = [f"{importances[panel]:.2f}" if panel in importances else "" for panel in searched]
    columns.append(Column("importance", cells))
    return Table("space", "What the search may change, and how much it matters", columns, note=note)


def _arms(result: StudyResult, plan: Ablation) -> Table:
    """Returns the table of each arm's values, and those it was tuned to.

    The note gives the values of the base that hold for an arm which does not set them, where others do.
    """
    sets = ["; ".join(setting_words(values)) or "base" for values in plan.arms.values()]
    columns = [Column("arm", list(plan.arms), words=True), Column("sets", sets, words=True)]
    chosen = [
        f"{tuning.values} (#{tuning.chosen.trial.label})" if tuning.chosen else ""
        for tuning in tunings(result.history, result.rows)
    ]
    if any(chosen):
        columns.append(Column("tuned to", chosen, words=True))
    common = {setting.path for setting in _shared(result)}
    text = "; ".join(
        f"{setting.path} = {setting.value}"
        for setting in configuration(result.edition.study.base)
        if setting.default is not None
        and setting.path not in common
        and not all(overrides(arm, setting.path) for arm in plan.arms.values())
    )
    who = "An arm that sets neither one of these nor the node that it is of"
    return Table("arms", "What each arm changes", columns, note=f"{who} has the base's value: {text}." if text else "")


def _shared(result: StudyResult) -> list[Setting]:
    """Returns the settings of the base recipe that no trial changes."""
    changed = result.paths
    nodes = tuple(path.removesuffix("kind") if path.endswith(".kind") else f"{path}." for path in changed)
    return [
        setting
        for setting in configuration(result.edition.study.base)
        if setting.path not in changed and not setting.path.startswith(nodes)
    ]


def shared(result: StudyResult) -> list[Table]:
    """Returns tables of the settings that all trials share: those that are no defaults, if any, and all of them."""
    settings = _shared(result)
    changed = [setting for setting in settings if setting.default is not None]
    tables = []
    if changed:
        columns = [
            Column("setting", [setting.path for setting in changed], words=True),
            Column("here", [setting.value for setting in changed], words=True),
            Column("default", [setting.default or "" for setting in changed], words=True),
        ]
        tables.append(Table("settings", "What every trial shares, where it differs from the defaults", columns))
    columns = [
        Column("setting", [setting.path for setting in settings], words=True),
        Column("value", [setting.value for setting in settings], words=True),
    ]
    title = f"All that the trials share, {plural(len(settings), 'setting')}"
    return [*tables, Table("recipe", title, columns, folded=True)]


LAW, IMAGES, INTERVAL = "power law", "images for a score of", "95 % interval"
EFFICIENCY = (
    "For each seed the power law limit − fall × images^(−exponent) was fitted to its scores (least squares; the limit "
    "at most a perfect score). Limit and exponent: means over seeds, with their 95 % intervals. Residual: the root of "
    "the mean squared distance of scores from the law; where it is large, the law does not hold. Images for a score: "
    "the geometric mean over seeds of where the law reaches it, within the numbers of images that were tried. A seed "
    "that diverged at some number of images has no law."
)


def efficiency(result: StudyResult) -> Table | None:
    """Returns the table of power laws of scores over training images, and of the images needed for some scores.

    None if no power law was fitted.
    """
    curves = [curve for curve in result.efficiency if curve.laws]
    if not curves:
        return None
    columns = [
        Column("trials", [curve.name for curve in curves], words=True),
        Column("images tried", [f"{min(curve.scores):,} to {max(curve.scores):,}" for curve in curves]),
    ]
    for name, head in (("limit", "limit"), ("exponent", "exponent"), ("error", "residual")):
        estimates = [curve.over_seeds(name) for curve in curves]
        columns.append(Column(head, [fixed(estimate.mean) if estimate else "" for estimate in estimates], LAW))
        if name != "error" and any(estimate is not None and estimate.testable for estimate in estimates):
            intervals = [between(estimate.interval()) if estimate else "" for estimate in estimates]
            columns.append(Column(f"{head}, {INTERVAL}", intervals, LAW, under=True))
    for share in LEVELS:
        level, means, intervals = number(curves[0].level(share)), [], []
        for needed in (curve.needed(share) for curve in curves):
            mean = interval = ""
            if needed is not None:
                of = plural(len(needed.sizes), "seed")
                for outside, end in (
                    (needed.below, f"below {needed.least:,}"),
                    (needed.beyond, f"over {needed.most:,}"),
                ):
                    if outside:
                        mean = end + (f" ({outside} of {of})" if outside < len(needed.sizes) else "")
                if needed.estimate:
                    mean = mean or f"{math.exp(needed.estimate.mean):,.0f}"
                    ends = needed.estimate.interval()
                    interval = f"{math.exp(ends[0]):,.0f} to {math.exp(ends[1]):,.0f}" if ends else ""
            means.append(mean)
            intervals.append(interval)
        columns.append(Column(level, means, IMAGES))
        if any(intervals):
            columns.append(Column(f"{level}, {INTERVAL}", intervals, IMAGES, under=True))
    title = f"How the {metric_words(result.edition.study.score.test)} grows with the number of training images"
    return Table("efficiency", title, columns, note=EFFICIENCY)


def kept_probes(result: StudyResult, probe: str) -> list[tuple[TrialResult, dict[int, Probed]]]:
    """Returns each trial with the stored findings of a probe, by seed; empty if the study does not name the probe."""
    if probe not in result.edition.study.probes:
        return []
    kept = []
    for row in result.compared:
        by_seed = {seed: run.kept(probe) for seed, run in row.probes.items()}
        kept.append((row, {seed: probed for seed, probed in by_seed.items() if probed is not None}))
    return kept


def arrays(kept: dict[int, Probed], when: When, name: str) -> list[Findings]:
    """Returns the findings of `kept`, before or after training, that have an array of this name, in order of seeds."""
    return [probed.at(when) for _, probed in sorted(kept.items()) if name in probed.at(when).arrays]


def of_first_seeds(result: StudyResult, probe: str, name: str) -> Iterator[tuple[TrialResult, Findings]]:
    """Yields each trial with a probe's findings after training, of its first seed that has an array of this name."""
    for row, kept in kept_probes(result, probe):
        for findings in arrays(kept, "after", name)[:1]:
            yield row, findings


WORDS = {
    "direction": (
        "Does a code say which position is left of, or above, another one?",
        "The accuracy of a logistic regression of the difference of two codes, with folds over positions: both ends of "
        "a tested pair are unseen. Chance is 0.5; on small samples random codes score below it. left_pairs and "
        "above_pairs have folds over pairs, in which random codes seem to know their places, too.",
    ),
    "distance": (
        "Does a code say how far apart two positions are?",
        "R² of a linear regression of the offset, with folds over positions (r2) or over pairs (r2_pairs). It has "
        "no lower end: codes that know nothing are below 0 on unseen positions.",
    ),
    "similarity": (
        "How similar are the codes of two positions?",
        "The cosine similarity of codes of neighboring positions, and of all others.",
    ),
    "attention_distance": (
        "How far do patches look?",
        "The mean distance of what a patch attends to, in patches, over heads and the first validation images, without "
        "prefix tokens; last is that of the last third of the blocks, uniform that of attention to all patches alike.",
    ),
    "attention_maps": (
        "How much of an image does the model look at?",
        "The share of the patches that the heat maps of the last block cover (area), over the first validation images: "
        "1 where all patches have the same heat.",
    ),
    "logit_terms": (
        "Which term moves the logits?",
        "The deviation of each term over the keys, as a share of the sum of all four; the query's side is named first. "
        "Codes of the tokens are split in the first block, codes of queries and keys in every block that has them. "
        "position is the deviation of the three terms with position together, in logits; last_by_first is that of the "
        "last block as a multiple of the first one's, where codes of the tokens count as carried through all blocks "
        "unchanged.",
    ),
    "channel_shapes": (
        "What do the channels of a code look like?",
        "The share of channels of each shape, and the share of variance that fits of Gabor waves, edge markers and "
        "both leave unexplained.",
    ),
    "projections": (
        "Do the image's edges go to the values?",
        "The share of a code's variance that markers of the four edges explain: of the code itself (p), and of what "
        "the first block makes of it for queries, keys and values. v_above_qk is v minus the mean of q and k.",
    ),
    "image_classes": (
        "For which images does position matter?",
        "The share of the test images that are right with and without position (ignored), only without it (mislead), "
        "only with it (correct), and in neither case (useless); changed is mislead and correct. Both models share one "
        "frozen backbone.",
    ),
    "block_channels": (
        "How long does position keep its shape?",
        "Channels of position are the quarter of all channels in which the code has the largest share of the variance "
        "before the first block; share is the mean of these shares. input, shallow and deep are the correlations of "
        "their maps (means over images) with the code: before the first block, and as means over the first and over "
        "the last third of the blocks. A share below 0.1 has no shape to keep.",
    ),
}
"""By the name of each probe: the title of its table, and a note that explains the table's numbers."""


def probe_tables(result: StudyResult) -> list[Table]:
    """Returns one table for each probe that has findings or remarks, or that some runs lack."""
    tables = []
    for probe in result.edition.study.probes:
        by_trial = kept_probes(result, probe)
        title, note = WORDS[probe]
        missing = sum(len(row.probes) - len(kept) for row, kept in by_trial)
        remarks: dict[str, None] = {}
        names: dict[str, None] = {}
        for row, kept in by_trial:
            for probed in kept.values():
                reasons = filter(None, (probed.after.note, probed.before.note))
                remarks |= dict.fromkeys(f"{row_name(result, row)}: {reason}." for reason in reasons)
                names |= dict.fromkeys((*probed.after.values, *probed.before.values))
        if missing:
            lacking = f"{plural(missing, 'run')} without it yet; locus run computes it, and trains nothing."
            remarks[lacking] = None
        rows: list[tuple[str, str, Scores, Scores]] = []
        for name in names:
            for row, _ in by_trial:
                before, after = (probe_scores(row.probes, row.answer.asked, probe, name, when) for when in TIMES)
                if before.values or after.values:
                    rows.append((name, row_name(result, row), before, after))
        if rows or remarks:
            columns = [
                Column("number", [name for name, _, _, _ in rows], words=True),
                Column("trial", [trial for _, trial, _, _ in rows], words=True),
                *score_columns("before training", [before for _, _, before, _ in rows]),
                *score_columns("after training", [after for _, _, _, after in rows]),
            ]
            text = " ".join([note, *remarks])
            tables.append(Table(f"probe_{probe}", title, columns, note=text, folded=len(rows) > FEW_ROWS))
    return tables
