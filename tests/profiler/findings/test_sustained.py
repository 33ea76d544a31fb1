"""One launch on an idle GPU beside launches back to back: verdicts of both, and what is said."""

import json
import math
from dataclasses import replace

import pytest
from run_folders import SPEC, Workplace, measured

from profiler.findings.cell_numbers import NOTHING
from profiler.findings.document import summary_document
from profiler.findings.find import find
from profiler.findings.verdicts import Reason
from profiler.model import Verdict
from profiler.notices import NoticeKind, text
from profiler.render.page import render_page
from profiler.render.tables.rows import shown_metrics
from profiler.render.tables.sustained import sustained_sentence, sustained_table
from profiler.render.words.sentences import spoken
from profiler.render.words.signs import word
from profiler.run_folder.load.assemble import assemble

NOISE = (0, 3, -2, 1, -3, 2, 4, -1)
COLD = {"plain": 100.0, "tree": 90.0, "loop": 120.0}
BUSY = {"plain": 110.0, "tree": 110.0, "loop": 132.0}


def notices(report):
    """Words of the notices on visits back to back."""
    kinds = (NoticeKind.NOT_SETTLED, NoticeKind.LAUNCHES_WITH_GAPS)
    return [text(notice) for notice in report.notices if notice.kind in kinds]


def journal(visits, durations, **facts):
    """Visits of the session, their durations with a little noise."""
    records = []
    for cell, block, arm in visits:
        ns = 1e4 * durations[cell.partition("..")[0]] * (1 + 1e-4 * (NOISE[block % 8] + 2 * arm))
        sustained = (
            {"sustained": {**facts, "energy_j": facts["power_w"] * ns / 1e9}} if facts else {}
        )
        records += measured([(cell, block, arm)], durations_ns=[ns], **sustained)[1:]
    return [*measured([])[:1], *records]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    spec = SPEC.replace(
        "collect: {blocks: 2,", "collect: {blocks: 8, collectors: [timer, sustained],"
    )
    place = Workplace(tmp_path_factory.mktemp("run") / "place", spec)
    place.attempt("timer", journal=journal(place.visits("timer"), COLD))
    facts = {"power_w": 698.0, "sampled_power_w": None, "sustained_clock_ghz": 1.41}
    facts |= {"power_limited_pct": 100.0, "temperature_c": None, "settled": 1.0}
    records = journal(place.visits("sustained"), BUSY, **facts)
    records[2]["sustained"] |= {"settled": 0.0, "host_share": 0.97}
    place.attempt("sustained", journal=records)
    return assemble(place.run, place.loaded, place.plan)


@pytest.fixture(scope="module")
def findings(report):
    return find(report)


def test_both_verdicts_stand_side_by_side(findings):
    sustained_by_cell = {of.cell.id: of for of in findings.sustained}
    tree = sustained_by_cell["tree..small"]
    assert (tree.cold_verdict.verdict, tree.verdict.verdict) == (Verdict.FASTER, Verdict.SAME)
    assert tree.differs
    assert tree.cold_share == pytest.approx(90 / 110, rel=1e-3)
    loop = sustained_by_cell["loop..small"]
    assert loop.cold_verdict.verdict is loop.verdict.verdict is Verdict.SLOWER
    assert not loop.differs
    assert sustained_by_cell["plain..small"].verdict.verdict is None
    assert findings.timers is None, "back to back is no timer whose error is to be shown"


def test_a_sentence_says_where_they_differ(findings):
    words = spoken(sustained_sentence(findings))
    assert words.replace("\u202f", " ") == (
        f"tree is {word(Verdict.FASTER)} cold, {word(Verdict.SAME)} sustained at small and 1 more "
        "(0.900\u00d7, then "
        "1.000\u00d7): it is held at 698 W, 1.410 GHz."
    )


def test_the_page_has_a_table_and_energy_as_metrics(findings):
    table = sustained_table(findings)
    assert len(table.lines) == 6
    assert all(len(row.data) == len(table.columns) for row in table.lines)
    page = render_page(findings)
    assert 'id="sustained"' in page
    names = [metric.name for metric in shown_metrics(findings)]
    assert {"power_w", "energy_j", "sustained_clock_ghz"} <= set(names)
    assert "sampled_power_w" not in {metric.name for metric in findings.numbers.metrics}


def test_what_a_launch_takes_longer_is_split_into_clock_and_cycles(findings):
    of = next(of for of in findings.sustained if of.cell.id == "plain..small")
    clocks = {"sm_clock_ghz": NOTHING._replace(median=1.41 * 1.05)}
    known = replace(of, values={**of.values, **clocks})

    assert known.clock_ns + known.cycles_ns == pytest.approx(known.sustained_ns - known.cold_ns)
    assert known.clock_ns == pytest.approx(0.0512e6, rel=0.01), "5 % of clock, 10 % of time"
    assert known.cycles_ns == pytest.approx(0.0488e6, rel=0.01)
    assert math.isnan(of.clock_ns), "no cycles were counted"


def test_the_document_has_both_verdicts(findings):
    document = json.loads(json.dumps(summary_document(findings, "")))
    tree = next(row for row in document["sustained"] if row["cell"] == "tree..small")
    assert (tree["cold_verdict"], tree["verdict"], tree["power_limited"]) == (
        *("faster", "same"),
        True,
    )


def test_visits_that_have_not_settled_and_gaps_are_said(report):
    settled, gaps = notices(report)
    assert "had not settled at the end of 1 of 64 visits" in settled
    assert "have gaps between them" in gaps


def test_a_verdict_withheld_for_the_clock_is_given_by_the_clock_of_use(findings):
    def found(cold, reason, sustained):
        tree = next(of for of in findings.sustained if of.cell.id == "tree..small")
        return replace(
            tree,
            cold_verdict=replace(tree.cold_verdict, verdict=cold, reason=reason),
            verdict=replace(tree.verdict, verdict=sustained),
        ).differs

    assert found(Verdict.UNCLEAR, Reason.CLOCK, Verdict.FASTER)
    assert not found(Verdict.UNCLEAR, Reason.NOISE, Verdict.FASTER)
    assert not found(Verdict.UNCLEAR, Reason.CLOCK, Verdict.UNCLEAR)
