"""What a shell is told behind Tab, as bash asks for it."""

import json
import os
import subprocess
import sys

from tests.house.sources import ROOT
from tests.house.test_light import HEAVY, STUDY

CODE = """
import contextlib, io, json, os, sys
from service.cli import main
told = []
for words in json.loads(sys.argv[1]):
    os.environ |= {"COMP_WORDS": "\\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main()
    told.append(out.getvalue().split("\\n")[:-1])
print(json.dumps([told, [name for name in json.loads(sys.argv[2]) if name in sys.modules]]))
"""

RUN = ("locus", "run", "fourier-gamma")
ASKED = [
    ((*RUN, "--budget", ""), ["smoke", "cpu"]),
    ((*RUN, "--budget", "s"), ["smoke"]),
    (("locus", "re"), ["report", "rerun", "record"]),
    (("locus", "plan", "fourier-g"), ["fourier-gamma"]),
    (("locus", "run", "./tiny.py", "--budget", ""), [""]),
    (("locus", "run", "nothing", "--budget", ""), [""]),
]


def test_names_and_budgets_are_completed_lightly_and_nothing_is_written_or_run(tmp_path):
    (tmp_path / "tiny.py").write_text(f"{STUDY}\nopen('ran', 'w').close()\n")
    before = sorted(tmp_path.rglob("*"))
    own = {"LOCUS_HOME": str(tmp_path / "home"), "XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps([words for words, _ in ASKED]), json.dumps(HEAVY)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, **own, "_LOCUS_COMPLETE": "complete_bash"},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    told, heavy = json.loads(done.stdout)
    assert told == [expected for _, expected in ASKED]
    assert heavy == []
    assert sorted(tmp_path.rglob("*")) == before
