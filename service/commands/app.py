"""The command without its verbs, and what several verbs do."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated, Any

import typer

from service.terminal.options import own_values

INTERRUPTED = 130
MISTAKE = 2

app = typer.Typer(
    name="locus",
    help="Which position encoding, with which numbers, and how sure are we?",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
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
    """Prints a line."""
    typer.echo(line)


def resolve(name: str, own: list[str] | None, preset: str | None, **size: Any) -> Any:
    """The edition that a command names, with the values of `--preset` and `--set`."""
    from service import api

    return api.resolve(name, set=own_values(own), preset=preset, **size)


def again(*without: str) -> str:
    """The command that was typed, without some options and their values."""
    kept: list[str] = []
    words = iter(sys.argv[1:])
    for word in words:
        if word in without:
            next(words, None)
        elif word not in ("--fresh", "--dry-run"):
            kept.append(word)
    return shlex.join(["locus", *kept])
