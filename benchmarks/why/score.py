"""How often the tree names a planted cause first, and the account gives its part the largest share.

    python benchmarks/why/score.py [RUN ...]

RUN is a run folder or recording of `why.yaml` or `more.yaml`; by default the recordings beside it.
Prints a Markdown table of the cases that they have, then the names of all others, and exits with 1
below the bar: the cause first in 13 of 14, the part in all. A folder that is no such run ends it
with 2 and a message.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expected import EXPECTED, Expected

from profiler.errors import ProfilerError, UsageError
from profiler.run_folder.folder import RunFolder

RECORDINGS = tuple(Path(__file__).parent / name for name in ("recording", "more_recording"))
SHARE_OF_CAUSES = 13 / 14
NOTHING = "-"


@dataclass(frozen=True)
class Named:
    """The first cause of a tree, or the largest part of an account, and its share in percent."""

    name: str
    share_pct: float | None

    def __str__(self) -> str:
        return self.name if self.share_pct is None else f"{self.name} ({self.share_pct:.0f} %)"


@dataclass(frozen=True)
class Score:
    """Cause and part that a run names for one case."""

    case: str
    slowdown_ns: float | None
    """Time of the planted kernel less that of the plain one, in the explained launches."""
    part: Named | None
    part_right: bool
    cause: Named | None
    cause_right: bool


def cases_of(run: Path) -> tuple[str, ...]:
    """Cases that a run has, in the order of EXPECTED; raises UsageError where it has none."""
    planned = {cell.problem.params.get("case") for cell in RunFolder(run).plan().cells}
    cases = tuple(case for case in EXPECTED if case in planned)
    if not cases:
        raise UsageError(
            f"{run}: a run of neither why.yaml nor more.yaml: it has none of their cases"
        )
    return cases


def explain(run: Path, case: str) -> dict[str, Any]:
    """Document of `profiler explain` on a case; an empty one where it fails."""
    flags = ("--variant", "planted", "--against", "plain", "--problem", case, "--json", "-")
    command = [sys.executable, "-m", "profiler", "explain", str(run), *flags]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode != 0:
        print(f"{case}: {process.stderr.strip()}", file=sys.stderr)
        return {}
    document = json.loads(process.stdout)
    assert isinstance(document, dict), document
    return document


def score(case: str, expected: Expected, document: Mapping[str, Any]) -> Score:
    """Cause and part that a document names for a case, and whether they are right."""
    account = document.get("account") or {}
    parts = account.get("parts") or []
    causes = (document.get("tree") or {}).get("causes") or []
    part = _largest(parts)
    cause = _named(causes[0]) if causes else None
    return Score(
        case=case,
        slowdown_ns=account.get("difference_ns"),
        part=part,
        part_right=part is not None and part.name in expected.parts,
        cause=cause,
        cause_right=cause is not None and cause.name in expected.causes,
    )


def table(scores: Sequence[Score]) -> str:
    """The Markdown table."""
    lines = [
        "| case | explained launch longer by | largest part | right | first cause | right |",
        "|---|---|---|---|---|---|",
    ]
    for row in scores:
        time = NOTHING if row.slowdown_ns is None else f"{row.slowdown_ns / 1e3:.0f} us"
        part = f"{row.part or NOTHING} | {_answer(row.part_right)}"
        cause = f"{row.cause or NOTHING} | {_answer(row.cause_right)}"
        lines.append(f"| {row.case} | {time} | {part} | {cause} |")
    return "\n".join(lines)


def meets_bar(scores: Sequence[Score]) -> bool:
    """Whether enough causes are first, and every planted part is the largest."""
    least = math.ceil(SHARE_OF_CAUSES * len(scores))
    return sum(row.cause_right for row in scores) >= least and all(row.part_right for row in scores)


def _largest(parts: Sequence[Mapping[str, Any]]) -> Named | None:
    """Part that adds most time; the planted kernel is the slower one."""
    return _named(max(parts, key=lambda row: row["ns"])) if parts else None


def _named(row: Mapping[str, Any]) -> Named:
    return Named(row["name"], row.get("share_pct"))


def _answer(right: bool) -> str:
    return "yes" if right else "no"


def main() -> int:
    """Print the table and the counts; 1 below the bar, 2 of a folder without these cases."""
    runs = tuple(map(Path, sys.argv[1:])) or RECORDINGS
    try:
        cases = [(run, case) for run in runs for case in cases_of(run)]
    except ProfilerError as error:
        print(f"Error: {error}", file=sys.stderr)
        return error.exit_code
    scores = [score(case, EXPECTED[case], explain(run, case)) for run, case in cases]
    print(table(scores))
    causes, parts = (
        sum(row.cause_right for row in scores),
        sum(row.part_right for row in scores),
    )
    print(f"\nCause first: {causes} of {len(scores)}. Largest part: {parts} of {len(scores)}.")
    missing = EXPECTED.keys() - {row.case for row in scores}
    if missing:
        print(f"Not measured: {', '.join(case for case in EXPECTED if case in missing)}.")
    return 0 if meets_bar(scores) else 1


if __name__ == "__main__":
    sys.exit(main())
