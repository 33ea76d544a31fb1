"""The device code of recipes alone: the compiler of the host takes longer than that of a kernel.

Where the library itself is asked for, `build_variants` makes it.
"""

import hashlib
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile

from profiler.kernels.build import plan_library, watched_files
from profiler.machine.compilers import find_compiler
from profiler.model import KernelFacts
from profiler.parse.ptxas import parse_ptxas_log

SYSTEM_HEADER = re.compile(r"^\s*#\s*include\s*<([^>]+)>", re.MULTILINE)


@dataclass(frozen=True)
class DeviceCode:
    """What ptxas made of one source."""

    text_hash: str
    """Hash of the instructions of all functions."""
    text_bytes: int
    kernels: tuple[KernelFacts, ...]


def compile_device_code(recipes, arch, folder):
    """Device code by the recipe's name, compiled with the flags that a build gives.

    Recipes are one source for nvcc, each in a namespace of its own: CUDA's headers, which are most
    of the time of a kernel, are read once. Only constants of one would move those of another.
    """
    units = {
        name: _unit(f"recipe_{place}_", recipe, arch, folder)
        for place, (name, recipe) in enumerate(recipes.items())
    }
    together = {name: unit for name, unit in units.items() if "__constant__" not in unit.code}
    alone = [{name: unit} for name, unit in units.items() if name not in together]
    codes = {}
    for group in filter(None, (together, *alone)):
        codes |= _compile(group, folder / "together.cu")
    return {name: codes[name] for name in recipes}


@dataclass(frozen=True)
class Unit:
    """What a recipe adds to a source that nvcc compiles for several."""

    namespace: str
    flags: tuple[str, ...]
    """For nvcc, without macros."""
    headers: tuple[str, ...]
    """Those of CUDA and of the language."""
    code: str
    """With the recipe's own headers and macros in it."""


def _unit(namespace, recipe, arch, folder):
    (compilation,) = plan_library(recipe, arch, find_compiler()).compilations
    flags = list(compilation.command[1 : compilation.command.index("-MMD")])
    own = [flag for flag in flags if flag.startswith(("-I", "-D"))]
    texts = "".join(file.read_text("utf-8") for file in watched_files(recipe))
    headers = tuple(name for name in SYSTEM_HEADER.findall(texts) if not _found(name, own))
    empty = folder / "empty"
    for header in headers:
        (empty / header).parent.mkdir(parents=True, exist_ok=True)
        (empty / header).touch()
    own += [f"-I{empty}", f"-D__CUDA_ARCH__={arch.strip('sm_a')}0"]
    command = ["g++", "-E", "-P", "-x", "c++", "-nostdinc", *own, str(compilation.source)]
    code = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    kept = [flag for flag in flags if flag != "-c" and not flag.startswith("-D")]
    return Unit(namespace, (compilation.command[0], *kept), headers, code.replace('extern "C"', ""))


def _found(header, flags):
    return any((Path(flag[2:]) / header).exists() for flag in flags if flag.startswith("-I"))


def _compile(units, source):
    (flags,) = {unit.flags for unit in units.values()}
    headers = dict.fromkeys(header for unit in units.values() for header in unit.headers)
    lines = [f"#include <{header}>" for header in headers]
    lines += [f"namespace {unit.namespace} {{\n{unit.code}\n}}" for unit in units.values()]
    source.write_text("\n".join(lines))
    cubin = source.with_suffix(".cubin")
    command = [*flags, "-cubin", str(source), "-o", str(cubin)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    facts = parse_ptxas_log(done.stderr)
    with cubin.open("rb") as stream:
        texts = {
            section.name: section.data()
            for section in ELFFile(stream).iter_sections()
            if section.name.startswith(".text.")
        }
    return {name: _device_code(unit.namespace, texts, facts) for name, unit in units.items()}


def _device_code(namespace, texts, facts):
    text = b"".join(data for name, data in texts.items() if namespace in name)
    assert text
    kernels = tuple(kernel for kernel in facts if namespace in kernel.name)
    return DeviceCode(hashlib.sha256(text).hexdigest(), len(text), kernels)
