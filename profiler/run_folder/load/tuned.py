"""What a compiler's autotuner chose for each cell, which one session may do otherwise than another.

A session compiles anew what it cannot take from the compiler's cache, and configurations that take
nearly as long are chosen by chance. Durations, counters and the explanation of a cell are then of
several programs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from profiler.collect.registry import duration_metrics
from profiler.model import Params, SessionKind, TunedConfig
from profiler.run_folder.load.attempts import Loaded


@dataclass(frozen=True)
class TunedChoice:
    """One choice of the autotuner: a name where it chose between several makers, and settings."""

    choice: str
    config: Params


@dataclass(frozen=True)
class Tuned:
    """What was tried for one cell, and who chose otherwise."""

    configs: tuple[TunedConfig, ...]
    """Of the session whose durations count; of another where that one tuned nothing."""
    otherwise: tuple[str, ...]
    """Names of the sessions that ran something else, of which this may be one."""


def tuned_by_cell(attempts: Sequence[Loaded]) -> Mapping[str, Tuned]:
    """What the autotuner tried, by cell id; cells for which it said nothing are left out."""
    said: dict[str, list[tuple[str, tuple[TunedConfig, ...]]]] = defaultdict(list)
    for loaded in sorted(attempts, key=_priority):
        for cell, configs in loaded.tuned:
            said[cell].append((loaded.attempt.record.session, configs))
    return {cell: _tuned(sessions) for cell, sessions in said.items()}


def _tuned(sessions: Sequence[tuple[str, tuple[TunedConfig, ...]]]) -> Tuned:
    first = sessions[0][0]
    # The attempt that compiled tells of everything that it tried; later ones find the winner.
    configs = max((tried for session, tried in sessions if session == first), key=len)
    timed = choices_by_operation(configs)
    otherwise = (name for name, tried in sessions if choices_by_operation(tried) != timed)
    return Tuned(configs, tuple(dict.fromkeys(otherwise)))


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
