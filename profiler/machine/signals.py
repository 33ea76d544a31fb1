"""Signals that ask the profiler to end: what it measures is ended as by Ctrl-C, and that is said.

A batch system sends SIGTERM, a terminal that is closed SIGHUP. Left alone they would end this
process at once and without a word.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_DEFAULTS = (signal.SIG_DFL, signal.default_int_handler)

_received: list[signal.Signals] = []
_pending: set[signal.Signals] = set()
"""Signals that came since `raise_if_signalled` last raised."""


def heed_signals() -> None:
    """Make these signals interrupt the main thread; those that are ignored (`nohup`) stay so."""
    for number in _ENDING:
        if signal.getsignal(number) in _DEFAULTS:
            signal.signal(number, _interrupt)


def received_signal() -> signal.Signals | None:
    """The first of these signals that came, Ctrl-C left out; None where none did."""
    return next((number for number in _received if number is not signal.SIGINT), None)


def was_signalled() -> bool:
    """Whether any of these signals came."""
    return bool(_received)


def raise_if_signalled() -> None:
    """Raise KeyboardInterrupt in the main thread, once, where that of a signal was dropped.

    Python prints and drops what a handler raises inside a `__del__`, or a callback of a weak
    reference or of a fork. So loops that wait ask at each look. Clean-up does not ask: it also runs
    where the handler's own exception is on its way.
    """
    if _pending and threading.current_thread() is threading.main_thread():
        _pending.clear()
        raise KeyboardInterrupt


def _interrupt(number: int, _frame: FrameType | None) -> None:
    _received.append(signal.Signals(number))
    _pending.add(signal.Signals(number))
    raise KeyboardInterrupt
