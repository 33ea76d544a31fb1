"""The small experiments of benchmarks/clients: every habit is measured, every fault is found."""

import importlib.util
import json
import shutil
import subprocess

import pytest
from whole_runs import EVERYTHING, TESTS

CLIENTS = TESTS.parent / "benchmarks/clients"
WRONG = {
    "ctypes_library": set(),
    "outputs_of_all_shapes": {"wrong_count"},
    "strided_complex": {"forgets_to_conjugate"},
    "small_integers": {"overflows"},
    "functional_gradients": set(),
    "pybind_module": {"forgets_to_transpose"},
    "numba_loops": {"without_last_row"},
    "jax_jit": {"over_all"},
    "triton_heuristics": {"by_heuristics shift=False"},
    "argparse_script": {"largest"},
    "sparse_products": {"without_last_row"},
    "bf16_accumulations": {"one_after_another"},
    "ragged_batches": {"divided_by_longest"},
    "in_place_outputs": {"in_place_and_unsaid"},
    "pooled_workspace": {"counts_on_the_last_call"},
    "modules_of_a_benchmark": {"other_variance"},
    "variants_of_a_loop": {"tiled-16-2"},
    "random_masks": {"forgets_to_scale"},
}
"""Variants with a planted fault, by file; inline_extension takes half a minute to compile."""
ALWAYS = {
    *("ctypes_library", "outputs_of_all_shapes", "small_integers", "functional_gradients"),
    *("argparse_script", "sparse_products", "pooled_workspace"),
}
"""Files that no other test stands for; `TESTS=all` tries the others, too."""
NEEDED = {"pybind_module": "pybind11", "numba_loops": "numba", "jax_jit": "jax"}
"""Packages beside torch and NumPy."""
SHORT = ("collect.device=cpu", "collect.collectors=timer", "collect.blocks=1", "collect.repeats=1")
LARGE = {"pooled_workspace": ("--only", "n=500")}
"""What is measured of files whose largest problems take seconds on a CPU."""


@pytest.mark.parametrize("name", WRONG if EVERYTHING else sorted(ALWAYS))
def test_each_habit_is_measured_and_each_fault_found(profiler, name):
    package = NEEDED.get(name)
    if package is not None and importlib.util.find_spec(package) is None:
        pytest.skip(f"needs {package}")
    if name.startswith("triton"):  # runs on a CPU by the stand-in
        profiler.environment["PYTHONPATH"] += f":{TESTS / 'fake_triton'}"
    settings = (part for setting in SHORT for part in ("--set", setting))
    only = LARGE.get(name, ())
    done = profiler.measure(CLIENTS / f"{name}.py", *settings, *only, "--json", "-")
    outcomes = {(cell["variant"], cell["outcome"]) for cell in done.json["cells"]}
    wrong = {variant for variant, outcome in outcomes if outcome == "wrong_result"}
    assert wrong == WRONG[name]
    assert {outcome for variant, outcome in outcomes if variant not in wrong} == {"measured"}
    assert done.code == (4 if wrong else 0), done.err


AS_A_NOTEBOOK = """
import json, linecache, sys
module = type(sys)("notebook_of_clients")
sys.modules[module.__name__] = module
for number, cell in enumerate(json.load(open("cells.json"))):
    file = f"<client {number}>"
    linecache.cache[file] = (len(cell), None, cell.splitlines(keepends=True), file)
    exec(compile(cell, file, "exec"), vars(module))
print(json.dumps({cell["variant"]: cell["outcome"] for cell in module.run.findings["cells"]}))
"""


def test_the_notebook_is_written_into_a_file_and_measured(profiler):
    cells = json.loads((CLIENTS / "notebook.ipynb").read_text())["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    settings = dict(setting.split("=") for setting in SHORT)
    given = f"{settings!r}, quiet=True"
    changed = [source.replace('{"collect.device": "auto"}', given) for source in sources]
    (profiler.folder / "cells.json").write_text(json.dumps(changed))
    (profiler.folder / "as_a_notebook.py").write_text(AS_A_NOTEBOOK)
    code, out, err = profiler.fork_server.run(
        *("as_a_notebook", []),
        cwd=profiler.folder,
        environment=profiler.environment,
        patience_s=profiler.patience_s,
    )
    assert code == 0, err
    assert json.loads(out.splitlines()[-1]) == {
        "library": "measured",
        "by_hand": "measured",
        "of_columns": "wrong_result",
    }


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_the_project_with_a_makefile_is_built_and_planned(profiler):
    folder = shutil.copytree(CLIENTS / "makefile_project", profiler.folder / "project")
    subprocess.run(["make", "-s", "ARCH=sm_80"], cwd=folder, check=True)
    done = profiler("plan", folder / "histogram.yaml")
    assert done.code == 0, done.err
    assert "unchecked" not in done.out + done.err, "its exit code tells whether it is right"
