"""Findings of the recordings of experiments: each is read once in a worker, for all tests of it.

Files of tests that need them are run by one worker (`READ_RECORDINGS` in conftest.py).
"""

from functools import cache
from pathlib import Path

from profiler.commands.gallery import find_recorded

RECORDINGS = Path(__file__).parents[1] / "experiments/recordings"
findings_of_recording = cache(find_recorded)
