"""How far forecasts of runs and of their sessions are off, on the recordings; needs no GPU.

    python benchmarks/speed/forecast.py [--verbose]

What `plan` says of each recorded run where nothing was measured before, by what the run took (its
builds, searches and waits for the GPU left out; a run that explains nothing, without that).

Each recorded attempt of at least ten visits is gone through as its journal has it, and its rest is
forecast by what it took so far. The error is that of the whole time at any visit after the first
tenth. So are the visits of one look that several processes made.

The first process of a session journals what the workload declares of each problem (FLOPs and bytes)
before any begins. Where it was recorded before it did so, these records are put in front, from what
the same journals have later: the numbers are functions of the problem alone.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))

from profiler.model import SessionKind, SessionPlan  # noqa: E402
from profiler.parse import runner_journal  # noqa: E402
from profiler.planning.spec import load_spec  # noqa: E402
from profiler.run_folder.archive import open_run  # noqa: E402
from profiler.run_folder.folder import AttemptRecord, RunFolder  # noqa: E402
from profiler.run_folder.seconds import BUILDS, SEARCHES, WAITS_FOR_GPU  # noqa: E402
from profiler.runner import protocol  # noqa: E402
from profiler.sessions.forecasts.forecast import EarlierVisits, run_forecast  # noqa: E402
from profiler.sessions.forecasts.session_costs import (  # noqa: E402
    CostReader,
    TypicalVisit,
    typical_visit,
)
from profiler.sessions.watchdog import Record  # noqa: E402

BAR = 0.3
START_BAR = 2.0
FEWEST_VISITS = 10
AFTER = 0.1
STOPPED_S = 10.0
"""Between two processes of a run that was stopped and went on later, at least."""


def is_visit(record: Record) -> bool:
    """Whether a record is the end of a measured visit."""
    return record["event"] == protocol.FINISHED and record.get("phase") == protocol.MEASURE


def with_declared(
    records: Sequence[Record], later: Sequence[Record], problem_of: Mapping[str, str]
) -> list[Record]:
    """Records of a process with the work of each problem declared before the first begins.

    `later`: records of the other processes that made visits of the same look.
    """
    finished = [record for record in (*records, *later) if record["event"] == protocol.FINISHED]
    of_problem = {
        problem_of[record["cell"]]: record
        for record in finished
        if record.get("phase") in (protocol.DECLARE, protocol.DESCRIBE)
    }
    declared = {
        problem_of[record["cell"]] for record in records if record.get("phase") == protocol.DECLARE
    }
    began = {"phase": protocol.DECLARE, "time": records[0]["time"]}
    missing = [of_problem[problem] | began for problem in of_problem if problem not in declared]
    return [records[0], *missing, *records[1:]]


def largest_error(
    records: Sequence[Record], problem_of: Mapping[str, str], typical: TypicalVisit
) -> float:
    """Largest relative error of the whole time, forecast at a visit after the first tenth."""
    done = [record for record in records if is_visit(record)]
    left = Counter(record["cell"] for record in done)
    reader = CostReader(problem_of)
    began, ended = records[0]["time"], done[-1]["time"]
    made, worst = 0, 0.0
    for record in records:
        reader.observe(record)
        if not is_visit(record):
            continue
        left[record["cell"]] -= 1
        made += 1
        if AFTER * len(done) <= made < len(done):
            seconds = reader.costs.rest_s(left, typical)
            worst = max(worst, (record["time"] + seconds - ended) / (ended - began), key=abs)
    return worst


def session_of(record: AttemptRecord) -> SessionPlan:
    """The session of an attempt, as a plan names it; without its visits."""
    kind = SessionKind(record.kind)
    return SessionPlan(record.session, record.collector, kind, record.metrics, visits=())


@dataclass(frozen=True)
class Process:
    """One recorded attempt, with its journal."""

    record: AttemptRecord
    name: str
    records: tuple[Record, ...]

    @property
    def visits(self) -> int:
        """Number of its visits."""
        return sum(map(is_visit, self.records))


def processes_of(run: RunFolder) -> list[Process]:
    """Attempts of a recording that left a journal, oldest first; commands left out."""
    processes = (
        Process(
            attempt.record, attempt.folder.name, tuple(runner_journal.read_journal(attempt.journal))
        )
        for attempt in run.attempts()
        if attempt.record.visit is None
    )
    with_records = (process for process in processes if process.records)
    return sorted(with_records, key=lambda process: process.records[0]["time"])


def made_together(processes: Sequence[Process], looks: Sequence[int]) -> Iterator[list[Process]]:
    """Processes that made visits of one look, one right after the other."""
    for _, of_look in groupby(processes, key=lambda process: look_of(process, looks)):
        together: list[Process] = []
        for process in of_look:
            began = process.records[0]["time"]
            if together and began - together[-1].records[-1]["time"] > STOPPED_S:
                yield together
                together = []
            together.append(process)
        yield together


def look_of(process: Process, looks: Sequence[int]) -> tuple[str, int]:
    """Session of a process, and in which of the looks its first visit is."""
    block = next((record["block"] for record in process.records if is_visit(record)), 0)
    return process.record.session, sum(last <= block for last in looks)


def errors_of(recording: Path) -> Iterator[tuple[str, int, float]]:
    """Name, processes and largest error of each attempt, and of what several made of one look.

    Attempts of less than FEWEST_VISITS are left out.
    """
    run = open_run(recording)
    plan, collect = run.plan(), load_spec(run.spec_file).experiment.collect
    problem_of = {cell.id: cell.problem.id for cell in plan.cells}
    processes = processes_of(run)

    def error(made: Sequence[Process]) -> float:
        later = [record for process in made[1:] for record in process.records]
        first = with_declared(made[0].records, later, problem_of)
        typical = typical_visit(session_of(made[0].record), collect)
        return largest_error([*first, *later], problem_of, typical)

    for process in processes:
        if process.visits >= FEWEST_VISITS:
            yield f"{recording.stem}/{process.name}", 1, error([process])
    measured = [process for process in processes if process.visits]
    for made in made_together(measured, plan.looks):
        if len(made) > 1:
            yield f"{recording.stem}/{made[0].name} to {made[-1].name}", len(made), error(made)


def at_the_start(recording: Path) -> float:
    """Seconds that `plan` says of a recorded run where nothing was measured, by its own."""
    run, record = open_run(recording), open_run(recording).record()
    loaded = load_spec(run.spec_file, overrides=record.overrides)
    loaded = replace(loaded, path=PROJECT / record.spec_path)
    whole = run_forecast(loaded, EarlierVisits(run.plan()), Path("/nowhere"))
    spans = [span for spans in run.seconds() for span in spans]
    took_s = sum(max(span.end_s for span in spans) for spans in run.seconds())
    beside = (BUILDS, SEARCHES, WAITS_FOR_GPU)
    took_s -= sum(span.end_s - span.begin_s for span in spans if span.step in beside)
    explains = any(SessionKind.EXPLAIN.value in span.row for span in spans)
    return (whole.seconds - (0.0 if explains else whole.explain_s)) / took_s


def main() -> None:
    """Print how many of the recorded runs and attempts are forecast within their bars."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--verbose", action="store_true", help="every attempt")
    options = parser.parse_args()
    files = sorted((PROJECT / "experiments").glob("**/recordings/*.zip"))
    factors = {file.stem: at_the_start(file) for file in files}
    beyond = {
        name: factor for name, factor in factors.items() if not 1 / START_BAR <= factor <= START_BAR
    }
    for name, factor in (factors if options.verbose else beyond).items():
        print(f"{name}: {factor:.2f} times what it took")
    print(f"{len(beyond)} of {len(factors)} runs beyond a factor {START_BAR:g} at the start")
    errors = [error for file in files for error in errors_of(file)]
    for what, of_several in (("attempts", False), ("looks of several processes", True)):
        by_name = [(name, error) for name, count, error in errors if (count > 1) == of_several]
        beyond = [(name, error) for name, error in by_name if abs(error) > BAR]
        for name, error in by_name if options.verbose else beyond:
            print(f"{name}: {error:+.0%}")
        print(f"{len(beyond)} of {len(by_name)} {what} beyond {BAR:.0%}")


if __name__ == "__main__":
    main()
