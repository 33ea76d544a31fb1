"""Tables of every command hold at 80, 120 and 200 columns: each row has its name, no line is wider.

Names may be wrapped between their words, and words that are longer than `WHOLE`.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
from as_read import printed
from rich.cells import cell_len
from rich.console import RenderableType
from run_pairs import Pair
from synthetic_grid import make_grid
from synthetic_report import make_report, problems
from synthetic_tiles import tile_report
from synthetic_timeline import timeline_report
from synthetic_waves import make_waves

from profiler.comparison.run_entries import Conditions, RunAnswer, RunEntry
from profiler.findings.find import find
from profiler.findings.timelines.cells import imported_timelines
from profiler.importers.registry import read_files
from profiler.model import BuildResult, KernelFacts, TunedConfig, Variant
from profiler.render.console import lists
from profiler.render.console import tables as console
from profiler.render.console.lists import plan_table
from profiler.render.console.terminal import TextTable
from profiler.render.imported import imported_text, timeline_section, timelines_page, tunings_page
from profiler.render.imported_launches import group_launches, launches_page
from profiler.render.runs.page import comparison_tables
from profiler.sessions.forecasts.launch_counts import launch_counts, launches_note

WIDTHS = (80, 120, 200)
WHOLE = 24
NSYS = Path(__file__).parents[2] / "recordings/nsys-2025.3/three_iterations.sqlite"


@dataclass(frozen=True)
class Printed:
    """What a command prints, and the names that its rows must have."""

    shown: RenderableType
    names: tuple[str, ...]


def lines_of(shown, width):
    return printed(shown, width).splitlines()


def summary(findings, *, verbose):
    names = [rank.variant.label for rank in findings.ranking.ranks[:4]]
    return Printed(console.final_summary(findings, verbose=verbose), tuple(names))


def run_summary(*, verbose):
    return summary(find(tile_report()), verbose=verbose)


def one_problem():
    return summary(find(make_report(variant_count=6, problem_list=problems()[:1])), verbose=False)


def grid():
    return summary(find(make_grid()), verbose=True)


def waves():
    findings = find(make_waves())
    names = tuple(variant.label for variant in findings.programs.variants)
    return Printed(console.final_summary(findings), names)


def timeline():
    findings = find(timeline_report())
    return Printed(console.final_summary(findings), (findings.programs.variants[0].name,))


def plan():
    made = make_report(variant_count=4).plan
    shown = plan_table(made, launch_counts(made), launches_note(made))
    return Printed(shown, tuple(problem.name for problem in made.problems))


def build():
    variants = [Variant(f"v{number}", f"variant-number-{number}-" * 3) for number in range(3)]
    kernel = KernelFacts("_Z4kernILi128EEvPf" * 4, registers=40, spill_store_bytes=123456)
    builds = [BuildResult(variant.id, ok=True, kernels=(kernel,)) for variant in variants]
    return Printed(console.build_table(builds, variants), tuple(item.name for item in variants))


def doctor():
    names = ("GPU", "counters", "ncu", "nsys", "disk")
    detail = "nothing was found in any of the folders on the path, nor beside CUDA's own " * 2
    remedy = "Install it from NVIDIA's page and put it on the path; then run this again. " * 2
    checks = [(name, "missing", detail, remedy) for name in names]
    return Printed(lists.doctor_table(checks), names)


def listed():
    names = tuple(f"autotune/20260102-03040{number}" for number in range(3))
    runs = [
        RunEntry(
            folder=name,
            experiment="autotune",
            title="Which configuration is best at each length?",
            created="2026-01-02T03:04:05+00:00",
            number=number,
            kind="run",
            conditions=Conditions("NVIDIA H200", ("none", "all", "ncu"), "sdpa_flash"),
            commit="0123456789+",
            cells=504,
            page=True,
            answer=RunAnswer(
                "128x64 takes 0.881 times the time of sdpa_flash (mean of 6 problems)."
            ),
        )
        for number, name in enumerate(names, start=1)
    ]
    return Printed(lists.runs_table(runs), names)


LONG_KERNELS = tuple(
    f"gemm_{size}_library<Gemm<{size}, (int)128, float, half>>(Params_{size})"
    for size in (64, 128, 256)
)


def imported():
    count = len(LONG_KERNELS)
    launches = pd.DataFrame(
        {
            "id": range(count),
            "kernel": LONG_KERNELS,
            "grid_size": [f"(10{number}, 24, 1)" for number in range(count)],
            "block_size": ["(256, 1, 1)"] * count,
            "stream": ["7"] * count,
            "nvtx": [()] * count,
            "duration_ns": [1e6, 2e6, math.nan],
            "cycles": [1.5e6, 2.5e6, 3e6],
            "registers": [255.0] * count,
            "shared_dynamic_bytes": [1e5] * count,
            "dram_read_bytes": [1e9] * count,
            "dram_write_bytes": [1e9] * count,
            "l2_hit_pct": [50.0] * count,
        }
    )
    grids = tuple(f"(10{number}, 24, 1)" for number in range(count))
    shown = launches_page(launches, group_launches(launches))
    return Printed(imported_text(shown), ("(256,", *LONG_KERNELS, *grids))


def imported_timeline():
    (file,) = read_files([NSYS])[0].timelines
    section = timeline_section(file.file, file.recorded_by, file.overview, file.unread)
    shown = timelines_page([section], imported_timelines([]))
    return Printed(imported_text(shown), ("run_0", "cudaLaunchKernel"))


def tuned():
    config = {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 4, "num_stages": 3}
    choices = tuple(f"triton_mm_{number}_with_a_long_name_of_its_own" for number in range(3))
    rows = [
        TunedConfig("mm(4096x4096, 4096x4096)", choice, config, time_ns=1e6, registers=255)
        for choice in choices
    ]
    return Printed(imported_text(tunings_page(rows)), choices)


def empty():
    shown = TextTable("Nothing was found")
    shown.add_columns("a", "b", right=True)
    return Printed(shown, ())


COMMANDS = {
    "run": lambda: run_summary(verbose=False),
    "run verbose": lambda: run_summary(verbose=True),
    "run one problem": one_problem,
    "run grid": grid,
    "run waves": waves,
    "run timeline": timeline,
    "plan": plan,
    "build": build,
    "doctor": doctor,
    "list": listed,
    "import": imported,
    "import timeline": imported_timeline,
    "import tuning": tuned,
    "nothing": empty,
}


def check(printed):
    for width in WIDTHS:
        lines = lines_of(printed.shown, width)
        assert max(map(cell_len, lines)) <= width
        assert not [line for line in lines if line != line.rstrip()], "blanks at the end of a line"
        text = "\n".join(lines)
        words = [word for name in printed.names for word in name.split()]
        assert [word for word in words if word[:WHOLE] not in text] == [], f"at {width} columns"


@pytest.mark.parametrize("command", COMMANDS)
def test_tables_hold_at_any_width(command):
    check(COMMANDS[command]())


def test_the_tables_of_compare_hold_at_any_width(tmp_path):
    pair = Pair(tmp_path)
    comparison = pair.compare(pair.copy({"plain": 1.5}))
    names = tuple(variant.name for variant in comparison.runs[0].report.plan.variants)
    check(Printed(comparison_tables(comparison), names))


# ---- what goes first, and what stays -------------------------------------------------------------


def wide_table():
    shown = TextTable("Some rows")
    shown.add_columns("variant", name=True)
    shown.add_columns("time", right=True)
    shown.add_columns("interval", right=True, drop=2)
    shown.add_columns("verdict", drop=1)
    shown.add_row("a" * 30, "1.234 ms", "[1.230, 1.240]", "FASTER")
    return shown


def test_a_caption_begins_with_the_rows_that_were_left_out():
    shown = TextTable("Some rows", "Medians.")
    shown.add_columns("variant", name=True)
    shown.add_rest_caption(0, "cell")
    assert shown.caption == "Medians."
    shown.add_rest_caption(2, "cell")
    assert shown.caption == "2 more cells in the page. Medians."


@pytest.mark.parametrize(
    ("width", "left_out", "name_lines"),
    [
        (80, "", 1),
        (60, "No room here for: interval.", 1),
        (45, "No room here for: interval.", 2),
        (40, "No room here for: interval, verdict.", 1),
        (36, "No room here for: interval, verdict.", 2),
    ],
)
def test_the_least_important_columns_go_first(width, left_out, name_lines):
    lines = lines_of(wide_table(), width)
    assert [line for line in lines if "No room" in line] == ([left_out] if left_out else [])
    named = [line for line in lines if line.startswith("a")]
    assert len(named) == name_lines
    assert len(named[0].split()[0]) >= 24


def test_a_short_summary_is_the_answer_and_ten_rows():
    findings = find(tile_report())
    lines = lines_of(console.final_summary(findings), 80)
    rule = next(number for number, line in enumerate(lines) if line.startswith("\u2500"))
    rows = [line for line in lines[rule + 1 :] if "\u00d7 " in line and "\u00b7" in line]
    assert len(lines) <= 60
    assert 5 <= len(rows) <= 10
    assert not [line for line in lines if "Winner per problem" in line]
    assert "async" not in " ".join(lines), "what all share is said on the page"
