"""Damaged files of every kind that is read: errors that are none of ours, hangs, memory.

`python benchmarks/faults/damaged_files.py [--tries N] [--least N] [--seed N] [--only TEXT]
[--keep FOLDER]`.
The readers and the damage are those of `tests/faults`. Each reader has a process of its own, which
is ended where it hangs outside of Python.
"""

from __future__ import annotations

import argparse
import faulthandler
import resource
import sys
import tempfile
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
PARTS = ("faults", "profiler", "profiler/parse", "profiler/importers")
sys.path[:0] = [str(ROOT), str(TESTS), *(str(TESTS / part) for part in PARTS)]

from readers import READERS, Reader  # noqa: E402
from tries import Tally, try_reader  # noqa: E402

SEED = 20261127
MOST_BYTES = 8 * 2**30
"""Address space of a process; torch and pandas reserve most of it."""
HUNG_S = 120
"""After so long without an end of a try the process says where it is, and ends."""


def main() -> int:
    """Try each reader, print what came of it, and return 1 where something is none of ours."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tries", type=int, default=2000, help="of each reader that is quick")
    parser.add_argument("--least", type=int, default=20, help="of each reader, however slow")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", default="", help="readers whose names hold this text")
    parser.add_argument("--keep", type=Path, help="folder for what was found")
    asked = parser.parse_args()
    keep = asked.keep or Path(tempfile.mkdtemp(prefix="damaged-files-"))
    keep.mkdir(parents=True, exist_ok=True)
    tried = faults = ended = 0
    print(f"{'reader':40} {'tries':>8} {'read':>8} {'faults':>6} {'s':>7} {'slowest s':>9} MB")
    for reader in (reader for reader in READERS.values() if asked.only in reader.name):
        tries = max(asked.tries // reader.slowness, asked.least)
        tally = of_process(reader, tries, asked.seed, keep)
        ended += tally is None
        if tally is not None:
            tried += tally.tries
            faults += sum(tally.kinds.values())
    print(f"{tried:,} tries; {faults} faults; {ended} processes ended early")
    print(f"What was found lies in {keep}.")
    return int(bool(faults or ended))


def of_process(reader: Reader, tries: int, seed: int, keep: Path) -> Tally | None:
    """Tally of a reader in a fork; None where that ended early."""
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    context = get_context("fork")
    end, other = context.Pipe(duplex=False)
    process = context.Process(target=try_one, args=(reader, tries, seed, other))
    process.start()
    other.close()
    try:
        tally, peak_mb = end.recv()
    except EOFError:
        process.join()
        print(f"{reader.name:40} ended early: exit code {process.exitcode}", flush=True)
        return None
    process.join()
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime
    print(
        f"{reader.name:40} {tally.tries:8,} {tally.read:8,} {sum(tally.kinds.values()):6} "
        f"{seconds:7.1f} {tally.slowest_s:9.2f} {peak_mb}",
        flush=True,
    )
    for words, count in tally.kinds.most_common():
        print(f"    {count:6}  {words}", flush=True)
    for number, (words, content) in enumerate(tally.faults):
        found = keep / f"{reader.name.replace('/', '_')}.{number}"
        found.write_bytes(content)
        found.with_name(f"{found.name}.txt").write_text(words)
    return tally


def try_one(reader: Reader, tries: int, seed: int, end: Connection) -> None:
    """Try a reader and send its tally with the peak of memory."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    faulthandler.enable()

    def watch() -> None:
        faulthandler.dump_traceback_later(HUNG_S, exit=True)

    with tempfile.TemporaryDirectory() as folder:
        tally = try_reader(reader, Path(folder), tries, seed, each=watch)
    faulthandler.cancel_dump_traceback_later()
    end.send((tally, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000))


if __name__ == "__main__":
    sys.exit(main())
