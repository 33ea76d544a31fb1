"""The pairs of benchmarks/why: its files name the same cases; what its score counts as right."""

import dataclasses
import importlib
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from device_code import compile_device_code
from recorded import findings_of_recording, report_of_recording
from whole_runs import only_with_everything

from profiler.analyse.why.account import (
    IMBALANCE,
    INSTRUCTIONS,
    ONE_SIDED,
    STALL,
    WARPS,
    kernel_time,
)
from profiler.analyse.why.causes import CAUSES, UNFUSED, causes
from profiler.analyse.why.roofs import roofs
from profiler.analyse.why.waited_for import REASONS, UNITS
from profiler.findings.why.find import find_why, pair_why
from profiler.findings.why.planted import PLANTED
from profiler.metrics.catalogue import STALL_CAUSES
from profiler.metrics.explain import TABLES, explain_metrics, explain_sections
from profiler.planning.matrix import expand
from profiler.planning.plan import make_plan
from profiler.planning.space import space_of
from profiler.planning.spec import load_spec

FOLDER = Path(__file__).parents[1] / "benchmarks" / "why"
MODULES = ("space", "workload", "expected", "score", "loop")


@pytest.fixture(scope="module")
def modules():
    """Its modules by name; they are imported as its scripts do, and forgotten afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        for name in MODULES:
            patch.delitem(sys.modules, name, raising=False)
        yield {name: importlib.import_module(name) for name in MODULES}
        for name in MODULES:
            sys.modules.pop(name, None)


def report_of(recording):
    return report_of_recording(FOLDER / f"{recording}.zip")


def names_in_sources(pattern):
    sources = "".join(path.read_text("utf-8") for path in FOLDER.glob("*.cu"))
    return set(re.findall(pattern, sources))


@pytest.mark.parametrize(
    ("spec", "attribute"),
    [
        ("why", "CASES"),
        ("more", "MORE_CASES"),
        ("further", "FURTHER_CASES"),
        ("strengths", "STRENGTHS"),
    ],
)
def test_an_experiment_has_a_problem_for_each_of_its_cases(modules, spec, attribute):
    loaded = load_spec(FOLDER / f"{spec}.yaml")
    problems = expand(loaded, space_of(loaded)).problems
    cases = getattr(modules["space"], attribute)
    assert [problem.name for problem in problems] == list(cases)
    assert [problem.params["case"] for problem in problems] == list(cases)


def test_every_case_has_its_kernel_its_right_result_and_its_expectation(modules):
    space = modules["space"]
    cases = space.ALL_CASES
    lists = (space.CASES, space.MORE_CASES, space.FURTHER_CASES, space.STRENGTH_CASES)
    assert len(cases) == sum(map(len, lists))
    assert set(space.STRENGTH_CASES) <= set(space.STRENGTHS) <= set(cases)
    assert modules["workload"]._REFERENCES.keys() == cases.keys()
    assert set(modules["workload"]._INPUTS) <= set(cases)
    assert modules["expected"].EXPECTED.keys() == cases.keys()
    strengths = names_in_sources(r"\nWHY_(?:STRENGTH|KINDS|RECORDS)\((\w+), ")
    launchers = names_in_sources(r"\nWHY_LAUNCHER\((\w+)\) \{")
    assert launchers | strengths == set(cases)
    kernels = names_in_sources(r"\n    (\w+)\((?:const )?\w+\* __restrict__")
    assert launchers - set(space.STRENGTH_CASES) <= kernels


def test_the_causes_and_parts_that_are_expected_exist(modules):
    expected = modules["expected"].EXPECTED.values()
    named = {cause for row in expected for cause in row.causes}
    assert named <= {*CAUSES, UNFUSED}
    parts = {part for row in expected for part in row.parts}
    stalls = {part.removeprefix(STALL) for part in parts if part.startswith(STALL)}
    by_unit = {f"{reason}:{unit}" for reason in REASONS for unit in UNITS}
    assert stalls <= set(STALL_CAUSES) | by_unit
    kernels = {part.removeprefix(ONE_SIDED) for part in parts if part.startswith(ONE_SIDED)}
    assert kernels <= names_in_sources(r"\n    (\w+)\(const \w+\* __restrict__")
    assert {part for part in parts if not part.startswith((STALL, ONE_SIDED))} <= {
        INSTRUCTIONS,
        WARPS,
        IMBALANCE,
    }


def document(cause, part):
    return {
        "account": {
            "difference_ns": 10_000.0,
            "parts": [
                {"name": "clock", "ns": -900.0, "share_pct": -9.0},
                {"name": part, "ns": 9_900.0, "share_pct": 99.0},
                {"name": "stall:selected", "ns": 1_000.0, "share_pct": 10.0},
            ],
        },
        "tree": {"causes": [{"name": cause, "share_pct": 80.0}, {"name": "other"}]},
    }


NO_SLOWER = {"chain_of_4", "records_of_2", "hot_lines"}
"""Cases whose mistake costs nothing that shows: nothing is asked of what is said of them."""

SECOND = {"sectors_in_turn", "block_sizes"}
"""Cases in which something that the plain kernel has too costs more than the mistake."""

IN_PLAIN = {"waited_products"}
"""Cases whose plain kernel does some of the same, and no other case has one that does not."""

RESIDUALS = {"records_of_4": 0.075}
"""Largest part of a launch that its account leaves open; this one was explained at a lower clock
than that of the others."""


@pytest.mark.parametrize(
    ("recording", "attribute"),
    [
        ("recording", "CASES"),
        ("more_recording", "MORE_CASES"),
        ("further_recording", "FURTHER_CASES"),
        pytest.param("strengths_recording", "STRENGTHS", marks=only_with_everything),
    ],
)
def test_a_recording_names_every_planted_cause_first(modules, recording, attribute):
    cases = set(getattr(modules["space"], attribute))
    findings = findings_of_recording(FOLDER / f"{recording}.zip")
    score, whole = modules["score"], modules["space"].WHOLE
    assert set(score.cases_of(FOLDER / f"{recording}.zip")) == cases
    in_both = modules["expected"].SUPERSEDED.keys() | IN_PLAIN
    for case in sorted(cases):
        planted = score.planted_cells(findings, case)[-1]
        if score.strength_of(planted) < whole:
            continue
        plain = next(
            cell
            for cell in findings.programs.cells
            if cell.problem.name == case and cell.variant.label == "plain"
        )
        scored = score.score(case, *score.explain(findings, planted))
        assert (scored.slowdown_ns is None) == (case in NO_SLOWER), case
        if scored.slowdown_ns is None:
            continue
        pair = pair_why(findings, find_why(findings).cells, planted, plain)
        assert scored.cause_first == (case not in SECOND), (case, scored.cause)
        assert (scored.of_plain is not None) == (case in in_both), case
        assert scored.part_right, (case, scored.part)
        assert pair.account.residual < RESIDUALS.get(case, 0.05), case


def test_what_is_said_of_estimates_is_what_the_planted_kernels_show(modules, monkeypatch):
    score = modules["score"]
    # Other tests have read and found them.
    monkeypatch.setattr(score, "read_run", lambda run: run.archive)
    monkeypatch.setattr(score, "find", findings_of_recording)
    scores = [row for recording in score.RECORDINGS for row in score.scores_of(recording)]
    assert score.calibration(scores) == dict(PLANTED)
    assert score.meets_bar(scores)


def test_the_loop_accepts_the_fix_of_the_cause_that_is_named_and_no_other(modules):
    loop, recorded = modules["loop"], modules["loop"].Recorded()
    (question,) = recorded.planted(["tail_wave"])
    cause = loop.first_cause(question.answer())
    assert cause == "tail_wave"
    right, wrong = recorded.fixed([loop.Fix("tail_wave", cause), loop.Fix("tail_wave", "fp64")])
    assert loop.verdict(right.answer())["verdict"] == "faster"
    assert loop.verdict(wrong.answer()) is None


def test_what_the_loop_measures_is_each_kernel_with_its_own_fix(modules, monkeypatch, tmp_path):
    loop, specs = modules["loop"], []

    def written(request, _):
        specs.append(load_spec(request.spec, overrides=request.overrides))
        return SimpleNamespace(folder=tmp_path)

    monkeypatch.setattr(loop, "written_run", written)
    fixes = [loop.Fix(case, "tail_wave") for case in ("tail_wave", "block_imbalance")]
    live = loop.Live(tmp_path)
    live.planted(loop.LOOP_CASES)
    live.fixed(fixes)
    planted, fixed = (make_plan(spec, space_of(spec)) for spec in specs)
    assert [cell.problem.name for cell in planted.cells] == list(loop.LOOP_CASES)
    assert [cell.id for cell in fixed.cells] == [
        cell
        for case in ("tail_wave", "block_imbalance")
        for cell in (f"planted..{case}", f"{case}-tail_wave..{case}")
    ]
    recipes = [modules["space"].recipe(fix.params) for fix in fixes]
    assert [recipe.defines["PLANTED"] for recipe in recipes] == [0, 1]
    assert {source.name for source in recipes[0].sources} == {"grid.cu", "memory.cu"}
    for case in loop.LOOP_CASES:
        assert modules["space"].recipe(loop.Fix(case, "fp64").params).sources


MORE_SOURCES = ("accumulate", "fetch", "launch", "pipes", "strangers", "told_apart", "waiting")
LOCAL_ARRAY_BYTES = 16 * 4
SINE_BYTES = 32
"""Of the slow path of `sinf`, which is in the code whether it is taken or not."""
INSTRUCTION_CACHE_BYTES = 128 * 1024


@only_with_everything  # they are of a benchmark, whose recordings say what they cost
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_the_further_kernels_compile_with_their_mistake_alone(modules, tmp_path):
    recipes = {
        f"{source}{planted}": dataclasses.replace(
            modules["space"].recipe({"planted": planted}), sources=(FOLDER / f"{source}.cu",)
        )
        for source in MORE_SOURCES
        for planted in (0, 1)
    }
    codes = compile_device_code(recipes, "sm_90", tmp_path)
    kernels = [(name, kernel) for name, code in codes.items() for kernel in code.kernels]
    for name, kernel in kernels:
        assert kernel.spill_store_bytes == kernel.spill_load_bytes == 0, kernel
        in_memory = name == "accumulate1" and "local_arrays" in kernel.name
        of_sine = SINE_BYTES if "far_angles" in kernel.name else 0
        assert kernel.stack_bytes == (LOCAL_ARRAY_BYTES if in_memory else of_sine), kernel
    # The kernel of small_grid is the same with and without its mistake; its source has others, too.
    assert all(codes[f"{name}0"].text_hash != codes[f"{name}1"].text_hash for name in MORE_SOURCES)
    assert codes["fetch1"].text_bytes > 2 * INSTRUCTION_CACHE_BYTES
    assert codes["fetch0"].text_bytes < INSTRUCTION_CACHE_BYTES / 16


REGISTERS_OF_A_BLOCK = 65_536 // 128
"""Registers of a multiprocessor for each thread, were it to hold one block of 128."""


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_a_weaker_form_of_a_mistake_is_still_there(modules, tmp_path):
    """What the compiler could take away: values in registers or local memory, and spills."""
    recipes = {
        f"{source}{strength}": dataclasses.replace(
            modules["space"].recipe({"planted": 1, "strength": strength}),
            sources=(FOLDER / f"{source}.cu",),
        )
        for source, strengths in (("occupancy", (1, 2, 4, 8)), ("accumulate", (1,)))
        for strength in strengths
    }
    codes = compile_device_code(recipes, "sm_90", tmp_path)

    def kernel(code, name):
        return next(kernel for kernel in codes[code].kernels if name in kernel.name)

    assert kernel("accumulate1", "local_arrays").stack_bytes == LOCAL_ARRAY_BYTES
    blocks, spilled = {}, {}
    for strength in (1, 2, 4, 8):
        held = kernel(f"occupancy{strength}", "occupancy_registersIf").registers
        blocks[strength] = REGISTERS_OF_A_BLOCK // (-(-held // 8) * 8)
        spilled[strength] = kernel(f"occupancy{strength}", "register_spills").spill_store_bytes
    assert blocks == {1: 12, 2: 8, 4: 4, 8: 2}
    assert spilled == {1: 32, 2: 64, 4: 128, 8: 192}


OF_OTHER_SECTIONS = {
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "idc__request_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "lts__lts2xbar_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "lts__t_sectors.max.pct_of_peak_sustained_elapsed",
    "lts__xbar2lts_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sass__inst_executed_register_spilling",
    "sm__cycles_active.avg",
    "sm__cycles_active.max",
    "sm__cycles_elapsed.sum",
    "sm__inst_executed.avg.pct_of_peak_sustained_elapsed",
    "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_elapsed",
    "sm__maximum_warps_per_active_cycle_pct",
    "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "smsp__thread_inst_executed_per_inst_executed.ratio",
}
"""Counters of SpeedOfLight, Occupancy, SchedulerStats, WarpStateStats, SourceCounters and
WorkloadDistribution (ncu 2025.3.1) that causes read; each is in recordings that were made without
the section of tables. Those that begin with launch__ are of LaunchStats and Occupancy."""


def test_without_the_section_of_tables_every_cause_is_the_same():
    report = report_of("recording")
    capability = report.environment.compute_capability
    assert TABLES not in explain_sections(capability)
    assert TABLES in explain_sections("8.0")
    asked = {*explain_metrics(capability), *OF_OTHER_SECTIONS}
    kernels = [kernel for launches in report.details.profiles.values() for kernel in launches]
    assert len(kernels) >= 36
    for kernel in kernels:
        values = {
            name: value
            for name, value in kernel.values.items()
            if name in asked or name.startswith("launch__")
        }
        assert len(values) < len(kernel.values) / 2
        asked_for = dataclasses.replace(kernel, values=values)
        assert causes(asked_for) == causes(kernel)
        # Their text: since Python 3.13 a record that holds NaN is not equal to another.
        assert repr(roofs(asked_for, capability)) == repr(roofs(kernel, capability))
        assert kernel_time(asked_for) == kernel_time(kernel)


def test_a_launch_at_another_clock_than_those_that_were_timed_is_told():
    """The planted block_imbalance was explained at 1.13 GHz, and its account is of that launch."""
    findings = findings_of_recording(FOLDER / "recording.zip")
    cells = {(cell.problem.name, cell.variant.label): cell for cell in findings.programs.cells}
    off = [
        case
        for case in dict.fromkeys(case for case, _ in cells)
        if any(
            pair_why(
                findings, find_why(findings).cells, cells[case, "planted"], cells[case, "plain"]
            ).off_timing
        )
    ]
    assert off == ["uncoalesced_loads", "block_imbalance"]


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("nosuch", "nosuch: not a run folder"),
        (
            "experiments/recordings/softmax.zip",
            "a run of none of why.yaml, more.yaml, further.yaml, ",
        ),
    ],
)
def test_a_score_of_no_such_run_is_refused(modules, monkeypatch, capsys, run, message):
    monkeypatch.setattr(sys, "argv", ["score.py", str(FOLDER.parents[1] / run)])
    assert modules["score"].main() == 2
    assert message in capsys.readouterr().err


def test_a_score_counts_the_first_cause_and_the_part_that_adds_most(modules):
    score = modules["score"]
    planted = document("barrier_waits", "stall:barrier")
    other = document("other", "stall:wait")
    right = score.score("barrier_waits", planted, other, {"barrier_waits": 8_000.0})
    wrong = score.score("barrier_waits", other, {}, {"other": 8_000.0})
    nothing = score.score("barrier_waits", {}, {}, {})
    in_both = score.score("barrier_waits", planted, planted, {})
    weaker = score.score("barrier_waits", planted, other, {}, strength=2)
    assert (right.cause_right, right.part_right, right.slowdown_ns) == (True, True, 10_000.0)
    assert (right.ratio, nothing.ratio, wrong.ratio) == (0.8, None, None)
    planted["account"] |= {"duration_ns": 60_000.0, "timed_difference_ns": 5_000.0}
    planted["answer"] = {"duration_ns": 40_000.0}
    off_clock = score.score("barrier_waits", planted, other, {"barrier_waits": 6_000.0})
    assert off_clock.ratio == pytest.approx(0.8)
    planted["account"]["difference_ns"] = -10_000.0
    faster = score.score("barrier_waits", planted, other, {"barrier_waits": 6_000.0})
    assert (faster.slowdown_ns, faster.ratio, faster.counts) == (None, None, False)
    assert (right.counts, weaker.counts) == (True, False)
    assert "| barrier_waits, 2 of 8 |" in score.table([weaker])
    assert (in_both.cause_first, in_both.cause_right) == (True, False)
    assert (wrong.cause_right, wrong.part_right) == (False, False)
    assert (nothing.cause_right, nothing.part_right) == (False, False)
    assert score.meets_bar([right] * 18)
    assert not score.meets_bar([right] * 12 + [wrong] * 2)
    assert "| barrier_waits | no slower | - | no | - | - | no | - |" in score.table([nothing])
