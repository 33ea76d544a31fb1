"""Classes of machine instructions, and how often the instructions of each were executed.

Opcodes: the instruction tables of NVIDIA's "CUDA Binary Utilities" for Volta to Blackwell, and SASS
of nvcc 13.0. Compilers move and convert with the arithmetic pipes, too: such an instruction counts
as what it does where its spelling shows it (`IMAD.MOV`, `HFMA2.MMA R5, -RZ, RZ, 2, 0`).
"""

from __future__ import annotations

import re
from types import MappingProxyType

import pandas as pd

from profiler.parse.ncu_source import EXECUTED, OPCODE, SASS, Listing

_OPCODES = {
    "tensor": """
        HMMA IMMA BMMA DMMA QMMA OMMA HGMMA IGMMA QGMMA BGMMA
        UTCHMMA UTCIMMA UTCQMMA UTCOMMA UTCMXQMMA""",
    "tensor_memory": "LDT LDTM STT STTM UTCCP UTCSHIFT UTCLDSWS UTCSTSWS UTCATOMSWS UVIRTCOUNT",
    "fma": """
        FADD FADD32I FADD2 FFMA FFMA32I FFMA2 FMUL FMUL32I FMUL2 FHADD FHFMA FCHK FSWZADD
        HADD2 HADD2_32I HFMA2 HFMA2_32I HMUL2 HMUL2_32I BFADD2 BFFMA2 BFMUL2 DADD DFMA DMUL""",
    "compare_float": "FMNMX FMNMX3 FSET FSETP HMNMX2 HSET2 HSETP2 DMNMX DSET DSETP VHMNMX",
    "compare": """
        IMNMX ISET ISETP VIMNMX VIMNMX3 VIADDMNMX PLOP3 PSETP PSET P2R R2P CSET CSETP""",
    "integer": """
        BMSK BREV FLO IABS IADD IADD3 IADD32I IADD64 IDP IDP4A IMAD IMAD32I IMUL IMUL32I ISCADD
        ISCADD32I LEA LOP LOP3 LOP32I POPC SHF SHL SHR SGXT VABSDIFF VABSDIFF4 VIADD XMAD LEPC
        BFE BFI""",
    "conversion": "F2F F2I F2IP F2FP F2FP32 I2F I2FP I2I I2IP FRND",
    "special": "MUFU",
    "load_constant": "LDC LDCU",
    "load_global": "LD LDG LDGMC",
    "store_global": "ST STG",
    "load_shared": "LDS LDSM LDTRAM",
    "store_shared": "STS STSM STAS",
    "local": "LDL STL",
    "texture": "TEX TEXS TLD TLDS TLD4 TLD4S TMML TXA TXD TXQ SULD SUST SUQUERY",
    "async_copy": """
        LDGSTS LDGDEPBAR BLKCP UBLKCP UBLKPF UBLKRED UTMALDG UTMASTG UTMALST UTMAPF UTMAREDG
        UTMACMDFLUSH UTMACCTL""",
    "atomic": "ATOM ATOMG ATOMS RED REDG REDAS SUATOM SURED",
    "barrier": """
        BAR B2R R2B BARRIER DEPBAR ARRIVES SYNCS WARPSYNC WARPGROUP WARPGROUPSET MEMBAR FENCE ERRBAR
        CGAERRBAR UCGABAR_ARV UCGABAR_WAIT UTCBAR ACQBULK ACQSHMINIT ENDCOLLECTIVE NANOSLEEP""",
    "control": """
        BRA BRX BRXU BREAK BSSY BSYNC BMOV BPT CALL EXIT JMP JMX JMXU KILL NANOTRAP RET RPCMOV RTT
        YIELD PREEXIT PMTRIG""",
    "move": """
        MOV MOV32I MOVM SEL FSEL PRMT SHFL S2R CS2R VOTE MATCH ELECT REDUX CREDUX GETLMEMBASE
        SETLMEMBASE SETCTAID""",
    "uniform": "R2UR S2UR VOTEU",
    "other": "NOP CCTL CCTLL CCTLT QSPC USETMAXREG USETSHMSZ PIXLD",
}  # fmt: skip
CLASSES = tuple(_OPCODES)
"""Classes in the order in which tables show them."""
_CLASS_BY_OPCODE = MappingProxyType(
    {opcode: name for name, opcodes in _OPCODES.items() for opcode in opcodes.split()}
)
_CLASS_BY_SPELLING = MappingProxyType(
    # An addition to zero that widens half precision is what the compiler converts with.
    {"IMAD.MOV": "move", "IMAD.MOV.U32": "move", "HADD2.F32": "conversion"}
)
# `HFMA2.MMA R5, -RZ, RZ, 2, 0` puts a constant into a register: nothing is multiplied.
_CONSTANT = re.compile(r"\bHFMA2(?:\.\w+)* [^,]+, -?RZ, -?RZ, ")


def instruction_class(opcode: str) -> str:
    """Class of an opcode with or without modifiers (`LDG.E.128`); `other` where it has none.

    Opcodes of the uniform datapath begin with U: those that no other class names are `uniform`.
    """
    base = opcode.split(".", 1)[0]
    fallback = "uniform" if base.startswith("U") else "other"
    return _CLASS_BY_SPELLING.get(opcode) or _CLASS_BY_OPCODE.get(base, fallback)


def instruction_classes(listing: Listing) -> pd.Series:
    """Class of each instruction of a listing."""
    opcodes, texts = (listing.instructions[column].tolist() for column in (OPCODE, SASS))
    class_by_opcode = {opcode: instruction_class(opcode) for opcode in set(opcodes)}
    classes = [
        "move" if opcode.startswith("HFMA2") and _CONSTANT.search(text) else class_by_opcode[opcode]
        for opcode, text in zip(opcodes, texts, strict=True)
    ]
    return pd.Series(classes, index=listing.instructions.index, dtype="object", name="class")


def executed_by_class(listing: Listing) -> pd.Series:
    """Warp instructions executed by class, largest first; NaN where nothing was counted."""
    executed = listing.instructions[EXECUTED].groupby(instruction_classes(listing))
    return executed.sum(min_count=1).sort_values(ascending=False).rename(EXECUTED)
