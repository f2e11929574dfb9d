"""A home, and code that changes between two commands."""

import shutil

import pytest

from trainables.recipe import code_digest
from trainables.recipe.code_digest import FOLDER


@pytest.fixture
def other_code(tmp_path_factory, monkeypatch):
    """Changes the code of Fourier features from here on."""

    def change() -> None:
        folder = tmp_path_factory.mktemp("code")
        shutil.copytree(FOLDER, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        file = folder / "encodings" / "fourier.py"
        file.write_text(file.read_text() + "\nSPARE = 1\n")
        monkeypatch.setattr(code_digest, "FOLDER", folder)

    return change
