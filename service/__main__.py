"""The command: `locus`, or `python -m service`."""

import shlex
import signal
import sys

INTERRUPTED = 130
MISTAKE = 2


def main() -> None:
    """Runs the command. A file that is no Python, because somebody is editing it, is one line and exit code 2.

    However the command ends, its exit code is its own: see `_end_by_exit_code`.
    """
    try:
        from service.cli import main as command

        command()
    except SyntaxError as error:
        print(f"locus: {error.filename} is no Python: line {error.lineno}: {error.msg}", file=sys.stderr)
        sys.exit(MISTAKE)
    except KeyboardInterrupt:  # pressed before a study begins, or in a verb that begins nothing
        _end_by_exit_code()
        print(f"stopped\n{'continue':11}{shlex.join(['locus', *sys.argv[1:]])}", flush=True)
        sys.exit(INTERRUPTED)
    finally:
        _end_by_exit_code()


def _end_by_exit_code() -> None:
    """Lets no Ctrl-C, a late one or an early one, end the process by a signal in place of its exit code.

    A late one: Python takes its own handler away before it ends. An early one: Python notes a KeyboardInterrupt that
    leaves code compiled from text (importing a dataclass compiles some), and ends by SIGINT although it was caught;
    compiling text again clears the note.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    exec("")


if __name__ == "__main__":
    main()
