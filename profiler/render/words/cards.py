"""The four cards of a page: best, by how much, is it real, what limits it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from profiler.findings.limits import Limit, LimitKind, limit
from profiler.findings.lookup import Lookup
from profiler.findings.overall import Standing, correct_rows, tunes, winners
from profiler.findings.roles import Ranking
from profiler.findings.rulings import CSS, Ruling, counts, percent
from profiler.model import Problem, Verdict
from profiler.render.words import numbers
from profiler.render.words.answer import Card, noun, where

_NO_LIMIT = (
    "percent of peak was not collected: add compute_throughput_pct and memory_throughput_pct to "
    "collect.metrics"
)


def cards(ranking: Ranking) -> tuple[Card, ...]:
    """Best, by how much, is it real, what limits it."""
    return (
        _best_card(ranking),
        _difference_card(ranking),
        _reality_card(ranking),
        _limit_card(ranking),
    )


def _best_card(ranking: Ranking) -> Card:
    row = ranking.leader
    if row is None:
        return Card("Best", numbers.MISSING, "no correct result was measured")
    detail = ranking.first_words(row)
    if not row.covers:
        detail += f"; measured at {len(row.ratios)}"
    elif tunes(ranking.lookup) and row.regret is not None:
        detail += f"; used {where(row)} it costs at most {row.regret.worst_pct:.1f}\u202f%"
    if row is ranking.baseline_standing:
        detail = f"the baseline; {detail}"
    return Card(_place(ranking, row), row.variant.name, f"{detail}{_ties(ranking, row)}")


def _place(ranking: Ranking, row: Standing) -> str:
    """What the first may be called: best only where it is so at each of its problems."""
    if not row.planned <= ranking.best_or_tied.get(row.variant.id, frozenset()):
        return "Leader"
    own = [one for one in winners(ranking.lookup).values() if one.cell.variant == row.variant]
    alone = len(own) == len(row.planned) and not any(one.tied for one in own)
    return "Best" if alone else "Best or tied"


def _ties(ranking: Ranking, row: Standing) -> str:
    """With whom the leader ties, where it wins; of several problems, at how many."""
    own = [one for one in winners(ranking.lookup).values() if one.cell.variant == row.variant]
    tied = [one for one in own if one.tied]
    if not tied:
        return ""
    if len(row.planned) == 1:
        return f"; ties with {tied[0].ties()}"
    return f"; wins {len(own)}, others tie with it at {len(tied)} of them"


def _difference_card(ranking: Ranking) -> Card:
    row, baseline = ranking.best_standing, ranking.lookup.baseline
    question = "By how much"
    if baseline is None or row is None or row.best is None or row.worst is None:
        return Card(question, numbers.MISSING, "no baseline to compare with")
    if row.variant == baseline:
        return Card(question, numbers.MISSING, "nothing but the baseline was measured")
    against = f"the {noun(ranking.lookup)} of {baseline.name}"
    if ranking.baseline_standing:
        against += f" in {row.variant.name}, first of the rest"
    source = _source(row.rulings)
    if len(row.ratios) == 1:
        value = row.best[1]
        between = numbers.interval(value.ratio_low, value.ratio_high)
        return Card(question, numbers.ratio(value.ratio), f"{against} {between}{source}")
    span = f"{numbers.ratio(row.best[1].ratio)} to {numbers.ratio(row.worst[1].ratio)}"
    detail = f"{against}: geometric mean, {span} by problem{source}"
    return Card(question, numbers.ratio(row.geometric_mean), detail)


def _source(rulings: Sequence[Ruling]) -> str:
    """Which blocks a ratio is from: those of the final, which flatter nobody, or of the timing."""
    known = [one for one in rulings if one.verdict is not None]
    if not known:
        return ""
    final = sum(one.final for one in known)
    if not final:
        return "; from the timing blocks, there was no final"
    if final == len(known):
        return "; measured again in the final"
    return f"; measured again in the final at {final} of {len(known)}"


def _reality_card(ranking: Ranking) -> Card:
    row = ranking.best_standing
    question = "Is it real"
    if row is None or not row.ratios:
        return Card(question, numbers.MISSING, "no ratio to a baseline")
    known = [one for one in row.rulings if one.verdict is not None]
    if known:
        return _verdict_card(question, known)
    if ranking.lookup.rulings.given:
        return Card(question, numbers.MISSING, "nothing but the baseline was measured")
    return _interval_card(question, ranking, row)


def _verdict_card(question: str, rulings: Sequence[Ruling]) -> Card:
    verdicts = list(dict.fromkeys(one.verdict for one in rulings if one.verdict))
    css = CSS[verdicts[0]] if len(verdicts) == 1 else ""
    if len(rulings) == 1:
        return Card(question, rulings[0].word, rulings[0].details, css)
    return Card(question, counts(rulings), _sentence([doubts(rulings), _spans(rulings)]), css)


def _sentence(parts: Sequence[str]) -> str:
    return "; ".join(part for part in parts if part)


def doubts(rulings: Sequence[Ruling]) -> str:
    """Why it is UNCLEAR, where it is: the most common reason in the words of one problem."""
    unclear = [one for one in rulings if one.verdict is Verdict.UNCLEAR]
    if not unclear:
        return ""
    reason, count = Counter(one.reason for one in unclear).most_common(1)[0]
    why = next(one.why for one in unclear if one.reason is reason)
    if count == len(rulings):
        return why
    others = len(unclear) - count
    return f"UNCLEAR at {len(unclear)}{', most often' if others else ''}: {why}"


def _spans(rulings: Sequence[Ruling]) -> str:
    """Margin, noise floor, blocks and detectable effect: each as one value or from-to."""
    parts = [
        ("margin \u00b1", [one.margin for one in rulings], ""),
        ("noise floor ", [one.noise_floor for one in rulings], "noise floor not known"),
    ]
    said = [_span(words, values, without) for words, values, without in parts]
    blocks = sorted({one.blocks for one in rulings if one.blocks})
    if blocks:
        said.append(f"{' to '.join(str(one) for one in blocks[:: max(1, len(blocks) - 1)])} blocks")
    said.append(_span("would likely see ", [one.detectable for one in rulings], ""))
    return ", ".join(part for part in said if part)


def _span(words: str, values: Sequence[float], without: str) -> str:
    known = [value for value in values if not numbers.is_missing(value)]
    if not known:
        return without
    ends = dict.fromkeys(percent(value) for value in (min(known), max(known)))
    return f"{words}{' to '.join(ends)}"


def _interval_card(question: str, ranking: Ranking, row: Standing) -> Card:
    """For metrics that no verdict is given on."""
    lookup = ranking.lookup
    sizes = [lookup.at(row.variant, problem, lookup.report.primary).n for problem, _ in row.ratios]
    blocks = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    detail = (
        f"95\u202f% intervals of the ratio exclude 1; {blocks} blocks a cell; no verdict is given "
        f"on {lookup.primary.label.lower()}"
    )
    return Card(question, f"{row.excluding_one} of {len(row.ratios)} problems", detail)


def _limit_card(ranking: Ranking) -> Card:
    question = "What limits it"
    problem, row = ranking.lookup.largest_problem, ranking.leader
    if problem is None or row is None:
        return Card(question, numbers.MISSING, "nothing was measured")
    found = _limit(ranking.lookup, row.variant.id, problem.id)
    if found is None or found.kind is LimitKind.UNKNOWN:
        return Card(question, numbers.MISSING, _bandwidth_words(ranking.lookup, row, problem))
    busy = {"compute": found.compute_pct, "memory": found.memory_pct, "DRAM": found.dram_pct}
    parts = ", ".join(f"{name} {numbers.show(value, '%')}" for name, value in busy.items() if value)
    detail = f"{parts} of peak at {problem.name}"
    if found.stalls:
        detail += f"; warps wait most for {found.stalls[0].reason.replace('_', ' ')}"
    return Card(question, str(found.kind), detail)


def _bandwidth_words(lookup: Lookup, row: Standing, problem: Problem) -> str:
    """What to collect; before that how busy the device memory is, where that is known."""
    busy = lookup.at(row.variant, problem, "peak_dram_pct").median
    if numbers.is_missing(busy):
        return _NO_LIMIT
    bandwidth = f"{numbers.show(busy, '%')} of the DRAM bandwidth at {problem.name}"
    return f"{bandwidth}; {_NO_LIMIT}"


def _limit(lookup: Lookup, variant: str, problem: str) -> Limit | None:
    cell = lookup.cells.get((variant, problem))
    return limit(correct_rows(lookup), cell.id) if cell else None
