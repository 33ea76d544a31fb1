"""From a run folder to a report, live and replayed."""

import dataclasses
import math
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from run_folders import CREATED, H200, SPEC, Workplace, failed, measured, ncu_csv

from profiler.errors import ExitCode, UsageError
from profiler.findings.find import find
from profiler.metrics.catalogue import CATALOGUE
from profiler.model import BuildResult, Environment, Outcome
from profiler.notices import NoticeKind, severity, text
from profiler.planning.plan import make_plan
from profiler.planning.spec import load_spec
from profiler.run_folder.archive import open_run
from profiler.run_folder.folder import AttemptResult, RunFolder
from profiler.run_folder.load.assemble import assemble
from profiler.run_folder.recording import write_recording
from profiler.runner import protocol

PLAIN, TREE = "plain..small", "tree..small"


def finish(place, **options):
    return assemble(place.run, place.loaded, place.plan, **options)


def record(place, target):
    """Recording of a place's run."""
    return open_run(write_recording(place.run, target, []))


def kinds(report):
    return {notice.kind for notice in find(report).notices}


def test_a_whole_run(place):
    place.measure_all()
    report = finish(place)
    assert report.exit_code is ExitCode.COMPLETE
    assert (report.experiment.title, report.experiment.name, report.execution.created) == (
        "Which sum",
        "sums",
        CREATED,
    )
    assert set(report.statuses) == {cell.id for cell in place.cells}
    assert (report.execution.replay, report.plan.baseline) == (None, "plain")
    assert report.settings.metrics == ("duration_ns", "cycles", "registers", "l2_hit_pct")
    assert set(report.measured.summary["metric"]) >= set(report.settings.metrics)
    assert report.experiment.spec_text == SPEC
    ratios = report.measured.summary[report.measured.summary["variant"] == "plain"]
    timing = ratios[ratios["metric"] == "duration_ns"]
    assert timing["ratio"].tolist() == [1.0, 1.0]


def test_what_the_tool_says_about_the_gpu_fills_the_environment(place):
    place.measure_all()
    environment = finish(place).environment
    assert (environment.sm_count, environment.l2_bytes) == (132, 62_914_560)


def test_a_title_is_the_name_where_there_is_none(tmp_path):
    place = Workplace(tmp_path / "place", SPEC.replace("title: Which sum\n", ""))
    assert finish(place).experiment.title == "sums"


def test_exit_code(place):
    place.measure_all()
    place.attempt(visits=[(PLAIN, 0)], journal=[failed(PLAIN, Outcome.WRONG_RESULT.value)])
    report = finish(place)
    assert report.exit_code is ExitCode.SOME_CELLS_FAILED
    for outcome in Outcome:
        status = replace(report.statuses[PLAIN], outcome=outcome)
        ended = replace(report, statuses={**report.statuses, PLAIN: status})
        assert ended.exit_code == (4 if outcome.failed else 0), outcome


def test_exit_code_of_a_compile_error_and_of_nothing_measured(place):
    assert finish(place).exit_code is ExitCode.SOME_CELLS_FAILED
    assert NoticeKind.NOT_MEASURED in kinds(finish(place))
    place.begin([BuildResult("tree", ok=False, error="no")])
    assert finish(place).exit_code is ExitCode.SOME_CELLS_FAILED


def test_a_wrong_cell_is_never_ranked(place):
    place.measure_all()
    place.attempt(visits=[(TREE, 0)], journal=[failed(TREE, "wrong_result")])
    summary = finish(place).measured.summary
    ranks = summary[summary["metric"] == "duration_ns"].set_index("cell")["rank"]
    assert pd.isna(ranks[TREE])
    assert sorted(ranks[[PLAIN, "loop..small"]]) == [1, 2]
    findings = find(finish(place))
    assert math.isnan(findings.numbers.values[TREE, "duration_ns"].rank)
    assert TREE not in findings.ranking.winners["small"].all_verdicts


def test_a_twin_has_samples_and_the_same_numbers(place):
    first = BuildResult("plain", ok=True, program="same")
    place.begin([first, replace(first, variant="tree", duplicate_of="plain")])
    for session in place.plan.sessions:
        own = [v for v in place.visits(session.name) if not v[0].startswith("tree")]
        place.attempt(session.name, visits=own)
    report = finish(place)
    assert report.statuses[TREE].outcome is Outcome.DUPLICATE
    findings = find(report)
    of_twin, own = (findings.numbers.values[cell, "duration_ns"] for cell in (TREE, PLAIN))
    assert (of_twin.median, of_twin.n) == (own.median, own.n)
    assert own.n > 0
    assert NoticeKind.DUPLICATE_CODE in kinds(report)


OWN_SPACE = """\
def check_kernels(variant, problem, kernels):
    return "ran the kernels of another" if len(kernels) > 1 else None
"""


def with_space(tmp_path, metrics="[duration_ns, cycles, registers]"):
    """A place whose workload knows the kernels of its variants."""
    folder = tmp_path / "place"
    folder.mkdir()
    (folder / "space.py").write_text(OWN_SPACE)
    spec = SPEC.replace("./workload.py", "{module: ./workload.py, space: ./space.py}")
    collect = f"collect: {{blocks: 2, metrics: {metrics}}}"
    return Workplace(folder, f"{spec.partition('collect:')[0]}{collect}\n")


def test_a_cell_that_fell_back_is_a_failure_and_never_ranked(tmp_path):
    place = with_space(tmp_path)
    visits = place.visits("ncu-timing")
    tree = [visit for visit in visits if visit[0] == TREE]
    others = [visit for visit in visits if visit[0] != TREE]
    place.attempt(visits=others)
    metrics = place.session("ncu-timing").metrics
    place.attempt(visits=tree, csv=ncu_csv(tree, metrics, kernels=2))
    finished = finish(place)
    assert finished.exit_code is ExitCode.SOME_CELLS_FAILED
    status = finished.statuses[TREE]
    assert (status.outcome, status.cause) == (Outcome.FELL_BACK, "ran the kernels of another")
    findings = find(finished)
    timing = findings.numbers.frame.query("metric == 'duration_ns'").set_index("cell")
    assert pd.isna(timing["rank"][TREE])
    assert pd.notna(timing["median"][TREE]), "what it took is shown all the same"
    assert TREE not in findings.verdicts.against_baseline
    assert "loop..small" in findings.verdicts.against_baseline
    assert sorted(timing["rank"][[PLAIN, "loop..small"]]) == [1, 2]


def test_what_the_runner_says_of_a_cell_stands_beside_its_counters(tmp_path):
    metrics = "[duration_ns, dram_read_bytes, compile_s, buffer_bytes, peak_bytes, flops]"
    place = with_space(tmp_path, metrics)
    visits = place.visits("ncu-timing")
    where = {"event": protocol.FINISHED, "phase": protocol.DESCRIBE}
    facts = {"compile_seconds": 1.25, "buffer_bytes": 8e6, "peak_bytes": 4e6, "flops": 1e9}
    place.attempt(journal=[{**where, "cell": TREE, **facts}, *measured(visits)])
    place.attempt("ncu-counters")
    report = finish(place)
    found = report.measured.summary.set_index(["cell", "metric"])["median"]
    names = ("compile_s", "buffer_bytes", "peak_bytes", "flops")
    assert [found[TREE, name] for name in names] == list(facts.values())
    assert found[TREE, "dram_read_bytes"] > 0
    assert (PLAIN, "compile_s") not in found.index, "nothing was compiled there"
    assert report.statuses[TREE].missing_metrics == ()
    assert report.statuses[PLAIN].missing_metrics == names
    assert NoticeKind.MISSING_METRICS not in kinds(report)


def test_errors_of_the_check_are_metrics(tmp_path):
    place = with_space(tmp_path, "[duration_ns, max_abs_error, max_rel_error]")
    where = {"event": protocol.FINISHED, "phase": protocol.CHECK}
    facts = [
        {**where, "cell": cell.id, "max_abs_error": 1e-6 * number, "max_rel_error": None}
        for number, cell in enumerate(place.cells, start=1)
    ]
    place.attempt(journal=[*facts, *measured(place.visits("ncu-timing"))])
    summary = finish(place).measured.summary
    errors = summary[summary["metric"] == "max_abs_error"].set_index("cell")
    assert errors["median"][PLAIN] == pytest.approx(1e-6)
    assert errors["ratio"][TREE] == pytest.approx(2.0 if place.cells[1].id == TREE else 3.0)
    assert "max_rel_error" not in set(summary["metric"])


def test_flops_and_bytes_of_the_workload_become_rates(place):
    visits = place.visits("ncu-timing")
    where = {"event": protocol.FINISHED, "phase": protocol.DESCRIBE}
    facts = [{**where, "cell": cell.id, "flops": 1e9, "bytes": 1e6} for cell in place.cells]
    place.attempt(journal=[*facts, *measured(visits)])
    samples = finish(place).measured.samples
    assert (samples["tflops"] * samples["duration_ns"]).round(3).eq(1e6).all()
    assert (samples["gbps"] * samples["duration_ns"]).round(3).eq(1e6).all()


def test_commands_are_those_of_the_first_attempts(place):
    first = place.attempt("ncu-timing")
    place.attempt("ncu-timing")
    place.attempt("ncu-counters")
    commands = finish(place).execution.commands
    assert set(commands) == {"ncu-timing", "ncu-counters"}
    assert first.name in commands["ncu-timing"]


def test_nothing_of_this_machine_is_in_what_is_shown(place):
    folder = str(place.run.path.resolve())
    place.begin(
        [BuildResult("tree", ok=False, command=f"nvcc {folder}/a", error=f"{folder}/b: no")]
    )
    blame = {PLAIN: ("crashed", f"died in {folder}/c")}
    place.attempt(result=AttemptResult("died", 1.0, blame))
    report = finish(place)
    assert folder not in repr(dataclasses.replace(report, measured=None))
    assert report.statuses[PLAIN].cause.endswith("/c")
    assert report.statuses[TREE].cause.endswith("/b: no")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("spec.yaml", "spec.yaml"),
        ("sub/../spec.yaml", "sub/../spec.yaml"),
        ("{here}/spec.yaml", "spec.yaml"),
        ("{elsewhere}/spec.yaml", "spec.yaml"),
    ],
)
def test_the_path_of_the_spec_is_one_that_others_can_type(
    place, tmp_path, monkeypatch, given, shown
):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "spec.yaml").write_text(SPEC)
    (elsewhere / "workload.py").write_text("")
    (place.folder / "sub").mkdir()
    monkeypatch.chdir(place.folder)
    path = Path(given.format(here=place.folder, elsewhere=elsewhere))
    report = assemble(place.run, load_spec(path), place.plan)
    assert report.experiment.spec_path == shown


# ---- replay --------------------------------------------------------------------------------------


def test_a_replay_gives_the_same_samples_as_the_run(place, tmp_path):
    visits = place.visits("ncu-timing")
    where = {"event": protocol.FINISHED, "phase": protocol.DESCRIBE, "cell": PLAIN}
    place.attempt(visits=visits[:3], result=None)
    place.attempt(visits=visits[2:], journal=[{**where, "flops": 5.0}, *measured(visits[2:])])
    place.attempt("ncu-counters")
    place.attempt("ncu-counters-l2_hit_sectors")
    place.attempt(visits=[(TREE, 1)], journal=[failed(TREE, "crashed")])
    live = finish(place)
    again = assemble(record(place, tmp_path / "rec"), place.loaded, place.plan, replay=True)
    assert_frame_equal(again.measured.samples, live.measured.samples)
    assert_frame_equal(again.measured.summary, live.measured.summary)
    assert again.statuses == live.statuses
    assert again.environment == live.environment
    assert again.exit_code is live.exit_code is ExitCode.SOME_CELLS_FAILED
    assert [n for n in again.notices if n.kind is not NoticeKind.REPLAYED] == list(live.notices)
    notices = find(live).notices
    assert [n for n in find(again).notices if n.kind is not NoticeKind.REPLAYED] == [
        replace(n, kind=NoticeKind.NOT_RECORDED) if n.kind is NoticeKind.NOT_MEASURED else n
        for n in notices
    ]
    assert NoticeKind.FAILED_CELLS in {notice.kind for notice in notices}


def test_a_replay_says_so_first(place, tmp_path):
    place.measure_all()
    report = assemble(record(place, tmp_path / "rec"), place.loaded, place.plan, replay=True)
    assert report.execution.replay is not None
    first = find(report).notices[0]
    assert first.kind is NoticeKind.REPLAYED
    words = f"measured on NVIDIA H200 at {CREATED} with ncu 2025.3.1, not on this machine"
    assert words in text(first)
    assert severity(first) == "warning"


def test_a_replay_says_of_missing_cells_that_they_are_not_in_the_recording(place, tmp_path):
    recording = record(place, tmp_path / "rec")  # of nothing: no cell was measured
    live = assemble(place.run, place.loaded, place.plan)
    replayed = assemble(recording, place.loaded, place.plan, replay=True)
    missing = {NoticeKind.NOT_MEASURED, NoticeKind.NOT_RECORDED}
    (here,) = (one for one in find(live).notices if one.kind in missing)
    (there,) = (one for one in find(replayed).notices if one.kind in missing)
    assert here.kind is NoticeKind.NOT_MEASURED
    assert there.kind is NoticeKind.NOT_RECORDED
    assert here.values == there.values


def test_a_replay_names_the_processor_where_there_was_no_gpu(tmp_path):
    for number, (cpu, shown) in enumerate([("Some CPU", "Some CPU"), (None, "an unnamed machine")]):
        place = Workplace(tmp_path / f"{number}", environment=Environment(cpu=cpu))
        replay = finish(place, replay=True).execution.replay
        assert (replay["gpu"], replay["ncu"]) == (shown, "the timer")


def test_a_replay_does_not_depend_on_the_keys_of_today(place, tmp_path):
    place.measure_all()
    recording = record(place, tmp_path / "rec")
    (place.folder / "workload.py").write_text("# edited since\n")
    place.environment = replace(H200, driver="another")
    place.begin()
    assert len(finish(place).measured.samples) == 0
    report = assemble(recording, place.loaded, place.plan, replay=True)
    # blocks of the three cells of a problem, the baseline twice; and two sessions of counters
    assert len(report.measured.samples) == 2 * (2 * 4 + 3 + 3)


def test_a_replay_leaves_out_what_was_measured_before_an_edit(place, tmp_path):
    old = ncu_csv(place.visits("ncu-timing"), place.session("ncu-timing").metrics)
    place.attempt(
        csv=old.replace("kernel_0", "before_the_edit"), keys=dict.fromkeys(place.keys, "x")
    )
    place.attempt(visits=place.visits("ncu-timing")[:6])
    live = finish(place).measured.samples
    report = assemble(record(place, tmp_path / "rec"), place.loaded, place.plan, replay=True)
    assert_frame_equal(report.measured.samples, live)
    assert not live["kernel_names"].str.contains("before_the_edit").any()


def test_cells_that_the_recording_does_not_have_are_not_measured(place, tmp_path):
    place.measure_all()
    recording = record(place, tmp_path / "rec")
    wider = Workplace(tmp_path / "wider", SPEC.replace("loop]", "loop, fourth]"))
    report = assemble(recording, wider.loaded, wider.plan, replay=True)
    unmeasured = {c for c, s in report.statuses.items() if s.outcome is Outcome.NOT_MEASURED}
    assert unmeasured == {"fourth..small", "fourth..large"}
    # blocks of the three cells of a problem, the baseline twice; and two sessions of counters
    assert len(report.measured.samples) == 2 * (2 * 4 + 3 + 3)


def test_a_folder_without_a_run_is_refused(place, tmp_path):
    with pytest.raises(UsageError, match="not a run folder"):
        assemble(RunFolder(tmp_path), place.loaded, place.plan)
    (tmp_path / "run.json").mkdir()
    with pytest.raises(UsageError, match=r"run\.json: cannot be read: Is a directory"):
        assemble(RunFolder(tmp_path), place.loaded, place.plan)


FP16_SPEC = """\
name: sums
workload: ./workload.py
variants: {list: [plain, tree]}
problems: {matrix: {dtype: [float16], size: [1, 2]}}
collect: {blocks: 2, metrics: [tensor_roofline], explain: false}
"""


def test_operations_that_several_sessions_counted_are_one_metric_with_its_roof(tmp_path):
    """Three parts are planned, because the counter of all takes three passes on an H200."""
    place = Workplace(tmp_path / "place", FP16_SPEC)
    parts = CATALOGUE["tensor_fp16_ops"].parts
    assert sum(bool({*parts} & {*session.metrics}) for session in place.plan.sessions) == 2
    place.measure_all()
    report = finish(place)
    values = report.measured.summary.pivot_table(index="cell", columns="metric", values="median")
    assert list(values["tensor_fp16_ops"]) == list(values[[*parts]].sum(axis=1))
    assert values["roof_tensor_fp16_pct"].gt(0).all()
    assert not any(status.missing_metrics for status in report.statuses.values())


def test_a_replay_does_not_miss_what_was_asked_of_other_cells_only(tmp_path):
    """Where the capability of the recorded GPU is not planned for, operations have no parts."""
    spec = FP16_SPEC.replace("[float16]", "[float16, bfloat16]")
    place = Workplace(tmp_path / "place", spec)
    place.measure_all()
    plan = make_plan(place.loaded, replace(place.space, capability=None))
    planned = {name for session in plan.sessions for name in session.metrics}
    assert not planned & {*CATALOGUE["tensor_fp16_ops"].parts}
    report = assemble(record(place, tmp_path / "rec"), place.loaded, plan, replay=True)
    assert not any(status.missing_metrics for status in report.statuses.values())
