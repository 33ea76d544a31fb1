"""The index of a gallery: pages of runs and of comparisons, and those that are not made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from profiler.findings.findings import Findings
from profiler.findings.runs.comparison import RunComparison
from profiler.model import Environment
from profiler.render.html import render
from profiler.render.index import IndexEntry, IndexGroup, picture_of
from profiler.render.runs.answer import headline as comparison_headline
from profiler.render.runs.rows import Names
from profiler.render.words.headline import headline_text
from profiler.render.words.sentences import spoken


@dataclass(frozen=True)
class MissingPage:
    """A page that the recordings are not enough for."""

    name: str
    reason: str
    commands: tuple[str, ...]
    """What makes it elsewhere, for a shell."""


def render_gallery(entries: Sequence[IndexEntry], missing: Sequence[MissingPage]) -> str:
    """HTML of the index of a gallery."""
    lead = (
        f"{len(entries)} pages, each one file that opens from disk. "
        "The numbers are those of the machine that each names."
    )
    groups = [IndexGroup((entry,), picture=entry.picture) for entry in entries]
    parts = {"title": "Gallery", "crumb": "Replayed recordings", "lead": lead, "groups": groups}
    return render("index.html", parts | {"missing": missing})


def page_of_run(findings: Findings, file: str) -> IndexEntry:
    """Entry for the page of a run."""
    report = findings.report
    return IndexEntry(
        file=file,
        title=report.experiment.title,
        machines=(_machine(report.environment),),
        dates=(report.execution.created,),
        answer=headline_text(findings),
        picture=_picture(findings),
    )


def _picture(findings: Findings) -> Markup | None:
    """Ratios to the baseline: of the versions of a ladder, else of the best of each problem."""
    if findings.kind.ladder:
        return picture_of([(rung.ratio,) * 3 for rung in findings.kind.ladder])
    winners = findings.ranking.deciding_winners
    values = [
        findings.numbers.value(winners[problem.id].cell, findings.numbers.primary.name)
        for problem in findings.programs.problems
        if problem.id in winners
    ]
    return picture_of([(value.ratio,) * 3 for value in values])


def page_of_comparison(comparison: RunComparison, title: str, file: str) -> IndexEntry:
    """Entry for the page of a comparison of runs."""
    reports = [run.report for run in comparison.runs]
    sentence = comparison_headline(comparison, Names.of(comparison))
    return IndexEntry(
        file=file,
        title=title,
        machines=tuple(_machine(report.environment) for report in reports),
        dates=tuple(report.execution.created for report in reports),
        answer=spoken(sentence),
    )


def _machine(environment: Environment) -> str:
    return environment.gpu or environment.cpu or "not recorded"
