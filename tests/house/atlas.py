"""The numbers, the sentences and the figure of search_spaces/ATLAS.md, from the records of the study.

`python -m tests.house.atlas` prints the page's numbers, `python -m tests.house.atlas figure` draws its figure.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from matplotlib.figure import Figure

from search_spaces.library import find, record_file
from search_spaces.record import Record, Scored, read
from search_spaces.study import Edition
from search_spaces.words import listed
from service.analysis.format import TRIAL_COLORS, p_text
from service.analysis.multiple_testing import Difference, compare_best, subtracted, together
from service.analysis.scores import score_scale
from service.analysis.statistics import Scale, Scores
from service.reporting.figures import plot
from service.reporting.figures.curves import Line, draw_lengths, draw_lines
from service.reporting.page import svg_alone
from tests.house.sources import ROOT

EDITIONS = {
    "direction": "atlas@cpu",
    "place": "atlas@place",
    "digits": "atlas@digits",
    "photographs": "atlas@images~cifar10-8b4c",
}
"""The records, by what they ask."""
PAIRS = (("rotary", "sinusoidal"), ("learnable", "sinusoidal"))
"""The encodings whose difference is followed over the lengths."""
PAGE, FIGURE = ROOT / "search_spaces/ATLAS.md", ROOT / "deploy/pictures/atlas.svg"
PANEL_IN = 2.9


@dataclass(frozen=True)
class Task:
    """What one record says. It computes from the scores of seeds alone."""

    name: str
    record: Record

    @cached_property
    def scores(self) -> dict[int, dict[str, Scores]]:
        """Validation scores, by length and encoding. Units: epochs."""
        recipe = self._edition.study.base
        scale = score_scale(recipe.data, "val")
        return {
            length: {row.name: _scores(row.lengths[length], scale) for row in self.record.rows}
            for length in recipe.optimizer.every_length
        }

    @cached_property
    def test(self) -> dict[str, Scores]:
        """Test scores at the longest length, by encoding."""
        scale = score_scale(self._edition.study.base.data, "test")
        return {row.name: _scores(row.test, scale) for row in self.record.rows}

    @property
    def head(self) -> str:
        """The task and its longest length, for the head of a column."""
        return f"{self.name}, {max(self.scores)} epochs"

    @property
    def best(self) -> str:
        """The encoding that validation chooses at the longest length."""
        longest = self.scores[max(self.scores)]
        return max(longest, key=lambda name: longest[name].mean or 0.0)

    @cached_property
    def level(self) -> set[str]:
        """The encodings that no test tells apart from the best one, and itself."""
        gaps = compare_best(self.best, self.test)
        return {self.best} | {name for name, gap in gaps.items() if not gap.significant}

    @cached_property
    def gaps(self) -> dict[tuple[str, str], dict[int, Difference]]:
        """The differences of `PAIRS` at each length, in validation scores; all of a task are tested together."""
        pairs = {
            f"{who}\n{than}\n{length}": (scores[who], scores[than])
            for who, than in PAIRS
            for length, scores in self.scores.items()
        }
        found = together(subtracted(pairs))
        return {
            (who, than): {length: found[f"{who}\n{than}\n{length}"] for length in self.scores} for who, than in PAIRS
        }

    def leaders(self) -> str:
        """Who has the highest mean at which lengths, in words; all whose means have the same three digits."""
        means = {
            length: {name: round(one.mean or 0.0, 3) for name, one in scores.items()}
            for length, scores in self.scores.items()
        }
        ahead = {
            length: [name for name in by_name if by_name[name] == max(by_name.values())]
            for length, by_name in means.items()
        }
        spans = [
            f"{listed([f'`{name}`' for name in names])} at {listed([*map(str, lengths)])}"
            for names, lengths in groupby(ahead, key=ahead.__getitem__)
        ]
        return f"On {self.name} {', then '.join(spans)} epochs"

    def age(self) -> str:
        """When, for how long and on what it was trained, and by which rules and code, in words."""
        since = ", ".join(self.record.since(self._edition))
        hours = f"{self.record.minutes / 60:.1f} hours"
        return f"{self.name}: {self.record.date}, {hours} on {self.record.machine}{', ' * bool(since)}{since}"

    @cached_property
    def _edition(self) -> Edition:
        return self.record.edition(find("atlas"))


def tasks() -> list[Task]:
    """The tasks that have a record."""
    found = {name: read(record_file("atlas", edition)) for name, edition in EDITIONS.items()}
    return [Task(name, record) for name, record in found.items() if record]


def table(found: list[Task]) -> str:
    """The test skill of each encoding on each task at the longest length, and on a larger grid, in Markdown.

    `=`: no test tells the encoding from the best one, or it is the best one.
    """
    heads, columns = ["encoding"], [[row.name for row in found[0].record.rows]]
    for task in found:
        (side,) = task.record.rows[0].test_sizes
        heads += [task.head, f"at {side} pixels"]
        scored = [(row.test, " =" * (row.name in task.level)) for row in task.record.rows]
        columns.append([f"{test.mean:.3f} ± {test.std or 0.0:.3f}{mark}" for test, mark in scored])
        columns.append([f"{row.test_sizes[side].mean:.2f}" for row in task.record.rows])
    return _markdown(heads, zip(*columns, strict=True))


def differences(found: list[Task]) -> str:
    """The differences of `PAIRS` over the lengths, in Markdown; those that tests tell from 0 are bold."""
    rows = []
    for task in found:
        for (who, than), by_length in task.gaps.items():
            cells = [f"**{gap.mean:+.3f}**" if gap.significant else f"{gap.mean:+.3f}" for gap in by_length.values()]
            rows.append([task.name, f"{who} − {than}", *cells])
    return _markdown(["task", "difference", "shortest", "twice", "four times", "eight times"], rows, words=2)


def verdicts(found: list[Task]) -> str:
    """What each claim came out as on each task, on test images at the longest length, in Markdown."""
    rows = [
        [judged[0].claim, *(f"{verdict.word} (p {p_text(verdict.p)})" for verdict in judged)]
        for judged in zip(*(task.record.verdicts for task in found), strict=True)
    ]
    return _markdown(["claim", *(task.head for task in found)], rows, words=1 + len(found))


def figure(found: list[Task]) -> plot.Drawn:
    """The validation skill over the length of training, a panel a task, a line an encoding."""

    def draw() -> Figure:
        fig = plot.empty_figure(PANEL_IN)
        for place, task in enumerate(found, 1):
            axes = fig.add_subplot(1, len(found), place)
            plot.quiet(axes)
            lines = [
                Line({length: [*scores[name].values.values()] for length, scores in task.scores.items()},
                     plot.Look(color), name)
                for name, color in zip(task.test, TRIAL_COLORS, strict=False)
            ]  # fmt: skip
            draw_lines(axes, lines, 0.0, PANEL_IN)
            axes.set(ylabel="validation skill")
            axes.set_title(task.name, loc="left", fontsize=9.5)
            draw_lengths(axes, task.scores)
        return fig

    caption = f"Validation skill over the length of training: {listed([task.name for task in found])}"
    return plot.drawn(plot.Plot("atlas", caption, draw))


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """A table of these cells, whose first columns are words; the other ones are numbers."""
    rule = "|" + "---|" * words + "---:|" * (len(heads) - words)
    return "\n".join([f"| {' | '.join(heads)} |", rule, *(f"| {' | '.join(cells)} |" for cells in rows)])


def _scores(scored: Scored, scale: Scale) -> Scores:
    return Scores(dict(scored.seeds), len(scored.seeds), scale)


def printed(found: list[Task]) -> Mapping[str, str]:
    """All that the page takes from the records, by what it is."""
    return {
        "age": "; ".join(task.age() for task in found),
        "table": table(found),
        "differences": differences(found),
        "leaders": ". ".join(task.leaders() for task in found),
        "verdicts": verdicts(found),
    }


if __name__ == "__main__":
    if sys.argv[1:] == ["figure"]:
        FIGURE.write_text(svg_alone(figure(tasks())))
    else:
        print("\n\n".join(printed(tasks()).values()))
