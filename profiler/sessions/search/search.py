"""A search of an experiment, whoever measures it: what is built for it, what is said of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from profiler.model import BuildResult, SearchPlan, Variant
from profiler.run_folder.folder import SEARCH_JOURNAL_FILE, RunFolder
from profiler.search.live.journal import SearchJournal, read_search
from profiler.search.live.records import Evaluated, Terms
from profiler.search.live.state import LiveSearch
from profiler.sessions.builds.plan_builds import build_plan
from profiler.sessions.measure import MeasureRequest
from profiler.sessions.progress import ProgressReporter
from profiler.sessions.search.bench import Subject
from profiler.sessions.search.search_progress import SearchProgress
from profiler.sessions.search.standing_bench import subject_of

_CORES_LEFT = 2
"""For the runner and for this process, while the others compile."""


def run_of_search(run: RunFolder | None, terms: Terms) -> RunFolder | None:
    """The run, where its search has these terms; else None."""
    record = None if run is None else read_search(run.path / SEARCH_JOURNAL_FILE)
    return run if record is not None and record.terms == terms else None


@dataclass(frozen=True, eq=False)
class Search:
    """A search of an experiment, and what it is done with."""

    request: MeasureRequest
    plan: SearchPlan
    builds: Sequence[BuildResult]
    """Builds of the baseline and of all others that are not searched."""
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

    @cached_property
    def progress(self) -> SearchProgress:
        """Progress of its evaluations; its time begins when it is first asked for."""
        return SearchProgress(self.reporter, self.plan.evaluations, self.plan.seconds)

    @property
    def baseline(self) -> Subject:
        """The variant that every time is divided by."""
        build_of = {build.variant: build for build in self.builds}
        baseline = self.terms.baseline
        build = build_of.get(baseline)
        library = None if build is None else build.library
        return subject_of(self.request.plan, self.plan.problems, baseline, library)

    def subject(self, variant: Variant, build: BuildResult) -> Subject:
        """A configuration that is built."""
        return subject_of(self.request.plan, self.plan.problems, variant.id, build.library)

    def build(self, batch: Sequence[Variant]) -> tuple[BuildResult, ...]:
        """Build some configurations."""
        request, experiment = self.request, self.request.loaded.experiment
        return build_plan(
            experiment,
            batch,
            request.space,
            arch=request.machine.architecture(experiment.build.arch),
            build_root=request.build_root,
            jobs=self.jobs,
            on_wait=self.reporter.say,
        )

    def opened(self, run: RunFolder) -> LiveSearch:
        """The search as the journal of a run has it; says so where it goes on."""
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
        _ = self.progress  # its time counts from here
        return live

    def _opening_line(self, live: LiveSearch) -> str:
        plan = self.plan
        done = len(live.record.evaluations)
        budget = f"{plan.evaluations} evaluations" if plan.evaluations else f"{plan.seconds:g} s"
        earlier = f", {done} of them made already" if done else ""
        return (
            f"search: {plan.strategy}, {budget} of {len(plan.variants)} configurations at "
            f"{len(plan.problems)} problems{earlier}"
        )

    def report(self, live: LiveSearch, evaluated: Evaluated) -> None:
        """Print a result that the search has taken."""
        self.progress.evaluated(live, evaluated, self.variants[evaluated.variant].name)

    def report_end(self, finalists: int) -> None:
        """Print that the search is over, and how many of its configurations come next."""
        self.progress.end()
        self.reporter.say(f"search: {finalists} finalists are measured next.")
