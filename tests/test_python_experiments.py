"""Experiments in Python files, from the file to the answer: the examples of the docs, templates."""

import json
import linecache
import re
import shutil
import subprocess
import sys

import pytest
import torch
from whole_runs import TESTS, attempts

import profiler as package
from profiler.errors import UsageError
from profiler.model import slug
from profiler.python.run import file_of
from profiler.runner.experiment import Experiment, experiment_of
from profiler.runner.import_path import import_file

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


@pytest.fixture(scope="module")
def functions(tmp_path_factory, command_line):
    """A check of the file of functions in docs/check.md, and one more function that raises."""
    profiler = command_line(tmp_path_factory.mktemp("functions"))
    file = profiler.folder / "sums.py"
    fails = "\n\ndef fails(x):\n    return x.sum(1).no_such_method()\n"
    file.write_text(python_blocks("check.md")[0] + fails)
    small = ("--set", "problems.matrix.rows=8", *ON_CPU, *TIMED, "--blocks", "8", "--json", "-")
    done = profiler("check", file, *small, "--budget", "0")
    return profiler, done, profiler("check", "sums")


def test_a_file_of_functions_is_an_experiment(functions):
    _, done, _ = functions
    assert done.code == done.json["exit_code"] == 4, done.err
    assert {row["variant"] for row in done.json["verdicts"]} == {
        *("in_pieces pieces=2", "in_pieces pieces=4", "matrix_product")
    }
    assert done.json["baseline"] == "baseline"
    (failure,) = done.json["failures"]
    assert failure["variant"] == "fails"
    assert failure["cause"].endswith("(sums.py:21 in fails)")
    assert done.json["settle"]["left_out"].startswith("left out: confirmation.")


def test_what_was_checked_is_read_by_its_name(functions):
    _, done, again = functions
    assert again.code == 4
    *answer, cause = again.out.splitlines()
    assert answer == done.json["answer"]
    (failure,) = done.json["failures"]
    assert cause == f"The first: fails at {failure['problem']}: {failure['cause']}"


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
    with pytest.raises(UsageError, match="softmax has only 1 run in"):
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
    assert "Best or tied: along_rows" in result["answer"]
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
    "@e.variant(k=[2])\n@e.variant(k=[1], tags='one')\ndef other(x, k):\n    return x\n",
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
    path = file_of(experiment, tmp_path)
    names = {}
    exec(compile(path.read_text(), path, "exec"), names)  # noqa: S102 - written just now
    written, of_cells = names["e"].description(), experiment.description()
    for variant in (*written["variants"], *of_cells["variants"]):
        del variant["line"]
    assert len(written["variants"]) == 3
    assert written["variants"] == of_cells["variants"]
    assert names["repeated"]([1, 2], 3) == [2, 4]
    assert names["DTYPE"] is torch.float16
    written = path.stat().st_mtime_ns
    assert file_of(experiment, tmp_path).stat().st_mtime_ns == written


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("e.variant(name='f')(lambda x: table)", "'table', .* use, is of type object"),
        ("twice = doubled\n@e.variant\ndef g(x):\n    return twice(x)", "'twice', .* another name"),
        ("e.variant(name='f')(m.sqrt)", "sqrt: its source cannot be read"),
        ("e.variant(name='f')(Counter.most_common)", "'most_common' is marked .*: 1, of .*: 0"),
        ("e.variant(name='f')(\n lambda x:\n x\n)", "its source cannot be read"),
        ("e.variant(name='f')(doubled)", "'doubled' is marked .*: 1, of decorators: 0"),
        (
            "for k in (2, 3):\n  @e.variant(name=f'by{k}')\n  def f(x):\n    return k\n",
            "'f' is marked .*: 2, of decorators: 1",
        ),
        (
            "k = 9\ndef make(k):\n  @e.variant\n  def f(x):\n    return k\nmake(2)\n",
            "'k', .* is a name of the function around them",
        ),
    ],
)
def test_what_no_file_can_have_is_refused_by_name(cell, message):
    experiment = notebook((*CELLS, cell), table=object(), DTYPE=torch.float16)["e"]
    with pytest.raises(UsageError, match=message):
        file_of(experiment, TESTS)


def test_what_a_script_marks_for_an_experiment_that_it_imports_is_refused(tmp_path):
    (tmp_path / "sums.py").write_text(python_blocks("python.md")[0])
    experiment = experiment_of(import_file(tmp_path / "sums.py"))
    assert file_of(experiment, tmp_path) == tmp_path / "sums.py"
    of_script = {"__name__": "__main__", "e": experiment}
    exec("@e.variant\ndef mine(x):\n    return x.sum(1)\n", of_script)  # noqa: S102 - as above
    with pytest.raises(UsageError, match=r"'mine' is marked for row-sums outside of sums\.py"):
        file_of(experiment, tmp_path)


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


# ---- kernels as people write them ----------------------------------------------------------------


def example(page, name):
    """The example of a page that makes the experiment of this name."""
    return next(block for block in python_blocks(page) if f'Experiment("{name}"' in block)


def measured(profiler, name, source, *more):
    """Outcome and cause of each cell of a short run on the CPU, by id, and what was printed."""
    (profiler.folder / f"{name}.py").write_text(source)
    done = profiler.measure(f"{name}.py", *ON_CPU, *BRIEF, *TIMED, *more, "--json", "-")
    cells = {cell["id"]: (cell["outcome"], cell["cause"]) for cell in done.json["cells"]}
    return cells, done


TASK = """
import torch

class Model(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.linear = torch.nn.Linear(64, columns)
        self.norm = torch.nn.BatchNorm1d(columns)

    def forward(self, x):
        return self.norm(self.linear(x))

def get_inputs():
    return [torch.rand(32, 64)]

def get_init_inputs():
    return [48]
"""
ANSWER = """
from task import Model

class ModelNew(Model):
    def forward(self, x):
        y = self.linear(x)
        return (y - y.mean(0)) / (y.var(0, unbiased=False) + self.norm.eps).sqrt()

class ModelNewUnbiased(Model):
    def forward(self, x):
        y = self.linear(x)
        return (y - y.mean(0)) / (y.var(0) + self.norm.eps).sqrt()
"""


def test_a_task_of_kernelbench_is_measured_beside_its_answer(profiler):
    (profiler.folder / "task.py").write_text(TASK)
    (profiler.folder / "answer.py").write_text(ANSWER)
    (both,) = (block for block in python_blocks("python.md") if "import ModelNew" in block)
    answers = both.replace("import ModelNew", "import ModelNew, ModelNewUnbiased")
    cells, _ = measured(profiler, "both", answers)
    outcomes = {cell: outcome for cell, (outcome, _) in cells.items()}
    assert outcomes == {
        "Model..default": "measured",
        "ModelNew..default": "measured",
        "ModelNewUnbiased..default": "wrong_result",
    }


GPU_MODE_TASK = """
import torch

def generate_input(size, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, size, generator=generator).half(), torch.empty(size).half()

def ref_kernel(data):
    x, output = data
    output[...] = x.float().sum(1).half()
    return output
"""
GPU_MODE_SUBMISSION = """
def custom_kernel(data):
    x, output = data
    output[...] = (x @ x.new_ones(x.shape[1], 1))[:, 0]
    return output
"""


def test_a_submission_to_gpu_mode_is_measured_beside_the_reference(profiler):
    (profiler.folder / "reference.py").write_text(GPU_MODE_TASK)
    (profiler.folder / "submission.py").write_text(GPU_MODE_SUBMISSION)
    cells, _ = measured(profiler, "leaderboard", example("python.md", "leaderboard"))
    assert {outcome for outcome, _ in cells.values()} == {"measured"}, cells
    assert len(cells) == 4


def test_the_example_in_place_is_right_and_says_where_it_is_not_applicable(profiler):
    cells, done = measured(profiler, "norm", example("python.md", "residual-norm"))
    assert done.code == 0, done.err
    assert {outcome for outcome, _ in cells.values()} == {"measured"}
    assert len(cells) == 4 * 2 - 1
    (run,) = profiler.runs("residual-norm")
    assert profiler("report", run).code == 0
    page = (run / "index.html").read_text()
    assert '<small class="also">torch, fused</small>' in page
    assert "not applicable: needs columns % block == 0" in page
    planned = profiler("plan", "norm.py", "--json", "-")
    assert planned.json["excluded"][-1] == {
        "reason": "not applicable: needs columns % block == 0",
        "count": 1,
        "stage": "cell",
        "examples": [planned.json["excluded"][-1]["examples"][0]],
    }
    only = profiler("plan", "norm.py", "--only", "tag=fused", "--json", "-")
    assert {cell["variant"] for cell in only.json["cells"]} == {"eager", "into_inputs"}
    none = profiler("plan", "norm.py", "--only", "tag=fussed")
    assert "tag is one of: torch, fused" in none.err
    unread = "@norm.variant(k=[1, 2])\ndef again(x, residual, weight, k): return x, residual\n"
    with (profiler.folder / "norm.py").open("a") as file:
        file.write(unread)
    noted = profiler("plan", "norm.py")
    assert "The parameter 'k' changes no launch: again does not read it, and variants" in noted.err


def test_the_example_with_a_check_of_its_own_refuses_what_is_wrong(profiler):
    wrong = (
        "\n\n@dropout.variant\ndef forgets(x, p):\n    return torch.dropout(x, p, True) * (1 - p)\n"
    )
    cells, done = measured(profiler, "dropout", example("python.md", "dropout") + wrong)
    assert done.code == 4
    causes = {cell.partition("..")[0]: seen for cell, seen in cells.items()}
    assert causes["of_torch"] == causes["by_hand"] == ("measured", "")
    assert causes["forgets"] == ("wrong_result", "what is kept is not scaled by 1 / (1 - p)")


WRITERS = """
import torch
import profiler
e = profiler.Experiment("writers", problems={"n": [100]})
@e.inputs
def inputs(n): return torch.randn(n), [torch.ones(n)]
@e.variant(baseline=True)
def honest(x, rest): return torch.relu(x)
@e.variant
def writes_scratch(x, rest):
    rest[0].zero_()
    return torch.relu(x)
@e.variant
def writes_the_same_again(x, rest):
    x.copy_(torch.relu(x))
    return x + 0
@e.variant(k=[1, 2, 3])
def leaky(x, rest, k): return torch.where(x > 0, x, 0) * rest[0]
"""


def test_who_writes_inputs_is_named_and_nobody_else_is_blamed(profiler):
    cells, done = measured(profiler, "writers", WRITERS)
    assert done.code == 4
    failed = {cell.partition("..")[0]: cause for cell, (outcome, cause) in cells.items() if cause}
    assert failed.keys() == {"writes_scratch", "writes_the_same_again"}
    assert "it writes into an input (rest[0]): allocate memory for " in failed["writes_scratch"]
    assert "it writes into an input (x)" in failed["writes_the_same_again"]


def test_a_baseline_that_ignores_types_is_compared_with_in_its_own(profiler):
    wrong = "\n\n@doubled.variant\ndef wrong(x): return x * 2.1\n"
    cells, done = measured(profiler, "addresses", example("python.md", "addresses") + wrong)
    outcomes = {cell.partition("..")[0]: outcome for cell, (outcome, _) in cells.items()}
    assert outcomes == {"raw": "measured", "twice": "measured", "wrong": "wrong_result"}
    assert "off by 0." in next(cause for _, cause in cells.values() if cause)
    (notice,) = [n for n in done.json["notices"] if n["kind"] == "compared_in_own_types"]
    assert "raw seems to ignore the types of its inputs" in notice["text"]
    assert not any(n["kind"] == "not_rechecked" for n in done.json["notices"])


ATTENTION = """
import torch
def inputs(dtype=["bfloat16", "float32"]):
    return [torch.randn(2, 96, 32, dtype=getattr(torch, dtype)) for _ in range(3)]
def baseline(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
def rounds_often(q, k, v, ahead=[0, 1]):
    later = torch.ones_like(q @ k.mT).tril(ahead) == 0
    return (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(later, -1e9).softmax(-1) @ v
def narrow(q, k, v):
    return rounds_often(q.bfloat16(), k.bfloat16(), v.bfloat16(), 0).to(q.dtype)
"""


def test_in_half_precision_results_may_be_off_by_what_rounding_explains(profiler):
    cells, _ = measured(profiler, "attention", ATTENTION)
    wrong = {cell for cell, (outcome, _) in cells.items() if outcome == "wrong_result"}
    assert {(cell.partition("-")[0], cell.partition("dtype=")[2]) for cell in wrong} == {
        ("rounds_often_ahead=1", "bfloat16"),
        ("rounds_often_ahead=1", "float32"),
        ("narrow..dtype=float32", "float32"),
    }
    assert {outcome for cell, (outcome, _) in cells.items() if cell not in wrong} == {"measured"}


TYPO = """
import torch
import profiler
e = profiler.Experiment("typo", problems={"n": [4, 8]})
@e.inputs
def inputs(n): return torch.randn(n)
@e.variant(baseline=True)
def eager(x):
    return torhc.relu(x)
@e.variant(k=[1, 2, 3])
def other(x, k): return torch.relu(x)
"""


def test_a_typo_in_the_baseline_is_one_message_with_its_line(profiler):
    (profiler.folder / "typo.py").write_text(TYPO)
    done = profiler.measure("typo.py", *ON_CPU, *BRIEF, *TIMED)
    message = "NameError: name 'torhc' is not defined (typo.py:9 in eager)"
    assert done.code == 4
    assert done.err.count(message) == 1
    assert f"all at n=4  FAILED raised: {message}" in done.err
    assert done.out.count("torhc") == 1
    assert "float64" not in done.out + done.err


PACKED = """
import copy
import torch
import profiler
e = profiler.Experiment("packed", problems={"n": [64]})
@e.inputs
def inputs(n): return torch.randn(n, n), torch.nn.Linear(n, n, bias=False)
@e.variant(baseline=True)
def plain(x, layer): return layer(x)
@e.variant(name="trusted", setup=True, trust="its weights are copied once")
@e.variant(name="copied", setup=True)
def copied(x, layer):
    layer = copy.deepcopy(layer)
    return lambda: layer(x)
"""


def test_weights_of_a_module_are_new_inputs_too_and_a_variant_that_copied_them_may_be_trusted(
    profiler,
):
    (profiler.folder / "packed.py").write_text(PACKED)
    done = profiler.measure("packed.py", *ON_CPU, *BRIEF, *TIMED, "--json", "-")
    assert done.code == 4
    outcomes = {cell["variant"]: cell["outcome"] for cell in done.json["cells"]}
    assert outcomes == {"plain": "measured", "trusted": "measured", "copied": "implausible"}


@pytest.mark.parametrize(
    ("decorator", "message"),
    [
        ("@e.variant(in_place=1)", "in_place= must be True or False, not 1"),
        ("@e.variant(check='x')", "check= must be a function, not 'x'"),
        ("@e.variant(tolerance=0.1)", "tolerance= must be a mapping such as"),
        ("@e.variant(when=3)", "when= must be a function or a text, not 3"),
        ("@e.variant(trust=True)", "trust= must say why the variant is right although it looks"),
        ("@e.variant(when=print)", "f: when= must be one expression over parameters"),
        ("@e.variant(when='n %')", "when: 'n %' is no arithmetic"),
        ("@e.variant(when=lambda m: m > 2)", "there is no 'm'; known: "),
        ("@e.variant(tolerance={'float1': {'relative': 1}})", "unknown dtype 'float1'"),
        ("@e.variant(tolerance={'rtol': 1})", "unknown key 'rtol'; did you mean 'relative'?"),
        ("@e.variant(tolerance={'relative': 1, 'absolut': 1})", "did you mean 'absolute'?"),
    ],
)
def test_a_wrong_option_is_refused_with_one_sentence(profiler, decorator, message):
    file = profiler.folder / "wrong.py"
    file.write_text(
        "import profiler\ne = profiler.Experiment('wrong', problems={'n': [4]})\n"
        f"e.inputs(lambda n: n)\n{decorator}\ndef f(x): return x\n"
    )
    done = profiler("plan", "wrong.py")
    assert done.code == 2
    assert message in done.err
    assert "wrong.py:" in done.err


def test_a_condition_may_use_plain_values_of_its_file(profiler):
    file = profiler.folder / "limits.py"
    file.write_text(
        "import profiler\nLIMIT, KINDS = 8, ('a', 'b')\n"
        "e = profiler.Experiment('limits', problems={'n': [4, 16], 'kind': ['a', 'c']})\n"
        "e.inputs(lambda n: n)\n@e.variant\ndef all_of_them(x): return x\n"
        "def small(n, kind):\n    '''Fits.'''\n    return n <= LIMIT and kind in KINDS\n"
        "@e.variant(when=small)\ndef f(x): return x\n"
    )
    done = profiler("plan", "limits.py", "--json", "-", "--timer", "--device", "cpu")
    assert done.code == 0, done.err
    assert done.json["expected_seconds"] is None  # typical seconds are those of a GPU
    assert len(done.json["cells"]) == 4 + 1
    assert done.json["excluded"][-1]["reason"] == (
        "not applicable: needs n <= 8 and kind in ('a', 'b')"
    )


def test_a_syntax_error_shows_its_line_and_caret(profiler):
    file = profiler.folder / "syntax.py"
    file.write_text("import profiler\nx = profiler.Experiment('x'\n")
    done = profiler("plan", "syntax.py")
    assert "syntax.py:2: SyntaxError: '(' was never closed\n    x = profiler" in done.err
    assert f"\n{' ' * 27}^\n" in done.err


def test_a_name_without_its_ending_is_completed(profiler):
    (profiler.folder / "experiments").mkdir()
    (profiler.folder / "experiments/softmax.yaml").write_text("name: softmax\n")
    (profiler.folder / "experiments/softmax.zip").write_text("")
    for command in (("plan", "softmax"), ("plan", "experiments/softmax")):
        assert "did you mean 'experiments/softmax.yaml'?" in profiler(*command).err


PRISTINE = """
import torch
import profiler
e = profiler.Experiment("pristine", problems={"n": [100]})
@e.inputs
def inputs(n): return torch.cat((torch.ones(1), torch.rand(n)))
def require_clean(x):
    if x[0] != 1: raise ValueError(f"x begins with {x[0]}")
@e.variant(baseline=True)
def honest(x):
    require_clean(x)
    return x * 2
@e.variant(in_place=True)
def doubled(x):
    require_clean(x)
    return x.mul_(2)
@e.variant(in_place=True, check=lambda outputs, inputs: None if inputs[0] == 1 else "written")
def checked(x):
    require_clean(x)
    return x.mul_(2)
"""


def test_inputs_are_restored_before_each_launch_of_every_collector(profiler):
    collectors = "collect.collectors=[ncu,timer,torch_kernels,wall_clock,torch]"
    more = ("--set", collectors, "--set", "collect.metrics=[default]")
    cells, done = measured(profiler, "pristine", PRISTINE, *more)
    assert done.code == 0, done.err
    assert [outcome for outcome, _ in cells.values()] == ["measured"] * 3
    assert not any(n["kind"] == "not_rechecked" for n in done.json["notices"])


def test_forward_and_backward_are_two_experiments_of_one_file(profiler):
    (profiler.folder / "gelu.py").write_text(example("python.md", "gelu-forward"))
    refused = profiler("plan", "gelu.py")
    assert refused.code == 2
    assert "2 experiments in one file (gelu-forward, gelu-backward): name one" in refused.err
    assert "did you mean gelu-backward?" in profiler("plan", "gelu.py:gelu-backwards").err
    for name in ("gelu-forward", "gelu-backward"):
        done = profiler.measure(f"gelu.py:{name}", *ON_CPU, *BRIEF, *TIMED, "--json", "-")
        assert done.code == 0, done.err
        assert {cell["outcome"] for cell in done.json["cells"]} == {"measured"}
        assert not any(n["kind"] == "not_rechecked" for n in done.json["notices"])
    (run,) = profiler.runs(name)
    assert profiler("report", run).code == 0


VALUES = """
import argparse
import enum
from dataclasses import dataclass
from typing import NamedTuple
import torch
import profiler
from torch.nn.attention import SDPBackend
arguments = argparse.ArgumentParser()
arguments.add_argument("--scale", type=float, default=2.0)
SCALE = arguments.parse_args().scale
Kind = enum.Enum("Kind", ["ROW", "COLUMN"])
class Pair(NamedTuple):
    a: torch.Tensor
    b: torch.Tensor
@dataclass
class Inputs:
    x: torch.Tensor
    pair: Pair
e = profiler.Experiment("values", problems={
    "shape": [(8, 4), (16, 2)], "dtype": [torch.float32, torch.float64], "kind": [Kind.ROW],
})
@e.inputs
def inputs(shape, dtype):
    x = torch.rand(shape, dtype=dtype)
    return Inputs(x, Pair(x + 1, x + 2))
@e.flops
def flops(shape): return shape[0] * shape[1]
@e.variant(baseline=True)
def plain(values, kind):
    return (values.x * SCALE + values.pair.a).sum(kind.value - 1)
@e.variant(activation=[torch.relu, torch.tanh])
def activated(values, kind, activation):
    return plain(Inputs(activation(values.x), values.pair), kind)
@e.variant(backend=[SDPBackend.MATH])
def writes(values, kind, backend):
    assert backend is SDPBackend.MATH
    result = plain(values, kind)
    values.pair.a.zero_()
    return result
"""


def test_values_of_a_file_have_names_and_inputs_may_be_dataclasses(profiler):
    cells, done = measured(profiler, "values", VALUES)
    outcomes = {(cell.partition("..")[0], outcome) for cell, (outcome, _) in cells.items()}
    assert {outcome for cell, outcome in outcomes if cell == "plain"} == {"measured"}
    variants = {cell["variant"]: cell["outcome"] for cell in done.json["cells"]}
    assert variants == {
        "plain": "measured",
        "activated activation=relu": "measured",
        "activated activation=tanh": "wrong_result",
        "writes backend=MATH": "wrong_result",
    }
    problems = {tuple(cell["problem_params"].values()) for cell in done.json["cells"]}
    assert ("8x4", "float32", "ROW") in problems
    assert len(problems) == 4
    assert any("it writes into an input (values.pair[0])" in cause for _, cause in cells.values())


def test_variants_of_other_environments_have_processes_of_their_own(profiler):
    noted = 'print(os.getpid(), os.environ.get("PIECES"), file=open("notes", "a"))'
    text = example("python.md", "products").replace("    pieces", f"    {noted}\n    pieces")
    file = profiler.folder / "products.py"
    file.write_text(text)
    settings = (file.name, *ON_CPU, *BRIEF, *TIMED)
    plan = profiler("plan", *settings)
    assert "PIECES=4 (in_four)" in " ".join(plan.out.split())
    done = profiler.measure(*settings, "--json", "-")
    assert done.code == 0, done.err
    (run,) = profiler.runs("products")
    assert len(attempts(run)) == 3, "the three environments"
    commands = sorted(
        (a / "command.txt").read_text().partition(" python")[0] for a in attempts(run)
    )
    assert [command.startswith("env PIECES=") for command in commands].count(True) == 2
    notes = [line.split() for line in (profiler.folder / "notes").read_text().splitlines()]
    by_process = {process: {v for p, v in notes if p == process} for process, _ in notes}
    assert sorted(map(tuple, by_process.values())) == [("2",), ("4",), ("None",)]
    cells = done.json["cells"]
    assert {cell["outcome"] for cell in cells} == {"measured"}
    assert "processes of their own" in json.dumps(done.json["notices"])
    again = profiler.measure(*settings)
    assert again.code == 0
    assert len(attempts(run)) == 3, "nothing was measured twice"


def test_what_an_autotuner_chose_is_recorded_and_its_trials_are_in_no_sample(profiler):
    shutil.copytree(TESTS / "fake_triton/triton", profiler.folder / "triton")
    cells, done = measured(profiler, "tuned", example("python.md", "tuned-scale"))
    assert done.code == 0, done.err
    assert {outcome for outcome, _ in cells.values()} == {"measured"}
    for cell in done.json["cells"]:
        tried = cell["tuned"]
        if cell["variant_params"]["function"] == "eager":
            assert not tried
            continue
        assert {config["config"]["BLOCK"] for config in tried} == {128, 512}
        assert [config["best"] for config in tried].count(True) == 1
        assert {config["operation"] for config in tried} == {"scale_kernel"}
