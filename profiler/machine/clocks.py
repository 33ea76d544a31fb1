"""The clocks of the GPU while a session runs, and which of its visits were throttled.

NVML is read in the orchestrator, never in the measured process: the kernel, its launches and its
CUDA context share nothing with the reader but the driver. What was read lies beside the journal of
the attempt (`clocks.csv`) and holds times and numbers, nothing that names the machine.

Everything below the sampler is a pure function of that file and the journal, so that a run folder
says at any time which visits were throttled, which of their measurements counts, and which are to
be measured again.
"""

from __future__ import annotations

import csv
import gzip
import io
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import IntFlag
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self, TextIO

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler.errors import ParseError
from profiler.machine.environment import ask_nvml, open_gpu
from profiler.notices import Notice, NoticeKind
from runner import protocol

CLOCKS_FILE = "clocks.csv"
CLOCK_COLUMNS = ("time_s", "sm_mhz", "memory_mhz", "reasons", "temperature_c", "power_w")
VISIT_COLUMNS = ("cell", "block", "arm", "start_s", "end_s")

PERIOD_S = 0.02
"""Seconds from one sample to the next. A visit under ncu takes about 70 ms (2784 of them in 190 s
in the softmax recording), so that most have several samples, for 50 short polls a second."""

MAX_REPEATS = 2
"""How often a throttled block is measured again. A hot GPU stays hot while it is kept busy: what
two more tries in later sessions do not cure is a property of the machine, and is reported."""

SPREAD_LIMIT = 0.05
"""Change of the SM clock within a session that is worth a warning. Durations follow the clock, and
differences between kernels that people care about begin below it."""

_SILENT_POLLS = 50
"""Polls in a row without any answer after which the GPU is taken for gone: about a second."""

_PATIENCE_S = 5.0
"""How long to wait for the last poll: NVML can hang with a GPU that is lost."""

_MILLIWATTS_PER_WATT = 1000.0

Rows = npt.NDArray[Any]
VisitKey = tuple[str, int, int]
"""Cell, block and arm of one visit."""


class Reason(IntFlag):
    """Why clocks are lower than they could be: the bits of NVML's clock event reasons (nvml.h)."""

    GPU_IDLE = 0x1
    APPLICATIONS_CLOCKS_SETTING = 0x2
    SW_POWER_CAP = 0x4
    HW_SLOWDOWN = 0x8
    SYNC_BOOST = 0x10
    SW_THERMAL_SLOWDOWN = 0x20
    HW_THERMAL_SLOWDOWN = 0x40
    HW_POWER_BRAKE_SLOWDOWN = 0x80
    DISPLAY_CLOCK_SETTING = 0x100
    BOARD_LIMIT = 0x200
    RELIABILITY = 0x400


THROTTLING = (
    Reason.HW_SLOWDOWN
    | Reason.SW_THERMAL_SLOWDOWN
    | Reason.HW_THERMAL_SLOWDOWN
    | Reason.HW_POWER_BRAKE_SLOWDOWN
)
"""The reasons for which a block is measured again: heat, or power that the machine cannot deliver.

All others are recorded only. An idle GPU, clocks that someone has set, synchronised boost, displays
and the limits of board and voltage are the ordinary state of a machine. So is the power limit: on
an H200 of 700 W, attention kernels draw 690 W with SW_POWER_CAP set nearly all the time, so that
measuring again would change nothing and never end. It is reported instead (share of visits, clock),
and a verdict on durations is confirmed in cycles.
"""


def reason_names(bits: int) -> tuple[str, ...]:
    """Names of the reasons that are set, lowest bit first; an unknown one is called `bit_<n>`."""
    bits = int(bits)
    known = {reason.value: str(reason.name).lower() for reason in Reason}
    positions = range(bits.bit_length())
    return tuple(known.get(1 << n, f"bit_{n}") for n in positions if bits >> n & 1)


# ---- while a session runs ----


class ClockSampler:
    """Writes the clocks of one GPU to `<folder>/clocks.csv` for as long as the context lasts.

    `gpu` is a UUID or an index, None (a run on the CPU) samples nothing. Each row is handed to the
    system as it is read, so that a kill loses none. No trouble with NVML or the disk ever reaches
    the session: it ends the sampling, and `trouble` tells what it was. Where nothing could be read
    there is no file. For one use; `nvml` is pynvml.
    """

    def __init__(
        self,
        folder: Path,
        gpu: str | None,
        *,
        nvml: ModuleType | None = None,
        period_s: float = PERIOD_S,
    ) -> None:
        self.trouble: str | None = None
        """Why there are no samples, or none after some time; None where all went well."""
        self.rows = 0
        """Samples written so far."""
        self._path = folder / CLOCKS_FILE
        self._gpu = gpu
        self._nvml = nvml
        self._period_s = period_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clock-sampler", daemon=True)

    def __enter__(self) -> Self:
        if self._gpu is None:
            self.trouble = "no GPU is measured"
            return self
        try:
            self._thread.start()
        except RuntimeError as error:  # the system has no thread left to give
            self.trouble = str(error)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._thread.ident is None:
            return
        self._thread.join(_PATIENCE_S)
        if self._thread.is_alive():
            self.trouble = "NVML did not answer any more"

    def _run(self) -> None:
        try:
            # In this thread, because starting NVML can take longer than starting a session may.
            with open_gpu(self._gpu, self._nvml) as opened:
                if opened is None:
                    self.trouble = "NVML does not know the GPU, or is not installed"
                else:
                    self._sample(*opened)
        except OSError as error:  # by its words alone: the message would name the folder
            self.trouble = f"{CLOCKS_FILE} cannot be written: {error.strerror}"
        except Exception as error:
            # Whatever it is, the session goes on without clocks.
            self.trouble = f"{type(error).__name__}: {error}"

    def _sample(self, nvml: Any, handle: Any) -> None:
        silent = 0
        with _Table(self._path) as table:
            for _ in self._ticks():
                row = _poll(nvml, handle)
                if self._stop.is_set():  # the file may be packed away while NVML still answers
                    return
                if row is None:
                    silent += 1
                    if silent == _SILENT_POLLS:
                        self.trouble = "NVML gave no answer about the GPU"
                        return
                    continue
                silent = 0
                table.append(row)
                self.rows += 1

    def _ticks(self) -> Iterator[None]:
        """Come back every period, whatever the polls take; a missed tick is not made up for."""
        due = time.monotonic()
        while True:
            yield
            due = max(due + self._period_s, time.monotonic())
            if self._stop.wait(due - time.monotonic()):
                return


def _poll(nvml: Any, handle: Any) -> tuple[Any, ...] | None:
    """One row in the order of CLOCK_COLUMNS; None where NVML answers nothing at all."""
    now = time.time()
    milliwatts = ask_nvml(nvml, nvml.nvmlDeviceGetPowerUsage, handle)
    answers = (
        ask_nvml(nvml, nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
        ask_nvml(nvml, nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM),
        ask_nvml(nvml, nvml.nvmlDeviceGetCurrentClocksEventReasons, handle),
        ask_nvml(nvml, nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
        None if milliwatts is None else milliwatts / _MILLIWATTS_PER_WATT,
    )
    return None if all(answer is None for answer in answers) else (f"{now:.6f}", *answers)


class _Table:
    """A CSV file that begins with its first row; missing is empty."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream: TextIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._stream is not None:
            self._stream.close()

    def append(self, row: Sequence[Any]) -> None:
        if self._stream is None:
            self._stream = self._path.open("a", buffering=1, encoding="utf-8", newline="")
            if self._stream.tell() == 0:
                self._write(self._stream, CLOCK_COLUMNS)
        self._write(self._stream, row)

    @staticmethod
    def _write(stream: TextIO, row: Sequence[Any]) -> None:
        csv.writer(stream, lineterminator="\n").writerow(row)


# ---- afterwards ----


def empty_clocks() -> pd.DataFrame:
    """A frame of clocks without rows."""
    return _typed(pd.DataFrame(columns=list(CLOCK_COLUMNS), dtype=str))


def read_clocks(path: Path) -> pd.DataFrame:
    """Read `clocks.csv` or its `.gz`, whichever is there; no file gives no rows.

    Columns are CLOCK_COLUMNS: seconds since the epoch, MHz, MHz, bits of `Reason` (Int64), degrees
    Celsius, watts. Missing is NaN (NA for the reasons). Rows are in the order of time; a last row
    that a kill cut off, and rows that are no numbers, are left out. Raises ParseError where the
    file is damaged as a whole.
    """
    try:
        text = _text(path)
    except (OSError, EOFError, zlib.error) as error:
        raise ParseError(f"{path.name}: damaged: {error}") from error
    whole = text[: text.rfind("\n") + 1]
    if not whole:
        return empty_clocks()
    try:
        table = pd.read_csv(io.StringIO(whole), dtype=str, on_bad_lines="skip")
    except (ValueError, pd.errors.ParserError) as error:
        raise ParseError(f"{path.name}: not a table: {error}") from error
    if "time_s" not in table.columns:
        raise ParseError(f"{path.name}: has no column time_s")
    return _typed(table.reindex(columns=list(CLOCK_COLUMNS)))


def _text(path: Path) -> str:
    """Content of a file, or of its gzip under the name with `.gz`; empty where neither is."""
    packed = path if path.suffix == ".gz" else path.with_name(f"{path.name}.gz")
    plain = packed.with_suffix("")
    if plain.exists():
        content = plain.read_bytes()
    elif packed.exists():
        content = gzip.decompress(packed.read_bytes())
    else:
        content = b""
    return content.decode("utf-8", errors="replace")


def _typed(table: pd.DataFrame) -> pd.DataFrame:
    numbers = pd.DataFrame(
        {
            name: pd.to_numeric(table[name], errors="coerce").astype("float64")
            for name in CLOCK_COLUMNS
        }
    )
    bits = numbers["reasons"]
    numbers["reasons"] = bits.where((bits >= 0) & (bits % 1 == 0)).astype("Int64")
    numbers = numbers[np.isfinite(numbers["time_s"])]
    return _in_order(numbers)


def _in_order(clocks: pd.DataFrame) -> pd.DataFrame:
    """By time: the system's clock may be set back while a session runs."""
    ordered: pd.DataFrame = clocks.sort_values("time_s", kind="stable", ignore_index=True)
    return ordered


def measured_visits(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """When a journal says that each visit was measured: VISIT_COLUMNS, one row per whole visit.

    `start_s` and `end_s` are seconds since the epoch; under ncu they span all of its passes. A
    visit that failed or was cut off is left out.
    """
    begun: dict[VisitKey, float] = {}
    rows = []
    for record in records:
        if record.get("phase") != protocol.MEASURE:
            continue
        key = protocol.visit_of(record)
        if record.get("event") == protocol.STARTED:
            begun[key] = record["time"]
        elif record.get("event") == protocol.FINISHED and key in begun:
            rows.append((*key, begun.pop(key), record["time"]))
    return _visit_frame(rows)


Visits = pd.DataFrame | Sequence[tuple[str, int, int, float, float]]
"""A frame with VISIT_COLUMNS, or rows in that order."""


def _visit_frame(visits: Visits) -> pd.DataFrame:
    if isinstance(visits, pd.DataFrame):
        return visits
    frame = pd.DataFrame(list(visits), columns=list(VISIT_COLUMNS))
    return frame.astype({"start_s": "float64", "end_s": "float64"})


class _Windows:
    """Which samples belong to which visits: those from a period before it to a period after it.

    The margin gives a visit that is shorter than a period at least one sample, and covers the time
    for which a reason acts before NVML shows it. Every sum is a difference of running totals, so
    that thousands of visits cost no more than one pass over the samples.
    """

    def __init__(self, clocks: pd.DataFrame, visits: pd.DataFrame, period_s: float) -> None:
        self.samples = _in_order(clocks)
        times = self.samples["time_s"].to_numpy(dtype="float64")
        starts = visits["start_s"].to_numpy(dtype="float64") - period_s
        ends = visits["end_s"].to_numpy(dtype="float64") + period_s
        self._first = times.searchsorted(starts, side="left")
        self._past = np.maximum(times.searchsorted(ends, side="right"), self._first)
        reasons = self.samples["reasons"]
        self.told: Rows = reasons.notna().to_numpy()
        self.bits: Rows = reasons.fillna(0).to_numpy(dtype="int64")

    def sums(self, values: Rows) -> Rows:
        """Sum over the samples of each visit."""
        totals = np.concatenate(([0.0], np.cumsum(values, dtype="float64")))
        sums: Rows = totals[self._past] - totals[self._first]
        return sums

    def means(self, values: Rows, where: Rows) -> Rows:
        """Mean over those samples of each visit that are meant; NaN where there is none."""
        counts = self.sums(where)
        sums = self.sums(np.where(where, values, 0.0))
        means: Rows = np.full(len(counts), np.nan)
        np.divide(sums, counts, out=means, where=counts > 0)
        return means

    def having(self, bits: int) -> Rows:
        """Whether a sample of each visit has one of these reasons."""
        found: Rows = self.sums((self.bits & bits) != 0) > 0
        return found

    def inside(self) -> Rows:
        """Whether each sample belongs to a visit."""
        steps = np.zeros(len(self.samples) + 1, dtype="int64")
        np.add.at(steps, self._first, 1)
        np.add.at(steps, self._past, -1)
        inside: Rows = np.cumsum(steps)[:-1] > 0
        return inside


def throttled_visits(
    clocks: pd.DataFrame, visits: Visits, *, period_s: float = PERIOD_S
) -> set[VisitKey]:
    """Visits that have a sample with a reason in THROTTLING within a period of them.

    `clocks` as from `read_clocks`, `visits` as from `measured_visits`; both of the same machine,
    and in any order. A visit without samples is not known to be throttled, and is not in the set.
    """
    frame = _visit_frame(visits)
    hit = frame[_Windows(clocks, frame, period_s).having(int(THROTTLING))]
    return set(zip(hit["cell"], hit["block"], hit["arm"], strict=True))


@dataclass(frozen=True)
class ClockFacts:
    """What the clocks did during the visits of a session; None where that was not sampled."""

    visits: int
    sampled: int
    """Visits whose reasons were read at least once."""
    sm_mhz_min: float | None = None
    """Of the mean SM clock of each visit. Samples of an idle GPU do not count: its clock drops, and
    says nothing about the clock that a kernel ran at."""
    sm_mhz_median: float | None = None
    sm_mhz_max: float | None = None
    shares: Mapping[str, float] | None = None
    """Name of a reason → share (0 to 1) of the sampled visits during which it was seen; only those
    that were."""
    temperature_c_min: float | None = None
    temperature_c_max: float | None = None
    power_w_median: float | None = None

    @property
    def sm_spread(self) -> float | None:
        """By which share of the highest SM clock of a visit the lowest one is below it."""
        if self.sm_mhz_min is None or not self.sm_mhz_max:
            return None
        return 1.0 - self.sm_mhz_min / self.sm_mhz_max


def clock_facts(clocks: pd.DataFrame, visits: Visits, *, period_s: float = PERIOD_S) -> ClockFacts:
    """Sum up the clocks of one attempt, or of several that were put together, during its visits."""
    frame = _visit_frame(visits)
    windows = _Windows(clocks, frame, period_s)
    sampled = windows.sums(windows.told) > 0
    sm_mhz = windows.samples["sm_mhz"].to_numpy(dtype="float64")
    busy = np.isfinite(sm_mhz) & ((windows.bits & Reason.GPU_IDLE) == 0)
    clock = pd.Series(windows.means(sm_mhz, busy))
    during = windows.samples[windows.inside()]
    return ClockFacts(
        visits=len(frame),
        sampled=int(sampled.sum()),
        sm_mhz_min=_number(clock.min()),
        sm_mhz_median=_median(clock),
        sm_mhz_max=_number(clock.max()),
        shares=_shares(windows, int(sampled.sum())),
        temperature_c_min=_number(during["temperature_c"].min()),
        temperature_c_max=_number(during["temperature_c"].max()),
        power_w_median=_median(during["power_w"]),
    )


def _shares(windows: _Windows, sampled: int) -> dict[str, float] | None:
    if not sampled:
        return None
    seen = int(np.bitwise_or.reduce(windows.bits[windows.inside()]))
    return {
        name: float(windows.having(bit).sum()) / sampled
        for bit in (1 << n for n in range(seen.bit_length()))
        if seen & bit
        for name in reason_names(bit)
    }


def _number(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)


def _median(values: pd.Series[float]) -> float | None:
    known = values.dropna()  # the median of nothing is a warning to some versions of pandas
    return float(known.median()) if len(known) else None


# ---- what follows from it ----


def with_whole_blocks(
    throttled: Set[VisitKey], measured: Iterable[VisitKey], problem_of: Mapping[str, str]
) -> set[VisitKey]:
    """The throttled visits, and all others that the same attempt measured in the same blocks.

    Arms are compared within a block, close together in time: one that is measured again alone would
    be compared with the others across time. `problem_of` is the problem id of each cell, as a block
    belongs to one problem.
    """
    hit = {(problem_of[cell], block) for cell, block, _ in throttled}
    return {key for key in measured if (problem_of[key[0]], key[1]) in hit}


@dataclass(frozen=True)
class Repeats:
    """Which measurement of each visit counts, and what is left to do."""

    again: frozenset[VisitKey]
    """To be measured again: throttled each time so far, repeated less than MAX_REPEATS times."""
    unused: tuple[frozenset[VisitKey], ...]
    """Of each attempt, the visits whose samples do not count: another attempt has them better."""
    cured: frozenset[VisitKey]
    """Throttled at first, then measured without."""
    throttled: frozenset[VisitKey]
    """Throttled each time; the first measurement counts. Includes those in `again`."""


def plan_repeats(attempts: Sequence[tuple[Set[VisitKey], Set[VisitKey]]]) -> Repeats:
    """Decide from all attempts of one session, oldest first: (measured visits, throttled of them).

    The first measurement without throttling counts, else the first of all: never the fastest, which
    would flatter. The bound counts how often a visit was measured, so that it holds for a run that
    was stopped and resumed as well.
    """
    made: dict[VisitKey, list[int]] = defaultdict(list)
    clean: dict[VisitKey, int] = {}
    for number, (measured, throttled) in enumerate(attempts):
        for key in measured:
            made[key].append(number)
            if key not in throttled:
                clean.setdefault(key, number)
    never = frozenset(made.keys() - clean.keys())
    counts = {key: clean.get(key, numbers[0]) for key, numbers in made.items()}
    return Repeats(
        again=frozenset(key for key in never if len(made[key]) <= MAX_REPEATS),
        unused=tuple(
            frozenset(key for key in measured if counts[key] != number)
            for number, (measured, _) in enumerate(attempts)
        ),
        cured=frozenset(key for key, number in clean.items() if number != made[key][0]),
        throttled=never,
    )


def clock_notices(
    session: str, facts: ClockFacts, repeats: Repeats, problem_of: Mapping[str, str]
) -> tuple[Notice, ...]:
    """What the clocks take away from the results of one session, over all of its attempts."""
    return (
        *_throttle_notices(session, facts, repeats, problem_of),
        *_facts_notices(session, facts),
    )


def _throttle_notices(
    session: str, facts: ClockFacts, repeats: Repeats, problem_of: Mapping[str, str]
) -> Iterator[Notice]:
    def blocks(visits: Set[VisitKey]) -> int:
        return len({(problem_of[cell], block) for cell, block, _ in visits})

    reasons = ", ".join(
        name for name in reason_names(int(THROTTLING)) if name in (facts.shares or {})
    )
    values = {"session": session, "reasons": reasons.replace("_", " ")}
    if repeats.cured:
        yield Notice(
            NoticeKind.BLOCKS_THROTTLED_MEASURED_AGAIN,
            {**values, "count": blocks(repeats.cured)},
        )
    if repeats.throttled:
        yield Notice(
            NoticeKind.BLOCKS_STILL_THROTTLED,
            {**values, "count": blocks(repeats.throttled), "rounds": MAX_REPEATS},
        )


def _facts_notices(session: str, facts: ClockFacts) -> Iterator[Notice]:
    clocks = "not known"
    if facts.sm_mhz_min is not None and facts.sm_mhz_max is not None:
        clocks = f"{facts.sm_mhz_min:.0f} to {facts.sm_mhz_max:.0f} MHz"
    capped = (facts.shares or {}).get(reason_names(Reason.SW_POWER_CAP)[0])
    if capped:
        share = f"{100 * capped:.0f} %" if capped >= 0.01 else "less than 1 %"
        yield Notice(
            NoticeKind.POWER_CAPPED, {"session": session, "share": share, "clocks": clocks}
        )
    spread = facts.sm_spread
    if spread is not None and spread > SPREAD_LIMIT:
        yield Notice(
            NoticeKind.CLOCK_SPREAD,
            {"session": session, "spread": f"{100 * spread:.1f} %", "clocks": clocks},
        )
