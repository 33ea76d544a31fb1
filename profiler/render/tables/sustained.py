"""Table and sentence of cells that were measured once on an idle GPU and back to back."""

from __future__ import annotations

from collections.abc import Sequence

from profiler.findings.findings import Findings
from profiler.findings.kinds.sustained import SustainedCell, SustainedFindings
from profiler.findings.kinds.timers import TimerComparison
from profiler.findings.verdicts import PairVerdict
from profiler.render.tables.rows import Datum, Row, verdict_datum
from profiler.render.words import numbers
from profiler.render.words.sentences import Sentence, sentence_of, strong
from profiler.render.words.verdict_words import word

HEADS = (
    *("one launch", "verdict", "back to back", "verdict", "one \u00f7 back to back"),
    *("longer by clock", "by cycles"),
    *("clock of one", "clock", "power", "at the power limit", "energy", "GFLOP/J", "GB/J"),
)
_MOST_NAMED = 2


def sustained_rows(findings: Findings) -> tuple[Row, ...]:
    """A row for each cell that was measured both ways, for HEADS; none without any."""
    found, programs = findings.sustained, findings.programs
    return tuple(
        Row(
            of.cell.problem.name,
            (Datum(of.cell.variant.label, css="words"), *_data(of)),
            programs.marks[of.cell.variant.id],
            cell=programs.cell_numbers[of.cell.id],
        )
        for of in (found.cells if found else ())
    )


def _data(of: SustainedCell) -> tuple[Datum, ...]:
    def quantity(metric: str, unit: str) -> Datum:
        return Datum.quantity(of.median(metric), unit, "not measured")

    return (
        Datum.quantity(of.cold_ns, "ns", "not measured"),
        verdict_datum(of.cold_verdict, "the baseline"),
        Datum.quantity(of.sustained_ns, "ns", "not measured"),
        verdict_datum(of.verdict, "the baseline"),
        Datum.times(of.cold_share, "not measured"),
        _part(of.clock_ns, "the power limit" if of.is_power_limited else "not the power limit"),
        _part(of.cycles_ns),
        Datum.quantity(of.cold_clock_ghz, "GHz", "cycles were not counted"),
        quantity("sustained_clock_ghz", "GHz"),
        quantity("power_w", "W"),
        quantity("power_limited_pct", "%"),
        quantity("energy_j", "J"),
        quantity("gflop_per_j", "GFLOP/J"),
        quantity("gb_per_j", "GB/J"),
    )


def _part(ns: float, title: str = "") -> Datum:
    """Part of what a launch takes longer back to back, signed."""
    if numbers.is_missing(ns):
        return Datum(title="a clock is not known", css="none")
    return Datum(numbers.signed_time(ns), numbers.raw(ns), title)


def sustained_sentence(findings: Findings) -> Sentence:
    """Where the verdict is another when a kernel is used; else how much all slow down then."""
    sustained = findings.sustained
    if sustained is None:
        return ()
    groups = _alike(sustained.differing)
    if not groups:
        return sentence_of(_all_alike(sustained))
    named = "; ".join(_difference(group) for group in groups[:_MOST_NAMED])
    more = sum(map(len, groups[_MOST_NAMED:]))
    rest = f"; {more} more cells differ as well" if more > 0 else ""
    return sentence_of(f"{named}{rest}.")


def _alike(cells: Sequence[SustainedCell]) -> list[list[SustainedCell]]:
    """Cells of one variant that go from one verdict to the same other one, together."""
    groups: dict[tuple[object, ...], list[SustainedCell]] = {}
    for of in cells:
        key = (of.cell.variant.id, of.cold_verdict.verdict, of.verdict.verdict)
        groups.setdefault(key, []).append(of)
    return [*groups.values()]


def _difference(cells: Sequence[SustainedCell]) -> str:
    of, others = cells[0], len(cells) - 1
    cold, sustained = of.cold_verdict, of.verdict
    where = f"{of.cell.problem.name}{f' and {others} more' if others else ''}"
    ratios = f"{numbers.ratio(cold.ratio)}, then {numbers.ratio(sustained.ratio)}"
    return (
        f"{strong(of.cell.variant.label)} is {_word(cold)} cold, {_word(sustained)} sustained at "
        f"{where} ({ratios}): {_state(of)}"
    )


def _word(pair: PairVerdict) -> str:
    return word(pair.verdict) if pair.verdict else ""


def _state(of: SustainedCell) -> str:
    """`it is held at 698 W, 1.41 GHz`."""
    known = (
        (of.median("power_w"), "W"),
        (of.clock_ghz, "GHz"),
    )
    words = ", ".join(
        numbers.show(value, unit) for value, unit in known if not numbers.is_missing(value)
    )
    verb = "is held at" if of.is_power_limited else "draws"
    return f"it {verb} {words}" if words else "its power is not known"


def _all_alike(found: SustainedFindings) -> str:
    shares = sorted(of.cold_share for of in found.cells)
    judged = [of for of in found.cells if of.verdict.tested and of.cold_verdict.tested]
    same = "Back to back no verdict changes" if judged else "Back to back"
    limited = sum(of.is_power_limited for of in found.cells)
    held = f"; the power limit holds {limited} of {len(found.cells)} cells" if limited else ""
    ends = f"{numbers.ratio(1 / shares[-1])} to {numbers.ratio(1 / shares[0])}"
    return (
        f"{same}: a launch takes {ends} as long as one on an idle GPU by "
        f"{TimerComparison.title(found.reference)}{held}."
    )
