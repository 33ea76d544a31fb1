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
from profiler.analyse.judge import Judge
from profiler.analyse.summary import slow_visits
from profiler.analyse.timers import reference_collector
from profiler.collect.registry import duration_metrics
from profiler.findings.aliases import alias_variants, sample_sources
from profiler.findings.caveats import caveats, slow_visits_notice
from profiler.findings.cell_numbers import (
    block_numbers,
    final_numbers,
    one_number_per_cell,
    values_of,
    with_ranks,
    with_verdict_ratios,
)
from profiler.findings.findings import Findings
from profiler.findings.kinds.grid_axes import Grid, grids
from profiler.findings.kinds.grid_pairs import (
    MOST_PAIRS,
    GridPairs,
    VariantPair,
    compare_on_grid,
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
from profiler.findings.kinds.timers import find_timers
from profiler.findings.kinds.waves import WaveFindings, find_waves
from profiler.findings.made_sessions import made_sessions
from profiler.findings.named_baselines import (
    NamedBaseline,
    OtherOf,
    make_baseline,
    others_of,
    pairs_with,
)
from profiler.findings.ranking import (
    VariantRank,
    contenders_of,
    ranks_by_slowdown,
    slowdown,
)
from profiler.findings.roles import figure_roles
from profiler.findings.values import NAN, NOTHING, Value
from profiler.findings.variant_names import Names, find_names
from profiler.findings.variant_ranks import (
    RankInputs,
    best_rank,
    leading_baseline,
    rank_variants,
    rival_groups,
)
from profiler.findings.verdicts import (
    JUDGED,
    NO_VERDICT,
    Family,
    PairVerdicts,
    judge_families,
    judges_of,
)
from profiler.findings.winners import Winner, leader_of, make_winner
from profiler.metrics.labels import Label, label, own_label
from profiler.metrics.queries import better
from profiler.model import Cell, CellStatus, Outcome, Variant
from profiler.notices import Notice, NoticeKind
from profiler.planning.blocks_needed import few_blocks_notice
from profiler.planning.page_kinds import GRIDS, LADDER, PARAMETERS, RIVAL_PARAMETERS, WAVES
from profiler.planning.problem_names import short_names
from profiler.run_folder.load.report import Report

Values = Mapping[tuple[str, str], Value]


def find(report: Report) -> Findings:
    """Findings of a run, as data."""
    variant_names = _names(report)
    programs = _Programs(_labelled(report, variant_names))
    numbers = _Numbers(programs)
    leaders = _Leaders(programs, numbers)
    judged = _Verdicts(programs, leaders)
    return _assembled(programs, numbers, leaders, judged, variant_names)


def _names(report: Report) -> Names:
    """Short and full names of all variants of the plan."""
    return find_names(
        report.plan.variants,
        references={report.baseline or "", *report.plan.references},
        ladder=LADDER in report.page_kind.finds,
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
    named = {report.baseline, *report.plan.references}
    owners = alias_variants(report.plan.cells, report.statuses)
    return {alias: owner for alias, owner in owners.items() if alias not in named}


@dataclass(frozen=True, eq=False)
class _Programs:
    """The distinct programs of a run, and which of their cells are correct."""

    report: Report

    @cached_property
    def owners(self) -> Mapping[str, str]:
        return _aliases(self.report)

    @cached_property
    def variants(self) -> tuple[Variant, ...]:
        return tuple(
            variant for variant in self.report.plan.variants if variant.id not in self.owners
        )

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        plan = self.report.plan.cells
        return tuple(cell for cell in plan if cell.variant.id not in self.owners)

    @cached_property
    def by_place(self) -> Mapping[tuple[str, str], Cell]:
        return {(cell.variant.id, cell.problem.id): cell for cell in self.cells}

    @cached_property
    def correct(self) -> Mapping[str, Cell]:
        return {cell.id: cell for cell in self.cells if self.outcome(cell).correct}

    @cached_property
    def correct_by_place(self) -> Mapping[tuple[str, str], Cell]:
        return {key: cell for key, cell in self.by_place.items() if cell.id in self.correct}

    def outcome(self, cell: Cell) -> Outcome:
        return self.report.statuses[cell.id].outcome

    @cached_property
    def baseline(self) -> Variant | None:
        wanted = self.report.baseline
        return next((variant for variant in self.variants if variant.id == wanted), None)

    @cached_property
    def references(self) -> frozenset[str]:
        named = self.report.plan.references
        return frozenset((*named, self.baseline.id) if self.baseline else named)

    @cached_property
    def rivals(self) -> tuple[Variant, ...]:
        return tuple(variant for variant in self.variants if variant.id not in self.references)

    @cached_property
    def configurations(self) -> tuple[Variant, ...]:
        """Variants that may differ in a parameter: all but the named references."""
        named = self.report.plan.references
        return tuple(variant for variant in self.variants if variant.id not in named)

    @cached_property
    def sources(self) -> Mapping[str, str]:
        """The cell that was measured, by the id of each cell without samples of its own."""
        measured = frozenset(self.report.samples["cell"])
        return sample_sources(self.report.plan.cells, self.report.statuses, measured)

    @cached_property
    def problem_ids(self) -> tuple[str, ...]:
        return tuple(problem.id for problem in self.report.plan.problems)

    @property
    def higher_is_better(self) -> bool:
        return better(self.report.primary) == "higher"


@dataclass(frozen=True, eq=False)
class _Numbers:
    """One number per cell and metric, before verdicts and ranks; values of the primary metric."""

    programs: _Programs

    @cached_property
    def blocks(self) -> pd.DataFrame:
        return block_numbers(self.programs.report, self.programs.sources)

    @cached_property
    def joined(self) -> pd.DataFrame:
        every = [
            cell.id
            for cell in self.programs.report.plan.cells
            if self.programs.outcome(cell).correct
        ]
        final = final_numbers(self.programs.report, every, self.programs.sources)
        return one_number_per_cell(self.blocks, final)

    @cached_property
    def block_values(self) -> Values:
        return self._of_primary(self.blocks)

    @cached_property
    def values(self) -> Values:
        return self._of_primary(self.joined)

    def _of_primary(self, numbers: pd.DataFrame) -> Values:
        return values_of(numbers[numbers["metric"] == self.programs.report.primary])

    def primary(self, cell: Cell) -> Value:
        return self.values.get((cell.id, self.programs.report.primary), NOTHING)

    def slowdown(self, cell: Cell, best: Cell) -> float:
        """Ratio by which a cell is worse than another of its problem."""
        primary = self.programs.report.primary
        return slowdown(
            self.primary(cell),
            self.block_values.get((cell.id, primary), NOTHING),
            self.primary(best),
            self.block_values.get((best.id, primary), NOTHING),
            higher_is_better=self.programs.higher_is_better,
        )


@dataclass(frozen=True, eq=False)
class _Leaders:
    """The best number of each problem, and the cells of each in their order."""

    programs: _Programs
    numbers: _Numbers

    @cached_property
    def measured(self) -> Mapping[str, list[tuple[Cell, Value]]]:
        """Correct cells with a number, by problem id."""
        by_problem: dict[str, list[tuple[Cell, Value]]] = {}
        for cell in self.programs.correct.values():
            value = self.numbers.primary(cell)
            if value.present and better(self.programs.report.primary) is not None:
                by_problem.setdefault(cell.problem.id, []).append((cell, value))
        return by_problem

    @cached_property
    def of_all(self) -> Mapping[str, Cell]:
        return self._leaders(frozenset())

    @cached_property
    def of_rivals(self) -> Mapping[str, Cell]:
        return self._leaders(self.programs.references)

    def _leaders(self, excluded: Collection[str]) -> Mapping[str, Cell]:
        leaders = {}
        for problem in self.programs.problem_ids:
            cells = self.measured.get(problem, [])
            rivals = [pair for pair in cells if pair[0].variant.id not in excluded]
            if rivals:
                leaders[problem] = leader_of(
                    rivals,
                    self.programs.baseline,
                    higher_is_better=self.programs.higher_is_better,
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
class _Verdicts:
    """Every verdict of a run."""

    programs: _Programs
    leaders: _Leaders

    @cached_property
    def judges(self) -> tuple[Judge, Judge]:
        return judges_of(self.programs.report)

    @cached_property
    def pairs(self) -> PairVerdicts:
        if self.programs.report.primary != JUDGED:
            return PairVerdicts({})
        return judge_families(self.judges, self.families, self.programs.sources)

    def selection_bias(self, winner: Winner) -> float:
        """How much too low the number of a winner reads, were its candidates equal (relative)."""
        if self.programs.report.primary != JUDGED:
            return NAN
        sources = self.programs.sources
        timing, final = self.judges
        judge = final if winner.final else timing
        return judge.selection_bias([sources.get(cell.id, cell.id) for cell in winner.candidates])

    @cached_property
    def families(self) -> tuple[Family, ...]:
        """Families of pairs to judge, in the order in which pairs belong to them."""
        correct = self.programs.correct_by_place
        problems = self.programs.problem_ids
        others = (Family(key, pairs_with(other)) for key, other in self.others.items())
        return (
            Family("baseline", tuple(self.with_baseline.values())),
            Family("winner", self._with_leaders(self.leaders.of_all)),
            Family("best of the rivals", self._with_leaders(self.leaders.of_rivals)),
            Family("steps", pairs_of_steps(self.single_steps, problems, correct)),
            Family(
                "grid",
                pairs_to_judge(self.grid_variants, self.programs.report.plan.problems, correct),
            ),
            *others,
            Family("explained", self._explained_pairs()),
        )

    def _explained_pairs(self) -> tuple[tuple[str, str], ...]:
        """Every two explained cells of a problem: `explain` compares any of them."""
        profiles = self.programs.report.profiles
        explained = [cell for cell in self.programs.correct.values() if cell.id in profiles]
        return tuple(
            (cell.id, other.id)
            for cell, other in itertools.combinations(explained, 2)
            if cell.problem.id == other.problem.id
        )

    @cached_property
    def with_baseline(self) -> Mapping[str, tuple[str, str]]:
        """Pair with the baseline by id of each correct cell that is not the baseline's."""
        baseline, correct = self.programs.baseline, self.programs.correct_by_place
        if baseline is None:
            return {}
        return {
            cell.id: (cell.id, other.id)
            for cell in self.programs.correct.values()
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
    def ladder_versions(self) -> tuple[Variant, ...]:
        """Versions of a ladder that have a correct result anywhere; none of other pages."""
        if LADDER not in self.programs.report.page_kind.finds:
            return ()
        measured = {cell.variant.id for cell in self.programs.correct.values()}
        return tuple(variant for variant in self.programs.rivals if variant.id in measured)

    @cached_property
    def parameter_steps(self) -> tuple[ParameterStep, ...]:
        finds, parameters = self.programs.report.page_kind.finds, self.programs.report.parameters
        if PARAMETERS in finds:
            return steps(self.programs.configurations, parameters or None)
        return steps(self.programs.rivals) if RIVAL_PARAMETERS in finds else ()

    @property
    def single_steps(self) -> tuple[ParameterStep, ...]:
        versions = self.ladder_versions
        return (*ladder_steps(versions), *cumulative_steps(versions), *self.parameter_steps)

    @cached_property
    def grid_variants(self) -> tuple[VariantPair, ...]:
        if GRIDS not in self.programs.report.page_kind.finds:
            return ()
        return variant_pairs(self.programs.variants, self.programs.baseline)[1][:MOST_PAIRS]

    @cached_property
    def others(self) -> Mapping[str, Mapping[str, Cell | None]]:
        """Cells to compare with, by name of each baseline to switch between."""
        programs = self.programs
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
            key: others_of(programs.cells, programs.correct, other_of)
            for key, other_of in named.items()
        }


def _assembled(
    programs: _Programs,
    numbers: _Numbers,
    leaders: _Leaders,
    judged: _Verdicts,
    names: Names,
) -> Findings:
    report, verdicts = programs.report, judged.pairs
    against = {cell: verdicts.of(*pair) for cell, pair in judged.with_baseline.items()}
    frame = with_ranks(with_verdict_ratios(numbers.joined, against), report.primary, leaders.ranks)
    values = values_of(frame)
    primary = {cell.id: values.get((cell.id, report.primary), NOTHING) for cell in programs.cells}
    winners = _winners(judged, leaders.of_all, primary, frozenset())
    rival_winners = _winners(judged, leaders.of_rivals, primary, programs.references)
    tunes = report.page_kind.tunes
    deciding = rival_winners if tunes else winners
    slow = slow_visits(judged.judges[0].times)
    answering = [
        *(winner.cell for winner in deciding.values()),
        *(cell for cell in programs.cells if cell.variant == programs.baseline),
    ]
    slowdowns = _slowdowns(programs, numbers, deciding)
    ranks = rank_variants(
        RankInputs(
            variants=programs.variants,
            problems=report.plan.problems,
            baseline=programs.baseline,
            references=programs.references,
            planned=programs.by_place,
            correct=programs.correct_by_place,
            values=primary,
            against_baseline=against,
            slowdowns=slowdowns,
            deciding=deciding,
            winners=winners,
            higher_is_better=programs.higher_is_better,
            tunes=tunes,
        )
    )
    contenders = contenders_of(deciding)
    best = best_rank(ranks, contenders, programs.references, len(deciding), tunes=tunes)
    groups = rival_groups(ranks, programs.references, programs.by_place)
    finder = StepFinder(
        report=report,
        cells=programs.correct_by_place,
        problems=programs.problem_ids,
        verdicts=verdicts,
        timing=judged.judges[0],
        sources=programs.sources,
    )
    return Findings(
        report=report,
        names=names,
        variants=programs.variants,
        aliases=_names_of_aliases(programs),
        distinct_cells=programs.cells,
        correct_cells=programs.correct,
        baseline=programs.baseline,
        references=programs.references,
        metrics=_metrics(report, frame),
        numbers=frame,
        values=values,
        block_values=numbers.block_values,
        verdicts=verdicts,
        against_baseline=against,
        winners=winners,
        rival_winners=rival_winners,
        slow_visits=slow,
        slowdowns=slowdowns,
        ranks=ranks,
        contenders=contenders,
        best_rank=best,
        baseline_rank=leading_baseline(
            ranks, best, programs.baseline, higher_is_better=programs.higher_is_better
        ),
        rival_groups=groups,
        roles=figure_roles(
            ranks, best, programs.baseline, groups, programs.references, tunes=tunes
        ),
        baselines=_baselines(judged, programs, verdicts, primary),
        ladder=_ladder(judged, programs, finder, primary, ranks),
        parameter_steps=tuple(
            effect for effect in finder.effects_of(judged.parameter_steps) if effect.overall.pairs
        ),
        grid_pairs=_grid_pairs(programs, judged, verdicts, values),
        waves=_waves(programs, values),
        timers=find_timers(report.samples, numbers.blocks, list(programs.correct)),
        sessions=made_sessions(report),
        notices=_notices(report, slow_visits_notice(answering, slow)),
    )


def _names_of_aliases(programs: _Programs) -> dict[str, tuple[str, ...]]:
    """Names of the aliases of each variant, by its id."""
    names = {variant.id: variant.label for variant in programs.report.plan.variants}
    by_owner: dict[str, tuple[str, ...]] = {}
    for alias, owner in programs.owners.items():
        by_owner[owner] = (*by_owner.get(owner, ()), names[alias])
    return by_owner


def _winners(
    judged: _Verdicts,
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
    programs: _Programs, numbers: _Numbers, winners: Mapping[str, Winner]
) -> dict[tuple[str, str], float]:
    """Slowdown of each cell relative to the winner of its problem.

    Of durations it is the ratio that the verdict against the winner was given on, so that no
    number contradicts a verdict; of others, and without blocks in common, that of the medians.
    """
    slowdowns = {}
    for cell in programs.correct.values():
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
    first = [name for name in report.metrics if name in present]
    timer = reference_collector(report.samples)
    own_labels = {metric.name: own_label(metric) for metric in report.own_metrics}
    metrics = []
    for name in dict.fromkeys([*first, *present]):
        metric = own_labels.get(name) or label(name)
        if name == JUDGED and timer is not None:
            metric = replace(metric, definition=label(duration_metrics()[timer]).definition)
        metrics.append(metric)
    return tuple(metrics)


def _baselines(
    judged: _Verdicts,
    programs: _Programs,
    verdicts: PairVerdicts,
    primary: Mapping[str, Value],
) -> tuple[NamedBaseline, ...]:
    first = programs.variants[0] if programs.variants else None
    variants = {"reference": programs.baseline, "first": first}
    return tuple(
        make_baseline(key, variants.get(key), others, verdicts, primary)
        for key, others in judged.others.items()
    )


def _ladder(
    judged: _Verdicts,
    programs: _Programs,
    finder: StepFinder,
    primary: Mapping[str, Value],
    ranks: Sequence[VariantRank],
) -> tuple[Rung, ...]:
    if LADDER not in programs.report.page_kind.finds:
        return ()
    means = {row.variant.id: row.geometric_mean for row in ranks}

    def ratio_at(variant: Variant, problem: str) -> float:
        cell = programs.correct_by_place.get((variant.id, problem))
        return primary[cell.id].ratio if cell else NAN

    ratios = {
        variant.id: (
            tuple(ratio_at(variant, problem) for problem in programs.problem_ids),
            means.get(variant.id, NAN),
        )
        for variant in programs.rivals
    }
    references = programs.references
    planned = [variant for variant in programs.report.plan.variants if variant.id not in references]
    numbers = {variant.id: number for number, variant in enumerate(planned, start=1)}
    numbered = [(numbers[variant.id], variant) for variant in programs.rivals]
    return make_ladder(numbered, judged.ladder_versions, finder, ratios)


def _grid_pairs(
    programs: _Programs, judged: _Verdicts, verdicts: PairVerdicts, values: Values
) -> GridPairs | None:
    report = programs.report
    if GRIDS not in report.page_kind.finds:
        return None
    everything = grids(report.plan.problems, report.axes, report.split)
    tried = tuple(grid for grid in everything if _tried(programs, grid)) or everything
    first, pairs = variant_pairs(programs.variants, programs.baseline)
    moved = moved_bytes(programs.correct, values)
    return GridPairs(
        grids=tried,
        all_grids=len(everything),
        against_baseline=first,
        shown=judged.grid_variants,
        left_out=len(pairs) - len(judged.grid_variants),
        cells={
            (pair.over.id, pair.under.id, grid.name): tuple(
                compare_on_grid(pair, grid, programs.by_place, verdicts, moved)
            )
            for grid in tried
            for pair in judged.grid_variants
        },
        moved=moved,
    )


def _tried(programs: _Programs, grid: Grid) -> bool:
    """Whether any cell of a grid was measured, or failed: a part of a run need not have all."""
    cells = (
        programs.by_place.get((variant.id, problem.id))
        for problem in grid.problems.values()
        for variant in programs.variants
    )
    return any(cell and programs.outcome(cell) is not Outcome.NOT_MEASURED for cell in cells)


def _waves(programs: _Programs, values: Values) -> WaveFindings | None:
    if WAVES not in programs.report.page_kind.finds:
        return None
    cells = list(programs.correct.values())
    return find_waves(cells, values, programs.report.environment.sm_count)


def _notices(report: Report, slow: Notice | None) -> tuple[Notice, ...]:
    """Notices of reading the run, and caveats of its numbers; `slow`: of visits far too slow."""
    run_caveats = caveats(
        cells=report.plan.cells,
        statuses=report.statuses,
        builds=report.builds,
        samples=report.samples,
        environment=report.environment,
        baseline=report.baseline,
        delta=report.rules.delta,
        recompiled=any(session.recompiles for session in report.plan.sessions),
    )
    replayed = [notice for notice in report.notices if notice.kind is NoticeKind.REPLAYED]
    rest = [notice for notice in report.notices if notice.kind is not NoticeKind.REPLAYED]
    shown = (_of_recording(notice) for notice in run_caveats) if report.replay else run_caveats
    few = few_blocks_notice(report.plan)
    by_family = [few] if few and few.kind is NoticeKind.FEW_BLOCKS_FOR_FAMILY else []
    return (*replayed, *shown, *by_family, *([slow] if slow else []), *rest)


def _of_recording(notice: Notice) -> Notice:
    """A notice with the remedy of a replay, which cannot measure what is missing."""
    if notice.kind is not NoticeKind.NOT_MEASURED:
        return notice
    return Notice(NoticeKind.NOT_RECORDED, notice.values)
