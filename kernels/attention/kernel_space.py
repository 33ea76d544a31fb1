"""The space of one attention kernel beside torch's own attention; no torch.

A variant is a configuration of the kernel, or `{implementation: …}`, one of torch's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

from attention.implementations import check_implementation, dtype_of, implementation_name
from attention.parameters import Config, Params
from attention.problem import check_precision, sizes
from profiler.kernels.recipe import Recipe


@dataclass(frozen=True)
class KernelSpace(Generic[Config]):
    """Space of a workload, made from the functions of a kernel's configurations."""

    refusal: Callable[[Params], str | None]
    """Reason why parameters make no variant of the kernel."""
    config_of: Callable[[Params], Config]
    """Configuration of a variant of the kernel; ValueError where it has none."""
    name_of: Callable[[Params], str]
    """Short form of a variant of the kernel."""
    check_kernel: Callable[[Params, Params], str | None]
    """Reason why a variant of the kernel cannot do a problem with its number of elements a head."""
    recipe_of: Callable[[Params], Recipe]
    """Recipe of a variant of the kernel."""

    def variant_name(self, params: Params) -> str | None:
        """Short form of a configuration, or the reference's name; None for other parameters."""
        if "implementation" in params:
            return implementation_name(params)
        return None if self.check_variant(params) is not None else self.name_of(params)

    def check_variant(self, params: Params) -> str | None:
        """Reason why this combination cannot act, or None."""
        if "implementation" in params:
            return check_implementation(params)
        return self.refusal(params)

    def check_cell(self, variant_params: Params, problem_params: Params) -> str | None:
        """Reason why this variant cannot do this problem, or None."""
        reason = check_precision(dtype_of(variant_params, problem_params), problem_params)
        if reason is not None or "implementation" in variant_params:
            return reason
        d_head, head_dim = self.config_of(variant_params).d_head, sizes(problem_params).head_dim
        if d_head != head_dim:
            return f"heads of {head_dim} elements, but the kernel is for {d_head}"
        return self.check_kernel(variant_params, problem_params)

    def recipe(self, params: Params) -> Recipe | None:
        """Recipe of a variant of the kernel; None for torch, which needs no build.

        Raises ValueError with the reason where the parameters make no variant.
        """
        reason = self.check_variant(params)
        if reason is not None:
            raise ValueError(reason)
        return None if "implementation" in params else self.recipe_of(params)
