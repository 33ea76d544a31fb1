"""`profiler import`: CSV of any page as launches with metrics of the catalogue."""

import csv
import gzip
import json
import shutil
from pathlib import Path

import lxml.html
import pytest
from as_read import strict_json

from profiler.analyse.timeline import MOST_NUMBERED
from profiler.commands.importing import ImportRequest, import_files
from profiler.commands.output import dump
from profiler.errors import ParseError, UsageError
from profiler.importers.registry import read_files
from profiler.notices import NoticeKind

pytestmark = pytest.mark.usefixtures("undrawn")
RECORDINGS = Path(__file__).parents[2] / "recordings/ncu-2025.3.1"
CAPTURES = sorted(RECORDINGS.glob("*.csv*"))
ALWAYS = {"duration_ns", "cycles", "registers", "l2_hit_pct"}


def document(*files):
    """The document as another program gets it."""
    return strict_json(dump(read_files(files)[0].document()))


def capture(name):
    return next(RECORDINGS.glob(f"{name}.csv*"))


@pytest.mark.parametrize("file", CAPTURES, ids=lambda file: file.name.partition(".")[0])
def test_every_capture_is_a_document(file):
    found = document(file)
    assert found["schema_version"] == 1
    assert found["launches"]
    for launch in found["launches"]:
        assert set(launch) == {"kernel", "id", "nvtx", "block_size", "grid_size", "metrics"}
        assert isinstance(launch["kernel"], str)
        assert isinstance(launch["id"], int)
        assert set(launch["metrics"]) >= ALWAYS


def test_values_of_a_real_capture():
    launches = document(capture("ncu_raw_6metrics_2kernels"))["launches"]
    assert [launch["id"] for launch in launches] == list(range(6))
    # Two kernels in turn; as it stands in the file: 175,268,352 bytes.
    assert launches[0]["metrics"]["dram__bytes.sum"] == 175_268_352
    assert len({launch["kernel"] for launch in launches}) == 2
    for metrics in (launch["metrics"] for launch in launches):
        assert metrics["duration_ns"] == metrics["gpu__time_duration.sum"]
        assert metrics["cycles"] == metrics["sm__cycles_elapsed.max"]
        assert 0 < metrics["l2_hit_pct"] < 100
        assert isinstance(metrics["registers"], int)


def test_what_a_file_does_not_have_is_null_and_never_0():
    for name in ("ncu_raw_nvtx_cells", "ncu_raw_onepass_60"):
        for launch in document(capture(name))["launches"]:
            assert launch["metrics"]["l2_hit_pct"] is None


def test_a_table_without_a_launch_is_no_answer(tmp_path):
    """It was an empty page, with exit code 0."""
    lines = Path(capture("ncu_raw_6metrics_2kernels")).read_text().splitlines(keepends=True)
    header = next(place for place, line in enumerate(lines) if line.startswith('"ID"'))
    file, other = tmp_path / "cut.csv", tmp_path / "whole.csv"
    file.write_text("".join(lines[: header + 2]))
    other.write_text("".join(lines))
    with pytest.raises(ParseError, match=r"cut\.csv: a table of ncu without a launch") as raised:
        read_files([file])
    assert "profile again" in raised.value.remedy
    file.write_text("".join(lines[: header + 2]) + '"0","1"\n')
    with pytest.raises(ParseError, match=r"1 row does not fit the header .*without a launch"):
        read_files([file])
    imported, _ = read_files([other, file])
    assert len(imported.launches) == 6
    assert NoticeKind.CSV_NO_LAUNCHES in {notice.kind for notice in imported.notices}


def test_ranges_around_a_launch_are_named():
    named = [
        name
        for launch in document(capture("ncu_raw_nvtx_cells"))["launches"]
        for name in launch["nvtx"]
    ]
    assert any("dom range" in name and "profiler" in name for name in named)


STEPS = """\
"ID","Kernel Name","thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",\
"gpu__time_duration.sum"
"","","","ns"
"""


def test_a_kernel_that_ncu_named_by_its_range_is_the_kernel():
    launches = read_files([capture("ncu_raw_100runs")])[0].document()["launches"]
    kernels = {launch["kernel"].partition("<")[0] for launch in launches}
    assert kernels == {
        "nvjet_sm90_hsh_256x128_64x4_1x2_h_bz_coopA_NNT",
        "void at::native::",
    }


def test_a_page_groups_ranges_by_what_stays_and_each_launch_has_its_whole_name(tmp_path):
    """Numbers of which there are few stay: launches at two sizes are two kinds."""
    names = [f"size={512 << n % 2};step_{n}" for n in range(2 * MOST_NUMBERED + 2)]
    cells = [f'7  ""<default domain>:{name}:none:none:none:none:none:none"" ' for name in names]
    rows = [f'"{number}","k","{cell}","9"\n' for number, cell in enumerate(cells)]
    (tmp_path / "steps.csv").write_text(STEPS + "".join(rows))
    import_files(ImportRequest([tmp_path / "steps.csv"], page=tmp_path / "page.html"))
    html = (tmp_path / "page.html").read_text()
    assert all(f'<td class="words">size={size};step_*</td>' in html for size in (512, 1024))
    assert all(f'<td class="words">{name}</td>' in html for name in names)


def test_both_pages_give_the_same_names():
    raw = document(capture("ncu_raw_6metrics_2kernels"))["launches"][0]["metrics"]
    details = document(capture("ncu_details_basic"))["launches"][0]["metrics"]
    for name in ALWAYS:
        assert isinstance(raw[name], int | float)
        assert isinstance(details[name], int | float)


def test_several_files_are_one_document():
    files = [capture(name) for name in ("ncu_details_basic", "ncu_raw_onepass_60")]
    together = document(*files)["launches"]
    apart = [launch for file in files for launch in document(file)["launches"]]
    assert len(together) == len(apart)
    for joined, single in zip(together, apart, strict=True):
        assert {key: joined[key] for key in ("kernel", "id", "nvtx")} == {
            key: single[key] for key in ("kernel", "id", "nvtx")
        }
        assert single["metrics"].items() <= joined["metrics"].items()
        extra = set(joined["metrics"]) - set(single["metrics"])
        assert all(joined["metrics"][name] is None for name in extra)


def test_whole_numbers_are_whole_and_others_are_not():
    metrics = document(capture("ncu_raw_6metrics_2kernels"))["launches"][0]["metrics"]
    assert isinstance(metrics["cycles"], int)
    assert isinstance(metrics["l2_hit_pct"], float)


def test_a_compressed_file_reads_like_the_plain_one(tmp_path):
    source = RECORDINGS / "ncu_raw_6metrics_2kernels.csv"
    packed = tmp_path / "a.csv.gz"
    packed.write_bytes(gzip.compress(source.read_bytes()))
    assert document(packed) == document(source)


def test_a_cut_file_says_so(tmp_path):
    cut = tmp_path / "cut.csv"
    shutil.copy(RECORDINGS / "ncu_raw_6metrics_2kernels.csv", cut)
    cut.write_bytes(cut.read_bytes()[:-50])
    found = document(cut)
    assert len(found["launches"]) == 5
    (warning,) = found["warnings"]
    assert (warning["kind"], warning["severity"]) == ("csv_truncated", "warning")
    assert "cut.csv" in warning["text"]


def test_a_launch_without_a_kernel_name_is_null(tmp_path):
    file = tmp_path / "no-names.csv"
    head = '"ID","Kernel Name","gpu__time_duration.sum"\n"","","ns"\n'
    file.write_text(head + '"0","","1,024"\n"1","k","2"\n')
    launch, named = document(file)["launches"]
    assert named["kernel"] == "k"
    assert (launch["kernel"], launch["block_size"], launch["nvtx"]) == (None, None, [])
    assert launch["metrics"]["duration_ns"] == 1024
    assert launch["metrics"]["cycles"] is None


def test_one_file_without_a_table_is_refused_by_its_name(tmp_path):
    empty = tmp_path / "empty.csv"
    empty.write_text("hello\n")
    with pytest.raises(ParseError, match=r"empty\.csv"):
        read_files([capture("ncu_details_basic"), empty])


LONGER = ("gpu__time_duration.sum", "sm__cycles_elapsed.max", "smsp__cycles_active.avg",
          "smsp__cycles_active.sum", "smsp__inst_issued.sum")  # fmt: skip


@pytest.fixture
def two_files(tmp_path):
    """A real report with all sections, and one in which each kernel has 1.5 times as much to do."""
    text = gzip.decompress(capture("ncu_import_full_raw").read_bytes()).decode()
    head, *rows = list(csv.reader(text[text.index('"ID"') :].splitlines()))
    for row in rows[1:]:
        for place in map(head.index, LONGER):
            row[place] = str(1.5 * float(row[place].replace(",", "")))
    with (tmp_path / "slow.csv").open("w") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([head, *rows])
    (tmp_path / "quick.csv").write_text(text)
    return [tmp_path / "slow.csv", tmp_path / "quick.csv"]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.usefixtures("undrawn")
def test_two_files_have_an_account_between_them(two_files, tmp_path, capsys):
    target, page = tmp_path / "out.json", tmp_path / "page.html"
    import_files(ImportRequest(two_files, json_target=str(target), page=page, compare=True))
    said = json.loads(target.read_text())["comparison"]
    assert (said["first"], said["second"]) == ("slow.csv", "quick.csv")
    difference = said["first_ns"] - said["second_ns"]
    assert difference == pytest.approx(said["second_ns"] / 2)
    assert sum(part["ns"] for part in said["parts"]) == pytest.approx(difference)
    assert said["parts"][0]["name"] == "instructions"
    assert max(said["residuals"]) < 0.01
    sentence = "slow.csv takes 137.0 µs more than quick.csv under ncu"
    printed = " ".join(capsys.readouterr().out.replace("\u202f", " ").split())
    assert sentence in printed
    assert "more instructions" in printed
    assert 'id="account"' in page.read_text()


@pytest.mark.usefixtures("undrawn")
def test_files_of_different_gpus_are_said(two_files, tmp_path, capsys):
    """Whether they are compared or shown beside each other."""

    def warnings():
        import_files(ImportRequest(two_files, json_target="-"))
        document = json.loads(capsys.readouterr().out)
        return " ".join(warning["text"] for warning in document["warnings"])

    assert "different GPUs" not in warnings()
    quick = two_files[1].read_text()
    two_files[1].write_text(quick.replace("NVIDIA H200", "NVIDIA H100"))
    expected = "The files are of different GPUs: NVIDIA H200 (slow.csv), NVIDIA H100 (quick.csv)."
    import_files(ImportRequest(two_files, page=tmp_path / "page.html", compare=True))
    assert expected in capsys.readouterr().err
    two_files[1].write_text(quick.replace('"9.0"', '"8.0"'))
    assert "different GPUs" in warnings()


@pytest.mark.usefixtures("undrawn")
def test_two_files_of_the_same_times_have_no_account(two_files, tmp_path, capsys):
    two_files[1].write_text(two_files[0].read_text())
    import_files(ImportRequest(two_files, page=tmp_path / "page.html", compare=True))
    printed = " ".join(capsys.readouterr().out.split())
    assert "slow.csv and quick.csv take the same time under ncu, 411.0" in printed
    assert "more instructions" not in printed


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("ncu-2025.3.1/ncu_details_basic.csv.gz", "takes 66.1\u202f% of the 822.7"),
        (
            "ncu-2025.3.1/ncu_raw_onepass_60.csv.gz",
            "cunn_SoftMaxForwardReg (2 instantiations) takes 74.7\u202f% of the 1.440\u202fms of "
            "60 launches; the next, softmax_warp_forward (3 instantiations), 25.3",
        ),
        ("ncu-source-2025.3.1/planted_cuda_sass.csv.gz", "defects.cu:33 has 64.1\u202f% of the"),
    ],
)
def test_console_and_page_of_ncus_files_begin_with_the_same_sentence(tmp_path, capsys, file, says):
    page = tmp_path / "page.html"
    import_files(ImportRequest([RECORDINGS.parent / file], page=page))
    (answer,) = lxml.html.parse(page).getroot().find_class("answer")
    sentence = answer.text_content().strip()
    assert says in sentence
    assert " ".join(capsys.readouterr().out.split()).startswith(" ".join(sentence.split()))


def test_without_the_counters_of_an_account_that_is_said(tmp_path, capsys):
    files = [capture(name) for name in ("ncu_details_basic", "ncu_raw_onepass_60")]
    import_files(ImportRequest(files, page=tmp_path / "page.html", compare=True))
    assert "not complete" in " ".join(capsys.readouterr().out.split())


def test_only_two_files_with_launches_are_compared():
    page = RECORDINGS.parent / "ncu-source-2025.3.1/torch_sass.csv.gz"
    file = capture("ncu_details_basic")
    for files in ([file], [file, file], [file, page]):
        with pytest.raises(UsageError, match="two different files with launches of ncu, not 1"):
            import_files(ImportRequest(files, compare=True))


def test_launches_and_source_pages_are_shown_together(tmp_path, capsys):
    page = tmp_path / "page.html"
    source = RECORDINGS.parent / "ncu-source-2025.3.1/planted_cuda_sass.csv.gz"
    import_files(ImportRequest([source, capture("ncu_details_basic")], page=page))
    assert "defects.cu:19" in capsys.readouterr().out
    assert 'id="launches"' in page.read_text()


def test_folders_and_patterns_stand_for_their_files(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "captures"
    folder.mkdir()
    for name in ("b.csv", "a.csv"):
        (folder / name).write_bytes(capture("ncu_raw_6metrics_2kernels").read_bytes())
    (folder / "notes.txt").write_text("no table")
    for named in ((folder,), (Path("captures/*.csv"),), (folder / "a.csv", folder)):
        import_files(ImportRequest(named, json_target="-"))
        assert len(json.loads(capsys.readouterr().out)["launches"]) == 12
    with pytest.raises(UsageError, match="no file in this folder can be imported"):
        import_files(ImportRequest((tmp_path,)))
    with pytest.raises(ParseError, match=r"none\*.csv"):
        import_files(ImportRequest((Path("none*.csv"),)))
