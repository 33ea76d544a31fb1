"""What the experiments of this repository have in common."""

from pathlib import Path

import pytest

from profiler.metrics.queries import expand
from profiler.planning.spec import load_spec

FILES = sorted((Path(__file__).parents[2] / "experiments").glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_ncu_measures_is_held_against_the_roofs(file):
    collect = load_spec(file).experiment.collect
    if "ncu" in collect.collectors:
        assert "roof_dram_pct" in expand(collect.metrics)
