"""Entries of the index of a gallery: a page with its GPU, its date and its answer."""

from __future__ import annotations

from profiler.findings.findings import Findings
from profiler.findings.runs.comparison import RunComparison
from profiler.model import Environment
from profiler.render.index import IndexEntry
from profiler.render.runs.answer import headline as comparison_headline
from profiler.render.runs.rows import Names
from profiler.render.words.answer import spoken
from profiler.render.words.headline import headline_text


def page_of_run(findings: Findings, file: str) -> IndexEntry:
    """Entry for the page of a run."""
    report = findings.report
    return IndexEntry(
        file=file,
        title=report.experiment.title,
        machines=(_machine(report.environment),),
        dates=(report.execution.created,),
        answer=headline_text(findings),
    )


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
