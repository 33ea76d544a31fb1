"""The runs that a comparison is made of: found by path or by name, read from their raw files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from profiler.comparison.find_run import find_run
from profiler.errors import UsageError
from profiler.model import Cell, Outcome
from profiler.outside_text import safe, safe_values
from profiler.planning.cell_filter import select_cells
from profiler.planning.spec import CommandWorkload, did_you_mean, load_spec
from profiler.run_folder.archive import open_run
from profiler.run_folder.folder import RunFolder, RunRecord
from profiler.run_folder.load.assemble import assemble
from profiler.run_folder.load.planned import plan_of
from profiler.run_folder.load.report import Report
from profiler.run_folder.redact import private_texts, without_private

_FEWEST_RUNS = 2


@dataclass(frozen=True, eq=False)
class ComparedRun:
    """One run of a comparison."""

    name: str
    """Name of its folder: tells the runs of a comparison apart, and says nothing of the machine."""
    report: Report
    record: RunRecord
    external: bool
    """Whether an external command was measured: what it ran is not known to be the same twice."""
    source_texts: Mapping[str, str]
    """Text of the workload's own files by their path; empty where the run has digests alone."""


def outcome_in(run: ComparedRun, cell: str) -> Outcome:
    """Outcome of a cell in a run; one without a status counts as not measured."""
    status = run.report.statuses.get(cell)
    return Outcome.NOT_MEASURED if status is None else status.outcome


def is_correct(run: ComparedRun, cell: str) -> bool:
    """Whether the numbers of a cell count: it was measured, and its result is not wrong."""
    return outcome_in(run, cell).correct


def find_runs(wanted: Sequence[str], out: Path) -> tuple[Path, ...]:
    """Folders or archives of the runs that a command line names, in its order.

    Each is a run folder, an archive of one such as a recording, a folder of runs (its newest), or
    an experiment: its newest run under `out`; `NAME~1` is the run before that, and so on. Raises
    UsageError where one is none of these, and where two are the same run.
    """
    if len(wanted) < _FEWEST_RUNS:
        raise UsageError("A comparison needs two runs.", remedy="Name the older one first.")
    texts: dict[Path, str] = {}
    for text in wanted:
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
    return tuple(
        _read(run, name, baseline, only) for run, name in zip(runs, _names(runs), strict=True)
    )


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
    plan = plan_of(run)
    if baseline is not None:
        plan = replace(plan, baseline=_variant_id(plan.cells, baseline, name))
    if only is not None:
        plan = replace(plan, cells=select_cells(plan.cells, only, plan.baseline))
    report = assemble(run, loaded, plan).report
    external = isinstance(loaded.experiment.workload, CommandWorkload)
    private = private_texts(run.path)
    texts = {
        without_private(file, private): without_private(text, private)
        for file, text in run.source_texts().items()
    }
    return ComparedRun(
        name=safe(name),
        report=report,
        record=safe_values(record),
        external=external,
        source_texts=safe_values(texts),
    )


def _variant_id(cells: Sequence[Cell], wanted: str, run: str) -> str:
    variants = {cell.variant.id: cell.variant for cell in cells}
    for variant in variants.values():
        if wanted in (variant.name, variant.id):
            return variant.id
    hint = did_you_mean(wanted, [variant.name for variant in variants.values()])
    raise UsageError(f"--baseline {wanted}: run {run} has no such variant{hint}")
