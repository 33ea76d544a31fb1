"""The index of a gallery: each page with its GPU, its date and the first sentence of its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from profiler.findings.findings import Findings
from profiler.findings.runs.comparison import RunComparison
from profiler.model import Environment
from profiler.render.page import render
from profiler.render.runs.answer import headline as comparison_headline
from profiler.render.runs.rows import Names
from profiler.render.words.answer import Sentence
from profiler.render.words.headline import headline


@dataclass(frozen=True)
class GalleryPage:
    """A page of the gallery, as its index shows it."""

    file: str
    """Name in the folder of the index."""
    title: str
    machines: tuple[str, ...]
    """GPU of each run, or its processor; one for a run, several for a comparison."""
    dates: tuple[str, ...]
    """ISO 8601 with offset, in the order of the runs."""
    answer: str


@dataclass(frozen=True)
class MissingPage:
    """A page that the recordings are not enough for."""

    name: str
    reason: str
    commands: tuple[str, ...]
    """What makes it elsewhere, for a shell."""


def page_of_run(findings: Findings, file: str) -> GalleryPage:
    """Entry for the page of a run."""
    report = findings.report
    return GalleryPage(
        file=file,
        title=report.title,
        machines=(_machine(report.environment),),
        dates=(report.created,),
        answer=_text(headline(findings)),
    )


def page_of_comparison(comparison: RunComparison, title: str, file: str) -> GalleryPage:
    """Entry for the page of a comparison of runs."""
    reports = [run.report for run in comparison.runs]
    return GalleryPage(
        file=file,
        title=title,
        machines=tuple(_machine(report.environment) for report in reports),
        dates=tuple(report.created for report in reports),
        answer=_text(comparison_headline(comparison, Names.of(comparison))),
    )


def _machine(environment: Environment) -> str:
    return environment.gpu or environment.cpu or "not recorded"


def _text(sentence: Sentence) -> str:
    """A sentence without its emphasis."""
    return "".join(part.text for part in sentence)


def render_index(pages: Sequence[GalleryPage], missing: Sequence[MissingPage]) -> str:
    """Render the index as HTML."""
    return render("gallery.html", {"pages": pages, "missing": missing})
