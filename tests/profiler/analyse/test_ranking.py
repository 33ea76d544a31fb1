"""Best per problem, ties in honest words, over all problems, and one variant for everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import pytest
from analyse_frames import make_cell, samples_of

from profiler.analyse.summary import summarise
from profiler.findings.ranking import Decided, best_per_problem, one_for_all, overall, places
from profiler.model import Verdict


def _summary(
    values: Mapping[str, Sequence[float]],
    metric: str = "duration_ns",
    baseline: str | None = None,
    ranked: set[str] | None = None,
) -> pd.DataFrame:
    cells = [make_cell(*cell.split("..")) for cell in values]
    return summarise(samples_of(values, metric), cells=cells, baseline=baseline, ranked=ranked)


def test_the_best_of_each_problem() -> None:
    values = {"a..p": [1.0], "b..p": [2.0], "a..q": [9.0], "b..q": [3.0]}
    first, second = best_per_problem(_summary(values), "duration_ns")
    assert (first.problem, first.variant, first.ranked) == ("p", "a", 2)
    assert (second.problem, second.variant, second.median) == ("q", "b", 3.0)
    assert first.runner_up is not None
    assert first.runner_up.variant == "b"
    assert first.runner_up.behind_pct == pytest.approx(100.0)
    assert first.low is None
    assert first.ratio is None


def test_overlapping_intervals_are_a_tie() -> None:
    noisy = [10.0, 11.0, 12.0, 10.5, 11.5]
    values = {"a..p": noisy, "b..p": [time + 0.2 for time in noisy], "c..p": [20.0] * 5}
    (best,) = best_per_problem(_summary(values), "duration_ns")
    assert best.variant == "a"
    assert [one.variant for one in best.tied] == ["b"]
    assert best.runner_up is not None
    assert best.runner_up.variant == "c"


def test_pairing_tells_apart_what_drift_hides() -> None:
    drifting = [10.0, 11.0, 12.0, 13.0, 14.0]
    values = {"a..p": drifting, "b..p": [1.02 * time for time in drifting]}
    (unpaired,) = best_per_problem(_summary(values), "duration_ns")
    assert [one.variant for one in unpaired.tied] == ["b"]
    (paired,) = best_per_problem(_summary(values, baseline="a"), "duration_ns")
    assert paired.tied == ()
    assert paired.ratio == 1.0


def test_higher_is_better_where_the_catalogue_says_so() -> None:
    (best,) = best_per_problem(_summary({"a..p": [50.0], "b..p": [100.0]}, "tflops"), "tflops")
    assert best.variant == "b"
    assert best.runner_up is not None
    assert best.runner_up.behind_pct == pytest.approx(50.0)


def test_wrong_cells_are_never_best() -> None:
    summary = _summary({"a..p": [1.0], "b..p": [2.0]}, ranked={"b..p"})
    (best,) = best_per_problem(summary, "duration_ns")
    assert (best.variant, best.ranked, best.runner_up) == ("b", 1, None)


def test_nothing_ranked_has_no_best() -> None:
    summary = _summary({"a..p": [1.0]}, ranked=set())
    assert best_per_problem(summary, "duration_ns") == ()
    assert overall(summary, "duration_ns") == ()
    assert one_for_all(summary, "duration_ns") == ()
    assert best_per_problem(summary, "no_such_metric") == ()


def test_over_all_problems_the_geometric_mean_with_the_worst_beside_it() -> None:
    values = {"a..p": [10.0], "a..q": [10.0], "b..p": [5.0], "b..q": [40.0], "c..p": [10.0]}
    summary = _summary(values, baseline="a")
    by_variant = {one.variant: one for one in overall(summary, "duration_ns")}
    b = by_variant["b"]
    assert b.geomean_ratio == pytest.approx((0.5 * 4.0) ** 0.5)
    assert (b.worst_ratio, b.worst_problem) == (pytest.approx(4.0), "q")
    assert (b.problems, b.best_at) == (2, 1)
    assert by_variant["c"].problems == 1
    assert by_variant["a"].geomean_ratio == pytest.approx(1.0)


def test_the_best_mean_comes_first_in_either_direction() -> None:
    values = {"a..p": [10.0], "b..p": [5.0]}
    slow_last = overall(_summary(values, baseline="a"), "duration_ns")
    fast_first = overall(_summary(values, "tflops", baseline="a"), "tflops")
    assert [one.variant for one in slow_last] == ["b", "a"]
    assert [one.variant for one in fast_first] == ["a", "b"]


def test_one_variant_for_all_and_what_it_costs() -> None:
    values = {
        "a..p": [10.0],
        "a..q": [12.0],
        "b..p": [15.0],
        "b..q": [10.0],
        "c..p": [10.0],
    }
    first, second, third = one_for_all(_summary(values), "duration_ns")
    assert (first.variant, first.missing) == ("a", ())
    assert first.mean_pct == pytest.approx(10.0)
    assert (first.worst_pct, first.worst_problem) == (pytest.approx(20.0), "q")
    assert second.variant == "b"
    assert (third.variant, third.missing, third.problems) == ("c", ("q",), 1)


def test_places_are_seen_from_the_best_that_does_not_stand_apart() -> None:
    values = {"a..p": [8.0], "b..p": [10.0], "c..p": [15.0], "a..q": [8.0]}
    summary = _summary(values)
    everyone = places(summary, "duration_ns")
    assert everyone["a", "p"].best
    assert everyone["c", "p"].behind_pct == pytest.approx(87.5)
    found = places(summary, "duration_ns", apart={"a"})
    assert {key for key, place in found.items() if place.best} == {("b", "p")}
    assert found["a", "p"].behind_pct == pytest.approx(-20.0)
    assert found["c", "p"].behind_pct == pytest.approx(50.0)
    assert ("a", "q") not in found


# ---- with verdicts -------------------------------------------------------------------------------


def test_ties_follow_the_verdicts_where_there_are_any() -> None:
    noisy = [10.0, 11.0, 12.0, 10.5, 11.5]
    values = {"a..p": noisy, "b..p": [time + 0.2 for time in noisy], "c..p": [20.0] * 5}
    said = {"b..p": Verdict.SLOWER, "c..p": Verdict.UNCLEAR}
    (best,) = best_per_problem(_summary(values), "duration_ns", Decided(verdicts=said))
    assert [one.variant for one in best.tied] == ["c"], "overlapping intervals say nothing here"
    assert best.runner_up is not None
    assert best.runner_up.variant == "b"


@pytest.mark.parametrize("verdict", list(Verdict))
def test_only_slower_is_no_tie(verdict: Verdict) -> None:
    values = {"a..p": [10.0] * 6, "b..p": [20.0] * 6}
    (best,) = best_per_problem(_summary(values), "duration_ns", Decided(verdicts={"b..p": verdict}))
    assert bool(best.tied) == (verdict is not Verdict.SLOWER)


def test_the_decided_best_comes_before_a_lower_median() -> None:
    values = {"a..p": [10.0], "b..p": [9.9], "c..p": [12.0]}
    decided = Decided(best={"p": "a..p"}, verdicts={"b..p": Verdict.SAME, "c..p": Verdict.SLOWER})
    (best,) = best_per_problem(_summary(values), "duration_ns", decided)
    assert best.variant == "a"
    assert [one.variant for one in best.tied] == ["b"]
    found = places(_summary(values), "duration_ns", decided=decided)
    assert found["a", "p"].best
    assert found["b", "p"].behind_pct == 0.0, "a rival is not ahead of the winner by chance"
    assert found["b", "p"].verdict is Verdict.SAME
    assert found["c", "p"].behind_pct == pytest.approx(20.0)
    assert not found["c", "p"].tied
    costs = {
        one.variant: one.worst_pct for one in one_for_all(_summary(values), "duration_ns", decided)
    }
    assert costs == {"a": 0.0, "b": 0.0, "c": pytest.approx(20.0)}


def test_a_decided_best_that_has_no_rank_is_passed_over() -> None:
    values = {"a..p": [10.0], "b..p": [12.0]}
    (best,) = best_per_problem(
        _summary(values, ranked={"b..p"}), "duration_ns", Decided(best={"p": "a..p"})
    )
    assert best.variant == "b"


def test_a_reference_may_be_ahead_of_the_decided_best() -> None:
    values = {"a..p": [8.0], "b..p": [10.0], "c..p": [9.9]}
    decided = Decided(best={"p": "b..p"}, verdicts={"a..p": Verdict.FASTER})
    found = places(_summary(values), "duration_ns", apart={"a"}, decided=decided)
    assert found["a", "p"].behind_pct == pytest.approx(-20.0)
    assert found["b", "p"].best
