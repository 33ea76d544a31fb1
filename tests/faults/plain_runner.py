"""A runner without torch: journals the visits of a job, each with a duration of its own."""

import os
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))
from profiler.runner import protocol
from profiler.runner.journal import Journal, LeavingError, open_journal

VISIT_S = 0.003


def main():
    job = protocol.read_job(Path(sys.argv[1]))
    try:
        with open_journal(Path(job.journal)) as stream:
            measure(job, Journal(stream))
    except LeavingError as leaving:
        return leaving.code
    return 0


def measure(job, journal):
    journal.write("session_started", pid=os.getpid())
    for visit in job.visits:
        where = {"cell": visit.cell, "block": visit.block, "arm": visit.arm}
        journal.write("started", phase="measure", **where)
        time.sleep(VISIT_S)
        duration = 1000.0 + sum(map(ord, visit.cell)) + 7 * visit.block + visit.arm
        journal.write("finished", phase="measure", durations_ns=[duration], **where)
    journal.write("session_finished")


if __name__ == "__main__":
    sys.exit(main())
