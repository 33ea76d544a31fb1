"""Finds parameters of variants that change no program: a macro that nothing reads, say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from profiler.model import BuildResult, Variant


def without_effect(variants: Sequence[Variant], builds: Sequence[BuildResult]) -> tuple[str, ...]:
    """A sentence for each parameter whose values all give the same program.

    Judged are variants that differ in it alone, have its machine code read, and were built.
    """
    programs = {build.variant: build.program for build in builds if build.program is not None}
    built = [variant for variant in variants if variant.id in programs]
    names = dict.fromkeys(name for variant in built for name in variant.params)
    return tuple(
        f"The parameter '{name}' changes no program: variants that differ in it alone have the "
        "same machine code and the same launch."
        for name in names
        if (counts := list(_program_counts(name, built, programs))) and set(counts) == {1}
    )


def _program_counts(
    name: str, variants: Sequence[Variant], programs: dict[str, str]
) -> Iterator[int]:
    """Numbers of distinct programs among variants that differ in one parameter alone."""
    groups: dict[frozenset[tuple[str, str]], list[str]] = {}
    for variant in variants:
        others = {key: value for key, value in variant.params.items() if key != name}
        # By their text: 1, 1.0 and true are different parameters.
        key = frozenset((other, repr(value)) for other, value in others.items())
        groups.setdefault(key, []).append(programs[variant.id])
    yield from (len(set(group)) for group in groups.values() if len(group) > 1)
