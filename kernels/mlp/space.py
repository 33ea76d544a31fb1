"""Implementations and problems of the multilayer perceptron: what is legal; no torch.

A variant is `{implementation: …}`. A problem is `{optimizer: …}` and may have its sizes: `layers`,
`width` and `batch`. Nothing is compiled by the orchestrator, so there is no recipe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fusion.fallback import fell_back, plain_name

Params = Mapping[str, str | int | float | bool | None]

EAGER, COMPILE, GRAPHS = "eager", "compile", "graphs"
IMPLEMENTATIONS = (EAGER, COMPILE, GRAPHS)

NONE, ADAM = "none", "adam"
OPTIMIZERS = (NONE, ADAM)

SIZES: Mapping[str, int] = {"layers": 8, "width": 1024, "batch": 128}
"""Linear layers with a GeLU after each, features of each, and rows of the batch, by default."""

_FLOAT_BYTES = 4
_ADAM_ACCESSES = 6
"""Parameter and two moments, each read and written."""


def variant_name(params: Params) -> str:
    """`eager`, `compile`, `graphs`."""
    return str(params.get("implementation"))


def check_variant(params: Params) -> str | None:
    """Reason why this is no implementation, or None."""
    for name in params:
        if name != "implementation":
            return f"{name} is no parameter of an implementation"
    return _choice_refusal("implementation", IMPLEMENTATIONS, params.get("implementation"))


def check_problem(params: Params) -> str | None:
    """Reason why this is no training step, or None."""
    for name, value in params.items():
        if name == "optimizer":
            continue
        if name not in SIZES:
            return f"{name} is no size of the network; its sizes are {', '.join(SIZES)}"
        # bool is an int in Python: `true` would pass as 1.
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            return f"{name} must be a positive whole number, not {value!r}"
    return _choice_refusal("optimizer", OPTIMIZERS, params.get("optimizer"))


def check_kernels(
    variant_params: Params, problem_params: Params, kernel_names: Sequence[str]
) -> str | None:
    """Reason why launched kernels are not those of the variant, or None."""
    del problem_params
    implementation = str(variant_params["implementation"])
    if not fell_back(implementation, kernel_names, library_alone=False):
        return None
    return (
        f"fell back: the step was compiled, but of its {len(kernel_names)} kernels none is "
        f"inductor's; the first is {plain_name(kernel_names[0])}"
    )


def sizes(problem: Params) -> dict[str, int]:
    """`layers`, `width` and `batch`; ValueError where `check_problem` would give a reason."""
    reason = check_problem(problem)
    if reason is not None:
        raise ValueError(reason)
    return {name: int(problem.get(name, default) or 0) for name, default in SIZES.items()}


def has_adam(problem: Params) -> bool:
    """Whether a step ends with an update by Adam."""
    return problem.get("optimizer") == ADAM


def total_flops(problem: Params) -> float:
    """Operations of the matrix products of a step, without any other operations.

    A layer has one product on the way forward and two on the way back: the gradient of its weights,
    and that of its input, which the first layer does not need.
    """
    size = sizes(problem)
    product = 2.0 * size["batch"] * size["width"] ** 2
    return product * (3 * size["layers"] - 1)


def least_bytes(problem: Params) -> float:
    """Least traffic to device memory: inputs and parameters read once, gradients written once.

    Adam reads and writes the parameters and its two moments besides.
    """
    size = sizes(problem)
    width = size["width"]
    parameters = size["layers"] * (width * width + width)
    data = 2 * size["batch"] * width  # the input and the target
    accesses = _ADAM_ACCESSES if has_adam(problem) else 1
    return float(_FLOAT_BYTES * (data + parameters * (accesses + 1)))


def _choice_refusal(parameter: str, choices: Sequence[str], value: object) -> str | None:
    return (
        None
        if value in choices
        else f"{parameter} must be one of {', '.join(choices)}, not {value!r}"
    )
