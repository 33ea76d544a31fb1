"""The runner as a process: exit codes, and a journal that names the failing cell."""

import json
import signal
import subprocess
import sys

import pytest

from profiler.runner import protocol


def test_a_good_run_ends_with_0(bench, select):
    code, err, records = bench.run_fork(bench.job(["plain", "fresh"]))

    assert code == 0, err
    assert records[-1]["event"] == "session_finished"
    assert len(select(records, event="finished", phase="measure")) == 4


def test_a_crash_leaves_a_journal_that_names_the_failing_cell(bench, select):
    code, err, records = bench.run_fork(bench.job(["plain", "segfault"]))

    assert code == -signal.SIGSEGV
    assert "rowsum.py" in err
    last = records[-1]
    assert (last["event"], last["cell"], last["phase"]) == ("started", "segfault..p0", "check")
    assert select(records, event="finished", phase="check", cell="plain..p0")


def is_stack(text):
    """Whether a text is the stack of the thread that got a signal, with the workload's line."""
    heading, *frames = text.splitlines()
    return (
        heading == "Stack (most recent call first):"
        and all(frame.startswith('  File "') for frame in frames)
        and "rowsum.py" in text
    )


def test_an_interrupt_ends_it_with_its_place_and_leaves_the_journal_whole(bench):
    finished, records = bench.run_process(bench.job(["plain", "interrupt"]))

    assert finished.returncode == 130
    assert is_stack(finished.stderr)
    assert (records[-1]["event"], records[-1]["cell"]) == ("started", "interrupt..p0")


def test_so_does_the_end_that_is_asked_for(bench):
    code, err, records = bench.run_fork(bench.job(["plain", "terminate"]))

    assert code == 143
    assert is_stack(err)
    assert (records[-1]["event"], records[-1]["cell"]) == ("started", "terminate..p0")


def test_failed_cells_are_told_on_stderr_and_do_not_change_the_exit_code(bench):
    code, err, _ = bench.run_fork(bench.job(["raise", "off by one"]))

    assert code == 0
    assert "runner: raise..p0: raised in check: RuntimeError: launch refused" in err
    assert "with a second line" in err
    assert "runner: off_by_one..p0: wrong_result in check: output 0: 1 of 5" in err


def test_a_workload_that_cannot_be_imported(bench, tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("import no_such_module_at_all\n")

    code, err, records = bench.run_fork(bench.job(["plain"], workload=str(broken)))

    assert code == protocol.EXIT_BAD_JOB
    (record,) = records
    assert record["event"] == "session_failed"
    assert "broken.py: ModuleNotFoundError" in record["cause"]
    assert err.splitlines()[-1] == f"runner: {record['cause']}"
    assert 'broken.py", line 1' in err


@pytest.mark.parametrize(
    ("module", "hint"),
    [
        ("scipy", "scipy.py hides the installed scipy: rename it"),
        ("queue", "Python's own queue hides queue.py: rename it"),
        ("tests", ""),  # a folder beside the package, which is no installed module
    ],
)
def test_a_module_beside_a_workload_that_bears_the_name_of_another(bench, tmp_path, module, hint):
    (tmp_path / f"{module}.py").write_text("")
    broken = tmp_path / "broken.py"
    broken.write_text(f"from {module} import nothing_of_this_name\n")
    _, _, (record,) = bench.run_fork(bench.job(["plain"], workload=str(broken)))
    assert record["cause"].endswith(f" ({hint})" if hint else "tests.py)"), record["cause"]


def test_a_device_that_is_not_there(bench):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    code, _, (record,) = bench.run_fork(bench.job(["plain"], device="cuda"))

    assert code == protocol.EXIT_NO_DEVICE
    assert record["event"] == "session_failed"
    assert "sees no CUDA device" in record["cause"]


def test_a_collector_that_is_not_known(bench):
    code, _, (record,) = bench.run_fork(bench.job(["plain"], collector="stopwatch"))

    assert code == protocol.EXIT_BAD_JOB
    assert "no such collector: 'stopwatch'" in record["cause"]


@pytest.mark.parametrize("text", [None, "{", json.dumps({"version": 99})])
def test_a_bad_job_is_one_message_and_exit_code_2(runner_process, tmp_path, text):
    path = tmp_path / "job.json"
    if text is not None:
        path.write_text(text)

    finished = runner_process(path)

    assert finished.returncode == protocol.EXIT_BAD_JOB
    (line,) = finished.stderr.splitlines()
    assert line.startswith("runner: cannot read the job: ")


def test_a_journal_that_cannot_be_opened(bench, tmp_path):
    job = bench.job(["plain"], journal=str(tmp_path / "no" / "folder" / "journal.jsonl"))

    code, _, records = bench.run_fork(job)

    assert code == protocol.EXIT_HOST_FAULT
    assert not records


def test_a_journal_is_continued_and_never_overwritten(bench, select):
    job = bench.job(["plain"], blocks=1)

    bench.run(job)
    records = bench.run(job)

    assert len(select(records, event="session_started")) == 2


def test_help_needs_no_torch():
    code = "import sys, runner.__main__ as r\ntry: r.main(['--help'])\n"
    code += "except SystemExit: sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=False, stdout=subprocess.PIPE)
    assert (done.returncode, b"job" in done.stdout) == (0, True)
