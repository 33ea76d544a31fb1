"""A search of an experiment, on this machine or workers: its terms and its builds."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from profiler.kernels.build import watched_files
from profiler.model import BuildResult, SearchPlan, Variant
from profiler.run_folder.folder import SEARCH_JOURNAL_FILE, RunFolder
from profiler.search.journal import SearchJournal, Terms, read_search
from profiler.search.live_search import LiveSearch
from profiler.search.space import SearchSpace
from profiler.sessions.builds.plan_builds import build_plan
from profiler.sessions.execution import Execution
from profiler.sessions.measure import MeasureRequest
from profiler.sessions.progress import ProgressReporter
from profiler.sessions.search.bench import Subject, subject_of


def terms_of(request: Execution, plan: SearchPlan, keys: Mapping[str, str]) -> Terms:
    """Terms of a search; `keys`: of the cells outside of the space."""
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
    """Hash of the CUDA sources of all configurations, and of the headers that they may include."""
    recipes = (request.space.recipe(variant.params) for variant in request.plan.variants)
    # Configurations differ in their definitions: few recipes have different files.
    inputs = {(recipe.sources, recipe.included): recipe for recipe in recipes if recipe is not None}
    files = {file for recipe in inputs.values() for file in watched_files(recipe) if file.is_file()}
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


_CORES_LEFT = 2
"""Cores for the runner and for this process, while the other cores compile."""


def run_of_search(run: RunFolder | None, terms: Terms) -> RunFolder | None:
    """The run, if its search has these terms; else None."""
    record = None if run is None else read_search(run.path / SEARCH_JOURNAL_FILE)
    return run if record is not None and record.terms == terms else None


@dataclass(frozen=True, eq=False)
class ExperimentSearch:
    """A search of an experiment, with its plan and terms."""

    request: MeasureRequest
    plan: SearchPlan
    terms: Terms
    reporter: ProgressReporter

    @cached_property
    def variants(self) -> dict[str, Variant]:
        """The configurations, by id."""
        searched = set(self.plan.variants)
        return {v.id: v for v in self.request.plan.variants if v.id in searched}

    @cached_property
    def jobs(self) -> int:
        """Compilations at a time."""
        return max(1, len(os.sched_getaffinity(0)) - _CORES_LEFT)

    @cached_property
    def needs_builds(self) -> bool:
        """Whether configurations are compiled before they are measured."""
        variants = self.variants.values()
        return any(self.request.space.recipe(variant.params) is not None for variant in variants)

    def subject(self, variant: Variant, build: BuildResult) -> Subject:
        """Subject of a built configuration."""
        return subject_of(self.request.plan, self.plan.problems, [build], variant.id)

    def build(self, batch: Sequence[Variant]) -> tuple[BuildResult, ...]:
        """Build results of configurations."""
        request, build = self.request, self.request.loaded.experiment.build
        return build_plan(
            request.loaded,
            batch,
            request.space,
            arch=request.machine.architecture(build.arch),
            build_root=request.build_root,
            jobs=self.jobs,
            on_wait=self.reporter.say,
        )

    def live_search(self, run: RunFolder) -> LiveSearch:
        """The search in the journal of a run; prints a line where it goes on."""
        journal = SearchJournal(run.path / SEARCH_JOURNAL_FILE)
        params = {id_: variant.params for id_, variant in self.variants.items()}
        live = LiveSearch(self.terms, params, journal)
        if live.diverged:
            self.reporter.warn(
                "The strategy proposes something else than it did in this run's journal (another "
                "version of the profiler): it goes on with what was measured."
            )
        if live.left_out:
            self.reporter.warn(
                f"{live.left_out} records of this run's search are damaged, or of configurations "
                "of which others are lost: they do not count."
            )
        self.reporter.say(self._opening_line(live))
        return live

    def _opening_line(self, live: LiveSearch) -> str:
        plan = self.plan
        evaluation_count = len(live.record.evaluations)
        budget = f"{plan.evaluations} evaluations" if plan.evaluations else f"{plan.seconds:g} s"
        earlier = f", {evaluation_count} of them made already" if evaluation_count else ""
        return (
            f"search: {plan.strategy}, {budget} of {len(plan.variants)} configurations at "
            f"{len(plan.problems)} problems{earlier}"
        )
