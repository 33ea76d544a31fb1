"""Whole runs of programs that go through several sizes, under the stand-in for ncu."""

import csv
import json

import pytest
from whole_runs import attempts

DRIVER = """#!/bin/sh
# sgemm KERNEL: three launches for each of three sizes, the first of each slower, behind one that
# fills the matrices. Each version has kernels, grids and blocks of its own.
case "$1" in
  naive)  name="naive<32>"; grid=4;  factor=4 ;;
  tiled)  name="tiled<64>"; grid=2;  factor=2 ;;
  odd)    name="odd"; grid=1; factor=1; more=1 ;;
  few)    name="few"; grid=1; factor=1; less=1 ;;
esac
{{
  echo "fill | (1, 1, 1) | 100"
  for size in 128 256 512; do
    for launch in warm one two; do
      time=$((size * factor * 10)); [ $launch = warm ] && time=$((time * 9))
      echo "sgemm_$name | ($grid, $size, 1) | $time | size=$size"
    done
  done
  [ -n "$more" ] && echo "sgemm_$name | (9, 9, 9) | 7 | size=512"
}} | if [ -n "$less" ]; then head -n 9; else cat; fi >> "${{FAKE_NCU_LAUNCHES:-/dev/null}}"
echo "$*" >> "{notes}"
[ "$1 $2" = "odd --verify" ] && {{ echo "C[3][4] is 7, not 8"; exit 1; }}
exit {code}
"""
COLLECT = {
    "device": "cpu",
    "blocks": 1,
    "metrics": ["duration_ns", "registers"],
    "time_limit_s": 20.0,
}
BY_ORDER = {"size": [128, 256, 512], "launches": 3, "skip": 1, "take": 1}


@pytest.fixture
def write(profiler):
    def write_spec(kernels, *, code=0, blocks=1, **workload):
        path = profiler.folder / "sgemm"
        path.write_text(DRIVER.format(notes=profiler.folder / "notes", code=code))
        path.chmod(0o755)
        return profiler.write_spec(
            workload={"command": "./sgemm {kernel}", "kernel": "regex:sgemm_.*", **workload},
            variants={"matrix": {"kernel": kernels}},
            collect={**COLLECT, "blocks": blocks},
        )

    return write_spec


def cells(profiler):
    return json.loads((profiler.runs()[-1] / "summary.json").read_text())["cells"]


def by_kernel_and_size(profiler):
    found = {}
    for cell in cells(profiler):
        key = cell["variant_params"]["kernel"], cell["problem_params"].get("size")
        assert key not in found
        found[key] = cell
    return found


def samples(profiler):
    with (profiler.runs()[-1] / "samples.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def notes(profiler):
    return (profiler.folder / "notes").read_text().splitlines()


def commands(profiler):
    return [
        (attempt / "command.txt").read_text()
        for attempt in attempts(profiler.runs()[-1])
        if attempt.name.startswith("ncu")
    ]


def test_parts_by_order_are_problems_that_versions_are_compared_at(profiler, write):
    done = profiler.measure(write(["naive", "tiled"], blocks=2, parts=BY_ORDER))
    assert done.code == 0, done.err
    found = by_kernel_and_size(profiler)
    sizes = (128, 256, 512)
    assert set(found) == {(kernel, size) for kernel in ("naive", "tiled") for size in sizes}
    for size in sizes:
        naive, tiled = found["naive", size], found["tiled", size]
        assert naive["problem"] == tiled["problem"] == f"size={size}"
        assert tiled["metrics"]["duration_ns"]["median"] == pytest.approx(20 * size, rel=0.01)
        # shifted by one launch, it would be nine times as long
        assert tiled["metrics"]["duration_ns"]["ratio"] == pytest.approx(0.5, rel=0.02)
        assert naive["metrics"]["duration_ns"]["n"] == 2
    assert {row["kernel_names"] for row in samples(profiler) if "size=128" in row["cell"]} == {
        "sgemm_naive<32>(float *, int) (4, 128, 1)x(32, 4, 1)",
        "sgemm_tiled<64>(float *, int) (2, 128, 1)x(32, 4, 1)",
    }
    # The first visit of each variant counts all launches, the others stop behind the last taken.
    windows = sorted("--launch-count 11 " in line for line in commands(profiler))
    assert windows == [False] * 4 + [True] * 2
    assert all("--launch-skip 1 " in line for line in commands(profiler))
    assert sum("--launch-count 7 " in line for line in commands(profiler)) == 4


def test_another_number_of_launches_is_an_outcome_and_shifts_nothing(profiler, write):
    done = profiler.measure(write(["naive", "odd", "few"], parts=BY_ORDER))
    assert done.code == 4, done.err
    found = by_kernel_and_size(profiler)
    # a variant that failed says so at each part that the others have
    assert len(found) == 9
    assert {found["naive", size]["outcome"] for size in (128, 256, 512)} == {"measured"}
    for kernel, made in (("odd", 10), ("few", 8)):
        for size in (128, 256, 512):
            cell = found[kernel, size]
            assert cell["outcome"] == "parts_differ"
            wanted = "it should make 9 matching launches (3 parts of 3)"
            assert cell["cause"] == f"{wanted}; it made {made}"
            assert not cell["metrics"]


def test_parts_by_ranges_take_every_kernel_in_a_range(profiler, write):
    done = profiler.measure(
        write(["naive", "tiled"], parts={"ranges": "size=.*", "kernels": 1, "skip": 1})
    )
    assert done.code == 0, done.err
    found = by_kernel_and_size(profiler)
    assert len(found) == 6
    for size in (128, 256, 512):
        metrics = found["tiled", size]["metrics"]
        assert metrics["duration_ns"]["median"] == pytest.approx(20 * size, rel=0.01)
        assert metrics["duration_ns"]["ratio"] == pytest.approx(0.5, rel=0.02)
    assert {row["repeat"] for row in samples(profiler)} == {"0", "1"}
    assert all("--nvtx-include 'regex:size=.*/'" in line for line in commands(profiler))


def test_a_check_is_run_once_before_anything_is_measured(profiler, write):
    spec = write(["naive", "odd"], check="./sgemm {kernel} --verify", parts=BY_ORDER)
    done = profiler.measure(spec)
    assert done.code == 4, done.err
    assert notes(profiler)[:2] == ["naive --verify", "odd --verify"]
    assert notes(profiler)[2:] == ["naive"] * 2
    found = by_kernel_and_size(profiler)
    for size in (128, 256, 512):
        assert found["odd", size]["outcome"] == "wrong_result"
        cause = found["odd", size]["cause"]
        assert cause == "its check exited with code 1: C[3][4] is 7, not 8"
        assert found["naive", size]["outcome"] == "measured"

    assert profiler.measure(spec).code == 4
    assert len(notes(profiler)) == 4  # nothing is checked or measured again


@pytest.mark.parametrize(("expected", "outcome"), [(3, "measured"), (0, "wrong_result")])
def test_an_exit_code_may_be_expected(profiler, write, expected, outcome):
    done = profiler.measure(write(["naive"], code=3, parts=BY_ORDER, exit_code=expected))
    assert {cell["outcome"] for cell in cells(profiler)} == {outcome}, done.err
