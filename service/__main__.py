"""The command: `locus`, or `python -m service`."""

import shlex
import signal
import sys

INTERRUPTED = 130
MISTAKE = 2


def main() -> None:
    """Runs the command. A file that is no Python, because somebody is editing it, is one line and exit code 2."""
    try:
        from service.cli import main as command

        command()
    except SyntaxError as error:
        print(f"locus: {error.filename} is no Python: line {error.lineno}: {error.msg}", file=sys.stderr)
        sys.exit(MISTAKE)
    except KeyboardInterrupt:  # pressed before a study begins, or in a verb that begins nothing
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print(f"stopped\n{'continue':11}{shlex.join(['locus', *sys.argv[1:]])}", flush=True)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
