"""Findings as JSON-ready data: raw numbers, units in the keys, missing is null or NaN."""

from __future__ import annotations

from typing import Any

import pandas as pd

from profiler.analyse.effects import Effect
from profiler.findings.answer import Answer, ReferenceLead, answer_of, span, verdict_counts
from profiler.findings.findings import Findings
from profiler.findings.kinds.search import search_document
from profiler.findings.kinds.steps import StepEffect
from profiler.findings.ranking import ProblemValue
from profiler.findings.values import NAN
from profiler.findings.verdicts import JUDGED, NO_VERDICT, PairVerdict
from profiler.findings.why.document import answer_why
from profiler.findings.why.find import find_why
from profiler.findings.winners import Winner
from profiler.model import Cell, Problem, Variant
from profiler.planning.page_kinds import load_part

Document = dict[str, Any]


def findings_document(findings: Findings) -> Document:
    """Part of a run's JSON that findings give: answer, practical roofs, that of its page."""
    kind = findings.report.page_kind
    kind_document: Document = load_part(kind.document)(findings) if kind.document else {}
    search = search_document(findings.search)
    return {
        "answer": answer_document(findings),
        "practical_roofs": _practical_roofs(findings),
        **({} if search is None else {"search": search}),
        **kind_document,
    }


def _practical_roofs(findings: Findings) -> list[Document]:
    """Share of each roof that plain kernels reached, or the cause why there is none."""
    measured, faults = findings.report.practical_roofs, findings.report.practical_roof_faults
    return [
        {
            "name": roof,
            "share_pct": 100 * measured[roof] if roof in measured else None,
            "fault": faults.get(roof),
        }
        for roof in (*measured, *faults)
    ]


# ---- the answer ----------------------------------------------------------------------------------


def answer_document(findings: Findings) -> Document:
    """Which is best, by how much, is it real, why; then problem by problem."""
    answer = answer_of(findings)
    return {
        "metric": findings.report.primary,
        "best": _best(answer),
        "by_how_much": _difference(findings, answer),
        "is_it_real": _reality(answer),
        "why": answer_why(findings, find_why(findings).answer),
        "best_reference": _reference(answer.reference),
        "problems": [_problem(findings, problem) for problem in findings.problems],
    }


def _named(variant: Variant) -> Document:
    """A variant by its full name, and by the short one that page and console have."""
    return {"variant": variant.name, "label": variant.label}


def _best(answer: Answer) -> Document | None:
    rank = answer.rank
    if rank is None:
        return None
    regret = rank.regret
    return {
        **_named(rank.variant),
        "id": rank.variant.id,
        "params": dict(rank.variant.params),
        "called": answer.called,
        "problems": len(rank.planned),
        "wins": answer.wins,
        "same": answer.same,
        "not_told_apart": answer.not_told_apart,
        "worst_slowdown": regret.worst if regret else None,
        "worst_slowdown_at": regret.worst_problem if regret else None,
    }


def _difference(findings: Findings, answer: Answer) -> Document | None:
    """Ratios to the baseline; of several problems their geometric mean, which has no interval."""
    rank, baseline = answer.rank, findings.baseline
    if rank is None or baseline is None or rank.best is None or rank.worst is None:
        return None
    alone = rank.ratios[0][1] if len(rank.ratios) == 1 else None
    return {
        "baseline": baseline.name,
        "ratio": rank.geometric_mean,
        "ratio_low": alone.ratio_low if alone else None,
        "ratio_high": alone.ratio_high if alone else None,
        "problems": len(rank.ratios),
        "best_case": _case(rank.best),
        "worst_case": _case(rank.worst),
    }


def _case(at: ProblemValue) -> Document:
    problem, value = at
    return {
        "problem": problem.id,
        "ratio": value.ratio,
        "ratio_low": value.ratio_low,
        "ratio_high": value.ratio_high,
    }


def _reality(answer: Answer) -> Document | None:
    rank = answer.rank
    if rank is None or not verdict_counts(rank.planned_verdicts):
        return None
    measured = [verdict for verdict in rank.planned_verdicts if verdict.blocks]
    return {
        "verdicts": verdict_counts(rank.planned_verdicts),
        "margin": span([verdict.margin for verdict in measured]),
        "noise_floor": span([verdict.noise_floor for verdict in measured]),
        "detectable": span([verdict.detectable for verdict in measured]),
        "blocks": span([float(verdict.blocks) for verdict in measured]),
        "of_the_final": sum(verdict.final for verdict in measured),
    }


def _reference(lead: ReferenceLead | None) -> Document | None:
    if lead is None:
        return None
    return {
        **_named(lead.variant),
        "id": lead.variant.id,
        "ratio_to_best_other": lead.ratio,
        "problems": lead.problems,
        "verdicts": dict(lead.verdicts),
    }


def _problem(findings: Findings, problem: Problem) -> Document:
    return {
        "problem": problem.id,
        "winner": _winner(findings.winners.get(problem.id)),
        "best_other": _winner(findings.rival_winners.get(problem.id))
        if findings.references
        else None,
    }


def _winner(winner: Winner | None) -> Document | None:
    if winner is None:
        return None
    return {
        **_named(winner.cell.variant),
        "cell": winner.cell.id,
        "value": winner.value.median,
        "source": winner.value.source,
        "shown_best": winner.best,
        "selection_bias": winner.selection_bias,
        "same": [cell.variant.name for cell in winner.same],
        "not_told_apart": [cell.variant.name for cell in winner.not_told_apart]
        if winner.judged
        else [],
    }


# ---- cells ---------------------------------------------------------------------------------------


def metrics_by_cell(findings: Findings) -> dict[str, Document]:
    """The one number of each metric with its source, by cell id and metric."""
    by_cell: dict[str, Document] = {}
    for (cell, metric), value in findings.values.items():
        judged = findings.against_baseline.get(cell) if metric == JUDGED else None
        verdict_fields = {} if judged is None else verdict_document(judged)
        by_cell.setdefault(cell, {})[metric] = value._asdict() | verdict_fields
    return by_cell


def blocks_document(findings: Findings, cell: Cell) -> Document | None:
    """The same cell by the timing blocks, where its numbers are of the final; else None."""
    value = findings.value(cell, findings.report.primary)
    before = findings.block_value(cell)
    if value.source == before.source or not before.present:
        return None
    return {findings.report.primary: before._asdict()}


def slow_visits_document(findings: Findings, cell: Cell) -> Document | None:
    """Timing visits of a cell that took far longer than the others; None without any."""
    slow = findings.slow_visits.get(cell.id)
    if slow is None:
        return None
    return {
        "count": slow.count,
        "visits": slow.visits,
        "factor": slow.factor,
        "median_ns": slow.median,
        "p95_ns": slow.p95,
    }


def verdict_document(verdict: PairVerdict) -> Document:
    """A verdict with its reason and the numbers behind it; null without one."""
    if verdict.verdict is None:
        return {"verdict": None}
    return {
        "verdict": verdict.verdict.value,
        "reason": verdict.reason.value,
        "margin": verdict.margin,
        "noise_floor": verdict.noise_floor,
        "session_sd": verdict.session_sd,
        "detectable": verdict.detectable,
        "blocks": verdict.blocks,
        "of_the_final": verdict.final,
    }


def summary_table(findings: Findings) -> pd.DataFrame:
    """One row per cell and metric, for a CSV: names, parameters, the number, source, verdict.

    Columns `cell variant problem alias_of`, `variant.KEY` and `problem.KEY` for each parameter,
    then `metric`, the numbers with their `source`, and of durations `verdict reason margin
    noise_floor detectable`. Aliases have rows of their own, which name the cell that was measured.
    """
    numbers = findings.numbers.drop(columns=["variant", "problem"])
    table = cell_table(findings).merge(numbers, on="cell")
    judged = pd.DataFrame(
        [
            {"cell": cell, "metric": JUDGED, **_verdict_columns(verdict)}
            for cell, verdict in findings.against_baseline.items()
        ],
        columns=["cell", "metric", *_verdict_columns(NO_VERDICT)],
    )
    return table.merge(judged, on=["cell", "metric"], how="left")


def cell_table(findings: Findings) -> pd.DataFrame:
    """One row per cell of the plan: `cell variant problem alias_of` and every parameter."""
    identities = [_identity(findings, cell) for cell in findings.report.plan.cells]
    return pd.DataFrame(identities, columns=None if identities else ["cell"])


def _identity(findings: Findings, cell: Cell) -> Document:
    return {
        "cell": cell.id,
        "variant": cell.variant.id,
        "problem": cell.problem.id,
        "alias_of": findings.status(cell).duplicate_of,
        **{f"variant.{key}": value for key, value in cell.variant.params.items()},
        **{f"problem.{key}": value for key, value in cell.problem.params.items()},
    }


def _verdict_columns(verdict: PairVerdict) -> Document:
    return {
        "verdict": verdict.verdict.value if verdict.verdict else None,
        "reason": verdict.reason.value if verdict.verdict else None,
        "margin": verdict.margin,
        "noise_floor": verdict.noise_floor,
        "session_sd": verdict.session_sd,
        "detectable": verdict.detectable,
    }


def judged_table(findings: Findings) -> pd.DataFrame:
    """Every cell against the baseline, for a gate: `cell verdict ratio ratio_low ratio_high`."""
    rows = [
        (cell, verdict.verdict, verdict.ratio, verdict.low, verdict.high)
        for cell, verdict in findings.against_baseline.items()
    ]
    return pd.DataFrame(rows, columns=["cell", "verdict", "ratio", "ratio_low", "ratio_high"])


# ---- what kinds of page add ----------------------------------------------------------------------


def ladder_document(findings: Findings) -> Document:
    """Each version of a ladder: its step, and how far it is from the first."""
    return {
        "ladder": [
            {
                "number": rung.number,
                **_named(rung.variant),
                "note": rung.variant.note,
                "before": rung.before.name if rung.before else None,
                "step": _step(rung.step),
                "cumulative": _step(rung.cumulative),
                "ratio_to_baseline": rung.ratio,
            }
            for rung in findings.ladder
        ]
    }


def _step(step: StepEffect | None) -> Document | None:
    if step is None:
        return None
    return {
        **_effect(step.overall),
        "verdicts": verdict_counts(step.verdicts),
        "problems": [
            {"problem": effect.problem, **_effect(effect), **verdict_document(verdict)}
            for effect, verdict in zip(step.effects, step.verdicts, strict=True)
        ],
    }


def _effect(effect: Effect) -> Document:
    return {
        "ratio": effect.ratio if effect.pairs else NAN,
        "ratio_low": effect.low,
        "ratio_high": effect.high,
        "smallest": effect.smallest,
        "largest": effect.largest,
    }


def grids_document(findings: Findings) -> Document:
    """Each pair of variants at every problem of every grid."""
    pairs = findings.grid_pairs
    if pairs is None:
        return {}
    return {
        "grids": [
            {
                "name": grid.name,
                "rows": grid.rows,
                "columns": grid.columns,
                "pairs": [
                    {
                        "over": pair.over.name,
                        "under": pair.under.name,
                        "cells": [
                            {
                                "problem": cell.problem.id,
                                "ratio": cell.verdict.ratio,
                                "ratio_low": cell.verdict.low,
                                "ratio_high": cell.verdict.high,
                                "dram_bytes_saved": cell.saved,
                                **verdict_document(cell.verdict),
                            }
                            for cell in pairs.of(pair, grid)
                        ],
                    }
                    for pair in pairs.shown
                    if pairs.of(pair, grid)
                ],
            }
            for grid in pairs.grids
        ]
    }


def waves_document(findings: Findings) -> Document:
    """Tail efficiency of every grid, and what each variant needs."""
    waves = findings.waves
    if waves is None:
        return {}
    return {
        "waves": {
            "variants": [
                {
                    "variant": need.variant,
                    "good_from_waves": need.waves,
                    "good_from_blocks_per_sm": need.blocks_per_sm,
                    "measured_up_to_waves": need.largest_waves,
                    "rule_grids": need.rule_grids,
                    "rule_least_efficiency": need.rule_least,
                    "rule_least_at_waves": need.rule_least_at,
                    "rule_holds": need.rule_holds,
                }
                for need in waves.needs
            ],
            "grids": waves.grids.to_dict("records"),
        }
    }
