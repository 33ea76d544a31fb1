"""Samples and statuses of a run's cells, for live runs and recordings alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pandas as pd

from profiler.analyse.cell_timeline import CellTimeline
from profiler.analyse.parts import RANGE
from profiler.analyse.range_counters import empty_range_visits
from profiler.analyse.samples import cell_of_part, command_cells, empty_samples, missing_metrics
from profiler.analyse.why.kernel_profiles import Launches
from profiler.analyse.witness import implausible_cells
from profiler.collect.registry import duration_metrics
from profiler.model import (
    BuildResult,
    Cell,
    CellFacts,
    CellStatus,
    Environment,
    Outcome,
    Params,
    Plan,
    Problem,
    SessionKind,
    TunedConfig,
    Tuning,
    UntimedWork,
)
from profiler.notices import Notice
from profiler.planning.matrix import default_name, identify
from profiler.planning.spec.items import DEFAULT_PROBLEM
from profiler.run_folder.load.details import joined_timelines
from profiler.run_folder.load.loaded import Loaded, add_description
from profiler.run_folder.load.notices import run_notices
from profiler.run_folder.load.throttling import (
    counting_attempts,
    session_repeats,
    throttling_notices,
)
from profiler.runner import protocol


@dataclass(frozen=True, eq=False)
class Results:
    """Samples, statuses and notices of the cells of a plan, from the attempts of a run."""

    cells: tuple[Cell, ...]
    """The plan's; for external commands, one per kernel, grid and block that was seen."""
    samples: pd.DataFrame
    statuses: Mapping[str, CellStatus]
    find_notices: Callable[[], tuple[Notice, ...]]
    """Not found before anybody asks: what is planned between two sessions has no use for them."""
    attributes: Mapping[str, str | float]
    """GPU attributes by the tool: `device__attribute_*`."""
    ranges: pd.DataFrame = field(default_factory=empty_range_visits)
    """Counters of ranges inside visits, with the columns of `range_counters.range_visits`."""
    timelines: Mapping[str, CellTimeline] = field(default_factory=dict)
    """Timelines by cell id, without aliases."""

    @cached_property
    def notices(self) -> tuple[Notice, ...]:
        """Notices for readers of the numbers."""
        return self.find_notices()


@dataclass(frozen=True)
class CellFailure:
    """Why a cell failed, and the time limit of its visit (None: not known)."""

    outcome: Outcome
    cause: str
    time_limit_s: float | None = None
    of_host: bool = False
    """Whether the host kept the session from writing, opening files or allocating."""

    def is_lasting(self, time_limit_s: float) -> bool:
        """Whether another try would fail too; uncertain after a shorter time limit."""
        had_shorter_limit = self.time_limit_s is not None and self.time_limit_s < time_limit_s
        return not (self.of_host or (self.outcome is Outcome.TIMED_OUT and had_shorter_limit))


def failures(
    plan: Plan, attempts: Sequence[Loaded], *, kind: SessionKind | None = None
) -> dict[str, CellFailure]:
    """Failures by cell id in attempts; `kind`: of the session that needs them.

    A failure while a cell is explained, or in a build with stamps, leaves the cell's measurements
    valid: only sessions of that kind see it.
    """
    by_session: dict[str, dict[str, CellFailure]] = {cell.id: {} for cell in plan.cells}
    trusted = {cell.id for cell in plan.cells if cell.variant.trust}
    for loaded in _deciding_attempts(attempts, kind):
        session = loaded.attempt.record.session
        for cell in loaded.tried_cells & by_session.keys():
            by_session[cell].pop(session, None)
        for cell, failure in _failures_of(loaded, trusted):
            earlier = by_session.get(cell, {}).get(session)
            if cell in by_session and (earlier is None or earlier.outcome is Outcome.FELL_BACK):
                by_session[cell][session] = failure
    return {
        # The first failure by session; a fallback only where no other failure is.
        cell: min(found.values(), key=lambda failure: failure.outcome is Outcome.FELL_BACK)
        for cell, found in by_session.items()
        if found
    }


def gather(
    plan: Plan,
    builds: Sequence[BuildResult],
    attempts: Sequence[Loaded],
    environment: Environment,
    *,
    recorded: bool = False,
) -> Results:
    """Results of all attempts of a run: one frame of samples, one status per cell.

    `recorded`: they are of a recording, whatever the plan asks for today.
    """
    repeats = session_repeats(plan, attempts)
    counting = counting_attempts(attempts, repeats)
    samples = _first_of_each([loaded.samples for loaded in counting], "repeat", empty_samples)
    samples = _without_unfiltered_kernels(samples, plan)
    cells = _cells(plan, attempts, samples)
    planned_cells = {cell.id for cell in plan.cells}
    failed, facts_by_cell = failures(plan, attempts), _facts_by_cell(plan, attempts)
    tuning_by_cell = find_tuning(attempts)
    aliases = find_aliases(plan.cells, builds)
    by_variant = {build.variant: build for build in builds}
    timed = set(samples.loc[samples["kind"] == SessionKind.TIMING.value, "cell"].unique())
    counted = set(samples["cell"].unique())
    missing_metrics_by_cell = _missing_metrics(
        plan, attempts, samples, environment.compute_capability, recorded=recorded
    )
    statuses = {
        cell.id: _status(
            _unmeasured(
                cell.id,
                facts_by_cell[planned_cell(cell.id, planned_cells)],
                tuning_by_cell.get(planned_cell(cell.id, planned_cells), NOT_TUNED),
            ),
            by_variant.get(cell.variant.id),
            failed.get(planned_cell(cell.id, planned_cells)),
            aliases.get(cell.id),
            measured=cell.id in (timed or counted),
        )
        for cell in cells
    }
    statuses = {
        cell: replace(
            status,
            missing_metrics=missing_metrics_by_cell.get(cell, ()),
            untimed=replace(status.untimed, concurrent_kernels=_most_concurrent(status, attempts)),
        )
        for cell, status in statuses.items()
    }
    attributes = {
        key: value for attempt in attempts for key, value in attempt.tool_facts.attributes.items()
    }
    gpu = with_attributes(environment, attributes)
    profiles, at_problems = latest_profiles(attempts), plan.baseline_cells
    baselines = {
        cell.id: at_problems[cell.problem.id].id
        for cell in plan.cells
        if cell.problem.id in at_problems
    }
    objections = implausible_cells(samples, statuses, profiles, baselines, gpu)
    trusted = {cell.id for cell in cells if cell.variant.trust}
    statuses = {
        cell: status if cell in trusted else _with_objection(status, objections.get(cell))
        for cell, status in statuses.items()
    }
    statuses = {cell: _alias_status(status, statuses) for cell, status in statuses.items()}
    return Results(
        cells=cells,
        samples=samples,
        statuses=statuses,
        find_notices=lambda: (
            *run_notices(plan, attempts, statuses, objections, environment),
            *throttling_notices(plan, repeats),
        ),
        attributes=attributes,
        ranges=_first_of_each([loaded.ranges for loaded in counting], "path", empty_range_visits),
        timelines=joined_timelines(loaded.details.timelines for loaded in counting),
    )


def _most_concurrent(status: CellStatus, attempts: Sequence[Loaded]) -> float | None:
    """Kernels that can run at once, by CUPTI or by ncu's streams; None where neither tells."""
    counts = [loaded.tool_facts.streams.get(status.cell, 0) for loaded in attempts]
    by_cupti = status.untimed.concurrent_kernels
    return max([by_cupti or 0, *counts]) or by_cupti


def _deciding_attempts(attempts: Sequence[Loaded], kind: SessionKind | None = None) -> list[Loaded]:
    """Attempts whose failures decide a cell's outcome, and attempts of sessions of a kind."""
    left_out = _BESIDE - {kind}
    return [loaded for loaded in attempts if loaded.attempt.record.kind not in left_out]


_BESIDE = frozenset({SessionKind.EXPLAIN, SessionKind.IN_KERNEL})
"""Kinds of sessions whose failures cost no cell its outcome."""


def _first_of_each(
    frames: Sequence[pd.DataFrame], part: str, empty: Callable[[], pd.DataFrame]
) -> pd.DataFrame:
    """Rows of all frames; a part of a visit that two attempts measured counts once."""
    filled = [frame for frame in frames if len(frame)]
    if not filled:
        return empty()
    joined = pd.concat(filled, ignore_index=True)
    return joined.drop_duplicates(["session", "cell", "block", "arm", part], ignore_index=True)


def _without_unfiltered_kernels(samples: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """Samples without kernels that only a timeline saw, for commands with a kernel filter.

    A timeline has every kernel of a process, set-up included; another tool only kernels that its
    filter lets through.
    """
    planned = {cell.id for cell in plan.cells}
    recorded = samples["kind"] == SessionKind.TIMELINE.value
    expected_cells = set(samples.loc[~recorded, "cell"].unique())
    owners = {planned_cell(cell, planned) for cell in expected_cells - planned}
    unfiltered_cells = [
        cell
        for cell in set(samples.loc[recorded, "cell"].unique()) - expected_cells - planned
        if planned_cell(cell, planned) in owners
    ]
    return (
        samples[~samples["cell"].isin(unfiltered_cells)].reset_index(drop=True)
        if unfiltered_cells
        else samples
    )


def _cells(plan: Plan, attempts: Sequence[Loaded], samples: pd.DataFrame) -> tuple[Cell, ...]:
    if not any(loaded.attempt.record.visit is not None for loaded in attempts):
        return plan.cells
    parts = {cell: params for loaded in attempts for cell, params in loaded.part_params().items()}
    if parts:
        return cells_of_parts(plan.cells, parts, set(samples["cell"].unique()))
    command_parts = command_cells(samples, plan.cells)
    planned = {cell.id for cell in plan.cells}
    owners = {planned_cell(cell.id, planned) for cell in command_parts}
    return (*command_parts, *(cell for cell in plan.cells if cell.id not in owners))


def _failures_of(loaded: Loaded, trusted: Collection[str]) -> Iterator[tuple[str, CellFailure]]:
    """Failures of one attempt: those the runner recorded, then the one that ended it.

    A `trusted` cell passes the check after its last visit: it was measured before.
    """
    limit = loaded.attempt.record.time_limit_s
    for record in loaded.failed_records:
        rechecked = record.get("phase") == protocol.RECHECK
        if not (rechecked and record["cell"] in trusted):
            cause = str(record.get("cause", ""))
            of_host = record.get("of_host", False)
            if of_host:
                cause = f"{cause}; the host's fault: it is tried again when the run goes on"
            yield record["cell"], CellFailure(Outcome(record["outcome"]), cause, limit, of_host)
    result = loaded.attempt.result
    for cell, (outcome, cause) in (result.failed if result else {}).items():
        if cell in loaded.current_cells:
            yield cell, CellFailure(Outcome(outcome), cause, limit)
    for cell in loaded.cells_without_kernel():
        cause = "its range launched no kernel that the tool saw"
        yield cell, CellFailure(Outcome.NO_KERNEL, cause, limit)
    for cell, reason in loaded.fallback_reasons().items():
        yield cell, CellFailure(Outcome.FELL_BACK, reason, limit)


def _facts_by_cell(plan: Plan, attempts: Sequence[Loaded]) -> Mapping[str, Mapping[str, Any]]:
    """Journaled facts by cell id; empty for cells without facts."""
    planned = {cell.id for cell in plan.cells}
    facts: dict[str, dict[str, Any]] = defaultdict(dict)
    for loaded in _deciding_attempts(attempts):
        for cell, values in loaded.facts_by_cell.items():
            if cell in planned:
                add_description(facts[cell], values)
    return facts


def _missing_metrics(
    plan: Plan,
    attempts: Sequence[Loaded],
    samples: pd.DataFrame,
    compute_capability: str | None,
    *,
    recorded: bool,
) -> Mapping[str, tuple[str, ...]]:
    """Requested metrics without a value, by cell.

    A recording counts by the requests of its sessions: groups may have grown since, or be counted
    otherwise. Metrics requested of other cells only, such as operations on another type, are not
    missing.
    """
    records = [loaded.attempt.record for loaded in _deciding_attempts(attempts)]
    asked_of = _cells_by_metric(
        ((record.metrics, record.keys.keys()) for record in records)
        if recorded
        else ((s.metrics, {visit.cell for visit in s.visits}) for s in plan.sessions)
    )
    missing_by_cell = missing_metrics(samples, asked_of, compute_capability)
    planned = {cell.id for cell in plan.cells}
    return {
        cell: tuple(name for name in names if planned_cell(cell, planned) in asked_of[name])
        for cell, names in missing_by_cell.items()
    }


def _cells_by_metric(
    metrics_and_cells: Iterable[tuple[Iterable[str], Set[str]]],
) -> dict[str, Set[str]]:
    """Ids of cells by metric, from pairs of metrics and the cells they were requested of."""
    cells: dict[str, Set[str]] = {}
    for names, of_cells in metrics_and_cells:
        for name in names:
            cells[name] = cells.get(name, frozenset()) | of_cells
    return cells


_UNTIMED = (*protocol.VISIT_FACTS, protocol.WAITING_NS)
"""Journaled facts of `UntimedWork`."""


def _unmeasured(cell: str, facts: Mapping[str, Any], tuning: Tuning) -> CellStatus:
    """Status of a cell before its outcome is known; `facts`: journaled ones by name."""
    untimed = {name: facts[name] for name in _UNTIMED if name in facts}
    others = {name: fact for name, fact in facts.items() if name not in untimed}
    return CellStatus(
        cell,
        Outcome.NOT_MEASURED,
        facts=CellFacts(**others),
        untimed=UntimedWork(**untimed),
        tuning=tuning,
    )


def _status(
    status: CellStatus,
    build: BuildResult | None,
    failure: CellFailure | None,
    original: str | None,
    *,
    measured: bool,
) -> CellStatus:
    """Status of a cell with its outcome added."""
    if build is not None and not build.ok:
        return replace(status, outcome=Outcome.COMPILE_FAILED, cause=build.error)
    if original is not None:
        return replace(status, outcome=Outcome.DUPLICATE, duplicate_of=original)
    if failure is not None:
        return replace(status, outcome=failure.outcome, cause=failure.cause)
    return replace(status, outcome=Outcome.MEASURED) if measured else status


def _with_objection(status: CellStatus, objection: str | None) -> CellStatus:
    """Status of a cell with its counters' objection; unchanged without one."""
    if objection is None or status.outcome is not Outcome.MEASURED:
        return status
    return replace(status, outcome=Outcome.IMPLAUSIBLE, cause=objection)


def with_attributes(environment: Environment, attributes: Mapping[str, str | float]) -> Environment:
    """Environment with GPU attributes that only the tool reports."""
    count = attributes.get("device__attribute_multiprocessor_count")
    cache = attributes.get("device__attribute_l2_cache_size")
    return replace(
        environment,
        sm_count=environment.sm_count or _int_or_none(count),
        l2_bytes=environment.l2_bytes or _int_or_none(cache),
    )


def _int_or_none(value: str | float | None) -> int | None:
    return int(value) if isinstance(value, int | float) else None


def latest_profiles(attempts: Sequence[Loaded]) -> dict[str, Launches]:
    """Profiles by cell id, of the latest attempt of explain sessions."""
    return {
        cell: launches for loaded in attempts for cell, launches in loaded.details.profiles.items()
    }


def _alias_status(status: CellStatus, statuses: Mapping[str, CellStatus]) -> CellStatus:
    """Status of an alias, taken from its measured cell, failure included; others unchanged."""
    original = statuses.get(status.duplicate_of or "")
    if original is None:
        return status
    shared = replace(original, cell=status.cell, duplicate_of=status.duplicate_of)
    return (
        replace(shared, outcome=Outcome.DUPLICATE)
        if original.outcome is Outcome.MEASURED
        else shared
    )


# ---- parts of commands: each is a problem of its own ---------------------------------------------


def planned_cell(cell: str, planned: Set[str]) -> str:
    """Id of the planned cell of a command's part; the id itself for other cells."""
    name, dots, _ = cell.rpartition("..")
    while dots and cell not in planned and name not in planned:
        name, dots, _ = name.rpartition("..")
    return name if dots and cell not in planned else cell


def cells_of_parts(
    cells: Sequence[Cell], parts: Mapping[str, Params], measured: Set[str]
) -> tuple[Cell, ...]:
    """Cells of a plan, each replaced by a cell for each of its parts, in their order.

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
    """The problem of a part: its parameters added to those of the planned problem.

    A name that the spec gave stays in front. Where ranges have a parameter that the problem has
    already, `range` holds theirs.
    """
    if problem.name == DEFAULT_PROBLEM:
        return Problem(identify(default_name(params), params), default_name(params), params)
    if problem.params.keys() & params.keys():
        params = {RANGE: default_name(params)}
    all_params = {**problem.params, **params}
    has_generated_name = problem.name == default_name(problem.params)
    name = (
        default_name(all_params) if has_generated_name else f"{problem.name},{default_name(params)}"
    )
    return Problem(identify(name, all_params), name, all_params)


def find_aliases(cells: Sequence[Cell], builds: Sequence[BuildResult]) -> Mapping[str, str]:
    """Id of the measured cell by its alias's id; an alias is a later cell with its program.

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
    """One choice of an autotuner: a name if it chose between several makers, and settings."""

    choice: str
    config: Params


NOT_TUNED = Tuning()


def find_tuning(attempts: Sequence[Loaded]) -> Mapping[str, Tuning]:
    """Configurations that an autotuner tried, and sessions with other choices, by cell id.

    Tried by the session whose durations count, or by another where that one tuned nothing, which
    may be among those that chose otherwise. Cells without an autotuner are left out.

    A session compiles anew what it cannot take from the compiler's cache, and configurations that
    take nearly as long are chosen by chance: durations, counters and the explanation of a cell are
    then of several programs.
    """
    configs_by_cell: dict[str, list[tuple[str, tuple[TunedConfig, ...]]]] = defaultdict(list)
    for loaded in sorted(attempts, key=_priority):
        for cell, configs in loaded.tuned_configs:
            configs_by_cell[cell].append((loaded.attempt.record.session, configs))
    return {cell: _tuning_of_sessions(sessions) for cell, sessions in configs_by_cell.items()}


def _tuning_of_sessions(sessions: Sequence[tuple[str, tuple[TunedConfig, ...]]]) -> Tuning:
    first = sessions[0][0]
    # The attempt that compiled has every tried configuration; later ones find the winner only.
    configs = max(
        (tried_configs for session, tried_configs in sessions if session == first), key=len
    )
    timed = choices_by_operation(configs)
    otherwise = (
        name for name, tried_configs in sessions if choices_by_operation(tried_configs) != timed
    )
    return Tuning(configs, tuple(dict.fromkeys(otherwise)))


def choices_by_operation(
    tried_configs: Iterable[TunedConfig],
) -> dict[str, tuple[TunedChoice, ...]]:
    """Chosen configurations by operation; kernels with one name are in a fixed order."""
    choices: dict[str, tuple[TunedChoice, ...]] = {}
    for config in tried_configs:
        if config.best:
            choice = TunedChoice(config.choice, config.config)
            choices[config.operation] = (*choices.get(config.operation, ()), choice)
    return {
        name: tuple(sorted(operation_choices, key=str))
        for name, operation_choices in choices.items()
    }


def _priority(loaded: Loaded) -> tuple[bool, int]:
    """Sort key of attempts: timing sessions first, the primary timer's before others."""
    record = loaded.attempt.record
    timers = list(duration_metrics())
    place = timers.index(record.collector) if record.collector in timers else len(timers)
    return record.kind != SessionKind.TIMING.value, place
