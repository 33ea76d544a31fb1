"""Where tools of NVIDIA are found: a variable, PATH, and the folders that they are installed in."""

import pytest

from profiler.collect.ncu import find_ncu
from profiler.collect.nsys import find_nsys
from profiler.errors import EnvironmentUnusable

BESIDE_NCU = "opt/nvidia/nsight-compute/{}/host/target-linux-x64/nsys"
FOLDERS = {
    "ncu": (
        "opt/nvidia/nsight-compute/2025.9.1/ncu",
        "opt/nvidia/nsight-compute/2025.10.0/ncu",
        "usr/local/cuda-13.0/bin/ncu",
    ),
    "nsys": (
        BESIDE_NCU.format("2025.9.1"),
        BESIDE_NCU.format("2025.10.0"),
        "usr/local/cuda-13.0/bin/nsys",
        "opt/nvidia/nsight-systems/2024.6.1/target-linux-x64/nsys",
        "opt/nvidia/nsight-systems/2025.1.3/bin/nsys",
    ),
}
"""Files of a tool, from the last to be looked at to the first: each beats all above it."""
FIND = {"ncu": find_ncu, "nsys": find_nsys}


def program(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture(params=FIND)
def tool(request):
    return request.param


def test_its_variable_wins_over_path(tool, tmp_path):
    named, on_path = program(tmp_path / "mine" / tool), program(tmp_path / "bin" / tool)
    environ = {f"PROFILER_{tool.upper()}": str(named), "PATH": str(on_path.parent)}
    assert FIND[tool](environ, tmp_path) == named
    assert FIND[tool]({"PATH": str(on_path.parent)}, tmp_path) == on_path


def test_a_wrong_variable_is_an_error_and_not_ignored(tool, tmp_path):
    on_path = program(tmp_path / "bin" / tool)
    absent = {f"PROFILER_{tool.upper()}": str(tmp_path / "absent"), "PATH": str(on_path.parent)}
    with pytest.raises(EnvironmentUnusable, match="absent"):
        FIND[tool](absent, tmp_path)


def test_the_newest_installation_is_taken_where_path_has_none(tool, tmp_path):
    for folder in FOLDERS[tool]:
        newest = program(tmp_path / folder)
        assert FIND[tool]({"PATH": ""}, tmp_path) == newest


def test_a_file_that_cannot_be_run_is_passed_over(tool, tmp_path):
    program(tmp_path / FOLDERS[tool][-1]).chmod(0o644)
    with pytest.raises(EnvironmentUnusable, match="not found") as caught:
        FIND[tool]({"PATH": ""}, tmp_path)
    assert f"PROFILER_{tool.upper()}" in caught.value.remedy
