"""The experiment file: YAML → `Experiment`, with file and line in every error.

Values from the command line (`--set collect.blocks=16`) are laid over those of the file.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from profiler.errors import SpecError, UsageError
from profiler.planning.spec.cuda_file import CudaWorkload
from profiler.planning.spec.faults import faults_of, written_path
from profiler.planning.spec.models import (
    Build,
    Collect,
    Experiment,
    Item,
    Page,
    Timeline,
    Tolerance,
    VariantItem,
)
from profiler.planning.spec.rules import Rule
from profiler.planning.spec.source import (
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
from profiler.planning.spec.workloads import CommandWorkload, ModuleWorkload

__all__ = [
    "Build",
    "Collect",
    "CommandWorkload",
    "CudaWorkload",
    "Experiment",
    "Item",
    "LoadedSpec",
    "ModuleWorkload",
    "Page",
    "Rule",
    "Timeline",
    "Tolerance",
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

    @property
    def base(self) -> Path:
        """Folder that relative paths in the file refer to."""
        return self.path.parent

    @property
    def shown_path(self) -> str:
        """The file as a reader may type it: relative, never with a folder of this machine."""
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
    parsed = parse_overrides(overrides)
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
    for override in reversed(overrides):
        if field and override.touches(field, in_file=in_file):
            return f"{override.flag}: {fault.field}: {fault.text}"
    name = f" {fault.field}:" if fault.field else ""
    return f"{document.path}:{fault.line}:{name} {fault.text}"


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the experiment file, for editors."""
    schema = Experiment.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


# ---- values from the command line ----------------------------------------------------------------


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
