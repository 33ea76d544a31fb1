"""An experiment as T1, a run as T4 and in the formats of others, each read by its own reader."""

import itertools
import json
import zipfile
from pathlib import Path
from typing import get_args
from unittest.mock import Mock

import jsonschema
import numpy as np
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from recorded import findings_of_recording, report_of_recording

from profiler.commands.exporting import block_durations_ms, export, tuning_results, write_figures
from profiler.commands.requests import ExportFormat, ExportRequest, FiguresRequest
from profiler.errors import ExitCode, UsageError
from profiler.exports.formats import openmetrics_lines
from profiler.history.answers import Answer, HistoryRun, answers_of_records
from profiler.search.t1 import read_t1
from profiler.search.t4 import read_t4

SPEC = """\
name: tiles
workload: {command: "true {n}"}
variants:
  list: [{name: other, params: {library: a}}]
  matrix: {x: [16, 32, 64], y: [1, 2, 4], z: [a, b]}
  exclude:
    - {name: large, when: {x: {min: 32}, y: 4}}
    - {name: odd, when: {x: 16, y: 1, z: b}}
problems: {list: [{name: small, params: {n: 1}}]}
exclude: [{name: none for it, when: {x: 64, z: b}}]
baseline: other
"""


def test_the_space_of_an_experiment_has_its_variants_and_no_others(tmp_path, capsys):
    spec = tmp_path / "tiles.yaml"
    spec.write_text(SPEC)
    target = tmp_path / "tiles.T1.json"
    assert export(ExportRequest(spec, "t1", target)) is ExitCode.COMPLETE
    assert "Left out: 1 variant with other parameters." in capsys.readouterr().out
    assert export(ExportRequest(spec, "t1")) is ExitCode.COMPLETE
    printed = capsys.readouterr()
    assert printed.out == target.read_text()
    assert "Left out: 1 variant with other parameters." in printed.err
    space = read_t1(target).space
    combinations = itertools.product((16, 32, 64), (1, 2, 4), "ab")
    expected = {c for c in combinations if not (c[0] >= 32 and c[1] == 4) and c != (16, 1, "b")}
    expected -= {(64, y, "b") for y in (1, 2, 4)}  # no problem is measured with them
    params = [space.params(configuration) for configuration in range(len(space))]
    assert {tuple(p[key] for key in "xyz") for p in params} == expected


RECORDING = Path(__file__).parents[2] / "experiments/recordings/softmax.zip"


def test_a_run_is_written_as_t4(tmp_path, monkeypatch, capsys):
    report = report_of_recording(RECORDING)
    with pytest.raises(UsageError, match="holds one problem, and there are 12 of them"):
        tuning_results(report, None)
    with pytest.raises(UsageError, match="--problem none: there are columns=1024"):
        tuning_results(report, "none")
    monkeypatch.setattr("profiler.commands.exporting.read_run", lambda _: report)
    target = tmp_path / "softmax_T4.json.gz"
    monkeypatch.chdir(RECORDING.parents[2])  # by its name, and a problem without what all share
    request = ExportRequest(Path("softmax"), "t4", target, "columns=1024,rows=512")
    with pytest.raises(UsageError, match="there are 4 of them: columns=1024,rows=512,"):
        tuning_results(report, "columns=1024")
    assert export(request) is ExitCode.COMPLETE
    assert "Left out: 20 variants with other parameters." in capsys.readouterr().out
    results = read_t4(target)
    assert len(results) == 10
    assert len({frozenset(result.params) for result in results}) == 1
    assert all(0 < result.value_ms() < 1 for result in results)


# ---- formats of others ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The recording in a format, as text."""
    findings = findings_of_recording(RECORDING)
    folder = tmp_path_factory.mktemp("exports")

    def text(form):
        target = folder / form
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("profiler.commands.exporting.read_run", Mock())
            patched.setattr("profiler.commands.exporting.find", lambda _: findings)
            assert export(ExportRequest(RECORDING, form, target)) is ExitCode.COMPLETE
        return target.read_text()

    return text


CELL = "naive-b256..columns=1024.rows=512.dtype=float16"
METRICS = {"duration_ns", "cycles", "registers"}


def median_of(cell):
    findings = findings_of_recording(RECORDING)
    cells = {planned.id: planned for planned in findings.programs.plan.cells}
    return findings.numbers.value(cells[cell], "duration_ns")


TEXTS = {"additionalProperties": {"type": "string"}, "type": "object"}
V3 = {
    "type": "object",
    "required": ["timestamp", "schema_version", "name", "runners", "benchmark", "model", "metric"],
    "properties": {
        "timestamp": {"type": "integer", "minimum": 1},
        "schema_version": {"const": "v3"},
        "runners": {"items": {"type": "object", "properties": {"extra_info": TEXTS}}},
        "benchmark": {"required": ["name", "dtype"], "properties": {"extra_info": TEXTS}},
        "model": {"required": ["name", "type"], "properties": {"extra_info": TEXTS}},
        "inputs": {"additionalProperties": {"properties": {"extra_info": TEXTS}}},
        "dependencies": {
            "additionalProperties": {
                "properties": {"version": {"type": "string"}, "extra_info": TEXTS}
            }
        },
        "metric": {
            "required": ["name", "benchmark_values"],
            "properties": {
                "name": {"type": "string"},
                "benchmark_values": {"items": {"type": "number"}, "minItems": 1},
                "extra_info": TEXTS,
            },
        },
    },
}
"""The table oss_ci_benchmark_v3 of pytorch/test-infra as a schema: its maps are of texts alone."""


def test_a_run_as_records_of_pytorchs_benchmark_database(exported):
    records = [json.loads(line) for line in exported("pytorch").splitlines()]
    validator = jsonschema.Draft202012Validator(V3)
    assert not [error for record in records for error in validator.iter_errors(record)]
    assert {record["metric"]["name"] for record in records} == METRICS
    (runs,) = {run.experiment: run for run in answers_of_records(records, "x")}.values()
    (record,) = (
        record
        for record in records
        if record["benchmark"]["extra_info"]["cell"] == CELL
        and record["metric"]["name"] == "duration_ns"
    )
    value = median_of(CELL)
    assert len(record["metric"]["benchmark_values"]) == value.n
    # What is written is read again as another tool's.
    read = {a.problem: a for a in runs.answers if a.variant == "naive-b256" and a.n > 1}
    problem = next(text for text in read if "1024 \u00d7 512 float16" in text)
    assert read[problem].value == value.median


def test_of_several_timers_the_first_is_exported():
    """Records and T4 files held what ncu, CUDA events and wall clock gave, in one list."""
    findings = findings_of_recording(RECORDING.with_name("timing_methods.zip"))
    times = block_durations_ms(findings.report)
    assert len(times) == 6
    for cell in findings.programs.plan.cells:
        number = findings.numbers.value(cell, "duration_ns")
        assert len(times[cell.id]) == 8
        assert 1e6 * np.median(times[cell.id]) == pytest.approx(number.median, rel=0.01)


def test_a_run_in_bencher_metric_format(exported):
    number = {"type": "number"}
    ends = dict.fromkeys(("value", "lower_value", "upper_value"), number)
    metric = {"type": "object", "properties": ends, "required": ["value"]}
    measures = {"type": "object", "patternProperties": {".+": metric}}
    document = json.loads(exported("bencher"))
    jsonschema.validate(document, {"type": "object", "patternProperties": {".+": measures}})
    value = median_of(CELL)
    metrics = document["softmax / naive-b256 / 1024 \u00d7 512 float16"]
    assert set(metrics) == {"latency", "cycles", "registers"}
    assert metrics["latency"] == {
        "value": value.median,
        "lower_value": value.low,
        "upper_value": value.high,
    }


def test_a_run_as_openmetrics(exported):
    families = {
        family.name: family for family in text_string_to_metric_families(exported("openmetrics"))
    }
    assert families["profiler_run"].samples[0].labels["experiment"] == "softmax"
    (sample,) = (
        sample
        for sample in families["profiler_duration_seconds"].samples
        if sample.labels["cell"] == CELL
    )
    assert sample.value == pytest.approx(median_of(CELL).median / 1e9)
    assert families["profiler_duration_seconds"].unit == "seconds"
    assert families["profiler_duration_to_baseline_ratio"].samples


def test_a_run_in_which_nothing_was_measured(tmp_path, capsys):
    run = tmp_path / "softmax"
    with zipfile.ZipFile(RECORDING) as archive:
        archive.extractall(run, [n for n in archive.namelist() if not n.startswith("raw/")])
    others = set(get_args(ExportFormat)) - {"t1", "t4"}
    for form in others:
        assert export(ExportRequest(run, form)) is ExitCode.COMPLETE
    assert capsys.readouterr().err.count(": 0 cells") == len(others)
    with pytest.raises(UsageError, match="No variant was measured at"):
        export(ExportRequest(run, "t4", problem="columns=1024,rows=512"))
    with pytest.raises(UsageError, match=r"measured of the metric duration_ns\.$"):
        write_figures(FiguresRequest(run, out=tmp_path))


def test_names_in_openmetrics_are_escaped():
    name = 'a "b" \\ c\nd'
    answer = Answer("c", name, "p", "my.metric", 1.0, None, None, 1, *(None,) * 5)
    facts = ("r", name, "2026-11-28T00:00:00+00:00", "run", "m", "", "", None, "x", {})
    run = HistoryRun(*facts, answers=(answer,))
    text = "".join(openmetrics_lines(run))
    _, family = text_string_to_metric_families(text)
    assert family.name == "profiler_my_metric"
    assert family.samples[0].labels["variant"] == name


def test_only_a_tuning_has_one_problem():
    with pytest.raises(UsageError, match="only with --format t4"):
        export(ExportRequest(RECORDING, "bencher", problem="x"))
