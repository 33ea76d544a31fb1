"""How the why reads: words, the text of `profiler explain`, and its section on the page."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import lxml.html
import pytest
from synthetic_report import HOSTILE, make_report, without

from profiler.analyse.why.account import Account, Part
from profiler.analyse.why.causes import CAUSES
from profiler.analyse.why.kernel_profiles import CellProfile, KernelProfile
from profiler.commands.report import read_run
from profiler.findings.find import find
from profiler.findings.findings import Findings
from profiler.findings.why.cells import CellWhy
from profiler.findings.why.pairs import PairWhy
from profiler.metrics.catalogue import STALL_CAUSES, TENSOR_TYPES
from profiler.model import Verdict
from profiler.render.console.explain import explain_text
from profiler.render.page import render_page
from profiler.render.tables.explained import explained
from profiler.render.words import why as words
from profiler.run_folder.folder import RunFolder

ROOT = Path(__file__).parents[3]
SOFTMAX = ROOT / "tests/recordings/explained"


@pytest.fixture(scope="module")
def findings() -> Findings:
    return find(read_run(RunFolder(SOFTMAX)).report)


@pytest.fixture(scope="module")
def pair(findings: Findings) -> PairWhy:
    assert findings.why.answer is not None
    return findings.why.answer


def with_verdict(pair: PairWhy, verdict: Verdict | None) -> PairWhy:
    return dataclasses.replace(pair, verdict=dataclasses.replace(pair.verdict, verdict=verdict))


def account(*parts: Part, residual: float = 0.001) -> Account:
    """Account of a first cell that takes 2 ms."""
    difference = sum(part.ns for part in parts)
    in_order = sorted(parts, key=lambda part: -abs(part.ns))
    return Account(2e6, 2e6 - difference, tuple(in_order), residual)


# ---- words ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", [*STALL_CAUSES, "unnamed"])
def test_every_stall_reason_has_words(reason: str) -> None:
    assert reason in words.WAITS
    assert "(" not in words.part_words(Part(f"stall:{reason}", 1.0))


@pytest.mark.parametrize("cause", CAUSES)
def test_every_cause_has_words(cause: str) -> None:
    assert cause in words.CAUSES


@pytest.mark.parametrize("roof", ["dram", "l2", "l1", "fp32"])
def test_every_roof_has_words(roof: str) -> None:
    assert words.roof_words(roof) != roof


def test_roofs_of_tensor_cores_name_the_type() -> None:
    for kind in TENSOR_TYPES:
        assert words.roof_words(f"tensor_{kind}") == f"tensor cores ({kind.upper()})"


def test_parts_are_called_by_their_sign() -> None:
    assert words.part_words(Part("instructions", 1.0)) == "more instructions"
    assert words.part_words(Part("instructions", -1.0)) == "fewer instructions"
    assert words.part_words(Part("stall:barrier", -1.0)) == (
        "less waiting for other warps at barriers"
    )
    assert words.part_words(Part("kernel:copy()", 1.0)) == "kernel copy()"
    assert words.part_words(Part("kernel:copy()", -1.0)) == "no kernel copy()"


def test_the_sentence_names_the_largest_parts_and_what_is_left() -> None:
    faster = account(
        Part("instructions", -9e5),
        Part("stall:barrier", -3e5),
        Part("clock", 1e5),
        Part("stall:wait", -1e5),
        Part("stall:drain", -9e4),
        Part("stall:misc", -1e3),
    )
    sentence = re.sub(r"[\u202f\u00a0]", " ", words.account_sentence(faster))
    assert sentence == (
        "1.291 ms less: 900.0 µs fewer instructions, 300.0 µs less waiting for other warps at "
        "barriers, \u2212100.0 µs a lower clock, 100.0 µs less waiting for fixed latencies, "
        "91.00 µs other"
    )


def test_a_slower_one_has_more() -> None:
    sentence = words.account_sentence(account(Part("warps_in_flight", 2e5)))
    assert sentence == "200.0\u202fµs more: 200.0\u202fµs fewer warps in flight"


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (Verdict.SAME, "the same, so there is nothing to explain"),
        (Verdict.UNCLEAR, "not told apart, so nothing is explained"),
        (None, "no verdict was asked for"),
    ],
)
def test_nothing_is_claimed_where_no_difference_is_shown(
    pair: PairWhy, verdict: Verdict | None, expected: str
) -> None:
    assert expected in words.why_sentence(with_verdict(pair, verdict))


def test_an_account_that_does_not_close_says_by_how_much(pair: PairWhy) -> None:
    (kernel,) = pair.first.kernels
    values = {**kernel.profile.values, "smsp__inst_issued.sum": 0.0}
    issued = kernel.profile.value("smsp__inst_issued.sum")
    # More instructions than the durations know of: counted in another pass, say.
    values["smsp__inst_issued.sum"] = 1.1 * issued
    profile = dataclasses.replace(kernel.profile, values=values)
    stalls = {name for name in values if "average_warp_latency_issue_stalled" in name}
    profile = dataclasses.replace(
        profile, values={name: value for name, value in values.items() if name not in stalls}
    )
    other = dataclasses.replace(kernel, profile=profile)
    off = dataclasses.replace(pair, first=CellWhy(pair.cell.id, (other,)))
    assert off.account is not None
    assert not off.account.closes
    assert re.search(r"The factors are \d+\.\d\s% off the durations", words.why_sentence(off))
    assert "off the durations" not in words.why_sentence(pair)


def test_a_roof_limits_from_its_share_on_and_else_latency(pair: PairWhy) -> None:
    (kernel,) = pair.first.kernels
    assert words.limit_words(kernel).startswith("bandwidth of device memory, 78.0")
    latency = words.limit_words(dataclasses.replace(kernel, roofs=kernel.roofs[1:]))
    assert latency.startswith("latency: a warp spends 67.4")
    assert "waiting for global memory; nearest roof: bandwidth of L2" in latency
    assert words.limit_of_cell(CellWhy("cell", ())) == "nothing was counted"
    two = CellWhy("cell", (kernel, kernel))
    assert words.limit_of_cell(two).startswith("its longest kernel of 2 (50.0")


# ---- the console ---------------------------------------------------------------------------------


def test_the_text_has_the_answer_the_account_and_the_tree(
    findings: Findings, pair: PairWhy
) -> None:
    text = explain_text(findings, pair.cell, pair.first, pair)
    assert "0.838\u00d7 [0.837, 0.844]" in text
    assert "▼ FASTER" in text
    assert "Where the difference is (counters of one launch each)" in text
    assert "together" in text
    assert "What limits vector-b256-r1-v4" in text
    assert "of the stalls at vector.cu:" in text
    assert "ncu, " in text


@pytest.mark.parametrize("verdict", [Verdict.SAME, Verdict.UNCLEAR, Verdict.NO_DATA])
def test_the_text_accounts_for_no_difference_that_is_not_shown(
    findings: Findings, pair: PairWhy, verdict: Verdict
) -> None:
    text = explain_text(findings, pair.cell, pair.first, with_verdict(pair, verdict))
    assert "Where the difference is" not in text
    assert "What went with it" not in text
    assert "What limits vector-b256-r1-v4" in text


def test_without_a_source_page_the_tree_ends_one_level_earlier(
    findings: Findings, pair: PairWhy
) -> None:
    (kernel,) = pair.first.kernels
    bare = CellWhy(pair.cell.id, (dataclasses.replace(kernel, lines=()),))
    text = explain_text(findings, pair.cell, bare, None)
    assert "no source page: which lines wait is not known" in text


# ---- the page ------------------------------------------------------------------------------------


def section(findings: Findings) -> lxml.html.HtmlElement:
    (why,) = lxml.html.document_fromstring(render_page(findings)).xpath("//section[@id='why']")
    return why


def test_the_page_has_the_account_the_causes_and_the_tree(
    findings: Findings, pair: PairWhy
) -> None:
    why = section(findings)
    text = why.text_content()
    assert words.why_sentence(pair) in text
    assert "Warp instructions executed, by class" in text
    captions = [caption.text_content() for caption in why.xpath(".//caption")]
    for start in ("Where the difference is", "Roofs", "What a warp waits for", "Where it waits"):
        assert any(caption.startswith(start) for caption in captions), start
    limits = [summary.text_content() for summary in why.xpath(".//summary")]
    for cell in findings.why.cells.values():
        assert any(words.limit_of_cell(cell) in summary for summary in limits)


def test_a_run_that_explained_nothing_has_no_such_section() -> None:
    assert explained(find(make_report(4, blocks=2))) is None


def test_a_ladder_explains_each_step_and_what_kernels_are_called_is_escaped(pair: PairWhy) -> None:
    report = without(make_report(6), kind="progression")
    (kernel,) = pair.first.kernels
    hostile = KernelProfile(HOSTILE, kernel.profile.values, listing=kernel.profile.listing)
    problem = report.plan.cells[0].problem
    profiles = {
        cell.id: CellProfile(cell.id, (hostile,))
        for cell in report.plan.cells
        if cell.problem == problem
    }
    findings = find(dataclasses.replace(report, profiles=profiles))
    pairs = findings.why.pairs
    assert {each.cell.problem.id for each in pairs} == {problem.id}
    steps = [(each.cell.variant.id, each.against.variant.id) for each in pairs]
    rungs = [(r.variant.id, r.before.id) for r in findings.ladder if r.before is not None]
    assert findings.baseline is not None
    assert steps[0][1] == findings.baseline.id, "the answer comes first"
    assert len(steps) > 3
    assert set(steps[1:]) <= set(rungs)
    assert not section(findings).xpath(".//img")
