"""Keys of cells: they change with what could change a number, and with nothing else."""

import sys
from dataclasses import replace

import pytest
from run_folders import COMMAND_SPEC, H200, SPEC

from profiler.metrics.catalogue import CATALOGUE, GROUPS
from profiler.model import BuildResult
from profiler.planning.plan import make_plan
from profiler.planning.space import load_space
from profiler.planning.spec import load_spec
from profiler.sessions import cell_keys as keys_module
from profiler.sessions.cell_keys import cell_keys

WORKLOAD = """\
import torch
from helper import block_size
"""
BUILDS = {
    "plain": BuildResult("plain", ok=True, code_hash="c1", recipe_hash="r1"),
    "tree": BuildResult("tree", ok=False, recipe_hash="r2"),
}


@pytest.fixture
def keys(tmp_path):
    """Keys of a spec, whose files lie in a folder of their own."""
    folder = tmp_path / "place"
    folder.mkdir()
    (folder / "workload.py").write_text(WORKLOAD)
    (folder / "helper.py").write_text("block_size = 1\n")

    def make(spec=SPEC, *, builds=BUILDS, environment=H200, overrides=(), only=None, path=folder):
        (path / "spec.yaml").write_text(spec)
        loaded = load_spec(path / "spec.yaml", overrides=overrides)
        plan = make_plan(loaded, load_space(loaded.experiment.workload, loaded.base), only=only)
        return cell_keys(
            plan.cells,
            experiment=loaded.experiment,
            builds=builds,
            environment=environment,
            base=loaded.base,
        )

    make.folder = folder
    return make


def changed(before, after):
    """Cells of both whose keys differ."""
    assert set(before) == set(after)
    return {cell for cell in before if before[cell] != after[cell]}


def test_every_cell_has_a_key_of_its_own(keys):
    found = keys()
    assert len(set(found.values())) == len(found) == 6
    assert found == keys()


@pytest.mark.parametrize(
    "spec",
    [
        SPEC.replace("blocks: 2", "blocks: 20"),
        SPEC.replace("blocks: 2", "blocks: [2, 4, 8]"),
        SPEC.replace("blocks: 2", "blocks: 2, final_blocks: 0"),
        SPEC + "margin_pct: 3\n",
        SPEC.replace("blocks: 2", "blocks: 2, counter_samples: 9"),
        SPEC.replace("blocks: 2", "blocks: 2, collectors: [ncu, nsys, torch]"),
        SPEC.replace("blocks: 2", "blocks: 2, timeline: {launches: 3, capture: program}"),
        SPEC.replace("explain: false", "explain: true"),
        SPEC.replace("title: Which sum", "title: Another title\ndescription: words"),
        SPEC.replace("name: sums", "name: another"),
        SPEC + "baseline: tree\n",
        SPEC.replace("metrics: [duration_ns, cycles", "metrics: [cycles, duration_ns"),
        "# a comment\n" + SPEC,
    ],
)
def test_what_does_not_touch_the_numbers_keeps_the_keys(keys, spec):
    assert changed(keys(), keys(spec)) == set()


def test_other_cells_change_nothing(keys):
    before = keys()
    more = keys(SPEC.replace("[plain, tree, loop]", "[fresh, tree, plain, loop]"))
    more = {**more, **keys(SPEC.replace("[small, large]", "[huge, large, small]"))}
    assert before.items() < more.items()
    assert keys(only="problem=small").items() < before.items()


@pytest.mark.parametrize(
    "spec",
    [
        SPEC.replace("l2_hit_pct]", "l2_hit_pct, waves]"),
        SPEC.replace("blocks: 2", "blocks: 2, seed: 3"),
        SPEC.replace("blocks: 2", "blocks: 2, warmups: 0"),
        SPEC.replace("blocks: 2", "blocks: 2, cache_control: none"),
        SPEC.replace("blocks: 2", "blocks: 2, clock_control: base"),
        SPEC.replace("blocks: 2", "blocks: 2, replay_mode: range"),
        SPEC.replace("blocks: 2", "blocks: 2, collectors: [ncu, timer]"),
        SPEC + "tolerance: {float32: {absolute: 1.0e-3}}\n",
    ],
)
def test_how_it_is_measured_changes_every_key(keys, spec):
    assert len(changed(keys(), keys(spec))) == 6


def test_variables_of_a_variant_change_its_keys_alone(keys):
    spec = SPEC.replace("[plain, tree, loop]", "[plain, {name: tree, env: {MODE: 1}}, loop]")
    assert {cell.partition("..")[0] for cell in changed(keys(), keys(spec))} == {"tree"}
    other = keys(spec.replace("MODE: 1", "MODE: 2"))
    assert {cell.partition("..")[0] for cell in changed(keys(spec), other)} == {"tree"}


def test_a_flag_counts_like_the_spec(keys):
    assert keys(overrides=["collect.seed=3"]) == keys(SPEC.replace("blocks: 2", "seed: 3"))


@pytest.mark.parametrize("field", ["gpu", "gpu_uuid", "driver", "ncu", "torch", "python", "cpu"])
def test_another_machine_or_tool_changes_every_key(keys, field):
    assert len(changed(keys(), keys(environment=replace(H200, **{field: "another"})))) == 6


def test_what_only_describes_the_machine_keeps_the_keys(keys):
    same = replace(H200, git_commit="abc", git_dirty=True, sm_count=132, nvcc="13.0")
    assert changed(keys(), keys(environment=same)) == set()


def test_parameters_count_for_their_own_cells(keys):
    spec = SPEC.replace("[plain, tree, loop]", "[plain, {name: tree, block: BLOCK}, loop]")
    spec = spec.replace("[small, large]", "[small, {name: large, rows: ROWS}]")

    def filled(block, rows):
        return keys(spec.replace("BLOCK", block).replace("ROWS", rows))

    before = filled("128", "4")
    assert changed(before, filled("256", "4")) == {"tree..small", "tree..large"}
    assert changed(before, filled("128", "8")) == {"plain..large", "tree..large", "loop..large"}
    assert len(changed(before, filled("'128'", "4"))) == 2  # a text is not a number


def test_the_binary_counts_for_its_own_variant(keys):
    before = keys()
    other = {**BUILDS, "plain": replace(BUILDS["plain"], code_hash="c2")}
    assert changed(before, keys(builds=other)) == {"plain..small", "plain..large"}
    # Other source, same machine code: nothing that runs is different.
    same = {**BUILDS, "plain": replace(BUILDS["plain"], recipe_hash="r9", cached=True)}
    assert changed(before, keys(builds=same)) == set()
    # What failed to compile gets a new chance with new source.
    mended = {**BUILDS, "tree": replace(BUILDS["tree"], recipe_hash="r9")}
    assert changed(before, keys(builds=mended)) == {"tree..small", "tree..large"}


@pytest.mark.parametrize("file", ["workload.py", "helper.py"])
def test_the_workload_and_what_it_imports_count(keys, file):
    before = keys()
    with (keys.folder / file).open("a") as stream:
        stream.write("# edited\n")
    assert len(changed(before, keys())) == 6


def test_a_file_that_the_workload_does_not_import_does_not_count(keys):
    before = keys()
    (keys.folder / "plots.py").write_text("print()\n")
    assert changed(before, keys()) == set()


@pytest.mark.parametrize(
    ("name", "counts"),
    [("BLOCK_OF_MINE", True), ("OMP_PLACES", True), ("MKL_HOME", False), ("OTHER_OF_MINE", False)],
)
def test_variables_that_libraries_or_the_files_read_count(keys, monkeypatch, name, counts):
    (keys.folder / "helper.py").write_text("import os\nB = os.environ.get('BLOCK_OF_MINE')\n")
    before_and_after = []
    for value in ("64", "128"):
        monkeypatch.setenv(name, value)
        before_and_after.append(keys())
    assert changed(*before_and_after) == (set(before_and_after[0]) if counts else set())


def test_a_folder_may_be_moved(keys, tmp_path):
    before = keys()
    keys.folder.rename(tmp_path / "elsewhere")
    assert keys(path=tmp_path / "elsewhere") == before


def test_a_group_of_metrics_counts_by_its_members(keys, monkeypatch):
    spec = SPEC.replace("[duration_ns, cycles, registers, l2_hit_pct]", "[default]")
    before = keys(spec)
    members = ", ".join(GROUPS["default"])
    assert keys(spec.replace("[default]", f"[{members}]")) == before
    more = next(name for name in CATALOGUE if name not in GROUPS["default"])
    grown = {**GROUPS, "default": (*GROUPS["default"], more)}
    monkeypatch.setattr("profiler.metrics.queries.GROUPS", grown)
    assert len(changed(before, keys(spec))) == 6


# ---- external commands ---------------------------------------------------------------------------


def program(path, text="#!/bin/sh\n"):
    path.write_text(text)
    path.chmod(0o755)


def test_the_program_counts(keys):
    program(keys.folder / "sgemm")
    before = keys(COMMAND_SPEC)
    program(keys.folder / "sgemm", "#!/bin/sh\nexit\n")
    assert len(changed(before, keys(COMMAND_SPEC))) == 2


def test_a_program_per_variant_counts_for_that_variant(keys):
    spec = COMMAND_SPEC.replace("./sgemm {variant}", "./{variant}/sgemm")
    for variant in ("v1", "v2"):
        (keys.folder / variant).mkdir()
        program(keys.folder / variant / "sgemm")
    before = keys(spec)
    program(keys.folder / "v2/sgemm", "#!/bin/sh\nexit\n")
    assert changed(before, keys(spec)) == {"v2..default"}


def test_the_script_of_an_interpreter_counts_and_what_it_writes_does_not(keys):
    spec = COMMAND_SPEC.replace("./sgemm {variant}", f"{sys.executable} bench.py {{variant}} out")
    (keys.folder / "bench.py").write_text("print(1)\n")
    before = keys(spec)
    (keys.folder / "out").write_text("results of the last time")
    assert changed(before, keys(spec)) == set()
    (keys.folder / "bench.py").write_text("print(2)\n")
    assert len(changed(before, keys(spec))) == 2


def test_a_program_that_is_not_there_is_said_elsewhere(keys):
    assert len(set(keys(COMMAND_SPEC.replace("{variant}", "x" * 5000)).values())) == 2


def test_keys_name_the_machine_by_fields_that_exist():
    assert set(keys_module.MACHINE_FIELDS) <= set(vars(H200))


@pytest.mark.parametrize(("collector", "counts"), [("ncu", True), ("cupti", False)])
def test_the_version_of_ncu_counts_where_it_measures(keys, collector, counts):
    overrides = [f"collect.collectors={collector}"]
    before = keys(overrides=overrides)
    later = keys(overrides=overrides, environment=replace(H200, ncu="2026.1.0"))
    assert changed(before, later) == (set(before) if counts else set())
