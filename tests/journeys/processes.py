"""Whose processes are whose: all that a process started, those in sessions of their own too."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess

TRIAL = ("ray::AloneTrial", "ray::ResourceTrainable")
"""How the titles of a process that trains begin: where it waits, and where it computes."""


def below(root: int) -> dict[int, str]:
    """The living processes that a process started, and those that these started: their titles by pid."""
    words = ["ps", "-ewwo", "pid=,ppid=,stat=,args="]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    lines = [line.split(maxsplit=3) for line in shown.splitlines()]
    parents = {int(line[0]): int(line[1]) for line in lines}
    return {
        int(pid): title[0]
        for pid, _, state, *title in lines
        if title and not state.startswith("Z") and root in _above(int(pid), parents)
    }


def titled(root: int, *names: str) -> list[int]:
    """The pids of the processes below one whose title begins with one of the names."""
    return sorted(pid for pid, title in below(root).items() if title.startswith(names))


def kill_tree(root: int) -> None:
    """kill -9 of a process and of all that it started, the processes that could start others first."""
    for pid in [root, *below(root)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _above(pid: int, parents: dict[int, int]) -> list[int]:
    line: list[int] = []
    while (pid := parents.get(pid, 0)) and pid not in line:
        line.append(pid)
    return line
