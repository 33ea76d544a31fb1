"""Which kernels an attempt launched, and whether they are those of its variants: decided once."""

from __future__ import annotations

from collections.abc import Mapping

from profiler.collect.ncu import RANGE_ROW
from profiler.model import Cell, Plan
from profiler.planning.space import Space
from profiler.run_folder.folder import KERNELS_FILE, KernelCheck
from profiler.run_folder.load.attempts import Loaded


def check_kernels(loaded: Loaded, plan: Plan, space: Space) -> KernelCheck:
    """Checks of the kernels of an attempt by the space, added to the earlier ones.

    Cells that are not planned today, or whose key has changed, stay undecided: nothing is known of
    their parameters. Raises SpecError where the space's own function fails.
    """
    earlier = loaded.attempt.kernel_check
    open_cells = set(loaded.attempt.record.keys) if earlier is None else set(earlier.undecided)
    planned = {cell.id: cell for cell in plan.cells if cell.id in loaded.current & open_cells}
    kernels = {cell: lists for cell, lists in loaded.kernels().items() if cell in planned}
    fell_back = _fell_back(planned, kernels, space)
    # What was said right after the attempt is lost: its CSV may have been damaged as well since.
    late = KERNELS_FILE in loaded.attempt.damaged
    no_kernel = set() if late else loaded.finished_without_kernel() & planned.keys()
    if earlier is None:
        earlier = KernelCheck()
    return KernelCheck(
        fell_back={**earlier.fell_back, **fell_back},
        no_kernel=tuple(sorted({*earlier.no_kernel, *no_kernel})),
        undecided=tuple(sorted(open_cells - planned.keys())),
    )


def _fell_back(
    planned: Mapping[str, Cell],
    kernels: Mapping[str, tuple[tuple[str, ...], ...]],
    space: Space,
) -> dict[str, str]:
    """First reason why the kernels of a cell are not its variant's, by cell id."""
    reasons: dict[str, str] = {}
    for cell, lists in kernels.items():
        variant, problem = planned[cell].variant.params, planned[cell].problem.params
        for names in lists:
            if RANGE_ROW in names:  # of a range that was replayed, ncu names no kernel
                continue
            reason = space.check_kernels(variant, problem, names)
            if reason is not None:
                reasons.setdefault(cell, reason)
    return reasons
