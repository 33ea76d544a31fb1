"""Runs an experiment over and over, each time in a fork that may be killed.

Started once by `killed_runs.py`: importing takes a second, a fork none. For each line on stdin, the
name of a folder and what the system refuses, it measures there once, and prints the process id and
the exit code.
"""

import os
import sys
import traceback
from pathlib import Path

from killed_runs import REFUSED
from rich.console import Console
from run_folders import H200, Workplace

from profiler.collect import timer
from profiler.errors import Interrupted, ProfilerError
from profiler.machine.requirements import Machine
from profiler.sessions.builds.plan_builds import build_all
from profiler.sessions.measure import MeasureRequest, measure
from profiler.sessions.progress import ProgressReporter

RUNNER = Path(__file__).with_name("plain_runner.py")
SPEC = """\
name: sums
workload: ./workload.py
variants: {list: [plain, tree, loop]}
problems: {list: [small, large]}
baseline: plain
collect: {device: cpu, collectors: [timer], blocks: 4, final_blocks: 2, metrics: [duration_ns]}
"""


def main():
    folder = Path(sys.argv[1])
    timer.runner_argv = lambda job, python=None: (sys.executable, "-I", "-S", str(RUNNER), str(job))
    for line in sys.stdin:
        name, _, refused = line.strip().partition(" ")
        child = os.fork()
        if child == 0:
            os.setsid()
            with (folder / f"{name}.words").open("w") as words:
                os.environ[REFUSED] = refused
                code = run(folder / name, words)
                os.environ[REFUSED] = ""
            os._exit(code)
        say(child)
        say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def say(number):
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def run(folder, words):
    """Measure what is missing; 130 where the session was ended from outside.

    As the command line does, it says what the host refused, and ends with 3.
    """
    console = Console(file=Path(os.devnull).open("w"))  # noqa: SIM115 - until the fork ends
    try:
        place = Workplace(folder, SPEC, begun=False)
        request = MeasureRequest(
            loaded=place.loaded,
            plan=place.plan,
            space=place.space,
            machine=Machine(H200, None, "cpu"),
            out=place.folder / "reports",
            fresh=False,
            created="2026-03-04T09:00:00+00:00",
        )
        reporter = ProgressReporter(console, console)
        measure(request, build_all(request, reporter), reporter)
    except Interrupted:
        return 130
    except (ProfilerError, OSError) as error:
        words.write(str(error))
        return 3
    except BaseException:
        traceback.print_exc(file=words)
        return 1
    return 0


if __name__ == "__main__":
    main()
