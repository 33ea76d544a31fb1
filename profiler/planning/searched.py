"""Which variants of an experiment a search proposes, at which problems it measures them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from profiler.model import Plan, Problem, SearchPlan, Variant
from profiler.planning.spec import LoadedSpec, did_you_mean
from profiler.planning.spec.search import GEOMEAN, WORST, Search, duration_seconds

FEWEST_CONFIGURATIONS = 2


def search_plan(loaded: LoadedSpec, plan: Plan) -> SearchPlan:
    """The search that a spec asks for, over the cells of a plan.

    Raises SpecError where the objective names no problem, the baseline is not measured where the
    search measures, or fewer than two configurations can do every problem of the objective.
    """
    search = loaded.experiment.search
    if search is None:
        raise ValueError("the experiment has no search")
    objective, problems = _objective(loaded, search, plan.problems)
    wanted = {problem.id for problem in problems}
    problems_of: dict[str, set[str]] = {}
    for cell in plan.cells:
        problems_of.setdefault(cell.variant.id, set()).add(cell.problem.id)
    if missing := wanted - problems_of[str(plan.baseline)]:
        message = f"the baseline is excluded at {', '.join(sorted(missing))}: nothing to divide by"
        raise loaded.error(("search", "objective"), message)
    group = largest_group(plan.rivals) if plan.rivals else ()
    able = tuple(variant for variant in group if wanted <= problems_of[variant.id])
    _require_some(loaded, group, able, problems)
    seconds = duration_seconds(search.budget)
    return SearchPlan(
        strategy=search.strategy,
        seed=search.seed,
        objective=objective,
        variants=tuple(variant.id for variant in able),
        problems=tuple(problem.id for problem in problems),
        evaluations=int(search.budget) if seconds is None else None,
        seconds=seconds,
        left_out=len(group) - len(able),
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
    """Objective with a problem by its id, and the problems that it is about."""
    if search.objective in (GEOMEAN, WORST):
        return search.objective, tuple(problems)
    for problem in problems:
        if search.objective in (problem.id, problem.name):
            return problem.id, (problem,)
    names = [GEOMEAN, WORST, *(problem.name for problem in problems)]
    hint = did_you_mean(search.objective, names)
    raise loaded.error(("search", "objective"), f"there is no problem '{search.objective}'{hint}")


def _require_some(
    loaded: LoadedSpec,
    group: Sequence[Variant],
    able: Sequence[Variant],
    problems: Sequence[Problem],
) -> None:
    if len(able) >= FEWEST_CONFIGURATIONS:
        return
    if len(group) < FEWEST_CONFIGURATIONS:
        raise loaded.error(("search",), f"there is nothing to search: {len(group)} configurations")
    raise loaded.error(
        ("search",),
        f"{len(able)} of {len(group)} configurations can do all {len(problems)} problems",
        remedy="Name one problem as the objective, or keep the problems that one configuration can "
        "do (of one type, say).",
    )
