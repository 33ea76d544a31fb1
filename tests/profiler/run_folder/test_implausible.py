"""Cells whose numbers cannot be right: a failure like others, unless their variant is trusted."""

import pandas as pd
import pytest
from run_folders import SPEC, Workplace, failed, measured

from profiler.analyse.verdicts import Reason
from profiler.errors import ExitCode
from profiler.findings.document import summary_table
from profiler.findings.find import find
from profiler.model import Outcome, Verdict
from profiler.notices import NoticeKind, text
from profiler.render.words.headline import headline_text
from profiler.run_folder.load.assemble import assemble
from profiler.run_folder.load.outcomes import failures
from profiler.runner import protocol

PLAIN, TREE, LOOP = "plain..small", "tree..small", "loop..small"
TRUSTING = SPEC.replace(
    "[plain, tree, loop]", "[plain, {name: tree, trust: true, reason: it is sparse}, loop]"
)


def finish(place):
    return assemble(place.run, place.loaded, place.plan)


def stale(place, cell=TREE):
    """One attempt in which the result of a cell did not follow its inputs."""
    visits = place.visits("ncu-timing")
    late = failed(cell, "implausible", "kept from earlier launches", phase=protocol.RECHECK)
    place.attempt(visits=visits, journal=[*measured(visits), late])


def described(cell, **facts):
    where = {"cell": cell, "phase": protocol.DESCRIBE}
    return {"event": protocol.FINISHED, **where, **facts}


def on_gpu(place, **facts):
    """The run was measured on a GPU of which these facts are known."""
    gpu = place.with_environment(**facts)
    place.record = place.record.__class__(**{**vars(place.record), "environment": gpu})
    place.run.write_record(place.record)


def quick(place):
    """One attempt with a cell that is quicker than the hardware."""
    visits = place.visits("ncu-timing")
    on_gpu(place, max_sm_clock_mhz=1980, sm_count=132)
    place.attempt(visits=visits, journal=[*measured(visits), described(TREE, flops=1e25)])


@pytest.mark.parametrize(("happen", "words"), [(stale, "kept from"), (quick, "in any type")])
def test_an_implausible_cell_is_a_failure_and_never_ranked(tmp_path, happen, words):
    place = Workplace(tmp_path / "place")
    happen(place)
    finished = finish(place)
    assert finished.exit_code is ExitCode.SOME_CELLS_FAILED
    status = finished.statuses[TREE]
    assert status.outcome is Outcome.IMPLAUSIBLE
    assert words in status.cause
    findings = find(finished)
    timing = findings.numbers.frame.query("metric == 'duration_ns'").set_index("cell")
    assert pd.isna(timing["rank"][TREE])
    assert pd.notna(timing["median"][TREE]), "what it took is shown all the same"
    assert TREE not in findings.verdicts.against_baseline
    assert LOOP in findings.verdicts.against_baseline
    assert "implausible" in " ".join(text(notice) for notice in findings.notices)
    table = summary_table(findings)
    assert {*table["outcome"][table["cell"] == TREE]} == {"implausible"}


def test_nothing_is_compared_with_an_implausible_baseline(tmp_path):
    place = Workplace(tmp_path / "place")
    stale(place, PLAIN)
    findings = find(finish(place))
    at_problem = findings.numbers.frame.query("problem == 'small' and metric == 'duration_ns'")
    assert len(at_problem) == 3
    assert at_problem[["baseline_median", "ratio", "ratio_low"]].isna().all(axis=None)


@pytest.mark.parametrize(("happen", "words"), [(stale, ""), (quick, "in any type")])
def test_a_trusted_variant_is_ranked_and_the_page_says_why(tmp_path, happen, words):
    place = Workplace(tmp_path / "place", TRUSTING)
    happen(place)
    finished = finish(place)
    assert finished.exit_code is ExitCode.COMPLETE
    assert finished.statuses[TREE].outcome is Outcome.MEASURED
    assert failures(place.plan, place.load()) == {}, "so that it is visited in later looks"
    (notice,) = [n for n in finished.notices if n.kind is NoticeKind.TRUSTED]
    assert "it is sparse" in text(notice)
    assert words in text(notice)


def test_it_is_not_visited_again(tmp_path):
    place = Workplace(tmp_path / "place")
    stale(place)
    assert failures(place.plan, place.load())[TREE].is_lasting(1e9)


def test_what_was_not_checked_again_is_said_once_for_each_reason(tmp_path):
    place = Workplace(tmp_path / "place")
    visits = place.visits("ncu-timing")
    passed = [
        {"event": protocol.NOT_RECHECKED, "cell": cell, "cause": "they are the same"}
        for cell in (TREE, LOOP)
    ]
    place.attempt(visits=visits, journal=[*measured(visits), *passed])
    notices = [n for n in place.results().notices if n.kind is NoticeKind.NOT_RECHECKED]
    assert [notice.values for notice in notices] == [{"count": 2, "cause": "they are the same"}]


def test_copies_that_no_kernel_makes_are_named(tmp_path):
    place = Workplace(tmp_path / "place")
    visits = place.visits("ncu-timing")
    warm = {"event": protocol.FINISHED, "phase": protocol.WARMUP}
    copied = [
        {**warm, "cell": TREE, "copies": 2, "copied_bytes": 3.5e6},
        {**warm, "cell": LOOP, "copies": 0, "copied_bytes": 0.0},
    ]
    place.attempt(visits=visits, journal=[*measured(visits), *copied])
    results = place.results()
    assert results.statuses[TREE].untimed.copies == 2
    (notice,) = [n for n in results.notices if n.kind is NoticeKind.COPIES_NOT_TIMED]
    assert text(notice).startswith("1 of 6 cells also copy or fill memory by no kernel")
    assert "tree at small: 2 in a launch, 3.5 MB" in text(notice)


def test_a_lead_over_the_baseline_by_untimed_copies_is_implausible(tmp_path):
    place = Workplace(tmp_path / "place")
    on_gpu(place, peak_dram_bytes_per_s=4.8e12)
    visits = place.visits("ncu-timing")
    warm = {"event": protocol.FINISHED, "phase": protocol.WARMUP, "copies": 1}
    copied = [{**warm, "cell": cell, "copied_bytes": 1e8} for cell in (LOOP, TREE)]
    place.attempt(visits=visits, journal=[*measured(visits), *copied])
    finished = finish(place)
    status = finished.statuses[LOOP]
    assert status.outcome is Outcome.IMPLAUSIBLE
    assert status.cause.startswith("each launch copies or fills 100 MB by no kernel")
    assert LOOP not in find(finished).verdicts.against_baseline
    assert finished.statuses[TREE].outcome is Outcome.MEASURED, "slower than the baseline anyway"


def test_a_lead_with_a_result_that_no_kernel_wrote_is_implausible(tmp_path):
    place = Workplace(tmp_path / "place", SPEC.replace("cycles", "cycles, l2_bytes"))
    checked = {"event": protocol.FINISHED, "cell": LOOP, "phase": protocol.CHECK}
    for session in place.plan.sessions:
        visits = place.visits(session.name)
        records = [*measured(visits), {**checked, "written_bytes": 1.2e6}]
        place.attempt(session.name, visits=visits, journal=records)
    status = place.results().statuses[LOOP]
    assert status.outcome is Outcome.IMPLAUSIBLE
    assert "0.4909 MB through L2, and the launch writes 1.2 MB" in status.cause


def test_how_far_results_may_be_off_is_said_where_some_miss_the_default(tmp_path):
    place = Workplace(tmp_path / "place")
    visits = place.visits("ncu-timing")
    finished = {"event": protocol.FINISHED, "cell": TREE}
    of_an_older_run = {**finished, "phase": protocol.REFERENCE, "rounding": [0.0, 0.0625]}
    checked = {**finished, "phase": protocol.CHECK, "rounding": 0.125}
    wrong = {**checked, "event": protocol.FAILED, "cell": LOOP, "rounding": 5.0, "cause": "wrong"}
    place.attempt(visits=visits, journal=[*measured(visits), of_an_older_run, checked, wrong])
    (notice,) = [n for n in place.results().notices if n.kind is NoticeKind.ROUNDING_ALLOWED]
    assert notice.values == {"problems": place.plan.cells[0].problem.name, "most": "0.12"}


def test_checks_that_tell_little_are_said(tmp_path):
    place = Workplace(tmp_path / "place")
    visits = place.visits("ncu-timing")
    checked = {"event": protocol.FINISHED, "cell": TREE, "phase": protocol.CHECK}
    problem = place.plan.cells[0].problem
    made = {**checked, "phase": protocol.REFERENCE, "problem": problem.id, "common_value": 2.0}
    loose = {**checked, "zeros_match": True, "tells_little": "the check accepts zeros"}
    open_to_all = {**checked, "phase": protocol.PREPARE, "unconfined": "task.py lies in /opt"}
    place.attempt(visits=visits, journal=[*measured(visits), made, loose, open_to_all])
    (notice,) = [n for n in place.results().notices if n.kind is NoticeKind.COMMON_VALUE]
    assert text(notice).startswith("At 1 of 2 problems all elements of the right result are the ")
    assert f"(2 at {problem.name})" in text(notice)
    (notice,) = [n for n in place.results().notices if n.kind is NoticeKind.ZEROS_ARE_RIGHT]
    assert text(notice).startswith(
        "In 1 of 6 cells an output of zeros would be right, too, first in tree at small: "
    )
    (notice,) = [n for n in place.results().notices if n.kind is NoticeKind.CHECK_TELLS_LITTLE]
    assert text(notice).startswith(
        "In 1 of 6 cells a wrong result may have passed the check, first in tree at small: "
        "the check accepts zeros."
    )
    (notice,) = [n for n in place.results().notices if n.kind is NoticeKind.UNCONFINED]
    assert text(notice).startswith(
        "The candidate may have read more than its own file (in 1 cell): task.py lies in /opt."
    )


@pytest.mark.parametrize(
    ("fact", "by_cell", "said", "reason"),
    [
        (
            "concurrent_kernels",
            {TREE: 3, LOOP: 1},
            "1 of 6 cells have kernels that can run at once, on several streams",
            Reason.OVERLAP,
        ),
        (
            "waiting_ns",
            {PLAIN: 1e9, TREE: 0.0},
            "1 of 6 cells wait for the device within a launch, longest plain at small: 1e+03 ms",
            Reason.WAITS,
        ),
    ],
)
def test_a_sum_of_kernels_is_not_taken_for_a_whole_launch(tmp_path, fact, by_cell, said, reason):
    place = Workplace(tmp_path / "place", SPEC.replace("blocks: 2", "blocks: 8"))
    visits = place.visits("ncu-timing")
    warm = {"event": protocol.FINISHED, "phase": protocol.WARMUP}
    warmups = [{**warm, "cell": cell, fact: value} for cell, value in by_cell.items()]
    place.attempt(visits=visits, journal=[*measured(visits), *warmups])
    finished = finish(place)
    assert any(text(notice).startswith(said) for notice in finished.notices)
    verdict = find(finished).verdicts.against_baseline[TREE]
    assert (verdict.verdict, verdict.reason) == (Verdict.UNCLEAR, reason)
    assert "; of kernels alone, whole launches may differ)" in headline_text(find(finished))
    judged = summary_table(find(finished)).query("cell == @TREE and metric == 'duration_ns'")
    assert list(judged["reason"]) == [reason.value]
    assert verdict.ratio > 1


def test_the_reason_travels_with_the_plan_and_not_into_the_key(tmp_path):
    trusting = Workplace(tmp_path / "place", TRUSTING)
    plan = trusting.plan
    assert [variant.trust for variant in plan.variants] == ["", "it is sparse", ""]
    assert trusting.run.plan() == plan
