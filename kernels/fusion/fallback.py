"""Whether a compiled variant ran what inductor made, told by its kernels' names; no torch."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kernels.fusion.operators import COMPILE

_INDUCTOR = re.compile(r"\btriton_")
"""Inductor names what it generates `triton_<heuristic>_fused_<operators>_<number>`."""

_LIBRARY = re.compile(
    r"gemm|gemv|cutlass|cublas|cudnn|nvjet|xmma|conv(?!ert)|winograd|implicit|splitk|"
    r"flash_fwd|fmha|nchw|nhwc|\bsm\d\d_",
    re.IGNORECASE,
)
"""Kernels of cuBLAS, cuDNN and the attention libraries. Inductor calls them as eager code does."""


def fell_back(implementation: str, kernel_names: Sequence[str]) -> bool:
    """Tell whether a compiled variant ran eager kernels only.

    `kernel_names` are those of one launch, as Nsight Compute or torch.profiler print them. Kernels
    of libraries are legitimate by themselves: a product followed by an addition may be one call of
    cuBLAS. Any other kernel means eager code, unless inductor's own stand beside it. Without names
    nothing can be told, and the answer is False.
    """
    if implementation != COMPILE or not kernel_names:
        return False
    if any(_INDUCTOR.search(name) for name in kernel_names):
        return False
    return not all(is_library_kernel(name) for name in kernel_names)


def is_library_kernel(kernel_name: str) -> bool:
    """Tell whether a kernel belongs to cuBLAS, cuDNN or an attention library.

    Only the name before its template arguments counts: those of an eager kernel may name anything.
    """
    name = kernel_name.partition("<")[0]
    return "at::native" not in name and _LIBRARY.search(name) is not None
