"""Tables for the terminal: each function takes data and gives something that rich can print.

Names of kernels and variants are shown as they are: rich's markup is never read from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from profiler.findings.findings import Findings
from profiler.model import BuildResult, KernelFacts, Variant
from profiler.outside_text import safe
from profiler.render.console.run import run_tables
from profiler.render.console.terminal import LONGEST_KERNEL, Paragraph, TextTable
from profiler.render.searches import search_summary
from profiler.render.tables.method import build_failures, build_state, kernel_facts
from profiler.render.tables.rows import PAGE_ONLY, SmallTable
from profiler.render.words import numbers
from profiler.render.words.answer import answer_of
from profiler.render.words.cards import first_answer
from profiler.render.words.names import readable_kernel, shorten
from profiler.render.words.sentences import Sentence, spoken

_BUILD_FACTS = 5
"""Static facts of a kernel that a terminal has columns for."""


def final_summary(findings: Findings, *, verbose: bool = False) -> RenderableType:
    """Sum up a run: the answer, one table and what failed; `verbose`: all sentences and tables."""
    more = [" ".join(map(spoken, answer_of(findings)))] if verbose else []
    if findings.search is not None and verbose:
        more.append(search_summary(findings.search))
    return Group(
        answer_lines(first_answer(findings)),
        *(Group(Paragraph(text), Text()) for text in more),
        *run_tables(findings, verbose=verbose),
    )


def build_table(builds: Sequence[BuildResult], variants: Sequence[Variant]) -> RenderableType:
    """Show the static facts of every kernel, and each error of the compiler once."""
    names = {variant.id: variant.name for variant in variants}
    table = TextTable("Build")
    table.add_columns("variant", name=True)
    table.add_columns("registers", right=True)
    table.add_columns("spill stores", "spill loads", right=True, drop=2)
    table.add_columns("stack", "shared", right=True, drop=3)
    table.add_columns("kernel", drop=1)
    table.add_columns("state")
    for build in builds:
        for row, kernel in enumerate(build.kernels or (KernelFacts(""),)):
            table.add_row(
                names.get(build.variant, build.variant) if row == 0 else "",
                *(
                    numbers.MISSING if fact is None else str(fact)
                    for fact in kernel_facts(kernel)[:_BUILD_FACTS]
                ),
                readable_kernel(kernel.name),
                Text(build_state(build, names), style="" if build.ok else "red")
                if row == 0
                else Text(),
            )
    errors = [
        Text(f"{where}: {error}", style="red") for _, where, error in build_failures(builds, names)
    ]
    return Group(table, *errors)


# ---- what takes most time in a trace -------------------------------------------------------------


_MOST_RANKS = 20
_REST = ", which take less time"
_WHAT_NEXT = (
    "profiler capture TRACE -o FOLDER says which of these can be made again from a trace of "
    "torch.profiler with record_shapes=True, and makes an experiment of them. profiler capture "
    "-o FOLDER -- python PROGRAM records all operators that launch these, as they are called."
)


def ranks_table(file: str, ranks: pd.DataFrame) -> tuple[RenderableType, ...]:
    """Table of the first rows of `ranked_work`, and how much a live capture would record."""
    table = TextTable(f"{file}: what takes most time")
    table.add_columns("name", name=True)
    table.add_columns("live capture")
    table.add_columns("calls", "time", "share", right=True)
    for row in ranks.head(_MOST_RANKS).to_dict("records"):
        name, capture = shorten(str(row["name"]), LONGEST_KERNEL), row["capture"]
        share = f"{100 * row['share']:.1f}\u202f%"
        table.add_row(name, capture, str(row["calls"]), numbers.show(row["total_ns"], "ns"), share)
    table.add_rest_caption(max(0, len(ranks) - _MOST_RANKS), "kernel", _REST)
    return table, Paragraph(_WHAT_NEXT)


# ---- answers -------------------------------------------------------------------------------------


def answer_lines(sentences: Sequence[Sentence]) -> RenderableType:
    """A sentence, a line for each of those that say more of it, and an empty line.

    Nothing where there is no such sentence.
    """
    first, *lines = sentences
    if not first:
        return Group()
    below = (Paragraph(_with_strong_parts(line), indent="  ") for line in lines)
    return Group(Paragraph(spoken(first), "bold"), *below, Text())


def _with_strong_parts(sentence: Sentence) -> Text:
    return Text.assemble(*((safe(part.text), "bold" if part.strong else "") for part in sentence))


# ---- small tables of pages, with names as long as there is room ----------------------------------


_MOST_LINES = 20
_INDENT = "  "
_SHORT = 20
"""Characters of texts that are not broken into lines."""
_STYLES = {"outcome bad": "yellow", "outcome good": "blue"}
"""By the class that a value has on a page."""


@dataclass(frozen=True, eq=False)
class SmallTextTable:
    """The first rows of a table; the page has all for which it has room.

    Long names are cut in their middle where the terminal has no room for them.
    """

    table: SmallTable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Give the table at the width of the console."""
        width = options.max_width
        longest = max(LONGEST_KERNEL, self._cut_at(LONGEST_KERNEL).room_for_first(width))
        # Names that would be cut to the same text stay whole, and make room for others.
        yield self._cut_at(max(longest, self._cut_at(longest).first_width(width)))

    def _cut_at(self, longest: int) -> TextTable:
        """The table with names of at most so many characters where these differ."""
        table = self.table
        rows = table.lines[:_MOST_LINES]
        printed = TextTable(table.caption)
        printed.add_columns(table.first, name=True)
        numbered, places = 0, []
        for place, column in enumerate(table.columns):
            # Texts in front of all numbers tell rows apart, as their names do.
            usual = min(numbered, 1) if column.is_text else numbered
            drop = usual if column.drop is None else column.drop
            if drop != PAGE_ONLY:
                places.append(place)
                is_short = all(len(row.data[place].text) <= _SHORT for row in rows)
                printed.add_columns(
                    column.head, right=not column.is_text, fixed=is_short, drop=drop
                )
                numbered += not column.is_text
        names = _cut_names([row.name for row in rows], longest)
        for row in rows:
            data = (row.data[place] for place in places)
            cells = (Text(safe(datum.text), style=_STYLES.get(datum.css, "")) for datum in data)
            printed.add_row(_INDENT * row.depth + names[row.name], *cells)
        printed.add_rest_caption(len(table.lines) - len(rows) + table.left_out, "row")
        return printed


def _cut_names(names: Sequence[str], longest: int) -> dict[str, str]:
    """Names, shortened where no two of them become the same."""
    short = {name: shorten(name, longest) for name in names}
    counts = Counter(short.values())
    return {name: text if counts[text] == 1 else name for name, text in short.items()}
