"""How a run was made: its machine, stages and sessions; what the builds say, each error once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from profiler.findings.findings import Findings
from profiler.findings.method import made_sessions, run_funnel
from profiler.model import BuildResult, Environment, KernelFacts
from profiler.render.tables.rows import Datum, Row
from profiler.render.words import numbers
from profiler.render.words.names import readable_kernel

ENVIRONMENT_WORDS: Mapping[str, tuple[str, str]] = {
    "gpu": ("GPU", ""),
    "compute_capability": ("Compute capability", ""),
    "gpu_uuid": ("GPU (hash of its UUID)", ""),
    "sm_count": ("SMs", ""),
    "memory_bytes": ("Device memory", "byte"),
    "l2_bytes": ("L2 cache", "byte"),
    "peak_dram_bytes_per_s": ("Peak DRAM bandwidth", "byte/s"),
    "max_sm_clock_mhz": ("Highest SM clock", "MHz"),
    "max_memory_clock_mhz": ("Highest memory clock", "MHz"),
    "clock_control": ("Clock control", ""),
    "cache_control": ("Cache control", ""),
    "driver": ("Driver", ""),
    "cuda_driver": ("CUDA of the driver", ""),
    "nvcc": ("nvcc", ""),
    "ncu": ("ncu", ""),
    "torch": ("torch", ""),
    "python": ("Python", ""),
    "cpu": ("CPU", ""),
    "profiler_version": ("Profiler", ""),
    "git_commit": ("Commit", ""),
}
"""By field: its heading, and the unit of its number."""


def method(findings: Findings) -> dict[str, Any]:
    """Parts of the last section; what was not recorded is left out, never guessed."""
    report, sessions = findings.report, [*made_sessions(findings.report)]
    session_names = {session.name for session in sessions}
    commands, stages = report.execution.commands, report.execution.stages
    return {
        "environment": tuple(_environment(report.environment)),
        "funnel": run_funnel(report),
        "sessions": sessions,
        "other_commands": [item for item in commands.items() if item[0] not in session_names],
        "stages": [(name, numbers.seconds(value)) for name, value in stages.items()],
        "glossary": findings.numbers.metrics,
    }


def _environment(environment: Environment) -> Iterator[tuple[str, str]]:
    for name, (heading, unit) in ENVIRONMENT_WORDS.items():
        value = getattr(environment, name)
        if value is None:
            continue
        text = numbers.show(float(value), unit) if unit else str(value)
        if name == "git_commit" and environment.git_dirty:
            text += " with uncommitted changes"
        yield heading, text


# ---- builds --------------------------------------------------------------------------------------

BUILD_HEADS = (
    "registers",
    "spill stores (B)",
    "spill loads (B)",
    "stack (B)",
    "static shared (B)",
    "constant (B)",
)


def builds_of(findings: Findings) -> dict[str, Any]:
    """Messages of the builds, in their order; the same machine code once, and so equal messages.

    `with_facts`: variants with kernels, of each the static facts for `BUILD_HEADS`; `without`:
    names of the others by the state of their build.
    """
    programs = findings.programs
    distinct = [build for build in findings.report.builds if not build.duplicate_of]
    names = programs.labels
    without: dict[str, list[str]] = {}
    for build in distinct:
        if not build.kernels:
            name = names.get(build.variant, build.variant)
            without.setdefault(build_state(build, names), []).append(name)
    return {
        "heads": BUILD_HEADS,
        "with_facts": [
            {
                "variant": names.get(build.variant, build.variant),
                "mark": programs.marks.get(build.variant, -1),
                "state": build_state(build, names),
                "kernels": list(map(_built_kernel, build.kernels)),
            }
            for build in distinct
            if build.kernels
        ],
        "without": without,
        "failed": build_failures(distinct, names),
    }


def _built_kernel(kernel: KernelFacts) -> Row:
    return Row(readable_kernel(kernel.name), tuple(map(_fact, kernel_facts(kernel))))


def kernel_facts(kernel: KernelFacts) -> tuple[int | None, ...]:
    """Static facts of a kernel for `BUILD_HEADS`."""
    return (
        kernel.registers,
        kernel.spill_store_bytes,
        kernel.spill_load_bytes,
        kernel.stack_bytes,
        kernel.shared_bytes,
        kernel.constant_bytes,
    )


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


def build_failures(
    builds: Iterable[BuildResult], names: Mapping[str, str]
) -> list[tuple[list[str], str, str]]:
    """Errors of the compiler in the order of the builds, equal messages once.

    Of each the variants that have it, these as `tiled` or `in 5 variants (tiled, padded, …)`, and
    the error of the first of them: lines that quote the source may differ by its macros. `names`:
    of variants, by id.
    """
    errors: dict[tuple[str, ...], str] = {}
    variants: dict[tuple[str, ...], list[str]] = {}
    for build in builds:
        if not build.ok:
            message = compiler_message(build.error)
            errors.setdefault(message, build.error.strip())
            variants.setdefault(message, []).append(names.get(build.variant, build.variant))
    return [
        (of_error, f"{'in ' * (len(of_error) > 1)}{variants_text(of_error)}", errors[message])
        for message, of_error in variants.items()
    ]


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
