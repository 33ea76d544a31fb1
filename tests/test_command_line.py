"""The command line as a process: its commands, its streams, its exit codes."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from whole_runs import TESTS

ROOT = TESTS.parent
SOFTMAX = ROOT / "experiments/softmax.yaml"
TRANSPOSE = ROOT / "experiments/recordings/transpose.zip"
FRAMED = re.compile("[\u2500-\u257f\x1b]")
"""Box-drawing letters and controls of a terminal."""
CAPTURE = TESTS / "recordings/ncu-2025.3.1/ncu_raw_6metrics_2kernels.csv"
ENDINGS = str(TESTS / "workloads/endings.py")


@pytest.fixture(scope="module")
def ready(tmp_path_factory, command_line):
    """A command line with a small spec, for tests that leave nothing behind."""
    profiler = command_line(tmp_path_factory.mktemp("ready"))
    write_small(profiler)
    (profiler.folder / "wrong.yaml").write_text(
        "name: wrong\nworkload: ./softmax.py\nvariantz:\n  list: [a]\n"
    )
    (profiler.folder / "file").write_text("no folder\n")
    (profiler.folder / "inputs.py").write_text(
        "def inputs(n=4):\n    return n\n\n\ndef one(x):\n    return x\n"
    )
    (profiler.folder / "made").mkdir()
    (profiler.folder / "folder").mkdir()
    (profiler.folder / "made/made.py").write_text("def other(x):\n    return x\n")
    return profiler


def write_small(profiler, **collect):
    return profiler.write_spec(
        workload=ENDINGS,
        variants={"list": [{"name": name, "params": {"how": name}} for name in ("well", "also")]},
        problems={"matrix": {"rows": [4, 8]}},
        collect={"device": "cpu", "collectors": "timer", "blocks": 2, "repeats": 2, **collect},
    )


# ---- what is asked wrongly ----


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "SPEC"),
        (["run", "mine.yaml", "--only"], "`profiler run --help` shows arguments and flags."),
        (["run", "mine.yaml", "--colour", "never"], "--colour"),
        (["run", "mine.yaml", "--blocks", "0"], "--blocks"),
        (["run", "mine.yaml", "--blocks", "many"], "--blocks"),
        (["nowhere.yaml"], "nowhere.yaml"),
        (["--fast", "nowhere.yaml"], "nowhere.yaml"),
        (["--out", "report", "nowhere.yaml"], "nowhere.yaml"),
        (["--fast", "plan", "mine.yaml"], "--fast"),
        (["plna", "mine.yaml"], "did you mean 'plan'?"),
        (["plan", "mien.yaml"], "there is no such file; did you mean 'mine.yaml'?"),
        (["plan", "."], "."),
        (["plan", "file"], "file:1"),
        (["plan", "wrong.yaml"], "wrong.yaml:3: variantz: unknown key; did you mean 'variants'"),
        (["plan", "mine.yaml", "--set", "collect.bloks=3"], "did you mean 'blocks'"),
        (["plan", "mine.yaml", "--set", "nonsense"], "nonsense"),
        (["plan", "mine.yaml", "--only", "how=nobody"], "no cell matches"),
        (["plan", "mine.yaml", "--only", "who=well"], "no cell has 'who'"),
        (["plan", "mine.yaml", "--baseline", "wel"], "did you mean 'well'"),
        (["plan", "mine.yaml", "--color", "purple"], "--color purple"),
        (["plan", "mine.yaml", "--json", "file/x"], "--json file/x"),
        (["run", "mine.yaml", "--replay", "nowhere"], "nowhere: neither a run folder nor"),
        (["run", "mine.yaml", "--open", "--no-report"], "leaves out: give one of them"),
        (
            ["run", "mine.yaml", "--json", "one", "--markdown", "one"],
            "--json and --markdown both write to one.",
        ),
        (["history", "x", "--json", "one", "--out", "one"], "--json and --out both write to one."),
        (
            ["report", TRANSPOSE, "--json", "-", "--markdown", "-"],
            "--json and --markdown both write to stdout.",
        ),
        (["run", "mine.yaml", "--json", "."], "--json .: is a folder"),
        (["run", "mine.yaml", "--markdown", "file/x"], "--markdown file/x: "),
        (["mine.yaml", "--fail-on", "regression", "--fail-on=l2_hit_pct<60"], "--fail-on is given"),
        (["plan", "mine.yaml", "--only", "how=well", "--only", "rows=4"], "--only is given twice"),
        (["run", "mine.yaml", "--out", "file"], "file is not a folder"),
        (["run", "mine.yaml", "--out", "/proc/reports"], "/proc cannot be written to"),
        (["build", "mine.yaml", "--arch", "sm_90", "--out", "file/x"], "file is not a folder"),
        (["run", "mine.yaml", "--explain", "all", "--explain", "nobody"], "called 'nobody'"),
        (["run", "mine.yaml", "--workers", "local:1", "--explain", "nobody"], "called 'nobody'"),
        (["run", "mine.yaml", "--mixed"], "only with --workers"),
        (["run", "mine.yaml", "--no-dashboard"], "only with --workers local:N"),
        (["run", "mine.yaml", "--workers", "tcp://a:1", "--no-dashboard"], "dask scheduler"),
        (
            ["compare", "HEAD~1", "HEAD", "--", "mine.py", "--timer"],
            "--timer is an option after --",
        ),
        *(
            (["run", "mine.yaml", "--replay", "x", *flag], f"{flag[0]} measures and --replay")
            for flag in (["--fresh"], ["--budget", "3"], ["--timeline"], ["--workers", "local:1"])
        ),
        (["run", "mine.yaml", "--explain", "all", "--no-explain"], "Leave out --explain or --no-"),
        (["run", "mine.yaml", "--workers", "local:1", "--budget", "1"], "Leave out --budget"),
        (["run", "mine.yaml", "--fast"], "Leave out --fast"),
        (["check", "inputs.py", "--referee", "made/made.py", "--timer"], "leave out --timer"),
        (["check", "mine", "--referee", "made/made.py"], "or leave out --referee"),
        (["compare", "a", "b", "--timer"], "Leave out --timer"),
        (["compare", "a", "b", "--out", "page.html", "--no-report"], "Leave out --no-report"),
        (["history", "--out", "page.html", "--no-report"], "Leave out --no-report"),
        *(
            (["history", *flag], f"{flag[0]}: only of one experiment")
            for flag in (
                ["--json", "-"],
                ["--metric", "cycles"],
                ["--machine", "H100"],
                ["--out", "page.html"],
            )
        ),
        (["export", "mine.yaml", "--format", "t1", "--problem", "a"], "only with --format t4"),
        (["export", "mine", "--format", "t4", "--set", "title=x"], "only with --format t1"),
        (["capture", "-o", "new", "--values", "trace.json"], "Leave out --values"),
        *(
            (["check", "mine", *flag], f"Leave out {flag[0]}, or name the file")
            for flag in (["--blocks", "3"], ["--budget", "1"], ["--timer"], ["--set", "title=x"])
        ),
        (["export", "mine", "--format", "bencher", "--set", "title=x"], "only with --format t1"),
        (["report", "nowhere"], "neither a run folder nor"),
        (["report", "mine.yaml"], "go by the experiment's name, as in `mine`"),
        (["plan", "made"], "Is a directory; did you mean 'made/made.py'?"),
        (["plan", TRANSPOSE], "is a zip archive, and no experiment"),
        (["plan", "folder"], "`profiler report` shows runs and recordings"),
        (["figures", TRANSPOSE, "--out", "file"], "--out file: "),
        (["history", "nobody", "--reports", "file"], "--reports file: "),
        (["list", "--out", "file"], "--out file: "),
        (["gallery", TRANSPOSE.parent, "file"], "file is not a folder"),
        (["record", "nowhere", "there"], "neither a run folder nor"),
        (["import", "nowhere.csv"], "nowhere.csv"),
        (["import", "."], "."),
        (["import", "file"], "file"),
        (["build", "mine.yaml", "--arch", "hopper"], "hopper"),
        ([""], "The argument after profiler is empty"),
        (["import", ""], "The argument after import is empty"),
        (["import", "--", ""], "The argument after -- is empty"),
        (["compare", "", "mine"], "The argument after compare is empty"),
        (["report", "mine", "--out", ""], "The argument after --out is empty"),
        (["plan", "mine.yaml", "--json="], "The argument after --json= is empty"),
        (["list", ""], "The argument after list is empty"),
        (["capture", "-o", "file/x", "--", "inputs.py"], "file is not a folder"),
        (["capture", "-o", "", "--", "a.py", ""], "The argument after -o is empty"),
        (["capture", "-o", "made", "--", "a.py", ""], "made exists and is not empty"),
    ],
)
def test_bad_usage_exits_2_and_says_what_is_wrong(ready, arguments, message):
    done = ready(*arguments)
    assert done.code == 2, (arguments, done.err)
    assert message in done.err
    assert re.search("^profiler: ", done.err, re.MULTILINE)
    assert FRAMED.search(done.err) is None
    assert done.out == ""


def test_a_current_folder_that_is_gone_is_named(ready, tmp_path):
    script = f"mkdir gone && cd gone && rmdir ../gone && exec {sys.executable} -m profiler list"
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=tmp_path,
        env=ready.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        2,
        "profiler: The current folder is gone.",
    )


@pytest.mark.parametrize("command", ["import", "history", "report", "plan", "check"])
def test_a_name_that_no_file_can_have_wants_another(ready, command):
    done = ready(command, "n" * 300)
    assert done.code == 3
    assert "File name too long." in done.err
    assert "Remedy: Give another name" in done.err


IMPORTED = """
import importlib, json, pkgutil, sys
for names, absent in json.loads(sys.argv[1]):
    for name in names:
        package = importlib.import_module(name.removesuffix(".*"))
        if name.endswith(".*"):
            for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
                importlib.import_module(module.name)
    found = set(absent) & set(sys.modules)
    if found:
        sys.exit(f"{', '.join(names)}: {', '.join(found)}")
"""
"""Imports some modules after the others; none of them may have imported what is to be absent."""
HEAVY = ["pandas", "scipy", "matplotlib", "jinja2", "numpy"]
COMMANDS = [
    # What the machine is asked with, before anything else of a run is imported.
    (["profiler.cli", "profiler.commands.ahead"], ["pydantic", "yaml", "rich", "psutil", "pandas"]),
    # What stands between the command and the process of its first session.
    (["profiler.commands.run"], [*HEAVY, "psutil", "rich.progress"]),
    # What builds, while what measures is imported on a thread.
    (["profiler.sessions.builds.plan_builds"], HEAVY),
    # Commands that answer at once.
    (
        [
            *(f"profiler.{name}" for name in ("commands.index", "commands.new", "machine.doctor")),
            "profiler.render.console.lists",
        ],
        ["matplotlib", "scipy", "pandas", "torch"],
    ),
    # All commands, and those without statistics at their end.
    (
        ["profiler.commands.*", "profiler.comparison.document", "profiler.render.runs.page"],
        ["scipy.stats"],
    ),
]
"""Modules, and what is not imported with them or with those before."""


def test_commands_import_only_what_they_need():
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, json.dumps(COMMANDS)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.stderr.strip() == ""


ENDS = """
import sys
from pathlib import Path
import profiler.run_folder.load.assemble, profiler.sessions.measure
from jinja2 import Environment
from profiler.commands.imports import import_ahead
from profiler.commands.run import RunRequest, run_command
from profiler.planning.page_kinds import PAGE_KINDS
from profiler.run_folder.archive import open_run
import_ahead(page=True)
before = set(sys.modules)
views = {kind.view.partition(":")[0] for kind in PAGE_KINDS.values()}
Environment.compile = None
recording, out = map(Path, sys.argv[1:])
run_command(RunRequest(spec=open_run(recording).spec_file, out=out, replay=recording))
late = [name for name in set(sys.modules) - before if name.startswith("profiler.")]
late += sorted(views - before)
sys.exit(", ".join(late) or 0)
"""
"""Ends as a run does that has imported, beside its first session, what it needs at its end."""


def test_after_the_last_session_no_module_is_imported_and_no_template_compiled(tmp_path):
    recording = ROOT / "experiments/recordings/transpose.zip"
    command = [sys.executable, "-c", ENDS, recording, tmp_path]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_failed_command_leaves_no_run_behind(ready):
    assert not (ready.folder / "reports").exists()


# ---- commands that need no GPU ----


def test_plan_as_json(ready):
    done = ready.interpret("plan", SOFTMAX, "--json", "-")
    assert (done.code, done.err) == (0, "")
    plan = done.json
    ids = [cell["id"] for cell in plan["cells"]]
    assert len(set(ids)) == len(ids) == 360
    assert all(re.fullmatch(r"[A-Za-z0-9_.=-]+", id_) for id_ in ids)
    assert all(cell["variant"] and cell["problem"] for cell in plan["cells"])
    assert {"schema_version", "cells", "excluded", "sessions"} <= set(plan)
    assert all(each["count"] >= 0 and each["reason"] for each in plan["excluded"])
    assert sum(each["count"] for each in plan["excluded"]) > 0


def test_plan_with_every_flag_that_changes_it(ready):
    done = ready(
        *("plan", "mine.yaml", "--json", "-", "--only", "rows=8,how=also"),
        *("--set", "collect.repeats=7", "--blocks", "5", "--baseline", "also"),
    )
    assert done.code == 0, done.err
    assert [cell["id"] for cell in done.json["cells"]] == ["also..rows=8"]
    timed = ("--set", "collect.collectors=ncu", "--timer", "--json", "-")
    done = ready("plan", "mine.yaml", *timed)
    assert [session["collector"] for session in done.json["sessions"]] == ["timer"]
    done = ready("plan", "mine.yaml", "--only", "rows=8,how=also", "--blocks", "3")
    assert "mine: 2 cells" in done.out, "the baseline's cells stay"


def test_schema_list_and_help_answer_on_stdout(ready):
    schema = ready("schema")
    assert schema.code == 0
    assert {"name", "workload", "variants"} <= set(schema.json["properties"])
    empty = ready("list", "--json", "-")
    assert (empty.code, empty.json["runs"], empty.err) == (0, [], "")
    help_ = ready.interpret("--help")
    assert help_.code == 0
    for command in ("run", "plan", "build", "report", "import", "doctor", "list", "record"):
        assert command in help_.out


def test_doctor_says_what_is_missing(ready, tmp_path):
    """And words of the compiler that are no UTF-8 do it no harm."""
    nvcc = tmp_path / "bin/nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text("#!/bin/sh\nprintf 'release 13.0, V13.0.1 \\377\\376\\n'\n")
    nvcc.chmod(0o755)
    path = f"{nvcc.parent}:{os.environ['PATH']}"
    done = ready("doctor", "--json", "-", PROFILER_NCU="/nowhere", PATH=path, CUDA_HOME=tmp_path)
    assert done.code == 3
    checks = {check["name"]: check for check in done.json["checks"]}
    missing = [name for name, check in checks.items() if check["status"] == "missing"]
    assert any("ncu" in name for name in missing), checks
    assert "nvcc" not in missing
    assert all(checks[name]["remedy"] for name in missing)
    assert done.err == ""


def test_import_as_json_and_as_page(ready, tmp_path):
    done = ready("import", CAPTURE, "--json", "-")
    assert done.code == 0
    launches = done.json["launches"]
    assert launches
    for launch in launches:
        assert launch["kernel"]
        assert launch["metrics"]["duration_ns"] > 0
        assert launch["metrics"]["registers"] > 0
        assert {"cycles", "l2_hit_pct"} <= set(launch["metrics"])
    assert isinstance(done.json["warnings"], list)

    copy = shutil.copy(CAPTURE, tmp_path / "mine.csv")
    done = ready("import", copy)
    assert done.code == 0, done.err
    assert (ready.folder / "mine.html").stat().st_size > 1000
    assert "Page: " in done.out
    refused = ready("import", copy, "--out", "/proc/none/page.html")
    assert refused.code == 2
    assert "cannot be written" in refused.err


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_build_for_two_architectures_without_a_gpu(profiler):
    variants = {"list": ["a"]}
    program = profiler.write_spec("program", workload={"command": "true"}, variants=variants)
    done = profiler("build", program)
    assert (done.code, done.err) == (0, "Nothing to build: no variant has a build step.\n")
    spec = profiler.write_spec(
        "scaling",
        workload={
            "module": str(TESTS / "workloads/scaling/workload.py"),
            "space": str(TESTS / "workloads/scaling/space.py"),
        },
        variants={"list": [{"name": "cuda", "params": {"how": "cuda"}}]},
        problems={"matrix": {"size": [5]}},
    )
    done = profiler("build", spec, "--arch", "sm_90", "--json", "-")
    assert done.code == 0, done.err
    (build,) = done.json["builds"]
    assert (done.json["arch"], build["ok"], build["cached"]) == ("sm_90", True, False)
    (kernel,) = build["kernels"]
    assert kernel["registers"] > 0
    assert kernel["spill_store_bytes"] == 0
    assert "code=sm_90" in build["command"]
    again = profiler("build", spec, "--arch", "sm_90")
    assert again.code == 0
    assert "scale_kernel" in again.out
    broken = profiler(
        *("build", spec, "--arch", "sm_80", "--json", "-"),
        *("--set", "variants.list.0.params.how=broken"),
    )
    assert (broken.code, broken.json["arch"]) == (4, "sm_80")
    (build,) = broken.json["builds"]
    assert "this variant does not compile" in build["error"]
    assert "code=sm_80" in build["command"]


# ---- a run, and what its flags do to it ----


def test_why_nothing_of_an_earlier_run_counts_is_said(profiler):
    spec = write_small(profiler)
    assert "A new run" not in profiler.measure(spec).err
    again = profiler.measure(spec, "--set", "collect.warmups=1")
    assert again.code == 0, again.err
    first, _ = sorted(profiler.runs())
    assert f"{first.name} has 4 of these cells, but measured with other settings" in again.err
    assert "A new run" not in profiler.measure(spec, "--fresh").err


def test_a_run_under_the_timer_and_its_flags(profiler):
    write_small(profiler)
    # Flags before the file are those of `run`.
    done = profiler("--no-report", "-q", "mine.yaml", "--json", "here.json", "--color", "never")
    assert done.code == 0, done.err
    (warning,) = done.err.splitlines()
    assert warning.startswith("Only 2 timing blocks"), "what is warned of is said quietly, too"
    assert "Geometric means over 2 problems" in done.out
    assert "\x1b[" not in done.out
    (run,) = profiler.runs()
    assert not (run / "index.html").exists()
    document = json.loads((profiler.folder / "here.json").read_text())
    assert [cell["outcome"] for cell in document["cells"]] == ["measured"] * 4
    for cell in document["cells"]:
        assert cell["metrics"]["duration_ns"]["n"] == 2
        assert cell["metrics"]["duration_ns"]["median"] > 0

    some = profiler(
        *("mine.yaml", "--only", "rows=8,how=also", "--baseline", "also", "--json", "-"),
        *("--set", "title=One of them", "--timeout", "50", "--fresh"),
    )
    assert some.code == 0, some.err
    assert [cell["id"] for cell in some.json["cells"]] == ["also..rows=8"]
    assert some.json["baseline"] == "also"
    assert len(profiler.runs()) == 2
    page = (profiler.runs()[-1] / "index.html").read_text()
    assert "One of them" in page

    (profiler.folder / "reports/mine/20200101-000000").mkdir()
    (profiler.folder / "reports/mine/20200101-000000/run.json").write_text("{")
    summary, name = run / "summary.json", str(run.relative_to(profiler.folder))
    good, later = summary.read_bytes(), summary.stat().st_mtime_ns + 10**9
    for content in (good[:-2] + b"??", good):  # which a list tells apart by what is in them alone
        summary.write_bytes(content)
        os.utime(summary, ns=(later, later))
        listed = profiler("list", "--json", "-")
        assert listed.code == 0
        assert name in [entry["run"] for entry in listed.json["runs"]]
        assert "left out: " in listed.err
        without_answer = f"listed without its answer: {name}/summary.json: damaged" in listed.err
        assert without_answer == (content != good), listed.err


def test_a_reader_that_leaves_early_is_no_error(ready):
    with ready.start_interpreter("plan", SOFTMAX) as process:
        process.stdout.close()
        err = process.stderr.read()
    assert process.returncode == 0
    assert err == ""


def shell(ready, line, command=(sys.executable, "-m", "profiler")):
    """Run a line of bash in which $PROFILER is the command; gives code, stdout and stderr."""
    return subprocess.run(
        ["bash", "-c", line.replace("$PROFILER", shlex.join(command))],
        cwd=ready.folder,
        env=ready.environment,
        capture_output=True,
        text=True,
        timeout=ready.patience_s,
        check=False,
    )


SIGNALLED = """
import os, signal, sys
from profiler import cli

WHERE = sys.argv[1]

def send(*_, **__):
    # As while an import creates a dataclass, whose methods are code in a text.
    exec("os.kill(os.getpid(), signal.SIGTERM)")

def group():
    return send if WHERE == "command" else real_group()

real_group = cli.command_group
cli.command_group = group
if WHERE == "arguments":
    cli.TyperGroup.parse_args = send
cli.main()
"""


@pytest.mark.parametrize("where", ["arguments", "command"])
def test_a_signal_gives_its_exit_code_wherever_it_comes(tmp_path, where):
    """typer made 130 of each, and Python ended by SIGINT after code that is run from a text."""
    (tmp_path / "signalled.py").write_text(SIGNALLED)
    command = [sys.executable, "-m", "signalled", where]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, "SIGTERM: Interrupted." in done.stderr) == (143, True), done.stderr


def test_json_goes_through_what_the_shell_gives(ready):
    done = shell(ready, "$PROFILER list --json >(tr a-z A-Z >upper; echo whole >whole); wait $!")
    assert done.returncode == 0, done.stderr
    assert json.loads((ready.folder / "upper").read_text()) == {"SCHEMA_VERSION": 1, "RUNS": []}
    done = shell(ready, "$PROFILER list --json /dev/stdout >both")
    assert done.returncode == 0, done.stderr
    both = (ready.folder / "both").read_text()
    assert json.JSONDecoder().raw_decode(both)[0]["runs"] == []
    assert both.endswith("No runs here yet.\n"), "neither overwrites the other"


@pytest.mark.parametrize(
    "arguments",
    [
        "list --json /dev/full",
        "plan mine.yaml --json - >/dev/full",
        f"import {CAPTURE} --out /dev/full",
        f"export {TRANSPOSE} --format pytorch --out /dev/full",
    ],
)
def test_a_full_device_is_no_success(ready, arguments):
    """The end of an interpreter is tried where it is stdout that is full."""
    command = () if ">" in arguments else (ready.fork_server.command("profiler"),)
    done = shell(ready, f"$PROFILER {arguments}", *command)
    assert done.returncode == 3, done.stderr
    assert "No space left on device" in done.stderr
    assert "/dev/full" in done.stderr or "stdout" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_a_workload_that_cannot_be_loaded_is_bad_usage(profiler):
    spec = write_small(profiler)
    (profiler.folder / "torn.py").write_text("def make_inputs(problem, device, seed):\n    (\n")
    spec.write_text(spec.read_text().replace(ENDINGS, "./torn.py"))
    done = profiler.measure(spec)
    assert done.code == 2, done.err
    assert "torn.py" in done.err
    spec.write_text(spec.read_text().replace("torn.py", "absent.py"))
    done = profiler.measure(spec)
    assert done.code == 2, done.err
    assert "absent.py" in done.err
