"""Records of a live search, and its journal: JSON lines, by which a killed search goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, TypeAdapter, ValidationError

from profiler.errors import UsageError
from profiler.model import Outcome
from profiler.parse.bounded_files import read_packed, read_plain
from profiler.search.space import Value


@dataclass(frozen=True)
class Terms:
    """What is searched: first record of a journal."""

    key: str
    """Hash of everything that a result depends on, and of the strategy with its seed."""
    strategy: str
    seed: int
    objective: str
    baseline: str
    """Id of the variant whose time every time is divided by."""
    problems: tuple[str, ...]
    """Ids of the problems that each proposal is measured at."""
    parameters: Mapping[str, tuple[Value, ...]]
    """Values by name, over all configurations."""
    configurations: int
    left_out: int
    event: Literal["terms"] = "terms"


@dataclass(frozen=True)
class Proposed:
    """A configuration that the strategy proposed."""

    variant: str
    """Variant id."""
    params: Mapping[str, Value]
    is_random_draw: bool = False
    """Whether every unseen configuration had the same chance to be proposed."""
    event: Literal["proposed"] = "proposed"


@dataclass(frozen=True)
class Evaluated:
    """What came of a proposal: log ratios of time, or why there are none."""

    variant: str
    outcome: Outcome
    cause: str = ""
    log_ratios: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """By problem id, of each block: log of the time divided by the baseline's in that block."""
    duration_ns: Mapping[str, float] = field(default_factory=dict)
    """Median time by problem id."""
    stopped_early: bool = False
    """Whether blocks were left out because it was clearly behind."""
    build_s: float = 0.0
    """Seconds of the build that it was part of."""
    measured_s: float = 0.0
    """Seconds from its first order to its last result."""
    elapsed_s: float = 0.0
    """Seconds of the search up to here, over all executions."""
    worker: str = ""
    """Name of the GPU that measured it, where workers did; empty: the one of the run."""
    event: Literal["evaluated"] = "evaluated"


@dataclass(frozen=True)
class LookedAgain:
    """Another look at the best so far: what it differs by from earlier looks is noise."""

    variant: str
    log_ratios: Mapping[str, tuple[float, ...]]
    worker: str = ""
    event: Literal["looked_again"] = "looked_again"


@dataclass(frozen=True)
class WorkerJoined:
    """A GPU that measures for the search, written before its first result."""

    worker: str
    """Name, such as `worker-1`."""
    gpu: str | None
    gpu_uuid: str | None
    """A hash."""
    event: Literal["worker_joined"] = "worker_joined"


@dataclass(frozen=True)
class RunnerEnded:
    """The process that measures ended before its time; another one went on."""

    cause: str
    event: Literal["runner_ended"] = "runner_ended"


@dataclass(frozen=True)
class Finished:
    """The end of a search, and which variants it hands on."""

    reason: Literal["budget", "space"]
    """The budget is spent, or every configuration was tried."""
    finalists: tuple[str, ...]
    """Variant ids, the best first."""
    event: Literal["finished"] = "finished"


Record = Annotated[
    Terms | Proposed | Evaluated | LookedAgain | WorkerJoined | RunnerEnded | Finished,
    Discriminator("event"),
]


@dataclass(frozen=True)
class SearchRecord:
    """Everything that a journal holds."""

    terms: Terms
    proposed: Mapping[str, Mapping[str, Value]]
    """Parameters by variant id, in the order of the proposals."""
    random_draws: frozenset[str]
    """Ids of the proposed variants that no result had a say in."""
    evaluations: tuple[Evaluated, ...]
    looks: tuple[LookedAgain, ...]
    runner_ends: tuple[str, ...]
    finished: Finished | None
    """None where the search was stopped before its end."""
    workers: tuple[WorkerJoined, ...] = ()
    """GPUs that measured, where workers did."""
    left_out: int = 0
    """Records that are damaged, and those of what no other record proposes or measures; of a search
    that has finished also proposals of which nothing came."""


def with_origin(
    records: Iterable[Record | None],
    variants: Mapping[str, Mapping[str, Value]] | None = None,
) -> tuple[Record, ...]:
    """Whole records without those of what none before them proposed or measured: its line is lost.

    `variants`: parameters by id of all that can be proposed; None where they are not known.
    """
    proposed: set[str] = set()
    evaluated: set[str] = set()
    kept: list[Record] = []
    for record in records:
        match record:
            case Proposed(variant, params):
                is_known = variants is None or variants.get(variant) == params
                proposed |= {variant} if is_known else set()
            case Evaluated(variant):
                is_known = variant in proposed
                evaluated |= {variant} if is_known else set()
            case LookedAgain(variant):
                is_known = variant in evaluated
            case Finished(_, finalists):
                is_known = evaluated.issuperset(finalists)
            case None:
                continue
            case _:
                is_known = True
        if is_known:
            kept.append(record)
    return tuple(kept)


def search_record(all_records: tuple[Record | None, ...]) -> SearchRecord | None:
    """The records of a journal, sorted; None where it does not begin with its terms."""
    if not all_records or not isinstance(all_records[0], Terms):
        return None
    records = with_origin(all_records)
    proposed = {r.variant: r.params for r in records if isinstance(r, Proposed)}
    finished = next((r for r in reversed(records) if isinstance(r, Finished)), None)
    evaluations = tuple(r for r in records if isinstance(r, Evaluated))
    lost = proposed.keys() - {r.variant for r in evaluations} if finished is not None else ()
    return SearchRecord(
        terms=all_records[0],
        left_out=len(all_records) - len(records) + len(lost),
        proposed=proposed,
        random_draws=frozenset(
            r.variant for r in records if isinstance(r, Proposed) and r.is_random_draw
        ),
        evaluations=evaluations,
        looks=tuple(r for r in records if isinstance(r, LookedAgain)),
        runner_ends=tuple(r.cause for r in records if isinstance(r, RunnerEnded)),
        finished=finished,
        workers=tuple(r for r in records if isinstance(r, WorkerJoined)),
    )


@cache
def _adapter() -> TypeAdapter[Any]:
    return TypeAdapter(Record)


class SearchJournal:
    """Appends records to a file; what was written before is in `records`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.records: tuple[Record | None, ...] = read_records(path) if path.exists() else ()

    def append(self, record: Record) -> None:
        """Write a record behind the others."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(asdict(record), separators=(",", ":"), allow_nan=False) + "\n")
            stream.flush()

    def cut_torn_line(self) -> None:
        """Take away a last line without its end, which a kill left."""
        if not self._path.exists():
            return
        content = self._path.read_bytes()
        end_of_last_line = content.rfind(b"\n") + 1
        if end_of_last_line < len(content):
            os.truncate(self._path, end_of_last_line)

    def begin_anew(self) -> None:
        """Empty the journal."""
        self._path.unlink(missing_ok=True)
        self.records = ()


def read_search(path: Path) -> SearchRecord | None:
    """The search of a journal, compressed or not; None where there is none.

    Raises UsageError where it is damaged.
    """
    packed = path.with_name(f"{path.name}.gz")
    if not path.exists() and not packed.exists():
        return None
    return search_record(read_records(path if path.exists() else packed))


def read_records(path: Path) -> tuple[Record | None, ...]:
    """Records of a journal, compressed or not; what is damaged costs the line that it stands in.

    Raises UsageError where the first is damaged, which says what is searched.
    """
    try:
        content = read_packed(path) if path.suffix == ".gz" else read_plain(path)
    except OSError as error:
        raise UsageError(f"{path}: damaged: {error}") from error
    return tuple(_if_whole(path, number, line) for number, line in enumerate(_lines(content), 1))


def _if_whole(path: Path, number: int, line: bytes) -> Record | None:
    """Record of a line; None where it is damaged, or of another version."""
    try:
        return _record(path, number, line)
    except UsageError:
        if number == 1:
            raise
        return None


def _lines(content: bytes) -> list[bytes]:
    """Lines with their end; behind the last end there is nothing, or a torn line."""
    return content.split(b"\n")[:-1]


def _record(name: Path | str, number: int, line: bytes) -> Record:
    try:
        record: Record = _adapter().validate_json(line, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"{name}: line {number}: damaged, or of another version: {where}: {first['msg']}"
        ) from error
    return record
