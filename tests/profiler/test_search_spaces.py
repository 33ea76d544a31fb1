"""Search spaces, T1 and T4: what is read, what is refused, and round trips."""

import gzip
import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.errors import ParseError, UsageError
from profiler.kernels.arithmetic import ExpressionError, parse
from profiler.search.space import Parameter, SearchSpace, constrained_space, derived_conditions
from profiler.search.t1 import parse_values, read_t1, t1_document
from profiler.search.t4 import RecordedResult, read_t4, t4_document

T1 = {
    "General": {"BenchmarkName": "tile"},
    "ConfigurationSpace": {
        "TuningParameters": [
            {"Name": "x", "Type": "int", "Values": "[16, 32] + list(range(64, 129, 64))"},
            {"Name": "y", "Type": "int", "Values": "[2**i for i in range(0, 4)]"},
            {"Name": "layout", "Type": "string", "Values": "['row', 'column']"},
            {"Name": "fixed", "Type": "int", "Values": "[7]"},
        ],
        "Conditions": [
            {"Expression": "32 <= x * y <= 256", "Parameters": ["x", "y"]},
            {"Expression": "layout == 'row' or y in [1, 2]", "Parameters": ["layout", "y"]},
        ],
    },
    "KernelSpecification": {},
}


def write_t1(path, **changes):
    document = json.loads(json.dumps(T1))
    document["ConfigurationSpace"] |= changes
    path.write_text(json.dumps(document))
    return path


def params_of(space):
    return [space.params(configuration) for configuration in range(len(space))]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("[1, 2.5, 'a', True, None]", (1, 2.5, "a", True, None)),
        ("(1, -2)", (1, -2)),
        ("list(range(1, 4)) + [8]", (1, 2, 3, 8)),
        ("range(4)", (0, 1, 2, 3)),
        ("[i * 2 for i in range(6) if i % 2 == 0]", (0, 4, 8)),
    ],
)
def test_lists_of_values(text, values):
    assert parse_values(text) == values


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "[",
        "7",
        "range(10**9)",
        "range(1, 2, 0)",
        "[__import__('os')]",
        "[x for y in [1]]",
        "[i for i in range(10) for j in range(10)]",
        "[[1]]",
        "[9**9**9]",
        "[1," * 40_000,
        "(" * 500,
    ],
)
def test_what_is_no_list_of_values_is_refused(text):
    with pytest.raises(ExpressionError):
        parse_values(text)


def test_a_t1_file_gives_its_valid_configurations_and_no_others(tmp_path):
    problem = read_t1(write_t1(tmp_path / "tile.T1.json"))
    every = itertools.product((16, 32, 64, 128), (1, 2, 4, 8), ("row", "column"))
    valid = {
        (x, y, layout)
        for x, y, layout in every
        if 32 <= x * y <= 256 and (layout == "row" or y in {1, 2})
    }
    assert problem.name == "tile"
    assert {(p["x"], p["y"], p["layout"]) for p in params_of(problem.space)} == valid


def test_neighbours_differ_in_one_parameter_and_are_valid(tmp_path):
    space = read_t1(write_t1(tmp_path / "tile.T1.json")).space
    for configuration in range(len(space)):
        differences = [
            sum(
                a != b
                for a, b in zip(left.values(), space.params(configuration).values(), strict=True)
            )
            for left in params_of(space)
        ]
        expected = [i for i, difference in enumerate(differences) if difference == 1]
        assert sorted(space.neighbours(configuration).tolist()) == expected


def test_true_and_one_are_two_values_and_nothing_else_is_found():
    space = SearchSpace.of_configurations([{"a": True}, {"a": 1}])
    assert len(space) == 2
    assert space.find({"a": True}) != space.find({"a": 1.0})
    assert space.find({"a": False}) is None
    assert space.find({"b": 1}) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"TuningParameters": []}, "there may be 1 to 200"),
        ({"TuningParameters": [{"Name": "x", "Values": "os.listdir()"}]}, "no list of values"),
        ({"TuningParameters": [{"Name": "x", "Values": 7}]}, "a list is missing"),
        ({"TuningParameters": [{"Values": "[1]"}]}, "Name: a text is missing"),
        ({"TuningParameters": [{"Name": "x", "Values": "[1]"}] * 2}, "stands there twice"),
        ({"Conditions": [{"Expression": "z > 1"}]}, "there is no parameter 'z'"),
        ({"Conditions": [{"Expression": "x > 1000"}]}, "no combination of values meets"),
        ({"Conditions": [{"Expression": "x % 0 == 1"}]}, "divides by zero"),
        ({"Conditions": [{"Expression": "x.__class__"}]}, "is no arithmetic"),
        ({"Conditions": [{"Expression": "exit()"}]}, "no function 'exit'"),
        ({"Conditions": "x"}, "a list is missing"),
    ],
)
def test_a_hostile_t1_file_is_refused_by_name(tmp_path, changes, message):
    path = write_t1(tmp_path / "bad.T1.json", **changes)
    with pytest.raises(ParseError, match=message) as error:
        read_t1(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("content", [b"", b"[" * 100_000, b'{"a": NaN}', b"\xff\xfe", b"[1]"])
def test_what_is_no_t1_or_t4_is_refused(tmp_path, content):
    path = tmp_path / "file.json"
    path.write_bytes(content)
    for read in (read_t1, read_t4):
        with pytest.raises(ParseError, match=r"file\.json"):
            read(path)


def test_a_packed_file_without_end_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "large_T4.json.gz"
    path.write_bytes(gzip.compress(b" " * 10_000))
    monkeypatch.setattr("profiler.search.t4.MAX_BYTES", 1000)
    with pytest.raises(ParseError, match="more than 1000 bytes"):
        read_t4(path)


def test_a_space_beyond_the_limits_is_refused_before_it_fills_the_memory():
    parameters = [Parameter.of(f"p{i}", range(100)) for i in range(5)]
    with pytest.raises(ParseError, match="MAX_PARTIAL"):
        constrained_space(parameters, [])


def test_a_space_round_trips_through_t1(tmp_path):
    problem = read_t1(write_t1(tmp_path / "tile.T1.json"))
    path = tmp_path / "again.T1.json"
    path.write_text(json.dumps(t1_document(problem)))
    again = read_t1(path)
    assert again.conditions == problem.conditions
    assert params_of(again.space) == params_of(problem.space)


@settings(max_examples=30, deadline=None)
@given(st.sets(st.tuples(*(st.integers(0, 2),) * 4), min_size=1, max_size=60))
def test_derived_conditions_hold_for_these_configurations_and_no_others(rows):
    space = SearchSpace.of_configurations(
        [dict(zip("abcd", row, strict=True)) for row in sorted(rows)]
    )
    conditions = [parse(text) for text in derived_conditions(space)]
    again = constrained_space(space.parameters, conditions)
    assert np.array_equal(again.codes, space.codes)


def test_configurations_with_other_parameters_are_no_space():
    with pytest.raises(UsageError, match="same parameters in every configuration: b"):
        SearchSpace.of_configurations([{"a": 1}, {"a": 1, "b": 2}])


RESULTS = (
    RecordedResult({"x": 16, "layout": "row"}, runtimes_ms=(9.0, 1.0, 2.0), compile_ms=3.5),
    RecordedResult({"x": 32, "layout": "row"}, invalidity="compile"),
    RecordedResult({"x": 32, "layout": "column"}, invalidity="timeout"),
)


@pytest.mark.parametrize("name", ["r_T4.json", "r_T4.json.gz"])
def test_results_round_trip_through_t4(tmp_path, name):
    path = tmp_path / name
    content = json.dumps(t4_document(RESULTS)).encode()
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    results = read_t4(path)
    assert [result.params for result in results] == [result.params for result in RESULTS]
    assert [result.invalidity for result in results] == ["correct", "compile", "timeout"]
    assert [result.value_ms() for result in results] == [2.0, None, None]
    assert results[0].value_ms("mean") == 4.0
    assert results[0].compile_ms == 3.5


def test_a_t4_file_as_the_hub_writes_it(tmp_path):
    failed = {
        "configuration": {"x": 2},
        "times": {"compilation_time": 918.6},
        "invalidity": "runtime",
        "correctness": 0,
        "measurements": [{"name": "time", "value": "RuntimeFailedConfig"}],
    }
    only_objective = {
        "configuration": {"x": 1},
        "times": {},
        "invalidity": "correct",
        "correctness": 1,
        "measurements": [{"name": "GFLOP/s", "value": 3}, {"name": "time", "value": 2}],
        "objectives": ["time"],
    }
    path = tmp_path / "hub_T4.json"
    document = {"metadata": {"timeunit": "seconds"}, "results": [failed, only_objective]}
    path.write_text(json.dumps(document))
    first, second = read_t4(path)
    assert first.value_ms() is None
    assert first.compile_ms == 918_600
    assert second.value_ms() == 2000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"configuration": None}, "configuration: an object is missing"),
        ({"configuration": {"x": [1]}}, "neither number nor text"),
        ({"times": {"runtimes": [-1]}}, "positive numbers"),
        ({"times": {"runtimes": ["1"]}}, "positive numbers"),
        ({"times": {"runtimes": [10**400]}}, "positive numbers"),
        ({"times": {"runtimes": []}}, "called correct, and has no time"),
        ({"invalidity": "fine"}, "invalidity"),
    ],
)
def test_a_hostile_result_is_refused_by_name(tmp_path, changes, message):
    result = {"configuration": {"x": 1}, "times": {"runtimes": [1.0]}, "invalidity": "correct"}
    path = tmp_path / "bad_T4.json"
    path.write_text(json.dumps({"results": [result | changes]}))
    with pytest.raises(ParseError, match=message):
        read_t4(path)


@pytest.mark.parametrize(
    ("name", "unit", "value_ms"),
    [
        ("time", {}, 3000.0),  # in the unit of the file
        ("time", {"unit": ""}, 3000.0),
        ("time", {"unit": "us"}, 0.003),
        ("duration", {"unit": "milliseconds"}, 3.0),
    ],
)
def test_the_unit_of_a_measurement_is_its_own(tmp_path, name, unit, value_ms):
    result = {
        "configuration": {"x": 1},
        "invalidity": "correct",
        "measurements": [{"name": name, "value": 3, **unit}],
        "objectives": [name],
    }
    path = tmp_path / "r_T4.json"
    path.write_text(json.dumps({"metadata": {"timeunit": "s"}, "results": [result]}))
    (recorded,) = read_t4(path)
    assert recorded.value_ms() == pytest.approx(value_ms)


@pytest.mark.parametrize("unit", [{"unit": "GFLOP/s"}, {"unit": "J"}, {}])
def test_an_objective_that_is_no_time_is_refused_where_it_would_be_used(tmp_path, unit):
    result = {
        "configuration": {"x": 1},
        "invalidity": "correct",
        "measurements": [{"name": "score", "value": 900, **unit}],
        "objectives": ["score"],
    }
    path = tmp_path / "r_T4.json"
    path.write_text(json.dumps({"results": [result]}))
    with pytest.raises(
        ParseError, match=r"results\[0\].measurements: the objective 'score' .*no time"
    ):
        read_t4(path)
    path.write_text(json.dumps({"results": [result | {"times": {"runtimes": [2.0]}}]}))
    assert read_t4(path)[0].value_ms() == 2.0


def test_a_condition_that_is_no_arithmetic_is_named_by_its_place(tmp_path):
    path = tmp_path / "x.T1.json"
    conditions = [{"Expression": "x > 1"}, {"Expression": "int(x / 2) > 0"}]
    parameters = [{"Name": "x", "Values": "[1, 2]"}]
    section = {"TuningParameters": parameters, "Conditions": conditions}
    path.write_text(json.dumps({"ConfigurationSpace": section}))
    with pytest.raises(
        ParseError, match=r"Conditions\[1\] 'int\(x / 2\) > 0': no function"
    ) as error:
        read_t1(path)
    assert "min and max" not in error.value.message
    assert "in [1, 2]" in error.value.remedy
