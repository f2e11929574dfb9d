"""Which edition is meant, and that a definition stays what it was under its id."""

import os
import shutil
from pathlib import Path

import pytest

from search_spaces.space import Real, Space
from search_spaces.study import Ablation, Edition, Search, Study
from service.storage import editions
from service.storage.editions import EditionError
from service.storage.home import Home
from tests.rooms.trainables.data.own_data import reading_arms
from trainables.encodings import Fourier
from trainables.recipe import Recipe


def edition(gamma: float = 2.5, arms: dict | None = None, **changes) -> Edition:
    plan = Ablation(arms=arms or {"near": {}, "far": {"encoding.gamma": 9.0}}, baseline="near")
    values = {"name": "arms", "question": "?", "base": Recipe(encoding=Fourier(gamma=gamma)), "plan": plan}
    return Study(**values | changes).at()


FAR = {"near": {}, "far": {"encoding.gamma": 8.0}}
"""The arms with another value."""


def test_an_edition_comes_back_as_kept_and_a_bare_name_is_its_latest_edition(home: Home) -> None:
    own = edition().study.at(set={"optimizer.epochs": 3})
    for moment, one in enumerate([edition(), own, edition(name="others")]):
        editions.save_edition(one, home)
        os.utime(home.study(one.id).study, (moment, moment))
    assert editions.stored(home, "arms@base") == edition()
    assert editions.latest(home, "arms") == own.id
    assert editions.latest(home, "arms@base") == "arms@base"
    os.utime(home.study("arms@base").study, (9, 9))
    assert editions.latest(home, "arms") == "arms@base"
    with pytest.raises(EditionError, match=r"no study 'arm' was run in .*; known: "):
        editions.latest(home, "arm")
    with pytest.raises(EditionError, match=r"no study 'arms@cpu' in .*; known: .*arms@base"):
        editions.stored(home, "arms@cpu")


def test_a_definition_may_not_change_under_its_id(home: Home) -> None:
    editions.save_edition(edition(), home)
    assert editions.resolve_edition(edition(question="Really?", seeds=9), home).id == "arms@base"
    values = {f"optimizer.{name}": value for name, value in (("lr", 0.1), ("batch_size", 7), ("warmup", 0))}
    many = edition().study.base.put(values | {"encoding.gamma": 3.0, "optimizer.clip_grad": 2})
    for changed, why in (
        (
            edition(gamma=3.5),
            r"^arms@base has another definition here: base\.encoding\.gamma was the default, is 3\.5\. ",
        ),
        (edition(arms=FAR), r"plan.arms.far.encoding.gamma was 9, is 8"),
        (edition(base=many), r" and 2 more\. "),
    ):
        with pytest.raises(EditionError, match=rf'{why}.*version="WORD" starts another version$'):
            editions.resolve_edition(changed, home)


def test_arms_may_be_added_and_not_left_out(home: Home) -> None:
    """As in a notebook: the same call with one more arm."""
    farther = {"farther": {"encoding.gamma": 20.0}}
    editions.save_edition(edition(), home)
    more = editions.resolve_edition(edition(arms={**farther, "near": {}, "far": {"encoding.gamma": 9.0}}), home)
    assert (more.id, [*more.study.plan.arms]) == ("arms@base", ["near", "far", "farther"])
    editions.save_edition(more, home)
    for changed, why in (
        (edition(), r"plan.arms.farther was encoding.gamma=20, is the default\. version="),
        (edition(arms=FAR | farther), r"plan.arms.far.encoding.gamma was 9, is 8"),
    ):
        with pytest.raises(EditionError, match=why):
            editions.resolve_edition(changed, home)


def test_editions_do_not_disturb_each_other_and_a_search_may_grow(home: Home) -> None:
    def search(trials: int) -> Edition:
        plan = Search(space=Space({"encoding.gamma": Real(low=0.1, high=40)}), trials=trials)
        return edition(name="search", plan=plan)

    named = edition().study.at(set={"optimizer.epochs": 3}, name="long")
    for one in (edition(), named, named.named("again"), search(5)):
        editions.save_edition(one, home)
    for one, id in ((edition(), "arms@base"), (named, "arms@base~long"), (search(50), "search@base")):
        assert editions.resolve_edition(one, home).id == id


def test_an_id_never_leads_out_of_the_home(tmp_path) -> None:
    home, other = Home(tmp_path / "home"), Home(tmp_path / "other")
    for one in (home, other):
        editions.save_edition(edition(), one)
    outside = f"../../other/studies/{edition().id}"
    assert home.study(outside).study.is_file(), "a path that a system would follow"
    for name in (outside, "x" * 300, "", "."):
        with pytest.raises(EditionError, match="no study"):
            editions.stored(home, name)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_definition_that_was_cut_is_said_and_written_anew(home: Home, share: float) -> None:
    editions.save_edition(edition(), home)
    path = home.study("arms@base").study
    whole = path.read_text()
    path.write_text(whole[: int(share * len(whole))])
    ends = "run the study again to write this file again; its answers still count"
    with pytest.raises(EditionError, match=rf"study\.json is damaged .*{ends}"):
        editions.stored(home, "arms@base")
    assert editions.resolve_edition(edition(), home) == edition()
    editions.save_edition(edition(), home)
    assert editions.stored(home, "arms@base") == edition()


def test_a_study_in_memory_reads_its_images_again_when_it_is_run_again(home: Home, tmp_path: Path) -> None:
    kept = reading_arms(tmp_path / "images")
    keys = [trial.run(0).key for trial in kept.arms()]
    assert [trial.run(0).key for trial in editions.resolve_edition(kept, home).arms()] == keys
    (tmp_path / "images").write_text("2")
    again = editions.resolve_edition(kept, home)
    assert again == kept
    assert not {trial.run(0).key for trial in again.arms()} & {*keys}


def test_a_folder_that_was_copied_under_another_name_is_no_study(home: Home) -> None:
    """It holds the definition of its original: what were done to it would be done to that."""
    editions.save_edition(edition(), home)
    shutil.copytree(home.study("arms@base").root, home.study("arms@base-backup").root)
    with pytest.raises(EditionError, match="must be of arms@base-backup, got the study arms@base; give the folder"):
        editions.stored(home, "arms@base-backup")
    assert editions.stored(home, "arms@base") == edition()
