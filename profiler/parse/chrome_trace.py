"""Chrome traces of torch.profiler -> frames with the columns of an export of nsys.

Only the name, the times and the few arguments that a column needs are read of each event: a trace
holds the stacks of Python with their paths, the name of the host, and the folder it was written to.
A path inside the name of a range or an operator is cut down to its last part.

A trace has no process ids at its kernels; they are those of its calls. Shared memory is known as
a sum of the static and the dynamic one only: it stands in `dynamic_shared_bytes`. `graph_node` is
missing where the trace has no node ids at its kernels (that of torch 2.11 has none); kernels of a
graph belong to its launch all the same. Times are nanoseconds since the base time of the trace (of
the earliest one, where several are read together).

Categories, arguments and units: kineto (libkineto/src/output_json.cpp and CuptiActivity), as torch
2.11 to 2.13 write them; times are microseconds with three decimals, which are kept exactly. Older
traces, traces of other accelerators, and bare lists of events (the Chrome format allows them) are
read as far as they have the same fields. Events that are not read are counted by kind
(`RecordedTimeline.unread`).
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from profiler.errors import ParseError
from profiler.parse.bounded_files import decoded, read_content
from profiler.parse.nsys import (
    API_COLUMNS,
    API_VERSION,
    OPERATION_COLUMNS,
    RANGE_COLUMNS,
    THREAD_BITS,
    OperationKind,
    RecordedTimeline,
    column_of,
    sorted_by_start,
)
from profiler.parse.nsys_tables import MISSING
from profiler.parse.nvtx_cells import RangeKind
from profiler.runner.protocol import domain_of_range

_RANGE = "user_annotation"
_OPERATOR = "cpu_op"
_ON_HOST = frozenset({_RANGE, _OPERATOR})
_CALL_ENDS = ("_runtime", "_driver")
"""Ends of the categories of calls, of whatever accelerator: `cuda_runtime`, `xpu_runtime`."""
_OLD_NAMES = {
    "operator": _OPERATOR,
    "runtime": "cuda_runtime",
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
    "mtia_ccp_events": "kernel",
}
"""Today's categories by those of earlier kinetos, which have capitals before torch 1.12."""
_ASCEND_CALL = "ascend_runtime"
_ASCEND_TASKS: Mapping[str, str] = {
    **dict.fromkeys(("AI_CORE", "AI_VECTOR_CORE", "AIV_SQE", "MIX_AIC", "MIX_AIV"), "kernel"),
    **dict.fromkeys(("AI_CPU", "FFTS_PLUS", "DSA_SQE", "COMMUNICATION"), "kernel"),
    **dict.fromkeys(("KERNEL_AICORE", "KERNEL_AIVEC", "KERNEL_AICPU"), "kernel"),
    **dict.fromkeys(("KERNEL_MIX_AIC", "KERNEL_MIX_AIV"), "kernel"),
    **dict.fromkeys(("SDMA_SQE", "PCIE_DMA_SQE", "MEMCPY_ASYNC"), "gpu_memcpy"),
}
"""Categories by kinds of NPU tasks that do work; other tasks wait, record events and notify."""
_NOT_READ = frozenset(
    {
        *("trace", "ac2g", "fwdbwd", "fwd_bwd", "gpu_user_annotation"),
    }
)
"""Categories that repeat other events: links from calls to launches, ranges on the GPU."""
_ON_DEVICE: Mapping[str, OperationKind] = {
    "kernel": OperationKind.KERNEL,
    "gpu_memcpy": OperationKind.MEMCPY,
    "gpu_memset": OperationKind.MEMSET,
}

_BEGIN_END_PHASES = ("B", "b")
"""Phases of events that are written when they begin, and again when they end: no trace of torch."""
_INSTANT_PHASES = ("i", "I", "n")
_LONGEST_CATEGORY = 40
_MOST_NAMED_KINDS = 5
"""Most kinds of events that an error names."""
_NEXT_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])|[ -]")
"""Boundary between two words of a category: `UserAnnotation` is `user_annotation` today."""

_NAME_START, _NAME_END = '"name": "', re.compile(r'"\s*(?:,\s*"(?:pid|ts|args)":|\n)')
_STACK_START, _STACK_END = '"Call stack": "', re.compile(r'"(?=, "Ev Idx": \d|,?\s*$)')
"""Beginnings and ends of the two strings that can make a trace invalid JSON: kineto escapes no
quotes in names, and torch's tracer of Python puts random bytes into the stack of a module that is
imported meanwhile."""
_LATEST_US = 4 * 10**15
"""Later times (of the year 2096) are invalid: with the base added they do not fit into 64 bits."""
_REMEDY = "Give a Chrome trace of torch.profiler, as export_chrome_trace writes it (.json[.gz])."

_ENDS = {"H": "Host", "D": "Device", "A": "Array", "P": "Peer"}
_COPY = re.compile(
    r"Memcpy (?P<of>[HDAP])to(?P<to>[HDAP])\b"
    r"|(?i:copy_?(?P<start>h|d)(?:ost|evice)_?to_?(?P<end>h|d)(?:ost|evice))"
)
"""Copies as kineto names them, and as AMD's tracer does (`CopyHostToDevice`)."""
_UNKNOWN_COPY = "Memcpy <unknown>"
_CALL_OF_HIP = re.compile(r"hip[A-Z]")
"""kineto puts calls of HIP under `cuda_runtime`."""
_PLAIN_NUMBER = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,9})?")
_PATH = re.compile(r"(?<![\w.)])~?(?:[A-Za-z]:)?(?:[/\\][\w.@+~ -]*[\w.@+~-])+[/\\]([\w.@+~-]+)")

_OPERATION_FACTS: Mapping[str, str] = {
    "context": "context",
    "stream": "stream",
    "device": "device",
    "registers": "registers per thread",
    "dynamic_shared_bytes": "shared memory",
    "bytes": "bytes",
}
_PEER_FACTS = {"device": "inDevice", "context": "inContext"}
"""Arguments of copies between two devices, in place of `device` and `context`."""
_READ_ARGUMENTS = (
    *_OPERATION_FACTS.values(),
    *_PEER_FACTS.values(),
    *("correlation", "graph node id", "grid", "block"),
)
Row = dict[str, Any]


def read_traces(paths: Sequence[Path], limit: int | None = None) -> RecordedTimeline:
    """One timeline of several traces; frames are empty where nothing of the kind was recorded.

    In traces without a GPU the operations are the outermost operators of each thread, and each is
    its own call in `api`, so that ranges and launches are found for them as for kernels.

    `limit`: most bytes that a file may hold, by default bounded_files.MAX_UNPACKED_BYTES.

    Raises ParseError where a file holds more, is no Chrome trace of torch.profiler, or was cut off.
    An item that is no event, or has no times, is left out and counted.
    """
    traces = [_read_trace(path, limit) for path in paths]
    base_ns = min((trace.base_ns for trace in traces), default=0)
    on_gpu = any(_is_device_category(e.category) for trace in traces for e in trace.events)
    # Rows by columns: a mapping for each row would take ten times the memory.
    columns: dict[str, dict[str, list[Any]]] = {
        "operations": {name: [] for name in OPERATION_COLUMNS},
        "ranges": {name: [] for name in RANGE_COLUMNS},
        "api": {name: [] for name in API_COLUMNS},
    }
    for table, row in _rows(traces, base_ns, on_gpu=on_gpu):
        for name, values in columns[table].items():
            values.append(row.get(name))
    frames = {
        table: pd.DataFrame({name: column_of(name, values) for name, values in of_table.items()})
        for table, of_table in columns.items()
    }
    return RecordedTimeline(
        operations=sorted_by_start(frames["operations"]),
        ranges=sorted_by_start(frames["ranges"], longer_first=True),
        api=sorted_by_start(frames["api"]),
        schema=next((trace.schema for trace in traces), None),
        unread=dict(sum((trace.unread for trace in traces), Counter()).most_common()),
    )


def short_name(demangled: str) -> str:
    """Name of a kernel without its type, namespaces, template arguments and parameters."""
    letters: list[str] = []
    depth = 0
    for letter in demangled.replace("(anonymous namespace)::", ""):
        if letter == "(" and depth == 0 and letters:
            break
        if letter in "<([{":
            depth += 1
        elif letter in ">)]}":
            depth = max(0, depth - 1)
        elif depth == 0:
            letters.append(letter)
    parts = "".join(letters).split("::")[-1].split()
    return parts[-1] if parts else demangled


# ---- files ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Event:
    """One event with a duration; times in ns since the base of its trace."""

    category: str
    name: str
    start_ns: int
    end_ns: int
    pid: object
    tid: object
    facts: Mapping[str, Any]
    """Facts of the event that a column needs."""

    @property
    def process(self) -> int:
        return self.pid if isinstance(self.pid, int) else MISSING

    @property
    def thread(self) -> int:
        """Serialised id, as nsys has it."""
        if not isinstance(self.pid, int) or not isinstance(self.tid, int):
            return MISSING
        return (self.pid << THREAD_BITS) + (self.tid & ((1 << THREAD_BITS) - 1))


@dataclass(frozen=True)
class _Trace:
    base_ns: int
    schema: str
    events: list[_Event]
    unread: Counter[str]
    """Number of events that were left out, by kind."""


_Content = tuple[dict[str, object] | None, list[_Event] | None, Counter[str]]
"""Values of a file by name, without its events; its events; number of events left out, by kind.

The first two are None where there are none.
"""


def _read_trace(path: Path, limit: int | None) -> _Trace:
    header, events, unread = _file_content(path, limit)
    if events is None:
        raise _not_a_trace(path, "it has no list traceEvents")
    if header is None or "schemaVersion" not in header:  # of another writer, or cut out of a trace
        if not events:
            left_out_events = ", ".join(
                f"{count} {kind}" for kind, count in unread.most_common(_MOST_NAMED_KINDS)
            )
            holds_text = f", but {left_out_events}" if left_out_events else " and no schemaVersion"
            raise _not_a_trace(path, f"its list has no event of torch.profiler{holds_text}")
        header = header or {}
    base_ns = header.get("baseTimeNanoseconds", 0)
    if not isinstance(base_ns, int) or not 0 <= base_ns <= _LATEST_US * 1000:
        raise _not_a_trace(path, f"its baseTimeNanoseconds is {str(base_ns)[:40]!r}")
    return _Trace(base_ns, str(header.get("schemaVersion", ""))[:40], events, unread)


def _file_content(path: Path, limit: int | None) -> _Content:
    """Content of a file; raises ParseError where it cannot be read or is no complete JSON."""
    try:
        text = decoded(read_content(path, limit))
        try:
            return _parsed_content(text)
        except json.JSONDecodeError:
            return _parsed_content(_repaired_text(text))
    except OSError as error:
        raise _not_a_trace(path, error.strerror or str(error)) from error
    except (ValueError, RecursionError) as error:
        raise _not_a_trace(path, f"no whole JSON: {str(error)[:200]}") from error


def _parsed_content(text: str) -> _Content:
    """Header and events of a trace, and the number of events left out.

    Each event is reduced as it is read: full objects of all events take ten times more memory.

    Raises ValueError where the text is no JSON.
    """
    object_hook = partial(_event_or_record, {})
    try:
        content = json.loads(text, strict=False, parse_float=Decimal, object_hook=object_hook)
    except json.JSONDecodeError:
        if not text.lstrip().startswith("["):
            raise
        # The Chrome format leaves out the bracket after a bare list where its writer was ended.
        closed_list = f"{text.rstrip().removesuffix(',')}]"
        content = json.loads(
            closed_list, strict=False, parse_float=Decimal, object_hook=object_hook
        )
    if isinstance(content, list):
        return None, *_events(content)
    if not isinstance(content, dict):
        return {}, None, Counter()
    items = content.pop("traceEvents", None)
    return (content, *_events(items)) if isinstance(items, list) else (content, None, Counter())


def _event_or_record(names: dict[str, str], record: dict[str, Any]) -> Any:
    """Event of a JSON object, or a tuple with the text of why it is not read.

    Objects that are no events, and records that name a process, are returned as they are.
    """
    if not isinstance(record.get("ph"), str):
        return record
    event = _event(record, names)
    if isinstance(event, _Event) or (event is None and record.get("name") == "process_name"):
        return event or record
    return (event,)


def _events(items: list[Any]) -> tuple[list[_Event], Counter[str]]:
    """Events of a list, and the number of items left out, by kind."""
    events: list[_Event] = []
    unread: Counter[str] = Counter()
    programs: dict[str, str] = {}
    for item in items:
        if isinstance(item, tuple):
            event_or_text = item[0]
        else:
            event_or_text = item if isinstance(item, _Event) else _event(item, {})
        if isinstance(event_or_text, _Event):
            events.append(event_or_text)
        elif event_or_text is not None:
            unread[event_or_text] += 1
        elif isinstance(item, dict) and item.get("name") == "process_name":
            programs[_uncategorised_text(item)] = _process_name(item)
    for text in unread.keys() & programs.keys():
        unread[programs[text]] += unread.pop(text)
    return events, unread


def _uncategorised_text(record: Mapping[str, object]) -> str:
    return f"of no category (process {str(record.get('pid'))[:_LONGEST_CATEGORY]})"


def _process_name(record: Mapping[str, Any]) -> str:
    """Kind of events without a category: Ascend's tracer names a process for each kind."""
    facts = record.get("args")
    name = facts.get("name") if isinstance(facts, dict) else None
    return (
        f"of {name[:_LONGEST_CATEGORY]}" if isinstance(name, str) else _uncategorised_text(record)
    )


def _repaired_text(text: str) -> str:
    """The text without stacks, with quotes in names escaped; in one pass over any text."""
    return "".join(_with_escaped_names("\n".join(map(_without_stack, text.split("\n")))))


def _without_stack(line: str) -> str:
    start = line.find(_STACK_START)
    if start < 0:
        return line
    ends = [match.end() for match in _STACK_END.finditer(line, start + len(_STACK_START))]
    # The last end: the stack itself may hold anything.
    return f'{line[:start]}{_STACK_START}"{line[ends[-1] :]}' if ends else line


def _with_escaped_names(text: str) -> Iterator[str]:
    """Parts of the text; a name ends with the first end of a name, in its line."""
    yielded, end_of_line = 0, -1
    end: re.Match[str] | None = None
    start = text.find(_NAME_START)
    while start >= 0:
        begin = start + len(_NAME_START)
        if end is None or end.start() < begin:
            end = _NAME_END.search(text, begin)
        if end is None:
            break
        if end_of_line < begin:
            newline = text.find("\n", begin)
            end_of_line = len(text) if newline < 0 else newline
        if end.start() <= end_of_line:
            yield text[yielded:begin]
            yield text[begin : end.start()].replace('"', '\\"')
            yielded = begin = end.start()
        start = text.find(_NAME_START, begin)
    yield text[yielded:]


def _not_a_trace(path: Path, reason: str) -> ParseError:
    return ParseError(f"{path.name}: not a trace of torch.profiler: {reason}.", remedy=_REMEDY)


def _event(record: object, names: dict[str, str]) -> _Event | str | None:
    """Event of a record; a text with its kind where it is left out; None of links and names.

    `names` holds each name once.
    """
    if not isinstance(record, dict):
        return "no event"
    record = _with_kineto_names(record)
    category_text = record.get("cat")
    if record.get("ph") != "X" or not isinstance(category_text, str) or not category_text:
        return _reason_left_out(record)
    snake_case = _NEXT_WORD.sub("_", category_text).lower()
    category = _OLD_NAMES.get(snake_case, snake_case)
    if category in _NOT_READ:
        return None
    if category not in _ON_HOST and not _is_device_category(category):
        return f"of the category {category_text[:_LONGEST_CATEGORY]}"
    start, duration = _nanoseconds(record.get("ts")), _nanoseconds(record.get("dur"))
    if start is None or duration is None or duration < 0:
        return f"{category} without times"
    facts = record.get("args")
    name = str(record.get("name", ""))
    return _Event(
        category=sys.intern(category),
        name=names.setdefault(name, _without_paths(name)),
        start_ns=start,
        end_ns=start + duration,
        pid=record.get("pid"),
        tid=record.get("tid"),
        facts={fact: facts[fact] for fact in _READ_ARGUMENTS if fact in facts}
        if isinstance(facts, dict)
        else {},
    )


def _reason_left_out(record: Mapping[str, Any]) -> str | None:
    """Kind of an event without a duration or a category; None of links and names."""
    phase = record.get("ph")
    if phase == "X":
        return _uncategorised_text(record)
    if phase in _BEGIN_END_PHASES:
        return "in two parts"
    if phase in _INSTANT_PHASES and isinstance(record.get("cat"), str):
        return f"of the category {record['cat'][:_LONGEST_CATEGORY]}"
    return "value of a counter" if phase == "C" else None


def _with_kineto_names(record: dict[str, Any]) -> dict[str, Any]:
    """A record with kineto's category and arguments: Ascend's tracer gives tasks and calls none."""
    facts = record.get("args")
    if record.get("cat") or not isinstance(facts, dict):
        return record
    task = facts.get("Task Type")
    if isinstance(task, str):
        category = _ASCEND_TASKS.get(task, f"{task} of Ascend")
    elif "level" in facts and "connection_id" in facts:
        category = _ASCEND_CALL
    else:
        return record
    kineto_name = {}
    if category == "gpu_memcpy" and isinstance(facts.get("operation"), str):
        kineto_name["name"] = f"copy_{facts['operation'].replace(' ', '_')}"
    kineto_args = {
        "correlation": facts.get("connection_id"),
        "stream": facts.get("Physic Stream Id", facts.get("Stream Id")),
        "bytes": facts.get("size(B)"),
    }
    return {**record, **kineto_name, "cat": category, "args": kineto_args}


def _is_device_category(category: str) -> bool:
    """Whether an event ran on an accelerator, or is a call to its library."""
    return category in _ON_DEVICE or category.endswith(_CALL_ENDS)


def _nanoseconds(microseconds: object) -> int | None:
    if isinstance(microseconds, str) and _PLAIN_NUMBER.fullmatch(microseconds):
        microseconds = Decimal(microseconds)  # as Ascend's tracer writes them
    if isinstance(microseconds, bool) or not isinstance(microseconds, int | Decimal):
        return None
    exact = Decimal(microseconds)
    # `abs` would round, and a number of a million digits overflows its context.
    in_range = -_LATEST_US <= exact <= _LATEST_US
    return int((exact * 1000).to_integral_value()) if in_range else None


def _without_paths(name: str) -> str:
    return _PATH.sub(r"\1", name) if "/" in name or "\\" in name else name


# ---- rows ----------------------------------------------------------------------------------------


def _rows(traces: Sequence[_Trace], base_ns: int, *, on_gpu: bool) -> Iterator[tuple[str, Row]]:
    """Rows of all traces, each with the name of its frame; times are since `base_ns`."""
    correlations: dict[tuple[int, object], int] = {}
    for number, trace in enumerate(traces):

        def correlation(in_trace: object, trace_number: int = number) -> int | None:
            """Correlation id that is unique over all traces; None where the trace has none."""
            if _integer(in_trace) in (None, 0):
                return None
            return correlations.setdefault((trace_number, in_trace), len(correlations) + 1)

        shift_ns = trace.base_ns - base_ns
        shared = _shared_correlations(trace.events)
        for table, event, row in _rows_of_trace(trace.events, correlation, on_gpu=on_gpu):
            row["start_ns"], row["end_ns"] = event.start_ns + shift_ns, event.end_ns + shift_ns
            if table == "operations" and _integer(event.facts.get("correlation")) in shared:
                row["process"] = MISSING
                trace.unread["process of an operation"] += 1
            yield table, row


def _shared_correlations(events: Sequence[_Event]) -> Set[object]:
    """Correlation ids of calls of several processes, as where ranks were merged into one file."""
    processes: dict[object, int] = {}
    calls = (event for event in events if event.category.endswith(_CALL_ENDS))
    return {
        number
        for call in calls
        if (number := _integer(call.facts.get("correlation")))
        and processes.setdefault(number, call.process) != call.process
    }


def _rows_of_trace(
    events: Sequence[_Event], correlation: Callable[[object], int | None], *, on_gpu: bool
) -> Iterator[tuple[str, _Event, Row]]:
    """Rows without times, each with the name of its frame and its event."""
    device_categories = (*_ON_DEVICE, _ASCEND_CALL)  # where calls of Ascend are shown is no process
    hosts = Counter(e.process for e in events if e.category not in device_categories)
    process = hosts.most_common(1)[0][0] if hosts else MISSING
    platform = _platform(events)
    for event in events:
        if event.category == _RANGE:
            yield "ranges", event, _range(event)
            continue
        event_correlation = correlation(event.facts.get("correlation"))
        if event.category == _ASCEND_CALL:
            call_event = replace(event, pid=process if hosts else None)
            yield "api", event, _call(call_event, event_correlation)
        elif event.category.endswith(_CALL_ENDS):
            yield "api", event, _call(event, event_correlation)
        elif event.category in _ON_DEVICE:
            row = _operation(event, process, platform) | {"correlation": event_correlation}
            yield "operations", event, row
    for place, event in enumerate(() if on_gpu else _outermost(events)):
        # Operators have no correlation of their own; none of CUDA is in these traces.
        event_correlation = correlation(place + 1)
        yield "api", event, _call(event, event_correlation)
        operation = {
            "kind": OperationKind.CPU_OP.value,
            "name": event.name,
            "demangled": event.name,
            "process": event.process,
            "correlation": event_correlation,
        }
        yield "operations", event, operation


def _range(event: _Event) -> Row:
    return {
        "kind": RangeKind.PUSH_POP.value,
        "open": False,
        "name": event.name,
        "domain": domain_of_range("", event.name),
        "process": event.process,
        "thread": event.thread,
    }


def _call(event: _Event, correlation: int | None) -> Row:
    return {
        "name": API_VERSION.sub("", event.name),
        "process": event.process,
        "thread": event.thread,
        "correlation": correlation,
    }


def _platform(events: Sequence[_Event]) -> str:
    """Platform (CUDA, HIP, XPU, …) by the first call to its library."""
    call = next((event for event in events if event.category.endswith(_CALL_ENDS)), None)
    if call is None:
        return "CUDA"
    return "HIP" if _CALL_OF_HIP.match(call.name) else call.category.partition("_")[0].upper()


def _operation(event: _Event, process: int, platform: str) -> Row:
    kind = _ON_DEVICE[event.category]
    row: Row = {"kind": kind.value, "process": process, **_names(event, kind, platform)}
    for column, fact in (*_OPERATION_FACTS.items(), *_PEER_FACTS.items()):
        if row.get(column) is None:
            row[column] = _integer(event.facts.get(fact))
    # kineto writes 0 where there is no graph.
    row["graph_node"] = _integer(event.facts.get("graph node id")) or None
    for name in ("grid", "block"):
        row |= _axes(name, event.facts.get(name))
    return row


def _names(event: _Event, kind: OperationKind, platform: str) -> Row:
    if kind is OperationKind.KERNEL:
        return {"name": short_name(event.name), "demangled": event.name}
    if kind is OperationKind.MEMSET:
        return dict.fromkeys(("name", "demangled"), f"[{platform} memset]")
    copy = _copy_kind(event.name)
    name = f"[{platform} memcpy {copy}]"
    return {"name": name, "demangled": name, "copy_kind": copy}


def _copy_kind(name: str) -> str:
    """Source and target of a copy (`Host-to-Device`); other names as they are."""
    match = _COPY.search(name)
    if match is None:
        return "Unknown" if name.startswith(_UNKNOWN_COPY) else name.removeprefix("Memcpy ")
    ends = (match["of"] or match["start"], match["to"] or match["end"])
    return "-to-".join(_ENDS[end.upper()] for end in ends)


def _axes(name: str, sizes: object) -> Row:
    if not isinstance(sizes, list) or len(sizes) != 3:
        return {}
    return {f"{name}_{axis}": _integer(size) for axis, size in zip("xyz", sizes, strict=True)}


def _integer(value: object) -> int | None:
    """The value if it is a 64-bit integer, else None (kineto also writes "inf")."""
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) < value < 2**63:
        return None
    return value


def _outermost(events: Sequence[_Event]) -> Iterator[_Event]:
    """Operators that lie in no other operator of their thread."""
    operators = [event for event in events if event.category == _OPERATOR]
    operators.sort(key=lambda e: (e.process, e.thread, e.start_ns, -e.end_ns))
    for _, of_thread in groupby(operators, key=lambda e: (e.process, e.thread)):
        last = None
        for event in of_thread:
            if last is None or event.start_ns >= last:
                last = event.end_ns
                yield event
