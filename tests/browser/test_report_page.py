"""The report as phones, laptops and printers show it: nothing is wider than the page, and the winner is in sight."""

import pytest

from search_spaces.space import Choice, Integer, Real, Space
from search_spaces.study import Search, Study
from service.results import Result
from service.storage.facts import Confirms
from service.storage.home import Home
from tests.browser.chromium import Chromium
from tests.rooms.by_hand import ByHand, ablated, base, searched
from tests.rooms.service.analysis.test_data_efficiency import studied
from tests.rooms.service.reporting.figures.searches import search as over_two
from tests.rooms.service.reporting.test_costs import run as costly
from tests.rooms.service.reporting.test_statistics_tables import PUBLISHED
from tests.rooms.service.reporting.test_statistics_tables import run as many_seeds

pytestmark = pytest.mark.browser
WIDTHS = (390, 1100, 1280, 1720)

SHAPE = """
(() => {
  const width = document.documentElement.clientWidth;
  const seen = element => element.getClientRects().length > 0;
  const within = box => box.left >= -1 && box.right <= width + 1;
  const inside = element => within(element.getBoundingClientRect());
  const cut = text => {
    const [own, all] = [text, text.closest('svg')].map(e => e.getBoundingClientRect());
    return own.left < all.left - 1 || own.right > all.right + 1;
  };
  const all = [...document.querySelectorAll('main *')].filter(seen);
  const boxes = [...document.querySelectorAll('.scroll')].filter(seen);
  const row = document.querySelector('#table-results tr.strong');
  return {
    page: document.documentElement.scrollWidth - width,
    wide: all.filter(e => !e.closest('.scroll table, svg, pre') && !inside(e)).map(e => e.outerHTML.slice(0, 90)),
    scrolled: boxes.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.closest('.table, figure').id),
    winner: row ? [...row.cells].slice(0, 2).every(inside) : null,
    cut: [...document.querySelectorAll('svg text')].filter(e => seen(e) && cut(e)).map(e => e.textContent),
    figures: [...document.querySelectorAll('figure svg')].filter(seen).length,
    captions: document.querySelectorAll('figcaption').length,
    folded: [...document.querySelectorAll('details table')].filter(e => e.getBoundingClientRect().height < 5).length,
    files: [...document.querySelectorAll('.files')].filter(seen).length,
  };
})()
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def many_paths(root) -> str:
    """A search over six paths with long names, three points confirmed."""
    domains = {
        "encoding.gamma": Real(low=0.1, high=40.0, log=True),
        "optimizer.lr": Real(low=1e-4, high=0.1, log=True),
        "optimizer.weight_decay": Real(low=0.0, high=0.3),
        "optimizer.warmup": Real(low=0.0, high=0.5),
        "model.depth": Integer(low=1, high=3),
        "model.pool": Choice(("token", "avg")),
    }
    plan = Search(space=Space(domains), trials=4)
    edition = Study(name="paths", question="Which?", base=base(), plan=plan, seeds=3).at()
    values = {
        n - 1: {"encoding.gamma": 1.2345 * n, "optimizer.lr": 0.0012345 * n, "optimizer.weight_decay": 0.0123 * n,
                "optimizer.warmup": 0.0567 * n, "model.depth": 1 + n % 3, "model.pool": "avg"}
        for n in range(1, 5)
    }  # fmt: skip
    with ByHand(root, edition, seeds=3, trials=4) as hand:
        hand.points("trial", values, lambda number, seed: (0.7 + 0.05 * number + 0.01 * seed, 0.7))
        best = (1, 2, 3)
        hand.journal.write(Confirms(numbers=best))
        again = {number: values[number] for number in best}
        hand.points("confirmation", again, lambda number, seed: (0.8 + 0.01 * number, 0.8 + 0.01 * number))
    return edition.id


def efficient(root) -> str:
    """Curves over training images."""
    return studied(root).edition.id


def over_two_paths(root) -> str:
    """A search over two paths, beside random points, three points confirmed."""
    return over_two(root, rivals=6, confirm=(2, 4, 7)).edition.id


def with_costs(root) -> str:
    """Several workers."""
    return costly(root, workers=3).edition.id


def with_margins(root) -> str:
    """Seven seeds, published numbers with margins."""
    return many_seeds(root, 7, published=PUBLISHED).edition.id


@pytest.fixture(
    scope="module", params=[searched, ablated, many_paths, efficient, over_two_paths, with_costs, with_margins]
)
def page(request, tmp_path_factory):
    root = tmp_path_factory.mktemp("home")
    return Result.open(Home(root), request.param(root)).report()


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_page_and_the_winner_is_in_sight(browser, page, width):
    shape = browser.evaluate(page, SHAPE, width)
    assert (shape["page"], shape["wide"], shape["cut"]) == (0, [], [])
    assert shape["winner"] is True
    assert shape["figures"] == shape["captions"] >= 3, "one drawing of each figure is shown"
    assert [box for box in shape["scrolled"] if width >= 1100 or not box.startswith("table-")] == [], (
        "a figure is whole"
    )


def test_print_cuts_nothing_and_unfolds_the_tables(browser, page):
    shape = browser.evaluate(page, SHAPE, 690, media="print")  # A4 less its margins
    assert (shape["page"], shape["wide"], shape["scrolled"], shape["folded"], shape["files"]) == (0, [], [], 0, 0)
    assert shape["figures"] == shape["captions"]
