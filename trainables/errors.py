"""The errors that a person can correct. They lie alone, so that a command that only looks imports nothing more."""

from typing import ClassVar


class LocusError(Exception):
    """A mistake that a user can correct: one line, exit code 2. Kinds that are no mistakes have another code."""

    exit_code: ClassVar[int] = 2


class SpecError(LocusError):
    """A value that no study can use. Its text names the path, what is legal, and what was given.

    Not a ValueError: pydantic would wrap it and lose the path.
    """
