"""Words and colours of a comparison between runs."""

from __future__ import annotations

from collections.abc import Mapping

from profiler.comparison.machines import Machines
from profiler.comparison.programs import Program
from profiler.findings.runs.changes import CellChange, Reason
from profiler.findings.runs.steps import RunStep
from profiler.model import FEWEST_BLOCKS, Verdict
from profiler.render.tables.rows import Datum
from profiler.render.words import numbers
from profiler.render.words.verdicts import percent

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
    Program.SAME_SOURCE: "same source and torch",
    Program.FILES_EDITED: "files edited; taken to be the same",
    Program.RETUNED: "tuned differently",
    Program.CHANGED: "changed",
    Program.UNKNOWN: "not known",
}

FIELD_WORDS: Mapping[str, str] = {
    "experiment": "Experiment",
    "baseline": "Baseline",
    "spec": "Experiment file",
    "gpu": "GPU",
    "gpu_uuid": "GPU (hash of its UUID)",
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

MACHINE_WORDS: Mapping[Machines, str] = {
    Machines.SAME: "same GPU",
    Machines.OTHER_CHIP: "two GPUs of the same model",
    Machines.SAME_MODEL: "same GPU model; whether the same chip was not recorded",
    Machines.DIFFERENT: "different machines",
}


def field_word(field: str) -> str:
    """Label of a field that differs between runs."""
    kind, _, file = field.partition(" ")
    return f"Source {file}" if kind == "source" else FIELD_WORDS.get(field, field)


def ratio_head(step: RunStep) -> str:
    """Head of the column of ratios: what they are relative to."""
    return "ratio" if step.control is None else "ratio, relative to the baseline's own shift"


def ratio_words(step: RunStep) -> str:
    """`run 2 ÷ run 1`: right in whatever order the runs were given."""
    first, second = step.numbers
    return f"run {second} \u00f7 run {first}"


NO_VERDICT = "no verdict"


def verdict_word(change: CellChange) -> str:
    """The verdict, of `same` with its margin; `no verdict` where none was given."""
    if change.verdict is None:
        return NO_VERDICT
    margin = f" within \u00b1{percent(change.margin)}" if change.verdict is Verdict.SAME else ""
    return f"{change.verdict.value}{margin}"


def verdict_datum(change: CellChange) -> Datum:
    """The verdict as word, symbol and colour; its reason on hover."""
    return Datum(verdict_word(change), title=reason_words(change), css=VERDICT_CSS[change.verdict])


def reason_words(change: CellChange) -> str:
    """The reason for a verdict, or for none, as a clause."""
    if change.refused_words:
        return change.refused_words
    margin = f"\u00b1{percent(change.margin)}"
    blocks = f"{change.blocks_older} and {change.blocks_newer} blocks"
    seen = change.detectable
    likely = "" if numbers.is_missing(seen) else f"; would likely see {percent(seen)}"
    clauses = {
        Reason.DECIDED: f"beyond {margin}",
        Reason.DECIDED_BY_TIME: f"beyond {margin}; the clock is not known",
        Reason.WITHIN_MARGIN: f"with its whole interval{likely}",
        Reason.FEW_BLOCKS: f"{blocks}; a verdict needs {FEWEST_BLOCKS} in each run",
        Reason.MORE_BLOCKS_NEEDED: f"{blocks} do not tell it from {margin}{likely}",
        Reason.MANY_COMPARISONS: "would stand alone, but not as one of so many comparisons",
        Reason.WIDE_MARGIN: f"within {margin}: too wide a margin to call two durations the same",
        Reason.CLOCK: (
            f"the SM clock differs by up to {percent(change.clock_floor)} between the runs"
        ),
        Reason.CONTROLS_MOVED: (
            f"unchanged programs vary by {percent(change.control_floor)} between the runs"
        ),
        Reason.FEW_CONTROLS: (
            "too few unchanged programs of such a duration: offsets between sessions of up to "
            f"{percent(change.session_floor)} are not seen"
        ),
        Reason.NO_CONTROL: "no baseline that is the same program in both runs",
        Reason.NOT_MEASURED: "no correct duration in one of the runs",
        Reason.CONTROL: "the baseline: its own shift between the runs",
    }
    return clauses[change.reason]
