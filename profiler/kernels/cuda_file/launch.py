"""Starting a kernel of a built launcher (src/launcher.cu) on torch's current stream."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from profiler.kernels.cuda_file.description import KINDS, LaunchShape
from profiler.kernels.library import KernelLibrary

STATIC_LIMIT = 48 * 1024
"""Bytes of shared memory that a kernel may have unasked (CUDA C++ programming guide)."""

Number = int | float
Argument = Any
"""A tensor or a number; of a struct a list of the names and values of its fields."""

_KINDS = {getattr(torch, name): kind for name, kind in KINDS.items()}
_WORDS = {"f": "floating", "g": "bfloat16", "i": "signed", "u": "unsigned", "b": "bool"}


class _Argument(ctypes.Structure):
    """Mirror of `Argument` in src/launcher.cu."""

    _fields_ = (("whole", ctypes.c_longlong), ("real", ctypes.c_double))


class CudaLaunch:
    """One kernel or host function with its arguments; calling it starts it once.

    `number`: of the kernel among those of the library; `shape`: None of a host function; `stream`
    gives the handle of the stream to start it on. Raises TypeError where the arguments do not fit
    the parameters.
    """

    def __init__(
        self,
        library: Path,
        number: int,
        shape: LaunchShape | None,
        arguments: Sequence[tuple[str, Argument]],
        stream: Callable[[], int],
    ) -> None:
        functions = ctypes.CDLL(str(library))
        functions.profiler_parameters.restype = ctypes.c_char_p
        check_parameters(functions.profiler_parameters(number).decode().split(), arguments)
        built = KernelLibrary(library, "profiler")
        if shape is not None and shape.shared > STATIC_LIMIT:
            built.function("allow_shared", ctypes.c_int, ctypes.c_int)(number, shape.shared)
        self._start = built.function(
            "launch",
            ctypes.c_int,
            *(ctypes.c_void_p, ctypes.c_void_p),
            ctypes.c_size_t,
            ctypes.c_bool,
            *(ctypes.c_void_p, ctypes.c_void_p),
        )
        self._settings = (
            (number, None, None, 0, False)
            if shape is None
            else (
                number,
                (ctypes.c_uint * 3)(*shape.grid),
                (ctypes.c_uint * 3)(*shape.block),
                shape.shared,
                shape.cooperative,
            )
        )
        self._fields: list[Any] = []
        self._arguments = self._packed(arguments)
        self._tensors = [value for _, value in arguments]  # kept, because only their addresses go
        self._stream = stream

    def __call__(self) -> None:
        """Start the kernel or function; raises RuntimeError where CUDA refuses."""
        self._start(*self._settings, self._stream(), self._arguments)

    def _packed(self, arguments: Sequence[tuple[str, Argument]]) -> Any:
        """Arguments in the launcher's layout; arrays for fields of structs are kept alive."""
        return (_Argument * len(arguments))(*(self._argument(value) for _, value in arguments))

    def _argument(self, value: Argument) -> _Argument:
        if not isinstance(value, list):
            return _packed(value)
        fields = self._packed(value)
        self._fields.append(fields)
        return _Argument(ctypes.addressof(fields), 0.0)


def check_parameters(parameters: Sequence[str], arguments: Sequence[tuple[str, Argument]]) -> None:
    """Raise TypeError where an argument does not fit the launcher's description of its parameter.

    A parameter is `*f4` for a pointer to a float, `i4` for an int, `?` for what is no number, and
    `{*f4,i4}` for a struct whose fields are set to such.
    """
    pairs = zip(parameters, arguments, strict=True)
    for place, (parameter, (name, value)) in enumerate(pairs, start=1):
        fields = [("", parameter, value)]
        if isinstance(value, list):
            kinds = parameter.strip("{}").split(",") if value else ()
            fields = [(f".{f}", k, v) for k, (f, v) in zip(kinds, value, strict=True)]
        for field, kind, field_value in fields:
            reason = _misfit(kind, field_value)
            if reason is not None:
                raise TypeError(f"argument {place} of the kernel ({name}{field}): {reason}")


def _misfit(parameter: str, value: torch.Tensor | Number) -> str | None:
    if isinstance(value, torch.Tensor):
        kind = _KINDS.get(value.dtype)
        if not parameter.startswith("*"):
            return f"a tensor, but the kernel takes {_words(parameter)}"
        if kind is not None and not _may_point_to(parameter[1:], kind):
            return f"{_words(kind)}, but the kernel takes a pointer to {_words(parameter[1:])}"
        return None
    if parameter.startswith("*"):  # 0 is the null pointer
        return f"the number {value}, but the kernel takes a pointer" if value else None
    if parameter[0] in "iu" and value != int(value):
        return f"{value} is no whole number, and the kernel takes {_words(parameter)}"
    return _out_of_range(parameter, value)


def _may_point_to(pointee: str, kind: str) -> bool:
    """Whether a kernel may read elements of a kind through a pointer.

    Unsigned numbers often stand for bits of whatever they are, of several elements too.
    """
    if pointee in ("?", kind) or (pointee[0] == "u" and pointee[1:] > kind[1:]):
        return True
    return pointee[1:] == kind[1:] and (pointee[0] == "u" or pointee[0] + kind[0] in ("iu", "pi"))


def _out_of_range(parameter: str, value: Number) -> str | None:
    if parameter[0] not in "iu":
        return None
    bits = 8 * int(parameter[1:])
    lowest = -(2 ** (bits - 1)) if parameter[0] == "i" else 0
    return (
        None
        if lowest <= value < lowest + 2**bits
        else f"{value} does not fit into {_words(parameter)}"
    )


def _words(kind: str) -> str:
    if kind.startswith("p"):
        return "pointers"
    return f"{_WORDS[kind[0]]} numbers of {kind[1:]} bytes" if kind[0] in _WORDS else "a struct"


def _packed(value: torch.Tensor | Number) -> _Argument:
    if isinstance(value, torch.Tensor):
        return _Argument(value.data_ptr(), 0.0)
    integer = int(value)
    # The launcher reads a whole number of 64 bits, whatever its sign.
    return _Argument(integer - 2**64 if integer >= 2**63 else integer, float(value))
