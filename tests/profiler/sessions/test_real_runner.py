"""The real runner on the CPU; under the stand-in for ncu it is tried in tests/test_live_runs.py."""

from itertools import count
from pathlib import Path

import pytest

from profiler.collect.timer import Timer
from profiler.model import Outcome, Visit
from profiler.runner.protocol import Job, JobCell
from profiler.sessions.attempt import SessionTemplate, journal_visits, run_attempt
from profiler.sessions.recovery import Recovery
from profiler.sessions.watchdog import Limits

TESTS = Path(__file__).parents[2]
METRICS = ("gpu__time_duration.sum", "lts__t_sector_hit_rate.pct", "launch__registers_per_thread")


def recovered_of(visits, **options):
    """A recovery that has made these visits."""
    recovery = Recovery(**options)
    recovery.run(visits)
    return recovery


@pytest.fixture
def measure(tmp_path):
    """Measure ways in which a cell can end, as far as they go."""

    def run(collector, hows):
        cells = tuple(
            JobCell(
                f"{how.replace(' ', '_')}..p", how, {"how": how}, "p", {"rows": 4, "columns": 5}
            )
            for how in hows
        )
        workload = str(TESTS / "runner/workloads/rowsum.py")
        job = Job("timing", workload, collector.name, "cpu", 1, "", cells, (), warmups=1)
        session = SessionTemplate(job, collector, METRICS, Limits(step_s=10, grace_s=10))
        folders = (tmp_path / f"timing.{number}" for number in count())
        visits = [Visit(cell.id, block) for block in range(2) for cell in cells]

        def attempt(batch):
            folder = next(folders)
            return folder, run_attempt(session, batch, folder)

        return recovered_of(
            visits,
            session="timing",
            problem_of={cell.id: cell.problem for cell in cells},
            collector=collector,
            attempt=attempt,
            read_measured=journal_visits,
        )

    return run


def test_failures_cost_one_cell_each(measure):
    recovered = measure(Timer(), ("well", "raise", "well again", "segfault"))
    outcomes = {cell: failure.outcome for cell, failure in recovered.failures.items()}
    assert outcomes == {"raise..p": Outcome.RAISED, "segfault..p": Outcome.CRASHED}
    assert {visit.cell for visit in recovered.measured} == {"well..p", "well_again..p"}
    assert len(recovered.measured) == 4
