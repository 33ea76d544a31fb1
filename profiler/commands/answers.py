"""Answers of a run, kept in the history of all runs, or exported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.commands.output import report_document
from profiler.errors import ProfilerError
from profiler.history.answers import HistoryRun, answers_of_summary, collector_of
from profiler.history.store import Store
from profiler.run_folder.folder import RunFolder

if TYPE_CHECKING:
    from profiler.findings.findings import Findings


def keep_answers(
    out: Path, folder: Path, summary: Mapping[str, Any], warn: Callable[[str], None]
) -> None:
    """Add a new run to the store; a store that cannot be written only gives a warning."""
    try:
        Store.beside(out).add([answers_of_folder(RunFolder(folder), summary, out)])
    except (OSError, ProfilerError) as error:
        warn(f"The history of the runs was not written: {error}")


def answers_of_folder(run: RunFolder, summary: Mapping[str, Any], out: Path) -> HistoryRun:
    """A run under `out` with its answers, from the content of its summary.json."""
    path = run.path.resolve()
    run_name = path.relative_to(out.resolve()) if path.is_relative_to(out.resolve()) else path.name
    return answers_of_summary(summary, str(run_name), "run", collector_of(run.plan()))


def answers_of_findings(findings: Findings, run: RunFolder) -> HistoryRun:
    """A run or recording with its answers, from its findings."""
    source = "recording" if run.is_recording() else "run"
    document = report_document(findings)
    return answers_of_summary(document, run.given_path.name, source, collector_of(run.plan()))
