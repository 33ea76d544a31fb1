"""Failure costs one cell: the loop over attempts, scripted and with real processes."""

import csv
import json
import signal
from itertools import count

import pytest

from profiler.collect.ncu import LOG
from profiler.errors import EnvironmentUnusable, UsageError
from profiler.model import Outcome, Visit
from profiler.runner import protocol
from profiler.runner.protocol import parse_range_name
from profiler.sessions.attempt import journal_visits, run_attempt
from profiler.sessions.process import EndCause, FailingCell, SessionResult
from profiler.sessions.recovery import (
    MAX_VISITS_PER_SESSION,
    Recovery,
    chunk,
    ending,
    signal_of,
)

pytestmark = pytest.mark.usefixtures("forked_interpreters")


def recovered_of(visits, **options):
    """A recovery that has made these visits; `attempt` makes some, `read_measured` has results."""
    attempt, read_measured = options.pop("attempt"), options.pop("read_measured")
    limit, ended = options.pop("limit", MAX_VISITS_PER_SESSION), options.pop("ended", print)
    recovery = Recovery(missing=tuple(visits), **options)
    while recovery.missing:
        folder, result = attempt(chunk(recovery.missing, recovery.problem_of, limit))
        ended(recovery.learn(folder, result, read_measured(folder)))
    return recovery


def csv_visits(folder):
    """Visits that have a row in the CSV of ncu."""
    lines = (folder / LOG).read_text().splitlines() if (folder / LOG).exists() else []
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    found = set()
    for row in csv.reader(lines[start:]):
        names = [
            cell.split('"<default domain>:')[1].split(":none")[0]
            for cell in row
            if "<default domain>:" in cell
        ]
        found |= {Visit(*parse_range_name(name)) for name in names}
    return found


@pytest.fixture
def recover(tmp_path, make_session):
    """Run visits in real attempts and say what came of them, and what each attempt was asked."""

    def run(collector, visits, step_s=60.0, workload="stub", **options):
        cells = tuple(dict.fromkeys(visit.cell for visit in visits))
        session = make_session(collector, cells, workload=workload, step_s=step_s)
        numbers, asked = count(1), []

        def attempt(batch):
            folder = tmp_path / f"attempt-{next(numbers)}"
            asked.append([(visit.cell, visit.block) for visit in batch])
            return folder, run_attempt(session, batch, folder)

        recovered = recovered_of(
            visits,
            session="timing",
            problem_of={cell.id: cell.problem for cell in session.job.cells},
            collector=collector,
            attempt=attempt,
            read_measured=csv_visits if collector.name == "ncu" else journal_visits,
            **options,
        )
        return recovered, asked

    return run


def blocks(*cells, n=3):
    return [Visit(cell, block) for block in range(n) for cell in cells]


def outcomes(recovered):
    return {cell: failure.outcome for cell, failure in recovered.failures.items()}


def test_nothing_wrong_takes_one_attempt(recover, ncu):
    visits = blocks("a..p", "b..p")
    recovered, asked = recover(ncu, visits)
    assert recovered.measured == set(visits)
    assert (len(asked), recovered.failures) == (1, {})


def test_crash_costs_one_cell_and_nothing_is_measured_twice(recover, ncu):
    visits = blocks("a..p", "segv..p", "b..p")
    recovered, asked = recover(ncu, visits)
    assert outcomes(recovered) == {"segv..p": Outcome.CRASHED}
    assert recovered.failures["segv..p"].cause == (
        "the process ended with code 11 (SIGSEGV, or its own exit code), in measure of block 1"
    )
    assert {visit for visit in visits if visit.cell != "segv..p"} <= recovered.measured
    assert asked[1] == [("b..p", 1), ("a..p", 2), ("b..p", 2)]


def test_many_failures_each_cost_one_cell(recover, ncu, monkeypatch):
    monkeypatch.setenv("FAKE_NCU_FAULT_IN", "fault")
    cells = ("segv..p", "ok..p", "hang..p", "wrong..p", "illegal..q", "ok..q", "fault..q")
    visits = blocks(*cells[:4]) + blocks(*cells[4:])
    recovered, _ = recover(ncu, visits, step_s=2.0)
    assert outcomes(recovered) == {
        "segv..p": Outcome.CRASHED,
        "hang..p": Outcome.TIMED_OUT,
        "wrong..p": Outcome.WRONG_RESULT,
        "illegal..q": Outcome.ILLEGAL_ADDRESS,
        "fault..q": Outcome.ILLEGAL_ADDRESS,
    }
    assert {visit for visit in visits if visit.cell.startswith("ok")} <= recovered.measured


def test_an_illegal_address_after_a_right_check_counts_only_the_second_time(recover, timer):
    visits = blocks("a..p", "right beside..p", "right illegal..p")
    recovered, asked = recover(timer, visits)
    assert outcomes(recovered) == {"right illegal..p": Outcome.ILLEGAL_ADDRESS}
    assert {visit for visit in visits if "illegal" not in visit.cell} == recovered.measured
    assert len(asked) == 4


def test_timer_recovers_by_the_journal(recover, timer):
    visits = blocks("a..p", "segv..p")
    recovered, _ = recover(timer, visits)
    assert outcomes(recovered) == {"segv..p": Outcome.CRASHED}
    assert {visit for visit in visits if visit.cell == "a..p"} <= recovered.measured


def test_crash_in_the_inputs_fails_the_whole_problem(recover, timer):
    visits = blocks("inputs_crash..p", "other..p") + blocks("a..q")
    recovered, asked = recover(timer, visits)
    assert outcomes(recovered) == {
        "inputs_crash..p": Outcome.CRASHED,
        "other..p": Outcome.CRASHED,
    }
    assert "SIGABRT, in inputs" in recovered.failures["other..p"].cause
    assert recovered.measured == set(blocks("a..q"))
    assert len(asked) == 2


def test_a_cell_of_which_ncu_saw_nothing_has_no_kernel(recover, ncu, monkeypatch):
    monkeypatch.setenv("FAKE_NCU_BLIND_TO", "b..")
    recovered, asked = recover(ncu, blocks("a..p", "b..p"))
    assert outcomes(recovered) == {"b..p": Outcome.NO_KERNEL}
    assert len(asked) == 1


def test_nothing_seen_at_all_is_the_machine_unless_something_was_seen_before(
    recover, ncu, monkeypatch
):
    monkeypatch.setenv("FAKE_NCU_MODE", "no_kernels")
    with pytest.raises(EnvironmentUnusable, match="no kernel"):
        recover(ncu, blocks("a..p"))
    recovered, _ = recover(ncu, blocks("a..p"), has_samples=True)
    assert outcomes(recovered) == {"a..p": Outcome.NO_KERNEL}


def test_a_first_cell_that_crashes_is_not_taken_for_a_machine_without_kernels(recover, ncu):
    visits = [Visit("segv..p", 1), Visit("a..p", 1)]
    recovered, _ = recover(ncu, visits)
    assert outcomes(recovered) == {"segv..p": Outcome.CRASHED}
    assert recovered.measured == {Visit("a..p", 1)}


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("no_permission", "ERR_NVGPUCTRPERM"),
        ("driver_resource", "Another tool"),
        ("old_version", "2025.1 or newer"),
        ("lock_file", "lock file"),
    ],
)
def test_faults_of_the_machine_end_the_run_at_once(recover, ncu, monkeypatch, mode, words):
    monkeypatch.setenv("FAKE_NCU_MODE", mode)
    with pytest.raises(EnvironmentUnusable, match=words) as caught:
        recover(ncu, blocks("a..p", "b..p"))
    assert caught.value.remedy


def test_a_killed_ncu_is_held_against_a_cell_only_the_second_time(recover, ncu, monkeypatch):
    monkeypatch.setenv("FAKE_NCU_DIE_AFTER", "1")
    visits = [Visit("a..p", 0), Visit("pause..p", 0)]
    recovered, asked = recover(ncu, visits)
    assert recovered.measured >= {Visit("a..p", 0)}
    assert asked[1] == [("pause..p", 0)]


def test_runner_without_a_device_is_the_machine(recover, timer):
    with pytest.raises(EnvironmentUnusable, match="sees no CUDA device"):
        recover(timer, blocks("a..p"), workload="no device")


def test_runner_that_cannot_read_the_workload_is_the_user(recover, timer):
    with pytest.raises(UsageError, match="no function prepare"):
        recover(timer, blocks("a..p"), workload="bad job")


def test_a_session_that_dies_before_its_first_cell_twice_is_given_up(recover, ncu):
    with pytest.raises(EnvironmentUnusable, match="cannot allocate") as caught:
        recover(ncu, blocks("a..p"), workload="dies early")
    assert "no progress in 2 attempts" in caught.value.message


def test_large_lists_are_run_in_chunks(recover, timer):
    visits = blocks("a..p") + blocks("a..q")
    recovered, asked = recover(timer, visits, limit=4)
    assert [len(batch) for batch in asked] == [3, 3]
    assert recovered.measured == set(visits)


# Scripted attempts: what the loop decides, without processes.


@pytest.fixture
def scripted(tmp_path, timer):
    """Run the loop over scripted (returncode, cause, failing_cell, measured) of each attempt."""

    def run(visits, script, stderr="", stdout="", **options):
        steps = iter(script)
        results = {}

        def attempt(batch):
            folder = tmp_path / str(len(results))
            folder.mkdir()
            returncode, cause, failing_cell, measured = next(steps)
            results[folder] = set(measured)
            records = [
                {"event": "finished", "phase": "measure", "cell": visit.cell, "block": visit.block}
                for visit in measured
            ]
            lines = "".join(json.dumps(record) + "\n" for record in records)
            (folder / "journal.jsonl").write_text(lines)
            (folder / "stderr.txt").write_text(stderr)
            (folder / "stdout.txt").write_text(stdout)
            return folder, SessionResult(returncode, cause, failing_cell, 1.0)

        return recovered_of(
            visits,
            session="s",
            problem_of={visit.cell: "p" for visit in visits},
            collector=timer,
            attempt=attempt,
            read_measured=results.__getitem__,
            **options,
        )

    return run


def test_progress_forgives_an_earlier_stall(scripted):
    visits = [Visit("a", 0), Visit("a", 1), Visit("a", 2)]
    died = (1, EndCause.DIED, None)
    script = [
        (*died, []),
        (*died, visits[:1]),
        (*died, []),
        (0, EndCause.FINISHED, None, visits[1:]),
    ]
    assert scripted(visits, script).measured == set(visits)


OUTSIDE = [-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, 143, 130]
"""Exit codes of a process that somebody, or a variant itself, has ended; the runner's own are 143
and 130."""


@pytest.mark.parametrize(
    ("code", "blamed"), [*((code, False) for code in OUTSIDE), (-signal.SIGSEGV, True)]
)
def test_a_kill_from_outside_is_held_against_a_cell_only_the_second_time(scripted, code, blamed):
    visits = [Visit("a", 0), Visit("b", 0)]
    died = (code, EndCause.DIED, FailingCell("a", "measure", 0), [])
    recovered = scripted(visits, [died, (0, EndCause.FINISHED, None, visits[blamed:])])
    assert recovered.failures.keys() == ({"a"} if blamed else set())


@pytest.mark.parametrize("code", OUTSIDE)
def test_a_second_kill_of_the_same_cell_is_no_chance(scripted, code):
    died = (code, EndCause.DIED, FailingCell("a", "measure", 0), [])
    recovered = scripted(
        [Visit("a", 0), Visit("b", 0)], [died, died, (0, EndCause.FINISHED, None, [Visit("b", 0)])]
    )
    name = signal.Signals(-code if code < 0 else code - 128).name
    cause = f"the process was killed by {name}, in measure of block 0"
    assert {cell: failure.cause for cell, failure in recovered.failures.items()} == {"a": cause}


def test_a_visit_that_was_not_seen_is_made_again(tmp_path, timer):
    visits = [Visit("a", 0), Visit("a", 1)]
    asked = []

    def attempt(batch):
        folder = tmp_path / str(len(asked))
        folder.mkdir()
        asked.append(list(batch))
        record = {"event": "finished", "phase": "measure"}
        lines = [{**record, "cell": visit.cell, "block": visit.block} for visit in batch]
        (folder / "journal.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
        return folder, SessionResult(0, EndCause.FINISHED, None, 1.0)

    recovered = recovered_of(
        visits,
        session="s",
        problem_of={"a": "p"},
        collector=timer,
        attempt=attempt,
        read_measured=lambda folder: {asked[-1][-1]},
    )
    assert asked == [visits, visits[:1]]
    assert (recovered.measured, recovered.failures) == (set(visits), {})


def test_each_attempt_is_reported_with_its_blame(scripted):
    seen = []
    script = [
        (-11, EndCause.DIED, FailingCell("a", "prepare"), []),
        (0, EndCause.FINISHED, None, [Visit("b", 0)]),
    ]
    scripted([Visit("a", 0), Visit("b", 0)], script, ended=seen.append)
    assert [[*failures] for failures in seen] == [["a"], []]
    assert seen[0]["a"].cause == "the process was killed by SIGSEGV, in prepare"


SURVIVED = """\
RuntimeError: CUDA error: an illegal memory access was encountered
runner: other..p: illegal_address in check: RuntimeError: CUDA error: an illegal memory access
"""


@pytest.mark.parametrize(
    ("last", "outcome", "cause"),
    [
        ("", Outcome.CRASHED, "exited with code 3"),
        ("lost the device\n", Outcome.CRASHED, "exited with code 3 (lost the device)"),
        ("an illegal memory access was\n", Outcome.ILLEGAL_ADDRESS, "CUDA reported an illegal"),
    ],
)
def test_a_cell_is_not_blamed_for_what_another_said(scripted, last, outcome, cause):
    script = [(3, EndCause.DIED, FailingCell("a", "check"), [])]
    found = scripted([Visit("a", 0)], script, stderr=SURVIVED + last).failures["a"]
    assert found.outcome is outcome
    assert cause in found.cause
    assert "other" not in found.cause


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (1, "the process exited with code 1 (last printed: Invalid block size), in check"),
        (-11, "the process was killed by SIGSEGV, in check"),
    ],
)
def test_what_a_process_printed_before_it_ended_itself_is_in_the_cause(scripted, code, cause):
    script = [(code, EndCause.DIED, FailingCell("a", "check"), [])]
    printed = 'ready\nInvalid block size\n"0","cell"\n'
    assert scripted([Visit("a", 0)], script, stdout=printed).failures["a"].cause == cause


@pytest.mark.parametrize(
    ("printed", "cause"),
    [
        (
            "x.cu:9: f: Assertion `b % 32 == 0' failed.\n",
            "x.cu:9: f: Assertion `b % 32 == 0' failed.",
        ),
        ("  what():  no such size\n", "what():  no such size"),
        ("", "Fatal Python error: Aborted"),
    ],
)
def test_an_abort_is_explained_by_what_led_to_it(scripted, printed, cause):
    script = [(-6, EndCause.DIED, FailingCell("a", "check"), [])]
    stderr = f"{printed}Fatal Python error: Aborted\n\nThread 0x7f (most recent call first):\n"
    failure = scripted([Visit("a", 0)], script, stderr=stderr).failures["a"]
    assert failure.cause == f"the process was killed by SIGABRT ({cause}), in check"


_SYNC = '  File "/site-packages/torch/cuda/__init__.py", line 9 in synchronize\n'
_OWN = '  File "/home/me/mine.py", line 33 in launch\n  File "/home/me/mine.py", line 3 in other\n'


@pytest.mark.parametrize(
    ("called", "place"),
    [
        (_SYNC + _OWN, "; mine.py:33 in launch"),
        (_SYNC, ""),  # the runner waits for kernels
        (_OWN + _SYNC.replace("cuda/__init__", "utils/_contextlib"), "; mine.py:33 in launch"),
    ],
)
def test_a_hang_names_the_line_of_the_workload(scripted, called, place):
    runner = f'  File "{protocol.__file__}", line 1 in run\n'
    stack = f"Stack (most recent call first):\n{runner}{called}{runner}"
    script = [(-signal.SIGKILL, EndCause.TIMED_OUT, FailingCell("a", "check"), [])]
    failure = scripted([Visit("a", 0)], script, stderr=stack).failures["a"]
    assert failure.cause.endswith(f"(collect.time_limit_s{place}), in check")


@pytest.mark.parametrize(
    ("limit", "taken"),
    [(100, 12), (8, 8), (7, 6), (6, 6), (5, 4), (1, 2)],
)
def test_chunks_end_between_problems_or_blocks(limit, taken):
    visits = [
        Visit(f"{variant}..{problem}", block)
        for problem, n in (("p", 3), ("q", 1), ("r", 2))
        for block in range(n)
        for variant in "ab"
    ]
    problem_of = {visit.cell: visit.cell[-1] for visit in visits}
    assert len(chunk(visits, problem_of, limit)) == taken


@pytest.mark.parametrize(
    ("code", "under_tool", "words"),
    [
        (-signal.SIGSEGV, False, "was killed by SIGSEGV"),
        (11, True, "ended with code 11 (SIGSEGV, or its own exit code)"),
        (11, False, "exited with code 11"),
        (137, False, "was killed by SIGKILL"),
        (1, True, "exited with code 1"),
        (255, False, "exited with code 255"),
    ],
)
def test_endings_in_words(code, under_tool, words):
    assert ending(code, under_tool=under_tool) == words
    assert (signal_of(code, under_tool=under_tool) is None) == words.startswith("exited with")
