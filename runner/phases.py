"""Phases of cells, journalled before and after: what fails in one costs the cells concerned.

Settings of the whole process, most of them of torch, are kept apart by the cell that sets them. A
variant that allows TF32, or takes one thread, and leaves it so would change all that launch after
it: the baseline, too.
"""

from __future__ import annotations

import operator
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch

from profiler.runner import protocol
from profiler.runner.checks import check
from profiler.runner.checks.check import OverrunError, WrongResultError
from profiler.runner.checks.renewal import NotRenewableError
from profiler.runner.device import Device
from profiler.runner.failures import OUT_OF_MEMORY, Failure, diagnose
from profiler.runner.journal import Journal
from profiler.runner.orders import LeavingError
from profiler.runner.protocol import JobCell, JobVisit
from profiler.runner.seal import ImplausibleError, Seal

_FLAGS = (
    # Old flags before the new ones that they set as well: written alone, the new flags leave the
    # old ones as they were, and torch then refuses to read them.
    "cudnn.allow_tf32",
    *("cuda.matmul.fp32_precision", "cudnn.conv.fp32_precision", "cudnn.rnn.fp32_precision"),
    *("mkldnn.matmul.fp32_precision", "mkldnn.conv.fp32_precision", "fp32_precision"),
    *("cuda.matmul.allow_fp16_accumulation", "cudnn.benchmark", "cudnn.deterministic"),
    *("cudnn.enabled", "mkldnn.enabled"),
    "cuda.matmul.allow_fp16_reduced_precision_reduction",
    "cuda.matmul.allow_bf16_reduced_precision_reduction",
)
"""Attributes below `torch.backends`."""
_ATTENTION = ("flash", "mem_efficient", "math", "cudnn")
"""Backends of scaled_dot_product_attention, in the names of `torch.backends.cuda`."""

Values = Mapping[str, Any]


Setting = tuple[Callable[[], Any], Callable[[Any], object]]
"""Functions that read a setting and write it."""


def _settings() -> dict[str, Setting]:
    """Settings by name, in the order in which they are written."""
    settings: dict[str, Setting] = {
        "default_dtype": (torch.get_default_dtype, torch.set_default_dtype),
        "num_threads": (torch.get_num_threads, torch.set_num_threads),
        "grad_enabled": (torch.is_grad_enabled, torch._C._set_grad_enabled),
        "deterministic": (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
        "float32_matmul_precision": (
            torch.get_float32_matmul_precision,
            torch.set_float32_matmul_precision,
        ),
        "folder": (os.getcwd, os.chdir),
    }
    for flag in _FLAGS:
        path, _, name = flag.rpartition(".")
        owner = operator.attrgetter(path)(torch.backends) if path else torch.backends
        if hasattr(owner, name):  # not in every version of torch
            settings[flag] = (partial(getattr, owner, name), partial(setattr, owner, name))
    for name in _ATTENTION:
        settings[f"{name}_sdp"] = (
            getattr(torch.backends.cuda, f"{name}_sdp_enabled"),
            getattr(torch.backends.cuda, f"enable_{name}_sdp"),
        )
    return settings


class CellSettings:
    """Settings that the launches of each cell have made: in force only while the cell launches."""

    def __init__(self) -> None:
        self._settings = _settings()
        self._of_cell: dict[str, Values] = {}

    @contextmanager
    def in_force(self, cell: str | None) -> Iterator[None]:
        """Apply the settings of a cell in the body, and restore them after it; None: of no cell."""
        before = self.read_values()
        self.write_values(self._of_cell.get(cell, {}) if cell is not None else {})
        try:
            yield
        finally:
            after = self.read_values()
            changed = [name for name in self._settings if before.get(name) != after.get(name)]
            if cell is not None:
                self._of_cell[cell] = {name: after[name] for name in changed if name in after}
            self.write_values({name: before[name] for name in changed if name in before})

    @property
    def are_changed(self) -> bool:
        """Whether a cell has made settings."""
        return any(self._of_cell.values())

    def read_values(self) -> dict[str, Any]:
        """Values by name, of the settings that can be read now."""
        values = {}
        for name, (read_setting, _) in self._settings.items():
            try:
                values[name] = read_setting()
            except (RuntimeError, OSError):  # two ways of allowing TF32 contradict; no such folder
                continue
        return values

    def write_values(self, values: Values) -> None:
        """Write settings by name, in the order of the mapping."""
        for name, value in values.items():
            _, write_setting = self._settings[name]
            write_setting(value)


_EXACT_FLOAT32: Values = {
    "float32_matmul_precision": "highest",
    "cudnn.allow_tf32": False,
    # A file that sets TF32 by the new flags has not set it by the old ones.
    **dict.fromkeys(
        ("cuda.matmul.fp32_precision", "cudnn.conv.fp32_precision", "cudnn.rnn.fp32_precision"),
        "ieee",
    ),
}
"""Settings in which torch rounds no float32 to TF32."""


@contextmanager
def without_tf32() -> Iterator[None]:
    """Keep torch from rounding float32 to TF32 in the body: in products, convolutions and RNNs."""
    settings = CellSettings()
    with settings.in_force(None):
        settings.write_values(_EXACT_FLOAT32)
        yield


class PhaseFailedError(Exception):
    """A phase failed and the journal says so; the cells concerned are not visited any more."""


class ContextLostError(Exception):
    """No other cell can be measured in this process; the journal names the failing cell.

    The device refuses all further work, or a launch has overwritten what others read.
    """


_SET_UP = frozenset({protocol.INPUTS, protocol.PREPARE, protocol.WARMUP})


class Phases:
    """The phases of a session, each in the settings of torch that are its cell's own."""

    def __init__(self, journal: Journal, device: Device, seal: Seal, source: Path) -> None:
        """`source`: file of the workload, whose lines errors name."""
        self.journal = journal
        self._device, self._seal, self._source = device, seal, source
        self.settings = CellSettings()
        self.failed: set[str] = set()
        """Cells that have failed: they are not visited any more."""
        self.set_up_s = 0.0
        """Seconds that inputs, launches and warm-ups of this problem take where they lie now."""

    @contextmanager
    def not_rechecked(
        self, cells: Sequence[JobCell], *, memory_only: bool = False
    ) -> Iterator[None]:
        """Journal that cells were not checked again, where the body fails.

        `memory_only`: only where memory ran out, which the second inputs took.
        """
        try:
            yield
        except (ContextLostError, LeavingError):
            raise
        except BaseException as error:
            failure, is_lost = self.diagnose(error)
            if is_lost:
                raise ContextLostError(failure.cause) from None
            if memory_only and failure.outcome != OUT_OF_MEMORY:
                raise
            cause = str(error) if isinstance(error, NotRenewableError) else failure.cause
            for cell in cells:
                self.journal.write(protocol.NOT_RECHECKED, cell=cell.id, cause=cause)

    @contextmanager
    def journalled(
        self, phase: str, cells: Sequence[JobCell], visit: JobVisit | None = None
    ) -> Iterator[dict[str, Any]]:
        """Journal a phase of the first cell; the findings go into its FINISHED record.

        All work is waited for inside, so that an error is blamed on the phase that caused it.
        Raises PhaseFailedError after all `cells` were journalled as failed.
        """
        place: dict[str, Any] = {"phase": phase}
        if visit is not None:
            place |= place_of(visit)
        if phase in protocol.PROBLEM_PHASES:
            place["problem"] = cells[0].problem
        self.journal.write(protocol.STARTED, cell=cells[0].id, **place)
        began = time.monotonic()
        findings: dict[str, Any] = {}
        try:
            with self._settings_in(phase, cells):
                yield findings
                self._device.settle()
            self._seal.require_whole()
        except LeavingError:
            raise
        except BaseException as error:
            self._fail_cells(error, cells, place)
            raise PhaseFailedError from None
        if phase in _SET_UP:
            self.set_up_s += time.monotonic() - began
        self.journal.write(protocol.FINISHED, cell=cells[0].id, **place, **findings)

    def _settings_in(self, phase: str, cells: Sequence[JobCell]) -> AbstractContextManager[None]:
        """Settings of torch in a phase: the cell's own; the inputs' function sets them for all."""
        if phase in (protocol.INPUTS, protocol.DECLARE):
            return nullcontext()
        return self.settings.in_force(cells[0].id if phase not in protocol.PROBLEM_PHASES else None)

    def _fail_cells(
        self, error: BaseException, cells: Sequence[JobCell], place: dict[str, Any]
    ) -> None:
        """Journal the failure of cells; ContextLostError where the process is lost with them."""
        failure, is_lost = self.diagnose(error)
        with suppress(OSError):  # a failed write to stderr ends no session
            if not isinstance(error, WrongResultError | ImplausibleError):
                traceback.print_exception(error)
            _print_to_stderr(
                f"{cells[0].id}: {failure.outcome} in {place['phase']}: {failure.cause}"
            )
        errors = error_fields(getattr(error, "errors", None))
        extra: dict[str, Any] = errors if isinstance(error, WrongResultError) else {}
        if failure.of_host:
            extra["of_host"] = True
        for cell in cells:
            self.failed.add(cell.id)
            self.journal.write(
                protocol.FAILED,
                cell=cell.id,
                **place,
                outcome=failure.outcome,
                cause=failure.cause,
                **extra,
            )
        if is_lost or isinstance(error, OverrunError):
            raise ContextLostError(failure.cause) from None

    def diagnose(self, error: BaseException) -> tuple[Failure, bool]:
        """Failure of an error, and whether the device is lost: then it repeats it for ever."""
        failure = diagnose(error, self._source)
        late_error = self._device.pending_error()
        if late_error is None:
            return failure, False
        failure = diagnose(late_error, self._source).seen_after(failure)
        return failure, self._device.pending_error() is not None


def _print_to_stderr(line: str) -> None:
    print(f"runner: {line}", file=sys.stderr)  # noqa: T201 - the orchestrator keeps stderr


def place_of(visit: JobVisit) -> dict[str, int]:
    """Block of a visit, and its arm where the arm is not 0."""
    return {"block": visit.block} | ({"arm": visit.arm} if visit.arm else {})


def error_fields(errors: check.Errors | None) -> dict[str, float | bool | None]:
    """Fields of the journal for the errors of a result; None: its own check gives no errors."""
    if errors is None:
        return {"max_abs_error": None, "max_rel_error": None}
    fields: dict[str, float | bool | None] = {
        "max_abs_error": errors.max_abs,
        "max_rel_error": errors.max_rel,
    }
    if errors.zeros_match:
        fields[protocol.ZEROS_MATCH] = True
    return fields if errors.rounding is None else {**fields, protocol.ROUNDING: errors.rounding}
