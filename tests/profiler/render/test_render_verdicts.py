"""Verdicts on pages and in the console: what may be called faster, the best, or a tie."""

import dataclasses
import math

import lxml.html
import pandas as pd
import pytest
from as_read import printed
from synthetic_report import make_report, problems, with_metrics, without

from profiler.analyse.judge import Judge, Rules, visit_times
from profiler.analyse.summary import summarise
from profiler.analyse.verdicts import Reason
from profiler.commands.output import report_document
from profiler.findings.cell_numbers import FINAL
from profiler.findings.document import judged_table, summary_document, summary_table
from profiler.findings.find import find
from profiler.findings.verdicts import NO_VERDICT, PairVerdict, Resolution
from profiler.findings.winners import leader_of
from profiler.model import Outcome, SessionKind, Verdict
from profiler.planning.page_kinds import PAGE_KINDS
from profiler.render.console import tables as console
from profiler.render.kinds.versions import ablation_view
from profiler.render.page import render_page
from profiler.render.tables import heats
from profiler.render.tables.rows import counts_datum, verdict_datum
from profiler.render.tables.slowdowns import slowdown_heats
from profiler.render.words.answer import sentences
from profiler.render.words.cards import cards, evidence
from profiler.render.words.comparisons import best_word, bias_words, ties_words
from profiler.render.words.signs import SYMBOLS, word
from profiler.render.words.verdicts import (
    counts,
    details,
    reason_words,
    symbol,
    why_no_verdict,
)


@pytest.fixture(scope="module")
def measured_again():
    return make_report(variant_count=12, problem_list=problems()[:3], final_blocks=8)


@pytest.fixture(scope="module")
def again(measured_again):
    return find(measured_again)


@pytest.fixture(scope="module")
def equal():
    """Twelve names of one kernel."""
    report = make_report(variant_count=12, problem_list=problems()[:3], final_blocks=8, equal=True)
    return with_metrics(report, "duration_ns", "cycles")


def say(findings):
    return " ".join("".join(part.text for part in one) for one in sentences(findings))


def shown(report):
    return printed(console.final_summary(find(report), verbose=True), 220)


# ---- nothing is claimed that no verdict says -----------------------------------------------------


@pytest.mark.parametrize("kind", PAGE_KINDS)
@pytest.mark.usefixtures("undrawn")
def test_equal_kernels_are_never_called_faster_or_best(equal, kind):
    report = without(equal, kind=kind)
    findings = find(report)
    said = say(findings)
    for card in cards(findings):
        said += f" {card.answer} {card.detail}"
    for claim in (Verdict.FASTER.word, Verdict.SLOWER.word, "faster", "the best is"):
        assert claim not in said
    assert best_word(findings.ranking) != "best"
    tree = lxml.html.document_fromstring(render_page(findings))
    judged = tree.xpath("//td[contains(@class, 'is-faster') or contains(@class, 'is-slower')]")
    assert judged == []


def test_the_console_claims_no_more_than_the_page(equal):
    _, _, tables = shown(equal).partition("Winner per problem")
    table, _, rest = tables.partition("Geometric means")
    assert "the same as " in table or "not told apart from " in table
    assert " best " not in table
    assert Verdict.FASTER.word not in table.partition("winner")[2]
    assert "\u25bc 1" not in rest


def test_ties_are_counted_where_they_are_many_and_named_where_they_are_few(equal, again):
    findings = find(equal)
    winner = findings.ranking.winners[findings.programs.problems[0].id]
    assert winner.final
    assert not winner.best
    cells = (*winner.same_cells, *winner.not_told_apart)
    assert f"reads {100 * winner.selection_bias:.2f}\u202f% too low)" in ties_words(winner)
    winner = dataclasses.replace(winner, selection_bias=math.nan)
    many = dataclasses.replace(winner, same_cells=cells, not_told_apart=())
    assert ties_words(many) == f"the same as {len(cells)} others"
    few = dataclasses.replace(winner, same_cells=cells[:1], not_told_apart=cells[1:3])
    names = [cell.variant.label for cell in cells[:3]]
    assert ties_words(few) == (
        f"the same as {names[0]} and not told apart from {names[1]} and {names[2]}"
    )
    assert ties_words(dataclasses.replace(winner, same_cells=(), not_told_apart=())) == ""
    assert "the same as" in say(findings) or "not told apart" in say(findings)
    assert Verdict.FASTER.word in say(again)


def test_few_blocks_give_no_verdict_and_no_tie_by_verdict():
    report = make_report(variant_count=6, problem_list=problems()[:1], blocks=5)
    findings = find(report)
    assert "best" not in say(findings).lower()
    real = cards(findings)[2]
    assert real.answer == f"? {Verdict.UNCLEAR.word}"
    assert "5 blocks; a verdict needs 6 or more" in real.detail
    winner = findings.ranking.winners["fp16_512x1024"]
    assert not winner.judged
    assert ties_words(winner) == ""
    assert summary_document(findings, "")["answer"]["best"]["not_told_apart"] == 0
    assert "lowest median, not judged" in shown(report)


def test_blocks_that_no_look_could_decide_are_no_verdict():
    """All of 6 blocks on one side have p = 1/64, and three looks ask for 1/120."""
    base = PairVerdict(Verdict.UNCLEAR, Reason.MORE_BLOCKS_NEEDED, blocks=6)
    assert base.tested
    assert not dataclasses.replace(base, looks=3).tested
    assert dataclasses.replace(base, looks=3, blocks=7).tested


# ---- finals --------------------------------------------------------------------------------------


def test_a_final_speaks_where_both_were_in_it(again, measured_again):
    findings = again
    problem = findings.programs.problems[0]
    winner = findings.ranking.rival_winners[problem.id].cell
    baseline = findings.programs.by_place["torch", problem.id]
    pair = findings.verdicts.verdict_on(winner, baseline)
    times = visit_times(
        measured_again.measured.samples, measured_again.plan.cells, SessionKind.FINAL
    )
    row = Judge(times, "torch", Rules(looks=1)).compare([(winner.id, baseline.id)]).iloc[0]
    assert pair.confirmed
    assert (pair.verdict, pair.ratio) == (row["verdict"], row["ratio"])
    assert findings.verdicts.against_baseline[winner.id].ratio == pytest.approx(pair.ratio)
    value = findings.numbers.value(winner, "duration_ns")
    assert (value.ratio, value.source) == (pair.ratio, FINAL)
    before = findings.numbers.block_value(winner)
    assert before.ratio != pair.ratio
    assert before.median != value.median
    assert "in the confirmation" in say(again)
    slowest = findings.numbers.sorted_at(problem, "duration_ns")
    loser = next(cell for cell, value in reversed(slowest) if value.present)
    assert not findings.verdicts.at(loser, problem).confirmed


def test_without_a_final_every_number_is_of_the_blocks():
    findings = find(make_report(variant_count=4, problem_list=problems()[:2]))
    assert {value.source for value in findings.numbers.values.values()} == {"blocks"}
    cells = report_document(findings)["cells"]
    assert {cell["blocks"] for cell in cells} == {None}
    wanted = {cell for cell in findings.programs.correct_cells if not cell.startswith("torch")}
    assert set(judged_table(findings.verdicts)["cell"]) == wanted
    assert {cell["id"] for cell in cells if cell["metrics"]} == set(findings.programs.correct_cells)


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_words(reason):
    known = PairVerdict(
        Verdict.UNCLEAR,
        reason,
        resolution=Resolution(0.01, noise_floor=0.004, detectable=0.02),
        blocks=8,
    )
    for pair in (known, PairVerdict(Verdict.UNCLEAR, reason)):
        assert reason_words(pair)
        assert "nan" not in reason_words(pair)


def test_the_card_says_where_its_verdicts_are_from(again, report):
    confirmed, timed = cards(again)[2].detail, cards(find(report))[2].detail
    assert confirmed.endswith("; confirmed")
    assert timed.endswith("; 8 visits, not remeasured")
    assert bias_words(0.002) == "0.20\u202f% too low"
    assert bias_words(0.0005) == "", "less than a tenth of the least margin"


def test_the_console_shows_the_number_of_the_final(measured_again):
    text = shown(measured_again)
    assert "Numbers of the confirmation (8 blocks" in text
    assert word(Verdict.FASTER) in text


def test_a_variant_that_left_the_race_does_not_win():
    """Its few blocks were measured while all ran faster; only those that stayed are ranked."""
    report = make_report(variant_count=4, problem_list=problems()[:1], blocks=16)
    quitter = next(cell for cell in report.plan.cells if cell.variant.id == "naive-b64-v1")
    rows = report.measured.samples["cell"] == quitter.id
    early = report.measured.samples[~rows | (report.measured.samples["block"] < 8)].copy()
    early.loc[early["cell"] == quitter.id, "duration_ns"] *= 0.01
    summary = summarise(early, cells=report.plan.cells, baseline="torch")
    findings = find(without(report, samples=early, summary=summary))
    (winner,) = findings.ranking.winners.values()
    assert winner.cell != quitter


def test_a_final_with_nothing_right_but_the_baseline_decides_nothing(again):
    """A recheck that found the finalists wrong once left the baseline ahead of faster ones."""
    problem = again.programs.problems[0].id
    measured = [
        (cell, again.numbers.value(cell, "duration_ns"))
        for cell in again.programs.correct_cells.values()
        if cell.problem.id == problem
    ]
    left = [
        (cell, value)
        for cell, value in measured
        if cell.variant == again.programs.baseline or value.source != FINAL
    ]
    fastest = min(left, key=lambda pair: pair[1].median)[0]
    assert fastest.variant != again.programs.baseline
    assert leader_of(left, again.programs.baseline) == fastest
    assert leader_of(measured, again.programs.baseline) == again.ranking.winners[problem].cell


# ---- named baselines -----------------------------------------------------------------------------


def test_every_named_baseline_asks_the_same_judge(findings):
    by_key = {one.key: one for one in findings.verdicts.baselines}
    report = findings.report
    times = visit_times(report.measured.samples, report.plan.cells, SessionKind.TIMING)
    judge = Judge(times, report.plan.baseline, report.rules)
    for key in ("reference", "first", "previous"):
        others = by_key[key].opponents
        pair = next((cell, other) for cell, other in others.items() if other and other != cell)
        alone = judge.compare([pair]).iloc[0]
        assert by_key[key].verdicts[pair[0]].ratio == alone["ratio"]
    own = findings.programs.by_place["torch", findings.programs.problems[0].id]
    assert by_key["reference"].verdicts[own.id].verdict is None
    assert why_no_verdict(by_key["reference"], own) == "compared with itself"


def test_an_alias_is_a_name_of_what_was_measured_and_no_variant(findings):
    aliases = {
        cell.variant.id: status.duplicate_of
        for cell in findings.programs.plan.cells
        if (status := findings.programs.status(cell)).outcome is Outcome.DUPLICATE
    }
    assert aliases
    assert not aliases.keys() & {variant.id for variant in findings.programs.variants}
    names = {one.id: one.name for one in findings.programs.plan.variants}
    owners = {one.partition("..")[0] for one in aliases.values() if one}
    assert {owner: findings.programs.aliases[owner] for owner in owners} == {
        owners.pop(): tuple(names[alias] for alias in aliases)
    }
    for winner in findings.ranking.winners.values():
        named = {cell.variant.id for cell in (*winner.same_cells, *winner.not_told_apart)}
        assert not named & aliases.keys()
    table = summary_table(findings).set_index(["cell", "metric"])
    for cell in findings.programs.plan.cells:
        owner = findings.programs.status(cell).duplicate_of
        if owner:
            row = table.loc[(cell.id, "duration_ns")]
            assert row["alias_of"] == owner
            assert row["median"] == table.loc[(owner, "duration_ns")]["median"]


def test_wrong_results_have_no_verdict(findings):
    wrong = [
        cell
        for cell in findings.programs.cells
        if findings.programs.status(cell).outcome is Outcome.WRONG_RESULT
    ]
    assert wrong
    for one in findings.verdicts.baselines:
        for cell in wrong:
            assert one.verdicts[cell.id] == NO_VERDICT
        for cell in findings.programs.cells:
            assert one.opponents[cell.id] not in {wrong_cell.id for wrong_cell in wrong}


def test_rows_can_be_filtered_by_verdict(tree):
    boxes = tree.xpath("//input[@data-verdict]/@data-verdict")
    assert len(boxes) == len(Verdict)
    rows = tree.xpath("//table[@id='main-table']/tbody/tr/@data-verdict")
    assert {one for one in rows if one} <= set(boxes)
    heads = ["".join(one.itertext()) for one in tree.xpath("//table[@id='main-table']//th")]
    assert "verdict" in heads


def test_without_common_blocks_there_is_no_data_but_a_ratio():
    report = make_report(variant_count=3, problem_list=problems()[:1])
    moved = report.measured.samples.copy()
    moved.loc[moved["cell"].str.startswith("torch"), "block"] += 100
    findings = find(without(report, samples=moved))
    reference = findings.verdicts.baselines[0]
    cell = findings.programs.cells[2]
    pair = reference.verdicts[cell.id]
    assert pair.verdict is Verdict.NO_DATA
    assert math.isfinite(pair.ratio)
    assert verdict_datum(pair).raw is None


def test_no_pair_has_two_verdicts_on_one_page(again, findings):
    """Whichever family it is asked for in, and whichever way round."""
    for one in (again, findings):
        told = {}
        for each in one.verdicts.baselines:
            for cell, other in each.opponents.items():
                pair = each.verdicts[cell]
                if other and other != cell:
                    key = cell < other
                    seen = pair if key else pair.reversed
                    told.setdefault(frozenset((cell, other)), set()).add(seen.verdict)
        assert all(len(verdicts) == 1 for verdicts in told.values())


def test_the_ratio_of_cycles_stands_behind_a_verdict_and_clocks_that_differ_are_named():
    pair = PairVerdict(Verdict.FASTER, ratio=0.9, resolution=Resolution(0.01), blocks=8)
    assert "cycles" not in limits_and_cycles(pair)
    alike = dataclasses.replace(pair, cycles_ratio=0.91)
    assert limits_and_cycles(alike).endswith("cycles 0.910\u00d7")
    other = dataclasses.replace(pair, cycles_ratio=0.93)
    assert limits_and_cycles(other).endswith("cycles 0.930\u00d7, clocks 3.33\u202f% apart")


def limits_and_cycles(pair):
    return details(pair).partition("; ")[2]


# ---- heat maps, steps and ladders ----------------------------------------------------------------


def test_unclear_is_hatched_and_same_is_dotted(findings):
    found = set()
    for row in heats.heat(findings).rows:
        variant = findings.programs.variants[row.mark]
        for problem, datum in zip(findings.programs.problems, row.data[1:], strict=True):
            verdict = findings.verdicts.at(variant, problem).verdict
            assert ("unclear" in datum.css) == (verdict is Verdict.UNCLEAR)
            assert ("tied" in datum.css) == (verdict is Verdict.SAME)
            if verdict is not None:
                assert verdict.word in datum.title
            found.add(verdict)
    assert {Verdict.FASTER, Verdict.SLOWER, Verdict.UNCLEAR, Verdict.SAME} <= found


def test_behind_the_best_follows_the_verdicts(equal):
    findings = find(without(equal, kind="autotune"))
    ((_, one),) = slowdown_heats(findings)
    marks = [datum.css for row in one.rows for datum in row.data[2:] if datum.raw is not None]
    assert sum("top" in css for css in marks) == len(one.problems)
    for row in one.rows:
        for datum in row.data[2:]:
            if "unclear" in datum.css:
                assert datum.text.startswith("?")
                assert Verdict.UNCLEAR.word in datum.title
    told = [css for css in marks if "tied" in css or "unclear" in css or "top" in css]
    assert len(told) >= len(marks) - 3, "equal kernels tie, whatever their medians are"


def test_steps_of_an_ablation_have_a_verdict_for_each_problem(report):
    findings = find(without(report, kind="ablation", parameters=("vec",)))
    (found,) = findings.parameter_steps
    assert len(found.verdicts) == len(findings.programs.problems) == len(found.effects)
    for effect, pair in zip(found.effects, found.verdicts, strict=True):
        assert pair.ratio == pytest.approx(effect.ratio)
        assert pair.blocks == 8
        assert not pair.confirmed
    (block,) = ablation_view(findings)["ablations"]
    assert "verdict" in [column.head for column in block["chart"].table.columns]
    said = counts_datum(found.verdicts)
    assert "worst: " in said.title
    worst = max(pair.ratio for pair in found.verdicts)
    assert f"{worst:.3f}\u00d7" in said.title


def test_every_rung_has_a_verdict_on_its_step_and_on_the_whole(report):
    findings = find(without(report, kind="progression"))
    measured = [rung for rung in findings.ladder if rung.cumulative is not None]
    first, second, third, *_ = measured
    assert first.step is None
    assert {one.verdict for one in first.cumulative.verdicts} == {None}
    problem = findings.programs.problems[0].id
    for rung, other, step in (
        (second, first, second.step),
        (third, second, third.step),
        (third, first, third.cumulative),
    ):
        cells = findings.programs.by_place
        pair = (cells[rung.variant.id, problem], cells[other.variant.id, problem])
        assert step.verdicts[0] == findings.verdicts.verdict_on(*pair)
        assert step.effects[0].ratio == step.verdicts[0].ratio
        assert step.verdicts[0].verdict is not None


def test_counts_say_one_word_where_all_agree():
    fast, same = PairVerdict(Verdict.FASTER, blocks=8), PairVerdict(Verdict.SAME, blocks=8)
    assert counts([]) == counts([NO_VERDICT]) == ""
    assert counts([fast]) == word(Verdict.FASTER)
    assert counts([fast, fast]) == f"{word(Verdict.FASTER)} at both problems"
    mixed = f"{word(Verdict.FASTER)} at 2, {word(Verdict.SAME)} at 1 of 3 problems"
    assert counts([fast, same, fast]) == mixed
    assert symbol([fast, fast, NO_VERDICT]) == "\u25bc"
    assert symbol([fast, same]) == symbol([]) == ""
    assert counts_datum([fast, same]).text == "\u25bc 1, = 1"
    assert counts_datum([]).title == "no verdict"


def test_verdicts_are_told_by_word_symbol_and_colour():
    assert len(set(SYMBOLS.values())) == len(Verdict)
    for verdict in Verdict:
        datum = verdict_datum(PairVerdict(verdict, blocks=8))
        assert datum.text == f"{SYMBOLS[verdict]} {verdict.word}"
        assert datum.css.startswith("verdict is-")


def test_a_report_without_arms_in_finals_still_renders(measured_again):
    """As of recordings from before there were second arms: the noise floor is not known."""
    samples = measured_again.measured.samples
    old = samples[(samples["arm"] == 0) & (samples["kind"] == "timing")]
    report = with_metrics(without(measured_again, samples=pd.DataFrame(old)), "duration_ns")
    findings = find(report)
    assert "noise floor not known" in evidence(findings)
    assert "noise floor not known" in render_page(find(report))
