"""What the orchestrator and the runner say to each other: a job, and the records of a journal.

Standard library only, because both sides import it and only one of them has torch. The job is one
JSON file; the journal is JSON lines, each flushed as soon as it is written, so that whatever kills
the process leaves a journal that names the culprit.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

PROTOCOL_VERSION = 1
NVTX_DOMAIN = "profiler"
EXIT_CONTEXT_LOST = 75
"""The runner left on purpose because the CUDA context is unusable; the journal says which cell."""

Params = Mapping[str, str | int | float | bool | None]


@dataclass(frozen=True)
class JobCell:
    """One cell as the runner needs it."""

    id: str
    variant: str
    variant_params: Params
    problem: str
    problem_params: Params
    library: str | None = None


@dataclass(frozen=True)
class JobVisit:
    """Measure this cell once, as part of this block."""

    cell: str
    block: int


@dataclass(frozen=True)
class Tolerance:
    """Elementwise bound: |out - expected| <= absolute + relative * |expected|."""

    absolute: float
    relative: float


@dataclass(frozen=True)
class Job:
    """What one runner process shall do, in the order of `visits`."""

    session: str
    workload: str
    """Dotted module name (`kernels.softmax.workload`) or path of a Python file."""
    collector: str
    """`ncu`: launch inside the range and synchronise; `timer`: also time `repeats` launches."""
    device: str
    """`cuda` or `cpu`."""
    seed: int
    journal: str
    cells: tuple[JobCell, ...]
    visits: tuple[JobVisit, ...]
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    """By dtype name (`float16`), with `default` for the rest; empty: the workload's own."""
    warmups: int = 3
    repeats: int = 1
    """Launches per visit, each its own sample (timer) or its own range (ncu)."""
    check: bool = True
    version: int = PROTOCOL_VERSION


# Journal events, in the order in which a cell meets them. Every record has `event` and `time`
# (seconds since the epoch); those about a cell have `cell`, those about a block `block`.
SESSION_STARTED = "session_started"  # pid, torch, cuda, device (name), python
STARTED = "started"  # cell, phase, block
FINISHED = "finished"  # cell, phase, block; phase measure: durations_ns (list, timer only)
FAILED = "failed"  # cell, phase, block, outcome (model.Outcome value), cause
SESSION_FINISHED = "session_finished"

# Phases. `prepare` makes the launch, `check` compares with the reference (its FINISHED record has
# max_abs_error, max_rel_error), `describe` has flops and bytes, `warmup`, `measure` is one block.
INPUTS = "inputs"  # of a problem: `cell` is the first cell of that problem
PREPARE = "prepare"
CHECK = "check"
DESCRIBE = "describe"
WARMUP = "warmup"
MEASURE = "measure"


def range_name(cell: str, block: int) -> str:
    """Name of the NVTX range of one visit: `cell=<id>;block=<n>`."""
    return f"cell={cell};block={block}"


def parse_range_name(name: str) -> tuple[str, int] | None:
    """Cell id and block of a range name, or None when the range is not one of ours."""
    head, separator, tail = name.rpartition(";block=")
    if not separator or not head.startswith("cell=") or not tail.isdecimal():
        return None
    return head.removeprefix("cell="), int(tail)


def write_job(job: Job, path: Path) -> None:
    """Write a job as JSON."""
    path.write_text(json.dumps(asdict(job), indent=1), encoding="utf-8")


def read_job(path: Path) -> Job:
    """Read a job; raises ValueError where the version is not ours, KeyError or TypeError on damage."""
    data = json.loads(path.read_text(encoding="utf-8"))
    if data.get("version") != PROTOCOL_VERSION:
        raise ValueError(f"{path}: job version {data.get('version')}, this runner speaks {PROTOCOL_VERSION}")
    data["cells"] = tuple(JobCell(**cell) for cell in data["cells"])
    data["visits"] = tuple(JobVisit(**visit) for visit in data["visits"])
    data["tolerances"] = {key: Tolerance(**value) for key, value in data["tolerances"].items()}
    return Job(**data)


def append_record(stream: TextIO, record: Mapping[str, Any]) -> None:
    """Append one record and flush it, so that a crash right after loses nothing."""
    stream.write(json.dumps(record, separators=(",", ":")) + "\n")
    stream.flush()


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the whole records of a journal; a last line cut off by a crash is left out.

    A journal that is absent has no records; one that was compressed (`<name>.gz`) is found.
    """
    packed = path.with_name(f"{path.name}.gz")
    if path.exists():
        content = path.read_bytes()
    elif packed.exists():
        content = gzip.decompress(packed.read_bytes())
    else:
        return
    for line in content.decode("utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(record, dict):
            yield record
