"""What a search with random rivals shows: names for claims, tables, the report, the headline."""

from statistics import fmean

import pytest

from search_spaces.claim import AtLeast, NoWorse
from search_spaces.space import Choice, Space
from search_spaces.study import Published, Search, Study
from service.analysis.headline import details
from service.analysis.study_status import one_status
from service.reporting.further_tables import points, random_points
from service.reporting.results_table import measured
from service.results import Result
from service.storage.home import Home
from service.tracking import rows as mlflow_rows
from service.tracking.rows import role, rows, title
from tests.rooms.service.execution.test_driver_rivals import search
from tests.rooms.toy import conduct
from trainables.recipe import Recipe
from trainables.spec import SpecError

pytestmark = pytest.mark.usefixtures("words_only")

CLAIMS = (NoWorse("best", "random", 0.05), AtLeast("random", 0.6))
PUBLISHED = (Published("random", 0.9, None, "table 9", same_data=True),)


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> Result:
    home = Home(tmp_path_factory.mktemp("home"))
    edition = search(8, seeds=3, claims=CLAIMS, published=PUBLISHED)
    conduct(home, edition)
    return Result.open(home, edition.id)


def test_random_is_the_rival_with_the_best_validation_on_fresh_seeds(result):
    fresh = [row for row in result.rows if row.trial.role == "rival_confirmation"]
    assert len(fresh) == 5
    best = max(fresh, key=lambda row: fmean(row.validation.values.values()))
    assert result.named["random"] is best
    assert set(result.scores["random"].values) == set(result.scores["best"].values) == {1000, 1001, 1002}
    assert result.published(best) == list(PUBLISHED)
    no_worse, at_least = result.claims
    best, random = result.scores["best"].values, result.scores["random"].values
    assert no_worse.measured == pytest.approx(fmean(best[seed] - random[seed] for seed in best))
    assert (no_worse.n, at_least.n) == (3, 3)
    assert "share" not in no_worse.why


def test_no_rival_is_best_and_its_points_stay_out_of_the_searchs_own(result):
    assert {row.trial.role for row in result.winners} <= {"confirmation"}
    labels, status = [trial.label for trial in result.history.trials], one_status(result.home, result.edition.id)
    assert len(labels) == len(set(labels))
    assert (status.trials, status.state) == ("8/8", "done")


def test_tables_and_headline_name_the_best_random_point(result):
    random = result.random
    own = f"#r{random.trial.number} {random.name} (best of 8 random points)"
    table = measured(result)
    assert own in table.columns[0].cells
    assert ", and of the best of 8 random points, on fresh seeds" in table.title
    searched, drawn = points(result), random_points(result)
    assert len(searched.columns[0].cells) == len(drawn.columns[0].cells) == 8
    assert all(cell.startswith("#r") for cell in drawn.columns[0].cells)
    assert any(line.startswith("The best of 8 random points, #r") for line in details(result))
    kinds = result.trials().groupby("role").size().to_dict()
    assert (kinds["trial"], kinds["rival"], kinds["rival_confirmation"]) == (8, 8, 5)
    page = result.report().read_text()
    assert all(f'id="table-{name}"' in page for name in ("results", "points", "random"))


def test_mlflow_tells_random_points_from_others_and_hides_their_test_scores(result):
    history = result.history
    rival, fresh = history.of("rival")[0], history.confirmations("rival_confirmation")[0]
    assert role(history.edition, rival) == "random point"
    assert role(history.edition, fresh) == "random confirmation"
    assert title(history.edition, rival).startswith("r0 ")
    assert all(not mlflow_rows.test_scores(history, trial).n for trial in history.of("rival"))
    assert mlflow_rows.test_scores(history, fresh).n
    study = next(rows(history, "FINISHED"))
    assert study.values.values["progress/runs"] == study.values.values["progress/asked"]


def test_before_the_rivals_are_confirmed_nothing_is_called_random(home):
    edition = search(6, seeds=3, claims=CLAIMS)
    conduct(home, edition, cut=30)
    found = Result.open(home, edition.id)
    assert "random" not in found.named
    assert {verdict.word for verdict in found.claims} == {"INCONCLUSIVE"}
    assert found.headline.endswith("not confirmed on fresh seeds.")
    assert details(found)[-1].startswith("Not finished: ")


def test_random_is_a_name_only_with_a_rival_which_a_random_search_has_not():
    base = Recipe().put({"encoding.kind": "fourier"})
    space = Space({"encoding.gamma": Choice((1.0, 2.0))})
    with pytest.raises(SpecError, match="rival must be false where the sampler is random"):
        Search(space, sampler="random", rival=True)
    assert Study("a", "?", base, Search(space, rival=True)).names() == ["best", "first", "random"]
    with pytest.raises(SpecError, match="claims must be about one of best, first, got 'random'"):
        Study("a", "?", base, Search(space), claims=CLAIMS)
