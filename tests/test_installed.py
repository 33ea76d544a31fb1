"""The wheel in an environment of its own: one top-level name, in nobody's way."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

import profiler

ROOT = Path(__file__).resolve().parent.parent
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
BUILD = ("wheel", "--no-deps", "--no-build-isolation")
INSTALL = ("install", "--no-deps", "--no-index", "--no-compile")
"""What is imported is compiled, which is less than all."""

NAMES_OF_OURS = ("kernels", "runner", "profiler")
NAMES_OF_PYTHON = ("types", "queue", "token")
"""`token` is imported late, by what shows a traceback; the others early."""
WORKLOAD = """
import kernels, runner, profiler, torch
from queue import Queue

def make_inputs(problem, device, seed):
    return torch.ones(problem["size"], device=device)

def reference(problem, inputs):
    assert kernels.OWN and runner.OWN and profiler.OWN, "files beside this one"
    assert not hasattr(Queue, "OWN"), "the standard library's"
    return inputs * 2

def prepare(variant, problem, inputs, library):
    return lambda: inputs * variant["factor"]
"""


def run(*command, cwd=ROOT, **environment):
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The project's wheel, built from a copy of what is in the checkout."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("profiler", "runner", "kernels"):
        left_out = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=left_out)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    folder = tmp_path_factory.mktemp("wheel")
    run(*PIP, *BUILD, "--wheel-dir", folder, copy, HOME=str(folder))
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """Python of a virtual environment with the wheel; what the tests have lies behind its own."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    ours = [entry for entry in sys.path if entry.endswith("site-packages")]
    # Paths alone: a line that a .pth of ours would execute is not executed in a folder named so.
    (packages / "behind.pth").write_text("\n".join(ours))
    python = folder / "bin/python"
    run(*PIP, "--python", python, *INSTALL, wheel)
    return python


def test_the_wheel_has_one_top_level_name(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name.partition("/")[0] for name in archive.namelist()}
        files = set(archive.namelist())
    # So it lies beside a package `kernels` or `runner`, and leaves it alone when it goes.
    assert {name for name in names if not name.endswith(".dist-info")} == {"profiler"}
    for name in (
        "runner/__main__.py",
        "kernels/cuda_file/space.py",
        "kernels/include/profiler/timeline.cuh",
        "render/assets/page.css",
        "commands/templates/python/NAME.py.in",
        "py.typed",
        "__init__.pyi",
    ):
        assert f"profiler/{name}" in files
    ours = {path.partition("/kernels/")[2] for path in files if "/kernels/" in path}
    assert {path.partition("/")[0] for path in ours if "/" in path} == {"cuda_file", "include"}
    assert wheel.name.startswith(f"kernel_profiler-{profiler.__version__}-")
    assert {name.rpartition(".")[2] for name in files if "/src/" in name} >= {"cu", "cuh"}


def test_files_of_the_user_may_have_any_name(environment, tmp_path):
    folder = tmp_path / "own"
    folder.mkdir()
    for name in (*NAMES_OF_OURS, *NAMES_OF_PYTHON):
        (folder / f"{name}.py").write_text("OWN = True\n")
    (folder / "mine.py").write_text(WORKLOAD)
    spec = {
        "name": "mine",
        "workload": "./mine.py",
        "variants": {"list": [{"params": {"factor": factor}} for factor in (2, 2.0)]},
        "problems": {"matrix": {"size": [64]}},
        "collect": {"device": "cpu", "blocks": 1, "collectors": "timer"},
    }
    (folder / "mine.yaml").write_text(yaml.safe_dump(spec))
    run(
        *(environment.with_name("profiler"), "mine.yaml", "--no-report"),
        cwd=folder,
        HOME=str(tmp_path),
        PROFILER_LOCKS=str(tmp_path / "locks"),
    )
    (summary,) = folder.glob("reports/mine/*/summary.json")
    code = "import profiler.runner; print(profiler.runner.__file__)"
    where = run(environment, "-c", code, cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(environment.parents[1]), "of the wheel"
    cells = json.loads(summary.read_text())["cells"]
    assert [cell["outcome"] for cell in cells] == ["measured"] * 2
