"""Recording the operator calls of a program while it runs: `with profiler.capture("folder"):`."""

from __future__ import annotations

import inspect
import os
import shlex
import sys
import threading
import time
import weakref
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from profiler.runner.capture.dispatched_calls import Call, CallRecorder, RecordedCalls
from profiler.runner.capture.experiment_file import (
    EXPERIMENT_FILE,
    experiment_text,
    gaps_sentence,
    row_name,
    shares_of_time,
)
from profiler.runner.capture.folder import CALLS_FILE, SCHEMA_VERSION, VALUES_FOLDER, write_json
from profiler.runner.capture.kernel_times import Waits, can_wait, waits_of_body
from profiler.runner.capture.launches import recorded_launches
from profiler.runner.capture.signatures import plain_json
from profiler.runner.phases import CellSettings

_TIMED = 8
"""Steps without a capture that are timed: one alone waits for its own first launches."""
_NOT_OF_CALLS = ("folder", "grad_enabled")
"""Settings that change no call of the dispatcher."""
_SHOWN = 5
"""Number of operators with most time that are printed."""


@dataclass(eq=False)
class Steps:
    """Steps that are recorded: all steps, or the steps from `first` on that come before `end`.

    Of the steps before `first`, step 0 is recorded for a program that has no more. In the last of
    them, signatures are described, so that the recorded steps need only count; in the step before
    it, the waits of the GPU are found; the steps before that are timed.
    """

    first: int = 0
    end: int | None = None
    ended: int = 0
    """Steps that have ended."""
    recorded: int = 0
    """Number of recorded steps from `first` on."""
    recorded_from: int = 0
    """The first step of the current record."""
    uncaptured_ns: int | None = None
    """Mean of the last steps before recording began, `_TIMED` at most."""
    leader: Any = None
    """The optimizer that stepped first: its step ends a step of the program."""
    began_ns: int = 0
    """Begin of the timed steps, in nanoseconds."""

    @property
    def described_in(self) -> int | None:
        """The step in which signatures are described; None where there is no step to spare.

        Not step 0, in which the state of an optimizer is zeros.
        """
        return self.first - 1 if self.first > 2 else None

    @property
    def profiled(self) -> int | None:
        """The step that is profiled and not captured; None where there is no step to spare."""
        return self.first - 2 if self.first > 3 else None

    @property
    def timed(self) -> range:
        """Steps that are timed, without step 0, which is recorded, and takes longer."""
        end = next(filter(None, (self.profiled, self.described_in)), self.first)
        return range(max(1, end - _TIMED), end)


class capture(AbstractContextManager["capture"]):  # noqa: N801 - called like a function
    """Record the operator calls inside into a folder that is an experiment.

    `steps`: a pair, as in a slice: (10, 12) records the steps 10 and 11. A step ends with the step
    of the optimizer that steps first, or with `step()`. Without steps all calls inside are
    recorded, also where no step ends; where the first of `steps` is never reached, step 0 is.
    `values`: whether the values of the inputs are kept.

    Raises FileExistsError where the folder exists and is not empty.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        steps: tuple[int, int] | None = None,
        values: bool = False,
    ) -> None:
        self.folder = Path(folder)
        self._place = self.folder.absolute()
        """The folder, wherever the program changes to."""
        if self._place.exists() and any(self._place.iterdir()):
            raise FileExistsError(f"{self.folder} exists and is not empty: name another folder")
        if steps is not None and not 0 <= steps[0] < steps[1]:
            raise ValueError(f"steps {steps[0]}:{steps[1]} are none")
        self._steps = Steps(*(steps or (0, None)))
        self._before: tuple[int, RecordedCalls] | None = None
        """First step of the earlier record, and its calls."""
        self._complete = False
        self._uncaptured: Waits | None = None
        """Waits of a step that was not captured; None where there is no GPU."""
        self._recording = ExitStack()
        self._dispatching = ExitStack()
        """Holds the mode, while it is on."""
        self._stays_on = False
        """Whether the mode is on between recorded steps, too."""
        self._watching = ExitStack()
        values_folder = self._place / VALUES_FOLDER if values else None
        (values_folder or self._place).mkdir(parents=True, exist_ok=True)
        self._mode = CallRecorder(values_folder, partial(self._write, complete=False))
        self._thread = threading.get_ident()
        """The thread whose calls torch shows to the mode."""
        os.register_at_fork(after_in_child=partial(_leave_to_parent, weakref.ref(self)))

    def __enter__(self) -> Self:
        # Where a program compiles the steps of its optimizer, dynamo would trace the hook, too.
        stepped = torch.compiler.disable(self._optimizer_stepped)  # type: ignore[no-untyped-call]
        self._watching.callback(register_optimizer_step_post_hook(stepped).remove)
        self._watching.enter_context(self._mode.graphs.watched())
        self._write(complete=False)
        self._resume()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._watching.close()
        self._finish()
        self._dispatching.close()

    @property
    def has_optimizer(self) -> bool:
        """Whether an optimizer has stepped, and so ends the steps."""
        return self._steps.leader is not None

    def step(self) -> None:
        """End a step of a program that has no optimizer."""
        if self._complete or threading.get_ident() != self._thread:
            return
        steps = self._steps
        steps.ended += 1
        if steps.ended > steps.first:
            steps.recorded += 1
            self._mode.write_sometimes()
        if steps.ended == 1 <= steps.first:
            self._pause()
            self._mode.settle()
        self._time_uncaptured()
        if steps.ended == steps.profiled:
            self._recording.enter_context(waits_of_body(partial(setattr, self, "_uncaptured")))
        elif steps.ended in (steps.described_in, steps.first):
            self._record_from(steps.ended)
        elif steps.ended == steps.end:
            self._finish()

    def _record_from(self, step: int) -> None:
        """Record a step and the following steps."""
        before = self._steps.recorded_from
        is_described = before == self._steps.described_in
        self._before = before, self._mode.restart(is_described=is_described)
        self._steps.recorded_from = step
        if not is_described:
            self._pause()
            self._resume()

    def _time_uncaptured(self) -> None:
        """Time the steps before the first that is captured, to their end on a GPU."""
        steps, timed = self._steps, self._steps.timed
        if not timed or steps.ended not in (timed.start, timed.stop):
            return
        if can_wait():
            torch.cuda.synchronize()
        if steps.ended == timed.stop and not self._stays_on:
            steps.uncaptured_ns = (time.perf_counter_ns() - steps.began_ns) // len(timed)
        steps.began_ns = time.perf_counter_ns()

    def _optimizer_stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        del args, kwargs
        if threading.get_ident() != self._thread:
            return
        if self._steps.leader is None:
            self._steps.leader = optimizer
            # When code under torch.compile returns, torch restores whether there is a mode.
            self._stays_on = _runs_compiled()
        if self._steps.leader is optimizer:
            self.step()

    def _resume(self) -> None:
        # Else the backward pass of a GPU runs in a thread of its own, and its calls in any order.
        self._recording.enter_context(torch.autograd.set_multithreading_enabled(False))
        mode = self._mode
        self._recording.enter_context(mode.kernels.timed())
        self._recording.enter_context(recorded_launches(mode.make_launch, mode.graphs, mode.paused))
        if not self._stays_on:
            self._dispatching.enter_context(mode)
        mode.is_off = False

    def _pause(self) -> None:
        self._mode.is_off = True
        if not self._stays_on:
            self._dispatching.close()
        self._recording.close()

    def _finish(self) -> None:
        if self._complete:
            return
        self._pause()
        self._complete = True
        steps = self._steps
        if self._before is not None and steps.ended == steps.recorded_from:  # no whole step since
            steps.recorded_from, self._mode.recorded = self._before
        self._mode.number_documents()
        self._write_all()

    def _write_all(self) -> None:
        document = self._write(complete=True)
        count = sum(call["count"] for call in document["calls"])
        signatures = len(document["calls"])
        lines = [f"captured {count} calls of {signatures} signatures into {self.folder}"]
        if not any(document[key] for key in ("calls", "launches", "left_out")):
            lines = ["captured nothing: the thread of the capture called no operator"]
            self._remove()
        steps = self._steps
        if steps.ended and steps.recorded_from < steps.first:
            lines.append(f"  of its step {steps.recorded_from}: its step {steps.first} never ended")
        lines += filter(None, [gaps_sentence(document)])
        shares = shares_of_time(document)
        for name, (share, is_experiment) in list(shares.items())[:_SHOWN]:
            remark = "" if is_experiment else ", in no experiment"
            lines.append(f"  {100 * share:3.0f} % of the time: {name}{remark}")
        first = next((name for name, (_, is_experiment) in shares.items() if is_experiment), None)
        if first is not None:
            on_cpu = ["--timer"] if document["device"] == "cpu" else []
            experiment = f"{self.folder / EXPERIMENT_FILE}:{first}"
            lines.append(f"  next: {shlex.join(['profiler', 'run', experiment, *on_cpu])}")
        else:
            lines.append("  what other threads and processes call is not captured")
        sys.stderr.write("profiler: " + "\n".join(lines) + "\n")

    def _remove(self) -> None:
        """Remove what was written, so that the same command may be given again."""
        for file in (self._place / CALLS_FILE, self._place / EXPERIMENT_FILE):
            file.unlink(missing_ok=True)
        for folder in (self._place / VALUES_FOLDER, self._place):
            with suppress(OSError):
                folder.rmdir()

    def _cost_of(self, call: Call) -> dict[str, int]:
        kernels, number = self._mode.kernels, call.number
        if not kernels.ns:
            return {"count": call.count, "time_ns": call.time_ns}
        cost = {"time_ns": kernels.ns[number], "kernels": kernels.launches[number]}
        return {"count": call.count, **cost}

    def _launches(self) -> list[dict[str, Any]]:
        """Launches around the dispatcher that are in no experiment, longest total time first."""
        cost_by_launch: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        for call in self._mode.recorded.made_calls():
            if call.launch is not None and call.left_out:
                cost_by_launch[call.launch.kind, call.launch.name, call.left_out] += self._cost_of(
                    call
                )
        rows = [
            {"kind": kind, "name": name, "left_out": left_out, **cost}
            for (kind, name, left_out), cost in cost_by_launch.items()
        ]
        return sorted(rows, key=lambda row: -row["time_ns"])

    def _waits(self) -> dict[str, Any] | None:
        """Nanoseconds of a GPU's waits in a step, by the call that ended them; None: unknown."""
        waits = self._uncaptured
        if waits is None or self._steps.recorded_from == 0:
            return None
        calls = {call.number: _call_name(call) for call in self._mode.recorded.made_calls()}
        by_call = waits.by_call(self._mode.kernels.order, calls)
        return {"span_ns": waits.span_ns, "before_ns": dict(by_call.most_common())}

    def _left_out(self) -> Mapping[str, Counter[str]]:
        """Counts of calls that are not recorded, by reason and operator."""
        counts_by_reason: dict[str, Counter[str]] = defaultdict(Counter)
        for reason, counts in self._mode.recorded.left_out.items():
            counts_by_reason[reason] += Counter(
                {str(self._mode.operators[func].func): count for func, count in counts.items()}
            )
        for call in self._mode.recorded.made_calls():
            if call.left_out and call.launch is None:
                counts_by_reason[call.left_out][str(call.target)] += call.count
        return counts_by_reason

    def _write(self, *, complete: bool) -> dict[str, Any]:
        steps = self._steps
        self._mode.settle()
        document = {
            "schema_version": SCHEMA_VERSION,
            "complete": complete,
            "torch": str(torch.__version__),
            "device": self._mode.device,
            "settings": _settings(),
            "first_step": steps.recorded_from,
            "steps": max(1, steps.recorded),
            "has_steps": steps.ended > 0,
            "uncaptured_step_ns": steps.uncaptured_ns,
            "waits": self._waits(),
            "left_out": {
                reason: dict(sorted(counts.items()))
                for reason, counts in sorted(self._left_out().items())
            },
            "launches": self._launches(),
            "calls": [
                {**call.document, **self._cost_of(call)}
                for call in self._mode.recorded.made_calls()
                if call.document is not None
            ],
        }
        write_json(self._place / CALLS_FILE, document)
        (self._place / EXPERIMENT_FILE).write_text(experiment_text(document), encoding="utf-8")
        return document


def _leave_to_parent(reference: weakref.ref[capture]) -> None:
    """Record nothing in a forked process: it has the mode, and would write into the same folder."""
    recording = reference()
    if recording is not None:
        recording._mode.is_off = recording._complete = True


def _runs_compiled() -> bool:
    """Whether the caller runs under torch.compile, as a compiled optimizer does."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "compile_wrapper":
            return True
        frame = frame.f_back
    return False


def _settings() -> dict[str, Any]:
    """Settings of torch by name: no part of a call, but of its time and its results."""
    values = CellSettings().read_values()
    return {name: plain_json(value) for name, value in values.items() if name not in _NOT_OF_CALLS}


def _call_name(call: Call) -> str:
    """Name of a call, whether it is in an experiment or not."""
    if call.document is not None:
        return row_name(call.document)
    return str(call.target) if call.launch is None else f"{call.launch.kind} {call.launch.name}"
