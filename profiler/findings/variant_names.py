"""Names of variants from what differs among them: short, unique, with the full name beside.

A label is, in this order of preference:

1. of a numbered version of a ladder: its number and its note, `12: one division per row`;
2. a name of at most `LONGEST_PLAIN` characters, as it is;
3. where names are longer, and this one says nothing but parameters: those that differ,
   `2/2/2 · buffer`;
4. where most names are longer, the words that not all long names begin or end with.

No two labels are equal: where what differs is not enough, the full name or a number tells them
apart. What all variants share stands in `Names.shared_chips`, once.

Parameters in words: neighbouring numbers whose keys differ in one letter or number are read
together: `B_r` and `B_c` with a sign of multiplication between them, `Q_loads`, `K_loads` and
`V_loads` as `2/2/0`. A flag has the word that the names have for it, else its key; where most
variants have it, those that have it not say `no …`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from profiler.model import Params, Plan, Scalar, Variant
from profiler.planning.page_kinds import LADDER, PageKind
from profiler.planning.problem_names import is_number, named_parameters, varying_parameters

_TIMES = "\u00d7"
_COUNT_PREFIXES = ("n", "num")
_WORDS = re.compile(r"[^\s,;:+()\[\]{}|=]+")
_KEY_PARTS = re.compile(r"[A-Za-z]+|\d+")
_LONGEST_DIFFERENCE = 1
"""Letters of the part in which keys that are read together differ: `num_warps` and `num_stages`
are two things."""

Unit = tuple[str, ...]
"""Keys that are read together; mostly a single one."""


Chip = str
"""A parameter in words, or a few that are read together: the value with as much of its key as it
needs, `4 warps`, `128\u00d764`, `no buffer`."""


@dataclass(frozen=True)
class ParameterWords:
    """Words for the parameters of a family of variants."""

    family: tuple[Variant, ...]
    terse: bool = False
    """Whether units that another determines are left out: the grid that each kernel has."""
    dense: bool = False
    """Whether all neighbouring numbers that differ are read together: `3/64/2` for `consumers`,
    `B_c` and `stages`, where their keys would make a label too long."""

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """All parameters, in the order of first mention."""
        return named_parameters(self.family)

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
        """Units of which any parameter differs in the family; `terse`: that no other determines."""
        differing = [unit for unit in self.units if not self._varying.isdisjoint(unit)]
        by_length = sorted(differing, key=self._text_length, reverse=True)
        for unit in by_length if self.terse else ():
            if any(self._determines(other, unit) for other in differing if other != unit):
                differing.remove(unit)
        return tuple(differing)

    @cached_property
    def _varying(self) -> frozenset[str]:
        """Keys of which not all of the family have the same value."""
        return frozenset(varying_parameters(self.family))

    def _text_length(self, unit: Unit) -> int:
        return max(len(self._values_text(unit, variant.params)) for variant in self.family)

    def _determines(self, unit: Unit, other: Unit) -> bool:
        """Whether variants with the same values of a unit have the same of another."""
        pairs = {
            tuple(self._values_text(compared, variant.params) for compared in (unit, other))
            for variant in self.family
        }
        return len(pairs) == len({first for first, _ in pairs})

    @staticmethod
    def _values_text(unit: Unit, params: Params) -> str:
        return repr([params.get(key) for key in unit])

    @cached_property
    def flags(self) -> Mapping[str, str]:
        """Word of each parameter that is only ever true or false, by key."""
        return {key: self._flag_word(key) for key in self.keys if self._is_flag(key)}

    @cached_property
    def usual_flags(self) -> tuple[str, ...]:
        """Flags that differ, and that more than half of the family have."""
        return tuple(
            key
            for (key, *_) in self.differing
            if key in self.flags
            and 2 * sum(bool(variant.params.get(key)) for variant in self.family) > len(self.family)
        )

    def differing_chips(self, params: Params) -> tuple[Chip, ...]:
        """Chips that tell a variant from the others: values, and flags that are set otherwise.

        Where flags alone tell variants apart, the one that has all of them says so.
        """
        units = self.differing
        chips = tuple(filter(None, (self._text(unit, params) for unit in units)))
        flags = [unit[0] for unit in units if unit[0] in self.flags]
        if flags and set(flags) == set(self.usual_flags) and all(params.get(key) for key in flags):
            chips = (*chips, "all on" if len(flags) > 1 else self.flags[flags[0]])
        return chips

    def shared_chips(self) -> tuple[Chip, ...]:
        """Chips that all variants of the family have; none where there is only one of them."""
        if len(self.family) < 2:
            return ()
        params = self.family[0].params
        return tuple(
            f"{self._key_text(unit)} {text}" if len(unit) > 1 else text
            for unit in self.units
            if self._varying.isdisjoint(unit) and (text := self._text(unit, params))
        )

    def differing_keys(self) -> tuple[str, ...]:
        """Keys whose values are the chips of a variant, in their order: `dtype`, `B_r\u00d7B_c`."""
        return tuple(self._key_text(unit) for unit in self.differing)

    def _text(self, unit: Unit, params: Params) -> str:
        if len(unit) > 1:
            return _joint(unit).join(str(params.get(key)) for key in unit)
        (key,) = unit
        value = params.get(key)
        if key in self.flags:
            return self._flag_text(key, on=bool(value))
        return "" if value is None else _value_text(key, value)

    def _flag_text(self, key: str, *, on: bool) -> str:
        is_named = (key,) not in self.differing or on != (key in self.usual_flags)
        word = self.flags[key]
        return (word if on else f"no {word}") if is_named else ""

    def _key_text(self, unit: Unit) -> str:
        """`B_r\u00d7B_c`, or `Q/K/V_loads`: keys in the way in which their values are joined."""
        if len(unit) > 1 and _joint(unit) == "/" and _place(unit) == 0:
            common_tail = unit[-1].removeprefix(_parts(unit[-1])[0])
            return f"{'/'.join(_parts(key)[0] for key in unit)}{common_tail}"
        return _joint(unit).join(unit) if len(unit) > 1 else self.flags.get(unit[0], unit[0])

    def _is_flag(self, key: str) -> bool:
        values = [variant.params[key] for variant in self.family if key in variant.params]
        return all(isinstance(value, bool) for value in values)

    def _flag_word(self, key: str) -> str:
        """Word that the names have where a flag is on (`opt_softmax`), else its key."""
        states = [bool(variant.params.get(key)) for variant in self.family]
        name_words = sorted(set().union(*self._words), key=lambda word: (-len(word), word))
        for word in name_words:
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
        return self._varying.issuperset(unit) and self._are_numbers(unit)

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


# ---- names ---------------------------------------------------------------------------------------


LONGEST_PLAIN = 24
"""Characters of a name that is used as it is: tables of 80 columns have room for it."""
_LEAST_SAVED = 10
"""Characters that leaving out the words that all have must save."""
LONGEST_LABEL = 48
_LONGEST_NOTE = 32
JOINT = " \u00b7 "
CUT = "\u2026"
_NUMBERED = re.compile(r"[A-Za-z]*[-_ .]?(\d+)")
_PIECES = re.compile(r"[A-Za-z]+|\d+(?:\.\d+)?")
_CLAUSE = re.compile(r"[;:,.(]\s")
_LEADS_ON = re.compile(
    r"(a|an|and|as|at|by|each|for|from|in|into|no|not|of|on|one|or|per|so|than|that|the|then|to"
    r"|where|which|while|with)?"
)
"""Words with which no cut text ends."""


@dataclass(frozen=True)
class VariantName:
    """Label, full name and chips of a variant."""

    label: str
    """Shortest text that no other variant of the report has."""
    full: str
    """The name as the spec or the workload gives it."""
    chips: tuple[Chip, ...] = ()
    """Values that tell the variant from the others; empty where these have other parameters."""

    @property
    def shortened(self) -> bool:
        """Whether the full name says more than the label."""
        return self.label != self.full

    @property
    def is_chips(self) -> bool:
        """Whether the label is made of the chips."""
        return self.shortened and self.label == JOINT.join(self.chips)


@dataclass(frozen=True)
class Names:
    """Names of all variants of a report, aliases and references included."""

    by_variant: Mapping[str, VariantName]
    """By variant id."""
    family: frozenset[str]
    """Ids of the variants whose parameters are compared: all but references of another kind."""
    shared_chips: tuple[Chip, ...]
    """Chips that all variants of the family have."""
    usual_flags: tuple[Chip, ...]
    """Flags that most variants have: the labels of the others say `no …`."""
    chip_keys: tuple[str, ...]
    """Parameters that chips are values of, in their order: `dtype`, `B_r\u00d7B_c`, `buffer`."""

    def name_of(self, variant: Variant) -> VariantName:
        """Short and full name of a variant, and its chips."""
        return self.by_variant[variant.id]

    def label(self, variant: Variant) -> str:
        """Shortest text that no other variant of the report has."""
        return self.by_variant[variant.id].label

    @cached_property
    def from_parameters(self) -> bool:
        """Whether any label is made of chips, so that `shared` and `keys` are needed to read it."""
        return any(name.is_chips for name in self.by_variant.values())


def names_in_plan(plan: Plan, kind: PageKind) -> Names:
    """Names of the variants of a plan, on pages of a kind."""
    references = {plan.baseline or "", *plan.references}
    return find_names(plan.variants, references=references, ladder=LADDER in kind.finds)


def find_names(
    variants: Sequence[Variant], *, references: Collection[str] = (), ladder: bool = False
) -> Names:
    """Names of variants, from what differs among them.

    `references`: ids of those that others are compared with. `ladder`: whether the variants are
    versions, each made from the one before.
    """
    family = _family(variants, references)
    # Labels of all that differs, or of less where one of them would be too long.
    for shorter in ({}, {"terse": True}, {"terse": True, "dense": True}):
        maker = _Labels(tuple(variants), ParameterWords(family, **shorter))
        if all(len(text) <= LONGEST_LABEL for text in maker.of_parameters.values()):
            break
    parameter_words = maker.parameter_words
    labels = {variant.id: maker.label(variant) for variant in variants}
    if ladder:
        labels |= _ladder_labels([item for item in variants if item.id not in references])
    labels = _unique_labels(labels, {item.id: " ".join(item.name.split()) for item in variants})
    members = frozenset(variant.id for variant in parameter_words.family)
    return Names(
        by_variant={
            variant.id: VariantName(
                label=labels[variant.id],
                full=variant.name,
                chips=parameter_words.differing_chips(variant.params)
                if variant.id in members
                else (),
            )
            for variant in variants
        },
        family=members,
        shared_chips=parameter_words.shared_chips(),
        usual_flags=tuple(parameter_words.flags[key] for key in parameter_words.usual_flags),
        chip_keys=parameter_words.differing_keys(),
    )


def _family(variants: Sequence[Variant], references: Collection[str]) -> tuple[Variant, ...]:
    """Variants whose parameters can be compared.

    A reference belongs to them where it has what all others have, and nothing else.
    """
    rivals = [set(variant.params) for variant in variants if variant.id not in references]
    rivals = [keys for keys in rivals if keys]
    if not rivals:
        return ()
    common, every = set.intersection(*rivals), set.union(*rivals)
    if not common:
        return ()
    return tuple(
        variant for variant in variants if variant.params and common <= set(variant.params) <= every
    )


@dataclass(frozen=True)
class _Labels:
    """Labels of variants by their own names and parameters."""

    variants: tuple[Variant, ...]
    parameter_words: ParameterWords

    def label(self, variant: Variant) -> str:
        """Label of a variant; that of another may be the same."""
        if len(variant.name) <= LONGEST_PLAIN:
            return " ".join(variant.name.split())
        text = self.of_parameters.get(variant.id) or self._differing_words(variant.name.split())
        fitted = _fitted_text(text, LONGEST_LABEL)
        begin = fitted.removesuffix(CUT)
        is_begin_of_another = any(
            id_ != variant.id and other.startswith(begin)
            for id_, other in self.of_parameters.items()
        )
        return _fitted_chips(text) if fitted != text and is_begin_of_another else fitted

    @cached_property
    def of_parameters(self) -> Mapping[str, str]:
        """Parameters that differ, by variant id: of long names that say nothing else."""
        return {
            variant.id: JOINT.join(self.parameter_words.differing_chips(variant.params))
            for variant in self._long_in_family
            if self._says_parameters(variant)
        }

    @cached_property
    def _long(self) -> tuple[Variant, ...]:
        """Variants with names that are too long."""
        return tuple(item for item in self.variants if len(item.name) > LONGEST_PLAIN)

    @cached_property
    def _long_in_family(self) -> tuple[Variant, ...]:
        """Long names of the family where most are: beside short ones, parameters tell little."""
        members = {variant.id for variant in self.parameter_words.family}
        family = tuple(item for item in self._long if item.id in members)
        return family if 2 * len(family) > len(members) else ()

    @cached_property
    def _pieces_of_all(self) -> frozenset[str]:
        """Pieces that all long names of the family have, where there are several."""
        if len(self._long_in_family) < 2:
            return frozenset()
        return frozenset.intersection(*(_pieces(item.name) for item in self._long_in_family))

    @cached_property
    def _shared_words(self) -> tuple[int, int]:
        """Number of words that all long names begin with, and that they end with."""
        names = [variant.name.split() for variant in self._long]
        head = _common_word_count(names)
        return head, _common_word_count([name[head:][::-1] for name in names])

    def _says_parameters(self, variant: Variant) -> bool:
        """Whether all that a name has beside the other long names is in its parameters."""
        return all(
            _is_of_parameters(piece, variant.params) or piece in self._derived_numbers
            for piece in _pieces(variant.name) - self._pieces_of_all
        )

    @cached_property
    def _derived_numbers(self) -> frozenset[str]:
        """Numbers of names that are no parameter, and stand for certain values of one.

        192 rows are what three consumers have.
        """
        pieces_of = {item.id: _pieces(item.name) for item in self._long_in_family}
        numbers = {piece for pieces in pieces_of.values() for piece in pieces if piece[0].isdigit()}
        return frozenset(piece for piece in numbers if self._is_derived(piece, pieces_of))

    def _is_derived(self, piece: str, pieces_of: Mapping[str, frozenset[str]]) -> bool:
        with_piece = [item for item in self._long_in_family if piece in pieces_of[item.id]]
        derived = [item for item in with_piece if not _is_of_parameters(piece, item.params)]
        without = [item for item in self._long_in_family if piece not in pieces_of[item.id]]
        return any(
            {item.params.get(key) for item in derived}.isdisjoint(
                item.params.get(key) for item in without
            )
            for key in self.parameter_words.keys
        )

    def _differing_words(self, name: Sequence[str]) -> str:
        """A long name without the words that all long names begin or end with."""
        # Beside short names, what few long ones share tells them from the others.
        most_are_long = 2 * len(self._long) > len(self.variants)
        head, tail = self._shared_words if most_are_long else (0, 0)
        middle = name[head : len(name) - tail]
        full_name = " ".join(name)
        if not middle or len(full_name) - len(" ".join(middle)) < _LEAST_SAVED:
            return full_name
        return " ".join([*([CUT] if head else []), *middle, *([CUT] if tail else [])])


def _pieces(name: str) -> frozenset[str]:
    """Words and numbers of a name."""
    return frozenset(piece.lower() for piece in _PIECES.findall(name))


def _is_of_parameters(piece: str, params: Params) -> bool:
    """Whether a number is a value, or a word begins a word of a key or a value."""
    texts = [text for key, value in params.items() for text in (key, str(value))]
    parameter_pieces = [part.lower() for text in texts for part in _PIECES.findall(text)]
    return any(
        word.startswith(piece) if piece.isalpha() else word == piece for word in parameter_pieces
    )


def _common_word_count(rows: Iterable[Sequence[str]]) -> int:
    """Number of words with which all rows begin."""
    columns = zip(*rows, strict=False)
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))


def _ladder_labels(versions: Sequence[Variant]) -> dict[str, str]:
    """Number and note of each version, by id; none where names are not a word and a number."""
    numbers = [_NUMBERED.fullmatch(version.name) for version in versions]
    values = [int(match.group(1)) for match in numbers if match]
    if len(set(values)) < len(versions):
        return {}
    return {
        version.id: f"{number}: {_short_note(version.note)}"
        for version, number in zip(versions, values, strict=True)
        if version.note
    }


def _short_note(note: str) -> str:
    """A note that fits; of a longer one its first clause, else its first words."""
    if len(note) <= _LONGEST_NOTE:
        return note
    return _fitted_text(_CLAUSE.split(note, maxsplit=1)[0], _LONGEST_NOTE)


def _fitted_text(text: str, longest: int) -> str:
    """A text cut between two words, where it is too long."""
    if len(text) <= longest:
        return text
    fitting_words = text[:longest].split(" ")[:-1]
    while fitting_words and _LEADS_ON.fullmatch(fitting_words[-1].strip("\u00b7,;:").lower()):
        fitting_words.pop()
    return f"{' '.join(fitting_words) or text[: longest - 1]}{CUT}"


def _fitted_chips(text: str) -> str:
    """Chips of which the longest is cut in its middle, so that the others stay whole."""
    chips = text.split(JOINT)
    longest = max(chips, key=len)
    room = LONGEST_LABEL - (len(text) - len(longest)) - len(CUT)
    if room < _LEAST_SAVED:
        return _fitted_text(text, LONGEST_LABEL)
    cut = f"{longest[: room - room // 2]}{CUT}{longest[len(longest) - room // 2 :]}"
    return JOINT.join(cut if chip == longest else chip for chip in chips)


def _unique_labels(labels: Mapping[str, str], fulls: Mapping[str, str]) -> dict[str, str]:
    """Labels by id, of which no two look alike: full names where they meet, else with a number."""
    counts = Counter(labels.values())
    longer = {
        variant: label if counts[label] == 1 else _fitted_text(fulls[variant], LONGEST_LABEL)
        for variant, label in labels.items()
    }
    counts = Counter(longer.values())
    taken_labels = {label for label, count in counts.items() if count == 1}
    unique: dict[str, str] = {}
    for place, (variant, label) in enumerate(longer.items(), start=1):
        numbered = label if counts[label] == 1 else f"{label} (#{place})"
        while counts[label] > 1 and numbered in taken_labels:
            numbered += "'"
        taken_labels.add(numbered)
        unique[variant] = numbered
    return unique
