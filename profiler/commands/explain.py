"""`profiler explain`: why a cell takes as long as it does, or differs from another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from profiler.commands.output import print_notices, write_json_target
from profiler.commands.report import read_run
from profiler.commands.targets import write_stdout
from profiler.comparison.find_run import find_run
from profiler.errors import ExitCode, UsageError
from profiler.findings.find import find
from profiler.findings.findings import Findings
from profiler.findings.why.document import explain_document
from profiler.findings.why.find import pair_why
from profiler.findings.why.pairs import PairWhy
from profiler.model import Cell, Problem, Variant
from profiler.notices import NoticeKind
from profiler.planning.problem_lookup import problems_called
from profiler.planning.spec import did_you_mean
from profiler.run_folder.folder import RunFolder
from profiler.sessions.progress import make_console

_REMEDY = (
    "Explain it with `--explain CELL|PROBLEM|all`, which needs ncu; the default is the fastest "
    "variant, the baseline and the fastest other reference."
)

_OF_FILES = frozenset(
    {
        NoticeKind.ATTEMPT_DAMAGED,
        NoticeKind.ATTEMPT_FILE_DAMAGED,
        NoticeKind.EXPLAINING_DIED,
        NoticeKind.JOURNAL_ODD,
        NoticeKind.CSV_UNREADABLE,
        NoticeKind.CSV_TRUNCATED,
        NoticeKind.CSV_BAD_ROWS,
        NoticeKind.CSV_BAD_CELLS,
        NoticeKind.SOURCE_BAD_ROWS,
    }
)
"""Notices of what could not be read: a cause may be missing for that."""


@dataclass(frozen=True)
class ExplainRequest:
    """Flags of `profiler explain`."""

    run: Path
    variant: str | None = None
    against: str | None = None
    problem: str | None = None
    json_target: str | None = None
    reports: Path = Path("reports")
    """Where runs are looked for by name."""


def explain(request: ExplainRequest) -> ExitCode:
    """Print the why of the pair that the answer is about, or of the cells that are named."""
    findings = find(read_run(RunFolder(find_run(str(request.run), request.reports))).report)
    print_notices([n for n in findings.notices if n.kind in _OF_FILES], color="auto")
    cell, pair = explained_pair(findings, request)
    why = findings.why.cells[cell.id]
    if request.json_target != "-":
        from profiler.render.console.explain import COLUMNS, explain_text

        columns = min(COLUMNS, make_console("auto").width)
        write_stdout((explain_text(findings, cell, why, pair, columns),))
    document = explain_document(findings, cell, why, pair)
    write_json_target(document, request.json_target, compact=True)
    return ExitCode.COMPLETE


def explained_pair(findings: Findings, request: ExplainRequest) -> tuple[Cell, PairWhy | None]:
    """The explained cell that a request names, and its pair with the one it is compared with.

    Raises UsageError where nothing was explained, or not what is named.
    """
    if not findings.why.cells:
        raise UsageError(f"{request.run}: nothing was explained in this run.", remedy=_REMEDY)
    if request.variant is None and request.against is None and request.problem is None:
        answer = findings.why.answer
        if answer is not None:
            return answer.cell, answer
    variant = _full_name(findings, request.variant)
    against = _full_name(findings, request.against)
    cells = _cells_of_problem(findings, request.problem, variant, against)
    cell = _named(cells, variant) if variant else _default(findings, cells, against)
    other = _named(cells, against) if against else _other(findings, cells, cell)
    if other is None:
        return cell, None
    if other.id == cell.id:
        raise UsageError(
            f"'{findings.names.full(cell.variant)}' would be compared with itself.",
            remedy="Name two variants that were explained, or leave --against out.",
        )
    return cell, pair_why(findings, findings.why.cells, cell, other)


def _full_name(findings: Findings, name: str | None) -> str | None:
    """Full name of the variant that is meant: by itself, by its short name or by its id."""
    for variant in findings.variants:
        full = findings.names.full(variant)
        if name in (full, variant.name, variant.id):
            return full
    return name


def _cells_of_problem(
    findings: Findings, problem: str | None, *names: str | None
) -> dict[str, Cell]:
    """Explained cells of one problem, by full name of their variant.

    That is the problem that is named, or the first that has every variant that is named.
    """
    wanted = [name for name in names if name]
    by_problem = [(other, _explained_at(findings, other)) for other in findings.problems]
    explained = [(other, cells) for other, cells in by_problem if cells]
    if problem is not None:
        called = problems_called(findings.problems, problem)
        explained = [pair for pair in explained if pair[0] in called]
        if not explained:
            problems = [other.name for other, cells in by_problem if cells]
            raise UsageError(
                f"No cell of problem '{problem}' was explained{did_you_mean(problem, problems)}.",
                remedy=_REMEDY,
            )
    complete = [cells for _, cells in explained if all(name in cells for name in wanted)]
    return complete[0] if complete else explained[0][1]


def _explained_at(findings: Findings, problem: Problem) -> dict[str, Cell]:
    cells = [findings.cells.get((variant.id, problem.id)) for variant in findings.variants]
    return {
        findings.names.full(cell.variant): cell
        for cell in cells
        if cell is not None and cell.id in findings.why.cells
    }


def _named(cells: dict[str, Cell], name: str) -> Cell:
    if name in cells:
        return cells[name]
    raise UsageError(
        f"'{name}' was not explained at this problem{did_you_mean(name, cells)}.", remedy=_REMEDY
    )


def _default(findings: Findings, cells: dict[str, Cell], against: str | None) -> Cell:
    """The variant to recommend where it was explained, else the fastest that is no reference.

    Without any of these the fastest; never the one that it is compared with, if there is another.
    """
    primary = findings.report.primary
    others = [cell for cell in cells.values() if findings.names.full(cell.variant) != against]
    rivals = [cell for cell in others if cell.variant.id not in findings.references]
    best = [cell for cell in rivals if cell.variant == findings.best]
    candidates = best or rivals or others or list(cells.values())
    return min(candidates, key=lambda cell: findings.value(cell, primary).median)


def _other(findings: Findings, cells: dict[str, Cell], cell: Cell) -> Cell | None:
    """The baseline where it was explained; None without one."""
    baseline: Variant | None = findings.baseline
    if baseline is None or baseline == cell.variant:
        return None
    return cells.get(findings.names.full(baseline))
