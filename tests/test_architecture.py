"""The laws of docs/architecture.md that can be read off the sources."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("profiler", "runner", "kernels")
SOURCES = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(file: Path) -> Iterator[str]:
    """Every module that a file imports, wherever the import stands."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, f"{file}: relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def offenders(room: str, forbidden: tuple[str, ...]) -> list[str]:
    found = []
    for file in SOURCES:
        name = module_name(file)
        if name != room and not name.startswith(f"{room}."):
            continue
        found += [
            f"{name} imports {other}"
            for other in imports(file)
            if any(other == bad or other.startswith(f"{bad}.") for bad in forbidden)
        ]
    return found


CUDA = ("torch", "triton", "cupy")
STAGES = (
    "profiler.commands.run",
    "profiler.cli",
    "profiler.commands.others",
    "profiler.sessions.measure",
)


@pytest.mark.parametrize(
    ("room", "forbidden"),
    [
        ("profiler", (*CUDA, "nvtx", "runner.session", "runner.workload", "runner.check")),
        ("runner", ("profiler", "pandas", "matplotlib")),
        ("runner.protocol", (*CUDA, "nvtx", "numpy")),
        ("kernels", ("profiler",)),
        ("kernels.build", CUDA),
        ("kernels.recipe", CUDA),
        ("kernels.softmax.space", (*CUDA, "numpy")),
        ("kernels.flash_attention.space", (*CUDA, "numpy")),
        ("kernels.fusion.space", (*CUDA, "numpy")),
        ("kernels.mlp.space", (*CUDA, "numpy")),
        ("kernels.waves.space", (*CUDA, "numpy")),
        ("profiler.model", ("profiler", "pandas", "numpy")),
        ("profiler.errors", ("profiler", "pandas")),
        ("profiler.notices", ("profiler", "pandas")),
        ("profiler.parse", ("profiler.analyse", "profiler.render", "profiler.sessions", *STAGES)),
        (
            "profiler.analyse",
            ("profiler.render", "profiler.sessions", "profiler.run_folder.folder", *STAGES),
        ),
        ("profiler.analyse", ("subprocess", "pathlib", "os")),
        ("profiler.collect", ("profiler.sessions", "profiler.render", *STAGES)),
        ("profiler.machine", ("profiler.sessions", "profiler.render", *STAGES)),
        (
            "profiler.machine.clock_sampler",
            ("subprocess", "profiler.collect", "profiler.run_folder", "profiler.analyse"),
        ),
        (
            "profiler.render",
            (
                "profiler.sessions",
                *(f"profiler.collect.{name}" for name in ("ncu", "nsys", "timer", "find")),
                "profiler.run_folder.folder",
                *STAGES,
            ),
        ),
        ("profiler.render", ("subprocess", "matplotlib.pyplot")),
        (
            "profiler.run_folder.load",
            ("profiler.render", "profiler.sessions", *STAGES),
        ),
        ("profiler.sessions", ("profiler.render", "profiler.commands.run", "profiler.cli")),
        ("profiler.importers", STAGES),
        ("profiler.comparison", ("profiler.render", "profiler.sessions", *STAGES)),
        ("profiler", ("pickle", "marshal", "shelve", "matplotlib.pyplot")),
        ("runner", ("pickle", "marshal", "shelve")),
    ],
)
def test_rooms_import_only_what_they_may(room: str, forbidden: tuple[str, ...]) -> None:
    assert any(module_name(file).startswith(room) for file in SOURCES), f"no such room: {room}"
    assert offenders(room, forbidden) == []


MAY_START_PROCESSES = {
    "profiler.sessions": "sessions and builds",
    "profiler.collect.ncu": "asks ncu for its version",
    "profiler.machine.compilers": "asks nvcc what it can build",
    "profiler.machine.tool_output": "asks tools for their versions, exports what nsys recorded",
    "profiler.machine.environment": "asks tools for their versions",
    "profiler.machine.doctor": "asks torch and nsys what they are and can do, in other processes",
}


def test_only_execute_starts_measurements() -> None:
    for file in SOURCES:
        name = module_name(file)
        if "subprocess" in set(imports(file)):
            allowed = any(
                name == room or name.startswith(f"{room}.") for room in MAY_START_PROCESSES
            )
            assert allowed, f"{name} starts processes"


def calls(file: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def test_no_eval_no_shell_no_unsafe_yaml() -> None:
    for file in SOURCES:
        for name, call in calls(file):
            assert name not in ("eval", "exec", "os.system", "os.popen"), f"{file}: {name}"
            assert name not in ("yaml.load", "yaml.unsafe_load", "yaml.full_load"), (
                f"{file}: {name}"
            )
            shell = [k for k in call.keywords if k.arg == "shell"]
            assert not shell, f"{file}: shell="


def test_no_utils() -> None:
    assert not [file for file in SOURCES if re.search(r"util|helper|misc|common", file.stem)]


def test_sources_name_no_machine() -> None:
    """No home folder and no temporary folder of whoever wrote it."""
    suspicious = re.compile(r"/(?:home|Users|root|work)/[A-Za-z]")
    kept = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile")]
    kept += [*SOURCES, *(ROOT / "docs").glob("*.md"), *(ROOT / "experiments").glob("*.yaml")]
    for file in kept:
        assert not suspicious.search(file.read_text("utf-8")), file
