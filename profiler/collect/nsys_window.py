"""Which part of a program nsys records."""

from __future__ import annotations

from dataclasses import dataclass

from profiler.errors import UsageError


@dataclass(frozen=True)
class NvtxWindow:
    """Recording begins and ends with the first range of that name, so warm-up is left out."""

    name: str
    domain: str = ""
    """Empty for the default domain."""

    def __post_init__(self) -> None:
        for part in (self.name, self.domain):
            if "@" in part or "\\" in part:
                raise UsageError(
                    f"nsys cannot capture by {part!r}: the name holds an @ or a backslash.",
                    remedy="Name the range with [A-Za-z0-9_.=-] only.",
                )


@dataclass(frozen=True)
class ProfilerApiWindow:
    """Recording begins with cudaProfilerStart and ends with cudaProfilerStop."""


Window = NvtxWindow | ProfilerApiWindow
