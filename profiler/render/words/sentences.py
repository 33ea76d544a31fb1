"""Sentences with parts that stand out, and cards."""

from __future__ import annotations

import re
from dataclasses import dataclass

from profiler.render.words import numbers


@dataclass(frozen=True)
class TextPart:
    """A piece of a sentence."""

    text: str
    strong: bool = False


@dataclass(frozen=True)
class Card:
    """Card with a question and its answer."""

    question: str
    answer: str
    detail: str
    css: str = ""
    """Class of a verdict, whose word and symbol are in the answer."""


Sentence = tuple[TextPart, ...]

_BEGIN, _END = "\x02", "\x03"
"""Around what stands out in a text. No text from outside has them (`outside_text.safe`)."""


def strong(text: str) -> str:
    """Text that stands out in the sentence that is made of it."""
    return f"{_BEGIN}{text}{_END}"


def sentence_of(text: str) -> Sentence:
    """The parts of a text, some of which are `strong`; none of an empty text."""
    pieces = re.split(f"[{_BEGIN}{_END}]", text)
    return tuple(TextPart(piece, bool(place % 2)) for place, piece in enumerate(pieces) if piece)


def spoken(sentence: Sentence) -> str:
    """Text of a sentence."""
    return "".join(part.text for part in sentence)


def card_sentence(card: Card) -> Sentence:
    """A card as a line: its question, its answer and the rest."""
    joint = " " if card.answer.endswith(numbers.TIMES) else ", "
    detail = f"{joint}{card.detail.removesuffix('.')}" if card.detail else ""
    return sentence_of(f"{card.question.rstrip('?')}: {strong(card.answer)}{detail}.")
