"""The index of the folder of runs, written after every run; `profiler list` prints the same."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from profiler.commands.output import is_own_page, write_json_target
from profiler.commands.requests import ListRequest
from profiler.comparison.run_entries import (
    NO_DOCUMENTS,
    BestChange,
    RunEntry,
    State,
    cached_entries,
    changes,
    keep_entries,
    newest_listed,
    read_entries,
    read_recordings,
    run_states,
)
from profiler.errors import ExitCode, ProfilerError, UsageError
from profiler.machine.console import make_console
from profiler.model import SCHEMA_VERSION
from profiler.outside_text import safe, safe_values
from profiler.run_folder.archive import find_run
from profiler.run_folder.documents import write_atomic
from profiler.run_folder.runs import recordings_here

_MOST_TRIES = 5
"""Most rewrites of the index for runs that end meanwhile; the last of them write it."""


def write_index(
    out: Path,
    warn: Callable[[str], None],
    documents: Mapping[Path, Mapping[str, Any]] = NO_DOCUMENTS,
) -> Path | None:
    """Path of the written index of the runs under `out`; None, and a warning, where it fails.

    `documents`: new summary.json documents by folder, which take a quarter of a second to read for
    500 cells.
    Two runs that end at once each replace the whole file. What was written last may miss the other
    run, so it is read again whether anything has changed meanwhile.
    """
    from profiler.render.index import INDEX_FILE, render_runs

    target = out / INDEX_FILE
    try:
        if target.is_symlink() or (target.exists() and not is_own_page(target)):
            warn(f"{target} is not of this program: the index of the runs is not written.")
            return None
        written_states: State = {}
        for _ in range(_MOST_TRIES):
            states = run_states(out)
            if states == written_states:
                break
            entries = read_entries(out, states, documents={} if written_states else documents)
            write_atomic(target, render_runs(entries))
            keep_entries(out, entries)
            written_states = states
    except (OSError, ProfilerError) as error:
        warn(f"The index of the runs was not written: {error}")
        return None
    return target


def list_runs(request: ListRequest) -> ExitCode:
    """Print the runs by experiment, the newest first, each with its answer and its verdict."""
    if request.out.exists() and not request.out.is_dir():
        raise UsageError(f"--out {request.out}: is not a folder")
    entries = _read_all_entries(request.out)
    entries += read_recordings(recordings_here().values(), _print_warning)
    selected = entries
    if request.names:
        folders = {
            folder
            for name in request.names
            for folder in _folders_of_name(name, entries, request.out)
        }
        selected = tuple(entry for entry in entries if _path(request.out, entry) in folders)
    if request.json_target is not None:
        selected_folders = {entry.folder for entry in selected}
        rows = [row for folder, row in _rows(request.out, entries) if folder in selected_folders]
        write_json_target({"schema_version": SCHEMA_VERSION, "runs": rows}, request.json_target)
    if request.json_target != "-":
        from profiler.render.console.lists import runs_table

        listed = newest_listed(selected)
        left_out = len(selected) - len(listed)
        make_console(request.color).print(runs_table(safe_values(listed), left_out))
    return ExitCode.COMPLETE


def _read_all_entries(out: Path) -> tuple[RunEntry, ...]:
    """Entries of the runs under a folder; newly read ones are cached."""
    states, cached = run_states(out), cached_entries(out)
    entries = read_entries(out, states, _print_warning, cached=cached)
    if any(folder not in cached or cached[folder].state != states[folder] for folder in states):
        with contextlib.suppress(OSError, ProfilerError):  # the folder may be read-only
            keep_entries(out, entries)
    return entries


def _folders_of_name(name: str, entries: Sequence[RunEntry], out: Path) -> set[Path]:
    """Folders of the runs that a name stands for; raises UsageError where none has it."""
    of_experiment = {_path(out, entry) for entry in entries if name == entry.experiment}
    if of_experiment:
        return of_experiment
    folder = find_run(name, out).resolve()
    named = {path for entry in entries if (path := _path(out, entry)).resolve() == folder}
    if named:
        return named
    raise UsageError(
        f"{name}: not among the runs in {out} and the recordings here",
        remedy=f"`profiler report {name}` prints its answer; --out names another folder of runs.",
    )


def _path(out: Path, entry: RunEntry) -> Path:
    return Path(entry.folder) if entry.kind == "recording" else out / entry.folder


def _print_warning(text: str) -> None:
    sys.stderr.write(f"profiler: {safe(text)}\n")


def _rows(out: Path, entries: Sequence[RunEntry]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Folder and row of each run."""
    for _, of_experiment in groupby(entries, lambda entry: entry.experiment):
        runs = tuple(of_experiment)
        changed = changes(runs)
        for run in runs:
            yield run.folder, _row(out, run, changed.get(run.folder))


def _row(out: Path, run: RunEntry, change: BestChange | None) -> dict[str, Any]:
    return {
        "run": str(_path(out, run)),
        "experiment": run.experiment,
        "created": run.created,
        "replayed": run.kind == "replay",
        "recording": run.kind == "recording",
        "gpu": run.conditions.gpu or None,
        "commit": run.commit or None,
        "cells": run.cells,
        "answer": run.answer.sentence or None,
        "baseline": run.conditions.baseline,
        "ratio": run.answer.ratio,
        "ratio_low": run.answer.low,
        "ratio_high": run.answer.high,
        "verdict": change and change.verdict.value,
        "against": change and str(out / change.older.folder),
    }
