"""`profiler capture`: a program whose operator calls become an experiment; ranks of a trace."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import profiler
from profiler.commands.requests import CaptureRequest
from profiler.errors import ExitCode, UsageError
from profiler.machine.console import make_console
from profiler.run_folder.runs import require_folder

_MAIN = Path(profiler.__file__).parent / "runner" / "capture" / "__main__.py"
_PYTHON = re.compile(r"python(\d(\.\d+)?)?")
_WITH_VALUE = ("-X", "-W")
"""Flags of Python whose value is the next word."""
_TRACES = (".json", ".json.gz")
_STEPS = re.compile(r"(\d{1,9}):(\d{1,9})")


def capture(request: CaptureRequest) -> ExitCode:
    """Replace this process by the captured program; without `-o`, rank a trace."""
    if request.values and _is_trace(request.program):
        raise UsageError(
            f"--values: {request.program[0]} is a trace, which holds none.",
            remedy="Leave out --values, or give the program: -- python train.py",
        )
    if request.out is None:
        return _rank(request)
    return _become(request, request.out)


def _rank(request: CaptureRequest) -> ExitCode:
    """Print the slowest operators of a trace, and which of them a live capture records."""
    trace = Path(request.program[0])
    if len(request.program) > 1 or not trace.is_file() or trace.suffix == ".py":
        raise UsageError(
            "capture takes a program and -o FOLDER, or a trace.",
            remedy="As in: profiler capture -o FOLDER -- python train.py",
        )
    from profiler.importers.registry import read_files
    from profiler.importers.timelines import ImportedTimelines, ranked_work
    from profiler.render.console.tables import ranks_table

    imported, _ = read_files([trace])
    if not isinstance(imported, ImportedTimelines):
        raise UsageError(f"{trace.name} is no timeline.", remedy="profiler import shows it.")
    if not any(len(imported_file.timeline.operations) for imported_file in imported.timelines):
        raise UsageError(
            f"{trace.name} holds no operation with its times.",
            remedy="profiler import shows what is in it.",
        )
    for imported_file in imported.timelines:
        ranks = ranked_work(imported_file.timeline)
        make_console("auto").print(*ranks_table(imported_file.file, ranks))
    return ExitCode.COMPLETE


def _become(request: CaptureRequest, out: Path) -> NoReturn:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} exists and is not empty.", remedy="Name another folder with -o.")
    require_folder(out, "-o")
    options = ["--out", str(out)]
    if _is_trace(request.program):
        python, program = [sys.executable], list[str]()
        options += ["--trace", request.program[0]]
    else:
        first, end = _steps(request.steps)
        python, program = _python_and_program(request.program)
        options += ["--first", str(first), "--end", str(end)]
        options += ["--values"] if request.values else []
    command = [*python, str(_MAIN), *options, "--", *program]
    os.execvp(command[0], command)  # noqa: S606 - no shell: what the user gave, word by word


def _is_trace(program: Sequence[str]) -> bool:
    """Whether a trace is named in place of a program."""
    return len(program) == 1 and program[0].endswith(_TRACES)


def _steps(text: str) -> tuple[int, int]:
    first_and_end = _STEPS.fullmatch(text)
    first, end = (int(part) for part in first_and_end.groups()) if first_and_end else (0, 0)
    if first >= end:
        raise UsageError(
            f"--steps {text}: give the first step and the one after the last, as in 10:12."
        )
    return first, end


def _python_and_program(command_line: Sequence[str]) -> tuple[list[str], list[str]]:
    """Python with its flags, and the file or module with its arguments."""
    program, arguments = command_line[0], list(command_line[1:])
    if not _PYTHON.fullmatch(Path(program).name):
        if program.endswith(".py"):
            return [sys.executable], [_existing(program), *arguments]
        return _of_script(program, arguments)
    flags: list[str] = []
    while arguments and arguments[0].startswith("-") and arguments[0] != "-m":
        word_count = 2 if arguments[0] in _WITH_VALUE else 1
        flags, arguments = [*flags, *arguments[:word_count]], arguments[word_count:]
    if "-c" in flags or not arguments or arguments == ["-m"]:
        raise UsageError(
            "capture runs a file or a module of Python.", remedy="As in: -- python train.py"
        )
    if arguments[0] != "-m":
        _existing(arguments[0])
    return [program, *flags], arguments


def _existing(program: str) -> str:
    """An existing file; else UsageError, before anything begins or a folder is made."""
    if not Path(program).exists():
        raise UsageError(f"There is no file {program}.", remedy="As in: -- python train.py")
    return program


def _of_script(program: str, arguments: list[str]) -> tuple[list[str], list[str]]:
    """The Python of a command that pip installed, and the command's file."""
    file = shutil.which(program)
    line = b""
    if file is not None:
        with Path(file).open("rb") as stream:
            line = stream.readline(512)
    python = line.removeprefix(b"#!").decode(errors="replace").split()
    if not line.startswith(b"#!") or not python or "python" not in python[-1]:
        raise UsageError(
            f"{program} is no program of Python.", remedy="As in: -- python train.py ARGUMENTS"
        )
    return python, [str(file), *arguments]
