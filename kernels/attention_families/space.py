"""Variants of two kernels in one experiment: what is legal, and what to compile; no torch.

A variant is a configuration of `kernels/flash_attention` (mma.sync) or of
`kernels/flash_attention_hopper`: the one that has its fields. Or it is
`{implementation: …}`: one of torch's own, `mma_sync`, the fastest of the first kernel in its
`dtype`, or `hopper`, the fastest of the second at a problem's length and type. Problems are those
of `kernels/attention/problem.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from attention.implementations import (
    SDPA,
    check_implementation,
    dtype_of,
    implementation_name,
)
from attention.parameters import Params, Value
from attention.problem import DTYPE, check_problem, sizes
from flash_attention import config as mma_config
from flash_attention import space as mma_space
from flash_attention import tuning as mma_tuning
from flash_attention_hopper import config as hopper_config
from flash_attention_hopper import space as hopper_space
from flash_attention_hopper import tuning as hopper_tuning
from profiler.kernels.recipe import Recipe

__all__ = [
    "HOPPER",
    "MMA_SYNC",
    "check_cell",
    "check_problem",
    "check_variant",
    "family_variant",
    "recipe",
    "variant_name",
    "variant_sets",
]

MMA_SYNC = "mma_sync"
HOPPER = "hopper"


class _KernelSpace(Protocol):
    def variant_name(self, params: Params) -> str | None: ...
    def check_variant(self, params: Params) -> str | None: ...
    def check_cell(self, variant_params: Params, problem_params: Params) -> str | None: ...
    def variant_sets(self) -> dict[str, list[dict[str, Value]]]: ...
    def recipe(self, params: Params) -> Recipe | None: ...


_SPACES: Mapping[str, _KernelSpace] = {MMA_SYNC: mma_space, HOPPER: hopper_space}
_FIELDS = {MMA_SYNC: (*mma_config.FIELDS, "step"), HOPPER: hopper_config.FIELDS}
_OWN_FIELDS = {
    family: [
        name
        for name in names
        if sum(name in other_fields for other_fields in _FIELDS.values()) == 1
    ]
    for family, names in _FIELDS.items()
}
"""Fields that only one kernel's configurations have."""


def family_variant(variant: Params, problem: Params) -> tuple[str, Params]:
    """Kernel that a variant belongs to at a problem, and its parameters there.

    Torch's own belong to both and count with the first. Raises ValueError with the reason where a
    configuration belongs to none, or to both.
    """
    implementation = variant.get("implementation")
    if implementation is None:
        return _family_of(variant), variant
    if implementation == HOPPER:
        config = hopper_tuning.fastest(dtype_of(variant, problem), sizes(problem).seq_len)
        return HOPPER, config.params()
    return MMA_SYNC, _mma_variant(variant)


def _mma_variant(variant: Params) -> Params:
    if variant["implementation"] != MMA_SYNC:
        return variant
    return mma_tuning.fastest(str(variant.get("dtype", DTYPE)))


def _family_of(config: Params) -> str:
    families = [family for family, names in _OWN_FIELDS.items() if config.keys() & set(names)]
    if len(families) == 1:
        return families[0]
    choices = " or ".join(f"{', '.join(names)} ({name})" for name, names in _OWN_FIELDS.items())
    raise ValueError(f"a configuration needs fields that only its own kernel has: {choices}")


def variant_name(params: Params) -> str | None:
    """Short form of a configuration, or the reference's name; None where it is neither."""
    if "implementation" in params:
        return implementation_name(params)
    if check_variant(params) is not None:
        return None
    return _SPACES[_family_of(params)].variant_name(params)


def check_variant(params: Params) -> str | None:
    """Reason why this combination cannot act, or None."""
    if "implementation" in params:
        return check_implementation(params, (*SDPA, MMA_SYNC, HOPPER))
    try:
        family = _family_of(params)
    except ValueError as error:
        return str(error)
    return _SPACES[family].check_variant(params)


def check_cell(variant_params: Params, problem_params: Params) -> str | None:
    """Reason why this variant cannot do this problem, or None."""
    family, params = family_variant(variant_params, problem_params)
    return _SPACES[family].check_cell(params, problem_params)


def variant_sets() -> dict[str, list[dict[str, Value]]]:
    """Named sets for `variants.sets`: those of both kernels, as `mma_sync_tune`, `hopper_tune`."""
    return {
        f"{family}_{name}": members
        for family, space in _SPACES.items()
        for name, members in space.variant_sets().items()
    }


def recipe(params: Params) -> Recipe | None:
    """Recipe of the variant's own kernel; None for torch, which needs no build.

    Raises ValueError with the reason where the parameters make no variant.
    """
    reason = check_variant(params)
    if reason is not None:
        raise ValueError(reason)
    if "implementation" not in params:
        return _SPACES[_family_of(params)].recipe(params)
    if params["implementation"] == HOPPER:
        return hopper_space.fastest_recipe()
    return mma_space.recipe(_mma_variant(params))
