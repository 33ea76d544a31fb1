"""Paths of nvcc and ninja, and the architectures that an nvcc can build for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import ninja

from profiler.errors import EnvironmentUnusable, UsageError
from profiler.kernels.build import Compiler

DEFAULT_TOOLKIT = "/usr/local/cuda"
"""Folder of the toolkit by NVIDIA's installers, which often leave PATH alone."""

_ANSWER_S = 60.0
"""Most seconds for an answer of nvcc."""
_ARCH = re.compile(r"sm_\d{2,3}[af]?")
_NVCC_VARIABLES = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
"""nvcc reads more flags from these; conda, for one, names the host compiler there."""


def find_nvcc(environ: Mapping[str, str] = os.environ) -> Path:
    """Path of nvcc: on PATH, then below CUDA_HOME and CUDA_PATH, then /usr/local/cuda.

    Raises EnvironmentUnusable where it is nowhere.
    """
    roots = [environ.get("CUDA_HOME"), environ.get("CUDA_PATH"), DEFAULT_TOOLKIT]
    candidates = [shutil.which("nvcc", path=environ.get("PATH", os.defpath))]
    candidates += [shutil.which("nvcc", path=str(Path(root) / "bin")) for root in roots if root]
    for candidate in candidates:
        if candidate is not None:
            return Path(candidate)
    raise EnvironmentUnusable(
        "nvcc was not found on PATH, below CUDA_HOME, or in /usr/local/cuda",
        remedy="Install the CUDA toolkit, or put its bin folder on PATH.",
    )


def nvcc_version(nvcc: Path) -> str:
    """Text of `nvcc --version`; raises EnvironmentUnusable where nvcc does not run."""
    return _nvcc_output(nvcc, "--version")


def find_compiler() -> Compiler:
    """Path of nvcc, with its version and flags of the environment; raises EnvironmentUnusable."""
    nvcc = find_nvcc()
    flags = [f"{name}={os.environ[name]}" for name in _NVCC_VARIABLES if os.environ.get(name)]
    return Compiler(nvcc, "\n".join((nvcc_version(nvcc), *flags)))


def check_arch(arch: str, nvcc: Path) -> None:
    """Raise UsageError unless this nvcc builds for `arch` (`sm_90`, `sm_90a`, …)."""
    if _ARCH.fullmatch(arch) is None:
        raise UsageError(f"{arch!r} is no GPU architecture", remedy="Write it like sm_90.")
    supported = _nvcc_output(nvcc, "--list-gpu-code").split()
    # The list leaves out the architecture-specific (a) and family-specific (f) forms.
    if arch.rstrip("af") not in supported:
        raise UsageError(
            f"this nvcc cannot build for {arch}", remedy=f"It builds for: {', '.join(supported)}."
        )


def find_ninja() -> Path:
    """Path of the ninja that the package `ninja` brings; raises EnvironmentUnusable."""
    path = shutil.which("ninja", path=ninja.BIN_DIR or None) or shutil.which("ninja")
    if path is None:
        raise EnvironmentUnusable(
            "the program ninja was not found", remedy="python -m pip install --force ninja"
        )
    return Path(path)


def _nvcc_output(nvcc: Path, option: str) -> str:
    try:
        done = subprocess.run(
            [nvcc, option],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_S,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        output = (error.stderr or error.stdout).strip() or "it printed nothing"
        raise EnvironmentUnusable(
            f"{nvcc} {option} ended with exit code {error.returncode}: {output}",
            remedy="Repair the CUDA toolkit.",
        ) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentUnusable(
            f"{nvcc} {option} failed: {error}", remedy="Repair the CUDA toolkit."
        ) from error
    return done.stdout.strip()
