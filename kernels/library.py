"""A built CUDA library: loading it, and calling the functions that return an error code."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class CudaLibrary:
    """A shared library whose functions return 0, or a code that its `error_string` explains."""

    def __init__(self, path: Path, *, error_string: str) -> None:
        self._library = ctypes.CDLL(str(path))
        self._error_string = getattr(self._library, error_string)
        self._error_string.argtypes = (ctypes.c_int,)
        self._error_string.restype = ctypes.c_char_p

    def declare(self, function: str, argument_types: Sequence[Any]) -> None:
        """State the types of a function's arguments, so that calls may pass Python's numbers."""
        declared = getattr(self._library, function)
        declared.argtypes = tuple(argument_types)
        declared.restype = ctypes.c_int

    def call(self, function: str, *arguments: Any) -> None:
        """Call a function; raises RuntimeError with the library's words for another code than 0."""
        code = getattr(self._library, function)(*arguments)
        if code:
            words = self._error_string(code).decode()
            raise RuntimeError(f"{function} failed: {words} (code {code})")
