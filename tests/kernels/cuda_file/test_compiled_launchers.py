"""The example's kernels, compiled by nvcc: which kernel is started, its facts and its identity."""

import ctypes
import re
import shutil
from pathlib import Path

import pytest
from whole_runs import EVERYTHING

from profiler.parse.machine_code import code_hash, kernels_hash, launched_functions
from profiler.planning.plan import make_plan
from profiler.planning.readiness import check_ready
from profiler.planning.space import space_of
from profiler.planning.spec import load_spec
from profiler.sessions.builds.plan_builds import build_plan

pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "experiments/transpose.yaml"
DOCS = ROOT / "docs/cuda-file.md"
NAIVE = "_Z15transpose_naivePKfPfii"
TILED = "_Z15transpose_tiledILi32ELi{}EEvPKfPfii"


@pytest.fixture(scope="module")
def builds(tmp_path_factory):
    loaded = load_spec(EXAMPLE)
    space = space_of(loaded)
    variants = make_plan(loaded, space).variants
    folder = tmp_path_factory.mktemp("build")
    results = build_plan(loaded, variants, space, arch="sm_90", build_root=folder)
    return {v.name: result for v, result in zip(variants, results, strict=True)}


def objects(build):
    return Path(build.library).with_name("launcher.o")


def test_every_variant_compiles_and_has_the_facts_of_its_kernel_only(builds):
    assert [build.error for build in builds.values()] == [""] * 4
    kernels = {name: [facts.name for facts in build.kernels] for name, build in builds.items()}
    assert kernels == {
        "torch": [],
        "naive": [NAIVE],
        "tiled": [TILED.format(0)],
        "padded": [TILED.format(1)],
    }
    assert builds["padded"].kernels[0].shared_bytes == 32 * 33 * 4
    assert all("transpose.cu" in build.command for build in builds.values() if build.library)


def test_the_launcher_names_its_kernel_and_the_parameters(builds):
    assert launched_functions(objects(builds["tiled"])) == (TILED.format(0),)
    library = ctypes.CDLL(builds["naive"].library)
    library.profiler_parameters.restype = ctypes.c_char_p
    assert library.profiler_parameters(0) == b"*f4 *f4 i4 i4 "


def test_a_kernel_is_the_same_program_whatever_is_compiled_beside_it(builds):
    naive, tiled = objects(builds["naive"]), objects(builds["tiled"])
    assert kernels_hash(naive, [NAIVE]) == kernels_hash(tiled, [NAIVE]) == builds["naive"].code_hash
    assert code_hash(naive) != code_hash(tiled)
    programs = [build.program for build in builds.values() if build.library]
    assert len(set(programs)) == 3


def example(heading, tmp_path):
    """The experiment under a heading of the document, with its source beside it."""
    page = DOCS.read_text("utf-8").partition(f"## {heading}")[2]
    source, text = (re.search(rf"```{kind}\n(.*?)```", page, re.DOTALL)[1] for kind in LANGUAGES)
    name = re.search("source: (.+)", text)[1]
    # The host calls a static kernel by another name than the device.
    (tmp_path / name).write_text(
        source.replace("__global__ void sum_all", "static __global__ void sum_all")
    )
    spec = tmp_path / "spec.yaml"
    spec.write_text(text)
    return load_spec(spec)


LANGUAGES = ("cuda", "yaml")


def test_the_example_of_several_launches_compiles_with_its_struct_and_its_kernels(tmp_path):
    loaded = example("Several launches", tmp_path)
    space = space_of(loaded)
    plan = make_plan(loaded, space)
    assert len(plan.cells) == 6
    builds = build_plan(loaded, plan.variants, space, arch="sm_80", build_root=tmp_path)
    assert [build.error for build in builds] == [""] * 3
    kernels = [[facts.name for facts in build.kernels] for build in builds]
    assert [len(names) for names in kernels] == [0, 1, 2]
    library = ctypes.CDLL(builds[2].library)
    library.profiler_parameters.restype = ctypes.c_char_p
    assert library.profiler_parameters(0) == b"*f4 *f4 i4 i4 "
    assert library.profiler_parameters(1) == b"{*f4,*f4,i4,i4,f4} "


def test_the_example_of_a_host_function_compiles_and_its_library_has_no_facts_of_one_kernel(
    tmp_path,
):
    loaded = example("Host functions", tmp_path)
    space = space_of(loaded)
    plan = make_plan(loaded, space)
    assert check_ready(loaded, plan, space) == ()
    builds = build_plan(loaded, plan.variants, space, arch="sm_90", build_root=tmp_path)
    assert [build.error for build in builds] == [""] * 3
    assert [len(build.kernels) for build in builds] == [0, 0, 1]
    _, host, kernel = builds
    assert launched_functions(objects(host)) == ("_Z7row_maxPKfPfiiP11CUstream_st",)
    assert host.code_hash == code_hash(objects(host))
    assert kernel.code_hash == kernels_hash(objects(kernel), [kernel.kernels[0].name])
    library = ctypes.CDLL(host.library)
    library.profiler_parameters.restype = ctypes.c_char_p
    assert library.profiler_parameters(0) == b"*f4 *f4 i4 i4 *? "


def test_the_example_with_a_block_primitive_of_cub_is_ready(tmp_path):
    loaded = example("CUB", tmp_path)
    space = space_of(loaded)
    plan = make_plan(loaded, space)
    assert check_ready(loaded, plan, space) == ()
    if not EVERYTHING:  # its headers take five seconds to compile
        return
    variant = plan.variants[0]
    (build,) = build_plan(loaded, [variant], space, arch="sm_90", build_root=tmp_path)
    assert not build.error
    assert build.kernels[0].shared_bytes > 0


def test_a_tensor_of_another_type_than_the_kernels_pointer_fails_in_the_build(tmp_path):
    text = EXAMPLE.read_text("utf-8")
    text = text.replace("[columns, rows], output", "[columns, rows], dtype: bfloat16, output")
    (tmp_path / "wrong.yaml").write_text(text)
    (tmp_path / "transpose.cu").write_text(
        # Macros of the user's file change nothing in the message.
        "#define out oops\n#define at(i, j) i\n#define launch oops\n#define kind oops\n"
        "__global__ void transpose_naive(const float*, float*, int, int) {}"
    )
    loaded = load_spec(tmp_path / "wrong.yaml")
    space = space_of(loaded)
    (naive,) = (v for v in make_plan(loaded, space).variants if v.name == "naive")
    (build,) = build_plan(loaded, [naive], space, arch="sm_90", build_root=tmp_path)
    assert not build.ok
    assert build.error == (
        "argument 2 of the kernel (out): a tensor of bfloat16, but the kernel takes a pointer to "
        "float"
    )
