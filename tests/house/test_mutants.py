"""The mutations of `make mutants` fit the source: code that moves takes its mutation along."""

from pathlib import Path

from tests.mutants.mutants import PLACES, mutants


def test_each_mutation_changes_the_code_of_its_file():
    assert len(mutants(PLACES.read_text(), Path(__file__).parents[2])) >= 60
