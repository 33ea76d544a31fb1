"""The right form of what is often written in another one, as the end of an error's sentence."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from profiler.planning.spec.source import IN_QUOTES, FieldPath, kind_of


def right_form(field: FieldPath, given: object) -> str:
    """`; write …` for a value that stands at a field; empty where no other form is known."""
    if is_placeholder(given):
        return f'{IN_QUOTES}: "{{{next(iter(given))}}}"'  # type: ignore[call-overload]
    if field in (("variants",), ("problems",)) and isinstance(given, list):
        return f"; write {_section(field[0], given)}"
    if field == ("tolerance",) and _is_number(given):
        return f"; write tolerance: {{default: {{relative: {given:g}}}}}"
    if field[:1] == ("tolerance",) and len(field) == 2 and _is_number(given):
        return f"; write {field[1]}: {{relative: {given:g}}}, {{absolute: {given:g}}}, or both"
    if field == ("build", "arch") and isinstance(given, int):
        return f"; write arch: sm_{given}"
    return ""


def misplaced_parameter(field: FieldPath, given: object) -> str:
    """`; parameters stand under …` for one right under `variants` or `problems`; else empty."""
    if len(field) != 2 or field[0] not in ("variants", "problems"):
        return ""
    if not isinstance(given, list) or any(isinstance(value, list | dict) for value in given):
        return ""
    return f"; parameters stand under matrix: {{matrix: {{{field[1]}: {_list(given)}}}}}"


def is_placeholder(value: object) -> bool:
    """Whether a value is what YAML makes of `{kernel}`: a mapping of a name to nothing."""
    return isinstance(value, Mapping) and len(value) == 1 and list(value.values()) == [None]


def _section(name: object, items: list[Any]) -> str:
    if all(isinstance(item, str | dict) for item in items):
        words = ", ".join(item if isinstance(item, str) else "{…}" for item in items[:3])
        return f"{name}: {{list: [{words}{', …' if len(items) > 3 else ''}]}}"
    return f"{name}: {{matrix: {{NAME: {_list(items)}}}}}"


def _list(items: Iterable[Any]) -> str:
    """A short list as YAML writes it."""
    shown = [item if isinstance(item, str) else _scalar(item) for item in items]
    return f"[{', '.join([*shown[:3], *['…'][: len(shown) > 3]])}]"


def _scalar(item: object) -> str:
    simple = isinstance(item, int | float | bool) or item is None
    return json.dumps(item) if simple else kind_of(item)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
