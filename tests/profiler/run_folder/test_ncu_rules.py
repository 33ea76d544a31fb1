"""The advice of ncu's rules reaches the report, by cell and kernel."""

import gzip
import re
from pathlib import Path

import pytest
from run_folders import COMMAND_SPEC, Workplace

from profiler.analyse.rules import RULE_COLUMNS
from profiler.model import Visit
from profiler.run_folder.load.assemble import assemble
from profiler.runner import protocol

DETAILS = Path(__file__).parents[2] / "recordings/ncu-2025.3.1/ncu_details_detailed_rules.csv.gz"
CELLS = ("plain..small", "tree..small")


def details_of(*cells):
    """A details page that ncu wrote, with ranges of ours around its launches."""
    text = gzip.decompress(DETAILS.read_bytes()).decode()
    for number, cell in enumerate(cells):
        ours = f"{protocol.NVTX_DOMAIN}:{protocol.range_name(cell, 0)}:"
        text = text.replace(f"<default domain>:v{number}:", ours)
    return text


def test_advice_stands_beside_its_cell_and_kernel(place):
    csv = details_of(*CELLS)
    place.attempt(visits=[(cell, 0) for cell in CELLS], csv=csv)
    place.attempt(visits=[(cell, 0) for cell in CELLS], csv=csv)
    rules = assemble(place.run, place.loaded, place.plan).report.details.ncu_rules
    assert tuple(rules.columns) == RULE_COLUMNS
    assert rules.groupby("cell").size().to_dict() == {CELLS[0]: 8, CELLS[1]: 8}, "each once"
    assert rules["kernel"].notna().all()
    estimated = rules[rules["speedup_pct"].notna()]
    assert set(estimated["speedup_type"]) <= {"global", "local"}
    assert set(rules["type"]) <= {"INF", "OPT", "WRN"}
    assert re.search(r"\w", rules["text"].iloc[0])


def test_advice_on_a_cell_of_another_key_does_not_count(place):
    place.attempt(
        visits=[(cell, 0) for cell in CELLS],
        csv=details_of(*CELLS),
        keys={**place.keys, CELLS[0]: "edited"},
    )
    assert set(place.results().ncu_rules["cell"]) == {CELLS[1]}


def test_advice_on_an_external_command(tmp_path):
    place = Workplace(tmp_path / "place", COMMAND_SPEC)
    cell = place.cells[0].id
    place.attempt(visits=[(cell, 0)], csv=details_of(), visit=Visit(cell, 0))
    assert set(place.results().ncu_rules["cell"]) == {cell}


def test_a_raw_page_holds_none(place):
    place.measure_all()
    assert place.results().ncu_rules.empty


@pytest.mark.parametrize("cells", [(), ("not planned", "tree..small")])
def test_advice_outside_of_our_ranges_is_left_out(place, cells):
    place.attempt(visits=[(CELLS[1], 0)], csv=details_of(*cells))
    assert set(place.results().ncu_rules["cell"]) == ({CELLS[1]} if cells else set())
