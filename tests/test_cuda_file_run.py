"""A whole run of a described workload on a CPU: what torch can do of it, checked as elsewhere."""

SPEC = """\
name: sums
workload:
  source: sums.cu
  arguments: {x: {shape: [rows, 64]}, y: {shape: rows, output: true, fill: uniform}, scale: 1 / 4}
  grid: 1
  block: 1
  reference: sums.py:reference
  bytes: rows * 65 * size_of('float32')
variants:
  list:
    - {name: sum, torch: y + scale * x.sum(dim=1)}
    - {name: matmul, torch: "torch.addmm(y[:, None], x, full((64, 1), scale))[:, 0]"}
    - {name: wrong, torch: y + x.sum(dim=1)}
problems: {matrix: {rows: [16, 32]}}
tolerance: {float32: {absolute: 1e-5, relative: 1e-5}}
collect: {device: cpu, blocks: 2, repeats: 2, warmups: 1, recheck: always}
"""

REFERENCE = """\
def reference(problem, inputs):
    assert inputs["x"].shape == (problem["rows"], 64)
    return inputs["y"].double() + inputs["x"].double().sum(dim=1) / 4
"""


def test_expressions_of_torch_are_checked_and_measured(profiler):
    spec = profiler.folder / "sums.yaml"
    spec.write_text(SPEC)
    (profiler.folder / "sums.py").write_text(REFERENCE)
    done = profiler(spec, "--timer", "--json", "-", "--no-report")
    assert done.code == 4, done.err
    for cell in done.json["cells"]:
        wrong = cell["variant"] == "wrong"
        assert cell["outcome"] == ("wrong_result" if wrong else "measured"), cell["cause"]
        if wrong:
            assert "tolerance that would pass: {absolute: " in cell["cause"]
        else:
            assert cell["metrics"]["duration_ns"]["n"] == 2
            assert cell["bytes"] == cell["problem_params"]["rows"] * 65 * 4
