"""Readings of the GPU by NVML while launches follow each other, on a thread of the runner.

Only this module of the runner calls NVML: whether a visit has settled must be seen in its process.
A value that a GPU or driver does not have is missing, never 0.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch

PERIOD_S = 0.01
"""Seconds between two readings. The energy counter of an H100 goes on every 20 to 100 ms: what is
known of it is the time of its steps, to a period."""
_MILLI = 1e3
_POWER_LIMIT = 0x4
"""Bit of NVML's clock event reasons: the board's power limit (`analyse.clocks.ClockReason`)."""


@dataclass(frozen=True)
class Reading:
    """Values of NVML at one time; None where unknown."""

    time_s: float
    """By the system's monotonic clock."""
    energy_j: float | None
    """Counter since the driver was loaded."""
    power_w: float | None
    """Power of now, or over the last second where the GPU has no other."""
    clock_mhz: float | None
    temperature_c: float | None
    reasons: int | None


class PowerMeter:
    """Readings of one GPU; `nvml` is pynvml, `handle` its GPU."""

    def __init__(self, nvml: Any, handle: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._nvml = nvml
        self._handle = handle
        self._clock = clock
        milliwatts = self._ask("nvmlDeviceGetEnforcedPowerLimit", handle)
        self.limit_w: float | None = None if milliwatts is None else milliwatts / _MILLI
        """Power that the GPU is held to: the least of its limits."""

    def read(self) -> Reading:
        """A reading at the current time."""
        nvml, handle = self._nvml, self._handle
        millijoules = self._ask("nvmlDeviceGetTotalEnergyConsumption", handle)
        return Reading(
            time_s=self._clock(),
            energy_j=None if millijoules is None else millijoules / _MILLI,
            power_w=self._power_w(),
            clock_mhz=self._ask("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM),
            temperature_c=self._ask("nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU),
            reasons=self._ask("nvmlDeviceGetCurrentClocksEventReasons", handle),
        )

    def _power_w(self) -> float | None:
        field = getattr(self._nvml, "NVML_FI_DEV_POWER_INSTANT", None)
        values = self._ask("nvmlDeviceGetFieldValues", self._handle, [field]) if field else None
        if values and values[0].nvmlReturn == self._nvml.NVML_SUCCESS:
            return float(values[0].value.uiVal) / _MILLI
        milliwatts = self._ask("nvmlDeviceGetPowerUsage", self._handle)
        return None if milliwatts is None else milliwatts / _MILLI

    def _ask(self, question: str, *arguments: Any) -> Any:
        """Answer of NVML, or None where this GPU, driver or package has none."""
        try:
            return getattr(self._nvml, question)(*arguments)
        except (AttributeError, self._nvml.NVMLError):
            return None

    @contextmanager
    def reading(self) -> Iterator[list[Reading]]:
        """Readings while the body lasts, as they come, the newest last."""
        readings: list[Reading] = []
        stop = threading.Event()

        def read() -> None:
            while not stop.is_set():
                readings.append(self.read())
                stop.wait(PERIOD_S)

        thread = threading.Thread(target=read, name="power-meter", daemon=True)
        thread.start()
        try:
            yield readings
        finally:
            stop.set()
            thread.join()


def open_meter(device: torch.device) -> PowerMeter | None:
    """Power meter of the current CUDA device; None for a CPU or a GPU that NVML does not know."""
    if device.type != "cuda":
        return None
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # not installed, or of another driver: NVML's own error
        return None
    gpu = torch.cuda.get_device_properties(torch.cuda.current_device())
    try:
        return PowerMeter(nvml, nvml.nvmlDeviceGetHandleByUUID(f"GPU-{gpu.uuid}"))
    except nvml.NVMLError:  # a part of a GPU (MIG) has no energy of its own
        return None


def mean_power(readings: Sequence[Reading]) -> float | None:
    """Mean power in watts by the energy counter, from its first step in the readings to its last.

    None with fewer than two steps.
    """
    energies = [
        (reading.time_s, reading.energy_j) for reading in readings if reading.energy_j is not None
    ]
    steps = [later for earlier, later in pairwise(energies) if later[1] != earlier[1]]
    if len(steps) < 2:
        return None
    (begin_s, begin_j), (end_s, end_j) = steps[0], steps[-1]
    return (end_j - begin_j) / (end_s - begin_s)


def mean_of(values: Sequence[float | None]) -> float | None:
    """Mean of the known values; None without any."""
    known_values = [value for value in values if value is not None]
    return sum(known_values) / len(known_values) if known_values else None


def power_limited_pct(readings: Sequence[Reading]) -> float | None:
    """Percent of the readings in which NVML names the power limit as a throttle reason."""
    limited = [
        None if reading.reasons is None else 100.0 * bool(reading.reasons & _POWER_LIMIT)
        for reading in readings
    ]
    return mean_of(limited)
