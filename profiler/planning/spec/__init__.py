"""The experiment file: YAML → `Experiment`, with file and line in every error.

Values from the command line (`--set collect.blocks=16`) are laid over those of the file.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from profiler.errors import SpecError, UsageError, close_hint, without_pydantic
from profiler.planning.problem_names import is_number
from profiler.planning.spec.collect import DEVICES, Collect
from profiler.planning.spec.cuda_file import CudaWorkload
from profiler.planning.spec.items import Item, Rule, VariantItem
from profiler.planning.spec.models import Experiment
from profiler.planning.spec.source import (
    IN_QUOTES,
    Document,
    Fault,
    FieldPath,
    Key,
    field_name,
    kind_of,
    parse_value,
    read_document,
)
from profiler.planning.spec.values import did_you_mean
from profiler.planning.spec.workloads import KINDS, CommandWorkload, ModuleWorkload

__all__ = [
    "Collect",
    "CommandWorkload",
    "CudaWorkload",
    "Experiment",
    "Item",
    "LoadedSpec",
    "ModuleWorkload",
    "Rule",
    "VariantItem",
    "check_document",
    "did_you_mean",
    "json_schema",
    "load_spec",
]


@dataclass(frozen=True)
class LoadedSpec:
    """An experiment, and the file that it came from."""

    experiment: Experiment
    text: str
    """The file as given."""
    path: Path
    """Relative paths in the file are relative to its folder."""
    document: Document
    overrides: tuple[Override, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences to warn of, by the process that imported a Python file."""

    @property
    def base(self) -> Path:
        """Folder that relative paths in the file refer to."""
        return self.path.parent

    @property
    def shown_path(self) -> str:
        """The file as a reader may type it: a relative path, without folders of this machine."""
        if not self.path.is_absolute():
            return self.path.as_posix()
        try:
            return self.path.relative_to(Path.cwd()).as_posix()
        except ValueError:
            return self.path.name

    @property
    def flags(self) -> tuple[str, ...]:
        """The overrides as given on the command line, for the record."""
        return tuple(override.raw for override in self.overrides)

    @property
    def compiler_flags(self) -> tuple[str, ...]:
        """Flags of nvcc; the folders of `-I` and `-L` that lie beside the file are absolute.

        Others start from the folder of the source that is compiled.
        """
        return tuple(map(self._from_base, self.experiment.build.flags))

    def _from_base(self, flag: str) -> str:
        if not flag.startswith(("-I", "-L")):
            return flag
        folder = (self.base / flag[2:]).absolute()
        return f"{flag[:2]}{folder}" if folder.is_dir() else flag

    def error(self, field: FieldPath, message: str, *, remedy: str | None = None) -> SpecError:
        """Error about one field, with its file and line (or its flag)."""
        path = written_path(field, self.document)
        fault = Fault(self.document.line(path), field_name(path), message)
        return SpecError(_line(fault, path, self.document, self.overrides), remedy=remedy)


def load_spec(path: Path, *, overrides: Sequence[str] = ()) -> LoadedSpec:
    """Read and check an experiment file, with `key=value` overrides laid over it.

    Raises `SpecError` with one line for everything that is wrong in the file, and `UsageError` for
    an override that cannot be read.
    """
    return check_document(read_document(path), overrides=overrides)


def check_document(document: Document, *, overrides: Sequence[str] = ()) -> LoadedSpec:
    """Check an experiment, with `key=value` overrides laid over it; raises as `load_spec`."""
    parsed = tuple(_parse(raw) for raw in overrides)
    faults: list[tuple[Fault, FieldPath]] = [(fault, ()) for fault in document.faults]
    try:
        experiment = Experiment.model_validate(apply_overrides(document.data, parsed))
    except ValidationError as error:
        faults += faults_of(error, document)
    if faults:
        faults.sort(key=lambda located: located[0].line)
        lines = [_line(fault, field, document, parsed) for fault, field in faults]
        raise SpecError("\n".join(dict.fromkeys(lines)))
    return LoadedSpec(
        experiment=experiment,
        text=document.text,
        path=document.path,
        document=document,
        overrides=parsed,
    )


def _line(fault: Fault, field: FieldPath, document: Document, overrides: Sequence[Override]) -> str:
    in_file = document.holds(field)
    flags = [item.flag for item in overrides if field and item.touches(field, in_file=in_file)]
    if flags:
        return f"{' '.join(flags)}: {fault.field}: {fault.text}"
    name = f" {fault.field}:" if fault.field else ""
    return f"{document.path}:{fault.line}:{name} {fault.text}"


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the experiment file, for editors."""
    schema = Experiment.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


# ---- from pydantic's errors to lines a user can act on -----------------------------------------

_INTERNAL = re.compile(r"\(.*\)|\[key\]")
_QUOTED = re.compile(r"'([^']*)'")


def faults_of(error: ValidationError, document: Document) -> Iterator[tuple[Fault, FieldPath]]:
    """Every error as a fault and its field, without faults that the document knows already."""
    for details in error.errors(include_url=False):
        if _is_key_of_wrong_type(details) or _is_echo(details):
            continue
        field = written_path(details["loc"], document)
        is_text = details["type"] == "string_type"
        text = _message(details) + right_form(field, details["input"], is_text=is_text)
        yield Fault(document.line(field), field_name(field), text), field


def written_path(loc: Iterable[int | str], document: Document) -> FieldPath:
    """Path as written in the file, without the steps that short forms add.

    `block: 128` is read as `block: [128]`, so that pydantic speaks of `block[0]`.
    """
    path: FieldPath = ()
    for key in loc:
        internal = isinstance(key, str) and _INTERNAL.fullmatch(key)
        if not internal and not _added_by_short_form(path, key, document):
            path = (*path, key)
    return path


def _added_by_short_form(parent: FieldPath, key: int | str, document: Document) -> bool:
    if not document.holds(parent) or document.holds((*parent, key)):
        return False
    return isinstance(key, int) or key == "params" or not document.is_mapping(parent)


def _is_key_of_wrong_type(details: ErrorDetails) -> bool:
    loc = details["loc"]
    return details["type"] == "invalid_key" or (
        loc[-1:] == ("[key]",) and not isinstance(loc[-2], str)
    )


def _is_echo(details: ErrorDetails) -> bool:
    """Whether a list is too short only because its items are wrong, which is reported too."""
    return details["type"] == "too_short" and bool(details["input"])


def _message(details: ErrorDetails) -> str:
    """Message of an error; rewritten where pydantic's is not made for users."""
    loc, value_text = details["loc"], _shown(details["input"])
    kind = details["type"]
    if kind == "extra_forbidden":
        hint = misplaced_parameter(_plain_path(loc), details["input"]) or _right_place(loc)
        return f"unknown key{hint or did_you_mean(loc[-1], known_keys(loc[:-1]))}"
    if kind == "literal_error":
        expected = str(details["ctx"]["expected"])
        close = close_hint(details["input"], _QUOTED.findall(expected))
        return f"must be {expected}, not {value_text}{close}"
    own_messages = {
        "wrong": details["msg"],
        "missing": "missing; this key is required",
        "too_short": "must not be empty",
        "model_type": f"must be a mapping, not {value_text}",
        "bool_parsing": f"must be true or false, not {value_text}",
        "bool_type": f"must be true or false, not {value_text}",
        "too_long": _too_long(details),
        "string_pattern_mismatch": f"{_wanted_text(details)}, not {value_text}",
    }
    message = without_pydantic(details["msg"])
    return own_messages.get(kind, f"{message[:1].lower()}{message[1:]}, not {value_text}")


def _wanted_text(details: ErrorDetails) -> str:
    """Requirement on a text, in words where they are shorter than the pattern."""
    pattern = str(details.get("ctx", {}).get("pattern"))
    if pattern == DEVICES:
        return "must be auto, cpu, cuda, or a GPU by its number such as cuda:1"
    return f"must match the pattern '{pattern}'"


def _too_long(details: ErrorDetails) -> str:
    lengths = details.get("ctx", {})
    return f"has {lengths.get('actual_length')} values; there may be {lengths.get('max_length')}"


def _plain_path(loc: Iterable[int | str]) -> FieldPath:
    return tuple(key for key in loc if isinstance(key, int) or not _INTERNAL.fullmatch(key))


def _shown(value: object) -> str:
    if isinstance(value, dict | list | tuple) or value is None:
        return kind_of(value if not isinstance(value, tuple) else list(value))
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _right_place(loc: FieldPath) -> str:
    """`; it stands …` for a key of another part of the file; else empty."""
    if loc[-1] in known_keys(()):
        return f"; {loc[-1]} stands beside {loc[0]}, at the left margin"
    sections = [name for name in known_keys(()) if loc[-1] in known_keys((name,))]
    return f"; {loc[-1]} stands in {sections[0]}" if sections and loc[0] not in sections else ""


def known_keys(loc: Iterable[int | str]) -> tuple[str, ...]:
    """The keys that the mapping at `loc` may have; empty where any key is allowed."""
    models: tuple[type[BaseModel], ...] = (Experiment,)
    for key in loc:
        if isinstance(key, str) and key in KINDS:
            models = (KINDS[key],)
        elif isinstance(key, str) and (models_below := _field_models(models, key)):
            models = models_below
    return tuple(name for model in models for name in _keys(model))


def _field_models(models: Iterable[type[BaseModel]], key: str) -> tuple[type[BaseModel], ...]:
    """Models of the values of a field; empty where the key is a parameter's name."""
    fields = (model.model_fields[key] for model in models if key in model.model_fields)
    return tuple(model for field in fields for model in _models_in(field.annotation))


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def _keys(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def right_form(field: FieldPath, value: object, *, is_text: bool) -> str:
    """`; write …` with the right form of a field's value; empty without a known form.

    `is_text`: whether the field takes text.
    """
    if is_placeholder(value):
        return f'{IN_QUOTES}: "{{{next(iter(value))}}}"'  # type: ignore[call-overload]
    if field in (("variants",), ("problems",)) and isinstance(value, list):
        return f"; write {_section(field[0], value)}"
    if field[:1] == ("tolerance",) and len(field) <= 2 and is_number(value):
        of_one = f"{field[-1]}: {{relative: {value:g}}}, {{absolute: {value:g}}}, or both"
        of_all = f"tolerance: {{default: {{relative: {value:g}}}}}"
        return f"; write {of_all if len(field) == 1 else of_one}"
    if field[:1] == ("variants",) and field[-1] == "arguments":
        return "; write names of workload.arguments, which has every tensor: `x, out, n // 4`"
    if field == ("build", "arch") and isinstance(value, int):
        return f"; write arch: sm_{value}"
    return "; put it in quotes" if is_text and isinstance(value, int | float) else ""


def misplaced_parameter(field: FieldPath, items: object) -> str:
    """`; parameters stand under …` for a key right under `variants` or `problems`; else empty."""
    if len(field) != 2 or field[0] not in ("variants", "problems"):
        return ""
    if not isinstance(items, list) or any(isinstance(value, list | dict) for value in items):
        return ""
    return f"; parameters stand under matrix: {{matrix: {{{field[1]}: {_list(items)}}}}}"


def is_placeholder(value: object) -> bool:
    """Whether a value is YAML's reading of `{kernel}`: a mapping of a name to nothing."""
    return isinstance(value, Mapping) and len(value) == 1 and list(value.values()) == [None]


def _section(name: object, items: list[Any]) -> str:
    if all(isinstance(item, str | dict) for item in items):
        listed_items = ", ".join(item if isinstance(item, str) else "{…}" for item in items[:3])
        return f"{name}: {{list: [{listed_items}{', …' if len(items) > 3 else ''}]}}"
    return f"{name}: {{matrix: {{NAME: {_list(items)}}}}}"


def _list(items: Iterable[Any]) -> str:
    """A short list as YAML writes it."""
    texts = [item if isinstance(item, str) else _scalar(item) for item in items]
    return f"[{', '.join([*texts[:3], *['…'][: len(texts) > 3]])}]"


def _scalar(item: object) -> str:
    is_plain_scalar = isinstance(item, int | float | bool) or item is None
    return json.dumps(item) if is_plain_scalar else kind_of(item)


# ---- values from the command line ----------------------------------------------------------------


@dataclass(frozen=True)
class Override:
    """One `key=value` of the command line."""

    raw: str
    path: FieldPath
    value: Any

    @property
    def flag(self) -> str:
        """The flag as on the command line."""
        return f"--set {self.raw}"

    def touches(self, field: FieldPath, *, in_file: bool) -> bool:
        """Whether an error about a field is about this override."""
        inside = field[: len(self.path)] == self.path
        made_parent = not in_file and self.path[: len(field)] == field
        return inside or made_parent


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
    """A copy of the data with the overrides applied in order.

    Mappings on the way are made where they are missing. Raises `UsageError` where the way leads
    through something that is not a mapping or list, or to a place that a list does not have.
    """
    if not overrides:
        return data
    result = copy.deepcopy(data)
    for override in overrides:
        *parent_keys, last_key = override.path
        place: Any = result
        for depth, key in enumerate(parent_keys):
            place = _enter(place, key, override, depth)
        _enter(place, last_key, override, len(parent_keys))
        place[last_key] = override.value
    return result


def _enter(place: Any, key: Key, override: Override, depth: int) -> Any:
    """Value at `key`; a missing one becomes an empty mapping."""
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
