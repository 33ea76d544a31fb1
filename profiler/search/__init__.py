"""Searches of spaces of configurations that are too large to measure whole.

Names of strategies stand here, where experiment files and flags are checked by them: the strategies
themselves import SciPy, which no command needs before it measures.
"""

from __future__ import annotations

from collections.abc import Mapping

DEFAULT_STRATEGY = "portfolio"
REMOVED_STRATEGIES: Mapping[object, str] = {
    name: f"{name} was removed: use {DEFAULT_STRATEGY}, which needs fewer evaluations"
    for name in ("tpe", "local")
}
"""What to use instead, by the name of a strategy that older experiment files ask for."""
