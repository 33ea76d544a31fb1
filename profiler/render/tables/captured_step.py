"""Table and sentence of what a captured step would take with each variant."""

from __future__ import annotations

from collections.abc import Iterable

from profiler.findings.findings import Findings
from profiler.findings.kinds.captured_step import CapturedStep, StepTime
from profiler.model import Problem
from profiler.render.tables.rows import Datum, Row, variant_row
from profiler.render.words import numbers
from profiler.render.words.sentences import Sentence, sentence_of, strong

HEADS = ("calls by duration", "÷ baseline", "95 % interval", "the step", "problems")
_NO_STEP = "the whole step was not measured without capturing, or took less than this alone"


def captured_step_rows(findings: Findings) -> tuple[Row, ...]:
    """A row for the baseline and for each variant, for HEADS; none without weights."""
    step = findings.captured_step
    if step is None:
        return ()
    of_baseline = StepTime(step.baseline, step.baseline_ns, 1.0, 1.0, 1.0, step.problems)
    return tuple(
        variant_row(findings.ranking, time.variant, _data(step, time))
        for time in (of_baseline, *step.times)
    )


def step_note(findings: Findings) -> str:
    """What the capture said of the step; empty without any."""
    weights = findings.report.settings.weights
    return "" if weights is None else weights.note


def _data(step: CapturedStep, time: StepTime) -> tuple[Datum, ...]:
    is_baseline = time.variant == step.baseline
    interval = "" if is_baseline else numbers.interval(time.low, time.high)
    return (
        Datum.quantity(time.ns, "ns", "not measured"),
        Datum.times(time.ratio, "not measured"),
        Datum(interval),
        Datum.quantity(step.step_with(time.ratio), "ns", _NO_STEP),
        Datum(f"{time.problems} of {step.problems}"),
    )


def captured_sentences(findings: Findings) -> tuple[Sentence, ...]:
    """What the captured step would take, and whether its indices decide who wins; may be none."""
    if findings.captured_step is None:
        return ()
    made = (captured_step_sentence(findings), indices_sentence(findings))
    return tuple(sentence for sentence in made if sentence)


def captured_step_sentence(findings: Findings) -> Sentence:
    """What of the step is the operator, and what it would take with the best other variant."""
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
    ends = [step.step_with(ratio) for ratio in (best.ratio, best.low, best.high)]
    shown = [numbers.show(end, "ns") for end in ends if end is not None]
    becomes = "; the step would take {} ({} to {})".format(*shown) if shown else ""
    return sentence_of(
        f"{baseline}, and {strong(best.variant.label)} {strong(numbers.ratio(best.ratio))} of that "
        f"({numbers.interval(best.low, best.high)}){becomes}."
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
    where = f"{len(pairs)} signature{'s' if len(pairs) > 1 else ''}"
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
