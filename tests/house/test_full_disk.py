"""House: a test of a full disk leaves the files of the project as they are."""

import subprocess
import sys

from tests.full_disk import files_of_at_most


def test_a_process_without_room_leaves_no_half_of_a_compiled_module(tmp_path, monkeypatch):
    """Half of one made every later import of that file fail, in whatever test came next."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    (tmp_path / "long.py").write_text("".join(f"name_{number} = {number}\n" for number in range(100)))
    for limit in (lambda: files_of_at_most(100), None):
        subprocess.run([sys.executable, "-c", "import long"], cwd=tmp_path, preexec_fn=limit, check=True)
        assert (tmp_path / "__pycache__").exists() is (limit is None), "the second shows that one is kept otherwise"
