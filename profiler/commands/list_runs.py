"""`profiler list`: the runs under a folder, oldest first."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from profiler.commands.output import write_json_target
from profiler.errors import ExitCode, UsageError
from profiler.model import SCHEMA_VERSION
from profiler.run_folder.folder import RunFolder, RunRecord, runs
from profiler.sessions.progress import make_console


@dataclass(frozen=True)
class ListRequest:
    """Flags of `profiler list`."""

    out: Path
    json_target: str | None = None
    color: str = "auto"


def list_runs(request: ListRequest) -> ExitCode:
    """Print the runs with their experiment, time, GPU and number of cells."""
    records = [(run, _record(run)) for run in runs(request.out)]
    rows = [
        {
            "run": str(run.path),
            "experiment": record.experiment,
            "created": record.created,
            "gpu": record.environment.gpu,
            "cells": len(record.keys),
        }
        for run, record in records
        if record is not None
    ]
    write_json_target({"schema_version": SCHEMA_VERSION, "runs": rows}, request.json_target)
    if request.json_target != "-":
        from profiler.render.console.tables import runs_table

        make_console(request.color).print(runs_table(rows))
    return ExitCode.COMPLETE


def _record(run: RunFolder) -> RunRecord | None:
    """Record of a run; None for one that cannot be read, which stderr names."""
    try:
        return run.record()
    except UsageError as error:
        sys.stderr.write(f"profiler: left out: {error}\n")
        return None
