"""Sessions of a plan: the metrics and cells of each, and the order of its visits."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from profiler.collect import CollectorKind, Records, cupti
from profiler.collect.registry import kinds_of, primary_timer
from profiler.collect.timer import SUSTAINED
from profiler.errors import SpecError
from profiler.metrics import passes
from profiler.metrics import queries as metrics
from profiler.metrics.catalogue import CATALOGUE, TENSOR_TYPES
from profiler.metrics.passes import CounterSession, Types, conflicts, is_replayed
from profiler.model import FLUSHED_PER_LAUNCH, Cell, Plan, SessionKind, SessionPlan, Visit
from profiler.planning.page_kinds import Question
from profiler.planning.spec import CommandWorkload, Experiment

NCU = "ncu"
"""Collector that counts, and that explain sessions run under."""
MAX_VISITS = 1_000_000
"""Most visits of a session: about a day under ncu."""
_BLOCKS_BACK_TO_BACK = 12
"""Least blocks of launches back to back beside what is judged, where that takes looks. They have
one look: it finds 2 % in 97 to 100 % of pairs, and of 8 blocks in 88 to 96 %, because one disturbed
block may hide it (benchmarks/sustained/simulate.py)."""
_PROGRAM_S = 4.0
"""Start of a program of an external command: of Python with torch and a context, on an H200."""


def planned_sessions(experiment: Experiment, plan: Plan, whole_plan: Plan) -> Iterator[SessionPlan]:
    """Sessions with the visits of the first look; later looks depend on its results.

    `whole_plan`: the plan with all cells of the experiment. They decide which counters a session
    has, so that a part of the cells goes on with the sessions of all cells.
    """
    kinds = kinds_of(experiment.collect.collectors)
    for kind in kinds:
        if kind.records is Records.TIMES:
            yield _timing_session(experiment, plan, kind, "", ("duration_ns",))
        elif kind.records is Records.COUNTERS:
            yield from _counted_and_timed(experiment, plan, whole_plan, kind)
    # Last, because nothing that is judged depends on them.
    for kind in kinds:
        if kind.records is Records.TIMELINE:
            yield timeline_session(experiment, kind.name, plan.cells)
        elif kind.records is Records.STAMPS:
            made_by = (kind.name, SessionKind.IN_KERNEL)
            yield _session(experiment, kind.session_name, made_by, (), plan.cells, 1)


def _timing_session(
    experiment: Experiment, plan: Plan, kind: CollectorKind, suffix: str, names: tuple[str, ...]
) -> SessionPlan:
    """The session in which a collector times the blocks of the first look."""
    collect, name = experiment.collect, f"{kind.session_name}{suffix}"
    session = _session(
        experiment,
        name,
        (kind.name, SessionKind.TIMING),
        names,
        plan.cells,
        _first_blocks(experiment, kind),
        repeated_variant=plan.baseline,
    )
    return replace(session, recompiles=collect.recompile)


def _first_blocks(experiment: Experiment, kind: CollectorKind) -> int:
    """Blocks of a collector's first look: its only look where another collector is judged."""
    collect = experiment.collect
    is_beside = primary_timer(collect.collectors) != kind.name
    if kind.name == SUSTAINED.name and is_beside and len(collect.blocks) > 1:
        return max(collect.blocks[0], _BLOCKS_BACK_TO_BACK)
    return collect.blocks[0]


def _counted_and_timed(
    experiment: Experiment, plan: Plan, whole_plan: Plan, kind: CollectorKind
) -> Iterator[SessionPlan]:
    """Sessions of a collector with counters: durations, and counters unless ncu collects them.

    Beside ncu, which counts and explains, CUPTI only times.
    """
    collect, capability = experiment.collect, plan.capability
    types_of = _types_of(whole_plan.cells, collect.measured_metrics)
    names = _measured_names(experiment, types_of.values())
    if kind.name != NCU:
        metrics = passes.timing_metrics(names, with_cycles=True)
        yield _timing_session(experiment, plan, kind, "-timing", metrics)
        if NCU not in collect.collectors:
            together = passes.shared_sessions(names, types_of.values(), capability)
            yield from _counter_sessions(experiment, kind, together, plan.cells, types_of)
        return
    groups = _counter_groups(experiment, names, types_of, capability)
    if collect.ncu_timing:
        counting = passes.with_cycles_counted(groups, types_of.values())
        with_cycles = counting is None or not _final_counts_cycles(whole_plan)
        metrics = passes.timing_metrics(names, with_cycles=with_cycles)
        yield _timing_session(experiment, plan, kind, "-timing", metrics)
        groups = groups if with_cycles or counting is None else counting
    yield from _counter_sessions(experiment, kind, groups, plan.cells, types_of)


def _final_counts_cycles(plan: Plan) -> bool:
    """Whether the confirmation counts cycles of every asked cell, so that the looks need not.

    Cycles cost a launch more than its duration does. The confirmation has the possible winners.
    """
    other_questions = {*plan.questions} - {Question.BEST, Question.BASELINE}
    everywhere = len(plan.problems_to_confirm) == len(plan.problems)
    return plan.has_final and everywhere and not other_questions


def _types_of(cells: Iterable[Cell], metric_names: Collection[str]) -> dict[str, Types]:
    """Types of tensor operations to count, by cell id.

    Types that the cell's parameters name; where they name none, the types of any cell, else the
    usual types. Also the types of counters that `metric_names` names.
    """
    types_by_cell = {
        cell.id: metrics.tensor_types(
            value
            for value in (*cell.variant.params.values(), *cell.problem.params.values())
            if isinstance(value, str)
        )
        for cell in cells
    }
    all_types = metrics.tensor_types(kind for types in types_by_cell.values() for kind in types)
    by_name = tuple(kind for kind in TENSOR_TYPES if _counts(kind) & {*metric_names})
    return {
        cell: tuple(dict.fromkeys((*(types or all_types or metrics.USUAL_TYPES), *by_name)))
        for cell, types in types_by_cell.items()
    }


def _counts(kind: str) -> Set[str]:
    """Metrics that count the tensor operations of a type: all of them, or a part."""
    name = f"tensor_{kind}_ops"
    return {name, *CATALOGUE[name].parts}


def _measured_names(experiment: Experiment, types: Iterable[Types]) -> tuple[str, ...]:
    """Metrics that an experiment measures; tensor operations of its cells' types only."""
    type_names = {kind for kinds in types for kind in kinds}
    return metrics.without_other_types(
        metrics.expand(experiment.collect.measured_metrics), type_names
    )


def flushed_by_runner(
    experiment: Experiment, session: SessionPlan, capability: str | None = None
) -> bool:
    """Whether the runner, not ncu, empties the caches before each launch of a session.

    Not where ncu replays, as an explain session does: between passes only ncu can.
    """
    if experiment.cache_control != FLUSHED_PER_LAUNCH or session.kind is SessionKind.EXPLAIN:
        return False
    if session.collector == cupti.KIND.name:
        return True
    return session.collector == NCU and not is_replayed(session.metrics, capability)


def ncu_cache_control(
    experiment: Experiment, session: SessionPlan | None = None, capability: str | None = None
) -> str:
    """Ncu's `--cache-control` in a session: `none` unless ncu itself empties the caches.

    Without a session: where ncu replays.
    """
    by_runner = session is not None and flushed_by_runner(experiment, session, capability)
    return "none" if by_runner or experiment.cache_control == "none" else "all"


def sessions_differ_on(plan: Plan, capability: str | None) -> bool:
    """Whether the sessions of a plan may differ on a GPU of this compute capability."""
    return conflicts(plan.capability) != conflicts(capability) or any(
        metrics.replaced_by_parts(session.metrics, capability) != session.metrics
        for session in plan.sessions
    )


def _counter_groups(
    experiment: Experiment,
    names: Sequence[str],
    types_of: Mapping[str, Types],
    capability: str | None,
) -> tuple[CounterSession, ...]:
    """Groups of counters that share a session under ncu.

    Where ncu does not time, the first session of each cell has what a timing session would.
    """
    collect = experiment.collect
    by_types = Counter(types_of.values())
    launches = {types: count * collect.counter_samples for types, count in by_types.items()}
    # Each visit of a command starts a program, in each session.
    is_command = isinstance(experiment.workload, CommandWorkload)
    session_s = passes.SESSION_S + is_command * sum(launches.values()) * _PROGRAM_S
    groups = passes.counter_sessions(names, launches, session_s, capability)
    if collect.ncu_timing:
        return groups
    timing = passes.timing_metrics(names, with_cycles=True)
    groups, without_session = passes.with_metrics_in_first_session(groups, timing, launches)
    return (*groups, CounterSession("", timing, without_session)) if without_session else groups


def _counter_sessions(
    experiment: Experiment,
    kind: CollectorKind,
    groups: Iterable[CounterSession],
    cells: Sequence[Cell],
    types_of: Mapping[str, Types],
) -> Iterator[SessionPlan]:
    """Sessions of ncu counters, each with the cells whose types it counts."""
    for group in groups:
        session = _session(
            experiment,
            f"{kind.session_name}-counters{group.suffix}",
            (kind.name, SessionKind.COUNTERS),
            group.metrics,
            [cell for cell in cells if types_of[cell.id] in group.types],
            experiment.collect.counter_samples,
        )
        if session.visits:
            yield session


def timeline_session(experiment: Experiment, collector: str, cells: Sequence[Cell]) -> SessionPlan:
    """The session in which a collector records timelines of cells."""
    made_by = (collector, SessionKind.TIMELINE)
    blocks = experiment.collect.timeline.blocks
    return _session(experiment, collector, made_by, ("duration_ns",), cells, blocks)


def explain_session(
    experiment: Experiment, cells: Sequence[Cell], names: Sequence[str]
) -> SessionPlan:
    """The session in which ncu collects every explaining counter of cells once."""
    made_by = (NCU, SessionKind.EXPLAIN)
    return _session(experiment, f"{NCU}-{SessionKind.EXPLAIN.value}", made_by, names, cells, 1)


def _session(  # noqa: PLR0913, PLR0917 - what a session is made of
    experiment: Experiment,
    name: str,
    made_by: tuple[str, SessionKind],
    metrics: Sequence[str],
    cells: Sequence[Cell],
    blocks: int,
    *,
    repeated_variant: str | None = None,
) -> SessionPlan:
    """A session with visits of all cells in each block.

    `made_by`: collector and kind. `repeated_variant`: as in `block_visits`.
    """
    seed = experiment.collect.seed
    return SessionPlan(
        name,
        *made_by,
        tuple(metrics),
        tuple(
            block_visits(cells, name, range(blocks), seed=seed, repeated_variant=repeated_variant)
        ),
        by_environment=any(cell.variant.env for cell in cells),
    )


def block_visits(
    cells: Sequence[Cell],
    session: str,
    blocks: Iterable[int],
    *,
    seed: int,
    repeated_variant: str | None = None,
) -> Iterator[Visit]:
    """Visits problem by problem, block by block, each block in its own random order.

    The variant with the id `repeated_variant` is visited a second time in each block with another
    variant to compare. The order of a block depends on nothing but the seed, the session, the
    problem, the block and its cells: more blocks leave the earlier ones unchanged.

    Raises SpecError for more than MAX_VISITS.
    """
    numbers = tuple(blocks)
    if len(numbers) * len(cells) > MAX_VISITS:
        raise SpecError(
            f"session {session}: {len(numbers)} blocks of {len(cells)} cells are more than "
            f"{MAX_VISITS} visits (limit MAX_VISITS in profiler/planning/session_plans)",
            remedy="Measure fewer blocks, or a part of the cells with --only.",
        )
    by_problem: dict[str, list[tuple[str, int]]] = {}
    for cell in cells:
        visits = by_problem.setdefault(cell.problem.id, [])
        visits += [(cell.id, arm) for arm in range(2 if cell.variant.id == repeated_variant else 1)]
    for problem, arms in by_problem.items():
        is_single_cell = len({cell for cell, _ in arms}) == 1
        for block in numbers:
            order = sorted((cell, arm) for cell, arm in arms if not (is_single_cell and arm))
            digest = hashlib.sha256(f"{seed}|{session}|{problem}|{block}".encode()).digest()
            random.Random(int.from_bytes(digest[:8], "big")).shuffle(order)  # noqa: S311 - no secret
            yield from (Visit(cell, block, arm) for cell, arm in order)
