"""What `--help` lists, in which groups and in which order."""

import sys

import pytest
import typer

from service.cli import app, main
from service.commands.app import PANELS, REMOVED
from service.commands.options import OUTPUT, SPEED, WHAT, WHERE, StudyOptions
from service.planning.run_options import RunOptions

COMMAND = typer.main.get_command(app)
ITS_OWN = {"submit": {"address", "home"}}
"""Options that are declared by one verb, and stand before the groups."""


def test_every_shared_option_has_a_group():
    for verb in ("plan", "check", "run", "submit"):
        options = {one.name: one.rich_help_panel for one in COMMAND.commands[verb].params if one.name != "name"}
        own = ITS_OWN.get(verb, set())
        assert {name for name, panel in options.items() if panel is None} == own, verb
        assert set(options.values()) - {None} <= {WHAT, WHERE, SPEED, OUTPUT}
    run = {one.name: one.rich_help_panel for one in COMMAND.commands["run"].params}
    assert [run[name] for name in ("budget", "home", "threads", "quiet")] == [WHAT, WHERE, SPEED, OUTPUT]
    assert set(RunOptions.model_fields) - {"address"} <= set(run)
    assert StudyOptions().run_options() == RunOptions(), "the same defaults"


def test_every_verb_has_a_group_and_help_lists_them_in_the_order_of_need():
    listed = [name for name, verb in COMMAND.commands.items() if not verb.hidden]
    assert listed == [name for names in PANELS.values() for name in names]
    assert listed[:3] == ["studies", "show", "plan"]
    assert all(COMMAND.commands[name].rich_help_panel == panel for panel, names in PANELS.items() for name in names)


@pytest.mark.parametrize("word", REMOVED)
def test_what_was_removed_is_answered_with_what_to_type_instead(word, monkeypatch, capsys):
    for verb in (["run"], ["report"], ["compare"]) if word.startswith("--") else ([],):
        monkeypatch.setattr(sys, "argv", ["locus", *verb, word])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        assert " ".join(capsys.readouterr().err.split()) == f"locus: {word} is gone; {REMOVED[word]}"
