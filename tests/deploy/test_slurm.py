"""The Slurm script: what it asks Slurm for, what each node starts, and that a study goes on after the time was over."""

import os
import re
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.deploy.deployed import DEPLOY, ROOT
from tests.journeys.processes import kill_tree
from tests.waiting import until

FOLDER = DEPLOY / "slurm"
SCRIPT = FOLDER / "study.sbatch"
TEXT = SCRIPT.read_text()
ASKED = dict(re.findall(r"^#SBATCH --([\w-]+)=?(.*)$", TEXT, re.MULTILINE))
ID = "waves@long"
COSTS = ("train/images_per_s", "time/epoch_s", "memory/peak_gib")
COMMANDS = {
    "srun": """
address=127.0.0.1
while [[ "$1" == --* ]]; do
    if [[ "$1" == --exclude=* ]]; then address=127.0.0.2; fi
    shift
done
FAKE_ADDRESS="$address" SLURM_PROCID=0 exec "$@"
""",
    "hostname": 'if [[ "${1:-}" == -I ]]; then echo "${FAKE_ADDRESS:-127.0.0.1} 192.0.2.1"; else echo here; fi\n',
    "scontrol": 'echo "$@" >>"$FAKE/scontrol"\n',
}
"""Stands for Slurm: it starts both nodes on this machine, under two addresses of its loopback."""


@pytest.fixture
def env(tmp_path):
    """What Slurm tells a job of two nodes, with commands that stand for Slurm's."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, text in COMMANDS.items():
        (commands / name).write_text(f"#!/usr/bin/env bash\nset -eu\n{text}")
        (commands / name).chmod(0o755)
    known = {name: value for name, value in os.environ.items() if not name.startswith(("RAY", "MLFLOW", "LOCUS"))}
    own = {
        "PATH": f"{commands}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "FAKE": str(tmp_path),
        "LOCUS_HOME": str(tmp_path / "home"),
        "OMP_NUM_THREADS": "1",
    }
    slurm = {
        "JOB_ID": str(10_000_000 + os.getpid()), "NNODES": "2", "CPUS_PER_TASK": "1", "MEM_PER_NODE": "1600",
        "SUBMIT_DIR": str(ROOT), "PROCID": "0",
    }  # fmt: skip
    return known | own | {f"SLURM_{name}": value for name, value in slurm.items()}


def test_slurm_gives_a_study_the_time_to_stop_and_takes_it_back_and_nobody_elses_ray_is_touched():
    who, _, lead = ASKED["signal"].partition("@")
    assert who == "B:USR1", "the script alone gets it, not its nodes"
    (drain,) = re.findall(r"LOCUS_DRAIN_S:-(\d+)", TEXT)
    assert int(lead) >= int(drain) + 60 + 60, "time to end all runs, and to send what they did to MLflow"
    assert "requeue" in ASKED
    assert ASKED["open-mode"] == "append"
    assert "exclusive" not in ASKED, "nodes are shared"
    for file in FOLDER.iterdir():
        assert not re.search(r"\bray stop\b|pkill|killall|symmetric-run", file.read_text()), file


@pytest.mark.parametrize(("words", "home"), [((), "/shared"), (("fourier-gamma",), ""), (("fourier-gamma",), "here")])
def test_an_incomplete_job_is_refused(env, words, home):
    done = subprocess.run(
        ["bash", SCRIPT, *words], env=env | {"LOCUS_HOME": home}, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 2
    assert "LOCUS_HOME must be an absolute path" in done.stderr


def start_node(env, tmp_path, role, ray='echo "$@"', **own):
    """Starts a node whose `ray` is a script."""
    script = tmp_path / "bin" / "ray"
    script.write_text(f"#!/usr/bin/env bash\n{ray}\n")
    script.chmod(0o755)
    env = env | {"RAY_ADDRESS": "127.0.0.1:6379", "DASHBOARD_PORT": "8265", "CLIENT_PORT": "10001"} | own
    return subprocess.run([FOLDER / "node", role], env=env, capture_output=True, text=True, timeout=60)


def started(*node, **own):
    """The words with which a node starts Ray."""
    done = start_node(*node, **own)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_studies_on_one_node_share_neither_ports_nor_folders(env, tmp_path):
    first, second = started(env, tmp_path, "worker"), started(env, tmp_path, "worker", SLURM_JOB_ID="2")
    ports = [words[at + 1] for words in (first, second) for at, word in enumerate(words) if word.endswith("-port")]
    ports = [port for port in ports if port != "0"]
    assert len(ports) == 12
    assert len(set(ports[:6])) == 6
    folders = {words[words.index("--temp-dir") + 1] for words in (first, second)}
    assert len(folders) == 2
    assert max(map(len, folders)) < 40, "the paths of sockets have at most 107 letters"


def test_a_node_counts_on_what_slurm_gave_it(env, tmp_path):
    words = started(env, tmp_path, "head", SLURM_GPUS_ON_NODE="2", SLURM_CPUS_PER_TASK="6")
    given = dict(pairwise(words))
    assert (given["--num-cpus"], given["--num-gpus"]) == ("6", "2")
    assert int(given["--memory"]) + int(given["--object-store-memory"]) < 1600 * 2**20
    assert given["--dashboard-host"] == "127.0.0.1"
    assert "--head" in words
    by_core = env | {"SLURM_MEM_PER_CPU": "1000"}
    del by_core["SLURM_MEM_PER_NODE"]
    words = started(by_core, tmp_path, "worker", SLURM_CPUS_PER_TASK="3")
    assert int(words[words.index("--memory") + 1]) == 3000 * 2**20 * 8 // 10
    assert "--num-gpus 0" in " ".join(words), "a GPU of another job is not taken"


@pytest.mark.parametrize(("fails", "code", "tries"), [(1, 0, 2), (2, 0, 3), (9, 7, 3)])
def test_a_ray_that_does_not_start_is_tried_again_with_other_ports(env, tmp_path, fails, code, tries):
    count = tmp_path / "tries"
    ray = f'echo "$@" >>{count}\n(($(wc -l <{count}) > {fails})) || exit 7'
    done = start_node(env, tmp_path, "worker", ray)
    assert done.returncode == code, done.stderr
    words = count.read_text().splitlines()
    assert len({*words}) == len(words) == tries, "each time other ports"
    assert done.stderr.count("it is tried again, with other ports") == tries - 1


class Job:
    """The script under way, with all its output."""

    def __init__(self, env, folder, *words):
        self.log = folder / "job.log"
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                ["bash", SCRIPT, *words], env=env, cwd=folder, stdout=log, stderr=log, start_new_session=True
            )

    def wait_for(self, text):
        def came():
            assert self.process.poll() is None, self.log.read_text()
            return text in self.log.read_text()

        until(came, self.log.read_text, 240)


def measured(terminal):
    """Every number of every run and epoch but what it cost. The first fact of an epoch counts."""
    facts = reversed(terminal.facts(ID, "measured"))
    return {(one.run, one.epoch): {k: v for k, v in one.values.items() if k not in COSTS} for one in facts}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_study_stops_before_its_time_is_over_and_goes_on(env, tmp_path, terminals):
    slurm, alone = terminals("slurm"), terminals("alone")
    env["LOCUS_HOME"] = str(slurm.home)
    words = ("./study.py", "--budget", "long", "--verbose")
    jobs = []
    try:
        jobs.append(Job(env, slurm.folder, *words))
        jobs[-1].wait_for("epoch 2/40")
        jobs[-1].process.send_signal(signal.SIGUSR1)
        assert jobs[-1].process.wait(180) == 130, jobs[-1].log.read_text()
        assert (tmp_path / "scontrol").read_text().split() == ["requeue", env["SLURM_JOB_ID"]]
        before = measured(slurm)
        assert 0 < len(before) < 3 * 40
        assert not list((slurm.home / "tokens").iterdir())
        assert not list(Path("/tmp").glob(f"locus-{env['SLURM_JOB_ID']}-*"))

        jobs.append(Job(env, slurm.folder, *words))
        assert jobs[-1].process.wait(400) == 0, jobs[-1].log.read_text()
    finally:
        for job in jobs:
            kill_tree(job.process.pid)
    assert "2 concurrent runs" in jobs[-1].log.read_text()
    assert len((tmp_path / "scontrol").read_text().splitlines()) == 1
    assert len(slurm.facts(ID, "ended")) == 3
    alone.do("run", *words, timeout_s=400)
    after = measured(slurm)
    assert {place: after[place] for place in before} == before
    assert after == measured(alone)
