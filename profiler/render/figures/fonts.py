"""Sizes of text in matplotlib's font, which is read into memory once.

matplotlib leaves its font on the disk and reads it for each letter again: 140 calls of the system
for a name of twenty letters, which for a page took longer than all else where they are slow.
"""

from __future__ import annotations

import io
import threading
from functools import cache
from pathlib import Path

from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.ft2font import FT2Font
from matplotlib.textpath import TextToPath, text_to_path


def text_size(text: str, properties: FontProperties) -> tuple[float, float, float]:
    """Width, height and descent of a text in points, as matplotlib measures it."""
    file = findfont(properties)
    measure = _in_memory if _has_all(file, text) else text_to_path
    width, height, descent = measure.get_text_width_height_descent(text, properties, ismath=False)
    return float(width), float(height), float(descent)


def font_of(properties: FontProperties, letter: str) -> FT2Font:
    """The font for a letter: from memory where it has it, else matplotlib's with its fallbacks."""
    file = findfont(properties)
    return _font(file, threading.get_ident()) if _has_all(file, letter) else get_font(file)


class _InMemory(TextToPath):
    """Measures text that the font has all letters of: it has no other to fall back to."""

    def _get_font(self, prop: FontProperties) -> FT2Font:
        font = _font(findfont(prop), threading.get_ident())
        font.set_size(self.FONT_SCALE, self.DPI)
        return font


_in_memory = _InMemory()


@cache
def _font(file: str, thread: int) -> FT2Font:
    """A font in memory, of each thread its own: FreeType lets no two use one at once."""
    del thread
    return FT2Font(io.BytesIO(Path(file).read_bytes()))


def _has_all(file: str, text: str) -> bool:
    """Whether a font file, the first in it where it has several, has every letter of a text."""
    return not getattr(file, "face_index", 0) and _letters(file).issuperset(map(ord, text))


@cache
def _letters(file: str) -> frozenset[int]:
    return frozenset(_font(file, threading.get_ident()).get_charmap())
