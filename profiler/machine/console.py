"""Consoles on the streams of this process, for everything that a person reads there."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

from rich.console import Console

from profiler.errors import UsageError
from profiler.outside_text import safe

_PIPE_WIDTH = 200
"""Columns where nothing says how wide the reader is: a file or a log."""
_MIN_WIDTH = 40
"""A table of fewer columns has no room for its numbers; rich fails on some."""


class _Console(Console):
    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects; a text as it is, in lines that the terminal wraps.

        Without markup, and without control sequences of terminals.

        What is said on stderr ends no run: where it cannot be written (a full disk, a terminal that
        was closed), it is said to nobody from then on.
        """
        if all(isinstance(item, str) for item in objects):
            options = {"markup": False, "soft_wrap": True, **options}
        try:
            super().print(*(safe(o) if isinstance(o, str) else o for o in objects), **options)
        except OSError:
            if not self.stderr:
                raise
            with suppress(OSError, ValueError):  # the buffer of the stream is discarded, too
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError for the command line, which expects readers that leave early."""
        raise BrokenPipeError


def make_console(color: str, *, stderr: bool = False) -> Console:
    """Console for one stream; `color` is auto, always or never, and NO_COLOR is obeyed by auto."""
    if color not in ("auto", "always", "never"):
        raise UsageError(f"--color {color}: not one of auto, always, never")
    stream = sys.stderr if stderr else sys.stdout
    terminal = {"auto": None, "always": True, "never": False}[color]
    # no-color.org: set, and not to an empty text.
    no_color = color == "never" or (color == "auto" and bool(os.environ.get("NO_COLOR")))
    width = None if stream.isatty() or "COLUMNS" in os.environ else _PIPE_WIDTH
    console = _Console(
        stderr=stderr, force_terminal=terminal, no_color=no_color, width=width, highlight=False
    )
    console.width = max(console.width, _MIN_WIDTH)
    return console
