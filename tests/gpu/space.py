"""What to compile for each way of going wrong."""

from pathlib import Path

from profiler.kernels.recipe import Recipe

MODES = {"right": 0, "wrong": 1, "illegal": 2, "hangs": 3, "breaks": "this does not compile"}


def recipe(params):
    """One library per mode and block size; nothing for `too_big` and `torch`."""
    if params["mode"] not in MODES:
        return None
    defines = {"MODE": MODES[params["mode"]], "BLOCK_SIZE": params["block_size"]}
    return Recipe(sources=(Path(__file__).with_name("modes.cu"),), defines=defines)
