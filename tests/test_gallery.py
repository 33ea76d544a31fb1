"""`profiler gallery`: every recording of a folder as a page, comparisons of them, and an index."""

import re
import shutil
from html import unescape
from pathlib import Path

import pytest
from lxml import html

from profiler.commands.gallery import GalleryRequest, make_gallery
from profiler.errors import ExitCode, UsageError
from profiler.render.gallery import GalleryPage, MissingPage, render_index

RECORDINGS = Path(__file__).parents[1] / "experiments/recordings"
CONTENTS = """\
comparisons:
  both: {title: Twice <the> same, runs: [first, second]}
not_made:
  third: {reason: Its run was lost., commands: [profiler there & back]}
"""


@pytest.fixture(scope="module")
def gallery(tmp_path_factory):
    """Pages of two recordings, and one that compares them."""
    folder = tmp_path_factory.mktemp("gallery")
    for name in ("first", "second"):
        shutil.copytree(RECORDINGS / "timing_methods", folder / "recordings" / name)
    (folder / "recordings/gallery.yaml").write_text(CONTENTS)
    (folder / "recordings/README.md").write_text("no recording")
    code = make_gallery(GalleryRequest(folder / "recordings", folder / "pages"))
    assert code == ExitCode.COMPLETE
    return folder / "pages"


def test_every_recording_and_every_comparison_has_a_page(gallery):
    names = ["both.html", "first.html", "index.html", "second.html"]
    assert sorted(file.name for file in gallery.iterdir()) == names
    assert "Replayed recording: measured on" in (gallery / "first.html").read_text()
    assert "Comparison of 2 runs" in (gallery / "both.html").read_text()


def test_the_index_lists_them_with_machine_date_and_answer(gallery):
    document = html.fromstring((gallery / "index.html").read_text())
    (section,) = document.xpath("//section[@id='pages']")
    assert section.xpath(".//a/@href") == ["first.html", "second.html", "both.html"]
    titles = [link.text_content() for link in section.xpath(".//a")]
    assert titles[-1] == "Twice <the> same"
    lines = [paragraph.text_content() for paragraph in section.xpath(".//p")]
    assert lines[0] == "NVIDIA H200 · 2026-11-22 00:30 UTC"
    assert lines[4].startswith("NVIDIA H200 → NVIDIA H200 · 2026-11-22 00:30 UTC → ")
    page = unescape(re.sub(r"<[^>]+>", "", (gallery / "first.html").read_text()))
    assert titles[0] in page
    assert lines[1] in page, "the answer as the page says it"
    assert len(lines[1]) > 40
    assert "Its run was lost." in document.text_content()
    assert "profiler there & back" in document.text_content()


def test_nothing_from_outside_is_markup_in_the_index():
    evil = "<script>alert(1)</script>\"' onload=x &amp;"
    page = GalleryPage('a "b"<c>.html', evil, (evil, evil), (evil,), evil)
    missing = MissingPage(evil, evil, (evil,))
    text = render_index([page], [missing])
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
    with pytest.raises(UsageError, match=message):
        make_gallery(GalleryRequest(tmp_path, tmp_path / "pages"))
    assert not (tmp_path / "pages").exists()


def test_a_recording_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn/run.json").write_text("{")
    with pytest.raises(UsageError, match=r"torn/run\.json: damaged"):
        make_gallery(GalleryRequest(tmp_path, tmp_path / "pages"))
