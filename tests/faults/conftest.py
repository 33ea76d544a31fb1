"""Run folders to damage; how they are written is shared with the tests of the profiler."""

import sys
from pathlib import Path

import pytest

sys.path += [
    str(Path(__file__).parents[1] / "profiler" / part) for part in ("", "parse", "importers")
]

from run_folders import Workplace


@pytest.fixture
def place(tmp_path):
    """Three variants on two problems under ncu, nothing measured yet."""
    return Workplace(tmp_path / "place")
