"""Whatever ends a command, its last words name what happened and what helps."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from run_folders import Workplace

from profiler import cli
from profiler.commands import report
from profiler.commands.report import ReportRequest, rebuild_report
from profiler.errors import ExitCode, UsageError
from profiler.machine.signals import interrupt_on_signals
from profiler.run_folder.documents import write_atomic
from profiler.run_folder.folder import RunFolder, compress

sys.path.append(str(Path(__file__).parents[1]))
from whole_runs import finish, wait_for


@pytest.fixture
def measuring(profiler):
    """A run whose program hangs, from the moment on at which it is measured."""
    sleeper = profiler.folder / "sleeper"
    sleeper.write_text("#!/bin/sh\necho $$ > pid\nexec sleep 600\n")
    sleeper.chmod(0o755)
    spec = profiler.write_spec(
        workload={"command": "./sleeper {variant}"},
        variants={"list": [{"name": "a"}]},
        problems={"list": [{"name": "p"}]},
        collect={"device": "cpu", "blocks": 2, "metrics": ["duration_ns"], "time_limit_s": 2.0},
    )
    process = profiler.start(spec)
    wait_for(lambda: (profiler.folder / "pid").exists() or process.poll() is not None, seconds=60)
    return process


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGQUIT"])
def test_a_signal_ends_a_run_with_words_and_nothing_of_it_stays(measuring, profiler, name):
    number = getattr(signal, name)
    measuring.send_signal(number)
    code, _, err = finish(measuring)
    assert code == 128 + number, err
    assert f"profiler: {name}: Interrupted; what was measured is kept." in err
    assert "Go on with: python -m profiler" in err
    ps = subprocess.run(["ps", "ax"], capture_output=True, text=True, check=True).stdout
    assert str(profiler.folder) not in ps


def test_what_is_done_beside_the_first_session_is_not_cut_off_at_the_end(tmp_path):
    """Python aborts ("terminate called ...") where it ends a thread that is loading C++."""
    code = f"""
import sys, time
from pathlib import Path
from profiler.sessions.execution import Meanwhile

def load():
    time.sleep(0.2)
    Path({str(tmp_path / "loaded")!r}).touch()

Meanwhile(load).start()
sys.exit(3)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 3
    assert (tmp_path / "loaded").exists()


def test_a_run_folder_that_is_deleted_meanwhile_is_named_and_not_made_anew(measuring, profiler):
    (run,) = profiler.runs()
    shutil.rmtree(run)
    code, _, err = finish(measuring)
    assert code == 2
    assert f"{run.relative_to(profiler.folder)} was deleted while it was measured." in err
    assert "it begins a new run" in err
    assert not run.exists()


def test_attempts_that_are_deleted_meanwhile_are_named(measuring, profiler):
    (run,) = profiler.runs()
    shutil.rmtree(run / "raw")
    code, _, err = finish(measuring)
    assert code == 2
    assert "was deleted while it was measured." in err


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.EIO, "Input/output error", "/data/x"), "/data/x: Input/output error."),
        (OSError(errno.EMFILE, "Too many open files", "y"), "y: Too many open files."),
        (OSError(errno.EAGAIN, "Resource temporarily unavailable"), "temporarily unavailable."),
        (OSError(errno.ENAMETOOLONG, "File name too long", "z" * 300), "File name too long."),
        (MemoryError(), "There is not enough memory."),
        (RuntimeError("can't start new thread"), "No further thread can be started."),
    ],
)
def test_what_the_host_refuses_is_no_internal_error(monkeypatch, capsys, error, words):
    monkeypatch.setattr(cli, "command_group", lambda: Mock(side_effect=error))
    monkeypatch.setattr(sys, "argv", ["profiler", "list"])
    for name in ("interrupt_on_signals", "_discard_output"):
        monkeypatch.setattr(cli, name, lambda: None)
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == ExitCode.ENVIRONMENT
    assert words in capsys.readouterr().err


def test_signals_that_are_ignored_stay_ignored(monkeypatch):
    heeded = Mock()
    monkeypatch.setattr(signal, "signal", heeded)
    ignored = {signal.SIGHUP: signal.SIG_IGN}
    monkeypatch.setattr(signal, "getsignal", lambda number: ignored.get(number, signal.SIG_DFL))
    interrupt_on_signals()
    numbers = [call.args[0] for call in heeded.call_args_list]
    assert numbers == [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT]


@pytest.mark.parametrize("write", [lambda path: write_atomic(path, "x"), compress])
def test_a_full_disk_names_the_file_that_did_not_fit(tmp_path, monkeypatch, write):
    file = tmp_path / "ncu.csv"
    file.write_text("rows")
    full = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr("profiler.run_folder.folder.shutil.copyfileobj", full)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write(file)
    assert Path(caught.value.filename).name.startswith(file.name)


def test_a_folder_that_is_gone_is_not_asked_for_again(tmp_path):
    gone = tmp_path / "20260101-000000"
    with pytest.raises(UsageError, match="there is no such folder") as caught:
        RunFolder(gone).record()
    assert caught.value.remedy == "`profiler list` shows the runs that there are."


def test_the_page_of_a_read_only_run_goes_where_out_says(tmp_path, monkeypatch, capsys):
    place = Workplace(tmp_path / "place")
    place.measure_all()
    folder, before = place.run.path, sorted(place.run.path.iterdir())
    monkeypatch.setattr(report, "why_read_only", lambda path: "Read-only file system")
    request = ReportRequest(folder, tmp_path / "elsewhere", color="never")
    assert rebuild_report(request) is ExitCode.COMPLETE
    (page,) = (tmp_path / "elsewhere").glob("*/*/index.html")
    printed = capsys.readouterr()
    assert f"Page: {page}" in printed.out
    assert f"{folder} cannot be written to (Read-only file system)" in printed.err
    assert sorted(folder.iterdir()) == before
