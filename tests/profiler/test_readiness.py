"""What `plan` finds missing by looking: files, functions, kernels, programs, metrics."""

import os

import pytest

from profiler.errors import SpecError
from profiler.planning.cuda_source import read_source
from profiler.planning.plan import make_plan
from profiler.planning.readiness import check_ready
from profiler.planning.space import space_of
from profiler.planning.spec import load_spec

GOOD = '''\
"""A workload."""
import torch

if torch.cuda.is_available():
    def prepare(variant, problem, inputs, library): ...
else:
    prepare = lambda *arguments: None

def make_inputs(problem, device, seed=0): ...

def reference(*arguments): ...
'''

CUDA = """\
#include "kernels.cuh"
#include <cuda_fp16.h>
// __global__ void commented_out(float* x) {}
template <int TILE>
__global__ void __launch_bounds__(TILE * 8, 2)
scale(const float* x, float* y, int n) { y[0] = WIDTH; }
"""
HEADER = "namespace a { static __global__ void plain(const float* x, float* y, int n) {} }\n"

CUDA_SPEC = """\
name: x
workload:
  source: scale.cu
  arguments: {x: {shape: n}, y: {shape: n, output: true}, n}
  grid: n
  block: 1
  reference: x
variants:
  list:
    - {name: torch, torch: x.clone()}
    - {kernel: "scale<{tile}>", tile: 4, WIDTH: 3}
    - {kernel: "a::plain"}
problems: {matrix: {n: 8}}
"""


@pytest.fixture
def ready(tmp_path):
    def check(spec, *, capability=None, **files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", ".")
            path.write_text(text)
        path = tmp_path / "x.yaml"
        path.write_text(spec)
        loaded = load_spec(path)
        space = space_of(loaded)
        plan = make_plan(loaded, space)
        read_source.cache_clear()
        return check_ready(loaded, plan, space, capability=capability)

    return check


MODULE = "name: x\nworkload: ./mine.py\nvariants: {list: [a]}\n"


def test_a_whole_workload_is_ready(ready):
    assert ready(MODULE, mine__py=GOOD) == ()


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("def make_inputs(", "def make_inputs((", "mine.py:9: not valid Python: "),
        ("def make_inputs", "def make_input", "mine.py has no function make_inputs(problem, "
         "device, seed); did you mean 'make_input'?"),
        ("def reference", "def refrence", "mine.py has no function reference(problem, inputs) and "
         "no expected(variant, problem, inputs); did you mean 'refrence'?"),
        ("problem, device, seed=0", "problem, device", "mine.py:9: make_inputs is called as "
         "make_inputs(problem, device, seed), which it does not take"),
        ("problem, device, seed=0", "problem, device, seed, n", "make_inputs is called as"),
        ("problem, device, seed=0", "problem, device, seed, *, n", "make_inputs is called as"),
    ],
)  # fmt: skip
def test_a_function_that_will_be_missing_is_named(ready, old, new, line):
    assert GOOD.count(old) == 1
    with pytest.raises(SpecError) as raised:
        ready(MODULE, mine__py=GOOD.replace(old, new))
    assert "x.yaml:2: workload: " in str(raised.value)
    assert line in str(raised.value)


def test_variants_that_are_measured_nowhere_are_named(ready):
    limited = "{list: [a, {name: b, when: n > 8}, {name: c, when: n > 8}, {name: d, when: n > 4}]}"
    spec = MODULE.replace("{list: [a]}", limited) + "problems: {matrix: {n: [4, 8]}}\n"
    (note,) = ready(spec, mine__py=GOOD)
    assert note == "b, c are measured at no problem: not applicable: needs n > 8."


@pytest.mark.parametrize("line", ["from other import *", "def __getattr__(name): ...",
                                  "globals().update(more())"])  # fmt: skip
def test_functions_that_may_come_from_elsewhere_are_not_missed(ready, line):
    assert ready(MODULE, mine__py=f"{line}\n") == ()


@pytest.mark.parametrize(
    ("line", "name", "meant"),
    [
        ("tolerances = {}", "tolerances", "TOLERANCES"),
        ("TOLERANCE: dict = {}", "TOLERANCE", "TOLERANCES"),
        ("def flop(problem): ...", "flop", "flops"),
        ("def other_input(*arguments): ...", "other_input", "other_inputs"),
    ],
)
def test_a_slip_in_an_optional_name_is_warned_of(ready, line, name, meant):
    note = f"mine.py:13: nothing reads '{name}'; did you mean '{meant}'?"
    assert ready(MODULE, mine__py=f"{GOOD}\n{line}\n") == (note,)


@pytest.mark.parametrize(
    "lines",
    [
        "TOLERANCES = {}\ntolerances = {}",
        "tolerances = {}\nTOLERANCES = {**tolerances}",
        "from other import flop",
        "from other import *\ntolerances = {}",
        "flow = 1\nloops = 2",
    ],
)
def test_names_that_are_read_or_that_are_others_are_not_warned_of(ready, lines):
    assert ready(MODULE, mine__py=f"{GOOD}\n{lines}\n") == ()


def test_a_file_that_is_no_python_is_refused_with_the_right_form(ready):
    with pytest.raises(SpecError, match=r"write workload: \{source: \./mine\.cu, kernel: …"):
        ready(MODULE.replace("mine.py", "mine.cu"))
    with pytest.raises(SpecError, match=r"must be a Python file \(\.py\)"):
        ready(MODULE.replace("mine.py", "mine.txt"))
    with pytest.raises(SpecError, match=r"there is no such file; did you mean '.*/mine\.py'"):
        ready(MODULE.replace("mine.py", "mien.py"), mine__py=GOOD)


def test_a_source_that_a_space_names_is_looked_for(ready):
    space = (
        "from pathlib import Path\nfrom profiler.kernels.recipe import Recipe\n"
        "def recipe(params): return Recipe((Path(__file__).with_name('scale.cu'),))\n"
    )
    spec = MODULE.replace("./mine.py", "{module: ./mine.py, space: ./space.py}")
    with pytest.raises(SpecError, match=r"the source scale.cu of variant 'a': there is no such"):
        ready(spec, mine__py=GOOD, space__py=space)
    assert ready(spec, mine__py=GOOD, space__py=space, scale__cu="") == ()


# ---- a .cu file ----


def test_kernels_of_a_file_and_its_headers_are_found(ready, tmp_path):
    assert ready(CUDA_SPEC, scale__cu=CUDA, kernels__cuh=HEADER) == ()
    assert read_source(tmp_path / "scale.cu").kernels == ("scale", "plain")


def test_a_source_that_may_not_be_read_is_said(ready, monkeypatch):
    """Root may read any file, so that the answer of the system is made up."""
    monkeypatch.setattr(os, "access", lambda path, mode: path.suffix != ".cu" or mode != os.R_OK)
    with pytest.raises(SpecError, match=r"the source scale.cu of variant '.*': it cannot be read"):
        ready(CUDA_SPEC, scale__cu=CUDA, kernels__cuh=HEADER)


def test_a_header_that_is_there_and_cannot_be_read_is_said(ready, tmp_path):
    (tmp_path / "kernels.cuh").mkdir()
    with pytest.raises(
        SpecError, match=r"3: .*scale\.cu includes kernels\.cuh, which cannot be read"
    ):
        ready(CUDA_SPEC.replace("a::plain", "scale<8>"), scale__cu=CUDA)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("scale.cu", "scael.cu", "3: workload.source: the source scael.cu of variant"),
        ("scale.cu", "/nowhere/scale.cu", "the source /nowhere/scale.cu of variant"),
        ("source: scale.cu", "source: .", "the source . of variant 'scale<4>,WIDTH=3': is no file"),
        ("scale<{tile}>", "sclae<{tile}>", "scale.cu has no kernel 'sclae' (variant"),
        ("scale<{tile}>", "sclae<{tile}>", "did you mean 'scale'?"),
        ("scale<{tile}>", "commented_out", "has no kernel 'commented_out'"),
        ("scale<{tile}>", "static_cast<void (*)(int)>(sclae)", "has no kernel 'sclae'"),
        (
            'kernel: "a::plain"',
            "function: plan",
            "has no function 'plan' (variant 'plan'); did you mean 'plain'?",
        ),
        ("scale<{tile}>", "scale<<<1, {tile}>>>", "has a launch in it; write its name, and `grid`"),
        ("reference: x", "reference: ref.py:scale", "7: workload.reference: ref.py: cannot be"),
        ("x.clone()", "mine.py:double", "mine.py has no function double(problem, inputs)"),
    ],
)
def test_a_kernel_or_file_that_is_not_there_is_named(ready, old, new, line):
    files = {"scale__cu": CUDA, "kernels__cuh": HEADER, "mine__py": GOOD}
    with pytest.raises(SpecError) as raised:
        ready(CUDA_SPEC.replace(old, new), **files)
    assert line in str(raised.value)


# As people write them: a mark of the byte order, carriage returns, a `main`, names from macros.
STRANGE = """\ufeff// "all" of this {
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
#define CEIL(a, b) (((a) + (b) - 1) / \\
                    (b))
#define KERNEL extern "C" __global__ void
#define UNARY(name) KERNEL name##_kernel(const float* x, float* y, int n) {}
UNARY(relu)
KERNEL copy(const float* x, float* y, int n) { printf("} %d\\n", n); }
__constant__ float weights[3], bias;
__constant__ float ready[2] = {1, 2};
template <class T> struct View { T* data; __device__ T* at(int i) { return data; } };
struct Pair { float a, b; };
__device__ float weigh(float v) { return v * bias; }
__device__ void wait(cg::grid_group& grid) { grid.sync(); }

void launcher(const float* x, float* y, int n)
{
    copy<<<CEIL(n, 256),
           256>>>(x, y, n);
}
extern "C" __global__ void __launch_bounds__(CEIL(9, 3)) weighed(const float* x, float* y, int n) {
    y[0] = weigh(x[0]) + ready[0];
}
namespace { __global__ void meets(const float *x, float *y, int n) {
    auto all = cg::this_grid();
    wait(all);
} }
__global__ void clusters(const float* x, float* y, int n) { cg::this_cluster().sync(); }
__global__ void __cluster_dims__(2, 1, 1) sized(const float* x, float* y, int n) {
    cg::cluster_group cluster = cg::this_cluster();
}
__global__ void ranked(const float* x, float* y, int n) { y[cg::this_grid().thread_rank()] = 0; }
template <int N = (4 + 4)>
__global__ void batched(const float* const* __restrict__ x, float* y, int n = CEIL(2, 1)) {}
__global__ void viewed(const View<float>* x, float* y, int n) {}
__global__ void by_value(View<float> x, float* y, int n) {}
__global__ void paired(const Pair* x, Pair y[], int) {}
__global__ void textured(cudaTextureObject_t x, float* y, int n);
__global__ void textured(cudaTextureObject_t x, float* y, int n) {}
template <class... Rest> __global__ void packed(const float* x, Rest... rest) {}
struct Size { int rows; };
struct Half { float v; Half(float v) : v(v) {} };
__global__ void sizes(const float* x, float* y, Size n) {}
__global__ void halves(const float* x, float* y, Half n) {}
__global__ void three(const float* x, float* y) {}
__global__ void branching(const float* x, float* y) {
#ifdef FAST
    if (x) {
#else
    if (y) {
#endif
        y[0] = x[0];
    }
}
int main() { launcher(nullptr, nullptr, 1); return 0; }
__global__ void swallowed(const float* x) { y[0] = weights[0]; cg::this_grid().sync(); }
"""


@pytest.mark.parametrize(
    ("kernel", "fault"),
    [
        ("copy", None),
        ("relu_kernel", None),
        ("ranked", None),
        ("sized", None),
        ("branching", None),
        ("halves", None),
        ("sizes", "takes `Size n` (x.cu:44), a struct by value: give its members (`n: {struct: …"),
        (
            "clusters",
            "kernel 'clusters' (x.cu:29) works in clusters of blocks, and is launched w",
        ),
        ("paired", None),
        ("packed<float*, int>", None),
        (
            "launcher",
            "8: variants: 'launcher' (variant 'launcher') is a host function (x.cu:17), not a "
            "__global__ one: name it by `function`, without grid and block, or name a kernel "
            "(copy, weighed, meets, clusters, sized, ranked, batched, viewed, by_value, paired, "
            "textured, packed, sizes, halves, three, branching) with its grid, block and "
            "arguments; it launches copy<<<CEIL(n, 256), 256",
        ),
        (
            "cub::DeviceReduce::Sum",
            "is called by host code: write a host function that calls it, and name that by `fun",
        ),
        ("weigh", "'weigh' (variant 'weigh') is a device function (x.cu:14), not a __global__ on"),
        ("weighed", "kernel 'weighed' reads 'bias' (x.cu:10), __constant__ memory that host code"),
        ("meets", "kernel 'meets' waits for its whole grid (in wait, x.cu:15), which only a coope"),
        (
            "batched",
            "4: workload.arguments.x: argument 1 of 'batched' (x): it takes `const "
            "float* const* __restrict__ x` (x.cu:35), a pointer to pointers, and 'x' is one "
            "tensor: say `pointers: true` of it for the addresses of x[0], x[1], …",
        ),
        ("viewed", "it takes `const View<float>* x` (x.cu:36), a pointer to structs that hold"),
        ("by_value", "it takes `View<float> x` (x.cu:37), a struct by value: give its members"),
        ("textured", "it takes `cudaTextureObject_t x` (x.cu:40), a texture, which only host code"),
        ("three", "has 2 parameters (const float* x, float* y; x.cu:46) and is given 3: x, y, n"),
    ],
)
def test_what_a_launch_cannot_give_is_said_with_its_line(ready, tmp_path, kernel, fault):
    (tmp_path / "x.cu").write_text(STRANGE.replace("\n", "\r\n"), encoding="utf-8", newline="")
    text = CUDA_SPEC.replace("scale.cu", "x.cu").replace('"a::plain"', f'"{kernel}"')
    text = text.replace('    - {kernel: "scale<{tile}>", tile: 4, WIDTH: 3}\n', "")
    if fault is None:
        assert ready(text) == ()
        return
    with pytest.raises(SpecError) as raised:
        ready(text)
    (line,) = raised.value.message.splitlines()
    assert fault in line
    said = {"meets": "n\n  cooperative: true", "batched": "n"}.get(kernel)
    if said is not None:
        text = text.replace("x: {shape: n}", "x: {shape: [4, n], pointers: true}")
        assert ready(text.replace("grid: n", f"grid: {said}")) == ()


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ("function: launcher", None),
        ("launches: [{kernel: copy}, {function: launcher}]", None),
        ("function: copy", "'copy' (variant 'it') is a kernel (x.cu:9): name it by `kernel`, with"),
        ("function: weigh", "'weigh' (variant 'it') is a device function (x.cu:14), not a __gl"),
        ("function: launcher, arguments: 'x, y'", "'launcher' has 3 parameters (const float* x, "),
        ("function: launcher, grid: n", "'launcher' launches kernels itself: leave out `grid` (va"),
        ("function: launcher, kernel: copy", "launches kernels itself: leave out `kernel` (varian"),
        ("function: launcher, torch: x", "variant 'it' has a function, too; take one of the two"),
        ("function: launcher, launches: [{kernel: copy}]", "leave out that of the variant"),
    ],
)
def test_a_host_function_launches_for_itself(ready, tmp_path, entry, fault):
    (tmp_path / "x.cu").write_text(STRANGE)
    text = CUDA_SPEC.replace("scale.cu", "x.cu").replace('kernel: "a::plain"', f"name: it, {entry}")
    text = text.replace('    - {kernel: "scale<{tile}>", tile: 4, WIDTH: 3}\n', "")
    if fault is None:
        assert ready(text) == ()
        return
    with pytest.raises(SpecError) as raised:
        ready(text)
    assert fault in raised.value.message
    for_all = text.replace("grid: n\n", "grid: n\n  kernel: copy\n  function: launcher\n")
    with pytest.raises(SpecError, match="there is a kernel, too; leave one of the two out"):
        ready(for_all)


def test_headers_in_folders_of_the_flags_are_read(ready, tmp_path):
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc/kernels.cuh").write_text(HEADER.replace("plain", "other"))
    flags = f"{CUDA_SPEC}build: {{flags: [-Iinc]}}\n"
    with pytest.raises(SpecError, match="has no kernel 'plain'"):
        ready(flags, scale__cu=CUDA)
    angles = CUDA.replace('"kernels.cuh"', "<kernels.cuh>")
    assert ready(flags.replace("a::plain", "a::other"), scale__cu=angles) == ()


def test_kernels_of_a_cuda_file_never_go_to_a_cpu(ready):
    with pytest.raises(SpecError, match=r"14: collect.device: the kernels of a .cu file do not"):
        ready(f"{CUDA_SPEC}collect: {{device: cpu}}\n", scale__cu=CUDA, kernels__cuh=HEADER)


def test_a_macro_that_nothing_reads_is_said(ready):
    files = {"scale__cu": CUDA, "kernels__cuh": HEADER}
    (note,) = ready(CUDA_SPEC.replace("WIDTH: 3", "WITDH: 3"), **files)
    assert note == ("The macro 'WITDH' changes nothing: scale.cu has no such word; it has 'WIDTH'.")
    # In the grid it acts, and in a header that is not here it may.
    in_grid = CUDA_SPEC.replace("WIDTH: 3", "WITDH: 3, grid: n * WITDH")
    assert ready(in_grid, **files) == ()
    definition = "#define WIDTH 4  // of mine\n"
    (note,) = ready(CUDA_SPEC, scale__cu=definition + CUDA, kernels__cuh=HEADER)
    assert note.startswith("The macro 'WIDTH' changes no kernel: scale.cu:1 defines it, whatever")
    for guarded in (
        f"#ifndef WIDTH\n{definition}#endif\n{CUDA}",
        f"{CUDA}\n#undef WIDTH\n{definition}",
    ):
        assert ready(CUDA_SPEC, scale__cu=guarded, kernels__cuh=HEADER) == ()
    template = "\ntemplate <typename T, int WIDTH = 4>\n__global__ void scaled(T* x) {}\n"
    (note,) = ready(CUDA_SPEC, scale__cu=CUDA + template, kernels__cuh=HEADER)
    assert "compile: write {WIDTH} in the name of the kernel (scale.cu:" in note
    (note,) = ready(CUDA_SPEC.replace("WIDTH: 3", "WIDTH: 3, n2: 1"), **files)
    assert note == "The parameter 'n2' changes nothing: nothing of the launch reads it."
    (note,) = ready(CUDA_SPEC.replace("WIDTH: 3", "WIDTH: 3, gird: 2"), **files)
    assert note.endswith("nothing of the launch reads it; did you mean 'grid'?")
    (note,) = ready(CUDA_SPEC.replace("WIDTH: 3", "WIDTH: 3, plain: 1"), **files)
    assert note.endswith("nothing of the launch reads it; as a macro it needs `define: [plain]`.")
    # The other variant has no `plain`, and so not the macro.
    defined = CUDA_SPEC.replace("reference: x", "reference: x\n  define: {WIDTH: 3, y: '{plain}'}")
    assert ready(defined.replace("WIDTH: 3}", "plain: 1}"), **files) == ()
    elsewhere = CUDA.replace('"kernels.cuh"', '"kernels.cuh"\n#include "elsewhere.cuh"')
    assert ready(CUDA_SPEC.replace("WIDTH: 3", "WITDH: 3"), scale__cu=elsewhere) == ()


# ---- a program ----

COMMAND = "name: x\nworkload: {command: 'PROGRAM {variant}'}\nvariants: {list: [a, b]}\n"


@pytest.mark.parametrize(
    ("program", "line"),
    [
        ("no-such-program", "2: workload.command: no program 'no-such-program' that can be run on"),
        ("./program-9", "no program './program-9' that can be run in"),
        ("./{variant}", "no program './a' that can be run in"),
        ("./{variant}", "no program './b' that can be run in"),
    ],
)
def test_a_program_that_is_not_there_is_named(ready, program, line):
    with pytest.raises(SpecError) as raised:
        ready(COMMAND.replace("PROGRAM", program))
    assert line in str(raised.value)


def test_of_files_that_are_there_only_a_program_is_proposed(ready, tmp_path):
    with pytest.raises(SpecError) as caught:
        ready(COMMAND.replace("PROGRAM", "./sgemm"), sgemm__cu="")
    assert "did you mean" not in caught.value.message
    (tmp_path / "sgemm2").write_text("#!/bin/sh\n")
    with pytest.raises(
        SpecError, match=r"can be run in .*: it is not executable \(chmod \+x\)\. B"
    ):
        ready(COMMAND.replace("PROGRAM", "./sgemm2"))
    (tmp_path / "sgemm2").chmod(0o755)
    with pytest.raises(SpecError, match=r"did you mean '.*/sgemm2'\? Build it first"):
        ready(COMMAND.replace("PROGRAM", "./sgem2"))


def test_the_program_of_a_check_is_looked_for(ready):
    text = COMMAND.replace("PROGRAM", "ls").replace("command:", "check: ./verify, command:")
    with pytest.raises(SpecError) as caught:
        ready(text)
    assert "workload.check: no program './verify' that can be run in" in caught.value.message


def test_a_program_that_is_there_is_ready(ready):
    assert ready(COMMAND.replace("PROGRAM", "ls")) == ()
    with pytest.raises(SpecError, match=r"2: workload.depends\[0\]: 'x.yml': no such file; did"):
        ready(COMMAND.replace("PROGRAM {variant}'", "ls', depends: [x.yml]"))
    with pytest.raises(SpecError, match=r"2: workload.cwd: there is no folder 'nowhere'"):
        ready(COMMAND.replace("PROGRAM {variant}'", "ls', cwd: nowhere"))


def test_a_parameter_of_problems_that_nothing_of_a_cuda_file_reads_is_said(ready, tmp_path):
    files = {"scale__cu": CUDA, "kernels__cuh": HEADER}
    batched = CUDA_SPEC.replace("{n: 8}", "{n: 8, batch: [1, 2]}")
    (note,) = ready(batched, **files)
    assert note.startswith("The parameter 'batch' of problems changes nothing: neither workload")
    assert ready(CUDA_SPEC.replace("{n: 8}", "{n: 8, batch: 1}"), **files) == ()
    (tmp_path / "right.py").write_text("def right(problem, inputs): ...\n")
    for old, new in (
        ("reference: x", "reference: x * batch"),
        ("shape: n,", "shape: [n * batch],"),
        ("reference: x", "reference: right.py:right"),
        ("grid: n", "grid: n\n  flops: n * batch"),
        ("x.clone()", "x.clone(), when: batch > 1"),
        ("problems:", "page: {weights: batch}\nproblems:"),
        ("problems:", "inputs: [normal, zeros]\nproblems:"),
    ):
        notes = ready(batched.replace(old, new), **files)
        assert len(notes) == ("zeros" in new), new  # of the batch alone, there


def test_a_least_traffic_that_no_kernel_of_the_tensors_has_is_said(ready):
    def notes(amount, text=CUDA_SPEC):
        spec = text.replace("  block: 1\n", f"  block: 1\n  bytes: {amount}\n")
        return ready(spec, scale__cu=CUDA, kernels__cuh=HEADER)

    assert all(notes(amount) == () for amount in ("8 * n", "4 * n", "16 * n", "0"))
    (note,) = notes("2 * n")
    assert note.startswith("workload.bytes is 16 at n=8, less than the 32 bytes of the outputs")
    (note,) = notes("8 * n * n")
    assert note.startswith("workload.bytes is 512 at n=8, more than reading and writing every")
    updated = CUDA_SPEC.replace("output: true", "output: true, fill: zeros")
    assert notes("2 * n", updated) == ()  # some of its elements


# ---- metrics ----

METRICS = (
    f"{COMMAND.replace('PROGRAM', 'ls')}collect: {{metrics: [default, smsp__inst_exectued.sum]}}\n"
)


def test_a_misspelled_metric_is_an_error_where_the_chip_is_known(ready):
    for capability in ("8.0", "9.0", "12.0"):
        with pytest.raises(
            SpecError, match=r"4: collect.metrics\[1\]: ncu knows no metric 'smsp__"
        ):
            ready(METRICS, capability=capability)
    assert ready(METRICS, capability="6.0") == ()
    (note,) = ready(METRICS)
    assert note.endswith("did you mean 'smsp__inst_executed.sum'? (on a GPU of 9.0)")


def test_a_parameter_that_no_placeholder_reads_is_said(ready):
    text = "name: x\nworkload: {command: COMMAND}\nvariants: {matrix: {kernel: [0, 1]}}\n"
    text += "problems: {matrix: {size: [1, 2], rows: 4}}\n"
    (note,) = ready(text.replace("COMMAND", "'true {kernel}'"))
    assert note.startswith("The parameter 'size' changes nothing: the command has no {size}")
    checked = text.replace("COMMAND", "'true {kernel}', check: CHECK")
    of_size, (note, *others) = (
        ready(checked.replace("CHECK", f"'true {check}'")) for check in ("{size}", "{kernel}")
    )
    assert others == []
    assert of_size == (
        note,
        "The check has no {kernel}: it checks the same for each of its values, and all of them "
        "count as right if it succeeds.",
    )
    assert ready(text.replace("COMMAND", "'true {variant} {problem}'")) == ()
    parts = "{command: 'true {kernel}', parts: {size: [1, 2], launches: 1}}"
    text = text.replace("{command: COMMAND}", parts).partition("problems")[0]
    assert ready(text) == ()


def test_flags_for_a_debugger_are_said(ready):
    def notes(flags):
        spec = f"{CUDA_SPEC}build: {{flags: {flags}}}\n"
        return ready(spec, scale__cu=CUDA, kernels__cuh=HEADER)

    assert notes("[-lineinfo, -O3, -Xptxas, -v, -g]") == ()
    for flags, slow in (
        ("[-G]", "-G"),
        ("[-g, --device-debug]", "--device-debug"),
        ("[-Xptxas=-O0]", "-Xptxas=-O0"),
        ("[-Xptxas, -O0]", "-Xptxas -O0"),
    ):
        (note,) = notes(flags)
        assert note.startswith(f"build.flags has {slow}: kernels are compiled without optimi")


def test_conditions_that_are_numbers_are_said(ready):
    def notes(condition):
        text = "name: x\nworkload: {command: 'true {size} {variant}'}\nvariants:\n"
        text += f"  list: [a, {{name: b, fast: true, small: 1, when: {condition}}}]\n"
        return ready(f"{text}problems: {{matrix: {{size: [128, 200]}}}}\n")

    assert all(notes(condition) == () for condition in ("size % 128 == 0", "fast", "small"))
    assert notes("size % 128") == (
        "The condition 'size % 128' is 72 at size=200, and any number but 0 counts as true: write "
        "a comparison, such as == 0.",
    )


def test_rules_about_the_text_of_a_number_are_said(ready):
    def notes(*rules):
        text = "name: x\nworkload: {command: 'true {size} {mode}'}\nvariants:\n"
        text += "  matrix: {size: [64, 128], mode: [true, false]}\n  exclude:\n"
        lines = (f"    - {{name: r{n}, when: {{{rule}}}}}\n" for n, rule in enumerate(rules))
        return ready(text + "".join(lines))

    assert notes("size: 128", "size: [32, 64.0], mode: true", "size: {min: 200}") == ()
    assert notes("size: '128'", "mode: 'off'") == (
        "128 is text in the rule 'r0', and a number among the values of 'size': they are never "
        "equal. Write both with quotes, or both without.",
        "off is text in the rule 'r1', and true or false among the values of 'mode': they are "
        "never equal. Write both with quotes, or both without.",
    )


def test_settings_that_a_command_does_not_have_are_said(ready):
    text = COMMAND.replace("PROGRAM", "ls")
    for given, named in (
        ("collect: {warmups: 10, blocks: 8}", "collect.warmups"),
        ("collect: {recheck: false}\ntolerance: {relative: 1e-2}", "collect.recheck, tolerance"),
    ):
        (note,) = ready(f"{text}{given}\n")
        assert note.startswith(f"{named}: nothing changes by it. A command makes its launches")
    assert ready(f"{text}collect: {{blocks: 8, seed: 2, cache_control: none}}\n") == ()


def test_words_that_a_command_gets_in_another_spelling_are_said(ready):
    text = "name: x\nworkload: {command: 'true {mode} {fast}'}\nvariants:\n"
    text += "  matrix: &all {mode: [on, 'off', ~, auto], fast: true}\n"
    (note,) = ready(f"{text}problems: {{matrix: {{size: 1, other: on}}}}\n")
    assert note == (
        "The command gets on as true, ~ as null (mode), as YAML reads it: put words in quotes."
    )


@pytest.mark.parametrize("operator", ["|", ">", "2>&1", "&&", ";", "x;", "a=$HOME", "`nproc`"])
def test_words_of_a_shell_are_refused_in_a_text(ready, operator):
    with pytest.raises(SpecError, match=r"no shell reads the command: .* write a script"):
        ready(COMMAND.replace("'PROGRAM {variant}'", f"'ls {{variant}} {operator} less'"))
    assert ready(COMMAND.replace("'PROGRAM {variant}'", f"[ls, '{{variant}}', '{operator}']")) == ()


def test_a_variable_before_a_program_is_answered_with_env(ready):
    with pytest.raises(SpecError, match=r"'A=1' is no program. Variables are set by `env`"):
        ready(COMMAND.replace("PROGRAM", "A=1 ls"))
