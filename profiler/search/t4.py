"""T4: results of a tuning in JSON, in the form of the FAIR benchmark hub and kernel_tuner.

The schema calls the compile time `compilation_time`, files say `compilation`; some say
`miliseconds`.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from profiler.errors import ParseError
from profiler.model import Params
from profiler.search.space import Value
from profiler.search.t1 import list_of, mapping_of, read_json

MAX_BYTES = 2**29
"""Largest content of a T4 file; 11,130 configurations with 32 runs each take 17 MB."""
MAX_RESULTS = 1_000_000
MAX_RUNTIMES = 100_000
_MOST_REASONS = 10
"""Most reasons of unreadable results that are counted separately."""
SCHEMA_VERSION = "1.0.0"
CORRECT = "correct"
INVALIDITIES = (CORRECT, "timeout", "compile", "runtime", "correctness", "constraints")
Statistic = Literal["median", "mean"]
_MILLISECONDS_PER_UNIT: Mapping[str, float] = {
    **dict.fromkeys(("nanoseconds", "ns"), 1e-6),
    **dict.fromkeys(("microseconds", "us"), 1e-3),
    **dict.fromkeys(("milliseconds", "miliseconds", "ms"), 1.0),
    **dict.fromkeys(("seconds", "s"), 1e3),
}


@dataclass(frozen=True)
class RecordedResult:
    """Result of a configuration; a failed one has a reason instead of times."""

    params: Params
    invalidity: str = CORRECT
    runtimes_ms: tuple[float, ...] = ()
    objective_ms: float | None = None
    """The file's own value; None where it is absent."""
    compile_ms: float | None = None
    timestamp: str = ""
    failure: str = ""
    """Name of the failure in its file."""

    def value_ms(self, statistic: Statistic = "median") -> float | None:
        """Median or mean of the times, else the file's own number; None for a failed one.

        First runs are slow, so the median is the default.
        """
        if self.invalidity != CORRECT:
            return None
        if not self.runtimes_ms:
            return self.objective_ms
        average = statistics.median if statistic == "median" else statistics.fmean
        return average(self.runtimes_ms)


def read_t4(path: Path) -> tuple[RecordedResult, ...]:
    """Results of a T4 file, compressed by gzip or not, in its order.

    Raises ParseError with the result that is wrong.
    """
    document = read_json(path, MAX_BYTES)
    try:
        return t4_results(document)
    except ParseError as error:
        raise ParseError(f"{path}: {error.message}", remedy=error.remedy) from None


def t4_results(document: Any, unread: Counter[str] | None = None) -> tuple[RecordedResult, ...]:
    """Results of a T4 document; raises ParseError where it is none, or has no readable result.

    `unread` counts the faults of results that cannot be read; without it the first is raised.
    """
    mapping = mapping_of(document, "T4")
    items = list_of(mapping.get("results"), "results")
    if not 1 <= len(items) <= MAX_RESULTS:
        raise ParseError(f"results: {len(items)}, and there may be 1 to {MAX_RESULTS}")
    scale = _scale(mapping.get("metadata"))
    results = []
    for number, item in enumerate(items):
        try:
            place = "result" if unread is not None else f"results[{number}]"
            results.append(_result(item, place, scale))
        except ParseError as error:
            if unread is None:
                raise
            is_known = error.message in unread or len(unread) < _MOST_REASONS
            unread[error.message if is_known else "result that cannot be read"] += 1
    if not results:
        raise ParseError(f"no result that can be read: {next(iter(unread or ()))}")
    return tuple(results)


def _scale(metadata: Any) -> float:
    """Milliseconds in the unit of a file; the default is milliseconds."""
    unit = metadata.get("timeunit") if isinstance(metadata, Mapping) else None
    if unit is None:
        return 1.0
    if not isinstance(unit, str) or unit.lower() not in _MILLISECONDS_PER_UNIT:
        units = ", ".join(_MILLISECONDS_PER_UNIT)
        raise ParseError(f"metadata.timeunit: '{str(unit)[:40]}' is none of {units}")
    return _MILLISECONDS_PER_UNIT[unit.lower()]


def _result(item: Any, place: str, scale: float) -> RecordedResult:
    mapping = mapping_of(item, place)
    times = mapping_of(mapping.get("times", {}), f"{place}.times")
    runtimes = list_of(times.get("runtimes") or [], f"{place}.times.runtimes")
    if len(runtimes) > MAX_RUNTIMES or not all(map(is_time, runtimes)):
        raise ParseError(f"{place}.times.runtimes: not at most {MAX_RUNTIMES} positive numbers")
    compile_time = times.get("compilation", times.get("compilation_time"))
    invalidity = mapping.get("invalidity")
    if invalidity not in INVALIDITIES:
        raise ParseError(f"{place}.invalidity: {str(invalidity)[:40]!r} is none of {INVALIDITIES}")
    if invalidity == CORRECT and mapping.get("correctness", 1) == 0:
        invalidity = "correctness"
    judged = invalidity == CORRECT and not runtimes
    objective = _objective_ms(mapping, place, scale) if judged else None
    if judged and objective is None:
        raise ParseError(f"{place}: is called correct, and has no time")
    timestamp = mapping.get("timestamp")
    return RecordedResult(
        params=_params(mapping.get("configuration"), place),
        invalidity=str(invalidity),
        runtimes_ms=tuple(float(time) * scale for time in runtimes),
        objective_ms=objective,
        compile_ms=float(compile_time) * scale if is_time(compile_time) else None,
        timestamp=timestamp if isinstance(timestamp, str) else "",
        failure="" if invalidity == CORRECT else str(invalidity),
    )


def is_time(value: Any) -> bool:
    """Whether a value of a T4 file is a time: a positive number that a float holds."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 < value < 1e300


def _objective_ms(result: Mapping[str, Any], place: str, scale: float) -> float | None:
    """The measurement that a result names as objective; None for a failed one, with a text.

    `scale`: milliseconds in the unit of the file, for a time that has no unit. Raises ParseError
    for an objective that is no time: of GFLOP/s or a score the largest would be the best.
    """
    objectives = result.get("objectives") or ["time"]
    name = objectives[0] if isinstance(objectives, list) else None
    measurements = result.get("measurements") or []
    for measurement in measurements if isinstance(measurements, list) else ():
        if isinstance(measurement, Mapping) and measurement.get("name") == name:
            value = measurement.get("value")
            if value is None or not is_time(value):
                return None
            return float(value) * _unit_of_time(measurement, f"{place}.measurements", scale)
    return None


def _unit_of_time(measurement: Mapping[str, Any], place: str, scale: float) -> float:
    """Milliseconds in the unit of a measurement; raises ParseError where it is no time."""
    name, unit = measurement.get("name"), measurement.get("unit")
    if unit in (None, "") and "time" in str(name).lower():
        return scale
    factor = _MILLISECONDS_PER_UNIT.get(str(unit).lower())
    if factor is None:
        unit_text = f"in '{str(unit)[:40]}'" if unit not in (None, "") else "without a unit"
        raise ParseError(
            f"{place}: the objective '{str(name)[:40]}' {unit_text} is no time",
            remedy="Searches are replayed on times: results need times.runtimes, or a time as "
            "their objective.",
        )
    return factor


def _params(configuration: Any, place: str) -> dict[str, Value]:
    params = mapping_of(configuration, f"{place}.configuration")
    for name, value in params.items():
        if value is not None and not isinstance(value, str | bool | int | float):
            raise ParseError(f"{place}.configuration.{name}: neither number nor text")
    return dict(params)


def t4_document(results: Iterable[RecordedResult]) -> dict[str, Any]:
    """T4 document of results, times in milliseconds."""
    return {
        "results": [_item(result) for result in results],
        "schema_version": SCHEMA_VERSION,
        "metadata": {"timeunit": "milliseconds"},
    }


def _item(result: RecordedResult) -> dict[str, Any]:
    value = result.value_ms()
    compiled = {} if result.compile_ms is None else {"compilation": result.compile_ms}
    has_value = value is not None and math.isfinite(value)
    measurement = {"name": "time", "value": value if has_value else result.invalidity, "unit": "ms"}
    return {
        **({"timestamp": result.timestamp} if result.timestamp else {}),
        "configuration": dict(result.params),
        "times": {**compiled, "runtimes": list(result.runtimes_ms)},
        "invalidity": result.invalidity,
        "correctness": int(result.invalidity == CORRECT),
        "measurements": [measurement],
        "objectives": ["time"],
    }
