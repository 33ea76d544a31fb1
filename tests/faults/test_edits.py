"""The same facts written otherwise are the same numbers; others are other numbers, or are said.

`benchmarks/faults/edited_files.py` makes more of these edits.
"""

import pytest
from edits import SAME, TABLES, said_otherwise, silent_flips, silent_in_run
from readers import SMALL, UNDER_NCU, timed
from run_folders import Workplace

SEED = 20261127


@pytest.mark.parametrize("name", SAME)
def test_the_same_facts_written_otherwise_are_the_same_numbers(tmp_path, name):
    assert not [words for words in said_otherwise(name, tmp_path, SEED) if words]


@pytest.mark.parametrize("name", TABLES)
def test_a_flipped_bit_changes_what_it_stands_in_or_is_said(tmp_path, name):
    assert not list(silent_flips(name, tmp_path, 8, SEED))


def test_what_is_lost_or_changed_in_a_journal_is_shown_or_said(tmp_path):
    place = timed(tmp_path / "timed")
    (attempt,) = place.run.attempts()
    assert not list(silent_in_run(place, attempt.journal, 10, SEED))


def test_the_same_of_rows_of_ncu(tmp_path):
    place = Workplace(tmp_path / "under_ncu", SMALL.replace("COLLECT", UNDER_NCU))
    place.measure_all()
    (csv,) = place.run.path.rglob("ncu-timing.001/ncu.csv.gz")
    assert not list(silent_in_run(place, csv, 10, SEED))
