"""Metrics that an experiment file defines: what is read, what is measured, what comes out."""

import math

import pandas as pd
import pytest
from cell_statuses import status_of
from hypothesis import given
from hypothesis import strategies as st

from profiler.analyse.metric_values import add_experiment_metrics
from profiler.errors import SpecError
from profiler.kernels.arithmetic import ExpressionError
from profiler.model import Environment
from profiler.planning.plan import make_plan
from profiler.planning.space import space_of
from profiler.planning.spec import load_spec
from profiler.planning.spec.collect import OwnFormula, parse_formula

NAN = math.nan


def value(text, **columns):
    """Value of a formula for one sample."""
    samples = pd.DataFrame({"cell": ["a"], **{name: [number] for name, number in columns.items()}})
    status = status_of("a", flops=100.0)
    own = OwnFormula(name="own", formula=text).metric
    result = add_experiment_metrics(samples, [own], {"a": status}, Environment())
    return float(result["own"][0]) if "own" in result else NAN


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dram_read_bytes / flops", 0.5),
        ("-duration_ns + 2 * (dram_read_bytes - 10)", 60.0),
        ("duration_ns ** 2 / +4", 100.0),
        ("2 ** 3 ** 1 * duration_ns", 160.0),
        ("max(duration_ns, dram_read_bytes, 30)", 50.0),
        ("min(duration_ns, 1e1)", 10.0),
        ("duration_ns / (dram_read_bytes - 50)", NAN),
        ("(0 - duration_ns) ** 0.5", NAN),
        ("duration_ns ** 9999", NAN),
        ("max(duration_ns, cycles)", NAN),
        ("duration_ns + kernels", NAN),
    ],
)
def test_formulas_are_arithmetic_and_what_has_no_value_is_missing(text, expected):
    found = value(text, duration_ns=20.0, dram_read_bytes=50.0, cycles=NAN)
    assert found == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-" * 200 + "flops", "is nested deeper than 100 levels"),
        ("dram_read_byte / flops", "there is no metric 'dram_read_byte'; did you mean"),
        ("duration_ns +", "is no formula: "),
        ("", "is no formula: "),
        ("1 / 2", "names no metric"),
        ("abs(duration_ns)", "'abs(duration_ns)' is not arithmetic"),
        ("duration_ns.real", "'duration_ns.real' is not arithmetic"),
        ("duration_ns // 2", "'duration_ns // 2' is not arithmetic"),
        ("duration_ns if 1 else 2", "is not arithmetic"),
        ("max(duration_ns)", "max takes two values or more"),
        ("True * duration_ns", "'True' is not arithmetic"),
        ("1e999 * duration_ns", "is not arithmetic"),
        ("(" * 300 + "duration_ns" + ")" * 300, "characters"),
        ("__import__('os')", "is not arithmetic"),
    ],
)
def test_anything_else_is_refused(text, message):
    with pytest.raises(ExpressionError) as caught:
        parse_formula(text)
    assert message in str(caught.value)


@given(st.text(max_size=40))
def test_any_text_is_a_formula_or_refused(text):
    try:
        formula = parse_formula(text)
    except ExpressionError:
        return
    assert any(formula.quantities())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("dram_read_bytes / flops", "dram_read_bytes ÷ cell.flops"),
        ("(cycles + 1) ** 2 * 3", "(cycles + 1) ** 2 · 3"),
        ("(cycles ** 2) ** 3", "(cycles ** 2) ** 3"),
        ("max(cycles, 2) - 1", "max(cycles, 2) - 1"),
    ],
)
def test_a_formula_is_shown_as_it_is_computed(text, shown):
    label = OwnFormula(name="own", formula=text, unit="B/FLOP").metric
    assert label.definition == f"Defined by the experiment file: {shown}."
    assert label.unit == "B/FLOP"


def test_a_part_of_another_session_is_the_mean_of_the_cell():
    samples = pd.DataFrame(
        {
            "cell": ["a", "a", "a", "b", "b"],
            "duration_ns": [10.0, 20.0, 12.0, 5.0, 6.0],
            "cycles": [18.0, 36.0, NAN, 9.0, NAN],
            "dram_read_bytes": [NAN, NAN, 540.0, NAN, NAN],
        }
    )
    own = [
        OwnFormula(name="same", formula="dram_read_bytes / duration_ns").metric,
        OwnFormula(name="other", formula="dram_read_bytes / cycles").metric,
    ]
    result = add_experiment_metrics(samples, own, {}, Environment())
    # Both parts are in the counters' sample: the times of other samples are not used.
    assert result["same"].tolist() == pytest.approx([NAN, NAN, 45.0, NAN, NAN], nan_ok=True)
    assert result["other"].tolist() == pytest.approx([30.0, 15.0, 20.0, NAN, NAN], nan_ok=True)


SPEC = """\
name: own
workload: {command: ls}
variants: {list: [a, b]}
collect:
  metrics:
    - duration_ns
    - {name: bytes_per_flop, formula: "dram_read_bytes / flops", unit: B/FLOP}
    - bytes_per_cycle: "dram_read_bytes / cycles"
"""


def test_what_formulas_need_is_measured_and_they_are_shown_in_their_place(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(SPEC, encoding="utf-8")
    loaded = load_spec(path)
    collect = loaded.experiment.collect
    assert collect.shown_metrics == ("duration_ns", "bytes_per_flop", "bytes_per_cycle")
    assert [metric.unit for metric in collect.own_metrics] == ["B/FLOP", ""]
    plan = make_plan(loaded, space_of(loaded))
    measured = {name for session in plan.sessions for name in session.metrics}
    assert {"dram_read_bytes", "cycles", "duration_ns"} <= measured
    assert not {"flops", "bytes_per_flop"} & measured


@pytest.mark.parametrize(
    ("metrics", "line"),
    [
        ("- {name: x, formula: dram_read_byte / flops}", "7: collect.metrics[1].formula: there is"),
        ("- {name: cycles, formula: cycles / flops}", "7: collect.metrics[1].name: 'cycles' is a"),
        ("- {name: a b, formula: cycles / flops}", "7: collect.metrics[1].name: a parameter's"),
        ("- {name: x, formla: cycles / flops}", "did you mean 'formula'"),
        ("- {x: cycles}\n    - {x: duration_ns}", "'x' is in the list twice"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path, metrics, line):
    path = tmp_path / "own.yaml"
    head = SPEC.partition("    - {name")[0]
    path.write_text(f"{head}    {metrics}\n", encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert line in caught.value.message
