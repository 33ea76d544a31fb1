"""Paths of NVIDIA's tools, and of the program that a command line names."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from profiler.errors import EnvironmentUnusable, SpecError, nearest_file


@dataclass(frozen=True)
class Installed:
    """Places where a tool of NVIDIA's may be installed, its versions, and how to get it."""

    program: str
    """Name on PATH."""
    title: str
    variable: str
    """Environment variable that names the program."""
    folders: Sequence[str]
    """Patterns below the root, best first."""
    install: str
    """How to install the tool, as the beginning of a sentence."""
    version: re.Pattern[str]
    """Pattern of the version in the output of `--version`."""
    without_version: str
    """Remedy where the program prints no version."""
    minimum: tuple[int, int]
    needs: str
    """Features that older versions lack: the end of a sentence."""
    newer: str
    """How to get a newer version."""

    def read_version(self, printed: str) -> str:
        """Version (`2025.3.1.0`) in the output of `--version`; raises EnvironmentUnusable."""
        match = self.version.search(printed)
        if match is None:
            raise EnvironmentUnusable(
                f"{self.program} --version printed no version: {printed.strip()[:300]}",
                remedy=self.without_version,
            )
        return match[1]

    def require_version(self, version: str) -> None:
        """Raise EnvironmentUnusable where a version is older than `minimum`."""
        if tuple(int(part) for part in version.split(".")[:2]) < self.minimum:
            raise self.too_old(f"{self.program} {version} is too old")

    def too_old(self, message: str) -> EnvironmentUnusable:
        """Error of a version that lacks a needed feature."""
        minimum = ".".join(map(str, self.minimum))
        return EnvironmentUnusable(
            f"{message}: {minimum} or newer is needed{self.needs}", remedy=self.newer
        )


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


def find_program(argv: Sequence[str], folder: Path) -> Path:
    """Path of the program of a command line: on PATH, or relative to `folder`."""
    name = argv[0]
    candidate = str(folder / name) if "/" in name else name
    path = shutil.which(candidate)
    if path is None:
        if "=" in name:
            raise SpecError(
                f"command: {name!r} is no program",
                remedy="Variables are set by `env`: " + f"`env {name} …`.",
            )
        place = f" in {folder}{_nearest_program(Path(candidate))}" if "/" in name else " on PATH"
        raise SpecError(
            f"command: no program {name!r} that can be run{place}",
            remedy="Build it first, or give its path relative to the experiment file.",
        )
    _require_interpreter(name, Path(path))
    return Path(path)


_LONGEST_FIRST_LINE = 256
"""Bytes of the first line that the system reads (`BINPRM_BUF_SIZE` of Linux)."""


def _require_interpreter(name: str, path: Path) -> None:
    """Raise SpecError for a script whose interpreter is not there.

    The system says only that there is no such file, and means the interpreter.
    """
    try:
        with path.open("rb") as stream:
            first_line = stream.readline(_LONGEST_FIRST_LINE)
    except OSError:  # a program may be run that cannot be read
        return
    command = first_line.removeprefix(b"#!").split(maxsplit=1)
    if not first_line.startswith(b"#!") or not command:
        return
    if first_line.endswith(b"\r\n"):
        raise SpecError(
            f"command: the first line of the script {name!r} ends in a carriage return, which the "
            "system takes for a part of the interpreter's name",
            remedy="Save the script with the line ends of Unix (LF): "
            f"sed -i 's/\\r$//' {shlex.quote(name)}",
        )
    interpreter = os.fsdecode(command[0])
    if interpreter.startswith("/") and not Path(interpreter).exists():
        raise SpecError(
            f"command: the first line of the script {name!r} names {interpreter}, which is not "
            "there",
            remedy="Install it, or write the path of the interpreter in the first line.",
        )


def _nearest_program(path: Path) -> str:
    """Hint that a file is not executable, or at the nearest executable file; else empty."""
    if path.is_file():
        return ": it is not executable (chmod +x)"
    hint = nearest_file(path)
    nearest = Path(hint.partition("'")[2].rpartition("'")[0])
    return hint if hint and os.access(nearest, os.X_OK) else ""
