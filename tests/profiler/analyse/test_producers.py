"""The instruction that another one waits for, by the registers that both name."""

import pandas as pd
import pytest
from recorded import CAUSES, RECORDINGS, report_of_recording

from profiler.analyse.why.producers import LOADS, Code
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
    profile = next(profile for name, profile in profiles.items() if name.startswith(cell))
    return hot_lines(profile.kernels[0].instructions_by_wait, 5)


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
