"""Time of the kernels of each captured call on a GPU, by torch.profiler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Self

import torch
from torch._C._autograd import DeviceType, _profiler_enabled
from torch.profiler import ProfilerActivity, profile, record_function

_MARK = "captured call "
_ACTIVITIES = (ProfilerActivity.CPU, ProfilerActivity.CUDA)


class KernelTimes(AbstractContextManager["KernelTimes"]):
    """While it is entered, kernels of the calls that are marked are timed.

    Without a GPU, and where the program has a profile of its own under way, nothing is.
    """

    def __init__(self) -> None:
        self._profile: Any = None
        self.ns: Counter[int] = Counter()
        """Nanoseconds of the kernels of all calls, by number."""

    def __enter__(self) -> Self:
        if torch.cuda.is_available() and not _profiler_enabled():
            self._profile = profile(activities=_ACTIVITIES, acc_events=True)
            self._profile.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._profile is not None:
            self._profile.__exit__(kind, error, trace)
            self.ns += sums(self._profile.events())
            self._profile = None

    def of_call(self, number: int) -> AbstractContextManager[Any]:
        """Mark a call inside, by the number of its signature."""
        return nullcontext() if self._profile is None else record_function(f"{_MARK}{number}")


def sums(events: Iterable[Any]) -> Counter[int]:
    """Nanoseconds of the kernels in the marks among the events of a profile, by number."""
    found: Counter[int] = Counter()
    for event in events:
        on_host = event.device_type == DeviceType.CPU
        if on_host and event.name.startswith(_MARK):
            found[int(event.name.removeprefix(_MARK))] += round(1e3 * event.device_time_total)
    return found
