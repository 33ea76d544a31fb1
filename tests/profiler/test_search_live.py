"""A live search without a process: its journal, its noise, its loop, and what follows from them."""

import json
import math
import time
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from recorded import RECORDINGS

from profiler.errors import UsageError
from profiler.findings.kinds.search import SearchPartDocument, find_search
from profiler.model import BuildResult, Outcome, SearchPlan, Variant
from profiler.run_folder.archive import open_run
from profiler.search.estimates import (
    Estimate,
    block_values,
    coverage,
    estimate_noise,
    estimates,
    finalists,
    parameter_importance,
)
from profiler.search.journal import (
    Evaluated,
    Proposed,
    RepeatedLook,
    SearchJournal,
    Terms,
    read_search,
    records_with_origin,
    search_record,
)
from profiler.search.live_search import LiveSearch
from profiler.sessions.search.bench import Subject, SubjectFailedError
from profiler.sessions.search.loop import BLOCKS, Lookahead, run_search
from profiler.sessions.search.proposals import LOOK_EVERY, BackgroundBuilds, Proposals

PROBLEMS = ("small", "large")
X, Y, LAYOUTS = range(8), range(6), ("row", "column")
VARIANTS = {
    f"x={x}.y={y}.{layout}": Variant(
        f"x={x}.y={y}.{layout}", f"x={x}", {"x": x, "y": y, "layout": layout}
    )
    for x in X
    for y in Y
    for layout in LAYOUTS
    if x + y < 12
}
BEST = "x=5.y=1.column"
BROKEN, CRASHES = "x=0.y=0.row", "x=7.y=4.row"


def true_ratio(variant):
    params = variant.params
    slower = abs(params["x"] - 5) + 0.5 * abs(params["y"] - 1) + (params["layout"] == "row")
    return 0.5 * 1.1**slower


def terms(strategy="model", seed=1, objective="geomean"):
    return Terms(
        key="today",
        strategy=strategy,
        seed=seed,
        objective=objective,
        baseline="base",
        problems=PROBLEMS,
        parameters={"x": tuple(X), "y": tuple(Y), "layout": LAYOUTS},
        configurations=len(VARIANTS),
        left_out=0,
    )


class PlantedBench:
    """Gives blocks with the planted ratios and half a percent of noise; one variant crashes."""

    def __init__(self):
        self.noise = np.random.default_rng(7)
        self.blocks = []
        self.forgotten = []

    def block(self, subject, *, check):
        self.blocks.append((subject.variant, check))
        if subject.variant == CRASHES:
            raise SubjectFailedError(Outcome.CRASHED, "was killed by SIGSEGV")
        ratio = true_ratio(VARIANTS[subject.variant])
        return {p: (1000 * ratio * math.exp(self.noise.normal(0, 0.005)), 1000.0) for p in PROBLEMS}

    def forget(self, subject):
        self.forgotten.append(subject.variant)


def build(batch):
    return [
        BuildResult(v.id, ok=v.id != BROKEN, error="nvcc: too many tiles" * (v.id == BROKEN))
        for v in batch
    ]


class Searching:
    """A search on a bench that is planted."""

    def __init__(self, proposals):
        self.proposals, self.search, self.bench = proposals, proposals.live, PlantedBench()

    def run(self):
        return run_search(self.bench, self.proposals)


@pytest.fixture
def searching(tmp_path):
    """Make a search with a journal in the test's folder."""
    opened = []

    def make(evaluations=40, name="journal.jsonl", seconds=None, clock=time.monotonic, **changes):
        live = LiveSearch(
            terms(**changes),
            {id_: v.params for id_, v in VARIANTS.items()},
            SearchJournal(tmp_path / name),
        )
        builds = BackgroundBuilds(build)
        opened.append(builds)
        experiment = SimpleNamespace(
            plan=SearchPlan(
                strategy="model",
                seed=1,
                objective="geomean",
                variants=tuple(VARIANTS),
                problems=PROBLEMS,
                evaluations=None if seconds else evaluations,
                seconds=seconds,
            ),
            variants=VARIANTS,
            subject=lambda variant, build: Subject(variant.id, (), build.library),
            jobs=2,
            needs_builds=False,
            reporter=Mock(),
        )
        return Searching(Proposals(experiment, live, builds, clock))

    yield make
    for builds in opened:
        builds.close()


def evaluated_variants(loop):
    return [evaluation.variant for evaluation in loop.search.record.evaluations]


# ---- the loop ------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["model", "portfolio", "random"])
def test_the_planted_best_is_a_finalist(searching, strategy):
    loop = searching(60 if strategy != "random" else len(VARIANTS), strategy=strategy)
    assert loop.run()[0] == BEST
    variants = evaluated_variants(loop)
    assert len(variants) == len(set(variants))
    assert loop.search.record.finished.reason == ("space" if strategy == "random" else "budget")


def test_a_failed_build_and_a_crash_are_results(searching):
    loop = searching(len(VARIANTS), strategy="exhaustive")
    finalists = loop.run()
    by_variant = {e.variant: e for e in loop.search.record.evaluations}
    assert by_variant[BROKEN].outcome is Outcome.COMPILE_FAILED
    assert by_variant[BROKEN].cause == "nvcc: too many tiles"
    assert by_variant[CRASHES].outcome is Outcome.CRASHED
    assert CRASHES in loop.bench.forgotten
    assert BROKEN not in {variant for variant, _ in loop.bench.blocks}, "nothing was built of it"
    assert not {BROKEN, CRASHES} & set(finalists)
    search = find_search(loop.search.record)
    assert search.outcomes == {
        Outcome.COMPILE_FAILED: 1,
        Outcome.CRASHED: 1,
        Outcome.MEASURED: len(VARIANTS) - 2,
    }
    assert search.failed == 2


def test_who_is_clearly_behind_is_stopped_and_the_best_is_looked_at_again(searching):
    loop = searching(40)
    loop.run()
    record = loop.search.record
    stopped = [e for e in record.evaluations if e.stopped_early]
    assert stopped
    for evaluation in stopped:
        assert all(len(blocks) < BLOCKS for blocks in evaluation.log_ratios.values())
        assert true_ratio(VARIANTS[evaluation.variant]) > 1.03 * true_ratio(VARIANTS[BEST])
    finished = [e for e in record.evaluations if not e.stopped_early and e.log_ratios]
    assert all(len(e.log_ratios["small"]) == BLOCKS for e in finished)
    assert len(record.looks) == 40 // LOOK_EVERY
    assert loop.search.noise.repeated_looks > 0
    assert loop.search.best() == min(estimates(record).values(), key=lambda of_one: of_one.value)
    # Its result was checked when it was proposed.
    assert {check for variant, check in loop.bench.blocks if variant == BEST} == {True, False}


def test_a_killed_search_goes_on_as_if_it_had_never_stopped(searching, tmp_path):
    uninterrupted = searching(30, strategy="portfolio", name="uninterrupted.jsonl")
    uninterrupted.run()
    lines = (tmp_path / "uninterrupted.jsonl").read_text().splitlines(keepends=True)
    cut = next(n for n, line in enumerate(lines) if line.count('"evaluated"')) + 20
    torn = '{"variant":"x=1'  # the kill came while a record was written
    (tmp_path / "killed.jsonl").write_text("".join(lines[:cut]) + torn)
    resumed = searching(30, strategy="portfolio", name="killed.jsonl")
    assert not resumed.search.diverged
    before = len(resumed.search.record.evaluations)
    assert 0 < before < 30
    resumed.run()
    assert list(resumed.search.record.proposed) == list(uninterrupted.search.record.proposed)
    assert len(evaluated_variants(resumed)) == 30
    measured_again = {variant for variant, check in resumed.bench.blocks if check}
    assert not measured_again & set(evaluated_variants(uninterrupted)[:before])
    assert len(read_search(tmp_path / "killed.jsonl").evaluations) == 30


def test_a_larger_budget_goes_on_and_the_same_one_measures_nothing(searching):
    first = searching(20)
    finalists = first.run()
    again = searching(20)
    assert again.run() == finalists
    assert again.bench.blocks == []
    longer = searching(25)
    longer.run()
    assert evaluated_variants(longer)[:20] == evaluated_variants(first)
    assert len(evaluated_variants(longer)) == 25


def test_other_terms_begin_anew(searching):
    searching(20).run()
    other = searching(5, seed=2)
    assert other.search.record.evaluations == ()
    assert other.search.record.terms.seed == 2


def test_another_version_of_a_strategy_keeps_what_was_measured(searching, tmp_path):
    searching(10).run()
    path = tmp_path / "journal.jsonl"
    lines = path.read_text().splitlines()
    proposal = json.loads(lines[1])
    other = next(v for v in VARIANTS.values() if v.id not in "".join(lines))
    swapped = {"variant": other.id, "params": other.params, "event": "proposed"}
    path.write_text(
        "\n".join([lines[0], json.dumps(swapped), *lines[1:]]).replace(
            json.dumps(proposal), json.dumps(swapped)
        )
        + "\n"
    )
    loop = searching(20)
    assert loop.search.diverged
    loop.run()
    variants = evaluated_variants(loop)
    assert len(variants) == len(set(variants)) == 20


def test_a_budget_of_time_ends_the_proposals(searching):
    times = map(float, range(1000))
    loop = searching(seconds=50.0, clock=lambda: next(times))
    loop.run()
    record = loop.search.record
    assert 5 < len(record.evaluations) < 50
    assert len(record.proposed) == len(record.evaluations), "what was proposed is measured"
    assert record.evaluations[-1].elapsed_s >= 50


def test_builds_are_hidden_behind_measurements():
    lookahead = Lookahead(8, needs_builds=True)
    assert lookahead.depth == 8
    lookahead.note(Evaluated("a", Outcome.MEASURED, build_s=20.0, measured_s=4.0))
    assert lookahead.depth == 11
    slow = Lookahead(8, needs_builds=True)
    slow.note(Evaluated("a", Outcome.MEASURED, build_s=500.0, measured_s=1.0))
    assert slow.depth == 16
    assert Lookahead(126, needs_builds=True).depth == 16
    assert Lookahead(8, needs_builds=False).depth == 1


def test_an_error_of_the_builder_reaches_the_search():
    def broken(batch):
        raise UsageError("there is no nvcc")

    builds = BackgroundBuilds(broken)
    builds.submit(list(VARIANTS.values())[:1])
    with pytest.raises(UsageError, match="nvcc"):
        builds.take_built(wait_s=10)


# ---- the journal ---------------------------------------------------------------------------------


def test_a_damaged_record_is_named(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.write_text('{"event":"proposed","variant":3,"params":{}}\n')
    with pytest.raises(UsageError, match=r"line 1: damaged.*variant"):
        read_search(path)


@pytest.mark.parametrize("damaged", ["", "\0\n", '{"event":"evaluated"}\n'])
def test_a_lost_or_damaged_line_costs_what_it_was_about(searching, tmp_path, damaged):
    searching(12).run()
    lines = (tmp_path / "journal.jsonl").read_text().splitlines(keepends=True)
    for number in range(1, len(lines)):
        path = tmp_path / "journal.jsonl"
        path.write_text("".join([*lines[:number], damaged, *lines[number + 1 :]]))
        record = read_search(path)
        known = record.proposed.keys()
        assert {evaluated.variant for evaluated in record.evaluations} <= known
        records = SearchJournal(path).records
        left_out = len(records) - len(records_with_origin(records))
        resumed = searching(12)
        assert resumed.search.left_out == left_out
        assert left_out >= bool(damaged or '"proposed"' in lines[number])
        assert record.left_out >= (left_out or '"evaluated"' in lines[number])
    resumed.run()
    assert len(evaluated_variants(resumed)) == 12


@pytest.mark.parametrize(("old", "new"), [("x=", "z="), ('"x":', '"z":')])
def test_a_proposal_of_no_configuration_does_not_count(searching, tmp_path, old, new):
    searching(12).run()
    path = tmp_path / "journal.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    number = next(n for n, line in enumerate(lines) if '"proposed"' in line)
    lines[number] = lines[number].replace(old, new)
    path.write_text("".join(lines))
    resumed = searching(12)
    assert resumed.search.left_out >= 2
    resumed.run()
    assert len(evaluated_variants(resumed)) == 12


def test_there_is_no_search_without_a_journal(tmp_path):
    assert read_search(tmp_path / "journal.jsonl") is None


# ---- noise and finalists -------------------------------------------------------------------------


def measured(variant, *logs, problems=PROBLEMS):
    return Evaluated(variant, Outcome.MEASURED, log_ratios=dict.fromkeys(problems, logs))


def recorded(*evaluations, looks=(), random_draws=(), **changes):
    proposals = [
        Proposed(e.variant, VARIANTS[e.variant].params, e.variant in random_draws)
        for e in evaluations
    ]
    return search_record((terms(**changes), *proposals, *evaluations, *looks))


def test_objectives_of_a_block():
    ratios = {"small": (0.1, 0.2), "large": (0.3, 0.0)}
    assert block_values(ratios, "geomean") == pytest.approx((0.2, 0.1))
    assert block_values(ratios, "worst") == (0.3, 0.2)
    assert block_values({"large": (0.3, 0.0)}, "large") == (0.3, 0.0)


def test_looks_that_differ_more_than_their_blocks_are_noise_between_looks():
    steady = {"a": [[0.1, 0.1, 0.1], [0.1, 0.1]]}
    drifting = {"a": [[0.1, 0.1, 0.1], [0.2, 0.2], [0.0, 0.0]]}
    calm, drift = estimate_noise(steady), estimate_noise(drifting)
    assert drift.between > 4 * calm.between
    assert drift.within == pytest.approx(calm.within, rel=0.5)
    assert (calm.repeated_looks, drift.repeated_looks) == (1, 2)
    assert drift.error([[0.1, 0.1]]) > calm.error([[0.1, 0.1]])


def test_behind_is_beyond_the_noise_of_both():
    best = Estimate("best", 0.0, 0.01)
    assert not Estimate("near", 0.04, 0.01).is_behind(best)
    assert Estimate("far", 0.05, 0.01).is_behind(best)


def test_finalists_are_those_near_the_best_and_the_quickest_of_each_problem():
    first, second, third, fourth, specialist, *_ = VARIANTS
    record = recorded(
        measured(first, -0.7, -0.7, -0.7, -0.7),
        measured(second, -0.69, -0.69, -0.69, -0.69),
        measured(third, -0.2, -0.2),
        measured(fourth, -0.1),
        Evaluated(
            specialist,
            Outcome.MEASURED,
            log_ratios={"small": (-0.9,), "large": (0.9,)},
        ),
    )
    assert finalists(record) == (first, second, third, specialist)


# ---- what a page says ----------------------------------------------------------------------------


def test_random_draws_bound_what_was_missed():
    tried = list(VARIANTS)[:40]
    untried = list(VARIANTS)[40]
    record = recorded(*(measured(v, 0.0) for v in tried), random_draws=(*tried[20:], untried))
    cover = coverage(record)
    assert (cover.tried, cover.random_draws) == (40, 20)
    assert cover.better_share == pytest.approx(1 - 0.05 ** (1 / 20))
    assert cover.most_better == int(0.139108 * len(VARIANTS)), "a share below it is as many or less"
    assert coverage(recorded(measured(tried[0], 0.0))).better_share is None
    rest = recorded(*(measured(v, 0.0) for v in list(VARIANTS)[1:]), random_draws=tried[20:])
    assert coverage(rest).most_better == 1, "which may be the best of all"
    everything = recorded(*(measured(v, 0.0) for v in VARIANTS), strategy="exhaustive")
    assert (coverage(everything).untried, coverage(everything).better_share) == (0, 0.0)


def test_a_journal_says_which_proposals_were_random():
    """20 of that search, after what the portfolio proposes first."""
    recorded_search = read_search(
        open_run(RECORDINGS / "autotune_large.zip").path / "search/journal.jsonl"
    )
    assert recorded_search.random_draws == set(list(recorded_search.proposed)[11:31])
    assert coverage(recorded_search).better_share == pytest.approx(1 - 0.05 ** (1 / 20))


def test_the_parameter_that_matters_is_the_most_important():
    configurations = [v.params for v in VARIANTS.values()]
    values = [math.log(true_ratio(v)) for v in VARIANTS.values()]
    importance = parameter_importance(terms().parameters, configurations[::2], values[::2])
    assert importance.explained > 0.9
    assert next(iter(importance.shares)) == "x"
    assert sum(importance.shares.values()) == pytest.approx(1)


def test_nothing_is_said_of_parameters_that_explain_nothing():
    noise = np.random.default_rng(1)
    configurations = [v.params for v in VARIANTS.values()]
    values = [noise.normal(0, 1) for _ in configurations]
    importance = parameter_importance(terms().parameters, configurations, values)
    assert importance.shares == {}
    assert parameter_importance(terms().parameters, configurations[:5], values[:5]) is None


def test_the_document_of_a_search_that_was_stopped():
    first, second, *_ = VARIANTS
    failed = Evaluated(second, Outcome.WRONG_RESULT, "off by 1", elapsed_s=3.0)
    record = recorded(
        replace(measured(first, -0.7, -0.7), elapsed_s=2.0),
        failed,
        looks=(RepeatedLook(first, dict.fromkeys(PROBLEMS, (-0.69,))),),
    )
    document = SearchPartDocument.document(find_search(record))
    assert document["ended_by"] is None
    assert document["finalists"] == []
    assert document["best"]["variant"] == first
    assert document["best"]["ratio"] == pytest.approx(math.exp(-0.69667), rel=1e-4)
    wrong = document["evaluations"][1]
    assert (wrong["ratio"], wrong["cause"], wrong["outcome"]) == (None, "off by 1", "wrong_result")
    assert wrong["best_so_far"] == document["best"]["ratio"]
    json.dumps(document, allow_nan=False)
