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
except ImportError as error:
    sys.stderr.write(f"profiler: {sys.executable} has no torch to capture: {error}\n")
    sys.exit(3)  # what the machine lacks, as of every command


def main(arguments: Sequence[str]) -> None:
    """Run the program as Python would, and record its operator calls."""
    own, program = _divided(arguments)
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--first", type=int, required=True)
    parser.add_argument("--end", type=int, required=True)
    parser.add_argument("--values", action="store_true")
    options = parser.parse_args(own)
    with capture(options.out, steps=(options.first, options.end), values=options.values):
        _run(program)


def _divided(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


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
