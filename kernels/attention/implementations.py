"""Variants with a name in place of a configuration: `{implementation: …}`; no torch.

Such a variant may have a `dtype`; where it has none, torch's own take the problem's.
"""

from __future__ import annotations

from collections.abc import Sequence

from attention.parameters import Params
from attention.problem import DTYPE, check_dtype

SDPA = ("sdpa_flash", "sdpa_cudnn", "sdpa_efficient")
"""Backends of torch.nn.functional.scaled_dot_product_attention, as references."""

_PARAMS = ("implementation", "dtype")


def implementation_name(params: Params) -> str:
    """Name of a variant for people: the implementation, and its type if it has one."""
    return "-".join(str(params[name]) for name in _PARAMS if name in params)


def check_implementation(params: Params, names: Sequence[str] = SDPA) -> str | None:
    """Reason why a variant is none of the named implementations, or None."""
    if params["implementation"] not in names:
        return f"implementation must be one of {', '.join(names)}, not {params['implementation']!r}"
    for name in params:
        if name not in _PARAMS:
            return f"{name} has no effect on {params['implementation']}"
    return check_dtype("dtype", params.get("dtype", DTYPE))


def dtype_of(variant: Params, problem: Params) -> str:
    """`FP16` or `BF16`: the type of the variant, else of the problem."""
    default = problem.get("precision", DTYPE) if "implementation" in variant else DTYPE
    return str(variant.get("dtype", default))
