"""Fixtures of the tests that run the command line as a process."""

import gc
import os
from functools import partial

import pytest
from browser_pages import close_browser, shared_browser
from fork_server import ForkServer
from hypothesis import settings
from whole_runs import PLAIN_INDUCTOR, CommandLine

os.environ.update(PLAIN_INDUCTOR)  # inductor reads them when it is imported
# Frames and figures are many small objects that live: looking through them for garbage again and
# again takes 12 % of the time of finding and drawing a page.
gc.set_threshold(100_000, 50, 100)
# A machine that does other things at the same time is no fault of what is tested.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(scope="session")
def fork_server(tmp_path_factory):
    """Runs what the tests of this worker ask for; its own folder is nobody's."""
    server = ForkServer(CommandLine(tmp_path_factory.mktemp("fork_server")).environment)
    yield server
    server.close()


@pytest.fixture
def profiler(tmp_path, fork_server):
    return CommandLine(tmp_path, fork_server)


@pytest.fixture(scope="session")
def command_line(fork_server):
    """Make a command line in a folder, for fixtures that live longer than a test."""
    return partial(CommandLine, fork_server=fork_server)


@pytest.fixture(scope="session")
def browser():
    """Chromium, one for all tests of a worker; the test is skipped where it cannot be started."""
    return shared_browser()


@pytest.fixture(scope="session", autouse=True)
def _browser_ends_with_the_tests():
    yield
    close_browser()
