"""Durations of zero or below, and values that are missing, are no measurement, and it is said."""

import csv
import io

import pytest
from run_folders import SPEC, Workplace, measured, ncu_csv
from test_damaged_attempts import notices_of, resume

from profiler.analyse.samples import empty_samples, impossible_durations
from profiler.findings.find import find
from profiler.run_folder.load.assemble import assemble

BASELINE = "plain"


@pytest.fixture
def timed(tmp_path):
    """A run of six blocks under the timer; `zero(cell, block)` says which durations are none."""

    def run(zero, value):
        spec = SPEC.replace("blocks: 2, metrics: [duration_ns", "blocks: 6, metrics: [duration_ns")
        spec = spec.replace(
            "collect: {", "collect: {device: cpu, collectors: [timer], final_blocks: 0, "
        )
        spec = spec.replace(", cycles, registers, l2_hit_pct", "")
        place = Workplace(tmp_path / "timed", spec + "baseline: plain\n")
        visits = place.visits("timer")
        journal = [{"event": "session_started"}]
        for cell, block, arm in visits:
            duration = value if zero(cell, block) else 1000.0 + block
            journal += measured([(cell, block, arm)], durations_ns=[duration])[1:]
        place.attempt("timer", journal=journal)
        return place

    return run


@pytest.mark.parametrize("value", [0.0, -5.0, 1e300])
def test_half_of_the_blocks_at_zero_make_no_winner(timed, value):
    place = timed(lambda cell, block: cell.startswith("tree") and block % 2, value)
    report = assemble(place.run, place.loaded, place.plan)
    assert report.measured.samples["duration_ns"].gt(0).all()
    tree = report.measured.summary.query("variant == 'tree' and metric == 'duration_ns'")
    assert list(tree["n"]) == [3, 3]
    assert tree["median"].between(999, 1010).all()
    notices = [line for line in notices_of(place) if "zero or below" in line]
    assert len(notices) == 1
    assert "tree..large, tree..small" in notices[0]


def test_a_cell_without_any_duration_is_not_measured_and_not_tried_for_ever(timed):
    place = timed(lambda cell, block: cell == "tree..small", 0.0)
    statuses = assemble(place.run, place.loaded, place.plan).statuses
    assert statuses["tree..small"].outcome == "not_measured"
    assert {statuses[cell].outcome for cell in statuses if cell != "tree..small"} == {"measured"}
    _, output = resume(place)
    assert "nothing is missing" in output


def test_a_baseline_without_any_says_so(timed):
    place = timed(lambda cell, block: cell.startswith(BASELINE), 0.0)
    notices = notices_of(place)
    assert any("no sample of the baseline" in line for line in notices), notices
    findings = find(assemble(place.run, place.loaded, place.plan))
    assert findings.report.measured.summary["ratio"].isna().all()


def test_counters_of_a_kernel_without_a_duration_stay(place):
    session = place.session("ncu-timing")
    visits = place.visits("ncu-timing")
    text = with_values(ncu_csv(visits, session.metrics), f"cell={visits[0][0]};", "0")
    place.attempt(csv=text)
    (loaded,) = place.load()
    zero = loaded.samples[loaded.samples["cell"] == visits[0][0]]
    assert len(zero)
    assert zero["duration_ns"].isna().all()
    assert zero["registers"].notna().all()
    assert len(loaded.visits) == len(visits)


@pytest.mark.parametrize(("blocks", "said"), [(10, True), (2, False)])
def test_a_metric_whose_values_are_mostly_missing_is_said(tmp_path, blocks, said):
    """Of ten samples of a cell one has a value; of two both have."""
    place = Workplace(tmp_path / "place", SPEC.replace("blocks: 2", f"blocks: {blocks}"))
    session = place.session("ncu-timing")
    visits = place.visits("ncu-timing")
    cell = visits[0][0]
    missing = [visit for visit in visits if visit[0] == cell and 0 < visit[1] < blocks]
    text = ncu_csv(visits, session.metrics)
    for _, block, _ in missing if said else ():
        text = with_values(text, f"cell={cell};block={block}", "n/a", "registers_per_thread")
    place.attempt(csv=text)
    place.attempt("ncu-counters")
    lines = [line for line in notices_of(place) if "values of" in line]
    assert len(lines) == said
    if said:
        assert "values of registers" in lines[0]
        assert "missing, up to 90 % of them" in lines[0]
        assert cell in lines[0]


def with_values(text, range_name, value, metric="gpu__time_duration.sum"):
    """Output of ncu in which the launches of a range have that value of a metric."""
    start = text.index('"ID"')
    rows = list(csv.reader(io.StringIO(text[start:])))
    columns = [place for place, name in enumerate(rows[0]) if metric in name]
    for row in rows[2:]:
        if any(range_name in cell for cell in row):
            for column in columns:
                row[column] = value
    lines = io.StringIO()
    csv.writer(lines, quoting=csv.QUOTE_ALL).writerows(rows)
    return text[:start] + lines.getvalue()


def test_samples_without_durations_have_none_that_is_impossible():
    assert not impossible_durations(empty_samples()).any()
