"""Configurations that autotuners tried: logs and caches of inductor, kernel_tuner, format T4."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from profiler.errors import ParseError
from profiler.importers.given_file import GivenFile
from profiler.importers.registry import Imported, Importer, notices_document, unread_notices
from profiler.model import SCHEMA_VERSION, TunedConfig
from profiler.notices import Notice
from profiler.outside_text import safe_values
from profiler.parse.inductor import is_inductor_log, parse_inductor_log
from profiler.search.kernel_tuner import TunerCache, is_tuner_cache, parse_tuner_cache
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


def _read_log(file: GivenFile) -> ImportedTunings:
    unread: Counter[str] = Counter()
    configurations = parse_inductor_log(file.text, file.name, unread)
    return ImportedTunings(configurations, unread_notices(file.name, unread))


_LOG = Importer(
    name="a log or a cache of an autotuner",
    files="logs and caches of inductor's autotuner ([fusion.md](fusion.md)), whatever a notebook, "
    "a rank or a server puts before their lines; what Triton prints with "
    "`TRITON_PRINT_AUTOTUNING=1` (what it tried and chose, without times)",
    gives=ImportedTunings,
    read=_read_log,
    is_in=is_inductor_log,
    among_others=True,
)


# ---- kernel_tuner --------------------------------------------------------------------------------


def _read_cache(file: GivenFile) -> ImportedTunings:
    cache = parse_tuner_cache(file.text, file.name)
    notices = unread_notices(file.name, cache.unread)
    return ImportedTunings(tuple(_cached(cache)), notices)


def _cached(cache: TunerCache) -> Iterator[TunedConfig]:
    times = [entry.time_ms for entry in cache.entries if entry.time_ms is not None]
    best = min(times, default=None) if cache.minimises_time else None
    for entry in cache.entries:
        yield TunedConfig(
            operation=f"{cache.kernel} on {cache.device}" if cache.device else cache.kernel,
            choice=entry.failure,
            config=dict(entry.params),
            time_ns=None if entry.time_ms is None else entry.time_ms * _NS_PER_MS,
            best=entry.time_ms is not None and entry.time_ms == best,
        )


_CACHE = Importer(
    name="a cache of kernel_tuner",
    files="cache files of kernel_tuner, also of a run that was stopped; "
    "[`simulate`](search.md) replays searches on them",
    gives=ImportedTunings,
    read=_read_cache,
    is_in=is_tuner_cache,
)


# ---- format T4, as kernel_tuner and the FAIR benchmark hub write it ------------------------------


_IS_T4 = re.compile(
    r'^\s*\{(?=.*"results"\s*:)(?=.*"configuration"\s*:)(?=.*"invalidity"\s*:)', re.DOTALL
)


def _is_results(text: str) -> bool:
    return _IS_T4.match(text) is not None


def _read_results(file: GivenFile) -> ImportedTunings:
    unread: Counter[str] = Counter()
    try:
        document: Any = json.loads(file.text, parse_constant=lambda _: None)
        results = readable_t4(safe_values(document), unread)
    except (ValueError, RecursionError) as error:
        # ValueError: a number of thousands of digits, too.
        raise ParseError(f"{file.name}: no JSON: {str(error)[:200]}") from error
    except ParseError as error:
        raise ParseError(f"{file.name}: {error.message}", remedy=error.remedy) from None
    return ImportedTunings(tuple(_recorded(file.name, results)), unread_notices(file.name, unread))


def _recorded(name: str, results: Sequence[RecordedResult]) -> Iterator[TunedConfig]:
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


_RESULTS = Importer(
    name="results in the format T4",
    files="results of a tuning in the format T4 (the median of the runs of each configuration); "
    "[`simulate`](search.md) replays searches on them",
    gives=ImportedTunings,
    read=_read_results,
    is_in=_is_results,
)

IMPORTERS = (_CACHE, _RESULTS, _LOG)
