"""Time of the kernels of each captured call on a GPU, by torch.profiler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from types import TracebackType
from typing import Any, Self

import torch
from torch._C._autograd import DeviceType, _profiler_enabled
from torch.profiler import ProfilerActivity, profile, record_function

from profiler.runner.capture.launches import replaced

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
            self._ranges.watch()
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
            self._ranges.close()
            ended, self._profile = self._profile, None
            ended.__exit__(None, None, None)
            self.ns += sums(ended.events(), self._mark)
        waiting, self._waiting = self._waiting, []
        for act in waiting:
            act()


class _OpenRanges:
    """Counts the ranges of torch.profiler that have begun while it watches, and not ended."""

    def __init__(self, at_end: Callable[[], None]) -> None:
        self._at_end = at_end
        self._patches = ExitStack()
        self.count = 0

    def watch(self) -> None:
        """Count from here on, down to `close`."""
        open_ranges: set[int] = set()

        def begin(original: Callable[..., Any], of_range: Any) -> Any:
            open_ranges.add(id(of_range))
            self.count = len(open_ranges)
            return original(of_range)

        def end(original: Callable[..., Any], of_range: Any, *error: Any) -> None:
            original(of_range, *error)
            if id(of_range) in open_ranges:
                open_ranges.remove(id(of_range))
                self.count = len(open_ranges)
                self._at_end()

        self._patches.enter_context(replaced(record_function, "__enter__", begin))
        self._patches.enter_context(replaced(record_function, "__exit__", end))

    def close(self) -> None:
        """Count no more."""
        self._patches.close()


def sums(events: Iterable[Any], mark: str) -> Counter[int]:
    """Nanoseconds of the kernels in the marks among the events of a profile, by number."""
    found: Counter[int] = Counter()
    for event in events:
        on_host = event.device_type == DeviceType.CPU
        if on_host and event.name.startswith(mark):
            found[int(event.name.removeprefix(mark))] += round(1e3 * event.device_time_total)
    return found
