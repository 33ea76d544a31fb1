"""Journals that are followed, and sessions that are silent for too long."""

import json

import pytest

from profiler.sessions.watchdog import JournalTail, Limits, Watchdog

LIMITS = Limits(step_s=10, startup_s=100)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def line(**record):
    return json.dumps(record) + "\n"


def test_tail_gives_each_record_once_and_waits_for_whole_lines(tmp_path):
    path = tmp_path / "journal.jsonl"
    tail = JournalTail(path)
    assert tail.read() == []
    with path.open("w") as stream:
        stream.write(line(event="session_started") + '{"event": ')
        stream.flush()
        assert tail.read() == [{"event": "session_started"}]
        stream.write('"session_finished", "cause": "ä"}\n')
        stream.flush()
        assert tail.read() == [{"event": "session_finished", "cause": "ä"}]
    assert tail.read() == []


def test_tail_passes_over_what_is_no_record(tmp_path):
    path = tmp_path / "journal.jsonl"
    too_deep = b'{"a":' + b"[" * 100_000
    odd = (
        b"\x00\xff",
        b"[1]",
        b"",
        line(a=1).encode(),
        line(event="a").encode(),
        line(event="started").encode(),
        too_deep,
    )
    path.write_bytes(b"\n".join((*odd, line(event="session_finished").encode())))
    assert JournalTail(path).read() == [{"event": "session_finished"}]


def test_start_and_end_have_a_longer_limit(clock):
    watchdog = Watchdog(LIMITS, clock, has_journal=True)
    clock.now = 100
    assert not watchdog.expired()
    clock.now = 100.1
    assert watchdog.expired()
    watchdog.observe({"event": "session_started"})
    assert not watchdog.expired()
    clock.now += 10.1
    assert watchdog.expired()
    watchdog.observe({"event": "session_finished"})
    clock.now += 99
    assert not watchdog.expired()


def test_each_record_starts_the_time_anew(clock):
    watchdog = Watchdog(LIMITS, clock, has_journal=True)
    for _ in range(5):
        watchdog.observe({"event": "finished"})
        clock.now += 9
        assert not watchdog.expired()


def test_a_long_step_limit_holds_for_the_start_too(clock):
    watchdog = Watchdog(Limits(step_s=500, startup_s=100), clock, has_journal=True)
    clock.now = 400
    assert not watchdog.expired()


def test_without_a_journal_the_limit_is_for_all(clock):
    watchdog = Watchdog(LIMITS, clock, has_journal=False)
    clock.now = 10.1
    assert watchdog.expired()
