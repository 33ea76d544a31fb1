"""The bench that a worker keeps between batches of a search."""

import threading
from contextlib import contextmanager
from unittest.mock import Mock

import pytest

from profiler.cluster import on_worker as standing
from profiler.cluster.on_worker import end_standing, kept_bench


class Benches:
    def __init__(self):
        self.made = 0
        self.ended = threading.Event()

    @contextmanager
    def make(self):
        self.made += 1
        yield Mock(), Mock()
        self.ended.set()


@pytest.fixture
def benches():
    yield Benches()
    end_standing()


def test_batches_of_one_search_share_a_bench(benches):
    for _ in range(2):
        with kept_bench("mine", benches.make()):
            assert benches.made == 1
    assert not benches.ended.is_set()
    with kept_bench("another", Benches().make()):
        assert benches.ended.is_set(), "there is one GPU"


def test_it_does_not_outlast_an_error(benches):
    with pytest.raises(OSError, match="full"), kept_bench("mine", benches.make()):
        raise OSError("full")
    assert benches.ended.is_set()


def test_it_does_not_hold_the_gpu_where_no_batch_comes(benches, monkeypatch):
    monkeypatch.setattr(standing, "IDLE_S", 0.0)
    with kept_bench("mine", benches.make()):
        pass
    assert benches.ended.wait(10)
