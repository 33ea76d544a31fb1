"""What warps wait for is named after the instruction that they wait for, not after ncu's reason."""

from pathlib import Path

import pandas as pd
import pytest
from recorded import report_of_recording

from profiler.analyse.why.account import STALL, account
from profiler.analyse.why.causes import causes
from profiler.analyse.why.kernel_profiles import KernelProfile, stall_per_issue
from profiler.analyse.why.waited_for import (
    name_product_waits,
    samples_by_wait,
    share_of_barrier_waits,
    wait_shares_by_unit,
)
from profiler.findings.why.hot_lines import hot_lines
from profiler.parse.ncu_source import Listing, opcode
from profiler.render.words.why import part_words, waited_for

RESULT, QUEUE = "stall_short_scoreboard", "stall_mio_throttle"
COUNTERS = {
    "gpu__time_duration.sum": 1e6,
    "sm__cycles_elapsed.max": 1e6,
    "sm__cycles_active.avg": 1e6,
    "smsp__cycles_active.avg": 1e6,
    "smsp__cycles_active.sum": 5.28e8,
    "smsp__inst_issued.sum": 5.28e7,
    "smsp__warps_active.sum": 5.28e9,
}


def code(*sampled, column=RESULT, text="y = x;"):
    """Instructions with their samples in one column of the source page."""
    rows = pd.DataFrame(sampled, columns=["sass", column])
    return rows.assign(
        opcode=[opcode(sass) for sass in rows["sass"]],
        address=range(len(rows)),
        file="k.cu",
        line=7,
        text=text,
        executed=1.0,
        samples_not_issued=rows[column],
        **{f"{column}_not_issued": rows[column]},
    )


@pytest.mark.parametrize(
    ("producer", "consumer", "unit"),
    [
        ("LDC R5, c[0x3][R4]", "FADD R2, R5, R3", "constant_memory"),
        ("LDS.128 R4, [R9]", "FFMA R2, R7, R3, R2", "shared_memory"),
        ("LDSM.16.M88.4 R8, [R9+0x10]", "HMMA.16816.F32 R0, R4, R11, R0", "shared_memory"),
        ("ATOMS.CAST.SPIN R5, [R4], R6, R7", "ISETP.EQ.U32.AND P0, PT, R5, 0x1, PT",
         "shared_atomics"),
        ("MUFU.EX2 R5, R5", "FMUL R5, R5, R2", "special_functions"),
        ("F2F.F32.F64 R6, R6", "FADD R2, R6, R2", "conversions"),
        ("I2F.F64.S64 R14, R14", "IADD3 R2, R15, R2, RZ", "conversions"),
        ("DFMA R16, R4, R6, R16", "MOV R2, R17", "double_precision"),
        ("DSETP.GT.AND P0, PT, R4, R6, PT", "@P0 BRA 0x80", "double_precision"),
        ("SHFL.BFLY PT, R4, R3, 0x10, 0x1f", "FADD R3, R3, R4", "shuffles"),
        ("S2R R3, SR_TID.X", "IMAD R4, R3, 0x4, RZ", "special_registers"),
        ("POPC R5, UR4", "IADD3 R4, P0, R5, R3, RZ", "bit_counts"),
        ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR5+0x2a000], R3", "@!P0 BRA 0x80",
         "asynchronous_barriers"),
        # It must not overwrite what a store has yet to read.
        ("STS [R9], R4", "MOV R4, R2", "shared_memory"),
        # Another one wrote it in between.
        ("MUFU.EX2 R5, R5\nMOV R5, R6", "FMUL R5, R5, R2", None),
    ],
)  # fmt: skip
def test_a_result_is_of_the_unit_that_gives_it(producer, consumer, unit):
    before = [(sass, 0.0) for sass in producer.split("\n")]
    named = samples_by_wait(code(*before, (consumer, 10.0)))
    assert wait_shares_by_unit(named, "short_scoreboard") == ({unit: 1.0} if unit else {})


def test_room_in_the_queue_is_for_the_instruction_itself():
    sampled = (("LDC R5, c[0x3][R4]", 30.0), ("STS [R9], R5", 10.0), ("FADD R1, R5, R5", 60.0))
    shares = wait_shares_by_unit(samples_by_wait(code(*sampled, column=QUEUE)), "mio_throttle")
    assert shares == {"constant_memory": 0.3, "shared_memory": 0.1}


def profile(sass, cycles, *, listed=True):
    """A kernel whose last instruction waits `cycles` for the one before it."""
    rows = code(*((text, 0.0) for text in sass[:-1]), (sass[-1], 50.0))
    values = {
        stall_per_issue("short_scoreboard"): cycles,
        stall_per_issue("selected"): 1.0,
        **COUNTERS,
    }
    return KernelProfile("kernel", values, listing=Listing("kernel", rows) if listed else None)


def test_the_account_names_constant_memory_and_no_shared_memory():
    """18.9 ms of indexed constants were once told as 14.2 ms of shared memory."""
    indexed = profile(("LDC R5, c[0x3][R4]", "FADD R2, R5, R3"), 9.0)
    plain = profile(("LDS R5, [R4]", "FADD R2, R5, R3"), 3.0)
    found = account([indexed], [plain])
    parts = {part.name: part.ns for part in found.parts}
    assert parts[f"{STALL}short_scoreboard:constant_memory"] == pytest.approx(0.9e6)
    assert parts[f"{STALL}short_scoreboard:shared_memory"] == pytest.approx(-0.75e6)
    assert f"{STALL}short_scoreboard" not in parts
    assert sum(parts.values()) == pytest.approx(found.difference_ns, abs=1e-6)
    assert part_words(found.parts[0]) == "more waiting for constant memory"
    # Units of one side alone would be differences that are none.
    unlisted = account([profile(("FADD R2, R5, R3",), 9.0, listed=False)], [plain])
    assert {part.name for part in unlisted.parts} >= {f"{STALL}short_scoreboard"}


def test_words_of_waits_name_no_unit_that_is_not_known():
    assert waited_for("short_scoreboard:constant_memory") == "for constant memory"
    assert waited_for("mio_throttle:special_functions") == "for the MIO queue (special functions)"
    assert waited_for("mio_throttle") == "for the MIO queue"
    assert waited_for("a_new_reason") == "(a_new_reason)"


@pytest.mark.parametrize("text", ["<Unable to open source file>", "<No source available>", ""])
def test_without_its_source_a_line_is_machine_code_and_what_it_waits_for(text):
    """As ncu prints it of CuPy, nvrtc and code that was compiled elsewhere."""
    sampled = (("LDC R5, c[0x3][R4]", 0.0), ("FADD R2, R5, R3", 9.0), ("EXIT", 1.0))
    (line,) = hot_lines(samples_by_wait(code(*sampled, text=text)), 5)
    assert line.place == "k.cu:7"
    assert line.text == "FADD R2, R5, R3 \u2190 LDC R5, c[0x3][R4]"
    assert line.reason == "short_scoreboard:constant_memory"


def test_a_template_argument_is_source():
    (line,) = hot_lines(samples_by_wait(code(("FADD R2, R5, R3", 9.0), text="<float>")), 5)
    assert line.text == "<float>"


# ---- waits for products --------------------------------------------------------------------------

ROOT = Path(__file__).parents[3]


def longest_kernels(run):
    """Longest kernel of each explained cell of a recording, by cell."""
    profiles = report_of_recording(ROOT / run).details.profiles
    return {
        cell: max(launches, key=lambda kernel: kernel.value("gpu__time_duration.sum"))
        for cell, launches in profiles.items()
    }


@pytest.fixture(scope="module")
def attention():
    return longest_kernels("experiments/recordings/hopper.zip")


@pytest.fixture(scope="module")
def cudnn(attention):
    return next(kernel for cell, kernel in attention.items() if cell.startswith("sdpa_cudnn"))


def test_cudnns_attention_waits_for_its_products_and_hardly_for_other_warps(cudnn):
    assert share_of_barrier_waits(cudnn.instructions) == pytest.approx(345_848 / 365_734)
    stalls = cudnn.stalls()
    assert stalls["gmma"] / cudnn.latency == pytest.approx(0.257, abs=0.005)
    assert stalls["barrier"] / cudnn.latency == pytest.approx(0.014, abs=0.005)
    assert sum(stalls.values()) == pytest.approx(cudnn.latency)
    found = {cause.name for cause in causes(cudnn)}
    assert "tensor_core_waits" in found
    assert "barrier_waits" not in found


def test_without_the_source_page_the_counters_stay_as_they_are(cudnn):
    stalls = KernelProfile(cudnn.name, cudnn.values).stalls()
    assert stalls["barrier"] / sum(stalls.values()) == pytest.approx(0.262, abs=0.002)


def test_the_instruction_that_waits_for_products_says_so(cudnn):
    lines = hot_lines(cudnn.instructions_by_wait, 2)
    assert all(line.text.startswith("WARPGROUP.DEPBAR") for line in lines)
    assert [line.reason for line in lines] == ["gmma", "gmma"]


def test_samples_that_no_column_has_are_those_of_products(attention):
    for kernel in attention.values():
        instructions = kernel.instructions
        named = name_product_waits(instructions)
        if not instructions["opcode"].str.contains("GMMA").any():
            assert named is instructions
            continue
        assert named["stall_unnamed"].sum() == 0
        columns = ["stall_unnamed", "stall_gmma", "stall_barrier"]
        pd.testing.assert_series_equal(
            named[columns].sum(axis=1), instructions[columns].sum(axis=1), check_names=False
        )


def test_kernels_that_wait_for_other_warps_still_do():
    kernels = longest_kernels("benchmarks/why/recording.zip")
    planted = next(kernel for cell, kernel in kernels.items() if cell == "planted..barrier_waits")
    assert share_of_barrier_waits(planted.instructions) == 0
    assert planted.stalls()["barrier"] / planted.latency == pytest.approx(0.83, abs=0.01)


def test_a_kernel_that_issued_nothing_has_no_stalls_by_instruction():
    counters = {"smsp__inst_issued.sum": 0.0, "smsp__warps_launched.sum": 4.0}
    assert KernelProfile("kernel", counters).stalls() == {}
