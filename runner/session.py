"""The walk over a job: problems, their cells, then their blocks; a failure costs one cell."""

from __future__ import annotations

import gc
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import groupby
from typing import Any

import torch

from profiler.runner import protocol
from profiler.runner.checks.cell_checks import CellChecks
from profiler.runner.checks.check import Tensors
from profiler.runner.checks.kept_inputs import InputWatch, KeptInputs
from profiler.runner.device import Device, DeviceMissingError, has_context, open_device
from profiler.runner.import_path import ImportLog, import_ahead
from profiler.runner.journal import Journal
from profiler.runner.orders import LeavingError, Turn
from profiler.runner.phases import ContextLostError, PhaseFailedError, Phases, place_of
from profiler.runner.protocol import Job, JobCell, JobVisit
from profiler.runner.seal import Seal, refuse_replaced
from profiler.runner.timing import Launch, restore
from profiler.runner.visits import ranges
from profiler.runner.visits.base import MakeVisit, Visits
from profiler.runner.visits.bursts import LaunchInTurn
from profiler.runner.visits.kinds import make_visits
from profiler.runner.visits.practical_roofs import launch_for_roof
from profiler.runner.workload import Workload, load_workload

CHEAP_S = 0.05
"""Longest that inputs, launches and warm-ups of a problem take for its inputs to be moved."""
SETS_S = 2.0
"""Most seconds that further sets of the inputs of a problem take, for all of its cells."""
_COMPILER = "torch._inductor"
"""Module of a compiler: where loaded, a launch that is prepared again may compile again."""


class Session:
    """Runs one job in this process: its workload, device, visits and journal."""

    def __init__(  # noqa: PLR0913 - all by keyword
        self,
        *,
        job: Job,
        workload: Workload,
        device: Device,
        visits: Visits,
        journal: Journal,
        seal: Seal,
        replaced: tuple[str, ...],
        start: Mapping[str, Any],
    ) -> None:
        self.job = job
        self._start = start
        """Facts of the start of the session, for its journal."""
        self._workload = workload
        self._device = device
        self._visits = visits
        self._journal = journal
        self._seal = seal
        self._replaced = replaced
        """Names that the workload replaced at its import: then none of its variants counts."""
        self._cells = {cell.id: cell for cell in job.cells}
        self._phases = Phases(journal, device, seal, workload.source)
        self._checks = CellChecks(job, workload, device, self._phases)
        self._imports: ImportLog | None = None
        """Modules that the launches of the first problem import, while they are made."""

    def following_session(self, job: Job, journal: Journal) -> Session:
        """The session of another job in this process, with its workload and device.

        Its inputs lie elsewhere, as in another process. Raises DeviceMissingError as
        `open_session` does.
        """
        self._device.move_memory(job.session)
        with _refusals_of_device():
            visits = make_visits(job, self._device)
            visits.remember(self._visits)
        return type(self)(
            job=job,
            workload=self._workload,
            device=self._device,
            visits=visits,
            journal=journal,
            seal=self._seal,
            replaced=self._replaced,
            start={**self._start, "stamps": {protocol.DEVICE_OPEN: time.monotonic()}},
        )

    def run(self) -> None:
        """Visit everything; raises ContextLostError where this process cannot go on."""
        self._journal.write(
            protocol.SESSION_STARTED,
            session=self.job.session,
            pid=os.getpid(),
            python=platform.python_version(),
            torch=torch.__version__,
            cuda=torch.version.cuda,
            device=self._device.name,
            nvtx=ranges.tool_listens(),
            flush=self.job.settings.flush,
            attributes=self._device.attributes(),
            **self._start,
        )
        # Backward passes stay on this thread, and so inside the range that this thread pushed.
        with torch.no_grad(), torch.autograd.set_multithreading_enabled(False):
            self._measure_practical_roofs()
            self._run_problems()
        self._journal.write(protocol.SESSION_FINISHED, monotonic=time.monotonic())

    def _measure_practical_roofs(self) -> None:
        """Measure practical roofs first, while all memory is free; a failure costs no cell."""
        for roof in self.job.settings.practical_roofs:
            self._journal.write(protocol.ROOF_STARTED, roof=roof)
            try:
                record = launch_for_roof(
                    roof,
                    self._device,
                    flush=self.job.settings.flush,
                    range_profiler=self._visits.counters,
                )
            except Exception as error:  # no cell is to blame
                failure, is_lost = self._phases.diagnose(error)
                self._journal.write(protocol.ROOF_FAILED, roof=roof, cause=failure.cause)
                if is_lost:
                    raise ContextLostError(failure.cause) from None
            else:
                self._journal.write(protocol.ROOF_FINISHED, roof=roof, **record)
            self._device.release()

    def _run_problems(self) -> None:
        try:
            self._declare_work()
            self._imports = ImportLog()
            self._imports.begin()
            for _, visits in groupby(self.job.visits, key=self._problem_of):
                self._run_problem(tuple(visits))
                self._device.release()
                # What outlives a problem belongs to libraries, and once inductor is loaded, going
                # through it again takes a fifth of a second for each collection.
                gc.freeze()
        finally:
            self._end_imports()
            self._visits.close()

    def _end_imports(self) -> tuple[str, ...]:
        """Names of modules that launches of the first problem imported; empty at later calls."""
        log, self._imports = self._imports, None
        return () if log is None else log.end()

    def _journal_imports(self) -> None:
        """Journal the modules that launches of the first problem imported, for processes that wait.

        Not where a cell has settings of its own: an import may have made them, and an early import
        would make them for all cells.
        """
        modules = self._end_imports()
        if modules and not self._phases.settings.are_changed:
            self._journal.write(protocol.IMPORTED, modules=modules)

    def _declare_work(self) -> None:
        """Journal the work of a launch at each problem of the session, before any is set up.

        Without amounts where their functions raise: `make_inputs` may have to come first, and else
        the cells fail when they are described. Where one ends the process, the journal names the
        problem.
        """
        by_problem: dict[str, dict[str, JobCell]] = {}
        for cell in (*(self._cells[visit.cell] for visit in self.job.visits), *self.job.cells):
            by_problem.setdefault(cell.problem, {})[cell.id] = cell
        for cells in by_problem.values():
            with suppress(PhaseFailedError):
                self._declare([*cells.values()])

    def _declare(self, cells: Sequence[JobCell]) -> None:
        with self._phases.journalled(protocol.DECLARE, cells) as findings:
            try:
                findings.update(self._workload.amounts(cells[0].problem_params))
            except LeavingError:
                raise
            except BaseException:  # noqa: S110 - as the docstring of `_declare_work` says
                pass

    def _problem_of(self, visit: JobVisit) -> str:
        return self._cells[visit.cell].problem

    def _run_problem(self, visits: Sequence[JobVisit]) -> None:
        """Prepare and check every cell of a problem first, then measure the blocks."""
        ids = dict.fromkeys(visit.cell for visit in visits)
        cells = [self._cells[cell] for cell in ids if cell not in self._phases.failed]
        if not cells:
            return
        self._phases.set_up_s = 0.0
        self._checks.begin_problem()
        self._device.begin_problem()
        try:
            inputs, expected = self._set_up(cells)
        except PhaseFailedError:
            return
        watch = InputWatch(self._workload.named_inputs, cells, inputs)
        launches = self._make_launches(cells, inputs, expected)
        del expected
        self._checks.release_tensors()
        self._device.release()
        watch.begin(inputs, launches)
        # Only after memory was given back: warm launches find theirs in the allocator's cache.
        for cell in cells:
            if cell.id in launches and not self._warm_up(cell, launches[cell.id]):
                del launches[cell.id]
        watch.after_warm_ups()
        self._journal_imports()
        self._take_in_turn(cells, inputs, launches)
        first_part, *later_parts = parts_of(
            visits, self.job.settings.places if self._is_cheap() else 1
        )
        self._make_visits(first_part, launches)
        for number, part in enumerate(later_parts, start=1):
            if self._is_cheap():
                self._journal_overwritten_inputs(watch, launches)
                watch.forget()
                inputs = None  # their memory is free before new ones are made
                inputs = self._moved_inputs(f"{self.job.session}.{number}", cells, launches)
                watch.move(inputs, launches)
            self._make_visits(part, launches)
        self._journal_overwritten_inputs(watch, launches)
        for cell_id, launch in launches.items():
            if isinstance(launch, LaunchInTurn):
                launches[cell_id] = launch.launches[0]
        right_cells = [cell for cell in cells if cell.id in launches]
        self._checks.recheck_cells(right_cells, launches, inputs)

    def _journal_overwritten_inputs(
        self, watch: InputWatch, launches: Mapping[str, Launch]
    ) -> None:
        """Journal that inputs were overwritten after all checks: timed launches had other data."""
        changed = watch.changed_names()
        cause = f"a variant overwrote {', '.join(changed)} while it was measured"
        for cell in launches if changed else ():
            self._journal.write(protocol.NOT_RECHECKED, cell=cell, cause=cause)

    def _take_in_turn(
        self, cells: Sequence[JobCell], inputs: Any, launches: dict[str, Launch]
    ) -> None:
        """Make the launches take several sets of inputs in turn, where the visits need it.

        As many sets as can be made in SETS_S and half of the memory that is left; a set that cannot
        be made is no cell's failure.
        """
        count = self._visits.input_sets(inputs)
        sets = [dict(launches)]
        deadline, least_free = time.monotonic() + SETS_S, self._device.free_share() / 2
        while len(sets) < count and time.monotonic() < deadline:
            if self._device.free_share() < least_free:
                break
            try:
                sets.append(self._another_set(cells, launches))
            except Exception:  # of any kind, by a workload that makes inputs once more
                break
        for cell in [*launches] if count > 1 else ():
            launches[cell] = LaunchInTurn([launch_set[cell] for launch_set in sets])

    def _another_set(
        self, cells: Sequence[JobCell], launches: Mapping[str, Launch]
    ) -> dict[str, Launch]:
        """Launches on inputs with the same values elsewhere in memory, each made once."""
        inputs = self._inputs_of(cells[0])
        launch_set = {}
        for cell in cells:
            if cell.id in launches:
                with self._phases.settings.in_force(cell.id):
                    launch_set[cell.id] = self._launch_of(cell, inputs)
                    launch_set[cell.id]()
                    restore(launch_set[cell.id])
        self._device.wait()
        return launch_set

    def _is_cheap(self) -> bool:
        """Whether inputs of this problem, and launches on them, can be made again in no time."""
        return self._phases.set_up_s <= CHEAP_S and _COMPILER not in sys.modules

    def _moved_inputs(
        self, place: str, cells: Sequence[JobCell], launches: dict[str, Launch]
    ) -> Any:
        """New inputs elsewhere in memory; the launches are made again as well.

        Where an array lies makes a short kernel up to 1 % faster or slower while it lies there.
        """
        cells = [cell for cell in cells if cell.id in launches]
        launches.clear()
        self._device.release()
        self._device.move_memory(place)
        self._phases.set_up_s = 0.0
        inputs = None
        with suppress(PhaseFailedError):
            inputs = self._make_inputs(cells)
            for cell in cells:
                with suppress(PhaseFailedError):
                    launch = self._prepare(cell, inputs)
                    if self._warm_up(cell, launch):
                        launches[cell.id] = launch
        return inputs

    def _make_launches(
        self, cells: Sequence[JobCell], inputs: Any, expected: Tensors | None
    ) -> dict[str, Launch]:
        """Launches by cell id, of the cells that could be prepared and are right."""
        launches: dict[str, Launch] = {}
        kept_inputs = self._checks.copies(cells, inputs, expected)
        for cell in cells:
            with suppress(PhaseFailedError):
                launches[cell.id] = self._make_launch(cell, inputs, expected, kept_inputs)
            # Only here is an exception gone, and with it what its frames held.
            if cell.id not in launches:
                self._device.release()
        return launches

    def _set_up(self, cells: Sequence[JobCell]) -> tuple[Any, Tensors | None]:
        """Inputs and reference of a problem; where one fails, all cells of the problem do."""
        inputs = self._make_inputs(cells)
        return inputs, self._checks.reference(cells, inputs)

    def _make_inputs(self, cells: Sequence[JobCell]) -> Any:
        with self._phases.journalled(protocol.INPUTS, cells):
            refuse_replaced(self._replaced)
            return self._inputs_of(cells[0])

    def _inputs_of(self, cell: JobCell) -> Any:
        torch.manual_seed(self.job.seed)
        return self._workload.inputs_of(cell, self._device.torch_device, self.job.seed)

    def _make_launch(
        self, cell: JobCell, inputs: Any, expected: Tensors | None, kept_inputs: KeptInputs
    ) -> Launch:
        launch = self._prepare(cell, inputs)
        if cell.check:
            first_launch = partial(self._visits.first_launch, cell.id)
            self._checks.check_result(
                cell, launch, inputs, expected, kept_inputs, first_launch=first_launch
            )
        self._describe(cell, launch)
        return launch

    def _prepare(self, cell: JobCell, inputs: Any) -> Launch:
        with self._phases.journalled(protocol.PREPARE, [cell]) as findings:
            launch = self._launch_of(cell, inputs)
            if why := getattr(launch, protocol.UNCONFINED, ""):
                findings[protocol.UNCONFINED] = why
            return launch

    def _launch_of(self, cell: JobCell, inputs: Any) -> Launch:
        torch.manual_seed(self.job.seed)
        return self._workload.launch_of(cell, inputs)

    def _describe(self, cell: JobCell, launch: Launch) -> None:
        with self._phases.journalled(protocol.DESCRIBE, [cell]) as findings:
            for name in protocol.LAUNCH_FACTS:
                if getattr(launch, name, None) is not None:
                    findings[name] = float(getattr(launch, name))
            if getattr(launch, protocol.TUNED, None):
                findings[protocol.TUNED] = list(getattr(launch, protocol.TUNED))
            findings.update(self._workload.amounts(cell.problem_params))

    def _warm_up(self, cell: JobCell, launch: Launch) -> bool:
        spared_s = self._visits.spared_s
        with (
            suppress(PhaseFailedError),
            self._phases.journalled(protocol.WARMUP, [cell]) as findings,
        ):
            findings.update(self._visits.warm_up(cell.id, launch, self.job.settings.warmups))
            spared_s = self._visits.spared_s - spared_s
            if spared_s:
                findings[protocol.SPARED_S] = spared_s
                self._phases.set_up_s += spared_s
            restore(launch)
        return cell.id not in self._phases.failed

    def _make_visits(self, visits: Sequence[JobVisit], launches: dict[str, Launch]) -> None:
        """Make visits in their order; cells that fail leave the launches."""

        def attempt(visit: JobVisit, phase: str, make: MakeVisit) -> bool:
            if visit.cell in launches and not self._make_visit(
                visit, phase, make, launches[visit.cell]
            ):
                del launches[visit.cell]
            return visit.cell in launches

        for visit, kernels in self._visits.make_all(visits, attempt):
            self._journal.write(
                protocol.COUNTED, cell=visit.cell, **place_of(visit), kernels=kernels
            )

    def _make_visit(self, visit: JobVisit, phase: str, make: MakeVisit, launch: Launch) -> bool:
        """Make a visit in a phase of the journal; whether it succeeded."""
        cell = self._cells[visit.cell]
        with suppress(PhaseFailedError), self._phases.journalled(phase, [cell], visit) as findings:
            findings.update(make(launch))
            restore(launch)  # other cells get the same inputs
        return visit.cell not in self._phases.failed


def parts_of(visits: Sequence[JobVisit], parts: int) -> list[tuple[JobVisit, ...]]:
    """Visits in so many parts of consecutive whole blocks, about as many blocks in each."""
    blocks = list(dict.fromkeys(visit.block for visit in visits))
    part = {block: place * parts // len(blocks) for place, block in enumerate(blocks)}
    return [tuple(group) for _, group in groupby(visits, key=lambda visit: part[visit.block])]


def open_session(job: Job, journal: Journal, turn: Turn, kind: type[Session] = Session) -> Session:
    """Load the workload and open the device of a job, each when it is its turn.

    `kind`: the class of the session, which is made.

    Raises WorkloadError, DeviceMissingError, or ValueError for an unknown collector; of a session
    that waits LeavingError as well.
    """
    turn.before_import()
    seal = Seal()
    workload = load_workload(job.workload, job.description, job.tolerances)
    journal.note_opened()
    modules = turn.modules()
    replaced = seal.mend()
    import_ahead(modules)
    seal.mend()  # the first session blamed a replacement on the cell that imports these modules
    context_at_import = has_context(job.device)
    turn.before_device(has_context=context_at_import)
    with _refusals_of_device():
        device = open_device(job.device)
        job = turn.job_with_visits(job)
        if turn.orders is not None:
            journal.end_wait()
        visits = make_visits(job, device)
    return kind(
        job=job,
        workload=workload,
        device=device,
        visits=visits,
        journal=journal,
        seal=seal,
        replaced=(*replaced, *seal.mend()),
        start={"context_at_import": context_at_import, "stamps": turn.stamps},
    )


@contextmanager
def _refusals_of_device() -> Iterator[None]:
    """Raise DeviceMissingError where torch raises in the body, which opens a device."""
    try:
        yield
    except RuntimeError as error:
        raise DeviceMissingError(f"torch cannot use the device: {error}") from error
