"""A search on this machine: propose ahead, build meanwhile, measure, then confirm finalists."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from profiler.errors import Interrupted
from profiler.model import Outcome, SearchPlan
from profiler.planning.plan import judged_plan
from profiler.run_folder.folder import RunFolder
from profiler.run_folder.runs import newest_run
from profiler.search.journal import Evaluated
from profiler.sessions.builds.plan_builds import build_all
from profiler.sessions.cell_keys import keys_of
from profiler.sessions.measure import MeasureRequest, begin, gpu_held, measure_in, resumed_or_new
from profiler.sessions.progress import ProgressReporter
from profiler.sessions.search.bench import (
    Bench,
    Block,
    Subject,
    SubjectFailedError,
    standing_bench,
    subject_of,
)
from profiler.sessions.search.proposals import (
    LOOK_EVERY,
    MOST_AHEAD,
    Proposals,
    failed_build,
    opened_search,
)
from profiler.sessions.search.search import ExperimentSearch, run_of_search, terms_of

BLOCKS = 4
"""Blocks of an evaluation that is not stopped early."""
LOOK_BLOCKS = 2
"""Blocks of another look at the best."""

LogRatios = Mapping[str, tuple[float, ...]]


@dataclass
class Lookahead:
    """Number of proposals under way: enough that builds hide behind measurements.

    Each proposal under way is made without the results of the others.
    """

    jobs: int
    """Compilations at a time."""
    needs_builds: bool
    _build_s: float = 0.0
    _measured_s: float = 0.0

    def note(self, evaluated: Evaluated) -> None:
        """Update the smoothed seconds of builds and measurements by an evaluation."""
        self._build_s = _smoothed(self._build_s, evaluated.build_s)
        self._measured_s = _smoothed(self._measured_s, evaluated.measured_s)

    @property
    def depth(self) -> int:
        """Most proposals without a result."""
        if not self.needs_builds:
            return 1
        most = min(2 * self.jobs, MOST_AHEAD)
        if not self._measured_s:
            return min(self.jobs, most)
        # A batch begins when the batch before ends, so that a build may wait for another batch.
        hidden = math.ceil(2 * self._build_s / self._measured_s)
        return min(max(1 + hidden, 2), most)


def _smoothed(before: float, seconds: float) -> float:
    return seconds if not before else 0.7 * before + 0.3 * seconds


def run_search(bench: Bench, proposals: Proposals) -> tuple[str, ...]:
    """Ids of the finalists, after proposals are evaluated until the budget is spent."""
    experiment, live = proposals.experiment, proposals.live
    lookahead = Lookahead(experiment.jobs, experiment.needs_builds)
    waiting = [*live.record.pending]
    proposals.build(waiting)
    while waiting := [*waiting, *proposals.propose(lookahead.depth - len(waiting))]:
        variant = proposals.wait_for(waiting)
        waiting.remove(variant)
        if proposals.built[variant].ok:
            evaluated = evaluate(bench, _subject(proposals, variant), live.is_behind)
        else:
            evaluated = failed_build(proposals.built[variant])
        lookahead.note(proposals.take(evaluated))
        if len(live.record.evaluations) % LOOK_EVERY == 0:
            _repeat_look(bench, proposals)
    return proposals.finish()


def _subject(proposals: Proposals, variant: str) -> Subject:
    experiment = proposals.experiment
    return experiment.subject(experiment.variants[variant], proposals.built[variant])


def _repeat_look(bench: Bench, proposals: Proposals) -> None:
    """Measure the best once more: the difference is noise."""
    best = proposals.live.best()
    if best is None:
        return
    if best.variant not in proposals.built:  # by an earlier execution: its library is cached
        proposals.build([best.variant])
        proposals.wait_for([best.variant])
    log_ratios = repeat_look(bench, _subject(proposals, best.variant))
    if log_ratios is not None:
        proposals.live.take_look(best.variant, log_ratios)


def measure_searched(
    request: MeasureRequest, plan: SearchPlan, reporter: ProgressReporter
) -> RunFolder:
    """Search, then build and measure the finalists with the variants outside of the space.

    Returns the run folder, which holds everything also when this raises.
    """
    experiment = request.loaded.experiment
    fixed = replace(request, plan=judged_plan(experiment, request.plan, ()))
    builds = build_all(fixed, reporter)
    keys = keys_of(fixed, builds)
    terms = terms_of(request, plan, keys)
    with gpu_held(request.machine, request.seconds, reporter.say) as lock_file:
        name = request.loaded.experiment.name
        newest = None if request.fresh else newest_run(request.out, name, reporter.warn)
        run = resumed_or_new(request, run_of_search(newest and newest[0], terms), reporter)
        begin(run, fixed, builds, keys)
        search = ExperimentSearch(request, plan, terms, reporter)
        baseline = subject_of(request.plan, plan.problems, builds, terms.baseline)
        try:
            with (
                opened_search(search, run) as proposals,
                standing_bench(request, run, lock_file, baseline=baseline) as bench,
            ):
                bench.on_runner_end = proposals.live.note_runner_end
                finalists = run_search(bench, proposals)
        except (KeyboardInterrupt, Interrupted):  # the latter of the runner's session
            raise Interrupted(
                "Interrupted; what the search measured is kept.",
                remedy="Run the same command again: it goes on with the next proposal.",
            ) from None
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


def evaluate(bench: Bench, subject: Subject, is_behind: Callable[[LogRatios], bool]) -> Evaluated:
    """Result of a subject, checked and measured; `is_behind` is called between blocks.

    A wrong result, an error or the end of the runner is a result.
    """
    began = time.monotonic()
    blocks: list[Block] = []
    try:
        while len(blocks) < BLOCKS:
            if blocks and is_behind(_log_ratios(blocks)):
                break
            blocks.append(bench.block(subject, check=True))
    except SubjectFailedError as failure:
        evaluated = Evaluated(subject.variant, failure.outcome, failure.cause)
    else:
        evaluated = Evaluated(
            subject.variant,
            Outcome.MEASURED,
            log_ratios=_log_ratios(blocks),
            duration_ns={
                problem: statistics.median(block[problem][0] for block in blocks)
                for problem in blocks[0]
            },
            stopped_early=len(blocks) < BLOCKS,
        )
    bench.forget(subject)
    return replace(evaluated, measured_s=time.monotonic() - began)


def repeat_look(bench: Bench, subject: Subject) -> LogRatios | None:
    """Log ratios of a subject that was measured before; None where it fails now."""
    try:
        # The runner has forgotten it, and its result was checked when it was evaluated.
        blocks = [bench.block(subject, check=False) for _ in range(LOOK_BLOCKS)]
    except SubjectFailedError:
        return None
    finally:
        bench.forget(subject)
    return _log_ratios(blocks)


def _log_ratios(blocks: Sequence[Block]) -> dict[str, tuple[float, ...]]:
    """Logs of the subject's time divided by the baseline's, by problem and block."""
    return {
        problem: tuple(
            math.log(subject_ns / baseline_ns)
            for subject_ns, baseline_ns in (block[problem] for block in blocks)
        )
        for problem in blocks[0]
    }
