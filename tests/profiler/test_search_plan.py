"""The `search` block: what is accepted, what it proposes, and what is left to be judged."""

from pathlib import Path

import pytest

from profiler.errors import SpecError
from profiler.planning.plan import foreseen_plan, judged_plan, make_plan, plan_document
from profiler.planning.space import Space, space_of
from profiler.planning.spec import load_spec
from profiler.planning.spec.models import Experiment, Search, duration_seconds
from profiler.search import DEFAULT_STRATEGY
from profiler.search.strategies import STRATEGIES

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"
HEAD = "name: x\nworkload: ./workload.py\n"
SPACE = """\
variants:
  list: [{name: torch, params: {how: torch}}, {name: other, params: {how: other}}]
  matrix: {x: [1, 2, 3], y: [1, 2]}
  exclude: [{name: corner, when: {x: 1, y: 1}}]
problems: {matrix: {rows: [4, 8]}}
page: {references: [other]}
"""


class OddRows(Space):
    """x = 3 cannot do 8 rows."""

    def check_cell(self, variant_params, problem_params):
        fits = variant_params.get("x") != 3 or problem_params["rows"] == 4
        return None if fits else "too many rows"


@pytest.fixture
def planned(tmp_path):
    def plan_text(search, text=SPACE, space=None):
        path = tmp_path / "spec.yaml"
        path.write_text(f"{HEAD}{text}search: {search}\n", encoding="utf-8")
        loaded = load_spec(path)
        return loaded.experiment, make_plan(loaded, space or Space())

    return plan_text


@pytest.fixture
def complaint(planned, tmp_path):
    def complaint_of(search, *arguments):
        with pytest.raises(SpecError) as caught:
            planned(search, *arguments)
        return str(caught.value).replace(f"{tmp_path}/", "")

    return complaint_of


def test_what_stands_in_the_spec_is_what_there_is():
    defaults = Search()
    assert defaults.strategy == DEFAULT_STRATEGY
    assert set(Search.model_json_schema()["properties"]["strategy"]["enum"]) == set(STRATEGIES)
    assert Experiment.model_fields["search"].default is None


@pytest.mark.parametrize(
    ("budget", "seconds"),
    [(120, None), ("90 s", 90), ("10 min", 600), ("1.5 h", 5400), ("10min", 600)],
)
def test_budgets(budget, seconds):
    assert duration_seconds(Search(budget=budget).budget) == seconds


@pytest.mark.parametrize("budget", [0, -3, "0", "'10 parsecs'", "ten", "0 s", "9000 h", "true"])
def test_budgets_that_are_none(complaint, budget):
    message = complaint(f"{{budget: {budget}}}")
    assert "search.budget: must be a number of evaluations (1 to 1000000) or a time" in message


def test_a_strategy_that_is_none_is_named(complaint):
    message = complaint("{strategy: portfolo}")
    assert "search.strategy: must be 'portfolio', 'model', 'random'" in message


@pytest.mark.parametrize("name", ["tpe", "local"])
def test_a_removed_strategy_says_what_to_use(complaint, name):
    message = complaint(f"{{strategy: {name}}}")
    assert f"search.strategy: {name} was removed: use portfolio" in message


def test_an_unknown_key_is_refused(complaint):
    assert "search.buget: unknown key; did you mean 'budget'?" in complaint("{buget: 3}")


def test_searched_are_the_configurations_and_nothing_else(planned):
    experiment, plan = planned("{budget: 3}")
    search = plan.search
    assert len(search.variants) == 5
    assert not {"torch", "other", "x=1.y=1"} & set(search.variants)
    assert (search.evaluations, search.seconds, search.objective) == (3, None, "geomean")
    assert (search.problems, search.left_out) == (("rows=4", "rows=8"), 0)
    assert plan.sessions == ()
    assert plan_document(plan)["search"]["configurations"] == 5
    judged = judged_plan(experiment, plan, ["x=2.y=1"])
    assert [variant.id for variant in judged.variants] == ["torch", "other", "x=2.y=1"]
    assert judged.search is None
    visited = {visit.cell for visit in judged.sessions[0].visits}
    assert visited == {cell.id for cell in judged.cells}


def test_a_plan_without_a_search_is_judged_as_it_is(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text(HEAD + SPACE)
    loaded = load_spec(path)
    plan = make_plan(loaded, Space())
    assert plan.search is None
    assert foreseen_plan(loaded.experiment, plan) is plan
    assert plan_document(plan)["search"] is None


def test_one_problem_as_the_objective(planned):
    _, plan = planned("{objective: 'rows=8'}", SPACE, OddRows())
    assert plan.search.problems == ("rows=8",)
    assert {plan.search.objective, len(plan.search.variants)} == {"rows=8", 3}
    assert plan.search.left_out == 2


def test_who_cannot_do_every_problem_is_not_proposed(planned):
    _, plan = planned("{objective: worst}", SPACE, OddRows())
    assert not any(id_.startswith("x=3") for id_ in plan.search.variants)
    assert plan.search.left_out == 2


def test_an_objective_that_is_no_problem(complaint):
    message = complaint("{objective: 'rows=9'}")
    assert "spec.yaml:9: search.objective: there is no problem 'rows=9'; did you mean" in message


def test_types_that_no_configuration_can_do_together(complaint):
    class Halves(Space):
        def check_cell(self, variant_params, problem_params):
            wrong = "y" in variant_params and variant_params["y"] * 4 != problem_params["rows"]
            return "of another type" if wrong else None

    message = complaint("{}", SPACE, Halves())
    assert "search: 0 of 5 configurations can do all 2 problems" in message


def test_a_baseline_that_is_excluded_where_the_search_measures(complaint):
    text = SPACE + "exclude: [{name: slow, when: {how: torch, rows: 8}}]\n"
    message = complaint("{objective: 'rows=8'}", text)
    assert "the baseline is excluded at rows=8: nothing to divide by" in message
    assert "nothing to divide by" in complaint("{}", text)


def test_one_configuration_is_no_search(complaint):
    text = "variants: {list: [{name: torch, params: {how: torch}}, {x: 1}]}\n"
    assert "there is nothing to search: 1 configurations" in complaint("{}", text)


def test_pages_and_workloads_that_need_every_variant(complaint, tmp_path):
    message = complaint("{}", SPACE.replace("page: {", "page: {kind: progression, "))
    assert "search: a page of kind progression needs every variant; use versions or" in message
    path = tmp_path / "command.yaml"
    path.write_text(
        "name: x\nworkload: {command: './a {x}'}\nvariants: {matrix: {x: [1, 2]}}\nsearch: {}\n"
    )
    with pytest.raises(SpecError, match="search: an external command is a process for each visit"):
        load_spec(path)


def test_the_large_space_has_1620_configurations_that_all_compile_for_four_lengths():
    loaded = load_spec(EXPERIMENTS / "autotune_large.yaml")
    plan = make_plan(loaded, space_of(loaded))
    assert len(plan.search.variants) == 1620
    assert len(plan.search.problems) == 4
    assert plan.search.left_out == 0


@pytest.mark.parametrize(("head_dim", "configurations"), [(64, 224), (128, 144), (256, 16)])
def test_the_space_of_the_hopper_kernel_is_swept(head_dim, configurations):
    changes = (
        f"variants.sets=[hopper_tune_{head_dim}]",
        f"problems.matrix.head_dim={head_dim}",
    )
    loaded = load_spec(EXPERIMENTS / "hopper_autotune.yaml", overrides=changes)
    plan = make_plan(loaded, space_of(loaded))
    assert plan.search is None
    assert len(plan.rivals) == configurations
    mma_sync = 12 if head_dim == 128 else 0
    assert len(plan.cells) == 6 * configurations + 2 * 12 + mma_sync
