"""Templates of pages, filled: with their styles and scripts, and notices as rows."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from importlib.resources import files
from importlib.util import cache_from_source
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, FileSystemBytecodeCache, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup, escape

from profiler import notices
from profiler.model import Verdict
from profiler.notices import Notice, NoticeKind, Severity, counted
from profiler.render.tables.rows import Datum

SCRIPTS = (
    "data",
    "state",
    "tables",
    "details",
    "walk",
    "metric_tables",
    "listing",
    "scatter",
    "export",
    "parallel",
    "page",
    "names",
    "downloads",
    "reach",
    "list_filter",
)
"""Files of the page's script in the order in which they need each other; those from names on have a
scope of their own."""
_SEVERITY_WORDS = {  # the most serious first
    Severity.ERROR: ("\N{MULTIPLICATION X}", "Error"),
    Severity.WARNING: ("\u25b2", "Warning"),
    Severity.INFO: ("\u25cf", "Note"),
}


def render(template: str, parts: dict[str, Any]) -> str:
    """Fill a template; styles and script come with it."""
    return templates().get_template(template).render(**_assets(), **parts)


def moment(text: str) -> str:
    """Write an ISO time as people read it; anything else is left as it is."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return text
    zone = when.tzname() or ""
    return f"{when:%Y-%m-%d %H:%M} {zone}".strip()


def notice_rows(
    unfolded: Sequence[Notice], details: Mapping[NoticeKind, str] = MappingProxyType({})
) -> list[dict[str, Any]]:
    """Notices in words, the most serious first: symbol, word and colour say the same.

    Those on one thing are one line; `parts`: what each of them says. `details`: sentences behind
    those of a kind, which link to the table of every cell.
    """
    folded = sorted(
        notices.fold(unfolded), key=lambda notice: [*_SEVERITY_WORDS].index(notice.severity)
    )
    return [
        {
            "severity": str(notice.severity),
            "symbol": _SEVERITY_WORDS[notice.severity][0],
            "word": _SEVERITY_WORDS[notice.severity][1],
            "text": notice.text,
            "detail": details.get(notice.parts[0].kind, ""),
            "remedy": notice.remedy,
            "parts": list(map(notices.text, notice.parts)) if len(notice.parts) > 1 else (),
        }
        for notice in folded
    ]


@cache
def templates() -> Environment:
    """Environment of jinja with all templates; each is compiled once."""
    environment = Environment(
        loader=PackageLoader("profiler.render"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        optimized=False,  # to look for constants takes a tenth of the time of compiling
        bytecode_cache=None if sys.dont_write_bytecode else _CompiledTemplates(),
    )
    environment.filters["counted"] = counted
    environment.filters["moment"] = moment
    environment.globals["tds"] = table_cells
    environment.globals["Verdict"] = Verdict
    return environment


def table_cells(
    data: Iterable[Datum], css: str = "", *, hover: bool = True, sorts: bool = True
) -> Markup:
    """Cells of a row of a table, which a macro writes three times as slowly.

    Without `hover` only what has no number shows what stands behind it; a table that `sorts` has
    the numbers of its cells beside their texts.
    """
    return Markup("").join(_table_cell(datum, css, hover=hover, sorts=sorts) for datum in data)


def _table_cell(datum: Datum, css: str, *, hover: bool, sorts: bool) -> Markup:
    attributes = (
        ("data-value", datum.raw if sorts and datum.raw != datum.text else None),
        ("class", f"{css} {datum.css}".strip()),
        ("data-cell", "" if datum.cell is None else str(datum.cell)),
        ("data-beside", "" if datum.beside is None else str(datum.beside)),
        ("title", datum.title if hover or datum.raw is None else ""),
    )
    written = "".join(f' {name}="{escape(value)}"' for name, value in attributes if value)
    return Markup(f"<td{written}>{escape(datum.text)}</td>")  # noqa: S704 - escaped right here


class _CompiledTemplates(FileSystemBytecodeCache):
    """Compiled templates, beside the compiled modules of this package, by what they are made of."""

    def __init__(self) -> None:
        super().__init__(str(Path(cache_from_source(__file__)).parent))

    def load_bytecode(self, bucket: Bucket) -> None:
        """Find a template; what cannot be read, or is damaged, is compiled again."""
        with suppress(Exception):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a template, where that can be written."""
        with suppress(OSError):
            super().dump_bytecode(bucket)


def compile_templates() -> None:
    """Compile all templates, and read the styles and scripts of a page, for `render` to find them.

    Compiling them takes as long as all else of the page of a small run.
    """
    for name in templates().list_templates():
        templates().get_template(name)
    _assets()


@cache
def _assets() -> Mapping[str, Markup]:
    """Styles and scripts by the names that templates have for them."""
    # All of the page's script waits for the data.
    scripts = Markup("\n").join(asset(f"{name}.js") for name in SCRIPTS)
    waiting = Markup('(async () => {\n"use strict";\n') + scripts + Markup("\n})();\n")
    return {
        "css": asset("page.css"),
        "script": asset("shared.js") + waiting,
        "timeline_css": asset("timeline.css"),
        "timeline_script": asset("timeline.js"),
        "perfetto_script": asset("perfetto.js"),
    }


@cache
def asset(name: str) -> Markup:
    """Text of a style sheet or a script."""
    text = files("profiler.render").joinpath("assets", name).read_text(encoding="utf-8")
    return Markup(text)  # noqa: S704 - a file of this package, with nothing of a user in it
