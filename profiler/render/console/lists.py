"""Tables of the commands that answer at once: no module here loads pandas, scipy or matplotlib."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Protocol

from rich.console import RenderableType
from rich.text import Text

from profiler.comparison.run_entries import RunEntry
from profiler.findings.runs.history import changes
from profiler.render.console.terminal import add_rest_caption, columns, plain, table
from profiler.render.words import numbers
from profiler.render.words.verdict_words import best_range, change_words

_STATUS_STYLES = {"ok": "green", "warning": "yellow", "missing": "red"}


class DoctorCheck(Protocol):
    """One row of the doctor's table."""

    @property
    def name(self) -> str: ...  # noqa: D102 - the name says it
    @property
    def status(self) -> str: ...  # noqa: D102
    @property
    def detail(self) -> str: ...  # noqa: D102
    @property
    def remedy(self) -> str: ...  # noqa: D102


def doctor_table(checks: Iterable[DoctorCheck]) -> RenderableType:
    """Show everything that a run needs, and what to do about what is not there."""
    listed = table("Doctor")
    columns(listed, "what")
    columns(listed, "state", fixed=True)
    columns(listed, "found", "what to do")
    for check in checks:
        state = str(check.status)
        listed.add_row(
            plain(check.name),
            Text(state, style=_STATUS_STYLES.get(state, "")),
            plain(check.detail),
            plain(check.remedy),
        )
    return listed


def runs_table(runs: Sequence[RunEntry], left_out: int = 0) -> RenderableType:
    """Show runs as their index does: `runs` stand by experiment, the newest first.

    `left_out`: how many older ones are not among them.
    """
    if not runs:
        return Text("No runs here yet.")
    listed = table("Runs")
    columns(listed, "run", name=True)
    columns(listed, "created", fixed=True, drop=4)
    columns(listed, "GPU", drop=5)
    columns(listed, "commit", fixed=True, drop=3)
    columns(listed, "cells", right=True, drop=2)
    columns(listed, "best \u00f7 baseline", right=True, drop=1)
    columns(listed, "against the run before")
    columns(listed, "answer", drop=6)
    for _, of_experiment in groupby(runs, lambda run: run.experiment):
        entries = tuple(of_experiment)
        changed = changes(entries)
        for run in entries:
            change = changed.get(run.folder)
            listed.add_row(
                *(plain(text or numbers.MISSING) for text in (run.folder, run.created, run.gpu)),
                plain(run.commit or numbers.MISSING),
                str(run.cells),
                best_range(run),
                Text(change_words(change), style="red" if change.slower else "")
                if change
                else Text(_kind_words(run)),
                plain(run.answer or numbers.MISSING),
            )
    add_rest_caption(listed, left_out, "older runs: name an experiment, or see --json")
    return listed


def _kind_words(run: RunEntry) -> str:
    """What stands in place of a verdict: only runs that were measured here have one."""
    if run.recording:
        return "recording"
    return "replay" if run.replayed else numbers.MISSING
