"""What the details of a cell say beside its numbers, as data for the page's script."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Sequence

from profiler.findings.findings import CellNumbers, Programs
from profiler.findings.values import FINAL
from profiler.model import Cell, CellStatus, Problem, cell_id
from profiler.render.words import numbers


def rerun_start(spec_path: str) -> str:
    """Command that measures cells again, up to what says which; ids are safe in a shell."""
    return f"{_command(spec_path)} --fresh --only"


def explain_start(spec_path: str) -> str:
    """Command that explains cells of a run, up to their ids."""
    return f"{_command(spec_path)} --explain"


def _command(spec_path: str) -> str:
    return f"python -m profiler {shlex.quote(spec_path)}"


def is_planned(cell: Cell) -> bool:
    """Whether a cell was planned as it is; those of parts were made from what was measured."""
    return cell.id == cell_id(cell.variant, cell.problem)


def timing_blocks(cell_numbers: CellNumbers, cell: Cell) -> tuple[float, int] | None:
    """Median by the timing blocks and their number; None unless the cell has a confirmation."""
    metric = cell_numbers.primary.name
    if cell_numbers.value(cell, metric).source != FINAL:
        return None
    value = cell_numbers.block_value(cell)
    return None if numbers.is_missing(value.median) else (value.median, value.n)


def problem_facts(programs: Programs, problem: Problem) -> tuple[str, ...]:
    """Sentences on the operations and traffic of a problem, and on errors against its reference."""
    cells = (cell for cell in programs.cells if cell.problem.id == problem.id)
    return tuple(_facts([programs.status(cell) for cell in cells]))


def _facts(statuses: Sequence[CellStatus]) -> Iterator[str]:
    for fact, unit, name in (
        ("Operations stated by the workload", "FLOP", "flops"),
        ("Least traffic stated by the workload", "byte", "bytes"),
    ):
        stated = sorted(_finite(getattr(status, name) for status in statuses))
        if stated:
            shown = dict.fromkeys(numbers.show(value, unit) for value in stated)
            yield f"{fact}: {' to '.join([*shown][:: max(1, len(shown) - 1)])}."
    for kind, name in (("absolute", "max_abs_error"), ("relative", "max_rel_error")):
        errors = _finite(getattr(status, name) for status in statuses if not status.outcome.failed)
        if errors:
            largest = numbers.significant(max(errors), 3)
            yield f"Largest {kind} error against the reference: {largest}."


def _finite(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]
