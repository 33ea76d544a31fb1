"""What each recording says is what it said: a change of it is a diff of `tests/golden`."""

import subprocess

import pytest
from golden_answers import GOLDEN, answers, recordings

MOST_LINES = 60
"""Lines of a diff that are printed."""


@pytest.mark.parametrize("name", recordings())
def test_a_recording_says_what_it_said(name, tmp_path):
    file = GOLDEN / f"{name}.txt"
    says = answers(recordings()[name])
    if says == file.read_text("utf-8"):
        return
    (tmp_path / "now").write_text(says, "utf-8")
    diff = ("diff", "--unified=1", str(file), str(tmp_path / "now"))
    lines = subprocess.run(diff, check=False, capture_output=True, text=True).stdout.splitlines()
    pytest.fail(
        "\n".join((*lines[:MOST_LINES], f"{len(lines)} lines of diff; if it is meant: make golden"))
    )


def test_every_golden_file_is_of_a_recording():
    assert {file.name for file in GOLDEN.iterdir()} == {f"{name}.txt" for name in recordings()}
