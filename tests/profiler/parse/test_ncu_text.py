"""What ncu prints without --csv: a capture as text has the numbers that it has as CSV."""

import csv
import gzip
from itertools import groupby

import pandas as pd
import pytest
from ncu_samples import capture

from profiler.errors import ParseError
from profiler.importers.ncu_text import TextPage
from profiler.importers.registry import read_files
from profiler.parse.ncu_csv import parse_ncu_csv
from profiler.parse.ncu_launches import LAUNCH_COLUMNS

NAME = "ncu_details_basic"


def text_of(rows, *, heads=True):
    """Rows of a details page as ncu prints them: names left, units and values right."""
    lines = ["==PROF== Connected to process 100 (/x/app)"]
    for (_, process), of_launch in groupby(rows, key=lambda r: (r["ID"], r["Process ID"])):
        launch = list(of_launch)
        first = launch[0]
        lines += [
            f"[{process}] {first['Process Name']}@{first['Host Name']}",
            f"  {first['Kernel Name']} {first['Grid Size']}x{first['Block Size']}, "
            f"Context {first['Context']}, Stream {first['Stream']}, Device {first['Device']}, "
            f"CC {first['CC']}",
        ]
        for section, of_section in groupby(launch, key=lambda r: r["Section Name"]):
            cells = [(r["Metric Name"], r["Metric Unit"], r["Metric Value"]) for r in of_section]
            named = [("Metric Name", "Metric Unit", "Metric Value"), *cells]
            widths = [max(len(row[place]) for row in named) for place in range(3)]
            rule = " ".join("-" * width for width in widths)
            shown = [
                f"{name:<{widths[0]}} {unit:>{widths[1]}} {value:>{widths[2]}}"
                for name, unit, value in named
            ]
            table = [rule, shown[0], rule, *shown[1:], rule] if heads else [rule, *shown[1:], rule]
            lines += [f"    Section: {section}", *(f"    {line}" for line in table), ""]
            lines += [
                "    OPT   Est. Speedup: 10%",
                "          Some advice, which is wrapped. ---",
                "",
            ]
    return "".join(f"{line}\n" for line in lines)


@pytest.fixture(scope="module")
def rows():
    content = capture(NAME)
    raw = content if isinstance(content, bytes) else content.encode()
    text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
    table = csv.DictReader(text[text.index('"ID"') :].splitlines())
    return [row for row in table if row["Metric Name"]]


def numbers(table):
    launches = table.launches
    return launches[[name for name in launches.columns if name not in LAUNCH_COLUMNS]]


@pytest.mark.parametrize("heads", [True, False])
def test_the_numbers_are_those_of_the_csv(rows, heads):
    from_csv = parse_ncu_csv(capture(NAME), NAME)
    from_text = parse_ncu_csv(TextPage(text_of(rows, heads=heads)).csv, "text")
    expected = numbers(from_csv)
    pd.testing.assert_frame_equal(numbers(from_text)[expected.columns], expected)
    for name in ("kernel", "block_size", "grid_size"):
        assert from_text.launches[name].tolist() == from_csv.launches[name].tolist()


def test_what_an_old_version_prints(tmp_path):
    text = """\
[1] a.out@127.0.0.1
  void k<int>(int), 2021-May-03 12:00:00, Context 1, Stream 7
    Section: Command line profiler metrics
    ---------------------------------------------------------------------- --------------- ------
    gpu__time_duration.sum                                                         usecond  12.50
    ---------------------------------------------------------------------- --------------- ------
"""
    (tmp_path / "old.txt").write_text(text)
    launches = read_files([tmp_path / "old.txt"])[0].launches
    assert launches["kernel"].tolist() == ["void k<int>(int)"]
    assert launches["duration_ns"].tolist() == [12_500]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("==1== NVPROF is profiling process 1\n", "nvprof"),
        ("Processing …\nTime (%),Total Time (ns),Instances\n75.0,3000,3\n", "nsys stats"),
        ('"Index","KernelName","gpu-id"\n0,"k",1\n', "rocprof"),
        ("hello\n", "nothing in it"),
    ],
)
def test_other_files_are_named_for_what_they_are(tmp_path, content, what):
    (tmp_path / "file.csv").write_text(content)
    with pytest.raises(ParseError, match=what) as refused:
        read_files([tmp_path / "file.csv"])
    assert refused.value.remedy
