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
from profiler.search.kernel_tuner import TunerCache, parse_tuner_cache
from profiler.search.t4 import CORRECT, RecordedResult, readable_t4


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
    notices = unread_notices(file.name, cache.unread)
    return ImportedTunings(tuple(_configs_of_cache(cache)), notices)


def _configs_of_cache(cache: TunerCache) -> Iterator[TunedConfig]:
    times = [result.objective_ms for result in cache.results]
    known_times = (time for time in times if time is not None)
    best = min(known_times, default=None) if cache.minimises_time else None
    for result, time in zip(cache.results, times, strict=True):
        yield TunedConfig(
            operation=f"{cache.kernel} on {cache.device}" if cache.device else cache.kernel,
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
        results = readable_t4(safe_values(document), unread)
    except (ValueError, RecursionError) as error:
        # ValueError: a number of thousands of digits, too.
        raise ParseError(f"{file.name}: no JSON: {str(error)[:200]}") from error
    except ParseError as error:
        raise ParseError(f"{file.name}: {error.message}", remedy=error.remedy) from None
    return ImportedTunings(
        tuple(_configs_of_results(file.name, results)), unread_notices(file.name, unread)
    )


def _configs_of_results(name: str, results: Sequence[RecordedResult]) -> Iterator[TunedConfig]:
    times = [result.value_ms() for result in results]
    best = min((time for time in times if time is not None), default=None)
    for result, time in zip(results, times, strict=True):
        yield TunedConfig(
            operation=name,
            choice="" if result.invalidity == CORRECT else result.invalidity,
            config=dict(result.params),
            time_ns=None if time is None else time * _NS_PER_MS,
            best=time is not None and time == best,
        )
