"""`profiler list`: the runs under a folder, as their index shows them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from profiler.commands.output import write_json_target
from profiler.comparison.run_entries import RunEntry, read_entries, run_states
from profiler.errors import ExitCode
from profiler.findings.runs.history import BestChange, changes, point_of
from profiler.model import SCHEMA_VERSION
from profiler.sessions.progress import make_console


@dataclass(frozen=True)
class ListRequest:
    """Flags of `profiler list`."""

    out: Path
    json_target: str | None = None
    color: str = "auto"


def list_runs(request: ListRequest) -> ExitCode:
    """Print the runs by experiment, the newest first, each with its answer and its verdict."""
    entries = read_entries(request.out, run_states(request.out), _say)
    rows = list(_rows(request.out, entries))
    write_json_target({"schema_version": SCHEMA_VERSION, "runs": rows}, request.json_target)
    if request.json_target != "-":
        from profiler.render.console.tables import runs_table

        make_console(request.color).print(runs_table(entries))
    return ExitCode.COMPLETE


def _say(text: str) -> None:
    sys.stderr.write(f"profiler: {text}\n")


def _rows(out: Path, entries: Sequence[RunEntry]) -> Iterator[dict[str, Any]]:
    for _, of_experiment in groupby(entries, lambda entry: entry.experiment):
        runs = tuple(of_experiment)
        changed = changes(runs)
        for run in runs:
            yield _row(out, run, changed.get(run.folder))


def _row(out: Path, run: RunEntry, change: BestChange | None) -> dict[str, Any]:
    point = point_of(run) if run.best else None
    return {
        "run": str(out / run.folder),
        "experiment": run.experiment,
        "created": run.created,
        "replayed": run.replayed,
        "gpu": run.gpu or None,
        "commit": run.commit or None,
        "cells": run.cells,
        "answer": run.answer or None,
        "baseline": run.baseline,
        "ratio": point and point.ratio,
        "ratio_low": point and point.low,
        "ratio_high": point and point.high,
        "verdict": change and change.verdict.value,
        "against": change and str(out / change.older.folder),
    }
