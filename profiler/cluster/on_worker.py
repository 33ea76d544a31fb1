"""The task of a worker: to measure what its order says on its GPU, and to send what comes of it.

A problem is measured in a run folder of its own with the ordinary sessions; each attempt is sent
when it is complete. What had been measured before comes with the order, or lies there since a
process of this worker was killed. A batch of a search is measured with the code of a search on one
machine, by a runner that stands between batches, and its journal is sent.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from distributed import Queue, Worker, get_worker

import profiler
from profiler.cluster.device import require_device
from profiler.cluster.order import Batch, Order, spec_of_text
from profiler.cluster.parcels import Parcel, content_hash, files_of, packed, unpacked
from profiler.cluster.standing import Standing, bench_kept, end_standing
from profiler.errors import EnvironmentUnusable, Interrupted
from profiler.machine.requirements import Machine, find_machine
from profiler.model import BuildResult
from profiler.planning.space import space_of
from profiler.planning.spec import LoadedSpec
from profiler.run_folder.documents import checked_dataclass, read_json
from profiler.run_folder.folder import COMPILED_FOLDER, SEARCH_JOURNAL_FILE, RunFolder
from profiler.run_folder.redact import MACHINE_FILE
from profiler.search.live.journal import SearchJournal
from profiler.search.live.records import LookedAgain, RunnerEnded
from profiler.sessions.measure import MeasureRequest, gpu_held, keys_of, measure_in
from profiler.sessions.overlap.recorder import SecondsRecorder
from profiler.sessions.progress import ProgressReporter, make_console
from profiler.sessions.search.batch import BestHere, evaluate_batch
from profiler.sessions.search.bench import Subject
from profiler.sessions.search.standing_bench import standing_bench, subject_of
from profiler.sessions.sources import source_hashes
from profiler.sessions.stopwatch import Stopwatch


def describe_machine(
    path: str, text: str, overrides: Sequence[str], *, timeline: bool
) -> dict[str, Any]:
    """Environment and device of this machine for an experiment; raises why it cannot do it."""
    loaded = spec_of_text(path, text, overrides)
    machine = find_machine(loaded.experiment, loaded.base, timeline=timeline)
    return {"environment": asdict(machine.environment), "device": machine.device}


def dask_teardown(worker: Worker) -> None:
    """End what stands, and take the folder away, before a worker leaves: Dask calls it."""
    end_standing()
    shutil.rmtree(_folder_of(worker), ignore_errors=True)


def measure(text: str, libraries: Mapping[str, bytes], earlier: Sequence[Parcel]) -> None:
    """Carry out an order; what was measured is sent also where this raises.

    `libraries` by the hashes of their contents; `earlier`: attempts that the coordinator has.
    """
    order = checked_dataclass("the order of the coordinator", text.encode(), Order)
    reporter = _Reporter(make_console("auto"), make_console("auto", stderr=True), order.quiet)
    task = _Task(order, libraries, _folder_of(get_worker()), reporter)
    try:
        if order.batch is None:
            end_standing()
            _measure_problem(task, earlier)
        else:
            _measure_batch(task, order.batch)
    finally:
        task.send_end()


def _folder_of(worker: Worker) -> Path:
    """Folder of a worker that outlives its process: another process of that name finds it there.

    Dask's own folder for a process is gone with it; it lies in one for all workers of a scratch.
    """
    name = content_hash(str(worker.name).encode())[:16]
    return Path(worker.local_directory).parent / f"kernel-profiler-{name}"


@dataclass
class _Reporter(ProgressReporter):
    """Prints on the console of the worker, and keeps warnings for the coordinator."""

    warnings: list[str] = field(default_factory=list)

    def warn(self, text: str) -> None:
        """Keep a line, and print it unless the coordinator has the same terminal."""
        self.warnings.append(text)
        if not self.quiet:
            super().warn(text)


@dataclass
class _Task:
    """An order that is carried out here."""

    order: Order
    libraries: Mapping[str, bytes]
    folder: Path
    """The worker's."""
    reporter: _Reporter
    facts: dict[str, Any] = field(default_factory=dict)
    """What is said of everything that is sent: the environment that it was measured in, say."""
    seconds: SecondsRecorder = field(default_factory=SecondsRecorder)
    loaded: LoadedSpec = field(init=False)
    machine: Machine = field(init=False)
    builds: tuple[BuildResult, ...] = ()
    stamped: dict[str, str] = field(default_factory=dict)

    def prepare(self) -> None:
        """Check that this machine is the one asked for, and lay the libraries down.

        Raises EnvironmentUnusable where it is not, or where a library or a source is another one.
        """
        order = self.order
        if order.profiler_version != profiler.__version__:
            raise EnvironmentUnusable(
                f"The worker has version {profiler.__version__} of the profiler, the coordinator "
                f"{order.profiler_version}.",
                remedy="Install the same version on both.",
            )
        loaded = self.loaded = spec_of_text(order.spec_path, order.spec_text, order.overrides)
        self.machine = find_machine(loaded.experiment, loaded.base, timeline=order.timeline)
        require_device(self.machine.environment, order.device)
        self.facts["environment"] = asdict(self.machine.environment)
        if source_hashes(loaded.experiment, loaded.base, order.plan.cells) != order.sources:
            raise EnvironmentUnusable(
                f"The files behind {order.spec_path} are not those of the coordinator.",
                remedy="Start the worker in a copy of the same folder: sources do not travel.",
            )
        folder = self.folder / "libraries"
        folder.mkdir(parents=True, exist_ok=True)
        for digest, content in self.libraries.items():
            if content_hash(content) != digest:
                raise EnvironmentUnusable("A library that arrived is not the one that was built.")
            draft = folder / f"{digest}.draft"
            draft.write_bytes(content)
            draft.replace(draft.with_suffix(".so"))
        paths = {digest: str(folder / f"{digest}.so") for digest in self.libraries}
        self.builds = tuple(
            replace(build, library=build.library and paths[build.library]) for build in order.builds
        )
        self.stamped = {variant: paths[digest] for variant, digest in order.stamped.items()}

    def send(self, files: Mapping[str, bytes], **document: Any) -> None:
        """Send files at once: the task may end long after, or never.

        Raises Interrupted where nobody waits for it any more.
        """
        key = get_worker().get_current_task()
        task = get_worker().state.tasks.get(key)
        if task is None or task.state == "cancelled":
            raise Interrupted("The coordinator has given this task up.")
        queue = Queue(self.order.run)
        queue.put((key, packed({**self.facts, **document}, files)))
        queue.close()

    def send_end(self) -> None:
        """Send what is said once of the whole task, after which nothing more comes of it."""
        seconds, spans = time.monotonic() - self.seconds.began, map(asdict, self.seconds.spans)
        self.send({}, warnings=self.reporter.warnings, seconds=seconds, spans=list(spans))


# ---- a problem -----------------------------------------------------------------------------------


def _measure_problem(task: _Task, earlier: Sequence[Parcel]) -> None:
    """Measure what is missing of a problem in a folder that is gone afterwards.

    What a killed process leaves is gone on with.
    """
    order = task.order
    named = "\0".join((order.run, *(problem.id for problem in order.plan.problems)))
    name = content_hash(f"{named}\0{order.explain or ''}".encode())[:16]
    folder = task.folder / f"problem.{name}"
    run = RunFolder(folder / order.plan.experiment / "run")
    # Attempts that are not to be sent: those that the coordinator has, or was sent by this process.
    there = {unpacked(parcel)[0]["attempt"] for parcel in earlier}

    def send(attempt: Path) -> None:
        task.facts["texts"] = read_json(run.path / MACHINE_FILE)
        task.send(files_of(attempt), attempt=attempt.name)
        there.add(attempt.name)

    try:
        if not folder.exists():
            _begin_folder(run, folder, task.folder / COMPILED_FOLDER / order.run, earlier)
        task.prepare()
        request = _request(task, run, send)
        task.facts["keys"] = keys = keys_of(request, task.builds)
        try:
            with gpu_held(task.machine, task.seconds, task.reporter.say) as lock:
                measure_in(
                    run,
                    request,
                    builds=task.builds,
                    keys=keys,
                    lock_file=lock.session_file,
                    reporter=task.reporter,
                    watch=Stopwatch(),
                    stamped=task.stamped,
                )
        finally:
            for attempt in run.attempts():
                if attempt.folder.name not in there:
                    send(attempt.folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _request(task: _Task, run: RunFolder, send: Callable[[Path], None]) -> MeasureRequest:
    order, machine = task.order, task.machine
    arch = machine.resolved_architecture(task.loaded.experiment.build.arch)
    return MeasureRequest(
        loaded=task.loaded,
        plan=order.plan,
        space=replace(space_of(task.loaded), arch=arch),
        machine=machine,
        out=run.path.parent.parent,
        fresh=False,
        created=datetime.now().astimezone().isoformat(timespec="seconds"),
        timeline=order.timeline,
        explain=None if order.explain is None else (order.explain,),
        seconds=task.seconds,
        on_attempt=send,
    )


def _begin_folder(run: RunFolder, folder: Path, compiled: Path, earlier: Sequence[Parcel]) -> None:
    """Make a run folder with what the coordinator has; when it is there it is whole."""
    draft = folder.with_suffix(".draft")
    shutil.rmtree(draft, ignore_errors=True)
    raw = draft / run.path.relative_to(folder) / "raw"
    raw.mkdir(parents=True)
    compiled.mkdir(parents=True, exist_ok=True)
    (raw.parent / COMPILED_FOLDER).symlink_to(compiled)
    for document, files in map(unpacked, earlier):
        attempt = raw / document["attempt"]
        attempt.mkdir()
        for name, content in files.items():
            (attempt / name).write_bytes(content)
    draft.replace(folder)


# ---- a batch of a search -------------------------------------------------------------------------


def _measure_batch(task: _Task, batch: Batch) -> None:
    """Measure a batch, and send the journal of it, which has what came also where this raises."""
    order, terms = task.order, batch.terms
    task.prepare()
    library_of = {build.variant: build.library for build in task.builds}

    def subject(variant: str) -> Subject:
        return subject_of(order.plan, terms.problems, variant, library_of.get(variant))

    new_bench = partial(_new_bench, task, subject(terms.baseline))
    with bench_kept(f"{order.run} {terms.key}", new_bench) as standing:
        journal_file = standing.run.path / SEARCH_JOURNAL_FILE
        journal = SearchJournal(journal_file)
        journal.begin_anew()
        standing.bench.on_runner_end = lambda cause: journal.append(RunnerEnded(cause))

        try:
            evaluate_batch(
                standing.bench,
                incumbent=None if batch.incumbent is None else subject(batch.incumbent),
                candidates=[subject(variant) for variant in batch.candidates],
                best=BestHere(terms.objective, batch.noise),
                on_look=lambda ratios: journal.append(LookedAgain(str(batch.incumbent), ratios)),
                on_evaluated=journal.append,
            )
        finally:
            task.facts["texts"] = read_json(standing.run.path / MACHINE_FILE)
            if journal_file.exists():
                task.send({journal_file.name: journal_file.read_bytes()})


def _new_bench(task: _Task, baseline: Subject, closing: ExitStack) -> Standing:
    """A bench that holds the GPU; the files of its runners lie in a folder that is gone with it."""
    folder = Path(tempfile.mkdtemp(dir=task.folder, prefix="search."))
    closing.callback(shutil.rmtree, folder, ignore_errors=True)
    run = RunFolder(folder / task.order.plan.experiment / "run")
    run.path.mkdir(parents=True)
    environment = task.machine.environment
    run.note_machine(environment, task.order.plan.seed, task.loaded.base)
    lock = closing.enter_context(gpu_held(task.machine, task.seconds, task.reporter.say))
    bench = standing_bench(
        loaded=task.loaded,
        machine=task.machine,
        run=run,
        lock_file=lock.session_file,
        baseline=baseline,
        on_runner_end=lambda _: None,
    )
    return Standing(closing.enter_context(bench), run)
