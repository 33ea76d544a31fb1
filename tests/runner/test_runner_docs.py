"""The example of docs/workloads.md runs as it stands there."""

import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import yaml

from profiler.planning.plan import make_plan
from profiler.planning.space import space_of
from profiler.planning.spec import load_spec
from profiler.runner.protocol import JobCell, JobVisit

PAGE = Path(__file__).parents[2] / "docs" / "workloads.md"


@pytest.fixture(scope="module")
def blocks():
    found = re.findall(r"```(python|yaml)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return [text for _, text in found]


def test_the_example_is_checked_and_measured(blocks, bench, tmp_path, select):
    workload, experiment = blocks[0], yaml.safe_load(blocks[1])
    (tmp_path / "mine.py").write_text(workload)
    methods = experiment["variants"]["matrix"]["method"]
    sizes = experiment["problems"]["matrix"]
    cells = tuple(
        JobCell(
            f"{method}..{rows}",
            method,
            {"method": method},
            f"{rows}",
            {"rows": rows, "columns": columns},
        )
        for rows, columns, method in product(sizes["rows"], sizes["columns"], methods)
    )
    job = replace(
        bench.job([]),
        workload=str(tmp_path / "mine.py"),
        cells=cells,
        visits=tuple(JobVisit(cell.id, 0) for cell in cells),
    )

    code, err, records = bench.run_fork(job)

    assert code == 0, err
    assert not select(records, event="failed")
    assert len(select(records, event="finished", phase="measure")) == len(cells) == 6


def test_the_experiment_file_of_the_example_is_one(blocks, tmp_path):
    (tmp_path / "mine.py").write_text(blocks[0])
    path = tmp_path / "mine.yaml"
    path.write_text(blocks[1])

    loaded = load_spec(path)

    assert loaded.experiment.name == "row-sums"
    assert len(make_plan(loaded, space_of(loaded)).cells) == 6
