"""`profiler gallery`: every recording of a folder as a page, comparisons of them, and an index."""

import re
from concurrent.futures import Executor, Future
from html import unescape

import pytest
import yaml
from browser_pages import MOUSE, WAYS, findings_of, new_window, open_in
from lxml import html
from recorded import (
    AS_ANOTHER,
    RECORDINGS,
    findings_of_recording,
    looked_at,
    rendered_page,
    report_of_recording,
)

from profiler.commands import gallery as command
from profiler.commands.compare import CompareRequest, show_comparison
from profiler.commands.gallery import CONTENTS_FILE, GalleryRequest, make_gallery
from profiler.errors import ExitCode, ProfilerError, UsageError
from profiler.planning.page_kinds import PAGE_KINDS
from profiler.render.index import IndexEntry, render_gallery
from profiler.run_folder.archive import open_run

CONTENTS = yaml.safe_load((RECORDINGS / CONTENTS_FILE).read_text("utf-8"))
RUNS = sorted(file.stem for file in RECORDINGS.glob("*.zip"))
PAGES = [*RUNS, *CONTENTS["comparisons"], "index"]
IN_ALL_WAYS = "transpose"
"""The page whose details are opened by touch and key, too: one script does it on all pages."""
MOST_CELLS = "hopper_autotune"
MOST_BYTES = 2_500_000
MOST_BYTES_OF_A_CELL = {MOST_CELLS: 4_000, "fusion_attention": 6_000}
"""Of pages with many cells; the second has what an autotuner tried for each compiled one."""
"""A page has the numbers and rows of all its cells: of many, it may be as heavy as they are."""


ASSEMBLED = "profiler.comparison.runs.assemble"


def planned_cells(recording):
    return open_run(RECORDINGS / f"{recording}.zip").plan().cells


class Here(Executor):
    """Makes pages in this process, which has findings of recordings that other tests have too."""

    def __init__(self, *_):
        pass

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@pytest.fixture
def read_once(monkeypatch):
    """Recordings that are compared are read once in a worker."""
    monkeypatch.setattr(ASSEMBLED, lambda run, *_: report_of_recording(run.archive))


@pytest.fixture(scope="module")
def gallery(tmp_path_factory):
    """The pages of all recordings, as they are published."""
    folder = tmp_path_factory.mktemp("gallery")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "ProcessPoolExecutor", Here)
        patch.setattr(command, "find_recorded", findings_of_recording)
        patch.setattr("profiler.render.page.render_page", rendered_page)
        patch.setattr(ASSEMBLED, lambda run, *_: report_of_recording(run.archive))
        assert make_gallery(GalleryRequest(RECORDINGS, folder)) == ExitCode.COMPLETE
    return folder


def test_a_page_and_an_error_are_the_same_from_a_process_of_its_own(gallery, tmp_path, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # a second process would import it all again
    recordings, pages = tmp_path / "recordings", tmp_path / "pages"
    (recordings / "unreadable").mkdir(parents=True)
    (recordings / "unreadable/run.json").write_text("{")
    (recordings / "transpose.zip").symlink_to(RECORDINGS / "transpose.zip")
    with pytest.raises(UsageError, match=r"unreadable/run\.json: damaged"):
        make_gallery(GalleryRequest(recordings, pages))
    assert [file.name for file in pages.iterdir()] == ["transpose.html"]
    assert (pages / "transpose.html").read_bytes() == (gallery / "transpose.html").read_bytes()


def test_a_reference_of_one_run_alone_leaves_the_others_their_names(read_once, tmp_path, capsys):
    runs = tuple(str(RECORDINGS / f"{name}.zip") for name in ("autotune", "autotune_large"))
    request = CompareRequest(runs, reports=tmp_path, no_report=True)
    assert show_comparison(request) == ExitCode.COMPLETE
    printed = capsys.readouterr().out
    assert "The code of BF16 \u00b7 128\u00d764 \u00b7 2/2/0," in printed
    assert "Of the others whose code did not change, 1 is the same within its margin" in printed


def test_every_recording_and_every_comparison_has_a_page(gallery):
    assert {file.name for file in gallery.iterdir()} == {f"{name}.html" for name in PAGES}
    for name in RUNS:
        assert "Replayed recording: measured on" in (gallery / f"{name}.html").read_text()
    assert "Comparison of 2 runs" in (gallery / "softmax_twice.html").read_text()


def test_no_page_is_too_heavy_to_be_sent(gallery):
    sizes = {file.stem: file.stat().st_size for file in gallery.iterdir()}
    heavy = {name for name, size in sizes.items() if size > MOST_BYTES}
    assert heavy == MOST_BYTES_OF_A_CELL.keys()
    for name, most in MOST_BYTES_OF_A_CELL.items():
        assert sizes[name] <= most * len(planned_cells(name))


def test_the_index_lists_them_with_machine_date_and_answer(gallery):
    document = html.fromstring((gallery / "index.html").read_text())
    (section,) = document.xpath("//section[@id='pages']")
    assert section.xpath(".//a/@href") == [f"{name}.html" for name in PAGES[:-1]]
    titles = [link.text_content() for link in section.xpath(".//a")]
    assert titles[-1] == CONTENTS["comparisons"]["softmax_twice"]["title"]
    lines = [paragraph.text_content() for paragraph in section.xpath(".//p")]
    assert lines[0] == "NVIDIA H200 \u00b7 2026-11-23 02:12 UTC"
    assert lines[-2].startswith(
        "NVIDIA H100 80GB HBM3 \u2192 NVIDIA H100 80GB HBM3"
        " \u00b7 2026-11-26 17:38 UTC \u2192 2026-11-26 17:43 UTC"
    )
    page = unescape(re.sub(r"<[^>]+>", "", (gallery / f"{RUNS[0]}.html").read_text()))
    assert titles[0] in page
    assert lines[1] in page, "the answer as the page says it"
    assert len(lines[1]) > 40
    for page in CONTENTS["not_made"].values():
        assert " ".join(page["reason"].split()) in document.text_content()
        assert all(command in document.text_content() for command in page["commands"])


# ---- in a browser --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def looks():
    """Looks of the elements that axe-core has seen, over all pages."""
    return set()


@pytest.fixture(scope="module")
def window(browser):
    """One for all pages of the gallery: a process for each is a third of the time of opening it."""
    page = new_window(browser)
    yield page
    page.context.close()


def test_the_filter_of_the_index_leaves_rows_with_every_word(gallery, window):
    opened = open_in(window, (gallery / "index.html").as_uri())
    opened.page.locator("#find-listed").fill("h200 warpgroups")
    shown = opened.page.locator(".listed:visible")
    assert [link.get_attribute("href") for link in shown.locator("h3 a").all()] == [
        "hopper_timeline.html"
    ]
    assert opened.page.locator(".tools output").inner_text() == f"1 of {len(PAGES) - 1}"


@pytest.mark.parametrize("name", looked_at(PAGES))
def test_nothing_is_wrong_with_a_page(gallery, window, looks, name):
    opened = open_in(window, (gallery / f"{name}.html").as_uri())
    found = findings_of(opened, looks, WAYS if name == IN_ALL_WAYS else (MOUSE,))
    assert {check: wrong for check, wrong in found.items() if wrong} == {}


def test_a_page_of_every_kind_is_opened():
    kinds = {}
    for name in RUNS:
        page = yaml.safe_load(
            open_run(RECORDINGS / f"{name}.zip").spec_file.read_text("utf-8")
        ).get("page")
        kinds.setdefault((page or {}).get("kind", "versions"), set()).add(name)
    assert kinds.keys() == PAGE_KINDS.keys()
    assert all(names - AS_ANOTHER for names in kinds.values()), kinds


def test_nothing_from_outside_is_markup_in_the_index():
    evil = "<script>alert(1)</script>\"' onload=x &amp;"
    page = IndexEntry('a "b"<c>.html', evil, (evil, evil), (evil,), evil)
    text = render_gallery([page], {evil: (evil, (evil,))})
    document = html.fromstring(text)
    assert "<script>alert" not in text
    assert document.text_content().count(evil) == 8
    (link,) = document.xpath("//section[@id='pages']//a")
    assert dict(link.attrib) == {"href": "a%20%22b%22%3Cc%3E.html"}


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ("comparisons: {x: {title: one, runs: [a]}}", "runs"),
        ("colour: blue", "colour"),
        ("a: [", "gallery.yaml"),
        ("", "no recordings"),
    ],
)
def test_what_cannot_be_made_is_said(tmp_path, contents, message):
    (tmp_path / "gallery.yaml").write_text(contents)
    with pytest.raises(ProfilerError, match=message) as raised:
        make_gallery(GalleryRequest(tmp_path, tmp_path / "pages"))
    assert raised.value.exit_code is ExitCode.BAD_USAGE
    assert not (tmp_path / "pages").exists()


@pytest.mark.parametrize(
    ("page", "other"), [("torn", "the recording torn"), ("index", "the index")]
)
def test_no_page_takes_the_place_of_another(tmp_path, page, other):
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn/run.json").write_text("{")
    (tmp_path / "gallery.yaml").write_text(f"comparisons: {{{page}: {{title: x, runs: [a, b]}}}}")
    with pytest.raises(UsageError, match=f"a page cannot be called '{page}' as {other} is"):
        make_gallery(GalleryRequest(tmp_path, tmp_path / "pages"))
    assert not (tmp_path / "pages").exists()
