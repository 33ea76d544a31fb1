"""What is said of a cell against another of its problem: the verdict, and what is behind it.

The words are those of `profiler.analyse.verdicts`; nothing here is a statistic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pandas as pd

from profiler.analyse.effects import ParameterStep, judge_steps
from profiler.analyse.judge import Judge, Pair, Rules, times_of
from profiler.analyse.verdicts import ALPHA, FEWEST_BLOCKS, Reason, reason_words
from profiler.findings.values import NAN, Value
from profiler.model import SessionKind, Verdict
from profiler.render.words import numbers
from profiler.run_folder.load.report import Report

JUDGED = "duration_ns"
"""The one metric that verdicts are given on."""

SYMBOLS: Mapping[Verdict, str] = {
    Verdict.FASTER: "\u25bc",
    Verdict.SLOWER: "\u25b2",
    Verdict.SAME: "=",
    Verdict.UNCLEAR: "?",
    Verdict.NO_DATA: numbers.MISSING,
}
"""Time goes down, goes up, stays."""
WORDS: Mapping[Verdict, str] = {one: one.value.upper() for one in Verdict}
CSS: Mapping[Verdict, str] = {one: f"is-{one.value.replace(' ', '-')}" for one in Verdict}
ORDER = (Verdict.FASTER, Verdict.SAME, Verdict.UNCLEAR, Verdict.SLOWER, Verdict.NO_DATA)
"""As columns sort and as counts are said."""


_REVERSED = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}


@dataclass(frozen=True)
class Ruling:
    """A cell against another one: ratio, interval, verdict and its reason.

    Relative effects as in `verdicts.compare`; NaN is not known.
    """

    verdict: Verdict | None = None
    """None: no verdict is given, because the pair is not compared by durations."""
    reason: Reason = Reason.NOT_MEASURED
    ratio: float = NAN
    low: float = NAN
    high: float = NAN
    margin: float = NAN
    noise_floor: float = NAN
    detectable: float = NAN
    blocks: int = 0
    final: bool = False
    """Whether it is from the blocks in which the finalists were measured again."""
    before: Verdict | None = None
    """Of a final: what the timing blocks had said."""
    looks: int = 1
    """How often the data may be judged: each look has its part of the errors allowed."""

    @property
    def word(self) -> str:
        """Symbol and word of the verdict: `▼ FASTER`; empty without one."""
        return word(self.verdict) if self.verdict else ""

    @property
    def reason_words(self) -> str:
        """The reason as a sentence; empty without a verdict."""
        if self.verdict is None:
            return ""
        return reason_words(
            self.reason,
            blocks=self.blocks,
            margin=self.margin,
            noise_floor=self.noise_floor,
            detectable=self.detectable,
        )

    @property
    def why(self) -> str:
        """The reason and the number of blocks that it rests on; empty without a verdict."""
        words = self.reason_words
        counted = not self.blocks or f"{self.blocks} blocks" in words
        return f"{words}{'' if counted else f'; {self.blocks} blocks'}{self._final_words}"

    @property
    def details(self) -> str:
        """Everything behind the verdict: reason, margin, noise floor, blocks, detectable effect."""
        parts = [self.reason_words + self._final_words, self.limits]
        return "; ".join(part for part in parts if part)

    @property
    def tested(self) -> bool:
        """Whether a test could have decided: not so without data, or with too few of them.

        The smallest p value of a signed-rank test is that of all blocks on one side.
        """
        if self.verdict is None or self.blocks < FEWEST_BLOCKS:
            return False
        return 0.5**self.blocks < ALPHA / self.looks / 2

    @property
    def reversed(self) -> Ruling:
        """The same, seen from the other side."""
        before = None if self.before is None else _REVERSED.get(self.before, self.before)
        return replace(
            self,
            verdict=None if self.verdict is None else _REVERSED.get(self.verdict, self.verdict),
            ratio=1 / self.ratio,
            low=1 / self.high,
            high=1 / self.low,
            before=before,
        )

    @property
    def limits(self) -> str:
        """Margin, noise floor, number of blocks and detectable effect in words."""
        if self.verdict is None or not self.blocks:
            return ""
        known = not numbers.is_missing(self.noise_floor)
        floor = f"noise floor {percent(self.noise_floor)}" if known else "noise floor not known"
        parts = [f"margin \u00b1{percent(self.margin)}", floor, f"{self.blocks} blocks"]
        if not numbers.is_missing(self.detectable):
            parts.append(f"would likely see {percent(self.detectable)}")
        return ", ".join(parts)

    @property
    def _final_words(self) -> str:
        if not self.final:
            return ""
        told = self.before in (None, self.verdict)
        return "; the final" if told else f"; the final (the timing blocks: {_plain(self.before)})"


NO_RULING = Ruling()
"""Of metrics that no verdict is given on."""


def word(verdict: Verdict) -> str:
    """Symbol and word of a verdict."""
    return f"{SYMBOLS[verdict]} {WORDS[verdict]}"


def verdict_choices() -> tuple[tuple[str, str], ...]:
    """CSS class and word of every verdict, as a reader chooses among them."""
    return tuple((CSS[one], word(one)) for one in ORDER)


def verdict_key() -> str:
    """What the symbols mean."""
    return ", ".join(word(one) for one in ORDER if one is not Verdict.NO_DATA)


def _plain(verdict: Verdict | None) -> str:
    return WORDS[verdict] if verdict else ""


def percent(effect: float) -> str:
    """Write a relative effect: 0.0123 is `1.23 %`."""
    return f"{100 * effect:.2f}\u202f%"


def counts(rulings: Iterable[Ruling]) -> str:
    """How often each verdict was given: `FASTER at 3, SAME at 1 of 4 problems`; "" without any."""
    verdicts = [one.verdict for one in rulings if one.verdict is not None]
    found = Counter(verdicts)
    if not verdicts:
        return ""
    if len(verdicts) == 1:
        return word(verdicts[0])
    if len(found) == 1:
        return f"{word(verdicts[0])} at all {len(verdicts)} problems"
    parts = [f"{word(one)} at {found[one]}" for one in ORDER if found[one]]
    return f"{', '.join(parts)} of {len(verdicts)} problems"


def counted(rulings: Iterable[Ruling]) -> str:
    """How often each verdict was given, in symbols: `▼ 4, = 1`."""
    found = Counter(one.verdict for one in rulings if one.verdict is not None)
    return ", ".join(f"{SYMBOLS[one]} {found[one]}" for one in ORDER if found[one])


def symbol(rulings: Iterable[Ruling]) -> str:
    """The symbol of a verdict that all problems agree in; empty where they do not."""
    found = {one.verdict for one in rulings if one.verdict is not None}
    only = found.pop() if len(found) == 1 else None
    return SYMBOLS[only] if only else ""


@dataclass(frozen=True, eq=False)
class Rulings:
    """The one place that pages ask for verdicts: of the timing session, and of the finals."""

    report: Report
    twins: Mapping[str, str]
    """By id of a cell without samples: the cell with the same machine code, which has them."""
    _told: dict[Pair, Ruling] = field(default_factory=dict)
    """What was said of a pair. It is judged in one family only: asked for again in another one, or
    the other way round, it has the same answer, so that no page contradicts itself."""

    @property
    def given(self) -> bool:
        """Whether the metric that decides which variant is best has verdicts."""
        return self.report.primary == JUDGED

    @cached_property
    def timing(self) -> Judge:
        """Over the blocks in which every cell was measured."""
        return self._judge(SessionKind.TIMING, self.report.rules)

    @cached_property
    def finals(self) -> Judge:
        """Over the blocks in which the finalists were measured again: judged once."""
        return self._judge(SessionKind.FINAL, Rules(looks=1, delta=self.report.rules.delta))

    def _judge(self, kind: SessionKind, rules: Rules) -> Judge:
        times = times_of(self.report.samples, self.report.plan.cells, kind)
        return Judge(times, self.report.baseline, rules)

    @cached_property
    def finalists(self) -> Mapping[str, Value]:
        """Durations in the finals by cell id, with their intervals."""
        times = self.report.finals
        times = times[times["metric"] == JUDGED]
        rows = times[["cell", "n", "median", "low", "high"]].itertuples(index=False, name=None)
        return {
            str(cell): Value(n=int(n), median=median, low=low, high=high)
            for cell, n, median, low, high in rows
        }

    def final_value(self, cell: str) -> Value | None:
        """Duration of a cell (id) in the finals; None where it was not in them."""
        return self.finalists.get(self._source(cell)) if self.given else None

    def of(self, pairs: Collection[Pair]) -> Mapping[Pair, Ruling]:
        """What is said of each pair of cells (ids), which are judged together by problem.

        The finals speak where both were in them, else the timing blocks. What is asked for first
        decides in which family a pair is: ask for the baseline first.
        """
        if not pairs or not self.given:
            return {}
        asked = list(dict.fromkeys(pairs))
        if all(pair in self._told for pair in asked):
            return {pair: self._told[pair] for pair in asked}
        sources = [(self._source(one), self._source(other)) for one, other in asked]
        found = dict(zip(asked, _rulings(self.timing, sources), strict=True))
        again = [
            (pair, own)
            for pair, own in zip(asked, sources, strict=True)
            if own[0] in self.finalists and own[1] in self.finalists
        ]
        finals = _rulings(self.finals, [own for _, own in again])
        for (pair, _), ruling in zip(again, finals, strict=True):
            if ruling.blocks:
                found[pair] = replace(ruling, final=True, before=found[pair].verdict)
        return {pair: self._remembered(pair, ruling) for pair, ruling in found.items()}

    def _remembered(self, pair: Pair, ruling: Ruling) -> Ruling:
        """What was said of a pair before, else this."""
        other_way = self._told.get((pair[1], pair[0]))
        if other_way is not None:
            return other_way.reversed
        return self._told.setdefault(pair, ruling)

    def of_steps(
        self, chosen: Sequence[ParameterStep], problems: Sequence[str]
    ) -> tuple[tuple[Ruling, ...], ...]:
        """What is said of each step at each problem (ids), in this order; of the timing blocks."""
        if not self.given:
            return tuple((NO_RULING,) * len(problems) for _ in chosen)
        cells = {
            (cell.variant.id, cell.problem.id): self._source(cell.id)
            for cell in self.report.plan.cells
            if cell.id not in self._refused
        }
        frame = judge_steps(chosen, self.timing, cells, problems)
        flat = _read(frame, self.report.rules.looks)
        width = len(problems)
        return tuple(tuple(flat[width * i : width * (i + 1)]) for i in range(len(chosen)))

    @cached_property
    def _refused(self) -> frozenset[str]:
        """Ids of the cells that failed: whatever was measured of them says nothing."""
        return frozenset(
            cell for cell, status in self.report.statuses.items() if status.outcome.failed
        )

    def _source(self, cell: str) -> str:
        return self.twins.get(cell, cell)


def _rulings(judge: Judge, pairs: Sequence[Pair]) -> list[Ruling]:
    return _read(judge.compare(pairs), judge.rules.looks) if pairs else []


def _read(frame: pd.DataFrame, looks: int) -> list[Ruling]:
    """Rulings from rows with the columns of `verdicts.compare`."""
    names = ["verdict", "reason", "ratio", "ratio_low", "ratio_high"]
    names += ["margin", "noise_floor", "detectable", "blocks"]
    rows = zip(*(frame[name].tolist() for name in names), strict=True)
    return [replace(Ruling(*row), looks=looks) for row in rows]


def heat_mark(ruling: Ruling) -> str:
    """CSS class of a cell in a heat map: UNCLEAR is hatched, SAME dotted."""
    return {Verdict.UNCLEAR: " unclear", Verdict.SAME: " tied"}.get(
        ruling.verdict or Verdict.NO_DATA, ""
    )


def ruling_words(ruling: Ruling) -> str:
    """Verdict and reason after what else stands on hover: `; ▼ FASTER (…)`; empty without one."""
    return f"; {ruling.word} ({ruling.details})" if ruling.verdict is not None else ""
