"""Visits of variants that were built with stamps inside their kernels (docs/timelines.md).

Each launch fills a buffer of its library, which is written down as it is: one line of JSON for each
visit. `profiler.parse.stamps` says what the words mean.
"""

from __future__ import annotations

import ctypes
import gzip
import json
from pathlib import Path
from typing import Any

from profiler.kernels.library import KernelLibrary
from profiler.runner import protocol
from profiler.runner.device import Device
from profiler.runner.protocol import Job, JobVisit
from profiler.runner.timing import Launch, restore
from profiler.runner.visits import ranges
from profiler.runner.visits.base import SingleVisits

_PREFIX = "profiler_timeline"
_TEXTS = ("activities", "groups", "operations")
"""Functions that give names; a kernel may lack the last two."""
_SIZES = 5


class StampBuffer:
    """The buffer of a library whose kernel includes `profiler/timeline.cuh`.

    Raises AttributeError for a library without one.
    """

    def __init__(self, library: Path) -> None:
        functions = ctypes.CDLL(str(library))
        built = KernelLibrary(library, _PREFIX)
        self._clear = built.function("clear")
        self._read = built.function("read", ctypes.c_void_p)
        sizes = (ctypes.c_uint * _SIZES)()
        functions[f"{_PREFIX}_sizes"](sizes)
        self._blocks, self._groups, self._words, self._head, self._code_bits = map(int, sizes)
        self._names = {name: _exported_text(functions, name) for name in _TEXTS}

    def clear(self) -> None:
        """Set all words to 0; raises RuntimeError where CUDA refuses."""
        self._clear()

    def content(self) -> dict[str, Any]:
        """Names, sizes, and the words of each group that wrote any, as a document for JSON."""
        buffer_words = (ctypes.c_uint32 * (self._blocks * self._groups * self._words))()
        self._read(ctypes.addressof(buffer_words))
        return {
            **self._names,
            "head": self._head,
            "words": self._words,
            "code_bits": self._code_bits,
            "written": [
                [group_words[0] - 1, place % self._groups, group_words]
                for place in range(self._blocks * self._groups)
                if (group_words := self._written_words(buffer_words, place))
            ],
        }

    def _written_words(self, buffer_words: ctypes.Array[ctypes.c_uint32], place: int) -> list[int]:
        """Words of a group up to the last that is not 0."""
        group_words = list(buffer_words[place * self._words : (place + 1) * self._words])
        while group_words and group_words[-1] == 0:
            group_words.pop()
        return group_words


class StampedVisits(SingleVisits):
    """Visits of one launch each, whose stamps go into a file beside the journal."""

    def __init__(self, job: Job, device: Device) -> None:
        self._device = device
        self._file = Path(job.journal).parent / f"{protocol.STAMPS_FILE}.gz"
        self._libraries = {cell.id: cell.library for cell in job.cells}
        self._buffers: dict[str, StampBuffer] = {}

    def make(self, visit: JobVisit, launch: Launch) -> dict[str, Any]:
        """Make a visit and write its stamps; its journal record has no fields.

        Raises RuntimeError for a kernel without stamps, and for one that wrote none.
        """
        buffer = self._buffer(visit.cell)
        restore(launch)
        self._device.wait()
        buffer.clear()
        # The launch may be on a stream that does not wait for the one that clears.
        self._device.wait()
        with ranges.visit_range(visit.cell, visit.block, visit.arm):
            launch()
            self._device.wait()
        content = buffer.content()
        if not any(
            any(group_words[protocol.STAMPS_END : protocol.STAMPS_END + 2])
            for *_, group_words in content["written"]
        ):
            raise RuntimeError("none of its warpgroups wrote a beginning and an end")
        line = {"cell": visit.cell, "block": visit.block, "arm": visit.arm, **content}
        # Each visit is a gzip member: after a kill, earlier visits can be read.
        with gzip.open(self._file, "at", encoding="utf-8") as stream:
            stream.write(json.dumps(line, separators=(",", ":")) + "\n")
        return {}

    def _buffer(self, cell: str) -> StampBuffer:
        library = self._libraries[cell]
        if library is None:
            raise RuntimeError("a variant that needs no build has no stamps")
        if library not in self._buffers:
            try:
                self._buffers[library] = StampBuffer(Path(library))
            except AttributeError as error:
                raise RuntimeError("its kernel does not include profiler/timeline.cuh") from error
        return self._buffers[library]


def _exported_text(functions: ctypes.CDLL, name: str) -> str:
    """Text that a library exports; empty where it exports none."""
    try:
        function = functions[f"{_PREFIX}_{name}"]
    except AttributeError:
        return ""
    function.restype = ctypes.c_char_p
    return bytes(function()).decode()
