"""The answer and the main table as Markdown, for a pull request."""

from __future__ import annotations

import re

from profiler import notices
from profiler.findings.findings import Findings
from profiler.notices import Severity
from profiler.render.page import moment
from profiler.render.short_table import ShortTable, short_table
from profiler.render.words.cards import first_answer

_SPECIAL = re.compile(r"[\\`*\[\]<>|~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_ENDS = re.compile(r"\s*\n\s*")


def run_markdown(findings: Findings) -> str:
    """Heading, answer, table and warnings of a run; every name in it is escaped."""
    report = findings.report
    machine = report.environment.gpu or report.environment.cpu or "an unnamed machine"
    blocks = [
        f"### {_escaped(report.experiment.title)}",
        *_answer(findings),
        *_table(short_table(findings)),
        *_warnings(findings),
        f"<sub>{_escaped(machine)}, {_escaped(moment(report.execution.created))}</sub>",
    ]
    return "\n\n".join(blocks) + "\n"


def _answer(findings: Findings) -> tuple[str, str]:
    """The answer in one sentence and a list of the rest, with what is strong on the page."""
    first, *lines = (
        "".join(
            f"**{_escaped(part.text)}**" if part.strong else _escaped(part.text)
            for part in sentence
        )
        for sentence in first_answer(findings)
    )
    return first, "\n".join(f"- {line}" for line in lines)


def _table(table: ShortTable) -> list[str]:
    rules = ["---:" if numeric else "---" for numeric in table.numeric]
    rows = [map(_escaped, table.heads), rules, *(map(_escaped, row) for row in table.rows)]
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return [text, f"{table.left_out} more cells are on the page."] if table.left_out else [text]


def _warnings(findings: Findings) -> list[str]:
    folded = notices.fold(findings.notices)
    texts = [notice.text for notice in folded if notice.severity is not Severity.INFO]
    return ["\n".join(f"- {_escaped(text)}" for text in texts)] if texts else []


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is, in one line."""
    return _SPECIAL.sub(lambda match: f"\\{match[0]}", _ENDS.sub(" ", text))
