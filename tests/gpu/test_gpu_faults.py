"""Kills at many moments, a full GPU and a second profiler, on a real GPU under the real ncu."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
from test_gpu_runs import ROOT, command, finished_visits, run, summary, timing_blocks, write_spec

pytestmark = pytest.mark.gpu

BLOCKS = 60
RIGHT = "[right]"
TARGETS = ("ncu", "everything", "runner", "everything", "orchestrator") * 2
"""A session that is killed twice in a row, at one cell, may be held against that cell."""
PATIENCE_S = 120

FILL = """
import sys, torch
free, _ = torch.cuda.mem_get_info()
block = torch.empty(free - int(sys.argv[1]), dtype=torch.uint8, device="cuda")
print("filled", flush=True)
sys.stdin.readline()
"""


def is_running(process):
    with contextlib.suppress(psutil.Error):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


def victims(orchestrator, target):
    """Processes of a run that are called by a target's name; the innermost first."""
    below = orchestrator.children(recursive=True)[::-1]
    if target == "everything":
        return [*below, orchestrator]
    if target == "orchestrator":
        return [orchestrator]
    lines = {process: " ".join(process.cmdline()) for process in below if is_running(process)}
    runners = [process for process, line in lines.items() if "runner/__main__.py" in line]
    if target == "runner":
        return [process for process in runners if "--csv" not in lines[process]][:1]
    return [process for process, line in lines.items() if process.name().startswith("ncu")]


def wait_for_visits(spec, process, count):
    until = time.monotonic() + PATIENCE_S
    while finished_visits(spec) < count and is_running(process) and time.monotonic() < until:
        time.sleep(0.02)


def test_ten_kills_of_a_run_cost_no_sample_and_no_cell(tmp_path):
    unkilled = tmp_path / "unkilled"
    unkilled.mkdir()
    expected = write_spec(unkilled, modes=RIGHT, sizes="[1048576]", blocks=BLOCKS)
    assert run(expected).returncode == 4  # the variant that is too big stays too big
    visits = finished_visits(expected)
    killed = tmp_path / "killed"
    killed.mkdir()
    spec = write_spec(killed, modes=RIGHT, sizes="[1048576]", blocks=BLOCKS)
    hits = []
    process = psutil.Popen(command(spec), cwd=ROOT, stderr=subprocess.DEVNULL)
    for number, target in enumerate(TARGETS, start=1):
        wait_for_visits(spec, process, visits * number // (len(TARGETS) + 1))
        targets = victims(process, target) if is_running(process) else []
        for victim in targets:
            with contextlib.suppress(psutil.Error):
                victim.kill()
        hits.append((target, len(targets), finished_visits(spec)))
        if target in ("everything", "orchestrator"):
            process.wait(PATIENCE_S)
            process = psutil.Popen(command(spec), cwd=ROOT, stderr=subprocess.DEVNULL)
    process.wait(400)
    done = run(spec)
    assert done.returncode == 4, done.stderr
    assert sum(count > 0 for _, count, _ in hits) >= 8, hits
    outcomes = Counter(cell["outcome"] for cell in summary(spec)["cells"])
    assert outcomes == Counter(cell["outcome"] for cell in summary(expected)["cells"]), hits
    cells = [cell for cell in summary(spec)["cells"] if cell["outcome"] == "measured"]
    assert {timing_blocks(cell) for cell in cells} == {BLOCKS}, hits
    # A kill costs the visit that was under way, and what ncu has in its report is kept.
    assert visits <= finished_visits(spec), hits
    (folder,) = (killed / "modes").glob("[0-9]*")
    assert not [
        p for p in psutil.process_iter(["cmdline"]) if str(folder) in str(p.info["cmdline"])
    ]


def test_memory_that_another_process_takes_costs_the_cells_that_do_not_fit(tmp_path):
    spec = write_spec(tmp_path, modes=RIGHT, sizes="[1048576, 268435456]", blocks=2)
    with subprocess.Popen(
        [sys.executable, "-c", FILL, str(1 << 30)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout.readline() == "filled\n"
        done = run(spec)
        other.communicate("\n")
    assert done.returncode == 4, done.stderr
    outcomes = {
        (cell["variant_params"]["mode"], cell["problem_params"]["n"]): cell["outcome"]
        for cell in summary(spec)["cells"]
    }
    assert outcomes["right", 1048576] == "measured"
    assert outcomes["right", 268435456] == "out_of_memory"
    assert "other processes had the GPU open" in done.stderr, done.stderr


def test_a_second_profiler_on_the_gpu_is_waited_for_or_said(tmp_path):
    """Two runs that do not see each other's lock, as of two containers."""
    specs = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        specs.append(write_spec(folder, modes=RIGHT, sizes="[1048576]", blocks=20))
    processes = [
        subprocess.Popen(
            command(spec),
            cwd=ROOT,
            env={**os.environ, "PROFILER_LOCKS": str(spec.parent)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for spec in specs
    ]
    for spec, process in zip(specs, processes, strict=True):
        _, stderr = process.communicate(timeout=400)
        assert "Traceback" not in stderr
        assert process.returncode in (3, 4), stderr
        if process.returncode == 3:
            assert "Another tool" in stderr
            continue
        (report,) = Path(spec.parent).glob("modes/*/summary.json")
        kinds = {notice["kind"] for notice in json.loads(report.read_text())["notices"]}
        assert "gpu_shared" in kinds
