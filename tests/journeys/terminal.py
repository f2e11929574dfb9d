"""A user's terminal: types `locus ...` in a process group of its own, on a pipe or a pty, and ends exactly that."""

from __future__ import annotations

import os
import pty
import shlex
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import service
from service.storage.home import Home
from service.storage.journal import Fact, Opened, read

ROOT = Path(service.__file__).parents[1]
PATIENCE_S = 150


@dataclass(frozen=True)
class Typed:
    """How a command ended. `out` holds both streams where they are one terminal."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Command:
    """A command under way, whose output is read as it comes."""

    def __init__(
        self, words: list[str], env: dict[str, str], cwd: Path, *, on_pty: bool = False, hidden: Path | None = None
    ) -> None:
        self.begun = time.monotonic()
        self._said: dict[str, list[str]] = {"out": [], "err": []}
        ours, theirs = pty.openpty() if on_pty else (None, subprocess.PIPE)
        self.process = subprocess.Popen(
            [*_without(hidden), sys.executable, *words], env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=theirs,
            stderr=theirs, start_new_session=True, preexec_fn=heed_ctrl_c,
        )  # fmt: skip
        if ours is None:
            files = {"out": self.process.stdout.fileno(), "err": self.process.stderr.fileno()}
        else:
            os.close(theirs)
            files = {"out": ours}
        self._readers = [threading.Thread(target=self._read, args=item, daemon=True) for item in files.items()]
        for reader in self._readers:
            reader.start()

    def _read(self, name: str, file: int) -> None:
        try:
            while chunk := os.read(file, 65536):
                self._said[name].append(chunk.decode(errors="replace"))
        except OSError:  # a pty whose other end closed
            return

    @property
    def out(self) -> str:
        return "".join(self._said["out"])

    def wait_for(self, text: str, timeout_s: float = PATIENCE_S) -> None:
        """Waits until the command has said a text."""
        until = time.monotonic() + timeout_s
        while text not in self.out:
            assert time.monotonic() < until, f"{text!r} was not said within {timeout_s} s:\n{self.out}"
            if self.process.poll() is not None:
                self._readers[0].join(5)
                assert text in self.out, f"ended without {text!r}:\n{self.out}\n{''.join(self._said['err'])}"
            time.sleep(0.02)

    def interrupt(self) -> None:
        """Ctrl-C, as a terminal sends it: to the whole group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def kill(self) -> None:
        """kill -9 of the whole group."""
        os.killpg(self.process.pid, signal.SIGKILL)

    def group(self) -> list[str]:
        """The processes of this command's session that still live, Ray's too."""
        return [line for line in alive() if line.split()[1] == str(self.process.pid)]

    def end(self, timeout_s: float = PATIENCE_S) -> Typed:
        """Waits for the command's own end."""
        code = self.process.wait(timeout_s)
        seconds = time.monotonic() - self.begun
        for reader in self._readers:
            reader.join(1)
        return Typed(code, self.out, "".join(self._said["err"]), seconds)

    def clear(self) -> None:
        """Ends what is left of this command's session, and nothing else."""
        for line in self.group():
            try:
                os.kill(int(line.split()[0]), signal.SIGKILL)
            except ProcessLookupError:
                continue


def _without(hidden: Path | None) -> list[str]:
    """What begins a command that finds a folder empty: a mount namespace of its own, whose changes nobody else sees."""
    if hidden is None:
        return []
    return ["unshare", "-rm", "sh", "-c", f'mount -t tmpfs none {shlex.quote(str(hidden))} && exec "$@"', "sh"]


def heed_ctrl_c() -> None:
    """As in a terminal, also where the tests themselves run in the background of a shell, which ignores Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def alive() -> list[str]:
    """pid, session and command of all living processes."""
    shown = subprocess.run(["ps", "-eo", "pid=,sess=,stat=,args="], capture_output=True, text=True, check=True).stdout
    return [line.strip() for line in shown.splitlines() if " Z" not in line[:30]]


class Terminal:
    """A home and a working folder; `type` runs a command to its end, `begin` leaves it running.

    `hidden`: a folder that commands find empty, as on a machine that does not share it.
    """

    def __init__(self, folder: Path, **env: str) -> None:
        self.folder, self.home = folder, folder / "home"
        known = {name: value for name, value in os.environ.items() if not name.startswith(("RAY", "MLFLOW", "LOCUS"))}
        own = {"LOCUS_HOME": str(self.home), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        self.env = known | own | env
        self.begun: list[Command] = []
        self.hidden: Path | None = None

    def begin(self, *words: str, on_pty: bool = False, **env: str) -> Command:
        command = Command(["-m", "service", *words], self.env | env, self.folder, on_pty=on_pty, hidden=self.hidden)
        self.begun.append(command)
        return command

    def begin_python(self, code: str, *words: str) -> Command:
        """Begins Python code. `words`: its arguments."""
        command = Command(["-c", code, *words], self.env, self.folder, hidden=self.hidden)
        self.begun.append(command)
        return command

    def python(self, code: str, *words: str, timeout_s: float = PATIENCE_S) -> Typed:
        """Runs Python code to its end. `words`: its arguments."""
        return self.begin_python(code, *words).end(timeout_s)

    def type(self, *words: str, timeout_s: float = PATIENCE_S, **env: str) -> Typed:
        return self.begin(*words, **env).end(timeout_s)

    def facts(self, id: str, kind: str | None = None) -> list[Fact]:
        """What the journal of a study in this home says, or the facts of one kind.

        Without a kind it leaves out that a driver began, which every command that runs a study writes.
        """
        told, _ = read(Home(self.home).study(id).journal)
        return [fact for fact in told if (fact.fact == kind if kind else not isinstance(fact, Opened))]

    def clear(self) -> None:
        for command in self.begun:
            command.clear()
