"""The section of timelines: its tables, its pages, and what the terminal says of them."""

import io
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import lxml.html
import pandas as pd
import pytest
import test_render_page as shared
from as_read import unpacked
from rich.console import Console
from synthetic_report import HOSTILE, HOSTILE_NAME, make_report, problems, without
from synthetic_timeline import Recorder, mlp, on_cpu, timeline_report

from profiler.analyse.cell_timeline import CellTimeline
from profiler.analyse.phases import LAUNCH, find_phases, phase_summary
from profiler.analyse.timeline import kernel_summary, range_tree
from profiler.commands.output import dump, report_document
from profiler.findings.find import find
from profiler.findings.timelines.cells import CellTimelineFindings, TimelineFindings, find_timelines
from profiler.model import SessionKind, SessionPlan
from profiler.parse.nsys_attribution import attribute
from profiler.render.console.tables import final_summary
from profiler.render.kinds.timeline import timeline_tables
from profiler.render.page import render_page
from profiler.render.timeline.section import make_section, named_timelines
from profiler.render.timeline.timeline_tables import (
    MOST_GAPS,
    MOST_KERNELS,
    NamedTimeline,
    call_table,
    kernel_table,
    operator_rows,
    phase_table,
    slowed_words,
    tree_table,
)
from profiler.render.words import numbers

REPORT = "raw/nsys.002/private/report.nsys-rep.gz"
TRACE = "raw/torch.001/private/trace.3.json.gz"


def findings(timeline, **more):
    return CellTimelineFindings(timeline, **more)


def section_of(report):
    return make_section(*named_timelines(find(report)))


def texts(table, name):
    """Texts of the rows of this name."""
    return [[datum.text for datum in line.data] for line in table.lines if line.name == name]


def nothing(cell="c"):
    """A timeline in which nothing was recorded."""
    found = attribute(Recorder(0).timeline())
    frames = (found.operations, found.ranges, found.stacks, found.api)
    return CellTimeline(cell, "nsys", *frames, 0, mlp(cell).operators)


@pytest.fixture(scope="module")
def report():
    kinds = (
        mlp("c", launches=4, layers=3),
        mlp("c", launches=4, layers=3, speed=0.2, collector="torch"),
        mlp("c", launches=4, graph=True),
        mlp("c", launches=4, gpu=False, collector="torch"),
        nothing(),
    )
    kinds = tuple(
        replace(one, originals=(REPORT,) if number in (0, 2) else (TRACE,) if number == 1 else ())
        for number, one in enumerate(kinds)
    )
    plan = timeline_report().plan
    sessions = tuple(
        SessionPlan(name, name, SessionKind.TIMELINE, (), ()) for name in ("nsys", "torch")
    )
    found = timeline_report(kinds)
    return replace(found, plan=replace(plan, sessions=(*plan.sessions, *sessions)))


@pytest.fixture(scope="module")
def page(report):
    return render_page(find(report))


@pytest.fixture(scope="module")
def tree(page):
    return lxml.html.document_fromstring(page)


# ---- tables --------------------------------------------------------------------------------------


def test_a_report_without_timelines_has_no_section():
    report = make_report(variant_count=3, problem_list=problems()[:1])
    assert section_of(report) is None
    page = render_page(find(report))
    assert "timeline" not in page.partition("</style>")[2].lower()


def test_ranges_stand_as_the_tree_has_them():
    timeline = mlp("c", launches=4, layers=2)
    table = tree_table(findings(timeline))
    wanted = range_tree(timeline.operations, find_phases(timeline).ranges, timeline.stacks)
    assert [line.name for line in table.lines] == wanted["name"].tolist()
    assert [line.depth + 1 for line in table.lines] == wanted["depth"].tolist()
    assert [line.name for line in table.lines[:4]] == ["visit", "launch", "step_*", "forward"]
    assert [line.data[0].raw for line in table.lines] == [str(n) for n in wanted["instances"]]
    assert [line.data[3].raw for line in table.lines] == [str(n) for n in wanted["gpu_ns"]]


def test_counters_join_by_path_and_add_up_under_a_star():
    timeline = mlp("c", launches=4, layers=2)
    paths = [("step_0", "forward"), ("step_1", "forward"), ("step_0",), ("step_1",)]
    counters = pd.DataFrame(
        {
            "cell": "c",
            "path": paths,
            "dram_read_bytes": [1e6, 2e6, 5e6, float("nan")],
            "instructions": [float("nan")] * 4,
        }
    )
    table = tree_table(findings(timeline, counters=counters))
    assert table.columns[-1].head == "DRAM read, ncu, one launch", (
        "instructions were not collected here"
    )
    (forward,) = texts(table, "forward")
    assert forward[-1] == "3.000\u202fMB"
    (step,) = texts(table, "step_*")
    assert step[-1] == "\u2013", "part of a sum is no sum"
    assert tree_table(findings(timeline)).columns[-1].head == "idle inside"


def test_a_path_that_was_merged_for_ncu_too_is_taken_as_it_is():
    timeline = mlp("c", launches=4, layers=2)
    paths = [("step_*", "forward"), ("step_0", "forward")]
    counters = pd.DataFrame({"cell": "c", "path": paths, "dram_read_bytes": [7e6, 1e6]})
    (forward,) = texts(tree_table(findings(timeline, counters=counters)), "forward")
    assert forward[-1] == "7.000\u202fMB"


def test_kernels_are_those_of_the_summary():
    timeline = mlp("c")
    table = kernel_table(findings(timeline))
    wanted = kernel_summary(timeline.operations)
    assert [line.name for line in table.lines[: len(wanted)]] == wanted["name"].tolist()
    for line, total, count in zip(
        table.lines, wanted["total_ns"], wanted["instances"], strict=False
    ):
        assert (line.data[1].raw, line.data[2].raw) == (str(total), str(count))
    assert table.lines[-1].name == "[CUDA memcpy Host-to-Device]"


def test_many_kernels_are_cut_and_the_rest_is_counted():
    timeline = mlp("c")
    names = [f"k{n}" for n in range(len(timeline.operations))]
    operations = timeline.operations.assign(demangled=pd.Categorical(names))
    table = kernel_table(findings(replace(timeline, operations=operations)))
    kernels = int((operations["kind"] == "kernel").sum())
    assert table.left_out == kernels - MOST_KERNELS


def test_calls_of_each_form_per_launch():
    eager, graph = mlp("a", steps=2, layers=4), mlp("b", graph=True)
    report = timeline_report([eager, graph], count=2)
    named, timelines = named_timelines(find(report))
    table = call_table(named, timelines.call_names)
    heads = [column.head for column in table.columns]
    by_cell = [
        dict(zip(heads, (datum.text for datum in line.data), strict=True)) for line in table.lines
    ]
    assert [one["cudaLaunchKernel"] for one in by_cell] == ["80", "0"]
    assert by_cell[1]["cudaLaunchKernel: time"] == "\u2013"
    assert [one["cudaGraphLaunch"] for one in by_cell] == ["0", "1"]
    assert by_cell[1]["cudaGraphLaunch: time"] == "9.000\u202f\u00b5s"
    assert [one["all calls"] for one in by_cell] == ["82", "1"], "two copies as well"
    assert "cudaDeviceSynchronize" not in heads, "it lies after the last launch"


def test_on_a_cpu_operations_are_operators_and_no_calls():
    report = timeline_report([on_cpu(mlp("c", launches=4, layers=3))], count=2)
    named, timelines = named_timelines(find(report))
    assert call_table(named, timelines.call_names) is None
    table = phase_table(named, timelines.device)
    assert "CPU time" in [column.head for column in table.columns]
    section = section_of(report)
    assert section["device"] == "CPU"
    cell = section["cells"][0]
    assert re.match(
        r"4 launches.*: 124 operators in .*The CPU was busy [\d.]+.% of a ", cell["sentence"]
    )
    assert [table.caption.partition(":")[0] for table in cell["tables"]] == [
        "Ranges",
        "Idle gaps of the CPU, most time together first",
        "Operators of the CPU",
    ]
    data = unpacked(section["data"])["cells"][0]
    assert [kind for kind, _ in data["rows"]] == ["range"] * 4 + ["gpu"]
    assert data["rows"][-1][1] == "operators on the CPU"
    assert "torch's operators" in cell["chart"].reading
    text = printed(report)
    assert "CPU busy share by phase" in text
    assert "GPU" not in text.partition("CPU busy")[2].partition("Medians")[0]


def test_phases_of_every_cell():
    report = timeline_report([mlp("a"), mlp("b", gpu=False)], count=2)
    named, timelines = named_timelines(find(report))
    table = phase_table(named, timelines.device)
    first = report.plan.cells[0].variant.name
    assert [row[1] for row in texts(table, first)] == [
        "whole step_*",
        "forward",
        "backward",
        "optimizer_step",
        "outside of them",
    ]
    second = report.plan.cells[1].variant.name
    for row in texts(table, second):
        assert row[4] == row[6] == "\u2013"
        assert row[-1] != "\u2013"


def test_operators_by_their_own_device_time():
    rows, left_out = operator_rows(findings(mlp("c", collector="torch")))
    assert [row["name"] for row in rows] == ["aten::addmm", HOSTILE_NAME, "aten::zero_"]
    assert rows[0]["data"][1].text == "4.000\u202fms"
    assert rows[0]["stack"] == ["forward (mlp.py:12)", "run (x.py:3)"]
    assert left_out == 0
    none, _ = operator_rows(findings(mlp("c")))
    assert none == []


def test_operators_of_a_cpu_by_their_cpu_time():
    timeline = mlp("c", gpu=False, collector="torch")
    operators = timeline.operators.assign(self_device_us=0.0, self_cpu_us=[1.0, 2.0, 3.0])
    rows, _ = operator_rows(findings(replace(timeline, operators=operators)))
    assert rows[0]["name"] == "aten::zero_"


def test_a_gap_table_has_room_for_the_largest():
    section = section_of(timeline_report([mlp("c", layers=12)], count=2))
    gaps = next(table for table in section["cells"][0]["tables"] if table.first == "between")
    assert len(gaps.lines) == MOST_GAPS
    assert gaps.left_out > 0
    totals = [float(line.data[1].raw or 0) for line in gaps.lines]
    assert totals == sorted(totals, reverse=True)


# ---- the page ------------------------------------------------------------------------------------


def test_the_page_is_one_safe_file(page, tree):
    shared.test_is_one_file_of_bearable_size(page)
    shared.test_ids_are_unique(tree)
    shared.test_links_inside_the_page_have_targets(tree)
    shared.test_nothing_is_fetched(page, tree)
    assert tree.xpath("//img") == []
    assert len(tree.xpath("//script")) == 4, "data and code, of the page and of its timelines"
    assert "</script><img" not in page
    assert HOSTILE in "".join(tree.xpath("//main//text()"))
    assert not tree.xpath("//@*[starts-with(name(), 'on')]")


def test_the_data_are_escaped_and_parse_back(tree, report):
    (source,) = tree.xpath("//script[@id='timeline-data']/text()")
    data = unpacked(source)
    assert any(HOSTILE in name for name in data["names"])
    assert [len(cell["gpu"]["start"]) for cell in data["cells"]] == [
        len(one.operations) for one in report.details.timelines.values()
    ]
    assert data["cells"][1]["name"] == HOSTILE_NAME


def test_every_figure_says_what_it_shows_and_has_a_table(tree):
    drawings = tree.xpath("//section[@id='figures']//div[@class='still']//svg")
    assert len(drawings) == 4, "all but the timeline without anything"
    for drawing in drawings:
        assert drawing.get("role") == "img"
        assert len(drawing.get("aria-label")) > 40
        (still,) = drawing.xpath("ancestor::div[@class='still']")
        (table,) = still.xpath("./details[@class='twin']//table")
        assert table.xpath(".//tbody/tr")
    shared.test_figures_use_colours_of_the_page_only(tree)


def test_a_missing_number_says_why(tree):
    section = tree.xpath("//section[@id='figures']")[0]
    cells = section.xpath(".//td[normalize-space(.)='\u2013' and not(contains(@class, 'prose'))]")
    assert cells
    for cell in cells:
        assert cell.get("title"), lxml.html.tostring(cell.getparent())


def test_what_was_placed_by_time_and_graphs_are_said(tree):
    blocks = tree.xpath("//details[contains(@class, 'timeline-of')]")
    words = [shared.words(block) for block in blocks]
    assert "placed by time" in words[0]
    assert "nodes of CUDA graphs" in words[2]
    assert "nothing ran on a GPU" in words[3]
    assert "Nothing was recorded that could be drawn" in words[4]


def test_the_originals_are_named_and_stay_private(tree):
    section = shared.words(tree.xpath("//section[@id='figures']")[0])
    report, trace = REPORT, TRACE
    assert section.count(report) == 2, "one file of several cells: its path and the command"
    assert f"gunzip -k {report} && nsys-ui {report.removesuffix('.gz')}" in section
    assert f"{trace} (naive" in section, "whose it is, where it is not all of them"
    assert "open it in Perfetto" in section
    assert "They never leave it" in section
    assert "not part of a recording" in section


def test_a_recording_that_slows_the_host_is_said():
    timeline = mlp("c", launches=6, layers=2)
    launch_ns = findings(timeline).launch_ns

    def words(*cells):
        names = ("eager", "compile")[: len(cells)]
        named = tuple(
            NamedTimeline(name, "", 0, cell) for name, cell in zip(names, cells, strict=True)
        )
        return slowed_words(named, TimelineFindings(cells))

    assert words(findings(timeline)) == "", "nobody timed it"
    same = findings(timeline, timed_ns=launch_ns)
    slower = findings(timeline, timed_ns=launch_ns / 2)
    assert words(same) == ""
    assert "a launch of compile took" in words(same, slower)
    assert f"{numbers.show(launch_ns / 2, 'ns')} by CUDA events" in words(same, slower)
    assert words(findings(on_cpu(timeline), timed_ns=1.0)) == ""


def test_launches_are_counted_as_english_has_it():
    steps = findings(mlp("c", launches=4, steps=2, layers=1))
    assert NamedTimeline("v", "", 0, steps).units == "8 step_*"
    for count, words in ((1, "1 launch"), (8, "8 launches")):
        launches = SimpleNamespace(unit=LAUNCH, units=count)
        assert NamedTimeline("v", "", 0, launches).units == words


def test_the_page_has_one_busy_share_of_a_step():
    report = timeline_report([mlp("a", launches=6, layers=2, speed=0.2)], count=2)
    section = section_of(report)
    (cell,) = find_timelines(report).cells
    unit = cell.whole_unit
    of_unit, of_visit = numbers.share(unit.busy_share), numbers.share(cell.busy_share)
    assert of_unit != of_visit
    sentence = section["cells"][0]["sentence"]
    assert f"busy {of_unit} of a {cell.unit} with the wait before it (the median of" in sentence
    assert f"{of_visit} of the visit as a whole" in sentence
    assert section["shares"][1][0].data[1].text == of_unit
    assert texts(section["phases"], section["phases"].lines[0].name)[0][6] == of_unit
    (step,) = texts(section["cells"][0]["tables"][0], cell.unit)
    assert not [text for text in step if "%" in text], "a third share, without the waits"
    assert of_unit in printed(report)
    (told,) = [one["timeline"] for one in report_document(find(report))["cells"] if one["timeline"]]
    assert told["phases"][0]["busy_share"] == unit.busy_share


def test_a_timeline_is_read_once_for_everything_that_shows_it(monkeypatch):
    calls = []
    monkeypatch.setattr(
        "profiler.findings.timelines.cells.find_phases",
        lambda timeline: calls.append(timeline.cell) or find_phases(timeline),
    )
    report = timeline_report([mlp("a", layers=2), mlp("b", graph=True)], count=2)
    findings = find(report)
    make_section(*named_timelines(findings))
    timeline_tables(findings)
    report_document(findings)
    assert sorted(calls) == sorted(report.details.timelines)


@pytest.mark.parametrize("kind", ["versions", "grid"])
def test_a_page_of_any_kind_gets_the_section(kind):
    page = render_page(find(timeline_report([mlp("c", launches=2, layers=2)], kind=kind, count=3)))
    tree = lxml.html.document_fromstring(page)
    assert len(tree.xpath("//section[@id='timeline']")) == 1
    assert tree.xpath("//nav//a[@href='#timeline']")
    shared.test_ids_are_unique(tree)


def test_the_page_of_timelines_shows_them_once(tree):
    assert not tree.xpath("//section[@id='timeline']")
    assert len(tree.xpath("//details[contains(@class, 'timeline-of')]")) == 5


def test_a_page_of_timelines_without_any_says_so():
    page = render_page(find(timeline_report([], count=2)))
    assert "No timeline was recorded" in page
    assert 'id="timeline-data"' not in page


def test_a_picture_that_is_cut_says_so(monkeypatch):
    timeline = mlp("c", launches=5, layers=2)
    of_one = len(timeline.operations) // 5
    monkeypatch.setattr("profiler.render.timeline.section.MOST_OPERATIONS", int(of_one * 3.5))
    page = render_page(find(timeline_report([timeline], count=2)))
    assert re.search(r"holds the first 3 launches of 5; \d+ more\s+operations", page)


def test_pictures_have_an_end_and_tables_do_not(monkeypatch):
    monkeypatch.setattr("profiler.render.timeline.section.MOST_PICTURES", 1)
    report = timeline_report([mlp("c", launches=2, layers=2)] * 3, count=3)
    tree = lxml.html.document_fromstring(render_page(find(report)))
    assert len(tree.xpath("//*[@data-timeline]")) == 1
    assert len(tree.xpath("//table[contains(@class, 'tree')]")) == 3
    assert "No picture, to keep the page small" in tree.text_content()


# ---- the terminal --------------------------------------------------------------------------------


def printed(report):
    console = Console(width=160, file=io.StringIO())
    with console.capture() as captured:
        console.print(final_summary(find(report)))
    return captured.get()


def test_the_terminal_says_how_busy_each_phase_was(report):
    text = printed(report)
    assert "GPU busy share by phase" in text
    assert re.search(r"torch\.softmax +4 step_\* +[\d.]+\s%", text)
    assert "optimizer_step" in text


def test_the_terminal_leaves_it_to_the_page_where_timings_are_the_answer(report):
    assert "GPU busy share" not in printed(without(report, kind="versions"))
    only = tuple(one for one in report.plan.sessions if one.kind is SessionKind.TIMELINE)
    plan = replace(report.plan, sessions=only)
    assert "GPU busy share" in printed(without(report, kind="versions", plan=plan))


def test_programs_get_the_busy_shares_of_the_page():
    report = timeline_report([mlp("a", steps=4, layers=2)], count=2)
    cells = json.loads(dump(report_document(find(report))))["cells"]
    having = [cell for cell in cells if cell["timeline"]]
    assert len(having) == len(report.details.timelines) == 1
    told = having[0]["timeline"]
    phases = find_phases(next(iter(report.details.timelines.values())))
    assert (told["collector"], told["unit"]) == ("nsys", phases.units.name)
    assert told["launch_ns"] == pytest.approx(phases.launch_ns)
    summary = phase_summary(phases.times)
    names = [row["phase"] for row in told["phases"]]
    assert names == ["whole", *summary["phase"][1:-1], "outside"]
    assert [row["busy_share"] for row in told["phases"]] == summary["busy_share"].tolist()
    plain = json.loads(dump(report_document(find(make_report(variant_count=3)))))
    assert not any("timeline" in cell for cell in plain["cells"])
