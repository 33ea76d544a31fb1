"""Terms of a search: all that it depends on, by which another execution goes on with it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from profiler.kernels.build import watched_files
from profiler.model import SearchPlan
from profiler.search.live.records import Terms
from profiler.search.space import SearchSpace
from profiler.sessions.overlap.likely_start import Execution


def terms_of(request: Execution, plan: SearchPlan, keys: Mapping[str, str]) -> Terms:
    """Terms of a search; `keys` of the cells that are not searched."""
    searched = set(plan.variants)
    params = [dict(v.params) for v in request.plan.variants if v.id in searched]
    space = SearchSpace.of_configurations(params)
    document = {
        "baseline": {
            cell.id: keys[cell.id]
            for cell in request.plan.cells
            if cell.variant.id == request.plan.baseline and cell.problem.id in plan.problems
        },
        "configurations": params,
        "problems": [dict(p.params) for p in request.plan.problems if p.id in plan.problems],
        "search": [plan.strategy, plan.seed, plan.objective],
        "sources": _sources_hash(request),
        "build": request.loaded.experiment.build.model_dump(mode="json"),
    }
    text = json.dumps(document, sort_keys=True, default=str)
    return Terms(
        key=hashlib.sha256(text.encode()).hexdigest()[:32],
        strategy=plan.strategy,
        seed=plan.seed,
        objective=plan.objective,
        baseline=str(request.plan.baseline),
        problems=plan.problems,
        parameters={parameter.name: parameter.values for parameter in space.parameters},
        configurations=len(space),
        left_out=plan.left_out,
    )


def _sources_hash(request: Execution) -> str:
    """Hash of the CUDA sources of all configurations, and of the headers that may be in them."""
    recipes = (request.space.recipe(variant.params) for variant in request.plan.variants)
    # Configurations differ in their definitions: few recipes have other files.
    inputs = {(recipe.sources, recipe.included): recipe for recipe in recipes if recipe is not None}
    files = {file for recipe in inputs.values() for file in watched_files(recipe) if file.is_file()}
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
