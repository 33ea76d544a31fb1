"""Whether the kernels of an attempt are those of its variants: asked once, of the live space."""

from __future__ import annotations

from collections.abc import Mapping

from profiler.model import Cell, Plan
from profiler.planning.space import Space
from profiler.run_folder.folder import KernelCheck
from profiler.run_folder.load.attempts import Loaded


def check_kernels(loaded: Loaded, plan: Plan, space: Space) -> KernelCheck:
    """What the space says of the kernels of an attempt, added to what it said before.

    Cells that are not planned today, or whose key has changed, stay undecided: nothing is known of
    their parameters. Raises SpecError where the space's own function fails.
    """
    earlier = loaded.attempt.kernel_check
    open_cells = set(loaded.attempt.record.keys) if earlier is None else set(earlier.undecided)
    planned = {cell.id: cell for cell in plan.cells if cell.id in loaded.current & open_cells}
    kernels = {cell: lists for cell, lists in loaded.kernels().items() if cell in planned}
    fell_back = _fell_back(planned, kernels, space)
    return KernelCheck(
        {**(earlier.fell_back if earlier is not None else {}), **fell_back},
        tuple(sorted(open_cells - planned.keys())),
    )


def _fell_back(
    planned: Mapping[str, Cell],
    kernels: Mapping[str, tuple[tuple[str, ...], ...]],
    space: Space,
) -> dict[str, str]:
    """The first reason that the space gives, by cell id."""
    reasons: dict[str, str] = {}
    for cell, lists in kernels.items():
        variant, problem = planned[cell].variant.params, planned[cell].problem.params
        for names in lists:
            reason = space.check_kernels(variant, problem, names)
            if reason is not None:
                reasons.setdefault(cell, reason)
    return reasons
