"""A real run of the small experiment on the CPU: inductor compiles, both versions are measured."""

import json
from pathlib import Path

SPEC = Path(__file__).parents[3] / "experiments" / "fusion_small.yaml"


def test_the_small_experiment_runs_on_a_cpu(profiler):
    done = profiler.measure(
        SPEC,
        *("--only", "operator=pointwise_chain,dim0=512,dim1=128"),  # one compilation of C++, not 32
        *("--set", "collect.device=cpu", "--json", "-"),
    )
    assert done.code == 0, done.err
    cells = json.loads(done.out)["cells"]
    assert len(cells) == 2, "implementations"
    for cell in cells:
        assert cell["outcome"] == "measured"
        assert cell["metrics"]["duration_ns"]["median"] > 0
        assert cell["max_abs_error"] < 1e-3
        assert cell["metrics"]["flops"]["median"] == cell["flops"] > 0
        assert cell["metrics"]["max_abs_error"]["median"] == cell["max_abs_error"]
        assert "peak_bytes" not in cell["metrics"], "nobody counts them on a CPU"
    compiled = [cell for cell in cells if cell["variant_params"]["implementation"] == "compile"]
    assert len(compiled) == 1
    for cell in cells:
        seconds = cell["metrics"].get("compile_s", {}).get("median")
        assert seconds == cell["compile_seconds"]
        assert (seconds is not None and seconds > 0) == (cell in compiled)
        # That nothing is compiled there is no news.
        assert ("compile_s" in cell["missing_metrics"]) == (cell not in compiled)
    (run,) = profiler.runs("fusion_small")
    written = json.loads((run / "summary.json").read_text())
    assert written["cells"] == cells
    assert not [n for n in written["notices"] if n["kind"] == "missing_metrics"]
    assert (run / "compiled" / "inductor").is_dir(), "the caches are the run's own"
