"""The nearest roof stands in the main table and on the card, with its name and its percent."""

import dataclasses

import pandas as pd
import pytest
from synthetic_report import make_report, problems, without

from profiler.findings.find import find
from profiler.metrics.catalogue import ROOF_PREFIX
from profiler.model import Outcome
from profiler.render.tables import timers
from profiler.render.tables.main_table import main_table
from profiler.render.words import cards as cards_module
from profiler.render.words.cards import cards
from profiler.render.words.counters import nearest_roof_label

ROOFS = {"dram": 20.0, "l2": 12.5, "tensor_bf16": 0.0, "fp32": 91.7}


def with_roofs(roofs, **changes):
    """A small run in which every measured cell has these percents of roofs."""
    report = make_report(variant_count=4, problem_list=problems()[:2])
    durations = report.measured.summary[report.measured.summary["metric"] == "duration_ns"]
    rows = [
        durations.assign(
            metric=f"{ROOF_PREFIX}{name}_pct", median=percent, mean=percent, low=percent
        )
        for name, percent in roofs.items()
    ]
    return find(without(report, summary=pd.concat([report.measured.summary, *rows]), **changes))


def table_of(findings):
    return main_table(findings, findings.verdicts.baselines[0])


@pytest.fixture(scope="module")
def findings():
    return with_roofs(ROOFS)


def test_a_cell_without_a_result_has_none(findings):
    cell = next(cell for cell in findings.programs.cells if findings.programs.correct(cell))
    status = dataclasses.replace(findings.programs.status(cell), outcome=Outcome.WRONG_RESULT)
    statuses = {**findings.programs.statuses, cell.id: status}
    wrong = find(dataclasses.replace(findings.report, statuses=statuses))
    (row,) = [row for row in table_of(wrong).rows if row.cell.id == cell.id]
    assert row.data[0].raw is None
    assert "wrong result" in row.data[0].title


def test_its_hint_names_the_roofs_that_were_counted(findings):
    label = nearest_roof_label(findings.numbers)
    assert "(DRAM, L2, BF16 tensor and FP32)" in label.definition
    assert "in the explain session, another launch" in label.definition
    alone = nearest_roof_label(with_roofs({"dram": 20.0}).numbers)
    assert "counted (DRAM)" in alone.definition


def test_without_roofs_there_is_no_column():
    none = with_roofs({})
    assert nearest_roof_label(none.numbers) is None
    assert not [column for column in table_of(none).columns if "roof" in column.head.lower()]


@pytest.mark.parametrize("limited", [True, False])
def test_the_card_has_it_where_nothing_was_explained(findings, monkeypatch, limited):
    if not limited:
        monkeypatch.setattr(cards_module, "_limit_card", lambda *_: None)
        monkeypatch.setattr(cards_module, "mean_ratio", lambda *_: 0.5)
        monkeypatch.setattr(cards_module, "nearest_roof", lambda *_: ("dram", 20.0))
    *_, card = cards(findings)
    problem = findings.ranking.largest_problem
    assert f"nearest roof at {problem.name}: FP32 arithmetic, 91.7\u202f%" in card.detail


def test_the_card_of_timers_says_whose_it_is(findings):
    card = timers._why_card(findings, None)
    whose = f"nearest roof of {findings.ranking.leader.variant.label} at "
    assert whose in card.detail
    assert card.detail.endswith("FP32 arithmetic, 91.7\u202f%")
    assert "nearest roof" not in timers._why_card(with_roofs({}), None).detail


def test_of_plain_kernels_the_card_says_the_share_too(findings):
    measured = find(without(findings.report, practical_roofs={"fp32": 0.95}))
    *_, card = cards(measured)
    assert "91.7\u202f% (96.5\u202f% of what a matrix product of torch reached)" in card.detail
