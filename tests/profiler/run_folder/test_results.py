"""From attempts on disk to samples and statuses."""

import csv
import io
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from run_folders import SPEC, Workplace, external_csv, failed, measured, ncu_csv

from profiler.metrics.queries import ncu_names
from profiler.model import BuildResult, Outcome, Visit
from profiler.notices import NoticeKind, text
from profiler.planning.space import Space
from profiler.run_folder.archive import open_run
from profiler.run_folder.folder import (
    JOURNAL_FILE,
    AttemptResult,
    KernelCheck,
    finish_attempt,
)
from profiler.run_folder.load.attempts import AttemptReader
from profiler.run_folder.load.notices import notices_of
from profiler.run_folder.load.outcomes import CellFailure, failures, gather
from profiler.run_folder.recording import write_recording
from profiler.runner import protocol

PLAIN, TREE, LOOP = "plain..small", "tree..small", "loop..small"
FINISHED = AttemptResult("finished", 1.0)


def outcomes(results):
    return {cell: status.outcome for cell, status in results.statuses.items()}


def blocks(results, session="ncu-timing", arm=0):
    """Blocks of each cell that has samples of a session."""
    samples = results.samples
    own = samples[(samples["session"] == session) & (samples["arm"] == arm)]
    return {cell: sorted(rows["block"]) for cell, rows in own.groupby("cell")}


# ---- what counts as measured ---------------------------------------------------------------------


def test_a_whole_run(place):
    place.measure_all()
    results = place.results()
    assert set(outcomes(results).values()) == {Outcome.MEASURED}
    assert blocks(results) == {cell.id: [0, 1] for cell in place.cells}
    assert blocks(results, arm=1) == {PLAIN: [0, 1], "plain..large": [0, 1]}
    for counters in ("ncu-counters", "ncu-counters-l2_hit_sectors"):
        assert blocks(results, counters) == {cell.id: [0] for cell in place.cells}
        assert blocks(results, counters, arm=1) == {}
    cycles = results.samples.groupby("session")["cycles"]
    assert cycles.count().to_dict() == {
        "ncu-timing": 16,  # no confirmation counts them
        "ncu-counters": 0,
        "ncu-counters-l2_hit_sectors": 0,
    }
    assert (results.cells, results.notices) == (place.cells, ())
    assert results.attributes["device__attribute_multiprocessor_count"] == 132


def test_nothing_measured_yet(place):
    results = place.results()
    assert set(outcomes(results).values()) == {Outcome.NOT_MEASURED}
    assert len(results.samples) == 0


def test_counters_alone_do_not_make_a_cell_measured_where_others_have_times(place):
    place.attempt("ncu-counters")
    assert set(outcomes(place.results()).values()) == {Outcome.MEASURED}
    place.attempt("ncu-timing", visits=[(PLAIN, 0), (PLAIN, 1)])
    measured_cells = [c for c, o in outcomes(place.results()).items() if o is Outcome.MEASURED]
    assert measured_cells == [PLAIN]


def test_samples_of_a_cell_with_another_key_are_not_used(place):
    place.attempt(keys={**place.keys, PLAIN: "before the kernel was edited"})
    results = place.results()
    assert PLAIN not in blocks(results)
    assert len(blocks(results)) == 5
    assert outcomes(results)[PLAIN] is Outcome.NOT_MEASURED


def test_failures_and_facts_of_a_cell_with_another_key_are_not_used(place):
    old = {**place.keys, PLAIN: "old", TREE: "old"}
    place.attempt(
        keys=old,
        visits=[(PLAIN, 0), (TREE, 0), (LOOP, 0)],
        journal=[failed(PLAIN, "raised"), failed(LOOP, "raised", "on purpose")],
        result=AttemptResult("died", 1.0, {TREE: ("crashed", "SIGSEGV")}),
    )
    found = outcomes(place.results())
    assert found[PLAIN] is found[TREE] is Outcome.NOT_MEASURED
    assert found[LOOP] is Outcome.RAISED
    assert failures(place.plan, place.load()) == {LOOP: CellFailure(Outcome.RAISED, "on purpose")}


def test_a_cell_that_is_in_no_key_of_today_is_left_out(place):
    place.attempt()
    assert place.load(keys={})[0].visits == set()
    today = {PLAIN: place.keys[PLAIN]}
    of_the_baseline = {Visit(PLAIN, block, arm) for block in (0, 1) for arm in (0, 1)}
    assert place.load(keys=today)[0].visits == of_the_baseline


def test_a_reader_reads_an_attempt_again_only_where_other_cells_of_it_count(place):
    folder = place.attempt(result=None)
    reader = AttemptReader()
    before = reader.load(place.run.attempt(folder), place.keys, "9.0")
    assert reader.load(place.run.attempt(folder), place.keys, "9.0") is before
    finish_attempt(folder, replace(FINISHED, gpu_processes={7: None}))
    ended = reader.load(place.run.attempt(folder), place.keys, "9.0")
    assert ended.samples is before.samples
    assert [notice.kind for notice in notices_of(before)] == []
    assert [notice.kind for notice in notices_of(ended)] == [NoticeKind.GPU_SHARED]
    assert reader.load(
        place.run.attempt(folder), {PLAIN: place.keys[PLAIN]}, "9.0"
    ).current_cells == {PLAIN}


@pytest.mark.parametrize(("flush", "passes", "count"), [(True, 2, 6), (True, 1, 0), (False, 2, 0)])
def test_several_passes_behind_one_flush_are_told(place, flush, passes, count):
    name = "ncu-counters"
    rows = csv.reader(ncu_csv(place.visits(name), place.session(name).metrics).splitlines()[1:])
    header, units, *launches = rows
    column = header.index("profiler__replayer_passes")
    for launch in launches:
        launch[column] = str(passes)
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([header, units, *launches])
    journal = measured(place.visits(name))
    journal[0] |= {"flush": flush}
    place.attempt(name, csv=text.getvalue(), journal=journal)
    notices = [n for n in place.results().notices if n.kind is NoticeKind.PASSES_UNFLUSHED]
    assert [notice.values for notice in notices] == [
        {"session": name, "count": count, "total": 6}
    ] * bool(count)


@pytest.mark.parametrize(
    ("flush", "control", "count"), [(False, "launch", 6), (True, "launch", 0), (False, "all", 0)]
)
def test_cells_whose_kernels_were_counted_with_other_caches_are_told(place, flush, control, count):
    name = "ncu-counters"
    visits, metrics = place.visits(name), place.session(name).metrics
    journal = measured(visits)
    journal[0] |= {"flush": flush}
    place.attempt(name, csv=ncu_csv(visits, metrics, kernels=2), journal=journal)
    environment = replace(place.environment, cache_control=control)
    results = gather(place.plan, place.builds, place.load(), environment)
    notices = [n for n in results.notices if n.kind is NoticeKind.KERNELS_REPLAYED]
    assert [notice.values for notice in notices] == [{"count": count}] * bool(count)


def test_a_file_that_could_not_be_read_is_named_once_its_session_has_ended(place):
    folder = place.attempt(csv="no table", result=None)
    reader = AttemptReader()
    before = reader.load(place.run.attempt(folder), place.keys, "9.0")
    assert [*notices_of(before)] == []
    finish_attempt(folder, FINISHED)
    ended = reader.load(place.run.attempt(folder), place.keys, "9.0")
    direct = AttemptReader().load(place.run.attempt(folder), place.keys, "9.0")
    assert [*notices_of(ended)] == [*notices_of(direct)]
    assert [notice.kind for notice in notices_of(ended)] == [NoticeKind.CSV_UNREADABLE]


def test_an_attempt_of_a_killed_profiler_is_loaded(place):
    place.attempt(visits=[(PLAIN, 0), (TREE, 0)], result=None)
    results = place.results()
    assert blocks(results) == {PLAIN: [0], TREE: [0]}
    (notice, _) = results.notices
    assert notice.kind is NoticeKind.SESSION_DIED
    assert "Session ncu-timing.001 ended early (the profiler was stopped)" in text(notice)
    assert notice.values["kept"] == 2


@pytest.mark.parametrize("ended", [True, False])
def test_a_complaint_of_a_tool_that_was_stopped_is_not_told_twice(place, ended):
    csv = ncu_csv([(PLAIN, 0)], place.session("ncu-timing").metrics)
    complaint = "==ERROR== The application returned an error code (9).\n"
    result = {} if ended else {"result": None}
    place.attempt(visits=[(PLAIN, 0)], csv=complaint + csv, **result)
    kinds = [notice.kind for notice in place.results().notices]
    stopped = [NoticeKind.SESSION_DIED, NoticeKind.KERNELS_UNCHECKED]
    assert kinds == ([NoticeKind.CSV_TOOL_MESSAGE] if ended else stopped)


def test_a_journal_cut_off_in_the_middle_keeps_what_is_whole(place):
    folder = place.attempt(visits=[(PLAIN, 0), (TREE, 0)], result=None)
    journal = folder / JOURNAL_FILE
    whole = journal.read_bytes()
    last = whole.rstrip().rfind(b"\n")
    for end in range(last + 2, len(whole) - 1):
        journal.write_bytes(whole[:end])
        assert place.load()[0].visits == {Visit(PLAIN, 0)}
    journal.write_bytes(whole[:-1])  # only the end of the line is gone
    assert len(place.load()[0].visits) == 2


def test_rows_of_visits_that_did_not_finish_are_ignored(place):
    where = {"cell": TREE, "block": 0, "phase": protocol.MEASURE}
    started = {"event": protocol.STARTED, **where}
    warm = {"event": protocol.FINISHED, **where, "phase": protocol.WARMUP}
    csv = ncu_csv([(PLAIN, 0), (TREE, 0)], place.session("ncu-timing").metrics)
    journal = [*measured([(PLAIN, 0)]), warm, started]
    place.attempt(journal=journal, csv=csv, result=AttemptResult("died", 1.0))
    assert place.load()[0].visits == {Visit(PLAIN, 0)}
    assert blocks(place.results()) == {PLAIN: [0]}


def test_a_row_without_values_is_no_measurement(place):
    visits = [(PLAIN, 0), (TREE, 0)]
    metrics = place.session("ncu-timing").metrics
    csv = ncu_csv(visits, metrics, without_values=[(TREE, 0)])
    assert csv.count('"nan"') > 0
    place.attempt(visits=visits, csv=csv, result=AttemptResult("died", 1.0))
    assert place.load()[0].visits == {Visit(PLAIN, 0)}
    assert blocks(place.results()) == {PLAIN: [0]}


@pytest.mark.parametrize(("cause", "said"), [("finished", 1), ("died", 0)])
def test_a_csv_that_cannot_be_read_is_said_where_the_session_ended_well(place, cause, said):
    """A tool that was killed leaves a log without a table; a session that finished does not."""
    folder = place.attempt(result=AttemptResult(cause, 1.0))
    (folder / "ncu.csv").unlink(missing_ok=True)
    (folder / "ncu.csv.gz").write_bytes(b"garbage")
    (loaded,) = place.load()
    assert loaded.visits == set()
    kinds = [notice.kind for notice in place.results().notices]
    assert kinds.count(NoticeKind.CSV_UNREADABLE) == said


@pytest.mark.parametrize(("visits", "said"), [([], 0), ([(PLAIN, 0)], 1)])
def test_a_csv_without_rows_is_what_a_session_without_visits_leaves(place, visits, said):
    journal = [*measured(visits), failed(TREE, "wrong_result")]
    place.attempt(journal=journal, csv="==WARNING== No kernels were profiled.\n")
    (loaded,) = place.load()
    assert loaded.visits == set()
    kinds = [notice.kind for notice in place.results().notices]
    assert kinds.count(NoticeKind.CSV_UNREADABLE) == said


def test_a_csv_cut_off_in_the_middle_keeps_whole_rows_and_says_so(place):
    visits = place.visits("ncu-timing")
    csv = ncu_csv(visits, place.session("ncu-timing").metrics)
    place.attempt(csv=csv[:-40], result=AttemptResult("died", 1.0))
    (loaded,) = place.load()
    assert loaded.visits == {Visit(*visit) for visit in visits[:-1]}
    assert [notice.kind for notice in notices_of(loaded)] == [NoticeKind.CSV_TRUNCATED]
    files = [notice.values.get("file") for notice in place.results().notices]
    assert "ncu-timing.001/ncu.csv.gz" in files


@pytest.mark.parametrize("csv", ["", "==PROF== Connected\n", '"ID","Kern', "\x00\xff"])
def test_a_log_without_a_table_holds_nothing(place, csv):
    place.attempt(csv=csv, result=None)
    assert place.load()[0].visits == set()


def test_a_visit_that_two_attempts_measured_counts_once(place):
    place.attempt(visits=[(PLAIN, 0), (PLAIN, 1)])
    first = place.results().samples
    metrics = place.session("ncu-timing").metrics
    csv = ncu_csv([(PLAIN, 0), (TREE, 0)], metrics).replace("kernel_0", "second_time")
    place.attempt(visits=[(PLAIN, 0), (TREE, 0)], csv=csv)
    results = place.results()
    assert blocks(results) == {PLAIN: [0, 1], TREE: [0]}
    kept = results.samples[results.samples["cell"] == PLAIN].reset_index(drop=True)
    assert kept.equals(first)


def test_both_arms_of_a_block_count(place):
    place.attempt(visits=[(PLAIN, 0), (PLAIN, 0, 1)])
    place.attempt(visits=[(PLAIN, 0, 1), (PLAIN, 1, 1)])
    assert place.load()[1].visits == {Visit(PLAIN, 0, 1), Visit(PLAIN, 1, 1)}
    samples = place.results().samples
    assert list(zip(samples["block"], samples["arm"], strict=True)) == [(0, 0), (0, 1), (1, 1)]
    assert samples["duration_ns"].nunique() == 3


def test_an_arm_that_did_not_finish_does_not_take_the_other_with_it(place):
    csv = ncu_csv([(PLAIN, 0), (PLAIN, 0, 1)], place.session("ncu-timing").metrics)
    place.attempt(visits=[(PLAIN, 0)], journal=measured([(PLAIN, 0, 1)]), csv=csv)
    assert place.load()[0].visits == {Visit(PLAIN, 0, 1)}


def test_kernels_of_one_range_are_one_sample(place):
    csv = ncu_csv([(PLAIN, 0)], place.session("ncu-timing").metrics, kernels=3)
    place.attempt(visits=[(PLAIN, 0)], csv=csv)
    (row,) = place.results().samples.to_dict("records")
    assert row["kernels"] == 3
    assert row["kernel_names"].count("kernel_") == 3


@pytest.mark.parametrize("name", ["timer", "torch_kernels", "wall_clock"])
def test_times_of_timers_stand_in_the_journal(tmp_path, name):
    spec = SPEC.replace("blocks: 2,", f"blocks: 2, collectors: {name},")
    place = Workplace(tmp_path / "place", spec)
    visits, times = [(PLAIN, 0), (PLAIN, 1)], [100.0, 110.0]
    place.attempt(
        name.replace("_", "-"), visits=visits, journal=measured(visits, durations_ns=times)
    )
    results = place.results()
    own = results.samples
    assert set(own["collector"]) == {name}
    assert list(zip(own["block"], own["repeat"], own["duration_ns"], strict=True)) == [
        *((0, 0, 100.0), (0, 1, 110.0)),
        *((1, 0, 100.0), (1, 1, 110.0)),
    ]
    assert results.statuses[PLAIN].outcome is Outcome.MEASURED
    assert results.statuses[PLAIN].missing_metrics == ()


# ---- what failed ---------------------------------------------------------------------------------


def test_failures_of_the_journal_become_statuses(place):
    place.attempt(
        visits=[(PLAIN, 0), (TREE, 0), (LOOP, 0)],
        journal=[
            *measured([(PLAIN, 0)]),
            failed(TREE, "wrong_result", "3 wrong", max_abs_error=0.5, max_rel_error=math.inf),
            failed(LOOP, "out_of_memory", "asked for 9 bytes"),
            failed(LOOP, "raised", "said later"),
            failed("unknown..cell", "raised"),
        ],
    )
    statuses = place.results().statuses
    assert statuses[PLAIN].outcome is Outcome.MEASURED
    assert statuses[TREE].outcome is Outcome.WRONG_RESULT
    facts = statuses[TREE].facts
    assert (facts.max_abs_error, facts.max_rel_error) == (0.5, math.inf)
    assert statuses[TREE].cause == "3 wrong"
    assert statuses[LOOP].outcome is Outcome.OUT_OF_MEMORY
    assert "unknown..cell" not in statuses


def test_a_failure_under_a_shorter_time_limit_does_not_stand():
    hung = CellFailure(Outcome.TIMED_OUT, "no answer", time_limit_s=10.0)
    assert hung.is_lasting(10.0)
    assert hung.is_lasting(5.0)
    assert not hung.is_lasting(20.0)
    assert CellFailure(Outcome.TIMED_OUT, "no answer").is_lasting(20.0)
    assert CellFailure(Outcome.RAISED, "x", time_limit_s=10.0).is_lasting(20.0)


def test_the_last_attempt_that_worked_on_a_cell_decides(place):
    hung = AttemptResult("timed_out", 1.0, {PLAIN: ("timed_out", "no answer")})
    place.attempt(visits=[(PLAIN, 0)], journal=[], result=hung)
    assert outcomes(place.results())[PLAIN] is Outcome.TIMED_OUT
    started = {"event": protocol.STARTED, "cell": PLAIN, "phase": protocol.PREPARE}
    place.attempt(visits=[(PLAIN, 0)], journal=[started, *measured([(PLAIN, 0)])])
    assert outcomes(place.results())[PLAIN] is Outcome.MEASURED


def test_an_attempt_that_only_declared_the_work_of_a_problem_has_not_tried_its_cells(place):
    hung = AttemptResult("timed_out", 1.0, {PLAIN: ("timed_out", "no answer")})
    place.attempt(visits=[(PLAIN, 0)], journal=measured([(PLAIN, 0)]), result=hung)
    started = {"event": protocol.STARTED, "cell": PLAIN, "phase": protocol.DECLARE}
    place.attempt(visits=[(PLAIN, 1)], journal=[started, {**started, "event": protocol.FINISHED}])
    assert outcomes(place.results())[PLAIN] is Outcome.TIMED_OUT
    place.attempt(
        visits=[(PLAIN, 1)], journal=[started, failed(PLAIN, "raised", phase=protocol.DECLARE)]
    )
    assert outcomes(place.results())[PLAIN] is Outcome.RAISED


def test_another_session_does_not_undo_a_failure(place):
    place.attempt("ncu-counters", visits=[(PLAIN, 0)], journal=[failed(PLAIN, "raised", "late")])
    started = {"event": protocol.STARTED, "cell": PLAIN, "phase": protocol.PREPARE}
    place.attempt(visits=[(PLAIN, 0)], journal=[started, *measured([(PLAIN, 0)])])
    assert outcomes(place.results())[PLAIN] is Outcome.RAISED


def test_failures_of_the_end_of_a_process_become_statuses(place):
    blame = {PLAIN: ("timed_out", "no answer"), TREE: ("illegal_address", "fault")}
    place.attempt(
        visits=[(PLAIN, 0), (TREE, 0)],
        journal=[failed(TREE, "raised", "seen first")],
        result=AttemptResult("timed_out", 1.0, blame),
    )
    found = failures(place.plan, place.load())
    assert found == {
        PLAIN: CellFailure(Outcome.TIMED_OUT, "no answer"),
        TREE: CellFailure(Outcome.RAISED, "seen first"),
    }
    assert {c: o for c, o in outcomes(place.results()).items() if o.failed} == {
        PLAIN: Outcome.TIMED_OUT,
        TREE: Outcome.RAISED,
    }


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome.failed])
def test_every_outcome_of_a_failure_can_be_journaled(place, outcome):
    place.attempt(visits=[(PLAIN, 0)], journal=[failed(PLAIN, outcome.value)])
    assert outcomes(place.results())[PLAIN] is outcome


def test_a_failure_outweighs_samples_from_before_it(place):
    place.attempt()
    place.attempt(visits=[(PLAIN, 1)], journal=[failed(PLAIN, "raised")], csv="")
    results = place.results()
    assert outcomes(results)[PLAIN] is Outcome.RAISED
    assert blocks(results)[PLAIN] == [0, 1]


def test_what_a_check_found_out_is_kept(place):
    where = {"event": protocol.FINISHED, "cell": PLAIN}
    facts = [
        {
            **where,
            "phase": protocol.CHECK,
            "max_abs_error": 1e-6,
            "max_rel_error": None,
            "result_dtypes": ["float16"],
        },
        {**where, "phase": protocol.DESCRIBE, "flops": 1e9, "bytes": 4096.0},
    ]
    place.attempt(visits=[(PLAIN, 0)], journal=[*facts, *measured([(PLAIN, 0)])])
    facts = place.results().statuses[PLAIN].facts
    assert (facts.max_abs_error, facts.max_rel_error) == (1e-6, None)
    assert facts.result_dtypes == ("float16",)
    assert (facts.flops, facts.bytes) == (1e9, 4096.0)


def described(cell, **facts):
    return {"event": protocol.FINISHED, "cell": cell, "phase": protocol.DESCRIBE, **facts}


def test_compilation_is_as_long_as_in_the_session_where_it_took_longest(place):
    """Later sessions find what was compiled in a cache."""
    seconds = {"ncu-timing": 1.5, "ncu-counters": 0.25, "ncu-counters-l2_hit_sectors": 0.5}
    for session, each in seconds.items():
        facts = {"compile_seconds": each, "buffer_bytes": 4096.0, "peak_bytes": 2048.0}
        journal = [described(PLAIN, **facts), *measured([(PLAIN, 0)])]
        place.attempt(session, visits=[(PLAIN, 0)], journal=journal)
    facts = place.results().statuses[PLAIN].facts
    assert (facts.compile_seconds, facts.buffer_bytes, facts.peak_bytes) == (1.5, 4096.0, 2048.0)
    assert place.results().statuses[TREE].facts.compile_seconds is None


def test_a_session_that_says_nothing_of_compilation_takes_nothing_back(place):
    first = [described(PLAIN, compile_seconds=1.5), *measured([(PLAIN, 0)])]
    place.attempt(visits=[(PLAIN, 0)], journal=first)
    later = [described(PLAIN, flops=8.0), *measured([(PLAIN, 0)])]
    place.attempt("ncu-counters", visits=[(PLAIN, 0)], journal=later)
    status = place.results().statuses[PLAIN]
    assert (status.facts.compile_seconds, status.facts.flops) == (1.5, 8.0)


def test_only_what_passed_its_check_under_todays_key_counts_as_checked(place):
    where = {"phase": protocol.CHECK, "event": protocol.FINISHED}
    place.attempt(
        visits=[(PLAIN, 0), (TREE, 0), (LOOP, 0)],
        keys={**place.keys, PLAIN: "old"},
        journal=[
            {**where, "cell": PLAIN},
            {**where, "cell": TREE},
            {**where, "cell": LOOP, "event": protocol.STARTED},
            failed(LOOP, "wrong_result"),
        ],
    )
    assert place.load()[0].checked_cells == {TREE}


def test_a_compile_error_is_the_fate_of_all_cells_of_a_variant(place):
    place.begin([BuildResult("tree", ok=False, error="sum.cu(3): error: no")])
    place.measure_all()
    statuses = place.results().statuses
    for cell in ("tree..small", "tree..large"):
        assert statuses[cell].outcome is Outcome.COMPILE_FAILED
        assert statuses[cell].cause == "sum.cu(3): error: no"
    assert statuses[PLAIN].outcome is Outcome.MEASURED


# ---- no kernel -----------------------------------------------------------------------------------


def unseen_attempt(place, seen, result=FINISHED):
    visits = [(PLAIN, 0), (PLAIN, 1), (TREE, 0), (TREE, 1)]
    csv = ncu_csv(seen, place.session("ncu-timing").metrics)
    place.attempt(visits=visits, csv=csv, result=result)
    return place.load()[-1]


def test_a_cell_of_which_the_tool_saw_nothing_launched_no_kernel(place):
    loaded = unseen_attempt(place, seen=[(PLAIN, 0), (PLAIN, 1)])
    assert loaded.cells_without_kernel() == {TREE}
    status = place.results().statuses[TREE]
    assert status.outcome is Outcome.NO_KERNEL
    assert "launched no kernel" in status.cause


def test_a_cell_of_which_one_visit_was_lost_is_no_failure(place):
    loaded = unseen_attempt(place, seen=[(PLAIN, 0), (PLAIN, 1), (TREE, 1)])
    assert loaded.cells_without_kernel() == set()
    assert outcomes(place.results())[TREE] is Outcome.MEASURED


@pytest.mark.parametrize("result", [None, AttemptResult("died", 1.0)])
def test_a_session_that_died_proves_nothing_about_what_was_not_seen(place, result):
    loaded = unseen_attempt(place, seen=[(PLAIN, 0)], result=result)
    assert loaded.cells_without_kernel() == set()
    assert outcomes(place.results())[TREE] is Outcome.NOT_MEASURED


def test_a_visit_that_did_not_finish_was_not_to_be_seen(place):
    csv = ncu_csv([(PLAIN, 0)], place.session("ncu-timing").metrics)
    journal = [*measured([(PLAIN, 0)]), failed(TREE, "wrong_result")]
    place.attempt(visits=[(PLAIN, 0), (TREE, 0)], journal=journal, csv=csv)
    assert place.load()[0].cells_without_kernel() == set()


# ---- aliases -------------------------------------------------------------------------------------


def with_alias(place):
    same = [BuildResult(v, ok=True, program="same") for v in ("plain", "tree")]
    place.begin([*same, BuildResult("loop", ok=True, program="other")])


def test_a_twin_shares_what_was_measured(place):
    with_alias(place)
    own = [visit for visit in place.visits("ncu-timing") if not visit[0].startswith("tree")]
    where = {"event": protocol.FINISHED, "cell": PLAIN, "phase": protocol.DESCRIBE}
    place.attempt(visits=own, journal=[{**where, "flops": 8.0, "bytes": None}, *measured(own)])
    status = place.results().statuses[TREE]
    assert (status.outcome, status.duplicate_of) == (Outcome.DUPLICATE, PLAIN)
    assert (status.cell, status.facts.flops) == (TREE, 8.0)
    assert status.missing_metrics == ("l2_bytes", "l2_hit_sectors")


@pytest.mark.parametrize("outcome", [Outcome.WRONG_RESULT, Outcome.CRASHED])
def test_a_twin_shares_the_failure(place, outcome):
    with_alias(place)
    place.attempt(visits=[(PLAIN, 0)], journal=[failed(PLAIN, outcome.value, "bad")])
    status = place.results().statuses[TREE]
    assert (status.outcome, status.cause, status.duplicate_of) == (outcome, "bad", PLAIN)


def test_a_twin_of_what_is_not_measured_is_not_measured(place):
    with_alias(place)
    assert outcomes(place.results())[TREE] is Outcome.NOT_MEASURED


# ---- kernels that are not those of the variant ---------------------------------------------------


def says(check_kernels):
    """A space that says this of kernels."""
    return Space(SimpleNamespace(check_kernels=check_kernels))


def test_a_cell_whose_kernels_are_not_its_own_fell_back(place):
    asked = []

    def check_kernels(variant, problem, kernels):
        asked.append(kernels)
        return "of another" if len(kernels) > 1 else None

    place.space = says(check_kernels)
    metrics = place.session("ncu-timing").metrics
    place.attempt(visits=[(PLAIN, 0)])
    place.attempt(visits=[(TREE, 0)], csv=ncu_csv([(TREE, 0)], metrics, kernels=2))
    results = place.results()
    assert outcomes(results)[PLAIN] is Outcome.MEASURED
    status = results.statuses[TREE]
    assert (status.outcome, status.cause) == (Outcome.FELL_BACK, "of another")
    assert outcomes(results)[LOOP] is Outcome.NOT_MEASURED
    assert sorted(map(len, asked)) == [1, 2], "nothing was seen of the others"
    assert blocks(results)[TREE] == [0], "what was measured is kept"
    assert failures(place.plan, place.load())[TREE].is_lasting(1e9), "it is not visited again"


def test_the_space_is_given_parameters_and_names_of_kernels(tmp_path):
    spec = SPEC.replace("[plain, tree, loop]", "[{name: plain, params: {way: 1}}]")
    spec = spec.replace("[small, large]", "[{name: small, params: {n: 7}}]")
    place = Workplace(tmp_path / "place", spec)
    asked = []
    place.space = says(lambda *arguments: asked.append(arguments))
    place.attempt(visits=[(PLAIN, 0)])
    ((variant, problem, kernels),) = asked
    assert (variant, problem) == ({"way": 1}, {"n": 7})
    assert [name.partition("(")[0] for name in kernels] == ["kernel_0"]


def test_a_failure_is_not_called_a_fallback(place):
    place.space = says(lambda *_: "of another")
    place.attempt(visits=[(PLAIN, 0)])
    place.attempt(visits=[(PLAIN, 1)], journal=[failed(PLAIN, "raised")], csv="")
    assert outcomes(place.results())[PLAIN] is Outcome.RAISED


def test_the_timer_sees_no_kernels_and_so_nothing_falls_back(tmp_path):
    spec = SPEC.replace("collect: {", "collect: {collectors: timer, ")
    place = Workplace(tmp_path / "timer", spec)
    place.space = says(lambda *_: "of another")
    journal = measured([(PLAIN, 0)], durations_ns=[1.0])
    place.attempt("timer", visits=[(PLAIN, 0)], journal=journal)
    assert outcomes(place.results())[PLAIN] is Outcome.MEASURED


def test_a_twin_of_what_fell_back_fell_back(place):
    with_alias(place)
    place.space = says(lambda *_: "of another")
    own = [visit for visit in place.visits("ncu-timing") if not visit[0].startswith("tree")]
    place.attempt(visits=own)
    status = place.results().statuses[TREE]
    assert (status.outcome, status.cause) == (Outcome.FELL_BACK, "of another")
    assert status.duplicate_of == PLAIN


def test_kernels_that_nobody_asked_about_are_named_until_somebody_did(place):
    folder = place.attempt(visits=[(PLAIN, 0), (TREE, 0)], result=None)
    place.space = says(lambda variant, problem, kernels: "of another")
    (died, unchecked) = place.results().notices
    assert died.kind is NoticeKind.SESSION_DIED
    assert unchecked.kind is NoticeKind.KERNELS_UNCHECKED
    assert unchecked.values == {"session": "ncu-timing.001", "count": 2}
    place.check_kernels(folder)
    assert [notice.kind for notice in place.results().notices] == [NoticeKind.SESSION_DIED]
    assert outcomes(place.results())[PLAIN] is Outcome.FELL_BACK


def test_cells_of_another_key_stay_undecided(place):
    today = place.keys
    folder = place.attempt(visits=[(PLAIN, 0), (TREE, 0)], result=None)
    place.space = says(lambda variant, problem, kernels: "of another")
    place.keys = {**today, TREE: "edited"}
    place.check_kernels(folder)
    check = place.run.attempt(folder).kernel_check
    assert check == KernelCheck({PLAIN: "of another"}, undecided=(TREE,))
    place.keys = today
    assert [loaded.unchecked_cells() for loaded in place.load()] == [{TREE}]
    place.space = says(lambda variant, problem, kernels: None)
    place.check_kernels(folder)
    check = place.run.attempt(folder).kernel_check
    assert check == KernelCheck({PLAIN: "of another"}), "what was decided stays"


def test_a_csv_that_is_lost_or_damaged_later_blames_nobody(place):
    folder = place.attempt(visits=[(PLAIN, 0), (TREE, 0)])
    (folder / "ncu.csv.gz").write_bytes(b"no gzip")
    results = place.results()
    assert {outcomes(results)[cell] for cell in (PLAIN, TREE)} == {Outcome.NOT_MEASURED}
    assert failures(place.plan, place.load()) == {}, "so that they are measured again"
    (folder / "ncu.csv.gz").unlink()
    assert {outcomes(place.results())[cell] for cell in (PLAIN, TREE)} == {Outcome.NOT_MEASURED}


def test_that_a_tool_saw_no_kernel_is_kept_whatever_becomes_of_its_csv(place):
    metrics = place.session("ncu-timing").metrics
    csv = ncu_csv([(PLAIN, 0)], metrics)
    folder = place.attempt(visits=[(PLAIN, 0), (TREE, 0)], csv=csv)
    assert outcomes(place.results())[TREE] is Outcome.NO_KERNEL
    (folder / "ncu.csv.gz").unlink()
    assert outcomes(place.results())[TREE] is Outcome.NO_KERNEL
    assert outcomes(place.results())[PLAIN] is Outcome.NOT_MEASURED


# ---- missing metrics -----------------------------------------------------------------------------


def test_a_metric_that_did_not_come_back_is_named_in_the_cell(place):
    place.attempt()
    place.attempt("ncu-counters-l2_hit_sectors")
    session = place.session("ncu-counters")
    lost = [name for name in ncu_names(session.metrics, "9.0") if name.startswith("lts__")]
    csv = ncu_csv(place.visits("ncu-counters"), session.metrics, drop=lost)
    place.attempt("ncu-counters", csv=csv)
    results = place.results()
    assert {status.missing_metrics for status in results.statuses.values()} == {("l2_bytes",)}
    assert set(outcomes(results).values()) == {Outcome.MEASURED}


def test_a_metric_that_one_cell_lacks_is_named_there_only(place):
    place.attempt()
    place.attempt("ncu-counters")
    place.attempt("ncu-counters-l2_hit_sectors", visits=[(PLAIN, 0)])
    lacking = {c: s.missing_metrics for c, s in place.results().statuses.items()}
    assert lacking.pop(PLAIN) == ()
    assert set(lacking.values()) == {("l2_hit_sectors",)}


def test_a_metric_that_is_asked_of_other_cells_only_is_not_missing(place):
    """As tensor operations on bf16 are, of cells that work on fp16."""
    place.attempt()
    place.attempt("ncu-counters")
    place.attempt("ncu-counters-l2_hit_sectors", visits=[(PLAIN, 0)])
    sessions = [
        replace(session, visits=tuple(v for v in session.visits if v.cell == PLAIN))
        if session.name == "ncu-counters-l2_hit_sectors"
        else session
        for session in place.plan.sessions
    ]
    place.plan = replace(place.plan, sessions=tuple(sessions))
    assert {s.missing_metrics for s in place.results().statuses.values()} == {()}


# ---- external commands ---------------------------------------------------------------------------


def command_attempt(place, cell, block, kernels, **options):
    metrics = place.session("ncu-timing").metrics
    return place.attempt(
        visits=[(cell, block)],
        visit=Visit(cell, block),
        csv=external_csv(kernels, metrics) if kernels else "==WARNING== No kernels\n",
        **options,
    )


def test_a_command_with_one_kernel_keeps_its_variant(program_place):
    for block in range(2):
        for cell in ("v1..default", "v2..default"):
            command_attempt(program_place, cell, block, ["sgemm(float *)"])
    results = program_place.results()
    assert [cell.variant.name for cell in results.cells] == ["v1", "v2"]
    assert all(cell.id.startswith(f"{cell.variant.id}..default..sgemm") for cell in results.cells)
    assert set(outcomes(results).values()) == {Outcome.MEASURED}
    visits = {visit for loaded in program_place.load() for visit in loaded.visits}
    assert visits == {Visit(f"v{n}..default", block) for n in (1, 2) for block in range(2)}


def test_a_command_knows_its_second_visit_of_a_block(program_place):
    cell = "v1..default"
    metrics = program_place.session("ncu-timing").metrics
    for arm in (0, 1):
        program_place.attempt(
            visits=[(cell, 0, arm)],
            visit=Visit(cell, 0, arm),
            csv=external_csv(["sgemm(int)"], metrics),
        )
    visits = [loaded.visits for loaded in program_place.load()]
    assert visits == [{Visit(cell, 0)}, {Visit(cell, 0, 1)}]
    assert sorted(program_place.results().samples["arm"]) == [0, 1]


def test_a_command_with_several_kernels_gives_a_cell_for_each(program_place):
    command_attempt(program_place, "v1..default", 0, ["first(int)", "second(int)", "first(int)"])
    results = program_place.results()
    kernels = [cell.problem.params.get("launch_kernel") for cell in results.cells]
    assert kernels == ["first(int)", "second(int)", None]
    assert [cell.variant.name for cell in results.cells] == ["v1", "v1", "v2"]
    assert results.cells[2].id == "v2..default"
    found = list(outcomes(results).values())
    assert found == [Outcome.MEASURED, Outcome.MEASURED, Outcome.NOT_MEASURED]
    assert sorted(results.samples["repeat"]) == [0, 0, 1]


def test_a_command_that_failed_is_named_by_its_planned_cell(program_place):
    cell = "v1..default"
    blame = AttemptResult("died", 1.0, {cell: ("crashed", "SIGSEGV")})
    command_attempt(program_place, cell, 0, [], result=blame)
    results = program_place.results()
    assert results.statuses[cell].outcome is Outcome.CRASHED
    assert program_place.load()[0].visits == set()


def test_a_command_whose_second_visit_failed_is_failed(program_place):
    cell = "v1..default"
    command_attempt(program_place, cell, 0, ["sgemm(int)"])
    blame = AttemptResult("died", 1.0, {cell: ("crashed", "SIGSEGV")})
    command_attempt(program_place, cell, 1, [], result=blame)
    (first, _) = program_place.results().statuses.values()
    assert first.cell.startswith(f"{cell}..sgemm")
    assert (first.outcome, first.cause) == (Outcome.CRASHED, "SIGSEGV")


def test_a_command_that_was_rebuilt_starts_anew(program_place):
    cell = "v1..default"
    command_attempt(program_place, cell, 0, ["sgemm(int)"], keys={cell: "before the rebuild"})
    assert program_place.load()[0].visits == set()
    assert len(program_place.results().samples) == 0


# ---- notices -------------------------------------------------------------------------------------


def test_sessions_that_ended_well_are_not_mentioned(place):
    place.attempt()
    place.attempt("ncu-counters", visits=[(PLAIN, 0)], result=AttemptResult("context_lost", 1.0))
    (notice,) = place.results().notices
    assert notice.kind is NoticeKind.SESSION_DIED
    assert (notice.values["session"], notice.values["cause"]) == (
        "ncu-counters.001",
        "context_lost",
    )


def test_an_attempt_can_be_loaded_from_its_recording(place, tmp_path):
    place.measure_all()
    recording = open_run(write_recording(place.run, tmp_path / "recording.zip", []))
    again = [AttemptReader().load(attempt, place.keys, "9.0") for attempt in recording.attempts()]
    for first, second in zip(place.load(), again, strict=True):
        assert first.samples.equals(second.samples)
        assert first.records == second.records


def test_the_session_that_compiled_tells_what_was_tried(place):
    """Later sessions find the winner in a cache, and tell no times."""
    row = {"operation": "triton_poi_0", "config": {"XBLOCK": 512}, "best": True}
    first = [{**row, "time_ns": 20.0, "registers": 16}, {**row, "time_ns": 30.0, "best": False}]
    for session, tuned in {"ncu-timing": first, "ncu-counters": [row]}.items():
        journal = [described(PLAIN, tuned=tuned), *measured([(PLAIN, 0)])]
        place.attempt(session, visits=[(PLAIN, 0)], journal=journal)
    configs = place.results().statuses[PLAIN].tuning.tried
    assert [(config.time_ns, config.registers, config.best) for config in configs] == [
        (20.0, 16, True),
        (30.0, None, False),
    ]
    assert configs[0].config == {"XBLOCK": 512}
    assert place.results().statuses[PLAIN].tuning.other_sessions == ()
    assert place.results().statuses[TREE].tuning.tried == ()


def test_what_is_shown_as_tuned_is_what_was_timed(place):
    """Counters tried as much, and their files come first; both sessions of them chose otherwise."""
    small, large = (
        {"operation": "triton_red_0", "config": {"R0_BLOCK": size}} for size in (2048, 4096)
    )
    tried = {
        "ncu-counters": [{**small, "best": True}, {**large, "best": False}],
        "ncu-timing": [{**small, "best": False}, {**large, "best": True}],
        "ncu-counters-l2_hit_sectors": [{**small, "best": True}],
    }
    for session, tuned in tried.items():
        journal = [described(PLAIN, tuned=tuned), *measured([(PLAIN, 0)])]
        place.attempt(session, visits=[(PLAIN, 0)], journal=journal)
    status = place.results().statuses[PLAIN]
    assert [tried.config for tried in status.tuning.tried if tried.best] == [{"R0_BLOCK": 4096}]
    assert status.tuning.other_sessions == ("ncu-counters", "ncu-counters-l2_hit_sectors")


def test_a_choice_told_as_a_text_is_read_and_nonsense_is_left_out(place):
    tuned = [
        {"operation": "mm(8x8, 8x8)", "choice": "triton_mm_1", "description": "BLOCK_M=64, K='a'"},
        "nonsense",
    ]
    journal = [described(PLAIN, tuned=tuned), *measured([(PLAIN, 0)])]
    place.attempt(visits=[(PLAIN, 0)], journal=journal)
    (one,) = place.results().statuses[PLAIN].tuning.tried
    assert (one.choice, one.config) == ("triton_mm_1", {"BLOCK_M": 64, "K": "a"})
    assert (one.time_ns, one.best) == (None, False)
