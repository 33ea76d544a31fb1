import numpy as np
import pandas as pd
import pytest
from ncu_samples import DETAIL, HEAD, LAUNCH, RULE, capture, details_page, known_values, quoted

from profiler.errors import ParseError
from profiler.notices import NoticeKind
from profiler.parse.ncu_csv import parse_ncu_csv
from profiler.parse.ncu_details import LABELS, metric_name
from profiler.parse.ncu_launches import LAUNCH_COLUMNS

SOL = "GPU Speed Of Light Throughput"
OLD_SOL = "GPU Speed Of Light"
MEMORY = "Memory Workload Analysis"
TIME = "gpu__time_duration.sum"
MEMORY_PCT = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"


def parsed(name):
    return parse_ncu_csv(capture(name), name)


def test_labels_of_a_capture_become_metric_names():
    launch = parsed("ncu_details_basic").launches.iloc[0]
    assert launch["id"] == 0
    assert launch["kernel"].startswith("nvjet_sm90")
    assert [r.name for r in launch["nvtx"]] == ["kernel_variant:v1", "run_0"]
    assert launch[TIME] == 181_472
    assert launch["gpc__cycles_elapsed.max"] == 284_634
    assert launch["launch__registers_per_thread"] == 168
    assert launch["lts__t_sector_hit_rate.pct"] == 73.27
    assert launch["l1tex__t_sector_hit_rate.pct"] == 0
    assert launch["launch__cluster_scheduling_policy"] == "PolicySpread"
    assert np.isnan(launch["derived__local_spilling_requests_pct"])


def test_the_two_memory_throughputs_are_told_apart():
    table = parsed("ncu_details_basic")
    launch = table.launches.iloc[0]
    assert launch[MEMORY_PCT] == 70.08
    assert launch["dram__bytes.sum.per_second"] == 967_126_785_399.40


def test_both_ways_to_print_names_give_the_same_columns():
    labels = set(parsed("ncu_details_basic").launches)
    names = set(parsed("ncu_details_detailed_rules").launches)
    assert labels <= names


def test_no_label_of_the_captures_is_unknown():
    for name in ("ncu_details_basic", "ncu_details_detailed_rules"):
        assert not [column for column in parsed(name).launches if ": " in column]


def test_rules_and_their_speedups():
    rules = parsed("ncu_details_detailed_rules").rules
    first = rules[rules["launch"] == 0].set_index("rule")
    assert first.loc["HighPipeUtilization", "section"] == "ComputeWorkloadAnalysis"
    assert first.loc["HighPipeUtilization", "type"] == "OPT"
    assert first.loc["HighPipeUtilization", "speedup_pct"] == 91.41
    assert first.loc["HighPipeUtilization", "speedup_type"] == "local"
    assert first.loc["WorkloadImbalance", "speedup_type"] == "global"
    assert np.isnan(first.loc["SOLBottleneck", "speedup_pct"])
    assert pd.isna(first.loc["SOLBottleneck", "speedup_type"])
    assert first.loc["SOLBottleneck", "description"].startswith("This kernel grid is too small")


@pytest.mark.parametrize(
    ("section", "label", "unit", "value", "expected"),
    [
        (OLD_SOL, "Duration", "usecond", "4.10", (TIME, 4100)),
        (OLD_SOL, "Duration", "msecond", "1.5", (TIME, 1500000.0)),
        (OLD_SOL, "Duration", "nsecond", "3,520", (TIME, 3520)),
        (OLD_SOL, "SOL SM", "%", "8.5", ("sm__throughput.avg.pct_of_peak_sustained_elapsed", 8.5)),
        (OLD_SOL, "SM [%]", "%", "8.5", ("sm__throughput.avg.pct_of_peak_sustained_elapsed", 8.5)),
        (OLD_SOL, "Memory [%]", "%", "9", (MEMORY_PCT, 9)),
        (OLD_SOL, "SOL Memory", "%", "9", (MEMORY_PCT, 9)),
        (
            OLD_SOL,
            "SOL L1/TEX Cache",
            "%",
            "3",
            ("l1tex__throughput.avg.pct_of_peak_sustained_active", 3),
        ),
        (OLD_SOL, "Elapsed Cycles", "cycle", "1,234", ("gpc__cycles_elapsed.max", 1234)),
        (
            OLD_SOL,
            "SM Frequency",
            "cycle/nsecond",
            "1.25",
            ("gpc__cycles_elapsed.avg.per_second", 1250000000.0),
        ),
        (
            OLD_SOL,
            "Memory Frequency",
            "cycle/usecond",
            "850",
            ("dram__cycles_elapsed.avg.per_second", 850000000.0),
        ),
        (
            MEMORY,
            "Memory Throughput",
            "Gbyte/second",
            "1.5",
            ("dram__bytes.sum.per_second", 1500000000.0),
        ),
        (MEMORY, "L2 Hit Rate", "%", "50", ("lts__t_sector_hit_rate.pct", 50)),
        (
            "Memory Workload Analysis Tables",
            "L2 Hit Rate",
            "%",
            "5",
            ("lts__t_sector_hit_rate.pct", 5),
        ),
        (
            "Launch Statistics",
            "Registers Per Thread",
            "register/thread",
            "32",
            ("launch__registers_per_thread", 32),
        ),
        (
            "Launch Statistics",
            "Static Shared Memory Per Block",
            "Kbyte/block",
            "1.02",
            ("launch__shared_mem_per_block_static", 1020),
        ),
        (
            "Command line profiler metrics",
            "dram__bytes.sum",
            "Mbyte",
            "2",
            ("dram__bytes.sum", 2000000.0),
        ),
        ("My Section", "My Label", "", "7", ("My Section: My Label", 7)),
        ("", "My Label", "", "7", ("My Label", 7)),
    ],
)
def test_labels_and_units_of_other_versions(section, label, unit, value, expected):
    table = parse_ncu_csv(details_page([section, label, unit, value]))
    metric, base = expected
    assert list(table.launches.columns) == [*LAUNCH_COLUMNS, metric]
    assert table.launches[metric][0] == pytest.approx(base)


def test_unclear_labels_outside_their_sections_are_not_guessed():
    assert metric_name("Somewhere", "Memory Throughput") == "Somewhere: Memory Throughput"


def test_every_label_leads_to_the_name_of_a_metric():
    for labels in LABELS.values():
        assert all("__" in metric for metric in labels.values())


def test_units_are_read_row_by_row():
    rows = [
        [str(i), *LAUNCH[1:], OLD_SOL, "Duration", unit, value]
        for i, (unit, value) in enumerate([("usecond", "4.1"), ("nsecond", "900"), ("", "n/a")])
    ]
    table = parse_ncu_csv(quoted([*HEAD, *DETAIL], *rows))
    np.testing.assert_allclose(table.launches[TIME], [4100, 900, np.nan])


def test_output_between_the_rows_is_left_out():
    header, row = details_page([SOL, "Duration", "ns", "5"]).splitlines()
    table = parse_ncu_csv("\n".join(["1,2,3", header, "1,2,3", row, '"loss",0.5', "4,5", ""]))
    assert table.launches[TIME].tolist() == [5]
    assert table.notices == ()


def test_the_same_metric_in_two_sections_keeps_the_one_that_has_a_value():
    page = details_page(
        [SOL, "SM Active Cycles", "cycle", "no data"],
        ["GPU and Memory Workload Distribution", "Average SM Active Cycles", "cycle", "12"],
    )
    assert parse_ncu_csv(page).launches["sm__cycles_active.avg"].tolist() == [12]


def test_appended_files_are_different_launches():
    page = details_page([SOL, "Duration", "ns", "5"])
    other = details_page([SOL, "Duration", "ns", "6"])
    assert parse_ncu_csv(page + other).launches[TIME].tolist() == [5, 6]


def test_a_details_page_after_a_raw_page():
    raw = quoted([*HEAD, TIME], [""] * 7 + ["us"], [*LAUNCH, "1"])
    table = parse_ncu_csv(raw + details_page([SOL, "Duration", "ns", "6"]))
    assert table.page == "raw"
    assert table.launches[TIME].tolist() == [1000, 6]


def test_rule_rows_of_versions_without_speedups():
    head = [*HEAD, *DETAIL, *RULE]
    rule = [
        *LAUNCH,
        "SpeedOfLight",
        "",
        "",
        "",
        "Bottleneck",
        "Warning",
        "Too small, far too small.",
    ]
    metric = quoted([*LAUNCH, OLD_SOL, "Duration", "usecond", "2"]).rstrip("\n") + ",\n"
    table = parse_ncu_csv(quoted(head) + metric + quoted(rule))
    assert table.launches[TIME].tolist() == [2000]
    assert table.rules["rule"].tolist() == ["Bottleneck"]
    assert table.rules["description"].tolist() == ["Too small, far too small."]
    assert table.rules["speedup_pct"].isna().all()
    assert table.notices == ()


def test_continental_numbers():
    page = details_page(
        ["Command line profiler metrics", TIME, "ns", "117.344"],
        ["Command line profiler metrics", "dram__bytes.sum", "byte", "27.595.520"],
        ["Command line profiler metrics", "a__b.pct", "%", "65,77"],
    )
    launch = parse_ncu_csv(page).launches.iloc[0]
    assert (launch[TIME], launch["dram__bytes.sum"], launch["a__b.pct"]) == (
        117344,
        27595520,
        65.77,
    )


def test_a_launch_of_which_only_rules_came():
    head = [*HEAD, *DETAIL, *RULE]
    rule = [*LAUNCH, "SpeedOfLight", "", "", "", "Bottleneck", "INF", "Nothing."]
    table = parse_ncu_csv(quoted(head, rule))
    assert len(table.launches) == len(table.rules) == 1


def test_without_a_unit_column_units_are_base_units_and_that_is_said():
    head = [*HEAD, "Section Name", "Metric Name", "Metric Value"]
    table = parse_ncu_csv(quoted(head, [*LAUNCH, SOL, "Duration", "5"]))
    assert table.launches[TIME].tolist() == [5]
    assert [n.kind for n in table.notices] == [NoticeKind.CSV_NO_UNITS]


def test_every_place_to_cut_a_small_file():
    rule = [*LAUNCH, "SpeedOfLight", "", "", "", "Bottleneck", "INF", "Nothing."]
    rows = [
        [*LAUNCH, SOL, "Duration", "us", "1,234.5"],
        [*LAUNCH, SOL, "Elapsed Cycles", "cycle", "9"],
    ]
    metrics = "".join(quoted(row).rstrip("\n") + ",\n" for row in rows)
    page = quoted([*HEAD, *DETAIL, *RULE]) + metrics + quoted(rule)
    whole = parse_ncu_csv(page)
    full, seen = known_values(whole.launches), set()
    for end in range(len(page)):
        try:
            table = parse_ncu_csv(page[:end])
        except ParseError:
            continue
        rows = known_values(table.launches)
        assert all(row.items() <= full[0].items() for row in rows)
        assert len(table.rules) == 0 or end == len(page) - 1
        seen.add(tuple(table.launches.columns[len(LAUNCH_COLUMNS) :]))
    assert len(seen) == 3


def test_launches_of_files_that_were_appended_stand_apart():
    head = (
        '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream",'
        '"Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit",'
        '"Metric Value"'
    )
    rows = [
        f'"0","42","app","127.0.0.1","{kernel}","1","7","(256, 1, 1)","({grid}, 1, 1)","0","8.0",'
        f'"Command line profiler metrics","gpu__time_duration.sum","us","{value}"'
        for kernel, grid, value in (("a", 64, 10.0), ("b", 64, 30.0), ("a", 32, 5.0))
    ]
    table = parse_ncu_csv("\n".join((head, *rows)), "appended")
    assert table.launches[TIME].tolist() == [10_000, 30_000, 5_000]
