"""The page of grids that are counted in waves: the stair of times, and what the last wave costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import pandas as pd
from rich.console import RenderableType

from profiler.findings.findings import Findings
from profiler.findings.kinds.waves import GOOD, RULE_BLOCKS_PER_SM, SteadyGrid
from profiler.findings.programs import Programs
from profiler.render.console.terminal import TextTable
from profiler.render.figures import styles
from profiler.render.figures.axes import (
    Axes,
    Handle,
    Scale,
    legend,
    limits,
    linear_ticks,
    outer_labels,
    panel_axes,
    places,
    whole_numbers,
)
from profiler.render.figures.charts import MOST_PANELS, Chart, make_chart
from profiler.render.figures.drawing import POINTS, Drawing, Mark, fitted
from profiler.render.kinds.versions import View, metric_parts
from profiler.render.tables.rows import Column, Datum, FrameRow, Row, SmallTable, text_column
from profiler.render.words import answer, numbers
from profiler.render.words.sentences import Sentence, sentence_of, strong

_PER_SM = f"{RULE_BLOCKS_PER_SM:g} blocks per SM"
_MOST_SENTENCES = 4


def waves_view(findings: Findings) -> View:
    """Times and tail efficiencies over waves, and what each variant needs."""
    table = wave_table(findings)
    return {
        "template": "waves.html",
        "heading": "Times by waves",
        "first": _efficiencies(table, findings.steady_grids),
        "wave_charts": _stairs(table),
        "wave_left_out": max(0, table["name"].nunique() - MOST_PANELS),
        "wave_good": numbers.share(GOOD),
        "wave_rule": _PER_SM,
        "wave_needs": need_table(findings),
        "wave_grids": _grid_table(table),
        **metric_parts(findings),
    }


def waves_answer(findings: Findings) -> tuple[Sentence, ...]:
    """Sentences on what each variant needs and on coverage; empty without an efficiency."""
    needs = findings.steady_grids[:_MOST_SENTENCES]
    sentences = tuple(_sentence(findings.programs, need) for need in needs)
    return (*sentences, answer.coverage_sentence(findings.programs)) if sentences else ()


def need_table(findings: Findings) -> SmallTable:
    """A row of each variant's needs."""
    columns: tuple[Column[SteadyGrid], ...] = (
        Column("waves needed", lambda need: _count_datum(need.waves)),
        Column("blocks per SM needed", lambda need: _count_datum(need.blocks_per_sm)),
        Column("measured up to waves", lambda need: _count_datum(need.largest_waves)),
        Column(f"grids of {_PER_SM} and more", lambda need: _count_datum(float(need.rule_grids))),
        Column("their least rate", lambda need: _percent(100 * need.rule_least)),
        Column("at waves", lambda need: _count_datum(need.rule_least_at)),
        text_column("the rule", lambda need: _RULE[need.rule_holds]),
    )
    return SmallTable.of(
        "What each variant needs",
        "variant",
        columns,
        findings.steady_grids,
        lambda need: Row(
            findings.programs.labels[need.variant], mark=findings.programs.marks[need.variant]
        ),
    )


_RULE = {None: "not measured", True: "holds", False: "does not hold"}


def wave_table(findings: Findings) -> pd.DataFrame:
    """Every grid with its variant's `name`, `role` and `mark`, as figures take it."""
    grids = pd.DataFrame(columns=["variant"]) if findings.waves is None else findings.waves
    roles = {variant.id: findings.ranking.role(variant) for variant in findings.programs.variants}
    return grids.assign(
        name=grids["variant"].map(findings.programs.labels),
        role=grids["variant"].map(roles),
        mark=grids["variant"].map(findings.programs.marks),
    )


def _shown_grids(table: pd.DataFrame) -> pd.DataFrame:
    """Grids of the variants that have a panel."""
    return table[table["name"].isin(list(table["name"].unique()[:MOST_PANELS]))]


def _stairs(table: pd.DataFrame) -> tuple[Chart, ...]:
    shown_table = _shown_grids(table)
    if shown_table.empty:
        return ()
    chart = make_chart(
        "wave-times",
        "Time by waves",
        "A step where one more block begins a new wave; dashed, the best rate of full waves.",
        stairs(shown_table),
    )
    return (chart,)


def _efficiencies(table: pd.DataFrame, needs: Sequence[SteadyGrid]) -> Chart | None:
    measured = _shown_grids(table)
    measured = measured[measured["efficiency"].notna()]
    if measured.empty:
        return None
    per_sm = bool(measured["blocks_per_sm"].notna().all())
    x, label = ("blocks_per_sm", "blocks per SM") if per_sm else ("waves", "waves")
    enough = {need.variant: getattr(need, x) for need in needs}
    return make_chart(
        "first",
        f"Tail efficiency by {label}",
        "Ideal time \u00f7 measured time; short of 100\u202f%, multiprocessors have no work in the "
        f"last wave. Shaded: enough, {100 * GOOD:.0f}\u202f% and more from there on.",
        efficiencies(measured.assign(enough=measured["variant"].map(enough)), x, label),
    )


def _grid_table(table: pd.DataFrame) -> SmallTable:
    columns: tuple[Column[FrameRow], ...] = (
        *(_plain_column(head, key) for head, key in _SIZES.items()),
        Column("time", lambda row: _time(row["time_ns"])),
        Column("ideal time", lambda row: _time(row["ideal_ns"])),
        Column("tail efficiency", lambda row: _percent(100 * row["efficiency"])),
        Column("achieved occupancy", lambda row: _percent(row["occupancy"])),
    )
    return SmallTable.of(
        "Every grid with its time and its tail efficiency",
        "variant",
        columns,
        table.sort_values(["mark", "waves"], kind="stable").to_dict("records"),
        lambda row: Row(row["name"], mark=row["mark"]),
    )


_SIZES = {"waves": "waves", "blocks": "blocks", "blocks per SM": "blocks_per_sm"}


def _plain_column(head: str, key: str) -> Column[FrameRow]:
    return Column(head, lambda row: _count_datum(row[key]))


def _sentence(programs: Programs, steady: SteadyGrid) -> Sentence:
    name = strong(programs.labels[steady.variant])
    least = numbers.share(GOOD)
    if math.isnan(steady.waves):
        text = f": no grid up to {steady.largest_waves:.4g} waves from which on all keep at least "
        text += f"{least} of the rate of full waves."
    else:
        per_sm = (
            ""
            if math.isnan(steady.blocks_per_sm)
            else f" ({steady.blocks_per_sm:.4g} blocks per SM)"
        )
        text = f" keeps at least {least} of the rate of full waves from {steady.waves:.4g} waves"
        text += f"{per_sm} on, as far as was measured ({steady.largest_waves:.4g} waves)."
    return sentence_of(f"{name}{text}{_rule_words(steady)}")


def _rule_words(steady: SteadyGrid) -> str:
    if steady.rule_holds is None:
        return ""
    verb = "are enough" if steady.rule_holds else "are not always enough"
    share = numbers.share(steady.rule_least)
    return f" At least {_PER_SM} {verb}: the least is {share}, at {steady.rule_least_at:.4g} waves."


def _count_datum(value: float) -> Datum:
    shown = ".0f" if value.is_integer() else ".4g"
    return Datum.number(value, lambda count: format(count, shown), "not known")


def _time(value: float) -> Datum:
    return Datum.quantity(value, "ns", "no grid of full waves was measured")


def _percent(value: float) -> Datum:
    return Datum.quantity(value, "%", "not known")


# ---- figures; a panel for each variant -----------------------------------------------------------


_PANELS_IN = 3.4
"""Height of all rows of panels together, as a first screen has room for."""
_SHADE = 0.12
_DOT = styles.circle(1.75)
_IDEAL = styles.dashed(styles.MUTED, 1.5)


def stairs(table: pd.DataFrame) -> Drawing:
    """Measured time over waves, and the ideal that full waves give.

    Columns `name role mark waves time_ns ideal_ns`; only `ideal_ns` may be missing.
    """
    panels = dict(list(table.groupby("name", sort=False)))
    drawing, grid = panel_axes(len(panels), _PANELS_IN)
    divisor, unit = numbers.scale(float(table["time_ns"].max()), "ns")
    for index, (axes, (name, rows)) in enumerate(zip(grid, panels.items(), strict=True)):
        ordered = rows.sort_values("waves", kind="stable")
        measured, ideal = (ordered[column] / divisor for column in ("time_ns", "ideal_ns"))
        labels = outer_labels(index, len(panels), "waves", f"time ({unit})")
        top = limits([*measured, *ideal.dropna()])[1]
        scales = _panel_scales(axes, str(name), ordered["waves"], top, labels)
        _draw_grids(axes, ordered, places(ordered["waves"], measured, scales))
        drawing.path(places(ordered["waves"], ideal, scales), _IDEAL)
        axes.spines()
    _draw_legend(drawing, "measured", "ideal: blocks at the rate of full waves")
    return drawing


def efficiencies(table: pd.DataFrame, x: str, x_label: str) -> Drawing:
    """Tail efficiency over one column of the table, with a line where it is good.

    Columns `name role mark efficiency` and that of `x`, none of them missing; `enough`: where of
    `x` it stays good from on, which is shaded, or NaN.
    """
    panels = dict(list(table.groupby("name", sort=False)))
    drawing, grid = panel_axes(len(panels), _PANELS_IN)
    for index, (axes, (name, rows)) in enumerate(zip(grid, panels.items(), strict=True)):
        ordered = rows.sort_values(x, kind="stable")
        labels = outer_labels(index, len(panels), x_label, "tail efficiency (%)")
        top = max(105.0, 100 * float(ordered["efficiency"].max()) + 5)
        scales = _panel_scales(axes, str(name), ordered[x], top, labels)
        enough = float(ordered["enough"].iloc[0])
        if math.isfinite(enough):
            corner = (scales[0].at(enough), axes.top)
            drawing.rectangle(corner, (axes.right, axes.bottom), styles.fill(styles.BEST, _SHADE))
            at = (corner[0] + 4, axes.bottom - 6)
            drawing.text(f"from {enough:.4g}", at, styles.text("start"))
        axes.level(scales[1].at(100 * GOOD), styles.dashed(styles.MUTED, 1.4))
        _draw_grids(axes, ordered, places(ordered[x], 100 * ordered["efficiency"], scales))
        axes.spines()
    _draw_legend(drawing, "ideal time \u00f7 measured time", f"{100 * GOOD:.0f}\u202f%")
    return drawing


def _panel_scales(
    axes: Axes, name: str, xs: Iterable[float], top: float, labels: tuple[str, str]
) -> tuple[Scale, Scale]:
    """Scales of a panel from 0 on, with its grid and title."""
    across = axes.across((0.0, limits([*xs])[1]))
    upwards = axes.upwards((0.0, top))
    axes.grid_across(across, linear_ticks(across, whole_numbers(8)), labels[0])
    axes.grid_upwards(upwards, linear_ticks(upwards), labels[1])
    axes.title(fitted(name, (axes.right - axes.left) / POINTS))
    return across, upwards


def _draw_grids(axes: Axes, rows: pd.DataFrame, points: list[tuple[float, float]]) -> None:
    looks = rows[["role", "mark"]].itertuples(index=False)
    marks = [Mark("", math.nan, role=role, variant=number) for role, number in looks]
    axes.drawing.path(points, styles.line(marks[0].colour, 1.2))
    axes.drawing.dots(_DOT, points, marks)


def _draw_legend(drawing: Drawing, measured: str, ideal: str) -> None:
    symbol = (styles.circle(2.0), styles.INK)
    legend(
        drawing,
        [
            Handle(measured, styles.line(styles.INK, 1.5), symbol),
            Handle(ideal, _IDEAL),
        ],
    )


# ---- the terminal --------------------------------------------------------------------------------


def waves_tables(findings: Findings) -> list[RenderableType]:
    """Tables of the waves and blocks that variants need: the question is not about a winner."""
    rich_table = TextTable("How many blocks fill the GPU")
    rich_table.add_columns("variant", name=True)
    table = need_table(findings)
    for column in table.columns:
        rich_table.add_columns(column.head, right=not column.is_text)
    for row in table.lines:
        rich_table.add_row(row.name, *(datum.text for datum in row.data))
    return [rich_table]
