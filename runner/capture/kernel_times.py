"""Time of the kernels of each captured call on a GPU, by torch.profiler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Self

import torch
from torch._C._autograd import DeviceType, _enable_record_function, _profiler_enabled
from torch._C._profiler import _RecordFunctionFast
from torch.profiler import ProfilerActivity, profile

_MARK = "captured call "
_NO_MARK: AbstractContextManager[Any] = nullcontext()
_ACTIVITIES = (ProfilerActivity.CPU, ProfilerActivity.CUDA)


class _Mark(AbstractContextManager[None]):
    """The only kind of range that is recorded: those of operators and of the program are not.

    They would take some microseconds of each call; and a profile must not end inside a range that
    it recorded the begin of, as an optimizer has one around its hooks: torch would write into freed
    memory when that range ends.
    """

    def __init__(self, name: str) -> None:
        # A mark by record_function has only kernels of operators in it, no launches around them.
        self._range = _RecordFunctionFast(name)

    def __enter__(self) -> None:
        _enable_record_function(True)
        self._range.__enter__()
        _enable_record_function(False)

    def __exit__(self, *_: object) -> None:
        self._range.__exit__(None, None, None)


class KernelTimes(AbstractContextManager["KernelTimes"]):
    """While it is entered, kernels of the calls that are marked are timed.

    Without a GPU, and where the program has a profile of its own under way, nothing is.
    """

    def __init__(self) -> None:
        self._profile: Any = None
        self._marks: dict[int, AbstractContextManager[Any]] = {}
        self.ns: Counter[int] = Counter()
        """Nanoseconds of the kernels of all calls, by number."""
        self.launches: Counter[int] = Counter()
        """How many they are, copies and fills too."""

    def __enter__(self) -> Self:
        if torch.cuda.is_available() and not _profiler_enabled():
            self._profile = profile(activities=_ACTIVITIES, acc_events=True)
            self._profile.__enter__()
            _enable_record_function(False)
            # The first kernel of a profile waits for its buffers.
            if can_wait():
                torch.zeros(1, device="cuda")
                torch.cuda.synchronize()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._profile is not None:
            ended, self._profile = self._profile, None
            _enable_record_function(True)
            ended.__exit__(None, None, None)
            ns, launches = sums(ended.events(), _MARK)
            self.ns += ns
            self.launches += launches

    def clear(self) -> None:
        """Forget all calls."""
        self.ns.clear()
        self.launches.clear()

    def of_call(self, number: int) -> AbstractContextManager[Any]:
        """Mark a call inside, by the number of its signature."""
        if self._profile is None:
            return _NO_MARK
        mark = self._marks.get(number)
        if mark is None:
            mark = self._marks[number] = _Mark(f"{_MARK}{number}")
        return mark


def can_wait() -> bool:
    """Whether there is a GPU that can be waited for: the program may be recording a CUDA graph."""
    is_in_use: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return is_in_use and not torch.cuda.is_current_stream_capturing()


def sums(events: Iterable[Any], mark: str) -> tuple[Counter[int], Counter[int]]:
    """Nanoseconds and number of the kernels in the marks among the events of a profile."""
    ns, launches = Counter[int](), Counter[int]()
    for event in events:
        if event.device_type == DeviceType.CPU and event.name.startswith(mark):
            number = int(event.name.removeprefix(mark))
            ns[number] += round(1e3 * event.device_time_total)
            launches[number] += len(event.kernels)
    return ns, launches
