"""The registry of collectors. A new one is a `CollectorKind`, in a list of `timer.py` or here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from profiler.collect import CollectorKind, Need, Records, cupti, ncu, nsys, timer
from profiler.model import Plan, SessionKind, SessionPlan

COLLECTORS: dict[str, CollectorKind] = {
    kind.name: kind for kind in (ncu.KIND, cupti.KIND, *timer.TIMERS, nsys.KIND, *timer.RECORDERS)
}
"""Collectors by name. The first one that measured is the primary timer: verdicts use its durations.
The durations of collectors are different quantities: never one number."""


def canonical_name(name: str) -> str | None:
    """Key of a collector, given its key or its alias; None for no collector."""
    by_alias = {kind.alias: kind.name for kind in COLLECTORS.values() if kind.alias is not None}
    return name if name in COLLECTORS else by_alias.get(name)


def spellings() -> tuple[str, ...]:
    """Every word that a spec may use for a collector, aliases last."""
    aliases = (kind.alias for kind in COLLECTORS.values())
    return (*COLLECTORS, *(alias for alias in aliases if alias is not None))


def kinds_of(names: Iterable[str]) -> tuple[CollectorKind, ...]:
    """Collectors by their keys, in the same order."""
    return tuple(COLLECTORS[name] for name in names)


def is_needed(names: Iterable[str], need: Need) -> bool:
    """Whether one of these collectors needs a tool, a device or a package."""
    return any(need in kind.needs for kind in kinds_of(names))


def timeline_collectors() -> tuple[str, ...]:
    """Keys of the collectors that record timelines."""
    return tuple(name for name, kind in COLLECTORS.items() if kind.records is Records.TIMELINE)


def has_counters(collector: str) -> bool:
    """Whether a collector (key) gives hardware counters, and durations of single kernels."""
    kind = COLLECTORS.get(collector)
    return kind is not None and kind.records is Records.COUNTERS


def may_overlap(session: SessionPlan) -> bool:
    """Whether starts of sessions may overlap with this one, and its start with others."""
    return has_counters(session.collector) and not session.starts_anew


def shares_process(session: SessionPlan) -> bool:
    """Whether the process of a session can go on with another of the same collector.

    True where no tool wraps it, which would print its rows only at its end, and where nothing is
    compiled anew.
    """
    kind = COLLECTORS.get(session.collector)
    return kind is not None and kind.in_journal and not session.starts_anew


def duration_metrics() -> Mapping[str, str]:
    """Metric of the durations of each collector with durations, by key, the primary timer first."""
    metrics = ((name, kind.metric) for name, kind in COLLECTORS.items())
    return {name: metric for name, metric in metrics if metric is not None}


def primary_timer(names: Iterable[str]) -> str | None:
    """Collector whose durations are judged, of those that measured; None without any."""
    measured = set(names)
    in_order = (name for name in (*COLLECTORS, *sorted(measured)) if name in measured)
    return next(in_order, None)


def timer_of(plan: Plan) -> str | None:
    """Collector of the durations that a plan judges; None without timing."""
    return primary_timer(s.collector for s in plan.sessions if s.kind is SessionKind.TIMING)


def is_judged(plan: Plan, session: SessionPlan) -> bool:
    """Whether looks and a final follow a session: verdicts are about its durations.

    The sessions of other timers measure the blocks of the first look, and no more.
    """
    return session.kind is SessionKind.TIMING and session.collector == timer_of(plan)
