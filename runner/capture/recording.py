"""Recording the operator calls of a program while it runs: `with profiler.capture("folder"):`.

A dispatch mode sees every operator below autograd, those of the backward pass too, as they are run.
"""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import TorchDispatchMode

from profiler.runner.capture.experiment_file import (
    EXPERIMENT_FILE,
    experiment_text,
    gaps_sentence,
    shares_of_time,
)
from profiler.runner.capture.folder import CALLS_FILE, SCHEMA_VERSION, VALUES_FOLDER, write_json
from profiler.runner.capture.kernel_times import KernelTimes, can_wait
from profiler.runner.capture.launches import CompiledGraphs, Launch, seen_by
from profiler.runner.capture.signatures import (
    Arguments,
    Described,
    Key,
    NotReplayableError,
    bound,
    digest,
    key_of,
    overwritten,
    require_plain,
    tensors_in,
    written,
)

NOT_LAUNCHED = "views, sizes and allocations"
"""Calls that no kernel is launched for: they are counted, and no part of a step."""
COLLECTIVES = "collectives"
MADE_OF_OTHERS = "made of other operators"
"""Under `torch.inference_mode` such an operator arrives whole, elsewhere its parts do."""
_COLLECTIVE = ("c10d", "_c10d_functional", "_c10d_functional_autograd", "symm_mem", "_dtensor")
_ALLOCATES = ("aten::empty", "aten::new_empty", "aten::empty_like", "aten::empty_strided")
_MARKS = ("prim", "profiler")
_NONE: Arguments = {}
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
_TIMED = 8
"""Steps without a capture that are timed: one alone waits for its own first launches."""
_SHOWN = 5
"""Operators of most time that are told of."""
_WRITE_EVERY_S = 2.0
_WRITING_SHARE = 50
"""Between two writes there are as many times what the last one took."""


@cache
def kind_of(func: Any) -> str:
    """Why no call of an operator is recorded itself; empty where they are."""
    if not isinstance(func, torch._ops.OpOverload):
        return "higher-order operators"
    if func.namespace in _COLLECTIVE:
        return COLLECTIVES
    name = func.name()  # type: ignore[no-untyped-call]
    if torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"):
        return MADE_OF_OTHERS
    is_allocation = func._schema.name.startswith(_ALLOCATES)
    return NOT_LAUNCHED if func.is_view or func.namespace in _MARKS or is_allocation else ""


def is_random(func: Any, arguments: Arguments) -> bool:
    """Whether a call draws random numbers: an operator with dropout does so unless that is off."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    return bool(arguments.get("dropout_p", arguments.get("p", True)))


def _is_for_host(func: Any) -> bool:
    """Whether an operator gives numbers to the host alone, as `.item()` does."""
    returned = [str(value.type) for value in func._schema.returns]
    return bool(returned) and not any("Tensor" in kind for kind in returned)


def _has_results(func: Any) -> bool:
    """Whether an operator returns anything that is not one of its arguments."""
    return any(value.alias_info is None for value in func._schema.returns)


def call_document(
    func: Any, arguments: Arguments, storages: list[dict[str, Any]]
) -> dict[str, Any]:
    """Entry of `calls.json` for a call of an operator."""
    return {
        "operator": str(func),
        "random": is_random(func, arguments),
        "for_host": _is_for_host(func),
        "written": list(written(func, arguments)),
        "has_results": _has_results(func),
        "by_name": [argument.name for argument in func._schema.arguments if argument.kwarg_only],
        "arguments": arguments,
        "storages": storages,
    }


def launch_document(
    launch: Launch, arguments: Arguments, storages: list[dict[str, Any]]
) -> dict[str, Any]:
    """Entry of `calls.json` for a launch around the dispatcher."""
    return {
        "operator": launch.name,
        "kind": launch.kind,
        "random": False,
        "arguments": arguments,
        "storages": storages,
        **launch.document,
    }


@dataclass(eq=False)
class Call:
    """All calls of one signature."""

    number: int
    made: Any
    """The operator, or the launch around the dispatcher."""
    count: int = 0
    time_ns: int = 0
    described: Described | None = None
    """What its first was called with, until `document` is made of it."""
    digest: str | None = None
    """Hash of what its first call returned and wrote, where values are kept."""
    document: dict[str, Any] | None = None
    left_out: str = ""
    """Why there is no document of it."""

    @property
    def launch(self) -> Launch | None:
        """The launch around the dispatcher; None where an operator was called."""
        return self.made if isinstance(self.made, Launch) else None

    def settle(self, number: int) -> None:
        """Make the document of what was looked at, or say why there is none."""
        described, self.described = self.described, None
        if described is None:
            return
        try:
            arguments, storages = described.settle()
        except NotReplayableError as reason:
            self.left_out = str(reason)
            return
        launch = self.launch
        made = call_document if launch is None else launch_document
        self.document = {"id": number, **made(self.made, arguments, storages)}
        if self.digest is not None:
            self.document["digest"] = self.digest


class _Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """Counts and times the calls of each signature, and describes the first of each."""

    def __init__(self, values: Path | None, write: Callable[[], object]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._values = values
        self._write = write
        self._write_at = time.monotonic() + _WRITE_EVERY_S
        self.calls: dict[Key, Call] = {}
        self.left_out: dict[str, Counter[Any]] = defaultdict(Counter)
        """Operators whose calls are not recorded, by why."""
        self._unsettled: list[Call] = []
        """What was looked at, and is described when it is written."""
        self._settled = 0
        """Calls with a document: the number of the next one."""
        self.device = "cpu"
        self.kernels = KernelTimes()
        self.graphs = CompiledGraphs()
        self._is_inside = False
        """Whether a call is being made: what it calls and launches is a part of it."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let torch.compile compile, which it does under no other mode."""
        return True

    def clear(self) -> None:
        """Forget all calls."""
        self.calls.clear()
        self._settled = 0
        self.kernels.clear()
        self.left_out.clear()
        self._unsettled.clear()
        for file in () if self._values is None else self._values.iterdir():
            file.unlink()  # that many are not written over where the first step had more calls

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Arguments | None = None
    ) -> Any:
        if not _PLAIN.issuperset(types):  # a class that makes other calls of it, seen next
            return NotImplemented
        kwargs = kwargs or {}
        if self._is_inside or self.graphs.compiling:
            return func(*args, **kwargs)
        kind = kind_of(func)
        if kind == MADE_OF_OTHERS:
            with self:
                return func.decompose(*args, **kwargs)
        try:
            key = None if kind else key_of(func, args, kwargs)
        except NotReplayableError as reason:
            kind, key = str(reason), None
        if key is None:
            self.left_out[kind][func] += 1
            return func(*args, **kwargs)
        call = self.calls.get(key)
        if call is not None:
            return self._timed(call, func, args, kwargs)
        return self._first(key, args, kwargs)

    def _timed(
        self, call: Call, make: Callable[..., Any], args: Any = (), kwargs: Arguments = _NONE
    ) -> Any:
        """Make a call, count it, and add what it takes."""
        call.count += 1
        self._is_inside = True
        begin = time.perf_counter_ns()
        try:
            with self.kernels.of_call(call.number):
                return make(*args, **kwargs)
        finally:
            call.time_ns += time.perf_counter_ns() - begin
            self._is_inside = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """While inside, nothing is recorded."""
        was_inside, self._is_inside = self._is_inside, True
        try:
            yield
        finally:
            self._is_inside = was_inside

    def launched(self, describe: Callable[[], Launch], make: Callable[[], Any]) -> Any:
        """Make a launch that goes around the dispatcher, as a call of its signature."""
        if self._is_inside or self.graphs.compiling:
            return make()
        with self.paused():
            launch = describe()
        call = self.calls.get(launch.key)
        if call is not None:
            return self._timed(call, make)
        with self.paused():
            call = self.calls[launch.key] = Call(len(self.calls), launch, left_out=launch.left_out)
            if not call.left_out:
                keeps_values = self._values is not None
                call.described = Described(launch.arguments, text=keeps_values, values=keeps_values)
        result = self._timed(call, make)
        with self.paused():
            self._keep(call)
        return result

    def _first(self, key: Key, args: Any, kwargs: Arguments) -> Any:
        """Make the first call of a signature, and keep what it was called with."""
        func, arguments = key[0], bound(key[0], args, kwargs)
        call = self.calls[key] = Call(len(self.calls), func)
        keeps_values = self._values is not None
        described = call.described = Described(
            arguments,
            text=keeps_values or func.namespace == "aten",
            values=keeps_values,
            overwritten=overwritten(func),
        )
        result = self._timed(call, func, args, kwargs)
        call.left_out = _left_out_by(func, described, result)
        if keeps_values and not call.left_out:
            new = result if _has_results(func) else None
            call.digest = digest([new, *written(func, arguments).values()])
        self._keep(call)
        return result

    def _keep(self, call: Call) -> None:
        """Keep what the first call of a signature was called with."""
        if call.described is None or call.left_out:
            call.described = None
            return
        self._unsettled.append(call)
        if "cuda" in call.described.devices:
            self.device = "cuda"
        if self._values is not None:  # those of all calls would be too many to hold
            values = call.described.values
            self.settle()
            if call.document is not None:
                torch.save(values, self._values / f"{call.document['id']}.pt")
        self.write_sometimes()

    def settle(self) -> None:
        """Make documents of the calls that were looked at."""
        unsettled, self._unsettled = self._unsettled, []
        with self.paused():
            for call in unsettled:
                call.settle(self._settled)
                self._settled += call.document is not None

    def write_sometimes(self) -> None:
        """Write what is known so far, but not so often that it would be felt."""
        begin = time.monotonic()
        if begin >= self._write_at:
            self._write()
            end = time.monotonic()
            self._write_at = end + max(_WRITE_EVERY_S, _WRITING_SHARE * (end - begin))


def _with_tf32() -> list[str]:
    """What multiplies float32 on a GPU as TF32: it is no part of a call, but of its time."""
    found: dict[str, bool] = {}
    with suppress(AttributeError, RuntimeError):  # a program may set it by names old and new
        found["matmul"] = torch.backends.cuda.matmul.fp32_precision == "tf32"
        found["cudnn"] = torch.backends.cudnn.allow_tf32
    return [name for name, is_so in found.items() if is_so]


def _left_out_by(func: Any, described: Described, result: Any) -> str:
    """Why a call is left out by what it returned: all of it lies in storages of its arguments."""
    results = list(tensors_in(result))
    try:
        for tensor in results:
            require_plain(tensor)
    except NotReplayableError as reason:
        return str(reason)
    if not results or func._schema.is_mutable:
        return ""
    is_view = all(tensor.untyped_storage()._cdata in described.given for tensor in results)
    return NOT_LAUNCHED if is_view else ""


@dataclass(eq=False)
class Steps:
    """Which steps are recorded: all, or those from `first` on that come before `end`."""

    first: int = 0
    end: int | None = None
    ended: int = 0
    """Steps that have ended."""
    recorded: int = 0
    """Of the steps that count, those that were recorded."""
    uncaptured_ns: int | None = None
    """Mean of the last steps before recording began, `_TIMED` at most."""
    leader: Any = None
    """The optimizer that stepped first: with its step ends a step of the program."""
    began_ns: int = 0
    """When the steps began that are timed."""

    @property
    def timed_from(self) -> int:
        """Steps that have ended when those begin; the first is recorded, and takes longer."""
        return max(1, self.first - _TIMED)


class capture(AbstractContextManager["capture"]):  # noqa: N801 - called like a function
    """Record the operator calls inside into a folder that is an experiment.

    `steps`: a pair, as a slice has it: (10, 12) records the steps 10 and 11. A step ends with
    that of the optimizer that steps first, or with `step()`. Without steps it is all that runs
    inside, which is also what is recorded where no step ends; where the first of `steps` is never
    reached, it is the step 0. `values`: whether the values of the inputs are kept.

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
        if self.folder.exists() and any(self.folder.iterdir()):
            raise FileExistsError(f"{self.folder} exists and is not empty: name another folder")
        if steps is not None and not 0 <= steps[0] < steps[1]:
            raise ValueError(f"steps {steps[0]}:{steps[1]} are none")
        self._steps = Steps(*(steps or (0, None)))
        self._began = False
        """Whether the steps that were asked for have begun."""
        self._complete = False
        self._recording = ExitStack()
        self._watching = ExitStack()
        values_folder = self.folder / VALUES_FOLDER if values else None
        (values_folder or self.folder).mkdir(parents=True, exist_ok=True)
        self._mode = _Mode(values_folder, partial(self._write, complete=False))

    def __enter__(self) -> Self:
        hook = register_optimizer_step_post_hook(self._optimizer_stepped)
        self._watching.callback(hook.remove)
        self._watching.enter_context(self._mode.graphs.watched())
        self._began = self._steps.first == 0
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

    @property
    def has_optimizer(self) -> bool:
        """Whether an optimizer has stepped, and so ends the steps."""
        return self._steps.leader is not None

    def step(self) -> None:
        """End a step of a program that has no optimizer."""
        if self._complete:
            return
        steps = self._steps
        steps.ended += 1
        if self._began:
            steps.recorded += 1
            self._mode.write_sometimes()
        else:
            self._time_uncaptured()
        if steps.ended == 1 and not self._began:
            self._recording.close()
        if steps.ended == steps.first:
            self._began = True
            self._mode.clear()
            self._resume()
        elif steps.ended == steps.end:
            self._finish()
        if steps.ended == steps.timed_from:
            steps.began_ns = time.perf_counter_ns()

    def _time_uncaptured(self) -> None:
        """Time the steps before the first that is captured, to their end on a GPU."""
        steps = self._steps
        if steps.ended in (steps.timed_from, steps.first) and can_wait():
            torch.cuda.synchronize()
        if steps.ended == steps.first > steps.timed_from:
            elapsed = time.perf_counter_ns() - steps.began_ns
            steps.uncaptured_ns = elapsed // (steps.first - steps.timed_from)

    def _optimizer_stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        del args, kwargs
        if self._steps.leader is None:
            self._steps.leader = optimizer
        if self._steps.leader is optimizer:
            self.step()

    def _resume(self) -> None:
        # Else the backward pass of a GPU runs in a thread of its own, and its calls in any order.
        self._recording.enter_context(torch.autograd.set_multithreading_enabled(False))
        mode = self._mode
        self._recording.enter_context(mode.kernels)
        self._recording.enter_context(seen_by(mode.launched, mode.graphs, mode.paused))
        self._recording.enter_context(mode)

    def _finish(self) -> None:
        if self._complete:
            return
        self._recording.close()
        self._complete = True
        self._write_all()

    def _write_all(self) -> None:
        document = self._write(complete=True)
        count = sum(call["count"] for call in document["calls"])
        signatures = len(document["calls"])
        lines = [f"captured {count} calls of {signatures} signatures into {self.folder}"]
        lines += filter(None, [gaps_sentence(document)])
        shares = shares_of_time(document)
        for name, (share, is_experiment) in list(shares.items())[:_SHOWN]:
            why = "" if is_experiment else ", in no experiment"
            lines.append(f"  {100 * share:3.0f} % of the time: {name}{why}")
        first = next((name for name, (_, is_experiment) in shares.items() if is_experiment), None)
        if first is not None:
            on_cpu = " --timer" if document["device"] == "cpu" else ""
            lines.append(f"  next: profiler run {self.folder / EXPERIMENT_FILE}:{first}{on_cpu}")
        sys.stderr.write("profiler: " + "\n".join(lines) + "\n")

    def _documents(self) -> list[dict[str, Any]]:
        """Every call with how often and how long: of kernels, where they were timed."""
        calls = [call for call in self._mode.calls.values() if call.document is not None]
        return [{**(call.document or {}), **self._taken(call)} for call in calls]

    def _taken(self, call: Call) -> dict[str, int]:
        kernels, number = self._mode.kernels, call.number
        if not kernels.ns:
            return {"count": call.count, "time_ns": call.time_ns}
        taken = {"time_ns": kernels.ns[number], "kernels": kernels.launches[number]}
        return {"count": call.count, **taken}

    def _launches(self) -> list[dict[str, Any]]:
        """Launches around the dispatcher that are in no experiment, those of most time first."""
        found: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        for call in self._mode.calls.values():
            if call.launch is not None and call.left_out:
                found[call.launch.kind, call.launch.name, call.left_out] += self._taken(call)
        rows = [
            {"kind": kind, "name": name, "left_out": why, **taken}
            for (kind, name, why), taken in found.items()
        ]
        return sorted(rows, key=lambda row: -row["time_ns"])

    def _left_out(self) -> Mapping[str, Counter[str]]:
        """Calls that are not recorded, by why and operator."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for reason, counts in self._mode.left_out.items():
            found[reason] += Counter({str(func): count for func, count in counts.items()})
        for call in self._mode.calls.values():
            if call.left_out and call.launch is None:
                found[call.left_out][str(call.made)] += call.count
        return found

    def _write(self, *, complete: bool) -> dict[str, Any]:
        steps = self._steps
        self._mode.settle()
        document = {
            "schema_version": SCHEMA_VERSION,
            "complete": complete,
            "torch": str(torch.__version__),
            "device": self._mode.device,
            "threads": torch.get_num_threads(),
            "tf32": _with_tf32(),
            "first_step": steps.first if self._began else 0,
            "steps": max(1, steps.recorded),
            "has_steps": steps.ended > 0,
            "uncaptured_step_ns": steps.uncaptured_ns if self._began else None,
            "left_out": {
                reason: dict(sorted(counts.items()))
                for reason, counts in sorted(self._left_out().items())
            },
            "launches": self._launches(),
            "calls": self._documents(),
        }
        write_json(self.folder / CALLS_FILE, document)
        (self.folder / EXPERIMENT_FILE).write_text(experiment_text(document), encoding="utf-8")
        return document
