"""What `make numbers` writes into README and docs: numbers that recordings hold, and reference.

`python tests/doc_numbers.py spec.md spec.schema.json` writes these alone.

Between `<!-- numbers: NAME -->` and `<!-- /numbers -->` stands what `BLOCKS[NAME]` returns, and
nothing else, and whole documents are what `WHOLE` returns (`tests/test_doc_numbers.py`).
"""

import re
import sys
from functools import partial
from pathlib import Path

import doc_collectors
import doc_metrics
import doc_spec
from doc_attention import ATTENTION_BLOCKS
from doc_commands import commands
from doc_fusion import FUSION_BLOCKS
from doc_importers import formats
from doc_softmax import largest_problem, twelve_lines
from doc_tables import RECORDINGS, explained, plain
from doc_timers import cupti_and_ncu, kernels_by_cupti_and_ncu, methods, ratios_of_timers
from doc_training import TRAINING_BLOCKS
from doc_verdicts import VERDICT_BLOCKS
from doc_waves import WAVE_BLOCKS

from profiler.comparison.document import ComparisonDocument
from profiler.findings.brief import BriefDocument
from profiler.findings.document import SummaryDocument
from profiler.findings.why.document import ExplanationDocument

ROOT = Path(__file__).parents[1]
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"(<!-- numbers: ([\w-]+) -->\n).*?(<!-- /numbers -->)", re.DOTALL)


BLOCKS = {
    **ATTENTION_BLOCKS,
    **FUSION_BLOCKS,
    **TRAINING_BLOCKS,
    **VERDICT_BLOCKS,
    **WAVE_BLOCKS,
    "commands": commands,
    "import-formats": formats,
    "twelve-lines": twelve_lines,
    "softmax-largest": largest_problem,
    "softmax-why": partial(explained, RECORDINGS / "softmax.zip"),
    "timers-ratios": ratios_of_timers,
    "cupti-and-ncu": cupti_and_ncu,
    "kernels-by-cupti-and-ncu": kernels_by_cupti_and_ncu,
    "timing-methods": methods,
    "account-transpose": partial(explained, RECORDINGS / "transpose.zip"),
    "account-waves": partial(explained, RECORDINGS / "waves.zip"),
}
"""What writes a block, by its name."""
WHOLE = {
    "metrics.md": doc_metrics.page,
    "collectors.md": doc_collectors.page,
    "spec.schema.json": doc_spec.schema_text,
    "summary.schema.json": SummaryDocument.schema_text,
    "explain.schema.json": ExplanationDocument.schema_text,
    "comparison.schema.json": ComparisonDocument.schema_text,
    "check.schema.json": BriefDocument.schema_text,
}
"""What writes a document of docs, by its name."""


def filled(page):
    """The page with each of its blocks written again."""
    page = BLOCK.sub(lambda match: f"{match[1]}{plain(BLOCKS[match[2]]())}{match[3]}", page)
    return doc_spec.fill_tables(page)


def main(names):
    """Write what is generated of the documents of these names, or of all."""
    for name, text_of in WHOLE.items():
        if name in names or not names:
            (ROOT / "docs" / name).write_text(text_of(), "utf-8")
    for document in DOCUMENTS:
        if names and document.name not in names:
            continue
        page = document.read_text("utf-8")
        if (text := filled(page)) != page:
            document.write_text(text, "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
