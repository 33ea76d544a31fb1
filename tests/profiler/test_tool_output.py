"""Commands whose output is read: each its own, side by side, and ended with this process."""

import time
from pathlib import Path

import pytest

from profiler.collect import Command
from profiler.errors import EnvironmentUnusable
from profiler.machine import tool_output
from profiler.machine.tool_output import output_of, run_command, run_commands


def shell(line):
    return Command(("/bin/sh", "-c", line), env={"WORD": "said"})


def test_each_command_has_its_own_end_and_output():
    first, missing, late, large = run_commands(
        [
            shell("echo $WORD; echo odd >&2; exit 3"),
            Command(("/no/such/program",)),
            shell("sleep 60"),
            shell("head -c 300000 /dev/zero | tr '\\0' x; printf '\\377'"),
        ],
        timeout_s=2.0,
    )
    assert not isinstance(first, EnvironmentUnusable)
    assert (first.returncode, first.stdout, first.stderr) == (3, "said\n", "odd\n")
    assert output_of(first) == "said\n\nodd\n"
    assert isinstance(missing, EnvironmentUnusable)
    assert "cannot be run" in missing.message
    assert isinstance(late, EnvironmentUnusable)
    assert "did not end within 2 s" in late.message
    assert not isinstance(large, EnvironmentUnusable)
    assert large.stdout == "x" * 300_000 + "\ufffd"


def test_one_command_raises_its_error():
    with pytest.raises(EnvironmentUnusable, match="cannot be run"):
        run_command(Command(("/no/such/program",)))


def test_a_signal_ends_the_commands_and_what_they_started(tmp_path, monkeypatch):
    pid = tmp_path / "pid"

    def signalled():
        if pid.exists() and pid.read_text().endswith("\n"):
            raise KeyboardInterrupt

    monkeypatch.setattr(tool_output, "raise_if_signalled", signalled)
    with pytest.raises(KeyboardInterrupt):
        run_commands([shell(f"sleep 60 & echo $! > {pid}; wait"), shell("sleep 60")], 30.0)
    deadline = time.monotonic() + 60
    while is_alive(int(pid.read_text())) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(int(pid.read_text()))


def is_alive(pid):
    """Whether a process runs; one that has ended and nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
