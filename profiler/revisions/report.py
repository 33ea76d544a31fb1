"""Sentences on the result of a bisection."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from profiler.model import Verdict
from profiler.notices import first_names
from profiler.revisions.bisection import Bisection, CommitChange, State, Step
from profiler.revisions.repository import Commit

_MOST_FILES = 6
_NOTICED = 0.01
"""Share of the whole change that steps may leave unreported."""


@dataclass(frozen=True)
class StepAccount:
    """Account of a step: its cause, changed files and explanation."""

    cause: str
    files: tuple[str, ...]
    """Files that differ between the two commits."""
    why: tuple[str, ...]
    """Sentence of its session; empty where that was not explained."""
    page: str | None


def cause_of(before: str, after: str) -> str:
    """Cause of a step, by the programs of its commits.

    Both ran on one machine, under one driver, compiler and method: it is the code.
    """
    code = [program.partition(":")[0] for program in (before, after)]
    if not any(code):
        return "code: the sources of the variant differ"
    if code[0] != code[1]:
        return "code: the machine code differs"
    return "code: the machine code is the same, what launches it differs"


def bisection_lines(
    bisection: Bisection,
    history: Sequence[Commit],
    followed: tuple[str | None, str],
    accounts: Mapping[int, StepAccount],
    skipped: Mapping[int, str],
) -> Iterator[str]:
    """Lines of the answer; `followed`: the metric and the cell id, None where no cell changed.

    `accounts` by place of the commit after a step, `skipped`: reason by place.
    """
    cell, metric = followed
    first, last = bisection.ends
    ends_text = f"{history[last].short} against {history[first].short}"
    cell_text = "" if cell is None else f", {cell}"
    yield f"{ends_text}{cell_text}: {change_words(bisection.total_change, metric)}."
    culprits = bisection.culprits
    for number, step in enumerate(culprits):
        title = "Culprit" if not number else "A further culprit"
        yield from _step_lines(title, step, history, metric, accounts[step.after])
    for step in bisection.opposite_steps:
        yield from _step_lines("The other way", step, history, metric, accounts[step.after])
    for step in bisection.steps:
        if step.state is State.UNCLEAR:
            changed = f"whether {_commit_text(step, history)} changed it"
            yield f"{Verdict.UNCLEAR.word} {changed}: more blocks may tell."
        elif step.state is State.NOT_CONFIRMED:
            yield f"Not confirmed by a second session: {_commit_text(step, history)}."
    yield from _rest_lines(bisection, history)
    for place, reason in skipped.items():
        yield skipped_line(history[place], reason)


def sessions_line(sessions: int, measured_now: int) -> str:
    """Line on the number of sessions, of which earlier commands may have measured some."""
    earlier = sessions - measured_now
    return f"Sessions: {sessions}{f', {earlier} of them by earlier commands' if earlier else ''}."


def skipped_line(commit: Commit, reason: str) -> str:
    """Line on a skipped commit, with the line of its reason that names the error."""
    lines = reason.strip().splitlines() or [""]
    error = next((line for line in lines if "error" in line.lower()), lines[0])
    return f"Skipped: {commit.line}: {error.strip()}"


def _step_lines(
    title: str, step: Step, history: Sequence[Commit], metric: str, account: StepAccount
) -> Iterator[str]:
    yield f"{title}: {_commit_text(step, history)}"
    yield f"  {change_words(step.change, metric)} than {history[step.before].line}."
    yield f"  It is {account.cause}."
    if account.files:
        yield f"  Changed: {first_names(account.files, _MOST_FILES)}."
    for sentence in account.why:
        yield f"  {sentence}"
    if account.page:
        yield f"  Page: {account.page}"


def _commit_text(step: Step, history: Sequence[Commit]) -> str:
    """Text naming the commit of a step; all of them where commits between cannot be measured."""
    commits = history[step.before + 1 : step.after + 1]
    if len(commits) == 1:
        return commits[0].line
    return f"one of {len(commits)} commits, {commits[0].short} to {commits[-1].line}"


def _rest_lines(bisection: Bisection, history: Sequence[Commit]) -> Iterator[str]:
    if bisection.out_of_sessions:
        yield "The sessions that were allowed are used up; --sessions allows more."
    if bisection.total_change.verdict is Verdict.SAME:
        if bisection.ends == (0, len(history) - 1):
            yield (
                "Nobody is to blame: side by side on this machine both ends are the same. What "
                "differed elsewhere came from driver, machine, compiler, library or method: "
                "`profiler compare` of the two runs says which of these differ."
            )
        else:
            yield "What changed it may be among the commits at an end, which were skipped."
    elif bisection.total_change.differs and not bisection.out_of_sessions:
        remainder = bisection.remainder - 1
        if not bisection.steps:
            yield "No single commit changed it by more than the margin: it came in small steps."
        elif bisection.found == bisection.steps and abs(remainder) > max(
            _NOTICED, abs(bisection.total_change.ratio - 1) / 4
        ):
            yield f"These steps leave {100 * remainder:+.1f} % to others, each below the margin."


def change_words(change: CommitChange, metric: str) -> str:
    """`2.1 % slower [1.9, 2.3]`."""
    if not change.differs:
        return {
            Verdict.SAME: "the same",
            Verdict.UNCLEAR: "UNCLEAR",
        }.get(change.verdict, "not measured")
    slower = change.verdict is Verdict.SLOWER
    timed = metric == "duration_ns"
    word = ("slower" if slower else "faster") if timed else ("more" if slower else "less")
    metric_text = "" if timed else f" {metric}"
    interval_ends = sorted(abs(100 * (value - 1)) for value in (change.low, change.high))
    if not (change.ratio > 0 and math.isfinite(change.ratio)):
        return f"{word}{metric_text}, {'from' if slower else 'to'} 0"
    if change.ratio >= 2:
        times = f"{change.ratio:.2f}\N{MULTIPLICATION SIGN}"
        return f"{times} [{change.low:.2f}, {change.high:.2f}] {word}{metric_text}"
    percent = abs(100 * (change.ratio - 1))
    return f"{percent:.1f} % {word}{metric_text} [{interval_ends[0]:.1f}, {interval_ends[1]:.1f}]"
