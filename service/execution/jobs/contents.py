"""What a job carries to a cluster: the three packages, study.json, and its environment.

Its entrypoint is one fixed string, so a shell never runs what a user typed. Its environment holds no secret, because
everyone with the token can read it.
"""

from __future__ import annotations

import json
import platform
import shutil
from pathlib import Path
from typing import Any

from search_spaces.study import Edition
from service.planning.run_options import RunOptions
from service.storage.commit import commit

ENTRYPOINT = "python -m service job study.json"
PACKAGES = ("service", "search_spaces", "trainables")
STOP_S = 120
"""How long a stopped job may take to end its epochs."""


def write_contents(folder: Path, edition: Edition, options: RunOptions, *, fresh: bool, steer: bool = False) -> None:
    """Writes what the job carries into a folder. `steer`: the job asks a driver that runs, and runs nothing itself."""
    root = Path(__file__).resolve().parents[3]
    for package in PACKAGES:
        shutil.copytree(root / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "*.md"))
    sent = {
        "edition": edition.plain(),
        "options": options.plain(),
        "fresh": fresh,
        "steer": steer,
        "python": platform.python_version(),
    }
    (folder / "study.json").write_text(json.dumps(sent))


def job_environment(options: RunOptions) -> dict[str, Any]:
    """The job's environment variables."""
    home = {"LOCUS_HOME": options.home} if options.home else {}
    return {
        "RAY_JOB_STOP_SIGNAL": "SIGINT",
        "RAY_JOB_STOP_WAIT_TIME_S": str(STOP_S),
        "PYTHONUNBUFFERED": "1",
        "LOCUS_COMMIT": commit(),
        **home,
    }
