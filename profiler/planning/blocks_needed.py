"""How many blocks a verdict needs: the smallest p value of few blocks may decide nothing.

The p value of a signed-rank test on n blocks is at least 2^-n, that of all blocks on one side. Of
several comparisons that are judged together it is adjusted for their number where no other pair
differs (Benjamini and Hochberg), and each look has its part of the errors allowed.
"""

from __future__ import annotations

import itertools
from collections import Counter

from profiler.model import ALPHA, FEWEST_BLOCKS, Plan
from profiler.notices import Notice, NoticeKind


def smallest_p_value(blocks: int, comparisons: int = 1) -> float:
    """Smallest adjusted p value of the one pair that differs, of those that are judged together."""
    return min(1.0, comparisons * 0.5**blocks)


def can_decide(blocks: int, comparisons: int = 1, looks: int = 1) -> bool:
    """Whether signed ranks of so many blocks can show the one pair that differs."""
    p_value = smallest_p_value(blocks, comparisons)
    return blocks >= FEWEST_BLOCKS and p_value < ALPHA / looks / 2


def blocks_needed(comparisons: int, looks: int = 1) -> int:
    """Fewest blocks whose signed ranks can show the one pair that differs."""
    return next(n for n in itertools.count(FEWEST_BLOCKS) if can_decide(n, comparisons, looks))


def few_blocks_notice(plan: Plan) -> Notice | None:
    """Notice that the blocks of a plan cannot show a single difference; None where they can.

    A problem's comparisons are those of its variants with the baseline; the problem that has most
    counts. What a search will compare is not known before.
    """
    if plan.baseline is None or not plan.looks or plan.search is not None:
        return None
    comparisons = max(Counter(cell.problem.id for cell in plan.cells).values(), default=0) - 1
    blocks, looks = plan.looks[-1], len(plan.looks)
    if comparisons < 1 or can_decide(blocks, comparisons, looks):
        return None
    needed = blocks_needed(comparisons, looks)
    if blocks < FEWEST_BLOCKS:
        return Notice(NoticeKind.FEW_BLOCKS, {"blocks": blocks, "needed": needed})
    return Notice(
        NoticeKind.FEW_BLOCKS_FOR_FAMILY,
        {
            "blocks": blocks,
            "comparisons": comparisons,
            "smallest": f"{smallest_p_value(blocks, comparisons):.2g}",
            "looks_ask": "one look asks" if looks == 1 else f"{looks} looks ask",
            "level": f"{ALPHA / looks / 2:.2g}",
            "needed": needed,
        },
    )
