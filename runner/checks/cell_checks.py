"""Whether the results of cells are right: before they are measured, and once more afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch

from profiler.kernels.references import Reference
from profiler.runner import protocol
from profiler.runner.arrays import as_tensor, is_array, leaves
from profiler.runner.checks import check
from profiler.runner.checks.check import Tensors
from profiler.runner.checks.kept_inputs import KeptInputs
from profiler.runner.checks.renewal import Renewal, Sample, other_seed, require_right, require_same
from profiler.runner.checks.rounding import Rounding, rounding_in
from profiler.runner.checks.sensitivity import why_check_tells_little, why_result_tells_little
from profiler.runner.device import Device
from profiler.runner.experiment import FUNCTION
from profiler.runner.phases import PhaseFailedError, Phases, error_fields
from profiler.runner.protocol import Job, JobCell
from profiler.runner.timing import Launch, restore
from profiler.runner.workload import Workload


class CellChecks:
    """Checks of the cells of a session, one problem after the other."""

    def __init__(self, job: Job, workload: Workload, device: Device, phases: Phases) -> None:
        self._job, self._workload, self._device, self._phases = job, workload, device, phases
        self._rounding: check.Allowed | None = None
        """Absolute error that rounding explains in outputs of this problem."""
        self._blind_checks: dict[object, str] = {}
        """By function of variants: why their own check tells little at this problem."""

    def begin_problem(self) -> None:
        """Forget the rounding of the problem before, and what was found of checks."""
        self._rounding = None
        self._blind_checks.clear()

    def release_tensors(self) -> None:
        """Keep numbers of the rounding in place of tensors, to free their memory."""
        if isinstance(self._rounding, Rounding):
            self._rounding = self._rounding.largest_errors()

    def copies(
        self, cells: Sequence[JobCell], inputs: Any, expected: Tensors | None = None
    ) -> KeptInputs:
        """Copies of the inputs, to find out whether a checked launch writes them.

        `expected`: the right result, which no launch may write either.
        """
        named_inputs = self._workload.named_inputs
        are_watched = named_inputs is not None and any(cell.check for cell in cells)
        watched_inputs = named_inputs(inputs) if named_inputs is not None and are_watched else {}
        return KeptInputs(watched_inputs, expected or ())

    def reference(self, cells: Sequence[JobCell], inputs: Any) -> Tensors | None:
        """Right result of a problem; None where each cell has its own check, or no cell is checked.

        Raises PhaseFailedError.
        """
        make_reference = self._workload.reference
        own_check_of = self._workload.own_check_of
        compared = [cell for cell in cells if cell.check and not own_check_of(cell, inputs)]
        if make_reference is None or not compared:
            return None
        with self._phases.journalled(protocol.REFERENCE, cells) as findings:
            kept_inputs = self.copies(cells, inputs)
            reference = make_reference(dict(cells[0].problem_params), inputs)
            if isinstance(reference, Reference):
                self._rounding = rounding_in(reference)
                if reference.doubt:
                    findings[protocol.OWN_TYPES] = reference.doubt
            expected = kept_inputs.copied_if_shared(_expected_tensors(reference))
            if not cells[0].on_zeros and (value := check.common_value(expected)) is not None:
                findings[protocol.COMMON_VALUE] = value
            kept_inputs.restore()
        return expected

    def check_result(  # noqa: PLR0913 - of what, and against what
        self,
        cell: JobCell,
        launch: Launch,
        inputs: Any,
        reference: Tensors | None,
        kept_inputs: KeptInputs,
        *,
        first_launch: Callable[[Launch], Any],
    ) -> None:
        """Check the result of a launch; raises PhaseFailedError.

        `first_launch` makes a launch that may count as a warm-up.
        """
        with self._phases.journalled(protocol.CHECK, [cell]) as findings:
            outputs = getattr(launch, "outputs", None)
            kept_inputs.forget(
                check.as_tensors(outputs, "`outputs`") if outputs is not None else ()
            )
            is_ready = cell.library and outputs is not None and not hasattr(launch, "restore")
            try:
                result = check.poisoned_result(launch, first_launch if is_ready else None)
                got = check.as_tensors(result, "the result of the launch")
                self._device.settle()  # a launch may have used a stream of its own
                check.refuse_overrun(launch)
                errors, why_little = self._compare(cell, result, got, inputs, reference)
            except Exception:
                # Written inputs explain a wrong result, and must not be blamed on other cells.
                # After an error of the device nothing can be compared: RuntimeError.
                with suppress(RuntimeError):
                    restore(launch)
                    kept_inputs.refuse_written()
                raise
            restore(launch)
            kept_inputs.refuse_written()
            findings.update(error_fields(errors))
            if why_little and not cell.on_zeros:  # where the right result is meant to be one value
                findings[protocol.TELLS_LITTLE] = why_little
            findings["result_bytes"] = float(sum(tensor.nbytes for tensor in got))
            if not hasattr(launch, "restore"):
                findings["written_bytes"] = _written_bytes(result)
            findings["result_dtypes"] = [str(t.dtype).removeprefix("torch.") for t in got]

    def _compare(
        self, cell: JobCell, result: Any, got: Tensors, inputs: Any, reference: Tensors | None
    ) -> tuple[check.Errors | None, str]:
        """Errors of a right result, None by a check without errors; raises for a wrong one.

        And why the comparison tells little; empty where it may tell enough.
        """
        own_check = self._workload.own_check_of(cell, inputs)
        if own_check is not None:
            errors = own_check(result)
            # Variants of one function share the answer, which may take long.
            function = dict(cell.variant_params).get(FUNCTION, cell.variant)
            if function not in self._blind_checks:
                self._blind_checks[function] = why_check_tells_little(own_check, result, got)
            return errors, self._blind_checks[function]
        expected, tolerances = self._workload.expected_of(cell, inputs, reference)
        is_own_reference = self._workload.is_own_reference
        try:
            errors = check.compare(
                got,
                expected,
                *(cell.tolerances, self._job.tolerances, tolerances),
                own_reference=is_own_reference is not None
                and is_own_reference(dict(cell.variant_params)),
                rounding=self._rounding,
            )
        except check.WrongResultError as error:
            order = check.order_of_keys(result)
            if not order:
                raise
            raise check.WrongResultError(f"{error}{order}", error.errors) from error
        return errors, why_result_tells_little(expected)

    # ---- once more, on new inputs ----

    def recheck_cells(
        self, cells: Sequence[JobCell], launches: Mapping[str, Launch], inputs: Any
    ) -> None:
        """Check the cells that were checked before once more, on inputs overwritten in place.

        The right result is made after all launches, so that none can copy it.
        """
        checked = [cell for cell in cells if cell.check and cell.recheck]
        if not checked:
            return
        with self._phases.not_rechecked(checked):
            renewal = self._renewal(checked[0], inputs)
            samples = self._relaunch_cells(checked, launches, renewal)
            relaunched_cells = [cell for cell in checked if cell.id in samples]
            reference = self._new_reference(relaunched_cells, renewal)
            for cell in relaunched_cells:
                with self._phases.not_rechecked([cell]), suppress(PhaseFailedError):
                    self._recheck_cell(cell, samples[cell.id], renewal, reference)

    def _renewal(self, cell: JobCell, inputs: Any) -> Renewal:
        seed = other_seed(self._job.seed)
        torch.manual_seed(seed)
        other_inputs = self._workload.other_inputs_of(cell, inputs, self._device.torch_device, seed)
        return Renewal(inputs, other_inputs, (self._job.seed, seed))

    def _relaunch_cells(
        self, cells: Sequence[JobCell], launches: Mapping[str, Launch], renewal: Renewal
    ) -> dict[str, tuple[Sample, ...]]:
        """Results of the cells on the new inputs, by cell id."""
        samples: dict[str, tuple[Sample, ...]] = {}
        for cell in cells:
            with (
                suppress(PhaseFailedError),
                self._phases.journalled(protocol.RELAUNCH, [cell]),
                self._phases.not_rechecked([cell], memory_only=True),
            ):
                launch = launches[cell.id]
                own_check = self._workload.own_check_of(cell, renewal.other_inputs)
                if own_check is None:
                    samples[cell.id] = renewal.sample(launch, self._device)
                else:
                    require_right(own_check, renewal.results(launch, self._device))
        return samples

    def _new_reference(self, cells: Sequence[JobCell], renewal: Renewal) -> Tensors | None:
        if self._workload.reference is None or not cells:
            return None
        with self._phases.settings.in_force(None):
            result = self._workload.reference(dict(cells[0].problem_params), renewal.other_inputs)
        return _expected_tensors(result)

    def _recheck_cell(
        self,
        cell: JobCell,
        samples: tuple[Sample, ...],
        renewal: Renewal,
        reference: Tensors | None,
    ) -> None:
        expected, tolerances = self._workload.expected_of(cell, renewal.other_inputs, reference)
        with self._phases.journalled(protocol.RECHECK, [cell]):
            layers = (cell.tolerances, self._job.tolerances, tolerances)
            largest = tuple(map(check.largest_magnitude, expected))
            right = renewal.take(expected)
            require_same(samples, right, *layers, rounding=self._rounding, largest=largest)


def _expected_tensors(reference: Any) -> Tensors:
    result = reference.result if isinstance(reference, Reference) else reference
    return check.as_tensors(result, "the reference")


def _written_bytes(result: Any) -> float:
    """Bytes of a result that its launch wrote: a view counts at most what it is a view of, once.

    What a launch allocates holds poison before it, and declared outputs NaN. Sparse arrays, whose
    memory is elsewhere, are left out.
    """
    tensors = [as_tensor(array) for array in leaves(result) if is_array(array)]
    by_storage = {t.untyped_storage().data_ptr(): t for t in tensors if t.layout == torch.strided}
    return float(sum(min(t.nbytes, t.untyped_storage().nbytes()) for t in by_storage.values()))
