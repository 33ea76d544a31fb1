"""Rounds numbers to a type; each type has its own right result and bound."""

import torch


def make_inputs(problem, device, seed):
    return torch.linspace(0.0, 1.0, problem["columns"], device=device)


def expected(variant, problem, inputs):
    if variant["how"] == "unknown":
        raise KeyError("no such type")
    dtype = getattr(torch, variant["how"].split()[0])
    bound = 1e-3 if "close" in variant["how"] else 0.0
    return inputs.to(dtype), (bound, 0)


def prepare(variant, problem, inputs, library):
    if variant["how"] == "unknown":
        return lambda: inputs
    dtype = getattr(torch, variant["how"].split()[0])
    off = 5e-4 if "off" in variant["how"] else 0.0
    return lambda: (inputs.to(dtype).double() + off).to(dtype)
