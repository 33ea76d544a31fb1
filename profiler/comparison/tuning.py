"""Choices of a compiler's autotuner in two runs: the same source may become another program."""

from __future__ import annotations

from dataclasses import dataclass

from profiler.comparison.runs import ComparedRun
from profiler.model import Params


@dataclass(frozen=True)
class TunedChoice:
    """One choice of the autotuner: a name where it chose between several makers, and settings."""

    choice: str
    config: Params


@dataclass(frozen=True)
class Retuned:
    """One kernel or operation of a cell for which two runs chose otherwise."""

    operation: str
    older: tuple[TunedChoice, ...]
    """What ran; several where several kernels have one name, none where it was not there."""
    newer: tuple[TunedChoice, ...]

    @property
    def differing(self) -> tuple[tuple[str, object, object], ...]:
        """Settings that differ, older and newer (None: not there), where one choice met another.

        Empty where the kernels themselves are others, or another maker was chosen.
        """
        if len(self.older) != 1 or len(self.newer) != 1:
            return ()
        (older,), (newer,) = self.older, self.newer
        if older.choice != newer.choice:
            return ()
        names = dict.fromkeys((*newer.config, *older.config))
        both = ((name, older.config.get(name), newer.config.get(name)) for name in names)
        return tuple(setting for setting in both if setting[1] != setting[2])


def retuned(older: ComparedRun, newer: ComparedRun, cell: str) -> tuple[Retuned, ...]:
    """Operations of a cell (id) for which the two runs chose otherwise, or which only one has.

    Empty as well where one of the runs did not record what was tuned.
    """
    before, after = (_choices(run, cell) for run in (older, newer))
    if not before or not after:
        return ()
    operations = dict.fromkeys((*after, *before))
    pairs = (Retuned(name, before.get(name, ()), after.get(name, ())) for name in operations)
    return tuple(pair for pair in pairs if pair.older != pair.newer)


def _choices(run: ComparedRun, cell: str) -> dict[str, tuple[TunedChoice, ...]]:
    """Configurations that run, by operation; those of kernels of one name in a fixed order."""
    status = run.report.statuses.get(cell)
    choices: dict[str, tuple[TunedChoice, ...]] = {}
    for tried in () if status is None else status.tuned:
        if tried.best:
            choice = TunedChoice(tried.choice, tried.config)
            choices[tried.operation] = (*choices.get(tried.operation, ()), choice)
    return {name: tuple(sorted(made, key=str)) for name, made in choices.items()}
