"""An answer for the terminal: its sentence, and a line for each that says more of it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from profiler.outside_text import safe
from profiler.render.console.terminal import Paragraph
from profiler.render.words.answer import Sentence, spoken


def answer_lines(sentences: Sequence[Sentence]) -> RenderableType:
    """A sentence, a line for each of those that say more of it, and an empty line."""
    first, *lines = sentences
    below = (Paragraph(_with_strong_parts(line), indent="  ") for line in lines)
    return Group(Paragraph(spoken(first), "bold"), *below, Text())


def _with_strong_parts(sentence: Sentence) -> Text:
    return Text.assemble(*((safe(part.text), "bold" if part.strong else "") for part in sentence))
