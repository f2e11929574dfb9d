"""Defines the command without its verbs, and the functions that several verbs share."""

import shlex
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from service.commands.options import StudyOptions, check_name, own_values
from service.terminal.output import console, printable, sentence
from trainables.errors import SpecError

INTERRUPTED, MISTAKE, UNFINISHED = 130, 2, 3
"""The exit codes of a study that was interrupted, of a user's mistake, and of a study that its hours ended."""

HABITS = {
    "list": "studies", "ls": "studies", "info": "show", "describe": "show", "start": "run", "train": "run",
    "resume": "run", "continue": "run", "delete": "forget", "remove": "forget", "rm": "forget", "results": "report",
    "dashboard": "ui", "cancel": "stop", "log": "logs", "dry-run": "plan", "csv": "export",
}  # fmt: skip
"""By the name that other tools give to a verb: the name of the verb here."""
REMOVED = {
    "matrix": "locus report NAME has the verdicts of a study, each with its source",
    "--code": "run the study under another name (--as) and compare the two",
    "simulate": "locus plan NAME tells how long a study takes",
    "--fresh": "give the new start a name: --as WORD",
    "--adopt": "what older code trained is trained again; --as WORD keeps the old study beside the new one",
}
"""By each command or option that locus had once: a text that says what to type instead."""


PANELS = {
    "From a question to an answer": (
        "studies", "show", "plan", "check", "run", "status", "report", "compare", "export", "ui",
    ),
    "While a study runs": ("logs", "stop"),
    "On a cluster, and on other machines": ("doctor", "submit"),
    "Care of what was found": ("verify", "rerun", "record", "trust", "forget"),
}  # fmt: skip
"""The verbs in groups, in the order in which a user needs them: `--help` lists them in this order."""


class PressedError(Exception):
    """Says that Ctrl-C was pressed in a verb that does not handle it: at KeyboardInterrupt typer would end silently."""


class Verbs(TyperGroup):
    """Holds the verbs in the order of `PANELS`, and answers a verb of another tool with its name in locus."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        verbs: dict[str, Any] = {**self.commands}
        self.commands = {}
        for panel, names in PANELS.items():
            for name in names:
                verbs[name].rich_help_panel = panel
                self.commands[name] = verbs.pop(name)
        self.commands |= verbs  # those that help does not list

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        try:
            return super().make_context(*arguments, **options)
        except KeyboardInterrupt:
            raise PressedError from None

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise PressedError from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in REMOVED:
            raise SpecError(f"{args[0]} is gone; {REMOVED[args[0]]}")
        if args and args[0] in HABITS and args[0] not in self.commands:
            raise SpecError(f"no command {args[0]!r}; did you mean {HABITS[args[0]]}?")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="locus",
    cls=Verbs,
    help="Which position encoding, with which numbers, and how sure are we?",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_typed: bool) -> None:
    """Prints the version of locus and ends the command, if `--version` was typed."""
    if is_typed:
        from importlib.metadata import version

        say(f"locus {version('locus')}")
        raise typer.Exit


@app.callback()
def locus(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Which position encoding, with which numbers, and how sure are we?"""


def say(line: str) -> None:
    """Prints a line without wrapping it: a path, or text that another program reads."""
    typer.echo(printable(line))


def remark(text: str) -> None:
    """Prints a sentence for a person; a terminal wraps it between words."""
    sentence(console(), text)


def resolve(name: str, pairs: list[str] | None, preset: str | None, arms: str = "", **size: Any) -> Any:
    """Returns the edition that a command names, with the values of `--preset` and `--set`.

    `pairs` are the texts of `--set`. `arms` are names with commas between them. `size` has the other arguments of
    `api.resolve`. If a file's study has the name of a named study, but is another one, standard error says so.
    """
    check_name(name, size.get("home"))
    from search_spaces import library
    from service import api

    if shadow := library.shadowed(name):
        warning = f"{name} calls its study {shadow}, which is the name of a study of locus, too; it is another one"
        sentence(console(stderr=True), warning)
    names = [arm.strip() for arm in arms.split(",") if arm.strip()]
    return api.resolve(name, set=own_values(pairs), preset=preset, arms=names, **size)


def resolve_chosen(name: str, chosen: StudyOptions, storage: str | None = None) -> Any:
    """Returns the edition that a command names by the options that verbs share. `api.resolve` describes `storage`."""
    size = {option: getattr(chosen, option) for option in ("budget", "seeds", "trials", "version", "data", "home")}
    return resolve(name, chosen.set, chosen.preset, chosen.arms, storage=storage, **size)


def latest(name: str, home: str | None) -> tuple[Any, str]:
    """Returns the home, and the id of the latest edition of the study `name` in it."""
    from service.storage import editions
    from service.storage.home import Home

    home_folder = Home.find(home)
    return home_folder, editions.latest(home_folder, name)


def again(*without: str) -> str:
    """Returns the command line that was typed, without the options in `without` and their values."""
    command = ["locus"]
    arguments = iter(sys.argv[1:])
    for argument in arguments:
        if argument in without:
            next(arguments, None)
        elif argument != "--dry-run":
            command.append(argument)
    return shlex.join(command)
