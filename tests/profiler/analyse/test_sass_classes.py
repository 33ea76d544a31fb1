"""Classes of machine instructions."""

from pathlib import Path

import pytest

from profiler.analyse.why.sass_code import (
    CLASSES,
    executed_by_class,
    instruction_class,
    instruction_classes,
)
from profiler.parse.ncu_source import read_source_page

RECORDINGS = Path(__file__).parents[2] / "recordings"
PAGES = RECORDINGS / "ncu-source-2025.3.1"
OPCODES = [line.split() for line in (RECORDINGS / "sass-13.0/opcodes.txt").read_text().splitlines()]


@pytest.fixture(scope="module")
def torch_listings():
    return read_source_page(PAGES / "torch_sass.csv.gz")[0]


@pytest.mark.parametrize(
    ("opcodes", "name"),
    [
        ("HMMA.16816.F32.BF16 HGMMA.64x64x16.F32.BF16 IMMA.16832.S8.S8 UTCHMMA.2CTA", "tensor"),
        ("LDTM.x32 STTM.x32", "tensor_memory"),
        ("FFMA.FTZ FADD FMUL2 HFMA2.MMA HADD2 DFMA", "fma"),
        ("FSETP.GT.AND FMNMX FMNMX3 HMNMX2 DSETP.GT.AND", "compare_float"),
        ("ISETP.GE.AND PLOP3.LUT VIADDMNMX", "compare"),
        ("IMAD.WIDE IADD3.X LEA.HI LOP3.LUT SHF.R.U32.HI VIADD IADD.64 POPC", "integer"),
        ("F2FP.BF16.F32.PACK_AB I2F.U32.RP F2I.FTZ.U32.TRUNC.NTZ HADD2.F32", "conversion"),
        ("MUFU.EX2", "special"),
        ("LDC.64 LDCU.128", "load_constant"),
        ("LDG.E.128 LD.E", "load_global"),
        ("STG.E.U16", "store_global"),
        ("LDS.128 LDSM.16.M88.4", "load_shared"),
        ("STS.64 STSM.16.M88.4", "store_shared"),
        ("LDL.LU STL.128", "local"),
        ("LDGSTS.E.BYPASS.128 LDGDEPBAR UTMALDG.4D UBLKCP.S.G UTMASTG.4D", "async_copy"),
        ("ATOMG.E.ADD.STRONG.GPU RED.E.ADD ATOMS.CAS", "atomic"),
        (
            "BAR.SYNC.DEFER_BLOCKING SYNCS.EXCH.64 WARPGROUP.ARRIVE DEPBAR.LE MEMBAR.SC.GPU",
            "barrier",
        ),
        ("BRA EXIT BSSY.RECONVERGENT CALL.REL.NOINC RET.REL.NODEC", "control"),
        ("MOV IMAD.MOV.U32 SHFL.BFLY SEL PRMT S2R CS2R VOTE.ANY", "move"),
        ("UIADD3 ULDC.64 R2UR S2UR UISETP.GE.AND VOTEU.ANY UNEVERSEEN", "uniform"),
        ("NOP NEVERSEEN", "other"),
    ],
)
def test_opcodes_of_a_class(opcodes, name):
    assert {instruction_class(opcode) for opcode in opcodes.split()} == {name}
    assert name in CLASSES


@pytest.mark.parametrize("opcodes", OPCODES, ids=lambda opcodes: opcodes[0])
def test_every_opcode_of_our_own_kernels_has_a_class(opcodes):
    others = {opcode for opcode in opcodes[1:] if instruction_class(opcode) == "other"}
    assert others <= {"NOP", "USETMAXREG.TRY_ALLOC.CTAPOOL", "USETMAXREG.DEALLOC.CTAPOOL"}


def test_instructions_of_real_kernels_have_classes(torch_listings):
    listings = [*torch_listings, *read_source_page(PAGES / "planted_sass.csv.gz")[0]]
    for listing in listings:
        executed = executed_by_class(listing)
        assert executed.sum() == listing.instructions["executed"].sum()
        assert executed.get("other", 0) < 0.01 * executed.sum()
        assert set(executed.index) <= set(CLASSES)


def test_classes_of_flash_attention(torch_listings):
    flash, cudnn = (executed_by_class(listing) for listing in torch_listings[:2])
    # 4·B·H·S²·D operations, and each instruction makes 2·16·8·16 of them.
    assert flash["tensor"] * 4096 == 549_755_813_888
    assert cudnn["tensor"] < flash["tensor"] / 10
    assert flash["local"] == 14_786_560  # sass__inst_executed_register_spilling of the raw page
    assert flash["async_copy"] == 8_519_680 + 1_048_576  # LDGSTS, and LDGDEPBAR after each group


def test_a_constant_in_a_register_is_no_multiplication(torch_listings):
    listing = torch_listings[2]
    is_constant = listing.instructions["sass"].str.match(r"HFMA2.MMA R\d+, -RZ, RZ, ")
    assert is_constant.any()
    assert set(instruction_classes(listing)[is_constant]) == {"move"}
