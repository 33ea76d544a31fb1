"""Which mistakes the check of results sees without a tolerance, and whether it refuses right ones.

python benchmarks/check/mistakes.py [--device cuda] [--dtype bfloat16] [--markdown FILE]

Each operation's own result is the baseline's. Its results with a mistake are compared with the
reference as those of a variant; so are results that are right, but rounded in another way. Exit
code 1 where a right one is refused.

In bfloat16, operations that torch lacks there are left out, and those whose own result is no right
one in float64: quantized numbers, and gradients of deep nets.
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_map

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))

from operations import NOT_IN_BFLOAT16, OPERATIONS  # noqa: E402

from profiler.runner.checks.check import WrongResultError, as_tensors, compare  # noqa: E402
from profiler.runner.checks.rounding import Rounding, rounding_in  # noqa: E402
from profiler.runner.experiment import Experiment  # noqa: E402
from profiler.runner.functions import FunctionWorkload  # noqa: E402

Change = Callable[[torch.Tensor], torch.Tensor]


def _last_zero(x: torch.Tensor) -> torch.Tensor:
    flat = x.flatten().clone()
    flat[-1] = 0
    return flat.view(x.shape)


def _first_two_swapped(x: torch.Tensor) -> torch.Tensor:
    flat = x.flatten().clone()
    flat[:2] = flat[:2].flip(0)
    return flat.view(x.shape)


def _smallest_zero(share: float) -> Change:
    def zeroed(x: torch.Tensor) -> torch.Tensor:
        count = max(1, int(share * x.numel()))
        return torch.where(x.abs() <= x.abs().flatten().kthvalue(count).values, 0.0, x)

    return zeroed


MISTAKES: dict[str, Change] = {
    "the last element is 0": _last_zero,
    "two neighbours are swapped": _first_two_swapped,
    "elements are a place off": lambda x: x.flatten().roll(1).view(x.shape),
    "the smaller half is 0": _smallest_zero(0.5),
    "the smallest tenth is 0": _smallest_zero(0.1),
    "the last row is 0": lambda x: torch.cat([x[:-1], 0 * x[-1:]]) if x.dim() else x,
    "all are 1.02 times as large": lambda x: x * 1.02,
    "all are 1.0001 times as large": lambda x: x * 1.0001,
    "rounded to bfloat16": lambda x: x.bfloat16().float(),
    "rounded to float16": lambda x: x.half().float(),
}
OF_FLOAT32 = [*MISTAKES][-3:]
"""Mistakes that are none in bfloat16."""


def refused(result: Any, expected: tuple[torch.Tensor, ...], rounding: Any) -> bool:
    """Whether the check says that a result is wrong."""
    try:
        compare(as_tensors(result, "the result"), expected, rounding=rounding)
    except WrongResultError:
        return True
    return False


def right_result(
    function: Callable[..., Any], inputs: tuple[Any, ...], device: torch.device
) -> tuple[tuple[torch.Tensor, ...], Rounding]:
    """The right result of a baseline, and what rounding explains in it."""
    experiment = Experiment("check")
    experiment.inputs(lambda: inputs)
    experiment.variant(name="baseline")(function)
    workload = FunctionWorkload(experiment)
    reference = workload.reference({}, workload.make_inputs({}, device, 0))
    return as_tensors(reference.result, "the reference"), rounding_in(reference)


def in_type(value: Any, dtype: torch.dtype) -> Any:
    """A module or tensor with its floating-point numbers in a type."""
    if isinstance(value, torch.nn.Module):
        return copy.deepcopy(value).to(dtype)
    is_real = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.to(dtype) if is_real else value


def _in_float64(function: Callable[..., Any], inputs: tuple[Any, ...], dtype: torch.dtype) -> Any:
    """The result of a function in float64, rounded once."""
    wide = function(*(in_type(value, torch.float64) for value in inputs))
    return tree_map(lambda t: in_type(t, dtype), wide)


@torch.no_grad()  # as in the runner
def tried(
    name: str, device: torch.device, dtype: torch.dtype = torch.float32
) -> tuple[dict[str, bool | None], list[str]]:
    """Whether each mistake is refused, None where it changes nothing; right results refused."""
    function, make = OPERATIONS[name]
    torch.manual_seed(0)
    inputs = tuple(in_type(value.to(device), dtype) for value in make())
    expected, rounding = right_result(function, inputs, device)
    result = function(*inputs)
    tensors = as_tensors(result, "the result")
    seen: dict[str, bool | None] = {}
    for mistake, change in MISTAKES.items():
        if dtype != torch.float32 and mistake in OF_FLOAT32:
            continue
        changed = [change(t) if t.is_floating_point() else t for t in tensors]
        is_same = all(map(torch.equal, changed, tensors))
        seen[mistake] = None if is_same else refused(changed, expected, rounding)
    right = {"its own": result, "in float64": _in_float64(function, inputs, dtype)}
    return seen, [
        how for how, right_result in right.items() if refused(right_result, expected, rounding)
    ]


def main() -> int:
    """Try all; 1 where a right result is refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    by_mistake: dict[str, dict[str, bool]] = {mistake: {} for mistake in MISTAKES}
    objections, dtype = 0, getattr(torch, options.dtype)
    names = [name for name in OPERATIONS if dtype == torch.float32 or name not in NOT_IN_BFLOAT16]
    for name in names:
        seen, wrongly_refused = tried(name, torch.device(options.device), dtype)
        for mistake, is_refused in seen.items():
            if is_refused is not None:
                by_mistake[mistake][name] = is_refused
        for how in wrongly_refused:
            objections += 1
            print(f"{name}: the right result ({how}) is refused")
    rows = [
        f"| {mistake} | {sum(of.values())} of {len(of)} | "
        f"{', '.join(name for name, is_refused in of.items() if not is_refused)} |"
        for mistake, of in by_mistake.items()
        if of
    ]
    table = "\n".join(["| mistake | refused in | not in |", "|---|---|---|", *rows])
    print(table)
    print(f"{2 * len(names)} right results: {objections} refused")
    if options.markdown is not None:
        options.markdown.write_text(table + "\n")
    return min(objections, 1)


if __name__ == "__main__":
    raise SystemExit(main())
