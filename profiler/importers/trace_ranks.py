"""Kernels and operators of a trace by their time, and what a live capture would record of each."""

from __future__ import annotations

import re

import pandas as pd

from profiler.analyse.cell_timeline import CellTimeline
from profiler.findings.timelines.overview import ON_CPU

RANK_COLUMNS = ("name", "capture", "calls", "total_ns", "share")
"""`capture`: what a live one does with it; `share`: of the time of all."""
RECORDED, BY_PARTS, LEFT_OUT = "recorded", "as its operators", "left out"
_OPERATOR = re.compile(r"(aten|prims)::\w+")
_COLLECTIVE = re.compile(r"nccl|c10d|rccl", re.IGNORECASE)
_COMPILED = re.compile(r"triton_\w+_fused_|## Call CompiledFxGraph|CompiledFunction")


def ranked_work(timeline: CellTimeline) -> pd.DataFrame:
    """RANK_COLUMNS of a timeline, what takes longest first.

    Without a GPU these are the outermost operators of each thread. What a trace has of an input is
    its shape at best: nothing is run again from it.
    """
    operations = timeline.operations
    named = operations.assign(
        name=operations["name"].astype(object), ns=operations["end_ns"] - operations["start_ns"]
    )
    groups = named.groupby(["name", named["kind"].astype(str)])["ns"]
    ranks = groups.agg(calls="size", total_ns="sum").reset_index()
    pairs = zip(ranks["name"].astype(str), ranks["kind"], strict=True)
    ranks["capture"] = [_capture_of(name, kind) for name, kind in pairs]
    ranks["share"] = ranks["total_ns"] / max(1, ranks["total_ns"].sum())
    ranks = ranks.sort_values(["total_ns", "name"], ascending=[False, True], ignore_index=True)
    return ranks[list(RANK_COLUMNS)]


def _capture_of(name: str, kind: str) -> str:
    """What a capture does with a kernel or operator; empty where only a capture tells."""
    if _COLLECTIVE.search(name):
        return LEFT_OUT
    if _COMPILED.search(name):
        return BY_PARTS
    return RECORDED if kind in ON_CPU and _OPERATOR.fullmatch(name) else ""
