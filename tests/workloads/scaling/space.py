"""What to compile for each way to scale; no torch."""

from pathlib import Path

from profiler.kernels.recipe import Recipe

SOURCE = Path(__file__).parent / "scale.cu"


def recipe(params):
    if params["how"] == "torch":
        return None
    defines = {"UNROLL": params.get("unroll", 1), "SPARE": params.get("spare", 0)}
    if params["how"] == "broken":
        defines["BROKEN"] = 1
    return Recipe(sources=(SOURCE.resolve(),), defines=defines)
