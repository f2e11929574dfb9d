"""What a job carries to a cluster: the three packages, job.json, and its environment.

Its entrypoint is one fixed string, so a shell never runs what a user typed. Its environment holds no secret, because
everyone with the token can read it.
"""

from __future__ import annotations

import json
import platform
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from search_spaces.study import Edition
from service.execution.jobs.messages import Asked, Question
from service.planning.run_options import RunOptions
from service.storage.commit import commit

ENTRYPOINT = "python -m service job job.json"
PACKAGES = ("service", "search_spaces", "trainables")
STOP_S = 120
"""How long a stopped job may take to end its epochs."""


def study_sent(edition: Edition, options: RunOptions, *, fresh: bool) -> dict[str, Any]:
    """The job.json of a study."""
    return {"edition": edition.plain(), "options": options.plain(), "fresh": fresh}


def question_sent(question: Question) -> dict[str, Any]:
    """The job.json of a question."""
    return Asked.read({"question": question.plain()}).plain()


def write_contents(folder: Path, sent: Mapping[str, Any]) -> int:
    """Writes what the job carries into a folder; its size, which is what travels. Units: bytes."""
    root = Path(__file__).resolve().parents[3]
    for package in PACKAGES:
        shutil.copytree(root / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "*.md"))
    (folder / "job.json").write_text(json.dumps({**sent, "python": platform.python_version()}))
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def send(client: Any, job: str, sent: Mapping[str, Any], home: str | None, metadata: Mapping[str, str]) -> int:
    """Sends a job by Ray's client, under a name that was never used; its size, as `write_contents` has it."""
    with tempfile.TemporaryDirectory(prefix="locus-job-") as folder:
        size = write_contents(Path(folder), sent)
        client.submit_job(
            entrypoint=ENTRYPOINT,
            submission_id=job,
            runtime_env={"working_dir": folder, "env_vars": job_environment(home)},
            metadata=dict(metadata),
        )
    return size


def job_environment(home: str | None) -> dict[str, Any]:
    """The job's environment variables. `home`: the driver's home there, where one is given."""
    return {
        "RAY_JOB_STOP_SIGNAL": "SIGINT",
        "RAY_JOB_STOP_WAIT_TIME_S": str(STOP_S),
        "PYTHONUNBUFFERED": "1",
        "LOCUS_COMMIT": commit(),
        **({"LOCUS_HOME": home} if home else {}),
    }
