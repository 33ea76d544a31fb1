"""docs/explain.md shows what `profiler explain` prints, and a loop that runs.

`python tests/profiler/render/test_explain_docs.py` writes the outputs again.
"""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import textwrap
import types
from pathlib import Path
from unittest import mock

import pytest

from profiler.analyse.why.causes import CAUSES
from profiler.commands.explain import ExplainRequest, explain
from profiler.metrics.explain import SECTIONS

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs/explain.md"
PAGE = DOCS.read_text(encoding="utf-8")
RECORDING = ROOT / "tests/recordings/explained.zip"
MOST_LINES = 30
WIDTH = 118


def printed(*, as_json):
    """What the command prints of the recording where nothing says how wide a terminal is."""
    unset = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    stdout = contextlib.redirect_stdout(io.StringIO())
    with mock.patch.dict(os.environ, unset, clear=True), stdout as out:
        explain(ExplainRequest(RECORDING, json_target="-" if as_json else None))
    text = out.getvalue()
    return "\n".join(textwrap.wrap(text, WIDTH, break_long_words=False)) if as_json else text


def filled(page):
    """The page with both outputs written again."""
    for kind in ("text", "json"):
        output = printed(as_json=kind == "json").rstrip("\n")
        block = f"<!-- output: {kind} -->\n```{kind}\n{output}\n```\n<!-- end -->"
        pattern = rf"<!-- output: {kind} -->\n.*?<!-- end -->"
        page = re.sub(pattern, lambda _, block=block: block, page, flags=re.DOTALL)
    return page


def test_the_outputs_are_those_of_today():
    assert filled(PAGE) == PAGE, "run: make numbers"


@pytest.mark.parametrize("name", [*CAUSES, *SECTIONS[:1]])
def test_every_cause_is_described(name):
    assert f"`{name}`" in PAGE


def test_the_loop_takes_what_is_faster_and_stops_at_the_same(tmp_path, monkeypatch, capsys):
    loop = PAGE.split("```python\n")[1].split("```")[0]
    assert len(loop.splitlines()) <= MOST_LINES
    document = json.loads(printed(as_json=True).replace("\n", " "))
    verdicts = iter(["faster", None, "slower", "same"])
    seen = []

    def run(command, **_):
        if command[3] == "run":
            return subprocess.CompletedProcess(command, 4, "kernel.cu(3): error", "")
        verdict = next(verdicts)
        answer = {**document["answer"], "verdict": verdict}
        text = json.dumps({**document, "answer": answer})
        return subprocess.CompletedProcess(command, 0 if verdict else 2, text, "")

    def rewrite(source, why):
        seen.append(why)
        return f"{source}+"

    writer = types.ModuleType("my_writer")
    writer.rewrite = rewrite
    monkeypatch.setitem(sys.modules, "my_writer", writer)
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reports/mine/20260101-000000").mkdir(parents=True)
    (tmp_path / "old.cu").write_text("kernel")
    exec(compile(loop, "loop", "exec"), {})  # noqa: S102 - it is the page's own
    assert (tmp_path / "old.cu").read_text() == "kernel+", "one rewrite was faster"
    first, faster, failed, slower = seen
    assert first is None
    assert faster["account"] == document["account"]
    assert failed == {"error": "kernel.cu(3): error"}
    assert slower is not None
    assert capsys.readouterr().out.splitlines()[-1].startswith("3 same")


if __name__ == "__main__":
    DOCS.write_text(filled(PAGE), encoding="utf-8")
