from pathlib import Path

import pytest

from profiler.model import KernelFacts
from profiler.parse.ptxas import error_lines, parse_ptxas_log, serialized_wgmma

RECORDINGS = Path(__file__).parents[2] / "recordings" / "ptxas-13.0"


def log(name):
    return (RECORDINGS / name).read_text()


def test_kernels_of_one_architecture_in_the_order_of_the_log():
    kernels = parse_ptxas_log(log("several-kernels-two-archs.log"))
    assert kernels[:4] == (
        KernelFacts("_Z5typedIiEvPT_", 8, 0, 0, 0, 0, 360),
        KernelFacts("indirect", 16, 0, 0, 32, 0, 364),
        KernelFacts("tile", 10, 0, 0, 0, 256, 360),
        KernelFacts("scale", 8, 0, 0, 0, 0, 364),
    )


def test_constant_memory_that_ptxas_does_not_tell_is_missing():
    kernel = parse_ptxas_log(log("several-kernels-two-archs.log"))[4]  # of sm_90
    assert kernel.name == "_Z5typedIiEvPT_"
    assert kernel.constant_bytes is None


def test_every_architecture_of_a_log_counts():
    kernels = parse_ptxas_log(log("several-kernels-two-archs.log"))
    assert [kernel.name for kernel in kernels].count("scale") == 2
    assert len(kernels) == 8


def test_functions_that_are_not_kernels_are_left_out():
    names = {kernel.name for kernel in parse_ptxas_log(log("several-kernels-two-archs.log"))}
    assert "_Z6helperfi" not in names


def test_spills():
    spilled = {
        kernel.name: (kernel.spill_store_bytes, kernel.spill_load_bytes, kernel.registers)
        for kernel in parse_ptxas_log(log("spills.log"))
        if kernel.spill_store_bytes
    }
    assert spilled == {
        "_ZN7softmax14softmax_vectorIfLi8EEEvPKT_PS1_xx": (228, 236, 64),
        "_ZN7softmax14softmax_vectorI6__halfLi8EEEvPKT_PS2_xx": (244, 260, 64),
    }


def test_the_reason_why_products_of_wgmma_are_serialised():
    message = (
        "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are "
        "serialized due to "
    )
    for reason, end in (
        ("insufficient register resources", " for the function '_Z4gemmv'"),
        ("insufficient register resources for the wgmma pipeline", " in the function '_Z4gemmv'"),
        ("non wgmma instructions defining accumulator registers", " in function '_Z4gemmv'"),
        ("the presence of Extern calls", ""),
    ):
        assert serialized_wgmma(f"ptxas info : 1\n{message}{reason}{end}\nmore") == reason
    assert serialized_wgmma(log("several-kernels-two-archs.log")) == ""


def test_a_log_without_kernels():
    assert parse_ptxas_log(log("compile-error.log")) == ()
    assert parse_ptxas_log("") == ()


def test_a_log_cut_off_gives_what_it_has():
    text = log("sm_80.log")
    cut = text[: text.index("Used")]
    (kernel,) = parse_ptxas_log(cut)
    assert kernel.registers is None
    assert kernel.shared_bytes is None
    assert kernel.stack_bytes == 0


def test_properties_of_a_device_function_do_not_reach_the_kernel_before_it():
    text = (
        "ptxas info    : Compiling entry function 'k' for 'sm_90'\n"
        "ptxas info    : Function properties for helper\n"
        "    64 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads\n"
        "ptxas info    : Function properties for k\n"
        "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 20 registers, 24 bytes smem, 380 bytes cmem[0], 8 bytes cmem[2]\n"
    )
    assert parse_ptxas_log(text) == (KernelFacts("k", 20, 0, 0, 0, 24, 388),)


FAULT = """\
launcher.cu(7): error: static assertion failed with "profiler: argument 1 of the kernel (x): a"
  static_assert(a); static_assert(b);
                    ^

"""
USERS = """\
scale.cu(3): error: identifier "oops" is undefined
    oops();
    ^

"""
COUNT = '{} errors detected in the compilation of "launcher.cu".\n'


def test_what_only_the_launcher_refuses_is_one_sentence():
    log = FAULT + FAULT + COUNT.format(2)
    assert error_lines(log) == ("argument 1 of the kernel (x): a",)


def test_errors_of_the_source_stand_alone():
    expected = tuple(USERS.splitlines()[:3])
    assert error_lines(FAULT + USERS + FAULT + COUNT.format(3)) == expected
    assert error_lines(USERS + COUNT.format(1)) == expected


FOLLOWING = """\
launcher.cu(22): error: no instance of overloaded function "at_launch" matches the argument list
            argument types are: (const <error-type>, int)

"""
UNDECIDED = """\
launcher.cu(10): error: no instance of function template "std::make_tuple" matches the argument list
            argument types are: (<unknown-type>)
      __attribute__((used)) = std::make_tuple(scale<4>);
                              ^

"""


def test_what_follows_from_another_error_is_left_out():
    expected = tuple(USERS.splitlines()[:3])
    assert error_lines(USERS + UNDECIDED + FOLLOWING * 2 + COUNT.format(4)) == expected
    (sentence,) = error_lines(UNDECIDED + FOLLOWING + COUNT.format(2))
    assert sentence.startswith("kernel 'scale<4>' is not one function: give every template arg")
    assert error_lines(FOLLOWING) == tuple(FOLLOWING.splitlines()[:2])


WARNING = """\
scale.cu(6): warning #177-D: variable "unused" was declared but never referenced
    float unused;
          ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

"""
MISSPELLED = """\
/a b/launcher.cu(10): error: identifier "scael" is undefined
      __attribute__((used)) = std::make_tuple(scael);
                                              ^

"""


def test_errors_stand_without_warnings_and_a_wrong_name_in_a_sentence():
    assert error_lines(WARNING + USERS + WARNING) == tuple(USERS.splitlines()[:3])
    (sentence,) = error_lines(WARNING + MISSPELLED + FOLLOWING + FAULT + COUNT.format(3))
    undefined = "kernel 'scael': identifier \"scael\" is undefined"
    assert sentence == f"{undefined}; in a namespace its name is NAMESPACE::scael"


NO_MEMBER = """\
/a b/launcher.cu(4): error: class "Args" has no member "m"
  template <> struct profiler_launcher::Fields<0, 1> { static constexpr bool profiler_given = true;
                                                       ^
          detected during:
            instantiation of "void profiler_launcher::Fields<0, 1>::profiler_each(…)" at line 115

"""


def test_an_error_in_the_launcher_is_one_line_without_its_macros():
    expected = 'error: class "Args" has no member "m" (workload.arguments)'
    assert error_lines(WARNING + NO_MEMBER + COUNT.format(1)) == (expected,)


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (
            [
                "ptxas /tmp/x.ptx, line 9; error   : Instruction 'wgmma.fence' not supported on "
                ".target 'sm_90'",
                "ptxas fatal   : Ptx assembly aborted due to errors",
            ],
            "Instruction 'wgmma.fence' not supported on sm_90: where the GPU has it, say `build: "
            "{arch: sm_90a}`",
        ),
        (
            ["ptxas x.ptx, line 9; error   : Modifier '.async' requires .target sm_90 or higher"],
            "Modifier '.async' requires sm_90 or higher: compile for such a GPU (`build: {arch: …}`"
            ", or `--arch`)",
        ),
        (
            ["ptxas /tmp/x.ptx, line 9; error   : Unknown modifier '.instr'"],
            "Unknown modifier '.instr' (in assembly of the source, as ptxas says)",
        ),
        (
            [
                "/usr/bin/ld: x/launcher.o: in function `profiler_launch':",
                "tmpxft_1.cpp:(.text+0x45): undefined reference to `scale(float*, int)'",
                "collect2: error: ld returned 1 exit status",
            ],
            "nothing defines 'scale(float*, int)': include the file that does, or name its library "
            "(`build: {flags: [-lNAME]}`)",
        ),
        (
            [
                "a.cu:1:10: fatal error: torch/extension.h: No such file or directory",
                "    1 | #inc",
            ],
            "a.cu:1: there is no torch/extension.h: load an extension of torch in a Python file, "
            "whose functions are measured (docs/python.md), or put its kernels into a file of "
            "their own",
        ),
        (
            [
                "ptxas info    : Used 8 registers, 380 bytes cmem[0]",
                "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads",
                "/usr/bin/ld: cannot find -lcuda: No such file or directory",
                "collect2: error: ld returned 1 exit status",
            ],
            "the linker finds no library cuda: name its folder (`build: {flags: [-LFOLDER]}`)",
        ),
        (
            [
                "a.cu:2:10: fatal error: op.cuh: No such file or directory",
                "compilation terminated.",
            ],
            "a.cu:2: there is no op.cuh: name its folder, from that of the experiment file "
            "(`build: {flags: [-IFOLDER]}`)",
        ),
        (
            [
                "a.cu(2): error: kernel launch from __device__ or __global__ functions requires "
                "separate compilation mode"
            ],
            "a.cu:2: a kernel that launches kernels needs `build: {flags: [-rdc=true]}`",
        ),
        (
            [
                "ptxas error   : Entry function '_Z3bigPKfPfi' uses too much shared data (0x19000 "
                "bytes, 0xc000 max)",
                "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads",
            ],
            "kernel _Z3bigPKfPfi declares 0x19000 bytes of shared memory, and 0xc000 are the most: "
            "take dynamic shared memory (`extern __shared__`) and say `shared: BYTES`",
        ),
        (
            ["a.cu(3): error: texture is not a template", "  texture<float, 1> old;"],
            "a.cu:3: this CUDA has no texture references, only objects that host code makes: read "
            "the memory by a pointer, or write a workload in Python (docs/workloads.md)",
        ),
    ],
)
def test_errors_of_ptxas_and_the_linker_have_a_remedy(lines, sentence):
    assert error_lines("\n".join(lines)) == (sentence,)


def test_another_static_assertion_is_shown_as_it_is():
    log = FAULT.replace("profiler: ", "")
    assert error_lines(log) == tuple(log.splitlines()[:3])
