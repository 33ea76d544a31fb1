"""Two halves on two streams, joined before the launch returns, and one that forgets to join."""

import torch

import profiler

halves = profiler.Experiment("side-stream", problems={"n": [2048]}, collect={"device": "cuda"})


@halves.inputs
def inputs(n, device):
    return torch.randn(n, n), torch.randn(n, n), torch.cuda.Stream(device)


@halves.variant(baseline=True)
def one_stream(a, b, side):
    return torch.sin(a), torch.cos(b)


@halves.variant
def two_streams(a, b, side):
    """Under ncu and CUPTI the sum of both; by the timer they overlap."""
    main = torch.cuda.current_stream()
    side.wait_stream(main)
    with torch.cuda.stream(side):
        second = torch.cos(b)
    first = torch.sin(a)
    main.wait_stream(side)
    return first, second


@halves.variant
def not_joined(a, b, side):
    with torch.cuda.stream(side):
        second = torch.cos(b)
    return torch.sin(a), second
