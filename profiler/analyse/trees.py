"""Trees in which much lies in each other: sums over what is inside, nodes around two nodes.

Nothing here makes a pair for each node and a node around it: ranges can be nested by the thousand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

NONE = -1
"""No node: what lies at the top has it as its parent."""

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

    def with_inner(self, values: Integers, combine: np.ufunc) -> Integers:
        """Value of each node combined with those of all nodes inside it."""
        result = values.copy()
        for level in self.levels[:0:-1]:
            combine.at(result, self.parents[level], result[level])
        return result

    @cached_property
    def places(self) -> Integers:
        """Place of each node in an order in which all that is inside a node follows it."""
        sizes = self.with_inner(np.ones(len(self), np.int64), np.add).tolist()
        places: list[int] = []
        free = [0] * (len(self) + 1)  # next place inside each node; the last: at the top
        for node, parent in enumerate(self.parents.tolist()):
            places.append(free[parent])
            free[node] = free[parent] + 1
            free[parent] += sizes[node]
        return np.array(places, dtype=np.int64)

    def common(self, left: Integers, right: Integers) -> Integers:
        """Innermost node at or around both nodes of each pair; -1 where there is none."""
        parents, depths = np.append(self.parents, NONE), np.append(self.depths, 0)
        jumps = self._jumps
        while (depths[left] != depths[right]).any():
            left, right = (
                _raised(left, depths[right], parents, jumps, depths),
                _raised(right, depths[left], parents, jumps, depths),
            )
        while (left != right).any():
            beyond = jumps[left] == jumps[right]
            differ = left != right
            left, right = (
                np.where(differ, np.where(beyond, parents[side], jumps[side]), side)
                for side in (left, right)
            )
        return left

    @cached_property
    def _jumps(self) -> Integers:
        """A node around each node, so that any is reached in steps as many as its depth has digits.

        Skew-binary jump pointers (Myers 1983). The last one is that of no node.
        """
        jumps, depths = [NONE] * (len(self) + 1), [*self.depths.tolist(), 0]
        for node, parent in enumerate(self.parents.tolist()):
            first = jumps[parent]
            second = jumps[first]
            same_step = depths[parent] - depths[first] == depths[first] - depths[second]
            jumps[node] = second if same_step else parent
        return np.array(jumps, dtype=np.int64)


def _raised(
    nodes: Integers, depth: Integers, parents: Integers, jumps: Integers, depths: Integers
) -> Integers:
    """Nodes that lie deeper than `depth`, one step further out; the others as they are."""
    jumped = jumps[nodes]
    raised = np.where(depths[jumped] >= depth, jumped, parents[nodes])
    return np.where(depths[nodes] > depth, raised, nodes)
