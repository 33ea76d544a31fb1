"""Experiment → plan: cells, exclusions with reasons, and what each session visits in which order.

Pure and deterministic: the same spec gives the same plan on every machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, replace
from typing import Any

from profiler.kernels.arithmetic import ExpressionError
from profiler.model import (
    SCHEMA_VERSION,
    Cell,
    Exclusion,
    Params,
    Plan,
    Problem,
    SearchPlan,
    Variant,
    cell_id,
)
from profiler.planning.cell_filter import NO_LABELS, select_cells
from profiler.planning.cuda_file import check_cuda_file
from profiler.planning.matrix import (
    Candidate,
    Expanded,
    LeftOut,
    check_rule_keys,
    exclusions,
    expand,
    first_match,
    nothing_left_error,
    value_text,
)
from profiler.planning.page_kinds import pairs_asked
from profiler.planning.session_plans import planned_sessions
from profiler.planning.space import Space
from profiler.planning.spec import CommandWorkload, Experiment, LoadedSpec, did_you_mean
from profiler.planning.spec.models import GEOMEAN, WORST, Search, duration_seconds
from profiler.planning.spec.source import FieldPath
from profiler.planning.spec.workloads import Parts
from profiler.runner.experiment import MAX_COMBINATIONS

USUAL_FINALISTS = 5
"""Finalists that a forecast counts with; three to eight and the quickest at each problem are
taken."""


def make_plan(
    loaded: LoadedSpec,
    space: Space,
    *,
    only: str | None = None,
    labels: Mapping[str, str] = NO_LABELS,
) -> Plan:
    """Plan an experiment; `only` keeps the cells that a filter names (see `select_cells`).

    Cells are in the order of the spec, problem by problem. Raises `SpecError` where the spec leaves
    nothing to measure, has no such baseline, or its command has a placeholder that nothing fills;
    `UsageError` where `only` names what does not exist.
    """
    experiment = loaded.experiment
    expanded = expand(loaded, space)
    check_cuda_file(loaded, expanded.variants, expanded.problems)
    baseline = _baseline(loaded, expanded)
    cells, excluded = _cells(loaded, space, expanded)
    if all(cell.variant.id != baseline.id for cell in cells):
        raise loaded.error(
            ("baseline",), f"every cell of the baseline '{baseline.name}' is excluded"
        )
    _check_placeholders(loaded, cells)
    _check_parts(loaded, expanded)
    _check_page(loaded, expanded)
    all_cells = cells
    if only is not None:
        cells = select_cells(cells, only, baseline.id, labels)
    # A single look for external commands: each visit is a process of its own, and what a command
    # launches is known only when it ran.
    blocks = experiment.collect.blocks
    plan = Plan(
        experiment=experiment.name,
        seed=experiment.collect.seed,
        cells=cells,
        excluded=(*expanded.excluded, *excluded),
        sessions=(),
        baseline=baseline.id,
        references=_references(loaded, expanded),
        looks=blocks[:1] if isinstance(experiment.workload, CommandWorkload) else blocks,
        final_blocks=experiment.collect.final_blocks,
        questions=experiment.all_questions,
        capability=space.capability,
    )
    if experiment.search is not None:
        return replace(plan, search=search_plan(loaded, plan))
    return measured_plan(experiment, plan, all_cells)


def measured_plan(
    experiment: Experiment, plan: Plan, all_cells: Sequence[Cell] | None = None
) -> Plan:
    """A plan with the sessions and the pairs of its cells.

    `all_cells`: cells of the whole experiment, where the plan has a part of them.
    """
    sessions = planned_sessions(
        experiment, plan, replace(plan, cells=tuple(all_cells or plan.cells))
    )
    return replace(
        plan,
        sessions=tuple(sessions),
        pairs=pairs_asked(plan.rivals, experiment.all_questions, experiment.page.parameters),
    )


def judged_plan(experiment: Experiment, plan: Plan, finalists: Iterable[str]) -> Plan:
    """Plan after a search: its finalists (variant ids), and variants it did not search.

    The plan itself where it has no search.
    """
    if plan.search is None:
        return plan
    dropped = set(plan.search.variants) - set(finalists)
    cells = tuple(cell for cell in plan.cells if cell.variant.id not in dropped)
    return measured_plan(experiment, replace(plan, cells=cells, search=None))


def foreseen_plan(experiment: Experiment, plan: Plan) -> Plan:
    """Likely plan after a search: its first configurations stand for the finalists.

    The plan itself where it has no search.
    """
    first = plan.search.variants[:USUAL_FINALISTS] if plan.search is not None else ()
    return judged_plan(experiment, plan, first)


def plan_document(plan: Plan) -> dict[str, Any]:
    """The plan as JSON, for `profiler plan --json`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "experiment": plan.experiment,
        "seed": plan.seed,
        "baseline": plan.baseline,
        "looks": list(plan.looks),
        "final_blocks": plan.final_blocks,
        "questions": list(plan.questions),
        "pairs": [list(pair) for pair in plan.pairs],
        "search": _search_document(plan.search),
        "cells": [_cell_document(cell) for cell in plan.cells],
        "excluded": [
            {**asdict(exclusion), "examples": list(exclusion.examples)}
            for exclusion in plan.excluded
        ],
        "sessions": [
            {
                "name": session.name,
                "collector": session.collector,
                "kind": session.kind.value,
                "metrics": list(session.metrics),
                "visits": len(session.visits),
            }
            for session in plan.sessions
        ],
    }


def _search_document(search: SearchPlan | None) -> dict[str, Any] | None:
    if search is None:
        return None
    return {
        "strategy": search.strategy,
        "seed": search.seed,
        "objective": search.objective,
        "evaluations": search.evaluations,
        "seconds": search.seconds,
        "configurations": len(search.variants),
        "problems": list(search.problems),
        "left_out": search.left_out,
    }


def _cell_document(cell: Cell) -> dict[str, Any]:
    return {
        "id": cell.id,
        "variant": cell.variant.name,
        "problem": cell.problem.name,
        "variant_params": dict(cell.variant.params),
        "problem_params": dict(cell.problem.params),
        **({"env": dict(cell.variant.env)} if cell.variant.env else {}),
    }


def command_values(cell: Cell) -> dict[str, str]:
    """Placeholder values of an external command in a cell, by name."""
    params: Params = {**cell.variant.params, **cell.problem.params}
    names = {"variant": cell.variant.name, "problem": cell.problem.name}
    return names | {key: value_text(value) for key, value in params.items()}


# ---- cells ---------------------------------------------------------------------------------------


def _baseline(loaded: LoadedSpec, expanded: Expanded) -> Variant:
    """The baseline that the spec names, else the first variant."""
    name = loaded.experiment.baseline
    if name is None:
        return expanded.variants[0]
    return _variant_named(name, ("baseline",), loaded, expanded)


def _references(loaded: LoadedSpec, expanded: Expanded) -> tuple[str, ...]:
    """Ids of the variants that the page shows as references.

    One that is excluded is left out: it may be for another card than this.
    """
    return tuple(
        _variant_named(name, ("page", "references", place), loaded, expanded).id
        for place, name in enumerate(loaded.experiment.page.references)
        if name not in expanded.left_out
    )


def _check_page(loaded: LoadedSpec, expanded: Expanded) -> None:
    """Raise SpecError for parameters of the page that no variant or no problem has."""
    of_variants = {key for variant in expanded.variants for key in variant.params}
    _check_page_names(loaded, "parameters", "variant", of_variants)
    of_problems = {key for problem in expanded.problems for key in problem.params}
    parts = _parts(loaded)
    if parts is not None:
        if parts.axis is None:  # which parameters there are is known when it was measured
            return
        of_problems.add(parts.axis)
    for key in ("axes", "split"):
        _check_page_names(loaded, key, "problem", of_problems)
    _check_weights(loaded, expanded.problems, of_problems)


def _check_weights(loaded: LoadedSpec, problems: Sequence[Problem], parameters: Set[str]) -> None:
    """Raise SpecError where calls of a step are no numbers of the problems."""
    name = loaded.experiment.page.weights
    if name is None:
        return
    if name not in parameters:
        message = f"no problem has a parameter '{name}'{did_you_mean(name, parameters)}"
        raise loaded.error(("page", "weights"), message)
    for problem in problems:
        count = problem.params.get(name, 0)
        if isinstance(count, bool) or not isinstance(count, int | float) or count < 0:
            message = f"'{name}' is {value_text(count)} at problem '{problem.name}', no number of"
            raise loaded.error(("page", "weights"), f"{message} calls")


def _check_page_names(loaded: LoadedSpec, key: str, owner: str, parameters: Set[str]) -> None:
    for place, name in enumerate(getattr(loaded.experiment.page, key)):
        if name not in parameters:
            message = f"no {owner} has a parameter '{name}'{did_you_mean(name, parameters)}"
            raise loaded.error(("page", key, place), message)


def _variant_named(name: str, field: FieldPath, loaded: LoadedSpec, expanded: Expanded) -> Variant:
    by_name = {variant.name: variant for variant in expanded.variants}
    variant = by_name.get(expanded.aliases.get(name, name))
    if variant is not None:
        return variant
    raise loaded.error(field, _no_variant(name, expanded, by_name))


def _no_variant(name: str, expanded: Expanded, by_name: Mapping[str, Variant]) -> str:
    if name in expanded.left_out:
        return f"the variant '{name}' is excluded: {expanded.left_out[name]}"
    return f"there is no variant '{name}'{did_you_mean(name, by_name)}"


def _cells(
    loaded: LoadedSpec, space: Space, expanded: Expanded
) -> tuple[tuple[Cell, ...], tuple[Exclusion, ...]]:
    """The cells that no rule and no check removes, and the removed ones."""
    rules = loaded.experiment.exclude
    count = len(expanded.variants) * len(expanded.problems)
    if count > MAX_COMBINATIONS:
        raise loaded.error(("variants",), f"{count} cells are more than {MAX_COMBINATIONS}")
    check_rule_keys(loaded, ("exclude",), rules, _keys(expanded))
    left_out: LeftOut = {rule.label: [] for rule in rules}
    remaining = []
    for problem in expanded.problems:
        for variant in expanded.variants:
            limited = expanded.limited.get(variant.id)
            made_for = (limited and limited.only_at) or {}
            if any(problem.params.get(name) != value for name, value in made_for.items()):
                continue  # another kernel of the same template is for this problem
            cell = Cell(cell_id(variant, problem), variant, problem)
            rule = first_match(rules, _values(variant, problem)) if rules else None
            reason = rule.label if rule else _why_not(loaded, limited, cell)
            if reason is None:
                reason = space.check_cell(variant.params, problem.params)
            if reason is None:
                remaining.append(cell)
            else:
                left_out.setdefault(reason, []).append(cell.id)
    if not remaining:
        raise nothing_left_error(loaded, ("exclude",), "cells", exclusions("cell", left_out))
    return tuple(remaining), exclusions("cell", left_out)


def _why_not(loaded: LoadedSpec, limited: Candidate | None, cell: Cell) -> str | None:
    """Why a variant's own condition excludes a problem; None where it does not."""
    if limited is None:
        return None
    try:
        return limited.why_not(_values(cell.variant, cell.problem))
    except ExpressionError as error:
        message = f"{error} (variant '{cell.variant.name}', problem '{cell.problem.name}')"
        raise loaded.error((*limited.field, "when"), message) from error


def variants_without_problem(loaded: LoadedSpec, space: Space) -> dict[str, str]:
    """Variants whose own condition excludes every problem, by name: why it excludes the first."""
    expanded = expand(loaded, space)
    reasons = {}
    for variant in expanded.variants:
        limited = expanded.limited.get(variant.id)
        problems = expanded.problems if limited is not None else ()
        cells = (Cell(cell_id(variant, problem), variant, problem) for problem in problems)
        by_problem = [_why_not(loaded, limited, cell) for cell in cells]
        if by_problem and by_problem[0] and None not in by_problem:
            reasons[variant.name] = by_problem[0]
    return reasons


def _keys(expanded: Expanded) -> set[str]:
    of_variants = {key for variant in expanded.variants for key in variant.params}
    return {
        "variant",
        "problem",
        *of_variants,
        *(key for problem in expanded.problems for key in problem.params),
    }


def _values(variant: Variant, problem: Problem) -> Params:
    names = {"variant": variant.name, "problem": problem.name}
    return {**variant.params, **problem.params, **names}


def _check_placeholders(loaded: LoadedSpec, cells: Iterable[Cell]) -> None:
    workload = loaded.experiment.workload
    if not isinstance(workload, CommandWorkload):
        return
    for cell in cells:
        values = command_values(cell)
        for name in workload.placeholders:
            if name not in values:
                raise loaded.error(
                    ("workload", "command"),
                    f"nothing fills {{{name}}} for variant '{cell.variant.name}' and problem "
                    f"'{cell.problem.name}'{did_you_mean(name, values)}",
                )


def _parts(loaded: LoadedSpec) -> Parts | None:
    workload = loaded.experiment.workload
    return workload.parts if isinstance(workload, CommandWorkload) else None


def _check_parts(loaded: LoadedSpec, expanded: Expanded) -> None:
    """Raise SpecError where the axis of parts is a parameter of a variant or problem already."""
    parts = _parts(loaded)
    if parts is not None and parts.axis in _keys(expanded):
        message = f"variants or problems have a parameter '{parts.axis}' already"
        raise loaded.error(("workload", "parts", parts.axis), message)


FEWEST_CONFIGURATIONS = 2


def search_plan(loaded: LoadedSpec, plan: Plan) -> SearchPlan:
    """The search of a spec, over the cells of a plan.

    Raises SpecError where the objective names no problem, the baseline is not measured where the
    search measures, or fewer than two configurations can do every problem of the objective.
    """
    search = loaded.experiment.search
    if search is None:
        raise ValueError("the experiment has no search")
    objective, problems = _objective(loaded, search, plan.problems)
    objective_problems = {problem.id for problem in problems}
    problems_of: dict[str, set[str]] = {}
    for cell in plan.cells:
        problems_of.setdefault(cell.variant.id, set()).add(cell.problem.id)
    if missing := objective_problems - problems_of[str(plan.baseline)]:
        message = f"the baseline is excluded at {', '.join(sorted(missing))}: nothing to divide by"
        raise loaded.error(("search", "objective"), message)
    group = largest_group(plan.rivals) if plan.rivals else ()
    capable = tuple(variant for variant in group if objective_problems <= problems_of[variant.id])
    _require_some(loaded, group, capable, problems)
    seconds = duration_seconds(search.budget)
    return SearchPlan(
        strategy=search.strategy,
        seed=search.seed,
        objective=objective,
        variants=tuple(variant.id for variant in capable),
        problems=tuple(problem.id for problem in problems),
        evaluations=int(search.budget) if seconds is None else None,
        seconds=seconds,
        left_out=len(group) - len(capable),
    )


def largest_group(variants: Sequence[Variant]) -> tuple[Variant, ...]:
    """The variants that have the most frequent set of parameter names, in their order.

    References of another library have other parameters than the kernel that is tuned.
    """
    counts = Counter(frozenset(variant.params) for variant in variants)
    most = max(counts, key=lambda names: (counts[names], sorted(names)))
    return tuple(variant for variant in variants if frozenset(variant.params) == most)


def _objective(
    loaded: LoadedSpec, search: Search, problems: Sequence[Problem]
) -> tuple[str, tuple[Problem, ...]]:
    """Objective with a problem's id in place of its name, and the problems it covers."""
    if search.objective in (GEOMEAN, WORST):
        return search.objective, tuple(problems)
    for problem in problems:
        if search.objective in (problem.id, problem.name):
            return problem.id, (problem,)
    hint = did_you_mean(search.objective, [GEOMEAN, WORST, *(problem.name for problem in problems)])
    raise loaded.error(("search", "objective"), f"there is no problem '{search.objective}'{hint}")


def _require_some(
    loaded: LoadedSpec,
    group: Sequence[Variant],
    capable: Sequence[Variant],
    problems: Sequence[Problem],
) -> None:
    if len(capable) >= FEWEST_CONFIGURATIONS:
        return
    if len(group) < FEWEST_CONFIGURATIONS:
        raise loaded.error(("search",), f"there is nothing to search: {len(group)} configurations")
    raise loaded.error(
        ("search",),
        f"{len(capable)} of {len(group)} configurations can do all {len(problems)} problems",
        remedy="Name one problem as the objective, or keep the problems that one configuration can "
        "do (of one type, say).",
    )
