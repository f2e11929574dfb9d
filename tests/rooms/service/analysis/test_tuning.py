"""What a tuned ablation shows: claims and differences of the arms alone, and how each arm was tuned."""

import html
import shutil

import pytest

from search_spaces.claim import AtLeast, Better
from search_spaces.study import Ablation, Edition, Study
from service.analysis.across_trials import tunings
from service.analysis.best import Best, find_best, ranked
from service.analysis.comparison import Side, changes
from service.analysis.headline import details
from service.analysis.study_status import one_status
from service.consistency import verify
from service.reporting.figures.curves import curve_lines
from service.reporting.further_tables import tuned as tuned_table
from service.reporting.page import Page, page
from service.reporting.pages import Table
from service.results import Result
from service.storage.facts import Tuned
from service.storage.home import Home
from service.storage.journal import read
from service.terminal.live import EventLines
from service.terminal.views import legend
from service.tracking import rows as mlflow_rows
from service.tracking.rows import role, rows, title, trial_content
from tests.rooms.by_hand import edit_lines
from tests.rooms.service.execution.test_driver_tuning import ARMS, BEYOND, fair
from tests.rooms.service.planning.test_tuning import Following, tuned
from tests.rooms.toy import conduct
from trainables.recipe import revisions

pytestmark = pytest.mark.usefixtures("words_only")

CLAIMS = (Better("token", "far"), AtLeast("mean", 0.6))


def claimed(*args, **more) -> Edition:
    edition = fair(*args, seeds=3, **more)
    return Edition(budget="base", study=Study(**{**dict(edition.study), "claims": CLAIMS}))


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> Result:
    home = Home(tmp_path_factory.mktemp("home"))
    conduct(home, claimed())
    return Result.open(home, claimed().id)


@pytest.fixture(scope="module")
def shown(result) -> Page:
    return page(result, {})


@pytest.fixture(scope="module")
def chosen_by_two(tmp_path_factory) -> Home:
    """A home where each arm was tuned over two trials and trained."""
    home = Home(tmp_path_factory.mktemp("two"))
    conduct(home, fair(2))
    return home


@pytest.fixture
def copied(chosen_by_two, tmp_path) -> Home:
    """The same in a home that a test may change."""
    shutil.copytree(chosen_by_two.root, tmp_path / "home")
    return Home(tmp_path / "home")


def by_name(shown: Page) -> dict[str, Table]:
    return {table.name: table for table in shown.tables}


def by_head(table: Table) -> dict[str, list[str]]:
    return {column.head: list(column.cells) for column in table.columns}


def written(found: Result) -> str:
    """The page of the report."""
    return html.unescape(found.report().read_text())


def test_only_the_arms_are_compared_judged_and_called_best(result):
    assert set(result.scores) == set(ARMS)
    assert {seed for scores in result.scores.values() for seed in scores.values} == {0, 1, 2}
    assert set(result.differences) == {"mean", "far"}
    assert {row.trial.role for row in result.winners} == {"trial"}
    assert [verdict.n for verdict in result.claims] == [3, 3]
    assert {row.trial.role for row in (*result.tested, *result.compared)} == {"trial"}


def test_a_trial_that_tunes_beats_every_arm_without_being_best():
    found = Following(tuned())
    found.tune_all({"t0.0": 0.99, "t0.1": 0.98, "t1.0": 0.97, "t1.1": 0.99})
    assert find_best(found.history) == Best()
    found.add(Tuned(arm="token", number=0), Tuned(arm="mean", number=1))
    found.list_arms()
    for label, score in (("0", 0.8), ("1", 0.9)):
        for seed in range(2):
            found.end(found.run(label, seed), score)
    assert [trial.label for trial in find_best(found.history).trials] == ["1"]
    places = [trial.role for trial in ranked(found.history)]
    assert places == ["trial"] * 2 + ["tuning"] * 4


def test_the_report_says_for_each_arm_over_how_many_trials_and_to_what_it_was_tuned(result, shown):
    tables = by_name(shown)
    cells = by_head(tables["tuned"])
    assert cells["arm"] == [*ARMS]
    assert cells["trials"] == ["3", "3", "3"]
    for arm, label, words, given in zip(*(cells[head] for head in ("arm", "chosen", "tuned to", "given")), strict=True):
        chosen = result.history.tuning.chosen_trial(arm)
        assert label == f"#{chosen.label}"
        assert words == f"encoding.gamma = {chosen.recipe.encoding.gamma:.6g}"
        assert given == f"encoding.gamma = {'30' if arm == 'far' else '2.5'}"
    assert "1 seed (3000), on which no arm is compared" in tables["tuned"].note
    assert len(tables["tuning"].rows) == 9
    assert len(tables["tuning"].strong) == 3
    assert "Each arm was tuned first, by the same search over 3 trials of encoding.gamma" in tables["results"].note
    assert ("seeds of the tuning", "3000", False) in shown.surroundings
    assert all("(#t" in cell for cell in by_head(tables["arms"])["tuned to"])
    assert result.report().exists()


def test_a_page_says_how_many_arms_take_the_highest_or_lowest_value_that_was_tried(result, shown, chosen_by_two):
    tuning, by_two = result.history.tuning, Result.open(chosen_by_two, fair(2).id)
    middle = {arm: sorted(trial.recipe.encoding.gamma for trial in tuning.trials(arm))[1] for arm in ARMS}
    assert middle == {arm: tuning.chosen_trial(arm).recipe.encoding.gamma for arm in ARMS}
    assert "at an end" not in by_name(shown)["results"].note
    tuning = by_two.history.tuning
    lower = [min(trial.recipe.encoding.gamma for trial in tuning.trials(arm)) for arm in ARMS]
    chosen = [tuning.chosen_trial(arm).recipe.encoding.gamma for arm in ARMS]
    lowest = sum(map(float.__eq__, lower, chosen))
    counts = ", ".join(f"{end}: {count}" for end, count in (("highest", 3 - lowest), ("lowest", lowest)) if count)
    said = f"encoding.gamma is at an end of what was tried for 3 of 3 arms ({counts})"
    assert said in by_name(page(by_two, {}))["results"].note


def test_time_that_tuned_an_arm_is_shown_and_in_no_time_of_a_run(result, shown):
    for one in tunings(result.history, result.rows):
        assert one.seconds == pytest.approx(sum(run.seconds for row in one.rows for run in row.runs.values()))
    trials = result.trials()
    assert trials.groupby("role").size().to_dict() == {"trial": 3, "tuning": 9}
    assert shown.effort.startswith("18 runs trained here")


def test_status_counts_the_runs_of_the_tuning_and_the_arms_as_trials(result):
    found = one_status(result.home, result.edition.id)
    assert (found.done, found.asked, found.trials, found.state) == (18, 18, "3/3", "done")
    labels = [row.label for row in found.rows]
    assert labels[:3] == ["t0.0", "t1.0", "t2.0"]
    chosen = result.history.tuning.chosen_trial("token")
    assert next(row.state for row in found.rows if row.label == "0") == f"done, tuned as {chosen.label}"
    assert any("t0.0: a trial that tunes an arm" in line for line in legend(found.rows, found.rows, result.edition))


def test_mlflow_tells_trials_that_tune_from_arms_and_hides_their_test_scores(result):
    history = result.history
    trial = history.of("tuning")[0]
    assert role(history.edition, trial) == "tuning"
    assert title(history.edition, trial).startswith("t0.0 token: gamma=")
    assert trial_content(history.edition, trial).params["encoding.gamma"] == f"{trial.recipe.encoding.gamma:.6g}"
    assert not mlflow_rows.test_scores(history, trial).n
    assert mlflow_rows.test_scores(history, history.of("trial")[0]).n
    study, *others = rows(history, "FINISHED")
    assert study.values.values["progress/runs"] == study.values.values["progress/asked"] == 18
    runs = {row.id: row for row in others}
    run = runs["run", "t0.0", 3000]
    assert run.parent == ("trial", "t0.0", None)
    assert run.tags["locus.role"] == "tuning"
    means = runs["trial", "t0.0", None].values.values
    assert means
    assert not any("test/" in name for name in means)


def test_a_line_says_what_was_planned_and_what_was_chosen(result):
    facts = read(result.home.study(result.edition.id).journal)[0]
    lines = [line for fact in facts if fact.fact == "tuned" and (line := EventLines(result.history)(fact))]
    chosen = result.history.tuning.chosen_trial("token")
    assert lines[0] == f"tuned: #{chosen.label} {chosen.name}"


def test_a_report_of_any_moment_is_whole(tmp_path):
    edition = claimed()
    for cut in (3, 15, 33, 53, 56, 60):
        home = Home(tmp_path / str(cut))
        conduct(home, edition, cut=cut)
        found = Result.open(home, edition.id)
        text = written(found)
        assert "No answer yet" in found.headline or "Not finished" in details(found)[-1]
        done = one_status(home, edition.id)
        assert done.state == "unfinished"
        assert done.trials.endswith("/3")
        assert {"BROKEN"} & {verdict.word for verdict in found.claims} == set()
        study = next(rows(found.history, "SCHEDULED"))
        assert study.values.values["progress/asked"] == 18
        if cut == 3:
            assert tuned_table(found) is None, "all its cells would be empty"
            assert not any(line.name for line in curve_lines(found)), "trials that tune the arms are gray"
            assert "not yet" not in text
            assert "not begun" in found.headline


def test_the_page_says_where_an_arm_has_its_own_values(home):
    edition = fair(2, space=BEYOND)
    conduct(home, edition)
    shown = page(Result.open(home, edition.id), {})
    assert any("“token” is not tuned: each of its 2 trials diverged" in remark for remark in shown.remarks)
    cells = by_head(by_name(shown)["tuned"])
    assert cells["trials"] == ["2, 2 diverged"] * 3
    assert cells["tuned to"] == ["not tuned"] * 3


def test_the_page_says_which_arm_is_left_out(home):
    edition = claimed(2)
    conduct(home, edition, fails=lambda job, epoch: job.run.recipe.model.pool == "avg")
    found = Result.open(home, edition.id)
    assert "“mean” is left out: none of its 2 tuning trials completed." in written(found)
    assert details(found)[-1].startswith("Not finished: 1 trial not begun")
    assert one_status(home, edition.id).state == "failed"
    assert "mean" not in found.scores


def test_a_failed_trial_beside_a_choice_is_counted_in_the_table_and_not_open(home):
    edition = fair(2)
    first = edition.tuning_trial("token", 0, {"encoding.gamma": 1.0}).recipe.model
    conduct(home, edition, fails=lambda job, epoch: job.label == "t0.0" and job.run.recipe.model == first)
    for _ in range(2):
        found = Result.open(home, edition.id)
        assert by_head(tuned_table(found))["trials"] == ["2, 1 failed", "2", "2"]
        (remark,) = [one.remark for one in tunings(found.history, found.rows) if one.remark]
        assert remark == "“token” was tuned over fewer trials: 1 of its 2 failed."
        status = one_status(home, edition.id)
        assert (status.state, status.rows[0].state) == ("done", "failed: the worker died")
        assert not any("Not finished" in line for line in details(found))
        assert not conduct(home, edition).trained, "the choice is made, so another command does not try it again"
    assert page(found, {}).remarks == [remark]


def test_after_an_edit_the_page_says_that_the_choice_is_of_other_code(copied, monkeypatch):
    home, edition = copied, fair(2)
    monkeypatch.setattr(revisions, "LOOP", revisions.LOOP + 1)
    conduct(home, edition)
    found = Result.open(home, edition.id)
    assert sum("stay as they were chosen, by runs of other code" in remark for remark in page(found, {}).remarks) == 3
    assert one_status(home, edition.id).state == "done"
    assert all(row.answer.status == "completed" for row in found.of("trial"))


def test_a_baseline_that_is_left_out_leaves_no_difference_and_no_verdict(home):
    edition = claimed(2)
    first = edition.arms()[0].recipe.model
    conduct(home, edition, fails=lambda job, epoch: job.run.recipe.model == first)
    found = Result.open(home, edition.id)
    assert set(found.scores) == {"mean", "far"}
    assert not found.differences
    assert [verdict.word for verdict in found.claims] == ["INCONCLUSIVE", "SUPPORTED"]
    assert found.report().exists()


def test_verify_holds_and_sees_another_choice(copied):
    home, edition = copied, fair(2)
    checks = verify(home, edition)
    assert [check.name for check in checks if not check.ok] == []
    assert next(check for check in checks if check.name == "tuning").detail.startswith("3 arms")
    journal = home.study(edition.id).journal
    chosen = Result.open(home, edition.id).history.tuning.chosen["token"]
    before, said = journal.read_text(), '"arm":"token","number":'
    edit_lines(journal, lambda line: line.replace(f"{said}{chosen}", f"{said}{1 - chosen}"))
    assert journal.read_text() != before
    assert "tuning" in [check.name for check in verify(home, edition) if not check.ok]


def test_a_comparison_names_the_tuning_as_a_difference():
    tuned = fair(2)
    plain = Study(**{**dict(tuned.study), "plan": Ablation(ARMS, "token")}).at()
    (found,) = [change for change in changes(Side("a", tuned, ()), Side("b", plain, ()), ()) if change.what == "tuning"]
    assert (found.b, "trials = 2" in found.a) == ("none", True)
