"""Launches of `.cu` files, by the real launcher over a runtime that runs kernels on the CPU."""

import ctypes
import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from profiler.kernels.cuda_file.description import KINDS, read_description
from profiler.kernels.cuda_file.launch import check_parameters
from profiler.kernels.cuda_file.space import LAUNCH_HEADER, LAUNCHER, CudaFileSpace
from profiler.kernels.cuda_file.workload import described
from profiler.runner.checks import check
from profiler.runner.checks.rounding import rounding_in

HERE = Path(__file__).parent

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


def library(tmp_path, source, kernel, arguments, **macros):
    """The launcher of kernels, compiled for the CPU."""
    path = tmp_path / "launcher.so"
    command = ["g++", "-std=c++17", "-x", "c++", "-shared", "-fPIC", "-w"]
    command += [f"-I{HERE / 'fake_runtime'}", f"-DPROFILER_KERNEL={kernel}"]
    command += [f"-D{name}={value}" for name, value in macros.items()]
    command += [f"-DPROFILER_ARGUMENTS={arguments}", "-include", str(LAUNCH_HEADER)]
    command += ["-include", str(source), str(LAUNCHER), "-o", str(path)]
    subprocess.run(command, check=True)
    return path


def document(**changes):
    return {
        "base": str(HERE),
        "source": "affine.cu",
        "kernel": None,
        "function": None,
        "launches": None,
        "arguments": {},
        "grid": ["1"],
        "block": ["1"],
        "shared": "0",
        "cooperative": False,
        "define": None,
        "reference": "x",
        "flops": None,
        "bytes": None,
        **changes,
    }


def tensor(**changes):
    return {
        "shape": ["n"],
        "dtype": "float32",
        "fill": None,
        "output": False,
        "scratch": False,
        "pointers": False,
        **changes,
    }


CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def affine(tmp_path_factory):
    return library(tmp_path_factory.mktemp("affine"), HERE / "affine.cu", "affine", 7)


@pytest.fixture(scope="module")
def add_to(tmp_path_factory):
    return library(tmp_path_factory.mktemp("add_to"), HERE / "affine.cu", "add_to", 3)


AFFINE = document(
    arguments={
        "x": tensor(dtype="float64"),
        "shift": "3",
        "scale": "1 / 4",
        "negate": "wide > 1",
        "out": tensor(output=True, fill=7.0),
        "n": None,
        "step": "wide + 1",
    },
    grid=["ceil_div(n, wide * threads)"],
    block=["threads"],
    shared="kib * 1024",
    reference="x",
)


def test_grid_block_addresses_and_numbers_reach_the_kernel(affine):
    workload = described(AFFINE)
    problem, variant = {"n": 10}, {"threads": 4, "wide": 1, "kib": 1}
    inputs = workload.make_inputs(problem, CPU, 0)
    launch = workload.kernel_launch(variant, problem, inputs, affine, lambda: 5)
    (out,) = launch()
    noted = ctypes.CDLL(str(affine)).noted_launch
    noted.restype = ctypes.c_char_p
    expected = b"grid 3 1 1 block 4 1 1 shared 1024 allowed 0 stream 5"
    assert noted() == expected
    wanted = torch.full((10,), 7.0)
    wanted[::2] = (inputs["x"] / 4 + 3)[::2].float()
    assert torch.equal(out, wanted)
    assert launch.outputs[0] is out


PAST_THE_END = "past the end of out: 12 of the 1024"


@pytest.mark.parametrize("kind", ["output", "scratch"])
@pytest.mark.parametrize(
    ("beyond", "refused"),
    [(0, nullcontext()), (3, pytest.raises(check.OverrunError, match=PAST_THE_END))],
)
def test_a_kernel_that_writes_past_the_end_of_its_memory_is_refused(affine, beyond, refused, kind):
    arguments = {**AFFINE["arguments"], "out": tensor(**{kind: True}, fill=7.0)}
    arguments |= {"x": tensor(dtype="float64", shape=["n + 8"]), "n": f"n + {beyond}"}
    workload = described({**AFFINE, "arguments": arguments, "grid": ["1"]})
    problem, variant = {"n": 10}, {"threads": 16, "wide": 0, "kib": 1}
    inputs = workload.make_inputs(problem, CPU, 0)
    launch = workload.kernel_launch(variant, problem, inputs, affine, lambda: 0)
    check.poisoned_result(launch)
    with refused:
        check.refuse_overrun(launch)


HOST = """
#include <cuda_runtime.h>
enum class Status { success, refused = 7 };
static cudaError_t scale(const float* x, float* out, int n, const double& by, cudaStream_t stream) {
  for (int i = 0; i < n; ++i) out[i] = x[i] * by + (std::size_t)stream;
  return n > 3 ? cudaErrorInvalidValue : cudaSuccess;
}
static Status refuse(const float* x, float* out, int n, const double& by, cudaStream_t stream) {
  scale(x, out, n, by, stream);
  return n > 3 ? Status::refused : Status::success;
}
"""


@pytest.mark.parametrize(
    ("function", "fault"),
    [
        ("scale", r"host function returned an error: too .* \(code 1\)"),
        ("refuse", r"host function returned the status 7 \(code 7\)"),
    ],
)
def test_a_host_function_is_called_on_the_stream_and_may_return_an_error(function, fault, tmp_path):
    source = tmp_path / "host.cu"
    source.write_text(HOST)
    arguments = {"x": tensor(), "out": tensor(output=True), "n": None, "by": "1 / 4", "stream": "0"}
    built = library(tmp_path, source, function, 5)
    workload = described(
        document(source=str(source), function=function, grid=None, block=None, arguments=arguments)
    )
    inputs = workload.make_inputs({"n": 3}, CPU, 0)
    (out,) = workload.kernel_launch({}, {"n": 3}, inputs, built, lambda: 2)()
    assert torch.equal(out, inputs["x"] / 4 + 2)
    inputs = workload.make_inputs({"n": 4}, CPU, 0)
    with pytest.raises(RuntimeError, match=fault):
        workload.kernel_launch({}, {"n": 4}, inputs, built, lambda: 2)()


def test_more_shared_memory_than_a_kernel_has_unasked_is_asked_for(affine):
    workload = described({**AFFINE, "shared": "kib * 1024"})
    problem, variant = {"n": 10}, {"threads": 4, "wide": 1, "kib": 100}
    inputs = workload.make_inputs(problem, CPU, 0)
    workload.kernel_launch(variant, problem, inputs, affine, lambda: 0)()
    noted = ctypes.CDLL(str(affine)).noted_launch
    noted.restype = ctypes.c_char_p
    assert b"shared 102400 allowed 102400" in noted()
    with pytest.raises(RuntimeError, match="too much shared memory"):
        workload.kernel_launch({**variant, "kib": 300}, problem, inputs, affine, lambda: 0)


def test_clusters_of_any_size_are_asked_for_and_a_block_that_is_too_large_is_named(affine):
    workload = described({**AFFINE, "grid": ["1", "16"]})
    problem, variant = {"n": 10}, {"threads": 4, "wide": 1, "kib": 1}
    inputs = workload.make_inputs(problem, CPU, 0)
    workload.kernel_launch(variant, problem, inputs, affine, lambda: 0)()
    too_large = workload.kernel_launch({**variant, "threads": 512}, problem, inputs, affine, int)
    with pytest.raises(RuntimeError, match="of 512 threads, where the kernel can have at most 256"):
        too_large()
    with pytest.raises(RuntimeError, match="too much shared memory"):
        workload.kernel_launch({**variant, "kib": 300}, problem, inputs, affine, lambda: 0)


def test_all_blocks_of_a_cooperative_launch_run_at_once_or_it_is_refused(affine):
    workload = described({**AFFINE, "cooperative": True, "grid": ["blocks"]})
    variant = {"threads": 1, "wide": 1, "kib": 1}
    inputs = workload.make_inputs({"n": 10}, CPU, 0)
    noted = ctypes.CDLL(str(affine)).noted_launch
    noted.restype = ctypes.c_char_p
    shapes = [{"n": 10, "blocks": blocks} for blocks in (3, 2000)]
    fits, too_large = (
        workload.kernel_launch(variant, shape, inputs, affine, lambda: 5) for shape in shapes
    )
    fits()
    assert noted().endswith(b"stream 5 cooperative")
    with pytest.raises(RuntimeError, match="too many blocks for a cooperative launch: the GPU mus"):
        too_large()
    plain = {**variant, "cooperative": False}
    workload.kernel_launch(plain, shapes[1], inputs, affine, lambda: 5)()
    assert noted().endswith(b"stream 5")


def test_a_kernel_gets_the_addresses_of_the_parts_of_a_tensor_and_null_for_0(tmp_path):
    source = tmp_path / "sum.cu"
    source.write_text(
        "__global__ void sum(const double** x, const float* weight, float** out, int parts) {\n"
        "  for (int i = 0; i < parts; ++i)\n"
        "    out[i][0] = x[i][0] + x[i][1] + (weight ? *weight : 1);\n"
        "}\n"
    )
    parts = {"pointers": True, "shape": ["parts", "2"]}
    arguments = {
        "x": tensor(dtype="float64", **parts),
        "weight": "0",
        "out": tensor(output=True, **{**parts, "shape": ["parts"]}),
        "parts": None,
    }
    given = document(arguments=arguments, kernel="sum", source=str(source))
    macros = CudaFileSpace(read_description(given)).recipe({}).defines
    built = library(tmp_path, source, "sum", 4, PROFILER_TENSORS=macros["PROFILER_TENSORS"])
    workload = described(given)
    inputs = workload.make_inputs({"parts": 3}, CPU, 0)
    (out,) = workload.kernel_launch({}, {"parts": 3}, inputs, built, lambda: 0)()
    assert torch.equal(out, (inputs["x"].sum(1) + 1).float())


@pytest.mark.parametrize("fill", ["zeros", "normal"])
def test_an_output_that_is_read_starts_each_launch_as_it_was_filled(add_to, fill):
    arguments = {"x": tensor(), "sum": tensor(output=True, fill=fill), "weight": "0.5"}
    base = "sum + " if fill == "normal" else ""
    workload = described(document(arguments=arguments, reference=f"{base}weight * x", grid=["n"]))
    problem = {"n": 64}
    inputs = workload.make_inputs(problem, CPU, 0)
    expected = check.as_tensors(workload.reference(problem, inputs).result, "the reference")
    assert expected[0].dtype == torch.float64
    launch = workload.kernel_launch({}, problem, inputs, add_to, lambda: 0)
    for _ in range(2):
        check.compare(check.as_tensors(check.poisoned_result(launch), "the result"), expected)
    # A variant that is made when another has already run.
    torch_launch = workload.prepare({"torch": f"{base}weight * x"}, problem, inputs, None)
    check.compare(check.as_tensors(torch_launch(), "it"), expected)


@pytest.mark.parametrize("reference", ["x.sum(1)", "reference.py:sums"])
def test_sums_in_another_order_are_right_beside_an_expression_and_a_function(tmp_path, reference):
    (tmp_path / "reference.py").write_text(
        "def sums(problem, inputs):\n    return inputs['x'].sum(1)"
    )
    arguments = {"x": tensor(shape=["n", "4096"]), "sums": tensor(output=True)}
    given = document(arguments=arguments, reference=reference, base=str(tmp_path))
    workload, problem = described(given), {"n": 64}
    inputs = workload.make_inputs(problem, CPU, 0)
    one_by_one = torch.zeros(64)
    for column in inputs["x"].t():
        one_by_one += column
    reference = workload.reference(problem, inputs)
    expected = check.as_tensors(reference.result, "the reference")
    with pytest.raises(check.WrongResultError):
        check.compare((one_by_one,), expected)
    rounding = rounding_in(reference)
    check.compare((one_by_one,), expected, rounding=rounding)
    with pytest.raises(check.WrongResultError):
        check.compare((one_by_one - inputs["x"][:, 0] / 9,), expected, rounding=rounding)


SUMS = document(
    source="sums.cu",
    arguments={
        "x": tensor(shape=["rows", "columns"], dtype="float64"),
        "partial": tensor(shape=["rows", "parts"], dtype="float64", scratch=True),
        "tally": tensor(shape=["2"], dtype="int32", fill="zeros", scratch=True),
        "of_parts": {
            "struct": {
                "partial": None,
                "out": tensor(shape=["rows"], output=True),
                "sizes[0]": "rows",
                "sizes[1]": "parts",
                "scaling.by": "1 / 2",
                "calls": "tally",
            }
        },
    },
    launches=[
        {"kernel": "sum_parts<{parts}>", "grid": ["rows"], "arguments": "x, partial, columns"},
        {"kernel": "add_parts", "grid": ["1"], "arguments": "of_parts"},
    ],
    block=["threads"],
    reference="x.sum(1) / 2",
)


@pytest.mark.parametrize("parts", [2, 4])
def test_launches_follow_on_one_another_with_memory_between_them_and_structs(tmp_path, parts):
    variant, problem = {"parts": parts, "threads": parts}, {"rows": 3, "columns": 8}
    macros = CudaFileSpace(read_description(SUMS)).recipe(variant).defines
    kernels = macros["PROFILER_KERNEL"]
    assert kernels == f"sum_parts<{parts}>, add_parts"
    given = {name: macros[name] for name in ("PROFILER_STRUCTS", "PROFILER_TENSORS")}
    built = library(tmp_path, HERE / "sums.cu", kernels, macros["PROFILER_ARGUMENTS"], **given)
    functions = ctypes.CDLL(str(built))
    functions.profiler_parameters.restype = ctypes.c_char_p
    assert functions.profiler_parameters(1) == b"{*f8,*f4,i4,i4,f8,*i4} "
    workload = described(SUMS)
    inputs = workload.make_inputs(problem, CPU, 0)
    assert workload.named_inputs(inputs).keys() == {"x"}
    launch = workload.kernel_launch(variant, problem, inputs, built, lambda: 0)
    expected = check.as_tensors(workload.reference(problem, inputs).result, "the reference")
    # The kernel counts its calls, and is right at the first one only: `tally` is restored.
    for _ in range(2):
        check.compare(check.as_tensors(check.poisoned_result(launch), "the result"), expected)
    launch()
    assert not torch.allclose(launch.outputs[0], expected[0].float())


def test_variants_share_scratch_memory_that_is_alike(tmp_path):
    workload = described(SUMS)
    problem = {"rows": 3, "columns": 8}
    inputs = workload.make_inputs(problem, CPU, 0)
    partial = read_description(SUMS).tensor("partial")
    first, again, other = (
        workload._scratch(partial, {**problem, "parts": parts}, CPU) for parts in (2, 2, 4)
    )
    assert first is again
    assert other.shape == (3, 4)
    assert first.isnan().all()
    assert "partial" not in inputs


F4, I4 = torch.zeros(2), torch.zeros(2, dtype=torch.int32)


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        ("*f2", F4, "floating numbers of 4 bytes, but the kernel takes a pointer to floating num"),
        ("*f4", I4, "signed numbers of 4 bytes, but the kernel takes a pointer to floating"),
        ("*u2", F4, "pointer to unsigned numbers of 2 bytes"),
        ("*g2", F4.half(), "pointer to bfloat16 numbers of 2 bytes"),
        ("i4", F4, "a tensor, but the kernel takes signed numbers of 4 bytes"),
        ("*f4", 3, "the number 3, but the kernel takes a pointer"),
        ("i4", 0.5, "0.5 is no whole number"),
        ("i4", 2**31, "2147483648 does not fit into signed numbers of 4 bytes"),
        ("u8", -1, "-1 does not fit into unsigned"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(parameter, value, message):
    with pytest.raises(TypeError, match=r"argument 1 of the kernel \(n\): ") as raised:
        check_parameters([parameter], [("n", value)])
    assert message in str(raised.value)
    with pytest.raises(TypeError, match=r"argument 1 of the kernel \(p.n\): ") as raised:
        check_parameters([f"{{f4,{parameter}}}"], [("p", [("scale", 2), ("n", value)])])
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("*?", F4),
        ("*u4", F4.half()),
        ("*f4", F4),
        ("f4", 3),
        ("u8", 2**64 - 1),
        ("*?", F4.to(torch.float8_e4m3fn)),
        ("*u2", F4.bfloat16()),
        ("*i1", I4.to(torch.uint8)),
        ("{}", []),
    ],
)
def test_an_argument_that_fits_passes(parameter, value):
    check_parameters([parameter], [("n", value)])


def refusals(parameters, tensors, structs=""):
    """What the launcher has against a kernel of these parameters, by the host's compiler."""
    source = (
        f"struct __half; struct __nv_bfloat16; struct Pair; {SIZED} void k({parameters}) {{}}\n"
    )
    command = ["g++", "-std=c++17", "-fsyntax-only", "-w", "-x", "c++", "-DPROFILER_KERNEL=k"]
    command += [f"-I{HERE / 'fake_runtime'}", "-DPROFILER_ARGUMENTS=2"]
    command += [
        f"-DPROFILER_TENSORS={tensors}",
        *([f"-DPROFILER_STRUCTS={structs}"] * bool(structs)),
    ]
    text = f'#include "{LAUNCH_HEADER}"\n{source}#include "{LAUNCHER}"\n'
    done = subprocess.run([*command, "-"], input=text, capture_output=True, text=True, check=False)
    return [line for line in done.stderr.splitlines() if "error:" in line]


SIZED = "struct Sized { float* x; int n; };"


def struct(*fields):
    return f"PROFILER_STRUCT(0,1,p,{' '.join(fields)})"


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        (["PROFILER_FIELD_TENSOR(0,1,p.x,x,float32,f,4)", "PROFILER_FIELD(0,1,p.n,n)"], None),
        (
            ["PROFILER_FIELD_TENSOR(0,1,p.x,x,float16,f,2)"],
            "argument 1 of the kernel (p.x): a tensor of float16, but the struct has a pointer to "
            "float",
        ),
        (
            ["PROFILER_UNTYPED_FIELD_TENSOR(0,1,p.n,n)"],
            "argument 1 of the kernel (p.n): a tensor, but the struct has no pointer there",
        ),
        (["PROFILER_FIELD(0,1,p.m,m)"], "has no member named"),
    ],
)
def test_fields_of_a_struct_are_refused_by_the_compiler(fields, refusal):
    errors = refusals("Sized p, int", "", struct(*fields))
    assert len(errors) == (refusal is not None)
    assert refusal is None or refusal in errors[0]


def test_a_struct_for_what_is_none_is_refused():
    errors = refusals("float* p, int", "", struct("PROFILER_FIELD(0,1,p.n,n)"))
    assert "(p): a struct, but the kernel takes none there" in errors[0]


def checked(dtype):
    kind = KINDS[dtype]
    return f"PROFILER_TENSOR(0,1,x,{dtype},{kind[0]},{kind[1:]})"


@pytest.mark.parametrize(
    ("parameters", "tensors", "refusal"),
    [
        ("const __half*, int", checked("float32"), "a tensor of float32, but the kernel takes a "),
        ("float*, int", checked("float16"), "float16, but the kernel takes a pointer to float"),
        ("__nv_bfloat16*, int", checked("float16"), "takes a pointer to bfloat16"),
        ("unsigned short*, int", checked("float32"), "takes a pointer to uint16"),
        ("volatile long long*, int", checked("int32"), "takes a pointer to int64"),
        ("const float* const*, int", checked("float32"), "takes a pointer to pointers (pointers: "),
        ("float*, int", "PROFILER_TENSOR(0,1,x,pointers,p,8)", "a tensor of pointers, but the ker"),
        ("int, const float*", checked("float32"), "(x): a tensor, but the kernel takes no pointer"),
        (
            "int, int",
            "PROFILER_UNTYPED_TENSOR(0,2,x)",
            "argument 2 of the kernel (x): a tensor, but",
        ),
        ("float*", checked("float16"), "profiler: the kernel has another number of parameters"),
    ],
)
def test_a_tensor_that_does_not_fit_is_refused_by_the_compiler(parameters, tensors, refusal):
    (error,) = refusals(parameters, tensors)
    assert refusal in error


def test_a_tensor_that_fits_compiles():
    fitting = {
        "const __half* __restrict__": "float16",
        "unsigned short*": "bfloat16",
        "signed char*": "uint8",
        "const unsigned*": "int8",
        "Pair*": "float16",
        "void*": "float64",
        "float**": "int64",
        "bool*": "bool",
    }
    for pointer, dtype in fitting.items():
        assert refusals(f"{pointer} x, int", checked(dtype)) == []
    assert refusals("float* x, int", "PROFILER_UNTYPED_TENSOR(0,1,x)") == []


def test_a_kernel_is_not_launched_on_a_cpu(affine):
    workload = described(AFFINE)
    inputs = workload.make_inputs({"n": 10}, CPU, 0)
    with pytest.raises(RuntimeError, match="a CUDA kernel cannot run on cpu"):
        workload.prepare({"threads": 4}, {"n": 10}, inputs, affine)
