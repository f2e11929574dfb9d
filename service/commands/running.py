"""Defines the verbs that train, or say what would be trained: plan, check, run, rerun; and trust, which comes first."""

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from service.commands import options
from service.commands.app import INTERRUPTED, UNFINISHED, again, app, latest, remark, resolve, resolve_chosen, say
from service.commands.options import flag
from service.terminal.output import console, labelled
from trainables.errors import SpecError

if TYPE_CHECKING:
    from service.planning.run_options import RunOptions
    from service.terminal.live import Detail


@app.command()
@options.takes_study_options("tracking", "experiment", "storage", "loader_workers", "hours", "run_hours", "download")
def plan(name: options.Name, chosen: options.StudyOptions) -> None:
    """Print what would run, what is there already and why, time and memory. Writes nothing."""
    run_options = chosen.run_options()
    _plan(resolve_chosen(name, chosen), run_options)


def _plan(edition: Any, run_options: "RunOptions") -> None:
    """Prints the plan of an edition, where MLflow will show it, and what looks odd in a user's own code."""
    from service import api
    from service.run_study import try_own
    from service.storage.home import Home
    from service.terminal import views

    history, estimate = api.plan(edition, run_options)
    views.plan(history, estimate)
    remark(api.shown_in(history.edition, run_options))
    for line in try_own(edition, Home.find(run_options.home).data):
        remark(line)


@app.command()
def check(
    name: options.Name,
    budget: options.Budget = None,
    set: options.Set = None,
    preset: options.Preset = None,
    data: options.Data = "",
    arms: options.Arms = "",
    home: options.HomeOption = None,
) -> None:
    """Build each arm and compute one step on two images: mistakes of an own file show before anything is spent."""
    edition = resolve(name, set, preset, arms, budget=budget, data=data, home=home)
    from service.run_study import try_recipes
    from service.storage.home import Home
    from trainables.data import Folder

    lines = [*try_recipes(edition, Home.find(home).data)]
    for line in lines:
        remark(line)
    if lines:
        raise typer.Exit(1)
    remark(f"{edition.id}: every recipe is built, learns a step, and gives the same in all ways of computing it")
    images = edition.study.base.data
    if isinstance(images, Folder):
        remark(f"to read every image once: locus doctor --data {shlex.quote(images.path)}")


@app.command()
@options.takes_study_options()
def run(
    name: options.Name,
    chosen: options.StudyOptions,
    join: options.Join = False,
    dry_run: options.DryRun = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Run what is missing of a study; the same command again resumes, extends or just reports."""
    if quiet and verbose:
        raise SpecError("--quiet must stand alone, got --verbose beside it")
    run_options = chosen.run_options(address="auto" if join else "local")
    resolved = resolve_chosen(name, chosen, storage=None if dry_run else run_options.storage)
    if dry_run:
        if run_options.storage:
            remark(f"--dry-run does not look at {run_options.storage}: what is only there counts as missing")
        _plan(resolved, run_options)
    else:
        detail: Detail = "quiet" if quiet else "all" if verbose else "usual"
        run_resolved(resolved, run_options, detail=detail)


def run_resolved(
    resolved: Any, run_options: "RunOptions", *, detail: "Detail", tell: Callable[..., None] | None = None
) -> None:
    """Runs a resolved edition, and prints how it ended.

    `tell` is given where the study was submitted to a cluster; `run_study` describes it.
    """
    from service import api
    from service.execution.signals import BeingRunError
    from service.planning.schedule import Done, next_action
    from service.terminal import views

    command, more, sized = again(), again("--seeds"), again("--budget", "--seeds", "--trials")
    if tell is not None:
        command = "the same locus submit"
        more = sized = f"{command} with"
    facts: dict[str, Any] = {}

    def hear(**news: Any) -> None:
        facts.update(news)
        if tell is not None:
            tell(**news)

    try:
        result = api.here(resolved, run_options, detail=detail, tell=hear)
    except BeingRunError as error:
        if not error.asked.given():
            raise
        remark(str(error))
        return
    except KeyboardInterrupt:
        _stopped("", command)
        raise typer.Exit(INTERRUPTED) from None
    if (
        facts.get("ended") == "stopped"
        and run_options.hours
        and not isinstance(next_action(result.history, set()), Done)
    ):
        views.answer(result)
        _stopped(f" after {run_options.hours:g} hour{'s' * (run_options.hours != 1)}", command)
        raise typer.Exit(UNFINISHED)
    larger, edition = "", result.edition
    sizes = [*edition.study.budgets]
    # a command that names an edition (`NAME@smoke`) takes no other size
    if edition.budget == "smoke" and sizes[-1] != "smoke" and "@smoke" not in sized:
        size = sizes[sizes.index("smoke") + 1]
        time = "" if edition.mark else edition.study.time_words(size)
        larger = f"{sized} --budget {size}   ({f'{time}; ' if time else ''}smoke shows only that all works)"
    views.ending(result, more, larger, run_options.tracking)
    if result.history.failed:
        raise typer.Exit(1)


def _stopped(after: str, command: str) -> None:
    """Prints that the study was stopped, `after` which time (or empty), and the command that continues it."""
    remark(f"stopped{after}; what is finished is kept")
    labelled(console(), "continue", command)


@app.command()
def rerun(
    key: Annotated[str, typer.Argument(help="a run's key, or its beginning", metavar="KEY")],
    home: options.HomeOption = None,
) -> None:
    """Train one run again, without Ray, and compare it number by number with its outcome."""
    from service.consistency import rerun as train_again
    from service.storage.home import Home

    done = train_again(Home.find(home), key, remark)
    for change in done.changed:
        remark(f"{change}: the revision changed since")
    for gap in done.differences:
        remark(f"epoch {gap.epoch}: {gap.name} was {gap.before}, is {gap.now}")
    remark(f"{done.key}: {done.compared} numbers compared, {len(done.differences)} differ")
    if not done.equal:
        raise typer.Exit(1)


@app.command()
def trust(
    name: options.Known,
    yes: Annotated[bool, flag("do not ask", None, "--yes")] = False,
    home: options.HomeOption = None,
) -> None:
    """Show the code that a study in a home carries, and let commands run it when they read the study."""
    from service.storage.editions import carried
    from trainables import trusted
    from trainables.source import sha256_of

    (home_folder, id), digests = latest(name, home), trusted.known()
    new = [(file, text) for file, text in carried(home_folder, id) if sha256_of(file, text) not in digests]
    if not new:
        remark(f"{id} carries no code that you have not run before")
        return
    for file, text in new:
        console().print(Text(f"{file}, which {id} carries", style="bold"))
        say(f"{text.rstrip()}\n")
    if yes or typer.confirm("Does it do nothing but what you want? Commands that read the study run it."):
        for file, text in new:
            trusted.trust(sha256_of(file, text))
