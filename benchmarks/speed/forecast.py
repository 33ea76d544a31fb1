"""How far the forecast of a session is off, on the recordings; needs no GPU.

    python benchmarks/speed/forecast.py [--verbose]

Each recorded attempt of at least ten visits is gone through as its journal has it, and forecast by
what came before it in its own recording, as a new run would. The error is that of the whole time at
any visit after the first tenth.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))

from profiler.run_folder.folder import Attempt, AttemptRecord, RunFolder  # noqa: E402
from profiler.runner import protocol  # noqa: E402
from profiler.sessions.forecasts.visit_costs import (  # noqa: E402
    CostReader,
    Rest,
    VisitCosts,
    read_costs,
)
from profiler.sessions.watchdog import Record  # noqa: E402

BAR = 0.3
FEWEST_VISITS = 10
AFTER = 0.1


def is_visit(record: Record) -> bool:
    """Whether a record is the end of a measured visit."""
    return record["event"] == protocol.FINISHED and record.get("phase") == protocol.MEASURE


def costs_before(
    record: AttemptRecord, earlier: Sequence[Attempt], problem_of: Mapping[str, str]
) -> VisitCosts:
    """Costs by which a run that is new forecasts a session, as `sessions/measurement.py` has it."""

    def costs(attempts: Sequence[Attempt]) -> VisitCosts:
        found = VisitCosts()
        for attempt in attempts:
            found.add(read_costs(protocol.read_journal(attempt.journal), problem_of))
        return found

    same_tool = [a for a in earlier if a.record.collector == record.collector]
    same = [a for a in same_tool if a.record.session == record.session]
    alike = [a for a in same_tool if a.record.metrics == record.metrics]
    for attempts in (same, alike):
        if (found := costs(attempts).without_checks()).visits:
            return found
    return VisitCosts(costs(same_tool).visits)


def largest_error(
    records: Sequence[Record], problem_of: Mapping[str, str], earlier: VisitCosts
) -> float:
    """Largest relative error of the whole time, forecast at a visit after the first tenth."""
    done = [record for record in records if is_visit(record)]
    left = Counter(record["cell"] for record in done)
    reader, rest = CostReader(problem_of), Rest(problem_of, earlier)
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
            worst = max(worst, abs(record["time"] + seconds - ended) / (ended - began), key=abs)
    return worst


def errors_of(recording: Path) -> Iterator[tuple[str, int, float]]:
    """Name, visits and largest error of each attempt of a recording that has enough visits."""
    run = RunFolder(recording)
    problem_of = {cell.id: cell.problem.id for cell in run.plan().cells}
    with_records = [(a, tuple(protocol.read_journal(a.journal))) for a in run.attempts()]
    with_records = [(attempt, records) for attempt, records in with_records if records]
    with_records.sort(key=lambda item: item[1][0]["time"])
    for place, (attempt, records) in enumerate(with_records):
        visits = sum(map(is_visit, records))
        if visits >= FEWEST_VISITS and attempt.record.visit is None:
            before = [earlier for earlier, _ in with_records[:place]]
            error = largest_error(
                records, problem_of, costs_before(attempt.record, before, problem_of)
            )
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
    beyond = [item for item in found if item[2] > BAR]
    for name, visits, error in found if options.verbose else beyond:
        print(f"{name}: {visits} visits, {error:.0%}")
    print(f"{len(beyond)} of {len(found)} attempts beyond {BAR:.0%}")


if __name__ == "__main__":
    main()
