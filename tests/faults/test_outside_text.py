"""Text from outside reaches every door in a form that the door can take, whatever is in it."""

import csv
import io
import json
import re
import sys
import unicodedata
from dataclasses import replace
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
from as_read import data_of_page, printed
from run_folders import SPEC, Workplace, failed, fake_ncu, measured, ncu_csv

from profiler.analyse.safe_frames import safe_frames
from profiler.commands.importing import ImportRequest, import_files
from profiler.commands.output import dump, report_document, write_results
from profiler.findings.find import find
from profiler.machine.console import make_console
from profiler.model import BuildResult, Exclusion
from profiler.outside_text import safe, safe_values
from profiler.render.console.tables import final_summary
from profiler.run_folder.load.assemble import assemble

TURNS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def is_unsafe(char):
    """Whether a code point is a control, half of a character, a turn of direction, or none."""
    code = ord(char)
    return (
        (unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") and char not in "\t\n")
        or unicodedata.bidirectional(char) in TURNS
        or char in "\u061c\u200e\u200f"
        or code & 0xFFFE == 0xFFFE
        or 0xFDD0 <= code <= 0xFDEF
    )


def is_invisible(char):
    """Formats, and the block of tags."""
    return unicodedata.category(char) == "Cf" or 0xE0000 <= ord(char) <= 0xE007F


@cache
def every():
    """All code points; a second for each worker if they were looked at as it collects."""
    return [chr(code) for code in range(sys.maxunicode + 1)]


@cache
def unsafe():
    """Those that are unsafe, in their order."""
    return [char for char in every() if is_unsafe(char)]


ONE_OF_EACH = [
    *"\x9f\u3000\U0001e95f\U0001ecb0\uff62\uff63\U0001eef1\U00010ead\U0001fbf9\U0001e921",
    *"\U0001f3ff\uff3f\U0001e943\U0001fbca\U0003134a\u2e20\U000e007f\U0001f10c\u2e21\u1ffc",
    *"\U0001e94b\U000e01ef\U0010ffff\ua672\U0001d172\U0001246e\u2028\u2029\udfff\U0010fffd",
]
"""A code point of each category."""
CONTROLS = [c for c in map(chr, range(0x100)) if unicodedata.category(c) == "Cc" and is_unsafe(c)]
NASTY = "".join(
    [*CONTROLS, *ONE_OF_EACH, "\ud800\udcff\u202e\u2066\ufffe\uffff\U0010ffff\u2028 \x1b[31m<b>&'"]
)
WRITABLE = "".join(c for c in NASTY if unicodedata.category(c) != "Cs" and c not in '\n\r"')
"""What can stand in a file of UTF-8, on one line and in quotes."""
TURNED = "a \u202e b"


def unsafe_in(text):
    return {hex(ord(char)) for char in text if is_unsafe(char)}


def test_every_code_point_is_safe_afterwards_and_the_others_are_left_alone():
    assert {unicodedata.category(char) for char in every()} == set(
        map(unicodedata.category, ONE_OF_EACH)
    )
    assert not unsafe_in(safe("".join(every())))
    others = set(every()) - set(unsafe())
    harmless = "".join(char for char in others if not is_invisible(char))
    assert safe(harmless) == harmless
    assert safe("Größe\t→ 👩\u200d🔬\n") == "Größe\t→ 👩\u200d🔬\n"
    assert safe("\x1b \x9b \ud800 \udcff \u202e \U0001ffff \r\n\r") == (
        "\\x1b \\x9b \\ud800 \\xff \\u202e \\U0001ffff \n\\x0d"
    )


def test_names_that_differ_stay_different():
    assert [char for char in unsafe() if unicodedata.category(char) == "Cc"] == CONTROLS
    assert len({safe(f"a{char}") for char in unsafe()}) > len(unsafe()) - 200  # C1, as bytes


def test_values_are_made_safe_at_any_depth_and_copied_only_where_they_are_not():
    build = BuildResult("v", ok=False, error="\x07")
    values = {"a\x00": [build, ("\ud800", 1.5, None)], "b": {"c": "fine"}}
    assert safe_values(values) == {
        "a\\x00": [BuildResult("v", ok=False, error="\\x07"), ("\\ud800", 1.5, None)],
        "b": {"c": "fine"},
    }
    fine = {"a": [BuildResult("v", ok=True), ("x", 1)]}
    assert safe_values(fine) is fine


def yaml_text(text):
    """A text in double quotes of YAML, every character as an escape."""
    return '"' + "".join(f"\\U{ord(char):08x}" for char in text) + '"'


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    """A run in which everything that has a text has a nasty one.

    Specs refuse most of it: such names come from Python code, and from recordings of others.
    """
    place = Workplace(
        tmp_path_factory.mktemp("nasty"),
        f"{SPEC}description: {yaml_text(TURNED)}\nbaseline: loop\n",
    )
    place.with_environment(gpu=f"H200{NASTY}")
    place.run.write_builds([BuildResult("tree", ok=False, error=f"error: {NASTY}")])
    visits = place.visits("ncu-timing")
    good = [visit for visit in visits if visit[0] != "plain..small" and "tree" not in visit[0]]
    table = ncu_csv(good, ["duration_ns", "cycles"])
    place.attempt(
        visits=visits,
        journal=[*measured(good), failed("plain..small", "raised", NASTY)],
        csv=f"==ERROR== {WRITABLE}\n{table.replace('kernel_0(', f'kernel{WRITABLE}(')}",
    )
    cells = tuple(
        replace(cell, variant=_nasty(cell.variant), problem=_nasty(cell.problem))
        for cell in place.plan.cells
    )
    excluded = (Exclusion(NASTY, 1, "cell", (NASTY,)),)
    plan = replace(place.plan, cells=cells, excluded=excluded)
    return find(assemble(place.run, place.loaded, plan))


def _nasty(named):
    params = {**named.params, f"p{NASTY}": f"{named.name}{NASTY}"}
    return replace(named, name=f"{named.name}{NASTY}", params=params)


def test_console(findings):
    text = printed(final_summary(findings))
    assert not unsafe_in(text)
    assert "\\x1b[31m<b>&" in text.replace("\n", "").replace(" ", "")


def test_page_and_pictures(findings, tmp_path):
    page = write_results(findings, tmp_path)[1].read_text(encoding="utf-8", errors="strict")
    assert not unsafe_in(page)
    assert "\\x1b[31m&lt;b&gt;&amp;" in page
    assert not unsafe_in(json.dumps(data_of_page(page), ensure_ascii=False))
    pictures = re.findall(r"<svg\b.*?</svg>", page, re.DOTALL)
    assert len(pictures) > 1
    for picture in pictures:
        ElementTree.fromstring(picture)  # noqa: S314 - written by the page just now


def test_json(findings, tmp_path):
    document = json.loads(dump(report_document(findings)))
    causes = [cell["cause"] for cell in document["cells"] if cell["outcome"] == "raised"]
    assert "\\x1b[31m<b>&'" in causes[0]
    assert not unsafe_in(json.dumps(document, ensure_ascii=False))
    assert not unsafe_in(json.dumps(json.loads(dump({NASTY: [NASTY]})), ensure_ascii=False))


def test_csv(findings, tmp_path):
    write_results(findings, tmp_path, page=False)
    for name in ("samples.csv", "summary.csv"):
        text = (tmp_path / name).read_text(encoding="utf-8", errors="strict")
        assert not unsafe_in(text)
        assert len(list(csv.reader(io.StringIO(text)))) > 4
    assert "kernel\\x01" in (tmp_path / "samples.csv").read_text(encoding="utf-8")


def test_words_of_a_run_and_of_errors(capsys, monkeypatch):
    make_console("never").print(f"Page: {NASTY}", markup=False, soft_wrap=True)
    assert not unsafe_in(capsys.readouterr().out)


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "mine.yaml", "--only", "variant=\x1b[31m\u202e"],
        ["plan", "mine.yaml", "--set", "\x1b[31m\u202e=1"],
        ["plan", "mine.yaml", "--\x1b[31m\u202e"],
        ["plan", "\x1b[31m\u202e.yaml"],
        ["plan", "odd.yaml"],
        ["\x1b[31m\u202e"],
    ],
)
def test_errors_of_the_command_line(profiler, arguments):
    (profiler.folder / "work.py").write_text("")
    odd_key = yaml_text("\x1b[31m\x07")
    text = f"name: mine\nworkload: ./work.py\nvariants: {{list: [{yaml_text(TURNED)}]}}\n"
    (profiler.folder / "mine.yaml").write_text(text)
    (profiler.folder / "odd.yaml").write_text(f"{text}{odd_key}: 1\n")
    done = profiler(*arguments)
    assert not unsafe_in(done.out + done.err)
    assert "31m" in done.out + done.err


def test_frames_are_made_safe_in_every_kind_of_column_and_copied_only_where_they_are_not():
    frame = pd.DataFrame(
        {
            "path\x1b": [("a", "b\u202e"), None],
            "name": pd.Series(["\x07", "fine"], dtype="category"),
            "stack": [["f\ud800"], []],
            "ns": [1.0, float("nan")],
        }
    )
    made = safe_frames({"frame": frame})["frame"]
    assert list(made) == ["path\\x1b", "name", "stack", "ns"]
    assert made["path\\x1b"].tolist() == [("a", "b\\u202e"), None]
    assert made["name"].tolist() == ["\\x07", "fine"]
    assert made["stack"].tolist() == [["f\\ud800"], []]
    assert frame["name"].tolist() == ["\x07", "fine"]
    assert safe_frames(made) is made


def test_files_of_others(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = fake_ncu.Rows(["gpu__time_duration.sum"])
    made = [rows.make(n, 7, None, n, f"kernel{WRITABLE}", f"range{WRITABLE}") for n in range(2)]
    Path("theirs.csv").write_text(f"==WARNING== {WRITABLE}\n{rows.csv(made)}", encoding="utf-8")
    import_files(ImportRequest((Path("theirs.csv"),), json_target="json", color="never"))
    done = capsys.readouterr()
    page = Path("theirs.html").read_text(encoding="utf-8")
    document = json.dumps(json.loads(Path("json").read_text()), ensure_ascii=False)
    for text in (done.out, done.err, page, document):
        assert not unsafe_in(text)
    assert "\\x1b[31m" in page
