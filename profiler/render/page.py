"""The page of a run: one self-contained HTML file that opens from disk, without network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from profiler import notices
from profiler.analyse.verdicts import FEWEST_BLOCKS
from profiler.errors import UsageError
from profiler.findings import named_baselines as compare
from profiler.findings.lookup import Lookup
from profiler.findings.roles import Ranking
from profiler.findings.rulings import verdict_choices
from profiler.model import BuildResult
from profiler.notices import Notice, NoticeKind, Severity
from profiler.render import embed
from profiler.render.kinds.ablation import ablation_view
from profiler.render.kinds.autotune import autotune_view
from profiler.render.kinds.grid import grid_view
from profiler.render.kinds.progression import progression_view
from profiler.render.kinds.timeline import timeline_parts, timeline_view
from profiler.render.kinds.versions import View, versions_view
from profiler.render.kinds.waves import waves_view
from profiler.render.tables import details, main_table
from profiler.render.tables import rows as tables
from profiler.render.tables.by_problem import by_problem
from profiler.render.tables.timers import PLAIN_HEADS, timer_table
from profiler.render.tables.tuned_cells import CHOSEN_HEADS, tuned_cells
from profiler.render.tables.tuning_tables import HEADS
from profiler.render.tables.why import why
from profiler.render.words.answer import sentences
from profiler.render.words.cards import cards
from profiler.render.words.method import method
from profiler.render.words.problems import readable
from profiler.run_folder.load.report import PAGE_KINDS, Report

_SEVERITY_WORDS = {
    Severity.ERROR: ("\N{MULTIPLICATION X}", "Error"),
    Severity.WARNING: ("\u25b2", "Warning"),
    Severity.INFO: ("\u25cf", "Note"),
}
_VIEWS: Mapping[str, Callable[[Ranking], View]] = {
    "versions": versions_view,
    "autotune": autotune_view,
    "ablation": ablation_view,
    "progression": progression_view,
    "grid": grid_view,
    "timeline": timeline_view,
    "waves": waves_view,
}
_SEVERITY_ORDER = (Severity.ERROR, Severity.WARNING, Severity.INFO)


@dataclass(frozen=True)
class NoticeRow:
    """A notice as the page shows it: symbol, word and colour say the same."""

    severity: str
    symbol: str
    word: str
    text: str
    remedy: str


def render_page(report: Report) -> str:
    """Render a run as HTML.

    Raises `UsageError` for a kind of page that does not exist.
    """
    if report.kind not in PAGE_KINDS:
        known = ", ".join(PAGE_KINDS)
        raise UsageError(f"No page of kind {report.kind!r}.", remedy=f"Choose one of: {known}.")
    report = readable(report)
    lookup = Lookup(report)
    ranking = Ranking(lookup)
    view = _VIEWS[report.kind](ranking)
    parts = {
        "report": report,
        "primary": lookup.primary,
        "problem_key": lookup.problem_key,
        "sentences": sentences(ranking),
        "cards": cards(ranking),
        "best_word": ranking.best_word,
        "banner": _banner(report),
        "notice_rows": notice_rows(_beside_banner(report)),
        "method": method(lookup),
        "why": why(ranking),
        "problem_table": by_problem(ranking),
        "timers": timer_table(lookup),
        **timeline_parts(lookup),
        "plain_heads": PLAIN_HEADS,
        "tuned": tuned_cells(lookup),
        "tuned_heads": CHOSEN_HEADS,
        "tried_heads": HEADS,
        "view": view,
        **view.parts,
        **_tables(ranking, view),
    }
    return render("page.html", parts)


def _banner(report: Report) -> NoticeRow | None:
    """Put into words, for the very top of the page, that nothing was measured here."""
    if report.replay is None:
        return None
    values = vars(report.replay) | {"when": moment(report.replay.when)}
    return notice_rows([Notice(NoticeKind.REPLAYED, values)])[0]


def _beside_banner(report: Report) -> list[Notice]:
    """Leave out of the list what the banner says already."""
    return [
        notice
        for notice in report.notices
        if report.replay is None or notice.kind is not NoticeKind.REPLAYED
    ]


def render(template: str, parts: dict[str, Any]) -> str:
    """Fill a template; styles and script come with it."""
    assets = {
        "css": _asset("page.css"),
        "script": _asset("page.js"),
        "timeline_css": _asset("timeline.css"),
        "timeline_script": _asset("timeline.js"),
    }
    return _environment().get_template(template).render(**assets, **parts)


def moment(text: str) -> str:
    """Write an ISO time as people read it; anything else is left as it is."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return text
    zone = when.tzname() or ""
    return f"{when:%Y-%m-%d %H:%M} {zone}".strip()


def notice_rows(found: Sequence[Notice]) -> tuple[NoticeRow, ...]:
    """Put notices into words, the most serious first; a replay before all."""
    rows = [
        NoticeRow(
            str(notices.severity(notice)),
            *_SEVERITY_WORDS[notices.severity(notice)],
            notices.text(notice),
            notices.remedy(notice),
        )
        for notice in sorted(found, key=_seriousness)
    ]
    return tuple(dict.fromkeys(rows))


def _seriousness(notice: Notice) -> tuple[bool, int]:
    order = _SEVERITY_ORDER.index(notices.severity(notice))
    return (notice.kind is not NoticeKind.REPLAYED, order)


def _tables(ranking: Ranking, view: View) -> dict[str, Any]:
    lookup = ranking.lookup
    comparisons = compare.comparisons(ranking)
    facets = main_table.facets(lookup)
    return {
        "table": main_table.main_table(ranking, comparisons[0]),
        "fewest_blocks": FEWEST_BLOCKS,
        "verdicts": verdict_choices() if lookup.rulings.given else (),
        "comparisons": comparisons,
        "facets": facets[0],
        "cell_numbers": lookup.cell_numbers,
        "metric_numbers": {one.name: number for number, one in enumerate(lookup.measured_metrics)},
        "builds": tables.build_rows(lookup),
        "build_heads": tables.BUILD_HEADS,
        "code_groups": _code_groups(lookup, lookup.report.builds),
        "data": embed.dump(embed.payload(lookup, comparisons, facets)),
        **_details(lookup, comparisons, view),
    }


def _details(
    lookup: Lookup, comparisons: Sequence[compare.Comparison], view: View
) -> dict[str, Any]:
    """Every cell in full, where the page has a place for that."""
    if view.cells_template != "cells.html":
        return {}
    return {"details": details.details(lookup, comparisons)}


def _code_groups(lookup: Lookup, builds: Sequence[BuildResult]) -> tuple[tuple[str, ...], ...]:
    """Names of variants that share their machine code, the measured one first."""
    names = {variant.id: variant.name for variant in lookup.variants}
    groups: dict[str, list[str]] = {}
    for build in builds:
        if build.duplicate_of:
            own = groups.setdefault(
                build.duplicate_of, [names.get(build.duplicate_of, build.duplicate_of)]
            )
            own.append(names.get(build.variant, build.variant))
    return tuple(tuple(group) for group in groups.values())


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("profiler.render"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["moment"] = moment
    return environment


@cache
def _asset(name: str) -> Markup:
    text = files("profiler.render").joinpath("assets", name).read_text(encoding="utf-8")
    return Markup(text)  # noqa: S704 - a file of this package, with nothing of a user in it
