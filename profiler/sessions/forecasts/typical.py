"""What visits and set-ups typically take: measured on an H200, until a session has told better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from profiler.collect.registry import COLLECTORS
from profiler.metrics.launch_costs import kernel_runs, ncu_launch_seconds
from profiler.model import SessionKind
from profiler.planning.spec import Collect
from profiler.sessions.forecasts.session_costs import Stage, Work

_FLOPS_PER_S, _BYTES_PER_S = 3e14, 2.5e12
"""Of a good kernel: attention and a copy."""

_PREPARED_S, _CHECKED_S = 2e-3, 1e-2
"""Seconds to prepare a cell where nothing is compiled, and to check it, beside a launch."""
_COMPARED_BYTES_PER_S = 5e10
"""Of the least traffic of a launch: its result is compared with the reference."""
_REFERENCE_FLOPS_PER_S = 2e13
"""Of a reference in higher precision."""


@dataclass(frozen=True)
class TypicalVisit:
    """What a visit of a session takes: its overhead, and each launch its own time."""

    overhead_s: float
    """For a kernel that takes no time itself."""
    launches: float
    """How many times the time of a launch comes on top."""


def typical_visit(
    collector: str, kind: str, metrics: Sequence[str], collect: Collect
) -> TypicalVisit:
    """What a visit takes in a session of a kind under a collector."""
    tool = COLLECTORS[collector]
    if kind in (SessionKind.COUNTERS, SessionKind.EXPLAIN):
        return TypicalVisit(ncu_launch_seconds(metrics), kernel_runs(metrics))
    launches = tool.launches
    if "repeats" in tool.settings:
        launches = collect.repeats
    elif "timeline" in tool.settings:
        launches = collect.timeline.launches
    return TypicalVisit(tool.visit_s, launches)


def launch_seconds(work: Work) -> float:
    """What a launch takes that declares this work."""
    return work.flops / _FLOPS_PER_S + work.bytes / _BYTES_PER_S


def set_up_seconds(stage: Stage, work: Work, cells: int) -> float:
    """What a stage takes for the cells of a problem at which a launch declares this work."""
    if stage is Stage.PREPARE:
        return cells * (_PREPARED_S + launch_seconds(work))
    each = _CHECKED_S + launch_seconds(work) + work.bytes / _COMPARED_BYTES_PER_S
    return cells * each + work.flops / _REFERENCE_FLOPS_PER_S
