"""The league of an ablation over tasks: the worked example of Demsar 2006, written as a study, and what is missing."""

import shutil

import matplotlib as mpl
import pytest

from search_spaces.claim import BetterOverTasks
from search_spaces.plans.ablation import Ablation
from search_spaces.study import Score, Study
from service.analysis.headline import headline
from service.api import check_report
from service.reporting.figures.plot import STYLE
from service.reporting.league import critical_difference, league_tables, performance_profiles
from service.results import Result
from service.storage.facts import Counts
from service.storage.home import Home
from tests.rooms.by_hand import ByHand, base, edit_lines
from tests.rooms.service.analysis.demsar import NAMES, TABLE_6
from trainables.spec import SpecError

KINDS = ("none", "learnable", "sinusoidal", "learnable_sinusoidal")
KINDS_BY_NAME = {name: {"encoding.kind": kind} for name, kind in zip(NAMES, KINDS, strict=True)}
AXES = {
    "method": KINDS_BY_NAME,
    "task": {task: {"data.data_seed": number} for number, task in enumerate(TABLE_6)},
}


def played(
    root,
    *,
    without: tuple[str, str] | None = None,
    table=TABLE_6,
    methods=NAMES,
    seeds=1,
    families=None,
    seen_before=False,
):
    """The example as a study of one seed; `without`: a method and a task whose last run has no answer.

    Each further seed scores 0.001 more. `seen_before`: whether the verdicts of the first seed could be seen before the
    other seeds were asked for.
    """
    axes = {
        "method": {name: AXES["method"][name] for name in methods},
        "task": {task: AXES["task"][task] for task in table},
    }
    plan = Ablation(axes=axes, baseline="C4.5", tasks="task", families=families or {})
    recipe = base().put({"data.skill": True, "data.test_size": 100_000})  # so that one image is less than 0.0001
    study = Study(name="demsar", question="Which tree?", base=recipe, plan=plan, score=Score("val/skill"), seeds=seeds)
    edition = study.at()
    with ByHand(root, edition) as hand:
        trials = {
            name: hand.plan("trial", number, values, name) for number, (name, values) in enumerate(plan.arms.items())
        }
        for begin, end in ((0, 1), (1, seeds)) if seen_before else ((0, seeds),):
            hand.journal.write(Counts(seeds=end))
            for seed in range(begin, end):
                for name, trial in trials.items():
                    names = plan.combination(name)
                    score = dict(zip(NAMES, table[names["task"]], strict=True))[names["method"]]
                    if (names["method"], names["task"]) != without or seed < seeds - 1:
                        hand.complete(trial, seed, score, score + 0.001 * seed)
    return Result.open(Home(root), edition.id)


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> Result:
    return played(tmp_path_factory.mktemp("demsar"))


def test_the_table_has_the_ranks_of_demsar(result) -> None:
    table, _, properties = league_tables(result)
    cells = {column.head: list(column.cells) for column in table.columns}
    assert cells["method"] == ["C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5 (control)"]
    assert cells["mean rank"] == ["1.96", "2.00", "2.89", "3.14"]
    assert cells["p (Holm)"] == ["0.047", "0.047", "0.61", ""]
    by_task = {column.full_head: list(column.cells) for column in table.columns}
    assert by_task["adult (sample), rank"] == ["1", "3", "2", "4"]
    assert by_task["adult (sample), test skill"] == ["0.7980", "0.7680", "0.7710", "0.7630"]
    assert by_task["mushroom, rank"] == ["2.5"] * 4
    assert cells["95 % interval"] == ["1.38 to 2.55", "1.41 to 2.59", "2.31 to 3.48", "2.56 to 3.73"]
    assert "chi² = 9.28, F = 3.69, p = 0.020; level 0.045" in table.note
    assert "critical difference at 0.045: 1.27 ranks" in table.note
    assert "adjusted by Holm, to be below 0.045." in table.note, "0.047 is no finding"
    rows = {row[0]: row[1:] for row in properties.rows}
    assert rows["adult (sample)"] == ("0.7980", "0.7680", "0.7710", "0.7630"), "in the order of the league"
    assert rows["time of a run (s)"] == ("12.0",) * 4


def test_the_answer_names_the_first_and_those_not_told_apart(result) -> None:
    assert headline(result) == (
        "Over 14 tasks, “C4.5+m+cf” has the best mean rank, 1.96 (Friedman's test p = 0.020, level 0.045); Nemenyi's "
        "test does not tell it apart from “C4.5+m”, “C4.5+cf” and “C4.5”."
    )
    assert result.best is None, "scores of different tasks say nothing about each other"


def test_ranks_are_tested_at_the_level_of_the_look(tmp_path) -> None:
    """Who adds seeds until the methods are told apart has looked several times."""
    found = played(tmp_path, seeds=2, seen_before=True)
    assert (found.history.looks, found.league.ranking.level) == (2, pytest.approx(0.0025))
    assert found.league.ranking.friedman.p == pytest.approx(0.014, abs=0.001), "below the level of a first look"
    assert headline(found).endswith("(Friedman's test p = 0.014, level 0.0025): no two of the 4 are told apart.")
    assert "p = 0.014, level 0.0025. The bar joins all of them" in critical_difference(found).caption
    assert "level 0.0025. It tells no two methods apart" in league_tables(found)[0].note


def test_the_diagram_has_a_dot_at_each_mean_rank_and_a_bar_over_each_group(result) -> None:
    plot = critical_difference(result)
    with mpl.rc_context(STYLE):
        (axes,) = plot.draw().axes
    has_dots_and_bars(axes, result.league.ranking)


def has_dots_and_bars(axes, ranking) -> None:
    dots = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "o"]
    assert sorted(dots) == pytest.approx(sorted(ranking.means.values()))
    bars = [line.get_xdata() for line in axes.lines if line.get_linewidth() == 2.4]
    assert len(bars) == len(ranking.groups()) == 1
    assert bars[0][0] < min(dots) < max(dots) < bars[0][1]
    (ruler,) = [line.get_xdata() for line in axes.lines if line.get_marker() == "|"]
    assert ruler[1] - ruler[0] == pytest.approx(1.27, abs=0.005)
    assert {f"{name} {mean:.2f}" for name, mean in ranking.means.items()} <= {text.get_text() for text in axes.texts}


def test_the_diagram_is_a_figure_of_the_report(tmp_path) -> None:
    page = played(tmp_path, table={task: TABLE_6[task] for task in [*TABLE_6][:3]}, methods=NAMES[:3]).report()
    assert page.with_name("critical_difference.pdf").read_bytes()
    assert "critical_difference" in page.read_text()


def test_a_task_that_a_method_lacks_is_not_ranked(tmp_path) -> None:
    found = played(tmp_path, without=("C4.5+m", "adult (sample)")).league
    assert found.left_out == ["adult (sample)"]
    assert found.ranking.families == 13


def test_a_method_that_lacks_a_task_has_no_score_over_tasks(tmp_path) -> None:
    result = played(tmp_path, table={task: TABLE_6[task] for task in [*TABLE_6][:3]}, methods=NAMES[:3], seeds=3)
    result.rows = [row for row in result.rows if row.name != f"{NAMES[1]}, {[*TABLE_6][2]}"]
    found = result.scores_of(BetterOverTasks(NAMES[1], NAMES[0]))
    assert [*found] == [NAMES[0]]
    assert {task: one.mean for task, one in found[NAMES[0]].tasks.items()} == pytest.approx(
        {task: TABLE_6[task][0] + 0.001 for task in [*TABLE_6][:3]}
    )


def test_means_of_fewer_seeds_are_marked(tmp_path) -> None:
    tasks = [*TABLE_6][:3]
    found = played(tmp_path, without=("C4.5+m", tasks[0]), table={task: TABLE_6[task] for task in tasks}, seeds=2)
    properties = league_tables(found)[-1]
    (row,) = [row for row in properties.rows if row[0] == tasks[0]]
    cells = dict(zip([column.head for column in properties.columns], row, strict=True))
    assert (cells["C4.5"], cells["C4.5+m"]) == ("0.7635", "0.7680 (1/2)")


def test_firsts_that_tie_are_not_said_to_be_told_apart_from_each_other(tmp_path) -> None:
    table = {task: (0.5, 0.9, 0.6, 0.9) for task in [*TABLE_6][:8]}
    said = headline(played(tmp_path, table=table))
    first = "Over 8 tasks, “C4.5+m” and “C4.5+m+cf” share the best mean rank, 1.50"
    assert said.startswith(first)
    assert "Nemenyi's test does not tell them apart from “C4.5+cf”." in said, "it is 1.5 ranks away, of 1.66"


def test_where_friedman_tells_nothing_apart_no_pair_is_tested(tmp_path) -> None:
    turns = {
        task: [0.9 - 0.1 * ((place + number) % 4) for place in range(4)] for number, task in enumerate([*TABLE_6][:4])
    }
    found = played(tmp_path, table=turns)
    table, *_ = league_tables(found)
    assert "p (Holm)" not in [column.head for column in table.columns]
    assert not table.strong
    assert "It tells no two methods apart, so no pair is tested." in table.note
    assert headline(found).startswith(
        "Over 4 tasks, “C4.5”, “C4.5+m”, “C4.5+cf” and “C4.5+m+cf” share the best mean rank, 2.50 (Friedman's test"
    )


def test_tasks_of_two_families_are_ranked_without_a_test(tmp_path) -> None:
    """Four tasks agree, so five tasks alone would say more; but these are two families."""
    tasks = [*TABLE_6][:5]
    table = {task: (0.5, 0.6, 0.7, 0.8) for task in tasks[:4]} | {tasks[4]: (0.8, 0.7, 0.6, 0.5)}
    families = dict.fromkeys(tasks[:4], "breast")
    result = played(tmp_path, table=table, seeds=3, families=families)
    assert headline(result) == (
        "Over 2 families of 5 tasks, “C4.5”, “C4.5+m”, “C4.5+cf” and “C4.5+m+cf” share the best mean rank, 2.50. "
        "No p-value: the tasks are of 2 families, and a test needs 3."
    )
    league, together, _ = league_tables(result)
    cells = {column.full_head: list(column.cells) for column in league.columns}
    assert cells["method"] == ["C4.5 (control)", "C4.5+m", "C4.5+cf", "C4.5+m+cf"]
    assert (cells["breast, rank"], cells["breast, test skill"]) == ([*"4321"], ["0.5010", "0.6010", "0.7010", "0.8010"])
    assert cells[f"{tasks[4]}, rank"] == [*"1234"]
    assert cells["95 % interval"] == ["1.00 to 4.00"] * 4, "two families say little"
    assert not any(head.startswith("p ") or "p (Holm)" in head for head in cells)
    assert "Friedman" not in league.note
    assert "p =" not in league.note
    assert f"Family “breast”: {tasks[0]}, {tasks[1]}, {tasks[2]} and {tasks[3]}." in league.note
    shown = {column.full_head: list(column.cells) for column in together.columns}
    assert shown["interquartile mean, test skill"] == ["0.5013", "0.6013", "0.7007", "0.8007"], "of 15 runs 9"
    assert shown["better than the control, probability"] == ["", "0.8000", "0.8000", "0.8000"], "on four of five tasks"
    assert "p " not in critical_difference(result).caption.replace("p-value", "")
    with mpl.rc_context(STYLE):
        (axes,) = critical_difference(result).draw().axes
        panels = performance_profiles(result).draw().axes
    assert not [line for line in axes.lines if line.get_linewidth() == 2.4 or line.get_marker() == "|"], "no bar"
    assert [panel.get_title(loc="left") for panel in panels] == ["C4.5+m", "C4.5+cf", "C4.5+m+cf"]
    for panel, name in zip(panels, NAMES[1:], strict=True):
        _, line = panel.lines
        profile = result.league.runs.profiles()[name]
        assert list(line.get_ydata()) == list(profile.shares)
        assert len(panel.collections) == 2, "a band for the method, and one for the control"


def test_families_are_named_by_task_and_change_no_run() -> None:
    plan = Ablation(axes=AXES, baseline="C4.5", tasks="task", families={"wine": "food"})
    study = Study(
        name="demsar", question="?", base=base().put({"data.skill": True}), plan=plan, score=Score("val/skill")
    )
    without = study.model_copy(update={"plan": Ablation(axes=AXES, baseline="C4.5", tasks="task")})
    assert study.at().definition == without.at().definition
    with pytest.raises(SpecError, match=r"^families must be by task \(adult \(sample\), .*, wine\), got \['beer'\]"):
        Ablation(axes=AXES, baseline="C4.5", tasks="task", families={"beer": "food"})
    with pytest.raises(SpecError, match="families must be by task"):
        Ablation(axes=AXES, baseline="C4.5", families={"wine": "food"})
    with pytest.raises(SpecError, match="families must be left out"):
        Ablation(KINDS_BY_NAME, "C4.5", families={"wine": "food"})


def test_two_methods_are_never_ranked_and_the_reason_is_said(tmp_path) -> None:
    found = played(tmp_path, methods=["C4.5", "C4.5+m"])
    assert "No ranking: 2 methods, and a ranking needs 3." in headline(found)


def test_a_page_is_written_again_where_one_answer_is_of_other_code(result, tmp_path) -> None:
    """No arm is best over tasks: that must not be read as a study without answers."""
    shutil.copytree(result.home.root, tmp_path / "home")
    home, found = Home(tmp_path / "home"), result
    page = home.study(found.edition.id).report / "report.html"
    page.parent.mkdir(exist_ok=True)
    page.write_text("an earlier page")
    journal, run = home.study(found.edition.id).journal, found.rows[0].runs[0]
    edit_lines(journal, lambda line: line.replace(run.code, "0123456789ab") if run.run.key in line else line)
    again = Result.open(home, found.edition.id)
    assert again.stale == 1
    check_report(again)


def test_no_arm_is_called_best_while_runs_are_missing(tmp_path) -> None:
    found = headline(played(tmp_path, without=("C4.5+m", "wine")))
    assert found.startswith("Over 13 tasks")
    assert "Not finished: 1 trial begun" in found


def test_tasks_are_the_other_of_two_axes() -> None:
    for tasks in ("method", "tasks"):
        with pytest.raises(SpecError, match=r"^tasks must be one of two axes, that without C4\.5 \(task\), got "):
            Ablation(axes=AXES, baseline="C4.5", tasks=tasks)
