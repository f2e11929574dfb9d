"""A table for each probe that a study names: its numbers by trial, before and after training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from search_spaces.words import plural
from service.analysis.probes.scores import probe_scores
from service.analysis.statistics import Scores
from service.reporting.results_table import row_name, score_columns
from service.reporting.table import Column, Table
from service.storage.probe_files import TIMES
from trainables.recipe.findings import Findings, Probed, When

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult


ByTrial = list[tuple["TrialResult", dict[int, Probed]]]
"""The trials that probes look at, each with what is kept of one probe by seed."""


def found(result: StudyResult, probe: str) -> ByTrial:
    """What is kept of a probe, nothing if the study does not name it."""
    if probe not in result.edition.study.probes:
        return []
    kept = ((row, {seed: one.kept(probe) for seed, one in row.probes.items()}) for row in result.probed)
    return [(row, {seed: one for seed, one in some.items() if one is not None}) for row, some in kept]


def arrays(kept: dict[int, Probed], when: When, name: str) -> list[Findings]:
    """The findings that have an array of this name, in the order of the seeds."""
    return [one.at(when) for _, one in sorted(kept.items()) if name in one.at(when).arrays]


def of_first_seeds(result: StudyResult, probe: str, name: str) -> Iterator[tuple[TrialResult, Findings]]:
    """Each trial with what was found after training in the first seed that has an array of this name."""
    for row, kept in found(result, probe):
        for one in arrays(kept, "after", name)[:1]:
            yield row, one


FEW = 12
"""A table with more rows is shown on demand."""
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
    """The table of each probe that the study names and that found something."""
    tables = (_table(result, name) for name in result.edition.study.probes)
    return [table for table in tables if table is not None]


def _table(result: StudyResult, probe: str) -> Table | None:
    by_trial = found(result, probe)
    names = dict.fromkeys(
        value for _, kept in by_trial for one in kept.values() for value in (*one.after.values, *one.before.values)
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
    return Table(f"probe_{probe}", title, columns, note=text, folded=len(some) > FEW)


def _scores(row: TrialResult, probe: str, value: str, when: When) -> Scores:
    return probe_scores(row.probes, row.answer.asked, probe, value, when)


def _remarks(by_trial: ByTrial, result: StudyResult) -> list[str]:
    """Why some trials have no numbers, a sentence each, and how many runs lack the probe."""
    said = dict.fromkeys(
        f"{row_name(result, row)}: {note}."
        for row, kept in by_trial
        for one in kept.values()
        for note in (one.after.note, one.before.note)
        if note
    )
    missing = sum(len(row.probes) - len(kept) for row, kept in by_trial)
    lacking = f"{plural(missing, 'run')} without it yet; locus run computes it, and trains nothing."
    return [*said, *([lacking] if missing else [])]
