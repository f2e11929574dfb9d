"""A process for which every disk is nearly full."""

import os
import resource
import sys


def files_of_at_most(size: int) -> None:
    """Let the system refuse, for the rest of this process, every file of more than `size` bytes, as on a full disk.

    Python would then keep the first bytes of a compiled module (its `_write_atomic` ignores a short write), and every
    later process would fail to import it: so nothing compiled is kept.
    """
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
