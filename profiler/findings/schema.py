"""The JSON Schema of `summary.json` (`docs/summary.schema.json`), from models of its parts.

python -m profiler.findings.schema > docs/summary.schema.json
"""

from __future__ import annotations

import json
import sys
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from profiler.findings.why.schema import AnswerWhy

Number = float | None
"""Missing is null."""
Params = dict[str, Any]
_LABEL: str = Field(description="short name of the variant, as page and console have it")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Numbers(_Part):
    """One metric of a cell: of the final where the cell was in it, else of the timing blocks."""

    n: int = Field(description="blocks")
    median: Number
    mean: Number
    min: Number
    max: Number
    low: Number = Field(description="95 % interval of the median")
    high: Number
    baseline_median: Number = Field(
        description="of the baseline at this problem, in the same session and blocks"
    )
    ratio: Number = Field(description="median by baseline_median")
    ratio_low: Number = Field(description="95 % interval, of the ratios paired by block")
    ratio_high: Number
    rank: Number = Field(description="1 is best in its problem; null without a direction")
    source: Literal["final", "blocks"]
    verdict: str | None = None
    reason: str | None = None
    margin: Number = None
    noise_floor: Number = None
    session_sd: Number = None
    detectable: Number = None
    blocks: int | None = None
    of_the_final: bool | None = None


class Best(_Part):
    """The variant to recommend."""

    variant: str
    label: str = _LABEL
    id: str
    params: Params
    called: Literal["best", "leader", "first_of_rest"]
    problems: int = Field(description="problems that it is planned for and that have a winner")
    wins: int
    same: int
    not_told_apart: int
    worst_slowdown: Number = Field(description="1.23: 1.23 times the time of the best there")
    worst_slowdown_at: str | None


class Case(_Part):
    """A ratio to the baseline at one problem."""

    problem: str
    ratio: Number
    ratio_low: Number
    ratio_high: Number


class Difference(_Part):
    """Ratios to the baseline; a geometric mean of several has no interval."""

    baseline: str
    ratio: Number
    ratio_low: Number
    ratio_high: Number
    problems: int
    best_case: Case
    worst_case: Case


class Reality(_Part):
    """Is it real: verdicts against the baseline; pairs are smallest and largest."""

    verdicts: dict[str, int]
    margin: tuple[float, float] | None
    noise_floor: tuple[float, float] | None
    detectable: tuple[float, float] | None
    blocks: tuple[float, float] | None
    of_the_final: int


class Reference(_Part):
    """The best of the references against the best of all others."""

    variant: str
    label: str = _LABEL
    id: str
    ratio_to_best_other: Number = Field(description="below 1 the reference is ahead")
    problems: int
    verdicts: dict[str, int]


class Winner(_Part):
    """The winner of one problem."""

    variant: str
    label: str = _LABEL
    cell: str
    value: Number
    source: Literal["final", "blocks"]
    shown_best: bool = Field(description="every other was shown to be slower")
    selection_bias: Number = Field(
        None,
        description="how much too low value reads, relative, were it and those of same and "
        "not_told_apart equal",
    )
    same: list[str]
    not_told_apart: list[str]


class ProblemAnswer(_Part):
    """Winner of a problem, among all and among those that are no references."""

    problem: str
    winner: Winner | None
    best_other: Winner | None


class AnswerPart(_Part):
    """The four answers."""

    metric: str
    best: Best | None
    by_how_much: Difference | None
    is_it_real: Reality | None
    why: AnswerWhy | None = Field(description="null where nothing was explained")
    best_reference: Reference | None
    problems: list[ProblemAnswer]


class SlowVisits(_Part):
    """Timing visits of a cell that took far longer than the others: a second mode, or a tail."""

    count: int
    visits: int
    factor: float = Field(description="median duration of the slow visits ÷ that of all")
    median_ns: float = Field(description="of all timing visits")
    p95_ns: float = Field(description="95th percentile of all timing visits")


class Cell(BaseModel):
    """One cell of the plan; keys of its status (`cause`, `flops`, …) stand beside these."""

    model_config = ConfigDict(extra="allow")

    id: str
    variant: str
    label: str = _LABEL
    problem: str
    variant_params: Params
    problem_params: Params
    outcome: str
    metrics: dict[str, Numbers]
    blocks: dict[str, Numbers] | None = Field(
        description="the primary metric by the timing blocks, where the numbers are of the final"
    )
    slow_visits: SlowVisits | None


class Effect(_Part):
    """A ratio over pairs of variants: after ÷ before."""

    ratio: Number
    ratio_low: Number
    ratio_high: Number
    smallest: Number
    largest: Number


class ProblemEffect(Effect):
    """A step at one problem with its verdict."""

    problem: str
    verdict: str | None
    reason: str | None = None
    margin: Number = None
    noise_floor: Number = None
    session_sd: Number = None
    detectable: Number = None
    blocks: int | None = None
    of_the_final: bool | None = None


class StepPart(Effect):
    """A step over all problems, and at each."""

    verdicts: dict[str, int]
    problems: list[ProblemEffect]


class Rung(_Part):
    """One version of a ladder."""

    number: int
    variant: str
    label: str = _LABEL
    note: str
    before: str | None
    step: StepPart | None
    cumulative: StepPart | None
    ratio_to_baseline: Number = Field(description="geometric mean over the problems")


class GridCell(_Part):
    """A pair of variants at one problem."""

    problem: str
    ratio: Number
    ratio_low: Number
    ratio_high: Number
    dram_bytes_saved: Number
    verdict: str | None
    reason: str | None = None
    margin: Number = None
    noise_floor: Number = None
    session_sd: Number = None
    detectable: Number = None
    blocks: int | None = None
    of_the_final: bool | None = None


class GridPair(_Part):
    """Two variants over a grid: `over` is divided by `under`."""

    over: str
    under: str
    cells: list[GridCell]


class Grid(_Part):
    """Problems that differ in two sizes."""

    name: str
    rows: str
    columns: str
    pairs: list[GridPair]


class Waves(_Part):
    """Tail efficiencies of grids that are counted in waves."""

    variants: list[dict[str, Any]]
    grids: list[dict[str, Any]]


class PracticalRoof(_Part):
    """What a plain kernel reached in this run: a copy, a matrix product of torch."""

    name: str = Field(description="dram, tensor_TYPE, fp32")
    share_pct: Number = Field(description="of the hardware's roof at the clock of the launch")
    fault: str | None = Field(description="why it could not be measured")


class SearchEstimate(_Part):
    """Time of a configuration ÷ time of the baseline, over the objective, by the timer."""

    variant: str
    ratio: Number
    ratio_low: Number = Field(description="95 % interval")
    ratio_high: Number


class SearchTrial(SearchEstimate):
    """One evaluation of a search."""

    number: int
    params: Params
    outcome: str
    cause: str
    stopped_early: bool = Field(description="it was clearly behind before its last block")
    best_so_far: Number
    elapsed_s: float
    worker: str | None = Field(description="name of its GPU; null where no workers measured")


class SearchNoise(_Part):
    """Standard deviations of the logs of ratios."""

    within_looks: float = Field(description="from block to block")
    between_looks: float = Field(description="from one look at a configuration to the next")
    repeated_looks: int


class SearchImportance(_Part):
    """How much each parameter matters."""

    method: str
    explained: float = Field(description="share of the variance that the model predicts unseen")
    shares: dict[str, float] = Field(description="empty where the model explains too little")


class SearchWorker(_Part):
    """A GPU that measured for a search."""

    name: str
    gpu: str | None
    gpu_uuid: str | None = Field(description="a hash")


class SearchPart(_Part):
    """A search before the measurement; what it found was then compared as `answer` says."""

    strategy: str
    seed: int
    objective: str
    baseline: str
    problems: list[str]
    configurations: int
    left_out: int = Field(description="further ones that cannot do every problem")
    tried: int
    untried: int
    outcomes: dict[str, int]
    stopped_early: int
    seconds: float
    ended_by: Literal["budget", "space"] | None = Field(description="null: it did not end")
    best: SearchEstimate | None
    finalists: list[str]
    random_draws: int
    confidence: float
    better_share_below: Number = Field(
        description="share of all configurations that may be better than the best, at most; null "
        "without random draws"
    )
    noise: SearchNoise
    importance: SearchImportance | None
    workers: list[SearchWorker] = Field(description="empty where the GPU of the run measured")
    evaluations: list[SearchTrial]


class Summary(_Part):
    """`summary.json` of a run: raw numbers, units in the keys, missing is null."""

    schema_version: int
    experiment: str
    title: str
    sentence: str = Field(description="the answer in one sentence; empty where nothing is measured")
    created: str
    replayed: dict[str, Any] | None
    environment: dict[str, Any]
    baseline: str | None
    seconds: dict[str, float]
    excluded: list[dict[str, Any]]
    notices: list[dict[str, Any]]
    builds: list[dict[str, Any]]
    answer: AnswerPart
    practical_roofs: list[PracticalRoof] = Field(description="empty where none was tried")
    cells: list[Cell]
    ladder: list[Rung] | None = None
    grids: list[Grid] | None = None
    waves: Waves | None = None
    search: SearchPart | None = None


def schema_text() -> str:
    """The JSON Schema as it stands in docs."""
    return json.dumps(Summary.model_json_schema(), indent=1) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
