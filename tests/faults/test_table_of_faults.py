"""Each row of the tables of docs/reliability.md is backed by a test that exists."""

import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs/reliability.md"
LEAST_ROWS = 120
_TEST = re.compile(r"`(?P<file>[\w/]*test_\w+\.py)?(?:::(?:Test\w+::)?)?(?P<name>test_\w+)?`")


def tables():
    """Rows of each table whose last column or one before it names tests, by its section."""
    section, default, header = "", None, None
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section, default = line[3:], None
        if given := re.search(r"Tests are in `(tests/[\w./]+)`", line):
            default = TESTS.parent / given[1]
        if given := re.search(r"`python -m pytest [^`]*(tests/[\w/]+\.py)`", line):
            default = TESTS.parent / given[1]
        if not line.startswith("|"):
            header = None
        elif header is None:
            header = [cell.strip() for cell in line.strip("|").split("|")]
        elif "test" in header and not line.startswith("|--"):
            cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
            yield section, default, cells[0].strip(), cells[header.index("test")]


ROWS = list(tables())


@cache
def names_in(file):
    return set(re.findall(r"^(?: {4})?def (test_\w+)\(", file.read_text("utf-8"), re.MULTILINE))


@pytest.mark.parametrize("section", sorted({row[0] for row in ROWS}))
def test_every_row_names_a_test_that_exists(section):
    wrong = []
    for of, default, fault, cell in ROWS:
        if of != section:
            continue
        named = [match for match in _TEST.finditer(cell) if match["file"] or match["name"]]
        if not named:
            wrong.append(f"{fault}: no test")
        file = default
        for match in named:
            if match["file"]:
                beside = (TESTS.parent / match["file"], TESTS / "faults" / match["file"])
                file = next((path for path in beside if path.is_file()), None)
            known = file is not None and file.is_file()
            if not known or (match["name"] and match["name"] not in names_in(file)):
                wrong.append(f"{fault}: {match[0]}")
    assert not wrong, "\n".join(wrong)


def test_the_tables_have_as_many_rows_as_were_promised():
    assert len(ROWS) >= LEAST_ROWS
    faults = [fault for _, _, fault, _ in ROWS if not fault.startswith("the same")]
    assert len(set(faults)) == len(faults)
