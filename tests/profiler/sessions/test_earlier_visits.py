"""What `plan` finds of a run: visits that count today, and why others do not."""

import json
from dataclasses import asdict, replace

import pytest
from run_folders import (
    COMMAND_SPEC,
    CREATED,
    H200,
    SPEC,
    Workplace,
    external_csv,
    failed,
    measured,
    ncu_csv,
)

from profiler.kernels.build import Compiler, plan_library
from profiler.kernels.recipe import Recipe
from profiler.machine.environment import Gpu
from profiler.machine.requirements import Machine
from profiler.model import BuildResult, Visit
from profiler.planning.plan import make_plan
from profiler.planning.spec import load_spec
from profiler.runner import protocol
from profiler.search.journal import Evaluated, Finished, Proposed
from profiler.sessions.builds.libraries import is_as_built
from profiler.sessions.execution import Execution
from profiler.sessions.forecasts import earlier_visits as machines
from profiler.sessions.forecasts.earlier_visits import earlier_visits, likely_machine
from profiler.sessions.search.search import terms_of

PROGRAM_EDITED = "the program or a file that it depends on was edited since"


def execution_of(place, *, overrides=(), environment=H200):
    loaded = load_spec(place.folder / "spec.yaml", overrides=overrides)
    plan = make_plan(loaded, place.space) if overrides else place.plan
    return Execution(
        loaded=loaded,
        plan=plan,
        space=place.space,
        machine=Machine(environment, "cuda", None),
        out=place.folder / "reports",
        fresh=False,
        created=CREATED,
    )


def timing_of(place, **changes):
    """Number of timing visits that are measured, and why others are made again."""
    timing = earlier_visits(execution_of(place, **changes)).sessions["ncu-timing"]
    return len(timing.measured), timing.why_again


@pytest.fixture
def place(tmp_path):
    made = Workplace(tmp_path)
    made.measure_all()
    return made


def test_after_a_run_everything_is_measured_until_a_setting_changes(place):
    held = earlier_visits(execution_of(place))
    for session in place.plan.sessions:
        assert held.sessions[session.name].measured == frozenset(session.visits)
        assert not held.sessions[session.name].left_out
    visits = len(place.session("ncu-timing").visits)
    assert timing_of(place, overrides=("collect.blocks=2",)) == (visits, "")
    assert timing_of(place, overrides=("collect.warmups=9",)) == (0, "settings changed since")


def test_another_driver_and_an_edited_workload(place):
    newer = replace(H200, driver="590.2", gpu_uuid="gpu-other")
    assert timing_of(place, environment=newer) == (0, "measured with another GPU, driver")
    (place.folder / "workload.py").write_text("import torch  # edited\n")
    count, why = timing_of(place)
    assert (count, why.partition(",")[0]) == (0, "the workload")


def test_a_file_that_sessions_opened_is_named(tmp_path):
    place = Workplace(tmp_path)
    table = place.folder / "table.txt"
    table.write_text("1")
    opened = {"file": "spec:table.txt", "digest": protocol.file_digest(table)}
    visits = place.visits("ncu-timing")
    journal = [*measured(visits), {"event": protocol.OPENED, **opened}]
    place.attempt(journal=journal)
    assert timing_of(place) == (len(visits), "")
    table.write_text("2")
    assert timing_of(place) == (0, "table.txt edited since")


def test_a_run_that_cannot_be_read(place):
    (place.run.path / "build.json").write_text("{")
    assert timing_of(place) == (0, "the newest run cannot be read")


def test_what_was_never_measured_is_no_change(tmp_path):
    place = Workplace(tmp_path)
    place.attempt(visits=place.visits("ncu-timing")[:5])
    assert timing_of(place) == (5, "")


def test_visits_of_a_cell_that_failed_are_left_out(tmp_path):
    place = Workplace(tmp_path)
    visits = place.visits("ncu-timing")
    bad = next(cell.id for cell in place.cells if cell.variant.id != place.plan.baseline)
    good = [visit for visit in visits if visit[0] != bad]
    csv = ncu_csv(good, place.session("ncu-timing").metrics)
    place.attempt(csv=csv, journal=[*measured(good), failed(bad, "wrong_result")])
    timing = earlier_visits(execution_of(place)).sessions["ncu-timing"]
    assert {visit.cell for visit in timing.left_out} == {bad}
    assert len(timing.measured) == len(good)


def test_a_program_that_was_edited(tmp_path):
    program = tmp_path / "sgemm"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    place = Workplace(tmp_path, COMMAND_SPEC)
    session = place.session("ncu-timing")
    for cell, block, arm in place.visits("ncu-timing"):
        visit = Visit(cell, block, arm)
        csv = external_csv(["sgemm"], session.metrics)
        place.attempt(visits=[(cell, block, arm)], visit=visit, csv=csv)
    assert timing_of(place) == (len(session.visits), "")
    program.write_text("#!/bin/sh\n# edited\n")
    assert timing_of(place) == (0, PROGRAM_EDITED)


def test_what_a_recipe_would_build_is_known_by_its_command_and_its_sources(tmp_path):
    source, header = tmp_path / "k.cu", tmp_path / "elsewhere.h"
    source.write_text("kernel")
    header.write_text("types")
    recipe = Recipe((source,), {"N": 1})
    planned = plan_library(recipe, "sm_90", Compiler("nvcc", "13.0"))
    library = tmp_path / "build" / "library.so"
    library.parent.mkdir()
    hashes = {str(file): protocol.file_digest(file) for file in (source, header)}
    (library.parent / "facts.json").write_text(json.dumps({"dependencies": hashes}))
    build = BuildResult(
        "a", ok=True, library=str(library), recipe_hash="r", command=planned.command
    )

    def is_same(recipe=recipe, build=build, built_at=0.0):
        return is_as_built(build, recipe, "sm_90", built_at)

    assert is_same()
    assert not is_same(replace(recipe, defines={"N": 2}))
    assert not is_same(None)
    assert is_same(None, BuildResult("a", ok=True))
    did_not_compile = replace(build, ok=False, library=None)
    assert not is_same(build=did_not_compile)  # edited since
    assert is_same(build=did_not_compile, built_at=source.stat().st_mtime + 1)
    header.write_text("other types")
    assert not is_same()
    (library.parent / "facts.json").unlink()
    assert not is_same()


def test_cells_whose_kernels_only_a_build_knows_are_made_again(tmp_path):
    place = Workplace(tmp_path)
    builds = [BuildResult(variant.id, ok=True) for variant in place.plan.variants]
    gone = replace(builds[1], recipe_hash="r", code_hash="c", library=str(tmp_path / "gone.so"))
    place.begin([builds[0], gone, builds[2]])
    place.measure_all()
    timing = earlier_visits(execution_of(place)).sessions["ncu-timing"]
    assert {v.cell for v in timing.measured} == {
        cell.id for cell in place.cells if cell.variant.id != gone.variant
    }
    assert timing.why_again == "kernels may have changed, only a build can tell"


def test_the_machine_is_the_one_here_where_it_can_measure(place, monkeypatch):
    monkeypatch.setattr(machines, "find_ncu", lambda: "ncu")
    monkeypatch.setattr(machines, "ncu_version", lambda _: "2026.1")
    experiment = place.loaded.experiment
    gpu = Gpu(name="NVIDIA B200", uuid="GPU-1", driver="590.1", compute_capability="10.0")
    here = likely_machine(experiment, place.run, gpu).environment
    assert (here.gpu, here.gpu_uuid, here.driver, here.ncu) == (
        gpu.name,
        "GPU-1",
        "590.1",
        "2026.1",
    )
    assert likely_machine(experiment, place.run, None).environment == H200
    collect = experiment.collect.model_copy(update={"device": "cpu"})
    on_cpu = likely_machine(experiment.model_copy(update={"collect": collect}), place.run, gpu)
    assert (on_cpu.device, on_cpu.environment.gpu, on_cpu.environment.driver) == ("cpu", None, None)


def test_the_uuid_of_the_gpu_of_a_run_is_that_of_its_folder(place):
    raw = replace(H200, gpu_uuid="GPU-1234")
    place.run.note_machine(raw, place.plan.seed, place.folder)
    place.run.write_record(replace(place.record, environment=raw))
    assert place.run.record().environment.gpu_uuid != "GPU-1234"
    assert likely_machine(place.loaded.experiment, place.run, None).environment == raw


# ---- after a search ------------------------------------------------------------------------------

SEARCH_SPEC = (
    SPEC.replace(
        "variants: {list: [plain, tree, loop]}",
        "variants: {list: [plain], matrix: {x: [1, 2, 3, 4]}}",
    )
    + "search: {budget: 3}\n"
)


@pytest.fixture
def searched(tmp_path):
    """A run whose search has proposed three configurations and handed on the second."""
    place = Workplace(tmp_path, SEARCH_SPEC)
    plan = place.plan.search
    names = plan.variants[:3]
    records = [terms_of(execution_of(place), plan, place.keys)]
    for name in names:
        records += [Proposed(name, {"x": 1}), Evaluated(name, "measured")]
    records.append(Finished("budget", (names[1],)))
    journal = place.run.path / "search/journal.jsonl"
    journal.parent.mkdir()
    journal.write_text("".join(f"{json.dumps(asdict(record))}\n" for record in records))
    return place


def test_after_a_search_the_plan_is_what_it_left(searched):
    held = earlier_visits(execution_of(searched))
    baseline, finalist = searched.plan.baseline, searched.plan.search.variants[1]
    assert {cell.variant.id for cell in held.plan.cells} == {baseline, finalist}
    assert (held.search.evaluations, held.search.finalists) == (3, (finalist,))


def test_a_search_goes_on_where_its_budget_grew_and_anew_where_its_terms_changed(searched):
    more = earlier_visits(execution_of(searched, overrides=("search.budget=4",)))
    assert (more.search.evaluations, more.search.finalists) == (3, None)
    other = earlier_visits(execution_of(searched, overrides=("collect.warmups=9",)))
    assert other.search.restarts
    assert other.sessions == {}
