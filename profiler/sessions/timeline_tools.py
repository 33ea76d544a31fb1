"""Timelines of the sessions of a run: settings, tools, and the files that are stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiler.collect import NvtxWindow, ProfilerApiWindow, Tools, Window, nsys
from profiler.collect.nsys import Nsys
from profiler.collect.registry import COLLECTORS, timeline_collectors
from profiler.errors import EnvironmentUnusable
from profiler.machine.requirements import Machine
from profiler.planning.session_plans import ncu_cache_control
from profiler.planning.spec import CommandWorkload, Experiment
from profiler.runner import protocol

NSYS = nsys.KIND.name
"""The collector of `--timeline`."""


@dataclass(frozen=True)
class TimelineTools:
    """Settings and tools of the timelines of a run."""

    experiment: Experiment
    machine: Machine

    @property
    def tools(self) -> Tools:
        """Tools that the collectors of the run are made with, those without a timeline too."""
        collect = self.experiment.collect
        return Tools(
            ncu=self.machine.ncu,
            nsys=self.machine.nsys,
            cache_control=ncu_cache_control(self.experiment),
            clock_control=collect.clock_control,
            replay_mode=collect.replay_mode,
            child_processes=collect.child_processes,
            nsys_window=self.nsys_window(),
        )

    @property
    def launches(self) -> int:
        """Launches per visit."""
        return self.experiment.collect.timeline.launches

    @property
    def capture(self) -> str:
        """Capture setting of nsys: that of the spec, `program` where there are no visits.

        So it is for an external command; and without CUDA, nobody can tell nsys when to begin.
        """
        asked = self.experiment.collect.timeline.capture
        command = isinstance(self.experiment.workload, CommandWorkload)
        blind = command or self.machine.device == "cpu"
        if asked == protocol.CAPTURE_VISITS and blind:
            return protocol.CAPTURE_PROGRAM
        return asked

    @property
    def one_visit_a_process(self) -> bool:
        """Whether a recording ends with the first range of a name, whichever visit opened it."""
        return isinstance(self.nsys_window(), NvtxWindow)

    def settings(self, collector: str) -> Mapping[str, Any]:
        """Everything that could change a timeline and is no part of a cell's key."""
        if COLLECTORS[collector].report_file is not None:
            tool = self.machine.environment.nsys
            return {"launches": self.launches, "capture": self.capture, "nsys": tool}
        return {"launches": self.launches}

    def all_settings(self) -> dict[str, Mapping[str, Any]]:
        """Settings of every collector of timelines."""
        return {collector: self.settings(collector) for collector in timeline_collectors()}

    def nsys_window(self) -> Window | None:
        """When nsys records."""
        if self.capture == protocol.CAPTURE_PROGRAM:
            return None
        if self.capture == protocol.CAPTURE_VISITS:
            return ProfilerApiWindow()
        name, _, domain = self.capture.partition("@")
        return NvtxWindow(name, domain)

    def prepare(self, folder: Path) -> None:
        """Make the private folder of an attempt."""
        from profiler.sessions.timeline_files import prepare_private  # noqa: PLC0415 - as in _keep

        prepare_private(folder)

    def keep(self, collector: str, folder: Path, *, ended_well: bool) -> None:
        """Write the cleaned files of an attempt, once its process has ended.

        Raises EnvironmentUnusable where that cannot be done although the session ended well; what a
        killed one left is measured again.
        """
        try:
            self._keep(collector, folder)
        except (EnvironmentUnusable, OSError):
            if ended_well:
                raise

    def _keep(self, collector: str, folder: Path) -> None:
        # Only here, because they bring pandas, and the settings are asked before the first session.
        from profiler.parse.timeline_files import TimelineFacts  # noqa: PLC0415
        from profiler.sessions.timeline_files import keep_report, keep_traces  # noqa: PLC0415

        device = self.machine.device
        tool = COLLECTORS[collector].create(self.tools)
        if isinstance(tool, Nsys):
            keep_report(tool, folder, TimelineFacts(collector, device, self._stored_capture()))
        else:
            keep_traces(folder, TimelineFacts(collector, device, protocol.CAPTURE_VISITS))

    def _stored_capture(self) -> str:
        """Capture setting of the cleaned files: of visits only these, however nsys was started."""
        asked = self.experiment.collect.timeline.capture
        command = isinstance(self.experiment.workload, CommandWorkload)
        return asked if not command else self.capture
