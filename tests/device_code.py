"""The device code of recipes alone: the compiler of the host takes longer than that of a kernel.

Where the library itself is asked for, `build_variants` makes it.
"""

import hashlib
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from elftools.elf.elffile import ELFFile

from profiler.kernels.build import plan_library
from profiler.machine.compilers import find_compiler
from profiler.model import KernelFacts
from profiler.parse.ptxas import parse_ptxas_log


@dataclass(frozen=True)
class DeviceCode:
    """What ptxas made of one source."""

    text_hash: str
    """Hash of the instructions of all functions."""
    text_bytes: int
    kernels: tuple[KernelFacts, ...]


def compile_device_code(recipes, arch, folder):
    """Device code by the recipe's name, compiled with the flags that a build gives."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        codes = pool.map(partial(_compile, arch=arch, folder=folder), recipes, recipes.values())
        return dict(zip(recipes, codes, strict=True))


def _compile(name, recipe, arch, folder):
    (compilation,) = plan_library(recipe, arch, find_compiler()).compilations
    flags = compilation.command[: compilation.command.index("-MMD")]
    cubin = Path(folder) / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.cubin"
    command = [*flags, "-cubin", str(compilation.source), "-o", str(cubin)]
    command.remove("-c")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    text = _text(cubin)
    facts = parse_ptxas_log(done.stderr)
    return DeviceCode(hashlib.sha256(text).hexdigest(), len(text), facts)


def _text(cubin):
    with cubin.open("rb") as stream:
        sections = [s for s in ELFFile(stream).iter_sections() if s.name.startswith(".text.")]
        assert sections
        return b"".join(section.data() for section in sections)
