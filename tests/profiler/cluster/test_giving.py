"""Which results of workers count, and how long a dead worker is waited for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from profiler.cluster.device import device_of, resources_of
from profiler.cluster.giving import LONGEST_WAIT_S, Arrived, Given, Share
from profiler.cluster.parcels import Parcel, packed
from profiler.errors import EnvironmentUnusable, ProfilerError
from profiler.model import Environment

GPU = Environment(gpu="a GPU")


@dataclass(kw_only=True)
class Pieces(Share[str]):
    """Work that is a word."""

    open: list[str]
    done: list[tuple[str, str]] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    early: list[str] = field(default_factory=list)
    sent: list[Any] = field(default_factory=list)
    is_left: bool = True

    def prepare(self) -> bool:
        return bool(self.open)

    def take_next(self, worker: str) -> str | None:
        del worker
        return self.open.pop(0) if self.open else None

    def submit(self, work: str, worker: str) -> None:
        self.give(work, worker, plan=Mock(variants=()), builds=())

    def take(self, given: Given[str], came: Arrived) -> None:
        assert came.environment == GPU
        self.early.append(came.facts["attempt"])

    def finish(self, given: Given[str], error: ProfilerError | None) -> None:
        if error is None:
            self.done.append((given.work, given.end["by"]))
        else:
            self.open_again(given, error)

    def open_again(self, given: Given[str], error: ProfilerError | None) -> None:
        if error is not None:
            self.failures.append((given.worker, error.message))
        self.open.append(given.work)

    def look(self, *workers: str) -> None:
        """Go on with these workers."""
        team: Any = self.team
        team.addresses.return_value = {name: f"tcp://{name}" for name in workers}
        self._looked = 0.0
        self.is_left = self.go_on()


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Pieces]:
    monkeypatch.setattr("profiler.cluster.giving.source_hashes", Mock())
    monkeypatch.setattr("profiler.cluster.giving.path_from_here", Mock())
    monkeypatch.setattr("profiler.cluster.giving.Order", Mock())
    monkeypatch.setattr("profiler.cluster.giving.asdict", Mock(return_value={}))

    def make(*work: str) -> Pieces:
        team: Any = Mock(device=device_of(GPU), request=MagicMock())
        team.client.submit.side_effect = lambda *_, **__: Mock(status="pending")
        share = Pieces(team=team, open=list(work))
        team.queue.get.side_effect = lambda **_: [share.sent.pop(0) for _ in share.sent[:]]
        return share

    return make


def attempt(name: str) -> Parcel:
    facts = {"attempt": name, "environment": asdict(GPU)}
    return packed(facts, {"session.json": name.encode()})


def finish(
    share: Pieces, given: Given[str], *parcels: Parcel, error: Exception | None = None
) -> None:
    """Have work end after these parcels were sent of it."""
    future: Any = given.future
    future.status = "finished" if error is None else "error"
    future.exception.return_value = error
    share.sent += [(future.key, parcel) for parcel in parcels]


def ended(by: str) -> Parcel:
    return packed({"by": by, "seconds": 1})


def test_only_what_the_newest_worker_measured_counts(pieces: Callable[..., Pieces]) -> None:
    """A worker that was cut off goes on, while another has its problem already."""
    share = pieces("rows=4")
    share.look("first")
    (cut_off,) = share.given
    share.look("second")
    share.look("second")
    share.look("second")
    (heir,) = share.given
    assert (cut_off.worker, heir.worker) == ("first", "second")
    cut_off.future.cancel.assert_called_once()  # type: ignore[attr-defined]
    finish(share, cut_off, ended("first"))
    finish(share, heir, ended("second"))
    share.look("first", "second")
    assert share.done == [("rows=4", "second")]
    assert not share.is_left


def test_an_attempt_that_comes_before_its_work_has_ended_is_taken_once(
    pieces: Callable[..., Pieces],
) -> None:
    share = pieces("rows=4")
    share.look("one")
    (given,) = share.given
    future: Any = given.future
    share.sent = [(future.key, attempt("1")), ("a task given up", attempt("2"))]
    share.look("one")
    assert share.early == ["1"]
    assert share.given == [given]
    finish(share, given, attempt("1"), attempt("2"), ended("one"))
    share.look("one")
    assert share.early == ["1", "2"]
    assert share.done == [("rows=4", "one")]


def test_work_waits_for_its_worker_and_no_other_one_has_it(pieces: Callable[..., Pieces]) -> None:
    share = pieces("rows=4")
    share.look("one")
    (given,) = share.given
    given.since -= 60.0
    share.look("other")
    assert share.given == [given]
    (asked,) = share.team.client.submit.call_args_list  # type: ignore[attr-defined]
    assert asked.kwargs["resources"] == resources_of("a GPU", "one")
    share.look("one")
    assert given.lost is None


def test_each_worker_has_one_piece_at_a_time(pieces: Callable[..., Pieces]) -> None:
    share = pieces("a", "b", "c")
    share.look("one", "two")
    assert {given.worker for given in share.given} == {"one", "two"}
    assert share.open == ["c"]
    finish(share, share.given[0], ended("one"))
    share.look("one", "two")
    assert not share.open


FULL_DISK = OSError(27, "File too large")
FULL_DISK.filename = "ncu.csv"


@pytest.mark.parametrize(
    ("parcel", "error", "words"),
    [
        ({**attempt("1"), "digest": "another"}, None, "refused: the document that arrived is not"),
        (packed({"environment": asdict(Environment(gpu="another"))}, {"a": b""}), None, "another"),
        (ended("one"), EnvironmentUnusable("no permission"), "no permission"),
        (ended("one"), FULL_DISK, "ncu.csv: File too large"),
        (ended("one"), KeyError("x"), "KeyError: 'x'"),
    ],
)
def test_what_is_damaged_or_failed_goes_to_others(
    parcel: Parcel, error: Exception | None, words: str, pieces: Callable[..., Pieces]
) -> None:
    share = pieces("a")
    share.look("one")
    finish(share, share.given[0], parcel, error=error)
    share.look("one", "two")
    ((worker, message),) = share.failures
    assert worker == "one"
    assert words in message
    assert [given.work for given in share.given] == ["a"]


def test_a_scheduler_that_does_not_know_the_work_any_more_is_lost(
    pieces: Callable[..., Pieces],
) -> None:
    share = pieces("a")
    share.look("one")
    future: Any = share.given[0].future
    future.status = "lost"
    with pytest.raises(EnvironmentUnusable, match="connection to the scheduler was lost"):
        share.look("one")


@pytest.mark.parametrize(
    ("measured_s", "patience_s"), [(1.0, 1.0), (60.0, 60.0), (3600.0, LONGEST_WAIT_S)]
)
def test_a_gpu_is_waited_for_as_long_as_it_had_measured(
    measured_s: float, patience_s: float
) -> None:
    begun = Given("rows=4", "GPU-1", "tcp://a", Mock(), since=100.0)
    assert not begun.is_given_up(1e6), "it is there"
    begun.lost = 100.0 + measured_s
    assert begun.patience_s == patience_s
    assert not begun.is_given_up(begun.lost + patience_s)
    assert begun.is_given_up(begun.lost + patience_s + 0.1)
