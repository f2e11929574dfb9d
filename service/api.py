"""Defines the public verbs, one function each: the command line and Python call the same functions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from search_spaces.fit import data_label, kept_form
from search_spaces.leaves import leaves
from search_spaces.library import find, in_file
from search_spaces.own_arms import Arm
from search_spaces.presets import explained, put_first
from search_spaces.space import Domain, Space
from search_spaces.study import Ablation, Edition, Halving, Score, Search, Study, Tuning
from search_spaces.words import plural
from service.analysis.format import Lines
from service.analysis.study_status import StudyStatus, all_status, one_status
from service.own_images import Images, check_sendable, image_values
from service.planning.run_options import Options, OptionsAndAddress, RunOptions, takes_options
from service.storage import editions
from service.storage.history import History
from service.storage.home import Home, place_in_words, tracking_uri
from trainables.own import carry
from trainables.recipe import Recipe
from trainables.spec import LocusError, SpecError, digest

if TYPE_CHECKING:
    from torch import nn

    from service.callbacks import Callback
    from service.consistency import Rerun
    from service.planning.estimate import WorkEstimate
    from service.removal import Forgettable
    from service.results import ComparedStudies, Result, SubmittedStudy
    from service.storage import Check
    from service.terminal.live import Detail, Progress
    from trainables.encodings import EncodingSpec
    from trainables.training.attach import Keep
    from trainables.training.attached import AttachedViT
    from trainables.training.trained import Facts, TrainedModel


@takes_options
def run(
    study: str | Study,
    *,
    budget: str | None = None,
    set: dict[str, Any] | None = None,
    seeds: int | None = None,
    trials: int | None = None,
    preset: str | None = None,
    version: str = "",
    data: Images = "",
    arms: Sequence[Arm] = (),
    progress: Progress | None = None,
    callbacks: Sequence[Callback] = (),
    **options: Unpack[OptionsAndAddress],
) -> Result:
    """Trains the runs of a study that have no answer (stored outcome) yet, and returns the result of the whole study.

    Args:
        study: the study's name, a file that defines it, or a Study.
        budget: the name of the study's size, such as `smoke`; `seeds` and `trials` replace its counts.
        set: values, by path, that replace those of the base recipe. They make another version of the study.
        preset: the name of values of `search_spaces.presets`, put on before those of `set`; another version, too.
        version: a name for that version.
        data: a folder of images, an `.npz` file with arrays `images` and `labels`, the name of a known set, a pair of
            arrays (images, labels), or a Dataset of torch.
        arms: those arms (settings that the study compares) that run, beside the baseline. Encodings of your own may be
            among them (`"./mine.py:Ramp"`, `Ramp(std=0.5)`). A call with one more arm continues the same version.
        progress: the object that shows the study while it runs, a `service.terminal.live.Progress`.
        callbacks: functions, called with a `service.EpochEnd` and a `service.TrialEnd` where an epoch and a trial end.
        options: `service.planning.run_options` describes them; `address` is that of a Ray cluster that runs the study.

    Raises: LocusError with one sentence for what cannot run, before anything is written; KeyboardInterrupt.
    """
    from service.execution.signals import continued_by

    chosen = RunOptions(**options)
    values: dict[str, Any] = dict(budget=budget, set=set, preset=preset, version=version, data=data, arms=arms)
    values |= {"seeds": seeds, "trials": trials}
    if chosen.elsewhere:
        if callbacks:
            raise SpecError("callbacks must be left out where a study is submitted, because it runs in another process")
        return submit(study, **values, **dict(chosen)).wait()
    resolved = resolve(study, home=chosen.home, storage=chosen.storage, **values)
    with continued_by(f"{resolved.id}: stopped; what is finished is kept, and the same call continues"):
        return here(resolved, chosen, progress=progress, callbacks=callbacks)


def resolve(
    study: str | Study | Edition,
    *,
    home: str | None = None,
    budget: str | None = None,
    set: dict[str, Any] | None = None,
    preset: str | None = None,
    seeds: int | None = None,
    trials: int | None = None,
    version: str = "",
    data: Images = "",
    arms: Sequence[Arm] = (),
    storage: str | None = None,
) -> Edition:
    """Returns an Edition: a study at a budget, with the user's own values and counts; or one of the home, recounted.

    `study` may be the id of an Edition of the home; the name of a study of a file that was run gives its latest one.
    `version` beside an id names another version with the same definition. `storage` is the URI at which an id is
    looked for that this home does not have. The other arguments are those of `run`.

    Raises: SpecError for a budget or values beside an id or an Edition, which have them already.
    """
    if isinstance(study, str) and "@" in study and not in_file(study):
        if storage is not None:
            from service.storage.remote import fetch

            fetch(storage, Home.usable(home), study)
        study = editions.of_id(Home.find(home), study)
    elif isinstance(study, str) and not in_file(study):
        study = editions.of_name(Home.find(home), study) or study
    if isinstance(study, Edition):
        has_data = not isinstance(data, str) or data != ""
        values = {"budget": budget, "set": set, "preset": preset, "arms": arms, "data": has_data}
        if names := [name for name, value in values.items() if value]:
            raise SpecError(f"{', '.join(names)} must be left out beside {study.id}, which names them already")
        study = study.named(version) if version else study
        return study.model_copy(update={"study": study.study.counted(seeds=seeds, trials=trials)})
    studies = (id.partition("@")[0] for id in Home.find(home).ids())
    definition = find(study, studies) if isinstance(study, str) else study
    if not isinstance(definition, Study):
        raise SpecError(f"study must be a name, a file or a Study, got {definition!r}")
    if not isinstance(set, Mapping | None):
        raise SpecError(f"set must be {{path: value}}, got {set!r}")
    images = image_values(data, home, set or {}, "set")
    base_values = put_first(preset, images | dict(set or {}))
    with explained(preset, set or {}):
        label = data_label(images.get("data.path", images["data.kind"])) if images else ""
        sized = definition.at(budget, set=base_values, name=version, seeds=seeds, trials=trials, arms=arms, label=label)
    return editions.with_fewer_arms(sized, Home.find(home)) if sized.some_arms and not version else sized


def here(
    edition: Edition,
    options: RunOptions,
    *,
    progress: Progress | None = None,
    detail: Detail = "usual",
    tell: Callable[..., None] = lambda **facts: None,
    callbacks: Sequence[Callback] = (),
) -> Result:
    """Runs an edition on this machine, or on the cluster that this process belongs to, and returns its result.

    `Progress` describes `detail`, `run_study` describes `tell`, and `service.callbacks` describes `callbacks`.
    """
    from service.callbacks import checked
    from service.run_study import run_study
    from service.storage.remote import fetch
    from service.terminal.live import Progress

    functions, home = checked(callbacks), Home.usable(options.home)
    if home.root.is_dir() and not os.access(home.root, os.W_OK):
        raise LocusError(f"home must be a folder that can be written, got {home.root}")
    fetched = fetch(options.storage, home, edition.id) if options.storage else ""
    settled = editions.resolve_edition(edition, home)
    progress = progress or Progress(settled, detail=detail)
    if fetched:
        progress.note(fetched)
    return run_study(settled, options, progress, tell, functions)


def shown_in(edition: Edition, options: RunOptions) -> str:
    """Returns a sentence that says which MLflow will show an edition, and in which experiment. MLflow is not asked."""
    return place_in_words(Home.find(options.home), edition.id, tracking_uri(options.tracking), options.experiment)


def plan(edition: Edition, options: RunOptions) -> tuple[History, WorkEstimate]:
    """Returns an edition's history, and the estimate of the runs that are still to train here. Writes nothing.

    Raises: LocusError for an edition that cannot run with these options.
    """
    from service.execution.machine import placement
    from service.planning.estimate import estimate_work
    from service.planning.forecast import run_memory
    from service.run_study import check_study_placement
    from service.storage.outcomes import Outcomes

    home = Home.usable(options.home)
    resolved = editions.resolve_edition(edition, home)
    history = History.open(home, resolved)
    placed = placement(options, lambda: run_memory(history, Outcomes(home), options.grad_checkpointing))
    check_study_placement(resolved, placed)
    history.raise_counts(resolved)
    return history, estimate_work(history, Outcomes(home), placed).with_gpu_hours()


@takes_options
def submit(
    study: str | Study | Edition,
    *,
    address: str,
    budget: str | None = None,
    set: dict[str, Any] | None = None,
    seeds: int | None = None,
    trials: int | None = None,
    preset: str | None = None,
    version: str = "",
    data: str | Path = "",
    arms: Sequence[Arm] = (),
    **options: Unpack[Options],
) -> SubmittedStudy:
    """Submits a study to a Ray cluster, and returns when its plan is printed there. The arguments are those of `run`.

    Raises: LocusError with one sentence, also for a cluster that does not answer.
    """
    from service.execution.jobs import submit as send
    from service.results import SubmittedStudy

    chosen = RunOptions(**options)
    check_sendable(data)
    values: dict[str, Any] = dict(budget=budget, set=set, preset=preset, version=version, data=data, arms=arms)
    resolved = resolve(study, home=chosen.home, seeds=seeds, trials=trials, **values)
    return SubmittedStudy(**vars(send(resolved, chosen, address)))


@takes_options
def sweep(
    base: Mapping[str, Any] | Recipe,
    space: dict[str, Domain],
    *,
    trials: int = 20,
    seeds: int = 5,
    name: str = "",
    question: str = "Which values are best?",
    first: tuple[dict[str, Any], ...] = (),
    stop: bool = True,
    sampler: Literal["tpe", "random", "grid"] = "tpe",
    data: Images = "",
    preset: str | None = None,
    version: str = "",
    progress: Progress | None = None,
    callbacks: Sequence[Callback] = (),
    **options: Unpack[OptionsAndAddress],
) -> Result:
    """Searches a space for the values that score best, and returns the result.

    `base` has the values that all points share, as {path: value} or as a recipe, such as `result.best.recipe`. Without
    `name` the study is called `sweep-<digest>`, so that the same call resumes it. `question` is the title of its page.
    The points of `first` are tried first. `stop` says whether points may be stopped early. `data` and all arguments
    from `preset` on are those of `run`.
    """
    halving = Halving() if stop else None
    plan = Search(space=Space(space), first=first, trials=trials, stop=halving, sampler=sampler)
    study = _adhoc(base, data, RunOptions(**options), plan, name, question, seeds)
    return run(study, preset=preset, version=version, progress=progress, callbacks=callbacks, **options)


@takes_options
def ablate(
    arms: dict[str, dict[str, Any]] | None = None,
    *,
    baseline: str,
    axes: dict[str, dict[str, dict[str, Any]]] | None = None,
    without: Sequence[dict[str, str]] = (),
    tune: Tuning | None = None,
    base: Mapping[str, Any] | Recipe | None = None,
    seeds: int = 5,
    name: str = "",
    question: str = "Which arm is best?",
    data: Images = "",
    preset: str | None = None,
    version: str = "",
    progress: Progress | None = None,
    callbacks: Sequence[Callback] = (),
    **options: Unpack[OptionsAndAddress],
) -> Result:
    """Compares arms with a baseline, paired by seed, and returns the result.

    The arms are given by name, or as all combinations of `axes`; `Ablation` describes both. With `tune` each arm is
    tuned first, by the same search. All other arguments are those of `sweep`.
    """
    plan = Ablation(arms=arms or {}, baseline=baseline, axes=axes or {}, without=tuple(without), tune=tune)
    study = _adhoc(base or {}, data, RunOptions(**options), plan, name, question, seeds)
    return run(study, preset=preset, version=version, progress=progress, callbacks=callbacks, **options)


def _adhoc(
    base: Mapping[str, Any] | Recipe,
    data: Images,
    options: RunOptions,
    plan: Search | Ablation,
    name: str,
    question: str,
    seeds: int,
) -> Study:
    """Returns the study that a call of `sweep` or `ablate` asks for; without a name, its kind and digest name it."""
    if not isinstance(base, Mapping | Recipe):
        raise SpecError(f"base must be {{path: value}} or a Recipe, got {base!r}")
    if options.elsewhere:
        check_sendable(data)
    recipe, values = (base, {}) if isinstance(base, Recipe) else (Recipe(), carry(base))
    images = image_values(data, options.home, values, "base")
    recipe = recipe.put(images | kept_form(images | leaves(values), recipe) | values)
    if not name:
        identity = plan.identity()
        identity.pop("trials", None)
        name = f"{'ablation' if plan.arms else 'sweep'}-{digest([recipe.identity(), identity], 8)}"
    score = Score(f"val/{recipe.data.reported}")
    return Study(name=name, question=question, base=recipe, plan=plan, seeds=seeds, score=score)


def status(name: str | None = None, *, home: str | None = None) -> Lines[StudyStatus]:
    """Returns the state of all studies of a home, or of the one study that is named."""
    home_folder = Home.usable(home)
    if name is None:
        return all_status(home_folder)
    return Lines([one_status(home_folder, editions.latest(home_folder, name))])


def result(name: str, *, home: str | None = None, tracking: str | None = None) -> Result:
    """Returns the result that a study has so far; the study must have been run."""
    from service.results import Result

    home_folder = Home.find(home)
    return Result.open(home_folder, editions.latest(home_folder, name), tracking_uri(tracking))


def compare(a: str, b: str, *, home: str | None = None) -> ComparedStudies:
    """Returns the comparison of two studies that were run: the test scores of B minus those of A.

    Raises: LocusError for a study that was not run, and for one given twice.
    """
    from service.results import compare as compared

    home_folder = Home.find(home)
    return compared(home_folder, editions.latest(home_folder, a), editions.latest(home_folder, b))


def report(name: str, *, home: str | None = None) -> Path:
    """Writes a study's report again, and returns the path of its page.

    Raises: LocusError if a page is there and no trial has its answers by today's code: the page would lose them.
    """
    study_result = result(name, home=home)
    check_report(study_result)
    return study_result.report()


def check_report(study_result: Result) -> None:
    """Refuses to replace a study's page by one without answers, unless a driver trains it now. Raises: LocusError."""
    id = study_result.edition.id
    folder, answered = study_result.home.study(id), any(row.test.n for row in study_result.rows)
    page = folder.report / "report.html"
    if study_result.history.stale and not answered and page.exists() and not folder.driven:
        raise LocusError(
            f"today's code has no answers of {id}, and its {plural(study_result.history.stale, 'answer')} by other "
            f"code do not count, so {page} is kept; locus run {id} trains again"
        )


def attach(model: nn.Module, encoding: str | EncodingSpec, *, keep: Keep = "nothing", seed: int = 0) -> AttachedViT:
    """Replaces the positions of a VisionTransformer or an Eva of timm by an encoding, so that you can train it.

    It changes the model and returns it. `encoding` is the name of an encoding with its default values, or an object,
    such as `Rotary(temperature=50.0)`. `keep` says which of the model's own positions stay: "table", "rope", "both" or
    "nothing". All other weights stay; the encoding starts with the values that it has in a run with this seed
    (`trainables.training.attach`).
    Raises: SpecError for another model, and for an encoding that does not fit it.
    """
    from trainables.training.attach import attach as attached

    return attached(model, encoding, keep=keep, seed=seed)


def export_model(
    name: str,
    path: str | Path,
    *,
    arm: str | None = None,
    seed: int | None = None,
    ema: bool = False,
    force: bool = False,
    home: str | None = None,
    tracking: str | None = None,
    look: Callable[[Facts], None] = lambda facts: None,
) -> Path:
    """Writes a trained model of a study as a file, whole or not at all, and returns the file's path.

    The ending of `path` decides the format: `.pt` (torch), `.safetensors`, or `.onnx`. `arm` is the name or row of a
    trial; by default it is the best one. By default the seed is that with the highest validation score. `ema` says
    whether the moving average of the weights is written in their place. `force` replaces a file that is there. `look`
    is called with the facts about the model, which the file also holds, before the file is written.
    Raises: LocusError if there is no such model, or the file cannot be written.
    """
    from trainables.training.model_file import check_path, write_model

    file = Path(path)
    check_path(file, force=force)
    row = result(name, home=home, tracking=tracking).trial(arm)
    model = row.trained(seed, ema=ema)
    look(model.facts)
    write_model(file, model, force=force)
    return file


def load_model(path: str | Path, *, trust: bool = False) -> TrainedModel:
    """Returns the model of a file that `export_model` wrote, on the CPU and ready to predict.

    With `trust`, a user's own code in the file (an encoding, a data set) is run even if nobody ran it here before.
    Raises: LocusError for another file, and where today's code computes other outputs from these weights.
    """
    from trainables.training.model_file import read_model

    return read_model(Path(path), trust=trust)


def register_model(
    name: str,
    registered: str,
    *,
    arm: str | None = None,
    seed: int | None = None,
    ema: bool = False,
    home: str | None = None,
    tracking: str | None = None,
    look: Callable[[Facts], None] = lambda facts: None,
) -> str:
    """Logs a trained model of a study to its MLflow run, registers it, and returns its URI, `models:/NAME/1`.

    `registered` is the name in the registry; `export_model` describes `arm`, `seed`, `ema` and `look`. MLflow loads the
    model without locus: the model takes images as float32 from 0 (black) to 1 (white) of shape (N, channels, height,
    width), normalizes them, and gives the outputs.
    Raises: LocusError if there is no such model, MLflow lacks its run, or torch fails.
    """
    study_result = result(name, home=home, tracking=tracking)
    row = study_result.trial(arm)
    model = row.trained(seed, ema=ema)
    look(model.facts)
    return study_result.register(registered, model, row.trial.label)


def record(name: str, *, home: str | None = None, note: Callable[[str], None] = lambda line: None) -> Path:
    """Saves the results of a finished study as a JSON file beside the study's file, and returns the JSON file's path.

    `name` is that of a named study, or the file of your own study; `@BUDGET` may follow it. `note` is called with
    sentences about the probes (what is looked at in trained models) that are still to compute.
    Raises: LocusError if the study is not finished with today's code.
    """
    from service.recording import record as recorded
    from service.results import compute_probes

    return recorded(Home.find(home), name, lambda result: compute_probes(result, note, lambda: False))


def rerun(key: str, *, home: str | None = None) -> Rerun:
    """Trains one run again, without Ray, and compares each number of it with the stored outcome.

    `key` is the key of the run, or its beginning.
    """
    from service.consistency import rerun as train_again

    return train_again(Home.find(home), key)


def verify(name: str, *, home: str | None = None) -> list[Check]:
    """Returns the checks whether the journal, the stored outcomes and the files of a study agree."""
    from service.consistency import verify as checks

    home_folder = Home.find(home)
    return checks(home_folder, editions.stored(home_folder, editions.latest(home_folder, name)))


def repair(name: str, *, home: str | None = None) -> list[str]:
    """Sets aside the damaged files of a study, which its next run makes again, and says in sentences what was done.

    Raises: LocusError if the study is being run.
    """
    from service.consistency import repair as repaired

    home_folder = Home.find(home)
    return repaired(home_folder, editions.stored(home_folder, editions.latest(home_folder, name)))


def forgettable(name: str, *, home: str | None = None, tracking: str | None = None) -> Forgettable:
    """Returns the list of things that forgetting a study would remove; its method `remove` removes them.

    `name` is the id of an edition, or the name of a study that has only one edition.
    """
    from service.removal import forgettable as forgettable_study

    home_folder = Home.find(home)
    return forgettable_study(home_folder, editions.only(home_folder, name), tracking_uri(tracking))


def forget(name: str, *, home: str | None = None, tracking: str | None = None) -> None:
    """Removes a study as `locus forget` does. Raises: LocusError for a study that is not there, or is being run."""
    forgettable(name, home=home, tracking=tracking).remove()
