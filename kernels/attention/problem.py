"""Attention problems: their parameters, sizes, operations and bytes; no torch.

A problem has `seq_len` and may have `batch`, `heads`, `head_dim`, `precision` (the only type that
it is about), `is_causal` (queries see no later keys) and `scores` (how large they are).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from attention.parameters import Params, Value

DTYPES = ("FP16", "BF16")
DTYPE_CODES: Mapping[str, int] = {"FP16": 5, "BF16": 15}
"""`c10::ScalarType`: Half and BFloat16."""
ELEMENT_BYTES = 2

HEADS = 16
HEAD_DIM = 128
DTYPE = "BF16"
"""Heads, head dimension and type of problems and variants that name none."""

NORMAL, GROWING, FALLING = SCORES = "normal", "growing", "falling"
"""Scores of standard normal Q and K have a standard deviation of 1. Or the maximum of each query
grows with every tile from the first keys to the last, or falls as much."""

MAX_BATCH = 16
TOKENS = 65536
"""Length times batch from which on a batch of 16 goes down: it is 4 at a length of 16384."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of a problem; Q, K, V and O are (batch, seq_len, heads, head_dim)."""

    batch: int
    seq_len: int
    heads: int
    head_dim: int


def check_problem(params: Params) -> str | None:
    """Reason why this is no attention problem, or None."""
    defaults = {"seq_len": None, "batch": 1, "heads": 1, "head_dim": HEAD_DIM}
    for name in params:
        if name not in defaults and name not in ("precision", "is_causal", "scores"):
            return f"{name} is no size of an attention problem"
    for name, default in defaults.items():
        value = params.get(name, default)
        # bool is an int in Python: `true` would pass as 1.
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            return f"{name} must be a positive whole number, not {value!r}"
    causal = params.get("is_causal", False)
    if not isinstance(causal, bool):
        return f"is_causal must be true or false, not {causal!r}"
    if scores_of(params) not in SCORES:
        return f"scores must be one of {', '.join(SCORES)}, not {params['scores']!r}"
    return check_dtype("precision", params.get("precision", DTYPE))


def check_dtype(name: str, value: Value) -> str | None:
    """Reason why a parameter is no type of the kernels, or None."""
    return None if value in DTYPES else f"{name} must be one of {', '.join(DTYPES)}, not {value!r}"


def sizes(problem: Params) -> Sizes:
    """Sizes of a problem, with defaults filled in.

    Raises ValueError where `check_problem` would give a reason.
    """
    reason = check_problem(problem)
    if reason is not None:
        raise ValueError(reason)
    length = _integer(problem["seq_len"])
    batch = problem.get("batch", max(1, min(MAX_BATCH, TOKENS // length)))
    return Sizes(
        batch=_integer(batch),
        seq_len=length,
        heads=_integer(problem.get("heads", HEADS)),
        head_dim=_integer(problem.get("head_dim", HEAD_DIM)),
    )


def is_causal(problem: Params) -> bool:
    """Whether queries see no later keys."""
    return bool(problem.get("is_causal", False))


def scores_of(problem: Params) -> Value:
    """Name of how the scores of a problem go along the keys: one of `SCORES`."""
    return problem.get("scores", NORMAL)


def check_precision(dtype: str, problem: Params) -> str | None:
    """Reason why a problem does not cover a type, or None."""
    precision = problem.get("precision")
    if precision is None or dtype == precision:
        return None
    return f"the problem is about {precision}, not {dtype}"


SOFTMAX_FLOPS = 6
"""Operations of the softmax for each pair of a query and a key; an exponential counts as one."""


def flops(problem: Params) -> float:
    """Operations of the two products, as the field counts them: 4 b h s² d, half when causal."""
    size = sizes(problem)
    unmasked_flops = 4.0 * size.batch * size.heads * size.seq_len**2 * size.head_dim
    return unmasked_flops / 2 if is_causal(problem) else unmasked_flops


def non_matmul_flops(problem: Params) -> float:
    """Operations of the softmax, over the pairs of a query and a key that it sees."""
    size = sizes(problem)
    length = size.seq_len
    pairs = length * (length + 1) / 2 if is_causal(problem) else length**2
    return float(size.batch * size.heads * SOFTMAX_FLOPS * pairs)


def least_bytes(problem: Params) -> float:
    """Least traffic to device memory: Q, K and V read once, O written once."""
    size = sizes(problem)
    return 4.0 * size.batch * size.seq_len * size.heads * size.head_dim * ELEMENT_BYTES


def _integer(value: Value) -> int:
    if not isinstance(value, int):
        raise TypeError(f"expected a whole number, not {value!r}")
    return int(value)
