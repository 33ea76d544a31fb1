"""Journals of the runner as records: lines of JSON, of which a crash may leave odd ones."""

from __future__ import annotations

import functools
import json
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from profiler.model import Outcome
from profiler.runner.protocol import (
    AMOUNTS,
    COMMON_VALUE,
    COUNTED,
    EVENTS,
    FAILED,
    FINISHED,
    IMPORTED,
    LAUNCH_FACTS,
    MEASURE,
    NOT_RECHECKED,
    OPENED,
    OPERATOR_FIELDS,
    PHASES,
    ROOF_FAILED,
    ROOF_FINISHED,
    ROOF_STARTED,
    SESSION_FINISHED,
    SPARED_S,
    STARTED,
    TUNED,
    VISIT_FACTS,
    WAITING_NS,
)

_GZIP = 16 + zlib.MAX_WBITS
_PART_BYTES = 64
MAX_JOURNAL_BYTES = 2**28
"""Most that is unpacked of a journal; that of 5,000 cells with 50 visits each has 75 MB."""


def opened_files(records: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Digest of each file that a session opened and did not write, by its name in the journal."""
    opened = [record for record in records if record.get("event") == OPENED]
    digests = {record["file"]: record["digest"] for record in opened}
    return {file: digest for file, digest in digests.items() if digest}


def finished_visits(records: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, int, int]]:
    """Cell, block and arm of every visit that was measured to its end."""
    return map(visit_of, measurement_records(records))


def passed_visits(records: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, int, int]]:
    """Cell, block and arm of every visit that was finished, or from which the session went on.

    Where the session went on without the end or the failure of a visit, a journal line is lost.
    """
    begun: tuple[str, int, int] | None = None
    for record in records:
        event, is_visit = record.get("event"), record.get("phase") == MEASURE
        visit = visit_of(record) if is_visit else None
        ends = event in (FINISHED, FAILED) and visit == begun
        goes_on = event == SESSION_FINISHED or (is_visit and event in (STARTED, FINISHED))
        if begun is not None and goes_on and not ends:
            yield begun
        if visit is not None and event == FINISHED:
            yield visit
        if goes_on or ends:
            begun = visit if event == STARTED else None


def measurement_records(records: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The records of visits that were measured to their end."""
    for record in records:
        if record.get("event") == FINISHED and record.get("phase") == MEASURE:
            yield record


def visit_of(record: Mapping[str, Any]) -> tuple[str, int, int]:
    """Cell, block and arm that a record of a visit is about."""
    return str(record["cell"]), int(record["block"]), int(record.get("arm", 0))


def _first_bytes(path: Path) -> bytes:
    """Content of a file up to just beyond MAX_JOURNAL_BYTES."""
    with path.open("rb") as stream:
        return stream.read(MAX_JOURNAL_BYTES + 1)


def _unpacked_content(packed: bytes) -> tuple[bytes, bool]:
    """Content of a gzip file as far as it can be read, and whether the content is complete.

    Reading ends a little beyond MAX_JOURNAL_BYTES.

    The file is decompressed in small parts: an error costs the content of its part alone.
    """
    pieces: list[bytes] = []
    size = 0
    ended = False
    stream = zlib.decompressobj(wbits=_GZIP)
    try:
        for start in range(0, len(packed), _PART_BYTES):
            part = packed[start : start + _PART_BYTES]
            while part:
                pieces.append(stream.decompress(part))
                size += len(pieces[-1])
                if size > MAX_JOURNAL_BYTES:
                    return b"".join(pieces), True
                ended = stream.eof
                if not ended:
                    break
                part, stream = stream.unused_data, zlib.decompressobj(wbits=_GZIP)
    except zlib.error:
        ended = False
    return b"".join(pieces), ended


_READ_JOURNALS = 64
"""Journals that are kept in memory, some megabytes each: those of one execution, and of a run that
was gone on with a dozen times."""


@dataclass(frozen=True)
class JournalContent:
    """Content of a journal; its records are shared, and nobody changes them."""

    records: tuple[dict[str, Any], ...]
    skipped: int
    """Whole lines that are no record of this protocol; one more where it could not be unpacked to
    its end."""
    breaks: int = 0
    """Places where a record is not the next one by its number: lines are lost there. Journals of
    versions that did not number their lines have none."""

    @property
    def lost_end(self) -> bool:
        """Whether the end of the session is not in a journal whose lines are numbered."""
        events = {record.get("event") for record in self.records}
        is_numbered = any("line" in record for record in self.records)
        return is_numbered and SESSION_FINISHED not in events


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a journal, as `read_whole_journal` finds them."""
    yield from read_whole_journal(path).records


def read_whole_journal(path: Path) -> JournalContent:
    """Records of a journal; a last line cut off by a crash is left out, and odd ones are counted.

    A journal that is absent has no records; one that was compressed (`<name>.gz`) is found, and is
    read as far as it goes.
    """
    packed = path.with_name(f"{path.name}.gz")
    if path.is_file():
        content = _first_bytes(path)
    elif packed.is_file():
        unpacked, is_whole = _unpacked_content(_first_bytes(packed))
        journal = _journal_content(unpacked)
        return journal if is_whole else replace(journal, skipped=journal.skipped + 1)
    else:  # a FIFO or a device of that name is no journal
        return JournalContent((), 0)
    return _journal_content(content)


@functools.lru_cache(maxsize=_READ_JOURNALS)
def _journal_content(content: bytes) -> JournalContent:
    """Records in the bytes of a journal.

    An execution reads each of its journals a dozen times: for what is missing, what was opened, the
    forecast, where its seconds went and the report. The bytes are read each time, and made records
    once.
    """
    too_long = len(content) > MAX_JOURNAL_BYTES
    *lines, last = content.decode("utf-8", errors="replace").split("\n")
    records = [record_of(line) for line in lines if line.strip()]
    cut = record_of(last)
    complete = [record for record in (*records, cut) if record is not None]
    left_out = sum(record is None for record in records) + too_long
    return JournalContent(tuple(complete), left_out, _break_count(records))


def _break_count(records: Iterable[Mapping[str, Any] | None]) -> int:
    """Number of places with lost lines; a line that is damaged is none, and counted elsewhere.

    A runner that was started before its session numbers the lines of this anew.
    """
    breaks = 0
    expected: int | None = 0
    for record in records:
        number = None if record is None else record.get("line")
        breaks += number is not None and expected is not None and number not in (0, expected)
        expected = None if number is None else number + 1
    return breaks


_DECODER = json.JSONDecoder()


def record_of(line: str) -> dict[str, Any] | None:
    """The record in a line of a journal; None where it is none of this protocol.

    What is checked here is what every reader relies on.
    """
    try:
        record, end = _DECODER.raw_decode(line)
        if end < len(line):
            record = json.loads(line)  # as it refuses, or with white space at its end
    except (ValueError, RecursionError):  # brackets nested by the thousand
        return None
    if not isinstance(record, dict) or record.get("event") not in EVENTS:
        return None
    if not record.keys() >= _NEEDED.get(record["event"], set()):
        return None
    if record.get("phase") == MEASURE and ("cell" not in record or record.get("block") is None):
        return None  # of whatever event: `visit_of` takes all of them
    for name, value in record.items():  # a large run has hundreds of thousands of records
        check = _CHECKS.get(name)
        if check is not None and not check(value):
            return None
    return record


def _is_real(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    finite = isinstance(value, float) and math.isfinite(value)
    return finite or (isinstance(value, int) and _is_real(value) and abs(value) < 2**1000)


def _is_fact(value: object) -> bool:
    return value is None or _is_number(value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_kernel(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("kernel"), str):
        return False
    return all(name == "kernel" or v is None or _is_number(v) for name, v in value.items())


def _is_list_of(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(check(item) for item in value)


def _is_operator(value: object) -> bool:
    if not isinstance(value, dict) or not set(OPERATOR_FIELDS) <= value.keys():
        return False
    numbers = (value[name] for name in OPERATOR_FIELDS if name not in ("name", "stack"))
    stack = _is_list_of(_is_text)(value["stack"])
    return _is_text(value["name"]) and stack and all(map(_is_fact, numbers))


_OUTCOMES = frozenset(map(str, Outcome))
_NEEDED: Mapping[str, Set[str]] = {
    STARTED: {"cell", "phase"},
    FINISHED: {"cell"},
    COUNTED: {"cell", "block", "kernels"},
    FAILED: {"cell", "outcome"},
    NOT_RECHECKED: {"cell", "cause"},
    OPENED: {"file", "digest"},
    IMPORTED: {"modules"},
    ROOF_STARTED: {"roof"},
    ROOF_FINISHED: {"roof"},
    ROOF_FAILED: {"roof", "cause"},
}
_CHECKS: Mapping[str, Callable[[object], bool]] = {
    "line": _is_count,
    "time": _is_number,
    "cell": _is_text,
    "phase": lambda value: isinstance(value, str) and value in PHASES,
    "block": lambda value: value is None or _is_count(value),
    "arm": _is_count,
    "outcome": lambda value: isinstance(value, str) and value in _OUTCOMES,
    "of_host": lambda value: isinstance(value, bool),
    "durations_ns": lambda value: value is None or _is_list_of(_is_number)(value),
    "kernels": _is_list_of(_is_kernel),
    "trace": _is_text,
    "roof": _is_text,
    "modules": _is_list_of(_is_text),
    COMMON_VALUE: _is_number,
    "file": _is_text,
    "digest": _is_text,
    "operators": lambda value: value is None or _is_list_of(_is_operator)(value),
    TUNED: lambda value: isinstance(value, list),
    **dict.fromkeys((*AMOUNTS, "result_bytes", "written_bytes"), _is_fact),
    "result_dtypes": _is_list_of(lambda name: isinstance(name, str) and name.isidentifier()),
    # The error of a result that overflowed is infinite, or no number.
    **dict.fromkeys(
        ("max_abs_error", "max_rel_error"), lambda value: value is None or _is_real(value)
    ),
    **dict.fromkeys((*LAUNCH_FACTS, *VISIT_FACTS, WAITING_NS, SPARED_S), _is_number),
    "sustained": lambda value: isinstance(value, dict) and all(map(_is_fact, value.values())),
    "monotonic": _is_number,
    "stamps": lambda value: isinstance(value, dict) and all(map(_is_number, value.values())),
}
