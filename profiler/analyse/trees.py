"""Trees of ranges: sums over descendants, lowest common ancestors.

No function makes a pair for each node and ancestor: ranges can be nested by the thousand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

NONE = -1
"""No node: the parent of the nodes at the top."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tree:
    """Nodes as numbers, parents before their children."""

    parents: Integers
    depths: Integers
    """From 1."""

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def levels(self) -> tuple[Integers, ...]:
        """Nodes of each depth, in their order."""
        order = np.argsort(self.depths, kind="stable")
        deepest = int(self.depths.max(initial=0))
        starts = np.searchsorted(self.depths[order], np.arange(2, deepest + 1))
        return tuple(np.split(order, starts)) if deepest else ()

    def with_descendants(self, values: Integers, combine: np.ufunc) -> Integers:
        """Value of each node combined with those of all its descendants."""
        result = values.copy()
        for level in self.levels[:0:-1]:
            combine.at(result, self.parents[level], result[level])
        return result

    def common_ancestors(self, first: Integers, second: Integers) -> Integers:
        """Lowest common ancestor of both nodes of each pair; -1 where there is none."""
        parents, depths = np.append(self.parents, NONE), np.append(self.depths, 0)
        first, second = first.copy(), second.copy()
        while (apart := np.flatnonzero(first != second)).size:
            ones, others = first[apart], second[apart]
            first[apart] = np.where(depths[ones] >= depths[others], parents[ones], ones)
            second[apart] = np.where(depths[others] >= depths[ones], parents[others], others)
        return first
