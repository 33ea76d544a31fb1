"""Choices of a compiler's autotuner in two runs: the same source may become another program."""

from __future__ import annotations

from dataclasses import dataclass

from profiler.comparison.runs import ComparedRun
from profiler.run_folder.load.cells import TunedChoice, choices_by_operation

__all__ = ["Retuned", "TunedChoice", "retuned"]


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
    """Configurations that run, by operation; empty where nothing was recorded."""
    status = run.report.statuses.get(cell)
    return {} if status is None else choices_by_operation(status.tuned)
