"""The laws of docs/architecture.md that can be read off the sources."""

import ast
import itertools
import re
import tomllib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("profiler", "runner", "kernels")
MOST_FIELDS = 12
FORMATS = {
    "Answer": "a row of history.sqlite",
    "CudaFile": "a workload in job.json",
    "Environment": "of run.json",
    "Plan": "plan.json",
    "RunRecord": "run.json",
    "Value": "numbers in summary.json",
    "Workload": "the functions of a user's workload module",
}
"""Records whose fields are those of a public format."""
FORMAT_BASES = {"JsonObject", "SpecModel", "ExperimentFlags", "DaskFlags"}
"""Bases of records whose fields are a document's, a spec's, or the flags of a command."""
DECLARED_BY_KEYWORD = {"CollectorKind", "Metric"}
"""Entries of a catalogue, which say what differs from the usual."""
ABOVE_MOST_FIELDS = {"MeasureRequest": "an execution, and what its measurement is asked for"}
SOURCES = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))


def module_name(file):
    """Name of an imported file: `runner` is linked from `profiler`, `kernels` is on the path."""
    top, *parts = file.relative_to(ROOT).with_suffix("").parts
    inside = {"profiler": ("profiler",), "runner": ("profiler", "runner"), "kernels": ()}[top]
    return ".".join((*inside, *(parts[:-1] if parts[-1] == "__init__" else parts)))


@cache
def nodes_of(file):
    """Imports, calls and classes of a file: it is parsed once for all tests."""
    kinds = ast.Import | ast.ImportFrom | ast.Call | ast.ClassDef
    tree = ast.walk(ast.parse(file.read_text("utf-8")))
    return tuple(node for node in tree if isinstance(node, kinds))


@cache
def imports(file):
    """Every module that a file imports, wherever the import stands."""
    return tuple(_imported(file))


def _imported(file):
    for node in nodes_of(file):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, f"{file}: relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


CHILD = ("profiler.runner", "profiler.kernels")
"""What the child process imports, which is no part of the orchestrator."""


def _is_in(name, package):
    return name == package or name.startswith(f"{package}.")


def offenders(room, forbidden):
    found = []
    for file in SOURCES:
        name = module_name(file)
        if not _is_in(name, room) or (room == "profiler" and any(_is_in(name, x) for x in CHILD)):
            continue
        found += [
            f"{name} imports {other}"
            for other in imports(file)
            if any(_is_in(other, bad) for bad in forbidden)
        ]
    return found


# ---- the table of rooms --------------------------------------------------------------------------


@dataclass(frozen=True)
class Room:
    """A row of the table."""

    number: int
    paths: tuple[str, ...]
    may_import: tuple[str, ...]

    def __str__(self):
        return self.paths[0]


def rooms_of(document):
    """Rows of the table of rooms, in its order: from the command line down."""
    _, _, below = document.partition("| room | does | may import |\n")
    lines = list(itertools.takewhile(lambda line: line.startswith("|"), below.splitlines()))[1:]
    rows = [[re.findall(r"`([^`]+)`", cell) for cell in line.split("|")[1:-1]] for line in lines]
    return tuple(
        Room(number, tuple(row[0]), tuple(row[2])) for number, row in enumerate(rows, start=1)
    )


ROOMS = rooms_of((ROOT / "docs/architecture.md").read_text("utf-8"))
ROOM_OF_PATH = {path: room for room in ROOMS for path in room.paths}
MODULES = {module_name(file): file.relative_to(ROOT).as_posix() for file in SOURCES}


@cache
def room_of(path):
    """The room of a file: of those whose paths it lies in, the innermost."""
    paths = [room_path for room_path in ROOM_OF_PATH if _lies_in(path, room_path)]
    assert paths, f"{path} is in no room of the table"
    return ROOM_OF_PATH[max(paths, key=len)]


def _lies_in(path, room_path):
    return path.startswith(room_path) if room_path.endswith("/") else path == room_path


def arrows():
    """Pairs of files: one that imports, and one of ours that it imports."""
    for file in SOURCES:
        for other in imports(file):
            if other in MODULES:
                yield file.relative_to(ROOT).as_posix(), MODULES[other]


def test_no_modules_import_each_other_in_a_circle():
    imported = {path: set() for path in MODULES.values()}
    for importer, path in arrows():
        if importer != path and not path.endswith("__init__.py"):
            imported[importer].add(path)
    order = tuple(TopologicalSorter(imported).static_order())  # raises CycleError with the circle
    assert len(order) == len(MODULES) > 300


def test_every_module_that_the_document_names_exists():
    named = re.findall(r"`([\w/]+\.py)[`:]", (ROOT / "docs/architecture.md").read_text("utf-8"))
    ours = [f"/{path}" for path in (*MODULES.values(), *map(str, ROOT.glob("benchmarks/*/*.py")))]
    others = {"FILE.py", "utils.py", "tests/test_architecture.py"}
    missing = [name for name in named if not any(path.endswith(f"/{name}") for path in ours)]
    assert len(named) > 50
    assert set(missing) == others


def test_every_module_has_a_room_and_every_room_exists():
    for path in MODULES.values():
        assert room_of(path)
    for path in ROOM_OF_PATH:
        assert (ROOT / path).exists(), path


def test_the_table_has_no_two_way_arrow():
    for room in ROOMS:
        for path in room.may_import:
            assert ROOM_OF_PATH[path].number > room.number, f"{room} may import {path}, above it"


def forbidden_arrows():
    """Pairs of rooms that the table does not have, with an import of each."""
    found = {}
    for path, other in arrows():
        room, target = room_of(path), room_of(other)
        if target is not room and target not in {ROOM_OF_PATH[name] for name in room.may_import}:
            found[str(room), str(target)] = f"{path} imports {other}"
    return found


def test_every_import_between_rooms_is_in_the_table():
    assert not forbidden_arrows()


def test_an_arrow_that_is_not_in_the_table_is_seen(monkeypatch):
    monkeypatch.setattr(
        "test_architecture.arrows",
        lambda: iter([("profiler/parse/nsys.py", "profiler/sessions/lock.py")]),
    )
    assert list(forbidden_arrows()) == [("profiler/parse/", "profiler/sessions/")]


def test_mypy_reads_every_study():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mypy"]
    studies = {file.parent.name for file in (ROOT / "kernels").glob("*/__init__.py")}
    assert set(settings["packages"]) == {"profiler", *studies}


MOST_LOOSE, MOST_IN_A_PACKAGE = 7, 25


def test_no_folder_is_crowded():
    beside = Counter(Path(path).parent.as_posix() for path in MODULES.values())
    assert beside.pop("profiler") <= MOST_LOOSE
    crowded = {folder: count for folder, count in beside.items() if count > MOST_IN_A_PACKAGE}
    assert not crowded


# ---- what a room may take from outside -----------------------------------------------------------

CUDA = ("torch", "triton", "cupy")


@pytest.mark.parametrize(
    ("room", "forbidden"),
    [
        ("profiler", (*CUDA, "nvtx")),
        ("profiler.runner", ("pandas", "matplotlib")),
        ("profiler.runner.protocol", (*CUDA, "nvtx", "numpy")),
        ("profiler.runner.experiment", (*CUDA, "numpy", "pandas")),
        ("profiler.runner.variant_options", ("profiler", *CUDA, "numpy", "pandas")),
        ("profiler.kernels.build", CUDA),
        ("profiler.kernels.recipe", CUDA),
        ("profiler.kernels.arithmetic", (*CUDA, "numpy")),
        ("profiler.kernels.cuda_file.space", (*CUDA, "numpy")),
        ("profiler.kernels.cuda_file.description", (*CUDA, "numpy")),
        ("profiler.kernels.cuda_file.torch_syntax", (*CUDA, "numpy")),
        ("softmax.space", (*CUDA, "numpy")),
        ("attention.problem", (*CUDA, "numpy")),
        ("attention.implementations", (*CUDA, "numpy")),
        ("attention_families.space", (*CUDA, "numpy")),
        ("flash_attention.space", (*CUDA, "numpy")),
        ("flash_attention_hopper.space", (*CUDA, "numpy")),
        ("fusion.space", (*CUDA, "numpy")),
        ("mlp.space", (*CUDA, "numpy")),
        ("waves.space", (*CUDA, "numpy")),
        ("profiler.model", ("profiler", "pandas", "numpy")),
        ("profiler.errors", ("profiler", "pandas")),
        ("profiler.notices", ("profiler", "pandas")),
        ("profiler.analyse", ("subprocess", "pathlib", "os")),
        ("profiler.machine.clock_sampler", ("subprocess",)),
        ("profiler.render", ("subprocess", "matplotlib.pyplot", "scipy")),
        ("profiler", ("pickle", "marshal", "shelve", "matplotlib.pyplot")),
        ("profiler.runner", ("pickle", "marshal", "shelve")),
    ],
)
def test_rooms_take_from_outside_only_what_they_may(room, forbidden):
    assert any(module_name(file).startswith(room) for file in SOURCES), f"no such room: {room}"
    assert offenders(room, forbidden) == []


MAY_START_PROCESSES = {
    "profiler.sessions": "sessions and builds",
    "profiler.machine.compilers": "asks nvcc what it can build",
    "profiler.machine.tool_output": "asks tools for versions, exports and pages",
    "profiler.revisions.repository": "asks git for commits and their files",
    "profiler.runner.referee.party": "functions of a candidate run in a process of their own",
}


def test_only_those_named_start_processes():
    for file in SOURCES:
        name = module_name(file)
        if "subprocess" in set(imports(file)):
            assert any(_is_in(name, room) for room in MAY_START_PROCESSES), f"{name} does"


def calls(file):
    """Every call of a file, with the dotted name of what is called."""
    for node in nodes_of(file):
        if isinstance(node, ast.Call):
            yield _dotted(node.func), node


def _dotted(node):
    """`os.path.join` of such an expression; of what is no name, what follows it."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def test_no_eval_no_shell_no_unsafe_yaml():
    for file in SOURCES:
        for name, call in calls(file):
            assert name not in ("eval", "exec", "os.system", "os.popen"), f"{file}: {name}"
            assert name not in ("yaml.load", "yaml.unsafe_load", "yaml.full_load"), (
                f"{file}: {name}"
            )
            shell = [k for k in call.keywords if k.arg == "shell"]
            assert not shell, f"{file}: shell="


KEPT_IN_THE_GALLERY = ("README.md", "autotune.html")


def test_links_of_the_docs_lead_to_what_is_kept():
    """`make gallery` writes pages that are not in the repository: no link may lead there."""
    texts = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    texts += [ROOT / "reports/gallery/README.md", ROOT / "experiments/recordings/README.md"]
    links = 0
    for file in texts:
        text = re.sub(r"```.*?```", "", file.read_text("utf-8"), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            target = (file.parent / link).resolve()
            assert target.exists(), f"{file.name}: {link}"
            if target.parent == ROOT / "reports/gallery":
                assert target.name in KEPT_IN_THE_GALLERY, f"{file.name}: {link}"
            links += 1
    assert links > 20


def field_counts():
    """Name of each record of profiler and runner, with its number of fields, inherited ones too."""
    files = [file for file in SOURCES if file.relative_to(ROOT).parts[0] != "kernels"]
    nodes = [node for file in files for node in nodes_of(file) if isinstance(node, ast.ClassDef)]
    by_name = {node.name: node for node in nodes}

    def lineage(node):
        yield node
        names = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
        for parent in map(by_name.get, names):
            yield from lineage(parent) if parent is not None and parent is not node else ()

    for node in nodes:
        parts = {part.name: part for part in lineage(node)}
        if FORMAT_BASES.isdisjoint(parts):
            yield node.name, sum(map(declared_fields, parts.values()))


def declared_fields(node):
    """Number of fields that a class declares itself."""
    annotated = [part for part in node.body if isinstance(part, ast.AnnAssign)]
    return sum("ClassVar" not in ast.unparse(part.annotation) for part in annotated)


def test_records_have_a_few_fields():
    """Some had more than thirty, and every function took them as a whole."""
    counts = list(field_counts())
    assert len(counts) > 400
    large = {name for name, count in counts if count > MOST_FIELDS}
    assert large == {*FORMATS, *DECLARED_BY_KEYWORD, *ABOVE_MOST_FIELDS}


def test_no_utils():
    assert not [file for file in SOURCES if re.search(r"util|helper|misc|common", file.stem)]


def test_sources_name_no_machine():
    """No home folder and no temporary folder of whoever wrote it."""
    suspicious = re.compile(r"/(?:home|Users|root|work)/[A-Za-z]")
    kept = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile")]
    kept += [*SOURCES, *(ROOT / "docs").glob("*.md"), *(ROOT / "experiments").glob("*.yaml")]
    for file in kept:
        assert not suspicious.search(file.read_text("utf-8")), file
