"""Matrices: what a paper printed, and the claims of studies that decide each cell."""

import pytest

from search_spaces import library
from search_spaces.claim import ProbeBetween
from search_spaces.matrix import Cell, Matrix, Property
from trainables.spec import SpecError

TABLE_5 = {
    "encodes absolute location": "no yes yes yes",
    "encodes relative direction": "yes yes yes yes",
    "encodes relative distance": "yes yes yes yes",
    "knows direction before training": "no no partly yes",
    "knows distance before training": "no no partly yes",
    "learnable": "yes yes yes no",
}
"""The thesis' table 5: relative, absolute, learnable Fourier, fixed sinusoidal."""


@pytest.mark.parametrize("name", library.matrices())
def test_every_cell_of_a_named_matrix_names_arms_and_claims_that_its_study_has(name):
    matrix = library.find_matrix(name)
    assert matrix.name == name
    for row in matrix.rows:
        study = library.find(row.study)
        for encoding, cell in row.cells.items():
            assert {*cell.arms} <= {*study.plan.arms}
            claims = row.claims(encoding, study)
            assert bool(claims) == (bool(cell.arms) and row.shown_by != "parameters"), (row.name, encoding)
            assert {claim.who for claim in claims} <= {*cell.arms}
            assert {isinstance(claim, ProbeBetween) for claim in claims} <= {row.shown_by == "probes"}


def test_properties_has_the_marks_of_table_5():
    matrix = library.find_matrix("properties")
    assert matrix.encodings == ["relative", "absolute", "fourier", "sinusoidal"]
    assert {row.name: " ".join(cell.published for cell in row.cells.values()) for row in matrix.rows} == TABLE_5
    learnable = next(row for row in matrix.rows if row.shown_by == "parameters")
    assert {name: cell.arms for name, cell in learnable.cells.items()} == {
        name: (f"{name}, token",) for name in matrix.encodings
    }, "parameters are those of one arm"


def test_a_cell_of_probes_is_decided_before_training():
    matrix = library.find_matrix("properties")
    study = library.find("direction-probe")
    rows = [row for row in matrix.rows if row.study == study.name]
    claims = [claim for row in rows for encoding in row.cells for claim in row.claims(encoding, study)]
    assert {claim.when for claim in claims} == {"before"}
    assert [claim for claim in study.claims if getattr(claim, "when", "") == "after"], "there are others"


def test_rows_of_other_encodings_are_refused():
    rows = (Property("a", "direction", {"one": Cell("yes")}), Property("b", "direction", {"two": Cell("yes")}))
    with pytest.raises(SpecError, match="rows must be of the same encodings in the same order, got"):
        Matrix(name="m", question="?", paper="", rows=rows)


def test_a_mistyped_matrix_is_named():
    with pytest.raises(SpecError, match=r"no matrix 'propertis'.*properties.*locus matrix lists all"):
        library.find_matrix("propertis")
    with pytest.raises(SpecError, match="properties is no study: other studies fill it; locus matrix properties shows"):
        library.find("properties")
