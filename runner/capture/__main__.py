"""Run a Python program and capture it: `python profiler/runner/capture/__main__.py … -- PROGRAM`.

`profiler capture` becomes this process. It is started by its path with the user's own Python, which
may have torch where the profiler's has none.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

if not __package__:  # started by its path; last, so that nothing beside the project is found first
    sys.path.append(str(Path(__file__).absolute().parents[3]))

try:
    from profiler.runner.capture.recording import capture
    from profiler.runner.capture.traces import experiment_of_trace
except ImportError as error:
    sys.stderr.write(f"profiler: {sys.executable} has no torch to capture: {error}\n")
    sys.exit(3)  # what the machine lacks, as of every command

_MOST_LINES, _LONGEST_NAME = 20, 48


def main(arguments: Sequence[str]) -> None:
    """Run the program as Python would, and record its operator calls."""
    end = arguments.index("--")
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--first", type=int)
    parser.add_argument("--end", type=int)
    parser.add_argument("--values", action="store_true")
    parser.add_argument("--trace", type=Path)
    options = parser.parse_args(arguments[:end])
    if options.trace is not None:
        _from_trace(options.trace, Path(options.out))
        return
    with capture(options.out, steps=(options.first, options.end), values=options.values):
        _run(arguments[end + 1 :])


def _from_trace(trace: Path, folder: Path) -> None:
    """Write the experiment of a trace, and print its operators with most time."""
    try:
        ranks = experiment_of_trace(trace, folder)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        sys.stderr.write(f"profiler: {trace} is no trace of torch.profiler: {error!r}\n")
        sys.exit(2)
    total = sum(rank.ns for rank in ranks) or 1
    enough = sum(rank.ns for rank in ranks if not rank.reason)
    for rank in ranks[:_MOST_LINES]:
        share, name = 100 * rank.ns / total, rank.name[:_LONGEST_NAME]
        note = rank.reason or "can be made again from the trace"
        sys.stdout.write(f"{share:5.1f} %  {rank.calls:6} calls  {name:{_LONGEST_NAME}}  {note}\n")
    sys.stdout.write(
        f"{100 * enough / total:.0f} % of the time can be made again from the trace, and is in "
        f"{folder}. profiler capture -o FOLDER -- python PROGRAM records the rest.\n"
    )


def _run(program: Sequence[str]) -> None:
    """Run `-m MODULE ARGUMENTS` or `FILE ARGUMENTS`."""
    if program[0] == "-m":
        sys.argv = list(program[1:])
        sys.path[0] = os.getcwd()  # noqa: PTH109 - as Python does it
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(program)
        sys.path[0] = str(Path(program[0]).resolve().parent)
        runpy.run_path(program[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
