"""Where `--json FILE` and `--out PAGE` write: what is no regular file keeps its place."""

import csv
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from profiler.commands.importing import ImportRequest, import_files
from profiler.commands.output import is_own_page, write_for_flag, write_page, write_target
from profiler.errors import EnvironmentUnusable, UsageError

LAUNCHES = '"ID","Kernel Name","gpu__time_duration.sum"\n"","","ns"\n"0","scale(float *)","1024"\n'


def test_a_regular_file_is_replaced_in_one_step(tmp_path):
    target = tmp_path / "deep/out.json"
    write_target(target, "old")
    before = target.stat().st_ino
    write_target(target, "new")
    assert target.read_text() == "new"
    assert target.stat().st_ino != before, "a reader of the old file keeps the old file"


def test_a_link_stays_and_what_it_points_to_is_written(tmp_path):
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("something that is longer")
    link.symlink_to(file)
    write_target(link, "new")
    assert link.is_symlink()
    assert file.read_text() == "new"
    hanging = tmp_path / "hanging"
    hanging.symlink_to(tmp_path / "not yet")
    write_target(hanging, "made")
    assert hanging.is_symlink()
    assert (tmp_path / "not yet").read_text() == "made"


def test_a_fifo_gives_the_text_to_its_reader_and_stays(tmp_path):
    fifo, received = tmp_path / "fifo", []
    os.mkfifo(fifo)
    reader = threading.Thread(target=lambda: received.append(fifo.read_text()))
    reader.start()
    write_target(fifo, "text" * 50_000)
    reader.join(timeout=60)
    assert received == ["text" * 50_000]
    assert stat.S_ISFIFO(fifo.stat().st_mode)


def test_a_reader_of_a_fifo_may_leave_early(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = subprocess.Popen(["head", "-c", "10", str(fifo)], stdout=subprocess.DEVNULL)
    write_target(fifo, "text" * 500_000)
    assert reader.wait(timeout=60) == 0


def test_a_descriptor_writes_into_the_file_that_is_open(tmp_path):
    """What `>(jq .)` and `3>file` give: the name of a descriptor under /dev/fd."""
    with (tmp_path / "file").open("w+") as stream:
        write_target(Path(f"/dev/fd/{stream.fileno()}"), "text")
        assert stream.read() == "text", "and not into another file that took its place"


def test_our_own_stdout_is_written_in_turn(capfd):
    sys.stdout.write("before\n")
    write_target(Path("/dev/stdout"), "text\n")
    sys.stdout.write("after\n")
    assert capfd.readouterr().out == "before\ntext\nafter\n"


def write_json(target, text):
    write_for_flag("--json", str(target), text)


@pytest.mark.parametrize(("write", "flag"), [(write_json, "--json"), (write_page, "--out")])
def test_a_full_device_is_an_error(write, flag):
    with pytest.raises(EnvironmentUnusable, match=r"/dev/full.*No space left") as caught:
        write(Path("/dev/full"), "text")
    assert flag in caught.value.remedy
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


@pytest.mark.parametrize("write", [write_json, write_page])
def test_a_folder_is_no_target(tmp_path, write):
    with pytest.raises(UsageError, match="Is a directory"):
        write(tmp_path, "text")


# ---- pages that import did not write -------------------------------------------------------------


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Current folder with one file of ncu; `import` of it would write mine.html."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.csv").write_text(LAUNCHES)
    return tmp_path


def import_mine(page=None):
    import_files(ImportRequest((Path("mine.csv"),), page=page, color="never"))


def test_import_replaces_its_own_page(here):
    import_mine()
    first = (here / "mine.html").read_text()
    import_mine()
    assert is_own_page(here / "mine.html")
    assert (here / "mine.html").read_text() == first


def test_import_keeps_the_page_of_another_file_of_that_name(here, capsys):
    files = [here / folder / "mine.csv" for folder in ("a", "b")]
    for number, file in enumerate(files):
        file.parent.mkdir()
        file.write_text(LAUNCHES.replace("1024", f"{number + 5}024"))
    requests = [ImportRequest(names) for names in ([files[0]], [files[1]], files, [files[0]])]
    pages = []
    for request in requests:
        import_files(request)
        pages.append(capsys.readouterr().out.rpartition("Page: ")[2].strip())
    assert pages == ["mine.html", "mine-2.html", "mine-3.html", "mine.html"]
    assert "5.02" in (here / "mine.html").read_text()
    assert "6.02" in (here / "mine-2.html").read_text()
    assert str(here) not in (here / "mine.html").read_text()


@pytest.mark.parametrize("content", ["<!DOCTYPE html><title>my thesis</title>", ""])
def test_import_leaves_a_page_that_it_did_not_write(here, content):
    (here / "mine.html").write_text(content)
    with pytest.raises(UsageError, match="not overwritten") as caught:
        import_mine()
    assert "--out" in caught.value.remedy
    assert (here / "mine.html").read_text() == content
    import_mine(page=here / "mine.html")
    assert is_own_page(here / "mine.html"), "who names it means it"


def test_a_file_that_is_called_by_an_ending_alone_has_a_page(here):
    Path("mine.csv").rename(".gz")
    import_files(ImportRequest([Path(".gz")]))
    assert is_own_page(here / ".gz.html")


def test_import_follows_no_link_of_that_name(here):
    (here / "mine.html").symlink_to(here / "elsewhere.html")
    with pytest.raises(UsageError, match="not overwritten"):
        import_mine()
    assert not (here / "elsewhere.html").exists()


def test_only_regular_files_are_pages_of_ours(here):
    os.mkfifo(here / "fifo")
    assert not is_own_page(here)
    assert not is_own_page(here / "nowhere")
    assert not is_own_page(Path("/dev/zero"))
    assert not is_own_page(here / "fifo"), "and it is not waited for"


def test_all_kinds_of_launches_are_in_a_table_beside_the_page_where_it_has_no_room(
    here, monkeypatch
):
    monkeypatch.setattr("profiler.render.imported_launches.MOST_GROUPS", 1)
    *_, row = LAUNCHES.splitlines()
    with (here / "mine.csv").open("a") as stream:
        stream.write(f"{row}\n".replace("scale", "=other").replace('"0"', '"1"', 1))
    import_mine()
    rows = list(csv.DictReader((here / "mine.kinds.csv").read_text().splitlines()))
    assert [row["kernel"] for row in rows] == ["scale(float *)", "'=other(float *)"]
    assert [(row["launches"], float(row["duration_ns"])) for row in rows] == [("1", 1024.0)] * 2
    assert 'href="mine.kinds.csv"' in (here / "mine.html").read_text()
    import_mine()
    (here / "mine.kinds.csv").write_text("my,own\n")
    with pytest.raises(UsageError, match="not overwritten"):
        import_mine()
    assert (here / "mine.kinds.csv").read_text() == "my,own\n"
