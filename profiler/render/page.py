"""The page of a run: one self-contained HTML file that opens from disk, without network."""

from __future__ import annotations

from typing import Any

from profiler.errors import UsageError
from profiler.findings.findings import Findings
from profiler.model import FEWEST_BLOCKS
from profiler.notices import Notice, NoticeKind
from profiler.planning.page_kinds import PAGE_KINDS, TIMELINES, load_part
from profiler.planning.problem_names import problem_key
from profiler.render import embed
from profiler.render.html import moment, notice_rows, render
from profiler.render.kinds.timeline import timeline_parts
from profiler.render.kinds.versions import View
from profiler.render.searches import search_section
from profiler.render.tables import main_table
from profiler.render.tables.explained import explained
from profiler.render.tables.failures import main_failure
from profiler.render.tables.method import builds_of, method
from profiler.render.tables.sustained import captured_step_table, step_note, sustained_table
from profiler.render.tables.timers import timer_parts
from profiler.render.tables.why import why
from profiler.render.timeline.in_kernel_section import make_in_kernel_section
from profiler.render.timeline.still_figure import run_chart
from profiler.render.tuning import tuned_cells
from profiler.render.words.answer import answer_of
from profiler.render.words.cards import cards, evidence
from profiler.render.words.comparisons import best_word
from profiler.render.words.headline import headline
from profiler.render.words.names import key_to_names
from profiler.render.words.signs import CSS, ORDER, word
from profiler.render.words.verdicts import baseline_label
from profiler.render.words.why import idle_sentence


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
        "best_word": best_word(findings.ranking),
        **_notices(findings),
        "method": method(findings),
        "run_chart": run_chart(findings),
        "why": why(findings),
        "busy": idle_sentence(findings),
        "explained": explained(findings),
        "search": search_section(findings),
        "timers": timer_parts(findings),
        "captured_step": captured_step_table(findings),
        "step_note": step_note(findings),
        "sustained": sustained_table(findings),
        **timeline_parts(findings),
        "in_kernel": make_in_kernel_section(findings),
        "tuned": tuned_cells(findings),
        "view": view,
        "timeline_first": TIMELINES in report.settings.page_kind.finds,
        **view,
        **_tables(findings),
    }
    return render("page.html", parts)


def _notices(findings: Findings) -> dict[str, Any]:
    """Notice of a replay for the top of the page, None for a live run; and all others."""
    replay = findings.report.execution.replay
    details = {NoticeKind.FAILED_CELLS: main_failure(findings.programs)}
    if replay is None:
        return {"banner": None, "notice_rows": notice_rows(findings.notices, details)}
    values = {**replay, "when": moment(replay["when"])}
    other_notices = [
        notice for notice in findings.notices if notice.kind is not NoticeKind.REPLAYED
    ]
    return {
        "banner": notice_rows([Notice(NoticeKind.REPLAYED, values)])[0],
        "notice_rows": notice_rows(other_notices, details),
    }


def _tables(findings: Findings) -> dict[str, Any]:
    baselines = findings.verdicts.baselines
    facets = main_table.facets(findings.programs)
    return {
        "table": main_table.main_table(findings, baselines[0]),
        "fewest_blocks": FEWEST_BLOCKS,
        "verdicts": [(CSS[verdict], word(verdict)) for verdict in ORDER],
        "comparisons": [
            {"key": baseline.key, "label": baseline_label(baseline)} for baseline in baselines
        ],
        "facets": facets,
        "cell_numbers": findings.programs.cell_numbers,
        "builds": builds_of(findings),
        # Names of variants that share their machine code, the measured one first.
        "code_groups": [
            (findings.programs.labels[owner], *aliases)
            for owner, aliases in findings.programs.aliases.items()
        ],
        "data": embed.pack(embed.payload(findings, facets)),
    }
