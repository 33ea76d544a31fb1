"""Names of strategies that experiment files and flags are checked by.

Apart from the strategies: those import scipy, which no command needs before it measures.
"""

from __future__ import annotations

from collections.abc import Mapping

DEFAULT = "portfolio"
REMOVED: Mapping[object, str] = {
    name: f"{name} was removed: use {DEFAULT}, which needs fewer evaluations"
    for name in ("tpe", "local")
}
"""What to use instead, by the name of a strategy that older experiment files ask for."""
