"""Builds by the real nvcc and ninja; the sources are as small as they can be."""

import ctypes
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from device_code import compile_device_code

from profiler.errors import EnvironmentUnusable, UsageError
from profiler.kernels.recipe import Recipe, with_stamps
from profiler.machine import compilers
from profiler.machine.compilers import check_arch, find_ninja, find_nvcc, nvcc_version
from profiler.model import Variant
from profiler.sessions.builds import libraries
from profiler.sessions.builds.libraries import build_variants
from softmax import space

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")

SOURCE = """
#include <cuda_runtime.h>
#include "factor.cuh"
extern "C" __global__ void scale(float* x) { x[threadIdx.x] *= FACTOR * WIDTH; }
extern "C" int launch(float* x) { scale<<<1, 32>>>(x); return cudaGetLastError(); }
"""

HOST = """
#include "factor.cuh"
extern "C" int launch() { return FACTOR * WIDTH; }
"""
"""No kernel: nvcc takes a tenth of the time, where only files and their order matter."""

MARKED = """
#include <cuda_runtime.h>
#include <profiler/timeline.cuh>
#include "factor.cuh"
PROFILER_ACTIVITIES(Activity, load, scale_it)
PROFILER_GROUPS("all of it")
PROFILER_OPERATIONS("copy: load to scale_it")
extern "C" __global__ void scale(float* x) {
  profiler::Timeline timeline(0);
  timeline.enter(Activity::load);
  float value = x[threadIdx.x];
  timeline.enter(Activity::scale_it);
  x[threadIdx.x] = value * (FACTOR * WIDTH);
}
extern "C" int launch(float* x) { scale<<<1, 32>>>(x); return cudaGetLastError(); }
"""
"""SOURCE with stamps."""


@pytest.fixture
def folder(tmp_path):
    """A folder whose name needs quoting everywhere."""
    path = tmp_path / "two  spaces, a: colon & 'quotes'"
    path.mkdir()
    (path / "scale.cu").write_text(SOURCE)
    (path / "marked.cu").write_text(MARKED)
    (path / "host.cpp").write_text(HOST)
    (path / "factor.cuh").write_text("#define FACTOR 2\n")
    return path


@pytest.fixture
def elsewhere(folder, tmp_path):
    """A folder of headers that is not that of the sources."""
    path = tmp_path / "include"
    path.mkdir()
    (folder / "factor.cuh").rename(path / "factor.cuh")
    return path


def run(recipes, root, arch="sm_90", **options):
    variants = [Variant(name, name) for name in recipes]
    results = build_variants(variants, recipes, arch=arch, build_root=root, **options)
    assert [result.variant for result in results] == list(recipes)
    return dict(zip(recipes, results, strict=True))


@needs_nvcc
def test_one_build_of_good_broken_equal_and_absent_recipes(folder, monkeypatch):
    scale = folder / "scale.cu"
    (folder / "broken.cu").write_text("int launch() { return undefined_name; }\n")
    steps = []
    recipes = {
        "none": None,
        "first": Recipe((scale,), {"WIDTH": 4}),
        "broken": Recipe((folder / "broken.cu",)),
        "other": Recipe((scale,), {"WIDTH": 8}),
        "marked": Recipe((folder / "marked.cu",), {"WIDTH": 4}),
        "stamped": with_stamps(Recipe((folder / "marked.cu",), {"WIDTH": 4})),
        "same_recipe": Recipe((scale,), {"WIDTH": 4}),
        "no_file": Recipe((folder / "missing.cu",)),
        "no_link": Recipe((folder / "host.cpp",), {"WIDTH": 4}, ("-lthere_is_no_such_library",)),
    }
    root = folder / "$HOME build: root"
    results = run(recipes, root, on_progress=lambda done, total: steps.append((done, total)))
    assert {name: result.ok for name, result in results.items()} == {
        "none": True,
        "first": True,
        "broken": False,
        "other": True,
        "marked": True,
        "stamped": True,
        "same_recipe": True,
        "no_file": False,
        "no_link": False,
    }
    aliases = {name: result.duplicate_of for name, result in results.items() if result.duplicate_of}
    # A header that records nothing leaves no trace in the machine code.
    assert aliases == {"marked": "first", "same_recipe": "first"}
    stamps = ctypes.CDLL(results["stamped"].library)
    stamps.profiler_timeline_activities.restype = ctypes.c_char_p
    assert stamps.profiler_timeline_activities() == b"load, scale_it"
    assert not hasattr(ctypes.CDLL(results["marked"].library), "profiler_timeline_read")

    first = results["first"]
    assert Path(first.library).stat().st_size > 0
    (kernel,) = first.kernels
    assert (kernel.name, kernel.spill_store_bytes, kernel.shared_bytes) == ("scale", 0, 0)
    assert kernel.registers > 0
    assert first.command.endswith("-DWIDTH=4 scale.cu")
    assert str(folder) not in first.command
    assert not first.cached

    assert 'broken.cu(1): error: identifier "undefined_name" is undefined' in (
        results["broken"].error
    )
    assert str(folder) not in results["broken"].error
    assert results["broken"].library is None
    assert "missing.cu" in results["no_file"].error
    assert "there_is_no_such_library" in results["no_link"].error
    assert results["none"].library is None
    assert steps[-1][0] == max(done for done, _ in steps) > 0

    os.utime(scale, (time.time() + 100, time.time() + 100))
    with monkeypatch.context() as patch:
        patch.setattr(libraries, "run_ninja", lambda *_, **__: pytest.fail("a build was started"))
        again = run({"first": recipes["first"]}, root)["first"]
    assert again.cached
    assert again.kernels == first.kernels
    assert (again.library, again.code_hash) == (first.library, first.code_hash)


@needs_nvcc
def test_the_cache_knows_contents_and_not_times(folder, monkeypatch):
    recipe = Recipe((folder / "host.cpp",), {"WIDTH": 4})
    root = folder / "root"
    first = run({"v": recipe}, root)["v"]
    for name in ("host.cpp", "factor.cuh"):
        os.utime(folder / name, (time.time() + 100, time.time() + 100))
    with monkeypatch.context() as patch:
        patch.setattr(libraries, "run_ninja", lambda *_, **__: pytest.fail("a build was started"))
        again = run({"v": recipe}, root)["v"]
    assert again.cached
    assert (again.library, again.code_hash) == (first.library, first.code_hash)

    (folder / "factor.cuh").write_text("#define FACTOR 3\n")
    changed = run({"v": recipe}, root)["v"]
    assert not changed.cached
    assert changed.recipe_hash != first.recipe_hash
    assert changed.code_hash != first.code_hash

    (folder / "factor.cuh").write_text("#define FACTOR 2\n")
    assert run({"v": recipe}, root)["v"].cached  # the old one is still there


@needs_nvcc
def test_headers_from_elsewhere_are_watched(folder, elsewhere):
    recipe = Recipe((folder / "host.cpp",), {"WIDTH": 4}, (f"-I{elsewhere}",))
    root = folder / "root"
    first = run({"v": recipe}, root)["v"]
    assert run({"v": recipe}, root)["v"].cached

    (elsewhere / "factor.cuh").write_text("#define FACTOR 3\n")
    changed = run({"v": recipe}, root)["v"]
    assert not changed.cached
    assert changed.recipe_hash == first.recipe_hash
    assert changed.code_hash != first.code_hash


@needs_nvcc
def test_a_line_directive_may_name_a_file_that_is_not_there(folder, tmp_path):
    code = '#line 1 "generator.py"\nextern "C" int launch() { return 1; }\n'
    (folder / "code.cuh").write_text(code)
    (tmp_path / "code.cuh").write_text(code)
    (folder / "empty.cu").write_text("")
    root = folder / "root"
    recipe = Recipe((folder / "empty.cu",), included=(tmp_path / "code.cuh",))
    assert run({"v": recipe}, root)["v"].ok
    assert run({"v": recipe}, root)["v"].cached
    # nvcc takes what is behind a comma for another file.
    in_folder = Recipe((folder / "empty.cu",), included=(folder / "code.cuh",))
    assert "its path holds one of" in run({"v": in_folder}, root)["v"].error


@needs_nvcc
def test_a_broken_header_fails_and_damage_is_repaired(folder, elsewhere):
    recipe = Recipe((folder / "host.cpp",), {"WIDTH": 4}, (f"-I{elsewhere}",))
    root = folder / "root"
    first = run({"v": recipe}, root)["v"]

    (elsewhere / "factor.cuh").write_text("#error no factor\n")
    broken = run({"v": recipe}, root)["v"]
    assert not broken.ok
    assert broken.library is None
    assert "no factor" in broken.error

    (elsewhere / "factor.cuh").write_text("#define FACTOR 2\n")
    assert run({"v": recipe}, root)["v"].code_hash == first.code_hash
    (root / "sm_90" / first.recipe_hash / "host.d").write_text("cut o")
    (root / "sm_90" / first.recipe_hash / libraries.FACTS_FILE).write_text('{"version": 1, "ker')
    repaired = run({"v": recipe}, root)["v"]
    assert repaired.ok
    assert repaired.code_hash == first.code_hash


@needs_nvcc
def test_a_failure_is_tried_again(folder):
    recipe = Recipe((folder / "host.cpp",), {"WIDTH": 4})
    (folder / "factor.cuh").rename(folder / "elsewhere.txt")
    assert "factor.cuh" in run({"v": recipe}, folder / "root")["v"].error
    (folder / "elsewhere.txt").rename(folder / "factor.cuh")
    assert run({"v": recipe}, folder / "root")["v"].ok


@needs_nvcc
def test_two_processes_building_at_once_both_succeed(folder):
    program = (
        "import sys; from pathlib import Path\n"
        "from profiler.kernels.recipe import Recipe; from profiler.model import Variant\n"
        "from profiler.sessions.builds.libraries import build_variants\n"
        "folder = Path(sys.argv[1]); recipe = Recipe((folder / 'host.cpp',), {'WIDTH': 4})\n"
        "(result,) = build_variants([Variant('v', 'v')], {'v': recipe}, arch='sm_90',"
        " build_root=folder / 'root')\n"
        "print(result.ok, result.cached)\n"
    )
    command = [sys.executable, "-c", program, str(folder)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = sorted(process.communicate()[0].strip() for process in running)
    assert said == ["True False", "True True"]


@needs_nvcc
@pytest.mark.parametrize(
    ("arch", "algorithms"),
    [
        # No source asks for the architecture, and `vector` includes every header.
        ("sm_80", ["vector"]),
        ("sm_90", ["naive", "shared", "warp", "online", "vector"]),
    ],
)
def test_softmax_compiles_for_both_architectures(tmp_path, arch, algorithms):
    recipes = {name: space.recipe({"algorithm": name}) for name in algorithms}
    codes = compile_device_code(recipes, arch, tmp_path)
    for code in codes.values():
        assert all(kernel.registers for kernel in code.kernels)
    assert len({code.text_hash for code in codes.values()}) == len(recipes)
    # Rows live in registers: none of them may have gone to local memory.
    vector = codes["vector"].kernels
    assert len(vector) == 10
    assert {kernel.stack_bytes for kernel in vector} == {0}


@needs_nvcc
@pytest.mark.parametrize(
    "arch", ["sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a"]
)
def test_architectures_that_this_nvcc_knows(arch):
    check_arch(arch, find_nvcc())


@needs_nvcc
@pytest.mark.parametrize("arch", ["sm_13", "sm_999"])
def test_architectures_that_it_does_not_know(arch, tmp_path):
    recipes = {"v": Recipe((tmp_path / "never_read.cu",))}
    with pytest.raises(UsageError, match=r"It builds for: .*sm_90"):
        run(recipes, tmp_path, arch=arch)


@pytest.mark.parametrize("arch", ["", "90", "compute_90", "sm_90;", "sm_90 -o x", "../sm_90"])
def test_what_is_no_architecture(arch, tmp_path):
    with pytest.raises(UsageError, match="no GPU architecture"):
        check_arch(arch, tmp_path / "nvcc")


def without_nvcc(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr(compilers, "DEFAULT_TOOLKIT", str(tmp_path))


def test_nvcc_missing(monkeypatch, tmp_path):
    without_nvcc(monkeypatch, tmp_path)
    with pytest.raises(EnvironmentUnusable, match="nvcc was not found") as caught:
        run({"v": Recipe((tmp_path / "k.cu",))}, tmp_path / "root")
    assert "toolkit" in caught.value.remedy


def test_nothing_to_build_needs_no_nvcc(monkeypatch, tmp_path):
    without_nvcc(monkeypatch, tmp_path)
    results = run({"torch": None}, tmp_path / "root")
    assert results["torch"].ok
    assert not (tmp_path / "root").exists()


def test_nvcc_below_cuda_home(monkeypatch, tmp_path):
    without_nvcc(monkeypatch, tmp_path)
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text("#!/bin/sh\nexit 3\n")
    nvcc.chmod(0o755)
    assert find_nvcc() == nvcc
    with pytest.raises(EnvironmentUnusable, match="exit code 3: it printed nothing"):
        nvcc_version(nvcc)


def test_ninja_missing(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(EnvironmentUnusable, match="ninja"):
        find_ninja()


@needs_nvcc
def test_flags_from_the_environment_are_part_of_the_compiler(monkeypatch):
    for name in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"):
        monkeypatch.delenv(name, raising=False)
    plain = libraries.find_compiler()
    assert "release" in plain.version
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "--use_fast_math")
    assert libraries.find_compiler().version != plain.version
