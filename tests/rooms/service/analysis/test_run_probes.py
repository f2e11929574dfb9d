"""Probes of a study's runs: computed once from the kept weights, kept beside the answers, read without torch."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from search_spaces.claim import ProbeAlike
from search_spaces.study import Study
from service import api
from service.analysis.probes import SCALES, alike, correlation
from service.analysis.statistics import Scores
from service.results import Result, compute_probes
from service.storage import outcomes
from service.storage.home import Home
from service.storage.outcomes import Outcomes
from tests.rooms.probed import ARMS, probed, study
from trainables import probes
from trainables.data.red_green_torch import further_test
from trainables.recipe.findings import Findings, Probed
from trainables.spec import LocusError, SpecError
from trainables.training.loop import build_model_with_weights
from trainables.training.normalize import normalizer


@pytest.fixture(scope="module")
def untouched(tmp_path_factory) -> Home:
    return probed(tmp_path_factory.mktemp("untouched"), "distance", "similarity", "attention_distance")


@pytest.fixture
def home(untouched: Home, tmp_path: Path) -> Home:
    """A home of its own for each test, which computes probes in it."""
    shutil.copytree(untouched.root, tmp_path / "home")
    return Home(tmp_path / "home")


def opened(home: Home) -> Result:
    return Result.open(home, "known@base")


def row(result: Result, name: str):
    return next(row for row in result.of("trial") if row.name == name)


def test_before_is_the_model_before_its_first_step_and_after_the_kept_weights(home) -> None:
    trial = row(opened(home), "learnable")
    found = trial.probe("similarity", seed=1)
    run = trial.runs[1].run
    model = build_model_with_weights(run.recipe, 1).double()
    grid = model.grid
    expected = probes.similarity(probes.codes_of(model), grid).astype("float32")
    np.testing.assert_array_equal(found.before.arrays["maps"], expected)
    expected = probes.similarity(probes.codes_of(trial.model(1).double()), grid).astype("float32")
    np.testing.assert_array_equal(found.after.arrays["maps"], expected)
    assert found.before.values != found.after.values
    fixed = row(opened(home), "sinusoidal").probe("distance", seed=0)
    assert fixed.before.values == fixed.after.values


def test_a_child_begins_with_its_parents_code(home) -> None:
    result = opened(home)
    child, parent = row(result, "pretrained"), result.of("parent")[0]
    for seed in (0, 1):
        begun, ended = child.probe("similarity", seed).before, parent.probe("similarity", seed).after
        np.testing.assert_array_equal(begun.arrays["maps"], ended.arrays["maps"])
        assert begun.values == ended.values
    claim = ProbeAlike("pretrained", "p", "similarity", "maps", 0.0, None, when="after")
    maps = [[row.probe("similarity", seed).after.arrays["maps"] for seed in (0, 1)] for row in (child, parent)]
    found = alike(child.probes, parent.probes, claim, 2)
    assert found.values == {0: correlation(maps[0][0], maps[1][1]), 1: correlation(maps[0][1], maps[1][0])}, (
        "models of one seed share their initial weights"
    )


def test_a_probe_is_computed_once_and_again_where_its_code_or_its_file_changed(home, monkeypatch) -> None:
    trial = row(opened(home), "learnable")
    first = trial.probe("distance", seed=0)
    path = trial.probes[0].path("distance")
    folder = home.outcomes / trial.runs[0].run.key  # of the answer, which `forget` removes as a whole
    assert path == folder / f"{trial.runs[0].code}.distance.npz"
    calls = []
    monkeypatch.setattr("trainables.probes.catalog.probe_run", lambda *args: calls.append(args) or first)
    assert trial.probe("distance", seed=0).after.values == first.after.values
    assert not calls
    outcomes.write_probe(path, Probed(Findings(), Findings({"r2": 9.0})), "of other code")
    assert trial.probe("distance", seed=0).after.values == first.after.values
    assert len(calls) == 1
    whole = path.read_bytes()
    middle = whole.index(b"said.npy") + 20
    flipped = whole[:middle] + bytes(255 - byte for byte in whole[middle : middle + 9]) + whole[middle + 9 :]
    for count, damaged in enumerate((whole[:100], flipped, b"", b"no zip"), start=2):
        path.write_bytes(damaged)
        with pytest.raises(outcomes.ProbeFileError):
            outcomes.read_probe(path)
        assert trial.probe("distance", seed=0).after.values == first.after.values
        assert len(calls) == count
        assert outcomes.read_probe(path)


def test_kept_models_are_tested_on_further_images_where_three_seeds_or_more_show_an_interval(home, monkeypatch) -> None:
    trial = row(opened(home), "learnable")
    found = trial.probe("further_images", seed=0)
    model, data = trial.model(0).double(), trial.recipe.data
    normalize = normalizer(trial.recipe, torch.device("cpu"), torch.float64)
    expected = []
    for number in range(1, 5):
        images, targets = further_test(data, number)
        with torch.no_grad():
            outputs = model(normalize(torch.from_numpy(images).double() / 255))
        expected.append(float((outputs.argmax(dim=1).numpy() == targets).mean()))
    assert found.after.arrays["scores"].tolist() == expected
    result = opened(home)
    assert row(result, "learnable").test.further == {0: (*expected,)}
    assert result.looked_at == []  # two seeds have no interval
    more = Result(
        home,
        result.edition.model_copy(update={"study": result.edition.study.counted(seeds=3)}),
        result.history,
        Outcomes(home),
    )
    assert [(trial.name, look) for trial, look in more.looked_at] == [(name, "further_images") for name in ARMS]
    notes: list[str] = []
    monkeypatch.setattr("service.results.cores", lambda: 4)
    compute_probes(more, notes.append, lambda: False)
    assert "testing 7 models on further draws of the test images" in notes
    together = {one.name: one.test.further for one in opened(home).of("trial")}
    assert all({*further} == {0, 1} for further in together.values())
    for one in opened(home).of("trial"):
        for seed, run in one.probes.items():
            run.path("further_images").unlink()
            scores = run("further_images").after.arrays["scores"]
            assert together[one.name][seed] == (*scores,), "as of a model that is tested alone"


def test_reading_what_is_kept_needs_no_torch(home) -> None:
    expected = row(opened(home), "learnable").probe("attention_distance", seed=0)
    code = (
        "import sys, json; from service.results import Result; from service.storage.home import Home\n"
        f"result = Result.open(Home.find({str(home.root)!r}), 'known@base')\n"
        "row = next(row for row in result.of('trial') if row.name == 'learnable')\n"
        "found = row.probe('attention_distance', seed=0)\n"
        "heavy = [name for name in ('torch', 'timm', 'sklearn', 'ray') if name in sys.modules]\n"
        "print(json.dumps([heavy, found.after.values, found.after.arrays['by_head'].tolist()]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy, values, by_head = json.loads(done.stdout)
    assert heavy == []
    assert values == expected.after.values
    np.testing.assert_array_equal(by_head, expected.after.arrays["by_head"])


def test_without_weights_or_with_an_unknown_name_there_is_one_sentence(home) -> None:
    trial = row(opened(home), "learnable")
    with pytest.raises(LocusError, match=r"the probe must be one of direction, distance, .* got 'colour'"):
        trial.probe("colour")
    with pytest.raises(LocusError, match=r"runs of 'learnable' must hold seed 5, got seeds \[0, 1\]"):
        trial.probe("distance", seed=5)
    trial.weights[0].unlink()
    with pytest.raises(LocusError, match="must be kept to be probed, got none"):
        trial.probe("distance", seed=0)


def test_a_record_is_made_with_the_probes_of_todays_code(home, monkeypatch) -> None:
    monkeypatch.chdir(home.root)
    Path("known.json").write_text(opened(home).edition.study.model_dump_json())
    notes: list[str] = []
    assert api.record("known.json", home=str(home.root), note=notes.append).is_file()
    assert notes[0] == "probes: 24 probes of 8 runs to compute"
    assert all(trial.probes[seed].kept("distance") for trial in opened(home).compared for seed in (0, 1))


def test_a_study_computes_what_it_names_and_shows_it_as_scores_and_in_the_table(home) -> None:
    notes: list[str] = []
    result = opened(home)
    assert result.probe_scores("distance", "r2")["learnable"].values == {}
    compute_probes(result, notes.append, lambda: True)
    assert not list(home.outcomes.rglob("*.npz")), "a person stopped it"
    compute_probes(result, notes.append, lambda: False)
    begun, *done = notes[1:]
    assert begun == notes[0] == "probes: 24 probes of 8 runs to compute"
    assert [line.partition(",")[0] for line in done] == [f"{n} of 24 done" for n in (2, 4, 7, 9, 12, 14, 16, 19, 21)]
    assert all(re.fullmatch(r"\d+ of 24 done, about \d\d:\d\d left", line) for line in done)
    assert len(list(home.outcomes.rglob("*.npz"))) == 24
    compute_probes(opened(home), notes.append, lambda: False)
    assert len(notes) == 2 + len(done), "nothing is missing"
    scores = result.probe_scores("distance", "r2", "before")
    assert [*scores] == [*ARMS]
    assert scores["learnable"].values == {
        seed: row(result, "learnable").probe("distance", seed).before.values["r2"] for seed in (0, 1)
    }
    assert scores["learnable"].asked == 2
    assert scores["irpe"].values == {}
    table = result.table().set_index(["name", "seed"])
    assert table.loc[("learnable", 1), "probe/distance/r2/before"] == scores["learnable"].values[1]
    assert np.isnan(table.loc[("irpe", 0), "probe/distance/r2/after"])


def test_a_probe_that_fails_is_said_and_the_others_go_on(home) -> None:
    row(opened(home), "learnable").weights[0].unlink()
    notes: list[str] = []
    compute_probes(opened(home), notes.append, lambda: False)
    told = [note for note in notes if not note.endswith(" left")]
    assert len(told) == 4
    assert told[1].startswith("the probe attention_distance of learnable, seed 0, failed: the weights of ")
    assert len(list(home.outcomes.rglob("*.npz"))) == 21
    for trial in opened(home).compared:
        for run in trial.probes.values():
            run.outcomes.weights(run.answered.run.key, run.answered.name).unlink(missing_ok=True)
            for name in opened(home).edition.study.probes:
                run.path(name).unlink(missing_ok=True)
    notes.clear()
    compute_probes(opened(home), notes.append, lambda: False)
    failed = [note for note in notes if "must be kept to be probed" in note]
    assert (len(failed), notes[-1]) == (5, "19 more probes failed"), "of many the first are told"


def test_all_seeds_count_for_a_probe() -> None:
    """A direction that cannot be read out, at 0.5, is a finding: the seed has not failed."""
    assert not any(Scores({0: 0.4, 1: -0.1, 2: 0.5, 3: 0.9, 4: 0.91}, 5, scale).failed for scale in SCALES.values())


def test_probes_are_no_part_of_a_definition_and_change_no_key() -> None:
    bare, named = study(), study("distance", "direction")
    assert named.probes == ("direction", "distance")
    assert bare.at().definition == named.at().definition
    assert bare.at().id == named.at().id
    assert Study.read(named.plain()) == named
    with pytest.raises(SpecError, match="probes"):
        study("colour")
    with pytest.raises(SpecError, match="keep must be weights where probes are named"):
        study("distance", keep=())
