"""Runs on 1, 2 and 4 workers with kernels that sleep.

`python benchmarks/cluster/scaling.py [--sleep S] [--problems N] [--workers 1 2 4]` starts a
scheduler of Dask and workers on loopback, each with locks of its own as if it were a host, and the
stand-in for ncu of the tests; `--workers 0` is a run without workers. Exits 1 where a bar is
missed: 4 workers at least 3.5 times as fast as one, and at most 3 % of their time without a task.
CPU seconds are of all processes; with the load of the machine they tell whether a run was alone:
what starts take does not shrink with the number of workers where these share two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
FAKE_NCU = HERE.parents[1] / "tests/fake_ncu/ncu"
FASTER, MOST_COORDINATION = 3.5, 0.03
BLOCKS, VARIANTS = 6, 3
_TASK = re.compile(r"measured in ([0-9.]+) s")


def main() -> int:
    """Print a table; returns 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sleep", type=float, default=2.0, help="seconds of a launch")
    parser.add_argument("--problems", type=int, default=8)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    arguments = parser.parse_args()
    os.environ["SLEEP_S"] = str(arguments.sleep)
    walls, idle = {}, {}
    print(
        "| workers | wall s | at the workers s | in tasks s | times as fast | without a task "
        "| CPU s | load |"
    )
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        spec = write_spec(Path(folder), arguments.problems)
        for count in arguments.workers:
            if count == 0:
                before = cpu_seconds()
                wall = run(spec, "alone")[0]
                print(f"| none | {wall:.1f} | | | | | {accounted(before)} |", flush=True)
                continue
            before = cpu_seconds()
            with cluster(Path(folder), count) as address:
                walls[count], at_workers, in_tasks = run(spec, str(count), "--workers", address)
            idle[count] = 1 - in_tasks / (count * at_workers)
            faster = next(iter(walls.values())) / walls[count]
            print(
                f"| {count} | {walls[count]:.1f} | {at_workers:.1f} | {in_tasks:.1f} "
                f"| {faster:.2f} | {idle[count]:.1%} | {accounted(before)} |",
                flush=True,
            )
    fast_enough = 1 not in walls or 4 not in walls or walls[1] / walls[4] >= FASTER
    return 0 if fast_enough and max(idle.values()) <= MOST_COORDINATION else 1


def cpu_seconds() -> float:
    """CPU seconds of all processes that were started here and have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def accounted(before: float) -> str:
    """CPU seconds since `before`, and how many processes wanted a core in the last five minutes."""
    return f"{cpu_seconds() - before:.0f} | {os.getloadavg()[1]:.1f}"


def write_spec(folder: Path, problems: int) -> Path:
    """Experiment of some variants that all take the same time."""
    document = {
        "name": "sleeping",
        "workload": str(HERE / "sleeping.py"),
        "variants": {"matrix": {"number": list(range(VARIANTS))}},
        "problems": {"matrix": {"rows": [2 ** (4 + k) for k in range(problems)]}},
        "collect": {
            "device": "cpu",
            "blocks": BLOCKS,
            "final_blocks": 0,
            "warmups": 0,
            "explain": False,
            "metrics": ["duration_ns", "cycles"],
        },
    }
    path = folder / "sleeping.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def run(spec: Path, name: str, *flags: str) -> tuple[float, float, float]:
    """Seconds of a run, of its stage at the workers, and of all tasks together."""
    out = spec.parent / f"reports-{name}"
    began = time.monotonic()
    done = subprocess.run(
        [*profiler("run"), str(spec), "--out", str(out), "--no-report", *flags],
        cwd=spec.parent,
        env=environment(spec.parent, name),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    wall = time.monotonic() - began
    if done.returncode:
        sys.exit(done.stderr)
    (record,) = out.glob("sleeping/*/run.json")
    stages = json.loads(record.read_text())["stages"]
    return wall, stages.get("workers", 0.0), sum(map(float, _TASK.findall(done.stderr)))


def profiler(command: str) -> list[str]:
    """The beginning of a command line."""
    return [sys.executable, "-m", "profiler", command]


def environment(folder: Path, name: str) -> dict[str, str]:
    """Environment of a process that stands for a host: its locks are its own."""
    return {
        **os.environ,
        "PROFILER_NCU": str(FAKE_NCU),
        "PROFILER_LOCKS": str(folder / "locks" / name),
        "OMP_NUM_THREADS": "1",
    }


@contextmanager
def cluster(folder: Path, count: int) -> Iterator[str]:
    """Address of a scheduler with some workers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
    commands = {"scheduler": [*scheduler, "--host", "127.0.0.1", "--port", str(port)]}
    commands |= {
        f"worker-{number}": [*profiler("worker"), address, "--device", "cpu"]
        for number in range(count)
    }
    with ExitStack() as started:
        for name, command in commands.items():
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment(folder, name),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            started.callback(process.wait)
            started.callback(process.kill)
        wait_for_workers(address, count)
        yield address


def wait_for_workers(address: str, count: int) -> None:
    """Wait until every worker is there: their start is no part of a run."""
    from distributed import Client  # noqa: PLC0415 - imports before the scheduler listens cost time

    with Client(address, timeout=60) as client:
        client.wait_for_workers(count, timeout=120)


if __name__ == "__main__":
    sys.exit(main())
