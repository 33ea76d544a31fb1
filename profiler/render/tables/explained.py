"""The explained pairs of a page: accounts as bars, limits, source lines, causes, ncu's rules."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from markupsafe import Markup

from profiler.findings.findings import Findings
from profiler.findings.why.cells import CellWhy, KernelWhy
from profiler.findings.why.counters import CounterComparison
from profiler.findings.why.find import RunWhy, find_why
from profiler.findings.why.hot_lines import HotLine, file_name, stall_columns
from profiler.findings.why.pairs import Account, PairWhy
from profiler.render.embed import pack
from profiler.render.figures import styles
from profiler.render.figures.axes import (
    Axes,
    Handle,
    Scale,
    Ticks,
    at_most,
    legend,
    linear_ticks,
    places,
    sheet,
)
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.figures.drawing import WIDTH_IN, Drawing, Point
from profiler.render.tables.rows import Datum, Row, raw_or_none
from profiler.render.words import numbers
from profiler.render.words import why as why_words
from profiler.render.words.counters import NAMES, counter_words, group_words
from profiler.render.words.names import plain_kernel
from profiler.render.words.why import waited_for

MOST_PAIRS = 24
_CUT = 0.8
"""Part of the longer duration that the bars reach down to, from which on they begin above 0."""
_WHOLE = "whole"
_MOST_WAITS = 5
_MOST_CAUSES = 6
_MOST_ADVICE = 5
_MOST_CLASSES = 10
_LEAST_SHOWN_PCT = 5.0
"""Pipes that never reach more of their peak are not drawn."""


def explained(findings: Findings) -> dict[str, Any] | None:
    """The pairs and cells that an explain session counted; None without any.

    Also every instruction of every kernel, packed, and what the times of causes are.
    """
    why = find_why(findings)
    if not why.cells:
        return None
    names = {
        cell.id: f"{cell.variant.label}, {cell.problem.name}" for cell in findings.programs.cells
    }
    return {
        "pairs": list(map(_pair, why.pairs[:MOST_PAIRS])),
        "trees": [
            _tree(names[cell], cell, of_cell, number)
            for number, (cell, of_cell) in enumerate(why.cells.items())
        ],
        "listings": packed_listings(why, names),
        "estimated": why_words.ESTIMATED,
    }


def _pair(pair: PairWhy) -> dict[str, Any]:
    """Tables on a pair: its account, and causes, counters and classes of instructions in both."""
    names = (pair.cell.variant.label, pair.against.variant.label)
    note = pair.cell.variant.remark
    says_more = note and note not in names[0]
    return {
        "cells": (pair.cell.id, pair.against.id),
        "title": f"{names[0]} against {names[1]}, {pair.cell.problem.name}"
        + (f": {note}" if says_more else ""),
        "sentence": why_words.why_sentence(pair),
        "names": names,
        "account": None if pair.account is None else _account(pair, pair.account),
        "causes": [
            Row(cause, tuple(map(_cost, amounts)))
            for cause, amounts in why_words.cause_rows_of_pair(pair)[:_MOST_CAUSES]
        ],
        "classes": _classes(pair),
        "counters": list(map(_counter_row, pair.counters)),
    }


def _account(pair: PairWhy, account: Account) -> dict[str, Any]:
    """A waterfall from the second duration to the first, and the times that its bars reach.

    The largest parts, and one row for all others. Bars begin at 0 unless the parts are small. The
    class of a bar: `adds` where it makes the first slower, `whole` of a duration.
    """
    parts = {
        "kernels": " ".join(why_words.account_remarks(pair, account)),
        "slower": why_words.slower_name(pair, account),
        "total": numbers.signed_time(account.difference_ns),
    }
    if not account.parts:
        return parts | {"rows": ()}
    named_parts = why_words.account_rows(account)
    end = pair.first.duration_ns
    levels = list(accumulate((ns for _, ns in named_parts), initial=end - account.difference_ns))
    lowest, highest = min(*levels, end), max(*levels, end)
    is_cut = _CUT * highest <= lowest < highest
    origin = lowest - (highest - lowest) / 4 if is_cut else min(0.0, lowest)

    def row(part_text: str, ns: float, begin: float, css: str) -> dict[str, Any]:
        low, high = sorted((begin, begin + ns))
        low, scale = max(low, origin), 100 / (highest - origin)
        time = numbers.show(ns, "ns") if css == _WHOLE else numbers.signed_time(ns)
        percent = why_words.share_of_slower(ns, account)
        share = numbers.show(percent, "%") if css == _WHOLE else why_words.signed_share(ns, account)
        return {
            "words": part_text,
            "time": Datum(time, numbers.raw(ns)),
            "share": Datum(share, numbers.raw(percent)),
            "begin_pct": scale * (low - origin),
            "width_pct": scale * (high - low),
            "css": css,
        }

    rows = (
        row(pair.against.variant.label, levels[0], 0.0, _WHOLE),
        *(
            row(part_text, ns, level, "adds" if ns > 0 else "")
            for (part_text, ns), level in zip(named_parts, levels, strict=False)
        ),
        row(pair.cell.variant.label, end, 0.0, _WHOLE),
    )
    lower_end = numbers.show(origin, "ns") if origin else 0
    return parts | {"rows": rows, "ends": f"{lower_end} to {numbers.show(highest, 'ns')}"}


def _cost(amount: why_words.Amount) -> Datum:
    """Amount of a cause; a cause that was not found has no number."""
    return Datum(why_words.amount_words(amount), numbers.raw(amount[0]) if amount[0] else None)


def _classes(pair: PairWhy) -> tuple[Row, ...]:
    """Executed instructions by class, those that differ most first."""
    classes = pair.classes
    if classes.empty or not pair.shows_difference:
        return ()
    moved = (classes["first"] - classes["second"]).abs().sort_values(ascending=False)
    return tuple(
        Row(
            why_words.CLASSES[str(name)],
            tuple(
                Datum.quantity(float(classes.loc[name, side]), "", "not counted")
                for side in ("first", "second")
            ),
        )
        for name in moved.index[:_MOST_CLASSES]
    )


def _causes(why: CellWhy) -> tuple[Row, ...]:
    """Amount of each cause with its counters as a note; tied ones in one row."""
    amounts = [
        (cause, why_words.cause_amount(cause.name, ns, cause.share)) for cause, ns in why.costs
    ]
    notes: dict[str, dict[str, None]] = {}
    for cause, amount in amounts:
        notes.setdefault(why_words.amount_words(amount), {}).update(
            dict.fromkeys(
                f"{evidence_name} {numbers.show(evidence.value, evidence.unit)} ({evidence.metric})"
                for evidence_name, evidence in cause.evidence.items()
            )
        )
    return tuple(
        Row(cause_text, (_cost(amount),), note="; ".join(notes[why_words.amount_words(amount)]))
        for cause_text, (amount,) in why_words.cause_rows_of_cell(why)
    )


def _tree(name: str, cell: str, why: CellWhy, number: int) -> dict[str, Any]:
    """Limit of one cell, as tables, and what was sampled inside its longest kernel."""
    kernel = why.kernels[0]
    return {
        "name": name,
        "cell": cell,
        "limit": why_words.limit_of_cell(why),
        "roofs": _roofs(kernel),
        "waits": [
            Row(why_words.waited_for(reason), (_percent(share),))
            for reason, share in islice(kernel.waits.items(), _MOST_WAITS)
        ],
        "lines": list(map(_line, kernel.lines)),
        "no_lines": why_words.no_lines_words(kernel),
        "causes": _causes(why)[:_MOST_CAUSES],
        "advice": [
            Row(
                f"{advice.rule}: {advice.text}",
                (
                    Datum.quantity(advice.speedup_pct, "%", "ncu gives no estimate"),
                    Datum(advice.speedup_type or numbers.MISSING),
                ),
            )
            for advice in kernel.advice[:_MOST_ADVICE]
        ],
        "inside": _inside(name, number, kernel),
        "no_inside": why_words.no_inside_words(kernel),
    }


def _roofs(kernel: KernelWhy) -> list[Row]:
    """Amount, rate, ceiling, share, share at the highest clock, share of the practical roof."""
    return [
        Row(
            why_words.roof_words(roof.name),
            (
                Datum.quantity(roof.amount, roof.unit, "not counted"),
                Datum.quantity(roof.rate, f"{roof.unit}/s", "not counted"),
                Datum.quantity(roof.ceiling, f"{roof.unit}/s", "not counted"),
                _percent(roof.share),
                Datum.quantity(100 * roof.nominal_share, "%", "not a clock of the SMs"),
                Datum.quantity(100 * roof.practical_share, "%", "not measured"),
            ),
            note=f"Practical roof: what {why_words.plain_kernel_words(roof.name)} reached in the "
            "same run.",
        )
        for roof in kernel.roofs
    ]


def _line(line: HotLine) -> Row:
    place, wait = Datum(line.place or "SASS"), Datum(why_words.wait_words(line) or numbers.MISSING)
    return Row(line.text, (place, _percent(line.share), wait))


def _inside(name: str, number: int, kernel: KernelWhy) -> Chart | None:
    """Figure of what was sampled inside a kernel; `number`: of the cell among those explained."""
    inside = kernel.inside
    if inside is None:
        return None
    pipe_names = {
        pipe_name: inside.samples[sampled]
        for sampled, pipe_name in why_words.PIPES.items()
        if sampled in inside.samples and inside.samples[sampled].max() >= _LEAST_SHOWN_PCT
    }
    drawing = inside_figure(
        inside.times_ns / 1e3,
        100 * inside.busy,
        pipe_names,
        inside.clocks_ghz,
        (inside.ramp_ns / 1e3, inside.tail_ns / 1e3, inside.duration_ns / 1e3),
    )
    return make_chart(f"inside-{number}", f"Inside {name}", why_words.inside_words(kernel), drawing)


def _percent(share: float) -> Datum:
    return Datum.quantity(100 * share, "%", "not counted")


def _counter_row(counter: CounterComparison) -> Row:
    """Amount in both cells, first ÷ second, part of the account."""
    amounts = (
        Datum(counter_words(counter, amount), raw_or_none(amount.value))
        for amount in (counter.first, counter.second)
    )
    data = (*amounts, _counter_ratio(counter), Datum(group_words(counter)))
    return Row(NAMES[counter.name], data)


def _counter_ratio(counter: CounterComparison) -> Datum:
    """First ÷ second; words where only one of them has any."""
    if counter.first.text:
        return Datum(title="no numbers", css="none")
    if not counter.first.value or not counter.second.value:
        return Datum(f"only the {'second' if counter.second.value else 'first'}", None)
    return Datum(numbers.change(counter.ratio), numbers.raw(counter.ratio))


# ---- figure of what was sampled inside a launch: busy SMs, pipes and memory above, the clock below


_LEFT_IN, _RIGHT_IN = 0.9, 0.2
_SHARES_IN, _CLOCK_IN = (0.45, 2.75), (3.0, 4.0)
"""Top and bottom of both panels."""
_HEIGHT_IN = 4.55
_TIME_TITLE = "µs since the launch began"
_ENDS = 0.12
"""Opacity of ramp and tail."""
_CLOCK_ROOM = 0.05
_LABELLED = 0.06
"""Part of the time from which on there is room for the word at an end."""

Floats = npt.NDArray[np.float64]


def inside_figure(
    times_us: Floats,
    busy_pct: Floats,
    lines: Mapping[str, Floats],
    clocks_ghz: Floats,
    ends_us: tuple[float, float, float],
) -> Drawing:
    """Shares of the peak by their names, and the clock, over time; `ends_us`: ramp, tail, whole.

    NaN is a gap. At most as many lines as the palette has series. Where no sample tells the clock,
    it has no panel.
    """
    has_clock = bool(np.isfinite(clocks_ghz).any())
    drawing = sheet(_HEIGHT_IN if has_clock else _HEIGHT_IN - (_CLOCK_IN[1] - _SHARES_IN[1]))
    shares = _panel(drawing, _SHARES_IN)
    across = shares.across((0.0, ends_us[2]))
    upwards = shares.upwards((0.0, 100.0))
    _shade_ends(shares, across, ends_us)
    ticks = linear_ticks(across)
    if has_clock:
        shares.grid_across(across, Ticks(ticks.values, [""] * len(ticks.values)))
    else:
        shares.grid_across(across, ticks, _TIME_TITLE)
    shares.grid_upwards(upwards, linear_ticks(upwards, at_most(5)), "% of the peak")
    handles = []
    colours = (styles.INK, *styles.SERIES)
    shown_lines = {"SMs with a warp": busy_pct, **lines}
    for (name, values), colour in zip(shown_lines.items(), colours, strict=False):
        _draw(shares, _points(times_us, values, (across, upwards)), colour)
        handles.append(Handle(name, styles.line(colour, 1.8)))
    shares.spines()
    if has_clock:
        _draw_clock(drawing, times_us, clocks_ghz, ends_us)
    legend(drawing, handles)
    return drawing


def _draw_clock(
    drawing: Drawing, times_us: Floats, clocks_ghz: Floats, ends_us: tuple[float, float, float]
) -> None:
    clock = _panel(drawing, _CLOCK_IN)
    across = clock.across((0.0, ends_us[2]))
    lowest, highest = float(np.nanmin(clocks_ghz)), float(np.nanmax(clocks_ghz))
    room = _CLOCK_ROOM * highest
    upwards = clock.upwards((lowest - room, highest + room))
    _shade_ends(clock, across, ends_us, has_text=False)
    clock.grid_across(across, linear_ticks(across), _TIME_TITLE)
    clock.grid_upwards(upwards, linear_ticks(upwards, at_most(4)), "SM clock, GHz")
    _draw(clock, _points(times_us, clocks_ghz, (across, upwards)), styles.INK)
    clock.spines()


def _panel(drawing: Drawing, edges_in: tuple[float, float]) -> Axes:
    top, bottom = edges_in
    return Axes.in_inches(drawing, _LEFT_IN, top, WIDTH_IN - _RIGHT_IN, bottom)


def _shade_ends(
    axes: Axes, across: Scale, ends_us: tuple[float, float, float], *, has_text: bool = True
) -> None:
    """Ramp and tail as areas, with their names where there is room."""
    ramp, tail, end_of_launch = ends_us
    for name, begin, end in (("ramp", 0.0, ramp), ("tail", end_of_launch - tail, end_of_launch)):
        left, right = across.at(begin), across.at(end)
        corners = (left, axes.top), (right, axes.bottom)
        axes.drawing.rectangle(*corners, styles.fill(styles.BASELINE, _ENDS))
        if has_text and end - begin >= _LABELLED * end_of_launch:
            at = ((left + right) / 2, axes.top + 12)
            axes.drawing.text(name, at, styles.text("middle", colour=styles.MUTED))


def _points(times: Floats, values: Floats, scales: tuple[Scale, Scale]) -> list[list[Point]]:
    """Places of the values in parts, which end where one is missing."""
    finite_places = np.flatnonzero(np.isfinite(values))
    parts = np.split(finite_places, np.flatnonzero(np.diff(finite_places) > 1) + 1)
    # The first sample begins before the launch does, and the last may end after it.
    inside = np.clip(times, scales[0].low, scales[0].high)
    return [places(inside[part], values[part], scales) for part in parts if len(part)]


def _draw(axes: Axes, parts: Sequence[list[Point]], colour: str) -> None:
    for points in parts:
        axes.drawing.path(points, styles.line(colour, 1.3, "stroke-linejoin: round"))


# ---- every instruction of the explained kernels, packed for the page's script --------------------


_MOST_ROWS = 20_000
"""Instructions of a page: about 10 bytes each. The pairs of the answer come first."""


def packed_listings(why: RunWhy, names: Mapping[str, str]) -> Markup:
    """Listings and which of them stand beside each other: JSON, deflated, in base64; or empty.

    `names`: of cells, by their ids. Pairs are [title, first, second, runs], with the numbers of
    their listings; a run is [position in the second, in the first, length] of the same
    instructions. Of a cell with several kernels each stands alone, without a second. What has
    no room is left out.
    """
    listings: list[dict[str, Any]] = []
    places: dict[str, list[int]] = {}
    pairs: list[list[Any]] = []
    for pair in why.pairs:
        sides = ((pair.cell.id, pair.first), (pair.against.id, pair.second))
        for cell, of_cell in sides:
            kernels = [kernel for kernel in of_cell.kernels if kernel.profile.listing]
            if cell not in places and _fits(listings, kernels):
                places[cell] = list(range(len(listings), len(listings) + len(kernels)))
                listings += [_listing(kernel, names[cell], len(kernels)) for kernel in kernels]
        common_instructions = (
            pair.common_instructions if all(cell in places for cell, _ in sides) else None
        )
        if common_instructions is not None:
            pairs.append(
                [
                    f"{names[pair.cell.id]} against {pair.against.variant.label}",
                    *places[pair.cell.id],
                    *places[pair.against.id],
                    list(_runs(common_instructions)),
                ]
            )
    paired = {number for _, *both_numbers, _ in pairs for number in both_numbers}
    alone = [number for number in range(len(listings)) if number not in paired]
    pairs += [[listings[number]["name"], number, None, []] for number in alone]
    return pack({"listings": listings, "pairs": pairs}) if pairs else Markup("")


def _fits(listings: Sequence[Mapping[str, Any]], kernels: Sequence[KernelWhy]) -> bool:
    """Whether a page has room for these beside the others; always for the first ones."""
    rows = [
        len(kernel.profile.listing.instructions) for kernel in kernels if kernel.profile.listing
    ]
    return (
        not listings or sum(len(listing["sass"]) for listing in listings) + sum(rows) <= _MOST_ROWS
    )


def _runs(pairs: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
    """Pairs of positions as runs in which both grow by one."""
    for _, run in itertools.groupby(enumerate(pairs), lambda item: _shifts(*item)):
        positions = [pair for _, pair in run]
        yield [*positions[0], len(positions)]


def _shifts(place: int, pair: tuple[int, int]) -> tuple[int, int]:
    return pair[0] - place, pair[1] - place


def _listing(kernel: KernelWhy, name: str, kernels: int) -> dict[str, Any]:
    """Columns of a listing by instruction."""
    code = kernel.profile.instructions_by_wait
    assert code is not None  # noqa: S101 - only kernels with a listing are asked for
    has_line = code["line"].notna()
    places = [
        f"{file_name(str(file))}:{line}" if with_line else ""
        for file, line, with_line in zip(code["file"], code["line"], has_line, strict=True)
    ]
    return {
        "name": name if kernels == 1 else f"{name}: {plain_kernel(kernel.profile.name)}",
        "sass": [str(text).strip() for text in code["sass"]],
        "samples": _counts(code["samples_not_issued"]),
        "executed": _counts(code["executed"]),
        "place": places,
        "source": code["text"].where(has_line & code["text"].notna(), "").astype(str).tolist(),
        "wait": _longest_waits(code),
    }


def _longest_waits(code: pd.DataFrame) -> list[str]:
    """Words on the longest wait of each instruction; empty without samples."""
    stalls = stall_columns(code)
    counts = code[[*stalls]].fillna(0.0).to_numpy(dtype="float64")
    if not stalls or not len(code):
        return [""] * len(code)
    wait_words = [*map(waited_for, stalls.values())]
    longest = zip(counts.argmax(axis=1), counts.max(axis=1), strict=True)
    return [wait_words[place] if most > 0 else "" for place, most in longest]


def _counts(column: pd.Series[float]) -> list[int | None]:
    values = column.to_numpy(dtype="float64").tolist()
    return [None if math.isnan(value) else int(value) for value in values]
