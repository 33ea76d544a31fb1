"""Explain sessions as a run makes them, with the stand-in for ncu."""

import gzip
import json

import pytest
from whole_runs import TESTS, attempts, unpacked, visits_of

from profiler.parse.runner_journal import read_journal

ENDINGS = str(TESTS / "workloads/endings.py")
NAMES = ("well", "second", "third")
PAGES = {"rules.csv.gz", "sass.csv.gz", "source.csv.gz", "series.json.gz"}
SETTINGS = {"device": "cpu", "blocks": 2, "metrics": ["duration_ns", "cycles"], "warmups": 0}
TIMES = {"FAKE_NCU_TIMES": "well=9000,second=7000,third=8000"}


def three_versions(profiler, problems=None, **settings):
    """Spec of three versions of one kernel, that are explained."""
    return profiler.write_spec(
        workload=ENDINGS,
        variants={"list": [{"name": how, "params": {"how": "well", "nth": how}} for how in NAMES]},
        problems=problems or {"matrix": {"rows": [4]}},
        baseline="well",
        collect={**SETTINGS, "explain": True, **settings},
    )


@pytest.fixture(scope="module")
def explained(tmp_path_factory, command_line):
    """A run of three versions at two problems: command line, spec and what it said."""
    profiler = command_line(tmp_path_factory.mktemp("explained"))
    spec = three_versions(profiler)
    done = profiler.measure(spec, **TIMES)
    assert done.code == 0, done.err
    return profiler, spec, done


def explain_folders(run):
    return [folder for folder in attempts(run) if folder.name.startswith("ncu-explain")]


def test_the_best_and_the_baseline_are_explained_with_pages(explained):
    profiler, _, done = explained
    (run,) = profiler.runs()
    (folder,) = explain_folders(run)
    assert sorted(cell for cell, *_ in visits_of(folder)) == ["second..rows=4", "well..rows=4"]
    assert {file.name for file in folder.iterdir()} >= PAGES
    assert "ncu-explain" in done.err
    summary = json.loads((run / "summary.json").read_text())
    assert summary["answer"]["why"]["variant"] == "second"
    assert "ncu-explain" in summary["seconds"]


def test_explain_prints_the_why_of_a_run(explained):
    profiler, _, _ = explained
    (run,) = profiler.runs()
    done = profiler("explain", run, "--json", "-")
    assert done.code == 0, done.err
    assert (done.json["variant"], done.json["against"]) == ("second", "well")
    assert done.json["tree"]["lines"][0]["file"] == "reduce.cu"
    inside = done.json["tree"]["inside"]
    assert (inside["ramp_ns"], inside["tail_ns"]) == (1500, 3000)
    assert inside["clock_ghz"] == pytest.approx(1.6)
    assert len(done.out.encode()) <= 4096
    text = profiler("explain", run, "--variant", "well").out
    assert "reduce.cu:10" in text


def test_a_problem_that_is_explained_keeps_its_place_among_equals(command_line, tmp_path):
    profiler = command_line(tmp_path)
    spec = three_versions(profiler, problems={"matrix": {"rows": [4, 8]}})
    assert profiler.measure(spec, "--explain", "rows=8", **TIMES).code == 0
    (run,) = profiler.runs()
    (folder,) = explain_folders(run)
    again = profiler.measure(spec, **TIMES)
    assert "ncu-explain, why: nothing is missing" in again.err
    assert explain_folders(run) == [folder]


def test_going_on_explains_nothing_twice_and_adds_what_is_asked_for(explained):
    profiler, spec, _ = explained
    (run,) = profiler.runs()
    before = attempts(run)
    again = profiler.measure(spec, **TIMES)
    assert again.code == 0, again.err
    assert "ncu-explain, why: nothing is missing" in again.err
    assert attempts(run) == before
    assert profiler.measure(spec, "--no-explain", **TIMES).code == 0
    assert attempts(run) == before

    more = profiler.measure(spec, "--explain", "all", **TIMES)
    assert more.code == 0, more.err
    assert profiler.runs() == [run]
    (_, added) = explain_folders(run)
    assert [cell for cell, *_ in visits_of(added)] == ["third..rows=4"]

    wrong = profiler.measure(spec, "--explain", "fourth", **TIMES)
    assert wrong.code == 2
    assert "no cell and no problem is called 'fourth'" in wrong.err


def test_a_profiler_that_was_killed_after_ncu_prints_the_pages_when_it_goes_on(explained):
    profiler, spec, _ = explained
    (run,) = profiler.runs()
    folder = explain_folders(run)[0]
    pages = {name: (folder / name).read_bytes() for name in PAGES}
    # What lies there when ncu has ended and nothing else was done.
    (folder / "result.json").unlink()
    for name in ("ncu.csv", "report.ncu-rep"):
        packed = folder / f"{name}.gz"
        (folder / name).write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    for name in PAGES:
        (folder / name).unlink()
    done = profiler.measure(spec, **TIMES)
    assert done.code == 0, done.err
    assert "ncu-explain, why: nothing is missing" in done.err
    assert {name: (folder / name).read_bytes() for name in PAGES} == pages
    assert "reduce.cu:10" in profiler("explain", run, "--variant", "well").out


def test_a_recording_has_the_pages_and_explains_the_same(explained):
    profiler, _, _ = explained
    (run,) = profiler.runs()
    target = profiler.folder / "recorded.zip"
    assert profiler("record", run, target).code == 0
    (folder, *_) = explain_folders(unpacked(target))
    assert {file.name for file in folder.iterdir()} >= PAGES
    source = gzip.decompress((folder / "source.csv.gz").read_bytes()).decode()
    assert "SOURCES1/reduce.cu" in source
    assert "somebody" not in source
    first, second = (profiler("explain", place, "--json", "-").json for place in (run, target))
    assert first == second


def test_nothing_is_explained_where_it_is_switched_off(profiler):
    variants = {"list": [{"name": "well", "params": {"how": "well"}}]}
    spec = profiler.write_spec(
        workload=ENDINGS,
        variants=variants,
        problems={"matrix": {"rows": [4]}},
        collect={**SETTINGS, "metrics": ["duration_ns", "cycles", "roofline"]},
    )
    assert profiler.measure(spec).code == 0
    (run,) = profiler.runs()
    assert not explain_folders(run)
    assert not roof_records(run)
    done = profiler("explain", run)
    assert done.code == 2
    assert "nothing was explained in this run" in done.err


def roof_records(run):
    """Events and roofs of the journals of a run, in their order."""
    records = [
        record for folder in attempts(run) for record in read_journal(folder / "journal.jsonl")
    ]
    return [
        (record["event"], record["roof"])
        for record in records
        if record["event"].startswith("roof_")
    ]


def test_practical_roofs_are_measured_once_in_a_run_beside_its_cells(profiler):
    spec = three_versions(profiler, metrics=["duration_ns", "cycles", "roofline"])
    assert profiler.measure(spec, "--only", "variant=well", **TIMES).code == 0
    (run,) = profiler.runs()
    roofs = ["dram", "tensor_bf16", "tensor_fp16", "tensor_tf32", "fp32"]
    first = [(event, roof) for roof in roofs for event in ("roof_started", "roof_finished")]
    assert roof_records(run) == first
    done = profiler.measure(spec, **TIMES)
    assert done.code == 0, done.err
    assert profiler.runs() == [run]
    assert roof_records(run) == first, "what another attempt measured is not measured again"
    summary = json.loads((run / "summary.json").read_text())
    assert [roof["name"] for roof in summary["practical_roofs"]] == roofs
    assert {cell["variant"] for cell in summary["cells"]} == set(NAMES)
    practical = {roof["name"]: roof["share_pct"] for roof in summary["practical_roofs"]}
    tree = profiler("explain", run, "--json", "-").json["tree"]
    near = [roof for roof in tree["roofs"] if roof["name"] in practical]
    assert near
    for roof in near:
        share = 100 * roof["share_pct"] / practical[roof["name"]]
        assert roof["practical_pct"] == pytest.approx(share, rel=1e-3)
    assert "what a matrix product of torch reached" in profiler("explain", run).out


def test_a_version_of_ncu_without_a_section_costs_the_why_and_nothing_else(profiler):
    spec = three_versions(profiler, blocks=6, final_blocks=6)
    done = profiler.measure(spec, FAKE_NCU_NO_SECTION="WorkloadDistribution", **TIMES)
    assert done.code == 0, done.err
    assert done.err.count("Not explained: ncu does not know a section") == 1
    assert "ncu-final" in done.err
    (run,) = profiler.runs()
    summary = json.loads((run / "summary.json").read_text())
    assert {cell["outcome"] for cell in summary["cells"]} == {"measured"}
    assert summary["answer"]["why"] is None
