"""The plan: what is done, what is reused, what is missing and why, how long."""

import json
import math
from dataclasses import replace

import pytest

from search_spaces.space import Choice, Real, Space
from search_spaces.study import Ablation, Edition, Halving, Search, Study, Tuning
from service.analysis.study_status import one_status
from service.api import resolve
from service.planning.estimate import GPU_FLOPS, START_S, STEP_S, WorkEstimate
from service.planning.forecast import run_memory
from service.planning.placement import Placement
from service.storage.facts import Ended, Planned
from service.storage.history import History, ancestors
from service.storage.home import Home
from service.storage.journal import read
from service.storage.outcomes import Outcomes
from tests.rooms.service.planning.situations import planned
from tests.rooms.toy import conduct, driving
from trainables.encodings import Fourier
from trainables.recipe import FromTrial, Recipe
from trainables.recipe.cost import Cost, estimate_cost
from trainables.recipe.flops_torch import training_flops
from trainables.spec import SpecError
from trainables.whole_files import sealed, unsealed

BASE = Recipe(encoding=Fourier(gamma=2.5)).put({"optimizer.epochs": 6})
LARGE = {"data.image_size": 224, "model.embed_dim": 384, "model.depth": 12}


def arms(name: str = "arms", seeds: int = 2, **more: dict) -> Edition:
    plan = Ablation(arms={"near": {"encoding.gamma": 1.0}, "none": {"encoding.kind": "none"}, **more}, baseline="near")
    return Study(name=name, question="?", base=BASE, plan=plan, seeds=seeds).at()


def search(trials: int = 7, seeds: int = 3) -> Edition:
    space = Space({"encoding.gamma": Real(low=0.1, high=40, log=True)})
    plan = Search(space=space, first=({"encoding.gamma": 2.5},), trials=trials, stop=Halving())
    return Study(name="reach", question="?", base=BASE, plan=plan, seeds=seeds).at()


def last_line(estimate: WorkEstimate) -> str:
    return [*estimate.lines("x")][-1]


def test_before_the_first_run_all_is_missing_and_the_time_unknown(home: Home) -> None:
    found = planned(home, arms())
    assert (found.done, found.reused, found.missing, found.unknown, found.seconds) == (0, 0, 4, 0, None)
    size, share, last = found.lines("arms@base")
    assert size == "each run: 6 epochs of 5,000 training images; 1,000 validation and 1,000 test images"
    assert share.startswith("2 concurrent runs, 1 thread each, cpu; ")
    assert " parameters, " in share
    assert last == "plan: arms@base: 4 runs to train, 0 done, 0 reused; time unknown until the first epoch"


def test_before_the_first_run_the_time_is_what_the_study_took_at_this_budget(home: Home) -> None:
    study = arms().study
    timed = Study(**{**dict(study), "minutes": {"base": 28.0}})
    guessed = Study(**{**dict(timed), "not_run": ("base",)})
    for each, words in ((timed, "28 min"), (guessed, "estimated 28 min")):
        line = last_line(planned(home, each.at()).with_gpu_hours())
        assert line.endswith(f"time unknown until the first epoch (the study says: {words} on 2 cores)")
    assert timed.at(set={"optimizer.epochs": 7}).stated_time == "", "the user's own values take another time"
    for counts, time in (({"seeds": study.seeds}, "28 min"), ({"seeds": 60}, "")):
        assert timed.at(**counts).stated_time == resolve(timed.at(), **counts).stated_time == time
    with pytest.raises(SpecError, match=r"not_run must be some of base, got \['cpu'\]"):
        Study(**{**dict(guessed), "not_run": ("cpu",)})
    with pytest.raises(SpecError, match="found must be by budget"):
        Study(**{**dict(guessed), "found": {"base": "0.9"}})


def test_where_no_time_is_stated_the_hours_of_a_gpu_are_counted(home: Home) -> None:
    found = planned(home, arms())
    steps = 4 * BASE.optimizer.epochs * math.ceil(5000 / BASE.optimizer.batch_size)
    counted = found.with_gpu_hours()
    assert counted.gpu_hours == pytest.approx(steps * STEP_S / 3600), "so small a model waits for its kernels"
    for hours, said in ((counted.gpu_hours, f"{3600 * counted.gpu_hours:.2g} s"), (0.4777, "29 min"), (26.3, "26 h")):
        assert last_line(replace(counted, gpu_hours=hours)).endswith(f"(about {said} of a GPU at 50 TFLOP/s)")
    large = planned(home, search(trials=2, seeds=2))
    assert len(large.recipes) == large.to_train
    big = replace(large, recipes=tuple(recipe.put(LARGE) for recipe in large.recipes))
    flops = sum(map(training_flops, big.recipes))
    assert big.with_gpu_hours().gpu_hours == pytest.approx(flops / GPU_FLOPS / 3600)


def test_the_plan_says_where_so_many_runs_at_once_leave_tpe_no_point_to_choose(home: Home) -> None:
    words = (
        "TPE chooses no point or hardly one, so this is a random search: with 50 concurrent runs 20 points are "
        "proposed before 5 have ended; --max-concurrent 8 lets it choose half of the others"
    )
    assert words in [*planned(home, search(20), 50).lines("x")]
    for trials, runs, is_blind in ((5, 50, False), (14, 14, True), (20, 16, True), (20, 8, False)):
        assert bool(planned(home, search(trials), runs).notes) == is_blind, (trials, runs)
    conduct(home, search(20))
    assert not [note for note in planned(home, search(40), 16).notes if "TPE" in note], "20 points are known"


def test_the_plan_says_what_is_special(home: Home) -> None:
    plain = planned(home, arms())
    frozen = replace(plain, weights=(Cost(25_010, 10_752, 2**30),))
    assert [*frozen.lines("x")][-2].endswith("; 25,010 parameters, 10,752 of them learn, 2.0 GiB in all")
    timm = {"init": {"kind": "from_timm", "name": "deit_tiny_patch16_224.fb_in1k", "part": "backbone"}}
    edition = Study(name="timm", question="?", base=BASE.put(timm), plan=arms().study.plan).at()
    pixels = "pixels are normalized by timm's mean and std of deit_tiny_patch16_224.fb_in1k (data.normalize.kind)"
    assert pixels in planned(home, edition).about
    assert not [line for line in plain.about if line.startswith("pixels")]
    half = Study(name="half", question="?", base=BASE.put({"optimizer.precision": "bfloat16"}), plan=arms().study.plan)
    for edition, device, count in ((arms(), "cuda", 1), (arms(), "cpu", 0), (half.at(), "cuda", 0)):
        about = planned(home, edition, device=device).about
        assert sum("optimizer.precision=bfloat16" in line for line in about) == count
    for runs_per_gpu, gpu, said in ((1, 80.0, ["16 runs"]), (16, 80.0, []), (2, 4.0, ["1 run"]), (1, None, [])):
        placement = Placement(max_concurrent=1, device="cuda", runs_per_gpu=runs_per_gpu, gpu_gib=gpu)
        on_gpu = replace(plain, peak_gib=3.5, placement=placement)
        lines = [line for line in on_gpu.lines("x") if "would hold" in line]
        assert lines == [f"a GPU of {gpu:.0f} GiB would hold {runs} by memory (--runs-per-gpu)" for runs in said]


def test_the_memory_of_a_run_is_that_of_the_largest_arm(home: Home) -> None:
    history = History.open(home, arms(wide={"model.embed_dim": 512, "model.depth": 12}))
    alone = History.open(home, arms(name="narrow"))
    wide = arms(wide={"model.embed_dim": 512, "model.depth": 12}).arms()[-1].recipe
    assert run_memory(history, Outcomes(home)) == estimate_cost(wide).memory_bytes / 2**30
    assert run_memory(alone, Outcomes(home)) < run_memory(history, Outcomes(home))


def test_parents_are_counted_once(home: Home) -> None:
    start = FromTrial(values={"data.task": "absolute"}).plain()
    assert planned(home, arms(child={"init": start}, other={"init": start, "trainable": "position"})).missing == 8 + 2


CHILD = BASE.put({"init": FromTrial(values={"encoding.kind": "none", "optimizer.epochs": 9}).plain()})
"""Its parent is the same at every point of gamma, and trains for longer."""


def test_parents_of_points_that_are_not_chosen_yet_are_counted(home: Home) -> None:
    space = Space({"encoding.gamma": Real(low=0.1, high=40, log=True)})
    plans = [
        Search(space=space, trials=4, stop=None, rival=False),
        Ablation({"near": {}, "mean": {"model.pool": "avg"}}, "near", tune=Tuning(space, 3)),
    ]
    for name, plan in zip(("searched", "tuned"), plans, strict=True):
        edition = Study(name=name, question="?", base=CHILD, plan=plan, seeds=2).at()
        found = planned(home, edition)
        epochs = [recipe.optimizer.epochs for recipe in found.recipes]
        assert found.to_train == len(epochs) == sum(row.missing for row in found.work)
        conduct(home, edition)
        ends = [fact for fact in read(home.study(edition.id).journal)[0] if isinstance(fact, Ended)]
        trained = {fact.run for fact in ends if fact.outcome == "completed"}
        history = History.open(home, edition)
        parents = {parent.key for trial in history.trials for run in history.asked(trial) for parent in ancestors(run)}
        assert epochs.count(9) == len(parents & trained) > 0
        assert len(trained) <= found.to_train, "what is planned is the most that is trained"
        assert planned(home, edition).to_train == 0


def test_what_other_studies_answered_is_reused(home: Home) -> None:
    conduct(home, arms())
    found = planned(home, arms("others", 3))
    assert (found.done, found.reused, found.missing) == (0, 4, 2)
    for weights in home.outcomes.glob("*/*.pt"):
        weights.unlink()
    assert planned(home, arms("others", 3)).reused == 0, "answers without weights train again"
    assert planned(home, arms()).done == 4


def test_the_time_comes_from_whole_runs_of_earlier_studies_on_the_same_kind_of_device(home: Home) -> None:
    """Their last epoch also holds the time of the tests. A GPU's epochs would make a study on a CPU seem short."""
    conduct(home, arms(seeds=1))
    answers = [Outcomes(home).get(path.parent.name, path.stem) for path in home.outcomes.glob("*/*.json")]
    times = [epoch.values["time/epoch_s"] for answer in answers for epoch in answer.outcome.curve]
    later = arms("later", seeds=3)
    found = planned(home, later, max_concurrent=1)
    assert found.reused == 2
    assert found.seconds == pytest.approx(START_S + 2 * sum(times)), "two more seeds of each"
    for path in home.outcomes.glob("*/*.json"):
        answer = json.loads(unsealed(path.read_bytes()))
        answer["environment"]["device"] = "NVIDIA H100"
        path.write_bytes(sealed(answer))
    assert planned(home, later, max_concurrent=1).seconds is None
    assert planned(home, later, max_concurrent=1, device="cuda").seconds is not None


def test_what_was_predicted_stands_beside_what_was_measured(home: Home) -> None:
    found = planned(home, arms())
    gib = max(weight.memory_bytes for weight in found.weights) / 2**30
    line = found.beside(75.0, 1.26)
    assert line == f"predicted: time unknown and {gib:.1f} GiB a run; measured: 01:15 and 1.3 GiB a run"
    known = replace(found, seconds=60.0, peak_gib=2.0)
    assert known.beside(75.0, None) == "predicted: 01:00 and 2.0 GiB a run; measured: 01:15"
    assert list(known.lines("x"))[-2].endswith(" parameters, 4.0 GiB in all")


def test_a_finished_search_has_nothing_to_train(home: Home) -> None:
    found = planned(home, search())
    assert (found.missing, found.unknown) == (0, (7 + 6) * 3)
    assert last_line(found).startswith("plan: x: at most 39 runs to train, 0 done"), "points are stopped, or diverge"
    conduct(home, search())
    found = planned(home, search())
    assert (found.missing, found.unknown, found.to_train) == (0, 0, 0)
    assert last_line(found).startswith("plan: x: 0 runs to train")
    assert last_line(found).endswith("; nothing to wait for")
    assert planned(home, search(trials=9)).unknown >= 6
    conduct(home, search(trials=16))
    assert [line for line in planned(home, search(trials=16)).lines("x") if line.startswith("Early stopping saved")]


def edit_fourier(monkeypatch) -> None:
    """As if the numbers of Fourier features had changed."""
    monkeypatch.setattr(Fourier, "REVISION", Fourier.REVISION + 1)


def test_changed_revisions_are_named(home: Home, monkeypatch) -> None:
    conduct(home, arms())
    edit_fourier(monkeypatch)
    found, changed = planned(home, arms()), f"Fourier {Fourier.REVISION}, not {Fourier.REVISION - 1}"
    assert (found.done, found.missing, found.changed) == (2, 2, (changed,))
    line = f"not counted: 2 answers of other code ({changed})"
    assert next(iter(found.lines("x"))) == line
    unknown = replace(found, changed=())
    assert next(iter(unknown.lines("x"))) == "not counted: 2 answers of other code"
    elsewhere = planned(home, arms("another"))
    assert (elsewhere.uncounted, elsewhere.reused, elsewhere.missing) == (2, 2, 2), "answers of another study"


def test_plan_status_and_report_count_the_same_answers_of_other_code(home: Home, monkeypatch) -> None:
    """A point by which an arm was tuned is not trained again: its row says that it is kept, and it is counted."""
    space = Space({"encoding.gamma": Real(low=0.1, high=40, log=True)})
    plan = Ablation({"near": {}, "mean": {"model.pool": "avg"}}, "near", tune=Tuning(space, 3))
    edition = Study(name="tuned", question="?", base=BASE, plan=plan, seeds=2).at()
    conduct(home, edition)
    edit_fourier(monkeypatch)
    found = planned(home, edition)
    assert found.uncounted == one_status(home, edition.id).stale == History.open(home, edition).stale
    assert found.uncounted > found.missing > 0, "points of tuning are not trained again"
    assert [row for row in found.work if row.name.endswith(", kept (other code)")]


def test_a_space_with_fewer_points_than_trials_is_counted(home: Home) -> None:
    plan = Search(space=Space({"encoding.hidden": Choice(options=(8, 16, 24, 32))}), trials=12)
    edition = Study(name="few", question="?", base=BASE, plan=plan, seeds=3).at()
    found = planned(home, edition)
    lines = list(found.lines(edition.id))
    assert "the space has no more than 4 points: 12 trials were asked for" in lines
    assert found.unknown == (4 + 4) * 3
    conduct(home, edition)
    after = planned(home, edition)
    assert (after.to_train, after.done) == (0, (4 + 4) * 3)


def test_arms_that_a_killed_driver_did_not_list_are_in_the_plan(home: Home) -> None:
    edition = arms()
    with driving(home, edition) as driver:
        driver._write(Planned(role="trial", number=0, name="near", values={"encoding.gamma": 1.0}))
    assert planned(home, edition).missing == 4


def test_a_plan_speaks_of_what_is_trained_and_not_of_the_base(home: Home) -> None:
    """No arm has the base's four blocks and four epochs."""
    base = Recipe(encoding=Fourier()).put({"optimizer.epochs": 4, "model.depth": 4})
    sizes = {depth: {"model.depth": depth, "optimizer.epochs": 5 + depth} for depth in (1, 2)}
    plan = Ablation({str(depth): values for depth, values in sizes.items()}, "1")
    edition = Study(name="depths", question="?", base=base, plan=plan, seeds=2).at()
    counts = [estimate_cost(base.variant(values)).parameters for values in sizes.values()]
    lines = list(planned(home, edition).lines("x"))
    assert any(line.startswith("each run: 6 to 7 epochs of ") for line in lines)
    assert f"; {counts[0]:,} to {counts[1]:,} parameters, " in lines[-2]
