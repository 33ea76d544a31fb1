"""Words and signs of verdicts and of outcomes; why a number is missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from profiler.comparison.run_entries import BestChange, RunEntry
from profiler.metrics.catalogue import CATALOGUE
from profiler.model import Cell, Outcome, Verdict
from profiler.render.words import numbers

if TYPE_CHECKING:  # the module brings pandas, and tables of plans need none
    from profiler.findings.cell_numbers import CellNumbers

SYMBOLS: Mapping[Verdict, str] = {
    Verdict.FASTER: "\u25bc",
    Verdict.SLOWER: "\u25b2",
    Verdict.SAME: "=",
    Verdict.UNCLEAR: "?",
    Verdict.NO_DATA: numbers.MISSING,
}
"""Time goes down, goes up, stays."""
CSS: Mapping[Verdict, str] = {
    verdict: f"is-{verdict.value.replace(' ', '-')}" for verdict in Verdict
}
ORDER = (Verdict.FASTER, Verdict.SAME, Verdict.UNCLEAR, Verdict.SLOWER, Verdict.NO_DATA)
"""Order in which columns sort verdicts, and counts name them."""


def word(verdict: Verdict) -> str:
    """Symbol and word of a verdict: `▼ FASTER`."""
    return f"{SYMBOLS[verdict]} {verdict.word}"


# ---- a run against the one before it -------------------------------------------------------------


def change_words(change: BestChange) -> str:
    """Verdict on a run against the one before it, with the number of problems and the worst."""
    text = word(change.verdict)
    if change.slower:
        count = len(change.verdicts)
        places = f" at {change.slower} of {count} problems" if count > 1 else ""
        text += f"{places}, {numbers.ratio(change.worst)} of its time"
    return f"{text}, against {change.older.folder}"


def best_words(run: RunEntry) -> str:
    """Ratio of what a run recommends to its baseline, by name; empty where it has none."""
    return (
        ""
        if run.answer.ratio is None
        else f"{best_range(run)} the time of {run.conditions.baseline}"
    )


def best_range(run: RunEntry) -> str:
    """Ratio of what a run recommends to its baseline, and the interval if it has one."""
    answer = run.answer
    if answer.ratio is None:
        return numbers.MISSING
    return f"{numbers.ratio(answer.ratio)} {numbers.interval(answer.low, answer.high)}".rstrip()


# ---- outcomes ------------------------------------------------------------------------------------

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


def why_missing(cell_numbers: CellNumbers, cell: Cell | None, metric: str) -> str:
    """Why a cell has no value of a metric."""
    if cell is None:
        return "not in the plan"
    status = cell_numbers.programs.status(cell)
    if not status.outcome.correct:
        return f"{OUTCOME_WORDS[status.outcome]}: {status.cause}".rstrip(": ")
    if metric in status.missing_metrics:
        return "asked for, but the tool did not deliver it"
    entry = CATALOGUE.get(metric)
    parts = entry.needs if entry is not None and math.isfinite(entry.most) else ()
    if parts and all(cell_numbers.value(cell, part).median > 0 for part in parts):
        return "its parts were counted in different launches, and disagree"
    return "not collected for this cell"
