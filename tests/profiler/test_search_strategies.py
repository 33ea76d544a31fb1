"""What every strategy promises: valid, unseen, reproducible; and what a replay says of it."""

import json
import math
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from profiler.commands.simulate import SimulateRequest, simulate
from profiler.errors import ExitCode, ParseError, UsageError
from profiler.render.console.lists import replay_lines
from profiler.search.gaussian_process import GaussianProcess
from profiler.search.replay import checkpoints, recorded_space, replay, summarise
from profiler.search.space import SearchSpace
from profiler.search.strategies import (
    ALIGNED,
    EARLY,
    RANDOM,
    STRATEGIES,
    SearchHistory,
    aligned_sizes,
    make_strategy,
)
from profiler.search.t1 import TuningProblem, t1_document
from profiler.search.t4 import RecordedResult, t4_document


def test_nothing_of_a_search_changes_the_environment():
    """Variables of OpenMP are in the keys of cells: a run would measure them again, or not."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import os; before = dict(os.environ); import profiler.commands.plan, profiler.commands"
            ".simulate; from profiler.search import strategies; strategies._thread_pools(); "
            "print(dict(os.environ) == before)",
        ],
        env={k: v for k, v in os.environ.items() if k != "KMP_DUPLICATE_LIB_OK"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "True\n"


def bowl(sizes=(6, 5, 4), failing=0):
    """A space with a hole and one minimum, and a result of each configuration."""
    configurations = [
        {"x": x, "y": y, "layout": layout}
        for x in range(sizes[0])
        for y in range(sizes[1])
        for layout in ("row", "column", "tiled", "z")[: sizes[2]]
        if not (x == y == 2)
    ]
    results = [
        RecordedResult(p, invalidity="runtime")
        if number < failing
        else RecordedResult(p, runtimes_ms=(1 + (p["x"] - 4) ** 2 + p["y"] + (p["layout"] == "z"),))
        for number, p in enumerate(configurations)
    ]
    space = SearchSpace.of_configurations(configurations)
    problem = TuningProblem("bowl", space, ("x != 2 or y != 2",))
    return problem, results


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_configuration_is_proposed_once_and_none_that_is_invalid(name):
    recorded = recorded_space(*bowl(failing=9))
    search = replay(recorded, name, budget=1000, seed=3)
    assert len(search.values_ms) == len(recorded.space)
    assert (search.invalid, search.repeated) == (0, 0)
    assert search.best_so_far_ms[-1] == recorded.best_ms == 1
    assert sum(map(math.isinf, search.values_ms)) == 9


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_seed_gives_the_same_proposals(name):
    recorded = recorded_space(*bowl())
    first, again, other = (replay(recorded, name, 40, seed).configurations for seed in (1, 1, 2))
    assert first == again
    assert name == "exhaustive" or first != other


@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=15, deadline=None)
@given(st.data())
def test_proposals_before_values_and_values_of_others_repeat_nothing(name, data):
    space = bowl()[0].space
    history = SearchHistory(space)
    strategy = make_strategy(name, history, seed=data.draw(st.integers(0, 5)))
    open_proposals = []
    proposed = set()
    for _ in range(40):
        if history.unseen_count and (not open_proposals or data.draw(st.booleans())):
            configuration = next(strategy)
            assert 0 <= configuration < len(space)
            assert configuration not in proposed
            open_proposals.append(configuration)
        elif data.draw(st.integers(0, 9)) == 0 and history.unseen_count:
            configuration = int(np.flatnonzero(~history.seen)[0])  # a baseline, measured elsewhere
            open_proposals.append(configuration)
            history.mark_proposed(configuration)
        else:
            place = data.draw(st.integers(0, len(open_proposals) - 1))
            configuration = open_proposals.pop(place)
            value = data.draw(st.sampled_from([None, 1.0, 2.5, 7.0]))
            history.tell(configuration, value)
        proposed.add(configuration)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_space_of_one_and_one_where_all_fails_are_searched_to_their_end(name):
    lonely = SearchSpace.of_configurations([{"x": 1}])
    history = SearchHistory(lonely)
    assert next(make_strategy(name, history, 1)) == 0
    history = SearchHistory(bowl((3, 2, 2))[0].space)
    strategy = make_strategy(name, history, 1)
    while history.unseen_count:
        configuration = next(strategy)
        history.tell(configuration, None)
    assert history.best is None


@pytest.mark.parametrize("name", ["portfolio", "model"])
def test_searches_that_learn_need_few_evaluations(name):
    """Random search has to evaluate a thousand to be as likely there as not."""
    recorded = recorded_space(*bowl((30, 30, 4)))
    near_best = recorded.values_ms <= recorded.best_ms / 0.95
    assert np.log(0.5) / np.log(1 - near_best.mean()) > 800
    for seed in range(2):
        search = replay(recorded, name, 100, seed)
        assert search.evaluations_to(0.95, recorded.best_ms) is not None


def test_a_model_uses_one_core(monkeypatch):
    limits = []

    def predict(model, values):
        limits.append({pool["num_threads"] for pool in threadpool_info()})
        return np.zeros(len(model._variances)), np.ones(len(model._variances))

    monkeypatch.setattr(GaussianProcess, "predict", predict)
    with threadpool_limits(limits=2, user_api="blas"):  # as on a machine of many cores
        replay(recorded_space(*bowl()), "model", 5, 1)
    assert limits == [{1}] * 4


@pytest.mark.parametrize("seed", range(3))
def test_no_value_has_a_say_in_the_random_turns_of_a_portfolio(seed):
    space = bowl((30, 30, 4))[0].space
    proposals = []
    random_turns = range(ALIGNED + EARLY, ALIGNED + EARLY + RANDOM)
    for sign in (1, -1):
        history = SearchHistory(space)
        strategy = make_strategy("portfolio", history, seed)
        proposals.append([])
        for _ in range(random_turns[-1] + 10):
            configuration = next(strategy)
            history.tell(configuration, 1.0 + abs(sign * configuration - 500))
            proposals[-1].append(configuration)
        assert history.random_draws == {proposals[-1][turn] for turn in random_turns}
    first, second = proposals
    assert first[:ALIGNED] == second[:ALIGNED]
    assert first[ALIGNED:] != second[ALIGNED:]
    # What the model proposed earlier, by the values, is left out of the same random order.
    earlier = {*first[: random_turns[0]], *second[: random_turns[0]]}
    draws = [
        [proposed[turn] for turn in random_turns if proposed[turn] not in earlier]
        for proposed in (first, second)
    ]
    shorter = min(map(len, draws))
    assert shorter >= RANDOM - 2
    assert draws[0][:shorter] == draws[1][:shorter]


def aligned_draws(configurations, count, seed=1):
    """Configurations by their sizes alone, in the order in which they are proposed."""
    history = SearchHistory(SearchSpace.of_configurations(configurations))
    aligned = aligned_sizes(history, np.random.default_rng(seed))
    return [history.space.params(next(aligned)) for _ in range(count)]


def test_sizes_that_fill_warps_are_proposed_before_others():
    threads = [{"threads": threads, "unroll": 1} for threads in range(8, 257, 8)]
    draws = [draw["threads"] for seed in range(50) for draw in aligned_draws(threads, 1, seed)]
    assert np.mean([draw % 64 == 0 for draw in draws]) > 0.6  # 4 of 32 have so many factors


@pytest.mark.parametrize(
    "values",
    [[1, 2, 4, 16], [32, 64], ["a", "b", "c"], [0, 32, 96], [0.5, 32.0, 64.0], [33, 35, 37]],
    ids=["less than a warp", "two", "names", "zero", "fractions", "odd"],
)
def test_where_sizes_say_nothing_all_are_proposed_alike(values):
    space = [{"value": value, "other": other} for value in values for other in (1, 2)]
    draws = [draw["value"] for seed in range(60) for draw in aligned_draws(space, 1, seed)]
    assert {draws.count(value) > 5 for value in values} == {True}
    assert len(aligned_draws(space, len(space))) == len(space)


@pytest.mark.parametrize("name", ["tpe", "local"])
def test_a_removed_strategy_says_what_to_use(name):
    with pytest.raises(UsageError, match=f"--strategy {name}: {name} was removed: use portfolio"):
        make_strategy(name, SearchHistory(bowl()[0].space), 1)


def test_an_unknown_strategy_is_named():
    with pytest.raises(UsageError, match="--strategy best: there are portfolio"):
        make_strategy("best", SearchHistory(bowl()[0].space), 1)


def test_a_replay_counts_evaluations_to_a_share_of_the_best():
    recorded = recorded_space(*bowl())
    searches = [replay(recorded, "exhaustive", 1000, 1)]
    summary = summarise(recorded, searches)
    values = recorded.values_ms
    first = int(np.flatnonzero(values <= values.min() / 0.95)[0]) + 1
    assert summary.targets[0].median_evaluations == first
    assert summary.best_so_far[0] == (1, values.min() / values[0])
    assert summary.best_so_far[-1] == (len(values), 1.0)


def test_a_budget_too_small_reaches_nothing():
    recorded = recorded_space(*bowl(failing=9))
    summary = summarise(recorded, [replay(recorded, "exhaustive", 5, 1)])
    assert summary.targets[0].median_evaluations is None
    assert summary.best_so_far[-1] == (5, None)


def test_checkpoints_end_with_the_budget():
    assert checkpoints(120) == (1, 2, 5, 10, 20, 50, 100, 120)
    assert checkpoints(1) == (1,)


def test_what_one_file_has_and_the_other_has_not_is_counted():
    problem, results = bowl()
    foreign = RecordedResult({"x": 99, "y": 0, "layout": "row"}, runtimes_ms=(1.0,))
    recorded = recorded_space(problem, [*results[:-3], foreign])
    assert (recorded.unrecorded, recorded.foreign) == (3, 1)
    assert len(recorded.space) == len(results) - 3
    with pytest.raises(UsageError, match=r"share no configuration: the first .* has 99 as 'x'"):
        recorded_space(problem, [foreign])
    with pytest.raises(UsageError, match="All 1 recorded configurations of the space failed"):
        recorded_space(problem, [replace(results[0], invalidity="compile")])


@pytest.fixture
def files(tmp_path):
    problem, results = bowl(failing=4)
    space, times = tmp_path / "bowl.T1.json", tmp_path / "bowl_T4.json"
    space.write_text(json.dumps(t1_document(problem)))
    times.write_text(json.dumps(t4_document(results)))
    return space, times


def test_simulate_prints_a_table_and_writes_json(files, tmp_path, capsys):
    target = tmp_path / "out.json"
    request = SimulateRequest(*files, strategy="model", budget=60, seeds=3, json_target=str(target))
    assert simulate(request) is ExitCode.COMPLETE
    printed = capsys.readouterr().out
    assert "Proposals: 0 invalid, 0 repeated" in printed
    assert "95 % of the best with" in printed
    document = json.loads(target.read_text())
    assert [seed["seed"] for seed in document["seeds"]] == [1, 2, 3]
    assert all(len(seed["values_ms"]) == 60 for seed in document["seeds"])
    assert document["failed"] == 4


def test_simulate_names_a_file_that_is_not_there(files):
    with pytest.raises(ParseError, match=r"missing\.T1\.json"):
        simulate(SimulateRequest(files[0].with_name("missing.T1.json"), files[1]))


def test_of_a_configuration_that_is_recorded_twice_the_last_counts_and_it_is_said():
    problem, results = bowl()
    recorded = recorded_space(problem, [*results, replace(results[0], runtimes_ms=(1e6,))])
    assert (recorded.recorded_again, max(recorded.values_ms)) == (1, 1e6)
    summary = summarise(recorded, [replay(recorded, "random", 5, 1)])
    said = " ".join(replay_lines("bowl", "random", recorded, summary, 1))
    assert "1 record is of configurations that have an earlier one" in said
    assert " 1 evaluations" not in said
