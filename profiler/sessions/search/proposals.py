"""Proposals of a search on this machine or workers: made within the budget, built, evaluated."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue

from profiler.machine.signals import raise_if_signalled
from profiler.model import BuildResult, Outcome, SearchPlan, Variant
from profiler.run_folder.folder import RunFolder
from profiler.run_folder.seconds import SEARCHES
from profiler.search.journal import Evaluated
from profiler.search.live_search import LiveSearch
from profiler.sessions.progress import LINE_EVERY_S, FailureLines, ProgressReporter, duration_words
from profiler.sessions.search.bench import STAGE
from profiler.sessions.search.search import ExperimentSearch

MOST_AHEAD = 16
"""Most proposals without a result, for any number of cores: each is made without the others'."""
LOOK_EVERY = 5
"""Evaluations from one look at the best to the next."""
_POLL_S = 0.2
"""Seconds of a wait of the measuring thread between checks for Ctrl-C."""

Build = Callable[[Sequence[Variant]], Sequence[BuildResult]]


FinishedBuilds = dict[str, tuple[BuildResult, float]]
"""Build by variant id, and the seconds of its batch."""


class BackgroundBuilds:
    """Builds submitted variants, all waiting ones in one batch: ninja shares the cores."""

    def __init__(self, build: Build) -> None:
        self._build = build
        self._waiting: SimpleQueue[Sequence[Variant]] = SimpleQueue()
        self._ended: SimpleQueue[FinishedBuilds | BaseException] = SimpleQueue()
        self._closed = False
        threading.Thread(target=self._work, name="builds", daemon=True).start()

    def submit(self, variants: Sequence[Variant]) -> None:
        """Add variants to the next batch."""
        self._waiting.put(variants)

    def take_built(self, wait_s: float = 0.0) -> FinishedBuilds:
        """New finished builds; waits for the first for at most `wait_s`.

        Raises the error of a build that was no fault of a variant.
        """
        built: FinishedBuilds = {}
        with suppress(Empty):
            ended = self._ended.get(wait_s > 0, wait_s)
            while not isinstance(ended, BaseException):
                built |= ended
                ended = self._ended.get_nowait()
            raise ended
        return built

    def close(self) -> None:
        """Begin no further build; a build under way ends with this process at the latest."""
        self._closed = True
        self._waiting.put(())

    def _work(self) -> None:
        while batch := self._next_batch():
            began = time.monotonic()
            try:
                results = self._build(batch)
            except BaseException as error:
                self._ended.put(error)
                return
            seconds = time.monotonic() - began
            self._ended.put({result.variant: (result, seconds) for result in results})

    def _next_batch(self) -> Sequence[Variant]:
        """All waiting variants, after a wait for the first; empty after `close`."""
        batch = [*self._waiting.get()]
        with suppress(Empty):
            while True:
                batch += self._waiting.get_nowait()
        return [] if self._closed else batch


@dataclass
class SearchProgress:
    """Prints the progress of a search, and every evaluation with `-v`."""

    reporter: ProgressReporter
    plan: SearchPlan

    def __post_init__(self) -> None:
        self._failures = FailureLines(self.reporter)
        self._began = time.monotonic()
        self._line_at = self._began + LINE_EVERY_S
        self._evaluation_count = 0
        """Number of evaluations of this process."""

    def end(self, finalists: int) -> None:
        """Print the number of failures without a line, and the number of finalists."""
        self._failures.end("search")
        self.reporter.say(f"search: {finalists} finalists are measured next.")

    def print_result(self, live: LiveSearch, evaluated: Evaluated, name: str) -> None:
        """Print the result of a configuration."""
        self._evaluation_count += 1
        count = f"{len(live.record.evaluations)}/{self.plan.evaluations or '…'}"
        worker_text = f" on {evaluated.worker}" if evaluated.worker else ""
        if evaluated.outcome is not Outcome.MEASURED:
            head = f"[{count}] {name}  FAILED {evaluated.outcome}{worker_text}: "
            self._failures.say(head, evaluated.cause)
            return
        best = live.best()
        is_best = best is not None and best.variant == evaluated.variant
        if is_best or self.reporter.verbose:
            ratio = f"{live.estimates[evaluated.variant].ratio:.3f} x baseline{worker_text}"
            stopped_text = ", stopped early" if evaluated.stopped_early else ""
            best_text = ", the best so far" if is_best else ""
            self.reporter.say(f"[{count}] {name}  {ratio}{stopped_text}{best_text}")
        elif time.monotonic() >= self._line_at:
            best_words = "" if best is None else f", best {best.ratio:.3f} x baseline"
            self.reporter.say(f"search: {count} evaluations{self._pace(live)}{best_words}")
        else:
            return
        self._line_at = time.monotonic() + LINE_EVERY_S

    def _pace(self, live: LiveSearch) -> str:
        """Text of the rate and the remaining time, by the evaluations of this process."""
        elapsed = time.monotonic() - self._began
        if elapsed <= 0:
            return ""
        rate = self._evaluation_count / elapsed
        if self.plan.evaluations:
            seconds_left = max(self.plan.evaluations - len(live.record.evaluations), 0) / rate
        else:
            seconds_left = max((self.plan.seconds or 0.0) - elapsed, 0.0)
        return f", {rate:.1f}/s, about {duration_words(seconds_left)} left"


@dataclass
class Proposals:
    """Proposals of a search: under build, built, and evaluated."""

    experiment: ExperimentSearch
    live: LiveSearch
    builds: BackgroundBuilds
    clock: Callable[[], float] = time.monotonic
    built: dict[str, BuildResult] = field(default_factory=dict)
    """Builds of this execution by variant id."""
    _build_s: dict[str, float] = field(default_factory=dict)
    """Seconds of the batch of each of them."""
    _submitted: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._began = self.clock() - self.live.record.elapsed_s
        self._progress = SearchProgress(self.experiment.reporter, self.experiment.plan)

    @property
    def elapsed_s(self) -> float:
        """Seconds of the search so far, over all executions."""
        return self.clock() - self._began

    @property
    def is_spent(self) -> bool:
        """Whether no proposal follows: the budget or the space is spent."""
        proposals = len(self.live.record.proposed)
        return self.live.exhausted or self.experiment.plan.is_spent(proposals, self.elapsed_s)

    @property
    def is_building(self) -> bool:
        """Whether a build is under way."""
        return not self._submitted <= self.built.keys()

    def propose(self, most: int) -> list[str]:
        """Ids of new proposals, `most` at most and within the budget, submitted to build."""
        proposed: list[str] = []
        while len(proposed) < most and not self.is_spent:
            proposed.append(self.live.propose())
        self.build(proposed)
        return proposed

    def build(self, variants: Iterable[str]) -> None:
        """Submit variants (ids) to build: proposals, or the best of an earlier execution."""
        if submitted := [self.experiment.variants[variant] for variant in variants]:
            self._submitted.update(variant.id for variant in submitted)
            self.builds.submit(submitted)

    def take_built(self, wait_s: float = 0.0) -> dict[str, BuildResult]:
        """Builds that finished since the last call, by variant id."""
        finished = self.builds.take_built(wait_s)
        built = {variant: result for variant, (result, _) in finished.items()}
        self._build_s |= {variant: seconds for variant, (_, seconds) in finished.items()}
        self.built |= built
        return built

    def wait_for(self, variants: Sequence[str]) -> str:
        """The first of the variants that is built, after a wait for it."""
        while not (built := [variant for variant in variants if variant in self.built]):
            raise_if_signalled()
            self.take_built(_POLL_S)
        return built[0]

    def take(self, evaluated: Evaluated) -> Evaluated:
        """Result of a proposal as it is journalled, with its seconds."""
        build_s = self._build_s[evaluated.variant]
        evaluated = replace(evaluated, build_s=build_s, elapsed_s=self.elapsed_s)
        self.live.take(evaluated)
        name = self.experiment.variants[evaluated.variant].name
        self._progress.print_result(self.live, evaluated, name)
        return evaluated

    def finish(self) -> tuple[str, ...]:
        """Ids of the finalists, the best first; ends the search."""
        finalists = self.live.finish()
        self._progress.end(len(finalists))
        return finalists


@contextmanager
def opened_search(experiment: ExperimentSearch, run: RunFolder) -> Iterator[Proposals]:
    """Proposals of a search that begins or goes on in a run, as a stage of the run."""
    seconds = experiment.request.seconds
    with (
        seconds.stage(STAGE),
        seconds.step(SEARCHES),
        closing(BackgroundBuilds(experiment.build)) as builds,
    ):
        yield Proposals(experiment, experiment.live_search(run), builds)


def failed_build(build: BuildResult) -> Evaluated:
    """Result of a configuration that could not be built."""
    return Evaluated(build.variant, Outcome.COMPILE_FAILED, build.error)
