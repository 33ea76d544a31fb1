"""From exceptions to outcomes; the messages are those of CUDA, torch and NumPy."""

from pathlib import Path

import pytest
import torch

from profiler.runner.checks.check import WrongResultError
from profiler.runner.failures import Failure, diagnose

HERE = Path(__file__)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (
            torch.OutOfMemoryError(
                "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 1"
            ),
            f"out of memory: asked for {20 << 30} bytes",
        ),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 512.00 MiB."),
            f"out of memory: asked for {512 << 20} bytes",
        ),
        (
            RuntimeError(
                "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't "
                "allocate memory: you tried to allocate 4000000000000000 bytes. Error code 12"
            ),
            "out of memory: asked for 4000000000000000 bytes",
        ),
        (
            MemoryError("Unable to allocate 7.11 PiB for an array with shape (1000000000000000,)"),
            f"out of memory: asked for {round(7.11 * 2**50)} bytes",
        ),
        (MemoryError(), "out of memory"),
        (
            RuntimeError("CUDA error: out of memory\nmore"),
            "out of memory: CUDA error: out of memory",
        ),
        (
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"),
            "out of memory: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`",
        ),
    ],
)
def test_out_of_memory_says_what_was_asked_for(error, cause):
    of_host = not isinstance(error, torch.OutOfMemoryError) and "CUDA" not in str(error)
    assert diagnose(error, HERE) == Failure("out_of_memory", cause, of_host)


@pytest.mark.parametrize(
    ("message", "outcome"),
    [
        ("CUDA error: an illegal memory access was encountered\nSearch for", "illegal_address"),
        ("CUDA error: misaligned address", "illegal_address"),
        ("Triton Error [CUDA]: an illegal memory access was encountered", "illegal_address"),
        ("launch failed: cudaErrorIllegalAddress", "illegal_address"),
        ("CUDA error: unspecified launch failure", "raised"),
        ("CUDA error: device-side assert triggered", "raised"),
        ("CUDA error: invalid configuration argument", "raised"),
        ("anything else", "raised"),
    ],
)
def test_errors_of_the_device_are_told_apart(message, outcome):
    failure = diagnose(RuntimeError(message), HERE)

    assert failure == Failure(outcome, f"RuntimeError: {message.splitlines()[0]}")


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (
            "Error building extension 'f': [1/2] c++ -c main.cpp -o main.o \n"
            "FAILED: [code=1] main.o \nmain.cpp: In function 'at::Tensor f(at::Tensor)':\n"
            "main.cpp:2:41: error: 'class at::Tensor' has no member named 'nosuch'\n"
            "    2 | torch::Tensor f(torch::Tensor x){return x.nosuch(1);}\n"
            "ninja: build stopped: subcommand failed.\n",
            "main.cpp:2:41: error: 'class at::Tensor' has no member named 'nosuch'",
        ),
        (
            'Kernel compilation failed:\na.cu(1): error: identifier "foo" is undefined\n\n'
            '1 error detected in the compilation of "a.cu".',
            'a.cu(1): error: identifier "foo" is undefined',
        ),
        (
            "Error building extension 'f': [1/2] nvcc -c b.cu\n"
            "ptxas error   : Entry function 'f' uses too much shared data",
            "ptxas error   : Entry function 'f' uses too much shared data",
        ),
        (
            "PTXASError: PTXAS error: Internal Triton PTX codegen error\n`ptxas` stderr:\n"
            "ptxas a.ptx, line 9; error   : Arguments mismatch for instruction 'add'\n"
            "ptxas fatal   : Ptx assembly aborted due to errors",
            "ptxas a.ptx, line 9; error   : Arguments mismatch for instruction 'add'",
        ),
        (
            "at 4:8:\ndef kernel(x, N: tl.constexpr):\n\n    y = foo(x)\n        ^\n"
            "NameError('foo is not defined')",
            "at 4:8: y = foo(x) ^ NameError('foo is not defined')",
        ),
        (
            "backend='inductor' raised:\nNoValidChoicesError: No choices exist\n\nSet TORCHDYNAMO",
            "backend='inductor' raised: NoValidChoicesError: No choices exist",
        ),
        ("\n", ""),
    ],
)
def test_the_cause_is_the_line_that_says_most(message, cause):
    expected = f"RuntimeError: {cause}".removesuffix(": ")
    assert diagnose(RuntimeError(message), HERE).cause == expected


def test_talk_about_addresses_in_other_errors_means_nothing():
    assert diagnose(KeyError("misaligned address"), HERE).outcome == "raised"


def test_a_wrong_result_is_its_own_cause():
    assert diagnose(WrongResultError("off"), HERE) == Failure("wrong_result", "off")


def test_the_innermost_line_of_the_workload_is_named():
    def inner():
        return torch.zeros(2).reshape(3)

    with pytest.raises(RuntimeError) as caught:
        inner()

    cause = diagnose(caught.value, HERE).cause
    line = inner.__code__.co_firstlineno + 1
    assert cause.endswith(f"({HERE.name}:{line} in inner)")


def test_a_module_beside_the_workload_that_hides_an_installed_one_is_named(tmp_path):
    (tmp_path / "scipy.py").write_text("")
    error = RuntimeError("the compiler failed")
    error.__cause__ = ImportError("cannot import name 'linalg' from 'scipy' (scipy.py)")
    cause = "RuntimeError: the compiler failed"
    assert diagnose(error, HERE).cause == cause
    hint = "scipy.py hides the installed scipy: rename it"
    assert diagnose(error, tmp_path / "work.py").cause == f"{cause} ({hint})"


def test_a_long_message_is_cut():
    assert len(diagnose(ValueError("x" * 10_000), HERE).cause) < 600


def test_folders_of_this_machine_are_left_out():
    error = OSError("/home/someone/kernels/.build/lib.so: cannot open, see https://a.org/b/c")

    cause = diagnose(error, HERE).cause
    assert cause == "OSError: lib.so: cannot open, see https://a.org/b/c"


@pytest.mark.parametrize(
    ("late", "earlier", "expected"),
    [
        (
            Failure("illegal_address", "A"),
            Failure("raised", "B"),
            Failure("illegal_address", "A (seen after B)"),
        ),
        (Failure("raised", "A"), Failure("raised", "B"), Failure("raised", "B")),
        (
            Failure("illegal_address", "A"),
            Failure("illegal_address", "B"),
            Failure("illegal_address", "B"),
        ),
    ],
)
def test_an_error_of_the_device_explains_an_earlier_exception(late, earlier, expected):
    assert late.seen_after(earlier) == expected


def test_a_backward_pass_without_gradients_says_how_they_are_on():
    with torch.no_grad(), pytest.raises(RuntimeError) as raised:
        torch.ones(1, requires_grad=True).sum().backward()
    cause = diagnose(raised.value, HERE).cause
    assert "requires_grad=True" in cause
    assert "torch.enable_grad()" in cause
