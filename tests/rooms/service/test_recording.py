"""What a record holds, against independent formulas; what `locus record` refuses; who reads the record."""

import json
import platform
import shutil
from itertools import count
from pathlib import Path
from statistics import fmean, stdev

import pytest
from PIL import Image
from typer.testing import CliRunner

import service
from search_spaces import library
from search_spaces.record import RULES, defined, read
from service.analysis.study_status import at_budgets, paragraphs, standings
from service.cli import app
from service.recording import record
from service.storage.home import Home
from service.storage.journal import read_lines
from service.terminal import catalog
from tests.rooms import toy
from tests.rooms.by_hand import ENVIRONMENT, EPOCHS, ByHand, edit_lines
from tests.rooms.service.analysis.logits import mean_interval
from tests.rooms.toy import conduct
from trainables.recipe import Run, revisions
from trainables.recipe.outcome import Measurement, at_image_size
from trainables.recipe.revisions import Code, code_of
from trainables.spec import LocusError, SpecError

MINE = f"""
from search_spaces.claim import AtLeast, Better
from search_spaces.space import Choice, Real, Space
from search_spaces.study import Ablation, Budget, Fit, Score, Search, Study, Tuning
from trainables.data import RedGreen
from trainables.encodings import Fourier
from trainables.recipe import Recipe

base = Recipe(data=RedGreen(task="direction"), encoding=Fourier(gamma=2.5)).put({{"optimizer.epochs": {EPOCHS}}})
study = Study(
    name="mine", question="Which?", base=base.put({{"test_sizes": [48]}}), seeds=4,
    plan=Ablation({{"near": {{"encoding.gamma": 1.0}}, "none": {{"encoding.kind": "none"}}}}, "none"),
    budgets={{"cpu": Budget(), "smoke": Budget({{"optimizer.epochs": 2, "test_sizes": []}}, gap="too short")}},
    claims=(Better("near", "none", 0.1, "table 1"), AtLeast("none", 0.9)),
    found={{"cpu": "near 0.99"}},
)
short = base.put({{"optimizer.epochs": 2}})
search = Study(
    name="reach", question="Which gamma?", base=short, seeds=2,
    plan=Search(Space({{"encoding.gamma": Real(0.5, 20, log=True)}}), trials=2, first=({{"encoding.gamma": 2.5}},)),
)
plan = Ablation(study.plan.arms, "none", tune=Tuning(Space({{"optimizer.lr": Choice((0.001, 0.004))}}), trials=2))
tuned = Study(name="tuned", question="Which, each at its rate?", base=short, plan=plan, seeds=1)
kinds = {{kind: {{"encoding.kind": kind}} for kind in ("none", "peg", "gabor")}}
tasks = {{task: {{"data.task": task}} for task in ("direction", "absolute", "color_shift")}}
plan = Ablation(axes={{"encoding": kinds, "task": tasks}}, baseline="none")
sized = Study(
    name="sized", question="Which, for any images?", base=base, plan=study.plan, seeds=2,
    budgets={{"smoke": Budget(fit=Fit(images=200, side=16))}},
)
again = study.model_copy(update={{"name": "again"}})
tasks = Study(name="tasks", question="Which, on each task?", base=base, plan=plan, seeds=1)
"""
TESTS = {"near": (0.99, 0.97, 0.98, 0.5), "none": (0.5, 0.53, 0.502, 0.498)}
LARGER = {"near": (0.9, 0.8, 0.7, 0.5), "none": (0.5, 0.5, 0.5, 0.5)}


@pytest.fixture
def mine(tmp_path, monkeypatch) -> Path:
    """The folder of one's own studies, where the command is typed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("mine.py").write_text(MINE)
    return tmp_path


def by_hand(root: Path, seeds: int = 4, diverged: tuple[str, int] | None = None, older: bool = False) -> Home:
    """A home with the study at `cpu`. `diverged`: an arm and its seed; `older`: other code than today's trained it."""
    edition = library.find("mine.py").at("cpu")
    hand = ByHand(root, edition)
    if older:
        hand.codes = lambda recipe: Code(revisions={"loop": -1})
    with hand.journal:
        for trial, seed in hand.runs(edition.study.plan.arms, seeds):
            if (trial.name, seed) == diverged:
                hand.diverge(trial, seed, 3)
                continue
            tests = {at_image_size("test/accuracy", 48): LARGER[trial.name][seed]}
            hand.complete(trial, seed, 0.9, TESTS[trial.name][seed], tests=tests, host_cpu="EPYC", host_cores=2)
    return Home(root)


def typed(*words: str) -> str:
    done = CliRunner().invoke(app, [*words])
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def test_a_record_has_the_numbers_of_an_independent_formula(mine: Path) -> None:
    path = record(by_hand(mine / "home"), "./mine.py")
    assert path == Path("records/mine@cpu.json")
    found, edition = read(path), library.find("mine.py").at("cpu")
    images = edition.study.base.data.test_size
    assert found is not None
    for row in found.rows:
        values = TESTS[row.name]
        assert (row.asked, row.test.n, row.diverged) == (4, 4, 0)
        assert (row.test.mean, row.test.std) == pytest.approx((fmean(values), stdev(values)))
        assert [*row.test.seeds.values()] == [*values]
        low, high = mean_interval(values, 0.025 / 2, images)  # of the best of two arms: both are, by validation
        assert row.test.interval == pytest.approx((max(low, 0.5), high)), "no mean lies below chance"
        assert row.time_s == EPOCHS * 1.5
        assert row.code == code_of(row.recipe(edition)).digest
        assert row.test_sizes[48].mean == pytest.approx(fmean(LARGER[row.name]))
    assert {row.name: row.test.failed for row in found.rows} == {"near": 1, "none": 0}, "nothing was learned by `none`"
    result = service.result("mine", home=str(mine / "home"))
    assert [(one.claim, one.word, one.p) for one in found.verdicts] == [
        (str(one.claim), one.word, one.p) for one in result.claims
    ]
    assert found.verdicts[1].word == "REFUTED"
    assert found.headline == result.headline
    assert (found.seeds, found.rules, found.level, found.metric) == (4, RULES, 0.95, "test/accuracy")
    assert found.definition == defined(edition)
    assert (found.machine, found.gap) == ("EPYC, 2 cores", "")
    assert found.versions.items() >= {name: ENVIRONMENT[name] for name in ("python", "torch", "timm")}.items()
    text = path.read_text()
    assert str(mine) not in text
    assert platform.node() not in text


def test_a_diverged_seed_is_counted_at_chance_and_of_many_arms_the_record_alone_has_the_scores(mine: Path) -> None:
    found = read(record(by_hand(mine / "home", diverged=("near", 2)), "./mine.py"))
    near = found.rows[0]
    assert (near.test.n, near.diverged, near.test.failed) == (4, 1, 2)
    assert near.test.mean == pytest.approx(fmean((0.99, 0.97, 0.5, 0.5)))
    assert "1 of 4 seeds diverged" in " ".join(paragraphs(found))
    many = found.model_copy(update={"rows": found.rows * 13})
    assert "26 arms, whose scores are in the record" in paragraphs(many)
    assert not [line for line in paragraphs(many) if line.startswith("“near”:")]


def test_minutes_are_those_in_which_runs_were_under_way(mine: Path) -> None:
    """A pause between two commands is none of them, and the day is that of the last result."""
    home, edition = Home(mine / "home"), library.find("mine.py").at("smoke")
    conduct(home, edition)
    journal, places = home.study(edition.id).journal, count()

    def paused(line: str) -> str:
        """A fact a minute, and a day's pause before the fifth run."""
        place = next(places)
        return json.dumps({**json.loads(line), "time": 60.0 * place + 86400 * (place >= pause)})

    runs = [getattr(fact, "run", "") for _, fact in read_lines(journal)]
    begins = [place for place, run in enumerate(runs) if run and run not in runs[:place]]
    pause = begins[4]
    edit_lines(journal, paused)
    found = read(record(home, "mine.py@smoke"))
    assert found.minutes == sum(runs.count(run) - 1 for run in {*runs} - {""}) > 8
    assert found.date == "1970-01-02"
    assert [one.word for one in found.verdicts] == ["NOT JUDGED"] * 2, "its budget has a gap"
    assert "NOT JUDGED at smoke: 2 claims; too short" in at_budgets(edition.study, "mine.py")["smoke"]


def test_runs_that_another_study_trained_count_with_the_time_of_their_epochs(mine: Path, monkeypatch) -> None:
    """All answers come from the other study, where each of 8 runs took 2 epochs of 300 s; here none is trained."""
    measured = toy.measure

    def timed(run: Run, epoch: int) -> Measurement:
        said = measured(run, epoch)
        return said.model_copy(update={"values": said.values | {"time/epoch_s": 300.0}})

    monkeypatch.setattr(toy, "measure", timed)
    home, edition = Home(mine / "home"), library.find("mine.py:again").at("smoke")
    conduct(home, library.find("mine.py").at("smoke"))
    assert not conduct(home, edition).order
    assert read(record(home, "mine.py:again")).minutes == 8 * 2 * 5


def test_a_search_and_tuned_arms_have_the_values_that_were_chosen(mine: Path) -> None:
    home = Home(mine / "home")
    for name, names in (("search", ["best", "first", "random"]), ("tuned", ["near", "none"])):
        study = library.find(f"mine.py:{name}")
        conduct(home, study.at())
        found, result = read(record(home, f"mine.py:{name}")), service.result(study.name, home=str(home.root))
        assert [row.name for row in found.rows] == [one for one in names if one in result.named]
        for row in found.rows:
            assert row.recipe(study.at()) == result.named[row.name].recipe
            assert [*row.values] == (["encoding.gamma"] if name == "search" else ["optimizer.lr"])
        assert found.since(study.at()) == []


def test_show_and_the_list_read_the_record_in_place_of_the_words(mine: Path) -> None:
    assert "found at cpu before these rules: near 0.99" in typed("show", "./mine.py")
    by_hand(mine / "home")
    said = typed("record", "./mine.py@cpu", "--home", str(mine / "home"))
    assert said.endswith("records/mine@cpu.json")
    shown = typed("show", "./mine.py")
    day = json.loads(Path("records/mine@cpu.json").read_text())["date"]
    assert f"found at cpu results of {day}: 4 seeds, 0 s on EPYC, 2 cores (python" in shown
    rows = {row.name: row.test.interval for row in read(Path("records/mine@cpu.json")).rows}
    near, none = (f"{low:.4f} to {high:.4f}" for low, high in (rows["near"], rows["none"]))
    assert f"“near”: 0.8600 ± 0.2401 ({near}), 1 of 4 seeds failed; at 48 px 0.7250 ± 0.1708" in shown
    assert f"“none”: 0.5075 ± 0.0151 ({none}), 0 of 4 seeds failed; at 48 px" in shown
    assert "REFUTED: the typical seed of “none” reaches at least 0.9 (0.5075; " in shown
    assert "near 0.99" not in shown, "a record takes the place of words"
    assert "found at" not in typed("show", "./mine.py", "--set", "optimizer.lr=0.002")
    Path("mine.py").write_text(MINE.replace("gamma=2.5", "gamma=2.6"))
    assert f"results of {day}, of another definition" in typed("show", "./mine.py")
    plain = json.loads(Path("records/mine@cpu.json").read_text())
    plain["rows"][1]["code"] = "0123456789ab"
    Path("mine.py").write_text(MINE)
    Path("records/mine@cpu.json").write_text(json.dumps(plain))
    assert f"results of {day}, by older code: 4 seeds" in typed("show", "./mine.py")
    Path("records/mine@cpu.json").write_text("{}")
    done = CliRunner().invoke(app, ["show", "./mine.py"])
    assert isinstance(done.exception, SpecError)


def test_a_named_study_is_recorded_beside_its_file_and_listed(mine: Path, monkeypatch) -> None:
    """In a folder without the records that are kept, which change with what has been run."""
    assert library.record_file("gap", "gap@cpu") == Path(library.__file__).parent / "studies/records/gap@cpu.json"
    monkeypatch.setattr(library, "folder", lambda name: mine / "studies")
    before = {row["name"]: row["found"] for row in catalog.study_rows()}
    assert before["irpe-index"]["cpu"] == "before these rules"
    assert before["encodings"]["8h"] == before["gap"]["paper"] == "not run"
    conduct(Home(mine / "home"), library.find("fourier-gamma").at("smoke"))
    path = service.record("fourier-gamma", home=str(mine / "home"))
    assert path == mine / "studies/records/fourier-gamma@smoke.json"
    after = {row["name"]: row["found"] for row in catalog.study_rows()}
    assert after["fourier-gamma"] == before["fourier-gamma"] | {"smoke": f"results of {read(path).date}"}
    assert {**after, "fourier-gamma": ""} == {**before, "fourier-gamma": ""}


def test_what_is_no_finding_of_a_study_is_refused(mine: Path) -> None:
    home, study = Home(mine / "home"), library.find("mine.py")

    def refused(name: str, why: str) -> None:
        with pytest.raises(LocusError, match=why):
            record(home, name)
        assert not Path("records").exists()

    refused("mine.py", "no study 'mine' was run in")
    conduct(home, study.at("smoke"), cut=9)
    refused("mine.py", r"mine@smoke must have ended before it is recorded, got \d of 8 runs \(locus run mine@smoke --h")
    conduct(home, study.at("smoke", seeds=3), fails=lambda job, epoch: job.run.seed == 1)
    refused("mine.py", r"got \d of 8 runs; \d runs? failed")
    by_hand(home.root, seeds=3)
    refused("mine.py@cpu", "got 6 of 8 runs; fewer seeds or points were asked for than the budget has")
    refused("mine", "record must be given the file of a study of your own, such as ./mine.py, got 'mine'")
    refused("mien", "no study 'mien'")
    conduct(home, library.find("mine.py:tasks").at(arms=["peg"]))
    refused("mine.py:tasks", r"a record must have all arms of its study, got tasks@base~\w+, which has")


@pytest.mark.parametrize("name", ["mine", "sized", "timm"])
def test_own_values_are_recorded_under_their_own_name(mine: Path, name: str) -> None:
    """Of images whose folder is gone, too; where sizes follow from them, and where they are those of some arms.

    And of a model by a name of timm's, of which a recipe has the numbers.
    """
    for number in range(40):
        folder = mine / "pets/train" / f"class_{number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20 + number % 3, 24), (6 * number, 0, 0)).save(folder / f"{number}.png")
    home, file = Home(mine / "home"), f"mine.py:{name}" if name in ("sized", "beside") else "mine.py"
    study = library.find(file)
    images = {"data.kind": "folder", "data.path": str(mine / "pets")}
    timm = {"data.image_size": 32, "model.kind": "timm", "model.name": "test_vit"}
    more = {"mine": {"data.image_size": 16, "model.patch_size": 4}, "timm": timm}.get(name, {})
    edition = study.at("smoke" if name == "sized" else "cpu", set=images | more, label="pets")
    with ByHand(home.root, edition) as hand:
        for trial, seed in hand.runs(edition.study.plan.arms, edition.study.seeds):
            sides = {at_image_size("test/accuracy", side): 0.7 for side in trial.recipe.test_sizes}
            hand.complete(trial, seed, 0.9, 0.8, tests=sides)
    shutil.rmtree(mine / "pets")
    path = record(home, f"{file}@{edition.id.partition('@')[2]}")
    found = read(path)
    assert path.stem == found.id == edition.id
    assert found.definition == defined(edition) == defined(found.edition(study))
    before, after = ([run.key for arm in at.arms() for run in arm.runs(2)] for at in (edition, found.edition(study)))
    assert before == after
    assert str(mine) not in path.read_text()
    size = edition.id.partition("@")[2]
    assert at_budgets(study, file)[size] == paragraphs(found)
    assert standings(study, file)[edition.budget].endswith(f"{size.partition('~')[2]}: results of {found.date}")
    tests = [str(verdict.why) for verdict in service.result(edition.id, home=str(home.root)).claims]
    assert all(f"Here it comes out {one.word}" in why for one, why in zip(found.verdicts, tests, strict=True))
    told = [line for line in paragraphs(found) if line.startswith("NOT JUDGED with own values: 2 claims; data.kind")]
    assert [line.endswith("; here each test finds:") for line in told] == [True][: len(tests)]
    path.write_text(found.model_copy(update={"own": found.own | {"model.depth": -1}}).model_dump_json())
    assert "of another definition" in at_budgets(study, file)[size][0]
    smaller = study.model_copy(update={"budgets": {}, "found": {}, "not_run": ()})
    assert at_budgets(smaller, file) == {}, "its budget is gone"


def test_an_edition_of_a_name_is_recorded_as_the_study_or_with_own_values_under_the_name(mine: Path) -> None:
    home, study = Home(mine / "home"), library.find("mine.py")
    own = study.at("cpu", set={"optimizer.lr": 0.002})
    again = study.at("cpu").named("again")
    for edition, test in ((study.at("cpu"), 0.9), (again, 0.6), (own, 0.6)):
        with ByHand(home.root, edition) as hand:
            for trial, seed in hand.runs(edition.study.plan.arms, 4):
                hand.complete(trial, seed, 0.9, test, tests={at_image_size("test/accuracy", 48): 0.7})
    for name, test in ((f"mine.py@cpu{again.mark}", 0.6), ("mine.py@cpu", 0.9)):
        path = record(home, name)
        assert (path.stem, read(path).rows[0].test.mean) == ("mine@cpu", test)
    path = record(home, f"mine.py@cpu{own.mark}")
    assert (path.stem, read(path).rows[0].test.mean) == (own.id, 0.6)
    assert at_budgets(study, "mine.py")[f"cpu{own.mark}"] == paragraphs(read(path)), "its definition is known"


def test_another_definition_and_older_code_are_refused(mine: Path, monkeypatch) -> None:
    home, tuned = by_hand(mine / "home", older=True), library.find("mine.py:tuned").at()
    with pytest.raises(LocusError, match="got 0 of 8 runs; 8 answers of other code do not count"):
        record(home, "mine.py")
    conduct(home, tuned)
    monkeypatch.setattr(revisions, "LOOP", revisions.LOOP + 1)
    conduct(home, tuned)
    with pytest.raises(LocusError, match=r"got 2 arms with values that runs of other code chose .*base --as WORD"):
        record(home, "mine.py:tuned")
    Path("mine.py").write_text(MINE.replace("gamma=2.5", "gamma=2.6"))
    with pytest.raises(LocusError, match="mine@cpu must be what the study asks today"):
        record(home, "mine.py@cpu")
    assert not Path("records").exists()
