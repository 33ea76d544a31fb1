"""Fixtures of the tests that run the command line as a process."""

import gc
import itertools
import os
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from browser_pages import close_browser, shared_browser
from fork_server import ForkingPopen, ForkServer, execute, without_disk
from hypothesis import settings
from markupsafe import Markup
from whole_runs import PLAIN_INDUCTOR, CommandLine

MEMORY = "/dev/shm"  # noqa: S108 - pytest makes a folder there that only this user can read
ROOM_BYTES = 4 << 30
os.environ.update(PLAIN_INDUCTOR)  # inductor reads them when it is imported
# Stand-ins for tools begin with `env python3`: where that is a script which looks for a version, it
# takes longer than all of a small stand-in.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
os.environ["OMP_NUM_THREADS"] = "1"  # torch, MKL and BLAS: workers have all cores busy already
# Frames and figures are many small objects that live: looking through them for garbage again and
# again takes 12 % of the time of finding and drawing a page.
gc.set_threshold(100_000, 50, 100)
os.fsync = without_disk
# Tests make tens of thousands of small files, some of them programs: on a disk they take a
# twentieth of all the time.
with suppress(OSError):
    memory = os.statvfs(MEMORY)
    if memory.f_bavail * memory.f_frsize > ROOM_BYTES and not memory.f_flag & os.ST_NOEXEC:
        tempfile.tempdir = os.environ.setdefault("TMPDIR", MEMORY)
READ_RECORDINGS = frozenset(
    {
        "tests/profiler/analyse/test_causes_recorded.py",
        "tests/profiler/analyse/test_sass_code.py",
        "tests/profiler/analyse/test_waited_for.py",
        "tests/profiler/findings/test_brief.py",
        "tests/profiler/findings/test_contrasts.py",
        "tests/profiler/findings/test_json_documents.py",
        "tests/profiler/findings/test_pairs_judged_once.py",
        "tests/profiler/findings/test_recordings_agree.py",
        "tests/profiler/render/test_plots.py",
        "tests/profiler/test_search_exports.py",
        "tests/test_doc_numbers.py",
        "tests/test_gallery.py",
        "tests/test_golden.py",
        "tests/test_planted_causes.py",
    }
)
"""Files of tests that share the findings of recordings (recorded.py): one worker runs them."""
RENDER = "tests/profiler/render/"
"""Folder of tests that share the pages of one synthetic run: one worker runs them."""
STARTS_PROCESSES = ("tests/test_", "tests/faults/", "tests/kernels/")
"""Beginnings of paths of files of which few tests may take long: runs, builds, compilers."""
FOLDERS = itertools.count()
# A machine that does other things at the same time is no fault of what is tested.
settings.register_profile("patient", deadline=None, max_examples=30)
settings.load_profile("patient")


def _scope(file):
    """What one worker runs: the tests of a file, of READ_RECORDINGS, or of RENDER."""
    if file in READ_RECORDINGS:
        return "recordings"
    return RENDER if file.startswith(RENDER) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give scopes to workers in the order of the collected tests."""
    if config.option.dist != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return _scope(super()._split_scope(nodeid))

    return ByFile(config, log)


def pytest_collection_modifyitems(config, items):
    """In a worker, put what takes long first, so that all workers end at the same time."""
    if not hasattr(config, "workerinput"):
        return
    scopes = {item: _scope(item.nodeid.partition("::")[0]) for item in items}
    sizes = Counter(scopes.values())

    def place(item):
        scope = scopes[item]
        shared = scope in ("recordings", RENDER)
        return (not shared, not scope.startswith(STARTS_PROCESSES), -sizes[scope])

    items.sort(key=place)


def _send_news(send, name, **values):
    """Send an event of a worker, unless it is that a phase around a test has passed."""
    report = values.get("data", {"when": "call"})
    if report.get("when") == "call" or report.get("outcome") != "passed":
        send(name, **values)


def pytest_sessionstart(session):
    """Leave out two of three reports of each test, which take longer than most tests."""
    if session.config.getoption("xmlpath", None):  # its seconds are those of all three
        return
    for plugin in session.config.pluginmanager.get_plugins():
        if hasattr(plugin, "sendevent"):  # of xdist, in a worker
            plugin.sendevent = partial(_send_news, plugin.sendevent)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep what is collected from being looked through for garbage, then and later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish():
    """Look for garbage once: pytest does it five times, among all recordings and pages."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def tmp_path(tmp_path_factory, request):
    """A folder of this test.

    pytest's own looks through the folders of all tests before it for a number, and links the last.
    """
    folder = tmp_path_factory.getbasetemp() / f"{request.node.originalname[:30]}{next(FOLDERS)}"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory, request):
    """A folder of this run of the tests, which all workers have."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if hasattr(request.config, "workerinput") else base


@pytest.fixture(scope="session")
def fork_server(tmp_path_factory, shared_folder):
    """Runs what the tests of this worker ask for; its own folder is nobody's."""
    environment = CommandLine(tmp_path_factory.mktemp("fork_server")).environment
    server = ForkServer(environment, shared_folder)
    yield server
    server.close()


@pytest.fixture
def forked_interpreters(monkeypatch):
    """Interpreters that this process starts are forks of it: each would import torch for a second.

    Not for tests of their start or end, or of what they may know of this process.
    """
    monkeypatch.setattr(subprocess, "Popen", ForkingPopen)
    monkeypatch.setattr(os, "execvp", execute)


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


@pytest.fixture
def undrawn(monkeypatch):
    """Figures are made and not drawn, for tests of words and tables: two thirds of a page's time.

    Not for tests that ask `page_of`: others get the page that it keeps.
    """
    from profiler.render.figures import charts

    monkeypatch.setattr(charts, "to_svg", lambda *_: Markup("<svg></svg>"))


@pytest.fixture
def steps(monkeypatch):
    """Words for what happens, in order: ranges that are pushed and popped; tests add theirs."""
    from profiler.kernels import marks

    seen = []
    monkeypatch.setattr(marks, "_push", lambda name: seen.append(f"push {name}"))
    monkeypatch.setattr(marks, "_pop", lambda: seen.append("pop"))
    return seen
