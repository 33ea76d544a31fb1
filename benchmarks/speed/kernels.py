"""Kernels of torch from 2 us to 20 ms, in half and single precision: what kernels.yaml measures."""

import torch

TOLERANCES = {"float16": (2e-2, 2e-2), "float32": (1e-2, 1e-2)}
_TYPES = {"half": torch.float16, "float": torch.float32}


def _random(device, seed, *shape):
    generator = torch.Generator(device).manual_seed(seed)
    return torch.randn(shape, device=device, generator=generator)


KERNELS = {
    "add 2^14": (lambda x: x + 1, (1 << 14,)),
    "add 2^20": (lambda x: x + 1, (1 << 20,)),
    "add 2^26": (lambda x: x + 1, (1 << 26,)),
    "add 2^29": (lambda x: x + 1, (1 << 29,)),
    "exp 2^22": (torch.exp, (1 << 22,)),
    "gelu 2^24": (torch.nn.functional.gelu, (1 << 24,)),
    "softmax 1024 x 512": (lambda x: torch.softmax(x, -1), (1024, 512)),
    "softmax 8192 x 4096": (lambda x: torch.softmax(x, -1), (8192, 4096)),
    "softmax 32768 x 8192": (lambda x: torch.softmax(x, -1), (32768, 8192)),
    "layer norm 4096 x 4096": (
        lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
        (4096, 4096),
    ),
    "sums of 8192 x 8192": (lambda x: x.mean(-1), (8192, 8192)),
    "sums of 256 x 1024": (lambda x: x.mean(-1), (256, 1024)),
    "transpose 4096": (lambda x: x.t().contiguous(), (4096, 4096)),
    "transpose 16384": (lambda x: x.t().contiguous(), (16384, 16384)),
    "product 512": (lambda x: x @ x, (512, 512)),
    "product 2048": (lambda x: x @ x, (2048, 2048)),
    "product 8192": (lambda x: x @ x, (8192, 8192)),
    "products of 64 x 512": (lambda x: x @ x, (64, 512, 512)),
    "maxima of 4096 x 4096": (lambda x: x.amax(0), (4096, 4096)),
    "sort 2^20": (lambda x: torch.sort(x).values, (1 << 20,)),
}
"""Name of a problem → the operation, and the shape of its argument."""


def make_inputs(problem, device, seed):
    """Normal numbers, scaled so that products of matrices stay near one."""
    _, shape = KERNELS[problem["kernel"]]
    values = _random(device, seed, *shape)
    single = values / shape[-1] ** 0.25 if "product" in problem["kernel"] else values
    return {name: single.to(kind) for name, kind in _TYPES.items()}


def expected(variant, problem, inputs):
    """In double precision, of what the variant gets; with its bounds."""
    operation, _ = KERNELS[problem["kernel"]]
    of_type = str(_TYPES[variant["type"]]).removeprefix("torch.")
    return operation(inputs[variant["type"]].double()), TOLERANCES[of_type]


def prepare(variant, problem, inputs, _library):
    """One launch of torch's kernels."""
    operation, _ = KERNELS[problem["kernel"]]
    argument = inputs[variant["type"]]
    return lambda: operation(argument)
