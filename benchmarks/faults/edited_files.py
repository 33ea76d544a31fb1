"""Files that say the same otherwise, and files that say something else: what changes unsaid.

`python benchmarks/faults/edited_files.py [--tries N] [--seed N]` makes the edits of
`tests/faults/edits.py`: after those that keep what a file says its numbers are the same; single
bits change what they stand in; lines of a run that are lost or double change no sample unsaid.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
PARTS = ("faults", "profiler", "profiler/parse", "profiler/importers")
sys.path[:0] = [str(ROOT), str(TESTS), *(str(TESTS / part) for part in PARTS)]

from edits import SAME, TABLES, said_otherwise, silent_flips, silent_in_run  # noqa: E402
from readers import SMALL, UNDER_NCU, timed  # noqa: E402
from run_folders import Workplace  # noqa: E402

SEED = 20261127


def main() -> int:
    """Edit files, print what changed without a word, and return 1 where anything did."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tries", type=int, default=200, help="single bits of each file")
    parser.add_argument("--seed", type=int, default=SEED)
    asked = parser.parse_args()
    silent = edits = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in SAME:
            words = list(said_otherwise(kind, folder, asked.seed))
            edits += len(words)
            silent += told(f"{kind}, said otherwise ({len(words)} edits)", words)
        for table in TABLES:
            edits += asked.tries
            found = silent_flips(table, folder, asked.tries, asked.seed)
            silent += told(f"{table}: {asked.tries} single bits", found)
        for what, place, files in runs(folder):
            for file in files:
                edits += asked.tries
                found = silent_in_run(place, file, asked.tries, asked.seed)
                silent += told(f"{what}: each line, {asked.tries} single bits", found)
    print(f"{edits:,} edits: {silent} changed something without a word")
    return int(bool(silent))


def runs(folder: Path) -> Iterable[tuple[str, Workplace, list[Path]]]:
    """Runs with the files that are edited, and what these are."""
    under_timer = timed(folder / "timed")
    yield "journal of a timer", under_timer, sorted(under_timer.run.path.rglob("journal.jsonl"))
    under_ncu = Workplace(folder / "under_ncu", SMALL.replace("COLLECT", UNDER_NCU))
    under_ncu.measure_all()
    yield "rows of ncu", under_ncu, sorted(under_ncu.run.path.rglob("ncu.csv.gz"))


def told(what: str, found: Iterable[str]) -> int:
    """Print what was found; gives how much that is."""
    words = [each for each in found if each]
    print(f"{what}: {len(words)} silent", *words[:5], sep="\n    ", flush=True)
    return len(words)


if __name__ == "__main__":
    sys.exit(main())
