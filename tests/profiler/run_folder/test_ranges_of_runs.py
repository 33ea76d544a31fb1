"""From the CSV of a run folder to the counters by range in its report."""

import json
import re

import pytest
from run_folders import ncu_csv

from profiler.commands.output import dump, report_document
from profiler.findings.find import find
from profiler.run_folder.archive import open_run
from profiler.run_folder.load.assemble import assemble
from profiler.run_folder.recording import write_recording

PLAIN, TREE = "plain..small", "tree..small"


def with_ranges(place, name, *inner):
    """What ncu prints for a session whose kernels ran inside these ranges, in turn."""
    session = place.session(name)
    text = ncu_csv(place.visits(name), session.metrics, kernels=len(inner))
    lines = text.splitlines(keepends=True)
    rows = [number for number, line in enumerate(lines) if "<default domain>:cell=" in line]
    for place_in_turn, number in enumerate(rows):
        items = "".join(
            f'  ""<default domain>:{part}:none:none:none:none:none:none""'
            for part in inner[place_in_turn % len(inner)]
        )
        # An item ends with `"" `, the last of its cell with `"" "`.
        lines[number] = re.sub(
            r'(""<default domain>:cell=[^"]*"") "',
            lambda m, more=items: f'{m[1]}{more} "',
            lines[number],
        )
    return "".join(lines)


def report_of(place):
    return assemble(place.run, place.loaded, place.plan)


def measure(place, *inner):
    for session in place.plan.sessions:
        place.attempt(session.name, csv=with_ranges(place, session.name, *inner))


def test_ranges_of_a_run_have_every_metric_of_its_sessions(place):
    measure(place, ["mlp", "up"], ["mlp", "down"])
    report = report_of(place)
    found = report.measured.range_counters
    assert set(found["cell"]) == {cell.id for cell in place.cells}
    own = found[found["cell"] == PLAIN]
    assert own["path"].tolist() == [("mlp",), ("mlp", "up"), ("mlp", "down")]
    assert own["kernels"].tolist() == [2.0, 1.0, 1.0]
    for name in ("duration_ns", "cycles", "registers", "l2_hit_pct"):
        assert own[name].notna().all(), name


def test_parts_add_up_to_what_the_samples_say_of_the_whole(place):
    measure(place, ["mlp", "up"], ["mlp", "down"])
    report = report_of(place)
    samples = report.measured.samples
    timed = samples[(samples["cell"] == PLAIN) & (samples["session"] == "ncu-timing")]
    whole = timed[timed["arm"] == 0]["duration_ns"].mean()
    found = report.measured.range_counters.set_index("cell").loc[PLAIN]
    by_name = dict(zip(found["name"], found["duration_ns"], strict=True))
    assert by_name["mlp"] == pytest.approx(whole)
    assert by_name["up"] + by_name["down"] == pytest.approx(whole)


def test_the_document_has_them_and_one_without_ranges_has_no_such_key(place):
    place.attempt("ncu-timing")
    without = report_document(find(report_of(place)))
    assert all("range_counters" not in cell for cell in without["cells"])
    measure(place, ["mlp", "up"], ["mlp"])
    document = json.loads(dump(report_document(find(report_of(place)))))
    (cell,) = (each for each in document["cells"] if each["id"] == TREE)
    outer, inner = cell["range_counters"]
    assert (outer["path"], outer["kernels"]) == (["mlp"], 2.0)
    assert (inner["path"], inner["kernels"]) == (["mlp", "up"], 1.0)
    assert outer["metrics"]["duration_ns"] > inner["metrics"]["duration_ns"] > 0


def test_a_run_without_ranges_inside_has_no_counters_by_range(place):
    place.measure_all()
    assert report_of(place).measured.range_counters.empty


def test_a_recording_gives_the_same(place, tmp_path):
    measure(place, ["step_0"], ["step_1"])
    live = report_of(place).measured.range_counters
    assert ("step_*",) in live["path"].tolist()
    recording = open_run(write_recording(place.run, tmp_path / "recording.zip", []))
    replayed = assemble(recording, place.loaded, place.plan, replay=True)
    assert replayed.measured.range_counters.equals(live)


def test_a_visit_that_was_measured_twice_counts_once(place):
    measure(place, ["up"])
    before = report_of(place).measured.range_counters
    name = place.plan.sessions[0].name
    place.attempt(name, csv=with_ranges(place, name, ["up"], ["up"]))
    assert report_of(place).measured.range_counters.equals(before)


def test_cells_that_were_edited_since_have_none(place):
    measure(place, ["up"])
    keys = {cell: "other" if cell == TREE else key for cell, key in place.keys.items()}
    loaded = place.load(keys)
    assert all(TREE not in set(each.ranges["cell"]) for each in loaded)
    assert any(PLAIN in set(each.ranges["cell"]) for each in loaded)
