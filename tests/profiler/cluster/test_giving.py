"""Which results of workers count, and how long a dead worker is waited for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from profiler.cluster.arrivals import Arrived
from profiler.cluster.device import Device
from profiler.cluster.giving import LONGEST_WAIT_S, Given, Share
from profiler.cluster.parcels import packed
from profiler.errors import EnvironmentUnusable, ProfilerError


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
        self.give(work, worker, Mock(), Mock(), plan=Mock(), builds=())

    def take(self, given: Given[str], facts: dict[str, Any], attempts: Sequence[Arrived]) -> None:
        self.early += [document["attempt"] for document, _ in attempts]
        if "seconds" in facts:
            self.done.append((given.work, facts["by"]))

    def open_again(self, given: Given[str], error: ProfilerError | None) -> None:
        if error is not None:
            self.failures.append((given.worker, error.message))
        self.open.append(given.work)

    def look(self, *workers: str) -> None:
        """Go on with these workers."""
        team: Any = self.team
        team.queue.get.return_value = list(self.sent)
        self.sent.clear()
        team.addresses.return_value = {name: f"tcp://{name}" for name in workers}
        self._looked = 0.0
        self.is_left = self.go_on()


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Pieces]:
    monkeypatch.setattr("profiler.cluster.giving.source_hashes", Mock())
    monkeypatch.setattr("profiler.cluster.giving.path_from_here", Mock())

    def make(*work: str) -> Pieces:
        team: Any = Mock(device=Device("a GPU"))
        team.client.submit.side_effect = lambda *_, **__: Mock(status="pending")
        return Pieces(team=team, run=Mock(), request=MagicMock(), open=list(work))

    return make


def finish(given: Given[str], by: str) -> None:
    future: Any = given.future
    future.status = "finished"
    future.result.return_value = [packed({"by": by, "failed": None, "seconds": 1})]


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
    finish(cut_off, "first")
    finish(heir, "second")
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
    first, second = (packed({"attempt": name}, {"session.json": b"{}"}) for name in ("1", "2"))
    early = packed({"failed": None})
    share.sent = [(future.key, [early, first]), ("a task given up", [early, second])]
    share.look("one")
    assert share.early == ["1"]
    assert share.given == [given]
    future.status = "finished"
    ended = packed({"by": "one", "failed": None, "seconds": 1})
    future.result.return_value = [ended, first, second]
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
    assert asked.kwargs["resources"] == Device("a GPU").resources_of("one")
    share.look("one")
    assert given.lost is None


def test_each_worker_has_one_piece_at_a_time(pieces: Callable[..., Pieces]) -> None:
    share = pieces("a", "b", "c")
    share.look("one", "two")
    assert {given.worker for given in share.given} == {"one", "two"}
    assert share.open == ["c"]
    finish(share.given[0], "one")
    share.look("one", "two")
    assert not share.open


@pytest.mark.parametrize(
    ("parcels", "words"),
    [
        ([{**packed({}), "digest": "another"}], "refused: the document that arrived is not"),
        (
            [
                packed(
                    {
                        "by": "one",
                        "seconds": 1,
                        "failed": {"message": "full", "remedy": None, "exit_code": 3},
                    }
                )
            ],
            "full",
        ),
    ],
)
def test_what_is_damaged_or_failed_goes_to_others(
    parcels: list[Any], words: str, pieces: Callable[..., Pieces]
) -> None:
    share = pieces("a")
    share.look("one")
    future: Any = share.given[0].future
    future.status, future.result.return_value = "finished", parcels
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
