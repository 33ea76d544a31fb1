"""Values from the command line (`--set collect.blocks=16`) laid over those of the file."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from profiler.errors import UsageError
from profiler.planning.spec.source import FieldPath, Key, field_name, kind_of, parse_value


@dataclass(frozen=True)
class Override:
    """One `key=value` of the command line."""

    raw: str
    path: FieldPath
    value: Any

    @property
    def flag(self) -> str:
        """The flag as it was given."""
        return f"--set {self.raw}"

    def touches(self, field: FieldPath, *, in_file: bool) -> bool:
        """Whether an error about this field is about this override."""
        inside = field[: len(self.path)] == self.path
        made_parent = not in_file and self.path[: len(field)] == field
        return inside or made_parent


def parse_overrides(raws: Sequence[str]) -> tuple[Override, ...]:
    """Read `dotted.key=value`; values are YAML, and numbers in a key are places in a list.

    Raises `UsageError` where there is no `=`, no key, or the value is not YAML.
    """
    return tuple(_parse(raw) for raw in raws)


def _parse(raw: str) -> Override:
    dotted, equals, text = raw.partition("=")
    keys = dotted.strip().split(".")
    if not equals or not all(keys):
        raise UsageError(f"--set {raw}: must look like collect.blocks=16")
    try:
        value = parse_value(text)
    except ValueError as error:
        raise UsageError(f"--set {raw}: {error}") from error
    return Override(raw, tuple(int(key) if key.isdecimal() else key for key in keys), value)


def apply_overrides(data: dict[str, Any], overrides: Sequence[Override]) -> dict[str, Any]:
    """A copy of the data with the overrides laid over it, in order.

    Mappings on the way are made where they are missing. Raises `UsageError` where the way leads
    through something that is not a mapping or list, or to a place that a list does not have.
    """
    if not overrides:
        return data
    result = copy.deepcopy(data)
    for override in overrides:
        *way, last = override.path
        place: Any = result
        for depth, key in enumerate(way):
            place = _enter(place, key, override, depth)
        _enter(place, last, override, len(way))
        place[last] = override.value
    return result


def _enter(place: Any, key: Key, override: Override, depth: int) -> Any:
    """Value at `key`; an empty mapping is put there where there is none."""
    if isinstance(place, dict) and isinstance(key, str):
        if place.get(key) is None:
            place[key] = {}
        return place[key]
    if isinstance(place, list) and isinstance(key, int):
        if key < len(place):
            return place[key]
        message = f"has {len(place)} entries, counted from 0"
    else:
        message = f"is {kind_of(place)}, which has no '{key}'"
    raise UsageError(
        f"{override.flag}: {field_name(override.path[:depth]) or 'the file'} {message}"
    )
