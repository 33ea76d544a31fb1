"""A script with arguments that measures when it is run: `python argparse_script.py --n 4096`."""

import argparse

import torch

import profiler

norms = profiler.Experiment("argparse-script", problems={"n": [1_000_000]})


@norms.inputs
def inputs(n):
    return torch.randn(n)


@norms.variant(baseline=True)
def square_root(x):
    return x.square().sum().sqrt()


@norms.variant(passes=[6])
def pass_after_pass(x, passes):
    total = sum(x.square().sum() for _ in range(passes))
    return (total / passes).sqrt()


@norms.variant
def largest(x):
    return x.abs().amax()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--timer", action="store_true", help="CUDA events or the CPU's clock")
    chosen = parser.parse_args()
    settings = {"collect.device": chosen.device, "problems.matrix.n": chosen.n}
    if chosen.timer:
        settings |= {"collect.collectors": "timer", "collect.explain": False}
    print(norms.run(settings=settings).answer)
