"""A report in which problems are called as people read them."""

from __future__ import annotations

from dataclasses import replace

from profiler.planning.problem_names import (
    distinct,
    is_number,
    problem_key,
    short_names,
    telling,
    varying,
)
from profiler.run_folder.load.report import Report

__all__ = ["distinct", "is_number", "problem_key", "readable", "telling", "varying"]


def readable(report: Report) -> Report:
    """Shorten generated problem names: see `profiler.planning.problem_names.short_names`."""
    names = short_names(report.plan.problems)
    cells = tuple(
        replace(cell, problem=replace(cell.problem, name=names[cell.problem.id]))
        for cell in report.plan.cells
    )
    return replace(report, plan=replace(report.plan, cells=cells))
