"""Two or more runs side by side: the steps from each to the next, and what differs between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

import numpy as np
import pandas as pd

from profiler.analyse.between_runs import REFUSED_WORDS, Reason
from profiler.comparison.sides import Side, correct
from profiler.comparison.steps import Step, step_between
from profiler.model import Cell
from profiler.notices import Notice, NoticeKind

UNSHOWN = ("peak_dram_bytes_per_s", "memory_bytes", "sm_count", "l2_bytes")
"""Fields of an environment that follow from the GPU's name."""

_CLOCK_MOVED = 0.01
"""A clock that differs by less cannot hide or feign what the margin lets through anyway."""


@dataclass(frozen=True)
class Difference:
    """Something that is not the same in all runs."""

    field: str
    """Field of `model.Environment`, or `baseline`, `spec`, `source`, `experiment`."""
    values: tuple[str | int | float | bool | None, ...]
    """One a run."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Runs in the order given, oldest first, and the steps from each to the next."""

    sides: tuple[Side, ...]
    cells: tuple[Cell, ...]
    """Every cell of any run, as its newest run defines it."""
    steps: tuple[Step, ...]
    history: pd.DataFrame
    """One row per cell and run in which it was measured: `cell run blocks median_ns low_ns high_ns
    ratio ratio_low ratio_high`; `ratio` is to that run's baseline."""
    differences: tuple[Difference, ...]
    notices: tuple[Notice, ...]

    @property
    def judged(self) -> pd.DataFrame:
        """What a gate judges: the cells of the last step but the control, `cell` being a column."""
        cells = self.last.cells
        return cells[cells["reason"] != Reason.CONTROL].reset_index()

    @property
    def last(self) -> Step:
        """The step to the newest run."""
        return self.steps[-1]


def compare_sides(sides: Sequence[Side]) -> Comparison:
    """Join runs on the ids of their cells; raises UsageError where two neighbours share none."""
    cells = {cell.id: cell for side in sides for cell in side.report.plan.cells}
    steps = tuple(step_between(sides, number) for number in range(len(sides) - 1))
    differences = tuple(_differences(sides))
    return Comparison(
        sides=tuple(sides),
        cells=tuple(cells.values()),
        steps=steps,
        history=_history(sides),
        differences=differences,
        notices=tuple(_notices(sides, steps, differences)),
    )


def _history(sides: Sequence[Side]) -> pd.DataFrame:
    frames = []
    for number, side in enumerate(sides):
        summary = side.report.summary
        rows = summary[summary["metric"] == "duration_ns"]
        right = [correct(side, cell) for cell in rows["cell"]]
        frames.append(rows[right].assign(run=number))
    joined = pd.concat(frames, ignore_index=True)
    names = {"n": "blocks", "median": "median_ns", "low": "low_ns", "high": "high_ns"}
    columns = ["cell", "run", *names.values(), "ratio", "ratio_low", "ratio_high"]
    return joined.rename(columns=names)[columns]


def _differences(sides: Sequence[Side]) -> list[Difference]:
    environments = [asdict(side.report.environment) for side in sides]
    candidates: dict[str, list[str | int | float | bool | None]] = {
        "experiment": [side.report.experiment for side in sides],
        "baseline": [side.report.baseline for side in sides],
        **{
            name: [environment[name] for environment in environments]
            for name in environments[0]
            if name not in UNSHOWN
        },
        "spec": [_text_name(side, sides) for side in sides],
    }
    return [
        Difference(name, tuple(values))
        for name, values in candidates.items()
        if len({str(value) for value in values}) > 1
    ]


def _text_name(side: Side, sides: Sequence[Side]) -> str:
    """Which text of the experiment file a run had: texts are numbered as they appear."""
    texts = list(dict.fromkeys(each.report.spec_text for each in sides))
    return f"version {texts.index(side.report.spec_text) + 1}"


def _notices(
    sides: Sequence[Side], steps: Sequence[Step], differences: Sequence[Difference]
) -> list[Notice]:
    found = [note for step in steps for note in _step_notices(sides, step)]
    fields = {difference.field for difference in differences}
    if "experiment" in fields:
        names = ", ".join(dict.fromkeys(side.report.experiment for side in sides))
        found.append(Notice(NoticeKind.DIFFERENT_EXPERIMENTS, {"experiments": names}))
    if "gpu_uuid" in fields and "gpu" not in fields:
        gpu = sides[-1].report.environment.gpu or "GPU"
        found.append(Notice(NoticeKind.ANOTHER_GPU, {"gpu": gpu}))
    return found


def _step_notices(sides: Sequence[Side], step: Step) -> list[Notice]:
    older, newer = sides[step.older], sides[step.newer]
    names: dict[str, str | int | float] = {"older": older.name, "newer": newer.name}
    found = []
    if _moment(older) > _moment(newer):
        found.append(Notice(NoticeKind.ORDER_REVERSED, names))
    if step.withheld is not None:
        words = REFUSED_WORDS[step.withheld]
        found.append(Notice(NoticeKind.NOT_COMPARABLE, {**names, "why": words}))
    elif step.control is None:
        found.append(Notice(NoticeKind.NO_CONTROL, names))
    elif (moved := _clock_moved(step)) > _CLOCK_MOVED:
        found.append(Notice(NoticeKind.CLOCK_MOVED, {**names, "percent": f"{100 * moved:.1f}"}))
    return found


def _moment(side: Side) -> float:
    return datetime.fromisoformat(side.report.created).timestamp()


def _clock_moved(step: Step) -> float:
    """How far the SM clock of a typical cell differs between two runs, as a relative effect."""
    known = step.cells["clock_ratio"].dropna()
    return float(np.expm1(np.abs(np.log(known)).median())) if len(known) else 0.0
