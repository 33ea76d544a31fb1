"""Notices on the attempts of a run: how they ended, and lost or left-out data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from profiler.model import FLUSHED_PER_LAUNCH, CellStatus, Environment, Plan, SessionKind
from profiler.notices import Notice, NoticeKind
from profiler.parse import runner_journal
from profiler.run_folder.folder import RESULT_FILE, Attempt, Worker
from profiler.run_folder.load.loaded import FINISHED, Loaded
from profiler.runner import protocol

Values = Mapping[str, str | int | float]
"""Values of a notice by name."""
_COUNTED = frozenset(
    {SessionKind.TIMING, SessionKind.FINAL, SessionKind.COUNTERS, SessionKind.EXPLAIN}
)
"""Kinds of sessions whose every visit has a sample or a profile."""


def run_notices(
    plan: Plan,
    attempts: Sequence[Loaded],
    statuses: Mapping[str, CellStatus],
    objections: Mapping[str, str],
    environment: Environment,
) -> Iterator[Notice]:
    """Every notice on the attempts of a run; `objections` of counters by cell id."""
    yield from _attempt_notices(attempts)
    yield from _trust_notices(plan, objections)
    yield from _recheck_notices(attempts)
    yield from _launch_notices(plan, statuses)
    yield from _own_type_notices(plan, attempts)
    yield from _rounding_notices(plan, attempts)
    yield from _common_value_notices(plan, attempts)
    yield from _loose_tolerance_notices(plan, attempts)
    yield from _doubt_notices(attempts)
    yield from _blind_check_notices(plan, attempts)
    yield from _unconfined_notices(attempts)
    yield from _lost_visit_notices(attempts, statuses)
    yield from _kernels_replayed(attempts, environment)
    yield from _worker_notices(plan, attempts)


def notices_of(loaded: Loaded) -> Iterator[Notice]:
    """Notices on an attempt's files and on its end, which is written after they are read."""
    yield from _unreadable_notice(loaded.attempt, loaded.unreadable)
    yield from loaded.reading_notices
    yield from _gpu_sharing_notices(loaded.attempt)
    for name in loaded.attempt.damaged:
        yield Notice(NoticeKind.ATTEMPT_FILE_DAMAGED, {"file": name})


def _attempt_notices(attempts: Sequence[Loaded]) -> tuple[Notice, ...]:
    # Where its application is killed, the tool's only message is that it was stopped: `The
    # application returned an error code (9).` The stop has a notice of its own.
    notices = [
        _with_attempt(notice, loaded)
        for loaded in attempts
        for notice in notices_of(loaded)
        if not (loaded.attempt.result is None and notice.kind is NoticeKind.CSV_TOOL_MESSAGE)
    ]
    for loaded in attempts:
        result = loaded.attempt.result
        damaged = RESULT_FILE in loaded.attempt.damaged
        ended_early = result is None or result.cause != FINISHED
        if ended_early and not (damaged or _end_is_reported(loaded)):
            notices.append(_early_end_notice(loaded))
        if unchecked := loaded.unchecked_cells():
            session = loaded.attempt.folder.name
            notices.append(
                Notice(NoticeKind.KERNELS_UNCHECKED, {"session": session, "count": len(unchecked)})
            )
    return tuple(notices)


def _early_end_notice(loaded: Loaded) -> Notice:
    """Notice of an attempt whose session did not finish."""
    result = loaded.attempt.result
    is_explained = loaded.attempt.record.kind == SessionKind.EXPLAIN
    values: Values = {
        "session": loaded.attempt.folder.name,
        "cause": result.cause if result else "the profiler was stopped",
        "kept": len(loaded.details.profiles if is_explained else loaded.samples),
    }
    if is_explained:
        return Notice(NoticeKind.EXPLAINING_DIED, values)
    return Notice(NoticeKind.SESSION_DIED, values)


def _kernels_replayed(attempts: Sequence[Loaded], environment: Environment) -> Iterator[Notice]:
    """Notice of cells with several kernels whose counters had other cache control than times."""
    if environment.cache_control != FLUSHED_PER_LAUNCH:
        return
    cells: set[str] = set()
    for loaded in attempts:
        if loaded.flushed_by_runner is False and loaded.attempt.record.kind == SessionKind.COUNTERS:
            cells |= set(loaded.samples.loc[loaded.samples["kernels"] > 1, "cell"])
    if cells:
        yield Notice(NoticeKind.KERNELS_REPLAYED, {"count": len(cells)})


def _trust_notices(plan: Plan, objections: Mapping[str, str]) -> Iterator[Notice]:
    """Notice of each trusted variant, with the first objection that it passes."""
    for variant in plan.variants:
        if variant.trust:
            cells = (cell.id for cell in plan.cells if cell.variant == variant)
            objection = next((objections[cell] for cell in cells if cell in objections), "")
            values = {
                "variant": variant.name,
                "reason": variant.trust,
                "objection": f"; its counters object: {objection}" if objection else "",
            }
            yield Notice(NoticeKind.TRUSTED, values)


def _recheck_notices(attempts: Sequence[Loaded]) -> Iterator[Notice]:
    """Distinct reasons why cells were not checked again after their last visit."""
    cells_by_cause: dict[str, set[str]] = defaultdict(set)
    for loaded in attempts:
        for record in loaded.records:
            if record["event"] == protocol.NOT_RECHECKED:
                cells_by_cause[str(record["cause"])].add(record["cell"])
    for cause, cells in cells_by_cause.items():
        yield Notice(NoticeKind.NOT_RECHECKED, {"count": len(cells), "cause": cause})


def _launch_notices(plan: Plan, statuses: Mapping[str, CellStatus]) -> Iterator[Notice]:
    """Notices of cells with launches of which sums of kernels leave something out."""
    copied, at_once, waiting_ns = {}, {}, {}
    shown: dict[str, Values] = {}
    for cell, status in statuses.items():
        untimed = status.untimed
        copied[cell] = (untimed.copies or 0.0) + (untimed.copied_bytes or 0.0)
        kernels = int(untimed.concurrent_kernels or 0)
        at_once[cell] = kernels if kernels > 1 else 0
        waiting_ns[cell] = untimed.waiting_ns or 0.0
        shown[cell] = {
            "copies": f"{untimed.copies or 0:.0f}",
            "megabytes": f"{(untimed.copied_bytes or 0.0) / 1e6:,.4g} MB",
            "kernels": kernels,
            "milliseconds": f"{waiting_ns[cell] / 1e6:.3g} ms",
        }
    for values in _of_cells(plan, copied, shown):
        yield Notice(NoticeKind.COPIES_NOT_TIMED, values)
    for values in _of_cells(plan, at_once, shown):
        yield Notice(NoticeKind.CONCURRENT_KERNELS, values)
    for values in _of_cells(plan, waiting_ns, shown):
        yield Notice(NoticeKind.WAITING_LAUNCHES, values)


def _of_cells(
    plan: Plan, amounts: Mapping[str, float], shown: Mapping[str, Values]
) -> Iterator[Values]:
    """Values of a notice on cells that have an amount, of the one that has most; none without any.

    `amounts`, and the values that are `shown`, are by cell id.
    """
    cells = [cell for cell in plan.cells if amounts.get(cell.id)]
    if cells:
        most = max(cells, key=lambda cell: amounts[cell.id])
        name = f"{most.variant.name} at {most.problem.name}"
        counts = {"count": len(cells), "cells": len(plan.cells)}
        yield {**counts, "cell": name, **shown[most.id]}


def _own_type_notices(plan: Plan, attempts: Sequence[Loaded]) -> Iterator[Notice]:
    """Distinct reasons why results were compared with the baseline's own at some problems."""
    names = {cell.problem.id: cell.problem.name for cell in plan.cells}
    problems: dict[str, dict[str, None]] = defaultdict(dict)
    for record in _records_with(attempts, protocol.OWN_TYPES):
        if record.get("problem") in names:
            problems[str(record[protocol.OWN_TYPES])][names[record["problem"]]] = None
    for cause, at in problems.items():
        yield Notice(NoticeKind.COMPARED_IN_OWN_TYPES, {"problems": ", ".join(at), "cause": cause})


def _records_with(attempts: Sequence[Loaded], field: str) -> Iterator[Mapping[str, Any]]:
    """Records of the journals that have a field."""
    return (record for loaded in attempts for record in loaded.records if field in record)


def _cells_by_value(attempts: Sequence[Loaded], field: str) -> Mapping[str, Mapping[str, None]]:
    """Cells (ids), in their order, by the texts of a field of their records."""
    cells: dict[str, dict[str, None]] = defaultdict(dict)
    for record in _records_with(attempts, field):
        if "cell" in record:
            cells[str(record[field])][str(record["cell"])] = None
    return cells


def _rounding_notices(plan: Plan, attempts: Sequence[Loaded]) -> Iterator[Notice]:
    """Allowed errors at problems where some right results miss the default tolerance."""
    names = {cell.id: cell.problem.name for cell in plan.cells}
    allowed: dict[str, float] = defaultdict(float)
    for record in _records_with(attempts, protocol.ROUNDING):
        if record["event"] == protocol.FINISHED and record.get("cell") in names:
            amounts = record[protocol.ROUNDING]
            name = names[record["cell"]]
            largest_amount = max(amounts) if isinstance(amounts, list) else amounts
            allowed[name] = max(allowed[name], float(largest_amount))
    if allowed:
        most = f"{max(allowed.values()):.2g}"
        yield Notice(NoticeKind.ROUNDING_ALLOWED, {"problems": ", ".join(allowed), "most": most})


def _common_value_notices(plan: Plan, attempts: Sequence[Loaded]) -> Iterator[Notice]:
    """Notice of problems whose right result has one value in all of its elements."""
    names = {cell.problem.id: cell.problem.name for cell in plan.cells}
    values = {
        names[record["problem"]]: record[protocol.COMMON_VALUE]
        for record in _records_with(attempts, protocol.COMMON_VALUE)
        if record.get("problem") in names
    }
    if values:
        first, value = next(iter(values.items()))
        shown: Values = {
            "count": len(values),
            "problems": len(names),
            "first": first,
            "value": f"{value:g}",
        }
        yield Notice(NoticeKind.COMMON_VALUE, shown)


def _loose_tolerance_notices(plan: Plan, attempts: Sequence[Loaded]) -> Iterator[Notice]:
    """Notice of cells whose tolerance is larger than all of an output."""
    loose = _cells_by_value(attempts, protocol.ZEROS_MATCH).get("True", {})
    for values in _of_cells(plan, dict.fromkeys(loose, 1.0), {cell: {} for cell in loose}):
        yield Notice(NoticeKind.ZEROS_ARE_RIGHT, values)


def _doubt_notices(attempts: Sequence[Loaded]) -> Iterator[Notice]:
    """Notice of processes of a program that printed a doubt, with the first of them."""
    doubted = [
        (loaded.attempt.folder.name, loaded.attempt.result.doubt)
        for loaded in attempts
        if loaded.attempt.result is not None and loaded.attempt.result.doubt
    ]
    if doubted:
        attempt, line = doubted[0]
        values: Values = {"attempts": len(doubted), "attempt": attempt, "line": line}
        yield Notice(NoticeKind.DOUBTED_RESULTS, values)


def _blind_check_notices(plan: Plan, attempts: Sequence[Loaded]) -> Iterator[Notice]:
    """Distinct reasons why the check of cells tells little."""
    for cause, cells in _cells_by_value(attempts, protocol.TELLS_LITTLE).items():
        shown = {cell: {"cause": cause} for cell in cells}
        for values in _of_cells(plan, dict.fromkeys(cells, 1.0), shown):
            yield Notice(NoticeKind.CHECK_TELLS_LITTLE, values)


def _unconfined_notices(attempts: Sequence[Loaded]) -> Iterator[Notice]:
    """Reasons why candidates were not confined to their own files."""
    for why, cells in _cells_by_value(attempts, protocol.UNCONFINED).items():
        yield Notice(NoticeKind.UNCONFINED, {"count": len(cells), "why": why})


def _lost_visit_notices(
    attempts: Sequence[Loaded], statuses: Mapping[str, CellStatus]
) -> Iterator[Notice]:
    """Notices of visits in journals that no file has numbers of, for cells that did not fail."""
    journaled_visits: dict[str, set[tuple[str, int, int]]] = defaultdict(set)
    measured_visits: dict[str, set[tuple[str, int, int]]] = defaultdict(set)
    sound_cells = {cell for cell, status in statuses.items() if not status.outcome.failed}
    for loaded in attempts:
        session = loaded.attempt.record.session
        measured_visits[session] |= loaded.visit_keys
        if loaded.attempt.record.kind in _COUNTED and not loaded.unreadable:
            passed_visits = runner_journal.passed_visits(loaded.records)
            journaled_visits[session] |= {
                visit for visit in passed_visits if visit[0] in sound_cells
            }
    for session, visits in journaled_visits.items():
        if lost_visits := visits - measured_visits[session]:
            values: Values = {
                "session": session,
                "count": len(lost_visits),
                "cells": len({cell for cell, _, _ in lost_visits}),
            }
            yield Notice(NoticeKind.VISITS_LOST, values)


def _with_attempt(notice: Notice, loaded: Loaded) -> Notice:
    """A notice about a file, with the file's attempt."""
    if "file" not in notice.values:
        return notice
    file = f"{loaded.attempt.folder.name}/{notice.values['file']}"
    return replace(notice, values={**notice.values, "file": file})


def _end_is_reported(loaded: Loaded) -> bool:
    """Whether the outcome of a cell already reports the end of an attempt."""
    result = loaded.attempt.result
    return bool(loaded.failed_records) or (result is not None and len(result.failed) > 0)


def _worker_notices(plan: Plan, attempts: Sequence[Loaded]) -> Iterator[Notice]:
    """Notice of the problems by GPU, if several GPUs measured."""
    problem_of = {cell.id: cell.problem for cell in plan.cells}
    problems: dict[Worker, dict[str, None]] = {}
    for loaded in attempts:
        worker = loaded.attempt.worker
        names = [
            problem_of[cell].name for cell in sorted(loaded.current_cells) if cell in problem_of
        ]
        if worker is not None and names:
            problems.setdefault(worker, {}).update(dict.fromkeys(names))
    if len(problems) > 1:
        worker_list = "; ".join(
            f"{worker.name} ({worker.gpu_uuid or 'no UUID'}) {', '.join(problems[worker])}"
            for worker in sorted(problems, key=lambda worker: (len(worker.name), worker.name))
        )
        yield Notice(NoticeKind.SEVERAL_GPUS, {"count": len(problems), "workers": worker_list})


def _gpu_sharing_notices(attempt: Attempt) -> tuple[Notice, ...]:
    """Notice of other processes that had the GPU open during an attempt."""
    processes = {} if attempt.result is None else attempt.result.gpu_processes
    if not processes:
        return ()
    process_list = ", ".join(
        f"process {pid}" + (f" ({memory / 2**30:.1f} GiB)" if memory else "")
        for pid, memory in processes.items()
    )
    values = {"session": attempt.record.session, "processes": process_list}
    return (Notice(NoticeKind.GPU_SHARED, values),)


def _unreadable_notice(attempt: Attempt, name: str) -> tuple[Notice, ...]:
    """Notice of an unreadable file; none after a killed tool, which may cut files off.

    Nor where the only visit of an attempt has failed: its file lacks nothing.
    """
    result = attempt.result
    only_visit_failed = result is not None and attempt.record.visit is not None and result.failed
    finished = result is not None and result.cause == FINISHED and not only_visit_failed
    return (Notice(NoticeKind.CSV_UNREADABLE, {"file": name}),) if name and finished else ()
