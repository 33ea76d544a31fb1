"""Tables and sentences of kernels in use: launched back to back, and in a captured step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from profiler.findings.findings import Findings
from profiler.findings.kinds.in_use import StepTime, SustainedCell, differing_cells
from profiler.findings.kinds.timers import TimerComparison, reference_collector
from profiler.findings.verdicts import PairVerdict
from profiler.model import Problem
from profiler.notices import counted
from profiler.render.tables.rows import (
    Column,
    Datum,
    SmallTable,
    cell_row,
    text_column,
    variant_row,
    verdict_datum,
)
from profiler.render.words import numbers
from profiler.render.words.sentences import Sentence, sentence_of, strong
from profiler.render.words.signs import word

_MOST_NAMED = 2


def sustained_table(findings: Findings) -> SmallTable | None:
    """A row for each cell that was measured both ways; None without any."""
    programs = findings.programs
    if not findings.sustained:
        return None
    columns: tuple[Column[SustainedCell], ...] = (
        text_column("variant", lambda timed: timed.cell.variant.label),
        Column("one launch", lambda timed: _quantity_datum(timed.cold_ns, "ns")),
        Column(
            "verdict", lambda timed: verdict_datum(timed.cold_verdict, "the baseline"), is_text=True
        ),
        Column("back to back", lambda timed: _quantity_datum(timed.sustained_ns, "ns")),
        Column("verdict", lambda timed: verdict_datum(timed.verdict, "the baseline"), is_text=True),
        Column(
            "one \u00f7 back to back", lambda timed: Datum.times(timed.cold_share, _NOT_MEASURED)
        ),
        Column(
            "longer by clock", lambda timed: _part(timed.clock_ns, _LIMITS[timed.is_power_limited])
        ),
        Column("by cycles", lambda timed: _part(timed.cycles_ns)),
        Column(
            "clock of one",
            lambda timed: Datum.quantity(timed.cold_clock_ghz, "GHz", "cycles were not counted"),
        ),
        *(_median_column(*column) for column in _MEDIANS),
    )
    return SmallTable.of(
        "Each cell once and back to back",
        "problem",
        columns,
        findings.sustained,
        lambda timed: cell_row(programs, timed.cell, timed.cell.problem.name),
    )


_NOT_MEASURED = "not measured"
_LIMITS = {True: "the power limit", False: "not the power limit"}
_MEDIANS = (
    ("clock", "sustained_clock_ghz", "GHz"),
    ("power", "power_w", "W"),
    ("at the power limit", "power_limited_pct", "%"),
    ("energy", "energy_j", "J"),
    ("GFLOP/J", "gflop_per_j", "GFLOP/J"),
    ("GB/J", "gb_per_j", "GB/J"),
)
"""Head, metric and its unit."""


def _median_column(head: str, metric: str, unit: str) -> Column[SustainedCell]:
    return Column(head, lambda timed: _quantity_datum(timed.median(metric), unit))


def _quantity_datum(value: float | None, unit: str) -> Datum:
    return Datum.quantity(value, unit, _NOT_MEASURED)


def _part(ns: float, title: str = "") -> Datum:
    """Part of what a launch takes longer back to back, signed."""
    return Datum.number(ns, numbers.signed_time, "a clock is not known", title)


def sustained_sentence(findings: Findings) -> Sentence:
    """Sentence: where the verdict is another when a kernel is used; else how much all slow down."""
    if not findings.sustained:
        return ()
    groups = _groups_of_changes(differing_cells(findings.sustained))
    if not groups:
        return sentence_of(_no_change_words(findings))
    differences = "; ".join(_difference(group) for group in groups[:_MOST_NAMED])
    more = sum(map(len, groups[_MOST_NAMED:]))
    more_words = f"; {more} more cells differ as well" if more > 0 else ""
    return sentence_of(f"{differences}{more_words}.")


def _groups_of_changes(cells: Sequence[SustainedCell]) -> list[list[SustainedCell]]:
    """Cells of one variant that go from one verdict to the same other one, together."""
    groups: dict[tuple[object, ...], list[SustainedCell]] = {}
    for timed in cells:
        key = (timed.cell.variant.id, timed.cold_verdict.verdict, timed.verdict.verdict)
        groups.setdefault(key, []).append(timed)
    return [*groups.values()]


def _difference(cells: Sequence[SustainedCell]) -> str:
    timed, other_cells = cells[0], len(cells) - 1
    cold, sustained = timed.cold_verdict, timed.verdict
    where = f"{timed.cell.problem.name}{f' and {other_cells} more' if other_cells else ''}"
    ratios = f"{numbers.ratio(cold.ratio)}, then {numbers.ratio(sustained.ratio)}"
    return (
        f"{strong(timed.cell.variant.label)} is {_verdict_word(cold)} cold, "
        f"{_verdict_word(sustained)} sustained at {where} ({ratios}): {_state(timed)}"
    )


def _verdict_word(pair: PairVerdict) -> str:
    return word(pair.verdict) if pair.verdict else ""


def _state(timed: SustainedCell) -> str:
    """`it is held at 698 W, 1.41 GHz`."""
    known_words = (
        (timed.median("power_w"), "W"),
        (timed.clock_ghz, "GHz"),
    )
    state_words = ", ".join(
        numbers.show(value, unit) for value, unit in known_words if not numbers.is_missing(value)
    )
    verb = "is held at" if timed.is_power_limited else "draws"
    return f"it {verb} {state_words}" if state_words else "its power is not known"


def _no_change_words(findings: Findings) -> str:
    cells = findings.sustained
    shares = sorted(timed.cold_share for timed in cells)
    judged = [timed for timed in cells if timed.verdict.tested and timed.cold_verdict.tested]
    no_change = "Back to back no verdict changes" if judged else "Back to back"
    limited = sum(timed.is_power_limited for timed in cells)
    held = f"; the power limit holds {limited} of {len(cells)} cells" if limited else ""
    reference = reference_collector(findings.report.measured.samples)
    ends = f"{numbers.ratio(1 / shares[-1])} to {numbers.ratio(1 / shares[0])}"
    return (
        f"{no_change}: a launch takes {ends} as long as one on an idle GPU by "
        f"{TimerComparison.title(reference or '')}{held}."
    )


# ---- a captured step -----------------------------------------------------------------------------


_NO_STEP = "the whole step was not measured without capturing, or took less than this alone"


def captured_step_table(findings: Findings) -> SmallTable | None:
    """A row for the baseline and for each variant; None without weights."""
    step = findings.captured_step
    if step is None:
        return None
    of_baseline = StepTime(step.baseline, step.baseline_ns, 1.0, 1.0, 1.0, step.problems)
    columns: tuple[Column[StepTime], ...] = (
        Column("calls by duration", lambda time: _quantity_datum(time.ns, "ns")),
        Column("÷ baseline", lambda time: Datum.times(time.ratio, _NOT_MEASURED)),
        Column(
            "95 % interval",
            lambda time: Datum(
                "" if time is of_baseline else numbers.interval(time.low, time.high)
            ),
        ),
        Column("the step", lambda time: Datum.quantity(step.step_with(time.ratio), "ns", _NO_STEP)),
        Column("problems", lambda time: Datum(f"{time.problems} of {step.problems}")),
    )
    return SmallTable.of(
        "Time of the captured step with each variant",
        "variant",
        columns,
        (of_baseline, *step.times),
        lambda time: variant_row(findings.ranking, time.variant),
    )


def step_note(findings: Findings) -> str:
    """Note of the capture on the step; empty without any."""
    settings = findings.report.settings
    return settings.step_note if settings.weights is not None else ""


def captured_sentences(findings: Findings) -> tuple[Sentence, ...]:
    """Sentences on the captured step: its time, and whether its indices decide who wins."""
    if findings.captured_step is None:
        return ()
    step_sentences = (captured_step_sentence(findings), indices_sentence(findings))
    return tuple(sentence for sentence in step_sentences if sentence)


def captured_step_sentence(findings: Findings) -> Sentence:
    """Sentence on the operator's part of the step, and its time with the best other variant."""
    step = findings.captured_step
    if step is None:
        return ()
    step_ns = step.step_with(1.0)
    of_step = "" if step_ns is None else f" of {numbers.show(step_ns, 'ns')}"
    baseline = (
        f"In the captured step {strong(step.baseline.label)} takes "
        f"{numbers.show(step.baseline_ns, 'ns')}{of_step} (calls by duration)"
    )
    if not step.times:
        return sentence_of(f"{baseline}.")
    best = step.times[0]
    between = numbers.interval(best.low, best.high)
    ratios = (best.ratio, best.low, best.high) if between else (best.ratio,)
    ends = [step.step_with(ratio) for ratio in ratios]
    first, *others = [numbers.show(end, "ns") for end in ends if end is not None] or [""]
    becomes = f"; the step would take {first}" if first else ""
    becomes += " ({} to {})".format(*others) if others else ""
    return sentence_of(
        f"{baseline}, and {strong(best.variant.label)} {strong(numbers.ratio(best.ratio))} of that"
        f"{f' ({between})' if between else ''}{becomes}."
    )


def indices_sentence(findings: Findings) -> Sentence:
    """Whether uniform indices in place of the captured ones have another winner; else empty."""
    pairs = [
        (captured, uniform)
        for captured, uniform in _with_uniform_indices(findings.programs.problems)
        if {captured.id, uniform.id} <= findings.ranking.deciding_winners.keys()
    ]
    if not pairs:
        return ()
    winners = findings.ranking.deciding_winners
    changed = [
        (winners[captured.id], winners[uniform.id])
        for captured, uniform in pairs
        if winners[captured.id].contenders.isdisjoint(winners[uniform.id].contenders)
    ]
    where = counted(len(pairs), "signature")
    if not changed:
        return sentence_of(
            f"With uniform indices in place of the captured ones no other variant wins ({where})."
        )
    captured, uniform = (winner.cell.variant.label for winner in changed[0])
    return sentence_of(
        f"The winner is another by the indices at {len(changed)} of {where}: with the captured "
        f"ones {strong(captured)}, with uniform ones {strong(uniform)}."
    )


def _with_uniform_indices(problems: Iterable[Problem]) -> list[tuple[Problem, Problem]]:
    """Problems of one call, with the indices that were captured and with uniform ones."""
    by_indices = {
        (problem.params.get("indices"), problem.params.get("call")): problem for problem in problems
    }
    return [
        (problem, by_indices["uniform", call])
        for (indices, call), problem in by_indices.items()
        if indices == "captured" and ("uniform", call) in by_indices
    ]
