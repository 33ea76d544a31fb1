"""Messages and memory between judge and guest, who do not trust each other.

Both sides import it. Arguments are JSON, with tensors by number: nothing is ever unpickled, which
would run code of the other side. Tensors lie in shared memory: on a CPU a file in memory; on a
GPU an allocation of its own, because a guest can read all of what is shared with it.
"""

from __future__ import annotations

import base64
import dataclasses
import fcntl
import mmap
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from profiler.runner.arrays import as_tensor, extent, is_array

_ALIGNMENT = 256
"""Alignment in bytes, as of the allocators of torch and CUDA, so that no kernel finds less."""
_GPU_BLOCK = 2**25
"""Bytes beyond which torch's allocator shares a block with no other tensor."""
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


@dataclass(frozen=True)
class Place:
    """Where a tensor lies in the memory."""

    dtype: str
    shape: Sequence[int]
    stride: Sequence[int]
    offset: int
    """Bytes."""

    @property
    def torch_dtype(self) -> torch.dtype:
        """Type of the tensor's elements."""
        dtype = getattr(torch, self.dtype)
        if not isinstance(dtype, torch.dtype):
            raise TypeError(f"{self.dtype} is no dtype")
        return dtype

    @property
    def nbytes(self) -> int:
        """Bytes from the tensor's first element to its last."""
        return extent(self.shape, self.stride) * self.torch_dtype.itemsize


def places_for(tensors: Iterable[torch.Tensor]) -> tuple[Place, ...]:
    """Places for tensors like these, one after another."""
    places: list[Place] = []
    end = 0
    for tensor in tensors:
        if tensor.layout != torch.strided:
            raise TypeError("the referee passes dense tensors, and no sparse ones")
        like = torch.empty_like(
            tensor, device="meta"
        )  # dense: overlapping tensors get a new layout
        dtype = str(tensor.dtype).removeprefix("torch.")
        places.append(Place(dtype, tuple(like.shape), like.stride(), end))
        end += -(-places[-1].nbytes // _ALIGNMENT) * _ALIGNMENT
    return tuple(places)


class SharedMemory:
    """Memory that two processes share."""

    def __init__(self, content: torch.Tensor, handle: Mapping[str, Any], file: int | None) -> None:
        self._content = content
        self.handle = handle
        """Handle by which the other process opens the memory, for JSON."""
        self.file = file
        """Descriptor that goes with the handle; None on a GPU."""
        self.pool: Any = None
        """Pool of torch's allocator that holds this memory alone; None on a CPU."""

    @classmethod
    def create(cls, places: Sequence[Place], device: torch.device) -> SharedMemory:
        """New memory with room for all places."""
        size = max((place.offset + place.nbytes for place in places), default=0) + _ALIGNMENT
        return _on_gpu(size, device) if device.type == "cuda" else _in_file(size)

    @classmethod
    def attach(cls, handle: Mapping[str, Any], files: Sequence[int]) -> SharedMemory:
        """Memory that another process has made."""
        if "size" in handle:
            (file,) = files
            return _mapped(file, handle["size"])
        parts = [base64.b64decode(p["bytes"]) if isinstance(p, dict) else p for p in handle["ipc"]]
        torch.cuda.init()  # type: ignore[no-untyped-call]  # torch's own
        storage: Any = torch.UntypedStorage._new_shared_cuda(*parts)
        content = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
        return cls(content, handle, None)

    def tensor(self, place: Place) -> torch.Tensor:
        """The tensor at a place."""
        flat = self._content[place.offset : place.offset + place.nbytes].view(place.torch_dtype)
        return flat.as_strided(place.shape, place.stride, flat.storage_offset())

    def close(self) -> None:
        """Close the descriptor; tensors keep the memory for as long as they live."""
        if self.file is not None:
            os.close(self.file)
            self.file = None


def _in_file(size: int) -> SharedMemory:
    file = os.memfd_create("referee", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(file, size)
    # A guest that cut it off would end the judge by SIGBUS.
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, _SEALS)
    return _mapped(file, size)


def _mapped(file: int, size: int) -> SharedMemory:
    content = torch.frombuffer(mmap.mmap(file, size), dtype=torch.uint8)
    return SharedMemory(content, {"size": size}, file)


def _on_gpu(size: int, device: torch.device) -> SharedMemory:
    """A block of the GPU's memory in which nothing else lies."""
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        content = torch.zeros(max(size, _GPU_BLOCK), dtype=torch.uint8, device=device)
    storage: Any = content.untyped_storage()
    parts = [
        {"bytes": base64.b64encode(part).decode()} if isinstance(part, bytes) else part
        for part in storage._share_cuda_()
    ]
    memory = SharedMemory(content, {"ipc": parts}, None)
    memory.pool = pool
    return memory


_PLAIN = (bool, int, float, str, type(None))


def as_message(value: Any, number_of: Callable[[torch.Tensor], int]) -> Any:
    """JSON of a value, each tensor by its number.

    Raises TypeError for a value that is no tensor, number or text, in tuples, lists and mappings.
    """
    if is_array(value):
        if not isinstance(value, torch.Tensor) or value.requires_grad:
            raise TypeError("the referee passes tensors of torch without gradients")
        return {"tensor": number_of(as_tensor(value))}
    if isinstance(value, _PLAIN):
        return {"plain": value}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [as_message(item, number_of) for item in value]}
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("the referee passes mappings whose keys are texts")
        return {"mapping": {key: as_message(item, number_of) for key, item in value.items()}}
    name = type(value).__name__
    hint = ": pass its fields" if dataclasses.is_dataclass(value) else ""
    raise TypeError(f"the referee passes tensors, numbers and texts, and no {name}{hint}")


def of_message(message: Mapping[str, Any], tensors: Callable[[int], torch.Tensor]) -> Any:
    """The value of a message."""
    ((kind, content),) = message.items()
    if kind == "tensor":
        return tensors(content)
    if kind == "dtype":
        return getattr(torch, content)
    if kind == "device":
        return torch.device(content)
    if kind == "mapping":
        return {key: of_message(item, tensors) for key, item in content.items()}
    if kind in ("list", "tuple"):
        items = [of_message(item, tensors) for item in content]
        return items if kind == "list" else tuple(items)
    return content
