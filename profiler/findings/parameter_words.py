"""Words for parameters: what a family of variants shares, and what tells each from the others.

Neighbouring numbers whose keys differ in one letter or number are read together: `B_r` and `B_c`
with a sign of multiplication between them, `Q_loads`, `K_loads` and `V_loads` as `2/2/0`. A flag
has the word that the names have for it, else its key; where most variants have it, those that have
it not say `no …`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from profiler.model import Params, Scalar, Variant
from profiler.planning.problem_names import is_number, varying

_TIMES = "\u00d7"
_COUNT_PREFIXES = ("n", "num")
_WORDS = re.compile(r"[^\s,;:+()\[\]{}|=]+")
_KEY_PARTS = re.compile(r"[A-Za-z]+|\d+")
_LONGEST_DIFFERENCE = 1
"""Letters of the part in which keys that are read together differ: `num_warps` and `num_stages`
are two things."""

Unit = tuple[str, ...]
"""Keys that are read together; mostly a single one."""


@dataclass(frozen=True)
class Chip:
    """A parameter in words, or a few parameters that are read together."""

    key: str
    """What it is a value of: `n_warps`, `B_r\u00d7B_c`."""
    text: str
    """The value, with as much of its key as it needs: `4 warps`, `128\u00d764`, `no buffer`."""
    params: tuple[tuple[str, Scalar], ...]
    """The parameters that it stands for."""


@dataclass(frozen=True)
class ParameterWords:
    """Words for the parameters of a family of variants."""

    family: tuple[Variant, ...]
    dense: bool = False
    """Whether all neighbouring numbers that differ are read together: `3/64/2` for `consumers`,
    `B_c` and `stages`, where their keys would make a label too long."""

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """All parameters, in the order of first mention."""
        return tuple(dict.fromkeys(key for variant in self.family for key in variant.params))

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """The keys in their order; neighbours that are read together in one unit."""
        units: list[Unit] = []
        belong = self._differ_in_numbers if self.dense else self._belong_together
        for key in self.keys:
            if units and belong((*units[-1], key)):
                units[-1] = (*units[-1], key)
            else:
                units.append((key,))
        return tuple(units)

    @cached_property
    def differing(self) -> tuple[Unit, ...]:
        """Units of which any parameter differs in the family."""
        keys = set(varying(self.family))
        return tuple(unit for unit in self.units if keys.intersection(unit))

    @cached_property
    def flags(self) -> Mapping[str, str]:
        """Word of each parameter that is only ever true or false, by key."""
        return {key: self._flag_word(key) for key in self.keys if self._is_flag(key)}

    @cached_property
    def usual(self) -> tuple[str, ...]:
        """Flags that differ, and that more than half of the family have."""
        return tuple(
            key
            for (key, *_) in self.differing
            if key in self.flags
            and sum(bool(variant.params.get(key)) for variant in self.family) > self._half
        )

    @property
    def _half(self) -> float:
        return len(self.family) / 2

    def differing_chips(self, params: Params) -> tuple[Chip, ...]:
        """Chips that tell a variant from the others: values, and flags that are set otherwise.

        Where flags alone tell variants apart, the one that has all of them says so.
        """
        units = self.differing
        chips = tuple(chip for unit in units if (chip := self._chip(unit, params)) is not None)
        flags = [unit[0] for unit in units if unit[0] in self.flags]
        if flags and set(flags) == set(self.usual) and all(params.get(key) for key in flags):
            text = "all on" if len(flags) > 1 else self.flags[flags[0]]
            chips = (*chips, Chip("", text, tuple((key, True) for key in flags)))
        return chips

    def shared_chips(self) -> tuple[Chip, ...]:
        """Chips that all variants of the family have; none where there is only one of them."""
        if len(self.family) < 2:
            return ()
        params = self.family[0].params
        units = [unit for unit in self.units if unit not in self.differing]
        chips = [chip for unit in units if (chip := self._chip(unit, params)) is not None]
        return tuple(
            replace(chip, text=f"{chip.key} {chip.text}") if len(chip.params) > 1 else chip
            for chip in chips
        )

    def usual_chips(self) -> tuple[Chip, ...]:
        """The flags that a variant has unless its label says that it has not."""
        return tuple(Chip(key, self.flags[key], ((key, True),)) for key in self.usual)

    def differing_keys(self) -> tuple[str, ...]:
        """What the chips of a variant are values of, in their order: `dtype`, `B_r\u00d7B_c`."""
        return tuple(self._key_text(unit) for unit in self.differing)

    def _chip(self, unit: Unit, params: Params) -> Chip | None:
        text = self._text(unit, params)
        return (
            Chip(self._key_text(unit), text, tuple((key, params.get(key)) for key in unit))
            if text
            else None
        )

    def _text(self, unit: Unit, params: Params) -> str:
        if len(unit) > 1:
            return _joint(unit).join(str(params.get(key)) for key in unit)
        (key,) = unit
        value = params.get(key)
        if key in self.flags:
            return self._flag_text(key, on=bool(value))
        return "" if value is None else _value_text(key, value)

    def _flag_text(self, key: str, *, on: bool) -> str:
        is_named = (key,) not in self.differing or on != (key in self.usual)
        word = self.flags[key]
        return (word if on else f"no {word}") if is_named else ""

    def _key_text(self, unit: Unit) -> str:
        """`B_r\u00d7B_c`, or `Q/K/V_loads`: keys in the way in which their values are joined."""
        if len(unit) > 1 and _joint(unit) == "/" and _place(unit) == 0:
            rest = unit[-1].removeprefix(_parts(unit[-1])[0])
            return f"{'/'.join(_parts(key)[0] for key in unit)}{rest}"
        return _joint(unit).join(unit) if len(unit) > 1 else self.flags.get(unit[0], unit[0])

    def _is_flag(self, key: str) -> bool:
        values = [variant.params[key] for variant in self.family if key in variant.params]
        return all(isinstance(value, bool) for value in values)

    def _flag_word(self, key: str) -> str:
        """Word that the names have where a flag is on (`opt_softmax`), else its key."""
        states = [bool(variant.params.get(key)) for variant in self.family]
        words = sorted(set().union(*self._words), key=lambda word: (-len(word), word))
        for word in words:
            in_names = [word in of_name for of_name in self._words]
            if in_names == states and any(states) and _abbreviates(word, key):
                return word.replace("_", "-")
        return key.replace("_", "-")

    @cached_property
    def _words(self) -> tuple[frozenset[str], ...]:
        """The words of the name of each variant."""
        return tuple(frozenset(_WORDS.findall(variant.name)) for variant in self.family)

    def _belong_together(self, unit: Unit) -> bool:
        """Whether keys differ in one short part, and are numbers in every variant."""
        return _place(unit) is not None and self._are_numbers(unit)

    def _differ_in_numbers(self, unit: Unit) -> bool:
        """Whether all of the keys differ in the family, and are numbers in every variant."""
        return set(unit) <= set(varying(self.family)) and self._are_numbers(unit)

    def _are_numbers(self, unit: Unit) -> bool:
        return all(is_number(variant.params.get(key)) for variant in self.family for key in unit)


def _value_text(key: str, value: Scalar) -> str:
    """A value with as much of its key as it needs: words speak for themselves."""
    if isinstance(value, str):
        return value
    head, _, counted = key.partition("_")
    if head.lower() in _COUNT_PREFIXES and counted:
        is_single = value == 1 and counted.endswith("s")
        return f"{value} {(counted[:-1] if is_single else counted).replace('_', ' ')}"
    return f"{key} {value}"


def _abbreviates(word: str, key: str) -> bool:
    """Whether the parts of a word begin parts of a key, in their order."""
    segments = iter(_segments(key))
    return all(any(segment.startswith(part) for segment in segments) for part in _segments(word))


def _segments(text: str) -> list[str]:
    return [part for part in re.split(r"[-_]", text.lower()) if part]


def _joint(unit: Unit) -> str:
    """Sign between values: of multiplication where the last parts differ, the sides of a tile."""
    return _TIMES if _place(unit) == len(_parts(unit[0])) - 1 else "/"


def _place(unit: Unit) -> int | None:
    """Place of the one short part in which keys differ; None where there is no such place."""
    rows = [_parts(key) for key in unit]
    if len({len(row) for row in rows}) > 1:
        return None
    columns = [set(column) for column in zip(*rows, strict=True)]
    places = [place for place, column in enumerate(columns) if len(column) > 1]
    if len(places) != 1:
        return None
    values = columns[places[0]]
    short = all(value.isdigit() or len(value) <= _LONGEST_DIFFERENCE for value in values)
    return places[0] if short and len(values) == len(unit) else None


def _parts(key: str) -> tuple[str, ...]:
    """Parts of a key: its words and its numbers (`dim0` is `dim` and `0`)."""
    return tuple(_KEY_PARTS.findall(key))
