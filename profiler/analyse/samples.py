"""The frame of samples: one row per profiled range (or timed launch), one column per metric."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from profiler.analyse.metric_values import Codes, Ranges, combine_metrics
from profiler.analyse.parts import PartSamples
from profiler.errors import ProfilerError
from profiler.metrics.catalogue import CATALOGUE, TIME, Combine
from profiler.metrics.queries import absent_on, raw_sources
from profiler.model import (
    KERNEL_SEPARATOR,
    Cell,
    CellStatus,
    Params,
    Problem,
    SessionKind,
    Visit,
    slug,
)
from profiler.parse import runner_journal
from profiler.parse.nvtx_cells import NvtxRange, RangeKind
from profiler.runner import protocol

SAMPLE_COLUMNS = (
    "session",
    "collector",
    "kind",
    "cell",
    "block",
    "arm",
    "repeat",
    "kernels",
    "kernel_names",
)
"""Keys of a sample; every other column of the frame is a metric.

`kernels` is NaN where the collector does not see kernels (timer); it is a metric, too.
"""

DURATION = "duration_ns"
LONGEST_KERNEL = "longest_kernel_ns"
"""Column of samples with several kernels: the duration of the longest. It is no metric."""
ALWAYS_IMPORTED = ("duration_ns", "cycles", "registers", "l2_hit_pct")
"""Metrics that have a column in an imported file even where all values are missing."""

LaunchKey = tuple[str, str, str]
"""Kernel name, grid and block (`32x4x1`) of the launches of an external command."""

LAUNCH_PARAMETERS = ("launch_kernel", "launch_grid", "launch_block")
"""Parameters of a problem in which the parts of an external command may differ."""

_Visit = tuple[str, int, int]
"""Cell, block and arm."""
_Parsed = TypeVar("_Parsed")

_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True)
class SampleOrigin:
    """Session of samples, and the metrics that were requested of it."""

    session: str
    collector: str
    kind: str
    """Value of a `SessionKind`."""
    metrics: Sequence[str] = ()
    """Names of the catalogue or raw ncu names."""
    compute_capability: str | None = None

    @property
    def columns(self) -> dict[str, str]:
        """Columns `session collector kind` of the samples of this session."""
        kind = SessionKind(self.kind).value
        return {"session": self.session, "collector": self.collector, "kind": kind}


def metric_columns(samples: pd.DataFrame) -> tuple[str, ...]:
    """The metrics of a frame of samples, in its order."""
    no_metrics = {*SAMPLE_COLUMNS, LONGEST_KERNEL}
    return tuple(str(name) for name in samples.columns if name not in no_metrics)


def check_samples(samples: pd.DataFrame) -> None:
    """Raise `ProfilerError` where a frame lacks a column that every frame of samples has."""
    missing = [name for name in SAMPLE_COLUMNS if name not in samples.columns]
    if missing:
        raise ProfilerError(f"Not a frame of samples: no column {', '.join(missing)}.")


def empty_samples() -> pd.DataFrame:
    """A frame of samples without rows."""
    return _no_samples().copy(deep=False)


@cache
def _no_samples() -> pd.DataFrame:
    return typed_samples(pd.DataFrame({name: [] for name in SAMPLE_COLUMNS}))


def typed_samples(samples: pd.DataFrame) -> pd.DataFrame:
    """Samples with the numeric types that every frame of samples has."""
    types = {**dict.fromkeys(("block", "arm", "repeat"), "int64"), "kernels": "float64"}
    types_to_change = {name: kind for name, kind in types.items() if samples[name].dtype != kind}
    return samples.astype(types_to_change) if types_to_change else samples


# ---- from ncu ------------------------------------------------------------------------------------


def samples_from_launches(
    launches: pd.DataFrame, origin: SampleOrigin, finished: Collection[_Visit] | None = None
) -> pd.DataFrame:
    """One row per visit, a range of our NVTX domain, its kernels combined by the catalogue.

    `launches` has one row per launch: `kernel`, `nvtx` (the ranges around it) and raw ncu metrics
    in base units. `finished` are the visits whose range was closed: others may lack kernels and are
    left out; None takes all. A metric that is missing for one kernel of a range is NaN.
    """
    if launches.empty:
        return empty_samples()
    return samples_of_files(launches, [range(len(launches))], [finished], origin)[0]


def samples_of_files(
    launches: pd.DataFrame,
    rows: Sequence[range],
    finished: Sequence[Collection[_Visit] | None],
    origin: SampleOrigin,
) -> tuple[pd.DataFrame, list[range]]:
    """Samples of several files in one frame, and the rows of each file in it.

    Each file has the samples of `samples_from_launches`. `rows`: rows of each file in `launches`,
    one file after the other; `finished`: finished visits of each file.
    """
    nvtx = launches["nvtx"].tolist()
    visits: list[_Visit] = []
    codes: list[Codes] = []
    samples: list[range] = []
    for places, finished_visits in zip(rows, finished, strict=True):
        file_visits, numbers = _number_visits(nvtx[places.start : places.stop], finished_visits)
        codes.append(np.where(numbers < 0, numbers, numbers + len(visits)))
        samples.append(range(len(visits), len(visits) + len(file_visits)))
        visits += file_visits
    return _samples_of_visits(launches, visits, np.concatenate(codes), origin), samples


def _samples_of_visits(
    launches: pd.DataFrame, visits: Sequence[_Visit], codes: Codes, origin: SampleOrigin
) -> pd.DataFrame:
    """One row per visit; `codes`: number of the visit of each launch, -1 without a visit."""
    if not visits:
        return empty_samples()
    in_visit = codes >= 0
    if not in_visit.all():
        launches, codes = launches[in_visit].reset_index(drop=True), codes[in_visit]
    ranges = Ranges(launches, codes, len(visits))
    identity = {
        **origin.columns,
        **dict(zip(("cell", "block", "arm"), zip(*visits, strict=True), strict=True)),
        "repeat": 0,
        "kernels": ranges.kernels().astype("float64"),
        "kernel_names": distinct_names(launches["kernel"], codes, len(visits)),
    }
    if len(visits) < len(launches):
        identity[LONGEST_KERNEL] = ranges.extremes(ranges.column([TIME]), Combine.MAX)
    return _sample_frame(identity, ranges, origin)


def visit_of_ranges(ranges: Iterable[NvtxRange] | None) -> _Visit | None:
    """Cell, block and arm of the innermost range of a visit."""
    return innermost(ranges, protocol.parse_range_name)


def innermost(
    ranges: Iterable[NvtxRange] | None, parse: Callable[[str], _Parsed | None]
) -> _Parsed | None:
    """The result of `parse` for the name of the innermost range of the runner that it can read."""
    for nvtx_range in reversed(tuple(ranges or ())):
        if nvtx_range.domain == protocol.NVTX_DOMAIN:
            parsed = parse(nvtx_range.name)
            if parsed is not None:
                return parsed
    return None


def streams_by_cell(launches: pd.DataFrame) -> dict[str, int]:
    """Most streams that a visit has kernels on, by cell id; `launches` as of ncu's file."""
    if "stream" not in launches or launches["stream"].nunique() < 2:
        return {}
    of_visits: dict[_Visit, set[object]] = {}
    for ranges, stream in zip(launches["nvtx"], launches["stream"], strict=True):
        visit = visit_of_ranges(ranges)
        if visit is not None:
            of_visits.setdefault(visit, set()).add(stream)
    most: dict[str, int] = {}
    for (cell, _, _), streams in of_visits.items():
        most[cell] = max(len(streams), most.get(cell, 0))
    return most


def _number_visits(
    nvtx: Iterable[Iterable[NvtxRange] | None], finished: Collection[_Visit] | None
) -> tuple[list[_Visit], Codes]:
    """Visits in order of appearance, and the index of each launch's visit; -1 for none."""
    allowed = None if finished is None else set(finished)
    numbers: dict[_Visit, int] = {}
    codes: list[int] = []
    for ranges in nvtx:
        visit = visit_of_ranges(ranges)
        is_finished = visit is not None and (allowed is None or visit in allowed)
        codes.append(numbers.setdefault(visit, len(numbers)) if visit and is_finished else -1)
    return list(numbers), np.array(codes, dtype=np.intp)


def distinct_names(names: Iterable[object], codes: Iterable[int], count: int) -> list[str]:
    """Distinct names of the kernels of each of `count` samples, in launch order.

    `codes`: the sample of each launch.
    """
    of_samples: list[dict[str, None]] = [{} for _ in range(count)]
    for code, name in zip(codes, names, strict=True):
        if isinstance(name, str):
            of_samples[code][name] = None
    return [KERNEL_SEPARATOR.join(distinct) for distinct in of_samples]


def _sample_frame(
    identity: Mapping[str, Any], ranges: Ranges, origin: SampleOrigin
) -> pd.DataFrame:
    columns = combine_metrics(ranges, origin.metrics, origin.compute_capability)
    return pd.DataFrame({**identity, **columns})


def samples_from_command(
    launches: pd.DataFrame, origin: SampleOrigin, visit: Visit
) -> pd.DataFrame:
    """One row per launch of an external command, its cell by kernel, grid and block.

    Each combination is a cell of its own, `<cell>..<kernel>..g<grid>..b<block>`; its launches are
    numbered as repeats.
    """
    if launches.empty:
        return empty_samples()
    launches = launches.reset_index(drop=True)
    identity = command_identity(origin, visit, cells_by_shape(launches, visit.cell))
    ranges = Ranges(launches, np.arange(len(launches), dtype=np.intp), len(launches))
    kernels = {"kernels": 1.0, "kernel_names": _kernel_names(launches)}
    return _sample_frame(identity | kernels, ranges, origin)


def cells_by_shape(launches: pd.DataFrame, cell: str) -> list[str]:
    """Cell of each launch of an external command, by kernel, grid and block."""
    sizes = zip(_kernel_names(launches), launches["grid_size"], launches["block_size"], strict=True)
    return [part_id(cell, kernel, grid, threads) for kernel, grid, threads in sizes]


def _kernel_names(launches: pd.DataFrame) -> list[str]:
    return [kernel if isinstance(kernel, str) else "" for kernel in launches["kernel"]]


def command_identity(origin: SampleOrigin, visit: Visit, cells: list[str]) -> dict[str, Any]:
    """Key columns of the samples of a visit of a command; samples of one cell are its repeats."""
    return {
        **origin.columns,
        "cell": cells,
        "block": visit.block,
        "arm": visit.arm,
        "repeat": pd.Series(cells, dtype=object).groupby(cells).cumcount() if cells else 0,
    }


def samples_of_parts(
    launches: pd.DataFrame, origin: SampleOrigin, visit: Visit, parts: PartSamples
) -> pd.DataFrame:
    """One row per sample of a part of an external command, the cell being `<cell>..<part>`.

    The name of a kernel has its grid and block behind it, as ncu writes them.
    """
    if not parts.params:
        return empty_samples()
    is_sample, count = parts.codes >= 0, len(parts.params)
    launches, codes = launches[is_sample].reset_index(drop=True), parts.codes[is_sample]
    ranges = Ranges(launches, codes, count)
    cells = [cell_of_part(visit.cell, params) for params in parts.params]
    names = distinct_names(_with_shapes(launches), codes, count)
    kernels = {"kernels": ranges.kernels().astype("float64"), "kernel_names": names}
    return _sample_frame(command_identity(origin, visit, cells) | kernels, ranges, origin)


def cell_of_part(cell: str, params: Params) -> str:
    """Id of the part of an external command that has these parameters."""
    return f"{cell}..{slug(','.join(f'{key}={value}' for key, value in params.items()))}"


def _with_shapes(launches: pd.DataFrame) -> list[str]:
    """`name (2, 2, 1)x(256, 1, 1)` of each launch."""
    names = launches[["kernel", "grid_size", "block_size"]].itertuples(index=False)
    return [
        f"{kernel if isinstance(kernel, str) else ''} {grid}x{block}"
        if isinstance(grid, str) and isinstance(block, str)
        else str(kernel)
        for kernel, grid, block in names
    ]


def part_id(cell: str, kernel: str, grid: object, block: object) -> str:
    """Id of the part of an external command that launches one kernel with one grid and block."""
    return f"{cell}..{slug(kernel)}..g{_shape(grid)}..b{_shape(block)}"


def _shape(size: object) -> str:
    """`(32, 4, 1)` or (32, 4, 1) as `32x4x1`."""
    return "x".join(_NUMBERS.findall(str(size)))


def command_cells(samples: pd.DataFrame, cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """Cells of external commands: one per kernel, grid and block that they launched.

    All keep their variant. Where a command gave several combinations, each is a problem of its own,
    named by what differs between them (`launch_kernel`, `launch_grid`, `launch_block`): so the
    second grid of one version is compared with the second grid of another.
    """
    parts: dict[str, dict[str, LaunchKey]] = {cell.id: {} for cell in cells}
    distinct_parts = samples[["cell", "kernel_names"]].drop_duplicates()
    for key, kernel in distinct_parts.itertuples(index=False):
        owners = [cell.id for cell in cells if str(key).startswith(f"{cell.id}..")]
        if owners:
            grid, block = str(key).rsplit("..g", 1)[1].split("..b")
            parts[max(owners, key=len)][str(key)] = (str(kernel), grid, block)
    return tuple(
        Cell(key, cell.variant, _part_problem(cell.problem, launch_key, parts[cell.id].values()))
        for cell in cells
        for key, launch_key in parts[cell.id].items()
    )


def _part_problem(
    problem: Problem, launch_key: LaunchKey, all_parts: Collection[LaunchKey]
) -> Problem:
    """The problem of one part of a command, with the parameters in which parts differ."""
    differing = {
        name: launch_key[index]
        for index, name in enumerate(LAUNCH_PARAMETERS)
        if len({part[index] for part in all_parts}) > 1
    }
    if not differing:
        return problem
    suffix = ",".join(f"{name}={value}" for name, value in differing.items())
    return Problem(
        f"{problem.id}..{slug(suffix)}",
        f"{problem.name},{suffix}",
        {**problem.params, **differing},
    )


def to_catalogue_metrics(launches: pd.DataFrame) -> pd.DataFrame:
    """Metrics of the catalogue for each launch of a file of any GPU and version; NaN where absent.

    Columns: every metric that the file has under one of its raw names, and `ALWAYS_IMPORTED`. Same
    index as `launches`.
    """
    columns: dict[str, pd.Series[Any]] = {}
    for name in CATALOGUE:
        sources = raw_sources(name)
        present = [raw for raw in (*sources, name) if sources and raw in launches.columns]
        if not present and name not in ALWAYS_IMPORTED:
            continue
        values = pd.Series(np.nan, index=launches.index, dtype="float64")
        for raw in present:
            numbers = pd.to_numeric(launches[raw], errors="coerce").astype("float64")
            scale = 1.0 if raw == name else CATALOGUE[name].scale
            values = values.where(values.notna(), numbers * scale)
        columns[name] = values
    return pd.DataFrame(columns, index=launches.index)


def launches_of_journal(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """One row for each kernel that the visits of a journal counted, as of ncu's file.

    Columns `kernel`, `nvtx` (the range of its visit), and the raw metrics.
    """
    return _launches_in_ranges(
        (kernel, protocol.range_name(*runner_journal.visit_of(record)))
        for record in records
        if record.get("event") == protocol.COUNTED
        for kernel in record["kernels"]
    )


def roof_launches_of_journal(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """One row for each kernel that was counted for a practical roof, as `launches_of_journal`."""
    return _launches_in_ranges(
        (kernel, protocol.roof_range_name(record["roof"], int(kernel["launch"])))
        for record in records
        if record.get("event") == protocol.ROOF_FINISHED
        for kernel in record.get("kernels", ())
        if "launch" in kernel
    )


def _launches_in_ranges(kernels: Iterable[tuple[Mapping[str, Any], str]]) -> pd.DataFrame:
    """One row for each kernel, with the range of this name around it."""
    domain, kind = protocol.NVTX_DOMAIN, RangeKind.PUSH_POP
    return pd.DataFrame(
        [{**kernel, "nvtx": (NvtxRange(domain, name, kind, None),)} for kernel, name in kernels]
    )


# ---- from the timer ------------------------------------------------------------------------------


def samples_from_journal(
    records: Iterable[Mapping[str, Any]], origin: SampleOrigin
) -> pd.DataFrame:
    """One row per timed launch of a journal's finished visits, with `duration_ns`.

    Visits back to back have the readings of NVML beside them, where NVML gave them.
    """
    measured = [
        record
        for record in runner_journal.measurement_records(records)
        if record.get("durations_ns")
    ]
    if not measured:
        empty = pd.DataFrame(columns=[*SAMPLE_COLUMNS, DURATION], dtype=object)
        return typed_samples(empty).astype({DURATION: "float64"})
    durations = [record["durations_ns"] for record in measured]
    facts = [record.get("sustained") or {} for record in measured]
    # A frame of visits is a twentieth of one of launches, and made in a fraction of its time.
    by_visit = pd.DataFrame(
        map(runner_journal.visit_of, measured), columns=["cell", "block", "arm"]
    )
    by_visit = by_visit.assign(**origin.columns, kernels=np.nan, kernel_names="")
    for name in protocol.SUSTAINED_METRICS:
        values = [fact.get(name) for fact in facts]
        if any(value is not None for value in values):
            by_visit[name] = np.array(values, dtype="float64")
    counts = list(map(len, durations))
    samples = by_visit.take(np.repeat(np.arange(len(measured)), counts)).reset_index(drop=True)
    samples["repeat"] = list(chain.from_iterable(map(range, counts)))
    samples[DURATION] = np.array([*chain.from_iterable(durations)], dtype="float64")
    in_order = dict.fromkeys((*SAMPLE_COLUMNS, DURATION, *samples.columns))
    return typed_samples(samples)[[*in_order]]


# ---- missing metrics and shared samples ----------------------------------------------------------


_LONGEST_NS = 1e18
"""Thirty years."""


def impossible_durations(samples: pd.DataFrame) -> pd.Series[bool]:
    """Whether each sample has a duration of zero, below, or of years: none was measured.

    A clock that was set, or a tool that missed the kernel, gives such numbers.
    """
    if DURATION not in samples:
        return pd.Series(False, index=samples.index)
    return not_durations(samples[DURATION])


def not_durations(values: pd.Series[Any]) -> pd.Series[bool]:
    """Whether each number of nanoseconds is no duration; False where it is missing."""
    return (values <= 0) | (values > _LONGEST_NS)


def without_durations(samples: pd.DataFrame, which: pd.Series[bool]) -> pd.DataFrame:
    """Samples whose durations are missing where `which` is true; their counters stay."""
    if not which.any():
        return samples
    return samples.assign(**{DURATION: samples[DURATION].mask(which)})


def missing_metrics(
    samples: pd.DataFrame, requested: Iterable[str], compute_capability: str | None = None
) -> dict[str, tuple[str, ...]]:
    """Requested metrics that no sample of a cell has, by cell; only cells that lack one.

    Metrics of the build are not expected in samples. With a compute capability, metrics that ncu
    cannot measure there are not expected either.
    """
    names = [name for name in dict.fromkeys(requested) if _is_measured(name)]
    if compute_capability is not None:
        not_on_gpu = set(absent_on(names, compute_capability))
        names = [name for name in names if name not in not_on_gpu]
    has_metric = has_metrics(samples, names)
    absent_rows = has_metric[~has_metric.all(axis=1)]
    flags = absent_rows.to_numpy(dtype=bool)
    return {
        str(cell): tuple(name for name, is_there in zip(names, row, strict=True) if not is_there)
        for cell, row in zip(absent_rows.index, flags.tolist(), strict=True)
    }


def has_metrics(samples: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Whether any sample of a cell has a metric: one row per cell, one column per metric.

    A rate is there where its parts are, though they may disagree (`Metric.most`).
    """
    parts_of = {name: CATALOGUE[name].needs for name in names if _may_disagree(name)}
    columns = [*dict.fromkeys([*names, *(part for parts in parts_of.values() for part in parts)])]
    cell, cells = pd.factorize(samples["cell"])
    has_values = np.zeros((len(cells), len(columns)), dtype=bool)
    np.logical_or.at(has_values, cell, samples.reindex(columns=columns).notna().to_numpy())
    counted = pd.DataFrame(has_values, index=pd.Index(cells, name="cell"), columns=columns)
    return counted[[*names]].assign(
        **{name: counted[name] | counted[[*parts]].all(axis=1) for name, parts in parts_of.items()}
    )


def _may_disagree(name: str) -> bool:
    return name in CATALOGUE and math.isfinite(CATALOGUE[name].most)


def _is_measured(name: str) -> bool:
    metric = CATALOGUE.get(name)
    return metric is None or metric.source in {"ncu", "counted", "derived"}


def with_aliases(samples: pd.DataFrame, statuses: Mapping[str, CellStatus]) -> pd.DataFrame:
    """Samples with a copy for each alias: a cell with the machine code of a measured one.

    A new frame with the copies at its end; nothing is copied for a cell that has samples of its
    own.
    """
    measured = set(samples["cell"].unique())
    aliases = {
        status.cell: status.duplicate_of
        for status in statuses.values()
        if status.duplicate_of in measured and status.cell not in measured
    }
    copies = [
        samples[samples["cell"] == original].assign(cell=alias)
        for alias, original in aliases.items()
    ]
    return pd.concat([samples, *copies], ignore_index=True) if copies else samples.copy()
