"""What a run folder or a recording was asked to measure: read from it, never planned again."""

from __future__ import annotations

from profiler.errors import UsageError
from profiler.model import Plan
from profiler.run_folder.folder import PLAN_FILE, RunFolder


def plan_of(run: RunFolder) -> Plan:
    """The plan of a run or recording, as it was written when it ran.

    Raises UsageError for a recording of an earlier version: its plan could only be made by the code
    of its workload, and what is looked at runs nothing.
    """
    if not _has_plan(run):
        raise UsageError(
            f"{run.named}: holds no {PLAN_FILE}: recorded by an earlier version",
            remedy="`profiler run SPEC --replay RUN` plans it by an experiment file of yours.",
        )
    return run.plan()


def _has_plan(run: RunFolder) -> bool:
    return any((run.path / name).exists() for name in (PLAN_FILE, f"{PLAN_FILE}.gz"))
