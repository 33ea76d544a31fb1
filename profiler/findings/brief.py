"""The answer of a run for a program that reads it again and again: at most 4 kB of JSON.

`make numbers` writes its schema to `docs/check.schema.json`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from profiler.analyse.why.causes import Cause
from profiler.errors import ExitCode, ProfilerError
from profiler.findings.findings import Findings
from profiler.findings.json_model import JsonObject, Number, Source
from profiler.findings.verdicts import PairVerdict, Reason
from profiler.findings.why.cells import CellWhy
from profiler.findings.why.document import (
    MOST_BYTES,
    AnswerWhyDocument,
    rounded,
    shortened,
    why_of_answer,
)
from profiler.findings.why.find import find_why
from profiler.model import Cell, CellStatus, Verdict
from profiler.notices import Severity, severity, text

BRIEF_SCHEMA_VERSION = 1
_MOST_ROWS = 32
_MOST_WHY = 5
_MOST_LETTERS = 500
_MOST_BLOCKS = 10_000
"""More than these are not proposed: what they would show is too small to matter."""
_LEAST_FACTOR = 2.0
"""A few blocks more are no other measurement."""
_SHOWN_SEVERITIES = (Severity.ERROR, Severity.WARNING)


@dataclass(frozen=True, eq=False)
class Checked:
    """Result of a check: findings with the sentences on them, or the error that ended it."""

    exit_code: ExitCode
    findings: Findings | None = None
    sentences: Sequence[str] = ()
    """First sentences of the run: answer, cards, coverage."""
    page: str | None = None
    left_out: str = ""
    """Cells and stages that there was no time for."""
    error: ProfilerError | None = None
    most: int = _MOST_ROWS
    """Rows in each list, at most."""

    @property
    def verdicts(self) -> list[tuple[Cell, PairVerdict]]:
        """Every cell that was compared with the baseline; the recommended variant comes first."""
        if self.findings is None:
            return []
        best, pairs = self.findings.ranking.best, self.findings.verdicts.against_baseline
        judged = [
            (cell, pairs[cell.id])
            for cell in self.findings.programs.plan.cells
            if cell.id in pairs and pairs[cell.id].verdict not in (None, Verdict.NO_DATA)
        ]
        return sorted(judged, key=lambda row: row[0].variant != best)

    @property
    def failures(self) -> list[tuple[Cell, CellStatus]]:
        """Cells without a right result, and those that were not measured."""
        if self.findings is None:
            return []
        programs = self.findings.programs
        rows = ((cell, programs.status(cell)) for cell in programs.plan.cells)
        return [(cell, status) for cell, status in rows if not status.outcome.correct]

    @property
    def unclear(self) -> list[PairVerdict]:
        """Pairs that were compared without a result."""
        return [pair for _, pair in self.verdicts if pair.verdict is Verdict.UNCLEAR]


def _shortened(sentence: str) -> str:
    return shortened(sentence, _MOST_LETTERS)


def _of_findings(value: Callable[[Findings], Any]) -> Callable[[Checked], Any]:
    return lambda checked: None if checked.findings is None else value(checked.findings)


def _why(checked: Checked) -> Any:
    if checked.findings is None:
        return None
    explained_pair = why_of_answer(checked.findings)
    if explained_pair is None:
        return None
    explained, against = explained_pair
    return replace(explained, most=min(checked.most, _MOST_WHY)), against


def _costs(checked: Checked) -> tuple[Cell, CellWhy, int] | None:
    """The explained cell that `why` is about; without such a pair, that of the leader."""
    if checked.findings is None:
        return None
    run, ranking = find_why(checked.findings), checked.findings.ranking
    most = min(checked.most, _MOST_WHY)
    if run.answer is not None:
        return run.answer.cell, run.answer.first, most
    of_leader = (
        (cell, run.cells[cell.id], most)
        for cell in checked.findings.programs.cells
        if cell.id in run.cells and ranking.leader and cell.variant == ranking.leader.variant
    )
    return next(of_leader, None)


class CostDocument(JsonObject):
    """A cause that counters show in one kernel."""

    get = Source[Cause]()
    name: str = get(lambda cause: cause.name)
    """docs/explain.md lists the counters of each"""
    share_pct: Number = get(lambda cause: rounded(100 * cause.share))
    """of the duration; they overlap"""


class CostsDocument(JsonObject):
    """What an explained cell loses most time to: the first cause is what to mend next."""

    get = Source[tuple[Cell, CellWhy, int]]()
    variant: str = get(lambda costs: costs[0].variant.name)
    problem: str = get(lambda costs: costs[0].problem.name)
    limit: str | None = get(lambda costs: costs[1].kernels[0].limit if costs[1].kernels else None)
    """as in the tree of `explain --json`"""
    causes = get.rows(
        CostDocument,
        lambda costs: [cause for cause, _ in costs[1].costs[: costs[2]]],
        most=_MOST_WHY,
    )


class JudgedDocument(JsonObject):
    """A variant against the baseline at one problem."""

    get = Source[tuple[Cell, PairVerdict]]()
    variant: str = get(lambda row: row[0].variant.name)
    problem: str = get(lambda row: row[0].problem.name)
    verdict: Literal["faster", "slower", "same", "unclear"] = get.one_of(
        lambda row: row[1].verdict and row[1].verdict.value
    )
    duration_ns: Number = get(lambda row: rounded(row[1].median))
    ratio: Number = get(lambda row: rounded(row[1].ratio))
    """duration over that of the baseline, with its 95 % interval"""
    ratio_low: Number = get(lambda row: rounded(row[1].low))
    ratio_high: Number = get(lambda row: rounded(row[1].high))
    detectable: Number = get(lambda row: rounded(row[1].resolution.detectable))
    """relative difference that these blocks would have shown"""
    blocks: int = get(lambda row: row[1].blocks)


class FailureDocument(JsonObject):
    """A cell without a right result."""

    get = Source[tuple[Cell, CellStatus]]()
    variant: str = get(lambda row: row[0].variant.name)
    problem: str = get(lambda row: row[0].problem.name)
    outcome: str = get(lambda row: row[1].outcome.value)
    cause: str = get(lambda row: _shortened(row[1].cause))
    """with file and line of the user's code where it was raised there"""


class SettleDocument(JsonObject):
    """What would decide the open verdicts."""

    get = Source[Checked]()
    unclear: int = get(lambda checked: len(checked.unclear))
    blocks: int | None = get(lambda checked: blocks_to_settle(checked.unclear))
    """for `--blocks`, which adds to those that were measured; null where more would not tell"""
    left_out: str = get(lambda checked: checked.left_out)
    """what `--budget` left out: without it, the same command goes on"""


class ErrorDocument(JsonObject):
    """Why nothing was measured."""

    get = Source[ProfilerError]()
    message: str = get(lambda error: _shortened(error.message))
    remedy: str | None = get(lambda error: error.remedy and _shortened(error.remedy))


class BriefDocument(JsonObject):
    """What `profiler check --json -` prints: at most 4,096 bytes, units in the keys."""

    get = Source[Checked]()
    schema_version: Literal[1] = get.one_of(lambda _: BRIEF_SCHEMA_VERSION)
    exit_code: int = get(lambda checked: int(checked.exit_code))
    error = get.nested(ErrorDocument, lambda checked: checked.error)
    experiment: str | None = get(_of_findings(lambda findings: findings.report.experiment.name))
    gpu: str | None = get(_of_findings(lambda findings: findings.report.environment.processor))
    answer: list[str] = get(
        lambda checked: [_shortened(sentence) for sentence in checked.sentences]
    )
    """which is best, by how much, is it real, why, and what was measured, in a sentence each"""
    best: str | None = get(
        _of_findings(
            lambda findings: findings.ranking.leader and findings.ranking.leader.variant.name
        )
    )
    """variant to recommend; the baseline where it beats the rest"""
    baseline: str | None = get(
        _of_findings(
            lambda findings: findings.programs.baseline and findings.programs.baseline.name
        )
    )
    verdicts = get.rows(JudgedDocument, lambda checked: checked.verdicts[: checked.most])
    verdicts_left_out: int = get(lambda checked: max(len(checked.verdicts) - checked.most, 0))
    """of those that have no room here; the page and `summary.json` have all"""
    failures = get.rows(FailureDocument, lambda checked: checked.failures[: checked.most])
    failures_left_out: int = get(lambda checked: max(len(checked.failures) - checked.most, 0))
    settle = get.nested(
        SettleDocument, lambda checked: checked if checked.unclear or checked.left_out else None
    )
    why = get.nested(AnswerWhyDocument, _why)
    """null where nothing was explained, or only one variant"""
    costs = get.nested(CostsDocument, _costs)
    """of the best, or of the first of the rest, where these were explained"""
    warnings: list[str] = get(lambda checked: _warnings(checked)[: checked.most])
    page: str | None = get(lambda checked: checked.page)


def _warnings(checked: Checked) -> list[str]:
    notices = () if checked.findings is None else checked.findings.notices
    return [_shortened(text(notice)) for notice in notices if severity(notice) in _SHOWN_SEVERITIES]


def brief(checked: Checked) -> dict[str, Any]:
    """Document of a check; lists are cut shorter until it has at most `MOST_BYTES`."""
    most = _MOST_ROWS
    document = BriefDocument.document(checked)
    while len(json.dumps(document)) >= MOST_BYTES and most:  # the line end counts as well
        most -= 1
        document = BriefDocument.document(replace(checked, most=most))
    return document


def blocks_to_settle(pairs: Iterable[PairVerdict]) -> int | None:
    """Number of blocks that would decide undecided pairs, were their ratios true; None: no number.

    What blocks can tell apart shrinks with the root of their number: they must show either the
    measured difference or, where that is within the margin, that it stays there.
    """
    needed = [_blocks_of(pair) for pair in pairs if pair.reason is Reason.MORE_BLOCKS_NEEDED]
    enough = [blocks for blocks in needed if blocks <= _MOST_BLOCKS]
    return math.ceil(round(max(enough), 6)) if enough else None


def _blocks_of(pair: PairVerdict) -> float:
    effect, margin = abs(pair.ratio - 1), pair.resolution.margin
    if effect > margin:
        detectable, needed = pair.resolution.detectable, effect
    else:
        detectable, needed = (pair.high - pair.low) / 2, margin - effect
    if not (detectable > 0 and needed > 0):
        return math.inf
    return pair.blocks * max((detectable / needed) ** 2, _LEAST_FACTOR)
