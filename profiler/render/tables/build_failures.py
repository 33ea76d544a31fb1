"""Failed builds by what the compiler says: variants of one source often share an error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from profiler.model import BuildResult

_MOST_NAMES = 3
_ERROR = re.compile(r"\berror\b", re.IGNORECASE)


@dataclass(frozen=True)
class BuildFailure:
    """One error of the compiler, and the names of the variants that have it."""

    variants: tuple[str, ...]
    error: str
    """Of the first of them; lines that quote the source may differ by its macros."""

    @property
    def where(self) -> str:
        """`tiled`, or `in 5 variants (tiled, padded, wide, …)`."""
        return ("in " if len(self.variants) > 1 else "") + variants_text(self.variants)


def build_failures(
    builds: Iterable[BuildResult], names: Mapping[str, str]
) -> tuple[BuildFailure, ...]:
    """Failures in the order of the builds, equal messages once; `names`: of variants, by id."""
    errors: dict[tuple[str, ...], str] = {}
    variants: dict[tuple[str, ...], list[str]] = {}
    for build in builds:
        if not build.ok:
            message = compiler_message(build.error)
            errors.setdefault(message, build.error.strip())
            variants.setdefault(message, []).append(names.get(build.variant, build.variant))
    return tuple(BuildFailure(tuple(variants[key]), text) for key, text in errors.items())


def compiler_message(error: str) -> tuple[str, ...]:
    """Lines that name errors; all lines where none does.

    Lines between them quote the source with its macros and template arguments filled in.
    """
    lines = tuple(line.strip() for line in error.splitlines() if line.strip())
    return tuple(line for line in lines if _ERROR.search(line)) or lines


def variants_text(names: Sequence[str]) -> str:
    """A variant's name, or how many there are with the first of their names."""
    if len(names) == 1:
        return names[0]
    more = ", …" if len(names) > _MOST_NAMES else ""
    return f"{len(names)} variants ({', '.join(names[:_MOST_NAMES])}{more})"
