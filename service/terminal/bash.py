"""How bash hands words to a completion: it cuts them where a path, a value or an id goes on.

The classes are typer's own, so only a completion imports this file.
"""

from __future__ import annotations

import os
import re

from typer._click.shell_completion import CompletionItem, add_completion_class, split_arg_string
from typer._completion_classes import BashComplete

BREAKS = "=:@"
"""Where bash begins a new word, although a path, a value or an id goes on."""


class Bash(BashComplete):
    """As typer's, but for words that bash has cut at `BREAKS`: `encoding.kind=fourier`, `fourier-gamma@cpu`."""

    def get_completion_args(self) -> tuple[list[str], str]:
        place = int(os.environ["COMP_CWORD"])
        words = split_arg_string(os.environ["COMP_WORDS"])[: place + 1]
        whole: list[str] = []
        for word in words + [""] * (place + 1 - len(words)):
            if whole and (word in [*BREAKS] or whole[-1][-1:] in [*BREAKS]):
                whole[-1] += word
            else:
                whole.append(word)
        self.begun = re.sub(f"[^{BREAKS}]*$", "", whole[-1])
        return whole[1:-1], whole[-1]

    def format_completion(self, item: CompletionItem) -> str:
        return re.sub(r"([^\w@%+=:,./~-])", r"\\\1", str(item.value).removeprefix(self.begun))


def complete_whole_words() -> None:
    """Gives typer the completion of bash that knows words which bash cuts."""
    add_completion_class(Bash, "bash")
