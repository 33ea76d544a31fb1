"""SQLite export of Nsight Systems -> frames of GPU operations, NVTX ranges and CUDA API calls.

Tables read: CUPTI_ACTIVITY_KIND_{KERNEL,MEMCPY,MEMSET,GRAPH_TRACE,RUNTIME}, NVTX_EVENTS,
ENUM_CUDA_MEMCPY_OPER, two records of META_DATA_EXPORT (versions), and of StringIds the rows that
those tables refer to. Nothing else: other tables hold environment, command lines, host and users.

Columns and their meaning: docs.nvidia.com/nsight-systems (AnalysisGuide, SQLite schema) and an
export of nsys 2025.3.2, schema 3.20.3. Times are nanoseconds since the start of the session.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals

from profiler.errors import ParseError
from profiler.parse.nsys_tables import MISSING, Export, Integers, open_export
from profiler.parse.nvtx_cells import RangeKind, without_identifiers
from profiler.runner.protocol import NVTX_DOMAIN, domain_of_range

OPERATION_COLUMNS = (
    "kind",
    "start_ns",
    "end_ns",
    "name",
    "demangled",
    "device",
    "context",
    "stream",
    "process",
    "correlation",
    "graph_node",
    "grid_x",
    "grid_y",
    "grid_z",
    "block_x",
    "block_y",
    "block_z",
    "registers",
    "static_shared_bytes",
    "dynamic_shared_bytes",
    "copy_kind",
    "bytes",
)
"""GPU operations, by start. `kind`: an `OperationKind`; `name`: short, `demangled`: whole, both the
same for what is no kernel; grid to shared memory of kernels only; `copy_kind` (`Host-to-Device`) of
copies; `bytes` of copies and memsets. `process` is the serialised id above the thread's 24 bits."""

RANGE_COLUMNS = (
    "kind",
    "start_ns",
    "end_ns",
    "open",
    "name",
    "domain",
    "process",
    "thread",
    "end_thread",
    "colour",
)
"""NVTX ranges and marks, by start, the longer first. `kind`: push_pop, start_end or mark; `open`:
never ended, so `end_ns` is the last time in the export; `domain`: empty for the default one,
`profiler` for ranges of the runner; `thread`: serialised id; `end_thread`: of start/end ranges
only; `colour`: ARGB."""

API_COLUMNS = ("start_ns", "end_ns", "name", "process", "thread", "correlation")
"""CUDA runtime and driver calls, by start; names without their `_v3020`."""

THREAD_BITS = 24
"""Lowest bits of a serialised global id: the thread; the process (24 bits) comes above."""


class OperationKind(StrEnum):
    """Kind of a GPU operation."""

    KERNEL = "kernel"
    MEMCPY = "memcpy"
    MEMSET = "memset"
    GRAPH = "graph"
    """A whole CUDA graph, where nsys was not told to trace its nodes."""
    CPU_OP = "cpu_op"
    """An operator of torch that ran on a CPU, in a trace without a GPU (`parse.chrome_trace`)."""


@dataclass(frozen=True)
class RecordedTimeline:
    """A recording of nsys or torch.profiler as frames whose row numbers are their index."""

    operations: pd.DataFrame
    """OPERATION_COLUMNS."""
    ranges: pd.DataFrame
    """RANGE_COLUMNS."""
    api: pd.DataFrame
    """API_COLUMNS."""
    nsys: str | None = None
    """Version of the nsys that exported it; None for traces of torch.profiler."""
    schema: str | None = None
    """Version of the schema of the export, or of the trace."""
    unread: Mapping[str, int] = field(default_factory=dict)
    """Number of events that were left out, by kind."""


_MOST_NS = 2**61
"""No session lasts for 73 years; differences of such times still have 64 bits."""
_MARK = "mark"
_RANGE_KINDS: Mapping[int, str] = {
    34: _MARK,
    59: RangeKind.PUSH_POP.value,
    60: RangeKind.START_END.value,
}
_DOMAIN_CREATED = 75
_OF_NVTX_READ = frozenset({33, 39, 59, 60, _DOMAIN_CREATED, 76})
"""Event types of NVTX_EVENTS (ENUM_NSYS_EVENT_TYPE: NvtxMark, NvtxPushPopRange, NvtxStartEndRange,
NvtxDomainCreate), and those that are ranges or name something (with NvtxCategory, NvtxThread and
NvtxDomainDestroy)."""

_COPIES: Mapping[int, str] = {
    0: "Unknown",
    1: "Host-to-Device",
    2: "Device-to-Host",
    3: "Host-to-Array",
    4: "Array-to-Host",
    5: "Array-to-Array",
    6: "Array-to-Device",
    7: "Device-to-Array",
    8: "Device-to-Device",
    9: "Host-to-Host",
    10: "Peer-to-Peer",
    11: "Unified Host-to-Device",
    12: "Unified Device-to-Host",
    13: "Unified Device-to-Device",
}
"""CUpti_ActivityMemcpyKind of cupti_activity.h, and from 11 on those of unified memory, where an
export has no ENUM_CUDA_MEMCPY_OPER."""

API_VERSION = re.compile(r"_v\d{4,5}$")
"""Suffix of the name of a runtime function by CUPTI: the CUDA version that introduced it."""

_TIMES = ("start", "end")
_PLACE = (*_TIMES, "deviceId", "streamId")
_ORIGIN = ("contextId", "globalPid", "correlationId")
_SHARED: Mapping[str, str] = {
    "start_ns": "start",
    "end_ns": "end",
    "device": "deviceId",
    "context": "contextId",
    "stream": "streamId",
    "process": "globalPid",
    "correlation": "correlationId",
    "graph_node": "graphNodeId",
}
_LAUNCH: Mapping[str, str] = {
    **{f"grid_{axis.lower()}": f"grid{axis}" for axis in "XYZ"},
    **{f"block_{axis.lower()}": f"block{axis}" for axis in "XYZ"},
    "registers": "registersPerThread",
    "static_shared_bytes": "staticSharedMemory",
    "dynamic_shared_bytes": "dynamicSharedMemory",
}


def read_nsys(path: Path, *, of_other_programs: bool = False) -> RecordedTimeline:
    """Timeline of an SQLite export; frames are empty where nothing of the kind was recorded.

    `of_other_programs`: names of ranges keep the identifiers of torch's calls, and events that are
    not read, of which a recording of our own needs none, are counted.

    A row that ends before it begins, or has an invalid time, is left out and counted. Raises
    ParseError where the file is no export of nsys, lacks a column that every known schema has, or
    holds calls that no operation refers to.
    """
    with open_export(path) as export:
        unread: dict[str, int] = {}
        operations = _valid_rows(_operations(export), "operation", unread)
        api = _valid_rows(_api(export), "call", unread)
        _require_correlation(path, operations, api)
        ends = (frame["end_ns"].max() for frame in (operations, api) if len(frame))
        last = max((int(end) for end in ends), default=0)
        if of_other_programs:
            unread |= _unread_events(export)
        return RecordedTimeline(
            operations=operations,
            ranges=_valid_rows(
                _ranges(export, last, with_identifiers=of_other_programs), "range", unread
            ),
            api=api,
            nsys=export.fact("EXPORT_PRODUCT_VERSION"),
            schema=export.fact("EXPORT_SCHEMA_VERSION"),
            unread=unread,
        )


def _unread_events(export: Export) -> dict[str, int]:
    """Number of events by unread kind: rows of other tables, events of NVTX."""
    types = export.columns("NVTX_EVENTS", ("eventType",))["eventType"]
    numbers, counts = np.unique(types[~np.isin(types, list(_OF_NVTX_READ))], return_counts=True)
    kinds = {_MARK_TYPE: "mark of NVTX", MISSING: "event of NVTX without a type"}
    of_nvtx = {
        kinds.get(number, f"event of NVTX of type {number}"): count
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True)
    }
    return of_nvtx | {f"row of {name}": n for name, n in export.unread_events().items()}


def _valid_rows(frame: pd.DataFrame, event: str, unread: dict[str, int]) -> pd.DataFrame:
    """Rows that begin before they end; other rows are counted in `unread`."""
    is_timed = _is_time(frame["start_ns"]) & _is_time(frame["end_ns"])
    backwards = is_timed & (frame["end_ns"] < frame["start_ns"])
    for fault, rows in (
        ("whose time is none", ~is_timed),
        ("that ends before it begins", backwards),
    ):
        if rows.any():
            unread[f"{event} {fault}"] = int(rows.sum())
    is_valid = is_timed & ~backwards
    return frame if is_valid.all() else frame[is_valid].reset_index(drop=True)


def _is_time(values: Any) -> Any:
    return (values > -_MOST_NS) & (values < _MOST_NS)


def _require_correlation(path: Path, operations: pd.DataFrame, api: pd.DataFrame) -> None:
    if len(operations) and len(api) and operations["correlation"].isna().all():
        raise ParseError(
            f"{path.name}: no operation says by which call it was launched (correlationId), so "
            "none can be given to a range.",
            remedy="Export the report again: nsys export --type sqlite.",
        )


def _operations(export: Export) -> pd.DataFrame:
    frames = [_kernels(export), _copies(export), _memsets(export), _graphs(export)]
    texts = ("kind", "name", "demangled", "copy_kind")
    joined: dict[str, object] = {}
    for name in OPERATION_COLUMNS:
        parts = [frame[name] for frame in frames]
        is_text = name in texts
        joined[name] = union_categoricals(parts) if is_text else pd.concat(parts, ignore_index=True)
    frame = pd.DataFrame(joined)
    return sorted_by_start(frame)


def _kernels(export: Export) -> pd.DataFrame:
    table = "CUPTI_ACTIVITY_KIND_KERNEL"
    required = (*_PLACE, "shortName", "demangledName")
    raw = export.columns(table, required, (*_ORIGIN, "graphNodeId", *_LAUNCH.values()))
    names = {
        column: _categories_by_id(raw[column], export.strings(table, column))
        for column in ("shortName", "demangledName")
    }
    return _operation_frame(
        OperationKind.KERNEL, raw, names["shortName"], demangled=names["demangledName"]
    )


def _copies(export: Export) -> pd.DataFrame:
    raw = export.columns(
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        (*_PLACE, "bytes", "copyKind"),
        (*_ORIGIN, "graphNodeId"),
    )
    unknown = {int(code): f"of kind {code}" for code in np.unique(raw["copyKind"])}
    unknown.pop(MISSING, None)
    labels = {**unknown, **_COPIES, **export.labels("ENUM_CUDA_MEMCPY_OPER")}
    kinds = _categories_by_id(raw["copyKind"], labels)
    names = {k: f"[CUDA memcpy {v}]" for k, v in {MISSING: "of no kind", **labels}.items()}
    named = _categories_by_id(raw["copyKind"], names)
    return _operation_frame(OperationKind.MEMCPY, raw, named, copy_kind=kinds)


def _memsets(export: Export) -> pd.DataFrame:
    raw = export.columns(
        "CUPTI_ACTIVITY_KIND_MEMSET", (*_PLACE, "bytes"), (*_ORIGIN, "graphNodeId")
    )
    return _operation_frame(OperationKind.MEMSET, raw, _constant_column("[CUDA memset]", raw))


def _graphs(export: Export) -> pd.DataFrame:
    raw = export.columns("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", _PLACE, _ORIGIN)
    return _operation_frame(OperationKind.GRAPH, raw, _constant_column("[CUDA graph]", raw))


def _operation_frame(
    kind: OperationKind,
    raw: Mapping[str, Integers],
    names: pd.Categorical,
    *,
    demangled: pd.Categorical | None = None,
    copy_kind: pd.Categorical | None = None,
) -> pd.DataFrame:
    missing = np.full(len(names), MISSING)
    columns: dict[str, object] = {
        "kind": _constant_column(kind.value, raw),
        "name": names,
        "demangled": names if demangled is None else demangled,
        "copy_kind": _constant_column(None, raw) if copy_kind is None else copy_kind,
    }
    for name, source in {**_SHARED, **_LAUNCH, "bytes": "bytes"}.items():
        columns[name] = raw.get(source, missing)
    columns["process"] = _process(raw["globalPid"])
    # Older schemas have 0 in place of NULL.
    columns["graph_node"] = _missing_where(raw.get("graphNodeId", missing), 0)
    exact = ("start_ns", "end_ns")
    return pd.DataFrame(
        {
            name: nullable(value) if isinstance(value, np.ndarray) and name not in exact else value
            for name, value in columns.items()
        }
    )


def _api(export: Export) -> pd.DataFrame:
    table = "CUPTI_ACTIVITY_KIND_RUNTIME"
    raw = export.columns(table, (*_TIMES, "nameId"), ("globalTid", "correlationId"))
    strings = export.strings(table, "nameId")
    names = {key: API_VERSION.sub("", name) for key, name in strings.items()}
    frame = pd.DataFrame(
        {
            "start_ns": raw["start"],
            "end_ns": raw["end"],
            "name": _categories_by_id(raw["nameId"], names),
            "process": nullable(_process(raw["globalTid"])),
            "thread": nullable(raw["globalTid"]),
            "correlation": nullable(raw["correlationId"]),
        }
    )
    return sorted_by_start(frame)


def _ranges(export: Export, last_ns: int, *, with_identifiers: bool) -> pd.DataFrame:
    table = "NVTX_EVENTS"
    raw = export.columns(
        table,
        ("start", "end", "eventType", "globalTid"),
        ("endGlobalTid", "textId", "domainId", "color"),
    )
    names = _texts(export, table, raw["textId"])
    if not with_identifiers:
        plain = [without_identifiers(name) for name in names.categories]
        names = categorical([*plain, None], names.codes)  # -1, a missing name, finds the None
    rows = np.flatnonzero(np.isin(raw["eventType"], list(_RANGE_KINDS)))
    column = {name: values[rows] for name, values in raw.items()}
    times = np.concatenate([column[name] for name in _TIMES])
    last_ns = int(times[_is_time(times)].max(initial=last_ns))
    is_mark = column["eventType"] == _MARK_TYPE
    is_open = ~is_mark & (column["end"] == MISSING)
    end = np.where(is_mark, column["start"], np.where(is_open, last_ns, column["end"]))
    frame = pd.DataFrame(
        {
            "kind": _categories_by_id(column["eventType"], _RANGE_KINDS),
            "start_ns": column["start"],
            "end_ns": end,
            "open": is_open,
            "name": names[rows],
            "domain": _with_runner_domain(_domains(raw, names)[rows], names[rows]),
            "process": nullable(_process(column["globalTid"])),
            "thread": nullable(column["globalTid"]),
            "end_thread": nullable(_missing_where(column["endGlobalTid"], 0)),
            "colour": nullable(column["color"]),
        }
    )
    return sorted_by_start(frame, longer_first=True)


_MARK_TYPE = next(number for number, kind in _RANGE_KINDS.items() if kind == _MARK)


def _texts(export: Export, table: str, ids: Integers) -> pd.Categorical:
    """Names of NVTX events: the text of each, or the registered string that it refers to."""
    registered = export.strings(table, "textId")
    texts = export.texts(table, "text")
    for row in np.flatnonzero(ids != MISSING) if registered else ():
        if texts[row] is None:
            texts[row] = registered.get(int(ids[row]))
    return categorical(texts)


def _domains(events: Mapping[str, Integers], names: pd.Categorical) -> pd.Categorical:
    """Domain name of each event: of the event that created the domain in the same process."""
    processes, process = np.unique(_process(events["globalTid"]), return_inverse=True)
    domains, domain = np.unique(events["domainId"], return_inverse=True)
    keys = process * len(domains) + domain
    rows = np.flatnonzero(events["eventType"] == _DOMAIN_CREATED)
    created = dict(zip(keys[rows].tolist(), names[rows].astype(object), strict=True))
    texts = [
        _domain_name(int(number), created.get(key))
        for key, number in enumerate(np.tile(domains, len(processes)))
    ]
    return categorical(texts, keys)


def _with_runner_domain(domains: pd.Categorical, names: pd.Categorical) -> pd.Categorical:
    """Domains with the runner's for its ranges, which are pushed into the default domain."""
    is_runner_name = [domain_of_range("", str(name)) == NVTX_DOMAIN for name in names.categories]
    is_runner_range = np.array([*is_runner_name, False])[
        names.codes
    ]  # the last: events without a name, code -1
    texts = np.asarray(domains, dtype=object)
    texts[is_runner_range & (texts == "")] = NVTX_DOMAIN
    return categorical(texts.tolist())


def _domain_name(number: int, created: object) -> str:
    if number in (0, MISSING):
        return ""
    # A domain can be created before the window that was captured.
    return created if isinstance(created, str) else f"domain {number}"


def _categories_by_id(ids: Integers, texts: Mapping[int, str]) -> pd.Categorical:
    """Column of ids as a categorical of their texts; an unknown id is missing."""
    distinct, codes = np.unique(ids, return_inverse=True)
    return categorical([texts.get(int(key)) for key in distinct], codes)


def _constant_column(text: str | None, raw: Mapping[str, Integers]) -> pd.Categorical:
    """Column with one text, or None, in every row."""
    return categorical([text], np.zeros(len(raw["start"]), np.int64))


def categorical(texts: Sequence[str | None], rows: Integers | None = None) -> pd.Categorical:
    """Texts as a categorical; `rows`: index of the text in each row, None: one text per row."""
    codes, distinct = pd.factorize(np.array(texts, dtype=object))
    row_codes = codes if rows is None or not len(texts) else codes[rows]
    # Objects, not strings: an empty index of strings would be of another type than a full one.
    categories: pd.Index[Any] = pd.Index([str(text) for text in distinct], dtype=object)
    return pd.Categorical.from_codes(row_codes, categories)


TEXT_COLUMNS = frozenset({"kind", "name", "demangled", "copy_kind", "domain"})
"""Columns of the three frames that hold texts."""
TIME_COLUMNS = ("start_ns", "end_ns")


def sorted_by_start(frame: pd.DataFrame, *, longer_first: bool = False) -> pd.DataFrame:
    """Rows by start, then by end; of rows that start together the longer first, for ranges."""
    start, end = (frame[name].to_numpy() for name in TIME_COLUMNS)
    order = np.lexsort((-end if longer_first else end, start))
    return frame.iloc[order].reset_index(drop=True)


def column_of(name: str, values: Sequence[Any]) -> object:
    """A column of one of the three frames, from the values of its rows; None is missing.

    A number of more than 64 bits is missing, too.
    """
    if name in TEXT_COLUMNS:
        return categorical(values)
    if name == "open":
        return np.array(values, dtype=bool)
    numbers = (v if v is not None and -(2**63) <= v < 2**63 else MISSING for v in values)
    integers = np.fromiter(numbers, np.int64, len(values))
    return integers if name in TIME_COLUMNS else nullable(integers)


def _process(serialised: Integers) -> Integers:
    return np.where(serialised == MISSING, MISSING, serialised >> THREAD_BITS)


def _missing_where(values: Integers, marker: int) -> Integers:
    return np.where(values == marker, MISSING, values)


def nullable(values: Integers) -> pd.arrays.IntegerArray:
    """Integers with missing values, which pandas' plain ones cannot have."""
    mask = values == MISSING
    return pd.arrays.IntegerArray(np.where(mask, 0, values), mask)
