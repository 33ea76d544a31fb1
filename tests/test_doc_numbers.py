"""Numbers in documents are those of the recordings; `make numbers` writes them again."""

import pytest
from doc_numbers import BLOCK, BLOCKS, DOCUMENTS, plain

WRITTEN = {
    match[2]: match[0].split("\n", 1)[1].removesuffix(match[3])
    for document in DOCUMENTS
    for match in BLOCK.finditer(document.read_text("utf-8"))
}
"""What stands in each block, by its name."""


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_holds_what_the_recordings_say(name):
    assert WRITTEN[name].splitlines() == plain(BLOCKS[name]()).splitlines(), "run: make numbers"


def test_every_block_is_written_by_the_script():
    assert WRITTEN.keys() == BLOCKS.keys()
