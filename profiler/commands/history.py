"""`profiler history`: the answers of all runs in one file; what changed, since when, and why."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from profiler.commands.answers import answers_of_findings, answers_of_folder
from profiler.commands.output import Stages, require_page, warn, write_json_target, write_page
from profiler.commands.requests import HistoryRequest
from profiler.errors import ExitCode, ProfilerError, UsageError
from profiler.history.answers import HistoryRun, answers_of_records
from profiler.history.store import STORE_FILE, Store
from profiler.history.trends import History, Trend, find_history
from profiler.machine.console import make_console
from profiler.model import SCHEMA_VERSION, slug
from profiler.notices import counted
from profiler.run_folder.archive import find_run, open_run
from profiler.run_folder.documents import read_json
from profiler.run_folder.folder import SUMMARY_JSON_FILE, RunFolder
from profiler.run_folder.runs import recordings_here, require_folder, runs


def show_history(request: HistoryRequest) -> ExitCode:
    """Fill the store on request; print changes and the newest run's control."""
    require_page(request.page, no_report=request.no_report)
    if request.experiment is None and (flags := request.flags_of_experiment):
        raise UsageError(
            f"{' and '.join(flags)}: only of one experiment, and none is named.",
            remedy="`profiler history` lists the experiments.",
        )
    store = Store.beside(request.reports)
    stages = Stages(request.color)
    if request.rebuild or not store.path.exists():
        require_folder(request.reports, "--reports")
        with stages.stage("Reading the runs"):
            rebuild(request.reports, warn, _recordings(request))
    for file in request.imported or ():
        with stages.stage(f"Reading {file}"):
            store.add(read_answers(file, request.reports))
    if request.experiment is None:
        return _list(store, request.color)
    from profiler.render.trends import history_lines, render_history

    history = _history(store, request)
    write_json_target(_document(history), request.json_target)
    console = make_console(request.color, stderr=request.json_target == "-")
    if request.json_target != "-":
        console.print("\n".join(history_lines(history)))
    if not request.no_report:
        # The name of what was imported may be anything.
        name = f"{slug(history.experiment)}.html"
        page = request.page or request.reports / "history" / name
        write_page(page, render_history(history))
        console.print(f"Page: {page}")
    return ExitCode.COMPLETE


def _list(store: Store, color: str) -> ExitCode:
    """Print the number of runs by experiment."""
    counts: dict[str, int] = {}
    for run in store.runs():
        counts[run.experiment] = counts.get(run.experiment, 0) + 1
    lines = [f"{name}: {counted(count, 'run')}" for name, count in counts.items()]
    make_console(color).print("\n".join(lines or ["No runs yet."]))
    return ExitCode.COMPLETE


def _history(store: Store, request: HistoryRequest) -> History:
    """The requested history; raises UsageError without runs."""
    name = experiment_name(str(request.experiment))
    recorded = store.runs(name)
    if not recorded:
        experiments = ", ".join(sorted({run.experiment for run in store.runs()})) or "none"
        raise UsageError(
            f"{name}: no runs of it in {store.path}; there are: {experiments}",
            remedy="`--rebuild` reads the run folders and recordings here again.",
        )
    metric = request.metric or recorded[-1].metric
    history = find_history(store.answers(name, metric), metric, request.machine)
    if history is None:
        machines = dict.fromkeys(run.machine for run in recorded)
        raise UsageError(
            f"{name}: no run has {metric} on such a machine",
            remedy=f"Its newest run was judged by {recorded[-1].metric}; its runs are of "
            f"{'; '.join(machines)}.",
        )
    return history


def experiment_name(text: str) -> str:
    """Name of an experiment, given by its file or its name."""
    if not Path(text.partition(":")[0]).is_file():
        return text
    from profiler.sessions.experiment_files import load_experiment

    return load_experiment(Path(text)).experiment.name


def _document(history: History) -> dict[str, Any]:
    from profiler.render.trends import change_words, control_words, headline, since_words

    def row(trend: Trend) -> dict[str, Any]:
        return {
            "variant": trend.variant,
            "problem": trend.problem,
            "followed_by": "ratio" if trend.is_relative else "value",
            "since": since_words(history, trend),
            "changes": [
                {**asdict(change), "sentence": change_words(history, change)}
                for change in trend.changes
            ],
            "answers": [{"run": run, **answer._asdict()} for run, answer in trend.answers.items()],
        }

    return {
        "schema_version": SCHEMA_VERSION,
        "experiment": history.experiment,
        "metric": history.metric,
        "machine": history.machine,
        "sentence": headline(history),
        "control": control_words(history),
        "runs": [run.record for run in history.runs],
        "cells": [{"cell": trend.cell, **row(trend)} for trend in history.trends],
        "variants": [{"cells": trend.cells, **row(trend)} for trend in history.variants],
    }


# ---- filling the store ---------------------------------------------------------------------------


def _recordings(request: HistoryRequest) -> tuple[Path, ...]:
    """Recordings in the local folder that a new store begins with: each takes seconds to read."""
    recordings = recordings_here()
    if request.rebuild:
        return tuple(recordings.values())
    name = None if request.experiment is None else experiment_name(request.experiment)
    return (recordings[name],) if name in recordings else ()


def rebuild(out: Path, warn: Callable[[str], None], recordings: Sequence[Path] = ()) -> None:
    """Rebuild the store from run folders and recordings; imported runs are kept."""
    store = Store.beside(out)
    fresh = Store(store.path.with_name(f".{STORE_FILE}.new"))
    out.mkdir(parents=True, exist_ok=True)
    fresh.path.unlink(missing_ok=True)
    try:
        # A run of another place has the name of its folder alone.
        imported = [old for old in store.answers() if old.source != "run" or "/" not in old.run]
    except ProfilerError as error:
        warn(f"What was imported is lost: {error.message}")
        imported = []
    fresh.add([*imported, *_reread_runs(out, warn, recordings)])
    fresh.path.replace(store.path)


def _reread_runs(
    out: Path, warn: Callable[[str], None], recordings: Sequence[Path]
) -> Iterator[HistoryRun]:
    for path in (*(run.path for run in runs(out)), *recordings):
        try:
            if path in recordings:
                yield from read_answers(path, out)
            elif (path / SUMMARY_JSON_FILE).exists():
                yield answers_of_folder(RunFolder(path), read_json(path / SUMMARY_JSON_FILE), out)
        except ProfilerError as error:
            warn(f"left out: {error}")


def read_answers(path: Path, out: Path) -> Sequence[HistoryRun]:
    """Answers of a run as `find_run` takes it, or of a file of benchmark v3 records.

    Raises UsageError for anything else.
    """
    if path.suffix in (".json", ".jsonl"):
        runs = answers_of_records(_records(path), path.name)
        if not runs:
            raise UsageError(f"{path}: holds no number of a benchmark v3 record")
        return runs
    from profiler.commands.report import read_run
    from profiler.findings.find import find

    run = open_run(find_run(str(path), out))
    return [answers_of_findings(find(read_run(run)), run)]


def _records(path: Path) -> list[Any]:
    """Records of a JSON list, or of lines of JSON."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        if text.lstrip().startswith("["):
            return list(json.loads(text))
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: no benchmark v3 records: {error}") from error
