"""Copies of the inputs of a problem: inputs that a launch wrote are found, and restored.

Of a right result that a launch wrote there is no copy: its sum shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import torch

from profiler.runner.arrays import memory_address
from profiler.runner.checks.check import OverrunError, Tensors, WrongResultError, as_tensors
from profiler.runner.checks.renewal import tensors_in
from profiler.runner.protocol import JobCell
from profiler.runner.timing import Launch

NamedInputs = Callable[[Any], Mapping[str, torch.Tensor]]

FREE_SHARE = 0.25
"""Share of the free memory of a GPU that copies may take: launches need the other part."""
_REMEDY = (
    "allocate memory for results in `outputs`, or mark it in_place=True, which restores inputs "
    "before each launch"
)


class KeptInputs:
    """Copies of inputs, by name; none where they would take much of the free memory."""

    def __init__(self, inputs: Mapping[str, torch.Tensor], expected: Tensors = ()) -> None:
        """`expected`: the right result, in memory of its own."""
        self._expected = MemorySums({str(n): tensor for n, tensor in enumerate(expected)}, ())
        # By memory, of which several inputs may be parts, byte by byte: NaN is equal to itself.
        memory = _memory_of(inputs)
        self._names: dict[int, list[str]] = {}
        for name, content in memory.items():
            self._names.setdefault(content.data_ptr(), []).append(name)
        distinct = {content.data_ptr(): content for content in memory.values()}
        copies_fit = _copies_fit([*distinct.values()])
        self._copies = {place: (t, t.clone()) for place, t in distinct.items() if copies_fit}
        self._places = {name: _InputPlace(inputs[name]) for name in memory}

    def written_names(self) -> tuple[str, ...]:
        """Names of the inputs that changed since they were copied."""
        moved_names = {name for name, place in self._places.items() if not place.is_unchanged()}
        written_names = {
            name: None
            for address, (content, copy) in self._copies.items()
            # Memory that was given up cannot be compared.
            if not moved_names.issuperset(self._names[address]) and not torch.equal(content, copy)
            for name in self._names[address]
        }
        return tuple(
            written_names | dict.fromkeys(name for name in self._places if name in moved_names)
        )

    def restore(self) -> None:
        """Give the inputs their memory again, and write the copies over it."""
        for place in self._places.values():
            place.restore()
        for content, copy in self._copies.values():
            content.copy_(copy)

    def copied_if_shared(self, tensors: Tensors) -> Tensors:
        """The tensors, copied where they lie in the memory of an input."""
        return tuple(t.clone() if memory_address(t) in self._names else t for t in tensors)

    def forget(self, tensors: Tensors) -> None:
        """Drop the copies of the memory of these tensors, which launches may write."""
        for tensor in tensors:
            self._copies.pop(memory_address(tensor), None)

    def refuse_written(self) -> None:
        """Raise WrongResultError where a launch wrote into inputs, and restore them.

        OverrunError where it wrote into the right result.
        """
        if self._expected.changed_names():
            raise OverrunError(
                "it writes into the right result: past the end of its own memory, or into memory "
                "that the reference returns"
            )
        written_names = self.written_names()
        if written_names:
            self.restore()
            noun = "an input" if len(written_names) == 1 else "inputs"
            raise WrongResultError(f"it writes into {noun} ({', '.join(written_names)}): {_REMEDY}")


class MemorySums:
    """The sum of the memory of each tensor, which shows a change without a copy."""

    def __init__(self, tensors: Mapping[str, torch.Tensor], outputs: Tensors) -> None:
        """Tensors that lie in the memory of `outputs` may change."""
        given_up = set(map(memory_address, outputs))
        watched_tensors = {
            name: tensor
            for name, tensor in tensors.items()
            if memory_address(tensor) not in given_up
        }
        self._contents = _memory_of(watched_tensors)
        self._sums = self._current_sums()

    def _current_sums(self) -> dict[str, int]:
        return {name: int(c.sum(dtype=torch.int64)) for name, c in self._contents.items()}

    @property
    def names(self) -> frozenset[str]:
        """Names of the tensors that have a sum."""
        return frozenset(self._sums)

    def changed_names(self) -> tuple[str, ...]:
        """Names of the tensors whose sum changed."""
        return tuple(
            name for name, total in self._current_sums().items() if total != self._sums[name]
        )

    def keep_unchanged(self) -> frozenset[str]:
        """Names of the unchanged tensors; changed ones are dropped."""
        for name in self.changed_names():
            del self._contents[name], self._sums[name]
        return self.names

    def add(self, sums: MemorySums) -> None:
        """Add the tensors of other sums."""
        self._contents |= sums._contents
        self._sums |= sums._sums


class InputWatch:
    """Sees whether the inputs of a problem are overwritten after its cells were checked.

    For a workload that names its inputs these. Else the tensors that no check of the problem
    wrote, where all of its cells are checked: a tensor that a checked launch writes is no input.
    """

    def __init__(
        self, named_inputs: NamedInputs | None, cells: Sequence[JobCell], inputs: Any
    ) -> None:
        """Before the checks; `named_inputs` gives the inputs that no launch may write, by name."""
        self._named_inputs = named_inputs
        self._are_checked = all(cell.check for cell in cells)
        self._before = MemorySums(self._unnamed_tensors(inputs), ())
        self._unwritten: frozenset[str] = frozenset()
        """Tensors that no check wrote, where the workload does not name its inputs."""
        self._later = self._sums = MemorySums({}, ())

    def begin(self, inputs: Any, launches: Mapping[str, Launch]) -> None:
        """Watch from here on, after the checks.

        Also tensors that the checks added to the inputs. A tensor of these that the warm launches,
        which come next, write is a workspace and no input.
        """
        self._unwritten = self._before.names.difference(self._before.changed_names())
        self.move(inputs, launches)
        tensors = self._unnamed_tensors(inputs).items()
        later_inputs = {name: tensor for name, tensor in tensors if name not in self._before.names}
        self._later = MemorySums(later_inputs, _outputs_of(launches))

    def after_warm_ups(self) -> None:
        """Leave out tensors that the checks added and warm launches wrote."""
        self._unwritten |= self._later.keep_unchanged()
        self._sums.add(self._later)
        self._before = self._later = MemorySums({}, ())

    def changed_names(self) -> tuple[str, ...]:
        """Names of the watched inputs that changed."""
        return self._sums.changed_names()

    def forget(self) -> None:
        """Release the memory of the inputs."""
        self._sums = MemorySums({}, ())

    def move(self, inputs: Any, launches: Mapping[str, Launch]) -> None:
        """Watch these inputs, without the tensors that a launch names as its outputs."""
        if self._named_inputs is not None:
            watched = self._named_inputs(inputs) if inputs is not None else {}
        else:
            tensors = tensors_in(inputs) if self._unwritten else {}
            watched = {name: t for name, t in tensors.items() if name in self._unwritten}
        self._sums = MemorySums(watched, _outputs_of(launches))

    def _unnamed_tensors(self, inputs: Any) -> dict[str, torch.Tensor]:
        """Tensors in inputs that the workload does not name; empty where a cell is not checked."""
        if self._named_inputs is not None or not self._are_checked:
            return {}
        with suppress(Exception):  # of any kind, by objects of a workload
            return tensors_in(inputs)
        return {}


def _outputs_of(launches: Mapping[str, Launch]) -> Tensors:
    """Tensors that launches declare as outputs."""
    declared_outputs = (getattr(launch, "outputs", None) for launch in launches.values())
    outputs = [as_tensors(value, "`outputs`") for value in declared_outputs if value is not None]
    return tuple(chain(*outputs))


class _InputPlace:
    """Memory and view of an input: `set_` takes the memory away from a tensor that others read.

    So does `resize_` of its storage, which frees the memory.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        self._storage = tensor.untyped_storage()
        self._bytes = self._storage.nbytes()
        self._view = self._current_view()

    def _current_view(self) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        tensor = self._tensor
        return int(tensor.storage_offset()), tuple(tensor.shape), tensor.stride()

    def is_unchanged(self) -> bool:
        if self._storage.nbytes() != self._bytes:
            return False
        at_its_place = memory_address(self._tensor) == self._storage.data_ptr()
        return at_its_place and self._current_view() == self._view

    def restore(self) -> None:
        if not self.is_unchanged():
            if self._storage.nbytes() != self._bytes:
                self._storage.resize_(self._bytes)
            like = torch.empty(0, dtype=self._tensor.dtype, device=self._storage.device)
            self._tensor.data = like.set_(self._storage, *self._view)


def _memory_of(inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Memory of each input that has elements, by name (`_bytes_of`)."""
    return {
        name: _bytes_of(tensor)
        for name, tensor in inputs.items()
        if tensor.layout == torch.strided and tensor.numel()
    }


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """The whole memory that a tensor is a part of, in elements of 8 bytes where it is aligned.

    Memory of another library may begin anywhere: a GPU reads 8 bytes at multiples of 8 only.
    """
    storage = tensor.detach().untyped_storage()
    content = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
    is_aligned = content.numel() % 8 == 0 and content.data_ptr() % 8 == 0
    return content.view(torch.int64) if is_aligned else content


def _copies_fit(contents: Sequence[torch.Tensor]) -> bool:
    on_gpus = [content for content in contents if content.is_cuda]
    if not on_gpus:
        return True
    free, _ = torch.cuda.mem_get_info(on_gpus[0].device)
    return sum(content.nbytes for content in on_gpus) <= FREE_SHARE * free
