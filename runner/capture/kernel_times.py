"""Time of the kernels of each captured call on a GPU, by torch.profiler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Self

import torch
from torch._C._autograd import DeviceType, _profiler_enabled
from torch.profiler import ProfilerActivity, profile, record_function

_MARK = "captured call "
_NO_MARK: AbstractContextManager[Any] = nullcontext()
_ACTIVITIES = (ProfilerActivity.CPU, ProfilerActivity.CUDA)


class KernelTimes(AbstractContextManager["KernelTimes"]):
    """While it is entered, kernels of the calls that are marked are timed.

    Without a GPU, and where the program has a profile of its own under way, nothing is.

    A profile does not end inside a range of the program that began within it: torch would write
    into freed memory when that range ends. Hooks of an optimizer are inside of one. So it ends with
    the last of those ranges, and what needs the times waits for it (`once_known`).
    """

    def __init__(self) -> None:
        self._profile: Any = None
        self._period = 0
        """Number of times that it was entered: only calls of the last time count."""
        self._is_ending = False
        self._waiting: list[Callable[[], None]] = []
        self._ranges = _OpenRanges(self._end_if_due)
        self.ns: Counter[int] = Counter()
        """Nanoseconds of the kernels of all calls, by number."""

    def __enter__(self) -> Self:
        self._period += 1
        self._is_ending = False
        if self._profile is None and torch.cuda.is_available() and not _profiler_enabled():
            self._profile = profile(activities=_ACTIVITIES, acc_events=True)
            self._profile.__enter__()
            self._ranges.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_ending = True
        self._end_if_due()

    def of_call(self, number: int) -> AbstractContextManager[Any]:
        """Mark a call inside, by the number of its signature."""
        if self._profile is None:
            return _NO_MARK
        # A mark by record_function has only kernels of operators in it, no launches around them.
        return torch._C._profiler._RecordFunctionFast(self._mark + str(number))

    def once_known(self, act: Callable[[], None]) -> None:
        """Do something when the times are known, which may be now."""
        self._waiting.append(act)
        self._end_if_due()

    @property
    def _mark(self) -> str:
        return f"{_MARK}{self._period} "

    def _end_if_due(self) -> None:
        if not self._is_ending or self._ranges.count:
            return
        if self._profile is not None:
            self._ranges.__exit__(None, None, None)
            ended, self._profile = self._profile, None
            ended.__exit__(None, None, None)
            self.ns += sums(ended.events(), self._mark)
        waiting, self._waiting = self._waiting, []
        for act in waiting:
            act()


class _OpenRanges(AbstractContextManager["_OpenRanges"]):
    """Counts the ranges of torch.profiler that have begun since it was entered and not ended."""

    def __init__(self, at_end: Callable[[], None]) -> None:
        self._at_end = at_end
        self.count = 0

    def __enter__(self) -> Self:
        self._begin, self._end = record_function.__enter__, record_function.__exit__
        begun: Any = self._begin
        seen: set[int] = set()

        def begin(of_range: Any) -> Any:
            seen.add(id(of_range))
            self.count = len(seen)
            return begun(of_range)

        def end(of_range: Any, *error: Any) -> None:
            self._end(of_range, *error)
            if id(of_range) in seen:
                seen.remove(id(of_range))
                self.count = len(seen)
                self._at_end()

        _replace(begin, end)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _replace(self._begin, self._end)


def _replace(begin: Callable[..., Any], end: Callable[..., None]) -> None:
    """Have the ranges of all code begin and end by these."""
    vars_of: Any = record_function
    vars_of.__enter__, vars_of.__exit__ = begin, end


def sums(events: Iterable[Any], mark: str) -> Counter[int]:
    """Nanoseconds of the kernels in the marks among the events of a profile, by number."""
    found: Counter[int] = Counter()
    for event in events:
        on_host = event.device_type == DeviceType.CPU
        if on_host and event.name.startswith(mark):
            found[int(event.name.removeprefix(mark))] += round(1e3 * event.device_time_total)
    return found
