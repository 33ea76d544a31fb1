"""The experiments that compare libraries: one screen each, planned without any of the libraries."""

import pytest
from whole_runs import TESTS

FOLDER = TESTS.parent / "experiments/libraries"
FILES = sorted(FOLDER.glob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_comparison_of_libraries_fits_a_screen_and_is_planned(profiler, file):
    lines = file.read_text().splitlines()
    assert len(lines) <= 30
    assert "Packages: torch" in lines[0]
    assert f"[{file.name}]({file.name})" in (FOLDER / "README.md").read_text()
    plan = profiler("plan", file, "--json", "-")
    assert plan.code == 0, plan.err
    assert len({cell["variant"] for cell in plan.json["cells"]}) >= 3
