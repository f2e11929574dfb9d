"""Checks whether all records of a study agree, sets damaged files aside, and trains one run again to compare it.

A rerun trains with the threads and on the device that the stored environment of the run names, and compiled if that
environment says so. An answer is the stored outcome of a run by one code.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from search_spaces.study import Edition
from search_spaces.words import plural
from service.planning.forecast import LOST
from service.planning.schedule import best_number
from service.storage import Check
from service.storage.facts import Counts, Ended, Fact, FailedWith
from service.storage.history import History
from service.storage.home import Home, as_written
from service.storage.journal import Journal, JournalError, UnfitError, cut, read_on
from service.storage.outcomes import (
    CLOCKED,
    Answered,
    NumberChange,
    Outcomes,
    ProbeFileError,
    compare,
    read_answer,
    read_probe,
)
from trainables.recipe import Recipe, Run
from trainables.recipe.findings import LOOKS
from trainables.recipe.outcome import Diverged
from trainables.recipe.revisions import code_of
from trainables.spec import LocusError
from trainables.whole_files import put_aside

if TYPE_CHECKING:
    from trainables.training.distributed import DataParallel


@dataclass(frozen=True)
class WrongAnswer:
    """Says what is wrong with the files of an answer.

    `fact` is the journal's fact of the answer. `check` is the check that found the damage, a key of `SOUND`. `probe` is
    the probe whose file is damaged; it is empty for other files.
    """

    fact: Ended
    check: str
    sentence: str
    probe: str = ""


def answers_of(facts: Iterable[Fact], history: History) -> list[Ended]:
    """Returns the facts of the answers that a study has; answers that were lost are left out, and trained again."""
    ended = {(fact.run, fact.code): fact for fact in facts if isinstance(fact, Ended)}  # the last one, where two are
    return [fact for run, fact in ended.items() if history.states[run].answered]


def wrong_answers(outcomes: Outcomes, history: History, ended: Iterable[Ended]) -> Iterator[WrongAnswer]:
    """Yields each flaw in the files of the answers that `ended` names. Cost: reads these files, and all weights."""
    keeps = "weights" in history.edition.study.keep
    parents = {run.key for trial in history.of("parent") for run in history.runs(trial).values()}
    codes = _codes(history)
    for fact in ended:
        who = f"{fact.run} by {fact.code}"
        answered = read_answer(path := outcomes.path(fact.run, fact.code))
        if answered is None:
            damaged = path.exists()
            yield WrongAnswer(fact, "outcomes", f"{who} {'is damaged' if damaged else 'has no file'}")
            continue
        if (answered.run.key, answered.name) != (fact.run, fact.code):
            yield WrongAnswer(fact, "keys", f"{who} holds {answered.run.key} by {answered.name}")
        elif compare(history.states[fact.run, fact.code].values, answered.curve):  # which leaves out the clock's values
            yield WrongAnswer(fact, "curves", f"{who} differs from the journal: another study trained it again")
        for name in LOOKS:
            probe = outcomes.probe(fact.run, fact.code, name)
            try:
                if probe.exists():
                    read_probe(probe)
            except ProbeFileError as error:
                yield WrongAnswer(fact, "probes", f"the probe {name} of {who} is damaged: {error}", name)
        needs_weights = fact.outcome == "completed" and (keeps or fact.run in parents)
        if needs_weights and not outcomes.has_sound_weights(fact.run, fact.code):
            has_file = outcomes.weights(fact.run, fact.code).exists()
            if has_file or fact.code == codes.get(fact.run):  # an answer of older code needs none
                yield WrongAnswer(fact, "weights", f"{who} has {'damaged' if has_file else 'no'} weights")


def _codes(history: History) -> dict[str, str]:
    """Returns, by the key of each run, the digest of the code whose answer counts."""
    runs = {run.key: run for trial in history.trials for run in history.runs(trial).values()}
    return {key: history.code(run) for key, run in runs.items()}


def repair(home: Home, edition: Edition) -> list[str]:
    """Sets aside the damaged parts of a study's journal and answers, and says in sentences what was done.

    Nothing is trained: the next `locus run` trains the runs that have lost their answers. No file is removed: each is
    kept in its folder as `*.damaged`. An answer that another study trained again stays, because that study counts it;
    the next `locus run` of this study takes it.
    Raises: LocusError if the study was never run, JournalError if a driver runs it.
    """
    folder, outcomes = home.study(edition.id), Outcomes(home)
    if not folder.journal.exists():
        raise LocusError(f"{edition.id} was never run here")
    sentences = []
    fitting = History(edition)
    lost_facts: list[Fact] = []
    if (gone := cut(folder.journal, folder.lock, fitting.add)) is not None:
        line, lost_facts = gone
        why = f"the journal is cut at line {line}, which is no fact of {edition.id}"
        sentences.append(f"{why}; answers that are there are used again")
    with Journal(folder.journal, folder.lock) as journal:
        if any(isinstance(fact, Ended | Counts) for fact in lost_facts):
            # the seeds, points and looks go on from what all facts said
            before = History(edition)
            for fact in [*journal.facts, *lost_facts]:
                with suppress(UnfitError):
                    before.add(fact)
            journal.write(Counts(seeds=before.seeds, trials=before.trials_asked or None, looks=before.looks))
        history = History.open(home, edition)
        counted = _codes(history)
        lost: dict[tuple[str, str], str] = {}
        again: set[str] = set()
        for wrong in [*wrong_answers(outcomes, history, answers_of(journal.facts, history))]:
            run, code = wrong.fact.run, wrong.fact.code
            if wrong.probe:
                put_aside(outcomes.probe(run, code, wrong.probe))
                sentences.append(f"{wrong.sentence}; it is set aside")
            elif wrong.check == "curves":
                lost[run, code] = f"{wrong.sentence}; locus run {edition.id}{home.option} takes its numbers"
            else:
                outcomes.set_aside(run, code, answer=wrong.check == "keys")
                sentence = f"{wrong.sentence}; what is damaged is set aside"
                counts = counted.get(run) == code
                if counts or outcomes.get(run, code) is None:
                    lost[run, code] = sentence
                else:
                    sentences.append(f"{sentence}, and its scores stay, which are by other code than today's")
                if counts:
                    again.add(run)
        for (run, code), sentence in lost.items():
            journal.write(FailedWith(run=run, code=code, reason=LOST, counts=False))
            sentences.append(sentence)
    if again:
        sentences.append(f"{plural(len(again), 'run')} to train again: locus run {edition.id}{home.option}")
    return sentences


SOUND = {
    "outcomes": "answers, each with its file",
    "keys": "answers are of the run and code in their file's name",
    "curves": "curves equal the journal's",
    "weights": "answers, each with its weights",
    "probes": "answers, their probes can be read",
}
"""By the name of each check of the files of answers: the words that `verify` prints if nothing is wrong."""


def verify(home: Home, edition: Edition) -> list[Check]:
    """Returns the results of all checks of a study. Cost: reads all answers and weights.

    Raises: LocusError if the study was never run.
    """
    folder = home.study(edition.id)
    if not folder.journal.exists():
        raise LocusError(f"{edition.id} was never run here")
    try:
        facts, end = read_on(folder.journal)
        history = History.open(home, edition)
    except JournalError as error:
        return [Check("journal", False, str(error))]
    left = " (a torn last line is left out)" if end.offset < folder.journal.stat().st_size else ""
    if end.left_out:
        left += f" ({plural(end.left_out, 'line')} of a driver that another one had replaced left out)"
    older = f"; {plural(history.stale, 'answer')} of other code than today's" if history.stale else ""
    checks = [Check("journal", True, f"{len(facts)} facts{left}{older}")]

    if edition.study.plan.tune is not None:
        unfit = []
        for arm in history.tuning.chosen:
            chosen, best = history.tuning.chosen_trial(arm), best_number(history, arm)
            counts = chosen is not None and history.answer(chosen).status == "completed"
            if (counts or chosen is None) and best is not None and (chosen is None or chosen.number != best):
                unfit.append(f"{arm!r} has the values of trial {chosen and chosen.number}, but trial {best} is higher")
        summary = "arms, each with the values of its highest trial"
        checks.append(Check.of("tuning", len(history.tuning.chosen), summary, unfit))

    ended = answers_of(facts, history)
    wrong = [*wrong_answers(Outcomes(home), history, ended)]
    for name, summary in SOUND.items():
        sentences = [answer.sentence for answer in wrong if answer.check == name]
        checks.append(Check.of(name, len(ended), summary, sentences))

    folders = [path for path in folder.root.glob("work/*/*/*") if path.is_dir()]
    answered = {run for run, state in history.states.items() if state.answered}
    left_over = ["/".join(path.parts[-3:]) for path in folders if (path.parts[-3], path.parts[-2]) in answered]
    sentences = [f"{name} is of a run that ended" for name in left_over]
    checks.append(Check.of("work folders", len(folders), "of unfinished runs", sentences))

    files = as_written(folder.report)
    again = f"locus report {edition.id}{home.option}"
    changed = [f"{name} is not as it was written ({again})" for name, sound in files.items() if not sound]
    return [*checks, Check.of("report", len(files), "files, as they were written", changed)]


SETTINGS = ("threads", "matmul_fp32_precision", "conv_fp32_precision")
"""The entries of a stored environment that a rerun sets to the same values, and so does not compare."""


@dataclass(frozen=True)
class Rerun:
    """Holds what a rerun found.

    `key` is the run's key, `compared` counts the numbers that were compared, and `differences` are those that differ.
    `changed` names what has another revision since the run. `ending` is how the rerun ended.
    """

    key: str
    compared: int
    differences: list[NumberChange]
    changed: list[str]
    ending: str

    @property
    def equal(self) -> bool:
        """Returns whether the rerun has the same numbers and the same end as the stored run."""
        return not self.differences


def rerun(home: Home, start: str, report: Callable[[str], None] = lambda line: None) -> Rerun:
    """Trains the run again whose key starts with `start`, and compares its numbers with those that are stored.

    `report` is called with a line for the device, for each parent whose weights are others now, for each difference of
    the environment, and for each epoch.
    Raises: LocusError for a key that names no run, a parent whose weights are gone, or a device that is not here.
    """
    outcomes = Outcomes(home)
    before = outcomes.find(start)[-1]
    run, environment = before.run, before.environment
    parents = {use: _weights(outcomes, parent, before, report) for use, parent in run.parents.items()}
    from trainables.training.loop import train  # torch, which a mistyped key need not wait for
    from trainables.training.runtime import environment as environment_of
    from trainables.training.runtime import runtime

    device, deterministic = _device(environment, run.key), bool(environment.get("deterministic"))
    threads = int(environment.get("threads", 1))
    compiled = ", compiled" if environment.get("compile") else ""
    report(f"trained again on {environment.get('device', 'cpu')} with threads {threads}{compiled}")
    if (fused := environment.get("fused", 1)) > 1:
        report(f"it was trained as one model with {plural(fused - 1, 'other run')}: by itself its last digits differ")
    if device != "cpu" and not deterministic:
        report("a GPU adds numbers in no fixed order where an encoding looks up a table: last digits may differ")
        report("(those of a run of --deterministic do not)")

    curve: dict[int, Mapping[str, float]] = {}
    ending = "completed"
    settings = runtime(threads, run.recipe.optimizer.precision, deterministic)
    team = _team(environment, run.recipe)
    with tempfile.TemporaryDirectory(prefix="locus-rerun-") as folder, settings:
        for name, now in environment_of(device).items():
            then = environment.get(name, now)
            if then != now and name not in SETTINGS:
                report(f"{name} was {then}, is {now}; numbers may differ")
        if environment.get("workers", 0) > 1:
            report(f"trained by {environment['workers']} workers before, now by one; the last digits may differ")
        with closing(train(run, Path(folder), device, parents=parents, team=team, data=home.data)) as epochs:
            for measured in epochs:
                if isinstance(measured, Diverged):
                    ending = "diverged"
                    break
                curve[measured.epoch] = measured.values
                report(f"epoch {measured.epoch}/{run.recipe.optimizer.trained_epochs}")
    differences = compare(before.curve, curve)
    if ending != before.outcome.kind:
        differences.append(NumberChange(len(curve), f"ended {ending}, before {before.outcome.kind}", None, None))
    compared = sum(not name.startswith(CLOCKED) for values in curve.values() for name in values)
    return Rerun(run.key, compared, differences, code_of(run.recipe).changed(before.code), ending)


def _device(environment: Mapping[str, Any], key: str) -> str:
    """Returns the device of this machine that a stored environment names. Raises: LocusError if there is none.

    `key` is the run's key, which the error names.
    """
    import torch

    name = environment.get("device", "cpu")
    if name == "cpu":
        return "cpu"
    here = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    if name not in here:
        names = ", ".join(here) or "cpu"
        raise LocusError(f"{key} was trained on {name}: a rerun must be on a machine with one, got {names}")
    return f"cuda:{here.index(name)}"


def _team(environment: Mapping[str, Any], recipe: Recipe) -> DataParallel:
    """Returns a team of one worker, which splits batches into as many parts as the stored environment says.

    It computes them as that environment says, too: with gradient checkpointing, or compiled.
    """
    from trainables.training.distributed import SINGLE

    accumulate = recipe.optimizer.accumulate
    team = replace(SINGLE, more_parts=environment.get("accumulate", accumulate) // accumulate)
    if environment.get("grad_checkpointing"):
        from trainables.training.optional.checkpointing import checkpointed

        return replace(team, wrap=checkpointed)
    if not environment.get("compile"):
        return team
    from trainables.training.optional.compiled import compiled

    return replace(team, wrap=compiled)


def _weights(outcomes: Outcomes, parent: Run, child: Answered, report: Callable[[str], None]) -> Path:
    """Returns the file of the parent's weights that a child started from; else the newest, and reports that."""
    key, run = parent.key, child.run.key
    sound = [answer for answer in outcomes.of(key) if outcomes.has_sound_weights(key, answer.name)]
    if not sound:
        raise LocusError(f"the weights of the parent {key} of {run} are gone or damaged; run its study again")
    of_child = [answer for answer in sound if answer.code.revisions.items() <= child.code.revisions.items()]
    if not of_child:
        report(f"{run} started from weights of its parent {key} that are gone, now from the newest; numbers may differ")
    return outcomes.weights(key, (of_child or sound)[-1].name)
