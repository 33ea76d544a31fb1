"""The history of runs: its store, change points, what moved a cell, and its page."""

import json
import sqlite3
from dataclasses import replace

import numpy as np
import pytest
from browser_pages import findings_of, open_page

from profiler.analyse.change_points import change_points
from profiler.commands.answers import keep_answers
from profiler.commands.history import read_answers, rebuild, show_history
from profiler.commands.requests import HistoryRequest
from profiler.errors import EnvironmentUnusable, ExitCode, UsageError
from profiler.history.answers import answers_of_records, answers_of_summary
from profiler.history.store import STORE_FILE, Store
from profiler.history.trends import ChangeCause, find_control, find_history
from profiler.render.trends import change_words, control_words, headline, render_history

VARIANTS = ("base", "a", "b", "c", "d")
NOISE = 0.002


def summary(number, factors, *, driver="580", created=None, card="gpu-1"):
    """A summary of run `number` in which variants take `factors` times their usual time."""
    generator = np.random.default_rng(number)
    times = {
        name: 200e3 * (1 + place) * factors.get(name, 1) * np.exp(generator.normal(0, NOISE))
        for place, name in enumerate(VARIANTS)
    }
    cells = []
    for name, value in times.items():
        ratio = value / times["base"]
        numbers = {"median": value, "low": value * 0.999, "high": value * 1.001, "n": 8}
        ratios = {"ratio": ratio, "ratio_low": ratio * 0.999, "ratio_high": ratio * 1.001}
        metrics = {
            "duration_ns": {**numbers, **ratios, "verdict": "faster", "noise_floor": 0.004},
            "l2_hit_pct": {"median": 50.0, "n": 1},
        }
        cells.append({"id": f"{name}..p=1", "variant": name, "problem": "p", "metrics": metrics})
    return {
        "experiment": "toy",
        "created": created or f"2026-11-{1 + number // 24:02d}T{number % 24:02d}:00:00+00:00",
        "environment": {
            "gpu": "NVIDIA H100",
            "gpu_uuid": card,
            "driver": driver,
            "git_commit": f"{number:040x}"[::-1],
        },
        "baseline": "base",
        "answer": {"metric": "duration_ns"},
        "cells": cells,
    }


def history_of(factors_of, runs=30, **changed):
    """History of runs whose factors are those that `factors_of` gives for their number."""
    found = [
        answers_of_summary(
            summary(number, factors_of(number), **{k: f(number) for k, f in changed.items()}),
            f"toy/{number}",
            "run",
            "ncu",
        )
        for number in range(runs)
    ]
    return find_history(found, "duration_ns")


def test_a_problem_of_another_size_under_the_same_name_is_no_change():
    def of_run(number):
        document = summary(number, dict.fromkeys(VARIANTS, 1.0 if number < 20 else 3.0))
        for cell in document["cells"]:
            cell["problem_params"] = {"n": 64 if number < 20 else 192}
        return answers_of_summary(document, "x", "run", "ncu")

    runs = [replace(of_run(0), problems={}), *map(of_run, range(1, 40))]
    history = find_history(runs, "duration_ns")
    assert [set(trend.answers) for trend in history.trends] == [{0, *range(20, 40)}] * len(VARIANTS)
    assert control_words(history).startswith(
        "Runs in which a problem had other parameters are not compared there: p. "
    )


def changes_by_cell(history):
    return {trend.variant: trend.changes for trend in history.trends if trend.changes}


# ---- change points -------------------------------------------------------------------------------


def test_planted_steps_are_found_where_they_are_and_none_elsewhere():
    generator = np.random.default_rng(1)
    series = generator.normal(0, NOISE, (40, 60))
    series[:10, 25:] += 0.02
    series[10:20, 40:] -= 0.05
    series[20:30, 20:40] += 0.03  # and back
    series[30, 33] += 0.5  # one run that was disturbed
    found = change_points(series, np.full((40, 60), 0.001))
    assert found[:10] == [(25,)] * 10
    assert found[10:20] == [(40,)] * 10
    assert found[20:30] == [(20, 40)] * 10
    assert found[30:] == [()] * 10


def test_runs_of_few_blocks_count_less():
    series, errors = np.zeros((2, 30)), np.full((2, 30), 0.001)
    series[:, 20:25] = 0.01
    errors[1, 20:25] = 0.02  # a level that they do not show
    assert change_points(series, errors) == [(20, 25), ()]


def test_what_moves_a_variant_at_all_problems_stands_out_of_the_noise_of_each():
    def of_run(number):
        document = summary(number, {})
        generator = np.random.default_rng([7, number])
        base, *others = document["cells"]
        cells = []
        for problem in range(9):
            for cell in (base, *others):
                factor = 1.007 if cell["variant"] == "b" and number >= 20 else 1.0
                ratio = factor * np.exp(generator.normal(0, 0.014)) if cell is not base else 1.0
                ends = {"ratio": ratio, "ratio_low": ratio / 1.028, "ratio_high": ratio * 1.028}
                times = {"median": 2e4 * ratio, "low": 2e4, "high": 2e4, "n": 8}
                name = f"{cell['variant']}..p={problem}"
                metrics = {"duration_ns": {**times, **ends}}
                cells.append({**cell, "id": name, "problem": f"p={problem}", "metrics": metrics})
        return answers_of_summary({**document, "cells": cells}, "x", "run", "ncu")

    history = find_history([of_run(number) for number in range(40)], "duration_ns")
    cells = sum(bool(trend.changes) for trend in history.trends)
    assert cells < 4, "of 36 cells: of one it is within the noise"
    (changed,) = history.changed[: -cells or None]
    assert (changed.variant, changed.cells, changed.problem) == ("b", 9, "over 9 problems")
    assert abs(changed.changes[0].first - 20) <= 2
    assert changed.changes[0].cause is ChangeCause.KERNEL
    assert "and the means of 1 of 4 variants" in headline(history)
    assert "over 9 problems" in render_history(history)


def test_few_runs_and_equal_ones_have_no_changes():
    assert change_points(np.zeros((2, 60)), np.full((2, 60), 1e-9)) == [(), ()]
    assert change_points(np.array([[0.0, 0, 0, 1, 1]]), np.full((1, 5), 0.001)) == [()]
    assert change_points(np.array([[0.0, 0, 0, 1, 1, 1]]), np.full((1, 6), 0.001)) == [(3,)]


# ---- what moved ----------------------------------------------------------------------------------


def test_one_variant_alone_is_its_kernel():
    history = history_of(lambda number: {"b": 1.03} if number >= 20 else {})
    ((variant, (change,)),) = changes_by_cell(history).items()
    assert (variant, change.first, change.cause) == ("b", 20, ChangeCause.KERNEL)
    assert change.ratio_low < 1.03 < change.ratio_high
    words = change_words(history, change)
    assert "since" in words
    assert "the kernel" in words
    assert f"commit {history.runs[19].commit} \u2192 {history.runs[20].commit}" in words
    assert headline(history).startswith("1 of 5 cells changed their level in 30 runs; the last: b,")


def test_all_together_is_the_machine():
    history = history_of(
        lambda number: dict.fromkeys(VARIANTS, 1.04) if number >= 15 else {},
        driver=lambda number: "590" if number >= 15 else "580",
    )
    ((variant, (change,)),) = changes_by_cell(history).items()
    assert (variant, change.first, change.cause) == ("base", 15, ChangeCause.MACHINE)
    assert "driver 580 \u2192 590" in change_words(history, change)


def test_all_ratios_against_the_baseline_is_the_baselines_kernel():
    history = history_of(lambda number: {"base": 0.95} if number >= 15 else {})
    changes = changes_by_cell(history)
    assert set(changes) == set(VARIANTS)
    assert {change.cause for (change,) in changes.values()} == {ChangeCause.BASELINE}


@pytest.mark.parametrize(
    ("factors", "cause", "words"),
    [
        ({}, None, "The newest run is as usual (the baseline takes"),
        (
            {"c": 1.05},
            ChangeCause.KERNEL,
            "1 of 4 cells are off what they were in the 4 runs before it",
        ),
        (dict.fromkeys(VARIANTS, 1.05), ChangeCause.MACHINE, "the machine, its driver or versions"),
        ({"base": 1.05}, ChangeCause.BASELINE, "The baseline alone takes 1.0"),
    ],
)
def test_the_newest_run_is_compared_with_its_own_past(factors, cause, words):
    history = history_of(
        lambda number: factors if number == 4 else {},
        runs=5,
        driver=lambda number: "590" if number == 4 else "580",
    )
    control = find_control(history)
    assert control.cause is cause
    sentence = control_words(history)
    assert words in sentence
    assert ("driver 580 \u2192 590" in sentence) == (cause is ChangeCause.MACHINE)
    assert find_control(history_of(lambda _: {}, runs=1)) is None
    together = (1.0, 1.4, 0.8, 1.3, 0.75)
    scattered = history_of(
        lambda n: dict.fromkeys(VARIANTS, together[n]) | ({"c": 0.79} if n == 4 else {}), runs=5
    )
    assert "their kernels or the machine changed (c, p: 1.0" in control_words(scattered)
    documents = [summary(number, factors if number == 4 else {}) for number in range(5)]
    for numbers in (cell["metrics"]["duration_ns"] for cell in documents[4]["cells"]):
        numbers |= {"low": numbers["median"] * 0.7, "high": numbers["median"] * 1.4}
        numbers |= {"ratio_low": numbers["ratio"] * 0.7, "ratio_high": numbers["ratio"] * 1.4}
    runs = [answers_of_summary(document, "x", "run", "ncu") for document in documents]
    assert find_control(find_history(runs, "duration_ns")).cause is None, "within its own error"


def test_runs_of_other_machines_are_no_part_of_a_history():
    ncu, timer = (answers_of_summary(summary(1, {}), "x", "run", c) for c in ("ncu", "timer"))
    history = find_history([timer, ncu], "duration_ns")
    assert len(history.runs) == 1
    assert history.other_machines == ("NVIDIA H100 \u00b7 timer",)
    assert find_history([timer, ncu], "duration_ns", "timer").machine.endswith("timer")
    assert find_history([timer, ncu], "duration_ns", "H200") is None


# ---- the store -----------------------------------------------------------------------------------


def test_a_run_is_added_once_and_the_newest_of_its_answers_counts(tmp_path):
    store = Store(tmp_path / STORE_FILE)
    first = answers_of_summary(summary(1, {}), "toy/1", "run", "ncu")
    again = answers_of_summary(summary(1, {"a": 2}), "toy/1", "run", "ncu")
    assert store.add([first]) == 1
    assert store.add([first]) == 0
    assert store.add([again]) == 1
    (kept,) = store.answers("toy", "duration_ns")
    assert kept.record == again.record
    assert sorted(kept.answers) == sorted(again.answers)  # l2_hit_pct is not kept
    assert store.runs("other") == ()
    # Of one second, of another commit or card; and a later one whose clock shows less.
    zone = {"created": first.created.replace("T01:00:00+00:00", "T00:00:00-11:00")}
    others = ({"commit": "b"}, {"card": "b"}, {**zone, "commit": "c"})
    assert store.add(replace(first, **changed) for changed in others) == 3
    assert [run.commit for run in store.runs()] == [first.commit, "b", first.commit, "c"]


def test_what_is_wrong_has_no_answer():
    """A variant that keeps its result was a kernel twelve times as fast, and so it was exported."""
    document = summary(1, {})
    document["cells"][-1]["outcome"] = "implausible"
    run = answers_of_summary(document, "toy/1", "run", "ncu")
    assert [answer.variant for answer in run.answers] == list(VARIANTS)[:-1]


def test_rows_are_never_changed_or_deleted(tmp_path):
    store = Store(tmp_path / STORE_FILE)
    store.add([answers_of_summary(summary(1, {}), "toy/1", "run", "ncu")])
    connection = sqlite3.connect(store.path)
    for change in ("UPDATE answer SET value = 1", "DELETE FROM run", "DELETE FROM answer"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(change)
    connection.close()


def test_a_sound_store_that_cannot_be_used_now_is_not_to_be_moved_away(tmp_path, monkeypatch):
    with pytest.raises(EnvironmentUnusable) as nowhere:
        Store(tmp_path / "no folder" / STORE_FILE)._transaction().__enter__()
    assert "--reports" in nowhere.value.remedy
    (tmp_path / STORE_FILE).touch()
    monkeypatch.setattr("profiler.history.store._PATIENCE_S", 0)
    other = sqlite3.connect(tmp_path / STORE_FILE)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(EnvironmentUnusable) as locked:
        Store.beside(tmp_path).runs()
    other.close()
    assert "again" in locked.value.remedy


def test_a_store_that_cannot_be_used_costs_no_run(tmp_path):
    (tmp_path / STORE_FILE).write_bytes(b"no database" * 100)
    with pytest.raises(EnvironmentUnusable, match="--rebuild"):
        Store.beside(tmp_path).runs()
    said = []
    run = tmp_path / "toy" / "1"
    run.mkdir(parents=True)
    keep_answers(tmp_path, run, summary(1, {}), said.append)
    assert "The history of the runs was not written" in said[0]


def record(value, **changed):
    return {
        "timestamp": 1764000000,
        "head_sha": "0123456789abcdef",
        "runners": [{"gpu_info": "NVIDIA H100"}],
        "benchmark": {"name": "tritonbench", "mode": "fwd", "dtype": "bf16"},
        "model": {"name": "gemm", "backend": "triton"},
        "metric": {
            "name": "latency",
            "benchmark_values": value,
            "extra_info": {"input_shape": "(64, 64)"},
        },
        **changed,
    }


def test_records_of_others_are_read(tmp_path):
    file = tmp_path / "records.json"
    file.write_text(json.dumps([record([1.0, 3.0, 2.0]), record([9.0], timestamp=1764090000)]))
    older, newer = read_answers(file, tmp_path)
    nightly = record([1.0], dependencies={"torch": {"version": "2.9.0.dev20250801+cu128"}})
    assert answers_of_records([nightly], "f")[0].versions == {"torch": "2.9.0.dev20250801+cu128"}
    assert older.experiment == "tritonbench"
    assert older.commit == "01234567"
    (answer,) = older.answers
    assert (answer.variant, answer.problem) == ("gemm triton", "fwd bf16 (64, 64)")
    assert (answer.value, answer.n) == (2.0, 3)
    assert newer.answers[0].low is None
    file.with_suffix(".jsonl").write_text(json.dumps(record([1.0])) + "\n")
    assert len(read_answers(file.with_suffix(".jsonl"), tmp_path)) == 1
    file.write_text("\ufeff" + json.dumps([record([1.0])]), "utf-8")
    assert len(read_answers(file, tmp_path)) == 1
    for empty in ("", "[]", json.dumps(record([]))):
        file.write_text(empty)
        with pytest.raises(UsageError, match="holds no number of a benchmark v3 record"):
            read_answers(file, tmp_path)
    with pytest.raises(UsageError, match=r"nowhere/index\.html: neither a run folder nor"):
        read_answers(tmp_path / "nowhere/index.html", tmp_path)
    for wrong in ({"metric": 1}, [], 3, record(["x"]), record([1.0], timestamp="soon")):
        with pytest.raises(UsageError, match="record 1 is no benchmark v3 record"):
            answers_of_records([wrong], "file")


def test_rebuilding_keeps_what_was_imported(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "records.json"
    file.write_text(json.dumps([record([1.0, 3.0, 2.0])]))
    out = tmp_path / "reports"
    request = HistoryRequest(imported=[file], reports=out, rebuild=True)
    assert show_history(request) is ExitCode.COMPLETE
    elsewhere = answers_of_summary(summary(1, {}), "20261130-120000", "run", "ncu")
    gone = answers_of_summary(summary(2, {}), "toy/20261130-130000", "run", "ncu")
    Store.beside(out).add([elsewhere, gone])
    rebuild(out, pytest.fail)
    assert [run.run for run in Store.beside(out).runs("toy")] == [elsewhere.run]
    assert show_history(HistoryRequest(reports=out)) is ExitCode.COMPLETE
    assert "tritonbench: 1 run\n" in capsys.readouterr().out
    with pytest.raises(UsageError, match="there are: toy, tritonbench"):
        show_history(HistoryRequest("other", reports=out))
    answered = HistoryRequest("tritonbench", reports=out, json_target=str(tmp_path / "h.json"))
    assert show_history(answered) is ExitCode.COMPLETE
    document = json.loads((tmp_path / "h.json").read_text())
    assert document["cells"][0]["answers"][0]["value"] == 2.0
    assert "<h1>tritonbench: 1 run</h1>" in (out / "history" / "tritonbench.html").read_text()


@pytest.mark.parametrize("name", ["../../elsewhere", "n" * 252])
def test_the_page_of_any_name_lies_in_the_folder_of_histories(tmp_path, name):
    out = tmp_path / "deep/reports"
    out.mkdir(parents=True)
    Store.beside(out).add(answers_of_records([record([1.0], benchmark={"name": name})], "file"))
    assert show_history(HistoryRequest(name, reports=out)) is ExitCode.COMPLETE
    (page,) = tmp_path.rglob("*.html")
    assert page.parent == out / "history"


def test_the_page_names_changes_and_escapes_names():
    history = history_of(lambda number: {"b": 1.03} if number >= 20 else {})
    page = render_history(history)
    assert "1 of 5 cells changed their level in 30 runs" in page
    assert page.count('class="small-line"') == 5
    odd = answers_of_records([record([1.0], model={"name": "<b>x"})], "file")
    assert "<b>x" not in render_history(find_history(odd, "latency"))


def test_nothing_is_wrong_with_the_page_in_a_browser(tmp_path, browser):
    def factors(number):
        machine = 1.04 if number >= 10 else 1.0
        return dict.fromkeys(VARIANTS, machine) | {"b": machine * (1.03 if number >= 20 else 1)}

    page = tmp_path / "toy.html"
    page.write_text(render_history(history_of(factors)), "utf-8")
    opened = open_page(browser, page.as_uri())
    assert not {check: found for check, found in findings_of(opened, set()).items() if found}
    opened.page.context.close()
