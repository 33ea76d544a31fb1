"""Timelines for the terminal: how busy each variant kept the GPU, by phase."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from profiler.findings.findings import Findings
from profiler.model import SessionKind
from profiler.planning.page_kinds import TIMELINES
from profiler.render.console.terminal import add_rest_caption, columns, plain, table
from profiler.render.timeline.section import named_timelines
from profiler.render.timeline.timeline_tables import phase_shares, slowed_words

_MOST_CELLS = 12


def timeline_tables(findings: Findings) -> list[RenderableType]:
    """GPU busy share by cell and phase, where a run only recorded timelines or is about them."""
    report = findings.report
    only = all(session.kind is SessionKind.TIMELINE for session in report.plan.sessions)
    if not report.details.timelines or not (only or TIMELINES in report.settings.page_kind.finds):
        return []
    named = named_timelines(findings)
    shares = phase_shares(named.cells)
    shown = table(f"{named.timelines.device} busy share by phase")
    columns(shown, "variant", name=True)
    columns(shown, "of", drop=1)
    columns(shown, *(plain(name).plain for name in shares.phases), right=True)
    caption = (
        "Medians; busy: an operation ran, from the first to the last of the phase; of the whole, "
        "since the last of the one before."
    )
    shown.caption = " ".join(filter(None, (caption, slowed_words(named))))
    rows = zip(shares.rows, named.cells, strict=True)
    for row, cell in list(rows)[:_MOST_CELLS]:
        data = (Text(datum.text) for datum in row.data[1:])
        shown.add_row(plain(cell.name), plain(cell.units), *data)
    add_rest_caption(shown, len(named.cells) - _MOST_CELLS, "cells are in the page")
    return [shown]
