"""The `search` block: how to find the best of a space that is too large to sweep."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainValidator, Strict, WithJsonSchema

from profiler.planning.spec.values import LARGEST_INTEGER, MAX_COUNT, Name, SpecModel, wrong
from profiler.search import REMOVED_STRATEGIES

GEOMEAN, WORST = "geomean", "worst"
"""Objectives over all problems; any other one names a problem."""
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(s|min|h)")
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}
_MAX_SECONDS = 7 * 24 * 3600.0


def duration_seconds(budget: int | str) -> float | None:
    """Seconds of a budget of time; None for one of evaluations."""
    match = _DURATION.fullmatch(budget) if isinstance(budget, str) else None
    return None if match is None else float(match[1]) * _SECONDS[match[2]]


def _check_budget(value: object) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_COUNT:
        return value
    seconds = duration_seconds(value) if isinstance(value, str) else None
    if isinstance(value, str) and seconds is not None and 0 < seconds <= _MAX_SECONDS:
        return value
    raise wrong(
        f"must be a number of evaluations (1 to {MAX_COUNT}) or a time of at most a week "
        f"(90 s, 10 min, 1.5 h), not {value!r}"
    )


def _refuse_removed(strategy: object) -> object:
    if isinstance(strategy, str) and strategy in REMOVED_STRATEGIES:
        raise wrong(REMOVED_STRATEGIES[strategy])
    return strategy


class Search(SpecModel):
    """How a search goes through the variants, and when it ends."""

    strategy: Annotated[
        Literal["portfolio", "model", "random", "exhaustive"], BeforeValidator(_refuse_removed)
    ] = Field(default="portfolio", description="What proposes configurations (docs/search.md).")
    budget: Annotated[
        int | str,
        PlainValidator(_check_budget),
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "integer", "minimum": 1, "maximum": MAX_COUNT},
                    {"type": "string", "pattern": f"^{_DURATION.pattern}$"},
                ]
            }
        ),
    ] = Field(
        default=120,
        description="Number of evaluations, failed ones included; or a time (`10 min`, `90 s`, "
        "`1.5 h`) after which nothing more is proposed.",
    )
    objective: Name = Field(
        default=GEOMEAN,
        description="What is made small: time ÷ time of the baseline, as geometric mean over the "
        "problems (`geomean`), at the problem where it is largest (`worst`), or at the problem of "
        "this name.",
    )
    seed: Annotated[int, Strict(), Field(ge=0, le=LARGEST_INTEGER)] = Field(
        default=1, description="Of the strategy."
    )
