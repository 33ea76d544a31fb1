"""Names in words: shortened ones, keys to those of variants, kernels as people wrote them."""

from __future__ import annotations

import re
from functools import cache

import itanium_demangler
import pandas as pd

from profiler.findings.programs import Programs
from profiler.findings.variant_names import JOINT
from profiler.model import KERNEL_SEPARATOR

LONGEST_NAME = 48
"""Characters of a name that figures have room for: as many as the longest label has."""


def shorten(name: str, longest: int = LONGEST_NAME) -> str:
    """Cut a name in its middle, so that both ends stay; a variant's label is never as long."""
    if len(name) <= longest:
        return name
    half = (longest - 1) // 2
    return f"{name[:half]}\u2026{name[-half:]}"


def quoted(label: str) -> str:
    """A label in quotation marks: one of several words, or that may read as a number."""
    return f"\u201c{label}\u201d"


def in_sentence(label: str) -> str:
    """A label as it stands in a sentence: in quotation marks where it has a colon."""
    return quoted(label) if ": " in label else label


def shared_words(programs: Programs) -> str:
    """Sentence on what all variants share; empty where labels are not made of parameters."""
    names = programs.names
    if not names.from_parameters or not names.shared_chips:
        return ""
    texts = ", ".join(names.shared_chips)
    which = "variants" if len(names.family) == len(programs.plan.variants) else "compared"
    return f"All {len(names.family)} {which} have {texts}."


def usual_words(programs: Programs) -> str:
    """Sentence on flags that a label says only where they are off; empty without any."""
    names = programs.names
    if not names.from_parameters or not names.usual_flags:
        return ""
    return f"On unless a name says \u201cno\u201d: {', '.join(names.usual_flags)}."


def label_keys(programs: Programs) -> str:
    """Sentence on what the parts of labels are values of; empty where labels are no parameters."""
    names = programs.names
    keys = [key for key in names.chip_keys if key not in names.usual_flags]
    return f"Names: {JOINT.join(keys)}." if names.from_parameters and keys else ""


def key_to_names(programs: Programs, *, with_shared: bool = True) -> str:
    """Key to the labels in one line; empty where they are plain names.

    `with_shared`: also what all variants share, which no label has.
    """
    shared = shared_words(programs) if with_shared else ""
    return " ".join(filter(None, (label_keys(programs), usual_words(programs), shared)))


# ---- kernels -------------------------------------------------------------------------------------


_MANGLED = "_Z"
_NUMBER = re.compile(r"\((?:unsigned )?(?:int|long|long long|short|char)\)(n?)(\d+)")
_UNNAMED = re.compile(r"_GLOBAL__N_\w*")
"""Name that nvcc gives a namespace without one, of the file and hashes of the compilation."""
_BOOLS = {"(bool)0": "false", "(bool)1": "true"}
_BOOL = re.compile("|".join(map(re.escape, _BOOLS)))
# What the demangler raises on names that it does not know, found by trying damaged ones.
_UNREADABLE = (
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
)


def kernel_list(names: object) -> tuple[str, ...]:
    """The names in a row of the column `kernel_names`: a text, a list, or nothing at all."""
    if isinstance(names, str):
        return tuple(names.split(KERNEL_SEPARATOR)) if names else ()
    if isinstance(names, list | tuple):
        return tuple(str(name) for name in names)
    return ()


def kernels_by_cell(samples: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """Kernels of each cell, by its id, as its first sample that saw any has them."""
    return {cell: lists[0] for cell, lists in kernel_lists_by_cell(samples).items()}


def kernel_lists_by_cell(samples: pd.DataFrame) -> dict[str, list[tuple[str, ...]]]:
    """The different lists of kernels that samples of each cell saw, by its id."""
    if "kernel_names" not in samples.columns:
        return {}
    pairs = samples[["cell", "kernel_names"]].drop_duplicates().astype({"kernel_names": object})
    lists: dict[str, list[tuple[str, ...]]] = {}
    for cell, names in pairs.itertuples(index=False):
        if listed := kernel_list(names):
            lists.setdefault(str(cell), []).append(listed)
    return lists


@cache
def plain_kernel(name: str) -> str:
    """A kernel's name without namespaces, template arguments and parameters, for a sentence.

    `void at::native::elementwise_kernel<(int)128, T>(int, T)` is `elementwise_kernel`; what has no
    name outside brackets stays as it is.
    """
    depth, outside = 0, []
    for letter in name:
        depth += letter in "<("
        if depth == 0:
            outside.append(letter)
        depth -= letter in ">)" and depth > 0
    declaration = "".join(outside).split()
    return declaration[-1].rpartition("::")[2] or name if declaration else name


@cache
def readable_kernel(name: str) -> str:
    """Name and template arguments: `_Z5scaleILi4EfEvPT0_` is `scale<4, float>`.

    Parameters are left out. What is not mangled, or cannot be read, stays as it is.
    """
    if not name.startswith(_MANGLED):
        return name
    try:
        node = itanium_demangler.parse(name)
    except _UNREADABLE:
        return name
    if node is None:
        return name
    readable = str(node.name if node.kind == "func" else node)
    readable = _UNNAMED.sub("(anonymous namespace)", readable)
    readable = _NUMBER.sub(lambda match: "-"[: len(match[1])] + match[2], readable)
    return _BOOL.sub(lambda match: _BOOLS[match[0]], readable) or name
