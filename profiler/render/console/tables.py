"""Tables for the terminal: each function takes data and gives something that rich can print.

Names of kernels and variants are shown as they are: rich's markup is never read from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from profiler.findings.findings import Findings
from profiler.metrics.labels import label
from profiler.model import BuildResult, KernelFacts, Variant
from profiler.outside_text import safe
from profiler.render.console.run import run_tables
from profiler.render.console.terminal import Paragraph, TextTable
from profiler.render.import_page import DURATION, LaunchGroups, spread_words
from profiler.render.searches import search_summary
from profiler.render.tables.builds import build_failures, build_state
from profiler.render.words import numbers
from profiler.render.words.answer import answer_of
from profiler.render.words.cards import first_answer
from profiler.render.words.names import readable_kernel, shorten
from profiler.render.words.sentences import Sentence, spoken
from profiler.search.replay import RecordedSpace, ReplaySummary, TargetSummary

_MOST_LAUNCH_GROUPS = 40
_MOST_LAUNCH_COLUMNS = 6
_LONGEST_KERNEL = 60
"""Characters of a kernel's name where the terminal has no room for more."""


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
            name = names.get(build.variant, build.variant) if row == 0 else ""
            table.add_row(
                name,
                *(_fact(fact) for fact in _facts(kernel)),
                readable_kernel(kernel.name),
                _build_state(build, names) if row == 0 else Text(""),
            )
    errors = [
        Text(f"{failure.where}: {failure.error}", style="red")
        for failure in build_failures(builds, names)
    ]
    return Group(table, *errors)


def _facts(kernel: KernelFacts) -> tuple[int | None, ...]:
    return (
        kernel.registers,
        kernel.spill_store_bytes,
        kernel.spill_load_bytes,
        kernel.stack_bytes,
        kernel.shared_bytes,
    )


def _fact(fact: int | None) -> str:
    return numbers.MISSING if fact is None else str(fact)


def _build_state(build: BuildResult, names: Mapping[str, str]) -> Text:
    return Text(build_state(build, names), style="" if build.ok else "red")


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
        longest = max(_LONGEST_KERNEL, self._table(_LONGEST_KERNEL).room_for_first(width))
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
    shown = TextTable(f"{file}: what takes most time")
    shown.add_columns("name", name=True)
    shown.add_columns("live capture")
    shown.add_columns("calls", "time", "share", right=True)
    for row in ranks.head(_MOST_RANKS).to_dict("records"):
        name, capture = shorten(str(row["name"]), _LONGEST_KERNEL), row["capture"]
        share = f"{100 * row['share']:.1f}\u202f%"
        shown.add_row(name, capture, str(row["calls"]), numbers.show(row["total_ns"], "ns"), share)
    shown.add_rest_caption(max(0, len(ranks) - _MOST_RANKS), "kernel", _REST)
    return shown, Paragraph(_WHAT_NEXT)


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


# ---- replays of a search -------------------------------------------------------------------------


def replay_table(summary: ReplaySummary, recorded: RecordedSpace) -> Table:
    """Best so far by number of evaluations: median over the seeds."""
    table = Table(title="Best so far, median over the seeds", title_justify="left")
    table.add_column("evaluations", justify="right")
    table.add_column("best, ms", justify="right")
    table.add_column("of the best of all", justify="right")
    for count, share in summary.best_so_far:
        if share is None:
            table.add_row(str(count), "all failed", "")
        else:
            table.add_row(str(count), f"{recorded.best_ms / share:.4g}", f"{100 * share:.1f} %")
    return table


def replay_lines(
    name: str, strategy: str, recorded: RecordedSpace, summary: ReplaySummary, seeds: int
) -> tuple[str, ...]:
    """Space, evaluations to each share of the best, and what a proposal cost."""
    lines = [
        f"{name}: {len(recorded.space)} configurations, {recorded.failed} of them failed; "
        f"the best takes {recorded.best_ms:.4g} ms."
    ]
    if recorded.unrecorded or recorded.foreign:
        lines.append(
            f"Left out: {recorded.unrecorded} valid configurations without a record, "
            f"{recorded.foreign} records that the space does not have."
        )
    if recorded.recorded_again:
        again = recorded.recorded_again
        lines.append(
            f"{again} {'record is' if again == 1 else 'records are'} of configurations that have "
            "an earlier one: the last of each counts."
        )
    lines += [_target_line(strategy, target, seeds) for target in summary.targets]
    lines.append(
        f"Proposals: {summary.invalid} invalid, {summary.repeated} repeated; "
        f"{summary.median_proposal_ms:.2f} ms each in the median, at most "
        f"{summary.longest_proposal_ms:.1f} ms."
    )
    return tuple(lines)


def _target_line(strategy: str, target: TargetSummary, seeds: int) -> str:
    share = f"{100 * target.share:.0f} % of the best"
    if seeds == 1:
        count = target.median_evaluations
        return (
            f"{strategy} did not reach {share}."
            if count is None
            else f"{strategy} reached {share} after {count:.0f} evaluations."
        )
    median = target.median_evaluations
    words = "fewer than half of them" if median is None else f"{median:g} evaluations in the median"
    return f"{strategy} reached {share} with {target.reached} of {seeds} seeds; {words}."
