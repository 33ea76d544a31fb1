"""What the sections of a page say, as data."""

import dataclasses
import math
import re

import pandas as pd
import pytest
from synthetic_report import make_report, problems, unmeasured, without

from profiler.analyse.verdicts import Reason
from profiler.findings.counters import level_bytes, roof_lines
from profiler.findings.find import find
from profiler.findings.verdicts import PairVerdict, Resolution
from profiler.model import CellStatus, Outcome, Problem, Verdict
from profiler.planning.problem_names import problem_key
from profiler.render import embed
from profiler.render.figures import roofline_drawing
from profiler.render.figures.charts import colours
from profiler.render.figures.drawing import to_svg
from profiler.render.tables import heats, main_table
from profiler.render.tables.why import roofline, roofline_table, why
from profiler.render.words import cards as cards_module
from profiler.render.words.answer import sentences
from profiler.render.words.cards import cards, doubts
from profiler.render.words.comparisons import best_word
from profiler.render.words.verdicts import reason_and_blocks


def say(findings):
    return " ".join("".join(part.text for part in one) for one in sentences(findings))


def test_a_baseline_that_is_best_is_called_so(findings, findings_by_baseline):
    winner = findings.ranking.best
    led = findings_by_baseline(winner.id)
    other = led.ranking.best
    assert other != winner
    answer = say(led)
    leads = f"Over all 12 problems {winner.name}, the baseline, has the lowest geometric mean."
    assert leads in answer
    assert f"Of the rest, {other.name} takes 1." in answer
    assert f"{Verdict.SLOWER.word} at " in answer
    assert f"{winner.name} has the lowest number at" in answer
    assert f"{other.name} has the lowest number at" not in answer
    assert f"{other.name} is best" not in answer
    best, difference, *_ = cards(led)
    assert best.answer == winner.name
    assert best.detail.startswith("the baseline; lowest at ")
    assert other.name in difference.detail
    assert (best_word(findings.ranking), best_word(led.ranking)) == ("leader", "first of the rest")
    assert "first of the rest over all problems" in colours(led.ranking)


def test_the_largest_problem_is_won_by_whom_it_is_won(findings, findings_by_baseline):
    largest = findings.ranking.largest_problem
    winner = findings.ranking.winners[largest.id].cell.variant
    led = findings_by_baseline(winner.id)
    (runner_up, _) = findings.numbers.sorted_at(largest, findings.numbers.primary.name)[1]
    answer = say(led)
    assert f"the best is {winner.name}, the baseline, with " in answer
    assert f"; of the rest, {runner_up.name} has the lowest median, " in answer


def test_geometric_mean_is_that_of_the_paired_ratios(findings):
    best = findings.ranking.best_rank
    product = 1.0
    for _, value in best.ratios:
        product *= value.ratio
    assert best.geometric_mean == pytest.approx(product ** (1 / len(best.ratios)))
    assert best.worst[1].ratio == max(value.ratio for _, value in best.ratios)


def test_incomplete_variants_never_win(findings):
    complete = [row.complete for row in findings.ranking.ranks]
    assert complete == sorted(complete, reverse=True)
    assert not all(complete)


def test_cards_say_what_was_not_collected():
    full = make_report(variant_count=4, problem_list=problems()[:2])
    timing = full.measured.summary[full.measured.summary["metric"] == "duration_ns"]
    found = cards(find(without(full, summary=timing, metrics=("duration_ns",))))
    assert found[3].answer == "not explained"
    assert "docs/explain.md" in found[3].detail


@pytest.mark.parametrize(
    ("roof", "saved", "expected"),
    [
        (("l2", 9.1), (0.6, 0.5), "0.600x the DRAM bytes: 0.500x the kernels, those of torch"),
        (("tensor_bf16", 43.1), (0.85, 1.0), "near no roof: the nearest, tensor cores (BF16), is"),
        (("dram", 87.8), (0.6, 0.5), "near bandwidth of device memory: 87.8 % of its roof"),
    ],
)
def test_no_roof_is_called_near_that_is_not(findings, monkeypatch, roof, saved, expected):
    """A roof at 9.1 % was once called near; fewer bytes explain nothing under one of arithmetic."""
    ratios = iter(saved)
    monkeypatch.setattr(cards_module, "limit_at", lambda *_: None)
    monkeypatch.setattr(cards_module, "nearest_roof", lambda *_: roof)
    monkeypatch.setattr(cards_module, "mean_ratio", lambda *_: next(ratios))
    *_, card = cards(findings)
    text = f"{card.answer}: {card.detail}".replace("\u202f", " ").replace("\u00d7", "x")
    assert text.startswith(expected)


def test_heat_map_shows_failures_and_what_was_not_measured(findings):
    rows = {row.name: row for row in heats.heat(findings).rows}
    broken = rows["online-b64-v1"]
    assert all(datum.css == "failed" and datum.raw is None for datum in broken.data[1:])
    assert "compile failed" in broken.data[1].title
    missing = rows["shared-b64-v4"].data[2]
    assert missing.text == "\u2013"
    assert missing.title == "not measured"


@pytest.fixture(scope="module")
def partly_shared(report):
    """A run in which one variant is the same machine code as another at all problems but one."""
    other = report.plan.cells[-1].problem.id
    alone = [
        one.id
        for one in report.plan.cells
        if one.variant.name == "shuffle-b64-v4" and one.problem.id == other
    ]
    statuses = {cell: CellStatus(cell, Outcome.NOT_MEASURED) for cell in alone}
    return find(without(report, statuses={**report.statuses, **statuses}))


def test_a_variant_that_is_another_everywhere_is_a_name_of_it(findings):
    rows = {row.name: row for row in heats.heat(findings).rows}
    assert rows["shuffle-b64-v1"].also == ("shuffle-b64-v4",)
    assert dict(findings.programs.aliases) == {"shuffle-b64-v1": ("shuffle-b64-v4",)}
    assert "shuffle-b64-v4" not in rows


def test_a_duplicate_shows_the_numbers_of_its_twin(partly_shared):
    rows = {row.name: row for row in heats.heat(partly_shared).rows}
    assert rows["shuffle-b64-v1"].also == ()
    twin, own = rows["shuffle-b64-v1"], rows["shuffle-b64-v4"]
    assert [datum.raw for datum in own.data[1:-1]] == [datum.raw for datum in twin.data[1:-1]]
    assert None not in [datum.raw for datum in own.data[:-1]]
    assert own.data[-1].title == "not measured"


def test_baselines_are_what_their_names_say(findings):
    found = {one.key: one.verdicts for one in findings.verdicts.baselines}
    cells = findings.programs.by_place
    problem = findings.programs.problems[0]
    best = findings.ranking.winners[problem.id].cell
    assert found["best"][best.id].ratio == 1
    own = cells[findings.programs.variants[3].id, problem.id]
    before = cells[findings.programs.variants[2].id, problem.id]
    expected = (
        findings.numbers.value(own, "duration_ns").median
        / findings.numbers.value(before, "duration_ns").median
    )
    assert found["previous"][own.id].ratio == pytest.approx(expected, rel=0.01)
    assert math.isnan(
        found["previous"][cells[findings.programs.variants[0].id, problem.id].id].ratio
    )
    after_broken = cells[findings.programs.variants[6].id, problem.id]
    before_broken = cells[findings.programs.variants[4].id, problem.id]
    expected = (
        findings.numbers.value(after_broken, "duration_ns").median
        / findings.numbers.value(before_broken, "duration_ns").median
    )
    assert found["previous"][after_broken.id].ratio == pytest.approx(expected, rel=0.01)


def test_every_named_baseline_has_intervals_and_verdicts(findings):
    found = {one.key: one.verdicts for one in findings.verdicts.baselines}
    cell = findings.programs.by_place[
        findings.programs.variants[3].id, findings.programs.problems[0].id
    ]
    reference = found["reference"][cell.id]
    assert reference.low < reference.ratio < reference.high
    for key in ("best", "first", "previous"):
        one = found[key][cell.id]
        assert one.low <= one.ratio <= one.high
        assert one.verdict is not None


def test_facets_cover_every_cell_and_offer_nothing_that_no_cell_has(findings):
    groups = main_table.facets(findings.programs)
    assert [group["label"] for group in groups] == [
        "problem \u00b7 dtype",
        "problem \u00b7 rows",
        "problem \u00b7 columns",
        "variant \u00b7 kernel",
        "variant \u00b7 block",
        "variant \u00b7 vec",
        "outcome",
    ]
    for group in groups:
        assert len(group["cells"]) == len(findings.programs.cells)
        assert all(0 <= index < len(group["choices"]) for index in group["cells"])
    assert set(groups[-1]["cells"]) == set(range(len(groups[-1]["choices"])))


def test_roofline_shows_every_correct_variant_under_the_memory_roof(findings):
    problem = findings.ranking.largest_problem
    assert problem is not None
    found = roofline(findings, problem)
    assert len(found.table.lines) == 31, (
        "one failed to compile, one is wrong, one is another's name"
    )
    raw = [float(datum.raw or "nan") for datum in found.table.lines[0].data]
    intensity, rate, counted, allowed, share, *roof = raw
    assert all(map(math.isnan, roof)), "no roof was counted"
    assert math.isnan(counted)
    assert allowed == pytest.approx(intensity * 4.8, rel=1e-4)
    assert share == pytest.approx(100 * rate / allowed, rel=1e-4)
    assert "not drawn" in found.reading


ROOFLINE = {
    "l2_bytes": 4e12,
    "l1_bytes": 8e12,
    "dram_peak": 1504.0,
    "l2_peak": 5120.0,
    "l1_peak": 16896.0,
    "dram_clock_hz": 3.2e9,
    "lts_clock_hz": 1.6e9,
    "sm_clock_hz": 1.8e9,
    "tensor_bf16_ops": 1e12,
    "tensor_bf16_peak": 540672.0,
    "tensor_fp16_ops": 0.0,
    "tensor_fp16_peak": 540672.0,
}


def counted_roofline(report, counters=ROOFLINE, **changes):
    """The report with counters of the roofline in every measured cell."""
    durations = report.measured.summary[report.measured.summary["metric"] == "duration_ns"]
    rows = [
        durations.assign(
            metric=name, median=value, mean=value, low=value, high=value, min=value, max=value
        )
        for name, value in counters.items()
    ]
    others = report.measured.summary[~report.measured.summary["metric"].isin(list(counters))]
    return without(report, summary=pd.concat([others, *rows]), **changes)


def test_roofline_has_three_levels_of_memory_and_the_arithmetic_that_is_used(findings):
    practical = {"dram": 0.9, "tensor_bf16": 0.7}
    faults = {"fp32": "out of memory"}
    report = counted_roofline(
        findings.report, practical_roofs=practical, practical_roof_faults=faults
    )
    counted = find(report)
    problem = counted.ranking.largest_problem
    lines = {line.name: line for line in roof_lines(counted, problem)}
    assert set(lines) == {"dram", "l2", "l1", "tensor_bf16"}, "no tensor core works on fp16"
    assert lines["l2"].ceiling == pytest.approx(5120 * 1.6e9)
    table = roofline_table(counted, problem, roof_lines(counted, problem))
    best = table[table["mark"] == counted.programs.marks[counted.ranking.best.id]].set_index(
        "level"
    )
    moved = level_bytes(counted, counted.programs.by_place[(counted.ranking.best.id, problem.id)])
    assert set(best.index) == {"dram", "l2", "l1"}
    assert best.loc["l1", "intensity"] == pytest.approx(best.loc["l2", "intensity"] / 2)
    assert best.loc["l2", "intensity"] * 4e12 == pytest.approx(
        best.loc["dram", "intensity"] * moved["dram"]
    )
    assert set(table.loc[table["role"] == "other", "level"]) == {"dram"}
    drawn = roofline(counted, problem)
    for text in (
        "DRAM 4.81 TB/s (copy 4.33)",
        "L2 8.19 TB/s",
        "L1 30.4 TB/s",
        "tensor cores (BF16) 973 TFLOP/s (product 681)",
    ):
        assert text in drawn.drawing
    assert "FP32 arithmetic: out of memory" in drawn.reading


def test_a_roof_below_all_dots_is_named_and_not_drawn():
    """The FP32 roof of kernels of tensor cores once was a line below the labels of the axis."""
    dots = pd.DataFrame(
        {
            "name": ["hopper"],
            "level": ["dram"],
            "intensity": [7e3],
            "rate": [840.0],
            "own": [860.0],
            "role": ["best"],
            "mark": [0],
        }
    )
    ceilings = pd.DataFrame(
        {"label": ["DRAM", "tensor", "FP32"], "memory": [True, False, False]}
    ).assign(ceiling=[4.8, 975.0, 61.0], lowest=[4.8, 860.0, 54.0], highest=[4.8, 981.0, 61.0])
    roofs = ceilings.assign(band=[False, True, True], practical=math.nan)
    figure = roofline_drawing.roofline(dots, roofs)
    drawn = to_svg(figure, "f", "Roofline", "What it shows")
    assert "below: FP32" in drawn
    assert drawn.count('data-variant="0"') == 2, "the dot and its tick"
    outlines = " ".join(path.get("d") for path in figure.root.findall("path"))
    heights = [float(y) for y in re.findall(r"[ML]\S+ ([\d.]+)", outlines)]
    assert max(heights) <= figure.height * 0.88 + 0.01, "nothing lies below the axes"


def test_a_level_that_copies_go_past_has_no_dots(findings):
    """TMA leaves L1 next to nothing: as a dot it would stand decades right of all others."""
    counted = find(counted_roofline(findings.report, {**ROOFLINE, "l1_bytes": 1e3}))
    problem = counted.ranking.largest_problem
    assert problem is not None
    assert set(roofline_table(counted, problem, roof_lines(counted, problem))["level"]) == {
        "dram",
        "l2",
    }
    drawn = roofline(counted, problem)
    assert "triangles" not in drawn.reading


def at_clock(report, cell, share):
    """The report with the clock of one cell at a share of that of the others."""
    summary = report.measured.summary
    numbers_of = ["median", "mean", "low", "high", "min", "max"]
    clock = (summary["cell"] == cell) & (summary["metric"] == "sm_clock_hz")
    slower = summary.assign(**{n: summary[n].where(~clock, summary[n] * share) for n in numbers_of})
    return without(report, summary=slower)


def test_a_variant_at_another_clock_has_a_roof_of_its_own(findings):
    """A kernel at 96 % of its roof once stood at 86 % of the only line that was drawn."""
    report = counted_roofline(findings.report, {**ROOFLINE, "roof_tensor_bf16_pct": 90.0})
    counted = find(report)
    problem, best = counted.ranking.largest_problem, counted.ranking.best
    drawn = roofline(counted, problem)
    assert "Ticks" not in drawn.reading
    assert "Bands" not in drawn.reading
    moved = find(at_clock(report, counted.programs.by_place[(best.id, problem.id)].id, 0.88))
    lines = roof_lines(moved, problem)
    (line,) = (line for line in lines if line.name == "tensor_bf16")
    assert (line.lowest, line.highest) == pytest.approx((0.88 * line.ceiling, line.ceiling))
    table = roofline_table(moved, problem, lines)
    ticks = table[table["own"].notna()]
    assert set(ticks["mark"]) == {moved.programs.marks[best.id]}
    assert ticks["own"].tolist() == pytest.approx([0.88 * line.ceiling / 1e12])
    found = roofline(moved, problem)
    assert "Ticks: the roof at the clock of a named variant" in found.reading
    assert "Bands" in found.reading
    (row,) = (row for row in found.table.lines if row.mark == moved.programs.marks[best.id])
    name, ceiling, share = row.data[5:]
    assert (name.text, ceiling.raw) == ("tensor cores (BF16)", "856.424")
    assert float(share.raw or "nan") == 90
    hover = f'{share.text} of its roof: tensor cores (BF16), {ceiling.text}"'
    assert hover in found.drawing


def test_no_roofline_without_operations_or_peak(findings):
    report = findings.report
    problem = findings.programs.problems[0]
    peakless = dataclasses.replace(report.environment, peak_dram_bytes_per_s=None)
    assert roofline(find(without(report, environment=peakless)), problem) is None
    timed = report.measured.summary[report.measured.summary["metric"] != "tflops"]
    assert roofline(find(without(report, summary=timed)), problem) is None


def test_why_needs_a_baseline():
    report = make_report(variant_count=3, problem_list=problems()[:1], baseline=None)
    assert why(find(report)) is None


def data_of(findings):
    return embed.payload(findings, main_table.facets(findings.programs))


def test_a_part_of_a_program_is_measured_again_with_all_its_parts(findings):
    plan = findings.programs.plan
    cells = tuple(dataclasses.replace(cell, id=f"{cell.id}..size=1") for cell in plan.cells)
    statuses = {f"{cell}..size=1": status for cell, status in findings.programs.statuses.items()}
    report = dataclasses.replace(
        findings.report, plan=dataclasses.replace(plan, cells=cells), statuses=statuses
    )
    assert data_of(find(report))["of_parts"]
    data = data_of(findings)
    assert not data["of_parts"]
    assert (
        data["rerun"] == f"python -m profiler {findings.report.experiment.spec_path} --fresh --only"
    )
    assert data["explain"] == f"python -m profiler {findings.report.experiment.spec_path} --explain"


def test_a_confirmed_cell_has_its_timing_blocks_too(findings):
    report = make_report(variant_count=6, problem_list=problems()[:1], final_blocks=8)
    confirmed = find(report)
    cells = [
        cell for cell in confirmed.programs.cells if embed.timing_blocks(confirmed.numbers, cell)
    ]
    assert cells
    for cell in cells:
        value = confirmed.numbers.value(cell, "duration_ns")
        blocks = confirmed.numbers.block_value(cell)
        assert value.source == "final"
        assert embed.timing_blocks(confirmed.numbers, cell) == (blocks.median, blocks.n)
    assert not any(embed.timing_blocks(findings.numbers, cell) for cell in findings.programs.cells)


def named(*params):
    sizes = tuple(
        Problem(f"p{number}", ",".join(f"{key}={value}" for key, value in one.items()), one)
        for number, one in enumerate(params)
    )
    return [one.name for one in find(make_report(2, sizes)).programs.problems]


def test_generated_names_are_shortened_to_values():
    assert named({"m": 512, "n": 64, "dtype": "fp16"}, {"m": 8, "n": 32, "dtype": "bf16"}) == [
        "512 \u00d7 64 fp16",
        "8 \u00d7 32 bf16",
    ]
    same_everywhere = named({"m": 1, "n": 2, "k": 3}, {"m": 4, "n": 5, "k": 3})
    assert same_everywhere == ["1 \u00d7 2", "4 \u00d7 5"]


@pytest.mark.parametrize(
    "params",
    [
        ({"m": 1, "causal": True}, {"m": 2, "causal": False}),
        ({"m": 1, "p": 0.1}, {"m": 2, "p": 0.5}),
        ({"m": 1, "n": 2}, {"m": 1, "k": 3}),
        ({"m": 1, "kind": 1}, {"m": 2, "kind": "one"}),
        ({"m": 1}, {"m": 2}),
    ],
)
def test_keys_stay_where_values_alone_would_say_too_little(params):
    assert named(*params) == [
        ", ".join(f"{key}={value}" for key, value in one.items()) for one in params
    ]


def test_what_is_the_same_everywhere_is_left_out_of_names_with_keys():
    by_word = named({"by": "none", "m": 8, "n": 4}, {"by": "adam", "m": 8, "n": 4})
    assert by_word == ["by=none", "by=adam"]
    by_share = named({"m": 1, "k": 3, "p": 0.1}, {"m": 2, "k": 3, "p": 0.5})
    assert by_share == ["m=1, p=0.1", "m=2, p=0.5"]


def test_the_order_of_short_names_is_told():
    sizes = tuple(
        Problem(f"p{n}", f"m={n},n={n},dtype=fp16", {"m": n, "n": n, "dtype": "fp16"})
        for n in (1, 2)
    )
    assert problem_key(sizes) == "", "long names say it themselves"
    half = [{"m": n, "n": n, "dtype": kind} for n, kind in ((1, "fp16"), (2, "bf16"))]
    sizes = tuple(
        Problem(f"p{n}", ",".join(f"{key}={value}" for key, value in one.items()), one)
        for n, one in enumerate(half)
    )
    assert problem_key(find(make_report(2, sizes)).programs.problems) == "m \u00d7 n dtype"


def test_given_names_stay():
    given = Problem("q", "small,half", {"rows": 512, "dtype": "fp16"})
    generated = Problem("p", "rows=512,dtype=fp32", {"rows": 512, "dtype": "fp32"})
    report = make_report(2, (generated, given))
    assert [one.name for one in find(report).programs.problems] == [
        "rows=512, dtype=fp32",
        "small,half",
    ]


def test_a_wrong_result_with_a_rank_is_still_not_ranked(findings):
    """Even a summary that ranks everything cannot make a wrong kernel win."""
    report = findings.report
    summary = report.measured.summary.copy()
    wrong = [cell for cell, one in report.statuses.items() if one.outcome is Outcome.WRONG_RESULT]
    summary.loc[summary["cell"].isin(wrong), "rank"] = 0.5
    spoiled = find(without(report, summary=summary))
    assert spoiled.ranking.best == findings.ranking.best
    assert not {winner.cell.id for winner in spoiled.ranking.winners.values()} & set(wrong)
    assert not {
        cell for winner in spoiled.ranking.winners.values() for cell in winner.rival_verdicts
    } & set(wrong)


def test_problems_with_different_parameters_are_told_apart_by_those_they_share():
    sizes = {"op": "sum", "rows": 8, "columns": 8}
    assert named(sizes, {**sizes, "op": "max"}, {"op": "attention", "batch": 4}) == [
        "sum",
        "max",
        "attention",
    ]
    kinds = tuple(Problem(name, f"op={name}", {"op": name}) for name in ("sum", "max"))
    assert problem_key(find(make_report(2, kinds)).programs.problems) == "", "a word says it itself"
    assert named(sizes, {**sizes, "rows": 16}, {**sizes, "op": "conv", "batch": 4}) == [
        "sum 8",
        "sum 16",
        "conv 8",
    ]


def test_keys_that_stay_are_those_that_differ():
    same = {"op": "attention", "dtype": "fp16"}
    assert named({**same, "batch": 1, "heads": 8}, {**same, "batch": 1, "width": 64}) == [
        "op=attention, dtype=fp16, batch=1, heads=8",
        "op=attention, dtype=fp16, batch=1, width=64",
    ]
    assert named({**same, "batch": 1, "heads": 8}, {**same, "batch": 2, "width": 64}) == [
        "batch=1, heads=8",
        "batch=2, width=64",
    ]


def test_problems_that_nobody_measured_are_not_all():
    whole = make_report(variant_count=6)
    gone = whole.plan.cells[0].problem.id
    part = unmeasured(whole, {cell.id for cell in whole.plan.cells if cell.problem.id == gone})
    assert "Over all 12 problems" in say(find(whole))
    assert "Over the 11 problems" in say(find(part))


def test_among_problems_of_different_kinds_none_is_the_largest():
    kinds = tuple(Problem(name, f"op={name}", {"op": name}) for name in ("sum", "max"))
    assert "At the problem that takes longest, " in say(find(make_report(3, kinds)))


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ([{"n": 64}, {"n": 128}], "At the problem that takes longest, n=64"),
        ([{"n": 128}, {"n": 64}], "At the largest problem, n=128"),
        ([{"n": 128, "batch": 1}, {"n": 64, "batch": 16}], "At the largest problem, 128 \u00d7 1"),
    ],
)
def test_only_a_problem_that_none_exceeds_is_called_the_largest(monkeypatch, sizes, words):
    """The first problem of each pair takes longer."""
    named = [(",".join(f"{key}={value}" for key, value in size.items()), size) for size in sizes]
    report = make_report(3, tuple(Problem(name, name, size) for name, size in named))
    findings = find(report)
    first = property(lambda itself: itself.programs.problems[0])
    monkeypatch.setattr(type(findings.ranking), "largest_problem", first)
    assert words in say(findings)


def test_the_baseline_alone_is_not_compared_with_itself():
    report = make_report(variant_count=6)
    others = {cell.id for cell in report.plan.cells if cell.variant.id != report.plan.baseline}
    text = say(find(unmeasured(report, others)))
    assert "torch" in text
    assert "the time of torch" not in text
    assert "lowest number" not in text


def test_the_card_counts_every_unclear_problem_and_gives_the_most_common_reason():
    unclear = PairVerdict(
        Verdict.UNCLEAR, Reason.MORE_BLOCKS_NEEDED, resolution=Resolution(0.01), blocks=8
    )
    other = dataclasses.replace(unclear, reason=Reason.FEW_BLOCKS, blocks=4)
    faster = PairVerdict(Verdict.FASTER, Reason.DECIDED, resolution=Resolution(0.01), blocks=8)
    why_unclear = reason_and_blocks(unclear)
    assert "8 blocks do not tell it from \u00b11.00\u202f%" in why_unclear
    shown = Verdict.UNCLEAR.word
    assert f"{shown} at 2: {why_unclear}" in doubts([unclear, unclear, faster])
    assert f"{shown} at 3, most often: {why_unclear}" in doubts([unclear, other, unclear, faster])
    assert doubts([unclear, unclear]) == why_unclear
    assert doubts([faster]) == ""


@pytest.mark.parametrize("known", [True, False])
def test_without_percent_of_peak_the_card_has_the_bandwidth_or_says_how_to_get_more(
    findings, known
):
    report = findings.report
    own = report.measured.summary["metric"].isin(
        ["compute_throughput_pct", "memory_throughput_pct"]
    )
    bare = report.measured.summary[~own & (report.measured.summary["metric"] != "peak_dram_pct")]
    if known:
        times = bare[bare["metric"] == "duration_ns"]
        bare = pd.concat([bare, times.assign(metric="peak_dram_pct", median=42.0)])
    fewer = {"dram_read_bytes", "dram_write_bytes", "kernels"}
    bare = bare[~bare["metric"].isin(fewer) & ~bare["metric"].str.startswith("roof_")]
    card = cards(find(without(report, summary=bare)))[-1]
    assert card.answer == ("not DRAM bandwidth" if known else "not explained")
    assert ("42.0\u202f% of it at " in card.detail) == known
