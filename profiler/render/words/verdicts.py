"""Verdicts in words: symbol and word, the reason, and the numbers behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from profiler.findings.caveats import CLOCKS_DIFFER
from profiler.findings.findings import NamedBaseline
from profiler.findings.verdicts import PairVerdict, Reason
from profiler.model import FEWEST_BLOCKS, Cell, Verdict
from profiler.notices import all_problems, counted
from profiler.render.words import numbers
from profiler.render.words.signs import ORDER, SYMBOLS, word

BY_TIME = " by time alone"
"""Words after FASTER and SLOWER where cycles were not counted: a clock may have made it."""
LAUNCH_WORDS = {
    Reason.GAPS: "would be another with 1 µs between the kernels of a launch, which no sum of "
    "durations holds",
    Reason.OVERLAP: "kernels that can run at once were added up, and take less if they do",
    Reason.WAITS: "would be another with what the host does while a launch waits for the device, "
    "which no sum of durations holds",
    Reason.COPIES: "would be another with the copies of a launch that are no kernels, which no sum "
    "of durations holds",
}
"""Clauses of verdicts on sums of kernels that may not hold for whole launches."""


def word_of(pair: PairVerdict) -> str:
    """Symbol and word of the verdict on a pair; empty without one.

    Of a difference also that cycles did not confirm it, of SAME within which margin.
    """
    if pair.verdict is None:
        return ""
    return f"{word(pair.verdict)}{BY_TIME if pair.by_time_alone else ''}{within([pair])}"


def word_of_all(pairs: Sequence[PairVerdict]) -> str:
    """Symbol and word of pairs that have one verdict; of SAME also within which margins."""
    return f"{word(pairs[0].verdict)}{within(pairs)}" if pairs[0].verdict else ""


def within(pairs: Iterable[PairVerdict]) -> str:
    """` within ±1.00 %`: margins of those pairs that are SAME; empty where none is known."""
    margins = [pair.resolution.margin for pair in pairs if pair.verdict is Verdict.SAME]
    return span_words(" within \u00b1", margins)


def span_words(prefix: str, effects: Iterable[float], without: str = "") -> str:
    """The least and the greatest of relative effects, once where they are alike."""
    present = [effect for effect in effects if not numbers.is_missing(effect)]
    if not present:
        return without
    ends = dict.fromkeys(map(percent, (min(present), max(present))))
    return f"{prefix}{' to '.join(ends)}"


def reason_words(pair: PairVerdict) -> str:
    """The reason of a verdict as a clause; empty without a verdict."""
    if pair.verdict is None:
        return ""
    missing, resolution = numbers.is_missing, pair.resolution
    margin, effect = resolution.margin, resolution.detectable
    unknown = " (noise floor not known)" if missing(resolution.noise_floor) else ""
    limits = "the margin" if missing(margin) else f"\u00b1{percent(margin)}{unknown}"
    detectable = "" if missing(effect) else f"; would likely see {percent(effect)}"
    clauses = {
        Reason.DECIDED: f"beyond {limits} in time and in cycles",
        Reason.DECIDED_BY_TIME: f"beyond {limits}; its blocks counted no cycles",
        Reason.WITHIN_MARGIN: f"in time, and cycles do not object{unknown}{detectable}",
        Reason.WITHIN_MARGIN_BY_TIME: f"in time; its blocks counted no cycles{unknown}{detectable}",
        Reason.FEW_BLOCKS: f"{counted(pair.blocks, 'block')}; "
        f"a verdict needs {FEWEST_BLOCKS} or more",
        Reason.MORE_BLOCKS_NEEDED: f"{pair.blocks} blocks do not tell it from {limits}{detectable}",
        Reason.MANY_COMPARISONS: "would be decided alone, but not as one of so many comparisons",
        Reason.NOISE: f"the baseline varies by {limits}: too much to call two durations the same",
        Reason.CYCLES_UNCLEAR: f"differs in time, but {pair.blocks} blocks do not show it in "
        "cycles",
        Reason.CLOCK: "time and cycles disagree: the clock moved",
        Reason.MIXED_LAUNCHES: "launches of one visit differ by more than visits do: they are of "
        "several kinds",
        **LAUNCH_WORDS,
        Reason.NOT_MEASURED: "not measured",
        Reason.SAME_PROGRAM: "the same machine code, measured once",
    }
    return f"{clauses[pair.reason]}{_offset_words(pair)}"


def _offset_words(pair: PairVerdict) -> str:
    """Clause that offsets between sessions made the margin, with their deviation; else empty."""
    if not pair.resolution.rests_on_offsets:
        return ""
    offsets = percent(pair.resolution.session_sd)
    return f"; one session: offsets of {offsets} between sessions are not seen"


def reason_and_blocks(pair: PairVerdict) -> str:
    """The reason and the number of blocks that it rests on; empty without a verdict."""
    reason = reason_words(pair)
    blocks = counted(pair.blocks, "block")
    more = f"; {blocks}" if pair.blocks and blocks not in reason else ""
    return f"{reason}{more}{_final_words(pair)}"


def details(pair: PairVerdict) -> str:
    """Evidence of the verdict: reason, margin, noise floor, blocks, detectable effect."""
    is_judged = pair.verdict is not None and pair.blocks
    evidence = limits([pair], counted(pair.blocks, "block")) if is_judged else ""
    parts = [reason_words(pair) + _final_words(pair), evidence, cycles_words(pair)]
    return "; ".join(part for part in parts if part)


def cycles_words(pair: PairVerdict) -> str:
    """The ratio of cycles, and by how much the clocks differ where that is much; or empty."""
    if numbers.is_missing(pair.cycles_ratio) or numbers.is_missing(pair.ratio):
        return ""
    cycles = f"cycles {numbers.ratio(pair.cycles_ratio)}"
    clocks_differ = max(pair.cycles_ratio / pair.ratio, pair.ratio / pair.cycles_ratio) - 1
    if clocks_differ <= CLOCKS_DIFFER:
        return cycles
    return f"{cycles}, clocks {percent(clocks_differ)} apart"


def limits(pairs: Sequence[PairVerdict], blocks: str) -> str:
    """Margin, noise floor, number of blocks and detectable effect: each as one value or from-to."""
    resolutions = [pair.resolution for pair in pairs]
    floors = [resolution.noise_floor for resolution in resolutions]
    spans = (
        span_words("margin \u00b1", [resolution.margin for resolution in resolutions]),
        span_words("noise floor ", floors, "noise floor not known"),
        blocks,
        span_words("would likely see ", [resolution.detectable for resolution in resolutions]),
    )
    return ", ".join(filter(None, spans))


def quotient_words(pair: PairVerdict) -> str:
    """The durations that the ratio of a pair is of, in the blocks that both have; or empty."""
    if numbers.is_missing(pair.median) or numbers.is_missing(pair.against_median):
        return ""
    return f"{numbers.show(pair.median, 'ns')} \u00f7 {numbers.show(pair.against_median, 'ns')}"


def _final_words(pair: PairVerdict) -> str:
    """Mark of the confirmation, with the verdict of the timing blocks where that differs."""
    if pair.timing_verdict is None:
        return ""
    if pair.timing_verdict is pair.verdict:
        return "; confirmation"
    return f"; confirmation (timing blocks: {pair.timing_verdict.word})"


def after_number(pair: PairVerdict) -> str:
    """Verdict and reason after what else stands on hover: `; ▼ FASTER (…)`; empty without one."""
    return f"; {word_of(pair)} ({details(pair)})" if pair.verdict is not None else ""


def verdict_key() -> str:
    """Key of the symbols."""
    return ", ".join(word(verdict) for verdict in ORDER if verdict is not Verdict.NO_DATA)


def percent(effect: float) -> str:
    """A relative effect: 0.0123 is `1.23 %`; above 100 % a factor: 12.9 is 13.9 times."""
    return numbers.ratio(1 + effect) if effect > 1 else f"{100 * effect:.2f}\u202f%"


def counts(pairs: Iterable[PairVerdict]) -> str:
    """Counts of verdicts: `FASTER at 3, SAME at 1 of 4 problems`; "" without any."""
    judged = [pair for pair in pairs if pair.verdict is not None]
    by_verdict = Counter(pair.verdict for pair in judged if pair.verdict is not None)
    if len(judged) < 2:
        return "".join(map(word_of, judged))
    by_time = _by_time_words(judged)
    if len(by_verdict) == 1:
        return f"{word_of_all(judged)} at {all_problems(len(judged))}{by_time}"
    parts = [
        f"{word_of_all([pair for pair in judged if pair.verdict is verdict])} at {count}"
        for verdict in ORDER
        if (count := by_verdict[verdict])
    ]
    return f"{', '.join(parts)} of {len(judged)} problems{by_time}"


def counts_clause(pairs: Iterable[PairVerdict]) -> str:
    """Counts of verdicts after a comma; empty without any."""
    text = counts(pairs)
    return f", {text}" if text else ""


def _by_time_words(judged: Sequence[PairVerdict]) -> str:
    """Words on how many of the differences cycles did not confirm, after their counts; or empty."""
    differing = sum(pair.verdict in (Verdict.FASTER, Verdict.SLOWER) for pair in judged)
    by_time = sum(pair.by_time_alone for pair in judged)
    if not by_time:
        return ""
    return f",{BY_TIME}" if by_time == differing else f" ({by_time}{BY_TIME})"


def verdict_counts(pairs: Iterable[PairVerdict]) -> str:
    """Counts of verdicts in symbols: `▼ 4, = 1`."""
    by_verdict = Counter(pair.verdict for pair in pairs if pair.verdict is not None)
    return ", ".join(
        f"{SYMBOLS[verdict]} {by_verdict[verdict]}" for verdict in ORDER if by_verdict[verdict]
    )


def symbol(pairs: Iterable[PairVerdict]) -> str:
    """The symbol of a verdict that all problems agree in; empty where they do not."""
    verdicts = {pair.verdict for pair in pairs if pair.verdict is not None}
    only = verdicts.pop() if len(verdicts) == 1 else None
    return SYMBOLS[only] if only else ""


def ratio_and_symbol(ratio: float, pairs: Iterable[PairVerdict]) -> str:
    """A ratio, and the symbol of the verdict that all problems agree in."""
    return f"{numbers.ratio(ratio)} {symbol(pairs)}".rstrip()


def heat_mark(pair: PairVerdict) -> str:
    """CSS class of a cell in a heat map: UNCLEAR is hatched, SAME dotted."""
    return {Verdict.UNCLEAR: " unclear", Verdict.SAME: " tied"}.get(
        pair.verdict or Verdict.NO_DATA, ""
    )


# ---- against a named baseline --------------------------------------------------------------------


def baseline_label(baseline: NamedBaseline) -> str:
    """Label of a baseline to switch to."""
    name = baseline.variant.label if baseline.variant else ""
    return {
        "reference": f"reference: {name}",
        "best": "best of each problem",
        "first": f"first: {name}",
        "previous": "previous variant of the plan",
    }[baseline.key]


def why_no_verdict(baseline: NamedBaseline, cell: Cell) -> str:
    """Why a cell has no verdict against a baseline."""
    if baseline.opponents[cell.id] == cell.id:
        return "compared with itself"
    if baseline.opponents[cell.id] is None:
        return "nothing to compare with"
    return "not compared"
