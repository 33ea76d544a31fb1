"""One profiling process per GPU."""

import subprocess
import sys
from pathlib import Path

import pytest

from profiler.errors import EnvironmentUnusable, ExitCode, ProfilerError
from profiler.machine.locks import gpu_lock, is_free

HOLDER = """
import sys
from pathlib import Path
from profiler.machine.locks import gpu_lock
with gpu_lock("GPU-1", timeout_s=5, on_wait=print, folder=Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.stdin.close()
    process.wait()
    process.stdout.close()


def test_lock_of_another_process_is_respected_and_named(tmp_path, holder):
    said = []
    assert not is_free("GPU-1", tmp_path)
    assert is_free("GPU-2", tmp_path)
    with (
        pytest.raises(EnvironmentUnusable, match="holds GPU-1") as caught,
        gpu_lock("GPU-1", timeout_s=1.5, on_wait=said.append, folder=tmp_path),
    ):
        pytest.fail("the lock was held by another process")
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    assert caught.value.remedy is not None
    assert said == [f"Another profiler (process {holder.pid}) holds GPU-1: waiting for it …"]


def test_lock_is_free_again_when_its_holder_was_killed(tmp_path, holder):
    holder.kill()
    holder.wait()
    with gpu_lock("GPU-1", timeout_s=5, on_wait=pytest.fail, folder=tmp_path):
        assert not is_free("GPU-1", tmp_path)
    assert is_free("GPU-1", tmp_path)


def test_lock_is_not_held_twice_by_one_process(tmp_path):
    with (
        gpu_lock("GPU-1", timeout_s=5, on_wait=print, folder=tmp_path),
        pytest.raises(ProfilerError, match="already holds the GPU lock"),
        gpu_lock("GPU-1", timeout_s=5, on_wait=print, folder=tmp_path),
    ):
        pytest.fail("the second lock was given")


def test_two_gpus_can_be_held_by_one_process(tmp_path):
    with (
        gpu_lock("GPU-1", timeout_s=5, on_wait=print, folder=tmp_path),
        gpu_lock("GPU-2", timeout_s=5, on_wait=print, folder=tmp_path),
    ):
        assert not is_free("GPU-2", tmp_path)


def test_a_session_that_outlives_its_run_keeps_the_gpu(tmp_path):
    with gpu_lock("GPU-1", timeout_s=5, on_wait=print, folder=tmp_path) as session_file:
        pass
    script = "import fcntl,sys;f=open(sys.argv[1],'a');fcntl.flock(f,2);print(1,flush=True);input()"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(session_file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as session:
        assert session.stdout.readline() == "1\n"
        assert not is_free("GPU-1", tmp_path)
        with (
            pytest.raises(EnvironmentUnusable),
            gpu_lock("GPU-1", timeout_s=0.2, on_wait=print, folder=tmp_path),
        ):
            pytest.fail("the GPU was still in use")
        session.communicate("\n")
    assert is_free("GPU-1", tmp_path)
