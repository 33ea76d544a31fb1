"""Whole runs of programs that go through several sizes, under the stand-in for ncu."""

import csv
import json
from pathlib import Path

import pytest
import yaml
from whole_runs import attempts

DOCS = Path(__file__).parents[1] / "docs" / "own-programs.md"
DRIVER = """#!/bin/sh
# sgemm KERNEL: launches for each of three sizes, the first of each slower, behind one that fills
# the matrices. Each version has kernels, grids and blocks of its own.
case "$1" in
  naive)  name="naive<32>"; grid=4;  factor=4 ;;
  tiled)  name="tiled<64>"; grid=2;  factor=2 ;;
  *)      name="$1"; grid=1; factor=1 ;;
esac
{{
  echo "fill | (1, 1, 1) | 100"
  for size in {sizes}; do
    for launch in $(seq {launches}); do
      time=$((size * factor * 10)); [ $launch = 1 ] && time=$((time * 9))
      echo "sgemm_$name | ($grid, $size, 1) | $time | size=$size"
    done
  done
  [ "$1" = more ] && echo "sgemm_$name | (9, 9, 9) | 7 | size=512"
}} | if [ "$1" = less ]; then head -n 9; else cat; fi >> "${{FAKE_NCU_LAUNCHES:-/dev/null}}"
echo "$*" >> "{notes}"
[ "$1" = wrong ] && {{ echo "C[3][4] is 7, not 8"; exit 1; }}
exit {code}
"""
COLLECT = {
    "device": "cpu",
    "blocks": 1,
    "metrics": [
        "duration_ns",
        "registers",
        {"name": "read_rate", "formula": "dram_read_bytes / duration_ns", "unit": "B/ns"},
    ],
    "time_limit_s": 20.0,
}
BY_ORDER = {"size": [128, 256, 512], "launches": 3, "skip": 1, "take": 1}


@pytest.fixture
def write(profiler):
    def write_spec(kernels, *, code=0, blocks=1, launches=3, sizes=(128, 256, 512), **workload):
        path = profiler.folder / "sgemm"
        text = DRIVER.format(
            notes=profiler.folder / "notes",
            code=code,
            launches=launches,
            sizes=" ".join(map(str, sizes)),
        )
        path.write_text(text)
        path.chmod(0o755)
        return profiler.write_spec(
            workload={"command": "./sgemm {kernel}", "kernel": "regex:sgemm_.*"} | workload,
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


def explained_commands(profiler):
    return [command for command in commands(profiler) if "SourceCounters" in command]


def test_commands_are_explained_part_by_part(profiler, write):
    spec = write(["naive", "tiled"], parts=BY_ORDER | {"take": 2}, blocks=2)
    explain = ["--set", "collect.explain=true"]
    done = profiler.measure(spec, *explain)
    assert done.code == 0, done.err
    assert len(explained_commands(profiler)) == 2, "one visit of each command"
    for command in explained_commands(profiler):
        assert "--launch-skip 1 --launch-count 7" in command, "one launch of each part"
    run = profiler.runs()[-1]
    why = profiler("explain", run, "--problem", "size=512", "--json", "-")
    assert why.code == 0, why.err
    assert (why.json["variant"], why.json["against"]) == ("kernel=tiled", "kernel=naive")
    assert why.json["tree"]["kernel"].startswith("sgemm_tiled<64>"), "the kernel of this part"
    assert why.json["tree"]["lines"]
    before = attempts(run)
    assert profiler.measure(spec, *explain).code == 0
    assert attempts(run) == before, "nothing is explained twice"


def test_commands_of_many_launches_are_explained_where_they_are_asked_for(profiler, write):
    parts = {"size": [128, 256, 512], "launches": 12, "skip": 1, "take": 1}
    spec = write(["naive"], parts=parts, launches=12, blocks=2)
    explain = ["--set", "collect.explain=true"]
    done = profiler.measure(spec, *explain)
    assert done.code == 0, done.err
    assert "Not explained: 1 command of" in done.err
    assert explained_commands(profiler) == []
    done = profiler.measure(spec, *explain, "--explain", "all")
    assert done.code == 0, done.err
    assert len(explained_commands(profiler)) == 1


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


def test_the_example_of_the_docs_compares_versions_size_by_size(profiler, write):
    example = yaml.safe_load(DOCS.read_text("utf-8").split("```yaml\n")[1].partition("```")[0])
    workload = example["workload"]
    assert workload["parts"] == {"size": [256, 512, 1024], "launches": 51, "skip": 1, "take": 5}
    spec = write(
        example["variants"]["matrix"]["kernel"],
        **workload,
        sizes=(256, 512, 1024),
        launches=51,
        blocks=2,
    )
    done = profiler.measure(spec)
    assert done.code == 0, done.err
    assert notes(profiler)[:2] == ["naive --verify", "tiled --verify"]
    found = by_kernel_and_size(profiler)
    sizes = (256, 512, 1024)
    assert set(found) == {(kernel, size) for kernel in ("naive", "tiled") for size in sizes}
    for size in sizes:
        naive, tiled = found["naive", size], found["tiled", size]
        assert naive["problem"] == tiled["problem"] == f"size={size}"
        assert tiled["metrics"]["duration_ns"]["median"] == pytest.approx(20 * size, rel=0.01)
        # shifted by one launch, it would be nine times as long
        assert tiled["metrics"]["duration_ns"]["ratio"] == pytest.approx(0.5, rel=0.02)
        assert naive["metrics"]["duration_ns"]["n"] == 2
    assert "read_rate" in found["naive", 256]["metrics"]
    of_size = [row for row in samples(profiler) if row["cell"].endswith("size=256")]
    counted = [row for row in of_size if row["dram_read_bytes"]]
    assert len(counted) == 10  # one visit of each variant, five launches
    for row in of_size:
        if row not in counted:
            assert row["read_rate"] == ""
            continue
        rate = float(row["dram_read_bytes"]) / float(row["duration_ns"])
        assert float(row["read_rate"]) == pytest.approx(rate)
    assert {row["repeat"] for row in of_size} == {"0", "1", "2", "3", "4"}
    assert {row["kernel_names"] for row in of_size} == {
        "sgemm_naive<32>(float *, int) (4, 256, 1)x(32, 4, 1)",
        "sgemm_tiled<64>(float *, int) (2, 256, 1)x(32, 4, 1)",
    }
    # The first visit of each variant counts all launches, the others stop behind the last taken.
    lines = commands(profiler)
    assert all("--launch-skip 1 " in line for line in lines)
    assert sum(f"--launch-count {3 * 51 - 1 + 51} " in line for line in lines) == 2
    assert sum(f"--launch-count {2 * 51 + 5} " in line for line in lines) == 6


def test_wrong_results_and_other_launches_are_outcomes_at_every_part(profiler, write):
    check = "./sgemm {kernel} --verify"
    spec = write(["naive", "wrong", "more", "less"], check=check, parts=BY_ORDER)
    done = profiler.measure(spec)
    assert done.code == 4, done.err
    checked = [f"{kernel} --verify" for kernel in ("naive", "wrong", "more", "less")]
    assert notes(profiler)[:4] == checked
    assert sorted(notes(profiler)[4:]) == ["less", "more", "naive", "naive", "naive"]
    found = by_kernel_and_size(profiler)
    wanted = "it should make 9 matching launches (3 parts of 3); it made"
    for size in (128, 256, 512):
        outcomes = {
            kernel: (found[kernel, size]["outcome"], found[kernel, size]["cause"])
            for kernel in ("naive", "wrong", "more", "less")
        }
        assert outcomes == {
            "naive": ("measured", ""),
            "wrong": ("wrong_result", "its check exited with code 1: C[3][4] is 7, not 8"),
            "more": ("parts_differ", f"{wanted} 10"),
            "less": ("parts_differ", f"{wanted} 8"),
        }
        assert not found["more", size]["metrics"]
    assert profiler.measure(spec).code == 4
    assert len(notes(profiler)) == 9  # nothing is checked or measured again


def test_parts_by_ranges_and_a_program_that_checks_itself(profiler, write):
    parts = {"ranges": "size=.*", "kernels": 1, "skip": 1}
    done = profiler.measure(write(["naive", "tiled", "wrong"], code=3, parts=parts, exit_code=3))
    assert done.code == 4, done.err
    found = by_kernel_and_size(profiler)
    for size in (128, 256, 512):
        metrics = found["tiled", size]["metrics"]
        assert metrics["duration_ns"]["median"] == pytest.approx(20 * size, rel=0.01)
        assert metrics["duration_ns"]["ratio"] == pytest.approx(0.5, rel=0.02)
        wrong = found["wrong", size]
        assert wrong["outcome"] == "wrong_result"
        assert wrong["cause"] == "the command exited with code 1: C[3][4] is 7, not 8"
    assert {row["repeat"] for row in samples(profiler)} == {"0", "1"}
    assert all("--nvtx-include 'regex:size=.*/'" in line for line in commands(profiler))


LAYERNORM = """#!/bin/sh
# layernorm_forward VERSION: one launch to validate for each block size, then twenty of each.
{{
  for block in {blocks}; do echo "layernorm_forward_kernel$1 | (8, $block, 1) | 9999"; done
  for block in {blocks}; do
    for launch in $(seq 20); do
      [ $1 = 1 ] && time=$((block * 10)) || time=$((block + 100))
      [ $launch = 1 ] && time=$((time * 9))
      echo "layernorm_forward_kernel$1 | (8, $block, 1) | $time"
    done
  done
}} >> "${{FAKE_NCU_LAUNCHES:-/dev/null}}"
"""


def test_block_sizes_in_a_loop_are_parts_whatever_the_order_of_versions(profiler):
    text = DOCS.read_text("utf-8").partition("### Block sizes in a loop")[2]
    example = yaml.safe_load(text.split("```yaml\n")[1].partition("```")[0])
    sizes = example["workload"]["parts"]["block_size"]
    path = profiler.folder / "layernorm_forward"
    path.write_text(LAYERNORM.format(blocks=" ".join(map(str, sizes))))
    path.chmod(0o755)
    changed = {"name": "mine", "variants": {"matrix": {"version": [2, 1]}}, "baseline": "version=1"}
    collect = {**COLLECT, "metrics": ["duration_ns"]}
    spec = profiler.write_spec(**{**example, **changed, "collect": collect})
    done = profiler.measure(spec)
    assert done.code == 0, done.err
    found = {
        (cell["variant_params"]["version"], cell["problem_params"]["block_size"]): cell
        for cell in cells(profiler)
    }
    assert set(found) == {(version, size) for version in (1, 2) for size in sizes}
    for size in sizes:
        metric = found[2, size]["metrics"]["duration_ns"]
        assert metric["median"] == pytest.approx(size + 100, rel=0.01)
        assert metric["ratio"] == pytest.approx((size + 100) / (10 * size), rel=0.02)
