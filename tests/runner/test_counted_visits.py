"""Visits that are counted together: which kernels are whose, and what becomes of one that fails."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from test_range_profiler import METRICS, Library

from profiler.runner import protocol
from profiler.runner.cupti import counted_visits
from profiler.runner.cupti.counted_visits import (
    MOST_KERNELS,
    MOST_KERNELS_TOGETHER,
    MOST_TOGETHER,
    CountedVisits,
)
from profiler.runner.device import CpuDevice
from profiler.runner.protocol import Job, JobCell, JobVisit, MeasureSettings
from profiler.runner.timing import restore

COUNTING = MeasureSettings(counters=METRICS, flush=True)


class Session:
    """What the walk over a job does with a launch: a failure ends the visits of its cell."""

    def __init__(self, launches):
        self.launches, self.phases, self.failed, self.found = launches, [], {}, {}

    def attempt(self, visit, phase, make):
        launch = self.launches.get(visit.cell)
        if launch is None:
            return False
        self.phases.append((phase, visit.cell))
        try:
            make(launch)
            restore(launch)
        except Exception as error:
            self.failed[visit.cell] = str(error)
            del self.launches[visit.cell]
            return False
        return True


def stand_in(monkeypatch, library):
    """Have a library stand in for CUPTI, and a GPU for the one that is not here."""
    properties = SimpleNamespace(multi_processor_count=132, max_threads_per_multi_processor=64)
    monkeypatch.setattr(counted_visits, "load_library", lambda _: library)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)


@pytest.fixture
def made(monkeypatch):
    """Makes the visits of cells whose launches are given, by a library that stands in."""

    def make(library, launches, blocks=2):
        stand_in(monkeypatch, library)
        job = Job("s", "w", "cupti", "cpu", 0, "", (), (), settings=COUNTING)
        visits = [JobVisit(cell, block) for block in range(blocks) for cell in launches]
        session = Session({cell: launch(library) for cell, launch in launches.items()})
        counted = CountedVisits(job, CpuDevice())
        for cell, warm in list(session.launches.items()):
            session.attempt(
                JobVisit(cell, 0),
                protocol.WARMUP,
                lambda _, c=cell, w=warm: session.found.update({c: counted.warm_up(c, w, 1)}),
            )
        session.phases.clear()
        results = [
            (visit, [kernel["kernel"] for kernel in kernels])
            for visit, kernels in counted.make_all(visits, session.attempt)
        ]
        counted.close()
        return session, results

    return make


def of(*kernels):
    """A launch of these kernels."""
    return lambda library: lambda: library.launch(kernels)


def raising(library):
    def launch():
        library.launch(("begun",))
        raise ValueError("mine")

    return launch


def changing(library):
    calls = []

    def launch():
        calls.append(1)
        library.launch(("tuned",) * len(calls))

    return launch


def test_visits_of_several_blocks_are_counted_at_once(made):
    library = Library()
    session, results = made(library, {"a": of("x"), "b": of("y", "z")})
    assert results == [
        (JobVisit("a", 0), ["x"]),
        (JobVisit("b", 0), ["y", "z"]),
        (JobVisit("a", 1), ["x"]),
        (JobVisit("b", 1), ["y", "z"]),
    ]
    assert library.calls.count("begin") == 1
    assert session.phases == [(protocol.MEASURE, cell) for cell in "abab"]


def test_a_warm_up_says_what_a_launch_copies(made):
    def copying(library):
        def launch():
            library.copy(2048)
            library.copy(1024)
            library.launch(("product",))

        return launch

    session, _ = made(Library(), {"a": of("x"), "b": copying})
    assert session.found == {
        "a": {"copies": 0, "copied_bytes": 0.0, "concurrent_kernels": 1, "waiting_ns": 0.0},
        "b": {"copies": 2, "copied_bytes": 3072.0, "concurrent_kernels": 1, "waiting_ns": 0.0},
    }


@pytest.fixture
def visits_of(monkeypatch):
    """Visits of a session of cells by a library that stands in; `built`: by a built library."""

    def make(library, *cells, built=True):
        stand_in(monkeypatch, library)
        of_job = [
            JobCell(cell, cell, {}, "p", {}, library="k.so" if built else None) for cell in cells
        ]
        settings = replace(COUNTING, flush=False)
        job = Job("s", "w", "cupti", "cpu", 0, "", of_job, (), settings=settings)
        return CountedVisits(job, CpuDevice())

    return make


class Kernel:
    """Launches one kernel; says how often it was launched."""

    def __init__(self, library):
        self.library, self.launches = library, 0

    def __call__(self):
        self.launches += 1
        self.library.launch(("x",))
        return "result"


def test_a_first_launch_that_is_like_all_others_stands_for_one_warm_up(visits_of):
    library = Library()
    visits, kernel = visits_of(library, "a"), Kernel(library)
    assert visits.first_launch("a", kernel) == "result"
    facts = visits.warm_up("a", kernel, 1)
    assert facts == {"copies": 0, "copied_bytes": 0.0, "concurrent_kernels": 1, "waiting_ns": 0.0}
    assert kernel.launches == 1
    visits.warm_up("a", kernel, 1)
    assert kernel.launches == 2, "moved inputs are cold again"


@pytest.mark.parametrize(
    ("warm_s", "built", "launches"), [(0.0, True, 1), (0.0, False, 2), (100.0, True, 2)]
)
def test_a_later_session_warms_up_what_is_short_or_may_compile_anew(
    visits_of, monkeypatch, warm_s, built, launches
):
    monkeypatch.setattr(counted_visits, "WARM_S", warm_s)
    library = Library()
    first, kernel = visits_of(library, "a", built=built), Kernel(library)
    facts = first.warm_up("a", kernel, 1)
    between = visits_of(library, "b")
    between.remember(first)
    later = visits_of(library, "a", built=built)
    later.remember(between)
    assert later.warm_up("a", kernel, 1) == facts
    assert kernel.launches == launches
    assert (later.spared_s > 0) == (launches == 1)


def test_each_pass_makes_the_same_launches_again(made):
    library = Library(passes=3)
    session, results = made(library, {"a": of("x"), "b": of("y")}, blocks=1)
    assert [kernels for _, kernels in results] == [["x"], ["y"]]
    assert session.phases == [
        *((protocol.MEASURE, cell) for cell in "ab"),
        *((protocol.COUNT, cell) for cell in "abab"),
    ]


@pytest.mark.parametrize("passes", [1, 2])
def test_a_launch_that_fails_costs_its_cell(made, passes):
    session, results = made(Library(passes=passes), {"a": of("x"), "bad": raising, "c": of("z")})
    assert [(visit.cell, kernels) for visit, kernels in results] == [
        ("a", ["x"]),
        ("c", ["z"]),
        ("a", ["x"]),
        ("c", ["z"]),
    ]
    assert session.failed == {"bad": "mine"}


def test_a_cell_that_cannot_be_counted_fails_alone(made):
    library = Library(passes=2)
    session, results = made(library, {"a": of("x"), "changing": changing, "c": of("z")}, blocks=1)
    assert [(visit.cell, kernels) for visit, kernels in results] == [("a", ["x"]), ("c", ["z"])]
    assert session.failed == {"changing": "CUPTI: no such metric"}
    assert library.calls.count("reset") == 2, "for all together, and for the one"


def test_more_kernels_than_fit_are_counted_in_parts(made):
    library = Library()
    wide = of(*["x"] * 90)
    session, results = made(library, {"a": wide, "b": wide, "c": wide, "d": wide}, blocks=1)
    assert [len(kernels) for _, kernels in results] == [90] * 4
    assert not session.failed
    assert library.calls.count("begin") == 2
    assert library.most == MOST_KERNELS_TOGETHER


def test_kernels_that_restore_inputs_have_room_too(made):
    """Before a visit and after it, outside of what is measured, but among what is counted."""

    def in_place(library):
        def launch():
            library.launch(("x",))

        launch.restore = lambda: library.launch(("copy",) * 4)
        return launch

    library = Library()
    _, results = made(library, {"a": in_place}, blocks=MOST_TOGETHER)
    assert [kernels for _, kernels in results] == [["x"]] * MOST_TOGETHER
    assert "reset" not in library.calls, "there was room"


def test_room_is_made_for_a_launch_of_many_kernels(made):
    library = Library()
    session, results = made(library, {"a": of("x"), "wide": of(*["y"] * 300)}, blocks=1)
    assert [len(kernels) for _, kernels in results] == [1, 300]
    assert not session.failed
    assert library.most == 300


def test_a_launch_of_a_graph_is_never_counted(made):
    """CUPTI crashes where a graph is launched among what it counts."""
    library = Library()
    graph = lambda library: library.replay_graph  # noqa: E731 - as `of` does
    session, results = made(library, {"a": of("x"), "graph": graph})
    assert [visit.cell for visit, _ in results] == ["a", "a"]
    assert "graph" not in {cell for _, cell in session.phases}
    assert session.failed == {"graph": "CUPTI: no such metric"}


def test_a_launch_of_too_many_kernels_fails_alone(made):
    session, results = made(Library(), {"a": of("x"), "endless": of(*["y"] * (MOST_KERNELS + 1))})
    assert [visit.cell for visit, _ in results] == ["a", "a"]
    assert session.failed["endless"].startswith("it launches 8193 kernels, and CUPTI counts 8192")


def test_so_many_are_together_and_no_more(made):
    library = Library()
    _, results = made(library, {"a": of("x")}, blocks=MOST_TOGETHER + 1)
    assert len(results) == MOST_TOGETHER + 1
    assert library.calls.count("begin") == 2


def test_where_all_fail_nothing_is_counted(made):
    for passes in (1, 2):
        session, results = made(Library(passes=passes), {"bad": raising})
        assert not results
        assert list(session.failed) == ["bad"]
