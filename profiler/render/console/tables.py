"""Tables for the terminal: each function takes data and gives something that rich can print.

Names of kernels and variants are shown as they are: rich's markup is never read from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import pandas as pd
from rich.console import Group, RenderableType
from rich.text import Text

from profiler.findings.findings import Findings
from profiler.metrics.labels import label
from profiler.model import BuildResult, KernelFacts, Plan, Problem, SearchPlan, Variant
from profiler.planning.problem_names import distinct
from profiler.render.console.run import run_tables
from profiler.render.console.terminal import Paragraph, TextTable
from profiler.render.console.terminal import add_rest_caption as _add_rest_caption
from profiler.render.console.terminal import columns as _columns
from profiler.render.console.terminal import plain as _plain
from profiler.render.console.terminal import table as _table
from profiler.render.tables.launches import group_launches
from profiler.render.tables.rows import build_state
from profiler.render.words import numbers
from profiler.render.words.answer import answer_of
from profiler.render.words.kernel_names import readable_kernel
from profiler.render.words.names import shorten
from profiler.render.words.searches import search_summary

_MOST_SENTENCES = 5
"""Sentences of the answer: the first four, and the last, on what was measured."""
_MOST_PROBLEMS = 24
_MOST_LAUNCH_GROUPS = 40
_MOST_LAUNCH_COLUMNS = 6
_LONGEST_KERNEL = 60


class LaunchCount(Protocol):
    """Number of launches of a part of a plan."""

    @property
    def part(self) -> str: ...  # noqa: D102 - the name says it
    @property
    def expected(self) -> int: ...  # noqa: D102
    @property
    def most(self) -> int: ...  # noqa: D102


def final_summary(findings: Findings, *, verbose: bool = False) -> RenderableType:
    """Sum up a run: the answer, one table and what failed; `verbose`: all sentences and tables."""
    sentences = answer_of(findings)
    if not verbose and len(sentences) > _MOST_SENTENCES:
        sentences = (*sentences[: _MOST_SENTENCES - 1], sentences[-1])
    answer = " ".join("".join(part.text for part in sentence) for sentence in sentences)
    search = findings.search
    missing = () if search is None else (Paragraph(search_summary(search)), Text())
    tables = run_tables(findings, verbose=verbose)
    return Group(Paragraph(answer, "bold"), Text(), *missing, *tables)


def build_table(builds: Sequence[BuildResult], variants: Sequence[Variant]) -> RenderableType:
    """Show the static facts of every kernel, and the compiler's words where a build failed."""
    names = {variant.id: variant.name for variant in variants}
    table = _table("Build")
    _columns(table, "variant", name=True)
    _columns(table, "registers", right=True)
    _columns(table, "spill stores", "spill loads", right=True, drop=2)
    _columns(table, "stack", "shared", right=True, drop=3)
    _columns(table, "kernel", drop=1)
    _columns(table, "state")
    for build in builds:
        for row, kernel in enumerate(build.kernels or (KernelFacts(""),)):
            name = names.get(build.variant, build.variant) if row == 0 else ""
            table.add_row(
                _plain(name),
                *(_fact(fact) for fact in _facts(kernel)),
                _plain(readable_kernel(kernel.name)),
                _build_state(build, names) if row == 0 else Text(""),
            )
    errors = [
        Text(f"{names.get(build.variant, build.variant)}: {build.error.strip()}", style="red")
        for build in builds
        if not build.ok
    ]
    return Group(table, *errors)


def _facts(kernel: KernelFacts) -> tuple[int | None, ...]:
    return (
        kernel.registers,
        kernel.spill_store_bytes,
        kernel.spill_load_bytes,
        kernel.stack_bytes,
        kernel.shared_bytes,
    )


def _fact(fact: int | None) -> str:
    return numbers.MISSING if fact is None else str(fact)


def _build_state(build: BuildResult, names: Mapping[str, str]) -> Text:
    return Text(build_state(build, names), style="" if build.ok else "red")


def plan_table(plan: Plan, launches: Iterable[LaunchCount], note: str) -> RenderableType:
    """Show what will be measured: cells by problem, exclusions with counts, sessions, launches.

    `note` stands under the launches.
    """
    parts: list[RenderableType] = [_problems_table(plan)]
    if plan.excluded:
        excluded = _table("Excluded")
        _columns(excluded, "reason", name=True)
        _columns(excluded, "what", fixed=True, drop=1)
        _columns(excluded, "count", right=True)
        _columns(excluded, "for example", drop=2)
        for exclusion in plan.excluded:
            examples = _plain(", ".join(exclusion.examples))
            excluded.add_row(
                _plain(exclusion.reason), exclusion.stage, str(exclusion.count), examples
            )
        parts.append(excluded)
    if plan.search is not None:
        parts.append(_search_table(plan.search))
    sessions = _table("Sessions" if plan.search is None else "Sessions after the search, about")
    _columns(sessions, "session", "collector", fixed=True)
    _columns(sessions, "kind", fixed=True, drop=2)
    _columns(sessions, "visits", "blocks", right=True)
    _columns(sessions, "metrics", drop=1)
    for session in plan.sessions:
        sessions.add_row(
            session.name,
            session.collector,
            str(session.kind),
            str(len(session.visits)),
            str(len({visit.block for visit in session.visits})),
            _plain(", ".join(session.metrics)),
        )
    return Group(*parts, sessions, _launches_table(launches, note))


def _search_table(search: SearchPlan) -> TextTable:
    """What is searched, and how."""
    table = _table("Search, by CUDA events")
    _columns(table, "strategy", fixed=True)
    _columns(table, "budget", "configurations", "problems", right=True)
    _columns(table, "objective", name=True)
    budget = f"{search.evaluations} evaluations" if search.evaluations else f"{search.seconds:g} s"
    configurations, problems = len(search.variants), len(search.problems)
    table.add_row(
        search.strategy, budget, str(configurations), str(problems), _plain(search.objective)
    )
    if search.left_out:
        table.caption = f"{search.left_out} more cannot do every problem of the objective."
    return table


def _launches_table(launches: Iterable[LaunchCount], note: str) -> TextTable:
    """Number of launches of each part: as expected, and at most."""
    table = _table("Launches")
    _columns(table, "part")
    _columns(table, "expected", "at most", right=True)
    for count in launches:
        table.add_row(count.part, str(count.expected), str(count.most))
    if note:
        table.caption = note
    return table


def _problems_table(plan: Plan) -> TextTable:
    """Problems with as many variants in a row; many problems by the values of their parameters."""
    table = _table(f"{plan.experiment}: {len(plan.cells)} cells, seed {plan.seed}")
    problems = {problem.id: problem for problem in plan.problems}
    counts = Counter(cell.problem.id for cell in plan.cells)
    if len(problems) <= _MOST_PROBLEMS:
        _columns(table, "problem", name=True)
        _columns(table, "variants", right=True)
        for identifier, problem in problems.items():
            table.add_row(_plain(problem.name), str(counts[identifier]))
        return table
    _columns(table, "problems", "with")
    _columns(table, "variants", right=True)
    for count in dict.fromkeys(counts.values()):
        group = [problem for problem in problems.values() if counts[problem.id] == count]
        table.add_row(str(len(group)), _plain(_values_of(group)), str(count))
    return table


def _values_of(problems: Sequence[Problem]) -> str:
    """Parameters and the values that occur among problems: `m = 1, 2; n = 3`."""
    keys = dict.fromkeys(key for problem in problems for key in problem.params)
    holders = {key: [problem for problem in problems if key in problem.params] for key in keys}
    return "; ".join(
        f"{key} = {', '.join(str(value) for value in distinct(holders[key], key))}" for key in keys
    )


def import_table(launches: pd.DataFrame) -> RenderableType:
    """Show imported launches, grouped by kernel, grid and block: medians of each group."""
    groups = group_launches(launches)
    shown = groups.shown[:_MOST_LAUNCH_COLUMNS]
    table = _table(f"{len(launches)} launches of {len(groups.rows)} kinds")
    _columns(table, "kernel", name=True)
    _columns(table, "grid", "block", fixed=True)
    _columns(table, "launches", right=True, drop=1)
    for place, name in enumerate(shown):
        _columns(table, label(name).label, right=True, drop=place)
    names = _kernel_names([row.kernel for row in groups.rows[:_MOST_LAUNCH_GROUPS]])
    for row in groups.rows[:_MOST_LAUNCH_GROUPS]:
        values = (numbers.show(row.medians.get(name), label(name).unit) for name in shown)
        table.add_row(
            _plain(names[row.kernel]),
            _plain(row.grid),
            _plain(row.block),
            str(row.count),
            *values,
        )
    _add_rest_caption(table, len(groups.rows) - _MOST_LAUNCH_GROUPS, "kinds are in the page")
    return table


def _kernel_names(kernels: Sequence[str]) -> dict[str, str]:
    """Names of kernels, shortened where no two of them become the same."""
    short = {kernel: shorten(kernel, _LONGEST_KERNEL) for kernel in kernels}
    counts = Counter(short.values())
    return {kernel: text if counts[text] == 1 else kernel for kernel, text in short.items()}
