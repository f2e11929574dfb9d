"""Names beside lines: apart from each other, in the order of the lines, and as near to them as can be."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from scipy.optimize import isotonic_regression

from service.reporting.figures.plot import MOST_LETTERS, Label, apart, label_ends


@settings(max_examples=60)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.floats(0.01, 0.2))
def test_labels_are_moved_apart_in_order_and_no_farther_than_needed(wanted, gap) -> None:
    """Less what the gaps take, the places are the nearest that do not fall: the least squares of an isotonic fit."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    taken = [place * gap for place in range(len(wanted))]
    fitted = isotonic_regression([wanted[index] - room for index, room in zip(order, taken, strict=True)]).x
    places = apart(wanted, gap)
    assert [places[index] for index in order] == pytest.approx(fitted + taken)


def test_each_name_stands_right_of_its_own_line() -> None:
    axes = Figure().add_subplot()
    axes.set_ylim(0, 1)
    label_ends(axes, [Label("upper", 0.51, "red"), Label("lower", 0.5, "blue"), Label("far", 0.9, "green")], 3.1)
    ends = {text.get_text(): (text.get_color(), *text.xy) for text in axes.texts}
    assert ends == {
        "upper": ("red", 1, pytest.approx(0.53)), "lower": ("blue", 1, pytest.approx(0.48)), "far": ("green", 1, 0.9),
    }  # fmt: skip


def test_a_long_name_leaves_room_for_its_line() -> None:
    axes = Figure().add_subplot()
    label_ends(axes, [Label("a" * MOST_LETTERS, 0.5, "red"), Label("b" * 200, 0.6, "blue")], 3.1)
    assert [text.get_text() for text in axes.texts] == ["a" * MOST_LETTERS, "b" * (MOST_LETTERS - 1) + "…"]
