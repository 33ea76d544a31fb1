"""Differences of machine code that are differences of work."""

import itertools
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.analyse.why import sass_code
from profiler.analyse.why.sass_code import common_instructions, instruction_class, normalised
from profiler.parse.ncu_source import Listing, opcode, read_source_page

PAGES = Path(__file__).parents[2] / "recordings/ncu-source-2025.3.1"


@pytest.fixture(scope="module")
def torch_listings():
    return read_source_page(PAGES / "torch_sass.csv.gz")[0]


def listing(*sass, start=0x1000):
    addresses = [start + 16 * position for position in range(len(sass))]
    frame = pd.DataFrame(
        {
            "address": addresses,
            "sass": sass,
            "opcode": [opcode(text) for text in sass],
        }
    )
    return Listing("k", frame)


PROGRAM = (
    "LDC R1, c[0x0][0x28]",
    "S2R R0, SR_TID.X",
    "ISETP.GE.AND P0, PT, R0, UR6, PT",
    "@P0 EXIT",
    "IMAD.WIDE R2, R0, 0x4, R2",
    "LDG.E R3, desc[UR4][R2.64+0x10]",
    "BSSY B0, 0x1090",
    "FADD R3, R3.reuse, 1.5",
    "STG.E desc[UR4][R4.64], R3",
    "BRA 0x1060",
)


def renamed(sass):
    """The same instruction with other registers, targets and offsets."""
    sass = re.sub(r"\b(U?R|P|B)(\d)\b", lambda match: f"{match[1]}{int(match[2]) + 1}", sass)
    return (
        sass.replace(".reuse", "")
        .replace("0x10]", "0x20]")
        .replace("0x10", "0x20")
        .replace("0x28", "0x44")
    )


def alone(first, second):
    """Texts of the instructions that only the first has, and only the second; without padding."""
    common = common_instructions(first, second)
    texts = []
    for side, kernel in enumerate((first, second)):
        sass, addresses = kernel.instructions["sass"].tolist(), kernel.instructions["address"]
        size = sass_code._size_without_padding(sass, addresses.tolist())
        in_both = {pair[side] for pair in common}
        texts.append([text for place, text in enumerate(sass[:size]) if place not in in_both])
    return tuple(texts)


def are_same(first, second):
    return alone(first, second) == ([], [])


def classes(sass):
    return Counter(instruction_class(opcode(text)) for text in sass)


def test_the_same_program_with_other_registers_has_an_empty_diff():
    assert are_same(listing(*PROGRAM), listing(*map(renamed, PROGRAM), start=0x2000))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("FADD R1, R2, R3", "FADD R1, R2, -R3"),
        ("FADD R1, R2, R3", "FADD R1, R2, RZ"),
        ("FADD R1, R2, R3", "FADD.FTZ R1, R2, R3"),
        ("LDG.E R1, [R2]", "LDG.E.128 R1, [R2]"),
        ("LDG.E R1, [R2]", "@P0 LDG.E R1, [R2]"),
        ("@P0 LDG.E R1, [R2]", "@!P0 LDG.E R1, [R2]"),
        ("SHF.L.U32 R1, R2, 0x5, RZ", "SHF.L.U32 R1, R2, 0x6, RZ"),
        ("I2F.U8 R1, R2.B1", "I2F.U8 R1, R2.B2"),
        ("LDC R1, c[0x0][0x28]", "LDC R1, c[0x3][0x28]"),
        ("S2R R1, SR_TID.X", "S2R R1, SR_TID.Y"),
        ("FADD R1, R2, R3", "FADD R1, R2, c[0x0][0x28]"),
        ("DEPBAR.LE SB0, 0x1", "DEPBAR.LE SB0, 0x0"),
    ],
)
def test_what_changes_the_work_is_a_difference(first, second):
    assert normalised(first) != normalised(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("DEPBAR.LE SB0, 0x1", "DEPBAR.LE SB3, 0x1"),
        ("@!UP1 BRA 0x7f8e077a7150", "@!UP2 BRA 0x10"),
        ("WARPSYNC.COLLECTIVE R25, 0x7f8e077b8aa0", "WARPSYNC.COLLECTIVE R1, 0x10"),
        ("RET.REL.NODEC R2, 0x7f8e077a5000", "RET.REL.NODEC R4, 0x7f0000000000"),
        ("STS.128 [R2+0x800], R4", "STS.128 [R6], R8"),
        ("LDS R5, [R2+UR4+0x10]", "LDS R5, [R2+UR6]"),
        ("ULDC.64 UR4, c[0x0][0x208]", "ULDC.64 UR6, c[0x0][0x210]"),
    ],
)
def test_numbers_that_only_name_places_are_none(first, second):
    assert normalised(first) == normalised(second)


def test_a_return_address_moves_with_the_code():
    def program(*before):
        call = 16 * (len(before) + 1)
        return (*before, f"MOV R3, {call + 16:#x}", "CALL.REL.NOINC 0x2000", "EXIT")

    added = "FADD R1, R2, R3"
    assert alone(listing(*program()), listing(*program(added))) == ([], [added])


LOADED = 0x7F8E077A5000


@pytest.mark.parametrize(
    "at",
    [
        lambda start: f"IMAD.MOV.U32 R20, RZ, RZ, {(start + 32) % 2**32:#x}",
        lambda start: f"@P0 MOV R21, {start >> 32:#x}",
        lambda start: f"UMOV UR4, {start % 2**32 + 16:#x}",
        lambda start: f"LEPC R20, {start + 16:#x}",
        lambda start: f"IADD3 R20, P1, R2, {start + 32:#x}, RZ",
        lambda start: f"JMX R20, {start:#x}",
    ],
)
def test_the_same_code_at_another_address_has_an_empty_diff(at):
    programs = [
        listing("S2R R0, SR_TID.X", at(start), "FADD R1, R2, R3", "EXIT", start=start)
        for start in (LOADED, 0x7E12345A0000)
    ]
    assert are_same(*programs)


@pytest.mark.parametrize(
    "at", [lambda n: f"MOV R20, {n:#x}", lambda n: f"LOP3.LUT R2, R2, {n:#x}, RZ, 0xc0, !PT"]
)
def test_a_number_that_is_no_address_is_a_difference(at):
    first, second = (listing(at(number), "EXIT", start=LOADED) for number in (0x7FFFFF, 0x3FFFFF))
    assert not are_same(first, second)


def test_every_listing_of_a_page_is_itself_wherever_it_is_loaded(torch_listings):
    def moved(text, start, end):
        return re.sub(
            r"0x[0-9a-f]{6,}",
            lambda match: (
                hex(number + 0x40000) if start <= (number := int(match[0], 16)) <= end else match[0]
            ),
            text,
        )

    for kernel in torch_listings:
        frame = kernel.instructions
        ends = int(frame["address"].min()), int(frame["address"].max()) + 16
        shifted = frame.assign(
            address=frame["address"] + 0x40000, sass=[moved(text, *ends) for text in frame["sass"]]
        )
        assert not shifted["sass"].equals(frame["sass"])
        assert are_same(kernel, Listing(kernel.kernel, shifted))


def test_changes_have_their_side():
    second = [
        *PROGRAM[:5],
        "LDG.E.128 R4, desc[UR4][R2.64]",
        *PROGRAM[6:8],
        "FMUL R3, R3, R4",
        *PROGRAM[8:],
    ]
    removed, added = alone(listing(*PROGRAM), listing(*second))
    assert removed == [PROGRAM[5]]
    assert added == [second[5], "FMUL R3, R3, R4"]


def test_machine_code_against_itself_is_empty(torch_listings):
    assert all(are_same(kernel, kernel) for kernel in torch_listings)
    again = read_source_page(PAGES / "repeated_sass.csv.gz")[0]
    assert are_same(again[0], again[6])  # two launches with other work


def test_what_neither_side_has_alone_is_the_same_on_both(torch_listings):
    first, second = torch_listings[4:6]
    removed, added = map(classes, alone(first, second))
    counts = [
        Counter(map(instruction_class, kernel.instructions["opcode"])) for kernel in (first, second)
    ]
    assert removed or added
    for name in (counts[0].keys() | counts[1].keys()) - {"other"}:
        assert counts[0][name] - removed[name] == counts[1][name] - added[name]


def test_the_padding_of_a_kernel_is_none_of_its_instructions():
    padded = listing(*PROGRAM, f"BRA {0x1000 + 16 * len(PROGRAM):#x}", "NOP", "NOP")
    assert are_same(listing(*PROGRAM), padded)
    assert not are_same(listing(*PROGRAM[:-1]), listing(*PROGRAM))


def test_twenty_thousand_instructions_are_aligned_exactly(torch_listings):
    """Where difflib drops what occurs often, or takes hours."""
    sass = (torch_listings[0].instructions["sass"].tolist() * 6)[:20_000]
    generator = np.random.default_rng(1)
    fewer = [
        text for text, drop in zip(sass, generator.random(len(sass)) < 0.1, strict=True) if not drop
    ]
    assert len(sass) ** 2 <= sass_code.MOST_PAIRS
    assert len(sass_code._common_subsequence(sass, fewer)) == len(fewer)


def test_more_than_that_is_not_aligned(monkeypatch):
    monkeypatch.setattr(sass_code, "MOST_PAIRS", 3)
    removed, added = alone(
        listing("MUFU.EX2 R1, R1", *PROGRAM), listing("FADD R1, R1, R1", "NOP", "NOP", *PROGRAM)
    )
    assert (len(removed), len(added)) == (1, 3)
    removed, added = alone(
        listing(*["FADD R1, R1, R1", "NOP"] * 2, *PROGRAM),
        listing(*["NOP", "FMUL R1, R1, R1"] * 2, *PROGRAM),
    )
    assert len(removed) == len(added) == 4


def longest(first, second):
    """Length of a longest common subsequence, by the textbook's table."""
    row = [0] * (len(second) + 1)
    for left in first:
        before = row
        row = [0]
        for position, right in enumerate(second):
            row.append(
                before[position] + 1 if left == right else max(row[-1], before[position + 1])
            )
    return row[-1]


items = st.lists(st.sampled_from("abcd"), max_size=12)


@given(first=items, second=items)
def test_the_alignment_is_a_longest_common_subsequence(first, second):
    pairs = sass_code._common_subsequence(first, second)
    assert len(pairs) == longest(first, second)
    assert all(first[left] == second[right] for left, right in pairs)
    for (left, right), (next_left, next_right) in itertools.pairwise(pairs):
        assert left < next_left
        assert right < next_right
