"""The command line: flags in, exit code out. What a command does stands in the modules it calls.

Its arguments and flags are the fields of its request (`profiler/commands/requests.py`). What it
needs is imported when it runs, so that `--help` answers at once.
"""

from __future__ import annotations

import atexit
import codecs
import errno
import gc
import inspect
import io
import os
import shlex
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn, TextIO

import typer
from typer.core import TyperGroup
from typer.main import get_command

from profiler import __version__
from profiler.commands import requests
from profiler.errors import (
    EnvironmentUnusable,
    ExitCode,
    Interrupted,
    ProfilerError,
    UsageError,
)
from profiler.machine.signals import interrupt_on_signals, received_signal, was_signalled
from profiler.outside_text import safe

_UsageError: Any = typer.BadParameter.__mro__[1]
"""The usage error of click, which newer versions of typer bring with them under another name."""


class Commands(TyperGroup):
    """Command group that handles interrupts before typer makes exit code 1 of them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments before the name of a command."""
        with _safe_usage_errors():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command, and write out what it printed, however it ends."""
        try:
            try:
                with _safe_usage_errors():
                    return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except KeyboardInterrupt:
            raise Interrupted("Interrupted.") from None
        except BrokenPipeError:
            # The reader of our output left (`| head`): nothing is wrong, and nothing can be said.
            _discard_output()
            sys.exit(int(ExitCode.COMPLETE))


@contextmanager
def _safe_usage_errors() -> Iterator[None]:
    """Make the arguments that click's errors quote safe to print."""
    try:
        yield
    except _UsageError as error:
        error.message = safe(error.message)
        raise


def _discard_output() -> None:
    """Drop what stdout still holds: Python would try to write it once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(
    cls=Commands,
    name="profiler",
    help="Which of my GPU kernel versions is best, by how much, is it real, and why.",
    epilog="`python -m profiler SPEC` is short for `python -m profiler run SPEC`. "
    "Exit codes: 0 complete, 1 internal error, 2 bad spec or usage, 3 environment unusable, "
    "4 some cells failed, 5 a --fail-on gate tripped, 130 interrupted (128 + N by signal N).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"profiler {__version__}\n")
        raise typer.Exit


@app.callback()
def before_commands(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version, and end."
        ),
    ] = False,
) -> None:
    """Which of my GPU kernel versions is best, by how much, is it real, and why."""
    del version  # its callback did what it asks for


_COMMANDS: Mapping[str, tuple[type, str]] = {
    "new": (requests.NewRequest, "new:make_new"),
    "run": (requests.RunRequest, "ahead:run_ahead"),
    "check": (requests.CheckRequest, "check:check"),
    "serve": (requests.ServeRequest, "serve:serve"),
    "worker": (requests.WorkerRequest, "workers:run_worker"),
    "plan": (requests.PlanRequest, "plan:show_plan"),
    "build": (requests.BuildRequest, "plan:show_build"),
    "report": (requests.ReportRequest, "report:rebuild_report"),
    "explain": (requests.ExplainRequest, "explain:explain"),
    "compare": (requests.CompareRequest, "compare:show_comparison"),
    "bisect": (requests.BisectRequest, "bisect:bisect_command"),
    "capture": (requests.CaptureRequest, "capture:capture"),
    "import": (requests.ImportRequest, "importing:import_files"),
    "simulate": (requests.SimulateRequest, "simulate:simulate"),
    "export": (requests.ExportRequest, "exporting:export"),
    "doctor": (requests.DoctorRequest, "new:show_doctor"),
    "list": (requests.ListRequest, "index:list_runs"),
    "gate": (requests.GateRequest, "gate:gate"),
    "history": (requests.HistoryRequest, "history:show_history"),
    "record": (requests.RecordRequest, "report:make_recording"),
    "figures": (requests.FiguresRequest, "exporting:write_figures"),
    "gallery": (requests.GalleryRequest, "gallery:make_gallery"),
    "schema": (requests.SchemaRequest, "new:show_schema"),
}
"""By name: the request, and `module:function` in `profiler.commands` that does what it asks."""
_HIDDEN = ("gallery",)


def _add_command(name: str, request: type, does: str) -> None:
    """Give the command line a command whose arguments and flags are the fields of its request."""

    def command(**values: Any) -> None:
        module, _, function = does.partition(":")
        do = getattr(import_module(f"profiler.commands.{module}"), function)
        raise typer.Exit(do(request(**values)))

    signature = inspect.signature(request, eval_str=True)
    flags = [
        field
        for field in signature.parameters.values()
        if hasattr(field.annotation, "__metadata__")
    ]
    command.__signature__ = signature.replace(parameters=flags)  # type: ignore[attr-defined]
    command.__doc__ = request.__doc__
    app.command(name, hidden=name in _HIDDEN)(command)


for _name, (_request, _does) in _COMMANDS.items():
    _add_command(_name, _request, _does)


_SIGNALLED = 128
"""What a shell adds to the number of the signal that ended a program."""
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_ROOM = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ESTALE),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOLCK, errno.ENOBUFS, errno.EAGAIN),
    *(errno.EINTR, errno.ETIMEDOUT, errno.EREMOTEIO, errno.ENOTCONN, errno.ENODEV, errno.ENXIO),
    *(errno.ENAMETOOLONG, errno.ELOOP),
)
"""What a host says that has no room for us: on its disks, among its open files, in its memory, in
its names; or whose disk is elsewhere and does not answer."""
_NO_THREAD = "can't start new thread"
_MORE_THREADS = "Raise the limit of processes (ulimit -u), or end others."


def _is_spec(argument: str) -> bool:
    return not argument.startswith("-") and argument not in _COMMANDS


def _refuse_mistyped_command(argument: str) -> None:
    """Raise UsageError for a word that is like a command and is no file."""
    import difflib

    close = difflib.get_close_matches(argument, _COMMANDS, n=1)
    if close and Path(argument).suffix == "" and not Path(argument).exists():
        raise UsageError(
            f"{argument}: there is no such command or file; did you mean '{close[0]}'?"
        )


def _same_command(argv: list[str]) -> str:
    """Command line that resumes this run: the same one without --fresh."""
    program = Path(argv[0])
    program_words = (
        ["python", "-m", "profiler"] if program.name == "__main__.py" else [program.name]
    )
    return shlex.join([*program_words, *(word for word in argv[1:] if word != "--fresh")])


def _fail(error: ProfilerError, code: int | None = None) -> NoReturn:
    with suppress(OSError):  # a terminal that was closed takes no words
        sys.stderr.write(f"profiler: {safe(str(error))}\n")
        sys.stderr.flush()
    sys.exit(int(error.exit_code) if code is None else code)


def _interrupted(message: str) -> NoReturn:
    """End as a program does that a signal ended: 130 is that of Ctrl-C."""
    error = Interrupted(message, remedy=f"Go on with: {_same_command(sys.argv)}")
    received = received_signal()
    if received is None:
        _fail(error)
    error.message = f"{received.name}: {message}"
    _fail(error, _SIGNALLED + received)


def _refused_by_host(error: OSError) -> NoReturn:
    if received_signal() is not None:  # with its terminal, our streams are gone
        _interrupted("Interrupted.")
    if error.errno not in (*_CLOSED, *_NO_ROOM):
        _own_fault()
    _discard_output()
    remedy = "Change its permissions" if error.errno in _CLOSED else "Make room"
    _fail(
        EnvironmentUnusable(
            f"{error.filename or 'stdout'}: {error.strerror}.",
            remedy=f"{remedy}, or write to another folder.",
        )
    )


def _own_fault() -> NoReturn:
    traceback.print_exc()
    sys.stderr.write("profiler: internal error; please report the lines above.\n")
    sys.exit(int(ExitCode.OWN_FAULT))


# ---- the process's own streams ------------------------------------------------------------------

_PLAINER = "profiler-plainer"
"""Error handler of codecs: letters that an encoding lacks become plainer ones."""

_FIRST_ESCAPED, _LAST_BYTE = 0x80, 0xFF
_PLAIN = str.maketrans(
    {
        "\u202f": " ",
        "\u00a0": " ",
        "\u2011": "-",
        "\u2013": "-",
        "\u2014": "-",
        "\u2018": "'",
        "\u2019": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u2026": "...",
        "\u2192": "->",
        "\u00d7": "x",
        "\u00b1": "+/-",
        "\u00b7": "*",
        "\u00b5": "u",
        "\u2264": "<=",
        "\u2265": ">=",
        "\u2588": "#",
    }
)


def _prepare_streams() -> None:
    """Make stdin, stdout and stderr usable, whatever the caller left of them.

    One may be closed, and its encoding may lack what a page or a table says. What was measured is
    worth more than how it is printed: it is printed in plainer letters, or nowhere.
    """
    codecs.register_error(_PLAINER, _plainer)
    _fill_descriptors()
    sys.stdout = _usable(sys.stdout, 1)
    sys.stderr = _usable(sys.stderr, 2)


def _fill_descriptors() -> None:
    """Open what is closed of 0 to 2: else the next file would get that number, and our output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one


def _usable(stream: TextIO | None, number: int) -> TextIO:
    if stream is None:  # it was closed when Python started
        return open(number, "w", encoding="utf-8", errors=_PLAINER, closefd=False)
    if isinstance(stream, io.TextIOWrapper):  # a test's stand-in takes any letter
        stream.reconfigure(errors=_PLAINER)
    return stream


def _plainer(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    plain = "".join(_byte(letter) or letter.translate(_PLAIN) for letter in letters)
    return "".join(letter if letter.isascii() else "?" for letter in plain), error.end


def _byte(letter: str) -> str:
    """The byte of a file's name that is no UTF-8, as it is typed in a shell; else empty."""
    code = ord(letter) - 0xDC00
    return f"\\x{code:02x}" if _FIRST_ESCAPED <= code <= _LAST_BYTE else ""


# ---- the entry point -----------------------------------------------------------------------------

_COLLECT_AFTER = 1_000_000
"""Objects between two looks for garbage: a process that ends after one command makes little. With
Python's own 700 the looks take a tenth of the time of a large report, with 100,000 a fiftieth."""


@cache
def command_group() -> Any:
    """All commands with their arguments and flags, as click has them."""
    return get_command(app)


def main() -> None:
    """Entry point: `SPEC` alone means `run SPEC`; every known error becomes its exit code."""
    gc.set_threshold(_COLLECT_AFTER)
    # What is left at the end goes with the process: looking through it takes a quarter of a second.
    atexit.register(gc.freeze)
    os.environ.pop("MPLBACKEND", None)  # no command opens a window, and matplotlib refuses odd ones
    _prepare_streams()
    interrupt_on_signals()
    arguments = sys.argv[1:]
    try:
        if arguments and _is_spec(arguments[0]):
            _refuse_mistyped_command(arguments[0])
            arguments = ["run", *arguments]
        command_group()(args=arguments, prog_name="profiler")
    except Interrupted as error:
        _interrupted(error.message)
    except KeyboardInterrupt:  # before a command began
        _interrupted("Interrupted.")
    except ProfilerError as error:
        _fail(error)
    except OSError as error:
        _refused_by_host(error)
    except MemoryError:
        _fail(EnvironmentUnusable("There is not enough memory.", remedy="Give it less, or more."))
    except Exception as error:
        if _NO_THREAD in str(error):
            limit = EnvironmentUnusable("No further thread can be started.", remedy=_MORE_THREADS)
            _fail(limit)
        if was_signalled():  # Python makes another error of one that comes while a class is made
            _interrupted("Interrupted.")
        _own_fault()
