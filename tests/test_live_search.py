"""A whole search on the CPU that is killed and goes on: proposals, results, judgement, page."""

import json
import shutil

import pytest
from browser_pages import findings_of, open_page
from searches import BEST, CRASHES, WRONG, records_of, write_search
from whole_runs import attempts, unpacked, wait_for

BUDGET = 20
KILLED_AFTER = 4
"""Evaluations; the variant that ends the process is the third of this seed."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory, command_line):
    """A search that was killed once: command line, spec, journal at the kill, what was said."""
    profiler = command_line(tmp_path_factory.mktemp("search"))
    spec = write_search(profiler, "tiles", BUDGET)
    process = profiler.start(spec, "--no-report")

    def evaluated():
        return profiler.runs("tiles") and (
            len(records_of(profiler.runs("tiles")[0], "evaluated")) >= KILLED_AFTER
        )

    wait_for(evaluated)
    process.kill()
    process.communicate(timeout=60)
    (run,) = profiler.runs("tiles")
    before = (run / "search/journal.jsonl").read_text()
    done = profiler(spec)
    assert profiler.runs("tiles") == [run]
    return profiler, spec, run, before, done


def test_a_killed_search_goes_on_with_the_next_proposal(whole):
    _, _, run, before, done = whole
    assert done.code == 0, done.err
    made = before.count('"event":"evaluated"')
    assert f"{made} of them made already" in done.err
    whole_lines = before[: before.rindex("\n") + 1]
    assert (run / "search/journal.jsonl").read_text().startswith(whole_lines)
    proposed = [record["variant"] for record in records_of(run, "proposed")]
    evaluated = [record["variant"] for record in records_of(run, "evaluated")]
    assert sorted(proposed) == sorted(evaluated)
    assert len(set(evaluated)) == BUDGET


def test_after_the_search_its_plan_is_measured(whole):
    profiler, spec, *_ = whole
    lines = profiler("plan", spec).out.splitlines()
    assert f"search: done, {BUDGET} evaluations; its 3 finalists are measured" in lines
    (timing,) = (line for line in lines if line.startswith("ncu-timing:"))
    done, of, visits, *_ = timing.split()[1:]
    assert (done, of) == (visits, "of")
    assert not any("without the search" in line for line in lines)
    before = profiler("plan", spec, "--out", "elsewhere", "--set", "collect.device=cuda").out
    assert f"search: {BUDGET} evaluations to go" in before
    assert "s, without the search, roughly" in before


def test_a_crash_and_a_wrong_result_are_results(whole):
    run = whole[2]
    outcomes = {r["variant"]: (r["outcome"], r["cause"]) for r in records_of(run, "evaluated")}
    assert outcomes[CRASHES][0] == "crashed"
    assert "SIGSEGV" in outcomes[CRASHES][1]
    assert outcomes[WRONG][0] == "wrong_result"
    assert {outcome for outcome, _ in outcomes.values()} == {"measured", "crashed", "wrong_result"}
    # One runner until the crash, one until the kill, one for all the rest.
    assert len(list((run / "search").glob("runner.*"))) == 3
    assert len(records_of(run, "runner_ended")) == 1


def test_the_finalists_are_judged_as_the_cells_of_a_sweep(whole):
    run = whole[2]
    (finished,) = records_of(run, "finished")
    assert finished["finalists"][0] == BEST
    names = [folder.name for folder in attempts(run)]
    assert "ncu-timing.001" in names
    document = json.loads((run / "summary.json").read_text())
    assert {cell["outcome"] for cell in document["cells"]} == {"measured"}
    variants = {cell["variant"].replace(",", ".") for cell in document["cells"]}
    assert variants == {"base", *finished["finalists"]}
    search = document["search"]
    assert (search["tried"], search["configurations"], search["untried"]) == (BUDGET, 24, 4)
    assert search["outcomes"]["crashed"] == 1
    assert search["best"]["variant"] == BEST
    assert 0 < search["better_share_below"] <= 4 / 24


def test_the_page_shows_the_search(whole):
    page = (whole[2] / "index.html").read_text()
    assert 'id="search"' in page
    assert '<figure class="chart" id="figure-first">\n<figcaption><b>Best so far by' in page
    assert 'id="figure-search-tried"' in page
    assert "The strategy portfolio tried 20 of 24 configurations (83.3 %)" in page
    assert "4 configurations were never tried. None of the 9 that were drawn at random" in page
    assert "Importance of parameters" in page
    console = " ".join(whole[4].out.split())
    assert "Never tried: 4; how many of them are better is not known." in console


def test_the_same_command_measures_nothing(whole):
    profiler, spec, run, _, _ = whole
    before = (run / "search/journal.jsonl").read_text()
    again = profiler.measure(spec)
    assert again.code == 0, again.err
    assert (run / "search/journal.jsonl").read_text() == before
    assert f"{BUDGET} of them made already" in again.err
    assert "ncu-timing: nothing is missing" in again.err
    assert len(list((run / "search").glob("runner.*"))) == 3


def test_a_recording_has_the_search_and_replays_without_a_gpu(whole):
    profiler, spec, run, _, _ = whole
    archive = profiler.folder / "recordings/tiles.zip"
    assert profiler("record", run, archive).code == 0
    target = unpacked(archive)
    assert (target / "search/journal.jsonl.gz").exists()
    assert not list(target.glob("search/runner.*"))
    done = profiler("run", spec, "--replay", archive, "--no-report", "--json", "-")
    assert done.code == 0, done.err
    search = json.loads((run / "summary.json").read_text())["search"]
    assert done.json["search"] == search
    assert {cell["outcome"] for cell in done.json["cells"]} == {"measured"}
    shutil.rmtree(target / "search")
    without = profiler("run", spec, "--replay", target, "--no-report")
    assert without.code == 2
    assert "holds no finished search" in without.err


def test_a_damaged_journal_costs_the_search_and_nothing_else(whole, tmp_path):
    profiler, _, run, _, _ = whole
    copy = tmp_path / run.name
    shutil.copytree(run, copy)
    (copy / "search/journal.jsonl").write_text("{}\n")
    done = profiler("report", copy, "--json", "-")
    assert done.code == 0, done.err
    assert "search" not in done.json
    assert "search/journal.jsonl is damaged" in done.err


def test_nothing_is_wrong_with_the_page_in_a_browser(whole, browser):
    opened = open_page(browser, (whole[2] / "index.html").as_uri())
    faults_by_check = findings_of(opened, set())
    opened.page.context.close()
    assert {check: faults for check, faults in faults_by_check.items() if faults} == {}
