"""A real run by several timers on a CPU: one is judged, the others stand beside it."""

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from profiler.notices import NoticeKind

ENDINGS = str(Path(__file__).parent / "workloads/endings.py")
TIMERS = ["wall_clock", "torch_kernels", "timer"]
WELL = {"well": "well", "also": "also"}


def write_spec(profiler, rows, how=WELL, **collect):
    """An experiment on the CPU whose variants end as `how` says, by name."""
    variants = [{"name": name, "params": {"how": ending}} for name, ending in how.items()]
    return profiler.write_spec(
        workload=ENDINGS,
        variants={"list": variants},
        problems={"matrix": {"rows": rows}},
        collect={"device": "cpu", **collect},
    )


def test_the_same_cells_by_three_timers(profiler):
    spec = write_spec(
        profiler, [4, 8], collectors=TIMERS, blocks=2, repeats=2, metrics=["duration_ns"]
    )
    done = profiler.measure(spec, "--json", "-")
    assert done.code == 0, done.err
    (run,) = profiler.runs()
    names = sorted(folder.name for folder in (run / "raw").iterdir())
    assert [name.rpartition(".")[0] for name in names] == ["timer", "torch-kernels", "wall-clock"]
    for cell in done.json["cells"]:
        assert cell["outcome"] == "measured"
        found = {name: cell["metrics"][name]["median"] for name in cell["metrics"]}
        assert found["duration_ns"] > 0
        assert {"profiler_duration_ns", "wall_clock_duration_ns"} <= found.keys()
        assert "timer_duration_ns" not in found, "it is the one that gives the duration"
        assert cell["metrics"]["duration_ns"]["n"] == 2
    report = profiler("report", run)
    assert report.code == 0, report.err
    page = (run / "index.html").read_text()
    assert 'id="timers"' in page
    assert "wall clock \u00f7 CUDA events" in page


@pytest.mark.parametrize(("device", "is_told"), [("auto", True), ("cpu", False)])
def test_times_of_the_cpu_are_told_where_a_gpu_was_looked_for(profiler, device, is_told):
    """The answer of `--timer` was the same with and without a GPU."""
    spec = write_spec(profiler, [4], device=device, blocks=2, repeats=1, metrics=["duration_ns"])
    done = profiler(spec, "--timer", "--no-report", "--json", "-", CUDA_VISIBLE_DEVICES="")
    assert done.code == 0, done.err
    (notices,) = {tuple(notice["kind"] for notice in done.json["notices"])}
    assert (NoticeKind.NO_GPU_VISIBLE.key in notices) is is_told
    assert ("No NVIDIA GPU was visible: these are times of the CPU" in done.err) is is_told


def test_ncu_only_counts_and_the_timer_is_judged(profiler):
    spec = write_spec(
        profiler,
        [4],
        collectors=["timer", "ncu"],
        ncu_timing=False,
        blocks=6,
        final_blocks=0,
        repeats=2,
        metrics=["duration_ns", "cycles", "registers"],
    )
    done = profiler(spec, "--json", "-")
    assert done.code == 0, done.err
    (run,) = profiler.runs()
    with (run / "samples.csv").open(newline="") as stream:
        rows = [(row["collector"], row["kind"]) for row in csv.DictReader(stream)]
    # Six blocks with the baseline twice, each visit of two launches; ncu once a cell.
    assert Counter(rows) == {("timer", "timing"): 36, ("ncu", "counters"): 2}
    for cell in done.json["cells"]:
        found = cell["metrics"]
        assert (found["duration_ns"]["n"], found["registers"]["n"]) == (6, 1)
        assert not any(name.endswith("_duration_ns") for name in found)
    _, other = done.json["cells"]
    assert other["metrics"]["duration_ns"]["verdict"] is not None


def test_one_process_makes_all_sessions_of_a_timer(profiler):
    """And one that ends before its time costs another start, and nothing that was measured."""
    spec = write_spec(
        profiler,
        [4],
        {**WELL, "bad": "segfault"},
        collectors=["timer", "torch_kernels"],
        blocks=6,
        final_blocks=6,
        metrics=["duration_ns", "registers"],
    )
    done = profiler.measure(spec, "--json", "-")
    assert done.code == 4, done.err
    assert [cell["missing_metrics"] for cell in done.json["cells"] if cell["metrics"]] == [
        ["registers"]
    ] * 2, "what no timer counts"
    (run,) = profiler.runs()
    journals = {
        folder.name: list(map(json.loads, (folder / "journal.jsonl").read_text().splitlines()))
        for folder in (run / "raw").iterdir()
    }
    journals = dict(sorted(journals.items(), key=lambda named: named[1][0]["time"]))
    processes = {name: records[0]["pid"] for name, records in journals.items()}
    names = [name.rpartition(".")[0] for name in processes]
    assert names == ["timer", "timer", "timer-final", "torch-kernels"]
    crashed, first, final, others = processes.values()
    assert first == final, "the confirmation goes on in the process of the blocks"
    assert len({crashed, first, others}) == 3
    opened = [
        {record["file"] for record in records if record["event"] == "opened"}
        for records in journals.values()
    ]
    assert opened[1]
    assert opened[1] == opened[2], "each session says what its numbers depend on"
    assert not list(run.glob("raw/*/orders.jsonl"))
    outcomes = {cell["variant"]: cell["outcome"] for cell in done.json["cells"]}
    assert outcomes == {"well": "measured", "also": "measured", "bad": "crashed"}
