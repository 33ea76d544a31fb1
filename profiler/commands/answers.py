"""Answers of runs, read for the history and for exports; a run that ended adds its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.commands.output import report_document
from profiler.errors import ProfilerError, UsageError
from profiler.history.answers import (
    SHORT_COMMIT,
    RunAnswers,
    answers_of_records,
    answers_of_summary,
    collector_of,
)
from profiler.history.store import Store
from profiler.run_folder.archive import open_run
from profiler.run_folder.folder import RunFolder

if TYPE_CHECKING:
    from profiler.commands.revisions import MeasuredRevisions
    from profiler.findings.findings import Findings


def keep_answers(
    out: Path, folder: Path, summary: Mapping[str, Any], on_odd: Callable[[str], None]
) -> None:
    """Add a run that was just written to the store; a store that cannot be written costs no run."""
    try:
        Store.beside(out).add([answers_of_folder(RunFolder(folder), summary, out)])
    except (OSError, ProfilerError) as error:
        on_odd(f"The history of the runs was not written: {error}")


def answers_of_folder(run: RunFolder, summary: Mapping[str, Any], out: Path) -> RunAnswers:
    """Answers of a run under `out`, from the content of its summary.json."""
    path = run.path.resolve()
    named = path.relative_to(out.resolve()) if path.is_relative_to(out.resolve()) else path.name
    return answers_of_summary(summary, str(named), "run", collector_of(run.plan()))


def answers_of_base(measured: MeasuredRevisions, out: Path) -> RunAnswers:
    """Answers of the oldest of several revisions that were measured in one session.

    As those of a run of the experiment; without a baseline where the experiment's own was not
    among what was measured.
    """
    if measured.run is None:
        raise UsageError("nothing was measured")
    session = answers_of_folder(RunFolder(measured.run.folder), measured.run.document, out)
    answers = (
        answer._replace(cell=own.id, variant=own.variant.name)
        for answer in session.answers
        if (own := measured.base_cells.get(answer.cell)) is not None
    )
    run = replace(
        session.run,
        experiment=measured.experiment,
        source="gate",
        commit=measured.commits[0].hash[:SHORT_COMMIT],
        baseline=measured.baseline,
    )
    return RunAnswers(run, tuple(answers))


def read_answers(path: Path) -> Sequence[RunAnswers]:
    """Answers of a run, a recording, or a file of benchmark v3 records; raises UsageError."""
    if path.suffix in (".json", ".jsonl"):
        return answers_of_records(_records(path), path.name)
    from profiler.commands.report import read_run
    from profiler.findings.find import find

    run = open_run(path)
    return [answers_of_findings(find(read_run(run)), run)]


def answers_of_findings(findings: Findings, run: RunFolder) -> RunAnswers:
    """Answers of a run or a recording that was read."""
    source = "recording" if run.is_recording() else "run"
    document = report_document(findings)
    return answers_of_summary(document, run.named.name, source, collector_of(run.plan()))


def _records(path: Path) -> list[Any]:
    """Records of a JSON list, or of lines of JSON."""
    try:
        text = path.read_text(encoding="utf-8")
        if text.lstrip().startswith("["):
            return list(json.loads(text))
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: no benchmark v3 records: {error}") from error
