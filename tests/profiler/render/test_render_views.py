"""What the sections of a page say, as data."""

import dataclasses

import pytest
from synthetic_report import HOSTILE, make_report, problems, without

from profiler.model import Outcome, Problem
from profiler.render import compare, details, tables
from profiler.render.answer import cards, sentences
from profiler.render.lookup import Lookup, distinct, readable, varying
from profiler.render.method import method
from profiler.render.roles import Ranking
from profiler.render.why import why


def say(ranking: Ranking) -> str:
    return " ".join("".join(part.text for part in one) for one in sentences(ranking))


def test_answer_names_best_ratio_interval_and_coverage(ranking: Ranking) -> None:
    answer = say(ranking)
    best = ranking.best
    assert best is not None
    assert f"Over all 12 problems {best.name} takes 0." in answer
    assert "geometric mean" in answer
    assert "the interval excludes 1" in answer
    assert "used everywhere it costs at most" in answer
    assert "384 of 408 cells measured" in answer
    for part in ("12 compile failed", "4 wrong result", "4 timed out", "4 not measured"):
        assert part in answer


def test_geometric_mean_is_that_of_the_paired_ratios(ranking: Ranking) -> None:
    best = ranking.best_standing
    assert best is not None
    product = 1.0
    for _, value in best.ratios:
        product *= value.ratio
    assert best.geometric_mean == pytest.approx(product ** (1 / len(best.ratios)))
    assert best.worst is not None
    assert best.worst[1].ratio == max(value.ratio for _, value in best.ratios)


def test_incomplete_variants_never_win(ranking: Ranking) -> None:
    complete = [row.complete for row in ranking.standings]
    assert complete == sorted(complete, reverse=True)
    assert not all(complete)


def test_four_cards(ranking: Ranking) -> None:
    found = cards(ranking)
    assert [card.question for card in found] == [
        "Best",
        "By how much",
        "Is it real",
        "What limits it",
    ]
    assert found[2].answer == "12 of 12 problems"
    assert "8 blocks" in found[2].detail
    assert found[3].answer == "memory"


def test_cards_say_what_was_not_collected() -> None:
    full = make_report(variant_count=4, problem_list=problems()[:2])
    timing = full.summary[full.summary["metric"] == "duration_ns"]
    found = cards(Ranking(Lookup(without(full, summary=timing, metrics=("duration_ns",)))))
    assert found[3].answer == "\u2013"
    assert "not collected" in found[3].detail


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [(1.0, "h0"), (1.01, "h0"), (0.9, "h-2"), (0.2, "h-6"), (3.0, "h6"), (1.1, "h2")],
)
def test_heat_classes_are_symmetric(ratio: float, expected: str) -> None:
    assert tables.heat_class(ratio) == expected
    mirrored = expected.replace("h-", "h") if "-" in expected else expected.replace("h", "h-")
    assert tables.heat_class(1 / ratio) == (mirrored if expected != "h0" else "h0")
    assert tables.heat_class(ratio, lower_is_better=False) == tables.heat_class(1 / ratio)


def test_heat_map_shows_failures_and_what_was_not_measured(ranking: Ranking) -> None:
    rows = {row.name: row for row in tables.heat(ranking).rows}
    broken = rows["online-b64-v1"]
    assert all(datum.css == "failed" and datum.raw is None for datum in broken.data[1:])
    assert "compile failed" in broken.data[1].title
    missing = rows["shared-b64-v4"].data[2]
    assert missing.text == "\u2013"
    assert missing.title == "not measured"


def test_a_duplicate_shows_the_numbers_of_its_twin(ranking: Ranking) -> None:
    rows = {row.name: row for row in tables.heat(ranking).rows}
    twin, own = rows["shuffle-b64-v1"], rows["shuffle-b64-v4"]
    assert [datum.raw for datum in own.data] == [datum.raw for datum in twin.data]
    assert own.data[0].raw is not None


def test_baselines_are_what_their_names_say(ranking: Ranking) -> None:
    found = {one.key: one.ratios for one in compare.comparisons(ranking)}
    lookup = ranking.lookup
    cells = lookup.cells
    problem = lookup.problems[0]
    best = lookup.best_by_problem[problem.id][0]
    assert found["best"][best.id].raw == "1"
    own = cells[lookup.variants[3].id, problem.id]
    before = cells[lookup.variants[2].id, problem.id]
    expected = lookup.value(own, "duration_ns").median / lookup.value(before, "duration_ns").median
    assert float(found["previous"][own.id].raw or 0) == pytest.approx(expected)
    assert found["previous"][cells[lookup.variants[0].id, problem.id].id].raw is None
    after_broken = cells[lookup.variants[6].id, problem.id]
    before_broken = cells[lookup.variants[4].id, problem.id]
    expected = (
        lookup.value(after_broken, "duration_ns").median
        / lookup.value(before_broken, "duration_ns").median
    )
    assert float(found["previous"][after_broken.id].raw or 0) == pytest.approx(expected)


def test_only_the_reference_has_intervals(ranking: Ranking) -> None:
    found = {one.key: one.ratios for one in compare.comparisons(ranking)}
    cell = ranking.lookup.cells[ranking.lookup.variants[3].id, ranking.lookup.problems[0].id]
    assert found["reference"][cell.id].title.startswith("[")
    assert found["best"][cell.id].title == "ratio of medians"


def test_facets_cover_every_cell(ranking: Ranking) -> None:
    groups, membership = tables.facets(ranking.lookup)
    assert [group.label for group in groups] == [
        "problem \u00b7 dtype",
        "problem \u00b7 rows",
        "problem \u00b7 columns",
        "variant \u00b7 kernel",
        "variant \u00b7 block",
        "variant \u00b7 vec",
        "outcome",
    ]
    assert len(membership) == len(ranking.lookup.report.plan.cells)
    for row in membership:
        for index, group in zip(row, groups, strict=True):
            assert 0 <= index < len(group.values)


def test_missing_values_say_why(ranking: Ranking) -> None:
    lookup = ranking.lookup
    cell = lookup.cells[lookup.variants[3].id, lookup.problems[0].id]
    assert "did not deliver" in lookup.why_missing(cell, "bank_conflicts")
    assert lookup.why_missing(cell, "waves") == "not collected for this cell"
    assert lookup.why_missing(None, "waves") == "not in the plan"


def test_why_compares_best_and_baseline_at_the_largest_problem(ranking: Ranking) -> None:
    found = why(ranking)
    assert found is not None
    assert found.problem == "fp32 65536\u00d716384"
    names = [row.label.name for row in found.moved]
    assert names[0] == "bank_conflicts"
    assert found.moved[0].change.text == "from 0"
    assert "duration_ns" not in names
    points = {row.label.name: row.change.text for row in found.peak_rows}
    assert points["memory_throughput_pct"].endswith("points")
    stalls = [row.label.name for row in found.stall_rows]
    assert "stall_not_selected" not in stalls
    assert "stall_long_scoreboard" in stalls


def test_why_needs_a_baseline() -> None:
    report = make_report(variant_count=3, problem_list=problems()[:1], baseline=None)
    assert why(Ranking(Lookup(report))) is None


def test_details_keep_all_samples_and_name_the_source(ranking: Ranking) -> None:
    groups, complete = details.details(ranking.lookup)
    assert complete
    cell = groups[0].cells[0]
    lines = {line.label.name: line for line in cell.lines}
    assert lines["duration_ns"].samples.startswith("ncu timing: ")
    assert len(lines["duration_ns"].samples.split()) == 2 + 8
    assert lines["registers"].samples == "ncu timing: 24 (all 8)"
    assert "bank_conflicts" in lines
    hostile = groups[0].cells[1]
    assert hostile.kernels == (HOSTILE,)
    twin = next(one for one in groups[0].cells if one.outcome == "same machine code")
    assert twin.lines
    assert "its samples are shown" in twin.facts[0]


def test_many_samples_are_cut_to_the_shown_metrics(
    ranking: Ranking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(details, "MOST_SAMPLES", 10)
    groups, complete = details.details(ranking.lookup)
    assert not complete
    lines = {line.label.name: line.samples for line in groups[0].cells[0].lines}
    assert lines["duration_ns"]
    assert lines["stall_wait"] == ""


def test_funnel_goes_from_possible_to_measured(ranking: Ranking) -> None:
    funnel = dict(method(ranking.lookup).funnel)
    assert funnel["possible"] == 408 + 36
    assert funnel["planned"] == 408
    assert funnel["built"] == 396
    assert funnel["distinct machine code"] == 384
    assert funnel["measured"] == 372
    assert list(funnel.values()) == sorted(funnel.values(), reverse=True)


def test_environment_leaves_out_what_was_not_recorded(ranking: Ranking) -> None:
    said = dict(method(ranking.lookup).environment)
    assert said["GPU"] == "NVIDIA H200"
    assert said["Commit"].endswith("with uncommitted changes")
    assert "nvcc" not in said


def test_parameters_that_differ() -> None:
    found = problems()
    assert varying(found) == ("dtype", "rows", "columns")
    assert distinct(found, "columns") == (1024, 4096, 16384)
    assert distinct(found, "dtype") == ("fp16", "fp32")


def test_generated_names_may_break_and_given_ones_stay() -> None:
    generated = Problem("p", "rows=512,dtype=fp16", {"rows": 512, "dtype": "fp16"})
    given = Problem("q", "small,half", {"rows": 512, "dtype": "fp16"})
    report = readable(make_report(variant_count=2, problem_list=(generated, given)))
    assert [one.name for one in Lookup(report).problems] == ["rows=512, dtype=fp16", "small,half"]


def test_a_wrong_result_with_a_rank_is_still_not_ranked(ranking: Ranking) -> None:
    """Even a summary that ranks everything cannot make a wrong kernel win."""
    report = ranking.lookup.report
    summary = report.summary.copy()
    wrong = [cell for cell, one in report.statuses.items() if one.outcome is Outcome.WRONG_RESULT]
    summary.loc[summary["cell"].isin(wrong), "rank"] = 0.5
    spoiled = Ranking(Lookup(dataclasses.replace(report, summary=summary)))
    assert spoiled.best == ranking.best
    best = {cell.id for cell, _ in spoiled.lookup.best_by_problem.values()}
    assert not best & set(wrong)
