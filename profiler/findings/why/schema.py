"""The JSON Schema of `profiler explain --json` (`docs/explain.schema.json`), from its models.

python -m profiler.findings.why.schema > docs/explain.schema.json
"""

from __future__ import annotations

import json
import sys
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from profiler.analyse.why.busy_units import BUSY_UNITS
from profiler.findings.why.document import (
    EXPLAIN_SCHEMA_VERSION,
    MOST_ADVICE,
    MOST_CAUSES,
    MOST_PARTS,
    MOST_ROOFS,
    MOST_WAITS,
)
from profiler.findings.why.pairs import OFF_TIMING
from profiler.findings.why.planted import LEAST_STRENGTHS

Number = float | None
"""Missing is null."""


_ROOFS = (
    "dram (dram__bytes.sum), l2 (lts__t_bytes.sum), l1 (l1tex__t_bytes.sum), tensor_TYPE "
    "(sm__ops_path_tensor_*), fp32 (threads of FFMA, FADD and FMUL in the source page); ceilings: "
    ".peak_sustained times the clock of the unit, of the same launch"
)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Answer(_Part):
    """What was timed: medians over `blocks` blocks, and the verdict on them.

    Without a second cell only `duration_ns`.
    """

    duration_ns: Number = Field(description="gpu__time_duration.sum, or that of the judged timer")
    against_ns: Number = None
    verdict: Literal["faster", "slower", "same", "unclear", "no data"] | None = None
    reason: str | None = None
    ratio: Number = Field(default=None, description="duration over that of `against`")
    ratio_low: Number = None
    ratio_high: Number = None
    blocks: int | None = Field(default=None, description="n of the ratio")


class AccountPart(_Part):
    """One part of a difference, signed: positive makes `variant` slower."""

    name: str = Field(
        description="instructions (smsp__inst_issued.sum), warps_in_flight "
        "(smsp__warps_active.sum), tail_and_imbalance (sm__cycles_elapsed.max, "
        "smsp__cycles_active.avg), clock, residual, stall:REASON "
        "(smsp__average_warp_latency_issue_stalled_REASON.ratio), kernel:NAME of a kernel that has "
        "no counterpart, where the other side has none left"
    )
    ns: Number
    share_pct: Number = Field(description="of difference_ns; parts may go against it")


class AccountDocument(_Part):
    """The difference of two durations by its factors; counters of one launch each (n = 1)."""

    duration_ns: Number = Field(description="gpu__time_duration.sum in the explain session")
    against_ns: Number
    difference_ns: Number
    timed_difference_ns: Number = Field(
        default=None,
        description="of the timed medians, where difference_ns is off it by more than "
        f"{100 * OFF_TIMING:.0f} % of the larger of both: the parts are of launches that took "
        "another time than those that were judged; else null",
    )
    closes: bool = Field(description="whether residual_pct is at most 3")
    residual_pct: Number = Field(
        description="of the duration that the product of the factors is off by more"
    )
    parts: list[AccountPart] = Field(max_length=MOST_PARTS, description="largest first")
    rest_ns: Number = Field(description="sum of the parts that are not listed")
    pooled_kernels: int | None = Field(
        default=None,
        description="kernels without a counterpart of their name, which are compared together "
        "with those of `against`; null where there are none, or one on each side",
    )
    against_pooled_kernels: int | None = None


class RoofAccountDocument(_Part):
    """Two launches that the same roof limits, over all their kernels; the parts add up."""

    roof: str = Field(description=_ROOFS)
    unit: Literal["byte", "op"]
    amount: Number
    against_amount: Number
    share_pct: Number = Field(description="of the roof")
    against_share_pct: Number
    amount_ns: Number = Field(description="for more bytes or operations")
    share_ns: Number = Field(description="for a lower share of the roof")
    ceiling_ns: Number = Field(description="for a lower clock of the unit")


class CauseOfDifference(_Part):
    """Estimated time of a cause in both; estimates overlap and do not add up.

    Causes that changed by less than 2 % of the difference are left out.
    """

    name: str = Field(description="docs/explain.md lists the counters of each")
    ns: Number = Field(
        description="null where it was not found, or is below 2 % of the time, and of a cause that "
        f"was planted in fewer than {LEAST_STRENGTHS} strengths"
    )
    against_ns: Number
    share_pct: Number = Field(
        default=None,
        description="of a cause without a time: of that of all kernels of the launch; null where "
        "it was not found",
    )
    against_share_pct: Number = None
    n: int = Field(description="visits of each that were counted")
    planted: tuple[float, float, int] | None = Field(
        default=None,
        description="estimate ÷ true time in kernels where it was planted: lowest, highest, and "
        "how many; null where it never was",
    )


class RoofShare(_Part):
    """What a kernel reached under one ceiling."""

    name: str = Field(description=_ROOFS)
    share_pct: Number
    practical_pct: Number = Field(
        description="of what a copy (dram) or a matrix product of torch reached in the same run; "
        "null where that was not measured"
    )
    per_second: Number
    unit: Literal["byte/s", "op/s"]


class WaitShare(_Part):
    """A stall reason: smsp__average_warp_latency_issue_stalled_REASON.ratio.

    Of `barrier`, what samples find at WARPGROUP.DEPBAR is counted as `gmma`. REASON:UNIT is that
    part of a reason that several units share whose waiting instructions name this one.
    """

    reason: str
    share_pct: Number = Field(description="of a warp's time between two of its instructions")


class SourceLine(_Part):
    """A line at which warps could not issue; without line information an instruction."""

    file: str | None
    line: int | None
    text: str
    share_pct: Number = Field(description="of the samples in which the warp could not issue")
    reason: str | None = Field(description="what most of them waited for")
    loaded_at: str | None = Field(
        default=None, description="FILE:LINE of the load from memory that it waits for, if another"
    )


class CauseDocument(_Part):
    """A cause that counters show, with its share, its estimated time, and its first counter."""

    name: str
    share_pct: Number = Field(
        description="of duration_ns; that of unfused_operations of all_kernels_ns. They overlap"
    )
    ns: Number = Field(
        description=f"null of a cause that was planted in fewer than {LEAST_STRENGTHS} strengths"
    )
    value: Number
    unit: str | None
    metric: str | None = Field(description="ncu's name, or a column of its source page")
    planted: tuple[float, float, int] | None = Field(
        default=None,
        description="estimate ÷ true time in kernels where it was planted: lowest, highest, and "
        "how many; null where it never was",
    )


class RuleAdvice(_Part):
    """What a rule of ncu estimates; never added to another."""

    rule: str
    speedup_pct: Number
    of: Literal["global", "local"] | None = Field(
        description="global: of the launch; local: of the part that the rule looks at"
    )


class Tree(_Part):
    """The longest kernel of a cell: limit, stall reasons, source lines, causes, ncu's rules."""

    kernel: str
    kernels: int
    duration_ns: Number = Field(description="gpu__time_duration.sum of one launch")
    all_kernels_ns: Number = Field(description="the same, of all kernels of the cell together")
    limit: str = Field(
        description="name of the nearest roof from 60 % of it on; else of the unit that is 80 % "
        f"busy or more ({', '.join(BUSY_UNITS)}), else latency"
    )
    roofs: list[RoofShare] = Field(max_length=MOST_ROOFS, description="nearest first")
    waits: list[WaitShare] = Field(max_length=MOST_WAITS)
    lines: list[SourceLine]
    causes: list[CauseDocument] = Field(
        max_length=MOST_CAUSES,
        description="largest time first, but limits of occupancy before waits that more warps hide",
    )
    tied_causes: list[list[str]] = Field(
        description="names of causes with the same time, most often what the busiest unit leaves: "
        "none of them comes before another"
    )
    ncu: list[RuleAdvice] = Field(max_length=MOST_ADVICE)


class TimelineWhy(_Part):
    """Operations and gaps of a launch, or of a step in it, in both timelines: medians."""

    busy_ns: Number = Field(description="an operation ran")
    against_busy_ns: Number
    idle_ns: Number = Field(description="none ran, since the unit before")
    against_idle_ns: Number
    busy_pct: Number
    against_busy_pct: Number
    n: int = Field(description="units in the timeline of `variant`")


class Explanation(_Part):
    """What `profiler explain RUN --json -` prints: at most 4 kB, units in the keys."""

    schema_version: Literal[1] = Field(description=f"now {EXPLAIN_SCHEMA_VERSION}")
    experiment: str
    problem: str
    variant: str
    against: str | None
    answer: Answer
    account: AccountDocument | None = Field(
        description="null where no difference is shown (SAME, UNCLEAR) or a counter is missing"
    )
    roof_account: RoofAccountDocument | None
    causes_of_difference: list[CauseOfDifference] = Field(max_length=MOST_CAUSES)
    tree: Tree | None
    timeline: TimelineWhy | None = Field(
        description="of a run that explained nothing, where timelines show the device busier in "
        "`variant`"
    )


class AnswerWhy(_Part):
    """`answer.why` of `summary.json`: the account of the pair that the answer is about."""

    variant: str
    against: str
    problem: str
    verdict: str | None
    account: AccountDocument | None
    roof_account: RoofAccountDocument | None
    causes_of_difference: list[CauseOfDifference]
    limit: str | None = Field(description="of `variant`, as in the tree of `explain --json`")
    timeline: TimelineWhy | None = Field(
        description="where there is no account and the device was busier than in `against`"
    )


def schema_text() -> str:
    """The JSON Schema as it stands in docs."""
    return json.dumps(Explanation.model_json_schema(), indent=1) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
