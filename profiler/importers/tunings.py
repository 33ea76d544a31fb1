"""Configurations that autotuners tried: logs and caches of inductor, kernel_tuner, format T4."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from profiler.errors import ParseError
from profiler.importers.given_file import GivenFile, Imported, notices_document, unread_notices
from profiler.model import SCHEMA_VERSION, TunedConfig
from profiler.notices import Notice
from profiler.outside_text import safe_values
from profiler.parse.inductor import parse_inductor_log
from profiler.search.kernel_tuner import parse_tuner_cache
from profiler.search.t4 import RecordedResult, t4_results


@dataclass(frozen=True)
class ImportedTunings(Imported):
    """Every configuration of one or several files, in their order."""

    shows: ClassVar[str] = "each configuration with its time"
    configurations: tuple[TunedConfig, ...]
    notices: tuple[Notice, ...] = ()

    def document(self) -> dict[str, Any]:
        """The configurations as JSON."""
        return {
            "schema_version": SCHEMA_VERSION,
            "configurations": [asdict(item) for item in self.configurations],
            "warnings": notices_document(self.notices),
        }


_NS_PER_MS = 1e6

# ---- inductor and Triton -------------------------------------------------------------------------


def read_log(file: GivenFile) -> ImportedTunings:
    """Configurations of a log or a cache of inductor, or of Triton's output."""
    unread: Counter[str] = Counter()
    configurations = parse_inductor_log(file.text, file.name, unread)
    return ImportedTunings(configurations, unread_notices(file.name, unread))


# ---- kernel_tuner --------------------------------------------------------------------------------


def read_cache(file: GivenFile) -> ImportedTunings:
    """Configurations of a cache of kernel_tuner."""
    cache = parse_tuner_cache(file.text, file.name)
    times = [result.objective_ms for result in cache.results]
    operation = f"{cache.kernel} on {cache.device}" if cache.device else cache.kernel
    return ImportedTunings(
        tuple(_configs(operation, cache.results, times, has_best=cache.minimises_time)),
        unread_notices(file.name, cache.unread),
    )


def _configs(
    operation: str,
    results: Sequence[RecordedResult],
    times: Sequence[float | None],
    *,
    has_best: bool = True,
) -> Iterator[TunedConfig]:
    """Configurations with times in milliseconds; `has_best`: whether the shortest one wins."""
    best = min((time for time in times if time is not None and has_best), default=None)
    for result, time in zip(results, times, strict=True):
        yield TunedConfig(
            operation=operation,
            choice=result.failure,
            config=dict(result.params),
            time_ns=None if time is None else time * _NS_PER_MS,
            best=time is not None and time == best,
        )


# ---- format T4, as kernel_tuner and the FAIR benchmark hub write it ------------------------------


def read_results(file: GivenFile) -> ImportedTunings:
    """Configurations of results in the format T4, the median of the runs of each."""
    unread: Counter[str] = Counter()
    try:
        document: Any = json.loads(file.text, parse_constant=lambda _: None)
        results = t4_results(safe_values(document), unread)
    except (ValueError, RecursionError) as error:
        # ValueError: a number of thousands of digits, too.
        raise ParseError(f"{file.name}: no JSON: {str(error)[:200]}") from error
    except ParseError as error:
        raise ParseError(f"{file.name}: {error.message}", remedy=error.remedy) from None
    configs = _configs(file.name, results, [result.value_ms() for result in results])
    return ImportedTunings(tuple(configs), unread_notices(file.name, unread))
