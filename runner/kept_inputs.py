"""Copies of the inputs of a problem: what a launch wrote into them is found, and undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from profiler.runner.check import Tensors, WrongResultError

FREE_SHARE = 0.25
"""Share of the free memory of a GPU that copies may take: launches need the rest."""
_REMEDY = "mark it in_place=True, which restores them before each launch, or let it write elsewhere"


class KeptInputs:
    """Copies of inputs, by name; none where they would take much of the memory that is free."""

    def __init__(self, inputs: Mapping[str, torch.Tensor]) -> None:
        # By memory, of which several inputs may be parts, byte by byte: NaN is equal to itself.
        memory = {
            name: _bytes_of(tensor)
            for name, tensor in inputs.items()
            if tensor.layout == torch.strided and tensor.numel()
        }
        self._names: dict[int, list[str]] = {}
        for name, content in memory.items():
            self._names.setdefault(content.data_ptr(), []).append(name)
        distinct = {content.data_ptr(): content for content in memory.values()}
        fits = _fit([*distinct.values()])
        self._kept = {place: (t, t.clone()) for place, t in distinct.items() if fits}

    def written(self) -> tuple[str, ...]:
        """Names of the inputs that are no longer what they were."""
        return tuple(
            name
            for place, (content, copy) in self._kept.items()
            if not torch.equal(content, copy)
            for name in self._names[place]
        )

    def restore(self) -> None:
        """Write the copies over the inputs."""
        for content, copy in self._kept.values():
            content.copy_(copy)

    def apart(self, tensors: Tensors) -> Tensors:
        """The tensors, copied where they lie in the memory of an input."""
        return tuple(t.clone() if _place(t) in self._names else t for t in tensors)

    def forget(self, tensors: Tensors) -> None:
        """Keep nothing of the memory of these, which launches may write."""
        for tensor in tensors:
            self._kept.pop(_place(tensor), None)

    def refuse_written(self) -> None:
        """Raise WrongResultError where a launch wrote into inputs, and restore them."""
        written = self.written()
        if written:
            self.restore()
            which = "an input" if len(written) == 1 else "inputs"
            raise WrongResultError(f"it writes into {which} ({', '.join(written)}): {_REMEDY}")


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """The whole memory that a tensor is a part of, in elements of 8 bytes where that fits.

    What another library hands on may begin anywhere: a GPU reads 8 bytes at multiples of 8 only.
    """
    storage = tensor.detach().untyped_storage()
    content = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
    fits = content.numel() % 8 == 0 and content.data_ptr() % 8 == 0
    return content.view(torch.int64) if fits else content


def _place(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if tensor.layout == torch.strided else 0


def _fit(contents: Sequence[torch.Tensor]) -> bool:
    on_gpus = [content for content in contents if content.is_cuda]
    if not on_gpus:
        return True
    free, _ = torch.cuda.mem_get_info(on_gpus[0].device)
    return sum(content.nbytes for content in on_gpus) <= FREE_SHARE * free
