"""The page of grids that are counted in waves: the stair of times, and what the last wave costs."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from profiler.findings.findings import Findings, Programs
from profiler.findings.kinds.waves import GOOD, RULE_BLOCKS_PER_SM, Steady
from profiler.render.figures import waves_figures
from profiler.render.figures.charts import MOST_PANELS, Chart, make_chart
from profiler.render.kinds.versions import View, metric_parts
from profiler.render.tables.rows import Datum, Row
from profiler.render.words import answer, numbers
from profiler.render.words.answer import Part, Sentence

GRID_HEADS = (
    *("waves", "blocks", "blocks per SM", "time", "ideal time", "tail efficiency"),
    "achieved occupancy",
)
NEED_HEADS = (
    *("good from, waves", "good from, blocks per SM", "up to, waves"),
    *("grids of the rule", "their least", "at, waves", "the rule"),
)
_PER_SM = f"{RULE_BLOCKS_PER_SM:g} blocks per SM"
_MOST_SENTENCES = 4


def waves_view(findings: Findings) -> View:
    """Times and tail efficiencies over waves, and what each variant needs."""
    table = wave_table(findings)
    parts: dict[str, Any] = {
        "wave_charts": _efficiencies(table),
        "wave_left_out": max(0, table["name"].nunique() - MOST_PANELS),
        "wave_good": numbers.show(100 * GOOD, "%"),
        "wave_rule": _PER_SM,
        "wave_needs": need_rows(findings),
        "wave_need_heads": NEED_HEADS,
        "wave_grids": _grid_rows(table),
        "wave_grid_heads": GRID_HEADS,
        **metric_parts(findings),
    }
    return View("waves.html", "Times by waves", parts, first=_stairs(table))


def waves_answer(findings: Findings) -> tuple[Sentence, ...]:
    """Sentences on what each variant needs and on coverage; empty without an efficiency."""
    needs = findings.kind.waves.needs[:_MOST_SENTENCES] if findings.kind.waves else ()
    sentences = tuple(_sentence(findings.programs, need) for need in needs)
    return (*sentences, answer.coverage_sentence(findings.programs)) if sentences else ()


def need_rows(findings: Findings) -> tuple[Row, ...]:
    """Row of each variant's needs, in the columns of `NEED_HEADS`."""
    needs = findings.kind.waves.needs if findings.kind.waves else ()
    return tuple(_need_row(findings.programs, need) for need in needs)


def wave_table(findings: Findings) -> pd.DataFrame:
    """Every grid with its variant's `name`, `role` and `mark`, as figures take it."""
    grids = findings.kind.waves.grids if findings.kind.waves else pd.DataFrame(columns=["variant"])
    names = {variant.id: variant.label for variant in findings.programs.variants}
    roles = {variant.id: findings.ranking.role(variant) for variant in findings.programs.variants}
    return grids.assign(
        name=grids["variant"].map(names),
        role=grids["variant"].map(roles),
        mark=grids["variant"].map(findings.programs.marks),
    )


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    """Grids of the variants that have a panel."""
    return table[table["name"].isin(list(table["name"].unique()[:MOST_PANELS]))]


def _stairs(table: pd.DataFrame) -> Chart | None:
    shown = _shown(table)
    if shown.empty:
        return None
    return make_chart(
        "first",
        "Time by waves",
        "A step where one more block begins a new wave; dashed, the best rate of full waves.",
        waves_figures.stairs(shown),
    )


def _efficiencies(table: pd.DataFrame) -> tuple[Chart, ...]:
    measured = _shown(table)
    measured = measured[measured["efficiency"].notna()]
    if measured.empty:
        return ()
    per_sm = bool(measured["blocks_per_sm"].notna().all())
    x, label = ("blocks_per_sm", "blocks per SM") if per_sm else ("waves", "waves")
    chart = make_chart(
        "wave-efficiency",
        f"Tail efficiency by {label}",
        "Ideal time \u00f7 measured time. What it is short of 100\u202f% is lost while the last "
        "wave leaves multiprocessors without work.",
        waves_figures.efficiencies(measured, x, label, GOOD),
    )
    return (chart,)


def _need_row(programs: Programs, steady: Steady) -> Row:
    rule = {None: "not measured", True: "holds", False: "does not hold"}[steady.rule_holds]
    data = (
        *map(_plain, (steady.waves, steady.blocks_per_sm, steady.largest_waves)),
        Datum(str(steady.rule_grids), str(steady.rule_grids)),
        _percent(100 * steady.rule_least),
        _plain(steady.rule_least_at),
        Datum(rule, css="words"),
    )
    return Row(_name(programs, steady.variant), data, programs.marks[steady.variant])


def _grid_rows(table: pd.DataFrame) -> tuple[Row, ...]:
    ordered = table.sort_values(["mark", "waves"], kind="stable")
    return tuple(
        Row(
            row["name"],
            (
                *map(_plain, (row["waves"], row["blocks"], row["blocks_per_sm"])),
                _time(row["time_ns"]),
                _time(row["ideal_ns"]),
                _percent(100 * row["efficiency"]),
                _percent(row["occupancy"]),
            ),
            row["mark"],
        )
        for row in ordered.to_dict("records")
    )


def _sentence(programs: Programs, steady: Steady) -> Sentence:
    name = Part(_name(programs, steady.variant), strong=True)
    least = numbers.show(100 * GOOD, "%")
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
    return (name, Part(text), Part(_rule_words(steady)))


def _rule_words(steady: Steady) -> str:
    if steady.rule_holds is None:
        return ""
    verb = "are enough" if steady.rule_holds else "are not always enough"
    share = numbers.show(100 * steady.rule_least, "%")
    return f" At least {_PER_SM} {verb}: the least is {share}, at {steady.rule_least_at:.4g} waves."


def _name(programs: Programs, variant_id: str) -> str:
    return next(variant.label for variant in programs.variants if variant.id == variant_id)


def _plain(value: float) -> Datum:
    if math.isnan(value):
        return Datum(title="not known", css="none")
    shown = f"{value:.0f}" if value.is_integer() else f"{value:.4g}"
    return Datum(shown, numbers.raw(value))


def _time(value: float) -> Datum:
    return Datum.quantity(value, "ns", "no grid of full waves was measured")


def _percent(value: float) -> Datum:
    return Datum.quantity(value, "%", "not known")
