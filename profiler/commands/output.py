"""What a run leaves behind for people and programs: page, CSV and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.commands.targets import write_json_file, write_stdout
from profiler.model import SCHEMA_VERSION, CellStatus
from profiler.notices import Notice, remedy, severity, text
from profiler.planning.plan import plan_document
from profiler.run_folder.folder import PAGE_FILE, write_atomic
from profiler.sessions.progress import make_console

if TYPE_CHECKING:
    import pandas as pd

    from profiler.run_folder.load.report import Report

SAMPLES_FILE = "samples.csv"
SUMMARY_FILE = "summary.csv"
SUMMARY_JSON_FILE = "summary.json"


def write_results(report: Report, folder: Path, *, page: bool = True) -> Path | None:
    """Write samples.csv, summary.csv, summary.json and the page; returns the page's path."""
    write_atomic(folder / SAMPLES_FILE, report.samples.to_csv(index=False))
    write_atomic(folder / SUMMARY_FILE, report.summary.to_csv(index=False))
    write_atomic(folder / SUMMARY_JSON_FILE, dump(report_document(report)))
    if not page:
        return None
    from profiler.render.page import render_page  # takes half a second, and not every run has one

    write_atomic(folder / PAGE_FILE, render_page(report))
    return folder / PAGE_FILE


def print_notices(found: Sequence[Notice], color: str) -> None:
    """Print notices to stderr, one in a line."""
    errors = make_console(color, stderr=True)
    for notice in found:
        errors.print(f"{severity(notice).value}: {text(notice)}", markup=False, soft_wrap=True)


def report_document(report: Report) -> dict[str, Any]:
    """The summary as one JSON document: raw numbers, units in the keys, missing is null."""
    plan = plan_document(report.plan)
    return {
        "schema_version": SCHEMA_VERSION,
        "experiment": report.experiment,
        "created": report.created,
        "replayed": asdict(report.replay) if report.replay else None,
        "environment": asdict(report.environment),
        "baseline": report.baseline,
        "seconds": dict(report.stages),
        "excluded": plan["excluded"],
        "notices": [
            {
                "kind": n.kind.value,
                "severity": severity(n).value,
                "text": text(n),
                "remedy": remedy(n),
            }
            for n in report.notices
        ],
        "builds": [asdict(build) for build in report.builds],
        "cells": _cells(report),
        **({"waves": _waves(report)} if report.kind == "waves" else {}),
    }


def _waves(report: Report) -> dict[str, Any]:
    """Tail efficiency of every grid, and what each variant needs, as the page has it."""
    from profiler.analyse.waves import steady, tail_efficiency
    from profiler.findings.lookup import Lookup
    from profiler.render.kinds.waves import wave_table

    grids = tail_efficiency(wave_table(Lookup(report)))
    return {
        "variants": [
            {
                "variant": one.variant,
                "good_from_waves": one.waves,
                "good_from_blocks_per_sm": one.blocks_per_sm,
                "measured_up_to_waves": one.largest_waves,
                "rule_grids": one.rule_grids,
                "rule_least_efficiency": one.rule_least,
                "rule_least_at_waves": one.rule_least_at,
                "rule_holds": one.rule_holds,
            }
            for one in steady(grids)
        ],
        "grids": grids.drop(columns=["name", "mark"]).to_dict("records"),
    }


def _cells(report: Report) -> list[dict[str, Any]]:
    metrics, finals = _metrics_by_cell(report.summary), _metrics_by_cell(report.finals)
    ranges = _ranges_by_cell(report.range_counters)
    timelines = _timelines_by_cell(report)
    return [
        {
            "id": cell.id,
            "variant": cell.variant.name,
            "problem": cell.problem.name,
            "variant_params": dict(cell.variant.params),
            "problem_params": dict(cell.problem.params),
            **_status(report.statuses.get(cell.id)),
            "metrics": metrics.get(cell.id, {}),
            "final": finals.get(cell.id),
            **({"range_counters": ranges.get(cell.id, [])} if ranges else {}),
            **({"timeline": timelines.get(cell.id)} if timelines else {}),
        }
        for cell in report.plan.cells
    ]


def _status(status: CellStatus | None) -> dict[str, Any]:
    if status is None:
        return {"outcome": "not_measured"}
    document = asdict(status)
    del document["cell"]
    return document


def _metrics_by_cell(summary: pd.DataFrame) -> dict[str, dict[str, dict[str, float | str | None]]]:
    from profiler.analyse.summary import VERDICT_COLUMNS  # loads pandas: not for every command

    values = [
        name for name in summary.columns if name not in ("cell", "variant", "problem", "metric")
    ]
    cells: dict[str, dict[str, dict[str, float | str | None]]] = {}
    for row in summary.to_dict("records"):
        judged = isinstance(row.get("verdict"), str)
        found = {
            name: _value(row[name]) for name in values if judged or name not in VERDICT_COLUMNS
        }
        cells.setdefault(str(row["cell"]), {})[str(row["metric"])] = found
    return cells


def _timelines_by_cell(report: Report) -> dict[str, dict[str, Any]]:
    """What repeats in the timeline of each cell, how long it took, and how busy each phase was."""
    if not report.timelines:
        return {}
    from profiler.analyse.phases import OUTSIDE, WHOLE, phase_summary, phased

    names = {WHOLE: "whole", OUTSIDE: "outside"}
    found = {cell: phased(timeline) for cell, timeline in report.timelines.items()}
    return {
        cell: {
            "collector": one.timeline.collector,
            "unit": one.units.name,
            "launch_ns": one.launch_ns,
            "phases": [
                {**row, "phase": names.get(row["phase"], row["phase"])}
                for row in phase_summary(one.times).to_dict("records")
            ],
        }
        for cell, one in found.items()
    }


def _ranges_by_cell(counters: pd.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """Counters of ranges inside the visits: path, number of kernels, and metrics."""
    identity = ("cell", "path", "depth", "name", "kernels")
    cells: dict[str, list[dict[str, Any]]] = {}
    for row in counters.to_dict("records"):
        found = {
            "path": list(row["path"]),
            "kernels": row["kernels"],
            "metrics": {str(name): row[name] for name in row if name not in identity},
        }
        cells.setdefault(str(row["cell"]), []).append(found)
    return cells


def _value(value: Any) -> float | str | None:
    """A number or a word (a verdict, its reason) as JSON can hold it."""
    return str(value) if isinstance(value, str) else finite(math.nan if value is None else value)


def finite(value: float) -> float | None:
    """A number as JSON can hold it: None for what is missing."""
    return float(value) if math.isfinite(value) else None


def dump(document: Mapping[str, Any]) -> str:
    """JSON text; NaN and infinities, which JSON does not have, become null."""
    return json.dumps(_json(document), indent=1, allow_nan=False, default=str) + "\n"


def _json(value: Any) -> Any:
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, Mapping):
        return {key: _json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_json(each) for each in value]
    return value


def write_json_target(document: Mapping[str, Any], target: str | None) -> None:
    """Write JSON where `--json` points: a path, or `-` for stdout; nothing for None."""
    if target is None:
        return
    if target == "-":
        write_stdout(dump(document))
    else:
        write_json_file(Path(target), dump(document))
