"""One launch on an idle GPU against launches that follow each other: durations, verdicts, power.

The verdicts of both are given by the same rules, each in a family of its own: they are about
different quantities, and no verdict mixes them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from profiler.analyse.judge import Judge, Pair, Rules, times_of
from profiler.analyse.why.account import logarithmic_mean
from profiler.collect.timer import SUSTAINED
from profiler.findings.cell_numbers import NOTHING, CellNumbers, Value
from profiler.findings.json_model import JsonObject, Number, Source
from profiler.findings.kinds.timers import reference_collector
from profiler.findings.verdicts import NO_VERDICT, PairVerdict, Reason, VerdictPartDocument, judged
from profiler.model import Cell, SessionKind, Verdict
from profiler.run_folder.load.report import Report

MOSTLY_LIMITED_PCT = 50.0
"""From so many readings on that name the power limit, a kernel is held by it."""
_DURATION, _CLOCK = "duration_ns", "sm_clock_ghz"
_WORDS = (Verdict.FASTER, Verdict.SAME, Verdict.SLOWER)


@dataclass(frozen=True)
class SustainedCell:
    """A cell once on an idle GPU (cold) and back to back; NaN is not known."""

    cell: Cell
    values: Mapping[str, Value]
    """By metric."""
    cold_verdict: PairVerdict
    """Against the baseline, as everywhere else."""
    verdict: PairVerdict
    """Against the baseline, both back to back."""

    def median(self, metric: str) -> float:
        """Median of a metric in this cell."""
        return self.values.get(metric, NOTHING).median

    @property
    def cold_ns(self) -> float:
        """Duration of one launch on an idle GPU."""
        return self.median(_DURATION)

    @property
    def sustained_ns(self) -> float:
        """Duration of a launch among others."""
        return self.median(SUSTAINED.metric or "")

    @property
    def cold_share(self) -> float:
        """Cold ÷ sustained duration: below 1 it is slower when it is used."""
        return self.cold_ns / self.sustained_ns if self.sustained_ns else math.nan

    @property
    def cold_clock_ghz(self) -> float:
        """Clock of one launch, from its cycles."""
        return self.median(_CLOCK)

    @property
    def clock_ghz(self) -> float:
        """Clock of a launch among others, by NVML."""
        return self.median("sustained_clock_ghz")

    @property
    def clock_ns(self) -> float:
        """Part of sustained - cold duration that is the clock's; NaN where one is not known.

        Where the power limit holds the kernel it is the limit's, else of another cause.
        duration = cycles / clock, decomposed as in `profiler.analyse.why.account`.
        """
        clocks, durations = (self.cold_clock_ghz, self.clock_ghz), (self.sustained_ns, self.cold_ns)
        if not all(value > 0 for value in (*clocks, *durations)):
            return math.nan
        return logarithmic_mean(*durations) * math.log(clocks[0] / clocks[1])

    @property
    def cycles_ns(self) -> float:
        """The other part: more cycles, or fewer."""
        return self.sustained_ns - self.cold_ns - self.clock_ns

    @property
    def is_power_limited(self) -> bool:
        """Whether the power limit holds its clock."""
        return self.median("power_limited_pct") >= MOSTLY_LIMITED_PCT

    @property
    def differs(self) -> bool:
        """Whether both verdicts were given and are others.

        A cold one that is UNCLEAR since cycles do not confirm the time counts: the clock of use
        decides then.
        """
        cold, sustained = self.cold_verdict.verdict, self.verdict.verdict
        known = cold in _WORDS or self.cold_verdict.reason is Reason.CLOCK
        return known and sustained in _WORDS and cold != sustained


@dataclass(frozen=True)
class SustainedFindings:
    """Cells that were measured both ways."""

    reference: str
    """Collector of the cold durations."""
    cells: tuple[SustainedCell, ...]

    @property
    def differing(self) -> tuple[SustainedCell, ...]:
        """Cells whose verdict is another when they are used, contrary ones first."""
        cells = [cell for cell in self.cells if cell.differs]
        return tuple(sorted(cells, key=lambda cell: cell.verdict.verdict is Verdict.SAME))


def find_sustained(
    report: Report,
    numbers: CellNumbers,
    against_baseline: Mapping[str, PairVerdict],
    pairs: Mapping[str, Pair],
    sources: Mapping[str, str],
) -> SustainedFindings | None:
    """Compare cells as they are measured both ways; None where they are not.

    `against_baseline`, `pairs`: verdict, and pair with the baseline of its problem, by cell id.
    `sources`: the cell that was measured, by id of each cell without samples of its own.
    """
    samples = report.measured.samples
    reference = reference_collector(samples)
    if reference in (None, SUSTAINED.name) or SUSTAINED.name not in samples["collector"].unique():
        return None
    times = times_of(samples, report.plan.cells, SessionKind.TIMING, collector=SUSTAINED.name)
    judge = Judge(times, report.plan.baseline, Rules(looks=1, delta=report.rules.delta))
    verdicts = judged(judge, dict.fromkeys(pairs.values(), "baseline"), sources)
    by_cell: dict[str, dict[str, Value]] = {}
    for (cell, metric), value in numbers.values.items():
        by_cell.setdefault(cell, {})[metric] = value
    measured = [
        SustainedCell(
            cell,
            by_cell.get(name, {}),
            against_baseline.get(name, NO_VERDICT),
            verdicts.get(pairs[name], NO_VERDICT) if name in pairs else NO_VERDICT,
        )
        for name, cell in numbers.programs.correct_cells.items()
    ]
    both = tuple(cell for cell in measured if cell.sustained_ns > 0 and cell.cold_ns > 0)
    return SustainedFindings(reference or "", both) if both else None


class SustainedDocument(JsonObject):
    """A cell back to back: its verdict against the baseline beside that of one launch."""

    get = Source[SustainedCell]()
    cell: str = get(lambda of: of.cell.id)
    cold_ns: Number = get(lambda of: of.cold_ns)
    sustained_ns: Number = get(lambda of: of.sustained_ns)
    cold_verdict: str | None = get(
        lambda of: of.cold_verdict.verdict and of.cold_verdict.verdict.value
    )
    clock_ns: Number = get(lambda of: of.clock_ns)
    cycles_ns: Number = get(lambda of: of.cycles_ns)
    power_limited: bool = get(lambda of: of.is_power_limited)
    ratio: Number = get(lambda of: of.verdict.ratio)
    ratio_low: Number = get(lambda of: of.verdict.low)
    ratio_high: Number = get(lambda of: of.verdict.high)
    sustained = get.spread(VerdictPartDocument, lambda of: of.verdict)
