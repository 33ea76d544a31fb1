"""Caveats of a run's numbers, as typed notices."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from profiler.analyse.clocks import cell_clocks
from profiler.analyse.judge import Judge, mixed_launches
from profiler.analyse.samples import metric_columns
from profiler.analyse.summary import SlowVisits
from profiler.metrics.catalogue import CATALOGUE
from profiler.model import (
    FEWEST_BLOCKS,
    Cell,
    CellFacts,
    CellStatus,
    Environment,
    Outcome,
    Plan,
    SessionKind,
)
from profiler.notices import Notice, NoticeKind, all_problems, first_names
from profiler.planning.problem_names import short_names
from profiler.planning.readiness import blocks_for_verdicts
from profiler.run_folder.load.report import Report

Values = dict[str, str | int | float]

_MANY_MISSING = 0.5
"""Share of the values of a cell that may be missing before it is said."""
_P95_APART = 1.01
"""The 95th percentile of a cell's visits is named from this ratio to their median on."""
CLOCKS_DIFFER = 0.02
"""Relative difference of two clocks from which on a ratio of times is none of cycles."""
_LESS_EXACT, _LESS_EXACT_HALF = 256.0, 8.0
"""Times the baseline's largest error from which on a type is suspected: TF32 and float16 have 8,192
times the rounding step of float32; a float16 that adds up in float16 is 10 to 100 times as wrong as
one that is rounded at its end."""
_SHOWN = 4
"""Names of problems in a sentence, before it says how many there are."""


def caveats(report: Report, judges: tuple[Judge, Judge]) -> tuple[Notice, ...]:
    """Every caveat of a run, the ones that cost most first.

    Problems have their short names, as on the page. `judges`: of the blocks in which every cell was
    measured, and of the final.
    """
    names = list(_usable(report))
    samples = report.measured.samples
    usable = samples[samples["cell"].isin(names)]
    timing, final = (judge.times[judge.times["cell"].isin(names)] for judge in judges)
    return (
        *_failed(report.statuses),
        *_wrong(report.statuses),
        *_other_types(report),
        *_less_exact(report),
        *_too_few_bytes(report),
        *_other_environments(report.plan),
        *_draws(report, timing),
        *_not_measured(report.statuses),
        *_missing_metrics(report),
        *_missing_values(usable),
        *_disagreeing_parts(usable),
        *_few_blocks(usable, report.plan),
        *_no_baseline(report),
        *_noise(judges[0], timing, report.plan),
        *_mixed_launches(timing, report.plan),
        *_shift(timing, final, judges[0].rules.delta, report.plan),
        *_clocks(report.environment),
        *_clocks_differ(usable, report.plan),
        *_serialized_wgmma(report),
        *_aliases(report),
    )


def _usable(report: Report) -> dict[str, CellStatus]:
    """Statuses of the cells that are ranked, by id."""
    return {id_: status for id_, status in report.statuses.items() if status.outcome.correct}


def _failed(statuses: Mapping[str, CellStatus]) -> Iterable[Notice]:
    outcomes = Counter(
        s.outcome.value.replace("_", " ") for s in statuses.values() if s.outcome.failed
    )
    if outcomes:
        causes = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
        values: Values = {"count": outcomes.total(), "total": len(statuses), "causes": causes}
        yield Notice(NoticeKind.FAILED_CELLS, values)


def _wrong(statuses: Mapping[str, CellStatus]) -> Iterable[Notice]:
    wrong = [cell for cell, s in statuses.items() if s.outcome is Outcome.WRONG_RESULT]
    if wrong:
        yield Notice(NoticeKind.WRONG_RESULTS, {"count": len(wrong), "cells": first_names(wrong)})


def _other_types(report: Report) -> Iterable[Notice]:
    """Variants whose results have other dtypes than the baseline's at the same problem."""
    cells = report.plan.cells
    dtypes = {id_: ", ".join(status.facts.result_dtypes) for id_, status in _usable(report).items()}
    baselines = report.plan.baseline_cells
    expected = {problem: dtypes.get(cell.id, "") for problem, cell in baselines.items()}
    variants: dict[tuple[str, str], dict[str, None]] = {}
    for cell in cells:
        types = dtypes.get(cell.id, ""), expected.get(cell.problem.id, "")
        if all(types) and types[0] != types[1]:
            variants.setdefault(types, {})[cell.variant.label] = None
    if variants:
        results = "; ".join(
            f"{result_dtypes} instead of {usual} ({first_names([*names])})"
            for (result_dtypes, usual), names in variants.items()
        )
        yield Notice(NoticeKind.RESULTS_OF_OTHER_TYPES, {"results": results})


def _less_exact(report: Report) -> Iterable[Notice]:
    """Variants with results of the baseline's types whose errors no order of adding explains."""
    facts_by_cell = {id_: status.facts for id_, status in _usable(report).items()}
    baselines = report.plan.baseline_cells
    baseline_facts = {problem: facts_by_cell.get(cell.id) for problem, cell in baselines.items()}
    factors: dict[str, float] = {}
    for cell in report.plan.cells:
        facts, baseline = facts_by_cell.get(cell.id), baseline_facts.get(cell.problem.id)
        if facts is None or baseline is None or facts.result_dtypes != baseline.result_dtypes:
            continue
        error, least = facts.max_abs_error or 0.0, baseline.max_abs_error or 0.0
        is_half = any(name.endswith("float16") for name in facts.result_dtypes)
        if least > 0 and error > least * (_LESS_EXACT_HALF if is_half else _LESS_EXACT):
            factors[cell.variant.label] = max(error / least, factors.get(cell.variant.label, 0.0))
    if factors:
        values = {"variants": first_names([*factors]), "factor": f"{max(factors.values()):,.0f}"}
        yield Notice(NoticeKind.LESS_EXACT, values)


def _too_few_bytes(report: Report) -> Iterable[Notice]:
    """Problems whose declared bytes are fewer than every right variant writes of its result."""
    usable = _usable(report)
    least: dict[str, tuple[float, float]] = {}
    for cell in report.plan.cells:
        facts = usable[cell.id].facts if cell.id in usable else CellFacts()
        if facts.bytes is not None and facts.written_bytes is not None:
            written = min(facts.written_bytes, least.get(cell.problem.id, (0.0, math.inf))[1])
            least[cell.problem.id] = facts.bytes, written
    few = {problem: amounts for problem, amounts in least.items() if amounts[0] < amounts[1]}
    if few:
        first, (declared, written) = next(iter(few.items()))
        values: Values = {
            "count": len(few),
            "problems": len(report.plan.problems),
            "declared": f"{declared:,.6g}",
            "written": f"{written:,.0f}",
            "first": short_names(report.plan.problems)[first],
        }
        yield Notice(NoticeKind.BYTES_TOO_FEW, values)


def _other_environments(plan: Plan) -> Iterable[Notice]:
    """Variants whose processes have variables of their own."""
    variants = {cell.variant.label: cell.variant.env for cell in plan.cells if cell.variant.env}
    if variants:
        environments = [
            f"{label}: {' '.join(f'{name}={value}' for name, value in env.items())}"
            for label, env in variants.items()
        ]
        yield Notice(NoticeKind.OTHER_ENVIRONMENTS, {"variants": first_names(environments)})


def _mixed_launches(timing: pd.DataFrame, plan: Plan) -> Iterable[Notice]:
    """Cells whose launches of one visit are of several kinds."""
    mixed = mixed_launches(timing)
    if mixed:
        values: Values = {
            "count": len(mixed),
            "spread": f"{max(mixed.values()):.2g}",
            "cells": first_names([_cell_name(cell) for cell in plan.cells if cell.id in mixed]),
        }
        yield Notice(NoticeKind.MIXED_LAUNCHES, values)


def _tuned_otherwise(report: Report) -> Iterable[Notice]:
    """Cells that one session ran in another configuration than the session that timed them."""
    tuning = {id_: status.tuning for id_, status in _usable(report).items()}
    cells = [
        cell for cell in report.plan.cells if cell.id in tuning and tuning[cell.id].other_sessions
    ]
    if cells:
        sessions = dict.fromkeys(name for cell in cells for name in tuning[cell.id].other_sessions)
        values: Values = {
            "count": len(cells),
            "total": sum(bool(of_cell.tried) for of_cell in tuning.values()),
            "sessions": ", ".join(sessions),
            "cells": first_names([_cell_name(cell) for cell in cells]),
        }
        yield Notice(NoticeKind.TUNED_OTHERWISE, values)


def _draws(report: Report, times: pd.DataFrame) -> Iterable[Notice]:
    """Cells that an autotuner made one of several programs of; or once more in each block."""
    recompiled = any(session.recompiles for session in report.plan.sessions)
    if not recompiled:
        yield from _tuned_otherwise(report)
    drawn = sum(status.tuning.is_drawn for status in _usable(report).values())
    if drawn and recompiled:
        yield Notice(NoticeKind.DRAWS, {"count": drawn, "blocks": times["block"].nunique()})
    elif drawn:
        yield Notice(NoticeKind.ONE_DRAW, {"count": drawn})


def _not_measured(statuses: Mapping[str, CellStatus]) -> Iterable[Notice]:
    count = sum(s.outcome is Outcome.NOT_MEASURED for s in statuses.values())
    if count:
        yield Notice(NoticeKind.NOT_MEASURED, {"count": count, "total": len(statuses)})


def _missing_metrics(report: Report) -> Iterable[Notice]:
    """Metrics that measured cells lack; one that failed half-way has a notice already.

    What the runner says of a cell is left out: a version that compiles nothing has no compile time,
    and on a CPU nobody counts buffers. The cell names it all the same.
    """
    usable = _usable(report).values()
    lacking = [lost for status in usable if (lost := _collected(status.missing_metrics))]
    names = dict.fromkeys(name for lost in lacking for name in lost)
    if names:
        values: Values = {"metrics": ", ".join(names), "count": len(lacking)}
        yield Notice(NoticeKind.MISSING_METRICS, values)


def _missing_values(samples: pd.DataFrame) -> Iterable[Notice]:
    """Metrics of which a session gave some cells a value in few of their samples only.

    One without any value is a missing metric, or one of another session.
    """
    metrics = [name for name in metric_columns(samples) if _from_tool(name)]
    by_cell = samples.groupby(["session", "cell"], sort=False)
    count = by_cell.size()
    values = by_cell[metrics].count()
    missing = 1 - values.div(count, axis=0)
    many = (missing >= _MANY_MISSING) & (values > 0)
    if not many.to_numpy().any():
        return
    cells = many.any(axis=1).groupby("cell").any()
    shares = missing.where(many).max(axis=1).groupby("cell").max()
    notice_values: Values = {
        "count": int(cells.sum()),
        "metrics": first_names([name for name in metrics if many[name].any()]),
        "share": round(100 * float(shares.max())),
        "cell": str(shares.idxmax()),
    }
    yield Notice(NoticeKind.VALUES_MISSING, notice_values)


def _disagreeing_parts(samples: pd.DataFrame) -> Iterable[Notice]:
    """Rates that cells lack although their parts were counted: in launches that disagree."""
    for name in metric_columns(samples):
        metric = CATALOGUE.get(name)
        if metric is None or math.isinf(metric.most) or not {*metric.needs} <= {*samples}:
            continue
        largest = samples.groupby("cell", sort=False)[[name, *metric.needs]].max()
        lacking = largest.index[(largest[[*metric.needs]] > 0).all(axis=1) & largest[name].isna()]
        if len(lacking):
            values: Values = {
                "count": len(lacking),
                "metric": name,
                "cells": first_names([*lacking]),
            }
            yield Notice(NoticeKind.PARTS_DISAGREE, values)


def _from_tool(metric: str) -> bool:
    """Whether each sample has a value of its own, which the runner's and the build's have not."""
    return metric not in CATALOGUE or CATALOGUE[metric].source not in ("runner", "ptxas")


def _collected(names: Iterable[str]) -> tuple[str, ...]:
    """Metrics that a tool or the build should have given."""
    runner_metrics = {name for name, metric in CATALOGUE.items() if metric.source == "runner"}
    return tuple(name for name in names if name not in runner_metrics)


def _few_blocks(samples: pd.DataFrame, plan: Plan) -> Iterable[Notice]:
    """Fewest blocks of any cell that is ranked; one that failed half-way has a notice already."""
    timing = samples[samples["kind"] == SessionKind.TIMING.value]
    if len(timing):
        blocks = int(timing.groupby("cell")["block"].nunique().min())
        if blocks < FEWEST_BLOCKS:
            values = {"blocks": blocks, "needed": blocks_for_verdicts(plan)}
            yield Notice(NoticeKind.FEW_BLOCKS, values)


def _no_baseline(report: Report) -> Iterable[Notice]:
    plan, usable = report.plan, _usable(report)
    if plan.baseline is None:
        return
    names = short_names(plan.problems)
    measured = {cell.problem.id for cell in plan.cells if cell.id in usable}
    good = {problem for problem, cell in plan.baseline_cells.items() if cell.id in usable}
    lacking = [name for problem, name in names.items() if problem in measured - good]
    if lacking:
        values = {"baseline": plan.baseline, "problems": _some_or_count(lacking, len(names))}
        yield Notice(NoticeKind.NO_BASELINE, values)


def _noise(judge: Judge, times: pd.DataFrame, plan: Plan) -> Iterable[Notice]:
    """Notices on problems where the baseline varies by more than the margin, or nobody looked.

    With fewer blocks than a verdict needs another notice says so already.
    """
    delta = judge.rules.delta
    baseline_times = times[times["variant"] == judge.baseline]
    blocks = baseline_times[baseline_times["arm"] == 0].groupby("problem")["block"].nunique()
    judged = [str(problem) for problem in blocks[blocks >= FEWEST_BLOCKS].index]
    compared = times.groupby("problem")["variant"].nunique()
    judged = [problem for problem in judged if compared[problem] > 1]
    if not judged:
        return
    effects = np.expm1(judge.floors["duration_ns"].reindex(judged))
    names = short_names(plan.problems)
    unknown = [names[problem] for problem in judged if np.isnan(effects[problem])]
    if unknown:
        values: Values = {"problems": _all_or_some(unknown, judged), "margin": _percent(delta)}
        yield Notice(NoticeKind.NOISE_FLOOR_UNKNOWN, values)
    noisy = [problem for problem in judged if effects[problem] > delta]
    if noisy:
        worst = max(noisy, key=lambda problem: float(effects[problem]))
        values = {
            "problems": _all_or_some([names[problem] for problem in noisy], judged),
            "margin": _percent(delta),
            "floor": _percent(float(effects[worst])),
            "most": f", most at {names[worst]}" if len(noisy) > 1 else "",
        }
        yield Notice(NoticeKind.NOISE_FLOOR_ABOVE_MARGIN, values)


def _shift(timing: pd.DataFrame, final: pd.DataFrame, delta: float, plan: Plan) -> Iterable[Notice]:
    """Notices on problems where the baseline itself took longer or shorter in the final."""
    before, after = (_baseline_medians(times, plan.baseline) for times in (timing, final))
    shifts = (after / before - 1).dropna()
    beyond = shifts[shifts.abs() > delta]
    if beyond.empty:
        return
    names = short_names(plan.problems)
    worst = str(beyond.abs().idxmax())
    values: Values = {
        "problems": _all_or_some([names[str(problem)] for problem in beyond.index], shifts),
        "longer": "longer" if float(beyond[worst]) > 0 else "less time",
        "shift": _percent(abs(float(beyond[worst]))),
        "worst": names[worst],
        "margin": _percent(delta),
    }
    yield Notice(NoticeKind.BASELINE_SHIFTED, values)


def _baseline_medians(times: pd.DataFrame, baseline: str | None) -> pd.Series[float]:
    return times[times["variant"] == baseline].groupby("problem")["duration_ns"].median()


def slow_visits_notice(cells: Sequence[Cell], slow: Mapping[str, SlowVisits]) -> Notice | None:
    """Notice on the cell of the answer with most slow visits, and how many others have some."""
    slow_cells = {cell.id: cell for cell in cells if cell.id in slow}
    if not slow_cells:
        return None
    worst = max(slow_cells.values(), key=lambda cell: slow[cell.id].share * slow[cell.id].factor)
    visits, other_cells = slow[worst.id], len(slow_cells) - 1
    p95 = visits.p95 / visits.median
    more = f"; {other_cells} more cells of the answer have such visits" if other_cells > 1 else ""
    values: Values = {
        "cell": _cell_name(worst),
        "count": visits.count,
        "visits": visits.visits,
        "factor": _times(visits.factor),
        "p95": f" (p95: {_times(p95)})" if p95 >= _P95_APART else "",
        "more": "; one more cell of the answer has such visits" if other_cells == 1 else more,
    }
    return Notice(NoticeKind.SLOW_VISITS, values)


def _times(factor: float) -> str:
    return f"{factor:.2f}\N{MULTIPLICATION SIGN}"


def _percent(effect: float) -> str:
    """A relative effect with its unit; above 100 % a factor."""
    return _times(1 + effect) if effect > 1 else f"{100 * effect:.2f}\u202f%"


def _all_or_some(names: Sequence[str], among: Sequence[object] | pd.Series[float]) -> str:
    """Names, unless it is all of several, or many."""
    if len(names) == len(among) > 1:
        return all_problems(len(among))
    return _some_or_count(names, len(among))


def _some_or_count(names: Sequence[str], among: int) -> str:
    """Names of a few problems; of more, how many they are."""
    if len(names) > _SHOWN:
        return f"{len(names)} of {among} problems"
    return ("; " if any("," in name for name in names) else ", ").join(names)


def _clocks(environment: Environment) -> Iterable[Notice]:
    if environment.clock_control == "none":
        yield Notice(NoticeKind.UNLOCKED_CLOCKS, {"clock_control": "none"})


def _clocks_differ(samples: pd.DataFrame, plan: Plan) -> Iterable[Notice]:
    """Cells whose SM clock is another than the baseline's: ratios of times are none of cycles."""
    clocks = cell_clocks(samples).to_dict()
    baselines = {problem: cell.id for problem, cell in plan.baseline_cells.items()}
    pairs = [(cell, baselines.get(cell.problem.id, cell.id)) for cell in plan.cells]
    ratios = [
        (float(clocks[cell.id] / clocks[baseline_cell]), cell, baseline_cell)
        for cell, baseline_cell in pairs
        if baseline_cell != cell.id and cell.id in clocks and baseline_cell in clocks
    ]
    limit = math.log1p(CLOCKS_DIFFER)
    differing = [cell_ratio for cell_ratio in ratios if abs(math.log(cell_ratio[0])) > limit]
    if differing:
        ratio, cell, baseline_cell = max(
            differing, key=lambda cell_ratio: abs(math.log(cell_ratio[0]))
        )
        values: Values = {
            "limit": f"{100 * CLOCKS_DIFFER:.0f} %",
            "count": len(differing),
            "total": len(ratios),
            "cell": _cell_name(cell),
            "clocks": f"{clocks[cell.id]:.3f} GHz against {clocks[baseline_cell]:.3f} GHz",
            "ratio": f"{ratio:.3f}\u00d7",
        }
        yield Notice(NoticeKind.CLOCKS_DIFFER, values)


def _serialized_wgmma(report: Report) -> Iterable[Notice]:
    labels = {variant.id: variant.label for variant in report.plan.variants}
    variants: dict[str, list[str]] = {}
    for build in report.builds:
        if build.serialized_wgmma and not build.duplicate_of:
            variants.setdefault(build.serialized_wgmma, []).append(
                labels.get(build.variant, build.variant)
            )
    for reason, names in variants.items():
        values: Values = {"variants": first_names(names), "reason": reason}
        yield Notice(NoticeKind.SERIALIZED_WGMMA, values)


def _aliases(report: Report) -> Iterable[Notice]:
    names = {variant.id: variant.label for variant in report.plan.variants}
    pairs = [
        f"{names.get(build.variant, build.variant)} = "
        f"{names.get(build.duplicate_of, build.duplicate_of)}"
        for build in report.builds
        if build.duplicate_of is not None
    ]
    if pairs:
        yield Notice(NoticeKind.DUPLICATE_CODE, {"count": len(pairs), "pairs": ", ".join(pairs)})


def _cell_name(cell: Cell) -> str:
    return f"{cell.variant.label} at {cell.problem.name}"
