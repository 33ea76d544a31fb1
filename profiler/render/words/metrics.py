"""Which metrics figures and tables show."""

from __future__ import annotations

from profiler.findings.findings import Findings
from profiler.metrics.labels import Label, label

# What a comparison of kernels is read for first; a page has no room for figures of every metric.
_MOST_TELLING = (
    "duration_ns",
    "cycles",
    "tflops",
    "gbps",
    "registers",
    "l2_hit_pct",
    "dram_read_bytes",
    "dram_write_bytes",
    "memory_throughput_pct",
    "compute_throughput_pct",
    "achieved_occupancy_pct",
    "instructions",
)


_SAMPLED = ("energy_j", "power_w")
"""What NVML said while the timer ran."""


def shown_metrics(findings: Findings) -> tuple[Label, ...]:
    """Metrics for figures and the main table: the primary one, the most telling, the rest."""
    measured = {metric.name: metric for metric in findings.numbers.metrics}
    wanted = findings.report.settings.metrics or tuple(measured)
    telling = [name for name in _MOST_TELLING if name in wanted or name in measured]
    # Nobody asks for these: they are there where visits last long enough.
    sampled = [name for name in _SAMPLED if name in measured]
    names = dict.fromkeys([findings.numbers.primary.name, *telling, *wanted, *sampled])
    return tuple(measured.get(name) or label(name) for name in names)
