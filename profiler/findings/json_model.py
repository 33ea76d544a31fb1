"""Documents as JSON: each field is declared once, with its type, its source and its description.

    class RoofDocument(JsonObject):
        get = Source[Roof]()
        name: str = get(lambda roof: roof.name)
        share_pct: Number = get(lambda roof: 100 * roof.share)

    class KernelDocument(JsonObject):
        get = Source[Kernel]()
        roofs = get.rows(RoofDocument, lambda kernel: kernel.roofs)

`RoofDocument.document(roof)` is the object of a roof; the JSON Schema in docs is made of the types,
which fields of other objects bring along, and of the texts below the class and its fields. Missing
is null.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import GenericAlias
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    Protocol,
    TypeVar,
    cast,
    get_type_hints,
)

import pandas as pd
import pydantic

from profiler import notices
from profiler.model import Variant
from profiler.notices import Notice

S = TypeVar("S")
Q = TypeVar("Q")
T = TypeVar("T")
R = TypeVar("R", bound=NamedTuple)
Number = float | None
"""Missing is null."""
ABSENT: Any = object()
"""In place of a value: the document lacks the key."""


class Kind(Protocol[Q]):
    """A `JsonObject` class that is made of sources of a type."""

    get: Source[Q]
    fields: dict[str, Any]

    def document(self, source: Any) -> dict[str, Any]:
        """The object of a source."""


@dataclass(frozen=True)
class _Field:
    value: Callable[[Any], Any]
    optional: bool = False
    """Whether the key may be absent."""
    is_spread: bool = False
    """Whether `value` gives keys with their values, which stand in place of this one."""
    kind: Any = None
    """Class that declares the fields of what is spread; None: it is in no schema."""
    type: Any = None
    """Type of a field without an annotation, which has one where it holds other objects."""


class Source(Generic[S]):
    """Declares the fields of a `JsonObject`, each by what it is of a source.

    As with `dataclasses.field`, what a type checker sees is the type of the value.
    """

    def __init__(self, holds: Callable[[S], object] | None = None) -> None:
        self._holds = holds

    def where(self, holds: Callable[[S], object]) -> Source[S]:
        """Declares values of the sources that this holds of; documents of others lack the keys."""
        return Source(holds)

    def __call__(self, value: Callable[[S], T], *, optional: bool = False) -> T:
        """Field with a plain value."""
        return cast(T, self._field(value, optional=optional))

    def one_of(self, value: Callable[[S], object]) -> Any:
        """Field with a value of a Literal."""
        return self._field(value)

    def _field(self, value: Callable[[S], object], *, optional: bool = False) -> _Field:
        holds = self._holds
        if holds is None:
            return _Field(value, optional)
        return _Field(lambda source: value(source) if holds(source) else ABSENT, optional=True)

    def nested(
        self, kind: Kind[Q], source: Callable[[S], Q | None], *, optional: bool = False
    ) -> Any:
        """Another object; without a source null, or no key if it is `optional`."""
        document = _unless_missing(source, kind.document, ABSENT if optional else None)
        return _Field(document, optional, type=cast(Any, kind) | None)

    def part(self, kind: Kind[Q], source: Callable[[S], Q]) -> Any:
        """Another object that is always there."""
        return _Field(lambda parent: kind.document(source(parent)), type=kind)

    def rows(
        self,
        kind: Kind[Q],
        sources: Callable[[S], Iterable[Q] | None],
        *,
        optional: bool = False,
        most: int | None = None,
    ) -> Any:
        """A list of `most` objects; no key where there are no sources, if it is `optional`."""
        documents = _unless_missing(sources, lambda parts: [*map(kind.document, parts)], ABSENT)
        return _Field(documents, optional, type=pydantic.conlist(cast(Any, kind), max_length=most))

    def by_name(self, kind: Kind[Q], sources: Callable[[S], Mapping[str, Q] | None]) -> Any:
        """Objects of one kind by their names; null without sources."""

        def documents(parts: Mapping[str, Q]) -> dict[str, Any]:
            return {name: kind.document(part) for name, part in parts.items()}

        of_kind = GenericAlias(dict, (str, kind))
        return _Field(_unless_missing(sources, documents, None), type=of_kind)

    def spread(
        self, kind: Kind[Q], source: Callable[[S], Q | None], *, optional: bool = False
    ) -> Any:
        """All fields of another kind; without a source null, or no keys if they are `optional`."""
        missing = {} if optional else dict.fromkeys(kind.fields)
        document = _unless_missing(source, kind.document, missing)
        return _Field(document, optional, is_spread=True, kind=kind)

    def record(self, kind: type[R], source: Callable[[S], R]) -> Any:
        """All fields of a named tuple, with its types and the texts below them; NaN is null."""
        return _Field(lambda parent: source(parent)._asdict(), is_spread=True, kind=kind)

    def further_keys(self, value: Callable[[S], Mapping[str, Any]]) -> Any:
        """Further keys, with their values, that stand in no schema."""
        return _Field(value, is_spread=True)


def _unless_missing(
    source: Callable[[S], Q | None], value: Callable[[Q], Any], missing: Any
) -> Callable[[S], Any]:
    def value_of(parent: S) -> Any:
        part = source(parent)
        return missing if part is None else value(part)

    return value_of


class JsonObject:
    """A kind of object in a document, the keys in the order of its fields.

    `is_open`: a document may have other keys beside these. A field without a type is one of them.
    """

    fields: ClassVar[dict[str, _Field]]
    _is_open: ClassVar[bool]
    _plain: ClassVar[tuple[tuple[str, Callable[[Any], Any]], ...]]
    """Values by key where every key is always there; else empty."""

    def __init_subclass__(cls, *, is_open: bool = False) -> None:
        """Collect the fields."""
        fields = {key: field for key, field in vars(cls).items() if isinstance(field, _Field)}
        cls.fields, cls._is_open = fields, is_open
        always = not any(field.optional or field.is_spread for field in fields.values())
        cls._plain = tuple((key, fields[key].value) for key in fields if always)

    @classmethod
    def document(cls, source: Any) -> dict[str, Any]:
        """The object of a source."""
        if cls._plain:  # tens of thousands in a report
            return {key: value(source) for key, value in cls._plain}
        document: dict[str, Any] = {}
        for key, field in cls.fields.items():
            value = field.value(source)
            if field.is_spread:
                document.update(value)
            elif value is not ABSENT:
                document[key] = value
        return document

    @classmethod
    @cache
    def model(cls) -> type[pydantic.BaseModel]:
        """The pydantic model of such objects."""
        return pydantic.create_model(
            cls.__name__.removesuffix("Document"),
            __config__=pydantic.ConfigDict(extra="allow" if cls._is_open else "forbid"),
            __doc__=inspect.getdoc(cls),
            **_keys(cls),
        )

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, handler: Callable[[Any], Any]) -> Any:
        """The model of the class, as pydantic's type of a field."""
        return handler(cls.model())

    @classmethod
    def schema_text(cls) -> str:
        """The JSON Schema as it stands in docs."""
        return json.dumps(cls.model().model_json_schema(), indent=1) + "\n"


def _keys(kind: Any) -> dict[str, Any]:
    """Type and default of each key of a `JsonObject` or a named tuple, as pydantic takes them."""
    types = _described_types(kind)
    if not issubclass(kind, JsonObject):
        return {key: (types[key], ...) for key in types}
    keys: dict[str, Any] = {}
    for key, field in kind.fields.items():
        default = None if field.optional else ...
        if field.kind is not None:
            spread = _keys(field.kind).items()
            keys |= {name: (kind, unset and default) for name, (kind, unset) in spread}
        elif key in types:
            keys[key] = types[key], default
    return keys


def _described_types(kind: type) -> dict[str, Any]:
    """Types of the fields of a class, with the texts below them; NaN of a named tuple is null."""
    definition: Any = ast.parse(inspect.getsource(kind)).body[0]
    types = get_type_hints(kind, include_extras=True)
    if not issubclass(kind, JsonObject):
        types = {key: Number if types[key] is float else types[key] for key in types}
    held = {key: field.type for key, field in vars(kind).items() if isinstance(field, _Field)}
    types = {key: of_field for key, of_field in held.items() if of_field is not None} | types
    for field, below in itertools.pairwise(definition.body):
        if isinstance(field, ast.AnnAssign | ast.Assign) and isinstance(below, ast.Expr):
            target = field.target if isinstance(field, ast.AnnAssign) else field.targets[0]
            key, text = ast.unparse(target), ast.literal_eval(below.value)
            types[key] = Annotated[types[key], pydantic.Field(description=" ".join(text.split()))]
    return types


_LARGEST_EXACT = 2**53
"""Integers below it are exact as floats, so that a float may be written as one."""


def json_value(value: Any) -> Any:
    """A plain value: None where it is missing or not finite, an integer for a whole float."""
    if value is None or value is pd.NA:
        return None
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, float):
        if not math.isfinite(plain):
            return None
        return int(plain) if plain.is_integer() and abs(plain) < _LARGEST_EXACT else plain
    return plain


class NoticeDocument(JsonObject):
    """A warning, in every document."""

    get = Source[Notice]()
    kind: str = get(lambda notice: notice.kind.key)
    severity: str = get(lambda notice: notices.severity(notice).value)
    text: str = get(notices.text)
    remedy: str = get(notices.remedy)
    """empty where there is nothing to do"""


class NamedDocument(JsonObject):
    """A variant by its full name, and by the short one that page and console have."""

    get = Source[Variant]()
    variant: str = get(lambda variant: variant.name)
    label: str = get(lambda variant: variant.label)
    """short name of the variant, as page and console have it"""
