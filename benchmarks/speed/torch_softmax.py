"""Softmax of 16-bit rows by torch, one kernel for a result of 16 or 32 bits, two for 64."""

import torch

RESULTS = {"half": None, "float": torch.float32, "double": torch.float64}
"""Variant → type of the result; None: that of the input."""

TOLERANCES = {"float16": (1e-3, 1e-2), "float32": (1e-4, 1e-3), "float64": (1e-4, 1e-3)}


def make_inputs(problem, device, seed):
    """Rows of normal numbers."""
    generator = torch.Generator(device).manual_seed(seed)
    shape = problem["rows"], problem["columns"]
    return torch.randn(shape, device=device, generator=generator, dtype=torch.float16)


def reference(_problem, inputs):
    """In double precision."""
    return torch.softmax(inputs.double(), dim=-1)


def prepare(variant, _problem, inputs, _library):
    """One launch of torch's kernel."""
    result = RESULTS[variant["result"]]
    return lambda: torch.softmax(inputs, dim=-1, dtype=result)
