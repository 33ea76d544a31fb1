"""`profiler bisect driver SPEC`: what moved a kernel while its sources stayed.

Runs that differ by a driver, a compiler or a library cannot be interleaved: each is one of another
process, mostly of another day. So neighbours are compared as `profiler compare` compares runs, by
the ratio to a baseline whose program is the same; and where they differ by more than the axis, each
difference is named, because any of them may be what moved the kernel.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from profiler.commands.history import experiment_name
from profiler.commands.output import write_json_target
from profiler.commands.requests import BisectRequest
from profiler.comparison.compare import RunComparison, compare
from profiler.comparison.document import comparison_document
from profiler.comparison.runs import read_runs
from profiler.comparison.steps import RunStep
from profiler.errors import ExitCode, UsageError
from profiler.history.answers import VERSION_FIELDS
from profiler.history.store import Store
from profiler.model import Verdict
from profiler.run_folder.runs import recordings_here, runs
from profiler.sessions.environments import run_in_environment
from profiler.sessions.progress import ProgressReporter

AXES = (*VERSION_FIELDS, "card")
_ENVIRONMENT = re.compile(r"([\w.+-]+)=([^,]+)")
_SWITCHES = ("timer", "fast", "quiet")
_TO = " \N{RIGHTWARDS ARROW} "


def environments_of(text: str) -> dict[str, Path] | None:
    """Interpreters by name of `NAME=PYTHON,…`; None where it is no such list."""
    parts = [_ENVIRONMENT.fullmatch(part.strip()) for part in text.split(",")]
    python_by_name = {match[1]: Path(match[2]) for match in parts if match is not None}
    return python_by_name if python_by_name and len(python_by_name) == len(parts) else None


def bisect_axis(request: BisectRequest) -> ExitCode:
    """Print which steps along an axis moved cells; SOME_CELLS_FAILED where it stays open."""
    reporter = ProgressReporter.for_terminal(color=request.color, quiet=request.quiet)
    environments = environments_of(request.revisions)
    runs = (
        _newest_runs(request)
        if environments is None
        else {name: _measured_run(name, at, request, reporter) for name, at in environments.items()}
    )
    if len(runs) < 2:
        raise UsageError(
            f"{request.revisions}: there are runs of {', '.join(runs) or 'none'} alone",
            remedy="Two values are needed; `profiler history` names the runs.",
        )
    comparison = compare(read_runs(tuple(runs.values()), only=request.cell))
    if request.json_target is not None:
        write_json_target(comparison_document(comparison, None), request.json_target)
    if request.json_target != "-":
        for step in comparison.steps:
            for line in _lines(comparison, step, tuple(runs)):
                reporter.results.print(line)
    verdicts = [change.verdict for step in comparison.steps for change in step.cells.values()]
    refused = any(step.refused is not None for step in comparison.steps)
    is_open = refused or any(verdict is not None and verdict.is_open for verdict in verdicts)
    return ExitCode.SOME_CELLS_FAILED if is_open else ExitCode.COMPLETE


def _newest_runs(request: BisectRequest) -> dict[str, Path]:
    """Newest run by value of an axis, on the newest run's kind of machine."""
    axis = request.revisions
    recorded_runs = Store.beside(request.out).runs(experiment_name(str(request.spec)))
    recordings = recordings_here()
    newest: dict[str, Path] = {}
    for run in recorded_runs:
        value = run.card if axis == "card" else run.versions.get(axis, "")
        path = request.out / run.run if run.source == "run" else recordings.get(Path(run.run).stem)
        if (
            value
            and path is not None
            and path.exists()
            and run.machine == recorded_runs[-1].machine
        ):
            newest[value] = path
    return dict(sorted(newest.items(), key=lambda item: _numbers(item[0])))


def _numbers(version: str) -> tuple[list[int], str]:
    """Sort key of a version: 2.9 before 2.11."""
    return [int(digits) for digits in re.findall(r"\d+", version)], version


def _measured_run(
    name: str, python: Path, request: BisectRequest, reporter: ProgressReporter
) -> Path:
    """Run of the experiment in an environment; an interrupted run is resumed."""
    out = request.out.resolve() / ".environments" / name
    arguments = [str(request.spec), "--no-report", "--out", str(out)]
    arguments += [] if request.cell is None else ["--only", request.cell]
    arguments += [part for text in request.overrides for part in ("--set", text)]
    arguments += [f"--{switch}" for switch in _SWITCHES if getattr(request, switch)]
    reporter.say(f"Measures in {name}: {python}")
    run_in_environment(python, arguments)
    return runs(out, experiment_name(str(request.spec)))[-1].path


def _lines(comparison: RunComparison, step: RunStep, values: Sequence[str]) -> Iterator[str]:
    """Lines on cells that moved between neighbouring values, and on other differences."""
    older, newer = step.older, step.newer
    step_text = f"{values[older]}{_TO}{values[newer]}"
    if step.refused is not None:
        yield f"{step_text}: not comparable: {step.refused_words}"
        return
    judged = [change for change in step.all.ranked if not change.is_control]
    moved_cells = [change for change in judged if change.decided]
    counts = Counter(change.verdict for change in judged)
    open_verdicts = [verdict for verdict in Verdict if verdict.is_open and counts[verdict]]
    open_words = "".join(f", {counts[verdict]} {verdict.word}" for verdict in open_verdicts)
    yield f"{step_text}: {len(moved_cells)} of {len(judged)} cells moved{open_words}."
    for change in moved_cells:
        interval = f"[{change.ratio_low:.3f}, {change.ratio_high:.3f}]"
        word = change.verdict.word if change.verdict else ""
        yield f"  {change.cell.id}: {word} {change.ratio:.3f} {interval}"
    control = [change.durations.raw_ratio for change in step.cells.values() if change.is_control]
    if control:
        times = f"{min(control):.3f} to {max(control):.3f}\N{MULTIPLICATION SIGN}"
        yield f"  Against {step.control}, which itself takes {times} its time (not judged)."
    differs = [
        "another card" if field == "gpu_uuid" else f"{field} {values[older]}{_TO}{values[newer]}"
        for field, values in comparison.differences.items()
        if values[older] != values[newer]
    ]
    if len(differs) > 1:
        yield f"  Any of these may be it: {', '.join(differs)}."
    elif differs:
        yield f"  Nothing else that is recorded differs: {differs[0]}."
