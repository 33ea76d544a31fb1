"""An experiment from a trace of torch.profiler, of the calls whose shapes and numbers it has.

With `record_shapes=True` a trace has shapes, strides and types of tensors, and plain numbers; not
which tensors lie in one storage, what is in them, types of lists of tensors, or words.
"""

from __future__ import annotations

import ast
import gzip
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from profiler.runner.arrays import extent
from profiler.runner.capture.dispatched_calls import (
    MADE_OF_OTHERS,
    NOT_LAUNCHED,
    call_document,
    reason_unrecorded,
)
from profiler.runner.capture.experiment_file import EXPERIMENT_FILE, experiment_text
from profiler.runner.capture.folder import CALLS_FILE, SCHEMA_VERSION, write_json
from profiler.runner.capture.signatures import NotReplayableError

NEEDS_CAPTURE = "needs a live capture"
_ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
_TYPES = {
    "float": "float32",
    "double": "float64",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
    "bool": "bool",
}
_INTEGERS = ("long int", "int", "long", "short int", "signed char", "unsigned char")
_ENUMERATIONS: Mapping[str, Mapping[int, Mapping[str, str]]] = {
    "ScalarType": {
        number: {"dtype": name}
        for number, name in enumerate(
            ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
        )
    }
    | {11: {"dtype": "bool"}, 15: {"dtype": "bfloat16"}},
    "Layout": {0: {"layout": "strided"}},
    "MemoryFormat": {
        0: {"memory_format": "contiguous_format"},
        1: {"memory_format": "preserve_format"},
        2: {"memory_format": "channels_last"},
    },
}
_NUMBERS = {"min": 0.0, "max": 1.0, "mean": 0.5, "std": 0.25, "zeros": 0.0}
_DRAWN = {**_NUMBERS, "nan": 0.0, "inf": 0.0, "minus_inf": 0.0}
"""Statistics of tensors of a trace, whose elements are unknown: positive, for roots and logs."""
_PLAIN = {"double": 0.5, "long int": 1}
"""Numbers that stand where a tensor may are tensors without dimensions in a trace, of these types;
which number it was is not in it."""


@dataclass(eq=False)
class TracedCall:
    """A call of an outermost operator, and the times of its kernels."""

    name: str
    arguments: Mapping[str, Any]
    ns: float
    kernels: Counter[str] = field(default_factory=Counter)
    """Nanoseconds on the GPU by kernel."""


@dataclass
class Rank:
    """A kernel, or an operator where there is no GPU, with the time of all its calls."""

    name: str
    ns: float = 0
    calls: int = 0
    reason: str = ""
    """Why the trace is not enough to make its calls again."""


def experiment_of_trace(trace: Path, folder: Path) -> list[Rank]:
    """Ranks by total time, longest first; the experiment is written into the folder."""
    opened = gzip.open if trace.suffix == ".gz" else open
    with opened(trace, "rt", encoding="utf-8") as stream:
        events = json.load(stream)["traceEvents"]
    calls = list(_outermost_calls(events))
    on_gpu = any(call.kernels for call in calls)
    documents: dict[str, dict[str, Any]] = {}
    left_out: dict[str, Counter[str]] = defaultdict(Counter)
    ranks: dict[str, Rank] = {}
    for call in calls:
        ns = sum(call.kernels.values()) if on_gpu else call.ns
        reason = ""
        try:
            document = _call_document(call, "cuda" if on_gpu else "cpu")
            entry = documents.setdefault(
                json.dumps(document), {**document, "count": 0, "time_ns": 0}
            )
            entry["count"] += 1
            entry["time_ns"] += round(ns)
        except NotReplayableError as error:
            reason = str(error)
            left_out[reason][call.name] += 1
            if reason == NOT_LAUNCHED:
                continue
        for name, name_ns in (call.kernels if on_gpu else {call.name: call.ns}).items():
            rank = ranks.setdefault(name, Rank(name))
            rank.ns, rank.calls, rank.reason = (
                rank.ns + name_ns,
                rank.calls + 1,
                rank.reason or reason,
            )
    steps = {
        event["name"] for event in events if str(event.get("name")).startswith("ProfilerStep#")
    }
    document = {
        "schema_version": SCHEMA_VERSION,
        "complete": True,
        "torch": str(torch.__version__),
        "device": "cuda" if on_gpu else "cpu",
        "first_step": 0,
        "steps": max(1, len(steps)),
        "has_steps": bool(steps),
        "uncaptured_step_ns": None,
        "left_out": {reason: dict(counts) for reason, counts in sorted(left_out.items())},
        "launches": [],
        "calls": [{"id": n, **call} for n, call in enumerate(documents.values())],
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / CALLS_FILE, document)
    (folder / EXPERIMENT_FILE).write_text(experiment_text(document), encoding="utf-8")
    return sorted(ranks.values(), key=lambda rank: -rank.ns)


def _outermost_calls(events: Iterable[Mapping[str, Any]]) -> Iterator[TracedCall]:
    """Calls of operators that a dispatch mode would see, with the kernels below them."""
    operators = [event for event in events if event.get("cat") == "cpu_op" and "dur" in event]
    operators.sort(key=lambda event: (str(event["tid"]), event["ts"], -event["dur"]))
    of_id: dict[Any, TracedCall] = {}
    outermost_calls: list[TracedCall] = []
    thread, end = None, 0.0
    for event in operators:
        if event["tid"] != thread:
            thread, end = event["tid"], 0.0
        if event["ts"] >= end:
            if not _is_dispatched_call(event["name"], event.get("args", {})):
                continue
            end = event["ts"] + event["dur"]
            outermost_calls.append(
                TracedCall(event["name"], event.get("args", {}), 1e3 * event["dur"])
            )
        of_id[event.get("args", {}).get("External id")] = outermost_calls[-1]
    for event in events:
        call = of_id.get(event.get("args", {}).get("External id"))
        if event.get("cat") in _ON_GPU and call is not None:
            call.kernels[event["name"]] += round(1e3 * event["dur"])
    return iter(outermost_calls)


def _overloads(name: str) -> list[Any]:
    """Overloads of an operator by its name in a trace; empty where no library has it."""
    namespace, _, packet = name.partition("::")
    try:
        operator_packet = getattr(getattr(torch.ops, namespace), packet)
    except (AttributeError, RuntimeError):
        return []
    if not isinstance(operator_packet, torch._ops.OpOverloadPacket):
        return []
    names: list[str] = operator_packet.overloads()  # type: ignore[no-untyped-call]
    overloads = [getattr(operator_packet, name) for name in names]
    return [func for func in overloads if torch._C._dispatch_has_kernel(func.name())]


def _is_dispatched_call(name: str, arguments: Mapping[str, Any]) -> bool:
    """Whether an event is a call that a dispatch mode would see, not only its parts."""
    if name.count("::") != 1:
        return False
    overloads = [func for func in _overloads(name) if not func.name().endswith(("_out", ".out"))]
    matching = [func for func in overloads if _is_of_overload(func, arguments)]
    kinds = {reason_unrecorded(func) for func in matching or overloads}
    return kinds != {MADE_OF_OTHERS}


def _is_of_overload(overload: Any, arguments: Mapping[str, Any]) -> bool:
    try:
        _bound_arguments(overload, arguments, [], "cpu")
    except NotReplayableError:
        return True
    except ValueError:
        return False
    return True


def _call_document(call: TracedCall, device: str) -> dict[str, Any]:
    """Entry of `calls.json` for a call; raises NotReplayableError."""
    overloads = _overloads(call.name)
    if not overloads:
        raise NotReplayableError(f"{NEEDS_CAPTURE}: its library is not imported")
    if "Input Dims" not in call.arguments:
        raise NotReplayableError(f"{NEEDS_CAPTURE}: the trace has no shapes")
    reason = f"{NEEDS_CAPTURE}: arguments of another version of torch"
    for overload in overloads:
        storages: list[dict[str, Any]] = []
        try:
            arguments = _bound_arguments(overload, call.arguments, storages, device)
        except NotReplayableError as error:
            reason = reason_unrecorded(overload) or str(error)
            continue
        except ValueError:  # of another overload
            continue
        if kind := reason_unrecorded(overload):
            raise NotReplayableError(kind)
        if not storages:
            raise NotReplayableError(f"{NEEDS_CAPTURE}: the device of what has no tensors")
        return call_document(overload, arguments, storages)
    raise NotReplayableError(reason)


def _bound_arguments(
    func: Any, traced: Mapping[str, Any], storages: list[dict[str, Any]], device: str
) -> dict[str, Any]:
    """Arguments by name; raises ValueError where they belong to another overload."""
    schema = func._schema.arguments
    columns = ("Input type", "Input Dims", "Input Strides", "Concrete Inputs")
    rows = list(zip(*(traced.get(column, ()) for column in columns), strict=True))
    if len(rows) != len(schema):
        raise ValueError
    return {
        argument.name: _value(str(argument.real_type), row, storages, device)
        for argument, row in zip(schema, rows, strict=True)
    }


def _value(kind: str, row: Any, storages: list[dict[str, Any]], device: str) -> Any:
    dtype, shape, stride, text = row
    is_optional = kind.startswith("Optional[")
    kind = kind.removeprefix("Optional[").removesuffix("]") if is_optional else kind
    is_tensor = dtype in _TYPES or dtype in _INTEGERS
    if dtype == "TensorList":
        raise NotReplayableError(f"{NEEDS_CAPTURE}: types of lists of tensors")
    if is_tensor != (kind == "Tensor") and dtype:
        raise ValueError
    if is_tensor:
        return _tensor(dtype, shape, stride, storages, device)
    if kind == "str":
        raise NotReplayableError(f"{NEEDS_CAPTURE}: words among the arguments")
    if text:
        return _number(kind, text)
    if is_optional or dtype == "ScalarList":
        return None if is_optional else []
    raise NotReplayableError(f"{NEEDS_CAPTURE}: arguments that the trace does not have")


def _number(kind: str, text: str) -> Any:
    try:
        number: Any = float(text) if text.strip("-") in ("inf", "nan") else ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise NotReplayableError(f"{NEEDS_CAPTURE}: words among the arguments") from None
    if isinstance(number, list) != kind.startswith("List["):
        raise ValueError
    if kind not in _ENUMERATIONS:
        return {"float": text} if number in (math.inf, -math.inf) else number
    if number not in _ENUMERATIONS[kind]:
        raise NotReplayableError(f"{NEEDS_CAPTURE}: a type that is not known")
    return _ENUMERATIONS[kind][number]


def _tensor(
    dtype: str, shape: list[int], stride: list[int], storages: list[dict[str, Any]], device: str
) -> Any:
    if not shape and storages and dtype in _PLAIN:
        return _PLAIN[dtype]
    if dtype in _INTEGERS:
        raise NotReplayableError(f"{NEEDS_CAPTURE}: indices, of which the values count")
    name = _TYPES[dtype]
    size = getattr(torch, name).itemsize * extent(shape, stride)
    storages.append({"bytes": size, "device": device})
    return {
        "tensor": {
            "dtype": name,
            "shape": shape,
            "stride": stride,
            "storage": len(storages) - 1,
            "offset": 0,
            "values": {"true": 0.5} if name == "bool" else _DRAWN,
        }
    }
