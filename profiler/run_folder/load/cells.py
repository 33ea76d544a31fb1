"""What attempts say of cells: same programs, parts of commands, what a compiler's autotuner chose.

Each part of an external command is a problem of its own. A session compiles anew what it cannot
take from the compiler's cache, and configurations that take nearly as long are chosen by chance:
durations, counters and the explanation of a cell are then of several programs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from profiler.analyse.parts import RANGE
from profiler.analyse.samples import cell_of_part
from profiler.collect.registry import duration_metrics
from profiler.model import BuildResult, Cell, Params, Problem, SessionKind, TunedConfig
from profiler.planning.matrix import default_name, identify
from profiler.planning.spec.items import DEFAULT_PROBLEM
from profiler.run_folder.load.loaded import Loaded


def planned_cell(cell: str, planned: Set[str]) -> str:
    """The planned cell that a part of a command belongs to; itself where it is none."""
    name, dots, _ = cell.rpartition("..")
    while dots and cell not in planned and name not in planned:
        name, dots, _ = name.rpartition("..")
    return name if dots and cell not in planned else cell


def cells_of_parts(
    cells: Sequence[Cell], parts: Mapping[str, Params], measured: Set[str]
) -> tuple[Cell, ...]:
    """Cells of a plan, each replaced by one for each of its parts, in the order of the parts.

    `parts`: parameters by the cell ids of samples. A cell without any (it failed) has the parts of
    the other cells of its problem, so that each part says what became of it; of a cell that was
    measured, only its own.
    """
    planned = {cell.id for cell in cells}
    problem_of = {cell.id: cell.problem.id for cell in cells}
    parts_by_cell: dict[str, dict[str, Params]] = {cell: {} for cell in planned}
    parts_by_problem: dict[str, dict[str, Params]] = {}
    for sample_cell, params in parts.items():
        owner = planned_cell(sample_cell, planned)
        if owner in planned:
            parts_by_cell[owner][sample_cell] = params
            key = sample_cell.removeprefix(owner)
            parts_by_problem.setdefault(problem_of[owner], {}).setdefault(key, params)
    return tuple(
        part
        for cell in cells
        for part in _cells_of(
            cell,
            [params for id_, params in parts_by_cell[cell.id].items() if id_ in measured]
            or [*parts_by_problem.get(cell.problem.id, {}).values()],
        )
    )


def _cells_of(cell: Cell, parts: Sequence[Params]) -> Iterator[Cell]:
    if not parts:
        yield cell
    for params in parts:
        yield Cell(cell_of_part(cell.id, params), cell.variant, part_problem(cell.problem, params))


def part_problem(problem: Problem, params: Params) -> Problem:
    """The problem of a part: its parameters beside those of the problem that was planned.

    A name that the spec gave stays in front. Where ranges have a parameter that the problem has
    already, `range` holds theirs.
    """
    if problem.name == DEFAULT_PROBLEM:
        return Problem(identify(default_name(params), params), default_name(params), params)
    if problem.params.keys() & params.keys():
        params = {RANGE: default_name(params)}
    both = {**problem.params, **params}
    generated = problem.name == default_name(problem.params)
    name = default_name(both) if generated else f"{problem.name},{default_name(params)}"
    return Problem(identify(name, both), name, both)


def find_aliases(cells: Sequence[Cell], builds: Sequence[BuildResult]) -> Mapping[str, str]:
    """Id of the measured cell by the id of its alias: a later cell with the same program.

    Two cells are aliases where their variants are the same program and the problem is the same.
    """
    code = {build.variant: build.program for build in builds if build.ok and build.program}
    first: dict[tuple[str, str], str] = {}
    aliases: dict[str, str] = {}
    for cell in cells:
        program = code.get(cell.variant.id)
        if program is None:
            continue
        measured = first.setdefault((program, cell.problem.id), cell.id)
        if measured != cell.id:
            aliases[cell.id] = measured
    return aliases


@dataclass(frozen=True)
class TunedChoice:
    """One choice of the autotuner: a name where it chose between several makers, and settings."""

    choice: str
    config: Params


def tuned_by_cell(
    attempts: Sequence[Loaded],
) -> Mapping[str, tuple[tuple[TunedConfig, ...], tuple[str, ...]]]:
    """Configurations that an autotuner tried, and sessions that chose otherwise, by cell id.

    Tried by the session whose durations count, or by another where that one tuned nothing, which
    may be among those that chose otherwise. Cells without an autotuner are left out.
    """
    configs_by_cell: dict[str, list[tuple[str, tuple[TunedConfig, ...]]]] = defaultdict(list)
    for loaded in sorted(attempts, key=_priority):
        for cell, configs in loaded.tuned:
            configs_by_cell[cell].append((loaded.attempt.record.session, configs))
    return {cell: _tuned(sessions) for cell, sessions in configs_by_cell.items()}


def _tuned(
    sessions: Sequence[tuple[str, tuple[TunedConfig, ...]]],
) -> tuple[tuple[TunedConfig, ...], tuple[str, ...]]:
    first = sessions[0][0]
    # The attempt that compiled tells of everything that it tried; later ones find the winner.
    configs = max((tried for session, tried in sessions if session == first), key=len)
    timed = choices_by_operation(configs)
    otherwise = (name for name, tried in sessions if choices_by_operation(tried) != timed)
    return configs, tuple(dict.fromkeys(otherwise))


def choices_by_operation(tried: Iterable[TunedConfig]) -> dict[str, tuple[TunedChoice, ...]]:
    """Configurations that run, by operation; those of kernels of one name in a fixed order."""
    choices: dict[str, tuple[TunedChoice, ...]] = {}
    for config in tried:
        if config.best:
            choice = TunedChoice(config.choice, config.config)
            choices[config.operation] = (*choices.get(config.operation, ()), choice)
    return {name: tuple(sorted(made, key=str)) for name, made in choices.items()}


def _priority(loaded: Loaded) -> tuple[bool, int]:
    """Key to sort attempts by: timing sessions first, that of the primary timer before others."""
    record = loaded.attempt.record
    timers = list(duration_metrics())
    place = timers.index(record.collector) if record.collector in timers else len(timers)
    return record.kind != SessionKind.TIMING.value, place
