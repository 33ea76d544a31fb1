"""Cache files of kernel_tuner: its results of configurations, also of unfinished runs.

kernel_tuner writes an entry after each configuration and closes the JSON when it ends, so that the
file of a run that was stopped, or still runs, ends after an entry. Times are milliseconds; a failed
configuration has the name of its failure as its time, or 1e20 in old files.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiler.errors import ParseError
from profiler.outside_text import safe_values
from profiler.parse.bounded_files import decoded, read_content
from profiler.search.space import SearchSpace
from profiler.search.t1 import TuningProblem
from profiler.search.t4 import CORRECT, MAX_BYTES, MAX_RESULTS, RecordedResult, is_time

_KEYS = ("tune_params_keys", "cache")
_IS_CACHE = re.compile(r'^\s*\{.*"tune_params_keys"', re.DOTALL)
_FAILURES: Mapping[str, str] = {
    "InvalidConfig": "constraints",
    "CompilationFailedConfig": "compile",
    "RuntimeFailedConfig": "runtime",
}
"""Names in T4 of the failures of kernel_tuner."""
_FAILED_MS = 1e19
"""Time from which on old files mean a failure."""
_UNKNOWN = "runtime"
_REPEATED_NAME = "\0again"


@dataclass(frozen=True)
class TunerCache:
    """Content of a cache file."""

    kernel: str
    device: str
    minimises_time: bool
    """Whether the shortest time wins."""
    results: tuple[RecordedResult, ...]
    unread: Mapping[str, int]
    """Counts of entries that were left out, by their fault."""

    @property
    def problem(self) -> TuningProblem:
        """Space of the tried configurations."""
        tried = [result.params for result in self.results]
        return TuningProblem(self.kernel, SearchSpace.of_configurations(tried))


_FIRST_LETTERS = 1 << 18
"""Number of characters of a file that are read: the cache stands behind all other keys."""
_LONGEST_FAILURE = 40


def is_tuner_cache(text: str) -> bool:
    """Whether a text, or its beginning, is a cache of kernel_tuner."""
    return _IS_CACHE.match(text[:_FIRST_LETTERS]) is not None


def read_tuner_cache(path: Path) -> TunerCache | None:
    """Content of a cache file, packed or not; None for an unreadable or any other file."""
    try:
        text = decoded(read_content(path, MAX_BYTES))
    except OSError:
        return None
    return parse_tuner_cache(text, str(path)) if is_tuner_cache(text) else None


def parse_tuner_cache(text: str, name: str) -> TunerCache:
    """Content of a cache.

    Raises ParseError where the text is no cache, or has no readable entry. A damaged entry is left
    out and counted.
    """
    unread: Counter[str] = Counter()
    document = safe_values(_document(text, name, unread))
    keys, cache = (document.get(key) for key in _KEYS)
    if not isinstance(keys, list) or not isinstance(cache, dict) or len(cache) > MAX_RESULTS:
        raise ParseError(f"{name}: no cache of kernel_tuner: {' or '.join(_KEYS)} is missing")
    results = tuple(_results([str(key) for key in keys], cache, unread))
    if not results:
        raise ParseError(f"{name}: a cache of kernel_tuner without any configuration")
    return TunerCache(
        kernel=str(document.get("kernel_name") or name),
        device=str(document.get("device_name") or ""),
        minimises_time=document.get("objective") in (None, "time"),
        results=results,
        unread=dict(unread),
    )


def _document(text: str, name: str, unread: Counter[str]) -> dict[str, Any]:
    """The object of a file; for an unclosed file, all up to its last whole entry."""
    try:
        try:
            return _parsed(text)
        except json.JSONDecodeError:
            entries, _, tail = text.rpartition("}")
            if tail.strip(" \t\r\n,"):
                unread["entry that was cut off"] += 1
            return _closed(entries)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"{name}: no cache of kernel_tuner: {str(error)[:200]}") from error


def _closed(text: str) -> dict[str, Any]:
    """The object of a text without its last one to three brackets."""
    for brackets in ("}}}", "}}"):
        with suppress(json.JSONDecodeError):
            return _parsed(text + brackets)
    return _parsed(text + "}")


def _parsed(text: str) -> dict[str, Any]:
    document = json.loads(text, object_pairs_hook=_all_pairs, parse_constant=lambda _: None)
    if not isinstance(document, dict):
        raise ValueError("no object")
    return document


def _all_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object with all of its pairs, also pairs of a repeated name."""
    merged_pairs: dict[str, Any] = {}
    for name, value in pairs:
        key = name
        while key in merged_pairs:
            key += _REPEATED_NAME
        merged_pairs[key] = value
    return merged_pairs


def _results(
    keys: list[str], cache: Mapping[str, Any], unread: Counter[str]
) -> Iterator[RecordedResult]:
    for written in cache.values():
        if not isinstance(written, dict) or not all(
            isinstance(written.get(key, keys), str | bool | int | float | None) for key in keys
        ):
            unread["entry without its parameters"] += 1
            continue
        time = written.get("time")
        failure = time if isinstance(time, str) else ""
        time_ms = _time(time)
        if time_ms is not None and time_ms >= _FAILED_MS:
            time_ms, failure = None, "failed"
        elif time_ms is None and not failure:
            unread["entry without a time"] += 1
        elif failure and failure not in _FAILURES:
            unread[f"failure that is not known ({failure[:_LONGEST_FAILURE]})"] += 1
        runs = written.get("times")
        of_runs = tuple(map(_time, runs)) if isinstance(runs, list) else ()
        timestamp = written.get("timestamp")
        yield RecordedResult(
            params={key: written[key] for key in keys},
            invalidity=_FAILURES.get(failure, _UNKNOWN) if time_ms is None else CORRECT,
            runtimes_ms=tuple(run for run in of_runs if run is not None) if time_ms else (),
            objective_ms=time_ms,
            compile_ms=_time(written.get("compile_time")),
            timestamp=timestamp if isinstance(timestamp, str) else "",
            failure=failure,
        )


def _time(value: Any) -> float | None:
    return float(value) if is_time(value) else None
