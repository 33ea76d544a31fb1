"""Entries of a list of runs: answer, machine, commit, the best relative to the baseline.

Entries are read from `run.json` and `summary.json`. A summary has megabytes, so entries are cached
beside the runs, and a summary is read again only where its file has changed.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, groupby, islice
from operator import attrgetter, itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from profiler.collect.registry import timer_of
from profiler.errors import UsageError
from profiler.model import MARGIN_PCT, Verdict, seconds_of
from profiler.outside_text import safe
from profiler.run_folder.archive import open_record
from profiler.run_folder.documents import read_json, read_value, write_json
from profiler.run_folder.folder import PAGE_FILE, RUN_FILE, SUMMARY_JSON_FILE, RunFolder

CACHE_FILE = ".index.json"
_ENTRIES_KEY = "entries of form 9"
"""Key of the cached entries, renamed with every change of `RunEntry`: older caches are ignored."""
_SHORT_COMMIT = 8


@dataclass(frozen=True)
class ProblemBest:
    """The best of one problem, references left out, relative to the baseline in the same run."""

    problem: str
    """Its name and parameters, in JSON: a name may have stood for another size before."""
    ratio: float
    low: float
    high: float
    """95 % interval of the ratio; both are the ratio itself where the baseline is the best."""
    noise_floor: float
    """Relative effect; 0 where it is not known."""


@dataclass(frozen=True)
class RunAnswer:
    """Answer of a run: its sentence and ratios to the baseline; empty of a run that goes on."""

    sentence: str = ""
    best: tuple[ProblemBest, ...] = ()
    ratio: float | None = None
    """Ratio of what the answer recommends to the baseline: geometric mean over its problems, 1
    where that is the baseline; None without an answer or a baseline."""
    low: float | None = None
    high: float | None = None
    """95 % interval, of one problem."""


@dataclass(frozen=True)
class Conditions:
    """Conditions of a run that ratios must have in common to be compared."""

    gpu: str
    """Name of the GPU, or of the processor; empty where neither is known."""
    settings: tuple[str | None, ...]
    """Clock control, cache control and timer."""
    baseline: str | None


@dataclass(frozen=True)
class RunEntry:
    """One run, or one replay, in a list of runs."""

    folder: str
    """Path in the folder of the list, with `/`."""
    experiment: str
    title: str
    created: str
    number: int
    """RunRecord.number; 0 of a replay."""
    kind: Literal["run", "replay", "recording"]
    """The answer of a recording is found when it is reported."""
    conditions: Conditions
    commit: str
    """First digits, and `+` where files had changed; empty where it is not known."""
    cells: int
    page: bool
    """Whether the run has a page."""
    answer: RunAnswer
    state: tuple[int, ...] = ()
    """Times and sizes of the files that the entry was read from; empty where one could not be
    read: the same file may be readable next time."""

    @property
    def when(self) -> float:
        """Time at which the run began, in seconds since 1970; 0 where `created` is no time."""
        return seconds_of(self.created)


Cached = Mapping[str, RunEntry]
"""Folder of a run → its cached entry."""
State = Mapping[str, tuple[int, ...]]
"""Folder of a run → times and sizes of its files."""


def run_states(out: Path) -> State:
    """Every folder of a run or a replay under `out`, with the state of its files."""
    states = {
        f"{experiment.name}/{run.name}": state
        for experiment in _folders(out, through_links=True)
        for run in _folders(experiment.path, through_links=False)
        if any(state := _state(run.path))
    }
    return dict(sorted(states.items()))


def _folders(place: Path | str, *, through_links: bool) -> list[os.DirEntry[str]]:
    """Folders in a folder; none where it cannot be read."""
    try:
        with os.scandir(place) as entries:
            return [entry for entry in entries if entry.is_dir(follow_symlinks=through_links)]
    except OSError:
        return []


def _state(folder: Path | str) -> tuple[int, ...]:
    """Times and sizes of the files of a run; 0 of a missing file and of a link."""
    state: list[int] = []
    for name in (RUN_FILE, SUMMARY_JSON_FILE):
        try:
            file_state = os.lstat(f"{folder}/{name}")  # pathlib takes three times as long
        except OSError:
            state += (0, 0)
        else:
            is_link = stat.S_ISLNK(file_state.st_mode)
            state += (0, 0) if is_link else (file_state.st_mtime_ns, file_state.st_size)
    return tuple(state)


NO_DOCUMENTS: Mapping[Path, Mapping[str, Any]] = MappingProxyType({})


def read_entries(
    out: Path,
    states: State,
    warn: Callable[[str], None] = lambda _: None,
    documents: Mapping[Path, Mapping[str, Any]] = NO_DOCUMENTS,
    cached: Cached | None = None,
) -> tuple[RunEntry, ...]:
    """Entries of the runs in `states`, by experiment, each with its newest run first.

    The experiment with the newest run comes first. A run that cannot be read is left out, one whose
    summary cannot is there without its answer; `warn` gets a sentence on either. `documents`:
    contents of summary.json by folder, where they are at hand; `cached`: as `cached_entries`.
    """
    cached = cached_entries(out) if cached is None else cached
    at_hand = {folder.resolve(): document for folder, document in documents.items()}
    entries = []
    for folder, state in states.items():
        before = cached.get(folder)
        if before and before.state == state:
            entries.append(before)
            continue
        try:
            entry, fault = _read(out, folder, at_hand.get((out / folder).resolve()))
        except UsageError as error:
            warn(f"left out: {error}")
            continue
        if fault:
            warn(f"listed without its answer: {fault}")
        entries.append(replace(entry, state=() if fault else state))
    newest: dict[str, float] = {}
    for entry in entries:
        newest[entry.experiment] = max(newest.get(entry.experiment, 0.0), entry.when)
    return tuple(sorted(entries, key=lambda entry: _place(entry, newest), reverse=True))


def _place(entry: RunEntry, newest: Mapping[str, float]) -> tuple[Any, ...]:
    return newest[entry.experiment], entry.experiment, entry.number, entry.when, entry.folder


MOST_LISTED = 500
"""Runs that a table or a page lists; more of them take seconds, and nobody reads them."""


def newest_listed(entries: Sequence[RunEntry]) -> tuple[RunEntry, ...]:
    """The newest runs of each experiment, about as many of each, MOST_LISTED together."""
    if len(entries) <= MOST_LISTED:
        return tuple(entries)
    experiment = attrgetter("experiment")
    runs_each = max(1, MOST_LISTED // len(set(map(experiment, entries))))
    runs = (tuple(islice(group, runs_each)) for _, group in groupby(entries, experiment))
    return tuple(chain.from_iterable(runs))[:MOST_LISTED]


def read_recordings(
    folders: Iterable[Path], warn: Callable[[str], None] = lambda _: None
) -> tuple[RunEntry, ...]:
    """Entries of recordings, in their order; `warn` gets a sentence on each unreadable one."""
    entries = []
    for folder in folders:
        try:
            record = read_json(open_record(folder).path / RUN_FILE)
            entry = _entry(record, folder.as_posix(), folder, page=False)
        except UsageError as error:
            warn(f"left out: {error}")
            continue
        entries.append(replace(entry, kind="recording"))
    return tuple(entries)


def keep_entries(out: Path, entries: Iterable[RunEntry]) -> None:
    """Write the entries to the cache in `out`."""
    write_json(out / CACHE_FILE, {_ENTRIES_KEY: [*map(_entry_fields, entries)]}, indent=None)


def _entry_fields(entry: RunEntry) -> dict[str, Any]:
    """Fields of an entry for JSON; `asdict` takes twenty times as long."""
    answer = vars(entry.answer) | {"best": [vars(best) for best in entry.answer.best]}
    return vars(entry) | {"conditions": vars(entry.conditions), "answer": answer}


def cached_entries(out: Path) -> Cached:
    """Cached entries by folder; empty where the cache is damaged or of another version."""
    try:
        entries = read_value(out / CACHE_FILE, _ENTRIES_KEY, tuple[RunEntry, ...])
    except UsageError:
        return {}
    return {entry.folder: entry for entry in entries}


# ---- one run -------------------------------------------------------------------------------------


def _read(out: Path, folder: str, summary: Mapping[str, Any] | None) -> tuple[RunEntry, str]:
    """Entry of one run, and why its summary could not be read; raises UsageError without both."""
    run = RunFolder(out / folder)
    file = run.path / SUMMARY_JSON_FILE
    page = (run.path / PAGE_FILE).is_file()
    if not run.exists():
        document = read_json(file) if summary is None else summary
        return _entry(document, folder, run.path, page=page), ""
    record = run.record()
    entry = partial(
        _entry, folder=folder, path=run.path, page=page, number=record.number, timer=_timer(run)
    )
    if summary is None and not file.exists():
        return entry(asdict(record)), ""
    try:
        document = read_json(file) if summary is None else summary
        return entry({**asdict(record), **document}), ""
    except UsageError as error:
        return entry(asdict(record)), error.message


def _timer(run: RunFolder) -> str | None:
    """Collector of the durations that are judged; None where the plan cannot be read."""
    try:
        return timer_of(run.plan())
    except UsageError:
        return None


def _entry(  # noqa: PLR0913 - what a document does not say of itself
    document: Mapping[str, Any],
    folder: str,
    path: Path,
    *,
    page: bool,
    number: int = 0,
    timer: str | None = None,
) -> RunEntry:
    """Entry from a document; raises UsageError, which names `path`, where it is malformed."""
    try:
        environment = document["environment"]
        processor = _text(environment.get("gpu") or environment.get("cpu") or "")
        controls = (environment.get(name) for name in ("clock_control", "cache_control"))
        commit = str(environment.get("git_commit") or "")[:_SHORT_COMMIT]
        timing = (*(value and _text(value) for value in controls), timer)
        return RunEntry(
            folder=folder,
            experiment=_text(document["experiment"]),
            title=_text(document.get("title") or document["experiment"]),
            created=_text(document["created"]),
            number=number,
            kind="replay" if document.get("replayed") else "run",
            conditions=Conditions(processor, timing, document.get("baseline")),
            commit=f"{commit}+" if commit and environment.get("git_dirty") else commit,
            cells=len(document["cells"] if "cells" in document else document["keys"]),
            page=page,
            answer=_answer(document),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{path}: damaged, or none of this program: {error!r}") from error


def _answer(document: Mapping[str, Any]) -> RunAnswer:
    ratio, low, high = _answer_ratio(document.get("answer") or {})
    return RunAnswer(
        sentence=_text(document.get("sentence") or ""),
        best=tuple(_problem_bests(document)) if "answer" in document else (),
        ratio=ratio,
        low=low,
        high=high,
    )


def _answer_ratio(answer: Mapping[str, Any]) -> tuple[float | None, float | None, float | None]:
    """Ratio and interval of the recommended variant; 1 where the baseline is recommended."""
    if (answer.get("best") or {}).get("called") == "first_of_rest":
        return 1.0, None, None
    difference = answer.get("by_how_much") or {}
    ratio, low, high = (
        None if math.isnan(number := _number(difference.get(name))) else number
        for name in ("ratio", "ratio_low", "ratio_high")
    )
    return ratio, low, high


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return safe(value)


def _problem_bests(summary: Mapping[str, Any]) -> Iterator[ProblemBest]:
    """The best of each problem whose winner has a ratio to the baseline."""
    answer = summary["answer"]
    cells = {cell["id"]: cell for cell in summary["cells"]}
    for problem in answer["problems"]:
        winner = problem["best_other"] or problem["winner"]
        numbers = cells[winner["cell"]]["metrics"].get(answer["metric"], {}) if winner else {}
        ratio = _number(numbers.get("ratio"))
        if not ratio > 0:
            continue
        yield ProblemBest(
            problem=json.dumps(
                [problem["problem"], cells[winner["cell"]].get("problem_params")], sort_keys=True
            ),
            ratio=ratio,
            low=_number(numbers.get("ratio_low"), ratio),
            high=_number(numbers.get("ratio_high"), ratio),
            noise_floor=_number(numbers.get("noise_floor"), 0.0),
        )


def _number(value: object, missing: float = math.nan) -> float:
    return missing if value is None or not math.isfinite(float(str(value))) else float(str(value))


# ---- the best over the runs of an experiment -----------------------------------------------------
#
# From the ratios in each run's summary, not from its samples, which `profiler compare` reads.
# Both use the ratio to the baseline of the same run: a slower machine moves neither.


@dataclass(frozen=True)
class BestChange:
    """The best of each problem in a run relative to the run before it."""

    older: RunEntry
    verdicts: Mapping[str, Verdict]
    """Verdict by problem; problems that both runs have."""
    worst: float
    """Largest ratio newer ÷ older of a problem that is SLOWER, else of all."""

    @property
    def slower(self) -> int:
        """Number of problems whose best became slower."""
        return sum(verdict is Verdict.SLOWER for verdict in self.verdicts.values())

    @property
    def verdict(self) -> Verdict:
        """SLOWER where a problem is, else FASTER where a problem is; SAME only where all are."""
        for verdict in (Verdict.SLOWER, Verdict.FASTER, Verdict.UNCLEAR):
            if verdict in self.verdicts.values():
                return verdict
        return Verdict.SAME


@dataclass(frozen=True)
class BestPoint:
    """Geometric mean over the problems of a run: the best relative to the baseline."""

    entry: RunEntry
    ratio: float
    low: float
    high: float
    """95 % interval: errors at different problems are independent."""


def changes(entries: Sequence[RunEntry]) -> dict[str, BestChange]:
    """Change of each run, by its folder, to the run before it with which it can be compared.

    `entries`: of one experiment, the newest first. Replays are left out.
    """
    changes_by_folder: dict[str, BestChange] = {}
    # The newest run so far by settings, baseline and problem: a search over all runs takes n².
    newest: dict[tuple[object, ...], tuple[int, RunEntry]] = {}
    for number, entry in enumerate(
        reversed([entry for entry in entries if entry.kind != "replay"])
    ):
        if entry.conditions.baseline is None:
            continue
        keys = [(entry.conditions, problem) for problem in _problems(entry)]
        earlier = (newest[key] for key in keys if key in newest)
        before = max(earlier, key=itemgetter(0), default=None)
        if before is not None:
            changes_by_folder[entry.folder] = _change(before[1], entry)
        newest.update(dict.fromkeys(keys, (number, entry)))
    return changes_by_folder


def _problems(entry: RunEntry) -> set[str]:
    return {best.problem for best in entry.answer.best}


def _change(older: RunEntry, newer: RunEntry) -> BestChange:
    before = {best.problem: best for best in older.answer.best}
    pairs = [(before[best.problem], best) for best in newer.answer.best if best.problem in before]
    verdicts = {best.problem: _verdict(first, best) for first, best in pairs}
    ratios = {best.problem: best.ratio / first.ratio for first, best in pairs}
    slower = [ratios[name] for name in ratios if verdicts[name] is Verdict.SLOWER]
    return BestChange(older, verdicts, max(slower or ratios.values()))


def _verdict(older: ProblemBest, newer: ProblemBest) -> Verdict:
    """FASTER or SLOWER where the intervals lie further apart than the margin.

    The margin is that of verdicts within a run, with the noise floors of both runs added as
    independent errors are. Intervals that must not touch ask for more than a test would.
    """
    floors = math.hypot(math.log1p(older.noise_floor), math.log1p(newer.noise_floor))
    margin = math.exp(max(math.log1p(MARGIN_PCT / 100), floors))
    low, high = newer.low / older.high, newer.high / older.low
    if low > margin:
        return Verdict.SLOWER
    if high < 1 / margin:
        return Verdict.FASTER
    return Verdict.SAME if 1 / margin < low <= high < margin else Verdict.UNCLEAR


def best_over_time(entries: Sequence[RunEntry]) -> tuple[BestPoint, ...]:
    """Best points of the runs of one experiment comparable with its newest, the oldest first.

    Comparable runs have the same problems, the same baseline and the same settings.
    """
    measured = [entry for entry in entries if entry.answer.best and entry.kind != "replay"]
    if not measured:
        return ()
    newest = measured[0]
    comparable = [
        entry
        for entry in measured
        if entry.conditions == newest.conditions and _problems(entry) == _problems(newest)
    ]
    return tuple(point_of(entry) for entry in reversed(comparable))


def point_of(entry: RunEntry) -> BestPoint:
    """The best of a run over its problems; the run must have some."""
    bests = entry.answer.best
    count = len(bests)
    middle = sum(math.log(best.ratio) for best in bests) / count
    below = math.hypot(*(math.log(best.ratio / best.low) for best in bests)) / count
    above = math.hypot(*(math.log(best.high / best.ratio) for best in bests)) / count
    return BestPoint(entry, math.exp(middle), math.exp(middle - below), math.exp(middle + above))
