"""Colours of figures: variables of the page's style sheet, so that they are light and dark with it.

The role of a variant (`Findings.role`) has the same colour and the same marker in every figure.
"""

from __future__ import annotations

from collections.abc import Mapping

INK = "var(--ink)"
MUTED = "var(--muted)"
GRID = "var(--grid)"
BEST = "var(--best)"
BASELINE = "var(--baseline)"
OTHER = "var(--other)"
SERIES = tuple(f"var(--series-{number})" for number in range(1, 5))
HEAT_STEPS = range(-6, 7)
"""Classes of ratios, as the style sheet has them: far less (-6) to far more (6)."""
HEAT: Mapping[int, str] = {step: f"var(--h{step})" for step in HEAT_STEPS}
HEAT_INK: Mapping[int, str] = {step: f"var(--h{step}-ink)" for step in HEAT_STEPS}
"""Colour of text on each class."""

COLOURS = {
    "best": BEST,
    "baseline": BASELINE,
    **{f"series-{number}": colour for number, colour in enumerate(SERIES, start=1)},
}
MARKERS = dict(zip(COLOURS, "os^Dv>", strict=True))
"""Kinds of `drawing.marker` by role."""


def colour_of(role: str) -> str:
    """Colour of a variant by its role; `ink` and `muted` are of no variant."""
    return {"ink": INK, "muted": MUTED}.get(role) or COLOURS.get(role, OTHER)
