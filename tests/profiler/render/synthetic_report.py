"""A made-up run that has everything a page must cope with; no numbers here were measured."""

import dataclasses
import itertools
import math

import numpy as np
import pandas as pd
from cell_statuses import status_of

from profiler.analyse.samples import with_aliases
from profiler.analyse.summary import summarise
from profiler.model import (
    BuildResult,
    Cell,
    CellStatus,
    Environment,
    Exclusion,
    KernelFacts,
    Outcome,
    Plan,
    Problem,
    SessionKind,
    SessionPlan,
    Variant,
    Visit,
    cell_id,
    slug,
)
from profiler.notices import Notice, NoticeKind
from profiler.run_folder.load.report import (
    ExecutionRecord,
    ExperimentText,
    Measurements,
    PageSettings,
    Report,
)

HOSTILE = 'void k<a, b>("</script><img src=x onerror=alert(1)>")'
HOSTILE_NAME = 'naive <b>&"quoted"</b> <!-- $x$'

METRICS = (
    "duration_ns",
    "cycles",
    "registers",
    "l2_hit_pct",
    "dram_read_bytes",
    "dram_write_bytes",
    "gbps",
    "tflops",
    "arithmetic_intensity",
    "memory_throughput_pct",
    "compute_throughput_pct",
    "dram_throughput_pct",
    "achieved_occupancy_pct",
    "instructions",
    "stall_long_scoreboard",
    "stall_barrier",
    "stall_wait",
    "stall_not_selected",
    "bank_conflicts",
)
ONCE = {"l2_hit_pct", "memory_throughput_pct", "compute_throughput_pct", "dram_throughput_pct"}

_KERNELS = ("naive", "shared", "shuffle", "online", "vector")


def variants(count=28):
    """The baseline, a hostile name, and a matrix of kernels."""
    found = [
        Variant("torch", "torch.softmax", {"kernel": "torch"}, note="the library"),
        Variant(slug(HOSTILE_NAME), HOSTILE_NAME, {"kernel": "hostile"}),
    ]
    for number in range(count - 2):
        kernel = _KERNELS[number % len(_KERNELS)]
        block, width = 64 << (number // 10), (1, 4)[number // 5 % 2]
        params = {"kernel": kernel, "block": block, "vec": width}
        name = f"{kernel}-b{block}-v{width}"
        found.append(Variant(slug(name), name, params))
    return tuple(found)


def problems():
    """Three widths, two heights, two types; one parameter is the same everywhere."""
    return tuple(
        Problem(
            f"{dtype}_{rows}x{columns}",
            f"{dtype} {rows}\u00d7{columns}",
            {"dtype": dtype, "rows": rows, "columns": columns, "axis": 1},
        )
        for dtype in ("fp16", "fp32")
        for rows in (512, 65536)
        for columns in (1024, 4096, 16384)
    )


def make_report(
    variant_count=28, problem_list=None, blocks=8, baseline="torch", final_blocks=0, *, equal=False
):
    """Build a run of `variant_count` variants on all problems, with failures of several kinds.

    The baseline is in every block twice. With `final_blocks` the first three rivals of each problem
    and the baseline are measured again; `equal`: all variants take the same time.
    """
    chosen = variants(variant_count)
    sizes = problems() if problem_list is None else problem_list
    cells = tuple(
        Cell(cell_id(variant, problem), variant, problem) for problem in sizes for variant in chosen
    )
    statuses = {cell.id: status for cell in cells if (status := _status(cell, chosen))}
    samples = _samples(cells, statuses, blocks, baseline, equal=equal)
    if final_blocks:
        samples = pd.concat(
            [samples, _finals(samples, cells, statuses, final_blocks, baseline)],
            ignore_index=True,
        )
    samples = with_aliases(samples, statuses)  # as `assemble` does
    ranked = [one.cell for one in statuses.values() if not one.outcome.failed]
    summary = summarise(samples, cells=cells, baseline=baseline, ranked=ranked)
    return Report(
        experiment=ExperimentText(
            name="softmax",
            title="Row softmax: which kernel",
            description="Five kernels with tunable block size and vector width against torch.",
            spec_text="name: softmax\nvariants:\n  note: '</pre><script>alert(2)</script>'\n",
            spec_path="experiments/softmax.yaml",
        ),
        plan=_plan(cells, blocks, baseline),
        statuses=statuses,
        builds=tuple(_builds(chosen)),
        environment=Environment(
            gpu="NVIDIA H200",
            compute_capability="9.0",
            sm_count=132,
            memory_bytes=150_000_000_000,
            l2_bytes=62_914_560,
            driver="580.159.04",
            ncu="2025.3.1",
            torch="2.11.0",
            peak_dram_bytes_per_s=4.8e12,
            clock_control="none",
            cache_control="all",
            git_commit="0123abcd",
            git_dirty=True,
        ),
        execution=ExecutionRecord(
            created="2026-03-04T05:06:07+00:00",
            commands={
                "timing": "ncu --csv --nvtx python -m profiler.runner job.json",
                "build": "ninja -C build",
            },
            stages={"build": 41.2, "inside ncu": 301.0, "outside ncu": 12.5},
            replay={
                "gpu": "NVIDIA H200",
                "when": "2026-03-04T05:06:07+00:00",
                "ncu": "ncu 2025.3.1",
            },
        ),
        measured=Measurements(samples=samples, summary=summary),
        notices=_notices(),
        settings=PageSettings(metrics=METRICS[:10]),
    )


def timing_row(cell, block, arm, kernels, **values):
    """Sample of a visit under ncu that launched these kernels."""
    return {
        "session": "ncu-timing",
        "collector": "ncu",
        "kind": SessionKind.TIMING.value,
        "cell": cell.id,
        "block": block,
        "arm": arm,
        "repeat": 0,
        "kernels": float(len(kernels)),
        "kernel_names": kernels,
        **values,
    }


def report_of_rows(experiment, cells, statuses, rows, *, environment, settings):
    """Report of a run whose samples are rows of `timing_row`; its baseline is the first variant."""
    samples, baseline = pd.DataFrame(rows), cells[0].variant.id
    ranked = [status.cell for status in statuses.values() if not status.outcome.failed]
    visits = tuple(Visit(row["cell"], row["block"], row["arm"]) for row in rows)
    session = SessionPlan("ncu-timing", "ncu", SessionKind.TIMING, settings.metrics, visits)
    return Report(
        experiment=experiment,
        plan=Plan(experiment.name, 42, cells, (), (session,), baseline=baseline),
        statuses=statuses,
        builds=(),
        environment=environment,
        execution=ExecutionRecord(created="2026-03-04T05:06:07+00:00"),
        measured=Measurements(
            samples=samples,
            summary=summarise(samples, cells=cells, baseline=baseline, ranked=ranked),
        ),
        settings=settings,
    )


def without(report, **changes):
    """Give the report with some fields changed, of itself or of the records in it."""

    def of(record):
        return {name: changes.pop(name) for name in vars(record) if name in changes}

    own = of(report)
    for part in ("experiment", "execution", "measured", "settings", "details"):
        record = own.get(part, getattr(report, part))
        own[part] = dataclasses.replace(record, **of(record))
    assert not changes, "a report has no such field"
    return dataclasses.replace(report, **own)


def unmeasured(report, cells):
    """The report as it would be had these cells not been measured."""
    statuses = {
        name: CellStatus(name, Outcome.NOT_MEASURED) if name in cells else status
        for name, status in report.statuses.items()
    }
    summary = report.measured.summary[~report.measured.summary["cell"].isin(cells)]
    samples = report.measured.samples[~report.measured.samples["cell"].isin(cells)]
    return without(report, statuses=statuses, summary=summary, samples=samples)


def with_metrics(report, *names):
    """Give the report with these metrics only: each of twenty draws its figures on a page."""
    return without(
        report, summary=report.measured.summary[report.measured.summary["metric"].isin(names)]
    )


def _status(cell, chosen):
    number = next(index for index, one in enumerate(chosen) if one == cell.variant)
    columns = int(cell.problem.params.get("columns") or 0)
    if number == 5:
        return CellStatus(cell.id, Outcome.COMPILE_FAILED, 'error: no "</td>" <here>')
    if number == 6 and columns == 16384:
        return status_of(cell.id, Outcome.WRONG_RESULT, "off by 0.3", max_abs_error=0.3)
    if number == 7 and columns == 1024:
        return CellStatus(cell.id, Outcome.TIMED_OUT, "no answer in 60 s")
    if number == 8 and columns == 4096:
        return None  # nobody reports on it: not measured
    if number == 9:
        twin = cell_id(chosen[4], cell.problem)
        return CellStatus(cell.id, Outcome.DUPLICATE, duplicate_of=twin)
    missing = ("bank_conflicts",) if number == 3 else ()
    return status_of(
        cell.id,
        missing_metrics=missing,
        max_abs_error=1e-3,
        max_rel_error=2e-3,
        flops=5.0 * columns,
        bytes=4.0 * columns,
    )


def _samples(cells, statuses, blocks, baseline, *, equal):
    generator, noises = np.random.default_rng(7), np.random.default_rng(8)
    rows = []
    for index, cell in enumerate(cells):
        status = statuses.get(cell.id)
        measured = (Outcome.MEASURED, Outcome.WRONG_RESULT)
        if status is None or status.outcome not in measured:
            continue
        values = _values(index, cell, generator)
        if equal:
            values |= {"duration_ns": 5000.0, "cycles": 9000.0}
        wrong = 0.1 if status.outcome is Outcome.WRONG_RESULT else 1.0
        arms = (0, 1) if cell.variant.id == baseline else (0,)
        for block, arm in itertools.product(range(blocks), arms):
            noise = math.exp(noises.normal(0, 0.004))
            kernel = HOSTILE if "hostile" in str(cell.variant.params) else "softmax_k"
            row = timing_row(cell, block, arm, (kernel,), session="timing", kernel_names=kernel)
            row |= {
                name: value * (noise * wrong if name in ("duration_ns", "cycles") else 1.0)
                for name, value in values.items()
                if name not in status.missing_metrics and (name not in ONCE or block == 0)
            }
            rows.append(row)
    return pd.DataFrame(rows)


def _finals(samples, cells, statuses, blocks, baseline):
    """The three lowest medians of each problem and the baseline, a little slower than before."""
    medians = samples.groupby("cell")["duration_ns"].median()
    generator = np.random.default_rng(11)
    rows = []
    for problem in dict.fromkeys(cell.problem.id for cell in cells):
        own = [
            one
            for one in cells
            if one.problem.id == problem
            and one.id in medians.index
            and not statuses[one.id].outcome.failed
        ]
        rivals = [one for one in own if one.variant.id != baseline]
        chosen = sorted(rivals, key=lambda one: medians[one.id])[:3]
        chosen += [one for one in own if one.variant.id == baseline]
        for cell, block in itertools.product(chosen, range(blocks)):
            for arm in (0, 1) if cell.variant.id == baseline else (0,):
                time = medians[cell.id] * 1.02 * math.exp(generator.normal(0, 0.003))
                row = {"session": "final", "collector": "ncu", "kind": SessionKind.FINAL.value}
                row |= {"cell": cell.id, "block": block, "arm": arm, "repeat": 0, "kernels": 1.0}
                rows.append(row | {"kernel_names": "k", "duration_ns": time, "cycles": time * 1.8})
    return pd.DataFrame(rows)


def _values(index, cell, generator):
    params = cell.problem.params
    size = float(params.get("rows") or 1) * float(params.get("columns") or 1)
    width = 2.0 if params.get("dtype") == "fp16" else 4.0
    kernel = str(cell.variant.params["kernel"])
    speed = {"torch": 2.6, "naive": 1.4, "shared": 2.4, "shuffle": 3.1, "online": 3.4}
    tuned = 1.0 + 0.05 * float(cell.variant.params.get("vec") or 1) / 4
    bandwidth = speed.get(kernel, 3.7) * tuned * generator.uniform(0.93, 1.0)
    traffic = 2 * size * width
    duration = 1500 + traffic / bandwidth / 1e3
    percent = min(99.0, 100 * traffic / duration / 4800)
    return {
        "duration_ns": duration,
        "cycles": duration * 1.8,
        "registers": float(24 + index % 7 * 8),
        "l2_hit_pct": 50 + 10 * generator.uniform(),
        "dram_read_bytes": traffic / 2,
        "dram_write_bytes": traffic / 2 * generator.uniform(0.5, 0.9),
        "gbps": traffic / duration,
        "tflops": 5 * size / duration / 1e3,
        "arithmetic_intensity": 5 * size / (traffic * generator.uniform(0.8, 1.0)),
        "memory_throughput_pct": percent,
        "compute_throughput_pct": percent * 0.6,
        "dram_throughput_pct": percent * 0.95,
        "achieved_occupancy_pct": 60 + 30 * generator.uniform(),
        "instructions": size * 3,
        "stall_long_scoreboard": 20 * generator.uniform(),
        "stall_barrier": 5 * generator.uniform(),
        "stall_wait": 2 * generator.uniform(),
        "stall_not_selected": 30.0,
        "bank_conflicts": 0.0 if kernel == "torch" else size / 8,
    }


def _plan(cells, blocks, baseline):
    visits = tuple(
        Visit(cell.id, block, arm)
        for cell in cells
        for block in range(blocks)
        for arm in ((0, 1) if cell.variant.id == baseline else (0,))
    )
    session = SessionPlan("timing", "ncu", SessionKind.TIMING, METRICS, visits)
    excluded = (
        Exclusion("a row does not fit into <shared> memory", 36, "cell", ("shared-b64-v1",)),
        Exclusion("vec needs columns divisible by it", 4, "variant"),
    )
    return Plan("softmax", 42, cells, excluded, (session,), baseline)


def _builds(chosen):
    found = []
    for number, variant in enumerate(chosen):
        if number == 0:
            found.append(BuildResult(variant.id, ok=True))
            continue
        kernel = KernelFacts(HOSTILE if number == 1 else "softmax_k", 24 + number, 0, 8, 0, 4096)
        failed = number == 5
        found.append(
            BuildResult(
                variant.id,
                ok=not failed,
                recipe_hash=f"{number:08x}",
                kernels=() if failed else (kernel,),
                duplicate_of=chosen[4].id if number == 9 else None,
                error="softmax.cu(12): error: expected a </pre><script>alert(3)</script>"
                if failed
                else "",
            )
        )
    return found


def _notices():
    """What is noticed when a run is read; the rest is found in its numbers."""
    return (
        Notice(NoticeKind.CSV_TOOL_MESSAGE, {"file": "ncu.csv", "text": "<b>12</b> compile"}),
        Notice(
            NoticeKind.REPLAYED,
            {"gpu": "NVIDIA H200", "when": "2026-03-04", "ncu": "ncu 2025.3.1"},
        ),
    )
