"""Functions of an experiment and of a candidate, each side in a process of its own.

The launch that is timed is the launch that is checked: each has new inputs, of a seed that only
this process knows, and its result is compared when the clock has stopped.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from profiler.runner.arguments import Arguments
from profiler.runner.arrays import with_leaves
from profiler.runner.checks import check
from profiler.runner.checks.check import (
    Allowed,
    Errors,
    Tensors,
    WrongResultError,
    as_tensors,
    is_whole,
)
from profiler.runner.checks.renewal import NotRenewableError
from profiler.runner.checks.rounding import Rounding, rounding_of
from profiler.runner.experiment import FUNCTION, Experiment
from profiler.runner.functions import FunctionWorkload
from profiler.runner.protocol import Tolerance
from profiler.runner.referee.exchange import SharedMemory, as_message, places_for
from profiler.runner.referee.party import Party
from profiler.runner.seal import ImplausibleError
from profiler.runner.variant_options import VariantOptions

Parameters = dict[str, Any]
Tolerances = Mapping[str, Tolerance]

_SAME = 1e-6
"""Of the largest element: less is no difference between right results."""
_KEPT_ROUNDS = 4
"""Number of rounds that are kept, so that both sides see the same rounds where possible."""
_MOST_EQUAL = 16
"""Rounds whose right results may all be the same by chance, as of the place of a maximum."""


@dataclass(frozen=True, eq=False)
class Round:
    """Inputs of one launch of each side, and the right result."""

    number: int
    inputs: Arguments
    tensors: Tensors
    """All tensors of the inputs, and then of `outputs`."""
    expected: Tensors | None = None
    """None where the experiment has its own check."""
    rounding: Allowed | None = None
    """Absolute error that rounding explains in the results, found without further references."""
    exact_rounding: Allowed | None = None
    """The same for a first launch: by element in bfloat16, and of whole numbers."""


class Rounds:
    """Rounds of one problem, made as they are needed."""

    def __init__(
        self, functions: FunctionWorkload, problem: Parameters, device: torch.device
    ) -> None:
        self._functions, self._problem, self.device = functions, problem, device
        self.like = first = self._make_round(0)
        self._rounds: deque[Round] = deque([first], maxlen=_KEPT_ROUNDS)
        self._require_other_rounds(first)
        own_result = functions.own_result(problem, first.inputs)
        self.results = tuple(
            torch.empty_like(tensor, device="meta")
            for tensor in as_tensors(own_result, "the result")
        )
        """Results of the baseline without their values: shapes and types."""
        self._form = with_leaves(own_result, iter(self.results))
        """These results in the baseline's containers, which the experiment's own check reads."""

    def round_after(self, number: int) -> Round:
        """The oldest kept round with a larger number, else a new round."""
        for kept_round in self._rounds:
            if kept_round.number > number:
                return kept_round
        self._rounds.append(self._make_round(self._rounds[-1].number + 1))
        return self._rounds[-1]

    def check(self, played: Round, results: Tensors) -> None:
        """Raise WrongResultError where the experiment's own check refuses results."""
        own_check = self._functions.check_of(self._problem, played.inputs)
        if own_check is not None:
            own_check(with_leaves(self._form, iter(results)))

    def _require_other_rounds(self, first: Round) -> None:
        """Raise NotRenewableError where other rounds cannot show that a result was kept."""
        for number in range(1, _MOST_EQUAL):
            other = self._make_round(number)
            self._rounds.append(other)
            if all(map(torch.equal, first.inputs.inputs(), other.inputs.inputs())):
                raise NotRenewableError(
                    "inputs of another seed are the same: nothing would tell a result that was kept"
                )
            if not (first.expected and other.expected):
                return
            if not all(map(_is_same, first.expected, other.expected)):
                return
        raise NotRenewableError(
            "the right result is the same with another seed: nothing would tell who has worked"
        )

    def _make_round(self, number: int) -> Round:
        seed = secrets.randbits(32)
        torch.manual_seed(seed)
        inputs = self._functions.make_inputs(dict(self._problem), self.device, seed)
        _, tensors = _messages_of(inputs)
        if self._functions.check_of(self._problem, inputs) is not None:
            return Round(number, inputs, tensors)
        reference = self._functions.reference(dict(self._problem), inputs.copied())
        expected = tuple(t.clone() for t in as_tensors(reference.result, "the reference"))
        own_results = reference.in_own_types  # the baseline need not run once more
        if own_results is None:
            own_results = self._functions.own_result(self._problem, inputs)
        own_tensors = as_tensors(own_results, "the result")
        if len(own_tensors) != len(expected):
            return Round(number, inputs, tensors, expected)
        amounts = list(map(rounding_of, own_tensors, expected))
        beside_result = replace(reference, result=None, in_own_types=own_results)  # held once
        rounding = Rounding(beside_result, expected, amounts)
        fixed = rounding.largest_errors()
        if all(map(_has_one_bound, own_tensors)):  # and what finds others may be freed
            return Round(number, inputs, tensors, expected, fixed, fixed)
        return Round(number, inputs, tensors, expected, partial(self._quick, fixed), rounding)

    def _quick(
        self, fixed: Allowed, output: int, dtype: torch.dtype, right: torch.Tensor
    ) -> float | torch.Tensor:
        """Error that is allowed in an output; in whole numbers the largest of the first round."""
        first = self.like
        if first.expected is None or first.exact_rounding is None or not is_whole(right):
            return fixed(output, dtype, right)
        first_right = first.expected[output]
        if not first_right.numel():
            return fixed(output, dtype, right)
        return float(torch.as_tensor(first.exact_rounding(output, dtype, first_right)).max())


def _messages_of(arguments: Arguments) -> tuple[dict[str, Any], Tensors]:
    """Messages of arguments, and their tensors in the order of their numbers."""
    tensors: list[torch.Tensor] = []

    def number_of(tensor: torch.Tensor) -> int:
        tensors.append(tensor)
        return len(tensors) - 1

    positional = as_message(arguments.positional, number_of)["tuple"]
    named = as_message(dict(arguments.by_name), number_of)
    outputs = as_message(arguments.outputs, number_of)["tuple"]
    return {"positional": {"tuple": [*positional, *outputs]}, "named": named}, tuple(tensors)


def _has_one_bound(tensor: torch.Tensor) -> bool:
    """Whether errors of a result are told by those of the baseline, and not element by element."""
    return tensor.dtype != torch.bfloat16 and not is_whole(tensor)


def _is_same(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two right results are equal, those of floating point but for rounding."""
    if first.shape != second.shape:
        return False
    bound = _SAME * check.largest_magnitude(first) if first.is_floating_point() else 0
    return bool(torch.isclose(first, second, 0, bound, equal_nan=True).all())


class Table:
    """Memory that one party shares with the judge, for one problem."""

    def __init__(
        self, party: Party, rounds: Rounds, problem: Parameters, init_inputs: Sequence[Any] | None
    ) -> None:
        self.party, self.rounds = party, rounds
        like = rounds.like
        inputs, writes = len(like.tensors) - len(like.inputs.outputs), bool(like.inputs.outputs)
        results = like.tensors[inputs:] if writes else rounds.results
        places = places_for((*like.tensors[:inputs], *results))
        self._memory = SharedMemory.create(places, rounds.device)
        tensors = tuple(self._memory.tensor(place) for place in places)
        self._inputs, self.results = tensors[:inputs], tensors[inputs:]
        self._copied_results = tuple(map(torch.empty_like, self.results))
        """Results as they were when the clock stopped."""
        self._played: Round | None = None
        self._is_dealt = False
        self.writes = writes
        """Whether launches write into arrays that they are given."""
        party.ask(
            "lay",
            () if self._memory.file is None else (self._memory.file,),
            memory=self._memory.handle,
            places=[asdict(place) for place in places],
            results=[*range(inputs, len(places))],
            **_messages_of(like.inputs)[0],
            problem=as_message(problem, _no_tensor),
            init_inputs=as_message(init_inputs, _no_tensor),
        )
        self._memory.close()

    def deal(self) -> None:
        """Write the inputs of the next round, while no process of the party runs."""
        if self._is_dealt:
            return
        self._played = self.rounds.round_after(self.party.last_round)
        self.party.last_round = self._played.number
        check.poison(self.results)
        for place, tensor in zip(self._inputs, self._played.tensors, strict=False):
            place.copy_(tensor)
        _settle(self.rounds.device)
        self._is_dealt = True

    def launch(self, message: Mapping[str, Any]) -> None:
        """Make the party launch on the dealt inputs, and copy its results while the clock runs.

        Work that goes on after the answer, on a GPU that cannot be stopped, is either missing in
        the results or part of the time.
        """
        self._is_dealt = False
        self.party.launch(message)
        for copied_result, result in zip(self._copied_results, self.results, strict=True):
            copied_result.copy_(result)
        _settle(self.rounds.device)

    def errors(
        self, tolerances: Tolerances, results: Tensors | None = None, *, is_first: bool = False
    ) -> Errors | None:
        """Errors of the copied results, or of others; raises WrongResultError for wrong ones.

        None where the experiment has its own check. `is_first`: of the first launch of a variant.
        """
        played = self._played
        if played is None:
            return None
        results = self._copied_results if results is None else results
        if played.expected is None:
            self.rounds.check(played, results)
            return None
        rounding = played.exact_rounding if is_first else played.rounding
        return check.compare(results, played.expected, tolerances, rounding=rounding)

    def is_written(self) -> bool:
        """Whether any input changed since it was dealt."""
        pairs = zip(self._inputs, self._played.tensors if self._played else (), strict=False)
        return not all(torch.equal(_bits(place), _bits(tensor)) for place, tensor in pairs)


def _no_tensor(tensor: torch.Tensor) -> int:
    raise TypeError(
        "the referee passes numbers and texts as parameters and to make modules, and no tensor (of "
        f"{tensor.numel()} elements)"
    )


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Elements as integers where they may be NaN, which is not equal to itself."""
    return tensor.contiguous().view(torch.uint8) if tensor.is_floating_point() else tensor


def _settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class GuestLaunch:
    """Requests a launch of a party. `restore` judges the launch before, and deals new inputs."""

    def __init__(
        self,
        table_of: Callable[[], Table],
        message: Mapping[str, Any],
        tolerances: Tolerances,
        *,
        may_write: bool,
        unconfined: str,
    ) -> None:
        self._table_of = table_of
        """Function that returns a table, with a new process where the file ended the old one."""
        self._table, self._message, self._tolerances = table_of(), message, tolerances
        self._may_write = may_write
        self.unconfined = unconfined
        """Why the process of a candidate may read more than its file; empty if it may not."""
        self._is_open = False
        """Whether a launch was made that is not judged yet."""
        self._was_right = False

    def restore(self) -> None:
        """Judge the launch before, and deal new inputs."""
        self.judge()
        if not self._table.party.is_alive:
            self._table = self._table_of()
        self._table.deal()
        self._table.party.make_ready()

    def __call__(self) -> Tensors:
        """Launch once; this alone is timed."""
        self._table.launch(self._message)
        self._is_open = True
        return self._table.results

    def check(self, result: Any) -> Errors | None:
        """Errors of the last launch; once it is judged, of any other result for its inputs."""
        if self._is_open:
            return self.judge()
        return self._table.errors(self._tolerances, as_tensors(result, "the result"))

    def judge(self) -> Errors | None:
        """Errors of the last launch; raises where its result was wrong, or it broke a rule."""
        was_open, self._is_open = self._is_open, False
        self._table.party.stop()
        if not was_open:
            return None
        _settle(self._table.rounds.device)
        try:
            errors = self._table.errors(self._tolerances, is_first=not self._was_right)
        except WrongResultError as error:
            if not self._was_right:
                raise
            raise ImplausibleError(
                f"right before, and wrong on inputs that it had not seen: {error}"
            ) from error
        if not self._may_write and self._table.is_written():
            raise WrongResultError("it writes into an input")
        self._was_right = True
        return errors


class RefereedWorkload:
    """The functions of a workload (docs/architecture.md), with a candidate's among the variants."""

    def __init__(
        self, experiment: Experiment, task: Path, candidate: Path, tolerances: Tolerances
    ) -> None:
        self._experiment = experiment
        self._functions = FunctionWorkload(experiment)
        self._task, self._candidate = self.files = task, candidate
        self._tolerances = tolerances
        self._parties: dict[Path, Party] = {}
        """Parties by file."""
        self._tables: dict[Path, Table] = {}
        self._launches: dict[str, GuestLaunch] = {}
        """Launches by variant, at the current problem."""
        self.flops, self.bytes = self._functions.flops, self._functions.bytes

    def make_inputs(self, problem: Parameters, device: torch.device, seed: int) -> Rounds:
        """Rounds of a problem; the experiment's own seed is known to everybody, and not used."""
        del seed
        self._tables.clear()
        self._launches.clear()
        return Rounds(self._functions, problem, device)

    def reference(self, problem: Parameters, inputs: Rounds) -> None:
        """Return no result: each launch is judged by itself (`own_check`)."""

    def named_inputs(self, inputs: Rounds) -> dict[str, torch.Tensor]:
        """Return no inputs: no party sees any memory but its own."""
        del inputs
        return {}

    def own_check(
        self, variant: Parameters, problem: Parameters, inputs: Rounds
    ) -> Callable[[Any], Errors | None]:
        """Function that checks the result of a variant's last launch."""
        del problem, inputs
        return lambda result: self._launches[_key(variant)].check(result)  # noqa: PLW0108 - made later

    def prepare(
        self, variant: Parameters, problem: Parameters, inputs: Rounds, library: Path | None
    ) -> GuestLaunch:
        """Launch of a variant, in the process of its side."""
        del library  # nothing is built for functions
        parameters = {key: value for key, value in variant.items() if key != FUNCTION}
        entry = self._experiment.variants.get(variant[FUNCTION])
        options = self._candidate_options if entry is None else entry.options_of(parameters)
        file = self._candidate if entry is None else self._task
        table = self._table(file, problem, inputs)
        message = {
            "function": variant[FUNCTION],
            "parameters": as_message(self._experiment.file_values(parameters), _no_tensor),
            "setup": options.setup,
            "writes": table.writes,
        }
        launch = self._launches[_key(variant)] = GuestLaunch(
            partial(self._table, file, problem, inputs),
            message,
            self._tolerances,
            may_write=options.in_place,
            unconfined=table.party.unconfined,
        )
        return launch

    @cached_property
    def _candidate_options(self) -> VariantOptions:
        """Options of a candidate's variants; they may write into inputs if the baseline does."""
        _, of_baseline = next(self._experiment.baseline_function().combinations())
        has_modules = self._experiment.init_inputs is not None
        return VariantOptions(setup=has_modules, in_place=of_baseline.in_place)

    def _table(self, file: Path, problem: Parameters, rounds: Rounds) -> Table:
        party, table = self.party_of(file), self._tables.get(file)
        if table is None or table.party is not party:
            init_inputs = self._experiment.init_inputs and self._experiment.init_inputs()
            problem = self._experiment.file_values(problem)
            table = self._tables[file] = Table(party, rounds, problem, init_inputs)
        return table

    def party_of(self, file: Path) -> Party:
        """The process of a file; a new one where the earlier has ended."""
        before = self._parties.get(file)
        if before is not None and before.is_alive:
            return before
        party = self._parties[file] = Party(file, is_trusted=file == self._task, hidden=self._task)
        if before is not None:  # the file may have stored rounds outside of its process
            party.last_round = before.last_round
        return party

    def close(self, *files: Path) -> None:
        """End the processes of these files, or of all files."""
        for file, party in self._parties.items():
            if not files or file in files:
                party.close()


def _key(variant: Parameters) -> str:
    return repr(sorted(variant.items()))
