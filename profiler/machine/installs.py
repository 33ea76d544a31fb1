"""Whether what is installed works: nsys and its importer, torch, and CUPTI."""

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
from profiler.collect.programs import version_command
from profiler.errors import EnvironmentUnusable
from profiler.machine.compilers import find_compiler
from profiler.machine.temporary_folders import temporary_folder
from profiler.machine.tool_output import printed, ran

_CANNOT_START = (126, 127)
"""Exit codes of a program that could not be loaded."""


def nsys_version(path: Path) -> str:
    """Version of an nsys; raises EnvironmentUnusable where it cannot be run or does not say."""
    return nsys.INSTALLED.read_version(printed(ran(version_command(path))))


def ncu_version(path: Path) -> str:
    """Version of an ncu; raises EnvironmentUnusable where it cannot be run or does not say."""
    return ncu.INSTALLED.read_version(printed(ran(version_command(path))))


def importer_fault(tool: Nsys) -> EnvironmentUnusable | None:
    """Error of an nsys whose importer cannot start, most often for a missing library; else None.

    None where it starts, whatever it answers (that of another release may not know the question),
    and where it is not found: behind a script of a CUDA toolkit it may lie elsewhere.
    """
    command = tool.importer_command()
    if command is None:
        return None
    try:
        end = ran(command)
    except EnvironmentUnusable as error:
        return error
    missing = missing_library(printed(end))
    if missing is not None or end.returncode not in _CANNOT_START:
        return missing
    return EnvironmentUnusable(
        f"its importer does not start: {printed(end).strip()[:300]}",
        remedy="Install Nsight Systems again, or set PROFILER_NSYS to one that works.",
    )


_EXPORT_TIMEOUT_S = 1800.0


def export_report(tool: Nsys, report: Path, export: Path) -> None:
    """Turn a report of nsys into SQLite; raises EnvironmentUnusable with what would help."""
    output = printed(ran(nsys.convert_command(tool.path, report, export), _EXPORT_TIMEOUT_S))
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
    """CUDA version that it was built for."""
    sees_gpu: bool = False
    error: str = ""


def ask_torch(
    python: str, environ: Mapping[str, str], gpu: Iterable[str | None], kept_file: Path
) -> TorchInstall:
    """Import torch, or read what it said when last imported on a machine that has not changed.

    `gpu` tells the GPU and its driver from others, and is empty without one. Nothing bad is kept:
    what failed, or saw no GPU where there is one, is tried again.
    """
    gpu = tuple(gpu)
    state = _state(python, environ, gpu)
    earlier = _read(kept_file, state)
    if earlier is not None:
        return earlier
    install = _imported(python)
    if not install.error and (install.sees_gpu or not gpu):
        _keep(kept_file, state, install)
    return install


def _imported(python: str) -> TorchInstall:
    try:
        done = ran(Command((python, "-c", _PROBE)), _TIMEOUT_S)
    except EnvironmentUnusable as error:
        return TorchInstall(error=f"cannot be checked: {error.message}")
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        return TorchInstall(error=last[0])
    version, cuda, available = done.stdout.split()[-3:]
    return TorchInstall(version, None if cuda == "None" else cuda, sees_gpu=available == "True")


def _state(python: str, environ: Mapping[str, str], gpu: tuple[str | None, ...]) -> str:
    """Hash of all that the answer depends on; another install of torch has other times."""
    torch = find_spec("torch")
    files = [python] + ([torch.origin] if torch is not None and torch.origin else [])
    folders = [str(Path(file).parent / "version.py") for file in files[1:]]
    times = [_changed_ns(Path(file)) for file in (*files, *folders)]
    variables = [environ.get(name) for name in _VARIABLES]
    text = json.dumps([files, times, variables, gpu])
    return hashlib.sha256(text.encode()).hexdigest()


def _changed_ns(file: Path) -> int | None:
    with suppress(OSError):
        return file.stat().st_mtime_ns
    return None


def _read(file: Path, state: str) -> TorchInstall | None:
    with suppress(OSError, ValueError, TypeError, KeyError):
        document = json.loads(file.read_text(encoding="utf-8"))
        if document["state"] == state:
            return TorchInstall(**document["torch"])
    return None


def _keep(file: Path, state: str, install: TorchInstall) -> None:
    """Write down an answer; a folder that cannot be written to only costs the next import."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_suffix(".new")
        temporary.write_text(json.dumps({"state": state, "torch": asdict(install)}), "utf-8")
        temporary.replace(file)


_TRY = cupti.SOURCE.with_name("try_range.py")
_LIMIT_S = 120.0


def duration_by_cupti(python: str = sys.executable) -> float:
    """Duration of a small kernel in ns, by the library that counts in the runner.

    It is built in a folder that goes again. Raises EnvironmentUnusable where it cannot be built,
    and where CUPTI or the driver refuses.
    """
    with temporary_folder() as folder:
        library = built_library(folder)
        answer = _stdout(python, "-P", str(_TRY), str(library))
    try:
        return float(answer)
    except ValueError as error:
        raise EnvironmentUnusable(answer.strip(), remedy=cupti.WITHOUT_CUPTI) from error


def built_library(folder: Path) -> Path:
    """The library that counts in the runner, built in a folder.

    Raises EnvironmentUnusable where it cannot be built.
    """
    library = folder / "range_profiler.so"
    nvcc = find_compiler().path
    flags = ("-shared", "-Xcompiler", "-fPIC", *cupti.header_flags(nvcc))
    _stdout(str(nvcc), *flags, "-o", str(library), str(cupti.SOURCE))
    return library


def _stdout(*argv: str) -> str:
    """Stdout of a command; raises EnvironmentUnusable where it fails, with what it said last."""
    end = ran(Command(argv), _LIMIT_S)
    if end.returncode == 0:
        return end.stdout
    lines = end.stderr.strip().splitlines()
    message = lines[-1] if lines else f"exit code {end.returncode}"
    raise cupti.refusal(end.stderr) or EnvironmentUnusable(message, remedy=cupti.WITHOUT_CUPTI)
