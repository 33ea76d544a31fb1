"""A program that mends kernels by what `check` says: a loop over the 31 planted causes.

    python benchmarks/why/loop.py --out DIR
    python benchmarks/why/loop.py --out DIR --recorded

For the planted kernel of each case of `why.yaml` and `more.yaml` it reads `profiler check --json`,
applies the fix that belongs to the first cause of `costs`, and checks again; a fix is accepted
where that says FASTER. Every kernel is offered the fix of every cause: that of a cause which it
does not have leaves it as it is. Then all fixed kernels are measured once more, in a run of their
own.

What is measured goes together: three runs by CUPTI, the first with an explain session of ncu. They
need a GPU, ncu and nvcc. `--recorded` takes the first two steps in the recordings beside it, on
any machine. Prints a line for each case; DIR gets that as `transcript.md`, every answer of `check`
under `checks/`, and the runs. Exits with 1 below the bar: 26 of 31 accepted, none SLOWER when
measured again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml
from expected import EXPECTED
from space import CASES, MORE_CASES

from profiler.commands.check import checked_by
from profiler.commands.requests import CheckRequest, RunRequest
from profiler.commands.run import written_run
from profiler.findings.brief import MOST_BYTES, brief
from profiler.sessions.progress import ProgressReporter

HERE = Path(__file__).resolve().parent
LOOP_CASES = (*CASES, *MORE_CASES)
LEAST_ACCEPTED = 26
PLANTED = {"name": "planted", "params": {"planted": 1}}
BLOCKS = 8


@dataclass(frozen=True)
class Question:
    """What `check` is asked: a run, and which of its cells."""

    name: str
    """Of the file that the answer is written to."""
    run: Path
    only: str
    against: str = "planted"

    def answer(self) -> dict[str, Any]:
        """JSON that `profiler check RUN --only … --against … --json -` prints."""
        checked = checked_by(CheckRequest(self.run, only=self.only, against=self.against))
        document = brief(checked)
        if len(json.dumps(document)) >= MOST_BYTES:
            raise ValueError(f"{self.name}: the answer is longer than {MOST_BYTES} bytes")
        return document


@dataclass(frozen=True)
class Fix:
    """The fix of a cause, for the kernel of a case."""

    case: str
    cause: str

    @property
    def params(self) -> dict[str, Any]:
        """Parameters of the variant (`space.py`)."""
        return {"planted": 1, "kernel": self.case, "fix": self.cause}


class Measured(Protocol):
    """Where the loop's two kinds of questions are asked."""

    def planted(self, cases: Sequence[str]) -> list[Question]:
        """Questions for the causes of the planted kernels of some cases."""

    def fixed(self, fixes: Sequence[Fix], again: str = "") -> list[Question]:
        """Questions for the verdicts on kernels after a fix; `again`: in another run, so called."""


# ---- recorded, or measured here ------------------------------------------------------------------


class Recorded:
    """Both forms of each kernel in the recordings: the plain one is the planted one mended."""

    def planted(self, cases: Sequence[str]) -> list[Question]:
        """The planted kernels alone."""
        return [
            Question(f"{case}.1", self._recording(case), f"case={case},planted=1") for case in cases
        ]

    def fixed(self, fixes: Sequence[Fix], again: str = "") -> list[Question]:
        """The plain kernel where the mistake is undone, else the planted one itself."""
        return [
            Question(
                f"{fix.case}.2{again}",
                self._recording(fix.case),
                f"case={fix.case},planted={int(fix.cause not in EXPECTED[fix.case].causes)}",
            )
            for fix in fixes
        ]

    @staticmethod
    def _recording(case: str) -> Path:
        return HERE / ("recording.zip" if case in CASES else "more_recording.zip")


@dataclass(frozen=True)
class Live:
    """Runs on the GPU of this machine."""

    out: Path

    def planted(self, cases: Sequence[str]) -> list[Question]:
        """One run of all planted kernels, each explained."""
        run = self._run("planted", [PLANTED], cases, explain=["all"])
        return [Question(f"{case}.1", run, f"case={case}") for case in cases]

    def fixed(self, fixes: Sequence[Fix], again: str = "") -> list[Question]:
        """One run of all fixed kernels beside the planted ones."""
        variants = [{"params": fix.params} for fix in fixes]
        name = f"fixed{again}"
        run = self._run(name, [PLANTED, *variants], [fix.case for fix in fixes], explain=None)
        return [Question(f"{fix.case}.{name}", run, f"case={fix.case}") for fix in fixes]

    def _run(
        self, name: str, variants: list[Any], cases: Sequence[str], explain: list[str] | None
    ) -> Path:
        """Measure variants at cases in a run of their own; returns its folder."""
        spec = self.out / f"{name}.yaml"
        spec.write_text(
            yaml.safe_dump(
                {
                    "name": f"why_{name}",
                    "workload": {
                        key: os.path.relpath(HERE / f"{file}.py", self.out)
                        for key, file in (("module", "workload"), ("space", "space"))
                    },
                    "variants": {"list": variants},
                    "problems": {
                        "list": [{"name": case, "params": {"case": case}} for case in cases]
                    },
                    "baseline": PLANTED["name"],
                    "collect": {"blocks": [BLOCKS], "metrics": ["duration_ns"]},
                    "page": {"kind": "versions"},
                },
                sort_keys=False,
            ),
            "utf-8",
        )
        request = RunRequest(
            spec,
            out=self.out / "reports",
            fast=True,
            live=True,
            fresh=True,
            explain=explain,
            no_explain=explain is None,
            no_report=True,
        )
        return written_run(request, ProgressReporter.for_terminal(color="never")).folder


# ---- the loop ------------------------------------------------------------------------------------


def ask(questions: Sequence[Question], out: Path) -> list[dict[str, Any]]:
    """Answers in the order of the questions, which are written into a folder, too."""
    workers = min(os.cpu_count() or 1, 8)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn) as pool:
        answers = list(pool.map(Question.answer, questions))
    out.mkdir(parents=True, exist_ok=True)
    for question, answer in zip(questions, answers, strict=True):
        (out / f"{question.name}.json").write_text(json.dumps(answer), "utf-8")
    return answers


def first_cause(answer: dict[str, Any]) -> str | None:
    """Name of the first cause of the kernel that was checked; None where it has none."""
    causes = (answer["costs"] or {"causes": []})["causes"]
    return causes[0]["name"] if causes else None


def verdict(answer: dict[str, Any]) -> dict[str, Any] | None:
    """Verdict on the one variant that was compared; None where there was none."""
    return answer["verdicts"][0] if answer["verdicts"] else None


def transcript(measured: Measured, out: Path, *, again: bool) -> tuple[list[str], bool]:
    """Go through the loop; the lines to print, and whether the bar is met."""
    lines = ["| case | first cause | after its fix | measured again |", "|---|---|---|---|"]
    first = ask(measured.planted(LOOP_CASES), out / "checks")
    named = dict(zip(LOOP_CASES, map(first_cause, first), strict=True))
    fixes = [Fix(case, cause) for case, cause in named.items() if cause is not None]
    second = ask(measured.fixed(fixes), out / "checks")
    verdicts = {fix.case: verdict(answer) for fix, answer in zip(fixes, second, strict=True)}
    once_more: dict[str, dict[str, Any] | None] = {}
    if again:
        third = ask(measured.fixed(fixes, "_again"), out / "checks")
        once_more = {fix.case: verdict(answer) for fix, answer in zip(fixes, third, strict=True)}
    for case in LOOP_CASES:
        both = (verdicts.get(case), once_more.get(case))
        lines.append(f"| {case} | {named[case] or '-'} | {' | '.join(map(words, both))} |")
    accepted = [case for case, found in verdicts.items() if found and found["verdict"] == "faster"]
    slower = [case for case in accepted if (once_more.get(case) or {}).get("verdict") == "slower"]
    lines += [
        "",
        f"{len(accepted)} of {len(LOOP_CASES)} accepted as FASTER (bar: {LEAST_ACCEPTED}); "
        + (f"{len(slower)} of them SLOWER when measured again (bar: 0)." if again else "recorded."),
    ]
    return lines, len(accepted) >= LEAST_ACCEPTED and not slower


def words(found: dict[str, Any] | None) -> str:
    """Verdict with its ratio and interval."""
    if found is None:
        return "-"
    ratio, low, high = (f"{found[key]:.3f}" for key in ("ratio", "ratio_low", "ratio_high"))
    return f"{found['verdict'].upper()}, {ratio} [{low}, {high}]"


def main() -> int:
    """Print and write the transcript; 1 below the bar."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--recorded", action="store_true", help="ask the recordings; no GPU")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    measured = Recorded() if arguments.recorded else Live(out)
    lines, is_met = transcript(measured, out, again=not arguments.recorded)
    lines.append(f"{time.monotonic() - begun:.0f} s.")
    text = "\n".join(lines)
    print(text)
    (out / "transcript.md").write_text(f"{text}\n", "utf-8")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
