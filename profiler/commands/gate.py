"""`profiler gate`: this commit against the merge base, side by side on this machine, for CI."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.commands.output import write_for_flag
from profiler.commands.requests import GateRequest, run_request
from profiler.errors import ExitCode, ProfilerError, UsageError
from profiler.exports.comment import CommentSite, comment_site

if TYPE_CHECKING:
    from profiler.commands.compare import MeasuredRevisions
    from profiler.commands.run import WrittenRun
    from profiler.findings.gates import Gate
    from profiler.history.answers import HistoryRun
    from profiler.history.trends import History
    from profiler.render.words.gate import GateAnswer
    from profiler.revisions.repository import Repository
    from profiler.sessions.progress import ProgressReporter

_BASES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")


def gate(request: GateRequest) -> ExitCode:
    """Measure, print and comment; GATE_TRIPPED where a cell is SLOWER beyond the threshold.

    Else SOME_CELLS_FAILED where the head has no right result of a cell, and the base has one, or
    where no cell has a right result at both.
    """
    # First of all: no process started below may find the token in its environment.
    site = None if request.comment is None else comment_site(request.comment, os.environ)
    from profiler.commands.compare import measure_revisions
    from profiler.findings.gates import parse_gate
    from profiler.render.words.gate import gate_markdown
    from profiler.revisions.repository import Repository
    from profiler.revisions.versions import require_experiment
    from profiler.run_folder.runs import require_folder
    from profiler.sessions.progress import ProgressReporter

    threshold = parse_gate(request.fail_on)
    require_folder(request.out)
    reporter = ProgressReporter.for_terminal(color=request.color, quiet=request.quiet)
    repository = Repository.of(request.spec)
    require_experiment(repository, repository.commit(request.head), request.spec)
    base = _base(repository, request, os.environ)
    measured = measure_revisions(
        run_request(request), [base, request.head], reporter, with_baseline=True
    )
    answer = _answer(measured, threshold, request)
    text = gate_markdown(answer)
    _print(answer, text, request, reporter)
    if site is not None:
        _comment(site, answer, text, reporter)
    if answer.tripped:
        return ExitCode.GATE_TRIPPED
    if answer.failed or answer.compared_none:
        return ExitCode.SOME_CELLS_FAILED
    return ExitCode.COMPLETE


def _base(repository: Repository, request: GateRequest, environment: Mapping[str, str]) -> str:
    """Commit to measure against; raises UsageError where only HEAD itself is found."""
    if request.base is not None:
        return repository.commit(request.base).hash
    targets = [environment.get(name) for name in ("GITHUB_BASE_REF", _GITLAB_TARGET)]
    branches = tuple(f"origin/{target}" for target in targets if target) or _BASES
    head = repository.commit(request.head).hash
    for target in branches:
        try:
            base: str = repository.merge_base(target, head).hash
        except UsageError:
            continue
        if base != head:
            return base
    raise UsageError(
        f"{request.head}: has no older commit in common with {' or '.join(branches)}",
        remedy="Name what to measure against with --base, such as HEAD~1; in CI fetch the history.",
    )


_GITLAB_TARGET = "CI_MERGE_REQUEST_TARGET_BRANCH_NAME"


def _answer(measured: MeasuredRevisions, gate: Gate, request: GateRequest) -> GateAnswer:
    from profiler.commands.run import left_out_words
    from profiler.render.words.gate import GateAnswer

    run = measured.run
    environment = None if run is None else run.findings.report.environment
    return GateAnswer(
        experiment=measured.experiment,
        base=measured.commits[0].line,
        head=measured.commits[-1].line,
        machine=(environment and environment.processor) or "no machine",
        gate=gate,
        rows=measured.comparisons,
        unchanged=measured.unchanged,
        unmatched=measured.unmatched,
        lacking=measured.lacking,
        left_out=left_out_words(run.left_out) if run is not None and run.left_out else "",
        history=_history(measured, request.out),
    )


def _history(measured: MeasuredRevisions, out: Path) -> History | None:
    """History of the experiment on this kind of machine, without runs of the judged commit.

    None where there are none to read. The base becomes a run of the history: it is what the branch
    has. The head does not: nobody knows yet whether it will be.
    """
    from profiler.history.store import Store
    from profiler.history.trends import find_history

    if measured.run is None:
        return None
    store, head = Store.beside(out), measured.commits[-1].hash
    try:
        base = _answers_of_base(measured, measured.run, out)
        earlier = [
            run
            for run in store.answers(measured.experiment, base.metric)
            if not (run.commit and head.startswith(run.commit.rstrip("+")))
        ]
        if base.baseline is not None:
            store.add([base])
        return find_history(earlier, base.metric, base.machine)
    except (OSError, ProfilerError):
        return None


def _answers_of_base(measured: MeasuredRevisions, run: WrittenRun, out: Path) -> HistoryRun:
    """The oldest revision of a session as a run of its own, with its answers.

    It is a run of the experiment; without a baseline where the experiment's own was not
    among what was measured.
    """
    from profiler.commands.answers import answers_of_folder
    from profiler.history.answers import SHORT_COMMIT
    from profiler.run_folder.folder import RunFolder

    session = answers_of_folder(RunFolder(run.folder), run.document, out)
    answers = (
        answer._replace(cell=base_cell.id, variant=base_cell.variant.name)
        for answer in session.answers
        if (base_cell := measured.base_cells.get(answer.cell)) is not None
    )
    return replace(
        session,
        experiment=measured.experiment,
        source="gate",
        commit=measured.commits[0].hash[:SHORT_COMMIT],
        baseline=measured.baseline,
        answers=tuple(answers),
    )


def _print(answer: GateAnswer, text: str, request: GateRequest, reporter: ProgressReporter) -> None:
    """Print the answer; the Markdown instead where it goes to stdout."""
    if request.markdown_target is not None:
        write_for_flag("--markdown", request.markdown_target, (text,))
    if request.markdown_target == "-":
        return
    from profiler.render.words.gate import plain_lines

    for line in plain_lines(answer):
        reporter.results.print(line)


def _comment(site: CommentSite, answer: GateAnswer, text: str, reporter: ProgressReporter) -> None:
    """Post the comment; a failure to post only prints a warning."""
    from profiler.render.words.gate import gate_marker

    try:
        reporter.say(f"Comment: {site.put(gate_marker(answer.experiment), text)}")
    except ProfilerError as error:
        reporter.warn(f"No comment was written: {error}")
