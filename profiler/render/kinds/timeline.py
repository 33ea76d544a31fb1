"""The page of timelines, and what every page with a timeline gets beside its own figures."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from profiler.findings.findings import Findings
from profiler.model import SessionKind
from profiler.planning.page_kinds import TIMELINES
from profiler.render.console.terminal import TextTable
from profiler.render.first.timelines import units_chart
from profiler.render.kinds.versions import View, metric_parts
from profiler.render.timeline.section import make_section, named_timelines
from profiler.render.timeline.timeline_tables import NamedTimelines, phase_shares, slowed_words


@dataclass(frozen=True)
class OriginalFile:
    """A file that a tool itself wrote."""

    path: str
    """Relative to the run folder."""
    cells: str
    """Whose timelines it holds; empty where they are all of this page."""
    how: str
    """What opens it."""
    command: str
    """What to type in the run folder; empty where there is nothing to type."""


def timeline_view(findings: Findings) -> View:
    """Timelines first, then what was measured of every cell."""
    parts = metric_parts(findings)
    return View("timeline_page.html", "Timeline", parts, first=units_chart(findings))


def timeline_parts(findings: Findings) -> dict[str, Any]:
    """Variables of the template of timelines; `timeline` is None where there is none."""
    named = named_timelines(findings)
    return {"timeline": make_section(named), "timeline_files": tuple(_files(named))}


def _files(named: NamedTimelines) -> Iterator[OriginalFile]:
    """Files in the order of the cells that they hold."""
    originals = dict.fromkeys(file for cell in named.cells for file in cell.timeline.originals)
    for original in originals:
        names = [cell.name for cell in named.cells if original in cell.timeline.originals]
        cells = "" if len(names) == len(named.cells) else "; ".join(names)
        if original.collector == "nsys":
            plain = shlex.quote(original.path.removesuffix(".gz"))
            command = f"gunzip -k {shlex.quote(original.path)} && nsys-ui {plain}"
            yield OriginalFile(
                original.path, cells, "unpack it and open it in Nsight Systems.", command
            )
        else:
            how = "open it in Perfetto (ui.perfetto.dev), as it is."
            yield OriginalFile(original.path, cells, how, "")


# ---- the terminal --------------------------------------------------------------------------------


_MOST_CELLS = 12


def timeline_tables(findings: Findings) -> list[RenderableType]:
    """GPU busy share by cell and phase, where a run only recorded timelines or is about them."""
    report = findings.report
    only = all(session.kind is SessionKind.TIMELINE for session in report.plan.sessions)
    if not report.details.timelines or not (only or TIMELINES in report.settings.page_kind.finds):
        return []
    named = named_timelines(findings)
    phases, phase_rows = phase_shares(named.cells)
    shown = TextTable(f"{named.timelines.device} busy share by phase")
    shown.add_columns("variant", name=True)
    shown.add_columns("of", drop=1)
    shown.add_columns(*phases, right=True)
    caption = (
        "Medians; busy: an operation ran, from the first to the last of the phase; of the whole, "
        "since the last of the one before."
    )
    shown.caption = " ".join(filter(None, (caption, slowed_words(named))))
    rows = zip(phase_rows, named.cells, strict=True)
    for row, cell in list(rows)[:_MOST_CELLS]:
        data = (Text(datum.text) for datum in row.data[1:])
        shown.add_row(cell.name, cell.units, *data)
    shown.add_rest_caption(len(named.cells) - _MOST_CELLS, "cell")
    return [shown]
