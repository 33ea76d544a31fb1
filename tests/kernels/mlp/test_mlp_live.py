"""A real run of training steps on the CPU: every step is one launch; graphs say why they cannot."""

import json

import pandas as pd
from studies import workload_of

SPEC = """\
name: steps
workload: WORKLOAD
variants: {matrix: {implementation: [eager, graphs]}}
problems: {matrix: {optimizer: [none, adam], layers: 2, width: 32, batch: 8}}
baseline: eager
collect: {collectors: [timer, torch], device: cpu, blocks: 1, final_blocks: 0, repeats: 1,
          warmups: 4, timeline: {launches: 3},
          metrics: [duration_ns, flops, max_abs_error]}
""".replace("WORKLOAD", workload_of("mlp"))

PARTS = ["forward", "layer_1", "layer_2", "backward", "optimizer_step"]


def test_steps_run_on_a_cpu(profiler, tmp_path):
    spec = tmp_path / "steps.yaml"
    spec.write_text(SPEC)
    done = profiler.measure(spec, "--json", "-")
    assert done.code == 4, done.err
    cells = json.loads(done.out)["cells"]
    assert len(cells) == 2 * 2
    for cell in cells:
        implementation = cell["variant_params"]["implementation"]
        if implementation == "graphs":
            assert cell["outcome"] == "raised"
            assert "CUDA graphs need a CUDA device" in cell["cause"]
            continue
        assert cell["outcome"] == "measured"
        assert cell["metrics"]["duration_ns"]["median"] > 0
        assert cell["max_abs_error"] < 1e-3
        assert cell["metrics"]["flops"]["median"] == 2 * 8 * 32 * 32 * 5
        assert cell["compile_seconds"] is None
    (run,) = profiler.runs("steps")
    ranges = pd.read_csv(run / "raw" / "torch.001" / "ranges.csv.gz")
    visits = ranges["name"].str.startswith("cell=").cumsum()
    eager = ranges[
        ranges["name"].str.contains("cell=eager..optimizer=adam").groupby(visits).transform("any")
    ]
    names = [name for name in eager["name"] if name in PARTS or name.startswith("step_")]
    # The check was made in the session before, so the warm-ups are the first four steps.
    assert names == [name for step in (5, 6, 7) for name in (f"step_{step}", *PARTS)]
