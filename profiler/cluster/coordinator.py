"""A run on workers: its devices, its builds, and the shares of its workers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from distributed import CancelledError, Client, Future
from distributed.comm.core import CommClosedError

from profiler.cluster.giving import Piece, Share, Team, as_profiler_error, scheduler_loss_error
from profiler.cluster.on_worker import device_among, device_of, worker_machine
from profiler.cluster.parcels import Batch, SentSpec, plan_part
from profiler.cluster.problems import ExplainShare, ProblemShare, homes_of, keys_by_cell
from profiler.errors import EnvironmentUnusable, ProfilerError
from profiler.machine.locks import take_lock
from profiler.machine.requirements import Machine
from profiler.model import Environment, Plan, SearchPlan
from profiler.notices import counted
from profiler.planning.plan import judged_plan
from profiler.planning.session_plans import NCU
from profiler.planning.space import Space
from profiler.run_folder.folder import SEARCH_JOURNAL_FILE, RunFolder
from profiler.run_folder.runs import newest_run
from profiler.run_folder.workers import clear_arrivals, name_no_gpu_of_several, worker_of
from profiler.search.journal import (
    Evaluated,
    RepeatedLook,
    RunnerEnded,
    WorkerJoined,
    read_records,
)
from profiler.sessions.builds.plan_builds import build_all, build_all_stamped
from profiler.sessions.cell_keys import keys_of
from profiler.sessions.execution import Meanwhile, SecondsRecorder
from profiler.sessions.measure import (
    MeasureRequest,
    begin,
    report_outdated_run,
    resumed_or_new,
    with_stages,
)
from profiler.sessions.progress import ProgressReporter
from profiler.sessions.search.proposals import (
    LOOK_EVERY,
    MOST_AHEAD,
    Proposals,
    failed_build,
    opened_search,
)
from profiler.sessions.search.search import ExperimentSearch, run_of_search, terms_of

_FIRST_WORKER_S = 60.0
"""Seconds of the wait for a first worker."""
_UNREADABLE = "deserialization of the task graph"
"""Part of Dask's message where its scheduler lacks a module that a task names."""
SERIALISED = (
    "Two GPUs of one host gain nothing under ncu 2025, which profiles on one of them at a time "
    "(autotune: 314 s on two, 303 to 318 s on one). A second one is for what is not serialised: "
    "--timer or a search; or take GPUs of several hosts."
)
STAGE = "workers"


def measure_on_workers(
    client: Client,
    template: MeasureRequest,
    make_plan: Callable[[Machine], tuple[Plan, Space]],
    reporter: ProgressReporter,
    *,
    mixed: bool,
) -> list[Team]:
    """Teams of the devices, after builds and measurements, each with one run folder.

    `template`: the request without the machine and its plan, which `make_plan` makes. `mixed`:
    whether GPUs of another model or driver measure as well, each kind in a run of its own.

    The folders hold all results also when this raises: EnvironmentUnusable where no worker can
    measure the experiment, or where the scheduler is lost.
    """
    folder = template.out / template.loaded.experiment.name
    with ExitStack() as resources, _naming_loss(client):
        if take_lock(folder / ".workers.lock", resources) is None:
            raise EnvironmentUnusable(
                f"Another profiler writes what workers measure into {folder}.",
                remedy="Wait for it or end it; or give another folder with --out.",
            )
        teams = []
        for device in _devices(client, template, reporter, mixed=mixed):
            team = Team(client, device, reporter, template)
            teams.append(team)
            machine = _machine_of_worker(team)
            plan, space = make_plan(machine)
            seconds = SecondsRecorder(template.seconds.began, list(template.seconds.spans))
            team.request = replace(
                template, plan=plan, space=space, machine=machine, seconds=seconds
            )
            _measure(team)
        return teams


@contextmanager
def _naming_loss(client: Client) -> Iterator[None]:
    """Raise EnvironmentUnusable where the scheduler is lost in the body, or cannot take a task."""
    try:
        yield
    except (OSError, RuntimeError, CancelledError) as error:
        if _UNREADABLE in str(error):
            raise EnvironmentUnusable(
                "The scheduler cannot read the tasks: it runs in another environment.",
                remedy="Start `dask scheduler` where this version of the profiler is installed.",
            ) from error
        # The client notices the loss a moment after its call has failed.
        if client.status == "running" and not isinstance(error, CommClosedError | CancelledError):
            raise
        raise scheduler_loss_error(type(error).__name__) from error


# ---- which devices -------------------------------------------------------------------------------


def _devices(
    client: Client, template: MeasureRequest, reporter: ProgressReporter, *, mixed: bool
) -> list[str]:
    """Devices that measure: all with `mixed`, else the newest run's, or the most frequent."""
    try:
        client.wait_for_workers(1, timeout=_FIRST_WORKER_S)
    except TimeoutError as error:
        raise EnvironmentUnusable(
            f"The scheduler has no worker after {_FIRST_WORKER_S:.0f} s.",
            remedy="Start one on each machine with a GPU: `profiler worker ADDRESS`.",
        ) from error
    workers = client.scheduler_info(n_workers=-1)["workers"]
    names = {address: device_among(facts["resources"]) for address, facts in workers.items()}
    counts = Counter(name for name in names.values() if name is not None)
    if not counts:
        raise EnvironmentUnusable(
            f"None of the {len(workers)} workers of this scheduler is one of the profiler.",
            remedy="Start them with `profiler worker ADDRESS`.",
        )
    earlier = _earlier_run(template)
    newest = earlier and device_of(earlier.record().environment)
    ordered = sorted(counts, key=lambda name: (name != newest, -counts[name], name))
    used_devices = ordered if mixed else ordered[:1]
    for name in used_devices:
        reporter.say(f"{counted(counts[name], 'worker')}: {name}.")
    for address, other_device in names.items():
        if other_device is not None and other_device not in used_devices:
            reporter.warn(
                f"Refused: {address} measures on {other_device}, not on {used_devices[0]}. "
                "--mixed makes a run of its own of it."
            )
    hosts = Counter(facts["host"] for at, facts in workers.items() if names[at] in used_devices)
    if NCU in template.loaded.experiment.collect.collectors and max(hosts.values()) > 1:
        reporter.say(SERIALISED)
    return used_devices


def _earlier_run(request: MeasureRequest, device: str | None = None) -> RunFolder | None:
    """Newest run of the experiment on a device, or on any, that may go on."""
    newest = newest_run(
        request.out,
        request.plan.experiment,
        fits=lambda record: device in {None, device_of(record.environment)},
    )
    return None if newest is None or request.fresh else newest[0]


# ---- one device ----------------------------------------------------------------------------------


def _machine_of_worker(team: Team) -> Machine:
    """The machine of the first worker that can measure the experiment; raises why none can."""
    problem: ProfilerError = EnvironmentUnusable(f"There is no worker with {team.device}.")
    for address in team.addresses().values():
        answer = team.client.run(
            worker_machine,
            SentSpec.of(team.request.loaded),
            timeline=team.request.timeline,
            workers=[address],
            on_error="return",
        )[address]
        if isinstance(answer, Machine):
            return answer
        problem = as_profiler_error(answer)
        team.reporter.warn(f"{address}: {problem.message}")
    raise problem


def _measure(team: Team) -> None:
    """Build, search and measure."""
    search = team.request.plan.search
    if search is not None:
        _search(team, search)
    request = team.request
    team.builds = build_all(request, team.reporter)
    team.stamped = build_all_stamped(request, team.builds, team.reporter)
    earlier = _earlier_run(request, team.device) if search is None else team.run
    team.homes = {} if earlier is None else homes_of(request, team.builds, earlier)
    if search is None:
        if earlier is not None and not team.homes:
            cells = {cell.id for cell in request.plan.cells}
            report_outdated_run(team.reporter, cells, earlier, earlier.record())
        team.run = resumed_or_new(request, earlier if team.homes else None, team.reporter)
    _begin(team)
    measured = ProblemShare(team=team)
    explained = ExplainShare(team=team, workers=measured.workers)
    Meanwhile(request.meanwhile).start()
    try:
        with request.seconds.stage(STAGE):
            measured.measure()
            explained.measure()
    finally:
        if team.run.exists():  # it may have been deleted meanwhile
            team.run.write_record(with_stages(team.run.record(), request.seconds))
        team.queue.close()


def _search(team: Team, plan: SearchPlan) -> None:
    """Build the variants outside of the space, begin the run, search, and plan the finalists."""
    whole_request, reporter = team.request, team.reporter
    experiment = whole_request.loaded.experiment
    team.request = replace(whole_request, plan=judged_plan(experiment, whole_request.plan, ()))
    team.builds = build_all(team.request, reporter)
    terms = terms_of(whole_request, plan, keys_of(_without_gpu_identity(team.request), team.builds))
    earlier = run_of_search(_earlier_run(whole_request, team.device), terms)
    team.run = resumed_or_new(whole_request, earlier, reporter)
    _begin(team)
    search = ExperimentSearch(whole_request, plan, terms, reporter)
    with opened_search(search, team.run) as proposals:
        batches = BatchShare(team=team, proposals=proposals)
        batches.measure()
    judged = judged_plan(experiment, whole_request.plan, batches.finalists)
    team.request = replace(whole_request, plan=judged)


def _begin(team: Team) -> None:
    """Write the documents of a run that begins or goes on, and offer its libraries to workers."""
    team.kept_libraries = team.libraries(team.builds)
    clear_arrivals(team.run)
    begin(team.run, team.request, team.builds, keys_by_cell(team.homes))
    name_no_gpu_of_several(team.run)


def _without_gpu_identity(request: MeasureRequest) -> MeasureRequest:
    """The request without facts that differ between the GPUs of one device and their hosts.

    Results of a search are ratios to the baseline on the same GPU, so that another GPU may go on.
    """
    environment = request.machine.environment
    if environment.gpu is None:
        return request
    environment = replace(environment, gpu_uuid=None, cpu=None)
    return replace(request, machine=replace(request.machine, environment=environment))


# ---- a search: batches with the incumbent, each on one GPU ---------------------------------------


BATCH = LOOK_EVERY
"""Configurations of a batch; the incumbent is measured as often as in a search on one GPU."""


@dataclass(kw_only=True)
class BatchShare(Share):
    """Gives batches to workers, and their results to the search."""

    proposals: Proposals
    finalists: tuple[str, ...] = ()
    """Variant ids, the best first; known when the search ends."""
    _excluded: set[str] = field(default_factory=set)
    """Names of workers on which a batch failed."""

    def measure(self) -> None:
        """Search until the budget is spent."""
        self.begin()
        super().measure()
        self.finalists = self.proposals.finish()

    def begin(self) -> None:
        """Submit the pending proposals and the best of an earlier execution to build."""
        live, best = self.proposals.live, self.proposals.live.best()
        if not self.proposals.is_spent or live.record.pending:
            self.proposals.build([*live.record.pending, *([] if best is None else [best.variant])])

    # ---- giving ----

    @property
    def _usable_workers(self) -> list[str]:
        return [worker for worker in self.workers if worker not in self._excluded]

    def prepare(self) -> bool:
        """Take finished builds, propose a batch for each worker, and submit it to build."""
        proposals, experiment = self.proposals, self.proposals.experiment
        pending = set(proposals.live.record.pending)  # the other build is the incumbent
        for variant, build in proposals.take_built().items():
            if variant in pending and build.ok:
                self.open.append(variant)
            elif variant in pending:
                proposals.take(failed_build(build))
        # A batch for each worker, and the builds meanwhile.
        ahead_count = min(experiment.jobs, MOST_AHEAD) if experiment.needs_builds else 0
        most = max(1, len(self._usable_workers)) * BATCH + ahead_count
        proposals.propose(most - len(proposals.live.record.pending))
        return bool(proposals.is_building or self.open) or not proposals.is_spent

    def take_next(self, worker: str) -> list[str]:
        """A whole batch; at the end the remaining proposals are divided among idle workers."""
        is_early = len(self.open) < BATCH and self.proposals.is_building
        if worker in self._excluded or is_early:
            return []
        idle = max(1, len(self._usable_workers) - len(self.given_pieces))
        size = min(BATCH, math.ceil(len(self.open) / idle))
        batch, self.open = self.open[:size], self.open[size:]
        return batch

    def submit(self, piece: Piece) -> Future[None]:
        """Give a batch to its worker, beside the baseline and the best so far."""
        experiment, built = self.proposals.experiment, self.proposals.built
        terms, best = experiment.terms, self.proposals.live.best()
        incumbent = best.variant if best is not None and best.variant in built else None
        searched = [*([incumbent] if incumbent else []), *piece.ids]
        return self.team.submit(
            piece.address,
            plan_part(experiment.request.plan, terms.problems, [terms.baseline, *searched]),
            [*self.team.builds, *(built[variant] for variant in searched)],
            batch=Batch(
                terms=terms,
                noise=self.proposals.live.noise,
                incumbent=incumbent,
                candidates=tuple(piece.ids),
            ),
        )

    # ---- taking ----

    def take(self, piece: Piece, arrived: RunFolder, environment: Environment) -> None:
        """Take the journal of a batch; proposals without a result go to another worker."""
        journal = arrived.path / SEARCH_JOURNAL_FILE
        records = read_records(journal) if journal.exists() else ()
        live, seed = self.proposals.live, self.team.request.plan.seed
        worker = worker_of(self.team.run, arrived, environment, seed)
        live.note_worker(WorkerJoined(worker.name, worker.gpu, worker.gpu_uuid))
        for record in records:
            match record:
                case RunnerEnded(cause):
                    live.note_runner_end(cause)
                case RepeatedLook(variant, log_ratios):
                    live.take_look(variant, log_ratios, worker.name)
                case Evaluated(variant) if variant in piece.ids:
                    piece.ids.remove(variant)
                    self.proposals.take(replace(record, worker=worker.name))

    def put_back(self, piece: Piece) -> None:
        """Give the open proposals of a batch to other workers, before other batches."""
        self.open[:0] = piece.ids

    def finish(self, piece: Piece, error: ProfilerError | None) -> None:
        """Put back proposals without a result; a worker that failed gets no further batch.

        Raises the error where there is no other worker.
        """
        self.put_back(piece)
        if error is None:
            return
        self._excluded.add(piece.worker)
        if not self._usable_workers:
            raise error
        self.team.reporter.warn(
            f"A batch failed on {piece.address} (other workers get it): {error.message}"
        )
