"""Which turns of a portfolio are random; its strategies, which load an optimiser, are elsewhere."""

from __future__ import annotations

EARLY = 9
"""Proposals of the model after the first random one. In spaces with many good configurations they
find one sooner than random ones do; in rough ones they cost nothing that was noticed."""
RANDOM = 20
"""Without the others the model may settle in a part of the space that is not the best one."""
RANDOM_TURNS = (0, *range(1 + EARLY, EARLY + RANDOM))
"""Which proposals no result has a say in."""
