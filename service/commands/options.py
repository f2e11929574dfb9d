"""The options of the command, with their help texts, and what a shell completes behind them.

Completion runs your own file only if a command has run the same text before.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer
from typer._click.shell_completion import CompletionItem, add_completion_class, split_arg_string
from typer._completion_classes import BashComplete

from search_spaces import library
from trainables.errors import LocusError, SpecError

if TYPE_CHECKING:
    from search_spaces.study import Study
    from service.planning.run_options import RunOptions


def study_names(begun: str) -> list[str]:
    """Returns the named studies and those of the home whose names begin so, for completion in a shell."""
    from service.storage.home import Home

    return [name for name in dict.fromkeys([*library.names(), *Home.find().ids()]) if name.startswith(begun)]


def matrix_names(begun: str) -> list[str]:
    """Returns the named matrices whose names begin so."""
    return [name for name in library.matrices() if name.startswith(begun)]


def whole(option: str) -> Callable[[Any], int]:
    """Reads the whole number of an option; its default comes as a number."""

    def read(given: Any) -> int:
        try:
            return int(given)
        except ValueError:
            raise SpecError(f"{option} must be a whole number, got {given!r}") from None

    return read


def worker_counts(given: Any) -> int | tuple[int, ...]:
    """Reads a number of workers, or the fewest and the most: `2-4`."""
    counts = [whole("workers")(count) for count in re.split(r"(?<=\d)-", str(given), maxsplit=1)]
    return counts[0] if len(counts) == 1 else tuple(counts)


def hours(given: Any) -> float:
    """Reads a number of hours."""
    try:
        return float(given)
    except ValueError:
        raise SpecError(f"hours must be a positive number of hours, got {given!r}") from None


def budgets(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the budgets of the study."""
    study = _study(ctx)
    return _begun(study.budgets if study else (), incomplete)


def arms(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the arms of the study, behind those that are named already."""
    plan = getattr(_study(ctx), "plan", None)
    before, comma, _ = incomplete.rpartition(",")
    named = before.split(",")
    return _begun([f"{before}{comma}{arm}" for arm in getattr(plan, "arms", ()) if arm not in named], incomplete)


def presets(incomplete: str) -> list[str]:
    """Returns the published ways of training."""
    from search_spaces.presets import PRESETS

    return _begun(PRESETS, incomplete)


def settings(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the paths of the study's recipe; behind `=`, what a path may be, or what it is."""
    study = _study(ctx)
    if study is None:
        return []
    path, equals, _ = incomplete.partition("=")
    if equals:
        return _begun([f"{path}={value}" for value in _values(study, path)], incomplete)
    from search_spaces.words import configuration

    paths = _begun([f"{setting.path}=" for setting in configuration(study.base)], incomplete)
    if len(paths) == 1:  # with a second one, the shell adds no blank behind `=`
        paths += [f"{paths[0]}{value}" for value in _values(study, paths[0][:-1])]
    return paths


def _values(study: Study, path: str) -> Iterator[str]:
    from trainables.recipe import kinds

    node, _, name = path.rpartition(".")
    try:
        owner, value = study.base.get(node) if node else study.base, study.base.get(path)
    except LocusError:
        return
    known = kinds.nodes().get(node, {}) if name == "kind" else {}
    field = type(owner).model_fields.get(name)
    legal = [*known] or [*_choices(field.annotation if field else None)]
    yield from legal or [value if isinstance(value, str) else json.dumps(value, default=lambda spec: spec.plain())]


def _choices(annotation: Any) -> Iterator[str]:
    """Yields the words among which a field chooses."""
    if annotation is bool:
        yield from ("true", "false")
    elif get_origin(annotation) is Literal:
        yield from map(str, get_args(annotation))
    else:
        for part in get_args(annotation):
            yield from _choices(part)


def _study(ctx: typer.Context) -> Study | None:
    """Returns the study that the command names; None for one that is not known, or whose code nobody has run here."""
    name = str(ctx.params.get("name") or [*ctx.args, ""][0])  # typer has not read it where an option lacks its value
    try:
        return library.find(name) if name in library.names() or _is_known(name) else None
    except (LocusError, OSError):
        return None


def _is_known(name: str) -> bool:
    """Returns whether a command has run the text of a file before."""
    from trainables.source import sha256_of, text_of
    from trainables.trusted import known

    path, dot, _ = name.partition(".py")
    file = Path(f"{path}{dot}")
    return bool(dot) and file.is_file() and sha256_of(file.name, text_of(file)) in known()


def _begun(names: Any, incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


BREAKS = "=:@"
"""Where bash begins a new word, although a path, a value or an id goes on."""


class Bash(BashComplete):
    """As typer's, but for words that bash has cut at `BREAKS`: `encoding.kind=fourier`, `fourier-gamma@cpu`."""

    def get_completion_args(self) -> tuple[list[str], str]:
        place = int(os.environ["COMP_CWORD"])
        words = split_arg_string(os.environ["COMP_WORDS"])[: place + 1]
        whole: list[str] = []
        for word in words + [""] * (place + 1 - len(words)):
            if whole and (word in [*BREAKS] or whole[-1][-1:] in [*BREAKS]):
                whole[-1] += word
            else:
                whole.append(word)
        self.begun = re.sub(f"[^{BREAKS}]*$", "", whole[-1])
        return whole[1:-1], whole[-1]

    def format_completion(self, item: CompletionItem) -> str:
        return re.sub(r"([^\w@%+=:,./~-])", r"\\\1", str(item.value).removeprefix(self.begun))


def complete_whole_words() -> None:
    """Gives typer the completion of bash that knows words which bash cuts."""
    add_completion_class(Bash, "bash")


FLAG = ""
"""What help shows behind an option that takes no value: typer would show `<bool>`."""

WHAT = "What"
WHERE = "Where"
SPEED = "How fast, how long"
OUTPUT = "Output"
"""The groups in which `--help` shows the options that verbs share. What one verb alone has stands before them."""

Name = Annotated[
    str,
    typer.Argument(
        help="a study's name, an id such as NAME@cpu, or a file that defines `study`",
        autocompletion=study_names,
        metavar="NAME",
    ),
]
Known = Annotated[
    str,
    typer.Argument(
        help="a study that was run: NAME (its latest edition), or NAME@cpu", autocompletion=study_names, metavar="NAME"
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(
        help="the size: smoke, cpu, images, paper, ... (`locus show NAME`); default: cpu, else base",
        metavar="NAME",
        autocompletion=budgets,
        rich_help_panel=WHAT,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="PATH=VALUE put on the base recipe; may be repeated",
        metavar="PATH=VALUE",
        autocompletion=settings,
        rich_help_panel=WHAT,
    ),
]
Data = Annotated[
    str,
    typer.Option(
        help="the images: a folder with <class>/ or train/<class>/, an .npz file with arrays images and labels, or a "
        "known set such as cifar10",
        metavar="FOLDER",
        rich_help_panel=WHAT,
    ),
]
Arms = Annotated[
    str,
    typer.Option(
        help="the arms that run, beside the baseline: NAME,NAME; default: all",
        metavar="NAMES",
        autocompletion=arms,
        rich_help_panel=WHAT,
    ),
]
Preset = Annotated[
    str | None,
    typer.Option(
        help="deit, deit3 or gabor: a paper's way of training, as so many --set before yours",
        metavar="NAME",
        autocompletion=presets,
        rich_help_panel=WHAT,
    ),
]
Seeds = Annotated[
    int | None,
    typer.Option(
        help="seeds of each trial; default: the budget's; may grow later",
        metavar="INTEGER",
        parser=whole("seeds"),
        rich_help_panel=WHAT,
    ),
]
Trials = Annotated[
    int | None,
    typer.Option(
        help="points of a search (may grow later), or of each arm's tuning",
        metavar="INTEGER",
        parser=whole("trials"),
        rich_help_panel=WHAT,
    ),
]
HomeOption = Annotated[
    str | None,
    typer.Option(
        "--home", help="where studies lie; $LOCUS_HOME, else ~/.locus", metavar="FOLDER", rich_help_panel=WHERE
    ),
]
Tracking = Annotated[
    str | None,
    typer.Option(
        help="MLflow's URI; $MLFLOW_TRACKING_URI, else a store in the home", metavar="URI", rich_help_panel=WHERE
    ),
]
Storage = Annotated[
    str | None,
    typer.Option(
        help="a place such as s3://bucket/locus that keeps copies of journal, answers and checkpoints; a study goes on "
        "from there where this machine's disk is lost, and the nodes of a cluster need no shared disk",
        metavar="URI",
        rich_help_panel=WHERE,
    ),
]
AdoptOption = Annotated[
    bool, typer.Option("--adopt", help="count answers of older code", metavar=FLAG, rich_help_panel=WHAT)
]
Json = Annotated[bool, typer.Option("--json", help="print JSON", metavar=FLAG, rich_help_panel=OUTPUT)]
Join = Annotated[
    bool,
    typer.Option(
        "--join",
        help="use the Ray cluster that runs on this machine, as in a Slurm job",
        metavar=FLAG,
        rich_help_panel=WHERE,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="print the plan and train nothing, as locus plan does", metavar=FLAG, rich_help_panel=OUTPUT
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="print the plan and the end alone", metavar=FLAG, rich_help_panel=OUTPUT)
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", help="print a line for every event, and no live table", metavar=FLAG, rich_help_panel=OUTPUT
    ),
]
Address = Annotated[
    str | None, typer.Option(help="a Ray cluster's job address, http://head:8265", metavar="URL", rich_help_panel=WHERE)
]


@dataclass(frozen=True)
class StudyOptions:
    """What was typed of the options that plan, run and submit share, in the order of `--help`.

    Those that `RunOptions` has are called as there, and have its defaults.
    """

    budget: Budget = None
    set: Set = None
    preset: Preset = None
    seeds: Seeds = None
    trials: Trials = None
    edition: Annotated[
        str, typer.Option("--as", help="names this edition: NAME@BUDGET~WORD", metavar="WORD", rich_help_panel=WHAT)
    ] = ""
    data: Data = ""
    arms: Arms = ""
    home: HomeOption = None
    tracking: Tracking = None
    experiment: Annotated[
        str | None,
        typer.Option(
            help="MLflow's experiment; $MLFLOW_EXPERIMENT_NAME, else where the study lies already, or locus/<study>",
            metavar="NAME",
            rich_help_panel=WHERE,
        ),
    ] = None
    storage: Storage = None
    max_concurrent: Annotated[
        int | None,
        typer.Option(
            help="how many runs train at the same time; default: as many as cores, memory and GPUs allow",
            metavar="INTEGER",
            parser=whole("max-concurrent"),
            rich_help_panel=SPEED,
        ),
    ] = None
    threads: Annotated[
        int, typer.Option(help="threads of each run", metavar="INTEGER", parser=whole("threads"), rich_help_panel=SPEED)
    ] = 1
    workers: Annotated[
        Any,
        typer.Option(
            help="workers of each run; 0 trains in one process, n in a Ray Train group; 2-4: as many as have room",
            metavar="N|N-N",
            parser=worker_counts,
            rich_help_panel=SPEED,
        ),
    ] = 0
    loader_workers: Annotated[
        int | None,
        typer.Option(
            help="processes of a run that decode streamed images; default: on GPUs the free cores, else none",
            metavar="INTEGER",
            parser=whole("loader-workers"),
            rich_help_panel=SPEED,
        ),
    ] = None
    device: Annotated[
        Literal["auto", "cpu", "cuda"],
        typer.Option(help="auto, cpu or cuda; auto takes GPUs where there are any", rich_help_panel=SPEED),
    ] = "auto"
    runs_per_gpu: Annotated[
        Any,
        typer.Option(
            help="runs that share a GPU: a number, or auto, by memory and cores",
            metavar="N|auto",
            parser=lambda given: int(given) if str(given).isdigit() else given,
            rich_help_panel=SPEED,
        ),
    ] = 1
    fuse: Annotated[
        int,
        typer.Option(
            help="small runs of one shape (seeds, numbers of one encoding) that train together, fast on a GPU",
            parser=whole("fuse"),
            metavar="INTEGER",
            rich_help_panel=SPEED,
        ),
    ] = 1
    compile: Annotated[
        bool,
        typer.Option(
            "--compile",
            help="compile training steps: faster on GPUs after some minutes",
            metavar=FLAG,
            rich_help_panel=SPEED,
        ),
    ] = False
    grad_checkpointing: Annotated[
        bool,
        typer.Option(
            "--grad-checkpointing",
            help="keep less memory in training and compute it again: larger models or batches fit, slower",
            metavar=FLAG,
            rich_help_panel=SPEED,
        ),
    ] = False
    deterministic: Annotated[
        bool,
        typer.Option(
            "--deterministic",
            help="let a GPU add up in one order, so that a run repeats bit for bit: slower",
            metavar=FLAG,
            rich_help_panel=SPEED,
        ),
    ] = False
    hours: Annotated[
        float | None,
        typer.Option(
            help="stop the study after so many hours (exit code 3); the same command continues",
            metavar="FLOAT",
            parser=hours,
            rich_help_panel=SPEED,
        ),
    ] = None
    run_hours: Annotated[
        float | None,
        typer.Option(
            help="stop each run after so many hours; the same command continues it",
            metavar="FLOAT",
            parser=hours,
            rich_help_panel=SPEED,
        ),
    ] = None
    adopt: AdoptOption = False
    download: Annotated[
        bool,
        typer.Option("--download", help="fetch a known data set that is not there", metavar=FLAG, rich_help_panel=WHAT),
    ] = False
    fresh: Annotated[
        bool, typer.Option("--fresh", help="start the next edition, NAME@BUDGET.2", metavar=FLAG, rich_help_panel=WHAT)
    ] = False

    def run_options(self, **own: Any) -> RunOptions:
        """Returns where and how the study runs. `own`: options that one verb alone has."""
        from service.planning.run_options import RunOptions

        return RunOptions.among(vars(self) | {"address": "local"} | own)


def takes_study_options(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a verb the options of `StudyOptions`, but some, in the place of its parameter `chosen`."""
    options = inspect.signature(StudyOptions, eval_str=True).parameters.values()
    shared = [option for option in options if option.name not in without]

    def declared(verb: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(verb)
        def typed(**given: Any) -> None:
            verb(chosen=StudyOptions(**{option.name: given.pop(option.name) for option in shared}), **given)

        own = inspect.signature(verb).parameters.values()
        parameters = [each for parameter in own for each in (shared if parameter.name == "chosen" else [parameter])]
        typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
        return typed

    return declared


def own_values(pairs: list[str] | None) -> dict[str, Any]:
    """Reads `--set PATH=VALUE`: the value as JSON, else as a string.

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
                what = f"{error.msg} at character {error.colno}"
                raise SpecError(
                    f"{path} must be JSON where it begins with {text.lstrip()[0]}, got {text} ({what})"
                ) from None
            values[path] = text
    return values
