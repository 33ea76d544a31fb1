"""Functions of JAX, whose launches are on streams of its own; needs `jax` (`jax[cuda13]`)."""

import jax
import jax.numpy as jnp
import numpy as np

import profiler

softmaxes = profiler.Experiment("jax-jit", problems={"rows": [256, 2048], "columns": 1024})


@softmaxes.inputs
def inputs(rows, columns):
    return jax.device_put(np.random.rand(rows, columns).astype("float32"))


@softmaxes.reference
def in_numpy(x):
    """JAX makes float32 of float64 unless it is told otherwise."""
    exponentials = np.exp(np.asarray(x, "float64"))
    return exponentials / exponentials.sum(-1, keepdims=True)


@softmaxes.variant(baseline=True)
@jax.jit
def fused(x):
    return jax.nn.softmax(x, axis=-1)


@softmaxes.variant
def step_by_step(x):
    shifted = x - x.max(axis=-1, keepdims=True)
    exponentials = jnp.exp(shifted)
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


@softmaxes.variant
@jax.jit
def over_all(x):
    return jax.nn.softmax(x)[::-1]
