"""Ways to cheat on a real GPU: under ncu and under CUDA events; `python -m pytest -m gpu`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHEATS = ROOT / "tests/runner/workloads/cheats.py"
HONEST = ("honest", "honest, into its output")
FAILED = frozenset({"implausible", "wrong_result", "no_kernel"})
CHEATING = (
    "cached output",
    "skipped work on seen inputs",
    "copy of the reference",
    "half the rows",
    "lower precision",
    "replaced timer",
    "constant output",
    "output written before",
    "reads the poison",
)

pytestmark = pytest.mark.gpu


def outcomes_of(folder, collector, hows):
    """Outcome and cause by way, of one run at a problem far larger than the L2 cache."""
    spec = {
        "name": "cheats",
        "workload": str(CHEATS),
        "variants": {"list": [{"name": how, "params": {"how": how}} for how in hows]},
        "problems": {"matrix": {"rows": [32768], "columns": [8192]}},
        "collect": {
            "collectors": [collector],
            "blocks": 6,
            "final_blocks": 0,
            "explain": False,
            "metrics": ["default"] if collector == "ncu" else ["duration_ns"],
        },
    }
    path = folder / "cheats.yaml"
    path.write_text(json.dumps(spec))
    command = [sys.executable, "-m", "profiler", str(path), "--live", "--out", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode in (0, 4), done.stderr
    (summary,) = folder.glob("cheats/*/summary.json")
    cells = json.loads(summary.read_text("utf-8"))["cells"]
    return {cell["variant_params"]["how"]: (cell["outcome"], cell["cause"]) for cell in cells}


@pytest.mark.parametrize("collector", ["ncu", "cuda_events"])
def test_ways_to_cheat_are_found_and_honest_variants_are_measured(tmp_path, collector):
    outcomes = outcomes_of(tmp_path, collector, (*HONEST, *CHEATING))
    assert {how: outcomes[how][0] for how in HONEST} == dict.fromkeys(HONEST, "measured"), outcomes
    missed = [how for how in CHEATING if outcomes[how][0] not in FAILED]
    assert not missed, outcomes


def test_work_on_a_stream_that_nobody_waits_for_is_found_where_events_time_it(tmp_path):
    """Under ncu kernels are timed one by one, on whatever stream: its number is right."""
    outcomes = outcomes_of(tmp_path, "cuda_events", (HONEST[0], "work on another stream"))
    assert outcomes[HONEST[0]][0] == "measured", outcomes
    outcome, cause = outcomes["work on another stream"]
    assert outcome in {"implausible", "wrong_result"}, cause


def test_a_result_that_is_kept_by_a_key_over_all_inputs_is_not_found(tmp_path):
    """It reads all inputs, and counters cannot tell that from a product with a vector."""
    outcomes = outcomes_of(tmp_path, "ncu", (HONEST[0], "keyed by content"))
    assert outcomes["keyed by content"][0] == "measured", "docs/plausibility.md says that it is not"
