"""`profiler simulate`: a search replayed on recorded results, without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from profiler.commands.output import write_json_target
from profiler.commands.requests import SimulateRequest
from profiler.errors import ExitCode
from profiler.machine.console import make_console
from profiler.search.kernel_tuner import read_tuner_cache
from profiler.search.replay import (
    RecordedSpace,
    Replay,
    recorded_space,
    replay,
    replay_document,
    summarise,
)
from profiler.search.t1 import TuningProblem, read_t1
from profiler.search.t4 import RecordedResult, Statistic, read_t4


def simulate(request: SimulateRequest) -> ExitCode:
    """Replay a search with one seed or several; print best so far, or write JSON."""
    problem = _problem(request.space)
    statistic: Statistic = "mean" if request.mean else "median"
    recorded = recorded_space(problem, _results(request.results), statistic)
    replays = tuple(_replays(recorded, request))
    summary = summarise(recorded, replays)
    write_json_target(
        replay_document(problem.name, request.strategy, recorded, replays, summary),
        request.json_target,
    )
    if request.json_target != "-":
        from profiler.render.console.lists import replay_lines, replay_table

        console = make_console(request.color)
        console.print(replay_table(summary, recorded))
        for line in replay_lines(problem.name, request.strategy, recorded, summary, len(replays)):
            console.print(line)
    return ExitCode.COMPLETE


def _problem(file: Path) -> TuningProblem:
    """Space of a T1 file, or the configurations of a cache of kernel_tuner."""
    cache = read_tuner_cache(file)
    return read_t1(file) if cache is None else cache.problem


def _results(file: Path) -> tuple[RecordedResult, ...]:
    """Results of a T4 file, or of a cache of kernel_tuner."""
    cache = read_tuner_cache(file)
    return read_t4(file) if cache is None else cache.results


def _replays(recorded: RecordedSpace, request: SimulateRequest) -> Iterator[Replay]:
    for seed in range(request.seed, request.seed + request.seeds):
        yield replay(recorded, request.strategy, request.budget, seed)
