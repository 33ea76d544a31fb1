"""What a comparison between runs says about a cell, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from profiler.analyse.between_runs import REFUSED_WORDS, Reason
from profiler.analyse.verdicts import FEWEST_BLOCKS
from profiler.comparison.programs import Program
from profiler.model import Verdict
from profiler.render.tables.rows import Datum

VERDICT_CSS: Mapping[Verdict | None, str] = {
    Verdict.FASTER: "outcome good",
    Verdict.SLOWER: "outcome bad",
    Verdict.SAME: "outcome same",
    Verdict.UNCLEAR: "outcome absent",
    Verdict.NO_DATA: "outcome absent",
    None: "outcome absent",
}
"""The symbol before the word and its colour come with the class."""

PROGRAM_WORDS: Mapping[Program, str] = {
    Program.SAME_KEY: "unchanged",
    Program.SAME_CODE: "same machine code",
    Program.SAME_TORCH: "same version of torch",
    Program.RETUNED: "tuned otherwise",
    Program.CHANGED: "changed",
    Program.UNKNOWN: "not known",
}

FIELD_WORDS: Mapping[str, str] = {
    "experiment": "Experiment",
    "baseline": "Baseline",
    "spec": "Experiment file",
    "gpu": "GPU",
    "gpu_uuid": "GPU UUID",
    "compute_capability": "Compute capability",
    "driver": "Driver",
    "cuda_driver": "CUDA of the driver",
    "nvcc": "nvcc",
    "ncu": "ncu",
    "torch": "torch",
    "python": "Python",
    "cpu": "CPU",
    "max_sm_clock_mhz": "Highest SM clock (MHz)",
    "max_memory_clock_mhz": "Highest memory clock (MHz)",
    "clock_control": "Clock control",
    "cache_control": "Cache control",
    "git_commit": "Commit",
    "git_dirty": "Uncommitted changes",
    "profiler_version": "Profiler",
}

Row = Mapping[Any, Any]


def field_word(field: str) -> str:
    """What a field that differs between runs is called."""
    return FIELD_WORDS.get(field, field)


def verdict_of(row: Row) -> Verdict | None:
    """The verdict in a row of a step; None where none was given."""
    return None if pd.isna(row["verdict"]) else Verdict(row["verdict"])


def verdict_word(row: Row) -> str:
    """The verdict as one word; `no verdict` where none was given."""
    verdict = verdict_of(row)
    return "no verdict" if verdict is None else verdict.value


def verdict_datum(row: Row) -> Datum:
    """The verdict as word, symbol and colour; its reason on hover."""
    return Datum(verdict_word(row), title=reason_words(row), css=VERDICT_CSS[verdict_of(row)])


def reason_words(row: Row) -> str:
    """The reason for a verdict, or for none, as one sentence for people."""
    reason = Reason(row["reason"])
    if reason in REFUSED_WORDS:
        return REFUSED_WORDS[reason]
    margin = f"\u00b1{row['margin']:.2%}"
    blocks = f"{row['blocks_older']} and {row['blocks_newer']} blocks"
    words = {
        Reason.DECIDED: f"beyond {margin}",
        Reason.DECIDED_BY_TIME: f"beyond {margin}; the clock is not known",
        Reason.WITHIN_MARGIN: f"within {margin}{_detectable(row)}",
        Reason.FEW_BLOCKS: f"{blocks}; a verdict needs {FEWEST_BLOCKS} on each side",
        Reason.MORE_BLOCKS_NEEDED: f"{blocks} do not tell it from {margin}{_detectable(row)}",
        Reason.MANY_COMPARISONS: "would stand alone, but not as one of so many comparisons",
        Reason.CLOCK: f"the SM clock differs by up to {row['clock_floor']:.1%} between the runs",
        Reason.CONTROLS_MOVED: (
            f"programs that did not change stray by {row['control_floor']:.1%} between the runs"
        ),
        Reason.NO_CONTROL: "no baseline that is the same program in both runs",
        Reason.NOT_MEASURED: "no correct duration in one of the runs",
        Reason.CONTROL: "the baseline: its own shift between the runs",
    }
    return words[reason]


def _detectable(row: Row) -> str:
    seen = row["detectable"]
    return "" if pd.isna(seen) else f"; would likely see {seen:.2%}"
