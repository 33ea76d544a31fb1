"""Two runs of page kind grid: time on one machine by time on the other, as heat maps."""

import io
import json

import lxml.html
import pytest
from as_read import words
from rich.console import Console
from run_folders import H200, Workplace, failed, measured, ncu_csv
from scaled_runs import scaled_copy

from profiler.comparison.compare import compare
from profiler.comparison.document import comparison_document
from profiler.comparison.programs import Machines, machines_of
from profiler.comparison.runs import read_runs
from profiler.model import Environment
from profiler.render.runs.heats import grid_parts
from profiler.render.runs.page import comparison_tables, render_comparison

SPEC = """\
name: sums
title: Which sum
workload: ./workload.py
variants: {list: [eager, compile]}
problems:
  matrix: {operator: [sum, chain], dim0: [128, 1024], dim1: [128, 1024, 8192]}
baseline: eager
page: {kind: grid, axes: [dim0, dim1], split: operator}
collect: {blocks: 6, metrics: [duration_ns, cycles]}
"""
A100 = {"gpu": "NVIDIA A100", "gpu_uuid": "GPU-9"}


@pytest.fixture(scope="module")
def older(tmp_path_factory):
    place = Workplace(tmp_path_factory.mktemp("grids"), SPEC, H200)
    lost = next(one.id for one in place.cells if one.id.startswith("compile") and _at(one, "sum"))
    for session in place.plan.sessions:
        planned = place.visits(session.name)
        visits = [visit for visit in planned if visit[0] != lost]
        journal = [failed(lost, "out_of_memory", "asked for 16 GiB"), *measured(visits)]
        rows = ncu_csv(visits, session.metrics)
        place.attempt(session.name, visits=planned, journal=journal, csv=rows)
    return place.run.path


def _at(cell, operator):
    params = cell.problem.params
    return (params["operator"], params["dim0"], params["dim1"]) == (operator, 1024, 8192)


def newer_run(older, name, environment, factors=None):
    """A copy that lacks one cell of the older run's plan."""
    target = scaled_copy(older, older.with_name(name), factors, environment=environment)
    plan = json.loads((target / "plan.json").read_text())
    wanted = {"operator": "chain", "dim0": 128, "dim1": 128}
    gone = [
        one["id"]
        for one in plan["cells"]
        if one["id"].startswith("eager") and one["problem"]["params"] == wanted
    ]
    assert len(gone) == 1
    plan["cells"] = [one for one in plan["cells"] if one["id"] not in gone]
    (target / "plan.json").write_text(json.dumps(plan))
    return target


@pytest.fixture(scope="module")
def other_machine(older):
    factors = {"eager": 5.0, "compile": 0.45}
    newer = newer_run(older, "a100", A100, factors)
    return compare(read_runs([older, newer]))


def test_problems_and_variants_of_one_run_alone_get_no_map(older):
    target = scaled_copy(older, older.with_name("fewer"), None, environment=A100)
    plan = json.loads((target / "plan.json").read_text())
    plan["cells"] = [
        cell
        for cell in plan["cells"]
        if cell["problem"]["params"]["operator"] == "sum"
        and cell["problem"]["params"]["dim0"] == 1024
        and cell["variant"]["name"] == "eager"
    ]
    (target / "plan.json").write_text(json.dumps(plan))
    comparison = compare(read_runs([older, target]))
    ((grid, variants),) = grid_parts(comparison)["blocks"]
    assert [one["variant"] for one in variants] == ["eager"]
    assert grid.row_values == (1024,)
    assert grid.column_values == (128, 1024, 8192)
    (variant,) = comparison.grids.in_grid(grid)
    assert all(cell.ratio > 0 for cell in variant.cells)


@pytest.fixture(scope="module")
def tree(other_machine):
    return lxml.html.document_fromstring(render_comparison(other_machine))


def maps(tree):
    """Rows of the heat maps by their captions."""
    return {
        words(table.find("caption")): table.xpath("./tbody/tr")
        for table in tree.xpath('//div[@class="grid-map"]/table')
    }


def shown(comparison):
    console = Console(width=300, file=io.StringIO(), highlight=False)
    console.print(comparison_tables(comparison))
    return " ".join(console.file.getvalue().split())


def test_machines_are_told_apart_by_model_and_uuid():
    def found(older, newer):
        return machines_of(Environment(**older), Environment(**newer))

    one = {"gpu": "NVIDIA H200", "gpu_uuid": "GPU-1"}
    assert found(one, one) is Machines.SAME
    assert found(one, {**one, "gpu_uuid": "GPU-2"}) is Machines.OTHER_CHIP
    assert found(one, {"gpu": "NVIDIA H200"}) is Machines.SAME_MODEL
    assert found(one, A100) is Machines.DIFFERENT
    assert found({"cpu": "a"}, {"cpu": "b"}) is Machines.DIFFERENT
    assert found({"cpu": "a"}, {"cpu": "a"}) is Machines.SAME_MODEL
    assert found(one, {"cpu": "a"}) is Machines.DIFFERENT


def test_every_variant_has_a_heat_map_whose_title_says_direction_and_machines(tree):
    captions = list(maps(tree))
    direction = "time on NVIDIA A100 / time on NVIDIA H200: below 1 = NVIDIA A100 faster"
    assert captions[:2] == [
        f"{variant}, {direction} different machines" for variant in ("eager", "compile")
    ]
    assert len(tree.xpath('//div[@class="grid-map"]')) == 4  # two operators, two variants
    assert "differ" not in words(tree.xpath("//figure")[0])


def test_a_cell_holds_the_ratio_in_its_colour(other_machine):
    parts = grid_parts(other_machine)
    for heats in parts["blocks"][0][1]:
        wanted, colour = (5.0, "h5") if heats["variant"] == "eager" else (0.45, "h-4")
        rows = heats["time"]["rows"]
        data = [datum for _, row in rows for datum in row if datum.raw is not None]
        assert len(data) == (6 if heats["variant"] == "eager" else 5)
        for datum in data:
            assert float(datum.raw) == pytest.approx(wanted, rel=0.01)
            assert datum.css == colour
        assert heats["judged"] is None, "no verdict between machines"


def test_a_cell_without_a_time_is_crossed_and_says_where(tree, other_machine):
    crossed = tree.xpath('//div[@class="grid-map"]//td[contains(@class, "crossed")]')
    said = [words(cell) for cell in crossed]
    assert sorted(said) == [
        "\u00d7 run 1: OUT OF MEMORY; run 2: OUT OF MEMORY",
        "\u00d7 run 2: not planned",
    ]
    assert "no-memory" in next(
        cell.get("class") for cell in crossed if "OUT OF MEMORY" in words(cell)
    )
    parts = grid_parts(other_machine)
    rows = [
        row
        for _, variants in parts["blocks"]
        for variant in variants
        for row in variant["table"].lines
    ]
    assert len(rows) == 24
    lacking = [row for row in rows if row.data[3].raw is None]
    assert sorted([row.data[1].text, row.data[2].text] for row in lacking) == [
        ["OUT OF MEMORY", "OUT OF MEMORY"],
        ["\u2013", "not planned"],
    ]


def test_the_overview_has_mean_and_ends_of_each_grid(other_machine):
    parts = grid_parts(other_machine)
    rows = {(row.name, row.data[0].text): row.data for row in parts["overview"].lines}
    assert set(rows) == {(o, v) for o in ("sum", "chain") for v in ("eager", "compile")}
    assert rows["sum", "compile"][1].text == "5 of 6"
    assert float(rows["sum", "compile"][2].raw) == pytest.approx(0.45, rel=0.01)
    assert float(rows["chain", "eager"][2].raw) == pytest.approx(5.0, rel=0.01)
    assert "dim0 = " in rows["chain", "eager"][3].text


def test_the_console_says_direction_machines_and_means(other_machine):
    said = shown(other_machine)
    assert "Different machines: time on NVIDIA A100 / time on NVIDIA H200: below 1 =" in said
    assert "compile: 0.45 in the geometric mean over 11 cells" in said
    assert "eager: 5.0" in said


def test_the_document_holds_the_cells_with_their_sizes(other_machine):
    (step,) = comparison_document(other_machine)["steps"]
    assert step["machines"] == "different_machines"
    assert len(step["cells"]) == 23
    known = [cell for cell in step["cells"] if cell["variant"] == "eager"]
    assert {cell["problem_params"]["dim1"] for cell in known} == {128, 1024, 8192}
    for cell in known:
        assert cell["duration_ratio"] == pytest.approx(5.0, rel=0.01)


def test_one_chip_or_two_of_a_model_are_told_apart(older):
    same = newer_run(older, "again", {}, {"compile": 1.5})
    found = compare(read_runs([older, same]))
    captions = list(maps(lxml.html.document_fromstring(render_comparison(found))))
    assert captions[0] == "eager, time on again / time on " + older.name + (
        ": below 1 = again faster same GPU"
    )
    other = newer_run(older, "neighbour", {"gpu_uuid": "GPU-2"})
    found = compare(read_runs([older, other]))
    assert "Machines two GPUs of the same model" in shown(found).replace("\u2502", "")


def test_on_one_machine_a_second_map_has_the_verdicts(older):
    same = newer_run(older, "slower", {}, {"compile": 1.5})
    found = compare(read_runs([older, same]))
    parts = grid_parts(found)
    eager, compiled = parts["blocks"][0][1]
    assert eager["judged"] is None, "it is the control"
    texts = [
        datum.text
        for _, row in compiled["judged"]["rows"]
        for datum in row
        if datum.raw is not None
    ]
    assert len(texts) == 5
    assert all(text.startswith("\u25b21.5") for text in texts)
    assert "with verdicts" in compiled["judged"]["title"]


def test_runs_of_another_kind_have_no_grids(older, tmp_path):
    place = Workplace(
        tmp_path / "plain",
        SPEC.replace("kind: grid, axes: [dim0, dim1], split: operator", "kind: versions"),
        H200,
    )
    place.measure_all()
    copy = scaled_copy(place.run.path, place.run.path.with_name("other"), environment=A100)
    found = compare(read_runs([place.run.path, copy]))
    page = lxml.html.document_fromstring(render_comparison(found))
    assert maps(page) == {}
    assert page.xpath('//table[contains(@class, "heat")]'), "variants by problems"
    assert "different machines" in words(page.xpath('//p[@class="lead"]')[0])
