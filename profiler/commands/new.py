"""Commands before a first run: `profiler new`, `profiler schema` and `profiler doctor`.

A folder with an experiment that works; the JSON Schema for its editor; everything that a run needs,
and what is missing.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from profiler.commands.output import write_json_target
from profiler.commands.requests import DoctorRequest, NewRequest, SchemaRequest
from profiler.errors import ExitCode, UsageError
from profiler.machine.console import make_console
from profiler.model import SCHEMA_VERSION
from profiler.planning.spec import json_schema
from profiler.planning.spec.values import did_you_mean
from profiler.run_folder.documents import write_atomic

_PLACEHOLDER = "NAME"
_SUFFIX = ".in"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


def make_new(request: NewRequest) -> ExitCode:
    """Write the folder of a new experiment, and print the next commands."""
    if not _NAME.fullmatch(request.name):
        raise UsageError(
            f"{request.name}: a name begins with a letter, and has letters, digits, _ and - only"
        )
    template = _templates().get(request.kind)
    if template is None:
        hint = did_you_mean(request.kind, _templates())
        raise UsageError(f"{request.kind}: no such kind of experiment{hint}")
    target = request.folder / request.name
    if target.exists():
        raise UsageError(f"{target} exists already.", remedy="Choose another name.")
    written_files = [_write(file, target, request.name) for file in template.iterdir()]
    spec = next(path for path in sorted(written_files) if path.suffix in (".yaml", ".py"))
    console = make_console(request.color)
    for path in sorted(written_files):
        console.print(f"{path}")
    built = f"make -C {target} && " if target / "Makefile" in written_files else ""
    console.print(f"Next: {built}python -m profiler plan {spec}")
    return ExitCode.COMPLETE


def _templates() -> dict[str, Traversable]:
    """Folder of each kind of template, by its name."""
    folder = files("profiler.commands").joinpath("templates")
    return {kind.name: kind for kind in folder.iterdir() if kind.is_dir()}


def _write(file: Traversable, target: Path, name: str) -> Path:
    """Write a file of a template under the name of the experiment; returns its path."""
    path = target / file.name.removesuffix(_SUFFIX).replace(_PLACEHOLDER, name)
    write_atomic(path, file.read_text(encoding="utf-8").replace(_PLACEHOLDER, name))
    return path


def show_schema(_: SchemaRequest) -> ExitCode:
    """Print the JSON Schema of the experiment file."""
    sys.stdout.write(json.dumps(json_schema(), indent=2) + "\n")
    return ExitCode.COMPLETE


def show_doctor(request: DoctorRequest) -> ExitCode:
    """Print every check with its remedy; ENVIRONMENT where something essential is missing."""
    from profiler.machine.doctor import missing_essentials, run_checks

    checks = run_checks()
    document = {"schema_version": SCHEMA_VERSION, "checks": [asdict(check) for check in checks]}
    write_json_target(document, request.json_target)
    if request.json_target != "-":
        from profiler.render.console.lists import doctor_table

        make_console(request.color).print(doctor_table(check.row for check in checks))
    return ExitCode.ENVIRONMENT if missing_essentials(checks) else ExitCode.COMPLETE
