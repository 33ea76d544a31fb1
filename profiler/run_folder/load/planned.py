"""What a run folder was asked to measure; that of a recording is made again from its spec."""

from __future__ import annotations

from dataclasses import replace

from profiler.model import Plan
from profiler.planning.plan import make_plan
from profiler.planning.space import space_of
from profiler.planning.spec import LoadedSpec
from profiler.run_folder.folder import RunFolder, RunRecord


def is_recording(run: RunFolder) -> bool:
    """Whether `profiler record` wrote a folder."""
    return run.is_recording()


def plan_of(run: RunFolder, loaded: LoadedSpec, record: RunRecord) -> Plan:
    """The plan of a run; that of a recording holds the cells recorded.

    Raises SpecError where a recording's workload cannot be found from where it lies.
    """
    if not is_recording(run):
        return run.plan()
    plan = make_plan(loaded, space_of(loaded))
    return replace(plan, cells=tuple(cell for cell in plan.cells if cell.id in record.keys))
