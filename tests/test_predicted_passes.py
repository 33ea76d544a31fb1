"""The script that asks NVIDIA's library which metrics do not share a pass."""

import sys
from pathlib import Path
from random import Random

import pytest

from profiler.errors import EnvironmentUnusable
from profiler.metrics.passes import conflicts

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks" / "speed"))

from predicted_passes import PassScheduler, conflicts_of, minimal_misfits


def test_conflicts_are_what_the_library_of_nvidia_says(tmp_path):
    """Where a CUDA toolkit with CUPTI is installed, and of one chip."""
    folders = [found.parent for found in Path("/usr/local").glob("cuda*/**/libnvperf_host.so")]
    if not folders:
        pytest.skip("no CUPTI here")
    recorded = sorted(map(sorted, conflicts("9.0")))
    assert sorted(conflicts_of("9.0", PassScheduler(folders[0]), recorded)) == recorded
    with pytest.raises(EnvironmentUnusable, match="cannot be loaded"):
        PassScheduler(tmp_path)


@pytest.mark.parametrize("seed", range(20))
def test_the_smallest_misfits_are_found_whatever_was_expected(seed):
    random = Random(seed)  # noqa: S311 - no secret
    names = "abcdefg"
    bad = [frozenset(random.sample(names, random.choice((1, 2, 2, 3)))) for _ in range(5)]
    minimal = {each for each in bad if not any(other < each for other in bad)}

    def fit(chosen):
        return not any(each <= {*chosen} for each in bad)

    others = [frozenset(random.sample(names, 2)) for _ in range(3)]
    for expected in ((), minimal, [*minimal][1:], others):
        assert minimal_misfits(names, fit, expected) == minimal
