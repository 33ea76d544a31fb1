"""torch's attention by one of its backends."""

from __future__ import annotations

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


class SdpaLaunch:
    """A launch of torch's attention; (batch, seq_len, heads, head_dim) in and out."""

    def __init__(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *,
        backend: SDPBackend,
        causal: bool = False,
    ) -> None:
        self._operands = tuple(tensor.transpose(1, 2) for tensor in (query, key, value))
        self._backend = backend
        self._causal = causal

    def __call__(self) -> torch.Tensor:
        """Start torch's kernels; returns the result, which torch allocates."""
        query, key, value = self._operands
        with sdpa_kernel(self._backend):
            result = scaled_dot_product_attention(query, key, value, is_causal=self._causal)
        return result.transpose(1, 2)
