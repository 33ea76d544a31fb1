"""What a run leaves behind for programs: CSV and JSON."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest
from as_read import strict_json
from rich.console import Console
from run_folders import SPEC, Workplace, failed, measured

from profiler import notices
from profiler.analyse.samples import SAMPLE_COLUMNS
from profiler.commands.output import (
    SAMPLES_FILE,
    SUMMARY_FILE,
    SUMMARY_JSON_FILE,
    csv_parts,
    dump,
    dump_parts,
    report_document,
    show_page,
    write_json_target,
    write_results,
)
from profiler.errors import UsageError
from profiler.findings.find import find
from profiler.findings.verdicts import PairVerdict, Reason, Resolution
from profiler.model import Verdict
from profiler.notices import NoticeKind
from profiler.outside_text import safe
from profiler.run_folder.folder import PAGE_FILE
from profiler.run_folder.load.assemble import assemble

PLAIN, TREE = "plain..small", "tree..small"


@pytest.fixture
def report(place):
    place.measure_all()
    place.attempt(
        visits=[(TREE, 0)],
        journal=[failed(TREE, "wrong_result", "off", max_abs_error=0.5, max_rel_error=math.inf)],
    )
    return assemble(place.run, place.loaded, place.plan)


def test_files_of_a_run(report, tmp_path):
    assert write_results(find(report), tmp_path / "out", page=False)[1] is None
    names = {file.name for file in (tmp_path / "out").iterdir()}
    assert names == {SAMPLES_FILE, SUMMARY_FILE, SUMMARY_JSON_FILE}
    samples = pd.read_csv(tmp_path / "out" / SAMPLES_FILE)
    assert tuple(samples.columns[: len(SAMPLE_COLUMNS)]) == SAMPLE_COLUMNS
    assert len(samples) == len(report.measured.samples)
    assert samples["duration_ns"].tolist() == report.measured.samples["duration_ns"].tolist()
    summary = pd.read_csv(tmp_path / "out" / SUMMARY_FILE)
    assert set(report.measured.summary.columns) < set(summary.columns)
    assert {"source", "verdict", "reason", "alias_of"} < set(summary.columns)
    assert len(summary) == len(report.measured.summary)


def test_the_page_is_written_and_its_path_given(report, tmp_path):
    page = write_results(find(report), tmp_path)[1]
    assert page == tmp_path / PAGE_FILE
    assert page.read_text("utf-8").lower().startswith("<!doctype html>")


def test_summary_json_has_null_for_what_is_missing_and_no_nan(report, tmp_path):
    write_results(find(report), tmp_path, page=False)
    document = strict_json((tmp_path / SUMMARY_JSON_FILE).read_text())
    cells = {cell["id"]: cell for cell in document["cells"]}
    assert set(cells) == set(report.statuses)
    assert cells[TREE]["outcome"] == "wrong_result"
    assert (cells[TREE]["max_abs_error"], cells[TREE]["max_rel_error"]) == (0.5, None)
    assert cells[TREE]["metrics"]["duration_ns"]["rank"] is None
    assert cells[PLAIN]["metrics"]["duration_ns"]["median"] > 0
    assert cells[PLAIN]["metrics"]["duration_ns"]["ratio"] == 1.0
    assert cells[PLAIN]["flops"] is None
    assert (document["replayed"], document["environment"]["sm_count"]) == (None, 132)


def test_the_document_says_everything_about_a_cell(report):
    findings = find(report)
    document = report_document(findings)
    assert document["schema_version"] == 1
    assert (document["experiment"], document["baseline"]) == ("sums", "plain")
    first = document["cells"][0]
    assert {"id", "variant", "problem", "variant_params", "problem_params"} <= set(first)
    assert {"outcome", "cause", "duplicate_of", "missing_metrics", "metrics"} <= set(first)
    assert "cell" not in first
    assert NoticeKind.WRONG_RESULTS in {notice.kind for notice in findings.notices}
    for kept, notice in zip(document["notices"], findings.notices, strict=True):
        assert kept == {
            "kind": notice.kind.key,
            "severity": notices.severity(notice).value,
            "text": notices.text(notice),
            "remedy": notices.remedy(notice),
        }


def test_a_cell_that_nobody_reports_on_is_not_measured(report):
    statuses = {cell: s for cell, s in report.statuses.items() if cell != PLAIN}
    document = report_document(find(replace(report, statuses=statuses)))
    assert document["cells"][0]["id"] == PLAIN
    assert document["cells"][0]["outcome"] == "not_measured"


def test_a_run_without_samples_can_be_written(place, tmp_path):
    report = assemble(place.run, place.loaded, place.plan)
    write_results(find(report), tmp_path, page=False)
    document = strict_json((tmp_path / SUMMARY_JSON_FILE).read_text())
    assert {cell["outcome"] for cell in document["cells"]} == {"not_measured"}
    assert all(cell["metrics"] == {} for cell in document["cells"])


def test_results_of_a_timer_can_be_written(tmp_path):
    place = Workplace(tmp_path, SPEC.replace("blocks: 2,", "blocks: 2, collectors: timer,"))
    place.attempt("timer", journal=measured(place.visits("timer"), durations_ns=[5.0, 7.0]))
    report = assemble(place.run, place.loaded, place.plan)
    write_results(find(report), tmp_path, page=False)
    document = strict_json((tmp_path / SUMMARY_JSON_FILE).read_text())
    assert document["cells"][0]["metrics"]["duration_ns"]["median"] == 6.0
    samples = pd.read_csv(tmp_path / SAMPLES_FILE)
    assert samples["kernels"].isna().all()


def test_dump_knows_what_json_does_not():
    document = {
        "nan": math.nan,
        "deep": [{"x": (math.inf, 1.0)}],
        "numpy": np.float64("nan"),
        "text": "é",
        "yes": True,
        "whole": 7,
    }
    assert strict_json(dump(document)) == {
        "nan": None,
        "deep": [{"x": [None, 1.0]}],
        "numpy": None,
        "text": "é",
        "yes": True,
        "whole": 7,
    }


@pytest.mark.parametrize(
    "value",
    [
        {"a": math.nan, "b": -math.inf, "c": [math.nan, {"d": math.inf}]},
        {'a": NaN, "b': 'x": NaN}', "c": math.nan},
        {"ends with \\": math.nan, "NaN": "Infinity", "\\": "\\"},
        {"controls": "\x1b[31m\b\r\n\x7f", "turned": "a\u202eb", "half": "\ud800", "tab": "\t\n"},
        {"written out": "\\u202e", "beyond": "\U0001f600\U000e0041", "key\x00": 1},
        {"path": ("a", 1), "type": MappingProxyType({"a": math.nan}), "where": Path("a")},
        "x\x1b",
        [],
    ],
)
def test_json_of_a_whole_value_is_that_of_its_parts_made_safe(value):
    def safe_copy(part):
        if isinstance(part, Mapping):
            return {safe(key): safe_copy(item) for key, item in part.items()}
        if isinstance(part, list | tuple):
            return [safe_copy(item) for item in part]
        if isinstance(part, int | float):
            return part if math.isfinite(part) else None
        return safe(str(part))

    assert strict_json(dump({"value": value})) == {"value": safe_copy(value)}


def test_csv_is_that_of_pandas():
    frame = pd.DataFrame(
        {
            "float": [1.5, math.nan, 1e300, -0.0, 0.1],
            "whole": [1, 2, 3, 4, 5],
            "text": ["plain", "with, comma", 'with "marks"', None, "two\nlines"],
            "mixed": [None, 1, "a", math.nan, True],
            "flag": [True, False, True, False, True],
            "path": [("a", "b"), (), None, ("c",), ("\u00e9",)],
        }
    )
    assert "".join(csv_parts(frame)) == frame.to_csv(index=False)
    assert "".join(csv_parts(frame[:0])) == frame[:0].to_csv(index=False)


def test_rows_are_written_as_they_are_made():
    made = []
    parts = dump_parts({"rows": ({"row": made.append(row)} for row in range(3)), "none": iter(())})
    text = ""
    for part in parts:
        text += part
        assert len(made) == text.count('"row"')
    assert strict_json(text) == {"rows": [{"row": None}] * 3, "none": []}


def test_where_json_goes(tmp_path, capsys):
    write_json_target({"a": 1}, None)
    assert capsys.readouterr().out == ""
    write_json_target({"a": 1}, "-")
    assert strict_json(capsys.readouterr().out) == {"a": 1}
    target = tmp_path / "deep/out.json"
    write_json_target({"a": None}, str(target))
    assert strict_json(target.read_text()) == {"a": None}
    assert capsys.readouterr().out == ""


def test_a_place_where_json_cannot_go_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"--json .*file/out\.json: "):
        write_json_target({}, str(tmp_path / "file/out.json"))
    with pytest.raises(UsageError, match="--json"):
        write_json_target({}, str(tmp_path))


def test_verdicts_stand_beside_the_ratio_that_they_judge(report, tmp_path):
    findings = find(report)
    (cell, *_) = findings.verdicts.against_baseline
    pair = PairVerdict(
        Verdict.SLOWER,
        Reason.DECIDED,
        ratio=1.2,
        low=1.1,
        high=1.3,
        resolution=Resolution(0.01),
        blocks=8,
    )
    changed = replace(findings, verdicts=replace(findings.verdicts, against_baseline={cell: pair}))
    for shown in report_document(changed)["cells"]:
        for name, values in shown["metrics"].items():
            judged = {key: values[key] for key in ("verdict", "reason", "margin") if key in values}
            expected = {"verdict": "slower", "reason": "decided", "margin": 0.01}
            of_pair = shown["id"] == cell and name == "duration_ns"
            assert judged == (expected if of_pair else {})
    write_results(changed, tmp_path, page=False)
    summary = pd.read_csv(tmp_path / SUMMARY_FILE)
    (row,) = summary[summary["verdict"].notna()].to_dict("records")
    assert (row["cell"], row["metric"], row["verdict"]) == (cell, "duration_ns", "slower")
    assert (row["reason"], row["margin"]) == ("decided", 0.01)


@pytest.mark.parametrize("opens", [True, False])
def test_a_page_is_opened_where_that_is_asked_for(tmp_path, monkeypatch, capsys, opens):
    page = tmp_path / "a page.html"
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    show_page(page, Console(width=200), opens=opens)
    assert capsys.readouterr().out.strip() == f"Page: {page}"
    assert opened == ([page.as_uri()] if opens else [])
