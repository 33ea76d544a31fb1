"""Writes what each recording says today into `tests/golden`: one file a recording.

    make golden

A test compares these files with what the code says (`test_golden.py`), so that a change of what is
said is a diff to be read. Numbers of JSON have six digits: last ones differ by versions of numpy.
"""

import json
from pathlib import Path

from as_read import printed
from lxml import html
from recorded import CAUSES, RECORDINGS, findings_of_recording, rendered_page

from profiler.commands.explain import ExplainRequest, explained_pair
from profiler.commands.output import dump, report_document
from profiler.findings.why.document import explain_document, idle_document
from profiler.findings.why.find import find_why, idle_difference
from profiler.render.console.explain import explain_text, idle_text
from profiler.render.console.tables import final_summary

GOLDEN = Path(__file__).parent / "golden"
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
COLUMNS = 100
BLOCKS = frozenset(
    {
        *("article", "button", "caption", "dd", "details", "div", "dl", "dt", "figcaption"),
        *("figure", "footer", "h1", "h2", "h3", "h4", "header", "li", "main"),
        *("nav", "ol", "option", "p", "pre", "section", "select", "summary", "table"),
        *("tbody", "thead", "tr", "ul"),
    }
)
"""Elements of a page that begin a line of their own."""
_LONGEST = 140
"""Characters of a JSON value that stands in one line."""


def recordings():
    """Each recording by the name of its golden files."""
    shown = {recording.stem: recording for recording in sorted(RECORDINGS.glob("*.zip"))}
    return shown | {
        "causes_fusion": CAUSES / "fusion.zip",
        "causes_fusion_grid": CAUSES / "fusion_grid.zip",
        "cupti": BENCHMARKS / "speed/cupti_recording.zip",
        "planted": BENCHMARKS / "why/recording.zip",
        "planted_more": BENCHMARKS / "why/more_recording.zip",
        "slowdowns": BENCHMARKS / "verdicts/slowdowns/recording.zip",
    }


def summary(findings):
    """Text of summary.json: of each cell its outcome and its judged number, without builds."""
    document = report_document(findings)
    del document["builds"], document["seconds"]
    primary = findings.numbers.primary.name
    document["cells"] = [
        {
            name: cell[name]
            for name in ("id", "label", "outcome", "cause", "slow_visits")
            if cell.get(name)
        }
        | (cell["metrics"].get(primary) or {})
        for cell in document["cells"]
    ]
    return _json_text(_in_six_digits(dump(document)))


def page(findings):
    """Text of the page, a line for each block or row; what is drawn or embedded is left out."""
    return page_text(rendered_page(findings))


def page_text(page):
    """Lines of a page, cells of a row between bars."""
    document = html.fromstring(page)
    for element in document.xpath("//script | //style | //*[local-name() = 'svg']"):
        element.drop_tree()
    for element in document.iter():
        if element.tag in BLOCKS:
            element.text = "\n" + (element.text or "")
            element.tail = "\n" + (element.tail or "")
        elif element.tag in ("td", "th"):
            element.tail = " | " + (element.tail or "").lstrip()
    lines = (" ".join(line.split()) for line in document.text_content().split("\n"))
    return "".join(f"{line}\n" for line in lines if line)


def console(findings):
    """What a run prints at its end on a terminal of 100 columns."""
    lines = printed(final_summary(findings), COLUMNS).splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)


def explain(findings):
    """What `profiler explain` prints of the pair that the answer is about; None without any."""
    return _explained(
        findings,
        lambda cell, why, pair: explain_text(findings, cell, why, pair, COLUMNS),
        lambda idle: idle_text(findings, idle, COLUMNS),
    )


def explain_json(findings):
    """The same as JSON."""
    document = _explained(
        findings,
        lambda cell, why, pair: explain_document(findings, cell, pair),
        lambda idle: idle_document(findings, idle),
    )
    return document and _json_text(_in_six_digits(dump(document)))


def _explained(findings, of_pair, of_timelines):
    idle = idle_difference(findings)
    if find_why(findings).cells:
        cell, pair = explained_pair(findings, ExplainRequest(run=Path()))
        return of_pair(cell, find_why(findings).cells[findings.programs.source(cell)], pair)
    return None if idle is None else of_timelines(idle)


def _in_six_digits(text):
    return json.loads(text, parse_float=lambda digits: float(f"{float(digits):.6g}"))


def _json_text(document):
    return _lines(document) + "\n"


def _lines(value, indent=""):
    """JSON of a value: in one line if it is short or an object of plain values, else in several."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) <= _LONGEST or not isinstance(value, dict | list) or _is_row(value):
        return line
    deeper = f"{indent} "
    if isinstance(value, dict):
        members = [f"{json.dumps(key)}: {_lines(item, deeper)}" for key, item in value.items()]
        begin, end = "{}"
    else:
        members, (begin, end) = [_lines(item, deeper) for item in value], "[]"
    return begin + ",".join(f"\n{deeper}{member}" for member in members) + f"\n{indent}{end}"


def _is_row(value):
    """Whether a value is an object whose members hold no others."""
    return isinstance(value, dict) and not any(isinstance(v, dict | list) for v in value.values())


KINDS = {
    "console": console,
    "explain": explain,
    "explain --json": explain_json,
    "summary.json": summary,
    "page": page,
}
"""Heading of a part of a golden file → what it holds of findings."""


def answers(recording):
    """Text of the golden file of a recording: under a heading each, what KINDS make of it."""
    findings = findings_of_recording(recording)
    texts = {kind: text_of(findings) for kind, text_of in KINDS.items()}
    return "".join(f"==== {kind} ====\n{text}" for kind, text in texts.items() if text)


def main():
    """Write all golden files, and take away those of recordings that are gone."""
    for file in GOLDEN.iterdir():
        file.unlink()
    for name, recording in recordings().items():
        (GOLDEN / f"{name}.txt").write_text(answers(recording), "utf-8")


if __name__ == "__main__":
    main()
