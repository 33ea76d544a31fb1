"""Tables of plans and of commands that answer at once: nothing here loads pandas or matplotlib."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from profiler.comparison.run_entries import RunEntry, changes
from profiler.model import Plan, Problem, SearchPlan
from profiler.notices import counted, first_names
from profiler.planning.problem_names import distinct_values
from profiler.render.console.terminal import Paragraph, TextTable
from profiler.render.words import numbers
from profiler.render.words.signs import best_range, change_words

if TYPE_CHECKING:  # the module brings SciPy
    from profiler.search.replay import RecordedSpace, ReplaySummary, TargetSummary

_STATUS_STYLES = {"ok": "green", "warning": "yellow", "missing": "red"}


def doctor_table(checks: Iterable[tuple[str, str, str, str]]) -> RenderableType:
    """Show everything that a run needs, and what to do about what is not there.

    `checks`: of each what it is, its state, what was found and what to do.
    """
    listed = TextTable("Doctor")
    listed.add_columns("what")
    listed.add_columns("state", fixed=True)
    listed.add_columns("found", "what to do")
    for name, state, finding, remedy in checks:
        listed.add_row(name, Text(state, style=_STATUS_STYLES.get(state, "")), finding, remedy)
    return listed


def runs_table(runs: Sequence[RunEntry], left_out: int = 0) -> RenderableType:
    """Show runs as their index does: `runs` stand by experiment, the newest first.

    `left_out`: how many older ones are not among them.
    """
    if not runs:
        return Text("No runs here yet.")
    listed = TextTable("Runs")
    listed.add_columns("run", name=True)
    listed.add_columns("created", fixed=True, drop=4)
    listed.add_columns("GPU", drop=5)
    listed.add_columns("commit", fixed=True, drop=3)
    listed.add_columns("cells", right=True, drop=2)
    listed.add_columns("best \u00f7 baseline", right=True, drop=1)
    listed.add_columns("against the run before")
    listed.add_columns("answer", drop=6)
    for _, of_experiment in groupby(runs, lambda run: run.experiment):
        entries = tuple(of_experiment)
        changed = changes(entries)
        for run in entries:
            change = changed.get(run.folder)
            listed.add_row(
                *(
                    text or numbers.MISSING
                    for text in (run.folder, run.created, run.conditions.gpu)
                ),
                run.commit or numbers.MISSING,
                str(run.cells),
                best_range(run),
                Text(change_words(change), style="red" if change.slower else "")
                if change
                else Text(_kind_words(run)),
                run.answer.sentence or numbers.MISSING,
            )
    listed.add_rest_caption(left_out, "older run", ": name an experiment, or see --json")
    return listed


def _kind_words(run: RunEntry) -> str:
    """Kind of a run in place of a verdict, which only runs that were measured here have."""
    return numbers.MISSING if run.kind == "run" else run.kind


# ---- the table of a plan -------------------------------------------------------------------------


_MOST_PROBLEMS = 24
_MOST_VARIANTS = 24
_MOST_METRICS = 4


def plan_table(
    plan: Plan, launches: Iterable[tuple[str, int, int]], note: str, *, has_finalists: bool = False
) -> RenderableType:
    """Show what will be measured: cells, variants, exclusions, sessions, launches.

    `launches`: of each part its name, how many are expected, and how many at most; `note` stands
    under them. `has_finalists`: whether the sessions are what a search left.
    """
    names = [variant.name for variant in plan.variants]
    variants = Paragraph(f"Variants: {first_names(names, _MOST_VARIANTS)}.")
    parts: list[RenderableType] = [_problems_table(plan), variants, Text()]
    if plan.excluded:
        excluded = TextTable("Excluded")
        excluded.add_columns("reason", name=True)
        excluded.add_columns("what", fixed=True, drop=1)
        excluded.add_columns("count", right=True)
        excluded.add_columns("for example", drop=2)
        for exclusion in plan.excluded:
            examples = ", ".join(exclusion.examples)
            excluded.add_row(exclusion.reason, exclusion.stage, str(exclusion.count), examples)
        parts.append(excluded)
    if plan.search is not None:
        parts.append(_search_table(plan.search))
    after = "" if plan.search is None else " after the search"
    sessions = TextTable(f"Sessions{after}{', about' if after and not has_finalists else ''}")
    sessions.add_columns("session", "collector", fixed=True)
    sessions.add_columns("kind", fixed=True, drop=2)
    sessions.add_columns("visits", "blocks", right=True)
    sessions.add_columns("metrics", drop=1)
    for session in plan.sessions:
        sessions.add_row(
            session.name,
            session.collector,
            str(session.kind),
            str(len(session.visits)),
            str(len({visit.block for visit in session.visits})),
            first_names(session.metrics, _MOST_METRICS),
        )
    sessions.caption = _environments(plan)
    return Group(*parts, sessions, _launches_table(launches, note))


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
    table = TextTable("Search, by the timer")
    table.add_columns("strategy", fixed=True)
    table.add_columns("budget", "configurations", "problems", right=True)
    table.add_columns("objective", name=True)
    budget = f"{search.evaluations} evaluations" if search.evaluations else f"{search.seconds:g} s"
    configurations, problems = len(search.variants), len(search.problems)
    table.add_row(search.strategy, budget, str(configurations), str(problems), search.objective)
    if search.left_out:
        table.caption = f"{search.left_out} more cannot do every problem of the objective."
    return table


def _launches_table(launches: Iterable[tuple[str, int, int]], note: str) -> TextTable:
    """Number of launches of each part: as expected, and at most."""
    table = TextTable("Launches")
    table.add_columns("part")
    table.add_columns("expected", "at most", right=True)
    for part, expected, most in launches:
        table.add_row(part, str(expected), str(most))
    if note:
        table.caption = note
    return table


def _problems_table(plan: Plan) -> TextTable:
    """Problems with as many variants in a row; many problems by the values of their parameters."""
    table = TextTable(f"{plan.experiment}: {counted(len(plan.cells), 'cell')}, seed {plan.seed}")
    problems = {problem.id: problem for problem in plan.problems}
    counts = Counter(cell.problem.id for cell in plan.cells)
    if len(problems) <= _MOST_PROBLEMS:
        table.add_columns("problem", name=True)
        table.add_columns("variants", right=True)
        for identifier, problem in problems.items():
            table.add_row(problem.name, str(counts[identifier]))
        return table
    table.add_columns("problems", "with")
    table.add_columns("variants", right=True)
    for count in dict.fromkeys(counts.values()):
        group = [problem for problem in problems.values() if counts[problem.id] == count]
        table.add_row(str(len(group)), _values_of(group), str(count))
    return table


def _values_of(problems: Sequence[Problem]) -> str:
    """Parameters and the values that occur among problems: `m = 1, 2; n = 3`."""
    keys = dict.fromkeys(key for problem in problems for key in problem.params)
    holders = {key: [problem for problem in problems if key in problem.params] for key in keys}
    return "; ".join(
        f"{key} = {', '.join(str(value) for value in distinct_values(holders[key], key))}"
        for key in keys
    )


# ---- the replay of a search ----------------------------------------------------------------------


def replay_table(summary: ReplaySummary, recorded: RecordedSpace) -> TextTable:
    """Best so far by number of evaluations: median over the seeds."""
    table = TextTable("Best so far, median over the seeds")
    table.add_columns("evaluations", "best, ms", "of the best of all", right=True)
    for count, share in summary.best_so_far:
        if share is None:
            table.add_row(str(count), "all failed", "")
        else:
            table.add_row(str(count), f"{recorded.best_ms / share:.4g}", f"{100 * share:.1f} %")
    return table


def replay_lines(
    name: str, strategy: str, recorded: RecordedSpace, summary: ReplaySummary, seeds: int
) -> tuple[str, ...]:
    """Space, evaluations to each share of the best, and what a proposal cost."""
    lines = [
        f"{name}: {counted(len(recorded.space), 'configuration')}, {recorded.failed} of them "
        f"failed; the best takes {recorded.best_ms:.4g} ms."
    ]
    if recorded.unrecorded or recorded.foreign:
        lines.append(
            f"Left out: {counted(recorded.unrecorded, 'valid configuration')} without a record, "
            f"{counted(recorded.foreign, 'record')} that the space does not have."
        )
    if recorded.recorded_again:
        lines.append(
            f"{counted(recorded.recorded_again, 'record is', 'records are')} of "
            "configurations that have an earlier one: the last of each counts."
        )
    lines += [_target_line(strategy, target, seeds) for target in summary.targets]
    lines.append(
        f"Proposals: {summary.invalid} invalid, {summary.repeated} repeated; "
        f"{summary.median_proposal_ms:.2f} ms each in the median, at most "
        f"{summary.longest_proposal_ms:.1f} ms."
    )
    return tuple(lines)


def _target_line(strategy: str, target: TargetSummary, seeds: int) -> str:
    share = f"{100 * target.share:.0f} % of the best"
    if seeds == 1:
        count = target.median_evaluations
        return (
            f"{strategy} did not reach {share}."
            if count is None
            else f"{strategy} reached {share} after {counted(round(count), 'evaluation')}."
        )
    median = target.median_evaluations
    search_median = (
        "fewer than half of them"
        if median is None
        else f"{median:g} evaluation{'' if median == 1 else 's'} in the median"
    )
    return f"{strategy} reached {share} with {target.reached} of {seeds} seeds; {search_median}."
