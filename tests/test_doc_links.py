"""Links and paths of the documents lead to files of the repository, and links to their headings."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
PATH = re.compile(r"(?<![\w./~-])(?:benchmarks|experiments|kernels|runner|tests)/[\w./-]*[\w/]")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
DOCUMENTS = sorted(
    line
    for line in subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    if not line.startswith("tests/")
)


def anchors(document):
    """Ids that headings have, as a site makes them: of words without signs."""
    text = re.sub(r"```.*?```", "", document.read_text("utf-8"), flags=re.DOTALL)
    for heading in HEADING.findall(text):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        yield re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name):
    document = ROOT / name
    text = CODE.sub("", document.read_text("utf-8"))
    wrong = []
    for link in (one or other for one, other in LINK.findall(text)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        if not target.exists() or (anchor and anchor not in set(anchors(target))):
            wrong.append(link)
    assert not wrong


@pytest.mark.parametrize("name", DOCUMENTS)
def test_rows_of_a_table_have_the_cells_of_its_head(name):
    """A bar inside a cell begins another one, in code too, unless a backslash stands before it."""
    text = re.sub(r"```.*?```", "", (ROOT / name).read_text("utf-8"), flags=re.DOTALL)
    for table in re.findall(r"(?:^\|.*\n?)+", text, flags=re.MULTILINE):
        bars = [len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()]
        assert set(bars) == {bars[0]}, table.splitlines()[0]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_paths_of_commands_and_sentences_exist(name):
    lines = (ROOT / name).read_text("utf-8").splitlines()
    # `git archive` takes files of an earlier commit; NAME stands for any.
    text = "\n".join(line for line in lines if "git archive" not in line)
    paths = {path for path in PATH.findall(text) if "NAME" not in path}
    assert not {path for path in paths if not (ROOT / path).exists()}
