"""The verbs as they are typed: what each option reaches, what help lists, which exit code says what, and refusals."""

import json
import sys
import threading
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

from service import api
from service.cli import app, main
from service.commands.app import PANELS, REMOVED
from service.commands.options import OUTPUT, SPEED, WHAT, WHERE, StudyOptions
from service.commands.running import run_resolved
from service.execution import jobs
from service.execution.signals import take_request
from service.planning.run_options import RunOptions
from service.results import Result
from service.storage.home import Home
from tests.house.test_light import locus
from tests.rooms.by_hand import ablated, at_sides
from tests.rooms.service.execution.studies import arms
from tests.rooms.toy import conduct, driving
from tests.waiting import until
from trainables.spec import LocusError, SpecError

COMMAND = typer.main.get_command(app)
AT = ("--address", "http://head:8265")
JOBS = (("one-1", "one@cpu", "/shared/a", "FAILED"), ("one-2", "one@cpu", "/shared/a", "RUNNING"),
        ("two-1", "two@cpu", "", "SUCCEEDED"), ("one-3", "one@cpu", "/shared/b", "STOPPED"))  # fmt: skip


def typed(*words: str) -> str:
    done = CliRunner().invoke(app, [*words])
    if done.exception:
        raise done.exception
    return done.output


@pytest.fixture
def cluster(monkeypatch):
    """Four jobs: two of one study in one home, one in another, and one in the cluster's own home."""
    listed = [
        SimpleNamespace(
            submission_id=name, metadata={jobs.STUDY: study, jobs.HOME: home}, start_time=number,
            status=SimpleNamespace(value=state),
        )
        for number, (name, study, home, state) in enumerate(JOBS)
    ]  # fmt: skip
    status = {job.submission_id: job.status for job in listed}
    client = SimpleNamespace(
        list_jobs=lambda: listed, get_job_status=status.get, get_job_logs=lambda job: f"plan\n00:07  a line of {job}\n"
    )
    monkeypatch.setattr(jobs, "connect", lambda address: client)


def test_the_newest_job_of_each_study_and_home_is_listed(cluster):
    states = json.loads(typed("status", "--json", *AT))
    assert [(job["study"], job["job"], job["job_state"], job["home"]) for job in states] == [
        ("one@cpu", "one-2", "RUNNING", "/shared/a"),
        ("two@cpu", "two-1", "SUCCEEDED", None),
        ("one@cpu", "one-3", "STOPPED", "/shared/b"),
    ]
    assert typed("status", *AT).splitlines()[1].split() == ["one@cpu", "one-2", "RUNNING", "/shared/a"]
    rows = [line.split() for line in typed("status", "--home", "/shared/a", *AT).splitlines()]
    assert [row[1] for row in rows[1:]] == ["one-2", "two-1"], "whose home may be this one, for a job does not tell"
    assert typed("status", "one", "--home", "/shared/a", *AT).splitlines() == [
        "one@cpu  RUNNING  job one-2",
        "last line  00:07  a line of one-2",
        f"watch      locus status one@cpu {' '.join(AT)} --home /shared/a",
        f"           locus logs one@cpu {' '.join(AT)} --home /shared/a -f",
        f"stop       locus stop one@cpu {' '.join(AT)} --home /shared/a",
    ]
    assert typed("logs", "one", *AT) == "plan\n00:07  a line of one-3\n"
    with pytest.raises(LocusError, match="no study 'three' was submitted to http://head:8265"):
        typed("status", "three", *AT)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("logs", "one", "--run", "0.1"), "--run must stand without --address, got 0.1"),
        (("stop", "one", "--now"), "--now must stand without --address; a job has 120 s"),
        (("doctor", "--home", "/shared/a"), "--address must stand alone"),
        (("doctor", "--data", "./pets"), "--address must stand alone"),
    ],
    ids=lambda words: words[0] if isinstance(words, tuple) else "",
)
def test_what_a_job_cannot_tell_is_refused(cluster, words, why):
    with pytest.raises(SpecError, match=why):
        typed(*words, *AT)


def test_a_stop_reaches_the_driver_and_logs_print_the_events(home, monkeypatch) -> None:
    monkeypatch.setenv("LOCUS_HOME", str(home.root))
    with driving(home, arms()) as driver:
        found = []

        def read() -> None:
            until(lambda: found.extend(filter(None, [take_request(driver.folder)])) or found)

        reader = threading.Thread(target=read)
        reader.start()
        output = typed("stop", "arms")
        reader.join()
    assert [request.stop for request in found] == ["after the epoch"]
    assert "was asked to stop each run after its epoch" in " ".join(output.split())
    conduct(home, arms())
    assert typed("logs", "arms", "--run", "1.0").count("#1 seed 0 epoch") == 6


def test_a_misspelt_name_or_option_is_refused_before_what_studies_are_made_of_is_imported(tmp_path):
    parts = ("search_spaces.study", "trainables.recipe", "service.api", "service.planning.run_options")
    misspelt = [(verb, "fourier-gama") for verb in ("run", "plan", "check")]
    *names, option = locus(*misspelt, ("run", "fourier-gamma", "--seedz", "3"), home=tmp_path, heavy=parts)
    why = "locus: no study 'fourier-gama'; did you mean fourier-gamma? (locus studies lists all)"
    assert [(code, loaded, " ".join(text.split())) for code, loaded, text in names] == [(2, [], why)] * 3
    assert (option[0], option[1], "No such option: --seedz" in option[2]) == (2, [], True)


def test_every_option_that_is_typed_reaches_the_study(tmp_path, monkeypatch):
    """Of both verbs that run one. `submit` has a home of its own: the one at the cluster."""
    values: dict[str, object] = {"tracking": "http://mlflow", "experiment": "mine", "storage": "s3://bucket/locus"}
    values |= {"max_concurrent": 2, "threads": 3, "workers": (2, 4), "loader_workers": 5, "device": "cpu"}
    values |= {"runs_per_gpu": "auto", "fuse": 8, "hours": 6.0, "run_hours": 7.0}
    words = [word for name, value in values.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    words[words.index("(2, 4)")] = "2-4"
    flags = ["compile", "grad_checkpointing", "deterministic", "download"]
    words += [f"--{flag.replace('_', '-')}" for flag in flags] + ["--budget", "smoke", "--seeds", "8"]
    options = RunOptions(**values, home=str(tmp_path), **dict.fromkeys(flags, True))
    changed = {name for name in RunOptions.model_fields if getattr(options, name) != getattr(RunOptions(), name)}
    assert changed == {*RunOptions.model_fields} - {"address"}, "no option has its default"
    ran, sent = [], []

    def submitted(edition, options, address, *, say):
        sent.append((edition.id, edition.study.seeds, options, address))
        return SimpleNamespace(describe=str)

    monkeypatch.setattr("service.commands.running.run_resolved", lambda edition, options, **_: ran.append(options))
    monkeypatch.setattr("service.execution.jobs.submit", submitted)
    for more in (words, (), ("--join",)):
        typed("run", "fourier-gamma", "--home", str(tmp_path), *more)
    typed("submit", "fourier-gamma", *AT, "--home", str(tmp_path), *words)
    assert ran[0] == options
    assert [each.address for each in ran] == ["local", "local", "auto"], "a study starts a Ray or joins one"
    assert sent == [("fourier-gamma@smoke", 8, options, AT[1])]
    assert StudyOptions().run_options() == RunOptions(), "the same defaults"


def test_every_verb_and_every_shared_option_has_a_group_and_help_lists_them_in_the_order_of_need():
    listed = [name for name, verb in COMMAND.commands.items() if not verb.hidden]
    assert listed == [name for names in PANELS.values() for name in names]
    assert all(COMMAND.commands[name].rich_help_panel == panel for panel, names in PANELS.items() for name in names)
    for verb in ("plan", "check", "run", "submit"):
        groups = {option.name: option.rich_help_panel for option in COMMAND.commands[verb].params}
        without = {name for name, panel in groups.items() if panel is None}
        assert without - {"name"} == ({"address", "home"} if verb == "submit" else set()), verb
        assert set(groups.values()) - {None} <= {WHAT, WHERE, SPEED, OUTPUT}
    groups = {option.name: option.rich_help_panel for option in COMMAND.commands["run"].params}
    assert [groups[name] for name in ("budget", "home", "threads", "quiet")] == [WHAT, WHERE, SPEED, OUTPUT]
    assert set(RunOptions.model_fields) - {"address"} <= set(groups)


@pytest.mark.parametrize("word", REMOVED)
def test_what_was_removed_is_answered_with_what_to_type_instead(word, monkeypatch, capsys):
    for verb in (["run"], ["report"], ["compare"]) if word.startswith("--") else ([],):
        monkeypatch.setattr(sys, "argv", ["locus", *verb, word])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        assert " ".join(capsys.readouterr().err.split()) == f"locus: {word} is gone; {REMOVED[word]}"


@pytest.mark.parametrize(("make", "ended", "hours", "code", "sentence"), [
    (ablated, "failed", None, 1, "1 run; the same command tries again"),
    (at_sides, "completed", None, 0, ""),
    (ablated, "failed", 2.0, 1, "1 run; the same command tries again"),
    (ablated, "stopped", 2.0, 3, "stopped after 2 hours; what is finished is kept"),
    (ablated, "stopped", 1.0, 3, "stopped after 1 hour; "),
])  # fmt: skip
def test_the_exit_code_says_whether_every_run_has_an_answer(
    make, ended, hours, code, sentence, tmp_path, monkeypatch, capsys
) -> None:
    """A study that failed before its hours were over is not said to be stopped by them."""
    id = make(tmp_path)
    if ended == "stopped":  # nothing was trained
        journal = Home(tmp_path).study(id).journal
        journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:2]))
    result = Result.open(Home(tmp_path), id)

    def here(*_, tell, **__):
        tell(ended=ended)
        return result

    monkeypatch.setattr(api, "here", here)
    exit_code = 0
    try:
        run_resolved(result.edition, RunOptions(home=str(tmp_path), hours=hours), detail="quiet")
    except typer.Exit as exit_:
        exit_code = exit_.exit_code
    output = capsys.readouterr().out
    assert exit_code == code
    assert sentence in output
    assert ("stopped after" in output) == (ended == "stopped")
    assert ("the same command tries again" in output) == (code == 1)
