"""Runs as data: `profiler.load` of a recording, without GPU and torch."""

import json
import sys

import pandas as pd
import pytest
from explained_runs import SOFTMAX

import profiler
from profiler.commands import output
from profiler.errors import UsageError


@pytest.fixture(scope="module")
def run():
    return profiler.load(SOFTMAX)


def test_frames_have_parameter_columns(run):
    variants = set(run.summary["variant"])
    durations = run.summary.query("metric == 'duration_ns'")
    assert len(durations) == len(variants) * durations["problem"].nunique()
    parameters = {name for name in run.summary if name.startswith(("variant.", "problem."))}
    assert {"variant.algorithm", "problem.columns"} <= parameters
    assert parameters <= set(run.samples)
    assert run.samples["duration_ns"].gt(0).any()
    assert len(run.samples.groupby(["cell", "variant.algorithm"])) == run.samples["cell"].nunique()


def test_findings_are_data(run):
    document = json.loads(output.dump(run.findings))
    assert document["answer"]["best"]["variant"] in run.answer
    assert len(run.notices) >= 1
    assert all(isinstance(text, str) for text in run.notices)


def test_why_is_data(run):
    why = run.explain()
    answer = run.findings["answer"]["why"]
    assert (why["variant"], why["against"]) == (answer["variant"], answer["against"])
    turned = run.explain(why["against"], against=why["variant"])
    assert turned["variant"] == why["against"]
    with pytest.raises(UsageError, match="No variant is called 'nobody'"):
        run.explain("nobody")


def test_it_shows_its_answer_and_its_folder(run):
    assert run.path == SOFTMAX
    assert run.answer in repr(run)
    html = run._repr_html_()
    assert html.count("<svg") == 1
    assert "<script" not in html
    assert run.markdown().startswith("### ")


def test_what_is_no_run_is_named(tmp_path):
    with pytest.raises(UsageError, match="nowhere: neither a run folder nor an experiment"):
        profiler.load("nowhere", reports=tmp_path)
    tmp_path.joinpath("softmax.zip").touch()
    with pytest.raises(UsageError, match=r"there is no such file; did you mean '.*/softmax\.zip'"):
        profiler.load(tmp_path / "softmxa.zip")


def test_unknown_attributes_are_errors():
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        profiler.lode  # noqa: B018


def test_parquet_has_one_type_in_a_column(tmp_path, monkeypatch):
    """The stand-in for pyarrow takes what is written; pandas calls it by these words."""
    written = []

    def to_parquet(table, content, *, engine, index):
        written.append((table, engine, index))
        content.write(b"columns")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", to_parquet)
    table = pd.DataFrame({"block": [128, "auto", None], "size": [1, 2.5, None], "fast": True})
    output._write_parquet(table, tmp_path / "a.parquet")
    assert not written, "without pyarrow nothing is written"
    monkeypatch.setitem(sys.modules, "pyarrow", sys)
    output._write_parquet(table, tmp_path / "a.parquet")
    ((shown, engine, index),) = written
    assert (engine, index) == ("pyarrow", False)
    assert shown["block"].tolist()[:2] == ["128", "auto"]
    assert shown["size"].tolist()[:2] == [1, 2.5]
    assert shown["fast"].tolist() == [True] * 3
    assert (tmp_path / "a.parquet").read_text() == "columns"
