"""How the why reads: words, the text of `profiler explain`, and its section on the page."""

import dataclasses
import math
import re
from pathlib import Path

import lxml.html
import pytest
from explained_runs import answer_pair, softmax_findings, with_verdict
from recorded import findings_of_recording
from synthetic_report import HOSTILE, make_report, without

from profiler.analyse.why.account import Account, AccountPart
from profiler.analyse.why.causes import CAUSES, UNFUSED
from profiler.analyse.why.kernel_profiles import KernelProfile
from profiler.analyse.why.roofs import BUSY_UNITS
from profiler.analyse.why.sass_code import CLASSES
from profiler.findings.find import find
from profiler.findings.why.cells import CellWhy
from profiler.findings.why.counters import COUNTERS, GROUPS
from profiler.findings.why.document import AnswerWhyDocument, why_of_answer
from profiler.findings.why.find import FOUND, RunWhy, find_why
from profiler.metrics.catalogue import STALL_CAUSES
from profiler.model import Verdict
from profiler.render.console.explain import explain_text
from profiler.render.page import render_page
from profiler.render.tables.explained import explained
from profiler.render.words import counters
from profiler.render.words import why as words
from profiler.render.words.cards import cards

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def findings():
    return softmax_findings()


@pytest.fixture(scope="module")
def pair(findings):
    return answer_pair(findings)


def account(*parts, residual=0.001):
    """Account of a first cell that takes 2 ms."""
    difference = sum(part.ns for part in parts)
    in_order = sorted(parts, key=lambda part: -abs(part.ns))
    return Account(2e6, 2e6 - difference, tuple(in_order), (residual, 0.0))


def plain(text):
    """Text with plain spaces and minus signs."""
    return re.sub(r"[\u202f\u00a0]", " ", text).replace("\u2212", "-")


# ---- words ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", [*STALL_CAUSES, "unnamed"])
def test_every_stall_reason_has_words(reason):
    assert reason in words.WAITS
    assert f"({reason})" not in words.part_words(AccountPart(f"stall:{reason}", 1.0))


@pytest.mark.parametrize("cause", [*CAUSES, UNFUSED])
def test_every_cause_has_words(cause):
    assert cause in words.CAUSES


def test_every_class_of_instructions_has_words():
    assert tuple(words.CLASSES) == CLASSES


@pytest.mark.parametrize("roof", ["dram", "l2", "l1", "fp32", *BUSY_UNITS])
def test_every_roof_has_words(roof):
    assert words.roof_words(roof) != roof


def test_every_counter_of_both_cells_and_every_part_of_the_account_has_words():
    assert tuple(counters.NAMES) == COUNTERS
    assert tuple(counters.GROUPS) == GROUPS


def test_parts_are_called_by_their_sign():
    assert words.part_words(AccountPart("instructions", 1.0)) == "more instructions"
    assert words.part_words(AccountPart("instructions", -1.0)) == "fewer instructions"
    assert words.part_words(AccountPart("stall:barrier", -1.0)) == (
        "less waiting for other warps at barriers"
    )
    assert words.part_words(AccountPart("kernel:copy()", 1.0)) == "kernel copy"
    assert words.part_words(AccountPart("kernel:copy()", -1.0)) == "no kernel copy"


@pytest.mark.usefixtures("undrawn")
def test_each_bar_of_a_waterfall_begins_where_the_one_before_ends(findings):
    (shown, *_) = explained(findings)["pairs"]
    before, *steps, after = shown["account"]["rows"]
    level = before["begin_pct"] + before["width_pct"]
    for row in steps:
        ends = (row["begin_pct"], row["begin_pct"] + row["width_pct"])
        start, level_after = ends if row["css"] else ends[::-1]
        assert start == pytest.approx(level)
        level = level_after
    assert after["begin_pct"] + after["width_pct"] == pytest.approx(level)


@pytest.mark.usefixtures("undrawn")
def test_a_launch_that_took_another_time_than_the_timed_ones_is_told(findings, pair):
    """An account of +687 µs once stood below a timed difference of +293 µs, without a word."""
    first_ns, second_ns = pair.first.duration_ns, pair.second.duration_ns
    assert "timed" not in words.why_sentence(pair)
    one = dataclasses.replace(pair, timed_ns=(first_ns / 2, second_ns))
    sentence = (
        " The launch that was explained took 279.3 µs at 1.95 GHz, where vector-b256-r1-v4 is "
        "timed with 139.6 µs: the parts are of that launch, and the timed medians differ by "
        "-188.9 µs."
    )
    assert sentence in plain(words.why_sentence(one))
    text = plain(explain_text(findings, one.cell, one.first, one))
    assert " ".join(text.split()).count(sentence.strip()) == 1
    of_page = dataclasses.replace(findings)
    FOUND[of_page] = RunWhy(find_why(findings).cells, (one,))
    shown = explained(of_page)
    assert sentence in plain(shown["pairs"][0]["sentence"])
    assert "empty caches" not in words.why_sentence(
        dataclasses.replace(one, flushed_per_launch=True)
    )
    both = dataclasses.replace(pair, timed_ns=(first_ns / 2, 2 * second_ns))
    assert "The launches that were explained took" in words.why_sentence(both)
    assert "GHz, where torch is timed with" in words.why_sentence(both)


def test_the_card_has_the_largest_part_and_whose_it_is(findings, pair):
    """Under one roof it once named the roof twice and no number."""
    assert plain_card(findings) == (
        "a higher share of the roof with less waiting at barriers: -47.61 µs; the rest -1.668 µs; "
        "in all -49.28 µs against torch (under ncu); now limited by bandwidth of device memory, "
        "78.0 % of its roof"
    )
    other = dataclasses.replace(pair.cell.variant, id="other", label="vector-b256-r1-v8")
    cell = dataclasses.replace(pair.cell, variant=other)
    of_other = dataclasses.replace(findings)
    FOUND[of_other] = RunWhy(find_why(findings).cells, (dataclasses.replace(pair, cell=cell),))
    *_, card = cards(of_other)
    assert card.question == "Why vector-b256-r1-v8, not the leader"


def test_the_card_has_the_nearest_roof_where_none_limits(findings, pair):
    """`limited by latency` once stood there without a number."""
    (kernel,) = pair.first.kernels
    far = CellWhy((dataclasses.replace(kernel, roofs=kernel.roofs[1:]),))
    of_far = dataclasses.replace(findings)
    FOUND[of_far] = RunWhy(find_why(findings).cells, (dataclasses.replace(pair, first=far),))
    assert plain_card(of_far).endswith("limited by latency; nearest roof: bandwidth of L2, 39.7 %")
    bare = CellWhy((dataclasses.replace(kernel, roofs=()),))
    FOUND[of_far] = RunWhy(find_why(findings).cells, (dataclasses.replace(pair, first=bare),))
    assert plain_card(of_far).endswith("limited by latency")


def test_a_memory_that_is_busy_with_something_else_than_bytes_is_said():
    """A transpose: 98.7 % of peak by its wavefronts in L1, and 34.7 % of the roof of L2."""
    recording = ROOT / "benchmarks/speed/kernels_cupti_recording.zip"
    card = plain_card(findings_of_recording(recording))
    assert "memory 98.7 % of peak; nearest roof at kernel=transpose 16384: bandwidth of L2" in card
    assert "the busiest part of its memory is none of the roofs" in card


def plain_card(findings):
    *_, card = cards(findings)
    return plain(f"{card.answer}: {card.detail}")


def test_an_account_that_goes_the_other_way_than_the_verdict_says_so(pair):
    note = "That is not the direction of the verdict"
    assert note in words.why_sentence(with_verdict(pair, Verdict.SLOWER))
    assert note not in words.why_sentence(pair)
    assert words.why_sentence(pair).startswith("vector-b256-r1-v4 takes 49.28")
    assert "less than torch under ncu: " in words.why_sentence(pair)


@pytest.mark.usefixtures("undrawn")
def test_a_cause_that_was_not_found_costs_no_zero(findings, pair):
    """Causes below 2 % are left out, so that zero would be a number that nobody measured."""
    text = plain(explain_text(findings, pair.cell, pair.first, pair))
    narrow = words.planted_words(["narrow_accesses"])
    assert re.search(rf"narrow loads and stores {re.escape(narrow)}: \S+ µs in torch, none", text)
    answered = why_of_answer(findings)
    assert answered is not None
    why = AnswerWhyDocument.document(answered)
    costs = {cause["name"]: cause for cause in why["causes_of_difference"]}
    assert costs["narrow_accesses"]["ns"] is None
    assert costs["narrow_accesses"]["against_ns"] == pytest.approx(9_051, abs=1)
    assert " 0 ns" not in plain(section(findings).text_content())


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (Verdict.SAME, "the same, so there is nothing to explain"),
        (Verdict.UNCLEAR, "not told apart, so nothing is explained"),
        (None, "this run gives no verdicts"),
    ],
)
def test_nothing_is_claimed_where_no_difference_is_shown(pair, verdict, expected):
    assert expected in words.why_sentence(with_verdict(pair, verdict))


def test_a_roof_limits_from_its_share_on_and_else_latency(pair):
    (kernel,) = pair.first.kernels
    assert words.limit_words(kernel).startswith("bandwidth of device memory, 78.0")
    latency = words.limit_words(dataclasses.replace(kernel, roofs=kernel.roofs[1:]))
    assert latency.startswith("latency: a warp spends 67.4")
    assert "waiting for global memory; nearest roof: bandwidth of L2" in latency
    busy = dataclasses.replace(kernel, roofs=kernel.roofs[1:], busy=("l2_units", 0.971))
    assert plain(words.limit_words(busy)) == (
        "units of L2, 97.1 % busy; nearest roof: bandwidth of L2, 39.7 %"
    )
    near = dataclasses.replace(busy, roofs=kernel.roofs)
    assert words.limit_words(near) == words.limit_words(kernel), "a roof says more"
    assert words.limit_of_cell(CellWhy(())) == "nothing was counted"
    two = CellWhy((kernel, kernel))
    assert words.limit_of_cell(two).startswith("its longest kernel of 2, softmax_vector (50.0")


# ---- the console ---------------------------------------------------------------------------------


def test_a_rule_of_ncu_without_an_estimate_says_so(findings, pair):
    (kernel,) = pair.first.kernels
    advice = dataclasses.replace(kernel.advice[0], speedup_pct=math.nan, speedup_type="")
    without = CellWhy((dataclasses.replace(kernel, advice=(advice,)),))
    text = explain_text(findings, pair.cell, without, None)
    assert f"ncu's rule {advice.rule}: no estimate" in text


@pytest.mark.parametrize("verdict", [Verdict.SAME, Verdict.UNCLEAR, Verdict.NO_DATA])
def test_the_text_accounts_for_no_difference_that_is_not_shown(findings, pair, verdict):
    same = with_verdict(pair, verdict)
    assert same.counters == ()
    text = explain_text(findings, pair.cell, pair.first, same)
    assert "Where the difference is" not in text
    assert "What went with it" not in text
    assert "moved: " not in text
    assert "What limits vector-b256-r1-v4" in text


def test_without_a_source_page_the_tree_ends_one_level_earlier(findings, pair):
    (kernel,) = pair.first.kernels
    for listing, reason in (
        (None, "no source page"),
        (kernel.profile.listing, "no samples of waiting warps"),
    ):
        profile = dataclasses.replace(kernel.profile, listing=listing)
        bare = CellWhy((dataclasses.replace(kernel, profile=profile, lines=()),))
        text = explain_text(findings, pair.cell, bare, None)
        assert f"  {reason}: which lines wait is not known" in text


def test_a_name_of_a_file_leaves_room_for_the_line(findings, pair):
    (kernel,) = pair.first.kernels
    generated = f"/generated/{'c' * 30}{'d' * 22}.py"
    line = dataclasses.replace(kernel.lines[0], file=generated, line=28, loaded_at="")
    named = CellWhy((dataclasses.replace(kernel, lines=(line,)),))
    text = explain_text(findings, pair.cell, named, None)
    assert f"{'c' * 10}…{'d' * 10}.py:28  [for global memory]  value[k][i] = ins" in text


def test_where_this_pair_shows_no_difference_the_one_that_does_is_named(findings, pair):
    same = with_verdict(pair, Verdict.SAME)
    text = explain_text(findings, pair.cell, pair.first, same)
    assert "A difference was explained at 16384 \u00d7 8192 float32: --problem" in text
    assert "A difference was explained" not in explain_text(findings, pair.cell, pair.first, pair)


# ---- the page ------------------------------------------------------------------------------------


def section(findings):
    (why,) = lxml.html.document_fromstring(render_page(findings)).xpath("//section[@id='why']")
    return why


@pytest.mark.usefixtures("undrawn")
def test_the_page_has_the_account_the_causes_and_the_tree(findings, pair):
    why = section(findings)
    text = why.text_content()
    assert words.why_sentence(pair) in text
    assert "Warp instructions executed, by class" in text
    assert "Counters of both, by the part of the account" in text
    captions = [caption.text_content() for caption in why.xpath(".//caption")]
    for start in ("Where the difference is", "Roofs", "What a warp waits for", "Where it waits"):
        assert any(caption.startswith(start) for caption in captions), start
    (advice, *_) = why.xpath('.//table[caption[starts-with(., "What ncu\'s rules say")]]//tr[td]')
    assert advice.xpath("td")[-1].text_content() in ("global", "local")
    assert "Top" in text, "operations have a unit"
    limits = [summary.text_content() for summary in why.xpath(".//summary")]
    for cell in find_why(findings).cells.values():
        assert any(words.limit_of_cell(cell) in summary for summary in limits)


def test_a_run_that_explained_nothing_has_no_such_section():
    assert explained(find(make_report(4, blocks=2))) is None


@pytest.mark.usefixtures("undrawn")
def test_a_ladder_explains_each_step_and_what_kernels_are_called_is_escaped(pair):
    report = without(make_report(6), kind="progression")
    (kernel,) = pair.first.kernels
    hostile = KernelProfile(HOSTILE, kernel.profile.values, listing=kernel.profile.listing)
    problem = report.plan.cells[0].problem
    profiles = {cell.id: (hostile,) for cell in report.plan.cells if cell.problem == problem}
    findings = find(without(report, profiles=profiles))
    pairs = find_why(findings).pairs
    assert {step.cell.problem.id for step in pairs} == {problem.id}
    steps = [(step.cell.variant.id, step.against.variant.id) for step in pairs]
    rungs = [(r.variant.id, r.before.id) for r in findings.ladder if r.before is not None]
    assert steps[0][1] == findings.programs.baseline.id, "the answer comes first"
    assert len(steps) > 3
    assert set(steps[1:]) <= set(rungs)
    assert not section(findings).xpath(".//img")
