"""Signals that ask the profiler to end: sessions end as by Ctrl-C, with a message.

A batch system sends SIGTERM, a terminal that is closed SIGHUP. Left alone they would end this
process at once and without a word.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType

_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_DEFAULT_HANDLERS = (signal.SIG_DFL, signal.default_int_handler)

_received: list[signal.Signals] = []
_pending: set[signal.Signals] = set()
"""Signals that came since `raise_if_signalled` last raised."""


def interrupt_on_signals() -> None:
    """Make these signals interrupt the main thread; ignored signals (`nohup`) stay ignored."""
    for number in _ENDING_SIGNALS:
        if signal.getsignal(number) in _DEFAULT_HANDLERS:
            signal.signal(number, _interrupt)


def received_signal() -> signal.Signals | None:
    """The first signal that came, except Ctrl-C; None without one."""
    return next((number for number in _received if number is not signal.SIGINT), None)


def was_signalled() -> bool:
    """Whether any of these signals came."""
    return bool(_received)


def raise_if_signalled() -> None:
    """Raise KeyboardInterrupt in the main thread, once, where a signal's exception was dropped.

    Python prints and drops an exception of a handler inside a `__del__`, or a callback of a weak
    reference or of a fork. So waiting loops call this in each turn. Clean-up does not: it also runs
    while the handler's own exception propagates.
    """
    if _pending and threading.current_thread() is threading.main_thread():
        _pending.clear()
        raise KeyboardInterrupt


def _interrupt(number: int, _frame: FrameType | None) -> None:
    _received.append(signal.Signals(number))
    _pending.add(signal.Signals(number))
    raise KeyboardInterrupt
