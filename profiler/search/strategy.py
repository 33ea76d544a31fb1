"""What every strategy does: it is asked for a configuration, and told what came of it."""

from __future__ import annotations

from typing import Protocol


class Strategy(Protocol):
    """Proposes configurations that are valid and were not proposed before.

    It may be asked several times before it is told anything, and be told of configurations that it
    did not propose: a baseline, or what another strategy or an earlier search measured.
    """

    def ask(self) -> int:
        """The next configuration; there must be an unseen one."""
        ...

    def tell(self, configuration: int, value: float | None) -> None:
        """Take the value of a configuration, smaller is better; None: it failed."""
        ...
