"""The verdict on pairs of cells: every pair is judged once, in one family, in a stated order.

Verdicts are on durations (`profiler.analyse.verdicts`). The final speaks where both cells were in
it, else the blocks in which every cell was measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from profiler.analyse.intervals import session_margin
from profiler.analyse.judge import MEDIANS, Judge, Pair, Rules, times_of, with_session_sds
from profiler.analyse.verdicts import Reason
from profiler.collect.registry import is_judged, shares_process
from profiler.findings.values import NAN
from profiler.model import FEWEST_BLOCKS, SessionKind, Verdict
from profiler.planning.blocks_needed import can_decide
from profiler.run_folder.load.report import Report

__all__ = [
    "FEWEST_BLOCKS",
    "JUDGED",
    "NO_DATA",
    "NO_VERDICT",
    "SAME_PROGRAM",
    "Family",
    "PairVerdict",
    "PairVerdicts",
    "Reason",
    "judge_families",
    "judges_of",
    "read_verdicts",
]

JUDGED = "duration_ns"
"""The one metric that verdicts are given on."""

_REVERSED = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}
_FIELD_OF_COLUMN = {
    **{name: name for name in ("verdict", "reason", "ratio")},
    "ratio_low": "low",
    "ratio_high": "high",
    **{
        name: name
        for name in ("margin", "noise_floor", "session_sd", "detectable", "blocks", *MEDIANS)
    },
}


@dataclass(frozen=True)
class PairVerdict:
    """A cell against another of its problem: ratio, interval, verdict and its reason.

    Relative effects as in `profiler.analyse.verdicts.compare`; NaN is not known.
    """

    verdict: Verdict | None = None
    """None: no verdict is given, because the pair is not compared by durations."""
    reason: Reason = Reason.NOT_MEASURED
    ratio: float = NAN
    low: float = NAN
    high: float = NAN
    margin: float = NAN
    noise_floor: float = NAN
    session_sd: float = NAN
    """Standard deviation of the ratio between sessions; margin and interval hold it."""
    detectable: float = NAN
    blocks: int = 0
    median: float = NAN
    """Median duration in ns of the cell in these blocks."""
    against_median: float = NAN
    """Median duration in ns of the cell that it is compared with; `ratio` is the quotient."""
    final: bool = False
    """Whether it is from the blocks in which the finalists were measured again."""
    before: Verdict | None = None
    """Verdict of the timing blocks, where this one is of the confirmation; else None."""
    looks: int = 1
    """How often the data may be judged: each look has its part of the errors allowed."""

    @property
    def tested(self) -> bool:
        """Whether a test could have decided: not so without data, or with too few of them."""
        return self.verdict is not None and can_decide(self.blocks, looks=self.looks)

    @property
    def by_time_alone(self) -> bool:
        """Whether the two differ in time, and cycles were not counted to confirm it."""
        return self.reason is Reason.DECIDED_BY_TIME

    @property
    def rests_on_offsets(self) -> bool:
        """Whether its margin is as wide as it is for what one session does not see."""
        offset = session_margin(self.session_sd)
        return not math.isnan(offset) and offset > 0 and offset >= self.margin * (1 - 1e-9)

    @property
    def reversed(self) -> PairVerdict:
        """The verdict on the mirrored pair."""
        before = None if self.before is None else _REVERSED.get(self.before, self.before)
        return replace(
            self,
            verdict=None if self.verdict is None else _REVERSED.get(self.verdict, self.verdict),
            ratio=1 / self.ratio,
            low=1 / self.high,
            high=1 / self.low,
            median=self.against_median,
            against_median=self.median,
            before=before,
        )


NO_VERDICT = PairVerdict()
"""Of metrics that no verdict is given on."""
NO_DATA = PairVerdict(Verdict.NO_DATA)
"""Of a pair in which one has no correct result."""
SAME_PROGRAM = PairVerdict(Verdict.SAME, Reason.SAME_PROGRAM, ratio=1.0)
"""Verdict on two names of one program, which was measured once."""


@dataclass(frozen=True)
class Family:
    """Pairs that one question asks for: at each problem they are judged together."""

    question: str
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, eq=False)
class PairVerdicts:
    """Verdicts by pair of cell ids; a pair that was judged is known both ways round."""

    by_pair: Mapping[Pair, PairVerdict]

    def of(self, cell: str, other: str) -> PairVerdict:
        """Verdict on a cell against another; `NO_VERDICT` where nobody asked for it."""
        verdict = self.by_pair.get((cell, other))
        if verdict is not None:
            return verdict
        mirrored = self.by_pair.get((other, cell))
        return NO_VERDICT if mirrored is None else mirrored.reversed


def judges_of(report: Report) -> tuple[Judge, Judge]:
    """The judge of the blocks in which every cell was measured, and that of the final."""
    rules = report.rules
    judged = [session for session in report.plan.sessions if is_judged(report.plan, session)]
    return with_session_sds(
        _judge(report, SessionKind.TIMING, rules),
        _judge(report, SessionKind.FINAL, Rules(looks=1, delta=rules.delta)),
        report.plan.cells,
        one_process=any(map(shares_process, judged)),
    )


def _judge(report: Report, kind: SessionKind, rules: Rules) -> Judge:
    return Judge(
        times_of(report.measured.samples, report.plan.cells, kind), report.plan.baseline, rules
    )


def judge_families(
    judges: tuple[Judge, Judge], families: Sequence[Family], sources: Mapping[str, str]
) -> PairVerdicts:
    """Judge every pair of these families once; a pair belongs to the first family that asks for it.

    `sources`: by id of a cell without samples of its own, the cell that was measured for it.
    """
    asked = _first_family_of_pairs(families)
    timing, final = judges
    verdicts = _judged(timing, asked, sources)
    in_final = frozenset(final.times["cell"])
    finalists = {
        pair: question
        for pair, question in asked.items()
        if all(sources.get(cell, cell) in in_final for cell in pair)
    }
    for pair, verdict in _judged(final, finalists, sources).items():
        if verdict.blocks:
            verdicts[pair] = replace(verdict, final=True, before=verdicts[pair].verdict)
    return PairVerdicts(verdicts)


def _first_family_of_pairs(families: Sequence[Family]) -> dict[Pair, str]:
    """Question by pair; of a pair and its mirror image only what was asked for first."""
    questions: dict[Pair, str] = {}
    for family in families:
        for pair in family.pairs:
            if (pair[1], pair[0]) not in questions:
                questions.setdefault(pair, family.question)
    return questions


def _judged(
    judge: Judge, questions: Mapping[Pair, str], sources: Mapping[str, str]
) -> dict[Pair, PairVerdict]:
    if not questions:
        return {}
    pairs = [(sources.get(cell, cell), sources.get(other, other)) for cell, other in questions]
    frame = judge.compare(pairs, questions=list(questions.values()))
    return dict(zip(questions, read_verdicts(frame, judge.rules.looks), strict=True))


def read_verdicts(frame: pd.DataFrame, looks: int) -> list[PairVerdict]:
    """Verdicts from rows with the columns of `profiler.analyse.verdicts.compare`."""
    fields = list(_FIELD_OF_COLUMN.values())
    known = frame.reindex(columns=list(_FIELD_OF_COLUMN))
    rows = zip(*(known[name].tolist() for name in known), strict=True)
    return [PairVerdict(**dict(zip(fields, row, strict=True)), looks=looks) for row in rows]
