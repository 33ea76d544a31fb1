"""Tables of docs/timers.md: the same cells by several timers."""

import sys
from pathlib import Path

from doc_tables import findings_of, table, time
from recorded import findings_of_recording

from profiler.render.words.numbers import TIMES

SPEED = Path(__file__).parents[1] / "benchmarks" / "speed"
sys.path.insert(0, str(SPEED))
import agreement  # noqa: E402 - beside the recordings that it compares

WITH_HOST = ("timer", "torch_kernels", "nsys", "wall_clock")


def ratios_of_timers():
    """Time by each timer ÷ that of ncu over the cells of `timers`: mean and extremes."""
    findings = findings_of("timers")
    rows = []
    for row in findings.timers.overall.to_dict("records"):
        extremes = (
            f"{row[end]:.3f} ({_cell_words(findings, row[f'{end}_at'])})"
            for end in ("least", "most")
        )
        title = findings.timers.title(row["collector"])
        rows.append((title, f"{row['mean']:.2f}", *extremes))
    return table(("timer", f"geometric mean, {TIMES} ncu's", "least", "most"), rows)


def _cell_words(findings, cell_id):
    cell = findings.programs.correct_cells[cell_id]
    return f"{cell.variant.label}, {cell.problem.name}"


def methods():
    """Cells of `timing_methods` by five timers, and the parts of the wall clock's error."""
    timers = findings_of("timing_methods").timers
    by_cell = timers.medians.pivot_table(index="cell", columns="collector", values="median")
    rows = []
    for error in timers.wall_clock.sort_values("reference").to_dict("records"):
        cell = findings_of("timing_methods").programs.correct_cells[error["cell"]]
        shown = (time(by_cell.loc[cell.id, collector]) for collector in WITH_HOST)
        rows.append(
            (
                f"{cell.variant.label}, {cell.problem.params['rows']}",
                time(error["reference"]),
                *shown,
                f"{error['ratio']:.2f}",
                *(_signed(error[part]) for part in ("host", "caches")),
            )
        )
    head = ("kernel, rows", "ncu", "events", "torch.profiler", "nsys", "wall clock")
    parts = (f"wall clock, {TIMES} ncu", "of the host", "of caches, clocks, recording")
    return table((*head, *parts), rows)


def _signed(ns):
    """A difference with its sign."""
    sign = "+" if ns > 0 else "\u2212"
    return f"{sign}{time(abs(ns))}"


AGREEING = (
    *("duration_ns", "cycles", "instructions", "registers", "achieved_occupancy_pct"),
    *("dram_read_bytes", "dram_write_bytes", "l2_bytes", "l2_hit_pct", "memory_throughput_pct"),
    *("bank_conflicts", "stall_long_scoreboard", "stall_wait", "fp32_fma"),
)


def cupti_and_ncu():
    """Table of CUPTI's medians ÷ ncu's of 60 cells on one GPU, and how often verdicts agree."""
    return _agreement("")


def kernels_by_cupti_and_ncu():
    """The same of 40 kernels of torch."""
    return _agreement("kernels_")


def _agreement(prefix):
    by_cupti, by_ncu = (
        findings_of_recording(SPEED / f"{prefix}{tool}_recording.zip") for tool in ("cupti", "ncu")
    )
    ratios = agreement.ratios(by_cupti, by_ncu)
    words = agreement.verdicts(by_cupti, by_ncu)
    same = sum(count for (one, other), count in words.items() if one == other)
    contrary = sum(count for pair, count in words.items() if {*pair} == agreement.CONTRARY)
    return "\n".join(
        (
            agreement.table({metric: ratios[metric] for metric in AGREEING if metric in ratios}),
            "",
            f"{same} of {sum(words.values())} verdicts are the same word, {contrary} contrary.",
            "",
        )
    )
