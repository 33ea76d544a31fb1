"""Settings of the whole process, most of them of torch, kept apart by the cell that sets them.

A variant that allows TF32, or takes one thread, and leaves it so would change all that launch after
it: the baseline, too.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

_FLAGS = (
    # The older ones before those that they set as well: written alone, the newer ones leave the
    # older ones as they were, and torch then refuses to tell them.
    "cudnn.allow_tf32",
    *("cuda.matmul.fp32_precision", "cudnn.conv.fp32_precision", "cudnn.rnn.fp32_precision"),
    *("mkldnn.matmul.fp32_precision", "mkldnn.conv.fp32_precision", "fp32_precision"),
    *("cuda.matmul.allow_fp16_accumulation", "cudnn.benchmark", "cudnn.deterministic"),
    *("cudnn.enabled", "mkldnn.enabled"),
    "cuda.matmul.allow_fp16_reduced_precision_reduction",
    "cuda.matmul.allow_bf16_reduced_precision_reduction",
)
"""Attributes below `torch.backends`."""
_ATTENTION = ("flash", "mem_efficient", "math", "cudnn")
"""Backends of scaled_dot_product_attention, in the names of `torch.backends.cuda`."""

Values = Mapping[str, Any]


Setting = tuple[Callable[[], Any], Callable[[Any], object]]
"""What reads a setting, and what writes it."""


def _settings() -> dict[str, Setting]:
    """Settings by name, in the order in which they are written."""
    settings: dict[str, Setting] = {
        "default_dtype": (torch.get_default_dtype, torch.set_default_dtype),
        "num_threads": (torch.get_num_threads, torch.set_num_threads),
        "grad_enabled": (torch.is_grad_enabled, torch._C._set_grad_enabled),
        "deterministic": (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
        "float32_matmul_precision": (
            torch.get_float32_matmul_precision,
            torch.set_float32_matmul_precision,
        ),
        "folder": (os.getcwd, os.chdir),
    }
    for flag in _FLAGS:
        path, _, name = flag.rpartition(".")
        owner = operator.attrgetter(path)(torch.backends) if path else torch.backends
        if hasattr(owner, name):  # not in every version of torch
            settings[flag] = (partial(getattr, owner, name), partial(setattr, owner, name))
    for name in _ATTENTION:
        settings[f"{name}_sdp"] = (
            getattr(torch.backends.cuda, f"{name}_sdp_enabled"),
            getattr(torch.backends.cuda, f"enable_{name}_sdp"),
        )
    return settings


class CellSettings:
    """Settings that the launches of each cell have made: in force while it launches, not else."""

    def __init__(self) -> None:
        self._settings = _settings()
        self._of_cell: dict[str, Values] = {}

    @contextmanager
    def of(self, cell: str | None) -> Iterator[None]:
        """Settings of a cell in the body, and those of before after it; None: of no cell."""
        before = self._read()
        self._write(self._of_cell.get(cell, {}) if cell is not None else {})
        try:
            yield
        finally:
            after = self._read()
            changed = [name for name in self._settings if before.get(name) != after.get(name)]
            if cell is not None:
                self._of_cell[cell] = {name: after[name] for name in changed if name in after}
            self._write({name: before[name] for name in changed if name in before})

    @property
    def are_changed(self) -> bool:
        """Whether a cell has made some."""
        return any(self._of_cell.values())

    def _read(self) -> Values:
        """Values by name, of the settings that can be read now."""
        values = {}
        for name, (read, _) in self._settings.items():
            try:
                values[name] = read()
            except (RuntimeError, OSError):  # two ways of allowing TF32 contradict; no such folder
                continue
        return values

    def _write(self, values: Values) -> None:
        for name, value in values.items():
            _, write = self._settings[name]
            write(value)
