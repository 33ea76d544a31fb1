import gzip
import io

import numpy as np
import pandas as pd
import pytest
from ncu_samples import (
    HEAD,
    LAUNCH,
    PUSH_POP,
    RECORDINGS,
    START_END,
    all_captures,
    capture,
    quoted,
    raw_page,
)

from profiler.errors import ParseError
from profiler.notices import NoticeKind, text
from profiler.parse.ncu_csv import (
    RULE_COLUMNS,
    NothingProfiledError,
    parse_ncu_csv,
    read_joined_tables,
    read_ncu_csv,
)
from profiler.parse.ncu_launches import LAUNCH_COLUMNS
from profiler.parse.ncu_raw import CONSTANT_PREFIXES

TIME = "gpu__time_duration.sum"


def parsed(name):
    return parse_ncu_csv(capture(name), name)


def kinds(table):
    return [notice.kind for notice in table.notices]


# --- real captures -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", all_captures())
def test_every_capture_has_the_named_columns_and_numbers(name):
    table = parsed(name)
    assert tuple(table.launches.columns[: len(LAUNCH_COLUMNS)]) == LAUNCH_COLUMNS
    assert table.launches.columns.is_unique
    assert table.launches["id"].dtype == np.int64
    assert (table.launches[TIME] > 1000).all()
    assert list(table.rules.columns) == list(RULE_COLUMNS)


@pytest.mark.parametrize(
    ("name", "page", "launches", "rules"),
    [
        ("ncu_raw_6metrics_2kernels", "raw", 6, 0),
        ("ncu_raw_100runs", "raw", 200, 0),
        ("ncu_raw_onepass_60", "raw", 60, 0),
        ("ncu_raw_threepass_60", "raw", 60, 0),
        ("ncu_raw_logfile_with_export", "raw", 6, 0),
        ("ncu_raw_child_processes", "raw", 24, 0),
        ("ncu_raw_nvtx_cells", "raw", 6, 0),
        ("ncu_import_full_raw", "raw", 2, 0),
        ("ncu_details_basic", "details", 6, 15),
        ("ncu_details_detailed_rules", "details", 2, 16),
    ],
)
def test_sizes_of_the_captures(name, page, launches, rules):
    table = parsed(name)
    assert (table.page, len(table.launches), len(table.rules)) == (page, launches, rules)


def test_identity_and_values_of_a_launch():
    table = parsed("ncu_raw_6metrics_2kernels")
    launch = table.launches.iloc[0]
    assert launch["id"] == 0
    assert launch["process_id"] == 475
    assert launch["process"] == "python3.12"
    assert launch["kernel"] == "nvjet_sm90_hsh_256x128_64x4_1x2_h_bz_coopA_NNT"
    assert (launch["context"], launch["stream"], launch["device"]) == (1, "7", 0)
    assert (launch["block_size"], launch["grid_size"]) == ("(384, 1, 1)", "(2, 66, 1)")
    assert launch["cc"] == "9.0"
    assert [r.name for r in launch["nvtx"]] == ["kernel_variant:v1", "run_0"]
    assert launch[TIME] == 180992
    assert launch["launch__registers_per_thread"] == 168
    assert launch["launch__cluster_scheduling_policy"] == "PolicySpread"
    assert launch["launch__tpc_enabled"] == "all"


def test_messages_that_are_no_errors_are_no_notices():
    assert b"==WARNING==" in capture("ncu_raw_6metrics_2kernels")
    assert parsed("ncu_raw_6metrics_2kernels").notices == ()


def test_what_the_machine_repeats_is_kept_once():
    table = parsed("ncu_raw_onepass_60")
    assert not [c for c in table.launches.columns if c.startswith(CONSTANT_PREFIXES)]
    assert table.attributes["device__attribute_display_name"] == "NVIDIA H200"
    assert table.attributes["device__attribute_multiprocessor_count"] == 132
    assert table.attributes["device__attribute_clock_rate"] == 1_980_000
    assert table.attributes["device__attribute_compute_capability_major"] == 9


def test_host_name_is_not_kept():
    table = parsed("ncu_raw_onepass_60")
    assert "127.0.0.1" not in table.launches.astype(str).to_csv()


def test_scaled_units_of_an_import_become_base_units():
    launch = parsed("ncu_import_full_raw").launches.iloc[0]
    assert launch[TIME] == pytest.approx(180_544)
    assert launch["dram__bytes_read.sum"] == pytest.approx(147_934_720)
    assert launch["dram__cycles_elapsed.avg.per_second"] == pytest.approx(3.198703e9)
    assert launch["dram__bytes.avg.per_second"] == pytest.approx(20.261255e9)
    assert launch["launch__shared_mem_per_block"] == pytest.approx(214_212)
    assert launch["lts__t_sectors_srcunit_gcc.sum.per_second"] == pytest.approx(32.967033e6)
    assert np.isnan(launch["sass__inst_executed_register_spilling_mem_local"])


def test_import_and_live_run_agree():
    live = parsed("ncu_raw_threepass_60").launches
    imported = parsed("ncu_import_full_raw").launches
    shared = set(live) & set(imported)
    assert len(shared) > 80
    assert (live[[*shared]].dtypes == imported[[*shared]].dtypes).all()


def test_processes_of_one_table_are_told_apart():
    launches = parsed("ncu_raw_child_processes").launches
    assert launches["process_id"].nunique() == 8
    assert list(launches["id"]) == list(range(24))


def test_a_row_broken_by_a_quote_is_left_out_and_said():
    table = parsed("ncu_raw_nvtx_cells")
    assert list(table.launches["id"]) == [0, 1, 2, 3, 4, 6]
    assert kinds(table) == [NoticeKind.CSV_BAD_ROWS]
    assert dict(table.notices[0].values) == {"file": "ncu_raw_nvtx_cells", "count": 1, "line": 11}
    assert "1 row does not fit" in text(table.notices[0])
    names = [[(r.domain, r.name, r.kind) for r in ranges] for ranges in table.launches["nvtx"]]
    assert names == [
        [],
        [("", "cell=a|b=1;run=0", "push_pop")],
        [("", "SE:name", "start_end")],
        [("", "pkg default", "push_pop")],
        [("profiler", "dom range", "push_pop")],
        [],
    ]


def test_same_values_as_a_plain_csv_reader():
    lines = capture("ncu_raw_onepass_60").decode().splitlines(keepends=True)
    start = next(i for i, line in enumerate(lines) if line.startswith('"ID"'))
    plain = pd.read_csv(io.StringIO("".join(lines[start:])), dtype=str).iloc[1:]
    launches = parsed("ncu_raw_onepass_60").launches
    numeric = launches.select_dtypes("float64")
    assert numeric.shape == (60, 94)
    for name in numeric:
        cells = plain[name].str.replace(",", "")
        np.testing.assert_allclose(numeric[name], cells.astype(float), rtol=1e-14)


# --- the way a file comes ------------------------------------------------------------------------


def test_reads_plain_and_compressed_files(tmp_path):
    plain, packed = tmp_path / "a.csv", tmp_path / "b.csv.gz"
    plain.write_bytes(capture("ncu_raw_onepass_60"))
    packed.write_bytes(gzip.compress(capture("ncu_raw_onepass_60")))
    a, b = read_ncu_csv(plain), read_ncu_csv(packed)
    pd.testing.assert_frame_equal(a.launches, b.launches)
    assert b.notices == ()


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_marks_and_wide_encodings_of_windows_shells(encoding):
    data = capture("ncu_raw_6metrics_2kernels").decode().replace("\n", "\r\n")
    mark = "\ufeff" if encoding in ("utf-16-le", "utf-16-be") else ""
    table = parse_ncu_csv((mark + data).encode(encoding))
    want = parsed("ncu_raw_6metrics_2kernels")
    pd.testing.assert_frame_equal(table.launches, want.launches)
    assert table.notices == ()


def test_header_on_the_first_line_after_a_byte_order_mark():
    table = parse_ncu_csv("\ufeff" + raw_page({TIME: ("ns", ["5"])}))
    assert table.launches[TIME].tolist() == [5]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no ncu table found"),
        (b"\n\n", "no ncu table found"),
        (b"\0\0\0", "no ncu table found"),
        (b"hello\nworld\n", "no ncu table found"),
        (b'"ID","Process ID","Kern', "ends inside the header"),
        (
            b"==WARNING== No kernels were profiled.\nAvailable Kernels:\n1. k(int, int)\n",
            "No kernels",
        ),
        (b"==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "ERR_NVGPUCTRPERM"),
        (b"NVR\0 binary report", "is a report"),
        (b"SQLite format 3\0", "is a report"),
        (gzip.compress(b"hello", mtime=0)[:12], "cannot be read"),
        (gzip.compress(b"", mtime=0), "no ncu table found"),
    ],
)
def test_nothing_to_read_is_a_parse_error_that_names_the_file(data, words):
    with pytest.raises(ParseError, match=words) as caught:
        parse_ncu_csv(data, "some.csv")
    assert "some.csv" in str(caught.value)


@pytest.mark.parametrize(
    ("data", "nothing"),
    [
        (b"==PROF== Disconnected from process 1\n==WARNING== No kernels were profiled.\n", True),
        (b"==ERROR== LaunchFailed\n==WARNING== No kernels were profiled.\n", False),
        (b"==WARNING== Found outstanding GPU clock reset.\n", False),
        (b"", False),
    ],
)
def test_a_file_that_says_that_nothing_was_profiled_is_told_from_others(data, nothing):
    with pytest.raises(ParseError) as caught:
        parse_ncu_csv(data)
    assert isinstance(caught.value, NothingProfiledError) is nothing


def test_files_that_cannot_be_opened(tmp_path):
    for path in (tmp_path / "missing.csv", tmp_path, tmp_path / "a\0b"):
        with pytest.raises(ParseError, match="cannot be read"):
            read_ncu_csv(path)


# --- what stands around the rows -----------------------------------------------------------------


def test_output_and_messages_between_rows_are_left_out():
    lines = capture("ncu_raw_6metrics_2kernels").decode().splitlines()
    noisy = []
    for number, line in enumerate(lines):
        noisy += [line, f"step {number}, loss 0.5", "", "1,2,3", '==PROF== Profiling "k" - 0: 0%']
    noisy.insert(12, "==WARNING== Backing up device memory in system memory.")
    table = parse_ncu_csv("\n".join(noisy) + "\n")
    want = parsed("ncu_raw_6metrics_2kernels")
    pd.testing.assert_frame_equal(table.launches, want.launches)
    assert table.notices == ()


def test_output_without_a_newline_before_header_and_row():
    page = raw_page({TIME: ("ns", ["5", "6"])})
    header, units, *rows = page.splitlines()
    glued = "\n".join(["progress 10%" + header, units, "progress 50%..." + rows[0], rows[1], ""])
    table = parse_ncu_csv(glued)
    assert table.launches[TIME].tolist() == [5, 6]


def test_errors_of_the_tool_are_notices():
    page = raw_page({TIME: ("ns", ["5"])})
    error = "==ERROR== The application returned an error code (11)."
    table = parse_ncu_csv(page + error + "\n")
    assert table.launches[TIME].tolist() == [5]
    assert kinds(table) == [NoticeKind.CSV_TOOL_MESSAGE]
    assert text(table.notices[0]) == f"ncu.csv: ncu printed: {error}"


def test_a_message_that_cuts_a_row_costs_that_row_and_is_kept():
    page = raw_page({TIME: ("ns", ["5", "6"]), "a__b.sum": ("", ["1", "2"])})
    broken = page.replace('"5","1"', '"5",==ERROR== LaunchFailed\n"1"')
    table = parse_ncu_csv(broken)
    assert table.launches["id"].tolist() == [1]
    assert "ncu.csv: ncu printed: ==ERROR== LaunchFailed" in map(text, table.notices)
    assert NoticeKind.CSV_BAD_ROWS in kinds(table)


def test_several_tables_in_one_file():
    first = raw_page({TIME: ("ns", ["5", "6"])})
    second = raw_page({"sm__cycles_elapsed.max": ("cycle", ["7"]), TIME: ("us", ["0.008"])})
    table = parse_ncu_csv(first + "==PROF== Disconnected\n" + second + first)
    assert table.launches["id"].tolist() == [0, 1, 0, 0, 1]
    assert table.launches[TIME].tolist() == [5, 6, 8, 5, 6]
    np.testing.assert_array_equal(
        table.launches["sm__cycles_elapsed.max"], [np.nan, np.nan, 7, np.nan, np.nan]
    )


def test_a_header_repeated_for_each_process_goes_on_with_the_same_table():
    page = capture("ncu_raw_onepass_60")
    table = parse_ncu_csv(page * 3)
    once = parsed("ncu_raw_onepass_60").launches
    assert len(table.launches) == 180
    pd.testing.assert_frame_equal(table.launches.iloc[120:].reset_index(drop=True), once)


def test_more_rows_than_one_batch():
    lines = capture("ncu_raw_child_processes").splitlines(keepends=True)
    rows = [line for line in lines if line[:2].strip(b'"').isdigit()]
    data = b"".join([*lines, *rows * 400])
    table = parse_ncu_csv(data)
    once = parsed("ncu_raw_child_processes").launches
    assert len(table.launches) == 24 * 401
    pd.testing.assert_frame_equal(table.launches.iloc[-24:].reset_index(drop=True), once)


@pytest.mark.parametrize("rows", [3, 200])
def test_a_number_beyond_all_floats_is_counted(rows):
    first, units, row, *_ = rows_of("ncu_raw_onepass_60")
    place = first.decode().split('","').index("gpu__time_duration.sum")
    cells = row.decode().split('","')
    odd = '","'.join([*cells[:place], "1e999", *cells[place + 1 :]]).encode()
    table = parse_ncu_csv(b"".join([first, units, odd, *[row] * rows]))
    (notice,) = table.notices
    assert (notice.kind, notice.values["count"]) == (NoticeKind.CSV_BAD_CELLS, 1)
    assert table.launches["gpu__time_duration.sum"].isna().sum() == 1


def test_small_files_that_are_alike_are_read_as_one_and_say_the_same(tmp_path):
    first, units, *rows = rows_of("ncu_raw_onepass_60")
    message = b"==PROF== Connected to process 7\n"
    paths = [tmp_path / f"{number}.csv" for number in range(20)]
    for number, path in enumerate(paths):
        path.write_bytes(b"".join([message, first, units, *rows[number : number + 5]]))
    (alike,) = read_joined_tables(paths)
    assert list(alike.rows) == paths
    for path in paths:
        table, alone = alike.table(path), read_ncu_csv(path)
        pd.testing.assert_frame_equal(table.launches, alone.launches, check_exact=True)
        assert table.attributes == alone.attributes


@pytest.mark.parametrize(
    "change",
    [
        lambda page: page.replace(b"NVIDIA H200", b"NVIDIA H100"),
        lambda page: page + b"==ERROR== Profiling failed\n",
        lambda page: page[:-20],
        lambda page: page + b"out of the program\n",
        lambda page: page.replace(b'"ID"', b'"Id"'),
        lambda page: b"",
    ],
)
def test_a_file_that_is_not_as_the_others_is_read_alone(tmp_path, change):
    page = b"".join(rows_of("ncu_raw_onepass_60")[:6])
    for name, content in {"a": page, "b": page, "other": change(page)}.items():
        (tmp_path / name).write_bytes(content)
    paths = [tmp_path / name for name in ("a", "other", "b", "absent")]
    (alike,) = read_joined_tables(paths)
    assert list(alike.rows) == [tmp_path / "a", tmp_path / "b"]


def test_of_files_with_an_odd_row_none_is_read_with_the_others(tmp_path):
    page = b"".join(rows_of("ncu_raw_onepass_60")[:6])
    (tmp_path / "a").write_bytes(page)
    (tmp_path / "b").write_bytes(page + b'"7","8","9"\n')
    assert not list(read_joined_tables([tmp_path / "a", tmp_path / "b"]))


def rows_of(name):
    """Header, units and rows of a capture, without what else was printed."""
    content = capture(name)
    return content[content.index(b'"ID"') :].splitlines(keepends=True)


# --- what stands in the cells --------------------------------------------------------------------


def test_missing_is_missing_never_zero():
    cells = ["no data", "n/a", "nan", "(!) nan", "", "-nan(ind)", "inf", "7"]
    table = parse_ncu_csv(raw_page({"a__b.sum": ("inst", cells)}))
    assert table.launches["a__b.sum"].isna().tolist() == [True] * 7 + [False]
    assert table.launches["a__b.sum"].dtype == np.float64
    assert table.notices == ()


def test_numbers_that_nobody_can_read_are_no_words():
    cells = {"a__b.sum": ("ns", ["12,34,567.5"]), "a__mode": ("", ["Fast"])}
    table = parse_ncu_csv(raw_page(cells))
    assert kinds(table) == [NoticeKind.CSV_BAD_CELLS]


def test_words_are_kept_where_a_metric_is_words():
    cells = {
        "x__mode": ("", ["Fast", "no data", "True"]),
        "launch__tpc_enabled": ("", ["0,1", "2", ""]),
    }
    launches = parse_ncu_csv(raw_page(cells)).launches
    assert launches["x__mode"].isna().tolist() == [False, True, False]
    assert launches["x__mode"].tolist()[::2] == ["Fast", "True"]
    assert launches["launch__tpc_enabled"].tolist()[:2] == ["0,1", "2"]


def test_a_word_among_numbers_is_missing_and_said():
    table = parse_ncu_csv(raw_page({"a__b.sum": ("inst", ["1", "bad", "3", "worse"])}))
    np.testing.assert_array_equal(table.launches["a__b.sum"], [1, np.nan, 3, np.nan])
    assert [dict(n.values) for n in table.notices] == [
        {"file": "ncu.csv", "count": 2, "metric": "a__b.sum", "example": "bad"}
    ]


def test_marked_numbers_are_numbers():
    table = parse_ncu_csv(raw_page({"a__b.sum": ("us", ["(!) 12", "1"])}))
    assert table.launches["a__b.sum"].tolist() == [12000, 1000]


def test_continental_numbers_are_told_by_the_other_columns():
    metrics = {
        TIME: ("ns", ["117.344", "98.304"]),
        "dram__bytes.sum": ("byte", ["27.595.520", "1.024"]),
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("%", ["65,77", "8"]),
    }
    launches = parse_ncu_csv(raw_page(metrics)).launches
    assert launches[TIME].tolist() == [117344, 98304]
    assert launches["dram__bytes.sum"].tolist() == [27595520, 1024]
    assert launches.iloc[0, -1] == 65.77


def test_continental_numbers_are_told_by_a_later_row():
    table = parse_ncu_csv(raw_page({TIME: ("ns", ["117.344", "1.117.344"])}))
    assert table.launches[TIME].tolist() == [117344, 1117344]


@pytest.mark.parametrize("space", ["\u202f", "\u00a0", "'"])
def test_spaces_between_thousands(space):
    metrics = {TIME: ("ns", [f"117{space}344", "7"]), "a__b.pct": ("%", ["65,77", "1,5"])}
    launches = parse_ncu_csv(raw_page(metrics)).launches
    assert launches[TIME].tolist() == [117344, 7]
    assert launches["a__b.pct"].tolist() == [65.77, 1.5]


def test_a_code_page_instead_of_utf8():
    data = raw_page({TIME: ("ns", ["117 344"])}).encode().replace(b"117 344", b"117\xff344")
    assert parse_ncu_csv(data).launches[TIME].tolist() == [117344]


def test_bytes_that_are_no_text_and_nul_bytes():
    data = raw_page({TIME: ("ns", ["5"])}).encode().replace(b"k(float", b"k\xfe\0(float")
    assert parse_ncu_csv(data).launches["kernel"].tolist() == ["k\ufffd(float *)"]


def test_quotes_and_separators_inside_a_kernel_name():
    name = 'operator ""_x("a","b")'
    rows = [[str(i), *LAUNCH[1:4], name, *LAUNCH[5:], str(i)] for i in range(3)]
    table = parse_ncu_csv(quoted([*HEAD, TIME], [""] * 7 + ["ns"], *rows))
    assert table.launches["kernel"].tolist() == [name] * 3
    assert table.launches[TIME].tolist() == [0, 1, 2]
    assert table.notices == ()


def test_two_devices_in_turn():
    head = [*HEAD, "device__attribute_display_name", TIME]
    rows = [[str(i), *LAUNCH[1:], f"GPU {i % 2}", str(i)] for i in range(6)]
    table = parse_ncu_csv(quoted(head, [""] * 8 + ["ns"], *rows))
    assert table.launches[TIME].tolist() == [0, 1, 2, 3, 4, 5]
    assert table.attributes == {"device__attribute_display_name": "GPU 0"}
    assert table.notices == ()


# --- columns that other versions and modes have, or have not --------------------------------------


def test_range_replay_has_no_block_and_no_grid():
    row = ["0", "17", "app", "127.0.0.1", "range", "1", "n/a", "123"]
    launch = parse_ncu_csv(quoted([*HEAD, TIME], [""] * 7 + ["ns"], row)).launches.iloc[0]
    assert launch["kernel"] == "range"
    assert pd.isna(launch["stream"])
    assert pd.isna(launch["block_size"])
    assert pd.isna(launch["device"])
    assert launch["nvtx"] == ()
    assert launch[TIME] == 123


def test_old_raw_page_with_kernel_time_and_spelled_units():
    head = [
        "ID",
        "Process ID",
        "Process Name",
        "Host Name",
        "Kernel Name",
        "Kernel Time",
        "Context",
    ]
    head += ["Stream", "dram__bytes.sum.per_second", TIME, "sm__cycles_elapsed.avg.per_second"]
    units = [""] * 8 + ["Gbyte/second", "usecond", "cycle/nsecond"]
    row = ["0", "17", "app", "host", "k", "2019-Jul-09 12:00:00", "1", "7", "1.5", "2.5", "1.2"]
    table = parse_ncu_csv(quoted(head, units, row))
    launch = table.launches.iloc[0]
    assert launch["dram__bytes.sum.per_second"] == pytest.approx(1.5e9)
    assert launch[TIME] == 2500
    assert launch["sm__cycles_elapsed.avg.per_second"] == pytest.approx(1.2e9)
    assert "Kernel Time" not in table.launches.columns


def test_nvtx_columns():
    head = [*HEAD[:4], PUSH_POP, START_END, *HEAD[4:], TIME]
    cell = '17  "profiler:cell=a;block=1:none:none:RGB:0xff:REGISTERED:cell=a;block=1" '
    row = [*LAUNCH[:4], cell, "", *LAUNCH[4:], "5"]
    table = parse_ncu_csv(quoted(head, [""] * 9 + ["ns"], row))
    assert [(r.domain, r.name, r.thread) for r in table.launches["nvtx"][0]] == [
        ("profiler", "cell=a;block=1", 17)
    ]


def test_no_units_row_is_said_and_taken_as_base_units():
    lines = raw_page({TIME: ("ns", ["5", "6"])}).splitlines(keepends=True)
    table = parse_ncu_csv(lines[0] + "".join(lines[2:]))
    assert table.launches[TIME].tolist() == [5, 6]
    assert kinds(table) == [NoticeKind.CSV_NO_UNITS]


def test_units_beside_the_names():
    head = [*HEAD, "gpu__time_duration.sum [us]", "launch__block_size", "x__y [instance 0]"]
    table = parse_ncu_csv(quoted(head, [*LAUNCH, "1.5", "128", "3"]))
    assert table.launches[TIME].tolist() == [1500]
    assert table.launches["x__y [instance 0]"].tolist() == [3]


def test_a_metric_named_twice_is_kept_once():
    table = parse_ncu_csv(quoted([*HEAD, TIME, TIME], [""] * 9, [*LAUNCH, "5", "5"]))
    assert table.launches[TIME].tolist() == [5]
    assert not table.notices


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_files_that_another_program_saved_again(delimiter):
    want = parsed("ncu_raw_6metrics_2kernels")
    lines = capture("ncu_raw_6metrics_2kernels").decode().splitlines(keepends=True)
    plain = pd.read_csv(io.StringIO("".join(lines[4:])), dtype=str, keep_default_na=False)
    table = parse_ncu_csv(plain.to_csv(index=False, sep=delimiter))
    pd.testing.assert_frame_equal(table.launches, want.launches)


# --- files that stop ------------------------------------------------------------------------------


def test_a_file_cut_inside_a_row_keeps_the_whole_rows():
    data = capture("ncu_raw_onepass_60")
    table = parse_ncu_csv(data[:-700])
    whole = parsed("ncu_raw_onepass_60").launches
    pd.testing.assert_frame_equal(table.launches, whole.iloc[:59])
    assert kinds(table) == [NoticeKind.CSV_TRUNCATED]
    assert dict(table.notices[0].values) == {"file": "ncu.csv", "rows": 59}


def test_a_last_row_without_a_newline_is_whole():
    data = capture("ncu_raw_onepass_60").rstrip()
    table = parse_ncu_csv(data)
    assert len(table.launches) == 60
    assert table.notices == ()


def test_a_header_without_rows_gives_no_launches():
    lines = capture("ncu_raw_onepass_60").splitlines(keepends=True)
    for end in (4, 5):
        table = parse_ncu_csv(b"".join(lines[:end]))
        assert len(table.launches) == 0
        assert tuple(table.launches.columns[: len(LAUNCH_COLUMNS)]) == LAUNCH_COLUMNS


@pytest.mark.parametrize("missing", [1, 8, 200, 5000])
def test_compressed_files_that_stop(missing):
    packed = gzip.compress(capture("ncu_raw_threepass_60"))
    table = parse_ncu_csv(packed[:-missing])
    whole = parsed("ncu_raw_threepass_60").launches
    assert len(table.launches) >= 20
    pd.testing.assert_frame_equal(table.launches, whole.iloc[: len(table.launches)])
    assert NoticeKind.CSV_TRUNCATED in kinds(table)


def test_recordings_hold_no_names_of_machines():
    for name in all_captures():
        assert b"/home/" not in capture(name)
        assert b"root@" not in capture(name)
    assert sum(path.stat().st_size for path in RECORDINGS.iterdir()) < 400_000
