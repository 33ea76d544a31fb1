"""The why of a run as JSON-ready data: small enough for a program that writes kernels to read."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from profiler.analyse.why.causes import Cause
from profiler.analyse.why.roof_account import RoofAccount
from profiler.findings.findings import Findings
from profiler.findings.timelines.idle import IdleDifference, idle_difference
from profiler.findings.verdicts import PairVerdict
from profiler.findings.why.cells import CellWhy, KernelWhy
from profiler.findings.why.pairs import CauseChange, PairWhy
from profiler.findings.why.planted import PLANTED, has_time
from profiler.model import Cell

Document = dict[str, Any]
EXPLAIN_SCHEMA_VERSION = 1
MOST_PARTS = 8
MOST_WAITS = 4
MOST_CAUSES = 5
MOST_ADVICE = 3
MOST_ROOFS = 3
MOST_BYTES = 4096
VISITS = 1
"""Number of visits of a cell in an explain session."""
_MOST_LETTERS = 60


def explain_document(
    findings: Findings, cell: Cell, why: CellWhy, pair: PairWhy | None
) -> Document:
    """The answer, the account and the tree of a cell; at most 4 kB. Missing is null.

    Every number has its unit in its key. Counters are of one launch (n = 1) in the explain session;
    ratio and verdict are of the timing. Where names are long, lists are cut shorter.
    """
    for most in range(MOST_PARTS, 0, -1):
        document = _explain_document(findings, cell, why, pair, most)
        if len(json.dumps(document)) < MOST_BYTES:  # the line end counts as well
            break
    return document


def _explain_document(
    findings: Findings, cell: Cell, why: CellWhy, pair: PairWhy | None, most: int
) -> Document:
    """The document with at most `most` rows in each list."""
    return {
        "schema_version": EXPLAIN_SCHEMA_VERSION,
        "experiment": findings.report.experiment,
        "problem": cell.problem.id,
        "variant": cell.variant.name,
        "against": pair.against.variant.name if pair else None,
        "answer": _answer(findings, cell, pair),
        "account": _account(pair, most) if pair else None,
        "roof_account": _roof_account(pair.roof_account) if pair else None,
        "causes_of_difference": _changes(pair, most) if pair else [],
        "tree": _tree(why, most),
        "timeline": None,
    }


def idle_document(findings: Findings, idle: IdleDifference) -> Document:
    """The same of a run that explained nothing: how long the device was idle in two timelines."""
    verdict = findings.verdicts.of(idle.cell.id, idle.against.id)
    return {
        "schema_version": EXPLAIN_SCHEMA_VERSION,
        "experiment": findings.report.experiment,
        "problem": idle.cell.problem.id,
        "variant": idle.cell.variant.name,
        "against": idle.against.variant.name,
        "answer": _duration(findings, idle.cell) | _verdict(findings, idle.against, verdict),
        "account": None,
        "roof_account": None,
        "causes_of_difference": [],
        "tree": None,
        "timeline": _timeline(idle),
    }


def answer_why(findings: Findings, pair: PairWhy | None) -> Document | None:
    """`answer.why` of a run's summary: the account of the pair that the answer is about.

    Without an account, how long the device was idle in the timelines; None where nothing was
    explained and there are no timelines that differ in it.
    """
    if pair is None or pair.account is None:
        idle = idle_difference(findings)
        if idle is not None:
            return _idle_why(findings, idle)
    if pair is None:
        return None
    return {
        "variant": pair.cell.variant.name,
        "against": pair.against.variant.name,
        "problem": pair.cell.problem.id,
        "verdict": pair.verdict.verdict.value if pair.verdict.verdict else None,
        "account": _account(pair, MOST_PARTS),
        "roof_account": _roof_account(pair.roof_account),
        "causes_of_difference": _changes(pair, MOST_CAUSES),
        "limit": pair.first.kernels[0].limit if pair.first.kernels else None,
        "timeline": None,
    }


def _idle_why(findings: Findings, idle: IdleDifference) -> Document:
    """Why by two timelines: times are of a unit, medians over all of them."""
    verdict = findings.verdicts.of(idle.cell.id, idle.against.id).verdict
    return {
        "variant": idle.cell.variant.name,
        "against": idle.against.variant.name,
        "problem": idle.cell.problem.id,
        "verdict": verdict.value if verdict else None,
        "account": None,
        "roof_account": None,
        "causes_of_difference": [],
        "limit": None,
        "timeline": _timeline(idle),
    }


def _timeline(idle: IdleDifference) -> Document:
    return {
        "busy_ns": _rounded(idle.unit.gpu_ns),
        "against_busy_ns": _rounded(idle.other.gpu_ns),
        "idle_ns": _rounded(idle.unit.idle_ns),
        "against_idle_ns": _rounded(idle.other.idle_ns),
        "busy_pct": _rounded(100 * idle.unit.busy_share),
        "against_busy_pct": _rounded(100 * idle.other.busy_share),
        "n": idle.unit.units,
    }


def _answer(findings: Findings, cell: Cell, pair: PairWhy | None) -> Document:
    answer = _duration(findings, cell)
    return answer | _verdict(findings, pair.against, pair.verdict) if pair else answer


def _duration(findings: Findings, cell: Cell) -> Document:
    return {"duration_ns": _rounded(findings.value(cell, findings.report.primary).median)}


def _verdict(findings: Findings, against: Cell, verdict: PairVerdict) -> Document:
    """The other duration, and the verdict on both."""
    return {
        "against_ns": _duration(findings, against)["duration_ns"],
        "verdict": verdict.verdict.value if verdict.verdict else None,
        "reason": verdict.reason.value,
        "ratio": _rounded(verdict.ratio),
        "ratio_low": _rounded(verdict.low),
        "ratio_high": _rounded(verdict.high),
        "blocks": verdict.blocks,
    }


def _account(pair: PairWhy, most: int) -> Document | None:
    account = pair.account
    if account is None:
        return None
    difference = account.difference_ns
    parts = account.parts[:most]
    return {
        "duration_ns": _rounded(account.first_ns),
        "against_ns": _rounded(account.second_ns),
        "difference_ns": _rounded(difference),
        "timed_difference_ns": _rounded(pair.timed_difference_ns) if any(pair.off_timing) else None,
        "closes": account.closes,
        "residual_pct": _rounded(100 * account.residual),
        "parts": [
            {
                "name": _short(part.name),
                "ns": _rounded(part.ns),
                "share_pct": _rounded(100 * part.ns / difference) if difference else None,
            }
            for part in parts
        ],
        "rest_ns": _rounded(difference - sum(part.ns for part in parts)),
        "pooled_kernels": len(account.pooled[0]) or None,
        "against_pooled_kernels": len(account.pooled[1]) or None,
    }


def _roof_account(account: RoofAccount | None) -> Document | None:
    """Both kernels under the roof that limits them; null where there is none."""
    if account is None:
        return None
    return {
        "roof": account.name,
        "unit": account.first.unit,
        "amount": _rounded(account.first.amount),
        "against_amount": _rounded(account.second.amount),
        "share_pct": _rounded(100 * account.first.share),
        "against_share_pct": _rounded(100 * account.second.share),
        "amount_ns": _rounded(account.amount_ns),
        "share_ns": _rounded(account.share_ns),
        "ceiling_ns": _rounded(account.ceiling_ns),
    }


def _changes(pair: PairWhy, most: int) -> Sequence[Document]:
    return [_change(change) for change in pair.causes[: min(most, MOST_CAUSES)]]


def _change(change: CauseChange) -> Document:
    """A cause in both; shares only where it has no time, because a document has room for few."""
    row = {
        "name": change.name,
        "ns": _estimated_ns(change.name, change.first_ns),
        "against_ns": _estimated_ns(change.name, change.second_ns),
        "n": VISITS,
        "planted": PLANTED.get(change.name),
    }
    if has_time(change.name):
        return row
    return row | {
        "share_pct": _rounded(100 * change.first_share) or None,
        "against_share_pct": _rounded(100 * change.second_share) or None,
    }


def _tree(why: CellWhy, most: int) -> Document | None:
    """The tree of the longest kernel of a cell; null where none was counted."""
    if not why.kernels:
        return None
    kernel = why.kernels[0]
    costs = why.costs[: min(most, MOST_CAUSES)]
    return {
        "kernel": _short(kernel.profile.name),
        "kernels": len(why.kernels),
        "duration_ns": _rounded(kernel.duration_ns),
        "all_kernels_ns": _rounded(why.duration_ns),
        "limit": kernel.limit,
        "roofs": [
            {
                "name": roof.name,
                "share_pct": _rounded(100 * roof.share),
                "practical_pct": _rounded(100 * roof.practical_share),
                "per_second": _rounded(roof.rate),
                "unit": f"{roof.unit}/s",
            }
            for roof in kernel.roofs[: min(most, MOST_ROOFS)]
        ],
        "waits": [
            {"reason": wait.reason, "share_pct": _rounded(100 * wait.share)}
            for wait in kernel.waits[: min(most, MOST_WAITS)]
        ],
        "lines": _lines(kernel)[:most],
        "causes": [_cause(cause, ns) for cause, ns in costs],
        "tied_causes": _tied(costs),
        "ncu": _rules(kernel)[: min(most, MOST_ADVICE)],
    }


def _rules(kernel: KernelWhy) -> list[Document]:
    """Estimates of ncu's rules; once where a rule says the same of several units."""
    rows = dict.fromkeys(
        (advice.rule, _rounded(advice.speedup_pct), advice.speedup_type or None)
        for advice in kernel.advice
    )
    return [{"rule": rule, "speedup_pct": speedup, "of": of} for rule, speedup, of in rows]


def _lines(kernel: KernelWhy) -> Sequence[Document]:
    return [
        {
            "file": None if line.file is None else line.file.rpartition("/")[2],
            "line": line.line,
            "text": _short(line.text),
            "share_pct": _rounded(100 * line.share),
            "reason": line.reason or None,
            "loaded_at": line.loaded_at or None,
        }
        for line in kernel.lines
    ]


def _tied(costs: Sequence[tuple[Cause, float]]) -> list[list[str]]:
    """Names of causes with the same time, of two or more: their order says nothing."""
    by_ns: dict[float | None, list[str]] = {}
    for cause, ns in costs:
        by_ns.setdefault(_rounded(ns), []).append(cause.name)
    return [names for names in by_ns.values() if len(names) > 1]


def _cause(cause: Cause, ns: float) -> Document:
    first = next(iter(cause.evidence.values()), None)
    return {
        "name": cause.name,
        "share_pct": _rounded(100 * cause.share),
        "ns": _estimated_ns(cause.name, ns),
        "value": _rounded(first.value) if first else None,
        "unit": first.unit if first else None,
        "metric": first.metric if first else None,
        "planted": PLANTED.get(cause.name),
    }


def _estimated_ns(cause: str, ns: float) -> float | None:
    """Estimated time of a cause; None where it was not found, and of one that has no time."""
    return (_rounded(ns) or None) if has_time(cause) else None


def _short(text: str) -> str:
    return text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 1]}…"


def _rounded(value: float) -> float | None:
    """Value with five significant digits; None where it is missing."""
    return float(f"{value:.5g}") if math.isfinite(value) else None
