"""A batch of sequences of other lengths: padded to the longest, or side by side with offsets."""

import torch

import profiler

means = profiler.Experiment("ragged-batches", problems={"batch": [64], "longest": [2048]})


@means.inputs
def inputs(batch, longest):
    lengths = torch.randint(1, longest // 16, (batch,))
    lengths[0] = longest
    offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    return torch.randn(int(offsets[-1]), 64), offsets


@means.variant(baseline=True)
def segments(tokens, offsets):
    return torch.segment_reduce(tokens, "mean", lengths=offsets.diff(), unsafe=True)


@means.variant
def padded(tokens, offsets, batch, longest):
    """Sixteen times the memory."""
    padding = torch.zeros(batch, longest, tokens.shape[1], device=tokens.device)
    place = torch.arange(longest, device=tokens.device) < offsets.diff()[:, None]
    padding[place] = tokens
    return padding.sum(1) / offsets.diff()[:, None]


@means.variant
def divided_by_longest(tokens, offsets, longest):
    sums = torch.segment_reduce(tokens, "sum", lengths=offsets.diff(), unsafe=True)
    return sums / longest
