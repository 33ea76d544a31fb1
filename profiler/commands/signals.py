"""Signals that ask the profiler to end: what it measures is ended as by Ctrl-C, and that is said.

A batch system sends SIGTERM, a terminal that is closed SIGHUP. Left alone they would end this
process at once and without a word.
"""

from __future__ import annotations

import signal
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

_received: list[signal.Signals] = []


def heed_signals() -> None:
    """Make these signals interrupt the main thread; those that are ignored (`nohup`) stay so."""
    for number in _ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _interrupt)


def received_signal() -> signal.Signals | None:
    """The first of these signals that came; None where none did."""
    return _received[0] if _received else None


def _interrupt(number: int, _frame: FrameType | None) -> None:
    _received.append(signal.Signals(number))
    raise KeyboardInterrupt
