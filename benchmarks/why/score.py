"""How often the tree names a planted cause of the planted kernel alone; how true estimates are.

    python benchmarks/why/score.py [RUN ...]
    python benchmarks/why/score.py --renew

RUN is a run folder or recording of `why.yaml`, `more.yaml`, `further.yaml` or `strengths.yaml`; by
default the recordings beside it. Prints a Markdown table of the cases that they have, the range of
estimate ÷ truth, then the names of all other cases, and exits with 1 below the bar: 13 of 14 causes
named, the part in all. A cause is named where it comes first of the planted kernel and is none of
the plain one. Three kinds of cases do not count: those whose planted kernel is no slower, those of
which another case has a better plain kernel (SUPERSEDED), and those that have a part of the
mistake. A folder that is no such run ends it with 2 and a message. `--renew` writes what the
recordings say of each cause's estimates into `profiler/findings/why/planted.py`.
"""

from __future__ import annotations

import math
import re
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expected import EXPECTED, SUPERSEDED
from space import WHOLE

from profiler.analyse.why.account import ONE_SIDED
from profiler.analyse.why.causes import CAUSES, UNFUSED
from profiler.commands.report import read_run
from profiler.errors import ProfilerError, UsageError
from profiler.findings.find import find
from profiler.findings.findings import Findings
from profiler.findings.why import planted as planted_estimates
from profiler.findings.why.document import explain_document
from profiler.findings.why.find import find_why, pair_why
from profiler.model import Cell
from profiler.render.words.names import plain_kernel
from profiler.run_folder.archive import open_run

RECORDINGS = tuple(
    path
    for name in ("recording", "more_recording", "further_recording", "strengths_recording")
    if (path := Path(__file__).parent / f"{name}.zip").is_file()
)
PLAIN = "plain"
SHARE_OF_CAUSES = 13 / 14
NOTHING = "-"


@dataclass(frozen=True)
class Named:
    """A cause of a tree, or the largest part of an account, and its share in percent."""

    name: str
    share_pct: float | None

    def __str__(self) -> str:
        return self.name if self.share_pct is None else f"{self.name} ({self.share_pct:.0f} %)"


@dataclass(frozen=True)
class Score:
    """Cause and part that a run names for one case."""

    case: str
    strength: int
    """How many eighths of its mistake the planted kernel has."""
    slowdown_ns: float | None
    """Time of the planted kernel less that of the plain one, in the explained launches; None where
    it is no slower."""
    part: Named | None
    part_right: bool
    cause: Named | None
    """The first one of the planted kernel."""
    cause_first: bool
    of_plain: Named | None
    """The planted cause in the tree of the plain kernel, where it should not be."""
    ratio: float | None
    """Estimate ÷ true time of the planted cause; None where it is not named."""

    @property
    def cause_right(self) -> bool:
        """Whether the cause is named, and tells the planted kernel from the plain one."""
        return self.cause_first and self.of_plain is None

    @property
    def counts(self) -> bool:
        """Whether the case is one that the bar is about."""
        whole = self.case not in SUPERSEDED and self.strength == WHOLE
        return self.slowdown_ns is not None and whole


def cases_of(run: Path) -> tuple[str, ...]:
    """Cases that a run has, in the order of EXPECTED; raises UsageError where it has none."""
    planned = {cell.problem.params.get("case") for cell in open_run(run).plan().cells}
    cases = tuple(case for case in EXPECTED if case in planned)
    if not cases:
        raise UsageError(
            f"{run}: a run of none of why.yaml, more.yaml, further.yaml, strengths.yaml: it has "
            "none of their cases"
        )
    return cases


def planted_cells(findings: Findings, case: str) -> tuple[Cell, ...]:
    """Cells of the planted kernels of a case, the one with most of its mistake last."""
    cells = [
        cell
        for cell in findings.programs.cells
        if cell.problem.name == case and cell.variant.params["planted"]
    ]
    return tuple(sorted(cells, key=strength_of))


def strength_of(cell: Cell) -> int:
    """How many eighths of its mistake the kernel of a cell has."""
    return int(cell.variant.params.get("strength", WHOLE))


def explain(
    findings: Findings, planted: Cell
) -> tuple[dict[str, Any], dict[str, Any], Mapping[str, float]]:
    """What `profiler explain` says of a planted kernel, and of the plain one of its case.

    And the estimated time of each cause that the planted one has more of. Empty ones where one of
    the two was not explained.
    """
    plain = next(
        cell
        for cell in findings.programs.cells
        if cell.problem == planted.problem and cell.variant.name == PLAIN
    )
    if not {planted.id, plain.id} <= find_why(findings).cells.keys():
        print(f"{planted.id}: not explained", file=sys.stderr)
        return {}, {}, {}
    pair = pair_why(findings, find_why(findings).cells, planted, plain)
    return (
        explain_document(findings, planted, pair),
        explain_document(findings, plain, None),
        {change.name: change.first_ns for change in pair.causes},
    )


def score(
    case: str,
    planted: Mapping[str, Any],
    plain: Mapping[str, Any],
    estimates_ns: Mapping[str, float],
    strength: int = WHOLE,
) -> Score:
    """Cause and part that the documents of both kernels name, and whether they are right."""
    expected = EXPECTED[case]
    account = planted.get("account") or {}
    difference_ns = account.get("difference_ns")
    slower = difference_ns is not None and difference_ns > 0
    causes = _causes(planted)
    part = _largest(account.get("parts") or [], difference_ns)
    if part is not None and part.name.startswith(ONE_SIDED):
        part = Named(
            f"{ONE_SIDED}{plain_kernel(part.name.removeprefix(ONE_SIDED))}", part.share_pct
        )
    cause = _named(causes[0]) if causes else None
    estimates = [estimates_ns[name] for name in expected.causes if estimates_ns.get(name)]
    of_plain = [_named(row) for row in _causes(plain) if row["name"] in expected.causes]
    return Score(
        case=case,
        strength=strength,
        slowdown_ns=difference_ns if slower else None,
        part=part,
        part_right=part is not None and part.name in expected.parts,
        cause=cause,
        cause_first=cause is not None and cause.name in expected.causes,
        of_plain=of_plain[0] if of_plain else None,
        ratio=max(estimates) / _true_ns(planted) if slower and estimates else None,
    )


def _true_ns(planted: Mapping[str, Any]) -> float:
    """How much longer the explained launch of a planted kernel is.

    Where launches at another clock were explained than were timed, the part of it by which the
    timed ones are longer.
    """
    account = planted["account"]
    if account.get("timed_difference_ns") is None:
        return float(account["difference_ns"])
    slower_by = account["timed_difference_ns"] / planted["answer"]["duration_ns"]
    return float(slower_by * account["duration_ns"])


def scores_of(run: Path) -> Iterator[Score]:
    """Score of each case that a run has."""
    cases = cases_of(run)
    findings = find(read_run(open_run(run)))
    for case in cases:
        for cell in planted_cells(findings, case):
            yield score(case, *explain(findings, cell), strength_of(cell))


def calibration(scores: Iterable[Score]) -> Mapping[str, tuple[float, float, int]]:
    """Lowest and highest estimate ÷ slowdown, and of how many pairs, by cause."""
    ratios: dict[str, list[float]] = {}
    for row in scores:
        if row.ratio is not None:
            ratios.setdefault(EXPECTED[row.case].causes[0], []).append(round(row.ratio, 2))
    return {
        cause: (min(ratios[cause]), max(ratios[cause]), len(ratios[cause]))
        for cause in (*CAUSES, UNFUSED)
        if cause in ratios
    }


def renew(scores: Sequence[Score]) -> None:
    """Write the calibration of all causes into the module that has it."""
    path = Path(planted_estimates.__file__)
    rows = "".join(f'    "{cause}": {row},\n' for cause, row in calibration(scores).items())
    text = re.sub(
        r"(?s)(\nPLANTED: [^{]*\{\n).*?(\n\})",
        lambda found: f"{found[1]}{rows.rstrip()}{found[2]}",
        path.read_text("utf-8"),
    )
    path.write_text(text, "utf-8")


def table(scores: Sequence[Score]) -> str:
    """The Markdown table."""
    lines = [
        "| case | explained launch longer by | largest part | right | first cause | of the plain "
        "kernel | named | estimate ÷ truth |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in scores:
        time = "no slower" if row.slowdown_ns is None else f"{row.slowdown_ns / 1e3:.0f} µs"
        part = f"{row.part or NOTHING} | {_answer(row.part_right)}"
        cause = f"{row.cause or NOTHING} | {row.of_plain or NOTHING} | {_answer(row.cause_right)}"
        ratio = NOTHING if row.ratio is None else f"{row.ratio:.2f}"
        lines.append(f"| {_case(row)} | {time} | {part} | {cause} | {ratio} |")
    return "\n".join(lines)


def _case(row: Score) -> str:
    """Name of a case, with what takes its place, and its strength where that is a part."""
    now = f" (now {SUPERSEDED[row.case]})" if row.case in SUPERSEDED else ""
    part = "" if row.strength == WHOLE else f", {row.strength} of {WHOLE}"
    return f"{row.case}{now}{part}"


def ratio_line(scores: Sequence[Score]) -> str:
    """Range of estimate ÷ truth over all cases that have one; empty without any."""
    ratios = [row.ratio for row in scores if row.ratio is not None]
    if not ratios:
        return ""
    return (
        f"Estimate ÷ truth: {min(ratios):.2f} to {max(ratios):.2f}, median "
        f"{statistics.median(ratios):.2f}; below 1 in {sum(ratio < 1 for ratio in ratios)} of "
        f"{len(ratios)}."
    )


def meets_bar(scores: Sequence[Score]) -> bool:
    """Whether enough causes are named, and every planted part is the largest."""
    counted = [row for row in scores if row.counts]
    least = math.ceil(SHARE_OF_CAUSES * len(counted))
    named = sum(row.cause_right for row in counted)
    return named >= least and all(row.part_right for row in counted)


def _causes(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Rows of the causes of a tree, the first one first."""
    causes: Sequence[Mapping[str, Any]] = (document.get("tree") or {}).get("causes") or []
    return causes


def _largest(parts: Sequence[Mapping[str, Any]], difference_ns: float | None) -> Named | None:
    """Part that adds most time, with its share of the difference; the planted one is slower."""
    if not parts:
        return None
    row = max(parts, key=lambda row: row["ns"])
    return Named(row["name"], 100 * row["ns"] / difference_ns if difference_ns else None)


def _named(row: Mapping[str, Any]) -> Named:
    return Named(row["name"], row.get("share_pct"))


def _answer(right: bool) -> str:
    return "yes" if right else "no"


def main() -> int:
    """Print the table and the counts; 1 below the bar, 2 of a folder without these cases."""
    arguments = sys.argv[1:]
    renews = arguments == ["--renew"]
    runs = RECORDINGS if renews or not arguments else tuple(map(Path, arguments))
    try:
        scores = [row for run in runs for row in scores_of(run)]
    except ProfilerError as error:
        print(f"Error: {error}", file=sys.stderr)
        return error.exit_code
    if renews:
        renew(scores)
        return 0
    print(table(scores))
    count = sum(row.counts for row in scores)
    first, named, parts = (
        sum(answers)
        for answers in zip(
            *((row.cause_first, row.cause_right, row.part_right) for row in scores if row.counts),
            strict=True,
        )
    )
    print(
        f"\nCause first: {first} of {count}, and of the planted kernel alone: {named}. "
        f"Largest part: {parts}.\n{ratio_line(scores)}"
    )
    missing = EXPECTED.keys() - {row.case for row in scores}
    if missing:
        print(f"Not measured: {', '.join(case for case in EXPECTED if case in missing)}.")
    return 0 if meets_bar(scores) else 1


if __name__ == "__main__":
    sys.exit(main())
