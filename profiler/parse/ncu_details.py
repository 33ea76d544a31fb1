"""Details pages of ncu's CSV: one row per metric of a launch, and rows of advice by ncu's rules.

Names of metrics stand there as labels. Those of 2025.3 are from two captures of the same program,
with and without `--print-metric-name name`; labels of other versions are those that published
scripts for 2019 to 2024 look for. A label is only unique within its section: `Memory Throughput`
is a percentage in one and a rate in another.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from profiler.parse.ncu_launches import Column, Launches, identity_reader, launch_id
from profiler.parse.ncu_lines import Header, Scanner, split_row
from profiler.parse.ncu_numbers import (
    NumberStyle,
    detect_style,
    factor_to_base,
    is_duration,
    parse_number,
)
from profiler.parse.ncu_raw import TEXT_METRICS


class RuleRow(NamedTuple):
    """Advice of one of ncu's rules on one launch. Speedups of `global` and `local` never add up."""

    launch: int
    """Row number of the launch in the frame of launches."""
    id: int
    section: str
    """Identifier (`SpeedOfLight`), not the section's name in metric rows."""
    rule: str
    type: str
    """`INF`, `OPT` or `WRN`."""
    description: str
    speedup_pct: float
    """Estimated speedup in percent; NaN where the rule gives none."""
    speedup_type: str | None
    """`global`: of the whole launch; `local`: of the part that the rule looks at."""


_KEY = ("Process ID", "Kernel Name", "Block Size", "Grid Size")
"""Headers by which launches of the same number differ."""


class _Table:
    """Rows of one details table as texts: cells by metric and launch, and advice."""

    def __init__(self, header: Header, launches: Launches) -> None:
        self.header = header
        self.cells: dict[str, dict[int, tuple[str, str]]] = {}
        """Value and unit, by metric and by row of the launch."""
        self.advice: list[tuple[int, list[str]]] = []
        """Row of the launch, and fields of a rule."""
        self._launches = launches
        self._width = len(header.names)
        self._position = {name: i for i, name in reversed(list(enumerate(header.names)))}
        self._identity_of = identity_reader(header.names)
        self._rows: dict[tuple[str, ...], int] = {}
        self._read: set[tuple[int, str, str]] = set()
        """Launch, section and metric of the rows so far: a repeated one belongs to another run that
        was appended under the same header."""

    def cell(self, fields: Sequence[str], header: str) -> str:
        """Cell of a row under a header; empty without that header."""
        return fields[self._position[header]] if header in self._position else ""

    def add(self, line: bytes) -> bool:
        """Add one row; False where it is neither a metric nor a rule, or was cut off."""
        row = split_row(line)
        number = None if row is None else launch_id(row[0])
        value_at = self._position["Metric Value"]
        if row is None or number is None or not value_at < len(row) <= self._width:
            return False
        fields = [*row, *[""] * (self._width - len(row))]
        name, section = self.cell(fields, "Metric Name"), self.cell(fields, "Section Name")
        # Only metric rows end with a comma, and only behind their value; any other row with a comma
        # at its end was cut off before the next quoted cell.
        is_cut_off = line.endswith(b",") and not (name and len(row) > value_at + 1)
        is_rule = bool(self.cell(fields, "Rule Name")) and len(row) == self._width
        if is_cut_off or not (name or is_rule):
            return False
        launch = self._launch_row(number, fields)
        if name and (launch, section, name) in self._read:
            launch = self._launch_row(number, fields, is_repeated=True)
        if name:
            self._read.add((launch, section, name))
            self._add_metric(launch, metric_name(section, name), fields)
        if is_rule:
            self.advice.append((launch, fields))
        return True

    def _launch_row(self, number: int, fields: list[str], *, is_repeated: bool = False) -> int:
        """Row of the launch of some fields; a new row where the launch `is_repeated`."""
        # Files that were appended to others repeat the numbers of launches and of processes.
        key = (fields[0], *(self.cell(fields, name) for name in _KEY))
        row = self._rows.get(key)
        if row is None or is_repeated:
            row = self._rows[key] = len(self._launches)
            self._launches.add_launch(number, *self._identity_of(fields))
        return row

    def _add_metric(self, row: int, metric: str, fields: list[str]) -> None:
        value, unit = self.cell(fields, "Metric Value"), self.cell(fields, "Metric Unit")
        # Sections share metrics; a metric without a value in one section may have one in another.
        earlier = self.cells.setdefault(metric, {}).get(row)
        if earlier is None or _is_missing(earlier[0]):
            self.cells[metric][row] = value, unit


def read_details(header: Header, scanner: Scanner, launches: Launches) -> list[RuleRow]:
    """Advice of ncu's rules in one details table, whose rows are read into `launches`."""
    start = len(launches)
    table = _Table(header, launches)
    for line in scanner.rows():
        if not table.add(line):
            scanner.reject(line)
    style = detect_style(text for cells in table.cells.values() for text, _ in cells.values())
    columns: dict[str, Column] = {}
    for name, cells in table.cells.items():
        texts: dict[int, str] = {}
        columns[name] = np.full(len(launches) - start, np.nan), texts
        for row, (text, unit) in sorted(cells.items()):
            number = None if name in TEXT_METRICS else parse_number(text, style)
            if number is None:
                texts[row - start] = text
                continue
            factor = _factor(name, unit, has_units="Metric Unit" in header.names)
            columns[name][0][row - start] = number * factor
            if math.isnan(factor):
                launches.wrong_units[name] = unit.strip() or "an empty cell"
    launches.add_values(start, columns)
    launches.lacks_units |= "Metric Unit" not in header.names
    return [_rule(launches.ids[row], row, table, fields, style) for row, fields in table.advice]


def _factor(name: str, unit: str, *, has_units: bool) -> float:
    """Factor from a unit to the base unit of a metric; NaN where the metric cannot have it."""
    lacks_unit = has_units and is_duration(name) and not unit.strip()
    return math.nan if lacks_unit else factor_to_base(name, unit)


def _rule(number: int, row: int, table: _Table, fields: list[str], style: NumberStyle) -> RuleRow:
    speedup = parse_number(table.cell(fields, "Estimated Speedup"), style)
    return RuleRow(
        launch=row,
        id=number,
        section=table.cell(fields, "Section Name"),
        rule=table.cell(fields, "Rule Name"),
        type=table.cell(fields, "Rule Type"),
        description=table.cell(fields, "Rule Description"),
        speedup_pct=np.nan if speedup is None else speedup,
        speedup_type=table.cell(fields, "Estimated Speedup Type") or None,
    )


def _is_missing(text: str) -> bool:
    """Whether a cell holds a text that ncu writes in place of a missing number."""
    number = parse_number(text)
    return number is not None and math.isnan(number)


# ---- names of metrics by their labels ------------------------------------------------------------

_SPEED_OF_LIGHT = {
    "DRAM Frequency": "dram__cycles_elapsed.avg.per_second",
    "Memory Frequency": "dram__cycles_elapsed.avg.per_second",
    "SM Frequency": "gpc__cycles_elapsed.avg.per_second",
    "Elapsed Cycles": "gpc__cycles_elapsed.max",
    "SM Active Cycles": "sm__cycles_active.avg",
    "Duration": "gpu__time_duration.sum",
    "Memory Throughput": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "Memory [%]": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "SOL Memory": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "Compute (SM) Throughput": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "Compute (SM) [%]": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "SM [%]": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "SOL SM": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "DRAM Throughput": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "SOL DRAM": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "SOL FB": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "L1/TEX Cache Throughput": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "SOL L1/TEX Cache": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "SOL TEX": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "L2 Cache Throughput": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "SOL L2 Cache": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "SOL L2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
}

_COMPUTE = {
    "Executed Ipc Active": "sm__inst_executed.avg.per_cycle_active",
    "Executed Ipc Elapsed": "sm__inst_executed.avg.per_cycle_elapsed",
    "Issue Slots Busy": "sm__inst_issued.avg.pct_of_peak_sustained_active",
    "Issued Ipc Active": "sm__inst_issued.avg.per_cycle_active",
    "SM Busy": "sm__instruction_throughput.avg.pct_of_peak_sustained_active",
}

_MEMORY = {
    "Local Memory Spilling Requests": "derived__local_spilling_requests",
    "Local Memory Spilling Request Overhead": "derived__local_spilling_requests_pct",
    "Memory Throughput": "dram__bytes.sum.per_second",
    "Mem Busy": "gpu__compute_memory_access_throughput.avg.pct_of_peak_sustained_elapsed",
    "Max Bandwidth": "gpu__compute_memory_request_throughput.avg.pct_of_peak_sustained_elapsed",
    "Mem Pipes Busy": "sm__memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "L1/TEX Hit Rate": "l1tex__t_sector_hit_rate.pct",
    "L1 Hit Rate": "l1tex__t_sector_hit_rate.pct",
    "L2 Hit Rate": "lts__t_sector_hit_rate.pct",
    "L2 Persisting Size": "launch__persisting_l2_cache_size",
    "L2 Compression Success Rate": "lrc__average_ilc_input_sector_success_rate.pct",
    "L2 Compression Ratio": "lrc__average_ilc_output_sector_compression_achieved_rate.pct",
    "L2 Compression Input Sectors": "lrc__ilc_input_sectors.sum",
}

_LAUNCH = {
    "Block Size": "launch__block_size",
    "Cluster Scheduling Policy": "launch__cluster_scheduling_policy",
    "Cluster Size": "launch__cluster_size",
    "Function Cache Configuration": "launch__func_cache_config",
    "Grid Size": "launch__grid_size",
    "Registers Per Thread": "launch__registers_per_thread",
    "Shared Memory Configuration Size": "launch__shared_mem_config_size",
    "Driver Shared Memory Per Block": "launch__shared_mem_per_block_driver",
    "Dynamic Shared Memory Per Block": "launch__shared_mem_per_block_dynamic",
    "Static Shared Memory Per Block": "launch__shared_mem_per_block_static",
    "# SMs": "launch__sm_count",
    "Stack Size": "launch__stack_size",
    "Threads": "launch__thread_count",
    "# TPCs": "launch__tpc_count",
    "Enabled TPC IDs": "launch__tpc_enabled",
    "Uses Green Context": "launch__uses_green_context",
    "Waves Per SM": "launch__waves_per_multiprocessor",
}

_OCCUPANCY = {
    "Max Active Clusters": "launch__cluster_max_active",
    "Max Cluster Size": "launch__cluster_max_potential_size",
    "Overall GPU Occupancy": "launch__occupancy_cluster_gpu_pct",
    "Cluster Occupancy": "launch__occupancy_cluster_pct",
    "Block Limit Barriers": "launch__occupancy_limit_barriers",
    "Block Limit SM": "launch__occupancy_limit_blocks",
    "Block Limit Registers": "launch__occupancy_limit_registers",
    "Block Limit Shared Mem": "launch__occupancy_limit_shared_mem",
    "Block Limit Warps": "launch__occupancy_limit_warps",
    "Theoretical Active Warps per SM": "sm__maximum_warps_avg_per_active_cycle",
    "Theoretical Occupancy": "sm__maximum_warps_per_active_cycle_pct",
    "Achieved Occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "Achieved Active Warps Per SM": "sm__warps_active.avg.per_cycle_active",
}

_SCHEDULER = {
    "One or More Eligible": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "Issued Warp Per Scheduler": "smsp__issue_active.avg.per_cycle_active",
    "Active Warps Per Scheduler": "smsp__warps_active.avg.per_cycle_active",
    "Eligible Warps Per Scheduler": "smsp__warps_eligible.avg.per_cycle_active",
}

_WARP_STATE = {
    "Warp Cycles Per Issued Instruction": "smsp__average_warp_latency_per_inst_issued.ratio",
    "Avg. Active Threads Per Warp": "smsp__thread_inst_executed_per_inst_executed.ratio",
    "Avg. Not Predicated Off Threads Per Warp": (
        "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"
    ),
}

_INSTRUCTIONS = {
    "Executed Instructions": "smsp__inst_executed.sum",
    "Issued Instructions": "smsp__inst_issued.sum",
    "Avg. Executed Instructions Per Scheduler": "smsp__inst_executed.avg",
    "Avg. Issued Instructions Per Scheduler": "smsp__inst_issued.avg",
}

_DISTRIBUTION = {
    "Average DRAM Active Cycles": "dram__cycles_active.avg",
    "Total DRAM Elapsed Cycles": "dram__cycles_elapsed.sum",
    "Average L1 Active Cycles": "l1tex__cycles_active.avg",
    "Total L1 Elapsed Cycles": "l1tex__cycles_elapsed.sum",
    "Average L2 Active Cycles": "lts__cycles_active.avg",
    "Total L2 Elapsed Cycles": "lts__cycles_elapsed.sum",
    "Average SM Active Cycles": "sm__cycles_active.avg",
    "Total SM Elapsed Cycles": "sm__cycles_elapsed.sum",
    "Average SMSP Active Cycles": "smsp__cycles_active.avg",
    "Total SMSP Elapsed Cycles": "smsp__cycles_elapsed.sum",
}

LABELS: Mapping[str, Mapping[str, str]] = {
    "GPU Speed Of Light Throughput": _SPEED_OF_LIGHT,
    "GPU Speed Of Light": _SPEED_OF_LIGHT,
    "Compute Workload Analysis": _COMPUTE,
    "Memory Workload Analysis": _MEMORY,
    "Launch Statistics": _LAUNCH,
    "Occupancy": _OCCUPANCY,
    "Scheduler Statistics": _SCHEDULER,
    "Warp State Statistics": _WARP_STATE,
    "Instruction Statistics": _INSTRUCTIONS,
    "GPU and Memory Workload Distribution": _DISTRIBUTION,
}
"""Metric names by section and label."""

_METRIC_NAME = re.compile(r"[A-Za-z][\w.]*__[\w.]+")


def _unique_labels() -> dict[str, str]:
    """Metrics by labels that mean the same in every section, for sections of other names."""
    meanings: dict[str, set[str]] = {}
    for labels in LABELS.values():
        for label, metric in labels.items():
            meanings.setdefault(label, set()).add(metric)
    return {label: next(iter(names)) for label, names in meanings.items() if len(names) == 1}


_UNIQUE = _unique_labels()


def metric_name(section: str, label: str) -> str:
    """Name of the metric behind a label; `Section: Label` where it is not known.

    The tool may append to a section, as in `Occupancy (local)`; names of metrics stay as they are.
    """
    if _METRIC_NAME.fullmatch(label):
        return label
    metric = LABELS.get(section, {}).get(label) or _UNIQUE.get(label)
    if metric is not None:
        return metric
    return f"{section}: {label}" if section else label
