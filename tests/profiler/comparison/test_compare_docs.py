"""docs/compare.md says what the code does."""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer.main
import yaml

from profiler.analyse.between_runs import BetweenRunsReason, compare_runs
from profiler.cli import app
from profiler.findings.gates import parse_gate

TEXT = (Path(__file__).parents[3] / "docs/compare.md").read_text("utf-8")
SAID_BY_ITSELF = {
    BetweenRunsReason.DECIDED,
    BetweenRunsReason.DECIDED_BY_TIME,
    BetweenRunsReason.WITHIN_MARGIN,
    BetweenRunsReason.NOT_MEASURED,
}
"""Reasons of verdicts that the text explains as such."""


def job():
    return yaml.safe_load(re.search(r"```yaml\n(.*?)```", TEXT, re.DOTALL)[1])["jobs"][
        "regressions"
    ]


def test_every_reason_that_keeps_a_verdict_back_is_explained():
    for reason in set(BetweenRunsReason) - SAID_BY_ITSELF:
        assert f"`{reason}`" in TEXT, reason


def test_the_job_measures_twice_and_gates():
    commands = [
        shlex.split(step["run"]) for step in job()["steps"] if "profiler" in str(step.get("run"))
    ]
    names = [command[command.index("profiler") + 1] for command in commands]
    assert names == ["doctor", "experiments/softmax.yaml", "experiments/softmax.yaml", "compare"]
    assert all("--live" in command for command in commands[1:3])
    gate = commands[-1][commands[-1].index("--fail-on") + 1]
    assert parse_gate(gate).percent == 2


@pytest.mark.parametrize("name", ["run", "compare"])
def test_every_flag_of_the_text_exists(name):
    known = {
        flag
        for parameter in typer.main.get_command(app).commands[name].params
        for flag in parameter.opts
    }
    wanted = {"--fail-on", "--only", "--baseline", "--json", "--out"}
    assert wanted <= known
    if name == "compare":
        assert set(re.findall(r"^\| `(--[a-z-]+)", TEXT, re.MULTILINE)) <= known


def test_how_little_is_seen_is_computed():
    """By 8 blocks with 1 % of scatter, alone and as one of 30: the numbers in the text."""
    generator, cells = np.random.default_rng(0), np.arange(500)
    older, newer = (
        pd.DataFrame({"cell": np.repeat(cells, 8), "log_value": generator.normal(0, 0.01, 4000)})
        for _ in range(2)
    )
    for family, percent in ((1, 2.6), (30, 3.8)):
        pairs = pd.DataFrame({"family": cells // family}, index=cells)
        found = compare_runs(older, newer, pairs)
        assert 100 * found["detectable"].median() == pytest.approx(percent, abs=0.1)
        assert f"{percent} %" in TEXT.partition("## Gates")[2]
