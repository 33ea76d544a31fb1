"""A runner without torch: journals the visits of a job, each with a duration of its own."""

import json
import os
import sys
import time
from pathlib import Path

VISIT_S = 0.003


def main():
    job = json.loads(Path(sys.argv[1]).read_text())
    with Path(job["journal"]).open("a") as journal:

        def say(event, **fields):
            record = {"event": event, "time": time.time(), **fields}
            print(json.dumps(record), file=journal, flush=True)

        say("session_started", pid=os.getpid())
        for visit in job["visits"]:
            where = {"cell": visit["cell"], "block": visit["block"], "arm": visit["arm"]}
            say("started", phase="measure", **where)
            time.sleep(VISIT_S)
            duration = 1000.0 + sum(map(ord, visit["cell"])) + 7 * visit["block"] + visit["arm"]
            say("finished", phase="measure", durations_ns=[duration], **where)
        say("session_finished")


if __name__ == "__main__":
    main()
