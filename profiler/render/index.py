"""The indexes of a folder of runs and of a gallery, whose pages are of runs and comparisons."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from markupsafe import Markup

from profiler.comparison.run_entries import (
    BestChange,
    BestPoint,
    RunEntry,
    best_over_time,
    changes,
    newest_listed,
)
from profiler.findings.findings import Findings
from profiler.model import Environment
from profiler.notices import counted
from profiler.render.html import render, templates
from profiler.render.tables.rows import Datum
from profiler.render.words import numbers
from profiler.render.words.headline import headline_text
from profiler.render.words.signs import CSS, best_words, change_words

INDEX_FILE = "index.html"


@dataclass(frozen=True)
class IndexEntry:
    """A page of an index."""

    file: str
    """Address relative to the index; empty where the page is not there yet."""
    title: str
    machines: tuple[str, ...]
    """GPU of each run, or its processor; one for a run, several for a comparison."""
    dates: tuple[str, ...]
    """ISO 8601 with offset, in the order of the runs."""
    answer: str
    facts: tuple[str, ...] = ()
    """Further facts in the small line of the entry, such as the commit."""
    mark: Datum | None = None
    """A verdict beside it."""
    picture: Markup | None = None
    """Picture of the run's numbers, as large as its lines of text."""


def render_runs(entries: Sequence[RunEntry]) -> str:
    """HTML of the index of a folder of runs; `entries` stand by experiment, newest first."""
    listed = newest_listed(entries)
    groups = [_group(tuple(runs)) for _, runs in groupby(listed, lambda run: run.experiment)]
    experiments = len({run.experiment for run in entries})
    newest_words = f" The newest {len(listed)} are listed." if len(listed) < len(entries) else ""
    lead = (
        f"Runs: {len(entries)}; experiments: {experiments}.{newest_words} A verdict is on the best "
        "of each problem, relative to the baseline of its own run, against the run before."
    )
    parts = {"title": "Runs", "crumb": "kernel-profiler", "lead": lead, "groups": groups}
    return render("index.html", parts | {"missing": {}})


# ---- runs ----------------------------------------------------------------------------------------


def _group(runs: tuple[RunEntry, ...]) -> dict[str, Any]:
    """Row of an index: runs of one experiment, the newest first.

    `picture`: the best over time, of one run that of its problems; `best`: that of the newest run
    in words, empty where it has no ratio to a baseline.
    """
    changed = changes(runs)
    points = best_over_time(runs)
    of_problems = [(pair.low, pair.ratio, pair.high) for pair in runs[0].answer.best]
    return {
        "entries": [_entry(run, changed.get(run.folder)) for run in runs],
        "title": runs[0].title,
        "picture": _line(points) if len(points) > 1 else picture_of(of_problems),
        "best": best_words(points[-1].entry) if points else "",
    }


def _entry(run: RunEntry, change: BestChange | None) -> IndexEntry:
    facts = (
        "replay" if run.kind == "replay" else "",
        counted(run.cells, "cell"),
        run.commit and f"commit {run.commit}",
    )
    return IndexEntry(
        file=f"{run.folder}/{INDEX_FILE}" if run.page else "",
        title=run.folder,
        machines=(run.conditions.gpu or "machine not recorded",),
        dates=(run.created,),
        answer=run.answer.sentence or "No results yet: the run goes on, or was stopped.",
        facts=tuple(filter(None, facts)),
        mark=Datum(change_words(change), css=CSS[change.verdict]) if change else None,
    )


def picture_of(points: Sequence[tuple[float, float, float]]) -> Markup | None:
    """The best of each problem relative to the baseline; None without two."""
    finite = [point for point in points if all(map(math.isfinite, point))]
    if len(finite) < 2:
        return None
    ratios = [ratio for _, ratio, _ in finite]
    label = (
        "The best of each problem relative to the baseline, in their order: from "
        f"{numbers.ratio(min(ratios))} to {numbers.ratio(max(ratios))}"
    )
    return small_line(finite, label)


def _line(points: Sequence[BestPoint]) -> Markup:
    values = ", ".join(numbers.ratio(point.ratio) for point in points)
    baseline = points[-1].entry.conditions.baseline
    label = (
        f"The best of each problem relative to {baseline}, geometric mean, the oldest run first: "
        f"{values}"
    )
    return small_line([(point.low, point.ratio, point.high) for point in points], label)


# ---- a gallery: pages of runs and of comparisons, and those that are not made --------------------


def render_gallery(
    entries: Sequence[IndexEntry], missing: Mapping[str, tuple[str, Sequence[str]]]
) -> str:
    """HTML of the index of a gallery.

    `missing`: by name, pages that the recordings are not enough for, with the reason and the
    commands that make them elsewhere.
    """
    lead = (
        f"{len(entries)} pages, each one file that opens from disk. "
        "The numbers are those of the machine that each names."
    )
    groups = [
        {"entries": [entry], "title": "", "picture": entry.picture, "best": ""} for entry in entries
    ]
    parts = {"title": "Gallery", "crumb": "Replayed recordings", "lead": lead, "groups": groups}
    return render("index.html", parts | {"missing": missing})


def page_of_run(findings: Findings, file: str) -> IndexEntry:
    """Entry for the page of a run."""
    report = findings.report
    return IndexEntry(
        file=file,
        title=report.experiment.title,
        machines=(machine_name(report.environment),),
        dates=(report.execution.created,),
        answer=headline_text(findings),
        picture=_picture(findings),
    )


def _picture(findings: Findings) -> Markup | None:
    """Ratios to the baseline: of the versions of a ladder, else of the best of each problem."""
    if findings.ladder:
        return picture_of([(rung.ratio,) * 3 for rung in findings.ladder])
    winners = findings.ranking.deciding_winners
    values = [
        findings.numbers.duration(winners[problem.id].cell)
        for problem in findings.programs.problems
        if problem.id in winners
    ]
    return picture_of([(value.ratio,) * 3 for value in values])


def machine_name(environment: Environment) -> str:
    """GPU of a run, or its processor."""
    return environment.processor or "not recorded"


# ---- a line of a few numbers with their intervals, as large as two lines of text -----------------


_HEIGHT, _STEP, _EDGE, _WIDEST = 44.0, 22.0, 6.0, 150.0
_DOTS_FROM = 5.0
_MOST_POINTS = 144
"""Points of the newest runs that are drawn: more would be as close together as lines are wide."""


def small_line(points: Sequence[tuple[float, float, float]], label: str) -> Markup:
    """Inline SVG of `(low, value, high)` from left to right; lower is further down.

    The scale is that of what is shown, and has no labels: the words beside it say the numbers.
    """
    shown_points = points[-_MOST_POINTS:]
    bottom, top = min(low for low, _, _ in shown_points), max(high for _, _, high in shown_points)
    span = (top - bottom) or 1.0
    step = min(_STEP, (_WIDEST - 2 * _EDGE) / max(len(shown_points) - 1, 1))

    def height(value: float) -> str:
        return f"{_HEIGHT - _EDGE - (value - bottom) / span * (_HEIGHT - 2 * _EDGE):.1f}"

    parts = {
        "label": label,
        "width": f"{2 * _EDGE + step * (len(shown_points) - 1):.0f}",
        "height": f"{_HEIGHT:.0f}",
        "radius": "2.5" if step > _DOTS_FROM else "1",
        "points": [
            (f"{_EDGE + step * number:.1f}", *map(height, point))
            for number, point in enumerate(shown_points)
        ],
    }
    drawn = templates().get_template("small_line.html").render(parts)
    return Markup(drawn)  # noqa: S704 - the template escapes what is put into it
