"""The instruction that another one waits for, by the registers that both name."""

import pandas as pd
import pytest
from recorded import CAUSES, RECORDINGS, report_of_recording

from profiler.analyse.why.sass_code import LOADS, Code, in_slow_path, in_swap_loop
from profiler.findings.why.hot_lines import hot_lines
from profiler.parse.ncu_source import opcode
from profiler.render.words.why import wait_words


def code(*sass):
    return pd.DataFrame({"sass": sass, "opcode": [opcode(text) for text in sass]})


@pytest.mark.parametrize(
    ("sass", "load"),
    [
        (("LDG.E R8, desc[UR4][R4.64]", "FADD R2, R8, R3"), 0),
        # Of a wide load, any of its registers.
        (("LDG.E.128 R4, desc[UR4][R2.64]", "FMNMX R10, R7, R15, !PT"), 0),
        (("LDG.E.64 R4, desc[UR4][R2.64]", "FMNMX R10, R7, R15, !PT"), None),
        # The later of two loads.
        (("LDG.E R4, desc[UR4][R2.64]", "LDG.E R5, desc[UR4][R2.64]", "FADD R6, R4, R5"), 1),
        # What is written in between is what is read.
        (("LDG.E R4, desc[UR4][R2.64]", "MOV R4, R9", "FADD R6, R4, R4"), None),
        # A store reads all of its registers, and a predicate is none.
        (("@P0 LDG.E R5, desc[UR4][R4.64]", "@!P1 STG.E desc[UR4][R2.64], R5"), 0),
        # It writes R8 and reads R9.
        (("LDG.E R8, desc[UR4][R4.64]", "FADD R8, R9, 1"), None),
        (("LDS R8, [R4]", "FADD R2, R8, R3"), None),
    ],
)
def test_the_load_is_the_last_that_wrote_what_is_read(sass, load):
    assert Code.of(code(*sass)).producer(len(sass) - 1, LOADS) == load


def test_a_loop_that_loads_ahead_waits_for_a_load_behind():
    loop = code("FADD R2, R8, R3", "IADD3 R4, R4, 0x4, RZ", "LDG.E R8, desc[UR4][R4.64]", "BRA 0x0")
    assert Code.of(loop).producer(0, LOADS) == 2


def lines_of(recording, cell):
    profiles = report_of_recording(recording).details.profiles
    launches = next(launches for name, launches in profiles.items() if name.startswith(cell))
    return hot_lines(launches[0].instructions_by_wait, 5)


def test_a_helper_of_triton_waits_for_the_load_of_the_kernel():
    """Half of the stalls were told of `mask = a > b` in triton_helpers.py, and no more."""
    hottest = lines_of(CAUSES / "fusion.zip", "compile..operator=softmax.dim0=65536.dim1=65536")[0]
    assert hottest.place == "triton_helpers.py:116"
    assert hottest.loaded_at.startswith("c2yrbsg44o")
    assert hottest.loaded_at.endswith(":37")
    assert wait_words(hottest) == "for the load in c2yrbsg44o…nlk62o5erc.py:37"


def test_a_conversion_of_cuda_waits_for_the_load_of_the_kernel():
    line, barrier, conversion = lines_of(
        RECORDINGS / "softmax.zip", "vector-b1024-r1-v8..columns=16384"
    )[:3]
    assert (line.place, wait_words(line)) == ("vector.cu:35", "for the load in line 32")
    assert (barrier.loaded_at, wait_words(barrier)) == ("", "for other warps at barriers")
    assert conversion.place == "cuda_fp16.hpp:708"
    assert wait_words(conversion) == "for the load in vector.cu:32"


def test_a_load_in_the_line_itself_is_not_repeated():
    hottest = lines_of(RECORDINGS / "transpose.zip", "padded")[0]
    assert (hottest.place, hottest.loaded_at) == ("transpose.cu:17", "")


# ---- parts of the code ---------------------------------------------------------------------------


def listing(*texts):
    """Instructions of these texts, 16 bytes each, as the source page has them."""
    names = [text.split()[1] if text.startswith("@") else text.split()[0] for text in texts]
    places = range(0, 16 * len(texts), 16)
    return pd.DataFrame({"address": places, "opcode": names, "sass": texts})


def in_loops(*texts):
    return in_swap_loop(listing(*texts), "ATOMS.CAS").tolist()


# ---- compare and swap ----


def test_a_loop_that_tries_until_the_swap_succeeds_is_one():
    """Addition of floats on shared memory, as nvcc compiles it."""
    assert in_loops(
        "MOV R2, R1",
        "LDS R8, [R2]",
        "FADD R9, R5, R8",
        "ATOMS.CAST.SPIN R9, [R2], R8, R9",
        "ISETP.EQ.U32.AND P2, PT, R9, 0x1, PT",
        "@!P2 BRA 0x10",
        "EXIT",
    ) == [False, True, True, True, True, True, False]


def test_a_loop_that_is_left_when_the_swap_succeeds_is_one():
    """A table with linear probing."""
    assert all(
        in_loops(
            "ATOMS.CAS R9, [R2], R8, R5",
            "ISETP.EQ.AND P0, PT, R9, R8, PT",
            "@P0 BRA 0x60",
            "IADD3 R2, R2, 0x4, RZ",
            "BRA 0x0",
        )
    )


@pytest.mark.parametrize(
    "used",
    [
        ["IADD3 R4, R4, R9, RZ"],
        ["ISETP.EQ.AND P1, PT, R9, R8, PT", "@P1 IADD3 R4, R4, 0x1, RZ"],
        ["ISETP.EQ.AND P1, PT, R9, R8, PT", "@P1 BRA 0x50", "IADD3 R4, R4, 0x1, RZ"],
    ],
)
def test_a_loop_that_swaps_once_a_turn_is_none(used):
    """Samples of all the rest of such a loop were said to be of atomics on shared memory."""
    assert not any(
        in_loops(
            "LDG.E R8, [R6]",
            "FFMA R8, R8, R8, R8",
            "ATOMS.CAS R9, [R2], R8, R5",
            *used,
            "IADD3 R3, R3, 0x1, RZ",
            "ISETP.LT.AND P0, PT, R3, R7, PT",
            "@P0 BRA 0x0",
            "EXIT",
        )
    )


def test_a_swap_outside_of_loops_is_none():
    assert not any(in_loops("ATOMS.CAS R9, [R2], R8, R5", "EXIT"))


# ---- slow paths ----

CONVERSIONS = ("I2F.F64.S64 R6, R8", "DMUL R6, R6, R2", "F2F.F32.F64 R6, R6")


def test_the_slow_path_of_a_sine_is_what_a_branch_jumps_over():
    table = ("STL [R0], R5", "LDL R8, [R0]")
    instructions = listing("@!P1 BRA 0x60", *table, *CONVERSIONS, "FMUL R1, R6, R6")
    assert in_slow_path(instructions).tolist() == [False, *[True] * 5, False]


def test_conversions_of_integers_by_double_precision_are_no_sine():
    """`if (i < n) out[i] = (float)(double(ticks[i]) * period);` was said to be one."""
    instructions = listing("@P0 BRA 0x50", "LDG.E.64 R8, [R4]", *CONVERSIONS, "EXIT")
    assert not in_slow_path(instructions).any()
