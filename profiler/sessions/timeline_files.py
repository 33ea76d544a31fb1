"""Writes the cleaned timeline files of an attempt from a recording of nsys or torch.profiler.

A recording of nsys holds the whole environment of the profiled process, a trace of torch.profiler
paths of the machine. They stay in a folder of their own, and only what names nobody is written
beside it (see `profiler.parse.timeline_files`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from profiler.collect import STDERR, STDOUT, read_text
from profiler.collect.nsys import EXPORT, PRIVATE_FOLDER, RAW, REPORT, Nsys, diagnose
from profiler.collect.registry import COLLECTORS
from profiler.errors import EnvironmentUnusable, ParseError, naming
from profiler.machine.installs import export_report, importer_fault
from profiler.parse import runner_journal
from profiler.parse.chrome_trace import read_traces
from profiler.parse.nsys import RecordedTimeline, read_nsys
from profiler.parse.nsys_attribution import parts_in_windows, visits
from profiler.parse.timeline_files import TimelineFacts, has_timeline, write_timeline
from profiler.planning.spec import CommandWorkload
from profiler.run_folder.folder import JOURNAL_FILE
from profiler.runner import protocol
from profiler.sessions.execution import Execution
from profiler.sessions.templates import nsys_capture, tools_of

_TRACES = "trace.*.json*"
README_FILE = "README.txt"
_README = """\
These files are what the profiling tool itself wrote. They hold the whole environment of the
profiled process (variables, command line, host and user names, paths), so they are never copied
into a recording or a page, and should not be given away.

report.nsys-rep (gunzip it first, where it is packed) opens in Nsight Systems; timeline.sqlite is
its export; trace.*.json.gz open in Perfetto or chrome://tracing.

What the profiler shows was taken out of them into operations.csv.gz, ranges.csv.gz and api.csv.gz
beside this folder.
"""


def prepare_private(folder: Path) -> None:
    """Folder for the tool's own files of an attempt, with a note why they are private."""
    private = folder / PRIVATE_FOLDER
    private.mkdir(mode=0o700, exist_ok=True)
    with naming(private / README_FILE):
        (private / README_FILE).write_text(_README, encoding="utf-8")


def keep_timeline(execution: Execution, collector: str, folder: Path, *, ended_well: bool) -> None:
    """Write the cleaned files of an attempt, once its process has ended.

    Raises EnvironmentUnusable where that cannot be done although the session ended well; what a
    killed one left is measured again.
    """
    experiment, device = execution.loaded.experiment, execution.machine.device
    tool = COLLECTORS[collector].create(tools_of(execution))
    try:
        if isinstance(tool, Nsys):
            # Of visits only them, however nsys was started.
            is_command = isinstance(experiment.workload, CommandWorkload)
            capture = nsys_capture(execution) if is_command else experiment.collect.timeline.capture
            keep_report(tool, folder, TimelineFacts(collector, device, capture))
        else:
            keep_traces(folder, TimelineFacts(collector, device, protocol.CAPTURE_VISITS))
    except (EnvironmentUnusable, OSError):
        if ended_well:
            raise


def keep_report(nsys: Nsys, folder: Path, facts: TimelineFacts) -> None:
    """Export the report of an attempt, and write its cleaned files.

    Nothing is written where nsys left no report. Raises EnvironmentUnusable where the report cannot
    be made or exported, with what would help.
    """
    if has_timeline(folder):
        return
    if not (folder / REPORT).exists():
        _refuse_importer(nsys, folder)
        return
    export_report(nsys, folder / REPORT, folder / EXPORT)
    try:
        timeline = read_nsys(folder / EXPORT)
        if timeline.unread:
            raise ParseError(", ".join(f"{n} {kind}" for kind, n in timeline.unread.items()))
    except ParseError as error:
        raise _unreadable("nsys", error) from error
    completed = replace(facts, tool=timeline.nsys, schema=timeline.schema)
    write_timeline(folder, _kept_part(timeline, facts.capture), completed)


def _refuse_importer(nsys: Nsys, folder: Path) -> None:
    """Raise EnvironmentUnusable where the importer of nsys lacks a library, and so no report is."""
    reported = diagnose("\n".join(read_text(folder / name) for name in (STDOUT, STDERR)))
    if (folder / RAW).exists() or reported is not None:
        fault = importer_fault(nsys) or reported
        if fault is not None:
            raise fault


def _unreadable(tool: str, error: ParseError) -> EnvironmentUnusable:
    return EnvironmentUnusable(
        f"What {tool} recorded cannot be read: {error.message}",
        remedy="Measure again; if it comes back, this version of the tool writes something else.",
    )


def _kept_part(timeline: RecordedTimeline, capture: str) -> RecordedTimeline:
    """The part of a timeline inside visits; the whole timeline where `capture` asks for more."""
    if capture != protocol.CAPTURE_VISITS:
        return timeline
    return parts_in_windows(timeline, visits(timeline.ranges))


def keep_traces(folder: Path, facts: TimelineFacts) -> None:
    """Move the traces of torch.profiler to the private folder, and write the cleaned files.

    Raises EnvironmentUnusable where a trace cannot be read.
    """
    prepare_private(folder)
    private = folder / PRIVATE_FOLDER
    for trace in sorted(folder.glob(_TRACES)):
        trace.replace(private / trace.name)
    if has_timeline(folder):
        return
    records = tuple(runner_journal.read_journal(folder / JOURNAL_FILE))
    traces = [private / name for name in _finished_traces(records)]
    if not traces:
        return
    try:
        timeline = read_traces([trace for trace in traces if trace.exists()])
    except ParseError as error:
        raise _unreadable("torch.profiler", error) from error
    started = next((r for r in records if r.get("event") == protocol.SESSION_STARTED), {})
    completed = replace(facts, tool=started.get("torch"), schema=timeline.schema)
    write_timeline(folder, _kept_part(timeline, facts.capture), completed)


def _finished_traces(records: tuple[Mapping[str, Any], ...]) -> Iterator[str]:
    for record in runner_journal.measurement_records(records):
        name = record.get("trace")
        if isinstance(name, str):
            yield Path(name).name
