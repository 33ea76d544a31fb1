"""Time of the kernels of each captured call on a GPU, and waits between, by torch.profiler."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._C._autograd import DeviceType, _enable_record_function, _profiler_enabled
from torch._C._profiler import _RecordFunctionFast
from torch.profiler import ProfilerActivity, profile

_MARK = "captured call "
_OTHER = "what is not captured"
_ON_GPU = (ProfilerActivity.CUDA,)
_MARKED = (ProfilerActivity.CPU, *_ON_GPU)


class CallMark:
    """The only kind of range that is recorded: ranges of operators and of the program are not.

    Those would take some microseconds of each call; and a profile must not end inside a range that
    it recorded the begin of, as an optimizer has one around its hooks: torch would write into freed
    memory when that range ends.
    """

    def __init__(self, name: str) -> None:
        # A mark by record_function has only kernels of operators in it, no launches around them.
        marked = _RecordFunctionFast(name)
        self._begin, self._end = marked.__enter__, marked.__exit__

    def begin(self) -> None:
        """Begin the range."""
        _enable_record_function(True)
        self._begin()
        _enable_record_function(False)

    def end(self) -> None:
        """End the range."""
        self._end(None, None, None)


class KernelTimes:
    """Times of the kernels of marked calls.

    Without a GPU, and where the program runs a profile of its own, none is timed.
    """

    def __init__(self) -> None:
        self._are_timed = False
        self.ns: Counter[int] = Counter()
        """Nanoseconds of the kernels of all calls, by number."""
        self.launches: Counter[int] = Counter()
        """Number of kernels of all calls by number, with copies and fills."""
        self.order: dict[str, list[int]] = defaultdict(list)
        """Numbers of the calls that launched the kernels of a name, in order."""

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Time the kernels of marked calls in the body."""
        profiler = _started_profile(_MARKED)
        self._are_timed = profiler is not None
        try:
            yield
        finally:
            self._are_timed = False
            if profiler is not None:
                events = _events_of(profiler)
                ns, launches = sums(events, _MARK)
                self.ns += ns
                self.launches += launches
                for number, kernel in launched_kernels(events, _MARK):
                    self.order[kernel].append(number)

    def mark(self, number: int) -> CallMark | None:
        """Mark of the calls of a number; None where kernels are not timed."""
        return CallMark(f"{_MARK}{number}") if self._are_timed else None


@dataclass(frozen=True)
class Waits:
    """Waits of a GPU in a step, from the first kernel, copy or fill to the last."""

    span_ns: int
    before: Sequence[tuple[str, int]]
    """Name of each kernel, copy or fill, by start, and nanoseconds of the wait before it."""

    def by_call(self, order: Mapping[str, Sequence[int]], calls: Mapping[int, str]) -> Counter[str]:
        """Nanoseconds of waits by name of the call that ended them; `calls`: names by number.

        The kernels of a name are launched in the order in which captured calls did (`order`).
        """
        numbers = {
            kernel: [number for number in call_numbers if number in calls]
            for kernel, call_numbers in order.items()
        }
        ns, kernel_counts = Counter[str](), Counter[str]()
        for kernel, wait in self.before:
            of_kernel = numbers.get(kernel)
            place, kernel_counts[kernel] = kernel_counts[kernel], kernel_counts[kernel] + 1
            name = calls[of_kernel[min(place, len(of_kernel) - 1)]] if of_kernel else _OTHER
            ns[name] += wait
        return ns


@contextmanager
def waits_of_body(take: Callable[[Waits | None], None]) -> Iterator[None]:
    """Record only the work of the GPU in the body; `take` gets its waits.

    Without a GPU nothing is recorded.
    """
    profiler = _started_profile(_ON_GPU)
    try:
        yield
    finally:
        if profiler is not None:
            take(waits_between(_events_of(profiler)))


def _started_profile(activities: Sequence[ProfilerActivity]) -> Any:
    """A started profile of marks alone; None without a GPU, or under the program's own profile."""
    if not torch.cuda.is_available() or _profiler_enabled():
        return None
    # Earlier launches would be part of the profile, with the wait for its start after them.
    if can_wait():
        torch.cuda.synchronize()
    profiler: Any = profile(activities=activities, acc_events=True)
    profiler.__enter__()
    _enable_record_function(False)
    # The first kernel of a profile waits for its buffers.
    if can_wait():
        torch.zeros(1, device="cuda")
        torch.cuda.synchronize()
    return profiler


def _events_of(profiler: Any) -> Sequence[Any]:
    """Events of a profile, which is ended."""
    _enable_record_function(True)
    profiler.__exit__(None, None, None)
    events: Sequence[Any] = profiler.events()
    return events


def can_wait() -> bool:
    """Whether there is a GPU that can be waited for: the program may be recording a CUDA graph."""
    is_in_use: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return is_in_use and not torch.cuda.is_current_stream_capturing()


def _marks(events: Iterable[Any], mark: str) -> list[tuple[int, Any]]:
    """Marks among the events of a profile, each with the number of its call."""
    return [
        (int(event.name.removeprefix(mark)), event)
        for event in events
        if event.device_type == DeviceType.CPU and event.name.startswith(mark)
    ]


def sums(events: Iterable[Any], mark: str) -> tuple[Counter[int], Counter[int]]:
    """Nanoseconds and number of the kernels in the marks among the events of a profile."""
    ns, launches = Counter[int](), Counter[int]()
    for number, event in _marks(events, mark):
        ns[number] += round(1e3 * event.device_time_total)
        launches[number] += len(event.kernels)
    return ns, launches


def launched_kernels(events: Iterable[Any], mark: str) -> list[tuple[int, str]]:
    """Number of the call and name of each kernel in the marks of a profile, in order."""
    marks = sorted(_marks(events, mark), key=lambda marked: float(marked[1].time_range.start))
    return [(number, kernel.name) for number, event in marks for kernel in event.kernels]


def waits_between(events: Iterable[Any]) -> Waits | None:
    """Waits in a profile, without its first event, which warmed it up; None without events."""
    on_gpu = sorted(
        (round(1e3 * event.time_range.start), round(1e3 * event.time_range.end), event.name)
        for event in events
        if event.device_type == DeviceType.CUDA and not event.is_user_annotation
    )[1:]
    if not on_gpu:
        return None
    before: list[tuple[str, int]] = []
    begin = busy_until = on_gpu[0][0]
    for start, end, name in on_gpu:
        before.append((name, max(0, start - busy_until)))
        busy_until = max(busy_until, end)
    return Waits(busy_until - begin, before)
