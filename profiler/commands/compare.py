"""`profiler compare`: runs of other days, commits, drivers or GPUs against each other.

And revisions of an experiment in one session: `compare HEAD~1 HEAD mine.py`, gates, bisections.

    measured = measure_revisions(request, ["HEAD~1", "HEAD"], reporter)

`request` is what `run` would be asked for the experiment in the working tree (spec, --only, --set,
--fast, out, …); revisions are whatever git takes, `.` being the tracked files as they lie there,
the oldest first. What comes back has the commits, the run with its folder and page (variants are
named by the short hash of their commit, behind the variant's own name where there are several),
the variants that are made of the same sources, and each comparison of the newest with the oldest.
`Repository.of(spec).merge_base("main", "HEAD")` gives the commit that a gate measures against.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.commands.output import (
    default_page,
    print_notices,
    require_page,
    write_json_target,
    write_page,
)
from profiler.commands.requests import CompareRequest, RunRequest, run_request
from profiler.errors import SPEC_SUFFIXES, ExitCode, ProfilerError, UsageError, nearest_file
from profiler.findings.gates import Gate, RevisionComparison, parse_gate
from profiler.machine.console import make_console
from profiler.model import slug
from profiler.notices import counted, first_names
from profiler.revisions.experiment import version_name, write_experiment
from profiler.revisions.repository import WORKING_TREE, Commit, Repository
from profiler.revisions.versions import (
    Version,
    lacking_words,
    lacks_experiment,
    read_version,
    same_sources,
    shared_variants,
    source_changes,
)
from profiler.run_folder.runs import require_folder
from profiler.sessions.experiment_files import file_and_name
from profiler.sessions.progress import ProgressReporter

if TYPE_CHECKING:
    from rich.console import Console

    from profiler.commands.run import WrittenRun
    from profiler.comparison.compare import RunComparison
    from profiler.findings.findings import Findings
    from profiler.findings.verdicts import PairVerdict
    from profiler.model import Cell


def show_comparison(request: CompareRequest) -> ExitCode:
    """Print, and write as page and JSON, how runs differ; GATE_TRIPPED where the gate trips."""
    from profiler.comparison.compare import compare
    from profiler.comparison.document import comparison_document
    from profiler.comparison.runs import find_runs, read_runs
    from profiler.render.runs.page import comparison_tables

    option = next((name for name in request.runs if name.startswith("-")), None)
    if option is not None:
        raise UsageError(f"{option} is an option after --", remedy="Give it before the --.")
    gate = None if request.fail_on is None else parse_gate(request.fail_on)
    require_page(request.page, no_report=request.no_report)
    spec = experiment_of(request.runs)
    if spec is not None:
        return _compare_revisions(request, spec, gate)
    if flags := request.measuring_flags:
        raise UsageError(
            f"{' and '.join(flags)}: only of git revisions, which are measured: runs are compared "
            "as they were.",
            remedy=f"Leave out {' and '.join(flags)}, or name revisions and an experiment.",
        )
    try:
        folders = find_runs(request.runs, request.reports)
    except UsageError as error:
        error.remedy = _revisions_remedy(request.runs) or error.remedy
        raise
    comparison = compare(read_runs(folders, baseline=request.baseline, only=request.only))
    if request.json_target is not None:
        write_json_target(comparison_document(comparison, gate), request.json_target)
    console = make_console(request.color, stderr=request.json_target == "-")
    if request.json_target != "-":
        console.print(comparison_tables(comparison))
    print_notices(comparison.notices, request.color)
    if not request.no_report:
        _write_page(comparison, folders, request, console)
    return _exit_code(comparison, gate, request.color)


def experiment_of(texts: Sequence[str]) -> Path | None:
    """The experiment after the revisions of an argument list; None where all are runs.

    Raises UsageError for an experiment whose file is not there.
    """
    last = Path(texts[-1])
    file, _ = file_and_name(last)
    if file.suffix not in SPEC_SUFFIXES or file.is_dir():
        return None
    if not file.is_file():
        raise UsageError(f"{file}: there is no such file{nearest_file(file)}")
    return last


def _listed_revisions(texts: Sequence[str]) -> list[str]:
    """Revisions of an argument list, in which `main..HEAD` stands for both."""
    ranges = (text.split("..") if "..." not in text else [text] for text in texts)
    return [revision or "HEAD" for ends in ranges for revision in ends]


def _revisions_remedy(texts: Sequence[str]) -> str | None:
    """Remedy for git revisions without the experiment to measure; None for what is none of git."""
    revisions: list[str] = []
    for text in texts:
        with suppress(ProfilerError):
            if text != WORKING_TREE:
                Repository.of(Path()).commit(text)
                revisions.append(text)
    if not revisions:
        return None
    are = "is a git revision" if len(revisions) == 1 else "are git revisions"
    return (
        f"{' and '.join(revisions)} {are}; the experiment to measure is missing: "
        f"profiler compare {shlex.join(revisions)} EXPERIMENT.py"
    )


def _write_page(
    comparison: RunComparison, folders: Sequence[Path], request: CompareRequest, console: Console
) -> None:
    from profiler.render.runs.page import render_comparison

    name = slug("--".join(run.name for run in comparison.runs))
    target = request.page or default_page(request.reports / "compare" / f"{name}.html", folders)
    write_page(target, render_comparison(comparison), folders)
    console.print(f"Page: {target}")


def _exit_code(comparison: RunComparison, gate: Gate | None, color: str) -> ExitCode:
    """GATE_TRIPPED where a cell trips the gate, else SOME_CELLS_FAILED where one failed since.

    SOME_CELLS_FAILED, too, where no cell was measured in both runs. Cells are named on stderr, and
    how many were not judged.
    """
    from profiler.findings.gates import not_judged, regressions, tripped_message

    if gate is None:
        return ExitCode.COMPLETE
    cells = comparison.judged
    slower = regressions(cells, gate)
    message = tripped_message(slower, gate) if len(slower) else not_judged(cells, gate)
    changes = comparison.last.cells.items()
    lost = [
        cell for cell, change in changes if change.outcomes[0].correct and change.outcomes[1].failed
    ]
    is_measured = any(all(o.correct for o in change.outcomes) for _, change in changes)
    failed = f"--fail-on {gate}: {counted(len(lost), 'cell')} failed since: {first_names(lost)}."
    errors = make_console(color, stderr=True)
    for line in (message, failed if lost else ""):
        if line:
            errors.print(line, style="yellow")
    if len(slower):
        return ExitCode.GATE_TRIPPED
    return ExitCode.SOME_CELLS_FAILED if lost or not is_measured else ExitCode.COMPLETE


# ---- revisions, side by side in one session ------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MeasuredRevisions:
    """Revisions of an experiment, measured in one session."""

    experiment: str
    """Its name."""
    baseline: str | None
    """Id, in the experiment, of the variant that ratios of the run are to; None where the baseline
    of the experiment was not measured."""
    base_cells: Mapping[str, Cell]
    """Cells of the oldest revision in the experiment, by their ids in the session."""
    commits: tuple[Commit, ...]
    """The oldest first."""
    run: WrittenRun | None
    """The written run; None where no variant differs and nothing was measured."""
    unchanged: tuple[str, ...]
    """Names of the variants with unchanged sources, which were not measured."""
    unmatched: tuple[str, ...]
    """Variants, and cells of others, that either the oldest or the newest revision has."""
    comparisons: tuple[RevisionComparison, ...]
    lacking: str = ""
    """Sentence on revisions without the experiment's file; empty without any."""


def _compare_revisions(request: CompareRequest, spec: Path, gate: Gate | None) -> ExitCode:
    """Measure revisions of an experiment, and print how the newest differs from the oldest.

    Returns GATE_TRIPPED where a cell of the newest is slower than the gate allows.
    """
    require_folder(request.reports, "--reports")
    revisions = _listed_revisions(request.runs[:-1])
    if len(revisions) == 1:
        revisions.append(WORKING_TREE)
    from profiler.commands.run import print_results

    to_run = run_request(request, spec=spec, out=request.reports, json_target=request.json_target)
    reporter = ProgressReporter.for_terminal(color=request.color, quiet=request.quiet)
    measured = measure_revisions(to_run, revisions, reporter)
    if measured.run is None:
        say = reporter.warn if request.json_target == "-" else reporter.results.print
        say("No variant that these revisions have in common differs: nothing was measured.")
        return ExitCode.COMPLETE
    print_results(measured.run, to_run, reporter)
    if request.page is not None and measured.run.page is not None:
        write_page(request.page, measured.run.page.read_text("utf-8"))
    lines = [_comparison_line(comparison) for comparison in measured.comparisons]
    if len(lines) > 1 and request.json_target != "-":
        for line in lines:
            reporter.results.print(line)
    slower = [c for c in measured.comparisons if gate is not None and c.trips(gate)]
    for comparison in slower:
        reporter.warn(f"--fail-on {gate}: {_comparison_line(comparison)}")
    return ExitCode.GATE_TRIPPED if slower else measured.run.exit_code


def _comparison_line(comparison: RevisionComparison) -> str:
    """Variant and problem, verdict, and the ratio of the newest revision to the oldest."""
    from profiler.render.words.numbers import interval, ratio

    pair, place = comparison.pair, f"{comparison.variant}, {comparison.problem}"
    shown = f" {ratio(pair.ratio)} {interval(pair.low, pair.high)}".rstrip()
    return f"{place}: {comparison.verdict.word}{shown if math.isfinite(pair.ratio) else ''}"


def measure_revisions(
    request: RunRequest,
    revisions: Sequence[str],
    reporter: ProgressReporter,
    *,
    with_baseline: bool = False,
) -> MeasuredRevisions:
    """Two or more revisions of an experiment, measured interleaved in one session.

    `with_baseline`: also measure an unchanged baseline, beside changed variants. Raises
    UsageError for a revision that does not exist, SpecError for an experiment that is wrong at one
    of them, and what `written_run` raises.
    """
    repository = Repository.of(request.spec)
    commits = tuple(repository.commit(revision) for revision in revisions)
    overrides, only = request.overrides, request.only
    versions = [
        read_version(repository, commit, request.spec, request.out, overrides=overrides, only=only)
        for commit in commits
    ]
    without = [commit for commit in commits if lacks_experiment(repository, commit, request.spec)]
    lacking = lacking_words(without, request.spec)
    if lacking:
        reporter.warn(lacking)
    measured = measure_versions(
        request, repository, versions, reporter, with_baseline=with_baseline
    )
    if measured.run is None and len(without) == len(commits):
        raise UsageError(
            f"{request.spec}: is in none of these revisions, and nothing else differs between them",
            remedy="`git add` and commit it; what git does not track is the same at all of them.",
        )
    return replace(measured, lacking=lacking)


def measure_versions(
    request: RunRequest,
    repository: Repository,
    versions: Sequence[Version],
    reporter: ProgressReporter,
    *,
    with_baseline: bool = False,
) -> MeasuredRevisions:
    """Versions of an experiment, measured like `measure_revisions`."""
    from profiler.commands.run import written_run

    commits = tuple(version.commit for version in versions)
    unchanged = same_sources(versions)
    shared = shared_variants(versions)
    changed = [name for name in shared if name not in unchanged]
    oldest, newest = (
        {(cell.variant.name, cell.problem.id): cell for cell in version.cells}
        for version in (versions[0], versions[-1])
    )
    if not (shared and oldest.keys() & newest.keys()):
        raise UsageError(
            f"{commits[0].short} and {commits[-1].short} have no cell in common",
            remedy="Variants are told apart by their names, problems by their parameters.",
        )
    at_one = dict.fromkeys(
        f"{variant} at {cell.problem.name}" if variant in shared else variant
        for (variant, problem), cell in (oldest | newest).items()
        if (variant, problem) not in oldest or (variant, problem) not in newest
    )
    unmatched = tuple(at_one)
    if unmatched:
        reporter.say(f"Not compared, at one of these revisions alone: {first_names(unmatched)}.")
    for name, digest in versions[-1].installed.items():
        if any(version.installed.get(name, digest) != digest for version in versions):
            raise UsageError(
                f"{name} differs between these revisions, and is imported from outside of the "
                "experiment's folder: each of them would run the same files",
                remedy=f"Put the experiment into the folder that {name} lies in.",
            )
    baseline = versions[0].baseline
    adds_baseline = with_baseline and bool(changed)
    variants = [
        name for name in shared if name in changed or (adds_baseline and name == baseline.name)
    ]
    unchanged = tuple(name for name in unchanged if name not in variants)
    if unchanged:
        reporter.say(f"Not measured, the same sources at these revisions: {', '.join(unchanged)}.")
    experiment = versions[-1].loaded.experiment.name
    if not variants:
        return MeasuredRevisions(experiment, None, {}, commits, None, unchanged, unmatched, ())
    changes = source_changes(repository, versions)
    spec = write_experiment(versions, variants, request.out, changes)
    to_run = replace(
        request,
        spec=spec,
        # They were applied to the experiment of each revision, and are in the new one.
        settings=None,
        only=None,
        baseline=None,
        blocks=None,
    )
    run = written_run(to_run, reporter)
    cells = {
        (cell.variant.name, cell.problem.id): cell for cell in run.findings.programs.plan.cells
    }
    several = len(variants) > 1
    base_cells, comparisons = {}, []
    for base_cell in oldest.values():
        names = [version_name(base_cell.variant.name, at, several=several) for at in commits]
        old, new = (cells.get((name, base_cell.problem.id)) for name in (names[0], names[-1]))
        if old is None or new is None:
            continue
        base_cells[old.id] = base_cell
        if base_cell.variant.name in changed:
            verdict = pair_verdict(run.findings, new, old)
            names_in_report = base_cell.variant.name, new.problem.name
            failure = failure_of(run.findings, new) if run.findings.programs.correct(old) else ""
            failures = failure, failure_of(run.findings, old)
            comparisons.append(RevisionComparison(*names_in_report, old, new, verdict, *failures))
    return MeasuredRevisions(
        experiment=experiment,
        baseline=baseline.id if baseline.name in variants else None,
        base_cells=base_cells,
        commits=commits,
        run=run,
        unchanged=unchanged,
        unmatched=unmatched,
        comparisons=tuple(comparisons),
    )


def failure_of(findings: Findings, cell: Cell) -> str:
    """Outcome and cause of a cell that failed; else empty."""
    status = findings.programs.status(cell)
    return f"{status.outcome.value}: {status.cause}" if status.outcome.failed else ""


def pair_verdict(findings: Findings, new: Cell, old: Cell) -> PairVerdict:
    """Verdict on a cell against an older cell of its problem, or against the baseline's."""
    from profiler.findings.verdicts import NO_DATA

    both_correct = findings.programs.correct(old) and findings.programs.correct(new)
    return findings.verdicts.verdict_on(new, old) if both_correct else NO_DATA
