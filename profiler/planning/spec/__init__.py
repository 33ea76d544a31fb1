"""The experiment file: YAML → `Experiment`, with file and line in every error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from profiler.errors import SpecError
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
from profiler.planning.spec.overrides import Override, apply_overrides, parse_overrides
from profiler.planning.spec.rules import Rule
from profiler.planning.spec.source import Document, Fault, FieldPath, field_name, read_document
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
