"""Whether a compiled variant ran inductor's kernels, by their names; no torch."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fusion.operators import COMPILE

_INDUCTOR = re.compile(r"\btriton_")
"""Names of inductor's kernels: `triton_<heuristic>_fused_<operators>_<number>`."""

_LIBRARY = re.compile(
    r"gemm|gemv|cutlass|cublas|cudnn|nvjet|xmma|conv(?!ert)|winograd|implicit|splitk|"
    r"flash_fwd|fmha|nchw|nhwc|\bsm\d\d_",
    re.IGNORECASE,
)
"""Kernels of cuBLAS, cuDNN and the attention libraries. Inductor calls them as eager code does."""

_UNNAMED = re.compile(r"(?:<unnamed>|\(anonymous namespace\))::")
"""Unnamed namespaces as ncu and torch.profiler print them."""


def fell_back(
    implementation: str, kernel_names: Sequence[str], *, library_alone: bool = True
) -> bool:
    """Whether a compiled variant ran eager kernels only.

    `kernel_names` are those of one launch, as Nsight Compute or torch.profiler print them. Kernels
    of libraries are legitimate by themselves: a product followed by an addition may be one call of
    cuBLAS; not so where `library_alone` is False, because something is left to generate. Any other
    kernel means eager code, unless inductor's own stand beside it. Without names nothing can be
    told, and the answer is False.
    """
    if implementation != COMPILE or not kernel_names:
        return False
    if any(_INDUCTOR.search(name) for name in kernel_names):
        return False
    return not (library_alone and all(is_library_kernel(name) for name in kernel_names))


def plain_name(kernel_name: str) -> str:
    """Name of a kernel without result, template arguments, parameters and unnamed namespaces."""
    name = _UNNAMED.sub("", kernel_name.removeprefix("void "))
    return name.partition("<")[0].partition("(")[0]


def is_library_kernel(kernel_name: str) -> bool:
    """Whether a kernel belongs to cuBLAS, cuDNN or an attention library.

    Only its plain name counts: the template arguments of an eager kernel may name anything.
    """
    name = plain_name(kernel_name)
    return "at::native" not in name and _LIBRARY.search(name) is not None
