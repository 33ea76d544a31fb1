"""A compiler that hangs, says nothing or is left alone costs one variant, or a build that waits."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from profiler.errors import EnvironmentUnusable
from profiler.kernels.build import Compiler
from profiler.kernels.recipe import Recipe
from profiler.machine import compilers
from profiler.machine.locks import take_lock, write_holder
from profiler.model import Variant
from profiler.sessions.builds import libraries

sys.path.append(str(Path(__file__).parents[1]))
from whole_runs import wait_for

NVCC = """#!/bin/sh
# Makes an object of every source; with -DWIDTH=odd it does what $ODD says.
case "$*" in *WIDTH=odd*) eval "$ODD";; esac
while [ $# -gt 0 ]; do
  case "$1" in -o) printf '\\177ELF' > "$2";; -MF) dep=$2;; *.cu) echo "o: $1" > "$dep";; esac
  shift
done
"""
BUILD = """
import sys
from pathlib import Path
from profiler.kernels.build import Compiler
from profiler.kernels.recipe import Recipe
from profiler.model import Variant
from profiler.sessions.builds import libraries
folder = Path(sys.argv[1])
libraries.find_compiler = lambda: Compiler(folder / "nvcc", "stand-in 1.0")
libraries.check_arch = lambda arch, path: None
recipe = Recipe((folder / "scale.cu",), {"WIDTH": "odd"})
builds = folder / "builds"
libraries.build_variants([Variant("v", "v")], {"v": recipe}, arch="sm_90", build_root=builds)
"""

pytestmark = pytest.mark.skipif(shutil.which("ninja") is None, reason="needs ninja")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "nvcc").write_text(NVCC)
    (tmp_path / "nvcc").chmod(0o755)
    (tmp_path / "scale.cu").write_text("kernel")
    monkeypatch.setattr(libraries, "find_compiler", lambda: Compiler(tmp_path / "nvcc", "stand-in"))
    monkeypatch.setattr(libraries, "check_arch", lambda arch, path: None)
    return tmp_path


def build_both(folder, **options):
    """Results of a variant that compiles and of one whose compiler is odd."""
    recipes = {name: Recipe((folder / "scale.cu",), {"WIDTH": name}) for name in ("good", "odd")}
    variants = [Variant(name, name) for name in recipes]
    return libraries.build_variants(
        variants, recipes, arch="sm_90", build_root=folder / "builds", **options
    )


def test_an_nvcc_that_hangs_is_ended_after_its_limit_and_costs_its_variant(folder, monkeypatch):
    monkeypatch.setenv("ODD", f"echo $$ > {folder}/pid; sleep 600")
    good, odd = build_both(folder, time_limit_s=2.0)
    assert (good.ok, odd.ok) == (True, False)
    assert odd.error == "nvcc did not end within 2 s and was ended (build.time_limit_s)"
    assert not psutil.pid_exists(int((folder / "pid").read_text()))
    monkeypatch.setenv("ODD", ":")
    assert all(result.ok for result in build_both(folder))


@pytest.mark.parametrize("words", ["", "echo; echo", "echo ptxas info: 0 bytes gmem"])
def test_an_nvcc_that_fails_in_silence_is_quoted_with_its_exit_code(folder, monkeypatch, words):
    monkeypatch.setenv("ODD", f"{words}\nexit 9")
    good, odd = build_both(folder)
    assert good.ok
    assert odd.error.startswith("nvcc failed")
    assert odd.error.endswith("and printed nothing (scale.o)")
    assert "exit code 9" in odd.error or "[code=" not in odd.error


def test_an_nvcc_that_ends_well_and_writes_nothing_is_said(folder, monkeypatch):
    monkeypatch.setenv("ODD", "exit 0")
    _, odd = build_both(folder)
    assert not odd.ok
    assert odd.error == "nvcc ended well, and wrote not all of its files"


def test_compilers_end_with_a_profiler_that_is_killed(folder, monkeypatch):
    monkeypatch.setenv("ODD", f"echo $$ > {folder}/pid; sleep 600")
    with subprocess.Popen([sys.executable, "-c", BUILD, str(folder)]) as profiler:
        pid = int(wait_for(lambda: _text(folder / "pid")))
        profiler.send_signal(signal.SIGKILL)
        profiler.wait()
        wait_for(lambda: not psutil.pid_exists(pid), seconds=60)
    monkeypatch.setenv("ODD", ":")
    assert all(result.ok for result in build_both(folder))


def _text(path):
    return path.read_text().strip() if path.exists() else ""


def test_who_waits_for_another_build_says_for_whom(folder, monkeypatch):
    monkeypatch.setattr(libraries, "_PATIENCE_S", 0.0)
    said, results = [], []
    lock = folder / "builds/sm_90/.lock"
    with ExitStack() as held:
        write_holder(take_lock(lock, held))
        waiter = threading.Thread(
            target=lambda: results.extend(build_both(folder, on_wait=said.append))
        )
        waiter.start()
        wait_for(lambda: said)
    waiter.join()
    assert said == [f"Waiting for another build in {lock.parent} (process {os.getpid()}) …"]
    assert all(result.ok for result in results)


def test_an_nvcc_that_does_not_even_say_its_version_is_no_endless_wait(tmp_path, monkeypatch):
    nvcc = tmp_path / "nvcc"
    nvcc.write_text("#!/bin/sh\nexec sleep 600\n")
    nvcc.chmod(0o755)
    monkeypatch.setattr(compilers, "_ANSWER_S", 0.2)
    with pytest.raises(EnvironmentUnusable, match=r"--version failed: .* timed out"):
        compilers.nvcc_version(nvcc)
