"""What a captured step would take with each variant: calls by duration, over the problems."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from run_folders import SPEC, Workplace, measured

from profiler.findings.document import summary_document
from profiler.findings.find import find
from profiler.render.page import render_page
from profiler.render.tables.sustained import captured_step_sentence, captured_step_table
from profiler.render.words.cards import first_answer
from profiler.render.words.sentences import spoken
from profiler.run_folder.load.assemble import assemble

NOISE = (0, 3, -2, 1, -3, 2, 4, -1)
DURATIONS_US = {"plain": (10, 100), "tree": (8, 110), "loop": (10, 90)}
CALLS = (50, 2)
PROBLEMS = "problems: {list: [{params: {n: 1, per_step: 50}}, {params: {n: 2, per_step: 2}}]}"


def findings_of(folder, page, problems=PROBLEMS):
    spec = SPEC.replace("problems: {list: [small, large]}", problems)
    spec = spec.replace("collect: {blocks: 2,", f"{page}collect: {{blocks: 8, collectors: timer,")
    place = Workplace(folder / "place", spec)
    records = []
    for number, (cell, block, arm) in enumerate(place.visits("timer")):
        variant, problem = cell.split("..")
        micro = DURATIONS_US[variant.removeprefix("variant=")]["n=2" in problem]
        ns = 1e3 * micro * (1 + 1e-4 * NOISE[(block + 3 * arm + number) % 8])
        records += measured([(cell, block, arm)], durations_ns=[ns])[1:]
    place.attempt("timer", journal=[*measured([])[:1], *records])
    return find(assemble(place.run, place.loaded, place.plan))


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    page = "page: {weights: per_step, step_ms: 2, step_note: 0.1 ms before a<b>}\n"
    return findings_of(tmp_path_factory.mktemp("run"), page)


def test_calls_by_duration_are_added_up(findings):
    step = findings.captured_step
    expected = {
        name: sum(map(math.prod, zip(CALLS, times, strict=True)))
        for name, times in DURATIONS_US.items()
    }
    assert step.baseline.name == "plain"
    assert step.baseline_ns == pytest.approx(1e3 * expected["plain"], rel=1e-3)
    assert [time.variant.name for time in step.times] == ["tree", "loop"]
    for time in step.times:
        ratio = expected[time.variant.name] / expected["plain"]
        assert time.ratio == pytest.approx(ratio, rel=1e-3)
        assert time.low < time.ratio < time.high < time.low + 2e-2
        assert time.problems == 2
        projected = 2e6 - step.baseline_ns * (1 - time.ratio)
        assert step.step_with(time.ratio) == pytest.approx(projected)


def test_the_step_is_shown_and_said(findings):
    rows = captured_step_table(findings).lines
    assert [row.name for row in rows] == ["plain", "tree", "loop"]
    shown = [datum.text.replace("\u202f", " ") for datum in rows[0].data]
    assert shown == ["700.0 µs", "1.000\u00d7", "", "2.000 ms", "2 of 2"]
    assert "the step would take 1.92" in spoken(captured_step_sentence(findings))
    document = summary_document(findings, "")["captured_step"]
    assert [variant["variant"] for variant in document["variants"]] == ["tree", "loop"]
    page = render_page(findings)
    assert 'id="captured-step"' in page
    assert "0.1 ms before a&lt;b&gt;" in page


def test_a_step_of_too_few_blocks_has_no_interval(findings):
    best = replace(findings.captured_step.times[0], low=math.nan, high=math.nan)
    step = replace(findings.captured_step, times=(best,))
    answer = spoken(captured_step_sentence(SimpleNamespace(captured_step=step)))
    assert "of that; the step would take 1.92" in answer
    assert "(" not in answer.partition("; ")[2]


def test_without_weights_there_is_no_step(tmp_path):
    findings = findings_of(tmp_path, "")
    assert findings.captured_step is None
    assert captured_step_table(findings) is None
    assert captured_step_sentence(findings) == ()


def test_an_operator_that_takes_longer_alone_says_nothing_of_the_step(tmp_path):
    findings = findings_of(tmp_path, "page: {weights: per_step, step_ms: 0.5}\n")
    assert findings.captured_step.step_with(0.9) is None
    assert "the step would take" not in spoken(captured_step_sentence(findings))


def test_indices_that_decide_who_wins_are_said(tmp_path):
    drawn = [("captured", 1, 50), ("uniform", 2, 0)]
    rows = [
        f"{{params: {{call: 3, indices: {name}, n: {n}, per_step: {count}}}}}"
        for name, n, count in drawn
    ]
    page = "page: {weights: per_step, step_ms: 2}\n"
    findings = findings_of(tmp_path, page, f"problems: {{list: [{', '.join(rows)}]}}")

    assert findings.captured_step.problems == 1
    assert findings.captured_step.baseline_ns == pytest.approx(50 * 10e3, rel=1e-2)
    said = "at 1 of 1 signature: with the captured ones tree, with uniform ones loop."
    first = " ".join(map(spoken, first_answer(findings)))
    assert said in first
    assert "the step would take 1.90" in first
    assert "another by the indices" in render_page(findings)
