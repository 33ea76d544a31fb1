"""`profiler check`: measure an experiment, or read a run, and print the answer in 4 kB."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from profiler.commands.ahead import begun_ahead
from profiler.commands.output import write_json_target, write_stdout
from profiler.commands.requests import CheckRequest, run_request
from profiler.errors import SPEC_SUFFIXES, ExitCode, ProfilerError, UsageError
from profiler.findings.gates import parse_run_gate
from profiler.run_folder.folder import PAGE_FILE

if TYPE_CHECKING:
    from profiler.findings.brief import Checked
    from profiler.findings.findings import Findings
    from profiler.findings.gates import Bound, Gate
    from profiler.sessions.progress import ProgressReporter


def check(request: CheckRequest) -> ExitCode:
    """Print a run's first answer, or as JSON the facts that a program needs.

    An error stands in the JSON, too, before it ends the command.
    """
    from profiler.findings.brief import Checked

    try:
        checked = checked_by(request)
    except ProfilerError as error:
        _write(request, Checked(error.exit_code, error=error))
        raise
    if request.json_target != "-":
        write_stdout(f"{line}\n" for line in _lines(checked))
    _write(request, checked)
    return checked.exit_code


def _lines(checked: Checked) -> Iterator[str]:
    """The first answer, and the most frequent cause of failures."""
    from profiler.render.tables.failures import main_failure

    yield from checked.sentences
    if checked.findings is not None:
        yield from filter(None, [main_failure(checked.findings.programs)])


def _write(request: CheckRequest, checked: Checked) -> None:
    from profiler.findings.brief import brief

    write_json_target(brief(checked), request.json_target, compact=True)


def checked_by(request: CheckRequest) -> Checked:
    """Answer of a run, measured first where an experiment is given."""
    gate = None if request.fail_on is None else parse_run_gate(request.fail_on)
    is_spec = request.target.suffix in SPEC_SUFFIXES or ".py:" in request.target.name
    if request.referee is not None and not is_spec:
        raise UsageError(
            "The referee judges while it measures: a run has no candidate.",
            remedy="Name the Python file of the experiment (docs/referee.md), or leave out "
            "--referee.",
        )
    if not is_spec and (flags := request.measuring_flags):
        raise UsageError(
            f"{' and '.join(flags)}: only of an experiment, which is measured: {request.target} is "
            "a run, which is read as it is.",
            remedy=f"Leave out {' and '.join(flags)}, or name the file of the experiment.",
        )
    checked = _measured_answer(request, gate) if is_spec else _read_answer(request)
    if gate is None or checked.findings is None:
        return checked
    from profiler.commands.run import gated_exit_code

    code = gated_exit_code(checked.exit_code, checked.findings, gate, _reporter(request))
    return replace(checked, exit_code=code)


def _reporter(request: CheckRequest) -> ProgressReporter:
    from profiler.sessions.progress import ProgressReporter

    return ProgressReporter.for_terminal(color=request.color, quiet=True)


def _measured_answer(request: CheckRequest, gate: Gate | Bound | None) -> Checked:
    """Answer of an experiment, after its missing visits are measured."""
    to_run = run_request(request, spec=request.target, baseline=request.against, quiet=True)
    with begun_ahead(to_run) as begun_request:
        from profiler.commands.run import left_out_words, written_run

        run = written_run(begun_request, _reporter(request), gate)
    return _answer_of(
        run.exit_code,
        run.findings,
        page=None if run.page is None else str(run.page),
        left_out=left_out_words(run.left_out) if run.left_out else "",
    )


def _read_answer(request: CheckRequest) -> Checked:
    """Answer of a run that was measured before; nothing is written."""
    from profiler.commands.report import read_run
    from profiler.findings.find import find
    from profiler.run_folder.archive import find_run, open_run

    run = open_run(find_run(str(request.target), request.out))
    report = read_run(run, baseline=request.against, only=request.only)
    page = run.path / PAGE_FILE
    return _answer_of(
        report.exit_code,
        find(report),
        page=str(page) if run.archive is None and page.exists() else None,
    )


def _answer_of(
    exit_code: ExitCode, findings: Findings, *, page: str | None, left_out: str = ""
) -> Checked:
    from profiler.findings.brief import Checked
    from profiler.render.words.cards import first_answer
    from profiler.render.words.sentences import spoken

    sentences = tuple(map(spoken, first_answer(findings)))
    return Checked(exit_code, findings, sentences, page=page, left_out=left_out)
