"""What `profiler explain` prints: the answer, the account, the tree; at most 60 lines."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from profiler.findings.findings import Findings
from profiler.findings.why.accounts import Account
from profiler.findings.why.cells import CellWhy, KernelWhy
from profiler.findings.why.pairs import PairWhy
from profiler.model import Cell
from profiler.render.words import numbers
from profiler.render.words.numbers import MINUS
from profiler.render.words.verdicts import word_of
from profiler.render.words.why import (
    WAITS,
    cause_words,
    limit_of_cell,
    part_words,
    roof_words,
    why_sentence,
)

COLUMNS = 100
_BAR = 24
_MOST_PARTS = 9
_MOST_WAITS = 4
_MOST_CAUSES = 4
_MOST_ADVICE = 3


def explain_text(findings: Findings, cell: Cell, why: CellWhy, pair: PairWhy | None) -> str:
    """Text of a cell, and of its difference from another."""
    lines = [*_answer(findings, cell, pair)]
    if pair is not None:
        lines += ["", *_wrapped(why_sentence(pair))]
        if pair.account is not None:
            lines += ["", *_account(pair.account), *_changes(pair)]
    for kernel in why.kernels[:1]:
        lines += ["", f"What limits {cell.variant.name}", *_wrapped(limit_of_cell(why), "  ")]
        lines += [*_tree(kernel)]
    return "\n".join(line[:COLUMNS].rstrip() for line in lines) + "\n"


def _answer(findings: Findings, cell: Cell, pair: PairWhy | None) -> Iterator[str]:
    primary = findings.report.primary
    time = numbers.show(findings.value(cell, primary).median, "ns")
    yield f"{findings.report.experiment}, {cell.problem.name}"
    if pair is None:
        yield f"{cell.variant.name}: {time}"
        return
    verdict = pair.verdict
    other = numbers.show(findings.value(pair.against, primary).median, "ns")
    interval = numbers.interval(verdict.low, verdict.high)
    yield from _wrapped(
        f"{cell.variant.name} {time}, {pair.against.variant.name} {other}: "
        f"{numbers.ratio(verdict.ratio)} {interval}, {word_of(verdict)}"
    )


def _account(account: Account) -> Iterator[str]:
    difference = account.difference_ns
    largest = max(abs(part.ns) for part in account.parts)
    yield "Where the difference is (counters of one launch each)"
    for part in account.parts[:_MOST_PARTS]:
        bar = "█" * max(1, round(_BAR * abs(part.ns) / largest)) if largest else ""
        share = numbers.show(100 * part.ns / difference, "%") if difference else ""
        time = _signed(part.ns)
        yield f"  {time:>10} {share:>8}  {bar:<{_BAR}} {part_words(part)}"
    rest = difference - sum(part.ns for part in account.parts[:_MOST_PARTS])
    if len(account.parts) > _MOST_PARTS:
        count = len(account.parts) - _MOST_PARTS
        yield f"  {_signed(rest):>10} {'':>8}  {'':<{_BAR}} {count} others"
    yield f"  {_signed(difference):>10}           together"


def _signed(ns: float) -> str:
    return f"{'+' if ns >= 0 else MINUS}{numbers.show(abs(ns), 'ns')}"


def _changes(pair: PairWhy) -> Iterator[str]:
    if pair.causes:
        yield "What went with it (of the slower; estimates overlap)"
    for change in pair.causes[:_MOST_CAUSES]:
        before, after = (numbers.show(ns, "ns") for ns in (change.second_ns, change.first_ns))
        yield f"  {cause_words(change.name)}: {before} in {pair.against.variant.name}, {after} here"


def _tree(kernel: KernelWhy) -> Iterator[str]:
    roofs = ", ".join(
        f"{roof_words(roof.name)} {numbers.show(100 * roof.share, '%')}"
        for roof in kernel.roofs[:4]
    )
    if roofs:
        yield from _wrapped(f"of the roofs: {roofs}", "  ")
    waits = ", ".join(
        f"{WAITS.get(wait.reason, wait.reason)} {numbers.show(100 * wait.share, '%')}"
        for wait in kernel.waits[:_MOST_WAITS]
    )
    if waits:
        yield from _wrapped(f"a warp waits {waits}", "  ")
    yield from _hot_lines(kernel)
    for cause in kernel.causes[:_MOST_CAUSES]:
        cost = numbers.show(cause.share * kernel.duration_ns, "ns")
        yield f"  may cost {cost}: {cause_words(cause.name)}"
    for advice in kernel.advice[:_MOST_ADVICE]:
        estimate = numbers.show(advice.speedup_pct, "%")
        yield f"  ncu, {advice.rule} ({advice.speedup_type or 'no'} estimate {estimate})"


def _hot_lines(kernel: KernelWhy) -> Iterator[str]:
    for line in kernel.lines:
        share = numbers.show(100 * line.share, "%")
        wait = WAITS.get(line.reason, line.reason)
        place = f"{line.place} " if line.place else ""
        yield f"  {share:>7} of the stalls at {place}{line.text}  [{wait}]"
    if not kernel.lines:
        yield "  no source page: which lines wait is not known"


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, COLUMNS, initial_indent=indent, subsequent_indent=f"{indent}  ")
