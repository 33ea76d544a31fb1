"""Questions of an experiment: they decide which cells later looks and the final measure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from enum import StrEnum

from profiler.model import Variant


class Question(StrEnum):
    """One question that `questions` of a spec may name."""

    BEST = "best"
    """Which variant is the best at each problem, and whether it differs from the baseline."""
    BASELINE = "baseline"
    """Which other variants differ from the baseline."""
    STEPS = "steps"
    """Whether each variant differs from the one before it."""
    EFFECTS = "effects"
    """Whether variants that differ in one parameter differ in duration."""


def pairs_asked(
    variants: Sequence[Variant], questions: Sequence[Question], parameters: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """Pairs of variant ids that `steps` and `effects` compare, the later one first.

    `variants` without baseline and references; `parameters`: those whose effects are asked for,
    all where there are none.
    """
    pairs: list[tuple[str, str]] = []
    if Question.STEPS in questions:
        pairs += [(later.id, earlier.id) for earlier, later in itertools.pairwise(variants)]
    if Question.EFFECTS in questions:
        pairs += _effect_pairs(variants, parameters)
    return tuple(dict.fromkeys(pairs))


def _effect_pairs(variants: Sequence[Variant], parameters: Sequence[str]) -> list[tuple[str, str]]:
    from profiler.analyse.effects import steps  # noqa: PLC0415 - brings SciPy, which takes long

    made = steps(variants, parameters or None)
    return [(after.id, before.id) for step in made for before, after in step.pairs]
