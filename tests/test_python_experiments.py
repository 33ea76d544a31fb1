"""Experiments in Python files, from the file to the answer: the examples of the docs, templates."""

import json
import linecache
import re
import subprocess
import sys

import pytest
import torch
from whole_runs import TESTS, attempts

import profiler as package
from profiler.errors import UsageError
from profiler.model import slug
from profiler.python import run_experiment
from profiler.runner.experiment import Experiment

DOCS = TESTS.parent / "docs"
ON_CPU = ("--set", "collect.device=cpu", "--set", "collect.explain=false")
SMALL = ("--set", "problems.matrix.rows=8", "--set", "problems.matrix.columns=[16, 64]")
BRIEF = ("--set", "collect.blocks=2", "--set", "collect.metrics=[duration_ns]")
TIMED = ("--set", "collect.collectors=timer", "--set", "collect.repeats=2")


def python_blocks(page):
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def first(tmp_path_factory, command_line):
    """The run of docs/first-kernel.md on the stand-in for ncu; its file is gone afterwards."""
    profiler = command_line(tmp_path_factory.mktemp("first"))
    file = profiler.folder / "softmax.py"
    file.write_text(python_blocks("first-kernel.md")[0])
    done = profiler.measure(
        *(file.name, *ON_CPU, *SMALL, *BRIEF, "--only", "columns=16|64", "--markdown", "-"),
        FAKE_NCU_TIMES="eager=9000,by_hand=7000",
    )
    again = profiler.measure(file.name, *ON_CPU, *SMALL, *BRIEF)
    file.unlink()
    return profiler, done, again


def test_the_first_example_gives_an_answer(first):
    profiler, done, again = first
    assert done.code == 0, done.err
    assert "by_hand shift=False" in done.out
    (run,) = profiler.runs("softmax")
    assert "workload: ./softmax.py" in (run / "spec.yaml").read_text()
    source = json.loads((run / "sources.json").read_text())["files"]["softmax.py"]
    assert "def by_hand(" in source
    variants = json.loads((run / "run.json").read_text())["sources"]["variants"]
    assert len(variants) == 3
    assert len(set(variants.values())) == 2, "both by_hand are one function"
    assert again.code == 0
    assert "Resuming" in again.err
    assert len(attempts(run)) == 1, "nothing was measured twice"


def test_stdout_has_nothing_but_markdown(first):
    _, done, _ = first
    lines = done.out.splitlines()
    assert lines[0] == "### softmax"
    table = [line for line in lines if line.startswith("|")]
    assert table[0].startswith("| problem | variant | Duration")
    assert len(table) == 2 + 6
    assert all(line.count("|") == table[0].count("|") for line in table)
    assert sum("by_hand shift=True" in line for line in table) == 2


def test_a_report_needs_the_file_no_more(first):
    profiler, *_ = first
    (run,) = profiler.runs("softmax")
    done = profiler("report", run)
    assert done.code == 0, done.err


def test_it_is_loaded_by_its_name(first):
    profiler, *_ = first
    run = package.load("softmax", reports=profiler.folder / "reports")
    rows = run.summary.query("metric == 'duration_ns'")
    assert set(rows["variant.function"]) == {"eager", "by_hand"}
    assert set(rows["problem.columns"]) == {16, 64}
    assert set(run.samples["variant.shift"].dropna()) == {True, False}
    assert len(run.samples.query("`variant.function` == 'eager'")) == 2 * 2 * 2, "in both arms"
    with pytest.raises(UsageError, match="softmax has only 1 runs"):
        package.load("softmax~1", reports=profiler.folder / "reports")


def test_two_documents_do_not_share_stdout(profiler):
    done = profiler("run", "nowhere.py", "--markdown", "-", "--json", "-")
    assert done.code == 2
    assert "both write to stdout" in done.err


# ---- a script ------------------------------------------------------------------------------------


SCRIPT = """
import json
from sums import sums

if __name__ == "__main__":
    settings = {
        "collect.device": "cpu",
        "collect.collectors": "timer",
        "collect.blocks": [1, 2],
        "problems.matrix.rows": 64,
    }
    result = sums.run(settings=settings, quiet=True)
    print(json.dumps({
        "path": str(result.path),
        "answer": result.answer,
        "variants": sorted(set(result.summary["variant"])),
        "html": result._repr_html_(),
        "shown": repr(result),
    }))
"""


def test_the_example_of_the_python_page_runs_from_a_script(profiler):
    (profiler.folder / "sums.py").write_text(python_blocks("python.md")[0])
    (profiler.folder / "script.py").write_text(SCRIPT)
    code, out, err = profiler.fork_server.run(
        *("script", []),
        cwd=profiler.folder,
        environment=profiler.environment,
        patience_s=profiler.patience_s,
    )
    assert code == 0, err
    result = json.loads(out)  # nothing else is on stdout
    (run,) = profiler.runs("row-sums")
    assert result["path"] == str(run)
    assert result["variants"] == ["along_rows", *in_pieces_ids(2, 4)]
    assert "3 of 3 cells measured" in result["answer"]
    assert result["answer"] in result["shown"]
    assert "<svg" in result["html"]
    assert (run / "index.html").exists()


def in_pieces_ids(*pieces):
    return [slug(f"in_pieces pieces={number}") for number in pieces]


CELLS = (
    "import math as m\nfrom collections import Counter\nSCALE = [2]\n",
    "def doubled(x):\n    return [SCALE[0] * value for value in x] if Counter else (m.pi, DTYPE)\n",
    "e = Experiment('cells', problems={'n': [4]}, margin_pct=2.0)\n"
    "@e.inputs\ndef inputs(n):\n    return list(range(n))\n",
    "@e.variant(baseline=True, times=[3])\ndef repeated(x, times):\n"
    "    for _ in range(times):\n        y = doubled(x)\n    return y\n",
)


def notebook(cells, **more):
    """Run cells as a notebook does; gives their names."""
    names = {"__name__": "notebook_of_the_test", "Experiment": Experiment, **more}
    module = type(sys)(names["__name__"])
    sys.modules[names["__name__"]] = module
    vars(module).update(names)
    for number, cell in enumerate(cells):
        file = f"<cell {number}>"
        linecache.cache[file] = (len(cell), None, cell.splitlines(keepends=True), file)
        exec(compile(cell, file, "exec"), vars(module))  # noqa: S102 - it is what a notebook does
    return vars(module)


def test_a_file_is_written_from_the_cells_of_a_notebook(tmp_path):
    # The function has a `y` of its own.
    experiment = notebook(CELLS, y=object(), DTYPE=torch.float16)["e"]
    path = run_experiment.file_of(experiment, tmp_path)
    names = {}
    exec(compile(path.read_text(), path, "exec"), names)  # noqa: S102 - written just now
    assert names["e"].description()["variants"] == [
        {**variant, "line": names["e"].variants["repeated"].line}
        for variant in experiment.description()["variants"]
    ]
    assert names["repeated"]([1, 2], 3) == [2, 4]
    assert names["DTYPE"] is torch.float16
    written = path.stat().st_mtime_ns
    assert run_experiment.file_of(experiment, tmp_path).stat().st_mtime_ns == written


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("e.variant(name='f')(lambda x: table)", "'table', .* use, is of type object"),
        ("twice = doubled\n@e.variant\ndef g(x):\n    return twice(x)", "'twice', .* another name"),
        ("e.variant(name='f')(m.sqrt)", "'sqrt' is marked for cells and does not stand in a cell"),
        ("e.variant(name='f')(\n lambda x:\n x\n)", "its source cannot be read"),
    ],
)
def test_what_no_file_can_have_is_refused_by_name(cell, message):
    experiment = notebook((*CELLS, cell), table=object(), DTYPE=torch.float16)["e"]
    with pytest.raises(UsageError, match=message):
        run_experiment.file_of(experiment, TESTS)


# ---- profiler new --------------------------------------------------------------------------------

TRITON = "def jit(function): return function\n"
TRITON_LANGUAGE = "constexpr = int\n"


NOTES_ITS_CACHE = """
import os
if "compiled" in os.environ.get("TORCHINDUCTOR_CACHE_DIR", ""):
    with open("caches.txt", "a") as stream:
        print(os.environ["TORCHINDUCTOR_CACHE_DIR"], file=stream)
"""
"""Head of a file: in a process that measures it says where torch compiles to."""


def test_the_python_template_runs(profiler):
    made = profiler("new", "python", "trial")
    assert made.code == 0, made.err
    assert "python -m profiler plan trial/trial.py" in made.out
    file = profiler.folder / "trial/trial.py"
    file.write_text(f"{NOTES_ITS_CACHE}\n{file.read_text()}")
    anew = ("--set", "collect.recompile=true")
    done = profiler.measure("trial/trial.py", *ON_CPU, *SMALL, *BRIEF, *TIMED, *anew, "--json", "-")
    assert done.code == 0, done.err
    (run,) = profiler.runs("trial")
    assert len(attempts(run)) == 2, "each block has a process of its own"
    caches = (profiler.folder / "caches.txt").read_text().split()
    assert caches == [str(run / f"compiled/timer.{block}/inductor") for block in range(2)]
    assert {cell["outcome"] for cell in done.json["cells"]} == {"measured"}
    assert len(done.json["cells"]) == 4 * 2


def test_the_other_templates_can_be_planned(profiler):
    for kind in ("triton", "cuda", "command"):
        assert profiler("new", kind, f"my-{kind}").code == 0
    stand_in = profiler.folder / "my-triton/triton"
    stand_in.mkdir()
    (stand_in / "__init__.py").write_text(TRITON)
    (stand_in / "language.py").write_text(TRITON_LANGUAGE)
    program = profiler.folder / "my-command/my-command"
    program.write_text("#!/bin/sh\n")  # what make would build
    program.chmod(0o755)
    for spec, cells in (
        ("my-triton/my-triton.py", 12),
        ("my-cuda/my-cuda.yaml", 8),
        ("my-command/my-command.yaml", 4),
    ):
        planned = profiler("plan", spec, "--json", "-")
        assert planned.code == 0, planned.err
        assert len(planned.json["cells"]) == cells
    assert "-o $@ $<" in (profiler.folder / "my-command/Makefile").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pyton", "x"], "did you mean 'python'?"),
        (["python", "../x"], "a name begins with a letter"),
        (["python", "home"], "home exists already"),
    ],
)
def test_new_refuses_what_it_cannot_make(profiler, arguments, message):
    (profiler.folder / "home").mkdir(exist_ok=True)
    done = profiler("new", *arguments)
    assert done.code == 2
    assert message in done.err


# ---- the program itself --------------------------------------------------------------------------


def test_version_and_completion(profiler):
    assert profiler("--version").out == f"profiler {package.__version__}\n"
    words = {"_PROFILER_COMPLETE": "complete_bash", "COMP_WORDS": "profiler pl", "COMP_CWORD": "1"}
    assert profiler(**words).out.split() == ["plan"]


def test_importing_it_is_cheap(profiler):
    code = (
        "import sys, profiler; profiler.Experiment; assert 'load' in dir(profiler); "
        "print(*{name.partition('.')[0] for name in sys.modules} "
        "& {'torch', 'numpy', 'pandas', 'yaml', 'pydantic', 'rich', 'typer', 'matplotlib'})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=profiler.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "\n"
