"""The main table in a few rows of text: for pull requests and notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from profiler.findings.findings import Findings, Programs
from profiler.render.tables.main_table import CellRow, main_table
from profiler.render.words.ranks import best_word

MOST_ROWS = 30


@dataclass(frozen=True)
class ShortTable:
    """Heads and rows of text, the best cells of each problem first."""

    heads: tuple[str, ...]
    numeric: tuple[bool, ...]
    """Which columns hold numbers."""
    rows: tuple[tuple[str, ...], ...]
    left_out: int
    """Cells without a row."""


def short_table(findings: Findings) -> ShortTable:
    """Problem, variant, median with its interval, ratio to the baseline, verdict.

    At most `MOST_ROWS` rows: of each problem the best cells and that of the baseline.
    """
    table = main_table(findings, findings.verdicts.baselines[0])
    shown = _shown(findings.programs, table.rows)
    problems = len(findings.programs.problems) > 1
    ratio = f"\u00f7 {findings.programs.baseline.label}" if findings.programs.baseline else "ratio"
    heads = ("problem", "variant", table.columns[0].head, "\u00b1", ratio, "verdict")
    role_names = {"best": best_word(findings.ranking), "baseline": "baseline"}
    rows = [_row(row, role_names.get(row.role or "")) for row in shown]
    first = 0 if problems else 1
    return ShortTable(
        heads=heads[first:],
        numeric=(False, False, True, True, True, False)[first:],
        rows=tuple(row[first:] for row in rows),
        left_out=len(table.rows) - len(rows),
    )


def _shown(programs: Programs, rows: Sequence[CellRow]) -> list[CellRow]:
    of_baseline = programs.baseline is not None
    most = max(1, MOST_ROWS // max(1, len(programs.problems)) - of_baseline)
    counts: dict[str, int] = {}
    shown = []
    for row in rows:
        problem = row.cell.problem.id
        counts[problem] = counts.get(problem, 0) + 1
        if counts[problem] <= most or row.cell.variant == programs.baseline:
            shown.append(row)
    return shown[:MOST_ROWS]


def _row(row: CellRow, role: str | None) -> tuple[str, ...]:
    tag = f" ({role})" if role else ""
    return (
        row.cell.problem.name,
        f"{row.cell.variant.label}{tag}",
        row.primary.text,
        row.spread.text,
        row.ratio.text,
        row.verdict.text if row.primary.raw is not None else row.outcome,
    )
