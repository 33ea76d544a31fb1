"""What each recording says is what it said: a change of it is a diff of `tests/golden`."""

import difflib

import pytest
from golden_answers import GOLDEN, KINDS, recordings
from recorded import findings_of_recording

MOST_LINES = 60
"""Lines of a diff that are printed."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", recordings())
def test_a_recording_says_what_it_said(name, kind):
    file = GOLDEN / f"{name}.{kind}"
    said = file.read_text("utf-8") if file.exists() else ""
    says = KINDS[kind](findings_of_recording(recordings()[name])) or ""
    difference = list(
        difflib.unified_diff(
            said.splitlines(), says.splitlines(), f"{file.name} as committed", "now", "", "", 1, ""
        )
    )
    assert not difference, "\n".join(
        (*difference[:MOST_LINES], f"{len(difference)} lines of diff; if it is meant: make golden")
    )


def test_every_golden_file_is_of_a_recording():
    known = {f"{name}.{kind}" for name in recordings() for kind in KINDS}
    assert {file.name for file in GOLDEN.iterdir()} <= known
