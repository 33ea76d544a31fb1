"""Fixtures of the tests that run the command line as a process."""

import pytest
from whole_runs import CommandLine


@pytest.fixture
def profiler(tmp_path):
    return CommandLine(tmp_path)


@pytest.fixture(scope="session")
def command_line():
    """Make a command line in a folder, for fixtures that live longer than a test."""
    return CommandLine
