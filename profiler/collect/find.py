"""Finding the program of a tool: a variable of ours, PATH, then NVIDIA's install folders."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from profiler.errors import EnvironmentUnusable


@dataclass(frozen=True)
class Installed:
    """Where a tool of NVIDIA's may lie, and how to get it."""

    program: str
    """Name on PATH."""
    title: str
    variable: str
    """Environment variable that names the program to take."""
    folders: Sequence[str]
    """Patterns below the root, best first."""
    install: str
    """How to install it, as the beginning of a sentence."""


def find_tool(tool: Installed, environ: Mapping[str, str] | None, root: Path) -> Path:
    """Path of a tool: its variable, then PATH, then its folders, in each the newest first.

    Raises EnvironmentUnusable where there is none, or where the variable names no program.
    """
    environ = os.environ if environ is None else environ
    configured = environ.get(tool.variable)
    if configured:
        if shutil.which(configured) is None:
            raise EnvironmentUnusable(
                f"{tool.variable}={configured} is not a program that can be run.",
                remedy=f"Set {tool.variable} to the path of {tool.program}, or unset it.",
            )
        return Path(configured)
    on_path = shutil.which(tool.program, path=environ.get("PATH", os.defpath))
    if on_path:
        return Path(on_path)
    for pattern in tool.folders:
        for candidate in sorted(root.glob(pattern), key=_numbers, reverse=True):
            if os.access(candidate, os.X_OK) and candidate.is_file():
                return candidate
    raise EnvironmentUnusable(
        f"{tool.title} ({tool.program}) was not found.",
        remedy=f"{tool.install}, put it on PATH, or set {tool.variable} to its path.",
    )


def _numbers(path: Path) -> tuple[int, ...]:
    """Numbers of a path, so that 2025.10 sorts above 2025.9."""
    return tuple(int(number) for number in re.findall(r"\d+", str(path)))
