"""Names on a page: chips and labels of variants, kernels as people wrote them."""

import lxml.html
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_report import make_report, problems
from synthetic_tiles import tile_report

from profiler.findings.find import find
from profiler.model import Verdict
from profiler.render.figures import charts
from profiler.render.figures.charts import bar_marks, dot_marks
from profiler.render.figures.drawing import legend_columns
from profiler.render.page import render_page
from profiler.render.words.answer import sentences
from profiler.render.words.names import (
    kernel_list,
    kernel_lists_by_cell,
    kernels_by_cell,
    key_to_names,
    readable_kernel,
)
from profiler.render.words.signs import word


@pytest.fixture(scope="module")
def findings():
    return find(tile_report(count=7, sizes=2))


@pytest.fixture(scope="module")
def tree(findings):
    with pytest.MonkeyPatch.context() as patch:  # drawing takes ten times as long as all the rest
        patch.setattr(charts, "to_svg", lambda *_: "")
        return lxml.html.document_fromstring(render_page(findings))


def test_the_main_table_has_chips_and_the_full_name(findings, tree):
    rows = tree.xpath("//table[@id='main-table']/tbody/tr")
    assert len(rows) == len(findings.programs.cells)
    for row in rows:
        variant = findings.programs.variants[int(row.get("data-variant"))]
        name = findings.programs.names.name_of(variant)
        (shown,) = row.xpath("./th//span[@class='variant']")
        assert shown.get("data-full") == (name.full if name.shortened else None)
        chips = [chip.text_content() for chip in shown.xpath("./span[@class='chip']")]
        assert chips == (list(name.chips) if name.is_chips else [])
        assert name.shortened or shown.text_content() == name.full


def test_what_all_share_is_said_once(findings, tree):
    words = key_to_names(findings.programs)
    assert words == (
        "Names: tile_m\u00d7tile_n \u00b7 load_tiles \u00b7 buffer. "
        "All 6 compared have FP16, async."
    )
    assert sum(words in text for text in tree.itertext()) == 1
    assert (
        key_to_names(find(make_report(variant_count=3, problem_list=problems()[:1])).programs) == ""
    )


def test_no_two_marks_of_a_figure_have_the_same_name(findings):
    for problem in findings.programs.problems:
        for marks, _ in (
            bar_marks(findings, findings.numbers.primary, problem),
            dot_marks(findings, problem),
        ):
            assert len({mark.name for mark in marks}) == len(marks)
            assert max(len(mark.name) for mark in marks) <= 48


def test_a_reference_that_is_ahead_is_named_first():
    """As the baseline is here, whose kernel none of the others reaches."""
    report = make_report(variant_count=4, problem_list=problems()[:2], baseline="torch")
    ahead = report.measured.samples["cell"].str.startswith("torch..")
    report.measured.samples.loc[ahead, ["duration_ns", "cycles"]] /= 40
    (first, *_) = sentences(find(report))
    text = "".join(part.text for part in first)
    assert text.startswith("torch.softmax takes 0.")
    faster = f"{word(Verdict.FASTER)} at both problems"
    assert text.endswith(f"of the best variant (geometric mean, {faster}).")


@pytest.mark.parametrize(
    ("lengths", "columns"),
    [([5, 5, 5], 3), ([44] * 5, 3), ([44] * 3, 3), ([180, 180], 1), ([10] * 8, 6)],
)
def test_a_legend_is_no_wider_than_its_figure(lengths, columns):
    assert legend_columns(["x" * length for length in lengths], 13.0) == columns


# ---- kernels -------------------------------------------------------------------------------------


VECTOR = "_ZN7softmax14softmax_vectorI6__halfLi16EEEvPKT_PS2_xx"


@pytest.mark.parametrize(
    ("mangled", "expected"),
    [
        (VECTOR, "softmax::softmax_vector<__half, 16>"),
        ("_ZN7softmax14softmax_sharedIfLb1EEEvPKT_PS1_x", "softmax::softmax_shared<float, true>"),
        ("_Z4gemmILin3ELm7EEvv", "gemm<-3, 7>"),
        ("_Z1kv", "k"),
        (
            "_ZN44_GLOBAL__N__48862f87_11_launcher_cu_89fc477b4anonEPKfPfi",
            "(anonymous namespace)::anon",
        ),
        ("scale", "scale"),
        ("void k<int>(float*)", "void k<int>(float*)"),
        ("_Znonsense", "_Znonsense"),
        ("_Z1kIXadL_Z1fvEEEvv", "_Z1kIXadL_Z1fvEEEvv"),
    ],
)
def test_names(mangled, expected):
    assert readable_kernel(mangled) == expected


@given(cut=st.integers(2, len(VECTOR)), rest=st.text("NSTEILX_0123456789abPKZv<", max_size=8))
def test_damaged_names_never_fail(cut, rest):
    assert readable_kernel(VECTOR[:cut] + rest)


def test_a_column_of_names_is_a_text_or_a_list():
    assert kernel_list("cos_kernel; void add<float, 4>(float*)") == (
        "cos_kernel",
        "void add<float, 4>(float*)",
    )
    assert kernel_list(["a", "b"]) == ("a", "b")
    assert kernel_list("") == kernel_list(None) == kernel_list(float("nan")) == ()


def test_kernels_of_a_cell_are_those_of_its_first_sample_that_saw_any():
    kernel_names = [None, "x; y", "z", "x; y", ""]
    samples = pd.DataFrame({"cell": [*"aaaab"], "kernel_names": kernel_names})
    assert kernel_lists_by_cell(samples) == {"a": [("x", "y"), ("z",)]}
    assert kernels_by_cell(samples) == {"a": ("x", "y")}
    assert kernels_by_cell(samples[["cell"]]) == {}
