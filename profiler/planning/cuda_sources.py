"""Looks into the `.cu` files of an experiment: whether kernels and macros stand in them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from profiler.kernels.cuda_file.description import OVERRIDES, CudaFile
from profiler.kernels.cuda_file.torch_syntax import split_function
from profiler.model import Plan, Variant
from profiler.planning.python_files import function_faults
from profiler.planning.spec import CudaWorkload, LoadedSpec, did_you_mean
from profiler.planning.spec.source import FieldPath
from profiler.planning.spec.values import close_hint

Fault = tuple[FieldPath, str]
"""Field of the spec, and what is wrong."""

MAX_INCLUDED = 100
"""Most files that are looked into for one source."""

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
_TOKEN = re.compile(r"\w+|[^\s\w]")
_WORD = re.compile(r"[A-Za-z_]\w*")
_ATTRIBUTES = ("__launch_bounds__", "__cluster_dims__", "__maxnreg__", "__block_size__")
"""What may stand between `__global__` and a kernel's name, with arguments of its own."""


@dataclass(frozen=True)
class Source:
    """A file and what it includes by quotes, without comments."""

    words: frozenset[str]
    kernels: tuple[str, ...]
    complete: bool
    """Whether all that it includes by quotes was found beside it."""
    unreadable: tuple[Path, ...] = ()
    """What it includes by quotes and is there, but cannot be read."""


def cuda_faults(loaded: LoadedSpec, plan: Plan) -> Iterator[Fault]:
    """What is wrong with kernels and functions that the spec names; missing sources are not."""
    workload = loaded.experiment.workload
    if not isinstance(workload, CudaWorkload):
        return
    description = workload.description(loaded.base)
    yield from _function_faults(description.reference, ("workload", "reference"), loaded.base)
    yield from _header_faults(description, plan)
    elsewhere = any(flag.startswith("-I") for flag in loaded.experiment.build.flags)
    for variant in plan.variants:
        torch = variant.params.get("torch")
        if torch is not None:
            yield from _function_faults(str(torch), ("variants",), loaded.base)
        elif not elsewhere:
            yield from _kernel_faults(description, variant)


def cuda_notes(loaded: LoadedSpec, plan: Plan) -> tuple[str, ...]:
    """Sentences about parameters of variants that nothing reads."""
    workload = loaded.experiment.workload
    if not isinstance(workload, CudaWorkload):
        return ()
    description = workload.description(loaded.base)
    notes: dict[str, str] = {}
    for variant in plan.variants:
        if "torch" not in variant.params:
            notes |= dict(_unread(description, variant))
    return tuple(notes.values())


@cache
def read_source(path: Path) -> Source:
    """Look into a file and the files that it includes by quotes, as far as they are there."""
    texts: dict[Path, str] = {}
    waiting, complete = [path], True
    unreadable: list[Path] = []
    while waiting and len(texts) < MAX_INCLUDED:
        file = waiting.pop()
        if file in texts:
            continue
        try:
            texts[file] = _COMMENT.sub(" ", file.read_text(encoding="utf-8", errors="replace"))
        except (FileNotFoundError, NotADirectoryError):
            complete = False  # the compiler may find it elsewhere
            continue
        except OSError:
            complete = False
            unreadable.append(file)
            continue
        waiting += [(file.parent / name).resolve() for name in _INCLUDE.findall(texts[file])]
    source = "\n".join(texts.values())
    words, kernels = frozenset(_WORD.findall(source)), tuple(_kernels(source))
    # That the file itself can be read is looked at with all sources.
    headers = (file for file in dict.fromkeys(unreadable) if file != path)
    return Source(words, kernels, complete, tuple(headers))


def _kernels(text: str) -> Iterator[str]:
    """Names of the `__global__` functions of a text, each once."""
    tokens = _TOKEN.findall(text)
    places = (place for place, word in enumerate(tokens) if word == "__global__")
    names = dict.fromkeys(_function_name(tokens, place + 1) for place in places)
    yield from (name for name in names if name is not None)


def _function_name(tokens: list[str], start: int) -> str | None:
    """The word before the first parenthesis that is no attribute's."""
    place = start
    while place < len(tokens) and tokens[place] not in ";{}":
        if tokens[place] == "(":
            if tokens[place - 1] not in _ATTRIBUTES:
                return tokens[place - 1]
            place = _closing(tokens, place)
        place += 1
    return None


def _closing(tokens: list[str], opening: int) -> int:
    depth = 0
    for place in range(opening, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[place], 0)
        if depth == 0:
            return place
    return len(tokens)


def _header_faults(description: CudaFile, plan: Plan) -> Iterator[Fault]:
    """Headers that are there and cannot be read, each once for each source."""
    launched = (variant.params for variant in plan.variants if "torch" not in variant.params)
    for path in dict.fromkeys(description.source_of(params).resolve() for params in launched):
        for header in read_source(path).unreadable:
            message = f"{path.name} includes {header.name}, which cannot be read"
            yield ("workload", "source"), message


def _kernel_faults(description: CudaFile, variant: Variant) -> Iterator[Fault]:
    path = description.source_of(variant.params).resolve()
    of_variant = {"kernel", "launches"} & variant.params.keys()
    of_workload = "launches" if description.launches else "kernel"
    field: FieldPath = ("variants",) if of_variant else ("workload", of_workload)
    if not path.is_file():
        return
    source = read_source(path)
    macros = description.macros(variant.params)
    for step in description.steps(variant.params):
        kernel = description.kernel_of(step)
        name = kernel.partition("<")[0].rpartition("::")[2].strip()
        if source.complete and name not in source.words and name not in macros:
            hint = did_you_mean(name, source.kernels) or "; it has no __global__ function"
            yield field, f"{path.name} has no kernel '{name}' (variant '{variant.name}'){hint}"


def _unread(description: CudaFile, variant: Variant) -> Iterator[tuple[str, str]]:
    """Parameters and macros of a variant that nothing reads, each with a sentence."""
    params = variant.params
    path = description.source_of(params).resolve()
    source = read_source(path)
    if not source.complete:
        return
    macros = description.macros(params)
    kernels = " ".join(description.kernel_of(step) for step in description.steps(params))
    read = source.words | set(_WORD.findall(kernels))
    read |= {word for value in macros.values() for word in _WORD.findall(str(value))}
    for name in sorted(macros.keys() - read - description.at_launch(params).keys()):
        close = _close_word(name, source)
        yield name, f"The macro '{name}' changes nothing: {path.name} has no such word{close}."
    for name in sorted(params.keys() - description.used(params)):
        hint = f"; as a macro it needs `define: [{name}]`." if name in source.words else ""
        hint = hint or close_hint(name, OVERRIDES)
        yield (
            name,
            f"The parameter '{name}' changes nothing: nothing of the launch reads it{hint or '.'}",
        )


def _close_word(name: str, source: Source) -> str:
    close = difflib.get_close_matches(name, source.words, n=1)
    return f"; it has '{close[0]}'" if close else ""


def _function_faults(text: str, field: FieldPath, base: Path) -> Iterator[Fault]:
    """What is wrong with a function that is named as `FILE.py:FUNCTION`."""
    named = split_function(text)
    if named is None:
        return
    file, function = named
    needed = {function: ("problem", "inputs")}
    yield from ((field, fault) for fault in function_faults(base / file, needed, {}))
