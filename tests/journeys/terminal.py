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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import service
from service.storage.facts import Fact, Opened
from service.storage.home import Home
from service.storage.journal import read
from tests.waiting import LIMIT_S, LONG_S, until

ROOT = Path(service.__file__).parents[1]


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

    @property
    def said(self) -> str:
        """Both streams as one line."""
        return " ".join((self.out + self.err).split())


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
            stderr=theirs, start_new_session=True, preexec_fn=heed_signals,
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

    def wait_for(self, text: str) -> None:
        """Waits until the command has said a text."""
        self.wait_until(lambda: text in self.out, f"{text!r} was not said")

    def wait_until(self, holds: Callable[[], object], missing: str = "it never came to that") -> None:
        """Waits until something holds. Fails where the command ends before."""

        def came() -> bool:
            has_ended = self.process.poll() is not None
            if has_ended:
                self._read_all()
            held = bool(holds())
            assert held or not has_ended, f"ended, and {missing}:\n{self.said}"
            return held

        until(came, lambda: f"{missing}:\n{self.said}", LONG_S)

    @property
    def said(self) -> str:
        """What the command printed on both streams."""
        return self.out + "\n" + "".join(self._said["err"])

    def _read_all(self) -> None:
        """Waits for the end of what a command printed that has ended. A process that it left may keep its streams."""
        for reader in self._readers:
            reader.join(LIMIT_S)

    def interrupt(self) -> None:
        """Ctrl-C, as a terminal sends it: to the whole group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def kill(self) -> None:
        """kill -9 of the whole group."""
        os.killpg(self.process.pid, signal.SIGKILL)

    def group(self) -> list[str]:
        """The processes of this command's session that still live, Ray's too."""
        return [line for line in alive() if line.split()[1] == str(self.process.pid)]

    def wait_until_gone(self) -> None:
        """Waits until no process of the command's session lives. Ray's own look every few seconds if they should."""
        until(lambda: not self.group(), lambda: "\n".join(self.group()))

    def end(self, timeout_s: float = LONG_S) -> Typed:
        """Waits for the command's own end."""
        code = self.process.wait(timeout_s)
        seconds = time.monotonic() - self.begun
        self._read_all()
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


def heed_signals() -> None:
    """As in a terminal, also if the tests run in the background or under nohup, whose children inherit deafness."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def alive() -> list[str]:
    """pid, session and command of all living processes."""
    shown = subprocess.run(["ps", "-ewwo", "pid=,sess=,stat=,args="], capture_output=True, text=True, check=True).stdout
    return [line.strip() for line in shown.splitlines() if " Z" not in line[:30]]


class Terminal:
    """A home and a working folder; `type` runs a command to its end, `begin` leaves it running; its block ends all.

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

    def python(self, code: str, *words: str) -> Typed:
        """Runs Python code to its end. `words`: its arguments."""
        return self.begin_python(code, *words).end()

    def type(self, *words: str, timeout_s: float = LONG_S, **env: str) -> Typed:
        return self.begin(*words, **env).end(timeout_s)

    def do(self, *words: str, timeout_s: float = LONG_S, **env: str) -> Typed:
        """Runs a command to its end, which must be a good one."""
        done = self.type(*words, timeout_s=timeout_s, **env)
        assert done.code == 0, done.out + done.err
        return done

    def facts(self, id: str, kind: str | None = None) -> list[Fact]:
        """What the journal of a study in this home says, or the facts of one kind.

        Without a kind it leaves out that a driver began, which every command that runs a study writes.
        """
        told, _ = read(Home(self.home).study(id).journal)
        return [fact for fact in told if (fact.fact == kind if kind else not isinstance(fact, Opened))]

    def clear(self) -> None:
        for command in self.begun:
            command.clear()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
