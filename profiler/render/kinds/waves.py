"""The page of grids that are counted in waves: the stair of times, and what the last wave costs."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from profiler.analyse.waves import GOOD, RULE_BLOCKS_PER_SM, Steady, steady, tail_efficiency
from profiler.findings.lookup import Lookup
from profiler.findings.roles import Ranking
from profiler.findings.values import NAN
from profiler.model import Cell
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

_COLUMNS = (
    *("variant", "name", "mark", "waves", "blocks", "blocks_per_sm", "time_ns"),
    "occupancy",
)


def waves_view(ranking: Ranking) -> View:
    """Times and tail efficiencies over waves, and what each variant needs."""
    lookup = ranking.lookup
    table = tail_efficiency(wave_table(lookup))
    parts: dict[str, Any] = {
        "wave_charts": _charts(table),
        "wave_left_out": max(0, table["name"].nunique() - MOST_PANELS),
        "wave_good": numbers.show(100 * GOOD, "%"),
        "wave_rule": _PER_SM,
        "wave_needs": need_rows(lookup, table),
        "wave_need_heads": NEED_HEADS,
        "wave_grids": _grid_rows(table),
        "wave_grid_heads": GRID_HEADS,
        **metric_parts(ranking),
    }
    if said := waves_sentences(ranking, table):
        parts["sentences"] = said
    return View("waves.html", "Times by waves", parts)


def waves_sentences(ranking: Ranking, table: pd.DataFrame) -> tuple[Sentence, ...]:
    """What each variant needs and how many cells were measured; empty without an efficiency.

    `table`: as `tail_efficiency` gives it.
    """
    needs = steady(table)[:_MOST_SENTENCES]
    said = tuple(_sentence(ranking.lookup, one) for one in needs)
    return (*said, answer.sentences(ranking)[-1]) if said else ()


def need_rows(lookup: Lookup, table: pd.DataFrame) -> tuple[Row, ...]:
    """What each variant needs, in the columns of `NEED_HEADS`."""
    return tuple(_need_row(lookup, one) for one in steady(table))


def wave_table(lookup: Lookup) -> pd.DataFrame:
    """One row per correct and measured cell whose waves are known.

    Columns `variant name mark waves blocks blocks_per_sm time_ns occupancy`. `waves` are those that
    ncu gives, else the problem's own parameter of this name. Without grid sizes, `blocks` are the
    waves: within a variant these are in proportion.
    """
    found = [_wave_row(lookup, cell) for cell in lookup.report.plan.cells if lookup.correct(cell)]
    table = pd.DataFrame(found, columns=list(_COLUMNS))
    table = table[table["waves"].notna() & table["time_ns"].notna()].reset_index(drop=True)
    if table["blocks"].isna().any():
        table["blocks"] = table["waves"]
    return table


def _wave_row(lookup: Lookup, cell: Cell) -> tuple[Any, ...]:
    def median(metric: str) -> float:
        return lookup.value(cell, metric).median

    waves, blocks = median("waves"), median("grid_size")
    if math.isnan(waves):
        asked = cell.problem.params.get("waves")
        waves = float(asked) if isinstance(asked, int | float) else NAN
    count = lookup.report.environment.sm_count
    return (
        cell.variant.id,
        cell.variant.name,
        lookup.marks[cell.variant.id],
        waves,
        blocks,
        blocks / count if count else NAN,
        median("duration_ns"),
        median("achieved_occupancy_pct"),
    )


def _charts(table: pd.DataFrame) -> tuple[Chart, ...]:
    shown = table[table["name"].isin(list(table["name"].unique()[:MOST_PANELS]))]
    if shown.empty:
        return ()
    charts = [
        make_chart(
            "wave-stairs",
            "Time by waves",
            "A step where a block more begins a new wave. The dashed line is what the blocks would "
            "take at the best rate of full waves.",
            waves_figures.stairs(shown),
        )
    ]
    known = shown[shown["efficiency"].notna()]
    if len(known):
        per_sm = bool(known["blocks_per_sm"].notna().all())
        x, words = ("blocks_per_sm", "blocks per SM") if per_sm else ("waves", "waves")
        charts.append(
            make_chart(
                "wave-efficiency",
                f"Tail efficiency by {words}",
                "Ideal time \u00f7 measured time. What it is short of 100\u202f% is lost while the "
                "last wave leaves multiprocessors without work.",
                waves_figures.efficiencies(known, x, words, GOOD),
            )
        )
    return tuple(charts)


def _need_row(lookup: Lookup, one: Steady) -> Row:
    rule = {None: "not measured", True: "holds", False: "does not hold"}[one.rule_holds]
    data = (
        *map(_plain, (one.waves, one.blocks_per_sm, one.largest_waves)),
        Datum(str(one.rule_grids), str(one.rule_grids)),
        _percent(100 * one.rule_least),
        _plain(one.rule_least_at),
        Datum(rule, css="words"),
    )
    return Row(_name(lookup, one.variant), lookup.marks[one.variant], "other", data)


def _grid_rows(table: pd.DataFrame) -> tuple[Row, ...]:
    ordered = table.sort_values(["mark", "waves"], kind="stable")
    return tuple(
        Row(
            row["name"],
            row["mark"],
            "other",
            (
                *map(_plain, (row["waves"], row["blocks"], row["blocks_per_sm"])),
                _time(row["time_ns"]),
                _time(row["ideal_ns"]),
                _percent(100 * row["efficiency"]),
                _percent(row["occupancy"]),
            ),
        )
        for row in ordered.to_dict("records")
    )


def _sentence(lookup: Lookup, one: Steady) -> Sentence:
    name = Part(_name(lookup, one.variant), strong=True)
    least = numbers.show(100 * GOOD, "%")
    if math.isnan(one.waves):
        said = f": no grid up to {one.largest_waves:.4g} waves from which on all keep at least "
        said += f"{least} of the rate of full waves."
    else:
        each = "" if math.isnan(one.blocks_per_sm) else f" ({one.blocks_per_sm:.4g} blocks per SM)"
        said = (
            f" keeps at least {least} of the rate of full waves from {one.waves:.4g} waves{each} "
        )
        said += f"on, as far as was measured ({one.largest_waves:.4g} waves)."
    return (name, Part(said), Part(_rule_words(one)))


def _rule_words(one: Steady) -> str:
    if one.rule_holds is None:
        return ""
    verb = "are enough" if one.rule_holds else "are not always enough"
    share = numbers.show(100 * one.rule_least, "%")
    return f" At least {_PER_SM} {verb}: the least is {share}, at {one.rule_least_at:.4g} waves."


def _name(lookup: Lookup, variant: str) -> str:
    return next(one.name for one in lookup.variants if one.id == variant)


def _plain(value: float) -> Datum:
    if math.isnan(value):
        return Datum(title="not known", css="none")
    shown = f"{value:.0f}" if value.is_integer() else f"{value:.4g}"
    return Datum(shown, numbers.raw(value))


def _time(value: float) -> Datum:
    return Datum.quantity(value, "ns", "no grid of full waves was measured")


def _percent(value: float) -> Datum:
    return Datum.quantity(value, "%", "not known")
