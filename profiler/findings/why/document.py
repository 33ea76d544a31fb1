"""The why of a run as JSON-ready data: small enough for a program that writes kernels to read.

`make numbers` writes its schema to `docs/explain.schema.json`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from profiler.analyse.why.account import Account, AccountPart
from profiler.analyse.why.causes import Cause
from profiler.analyse.why.inside import PmSamples
from profiler.analyse.why.kernel_profiles import Evidence
from profiler.analyse.why.roofs import BUSY_UNITS, Roof, RoofAccount
from profiler.findings.findings import Findings
from profiler.findings.json_model import ABSENT, JsonObject, Number, Source
from profiler.findings.verdicts import NO_VERDICT, PairVerdict
from profiler.findings.why.cells import CellWhy, KernelWhy
from profiler.findings.why.find import IdleDifference, find_why, idle_difference
from profiler.findings.why.hot_lines import HotLine
from profiler.findings.why.pairs import OFF_TIMING, CauseChange, PairWhy
from profiler.findings.why.planted import LEAST_STRENGTHS, PLANTED, has_time
from profiler.model import Cell

Document = dict[str, Any]
EXPLAIN_SCHEMA_VERSION = 1
MOST_PARTS = 8
MOST_WAITS = 4
MOST_CAUSES = 5
MOST_ADVICE = 3
MOST_ROOFS = 3
MOST_BYTES = 4096
VISITS = 1
"""Number of visits of a cell in an explain session."""
_MOST_LETTERS = 60


# ---- what a document is made of ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Explained:
    """A cell with its why, or with how long the device was idle in its timeline."""

    findings: Findings
    cell: Cell
    against: Cell | None
    verdict: PairVerdict
    why: CellWhy | None = None
    pair: PairWhy | None = None
    idle: IdleDifference | None = None
    most: int = MOST_PARTS
    """Rows in each list, at most."""

    def duration_ns(self, cell: Cell | None) -> float:
        """Median duration of a cell by the judged timer."""
        return self.findings.numbers.duration(cell).median

    @property
    def compared(self) -> _Pair | None:
        """The two cells that are compared: this, and the other one; None without one."""
        return None if self.against is None else (self, self.against)

    @property
    def account(self) -> _Accounted | None:
        """Account of the difference; None where none is shown or a counter is missing."""
        if self.pair is None or self.pair.account is None:
            return None
        return _Accounted(self.pair, self.pair.account, self.most)

    @property
    def changes(self) -> Sequence[CauseChange]:
        """The causes that changed, as far as they are listed."""
        return self.pair.causes[: min(self.most, MOST_CAUSES)] if self.pair else ()

    @property
    def tree(self) -> _Tree | None:
        """The tree of the longest kernel of the cell; None where none was counted."""
        why = self.why
        return _Tree(why, why.kernels[0], self.most) if why and why.kernels else None


class _Accounted(NamedTuple):
    pair: PairWhy
    account: Account
    most: int

    @property
    def parts(self) -> Sequence[AccountPart]:
        """The parts that are listed."""
        return self.account.parts[: self.most]


class _Tree(NamedTuple):
    why: CellWhy
    kernel: KernelWhy
    most: int

    @property
    def costs(self) -> Sequence[tuple[Cause, float]]:
        """The causes that are listed, with their ns."""
        return self.why.costs[: min(self.most, MOST_CAUSES)]


def rounded(value: float) -> float | None:
    """Value with five significant digits; None where it is missing."""
    return float(f"{value:.5g}") if math.isfinite(value) else None


def _word(pair: PairVerdict) -> str | None:
    return pair.verdict and pair.verdict.value


def _estimated_ns(cause: str, ns: float) -> float | None:
    """Estimated time of a cause; None where it was not found, and of one that has no time."""
    return (rounded(ns) or None) if has_time(cause) else None


def _only_share(cause: str, share: float) -> float | None:
    """Share of a cause in percent; no key where it has a time: a document has room for few."""
    return ABSENT if has_time(cause) else rounded(100 * share) or None


def shortened(text: str, letters: int = _MOST_LETTERS) -> str:
    """Text of at most so many letters; one that was cut ends with …."""
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


# ---- its fields ----------------------------------------------------------------------------------


_Pair = tuple[_Explained, Cell]
"""A cell, and the other one that it is compared with."""

_RoofName = Annotated[
    str,
    Field(
        description="dram (dram__bytes.sum), l2 (lts__t_bytes.sum), l1 (l1tex__t_bytes.sum), "
        "tensor_TYPE (sm__ops_path_tensor_*), fp32 (threads of FFMA, FADD and FMUL in the source "
        "page); ceilings: .peak_sustained times the clock of the unit, of the same launch"
    ),
]
_OtherThanTimed = Annotated[
    Number,
    Field(
        description="of the timed medians, where difference_ns is off it by more than "
        f"{100 * OFF_TIMING:.0f} % of the larger of both: the parts are of launches that took "
        "another time than those that were judged; else null"
    ),
]
_Limit = Annotated[
    str,
    Field(
        description="name of the nearest roof from 60 % of it on; else of the unit that is 80 % "
        f"busy or more ({', '.join(BUSY_UNITS)}), else latency"
    ),
]
_Time = Annotated[
    Number,
    Field(
        description="null where it was not found, or is below 2 % of the time, and of a cause that "
        f"was planted in fewer than {LEAST_STRENGTHS} strengths"
    ),
]
_Planted = Annotated[
    tuple[float, float, int] | None,
    Field(
        description="estimate ÷ true time in kernels where it was planted: lowest, highest, and "
        "how many; null where it never was"
    ),
]


class AnswerDocument(JsonObject):
    """What was timed: medians over `blocks` blocks, and the verdict on them.

    Without a second cell only `duration_ns`.
    """

    get = Source[_Explained]()
    duration_ns: Number = get(lambda explained: rounded(explained.duration_ns(explained.cell)))
    """gpu__time_duration.sum, or that of the judged timer"""
    compared = get.where(lambda explained: explained.against)
    against_ns: Number = compared(
        lambda explained: rounded(explained.duration_ns(explained.against))
    )
    verdict: Literal["faster", "slower", "same", "unclear", "no data"] | None = compared.one_of(
        lambda explained: _word(explained.verdict)
    )
    reason: str | None = compared(lambda explained: explained.verdict.reason.value)
    ratio: Number = compared(lambda explained: rounded(explained.verdict.ratio))
    """duration over that of `against`"""
    ratio_low: Number = compared(lambda explained: rounded(explained.verdict.low))
    ratio_high: Number = compared(lambda explained: rounded(explained.verdict.high))
    blocks: int | None = compared(lambda explained: explained.verdict.blocks)
    """n of the ratio"""


def _slower_ns(account: Account) -> float:
    return max(account.first_ns, account.second_ns)


class AccountPartDocument(JsonObject):
    """One part of a difference, signed: positive makes `variant` slower."""

    get = Source[tuple[AccountPart, float]]()
    name: str = get(lambda row: shortened(row[0].name))
    """instructions (smsp__inst_issued.sum), warps_in_flight (smsp__warps_active.sum),
    tail_and_imbalance (sm__cycles_elapsed.max, smsp__cycles_active.avg), clock, residual,
    stall:REASON (smsp__average_warp_latency_issue_stalled_REASON.ratio), kernel:NAME of a kernel
    that has no counterpart, where the other side has none left"""
    ns: Number = get(lambda row: rounded(row[0].ns))
    share_pct: Number = get(lambda row: rounded(100 * row[0].ns / row[1] if row[1] else math.nan))
    """of duration_ns or against_ns, the longer one"""


class AccountDocument(JsonObject):
    """The difference of two durations by its factors; counters of one launch each (n = 1)."""

    get = Source[_Accounted]()
    duration_ns: Number = get(lambda accounted: rounded(accounted.account.first_ns))
    """gpu__time_duration.sum in the explain session"""
    against_ns: Number = get(lambda accounted: rounded(accounted.account.second_ns))
    difference_ns: Number = get(lambda accounted: rounded(accounted.account.difference_ns))
    timed_difference_ns: _OtherThanTimed = get(
        lambda accounted: (
            rounded(accounted.pair.timed_difference_ns) if any(accounted.pair.off_timing) else None
        ),
        optional=True,
    )
    closes: bool = get(lambda accounted: accounted.account.closes)
    """whether residual_pct is at most 3"""
    residual_pct: Number = get(lambda accounted: rounded(100 * accounted.account.residual))
    """of the duration that the product of the factors is off by more"""
    parts = get.rows(
        AccountPartDocument,
        lambda accounted: [(part, _slower_ns(accounted.account)) for part in accounted.parts],
        most=MOST_PARTS,
    )
    """largest first"""
    rest_ns: Number = get(
        lambda accounted: rounded(
            accounted.account.difference_ns - sum(part.ns for part in accounted.parts)
        )
    )
    """sum of the parts that are not listed"""
    pooled_kernels: int | None = get(
        lambda accounted: len(accounted.account.pooled[0]) or None, optional=True
    )
    """kernels without a counterpart of their name, which are compared together with those of
    `against`; null where there are none, or one on each side"""
    against_pooled_kernels: int | None = get(
        lambda accounted: len(accounted.account.pooled[1]) or None, optional=True
    )


class RoofAccountDocument(JsonObject):
    """Two launches that the same roof limits, over all their kernels; the parts add up."""

    get = Source[RoofAccount]()
    roof: _RoofName = get(lambda account: account.name)
    unit: Literal["byte", "op"] = get.one_of(lambda account: account.first.unit)
    amount: Number = get(lambda account: rounded(account.first.amount))
    against_amount: Number = get(lambda account: rounded(account.second.amount))
    share_pct: Number = get(lambda account: rounded(100 * account.first.share))
    """of the roof"""
    against_share_pct: Number = get(lambda account: rounded(100 * account.second.share))
    amount_ns: Number = get(lambda account: rounded(account.amount_ns))
    """for more bytes or operations"""
    share_ns: Number = get(lambda account: rounded(account.share_ns))
    """for a lower share of the roof"""
    ceiling_ns: Number = get(lambda account: rounded(account.ceiling_ns))
    """for a lower clock of the unit"""


class CauseOfDifferenceDocument(JsonObject):
    """Estimated time of a cause in both; estimates overlap and do not add up.

    Causes that changed by less than 2 % of the difference are left out.
    """

    get = Source[CauseChange]()
    name: str = get(lambda cause: cause.name)
    """docs/explain.md lists the counters of each"""
    ns: _Time = get(lambda cause: _estimated_ns(cause.name, cause.first_ns))
    against_ns: Number = get(lambda cause: _estimated_ns(cause.name, cause.second_ns))
    n: int = get(lambda _: VISITS)
    """visits of each that were counted"""
    planted: _Planted = get(lambda cause: PLANTED.get(cause.name), optional=True)
    share_pct: Number = get(lambda cause: _only_share(cause.name, cause.first_share), optional=True)
    """of a cause without a time: of that of all kernels of the launch; null where it was not
    found"""
    against_share_pct: Number = get(
        lambda cause: _only_share(cause.name, cause.second_share), optional=True
    )


class RoofShareDocument(JsonObject):
    """What a kernel reached under one ceiling."""

    get = Source[Roof]()
    name: _RoofName = get(lambda roof: roof.name)
    share_pct: Number = get(lambda roof: rounded(100 * roof.share))
    practical_pct: Number = get(lambda roof: rounded(100 * roof.practical_share))
    """of what a copy (dram) or a matrix product of torch reached in the same run; null where that
    was not measured"""
    nominal_pct: Number = get(lambda roof: rounded(100 * roof.nominal_share))
    """of the ceiling at the highest clock of the SMs; share_pct is at the clock of the launch. null
    of memory outside of the SMs, and where the highest clock is not known"""
    per_second: Number = get(lambda roof: rounded(roof.rate))
    unit: Literal["byte/s", "op/s"] = get.one_of(lambda roof: f"{roof.unit}/s")


class WaitShareDocument(JsonObject):
    """A stall reason: smsp__average_warp_latency_issue_stalled_REASON.ratio.

    Of `barrier`, what samples find at WARPGROUP.DEPBAR is counted as `gmma`. REASON:UNIT is that
    part of a reason that several units share whose waiting instructions name this one.
    """

    get = Source[tuple[str, float]]()
    reason: str = get(lambda wait: wait[0])
    share_pct: Number = get(lambda wait: rounded(100 * wait[1]))
    """of a warp's time between two of its instructions"""


class SourceLineDocument(JsonObject):
    """A line at which warps could not issue; without line information an instruction."""

    get = Source[HotLine]()
    file: str | None = get(lambda line: line.file and line.file.rpartition("/")[2])
    line: int | None = get(lambda line: line.line)
    text: str = get(lambda line: shortened(line.text))
    share_pct: Number = get(lambda line: rounded(100 * line.share))
    """of the samples in which the warp could not issue"""
    reason: str | None = get(lambda line: line.reason or None)
    """what most of them waited for"""
    loaded_at: str | None = get(lambda line: line.loaded_at or None, optional=True)
    """FILE:LINE of the load from memory that it waits for, if another"""


class CauseDocument(JsonObject):
    """A cause that counters show, with its share, its estimated time, and its first counter."""

    get = Source[tuple[Cause, float]]()
    name: str = get(lambda cost: cost[0].name)
    share_pct: Number = get(lambda cost: rounded(100 * cost[0].share))
    """of duration_ns; that of unfused_operations of all_kernels_ns. They overlap"""
    ns: _Time = get(lambda cost: _estimated_ns(cost[0].name, cost[1]))
    value: Number = get(lambda cost: rounded(_evidence(cost[0]).value))
    unit: str | None = get(lambda cost: _evidence(cost[0]).unit or None)
    metric: str | None = get(lambda cost: _evidence(cost[0]).metric or None)
    """ncu's name, or a column of its source page"""
    planted: _Planted = get(lambda cost: PLANTED.get(cost[0].name), optional=True)


class RuleAdviceDocument(JsonObject):
    """What a rule of ncu estimates; never added to another."""

    get = Source[tuple[str, float | None, str | None]]()
    rule: str = get(lambda rule: rule[0])
    speedup_pct: Number = get(lambda rule: rule[1])
    of: Literal["global", "local"] | None = get.one_of(lambda rule: rule[2])
    """global: of the launch; local: of the part that the rule looks at"""


class InsideDocument(JsonObject):
    """What was sampled inside a launch (section PmSampling)."""

    get = Source[PmSamples]()
    ramp_ns: Number = get(lambda inside: rounded(inside.ramp_ns))
    """until the SMs are as busy as they usually are"""
    tail_ns: Number = get(lambda inside: rounded(inside.tail_ns))
    """since they were so for the last time"""
    idle_pct: Number = get(lambda inside: rounded(100 * inside.idle_share))
    """of the time of all SMs: without a warp"""
    clock_ghz: Number = get(lambda inside: rounded(inside.clock_ghz))
    """mean clock of the SMs"""
    lowest_clock_ghz: Number = get(lambda inside: rounded(inside.clock_range_ghz[0]))
    """over a tenth of the launch"""
    highest_clock_ghz: Number = get(lambda inside: rounded(inside.clock_range_ghz[1]))


class TreeDocument(JsonObject):
    """The longest kernel of a cell: limit, stall reasons, source lines, causes, ncu's rules."""

    get = Source[_Tree]()
    kernel: str = get(lambda tree: shortened(tree.kernel.profile.name))
    kernels: int = get(lambda tree: len(tree.why.kernels))
    duration_ns: Number = get(lambda tree: rounded(tree.kernel.duration_ns))
    """gpu__time_duration.sum of one launch"""
    all_kernels_ns: Number = get(lambda tree: rounded(tree.why.duration_ns))
    """the same, of all kernels of the cell together"""
    limit: _Limit = get(lambda tree: tree.kernel.limit)
    roofs = get.rows(
        RoofShareDocument,
        lambda tree: tree.kernel.roofs[: min(tree.most, MOST_ROOFS)],
        most=MOST_ROOFS,
    )
    """nearest first"""
    waits = get.rows(
        WaitShareDocument,
        lambda tree: islice(tree.kernel.waits.items(), min(tree.most, MOST_WAITS)),
        most=MOST_WAITS,
    )
    lines = get.rows(SourceLineDocument, lambda tree: tree.kernel.lines[: tree.most])
    causes = get.rows(CauseDocument, lambda tree: tree.costs, most=MOST_CAUSES)
    """largest time first, but limits of occupancy before waits that more warps hide"""
    tied_causes: list[list[str]] = get(lambda tree: _tied_causes(tree.costs))
    """names of causes with the same time, most often what the busiest unit leaves: none of them
    comes before another"""
    inside: InsideDocument = get.nested(
        InsideDocument, lambda tree: tree.kernel.inside, optional=True
    )
    """by the samples of one launch; absent where there are none or too few"""
    ncu = get.rows(
        RuleAdviceDocument,
        lambda tree: _rules(tree.kernel)[: min(tree.most, MOST_ADVICE)],
        most=MOST_ADVICE,
    )


def _clock_power_ns(pair: PairWhy | None) -> Any:
    """The part of power of the clock's part, or no key."""
    power_ns = math.nan if pair is None else pair.clock_parts_ns[0]
    return ABSENT if math.isnan(power_ns) else rounded(power_ns)


class TimelineWhyDocument(JsonObject):
    """Operations and gaps of a launch, or of a step in it, in both timelines: medians."""

    get = Source[IdleDifference]()
    busy_ns: Number = get(lambda idle: rounded(idle.unit.gpu_ns))
    """an operation ran"""
    against_busy_ns: Number = get(lambda idle: rounded(idle.baseline_unit.gpu_ns))
    idle_ns: Number = get(lambda idle: rounded(idle.unit.idle_ns))
    """none ran, since the unit before"""
    against_idle_ns: Number = get(lambda idle: rounded(idle.baseline_unit.idle_ns))
    busy_pct: Number = get(lambda idle: rounded(100 * idle.unit.busy_share))
    against_busy_pct: Number = get(lambda idle: rounded(100 * idle.baseline_unit.busy_share))
    n: int = get(lambda idle: idle.unit.units)
    """units in the timeline of `variant`"""


class DifferenceWhyDocument(JsonObject):
    """Why two cells differ."""

    get = Source[_Explained]()
    account = get.nested(AccountDocument, lambda explained: explained.account)
    """null where no difference is shown (SAME, UNCLEAR) or a counter is missing"""
    clock_power_ns: Number = get(lambda explained: _clock_power_ns(explained.pair), optional=True)
    """of the account's part of the clock what goes with the values, which is power: the rest is
    there on zeros, too; absent where the problem was not measured on zeros"""
    roof_account = get.nested(
        RoofAccountDocument,
        lambda explained: explained.pair.roof_account if explained.pair else None,
    )
    causes_of_difference = get.rows(
        CauseOfDifferenceDocument, lambda explained: explained.changes, most=MOST_CAUSES
    )


class ExplanationDocument(JsonObject):
    """What `profiler explain RUN --json -` prints: at most 4 kB, units in the keys."""

    get = Source[_Explained]()
    schema_version: Literal[1] = get.one_of(lambda _: EXPLAIN_SCHEMA_VERSION)
    experiment: str = get(lambda explained: explained.findings.report.experiment.name)
    problem: str = get(lambda explained: explained.cell.problem.id)
    variant: str = get(lambda explained: explained.cell.variant.name)
    against: str | None = get(
        lambda explained: explained.against.variant.name if explained.against else None
    )
    answer = get.part(AnswerDocument, lambda explained: explained)
    difference = get.spread(DifferenceWhyDocument, lambda explained: explained)
    tree = get.nested(TreeDocument, lambda explained: explained.tree)
    timeline = get.nested(TimelineWhyDocument, lambda explained: explained.idle)
    """of a run that explained nothing, where timelines show the device busier in `variant`"""


class AnswerWhyDocument(JsonObject):
    """`answer.why` of `summary.json`: the account of the pair that the answer is about."""

    get = Source[_Pair]()
    variant: str = get(lambda pair: pair[0].cell.variant.name)
    against: str = get(lambda pair: pair[1].variant.name)
    problem: str = get(lambda pair: pair[1].problem.id)
    verdict: str | None = get(lambda pair: _word(pair[0].verdict))
    difference = get.spread(DifferenceWhyDocument, lambda pair: pair[0])
    limit: str | None = get(lambda pair: pair[0].tree and pair[0].tree.kernel.limit)
    """of `variant`, as in the tree of `explain --json`"""
    timeline = get.nested(TimelineWhyDocument, lambda pair: pair[0].idle)
    """where there is no account and the device was busier than in `against`"""


# ---- documents -----------------------------------------------------------------------------------


def explain_document(findings: Findings, cell: Cell, pair: PairWhy | None) -> Document:
    """The answer, the account and the tree of an explained cell; at most 4 kB. Missing is null.

    Every number has its unit in its key. Counters are of one launch (n = 1) in the explain session;
    ratio and verdict are of the timing. Where names are long, lists are cut shorter.
    """
    explained = _explained(findings, cell, pair)
    for most in range(MOST_PARTS, 0, -1):
        document = ExplanationDocument.document(replace(explained, most=most))
        if len(json.dumps(document)) < MOST_BYTES:  # the line end counts as well
            break
    return document


def idle_document(findings: Findings, idle: IdleDifference) -> Document:
    """Explanation of a run without explain session: idle time of the device in two timelines."""
    return ExplanationDocument.document(_idle(findings, idle))


def why_of_answer(findings: Findings) -> _Pair | None:
    """Source of `answer.why` of a run's summary: the pair that the answer is about.

    Without an account, how long the device was idle in the timelines; None where nothing was
    explained and there are no timelines that differ in it.
    """
    pair = find_why(findings).answer
    if pair is None or pair.account is None:
        idle = idle_difference(findings)
        if idle is not None:
            return _idle(findings, idle).compared
    return None if pair is None else _explained(findings, pair.cell, pair).compared


def _explained(findings: Findings, cell: Cell, pair: PairWhy | None) -> _Explained:
    why = find_why(findings).cells[findings.programs.source(cell)]
    if pair is None:
        return _Explained(findings, cell, None, NO_VERDICT, why)
    return _Explained(findings, cell, pair.against, pair.verdict, why, pair)


def _idle(findings: Findings, idle: IdleDifference) -> _Explained:
    verdict = findings.verdicts.verdict_on(idle.cell, idle.against)
    return _Explained(findings, idle.cell, idle.against, verdict, idle=idle)


def _rules(kernel: KernelWhy) -> list[tuple[str, float | None, str | None]]:
    """Estimates of ncu's rules; once where a rule says the same of several units."""
    rules = (
        (advice.rule, rounded(advice.speedup_pct), advice.speedup_type or None)
        for advice in kernel.advice
    )
    return list(dict.fromkeys(rules))


def _tied_causes(costs: Sequence[tuple[Cause, float]]) -> list[list[str]]:
    """Names of causes with the same time, of two or more: their order says nothing."""
    by_ns: dict[float | None, list[str]] = {}
    for cause, ns in costs:
        by_ns.setdefault(rounded(ns), []).append(cause.name)
    return [names for names in by_ns.values() if len(names) > 1]


_NO_EVIDENCE = Evidence(math.nan, "", "")


def _evidence(cause: Cause) -> Evidence:
    """The first counter that shows a cause."""
    return next(iter(cause.evidence.values()), _NO_EVIDENCE)
