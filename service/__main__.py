"""The command: `locus`, or `python -m service`."""

import shlex
import signal
import sys

INTERRUPTED = 130
MISTAKE = 2


def main() -> None:
    """Runs the command. A file that is no Python, because somebody is editing it, is one line and exit code 2.

    Ctrl-C is ignored once the command is over: Python takes its own handler away before it ends, and a press that came
    then would kill the process in place of its exit code.
    """
    try:
        from service.cli import main as command

        command()
    except SyntaxError as error:
        print(f"locus: {error.filename} is no Python: line {error.lineno}: {error.msg}", file=sys.stderr)
        sys.exit(MISTAKE)
    except KeyboardInterrupt:  # pressed before a study begins, or in a verb that begins nothing
        _ignore_ctrl_c()
        print(f"stopped\n{'continue':11}{shlex.join(['locus', *sys.argv[1:]])}", flush=True)
        sys.exit(INTERRUPTED)
    finally:
        _ignore_ctrl_c()


def _ignore_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    main()
