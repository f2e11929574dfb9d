"""How early stopping did: Spearman's correlation of each rung with the final scores."""

import html

import pytest
from scipy import stats

from service.planning.stopping import judge_rungs, rank_correlation

pytestmark = pytest.mark.usefixtures("words_only")


def test_it_is_spearmans():
    pairs = [(0.5, 0.7), (0.6, 0.65), (0.6, 0.9), (0.8, 0.95), (0.7, 0.7)]
    ranks = [(1, 2.5), (2.5, 1), (2.5, 4), (5, 5), (4, 2.5)]
    assert rank_correlation(pairs) == pytest.approx(stats.pearsonr(*zip(*ranks, strict=True)).statistic)
    assert rank_correlation([(1, 1), (2, 2), (3, 3), (4, 4)]) == pytest.approx(1.0)
    assert rank_correlation([(1, 4), (2, 3), (3, 2), (4, 1)]) == pytest.approx(-1.0)
    assert rank_correlation(pairs[:3]) is rank_correlation([(0.5, one) for one, _ in pairs]) is None


def test_the_rungs_of_a_search_are_those_of_its_journal(search, ablation):
    assert judge_rungs(ablation.history) == []
    runs, found = search.of("trial"), judge_rungs(search.history)
    assert [rung.epoch for rung in found] == [3, 6]
    for rung in found:
        reached = [row for row in runs if rung.epoch in next(iter(row.runs.values())).curve]
        ended = [row for row in reached if row.answer.status == "completed"]
        first = [next(iter(row.runs.values())).curve[rung.epoch]["val/accuracy"] for row in ended]
        assert (rung.reached, rung.ended) == (len(reached), len(ended))
        assert rung.correlation == pytest.approx(stats.spearmanr(first, [row.answer.mean for row in ended]).statistic)
    text, said = search.report().read_text(), str(search.saved)
    assert "How early stopping did" in text
    assert f"({search.saved.halved} points)" in said
    assert said in repr(search)
    assert said in html.unescape(text)
