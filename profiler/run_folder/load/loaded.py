"""Results of one attempt of a session: samples, journal, clocks, without cells edited since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from profiler.analyse.clocks import measured_visits, throttled_visits
from profiler.analyse.parts import PartSamples
from profiler.analyse.range_counters import empty_range_visits
from profiler.analyse.samples import cell_of_part, empty_samples
from profiler.analyse.why.roofs import roofs_countable
from profiler.model import KERNEL_SEPARATOR, Params, SessionKind, TunedConfig, Visit
from profiler.notices import Notice
from profiler.parse import runner_journal
from profiler.parse.clock_file import empty_clocks
from profiler.parse.inductor import tuned_of_record
from profiler.run_folder.folder import Attempt
from profiler.run_folder.load.report import Details
from profiler.runner import protocol

FINISHED = "finished"
"""AttemptResult.cause of a session that ended as it should."""

_TIMED = (SessionKind.TIMING, SessionKind.FINAL)


@dataclass(frozen=True)
class ToolFacts:
    """Facts of a tool on the GPU and on the launches of an attempt, beside samples."""

    attributes: Mapping[str, str | float] = field(default_factory=dict)
    """GPU attributes: `device__attribute_*`."""
    launches: int = 0
    """Launches that ncu profiled."""
    streams: Mapping[str, int] = field(default_factory=dict)
    """Most streams that a visit has kernels on, by cell id; none where all have one in common."""
    practical_roofs: Mapping[str, float] = field(default_factory=dict)
    """Shares of the hardware's roofs that plain kernels reached, by roof."""


@dataclass(frozen=True, eq=False)
class Loaded:
    """Results of one attempt for the cells whose key is unchanged."""

    attempt: Attempt
    records: tuple[dict[str, Any], ...]
    current_cells: frozenset[str]
    """Cells of the attempt whose key is still the same."""
    samples: pd.DataFrame = field(default_factory=empty_samples)
    reading_notices: tuple[Notice, ...] = ()
    """Notices of reading the attempt's files."""
    unreadable: str = ""
    """File of the tool that could not be read; empty where there is none."""
    tool_facts: ToolFacts = ToolFacts()
    clocks: pd.DataFrame = field(default_factory=empty_clocks)
    """Samples of the clock, in the columns of `read_clocks`; no rows where none were taken."""
    ranges: pd.DataFrame = field(default_factory=empty_range_visits)
    """Counters of ranges inside visits; without rows where the workload pushed none."""
    visits_without_sample: frozenset[Visit] = frozenset()
    """Visits that were made and that no sample counts for: their duration is none
    (`impossible_durations`), or they have details, such as a timeline without a kernel."""
    details: Details = field(default_factory=Details)
    parts: PartSamples | None = None
    """Samples of the parts of an external command; None without parts."""

    @cached_property
    def visits(self) -> frozenset[Visit]:
        """Visits with a sample that has a value, or without need of one.

        A faulting kernel leaves a row without values, which is no sample.
        """
        single_visit = self.attempt.record.visit
        if single_visit is not None:  # its samples may be of parts, which are other cells
            is_measured = len(self.samples) > 0 or len(self.visits_without_sample) > 0
            return frozenset([Visit(**single_visit)] if is_measured else ())
        return visits_of(self.samples) | self.visits_without_sample

    @cached_property
    def visit_keys(self) -> frozenset[tuple[str, int, int]]:
        """Keys of `visits`, whose hashes take a tenth of the time."""
        return frozenset(visit.key for visit in self.visits)

    @cached_property
    def throttled_visits(self) -> frozenset[Visit]:
        """Visits during which the GPU was slowed down, by heat for example."""
        if self.clocks.empty:
            return frozenset()
        keys = throttled_visits(self.clocks, self.visit_times)
        return frozenset(Visit(*key) for key in keys) & self.visits

    @cached_property
    def visit_times(self) -> pd.DataFrame:
        """Times of each visit, as in `clocks.measured_visits`."""
        return measured_visits(self.records)

    @cached_property
    def start(self) -> Mapping[str, Any]:
        """The first record of the runner; empty without one."""
        return next((r for r in self.records if r.get("event") == protocol.SESSION_STARTED), {})

    @property
    def flushed_by_runner(self) -> bool | None:
        """Whether the runner, not ncu, emptied the caches; None where no journal tells."""
        flush = self.start.get("flush")
        return flush if isinstance(flush, bool) else None

    @cached_property
    def tried_cells(self) -> frozenset[str]:
        """Ids of cells that the attempt started to check or measure."""
        single_visit = self.attempt.record.visit
        if single_visit is not None:
            return self.current_cells & {single_visit["cell"]}
        if self.attempt.record.kind == SessionKind.CHECK:
            return self.current_cells
        result = self.attempt.result
        blamed = (
            self.current_cells & result.failed.keys() if result is not None else frozenset[str]()
        )
        return blamed.union(record["cell"] for record in self.records if _tries(record))

    @cached_property
    def opened_files(self) -> Mapping[str, str]:
        """Digest by name of files that the session opened and did not write."""
        return runner_journal.opened_files(self.records)

    @cached_property
    def failed_records(self) -> tuple[Mapping[str, Any], ...]:
        """Records of failures that the runner survived."""
        return tuple(record for record in self.records if record.get("event") == protocol.FAILED)

    @cached_property
    def facts_by_cell(self) -> Mapping[str, Mapping[str, Any]]:
        """Last journaled facts of launches and results by name, by cell id.

        A wrong result has its errors, too.
        """
        cells: dict[str, dict[str, Any]] = {}
        for record in self.records:
            if _SAY_FACTS.isdisjoint(record):  # as most do
                continue
            values = {name: record[name] for name in _DESCRIBED if name in record}
            if "result_dtypes" in record:
                values["result_dtypes"] = tuple(record["result_dtypes"])
            if values and "cell" in record:
                add_description(cells.setdefault(record["cell"], {}), values)
        return cells

    @cached_property
    def tuned_configs(self) -> tuple[tuple[str, tuple[TunedConfig, ...]], ...]:
        """Configurations of each run of an autotuner, with the cell id."""
        trials = (
            (str(record.get("cell")), tuned_of_record(record[protocol.TUNED]))
            for record in self.records
            if protocol.TUNED in record
        )
        return tuple((cell, configs) for cell, configs in trials if configs)

    @cached_property
    def checked_cells(self) -> frozenset[str]:
        """Ids of cells that passed the comparison with the reference, or a command's check.

        None of an in-kernel session: what was compared there is another build.
        """
        if self.attempt.record.kind == SessionKind.IN_KERNEL:
            return frozenset()
        result = self.attempt.result
        if self.attempt.record.kind == SessionKind.CHECK:
            has_passed = result is not None and result.cause == FINISHED and not result.failed
            return self.current_cells if has_passed else frozenset()
        return frozenset(
            record["cell"]
            for record in self.records
            if record.get("event") == protocol.FINISHED and record.get("phase") == protocol.CHECK
        )

    def settled_cells(self) -> frozenset[str]:
        """Checked cells that no later session has to check: their test on new inputs was due.

        It comes after the last visit of a problem: an attempt that ended before tested nothing.
        """
        result = self.attempt.result
        if result is not None and result.cause == FINISHED:
            return self.checked_cells
        return self.checked_cells & {
            record["cell"]
            for record in self.records
            if record.get("event") == protocol.NOT_RECHECKED
            or (record.get("event"), record.get("phase")) == (protocol.FINISHED, protocol.RECHECK)
        }

    def part_params(self) -> dict[str, Params]:
        """Parameters of the parts of an external command, by the cell id of their samples."""
        visit = self.attempt.record.visit
        if self.parts is None or visit is None:
            return {}
        return {cell_of_part(visit["cell"], params): params for params in self.parts.params}

    def kernels(self) -> dict[str, tuple[tuple[str, ...], ...]]:
        """Distinct lists of kernels that a cell launched, by cell id, in the order of visits.

        Empty for external commands: each kernel is a cell of its own there.
        """
        if self.attempt.record.visit is not None:
            return {}
        columns = (self.samples[name].tolist() for name in ("cell", "kernel_names"))
        lists: dict[str, dict[tuple[str, ...], None]] = {}
        for cell, names in zip(*columns, strict=True):
            if names != "":
                lists.setdefault(str(cell), {})[tuple(str(names).split(KERNEL_SEPARATOR))] = None
        return {cell: tuple(distinct) for cell, distinct in lists.items()}

    def fallback_reasons(self) -> dict[str, str]:
        """Reason by cell id why its kernels are not those of its variant."""
        check = self.attempt.kernel_check
        fell_back = check.fell_back if check is not None else {}
        return {cell: reason for cell, reason in fell_back.items() if cell in self.current_cells}

    def unchecked_cells(self) -> frozenset[str]:
        """Ids of cells whose kernels were recorded but not checked by the workload's space."""
        check = self.attempt.kernel_check
        if check is not None and not check.undecided:
            return frozenset()
        cells = frozenset(self.kernels())
        return cells if check is None else cells & frozenset(check.undecided)

    def cells_without_kernel(self) -> set[str]:
        """Ids of cells with a finished visit but no seen kernel, as decided after the attempt."""
        check = self.attempt.kernel_check
        return set() if check is None else set(check.no_kernel) & self.current_cells

    def roof_faults(self) -> dict[str, str]:
        """Why a practical roof could not be measured, by roof."""
        failed = (r for r in self.records if r.get("event") == protocol.ROOF_FAILED)
        return {record["roof"]: str(record["cause"]) for record in failed}

    def finished_without_kernel(self) -> set[str]:
        """Ids of cells with a finished visit but no sample, in a session that ended well."""
        result = self.attempt.result
        if result is None or result.cause != FINISHED:
            return set()
        finished = {cell for cell, _, _ in runner_journal.finished_visits(self.records)}
        return finished - {visit.cell for visit in self.visits}  # whose single visits are repeated


def median_durations(attempts: Iterable[Loaded]) -> dict[str, float]:
    """Median duration in ns by cell id, over the timing samples of attempts."""
    frames = [
        loaded.samples
        for loaded in attempts
        if loaded.attempt.record.kind in _TIMED and "duration_ns" in loaded.samples
    ]
    if not frames:
        return {}
    medians = pd.concat(frames).groupby("cell")["duration_ns"].median().dropna()
    return {str(cell): float(duration) for cell, duration in medians.items()}


def _tries(record: Mapping[str, Any]) -> bool:
    """Whether a record shows that a cell was tried; declared work comes before any cell."""
    started = record.get("event") == protocol.STARTED and record.get("phase") != protocol.DECLARE
    return started or record.get("event") == protocol.FAILED


def visits_of(samples: pd.DataFrame) -> frozenset[Visit]:
    """Visits of samples."""
    keys = zip(*(samples[name].tolist() for name in ("cell", "block", "arm")), strict=True)
    return frozenset(Visit(str(cell), int(block), int(arm)) for cell, block, arm in set(keys))


# ---- what journals say of cells, beside what was measured ----------------------------------------

_DESCRIBED = (
    *protocol.AMOUNTS,
    *("result_bytes", "written_bytes", "max_abs_error", "max_rel_error"),
    *protocol.LAUNCH_FACTS,
    *protocol.VISIT_FACTS,
    protocol.WAITING_NS,
)
_SAY_FACTS = frozenset((*_DESCRIBED, "result_dtypes"))


def add_description(facts: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Add later facts of a cell to `facts`.

    Of compilations the longest counts, and of launches that wait for the device the shortest.
    """
    chosen_values = {
        name: choose(values[name], facts.get(name, values[name]))
        for name, choose in (("compile_seconds", max), (protocol.WAITING_NS, min))
        if name in values
    }
    facts |= {**values, **chosen_values}


# ---- practical roofs of a run, from its attempts -------------------------------------------------

_MOST_TRIES = 2
"""A session that was killed meanwhile measures it again; what hangs twice is left alone."""


def missing_roofs(metrics: Sequence[str], earlier: Sequence[Loaded]) -> tuple[str, ...]:
    """Roofs of the metrics that no earlier attempt has measured or given up.

    Without those of tensor cores whose operations were counted, and in no cell were any.
    """
    tries = Counter(
        str(record["roof"])
        for loaded in earlier
        for record in loaded.records
        if record.get("event") == protocol.ROOF_STARTED
    )
    settled = {
        roof
        for loaded in earlier
        for roof in (*loaded.tool_facts.practical_roofs, *loaded.roof_faults())
    }
    return tuple(
        roof
        for roof in roofs_countable(metrics)
        if roof not in settled and tries[roof] < _MOST_TRIES and not _is_unused(roof, earlier)
    )


def _is_unused(roof: str, earlier: Sequence[Loaded]) -> bool:
    """Whether operations under a roof were counted, with 0 in every cell."""
    operations = f"{roof}_ops"
    counts = [
        float(count)
        for loaded in earlier
        if operations in loaded.samples
        for count in loaded.samples[operations].dropna()
    ]
    return bool(counts) and max(counts) <= 0


def measured_roofs(attempts: Sequence[Loaded]) -> dict[str, float]:
    """Latest shares of the hardware's roofs that plain kernels reached, by roof."""
    return {
        roof: share
        for loaded in attempts
        for roof, share in loaded.tool_facts.practical_roofs.items()
    }


def roof_faults(attempts: Sequence[Loaded]) -> dict[str, str]:
    """Cause by practical roof that no attempt measured."""
    measured = measured_roofs(attempts)
    faults = {roof: cause for loaded in attempts for roof, cause in loaded.roof_faults().items()}
    return {roof: cause for roof, cause in faults.items() if roof not in measured}
