"""The verdict on pairs of cells: every pair is judged once, in one family, in a stated order.

Verdicts are on durations (`profiler.analyse.verdicts`). The final speaks where both cells were in
it, else the blocks in which every cell was measured.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import pandas as pd

from profiler.analyse.intervals import session_margin
from profiler.analyse.judge import MEDIANS, Judge, Pair, Rules, visit_times, with_session_sds
from profiler.analyse.verdicts import COLUMNS, UNSEEN, Reason, untimed_by_cell
from profiler.collect.registry import is_judged, shares_process
from profiler.findings.json_model import JsonObject, Number, Source
from profiler.model import FEWEST_BLOCKS, SessionKind, Verdict
from profiler.planning.readiness import can_decide
from profiler.run_folder.load.report import Report

__all__ = ["FEWEST_BLOCKS", "UNSEEN", "Reason"]

JUDGED = "duration_ns"
"""The one metric that verdicts are given on."""


@dataclass(frozen=True)
class Resolution:
    """Differences that a comparison can show, as relative effects; NaN is not known."""

    margin: float = math.nan
    """A smaller difference counts as none."""
    noise_floor: float = math.nan
    session_sd: float = math.nan
    """Standard deviation of the ratio between sessions; margin and interval hold it."""
    detectable: float = math.nan
    """Difference that these blocks would likely show."""

    @property
    def rests_on_offsets(self) -> bool:
        """Whether the margin is as wide as it is for what one session does not see."""
        offset = session_margin(self.session_sd)
        return not math.isnan(offset) and offset > 0 and offset >= self.margin * (1 - 1e-9)


_RESOLUTION = tuple(item.name for item in fields(Resolution))
_ENDS = {"ratio_low": "low", "ratio_high": "high"}
_FIELD_OF_COLUMN = {
    name: _ENDS.get(name, name)
    for name in (*COLUMNS, *MEDIANS)
    if not name.startswith("p_") and name not in _RESOLUTION
}


@dataclass(frozen=True)
class PairVerdict:
    """A cell against another of its problem: ratio, interval, verdict and its reason.

    Relative effects as in `profiler.analyse.verdicts.compare`; NaN is not known.
    """

    verdict: Verdict | None = None
    """None where the pair is not compared."""
    reason: Reason = Reason.NOT_MEASURED
    ratio: float = math.nan
    low: float = math.nan
    high: float = math.nan
    cycles_ratio: float = math.nan
    """Ratio of their cycles in these blocks; NaN where they were not counted."""
    resolution: Resolution = Resolution()
    blocks: int = 0
    median: float = math.nan
    """Median duration in ns of the cell in these blocks."""
    against_median: float = math.nan
    """Median duration in ns of the cell that it is compared with; `ratio` is the quotient."""
    timing_verdict: Verdict | None = None
    """Verdict of the timing blocks, where this one is of the confirmation; else None."""
    looks: int = 1
    """How often the data may be judged: each look has its part of the errors allowed."""

    @property
    def confirmed(self) -> bool:
        """Whether the verdict is from the blocks in which the finalists were measured again."""
        return self.timing_verdict is not None

    @property
    def tested(self) -> bool:
        """Whether a test could have decided: not so without data, or with too few of them."""
        return self.verdict is not None and can_decide(self.blocks, looks=self.looks)

    @property
    def by_time_alone(self) -> bool:
        """Whether the two differ in time, and cycles were not counted to confirm it."""
        return self.reason is Reason.DECIDED_BY_TIME

    @property
    def reversed(self) -> PairVerdict:
        """The verdict on the mirrored pair."""
        return replace(
            self,
            verdict=_reversed(self.verdict),
            ratio=1 / self.ratio,
            low=1 / self.high,
            high=1 / self.low,
            cycles_ratio=1 / self.cycles_ratio if self.cycles_ratio > 0 else math.nan,
            median=self.against_median,
            against_median=self.median,
            timing_verdict=_reversed(self.timing_verdict),
        )


_REVERSED = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}


def _reversed(verdict: Verdict | None) -> Verdict | None:
    """Verdict on the mirrored pair."""
    return None if verdict is None else _REVERSED.get(verdict, verdict)


NO_VERDICT = PairVerdict()
"""The verdict of a pair that is not compared."""
NO_DATA = PairVerdict(Verdict.NO_DATA)
"""The verdict of a pair in which one has no correct result."""
SAME_PROGRAM = PairVerdict(Verdict.SAME, Reason.SAME_PROGRAM, ratio=1.0)
"""Verdict on two names of one program, which was measured once."""


PairVerdicts = Mapping[Pair, PairVerdict]
"""Verdicts by pair of cell ids, each pair one way round: `verdict_on` knows the other."""


def verdict_on(verdicts: PairVerdicts, cell: str, against: str) -> PairVerdict:
    """Verdict on a cell (id) against another; `NO_VERDICT` where nobody asked for it."""
    if (cell, against) in verdicts:
        return verdicts[cell, against]
    mirrored = verdicts.get((against, cell))
    return NO_VERDICT if mirrored is None else mirrored.reversed


def judges_of(report: Report) -> tuple[Judge, Judge]:
    """The judge of the blocks in which every cell was measured, and that of the final."""
    rules, statuses = report.rules, report.statuses
    # An alias has the samples of another cell, which says nothing twice of offsets.
    aliases = {cell for cell, status in statuses.items() if status.duplicate_of is not None}
    judged = [session for session in report.plan.sessions if is_judged(report.plan, session)]
    return with_session_sds(
        _judge(report, SessionKind.TIMING, rules),
        _judge(report, SessionKind.FINAL, Rules(looks=1, delta=rules.delta)),
        [cell for cell in report.plan.cells if cell.id not in aliases],
        one_process=any(map(shares_process, judged)),
    )


def _judge(report: Report, kind: SessionKind, rules: Rules) -> Judge:
    return Judge(
        visit_times(report.measured.samples, report.plan.cells, kind),
        report.plan.baseline,
        rules,
        launches=untimed_by_cell(report.statuses, report.environment),
    )


def judge_families(
    judges: tuple[Judge, Judge], families: Mapping[str, Sequence[Pair]]
) -> PairVerdicts:
    """Judge every pair of these families once; a pair belongs to the first family that asks for it.

    `families`: by question, the pairs that are judged together at each problem.
    """
    questions = _first_family_of_pairs(families)
    timing, final = judges
    verdicts = judged(timing, questions)
    in_final = frozenset(final.times["cell"].unique())
    finalists = {
        pair: question for pair, question in questions.items() if in_final.issuperset(pair)
    }
    for pair, verdict in judged(final, finalists).items():
        if verdict.blocks:
            verdicts[pair] = replace(verdict, timing_verdict=verdicts[pair].verdict)
    return verdicts


def _first_family_of_pairs(families: Mapping[str, Sequence[Pair]]) -> dict[Pair, str]:
    """Question by pair; of a pair and its mirror image only what was asked for first."""
    questions: dict[Pair, str] = {}
    for question, pairs in families.items():
        for pair in pairs:
            if (pair[1], pair[0]) not in questions:
                questions.setdefault(pair, question)
    return questions


def judged(judge: Judge, questions: Mapping[Pair, str]) -> dict[Pair, PairVerdict]:
    """Verdict of each pair, by the question that it belongs to."""
    if not questions:
        return {}
    frame = judge.compare(questions, questions=list(questions.values()))
    return dict(zip(questions, read_verdicts(frame, judge.rules.looks), strict=True))


def read_verdicts(frame: pd.DataFrame, looks: int) -> list[PairVerdict]:
    """Verdicts from rows with the columns of `profiler.analyse.verdicts.compare`."""
    resolutions = map(Resolution, *_values(frame, _RESOLUTION))
    rows = zip(*_values(frame, _FIELD_OF_COLUMN), resolutions, strict=True)
    names = [*_FIELD_OF_COLUMN.values(), "resolution"]
    return [PairVerdict(**dict(zip(names, row, strict=True)), looks=looks) for row in rows]


def _values(frame: pd.DataFrame, columns: Iterable[str]) -> list[list[Any]]:
    """Values of each column; NaN of a column that the frame lacks."""
    present = frame.reindex(columns=list(columns))
    return [present[name].tolist() for name in present]


def verdict_counts(verdicts: Sequence[PairVerdict]) -> dict[str, int]:
    """Count of each verdict by its word, in the order of `Verdict`."""
    counts = Counter(pair.verdict for pair in verdicts if pair.verdict is not None)
    return {verdict.value: counts[verdict] for verdict in Verdict if counts[verdict]}


# ---- as JSON -------------------------------------------------------------------------------------


class VerdictPartDocument(JsonObject):
    """A verdict with its reason and the numbers behind it; null without one."""

    get = Source[PairVerdict]()
    verdict: str | None = get(lambda pair: pair.verdict and pair.verdict.value)
    with_verdict = get.where(lambda pair: pair.verdict)
    reason: str | None = with_verdict(lambda pair: pair.reason.value)
    margin: Number = with_verdict(lambda pair: pair.resolution.margin)
    noise_floor: Number = with_verdict(lambda pair: pair.resolution.noise_floor)
    session_sd: Number = with_verdict(lambda pair: pair.resolution.session_sd)
    detectable: Number = with_verdict(lambda pair: pair.resolution.detectable)
    blocks: int | None = with_verdict(lambda pair: pair.blocks)
    of_the_final: bool | None = with_verdict(lambda pair: pair.confirmed)
