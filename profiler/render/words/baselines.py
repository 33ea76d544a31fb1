"""Named baselines in words."""

from __future__ import annotations

from profiler.findings.findings import Verdicts
from profiler.findings.verdicts import NamedBaseline
from profiler.model import Cell


def baseline_label(baseline: NamedBaseline) -> str:
    """Label of a baseline to switch to."""
    name = baseline.variant.label if baseline.variant else ""
    return {
        "reference": f"reference: {name}",
        "best": "best of each problem",
        "first": f"first: {name}",
        "previous": "previous variant of the plan",
    }[baseline.key]


def why_no_verdict(verdicts: Verdicts, baseline: NamedBaseline, cell: Cell) -> str:
    """Why a cell has no verdict against a baseline."""
    if baseline.others[cell.id] == cell.id:
        return "compared with itself"
    if baseline.others[cell.id] is None:
        return "nothing to compare with"
    return "not compared" if verdicts.given else "no verdict is given on this metric"
