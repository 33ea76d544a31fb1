"""The comment of a gate in Markdown: what became slower against the base, and what it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from profiler.findings.verdicts import PairVerdict
from profiler.history.trends import History, by_usual, is_usual, moved_together
from profiler.model import Verdict
from profiler.outside_text import escaped_markdown
from profiler.render.words import numbers
from profiler.render.words.verdict_words import word

MOST_ROWS = 20
_ORDER = (Verdict.SLOWER, Verdict.FASTER, Verdict.UNCLEAR, Verdict.NO_DATA, Verdict.SAME)


@dataclass(frozen=True)
class GateRow:
    """One cell at both revisions."""

    variant: str
    problem: str
    pair: PairVerdict
    """The newest revision against the oldest."""
    trips: bool

    @property
    def verdict(self) -> Verdict:
        """NO DATA where none was given."""
        return self.pair.verdict or Verdict.NO_DATA

    @property
    def ratio_words(self) -> tuple[str, str]:
        """Ratio and interval."""
        return numbers.ratio(self.pair.ratio), numbers.interval(self.pair.low, self.pair.high)


@dataclass(frozen=True)
class GateAnswer:
    """What a gate found."""

    experiment: str
    base: str
    head: str
    """Commits in words."""
    machine: str
    threshold: str
    rows: tuple[GateRow, ...]
    same: tuple[str, ...]
    """Variants of the same sources, which were not measured."""
    left_out: str
    """What the budget had no time for; empty where it had."""
    controls: tuple[str, ...]
    """Sentences that tell the machine from the kernel."""

    @property
    def tripped(self) -> tuple[GateRow, ...]:
        """The rows that trip the gate."""
        return tuple(row for row in self.rows if row.trips)

    @property
    def headline(self) -> str:
        """How many cells are slower."""
        count = len(self.rows)
        if not count:
            return "nothing differs between the revisions"
        slower = len(self.tripped)
        if slower:
            return f"{slower} of {count} cell{'s' * (count != 1)} slower beyond {self.threshold}"
        undecided = sum(row.verdict in (Verdict.UNCLEAR, Verdict.NO_DATA) for row in self.rows)
        rest = f", {undecided} undecided" if undecided else ""
        return f"none of {count} cell{'s' * (count != 1)} slower beyond {self.threshold}{rest}"


def gate_marker(experiment: str) -> str:
    """First line of the comment on an experiment, by which it is found again."""
    return f"<!-- kernel-profiler gate: {experiment.replace('--', '- -')} -->"


def gate_markdown(answer: GateAnswer) -> str:
    """The comment, without its marker."""
    sign = "\N{CROSS MARK}" if answer.tripped else "\N{WHITE HEAVY CHECK MARK}"
    blocks = [
        f"### {sign} {escaped_markdown(answer.experiment)}: {answer.headline}",
        f"{escaped_markdown(answer.head)} against {escaped_markdown(answer.base)}, side by side in "
        f"one session on {escaped_markdown(answer.machine)}.",
    ]
    if answer.rows:
        blocks.append("\n".join(_table(answer.rows)))
    blocks += [escaped_markdown(sentence) for sentence in answer.controls]
    if answer.same:
        names = ", ".join(map(escaped_markdown, answer.same))
        blocks.append(f"Not measured, the same sources at both: {names}.")
    if answer.left_out:
        blocks.append(f"The budget: {escaped_markdown(answer.left_out)}")
    blocks.append(
        "<sub>Ratio: time after by time before, paired block by block, with its 95\u202f% "
        "interval. UNCLEAR never fails a gate.</sub>"
    )
    return "\n\n".join(blocks) + "\n"


def plain_lines(answer: GateAnswer) -> Iterator[str]:
    """The answer for a console: what trips, and what tells the machine from the kernel."""
    yield f"{answer.experiment}: {answer.headline}. {answer.head}, against {answer.base}."
    for row in answer.tripped:
        yield f"  {row.variant}, {row.problem}: {' '.join(row.ratio_words)}"
    yield from answer.controls
    if answer.left_out:
        yield answer.left_out


def _table(rows: Sequence[GateRow]) -> Iterator[str]:
    ordered = sorted(
        rows, key=lambda row: (not row.trips, _ORDER.index(row.verdict), -row.pair.ratio)
    )
    yield "| variant | problem | before | after | ratio | interval | verdict |"
    yield "|---|---|---:|---:|---:|---|---|"
    for row in ordered[:MOST_ROWS]:
        shown = (
            escaped_markdown(row.variant),
            escaped_markdown(row.problem),
            numbers.show(row.pair.against_median, "ns"),
            numbers.show(row.pair.median, "ns"),
            *row.ratio_words,
            f"**{word(row.verdict)}**" if row.trips else word(row.verdict),
        )
        yield f"| {' | '.join(shown)} |"
    left_out = ordered[MOST_ROWS:]
    if left_out:
        counts = {verdict: sum(row.verdict is verdict for row in left_out) for verdict in _ORDER}
        words = ", ".join(f"{count} {word(v)}" for v, count in counts.items() if count)
        yield f"| {len(left_out)} more | | | | | | {words} |"


# ---- the machine or the kernel -------------------------------------------------------------------


def control_sentences(
    rows: Sequence[GateRow], noise_floor: float | None, history: History | None
) -> Iterator[str]:
    """Whether kernels moved together, how noisy the session was, and how the machine is today."""
    moved = [row.pair.ratio for row in rows if row.verdict in (Verdict.SLOWER, Verdict.FASTER)]
    for count, mean in moved_together(moved, len(rows)):
        yield (
            f"{count} of {len(rows)} cells moved together, by {numbers.ratio(mean)}: what "
            "they share is likelier than one kernel (a header, a flag, a library)."
        )
    if noise_floor is not None:
        yield (
            f"A/A: the base strays from itself by {100 * noise_floor:.2f}\u202f% in this session."
        )
    if history is not None:
        yield from _machine_today(rows, history)


def _machine_today(rows: Sequence[GateRow], history: History) -> Iterator[str]:
    """The base's times against those that the same cells had in earlier runs on such a machine."""
    times = {(row.variant, row.problem): row.pair.against_median for row in rows}
    factor = by_usual(times, history)
    if factor is None:
        return
    if is_usual(factor):
        yield f"The base takes {numbers.ratio(factor)} its usual time: the machine is as it was."
        return
    yield (
        f"The base takes {numbers.ratio(factor)} the time that it usually took "
        f"(runs: {len(history.runs)}): machine, driver, versions or an earlier commit, and not "
        "this one, which was measured beside it."
    )
