"""Results as a mapping, with a number, an empty array and a view among them."""

import numpy as np

import profiler

statistics = profiler.Experiment("outputs-of-all-shapes", problems={"n": [0, 7, 1000]})


@statistics.inputs
def inputs(n):
    return {"x": np.random.rand(n, 4).astype("float32")}


@statistics.variant(baseline=True)
def at_once(x):
    return {"sum": x.sum(), "first": x[:1].copy(), "even": (2 * x)[::2], "count": len(x)}


@statistics.variant
def by_columns(x):
    total = sum(x[:, column].sum() for column in range(4))
    return {"count": len(x), "even": x[::2] + x[::2], "first": x[:1].copy(), "sum": total}


@statistics.variant
def wrong_count(x):
    return {**at_once(x), "count": len(x) + 1}
