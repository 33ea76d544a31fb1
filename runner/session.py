"""The walk over a job: problems, their cells, then their blocks; a failure costs one cell."""

from __future__ import annotations

import gc
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import torch

from profiler.kernels.references import Reference
from profiler.runner import check, protocol, ranges
from profiler.runner.cell_settings import CellSettings
from profiler.runner.check import Tensors, WrongResultError
from profiler.runner.device import Device, DeviceMissingError, has_context, open_device
from profiler.runner.failures import OUT_OF_MEMORY, Failure, diagnose
from profiler.runner.import_path import ImportLog, import_ahead
from profiler.runner.journal import Journal
from profiler.runner.kept_inputs import InputSums, KeptInputs
from profiler.runner.orders import LeavingError, Turn
from profiler.runner.protocol import Job, JobCell, JobVisit, Tolerance
from profiler.runner.renewal import (
    NotRenewableError,
    Renewal,
    Sample,
    other_seed,
    require_right,
    require_same,
    tensors_in,
    zeroed,
)
from profiler.runner.rounding import Rounding, rounding_in
from profiler.runner.seal import ImplausibleError, Seal, refuse_replaced
from profiler.runner.timing import Launch, restore
from profiler.runner.visits.base import MakeVisit, Visits
from profiler.runner.visits.bursts import LaunchInTurn
from profiler.runner.visits.kinds import make_visits
from profiler.runner.visits.practical_roofs import launch_for_roof
from profiler.runner.workload import Workload, load_workload


class PhaseFailedError(Exception):
    """A phase failed and the journal says so; the cells concerned are not visited any more."""


class ContextLostError(Exception):
    """The device refuses all further work of this process; the journal names the failing cell."""


CHEAP_S = 0.05
"""Longest that inputs, launches and warm-ups of a problem take for its inputs to be moved."""
SETS_S = 2.0
"""Most that further sets of the inputs of a problem take, for all of its cells."""
_SET_UP = frozenset({protocol.INPUTS, protocol.PREPARE, protocol.WARMUP})
_COMPILER = "torch._inductor"
"""Where it is loaded, a launch that is prepared anew may compile anew, at its first call."""


class Session:
    """One job in this process, with everything that it needs at hand."""

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
        """Names that the workload replaced when it was imported: none of its variants counts."""
        self._cells = {cell.id: cell for cell in job.cells}
        self._settings = CellSettings()
        self._failed: set[str] = set()
        self._imports: ImportLog | None = None
        """Modules that the launches of the first problem import, while they are made."""
        self._set_up_s = 0.0
        """Seconds that inputs, launches and warm-ups of this problem take where they lie now."""
        self._rounding: check.Allowed | None = None
        """Absolute error that rounding explains in outputs of this problem."""
        self._unwritten: frozenset[str] = frozenset()
        """Tensors that no check of this problem wrote, where the workload names no inputs."""

    def following(self, job: Job, journal: Journal) -> Session:
        """The session of another job in this process, with its workload and device.

        Its inputs lie elsewhere, as those of another process would. Raises DeviceMissingError as
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
            **_circumstances(self.job, self._device),
            **self._start,
        )
        # Backward passes stay on this thread, and so inside the range that this thread pushed.
        with torch.no_grad(), torch.autograd.set_multithreading_enabled(False):
            self._measure_practical_roofs()
            self._run_problems()
        self._journal.write(protocol.SESSION_FINISHED, monotonic=time.monotonic())

    def _measure_practical_roofs(self) -> None:
        """First of all, while all memory is free; a failure is journalled and costs no cell."""
        for roof in self.job.practical_roofs:
            self._journal.write(protocol.ROOF_STARTED, roof=roof)
            try:
                made = launch_for_roof(
                    roof, self._device, flush=self.job.flush, counted=self._visits.counters
                )
            except Exception as error:  # whatever it is, it is no cell's
                failure, lost = self._diagnose(error)
                self._journal.write(protocol.ROOF_FAILED, roof=roof, cause=failure.cause)
                if lost:
                    raise ContextLostError(failure.cause) from None
            else:
                self._journal.write(protocol.ROOF_FINISHED, roof=roof, **made)
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
        """Names of modules that the launches of the first problem imported; once."""
        log, self._imports = self._imports, None
        return () if log is None else log.end()

    def _tell_imports(self) -> None:
        """Journal what the launches of the first problem imported, for processes that wait.

        Not where a cell has settings of its own: an import may have made them, and would make them
        those of all cells where it comes first.
        """
        modules = self._end_imports()
        if modules and not self._settings.are_changed:
            self._journal.write(protocol.IMPORTED, modules=modules)

    def _declare_work(self) -> None:
        """Journal the work of a launch at each problem of the session, before any is set up.

        Without amounts where that raises: `make_inputs` may have to come first, and else the cells
        say so when they are described. Where it ends the process, the journal names the problem.
        """
        by_problem: dict[str, dict[str, JobCell]] = {}
        for cell in (*(self._cells[visit.cell] for visit in self.job.visits), *self.job.cells):
            by_problem.setdefault(cell.problem, {})[cell.id] = cell
        for cells in by_problem.values():
            with suppress(PhaseFailedError):
                self._declare([*cells.values()])

    def _declare(self, cells: Sequence[JobCell]) -> None:
        with self._phase(protocol.DECLARE, cells) as findings:
            try:
                findings.update(self._work(cells[0].problem_params))
            except LeavingError:
                raise
            except BaseException:  # noqa: S110 - as the docstring of `_declare_work` says
                pass

    def _work(self, problem: protocol.Params) -> dict[str, float | None]:
        """FLOPs and bytes that the workload declares of a launch; None where it declares none."""
        amounts = {name: getattr(self._workload, name) for name in protocol.AMOUNTS}
        counts = {
            name: None if amount is None else amount(dict(problem))
            for name, amount in amounts.items()
        }
        return {name: None if count is None else float(count) for name, count in counts.items()}

    def _problem_of(self, visit: JobVisit) -> str:
        return self._cells[visit.cell].problem

    def _run_problem(self, visits: Sequence[JobVisit]) -> None:
        """Prepare and check every cell of a problem first, then measure the blocks."""
        ids = dict.fromkeys(visit.cell for visit in visits)
        cells = [self._cells[cell] for cell in ids if cell not in self._failed]
        if not cells:
            return
        self._set_up_s, self._rounding = 0.0, None
        try:
            inputs, expected = self._set_up(cells)
        except PhaseFailedError:
            return
        before = self._sums_before_checks(cells, inputs)
        launches = self._make_launches(cells, inputs, expected)
        del expected
        if isinstance(self._rounding, Rounding):
            self._rounding = self._rounding.largest()  # without tensors, whose memory is needed
        self._device.release()
        self._unwritten = before.names.difference(before.changed())
        sums = self._input_sums(inputs, launches)
        later = self._sums_of_later(cells, inputs, launches, before)
        # Only after memory was given back: warm launches find theirs in the allocator's cache.
        for cell in cells:
            if cell.id in launches and not self._warmed_up(cell, launches[cell.id]):
                del launches[cell.id]
        self._unwritten |= later.keep_unchanged()
        sums.add(later)
        del before, later
        self._tell_imports()
        self._take_in_turn(cells, inputs, launches)
        first, *others = parts_of(visits, self.job.places if self._is_cheap() else 1)
        self._make_visits(first, launches)
        for number, part in enumerate(others, start=1):
            if self._is_cheap():
                self._say_changed(sums, launches)
                del sums
                inputs = None  # their memory is free before others are made
                inputs = self._moved(f"{self.job.session}.{number}", cells, launches)
                sums = self._input_sums(inputs, launches)
            self._make_visits(part, launches)
        self._say_changed(sums, launches)
        for cell_id, launch in launches.items():
            if isinstance(launch, LaunchInTurn):
                launches[cell_id] = launch.launches[0]
        self._recheck_problem([cell for cell in cells if cell.id in launches], launches, inputs)

    def _take_in_turn(
        self, cells: Sequence[JobCell], inputs: Any, launches: dict[str, Launch]
    ) -> None:
        """Make the launches take several sets of inputs in turn, where visits want it.

        As many sets as can be made in SETS_S and half of the memory that is left; a set that cannot
        be made is no cell's failure.
        """
        count = self._visits.input_sets(inputs)
        sets = [dict(launches)]
        until, least_free = time.monotonic() + SETS_S, self._device.free_share() / 2
        while len(sets) < count and time.monotonic() < until:
            if self._device.free_share() < least_free:
                break
            try:
                sets.append(self._another_set(cells, launches))
            except Exception:  # whatever a workload raises that is asked once more
                break
        for cell in [*launches] if count > 1 else ():
            launches[cell] = LaunchInTurn([made[cell] for made in sets])

    def _another_set(
        self, cells: Sequence[JobCell], launches: Mapping[str, Launch]
    ) -> dict[str, Launch]:
        """Launches on inputs with the same values elsewhere in memory, each made once."""
        torch.manual_seed(self.job.seed)
        inputs = self._inputs_of(cells[0], self.job.seed)
        made = {}
        for cell in cells:
            if cell.id in launches:
                with self._settings.of(cell.id):
                    made[cell.id] = self._prepared(cell, inputs)
                    made[cell.id]()
                    restore(made[cell.id])
        self._device.wait()
        return made

    def _is_cheap(self) -> bool:
        """Whether the inputs of this problem, and launches on them, can be made anew in no time."""
        return self._set_up_s <= CHEAP_S and _COMPILER not in sys.modules

    def _moved(self, place: str, cells: Sequence[JobCell], launches: dict[str, Launch]) -> Any:
        """Inputs made anew, elsewhere in memory; the launches are made anew as well.

        Where an array lies makes a short kernel up to 1 % faster or slower while it lies there.
        """
        cells = [cell for cell in cells if cell.id in launches]
        launches.clear()
        self._device.release()
        self._device.move_memory(place)
        self._set_up_s = 0.0
        inputs = None
        with suppress(PhaseFailedError):
            inputs = self._make_inputs(cells)
            for cell in cells:
                with suppress(PhaseFailedError):
                    launch = self._prepare(cell, inputs)
                    if self._warmed_up(cell, launch):
                        launches[cell.id] = launch
        return inputs

    def _make_launches(
        self, cells: Sequence[JobCell], inputs: Any, expected: Tensors | None
    ) -> dict[str, Launch]:
        """Launches by cell id, of the cells that could be prepared and are right."""
        launches: dict[str, Launch] = {}
        kept = self._keep(cells, inputs)
        for cell in cells:
            with suppress(PhaseFailedError):
                launches[cell.id] = self._make_launch(cell, inputs, expected, kept)
            # Only here is an exception gone, and with it what its frames held.
            if cell.id not in launches:
                self._device.release()
        return launches

    def _set_up(self, cells: Sequence[JobCell]) -> tuple[Any, Tensors | None]:
        """Inputs and reference of a problem; where one fails, all cells of the problem do."""
        problem = cells[0].problem_params
        inputs = self._make_inputs(cells)
        make_reference = self._workload.reference
        compared = [cell for cell in cells if cell.check and not self._own_check(cell, inputs)]
        if make_reference is None or not compared:
            return inputs, None
        with self._phase(protocol.REFERENCE, cells) as findings:
            kept = self._keep(cells, inputs)
            reference = make_reference(dict(problem), inputs)
            if isinstance(reference, Reference):
                self._rounding = rounding_in(reference)
                if reference.doubt:
                    findings[protocol.OWN_TYPES] = reference.doubt
            expected = kept.apart(_as_expected(reference))
            kept.restore()
        return inputs, expected

    def _keep(self, cells: Sequence[JobCell], inputs: Any) -> KeptInputs:
        """Copies of the inputs that a check of these cells may find written."""
        named = self._workload.named_inputs
        watched = named is not None and any(cell.check for cell in cells)
        return KeptInputs(named(inputs) if named is not None and watched else {})

    def _sums_before_checks(self, cells: Sequence[JobCell], inputs: Any) -> InputSums:
        """Sums of what may be inputs, where the workload does not say which are.

        What a launch writes when it is checked is none. So none is known where a cell is not.
        """
        return InputSums(self._unnamed_tensors(cells, inputs), ())

    def _sums_of_later(
        self,
        cells: Sequence[JobCell],
        inputs: Any,
        launches: Mapping[str, Launch],
        before: InputSums,
    ) -> InputSums:
        """Sums of what was made from the inputs only when it was needed: by the checks.

        What warm launches write of it, which come next, is a workspace and no input.
        """
        made = self._unnamed_tensors(cells, inputs).items()
        later = {name: tensor for name, tensor in made if name not in before.names}
        return InputSums(later, _outputs_of(launches))

    def _unnamed_tensors(self, cells: Sequence[JobCell], inputs: Any) -> dict[str, torch.Tensor]:
        """Tensors in inputs of a workload that names none; none where a cell is not checked."""
        if self._workload.named_inputs is not None or not all(cell.check for cell in cells):
            return {}
        with suppress(Exception):  # whatever objects of a workload do when they are looked into
            return tensors_in(inputs)
        return {}

    def _input_sums(self, inputs: Any, launches: Mapping[str, Launch]) -> InputSums:
        """Sums of the inputs that no launch gives as its outputs."""
        named = self._workload.named_inputs
        if named is not None:
            watched = named(inputs) if inputs is not None else {}
        else:
            tensors = tensors_in(inputs) if self._unwritten else {}
            watched = {name: t for name, t in tensors.items() if name in self._unwritten}
        return InputSums(watched, _outputs_of(launches))

    def _say_changed(self, sums: InputSums, launches: Mapping[str, Launch]) -> None:
        """Journal that inputs were overwritten after all checks: what was timed had other data."""
        changed = sums.changed()
        cause = f"a variant overwrote {', '.join(changed)} while it was measured"
        for cell in launches if changed else ():
            self._journal.write(protocol.NOT_RECHECKED, cell=cell, cause=cause)

    def _own_check(self, cell: JobCell, inputs: Any) -> Callable[[Any], check.Errors | None] | None:
        """Function that checks a cell's result; None where it is compared with the reference."""
        if self._workload.own_check is None:
            return None
        return self._workload.own_check(
            dict(cell.variant_params), dict(cell.problem_params), inputs
        )

    def _make_inputs(self, cells: Sequence[JobCell]) -> Any:
        with self._phase(protocol.INPUTS, cells):
            refuse_replaced(self._replaced)
            torch.manual_seed(self.job.seed)
            return self._inputs_of(cells[0], self.job.seed)

    def _inputs_of(self, cell: JobCell, seed: int) -> Any:
        """Inputs of the problem of a cell."""
        inputs = self._workload.make_inputs(
            dict(cell.problem_params), self._device.torch_device, seed
        )
        return zeroed(inputs) if cell.on_zeros else inputs

    def _make_launch(
        self, cell: JobCell, inputs: Any, expected: Tensors | None, kept: KeptInputs
    ) -> Launch:
        launch = self._prepare(cell, inputs)
        if cell.check:
            self._check(cell, launch, inputs, expected, kept)
        self._describe(cell, launch)
        return launch

    def _prepare(self, cell: JobCell, inputs: Any) -> Launch:
        with self._phase(protocol.PREPARE, [cell]) as findings:
            launch = self._prepared(cell, inputs)
            if getattr(launch, protocol.UNCONFINED, False):
                findings[protocol.UNCONFINED] = True
            return launch

    def _prepared(self, cell: JobCell, inputs: Any) -> Launch:
        torch.manual_seed(self.job.seed)
        launch = self._workload.prepare(
            dict(cell.variant_params),
            dict(cell.problem_params),
            inputs,
            None if cell.library is None else Path(cell.library),
        )
        if not callable(launch):
            raise TypeError(f"prepare must return a callable, not {type(launch)}")
        return launch

    def _check(
        self,
        cell: JobCell,
        launch: Launch,
        inputs: Any,
        reference: Tensors | None,
        kept: KeptInputs,
    ) -> None:
        with self._phase(protocol.CHECK, [cell]) as findings:
            outputs = getattr(launch, "outputs", None)
            kept.forget(check.as_tensors(outputs, "`outputs`") if outputs is not None else ())
            first_launch = partial(self._visits.first_launch, cell.id)
            is_ready = cell.library and outputs is not None and not hasattr(launch, "restore")
            try:
                result = check.poisoned_result(launch, first_launch if is_ready else None)
                got = check.as_tensors(result, "the result of the launch")
                self._device.settle()  # a launch may have used a stream of its own
                errors = self._compare(cell, result, got, inputs, reference)
            except Exception:
                # What it wrote explains a wrong result, and must not be blamed on others. After an
                # error of the device nothing can be asked: RuntimeError.
                with suppress(RuntimeError):
                    restore(launch)
                    kept.refuse_written()
                raise
            restore(launch)
            kept.refuse_written()
            findings.update(_error_fields(errors))
            findings["result_bytes"] = float(sum(tensor.nbytes for tensor in got))
            findings["result_dtypes"] = [str(t.dtype).removeprefix("torch.") for t in got]

    def _compare(
        self, cell: JobCell, result: Any, got: Tensors, inputs: Any, reference: Tensors | None
    ) -> check.Errors | None:
        """Errors of a right result, None where a check of its own gives none; else raises."""
        own_check = self._own_check(cell, inputs)
        if own_check is not None:
            return own_check(result)
        expected, tolerances = self._expected_of(cell, inputs, reference)
        asked = self._workload.is_own_reference
        return check.compare(
            got,
            expected,
            *(cell.tolerances, self.job.tolerances, tolerances),
            own_reference=asked is not None and asked(dict(cell.variant_params)),
            rounding=self._rounding,
        )

    def _expected_of(
        self, cell: JobCell, inputs: Any, reference: Tensors | None
    ) -> tuple[Tensors, Mapping[str, Tolerance]]:
        """Right result of a cell and its bounds: the problem's, or the variant's own."""
        if reference is not None:
            return reference, self._workload.tolerances
        if self._workload.expected is None:
            raise TypeError("the workload has neither a reference nor an expected result")
        result, (absolute, relative) = self._workload.expected(
            dict(cell.variant_params), dict(cell.problem_params), inputs
        )
        tensors = check.as_tensors(result, "the expected result")
        return tensors, {"default": Tolerance(float(absolute), float(relative))}

    def _describe(self, cell: JobCell, launch: Launch) -> None:
        with self._phase(protocol.DESCRIBE, [cell]) as findings:
            for name in protocol.LAUNCH_FACTS:
                if getattr(launch, name, None) is not None:
                    findings[name] = float(getattr(launch, name))
            if getattr(launch, protocol.TUNED, None):
                findings[protocol.TUNED] = list(getattr(launch, protocol.TUNED))
            findings.update(self._work(cell.problem_params))

    def _warmed_up(self, cell: JobCell, launch: Launch) -> bool:
        spared_s = self._visits.spared_s
        with suppress(PhaseFailedError), self._phase(protocol.WARMUP, [cell]) as findings:
            findings.update(self._visits.warm_up(cell.id, launch, self.job.warmups))
            restore(launch)
        self._set_up_s += self._visits.spared_s - spared_s
        return cell.id not in self._failed

    def _make_visits(self, visits: Sequence[JobVisit], launches: dict[str, Launch]) -> None:
        """Make visits in their order; cells that fail leave the launches."""

        def attempt(visit: JobVisit, phase: str, make: MakeVisit) -> bool:
            if visit.cell in launches and not self._made(visit, phase, make, launches[visit.cell]):
                del launches[visit.cell]
            return visit.cell in launches

        for visit, kernels in self._visits.make_all(visits, attempt):
            self._journal.write(protocol.COUNTED, cell=visit.cell, **_place(visit), kernels=kernels)

    def _made(self, visit: JobVisit, phase: str, make: MakeVisit, launch: Launch) -> bool:
        """Whether something was done with the launch of a visit, and went well."""
        cell = self._cells[visit.cell]
        with suppress(PhaseFailedError), self._phase(phase, [cell], visit) as findings:
            findings.update(make(launch))
            restore(launch)  # others get the same inputs
        return visit.cell not in self._failed

    # ---- once more, on new inputs ----

    def _recheck_problem(
        self, cells: Sequence[JobCell], launches: Mapping[str, Launch], inputs: Any
    ) -> None:
        """Check those that were checked here again, on inputs that were overwritten in place.

        The right result is made after all have launched, so that none can copy it.
        """
        checked = [cell for cell in cells if cell.check and cell.recheck]
        if not checked:
            return
        with self._passed_over(checked):
            renewal = self._renewal(checked[0], inputs)
            samples = self._relaunched(checked, launches, renewal)
            rest = [cell for cell in checked if cell.id in samples]
            reference = self._right_again(rest, renewal)
            for cell in rest:
                with self._passed_over([cell]), suppress(PhaseFailedError):
                    self._recheck(cell, samples[cell.id], renewal, reference)

    def _renewal(self, cell: JobCell, inputs: Any) -> Renewal:
        seed = other_seed(self.job.seed)
        torch.manual_seed(seed)
        if self._workload.other_inputs is not None:
            others = self._workload.other_inputs(dict(cell.problem_params), inputs, seed)
            others = zeroed(others) if cell.on_zeros else others
        else:
            others = self._inputs_of(cell, seed)
        return Renewal(inputs, others, (self.job.seed, seed))

    def _relaunched(
        self, cells: Sequence[JobCell], launches: Mapping[str, Launch], renewal: Renewal
    ) -> dict[str, tuple[Sample, ...]]:
        """Results of the cells on the new inputs, by cell id."""
        samples: dict[str, tuple[Sample, ...]] = {}
        for cell in cells:
            with (
                suppress(PhaseFailedError),
                self._phase(protocol.RELAUNCH, [cell]),
                self._passed_over([cell], memory_only=True),
            ):
                launch, own_check = launches[cell.id], self._own_check(cell, renewal.others)
                if own_check is None:
                    samples[cell.id] = renewal.sample(launch, self._device)
                else:
                    require_right(own_check, renewal.results(launch, self._device))
        return samples

    def _right_again(self, cells: Sequence[JobCell], renewal: Renewal) -> Tensors | None:
        if self._workload.reference is None or not cells:
            return None
        with self._settings.of(None):
            result = self._workload.reference(dict(cells[0].problem_params), renewal.others)
        return _as_expected(result)

    def _recheck(
        self,
        cell: JobCell,
        samples: tuple[Sample, ...],
        renewal: Renewal,
        reference: Tensors | None,
    ) -> None:
        expected, tolerances = self._expected_of(cell, renewal.others, reference)
        with self._phase(protocol.RECHECK, [cell]):
            layers = (cell.tolerances, self.job.tolerances, tolerances)
            require_same(samples, renewal.take(expected), *layers, rounding=self._rounding)

    @contextmanager
    def _passed_over(
        self, cells: Sequence[JobCell], *, memory_only: bool = False
    ) -> Iterator[None]:
        """Journal that cells were not checked again, where the means for that failed.

        `memory_only`: only where no memory was left, which the second inputs took.
        """
        try:
            yield
        except (ContextLostError, LeavingError):
            raise
        except BaseException as error:
            failure, lost = self._diagnose(error)
            if lost:
                raise ContextLostError(failure.cause) from None
            if memory_only and failure.outcome != OUT_OF_MEMORY:
                raise
            cause = str(error) if isinstance(error, NotRenewableError) else failure.cause
            for cell in cells:
                self._journal.write(protocol.NOT_RECHECKED, cell=cell.id, cause=cause)

    @contextmanager
    def _phase(
        self, phase: str, cells: Sequence[JobCell], visit: JobVisit | None = None
    ) -> Iterator[dict[str, Any]]:
        """Journal a phase of the first cell; the findings go into its FINISHED record.

        All work is waited for inside, so that an error is blamed on the phase that caused it.
        Raises PhaseFailedError after all `cells` were journalled as failed.
        """
        where: dict[str, Any] = {"phase": phase}
        if visit is not None:
            where |= _place(visit)
        if phase in protocol.PROBLEM_PHASES:
            where["problem"] = cells[0].problem
        self._journal.write(protocol.STARTED, cell=cells[0].id, **where)
        began = time.monotonic()
        findings: dict[str, Any] = {}
        try:
            with self._settings_in(phase, cells):
                yield findings
                self._device.settle()
            self._seal.require_whole()
        except LeavingError:
            raise
        except BaseException as error:
            self._give_up(error, cells, where)
            raise PhaseFailedError from None
        if phase in _SET_UP:
            self._set_up_s += time.monotonic() - began
        self._journal.write(protocol.FINISHED, cell=cells[0].id, **where, **findings)

    def _settings_in(self, phase: str, cells: Sequence[JobCell]) -> AbstractContextManager[None]:
        """Settings of torch in a phase: the cell's own. What makes inputs sets them for all."""
        if phase in (protocol.INPUTS, protocol.DECLARE):
            return nullcontext()
        return self._settings.of(cells[0].id if phase not in protocol.PROBLEM_PHASES else None)

    def _give_up(
        self, error: BaseException, cells: Sequence[JobCell], where: dict[str, Any]
    ) -> None:
        """Journal the failure of cells; ContextLostError where the device is lost with them."""
        failure, lost = self._diagnose(error)
        with suppress(OSError):  # what is said on stderr ends no session
            if not isinstance(error, WrongResultError | ImplausibleError):
                traceback.print_exception(error)
            _tell(f"{cells[0].id}: {failure.outcome} in {where['phase']}: {failure.cause}")
        errors = _error_fields(getattr(error, "errors", None))
        extra: dict[str, Any] = errors if isinstance(error, WrongResultError) else {}
        if failure.of_host:
            extra["of_host"] = True
        for cell in cells:
            self._failed.add(cell.id)
            self._journal.write(
                protocol.FAILED,
                cell=cell.id,
                **where,
                outcome=failure.outcome,
                cause=failure.cause,
                **extra,
            )
        if lost:
            raise ContextLostError(failure.cause) from None

    def _diagnose(self, error: BaseException) -> tuple[Failure, bool]:
        """What went wrong, and whether the device is lost: it then repeats its error for ever."""
        failure = diagnose(error, self._workload.source)
        late = self._device.trouble()
        if late is None:
            return failure, False
        failure = diagnose(late, self._workload.source).seen_after(failure)
        return failure, self._device.trouble() is not None


def parts_of(visits: Sequence[JobVisit], parts: int) -> list[tuple[JobVisit, ...]]:
    """Visits in parts of whole blocks that follow each other, as many blocks in each as can be."""
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
    seal.mend()  # the first session blamed this on the cell that imports them
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


def _as_expected(reference: Any) -> Tensors:
    result = reference.result if isinstance(reference, Reference) else reference
    return check.as_tensors(result, "the reference")


def _tell(line: str) -> None:
    print(f"runner: {line}", file=sys.stderr)  # noqa: T201 - the orchestrator keeps stderr


def _circumstances(job: Job, device: Device) -> dict[str, Any]:
    return {
        "session": job.session,
        "pid": os.getpid(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "device": device.name,
        "nvtx": ranges.tool_listens(),
        "flush": job.flush,
        "attributes": device.attributes(),
    }


def _place(visit: JobVisit) -> dict[str, int]:
    """Block of a visit, and its arm where that is not 0."""
    return {"block": visit.block} | ({"arm": visit.arm} if visit.arm else {})


def _error_fields(errors: check.Errors | None) -> dict[str, float | None]:
    if errors is None:
        return {"max_abs_error": None, "max_rel_error": None}
    fields = {"max_abs_error": errors.max_abs, "max_rel_error": errors.max_rel}
    return fields if errors.rounding is None else {**fields, protocol.ROUNDING: errors.rounding}


def _outputs_of(launches: Mapping[str, Launch]) -> Tensors:
    """Tensors that launches say they write."""
    declared = (getattr(launch, "outputs", None) for launch in launches.values())
    outputs = [check.as_tensors(value, "`outputs`") for value in declared if value is not None]
    return tuple(chain(*outputs))
