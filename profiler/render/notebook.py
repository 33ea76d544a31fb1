"""What a notebook shows of a run: the answer, a figure, the main table, warnings."""

from __future__ import annotations

import re
from importlib.resources import files

from markupsafe import Markup

from profiler import notices
from profiler.findings.findings import Findings
from profiler.notices import Severity
from profiler.render.figures.charts import Chart, bar_chart
from profiler.render.page import render
from profiler.render.short_table import short_table
from profiler.render.words.cards import first_answer

_VARIABLE = re.compile(r"--[a-z0-9-]+: light-dark\([^)]*\);")


def run_html(findings: Findings) -> str:
    """HTML of a run for the output of a notebook cell."""
    folded = notices.fold(findings.notices)
    parts = {
        "sentences": first_answer(findings),
        "chart": _chart(findings),
        "table": short_table(findings),
        "warnings": [notice.text for notice in folded if notice.severity is not Severity.INFO],
        "colours": colours(),
    }
    return render("notebook.html", parts)


def _chart(findings: Findings) -> Chart | None:
    """Medians of the variants at the largest problem; None where nothing was measured."""
    problem = findings.ranking.largest_problem
    return None if problem is None else bar_chart(findings, findings.numbers.primary, problem)


def colours() -> Markup:
    """Declarations of the colours that figures refer to."""
    sheet = files("profiler.render").joinpath("assets", "page.css").read_text(encoding="utf-8")
    return Markup(" ".join(_VARIABLE.findall(sheet)))  # noqa: S704 - a file of this package
