"""`profiler explain`: why a cell takes as long as it does, or differs from another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from functools import partial

from profiler.commands.output import print_notices, write_json_target, write_stdout
from profiler.commands.report import read_run
from profiler.commands.requests import ExplainRequest
from profiler.errors import ExitCode, UsageError
from profiler.findings.find import find
from profiler.findings.findings import Findings
from profiler.findings.programs import Programs
from profiler.findings.why.document import explain_document, idle_document
from profiler.findings.why.find import find_why, idle_difference, pair_why
from profiler.findings.why.pairs import PairWhy
from profiler.machine.console import make_console
from profiler.model import Cell, Problem, Variant
from profiler.notices import NoticeKind
from profiler.planning.cell_filter import problems_called
from profiler.planning.spec import did_you_mean
from profiler.run_folder.archive import find_run, open_run

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
        NoticeKind.JOURNAL_LINES_LOST,
        NoticeKind.CSV_UNREADABLE,
        NoticeKind.CSV_TRUNCATED,
        NoticeKind.CSV_BAD_ROWS,
        NoticeKind.CSV_BAD_CELLS,
        NoticeKind.SOURCE_BAD_ROWS,
        NoticeKind.VISITS_LOST,
    }
)
"""Notices of unreadable data, without which a cause may be missing."""


def explain(request: ExplainRequest) -> ExitCode:
    """Print the explanation of the answer's pair, or of the cells that the request names."""
    from profiler.render.console.explain import COLUMNS, explain_text, idle_text

    findings = find(read_run(open_run(find_run(str(request.run), request.reports))))
    print_notices([n for n in findings.notices if n.kind in _OF_FILES], color="auto")
    idle = idle_difference(findings)
    if idle is not None and not find_why(findings).cells and request.names_nothing:
        document, text = idle_document(findings, idle), partial(idle_text, findings, idle)
    else:
        cell, pair = explained_pair(findings, request)
        cell_why = find_why(findings).cells[findings.programs.source(cell)]
        document = explain_document(findings, cell, pair)
        text = partial(explain_text, findings, cell, cell_why, pair)
    if request.json_target != "-":
        write_stdout((text(min(COLUMNS, make_console("auto").width)),))
    write_json_target(document, request.json_target, compact=True)
    return ExitCode.COMPLETE


def explained_pair(findings: Findings, request: ExplainRequest) -> tuple[Cell, PairWhy | None]:
    """The explained cell that a request names, and its pair with the cell to compare with.

    Raises UsageError where no cell was explained, or a named one was not.
    """
    if not find_why(findings).cells:
        raise UsageError(f"{request.run}: nothing was explained in this run.", remedy=_REMEDY)
    if request.names_nothing:
        answer = find_why(findings).answer
        if answer is not None:
            return answer.cell, answer
    variant = _full_name(findings.programs, request.variant)
    against = _full_name(findings.programs, request.against)
    place = _place(findings, request.problem, {variant, against} - {None})
    cell = (
        _named_cell(findings, place, variant)
        if variant
        else _default_cell(findings, place, against)
    )
    other_cell = (
        _named_cell(findings, place, against)
        if against
        else _explained_baseline(findings.programs, place, cell)
    )
    if other_cell is None:
        return cell, None
    if other_cell.id == cell.id:
        raise UsageError(
            f"'{cell.variant.name}' would be compared with itself.",
            remedy="Name two variants that were explained, or leave --against out.",
        )
    return cell, pair_why(findings, find_why(findings).cells, cell, other_cell)


def _full_name(programs: Programs, name: str | None) -> str | None:
    """Full name of a variant, given by its name, label or id.

    Raises UsageError where no variant has it, not even one with the machine code of another.
    """
    if name is None:
        return None
    variants = programs.plan.variants
    for variant in variants:
        if name in (variant.name, variant.label, variant.id):
            return variant.name
    names = [variant.name for variant in variants]
    raise UsageError(_sentence(f"No variant is called '{name}'{did_you_mean(name, names)}"))


def _sentence(text: str) -> str:
    return text if text.endswith("?") else f"{text}."


_Place = dict[str, Cell]
"""Cells of one problem that were explained, or that have the machine code of one that was, by the
full name of their variant."""


def _problem(place: _Place) -> Problem:
    """The problem of a place, which has at least one cell."""
    return next(iter(place.values())).problem


def _explained_cells(findings: Findings, place: _Place) -> list[Cell]:
    """Cells of a place with an explanation of their own."""
    explained = find_why(findings).cells
    return [cell for cell in place.values() if cell.id in explained]


def _named_cell(findings: Findings, place: _Place, name: str) -> Cell:
    """The cell of a variant; UsageError where it was not explained."""
    if name in place:
        return place[name]
    explained = ", ".join(cell.variant.name for cell in _explained_cells(findings, place))
    raise UsageError(
        f"'{name}' was not explained at {_problem(place).name}; these are: {explained}.",
        remedy=_REMEDY,
    )


def _place(findings: Findings, problem: str | None, names: Set[str | None]) -> _Place:
    """Place of the named problem, else the first place with every named variant.

    The answer's problem comes first, then the problem that takes longest.
    """
    places = sorted(_places(findings), key=partial(_order, findings))
    if problem is not None:
        called = problems_called(findings.programs.problems, problem)
        meant = [place for place in places if _problem(place) in called]
        if not meant:
            raise UsageError(_not_explained(problem, places, called), remedy=_REMEDY)
        places = meant
    return next((place for place in places if names <= place.keys()), places[0])


def _not_explained(problem: str, places: Sequence[_Place], called: Sequence[Problem]) -> str:
    """Sentence on a problem without explained cells; `called`: the problems of its name."""
    names = [_problem(place).name for place in places]
    hint = f"; at these: {', '.join(names)}" if called else did_you_mean(problem, names)
    return _sentence(f"No cell of problem '{problem}' was explained{hint}")


def _order(findings: Findings, place: _Place) -> tuple[bool, float]:
    problem, answer = _problem(place), find_why(findings).answer
    winner = findings.ranking.winners.get(problem.id)
    of_answer = answer is not None and problem == answer.cell.problem
    return not of_answer, -winner.value.median if winner else 0.0


def _places(findings: Findings) -> Iterator[_Place]:
    """Places with explained cells, in the order of the plan."""
    explained = find_why(findings).cells
    places: dict[str, _Place] = {problem.id: {} for problem in findings.programs.problems}
    for cell in findings.programs.plan.cells:
        if findings.programs.source(cell) in explained:
            places[cell.problem.id][cell.variant.name] = cell
    return (place for place in places.values() if _explained_cells(findings, place))


def _default_cell(findings: Findings, place: _Place, against: str | None) -> Cell:
    """Cell of the recommended variant if explained, else of the fastest that is no reference.

    Without such variants the fastest cell; the one to compare with only where it is alone.
    """
    cells = _explained_cells(findings, place)
    other_cells = [cell for cell in cells if cell.variant.name != against]
    rivals = [cell for cell in other_cells if cell.variant.id not in findings.programs.references]
    best = [cell for cell in rivals if cell.variant == findings.ranking.best]
    candidates = best or rivals or other_cells or cells
    return min(candidates, key=lambda cell: findings.numbers.duration(cell).median)


def _explained_baseline(programs: Programs, place: _Place, cell: Cell) -> Cell | None:
    """The baseline where it was explained; None without one."""
    baseline: Variant | None = programs.baseline
    if baseline is None or baseline == cell.variant:
        return None
    return place.get(baseline.name)
