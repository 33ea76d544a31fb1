"""Messages between the orchestrator and the runner: a job, and the records of a journal.

Standard library only, because both processes import it and only one has torch. The job is one
JSON file; the journal is JSON lines, each flushed as soon as it is written, so that any kill of
the process leaves a journal that names the failing cell.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

PROTOCOL_VERSION = 2
NVTX_DOMAIN = "profiler"
"""Domain of the runner's ranges in everything that is read. They are pushed into the default one,
see `profiler.kernels.marks`; recordings of before 25 November 2026 have them in this."""
CAPTURE_VISITS = "visits"
CAPTURE_PROGRAM = "program"
"""Content of a timeline: visits alone, or the whole program. Any other value of
`MeasureSettings.capture` is the name of an NVTX range, with `@` and its domain where it has one."""
RUNNER_VARIABLE = "PROFILER_RUNNER_PID"
"""Set by the runner to its own process id: its child processes inherit it, and are known by it."""
EXIT_BAD_JOB = 2
"""The job or the workload could not be read; the journal says why in `session_failed`."""
EXIT_NO_DEVICE = 3
"""torch or the device that the job asks for is not there; so does `session_failed`."""
EXIT_CONTEXT_AT_IMPORT = 74
"""A session that waits left, because importing the workload created a CUDA context."""
EXIT_HOST_FAULT = 73
"""The host did not let the runner write, open or allocate what it needs: no cell is to blame."""
HOST_ERRNOS = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ESTALE),
        *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOLCK, errno.ENOBUFS),
        *(errno.EINTR, errno.ETIMEDOUT, errno.EREMOTEIO, errno.ENOTCONN),
    }
)
"""Disk, open files, memory, processes, mounted disks: what a machine may have less of today than
tomorrow."""
EXIT_CONTEXT_LOST = 75
"""The runner left on purpose because the CUDA context is unusable, or memory of other cells may be
overwritten; the journal says which cell did it."""
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143

OUTPUT = ("stdout.txt", "stderr.txt")
"""Files beside a job for the output of its process."""

Params = Mapping[str, str | int | float | bool | None]


@dataclass(frozen=True)
class Tolerance:
    """Elementwise bound: |out - expected| <= absolute + relative * |expected|."""

    absolute: float
    relative: float


@dataclass(frozen=True)
class JobCell:
    """A cell with all that the runner needs to measure it."""

    id: str
    variant: str
    variant_params: Params
    problem: str
    problem_params: Params
    library: str | None = None
    check: bool = True
    """False where an earlier session has compared this very program with the reference."""
    recheck: bool = True
    """Whether a cell that is checked here is checked again after its last visit."""
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    """Tolerances of its variant by dtype name; they precede the job's."""
    on_zeros: bool = False
    """Whether all that its inputs have in floating point is 0; as all cells of its problem."""


@dataclass(frozen=True)
class JobVisit:
    """Measure this cell once, as part of this block."""

    cell: str
    block: int
    arm: int = 0
    """1 for the second visit of the baseline in its block."""


@dataclass(frozen=True)
class MeasureSettings:
    """How a session measures; which of these count depends on its collector."""

    warmups: int = 3
    repeats: int = 1
    """Timed launches per visit, each its own sample; `ncu` always launches once a visit."""
    flush: bool = False
    """Whether the runner empties the GPU's caches before each visit of `ncu`, which then leaves
    them alone. Where the runner itself times, it does so before each launch in any case."""
    places: int = 1
    """Places in memory that the inputs of a problem have, one after another, each for a part of the
    blocks, where setting it up is cheap."""
    practical_roofs: tuple[str, ...] = ()
    """Names of PRACTICAL_ROOFS that the session measures before its first problem."""
    counters: tuple[str, ...] = ()
    """Raw names of the metrics that `cupti` counts of each kernel of a launch."""
    counters_library: str = ""
    """Built library of `runner/cupti/range_profiler.cpp`; empty of other collectors."""
    launches: int = 1
    """Launches per visit of `nsys` and `torch`; the visit ends with the last of them, no launch is
    waited for before the next."""
    longest_s: float = 0.0
    """Most seconds of a visit of `sustained`."""
    capture: str = CAPTURE_VISITS
    """What `nsys` records. CAPTURE_VISITS: the runner calls cudaProfilerStart before its first
    visit and cudaProfilerStop after its last; any other value needs nothing of the runner."""


@dataclass(frozen=True)
class ProcessSettings:
    """Orders, variables and watched folders of the process of a job."""

    orders: str = ""
    """File of orders (`runner/orders.py`) by which the session comes to its first visit, and by
    which others follow it in its process; `cells` and `visits` are those of the job that is ordered
    then. Empty: it takes every step at once, and none follows."""
    searches: bool = False
    """Whether the session measures the orders of a search; then it has no visits of its own."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that a process sets which was started before its job was known."""
    watched: Mapping[str, str] = field(default_factory=dict)
    """Label → folder: files in them that the workload opens to read stand in the journal."""
    unwatched: tuple[str, ...] = ()
    """Folders inside the watched folders that hold results."""


@dataclass(frozen=True)
class Job:
    """Work of one runner process, in the order of `visits`."""

    session: str
    workload: str
    """Path of a Python file, or dotted module name (`my_package.softmax.workload`)."""
    collector: str
    """Collector that makes the visits (`profiler.runner.visits.kinds`) or times launches
    (`profiler.runner.timing`)."""
    device: str
    """`cuda` or `cpu`."""
    seed: int
    journal: str
    cells: tuple[JobCell, ...]
    """Cells of `visits`, and one of each problem that other processes of the session visit: what a
    launch there declares is journaled, too."""
    visits: tuple[JobVisit, ...]
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    """By dtype name (`float16`), with `default` for the rest; empty: the workload's own."""
    description: Mapping[str, Any] | None = None
    """What the function `described` of the workload makes a workload of, or EXPERIMENT alone; None
    where the module is the workload."""
    settings: MeasureSettings = field(default_factory=MeasureSettings)
    process: ProcessSettings = field(default_factory=ProcessSettings)


# Journal events, in the order in which a cell meets them. Every record has `event` and `time`
# (seconds since the epoch); those about a cell have `cell`, those about a visit `block`, and `arm`
# where it is not 0.
PRELOADING = "preloading"  # pid: of a process that has no session so far, in a file of its own
SESSION_STARTED = "session_started"  # pid, torch, cuda, device (name), python, nvtx (tool listens),
# flush (the runner empties caches in place of ncu), attributes (of the GPU, by ncu's names),
# context_at_import (whether importing the workload created a CUDA context), stamps (when each of
# STAMPS was reached, in seconds of the system's monotonic clock)
IMPORTED = "imported"  # modules: names of those of installed packages that the launches of the
# first problem imported, in their order, without what these import themselves
SESSION_FAILED = "session_failed"  # cause: nothing could be run; never after session_started
STARTED = "started"  # cell, phase, block, arm
FINISHED = "finished"  # cell, phase, block, arm; phase measure: durations_ns (list, timer only),
# trace (file beside the journal) and operators (list of OPERATOR_FIELDS) of `torch`, `sustained`
# (SUSTAINED_FACTS by name, null where not known)
COUNTED = "counted"  # cell, block, arm, kernels (list: `kernel`, its name, and each of the job's
# counters by its own; null where it has none): what `cupti` gave of a visit, some visits later
FAILED = "failed"  # cell, phase, block, arm, outcome (model.Outcome value), cause; of_host (true)
# where the host was at fault: the cell is tried again when the run goes on
NOT_RECHECKED = "not_rechecked"  # cell, cause: why its inputs could not be overwritten
ORDER_FINISHED = "order_finished"  # all of it is done or has failed
SESSION_FINISHED = "session_finished"  # monotonic: when, by the clock of the stamps
ROOF_STARTED = "roof_started"  # roof: one of PRACTICAL_ROOFS; of no cell, and no cell's failure
# roof, launches: ranges `roof_range_name` that were made; `kernels` as COUNTED has them, each with
# the number of its `launch`, where the runner counts.
ROOF_FINISHED = "roof_finished"
ROOF_FAILED = "roof_failed"  # roof, cause: why there is none
OPENED = "opened"  # file (label, colon, path in the folder that the job watches by this label),
# digest: its content; empty where the session itself wrote the file later

EVENTS = (
    *(PRELOADING, SESSION_STARTED, SESSION_FAILED, STARTED, FINISHED, COUNTED, FAILED),
    *(NOT_RECHECKED, ORDER_FINISHED, SESSION_FINISHED, ROOF_STARTED, ROOF_FINISHED, ROOF_FAILED),
    *(OPENED, IMPORTED),
)

PYTHON_BEGUN = "python"
TORCH_IMPORTED = "torch"
MAY_IMPORT = "import"
LOADED = "loaded"
ITS_TURN = "turn"
DEVICE_OPEN = "device"
VISITS_KNOWN = "visits"
STAMPS = (
    PYTHON_BEGUN,
    TORCH_IMPORTED,
    MAY_IMPORT,
    LOADED,
    ITS_TURN,
    DEVICE_OPEN,
    VISITS_KNOWN,
)
"""Steps of the start of a session: the runner's first line, torch imported, the workload may be
imported, it is, the device may be opened, a context is there, the visits are known."""

# Phases. `prepare` makes the launch, `check` compares with the reference (its FINISHED record has
# max_abs_error, max_rel_error, result_bytes, result_dtypes and, if the launch leaves its inputs as
# they were, written_bytes; the errors stand in its FAILED record after a wrong result), `describe`
# has flops and bytes, and LAUNCH_FACTS and TUNED as far as the launch carries them, `warmup`,
# `measure` is one visit. A cell that was checked in this session launches in `relaunch` on inputs
# that were overwritten, and `recheck` compares that result.
# `declare`, `inputs` and `reference` belong to a problem: their `cell` is the first cell that is
# visited there, `problem` names the problem, and when one of them fails every cell of that problem
# that is left gets a FAILED record. `declare` has flops and bytes too, of all problems before the
# first is set up, so that the rest can be forecast. `count` is a launch of a visit once more, for
# counters that take another pass.
AMOUNTS = ("flops", "bytes", "non_matmul_flops")
"""Amounts that a workload may declare of a problem."""
DECLARE = "declare"
INPUTS = "inputs"
REFERENCE = "reference"
PREPARE = "prepare"
CHECK = "check"
DESCRIBE = "describe"
WARMUP = "warmup"
RELAUNCH = "relaunch"
RECHECK = "recheck"
MEASURE = "measure"
COUNT = "count"
PROBLEM_PHASES = frozenset({DECLARE, INPUTS, REFERENCE})
PHASES = PROBLEM_PHASES | {
    *(PREPARE, CHECK, DESCRIBE, WARMUP, RELAUNCH, RECHECK, MEASURE, COUNT),
}

PRACTICAL_ROOFS = ("dram", "tensor_bf16", "tensor_fp16", "tensor_tf32", "tensor_fp64", "fp32")
"""Roofs under which a session measures what a plain kernel reaches: one that copies, a matrix
product of torch for each type."""

_ROOF_RANGE_NAME = re.compile(r"roof=(?P<roof>\w+);launch=(?P<launch>\d{1,18})", re.ASCII)

_RANGE_NAME = re.compile(
    r"cell=(?P<cell>.*);block=(?P<block>\d{1,18})(?:;arm=(?P<arm>\d{1,18}))?", re.ASCII
)

_LAUNCH_RANGE_NAME = re.compile(r"launch=(?P<launch>\d{1,18})", re.ASCII)


OPERATOR_FIELDS = (
    "name",
    "calls",
    "self_cpu_us",
    "cpu_us",
    "self_device_us",
    "device_us",
    "stack",
)
"""Keys of an operator in the record of a visit under `torch`; times are sums in microseconds,
`stack` is a list of `function (file.py:line)`, innermost first."""

LAUNCH_FACTS = ("compile_seconds", "buffer_bytes", "peak_bytes")
"""Attributes that a launch may carry: what it took to make it, and the device memory that one call
allocates in all and at one time."""

VISIT_FACTS = ("copies", "copied_bytes", "concurrent_kernels")
"""Of a launch under CUPTI, in the record of `warmup`: copies and fills of memory that are no
kernels, the bytes of those of one dimension, and how many kernels can run at once, at most."""
WAITING_NS = "waiting_ns"
"""Key in the record of `warmup`, under tools that add up kernels: time in ns between CUDA events
around a launch that waits for the device, with what the host does in between; 0 for others."""
SPARED_S = "spared_s"
"""Key in the record of `warmup`: seconds that a launch took which an earlier one stands for, by a
check or by another session of the process."""

SUSTAINED_METRICS = (
    *("power_w", "energy_j", "sampled_power_w", "sustained_clock_ghz", "temperature_c"),
    "power_limited_pct",
)
"""Metrics of the catalogue of a visit of `sustained`: `power_w` by the energy counter, `energy_j`
of one launch."""
SUSTAINED_FACTS = (
    *(*SUSTAINED_METRICS, "power_limit_w"),
    *("settled", "seconds", "sets", "in_graph", "host_share"),
)
"""Facts of a visit of `sustained`: its metrics; the power limit of the GPU; whether the visit had
settled (1 or 0), its seconds, sets of inputs, whether it launched a graph; the host's share of a
launch, which near 1 leaves gaps."""

HOST_SHARE_WITH_GAPS = 0.8
"""Host's share of a launch from which on launches in a row may have gaps."""

STAMPS_FILE = "stamps.jsonl"
"""File beside the journal, as `<name>.gz`: a line for each visit of `in_kernel`."""
STAMPS_END = 5
"""Place of the time at the end among the words of a group (`profiler/timeline.cuh`)."""

EXPERIMENT = "experiment"
"""Key of `Job.description`: name of the experiment of a Python file that has several."""
REVISION, LAUNCHER = "revision", "launcher"
"""Parameters of variants of several revisions: whose each is, and a digest of what launches it."""
CANDIDATE = "candidate"
"""Key of `Job.description`: the file of functions that are judged beside those of the experiment,
each side in a process of its own (`runner/referee/`)."""
UNCONFINED = "unconfined"
"""Field of the FINISHED record of `prepare`: why a candidate may read more than its own file."""
OWN_TYPES = "own_types"
"""Field of the FINISHED record of `reference`: why the right result is that of the baseline in its
own types, not in float64."""
ROUNDING = "rounding"
"""Field of the FINISHED record of `check`: largest absolute error that rounding explains, where
some elements miss the default tolerance. Older runs have it at `reference`, a list by output."""

COMMON_VALUE = "common_value"
"""Field of the FINISHED record of `reference`: value of all elements of the right result. Absent
where they differ."""
TELLS_LITTLE = "tells_little"
"""Field of the FINISHED record of `check`: why a wrong result may have passed, too. Absent where it
is not known to."""
ZEROS_MATCH = "zeros_match"
"""Field of the FINISHED record of `check`: an output of zeros would be right, too, as the given
tolerance is larger than all of it. Absent where it is not."""

_MAX_HASHED_BYTES = 2**30
"""A file of data beyond this is not read whole (about a second) to see whether it is the same."""
TUNED = "tuned"
"""Attribute that a launch may carry: what a compiler's autotuner tried for it, one mapping for each
configuration, with the fields of `model.TunedConfig` (`description` in place of `config` where the
tool gives a text)."""


def range_name(cell: str, block: int, arm: int = 0) -> str:
    """Name of the NVTX range of a visit: `cell=<id>;block=<n>`; an arm other than 0 follows."""
    return f"cell={cell};block={block}" + (f";arm={arm}" if arm else "")


def parse_range_name(name: str) -> tuple[str, int, int] | None:
    """Cell id, block and arm of a range name, or None when the range is not one of ours."""
    match = _RANGE_NAME.fullmatch(name)
    return (match["cell"], int(match["block"]), int(match["arm"] or 0)) if match else None


def launch_range_name(launch: int) -> str:
    """Name of the range of one launch inside that of its visit: `launch=<n>`, n from 0."""
    return f"launch={launch}"


def parse_launch_range_name(name: str) -> int | None:
    """Number of the launch of a range name, or None when it is not the range of a launch."""
    match = _LAUNCH_RANGE_NAME.fullmatch(name)
    return int(match["launch"]) if match else None


def roof_range_name(roof: str, launch: int) -> str:
    """Name of the range of one launch for a practical roof: `roof=<name>;launch=<n>`."""
    return f"roof={roof};launch={launch}"


def parse_roof_range_name(name: str) -> tuple[str, int] | None:
    """Roof and number of the launch of a range name, or None when it is not the range of a roof."""
    match = _ROOF_RANGE_NAME.fullmatch(name)
    return (match["roof"], int(match["launch"])) if match else None


def domain_of_range(domain: str, name: str) -> str:
    """NVTX_DOMAIN for a range of the runner, which is known by its name; others keep their own."""
    parsers = (parse_range_name, parse_launch_range_name, parse_roof_range_name)
    is_ours = not domain and any(parse(name) is not None for parse in parsers)
    return NVTX_DOMAIN if is_ours else domain


def write_job(job: Job, path: Path) -> None:
    """Write a job as JSON."""
    document = {"version": PROTOCOL_VERSION, **asdict(job)}
    path.write_text(json.dumps(document, indent=1), encoding="utf-8")


def read_job(path: Path) -> Job:
    """Read a job; raises OSError where there is none, ValueError where it is not one of ours."""
    data = json.loads(path.read_text(encoding="utf-8"))
    version = data.pop("version", None) if isinstance(data, dict) else None
    if version != PROTOCOL_VERSION:
        raise ValueError(f"{path}: job version {version}, this runner speaks {PROTOCOL_VERSION}")
    try:
        settings, process = data["settings"], data["process"]
        job = Job(
            **{
                **data,
                "cells": tuple(map(cell_of, data["cells"])),
                "visits": tuple(JobVisit(**visit) for visit in data["visits"]),
                "tolerances": _tolerances(data["tolerances"]),
                "settings": MeasureSettings(
                    **{
                        **settings,
                        "practical_roofs": tuple(settings["practical_roofs"]),
                        "counters": tuple(settings["counters"]),
                    }
                ),
                "process": ProcessSettings(**{**process, "unwatched": tuple(process["unwatched"])}),
            }
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a whole job: {error}") from error
    unknown_cells = {visit.cell for visit in job.visits} - {cell.id for cell in job.cells}
    if unknown_cells:
        raise ValueError(
            f"{path}: visits to cells that the job does not have: {sorted(unknown_cells)}"
        )
    return job


def cell_of(data: Mapping[str, Any]) -> JobCell:
    """A cell from its JSON; raises TypeError and KeyError for any other JSON."""
    return JobCell(**{**data, "tolerances": _tolerances(data.get("tolerances", {}))})


def _tolerances(data: Mapping[str, Any]) -> dict[str, Tolerance]:
    return {key: Tolerance(**value) for key, value in data.items()}


def append_record(stream: TextIO, record: Mapping[str, Any]) -> None:
    """Append one record and flush it, so that a crash right after loses nothing."""
    stream.write(json.dumps(record, separators=(",", ":")) + "\n")
    stream.flush()


def file_digest(path: Path) -> str:
    """Hash of a file's content, of size and time for a very large one; empty where it is gone."""
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):  # a FIFO or a device has no content of its own
            return ""
        with path.open("rb") as stream:
            if facts.st_size > _MAX_HASHED_BYTES:
                return f"{facts.st_size}:{facts.st_mtime_ns}"
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, ValueError):
        return ""
