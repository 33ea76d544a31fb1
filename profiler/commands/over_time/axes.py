"""`profiler bisect driver SPEC`: what moved a kernel while its sources stayed.

Runs that differ by a driver, a compiler or a library cannot be interleaved: each is one of another
process, mostly of another day. So neighbours are compared as `profiler compare` compares runs, by
the ratio to a baseline whose program is the same; and where they differ by more than the axis, each
difference is named, because any of them may be what moved the kernel.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.commands.output import write_json_target
from profiler.commands.over_time.history import experiment_name
from profiler.commands.requests import BisectRequest
from profiler.errors import ExitCode, UsageError
from profiler.history.answers import VERSION_FIELDS
from profiler.history.store import Store
from profiler.model import SCHEMA_VERSION, Verdict
from profiler.run_folder.folder import recordings_here, runs
from profiler.sessions.environments import run_in_environment
from profiler.sessions.progress import ProgressReporter

if TYPE_CHECKING:
    from profiler.findings.runs.comparison import RunComparison
    from profiler.findings.runs.steps import RunStep

AXES = (*VERSION_FIELDS, "card")
_ENVIRONMENT = re.compile(r"([\w.+-]+)=([^,]+)")
_MOST_CELLS = 10
_OF_A_RUN = ("spec",)
"""What `compare` names and is nothing that moves a kernel."""


def environments_of(text: str) -> dict[str, Path] | None:
    """Interpreters by name of `NAME=PYTHON,…`; None where it is no such list."""
    found = [_ENVIRONMENT.fullmatch(part.strip()) for part in text.split(",")]
    named = {match[1]: Path(match[2]) for match in found if match is not None}
    return named if named and len(named) == len(found) else None


def bisect_axis(request: BisectRequest) -> ExitCode:
    """Print which steps along an axis moved which cells; SOME_CELLS_FAILED where it stays open."""
    from profiler.comparison.runs import read_runs
    from profiler.findings.runs.comparison import compare

    reporter = ProgressReporter.for_terminal(color=request.color, quiet=request.quiet)
    environments = environments_of(request.revisions)
    if environments is None:
        found = _recorded(request)
    else:
        found = {
            name: _measured(name, python, request, reporter)
            for name, python in environments.items()
        }
    if len(found) < 2:
        raise UsageError(
            f"{request.revisions}: there are runs of {', '.join(found) or 'none'} alone",
            remedy="Two values are needed; `profiler history` names the runs.",
        )
    comparison = compare(read_runs(tuple(found.values()), only=request.cell))
    steps = [_step(comparison, step, tuple(found)) for step in comparison.steps]
    lines = [line for step in steps for line in _lines(step)]
    document = {"schema_version": SCHEMA_VERSION, "axis": request.revisions, "steps": steps}
    write_json_target({**document, "answer": lines}, request.json_target)
    if request.json_target != "-":
        for line in lines:
            reporter.results.print(line, markup=False, highlight=False, soft_wrap=True)
    is_open = any(step["refused"] or step["unclear"] for step in steps)
    return ExitCode.SOME_CELLS_FAILED if is_open else ExitCode.COMPLETE


def _recorded(request: BisectRequest) -> dict[str, Path]:
    """Newest run of each value of an axis, on the kind of machine of the newest run."""
    name, axis = experiment_name(str(request.spec)), request.revisions
    known = Store.beside(request.out).runs(name)
    recordings = recordings_here()
    newest: dict[str, Path] = {}
    for run in known:
        value = run.card if axis == "card" else run.versions.get(axis, "")
        path = request.out / run.run if run.source == "run" else recordings.get(Path(run.run).stem)
        if value and path is not None and path.exists() and run.machine == known[-1].machine:
            newest[value] = path
    return dict(sorted(newest.items(), key=lambda item: _numbers(item[0])))


def _numbers(version: str) -> tuple[list[int], str]:
    """A version as it is ordered: 2.9 before 2.11."""
    return [int(digits) for digits in re.findall(r"\d+", version)], version


def _measured(name: str, python: Path, request: BisectRequest, reporter: ProgressReporter) -> Path:
    """Run of the experiment in an environment, which goes on where it was interrupted."""
    out = request.out.resolve() / ".environments" / name
    flags = {"--only": request.cell, "--out": str(out)}
    arguments = [part for flag, value in flags.items() if value for part in (flag, value)]
    arguments += [part for text in request.overrides for part in ("--set", text)]
    arguments += [flag for flag, given in _SWITCHES.items() if getattr(request, given)]
    reporter.say(f"Measures in {name}: {python}")
    run_in_environment(python, [str(request.spec), *arguments, "--no-report"])
    return runs(out, experiment_name(str(request.spec)))[-1].path


_SWITCHES = {"--timer": "timer", "--fast": "fast", "--quiet": "quiet"}


def _step(comparison: RunComparison, step: RunStep, values: Sequence[str]) -> dict[str, Any]:
    """One step along the axis, as JSON has it."""
    older, newer = step.older, step.newer
    differs = [
        "another card"
        if other.field == "gpu_uuid"
        else f"{other.field} {other.values[older]} \N{RIGHTWARDS ARROW} {other.values[newer]}"
        for other in comparison.differences
        if other.values[older] != other.values[newer] and other.field not in _OF_A_RUN
    ]
    judged = [change for change in step.cells.values() if not change.is_control]
    control = [change.durations.raw_ratio for change in step.cells.values() if change.is_control]
    logarithms = [math.log(ratio) for ratio in control if ratio > 0]
    return {
        "older": values[older],
        "newer": values[newer],
        "differs": differs,
        "refused": step.refused_words,
        "cells": len(judged),
        "unclear": sum(change.verdict is Verdict.UNCLEAR for change in judged),
        "control": step.control,
        "control_ratio": math.exp(sum(logarithms) / len(logarithms)) if logarithms else None,
        "moved": [
            {
                "cell": change.cell.id,
                "verdict": str(change.verdict),
                "ratio": change.ratio,
                "low": change.ratio_low,
                "high": change.ratio_high,
            }
            for change in sorted(judged, key=lambda change: -abs(math.log(change.ratio or 1)))
            if change.verdict in (Verdict.SLOWER, Verdict.FASTER)
        ],
    }


def _lines(step: Mapping[str, Any]) -> Iterator[str]:
    ends = f"{step['older']} \N{RIGHTWARDS ARROW} {step['newer']}"
    if step["refused"]:
        yield f"{ends}: not comparable: {step['refused']}"
        return
    unclear = f", {step['unclear']} UNCLEAR" if step["unclear"] else ""
    yield f"{ends}: {len(step['moved'])} of {step['cells']} cells moved{unclear}."
    for moved in step["moved"][:_MOST_CELLS]:
        numbers = f"{moved['ratio']:.3f} [{moved['low']:.3f}, {moved['high']:.3f}]"
        yield f"  {moved['cell']}: {moved['verdict'].upper()} {numbers}"
    if step["control_ratio"] is not None:
        times = f"{step['control_ratio']:.3f}\N{MULTIPLICATION SIGN}"
        yield f"  Against {step['control']}, which itself takes {times} its time (not judged)."
    differs = step["differs"]
    if len(differs) > 1:
        yield f"  Any of these may be it: {', '.join(differs)}."
    elif differs:
        yield f"  Nothing else that is recorded differs: {differs[0]}."
