"""Which metrics ncu cannot count in the same pass, asked of NVIDIA's own library.

    python benchmarks/speed/predicted_passes.py > profiler/metrics/chips/conflicts.json

CUPTI's host library schedules counters of every chip that it knows, without a GPU (CUPTI
documentation, "Host profiling API"). Of 35 sets of metrics it said of each rightly whether ncu
2025.3.1 needs one pass on an H200 (`benchmarks/speed/launch_costs.py`); where it says two, ncu
makes three. The file is read by `profiler.metrics.passes`.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from profiler.errors import EnvironmentUnusable
from profiler.metrics.catalogue import CATALOGUE, TIME, PassClass
from profiler.metrics.queries import CHIPS, ncu_name

_LIBRARIES = ("libnvperf_host.so", "libcupti.so")
"""CUPTI loads the first one, which has to be found."""
_RANGE_PROFILER = 0
_Fields = tuple[tuple[str, Any], ...]
"""Names and C types of the fields that a structure adds to those of its base."""


class _Parameters(ctypes.Structure):
    """The first fields of the parameters of every call of CUPTI's host library."""

    _fields_: ClassVar[_Fields] = (("structSize", ctypes.c_size_t), ("pPriv", ctypes.c_void_p))


class _Initialize(_Parameters):
    _fields_ = (
        ("profilerType", ctypes.c_int),
        ("pChipName", ctypes.c_char_p),
        ("pCounterAvailabilityImage", ctypes.c_void_p),
        ("pHostObject", ctypes.c_void_p),
    )


class _OfHost(_Parameters):
    """Parameters of calls about what `Initialize` made; those of `Deinitialize`."""

    _fields_: ClassVar[_Fields] = (("pHostObject", ctypes.c_void_p),)


class _AddMetrics(_OfHost):
    _fields_ = (
        ("ppMetricNames", ctypes.POINTER(ctypes.c_char_p)),
        ("numMetrics", ctypes.c_size_t),
    )


class _ImageSize(_OfHost):
    _fields_: ClassVar[_Fields] = (("configImageSize", ctypes.c_size_t),)


class _Image(_ImageSize):
    _fields_ = (("pConfigImage", ctypes.c_void_p),)


class _Passes(_Parameters):
    _fields_ = (
        ("configImageSize", ctypes.c_size_t),
        ("pConfigImage", ctypes.c_void_p),
        ("numOfPasses", ctypes.c_size_t),
    )


class PassScheduler:
    """NVIDIA's scheduler of counters."""

    def __init__(self, folder: Path) -> None:
        """`folder`: of CUPTI's libraries (CUDA toolkit: `extras/CUPTI/lib64` or `lib`).

        Raises EnvironmentUnusable where they cannot be loaded.
        """
        try:
            for name in _LIBRARIES:
                self._cupti = ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            message = f"CUPTI's libraries cannot be loaded: {error}"
            raise EnvironmentUnusable(message, remedy="Name the folder of libcupti.so.") from error

    def passes(self, chip: str, raw_names: Sequence[str]) -> int:
        """How many passes these raw metrics need on a chip (`GH100`).

        Raises ValueError for a chip or a name that the library does not know.
        """
        started = _Initialize(profilerType=_RANGE_PROFILER, pChipName=chip.encode())
        self._call("Initialize", started)
        host = started.pHostObject
        names = (ctypes.c_char_p * len(raw_names))(*(name.encode() for name in raw_names))
        try:
            self._call(
                "ConfigAddMetrics",
                _AddMetrics(pHostObject=host, ppMetricNames=names, numMetrics=len(raw_names)),
            )
            size = _ImageSize(pHostObject=host)
            self._call("GetConfigImageSize", size)
            buffer = ctypes.create_string_buffer(size.configImageSize)
            image = {
                "configImageSize": size.configImageSize,
                "pConfigImage": ctypes.addressof(buffer),
            }
            self._call("GetConfigImage", _Image(pHostObject=host, **image))
            counted = _Passes(**image)
            self._call("GetNumOfPasses", counted)
            return int(counted.numOfPasses)
        finally:
            self._call("Deinitialize", _OfHost(pHostObject=host))

    def _call(self, name: str, parameters: _Parameters) -> None:
        parameters.structSize = ctypes.sizeof(parameters)
        result = getattr(self._cupti, f"cuptiProfilerHost{name}")(ctypes.byref(parameters))
        if result:
            raise ValueError(f"cuptiProfilerHost{name} failed with CUptiResult {result}")


def scheduled_metrics(capability: str) -> tuple[str, ...]:
    """Names of the catalogue's metrics of which it matters which share a pass; peaks cost none."""
    return tuple(
        metric.name
        for metric in CATALOGUE.values()
        if metric.pass_class is PassClass.SINGLE or metric.name == "cycles"
        if ncu_name(metric.name, capability) is not None and not metric.name.endswith("_peak")
    )


def conflicts_of(
    capability: str, scheduler: PassScheduler, expected: Iterable[Iterable[str]] = ()
) -> list[list[str]]:
    """Smallest sets of metrics that take more than one pass beside the duration, in order.

    `expected`: what they may be; the nearer it is, the sooner they are found.
    """
    chip = CHIPS[capability].upper()
    raw_of = {name: ncu_name(name, capability) for name in scheduled_metrics(capability)}

    def fit(names: Collection[str]) -> bool:
        raw = (raw_of[name] for name in raw_of if name in names)
        return scheduler.passes(chip, [TIME, *filter(None, raw)]) == 1

    minimal = minimal_misfits([*raw_of], fit, map(frozenset, expected))
    return sorted((sorted(names) for names in minimal), key=lambda names: (len(names), names))


def minimal_misfits(
    names: Sequence[str],
    fit: Callable[[Collection[str]], bool],
    expected: Iterable[frozenset[str]] = (),
) -> set[frozenset[str]]:
    """The smallest sets that do not fit, where every part of what fits fits.

    By duality: all largest fitting sets are known when no set fits that has a name outside of each
    of them (Gunopulos et al., "Discovering all most specific sentences", 2003). It begins with the
    sets that would fit if `expected` were the answer.
    """
    would_fit = (frozenset(names) - hitting for hitting in minimal_hitting_sets(expected))
    largest = [candidate for candidate in would_fit if fit(candidate)]
    smallest: set[frozenset[str]] = set()
    while True:
        for candidate in minimal_hitting_sets([frozenset(names) - known for known in largest]):
            if candidate in smallest:
                continue
            if fit(candidate):
                largest.append(_grown(candidate, names, fit))
                break
            smallest.add(candidate)
        else:
            return smallest


def _grown(
    names: frozenset[str], others: Iterable[str], fit: Callable[[Collection[str]], bool]
) -> frozenset[str]:
    """A set that fits, with as many others as fit beside."""
    grown = names
    for name in others:
        if name not in grown and fit(grown | {name}):
            grown |= {name}
    return grown


def minimal_hitting_sets(sets: Iterable[frozenset[str]]) -> list[frozenset[str]]:
    """The smallest sets that have a member in each of these (Berge's algorithm)."""
    hitting_sets = {frozenset[str]()}
    for members in sets:
        extended = {
            hitting if hitting & members else hitting | {member}
            for hitting in hitting_sets
            for member in members
        }
        hitting_sets = {
            hitting for hitting in extended if not any(smaller < hitting for smaller in extended)
        }
    return sorted(hitting_sets, key=lambda hitting: (len(hitting), sorted(hitting)))


def document(scheduler: PassScheduler) -> Mapping[str, list[list[str]]]:
    """Conflicts by compute capability."""
    return {capability: conflicts_of(capability, scheduler) for capability in CHIPS}


def main() -> None:
    """Print the document; the folder of CUPTI's libraries may be named."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/local/cuda/extras/CUPTI/lib64")
    lines = (
        f'"{capability}": [\n  ' + ",\n  ".join(map(json.dumps, conflicts)) + "\n]"
        for capability, conflicts in document(PassScheduler(folder)).items()
    )
    sys.stdout.write("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main()
