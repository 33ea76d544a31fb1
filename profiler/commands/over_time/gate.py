"""`profiler gate`: this commit against the merge base, side by side on this machine, for CI."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.commands.requests import GateRequest, RunRequest
from profiler.commands.targets import write_for_flag
from profiler.errors import ExitCode, ProfilerError, UsageError
from profiler.exports.comment import CommentSite, comment_site

if TYPE_CHECKING:
    from profiler.commands.revisions import MeasuredRevisions
    from profiler.findings.gates import Gate
    from profiler.history.trends import History
    from profiler.render.words.gate import GateAnswer, GateRow
    from profiler.revisions.repository import Repository
    from profiler.sessions.progress import ProgressReporter

_SHARED = ("spec", "only", "settings", "timer", "fast", "device", "budget_s", "out", "color")
"""Fields that a request to run has, too."""
_BASES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")


def gate(request: GateRequest) -> ExitCode:
    """Measure, print and comment; GATE_TRIPPED where a cell is SLOWER beyond the threshold."""
    # First of all: nothing that is started below shall find the token in its environment.
    site = None if request.comment is None else comment_site(request.comment, os.environ)
    from profiler.commands.revisions import measure_revisions
    from profiler.findings.gates import parse_gate
    from profiler.render.words.gate import gate_markdown
    from profiler.revisions.repository import Repository
    from profiler.sessions.progress import ProgressReporter

    threshold = parse_gate(request.fail_on)
    reporter = ProgressReporter.for_terminal(color=request.color, quiet=request.quiet)
    repository = Repository.of(request.spec)
    base = _base(repository, request, os.environ)
    to_run = RunRequest(**{name: getattr(request, name) for name in _SHARED})
    measured = measure_revisions(to_run, [base, request.head], reporter)
    answer = _answer(measured, threshold, request)
    text = gate_markdown(answer)
    _print(answer, text, request, reporter)
    if site is not None:
        _comment(site, answer, text, reporter)
    return ExitCode.GATE_TRIPPED if answer.tripped else ExitCode.COMPLETE


def _base(repository: Repository, request: GateRequest, environment: Mapping[str, str]) -> str:
    """Commit to measure against; raises UsageError where there is none but HEAD itself."""
    if request.base is not None:
        return repository.commit(request.base).hash
    targets = [environment.get(name) for name in ("GITHUB_BASE_REF", _GITLAB_TARGET)]
    head = repository.commit(request.head).hash
    for target in (*(f"origin/{target}" for target in targets if target), *_BASES):
        try:
            base: str = repository.merge_base(target, head).hash
        except UsageError:
            continue
        if base != head:
            return base
    raise UsageError(
        f"{request.head}: there is no branch that it was made from, or it is that branch",
        remedy="Name what to measure against with --base, such as HEAD~1; in CI fetch the history.",
    )


_GITLAB_TARGET = "CI_MERGE_REQUEST_TARGET_BRANCH_NAME"


def _answer(measured: MeasuredRevisions, threshold: Gate, request: GateRequest) -> GateAnswer:
    from profiler.commands.run import left_out_words
    from profiler.render.words.gate import GateAnswer, control_sentences
    from profiler.sessions.experiment_files import load_experiment

    run = measured.run
    experiment = load_experiment(request.spec).experiment.name
    rows = tuple(_rows(measured, threshold))
    controls: tuple[str, ...] = ()
    if run is not None:
        floors = [pair.verdict.noise_floor for pair in measured.comparisons]
        known = [floor for floor in floors if math.isfinite(floor)]
        history = _history(measured, experiment, request.out)
        controls = tuple(control_sentences(rows, max(known, default=None), history))
    environment = None if run is None else run.findings.report.environment
    return GateAnswer(
        experiment=experiment,
        base=measured.commits[0].words,
        head=measured.commits[-1].words,
        machine=(environment and (environment.gpu or environment.cpu)) or "no machine",
        threshold=f"{threshold.percent:g}\u202f%" if threshold.percent else "its margin",
        rows=rows,
        same=measured.same,
        left_out=left_out_words(run.left_out) if run is not None and run.left_out else "",
        controls=controls,
    )


def _rows(measured: MeasuredRevisions, threshold: Gate) -> Iterator[GateRow]:
    """Every comparison of the newest revision with the oldest; what trips is marked."""
    import pandas as pd

    from profiler.findings.gates import JUDGED_COLUMNS, regressions
    from profiler.render.words.gate import GateRow

    judged = [(pair.new.id, pair.verdict) for pair in measured.comparisons]
    rows = [(cell, pair.verdict, pair.ratio, pair.low, pair.high) for cell, pair in judged]
    table = pd.DataFrame(rows, columns=["cell", *JUDGED_COLUMNS]).astype({"verdict": object})
    trips = set(regressions(table, threshold)["cell"])
    for pair in measured.comparisons:
        yield GateRow(pair.variant, pair.problem, pair.verdict, trips=pair.new.id in trips)


def _history(measured: MeasuredRevisions, experiment: str, out: Path) -> History | None:
    """Earlier runs of the experiment on such a machine, but those of the commit that is judged.

    None where there are none to read.
    """
    from profiler.commands.over_time.answers import answers_of_folder
    from profiler.history.store import Store
    from profiler.history.trends import find_history
    from profiler.run_folder.folder import RunFolder

    run, head = measured.run, measured.commits[-1].hash
    if run is None:
        return None
    try:
        here = answers_of_folder(RunFolder(run.folder), run.document, out).run
        earlier = [
            of_run
            for of_run in Store.beside(out).answers(experiment, here.metric)
            if not (of_run.run.commit and head.startswith(of_run.run.commit.rstrip("+")))
        ]
        return find_history(earlier, here.metric, here.machine)
    except (OSError, ProfilerError):
        return None


def _print(answer: GateAnswer, text: str, request: GateRequest, reporter: ProgressReporter) -> None:
    """Print the answer, or the Markdown where that goes to stdout."""
    if request.markdown_target is not None:
        write_for_flag("--markdown", request.markdown_target, (text,))
    if request.markdown_target == "-":
        return
    from profiler.render.words.gate import plain_lines

    for line in plain_lines(answer):
        reporter.results.print(line, markup=False, soft_wrap=True)


def _comment(site: CommentSite, answer: GateAnswer, text: str, reporter: ProgressReporter) -> None:
    """Put the comment; one that cannot be put changes nothing of what was measured."""
    from profiler.render.words.gate import gate_marker

    try:
        reporter.say(f"Comment: {site.put(gate_marker(answer.experiment), text)}")
    except ProfilerError as error:
        reporter.warn(f"No comment was written: {error}")
