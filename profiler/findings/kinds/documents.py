"""Objects of `summary.json` that kinds of page add: versions of a ladder, grids, waves."""

from __future__ import annotations

from typing import Any

from profiler.analyse.effects import Effect
from profiler.findings.answer import verdict_counts
from profiler.findings.json_model import JsonObject, Number, Source
from profiler.findings.kinds.grid_axes import Grid
from profiler.findings.kinds.grid_pairs import GridCell, GridPairs, VariantPair
from profiler.findings.kinds.steps import Rung, StepEffect
from profiler.findings.kinds.waves import Steady, WaveFindings
from profiler.findings.values import NAN
from profiler.findings.verdicts import PairVerdict
from profiler.model import Variant


class NamedDocument(JsonObject):
    """A variant by its full name, and by the short one that page and console have."""

    get = Source[Variant]()
    variant: str = get(lambda variant: variant.name)
    label: str = get(lambda variant: variant.label)
    """short name of the variant, as page and console have it"""


class VerdictNumbersDocument(JsonObject):
    """What a verdict rests on."""

    get = Source[PairVerdict]()
    reason: str | None = get(lambda pair: pair.reason.value)
    margin: Number = get(lambda pair: pair.margin)
    noise_floor: Number = get(lambda pair: pair.noise_floor)
    session_sd: Number = get(lambda pair: pair.session_sd)
    detectable: Number = get(lambda pair: pair.detectable)
    blocks: int | None = get(lambda pair: pair.blocks)
    of_the_final: bool | None = get(lambda pair: pair.final)


class VerdictPartDocument(JsonObject):
    """A verdict with its reason and the numbers behind it; null without one."""

    get = Source[PairVerdict]()
    verdict: str | None = get(lambda pair: pair.verdict and pair.verdict.value)
    numbers = get.spread(
        VerdictNumbersDocument, lambda pair: pair if pair.verdict else None, optional=True
    )


# ---- a ladder ------------------------------------------------------------------------------------


class EffectDocument(JsonObject):
    """A ratio over pairs of variants: after ÷ before."""

    get = Source[Effect]()
    ratio: Number = get(lambda effect: effect.ratio if effect.pairs else NAN)
    ratio_low: Number = get(lambda effect: effect.low)
    ratio_high: Number = get(lambda effect: effect.high)
    smallest: Number = get(lambda effect: effect.smallest)
    largest: Number = get(lambda effect: effect.largest)


class ProblemEffectDocument(JsonObject):
    """A step at one problem with its verdict."""

    get = Source[tuple[Effect, PairVerdict]]()
    problem: str = get(lambda judged: judged[0].problem)
    effect = get.spread(EffectDocument, lambda judged: judged[0])
    verdict = get.spread(VerdictPartDocument, lambda judged: judged[1])


class StepPartDocument(JsonObject):
    """A step over all problems, and at each."""

    get = Source[StepEffect]()
    effect = get.spread(EffectDocument, lambda step: step.overall)
    verdicts: dict[str, int] = get(lambda step: verdict_counts(step.verdicts))
    problems: list[ProblemEffectDocument] = get.rows(
        ProblemEffectDocument, lambda step: zip(step.effects, step.verdicts, strict=True)
    )


class RungDocument(JsonObject):
    """One version of a ladder."""

    get = Source[Rung]()
    number: int = get(lambda rung: rung.number)
    named = get.spread(NamedDocument, lambda rung: rung.variant)
    note: str = get(lambda rung: rung.variant.note)
    before: str | None = get(lambda rung: rung.before.name if rung.before else None)
    step: StepPartDocument | None = get.nested(StepPartDocument, lambda rung: rung.step)
    cumulative: StepPartDocument | None = get.nested(StepPartDocument, lambda rung: rung.cumulative)
    ratio_to_baseline: Number = get(lambda rung: rung.ratio)
    """geometric mean over the problems"""


# ---- grids ---------------------------------------------------------------------------------------


class GridCellDocument(JsonObject):
    """A pair of variants at one problem."""

    get = Source[GridCell]()
    problem: str = get(lambda cell: cell.problem.id)
    ratio: Number = get(lambda cell: cell.verdict.ratio)
    ratio_low: Number = get(lambda cell: cell.verdict.low)
    ratio_high: Number = get(lambda cell: cell.verdict.high)
    dram_bytes_saved: Number = get(lambda cell: cell.saved)
    verdict = get.spread(VerdictPartDocument, lambda cell: cell.verdict)


class GridPairDocument(JsonObject):
    """Two variants over a grid: `over` is divided by `under`."""

    get = Source[tuple[VariantPair, tuple[GridCell, ...]]]()
    over: str = get(lambda compared: compared[0].over.name)
    under: str = get(lambda compared: compared[0].under.name)
    cells: list[GridCellDocument] = get.rows(GridCellDocument, lambda compared: compared[1])


class GridDocument(JsonObject):
    """Problems that differ in two sizes."""

    get = Source[tuple[Grid, GridPairs]]()
    name: str = get(lambda shown: shown[0].name)
    rows: str = get(lambda shown: shown[0].rows)
    columns: str = get(lambda shown: shown[0].columns)
    pairs: list[GridPairDocument] = get.rows(
        GridPairDocument,
        lambda shown: [
            (pair, cells) for pair in shown[1].shown if (cells := shown[1].of(pair, shown[0]))
        ],
    )


# ---- waves ---------------------------------------------------------------------------------------


class WaveNeedDocument(JsonObject):
    """Smallest grid of a variant from which on its tail efficiency stays good."""

    get = Source[Steady]()
    variant: str = get(lambda need: need.variant)
    good_from_waves: Number = get(lambda need: need.waves)
    good_from_blocks_per_sm: Number = get(lambda need: need.blocks_per_sm)
    measured_up_to_waves: Number = get(lambda need: need.largest_waves)
    rule_grids: int = get(lambda need: need.rule_grids)
    rule_least_efficiency: Number = get(lambda need: need.rule_least)
    rule_least_at_waves: Number = get(lambda need: need.rule_least_at)
    rule_holds: bool | None = get(lambda need: need.rule_holds)


class WavesDocument(JsonObject):
    """Tail efficiencies of grids that are counted in waves."""

    get = Source[WaveFindings]()
    variants: list[WaveNeedDocument] = get.rows(WaveNeedDocument, lambda waves: waves.needs)
    grids: list[dict[Any, Any]] = get(lambda waves: waves.grids.to_dict("records"))
