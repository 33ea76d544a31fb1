"""Reads damaged files over and over, and counts what is no error of ours."""

import contextlib
import io
import resource
import signal
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field

from damage import damaged_versions

from profiler.errors import ProfilerError

MOST_S = 20
"""Seconds of the processor; a small file that takes longer is called a hang."""
MOST_WAIT_S = 100
"""By the clock, on a machine that may be busy."""
MOST_GROWTH_KB = 400_000
"""More memory than a small file needs, of the process at its peak."""
DRAWN = 40
"""One file in so many is drawn as a page, too."""


class HungError(BaseException):
    """Reading took longer than MOST_S, or waited longer than MOST_WAIT_S."""


@dataclass
class Tally:
    """What came of reading damaged versions of one file."""

    tries: int = 0
    read: int = 0
    faults: list[tuple[str, bytes]] = field(default_factory=list)
    """Words on each error that is none of ours, and the content that caused it."""
    slowest_s: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)

    def add_fault(self, words, content):
        """Keep the first contents of each kind, which is the end of the traceback."""
        if self.kinds[words] < 3:
            self.faults.append((words, content))
        self.kinds[words] += 1


def _hung(*_):
    raise HungError


def try_reader(reader, folder, tries, seed, *, drawn=DRAWN, each=lambda: None):
    """Tally of so many damaged versions of the file of a reader, the same for a seed.

    `each` is called before each try.
    """
    path = reader.make(folder)
    whole = path.read_bytes()
    tally = Tally()
    for read in (reader.read, reader.draw)[: 1 + bool(drawn and reader.draw)]:
        _try(read, path, tally, whole)
    assert not tally.faults, tally.faults
    assert tally.read, "the whole file cannot be read"
    tally = Tally()
    for content in damaged_versions(whole, tries, seed):
        tally.tries += 1
        each()
        path.write_bytes(content)
        draws = reader.draw is not None and drawn and tally.tries % drawn == 0
        _try(reader.draw if draws else reader.read, path, tally, content)
    path.write_bytes(whole)
    return tally


def _try(read, path, tally, content):
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, _hung)
    signal.setitimer(signal.ITIMER_PROF, MOST_S)
    signal.alarm(MOST_WAIT_S)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            read(path)
        tally.read += 1
    except ProfilerError:
        pass
    except (Exception, HungError) as error:
        tally.add_fault(_words(error), content)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
    tally.slowest_s = max(tally.slowest_s, time.process_time() - began)
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    if grown_kb > MOST_GROWTH_KB:
        tally.add_fault(f"{grown_kb // 1000} MB more", content)


def _words(error):
    """Type, place and text of an error, short enough to tell kinds apart."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/profiler/" in frame.filename] or frames
    place = f"{own[-1].filename.rpartition('/profiler/')[2]}:{own[-1].lineno}"
    return f"{type(error).__name__} at {place} ({frames[-1].name})"
