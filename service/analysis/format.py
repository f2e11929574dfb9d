"""Numbers as people read them: four digits, a true minus, p-values as journals print them."""

from __future__ import annotations

from service.analysis.statistics import Interval

MINUS = "\N{MINUS SIGN}"


def number(value: float) -> str:
    """A score: four digits after the point, `0.99` for a round one."""
    text = f"{value:.4f}"
    trimmed = text.rstrip("0")
    short = text if len(trimmed.partition(".")[2]) > 2 else f"{value:.2f}"
    return short.replace("-", MINUS)


def fixed(value: float | None) -> str:
    """A score in a column: always four digits; nothing for none."""
    return "" if value is None else f"{value:.4f}".replace("-", MINUS)


def signed(value: float | None) -> str:
    """A difference in a column, with its sign."""
    return "" if value is None else f"{value:+.4f}".replace("-", MINUS)


def between(interval: Interval | None) -> str:
    """An interval in a sentence."""
    return "" if interval is None else f"{fixed(interval[0])} to {fixed(interval[1])}"


def p_text(p: float | None) -> str:
    """A p-value as journals print it, without the letter: `= 0.012`, `< 0.001`."""
    if p is None:
        return ""
    return "< 0.001" if p < 0.001 else f"= {p:.3f}" if p < 0.1 else f"= {p:.2f}"


def plural(count: int, noun: str) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(words: list[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def duration(seconds: float) -> str:
    """`3 h 05 min`, `4 min 10 s`, `12 s`."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return (
        f"{whole // 60} min {whole % 60:02d} s"
        if whole >= 60
        else f"{seconds:.0f} s"
        if seconds >= 10
        else f"{seconds:.1f} s"
    )


def measure_name(metric: str) -> str:
    """`test/accuracy` is `test accuracy`."""
    split, _, measure = metric.partition("/")
    return f"{'validation' if split == 'val' else split} {'R²' if measure == 'r2' else measure}"
