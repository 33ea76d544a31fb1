"""The launches of an imported file as a table for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

from profiler.metrics.labels import label
from profiler.render.console.terminal import LONGEST_KERNEL, TextTable
from profiler.render.import_page import DURATION, LaunchGroups, spread_words
from profiler.render.words import numbers
from profiler.render.words.names import shorten

_MOST_LAUNCH_GROUPS = 40
_MOST_LAUNCH_COLUMNS = 6


def import_table(groups: LaunchGroups) -> RenderableType:
    """Show imported launches, grouped by kernel, grid and block: medians of each group."""
    return _LaunchTable(_number_of(groups.launches, "launch", "launches"), groups)


def _number_of(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"


@dataclass(frozen=True, eq=False)
class _LaunchTable:
    """Groups of launches, with names of kernels as long as the terminal has room for."""

    title: str
    groups: LaunchGroups

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Give the table at the width of the console."""
        width = options.max_width
        longest = max(LONGEST_KERNEL, self._table(LONGEST_KERNEL).room_for_first(width))
        # Names that would be cut to the same text stay whole, and make room for others.
        yield self._table(max(longest, self._table(longest).first_width(width)))

    def _table(self, longest: int) -> TextTable:
        """The table with names of at most so many characters where these differ."""
        groups = self.groups
        shown = groups.shown[:_MOST_LAUNCH_COLUMNS]
        table = TextTable(f"{self.title} of {_number_of(len(groups), 'kind', 'kinds')}")
        table.add_columns("kernel", name=True)
        if groups.has_ranges:
            table.add_columns("range")
        table.add_columns("grid", "block", fixed=True)
        table.add_columns("launches", right=True, drop=1)
        for place, name in enumerate(shown):
            table.add_columns(label(name).label, right=True, drop=place)
            if name == DURATION and groups.has_spread:
                table.add_columns("from … to", right=True)
        rows = groups.rows[:_MOST_LAUNCH_GROUPS]
        names = _kernel_names([row.kernel for row in rows], longest)
        for row in rows:
            values: list[str] = []
            for name in shown:
                values.append(numbers.show(row.medians.get(name), label(name).unit))
                if name == DURATION and groups.has_spread:
                    values.append(spread_words(row))
            table.add_row(
                names[row.kernel],
                *([row.range] if groups.has_ranges else []),
                row.grid,
                row.block,
                str(row.count),
                *values,
            )
        table.add_rest_caption(len(groups) - _MOST_LAUNCH_GROUPS, "kind")
        return table


def _kernel_names(kernels: Sequence[str], longest: int) -> dict[str, str]:
    """Names of kernels, shortened where no two of them become the same."""
    short = {kernel: shorten(kernel, longest) for kernel in kernels}
    counts = Counter(short.values())
    return {kernel: text if counts[text] == 1 else kernel for kernel, text in short.items()}
