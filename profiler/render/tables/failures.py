"""Failed cells of a run, together where one cause explains them, as console and page show them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from textwrap import shorten

from profiler.findings.programs import Programs
from profiler.model import Cell, Outcome
from profiler.render.tables.method import compiler_message, variants_text
from profiler.render.words.signs import OUTCOME_WORDS

_MOST_CAUSE = 300
"""Characters of a cause in a sentence."""


@dataclass(frozen=True)
class FailureGroup:
    """Cells that failed for one cause."""

    cells: tuple[Cell, ...]
    outcome: str
    """In words."""
    cause: str
    """Its first line."""

    @property
    def variants(self) -> tuple[str, ...]:
        """Labels of the variants, each once."""
        return _distinct(cell.variant.label for cell in self.cells)

    @property
    def problems_text(self) -> str:
        """The problem, or how many there are."""
        names = _distinct(cell.problem.name for cell in self.cells)
        return names[0] if len(names) == 1 else f"{len(names)} problems"


def failure_groups(programs: Programs) -> list[FailureGroup]:
    """Failed cells, those together that have the same error, or the same wrong elements.

    Others stay apart: where memory was not enough, it matters at which problem.
    """
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for cell in programs.cells:
        status = programs.status(cell)
        if not status.outcome.failed:
            continue
        same_errors = {
            Outcome.COMPILE_FAILED: compiler_message(status.cause),
            Outcome.RAISED: (status.cause,),
            Outcome.WRONG_RESULT: (status.cause,),
        }
        key = same_errors.get(status.outcome, (cell.id,))
        groups.setdefault((status.outcome, *key), []).append(cell)
    return [_group(programs, cells) for cells in groups.values()]


def _group(programs: Programs, cells: list[Cell]) -> FailureGroup:
    status = programs.status(cells[0])
    first_line = next(iter(status.cause.strip().splitlines()), "")
    return FailureGroup(tuple(cells), OUTCOME_WORDS[status.outcome], first_line)


def main_failure(programs: Programs) -> str:
    """Sentence on the most frequent cause of failures, the first of equals; empty without any."""
    groups = failure_groups(programs)
    if not groups:
        return ""
    group = max(groups, key=lambda group: len(group.cells))
    lead = "The most frequent" if len(group.cells) > 1 else "The first"
    place = f"{variants_text(group.variants)} at {group.problems_text}"
    cause = shorten(group.cause or group.outcome, _MOST_CAUSE, placeholder=" \u2026")
    return f"{lead}: {place}: {cause}"


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
