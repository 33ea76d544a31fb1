"""What a reader must know first, as typed notices."""

from types import SimpleNamespace

import pandas as pd
import pytest
from analyse_frames import make_cell, samples_of
from cell_statuses import with_facts

from profiler.analyse.judge import Judge, Rules, visit_times
from profiler.findings.caveats import caveats
from profiler.model import (
    FEWEST_BLOCKS,
    BuildResult,
    Cell,
    CellStatus,
    Environment,
    Outcome,
    Plan,
    Problem,
    SessionKind,
    SessionPlan,
    TunedConfig,
    Variant,
)
from profiler.notices import Notice, NoticeKind, text

CELLS = tuple(make_cell(variant, problem) for problem in ("p", "q") for variant in ("a", "b", "c"))
ENOUGH = [1.0] * FEWEST_BLOCKS


@pytest.fixture
def found():
    """Notices by kind; every cell is measured often enough unless something else is said."""

    def find(
        outcomes=(),
        samples=None,
        *,
        builds=(),
        baseline=None,
        environment=None,
        cells=CELLS,
        lacking=(),
        dtypes=(),
        errors=(),
        declared_and_written=(),
        tuned_otherwise=(),
        drawn=(),
        recompiled=False,
        delta=0.01,
    ):
        statuses = {cell.id: CellStatus(cell.id, Outcome.MEASURED) for cell in cells}
        statuses |= {cell: CellStatus(cell, outcome) for cell, outcome in dict(outcomes).items()}
        statuses |= {
            cell: CellStatus(cell, Outcome.MEASURED, missing_metrics=names)
            for cell, names in dict(lacking).items()
        }
        statuses |= {
            cell: with_facts(statuses[cell], result_dtypes=names)
            for cell, names in dict(dtypes).items()
        }
        statuses |= {
            cell: with_facts(statuses[cell], max_abs_error=error)
            for cell, error in dict(errors).items()
        }
        statuses |= {
            cell: with_facts(statuses[cell], bytes=declared, written_bytes=written)
            for cell, (declared, written) in dict(declared_and_written).items()
        }
        statuses |= {
            cell: with_facts(
                statuses[cell], tried=(TunedConfig("op", ""),), other_sessions=sessions
            )
            for cell, sessions in dict(tuned_otherwise).items()
        }
        statuses |= {
            cell: with_facts(statuses[cell], tried=(TunedConfig("op", ""),) * tried)
            for cell, tried in dict(drawn).items()
        }
        if samples is None:
            samples = samples_of({c.id: ENOUGH for c in cells})
        timing, final = (
            Judge(visit_times(samples, cells, kind), baseline, Rules(delta=delta))
            for kind in (SessionKind.TIMING, SessionKind.FINAL)
        )
        session = SessionPlan("timing", "ncu", SessionKind.TIMING, (), (), recompiles=recompiled)
        report = SimpleNamespace(
            plan=Plan("e", 0, tuple(cells), (), (session,), baseline),
            statuses=statuses,
            builds=builds,
            measured=SimpleNamespace(samples=samples),
            environment=environment or Environment(),
        )
        notices = caveats(report, (timing, final))
        assert all(text(notice) for notice in notices)
        by_kind = {notice.kind: notice.values for notice in notices}
        assert len(by_kind) == len(notices)
        return by_kind

    return find


def twice(times, *, again=None, **kind):
    """Samples of all cells, in which the baseline `a` is a second time in every block."""
    own = {cell.id: times for cell in CELLS if cell.variant.id == "a"}
    others = {cell.id: times for cell in CELLS if cell.variant.id != "a"}
    second = dict.fromkeys(own, times if again is None else again)
    return pd.concat(
        [samples_of({**own, **others}, **kind), samples_of(second, arm=1, **kind)],
        ignore_index=True,
    )


def test_nothing_to_say(found):
    assert found(baseline="a", samples=twice(ENOUGH)) == {}


def test_results_of_another_type_than_the_baselines_are_said_once(found):
    half, single = ("float16",), ("float32",)
    dtypes = {"a..p": single, "b..p": half, "c..p": single, "a..q": half, "b..q": half}
    notices = found(baseline="a", samples=twice(ENOUGH), dtypes={**dtypes, "c..q": single})
    assert notices == {
        NoticeKind.RESULTS_OF_OTHER_TYPES: {
            "results": "float16 instead of float32 (b); float32 instead of float16 (c)"
        }
    }
    several = {"a..p": ("float32", "int64"), "b..p": ("float32", "int32")}
    notices = found(baseline="a", samples=twice(ENOUGH), dtypes=several)
    assert notices[NoticeKind.RESULTS_OF_OTHER_TYPES]["results"] == (
        "float32, int32 instead of float32, int64 (b)"
    )
    # Runs of before this was recorded, and what was measured without a check.
    assert found(baseline="a", samples=twice(ENOUGH), dtypes={"b..p": half}) == {}
    wrong = found({"b..p": Outcome.WRONG_RESULT}, dtypes=dtypes, baseline="a")
    assert NoticeKind.RESULTS_OF_OTHER_TYPES not in wrong


def test_fewer_bytes_than_every_variant_writes_are_said(found):
    amounts = {"a..p": (8e-6, 4000.0), "b..p": (8e-6, 4400.0), "a..q": (8e3, 8e3)}
    notices = found(baseline="a", samples=twice(ENOUGH), declared_and_written=amounts)
    values = {"declared": "8e-06", "written": "4,000", "first": "p", "count": 1, "problems": 2}
    assert notices == {NoticeKind.BYTES_TOO_FEW: values}
    several = {**amounts, "c..p": (8e-6, 0.0)}  # its result is a view
    assert found(baseline="a", samples=twice(ENOUGH), declared_and_written=several) == {}


def test_variants_whose_errors_are_those_of_a_narrower_type_are_said(found):
    errors = {"a..p": 1e-6, "b..p": 2.5e-4, "c..p": 8e-3, "a..q": 1e-3, "b..q": 2e-2, "c..q": 5e-3}
    types = {cell: ("float32",) if cell.endswith("p") else ("bfloat16",) for cell in errors}
    notices = found(baseline="a", samples=twice(ENOUGH), errors=errors, dtypes=types)
    assert notices == {NoticeKind.LESS_EXACT: {"variants": "c, b", "factor": "8,000"}}
    exact = {**errors, "a..p": 0.0, "a..q": None}
    assert found(baseline="a", samples=twice(ENOUGH), errors=exact, dtypes=types) == {}


def test_sessions_that_ran_another_choice_of_the_autotuner_are_said(found):
    otherwise = {"a..p": ("ncu-counters",), "b..q": ("ncu-counters", "ncu-explain"), "c..p": ()}
    notices = found(baseline="a", samples=twice(ENOUGH), tuned_otherwise=otherwise)
    assert notices == {
        NoticeKind.TUNED_OTHERWISE: {
            "count": 2,
            "total": 3,
            "sessions": "ncu-counters, ncu-explain",
            "cells": "a at p, b at q",
        }
    }


def test_without_a_second_arm_the_noise_floor_is_not_known(found):
    values = {"problems": "both problems", "margin": "1.00\u202f%"}
    assert found(baseline="a") == {NoticeKind.NOISE_FLOOR_UNKNOWN: values}
    samples = twice(ENOUGH)
    lacking = samples[(samples["arm"] == 0) | (samples["cell"] != "a..q")]
    notices = found(baseline="a", samples=lacking)
    assert notices[NoticeKind.NOISE_FLOOR_UNKNOWN]["problems"] == "q"


def test_a_noise_floor_is_no_question_where_nothing_is_compared(found):
    alone = tuple(cell for cell in CELLS if cell.variant.id == "a")
    assert found(baseline="a", cells=alone) == {}
    few = samples_of({cell.id: ENOUGH[:-1] for cell in CELLS})
    values = {"blocks": FEWEST_BLOCKS - 1, "needed": 7}
    assert found(baseline="a", samples=few) == {NoticeKind.FEW_BLOCKS: values}


def test_a_noise_floor_above_the_margin_says_what_cannot_be_seen(found):
    samples = twice(ENOUGH, again=[1.03] * FEWEST_BLOCKS)
    notices = found(baseline="a", samples=samples)
    values = notices[NoticeKind.NOISE_FLOOR_ABOVE_MARGIN]
    assert values == {
        "floor": "3.00\u202f%",
        "margin": "1.00\u202f%",
        "most": ", most at p",
        "problems": "both problems",
    }
    assert found(baseline="a", samples=samples, delta=0.05) == {}


@pytest.mark.parametrize("factor", [1.02, 0.98])
def test_a_baseline_that_shifted_before_the_final_is_told(found, factor):
    finals = twice([factor] * FEWEST_BLOCKS, kind="final")
    samples = pd.concat([twice(ENOUGH), finals], ignore_index=True)
    values = found(baseline="a", samples=samples)[NoticeKind.BASELINE_SHIFTED]
    assert values["shift"] == f"{100 * abs(factor - 1):.2f}\u202f%"
    assert values["longer"] == ("longer" if factor > 1 else "less time")
    assert values["margin"] == "1.00\u202f%"
    assert found(baseline="a", samples=samples, delta=0.05) == {}


def test_cells_that_an_autotuner_chose_among_several_are_one_draw(found):
    notices = found(
        {"c..p": Outcome.WRONG_RESULT}, drawn={"a..p": 2, "b..p": 1, "b..q": 3}, baseline="a"
    )
    assert notices[NoticeKind.ONE_DRAW] == {"count": 2}
    assert NoticeKind.ONE_DRAW not in found(drawn={"b..p": 1}, baseline="a")
    assert found(drawn={"a..p": 2}, recompiled=True) == {
        NoticeKind.DRAWS: {"count": 1, "blocks": len(ENOUGH)}
    }


def test_a_shift_of_a_failed_baseline_is_no_caveat(found):
    finals = twice([1.02] * FEWEST_BLOCKS, kind="final")
    samples = pd.concat([twice(ENOUGH), finals], ignore_index=True)
    outcomes = dict.fromkeys(("a..p", "a..q"), Outcome.WRONG_RESULT)
    assert NoticeKind.BASELINE_SHIFTED not in found(outcomes, baseline="a", samples=samples)


def test_failures_are_counted_by_their_cause(found):
    outcomes = {
        "a..p": Outcome.CRASHED,
        "b..p": Outcome.OUT_OF_MEMORY,
        "a..q": Outcome.OUT_OF_MEMORY,
        "b..q": Outcome.DUPLICATE,
        "c..q": Outcome.NOT_MEASURED,
    }
    assert found(outcomes)[NoticeKind.FAILED_CELLS] == {
        "count": 3,
        "total": 6,
        "causes": "2 out of memory, 1 crashed",
    }


def test_wrong_results_are_failures_with_names(found):
    outcomes = dict.fromkeys(("a..p", "b..q"), Outcome.WRONG_RESULT)
    notices = found(outcomes)
    assert notices[NoticeKind.WRONG_RESULTS] == {"count": 2, "cells": "a..p, b..q"}
    assert notices[NoticeKind.FAILED_CELLS]["count"] == 2


def test_a_long_list_of_names_is_cut(found):
    outcomes = dict.fromkeys([cell.id for cell in CELLS], Outcome.WRONG_RESULT)
    assert found(outcomes)[NoticeKind.WRONG_RESULTS] == {
        "count": 6,
        "cells": "a..p, b..p, c..p, a..q and 2 more",
    }


def test_what_was_not_measured_is_no_failure(found):
    notices = found({"a..p": Outcome.NOT_MEASURED})
    assert notices == {NoticeKind.NOT_MEASURED: {"count": 1, "total": 6}}


def test_missing_metrics_are_named_once(found):
    lacking = {"a..p": ("waves", "cycles"), "b..p": ("waves",)}
    assert found(lacking=lacking) == {
        NoticeKind.MISSING_METRICS: {"metrics": "waves, cycles", "count": 2}
    }


@pytest.mark.parametrize("blocks", [1, FEWEST_BLOCKS - 1, FEWEST_BLOCKS])
def test_few_blocks(found, blocks):
    samples = samples_of({cell.id: [1.0] * blocks for cell in CELLS})
    few = {NoticeKind.FEW_BLOCKS: {"blocks": blocks, "needed": 7}}
    assert found(samples=samples) == (few if blocks < FEWEST_BLOCKS else {})


def test_the_cell_with_the_fewest_blocks_counts_unless_it_failed(found):
    samples = samples_of({**{cell.id: ENOUGH for cell in CELLS}, "a..p": [1.0, 1.0]})
    assert found(samples=samples)[NoticeKind.FEW_BLOCKS]["blocks"] == 2
    assert NoticeKind.FEW_BLOCKS not in found({"a..p": Outcome.TIMED_OUT}, samples=samples)


def test_samples_of_counters_and_repeats_of_one_block_are_no_blocks(found):
    counters = samples_of({cell.id: [1.0] for cell in CELLS}, kind="counters")
    enough = samples_of({cell.id: ENOUGH for cell in CELLS})
    assert found(samples=pd.concat([enough, counters])) == {}
    one_block = enough.assign(repeat=enough["block"], block=0)
    assert found(samples=one_block)[NoticeKind.FEW_BLOCKS]["blocks"] == 1


def test_few_blocks_are_not_mentioned_where_there_is_no_sample(found):
    outcomes = dict.fromkeys([cell.id for cell in CELLS], Outcome.NOT_MEASURED)
    assert NoticeKind.FEW_BLOCKS not in found(
        outcomes, samples=samples_of({"a..p": [1.0]}).iloc[:0]
    )


def test_problems_without_a_usable_baseline_are_named(found):
    outcomes = {"a..q": Outcome.CRASHED, "b..p": Outcome.CRASHED}
    notices = found(outcomes, baseline="a")
    assert notices[NoticeKind.NO_BASELINE] == {"baseline": "a", "problems": "q"}
    assert NoticeKind.NO_BASELINE not in found(outcomes, baseline="c")
    assert NoticeKind.NO_BASELINE not in found({"a..q": Outcome.DUPLICATE}, baseline="a")
    assert NoticeKind.NO_BASELINE not in found(outcomes, baseline=None)


def test_a_baseline_that_a_problem_does_not_have(found):
    cells = tuple(cell for cell in CELLS if cell.id != "a..q")
    assert found(baseline="a", cells=cells)[NoticeKind.NO_BASELINE]["problems"] == "q"


@pytest.mark.parametrize(("control", "said"), [("none", True), ("base", False), (None, False)])
def test_unlocked_clocks(found, control, said):
    notices = found(environment=Environment(clock_control=control))
    assert (NoticeKind.UNLOCKED_CLOCKS in notices) == said


def test_variants_with_the_machine_code_of_another(found):
    builds = [
        BuildResult("a", ok=True, code_hash="1"),
        BuildResult("b", ok=True, code_hash="1", duplicate_of="a"),
        BuildResult("gone", ok=True, code_hash="1", duplicate_of="a"),
    ]
    assert found(builds=builds) == {
        NoticeKind.DUPLICATE_CODE: {"count": 2, "pairs": "b = a, gone = a"}
    }


def test_variants_whose_products_of_wgmma_wait_for_each_other(found):
    builds = [
        BuildResult("a", ok=True, serialized_wgmma="insufficient registers"),
        BuildResult("b", ok=True, serialized_wgmma="insufficient registers"),
        BuildResult("gone", ok=True, serialized_wgmma="insufficient registers", duplicate_of="a"),
        BuildResult("c", ok=True),
    ]
    assert found(builds=builds)[NoticeKind.SERIALIZED_WGMMA] == {
        "variants": "a, b",
        "reason": "insufficient registers",
    }


def test_what_costs_most_comes_first(found):
    outcomes = {"a..p": Outcome.WRONG_RESULT, "b..p": Outcome.NOT_MEASURED}
    samples = samples_of({"c..p": [1.0]})
    notices = found(outcomes, samples, baseline="a", environment=Environment(clock_control="none"))
    assert list(notices) == [
        *(NoticeKind.FAILED_CELLS, NoticeKind.WRONG_RESULTS, NoticeKind.NOT_MEASURED),
        *(NoticeKind.FEW_BLOCKS, NoticeKind.NO_BASELINE, NoticeKind.UNLOCKED_CLOCKS),
    ]


def test_what_a_workload_does_not_say_is_no_fault_of_a_tool(found):
    lacking = {"a..p": ("compile_s", "buffer_bytes"), "b..p": ("waves", "compile_s")}
    assert found(lacking=lacking) == {NoticeKind.MISSING_METRICS: {"metrics": "waves", "count": 1}}
    assert found(lacking={"a..p": ("compile_s",)}) == {}


def test_many_problems_are_counted_and_the_worst_is_named_in_short(found):
    sizes = ((8, 64), (16, 64), (32, 64), (64, 64), (128, 64), (256, 128))
    problems = [
        Problem(
            f"p{rows}",
            f"op=sum,rows={rows},columns={columns}",
            {"op": "sum", "rows": rows, "columns": columns},
        )
        for rows, columns in sizes
    ]
    variants = [Variant(name, name, {}) for name in ("a", "b")]
    cells = tuple(
        Cell(f"{one.id}..{other.id}", one, other) for other in problems for one in variants
    )
    strayed = {"a..p8": 1.0, "a..p256": 1.05}
    again = {
        cell.id: [strayed.get(cell.id, 1.02)] * FEWEST_BLOCKS
        for cell in cells
        if cell.variant.id == "a"
    }
    first = samples_of({cell.id: ENOUGH for cell in cells})
    samples = pd.concat([first, samples_of(again, arm=1)], ignore_index=True)
    values = found(baseline="a", cells=cells, samples=samples)[NoticeKind.NOISE_FLOOR_ABOVE_MARGIN]
    assert values["problems"] == "5 of 6 problems"
    assert values["most"] == ", most at 256 \u00d7 128"


def test_a_problem_without_any_measurement_lacks_more_than_the_baseline(found):
    outcomes = {cell.id: Outcome.NOT_MEASURED for cell in CELLS if cell.problem.id == "q"}
    notices = found(outcomes, baseline="a")
    assert NoticeKind.NOT_MEASURED in notices
    assert NoticeKind.NO_BASELINE not in notices


def test_clocks_that_differ_are_said_where_they_differ_most(found):
    """Same time, but b runs at 0.9 and c at 0.99 of the baseline's clock; at q no one counts."""
    cycles = {"a..p": 2000.0, "b..p": 1800.0, "c..p": 1980.0}
    counted = [
        samples_of({cell: ENOUGH}).assign(duration_ns=1000.0, cycles=value)
        for cell, value in cycles.items()
    ]
    samples = pd.concat([*counted, samples_of({"a..q": ENOUGH, "b..q": ENOUGH})])
    notices = found(samples=samples.reset_index(drop=True), baseline="a")
    words = text(Notice(NoticeKind.CLOCKS_DIFFER, notices[NoticeKind.CLOCKS_DIFFER]))
    assert "differs by more than 2 % from the baseline's in 1 of 2 comparisons" in words
    assert "most at b at p: 1.800 GHz against 2.000 GHz. Its ratio of cycles is 0.900" in words
