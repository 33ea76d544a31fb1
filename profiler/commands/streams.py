"""The process's own streams, so that nothing that is printed there can end a run.

A stream may be closed, and its encoding may lack what a page or a table says. What was measured is
worth more than how it is printed: it is printed in plainer letters, or nowhere.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import TextIO

PLAINER = "profiler-plainer"
"""Error handler of codecs: letters that an encoding lacks become plainer ones."""

_FIRST_ESCAPED, _LAST_BYTE = 0x80, 0xFF
_PLAIN = str.maketrans(
    {
        "\u202f": " ",
        "\u00a0": " ",
        "\u2011": "-",
        "\u2013": "-",
        "\u2014": "-",
        "\u2018": "'",
        "\u2019": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u2026": "...",
        "\u2192": "->",
        "\u00d7": "x",
        "\u00b1": "+/-",
        "\u00b7": "*",
        "\u00b5": "u",
        "\u2264": "<=",
        "\u2265": ">=",
        "\u2588": "#",
    }
)


def prepare_streams() -> None:
    """Make stdin, stdout and stderr usable, whatever the caller left of them."""
    codecs.register_error(PLAINER, _plainer)
    _fill_descriptors()
    sys.stdout = _usable(sys.stdout, 1)
    sys.stderr = _usable(sys.stderr, 2)


def _fill_descriptors() -> None:
    """Open what is closed of 0 to 2: else the next file would get that number, and our output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one


def _usable(stream: TextIO | None, number: int) -> TextIO:
    if stream is None:  # it was closed when Python started
        return open(number, "w", encoding="utf-8", errors=PLAINER, closefd=False)
    if isinstance(stream, io.TextIOWrapper):  # a test's stand-in takes any letter
        stream.reconfigure(errors=PLAINER)
    return stream


def _plainer(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    plain = "".join(_byte(letter) or letter.translate(_PLAIN) for letter in letters)
    return "".join(letter if letter.isascii() else "?" for letter in plain), error.end


def _byte(letter: str) -> str:
    """The byte of a file's name that is no UTF-8, as it is typed in a shell; else empty."""
    code = ord(letter) - 0xDC00
    return f"\\x{code:02x}" if _FIRST_ESCAPED <= code <= _LAST_BYTE else ""
