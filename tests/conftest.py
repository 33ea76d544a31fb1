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
READ_RECORDINGS = frozenset(
    {
        "tests/profiler/findings/test_pairs_judged_once.py",
        "tests/profiler/findings/test_recordings_agree.py",
        "tests/test_gallery.py",
    }
)
"""Files of tests that share the findings of recordings (recorded.py): one worker runs them."""
RENDER = "tests/profiler/render/"
"""Folder of tests that share the pages of one synthetic run: one worker runs them."""
# A machine that does other things at the same time is no fault of what is tested.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Keep the tests of one file, of READ_RECORDINGS, and of RENDER, in one worker."""
    if config.option.dist != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            if file in READ_RECORDINGS:
                return "recordings"
            return RENDER if file.startswith(RENDER) else file

    return ByFile(config, log)


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
