"""A study's question, answered in one or two sentences; for a person's own images also what to take, and what it costs.

The headline says what was found. The advice says what to do; it is for ablations whose arms race, which ask for one
choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from search_spaces.roles import RIVALS
from search_spaces.study import Ablation
from search_spaces.words import listed, plural, quoted
from service.analysis.best import chosen_by
from service.analysis.evidence import spread_words
from service.analysis.format import between, fixed, metric_words, number, p_text, percent
from service.analysis.methods import methods_sentence
from service.analysis.multiple_testing import Difference
from service.analysis.power import never_apart, seeds_needed, smallest_difference
from service.analysis.scores import counts
from service.analysis.statistics import ALPHA, FEWEST, Interval, Scores, level_of
from service.analysis.trial_result import TrialResult, out_of_race
from service.planning.schedule import unplanned
from trainables.recipe.cost import estimate_cost

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult


LACKS = ("open", "incomplete")
"""A trial that lacks seeds cannot be best, but may have learnt."""
MOST = 3
"""How many trials a sentence names; all stand in the table of results."""


def headline(result: StudyResult) -> str:
    """Returns what was found, how sure it is, and what is still missing."""
    missing = _missing(result)
    plan = result.edition.study.plan
    if isinstance(plan, Ablation) and plan.tasks:
        sentence = _over_tasks(result) + _diverged(result)
        return f"{sentence} Not finished: {missing}." if missing else sentence
    if not result.ranking.highest:
        return f"No answer yet: {missing or 'no trial has all its seeds'}."
    if not result.winners:
        sentence = _at_chance(result, finished=not missing)
    elif len(result.winners) > 1:
        sentence = _tie(result)
    else:
        sentence = _arm(result, missing) if isinstance(result.edition.study.plan, Ablation) else _point(result)
    sentence += _diverged(result)
    return f"{sentence} Not finished: {missing}." if missing else sentence


def _over_tasks(result: StudyResult) -> str:
    assert result.methods is not None
    return methods_sentence(result.methods, claims=bool(result.edition.study.claims))


def _diverged(result: StudyResult) -> str:
    """Returns the trials in which seeds diverged; their means hold these seeds at chance."""
    rows = result.confirmed if result.ranking.confirmed else result.of("trial")
    lost = [
        f"{len(row.validation.diverged)} of {plural(row.validation.n, 'seed')} of {trial_words(result, row)}"
        for row in rows
        if row.validation.diverged
    ]
    more = f" and of {plural(len(lost) - 3, 'more trial')}" if len(lost) > 3 else ""
    return f" Diverged, and counted at chance: {listed(lost[:3])}{more}." if lost else ""


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


def _at_chance(result: StudyResult, *, finished: bool) -> str:
    """Says that there is no winner: nothing was learnt, or only by some seeds."""
    noun = "arm" if isinstance(result.edition.study.plan, Ablation) else "point"
    chance = number(result.edition.study.base.data.chance("val"))
    epochs = plural(max(row.trial.recipe.optimizer.epochs for row in result.of("trial")), "epoch")
    some = result.confirmed if result.ranking.confirmed else result.of("trial")
    if ahead := [row for row in some if row.answer.status in LACKS and row.validation.any_above_chance]:
        who = listed(
            [f"{trial_words(result, row)} has {_metric(result)} {_score(row.validation)}" for row in ahead[:MOST]]
        )
        return f"No {noun} that has all its seeds is above chance ({chance}). Without all of them, {who}."
    if not result.ranking.learnt:
        end = f"nothing was learnt in {epochs}" if finished else "nothing was learnt so far"
        return f"No {noun} is above chance ({chance}): {end}.{_but_tests(result)}"
    compared = result.confirmed if result.ranking.confirmed else result.of("trial")
    rows = [row for row in compared if row.validation.any_above_chance]
    parts = listed([f"{trial_words(result, row)} has {_metric(result)} {_score(row.validation)}" for row in rows[:3]])
    return f"No {noun} is above chance ({chance}{_guessed(rows)}) over its seeds: {parts}.{_but_tests(result)}"


def _guessed(rows: list[TrialResult]) -> str:
    """Returns what guessing reaches, where an interval over seeds lies above chance and yet says nothing."""
    for row in rows:
        scores = row.validation
        if scores.interval and scores.interval[0] > scores.scale.chance:
            return f"; a model that guesses reaches {fixed(scores.scale.chance + scores.scale.luck)} on so many images"
    return ""


def _but_tests(result: StudyResult) -> str:
    """Returns the highest test score, where it says more than validation: of more images, or far from it."""
    rows = [row for row in result.of("trial") if row.test.mean is not None] if _tested(result) else []
    if not rows:
        return ""
    best = max(rows, key=lambda row: row.test.mean or 0.0)
    counts, own = best.recipe.data.image_counts, best.validation
    far = abs((best.test.mean or 0.0) - (own.mean or 0.0)) > own.scale.luck
    if not (far or counts.test > counts.validation) or not best.test.any_above_chance:
        return ""
    images, score = plural(counts.test, "image"), _score(best.test, len(rows))
    return f" On the {images} of the test set, which choose nothing, {trial_words(result, best)} has {score}."


def _metric(result: StudyResult) -> str:
    """Returns the name of the validation score."""
    return metric_words(result.edition.study.score.metric)


def _tie(result: StudyResult) -> str:
    score = result.edition.study.score
    chosen = "by the search's own seeds" if result.ranking.confirmed else "by validation"
    shown, hidden = result.winners[:MOST], result.winners[MOST:]
    of = 1 if result.ranking.confirmed else len(result.of("trial"))
    names = listed([*(trial_words(result, row) for row in shown), *_more(hidden)])
    value = fixed(chosen_by(result.history, result.winners[0].trial))
    tests = "; ".join(f"{trial_words(result, row)} {_score(row.test, of)}" for row in shown)
    if hidden:
        means = [row.test.mean for row in result.winners if row.test.mean is not None]
        low, high = fixed(min(means, default=None)), fixed(max(means, default=None))
        same = f"{low} each" if means else "not measured"
        tests = same if low == high else f"means from {low} to {high}"
    fresh = " on fresh seeds" if result.ranking.confirmed else ""
    tested = f"; {metric_words(score.test)}{fresh}: {tests}" if _tested(result) else ""
    return f"Chosen {chosen}, {names} tie with {_metric(result)} {value}{tested}."


def _more(rows: Sequence[object]) -> list[str]:
    """Returns what stands for the trials that a sentence does not name: `7 more trials`; nothing for none."""
    return [plural(len(rows), "more trial")] if rows else []


def _tested(result: StudyResult) -> bool:
    """Returns whether test scores may be shown; a search shows none before its points are confirmed."""
    return result.ranking.confirmed or isinstance(result.edition.study.plan, Ablation)


def _point(result: StudyResult) -> str:
    (best,) = result.winners
    of = plural(len(result.of("trial")), "point")
    score = result.edition.study.score
    if not result.ranking.confirmed:
        return (
            f"Of {of}, {trial_words(result, best)} scores highest so far: {_metric(result)} {_score(best.validation)}; "
            "not confirmed on fresh seeds."
        )
    text = f"Of {of}, {trial_words(result, best)} comes out best: "
    text += f"{metric_words(score.test)} {_score(best.test)} on fresh seeds"
    first = result.named.get("first")
    if first is best:
        text += "; it was tried first"
    elif first is not None:
        text += f"; the point tried first, {trial_words(result, first)}, has {_score(first.test)}"
    if result.random is not None:
        of = plural(len(result.of("rival")), "random point")
        text += f"; the best of {of}, {trial_words(result, result.random)}, has {_score(result.random.test)}"
    return f"{text}.{_not_told_apart(result, best, result.confirmed)}"


def _arm(result: StudyResult, missing: str) -> str:
    (best,) = result.winners
    study = result.edition.study
    assert isinstance(study.plan, Ablation)
    arm = f"the arm {quoted(best.name)} comes out best{' so far' if missing else ''}"
    arms = len(result.of("trial"))
    text = f"Chosen by validation, {arm}: {metric_words(study.score.test)} {_score(best.test, arms)}"
    partner = study.plan.compared_with(best.name)
    if study.plan.is_baseline(best.name):
        text += f"; it has the baseline {quoted(study.plan.baseline)}" if study.plan.axes else "; it is the baseline"
    elif partner and best.name in result.differences:
        gap = result.differences[best.name]
        side = "above" if gap.mean >= 0 else "below"
        text += f", {fixed(abs(gap.mean))} {side} {quoted(partner)}{_sureness(gap, gap.interval)}"
    return f"{text}.{_not_told_apart(result, best, result.of('trial'))}"


def _sureness(gap: Difference, ends: Interval | None) -> str:
    """Returns how sure a difference is. `ends`: its interval, in the direction in which it is told."""
    if gap.adjusted is None:
        return ""
    interval = f"{percent(gap.confidence)} interval {between(ends)}"
    tests = "as its claim tests it" if gap.claimed else f"Holm over {plural(gap.adjusted.tests, 'difference')}"
    but = ", but they do not learn equally often" if gap.opposed else ""
    return f" ({interval}, p {p_text(gap.adjusted.p)}; {tests}{but})"


def _not_told_apart(result: StudyResult, best: TrialResult, rows: list[TrialResult]) -> str:
    """Lists the trials above the best one, and those not told apart from it, with the difference that seeds detect."""
    level = result.level_with(best, rows) if best.test.complete and best.test.learnt else {}
    if level and best.test.sound.n < FEWEST:
        learn = " that learn" if len(best.test.learnt) < best.test.n else ""
        return f" With {plural(best.test.sound.n, 'seed')}{learn} no difference can be tested."
    others = {row.trial.label: row for row in rows}
    above = _above(result, best, rows)
    nearest = sorted(level, key=lambda label: abs(level[label].mean))
    shown, hidden = [label for label in level if label in nearest[:MOST]], nearest[MOST:]
    words = [_gap_words(result, others[label], level[label]) for label in shown]
    return above + (f" Not distinguishable from it: {'; '.join([*words, *_more(hidden)])}." if words else "")


def _above(result: StudyResult, best: TrialResult, rows: Sequence[TrialResult]) -> str:
    """Returns the trials that surely score higher on the test images than the one that validation chose."""
    above = result.above(best, rows) if best.test.complete and best.test.learnt else {}
    words = []
    for row in rows:
        if gap := above.get(row.trial.label):
            ends = gap.interval and (-gap.interval[1], -gap.interval[0])
            words.append(f"{trial_words(result, row)} is {fixed(-gap.mean)} above it{_sureness(gap, ends)}")
    return f" But on test images, which choose nothing, {listed(words)}." if words else ""


def _gap_words(result: StudyResult, row: TrialResult, gap: Difference) -> str:
    """Returns `“peg”, 0.0021 below it (5 seeds can detect 0.0060 or more)`."""
    level = gap.adjusted.level if gap.adjusted else ALPHA
    n, std = gap.estimate.n, gap.estimate.spread or 0.0
    least = smallest_difference(n, std, alpha=level, like=gap.estimate)
    side, told = "below" if gap.mean >= 0 else "above", ""
    if least is not None:
        detect = f"{plural(n, 'seed')} can detect {fixed(least)} or more"
        told = f" ({never_apart('them', n, least, std, row.test.scale, level, gap.estimate) or detect})"
    if gap.opposed:
        told = f" (p {p_text(gap.p)}, but they do not learn equally often)"
    return f"{trial_words(result, row)}, {fixed(abs(gap.mean))} {side} it{told}"


def _score(scores: Scores, of: int = 1) -> str:
    """Returns the score of the seeds that learn. `of`: among how many trials this one was chosen by the same runs."""
    if scores.sound.mean is None:
        return "unknown"
    return f"{fixed(scores.sound.mean)} ({spread_words(scores, of)})"


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


MOST_RIVALS = 6
"""How many rivals a sentence names."""
FEWEST_TO_PLAN = 5
"""How many seeds must have shown how much they differ before a number of further seeds is named."""


def advice(result: StudyResult) -> list[str]:
    """Returns what to take, then cost, other image sizes, the race and what is open, a sentence each.

    None without a winner.
    """
    plan, best = result.edition.study.plan, result.best
    if not (isinstance(plan, Ablation) and plan.race and best):
        return []
    if (departure := result.departure) and not departure.told:
        return [f"Nothing to take {departure.where}: {departure.why}."]
    if missing := _missing(result):
        return [f"Nothing to take yet: {missing}.{_ahead(result, best)}"]
    names = {row.trial.label: row.name for row in result.of("trial")}
    rivals = {names[label]: gap for label, gap in result.level_with(best, result.of("trial")).items()}
    partner = next((row for row in result.of("trial") if row.name == plan.compared_with(best.name)), None)
    known = [
        _take(result, best, rivals),
        _cost(best, partner),
        *_sizes(best, partner),
        _out(result),
        _open(result, best, rivals),
    ]
    return [sentence for sentence in known if sentence]


def _ahead(result: StudyResult, best: TrialResult) -> str:
    """Returns the arm without all its seeds that scores highest so far, if it is above those that have them."""
    rows = [row for row in result.of("trial") if not row.validation.complete and row.validation.sound.mean is not None]
    ahead = max(rows, key=lambda row: row.validation.sound.mean or 0.0, default=best)
    score = ahead.validation
    if ahead is best or (score.sound.mean or 0.0) <= (best.validation.sound.mean or 0.0):
        return ""
    return f" {quoted(ahead.name)} is ahead, with {score.n} of {plural(score.asked, 'seed')}."


def _take(result: StudyResult, best: TrialResult, rivals: dict[str, Difference]) -> str:
    """Returns what to take; if no arm is told apart, what may tell them apart."""
    learn, seeds = counts(best.test)
    share = f"; {learn} of {plural(seeds, 'seed')} learn" if learn < seeds else ""
    if learn < FEWEST:
        few = f"{learn or 'none'} of {seeds} seeds of {quoted(best.name)}"
        return (
            f"Nothing is decided: {few}, which has the highest validation score, learn{'s' if learn < 2 else ''}. "
            "A larger budget, or more images, may."
        )
    if above := _above(result, best, result.of("trial")):
        return f"Nothing is decided: validation chooses {quoted(best.name)}{share}.{above} More validation images may."
    if not rivals:
        return f"Take {quoted(best.name)}{share}."
    rows = {row.name: row for row in result.of("trial")}
    names = [quoted(name) + _share_words(rows[name].test) for name in rivals]
    others = listed([*names[:MOST_RIVALS], *([f"{len(names) - MOST_RIVALS} more"] if len(names) > MOST_RIVALS else [])])
    learners = len(result.rivals(best, result.of("trial")))
    if len(rivals) == learners > 1:
        arms = len(result.of("trial"))
        if len(result.winners) == arms and best.validation.mean == 1:
            return (
                f"Nothing is decided: all {arms} arms reach the highest score there is. The task is too easy for them."
            )
        none = "none of the arms left in the race" if any(row.answer.raced for row in result.of("trial")) else "no arm"
        return (
            f"Nothing is decided: {plural(seeds, 'seed')} tell {none} apart from {quoted(best.name)}, which has the "
            f"highest validation score{share}. A larger budget, or more images, may."
        )
    return f"Take {quoted(best.name)}{share}. {plural(seeds, 'seed')} do not tell it apart from {others}."


def _share_words(scores: Scores) -> str:
    """Returns how many seeds learn, where not all do."""
    learn, seeds = counts(scores)
    return f" ({learn} of {plural(seeds, 'seed')} learn)" if learn < seeds else ""


def _cost(best: TrialResult, partner: TrialResult | None) -> str:
    """Returns what it costs, beside the arm that it is compared with: time and memory if both trained alike."""
    parts = []
    alike = partner is not None and len(best.machines | partner.machines) == 1
    for words, of in (("{:.2f} ms an image in training", _milliseconds), ("{:.2f} GiB of memory", _memory)):
        own, other = of(best), of(partner) if partner and alike else None
        if own is not None:
            beside = "" if other is None or partner is None else f" ({quoted(partner.name)} {other:.2f})"
            parts.append(words.format(own) + beside)
    own_count = estimate_cost(best.recipe).parameters
    more = own_count - estimate_cost(partner.recipe).parameters if partner else 0
    beside = f" ({abs(more):,} {'more' if more > 0 else 'fewer'})" if more else ""
    return f"It costs {listed([*parts, f'{own_count:,} parameters{beside}'])}."


def _milliseconds(row: TrialResult) -> float | None:
    return row.median_cost(lambda run: 1000 / run.images_per_s if run.images_per_s else None)


def _memory(row: TrialResult) -> float | None:
    return row.median_cost(lambda run: None if run.together else run.final("memory/peak_gib"))


def _sizes(best: TrialResult, partner: TrialResult | None) -> Iterator[str]:
    """Yields what it scores on images of other sizes, without training on them."""
    for size in best.test_sizes:
        rows = [row for row in (best, partner) if row and size in row.test_sizes]
        own, *others = [f"{quoted(row.name)} has {_at_size(row.test_sizes[size])}" for row in rows]
        yield f"On test images of {size} x {size} pixels {own}{''.join(f', {other}' for other in others)}."


def _at_size(scores: Scores) -> str:
    return fixed(scores.sound.mean) + _share_words(scores)


def _out(result: StudyResult) -> str:
    out = out_of_race(result.of("trial"))
    return f"Out of the race, as they were clearly below the best: {out}." if out else ""


def _open(result: StudyResult, best: TrialResult, rivals: dict[str, Difference]) -> str:
    """Returns how many seeds would tell the nearest rivals apart, if the differences stay as they are.

    They are tested at the level of the next look. Rivals of which some seeds fail are left out: more seeds would not
    tell how often they fail from how well they learn.
    """
    if best.test.sound.n < FEWEST_TO_PLAN or not best.test.uniform:
        return ""
    words: list[str] = []
    uniform = {row.name for row in result.of("trial") if row.test.uniform}
    later = level_of(result.history.looks + 1) / level_of(result.history.looks)
    plain = {name: gap for name, gap in rivals.items() if name in uniform and not gap.opposed}
    for name, gap in sorted(plain.items(), key=lambda item: -abs(item[1].mean))[:3]:
        level = (gap.adjusted.level if gap.adjusted else result.alpha) * later
        spread = gap.estimate.spread or 0.0
        needed = seeds_needed(gap.mean, std=spread, alpha=level, like=gap.estimate) if gap.mean else None
        seeds = "more than 1,000" if needed is None else f"about {needed}"
        words.append(f"{seeds}{'' if words else ' seeds would tell it apart'} from {quoted(name)}")
    sentence = f"{listed(words)}, if the differences stay as they are."
    return sentence[0].upper() + sentence[1:] if words else ""
