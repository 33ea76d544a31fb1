"""What ncu counts in how many passes on a real GPU, and what is made of it.

What is planned rests on passes that were measured on an H200: elsewhere they may be others.
"""

import csv
import gzip
import io
import json

import pytest
from live_run import run_live

ROWS = 1024
OPERATIONS = 2 * ROWS**3
SAMPLES = 150
"""So many launches of a cell are worth sessions of their own."""
WORKLOAD = """\
import torch


def make_inputs(problem, device, seed):
    generator = torch.Generator(device).manual_seed(seed)
    shape = (problem["rows"], problem["rows"])
    make = lambda: torch.randn(shape, device=device, generator=generator).to(torch.float16)
    return make(), make()


def reference(problem, inputs):
    left, right = inputs
    return left.double() @ right.double()


def prepare(variant, problem, inputs, library):
    left, right = inputs
    if variant["order"] == "as it is":
        return lambda: left @ right
    return lambda: (right.T @ left.T).T


# Results are rounded to 11 bits. Their sums in float32, below 256, may lose two units of 2^-16
# in each of 64 steps of 16 products.
TOLERANCES = {"float16": (2e-3, 1e-3)}
"""

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run whose operations on fp16 are counted in parts."""
    folder = tmp_path_factory.mktemp("counters")
    (folder / "workload.py").write_text(WORKLOAD)
    spec = {
        "name": "counters",
        "workload": "./workload.py",
        "variants": {
            "list": [{"name": name, "params": {"order": name}} for name in ("as it is", "turned")]
        },
        "problems": {"matrix": {"rows": [ROWS], "dtype": ["float16"]}},
        "collect": {
            "blocks": 8,
            "final_blocks": 0,
            "counter_samples": SAMPLES,
            "explain": False,
            "metrics": ["tensor_roofline", "l2_hit_pct", "cycles"],
        },
    }
    path = folder / "counters.yaml"
    path.write_text(json.dumps(spec))
    run_live(path, folder)
    (made,) = (folder / "counters").glob("2*")
    capability = json.loads((made / "run.json").read_text())["environment"]["compute_capability"]
    if capability != "9.0":
        pytest.skip(f"on {capability} one counter has all operations on fp16")
    return made


def rows_of(run, session):
    """Rows of what ncu printed in a session, without that of the units."""
    packed = (run / "raw" / f"{session}.001" / "ncu.csv.gz").read_bytes()
    text = gzip.decompress(packed).decode()
    return list(csv.DictReader(io.StringIO(text[text.index('"ID"') :])))[1:]


def test_each_part_takes_one_pass_and_all_add_up_to_the_declared_operations(run):
    sessions = sorted(folder.name.removesuffix(".001") for folder in (run / "raw").glob("*.001"))
    parts = [session for session in sessions if session.startswith("ncu-counters")]
    assert len(parts) == 2, sessions  # the first has two of the three parts
    for session in parts:
        passes = {row["profiler__replayer_passes"] for row in rows_of(run, session)}
        assert passes == {"1"}, session
    for cell in json.loads((run / "summary.json").read_text())["cells"]:
        counted = cell["metrics"]["tensor_fp16_ops"]
        assert counted["median"] == pytest.approx(OPERATIONS, rel=1e-3)
        assert counted["n"] == SAMPLES
        assert 0 < cell["metrics"]["roof_tensor_fp16_pct"]["median"] < 100
        assert cell["missing_metrics"] == []


def test_each_timed_visit_counts_cycles_where_no_confirmation_does(run):
    assert any("cycles_elapsed.max" in name for name in rows_of(run, "ncu-timing")[0])
    document = json.loads((run / "summary.json").read_text())
    for cell in document["cells"]:
        assert cell["metrics"]["cycles"]["n"] == cell["metrics"]["duration_ns"]["n"]
        clock_ghz = cell["metrics"]["cycles"]["median"] / cell["metrics"]["duration_ns"]["median"]
        assert 0.5 < clock_ghz < 3
    (turned,) = [cell for cell in document["cells"] if cell["variant"] == "turned"]
    assert not turned["metrics"]["duration_ns"]["reason"].endswith("_by_time")


def test_what_inductor_chose_is_counted_as_it_was_timed(tmp_path):
    """Softmaxes of which a session of counters once chose otherwise than that of the durations."""
    cells = "operator=softmax,variant=eager|compile,dim0=128|256|512|1024,dim1=4096|8192"
    run_live("experiments/fusion.yaml", tmp_path, "--no-explain", "--only", cells, timeout_s=400)
    (summary,) = tmp_path.glob("fusion/2*/summary.json")
    compiled = [cell for cell in json.loads(summary.read_text())["cells"] if cell["tuned"]]
    assert len(compiled) == 8
    assert [cell["id"] for cell in compiled if cell["tuned_otherwise"]] == []
