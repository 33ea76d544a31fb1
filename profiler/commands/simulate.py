"""`profiler simulate`: a search replayed on recorded results, without a GPU."""

from __future__ import annotations

from collections.abc import Iterator

from profiler.commands.output import write_json_target
from profiler.commands.requests import SimulateRequest
from profiler.errors import ExitCode
from profiler.search.replay import RecordedSpace, Replay, recorded_space, replay
from profiler.search.summary import replay_document, summarise
from profiler.search.t1 import read_t1
from profiler.search.t4 import Statistic, read_t4
from profiler.sessions.progress import make_console


def simulate(request: SimulateRequest) -> ExitCode:
    """Replay a search with one seed or several; print best so far, or write JSON."""
    problem = read_t1(request.space)
    statistic: Statistic = "mean" if request.mean else "median"
    recorded = recorded_space(problem, read_t4(request.results), statistic)
    replays = tuple(_replays(recorded, request))
    summary = summarise(recorded, replays)
    write_json_target(
        replay_document(problem.name, request.strategy, recorded, replays, summary),
        request.json_target,
    )
    if request.json_target != "-":
        from profiler.render.console.search import replay_lines, replay_table

        console = make_console(request.color)
        console.print(replay_table(summary, recorded))
        for line in replay_lines(problem.name, request.strategy, recorded, summary, len(replays)):
            console.print(line, markup=False, soft_wrap=True)
    return ExitCode.COMPLETE


def _replays(recorded: RecordedSpace, request: SimulateRequest) -> Iterator[Replay]:
    for seed in range(request.seed, request.seed + request.seeds):
        yield replay(recorded, request.strategy, request.budget, seed)
