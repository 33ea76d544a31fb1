"""Fixtures of the tests that run the command line as a process."""

import pytest
from hypothesis import settings
from whole_runs import CommandLine

# A machine that does other things at the same time is no fault of what is tested.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture
def profiler(tmp_path):
    return CommandLine(tmp_path)


@pytest.fixture(scope="session")
def command_line():
    """Make a command line in a folder, for fixtures that live longer than a test."""
    return CommandLine
