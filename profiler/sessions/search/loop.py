"""A search here: propose ahead, build meanwhile, measure what is built, then all that was found."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from profiler.errors import Interrupted
from profiler.machine.signals import raise_if_signalled
from profiler.model import BuildResult, Outcome, SearchPlan, Variant
from profiler.planning.plan import judged_plan
from profiler.run_folder.folder import RunFolder, newest_run
from profiler.run_folder.seconds import SEARCHES
from profiler.search.journal import Evaluated, Terms
from profiler.search.live_search import LiveSearch
from profiler.sessions.builds.plan_builds import build_all
from profiler.sessions.cell_keys import keys_of
from profiler.sessions.measure import (
    MeasureRequest,
    begin,
    gpu_held,
    measure_in,
    resumed_or_new,
)
from profiler.sessions.progress import ProgressReporter
from profiler.sessions.search.bench import STAGE, Bench, Subject, standing_bench
from profiler.sessions.search.evaluator import evaluate, look_again
from profiler.sessions.search.search import ExperimentSearch, run_of_search, terms_of

MOST_AHEAD = 16
"""Proposals without a result, whatever the number of cores: each knows nothing of the others."""
LOOK_EVERY = 5
"""Evaluations from one look at the best to the next."""


_POLL_S = 0.2
"""So that Ctrl-C is heard while the measuring thread waits."""

Build = Callable[[Sequence[Variant]], Sequence[BuildResult]]


@dataclass(frozen=True)
class Built:
    """A build that has ended, and the seconds of the batch that it was part of."""

    result: BuildResult
    seconds: float


class BackgroundBuilds:
    """Builds what is submitted, all that waits at a time: ninja shares the cores among them."""

    def __init__(self, build: Build) -> None:
        self._build = build
        self._waiting: deque[Variant] = deque()
        self._built: dict[str, Built] = {}
        self._error: BaseException | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="builds", daemon=True)
        self._thread.start()

    def submit(self, variants: Sequence[Variant]) -> None:
        """Have variants built."""
        with self._changed:
            self._waiting.extend(variants)
            self._changed.notify_all()

    def take_first(self, variants: Sequence[str]) -> tuple[str, Built]:
        """The first of some variants (ids) that is built; waits until one is.

        Raises what the build raised, where it was no fault of a variant.
        """
        with self._changed:
            while True:
                if self._error is not None:
                    raise self._error
                for variant in variants:
                    if variant in self._built:
                        return variant, self._built.pop(variant)
                raise_if_signalled()
                self._changed.wait(_POLL_S)

    def take_built(self) -> dict[str, Built]:
        """Builds that are done and were not taken, by variant id.

        Raises what the build raised, where it was no fault of a variant.
        """
        with self._changed:
            if self._error is not None:
                raise self._error
            built, self._built = self._built, {}
            return built

    def close(self) -> None:
        """Begin no further build; one under way ends with this process at the latest."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _work(self) -> None:
        while (batch := self._next_batch()) is not None:
            began = time.monotonic()
            try:
                results = self._build(batch)
            except BaseException as error:
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
                return
            seconds = time.monotonic() - began
            with self._changed:
                self._built |= {result.variant: Built(result, seconds) for result in results}
                self._changed.notify_all()

    def _next_batch(self) -> Sequence[Variant] | None:
        """All variants that wait; None where no more will come."""
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            if self._closed:
                return None
            batch = tuple(self._waiting)
            self._waiting.clear()
            return batch


@dataclass
class Lookahead:
    """How many proposals are under way: enough that builds hide behind measurements.

    Each of them was proposed without knowing what came of the others.
    """

    jobs: int
    """Compilations at a time."""
    needs_builds: bool
    _build_s: float = 0.0
    _measured_s: float = 0.0

    def note(self, evaluated: Evaluated) -> None:
        """Take the seconds of an evaluation, smoothed with those before."""
        self._build_s = _smoothed(self._build_s, evaluated.build_s)
        self._measured_s = _smoothed(self._measured_s, evaluated.measured_s)

    @property
    def depth(self) -> int:
        """Proposals without a result that there may be."""
        if not self.needs_builds:
            return 1
        most = min(2 * self.jobs, MOST_AHEAD)
        if not self._measured_s:
            return min(self.jobs, most)
        # A batch begins when the one before it ends, so that a build may wait for another one.
        hidden = math.ceil(2 * self._build_s / self._measured_s)
        return min(max(1 + hidden, 2), most)


def _smoothed(before: float, seconds: float) -> float:
    return seconds if not before else 0.7 * before + 0.3 * seconds


@dataclass
class SearchBudget:
    """Proposals or time that a search has left, over all executions."""

    search: LiveSearch
    plan: SearchPlan
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._began = self.clock() - self.search.elapsed_s

    @property
    def elapsed_s(self) -> float:
        """Seconds that the search has taken."""
        return self.clock() - self._began

    @property
    def is_spent(self) -> bool:
        """Whether nothing more is proposed."""
        if self.search.exhausted:
            return True
        if self.plan.evaluations is not None:
            return self.search.proposals >= self.plan.evaluations
        return self.plan.seconds is not None and self.elapsed_s >= self.plan.seconds

    def propose(self, most: int) -> list[str]:
        """Propose as many configurations as the budget allows, up to a number; their variants."""
        proposed: list[str] = []
        while len(proposed) < most and not self.is_spent:
            proposed.append(self.search.propose())
        return proposed


def failed_build(build: BuildResult) -> Evaluated:
    """Result of a configuration that could not be built."""
    return Evaluated(build.variant, Outcome.COMPILE_FAILED, build.error)


@dataclass
class SearchLoop:
    """Runs a search to the end of its budget."""

    experiment: ExperimentSearch
    search: LiveSearch
    bench: Bench
    builds: BackgroundBuilds
    clock: Callable[[], float] = time.monotonic
    _waiting: list[str] = field(default_factory=list)
    """Proposals that have no result, in their order."""
    _subjects: dict[str, Subject] = field(default_factory=dict)
    """Configurations that were measured, by variant id."""
    _budget: SearchBudget = field(init=False)
    _lookahead: Lookahead = field(init=False)

    def run(self) -> tuple[str, ...]:
        """Evaluate proposals until the budget is spent; gives the ids of the finalists."""
        experiment = self.experiment
        self._budget = SearchBudget(self.search, experiment.plan, self.clock)
        self._lookahead = Lookahead(experiment.jobs, needs_builds=experiment.needs_builds)
        self._submit(self.search.pending)
        while self._propose_ahead():
            variant, built = self.builds.take_first(self._waiting)
            self._waiting.remove(variant)
            evaluated = replace(
                self._evaluate(experiment.variants[variant], built),
                build_s=built.seconds,
                elapsed_s=self._budget.elapsed_s,
            )
            self.search.take(evaluated)
            self._lookahead.note(evaluated)
            experiment.report(self.search, evaluated)
            if len(self.search.record.evaluations) % LOOK_EVERY == 0:
                self._look_again()
        return self.search.finish()

    def _propose_ahead(self) -> bool:
        """Propose as many as the lookahead and the budget allow; False where all is done."""
        self._submit(self._budget.propose(self._lookahead.depth - len(self._waiting)))
        return bool(self._waiting)

    def _submit(self, variants: tuple[str, ...] | list[str]) -> None:
        self._waiting.extend(variants)
        if variants:
            self.builds.submit([self.experiment.variants[variant] for variant in variants])

    def _evaluate(self, variant: Variant, built: Built) -> Evaluated:
        if not built.result.ok:
            return failed_build(built.result)
        subject = self.experiment.subject(variant, built.result)
        evaluated = evaluate(self.bench, subject, self.search.is_behind)
        if evaluated.outcome is Outcome.MEASURED:
            self._subjects[variant.id] = subject
        return evaluated

    def _look_again(self) -> None:
        """Measure the best once more: what differs from before is noise."""
        best = self.search.best()
        if best is None:
            return
        log_ratios = look_again(self.bench, self._subject_again(best.variant))
        if log_ratios is not None:
            self.search.take_look(best.variant, log_ratios)

    def _subject_again(self, variant: str) -> Subject:
        """A subject that was measured, maybe by an earlier execution: its library is cached."""
        if variant not in self._subjects:
            configuration = self.experiment.variants[variant]
            self.builds.submit([configuration])
            _, built = self.builds.take_first([variant])
            self._subjects[variant] = self.experiment.subject(configuration, built.result)
        return self._subjects[variant]


def measure_searched(request: MeasureRequest, reporter: ProgressReporter) -> RunFolder:
    """Search, then build and measure the finalists with all that is not searched.

    Returns the run folder, which holds everything also when this raises.
    """
    plan = request.plan.search
    if plan is None:
        raise ValueError("the plan has no search")
    experiment = request.loaded.experiment
    fixed = replace(request, plan=judged_plan(experiment, request.plan, ()))
    builds = build_all(fixed, reporter)
    keys = keys_of(fixed, builds)
    terms = terms_of(request, plan, keys)
    with gpu_held(request.machine, request.seconds, reporter.say) as lock_file:
        run = _run_folder(request, terms, reporter)
        begin(run, fixed, builds, keys)
        search = ExperimentSearch(request, plan, builds, terms, reporter)
        with request.seconds.stage(STAGE), request.seconds.step(SEARCHES):
            finalists = _search(search, run, lock_file)
        judged = replace(request, plan=judged_plan(experiment, request.plan, finalists))
        judged_builds = build_all(judged, reporter)
        measure_in(
            run,
            judged,
            builds=judged_builds,
            keys=keys_of(judged, judged_builds),
            lock_file=lock_file,
            reporter=reporter,
        )
    return run


# ---- which run -----------------------------------------------------------------------------------


def _run_folder(request: MeasureRequest, terms: Terms, reporter: ProgressReporter) -> RunFolder:
    """The newest run, where its search has the same terms; else a new one."""
    name = request.loaded.experiment.name
    newest = None if request.fresh else newest_run(request.out, name, reporter.warn)
    return resumed_or_new(request, run_of_search(newest and newest[0], terms), reporter)


# ---- the search ----------------------------------------------------------------------------------


def _search(search: ExperimentSearch, run: RunFolder, lock_file: Path) -> tuple[str, ...]:
    """Ids of the finalists; raises Interrupted on Ctrl-C."""
    live = search.opened(run)
    builds = BackgroundBuilds(search.build)
    bench = standing_bench(
        search.request,
        run,
        lock_file,
        baseline=search.baseline,
        on_runner_end=live.note_runner_end,
    )
    try:
        with bench:
            finalists = SearchLoop(search, live, bench, builds).run()
    except KeyboardInterrupt:
        raise Interrupted(
            "Interrupted; what the search measured is kept.",
            remedy="Run the same command again: it goes on with the next proposal.",
        ) from None
    finally:
        builds.close()
    search.report_end(len(finalists))
    return finalists
