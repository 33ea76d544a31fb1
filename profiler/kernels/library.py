"""A built shared library whose C functions return an error code, called through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any


class KernelLibrary:
    """The functions `<prefix>_<name>` of one library.

    It exports `<prefix>_error_string` too, which gives the message for a code.
    """

    def __init__(self, path: Path, prefix: str) -> None:
        self._loaded = ctypes.CDLL(str(path))
        self._prefix = prefix
        error_string = self._loaded[f"{prefix}_error_string"]
        error_string.argtypes = (ctypes.c_int,)
        error_string.restype = ctypes.c_char_p
        self._error_string = error_string

    def function(self, name: str, *argument_types: Any) -> Callable[..., None]:
        """A function of the library; a call raises RuntimeError for an error code."""
        symbol = f"{self._prefix}_{name}"
        function = self._loaded[symbol]
        function.argtypes = argument_types
        function.restype = ctypes.c_int

        def call(*arguments: Any) -> None:
            code = function(*arguments)
            if code:
                message = self._error_string(code).decode()
                raise RuntimeError(f"{symbol} failed: {message} (code {code})")

        return call
