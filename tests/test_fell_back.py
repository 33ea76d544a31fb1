"""A variant whose kernels are not its own: decided once, while it is measured, for every reader."""

import json
import shutil

import pytest
from whole_runs import TESTS, attempts, visits_of

SPACE = """\
from pathlib import Path


def check_kernels(variant, problem, kernels):
    with (Path(__file__).parent / "asked").open("a") as stream:
        stream.write("x")
    return "ran another kernel" if kernels[0].startswith("quick") else None
"""
TIMES = {"FAKE_NCU_TIMES": "base=100000,quick=50000,twin=70000,slow=130000"}
QUICK = "quick..rows=4"


@pytest.fixture(scope="module")
def measured(tmp_path_factory, command_line):
    """A finished run with looks and a final, whose quickest variant fell back."""
    profiler = command_line(tmp_path_factory.mktemp("fell_back"))
    own = profiler.folder / "own"
    own.mkdir()
    shutil.copy(TESTS / "workloads/endings.py", own / "mine.py")
    (own / "sp.py").write_text(SPACE)
    spec = profiler.write_spec(
        workload={"module": "./mine.py", "space": "./sp.py"},
        variants={"list": [{"name": n, "params": {"how": n}} for n in ("base", "quick", "twin")]},
        problems={"matrix": {"rows": [4]}},
        collect={
            "device": "cpu",
            "blocks": [6, 12],
            "final_blocks": 6,
            "metrics": ["cycles", "l2_hit_pct"],
            "warmups": 0,
        },
    ).rename(own / "mine.yaml")
    done = profiler.measure(spec, "--json", "-", **TIMES)
    return profiler, spec, done


def said(document):
    """What two readers must agree on."""
    outcomes = {cell["id"]: (cell["outcome"], cell["cause"]) for cell in document["cells"]}
    ranks = {cell["id"]: cell["metrics"]["duration_ns"]["rank"] for cell in document["cells"]}
    return outcomes, ranks


def test_it_exits_4_and_is_not_ranked(measured):
    _, _, done = measured
    assert done.code == 4, done.err
    outcomes, ranks = said(done.json)
    assert outcomes[QUICK] == ("fell_back", "ran another kernel")
    assert ranks[QUICK] is None
    assert ranks["twin..rows=4"] == 1


def test_it_gets_no_further_looks_and_no_place_in_the_final(measured):
    profiler, _, _ = measured
    (run,) = profiler.runs()
    visits = {each.name: {v[0] for v in visits_of(each)} for each in attempts(run)}
    # Counters may have begun before the report of the first look was there, which named the kernel.
    measured_in = {name for name, cells in visits.items() if QUICK in cells}
    assert measured_in - {"ncu-counters-together.001"} == {"ncu-timing.001"}
    assert "twin..rows=4" in visits["ncu-final.001"]


def test_the_report_of_the_folder_says_the_same_and_asks_nobody(measured):
    profiler, _, done = measured
    (run,) = profiler.runs()
    asked = (profiler.folder / "own/asked").read_text()
    again = profiler("report", run, "--json", "-")
    assert again.code == 4, again.err
    assert said(again.json) == said(done.json)
    assert (profiler.folder / "own/asked").read_text() == asked


def test_so_does_its_recording_where_the_workload_is_absent(measured, tmp_path, command_line):
    profiler, _, done = measured
    (run,) = profiler.runs()
    elsewhere = command_line(tmp_path)
    assert elsewhere("record", run, tmp_path / "recorded.zip").code == 0
    again = elsewhere("report", tmp_path / "recorded.zip", "--json", "-")
    assert again.code == 4, again.err
    assert said(again.json) == said(done.json)


def test_resume_decides_what_a_killed_profiler_left_undecided(measured, tmp_path):
    profiler, spec, done = measured
    (run,) = profiler.runs()
    out = tmp_path / "reports"
    left = out / "mine" / run.name
    shutil.copytree(run, left)
    for attempt in attempts(left):
        if attempt.name != "ncu-timing.001":
            shutil.rmtree(attempt)
    for name in ("kernels.json", "result.json"):
        (left / "raw/ncu-timing.001" / name).unlink()
    again = profiler.measure(spec, "--out", out, "--json", "-", **TIMES)
    assert again.code == 4, again.err
    assert said(again.json)[0] == said(done.json)[0]
    decided = json.loads((left / "raw/ncu-timing.001/kernels.json").read_text())
    assert decided == {
        "fell_back": {QUICK: "ran another kernel"},
        "no_kernel": [],
        "undecided": [],
    }
    later = [each for each in attempts(left) if each.name != "ncu-timing.001"]
    assert later
    assert QUICK not in {visit[0] for each in later for visit in visits_of(each)}
