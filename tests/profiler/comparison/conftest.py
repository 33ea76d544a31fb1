"""Two runs of a small experiment, the second made from the first."""

import pytest
from run_pairs import Pair


@pytest.fixture
def pair(tmp_path):
    return Pair(tmp_path)
