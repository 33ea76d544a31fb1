"""Numbers in documents are those of the recordings; `make numbers` writes them again.

A number that the script does not write stands in a paragraph that says when it was measured, or in
the next one, or is listed here with what it is.
"""

import re

import pytest
from doc_numbers import BLOCK, BLOCKS, DOCUMENTS, ROOT, WHOLE, plain
from doc_verdicts import six_blocks
from whole_runs import EVERYTHING

from profiler.model import Verdict

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
    ("docs/other-tools.md", "Beside other tools"): ("a setting of another tool", "95 %"),
    ("docs/architecture.md", "Frames"): ("a rule", "95 %"),
    ("docs/check.md", "What is printed"): ("rules", "95 %, 2 %"),
    ("docs/compare.md", "What is compared"): ("rules", "95 %, 5 %"),
    ("docs/compare.md", "Verdicts between runs"): (
        "rules",
        "20 %, 1 %, 2.9 \u00d7, 10 µs, 50 µs, 3.5 \u00d7, 2 \u00d7, 3.02 %, 50 µs, 0.50 %, "
        "95 %, 10 %",
    ),
    ("docs/compare.md", "Gates"): (
        "settings; what the formula gives",
        "2%, 2%, 2%, 3 %, 2 %, 1 %, 2.6 %, 3.8 %",
    ),
    ("docs/compare.md", "In GitHub Actions"): ("a setting", "2 %"),
    ("docs/explain.md", "Which cells"): ("a rule", "50 ms, 2 %"),
    ("docs/explain.md", "Roofs"): ("rules", "60 %, 80 %"),
    ("docs/explain.md", "One memory limits both"): ("a rule", "60 %"),
    ("docs/explain.md", "Causes"): (
        "rules; from 0 to 16 % in the recordings",
        "96 %, 4 %, 2 %, 2 %, 20 %, 16 %, 60 %, 0.5 %, 1 %",
    ),
    ("docs/explain.md", "Inside a kernel"): ("settings and rules", "1.5 µs, 5 %, 95 %"),
    ("docs/history.md", "The machine, or the kernel"): (
        "an example of the wording; rules",
        "1.04\u00d7, 1 %, 3 %, 1 %",
    ),
    ("docs/history.md", "How changes are found"): ("a rule", "0.5 %"),
    ("docs/first-kernel.md", "3. The answer"): ("a setting", "1 %"),
    ("docs/flash-attention-hopper.md", "Checked"): ("a rule", "2 \u00d7"),
    ("docs/fusion.md", "Every operator at one size"): ("a rule", "95 %"),
    ("docs/fusion.md", "The hand-written kernels"): ("bars", "0.9 \u00d7, 80 %"),
    ("docs/fusion.md", "Which findings of the published study hold"): (
        "what was published",
        "5.5 \u00d7, 1 \u00d7, 2 \u00d7, 10 \u00d7, 18 \u00d7",
    ),
    ("docs/fusion.md", "What the autotuner chooses is a matter of luck at these sizes"): (
        "advice",
        "20 %",
    ),
    ("docs/metrics.md", ""): (
        "what a counter costs and rules, in definitions",
        "25 ms, 25 ms, 25 ms, 100 %",
    ),
    ("docs/page.md", "The first screen"): ("a rule", "60 %"),
    ("docs/page.md", "One number per cell"): ("an example of the wording", "1.23\u00d7"),
    ("docs/page.md", "Tables and figures"): ("a rule", "90 %"),
    ("docs/page.md", "The index of the runs"): ("rules", "95 %, 1 %"),
    ("docs/plausibility.md", "Counters"): ("rules", "30 %, 5 %, 5 %, 5 %, 5 %"),
    ("docs/revisions.md", "Bisect"): ("rules", "1 %, 50 µs, 2.1 %"),
    ("docs/plausibility.md", "New inputs after the last visit"): ("settings", "5 ms, 1 %"),
    ("docs/search.md", "A search in an experiment"): (
        "rules",
        "50 ms, 2 %, 1 %, 95 %, 30 %, 95 %, 13.9 %",
    ),
    ("docs/search.md", "A complete example on recorded results"): ("a rule", "95 %"),
    ("docs/spec.md", "Collect"): ("why a setting is there, in its definition", "105 ms"),
    ("docs/sustained.md", "What is measured"): ("a setting", "10 ms, 2 %"),
    ("docs/timers.md", "Why a memset is no good flush"): (
        "of the table above, which is dated",
        "15 %, 3 %",
    ),
    ("docs/timers.md", "What a quick benchmark gets wrong, and why"): (
        "sizes of an experiment",
        "5 µs, 300 µs, 5 ms",
    ),
    ("docs/verdicts.md", "What is said"): ("rules", "1 %, 10 %"),
    ("docs/verdicts.md", "Between sessions"): (
        "rules; their data are dated below",
        "0.6 %, 50 µs, 0.1 %, 4 %, 50 µs, 1 %, 2.1 %, 0.60 %",
    ),
    ("docs/verdicts.md", "What the deviation rests on"): ("a rule", "0.1 %"),
    ("docs/verdicts.md", "The best of equal ones"): ("an example of the wording", "0.29 %"),
    ("docs/verdicts.md", "Slow visits"): ("an example and a rule", "30 %, 10 %, 1.48 \u00d7"),
    ("docs/verdicts.md", "Does it work"): ("an experiment", "5 %"),
    ("docs/waves.md", "What the page shows"): ("definitions", "50 %, 90 %, 90 %"),
}
"""What the numbers are that no run of ours gave, and these numbers: by document and heading."""


SLOW = frozenset({"fusion-whole-grid"})
"""Blocks of a recording that takes ten seconds to read; fusion_grid, which others read, has some of
its shapes."""


@pytest.mark.parametrize("name", sorted(BLOCKS if EVERYTHING else BLOCKS.keys() - SLOW))
def test_a_block_holds_what_the_recordings_say(name):
    assert WRITTEN[name].splitlines() == plain(BLOCKS[name]()).splitlines(), "run: make numbers"


@pytest.mark.parametrize("name", sorted(WHOLE.keys() - {"spec.schema.json"}))  # test_spec_docs.py
def test_a_document_is_what_is_written_of_the_code(name):
    assert (ROOT / "docs" / name).read_text("utf-8") == WHOLE[name](), "run: make numbers"


def test_every_block_is_written_by_the_script():
    assert WRITTEN.keys() == BLOCKS.keys()


def test_six_recorded_blocks_tell_what_takes_twice_as_long_and_nothing_of_equal_kernels():
    large, found, equal, called = six_blocks()
    assert large > 500
    assert found == large
    assert equal > 2000
    assert called == 0


def undated_numbers(page):
    """(Heading, numbers) of the sections with measured numbers that are not dated.

    Dated are the numbers of a paragraph with a date and of the next one; tables and commands
    between the two are of the first.
    """
    for section in re.split(r"(?m)^(?=#)", MADE.sub("CODE", page)):
        undated, was_dated = [], False
        for paragraph in re.split(r"\n\s*\n", section):
            belongs = paragraph.startswith(("|", "    ")) and was_dated
            dated = bool(DATE.search(" ".join(paragraph.split()))) or belongs
            if not (dated or was_dated):
                undated += MEASURED.findall(SIZES.sub("", paragraph))
            was_dated = dated
        if undated:
            yield section.split("\n", 1)[0].replace("CODE", "").strip("# "), undated


def test_a_measured_number_says_when_it_was_measured():
    found = {}
    for document in DOCUMENTS:
        for heading, numbers in undated_numbers(document.read_text("utf-8")):
            found.setdefault((str(document.relative_to(ROOT)), heading), []).extend(numbers)
    known = {place: numbers for place, (_, numbers) in UNDATED.items()}
    assert {place: ", ".join(numbers) for place, numbers in found.items()} == known


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_documents_have_the_words_of_verdicts_that_pages_have(document):
    names = "|".join({verdict.name for verdict in Verdict} - {"NO_DATA"})
    said = set(re.findall(rf"\b(?:{names})\b", document.read_text("utf-8")))
    assert said <= {verdict.word for verdict in Verdict}
