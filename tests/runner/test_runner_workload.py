"""Loading workloads: this repo's modules, and users' own files."""

import sys

import pytest

from profiler.runner.protocol import Tolerance
from profiler.runner.workload import WorkloadError, load_workload

WHOLE = """
def make_inputs(problem, device, seed): return 1
def reference(problem, inputs): return 2
def prepare(variant, problem, inputs, library): return 3
"""


@pytest.fixture(autouse=True)
def _own_import_state(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))


@pytest.fixture
def user_file(tmp_path):
    def write(text, name="mine.py"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


def test_a_file_outside_the_repo(user_file):
    workload = load_workload(user_file(WHOLE))

    assert workload.make_inputs({}, "cpu", 0) == 1
    assert workload.reference({}, None) == 2
    assert workload.source.name == "mine.py"
    assert (workload.flops, workload.bytes, workload.tolerances) == (None, None, {})


def test_siblings_of_a_file_can_be_imported(user_file):
    user_file("ANSWER = 42", "sibling_of_mine.py")
    text = WHOLE + "import sibling_of_mine\ndef flops(problem): return sibling_of_mine.ANSWER\n"

    assert load_workload(user_file(text)).flops({}) == 42


def test_a_file_in_a_package_imports_from_packages_beside_its_own(user_file, tmp_path):
    for name in ("of_mine", "beside_mine"):
        (tmp_path / name).mkdir()
        user_file("", f"{name}/__init__.py")
    user_file("ANSWER = 42", "beside_mine/answers.py")
    user_file("from beside_mine.answers import ANSWER", "of_mine/sibling_in_package.py")
    text = WHOLE + "import sibling_in_package\nfrom . import sibling_in_package as same\n"
    text += "from .sibling_in_package import ANSWER as ANSWER_TOO\n"
    text += "from of_mine.sibling_in_package import ANSWER\n"
    text += "def flops(problem): return same.ANSWER + ANSWER_TOO\n"

    assert load_workload(user_file(text, "of_mine/workload.py")).flops({}) == 84


def test_a_file_may_have_the_name_of_another_module(user_file):
    import random

    load_workload(user_file(WHOLE, "random.py"))

    assert sys.modules["random"] is random


def test_dataclasses_of_a_file_find_their_module(user_file):
    text = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    text += "@dataclass\nclass Inputs:\n    size: int\n" + WHOLE

    assert load_workload(user_file(text)).source.name == "mine.py"


def test_a_dotted_module(tmp_path, monkeypatch):
    package = tmp_path / "user_kernels"
    package.mkdir()
    (package / "workload.py").write_text(WHOLE)
    monkeypatch.syspath_prepend(tmp_path)

    assert load_workload("user_kernels.workload").reference({}, None) == 2


def test_tolerances_are_read(user_file):
    text = WHOLE + "TOLERANCES = {'float16': (1e-3, 1), 'default': [0, 0.5]}\n"

    assert load_workload(user_file(text)).tolerances == {
        "float16": Tolerance(1e-3, 1.0),
        "default": Tolerance(0.0, 0.5),
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def oops(:", "cannot import workload mine.py: SyntaxError"),
        ("import no_such_module_at_all", "ModuleNotFoundError: No module named 'no_such_module"),
        ("raise SystemExit(3)", "cannot import workload mine.py: SystemExit: 3"),
        ("", "has no function make_inputs(problem, device, seed)"),
        (WHOLE.replace("prepare", "launch"), "has no function prepare(variant, problem, inputs"),
        (WHOLE + "TOLERANCES = {'float16': 1e-3}", "TOLERANCES must map dtype names to"),
        (WHOLE + "TOLERANCES = 1e-3", "TOLERANCES must map dtype names to"),
    ],
)
def test_what_cannot_be_a_workload_says_why(user_file, text, words):
    with pytest.raises(WorkloadError) as caught:
        load_workload(user_file(text))
    assert words in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(
        WorkloadError, match=r"cannot import workload absent\.py: FileNotFoundError"
    ):
        load_workload(str(tmp_path / "absent.py"))


def test_a_module_that_is_not_there():
    with pytest.raises(WorkloadError, match="No module named 'no_such_kernels'"):
        load_workload("no_such_kernels.workload")
