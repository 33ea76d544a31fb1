"""A run folder to write attempts into."""

import pytest
from run_folders import COMMAND_SPEC, Workplace


@pytest.fixture
def place(tmp_path):
    """Three variants on two problems under ncu, nothing measured yet."""
    return Workplace(tmp_path / "place")


@pytest.fixture
def program_place(tmp_path):
    """An external command with two variants, nothing measured yet."""
    return Workplace(tmp_path / "program", COMMAND_SPEC)
