"""Every implementation on an NVIDIA GPU: right results, and the kernels that it shall launch."""

import math
import statistics

import pytest
import torch
from fusion_cases import SMALL, as_tuple, excess, prepared

from fusion import space, workload
from fusion.operators import OPERATORS

pytestmark = [
    pytest.mark.gpu,
    # Inductor imports what torch has deprecated, and gives advice (TF32, say) as warnings.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

WRITTEN = [name for name, operator in OPERATORS.items() if "triton" in operator.implementations]
COMPILED = [name for name in OPERATORS if name != "attention"]
SHAPES = [
    *[(127, 1000), (1, 65537), (8192, 128), (1, 1), (3, 2049), (33, 32768), (5, 32769)],
    *[(1000, 1), (65, 31), (512, 4096), (264, 8192), (2, 131072), (130, 16385)],
]
BARS = ["layer_norm", "softmax", "bias_dropout_add"]


@pytest.fixture(autouse=True)
def as_in_a_session():
    with torch.no_grad():
        yield
    torch.cuda.empty_cache()


@pytest.fixture(scope="module")
def cuda():
    return torch.device("cuda")


def kernels_of(launch):
    """Names of the kernels of one launch, whatever started them."""
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        launch()
        torch.cuda.synchronize()
    on_device = torch.autograd.DeviceType.CUDA
    return [
        event.name
        for event in profile.events()
        if event.device_type == on_device and not event.name.startswith(("Memset", "Memcpy"))
    ]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("operator", WRITTEN)
def test_written_kernels_are_right_and_one(operator, shape, cuda):
    problem = {"operator": operator, "dim0": shape[0], "dim1": shape[1]}
    launch, variant, inputs = prepared("triton", problem, cuda)
    assert excess(launch, variant, problem, inputs) < 1
    assert len(kernels_of(launch)) == 1
    assert launch.compile_seconds > 0
    assert launch.buffer_bytes == sum(each.nbytes for each in as_tuple(launch()))


def test_what_the_autotuner_tried_is_told_of_the_kernels_that_run(cuda):
    """A softmax over long rows: a reduction, for which inductor has several configurations."""
    problem = {"operator": "softmax", "dim0": 256, "dim1": 65536}
    launch, _, _ = prepared("compile", problem, cuda)
    names = set(kernels_of(launch))
    assert launch.tuned
    for row in launch.tuned:
        assert row["operation"] in names
        assert row["registers"] > 0
        assert row["config"]["num_warps"] >= 1
    assert sum(row["best"] for row in launch.tuned) == len(names)
    timed = [row["time_ns"] for row in launch.tuned if row["time_ns"] is not None]
    assert all(time > 0 for time in timed)
    tried = len(launch.tuned) > len(names)
    assert not tried or timed, "several configurations are told apart by their times"


@pytest.mark.parametrize("dtype", OPERATORS["bias_dropout_add"].dtypes)
@pytest.mark.parametrize("layout", OPERATORS["bias_dropout_add"].layouts)
@pytest.mark.parametrize("shape", [(127, 1000), (4096, 32), (33, 4097), (256, 8192)], ids=str)
@pytest.mark.parametrize("implementation", ["eager", "triton"])
def test_every_layout(implementation, shape, layout, dtype, cuda):
    problem = {"operator": "bias_dropout_add", "layout": layout, "dtype": dtype}
    problem |= {"dim0": shape[0], "dim1": shape[1]}
    launch, variant, inputs = prepared(implementation, problem, cuda)
    assert excess(launch, variant, problem, inputs) < 1
    if implementation == "triton":
        assert len(kernels_of(launch)) == 1
        eager, _, _ = prepared("eager", problem, cuda)
        assert launch().stride() == eager().stride()


def test_written_kernels_count_beyond_32_bits(cuda):
    """More elements than a 32-bit offset can name, and the last of them are right."""
    problem = {"operator": "bias_gelu", "dim0": 32769, "dim1": 65536}
    for operator in WRITTEN:
        case = {**problem, "operator": operator}
        launch, variant, inputs = prepared("triton", case, cuda)
        assert excess(launch, variant, case, inputs) < 1
        del launch, inputs
        torch.cuda.empty_cache()


@pytest.mark.parametrize("operator", ["softmax", "layer_norm"])
def test_rows_of_one_value_and_of_infinities(operator, cuda):
    for columns in (100, 4096, 40000):
        problem = {"operator": operator, "dim0": 4, "dim1": columns}
        inputs = workload.make_inputs(problem, cuda, 1)
        x = inputs.split[0]
        x[0] = 1e4
        x[1, ::2] = -math.inf if operator == "softmax" else 3.0
        x[2] = x[2] + 1e4  # a mean that is large against what is around it
        got = workload.prepare({"implementation": "triton"}, problem, inputs, None)()
        eager = workload.prepare({"implementation": "eager"}, problem, inputs, None)()
        torch.testing.assert_close(got, eager, rtol=1e-4, atol=5e-3)
        if operator == "layer_norm":  # nothing is left of a row of one value but the bias
            torch.testing.assert_close(got[0], inputs.shared[1], rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("implementation", ["eager", "compile"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_is_right(operator, implementation, cuda):
    problem = SMALL[operator]
    launch, variant, inputs = prepared(implementation, problem, cuda)
    assert excess(launch, variant, problem, inputs) < 1
    names = kernels_of(launch)
    assert names
    assert space.check_kernels(variant, problem, names) is None
    assert launch.peak_bytes >= sum(each.nbytes for each in as_tuple(launch()))
    assert launch.buffer_bytes >= launch.peak_bytes > 0


@pytest.mark.parametrize("operator", COMPILED)
def test_eager_kernels_are_told_from_compiled_ones(operator, cuda):
    launch, _, _ = prepared("eager", SMALL[operator], cuda)
    reason = space.check_kernels({"implementation": "compile"}, SMALL[operator], kernels_of(launch))
    alone = operator == "matmul_matmul"  # two calls of cuBLAS, compiled or not
    assert (reason is None) == alone


def test_every_cell_compiles_anew_beyond_the_limit_of_dynamo(cuda):
    limit = torch._dynamo.config.recompile_limit
    for step in range(limit + 2):
        problem = {"operator": "reduction_reduction", "dim0": 64, "dim1": 64 + step}
        launch, variant, _ = prepared("compile", problem, cuda)
        names = kernels_of(launch)
        assert space.check_kernels(variant, problem, names) is None, names


@pytest.mark.parametrize("form", ["naive", "functional", "module"])
def test_forms_of_softmax(form, cuda):
    launch, variant, inputs = prepared(form, SMALL["softmax"], cuda)
    assert excess(launch, variant, SMALL["softmax"], inputs) < 1


@pytest.mark.parametrize("backend", ["flash", "efficient", "cudnn"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("head_dim", [16, 64, 128])
def test_backends_of_attention(backend, dtype, head_dim, cuda):
    problem = {"operator": "attention", "batch": 2, "seq_len": 256, "heads": 4}
    problem |= {"head_dim": head_dim, "dtype": dtype}
    launch, variant, inputs = prepared(backend, problem, cuda)
    assert excess(launch, variant, problem, inputs) < 1
    assert launch.compile_seconds is None


def median_ms(launch, repeats=30):
    """Time on the device, with cold caches."""
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    times = []
    for _ in range(repeats):
        flush.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        launch()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times[5:])


@pytest.mark.parametrize("operator", BARS)
def test_written_kernels_reach_their_bars(operator, cuda):
    """0.9 of the better of eager and compiled code, and 80 % of what a copy reaches."""
    problem = {"operator": operator, "dim0": 8192, "dim1": 8192}
    times = {}
    for implementation in ("eager", "compile", "triton"):
        launch, _, _ = prepared(implementation, problem, cuda)
        times[implementation] = median_ms(launch)
    source = torch.empty(1 << 28, device=cuda)
    target = torch.empty_like(source)
    copied = 2 * source.nbytes / median_ms(lambda: target.copy_(source))
    moved = workload.bytes(problem) / times["triton"]
    assert min(times["eager"], times["compile"]) / times["triton"] >= 0.9, times
    assert moved / copied >= 0.8, (moved, copied, times)
