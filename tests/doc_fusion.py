"""Tables of docs/fusion.md, from the recordings of `kernels/fusion`."""

import re
from collections import Counter
from functools import partial
from itertools import groupby
from statistics import median as middle

from doc_tables import (
    MIB,
    RECORDINGS,
    cell_of,
    explained,
    findings_of,
    median,
    spread,
    table,
    time,
    word,
)
from recorded import CAUSES, findings_of_recording

from profiler.collect.registry import duration_metrics
from profiler.findings.method import made_sessions
from profiler.model import SessionKind, Verdict
from profiler.planning.matrix import expand
from profiler.planning.space import space_of
from profiler.planning.spec import load_spec
from profiler.render.tables.grids import kernel_lists
from profiler.render.words import numbers
from profiler.render.words.numbers import TIMES
from profiler.render.words.signs import ORDER
from profiler.run_folder.archive import open_run
from profiler.run_folder.load.outcomes import choices_by_operation

FOLDERS = (
    *("fusion", "fusion_grid", "fusion_operators", "fusion_attention", "softmax_forms", "layouts"),
    "timers",
)
"""Recordings of this workload."""
WHOLE_GRID = RECORDINGS.parents[1] / "benchmarks/fusion/whole_grid.zip"
FLOAT_BYTES = 4
KERNEL_NAME = re.compile(r"(\w*[sS]oft[mM]ax\w*)(?=<)")
EAGER = f"{TIMES} eager"
DURATIONS = (("below 20 µs", 20e3), ("20 to 100 µs", 100e3), ("100 to 500 µs", 500e3))


def cells_of(findings, variant, **params):
    """Correct cells of a variant at the problems that have these parameters."""
    problems = (p for p in findings.programs.problems if params.items() <= p.params.items())
    cells = (findings.programs.by_place.get((variant, problem.id)) for problem in problems)
    return [cell for cell in cells if cell and cell.id in findings.programs.correct_cells]


def ratios(findings, cells):
    """Each cell's time ÷ that of the baseline at its problem."""
    return [findings.verdicts.against_baseline[cell.id].ratio for cell in cells]


def counts(findings, cells):
    """How often each verdict against the baseline was given: `FASTER 6, SLOWER 1`."""
    found = Counter(word(findings.verdicts.against_baseline[cell.id]) for cell in cells)
    order = [verdict.word for verdict in ORDER]
    return ", ".join(f"{verdict} {found[verdict]}" for verdict in order if found[verdict])


def per_element(findings, cells, *metrics):
    """Bytes of these counters per element of the matrix: their median over cells."""
    return middle(
        sum(median(findings, cell, metric) for metric in metrics)
        / (cell.problem.params["dim0"] * cell.problem.params["dim1"])
        for cell in cells
    )


def matrix_mib(cell):
    """Size of one matrix of a cell in fp32, in MiB."""
    return cell.problem.params["dim0"] * cell.problem.params["dim1"] * FLOAT_BYTES / MIB


# ---- what was measured ---------------------------------------------------------------------------


def experiments():
    """The experiment files of this workload, and the cells that each plans."""
    rows = []
    for name in (*FOLDERS, "fusion_small"):
        loaded = load_spec(RECORDINGS.parent / f"{name}.yaml")
        path = f"`experiments/{name}.yaml`"
        rows.append((path, str(_cells_planned(loaded)), loaded.experiment.title))
    return table(("file", "cells", "question"), rows)


def _cells_planned(loaded):
    space = space_of(loaded)
    found = expand(loaded, space)
    return sum(
        space.check_cell(variant.params, problem.params) is None
        for variant in found.variants
        for problem in found.problems
    )


def runs():
    """The recordings: where, when, how many cells and visits, and the seconds of it all."""
    rows = []
    for name in FOLDERS:
        findings = findings_of(name)
        environment = findings.report.environment
        visits = {
            session.collector: session.visits
            for session in made_sessions(findings.report)
            if session.kind == SessionKind.TIMING.value
        }
        rows.append(
            (
                name,
                environment.gpu,
                findings.report.execution.created[:10],
                environment.cache_control,
                str(len(findings.programs.cells)),
                ", ".join(f"{count} by {collector}" for collector, count in visits.items()),
                seconds_of(name),
            )
        )
    head = ("recording", "GPU", "measured", "`cache_control`", "cells", "timing visits")
    return table((*head, "wall time"), rows)


def seconds_of(name):
    """Wall time of a recorded run, over all its executions."""
    executions = open_run(RECORDINGS / f"{name}.zip").seconds()
    spans = [max(span.end_s for span in spans) for spans in executions if spans]
    return numbers.seconds(sum(spans)) if spans else numbers.MISSING


# ---- operators -----------------------------------------------------------------------------------


def operators():
    """Every cell of `fusion_operators`, the quickest implementation of an operator first."""
    findings = findings_of("fusion_operators")
    rows = []
    for problem in findings.programs.problems:
        cells = [c for c in findings.programs.correct_cells.values() if c.problem.id == problem.id]
        cells.sort(key=lambda cell: median(findings, cell))
        for place, cell in enumerate(cells):
            name = f"`{problem.params['operator']}`" if place == 0 else ""
            rows.append((name, cell.variant.label, *_operator_row(findings, cell)))
    head = ("operator", "implementation", "time", EAGER, "verdict", "DRAM MiB", "kernels")
    return table((*head, "compile"), rows)


def _operator_row(findings, cell):
    verdict = findings.verdicts.against_baseline.get(cell.id)
    moved = sum(median(findings, cell, f"dram_{way}_bytes") for way in ("read", "write"))
    compiling = findings.numbers.values.get((cell.id, "compile_s"))
    return (
        time(median(findings, cell)),
        f"{verdict.ratio:.3f} [{verdict.low:.3f}, {verdict.high:.3f}]" if verdict else "",
        word(verdict) if verdict else "baseline",
        f"{moved / MIB:.0f}",
        f"{median(findings, cell, 'kernels'):.0f}",
        f"{compiling.median:.1f} s" if compiling else "",
    )


def written_kernels():
    """The kernels written by hand at the largest shape, beside eager and compiled code."""
    findings = findings_of("fusion_grid")
    rows = []
    for operator in ("pointwise_chain", "softmax", "layer_norm"):
        for variant in ("triton", "compile", "eager"):
            cell = cell_of(findings, variant, operator=operator, dim0=8192, dim1=8192)
            rows.append(
                (
                    f"`{operator}`" if variant == "triton" else "",
                    variant,
                    time(median(findings, cell)),
                    f"{median(findings, cell, 'gbps'):.0f} GB/s",
                    f"{median(findings, cell, 'roof_dram_pct'):.1f} %",
                )
            )
    head = ("operator", "implementation", "time", "least traffic ÷ time")
    return table((*head, "of the memory's roof, with all that it moves"), rows)


def whole_grid():
    """Every operator of `fusion.yaml`, compiled and by hand, over all of its shapes."""
    findings = findings_of_recording(WHOLE_GRID)
    rows = []
    for operator in dict.fromkeys(p.params["operator"] for p in findings.programs.problems):
        for variant in ("compile", "triton"):
            cells = [
                cell
                for cell in cells_of(findings, variant, operator=operator)
                if cell.id in findings.verdicts.against_baseline
            ]
            if cells:
                name = f"`{operator}`" if variant == "compile" else ""
                times = spread(ratios(findings, cells))
                rows.append((name, variant, str(len(cells)), times, counts(findings, cells)))
    return table(("operator", "implementation", "shapes", EAGER, "verdicts"), rows)


# ---- shapes --------------------------------------------------------------------------------------


def areas(operator):
    """What fusing an operator gains by the area of the matrix, and what eager code moves."""
    findings = findings_of("fusion_grid")
    compiled = sorted(cells_of(findings, "compile", operator=operator), key=matrix_mib)
    rows = []
    for mib, group in groupby(compiled, key=matrix_mib):
        cells = list(group)
        eager = [findings.programs.by_place["eager", cell.problem.id] for cell in cells]
        rows.append(
            (
                f"{mib:g}",
                str(len(cells)),
                spread(ratios(findings, cells)),
                counts(findings, cells),
                f"{per_element(findings, eager, 'dram_read_bytes'):.1f}",
                f"{per_element(findings, eager, 'dram_write_bytes'):.1f}",
                f"{per_element(findings, cells, 'dram_read_bytes', 'dram_write_bytes'):.1f}",
            )
        )
    head = ("MiB a matrix", "shapes", f"compile, {EAGER}", "verdicts", "eager reads")
    return table((*head, "eager writes", "compile reads and writes"), rows)


def softmax_shapes(dimension):
    """Compiled softmax by the number of rows (`dim0`) or columns (`dim1`)."""
    findings = findings_of("fusion")
    sizes = sorted({problem.params[dimension] for problem in findings.programs.problems})
    rows = [
        (str(size), spread(ratios(findings, cells)), counts(findings, cells))
        for size in sizes
        for cells in [cells_of(findings, "compile", **{dimension: size})]
    ]
    if dimension == "dim1":
        cells = cells_of(findings, "compile")
        rows.append(("all", spread(ratios(findings, cells)), counts(findings, cells)))
    name = {"dim0": "rows", "dim1": "columns"}[dimension]
    return table((name, f"compile, {EAGER}", "verdicts"), rows)


def softmax_stairs():
    """Softmax of 65536 rows by columns: time and bytes per element, and kernels."""
    findings = findings_of("fusion")
    kernels = kernel_lists(findings)
    rows = []
    for eager in cells_of(findings, "eager", dim0=65536):
        columns = eager.problem.params["dim1"]
        compiled = findings.programs.by_place["compile", eager.problem.id]
        cells = (eager, compiled)
        rows.append(
            (
                str(columns),
                *(f"{median(findings, c) * 1000 / (65536 * columns):.1f} ps" for c in cells),
                *(
                    f"{per_element(findings, [c], 'dram_read_bytes', 'dram_write_bytes'):.1f}"
                    for c in cells
                ),
                *(f"`{KERNEL_NAME.search(name)[0]}`" for name in kernels[eager.id]),
                str(len(kernels[compiled.id])),
            )
        )
    head = ("columns", "eager, an element", "compile", "eager, bytes an element", "compile")
    return table((*head, "kernel of eager", "kernels of compile"), rows)


# ---- the autotuner -------------------------------------------------------------------------------


def same_cells():
    """Compiled softmax cells of `fusion` and `fusion_grid`: the same code, two runs."""
    first, second = findings_of("fusion"), findings_of("fusion_grid")
    quotients = {"the same configuration": [], "another": []}
    for cell in cells_of(second, "compile", operator="softmax"):
        other = first.programs.by_place.get((cell.variant.id, cell.problem.id))
        if other is None or other.id not in first.programs.correct_cells:
            continue
        chosen = [
            choices_by_operation(f.programs.status(c).tuning.tried)
            for f, c in ((first, other), (second, cell))
        ]
        name = "the same configuration" if chosen[0] == chosen[1] else "another"
        quotients[name].append(median(second, cell) / median(first, other))
    rows = [(name, str(len(found)), spread(found)) for name, found in quotients.items() if found]
    head = ("inductor chose", "shapes", "time in fusion_grid ÷ time in fusion")
    return table(head, rows)


def tuner_times():
    """Times by which inductor's autotuner decided, beside ncu's of the same kernel."""
    found = [pair for name in FOLDERS for pair in _tuned_once(findings_of(name))]
    rows, low = [], 0.0
    for label, high in (*DURATIONS, ("above 500 µs", float("inf"))):
        pairs = [(tuner, ncu) for tuner, ncu in found if low <= ncu < high]
        low = high
        quotients = [tuner / ncu for tuner, ncu in pairs]
        rows.append((label, str(len(pairs)), spread(quotients) if pairs else numbers.MISSING))
    return table(("time by ncu", "kernels", f"the autotuner's, {TIMES} ncu's"), rows)


def _tuned_once(findings):
    """(Autotuner's, ncu's) nanoseconds of cells that are one launch of a kernel that was tuned."""
    kernels = kernel_lists(findings)
    for cell in findings.programs.correct_cells.values():
        tried = findings.programs.status(cell).tuning.tried
        best = [config for config in tried if config.best and config.time_ns]
        if len(best) != 1 or sum(c.operation == best[0].operation for c in tried) < 2:
            continue
        alone = set(kernels.get(cell.id, ())) == {best[0].operation}
        if alone and median(findings, cell, "kernels") == 1:
            yield best[0].time_ns, median(findings, cell, ncu_duration())


def ncu_duration():
    """Name of the duration that ncu gives."""
    return duration_metrics()["ncu"]


# ---- forms, attention, layouts -------------------------------------------------------------------


def softmax_forms():
    """Five ways to write a softmax, over all sizes; bytes at a square one."""
    findings = findings_of("softmax_forms")
    rows = []
    for variant in findings.programs.variants:
        cells = cells_of(findings, variant.id)
        square = cell_of(findings, variant.id, dim0=4096, dim1=4096)
        baseline = cell_of(findings, findings.programs.baseline.id, dim0=4096, dim1=4096)
        is_baseline = variant.id == findings.programs.baseline.id
        moved = [
            sum(median(findings, cell, f"dram_{way}_bytes") for way in ("read", "write"))
            for cell in (square, baseline)
        ]
        rows.append(
            (
                variant.label,
                f"{median(findings, square, 'kernels'):.0f}",
                "baseline" if is_baseline else spread(ratios(findings, cells)),
                f"{moved[0] / moved[1]:.2f}",
                "" if is_baseline else counts(findings, cells),
            )
        )
    reference = f"{TIMES} `torch.softmax`"
    return table(("form", "kernels", f"time, {reference}", f"bytes, {reference}", "verdicts"), rows)


def attention_widths():
    """Attention at length 8192 by elements of a head (batch 8, 8 heads)."""
    findings = findings_of("fusion_attention")
    rows = []
    for problem in findings.programs.problems:
        if problem.params["seq_len"] == 8192 and "embedding" in problem.params:
            elements = problem.params["embedding"] // problem.params["heads"]
            rows.append((str(elements), *_attention_row(findings, problem)))
    return table(("elements of a head", *_attention_names(findings)), rows)


def attention_lengths():
    """Attention with 32 heads of 64 by batch and length, of every second batch."""
    findings = findings_of("fusion_attention")
    rows = []
    for problem in findings.programs.problems:
        batch = problem.params["batch"]
        if problem.params.get("head_dim") == 64 and batch in {1, 4, 16}:
            place = f"{batch} \u00d7 {problem.params['seq_len']}"
            rows.append((place, *_attention_row(findings, problem)))
    return table(("batch \u00d7 length", *_attention_names(findings)), rows)


def attention_grids():
    """Every implementation of attention against plain, over each of the three grids."""
    findings = findings_of("fusion_attention")
    grids = {
        "32 heads of 64, batch by length": lambda params: params.get("head_dim") == 64,
        "16 heads of 128, batch by length": lambda params: params.get("head_dim") == 128,
        "8 heads, batch 8, length by width": lambda params: "embedding" in params,
    }
    rows = []
    for grid, is_in in grids.items():
        cells = [c for c in findings.programs.correct_cells.values() if is_in(c.problem.params)]
        for variant in findings.programs.variants:
            judged = [
                cell
                for cell in cells
                if cell.variant.id == variant.id and cell.id in findings.verdicts.against_baseline
            ]
            if judged:
                times = spread(ratios(findings, judged))
                rows.append(
                    (grid, variant.label, str(len(judged)), times, counts(findings, judged))
                )
    return table(("grid", "implementation", "problems", f"{TIMES} plain", "verdicts"), rows)


def _attention_names(findings):
    rivals = [v.label for v in findings.programs.variants if v.id != findings.programs.baseline.id]
    return ("plain", *(f"{name}, {TIMES} plain" for name in rivals))


def _attention_row(findings, problem):
    row = []
    for variant in findings.programs.variants:
        cell = findings.programs.by_place.get((variant.id, problem.id))
        if cell is None or cell.id not in findings.programs.correct_cells:
            row.append(numbers.MISSING)
            continue
        verdict = findings.verdicts.against_baseline.get(cell.id)
        if verdict is None:  # the baseline, or it did not fit
            row.append(time(median(findings, cell)))
        else:
            unclear = f", {word(verdict)}" if word(verdict) == Verdict.UNCLEAR.word else ""
            row.append(f"{verdict.ratio:.3f}{unclear}")
    return row


def layouts():
    """`bias_dropout_add` by memory layout: compiled and by hand against eager."""
    findings = findings_of("layouts")
    rows = []
    for layout in dict.fromkeys(p.params["layout"] for p in findings.programs.problems):
        cells = [cells_of(findings, variant, layout=layout) for variant in ("compile", "triton")]
        largest = [
            cell_of(findings, variant, layout=layout, dim1=65536)
            for variant in ("eager", "compile", "triton")
        ]
        rows.append(
            (
                layout,
                *(
                    text
                    for c in cells
                    for text in (spread(ratios(findings, c)), counts(findings, c))
                ),
                " / ".join(f"{median(findings, cell, 'gbps'):.0f}" for cell in largest),
            )
        )
    head = ("layout", f"compile, {EAGER}", "verdicts", f"triton, {EAGER}", "verdicts")
    return table((*head, "GB/s at 65536 columns: eager / compile / triton"), rows)


ACCOUNTS = {
    "account-fusion-timers": partial(
        explained, RECORDINGS / "timers.zip", problem="pointwise_chain 32768"
    ),
    "account-fusion-grid-chain": partial(
        explained, RECORDINGS / "fusion_grid.zip", problem="pointwise_chain 8192 \u00d7 8192"
    ),
    "account-fusion-grid-reductions": partial(
        explained, CAUSES / "fusion_grid.zip", problem="reduction_reduction 256 \u00d7 4096"
    ),
    "account-fusion-grid-softmax": partial(
        explained, CAUSES / "fusion_grid.zip", problem="softmax 8192 \u00d7 8192"
    ),
    "account-fusion-softmax": partial(explained, RECORDINGS / "fusion.zip"),
    "account-fusion-softmax-slowest": partial(
        explained, RECORDINGS / "fusion.zip", problem="operator=softmax,dim0=128,dim1=16384"
    ),
    "account-fusion-softmax-h200": partial(
        explained, CAUSES / "fusion.zip", problem="65536 \u00d7 128"
    ),
    "account-fusion-operators-attention": partial(
        explained, RECORDINGS / "fusion_operators.zip", problem="attention"
    ),
    "account-fusion-operators-bias-gelu": partial(
        explained, RECORDINGS / "fusion_operators.zip", problem="bias_gelu"
    ),
    "account-fusion-attention": partial(explained, RECORDINGS / "fusion_attention.zip"),
    "account-fusion-attention-efficient": partial(
        explained, RECORDINGS / "fusion_attention.zip", "efficient"
    ),
    "account-fusion-layouts": partial(explained, RECORDINGS / "layouts.zip"),
    "account-fusion-softmax-forms": partial(explained, RECORDINGS / "softmax_forms.zip"),
}
FUSION_BLOCKS = {
    "fusion-experiments": experiments,
    "fusion-runs": runs,
    "fusion-operators": operators,
    "fusion-written-kernels": written_kernels,
    "fusion-whole-grid": whole_grid,
    "fusion-areas-chain": partial(areas, "pointwise_chain"),
    "fusion-areas-reductions": partial(areas, "reduction_reduction"),
    "fusion-softmax-columns": partial(softmax_shapes, "dim1"),
    "fusion-softmax-rows": partial(softmax_shapes, "dim0"),
    "fusion-softmax-stairs": softmax_stairs,
    "fusion-same-cells": same_cells,
    "fusion-tuner-times": tuner_times,
    "fusion-softmax-forms": softmax_forms,
    "fusion-attention-widths": attention_widths,
    "fusion-attention-lengths": attention_lengths,
    "fusion-attention-grids": attention_grids,
    "fusion-layouts": layouts,
    **ACCOUNTS,
}
"""What writes a block of docs/fusion.md, by its name."""
