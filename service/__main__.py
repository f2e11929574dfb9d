"""The command: `locus`, or `python -m service`."""

import sys

MISTAKE = 2


def main() -> None:
    """Runs the command. A file that is no Python, because somebody is editing it, is one line and exit code 2."""
    try:
        from service.cli import main as command

        command()
    except SyntaxError as error:
        print(f"locus: {error.filename} is no Python: line {error.lineno}: {error.msg}", file=sys.stderr)
        sys.exit(MISTAKE)


if __name__ == "__main__":
    main()
