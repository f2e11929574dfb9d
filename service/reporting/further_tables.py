"""The further tables of results: a search's points, parents, what did not run to the end, and one for each probe."""

from __future__ import annotations

from collections.abc import Iterator

from search_spaces.plans.ablation import overrides
from search_spaces.roles import Role
from search_spaces.study import Ablation, Search
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
from service.analysis.arm_tunings import ArmTuning, tunings
from service.analysis.best import ranked
from service.analysis.format import metric_words, spread, two
from service.analysis.probes import probe_scores
from service.analysis.statistics import Scores
from service.analysis.study_result import StudyResult
from service.analysis.trial_result import TrialResult
from service.reporting.figures.searched import axis_label, panels, shares
from service.reporting.pages import FEW_ROWS, Column, Table
from service.reporting.provenance import cost_columns
from service.reporting.results_table import row_name, score_columns, seeds
from service.storage.history import ancestors
from service.storage.outcomes import TIMES
from trainables.recipe.findings import Findings, Probed, When
from trainables.spec import SpecError


def points(result: StudyResult) -> Table | None:
    """Returns every point of a search on validation, best first, then by how far it came."""
    return None if isinstance(result.edition.study.plan, Ablation) else _points(result, "trial", "point", "points")


def random_points(result: StudyResult) -> Table | None:
    """Returns the same of the random points that a search is compared with."""
    return _points(result, "rival", "random point", "random")


def _points(result: StudyResult, role: Role, noun: str, name: str) -> Table | None:
    places = {trial.label: place for place, trial in enumerate(ranked(result.history))}
    rows = sorted(result.of(role), key=lambda row: places[row.trial.label])
    metric = metric_words(result.edition.study.score.metric)
    columns = [
        Column("point", [f"#{row.trial.label} {row.name}" for row in rows], words=True),
        Column("mean ± SD", [spread(row.validation.mean, row.validation.std) for row in rows], metric),
        Column("seeds", [seeds(row) for row in rows]),
        Column("epochs", [str(row.answer.epoch) for row in rows]),
        Column("state", [row.answer.status for row in rows], words=True),
        *cost_columns(rows),
    ]
    if not rows:
        return None
    best = result.winners if role == "trial" else [result.random] if result.random else []
    confirmed = {row.trial.number for row in best}
    strong = frozenset(place for place, row in enumerate(rows) if row.trial.number in confirmed)
    return Table(name, f"All {plural(len(rows), noun)} on {metric}", columns, strong, folded=True)


def rungs(result: StudyResult) -> Table | None:
    """Returns whether the order of a search's trials at each rung was that of their final scores."""
    ladder = result.rungs
    plan = result.edition.study.plan
    known = any(rung.correlation is not None for rung in ladder) or str(result.saved)
    if isinstance(plan, Ablation) or not ladder or not known:
        return None
    columns = [
        Column("after epoch", [str(rung.epoch) for rung in ladder]),
        Column("trials measured", [str(rung.reached) for rung in ladder]),
        Column("completed", [str(rung.ended) for rung in ladder]),
        Column("rank correlation", ["" if rung.correlation is None else two(rung.correlation) for rung in ladder]),
    ]
    any_stopped = bool(str(result.saved))  # also of random points
    stopped = (
        "Trials that were stopped have no final score: the correlation is that among the better ones, which is lower "
        "than among all."
    )
    note = (
        "Rank correlation (Spearman) of the first seed's validation score there with the trial's final mean over all "
        f"seeds, over the trials that completed. {stopped if any_stopped else 'No trial was stopped.'}"
        f" {result.saved}".rstrip()
    )
    title = "How well early scores order the trials" if plan.stop is None else "How early stopping did"
    return Table("rungs", title, columns, note=note)


def parents(result: StudyResult) -> Table | None:
    """Returns the runs that other runs start from or learn from, on their own data; None if there are none."""
    rows = result.of("parent")
    if not rows:
        return None
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
        Column("needed by", [listed(_children(result, row)) for row in rows], words=True),
        *cost_columns(rows),
    ]
    note = "Other trials start from a parent's weights, or learn from them. Its score is that of its own data."
    return Table("parents", f"{plural(len(rows), 'parent')} of trials", columns, note=note)


def _children(result: StudyResult, parent: TrialResult) -> list[str]:
    """Returns the trials with a run that needs a parent, the parent's own parents left out."""
    keys = {run.run.key for run in parent.runs.values()}
    return [
        quoted(row.name) if isinstance(result.edition.study.plan, Ablation) else f"#{row.trial.label}"
        for row in result.rows
        if row.trial.role != "parent"
        and any(ancestor.key in keys for run in row.runs.values() for ancestor in ancestors(run.run))
    ]


def _who(result: StudyResult, row: TrialResult) -> str:
    """Returns an arm by its name; a point, a confirmation or a parent with its number."""
    if row.trial.role != "trial":
        return f"{row.trial.label} {row.name}"
    return row.name if isinstance(result.edition.study.plan, Ablation) else f"#{row.trial.label} {row.name}"


def unfinished(result: StudyResult) -> Table | None:
    """Returns the runs that were stopped, diverged or failed, and why. Folded if all were stopped early."""
    ends = ("failed", "diverged", "stopped")
    runs = [(row, run) for row in result.rows for run in row.runs.values() if run.state.status in ends]
    runs.sort(key=lambda pair: ends.index(pair[1].state.status))
    if not runs:
        return None
    columns = [
        Column("trial", [_who(result, row) for row, _ in runs], words=True),
        Column("seed", [str(run.run.seed) for _, run in runs]),
        Column("end", [run.state.status for _, run in runs], words=True),
        Column("why", [run.reason for _, run in runs], words=True),
    ]
    planned = {run.state.status for _, run in runs} == {"stopped"}
    return Table("unfinished", f"{plural(len(runs), 'run')} that did not run to the end", columns, folded=planned)


def tuned(result: StudyResult) -> Table | None:
    """Returns what the tuning chose for each arm; None if arms are not tuned, or no tuning has ended."""
    arms, plan = tunings(result), result.edition.study.plan
    if all(_values(tuning) == "not yet" for tuning in arms) or not isinstance(plan, Ablation) or plan.tune is None:
        return None
    metric = metric_words(result.edition.study.score.metric)
    chosen = [tuning.chosen for tuning in arms]
    columns = [
        Column("arm", [tuning.arm for tuning in arms], words=True),
        Column("trials", [tuning.trials_words for tuning in arms]),
        Column("chosen", [f"#{row.trial.label}" if row else "" for row in chosen], words=True),
        Column("tuned to", [_values(tuning) for tuning in arms], words=True),
        Column("given", [_given(result, tuning.arm) for tuning in arms], words=True, under=True),
        Column("mean ± SD", [_score(row) for row in chosen], metric),
        Column("time of all trials", [duration(tuning.seconds) if tuning.seconds else "" for tuning in arms]),
    ]
    count, paths = plural(plan.tune.trials, "trial"), plural(len(plan.tune.paths), "path")
    return Table("tuned", f"Each arm is tuned over {count} of {paths}", columns, note=_note(result, plan, metric))


def tuning_points(result: StudyResult) -> Table | None:
    """Returns every trial of the tuning on validation: arm by arm, in the order in which they were tried."""
    arms = tunings(result)
    rows = [row for tuning in arms for row in tuning.rows]
    if not rows:
        return None
    chosen = [tuning.chosen for tuning in arms]
    columns = [
        Column("trial", [f"#{row.trial.label} {row.name}" for row in rows], words=True),
        Column("mean ± SD", [_score(row) for row in rows], metric_words(result.edition.study.score.metric)),
        Column("seeds", [seeds(row) for row in rows]),
        Column("epochs", [str(row.answer.epoch) for row in rows]),
        Column("state", [row.answer.status for row in rows], words=True),
    ]
    strong = frozenset(place for place, row in enumerate(rows) if row in chosen)
    return Table("tuning", f"All {plural(len(rows), 'trial')} of the tuning", columns, strong, folded=True)


def tuned_to(result: StudyResult) -> list[Column]:
    """Returns a column with the values of each arm that were tuned, for the table of what arms change."""
    cells = [f"{tuning.values} (#{tuning.chosen.trial.label})" if tuning.chosen else "" for tuning in tunings(result)]
    return [Column("tuned to", cells, words=True)] if any(cells) else []


def _score(row: TrialResult | None) -> str:
    return spread(row.validation.mean, row.validation.std) if row else ""


def _values(tuning: ArmTuning) -> str:
    if tuning.settled and tuning.chosen is None:
        return "not tuned"
    return tuning.values or ("left out" if tuning.ended == tuning.asked else "not yet")


def _given(result: StudyResult, arm: str) -> str:
    """Returns the values that the study gives an arm at the tuned paths; what was chosen replaces them."""
    plan = result.edition.study.plan
    assert isinstance(plan, Ablation)
    assert plan.tune is not None
    recipe = result.edition.study.recipe(plan.arms[arm])
    values = {}
    for path in plan.tune.paths:
        try:
            values[path] = recipe.get(path)
        except SpecError:  # a path that opens with a value of another one
            continue
    return ", ".join(setting_words(values))


def _note(result: StudyResult, plan: Ablation, metric: str) -> str:
    assert plan.tune is not None
    every = [seed for tuning in tunings(result) for row in tuning.rows for seed in row.runs]
    on = f" ({min(every)}{f' to {max(every)}' if max(every) > min(every) else ''})" if every else ""
    return (
        f"A trial is scored by its {metric} over {plural(plan.tune.seeds, 'seed')}{on}, on which no arm is compared. "
        "An arm gets the values of its highest trial, of equal ones of the first. The time is that of all runs that "
        "tuned the arm; no other table counts it."
    )


def varied(result: StudyResult) -> Table:
    """Returns what the study changes: each arm's values, or each searched path with its domain and its importance."""
    plan = result.edition.study.plan
    if isinstance(plan, Ablation):
        sets = ["; ".join(setting_words(values)) or "base" for values in plan.arms.values()]
        columns = [Column("arm", list(plan.arms), words=True), Column("sets", sets, words=True), *tuned_to(result)]
        return Table("arms", "What each arm changes", columns, note=_base_note(result))
    searched = panels(plan.space)
    recipes = [row.recipe for row in result.rows]
    names = [opened_words(axis_label(panel.path, recipes), panel.given) for panel in searched]
    columns = [
        Column("searched", names, words=True),
        Column("may be", [domain_words(panel.domain) for panel in searched], words=True),
    ]
    known = shares(result)
    if not known:
        return Table("space", "What the search may change", columns)
    cells = [f"{known[panel]:.2f}" if panel in known else "" for panel in searched]
    columns.append(Column("importance", cells))
    return Table("space", "What the search may change, and how much it matters", columns, note=_importance_note(result))


def _base_note(result: StudyResult) -> str:
    """Returns what arms have that do not set what others set: where the base differs from the defaults."""
    plan, common = result.edition.study.plan, {setting.path for setting in _shared(result)}
    assert isinstance(plan, Ablation)
    own = [setting for setting in configuration(result.edition.study.base) if setting.default is not None]
    some = [
        setting
        for setting in own
        if setting.path not in common and not all(overrides(arm, setting.path) for arm in plan.arms.values())
    ]
    text = "; ".join(f"{setting.path} = {setting.value}" for setting in some)
    who = "An arm that sets neither one of these nor the node that it is of"
    return f"{who} has the base's value: {text}." if text else ""


def _importance_note(result: StudyResult) -> str:
    from service.planning.sampling import MOST_POINTS, scored_points  # Optuna takes a while to import

    plan = result.edition.study.plan
    count = len(scored_points(result.history))
    some = f"{MOST_POINTS} of " if count > MOST_POINTS else ""
    learns = isinstance(plan, Search) and plan.sampler == "tpe"
    chosen = " The sampler chose its points near good ones." if learns else ""
    return (
        "Importance: the share of the score's variance that a path explains (fANOVA of Optuna), estimated from "
        f"{some}the {plural(count, 'point')} that were not stopped at a rung; random points count, "
        f"too.{chosen}"
    )


def _shared(result: StudyResult) -> list[Setting]:
    """Returns the settings that no trial changes."""
    changed = result.paths
    nodes = tuple(path.removesuffix("kind") if path.endswith(".kind") else f"{path}." for path in changed)
    return [
        setting
        for setting in configuration(result.edition.study.base)
        if setting.path not in changed and not setting.path.startswith(nodes)
    ]


def shared(result: StudyResult) -> list[Table]:
    """Returns what all trials share: if it differs from the defaults, and all of it."""
    settings = _shared(result)
    own = [setting for setting in settings if setting.default is not None]
    differs = [
        Column("setting", [setting.path for setting in own], words=True),
        Column("here", [setting.value for setting in own], words=True),
        Column("default", [setting.default or "" for setting in own], words=True),
    ]
    every = [
        Column("setting", [setting.path for setting in settings], words=True),
        Column("value", [setting.value for setting in settings], words=True),
    ]
    count = plural(len(settings), "setting")
    return [
        *([Table("settings", "What every trial shares, where it differs from the defaults", differs)] if own else []),
        Table("recipe", f"All that the trials share, {count}", every, folded=True),
    ]


ByTrial = list[tuple["TrialResult", dict[int, Probed]]]
"""The trials that probes look at, each with what is kept of one probe by seed."""


def kept_probes(result: StudyResult, probe: str) -> ByTrial:
    """Returns what is kept of a probe, nothing if the study does not name it."""
    if probe not in result.edition.study.probes:
        return []
    kept = ((row, {seed: run.kept(probe) for seed, run in row.probes.items()}) for row in result.probed)
    return [(row, {seed: probed for seed, probed in some.items() if probed is not None}) for row, some in kept]


def arrays(kept: dict[int, Probed], when: When, name: str) -> list[Findings]:
    """Returns the findings that have an array of this name, in the order of the seeds."""
    return [probed.at(when) for _, probed in sorted(kept.items()) if name in probed.at(when).arrays]


def of_first_seeds(result: StudyResult, probe: str, name: str) -> Iterator[tuple[TrialResult, Findings]]:
    """Yields each trial with what was found after training in the first seed that has an array of this name."""
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
"""By probe: the title of its table, and what its numbers are."""


def probe_tables(result: StudyResult) -> list[Table]:
    """Returns the table of each probe that the study names and that found something."""
    tables = (_table(result, name) for name in result.edition.study.probes)
    return [table for table in tables if table is not None]


def _table(result: StudyResult, probe: str) -> Table | None:
    by_trial = kept_probes(result, probe)
    names = dict.fromkeys(
        value
        for _, kept in by_trial
        for probed in kept.values()
        for value in (*probed.after.values, *probed.before.values)
    )
    rows = [(value, row) for value in names for row, _ in by_trial]
    before, after = ([_scores(row, probe, value, when) for value, row in rows] for when in TIMES)
    some = [place for place in range(len(rows)) if before[place].values or after[place].values]
    title, note = WORDS[probe]
    if not some and not _remarks(by_trial, result):
        return None
    columns = [
        Column("number", [rows[place][0] for place in some], words=True),
        Column("trial", [row_name(result, rows[place][1]) for place in some], words=True),
        *score_columns("before training", [before[place] for place in some]),
        *score_columns("after training", [after[place] for place in some]),
    ]
    text = " ".join([note, *_remarks(by_trial, result)])
    return Table(f"probe_{probe}", title, columns, note=text, folded=len(some) > FEW_ROWS)


def _scores(row: TrialResult, probe: str, value: str, when: When) -> Scores:
    return probe_scores(row.probes, row.answer.asked, probe, value, when)


def _remarks(by_trial: ByTrial, result: StudyResult) -> list[str]:
    """Returns why some trials have no numbers, a sentence each, and how many runs lack the probe."""
    notes = dict.fromkeys(
        f"{row_name(result, row)}: {note}."
        for row, kept in by_trial
        for probed in kept.values()
        for note in (probed.after.note, probed.before.note)
        if note
    )
    missing = sum(len(row.probes) - len(kept) for row, kept in by_trial)
    lacking = f"{plural(missing, 'run')} without it yet; locus run computes it, and trains nothing."
    return [*notes, *([lacking] if missing else [])]
