"""What the builds say: static facts of the kernels, and each error of the compiler once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from profiler.findings.findings import Findings, Programs
from profiler.model import BuildResult, KernelFacts
from profiler.render.tables.rows import Datum, Row
from profiler.render.words import numbers
from profiler.render.words.names import readable_kernel


@dataclass(frozen=True)
class VariantBuild:
    """What the build says of one variant."""

    variant: str
    mark: int
    state: str
    kernels: tuple[Row, ...]
    """Static facts of each, for `BUILD_HEADS`."""


@dataclass(frozen=True)
class Builds:
    """What the build says of all variants."""

    with_facts: tuple[VariantBuild, ...]
    """Variants with kernels, in the order of the builds."""
    without: tuple[tuple[str, tuple[str, ...]], ...]
    """Names of the variants without any, by the state of their build."""
    failed: tuple[BuildFailure, ...]
    """Equal messages of the compiler once."""


BUILD_HEADS = (
    "registers",
    "spill stores (B)",
    "spill loads (B)",
    "stack (B)",
    "static shared (B)",
    "constant (B)",
)


def builds_of(findings: Findings) -> Builds:
    """Static facts by variant, in the order of the builds; the same machine code once."""
    distinct = [build for build in findings.report.builds if not build.duplicate_of]
    builds = [_variant_build(findings.programs, build) for build in distinct]
    without: dict[str, list[str]] = {}
    for build in builds:
        if not build.kernels:
            without.setdefault(build.state, []).append(build.variant)
    return Builds(
        with_facts=tuple(build for build in builds if build.kernels),
        without=tuple((state, tuple(names)) for state, names in without.items()),
        failed=build_failures(distinct, {v.id: v.label for v in findings.programs.variants}),
    )


def _variant_build(programs: Programs, build: BuildResult) -> VariantBuild:
    names = {variant.id: variant.label for variant in programs.variants}
    return VariantBuild(
        variant=names.get(build.variant, build.variant),
        mark=programs.marks.get(build.variant, -1),
        state=build_state(build, names),
        kernels=tuple(_built_kernel(kernel) for kernel in build.kernels),
    )


def _built_kernel(kernel: KernelFacts) -> Row:
    facts = (
        kernel.registers,
        kernel.spill_store_bytes,
        kernel.spill_load_bytes,
        kernel.stack_bytes,
        kernel.shared_bytes,
        kernel.constant_bytes,
    )
    return Row(readable_kernel(kernel.name), tuple(map(_fact, facts)))


def _fact(fact: int | None) -> Datum:
    if fact is None:
        return Datum(title="ptxas did not say", css="none")
    return Datum(numbers.show(fact), str(fact))


def build_state(build: BuildResult, names: Mapping[str, str]) -> str:
    """State of the build of a variant; `names` gives the variants' names by id."""
    if not build.ok:
        return "compile failed"
    if build.duplicate_of:
        return f"same machine code as {names.get(build.duplicate_of, build.duplicate_of)}"
    if build.library is None and build.recipe_hash is None:
        return "no build step"
    return "from the cache" if build.cached else "built"


# ---- failures ------------------------------------------------------------------------------------


_MOST_NAMES = 3
_ERROR = re.compile(r"\berror\b", re.IGNORECASE)


@dataclass(frozen=True)
class BuildFailure:
    """One error of the compiler, and the names of the variants that have it."""

    variants: tuple[str, ...]
    error: str
    """Error of the first of these builds; lines that quote the source may differ by its macros."""

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
