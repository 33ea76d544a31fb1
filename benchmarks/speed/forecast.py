"""How far the forecast of a session is off, on the recordings; needs no GPU.

    python benchmarks/speed/forecast.py [--verbose]

Each recorded attempt of at least ten visits is gone through as its journal has it, and forecast by
what came before it in its own recording, as a new run would. The error is that of the whole time at
any visit after the first tenth.

A session journals what the workload declares of each problem (FLOPs and bytes) before its first
problem begins. Where it was recorded before it did so, these records are put in front, from what
the same journal has later: the numbers are functions of the problem alone.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))

from profiler.model import SessionKind, SessionPlan  # noqa: E402
from profiler.planning.spec import load_spec  # noqa: E402
from profiler.run_folder.folder import AttemptRecord, RunFolder  # noqa: E402
from profiler.runner import protocol  # noqa: E402
from profiler.sessions.forecasts.forecast import rest_of  # noqa: E402
from profiler.sessions.forecasts.past import costs_of_sessions, past_of_run  # noqa: E402
from profiler.sessions.forecasts.rest import Rest  # noqa: E402
from profiler.sessions.forecasts.session_costs import CostReader  # noqa: E402
from profiler.sessions.watchdog import Record  # noqa: E402

BAR = 0.3
FEWEST_VISITS = 10
AFTER = 0.1


def is_visit(record: Record) -> bool:
    """Whether a record is the end of a measured visit."""
    return record["event"] == protocol.FINISHED and record.get("phase") == protocol.MEASURE


def with_declared(records: Sequence[Record], problem_of: Mapping[str, str]) -> list[Record]:
    """Records of a journal with the work of each problem declared before the first begins."""
    if any(record.get("phase") == protocol.DECLARE for record in records):
        return list(records)
    described = [
        record
        for record in records
        if record["event"] == protocol.FINISHED and record.get("phase") == protocol.DESCRIBE
    ]
    of_problem = {problem_of[record["cell"]]: record for record in described}
    began = {"phase": protocol.DECLARE, "time": records[0]["time"]}
    return [records[0], *(record | began for record in of_problem.values()), *records[1:]]


def largest_error(records: Sequence[Record], problem_of: Mapping[str, str], rest: Rest) -> float:
    """Largest relative error of the whole time, forecast at a visit after the first tenth."""
    done = [record for record in records if is_visit(record)]
    left = Counter(record["cell"] for record in done)
    reader = CostReader(problem_of)
    began, ended = records[0]["time"], done[-1]["time"]
    made, worst = 0, 0.0
    for record in records:
        reader.saw(record)
        if not is_visit(record):
            continue
        left[record["cell"]] -= 1
        made += 1
        if AFTER * len(done) <= made < len(done):
            seconds = rest.seconds(left, reader.costs)
            worst = max(worst, (record["time"] + seconds - ended) / (ended - began), key=abs)
    return worst


def session_of(record: AttemptRecord) -> SessionPlan:
    """The session of an attempt, as a plan names it; without its visits."""
    kind = SessionKind(record.kind)
    return SessionPlan(record.session, record.collector, kind, record.metrics, visits=())


def errors_of(recording: Path) -> Iterator[tuple[str, int, float]]:
    """Name, visits and largest error of each attempt of a recording that has enough visits."""
    run = RunFolder(recording)
    cells, collect = run.plan().cells, load_spec(run.spec_file).experiment.collect
    problem_of = {cell.id: cell.problem.id for cell in cells}
    journals = [(each, tuple(protocol.read_journal(each.journal))) for each in run.attempts()]
    journals = [(attempt, records) for attempt, records in journals if records]
    journals.sort(key=lambda item: item[1][0]["time"])
    for place, (attempt, records) in enumerate(journals):
        visits = sum(map(is_visit, records))
        if visits < FEWEST_VISITS or attempt.record.visit is not None:
            continue
        before = ((earlier.record, records) for earlier, records in journals[:place])
        session = session_of(attempt.record)
        past = past_of_run(costs_of_sessions(before, problem_of), session, collect)
        rest = rest_of(session, cells, collect, past.sessions, past.checked)
        error = largest_error(with_declared(records, problem_of), problem_of, rest)
        yield f"{recording.name}/{attempt.folder.name}", visits, error


def main() -> None:
    """Print how many of the recorded attempts are forecast within the bar."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--verbose", action="store_true", help="every attempt")
    options = parser.parse_args()
    found = [
        error
        for file in sorted((PROJECT / "experiments/recordings").glob("*/run.json"))
        for error in errors_of(file.parent)
    ]
    beyond = [item for item in found if abs(item[2]) > BAR]
    for name, visits, error in found if options.verbose else beyond:
        print(f"{name}: {visits} visits, {error:+.0%}")
    print(f"{len(beyond)} of {len(found)} attempts beyond {BAR:.0%}")


if __name__ == "__main__":
    main()
