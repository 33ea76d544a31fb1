"""Counters of the best variant beside those of the baseline, and rates of all under the roofs."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from profiler.findings.counters import (
    STILL_UNDER,
    TIME_AGAIN,
    CounterPair,
    OwnRoof,
    RoofLine,
    counted_operations,
    counter_pairs,
    largest_stalls,
    level_bytes,
    own_roof,
    roof_lines,
)
from profiler.findings.findings import Findings
from profiler.metrics.catalogue import STALL_PREFIX
from profiler.model import Cell, Problem, Variant
from profiler.render.figures import roofline_drawing
from profiler.render.figures import version_figures as figures
from profiler.render.figures.charts import Chart, colours, make_chart
from profiler.render.figures.drawing import Drawing
from profiler.render.tables.rows import (
    Column,
    Datum,
    FrameRow,
    Row,
    SmallTable,
    change_datum,
    frame_column,
    with_unit,
)
from profiler.render.words import numbers
from profiler.render.words.comparisons import best_word
from profiler.render.words.why import no_practical_words, plain_kernel_words, roof_words

MOST_MOVED = 12
MOST_STALLS = 8
PEAKS = (
    "compute_throughput_pct",
    "memory_throughput_pct",
    "dram_throughput_pct",
    "peak_dram_pct",
    "tensor_pipe_pct",
    "achieved_occupancy_pct",
    "l1_hit_pct",
    "l2_hit_pct",
)


def why(findings: Findings) -> dict[str, Any] | None:
    """Parts that compare the best variant with the baseline at the largest problem that both have.

    None without either, and without such a problem; charts are None where their metrics were not
    collected.
    """
    best, baseline = findings.ranking.best, findings.programs.baseline
    if best is None or baseline is None:
        return None
    problem = findings.ranking.largest_of(best, baseline)
    if problem is None:
        return None
    best_name = best_word(findings.ranking)
    names = (best.label, baseline.label)
    collected = {metric.name: metric for metric in findings.numbers.metrics}
    peaks = counter_pairs(
        findings, [collected[name] for name in PEAKS if name in collected], problem
    )
    stalls = largest_stalls(findings, problem, MOST_STALLS)
    caption = "Percent of peak, occupancy and hit rates"
    quotient = f"{best_name} ÷ baseline"
    return {
        "problem": problem.name,
        "best": best.label,
        "baseline": baseline.label,
        "peaks": make_chart(
            "peaks",
            f"{caption} at {problem.name}",
            colours(findings.ranking),
            _pair_bars(peaks, names),
            table=_pair_table(caption, names, f"{best_name} {numbers.MINUS} baseline", peaks),
        )
        if peaks
        else None,
        "roofline": roofline(findings, problem),
        "stalls": make_chart(
            "stalls",
            f"What warps wait on at {problem.name}",
            f"{colours(findings.ranking)} Warps that wait for each reason, per instruction issued.",
            _pair_bars(stalls, names),
            table=_pair_table("Stall reasons", names, quotient, stalls),
        )
        if stalls
        else None,
        "moved": _pair_table(
            f"Counters of {best.label} and of the baseline",
            names,
            quotient,
            _most_moved(findings, problem),
        ),
    }


def _pair_bars(pairs: Sequence[CounterPair], names: tuple[str, str]) -> Drawing:
    rows = [(pair.metric.label, pair.best, pair.baseline) for pair in pairs]
    return figures.pairs(rows, pairs[0].metric.unit, names)


def _most_moved(findings: Findings, problem: Problem) -> list[CounterPair]:
    """Counters that stand in no figure, by how far they moved; from or to 0 counts most."""
    metrics = [
        metric
        for metric in findings.numbers.metrics
        if metric != findings.numbers.primary
        and metric.name not in (*TIME_AGAIN, *PEAKS)
        and not metric.name.startswith(STALL_PREFIX)
    ]
    pairs = counter_pairs(findings, metrics, problem)
    moved = sorted((pair for pair in pairs if pair.size > STILL_UNDER), key=lambda pair: -pair.size)
    return moved[:MOST_MOVED]


def _pair_table(
    caption: str, names: tuple[str, str], change: str, pairs: Sequence[CounterPair]
) -> SmallTable:
    """Counters of the best variant, of the baseline, and the change, whose head is `change`."""
    columns: tuple[Column[CounterPair], ...] = (
        Column(names[0], lambda pair: _amount(pair, pair.best)),
        Column(names[1], lambda pair: _amount(pair, pair.baseline)),
        Column(change, lambda pair: change_datum(pair.best, pair.baseline, pair.metric)),
    )
    return SmallTable.of(caption, "metric", columns, pairs, _metric_row)


def _amount(pair: CounterPair, value: float) -> Datum:
    return Datum.quantity(value, pair.metric.unit, "not collected")


def _metric_row(pair: CounterPair) -> Row:
    """Row of a counter; its name has the unit where the values have none."""
    metric = pair.metric
    name = metric.label if numbers.says_unit(metric.unit) else with_unit(metric, metric.unit)
    return Row(name, note=metric.hint)


# ---- the roofline at the same problem ------------------------------------------------------------

INTENSITY = "arithmetic_intensity"
RATE = "tflops"
_TERA = 1e12
_SAME = 0.02
"""Roofs that are closer are drawn as one: those of L1 and shared memory, which are one array, and
one roof at two clocks."""


def roofline(findings: Findings, problem: Problem) -> Chart | None:
    """Rates over arithmetic intensities; None without operations, traffic or peak bandwidth."""
    lines = roof_lines(findings, problem)
    table = roofline_table(findings, problem, lines)
    dram = next((line.ceiling / _TERA for line in lines if line.name == "dram"), None)
    if dram is None or table.empty:
        return None
    of_dram = table[table["level"] == "dram"].to_dict("records")
    return make_chart(
        "roofline",
        f"Roofline at {problem.name}",
        _reading(findings, lines, table),
        roofline_drawing.roofline(table, _line_table(lines)),
        hovers={row["mark"]: _hover(row) for row in of_dram},
        table=_roofline_table(of_dram, dram),
    )


def roofline_table(findings: Findings, problem: Problem, lines: Sequence[RoofLine]) -> pd.DataFrame:
    """Dots for `roofline_drawing.roofline`: correct variants with operations and counted traffic.

    `counted`: TFLOP/s by counted operations. `roof`: the nearest one at the cell's clock, and `own`
    the TFLOP/s that it allows, of variants that the figure names where the line is not drawn there.
    Other levels than DRAM only of these, so that it can be read, and only where they moved as much
    as DRAM: copies that go past L1 (TMA) leave it next to nothing.
    """
    rows: list[dict[str, Any]] = []
    for variant, _ in findings.numbers.sorted_at(problem, findings.numbers.primary.name):
        cell = findings.programs.correct_at(variant, problem)
        if cell is not None:
            rows += _dots(findings, variant, cell, lines)
    return pd.DataFrame(rows)


def _dots(
    findings: Findings, variant: Variant, cell: Cell, lines: Sequence[RoofLine]
) -> Iterator[dict[str, Any]]:
    intensity, rate = (findings.numbers.value(cell, metric).median for metric in (INTENSITY, RATE))
    if not (math.isfinite(intensity) and math.isfinite(rate) and min(intensity, rate) > 0):
        return
    moved = level_bytes(findings, cell)
    stated = findings.programs.status(cell).facts.flops or math.nan
    role = findings.ranking.role(variant)
    intensities = {"dram": intensity}
    if role != "other" and "dram" in moved:
        intensities |= {
            level: intensity * moved["dram"] / amount
            for level, amount in moved.items()
            if level != "dram" and amount >= moved["dram"]
        }
    roof = own_roof(findings, cell)
    off = roof if roof is not None and role != "other" and _is_off(roof, lines) else None
    for level, at_level in intensities.items():
        yield {
            "name": variant.label,
            "level": level,
            "intensity": at_level,
            "rate": rate,
            "own": math.nan if off is None else _own_rate(off, level, at_level),
            "counted": rate * counted_operations(findings.numbers, cell) / stated,
            "roof": roof,
            "role": role,
            "mark": findings.programs.marks[variant.id],
        }


def _is_off(roof: OwnRoof, lines: Sequence[RoofLine]) -> bool:
    """Whether the roof of a cell is not where its line is drawn."""
    drawn = next((line.ceiling for line in lines if line.name == roof.name), math.nan)
    return abs(roof.ceiling / drawn - 1) > _SAME


def _own_rate(roof: OwnRoof, level: str, intensity: float) -> float:
    """TFLOP/s that the roof of a cell allows at a dot of it; NaN at one of another level."""
    if roof.is_memory:
        return roof.ceiling * intensity / _TERA if level == roof.name else math.nan
    return roof.ceiling / _TERA if level == "dram" else math.nan


def _line_table(lines: Sequence[RoofLine]) -> pd.DataFrame:
    """Rows for `roofline_drawing.roofline`, in tera per second.

    `practical` is a rate as well; NaN where it was not measured.
    """
    rows: list[dict[str, Any]] = []
    for line in lines:
        ceiling = line.ceiling / _TERA
        before = rows[-1] if rows else None
        if before and line.is_memory and abs(ceiling / before["ceiling"] - 1) < _SAME:
            before["names"] = f"{before['names']} and {_short_name(line.name)}"
            before["lowest"] = min(before["lowest"], line.lowest / _TERA)
            before["highest"] = max(before["highest"], line.highest / _TERA)
            continue
        row = {
            "names": _short_name(line.name),
            "memory": line.is_memory,
            "ceiling": ceiling,
            "lowest": line.lowest / _TERA,
            "highest": line.highest / _TERA,
            "practical": ceiling * line.practical,
        }
        rows.append(row)
    return pd.DataFrame([{**row, "label": _label(row), "band": _is_band(row)} for row in rows])


def _is_band(row: Mapping[str, Any]) -> bool:
    """Whether a roof is not at one place for all cells."""
    return bool(max(row["highest"] / row["ceiling"], row["ceiling"] / row["lowest"]) > 1 + _SAME)


def _label(row: Mapping[str, Any]) -> str:
    unit = "TB/s" if row["memory"] else "TFLOP/s"
    label = f"{row['names']} {row['ceiling']:.3g} {unit}"
    if math.isfinite(row["practical"]):
        plain = "copy" if row["memory"] else "product"
        label += f" ({plain} {row['practical']:.3g})"
    return label


def _short_name(roof: str) -> str:
    names = {"dram": "DRAM", "l2": "L2", "l1": "L1", "shared": "shared memory", "fp32": "FP32"}
    return names.get(roof, roof_words(roof))


def _reading(findings: Findings, lines: Sequence[RoofLine], table: pd.DataFrame) -> str:
    """Words on lines and marks of the roofline, and which of them are missing."""
    sentences = [
        colours(findings.ranking),
        "Lines: the most that memory allows (FLOP per byte times bandwidth) and that arithmetic "
        "sustains, at the median clock of these launches.",
    ]
    if _line_table(lines)["band"].any():
        sentences.append("Bands: the same from the lowest clock to the highest.")
    if table["own"].notna().any():
        sentences.append(
            "Ticks: the roof at the clock of a named variant, where that is more than "
            f"{numbers.share(_SAME)} off the line."
        )
    marks = {"l2": "squares: L2", "l1": "triangles: L1", "shared": "diamonds: shared memory"}
    levels = [level_words for level, level_words in marks.items() if level in set(table["level"])]
    if levels:
        sentences.append(f"Circles: FLOP per byte of DRAM traffic; {', '.join(levels)}.")
    if not any(not line.is_memory for line in lines):
        sentences.append(
            "The roofs of arithmetic are not drawn: `roofline` is not among the metrics."
        )
    practical = [line.name for line in lines if math.isfinite(line.practical)]
    if practical:
        roof_kernels = "; ".join(
            f"{roof_words(name)}: {plain_kernel_words(name)}" for name in practical
        )
        sentences.append(
            f"Dashed: what plain kernels reached in this run, at the clock of the lines "
            f"({roof_kernels})."
        )
    sentences.append(no_practical_words(findings))
    return " ".join(filter(None, sentences))


def _hover(row: Mapping[Hashable, Any]) -> str:
    """Rate of a variant, and what share of its own roof it reached."""
    rate, roof = numbers.show(row["rate"], "TFLOP/s"), row["roof"]
    if roof is None:
        return rate
    share, ceiling = numbers.show(roof.percent, "%"), _ceiling_words(roof)
    return f"{rate}, {share} of its roof: {roof_words(roof.name)}{ceiling and f', {ceiling}'}"


def _ceiling_words(roof: OwnRoof) -> str:
    """The roof at the clock of its launch; empty where that was not counted."""
    if math.isnan(roof.ceiling):
        return ""
    if roof.is_memory:
        return numbers.show(roof.ceiling, "byte/s")
    return numbers.show(roof.ceiling / _TERA, "TFLOP/s")


def _roofline_table(rows: Sequence[FrameRow], terabytes_per_s: float) -> SmallTable:
    """Variants, best first, by what they do with each byte of device memory and by their roofs."""

    def allowed(row: FrameRow) -> float:
        return float(row["intensity"] * terabytes_per_s)

    columns: tuple[Column[FrameRow], ...] = (
        Column("FLOP per byte", _intensity),
        frame_column("rate", "rate", "TFLOP/s", "by the operations that the workload states"),
        frame_column(
            "counted",
            "counted",
            "TFLOP/s",
            "by the operations that counters saw",
            _NOT_COUNTED,
        ),
        Column(
            "DRAM allows",
            lambda row: Datum.quantity(allowed(row), "TFLOP/s", ""),
            "FLOP per byte times the peak DRAM bandwidth",
        ),
        Column(
            "share of it", lambda row: Datum.quantity(100 * row["rate"] / allowed(row), "%", "")
        ),
        Column(
            "nearest roof",
            lambda row: _of_roof(row, lambda roof: Datum(roof_words(roof.name))),
            "by the operations or bytes that counters saw",
            is_text=True,
        ),
        Column(
            "at its clock",
            lambda row: _of_roof(row, _ceiling),
            "the roof at the clock of the launch that was counted, which the figure has as a tick "
            "where it is off the line",
        ),
        Column(
            "share of the roof",
            lambda row: _of_roof(row, lambda roof: Datum.quantity(roof.percent, "%", _NOT_COUNTED)),
            "of that launch: counted operations or bytes per second in percent of the roof",
        ),
    )
    return SmallTable.of(
        "Roofline",
        "variant",
        columns,
        rows,
        lambda row: Row(row["name"], mark=row["mark"], role=row["role"]),
    )


_NOT_COUNTED = "not counted"


def _intensity(row: FrameRow) -> Datum:
    value = row["intensity"]
    return Datum(numbers.show(numbers.rounded(value, 3)), numbers.raw(value))


def _of_roof(row: FrameRow, value: Callable[[OwnRoof], Datum]) -> Datum:
    """Something of the nearest roof of a variant, where that was counted."""
    return Datum(title=_NOT_COUNTED, css="none") if row["roof"] is None else value(row["roof"])


def _ceiling(roof: OwnRoof) -> Datum:
    ceiling_words = _ceiling_words(roof)
    if not ceiling_words:
        return Datum(title=_NOT_COUNTED, css="none")
    return Datum(ceiling_words, numbers.raw(roof.ceiling / _TERA))
