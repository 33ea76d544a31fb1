"""Slow paths of sines and loops of compare-and-swap, told from code that resembles them."""

import pandas as pd
import pytest

from profiler.analyse.why.code_parts import of_slow_paths, of_swap_loops


def listing(*texts):
    """Instructions of these texts, 16 bytes each, as the source page has them."""
    names = [text.split()[1] if text.startswith("@") else text.split()[0] for text in texts]
    places = range(0, 16 * len(texts), 16)
    return pd.DataFrame({"address": places, "opcode": names, "sass": texts})


def in_loops(*texts):
    return of_swap_loops(listing(*texts), "ATOMS.CAS").tolist()


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
    assert of_slow_paths(instructions).tolist() == [False, *[True] * 5, False]


def test_conversions_of_integers_by_double_precision_are_no_sine():
    """`if (i < n) out[i] = (float)(double(ticks[i]) * period);` was said to be one."""
    instructions = listing("@P0 BRA 0x50", "LDG.E.64 R8, [R4]", *CONVERSIONS, "EXIT")
    assert not of_slow_paths(instructions).any()
