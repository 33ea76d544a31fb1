"""The comparison of two or more runs, which page, console, JSON and gate print."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain

import pandas as pd

from profiler.analyse.between_runs import BetweenRunsReason
from profiler.comparison.grids import RunGrids, find_grids
from profiler.comparison.runs import ComparedRun, Timings
from profiler.comparison.steps import RunStep, step_between
from profiler.findings.gates import GATE_COLUMNS
from profiler.findings.variant_names import find_names
from profiler.model import Cell
from profiler.notices import Notice, NoticeKind
from profiler.planning.page_kinds import LADDER
from profiler.planning.problem_names import short_names

UNSHOWN = ("peak_dram_bytes_per_s", "memory_bytes", "sm_count", "l2_bytes")
"""Fields of an environment that follow from the GPU's name."""

_CLOCK_MOVED = 0.01
"""Smaller differences of the SM clock stay within the margin of the verdicts."""
_DIGEST_DIGITS = 8


_TIME_COLUMNS = ("median", "low", "high", "ratio", "ratio_low", "ratio_high")
"""Columns of a summary for the numbers of `RunTimes`, in its order."""

Values = tuple[str | int | float | bool | None, ...]
"""A property that differs between runs: one value for each run."""


@dataclass(frozen=True)
class RunTimes:
    """A cell in one run: median duration with its interval, and its ratio to that run's baseline.

    From the blocks that the step to the next run (for the last one: from the run before) compares.
    """

    run: int
    blocks: int
    median_ns: float
    low_ns: float
    high_ns: float
    ratio: float
    ratio_low: float
    ratio_high: float


@dataclass(frozen=True, eq=False)
class RunComparison:
    """Runs in the order given, oldest first, and the steps from each to the next."""

    runs: tuple[ComparedRun, ...]
    cells: Mapping[str, Cell]
    """Every cell of any run by its id, under the short names of its variant and problem."""
    steps: tuple[RunStep, ...]
    differences: Mapping[str, Values]
    """By field of `model.Environment`, `baseline`, `spec`, `experiment`, or `source` and a file."""
    notices: tuple[Notice, ...]

    @property
    def last(self) -> RunStep:
        """The step to the newest run."""
        return self.steps[-1]

    # ---- names, as the newest run that has the cell writes them ----

    def variant(self, cell: str) -> str:
        """Label of a cell's variant."""
        return self.cells[cell].variant.label

    def problem(self, cell: str) -> str:
        """Name of a cell's problem, short."""
        return self.cells[cell].problem.name

    def variant_name(self, variant: str | None) -> str:
        """Label of a variant by its id; empty without one."""
        cells = self.cells.values()
        return next((cell.variant.label for cell in cells if cell.variant.id == variant), "")

    @cached_property
    def marks(self) -> Mapping[str, int]:
        """Number of each variant by its id, for the page's script."""
        variants = dict.fromkeys(cell.variant.id for cell in self.cells.values())
        return {variant: number for number, variant in enumerate(variants)}

    def mark(self, cell: str) -> int:
        """Number of a cell's variant."""
        return self.marks[self.cells[cell].variant.id]

    # ---- numbers ----

    @property
    def judged(self) -> pd.DataFrame:
        """Rows for a gate, `GATE_COLUMNS`: the cells of the last step but the control."""
        rows = [
            (cell, change.verdict, change.ratio, change.ratio_low, change.ratio_high)
            for cell, change in self.last.cells.items()
            if change.reason is not BetweenRunsReason.CONTROL
        ]
        return pd.DataFrame(rows, columns=list(GATE_COLUMNS)).astype({"verdict": object})

    @cached_property
    def history(self) -> Mapping[str, Mapping[int, RunTimes]]:
        """Times of every cell by the run that measured it, of the blocks that its steps compare.

        Without cells of problems that have other parameters in another run.
        """
        history: dict[str, dict[int, RunTimes]] = {}
        redefined = {cell for s in self.steps for cell in {*s.only_older} & {*s.only_newer}}
        for number, run in enumerate(self.runs):
            times = self._timings[number].summary(run)
            for cell, row in times[~times.index.isin(redefined)].iterrows():
                history.setdefault(str(cell), {})[number] = RunTimes(
                    number, int(row["n"]), *(float(row[column]) for column in _TIME_COLUMNS)
                )
        return history

    @cached_property
    def _timings(self) -> Mapping[int, Timings]:
        """Durations that steps compare, by run."""
        return {
            run: timings
            for step in self.steps
            for run, timings in zip((step.older, step.newer), step.timings, strict=True)
        }

    def blocks(self, run: int) -> tuple[int, int]:
        """Fewest and most blocks of a cell in a run."""
        blocks = self._timings[run].first_arms.groupby("cell")["block"].nunique()
        return (int(blocks.min()), int(blocks.max())) if len(blocks) else (0, 0)

    @cached_property
    def most_moved(self) -> tuple[str, ...]:
        """Cells that at least two runs measured, by how far their slowest run and fastest differ.

        By the ratio to the baseline where there is one. Cells that some step found FASTER or SLOWER
        come before cells without such a verdict.
        """
        factors = {cell: _spread(times.values()) for cell, times in self.history.items()}
        decided = {
            cell for step in self.steps for cell, change in step.cells.items() if change.decided
        }
        remeasured = [cell for cell, times in self.history.items() if len(times) > 1]
        return tuple(sorted(remeasured, key=lambda cell: (cell not in decided, -factors[cell])))

    @cached_property
    def drawn_spread(self) -> tuple[str, float] | None:
        """Tuned cell whose ratio to the baseline differs most over the runs, largest ÷ smallest.

        None where no cell that an autotuner tuned was measured in several runs.
        """
        drawn_cells = {
            cell
            for run in self.runs
            for cell, status in run.report.statuses.items()
            if status.tuning.is_drawn
        }
        spreads = {
            cell: _spread(times.values())
            for cell, times in self.history.items()
            if cell in drawn_cells and len(times) > 1
        }
        return max(spreads.items(), key=lambda item: item[1], default=None)

    @cached_property
    def grids(self) -> RunGrids | None:
        """The last two runs as grids; None where neither is of page kind grid."""
        older, newer = self.runs[self.last.older], self.runs[self.last.newer]
        return find_grids(older, newer, self.last, self.cells)


def _spread(times: Iterable[RunTimes]) -> float:
    """Largest ÷ smallest ratio, or median without a ratio, over the runs."""
    values = [entry.median_ns if pd.isna(entry.ratio) else entry.ratio for entry in times]
    return max(values) / min(values)


def compare(runs: Sequence[ComparedRun]) -> RunComparison:
    """Join runs on the ids of their cells; raises UsageError where two neighbours share none."""
    steps = tuple(step_between(runs, number) for number in range(len(runs) - 1))
    differences = _differences(runs, steps)
    return RunComparison(
        runs=tuple(runs),
        cells=_cells_with_short_names(runs),
        steps=steps,
        differences=differences,
        notices=tuple(_notices(runs, steps, differences)),
    )


def _cells_with_short_names(runs: Sequence[ComparedRun]) -> dict[str, Cell]:
    """Every cell by its id, as the newest run that has it defines it, under short names."""
    variants = {variant.id: variant for run in runs for variant in run.report.plan.variants}
    plans = [run.report.plan for run in runs]
    references = {name for plan in plans for name in (plan.baseline or "", *plan.references)}
    ladder = LADDER in runs[-1].report.settings.page_kind.finds
    names = find_names(tuple(variants.values()), references=references, ladder=ladder)
    cells: dict[str, Cell] = {}
    for run in runs:
        problems = short_names(run.report.plan.problems)
        for cell in run.report.plan.cells:
            variant = replace(cell.variant, label=names.label(cell.variant))
            problem = replace(cell.problem, name=problems[cell.problem.id])
            cells[cell.id] = replace(cell, variant=variant, problem=problem)
    return cells


def _differences(runs: Sequence[ComparedRun], steps: Sequence[RunStep]) -> dict[str, Values]:
    environments = [asdict(run.report.environment) for run in runs]
    candidates: dict[str, Values] = {
        "experiment": tuple(run.report.experiment.name for run in runs),
        "baseline": tuple(run.report.plan.baseline for run in runs),
        **{
            name: tuple(environment[name] for environment in environments)
            for name in environments[0]
            if name not in UNSHOWN
        },
        "overrides": tuple(" ".join(run.record.overrides) or "none" for run in runs),
        "spec": _numbered([run.report.experiment.spec_text for run in runs]),
        "variables": _numbered([run.record.variables for run in runs]),
        **_library_versions([run.record.libraries for run in runs]),
        **_source_digests(runs, steps),
    }
    return {name: values for name, values in candidates.items() if len(set(map(str, values))) > 1}


def _source_digests(
    runs: Sequence[ComparedRun], steps: Sequence[RunStep]
) -> dict[str, tuple[str | None, ...]]:
    """First digits of the digest, one for each run, of each source file that some step changed."""
    digests: dict[str, list[str | None]] = {}
    for step in steps:
        for file in step.edited_files:
            run_digests = digests.setdefault(f"source {file.name}", [None] * len(runs))
            run_digests[step.older] = _short_digest(file.older)
            run_digests[step.newer] = _short_digest(file.newer)
    return {name: tuple(run_digests) for name, run_digests in digests.items()}


def _short_digest(digest: str | None) -> str:
    return "no such file" if digest is None else digest[:_DIGEST_DIGITS]


def _library_versions(libraries: Sequence[Mapping[str, str] | None]) -> dict[str, Values]:
    """Versions of each library that is in no environment; empty if a run did not record them."""
    recorded = [versions for versions in libraries if versions is not None]
    if len(recorded) < len(libraries):
        return {}
    names = sorted({*chain.from_iterable(recorded)} - {"torch"})
    return {name: tuple(versions.get(name) for versions in recorded) for name in names}


def _numbered(texts: Sequence[str | None]) -> Values:
    """Version of each text: distinct ones are numbered as they appear; empty if one is missing."""
    distinct = list(dict.fromkeys(texts))
    return () if None in texts else tuple(f"version {distinct.index(t) + 1}" for t in texts)


def _notices(
    runs: Sequence[ComparedRun], steps: Sequence[RunStep], differences: Collection[str]
) -> list[Notice]:
    notices = [notice for step in steps for notice in _step_notices(runs, step)]
    if "experiment" in differences:
        names = ", ".join(dict.fromkeys(run.report.experiment.name for run in runs))
        notices.append(Notice(NoticeKind.DIFFERENT_EXPERIMENTS, {"experiments": names}))
    if "gpu_uuid" in differences and "gpu" not in differences:
        gpu = runs[-1].report.environment.gpu or "GPU"
        notices.append(Notice(NoticeKind.ANOTHER_GPU, {"gpu": gpu}))
    return notices


def _step_notices(runs: Sequence[ComparedRun], step: RunStep) -> list[Notice]:
    older, newer = runs[step.older], runs[step.newer]
    names: dict[str, str | int | float] = {"older": older.name, "newer": newer.name}
    notices = []
    if step.reversed:
        notices.append(Notice(NoticeKind.ORDER_REVERSED, names))
    if step.redefined:
        values = {**names, "problems": ", ".join(step.redefined)}
        notices.append(Notice(NoticeKind.REDEFINED_PROBLEMS, values))
    if step.refused is not None:
        values = {**names, "why": step.refused_words}
        notices.append(Notice(NoticeKind.NOT_COMPARABLE, values))
    elif step.control is None:
        notices.append(Notice(NoticeKind.NO_CONTROL, names))
    elif step.clock_moved > _CLOCK_MOVED:
        percent = f"{100 * step.clock_moved:.1f}"
        notices.append(Notice(NoticeKind.CLOCK_MOVED, {**names, "percent": percent}))
    if step.edited_variants:
        files = ", ".join(file.name for file in step.edited_files)
        values = {**names, "files": files, "variants": len(step.edited_variants)}
        notices.append(Notice(NoticeKind.FILES_EDITED, values))
    return notices
