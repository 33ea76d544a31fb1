"""A comparison of runs as one JSON document: raw numbers, units in the keys, missing is null.

`make numbers` writes its schema to `docs/comparison.schema.json`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from profiler.comparison.changes import CellChange, MetricChange
from profiler.comparison.compare import RunComparison, RunTimes
from profiler.comparison.runs import ComparedRun
from profiler.comparison.steps import RunStep
from profiler.findings.gates import Gate, regressions
from profiler.findings.json_model import JsonObject, NoticeDocument, Number, Source, json_value
from profiler.model import SCHEMA_VERSION


class ComparedRunDocument(JsonObject):
    """One run of a comparison."""

    get = Source[ComparedRun]()
    name: str = get(lambda run: run.name)
    experiment: str = get(lambda run: run.report.experiment.name)
    created: str = get(lambda run: run.report.execution.created)
    baseline: str | None = get(lambda run: run.report.plan.baseline)
    cells: int = get(lambda run: len(run.report.plan.cells))
    environment: dict[str, Any] = get(lambda run: asdict(run.report.environment))


def _metrics(change: CellChange, *, facts: bool) -> dict[str, MetricChange]:
    """Changes of metrics by name, of those that do not scatter or of the others."""
    return {metric.metric: metric for metric in change.metrics if metric.is_fact is facts}


class BothDocument(JsonObject):
    """A metric of a cell in both runs."""

    get = Source[MetricChange]()
    older: Number = get(lambda metric: json_value(metric.older))
    newer: Number = get(lambda metric: json_value(metric.newer))


class CellChangeDocument(JsonObject):
    """A cell of the newer run relative to the older one; ratios are newer ÷ older.

    Margin, floors and `detectable` are relative effects: 0.0123 is 1.23 %.
    """

    get = Source[CellChange]()
    id: str = get(lambda change: change.cell.id)
    variant: str = get(lambda change: change.cell.variant.name)
    problem: str = get(lambda change: change.cell.problem.name)
    problem_params: dict[str, Any] = get(lambda change: dict(change.cell.problem.params))
    controlled: bool = get(lambda change: change.controlled)
    """whether `ratio` is that of the ratios to the control; else it is that of the durations"""
    verdict: str | None = get(lambda change: change.verdict and change.verdict.value)
    """null where no verdict may be given"""
    reason: str = get(lambda change: change.reason.value)
    program: str = get(lambda change: change.program.value)
    older_outcome: str = get(lambda change: change.outcomes[0].value)
    newer_outcome: str = get(lambda change: change.outcomes[1].value)
    older_duration_ns: Number = get(lambda change: json_value(change.durations.older_ns))
    newer_duration_ns: Number = get(lambda change: json_value(change.durations.newer_ns))
    ratio: Number = get(lambda change: json_value(change.ratio))
    ratio_low: Number = get(lambda change: json_value(change.ratio_low))
    ratio_high: Number = get(lambda change: json_value(change.ratio_high))
    duration_ratio: Number = get(lambda change: json_value(change.durations.raw_ratio))
    """of the durations, whatever moved all durations of a run"""
    duration_ratio_low: Number = get(lambda change: json_value(change.durations.raw_low))
    duration_ratio_high: Number = get(lambda change: json_value(change.durations.raw_high))
    margin: Number = get(lambda change: json_value(change.judgement.margin))
    noise_floor: Number = get(lambda change: json_value(change.judgement.noise_floor))
    clock_floor: Number = get(lambda change: json_value(change.judgement.clock_floor))
    control_floor: Number = get(lambda change: json_value(change.judgement.control_floor))
    session_floor: Number = get(lambda change: json_value(change.judgement.session_floor))
    clock_ratio: Number = get(lambda change: json_value(change.durations.clock_ratio))
    detectable: Number = get(lambda change: json_value(change.judgement.detectable))
    blocks_older: Number = get(lambda change: json_value(change.judgement.blocks_older))
    blocks_newer: Number = get(lambda change: json_value(change.judgement.blocks_newer))
    facts = get.by_name(BothDocument, lambda change: _metrics(change, facts=True))
    metrics = get.by_name(BothDocument, lambda change: _metrics(change, facts=False))
    retuned: list[dict[str, Any]] = get(lambda change: [*map(asdict, change.retuned)])
    """operations for which a compiler's autotuner chose differently"""


class RunStepDocument(JsonObject):
    """A newer run relative to an older one."""

    get = Source[RunStep]()
    older: int = get(lambda step: step.older)
    """place in `runs`, as that of `newer`"""
    newer: int = get(lambda step: step.newer)
    reversed: bool = get(lambda step: step.reversed)
    """whether what was named as the older one was measured later"""
    machines: str = get(lambda step: step.machines.value)
    control: str | None = get(lambda step: step.control)
    """id of the variant that the ratios are relative to in both runs"""
    withheld: str | None = get(lambda step: step.refused and step.refused.value)
    """why no duration has a verdict"""
    only_older: list[str] = get(lambda step: list(step.only_older))
    only_newer: list[str] = get(lambda step: list(step.only_newer))
    edited_files: list[dict[str, Any]] = get(lambda step: [*map(asdict, step.edited_files)])
    cells = get.rows(CellChangeDocument, lambda step: step.cells.values())


class RunTimesDocument(JsonObject):
    """A cell in one run: median duration with its interval, and its ratio to the baseline there."""

    get = Source[RunTimes]()
    run: int = get(lambda times: times.run)
    blocks: Number = get(lambda times: json_value(times.blocks))
    duration_ns: Number = get(lambda times: json_value(times.median_ns))
    duration_low_ns: Number = get(lambda times: json_value(times.low_ns))
    duration_high_ns: Number = get(lambda times: json_value(times.high_ns))
    ratio: Number = get(lambda times: json_value(times.ratio))
    ratio_low: Number = get(lambda times: json_value(times.ratio_low))
    ratio_high: Number = get(lambda times: json_value(times.ratio_high))


class HistoryDocument(JsonObject):
    """A cell in every run that measured it."""

    get = Source[tuple[str, Any]]()
    cell: str = get(lambda of: of[0])
    runs = get.rows(RunTimesDocument, lambda of: of[1].values())


class GateDocument(JsonObject):
    """What `--fail-on` asks, and the cells that trip it."""

    get = Source[tuple[Gate, list[str]]]()
    rule: str = get(lambda gated: str(gated[0]))
    tripped: bool = get(lambda gated: bool(gated[1]))
    cells: list[str] = get(lambda gated: gated[1])


def _gate_with_regressions(
    comparison: RunComparison, gate: Gate | None
) -> tuple[Gate, list[str]] | None:
    """The gate, and ids of the cells that trip it."""
    if gate is None:
        return None
    return gate, [str(cell) for cell in regressions(comparison.judged, gate)["cell"]]


class ComparisonDocument(JsonObject):
    """What `profiler compare RUN RUN --json -` prints."""

    get = Source[tuple[RunComparison, Gate | None]]()
    schema_version: int = get(lambda _: SCHEMA_VERSION)
    runs = get.rows(ComparedRunDocument, lambda of: of[0].runs)
    """oldest first"""
    differences: list[dict[str, Any]] = get(
        lambda of: [
            {"field": field, "values": values} for field, values in of[0].differences.items()
        ]
    )
    notices = get.rows(NoticeDocument, lambda of: of[0].notices)
    steps = get.rows(RunStepDocument, lambda of: of[0].steps)
    history = get.rows(HistoryDocument, lambda of: of[0].history.items())
    gate = get.nested(GateDocument, lambda of: _gate_with_regressions(*of))


def comparison_document(comparison: RunComparison, gate: Gate | None = None) -> dict[str, Any]:
    """The whole comparison, for programs; `gate` adds the cells that trip it."""
    return ComparisonDocument.document((comparison, gate))
