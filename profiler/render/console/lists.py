"""Tables of plans and of commands that answer at once: nothing here loads pandas or matplotlib."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Protocol

from rich.console import Group, RenderableType
from rich.text import Text

from profiler.comparison.run_entries import RunEntry
from profiler.findings.runs.history import changes
from profiler.model import Plan, Problem, SearchPlan
from profiler.planning.problem_names import distinct
from profiler.render.console.terminal import (
    Paragraph,
    TextTable,
    add_rest_caption,
    columns,
    plain,
    table,
)
from profiler.render.console.terminal import table as make_table
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


# ---- the table of a plan -------------------------------------------------------------------------


_MOST_PROBLEMS = 24
_MOST_VARIANTS = 24
_MOST_METRICS = 4


class LaunchCount(Protocol):
    """Number of launches of a part of a plan."""

    @property
    def part(self) -> str: ...  # noqa: D102 - the name says it
    @property
    def expected(self) -> int: ...  # noqa: D102
    @property
    def most(self) -> int: ...  # noqa: D102


def plan_table(
    plan: Plan, launches: Iterable[LaunchCount], note: str, *, has_finalists: bool = False
) -> RenderableType:
    """Show what will be measured: cells, variants, exclusions, sessions, launches.

    `note` stands under the launches; `has_finalists`: whether the sessions are what a search left.
    """
    names = [variant.name for variant in plan.variants]
    variants = Paragraph(f"Variants: {_folded(names, _MOST_VARIANTS)}.")
    parts: list[RenderableType] = [_problems_table(plan), variants, Text()]
    if plan.excluded:
        excluded = make_table("Excluded")
        columns(excluded, "reason", name=True)
        columns(excluded, "what", fixed=True, drop=1)
        columns(excluded, "count", right=True)
        columns(excluded, "for example", drop=2)
        for exclusion in plan.excluded:
            examples = plain(", ".join(exclusion.examples))
            excluded.add_row(
                plain(exclusion.reason), exclusion.stage, str(exclusion.count), examples
            )
        parts.append(excluded)
    if plan.search is not None:
        parts.append(_search_table(plan.search))
    after = "" if plan.search is None else " after the search"
    sessions = make_table(f"Sessions{after}{', about' if after and not has_finalists else ''}")
    columns(sessions, "session", "collector", fixed=True)
    columns(sessions, "kind", fixed=True, drop=2)
    columns(sessions, "visits", "blocks", right=True)
    columns(sessions, "metrics", drop=1)
    for session in plan.sessions:
        sessions.add_row(
            session.name,
            session.collector,
            str(session.kind),
            str(len(session.visits)),
            str(len({visit.block for visit in session.visits})),
            plain(_folded(session.metrics, _MOST_METRICS)),
        )
    sessions.caption = _environments(plan)
    return Group(*parts, sessions, _launches_table(launches, note))


def _folded(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are: `--json` has all."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _environments(plan: Plan) -> str:
    """Sentence about variants that are measured in processes of their own; empty without any."""
    names: dict[str, list[str]] = {}
    for variant in plan.variants:
        env = " ".join(f"{name}={value}" for name, value in variant.env.items())
        names.setdefault(env or "without variables of their own", []).append(variant.name)
    if len(names) == 1 and not any(variant.env for variant in plan.variants):
        return ""
    listed = "; ".join(f"{env} ({', '.join(variants)})" for env, variants in names.items())
    return f"A process for each environment of a session: {listed}."


def _search_table(search: SearchPlan) -> TextTable:
    """Table of the search: its strategy, budget and objective."""
    table = make_table("Search, by CUDA events")
    columns(table, "strategy", fixed=True)
    columns(table, "budget", "configurations", "problems", right=True)
    columns(table, "objective", name=True)
    budget = f"{search.evaluations} evaluations" if search.evaluations else f"{search.seconds:g} s"
    configurations, problems = len(search.variants), len(search.problems)
    table.add_row(
        search.strategy, budget, str(configurations), str(problems), plain(search.objective)
    )
    if search.left_out:
        table.caption = f"{search.left_out} more cannot do every problem of the objective."
    return table


def _launches_table(launches: Iterable[LaunchCount], note: str) -> TextTable:
    """Number of launches of each part: as expected, and at most."""
    table = make_table("Launches")
    columns(table, "part")
    columns(table, "expected", "at most", right=True)
    for count in launches:
        table.add_row(count.part, str(count.expected), str(count.most))
    if note:
        table.caption = note
    return table


def _problems_table(plan: Plan) -> TextTable:
    """Problems with as many variants in a row; many problems by the values of their parameters."""
    count = len(plan.cells)
    cells = f"{count} cell{'' if count == 1 else 's'}"
    table = make_table(f"{plan.experiment}: {cells}, seed {plan.seed}")
    problems = {problem.id: problem for problem in plan.problems}
    counts = Counter(cell.problem.id for cell in plan.cells)
    if len(problems) <= _MOST_PROBLEMS:
        columns(table, "problem", name=True)
        columns(table, "variants", right=True)
        for identifier, problem in problems.items():
            table.add_row(plain(problem.name), str(counts[identifier]))
        return table
    columns(table, "problems", "with")
    columns(table, "variants", right=True)
    for count in dict.fromkeys(counts.values()):
        group = [problem for problem in problems.values() if counts[problem.id] == count]
        table.add_row(str(len(group)), plain(_values_of(group)), str(count))
    return table


def _values_of(problems: Sequence[Problem]) -> str:
    """Parameters and the values that occur among problems: `m = 1, 2; n = 3`."""
    keys = dict.fromkeys(key for problem in problems for key in problem.params)
    holders = {key: [problem for problem in problems if key in problem.params] for key in keys}
    return "; ".join(
        f"{key} = {', '.join(str(value) for value in distinct(holders[key], key))}" for key in keys
    )
