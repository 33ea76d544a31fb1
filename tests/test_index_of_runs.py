"""`reports/index.html`: every run of a folder with its answer and its verdict, from summaries."""

import dataclasses
import json
import math
import os
import threading
from dataclasses import asdict
from pathlib import Path

import pytest
from lxml import html

from profiler.commands import index as index_module
from profiler.commands import index as list_module
from profiler.commands.index import ListRequest, list_runs, write_index
from profiler.commands.output import dump
from profiler.comparison import run_entries
from profiler.comparison.run_entries import (
    CACHE_FILE,
    Conditions,
    RunAnswer,
    best_over_time,
    changes,
    newest_listed,
    point_of,
    read_entries,
    run_states,
)
from profiler.errors import ExitCode, UsageError
from profiler.model import Environment, Plan, SessionKind, SessionPlan, Verdict
from profiler.render.index import render_runs, small_line
from profiler.run_folder.archive import find_run, write_archive
from profiler.run_folder.folder import RunFolder, RunRecord

GPU = {"gpu": "NVIDIA H200", "git_commit": "0123456789abcdef", "git_dirty": True}
RECORD = asdict(
    RunRecord("sums", "2026-03-04T10:00:00+00:00", seed=0, environment=Environment(), keys={})
)
EVIL = "<script>alert(1)</script>\"' onload=x &amp;"


def summary(ratios, *, hour=10, experiment="sums", **fields):
    """A summary in which one variant takes these times of the baseline, each to ±0.2 %."""
    cells = [
        {
            "id": f"new..{problem}",
            "metrics": {
                "duration_ns": {
                    "ratio": ratio,
                    "ratio_low": ratio * 0.998,
                    "ratio_high": ratio * 1.002,
                    "noise_floor": 0.004,
                }
            },
        }
        for problem, ratio in ratios.items()
    ]
    mean = math.prod(ratios.values()) ** (1 / len(ratios)) if ratios else 1.0
    problems = [
        {
            "problem": problem,
            "winner": {"variant": "library", "cell": "library"},
            "best_other": {"variant": "new", "cell": f"new..{problem}"},
        }
        for problem in ratios
    ]
    return {
        "schema_version": 1,
        "experiment": experiment,
        "title": f"Title of {experiment}",
        "sentence": f"new is best at {hour}.",
        "created": f"2026-03-04T{hour:02}:00:00+00:00",
        "replayed": None,
        "environment": GPU,
        "baseline": "old",
        "answer": {
            "metric": "duration_ns",
            "problems": problems,
            "best": {"called": "best"},
            "by_how_much": {"ratio": mean, "ratio_low": mean * 0.998, "ratio_high": mean * 1.002},
        },
        "cells": cells,
    } | fields


def put(out, document, name=None):
    """Write a summary as a run leaves it, with a page; gives the run's folder in `out`."""
    hour = document["created"][11:13]
    folder = f"{document['experiment']}/{name or f'20260304-{hour}0000'}"
    (out / folder).mkdir(parents=True)
    (out / folder / "summary.json").write_text(json.dumps(document))
    (out / folder / "index.html").write_text("a page")
    return folder


def write(out):
    """Write the index; gives its document and what was said."""
    said = []
    assert write_index(out, said.append) == out / "index.html"
    return html.fromstring((out / "index.html").read_text()), said


def entries_of(out, warn=lambda _: None):
    return read_entries(out, run_states(out), warn)


def test_runs_stand_by_experiment_newest_first_with_answer_gpu_and_commit(tmp_path):
    for hour, experiment in ((10, "sums"), (12, "other"), (11, "sums")):
        put(tmp_path, summary({"a": 0.5}, hour=hour, experiment=experiment))
    document, said = write(tmp_path)
    assert said == []
    (section,) = document.xpath("//section[@id='pages']")
    rows = section.xpath("./article")
    titles = [row.xpath("./div/h3/a")[0].text_content() for row in rows]
    assert titles == ["Title of other", "Title of sums"]
    assert [len(row.xpath(".//details//h3")) for row in rows] == [0, 1], "older runs are folded"
    assert section.xpath(".//h3/a/@href") == [
        "other/20260304-120000/index.html",
        "sums/20260304-110000/index.html",
        "sums/20260304-100000/index.html",
    ]
    lines = [line.text_content() for line in section.xpath(".//p")]
    facts = "NVIDIA H200 \u00b7 2026-03-04 12:00 UTC \u00b7 1 cell \u00b7 commit 01234567+"
    assert lines[:2] == [f"other/20260304-120000 \u00b7 {facts}", "new is best at 12."]


def test_a_run_that_got_slower_is_marked_and_the_line_has_intervals(tmp_path):
    steady = {"a": 0.5, "b": 0.8}
    folders = [
        put(tmp_path, summary(ratios, hour=hour))
        for hour, ratios in enumerate(
            (steady, {"a": 0.5, "b": 0.84}, steady, {"a": 0.501, "b": 0.8})
        )
    ]
    entries = entries_of(tmp_path)
    found = changes(entries)
    assert {folder: found[folder].verdict for folder in folders[1:]} == {
        folders[1]: Verdict.SLOWER,
        folders[2]: Verdict.FASTER,
        folders[3]: Verdict.SAME,
    }
    assert {*found[folders[1]].verdicts.values()} == {Verdict.SAME, Verdict.SLOWER}
    document, _ = write(tmp_path)
    (mark,) = document.xpath("//span[@class='verdict is-slower']")
    assert (
        mark.text_content()
        == f"\u25b2 {Verdict.SLOWER.word} at 1 of 2 problems, 1.050\u00d7 of its time, "
        f"against {folders[0]}"
    )
    assert mark.getparent().xpath("./a/@href") == [f"{folders[1]}/index.html"]
    (line,) = document.xpath("//*[local-name()='svg']")
    assert len(line.xpath(".//*[local-name()='circle']")) == 4
    assert len(line.xpath(".//*[local-name()='line']")) == 4
    points = best_over_time(entries)
    assert points[1].ratio == pytest.approx(math.sqrt(0.5 * 0.84))
    half = math.hypot(math.log(1.002), math.log(1.002)) / 2
    assert points[1].high == pytest.approx(points[1].ratio * math.exp(half))


def test_runs_that_ask_something_else_are_not_compared(tmp_path):
    put(tmp_path, summary({"a": 0.5}, hour=1))
    put(tmp_path, summary({"a": 0.9}, hour=2, baseline="another"))
    put(tmp_path, summary({"a": 0.9}, hour=3, environment=GPU | {"gpu": "NVIDIA H100"}))
    put(tmp_path, summary({"a": 0.9}, hour=4, replayed={"gpu": "NVIDIA H200"}))
    put(tmp_path, summary({"a": 0.9, "b": 0.9}, hour=5))
    by_wall_clock = RunFolder(tmp_path / put(tmp_path, summary({"a": 0.9}, hour=6)))
    session = SessionPlan("wall_clock", "wall_clock", SessionKind.TIMING, (), ())
    by_wall_clock.write_plan(Plan("sums", 0, (), (), (session,)))
    by_wall_clock.write_record(RunRecord("sums", "", seed=0, environment=Environment(), keys={}))
    larger = summary({"a": 0.9}, hour=7)
    larger["cells"][0]["problem_params"] = {"n": 2048}
    put(tmp_path, larger)
    cpus = ({"cpu": "EPYC"}, {"cpu": "Xeon"})
    for hour, cpu in enumerate(cpus, start=8):
        put(tmp_path, summary({"a": 0.9}, hour=hour, environment=cpu))
    found = changes(entries_of(tmp_path))
    assert {folder[-6:]: change.older.folder[-6:] for folder, change in found.items()} == {
        "050000": "010000"
    }
    assert len(best_over_time(entries_of(tmp_path))) == 1


def test_the_noise_of_both_runs_widens_the_margin(tmp_path):
    noisy = summary({"a": 0.52}, hour=2)
    noisy["cells"][0]["metrics"]["duration_ns"]["noise_floor"] = 0.06
    put(tmp_path, summary({"a": 0.5}, hour=1))
    folder = put(tmp_path, noisy)
    assert changes(entries_of(tmp_path))[folder].verdict is Verdict.SAME


def test_a_baseline_that_is_the_best_counts_as_itself(tmp_path):
    document = summary({"a": 1.0})
    document["cells"][0]["metrics"]["duration_ns"] |= {"ratio_low": None, "ratio_high": None}
    put(tmp_path, document)
    (entry,) = entries_of(tmp_path)
    assert (point_of(entry).low, point_of(entry).high) == (1.0, 1.0)


@pytest.mark.parametrize("name", ["summary.json", "run.json"])
@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"experiment": 3, "environment": []}',
        "\x00",
        '{"answer": {"problems": 1}}',
    ],
)
def test_damaged_and_foreign_folders_cost_only_themselves(tmp_path, name, content):
    put(tmp_path, summary({"a": 0.5}))
    bad = tmp_path / "sums/20260304-110000"
    bad.mkdir()
    (bad / name).write_text(content)
    (tmp_path / "notes/pictures").mkdir(parents=True)
    (tmp_path / "sums/linked").symlink_to(tmp_path / "sums/20260304-100000")
    (tmp_path / CACHE_FILE).write_text(content)
    said = []
    assert len(entries_of(tmp_path, said.append)) == 1
    assert len(said) == 1
    assert str(bad) in said[0]
    document, _ = write(tmp_path)
    assert len(document.xpath("//h3/a")) == 1


def test_a_summary_is_read_once(tmp_path, monkeypatch):
    folder = put(tmp_path, summary({"a": 0.5}))
    write(tmp_path)
    read = []
    monkeypatch.setattr(
        "profiler.comparison.run_entries.read_json", lambda path: read.append(path) or {}
    )
    assert entries_of(tmp_path)[0].answer.sentence == "new is best at 10."
    assert read == []
    monkeypatch.undo()
    document = summary({"a": 0.5}, sentence="Something else.")
    (tmp_path / folder / "summary.json").write_text(json.dumps(document))
    os.utime(tmp_path / folder / "summary.json", ns=(1, 1))
    assert entries_of(tmp_path)[0].answer.sentence == "Something else."


def test_a_document_at_hand_gives_the_entry_of_its_file(tmp_path):
    document = summary({"a": 0.5}, sentence="The \u202efastest.\x07", title="A\u2028title")
    folder = put(tmp_path, document)
    (tmp_path / folder / "summary.json").write_text(dump(document))
    states = run_states(tmp_path)
    at_hand = read_entries(tmp_path, states, documents={tmp_path / folder: document})
    assert at_hand == read_entries(tmp_path, states)
    (tmp_path / folder / "summary.json").write_text("{")
    assert read_entries(tmp_path, states, documents={tmp_path / folder: document}) == at_hand


def test_two_runs_that_end_at_once_are_both_in_the_index(tmp_path, monkeypatch):
    """The first has read the folder when the second ends, and replaces the index of the second."""
    first_has_read, second_is_done = threading.Event(), threading.Event()
    real = index_module.read_entries

    def read_then_wait(out, states, documents):
        entries = real(out, states, documents=documents)
        if threading.current_thread() is first and not second_is_done.is_set():
            first_has_read.set()
            assert second_is_done.wait(20)
        return entries

    monkeypatch.setattr(index_module, "read_entries", read_then_wait)
    put(tmp_path, summary({"a": 0.5}, hour=1))
    first = threading.Thread(target=write, args=(tmp_path,))
    first.start()
    assert first_has_read.wait(20)
    put(tmp_path, summary({"a": 0.5}, hour=2))
    write(tmp_path)
    second_is_done.set()
    first.join()
    document = html.fromstring((tmp_path / "index.html").read_text())
    assert len(document.xpath("//h3/a")) == 2
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".index.html.")]


@pytest.mark.parametrize("link", [False, True])
def test_a_file_of_somebody_else_is_not_replaced(tmp_path, link):
    put(tmp_path, summary({"a": 0.5}))
    theirs = tmp_path / ("theirs.html" if link else "index.html")
    theirs.write_text("<title>My own page</title>")
    if link:
        (tmp_path / "index.html").symlink_to(theirs)
    said = []
    assert write_index(tmp_path, said.append) is None
    assert "is not of this program" in said[0]
    assert theirs.read_text() == "<title>My own page</title>"


def test_nothing_from_outside_is_markup(tmp_path):
    for hour in (1, 2):
        environment = {"gpu": EVIL, "git_commit": EVIL}
        document = summary({"a": 0.5}, hour=hour, title=EVIL, sentence=EVIL, baseline=EVIL)
        put(tmp_path, document | {"environment": environment}, name=f'{hour}"><b>&amp;')
    document, _ = write(tmp_path)
    text = Path(tmp_path / "index.html").read_text()
    assert "<script>alert" not in text
    assert "<b>" not in text
    assert document.text_content().count(EVIL) >= 5
    assert EVIL in document.xpath("//*[local-name()='svg']/@aria-label")[0]


def test_list_prints_the_same(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)  # away from the recordings of this project
    put(tmp_path, summary({"a": 0.5}, hour=1))
    put(tmp_path, summary({"a": 0.6}, hour=2))
    list_runs(ListRequest(out=tmp_path, json_target="-"))
    newest, oldest = json.loads(capsys.readouterr().out)["runs"]
    assert (newest["verdict"], oldest["verdict"]) == ("slower", None)
    assert newest["against"] == oldest["run"]
    assert newest["answer"] == "new is best at 2."
    assert newest["ratio"] == pytest.approx(0.6)
    assert newest["ratio_low"] < newest["ratio"] < newest["ratio_high"]


def test_where_the_baseline_leads_the_ratio_is_one(tmp_path, capsys, monkeypatch):
    """A list once said 2.021 of a run whose page said that the baseline is the best."""
    monkeypatch.chdir(tmp_path)
    document = summary({"a": 2.021})
    document["answer"]["best"]["called"] = "first_of_rest"
    put(tmp_path, document)
    list_runs(ListRequest(out=tmp_path, json_target="-"))
    assert json.loads(capsys.readouterr().out)["runs"][0]["ratio"] == 1


def test_list_as_a_table_marks_what_got_slower(tmp_path, capsys):
    older = put(tmp_path, summary({"a": 0.5}, hour=1))
    put(tmp_path, summary({"a": 0.6}, hour=2))
    list_runs(ListRequest(out=tmp_path, color="never"))
    text = " ".join(capsys.readouterr().out.split())
    assert Verdict.SLOWER.word in text
    assert text.index("020000") < text.index(older[-6:])


def test_a_line_of_equal_numbers_lies_inside_its_box():
    drawing = html.fromstring(str(small_line([(1.0, 1.0, 1.0)] * 50, "equal")))
    width, height = map(float, drawing.get("viewbox").split()[2:])
    for dot in drawing.xpath(".//circle"):
        assert 0 < float(dot.get("cx")) < width
        assert 0 < float(dot.get("cy")) < height


def listed(tmp_path, *names):
    """Rows of `profiler list NAME… --json`."""
    target = tmp_path / "list.json"
    list_runs(ListRequest(out=tmp_path / "reports", names=names, json_target=str(target)))
    return json.loads(target.read_text())["runs"]


def test_list_takes_names_and_sees_replays_and_recordings(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for hour, experiment in ((10, "sums"), (11, "sums"), (12, "other")):
        folder = put(tmp_path / "reports", summary({"a": 0.5}, hour=hour, experiment=experiment))
        record = RECORD | {"experiment": experiment, "number": hour}
        (tmp_path / "reports" / folder / "run.json").write_text(json.dumps(record))
    replay = summary({"a": 0.5}, hour=13, experiment="sums", replayed={"gpu": "H100"})
    put(tmp_path / "reports", replay)
    recording = tmp_path / "experiments/recordings/kept.zip"
    write_archive(recording, [("run.json", json.dumps(RECORD | {"experiment": "kept"}).encode())])

    assert {row["experiment"] for row in listed(tmp_path)} == {"sums", "other", "kept"}
    sums = listed(tmp_path, "sums")
    assert [row["replayed"] for row in sums] == [False, False, True]
    assert [Path(row["run"]).name for row in listed(tmp_path, "sums~1")] == ["20260304-100000"]
    (row,) = listed(tmp_path, "kept")
    assert (row["recording"], row["run"]) == (True, "experiments/recordings/kept.zip")
    assert listed(tmp_path, "experiments/recordings/kept.zip") == [row]
    with pytest.raises(UsageError, match="neither a run folder"):
        listed(tmp_path, "nothing")
    elsewhere = recording.rename(tmp_path / "kept.zip")
    with pytest.raises(UsageError, match=r"kept\.zip: not among the runs in"):
        listed(tmp_path, str(elsewhere))
    shown = capsys.readouterr().out
    assert "replay" in shown
    assert "recording" in shown


def test_a_name_without_runs_is_its_recording(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recording = tmp_path / "recordings/sums.zip"
    write_archive(recording, [("run.json", json.dumps(RECORD).encode())])
    put(tmp_path / "reports", summary({"a": 0.5}, replayed={"gpu": "H100"}))  # no raw files
    assert find_run("sums", Path("reports")) == Path("recordings/sums.zip")
    with pytest.raises(UsageError):
        find_run("sums~1", Path("reports"))
    recording.unlink()
    with pytest.raises(UsageError, match="reports/sums holds only replays"):
        find_run("sums", Path("reports"))


def test_a_file_of_a_run_stands_for_it_and_a_mistyped_name_is_hinted_at(tmp_path, monkeypatch):
    folder = tmp_path / "reports" / put(tmp_path / "reports", summary({"a": 0.5}))
    (folder / "run.json").write_text(json.dumps(RECORD))
    assert find_run(str(folder / "index.html"), tmp_path) == folder
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_run(f"~/{folder.relative_to(tmp_path)}", Path("reports")) == folder
    with pytest.raises(UsageError, match="~nobody-here/x: neither a run"):
        find_run("~nobody-here/x", Path("reports"))
    with pytest.raises(UsageError, match=r"smus: neither a run .*; did you mean 'sums'"):
        find_run("smus", tmp_path / "reports")


def test_a_list_keeps_what_it_read(tmp_path, monkeypatch, capsys):
    for hour in (1, 2):
        put(tmp_path, summary({"a": 0.5}, hour=hour))
    request = ListRequest(out=tmp_path, color="never")
    assert list_runs(request) is ExitCode.COMPLETE
    first = capsys.readouterr().out
    read = []
    monkeypatch.setattr(run_entries, "_read", lambda *arguments: read.append(arguments))
    monkeypatch.setattr(list_module, "keep_entries", lambda *arguments: read.append(arguments))
    list_runs(request)
    assert capsys.readouterr().out == first
    assert read == []
    monkeypatch.undo()
    put(tmp_path, summary({"a": 0.5}, hour=3))
    (tmp_path / CACHE_FILE).unlink()
    (tmp_path / CACHE_FILE).mkdir()  # nothing can be kept: nothing else is lost
    list_runs(request)
    assert "20260304-030000" in capsys.readouterr().out


def test_of_very_many_runs_the_newest_of_each_experiment_are_listed(tmp_path):
    put(tmp_path, summary({"a": 0.5}))
    (entry,) = entries_of(tmp_path)
    runs = tuple(
        dataclasses.replace(entry, experiment=name, folder=f"{name}/{number}")
        for name, count in (("one", 1000), ("two", 3), ("three", 300))
        for number in range(count)
    )
    listed = newest_listed(runs)
    assert [run.folder for run in listed] == [
        *(f"one/{number}" for number in range(166)),
        *(f"two/{number}" for number in range(3)),
        *(f"three/{number}" for number in range(166)),
    ]
    assert newest_listed(runs[:500]) == runs[:500]
    page = html.fromstring(render_runs(runs))
    assert len(page.xpath("//h3")) == len(listed)
    assert "The newest 335 are listed." in page.text_content()
    assert "Runs: 1303; experiments: 3." in page.text_content()


def test_the_run_before_is_the_newest_that_can_be_compared(tmp_path):
    put(tmp_path, summary({"a": 0.5}))
    (entry,) = entries_of(tmp_path)
    (best,) = entry.answer.best
    oldest_first = [
        dataclasses.replace(
            entry,
            folder=str(number),
            conditions=Conditions(gpu, (), baseline),
            answer=RunAnswer(
                best=tuple(dataclasses.replace(best, problem=problem) for problem in problems)
            ),
        )
        for number, (gpu, baseline, problems) in enumerate(
            [
                ("A", "x", "pq"),
                ("A", "x", "p"),
                ("B", "x", "p"),
                ("A", None, "p"),
                ("A", "x", "q"),
                ("A", "x", "pq"),
                ("A", "x", "r"),
            ]
        )
    ]
    found = changes(oldest_first[::-1])
    assert {new: change.older.folder for new, change in found.items()} == {
        "1": "0",
        "4": "0",
        "5": "4",
    }
