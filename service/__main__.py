"""The command: `locus`, or `python -m service`."""

import atexit
import errno
import io
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

INTERRUPTED, BUG = 130, 1
TRAINING_VERBS = (["run"], ["job"])
"""The verbs that run a study. They react to SIGINT even where it is ignored, as it is in every command that a script
starts with `&`: Slurm's script sends SIGINT to stop its study."""
LOOKING_VERBS = (["studies"], ["show"], ["plan"], ["status"], ["report"], ["compare"], ["logs"], ["ui"], ["doctor"])
"""The verbs that only show something: they have nothing more to do when nobody reads what they print."""
PATIENCE_S = 5.0
"""Seconds. If Ctrl-C is pressed later than this after the end of the command, Python's own shutdown hangs."""


class Presses:
    """Raises KeyboardInterrupt at Ctrl-C, as Python does, and remembers in `came` that Ctrl-C was pressed.

    Python drops an exception that is raised within a callback, and each import has a callback. So a study reads `came`
    before it begins (`StopSignals.installed`).
    """

    came = False

    def __call__(self, *_: object) -> None:
        self.came = True
        raise KeyboardInterrupt


class Outlet(io.FileIO):
    """Is standard output or standard error, as a file whose reader (such as `head`) may end before the command.

    A verb that only shows something ends with its reader. A study trains on, and prints the rest on standard error. If
    a text cannot be written for another reason, such as a full disk, other commands end with a sentence.
    """

    is_lost = False

    def write(self, content: Any, /) -> int:
        """Writes; if that fails, all later text goes to /dev/null, or to standard error while a study trains."""
        try:
            return super().write(content)
        except OSError as error:
            was_lost, self.is_lost = self.is_lost, True
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)
            if self.fileno() == 1 and not was_lost:
                if sys.argv[1:2] in TRAINING_VERBS:
                    os.dup2(2, 1)
                elif error.errno != errno.EPIPE:
                    why = f"standard output must be a file that can be written, got: {error.strerror}"
                    print(f"locus: {why}", file=sys.stderr)
                    sys.exit(BUG)
                elif sys.argv[1:2] in LOOKING_VERBS:
                    sys.exit(0)
            return self.write(content)

    @classmethod
    def of(cls, stream: Any) -> Any:
        """Returns a standard stream as an Outlet; it escapes characters that its encoding lacks, as Python would."""
        if stream is None:  # it was closed before the command began
            return open(os.devnull, "w", encoding="utf-8")
        if stream not in (sys.__stdout__, sys.__stderr__):
            return stream
        raw = io.BufferedWriter(cls(stream.fileno(), "w", closefd=False))
        return io.TextIOWrapper(raw, stream.encoding, "backslashreplace", line_buffering=True)


def main(clock: Callable[[], float] = time.monotonic) -> None:
    """Runs the command. No Ctrl-C after its end changes its exit code (`_keep_exit_code`). `clock` gives seconds."""
    sys.stdout, sys.stderr = Outlet.of(sys.stdout), Outlet.of(sys.stderr)
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # the first to be registered is the last to be called
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler or sys.argv[1:2] in TRAINING_VERBS:
        signal.signal(signal.SIGINT, Presses())
    try:
        from service.cli import main as command

        command()
    except SystemExit as ended:
        _keep_exit_code(ended.code if isinstance(ended.code, int) else 0, clock)
        raise
    except KeyboardInterrupt:  # pressed before a study begins, or in a verb that begins nothing
        _keep_exit_code(INTERRUPTED, clock)
        print(f"stopped\n{'continue':11}{shlex.join(['locus', *sys.argv[1:]])}", flush=True)
        sys.exit(INTERRUPTED)
    except BaseException:
        _keep_exit_code(BUG, clock)
        raise


def _keep_exit_code(code: int, clock: Callable[[], float]) -> None:
    """Keeps a late and an early Ctrl-C from changing `code`, the exit code of a command that is over.

    A late press: Python removes its own handler before it ends, so SIGINT is ignored in the end (`main`). Until then a
    press does nothing for `PATIENCE_S`; after that it ends the process, which hangs.
    """
    over = clock()

    def pressed(*_: object) -> None:
        if clock() - over > PATIENCE_S:
            os._exit(code)

    signal.signal(signal.SIGINT, pressed)
    # an early press: Python notes a KeyboardInterrupt that leaves code compiled from text (importing a dataclass
    # compiles some), and ends by SIGINT although it was caught; compiling text again clears the note
    exec("")


if __name__ == "__main__":
    main()
