"""Kernel names as people wrote them, from the mangled ones that compilers and ptxas print."""

from __future__ import annotations

import re
from functools import cache

import itanium_demangler

from profiler.model import KERNEL_SEPARATOR

_MANGLED = "_Z"
_NUMBER = re.compile(r"\((?:unsigned )?(?:int|long|long long|short|char)\)(n?)(\d+)")
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
    shown = str(node.name if node.kind == "func" else node)
    shown = _NUMBER.sub(lambda match: "-"[: len(match[1])] + match[2], shown)
    return _BOOL.sub(lambda match: _BOOLS[match[0]], shown) or name
