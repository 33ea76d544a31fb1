"""Which results of workers count, and what becomes of work whose worker is gone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from profiler.cluster.giving import Share, Team
from profiler.cluster.on_worker import device_of, resources_of
from profiler.cluster.parcels import packed_run
from profiler.errors import EnvironmentUnusable
from profiler.model import Environment, Span
from profiler.run_folder.folder import AttemptRecord, RunFolder, RunRecord
from profiler.run_folder.workers import note_environment

GPU = Environment(gpu="a GPU")
SPAN = Span("ncu-timing.001", "measures", 0.0, 1.0)


@dataclass(kw_only=True)
class Pieces(Share):
    """Work that is a word."""

    done: list[tuple[str, str]] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    sent: list[Any] = field(default_factory=list)
    is_left: bool = True

    def prepare(self):
        return bool(self.open)

    def take_next(self, worker):
        del worker
        ids, self.open = self.open[:1], self.open[1:]
        return ids

    def submit(self, piece):
        return self.team.submit(piece.address, Mock(), ())

    def take(self, piece, arrived, environment):
        assert environment == GPU
        self.taken.append(len(arrived.attempts()))

    def finish(self, piece, error):
        if error is None:
            assert piece.spans == (SPAN,)
            self.done.append((str(piece), piece.worker))
        else:
            self.failures.append((piece.worker, error.message))
            self.put_back(piece)

    def put_back(self, piece):
        self.open += piece.ids

    def look(self, *workers):
        """Go on with these workers."""
        self.team.client.scheduler_info.return_value = {
            "workers": {
                f"tcp://{name}": {"name": name, "resources": resources_of("a GPU")}
                for name in workers
            }
        }
        self._looked_at = 0.0
        self.is_left = self.advance()


@pytest.fixture
def pieces(monkeypatch, tmp_path):
    monkeypatch.setattr("profiler.cluster.giving.source_hashes", Mock())
    monkeypatch.setattr("profiler.cluster.giving.variables_now", Mock())
    monkeypatch.setattr("profiler.cluster.giving.SentSpec", Mock())
    monkeypatch.setattr("profiler.cluster.giving.TaskOrder", Mock())
    monkeypatch.setattr("profiler.cluster.giving.asdict", Mock(return_value={}))
    run = RunFolder(tmp_path / "mine")
    run.path.mkdir()

    def make(*work):
        team = Team(Mock(), device_of(GPU), Mock(), MagicMock())
        team.run = run
        team.client.submit.side_effect = lambda *_, **__: Mock(status="pending")
        share = Pieces(team=team, open=[*work])
        queue = Mock()
        queue.get.side_effect = lambda **_: [share.sent.pop(0) for _ in share.sent[:]]
        team.queue = queue
        return share

    return make


@pytest.fixture
def parcel(tmp_path):
    """Makes what a worker sends: its run, with some attempts."""
    run = RunFolder(tmp_path / "its")

    def make(attempts=0, environment=GPU):
        run.path.mkdir(exist_ok=True)
        run.write_record(RunRecord("sums", "2026-03-04T10:00:00+00:00", 1, GPU, {}))
        (run.path / "private/workers.json").unlink(missing_ok=True)
        if environment is not None:
            note_environment(run, environment)
        run.write_seconds((), [SPAN])
        record = AttemptRecord("ncu-timing", "ncu", "timing", (), {})
        return packed_run(run, [run.new_attempt(record) for _ in range(attempts)])

    return make


def finish(share, piece, *parcels, error=None):
    """Have work end after these parcels were sent of it."""
    future = piece.future
    future.status = "finished" if error is None else "error"
    future.exception.return_value = error
    share.sent += [(future.key, [], parcel) for parcel in parcels]


def test_only_what_the_newest_worker_measured_counts(pieces, parcel):
    """A worker that was cut off goes on, while another has its problem already."""
    share = pieces("rows=4")
    share.look("first")
    (cut_off,) = share.given_pieces
    future = cut_off.future
    share.look("second")
    (heir,) = share.given_pieces
    assert (cut_off.worker, heir.worker) == ("first", "second")
    future.cancel.assert_called_once()
    cut_off.future = future
    finish(share, cut_off, parcel())
    finish(share, heir, parcel(1))
    share.look("first", "second")
    assert share.taken == [1]
    assert share.done == [("rows=4", "second")]
    assert not share.is_left


def test_an_attempt_is_taken_before_its_work_has_ended(pieces, parcel):
    share = pieces("rows=4")
    share.look("one")
    (given,) = share.given_pieces
    future = given.future
    share.sent = [(future.key, ["beware"], parcel(1)), ("a task given up", [], parcel(7))]
    share.look("one")
    assert share.taken == [1]
    assert share.given_pieces == [given]
    share.team.reporter.warn.assert_called_once_with("rows=4: beware")
    finish(share, given, parcel(2), parcel())
    share.look("one")
    assert share.taken == [1, 2, 0]
    assert share.done == [("rows=4", "one")]


def test_work_is_for_one_worker_at_one_address(pieces, monkeypatch):
    share = pieces("rows=4")
    monkeypatch.setattr(Pieces, "wait_s", lambda *_: 60.0)
    share.look("one")
    (asked,) = share.team.client.submit.call_args_list
    assert asked.kwargs["resources"] == resources_of("a GPU")
    assert asked.kwargs["workers"] == ["tcp://one"]
    (given,) = share.given_pieces
    share.workers["one"] = "tcp://elsewhere"  # it died, and is there again
    share._advance_piece(given)
    assert [call.kwargs["workers"] for call in share.team.client.submit.call_args_list[1:]] == [
        ["tcp://elsewhere"]
    ]
    assert share.given_pieces == [given]
    share.look("two")
    assert share.given_pieces == [given], "it waits"
    given.waits_until = 0.0  # it stays away
    share.look("two")
    assert share.given_pieces[0].worker == "two"
    gone = "rows=4: its worker is gone. Waiting for that GPU for 60 s."
    share.team.reporter.warn.assert_called_once_with(gone)


def test_what_has_ended_counts_though_its_worker_is_gone(pieces, parcel):
    share = pieces("rows=4")
    share.look("one")
    finish(share, share.given_pieces[0], parcel(1))
    share.look()
    assert share.done == [("rows=4", "one")]


def test_each_worker_has_one_piece_at_a_time(pieces, parcel):
    share = pieces("a", "b", "c")
    share.look("one", "two")
    assert {given.worker for given in share.given_pieces} == {"one", "two"}
    assert share.open == ["c"]
    finish(share, share.given_pieces[0], parcel())
    share.look("one", "two")
    assert not share.open


FULL_DISK = OSError(27, "File too large")
FULL_DISK.filename = "ncu.csv"
REFUSED = "What came back was refused: "


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (EnvironmentUnusable("no permission"), "no permission"),
        (FULL_DISK, "ncu.csv: File too large"),
        (KeyError("x"), "KeyError: 'x'"),
    ],
)
def test_what_failed_goes_to_others(error, words, pieces, parcel):
    share = pieces("a")
    share.look("one")
    finish(share, share.given_pieces[0], parcel(), error=error)
    share.look("one", "two")
    assert share.failures == [("one", words)]
    assert [str(given) for given in share.given_pieces] == ["a"]


def test_what_is_damaged_or_of_another_device_goes_to_others(pieces, parcel):
    share = pieces("a")
    share.look("one")
    finish(share, share.given_pieces[0], ("another", parcel()[1]))
    share.look("one", "two")
    finish(share, share.given_pieces[0], parcel(environment=Environment(gpu="another")))
    share.look("one", "two")
    finish(share, share.given_pieces[0], parcel(environment=None))
    share.look("one", "two")
    (_, damaged), (_, other), (_, unknown) = share.failures
    assert damaged.startswith(f"{REFUSED}the run folder that arrived is not the one that was sent")
    assert other.startswith(f"{REFUSED}The worker measures on another now")
    assert unknown.startswith(f"{REFUSED}it does not say in what environment")


def test_a_scheduler_that_does_not_know_the_work_any_more_is_lost(pieces):
    share = pieces("a")
    share.look("one")
    share.given_pieces[0].future.status = "lost"
    with pytest.raises(EnvironmentUnusable, match="connection to the scheduler was lost"):
        share.look("one")


def test_a_scheduler_that_the_client_has_forgotten_is_lost(pieces):
    share = pieces("a")
    share.team.client.scheduler_info.return_value = {}
    with pytest.raises(EnvironmentUnusable, match="connection to the scheduler was lost"):
        share.advance()
