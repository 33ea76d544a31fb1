"""Inputs of an attention problem, and the right result with the bound of its error.

Q, K, V and O are contiguous (batch, seq_len, heads, head_dim); K and V may be asked for as (batch,
heads, seq_len, head_dim), too. There is no dropout, the lengths are equal, and scores are scaled by
1 / sqrt(head_dim). Q, K and V are standard normal, so that scores have a standard deviation of 1.
Where scores grow, a step of `SCORE_STEP` for every `STEP_KEYS` keys is added to them, from below up
to 0 at the last keys; where they fall, from 0 at the first keys down. A kernel that goes through
the keys in the direction of growth, and rescales what it has summed up only where a maximum grew by
more than 2^8, does so for every tile of at least that many keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from attention.implementations import dtype_of
from attention.parameters import Params
from attention.problem import GROWING, NORMAL, is_causal, scores_of, sizes

ERROR_FACTOR = 2.0
"""How far a kernel may be from plain 16-bit attention, in errors of that against float32: the rule
of the FlashAttention tests."""

TORCH_DTYPES: Mapping[str, torch.dtype] = {"FP16": torch.float16, "BF16": torch.bfloat16}
STEP_KEYS = 64
SCORE_STEP = 12.0
"""2^17: the maximum of the normal part may fall by 2^5 from one tile to the next."""
_SCORE_ELEMENTS = 1 << 29
"""Scores that the expected result has in memory at once: 2 GiB as float32."""


@dataclass(frozen=True)
class Attention:
    """Tensors of one attention in one type; every variant of that type writes to this output."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    output: torch.Tensor


class Inputs:
    """Tensors of one problem in each type and layout, made at a variant's first request."""

    def __init__(self, problem: Params, device: torch.device, seed: int) -> None:
        self.size = sizes(problem)
        self.device = device
        self._seed = seed
        self._causal = is_causal(problem)
        self._scores = scores_of(problem)
        self._attentions: dict[str, Attention] = {}
        self._heads_first: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        self._expected: dict[str, tuple[torch.Tensor, float]] = {}

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Types requested so far."""
        return tuple(self._attentions)

    @property
    def heads_first_dtypes(self) -> tuple[str, ...]:
        """Types of which K and V were requested with heads first."""
        return tuple(self._heads_first)

    def attention(self, dtype: str) -> Attention:
        """Tensors in `FP16` or `BF16`: the same normal values, rounded to the type."""
        if dtype not in self._attentions:
            self._attentions[dtype] = self._make(TORCH_DTYPES[dtype])
        return self._attentions[dtype]

    def heads_first(self, dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of `attention` as (batch, heads, seq_len, head_dim)."""
        if dtype not in self._heads_first:
            tensors = self.attention(dtype)
            self._heads_first[dtype] = (
                tensors.key.transpose(1, 2).contiguous(),
                tensors.value.transpose(1, 2).contiguous(),
            )
        return self._heads_first[dtype]

    def expected(self, dtype: str) -> tuple[torch.Tensor, float]:
        """Plain attention in a type, and the bound of a right result's error."""
        if dtype not in self._expected:
            tensors = self.attention(dtype)
            self._expected[dtype] = expected_attention(
                tensors.query, tensors.key, tensors.value, causal=self._causal
            )
        return self._expected[dtype]

    def _make(self, dtype: torch.dtype) -> Attention:
        generator = torch.Generator(device=self.device).manual_seed(self._seed)
        size = self.size
        shape = (size.batch, size.seq_len, size.heads, size.head_dim)
        query, key, value = (
            torch.randn(shape, generator=generator, device=self.device).to(dtype) for _ in range(3)
        )
        if self._scores != NORMAL:
            # Whole numbers up to 256 are exact in both types.
            step = torch.arange(size.seq_len, device=self.device) // STEP_KEYS
            steps = step - step[-1] if self._scores == GROWING else -step
            query[..., 0] = SCORE_STEP * size.head_dim**0.5
            key[..., 0] = steps[:, None].to(dtype)
        return Attention(query, key, value, torch.empty_like(query))


def make_inputs(problem: Params, device: torch.device, seed: int) -> Inputs:
    """Inputs of a problem; the same for the same seed and kind of device."""
    return Inputs(problem, device, seed)


def other_inputs(problem: Params, inputs: Inputs, seed: int) -> Inputs:
    """Inputs of another seed in each type and layout requested so far."""
    new_inputs = make_inputs(problem, inputs.device, seed)
    for dtype in inputs.dtypes:
        new_inputs.attention(dtype)
    for dtype in inputs.heads_first_dtypes:
        new_inputs.heads_first(dtype)
    return new_inputs


def expected(
    variant: Params, problem: Params, inputs: Inputs
) -> tuple[torch.Tensor, tuple[float, float]]:
    """Plain attention in a variant's type, and the absolute and relative bound of its error."""
    result, bound = inputs.expected(dtype_of(variant, problem))
    return result, (bound, 0.0)


def expected_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, causal: bool = False
) -> tuple[torch.Tensor, float]:
    """Plain attention in the inputs' type, and the largest error that a kernel may have.

    That is twice the largest error of the plain attention itself against float32. Works on some
    heads at a time, because all scores of a long problem do not fit into memory.
    """
    batch, length, heads, head_dim = query.shape
    operands = [
        tensor.transpose(1, 2).reshape(batch * heads, length, head_dim)
        for tensor in (query, key, value)
    ]
    result = torch.empty_like(operands[0])
    error = 0.0
    step = max(1, _SCORE_ELEMENTS // length**2)
    for start in range(0, batch * heads, step):
        part = [operand[start : start + step] for operand in operands]
        result[start : start + step] = _plain_attention(*part, causal=causal)
        precise_result = _plain_attention(*(operand.float() for operand in part), causal=causal)
        error = max(error, float((result[start : start + step] - precise_result).abs().max()))
    return result.view(batch, heads, length, head_dim).transpose(1, 2), ERROR_FACTOR * error


def _plain_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, causal: bool
) -> torch.Tensor:
    """Attention of (heads, seq_len, head_dim) by its definition, in the type of the inputs."""
    scores = query @ key.transpose(1, 2) * query.shape[-1] ** -0.5
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores.masked_fill_(later, -torch.inf)
    return torch.softmax(scores, dim=-1) @ value
