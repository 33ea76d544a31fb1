"""On a recording of each kind, page, CSV, console, JSON and gate print one number for each cell."""

import json
import math
import re
from functools import cache, partial
from pathlib import Path

import lxml.html
import pandas as pd
import pytest
from as_read import data_of_page, printed
from recorded import (
    RECORDINGS,
    findings_of_recording,
    looked_at,
    rendered_page,
    summary_of,
    summary_text,
)
from rich.cells import cell_len

from profiler.analyse.why.account import CLOSES_WITHIN
from profiler.comparison.run_entries import read_entries
from profiler.errors import ExitCode
from profiler.findings.brief import BriefDocument, Checked, brief
from profiler.findings.document import (
    SummaryDocument,
    judged_table,
    summary_document,
    summary_table,
    wide_table,
)
from profiler.findings.why.document import MOST_BYTES, ExplanationDocument, explain_document
from profiler.findings.why.find import find_why
from profiler.metrics.catalogue import ROOF_PREFIX
from profiler.model import Verdict
from profiler.render.console.explain import COLUMNS, explain_text
from profiler.render.console.lists import runs_table
from profiler.render.console.tables import final_summary
from profiler.render.excerpts import run_html, run_markdown
from profiler.render.index import page_of_run, render_runs
from profiler.render.tables.main_table import main_table, metric_column
from profiler.render.words import numbers
from profiler.render.words.cards import cards, first_answer
from profiler.render.words.counters import nearest_roof_label
from profiler.render.words.sentences import spoken
from profiler.render.words.signs import ORDER
from profiler.render.words.why import why_sentence

ROOT = Path(__file__).parents[3]
SHORT_NS = 10e3
SEVERAL_TIMERS = "timers"
RUNS = [
    *(
        file
        for file in sorted(RECORDINGS.glob("*.zip"))
        if file.stem == SEVERAL_TIMERS or looked_at([file.stem])
    ),
    ROOT / "tests/recordings/explained.zip",
]
JUDGED = "duration_ns"
MOST_LINES = 60
"""Of what `profiler explain` prints."""


@pytest.fixture(scope="module", params=RUNS, ids=lambda recording: recording.stem)
def findings(request):
    return findings_of_recording(request.param)


@pytest.fixture(scope="module")
def summary(findings):
    """What a run prints at its end on a terminal of so many columns."""
    return cache(partial(printed, final_summary(findings)))


@pytest.fixture(scope="module")
def document(findings):
    """What `check --json` writes of a recording."""
    sentences = tuple(map(spoken, first_answer(findings)))
    return brief(Checked(ExitCode.COMPLETE, findings, sentences))


def test_a_program_gets_the_same_numbers_in_4_kb(findings, document):
    text = json.dumps(document)
    assert len(text) < MOST_BYTES
    document = json.loads(text)
    BriefDocument.model().model_validate(document)
    assert document["answer"][0] == spoken(first_answer(findings)[0])
    cells = summary_of(findings)["cells"]
    of_summary = {(cell["variant"], cell["problem"]): cell for cell in cells}
    for row in document["verdicts"]:
        numbers_of_cell = of_summary[row["variant"], row["problem"]]["metrics"][JUDGED]
        assert row["verdict"] == numbers_of_cell["verdict"]
        for key in ("ratio", "ratio_low", "ratio_high", "detectable"):
            assert row[key] == pytest.approx(numbers_of_cell[key], rel=1e-4)
    judged = findings.verdicts.against_baseline.values()
    given = [pair for pair in judged if pair.verdict not in (None, Verdict.NO_DATA)]
    assert len(document["verdicts"]) + document["verdicts_left_out"] == len(given)
    unclear = sum(pair.verdict is Verdict.UNCLEAR for pair in given)
    assert (document["settle"] or {"unclear": 0})["unclear"] == unclear


def test_a_row_for_each_cell_has_the_medians_of_the_table(findings):
    wide, table = wide_table(findings).set_index("cell"), summary_table(findings)
    by_metric = table.pivot(index="cell", columns="metric", values="median")
    assert set(by_metric.columns) <= set(wide.columns)
    assert len(wide) == len(findings.programs.plan.cells)
    for name in by_metric:
        medians = wide[name].reindex(by_metric.index)
        pd.testing.assert_series_equal(medians, by_metric[name], check_names=False)
    of_durations = table[table["metric"] == JUDGED].set_index("cell")["verdict"]
    for cell, verdict in of_durations.dropna().items():
        assert wide.loc[cell, "verdict"] == verdict
    units = dict(zip(table["metric"], table["unit"], strict=True))
    assert units == {label.name: label.unit for label in findings.numbers.metrics}
    cells = findings.programs.plan.cells
    for name in wide.filter(regex="^(variant|problem)\\."):
        side, _, key = name.partition(".")
        values = [getattr(cell, side).params.get(key) for cell in cells]
        if {type(value) for value in values if value is not None} == {int}:
            assert pd.api.types.is_integer_dtype(wide[name]), name


def test_one_number_for_each_cell_everywhere(findings):
    document = summary_of(findings)
    SummaryDocument.model().model_validate(document)
    cells = {cell["id"]: cell for cell in document["cells"]}
    table = summary_table(findings)
    rows = table[table["metric"] == JUDGED].set_index("cell")
    gate = judged_table(findings.verdicts).set_index("cell")
    page = data_of_page(rendered_page(findings))
    duration = next((one["summary"] for one in page["metrics"] if one["name"] == JUDGED), None)
    reference = next((one for one in page["comparisons"] if one["key"] == "reference"), None)
    shown = {row.cell.id: row for row in main_table(findings, findings.verdicts.baselines[0]).rows}
    compared = 0
    for place, cell in enumerate(findings.programs.cells):
        value = findings.numbers.value(cell, JUDGED)
        if not value.present or duration is None:
            continue
        compared += 1
        own = cells[cell.id]["metrics"][JUDGED]
        for name in ("median", "low", "high", "ratio", "rank"):
            wanted = getattr(value, name)
            assert same(own[name], wanted), (cell.id, name)
            assert same(rows.at[cell.id, name], wanted), (cell.id, name)
            assert same(duration[name][place], wanted, digits=6), (cell.id, name)
        assert own["source"] == rows.at[cell.id, "source"] == value.source
        assert (cells[cell.id]["blocks"] is not None) == (value.source == "final")
        if cell.id in findings.programs.correct_cells and math.isfinite(value.rank):
            rank, *_ = shown[cell.id].rank.text.split()  # words such as "fastest" may follow
            assert rank == f"{value.rank:g}"
        if cell.id not in gate.index:
            continue
        verdict = findings.verdicts.against_baseline[cell.id]
        assert gate.at[cell.id, "verdict"] == verdict.verdict == own["verdict"]
        assert rows.at[cell.id, "verdict"] == verdict.verdict
        assert same(gate.at[cell.id, "ratio"], verdict.ratio)
        if verdict.blocks:
            assert same(value.ratio, verdict.ratio)
        if reference is not None:
            verdicts = reference["ratios"]["verdict"]
            assert ORDER[verdicts[place]] == verdict.verdict
            assert shown[cell.id].ratio.text == (
                numbers.ratio(verdict.ratio) if math.isfinite(verdict.ratio) else numbers.MISSING
            )
    assert compared == len(findings.programs.correct_cells)


def same(value, wanted, digits=None):
    """Whether two numbers are the same, or both missing; `digits`: it may be rounded to so many."""
    if value is None or pd.isna(value):
        return not math.isfinite(wanted)
    return value == wanted or (digits is not None and value == float(f"{wanted:.{digits}g}"))


def test_the_summary_holds_at_80_columns(findings, summary):
    lines = summary(80).splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert lines == [line.rstrip() for line in lines]
    assert len(lines) <= 50
    if findings.report.settings.kind == "waves" or (findings.timers and findings.timers.compared):
        return
    first = findings.ranking.ranks[0].variant
    assert any(line.startswith(first.label) for line in lines), "a name is on one line"


@pytest.mark.parametrize(("width", "most"), [(100, 12), (80, 16)])
def test_the_answer_is_found_in_ten_seconds(summary, width, most):
    lines = summary(width).splitlines()
    rule = next(place for place, line in enumerate(lines) if set(line.strip()) == {"\u2500"})
    before_the_table = max(place for place, line in enumerate(lines[:rule]) if not line.strip())
    assert before_the_table <= most


def test_the_answer_is_the_same_text_everywhere(findings, summary, document, tmp_path):
    sentences = [plain(spoken(sentence)) for sentence in first_answer(findings)]
    console = plain(summary(400))
    markdown, notebook = (
        plain(run_markdown(findings).replace("\\", "")),
        text_of(run_html(findings)),
    )
    page = lxml.html.document_fromstring(rendered_page(findings)).get_element_by_id("answer")
    assert plain(page.find_class("answer")[0].text_content()) == sentences[0]
    assert plain(summary_of(findings)["sentence"]) == sentences[0]
    assert plain(page_of_run(findings, "").answer) == sentences[0]
    run = tmp_path / "experiment/run"
    run.mkdir(parents=True)
    (run / "summary.json").write_text(summary_text(findings), encoding="utf-8")
    entries = read_entries(tmp_path, {"experiment/run": (0,)})
    assert sentences[0] in text_of(render_runs(entries))
    assert sentences[0] in plain(printed(runs_table(entries), 1000))
    shown = plain(page.text_content())
    for card in cards(findings):
        assert plain(card.answer + card.detail) in shown
    for sentence, short in zip(sentences, document["answer"], strict=True):
        assert sentence in console
        assert sentence in markdown.replace("**", "")
        assert sentence in notebook
        assert sentence.startswith(plain(short).removesuffix("\u2026"))


def plain(text):
    return " ".join(text.split())


def text_of(markup):
    return plain(lxml.html.document_fromstring(markup).text_content())


def test_the_console_prints_the_numbers_of_the_winners(findings):
    lines = printed(final_summary(findings, verbose=True), 400).splitlines()
    if findings.report.settings.kind == "waves":  # its question is about grids, not about a winner
        return
    for problem in findings.programs.problems:
        winner = findings.ranking.deciding_winners.get(problem.id)
        if winner is None:
            continue
        value = findings.numbers.value(winner.cell, findings.numbers.primary.name)
        parts = [
            winner.cell.variant.label,
            numbers.show(value.median, findings.numbers.primary.unit),
        ]
        if math.isfinite(value.ratio):
            parts.append(numbers.ratio(value.ratio))
        assert any(all(part in line for part in (problem.name, *parts)) for line in lines), parts


def test_ranks_and_answers_follow_the_numbers(findings):
    primary = findings.numbers.primary.name
    for problem, winner in findings.ranking.winners.items():
        values = {
            cell.id: findings.numbers.value(cell, primary)
            for cell in findings.programs.correct_cells.values()
            if cell.problem.id == problem
        }
        assert values[winner.cell.id].rank == 1
        ranked = sorted((value for value in values.values()), key=lambda value: value.rank)
        of_final = [value.median for value in ranked if value.source == "final"]
        of_blocks = [value.median for value in ranked if value.source == "blocks"]
        assert of_final == sorted(of_final), "one kind of number stands in its order"
        if not of_final:
            assert of_blocks == sorted(of_blocks)
        for cell in (*winner.same_cells, *winner.not_told_apart):
            assert cell.variant.id in {variant.id for variant in findings.programs.variants}
    for rank in findings.ranking.ranks:
        if not rank.slowdowns:
            continue
        assert rank.worst_slowdown >= rank.mean_slowdown >= 1
        wins = all(
            winner.cell.variant == rank.variant
            for problem, winner in findings.ranking.deciding_winners.items()
            if problem in rank.planned
        )
        assert (rank.worst_slowdown == 1) >= wins


def test_the_account_of_time_closes_on_every_explained_cell(findings):
    """Passes of a kernel of microseconds differ by more; then the sentence says by how much."""
    run = find_why(findings)
    for cell, why in run.cells.items():
        times = [kernel.time for kernel in why.kernels]
        off_ns = math.fsum(abs(time.duration_ns - time.modelled_ns) for time in times if time)
        assert all(times), cell
        if off_ns <= CLOSES_WITHIN * why.duration_ns:
            continue
        assert max(time.duration_ns for time in times if time) < SHORT_NS, cell
        pairs = [
            pair for pair in find_why(findings).pairs if cell in (pair.cell.id, pair.against.id)
        ]
        assert pairs
        assert all(
            "off the duration of" in why_sentence(pair) for pair in pairs if pair.shows_difference
        ), cell


def test_parts_of_every_account_add_up(findings):
    for pair in find_why(findings).pairs:
        assert (pair.account is not None) == pair.shows_difference
        if pair.account is None:
            continue
        total = math.fsum(part.ns for part in pair.account.parts)
        assert total == pytest.approx(pair.account.difference_ns, rel=1e-9)
        assert pair.account.first_ns == pytest.approx(pair.first.duration_ns)
        roofs = pair.roof_account
        if roofs is not None:
            together = roofs.amount_ns + roofs.share_ns + roofs.ceiling_ns
            assert together == pytest.approx(pair.account.difference_ns, rel=1e-9)


def test_counters_of_both_add_up_and_what_matters_comes_first(findings):
    for pair in find_why(findings).pairs:
        assert bool(pair.counters) == pair.shows_difference
        moved = [row.moved for row in pair.counters]
        assert moved == sorted(moved, reverse=True)
        rows = {row.name: row for row in pair.counters}
        for row in rows.values():
            assert row.first.known
            assert row.second.known
            assert row.first.text or row.first.value or row.second.value
        if pair.account is not None:
            dram = rows["dram_bytes"]
            for amount, why in ((dram.first, pair.first), (dram.second, pair.second)):
                counted = sum(kernel.profile.value("dram__bytes.sum") for kernel in why.kernels)
                assert amount.value == counted


def test_the_nearest_roof_stands_in_the_table_and_on_the_card(findings):
    label = nearest_roof_label(findings.numbers)
    *_, card = cards(findings)
    assert re.search(r"nearest roof.*: .*, \d+\.\d\u202f%|\d\u202f% of its roof", card.detail)
    if label is None:
        return
    cells = list(findings.programs.correct_cells.values())
    column = metric_column(findings.numbers, cells, label)
    compared = 0
    for cell, datum in zip(cells, column.data, strict=True):
        percents = [
            findings.numbers.value(cell, metric.name).median
            for metric in findings.numbers.metrics
            if metric.name.startswith(ROOF_PREFIX)
        ]
        known = [percent for percent in percents if math.isfinite(percent)]
        if known:
            assert float(datum.raw or "nan") == pytest.approx(max(known), abs=0.051)
            compared += 1
    assert compared == len(cells)


def test_every_explanation_fits_a_terminal_and_a_reader_of_json(findings):
    cells = {cell.id: cell for cell in findings.programs.cells}
    explained = [(pair.cell, pair.first, pair) for pair in find_why(findings).pairs]
    explained += [(cells[cell], why, None) for cell, why in find_why(findings).cells.items()]
    for cell, why, pair in explained:
        lines = explain_text(findings, cell, why, pair).splitlines()
        assert len(lines) <= MOST_LINES
        assert all(len(line) <= COLUMNS for line in lines)
        text = json.dumps(explain_document(findings, cell, pair), allow_nan=False)
        assert len(text) < MOST_BYTES
        ExplanationDocument.model().model_validate_json(text)


def test_without_an_account_timelines_say_how_long_the_gpu_was_idle():
    findings = findings_of_recording(RECORDINGS / "mlp.zip")
    why = summary_document(findings, "")["answer"]["why"]
    assert (why["variant"], why["against"], why["verdict"]) == ("graphs", "eager", "faster")
    assert why["account"] is None
    timeline = why["timeline"]
    assert timeline["idle_ns"] < 0.2 * timeline["against_idle_ns"], "launches are in graphs"
    assert timeline["busy_ns"] > timeline["against_busy_ns"], "of more kernels"
    for side in ("", "against_"):
        busy, idle = timeline[f"{side}busy_ns"], timeline[f"{side}idle_ns"]
        assert busy / (busy + idle) == pytest.approx(timeline[f"{side}busy_pct"] / 100, abs=0.02)
