"""The four cards of a page: best, by how much, is it real, what limits it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from profiler.findings.counters import limit_at, nearest_roof
from profiler.findings.findings import Findings
from profiler.findings.limits import LimitKind
from profiler.findings.ranking import VariantRank
from profiler.findings.verdicts import PairVerdict
from profiler.model import Problem, Verdict
from profiler.render.words import numbers
from profiler.render.words.answer import Card, where
from profiler.render.words.ranks import contender_words, ties_words, worst_slowdown_words
from profiler.render.words.steps import noun
from profiler.render.words.verdicts import CSS, counts, details, percent, reason_and_blocks, word_of
from profiler.render.words.why import limit_of_cell, part_words, roof_words, why_sentence

_NO_LIMIT = (
    "percent of peak was not collected: add compute_throughput_pct and memory_throughput_pct to "
    "collect.metrics"
)


def cards(findings: Findings) -> tuple[Card, ...]:
    """Best, by how much, is it real, what limits it."""
    return (
        _best_card(findings),
        _difference_card(findings),
        _reality_card(findings),
        _why_card(findings) or _limit_card(findings),
    )


def _best_card(findings: Findings) -> Card:
    row = findings.leader
    if row is None:
        return Card("Best", numbers.MISSING, "no correct result was measured")
    detail = contender_words(findings, row)
    if not row.covers:
        detail += f"; measured at {len(row.ratios)}"
    elif findings.tunes and row.regret is not None and row.regret.worst > 1:
        slower = worst_slowdown_words(row.regret.worst)
        detail += f"; used {where(row)}, {slower} than the best"
    if row is findings.baseline_rank:
        detail = f"the baseline; {detail}"
    return Card(_place(findings, row), row.variant.name, f"{detail}{_ties(findings, row)}")


def _place(findings: Findings, row: VariantRank) -> str:
    """Heading for the first: best only where it is so at each of its problems."""
    if not row.planned <= findings.contenders.get(row.variant.id, frozenset()):
        return "Leader"
    winners = [
        winner
        for winner in findings.deciding_winners.values()
        if winner.cell.variant == row.variant
    ]
    alone = len(winners) == len(row.planned) and all(winner.best for winner in winners)
    return "Best" if alone else "Best, or not told apart"


def _ties(findings: Findings, row: VariantRank) -> str:
    """Clause on variants the same as the leader at its only problem, or not told apart from it."""
    winners = [
        winner
        for winner in findings.deciding_winners.values()
        if winner.cell.variant == row.variant
    ]
    if len(row.planned) != 1 or not winners or not ties_words(winners[0]):
        return ""
    return f"; {ties_words(winners[0])}"


def _difference_card(findings: Findings) -> Card:
    row, baseline = findings.best_rank, findings.baseline
    question = "By how much"
    if baseline is None or row is None or row.best is None or row.worst is None:
        return Card(question, numbers.MISSING, "no baseline to compare with")
    if row.variant == baseline:
        return Card(question, numbers.MISSING, "only the baseline was measured")
    against = f"the {noun(findings)} of {baseline.name}"
    if findings.baseline_rank:
        against += f" in {row.variant.name}, first of the rest"
    source = _source(row.verdicts)
    if len(row.ratios) == 1:
        value = row.best[1]
        between = numbers.interval(value.ratio_low, value.ratio_high)
        return Card(question, numbers.ratio(value.ratio), f"{against} {between}{source}")
    span = f"{numbers.ratio(row.best[1].ratio)} to {numbers.ratio(row.worst[1].ratio)}"
    detail = f"{against}: geometric mean, {span} by problem{source}"
    return Card(question, numbers.ratio(row.geometric_mean), detail)


def _source(verdicts: Sequence[PairVerdict]) -> str:
    """Source of a ratio: the confirmation, free of selection bias, or the timing blocks."""
    judged = [pair for pair in verdicts if pair.verdict is not None]
    if not judged:
        return ""
    final = sum(pair.final for pair in judged)
    if not final:
        return "; from the timing blocks, not confirmed"
    if final == len(judged):
        return "; confirmed by a second measurement"
    return f"; confirmed by a second measurement at {final} of {len(judged)}"


def _reality_card(findings: Findings) -> Card:
    row = findings.best_rank
    question = "Is it real"
    if row is None or not row.ratios:
        return Card(question, numbers.MISSING, "no ratio to a baseline")
    judged = [pair for pair in row.planned_verdicts if pair.verdict is not None]
    if judged and any(pair.verdict is not Verdict.NO_DATA for pair in judged):
        return _verdict_card(question, judged)
    if findings.gives_verdicts:
        return Card(question, numbers.MISSING, "only the baseline was measured")
    return _interval_card(question, findings, row)


def _verdict_card(question: str, verdicts: Sequence[PairVerdict]) -> Card:
    kinds = list(dict.fromkeys(pair.verdict for pair in verdicts if pair.verdict))
    css = CSS[kinds[0]] if len(kinds) == 1 else ""
    if len(verdicts) == 1:
        return Card(question, word_of(verdicts[0]), details(verdicts[0]), css)
    parts = [part for part in (doubts(verdicts), _spans(verdicts)) if part]
    return Card(question, counts(verdicts), "; ".join(parts), css)


def doubts(verdicts: Sequence[PairVerdict]) -> str:
    """Why it is UNCLEAR, where it is: the most common reason in the words of one problem."""
    unclear = [pair for pair in verdicts if pair.verdict is Verdict.UNCLEAR]
    if not unclear:
        return ""
    reason, count = Counter(pair.reason for pair in unclear).most_common(1)[0]
    why = next(reason_and_blocks(pair) for pair in unclear if pair.reason is reason)
    if count == len(verdicts):
        return why
    others = len(unclear) - count
    return f"UNCLEAR at {len(unclear)}{', most often' if others else ''}: {why}"


def _spans(verdicts: Sequence[PairVerdict]) -> str:
    """Margin, noise floor, blocks and detectable effect: each as one value or from-to."""
    parts = [
        ("margin \u00b1", [pair.margin for pair in verdicts], ""),
        ("noise floor ", [pair.noise_floor for pair in verdicts], "noise floor not known"),
    ]
    spans = [_span(prefix, values, without) for prefix, values, without in parts]
    blocks = sorted({pair.blocks for pair in verdicts if pair.blocks})
    if blocks:
        ends = dict.fromkeys((blocks[0], blocks[-1]))
        spans.append(f"{' to '.join(map(str, ends))} blocks")
    spans.append(_span("would likely see ", [pair.detectable for pair in verdicts], ""))
    return ", ".join(part for part in spans if part)


def _span(prefix: str, values: Sequence[float], without: str) -> str:
    present = [value for value in values if not numbers.is_missing(value)]
    if not present:
        return without
    ends = dict.fromkeys(percent(value) for value in (min(present), max(present)))
    return f"{prefix}{' to '.join(ends)}"


def _interval_card(question: str, findings: Findings, row: VariantRank) -> Card:
    """For metrics that no verdict is given on."""
    sizes = [
        findings.at(row.variant, problem, findings.report.primary).n for problem, _ in row.ratios
    ]
    blocks = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    detail = (
        f"95\u202f% intervals of the ratio exclude 1; {blocks} blocks a cell; no verdict is given "
        f"on {findings.primary.label.lower()}"
    )
    return Card(question, f"{row.excluding_one} of {len(row.ratios)} problems", detail)


def _why_card(findings: Findings) -> Card | None:
    """The largest part of the account that the answer is about; None where none was explained."""
    pair = findings.why.answer
    if pair is None or pair.account is None or not pair.account.parts:
        return None
    along = [part for part in pair.account.parts if part.ns * pair.account.difference_ns > 0]
    sentence = why_sentence(pair)
    if pair.roof_account is not None:
        return Card("Why", roof_words(pair.roof_account.name), sentence)
    limit = limit_of_cell(pair.first)
    largest = along[0] if along else pair.account.parts[0]
    return Card("Why", part_words(largest), f"{sentence} It is limited by {limit}.")


def _limit_card(findings: Findings) -> Card:
    question = "What limits it"
    problem, row = findings.largest_problem, findings.leader
    if problem is None or row is None:
        return Card(question, numbers.MISSING, "nothing was measured")
    limit = limit_at(findings, row.variant, problem)
    roof = nearest_roof(findings, row.variant, problem)
    if roof is not None and (limit is None or limit.kind is LimitKind.UNKNOWN):
        name, share = roof
        detail = f"{numbers.show(share, '%')} of its roof at {problem.name}"
        return Card("Nearest roof", roof_words(name), detail)
    if limit is None or limit.kind is LimitKind.UNKNOWN:
        return Card(question, numbers.MISSING, _bandwidth_words(findings, row, problem))
    busy = {"compute": limit.compute_pct, "memory": limit.memory_pct, "DRAM": limit.dram_pct}
    parts = ", ".join(f"{name} {numbers.show(value, '%')}" for name, value in busy.items() if value)
    detail = f"{parts} of peak at {problem.name}"
    if roof is not None:
        detail += f"; nearest roof: {roof_words(roof[0])}, {numbers.show(roof[1], '%')}"
    if limit.stalls:
        detail += f"; warps wait most for {stall_words(limit.stalls[0].reason)}"
    return Card(question, str(limit.kind), detail)


_STALLS = {"wait": "fixed-latency dependencies"}
"""Reasons whose names in ncu say nothing by themselves."""


def stall_words(reason: str) -> str:
    """Stall reason in words, from ncu's name of it."""
    return _STALLS.get(reason, reason.replace("_", " "))


def _bandwidth_words(findings: Findings, row: VariantRank, problem: Problem) -> str:
    """Metrics to collect, after the busy share of the device memory where that is known."""
    busy = findings.at(row.variant, problem, "peak_dram_pct").median
    if numbers.is_missing(busy):
        return _NO_LIMIT
    bandwidth = f"{numbers.show(busy, '%')} of the DRAM bandwidth at {problem.name}"
    return f"{bandwidth}; {_NO_LIMIT}"
