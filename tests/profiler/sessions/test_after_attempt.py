"""What is read of an attempt of ncu at once, and what of its kernels cannot be compared."""

import gzip
import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from run_folders import fake_ncu

from profiler.collect.ncu import LOG, REPORT, RULES, SASS, SOURCE, Ncu
from profiler.model import Cell, Problem, Variant
from profiler.parse.ncu_csv import read_ncu_csv
from profiler.parse.ncu_source import read_source_page
from profiler.sessions.measuring.after_attempt import check_kernels, keep_pages

FAKE_NCU = Path(__file__).parents[2] / "fake_ncu/ncu"
EXECUTED = "smsp__inst_executed.sum"


def write_report(folder, names="ab", *, source=True):
    """Report and log of the stand-in with a launch for each letter."""
    sections = ["Occupancy", "SourceCounters"]
    head = {"metrics": EXECUTED, "sections": sections, "source": source}
    rows = fake_ncu.Rows([EXECUTED])
    launches = [rows.make(n, 1, name, 0, f"{name}()", None) for n, name in enumerate(names)]
    lines = map(json.dumps, (head, *launches))
    (folder / REPORT).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / LOG).write_text("==PROF== Profiling\n" + rows.csv(launches), encoding="utf-8")


def kept(folder, name):
    return gzip.decompress((folder / f"{name}.gz").read_bytes())


def test_pages_are_kept_and_of_the_details_only_rules(tmp_path):
    write_report(tmp_path)
    keep_pages(Ncu(FAKE_NCU), tmp_path)
    rules = read_ncu_csv(tmp_path / f"{RULES}.gz").rules
    assert list(rules["rule"]) == 2 * ["OccupancyRule", "SourceCountersRule"]
    assert b"Duration" not in kept(tmp_path, RULES), "the metrics stand in the raw page"
    kernels = ["a()", "b()"]
    listings = read_source_page(kept(tmp_path, SASS), kernels)[0]
    assert [listing.kernel for listing in listings] == kernels
    assert all(
        listing.has_lines for listing in read_source_page(kept(tmp_path, SOURCE), kernels)[0]
    )


def test_pages_of_shares_of_the_launches_are_the_whole_page(tmp_path, monkeypatch):
    pages = []
    for cores, commands in ((2, 4), (16, 10)):
        folder = tmp_path / f"{cores}"
        folder.mkdir()
        write_report(folder, "abcde")
        ncu = folder / "ncu"
        ncu.write_text(
            f'#!/bin/sh\necho >> {folder}/commands\necho odd >&2\nexec {FAKE_NCU} "$@"\n',
            encoding="utf-8",
        )
        ncu.chmod(0o755)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        keep_pages(Ncu(ncu), folder)
        assert (folder / "commands").read_text(encoding="utf-8").count("\n") == commands
        pages.append([kept(folder, name) for name in (RULES, SASS, SOURCE)])
    assert pages[0] == pages[1]
    assert len(read_source_page(pages[0][1], [f"{name}()" for name in "abcde"])[0]) == 5


def test_a_page_that_is_there_is_not_printed_twice(tmp_path):
    write_report(tmp_path)
    (tmp_path / f"{SASS}.gz").write_bytes(b"earlier")
    keep_pages(Ncu(FAKE_NCU), tmp_path)
    assert (tmp_path / f"{SASS}.gz").read_bytes() == b"earlier"
    assert (tmp_path / f"{RULES}.gz").exists()


def test_a_report_without_source_counters_has_rules_only(tmp_path):
    write_report(tmp_path, source=False)
    keep_pages(Ncu(FAKE_NCU), tmp_path)
    assert {file.name for file in tmp_path.glob("*.gz")} == {f"{RULES}.gz"}


@pytest.mark.parametrize("program", ["#!/bin/sh\nexit 3\n", "#!/bin/sh\necho nonsense\n", ""])
def test_nothing_is_kept_where_ncu_prints_nothing(tmp_path, program):
    ncu = tmp_path / "ncu"
    ncu.write_text(program, encoding="utf-8")
    ncu.chmod(0o755 if program else 0o644)
    write_report(tmp_path)
    keep_pages(Ncu(ncu), tmp_path)
    assert not list(tmp_path.glob("*.gz"))


def test_nothing_is_kept_without_a_report(tmp_path):
    keep_pages(Ncu(FAKE_NCU), tmp_path)
    assert not list(tmp_path.iterdir())


CELL = Cell("a..p", Variant("a", "a", {}), Problem("p", "p", {}))


@pytest.mark.parametrize(("row", "reasons"), [("gemm", {"a..p": "gemm is none"}), ("range", {})])
def test_the_row_of_a_replayed_range_is_no_kernel(row, reasons):
    loaded = SimpleNamespace(
        attempt=SimpleNamespace(
            kernel_check=None, record=SimpleNamespace(keys={CELL.id: "key"}), damaged=()
        ),
        current_cells={CELL.id},
        kernels=lambda: {CELL.id: ((row,),)},
        finished_without_kernel=set,
    )
    space = SimpleNamespace(check_kernels=lambda variant, problem, names: f"{names[0]} is none")
    check = check_kernels(loaded, SimpleNamespace(cells=(CELL,)), space)
    assert check.fell_back == reasons
