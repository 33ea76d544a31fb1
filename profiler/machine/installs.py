"""Checks of installed tools: nsys and its importer, ncu, torch, CUPTI."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from profiler.collect import Command, cupti, ncu, nsys
from profiler.collect.nsys import Nsys, missing_library
from profiler.errors import EnvironmentUnusable
from profiler.machine.compilers import find_compiler
from profiler.machine.temporary_folders import temporary_folder
from profiler.machine.tool_output import output_of, run_command
from profiler.parse.bounded_files import replacing

_CANNOT_START = (126, 127)
"""Exit codes of a program that could not be loaded."""


def nsys_version(path: Path) -> str:
    """Version of an nsys; raises EnvironmentUnusable where it cannot be run or prints none."""
    return nsys.INSTALLED.read_version(output_of(run_command(Command((str(path), "--version")))))


def ncu_version(path: Path) -> str:
    """Version of an ncu; raises EnvironmentUnusable where it cannot be run or prints none."""
    return ncu.INSTALLED.read_version(output_of(run_command(Command((str(path), "--version")))))


def importer_fault(tool: Nsys) -> EnvironmentUnusable | None:
    """Error of an nsys whose importer cannot start, most often for a missing library; else None.

    None where the importer starts, whatever it prints (another release may not know the option),
    and where it is not found: behind a script of a CUDA toolkit it may lie elsewhere.
    """
    command = tool.importer_command()
    if command is None:
        return None
    try:
        completed = run_command(command)
    except EnvironmentUnusable as error:
        return error
    missing = missing_library(output_of(completed))
    if missing is not None or completed.returncode not in _CANNOT_START:
        return missing
    return EnvironmentUnusable(
        f"its importer does not start: {output_of(completed).strip()[:300]}",
        remedy="Install Nsight Systems again, or set PROFILER_NSYS to one that works.",
    )


_EXPORT_TIMEOUT_S = 1800.0


def export_report(tool: Nsys, report: Path, export: Path) -> None:
    """Convert a report of nsys to SQLite; raises EnvironmentUnusable with a remedy."""
    output = output_of(
        run_command(nsys.convert_command(tool.path, report, export), _EXPORT_TIMEOUT_S)
    )
    failed = nsys.convert_failed(export, report.name, output)
    if failed is not None:
        raise importer_fault(tool) or failed


_TIMEOUT_S = 120.0
_PROBE = "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available())"
_VARIABLES = ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH")
"""Environment variables that decide which libraries torch finds and which GPUs it sees."""


@dataclass(frozen=True)
class TorchInstall:
    """The torch of a Python; `error` where it cannot be imported."""

    version: str = ""
    cuda: str | None = None
    """CUDA version that torch was built for."""
    sees_gpu: bool = False
    error: str = ""


def ask_torch(
    python: str, environ: Mapping[str, str], gpu: Iterable[str | None], cache_file: Path
) -> TorchInstall:
    """Facts of torch by an import in a child process, or cached while the machine is unchanged.

    `gpu`: key of the GPU and its driver, empty without a GPU. Failures are not cached: an import
    that failed, or saw no GPU where there is one, is repeated.
    """
    gpu = tuple(gpu)
    state = _state_hash(python, environ, gpu)
    cached = _read_cached(cache_file, state)
    if cached is not None:
        return cached
    install = _import_in_child(python)
    if not install.error and (install.sees_gpu or not gpu):
        # Where that fails, the next check imports torch again.
        with suppress(OSError), replacing(cache_file) as stream:
            stream.write(json.dumps({"state": state, "torch": asdict(install)}).encode())
    return install


def _import_in_child(python: str) -> TorchInstall:
    try:
        completed = run_command(Command((python, "-c", _PROBE)), _TIMEOUT_S)
    except EnvironmentUnusable as error:
        return TorchInstall(error=f"cannot be checked: {error.message}")
    if completed.returncode != 0:
        last = completed.stderr.strip().splitlines()[-1:] or [f"exit code {completed.returncode}"]
        return TorchInstall(error=last[0])
    version, cuda, available = completed.stdout.split()[-3:]
    return TorchInstall(version, None if cuda == "None" else cuda, sees_gpu=available == "True")


def _state_hash(python: str, environ: Mapping[str, str], gpu: tuple[str | None, ...]) -> str:
    """Hash of all inputs of the answer; another install of torch has other file times."""
    torch = find_spec("torch")
    files = [python] + ([torch.origin] if torch is not None and torch.origin else [])
    folders = [str(Path(file).parent / "version.py") for file in files[1:]]
    times = [_changed_ns(Path(file)) for file in (*files, *folders)]
    text = json.dumps([files, times, [environ.get(name) for name in _VARIABLES], gpu])
    return hashlib.sha256(text.encode()).hexdigest()


def _changed_ns(file: Path) -> int | None:
    with suppress(OSError):
        return file.stat().st_mtime_ns
    return None


def _read_cached(file: Path, state: str) -> TorchInstall | None:
    with suppress(OSError, ValueError, TypeError, KeyError):
        document = json.loads(file.read_text(encoding="utf-8"))
        if document["state"] == state:
            return TorchInstall(**document["torch"])
    return None


_TRY_RANGE = cupti.SOURCE.with_name("try_range.py")
_BUILD_TIMEOUT_S = 120.0


def duration_by_cupti(python: str = sys.executable) -> float:
    """Duration of a small kernel in ns, by the library that counts in the runner.

    The library is built in a temporary folder. Raises EnvironmentUnusable where it cannot be built,
    and where CUPTI or the driver refuses.
    """
    with temporary_folder() as folder:
        answer = _stdout_of(python, "-P", str(_TRY_RANGE), str(built_library(folder)))
    try:
        return float(answer)
    except ValueError as error:
        raise EnvironmentUnusable(answer.strip(), remedy=cupti.WITHOUT_CUPTI) from error


def built_library(folder: Path) -> Path:
    """Path of the library that counts in the runner, built in a folder.

    Raises EnvironmentUnusable where the build fails.
    """
    library = folder / "range_profiler.so"
    nvcc = find_compiler().path
    flags = ("-shared", "-Xcompiler", "-fPIC", *cupti.header_flags(nvcc))
    _stdout_of(str(nvcc), *flags, "-o", str(library), str(cupti.SOURCE))
    return library


def _stdout_of(*argv: str) -> str:
    """Stdout of a command; raises EnvironmentUnusable with its last line where it fails."""
    completed = run_command(Command(argv), _BUILD_TIMEOUT_S)
    if completed.returncode == 0:
        return completed.stdout
    lines = completed.stderr.strip().splitlines()
    raise cupti.refusal(completed.stderr) or EnvironmentUnusable(
        lines[-1] if lines else f"exit code {completed.returncode}", remedy=cupti.WITHOUT_CUPTI
    )
