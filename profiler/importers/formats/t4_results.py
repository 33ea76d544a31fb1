"""Results of a tuning in the format T4, as kernel_tuner and the FAIR benchmark hub write them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from profiler.errors import ParseError
from profiler.importers.given_file import GivenFile
from profiler.importers.importer import Importer, unread_notices
from profiler.importers.tunings import ImportedTunings
from profiler.model import TunedConfig
from profiler.outside_text import safe_values
from profiler.search.t4 import CORRECT, RecordedResult, readable_t4

_NS_PER_MS = 1e6
_IS_T4 = re.compile(
    r'^\s*\{(?=.*"results"\s*:)(?=.*"configuration"\s*:)(?=.*"invalidity"\s*:)', re.DOTALL
)


def _is_in(text: str) -> bool:
    return _IS_T4.match(text) is not None


def _read(file: GivenFile) -> ImportedTunings:
    unread: Counter[str] = Counter()
    try:
        document: Any = json.loads(file.text, parse_constant=lambda _: None)
        results = readable_t4(safe_values(document), unread)
    except (
        ValueError,
        RecursionError,
    ) as error:  # ValueError: a number of thousands of digits, too
        raise ParseError(f"{file.name}: no JSON: {str(error)[:200]}") from error
    except ParseError as error:
        raise ParseError(f"{file.name}: {error.message}", remedy=error.remedy) from None
    return ImportedTunings(
        tuple(_configurations(file.name, results)), unread_notices(file.name, unread)
    )


def _configurations(name: str, results: Sequence[RecordedResult]) -> Iterator[TunedConfig]:
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


IMPORTER = Importer(
    name="results in the format T4",
    files="results of a tuning in the format T4 (the median of the runs of each configuration); "
    "[`simulate`](search.md) replays searches on them",
    gives=ImportedTunings,
    read=_read,
    is_in=_is_in,
)
