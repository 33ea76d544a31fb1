"""Logs of nvcc: static facts of kernels, by `ptxas -v`, and errors.

The messages of one kernel, as nvcc 11 to 13 print them; other lines may stand between:

    ptxas info    : Compiling entry function 'scale' for 'sm_90'
    ptxas info    : Function properties for scale
        0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
    ptxas info    : Used 8 registers, used 1 barriers, 256 bytes smem, 380 bytes cmem[0]

Errors stand in the same log; some are assertions of the launcher of a `.cu` file:

    launcher.cu(7): error: static assertion failed with "profiler: argument 1 of the kernel (x): …"
      static_assert(…);
      ^
    1 error detected in the compilation of "launcher.cu".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from profiler.model import KernelFacts

_ENTRY = re.compile(r"Compiling entry function '(?P<name>[^']+)' for '(?P<arch>[^']+)'")
_PROPERTIES = re.compile(r"Function properties for '?(?P<name>[^\s']+)")
_STACK = re.compile(
    r"(?P<stack>\d+) bytes stack frame, "
    r"(?P<store>\d+) bytes spill stores, (?P<load>\d+) bytes spill loads"
)
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_CONSTANT = re.compile(r"(\d+) bytes cmem\[\d+\]")
_FAULT = re.compile(r'\S.*: static assertion failed with "profiler: (?P<sentence>.+)"')
_BLANK = re.compile(r"\n[ \t]*\n")
_FOLLOWING_ERROR = "<error-type>"
"""Type that nvcc gives to an expression that it has refused already."""
_AMBIGUOUS = re.compile(
    r'"std::make_tuple" matches the argument list.*std::make_tuple\((?P<kernels>.+)\);', re.DOTALL
)
_WARNING = re.compile(r".*\bwarning\b.*:|Remark: ")
"""First line of a message of nvcc that is no error."""
_REMEDIES = {
    # Instructions of one architecture alone have their place in its `a` form only.
    r"ptxas .*; error\s*: (.+) not supported on \.target '(sm_\d+)'": (
        "{0} not supported on {1}: where the GPU has it, say `build: {{arch: {1}a}}`"
    ),
    r"ptxas .*; error\s*: (.+ requires )\.target (sm_.+)": (
        "{0}{1}: compile for such a GPU (`build: {{arch: …}}`, or `--arch`)"
    ),
    r"ptxas .*; error\s*: (.+)": "{0} (in assembly of the source, as ptxas says)",
    r"ptxas error\s*: Entry function '(.+)' uses too much shared data \((.+) bytes, (.+) max\)": (
        "kernel {0} declares {1} bytes of shared memory, and {2} are the most: take dynamic shared "
        "memory (`extern __shared__`) and say `shared: BYTES`"
    ),
    r".*ld: cannot find -l([^\s:]+).*": (
        "the linker finds no library {0}: name its folder (`build: {{flags: [-LFOLDER]}}`)"
    ),
    r".*undefined reference to `(.+)'": (
        "nothing defines '{0}': include the file that does, or name its library "
        "(`build: {{flags: [-lNAME]}}`)"
    ),
    r"(.+?:\d+):\d+: fatal error: ((?:torch|ATen|c10|pybind11)/.+): No such file .*": (
        "{0}: there is no {1}: load an extension of torch in a Python file, whose functions are "
        "measured (docs/python.md), or put its kernels into a file of their own"
    ),
    r"(.+?:\d+):\d+: fatal error: (.+): No such file .*": (
        "{0}: there is no {1}: name its folder, from that of the experiment file (`build: "
        "{{flags: [-IFOLDER]}}`)"
    ),
    r"(.+)\((\d+)\): error: kernel launch from .* requires separate compilation mode": (
        "{0}:{1}: a kernel that launches kernels needs `build: {{flags: [-rdc=true]}}`"
    ),
    r"(.+)\((\d+)\): error: texture is not a template": (
        "{0}:{1}: this CUDA has no texture references, only objects that host code makes: read the "
        "memory by a pointer, or write a workload in Python (docs/workloads.md)"
    ),
}
"""Sentence with a remedy by pattern of a line of nvcc, ptxas or the linker."""
_ERROR_OF_NAME = re.compile(
    r"\s*(?:.*/)?launcher\.cu\(\d+\): error: (?P<what>.+)\n.*std::make_tuple\((?P<kernels>.+)\);",
    re.DOTALL,
)
"""An error in the only line of the launcher that names the kernels."""
_ERROR_OF_LAUNCHER = re.compile(
    r"\s*(?:.*/)?launch(?:er\.cu|\.cuh)\(\d+\): error: (?!static assertion)(?P<what>.+)"
)
"""First line of an error in the launcher: its macros follow in hundreds of lines."""
_SERIALIZED = re.compile(
    r"wgmma\.mma_async instructions are serialized due to (.+?)"
    r"(?: (?:in|for) (?:the )?function .*)?$"
)
_NO_ERROR = re.compile(
    rf"^\d+ errors? detected in the compilation of .+|ptxas info|^\s*{_STACK.pattern}"
)
"""Part of a line that is no error: a count of errors, or facts of a kernel."""


def parse_ptxas_log(text: str) -> tuple[KernelFacts, ...]:
    """Facts of each `__global__` function in a log of ptxas, in its order.

    Names are as ptxas prints them (mangled unless `extern "C"`). Functions that are not kernels are
    left out. A log of several architectures gives a kernel once for each. A fact that the log does
    not hold is None.
    """
    kernels: dict[tuple[str, str], KernelFacts] = {}
    entry: tuple[str, str] | None = None
    function: str | None = None
    for line in text.splitlines():
        if match := _ENTRY.search(line):
            entry, function = (match["arch"], match["name"]), None
            kernels[entry] = KernelFacts(match["name"])
        elif match := _PROPERTIES.search(line):
            function = match["name"]
        elif entry is not None:
            kernels[entry] = _with_facts_of_line(line, kernels[entry], function)
    return tuple(kernels.values())


def serialized_wgmma(text: str) -> str:
    """Why ptxas serialised `wgmma` (C7510 to C7514); empty where it did not.

    Each product then waits for the one before, and the kernel takes several times as long.
    """
    reasons = (_SERIALIZED.search(line) for line in text.splitlines())
    return next((match[1] for match in reasons if match is not None), "")


def _with_facts_of_line(line: str, facts: KernelFacts, function: str | None) -> KernelFacts:
    """Facts with those of one line added; properties of another function are left out."""
    if (match := _STACK.search(line)) and function == facts.name:
        return replace(
            facts,
            stack_bytes=int(match["stack"]),
            spill_store_bytes=int(match["store"]),
            spill_load_bytes=int(match["load"]),
        )
    if match := _REGISTERS.search(line):
        return replace(
            facts,
            registers=int(match[1]),
            # ptxas leaves smem out of this line where a kernel declares none: a known zero.
            shared_bytes=_total(_SHARED.findall(line)) or 0,
            # cmem, in contrast, nvcc 13 leaves out for sm_90 although kernels have parameters.
            constant_bytes=_total(_CONSTANT.findall(line)),
        )
    return facts


def _total(numbers: Iterable[str]) -> int | None:
    values = [int(number) for number in numbers]
    return sum(values) if values else None


def error_lines(log: str) -> tuple[str, ...]:
    """Lines of a failed compilation that explain it, each error of the launcher once.

    Facts of kernels, which are compiled when the linker fails, are left out.

    Where only the launcher's assertions (profiler/kernels/cuda_file/src/launch.cuh) failed, their
    sentences alone; else all lines without them: the arguments of a kernel that does not compile
    explain nothing, and variants of one source then have the same lines.
    """
    lines = [line for line in _lines_of_causes(log) if line.strip() and not _NO_ERROR.search(line)]
    if (sentence := next(_sentences_with_remedies(lines), None)) is not None:
        return (sentence,)
    faults = [match["sentence"] for match in map(_FAULT.fullmatch, lines) if match is not None]
    other_lines = tuple(_lines_without_launcher_faults(lines))
    if faults and not any("error" in line for line in other_lines):
        return tuple(dict.fromkeys(faults))
    return other_lines


def _lines_of_causes(log: str) -> list[str]:
    """Lines of a log without the errors that follow from other errors.

    One sentence where only a kernel's name is at fault: it does not name one function.
    """
    blocks = _BLANK.split(log)
    ambiguous = [match for match in map(_AMBIGUOUS.search, blocks) if match is not None]
    causes = [
        block for block in blocks if _FOLLOWING_ERROR not in block and not _AMBIGUOUS.search(block)
    ]
    errors_of_name = [match for match in map(_ERROR_OF_NAME.match, causes) if match is not None]
    if errors_of_name:
        kernel, what = errors_of_name[0]["kernels"], errors_of_name[0]["what"]
        is_unknown = what == f'identifier "{kernel}" is undefined'
        hint = f"; in a namespace its name is NAMESPACE::{kernel}" if is_unknown else ""
        return [f"kernel '{kernel}': {what}{hint}"]
    if any("error:" in block for block in causes):
        errors = (block for block in causes if not _WARNING.match(block.lstrip()))
        return "\n".join(map(_without_macros, errors)).splitlines()
    if ambiguous:
        return [
            f"kernel '{ambiguous[0]['kernels']}' is not one function: give every template argument "
            "that has no default, or choose one of several functions of this name by "
            "static_cast<void (*)(TYPES)>(NAME), or by ::NAME where a namespace in use has another"
        ]
    return log.splitlines()


def _without_macros(block: str) -> str:
    """An error; an error in the launcher as one line on the arguments."""
    match = _ERROR_OF_LAUNCHER.match(block)
    return block if match is None else f"error: {match['what']} (workload.arguments)"


def _sentences_with_remedies(lines: Iterable[str]) -> Iterator[str]:
    """Sentence with a remedy for each error that has one in `_REMEDIES`."""
    for line in lines:
        for pattern, sentence in _REMEDIES.items():
            if match := re.fullmatch(pattern, line):
                yield sentence.format(*match.groups())
                break


def _lines_without_launcher_faults(lines: Iterable[str]) -> Iterator[str]:
    """Lines without the launcher's assertions and the indented lines below them."""
    inside = False
    for line in lines:
        inside = _FAULT.fullmatch(line) is not None or (inside and line[0].isspace())
        if not inside:
            yield line
