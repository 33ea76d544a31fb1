"""The runs of a comparison, found by path or by name, and their durations from the raw files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from profiler.analyse.clocks import cell_clocks
from profiler.analyse.judge import Judge, visit_times
from profiler.analyse.samples import SAMPLE_COLUMNS
from profiler.analyse.summary import summarise
from profiler.collect.registry import duration_metrics, has_counters
from profiler.errors import UsageError
from profiler.model import Cell, SessionKind
from profiler.outside_text import safe, safe_values
from profiler.planning.cell_filter import select_cells
from profiler.planning.spec import CommandWorkload, did_you_mean, load_spec
from profiler.run_folder.archive import find_run, naming_archive, open_run
from profiler.run_folder.folder import RunFolder, RunRecord
from profiler.run_folder.load.assemble import assemble
from profiler.run_folder.load.report import Report
from profiler.run_folder.redact import private_texts, without_private

_FEWEST_RUNS = 2


@dataclass(frozen=True, eq=False)
class ComparedRun:
    """One run of a comparison."""

    name: str
    """Name of the run's folder, without the path: unique in a comparison."""
    report: Report
    record: RunRecord
    external: bool
    """Whether an external command was measured: its program may differ between two runs."""
    source_texts: Mapping[str, str]
    """Text of the workload's own files by their path; empty where the run has digests alone."""


def is_correct(run: ComparedRun, cell: str) -> bool:
    """Whether a cell of the run's plan was measured, and its result is not wrong."""
    return run.report.statuses[cell].outcome.correct


def find_runs(run_names: Sequence[str], out: Path) -> tuple[Path, ...]:
    """Folders or archives of the runs that a command line names, in its order.

    Each is a run folder, an archive of one such as a recording, a folder of runs (its newest), or
    an experiment: its newest run under `out`; `NAME~1` is the run before that, and so on. Raises
    UsageError where one is none of these, and where two are the same run.
    """
    if len(run_names) < _FEWEST_RUNS:
        raise UsageError("A comparison needs two runs.", remedy="Name the older one first.")
    texts: dict[Path, str] = {}
    for text in run_names:
        folder = find_run(text, out).resolve()
        if folder in texts:
            raise UsageError(
                f"{texts[folder]} and {text} are the same run",
                remedy="NAME~1 is the run before the newest one.",
            )
        texts[folder] = text
    return tuple(texts)


def read_runs(
    folders: Sequence[Path], *, baseline: str | None = None, only: str | None = None
) -> tuple[ComparedRun, ...]:
    """Read the runs of a comparison.

    `baseline` replaces that of every run, by the name or id of a variant; `only` keeps the cells
    that a filter names, and the baseline's. Raises UsageError for what is no run, and for a
    baseline or a filter that fits none of the runs' cells.
    """
    runs = [open_run(folder) for folder in folders]
    compared_runs = []
    for run, name in zip(runs, _names(runs), strict=True):
        with naming_archive(run):
            compared_runs.append(_read(run, name, baseline, only))
    return tuple(compared_runs)


def _names(runs: Sequence[RunFolder]) -> tuple[str, ...]:
    """Names of folders, numbered where two are called the same."""
    plain = [run.path.resolve().name for run in runs]
    return tuple(
        f"{name}-{number}" if plain.count(name) > 1 else name
        for number, name in enumerate(plain, start=1)
    )


def _read(run: RunFolder, name: str, baseline: str | None, only: str | None) -> ComparedRun:
    record = run.record()
    loaded = load_spec(run.spec_file, overrides=record.overrides)
    plan = run.plan()
    if baseline is not None:
        plan = replace(
            plan, baseline=variant_id(plan.cells, baseline, f"--baseline {baseline}: run {name}")
        )
    if only is not None:
        plan = replace(plan, cells=select_cells(plan.cells, only, plan.baseline))
    report = assemble(run, loaded, plan)
    external = isinstance(loaded.experiment.workload, CommandWorkload)
    private = private_texts(run.path)
    overrides = tuple(without_private(text, private) for text in record.overrides)
    texts = {
        without_private(file, private): without_private(text, private)
        for file, text in run.source_texts().items()
    }
    return ComparedRun(
        name=safe(name),
        report=report,
        record=safe_values(replace(record, overrides=overrides)),
        external=external,
        source_texts=safe_values(texts),
    )


def variant_id(cells: Sequence[Cell], variant_name: str, option: str) -> str:
    """Id of the variant with a name or id; UsageError, which begins with `option`, without one."""
    variants = {cell.variant.id: cell.variant for cell in cells}
    for variant in variants.values():
        if variant_name in (variant.name, variant.id):
            return variant.id
    hint = did_you_mean(variant_name, [variant.name for variant in variants.values()])
    raise UsageError(f"{option} has no such variant{hint}")


# ---- durations, block by block -------------------------------------------------------------------


_SOURCES = tuple(duration_metrics())
"""Collectors with durations, the most precise first."""


@dataclass(frozen=True, eq=False)
class Timings:
    """Durations of one run from one collector."""

    blocks: pd.DataFrame
    """One row per cell, block and arm: `judge.TIME_COLUMNS`."""
    clock: pd.Series[Any]
    """SM clock of each cell in GHz, by id, where ncu timed it: as `cell_clocks` has it."""

    samples: pd.DataFrame
    """Samples that the blocks are medians of."""

    @property
    def first_arms(self) -> pd.DataFrame:
        """The blocks without the control's second visits."""
        return self.blocks[self.blocks["arm"] == 0]

    @property
    def median(self) -> pd.Series[Any]:
        """Median duration in ns, by cell."""
        return self.first_arms.groupby("cell")["duration_ns"].median()

    def summary(self, run: ComparedRun) -> pd.DataFrame:
        """Median of each cell with its interval, and its ratio to the run's own baseline.

        By cell: `n median low high ratio ratio_low ratio_high` as in the summary of a run.
        """
        samples = self.samples.reindex(columns=[*SAMPLE_COLUMNS, "duration_ns"])
        frame = summarise(samples, cells=run.report.plan.cells, baseline=run.report.plan.baseline)
        return frame[frame["metric"] == "duration_ns"].set_index("cell")

    def raw(self) -> pd.DataFrame:
        """ln(duration) of each cell and block: `cell log_value`."""
        first = self.first_arms
        return pd.DataFrame({"cell": first["cell"], "log_value": np.log(first["duration_ns"])})

    def relative(self, reference: Mapping[str, str]) -> pd.DataFrame:
        """ln(cell / control) of each block with both durations: `cell log_value`.

        `reference`: cell id of the control by problem; other problems are left out, and so is the
        control itself.
        """
        first = self.first_arms
        control = first[first["cell"].isin(reference.values())]
        other_rows = first[~first["cell"].isin(reference.values())]
        joined = other_rows.merge(
            control[["problem", "block", "duration_ns"]],
            on=["problem", "block"],
            suffixes=("", "_control"),
        )
        ratio = joined["duration_ns"] / joined["duration_ns_control"]
        return pd.DataFrame({"cell": joined["cell"], "log_value": np.log(ratio)})

    def floors(self, control: str | None) -> pd.Series[Any]:
        """Noise floor (log ratio) of each problem, where the control stands in each block twice."""
        return Judge(self.blocks, control).floors["duration_ns"]


def common_source(older: ComparedRun, newer: ComparedRun) -> tuple[str | None, str | None]:
    """Collector of each run whose durations to compare: the same one where both runs have it."""
    first, second = _sources(older), _sources(newer)
    common = [source for source in first if source in second]
    if common:
        return common[0], common[0]
    return (first[0] if first else None), (second[0] if second else None)


def _sources(run: ComparedRun) -> list[str]:
    """Collectors that timed a run, the most precise first."""
    samples = _timed_samples(run)
    used = set() if samples.empty else set(samples["collector"].unique())
    return [source for source in _SOURCES if source in used] + sorted(used - set(_SOURCES))


def same_primary_source(older: ComparedRun, newer: ComparedRun) -> bool:
    """Whether `duration_ns` of both runs is of the same collector."""
    return _sources(older)[:1] == _sources(newer)[:1]


def _timed_samples(run: ComparedRun) -> pd.DataFrame:
    """Samples of timing sessions with a duration; counters are replayed: not the same quantity."""
    samples = run.report.measured.samples
    if "duration_ns" not in samples:
        return samples.iloc[:0].assign(duration_ns=pd.Series(dtype="float64"))
    timing = samples["kind"] == SessionKind.TIMING.value
    return samples[timing & (samples["duration_ns"] > 0)]


def timings(run: ComparedRun, source: str | None) -> Timings:
    """Durations of the correct cells of a run from one collector: medians of their blocks."""
    cells, samples = run.report.plan.cells, _timed_samples(run)
    correct = [cell.id for cell in cells if is_correct(run, cell.id)]
    samples = samples[(samples["collector"] == source) & samples["cell"].isin(correct)]
    clocks = (
        cell_clocks(run.report.measured.samples)
        if source is not None and has_counters(source)
        else pd.Series(dtype="float64")
    )
    blocks = visit_times(samples, cells, SessionKind.TIMING, collector=source)
    return Timings(blocks, clocks[clocks.index.isin(correct)], samples)
