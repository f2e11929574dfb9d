"""Numbers and lists as people read them: four digits, a true minus, p-values as in journals; the colors of trials."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import TypeVar

from service.analysis.statistics import Interval

T = TypeVar("T")

MINUS = "\N{MINUS SIGN}"
TRIAL_COLORS = ("#0072b2", "#d55e00", "#009e73", "#b5568d", "#56a4d9", "#c98a00", "#7a6a55", "#5b5bb0")
"""The colors of trials in figures and in MLflow, in order. Color-blind readers can tell them apart.

Source: Okabe and Ito. Differs: the light ones are darkened for thin lines; the last two are ours.
"""


def number(value: float) -> str:
    """Returns a score that a study states, such as chance, with two digits, or four if it has more than two: `0.99`.

    Measured scores are written by `fixed`.
    """
    text = f"{value:.4f}"
    trimmed = text.rstrip("0")
    short = text if len(trimmed.partition(".")[2]) > 2 else f"{value:.2f}"
    return short.replace("-", MINUS)


def fixed(value: float | None) -> str:
    """Returns a measured score, always with four digits; an empty text for None."""
    return "" if value is None else f"{value:.4f}".replace("-", MINUS)


def signed(value: float | None) -> str:
    """Returns a difference for a column, with four digits and its sign; an empty text for None."""
    return "" if value is None else f"{value:+.4f}".replace("-", MINUS)


def two(value: float) -> str:
    """Returns a correlation or an effect size, with two digits and its sign."""
    return f"{value:+.2f}".replace("-", MINUS)


def spread(mean: float | None, std: float | None) -> str:
    """Returns a mean with its standard deviation over seeds: `0.9000 ± 0.0100`; an empty text if both are None."""
    return fixed(mean) + (f" ± {fixed(std)}" if std is not None else "")


def between(interval: Interval | None) -> str:
    """Returns an interval as words of a sentence: `0.0100 to 0.0200`; an empty text for None."""
    return "" if interval is None else f"{fixed(interval[0])} to {fixed(interval[1])}"


def stopped_words(epoch: int, cutoff: float) -> str:
    """Says at which epoch a run, or a point, was stopped, and below which score it lay there."""
    return f"stopped at epoch {epoch} (cut-off {fixed(cutoff)})"


def left_out_words(cutoff: float) -> str:
    """Says that a seed of a point was not trained, because the point cannot be one of the best."""
    return f"left out, as it cannot be one of the best (cut-off {fixed(cutoff)})"


def raced_words(seeds: int, total: int, cutoff: float) -> str:
    """Says after how many of its seeds a point was stopped, and below which mean it lay then."""
    return f"stopped after {seeds} of {total} seeds (cut-off {fixed(cutoff)})"


def percent(level: float) -> str:
    """Returns a confidence level, which is never shown as 100: `95 %`, `98.3 %`, `99.96 %`."""
    digits = next(digits for digits in range(3, 17) if level == 1 or float(f"{100 * level:.{digits}g}") < 100)
    return f"{100 * level:.{digits}g} %"


def whole_percent(share: float) -> str:
    """Returns a share in a sentence: `63 %`."""
    return f"{100 * share:.0f} %"


def p_text(p: float | None) -> str:
    """Returns a p-value without the letter: `= 0.12`, `= 0.012`, `= 0.0013`, `< 0.0001`.

    One below 0.01 has two digits, because the levels of later looks are as small.
    """
    if p is None:
        return ""
    if p < 0.01:
        return "< 0.0001" if p < 0.0001 else f"= {p:.2g}"
    return f"= {p:.3f}" if p < 0.1 else f"= {p:.2f}"


def metric_words(metric: str) -> str:
    """Writes `test/accuracy` as `test accuracy`."""
    split, _, name = metric.partition("/")
    return f"{'validation' if split == 'val' else split} {'R²' if name == 'r2' else name.replace('_', ' ')}"


class Lines(list[T]):
    """A list that a terminal and a notebook show with the text of each entry on a line of its own.

    `none` is the sentence that is shown if the list is empty.
    """

    def __init__(self, entries: Iterable[T] = (), none: str = "none") -> None:
        super().__init__(entries)
        self._none = none

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) or self._none

    def _repr_html_(self) -> str:
        entries = "".join(f"<li>{html.escape(str(entry))}</li>" for entry in self)
        return f"<ul>{entries}</ul>" if self else html.escape(self._none)
