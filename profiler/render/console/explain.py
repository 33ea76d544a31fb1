"""Text of `profiler explain`: the answer, the account, the tree; at most 60 lines."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from profiler.findings.findings import Findings
from profiler.findings.verdicts import PairVerdict
from profiler.findings.why.cells import Advice, CellWhy, KernelWhy
from profiler.findings.why.find import IdleDifference, find_why
from profiler.findings.why.pairs import Account, PairWhy
from profiler.model import Cell
from profiler.render.words import numbers
from profiler.render.words import why as why_words
from profiler.render.words.counters import moved_words
from profiler.render.words.verdicts import word_of

COLUMNS = 100
"""Width of the text, where the terminal is not narrower."""
MOST_LINES = 60
"""Most lines of the text, where it has as many columns."""
_BAR = 24
_SHORT_BAR = 10
"""Longest bar where the text has fewer columns."""
_MOST_MOVED_LINES = 4
_MOST_WAITS = 4
_MOST_CAUSES = 4
_MOST_ADVICE = 3


@dataclass(frozen=True)
class _Prose:
    """A text to be wrapped; everything else is a row, which is cut where it is too long."""

    text: str
    indent: str = ""

    def lines(self, columns: int) -> list[str]:
        """Lines of at most so many columns."""
        return textwrap.wrap(
            self.text,
            columns,
            initial_indent=self.indent,
            subsequent_indent=f"{self.indent}  ",
            break_on_hyphens=False,
        )


def explain_text(
    findings: Findings,
    cell: Cell,
    why: CellWhy,
    pair: PairWhy | None,
    columns: int = COLUMNS,
) -> str:
    """Text of a cell, and of its difference from another; no line has more columns."""
    lines: list[str | _Prose] = [*_answer(findings, cell, pair)]
    after_account = 0
    if pair is not None:
        lines += ["", _Prose(why_words.why_sentence(pair)), *_elsewhere(findings, pair)]
        if pair.account is not None:
            lines += ["", *_account(pair, pair.account, columns)]
            after_account = len(lines)
            lines += _changes(pair)
    for kernel in why.kernels[:1]:
        lines += ["", _Prose(f"What limits {cell.variant.label}")]
        lines += [
            _Prose(why_words.limit_of_cell(why), "  "),
            *_roofs(findings, kernel),
            *_tree(why, kernel),
        ]
    if pair is not None and after_account:
        room = MOST_LINES - sum(len(_in_columns(line, columns)) for line in lines)
        lines[after_account:after_account] = _moved(pair, columns, min(room, _MOST_MOVED_LINES))
    return _text(lines, columns)


def files_text(pair: PairWhy, columns: int = COLUMNS) -> str:
    """Text of the difference of two imported files; no line has more columns."""
    if pair.timed_difference_ns == 0:  # one file under two names, as a rule
        names = f"{pair.cell.variant.label} and {pair.against.variant.label}"
        time = numbers.show(pair.first.duration_ns, "ns")
        return _text([_Prose(f"{names} take the same time under ncu, {time}.")], columns)
    why_sentence = why_words.why_sentence(pair)
    sentence = f"{why_sentence} Medians of the launches of each kind; no test says how sure."
    lines: list[str | _Prose] = [_Prose(sentence)]
    if pair.account is not None:
        lines += ["", *_account(pair, pair.account, columns)]
    else:
        lines += [
            _Prose(why_words.kernel_times(pair)),
            _Prose("`ncu --set full` has the counters."),
        ]
    lines += [*_moved(pair, columns, _MOST_MOVED_LINES), *_changes(pair)]
    return _text(lines, columns)


def _text(lines: Sequence[str | _Prose], columns: int) -> str:
    return "\n".join(text for line in lines for text in _in_columns(line, columns)) + "\n"


def _answer(findings: Findings, cell: Cell, pair: PairWhy | None) -> Iterator[str | _Prose]:
    if pair is not None:
        yield from _compared(findings, cell, pair.against, pair.verdict)
        return
    yield _title(findings, cell)
    time = findings.numbers.duration(cell).median
    yield _Prose(f"{cell.variant.label}: {numbers.show(time, 'ns')}")


def _title(findings: Findings, cell: Cell) -> _Prose:
    return _Prose(f"{findings.report.experiment.name}, {cell.problem.name}")


def _compared(
    findings: Findings, cell: Cell, against: Cell, verdict: PairVerdict
) -> Iterator[_Prose]:
    """Title, both durations in the blocks that they share, and the verdict on them."""
    yield _title(findings, cell)
    interval = numbers.interval(verdict.low, verdict.high)
    times = [numbers.show(ns, "ns") for ns in findings.verdicts.timed(cell, against)]
    yield _Prose(
        f"{cell.variant.label} {times[0]}, {against.variant.label} {times[1]}: "
        f"{numbers.ratio(verdict.ratio)}{f' {interval}' if interval else ''}, {word_of(verdict)}"
    )


def idle_text(findings: Findings, idle: IdleDifference, columns: int) -> str:
    """Text of a run that explained nothing, but has timelines that differ."""
    verdict = findings.verdicts.verdict_on(idle.cell, idle.against)
    lines: list[str | _Prose] = [
        *_compared(findings, idle.cell, idle.against, verdict),
        "",
        _Prose(why_words.idle_sentence(findings)),
    ]
    return _text(lines, columns)


def _elsewhere(findings: Findings, pair: PairWhy) -> Iterator[_Prose]:
    """Line on where a difference was explained, if this pair shows none; no line otherwise."""
    explained = next(
        (other_pair for other_pair in find_why(findings).pairs if other_pair.shows_difference), None
    )
    if pair.shows_difference or explained is None:
        return
    first, second = explained.cell.variant.label, explained.against.variant.label
    problem = explained.cell.problem.name
    yield _Prose(
        f"A difference was explained at {problem}: --problem '{problem}' --variant '{first}' "
        f"--against '{second}'"
    )


def _account(pair: PairWhy, account: Account, columns: int) -> Iterator[str | _Prose]:
    """Rows that add up; shares are of the time of the slower one."""
    bar = _BAR if columns >= COLUMNS else _SHORT_BAR
    rows = why_words.account_rows(account)
    named_parts = rows[: len(account.parts[: why_words.MOST_PARTS])]
    rows.append(("together", account.difference_ns))
    yield _Prose(
        "Where the difference is (one launch each under ncu; shares are of the slower one's time)"
    )
    for remark in why_words.account_remarks(pair, account):
        yield _Prose(remark, "  ")
    largest = max(abs(ns) for _, ns in named_parts)
    for place, (label, ns) in enumerate(rows):
        share = why_words.signed_share(ns, account)
        size = max(1, round(bar * abs(ns) / largest)) if place < len(named_parts) and largest else 0
        yield f"  {numbers.signed_time(ns):>10} {share:>8}  {'█' * size:<{bar}} {label}"


def _moved(pair: PairWhy, columns: int, most_lines: int) -> Iterator[_Prose]:
    """Counters that moved, as many as so many lines hold; those of the largest part first."""
    moved_counters = moved_words(pair.counters)
    prose = [
        _Prose(f"moved: {', '.join(moved_counters[:most])}", "  ")
        for most in range(1, len(moved_counters) + 1)
    ]
    fitting = [line for line in prose if len(line.lines(columns)) <= most_lines]
    yield from fitting[-1:]


def _changes(pair: PairWhy) -> Iterator[str | _Prose]:
    if pair.causes:
        yield f"What went with it ({why_words.ESTIMATED})"
    for cause, (first, second) in why_words.cause_rows_of_pair(pair)[:_MOST_CAUSES]:
        yield _Prose(
            f"{cause}: {why_words.amount_words(second)} in {pair.against.variant.label}, "
            f"{why_words.amount_words(first)} here",
            "  ",
        )


def _roofs(findings: Findings, kernel: KernelWhy) -> Iterator[_Prose]:
    """Shares of the hardware's roofs and of the practical ones."""
    roofs = ", ".join(
        f"{why_words.roof_words(roof.name)} {numbers.share(roof.share)}"
        f"{why_words.practical_words(roof.name, roof.practical_share)}"
        for roof in kernel.roofs[:4]
    )
    if roofs:
        nearest = kernel.roofs[0]
        at_highest_clock = why_words.nominal_words(nearest.share, nearest.nominal_share)
        yield _Prose(f"shares of the roofs: {roofs}{at_highest_clock}", "  ")
    missing = why_words.no_practical_words(findings)
    if roofs and missing:
        yield _Prose(missing, "  ")


def _tree(why: CellWhy, kernel: KernelWhy) -> Iterator[str | _Prose]:
    waits = ", ".join(
        f"{why_words.waited_for(reason)} {numbers.share(share)}"
        for reason, share in islice(kernel.waits.items(), _MOST_WAITS)
    )
    if waits:
        yield _Prose(f"a warp waits {waits}", "  ")
    yield from _hot_lines(kernel)
    rows = why_words.cause_rows_of_cell(why)
    if rows:
        yield f"  causes ({why_words.ESTIMATED}):"
    for cause_label, (amount,) in rows[:_MOST_CAUSES]:
        yield _Prose(f"about {why_words.amount_words(amount)}: {cause_label}", "  ")
    # A rule may say the same of several units; which ones, only its text tells.
    for cause_label in [*dict.fromkeys(map(_advice, kernel.advice))][:_MOST_ADVICE]:
        yield f"  ncu's rule {cause_label}"


def _advice(advice: Advice) -> str:
    if numbers.is_missing(advice.speedup_pct):
        return f"{advice.rule}: no estimate"
    kind = f" ({advice.speedup_type})" if advice.speedup_type else ""
    return f"{advice.rule}: estimated speedup {numbers.show(advice.speedup_pct, '%')}{kind}"


def _hot_lines(kernel: KernelWhy) -> Iterator[str | _Prose]:
    """The lines where warps wait; what they wait for comes before the text, which may be long."""
    if not kernel.lines:
        yield f"  {why_words.no_lines_words(kernel)}"
        return
    yield "  where warps wait, as shares of all stalls:"
    for line in kernel.lines:
        share = numbers.share(line.share)
        wait = f"  [{why_words.wait_words(line)}]" if line.reason else ""
        yield f"  {share:>8}  {why_words.place_words(line)}{wait}  {line.text}"


def _in_columns(line: str | _Prose, columns: int) -> list[str]:
    """Lines of a text; a row with an ellipsis where it is too long: rows of tables and source."""
    if isinstance(line, _Prose):
        return line.lines(columns)
    line = line.rstrip()
    return [line if len(line) <= columns else f"{line[: columns - 1]}…"]
