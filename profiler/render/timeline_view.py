"""The page of timelines, and what every page with a timeline gets beside its own figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from profiler.render.lookup import Lookup
from profiler.render.roles import Ranking
from profiler.render.timeline import timeline_section
from profiler.render.views import View, metric_parts

_FILES: Mapping[str, tuple[str, str]] = {
    "nsys": ("report.nsys-rep*", "Nsight Systems (nsys-ui; gunzip it first where it is packed)"),
    "torch": ("trace.*.json.gz", "Perfetto (ui.perfetto.dev) or chrome://tracing"),
}


@dataclass(frozen=True)
class OriginalFile:
    """What a tool itself wrote."""

    path: str
    """Relative to the run folder, with stars for numbers."""
    tool: str
    """What opens it."""


def timeline_view(ranking: Ranking) -> View:
    """Timelines first, then what was measured of every cell."""
    return View("timeline_page.html", "Timeline", metric_parts(ranking))


def timeline_parts(lookup: Lookup) -> dict[str, Any]:
    """What the template of timelines needs; `timeline` is None where there is none."""
    section = timeline_section(lookup)
    files = tuple(_files(lookup)) if section else ()
    return {"timeline": section, "timeline_files": files}


def _files(lookup: Lookup) -> Iterator[OriginalFile]:
    for session in lookup.report.plan.sessions:
        if session.collector in _FILES:
            name, tool = _FILES[session.collector]
            yield OriginalFile(f"raw/{session.name}.*/private/{name}", tool)
