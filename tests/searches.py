"""A live search of a small space, for tests: one configuration crashes, and one is wrong."""

import json

from whole_runs import TESTS

TILES = str(TESTS / "workloads/tiles.py")
BEST, CRASHES, WRONG = "x=4.y=2", "x=1.y=1", "x=6.y=4"


def write_search(profiler, name, budget):
    """The spec of a search of 24 tiles."""
    return profiler.write_spec(
        name,
        workload=TILES,
        variants={
            "list": [{"name": "base", "params": {"how": "base"}}],
            "matrix": {"x": [1, 2, 3, 4, 5, 6], "y": [1, 2, 3, 4]},
        },
        problems={"matrix": {"rows": [4, 8]}},
        search={"budget": budget, "seed": 3},
        collect={
            "device": "cpu",
            "blocks": 6,
            "final_blocks": 0,
            "repeats": 3,
            "metrics": ["cycles"],
            "warmups": 0,
        },
        page={"kind": "autotune"},
    )


def records_of(run, event):
    """Records of an event in the journal of a run's search."""
    path = run / "search/journal.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [record for record in map(json.loads, lines) if record["event"] == event]
