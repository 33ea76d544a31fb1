"""Making the findings of a run, in their order.

1. Distinct programs and correct cells. 2. One number per cell. 3. The leader of each problem, by
those numbers. 4. Every verdict that anything shows: against the baseline, against the leaders, the
steps, the grids, the other baselines; a pair is judged in the first family that asks for it.
5. Winners, ranks, steps and grids from numbers and verdicts. 6. Notices.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pandas as pd

from profiler.analyse.effects import ParameterStep, steps
from profiler.analyse.judge import Judge, Pair
from profiler.analyse.summary import slow_visits
from profiler.findings.caveats import caveats, slow_visits_notice
from profiler.findings.cell_numbers import (
    NOTHING,
    CellNumbers,
    Value,
    block_numbers,
    final_numbers,
    metric_labels,
    one_number_per_cell,
    values_of,
    with_ranks,
    with_verdict_ratios,
)
from profiler.findings.findings import Findings, NamedBaseline, Verdicts
from profiler.findings.kinds.grids import (
    GridPairs,
    find_grid_pairs,
    pairs_to_judge,
)
from profiler.findings.kinds.in_use import find_sustained
from profiler.findings.kinds.steps import (
    Rung,
    StepFinder,
    contrasted_parameter,
    cumulative_steps,
    flags_of,
    ladder_steps,
    make_ladder,
    pairs_of_steps,
)
from profiler.findings.kinds.timers import find_timers
from profiler.findings.kinds.waves import find_waves
from profiler.findings.programs import Programs, alias_variants
from profiler.findings.ranking import Ranking
from profiler.findings.variant_names import Names, names_in_plan
from profiler.findings.verdicts import (
    JUDGED,
    NO_VERDICT,
    PairVerdict,
    PairVerdicts,
    judge_families,
    judges_of,
    verdict_on,
)
from profiler.findings.winners import Winner, leader_of, make_winner, ranks_by_slowdown, slowdown
from profiler.metrics.queries import label
from profiler.model import Cell, CellStatus, Outcome, Variant
from profiler.notices import Notice, NoticeKind
from profiler.planning.page_kinds import GRIDS, LADDER, PARAMETERS, RIVAL_PARAMETERS, WAVES
from profiler.planning.problem_names import short_names
from profiler.planning.readiness import few_blocks_notice
from profiler.run_folder.load.report import Report

Values = Mapping[tuple[str, str], Value]


def find(report: Report) -> Findings:
    """Findings of a run, as data."""
    names = names_in_plan(report.plan, report.settings.page_kind)
    labelled = _labelled(report, names)
    return _Finder(labelled, _programs(labelled, names)).findings()


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


def _programs(report: Report, names: Names) -> Programs:
    """Programs of a run; what others are compared with is no alias."""
    plan = report.plan
    compared_with = {plan.baseline, *plan.references}
    owners = alias_variants(plan.cells, report.statuses)
    return Programs(
        plan=plan,
        statuses=report.statuses,
        names=names,
        owners={alias: owner for alias, owner in owners.items() if alias not in compared_with},
        baseline=next((item for item in plan.variants if item.id == plan.baseline), None),
    )


@dataclass(frozen=True, eq=False)
class _Finder:
    """A run whose programs are known; what follows from it is computed when it is first asked."""

    report: Report
    programs: Programs

    def findings(self) -> Findings:
        answering = [
            *(winner.cell for winner in self.ranking.deciding_winners.values()),
            *(cell for cell in self.programs.cells if cell.variant == self.programs.baseline),
        ]
        samples, correct = self.report.measured.samples, self.programs.correct_cells
        steps_of_parameters = self.step_finder.effects_of(self.parameter_steps)
        return Findings(
            report=self.report,
            programs=self.programs,
            numbers=self.numbers,
            verdicts=Verdicts(
                numbers=self.numbers,
                pairs=self.pairs,
                against_baseline=self.against_baseline,
                baselines=tuple(self._baselines()),
            ),
            ranking=self.ranking,
            ladder=self._ladder(),
            parameter_steps=tuple(step for step in steps_of_parameters if step.overall.pairs),
            grid_pairs=self._grid_pairs(),
            waves=self._waves(),
            timers=find_timers(samples, self.blocks, list(correct)),
            sustained=find_sustained(self.report, self.numbers, self.against_baseline),
            notices=self._notices(slow_visits_notice(answering, self.numbers.slow_visits)),
        )

    @property
    def finds(self) -> frozenset[str]:
        return self.report.settings.page_kind.finds

    # ---- one number per cell ---------------------------------------------------------------------

    @cached_property
    def blocks(self) -> pd.DataFrame:
        """Numbers of the blocks in which every cell was measured, before verdicts and ranks."""
        return block_numbers(self.report)

    @cached_property
    def joined(self) -> pd.DataFrame:
        """Table with a row per cell and metric, before verdicts and ranks."""
        correct = [cell.id for cell in self.programs.plan.cells if self.programs.correct(cell)]
        return one_number_per_cell(self.blocks, final_numbers(self.report, correct))

    @cached_property
    def block_values(self) -> Values:
        return values_of(self.blocks[self.blocks["metric"] == JUDGED])

    @cached_property
    def values(self) -> Values:
        return values_of(self.joined[self.joined["metric"] == JUDGED])

    def slowdown(self, cell: Cell, best: Cell) -> float:
        """Ratio by which a cell is worse than another of its problem."""
        values = [
            of.get((of_cell.id, JUDGED), NOTHING)
            for of_cell in (cell, best)
            for of in (self.values, self.block_values)
        ]
        return slowdown(*values)

    @cached_property
    def numbers(self) -> CellNumbers:
        frame = with_verdict_ratios(self.joined, self.against_baseline)
        frame = with_ranks(frame, JUDGED, self.cell_ranks)
        metrics = metric_labels(self.report, frame)
        of_primary = (metric for metric in metrics if metric.name == JUDGED)
        return CellNumbers(
            programs=self.programs,
            primary=next(of_primary, label(JUDGED)),
            metrics=metrics,
            frame=frame,
            values=values_of(frame),
            block_values=self.block_values,
            slow_visits=slow_visits(self.judges[0].times),
        )

    # ---- the leader of each problem --------------------------------------------------------------

    @cached_property
    def measured(self) -> Mapping[str, list[tuple[Cell, Value]]]:
        """Correct cells with a number, by problem id."""
        by_problem: dict[str, list[tuple[Cell, Value]]] = {}
        for cell in self.programs.correct_cells.values():
            value = self.values.get((cell.id, JUDGED), NOTHING)
            if value.present:
                by_problem.setdefault(cell.problem.id, []).append((cell, value))
        return by_problem

    @cached_property
    def leaders(self) -> Mapping[str, Cell]:
        return self._leaders(frozenset())

    @cached_property
    def rival_leaders(self) -> Mapping[str, Cell]:
        return self._leaders(self.programs.references)

    def _leaders(self, excluded: Collection[str]) -> Mapping[str, Cell]:
        leaders = {}
        for problem in self.programs.problems:
            cells = self.measured.get(problem.id, [])
            rivals = [pair for pair in cells if pair[0].variant.id not in excluded]
            if rivals:
                leaders[problem.id] = leader_of(rivals, self.programs.baseline)
        return leaders

    @cached_property
    def cell_ranks(self) -> Mapping[str, float]:
        """Rank of each cell in its problem: the winner, then the others by their slowdown."""
        ranks: dict[str, float] = {}
        for problem, leader in self.leaders.items():
            slowdowns = {
                cell.id: 0.0 if cell == leader else max(1.0, self.slowdown(cell, leader))
                for cell, _ in self.measured[problem]
            }
            ranks |= ranks_by_slowdown(slowdowns)
        return ranks

    def in_order(self, problem: str) -> list[Cell]:
        """Cells of a problem by their rank, best first."""
        cells = [cell for cell, _ in self.measured.get(problem, []) if cell.id in self.cell_ranks]
        return sorted(cells, key=lambda cell: self.cell_ranks[cell.id])

    # ---- verdicts --------------------------------------------------------------------------------

    @cached_property
    def judges(self) -> tuple[Judge, Judge]:
        return judges_of(self.report)

    @cached_property
    def pairs(self) -> PairVerdicts:
        return judge_families(self.judges, self.families)

    @cached_property
    def families(self) -> Mapping[str, tuple[Pair, ...]]:
        """Pairs to judge by question, in the order in which pairs belong to one."""
        return {
            "baseline": self.with_baseline,
            "winner": self._with_leaders(self.leaders),
            "best of the rivals": self._with_leaders(self.rival_leaders),
            "steps": pairs_of_steps(
                (
                    *ladder_steps(self.ladder_versions),
                    *cumulative_steps(self.ladder_versions),
                    *self.parameter_steps,
                ),
                self.programs,
            ),
            "grid": pairs_to_judge(self.programs) if GRIDS in self.finds else (),
            **{
                key: tuple((cell, o.id) for cell, o in opponents.items() if o and o.id != cell)
                for key, opponents in self.opponents.items()
            },
            "explained": self._explained_pairs(),
        }

    def _explained_pairs(self) -> tuple[Pair, ...]:
        """Every two explained cells of a problem: `explain` compares any of them."""
        profiles, correct = self.report.details.profiles, self.programs.correct_cells
        explained = [cell for cell in correct.values() if cell.id in profiles]
        return tuple(
            (cell.id, against.id)
            for cell, against in itertools.combinations(explained, 2)
            if cell.problem.id == against.problem.id
        )

    @cached_property
    def with_baseline(self) -> tuple[Pair, ...]:
        """Each correct cell with that of the baseline, where this is correct too."""
        correct = list(self.programs.correct_cells.values())
        return tuple(self.judges[0].pairs_with_baseline(correct))

    def _with_leaders(self, leaders: Mapping[str, Cell]) -> tuple[Pair, ...]:
        return tuple(
            (cell.id, leader.id)
            for problem, leader in leaders.items()
            for cell in self.in_order(problem)
            if cell != leader
        )

    @cached_property
    def against_baseline(self) -> Mapping[str, PairVerdict]:
        """Verdict against the baseline by id of each correct cell that is not the baseline's."""
        return {pair[0]: verdict_on(self.pairs, *pair) for pair in self.with_baseline}

    @cached_property
    def opponents(self) -> Mapping[str, Mapping[str, Cell | None]]:
        """Cell that each correct cell is compared with, by baseline to switch between and id.

        None where one of the two has no correct result.
        """
        programs = self.programs
        order = {variant.id: index for index, variant in enumerate(programs.variants)}

        def previous(cell: Cell) -> Cell | None:
            earlier = programs.variants[: order[cell.variant.id]][::-1]
            return next(
                filter(None, (programs.correct_at(variant, cell.problem) for variant in earlier)),
                None,
            )

        first = programs.variants[0] if programs.variants else None
        cells_compared_with: dict[str, Callable[[Cell], Cell | None]] = {
            "reference": lambda cell: programs.correct_at(programs.baseline, cell.problem),
            "best": lambda cell: self.leaders.get(cell.problem.id),
            "first": lambda cell: programs.correct_at(first, cell.problem),
            "previous": previous,
        }
        if programs.baseline is None:
            del cells_compared_with["reference"]
        return {
            key: {
                cell.id: other_of(cell) if cell.id in programs.correct_cells else None
                for cell in programs.cells
            }
            for key, other_of in cells_compared_with.items()
        }

    def _baselines(self) -> Iterator[NamedBaseline]:
        """Every cell against each baseline that a reader can switch between."""
        first = self.programs.variants[0] if self.programs.variants else None
        variants = {"reference": self.programs.baseline, "first": first}
        for key, opponents in self.opponents.items():
            yield NamedBaseline(
                key=key,
                variant=variants.get(key),
                verdicts={
                    cell: NO_VERDICT
                    if opponent is None
                    else self._verdict_or_ratio(cell, opponent.id)
                    for cell, opponent in opponents.items()
                },
                opponents={
                    cell: opponent.id if opponent else None for cell, opponent in opponents.items()
                },
            )

    def _verdict_or_ratio(self, cell: str, against: str) -> PairVerdict:
        """Verdict on two cells (ids); without blocks that both have, the ratio of the medians."""
        verdict = verdict_on(self.pairs, cell, against)
        if not math.isnan(verdict.ratio):
            return verdict
        above, below = (
            self.numbers.values.get((cell_id, JUDGED), NOTHING).median
            for cell_id in (cell, against)
        )
        return replace(verdict, ratio=above / below if math.isfinite(below) and below else math.nan)

    # ---- winners and ranks -----------------------------------------------------------------------

    @cached_property
    def ranking(self) -> Ranking:
        tunes = self.report.settings.page_kind.tunes
        winners = self._winners(self.leaders, frozenset())
        rival_winners = self._winners(self.rival_leaders, self.programs.references)
        return Ranking(
            programs=self.programs,
            tunes=tunes,
            values=self._durations(self.programs.cells),
            against_baseline=self.against_baseline,
            winners=winners,
            rival_winners=rival_winners,
            slowdowns=self._slowdowns(rival_winners if tunes else winners),
        )

    def _durations(self, cells: Sequence[Cell]) -> dict[str, Value]:
        """Duration by cell id."""
        return {cell.id: self.numbers.duration(cell) for cell in cells}

    def _winners(self, leaders: Mapping[str, Cell], excluded: frozenset[str]) -> dict[str, Winner]:
        winners = {}
        for problem, leader in leaders.items():
            cells = self.in_order(problem)
            winner = make_winner(leader, cells, self._durations(cells), self.pairs, excluded)
            winners[problem] = replace(winner, selection_bias=self._selection_bias(winner))
        return winners

    def _selection_bias(self, winner: Winner) -> float:
        """Relative amount by which a winner's number reads too low, were its candidates equal."""
        timing, final = self.judges
        judge = final if winner.final else timing
        return judge.selection_bias([cell.id for cell in winner.candidates])

    def _slowdowns(self, winners: Mapping[str, Winner]) -> dict[str, float]:
        """Slowdown of each cell relative to the winner of its problem.

        It is the ratio that the verdict against the winner was given on, so that no number
        contradicts a verdict; without blocks in common, that of the medians.
        """
        slowdowns = {}
        for cell in self.programs.correct_cells.values():
            winner = winners.get(cell.problem.id)
            if winner is None:
                continue
            verdict = winner.all_verdicts.get(cell.id, NO_VERDICT)
            judged = verdict.blocks > 0 and verdict.ratio > 0
            slowdowns[cell.id] = verdict.ratio if judged else self.slowdown(cell, winner.cell)
        return slowdowns

    # ---- of some kinds of page -------------------------------------------------------------------

    @cached_property
    def ladder_versions(self) -> tuple[Variant, ...]:
        """Versions of a ladder that have a correct result anywhere; none of other pages."""
        if LADDER not in self.finds:
            return ()
        measured = {cell.variant.id for cell in self.programs.correct_cells.values()}
        return tuple(variant for variant in self.programs.rivals if variant.id in measured)

    @cached_property
    def parameter_steps(self) -> tuple[ParameterStep, ...]:
        settings, rivals = self.report.settings, self.programs.rivals
        if PARAMETERS in self.finds:
            references = self.report.plan.references
            variants = [item for item in self.programs.variants if item.id not in references]
            return steps(variants, settings.parameters or None)
        if RIVAL_PARAMETERS in self.finds:
            return steps(rivals)
        parameter = contrasted_parameter(self.programs.problems, settings)
        return steps(rivals, flags_of(rivals)) if parameter else ()

    @cached_property
    def step_finder(self) -> StepFinder:
        return StepFinder(self.report, self.programs, self.pairs, self.judges[0])

    def _ladder(self) -> tuple[Rung, ...]:
        if LADDER not in self.finds:
            return ()
        means = {rank.variant.id: rank.geometric_mean for rank in self.ranking.ranks}
        return make_ladder(self.ladder_versions, self.step_finder, self.numbers, means)

    def _grid_pairs(self) -> GridPairs | None:
        if GRIDS not in self.finds:
            return None
        return find_grid_pairs(self.numbers, self.report.settings, self.pairs)

    def _waves(self) -> pd.DataFrame | None:
        if WAVES not in self.finds:
            return None
        return find_waves(self.numbers, self.report.environment.sm_count)

    # ---- notices ---------------------------------------------------------------------------------

    def _notices(self, slow: Notice | None) -> tuple[Notice, ...]:
        """Notices of reading the run, and caveats of its numbers; `slow`: of slow visits."""
        report = self.report
        run_caveats = caveats(report, self.judges)
        if report.execution.replay:
            run_caveats = tuple(map(_replay_notice, run_caveats))
        replay_notices = [notice for notice in report.notices if notice.kind is NoticeKind.REPLAYED]
        read_notices = [
            notice for notice in report.notices if notice.kind is not NoticeKind.REPLAYED
        ]
        few = few_blocks_notice(report.plan)
        by_family = [few] if few and few.kind is NoticeKind.FEW_BLOCKS_FOR_FAMILY else []
        return (*replay_notices, *run_caveats, *by_family, *([slow] if slow else []), *read_notices)


def _replay_notice(notice: Notice) -> Notice:
    """A notice with the remedy of a replay, which cannot measure what is missing."""
    if notice.kind is not NoticeKind.NOT_MEASURED:
        return notice
    return Notice(NoticeKind.NOT_RECORDED, notice.values)
