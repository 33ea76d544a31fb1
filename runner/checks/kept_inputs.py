"""Copies of the inputs of a problem: what a launch wrote into them is found, and undone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import torch

from profiler.runner.arrays import memory_address
from profiler.runner.checks.check import Tensors, WrongResultError, as_tensors
from profiler.runner.checks.renewal import tensors_in
from profiler.runner.protocol import JobCell
from profiler.runner.timing import Launch

NamedInputs = Callable[[Any], Mapping[str, torch.Tensor]]

FREE_SHARE = 0.25
"""Share of the free memory of a GPU that copies may take: launches need the rest."""
_REMEDY = "mark it in_place=True, which restores them before each launch, or let it write elsewhere"


class KeptInputs:
    """Copies of inputs, by name; none where they would take much of the memory that is free."""

    def __init__(self, inputs: Mapping[str, torch.Tensor]) -> None:
        # By memory, of which several inputs may be parts, byte by byte: NaN is equal to itself.
        memory = _memory_of(inputs)
        self._names: dict[int, list[str]] = {}
        for name, content in memory.items():
            self._names.setdefault(content.data_ptr(), []).append(name)
        distinct = {content.data_ptr(): content for content in memory.values()}
        fits = _fit([*distinct.values()])
        self._kept = {place: (t, t.clone()) for place, t in distinct.items() if fits}
        self._lying = {name: _Lying(inputs[name]) for name in memory}

    def written(self) -> tuple[str, ...]:
        """Names of the inputs that are no longer what they were."""
        elsewhere = {name for name, lying in self._lying.items() if not lying.is_as_it_was()}
        written = {
            name: None
            for place, (content, copy) in self._kept.items()
            # Memory that was given up cannot be compared.
            if not elsewhere.issuperset(self._names[place]) and not torch.equal(content, copy)
            for name in self._names[place]
        }
        return tuple(written | dict.fromkeys(name for name in self._lying if name in elsewhere))

    def restore(self) -> None:
        """Give the inputs their memory again, and write the copies over it."""
        for lying in self._lying.values():
            lying.restore()
        for content, copy in self._kept.values():
            content.copy_(copy)

    def apart(self, tensors: Tensors) -> Tensors:
        """The tensors, copied where they lie in the memory of an input."""
        return tuple(t.clone() if memory_address(t) in self._names else t for t in tensors)

    def forget(self, tensors: Tensors) -> None:
        """Keep nothing of the memory of these, which launches may write."""
        for tensor in tensors:
            self._kept.pop(memory_address(tensor), None)

    def refuse_written(self) -> None:
        """Raise WrongResultError where a launch wrote into inputs, and restore them."""
        written = self.written()
        if written:
            self.restore()
            which = "an input" if len(written) == 1 else "inputs"
            raise WrongResultError(f"it writes into {which} ({', '.join(written)}): {_REMEDY}")


class InputSums:
    """The sum of the memory of each input: whether any has changed since, at no room for copies."""

    def __init__(self, inputs: Mapping[str, torch.Tensor], outputs: Tensors) -> None:
        """Inputs that lie in the memory of `outputs` may change."""
        given_up = set(map(memory_address, outputs))
        others = {
            name: tensor
            for name, tensor in inputs.items()
            if memory_address(tensor) not in given_up
        }
        self._contents = _memory_of(others)
        self._sums = self._sums_now()

    def _sums_now(self) -> dict[str, int]:
        return {name: int(c.sum(dtype=torch.int64)) for name, c in self._contents.items()}

    @property
    def names(self) -> frozenset[str]:
        """Names of the inputs that have a sum."""
        return frozenset(self._sums)

    def changed(self) -> tuple[str, ...]:
        """Names of the inputs that are no longer what they were."""
        return tuple(name for name, total in self._sums_now().items() if total != self._sums[name])

    def keep_unchanged(self) -> frozenset[str]:
        """Names of those that are what they were; the others are forgotten."""
        for name in self.changed():
            del self._contents[name], self._sums[name]
        return self.names

    def add(self, others: InputSums) -> None:
        """Look at the inputs of other sums, too."""
        self._contents |= others._contents
        self._sums |= others._sums


class InputWatch:
    """Sees whether the inputs of a problem are overwritten after its cells were checked.

    Of a workload that names its inputs these. Else what no check of the problem wrote, where all
    of its cells are checked: what a launch writes when it is checked is no input.
    """

    def __init__(self, named: NamedInputs | None, cells: Sequence[JobCell], inputs: Any) -> None:
        """Before the checks; `named` gives the inputs that no launch may write, by name."""
        self._named = named
        self._are_checked = all(cell.check for cell in cells)
        self._before = InputSums(self._unnamed_tensors(inputs), ())
        self._unwritten: frozenset[str] = frozenset()
        """Tensors that no check of this problem wrote, where nobody names the inputs."""
        self._later = self._sums = InputSums({}, ())

    def begin(self, inputs: Any, launches: Mapping[str, Launch]) -> None:
        """Watch from here on, after the checks.

        Also what was made of the inputs only when it was needed: by the checks. What warm launches
        write of that, which come next, is a workspace and no input.
        """
        self._unwritten = self._before.names.difference(self._before.changed())
        self.move(inputs, launches)
        made = self._unnamed_tensors(inputs).items()
        later = {name: tensor for name, tensor in made if name not in self._before.names}
        self._later = InputSums(later, _outputs_of(launches))

    def after_warm_ups(self) -> None:
        """Leave out what warm launches wrote of what the checks made."""
        self._unwritten |= self._later.keep_unchanged()
        self._sums.add(self._later)
        self._before = self._later = InputSums({}, ())

    def changed(self) -> tuple[str, ...]:
        """Names of the inputs that are no longer what they were."""
        return self._sums.changed()

    def forget(self) -> None:
        """Let the memory of the inputs go."""
        self._sums = InputSums({}, ())

    def move(self, inputs: Any, launches: Mapping[str, Launch]) -> None:
        """Watch these inputs, but for what a launch gives as its outputs."""
        if self._named is not None:
            watched = self._named(inputs) if inputs is not None else {}
        else:
            tensors = tensors_in(inputs) if self._unwritten else {}
            watched = {name: t for name, t in tensors.items() if name in self._unwritten}
        self._sums = InputSums(watched, _outputs_of(launches))

    def _unnamed_tensors(self, inputs: Any) -> dict[str, torch.Tensor]:
        """Tensors in inputs that nobody names; none where a cell is not checked."""
        if self._named is not None or not self._are_checked:
            return {}
        with suppress(Exception):  # whatever objects of a workload do when they are looked into
            return tensors_in(inputs)
        return {}


def _outputs_of(launches: Mapping[str, Launch]) -> Tensors:
    """Tensors that launches say they write."""
    declared = (getattr(launch, "outputs", None) for launch in launches.values())
    outputs = [as_tensors(value, "`outputs`") for value in declared if value is not None]
    return tuple(chain(*outputs))


class _Lying:
    """Where an input lies: `set_` takes the memory away from a tensor that others read.

    So does `resize_` of its storage, which gives the memory itself up.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        self._storage = tensor.untyped_storage()
        self._bytes = self._storage.nbytes()
        self._view = self._view_now()

    def _view_now(self) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        tensor = self._tensor
        return int(tensor.storage_offset()), tuple(tensor.shape), tensor.stride()

    def is_as_it_was(self) -> bool:
        if self._storage.nbytes() != self._bytes:
            return False
        at_its_place = memory_address(self._tensor) == self._storage.data_ptr()
        return at_its_place and self._view_now() == self._view

    def restore(self) -> None:
        if not self.is_as_it_was():
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
    """The whole memory that a tensor is a part of, in elements of 8 bytes where that fits.

    What another library hands on may begin anywhere: a GPU reads 8 bytes at multiples of 8 only.
    """
    storage = tensor.detach().untyped_storage()
    content = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
    fits = content.numel() % 8 == 0 and content.data_ptr() % 8 == 0
    return content.view(torch.int64) if fits else content


def _fit(contents: Sequence[torch.Tensor]) -> bool:
    on_gpus = [content for content in contents if content.is_cuda]
    if not on_gpus:
        return True
    free, _ = torch.cuda.mem_get_info(on_gpus[0].device)
    return sum(content.nbytes for content in on_gpus) <= FREE_SHARE * free
