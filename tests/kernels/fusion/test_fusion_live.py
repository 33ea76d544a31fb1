"""A real run of the small experiment on the CPU: inductor compiles, both versions are measured."""

import json
from pathlib import Path

SPEC = Path(__file__).parents[3] / "experiments" / "fusion_small.yaml"
ONLY = "dim0=64|512,dim1=512"


def test_the_small_experiment_runs_on_a_cpu(profiler):
    done = profiler.measure(
        SPEC,
        *("--only", ONLY, "--set", "collect.device=cpu", "--json", "-"),
        TORCHINDUCTOR_CACHE_DIR=str(profiler.folder / "inductor"),
    )
    assert done.code == 0, done.err
    cells = json.loads(done.out)["cells"]
    assert len(cells) == 2 * 2 * 2
    for cell in cells:
        assert cell["outcome"] == "measured"
        assert cell["metrics"]["duration_ns"]["median"] > 0
        assert cell["max_abs_error"] < 1e-3
    compiled = [cell for cell in cells if cell["variant_params"]["implementation"] == "compile"]
    assert len(compiled) == 4
