"""The live stage: stages, builds, and which run folder it goes on in."""

import io
import shutil
from dataclasses import replace

import pytest
from rich.console import Console
from run_folders import CREATED, SPEC, failed

from profiler.kernels.recipe import Recipe
from profiler.machine.requirements import Machine
from profiler.model import Cell, Problem
from profiler.planning.space import load_space
from profiler.planning.spec import load_spec
from profiler.run_folder.runs import runs
from profiler.sessions import execution
from profiler.sessions.builds.plan_builds import build_all, build_plan
from profiler.sessions.execution import SecondsRecorder
from profiler.sessions.measure import MeasureRequest, measure
from profiler.sessions.progress import ProgressReporter

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
LATER = "2026-03-04T09:00:00+00:00"


# ---- seconds per stage ---------------------------------------------------------------------------


class Clock:
    """Seconds that pass when a test says so."""

    now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(execution, "time", clock)
    return clock


def test_seconds_add_up_by_stage_in_the_order_of_beginning(clock):
    seconds = SecondsRecorder()
    for name, took in (("build", 2.0), ("timing", 3.0), ("build", 0.5)):
        with seconds.stage(name):
            clock.now += took
        clock.now += 50.0  # between the stages
    assert list(seconds.stages.items()) == [("build", 2.5), ("timing", 3.0)]


def test_a_stage_that_was_interrupted_counts(clock):
    seconds = SecondsRecorder()

    def interrupted():
        with seconds.stage("timing"):
            clock.now += 7.0
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert seconds.stages == {"timing": 7.0}


def test_stages_may_lie_in_each_other(clock):
    seconds = SecondsRecorder()
    with seconds.stage("whole"):
        clock.now += 1.0
        with seconds.stage("part"):
            clock.now += 2.0
    assert seconds.stages == {"whole": 3.0, "part": 2.0}


# ---- builds --------------------------------------------------------------------------------------


def test_variants_of_a_plan_are_each_there_once_in_its_order(place):
    assert [variant.name for variant in place.plan.variants] == ["plain", "tree", "loop"]
    more = Cell("x", place.cells[1].variant, Problem("other", "other"))
    plan = replace(place.plan, cells=(more, *place.cells))
    assert [variant.name for variant in plan.variants] == ["tree", "plain", "loop"]


def write_space(folder, recipe):
    """A space whose variants have this recipe."""
    (folder / "space.py").write_text(
        f"from pathlib import Path\nfrom profiler.kernels.recipe import Recipe\n"
        f"def recipe(params):\n    return {recipe}\n"
    )
    spec = SPEC.replace("./workload.py", "{module: ./workload.py, space: ./space.py}")
    (folder / "workload.py").write_text("")
    return spec


def test_nothing_is_built_where_there_is_no_recipe(place, tmp_path):
    space = load_space(place.loaded.experiment.workload, place.loaded.base)
    builds = build_plan(
        place.loaded,
        place.plan.variants,
        space,
        arch="sm_90",
        build_root=tmp_path / "build",
    )
    assert [(build.variant, build.ok, build.library) for build in builds] == [
        *(("plain", True, None), ("tree", True, None), ("loop", True, None)),
    ]
    assert not (tmp_path / "build").exists()


@needs_nvcc
def test_flags_of_the_spec_reach_the_compiler_behind_those_of_the_recipe(place, tmp_path):
    source = tmp_path / "sum.cu"
    source.write_text(
        "#if !defined(OWN) || !defined(SPEC)\n#error flags\n#endif\nint launch() { return 0; }\n"
    )
    spec = write_space(tmp_path, f'Recipe((Path({str(source)!r}),), flags=("-DOWN",))')
    (tmp_path / "spec.yaml").write_text(spec + "build: {flags: [-DSPEC]}\n")
    loaded = load_spec(tmp_path / "spec.yaml")
    space = load_space(loaded.experiment.workload, tmp_path)
    assert space.recipe({}) == Recipe((source,), flags=("-DOWN",))
    steps = []
    (build,) = build_plan(
        loaded,
        place.plan.variants[:1],
        space,
        arch="sm_90",
        build_root=tmp_path / "build",
        on_progress=lambda done, total: steps.append((done, total)),
    )
    assert build.ok, build.error
    assert build.command.index("-DOWN") < build.command.index("-DSPEC")
    assert steps[-1][0] == steps[-1][1]


# ---- run folders ---------------------------------------------------------------------------------


@pytest.fixture
def go(place, tmp_path, monkeypatch):
    """Run the live stage over what a run folder has already; gives the run and what was said.

    There is no ncu: it would fail if it tried to measure anything.
    """
    monkeypatch.setenv("PROFILER_LOCKS", str(tmp_path / "locks"))

    def run(**changes):
        console = Console(file=io.StringIO(), width=200)
        live = MeasureRequest(
            loaded=place.loaded,
            plan=place.plan,
            space=load_space(place.loaded.experiment.workload, place.loaded.base),
            machine=Machine(place.environment, "cpu", None),
            out=place.folder / "reports",
            fresh=False,
            created=LATER,
        )
        live, reporter = replace(live, **changes), ProgressReporter(console, console)
        run = measure(live, build_all(live, reporter), reporter)
        return run, console.file.getvalue()

    return run


def test_a_complete_run_is_gone_on_with_and_nothing_is_measured(place, go):
    place.measure_all()
    before = [attempt.folder for attempt in place.run.attempts()]
    run, said = go()
    assert run == place.run
    assert [attempt.folder for attempt in run.attempts()] == before
    assert f"Resuming {place.run.path}" in said
    assert said.count("nothing is missing") == 3


def test_what_failed_or_is_a_twin_is_not_measured_again(place, go):
    for session in place.plan.sessions:
        own = [visit for visit in place.visits(session.name) if visit[0] != "tree..small"]
        place.attempt(session.name, visits=own)
    place.attempt(visits=[("tree..small", 0)], journal=[failed("tree..small", "raised")])
    _, said = go()
    assert said.count("nothing is missing") == 3


def test_a_resumed_run_keeps_when_it_began_and_adds_up_its_seconds(place, go):
    place.measure_all()
    place.run.write_record(replace(place.record, stages={"build": 10.0, "old": 1.0}))
    run, _ = go()
    record = run.record()
    assert record.created == CREATED
    assert record.stages["build"] >= 10.0
    assert list(record.stages) == [
        *("build", "old", "ncu-timing", "ncu-counters", "ncu-counters-l2_hit_sectors")
    ]
    assert record.keys == place.keys


def test_a_narrower_run_keeps_the_keys_of_the_cells_that_it_leaves_out(place, go):
    place.measure_all()
    one = place.cells[0]
    sessions = tuple(
        replace(session, visits=tuple(v for v in session.visits if v.cell == one.id))
        for session in place.plan.sessions
    )
    run, _ = go(plan=replace(place.plan, cells=(one,), sessions=sessions))
    assert run == place.run
    assert run.record().keys == place.keys
    assert [cell.id for cell in run.plan().cells] == [one.id]


@needs_nvcc
def test_fresh_and_changed_cells_start_a_run_of_their_own(place, go):
    place.measure_all()
    # Nothing compiles, so that nothing is measured either.
    spec = write_space(place.folder, 'Recipe((Path("/nowhere/missing.cu"),))')
    place.loaded.path.write_text(spec)
    loaded = load_spec(place.loaded.path)
    space = load_space(loaded.experiment.workload, loaded.base)
    machine = Machine(replace(place.environment, compute_capability="9.0"), "cpu", None)
    changed, said = go(loaded=loaded, space=space, machine=machine)
    assert changed.path.name == "20260304-090000"
    assert "3 failed" in said
    assert [build.ok for build in changed.builds()] == [False] * 3
    again, _ = go(loaded=loaded, space=space, machine=machine)
    assert again == changed
    fresh, _ = go(loaded=loaded, space=space, machine=machine, fresh=True)
    assert fresh.path.name == "20260304-090000-2"
    assert runs(place.folder / "reports", "sums") == (place.run, changed, fresh)
    assert changed.record().created == LATER
    assert changed.spec_file.read_text("utf-8") == spec
