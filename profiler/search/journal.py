"""Records of a live search, and its journal: JSON lines, from which a killed search goes on."""

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
from profiler.parse.bounded_files import plain_or_packed, read_named
from profiler.search.space import Value


@dataclass(frozen=True)
class Terms:
    """Terms of a search: first record of a journal."""

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
    """Result of a proposal: log ratios of time, or why there are none."""

    variant: str
    outcome: Outcome
    cause: str = ""
    log_ratios: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """By problem id, of each block: log of the time divided by the baseline's in that block."""
    duration_ns: Mapping[str, float] = field(default_factory=dict)
    """Median time by problem id."""
    stopped_early: bool = False
    """Whether blocks were left out because the configuration was clearly behind."""
    build_s: float = 0.0
    """Seconds of the build with the proposal."""
    measured_s: float = 0.0
    """Seconds from the first order of the proposal to its last result."""
    elapsed_s: float = 0.0
    """Seconds of the search up to this result, over all executions."""
    worker: str = ""
    """Name of the GPU of a worker that measured; empty: the GPU of the run."""
    event: Literal["evaluated"] = "evaluated"


@dataclass(frozen=True)
class RepeatedLook:
    """Another look at the best so far: its difference from earlier looks is noise."""

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
    """Hash of the UUID."""
    event: Literal["worker_joined"] = "worker_joined"


@dataclass(frozen=True)
class RunnerEnded:
    """The measuring process ended early; a new process went on."""

    cause: str
    event: Literal["runner_ended"] = "runner_ended"


@dataclass(frozen=True)
class Finished:
    """The end of a search, with its finalists."""

    reason: Literal["budget", "space"]
    """The budget is spent, or every configuration was tried."""
    finalists: tuple[str, ...]
    """Variant ids, the best first."""
    event: Literal["finished"] = "finished"


Record = Annotated[
    Terms | Proposed | Evaluated | RepeatedLook | WorkerJoined | RunnerEnded | Finished,
    Discriminator("event"),
]


@dataclass(frozen=True)
class SearchRecord:
    """All records of a journal, sorted by kind."""

    terms: Terms
    proposed: Mapping[str, Mapping[str, Value]]
    """Parameters by variant id, in the order of the proposals."""
    random_draws: frozenset[str]
    """Ids of the variants that were proposed independently of results."""
    evaluations: tuple[Evaluated, ...]
    looks: tuple[RepeatedLook, ...]
    runner_ends: tuple[str, ...]
    finished: Finished | None
    """None where the search was stopped before its end."""
    workers: tuple[WorkerJoined, ...] = ()
    """GPUs that measured, where workers did."""
    left_out: int = 0
    """Number of records that are damaged, or lack their proposal or measurement; for a finished
    search also of proposals without a result."""

    @property
    def pending(self) -> tuple[str, ...]:
        """Ids of proposed variants without a result, in the order of proposals."""
        evaluated = {evaluation.variant for evaluation in self.evaluations}
        return tuple(variant for variant in self.proposed if variant not in evaluated)

    @property
    def elapsed_s(self) -> float:
        """Seconds of the search up to its last result, over all executions."""
        return max((evaluation.elapsed_s for evaluation in self.evaluations), default=0.0)


def records_with_origin(
    records: Iterable[Record | None],
    variants: Mapping[str, Mapping[str, Value]] | None = None,
) -> tuple[Record, ...]:
    """Whole records whose proposal or measurement has an earlier record: else its line is lost.

    `variants`: parameters by id of all variants of the space; None where they are unknown.
    """
    proposed: set[str] = set()
    evaluated: set[str] = set()
    valid_records: list[Record] = []
    for record in records:
        match record:
            case Proposed(variant, params):
                is_known = variants is None or variants.get(variant) == params
                proposed |= {variant} if is_known else set()
            case Evaluated(variant):
                is_known = variant in proposed
                evaluated |= {variant} if is_known else set()
            case RepeatedLook(variant):
                is_known = variant in evaluated
            case Finished(_, finalists):
                is_known = evaluated.issuperset(finalists)
            case None:
                continue
            case _:
                is_known = True
        if is_known:
            valid_records.append(record)
    return tuple(valid_records)


def search_record(all_records: tuple[Record | None, ...]) -> SearchRecord | None:
    """The sorted records of a journal; None where it does not begin with its terms."""
    if not all_records or not isinstance(all_records[0], Terms):
        return None
    records = records_with_origin(all_records)
    proposed = {r.variant: r.params for r in records if isinstance(r, Proposed)}
    finished = next((r for r in reversed(records) if isinstance(r, Finished)), None)
    evaluations = tuple(r for r in records if isinstance(r, Evaluated))
    lost_variants = (
        proposed.keys() - {r.variant for r in evaluations} if finished is not None else ()
    )
    return SearchRecord(
        terms=all_records[0],
        left_out=len(all_records) - len(records) + len(lost_variants),
        proposed=proposed,
        random_draws=frozenset(
            r.variant for r in records if isinstance(r, Proposed) and r.is_random_draw
        ),
        evaluations=evaluations,
        looks=tuple(r for r in records if isinstance(r, RepeatedLook)),
        runner_ends=tuple(r.cause for r in records if isinstance(r, RunnerEnded)),
        finished=finished,
        workers=tuple(r for r in records if isinstance(r, WorkerJoined)),
    )


@cache
def _adapter() -> TypeAdapter[Any]:
    return TypeAdapter(Record)


class SearchJournal:
    """Appends records to a file; the earlier records are in `records`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.records: tuple[Record | None, ...] = read_records(path) if path.exists() else ()

    def append(self, record: Record) -> None:
        """Append a record."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(asdict(record), separators=(",", ":"), allow_nan=False) + "\n")
            stream.flush()

    def cut_torn_line(self) -> None:
        """Remove a last line without its end, which a kill left."""
        if not self._path.exists():
            return
        content = self._path.read_bytes()
        end_of_last_line = content.rfind(b"\n") + 1
        if end_of_last_line < len(content):
            os.truncate(self._path, end_of_last_line)

    def clear(self) -> None:
        """Empty the journal."""
        self._path.unlink(missing_ok=True)
        self.records = ()


def read_search(path: Path) -> SearchRecord | None:
    """The search of a journal, compressed or not; None without a journal.

    Raises UsageError where it is damaged.
    """
    file = plain_or_packed(path)
    return None if file is None else search_record(read_records(file))


def read_records(path: Path) -> tuple[Record | None, ...]:
    """Records of a journal, compressed or not, without damaged lines.

    Raises UsageError where the first record is damaged, which has the terms.
    """
    try:
        content = read_named(path)
    except OSError as error:
        raise UsageError(f"{path}: damaged: {error}") from error
    complete_lines = content.split(b"\n")[:-1]  # without a torn one behind the last end
    return tuple(_record(path, number, line) for number, line in enumerate(complete_lines, 1))


def _record(path: Path, number: int, line: bytes) -> Record | None:
    """Record of a line; None where it is damaged, or of another version.

    Raises UsageError where it is the first.
    """
    try:
        record: Record = _adapter().validate_json(line, strict=True)
    except ValidationError as error:
        if number > 1:
            return None
        first = error.errors(include_url=False, include_input=False)[0]
        field_name = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"{path}: line {number}: damaged, or of another version: {field_name}: {first['msg']}"
        ) from error
    return record
