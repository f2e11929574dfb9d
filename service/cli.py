"""Runs the command `locus`: a user's mistake is answered with one line and exit code 2; a bug keeps its traceback."""

from __future__ import annotations

import errno
import sys

import typer

from service.commands import cluster, results_verbs, running
from service.commands.app import MISTAKE, REMOVED, PressedError, app
from service.terminal import output
from service.tracking import set_up_client
from trainables.errors import LocusError
from trainables.trusted import guarded
from trainables.watched import watched

VERBS = (results_verbs, running, cluster)
"""The modules that define the verbs. `commands.app.PANELS` has the order in which `--help` lists the verbs."""


def main() -> None:
    """Runs the verb that was typed, and exits with its exit code.

    While a folder of images is read for the first time, a terminal shows how many are read. Raises: KeyboardInterrupt.
    """
    set_up_client()
    try:
        with guarded(), output.counted("images") as look, watched(look):
            code = app(standalone_mode=False, prog_name="locus") or 0
    except typer.Exit as exit:
        code = exit.exit_code
    except PressedError:
        raise KeyboardInterrupt from None
    except typer.TyperException as error:
        option = getattr(error, "option_name", "")
        sentence = f"{option} is gone; {REMOVED[option]}" if option in REMOVED else error.format_message()
        code = _mistake(" ".join(sentence.replace("Value error, ", "").split()))
    except LocusError as error:
        code = _mistake(str(error), error.exit_code)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS) or error.filename is None:
            raise  # else a file or a folder of somebody else cannot be read or written
        must = f"{error.filename} must be open to you for what this command reads or writes"
        code = _mistake(f"{must}, got: {error.strerror}; ask its owner, or give another --home")
    sys.stdout.flush()
    sys.exit(code)


def _mistake(sentence: str, code: int = MISTAKE) -> int:
    """Prints the sentence about a user's mistake on standard error, and returns the exit code."""
    if sentence:
        sentence = sentence.replace('version="WORD"', "--as WORD")  # what Python calls an argument
        output.sentence(output.console(stderr=True), f"locus: {sentence}")
    return code
