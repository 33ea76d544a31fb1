"""Making the findings of a run, in their order.

1. Distinct programs and correct cells. 2. One number per cell. 3. The leader of each problem, by
those numbers. 4. Every verdict that anything shows: against the baseline, against the leaders, the
steps, the grids, the other baselines; a pair is judged in the first family that asks for it.
5. Winners, ranks, steps and grids from numbers and verdicts. 6. Notices.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pandas as pd

from profiler.analyse.effects import ParameterStep, steps
from profiler.analyse.judge import Judge, Pair
from profiler.analyse.summary import slow_visits
from profiler.collect.registry import duration_metrics
from profiler.findings.caveats import caveats, slow_visits_notice
from profiler.findings.cell_numbers import (
    alias_variants,
    block_numbers,
    final_numbers,
    one_number_per_cell,
    sample_sources,
    values_of,
    with_ranks,
    with_verdict_ratios,
)
from profiler.findings.findings import (
    CellNumbers,
    Findings,
    KindFindings,
    Programs,
    Ranking,
    Verdicts,
)
from profiler.findings.kinds.contrasts import contrasted_parameter, flags_of
from profiler.findings.kinds.grids import (
    MOST_PAIRS,
    Grid,
    GridPairs,
    VariantPair,
    compare_on_grid,
    grids,
    moved_bytes,
    pairs_to_judge,
    variant_pairs,
)
from profiler.findings.kinds.steps import (
    Rung,
    StepFinder,
    cumulative_steps,
    ladder_steps,
    make_ladder,
    pairs_of_steps,
)
from profiler.findings.kinds.sustained import ColdCells, find_sustained
from profiler.findings.kinds.timers import find_timers, reference_collector
from profiler.findings.kinds.waves import WaveFindings, find_waves
from profiler.findings.ranking import (
    VariantRank,
    contenders_of,
    ranks_by_slowdown,
    slowdown,
)
from profiler.findings.values import NAN, NOTHING, Value
from profiler.findings.variant_names import Names, find_names
from profiler.findings.variant_ranks import (
    RankInputs,
    best_rank,
    figure_roles,
    leading_baseline,
    rank_variants,
    rival_groups,
)
from profiler.findings.verdicts import (
    JUDGED,
    NO_VERDICT,
    NamedBaseline,
    OtherOf,
    PairVerdict,
    PairVerdicts,
    judge_families,
    judges_of,
    make_baseline,
    others_of,
    pairs_with,
)
from profiler.findings.winners import Winner, leader_of, make_winner
from profiler.metrics.labels import Label, label, own_label
from profiler.metrics.queries import better
from profiler.model import Cell, CellStatus, Outcome, Variant
from profiler.notices import Notice, NoticeKind
from profiler.planning.page_kinds import GRIDS, LADDER, PARAMETERS, RIVAL_PARAMETERS, WAVES
from profiler.planning.problem_names import short_names
from profiler.planning.readiness import few_blocks_notice
from profiler.run_folder.load.report import Report

Values = Mapping[tuple[str, str], Value]


def find(report: Report) -> Findings:
    """Findings of a run, as data."""
    names = _names(report)
    report = _labelled(report, names)
    run = _Run(report, _programs(report, names))
    numbers = _Numbers(run)
    leaders = _Leaders(run, numbers)
    return _assembled(run, numbers, leaders, _Judged(run, leaders))


def _names(report: Report) -> Names:
    """Short and full names of all variants of the plan."""
    return find_names(
        report.plan.variants,
        references={report.plan.baseline or "", *report.plan.references},
        ladder=LADDER in report.settings.page_kind.finds,
    )


def _labelled(report: Report, variant_names: Names) -> Report:
    """The report with labels of variants, short names of problems, an outcome of every cell."""
    names = short_names(report.plan.problems)
    variants = {
        variant.id: replace(variant, label=variant_names.label(variant))
        for variant in report.plan.variants
    }
    cells = tuple(
        replace(
            cell,
            variant=variants[cell.variant.id],
            problem=replace(cell.problem, name=names[cell.problem.id]),
        )
        for cell in report.plan.cells
    )
    statuses = {
        cell.id: report.statuses.get(cell.id) or CellStatus(cell.id, Outcome.NOT_MEASURED)
        for cell in cells
    }
    return replace(report, plan=replace(report.plan, cells=cells), statuses=statuses)


def _aliases(report: Report) -> Mapping[str, str]:
    """Measured variant by the id of each alias; what others are compared with is never one."""
    named = {report.plan.baseline, *report.plan.references}
    owners = alias_variants(report.plan.cells, report.statuses)
    return {alias: owner for alias, owner in owners.items() if alias not in named}


def _programs(report: Report, names: Names) -> Programs:
    baseline = report.plan.baseline
    return Programs(
        plan=report.plan,
        statuses=report.statuses,
        names=names,
        owners=_aliases(report),
        baseline=next((one for one in report.plan.variants if one.id == baseline), None),
    )


@dataclass(frozen=True, eq=False)
class _Run:
    """A run whose programs are known: what its numbers and verdicts are found from."""

    report: Report
    programs: Programs

    @cached_property
    def configurations(self) -> tuple[Variant, ...]:
        """Variants that may differ in a parameter: all but the named references."""
        named = self.report.plan.references
        return tuple(variant for variant in self.programs.variants if variant.id not in named)

    @cached_property
    def sources(self) -> Mapping[str, str]:
        """The cell that was measured, by the id of each cell without samples of its own."""
        measured = frozenset(self.report.measured.samples["cell"].unique())
        return sample_sources(self.report.plan.cells, self.report.statuses, measured)

    @cached_property
    def problem_ids(self) -> tuple[str, ...]:
        return tuple(problem.id for problem in self.report.plan.problems)

    @property
    def primary(self) -> str:
        return self.report.settings.primary

    @property
    def finds(self) -> frozenset[str]:
        return self.report.settings.page_kind.finds

    @property
    def higher_is_better(self) -> bool:
        return better(self.primary) == "higher"


@dataclass(frozen=True, eq=False)
class _Numbers:
    """One number per cell and metric, before verdicts and ranks; values of the primary metric."""

    run: _Run

    @cached_property
    def blocks(self) -> pd.DataFrame:
        return block_numbers(self.run.report, self.run.sources)

    @cached_property
    def joined(self) -> pd.DataFrame:
        every = [cell.id for cell in self.run.report.plan.cells if self.run.programs.correct(cell)]
        final = final_numbers(self.run.report, every, self.run.sources)
        return one_number_per_cell(self.blocks, final)

    @cached_property
    def block_values(self) -> Values:
        return self._of_primary(self.blocks)

    @cached_property
    def values(self) -> Values:
        return self._of_primary(self.joined)

    def _of_primary(self, numbers: pd.DataFrame) -> Values:
        return values_of(numbers[numbers["metric"] == self.run.primary])

    def primary(self, cell: Cell) -> Value:
        return self.values.get((cell.id, self.run.primary), NOTHING)

    def slowdown(self, cell: Cell, best: Cell) -> float:
        """Ratio by which a cell is worse than another of its problem."""
        primary = self.run.primary
        return slowdown(
            self.primary(cell),
            self.block_values.get((cell.id, primary), NOTHING),
            self.primary(best),
            self.block_values.get((best.id, primary), NOTHING),
            higher_is_better=self.run.higher_is_better,
        )


@dataclass(frozen=True, eq=False)
class _Leaders:
    """The best number of each problem, and the cells of each in their order."""

    run: _Run
    numbers: _Numbers

    @cached_property
    def measured(self) -> Mapping[str, list[tuple[Cell, Value]]]:
        """Correct cells with a number, by problem id."""
        by_problem: dict[str, list[tuple[Cell, Value]]] = {}
        for cell in self.run.programs.correct_cells.values():
            value = self.numbers.primary(cell)
            if value.present and better(self.run.primary) is not None:
                by_problem.setdefault(cell.problem.id, []).append((cell, value))
        return by_problem

    @cached_property
    def of_all(self) -> Mapping[str, Cell]:
        return self._leaders(frozenset())

    @cached_property
    def of_rivals(self) -> Mapping[str, Cell]:
        return self._leaders(self.run.programs.references)

    def _leaders(self, excluded: Collection[str]) -> Mapping[str, Cell]:
        leaders = {}
        for problem in self.run.problem_ids:
            cells = self.measured.get(problem, [])
            rivals = [pair for pair in cells if pair[0].variant.id not in excluded]
            if rivals:
                leaders[problem] = leader_of(
                    rivals,
                    self.run.programs.baseline,
                    higher_is_better=self.run.higher_is_better,
                )
        return leaders

    @cached_property
    def ranks(self) -> Mapping[str, float]:
        """Rank of each cell in its problem: the winner, then the others by their slowdown."""
        ranks: dict[str, float] = {}
        for problem, leader in self.of_all.items():
            slowdowns = {
                cell.id: 0.0 if cell == leader else max(1.0, self.numbers.slowdown(cell, leader))
                for cell, _ in self.measured[problem]
            }
            ranks |= ranks_by_slowdown(slowdowns)
        return ranks

    def in_order(self, problem: str) -> list[tuple[Cell, Value]]:
        """Cells of a problem by their rank, best first."""
        ranked = [pair for pair in self.measured.get(problem, []) if pair[0].id in self.ranks]
        return sorted(ranked, key=lambda pair: self.ranks[pair[0].id])


@dataclass(frozen=True, eq=False)
class _Judged:
    """Every verdict of a run."""

    run: _Run
    leaders: _Leaders

    @cached_property
    def judges(self) -> tuple[Judge, Judge]:
        return judges_of(self.run.report)

    @cached_property
    def pairs(self) -> PairVerdicts:
        if self.run.primary != JUDGED:
            return PairVerdicts({})
        return judge_families(self.judges, self.families, self.run.sources)

    def selection_bias(self, winner: Winner) -> float:
        """How much too low the number of a winner reads, were its candidates equal (relative)."""
        if self.run.primary != JUDGED:
            return NAN
        sources = self.run.sources
        timing, final = self.judges
        judge = final if winner.final else timing
        return judge.selection_bias([sources.get(cell.id, cell.id) for cell in winner.candidates])

    @cached_property
    def families(self) -> Mapping[str, tuple[Pair, ...]]:
        """Pairs to judge by question, in the order in which pairs belong to one."""
        correct = self.run.programs.correct_by_place
        problems = self.run.problem_ids
        return {
            "baseline": tuple(self.with_baseline.values()),
            "winner": self._with_leaders(self.leaders.of_all),
            "best of the rivals": self._with_leaders(self.leaders.of_rivals),
            "steps": pairs_of_steps(self.single_steps, problems, correct),
            "grid": pairs_to_judge(self.grid_variants, self.run.report.plan.problems, correct),
            **{key: pairs_with(other) for key, other in self.others.items()},
            "explained": self._explained_pairs(),
        }

    def _explained_pairs(self) -> tuple[tuple[str, str], ...]:
        """Every two explained cells of a problem: `explain` compares any of them."""
        profiles = self.run.report.details.profiles
        explained = [
            cell for cell in self.run.programs.correct_cells.values() if cell.id in profiles
        ]
        return tuple(
            (cell.id, other.id)
            for cell, other in itertools.combinations(explained, 2)
            if cell.problem.id == other.problem.id
        )

    @cached_property
    def with_baseline(self) -> Mapping[str, tuple[str, str]]:
        """Pair with the baseline by id of each correct cell that is not the baseline's."""
        baseline, correct = self.run.programs.baseline, self.run.programs.correct_by_place
        if baseline is None:
            return {}
        return {
            cell.id: (cell.id, other.id)
            for cell in self.run.programs.correct_cells.values()
            if cell.variant.id != baseline.id
            and (other := correct.get((baseline.id, cell.problem.id))) is not None
        }

    def _with_leaders(self, leaders: Mapping[str, Cell]) -> tuple[tuple[str, str], ...]:
        return tuple(
            (cell.id, leader.id)
            for problem, leader in leaders.items()
            for cell, _ in self.leaders.in_order(problem)
            if cell != leader
        )

    @cached_property
    def against_baseline(self) -> Mapping[str, PairVerdict]:
        """Verdict against the baseline by id of each correct cell that is not the baseline's."""
        return {cell: self.pairs.of(*pair) for cell, pair in self.with_baseline.items()}

    @cached_property
    def ladder_versions(self) -> tuple[Variant, ...]:
        """Versions of a ladder that have a correct result anywhere; none of other pages."""
        if LADDER not in self.run.finds:
            return ()
        measured = {cell.variant.id for cell in self.run.programs.correct_cells.values()}
        return tuple(variant for variant in self.run.programs.rivals if variant.id in measured)

    @cached_property
    def parameter_steps(self) -> tuple[ParameterStep, ...]:
        finds, parameters = self.run.finds, self.run.report.settings.parameters
        if PARAMETERS in finds:
            return steps(self.run.configurations, parameters or None)
        rivals = self.run.programs.rivals
        if RIVAL_PARAMETERS in finds:
            return steps(rivals)
        asked = contrasted_parameter(self.run.programs.problems, self.run.report.settings)
        return steps(rivals, flags_of(rivals)) if asked else ()

    @property
    def single_steps(self) -> tuple[ParameterStep, ...]:
        versions = self.ladder_versions
        return (*ladder_steps(versions), *cumulative_steps(versions), *self.parameter_steps)

    @cached_property
    def grid_variants(self) -> tuple[VariantPair, ...]:
        if GRIDS not in self.run.finds:
            return ()
        return variant_pairs(self.run.programs.variants, self.run.programs.baseline)[1][:MOST_PAIRS]

    @cached_property
    def others(self) -> Mapping[str, Mapping[str, Cell | None]]:
        """Cells to compare with, by name of each baseline to switch between."""
        programs = self.run.programs
        order = {variant.id: index for index, variant in enumerate(programs.variants)}
        correct = programs.correct_by_place

        def at(variant: Variant | None, cell: Cell) -> Cell | None:
            return correct.get((variant.id, cell.problem.id)) if variant else None

        def previous(cell: Cell) -> Cell | None:
            earlier = programs.variants[: order[cell.variant.id]][::-1]
            return next(filter(None, (at(variant, cell) for variant in earlier)), None)

        first = programs.variants[0] if programs.variants else None
        named: dict[str, OtherOf] = {
            "reference": lambda cell: at(programs.baseline, cell),
            "best": lambda cell: self.leaders.of_all.get(cell.problem.id),
            "first": lambda cell: at(first, cell),
            "previous": previous,
        }
        if programs.baseline is None:
            del named["reference"]
        return {
            key: others_of(programs.cells, programs.correct_cells, other_of)
            for key, other_of in named.items()
        }


def _assembled(run: _Run, numbers: _Numbers, leaders: _Leaders, judged: _Judged) -> Findings:
    cell_numbers = _cell_numbers(run, numbers, leaders, judged)
    ranking = _ranking(run, numbers, leaders, judged, cell_numbers)
    answering = [
        *(winner.cell for winner in ranking.deciding_winners.values()),
        *(cell for cell in run.programs.cells if cell.variant == run.programs.baseline),
    ]
    return Findings(
        report=run.report,
        programs=run.programs,
        numbers=cell_numbers,
        verdicts=Verdicts(
            numbers=cell_numbers,
            given=run.primary == JUDGED,
            pairs=judged.pairs,
            against_baseline=judged.against_baseline,
            baselines=_baselines(judged, run.programs, cell_numbers),
        ),
        ranking=ranking,
        kind=_of_kind(run, judged, cell_numbers, ranking.ranks),
        timers=find_timers(
            run.report.measured.samples, numbers.blocks, list(run.programs.correct_cells)
        ),
        sustained=find_sustained(
            run.report,
            ColdCells(
                run.programs.correct_cells,
                cell_numbers.values,
                judged.against_baseline,
                judged.with_baseline,
                run.sources,
            ),
        ),
        notices=_notices(
            run.report, judged.judges, slow_visits_notice(answering, cell_numbers.slow_visits)
        ),
    )


def _cell_numbers(run: _Run, numbers: _Numbers, leaders: _Leaders, judged: _Judged) -> CellNumbers:
    frame = with_verdict_ratios(numbers.joined, judged.against_baseline)
    frame = with_ranks(frame, run.primary, leaders.ranks)
    metrics = _metrics(run.report, frame)
    return CellNumbers(
        programs=run.programs,
        primary=next(
            (metric for metric in metrics if metric.name == run.primary), label(run.primary)
        ),
        metrics=metrics,
        frame=frame,
        values=values_of(frame),
        block_values=numbers.block_values,
        slow_visits=slow_visits(judged.judges[0].times),
    )


def _ranking(
    run: _Run, numbers: _Numbers, leaders: _Leaders, judged: _Judged, cell_numbers: CellNumbers
) -> Ranking:
    programs, tunes = run.programs, run.report.settings.page_kind.tunes
    primary = {cell.id: cell_numbers.value(cell, run.primary) for cell in programs.cells}
    winners = _winners(judged, leaders.of_all, primary, frozenset())
    rival_winners = _winners(judged, leaders.of_rivals, primary, programs.references)
    deciding = rival_winners if tunes else winners
    slowdowns = _slowdowns(programs, numbers, deciding)
    ranks = rank_variants(
        RankInputs(
            programs=programs,
            values=primary,
            against_baseline=judged.against_baseline,
            slowdowns=slowdowns,
            deciding=deciding,
            winners=winners,
            higher_is_better=run.higher_is_better,
            tunes=tunes,
        )
    )
    contenders = contenders_of(deciding)
    best = best_rank(ranks, contenders, programs.references, len(deciding), tunes=tunes)
    groups = rival_groups(ranks, programs.references)
    return Ranking(
        programs=programs,
        tunes=tunes,
        winners=winners,
        rival_winners=rival_winners,
        slowdowns=slowdowns,
        ranks=ranks,
        contenders=contenders,
        best_rank=best,
        baseline_rank=leading_baseline(
            ranks, best, programs.baseline, higher_is_better=run.higher_is_better
        ),
        rival_groups=groups,
        roles=figure_roles(
            ranks, best, programs.baseline, groups, programs.references, tunes=tunes
        ),
    )


def _of_kind(
    run: _Run, judged: _Judged, numbers: CellNumbers, ranks: Sequence[VariantRank]
) -> KindFindings:
    finder = StepFinder(
        report=run.report,
        cells=run.programs.correct_by_place,
        problems=run.problem_ids,
        verdicts=judged.pairs,
        timing=judged.judges[0],
        sources=run.sources,
    )
    return KindFindings(
        ladder=_ladder(run, judged, finder, numbers, ranks),
        parameter_steps=tuple(
            effect for effect in finder.effects_of(judged.parameter_steps) if effect.overall.pairs
        ),
        grid_pairs=_grid_pairs(run, judged, numbers.values),
        waves=_waves(run, numbers.values),
    )


def _winners(
    judged: _Judged,
    leader_by_problem: Mapping[str, Cell],
    primary: Mapping[str, Value],
    excluded: frozenset[str],
) -> dict[str, Winner]:
    winners = {}
    for problem, leader in leader_by_problem.items():
        cells = [(cell, primary[cell.id]) for cell, _ in judged.leaders.in_order(problem)]
        winner = make_winner(leader, cells, judged.pairs, excluded)
        winners[problem] = replace(winner, selection_bias=judged.selection_bias(winner))
    return winners


def _slowdowns(
    programs: Programs, numbers: _Numbers, winners: Mapping[str, Winner]
) -> dict[tuple[str, str], float]:
    """Slowdown of each cell relative to the winner of its problem.

    Of durations it is the ratio that the verdict against the winner was given on, so that no
    number contradicts a verdict; of others, and without blocks in common, that of the medians.
    """
    slowdowns = {}
    for cell in programs.correct_cells.values():
        winner = winners.get(cell.problem.id)
        if winner is None:
            continue
        verdict = winner.all_others.get(cell.id, NO_VERDICT)
        judged = verdict.blocks > 0 and verdict.ratio > 0
        slowdowns[cell.variant.id, cell.problem.id] = (
            verdict.ratio if judged else numbers.slowdown(cell, winner.cell)
        )
    return slowdowns


def _metrics(report: Report, numbers: pd.DataFrame) -> tuple[Label, ...]:
    """Labels of metrics that have numbers; a duration is what the primary timer measures."""
    present = dict.fromkeys(numbers["metric"])
    first = [name for name in report.settings.metrics if name in present]
    timer = reference_collector(report.measured.samples)
    own_labels = {metric.name: own_label(metric) for metric in report.settings.own_metrics}
    metrics = []
    for name in dict.fromkeys([*first, *present]):
        metric = own_labels.get(name) or label(name)
        if name == JUDGED and timer is not None:
            metric = replace(metric, definition=label(duration_metrics()[timer]).definition)
        metrics.append(metric)
    return tuple(metrics)


def _baselines(
    judged: _Judged, programs: Programs, numbers: CellNumbers
) -> tuple[NamedBaseline, ...]:
    primary = {cell.id: numbers.value(cell, numbers.primary.name) for cell in programs.cells}
    first = programs.variants[0] if programs.variants else None
    variants = {"reference": programs.baseline, "first": first}
    return tuple(
        make_baseline(key, variants.get(key), others, judged.pairs, primary)
        for key, others in judged.others.items()
    )


def _ladder(
    run: _Run,
    judged: _Judged,
    finder: StepFinder,
    numbers: CellNumbers,
    ranks: Sequence[VariantRank],
) -> tuple[Rung, ...]:
    if LADDER not in run.finds:
        return ()
    programs = run.programs
    means = {row.variant.id: row.geometric_mean for row in ranks}

    def ratio_at(variant: Variant, problem: str) -> float:
        cell = programs.correct_by_place.get((variant.id, problem))
        return numbers.value(cell, run.primary).ratio if cell else NAN

    ratios = {
        variant.id: (
            tuple(ratio_at(variant, problem) for problem in run.problem_ids),
            means.get(variant.id, NAN),
        )
        for variant in programs.rivals
    }
    references = programs.references
    planned = [variant for variant in programs.plan.variants if variant.id not in references]
    places = {variant.id: number for number, variant in enumerate(planned, start=1)}
    numbered = [(places[variant.id], variant) for variant in programs.rivals]
    return make_ladder(numbered, judged.ladder_versions, finder, ratios)


def _grid_pairs(run: _Run, judged: _Judged, values: Values) -> GridPairs | None:
    programs, settings = run.programs, run.report.settings
    if GRIDS not in run.finds:
        return None
    everything = grids(programs.problems, settings.axes, settings.split)
    tried = tuple(grid for grid in everything if _tried(programs, grid)) or everything
    first, pairs = variant_pairs(programs.variants, programs.baseline)
    moved = moved_bytes(programs.correct_cells, values)
    return GridPairs(
        grids=tried,
        all_grids=len(everything),
        against_baseline=first,
        shown=judged.grid_variants,
        left_out=len(pairs) - len(judged.grid_variants),
        cells={
            (pair.over.id, pair.under.id, grid.name): tuple(
                compare_on_grid(pair, grid, programs.by_place, judged.pairs, moved)
            )
            for grid in tried
            for pair in judged.grid_variants
        },
        moved=moved,
    )


def _tried(programs: Programs, grid: Grid) -> bool:
    """Whether any cell of a grid was measured, or failed: a part of a run need not have all."""
    cells = (
        programs.by_place.get((variant.id, problem.id))
        for problem in grid.problems.values()
        for variant in programs.variants
    )
    return any(map(programs.tried, cells))


def _waves(run: _Run, values: Values) -> WaveFindings | None:
    if WAVES not in run.finds:
        return None
    cells = list(run.programs.correct_cells.values())
    return find_waves(cells, values, run.report.environment.sm_count)


def _notices(
    report: Report, judges: tuple[Judge, Judge], slow: Notice | None
) -> tuple[Notice, ...]:
    """Notices of reading the run, and caveats of its numbers; `slow`: of visits far too slow."""
    run_caveats = caveats(
        cells=report.plan.cells,
        statuses=report.statuses,
        builds=report.builds,
        samples=report.measured.samples,
        environment=report.environment,
        judges=judges,
        recompiled=any(session.recompiles for session in report.plan.sessions),
    )
    replayed = [notice for notice in report.notices if notice.kind is NoticeKind.REPLAYED]
    rest = [notice for notice in report.notices if notice.kind is not NoticeKind.REPLAYED]
    shown = (
        (_of_recording(notice) for notice in run_caveats)
        if report.execution.replay
        else run_caveats
    )
    few = few_blocks_notice(report.plan)
    by_family = [few] if few and few.kind is NoticeKind.FEW_BLOCKS_FOR_FAMILY else []
    return (*replayed, *shown, *by_family, *([slow] if slow else []), *rest)


def _of_recording(notice: Notice) -> Notice:
    """A notice with the remedy of a replay, which cannot measure what is missing."""
    if notice.kind is not NoticeKind.NOT_MEASURED:
        return notice
    return Notice(NoticeKind.NOT_RECORDED, notice.values)
