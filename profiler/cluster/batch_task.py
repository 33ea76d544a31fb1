"""The task of a worker: measure a batch of a search on its GPU.

A runner stands between batches of a search, as in a search on one machine.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from distributed import Worker

from profiler.cluster.job import Batch, read_order
from profiler.cluster.on_worker import (
    Prepared,
    answer,
    end_if_unwanted,
    folder_of_worker,
    prepared,
)
from profiler.cluster.parcels import Parcel
from profiler.cluster.standing import Standing, bench_kept, end_standing
from profiler.machine.gpu_lock import gpu_lock
from profiler.run_folder.documents import read_json
from profiler.run_folder.folder import RunFolder
from profiler.run_folder.redact import MACHINE_FILE
from profiler.search.live.records import Evaluated
from profiler.sessions.measure import LOCK_TIMEOUT_S
from profiler.sessions.progress import ProgressReporter
from profiler.sessions.search.batch import BestHere, evaluate_batch
from profiler.sessions.search.bench import Subject
from profiler.sessions.search.standing_bench import standing_bench, subject_of


def dask_teardown(worker: Worker) -> None:
    """End what stands, and take the folder away, before a worker leaves: Dask calls it."""
    end_standing()
    shutil.rmtree(folder_of_worker(worker), ignore_errors=True)


def measure_batch(order: str, libraries: Mapping[str, bytes]) -> list[Parcel]:
    """Measure a batch; gives what came of it, also where something went wrong on the way.

    `libraries` by the hashes of their contents.
    """
    facts: dict[str, Any] = {"ends": [], "looks": [], "evaluated": []}
    return answer(facts, lambda: _measure(read_order(order, Batch), libraries, facts), lambda: ())


def _measure(batch: Batch, libraries: Mapping[str, bytes], facts: dict[str, Any]) -> None:
    here = prepared(batch, libraries)
    environment = here.machine.environment
    library_of = {build.variant: build.library for build in here.builds}

    def subject(variant: str) -> Subject:
        return subject_of(batch.plan, batch.problems, variant, library_of.get(variant))

    def make(closing: ExitStack) -> Standing:
        reporter = ProgressReporter.for_terminal(color="auto", quiet=batch.quiet)
        run = _new_run(batch, here, closing)
        lock = closing.enter_context(
            gpu_lock(environment.gpu_uuid, timeout_s=LOCK_TIMEOUT_S, on_wait=reporter.say)
        )
        bench = standing_bench(
            loaded=here.loaded,
            machine=here.machine,
            run=run,
            lock_file=lock.session_file,
            baseline=subject(batch.baseline),
            on_runner_end=lambda _: None,
        )
        return Standing(closing.enter_context(bench), run)

    def take(evaluated: Evaluated) -> None:
        facts["evaluated"].append(asdict(evaluated))
        end_if_unwanted()

    with bench_kept(f"{batch.run} {batch.search}", make) as standing:
        standing.bench.on_runner_end = facts["ends"].append
        facts["texts"] = read_json(standing.run.path / MACHINE_FILE)
        facts["environment"] = asdict(environment)
        evaluate_batch(
            standing.bench,
            incumbent=None if batch.incumbent is None else subject(batch.incumbent),
            candidates=[subject(variant) for variant in batch.candidates],
            best=BestHere(batch.objective, batch.noise),
            on_look=facts["looks"].append,
            on_evaluated=take,
        )


def _new_run(batch: Batch, here: Prepared, closing: ExitStack) -> RunFolder:
    """Folder for the files of runners, gone with the bench."""
    folder = Path(tempfile.mkdtemp(dir=here.folder, prefix="search."))
    closing.callback(shutil.rmtree, folder, ignore_errors=True)
    run = RunFolder(folder / batch.plan.experiment / "run")
    run.path.mkdir(parents=True)
    run.note_machine(here.machine.environment, batch.plan.seed, here.loaded.base)
    return run
