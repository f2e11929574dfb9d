"""The tables of a report: their numbers are those of the analysis, and their LaTeX is LaTeX."""

import csv
import io
import re
import subprocess
from shutil import which

import pandas as pd
import pytest
from scipy import stats

from search_spaces.study import Ablation, Published, Study
from service.analysis.format import between, fixed, signed, spread
from service.reporting.further_tables import parents, points, unfinished, varied
from service.reporting.latex import escaped, latex, paper_table
from service.reporting.pages import Column, Table, as_text, frame_csv
from service.reporting.provenance import training_s
from service.reporting.results_table import measured
from service.results import Result
from service.storage.home import Home
from tests.rooms import by_hand
from tests.rooms.by_hand import ByHand, base, with_parent
from tests.rooms.service.reporting.test_rare_parts import written
from trainables.spec import SpecError

pytestmark = pytest.mark.usefixtures("words_only")


def column(table: Table, full_head: str) -> list[str]:
    return list({one.full_head: one for one in table.columns}[full_head].cells)


def test_what_an_arm_has_that_others_set_is_said(tmp_path):
    """A setting that one arm changes is none that all share; of the others it would stand nowhere."""
    arms = {"usual": {"encoding.gamma": 2.0}, "long": {"optimizer.epochs": 9, "encoding.gamma": 1.0}}
    note = varied(written(tmp_path, arms, {"usual": [0.9], "long": [0.9]}, seeds=1)).note
    who = "An arm that sets neither one of these nor the node that it is of"
    assert note == f"{who} has the base's value: optimizer.epochs = {by_hand.EPOCHS}."


def test_the_numbers_are_those_of_the_analysis(ablation):
    table = measured(ablation)
    rows = ablation.of("trial")
    assert column(table, "test accuracy, mean ± SD") == [spread(row.test.mean, row.test.std) for row in rows]
    assert column(table, "test accuracy, 95 % interval") == [between(row.test.interval) for row in rows]
    assert column(table, "validation accuracy, mean") == [fixed(row.validation.mean) for row in rows]
    gaps = [ablation.differences.get(row.name) for row in rows]
    assert column(table, "minus “none”, paired, mean") == [signed(gap.mean) if gap else "" for gap in gaps]
    intervals = column(table, "minus “none”, paired, 95 % interval")
    assert intervals == [between(gap.interval) if gap else "" for gap in gaps]
    assert column(table, "cost, time (s)") == ["12.0"] * 6
    assert [training_s(row) for row in rows] == [12.0] * 6, "eight epochs of 1.5 s"
    assert table.strong == {3}
    assert table.stacked_groups == [
        ("", 1), ("test accuracy", 2), ("minus “none”, paired", 3), ("validation accuracy", 1), ("seeds", 1),
        ("cost", 2),
    ]  # fmt: skip
    assert [one.head for one in table.stacks[1]] == ["mean ± SD", "95 % interval"]
    read = list(csv.reader(io.StringIO(table.csv())))
    assert read[0] == [one.full_head for one in table.columns]
    assert len(read[0]) == len(set(read[0])), "no two columns have one name"
    assert [tuple(row) for row in read[1:]] == table.rows


def test_a_note_speaks_of_what_is_there(search, ablation, tmp_path):
    note = measured(ablation).note
    cells = dict(
        zip([row.name for row in ablation.of("trial")], column(measured(ablation), "seeds, failed"), strict=True)
    )
    most = stats.beta.ppf(0.95, 2, 4)  # Clopper and Pearson
    assert (cells["learnable"], cells["none"]) == (f"1, up to {100 * most:.0f} %", "")
    for words in ("two groups", "different machines", "adjusted for 10 tests"):
        assert words in note, words
        assert words not in measured(search).note, words
    assert len(sentences := note.split(". ")) == len({*sentences}), "nothing is said twice"
    assert "Every model has 57,698 parameters." in measured(search).note
    assert "Every model" not in measured(ablation).note, "they differ"


def test_points_and_ends_name_their_trials(search, ablation):
    table = points(search)
    assert table.rows[0][0].startswith("#3 gamma=1.74")
    assert len(table.rows) == 10
    ends = unfinished(ablation)
    assert ends.rows[0] == ("relative bias", "3", "failed", "CUDA error: out of memory")
    assert parents(search) is None
    assert unfinished(search).rows[0][0] == "#6 gamma=4.1"
    assert not unfinished(search).folded, "one failed and one diverged"


def test_runs_that_were_all_stopped_early_are_folded(tmp_path):
    edition = Study(**{**dict(by_hand.search()), "name": "calm"}).at()
    with ByHand(tmp_path, edition, seeds=3, trials=2) as hand:
        hand.complete(hand.plan("trial", 0, {"encoding.gamma": 2.5}), 0, 0.9, 0.9)
        hand.stop(hand.plan("trial", 1, {"encoding.gamma": 9.0}), 0, 0.6, 3, 0.85)
    found = unfinished(Result.open(Home(tmp_path), edition.id))
    assert len(found.rows) == 1
    assert found.folded


def test_parents_are_listed_with_what_needs_them(tmp_path):
    child = {"init": {"kind": "from_trial", "values": {"data.data_seed": 7}, "part": "encoding"}}
    result = Result.open(Home(tmp_path), with_parent(tmp_path, child, "fourier on direction"))
    table = parents(result)
    assert column(table, "parent") == ["p1 fourier on direction"]
    assert column(table, "test accuracy, mean ± SD") == ["0.9050 ± 0.0071"]
    assert column(table, "needed by") == ["“pretrained”"]
    page = result.report().read_text()
    assert "p1 fourier on direction" in page
    assert "seeds of parents" in page


WILD = Table(
    "wild", "50 % of a_b & c#d", [
        Column(r"a\b{c}", ["[x_1] & 2", "*~^$"], words=True),
        Column("mean ± SD", ["0.5 ± 0.1", "−0.2"], "R², “good”"),
        Column("p", ["< 0.001", ""], "R², “good”"),
    ], frozenset({1}), note="100 % of it",
)  # fmt: skip


def test_latex_escapes_and_balances(search, ablation):
    for table, study in ((WILD, "odd_name~1@smoke"), (measured(search), "reach@base"), (measured(ablation), "b"),
                         (unfinished(ablation), "b")):  # fmt: skip
        text = latex(table, study)
        bare = text.replace(r"\{", "").replace(r"\}", "")
        assert bare.count("{") == bare.count("}")
        assert re.findall(r"\\begin\{(\w+)\}", text) == list(reversed(re.findall(r"\\end\{(\w+)\}", text)))
        assert text.isascii()
        for line in text.splitlines()[1:]:
            assert not re.search(r"(?<!\\)[#%_]", re.sub(r"\\label\{[^}]*\}", "", line)), line
        columns = re.search(r"\\begin\{tabular\}\{@\{\}(.*)@\{\}\}$", text, flags=re.MULTILINE)[1]
        assert len(re.sub(r">\{.*?\}\}p\{.*?\}", "l", columns)) == len(table.columns)
        body = text[text.index(r"\midrule") : text.index(r"\bottomrule")].splitlines()[1:]
        assert [len(re.findall(r"(?<!\\)&", line)) for line in body] == [len(table.columns) - 1] * len(table.rows)
        assert all(line.endswith(r"\\") for line in body)
    assert "\n{[}x\\_1] " in latex(WILD, "a"), "a row that begins with [ would be an argument of the one before"
    assert r"\textbackslash{}b\{c\}" in latex(WILD, "a")
    assert r"\textbf{$-$0.2}" in latex(WILD, "a")
    assert r" & \multicolumn{2}{c}{R$^2$, ``good''} \\" in latex(WILD, "a")
    assert r"\cmidrule(lr){2-3}" in latex(WILD, "a")
    assert all(escaped(letter) != letter for letter in "\\&%$#_{}~^")
    assert escaped("plain text, 0.5") == "plain text, 0.5"
    assert escaped("γ é Å ß 中 ±") == r"$\gamma$ \'{e} \r{A} \ss{} U+4E2D $\pm$"


def test_a_paper_gets_five_columns(ablation, search, tmp_path):
    """The numbers are those of the whole table, each interval in brackets behind its number."""
    whole = measured(ablation)
    shown = paper_table(ablation, whole)
    assert [one.full_head for one in shown.columns] == [
        "arm", "seeds (failed)", "test accuracy, mean ± SD (95 % interval)", "minus the baseline, paired, mean",
        "minus the baseline, paired, p",
    ]  # fmt: skip
    means = column(whole, "test accuracy, mean ± SD"), column(whole, "test accuracy, 95 % interval")
    assert shown.columns[2].cells == [f"{mean} ({interval})" for mean, interval in zip(*means, strict=True)]
    assert shown.columns[3].cells == column(whole, "minus “none”, paired, mean")
    assert shown.columns[4].cells == column(whole, "minus “none”, paired, p (Holm)")
    assert shown.columns[1].cells[:2] == ["5", "5, 1 diverged (1, up to 66 %)"]
    assert (shown.strong, shown.note) == (whole.strong, "")
    for words in (
        "over 4 to 5 seeds",
        "a diverged seed counts at chance",
        "adjusted for 10 tests (Holm)",
        "Failed: seeds that diverged",
        "that of the best of several trials is wider",
    ):
        assert words in shown.title, words
    some = paper_table(ablation, whole, ["p", "name", "published"])
    assert [one.head for one in some.columns] == ["p", "arm", "published"]
    assert "*Published on other data" in some.title
    assert "±" not in some.title, "no mean is shown"
    everything = paper_table(ablation, whole, ["all"])
    assert " ".join(" ".join(row) for row in everything.rows).count(", up to ") == 5, "nothing is learned without codes"
    found = [one.head for one in paper_table(search, measured(search)).columns]
    assert found == ["point", "seeds", "mean ± SD (95 % interval)"]
    with pytest.raises(SpecError, match=r"columns must be of name, score, interval, .*, or all alone, got 'x'"):
        paper_table(ablation, whole, ["score", "x"])

    # where no seed fails, the parameters are shown
    arms = {"a": {"encoding.kind": "learnable"}, "b": {"encoding.kind": "none"}}
    result = written(tmp_path, arms, {"a": [0.9] * 3, "b": [0.91] * 3})
    shown = paper_table(result, measured(result))
    assert [one.head for one in shown.columns] == ["arm", "parameters", "mean ± SD (95 % interval)", "mean", "p"]
    assert "over 3 seeds" in shown.title


ODD = (
    r"a_b & c%d #e ~f ^g \h {i} $j$ [k] *l", "naïve Ångström café ß Łódź ÀÎõç “q” \"q\" γ-Δ 中文 <|> ±1 …",
    "_" * 30, "W" * 60,
    "learnable_sinusoidal+composed=fourier/gabor,with-a-very-long-name-of-many-words and more",
)  # fmt: skip


def has_latex() -> bool:
    """Whether there is a pdflatex, and the package that our tables need: a small LaTeX is without it."""
    asked = ["kpsewhich", "booktabs.sty"]
    return which("pdflatex") is not None and subprocess.run(asked, capture_output=True, check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not has_latex(), reason="needs pdflatex and booktabs: apt install texlive-latex-recommended")
def test_pdflatex_prints_any_names_within_the_text(tmp_path, ablation, search):
    arms = {name: {"encoding.gamma": 1.0 + place} for place, name in enumerate(ODD)}
    texts = [ablation.latex(), search.latex(), latex(WILD, "wild"), ablation.latex(["name", "score", "validation"])]
    for baseline in ODD[:: len(ODD) - 1]:
        edition = Study(name="odd", question="?", base=base(), plan=Ablation(arms, baseline), seeds=3).at()
        with ByHand(tmp_path / baseline[:1], edition) as hand:
            for trial, seed in hand.runs(arms, 3):
                hand.complete(trial, seed, 0.9, 0.9 + 0.01 * trial.number + 0.001 * seed)
        texts.append(Result.open(hand.home, edition.id).latex())
    head = r"\documentclass{article}\usepackage{booktabs,array}\setlength{\textwidth}{5.5in}\begin{document}"
    (tmp_path / "a.tex").write_text("\n".join([head, *texts, r"\end{document}"]))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "a.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120)
    log = (tmp_path / "a.log").read_text(errors="replace")
    assert done.returncode == 0, log
    assert r"Overfull \hbox" not in log, log
    assert "Missing character" not in log, log


def test_published_columns_say_whose(tmp_path):
    published = (Published("a", 0.7, None, "t"), Published("b", 0.8, 0.1, "t"))
    arms = {"a": {"encoding.gamma": 1.0}, "b": {"encoding.gamma": 2.0}}
    table = measured(written(tmp_path, arms, {"a": [0.6] * 3, "b": [0.7] * 3}, published=published))
    assert column(table, "test accuracy, published") == ["0.7000*", "0.8000 ± 0.1000*"]
    assert column(table, "minus “a”, paired, published") == ["", "+0.1000"]


def test_no_cell_of_a_csv_file_is_a_formula():
    for cell in ("=cmd|' /C calc'!A0", "+1+cmd|x", "-2+3+cmd|x", "@SUM(A1)", "\t=1"):
        assert as_text(cell) == f"'{cell}"
    for cell in ("-0.05", "+0.12 (-0.01, 0.25)", "-3.1 ± 0.2", "a=b", "", "12"):
        assert as_text(cell) == cell
    frame = pd.DataFrame({"arm": ["=1+1", "sin"], "score": [-0.5, 1e-7]})
    read = pd.read_csv(io.StringIO(frame_csv(frame)))
    assert read["arm"].tolist() == ["'=1+1", "sin"]
    assert read["score"].tolist() == frame["score"].tolist()
