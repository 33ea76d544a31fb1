"""Each pair of cells is judged once, however many sentences, tables and files show its verdict.

`python tests/profiler/findings/test_pairs_judged_once.py` writes the console in docs/page.md again.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from profiler.analyse import effects, judge
from profiler.analyse.judge import Judge, visit_times
from profiler.commands.gallery import find_recorded
from profiler.findings.document import judged_table, summary_table
from profiler.findings.why.find import find_why
from profiler.model import SessionKind
from profiler.render.console.tables import final_summary

sys.path.append(str(Path(__file__).parents[2]))
from as_read import printed
from recorded import (
    findings_of_recording,
    forget_findings,
    rendered_page,
    report_of_recording,
    summary_text,
)

RECORDING = Path(__file__).parents[3] / "experiments/recordings/autotune.zip"
DOCS = RECORDING.parents[2] / "docs/page.md"
MOST_LINES = 55
"""Of the demo at 80 columns, before notices and the page's path: the rest of 60 lines."""
MOST_COMPARISONS = 5
"""Calls of `verdicts.compare`: one for each block at which pairs end, and those of steps."""


@pytest.fixture(scope="module")
def report():
    return report_of_recording(RECORDING)


@pytest.fixture(scope="module")
def kinds(report):
    """Durations by kind of session: which one a judge was given tells its kind."""
    return {
        kind: visit_times(report.measured.samples, report.plan.cells, kind)
        for kind in (SessionKind.TIMING, SessionKind.FINAL)
    }


@pytest.fixture
def asked(monkeypatch, kinds):
    """How often each unordered pair was judged, by kind of session."""
    counts = Counter()
    real = Judge.compare

    def compare(self, pairs, questions=None):
        pairs = list(pairs)
        (kind,) = [kind for kind, times in kinds.items() if self.times.equals(times)]
        counts.update((kind, frozenset(pair)) for pair in pairs)
        return real(self, pairs, questions)

    monkeypatch.setattr(Judge, "compare", compare)
    return counts


@pytest.fixture
def comparisons(monkeypatch):
    """One entry for each call of `verdicts.compare`: how many pairs it was given."""
    sizes = []
    real = judge.compare

    def compare(blocks, pairs, **rules):
        sizes.append(len(pairs))
        return real(blocks, pairs, **rules)

    for module in (judge, effects):
        monkeypatch.setattr(module, "compare", compare)
    return sizes


def demo(findings):
    """What the demo prints at 80 columns."""
    return printed(final_summary(findings), 80)


def filled(page, output):
    """The page with the output of the demo written again."""
    block = f"<!-- output: console -->\n```text\n{output.rstrip()}\n```\n<!-- end -->"
    pattern = r"<!-- output: console -->\n.*?<!-- end -->"
    return re.sub(pattern, lambda _: block, page, flags=re.DOTALL)


def shown_everywhere(findings):
    """Page, console, JSON, CSV and the table of the gate."""
    return (
        rendered_page(findings),
        printed(final_summary(findings, verbose=True)),
        summary_text(findings),
        summary_table(findings).to_csv(index=False),
        judged_table(findings.verdicts).to_csv(index=False),
    )


def test_a_pair_is_judged_once_and_nothing_is_judged_to_show_it(asked, comparisons):
    forget_findings(RECORDING)  # found under the eyes of the counters, and left for others
    findings = findings_of_recording(RECORDING)
    kinds = Counter(kind for kind, _ in asked)
    assert kinds[SessionKind.TIMING] > len(findings.verdicts.against_baseline)
    assert kinds[SessionKind.FINAL] > 0
    assert {pair: count for pair, count in asked.items() if count > 1} == {}
    assert 0 < len(comparisons) <= MOST_COMPARISONS

    before, called = asked.copy(), list(comparisons)
    page, console, document, *tables = shown_everywhere(findings)
    assert (asked, comparisons) == (before, called)
    assert all(findings.ranking.best.name in text for text in (page, console))
    assert findings.ranking.best.name in document
    assert json.loads(document)["answer"]["best"]["id"] == findings.ranking.best.id
    assert all(findings.ranking.best.id in table for table in tables)
    assert find_why(findings).answer.cell.variant == findings.ranking.best, (
        "where FP16 takes longer, too"
    )

    output, docs = demo(findings), DOCS.read_text(encoding="utf-8")
    assert output.startswith(
        "BF16 \u00b7 128\u00d764 \u00b7 2/2/2 \u00b7 opt-softmax takes 0.882\u00d7"
    )
    assert "a reference, takes 0.548\u00d7 the time of the best variant" in " ".join(output.split())
    assert output.count("\n") <= MOST_LINES
    assert filled(docs, output) == docs, "run: make numbers"


if __name__ == "__main__":
    text = filled(DOCS.read_text(encoding="utf-8"), demo(find_recorded(RECORDING)))
    DOCS.write_text(text, encoding="utf-8")
