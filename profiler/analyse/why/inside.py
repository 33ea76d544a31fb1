"""Samples that ncu took inside a launch: SM cycles, pipes and device memory over time.

The section PmSampling reads counters every 1.5 µs in a pass of its own, on an idle GPU as all
passes (Nsight Compute Profiling Guide, PM sampling). ncu prints the samples on a raw page with
`--print-metric-instances details` as `TIME (+TIME): VALUE`; TIME is where a sample begins. Seen
with 2025.3.1 on an H200: cycles of all samples add up to those that another pass counts.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

ACTIVE, ISSUED, PER_ACTIVE = "active", "issued", "issued_per_active_cycle"
SAMPLED = {
    ACTIVE: "sm__cycles_active.avg",
    ISSUED: "sm__inst_executed_realtime.avg.pct_of_peak_sustained_elapsed",
    PER_ACTIVE: "sm__inst_executed_realtime.avg.per_cycle_active",
    "tensor": "sm__pipe_tensor_cycles_active_realtime.avg.pct_of_peak_sustained_elapsed",
    "fma": "sm__inst_executed_pipe_fma_realtime.avg.pct_of_peak_sustained_elapsed",
    "xu": "sm__inst_executed_pipe_xu_realtime.avg.pct_of_peak_sustained_elapsed",
    "dram": "dramc__throughput.avg.pct_of_peak_sustained_elapsed",
}
"""ncu's names of the counters that are kept, which follow the group of the samples
(`TPC.TriageCompute.`, `pmsampling:`). Percent of the peak, but for PER_ACTIVE and for ACTIVE:
cycles of an SM with a warp, which are kept per ns."""
_PEAK_ISSUED = 4.0
"""Instructions of an SM in a cycle: one of each scheduler, since compute capability 7.0."""
_FEWEST_ISSUED = 0.25
"""Least issued per active cycle: of less, the two decimals that ncu prints are over 2 % off."""
_GROUP = re.compile(r"(?:[\w.]+\.Triage\w*\.|pmsampling:)(.+)")
_SAMPLE = re.compile(r"(\d{15,}) \(\+\d+\): ([-+.,\deE]+)")
_TIME = re.compile(r"\d{15,}")
_BEGIN, _END = "profiler__timestamp_workload_start_", "profiler__timestamp_workload_end_"
_MOST_SAMPLES = 400
"""Samples kept of a launch; of more, neighbours are averaged."""
_BUSY = 0.95
"""Share of the median busy share from which on a launch is neither in its ramp nor in its tail."""
_CLOCKED = 0.5
"""Share of busy SMs from which on a sample tells the clock."""
LEAST_SAMPLES = 20
"""Samples that a launch needs: fewer show nothing."""
_EDGE = 10
"""Parts whose mean clocks are compared; one in so many samples may be unknown."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PmSamples:
    """Samples of one launch."""

    begin_ns: float
    """Time of the first sample, from the beginning of the launch."""
    step_ns: float
    duration_ns: float
    """Duration of the launch that was sampled."""
    samples: Mapping[str, Floats]
    """Samples by name of SAMPLED; ACTIVE in cycles per ns."""

    @property
    def times_ns(self) -> Floats:
        """Middle of each sample, from the beginning of the launch."""
        middles = np.arange(len(self.samples[ACTIVE]), dtype=np.float64) + 0.5
        return self.begin_ns + self.step_ns * middles

    @cached_property
    def busy(self) -> Floats:
        """Share of the SMs' cycles with a warp, by sample; NaN where too little is issued.

        Instructions in an elapsed cycle ÷ those in an active one.
        """
        per_active = self.samples[PER_ACTIVE]
        counted_per_active = np.where(per_active >= _FEWEST_ISSUED, per_active, np.nan)
        shares = self.samples[ISSUED] / 100 * _PEAK_ISSUED / counted_per_active
        return np.where(self.samples[ACTIVE] > 0, np.minimum(shares, 1.0), 0.0)

    @cached_property
    def clocks_ghz(self) -> Floats:
        """Clock of the SMs in each sample; NaN where few are busy."""
        busy = np.where(self.busy >= _CLOCKED, self.busy, np.nan)
        clocks: Floats = self.samples[ACTIVE] / busy
        return clocks

    @property
    def is_known(self) -> bool:
        """Whether there are enough samples, nearly all of them with a known busy share."""
        return len(self.busy) >= LEAST_SAMPLES and float(np.isnan(self.busy).mean()) < 1 / _EDGE

    @cached_property
    def _steady_samples(self) -> tuple[int, int]:
        """First and last sample in which as many SMs are busy as usual."""
        steady = np.flatnonzero(self.busy >= _BUSY * np.nanmedian(self.busy))
        return int(steady[0]), int(steady[-1])

    @property
    def ramp_ns(self) -> float:
        """Time until as many SMs are busy as usual, to within a step."""
        return max(0.0, self.begin_ns + self._steady_samples[0] * self.step_ns)

    @property
    def tail_ns(self) -> float:
        """Time at the end in which fewer SMs are busy than usual: last wave, slowest blocks."""
        ends_ns = self.begin_ns + (self._steady_samples[1] + 1) * self.step_ns
        return max(0.0, self.duration_ns - ends_ns)

    @property
    def _known_clocks_ghz(self) -> Floats:
        return self.clocks_ghz[np.isfinite(self.clocks_ghz)]

    @property
    def clock_ghz(self) -> float:
        """Mean clock of the SMs; NaN where few are busy in every sample, as in small grids."""
        clocks = self._known_clocks_ghz
        return float(clocks.mean()) if len(clocks) else math.nan

    @property
    def clock_range_ghz(self) -> tuple[float, float]:
        """Lowest and highest clock, each over a tenth of the launch; NaN as `clock_ghz`."""
        clocks = self._known_clocks_ghz
        if not len(clocks):
            return math.nan, math.nan
        tenths = [float(part.mean()) for part in np.array_split(clocks, min(_EDGE, len(clocks)))]
        return min(tenths), max(tenths)

    @property
    def idle_share(self) -> float:
        """Share of the time of all SMs without a warp: start, tail, imbalance."""
        return 1 - float(np.nansum(self.busy)) * self.step_ns / self.duration_ns

    @property
    def ends_idle_share(self) -> float:
        """Share of the time of all SMs without a warp in ramp and tail."""
        first, last = self._steady_samples
        busy_ns = float(np.nansum(self.busy[first : last + 1])) * self.step_ns
        steady_ns = self.duration_ns - self.ramp_ns - self.tail_ns
        return self.idle_share - max(0.0, steady_ns - busy_ns) / self.duration_ns


def samples_of_page(page: str) -> str:
    """JSON of the samples that a raw page with instances has; empty without any."""
    csv.field_size_limit(sys.maxsize)  # a cell holds all samples of a metric
    rows = list(csv.reader(io.StringIO(page[max(page.find('"ID"'), 0) :])))
    if len(rows) < 3 or "ID" not in rows[0]:
        return ""
    launches = [dict(zip(rows[0], row, strict=False)) for row in rows[2:]]
    sampled = [launch for launch in map(_launch_record, launches) if launch]
    return json.dumps({"launches": sampled}, separators=(",", ":")) if sampled else ""


def read_samples(text: str | bytes) -> dict[int, PmSamples]:
    """Samples by the id of their launch; raises ValueError, KeyError, TypeError for other JSON."""
    return {
        int(launch["id"]): PmSamples(
            **{name: float(launch[name]) for name in _NUMBERS},
            samples={
                name: np.array(values, dtype=np.float64)
                for name, values in launch["samples"].items()
            },
        )
        for launch in json.loads(text)["launches"]
    }


_NUMBERS = ("begin_ns", "step_ns", "duration_ns")


def _launch_record(cells: Mapping[str, str]) -> dict[str, Any] | None:
    """Record of one launch; None where cycles and instructions were not sampled."""
    windows = list(_windows(cells))
    series: dict[str, list[tuple[int, float]]] = {}
    for column, cell in cells.items():
        match = _GROUP.fullmatch(column)
        name = match and next((n for n, raw in SAMPLED.items() if raw == match[1]), None)
        if name and (launch_samples := _samples_in_launch(cell, windows)):
            series.setdefault(name, launch_samples)
    if not {ACTIVE, ISSUED, PER_ACTIVE} <= series.keys() or len(series[ACTIVE]) < 2:
        return None
    times, active = zip(*series[ACTIVE], strict=True)
    step = float(np.median(np.diff(times)))
    begin, end = next((b, e) for b, e in windows if b - step < times[0] < e)
    per_bin = -(-len(times) // _MOST_SAMPLES)
    values_by_name = {name: [value for _, value in samples] for name, samples in series.items()}
    values_by_name[ACTIVE] = [cycles / step for cycles in active]
    return {
        "id": int(cells["ID"]),
        "begin_ns": times[0] - begin,
        "step_ns": step * per_bin,
        "duration_ns": end - begin,
        "samples": {name: _bin_means(values, per_bin) for name, values in values_by_name.items()},
    }


def _windows(cells: Mapping[str, str]) -> Iterator[tuple[int, int]]:
    """Begin and end of the launch in each pass that was sampled, in ns."""
    group = 0
    while (begin := cells.get(f"{_BEGIN}{group}")) and (end := cells.get(f"{_END}{group}")):
        times = _TIME.search(begin), _TIME.search(end)
        if times[0] and times[1]:
            yield int(times[0][0]), int(times[1][0])
        group += 1


def _samples_in_launch(cell: str, windows: Sequence[tuple[int, int]]) -> list[tuple[int, float]]:
    """Time and value of the samples within the launch."""
    samples = [(int(time), float(value.replace(",", ""))) for time, value in _SAMPLE.findall(cell)]
    step = samples[1][0] - samples[0][0] if len(samples) > 1 else 0
    for begin, end in windows:
        if in_window := [sample for sample in samples if begin - step < sample[0] < end]:
            return in_window
    return []


def _bin_means(values: Sequence[float], per_bin: int) -> list[float]:
    """Means of bins of `per_bin` values, with four digits; the last bin may be smaller."""
    means = [
        sum(values[start : start + per_bin]) / len(values[start : start + per_bin])
        for start in range(0, len(values), per_bin)
    ]
    return [float(f"{mean:.4g}") for mean in means]
