"""Defines the options of the command, with their help texts."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from search_spaces import library
from trainables.errors import SpecError

if TYPE_CHECKING:
    from service.planning.run_options import RunOptions


def study_names(begin: str) -> list[str]:
    """Returns the named studies and the ids of the home that begin with `begin`, for completion in a shell."""
    from service.storage.home import Home

    return [name for name in dict.fromkeys([*library.names(), *Home.find().ids()]) if name.startswith(begin)]


def check_name(name: str, home: str | None) -> None:
    """Refuses a misspelt name at once, before the modules are imported that define studies: they take half a second.

    Raises: SpecError for a name that is neither of a named study nor of one that was run.
    """
    if library.in_file(name) or "@" in name or name in library.names():
        return
    from service.storage.home import Home

    names = [id.partition("@")[0] for id in Home.find(home).ids()]
    if name not in names:
        library.find(name, names)


def number(option: str, read: Callable[[Any], Any], what: str) -> Callable[[Any], Any]:
    """Returns a function that reads the number of an option, from a text or from its default, a number.

    `read` converts it, such as `int`. An error calls the option `option`, and says that it must be `what`.
    """

    def read_option(text: Any) -> Any:
        try:
            return read(text)
        except ValueError:
            raise SpecError(f"{option} must be {what}, got {text!r}") from None

    return read_option


hours = number("hours", float, "a positive number of hours")


def worker_counts(text: Any) -> int | tuple[int, ...]:
    """Returns the number of workers that a text gives, or the fewest and the most: `2-4` is (2, 4)."""
    whole = number("workers", int, "a whole number")
    counts = [whole(count) for count in re.split(r"(?<=\d)-", str(text), maxsplit=1)]
    return counts[0] if len(counts) == 1 else tuple(counts)


def budgets(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the budgets of a named study that begin with `incomplete`, for completion in a shell.

    No budgets are returned for a user's own file, because it would have to be run.
    """
    name = str(ctx.params.get("name") or [*ctx.args, ""][0])  # typer has not read it where an option lacks its value
    named = library.find(name).budgets if name in library.names() else ()
    return [budget for budget in named if budget.startswith(incomplete)]


WHAT, WHERE, SPEED, OUTPUT = "What", "Where", "How fast, how long", "Output"
"""The groups in which `--help` shows the options that verbs share. The options of one verb alone stand before them."""


def study_named(help: str) -> Any:
    """Returns an argument whose value is the name of a study, with completion in a shell."""
    return typer.Argument(help=help, autocompletion=study_names, metavar="NAME")


def option(metavar: str, help: str, panel: str | None = None, *names: str, **more: Any) -> Any:
    """Returns an option of the command.

    `metavar` is the word that help shows for its value, `panel` is its group, and `more` goes to `typer.Option`.
    """
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel, **more)


def flag(help: str, panel: str | None, *names: str) -> Any:
    """Returns an option that takes no value. Help shows nothing behind it, where typer would show `<bool>`."""
    return option("", help, panel, *names)


def count(name: str, help: str, panel: str | None = SPEED, metavar: str = "INTEGER") -> Any:
    """Returns an option that takes a whole number. `name` is the option's name in an error."""
    return option(metavar, help, panel, parser=number(name, int, "a whole number"))


Name = Annotated[str, study_named("a study's name, an id such as NAME@cpu, or a file that defines `study`")]
Known = Annotated[str, study_named("a study that was run: NAME (its latest version), or NAME@cpu")]
Budget = Annotated[str | None, option(
    "NAME", "the size: smoke, cpu, images, paper, ... (`locus show NAME`); default: cpu, else base", WHAT,
    autocompletion=budgets,
)]  # fmt: skip
Set = Annotated[list[str] | None, option(
    "PATH=VALUE", "PATH=VALUE put on the base recipe; may be repeated", WHAT, "--set",
)]  # fmt: skip
Data = Annotated[str, option(
    "FOLDER", "the images: a folder with <class>/ or train/<class>/, an .npz file with arrays images and labels, "
    "or a known set such as cifar10", WHAT,
)]  # fmt: skip
Arms = Annotated[str, option(
    "NAMES", "the arms that run, beside the baseline: NAME,NAME (./mine.py:Ramp is an encoding of yours); default: all",
    WHAT,
)]  # fmt: skip
Preset = Annotated[str | None, option(
    "NAME", "deit, deit3 or gabor: a paper's way of training, as so many --set before yours", WHAT,
)]  # fmt: skip
Seeds = Annotated[int | None, count("seeds", "seeds of each trial; default: the budget's; may grow later", WHAT)]
Trials = Annotated[int | None, count("trials", "points of a search (may grow later), or of each arm's tuning", WHAT)]
HomeOption = Annotated[str | None, option("FOLDER", "where studies lie; $LOCUS_HOME, else ~/.locus", WHERE, "--home")]
Tracking = Annotated[str | None, option("URI", "MLflow's URI; $MLFLOW_TRACKING_URI, else a store in the home", WHERE)]
Storage = Annotated[str | None, option(
    "URI", "a place such as s3://bucket/locus that keeps copies of journal, answers and checkpoints; a study goes on "
    "from there where this machine's disk is lost, and the nodes of a cluster need no shared disk", WHERE,
)]  # fmt: skip
Json = Annotated[bool, flag("print JSON", OUTPUT, "--json")]
Join = Annotated[bool, flag("use the Ray cluster that runs on this machine, as in a Slurm job", WHERE, "--join")]
DryRun = Annotated[bool, flag("print the plan and train nothing, as locus plan does", OUTPUT, "--dry-run")]
Quiet = Annotated[bool, flag("print the plan and the end alone", OUTPUT, "--quiet", "-q")]
Verbose = Annotated[bool, flag("print a line for every event, and no live table", OUTPUT, "--verbose", "-v")]
Address = Annotated[str | None, option("URL", "a Ray cluster's job address, http://head:8265", WHERE)]


@dataclass(frozen=True)
class StudyOptions:
    """Holds the values that were typed for the options that plan, run and submit share, in the order of `--help`.

    An option that `RunOptions` has, too, has the same name and the same default there.
    """

    budget: Budget = None
    set: Set = None
    preset: Preset = None
    seeds: Seeds = None
    trials: Trials = None
    version: Annotated[str, option("WORD", "names this version: NAME@BUDGET~WORD", WHAT, "--as")] = ""
    data: Data = ""
    arms: Arms = ""
    home: HomeOption = None
    tracking: Tracking = None
    experiment: Annotated[str | None, option(
        "NAME", "MLflow's experiment; $MLFLOW_EXPERIMENT_NAME, else where the study lies already, or locus/<study>",
        WHERE,
    )] = None  # fmt: skip
    storage: Storage = None
    max_concurrent: Annotated[int | None, count(
        "max-concurrent", "how many runs train at the same time, by default as many as cores, memory and GPUs allow; a "
        "search needs about half of random search's images with 1, 0.7 of them with 8, as many with 64",
    )] = None  # fmt: skip
    threads: Annotated[int, count("threads", "threads of each run")] = 1
    workers: Annotated[Any, option(
        "N|N-N", "workers of each run; 0 trains in one process, n in a Ray Train group; 2-4: as many as have room",
        SPEED, parser=worker_counts,
    )] = 0  # fmt: skip
    loader_workers: Annotated[int | None, count(
        "loader-workers", "processes of a run that decode streamed images; default: on GPUs the free cores, else none",
    )] = None  # fmt: skip
    device: Annotated[Literal["auto", "cpu", "cuda"], typer.Option(
        help="auto, cpu or cuda; auto takes GPUs where there are any", rich_help_panel=SPEED,
    )] = "auto"  # fmt: skip
    runs_per_gpu: Annotated[Any, option(
        "N|auto", "runs that share a GPU: a number, or auto, by memory and cores", SPEED,
        parser=lambda text: int(text) if str(text).isdigit() else text,
    )] = 1  # fmt: skip
    fuse: Annotated[int, count(
        "fuse", "small runs of one shape (seeds, numbers of one encoding) that train together, fast on a GPU",
    )] = 1  # fmt: skip
    compile: Annotated[bool, flag(
        "compile training steps: faster on GPUs after some minutes", SPEED, "--compile",
    )] = False  # fmt: skip
    grad_checkpointing: Annotated[bool, flag(
        "keep less memory in training and compute it again: larger models or batches fit, slower", SPEED,
        "--grad-checkpointing",
    )] = False  # fmt: skip
    deterministic: Annotated[bool, flag(
        "let a GPU add up in one order, so that a run repeats bit for bit: slower", SPEED, "--deterministic",
    )] = False  # fmt: skip
    hours: Annotated[float | None, option(
        "FLOAT", "stop the study after so many hours (exit code 3); the same command continues", SPEED, parser=hours,
    )] = None  # fmt: skip
    run_hours: Annotated[float | None, option(
        "FLOAT", "stop each run after so many hours; the same command continues it", SPEED, parser=hours,
    )] = None  # fmt: skip
    download: Annotated[bool, flag("fetch a known data set that is not there", WHAT, "--download")] = False

    def run_options(self, **options: Any) -> RunOptions:
        """Returns the options that say where and how the study runs. `options` are those that one verb alone has."""
        from service.planning.run_options import RunOptions

        return RunOptions.among(vars(self) | {"address": "local"} | options)


def takes_study_options(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Returns a decorator that gives a verb the options of `StudyOptions` in the place of its parameter `chosen`.

    The options in `without` are left out. The verb refuses a misspelt name of a study before it does anything else.
    """
    options = inspect.signature(StudyOptions, eval_str=True).parameters.values()
    shared = [option for option in options if option.name not in without]

    def declare(verb: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(verb)
        def typed(name: str, **options: Any) -> None:
            chosen = StudyOptions(**{option.name: options.pop(option.name) for option in shared})
            check_name(name, chosen.home)
            verb(name=name, chosen=chosen, **options)

        parameters = []
        for parameter in inspect.signature(verb).parameters.values():
            parameters += shared if parameter.name == "chosen" else [parameter]
        typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
        return typed

    return declare


def own_values(pairs: list[str] | None) -> dict[str, Any]:
    """Returns, by path, the values that `--set PATH=VALUE` gives: VALUE is read as JSON, else taken as a string.

    Raises: SpecError for a pair without `=`, and for a value that begins as JSON does and is none.
    """
    values: dict[str, Any] = {}
    for pair in pairs or []:
        path, equals, text = pair.partition("=")
        if not equals or not path:
            raise SpecError(f"--set must be PATH=VALUE, got {pair!r}")
        try:
            values[path] = json.loads(text)
        except json.JSONDecodeError as error:
            if text.lstrip().startswith(("{", "[", '"')):
                must = f"{path} must be JSON where it begins with {text.lstrip()[0]}"
                raise SpecError(f"{must}, got {text} ({error.msg} at character {error.colno})") from None
            values[path] = text
    return values
