"""`summary.json` of a run, and its tables: raw numbers, units in the keys, missing is null or NaN.

`make numbers` writes its schema to `docs/summary.schema.json`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from profiler.analyse.summary import SlowVisits
from profiler.findings.cell_numbers import NumberSource, Value
from profiler.findings.findings import Findings, Verdicts
from profiler.findings.gates import GATE_COLUMNS
from profiler.findings.json_model import (
    ABSENT,
    JsonObject,
    NamedDocument,
    NoticeDocument,
    Number,
    Source,
)
from profiler.findings.kinds.grids import Grid, GridDocument, GridPairs
from profiler.findings.kinds.in_use import CapturedStepDocument, SustainedDocument
from profiler.findings.kinds.search import SearchPartDocument
from profiler.findings.kinds.steps import RungDocument
from profiler.findings.kinds.waves import WavesDocument
from profiler.findings.programs import Programs
from profiler.findings.ranking import ProblemValue, Ranking, ReferenceLead, VariantRank
from profiler.findings.timelines.cells import Phase
from profiler.findings.verdicts import (
    JUDGED,
    NO_VERDICT,
    PairVerdict,
    Resolution,
    VerdictPartDocument,
    verdict_counts,
)
from profiler.findings.why.document import AnswerWhyDocument, why_of_answer
from profiler.findings.winners import Winner, standing_of
from profiler.model import SCHEMA_VERSION, Cell, CellStatus, Problem, Variant
from profiler.planning.page_kinds import LADDER
from profiler.planning.plan import plan_document
from profiler.run_folder.load.report import Report

Document = dict[str, Any]


# ---- the answer ----------------------------------------------------------------------------------


class BestDocument(JsonObject):
    """The variant to recommend."""

    get = Source[tuple[Ranking, VariantRank]]()
    variant_names = get.spread(NamedDocument, lambda best: best[1].variant)
    id: str = get(lambda best: best[1].variant.id)
    params: dict[str, Any] = get(lambda best: dict(best[1].variant.params))
    called: Literal["best", "leader", "first_of_rest"] = get.one_of(lambda best: best[0].called)
    problems: int = get(lambda best: len(best[1].planned))
    """problems that it is planned for and that have a winner"""
    wins: int = get(lambda best: best[0].wins)
    same: int = get(lambda best: standing_of(best[1].variant, best[0].best_winners)[1])
    not_told_apart: int = get(lambda best: _not_told_apart(*best))
    worst_slowdown: Number = get(lambda best: best[1].worst_slowdown)
    """1.23: 1.23 times the time of the best there"""
    worst_slowdown_at: str | None = get(lambda best: best[1].worst_problem or None)


def _recommended(ranking: Ranking) -> tuple[Ranking, VariantRank] | None:
    return None if ranking.best_rank is None else (ranking, ranking.best_rank)


def _not_told_apart(ranking: Ranking, rank: VariantRank) -> int:
    """Number of its problems with verdicts at which it is not told apart from the winner."""
    judged = [winner for winner in ranking.best_winners if winner.judged]
    _, _, not_told_apart = standing_of(rank.variant, judged)
    return not_told_apart


class CaseDocument(JsonObject):
    """A ratio to the baseline at one problem."""

    get = Source[ProblemValue]()
    problem: str = get(lambda at: at[0].id)
    ratio: Number = get(lambda at: at[1].ratio)
    ratio_low: Number = get(lambda at: at[1].ratio_low)
    ratio_high: Number = get(lambda at: at[1].ratio_high)


def _single_ratio(rank: VariantRank) -> Value | None:
    """Ratio to the baseline where there is a single one: a mean of several has no interval."""
    return rank.ratios[0][1] if len(rank.ratios) == 1 else None


class DifferenceDocument(JsonObject):
    """Ratios to the baseline; a geometric mean of several has no interval."""

    get = Source[tuple[Variant, VariantRank]]()
    baseline: str = get(lambda compared: compared[0].name)
    ratio: Number = get(lambda compared: compared[1].geometric_mean)
    ratio_low: Number = get(lambda compared: getattr(_single_ratio(compared[1]), "ratio_low", None))
    ratio_high: Number = get(
        lambda compared: getattr(_single_ratio(compared[1]), "ratio_high", None)
    )
    problems: int = get(lambda compared: len(compared[1].ratios))
    best_case: CaseDocument = get.nested(CaseDocument, lambda compared: compared[1].best)
    worst_case: CaseDocument = get.nested(CaseDocument, lambda compared: compared[1].worst)


_Span = tuple[float, float] | None


def _span(value: Callable[[PairVerdict], float]) -> Callable[[VariantRank], _Span]:
    """Gives the smallest and largest of a number of the verdicts with blocks."""

    def span(rank: VariantRank) -> _Span:
        values = [value(pair) for pair in rank.planned_verdicts if pair.blocks]
        finite = [number for number in values if math.isfinite(number)]
        return (min(finite), max(finite)) if finite else None

    return span


class RealityDocument(JsonObject):
    """Is it real: verdicts against the baseline; pairs are smallest and largest."""

    get = Source[VariantRank]()
    verdicts: dict[str, int] = get(lambda rank: verdict_counts(rank.planned_verdicts))
    margin: _Span = get(_span(lambda pair: pair.resolution.margin))
    noise_floor: _Span = get(_span(lambda pair: pair.resolution.noise_floor))
    detectable: _Span = get(_span(lambda pair: pair.resolution.detectable))
    blocks: _Span = get(_span(lambda pair: float(pair.blocks)))
    of_the_final: int = get(
        lambda rank: sum(pair.confirmed for pair in rank.planned_verdicts if pair.blocks)
    )


class ReferenceDocument(JsonObject):
    """The best of the references against the best of all others."""

    get = Source[ReferenceLead]()
    variant_names = get.spread(NamedDocument, lambda lead: lead.variant)
    id: str = get(lambda lead: lead.variant.id)
    ratio_to_best_other: Number = get(lambda lead: lead.ratio)
    """below 1 the reference is ahead"""
    problems: int = get(lambda lead: lead.problems)
    verdicts: dict[str, int] = get(lambda lead: dict(lead.verdicts))


class WinnerDocument(JsonObject):
    """The winner of one problem."""

    get = Source[Winner]()
    variant_names = get.spread(NamedDocument, lambda winner: winner.cell.variant)
    cell: str = get(lambda winner: winner.cell.id)
    value: Number = get(lambda winner: winner.value.median)
    source: NumberSource = get(lambda winner: winner.value.source)
    shown_best: bool = get(lambda winner: winner.best)
    """every other was shown to be slower"""
    selection_bias: float | None = get(lambda winner: winner.selection_bias, optional=True)
    """how much too low value reads, relative, were it and those of same and not_told_apart equal"""
    same: list[str] = get(lambda winner: _names(winner.same_cells))
    not_told_apart: list[str] = get(
        lambda winner: _names(winner.not_told_apart) if winner.judged else []
    )


def _names(cells: Iterable[Cell]) -> list[str]:
    return [cell.variant.name for cell in cells]


class ProblemAnswerDocument(JsonObject):
    """Winner of a problem, among all and among those that are no references."""

    get = Source[tuple[Findings, Problem]]()
    problem: str = get(lambda at: at[1].id)
    winner = get.nested(WinnerDocument, lambda at: at[0].ranking.winners.get(at[1].id))
    best_other = get.nested(
        WinnerDocument,
        lambda at: at[0].ranking.rival_winners.get(at[1].id) if at[0].programs.references else None,
    )


def _baseline_and_best(findings: Findings) -> tuple[Variant, VariantRank] | None:
    """The baseline and the variant to recommend; None without one of them, or without a ratio."""
    rank, baseline = findings.ranking.best_rank, findings.programs.baseline
    return (baseline, rank) if rank and baseline and rank.ratios else None


def _rank_with_verdicts(rank: VariantRank | None) -> VariantRank | None:
    """The rank; None without a verdict on it."""
    return rank if rank and verdict_counts(rank.planned_verdicts) else None


class AnswerPartDocument(JsonObject):
    """The four answers."""

    get = Source[Findings]()
    metric: str = get(lambda findings: findings.numbers.primary.name)
    best = get.nested(BestDocument, lambda findings: _recommended(findings.ranking))
    by_how_much = get.nested(DifferenceDocument, _baseline_and_best)
    is_it_real = get.nested(
        RealityDocument, lambda findings: _rank_with_verdicts(findings.ranking.best_rank)
    )
    why = get.nested(AnswerWhyDocument, why_of_answer)
    """null where nothing was explained"""
    best_reference = get.nested(ReferenceDocument, lambda findings: findings.ranking.best_reference)
    problems = get.rows(
        ProblemAnswerDocument,
        lambda findings: [(findings, problem) for problem in findings.programs.problems],
    )


# ---- cells ---------------------------------------------------------------------------------------


_Judged = tuple[Value, PairVerdict | None]


class NumbersDocument(JsonObject):
    """One metric of a cell: of the final where the cell was in it, else of the timing blocks."""

    get = Source[_Judged]()
    value = get.record(Value, lambda judged: judged[0])
    verdict = get.spread(VerdictPartDocument, lambda judged: judged[1], optional=True)


class SlowVisitsDocument(JsonObject):
    """Timing visits of a cell that took far longer than the others: a second mode, or a tail."""

    get = Source[SlowVisits]()
    count: int = get(lambda slow: slow.count)
    visits: int = get(lambda slow: slow.visits)
    factor: float = get(lambda slow: slow.factor)
    """median duration of the slow visits ÷ that of all"""
    median_ns: float = get(lambda slow: slow.median)
    """of all timing visits"""
    p95_ns: float = get(lambda slow: slow.p95)
    """95th percentile of all timing visits"""


class _Run(NamedTuple):
    """Findings with what is looked up in them by cell."""

    findings: Findings
    sentence: str
    numbers: Mapping[str, Mapping[str, _Judged]]
    """By cell id and metric."""
    ranges: Mapping[str, Sequence[Document]]

    @property
    def grids(self) -> Sequence[tuple[Grid, GridPairs]] | None:
        """Grids with the pairs that are compared in them; None on other pages."""
        pairs = self.findings.grid_pairs
        return None if pairs is None else [(grid, pairs) for grid in pairs.grids]


_CellOfRun = tuple[_Run, Cell]


def _by_blocks(findings: Findings, cell: Cell) -> Mapping[str, _Judged] | None:
    """The duration by the timing blocks, where its number is of the final; else None."""
    value, before = findings.numbers.duration(cell), findings.numbers.block_value(cell)
    if value.source == before.source or not before.present:
        return None
    return {JUDGED: (before, None)}


def _timeline(findings: Findings, cell: Cell) -> Document | None:
    """Unit, launch time and phases of the timeline of a cell; None without one."""
    timeline = findings.timelines.by_cell.get(cell.id)
    if timeline is None:
        return None
    return {
        "collector": timeline.collector,
        "unit": timeline.unit,
        "launch_ns": timeline.launch_ns,
        "phases": [_phase(phase) for phase in timeline.phases],
    }


def _status_document(status: CellStatus) -> Document:
    own_keys = ("outcome", "cause", "duplicate_of", "missing_metrics")
    return {
        **{key: getattr(status, key) for key in own_keys},
        **vars(status.facts),
        **vars(status.untimed),
        "tuned": [asdict(config) for config in status.tuning.tried],
        "tuned_otherwise": status.tuning.other_sessions,
    }


def _phase(phase: Phase) -> Document:
    """Phase of a timeline as JSON: its name, and times over all units."""
    document = asdict(phase)
    part, name = document.pop("part"), document.pop("name")
    return {"phase": name or part, **document}


class CellDocument(JsonObject, is_open=True):
    """One cell of the plan; keys of its status (`cause`, `flops`, …) stand beside these."""

    get = Source[_CellOfRun]()
    id: str = get(lambda row: row[1].id)
    variant_names = get.spread(NamedDocument, lambda row: row[1].variant)
    problem: str = get(lambda row: row[1].problem.name)
    variant_params: dict[str, Any] = get(lambda row: dict(row[1].variant.params))
    problem_params: dict[str, Any] = get(lambda row: dict(row[1].problem.params))
    outcome: str = get(lambda row: row[0].findings.programs.status(row[1]).outcome)
    status = get.further_keys(lambda row: _status_document(row[0].findings.programs.status(row[1])))
    metrics = get.by_name(NumbersDocument, lambda row: row[0].numbers.get(row[1].id, {}))
    blocks: dict[str, NumbersDocument] | None = get.by_name(
        NumbersDocument, lambda row: _by_blocks(row[0].findings, row[1])
    )
    """the primary metric by the timing blocks, where the numbers are of the final"""
    slow_visits = get.nested(
        SlowVisitsDocument, lambda row: row[0].findings.numbers.slow_visits.get(row[1].id)
    )
    range_counters = get(
        lambda row: row[0].ranges.get(row[1].id, []) if row[0].ranges else ABSENT,
        optional=True,
    )
    timeline = get(
        lambda row: (
            _timeline(row[0].findings, row[1]) if row[0].findings.timelines.cells else ABSENT
        ),
        optional=True,
    )


# ---- the run -------------------------------------------------------------------------------------


class PracticalRoofDocument(JsonObject):
    """What a plain kernel reached in this run: a copy, a matrix product of torch."""

    get = Source[tuple[str, float | None, str | None]]()
    name: str = get(lambda roof: roof[0])
    """dram, tensor_TYPE, fp32"""
    share_pct: Number = get(lambda roof: None if roof[1] is None else 100 * roof[1])
    """of the hardware's roof at the clock of the launch"""
    fault: str | None = get(lambda roof: roof[2])
    """why it could not be measured"""


class SummaryDocument(JsonObject):
    """`summary.json` of a run: raw numbers, units in the keys, missing is null."""

    get = Source[_Run]()
    schema_version: int = get(lambda _: SCHEMA_VERSION)
    experiment: str = get(lambda run: run.findings.report.experiment.name)
    title: str = get(lambda run: run.findings.report.experiment.title)
    sentence: str = get(lambda run: run.sentence)
    """the answer in one sentence; empty where nothing is measured"""
    created: str = get(lambda run: run.findings.report.execution.created)
    replayed: dict[str, Any] | None = get(lambda run: run.findings.report.execution.replay)
    environment: dict[str, Any] = get(lambda run: asdict(run.findings.report.environment))
    baseline: str | None = get(lambda run: run.findings.programs.plan.baseline)
    seconds: dict[str, float] = get(lambda run: dict(run.findings.report.execution.stages))
    excluded: list[dict[str, Any]] = get(
        lambda run: plan_document(run.findings.programs.plan)["excluded"]
    )
    notices = get.rows(NoticeDocument, lambda run: run.findings.notices)
    builds: list[dict[str, Any]] = get(
        lambda run: [asdict(build) for build in run.findings.report.builds]
    )
    answer = get.part(AnswerPartDocument, lambda run: run.findings)
    practical_roofs = get.rows(
        PracticalRoofDocument, lambda run: _practical_roofs(run.findings.report)
    )
    """empty where none was tried"""
    sustained = get.rows(
        SustainedDocument,
        lambda run: run.findings.sustained or None,
        optional=True,
    )
    """cells that were measured back to back beside one launch"""
    captured_step = get.nested(
        CapturedStepDocument, lambda run: run.findings.captured_step, optional=True
    )
    """where problems say how often a captured step calls them"""
    search = get.nested(SearchPartDocument, lambda run: run.findings.search, optional=True)
    ladder = get.rows(
        RungDocument,
        lambda run: (
            run.findings.ladder if LADDER in run.findings.report.settings.page_kind.finds else None
        ),
        optional=True,
    )
    grids = get.rows(GridDocument, lambda run: run.grids, optional=True)
    waves = get.nested(WavesDocument, lambda run: run.findings.waves, optional=True)
    cells = get.rows(
        CellDocument, lambda run: ((run, cell) for cell in run.findings.programs.plan.cells)
    )


def _practical_roofs(report: Report) -> Iterator[tuple[str, float | None, str | None]]:
    """Share of each roof that plain kernels reached, or the cause why there is none."""
    measured, faults = report.measured.practical_roofs, report.measured.practical_roof_faults
    return ((roof, measured.get(roof), faults.get(roof)) for roof in (*measured, *faults))


def summary_document(findings: Findings, sentence: str) -> Document:
    """The content of `summary.json`; `sentence` is the answer of the run."""
    numbers: dict[str, dict[str, _Judged]] = {}
    for (cell, metric), value in findings.numbers.values.items():
        judged = findings.verdicts.against_baseline.get(cell) if metric == JUDGED else None
        numbers.setdefault(cell, {})[metric] = (value, judged)
    ranges = _ranges_by_cell(findings.report.measured.range_counters)
    return SummaryDocument.document(_Run(findings, sentence, numbers, ranges))


def _ranges_by_cell(counters: pd.DataFrame) -> dict[str, list[Document]]:
    """Counters of ranges inside the visits: path, number of kernels, and metrics."""
    identity = ("cell", "path", "depth", "name", "kernels")
    cells: dict[str, list[Document]] = {}
    for row in counters.to_dict("records"):
        counted_range = {
            "path": list(row["path"]),
            "kernels": row["kernels"],
            "metrics": {str(name): row[name] for name in row if name not in identity},
        }
        cells.setdefault(str(row["cell"]), []).append(counted_range)
    return cells


# ---- tables --------------------------------------------------------------------------------------


def summary_table(findings: Findings) -> pd.DataFrame:
    """Table with a row per cell and metric, for a CSV: names, parameters, number, source, verdict.

    Columns of `cell_table`, then `metric unit`, the numbers with their `source`, and of durations
    `verdict reason margin noise_floor detectable`. Aliases have rows of their own, which name the
    cell that was measured.
    """
    numbers = findings.numbers.frame.drop(columns=["variant", "problem"])
    units = {label.name: label.unit for label in findings.numbers.metrics}
    after_metric = list(numbers.columns).index("metric") + 1
    numbers.insert(after_metric, "unit", numbers["metric"].map(units))
    table = cell_table(findings.programs).merge(numbers, on="cell")
    judged = pd.DataFrame(
        [
            {"cell": cell, "metric": JUDGED, **_verdict_columns(verdict)}
            for cell, verdict in findings.verdicts.against_baseline.items()
        ],
        columns=["cell", "metric", *_verdict_columns(NO_VERDICT)],
    )
    table = table.merge(judged, on=["cell", "metric"], how="left")
    # Without any number pandas takes a column for one of objects.
    return table.astype(dict.fromkeys((item.name for item in fields(Resolution)), "float64"))


def cell_table(programs: Programs) -> pd.DataFrame:
    """Table with a row per cell: `cell variant problem alias_of outcome` and every parameter.

    Parameters are `variant.KEY` and `problem.KEY`, whole numbers `Int64` where some cells lack the
    parameter. Numbers of a cell count where it is `measured` or a `duplicate`.
    """
    identities = [_identity(programs, cell) for cell in programs.plan.cells]
    table = pd.DataFrame(identities, columns=None if identities else ["cell"])
    whole_numbers = [
        name
        for name in table.select_dtypes("float")
        if all(type(identity[name]) is int for identity in identities if name in identity)
    ]
    return table.astype(dict.fromkeys(whole_numbers, "Int64"))


def wide_table(findings: Findings) -> pd.DataFrame:
    """Table with a row per cell: names, outcome, parameters, median of each metric, verdict.

    Columns `experiment created gpu`, those of `cell_table`, the metrics by their names, and of the
    duration `ratio ratio_low ratio_high verdict`. Frames of several runs can be put below each
    other.
    """
    report, numbers = findings.report, findings.numbers
    table = cell_table(findings.programs)
    cells = findings.programs.plan.cells
    for metric in dict.fromkeys(label.name for label in (*numbers.metrics, numbers.primary)):
        medians = [numbers.value(cell, metric).median for cell in cells]
        table[metric] = np.array(medians, dtype="float64")
    durations = [numbers.duration(cell) for cell in cells]
    for name in ("ratio", "ratio_low", "ratio_high"):
        table[name] = [getattr(value, name) for value in durations]
    verdicts = findings.verdicts.against_baseline
    outcomes = (verdicts.get(cell.id, NO_VERDICT).verdict for cell in cells)
    table["verdict"] = [verdict and verdict.value for verdict in outcomes]
    for name, value in (
        ("gpu", report.environment.processor),
        ("created", report.execution.created),
        ("experiment", report.experiment.name),
    ):
        table.insert(0, name, value)
    return table


def _identity(programs: Programs, cell: Cell) -> Document:
    status = programs.status(cell)
    return {
        "cell": cell.id,
        "variant": cell.variant.id,
        "problem": cell.problem.id,
        "alias_of": status.duplicate_of,
        "outcome": status.outcome.value,
        **{f"variant.{key}": value for key, value in cell.variant.params.items()},
        **{f"problem.{key}": value for key, value in cell.problem.params.items()},
    }


def _verdict_columns(verdict: PairVerdict) -> Document:
    return {
        "verdict": verdict.verdict.value if verdict.verdict else None,
        "reason": verdict.reason.value if verdict.verdict else None,
        **asdict(verdict.resolution),
    }


def judged_table(verdicts: Verdicts) -> pd.DataFrame:
    """Every cell against the baseline, for a gate: `GATE_COLUMNS`."""
    rows = [
        (cell, verdict.verdict, verdict.ratio, verdict.low, verdict.high)
        for cell, verdict in verdicts.against_baseline.items()
    ]
    return pd.DataFrame(rows, columns=list(GATE_COLUMNS))
