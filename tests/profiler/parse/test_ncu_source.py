"""The source page of ncu: one listing per launch, each instruction once."""

import gzip

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from source_pages import HEADER, RECORDINGS, line, lines_table, recorded, sass_table

from profiler.errors import ParseError
from profiler.metrics.catalogue import STALL_CAUSES
from profiler.notices import NoticeKind
from profiler.parse.ncu_csv import read_ncu_csv
from profiler.parse.ncu_source import (
    COLUMNS,
    SUMMED_COLUMNS,
    is_source_page,
    join_lines,
    opcode,
    read_source_page,
    with_lines,
)

PAGES = ("planted_sass", "planted_cuda_sass", "repeated_sass", "repeated_cuda_sass")


def launches_of(name):
    return read_ncu_csv(RECORDINGS / f"{name}.csv.gz").launches


def total(listing, column):
    return listing.instructions[column].sum(min_count=1)


# Captures


@pytest.mark.parametrize("name", ["torch", "repeated"])
@pytest.mark.parametrize("names_of_launches", [False, True])
def test_instructions_add_up_to_what_the_raw_page_counts(name, names_of_launches):
    launches = launches_of(f"{name}_raw")
    kernels = launches["kernel"].tolist() if names_of_launches else None
    listings = read_source_page(RECORDINGS / f"{name}_sass.csv.gz", kernels)[0]
    executed = [total(listing, "executed") for listing in listings]
    # Of the same pass: a kernel that spins (cuDNN's) executes more in one pass than in another.
    assert executed == launches["inst_executed"].tolist()
    np.testing.assert_allclose(executed, launches["smsp__inst_executed.sum"], rtol=0.006)


def test_samples_by_reason_are_those_of_the_raw_page():
    launches = launches_of("torch_raw")
    listings = read_source_page(RECORDINGS / "torch_sass.csv.gz")[0]
    raw_names = {"no_instruction": "no_instructions", "gmma": "warpgroup_arrive"}
    columns = {f"stall_{reason}": raw_names.get(reason, reason) for reason in STALL_CAUSES}
    columns["stall_unnamed"] = columns.pop("stall_gmma")  # the page has no column for it
    for (_, launch), listing in zip(launches.iterrows(), listings, strict=True):
        assert total(listing, "samples") == launch["smsp__pcsamp_sample_count"]
        for column, raw in columns.items():
            for suffix in ("", "_not_issued"):
                counter = f"smsp__pcsamp_warps_issue_stalled_{raw}{suffix}"
                assert total(listing, f"{column}{suffix}") == launch[counter]
    assert total(listings[1], "stall_unnamed") == 828
    assert listings[1].instructions["stall_gmma"].isna().all()


def test_copies_are_no_second_launches():
    kernels = [listing.kernel for listing in read_source_page(recorded("repeated_sass"))[0]]
    lined, plain, nothing = "lined(float *, int)", "plain(float *)", "nothing(float *)"
    # As the program launches them; only those with line information stand twice in the file.
    assert kernels == [lined, lined, plain, plain, nothing, nothing, lined, plain, plain]
    assert recorded("repeated_sass").count(b'"Kernel Name"') == 14


def test_values_of_one_instruction():
    (_, sums, polynomial) = read_source_page(recorded("planted_sass"))[0]
    assert sums.kernel == "column_sums(const float *, float *, int)"
    load = sums.instructions.query("opcode == 'LDS.128'").iloc[0]
    assert load["sass"] == "LDS.128 R8, [R2]"
    assert (load["executed"], load["thread_executed"]) == (524_288, 16_777_216)
    assert (load["address_space"], load["access_operation"]) == ("Shared", "Load")
    assert load["access_size"] == "128"
    assert load["shared_conflict_way"] == 32
    assert (
        load["shared_wavefronts"] - load["shared_wavefronts_ideal"]
        == (load["shared_wavefronts_excessive"])
    )
    assert np.isnan(load["local_sectors"])  # the page of this kernel has no such column
    assert total(polynomial, "local_sectors") > 0
    barrier = sums.instructions.query("opcode == 'BAR.SYNC.DEFER_BLOCKING'").iloc[0]
    assert barrier["address_space"] is None


def test_both_pages_have_the_same_counters():
    for name in ("planted", "repeated"):
        listings = read_source_page(recorded(f"{name}_sass"))[0]
        for lined in read_source_page(recorded(f"{name}_cuda_sass"))[0]:
            same = [x for x in listings if x.kernel == lined.kernel]
            numbers = [column for column in COLUMNS if column not in ("file", "line", "text")]
            assert any(x.instructions[numbers].equals(lined.instructions[numbers]) for x in same)


def test_lines_have_the_sums_of_their_instructions():
    listing = join_lines(
        *(read_source_page(recorded(f"planted_{p}"))[0] for p in ("sass", "cuda_sass"))
    )[0]
    assert listing.has_lines
    by_line = listing.instructions.groupby("line")
    table = by_line[[*SUMMED_COLUMNS]].sum(min_count=1)
    assert table.index.tolist() == [5, 6, 7, 8, 9]
    # As the row of line 8 has it on the page `cuda,sass`.
    write = table.loc[8]
    assert by_line["text"].first()[8].startswith("out[x * n + y] = in[y * n + x];")
    assert (write["samples"], write["samples_not_issued"], write["executed"]) == (
        6899,
        6112,
        5_242_880,
    )
    for column in SUMMED_COLUMNS:
        np.testing.assert_equal(table[column].sum(min_count=1), total(listing, column))


def test_an_inlined_instruction_counts_once_where_its_function_stands():
    listing = read_source_page(recorded("repeated_cuda_sass"))[0][0]
    assert listing.instructions["address"].is_unique
    inlined = listing.instructions.query("opcode == 'FFMA'")
    assert set(inlined["file"]) == {"/src/h.cuh"}
    assert set(inlined["text"]) == {"__device__ inline float twice(float x){ return x*2.f+1.f; }"}


def test_a_launch_without_samples_has_missing_ones_and_not_0():
    nothing = [x for x in read_source_page(recorded("repeated_sass"))[0] if "nothing" in x.kernel]
    first, second = (listing.instructions for listing in nothing)
    assert first["samples"].notna().all()
    assert second["stall_wait"].isna().all()
    assert second["samples_not_issued"].notna().all()


def test_text_alone_is_no_listing():
    assert read_source_page(recorded("planted_cuda")) == ((), ())


def test_kernels_without_lines_have_no_listing_on_the_page_of_lines():
    page = read_source_page(RECORDINGS / "torch_cuda_sass.csv.gz")
    assert page[0] == ()
    listings = read_source_page(recorded("repeated_sass"))[0]
    joined = join_lines(listings, read_source_page(recorded("repeated_cuda_sass"))[0])
    assert [listing.has_lines for listing in joined] == [
        "plain" not in listing.kernel for listing in listings
    ]


# Pages made by hand

ROWS = [["0x10", "      LDC R1, c[0x0][0x28]", 3, 8], ["0x20", "@!P0  LDG.E.128 R4, [R2]", 5, 4]]


def test_spellings_of_older_versions():
    header = ["#", "Address", "Source", "Warp Stall Sampling (All Cycles)", "stall_long_sb"]
    header += ["stall_sleeping", "stall_brand_new", "stall_brand_new (Not Issued)"]
    row = ["0", "0000001f", "@P0 EXIT", "1,234", "7", "1", "2", "3"]
    (listing,) = read_source_page(sass_table("k", [row], header))[0]
    instruction = listing.instructions.iloc[0]
    assert instruction["address"] == 0x1F
    assert instruction["samples"] == 1234
    assert instruction["stall_long_scoreboard"] == 7
    assert instruction["stall_sleeping"] == 1
    assert (instruction["stall_brand_new"], instruction["stall_brand_new_not_issued"]) == (2, 3)
    assert tuple(listing.instructions.columns[: len(COLUMNS)]) == COLUMNS


def test_equal_launches_are_told_from_copies_by_their_number():
    page = sass_table("k", ROWS) * 4
    assert len(read_source_page(page)[0]) == 2
    assert len(read_source_page(page, ["k"] * 4)[0]) == 4
    assert len(read_source_page(page, ["k", "k"])[0]) == 2
    assert len(read_source_page(page, ["k", "another"])[0]) == 2  # of another report


def test_one_pair_that_differs_shows_that_a_kernel_has_no_copies():
    other = [[*ROWS[0][:3], 9], ROWS[1]]
    page = sass_table("k", ROWS) * 2 + sass_table("m", ROWS) + sass_table("k", ROWS)
    assert len(read_source_page(page + sass_table("k", other))[0]) == 5


def test_source_lines_are_not_escaped():
    text = 'printf("a","b", "");'
    rows = [
        [7, text, "-", "-", 8, 12],
        ["", "", *ROWS[0]],
        ["", "", *ROWS[0]],
        ["", "", "...", "...", "-", "-"],
        ["", "", *ROWS[1]],
    ]
    (listing,), notices = read_source_page(lines_table("k", "/a.cu", rows))
    assert listing.instructions["text"].tolist() == [text, text]
    assert listing.instructions["executed"].tolist() == [8, 4]
    assert listing.instructions["line"].tolist() == [7, 7]
    assert notices == ()


def test_the_same_file_again_is_the_next_launch():
    rows = [[7, "x", "-", "-", 8, 12], ["", "", *ROWS[0]]]
    page = lines_table("k", "/a.cu", rows) + lines_table("k", "/b.cuh", rows)
    assert len(read_source_page(page * 2)[0]) == 2


def test_lines_are_joined_only_to_the_same_instruction():
    rows = [[7, "x", "-", "-", 8, 12], ["", "", *ROWS[0]], ["", "", "0x20", "EXIT", 1, 1]]
    (lined,) = read_source_page(lines_table("k", "/a.cu", rows))[0]
    (listing,) = read_source_page(sass_table("k", ROWS))[0]
    assert with_lines(listing, lined).instructions["line"].tolist() == [7, pd.NA]
    assert listing.instructions["line"].isna().all()


@pytest.mark.parametrize(
    ("sass", "expected"),
    [
        ("LDC R1, c[0x0][0x28]", "LDC"),
        ("@!P0 LDG.E.128 R4, [R2]", "LDG.E.128"),
        ("@!UPT UIADD3 UR4, URZ, URZ, URZ", "UIADD3"),
        ("{ NOP }", "NOP"),
        ("EXIT;", "EXIT"),
        ("P2R R4, PR, RZ, 0x8", "P2R"),
        ("", ""),
    ],
)
def test_opcodes_stand_behind_the_predicate(sass, expected):
    assert opcode(sass) == expected


def test_rows_that_do_not_fit_are_counted():
    rows = [*ROWS, ["0x30", "EXIT"], ["zz", "EXIT", 1, 1]]
    (listing,), (notice,) = read_source_page(sass_table("k", rows))
    assert len(listing.instructions) == 2
    assert notice.kind is NoticeKind.SOURCE_BAD_ROWS
    assert (notice.values["count"], notice.values["line"]) == (2, 5)


@pytest.mark.parametrize("content", ["", "hello\n", '"ID","Kernel Name"\n', '"Kernel Name","k",\n'])
def test_other_files_are_refused(content):
    with pytest.raises(ParseError, match="no source page"):
        read_source_page(content)


def test_what_ncu_says_is_in_the_error(tmp_path):
    text = "==ERROR== Invalid option --nvtx specified for --import"
    with pytest.raises(ParseError, match="Invalid option --nvtx"):
        read_source_page(f"{text}\n")
    with pytest.raises(ParseError, match=r"absent\.csv: cannot be read"):
        read_source_page(tmp_path / "absent.csv")


def test_source_pages_are_known_by_their_first_line():
    heads = {n: recorded(n)[:4000].decode() for n in (*PAGES, "planted_cuda", "torch_raw")}
    assert not is_source_page(heads.pop("torch_raw"))
    assert all(map(is_source_page, heads.values()))
    assert is_source_page("==PROF== x\n\n" + heads["planted_sass"])
    assert not is_source_page("")


# Properties

counts = st.integers(min_value=0, max_value=10**13)
texts = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=12
)


@st.composite
def listings(draw):
    """Kernel and rows of a listing."""
    size = draw(st.integers(min_value=1, max_value=5))
    start = draw(st.integers(min_value=0, max_value=2**50))
    rows = [
        [hex(start + 16 * i), "FADD R1, R2, R3", draw(counts), draw(counts)] for i in range(size)
    ]
    return draw(texts), rows


@given(
    pages=st.lists(listings(), min_size=1, max_size=4, unique_by=lambda page: page[0]),
    copies=st.booleans(),
)
@settings(max_examples=40)
def test_what_is_written_comes_back(pages, copies):
    page = "".join(sass_table(kernel, rows) * (1 + copies) for kernel, rows in pages)
    parsed = read_source_page(page)[0]
    assert [listing.kernel for listing in parsed] == [kernel for kernel, _ in pages]
    for listing, (_, rows) in zip(parsed, pages, strict=True):
        assert listing.instructions["address"].tolist() == [int(row[0], 16) for row in rows]
        assert listing.instructions["samples"].tolist() == [row[2] for row in rows]
        assert listing.instructions["executed"].tolist() == [row[3] for row in rows]


quoted_texts = texts.flatmap(
    lambda text: st.sampled_from([text, f'{text}","{text}', f'"{text}"', f"{text},"])
)


@given(text=quoted_texts)
@example(text='",')
@settings(max_examples=40)
def test_any_source_line_keeps_its_text_and_its_counters(text):
    rows = [[7, text, "-", "-", 8, 12], *(["", "", *row] for row in ROWS)]
    (listing,) = read_source_page(lines_table("k", "/a.cu", rows))[0]
    assert listing.instructions["text"].tolist() == [text, text]
    assert listing.instructions["executed"].tolist() == [8, 4]


@given(name=st.sampled_from(PAGES[2:]), data=st.data())
@settings(max_examples=25)
def test_instructions_of_a_cut_file_are_those_of_the_file(name, data):
    content = recorded(name)[:40_000]
    instructions = pd.concat([x.instructions for x in read_source_page(content)[0]])
    keys = set(
        zip(instructions["address"], instructions["executed"], instructions["samples"], strict=True)
    )
    end = data.draw(st.integers(min_value=0, max_value=len(content)))
    try:
        cut = read_source_page(content[:end])[0]
    except ParseError:
        return
    for listing in cut:
        frame = listing.instructions
        assert set(zip(frame["address"], frame["executed"], frame["samples"], strict=True)) <= keys


FRAGMENTS = [
    b'"', b'","', b"\n", b"\0", b"\xff", b"-", b"...", b'"Address","Source"', b"1e999", b"nan",
    b'"Kernel Name","', b'"File Path","', b"==ERROR== x\n", b"0x", b"\x1f\x8b",
]  # fmt: skip


@given(name=st.sampled_from(PAGES), packed=st.booleans(), data=st.data())
@settings(max_examples=60)
def test_damaged_pages_raise_nothing_but_our_own_error(name, packed, data):
    content = recorded(name)[:20_000]
    content = gzip.compress(content, 1) if packed else content
    for _ in range(data.draw(st.integers(min_value=1, max_value=5))):
        start = data.draw(st.integers(min_value=0, max_value=len(content)))
        gone = data.draw(st.sampled_from([0, 1, 50, 1000]))
        content = content[:start] + data.draw(st.sampled_from(FRAGMENTS)) + content[start + gone :]
    assert_law(content)


@given(content=st.binary(max_size=200))
@settings(max_examples=60)
def test_any_bytes_raise_nothing_but_our_own_error(content):
    assert_law(content)
    assert_law(b'"Kernel Name","k",\n' + line(*HEADER).encode() + content)


def assert_law(content):
    try:
        parsed = read_source_page(content)[0]
    except ParseError:
        return
    for listing in parsed:
        instructions = listing.instructions
        assert tuple(instructions.columns[: len(COLUMNS)]) == COLUMNS
        assert instructions["address"].is_unique
        assert instructions["address"].is_monotonic_increasing
        assert not np.isinf(instructions.select_dtypes("float64").to_numpy()).any()
