"""Outcomes of cells in words, and why a number is missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from profiler.findings.cell_numbers import CellNumbers
from profiler.metrics.catalogue import CATALOGUE
from profiler.model import Cell, Outcome

WRONG, FAILED, NOT_MEASURED = "\N{NOT EQUAL TO}", "\N{MULTIPLICATION X}", "\N{EN DASH}"
"""Signs for a cell without a number."""
OUTCOME_WORDS: Mapping[Outcome, str] = {
    Outcome.MEASURED: "measured",
    Outcome.DUPLICATE: "same machine code",
    Outcome.COMPILE_FAILED: "compile failed",
    Outcome.WRONG_RESULT: "wrong result",
    Outcome.RAISED: "raised an error",
    Outcome.OUT_OF_MEMORY: "out of memory",
    Outcome.ILLEGAL_ADDRESS: "illegal address",
    Outcome.CRASHED: "crashed",
    Outcome.TIMED_OUT: "timed out",
    Outcome.FELL_BACK: "fell back",
    Outcome.NO_KERNEL: "no kernel seen",
    Outcome.PARTS_DIFFER: "other launches",
    Outcome.IMPLAUSIBLE: "implausible",
    Outcome.NOT_MEASURED: "not measured",
}


def missing_sign(outcome: Outcome) -> str:
    """Sign in a map for a cell without a number: wrong, failed, or not measured."""
    if outcome in (Outcome.WRONG_RESULT, Outcome.IMPLAUSIBLE):
        return WRONG
    return FAILED if outcome.failed else NOT_MEASURED


def missing_key(outcomes: Iterable[Outcome]) -> str:
    """Key of the signs of `missing_sign` that these outcomes have; empty where all are numbers."""
    signs = {missing_sign(outcome) for outcome in outcomes if not outcome.correct}
    meanings = {WRONG: "wrong result", FAILED: "failed", NOT_MEASURED: "not measured"}
    return ", ".join(f"{sign} {meaning}" for sign, meaning in meanings.items() if sign in signs)


def why_missing(numbers: CellNumbers, cell: Cell | None, metric: str) -> str:
    """Why a cell has no value of a metric."""
    if cell is None:
        return "not in the plan"
    status = numbers.programs.status(cell)
    if not status.outcome.correct:
        return f"{OUTCOME_WORDS[status.outcome]}: {status.cause}".rstrip(": ")
    if metric in status.missing_metrics:
        return "asked for, but the tool did not deliver it"
    entry = CATALOGUE.get(metric)
    parts = entry.needs if entry is not None and math.isfinite(entry.most) else ()
    if parts and all(numbers.value(cell, part).median > 0 for part in parts):
        return "its parts were counted in different launches, and disagree"
    return "not collected for this cell"
