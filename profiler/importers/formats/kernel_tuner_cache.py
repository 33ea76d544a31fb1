"""Cache files of kernel_tuner as configurations with their times."""

from __future__ import annotations

from collections.abc import Iterator

from profiler.importers.given_file import GivenFile
from profiler.importers.importer import Importer, unread_notices
from profiler.importers.tunings import ImportedTunings
from profiler.model import TunedConfig
from profiler.search.kernel_tuner import TunerCache, is_tuner_cache, parse_tuner_cache

_NS_PER_MS = 1e6


def _read(file: GivenFile) -> ImportedTunings:
    cache = parse_tuner_cache(file.text, file.name)
    notices = unread_notices(file.name, cache.unread)
    return ImportedTunings(tuple(_configurations(cache)), notices)


def _configurations(cache: TunerCache) -> Iterator[TunedConfig]:
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


IMPORTER = Importer(
    name="a cache of kernel_tuner",
    files="cache files of kernel_tuner, also of a run that was stopped; "
    "[`simulate`](search.md) replays searches on them",
    gives=ImportedTunings,
    read=_read,
    is_in=is_tuner_cache,
)
