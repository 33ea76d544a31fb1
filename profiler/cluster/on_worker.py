"""The task of a worker: to measure what its order says on its GPU, and to send what comes of it.

Problems are measured in a run folder of their own with the ordinary sessions; each attempt is sent
when it is complete. What had been measured before comes with the order, or lies there since a
process of this worker was killed. A batch of a search is measured with the code of a search on one
machine, by a runner that stands between batches, and its journal is sent.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from distributed import Queue, Worker, get_worker

import profiler
from profiler.cluster.parcels import (
    WITHOUT_EXPLANATIONS,
    Batch,
    Parcel,
    SentSpec,
    TaskOrder,
    content_hash,
    packed_run,
    unpacked_run,
)
from profiler.errors import EnvironmentUnusable, Interrupted
from profiler.machine.console import make_console
from profiler.machine.environment import find_gpu, probe_environment
from profiler.machine.requirements import Machine, find_machine
from profiler.model import Environment
from profiler.planning.space import space_of
from profiler.run_folder.documents import checked_dataclass, write_bytes
from profiler.run_folder.folder import COMPILED_FOLDER, SEARCH_JOURNAL_FILE, RunFolder
from profiler.run_folder.workers import note_environment
from profiler.search.estimates import Estimate, block_values, estimate, is_behind
from profiler.search.journal import Evaluated, RepeatedLook, RunnerEnded, SearchJournal
from profiler.sessions.cell_keys import keys_of
from profiler.sessions.execution import SecondsRecorder
from profiler.sessions.measure import MeasureRequest, begin, gpu_held, measure_in
from profiler.sessions.progress import ProgressReporter
from profiler.sessions.search.bench import Bench, Subject, standing_bench, subject_of
from profiler.sessions.search.loop import LogRatios, evaluate, repeat_look
from profiler.sessions.sources import source_hashes, variables_now

STAGE = "measures for others"
"""Step of the seconds that a worker sends: it ends when they are sent."""
_DEVICE = "device "
"""Beginning of the name of a worker's resource. It has one, and each task takes it: so a GPU
measures one thing at a time."""

# ---- devices of workers --------------------------------------------------------------------------


def device_of(environment: Environment) -> str:
    """Model and driver, which all workers of a run share; without a GPU, the processor."""
    if environment.gpu is None:
        return environment.cpu or "an unnamed processor"
    driver = "" if environment.driver is None else f", driver {environment.driver}"
    return f"{environment.gpu}{driver}"


def resources_of(device: str) -> dict[str, float]:
    """Resources of workers and tasks, by which Dask gives tasks only to the same device."""
    return {f"{_DEVICE}{device}": 1}


def device_among(resources: Iterable[str]) -> str | None:
    """Device in the resources of a worker; None for a worker of another program."""
    devices = (name.removeprefix(_DEVICE) for name in resources if name.startswith(_DEVICE))
    return next(devices, None)


def worker_environment(*, cpu: bool) -> Environment:
    """Environment of a worker on this machine: of the first visible GPU, or of the processor.

    Raises EnvironmentUnusable where no GPU is visible.
    """
    gpu = None if cpu else find_gpu()
    if gpu is None and not cpu:
        raise EnvironmentUnusable(
            "No NVIDIA GPU is visible on this machine.",
            remedy="`profiler doctor` shows what is missing; --device cpu measures on the CPU.",
        )
    return probe_environment(gpu=gpu)


def require_device(environment: Environment, device: str) -> None:
    """Raise EnvironmentUnusable where a worker measures on another device than requested."""
    if device_of(environment) != device:
        raise EnvironmentUnusable(
            f"The worker measures on {device_of(environment)} now, and not on {device}.",
            remedy="Start it again: it says what it has when it starts (--device cpu: the CPU).",
        )


def worker_machine(spec: SentSpec, *, timeline: bool) -> Machine:
    """Machine of the worker for an experiment, without paths of tools; raises why it cannot."""
    loaded = spec.load()
    machine = find_machine(loaded.experiment, loaded.base, timeline=timeline)
    ncu, nsys = machine.ncu and Path("ncu"), machine.nsys and Path("nsys")
    return replace(machine, ncu=ncu, nsys=nsys)


def dask_teardown(worker: Worker) -> None:
    """End the standing bench and remove the folder of a worker that leaves; called by Dask."""
    end_standing()
    shutil.rmtree(_folder_of(worker), ignore_errors=True)


def measure(text: str, libraries: Mapping[str, Parcel], earlier: Parcel | None) -> None:
    """Carry out an order; results are sent also where this raises.

    `libraries` by their paths in the order; `earlier`: the run of the coordinator, with the
    attempts that count.
    """
    order = checked_dataclass("the order of the coordinator", text.encode(), TaskOrder)
    folder = _folder_of(get_worker())
    folder.mkdir(parents=True, exist_ok=True)
    task = _prepared_task(order, libraries, folder)
    if order.batch is None:
        end_standing()
        _measure_problems(task, earlier)
    else:
        _measure_batch(task, order.batch)


def _folder_of(worker: Worker) -> Path:
    """Folder of a worker that outlives its process: a new process of its name finds it.

    Dask removes its own folder of a process, which lies in a folder for all workers of a scratch.
    """
    name = content_hash(str(worker.name).encode())[:16]
    return Path(worker.local_directory).parent / f"kernel-profiler-{name}"


# ---- a task --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Task:
    """An order that this machine can carry out."""

    order: TaskOrder
    """Order with paths of libraries on this machine."""
    request: MeasureRequest
    """The measurement, whose `out` is the folder of the worker."""
    reporter: ProgressReporter
    """Its warnings are sent, too."""
    sent: set[Path] = field(default_factory=set)
    """Folders of the attempts that were sent."""

    def send(self, run: RunFolder, *attempts: Path) -> None:
        """Send a run with attempts at once: the task may end much later, or never.

        Raises Interrupted where the coordinator has given the task up.
        """
        key = get_worker().get_current_task()
        task = get_worker().state.tasks.get(key)
        if task is None or task.state == "cancelled":
            raise Interrupted("The coordinator has given this task up.")
        run.write_seconds((), self.request.seconds.spans)
        queue = Queue(self.order.run)
        queue.put((key, self.reporter.warnings[:], packed_run(run, attempts)))
        self.reporter.warnings.clear()
        queue.close()
        self.sent.update(attempts)

    def send_rest(self, run: RunFolder) -> None:
        """Send unsent attempts of a run, without the coordinator's own."""
        if run.exists():
            local_attempts = (attempt for attempt in run.attempts() if attempt.worker is None)
            self.send(run, *(a.folder for a in local_attempts if a.folder not in self.sent))


def _prepared_task(order: TaskOrder, libraries: Mapping[str, Parcel], folder: Path) -> _Task:
    """The task of an order, with its libraries written to files.

    Raises EnvironmentUnusable where this machine has another device than requested, or where a
    library or a source differs.
    """
    seconds = SecondsRecorder()
    if order.profiler_version != profiler.__version__:
        raise EnvironmentUnusable(
            f"The worker has version {profiler.__version__} of the profiler, the coordinator "
            f"{order.profiler_version}.",
            remedy="Install the same version on both.",
        )
    loaded = order.spec.load(*([WITHOUT_EXPLANATIONS] if order.explain is None else []))
    machine = find_machine(loaded.experiment, loaded.base, timeline=order.timeline)
    require_device(machine.environment, order.device)
    sources = None  # where files are missing
    with suppress(FileNotFoundError):
        sources = source_hashes(loaded.experiment, loaded.base, order.plan.cells)
    if sources != order.sources:
        raise EnvironmentUnusable(
            f"The files behind {order.spec.path} are not those of the coordinator.",
            remedy="Start the worker in a copy of the same folder: sources do not travel.",
        )
    for name in variables_now(loaded.experiment, loaded.base):
        os.environ.pop(name)
    os.environ.update(order.variables)
    paths = {name: _written(library, folder) for name, library in libraries.items()}
    builds = tuple(replace(b, library=b.library and paths[b.library]) for b in order.builds)
    stamped = {variant: paths[library] for variant, library in order.stamped.items()}
    order = replace(order, builds=builds, stamped=stamped)
    arch = machine.resolved_architecture(loaded.experiment.build.arch)
    request = MeasureRequest(
        loaded=loaded,
        plan=order.plan,
        space=replace(space_of(loaded), arch=arch),
        machine=machine,
        out=folder,
        fresh=False,
        created=datetime.now().astimezone().isoformat(timespec="seconds"),
        seconds=seconds,
        timeline=order.timeline,
        explain=order.explain,
    )
    console = make_console("auto", stderr=True)
    # Dask restarts workers of the coordinator's host, which have its terminal.
    console.quiet = get_worker().nanny is not None
    return _Task(order, request, ProgressReporter(console, console))


def _written(library: Parcel, folder: Path) -> str:
    """Path of a library in the folder of a worker, where it is written unless it is there."""
    digest, content = library
    if content_hash(content) != digest:
        raise EnvironmentUnusable("A library that arrived is not the one that was built.")
    path = folder / "libraries" / f"{digest}.so"
    if not path.exists():
        write_bytes(path, content)
    return str(path)


# ---- problems ------------------------------------------------------------------------------------


def _measure_problems(task: _Task, earlier: Parcel | None) -> None:
    """Measure the missing parts of problems in a folder that is removed afterwards.

    The folder of a killed process is continued.
    """
    order = task.order
    problems = (problem.id for problem in order.plan.problems)
    name = content_hash("\0".join((order.run, *problems, *(order.explain or ()))).encode())[:16]
    run = RunFolder(task.request.out / f"problems.{name}")
    with ExitStack() as ending:
        ending.callback(shutil.rmtree, run.path, ignore_errors=True)
        if not run.path.exists():
            _begin_folder(run, task.request.out / COMPILED_FOLDER / order.run, earlier)
        request = replace(task.request, on_attempt=partial(task.send, run))
        note_environment(run, request.machine.environment)
        ending.callback(task.send_rest, run)
        with (
            request.seconds.step(STAGE),
            gpu_held(request.machine, request.seconds, task.reporter.say) as lock_file,
        ):
            measure_in(
                run,
                request,
                builds=order.builds,
                keys=keys_of(request, order.builds),
                lock_file=lock_file,
                reporter=task.reporter,
                stamped=order.stamped,
            )


def _begin_folder(run: RunFolder, compiled: Path, earlier: Parcel | None) -> None:
    """Make a run folder with the coordinator's attempts; it appears in one step."""
    with TemporaryDirectory(dir=run.path.parent, prefix="draft.") as folder:
        draft = Path(folder) / "run"
        draft.mkdir()
        if earlier is not None:
            unpacked_run(earlier, Path(folder))
        compiled.mkdir(parents=True, exist_ok=True)
        (draft / COMPILED_FOLDER).symlink_to(compiled)
        draft.replace(run.path)


# ---- a batch of a search -------------------------------------------------------------------------


def _measure_batch(task: _Task, batch: Batch) -> None:
    """Measure the incumbent of a batch, then each candidate; results are sent in any case.

    Candidates are compared with this GPU's measurements of the batch.
    """
    order, terms = task.order, batch.terms
    subject = partial(subject_of, order.plan, terms.problems, order.builds)
    measured: list[Estimate] = []

    def note(record: Evaluated | RepeatedLook) -> None:
        journal.append(record)
        if values := block_values(record.log_ratios, terms.objective):
            measured.append(estimate(record.variant, [values], batch.noise))

    def is_behind_here(log_ratios: LogRatios) -> bool:
        best = min(measured, key=lambda measured_estimate: measured_estimate.value, default=None)
        return is_behind(log_ratios, best, terms.objective, batch.noise)

    new_bench = _new_bench(task, subject(terms.baseline))
    with kept_bench(order.run, new_bench) as (bench, run), ExitStack() as ending:
        journal = SearchJournal(run.path / SEARCH_JOURNAL_FILE)
        journal.clear()
        bench.on_runner_end = lambda cause: journal.append(RunnerEnded(cause))
        ending.callback(task.send, run)
        if batch.incumbent is not None:
            log_ratios_now = repeat_look(bench, subject(batch.incumbent))
            if log_ratios_now is not None:
                note(RepeatedLook(batch.incumbent, log_ratios_now))
        for candidate in batch.candidates:
            note(evaluate(bench, subject(candidate), is_behind_here))


@contextmanager
def _new_bench(task: _Task, baseline: Subject) -> Iterator[Standing]:
    """A bench with the lock of the GPU; the folder of its runners is removed with it."""
    request = task.request
    with (
        TemporaryDirectory(dir=request.out, prefix="search.", ignore_cleanup_errors=True) as folder,
        gpu_held(request.machine, request.seconds, task.reporter.say) as lock_file,
    ):
        run = RunFolder(Path(folder))
        begin(run, request, task.order.builds, {})
        note_environment(run, request.machine.environment)
        with standing_bench(request, run, lock_file, baseline=baseline) as bench:
            yield bench, run


IDLE_S = 20.0
"""Seconds that a bench stands without a batch: far longer than giving a batch takes, and far
shorter than other processes wait for a GPU."""

Standing = tuple[Bench, RunFolder]
"""A bench, and the run that its runners write into."""

_guard = threading.RLock()
_kept_benches: dict[str, tuple[Standing, ExitStack]] = {}
"""Standing bench and its resources by search: one at most, as a worker has one GPU."""
_idle: set[threading.Thread] = set()
"""The timer that ends the bench, unless another batch comes before."""


@contextmanager
def kept_bench(search: str, new_bench: AbstractContextManager[Standing]) -> Iterator[Standing]:
    """The standing bench of a search, else a new one.

    The bench stands afterwards, until another task begins or no task comes for IDLE_S; after an
    error it ends.
    """
    with _guard:
        if search not in _kept_benches:
            end_standing()
            resources = ExitStack()
            _kept_benches[search] = resources.enter_context(new_bench), resources
        _idle.clear()
        try:
            yield _kept_benches[search][0]
        except BaseException:
            end_standing()
            raise
        timer = threading.Timer(IDLE_S, _end_if_idle)
        timer.daemon = True
        _idle.add(timer)
        timer.start()


def end_standing() -> None:
    """End the standing bench, if there is one."""
    with _guard:
        while _kept_benches:
            _, (_, resources) = _kept_benches.popitem()
            resources.close()


def _end_if_idle() -> None:
    with _guard:
        if threading.current_thread() in _idle:
            end_standing()
