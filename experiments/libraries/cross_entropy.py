"""Softmax with cross-entropy. Packages: torch, liger-kernel (writes the logits), quack-kernels."""

import torch
import torch.nn.functional as F

import profiler

loss = profiler.Experiment("cross-entropy", problems={"rows": 4096, "classes": [4096, 32768]})

@loss.inputs
def normal_bfloat16(rows, classes):
    return torch.randn(rows, classes).bfloat16(), torch.randint(0, classes, (rows,))

@loss.variant(baseline=True, tags="torch")
def eager(logits, target):
    return F.cross_entropy(logits.to(torch.promote_types(logits.dtype, torch.float32)), target)

@loss.variant(setup=True, tags="torch")
def compiled(logits, target):
    return lambda run=torch.compile(eager, dynamic=False): run(logits, target)

@loss.variant(setup=True, in_place=True, tags="library")
def liger(logits, target):
    from liger_kernel.transformers.functional import liger_cross_entropy
    return lambda: liger_cross_entropy(logits, target)

@loss.variant(setup=True, tags="library")
def quack(logits, target):
    from quack.cross_entropy import cross_entropy
    return lambda: cross_entropy(logits, target, reduction="mean")
