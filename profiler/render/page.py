"""The page of a run: one self-contained HTML file that opens from disk, without network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from profiler import notices
from profiler.errors import UsageError
from profiler.findings.findings import Findings, Programs
from profiler.model import FEWEST_BLOCKS
from profiler.notices import Notice, NoticeKind, Severity
from profiler.planning.page_kinds import PAGE_KINDS, TIMELINES, load_part
from profiler.planning.problem_names import problem_key
from profiler.render import embed
from profiler.render.kinds.timeline import timeline_parts
from profiler.render.kinds.versions import View
from profiler.render.tables import builds, main_table
from profiler.render.tables.details import CellSamples
from profiler.render.tables.explained import explained
from profiler.render.tables.searches import search_section
from profiler.render.tables.timers import WALL_CLOCK_HEADS, timer_table
from profiler.render.tables.tuned_cells import CHOSEN_HEADS, tuned_cells
from profiler.render.tables.tuning_tables import HEADS
from profiler.render.tables.why import why
from profiler.render.timeline.in_kernel_section import make_in_kernel_section
from profiler.render.timeline.run_figure import run_chart
from profiler.render.words.answer import answer_of
from profiler.render.words.cards import cards, evidence
from profiler.render.words.headline import headline
from profiler.render.words.method import method
from profiler.render.words.names import key_to_names
from profiler.render.words.ranks import best_word
from profiler.render.words.verdicts import baseline_label, verdict_choices
from profiler.render.words.why import idle_sentence

SHARED = (
    "data",
    "state",
    "tables",
    "details",
    "walk",
    "metric_tables",
    "export",
    "parallel",
    "page",
)
"""Files of the page's script that share one scope, in the order in which they need each other."""
SCRIPTS = ("names", "downloads", "reach")
"""Files with a scope of their own."""
_SEVERITY_WORDS = {
    Severity.ERROR: ("\N{MULTIPLICATION X}", "Error"),
    Severity.WARNING: ("\u25b2", "Warning"),
    Severity.INFO: ("\u25cf", "Note"),
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
    parts: tuple[str, ...] = ()
    """What several notices on one thing say, each; empty of one notice."""


def render_page(findings: Findings) -> str:
    """HTML of a run.

    Raises `UsageError` for a kind of page that does not exist.
    """
    report = findings.report
    if report.settings.kind not in PAGE_KINDS:
        kinds = ", ".join(PAGE_KINDS)
        raise UsageError(
            f"No page of kind {report.settings.kind!r}.", remedy=f"Choose one of: {kinds}."
        )
    view: View = load_part(report.settings.page_kind.view)(findings)
    parts = {
        "report": report,
        "primary": findings.numbers.primary,
        "problem_key": problem_key(findings.programs.problems),
        "names": findings.programs.names,
        "name_key": key_to_names(findings.programs),
        "headline": headline(findings),
        "sentences": answer_of(findings),
        "evidence": evidence(findings),
        "cards": cards(findings),
        "first": view.first,
        "best_word": best_word(findings.ranking),
        "banner": _banner(findings),
        "notice_rows": notice_rows(_beside_banner(findings)),
        "method": method(findings),
        "run_chart": run_chart(findings),
        "why": why(findings),
        "busy": idle_sentence(findings),
        "explained": explained(findings),
        "search": search_section(findings),
        "timers": timer_table(findings),
        **timeline_parts(findings),
        "in_kernel": make_in_kernel_section(findings),
        "wall_clock_heads": WALL_CLOCK_HEADS,
        "tuned": tuned_cells(findings),
        "tuned_heads": CHOSEN_HEADS,
        "tried_heads": HEADS,
        "view": view,
        "timeline_first": TIMELINES in report.settings.page_kind.finds,
        **view.parts,
        **_tables(findings),
    }
    return render("page.html", parts)


def _banner(findings: Findings) -> NoticeRow | None:
    """Notice of a replay for the top of the page; None for a live run."""
    replay = findings.report.execution.replay
    if replay is None:
        return None
    values = vars(replay) | {"when": moment(replay.when)}
    return notice_rows([Notice(NoticeKind.REPLAYED, values)])[0]


def _beside_banner(findings: Findings) -> list[Notice]:
    """Notices without those of the banner."""
    return [
        notice
        for notice in findings.notices
        if findings.report.execution.replay is None or notice.kind is not NoticeKind.REPLAYED
    ]


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


def notice_rows(unfolded: Sequence[Notice]) -> tuple[NoticeRow, ...]:
    """Notices in words, the most serious first; those on one thing are one line with parts."""
    folded = sorted(
        notices.fold(unfolded), key=lambda notice: _SEVERITY_ORDER.index(notice.severity)
    )
    return tuple(
        NoticeRow(
            severity=str(notice.severity),
            symbol=symbol,
            word=word,
            text=notice.text,
            remedy=notice.remedy,
            parts=tuple(map(notices.text, notice.parts)) if len(notice.parts) > 1 else (),
        )
        for notice in folded
        for symbol, word in (_SEVERITY_WORDS[notice.severity],)
    )


def _tables(findings: Findings) -> dict[str, Any]:
    baselines = findings.verdicts.baselines
    facets = main_table.facets(findings.programs)
    return {
        "table": main_table.main_table(findings, baselines[0]),
        "fewest_blocks": FEWEST_BLOCKS,
        "verdicts": verdict_choices() if findings.verdicts.given else (),
        "comparisons": [
            {"key": baseline.key, "label": baseline_label(baseline)} for baseline in baselines
        ],
        "facets": facets[0],
        "cell_numbers": findings.programs.cell_numbers,
        "builds": builds.builds_of(findings),
        "build_heads": builds.BUILD_HEADS,
        "code_groups": _code_groups(findings.programs),
        "data": embed.dump(embed.payload(findings, facets, CellSamples(findings))),
    }


def _code_groups(programs: Programs) -> tuple[tuple[str, ...], ...]:
    """Names of variants that share their machine code, the measured one first."""
    names = {variant.id: variant.label for variant in programs.variants}
    return tuple((names[owner], *aliases) for owner, aliases in programs.aliases.items())


@cache
def templates() -> Environment:
    """Environment of jinja with all templates; each is compiled once in a process."""
    environment = Environment(
        loader=PackageLoader("profiler.render"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["moment"] = moment
    return environment


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
    return {
        "css": _asset("page.css"),
        "script": _script(),
        "timeline_css": _asset("timeline.css"),
        "timeline_script": _asset("timeline.js"),
    }


@cache
def _script() -> Markup:
    """The page's script."""
    shared = Markup("\n").join(_asset(f"{name}.js") for name in SHARED)
    scoped = Markup('(() => {\n"use strict";\n') + shared + Markup("\n})();\n")
    return scoped + Markup("").join(_asset(f"{name}.js") for name in SCRIPTS)


@cache
def _asset(name: str) -> Markup:
    text = files("profiler.render").joinpath("assets", name).read_text(encoding="utf-8")
    return Markup(text)  # noqa: S704 - a file of this package, with nothing of a user in it
