"""The verbs of Python: what they take, what they refuse, and that nothing is written where they refuse."""

import inspect
import os
import re
import subprocess
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import service
from search_spaces.study import Ablation, Study
from service import api
from service.commands import cluster, running
from service.planning.run_options import OptionsAndAddress, RunOptions
from service.storage import editions, outcomes
from service.storage.home import Home
from tests.rooms.toy import conduct
from trainables.recipe import FromFile, Recipe, revisions
from trainables.spec import LocusError, SpecError

STUDY = Study(name="arms", question="?", base=Recipe(), plan=Ablation({"near": {}}, "near"), seeds=1)


def test_every_door_has_the_same_options_with_the_same_defaults(monkeypatch) -> None:
    """Python's verbs, the command's, and `RunOptions`: a name, a default and a type each; and all of them arrive."""
    fields = RunOptions.model_fields
    types = get_type_hints(OptionsAndAddress)
    assert types == {name: field.annotation for name, field in fields.items()}
    for verb in (service.run, service.sweep, service.ablate, service.submit):
        parameters = inspect.signature(verb).parameters
        assert not [each for each in parameters.values() if each.kind is each.VAR_KEYWORD], verb
        for name in {*fields} - ({"address"} if verb is service.submit else set()):
            assert (parameters[name].annotation, parameters[name].default) == (types[name], fields[name].default)
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'thread'"):
        service.run(STUDY, thread=2)
    for command, renamed in ((running.run, {"address"}), (cluster.submit, {"address"}), (running.plan, {*fields})):
        parameters = inspect.signature(command).parameters
        assert {*fields} - {*parameters} <= renamed, command
        for name in {*fields} & {*parameters} - {"address"}:
            assert parameters[name].default == fields[name].default, (command, name)
            assert get_args(parameters[name].annotation)[0] in (fields[name].annotation, Any), (command, name)
    verbs = {*inspect.signature(service.run).parameters}
    assert {*inspect.signature(running.run).parameters} - {"name", "join", "dry_run", "quiet", "verbose"} <= verbs
    missing = {"study", "budget", "set"}
    assert verbs - {*inspect.signature(service.sweep).parameters} == missing | {"arms"}
    assert verbs - {*inspect.signature(service.ablate).parameters} == missing | {"trials"}
    assert RunOptions(address=None).address == "local", "an address of None is this machine"


def test_all_options_arrive(monkeypatch) -> None:
    values: dict[str, Any] = dict(
        home="/h", tracking="t", experiment="e", storage="s3://b", address="auto", hours=1.0, run_hours=2.0,
        max_concurrent=3, threads=4, workers=(2, 5), loader_workers=6, device="cpu", runs_per_gpu="auto", fuse=7,
        compile=True, deterministic=True, grad_checkpointing=True, download=True,
    )  # fmt: skip
    assert {*values} == {*RunOptions.model_fields}
    arrived: list[Any] = []
    monkeypatch.setattr(api, "resolve", lambda study, **values: study.at())
    monkeypatch.setattr(api, "here", lambda study, options, **more: arrived.append((study, options, more)))
    service.run(STUDY, **values)
    more = {"question": "Which rate?", "version": "again", "callbacks": [print]}
    best = Recipe().put({"optimizer.epochs": 3})
    service.sweep(best, {"optimizer.lr": service.Real(1e-4, 1e-2)}, **values, **more)
    service.ablate({"a": {}, "b": {"optimizer.lr": 0.1}}, baseline="a", base=best, **values, **more)
    assert [options for _, options, _ in arrived] == [RunOptions(**values)] * 3
    for edition, _, passed in arrived[1:]:
        assert (edition.study.question, edition.study.base) == ("Which rate?", best)
        assert passed["callbacks"] == [print]
    with pytest.raises(SpecError, match=r"^base must be \{path: value\} or a Recipe, got 3$"):
        service.ablate({"a": {}}, baseline="a", base=3)


def test_a_study_of_the_home_is_named_as_report_names_it(tmp_path: Path, monkeypatch) -> None:
    home = str(tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError, match=r"^no study 'arms' \(locus studies lists all\)$"):
        api.resolve("arms", home=home)
    first, second = STUDY.at(), STUDY.at(set={"optimizer.epochs": 2})
    conduct(Home(tmp_path / "home"), first)
    assert api.resolve("arms", home=home, seeds=2).id == first.id
    with pytest.raises(LocusError, match=r"no study 'arn@base' in .*; known: arms@base; did you mean arms@base"):
        editions.stored(Home(tmp_path / "home"), "arn@base")
    with pytest.raises(LocusError, match=r"; did you mean arms\? \(locus studies lists all\)$"):
        api.resolve("arns", home=home)
    with pytest.raises(LocusError, match=r"; did you mean arms\?"):
        service.forget("arns", home=home)
    there = Home(tmp_path / "home")
    assert editions.only(there, "arms") == editions.only(there, "arms@base") == first.id
    conduct(Home(tmp_path / "home"), second)
    os.utime(Home(tmp_path / "home").study(first.id).study, (1, 1))
    assert api.resolve("arms", home=home).id == second.id == service.result("arms", home=home).edition.id
    with pytest.raises(LocusError, match=f"^arms must name one version, got 2: {first.id}, {second.id}$"):
        service.forget("arms", home=home)
    with pytest.raises(SpecError, match=f"^budget must be left out beside {second.id}, which names"):
        api.resolve("arms", home=home, budget="smoke")
    Path("arms.py").write_text("from service import *")
    with pytest.raises(LocusError, match=f"^arms may be ./arms.py or {second.id}, which .*home holds"):
        api.resolve("arms", home=home)
    Path("rowcol.py").touch()
    with pytest.raises(SpecError, match=r"^no study 'rowcol'; did you mean ./rowcol.py\? \(locus studies lists all\)$"):
        api.resolve("rowcol", home=home)


def test_an_id_or_an_edition_takes_other_counts_and_a_name_but_no_other_values(home: Home, tmp_path: Path) -> None:
    edition = STUDY.at()
    assert api.resolve(edition, budget=None, seeds=None) == edition
    assert api.resolve(edition, seeds=9).study.seeds == 9
    cells, folder = STUDY.at(set={"optimizer.epochs": 2}), str(tmp_path)
    conduct(home, cells)
    more = api.resolve(cells.id, home=folder, seeds=2)
    assert (more.id, more.definition, more.study.seeds) == (cells.id, cells.definition, 2)
    assert api.resolve("fourier-gamma@smoke", home=folder) == api.resolve("fourier-gamma", budget="smoke")
    again = api.resolve(cells.id, home=folder, version="again")
    assert (again.id, again.definition, again.own_paths) == ("arms@base~again", cells.definition, cells.own_paths)
    assert not conduct(home, again).trained, "answers are used again"
    assert api.resolve(again.id, home=folder) == again
    assert api.resolve(cells.id, home=folder) == cells
    for study, values, words in (
        (edition, {"set": {"optimizer.epochs": 3}}, "^set must be left out beside arms@base, which names them already"),
        (cells.id, {"budget": "smoke"}, "^budget must be left out beside"),
        (cells.id, {"version": "again.2"}, "^a version's name must be at most 60 letters, digits"),
        ("arms@base~zzzz", {}, rf"no study 'arms@base~zzzz' in .*; did you mean {re.escape(cells.id)}"),
    ):
        with pytest.raises(LocusError, match=words):
            api.resolve(study, home=folder, **values)


def test_a_missing_file_of_weights_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """Also before the MLflow run is made."""
    missing = tmp_path / "gone.pt"
    study = Study(**{**dict(STUDY), "base": Recipe(init=FromFile(str(missing), "0" * 64))})
    with pytest.raises(
        LocusError, match=rf"^{missing} must be a file of weights, got no such file; nothing was trained$"
    ):
        service.run(study, home=str(tmp_path / "home"))
    assert not (tmp_path / "home").exists()


def test_forget_and_result_read_the_address_of_mlflow_as_run_does(tmp_path: Path, monkeypatch) -> None:
    conduct(Home(tmp_path), STUDY.at())
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nowhere")
    with pytest.raises(LocusError, match="MLFLOW_TRACKING_URI must begin with one of"):
        service.forget("arms", home=str(tmp_path))
    assert service.result("arms", home=str(tmp_path)).mlflow_url == "nowhere"


def test_an_installed_copy_has_no_commit(tmp_path: Path, monkeypatch) -> None:
    """Inside the checkout of another project it must not give that project's commit."""
    if not (Path(outcomes.__file__).parents[2] / ".git").exists():
        pytest.skip("not a checkout")
    assert outcomes.commit()
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "a"], check=True)
    inside = tmp_path / "lib" / "site-packages" / "service" / "storage" / "commit.py"
    monkeypatch.setattr(outcomes, "__file__", str(inside))
    inside.parent.mkdir(parents=True)
    assert outcomes.commit() == ""


def test_every_public_name_is_there_and_no_other() -> None:
    assert "run" in service.__all__
    assert all(getattr(service, name) is not None for name in service.__all__)
    assert dir(service) == sorted(service.__all__)
    with pytest.raises(AttributeError, match=r"service has no 'rum'; it offers .* run,"):
        service.rum


def test_answers_of_older_code_do_not_count_and_looking_writes_nothing(tmp_path, monkeypatch, capsys) -> None:
    home, edition = str(tmp_path), STUDY.at(seeds=3)
    conduct(Home(tmp_path), edition)
    page = service.report("arms", home=home)
    shown, facts = page.read_text(), Home(tmp_path).study("arms@base").journal.read_text()
    monkeypatch.setattr(revisions, "LOOP", revisions.LOOP + 1)
    (found,) = service.status("arms", home=home)
    assert (found.stale, found.done) == (3, 0)
    words = (
        r"^today's code has no answers of arms@base, and its 3 answers by other code do not count, so .*report\.html"
    )
    with pytest.raises(LocusError, match=f"{words} is kept; locus run arms@base trains again$"):
        service.report("arms", home=home)
    assert api.plan(edition, RunOptions(home=home))[1].missing == 3
    assert (page.read_text(), Home(tmp_path).study("arms@base").journal.read_text()) == (shown, facts)
