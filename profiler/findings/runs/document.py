"""A comparison of runs as one JSON document: raw numbers, units in the keys, missing is null.

`make numbers` writes its schema to `docs/comparison.schema.json`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

from profiler.comparison.runs import ComparedRun
from profiler.findings.gates import Gate, regressions
from profiler.findings.json_model import JsonObject, NoticeDocument, Number, Source, json_value
from profiler.findings.runs.changes import CellChange, MetricChange
from profiler.findings.runs.comparison import RunComparison, RunTimes
from profiler.findings.runs.steps import RunStep
from profiler.model import SCHEMA_VERSION, Cell


class _Change(NamedTuple):
    """A change of a cell as the newest run defines that."""

    change: CellChange
    cell: Cell

    def metrics(self, *, facts: bool) -> dict[str, MetricChange]:
        """Changes of metrics by name, of those that do not scatter or of the others."""
        return {change.metric: change for change in self.change.metrics if change.is_fact is facts}


class _Gated(NamedTuple):
    comparison: RunComparison
    gate: Gate

    @property
    def cells(self) -> list[str]:
        """Ids of the cells that trip the gate."""
        return [str(cell) for cell in regressions(self.comparison.judged, self.gate)["cell"]]


class ComparedRunDocument(JsonObject):
    """One run of a comparison."""

    get = Source[ComparedRun]()
    name: str = get(lambda run: run.name)
    experiment: str = get(lambda run: run.report.experiment.name)
    created: str = get(lambda run: run.report.execution.created)
    baseline: str | None = get(lambda run: run.report.plan.baseline)
    cells: int = get(lambda run: len(run.report.plan.cells))
    environment: dict[str, Any] = get(lambda run: asdict(run.report.environment))


class BothDocument(JsonObject):
    """A metric of a cell in both runs."""

    get = Source[MetricChange]()
    older: Number = get(lambda metric: json_value(metric.older))
    newer: Number = get(lambda metric: json_value(metric.newer))


class CellChangeDocument(JsonObject):
    """A cell of the newer run relative to the older one; ratios are newer ÷ older.

    Margin, floors and `detectable` are relative effects: 0.0123 is 1.23 %.
    """

    get = Source[_Change]()
    id: str = get(lambda of: of.change.cell.id)
    variant: str = get(lambda of: of.cell.variant.name)
    problem: str = get(lambda of: of.cell.problem.name)
    problem_params: dict[str, Any] = get(lambda of: dict(of.cell.problem.params))
    controlled: bool = get(lambda of: of.change.controlled)
    """whether `ratio` is that of the ratios to the control; else it is that of the durations"""
    verdict: str | None = get(lambda of: of.change.verdict and of.change.verdict.value)
    """null where no verdict may be given"""
    reason: str = get(lambda of: of.change.reason.value)
    program: str = get(lambda of: of.change.program.value)
    older_outcome: str = get(lambda of: of.change.outcomes[0].value)
    newer_outcome: str = get(lambda of: of.change.outcomes[1].value)
    older_duration_ns: Number = get(lambda of: json_value(of.change.durations.older_ns))
    newer_duration_ns: Number = get(lambda of: json_value(of.change.durations.newer_ns))
    ratio: Number = get(lambda of: json_value(of.change.ratio))
    ratio_low: Number = get(lambda of: json_value(of.change.ratio_low))
    ratio_high: Number = get(lambda of: json_value(of.change.ratio_high))
    duration_ratio: Number = get(lambda of: json_value(of.change.durations.raw_ratio))
    """of the durations, whatever moved all durations of a run"""
    duration_ratio_low: Number = get(lambda of: json_value(of.change.durations.raw_low))
    duration_ratio_high: Number = get(lambda of: json_value(of.change.durations.raw_high))
    margin: Number = get(lambda of: json_value(of.change.judgement.margin))
    noise_floor: Number = get(lambda of: json_value(of.change.judgement.noise_floor))
    clock_floor: Number = get(lambda of: json_value(of.change.judgement.clock_floor))
    control_floor: Number = get(lambda of: json_value(of.change.judgement.control_floor))
    session_floor: Number = get(lambda of: json_value(of.change.judgement.session_floor))
    clock_ratio: Number = get(lambda of: json_value(of.change.durations.clock_ratio))
    detectable: Number = get(lambda of: json_value(of.change.judgement.detectable))
    blocks_older: Number = get(lambda of: json_value(of.change.judgement.blocks_older))
    blocks_newer: Number = get(lambda of: json_value(of.change.judgement.blocks_newer))
    facts: dict[str, BothDocument] = get.by_name(BothDocument, lambda of: of.metrics(facts=True))
    metrics: dict[str, BothDocument] = get.by_name(BothDocument, lambda of: of.metrics(facts=False))
    retuned: list[dict[str, Any]] = get(lambda of: [*map(asdict, of.change.retuned)])
    """operations for which a compiler's autotuner chose differently"""


class RunStepDocument(JsonObject):
    """A newer run relative to an older one."""

    get = Source[tuple[RunStep, RunComparison]]()
    older: int = get(lambda of: of[0].older)
    """place in `runs`, as that of `newer`"""
    newer: int = get(lambda of: of[0].newer)
    reversed: bool = get(lambda of: of[0].reversed)
    """whether what was named as the older one was measured later"""
    machines: str = get(lambda of: of[0].machines.value)
    control: str | None = get(lambda of: of[0].control)
    """id of the variant that the ratios are relative to in both runs"""
    withheld: str | None = get(lambda of: of[0].refused and of[0].refused.value)
    """why no duration has a verdict"""
    only_older: list[str] = get(lambda of: list(of[0].only_older))
    only_newer: list[str] = get(lambda of: list(of[0].only_newer))
    edited_files: list[dict[str, Any]] = get(lambda of: [*map(asdict, of[0].edited_files)])
    cells: list[CellChangeDocument] = get.rows(
        CellChangeDocument,
        lambda of: (_Change(change, of[1].planned[name]) for name, change in of[0].cells.items()),
    )


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
    runs: list[RunTimesDocument] = get.rows(RunTimesDocument, lambda of: of[1].values())


class GateDocument(JsonObject):
    """What `--fail-on` asks, and the cells that trip it."""

    get = Source[_Gated]()
    rule: str = get(lambda gated: str(gated.gate))
    tripped: bool = get(lambda gated: bool(gated.cells))
    cells: list[str] = get(lambda gated: gated.cells)


class ComparisonDocument(JsonObject):
    """What `profiler compare RUN RUN --json -` prints."""

    get = Source[tuple[RunComparison, Gate | None]]()
    schema_version: int = get(lambda _: SCHEMA_VERSION)
    runs: list[ComparedRunDocument] = get.rows(ComparedRunDocument, lambda of: of[0].runs)
    """oldest first"""
    differences: list[dict[str, Any]] = get(lambda of: [*map(asdict, of[0].differences)])
    notices: list[NoticeDocument] = get.rows(NoticeDocument, lambda of: of[0].notices)
    steps: list[RunStepDocument] = get.rows(
        RunStepDocument, lambda of: ((step, of[0]) for step in of[0].steps)
    )
    history: list[HistoryDocument] = get.rows(HistoryDocument, lambda of: of[0].history.items())
    gate: GateDocument | None = get.nested(
        GateDocument, lambda of: None if of[1] is None else _Gated(of[0], of[1])
    )


def comparison_document(comparison: RunComparison, gate: Gate | None = None) -> dict[str, Any]:
    """The whole comparison, for programs; `gate` adds the cells that trip it."""
    return ComparisonDocument.document((comparison, gate))
