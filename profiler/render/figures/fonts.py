"""Fonts for letters that matplotlib's own font lacks, such as Chinese ones."""

from __future__ import annotations

from collections.abc import Iterable

from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
from matplotlib.text import Text

_NO_LETTERS = "Last Resort"
"""Beginning of the name of a font that has a box for every letter."""


def lacking_letters(figures: Iterable[Figure]) -> set[str]:
    """Letters in the texts of figures that the font of the figures lacks."""
    letters: set[str] = set()
    for figure in figures:
        figure.draw_without_rendering()  # before, the texts of ticks are empty
        letters.update(*(text.get_text() for text in figure.findobj(Text)))
    return {letter for letter in letters if letter.isprintable()} - _letters_of(
        findfont(FontProperties())
    )


def fonts_with(letters: Iterable[str]) -> tuple[list[str], set[str]]:
    """Families of installed fonts that have these letters, and the letters that none has."""
    families, missing = [], set(letters)
    for entry in sorted(fontManager.ttflist, key=lambda entry: (entry.name, entry.fname)):
        if not missing:
            break
        if entry.style != "normal" or entry.name.startswith(_NO_LETTERS):
            continue
        drawn = missing & _letters_of(entry.fname)
        if drawn:
            families.append(entry.name)
            missing -= drawn
    return families, missing


def _letters_of(file: str) -> set[str]:
    """Letters of a font; none where matplotlib cannot read it, such as one of bitmaps."""
    try:
        return set(map(chr, get_font(file).get_charmap()))
    except (OSError, RuntimeError):
        return set()
