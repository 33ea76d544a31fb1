"""The attempts of a run while it is measured: what they have, and what is missing."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from profiler.collect.registry import has_counters
from profiler.model import BuildResult, Cell, Plan, SessionKind, SessionPlan, Visit
from profiler.parse import runner_journal
from profiler.planning.spec import CommandWorkload
from profiler.run_folder.folder import (
    Attempt,
    RunFolder,
)
from profiler.run_folder.load.attempts import AttemptReader
from profiler.run_folder.load.loaded import Loaded, missing_roofs
from profiler.run_folder.load.outcomes import Results, failures, find_aliases, gather
from profiler.sessions.execution import Execution
from profiler.sessions.templates import timeline_settings


@dataclass
class AttemptBook:
    """Reads the attempts of a run, each once."""

    execution: Execution
    run: RunFolder
    builds: Sequence[BuildResult]
    keys: Mapping[str, str]
    """Cell id → key of today."""
    reader: AttemptReader
    opened: Mapping[str, str]
    """Today's digests of the files that earlier sessions opened, as in RunRecord.opened."""
    stamped: Mapping[str, str]
    """Libraries with in-kernel stamps, by variant id."""
    earlier: Set[Path] = field(init=False)
    """Folders of the attempts that earlier executions made."""
    _ended: dict[Path, Loaded] = field(default_factory=dict)
    """Finished attempts by folder, each read once."""
    _gathered: tuple[Sequence[Loaded], Results] | None = None
    """Attempts, and the results gathered from them."""

    def __post_init__(self) -> None:
        self.earlier = {attempt.folder for attempt in self.run.attempts()}

    @property
    def plan(self) -> Plan:
        """What is measured."""
        return self.execution.plan

    def attempts(self) -> list[Loaded]:
        """Every attempt of the run so far; an attempt is read again after its end."""
        on_disk = self._attempts_on_disk()
        self.reader.read_ahead(on_disk, self.execution.machine.environment.compute_capability)
        attempts = [self._ended.get(attempt.folder) or self.load(attempt) for attempt in on_disk]
        self._ended = {loaded.attempt.folder: loaded for loaded in filter(_has_ended, attempts)}
        return attempts

    def opened_meanwhile(self) -> dict[str, str]:
        """Last digest by name of each file that sessions of this execution opened."""
        on_disk = self._attempts_on_disk()
        attempts = (attempt for attempt in on_disk if attempt.folder not in self.earlier)
        journals = filter(None, map(self._records, attempts))
        opened: dict[str, str] = {}
        for records in sorted(journals, key=lambda records: records[0].get("time", 0.0)):
            opened |= runner_journal.opened_files(records)
        return opened

    def _records(self, attempt: Attempt) -> Sequence[Mapping[str, Any]]:
        loaded = self._ended.get(attempt.folder)
        return loaded.records if loaded else tuple(runner_journal.read_journal(attempt.journal))

    def _attempts_on_disk(self) -> tuple[Attempt, ...]:
        ended_attempts = {folder: loaded.attempt for folder, loaded in self._ended.items()}
        return self.run.attempts(ended_attempts)

    def load(self, attempt: Attempt) -> Loaded:
        """Read an attempt, once."""
        capability = self.execution.machine.environment.compute_capability
        settings = timeline_settings(self.execution)
        # Measurements of this execution count until its end, also after edits.
        opened = self.opened if attempt.folder in self.earlier else {}
        return self.reader.load(attempt, self.keys, capability, settings, opened)

    def forget(self, folder: Path) -> None:
        """Read an attempt anew: more was written into its folder."""
        self._ended.pop(folder, None)

    def measured_visits(self, folder: Path) -> Set[Visit]:
        """Visits with results in an attempt."""
        return self.load(self.run.attempt(folder)).visits

    def missing_visits(
        self,
        session: SessionPlan,
        earlier: Sequence[Loaded],
        throttled: Set[Visit] = frozenset(),
    ) -> tuple[Visit, ...]:
        """Visits still to make, including repeats of `throttled` ones."""
        return missing_visits(
            self.plan,
            session,
            earlier,
            builds=self.builds,
            stamped=self.stamped,
            time_limit_s=self.execution.loaded.experiment.collect.time_limit_s,
            throttled=throttled,
        )

    def roofs(self, session: SessionPlan, earlier: Sequence[Loaded]) -> tuple[str, ...]:
        """Practical roofs for a session to measure: roofs that no earlier attempt has.

        None where nothing is explained: they are part of the why, and take some seconds.
        """
        if not self.execution.loaded.experiment.collect.explain or not has_counters(
            session.collector
        ):
            return ()
        return missing_roofs(session.metrics, earlier)

    def samples(self) -> pd.DataFrame:
        """Samples so far, without those of failed cells."""
        results = self._results()
        failed = {cell for cell, status in results.statuses.items() if status.outcome.failed}
        return results.samples[~results.samples["cell"].isin(failed)]

    def cells(self) -> tuple[Cell, ...]:
        """Cells of the plan; the parts seen so far of an external command."""
        if not isinstance(self.execution.loaded.experiment.workload, CommandWorkload):
            return self.plan.cells
        return self._results().cells

    def explained_cells(self) -> frozenset[str]:
        """Ids of the explained cells; of an external command the ids of its parts."""
        return frozenset(cell for loaded in self.attempts() for cell in loaded.details.profiles)

    def launches(self) -> dict[str, int]:
        """Most profiled launches in a visit of an external command, by planned cell."""
        launches: dict[str, int] = {}
        for loaded in self.attempts():
            visit, counted = loaded.attempt.record.visit, loaded.attempt.record.counted
            if visit is not None and not counted:
                launches_in_visit = loaded.tool_facts.launches
                launches[visit["cell"]] = max(launches.get(visit["cell"], 0), launches_in_visit)
        return launches

    def _results(self) -> Results:
        """Results so far: gathered again only after an attempt began or ended."""
        attempts = self.attempts()
        if self._gathered is None or not _are_same_attempts(self._gathered[0], attempts):
            results = gather(self.plan, self.builds, attempts, self.execution.machine.environment)
            self._gathered = attempts, results
        return self._gathered[1]


def _has_ended(loaded: Loaded) -> bool:
    """Whether an attempt is complete; one with unreadable files may be mended and read again."""
    return loaded.attempt.result is not None and not loaded.unreadable


def _are_same_attempts(earlier: Sequence[Loaded], current: Sequence[Loaded]) -> bool:
    return len(earlier) == len(current) and all(map(operator.is_, earlier, current))


def missing_visits(  # noqa: PLR0913 - all but the first three by keyword
    plan: Plan,
    session: SessionPlan,
    earlier: Sequence[Loaded],
    *,
    builds: Sequence[BuildResult],
    stamped: Collection[str],
    time_limit_s: float,
    throttled: Set[Visit],
) -> tuple[Visit, ...]:
    """Visits still to make, including repeats of `throttled` ones.

    `stamped`: ids of the variants that have a library with stamps; `time_limit_s`: of a visit.
    """
    measured = measured_visits(session, earlier) - throttled
    skipped = {build.variant for build in builds if not build.ok}
    if session.kind is SessionKind.IN_KERNEL:
        skipped |= {v.id for v in plan.variants if v.id not in stamped}
    failed = failures(plan, earlier, kind=session.kind)
    left_out = {cell for cell, failure in failed.items() if failure.is_lasting(time_limit_s)}
    left_out |= set(find_aliases(plan.cells, builds))
    variant_of = {cell.id: cell.variant.id for cell in plan.cells}
    return tuple(
        visit
        for visit in session.visits
        if visit not in measured
        and visit.cell not in left_out
        and variant_of[visit.cell] not in skipped
    )


def measured_visits(session: SessionPlan, earlier: Sequence[Loaded]) -> set[Visit]:
    """Visits with results in the attempts of a session."""
    of_session = (a for a in earlier if a.attempt.record.session == session.name)
    return set[Visit]().union(*(loaded.visits for loaded in of_session))
