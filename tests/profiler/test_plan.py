"""Cells, exclusions, orders and sessions of a plan."""

import itertools
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.collect.registry import is_judged
from profiler.commands.plan import selected_plan
from profiler.errors import SpecError, UsageError
from profiler.findings.variant_names import find_names
from profiler.metrics.catalogue import CATALOGUE
from profiler.model import Cell, Problem, SessionKind, Variant, cell_id
from profiler.planning.matrix import default_name, identify
from profiler.planning.plan import command_values, make_plan, plan_document
from profiler.planning.session_plans import (
    block_visits,
    explain_session,
    flushed_by_runner,
    sessions_differ_on,
)
from profiler.planning.space import Space, space_of
from profiler.planning.spec import load_spec
from profiler.sessions.templates import job_cell

SPECS = Path(__file__).parent / "specs"
SOFTMAX = Path(__file__).resolve().parents[2] / "experiments" / "softmax.yaml"

HEAD = "name: x\nworkload: ./workload.py\n"


def plan_file(path, *, only=None, overrides=()):
    loaded = load_spec(path, overrides=overrides)
    return make_plan(loaded, space_of(loaded), only=only)


@pytest.fixture
def plan(tmp_path):
    def plan_text(text, *, capability=None, **kwargs):
        path = tmp_path / "spec.yaml"
        path.write_text(HEAD + text if "workload:" not in text else text, encoding="utf-8")
        return make_plan(load_spec(path), Space(capability=capability), **kwargs)

    return plan_text


@pytest.fixture
def complaint(plan, tmp_path):
    def complaint_of(text, error=SpecError, **kwargs):
        with pytest.raises(error) as caught:
            plan(text, **kwargs)
        return str(caught.value).replace(f"{tmp_path}/", "")

    return complaint_of


def names(plan):
    return list(dict.fromkeys(cell.variant.name for cell in plan.cells))


def counted(plan):
    return {f"{each.stage}: {each.reason}": each.count for each in plan.excluded}


# ---- expansion -----------------------------------------------------------------------------------


def test_everything_that_a_spec_can_say():
    plan = plan_file(SPECS / "module.yaml")
    assert names(plan) == [
        "reference",
        "special",
        "naive",
        "wide-256",
        "on-128",
        "on-256",
        "on-512",
        "shared-128",
        "shared-256",
        "warp-1",
        "warp-2",
    ]
    assert counted(plan) == {
        "variant: too large: shared memory": 1,
        "variant: never": 0,
        "variant: not a power of two": 1,
        "problem: one wide type": 1,
        "cell: slow: takes long": 3,
        "cell: two long rows do not fit": 1,
    }
    assert [problem for problem, _ in itertools.groupby(plan.cells, lambda c: c.problem.name)] == [
        "columns=1024,dtype=float16",
        "tiny",
        "columns=4096,dtype=float16",
        "columns=4096,dtype=float32",
        "columns=16384,dtype=float16",
    ]
    assert len(plan.cells) == 11 * 5 - 3 - 1
    assert plan.baseline == "reference"
    assert plan.seed == 7
    notes = {cell.variant.name: cell.variant.note for cell in plan.cells}
    assert (notes["special"], notes["naive"]) == ("by hand", "")


def test_the_experiment_of_the_repository():
    plan = plan_file(SOFTMAX)
    assert len(names(plan)) >= 24
    assert plan.baseline == "torch"
    timing, *counters = plan.sessions
    assert timing.name == "ncu-timing"
    assert [session.name for session in counters] == ["ncu-counters-together"]  # some are replayed
    assert plan.looks == (8, 16, 32)
    assert plan.final_blocks == 12
    problems = len({cell.problem.id for cell in plan.cells})
    assert len(timing.visits) == 8 * (len(plan.cells) + problems)  # the baseline twice
    assert [len(session.visits) for session in counters] == [len(plan.cells)]


def test_a_bare_name_is_a_parameter_too(plan):
    cells = plan("variants: {list: [one, two]}\nproblems: {list: [small]}\n").cells
    assert [cell.variant.params for cell in cells] == [{"variant": "one"}, {"variant": "two"}]
    assert cells[0].problem.params == {"problem": "small"}


def test_without_problems_there_is_one(plan):
    assert [cell.id for cell in plan("variants: {list: [one]}\n").cells] == ["one..default"]


def test_references_are_found_by_name(plan):
    result = plan("variants: {list: [a, b, c]}\npage: {references: [c, b]}\n")
    assert result.references == ("c", "b")


def test_a_reference_that_is_excluded_is_left_out(plan):
    text = (
        "variants:\n"
        "  list: [{name: lib, of: lib}, {name: card, of: card}, {name: own, of: own}]\n"
        "  exclude: [{name: needs another card, when: {of: card}}]\n"
        "baseline: own\n"
        "page: {references: [card, lib]}\n"
    )
    result = plan(text)
    names = {variant.id: variant.name for variant in result.variants}
    assert [names[reference] for reference in result.references] == ["lib"]
    assert [(item.reason, item.count) for item in result.excluded] == [("needs another card", 1)]


def test_a_reference_that_does_not_exist(complaint):
    words = complaint("variants: {list: [a, b]}\npage:\n  references: [a, bb]\n")
    assert words.startswith("spec.yaml:5: page.references[1]: there is no variant 'bb'")


def test_a_page_parameter_that_no_variant_has(complaint):
    text = "variants: {matrix: {width: [1, 2]}}\npage: {parameters: widht}\n"
    assert complaint(text).startswith("spec.yaml:4: page.parameters")
    assert "no variant has a parameter 'widht'; did you mean 'width'?" in complaint(text)


def test_equal_parameters_are_merged_and_the_baseline_follows(plan):
    result = plan(
        "variants:\n  list: [{name: a, x: 1}, {name: b, x: 1}]\n  matrix: {x: [1, 2]}\n"
        "baseline: b\n"
    )
    assert names(result) == ["a", "x=2"]
    assert counted(result) == {"variant: same parameters as another variant": 2}
    assert result.excluded[0].examples == ("b", "x=1")
    assert result.baseline == "a"


def test_values_of_different_types_differ(plan):
    result = plan(
        'variants: {matrix: {x: [1, 1.0, true, "1", "true", null, "null", "a,b=c", ""]}}\n'
    )
    assert names(result) == [
        "x=1",
        "x=1.0",
        "x=true",
        'x="1"',
        'x="true"',
        "x=null",
        'x="null"',
        'x="a,b=c"',
        'x=""',
    ]
    assert len({cell.id for cell in result.cells}) == 9


def test_the_first_matching_rule_counts(plan):
    result = plan(
        "variants:\n  matrix: {x: [1, 2, 3], y: [1, 2]}\n  exclude:\n"
        "    - {name: big, when: {x: {min: 2}}}\n    - {name: three, when: {x: 3}, reason: why}\n"
    )
    assert counted(result) == {"variant: big": 4, "variant: three: why": 0}
    assert result.excluded[0].examples == ("x=2,y=1", "x=2,y=2", "x=3,y=1")


def test_a_rule_does_not_match_what_lacks_its_parameter(plan):
    result = plan(
        "variants:\n  list: [{name: lib, a: lib}]\n  matrix: {a: own, x: [1, 2]}\n  exclude:\n"
        "    - {name: r, when: {x: {not: 1}}}\n"
    )
    assert names(result) == ["lib", "a=own,x=1"]


def test_rules_may_speak_of_names(plan):
    result = plan(
        "variants: {list: [a, b]}\nproblems: {list: [s, t]}\n"
        "exclude: [{name: r, when: {variant: b, problem: [t]}}]\n"
    )
    assert [cell.id for cell in result.cells] == ["a..s", "b..s", "a..t"]
    assert result.excluded[0].examples == ("b..t",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "variants:\n  matrix: {block: [1, 2]}\n  exclude: [{name: r, when: {blok: 1}}]\n",
            "spec.yaml:5: variants.exclude[0].when.blok: no such parameter here; "
            "did you mean 'block'?",
        ),
        (
            "variants: {list: [a]}\nexclude:\n  - {name: r, when: {columns: 1}}\n",
            "spec.yaml:5: exclude[0].when.columns: no such parameter here; known: problem, variant",
        ),
        (
            "variants:\n  matrix: {x: [1, 2]}\n  exclude: [{name: r, when: {x: {min: 0}}}]\n",
            "spec.yaml:3: variants: no variants are left to measure: r (2)",
        ),
        (
            "variants: {list: [a]}\nproblems:\n  matrix: {n: 1}\n"
            "  exclude: [{name: r, when: {n: 1}}]\n",
            "spec.yaml:4: problems: no problems are left to measure: r (1)",
        ),
        (
            "variants: {list: [a]}\nexclude: [{name: r, when: {variant: a}}]\n",
            "spec.yaml:4: exclude: no cells are left to measure: r (1)",
        ),
        (
            "variants: {list: [torch]}\nbaseline: toch\n",
            "spec.yaml:4: baseline: there is no variant 'toch'; did you mean 'torch'?",
        ),
        (
            "variants: {list: [a, b], exclude: [{name: r, when: {variant: b}}]}\nbaseline: b\n",
            "spec.yaml:4: baseline: the variant 'b' is excluded: r",
        ),
        (
            "variants: {list: [a, b]}\nbaseline: b\nexclude: [{name: r, when: {variant: b}}]\n",
            "spec.yaml:4: baseline: every cell of the baseline 'b' is excluded",
        ),
        (
            "variants: {list: [{name: a, x: 1}, {name: a, x: 2}]}\n",
            "spec.yaml:3: variants.list[1]: two different variants are named 'a': x=1 and x=2",
        ),
        (
            "variants: {matrix: {n: [1]}}\nproblems: {matrix: {n: [1]}}\n",
            "spec.yaml:4: problems.matrix: the name 'n' is taken by the other",
        ),
        (
            "variants: {matrix: {problem: [1]}}\n",
            "spec.yaml:3: variants.matrix: the name 'problem' is taken by the other",
        ),
        (
            "variants: {sets: [all]}\n",
            "spec.yaml:3: variants.sets[0]: the workload has no set 'all'; its space defines none",
        ),
        (
            f"variants: {{matrix: {{a: {list(range(400))}, b: {list(range(400))}}}}}\n",
            "spec.yaml:3: variants.matrix: 160000 combinations are more than 100000",
        ),
        (
            f"variants: {{matrix: {{a: {list(range(400))}}}}}\n"
            f"problems: {{matrix: {{b: {list(range(400))}}}}}\n",
            "spec.yaml:3: variants: 160000 cells are more than 100000",
        ),
    ],
)
def test_what_is_refused(complaint, text, words):
    assert complaint(text).startswith(words)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("wdie", "the workload has no set 'wdie'; did you mean 'wide'?"),
        ("odd", "set 'odd': {'algorithm': 'wide', 'block': [1, 2]}: must be a single value"),
    ],
)
def test_sets_that_are_refused(name, words):
    with pytest.raises(SpecError) as caught:
        plan_file(SPECS / "module.yaml", overrides=(f"variants.sets=[{name}]",))
    assert f"variants.sets[0]: {words}" in str(caught.value)


def test_each_problem_is_measured_on_zeros_too_where_that_is_asked_for(plan):
    spec = "variants: {list: [a]}\nproblems: {list: [p], matrix: {n: [1, 2]}}\n"
    (both, usual, zeros) = (
        plan(f"{spec}inputs: {kinds}\n").problems
        for kinds in ("[normal, zeros]", "as they come", "[zeros]")
    )
    names = [problem.name for problem in both]
    assert names == ["p", "p zeros", "n=1", "n=1,inputs=zeros", "n=2", "n=2,inputs=zeros"]
    assert both[::2] == usual
    assert both[1::2] == zeros
    assert all(problem.on_zeros and problem.params["inputs"] == "zeros" for problem in zeros)
    assert not any(problem.on_zeros for problem in usual)
    cell = job_cell(Cell("a..p", Variant("a", "a"), both[3]), {}, check=True, recheck=True)
    assert (cell.problem_params, cell.on_zeros, cell.recheck) == ({"n": 1}, True, False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("problems: {matrix: {inputs: [1]}}\ninputs: [zeros]\n", "a parameter 'inputs' already"),
        ("problems: {matrix: {n: [1]}}\ninputs: zeros\n", "on zeros: inputs: [zeros]"),
        ("inputs: [ones]\n", "inputs"),
        ("inputs: []\n", "inputs"),
    ],
)
def test_inputs_that_are_refused(complaint, text, words):
    assert words in complaint(f"variants: {{list: [a]}}\n{text}")


# ---- ids -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "params", "expected"),
    [
        ("torch", {"algorithm": "torch"}, "torch"),
        ("vector-b256-r4-v8", {"x": 1}, "vector-b256-r4-v8"),
        ("columns=4096,dtype=float16", {"columns": 4096, "dtype": "float16"}, None),
        ("columns=4096,dtype=float16", {}, "columns=4096_dtype=float16-b05d6f"),
        ("x=1.5,y=2", {"x": 1.5, "y": 2}, "x=1.5_y=2-76059b"),
        ("a..b", {}, "a_b-2d8dbc"),
        ("naïve kernel", {}, "na_ve_kernel-e59d71"),
    ],
)
def test_ids_never_change(name, params, expected):
    assert identify(name, params) == (expected or "columns=4096.dtype=float16")


def test_cell_ids_never_change():
    cells = plan_file(SPECS / "command.yaml").cells
    assert [cell.id for cell in cells] == [
        "kernel=0..size=1024",
        "kernel=a_b-62ef25..size=1024",
        "kernel=0..size=2048",
        "kernel=a_b-62ef25..size=2048",
    ]


_names = st.text(alphabet="ab.,=_-1 é/", min_size=1, max_size=6)


@given(st.sets(_names, min_size=2, max_size=12))
def test_ids_of_different_pairs_differ(names):
    variants = [Variant(identify(name, {}), name) for name in names]
    problems = [Problem(identify(name, {}), name) for name in names]
    ids = [cell_id(*pair) for pair in itertools.product(variants, problems)]
    assert len(set(ids)) == len(names) ** 2
    assert all(set(each) <= set("abcdefghijklmnopqrstuvwxyz0123456789_.=-") for each in ids)


_params = st.dictionaries(
    st.sampled_from("abc"),
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(-2, 2)
    | st.text("ab=,.1", max_size=4),
    min_size=1,
)


@given(_params, _params)
def test_default_names_differ_where_parameters_do(one, other):
    assert default_name({"n": "5 µm, groß"}) == 'n="5 µm, groß"'
    same = {key: (type(v), v) for key, v in one.items()} == {
        key: (type(v), v) for key, v in other.items()
    }
    in_order = list(one) == list(other)
    if in_order:
        names_equal = default_name(one) == default_name(other)
        # 0.0 and -0.0 are equal, and yet are written differently.
        assert names_equal == same or (same and "-0.0" in default_name(one) + default_name(other))
        if not names_equal:
            assert identify(default_name(one), one) != identify(default_name(other), other)


def test_ids_do_not_depend_on_order_or_neighbours(plan):
    few = plan("variants: {list: [b c, a]}\nproblems: {matrix: {n: [2, 1]}}\n")
    many = plan("variants: {list: [z, a, 'b_c', b c]}\nproblems: {matrix: {n: [1, 3, 2]}}\n")
    assert {cell.id for cell in few.cells} <= {cell.id for cell in many.cells}
    assert len({cell.id for cell in many.cells}) == 12


# ---- sessions ------------------------------------------------------------------------------------


def test_ncu_only_counts_where_it_shall_not_time():
    settings = ("collect.collectors=[timer, ncu]", "collect.ncu_timing=false")
    plan = plan_file(SPECS / "module.yaml", overrides=settings)
    timer, counters, hits = plan.sessions
    assert (timer.name, timer.kind) == ("timer", SessionKind.TIMING)
    assert [one.kind for one in (counters, hits)] == [SessionKind.COUNTERS] * 2
    both = ("duration_ns", "l2_bytes", "smsp__inst_executed.sum", "cycles")
    assert counters.metrics == both  # cycles are of a timing session, where there is one
    assert is_judged(plan, timer)
    assert len(counters.visits) == 2 * len(plan.cells)


def test_ncu_that_only_counts_has_a_session_without_counters_too(plan):
    few = plan(
        "variants: {list: [a, b]}\n"
        "collect: {collectors: [ncu, timer], ncu_timing: false, metrics: duration_ns}\n"
    )
    assert [(one.name, one.metrics) for one in few.sessions] == [
        ("ncu-counters", ("duration_ns", "cycles")),
        ("timer", ("duration_ns",)),
    ]


def test_sessions_of_both_collectors():
    plan = plan_file(SPECS / "module.yaml")
    timing, counters, hits, timer = plan.sessions
    cells = len(plan.cells)
    problems = len({cell.problem.id for cell in plan.cells})
    assert (timing.name, timing.collector, timing.kind) == ("ncu-timing", "ncu", SessionKind.TIMING)
    assert timing.metrics == ("duration_ns", "cycles")  # 4 blocks have no confirmation
    assert len(timing.visits) == 4 * (cells + problems)  # the baseline twice
    assert (counters.name, counters.kind) == ("ncu-counters", SessionKind.COUNTERS)
    assert (hits.name, hits.kind) == ("ncu-counters-l2_hit_sectors", SessionKind.COUNTERS)
    assert counters.metrics == ("duration_ns", "l2_bytes", "smsp__inst_executed.sum")
    assert hits.metrics == ("duration_ns", "l2_hit_sectors")
    assert len(counters.visits) == len(hits.visits) == 2 * cells
    assert (timer.name, timer.collector, timer.kind) == ("timer", "timer", SessionKind.TIMING)
    assert timer.metrics == ("duration_ns",)
    assert len(timer.visits) == 4 * (cells + problems)
    assert {visit.arm for visit in (*counters.visits, *hits.visits)} == {0}


def test_each_timer_has_a_session_of_its_own(tmp_path):
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "name: x\nworkload: ./workload.py\nvariants: {list: [a, b]}\n"
        "collect:\n  collectors: [wall_clock, ncu, torch_kernels, timer]\n"
        "  blocks: 3\n  metrics: timing\n"
    )
    (tmp_path / "workload.py").write_text("")
    sessions = plan_file(spec).sessions
    assert [(each.name, each.collector) for each in sessions] == [
        ("wall-clock", "wall_clock"),
        ("ncu-timing", "ncu"),
        ("torch-kernels", "torch_kernels"),
        ("timer", "timer"),
    ]
    assert {each.kind for each in sessions} == {SessionKind.TIMING}
    assert {len(each.visits) for each in sessions} == {3 * 3}


def test_launches_back_to_back_beside_what_takes_looks_have_blocks_enough_for_one(plan):
    def visits_of_sustained(collect):
        result = plan(ABC + "baseline: b\ncollect: {" + collect + ", metrics: duration_ns}\n")
        (session,) = (each for each in result.sessions if each.collector == "sustained")
        return len(session.visits)

    assert visits_of_sustained("collectors: [ncu, sustained]") == 12 * 8
    assert visits_of_sustained("collectors: [ncu, sustained], blocks: 8") == 8 * 8
    assert visits_of_sustained("collectors: [sustained]") == 8 * 8


def test_without_counters_there_is_one_session():
    plan = plan_file(SPECS / "command.yaml")
    assert [session.name for session in plan.sessions] == ["ncu-timing"]
    assert len(plan.sessions[0].visits) == 3 * (len(plan.cells) + 2)  # two problems


HITS_AND_TRAFFIC = "collect: {metrics: [l2_hit_pct, dram_read_bytes]}\n"
MANY = f"variants: {{list: [{', '.join(f'v{number}' for number in range(27))}]}}\n"


def test_counters_of_few_cells_share_a_session_and_those_of_many_do_not(plan):
    _, together = plan(f"variants: {{list: [a, b, c]}}\n{HITS_AND_TRAFFIC}").sessions
    _, first, second = plan(MANY + HITS_AND_TRAFFIC).sessions
    assert together.name == "ncu-counters-together"  # none of the names that they have apart
    assert set(together.metrics) == {*first.metrics, *second.metrics}
    assert [(visit.block, visit.arm) for visit in together.visits] == [(0, 0)] * 3


@pytest.mark.parametrize(
    ("variants", "changes", "counted"),
    [
        ("a, b, c", "", False),
        ("a, b", "", True),
        ("a, b, c", ", final_blocks: 0", True),
        ("a, b, c", ", blocks: 5", True),
    ],
)
def test_looks_count_cycles_where_no_confirmation_does(plan, variants, changes, counted):
    timing, counters = plan(
        f"variants: {{list: [{variants}]}}\ncollect: {{metrics: [l2_bytes]{changes}}}"
    ).sessions
    assert ("cycles" in timing.metrics) is counted
    assert ("cycles" in counters.metrics) is not counted


def test_steps_are_not_in_the_confirmation_and_have_their_cycles_counted(plan):
    steps = plan("variants: {list: [a, b, c]}\nquestions: [best, steps]\n").sessions
    assert "cycles" in steps[0].metrics


def test_a_part_of_the_cells_goes_on_with_the_sessions_of_all(plan):
    part = plan(MANY + HITS_AND_TRAFFIC, only="variant=v1")
    all_cells = plan(MANY + HITS_AND_TRAFFIC)
    assert len(part.cells) == 2
    assert [session.name for session in part.sessions] == [
        session.name for session in all_cells.sessions
    ]
    assert [session.metrics for session in part.sessions] == [
        session.metrics for session in all_cells.sessions
    ]


TYPED = """
problems: {matrix: {precision: [BF16, FP16], size: [1, 2, 3, 4]}}
collect: {metrics: [tensor_roofline]}
"""


def test_tensor_operations_are_counted_where_a_cell_names_their_type(plan):
    result = plan(MANY + TYPED)
    problem_of = {cell.id: cell.problem.params["precision"] for cell in result.cells}
    counted = {
        session.name: (
            {name for name in session.metrics if name.endswith("_ops")},
            {problem_of[visit.cell] for visit in session.visits},
        )
        for session in result.sessions[1:]
    }
    assert counted == {
        "ncu-counters": ({"tensor_bf16_ops"}, {"BF16"}),
        "ncu-counters-together": ({"tensor_fp16_ops"}, {"FP16"}),
    }
    part = plan(MANY + TYPED, only="precision=FP16")
    names = {session.name for session in part.sessions}
    assert names == {"ncu-timing", "ncu-counters-together"}


def test_what_a_gpu_counts_in_parts_is_planned_so_where_the_gpu_is_known(plan):
    unknown, ampere, hopper = (plan(MANY + TYPED, capability=gpu) for gpu in (None, "8.0", "9.0"))
    assert (unknown.capability, ampere.capability, hopper.capability) == (None, "8.0", "9.0")
    of_ampere = [session.name for session in ampere.sessions]
    assert of_ampere == ["ncu-timing", "ncu-counters", "ncu-counters-fp16"], "one pass each"
    assert unknown.sessions[-1].name == "ncu-counters-together", "as on 9.0 without its parts"
    problem_of = {cell.id: cell.problem.params["precision"] for cell in hopper.cells}
    parts = {
        name: {problem_of[visit.cell] for visit in session.visits}
        for session in hopper.sessions
        for name in session.metrics
        if name.startswith("tensor_fp16_") and name.endswith("_ops")
    }
    assert parts == {part: {"FP16"} for part in CATALOGUE["tensor_fp16_ops"].parts}
    assert not sessions_differ_on(unknown, None)
    assert all(sessions_differ_on(unknown, other) for other in ("8.0", "9.0", "10.0"))
    bf16 = plan(MANY + TYPED, only="precision=BF16")
    assert not sessions_differ_on(bf16, "9.0")


def test_tensor_operations_that_are_asked_for_by_name_are_counted(plan):
    by_name = TYPED.replace("tensor_roofline", "tensor_fp8_ops")
    sessions = plan(MANY + by_name).sessions
    assert {name for session in sessions for name in session.metrics} >= {"tensor_fp8_ops"}
    part = TYPED.replace("tensor_roofline", "tensor_fp16_hgmma_ops")
    sessions = plan(MANY + part, only="precision=BF16", capability="9.0").sessions
    assert "tensor_fp16_hgmma_ops" in {name for session in sessions for name in session.metrics}


def test_without_a_timing_session_the_first_counters_of_each_cell_time_it(plan):
    result = plan(
        MANY + TYPED.replace("metrics", "ncu_timing: false, collectors: [ncu, timer], metrics")
    )
    timed = [s for s in result.sessions if s.collector == "ncu" and "cycles" in s.metrics]
    assert [session.name for session in timed] == ["ncu-counters", "ncu-counters-together"]
    visited = Counter(visit.cell for session in timed for visit in session.visits)
    assert visited == {cell.id: 1 for cell in result.cells}


def test_more_samples_weigh_like_more_cells(plan):
    few, many = (
        plan(f"variants: {{list: [a, b]}}\n{HITS_AND_TRAFFIC}".replace("{m", f"{{{samples}, m"))
        for samples in ("counter_samples: 9", "counter_samples: 10")
    )
    assert (len(few.sessions), len(many.sessions)) == (2, 3)


def test_counters_of_a_program_share_a_session(plan):
    program = 'name: x\nworkload: {command: "./a {variant}"}\n'
    assert len(plan(program + MANY + HITS_AND_TRAFFIC).sessions) == 2  # each visit starts it again


def test_a_metric_that_is_replayed_brings_all_counters_into_its_session(plan):
    result = plan(
        "variants: {list: [a, b]}\ncollect: {metrics: [l2_hit_pct, fp32_fma, registers]}\n"
    )
    assert [session.name for session in result.sessions] == ["ncu-timing", "ncu-counters-together"]
    assert set(result.sessions[1].metrics[1:]) == {"l2_hit_sectors", "l2_bytes", "fp32_fma"}
    assert result.sessions[0].metrics == ("duration_ns", "cycles", "registers")


def test_the_runner_empties_caches_where_ncu_replays_nothing(tmp_path):
    def flushed(changes, workload="./workload.py", capability="9.0"):
        path = tmp_path / "spec.yaml"
        path.write_text(
            f"name: x\nworkload: {workload}\nvariants: {{list: [a, b]}}\n"
            f"collect: {{metrics: [duration_ns, dram_read_bytes, l2_hit_pct, cycles]{changes}}}"
        )
        loaded = load_spec(path)
        made = make_plan(loaded, Space(capability=capability))
        explains = explain_session(loaded.experiment, made.cells, ["duration_ns"])
        return {
            session.name
            for session in (*made.sessions, explains)
            if flushed_by_runner(loaded.experiment, session, capability)
        }

    assert flushed("") == {"ncu-timing"}, "few cells: the counters are replayed together"
    many = ", counter_samples: 40"
    assert flushed(many) == {"ncu-timing", "ncu-counters", "ncu-counters-l2_hit_sectors"}
    assert flushed(", collectors: [ncu, timer]") == {"ncu-timing"}, "the timer does so anyway"
    for by_ncu in (", cache_control: all", ", cache_control: none", ", replay_mode: range"):
        assert flushed(many + by_ncu) == set()
    assert flushed(many, workload="{command: [./a, '{variant}']}") == set()


def test_cycles_are_of_every_visit_where_nothing_else_is_counted(plan):
    (session,) = plan("variants: {list: [a, b]}\ncollect: {metrics: timing}\n").sessions
    assert session.metrics == ("duration_ns", "cycles")


def test_visits_are_by_problem_then_block_and_complete():
    plan = plan_file(SPECS / "module.yaml")
    problem_of = {cell.id: cell.problem.id for cell in plan.cells}
    cells_of = Counter(problem_of.values())
    for session in plan.sessions:
        places = [(problem_of[visit.cell], visit.block) for visit in session.visits]
        runs = [place for place, _ in itertools.groupby(places)]
        blocks = max(block for _, block in runs) + 1
        order = list(dict.fromkeys(problem_of.values()))
        assert runs == list(itertools.product(order, range(blocks)))
        again = int(session.kind is SessionKind.TIMING)  # the baseline
        assert Counter(places) == {place: cells_of[place[0]] + again for place in runs}
        assert len(set(session.visits)) == len(session.visits)


def test_more_blocks_leave_earlier_orders_as_they_were():
    few, many = (
        plan_file(SPECS / "module.yaml", overrides=(f"collect.blocks={blocks}",)).sessions[0]
        for blocks in (2, 9)
    )
    assert [visit for visit in many.visits if visit.block < 2] == list(few.visits)


def test_orders_differ_by_block_problem_session_and_seed():
    def orders(seed):
        plan = plan_file(SOFTMAX, overrides=(f"collect.seed={seed}", "collect.counter_samples=8"))
        place = {name: index for index, name in enumerate(names(plan))}
        variant = {cell.id: place[cell.variant.name] for cell in plan.cells}
        problem = {cell.id: cell.problem.id for cell in plan.cells}
        return [
            tuple(variant[visit.cell] for visit in visits)
            for session in plan.sessions
            for _, visits in itertools.groupby(
                session.visits, lambda visit: (problem[visit.cell], visit.block)
            )
        ]

    first, second = orders(1), orders(2)
    assert len(set(first + second)) == len(first) + len(second)
    assert orders(1) == first


def test_the_order_of_the_spec_does_not_matter(plan):
    one = plan("variants: {list: [a, b, c, d, e]}\nbaseline: c\n")
    other = plan("variants: {list: [e, c, b, a, d]}\nbaseline: c\n")
    assert one.sessions == other.sessions


def test_an_order_that_never_changes(plan):
    result = plan("variants: {list: [a, b, c, d]}\ncollect: {blocks: 2, metrics: duration_ns}\n")
    visits = [(visit.cell[0], visit.block, visit.arm) for visit in result.sessions[0].visits]
    order = "adcAbcaAdb"  # a capital is the second visit of the baseline
    assert visits == [(one.lower(), n // 5, int(one.isupper())) for n, one in enumerate(order)]


# ---- arms and looks ------------------------------------------------------------------------------


ABC = "variants: {list: [a, b, c]}\nproblems: {list: [p, q]}\n"


def cells_of(plan, block, session=0):
    visits = plan.sessions[session].visits
    return Counter((visit.cell, visit.arm) for visit in visits if visit.block == block)


def test_the_baseline_is_visited_twice_in_each_block_of_a_timing_session(plan):
    result = plan(ABC + "baseline: b\ncollect: {blocks: 3, collectors: [ncu, timer]}\n")
    once = [(cell.id, 0) for cell in result.cells]
    for session in result.sessions:
        twice = [("b..p", 1), ("b..q", 1)] if session.kind is SessionKind.TIMING else []
        for block in {visit.block for visit in session.visits}:
            made = [(v.cell, v.arm) for v in session.visits if v.block == block]
            assert Counter(made) == Counter(once + twice)


def test_a_baseline_that_stands_alone_at_a_problem_is_visited_once(plan):
    result = plan(ABC + "exclude: [{name: x, when: {problem: q, variant: [b, c]}}]\n")
    assert cells_of(result, 0) == Counter([("a..p", 0), ("a..p", 1), *_once("b..p c..p a..q")])
    alone = plan("variants: {list: [a]}\n")
    assert {visit.arm for session in alone.sessions for visit in session.visits} == {0}


def test_a_problem_without_the_baseline_is_visited_once(plan):
    result = plan(ABC + "exclude: [{name: x, when: {problem: q, variant: a}}]\n")
    assert cells_of(result, 0) == Counter([("a..p", 1), *_once("a..p b..p c..p b..q c..q")])


def _once(cells):
    return [(cell, 0) for cell in cells.split()]


def test_the_second_visit_of_the_baseline_has_any_place_in_its_block(plan):
    result = plan(ABC + "collect: {blocks: 40}\n")
    own = [visit for visit in result.sessions[0].visits if visit.cell.endswith("..p")]
    places = {0: set(), 1: set()}
    for place, visit in enumerate(own):
        if visit.cell == "a..p":
            places[visit.arm].add(place % 4)
    assert places == {0: {0, 1, 2, 3}, 1: {0, 1, 2, 3}}


def test_the_plan_has_the_visits_of_the_first_look_only(plan):
    text = "variants: {list: [a, b]}\ncollect: {blocks: %s, final_blocks: 7}\n"
    looks, fixed = plan(text % "[6, 9, 12]"), plan(text % "6")
    assert (looks.looks, looks.final_blocks) == ((6, 9, 12), 7)
    assert (fixed.looks, fixed.final_blocks) == ((6,), 7)
    assert looks.sessions == fixed.sessions


@given(st.integers(0, 5), st.integers(6, 9), st.integers(0, 3))
def test_blocks_are_ordered_whatever_else_is_asked_for(first, last, seed):
    cells = [
        Cell(cell_id(v, Problem("p", "p")), v, Problem("p", "p"))
        for v in (Variant(name, name) for name in "abcd")
    ]
    visits_at_once = list(block_visits(cells, "s", range(10), seed=seed, repeated_variant="c"))
    part = list(block_visits(cells[::-1], "s", range(first, last), seed=seed, repeated_variant="c"))
    assert part == [visit for visit in visits_at_once if first <= visit.block < last]


def test_only_takes_the_labels_of_the_page():
    """The names of these variants hold commas, which `--only` reads as another condition."""
    loaded = load_spec(SOFTMAX.with_name("autotune.yaml"))
    space = space_of(loaded)
    plan_of_all = selected_plan(loaded, space, None)
    names = find_names(
        plan_of_all.variants,
        references={plan_of_all.baseline or "", *plan_of_all.references},
    )
    variant = next(item for item in plan_of_all.variants if names.label(item) != item.name)
    picked = selected_plan(loaded, space, f"variant={names.label(variant)}")
    assert {item.id for item in picked.variants} == {plan_of_all.baseline, variant.id}
    with pytest.raises(UsageError, match="no cell matches"):
        selected_plan(loaded, space, "variant=nothing")


# ---- --only --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("only", "ids"),
    [
        ("x=2", ["lib..n=1", "x=2..n=1", "lib..n=4", "x=2..n=4"]),
        ("x=1|2,n=4", ["lib..n=4", "x=1..n=4", "x=2..n=4"]),
        ("variant=lib", ["lib..n=1", "lib..n=4"]),
        ("cell=x=3..n=1", ["lib..n=1", "x=3..n=1"]),
        ("problem=n=4, x = 3 ", ["lib..n=4", "x=3..n=4"]),
        ("n=1e0,x=0x3", ["lib..n=1", "x=3..n=1"]),
    ],
)
def test_only_keeps_what_fits_and_the_baseline(plan, only, ids):
    text = (
        "variants: {list: [{name: lib, of: lib}], matrix: {x: [1, 2, 3]}}\n"
        "problems: {matrix: {n: [1, 4]}}\n"
    )
    result = plan(text, only=only)
    assert [cell.id for cell in result.cells] == ids
    assert {visit.cell for visit in result.sessions[0].visits} == set(ids)


@pytest.mark.parametrize(
    "only", ["problem=n=4,m=2", "problem=n=4.m=2", "x=3|1,problem=n=4,m=2 | n=8,m=2,x=3", "n=4,m=2"]
)
def test_a_problem_is_named_as_plans_write_it_or_by_its_id(plan, only):
    """Its name has commas, which end a condition elsewhere."""
    text = "variants: {matrix: {x: [1, 3]}}\nproblems: {matrix: {n: [4], m: [2, 9]}}\n"
    assert {cell.problem.name for cell in plan(text, only=only).cells} == {"n=4,m=2"}


def test_a_parameter_may_be_called_as_what_is_selected_by(plan):
    text = "variants: {list: [a]}\nproblems: {matrix: {tag: [1, 2], cell: [3, 4]}}\n"
    assert len(plan(text, only="tag=1").cells) == 2
    assert len(plan(text, only="tag=1,cell=4").cells) == 1


@pytest.mark.parametrize(
    ("only", "words"),
    [
        ("bock=1", "bock=1: no cell has 'bock'; did you mean 'block'?"),
        ("block=3", "block=3: no cell matches\n  Remedy: block is one of: 1, 2"),
        (
            "variant=block=1,block=2",
            "variant=block=1,block=2: no cell matches\n  Remedy: Each of these matches",
        ),
        ("block", "'block' names no cells: it must look like key=value"),
        ("block=", "'block=' names no cells: it must look like key=value"),
        ("", "'' names no cells: it must look like key=value"),
        ("block=true", "block=true: no cell matches"),
        ("tag=x", "tag=x: no cell matches\n  Remedy: No variant has a tag."),
    ],
)
def test_only_that_fits_nothing(complaint, only, words):
    text = "variants: {matrix: {block: [1, 2]}}\n"
    assert complaint(text, UsageError, only=only).startswith(words)


def test_the_remedy_does_not_list_hundreds_of_values(complaint):
    text = f"variants: {{matrix: {{x: {list(range(300))}}}}}\n"
    assert complaint(text, UsageError, only="x=-1").endswith("9, 10, 11, …")


# ---- external commands ---------------------------------------------------------------------------


def test_values_of_placeholders(plan):
    text = (
        "name: x\nworkload: {command: './a {v} {on} {size} {variant} {problem}'}\n"
        "variants: {list: [{name: fast, v: 1.5, on: null}]}\nproblems: {matrix: {size: 1024}}\n"
    ).replace("on: null", '"on": true')
    assert command_values(plan(text).cells[0]) == {
        "v": "1.5",
        "on": "true",
        "size": "1024",
        "variant": "fast",
        "problem": "size=1024",
    }


def test_a_placeholder_that_nothing_fills(complaint):
    text = (
        "name: x\nworkload:\n  command: ./a {kernel} {sice}\n"
        "variants: {matrix: {kernel: 1}}\nproblems: {matrix: {size: 1}}\n"
    )
    assert complaint(text) == (
        "spec.yaml:3: workload.command: nothing fills {sice} for variant 'kernel=1' and problem "
        "'size=1'; did you mean 'size'?"
    )


# ---- the document --------------------------------------------------------------------------------


def test_the_document():
    document = plan_document(plan_file(SPECS / "module.yaml"))
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert list(document) == [
        "schema_version",
        "experiment",
        "seed",
        "baseline",
        "looks",
        "final_blocks",
        "questions",
        "pairs",
        "search",
        "cells",
        "excluded",
        "sessions",
    ]
    assert document["cells"][1] == {
        "id": "special..columns=1024.dtype=float16",
        "variant": "special",
        "problem": "columns=1024,dtype=float16",
        "variant_params": {"algorithm": "online", "block": 64},
        "problem_params": {"columns": 1024, "dtype": "float16"},
    }
    assert document["excluded"][0] == {
        "reason": "too large: shared memory",
        "count": 1,
        "stage": "variant",
        "examples": ["shared-512"],
    }
    assert document["sessions"][-1] == {
        "name": "timer",
        "collector": "timer",
        "kind": "timing",
        "metrics": ["duration_ns"],
        "visits": 4 * (len(document["cells"]) + 5),  # the baseline twice, at five problems
    }


def test_ten_thousand_cells(plan):
    result = plan(
        f"variants: {{matrix: {{a: {list(range(100))}}}}}\n"
        f"problems: {{matrix: {{b: {list(range(100))}}}}}\n"
    )
    assert len({cell.id for cell in result.cells}) == 10_000
    assert len(result.sessions[0].visits) == 8 * (10_000 + 100)  # the baseline twice


# ---- trusted variants ----------------------------------------------------------------------------

TRUST = """\
variants:
  list: [{name: own, params: {method: blocked, block: 8}, trust: true, reason: its own}]
  matrix: {method: [dense, blocked], block: [32, 64]}
  trust:
    - {name: sparse, when: {%s}, reason: skips blocks of zeros}
problems: {matrix: {n: [1]}}
"""


def test_rules_trust_variants_of_a_matrix_and_items_speak_for_themselves(plan):
    trusted = {v.name: v.trust for v in plan(TRUST % "method: blocked, block: {min: 8}").variants}
    assert trusted == {
        "own": "its own",
        "method=dense,block=32": "",
        "method=dense,block=64": "",
        "method=blocked,block=32": "skips blocks of zeros",
        "method=blocked,block=64": "skips blocks of zeros",
    }


def test_a_rule_of_trust_needs_a_reason_and_a_parameter_that_variants_have(plan):
    with pytest.raises(SpecError, match="needs a reason"):
        plan((TRUST % "method: blocked").replace("skips blocks of zeros", "''"))
    with pytest.raises(SpecError, match=r"no such parameter here.*did you mean 'method'"):
        plan(TRUST % "methods: blocked")


ENVIRONMENTS = """\
variants:
  list:
    - {name: plain, tile: 1}
    - {name: one, tile: 1, env: {MODE: 1}}
    - {name: two, tile: 2, env: {MODE: two, LEVEL: 0.5}}
"""


def test_variants_of_other_environments_are_variants_and_their_sessions_say_so(plan):
    made = plan(ENVIRONMENTS)
    environments = {variant.name: dict(variant.env) for variant in made.variants}
    assert environments == {
        "plain": {},
        "one": {"MODE": "1"},
        "two": {"MODE": "two", "LEVEL": "0.5"},
    }
    assert all(session.by_environment and session.starts_anew for session in made.sessions)
    assert made.variants[2].remark == "MODE=two LEVEL=0.5"
    alone = plan(ENVIRONMENTS, only="variant=plain")
    assert not any(session.by_environment for session in alone.sessions)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("{MODE: true}", "MODE: must be a text or number, not true or false; quote it"),
        ("MODE=1", "env: must be a mapping of variables to values, not "),
        ("{A-B: 1}", "no name of an environment variable: 'A-B'"),
        ("{CUDA_VISIBLE_DEVICES: 1}", "the GPU is the same for all variants"),
    ],
)
def test_an_environment_that_is_none_is_refused_with_its_line(complaint, env, message):
    said = complaint(ENVIRONMENTS.replace("{MODE: 1}", env))
    assert said.startswith("spec.yaml:6: variants.list[1].env: ")
    assert message in said


def test_a_program_sets_its_variables_itself(complaint):
    text = "name: x\nworkload: {command: ./a}\n" + ENVIRONMENTS
    assert "command: env MODE={mode} ./a" in complaint(text)
