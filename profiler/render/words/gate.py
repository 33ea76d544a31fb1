"""Result of a gate in words: two revisions cell by cell, and what tells machine from kernel.

The comment is Markdown: what became slower against the base, and what it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from profiler.findings.gates import Gate, RevisionComparison
from profiler.history.trends import History, by_usual, is_usual, moved_together
from profiler.model import Verdict
from profiler.notices import counted, first_names
from profiler.outside_text import escaped_markdown
from profiler.render.words import numbers
from profiler.render.words.signs import word

MOST_ROWS = 20
_ORDER = (Verdict.SLOWER, Verdict.FASTER, Verdict.UNCLEAR, Verdict.NO_DATA, Verdict.SAME)


@dataclass(frozen=True)
class GateAnswer:
    """Result of a gate."""

    experiment: str
    base: str
    head: str
    """Commits in words."""
    machine: str
    gate: Gate
    rows: tuple[RevisionComparison, ...]
    unchanged: tuple[str, ...]
    """Variants of the same sources, which were not measured."""
    unmatched: tuple[str, ...]
    """Variants, and cells of others, that one of the revisions has."""
    lacking: str
    """Sentence on revisions without the experiment's file; empty without any."""
    left_out: str
    """Measurements that the budget had no time for, in words; empty without any."""
    history: History | None
    """Earlier runs of the cells on such a machine; None without any."""

    @property
    def tripped(self) -> tuple[RevisionComparison, ...]:
        """The rows that trip the gate."""
        return tuple(row for row in self.rows if row.trips(self.gate))

    @property
    def failed(self) -> tuple[RevisionComparison, ...]:
        """The rows whose right result the newest revision lost."""
        return tuple(row for row in self.rows if row.failure)

    @property
    def compared_none(self) -> bool:
        """Whether cells differ, and none has a verdict."""
        return bool(self.rows) and all(row.verdict is Verdict.NO_DATA for row in self.rows)

    @property
    def undecided(self) -> tuple[RevisionComparison, ...]:
        """The rows that are neither slower nor faster nor the same."""
        return tuple(row for row in self.rows if row.verdict.is_open)

    @property
    def moved_together(self) -> Iterator[tuple[int, float]]:
        """Number of cells that moved to one side and their mean ratio, where most did."""
        decided = (Verdict.SLOWER, Verdict.FASTER)
        moved = [row.pair.ratio for row in self.rows if row.verdict in decided]
        return moved_together(moved, len(self.rows))

    @property
    def noise_floor(self) -> float | None:
        """A/A: by how much the base varies in this session; None if not known."""
        floors = (row.pair.resolution.noise_floor for row in self.rows)
        return max(filter(math.isfinite, floors), default=None)

    @property
    def by_usual(self) -> float | None:
        """The base's times by those that its cells had in earlier runs; None without any."""
        times = {(row.variant, row.problem): row.pair.against_median for row in self.rows}
        return None if self.history is None else by_usual(times, self.history)


def headline(answer: GateAnswer) -> str:
    """Clause: how many cells are slower, lost their right result, or are undecided."""
    count = len(answer.rows)
    if not count and answer.lacking:
        return "nothing was compared"
    if not count:
        return f"nothing {'in common ' if answer.unmatched else ''}differs between the revisions"
    if answer.compared_none and not answer.failed:
        return f"none of {counted(count, 'cell')} was compared"
    percent = answer.gate.percent
    bound = f"{percent:g}\u202f%" if percent else "its margin"
    slower = f"{len(answer.tripped) or 'none'} of {counted(count, 'cell')} slower beyond {bound}"
    failed = len(answer.failed)
    undecided = len(answer.undecided)
    further = {f"{failed} failed": failed, f"{undecided - failed} undecided": undecided - failed}
    return ", ".join([slower, *(words for words, number in further.items() if number)])


def gate_marker(experiment: str) -> str:
    """First line of the comment on an experiment, by which it is found again."""
    return f"<!-- kernel-profiler gate: {experiment.replace('--', '- -')} -->"


def gate_markdown(answer: GateAnswer) -> str:
    """The comment, without its marker."""
    sign = "\N{WHITE HEAVY CHECK MARK}"
    if answer.tripped or answer.failed or answer.compared_none:
        sign = "\N{CROSS MARK}"
    elif len(answer.undecided) == len(answer.rows) and (answer.rows or answer.lacking):
        sign = "\N{WARNING SIGN}"
    machine = escaped_markdown(answer.machine)
    where = f", side by side in one session on {machine}" if answer.rows else ""
    blocks = [
        f"### {sign} {escaped_markdown(answer.experiment)}: {headline(answer)}",
        f"{escaped_markdown(answer.head)} against {escaped_markdown(answer.base)}{where}.",
    ]
    if answer.rows:
        blocks.append("\n".join(_table(answer)))
    blocks += [escaped_markdown(line) for line in _failures(answer)]
    blocks += [escaped_markdown(sentence) for sentence in control_sentences(answer)]
    if answer.lacking:
        blocks.append(escaped_markdown(answer.lacking))
    if answer.unmatched:
        names = escaped_markdown(first_names(answer.unmatched))
        blocks.append(f"Not compared, at one of both alone: {names}.")
    if answer.unchanged:
        names = ", ".join(map(escaped_markdown, answer.unchanged))
        blocks.append(f"Not measured, the same sources at both: {names}.")
    if answer.left_out:
        blocks.append(f"The budget: {escaped_markdown(answer.left_out)}")
    blocks.append(
        "<sub>Ratio: time after by time before, paired block by block, with its 95\u202f% "
        f"interval. {Verdict.UNCLEAR.word} never fails a gate.</sub>"
    )
    return "\n\n".join(blocks) + "\n"


def plain_lines(answer: GateAnswer) -> Iterator[str]:
    """The answer for a console: what trips, and what tells the machine from the kernel."""
    yield f"{answer.experiment}: {headline(answer)}. {answer.head}, against {answer.base}."
    for row in answer.tripped:
        yield f"  {row.variant}, {row.problem}: {' '.join(ratio_words(row))}"
    yield from (f"  {line}" for line in _failures(answer))
    yield from control_sentences(answer)
    if answer.lacking:
        yield answer.lacking
    if answer.left_out:
        yield answer.left_out


def _failures(answer: GateAnswer) -> Iterator[str]:
    """A line for each cell that lost its right result, or had none, as many as rows are shown."""
    for row in [item for item in answer.rows if item.failure or item.old_failure][:MOST_ROWS]:
        why = row.failure or f"nothing to compare with: the base {row.old_failure}"
        yield f"{row.variant}, {row.problem}: {why}"


def _table(answer: GateAnswer) -> Iterator[str]:
    first, second = answer.tripped, answer.failed

    def place(row: RevisionComparison) -> tuple[bool, bool, int, float]:
        return row not in first, row not in second, _ORDER.index(row.verdict), -row.pair.ratio

    ordered = sorted(answer.rows, key=place)
    yield "| variant | problem | before | after | ratio | interval | verdict |"
    yield "|---|---|---:|---:|---:|---|---|"
    for row in ordered[:MOST_ROWS]:
        cells = (
            escaped_markdown(row.variant),
            escaped_markdown(row.problem),
            numbers.show(row.pair.against_median, "ns"),
            numbers.show(row.pair.median, "ns"),
            *ratio_words(row),
            f"**{word(row.verdict)}**" if row in (*first, *second) else word(row.verdict),
        )
        yield f"| {' | '.join(cells)} |"
    left_out = ordered[MOST_ROWS:]
    if left_out:
        counts = {verdict: sum(row.verdict is verdict for row in left_out) for verdict in _ORDER}
        counts_words = ", ".join(f"{count} {word(v)}" for v, count in counts.items() if count)
        yield f"| {len(left_out)} more | | | | | | {counts_words} |"


def ratio_words(row: RevisionComparison) -> tuple[str, str]:
    """Ratio and interval."""
    return numbers.ratio(row.pair.ratio), numbers.interval(row.pair.low, row.pair.high)


def control_sentences(answer: GateAnswer) -> Iterator[str]:
    """Whether kernels moved together, how noisy the session was, and how the machine is today."""
    for count, mean in answer.moved_together:
        yield (
            f"{count} of {len(answer.rows)} cells moved together, by {numbers.ratio(mean)}: what "
            "they share is likelier than one kernel (a header, a flag, a library)."
        )
    if answer.noise_floor is not None:
        percent = f"{100 * answer.noise_floor:.2f}\u202f%"
        yield f"A/A: the base varies by {percent} in this session."
    usual = answer.by_usual
    if answer.history is None or usual is None:
        return
    took = f"The base takes {numbers.ratio(usual)}"
    if is_usual(usual):
        yield f"{took} its usual time: the machine is as it was."
    else:
        yield (
            f"{took} the time that it usually took (runs: {len(answer.history.runs)}): machine, "
            "driver, versions or an earlier commit, and not this one, which was measured beside it."
        )
