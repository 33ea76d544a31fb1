"""Numbers in documents are those of the recordings; `make numbers` writes them again.

A measured number that the script does not write stands in a section that says when it was measured.
"""

import re

import pytest
from doc_numbers import BLOCK, BLOCKS, DOCUMENTS, ROOT, plain
from doc_verdicts import six_blocks

WRITTEN = {
    match[2]: match[0].split("\n", 1)[1].removesuffix(match[3])
    for document in DOCUMENTS
    for match in BLOCK.finditer(document.read_text("utf-8"))
}
"""What stands in each block, by its name."""
MADE = re.compile(
    r"<!-- numbers: .*?<!-- /numbers -->|<!-- output: .*?<!-- end -->|```.*?```|`[^`\n]*`",
    re.DOTALL,
)
"""What a script writes and another test compares; code."""
SIZES = re.compile(r"\d+ \u00d7 (?:\d+|CODE)")
MEASURED = re.compile(
    r"(?<![\w.])\d+(?:\.\d+)? ?(?:ns|\u00b5s|ms|TFLOP/s|GB/s|TB/s|GHz|MHz|W|J|\u00d7|%)(?!\w)"
)
DATE = re.compile(r"20\d\d-\d\d-\d\d|(?:\d\d? )?November 20\d\d")
UNDATED = {
    ("docs/fusion.md", "The hand-written kernels"): "a bar",
    ("docs/fusion.md", "Which findings of the published study hold"): "what was published",
    ("docs/metrics.md", ""): "what a counter costs, in its definition",
    ("docs/page.md", "One number per cell"): "an example of the wording",
    ("docs/plausibility.md", "New inputs after the last visit"): "a setting",
}
"""Numbers that no run of ours gave, and what they are: by document and heading (its words)."""


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_holds_what_the_recordings_say(name):
    assert WRITTEN[name].splitlines() == plain(BLOCKS[name]()).splitlines(), "run: make numbers"


def test_every_block_is_written_by_the_script():
    assert WRITTEN.keys() == BLOCKS.keys()


def test_six_recorded_blocks_tell_what_takes_twice_as_long_and_nothing_of_equal_kernels():
    large, found, equal, called = six_blocks()
    assert large > 500
    assert found == large
    assert equal > 2000
    assert called == 0


def undated_numbers(page):
    """(Heading, numbers) of the sections that have measured numbers and no date."""
    for section in re.split(r"(?m)^(?=#)", MADE.sub("CODE", page)):
        numbers = MEASURED.findall(SIZES.sub("", section))
        if numbers and not DATE.search(" ".join(section.split())):
            heading = section.split("\n", 1)[0].replace("CODE", "")
            yield heading.strip("# "), numbers


def test_a_measured_number_says_when_it_was_measured():
    found = {
        (str(document.relative_to(ROOT)), heading): numbers
        for document in DOCUMENTS
        for heading, numbers in undated_numbers(document.read_text("utf-8"))
    }
    assert found.keys() == UNDATED.keys(), found
