"""From an exception to the outcome of a cell, in the words of the user's own file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from profiler.runner.checks.check import WrongResultError
from profiler.runner.error_text import innermost_frame, telling_line
from profiler.runner.import_path import name_clash
from profiler.runner.protocol import HOST_ERRNOS
from profiler.runner.seal import ImplausibleError

# Values of `profiler.model.Outcome`, which this side must not import.
WRONG_RESULT = "wrong_result"
IMPLAUSIBLE = "implausible"
OUT_OF_MEMORY = "out_of_memory"
ILLEGAL_ADDRESS = "illegal_address"
RAISED = "raised"

_MAX_CAUSE = 500
_NEEDS_GRADIENTS = "does not require grad and does not have a grad_fn"
"""Words of torch for a backward pass where gradients were off on the way forward."""

# The words of cudaGetErrorString, and the names that a ctypes launcher may put in its message.
_ILLEGAL_ADDRESS = re.compile(
    r"illegal memory access|misaligned address|operation not supported on global/shared address"
    r"|cudaError(IllegalAddress|MisalignedAddress|InvalidAddressSpace)"
    r"|CUDA_ERROR_(ILLEGAL|MISALIGNED)_ADDRESS",
    re.IGNORECASE,
)
# CUDA's own, cuBLAS's, and torch's for host memory (a plain RuntimeError).
_OUT_OF_MEMORY = re.compile(
    r"CUDA(_| error: | )out.of.memory|cudaErrorMemoryAllocation|CUBLAS_STATUS_ALLOC_FAILED"
    r"|can't allocate memory",
    re.IGNORECASE,
)
# As libraries hand it on that keep the text alone: torch, compilers, loaders of libraries.
_HOST_FAULT_TEXT = re.compile(
    "|".join(re.escape(os.strerror(number)) for number in sorted(HOST_ERRNOS))
    + r"|can't (allocate memory|start new thread)|std::bad_alloc|virtual memory exhausted"
    r"|out of memory allocating|LLVM ERROR: out of memory"  # of compilers
    r"|database or disk is full|disk I/O error"  # of SQLite, in which caches are kept
    r"|PytorchStreamWriter failed|unexpected pos \d+ vs \d+",  # of torch.save
    re.IGNORECASE,
)
# "Tried to allocate 20.00 GiB" (CUDA), "Unable to allocate 7.1 PiB" (NumPy), "… 4096 bytes" (CPU).
_ASKED_FOR = re.compile(r"(?:tried|unable) to allocate ([\d.]+) ?([KMGTPE]i?B|bytes|B)\b", re.I)
# Folders of this machine and its user are private where a report is shared.
_FOLDERS = re.compile(r"(?<![\w.:/])/(?:[^\s/:'\"]+/)+")
_UNIT_POWERS = {"K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


@dataclass(frozen=True)
class Failure:
    """Outcome of a cell that failed, and its cause."""

    outcome: str
    cause: str
    of_host: bool = False
    """Whether the host refused to write, open or allocate: the cell is tried again another time."""

    def seen_after(self, earlier: Failure) -> Failure:
        """The earlier failure, with this error of the device where the error explains it."""
        if earlier.outcome != RAISED or self.outcome == RAISED:
            return earlier
        return Failure(self.outcome, f"{self.cause} (seen after {earlier.cause})")


class ForeignError(RuntimeError):
    """Failure of another process in its own text, with the place: the text cannot be trusted."""


def diagnose(error: BaseException, source: Path) -> Failure:
    """Outcome and cause of an exception that reached the runner from the workload in `source`."""
    if isinstance(error, WrongResultError):
        return Failure(WRONG_RESULT, str(error))
    if isinstance(error, ImplausibleError):
        return Failure(IMPLAUSIBLE, str(error))
    message = str(error)
    if isinstance(error, ForeignError):  # its text could blame the host for anything
        kinds = {OUT_OF_MEMORY: _OUT_OF_MEMORY, ILLEGAL_ADDRESS: _ILLEGAL_ADDRESS}
        outcomes = (outcome for outcome, pattern in kinds.items() if pattern.search(message))
        return Failure(next(outcomes, RAISED), message)
    of_host = is_fault_of_host(error)
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and _OUT_OF_MEMORY.search(message)
    ):
        return Failure(OUT_OF_MEMORY, _out_of_memory(message), of_host)
    outcome = RAISED
    if isinstance(error, RuntimeError | OSError) and _ILLEGAL_ADDRESS.search(message):
        outcome = ILLEGAL_ADDRESS
    return Failure(outcome, describe(error, source), of_host)


def is_fault_of_host(error: BaseException) -> bool:
    """Whether an exception, or one that led to it, says that the host is short of a resource.

    The memory of a GPU does not count: a cell that needs more than there is always will.
    """
    return any(
        isinstance(cause, MemoryError)
        or (isinstance(cause, OSError) and cause.errno in HOST_ERRNOS)
        or (
            _HOST_FAULT_TEXT.search(_error_text(cause))
            and not isinstance(cause, torch.OutOfMemoryError)
        )
        for cause in _linked_errors(error)
    )


def _error_text(error: BaseException) -> str:
    """The message of an exception, with the output of the program that it is about."""
    printed = [getattr(error, name, None) for name in ("stdout", "stderr")]
    texts = [text.decode(errors="replace") if isinstance(text, bytes) else text for text in printed]
    return "\n".join([str(error), *(text for text in texts if isinstance(text, str))])


def _linked_errors(error: BaseException) -> Iterator[BaseException]:
    """An exception, the exceptions that led to it, and the members of a group."""
    seen_ids: set[int] = set()
    unvisited: list[BaseException | None] = [error]
    while unvisited:
        cause = unvisited.pop()
        if cause is None or id(cause) in seen_ids:
            continue
        seen_ids.add(id(cause))
        yield cause
        context = None if cause.__suppress_context__ else cause.__context__
        unvisited.append(cause.__cause__ or context)
        if isinstance(cause, BaseExceptionGroup):
            unvisited += cause.exceptions


def describe(error: BaseException, source: Path) -> str:
    """Type, a line of the message, the innermost line of `source` that led there, a hint."""
    cause = f"{type(error).__name__}: {_public_line(str(error))}".removesuffix(": ")
    if _NEEDS_GRADIENTS in cause:
        cause += (
            ": gradients are on only where an input asks for them (requires_grad=True), or under "
            "torch.enable_grad()"
        )
    clash = next(filter(None, (name_clash(link, source) for link in _linked_errors(error))), None)
    frame = innermost_frame(error, source)
    place = None if frame is None else f"{source.name}:{frame.lineno} in {frame.name}"
    notes = [note for note in (place, clash) if note is not None]
    return f"{cause} ({'; '.join(notes)})" if notes else cause


def _out_of_memory(message: str) -> str:
    match = _ASKED_FOR.search(message)
    if match is None:
        return f"out of memory: {_public_line(message)}".removesuffix(": ")
    size = round(float(match[1]) * 1024 ** _UNIT_POWERS.get(match[2][0].upper(), 0))
    return f"out of memory: asked for {size} bytes"


def _public_line(message: str) -> str:
    line = _FOLDERS.sub("", telling_line(message))
    return line if len(line) <= _MAX_CAUSE else f"{line[:_MAX_CAUSE]}…"
