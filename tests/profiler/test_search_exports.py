"""An experiment as T1, a run as T4, and a search replayed on both."""

import itertools
from pathlib import Path
from unittest.mock import Mock

import pytest
from recorded import report_of_recording

from profiler.commands.exporting import (
    ExportResultsRequest,
    ExportSpaceRequest,
    write_run_results,
    write_space,
)
from profiler.errors import ExitCode, UsageError
from profiler.findings.tuning_results import tuning_results
from profiler.search.t1 import read_t1
from profiler.search.t4 import read_t4

SPEC = """\
name: tiles
workload: {command: "true {x} {y} {n}"}
variants:
  list: [{name: other, params: {library: a}}]
  matrix: {x: [16, 32, 64], y: [1, 2, 4], z: [a, b]}
  exclude:
    - {name: large, when: {x: {min: 32}, y: 4}}
    - {name: odd, when: {x: 16, y: 1, z: b}}
problems: {list: [{name: small, params: {n: 1}}]}
baseline: other
"""


def test_the_space_of_an_experiment_has_its_variants_and_no_others(tmp_path, capsys):
    spec = tmp_path / "tiles.yaml"
    spec.write_text(SPEC)
    target = tmp_path / "tiles.T1.json"
    assert write_space(ExportSpaceRequest(spec, target)) is ExitCode.COMPLETE
    assert "Left out: 1 variants with other parameters." in capsys.readouterr().out
    assert write_space(ExportSpaceRequest(spec, Path("-"))) is ExitCode.COMPLETE
    printed = capsys.readouterr()
    assert printed.out == target.read_text()
    assert "Left out: 1 variants with other parameters." in printed.err
    space = read_t1(target).space
    combinations = itertools.product((16, 32, 64), (1, 2, 4), "ab")
    expected = {c for c in combinations if not (c[0] >= 32 and c[1] == 4) and c != (16, 1, "b")}
    params = [space.params(configuration) for configuration in range(len(space))]
    assert {tuple(p[key] for key in "xyz") for p in params} == expected


RECORDING = Path(__file__).parents[2] / "experiments/recordings/softmax.zip"


def test_a_run_is_written_as_t4(tmp_path, monkeypatch):
    report = report_of_recording(RECORDING)
    with pytest.raises(UsageError, match="holds one problem, and there are 12 of them"):
        tuning_results(report, None)
    with pytest.raises(UsageError, match="--problem none: there are columns=1024"):
        tuning_results(report, "none")
    monkeypatch.setattr("profiler.commands.report.read_run", lambda _: Mock(report=report))
    target = tmp_path / "softmax_T4.json.gz"
    monkeypatch.chdir(RECORDING.parents[2])  # by its name, and a problem without what all share
    request = ExportResultsRequest(Path("softmax"), target, "columns=1024,rows=512")
    with pytest.raises(UsageError, match="there are 4 of them: columns=1024,rows=512,"):
        tuning_results(report, "columns=1024")
    assert write_run_results(request) is ExitCode.COMPLETE
    results = read_t4(target)
    assert len(results) == 10
    assert len({frozenset(result.params) for result in results}) == 1
    assert all(0 < result.value_ms() < 1 for result in results)
