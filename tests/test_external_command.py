"""Whole runs of a program that is not ours, under the stand-in for ncu."""

import csv
import json

import pytest
from whole_runs import attempts

from profiler.collect import STDOUT
from profiler.sessions.program import printed_doubt

PROGRAM = """#!/bin/sh
# Notes its arguments and its folder, and ends as its first argument says.
echo "$PWD $*" >> "{notes}"
case "$1" in
  bad) echo "no device memory left" >&2; exit 3 ;;
  hang) exec sleep 600 ;;
  crash) kill -SEGV $$ ;;
  doubt) echo "0 failed so far"; echo "Mismatch at 0: 1.5 against 2.5" ;;
esac
"""
COLLECT = {"device": "cpu", "blocks": 2, "metrics": ["duration_ns", "registers"]}
THREE = {"FAKE_NCU_KERNELS": "init,sgemm_a,sgemm_b"}


@pytest.fixture
def program(profiler):
    """The program, in a folder of its own."""
    folder = profiler.folder / "their code"
    folder.mkdir()
    path = folder / "sgemm"
    path.write_text(PROGRAM.format(notes=profiler.folder / "notes"))
    path.chmod(0o755)
    return path


@pytest.fixture
def write(profiler, program):
    def write_spec(
        kernels, command="./sgemm {kernel} --size={size} 'a word'", collect=COLLECT, **workload
    ):
        return profiler.write_spec(
            workload={"command": command, "cwd": "their code", **workload},
            variants={"matrix": {"kernel": kernels}},
            problems={"matrix": {"size": [64]}},
            collect={**collect, "time_limit_s": 2.0},
        )

    return write_spec


def summary(profiler):
    return json.loads((profiler.runs()[-1] / "summary.json").read_text())


def kernels_seen(profiler):
    with (profiler.runs()[-1] / "samples.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    return {(row["cell"].partition("..")[0], row["kernel_names"]) for row in rows}


def notes(profiler):
    return (profiler.folder / "notes").read_text().splitlines()


def test_each_kernel_is_a_row_and_only_another_program_is_measured_again(profiler, program, write):
    spec = write(["one", "two"])
    done = profiler(spec, **THREE)
    assert done.code == 0, done.err
    folder = profiler.folder / "their code"
    expected = [f"{folder} {kernel} --size=64 a word" for kernel in ("one", "two")]
    # two blocks, the baseline twice in each
    assert sorted(notes(profiler)) == sorted([*expected * 2, *expected[:1] * 2])

    cells = summary(profiler)["cells"]
    assert len({cell["id"] for cell in cells}) == 6
    shown = {
        (cell["variant_params"]["kernel"], name)
        for cell in cells
        for name in ("init", "sgemm_a", "sgemm_b")
        if cell["problem_params"]["launch_kernel"].startswith(name)
    }
    assert len(shown) == 6, [cell["problem"] for cell in cells]
    for cell in cells:
        assert cell["outcome"] == "measured"
        assert cell["metrics"]["duration_ns"]["n"] == 2
        assert cell["metrics"]["kernels"]["median"] == 1
        assert cell["problem_params"]["size"] == 64
        assert cell["metrics"]["duration_ns"]["ratio"] is not None  # the same kernel of the other
    page = (profiler.runs()[-1] / "index.html").read_text()
    assert "sgemm_a" in page
    assert str(profiler.folder) not in page

    again = profiler.measure(spec, **THREE)
    assert again.code == 0
    assert len(notes(profiler)) == 6
    assert "nothing is missing" in again.err

    program.write_text(program.read_text() + "# another version\n")
    assert profiler.measure(spec, **THREE).code == 0
    assert len(notes(profiler)) == 12


def test_a_program_is_explained_once(profiler, write):
    """Also where a confirmation might have come between, which has no visits here."""
    spec = write(["a", "b"], collect={**COLLECT, "explain": True, "blocks": 6})
    done = profiler.measure(spec, FAKE_NCU_KERNELS="sgemm")
    assert done.code == 0, done.err
    explained = [
        json.loads((folder / "session.json").read_text())["visit"]["cell"]
        for folder in attempts(profiler.runs()[-1])
        if folder.name.startswith("ncu-explain")
    ]
    assert len(explained) == len(set(explained)) == 2


def test_filter_skip_and_count_reach_the_tool(profiler, write):
    spec = write(["a", "b"], kernel="regex:init|sgemm_{kernel}", launch_skip=1, launch_count=1)
    done = profiler.measure(spec, **THREE)
    assert done.code == 0, done.err
    assert kernels_seen(profiler) == {
        ("kernel=a", "sgemm_a(float *, int)"),
        ("kernel=b", "sgemm_b(float *, int)"),
    }


def test_failures_cost_one_cell_each(profiler, write):
    done = profiler.measure(write(["good", "bad", "hang", "crash", "fine"]), **THREE)
    assert done.code == 4, done.err
    found = {}
    for cell in summary(profiler)["cells"]:
        found.setdefault(cell["variant_params"]["kernel"], []).append(cell)
    assert {key: {cell["outcome"] for cell in cells} for key, cells in found.items()} == {
        "good": {"measured"},
        "bad": {"crashed"},
        "hang": {"timed_out"},
        "crash": {"crashed"},
        "fine": {"measured"},
    }
    assert "exited with code 3: no device memory left" in found["bad"][0]["cause"]
    assert "SIGSEGV" in found["crash"][0]["cause"]
    for name in ("bad", "hang", "crash"):
        assert "no device memory" not in found[name][0]["cause"] or name == "bad"
    tried = [line.split()[-4] for line in notes(profiler)]
    assert sorted(tried) == ["bad", "crash", "fine", "fine", *["good"] * 4, "hang"]
    run = profiler.runs()[-1]
    assert any("no device memory" in (a / "stderr.txt").read_text() for a in attempts(run))


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ({"command": "./sgemm {kernal} {size}"}, "did you mean 'kernel'"),
        ({"command": "./sgemm {kernel!r}"}, "not a plain name"),
        ({"command": "./sgemmm {kernel}"}, "no program './sgemmm'"),
        ({"kernel": "regex:("}, "not a regular expression"),
        ({"cwd": "nowhere"}, "nowhere"),
    ],
)
def test_a_wrong_command_is_refused_before_anything_runs(profiler, write, workload, message):
    done = profiler.measure(write(["one"], **workload), **THREE)
    assert done.code == 2, done.err
    assert message in done.err
    assert not (profiler.folder / "notes").exists()


# ---- which launches count ------------------------------------------------------------------------


def launching(profiler, launches):
    """A program in the run's folder whose argument says which launches it makes."""
    made = {
        name: "".join(f"{kernel} | (128, 1, 1) | {time}\n" for kernel, time in kernels)
        for name, kernels in launches.items()
    }
    for name, lines in made.items():
        (profiler.folder / f"{name}.txt").write_text(lines)
    path = profiler.folder / "program"
    path.write_text('#!/bin/sh\ncat "$1.txt" >> "${FAKE_NCU_LAUNCHES:-/dev/null}"\n')
    path.chmod(0o755)


def spec_of_launches(profiler, versions, blocks, **workload):
    return profiler.write_spec(
        workload={"command": "./program {version}", **workload},
        variants={"matrix": {"version": versions}},
        collect={**COLLECT, "blocks": blocks},
    )


@pytest.mark.parametrize("versions", [["naive", "cublas"], ["cublas", "naive"]])
def test_a_filter_that_fits_only_some_versions_fails_the_others_in_any_order(profiler, versions):
    launching(profiler, {"naive": [("sgemm_a", 9000)], "cublas": [("ampere_sgemm", 5000)]})
    spec = spec_of_launches(profiler, versions, 2, kernel="regex:sgemm_.*")
    done = profiler.measure(spec, "--json", "-")
    assert done.code == 4, done.err
    outcomes = {cell["variant_params"]["version"]: cell["outcome"] for cell in done.json["cells"]}
    assert outcomes == {"naive": "measured", "cublas": "no_kernel"}
    assert not any(notice["kind"] == "csv_unreadable" for notice in done.json["notices"])


def test_a_filter_that_fits_no_version_is_an_error(profiler):
    launching(profiler, {"one": [("sgemm_a", 9000)], "two": [("sgemm_b", 5000)]})
    done = profiler.measure(spec_of_launches(profiler, ["one", "two"], 2, kernel="gemm"))
    assert done.code == 3
    assert "no kernel to profile" in done.err


TRIALS = [("gemm", time) for time in (*(300_000,) * 5, *(90_000,) * 5, *(400_000,) * 5)]


@pytest.mark.parametrize("skip", [0, 15])
def test_trials_of_an_autotuner_are_no_verdict(profiler, skip):
    launches = {"fixed": [("gemm", 100_000)] * 18, "auto": [*TRIALS, *[("gemm", 90_000)] * 3]}
    launching(profiler, launches)
    spec = spec_of_launches(profiler, ["fixed", "auto"], 2, kernel="gemm", launch_skip=skip)
    done = profiler.measure(spec, "--json", "-")
    assert done.code == 0, done.err
    (auto,) = (c for c in done.json["cells"] if c["variant_params"]["version"] == "auto")
    mixed = [n for n in done.json["notices"] if n["kind"] == "mixed_launches"]
    if skip:
        assert not mixed
        assert auto["metrics"]["duration_ns"]["reason"] != "mixed_launches"
    else:
        assert "up to 4.4 times, in 1 cell (version=auto at default)" in mixed[0]["text"]
        duration = auto["metrics"]["duration_ns"]
        assert (duration["verdict"], duration["reason"]) == ("unclear", "mixed_launches")


def test_what_reads_as_a_wrong_result_is_said_and_so_are_unchecked_results(profiler, write):
    def said(check):
        done = profiler.measure(write(["one"], check=check), "--json", "-", FAKE_NCU_KERNELS="init")
        assert done.code == 0, done.err
        kinds = ("doubted_results", "results_unchecked")
        return {n["kind"]: n["text"] for n in done.json["notices"] if n["kind"] in kinds}

    assert said("./sgemm fine {kernel}") == {}
    assert said("./sgemm doubt {kernel}") == {
        "doubted_results": "1 process ended as after success, and printed what reads as a wrong "
        "result: Mismatch at 0: 1.5 against 2.5 (check.001)."
    }
    assert [*said(None)] == ["results_unchecked"]


@pytest.mark.parametrize(
    ("line", "doubts"),
    [
        ("Result = FAIL", True),
        ("Arrays do not match.", True),
        ("The results don't match!", True),
        ("Verification FAILED at element 0", True),
        ("mismatches: 12", True),
        ("5 tests failed", True),
        ("PASS", False),
        ("mismatches: 0", False),
        ("wrong elements = 0.000", False),
        ("0 failed", False),
        ("no mismatch", False),
        ("failed to lock the clocks", False),
        ("==WARNING== Failed", False),
    ],
)
def test_lines_that_read_as_a_wrong_result(tmp_path, line, doubts):
    (tmp_path / STDOUT).write_text(f"first line\n{line}\n")
    assert (printed_doubt(tmp_path) == line) is doubts


def test_a_plan_says_that_results_are_unchecked(profiler, program, write):
    assert "Results are unchecked" in profiler("plan", write(["one"])).err
    assert "unchecked" not in profiler("plan", write(["one"], check="./sgemm check")).err
    assert "unchecked" not in profiler("plan", write(["one"], exit_code=0)).err
