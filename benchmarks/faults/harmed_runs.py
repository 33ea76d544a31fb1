"""Runs that are killed, or to which the system refuses calls: what they lost when they went on.

`python benchmarks/faults/harmed_runs.py [--kills N] [--refusals N] [--disks N] [--commands N]
[--seed N]`. What is killed and refused is that of `tests/faults/killed_runs.py`. Needs no GPU; a C
compiler for what is refused; root to mount disks that get full.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("faults", "profiler")
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), *(str(ROOT / "tests" / part) for part in PARTS)]

from fork_server import ForkServer  # noqa: E402
from killed_runs import (  # noqa: E402
    Orchestrator,
    Unharmed,
    built_shim,
    can_mount,
    fill_disks,
    kill_runs,
    refuse_calls,
    refuse_calls_of_commands,
)
from whole_runs import CommandLine  # noqa: E402

SEED = 20261127


def main() -> int:
    """Harm runs, print what came of it, and return 1 where one lost anything."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--refusals", type=int, default=40)
    parser.add_argument("--disks", type=int, default=16, help="runs on disks that get full")
    parser.add_argument("--commands", type=int, default=40, help="refusals to whole commands")
    parser.add_argument("--seed", type=int, default=SEED)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        orchestrator = Orchestrator(Path(folder), built_shim(Path(folder)))
        unharmed = Unharmed(orchestrator)
        began = time.perf_counter()
        killed = list(kill_runs(unharmed, asked.kills, asked.seed))
        lost = [words for _, words in killed if words]
        hits = sum(hits for hits, _ in killed)
        print(f"{asked.kills} kills ({hits} hit) of {len(killed)} runs: {len(lost)} lost anything")
        refused = list(refuse_calls(unharmed, asked.refusals, asked.seed))
        lost += [words for _, words in refused if words]
        codes = dict(Counter(code for code, _ in refused))
        wrong = sum(bool(words) for _, words in refused)
        print(f"{len(refused)} runs with refused calls, exit codes {codes}: {wrong} lost anything")
        if can_mount(Path(folder)):
            filled = list(fill_disks(unharmed, asked.disks, asked.seed))
            lost += [words for _, words in filled if words]
            codes = dict(Counter(code for code, _ in filled))
            wrong = sum(bool(words) for _, words in filled)
            print(f"{len(filled)} runs on full disks, exit codes {codes}: {wrong} lost anything")
        else:
            print("no full disks: a file system in memory cannot be mounted here")
        orchestrator.close()
        if asked.commands:
            refused = list(refused_commands(Path(folder), asked.commands, asked.seed))
            lost += [words for _, words in refused if words]
            codes = dict(Counter(code for code, _ in refused))
            wrong = sum(bool(words) for _, words in refused)
            print(f"{len(refused)} whole commands with them, {codes}: {wrong} lost anything")
    print(*lost, sep="\n")
    print(f"{time.perf_counter() - began:.0f} s")
    return int(bool(lost))


def refused_commands(folder: Path, faults: int, seed: int) -> Iterator[tuple[int, str]]:
    """Refuse calls to whole commands, which are forks of a process that has imported torch."""
    work = folder / "commands"
    work.mkdir()
    command_line = CommandLine(work)
    command_line.environment["LD_PRELOAD"] = str(built_shim(work))
    server = ForkServer(command_line.environment, work)
    command_line.fork_server = server
    yield from refuse_calls_of_commands(command_line, faults, seed)
    server.close()


if __name__ == "__main__":
    sys.exit(main())
