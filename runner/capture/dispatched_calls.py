"""The calls of a program as torch's dispatcher sees them: each signature counted, timed, described.

A dispatch mode sees every operator below autograd as it runs, also in the backward pass.
"""

from __future__ import annotations

import itertools
import operator
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from profiler.runner.capture.distributions import Distribution
from profiler.runner.capture.experiment_file import tensors_of
from profiler.runner.capture.kernel_times import CallMark, KernelTimes
from profiler.runner.capture.launches import CompiledGraphs, Launch
from profiler.runner.capture.signatures import (
    Arguments,
    CallDescription,
    Key,
    NotReplayableError,
    comparable,
    defaults_of,
    digest,
    family_of,
    has_results,
    is_lazy,
    key_of,
    lazy_arguments,
    overwritten_names,
    require_plain,
    tensors_in,
    written_arguments,
)

NOT_LAUNCHED = "views, sizes and allocations"
"""Calls that no kernel is launched for: they are counted, and no part of a step."""
COLLECTIVES = "collectives"
MADE_OF_OTHERS = "made of other operators"
"""Under `torch.inference_mode` such an operator arrives whole, elsewhere its parts do."""
_COLLECTIVE = ("c10d", "_c10d_functional", "_c10d_functional_autograd", "symm_mem", "_dtensor")
_ALLOCATES = ("aten::empty", "aten::new_empty", "aten::set_")
_MARKS = ("prim", "profiler")
_DEVICES = ("CPU", "CUDA")
_NONE: Arguments = {}
_MOST_HELD = 1 << 28
"""Bytes of copies that wait for the end of a step to be described."""
_WRITE_EVERY_S = 2.0
_WRITING_SHARE = 50
"""Least time between two writes, in durations of the last write."""


def _makes_other_calls(kind: type[torch.Tensor]) -> bool:
    """Whether a class of tensors replaces a call by calls of its own, as jagged tensors do."""
    return kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__


@cache
def reason_unrecorded(func: Any) -> str:
    """Why calls of an operator are not recorded themselves; empty where they are."""
    if not isinstance(func, torch._ops.OpOverload):
        return "higher-order operators"
    if func.namespace in _COLLECTIVE:
        return COLLECTIVES
    name = func.name()  # type: ignore[no-untyped-call]
    has_kernel = partial(torch._C._dispatch_has_kernel_for_dispatch_key, name)
    # Operators with both, as `silu_backward`: a program runs the kernel of the device.
    if has_kernel("CompositeImplicitAutograd") and not any(map(has_kernel, _DEVICES)):
        return MADE_OF_OTHERS
    is_allocation = func._schema.name.startswith(_ALLOCATES)
    return NOT_LAUNCHED if func.is_view or func.namespace in _MARKS or is_allocation else ""


def is_random(func: Any, arguments: Arguments) -> bool:
    """Whether a call draws random numbers: an operator with dropout does unless dropout is off."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    return bool(arguments.get("dropout_p", arguments.get("p", True)))


def _is_for_host(func: Any) -> bool:
    """Whether an operator returns numbers of the host alone, as `.item()` does."""
    returned = [str(value.type) for value in func._schema.returns]
    return bool(returned) and not any("Tensor" in kind for kind in returned)


def call_document(
    func: Any, arguments: Arguments, storages: list[dict[str, Any]]
) -> dict[str, Any]:
    """Entry of `calls.json` for a call of an operator."""
    return {
        "operator": str(func),
        "random": is_random(func, arguments),
        "for_host": _is_for_host(func),
        "written": list(written_arguments(func, arguments)),
        "has_results": has_results(func),
        "by_name": [argument.name for argument in func._schema.arguments if argument.kwarg_only],
        "arguments": arguments,
        "storages": storages,
    }


def launch_document(
    launch: Launch, arguments: Arguments, storages: list[dict[str, Any]]
) -> dict[str, Any]:
    """Entry of `calls.json` for a launch around the dispatcher."""
    return {
        "operator": launch.name,
        "kind": launch.kind,
        "random": False,
        "arguments": arguments,
        "storages": storages,
        **launch.document,
    }


@dataclass(eq=False, slots=True)
class Call:
    """All calls of one signature."""

    number: int
    target: Any
    """The operator, or the launch around the dispatcher."""
    mark: CallMark | None
    """Range around each call, where kernels are timed."""
    count: int = 0
    time_ns: int = 0
    described: CallDescription | None = None
    """Arguments of the first call, until `document` is made of them."""
    digest: str | None = None
    """Hash of the results and written arguments of the first call, where values are kept."""
    document: dict[str, Any] | None = None
    left_out: str = ""
    """Why there is no document; empty where there is one."""

    @property
    def launch(self) -> Launch | None:
        """The launch around the dispatcher; None for a call of an operator."""
        return self.target if isinstance(self.target, Launch) else None

    def without_count(self, number: int, mark: CallMark | None) -> Call:
        """Record of the same signature without calls."""
        return Call(number, self.target, mark, document=self.document, left_out=self.left_out)

    def settle(self, number: int, *, keeps_values: bool) -> None:
        """Make the document of the described call, or note why there is none."""
        described, self.described = self.described, None
        if described is None:
            return
        launch = self.launch
        defaults = defaults_of(self.target) if launch is None else _NONE
        is_torchs = launch is None and self.target.namespace == "aten"
        try:
            arguments, storages = described.settle(defaults, text=keeps_values or is_torchs)
        except NotReplayableError as reason:
            self.left_out = str(reason)
            return
        make_document = call_document if launch is None else launch_document
        self.document = {"id": number, **make_document(self.target, arguments, storages)}
        if self.digest is not None:
            self.document["digest"] = self.digest


@dataclass(eq=False)
class RecordedCalls:
    """Calls of a program in one or more steps."""

    calls: dict[Key, Call] = field(default_factory=dict)
    """Calls by signature; the count of a signature that only the step before had is 0."""
    left_out: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    """Counts of calls that are not recorded, by reason and id of the operator."""

    def made_calls(self) -> list[Call]:
        """Calls of all signatures with a count."""
        return [call for call in self.calls.values() if call.count]


class _OperatorFacts:
    """Facts of an operator that the mode needs at each call, found once."""

    __slots__ = ("func", "kind", "lazy", "names", "overwritten")

    def __init__(self, func: Any) -> None:
        self.func = func
        self.kind = reason_unrecorded(func)
        if self.kind == "":
            self.names = tuple(defaults_of(func))
            self.overwritten = overwritten_names(func)
            self.lazy = lazy_arguments(func)


class CallRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """Counts and times the calls of each signature, and describes the first of each."""

    supports_higher_order_operators = True
    """Higher-order operators are counted, and run without the mode: else torch refuses them."""

    def __init__(self, values: Path | None, write: Callable[[], object]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._values = values
        self._write = write
        self._write_at = time.monotonic() + _WRITE_EVERY_S
        self.recorded = RecordedCalls()
        self._families: dict[Key, list[tuple[Key, Call]]] = {}
        """Described calls of the step before, by family: its members differ in sizes alone."""
        self.operators: dict[int, _OperatorFacts] = {}
        """Operators by their ids: the hash of an operator is a slow function of Python."""
        self._numbers = itertools.count()
        self._unsettled: list[Call] = []
        """Calls whose documents are not made yet."""
        self._unsettled_bytes = 0
        self._settled = 0
        """Number of calls with a document, which is the number of the next document."""
        self.device = "cpu"
        self.kernels = KernelTimes()
        self.graphs = CompiledGraphs()
        self._is_inside = False
        """Whether a call is being made: its inner calls and launches are a part of it."""
        self.is_off = False
        """Whether calls are not recorded, although the mode is on."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """True: else torch.compile does not compile under the mode."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: torch's wrapper that keeps dynamo out takes 2 us of each call; see below."""
        return False

    def restart(self, *, is_described: bool) -> RecordedCalls:
        """Calls that were recorded before, after recording is restarted.

        `is_described`: whether its signatures have documents, so that no call of them takes longer.
        """
        self.settle()
        before, self.recorded = self.recorded, RecordedCalls()
        self._families = defaultdict(list)
        for key, call in (before.calls if is_described else {}).items():
            number = next(self._numbers)
            self.recorded.calls[key] = call.without_count(number, self.kernels.mark(number))
            if call.document is not None and call.launch is None:
                self._families[family_of(key)].append((key, call))
        return before

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Arguments | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if types and FakeTensor not in types and any(map(_makes_other_calls, types)):
            return NotImplemented  # the mode sees the calls of these classes next
        is_fake = types and FakeTensor in types  # as DTensor has them, to find shapes
        if is_fake or self._is_inside or self.is_off or self.graphs.compiling:
            return func(*args, **kwargs)
        called = self.operators.get(id(func))
        if called is None:
            called = self.operators[id(func)] = _OperatorFacts(func)
        if called.kind:
            return self._make_unrecorded(called, args, kwargs)
        try:
            key = key_of(id(func), args, kwargs, lazy=called.lazy)
        except NotReplayableError as reason:
            self.recorded.left_out[str(reason)][id(func)] += 1
            return func(*args, **kwargs)
        call = self.recorded.calls.get(key)
        if call is None:
            return self._make_first(key, called, args, kwargs)
        return self._make_timed(call, func, args, kwargs)

    def _make_unrecorded(self, called: _OperatorFacts, args: Any, kwargs: Arguments) -> Any:
        """Make a call that is not recorded itself: its parts are recorded, or it is counted."""
        func, kind = called.func, called.kind
        if kind == MADE_OF_OTHERS:
            # Nested tensors have kernels of their own; lazy tensors would be given to all parts.
            tensors = tensors_in((args, kwargs))
            unusual = next((t for t in tensors if t.is_nested or is_lazy(t)), None)
            if unusual is None:
                with self:
                    return func.decompose(*args, **kwargs)
            kind = _why_not_replayable(unusual)
        self.recorded.left_out[kind][id(func)] += 1
        return func(*args, **kwargs)

    def _make_timed(
        self, call: Call, make: Callable[..., Any], args: Any = (), kwargs: Arguments = _NONE
    ) -> Any:
        """Make a call, count it, and add its time."""
        call.count += 1
        mark = call.mark
        if mark is not None:
            mark.begin()
        self._is_inside = True
        begin = time.perf_counter_ns()
        try:
            return make(*args, **kwargs)
        finally:
            call.time_ns += time.perf_counter_ns() - begin
            self._is_inside = False
            if mark is not None:
                mark.end()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Record nothing in the body."""
        was_inside, self._is_inside = self._is_inside, True
        try:
            yield
        finally:
            self._is_inside = was_inside

    def make_launch(self, describe: Callable[[], Launch], make: Callable[[], Any]) -> Any:
        """Make a launch that goes around the dispatcher, as a call of its signature."""
        if self._is_inside or self.graphs.compiling:
            return make()
        with self.paused():
            launch = describe()
        calls = self.recorded.calls
        call = calls.get(launch.key)
        if call is not None:
            return self._make_timed(call, make)
        with self.paused():
            call = calls[launch.key] = self._new_call(launch)
            call.left_out = launch.left_out
            if not call.left_out:
                keeps_values = self._values is not None
                key = key_of("", (), launch.arguments)
                call.described = CallDescription(key, launch.arguments, values=keeps_values)
        result = self._make_timed(call, make)
        with self.paused():
            self._keep_arguments(call)
        return result

    def _new_call(self, target: Any) -> Call:
        number = next(self._numbers)
        return Call(number, target, self.kernels.mark(number))

    def _make_first(self, key: Key, called: _OperatorFacts, args: Any, kwargs: Arguments) -> Any:
        """Make the first call of a signature, and keep its arguments."""
        func = called.func
        call = self.recorded.calls[key] = self._new_call(func)
        keeps_values = self._values is not None
        arguments = {**dict(zip(called.names, args, strict=False)), **kwargs}
        relatives = self._families and self._families.get(family_of(key))
        call.described = CallDescription(
            key,
            arguments,
            values=keeps_values,
            overwritten=called.overwritten,
            like=partial(_nearest_distributions, key, relatives) if relatives else None,
        )
        result = self._make_timed(call, func, args, kwargs)
        if not relatives:  # calls of a family return new storages
            call.left_out = _left_out_by(func, arguments, result)
        if keeps_values and not call.left_out:
            new_results = comparable(func, result) if has_results(func) else []
            call.digest = digest([*new_results, *written_arguments(func, arguments).values()])
        self._keep_arguments(call)
        return result

    def _keep_arguments(self, call: Call) -> None:
        """Keep the arguments of the first call of a signature."""
        if call.described is None or call.left_out:
            call.described = None
            return
        self._unsettled.append(call)
        self._unsettled_bytes += call.described.held_bytes
        values = call.described.values
        if self._values is not None or self._unsettled_bytes > _MOST_HELD:
            self.settle()
        if self._values is not None and call.document is not None:  # all would be too many to hold
            torch.save(values, self._values / f"{call.document['id']}.pt")
        self.write_sometimes()

    def settle(self) -> None:
        """Make the documents of described calls."""
        unsettled, self._unsettled, self._unsettled_bytes = self._unsettled, [], 0
        with self.paused():
            for call in unsettled:
                call.settle(self._settled, keeps_values=self._values is not None)
                if call.document is not None:
                    self._settled += 1
                    if any(storage["device"] == "cuda" for storage in call.document["storages"]):
                        self.device = "cuda"

    def number_documents(self) -> None:
        """Number the documents from 0 on, without signatures that only earlier steps had."""
        self.settle()
        calls = self.recorded.made_calls()
        documents = [call.document for call in calls if call.document is not None]
        documents.sort(key=lambda document: int(document["id"]))
        kept_files = {f"{document['id']}.pt" for document in documents}
        for file in () if self._values is None else list(self._values.iterdir()):
            if file.name not in kept_files:
                file.unlink()
        for number, document in enumerate(documents):
            if self._values is not None:
                (self._values / f"{document['id']}.pt").rename(self._values / f"{number}.pt")
            document["id"] = number

    def write_sometimes(self) -> None:
        """Write the calls so far, but so rarely that it takes little of the program's time."""
        begin = time.monotonic()
        if begin >= self._write_at:
            self._write()
            end = time.monotonic()
            self._write_at = end + max(_WRITE_EVERY_S, _WRITING_SHARE * (end - begin))


# Dynamo leaves a dispatch alone, and all that it calls, where torch.compile runs eager code.
_LEAVE_ALONE = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)
set_code_exec_strategy(CallRecorder.__torch_dispatch__.__code__, _LEAVE_ALONE)


def _nearest_distributions(key: Key, relatives: Sequence[tuple[Key, Call]]) -> list[Distribution]:
    """Distributions of the tensors of the call that has most sizes in common with a key."""
    _, nearest = max(relatives, key=lambda relative: _common_sizes(key, relative[0]))
    arguments = (nearest.document or {})["arguments"]
    return [tensor["values"] for tensor in tensors_of([*arguments.values()])]


def _common_sizes(first: Key, second: Key) -> int:
    """Number of sizes and strides that two signatures of a family have in common."""
    parts = zip(first, second, strict=True)
    return sum(sum(map(operator.eq, *pair)) for pair in parts if isinstance(pair[0], tuple))


def _why_not_replayable(tensor: torch.Tensor) -> str:
    try:
        require_plain(tensor)
    except NotReplayableError as reason:
        return str(reason)
    return ""


def _left_out_by(func: Any, arguments: Arguments, result: Any) -> str:
    """Why a call is left out by its result, such as views of its arguments alone; else empty."""
    results = list(tensors_in(result))
    if reason := next(filter(None, map(_why_not_replayable, results)), ""):
        return reason
    if not results or func._schema.is_mutable:
        return ""
    argument_storages = {tensor.untyped_storage()._cdata for tensor in tensors_in(arguments)}
    is_view = all(tensor.untyped_storage()._cdata in argument_storages for tensor in results)
    return NOT_LAUNCHED if is_view else ""
