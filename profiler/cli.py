"""The command line: flags in, exit code out. `profiler.commands` has the work of each command.

A command's arguments and flags are the fields of its request (`profiler/commands/requests.py`). Its
modules are imported when it runs, so that `--help` answers at once.
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
from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from itertools import pairwise
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
    close_hint,
    without_pydantic,
)
from profiler.machine.signals import interrupt_on_signals, received_signal, was_signalled
from profiler.outside_text import safe

_UsageError: Any = typer.BadParameter.__mro__[1]
"""click's usage error, which newer versions of typer bring with them under another name."""
_HELP_ERROR = "NoArgsIsHelpError"
"""Name of the usage error whose message is the help, of a command line without arguments."""


class Commands(TyperGroup):
    """Command group that handles interrupts before typer makes exit code 1 of them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments before the name of a command."""
        if args and args[0] in self.commands:
            _refuse_repeated(self.commands[args[0]], args)
        try:
            with _own_usage_errors(ctx):
                return super().parse_args(ctx, args)
        except KeyboardInterrupt:
            raise Interrupted("Interrupted.") from None

    def invoke(self, ctx: Any) -> Any:
        """Run a command, and flush its output, however it ends."""
        try:
            try:
                with _own_usage_errors(ctx):
                    return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except KeyboardInterrupt:
            raise Interrupted("Interrupted.") from None
        except BrokenPipeError:
            # The reader of our output left (`| head`): no error, and no stream for a message.
            _discard_output()
            sys.exit(int(ExitCode.COMPLETE))


@contextmanager
def _own_usage_errors(ctx: Any) -> Iterator[None]:
    """Raise click's usage errors as our own, which click would print in a frame, also to a file."""
    try:
        yield
    except _UsageError as error:
        if type(error).__name__ == _HELP_ERROR:
            raise
        help_command = [ctx.command_path, *filter(None, [ctx.invoked_subcommand]), "--help"]
        raise UsageError(
            without_pydantic(error.format_message()),
            remedy=f"`{' '.join(help_command)}` shows arguments and flags.",
        ) from None


def _discard_output() -> None:
    """Drop the buffer of stdout: Python would try to write it once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(
    cls=Commands,
    name="profiler",
    help="Which of my GPU kernel versions is best, by how much, is it real, and why.",
    epilog="`python -m profiler SPEC` is short for `python -m profiler run SPEC`. "
    "Exit codes: 0 complete, 1 internal error, 2 bad spec or usage, 3 environment unusable, "
    "4 some cells failed or none was measured, 5 a --fail-on gate tripped, 130 interrupted "
    "(128 + N by signal N).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
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
    del version  # its callback printed it


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
"""By name: the request, and `module:function` in `profiler.commands` that carries it out."""
_HIDDEN = ("gallery",)


_TARGETS = {"json_target": "--json", "markdown_target": "--markdown", "page": "--out"}
"""Flag by the field of a request that names a file to write."""


def _check_targets(values: Mapping[str, Any]) -> None:
    """Raise UsageError where a flag names no file that can be written, or two flags the same.

    Of two the second would replace the first.
    """
    flags: dict[str, str] = {}
    given = {flag: values[field] for field, flag in _TARGETS.items() if values.get(field)}
    for flag, target in ((flag, str(value)) for flag, value in given.items()):
        if target in flags:
            place = "stdout" if target == "-" else target
            raise UsageError(
                f"{flags[target]} and {flag} both write to {place}.",
                remedy="Give one another file.",
            )
        import_module("profiler.commands.output").require_target(flag, target)
        flags[target] = flag


def _add_command(name: str, request: type, target: str) -> None:
    """Add a command to the command line; its arguments and flags are the fields of its request."""

    def command(**values: Any) -> None:
        _check_targets(values)
        module, _, function = target.partition(":")
        carry_out = getattr(import_module(f"profiler.commands.{module}"), function)
        raise typer.Exit(carry_out(request(**values)))

    signature = inspect.signature(request, eval_str=True)
    flags = [
        field
        for field in signature.parameters.values()
        if hasattr(field.annotation, "__metadata__")
    ]
    command.__signature__ = signature.replace(parameters=flags)  # type: ignore[attr-defined]
    command.__doc__ = request.__doc__
    app.command(name, hidden=name in _HIDDEN)(command)


for _name, (_request, _target) in _COMMANDS.items():
    _add_command(_name, _request, _target)


_SIGNAL_EXIT_CODE = 128
"""Exit code of a program that a signal ended, less the number of the signal."""
_NO_PERMISSION = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_ROOM = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ESTALE),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOLCK, errno.ENOBUFS, errno.EAGAIN),
    *(errno.EINTR, errno.ETIMEDOUT, errno.EREMOTEIO, errno.ENOTCONN, errno.ENODEV, errno.ENXIO),
)
"""Errors of a host without room: on its disks, among its open files, in its memory; or whose disk
is elsewhere and does not answer."""
_NO_NAME = (errno.ENAMETOOLONG, errno.ELOOP)
"""Errors of names that no file can have, or that lead nowhere."""
_REMEDIES = {
    **dict.fromkeys(_NO_PERMISSION, "Change its permissions, or write to another folder."),
    **dict.fromkeys(_NO_ROOM, "Make room, or write to another folder."),
    **dict.fromkeys(_NO_NAME, "Give another name."),
}
"""Remedy by the number of an error of the host."""
_NO_THREAD = "can't start new thread"
_MORE_THREADS = "Raise the limit of processes (ulimit -u), or end others."


def _without_command(arguments: Sequence[str]) -> bool:
    """Whether arguments name no command: they begin with a file, or with a flag of `run`."""
    first = arguments[0]
    if not first.startswith("-"):
        return first not in _COMMANDS
    options = [
        option
        for option in command_group().commands["run"].params
        if option.param_type_name == "option"
    ]
    flags = {flag: option.is_flag for option in options for flag in option.opts}
    # A value may be called as a command: --out report.
    values = {value for flag, value in pairwise(arguments) if not flags.get(flag, True)}
    return first.partition("=")[0] in flags and _COMMANDS.keys().isdisjoint({*arguments} - values)


def _refuse_mistyped_command(argument: str) -> None:
    """Raise UsageError for an argument that is similar to a command's name and is no file."""
    hint = "" if argument.startswith("-") else close_hint(argument, _COMMANDS)
    if hint and Path(argument).suffix == "" and not Path(argument).exists():
        raise UsageError(f"{argument}: there is no such command or file{hint}")


def _require_current_folder() -> None:
    """Raise UsageError where the current folder was deleted."""
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise UsageError(
            "The current folder is gone.", remedy="Change to one that there is."
        ) from error


def _refuse_empty(arguments: Sequence[str]) -> None:
    """Raise UsageError for an empty argument, which a path takes for the current folder.

    Those of the program that `capture` runs are its own.
    """
    if arguments[:1] == ["capture"] and "--" in arguments:
        arguments = arguments[: arguments.index("--")]
    for before, argument in pairwise(["profiler", *arguments]):
        is_empty_value = argument.startswith("--") and argument.partition("=")[1:] == ("=", "")
        if not argument or is_empty_value:
            raise UsageError(
                f"The argument after {argument or before} is empty.",
                remedy="Leave it out, or see whether a variable of the shell is not set.",
            )


def _refuse_repeated(command: Any, arguments: Sequence[str]) -> None:
    """Raise UsageError for a flag that takes one value and is given twice: one would be dropped.

    Those of the program that `capture` runs are its own.
    """
    if command.name == "capture":
        return
    options = (
        param
        for param in command.params
        if param.param_type_name == "option" and not (param.multiple or param.is_flag)
    )
    names = {flag: option.name for option in options for flag in option.opts}
    given: set[str] = set()
    for flag in (argument.partition("=")[0] for argument in arguments):
        if names.get(flag) in given:
            raise UsageError(
                f"{flag} is given twice, and takes one value.", remedy="Leave one of them out."
            )
        if flag in names:
            given.add(names[flag])


def _resuming_command(argv: list[str]) -> str:
    """Command line that resumes this run: the present one without --fresh."""
    program = Path(argv[0])
    program_words = (
        ["python", "-m", "profiler"] if program.name == "__main__.py" else [program.name]
    )
    return shlex.join([*program_words, *(word for word in argv[1:] if word != "--fresh")])


def _exit_with(error: ProfilerError, code: int | None = None) -> NoReturn:
    with suppress(OSError):  # the terminal may be closed
        sys.stderr.write(f"profiler: {safe(str(error))}\n")
        sys.stderr.flush()
    sys.exit(int(error.exit_code) if code is None else code)


def _exit_interrupted(message: str) -> NoReturn:
    """Exit with the code of a program that a signal ended: 130 is that of Ctrl-C."""
    _forget_interrupt()
    error = Interrupted(message, remedy=f"Go on with: {_resuming_command(sys.argv)}")
    received = received_signal()
    if received is None:
        _exit_with(error)
    error.message = f"{received.name}: {message}"
    _exit_with(error, _SIGNAL_EXIT_CODE + received)


def _forget_interrupt() -> None:
    """Keep Python from ending by SIGINT in place of its exit code.

    It does, where a KeyboardInterrupt went through code that is run from a text, as the methods of
    a dataclass are when an import creates it. Running any such code again resets that.
    """
    namedtuple("Nothing", ())


def _exit_for_host_error(error: OSError) -> NoReturn:
    if received_signal() is not None:  # the streams closed with the terminal
        _exit_interrupted("Interrupted.")
    remedy = _REMEDIES.get(error.errno or 0)
    if remedy is None:
        _exit_with_traceback()
    _discard_output()
    _exit_with(
        EnvironmentUnusable(f"{error.filename or 'stdout'}: {error.strerror}.", remedy=remedy)
    )


def _exit_with_traceback() -> NoReturn:
    traceback.print_exc()
    sys.stderr.write("profiler: internal error; please report the lines above.\n")
    sys.exit(int(ExitCode.OWN_FAULT))


# ---- the process's own streams ------------------------------------------------------------------

_PLAIN_HANDLER = "profiler-plainer"
"""Name of the codecs' error handler that replaces letters which an encoding lacks."""

_FIRST_ESCAPED, _LAST_BYTE = 0x80, 0xFF
_PLAIN_LETTERS = str.maketrans(
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
        "\u00f7": "/",
        "\u2212": "-",
        "\u2500": "-",
        "\u25b2": "^",
        "\u25bc": "v",
        "\u00b5": "u",
        "\u2264": "<=",
        "\u2265": ">=",
        "\u2588": "#",
    }
)


def _prepare_streams() -> None:
    """Make stdin, stdout and stderr usable, whatever their state when the program starts.

    A stream may be closed, or its encoding may lack letters of a table. Results are worth more than
    their print: they are printed in plainer letters, or not at all.
    """
    codecs.register_error(_PLAIN_HANDLER, _plainer_letters)
    _fill_descriptors()
    sys.stdout = _usable_stream(sys.stdout, 1)
    sys.stderr = _usable_stream(sys.stderr, 2)


def _fill_descriptors() -> None:
    """Open those of descriptors 0 to 2 that are closed: else the next file gets our output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one


def _usable_stream(stream: TextIO | None, number: int) -> TextIO:
    if stream is None:  # it was closed when Python started
        return open(number, "w", encoding="utf-8", errors=_PLAIN_HANDLER, closefd=False)
    if isinstance(stream, io.TextIOWrapper):  # a test's stand-in takes any letter
        stream.reconfigure(errors=_PLAIN_HANDLER)
    return stream


def _plainer_letters(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    plain = "".join(_byte(letter) or letter.translate(_PLAIN_LETTERS) for letter in letters)
    return "".join(letter if letter.isascii() else "?" for letter in plain), error.end


def _byte(letter: str) -> str:
    """Escape of a byte in a file's name that is no UTF-8, as it is typed in a shell; else empty."""
    code = ord(letter) - 0xDC00
    return f"\\x{code:02x}" if _FIRST_ESCAPED <= code <= _LAST_BYTE else ""


# ---- the entry point -----------------------------------------------------------------------------

_COLLECT_AFTER = 1_000_000
"""Objects between two garbage collections: a process that ends after one command makes little. With
Python's own 700 they take a tenth of the time of a large report, with 100,000 a fiftieth."""


@cache
def command_group() -> Any:
    """All commands with their arguments and flags, as click has them."""
    return get_command(app)


def main() -> None:
    """Entry point: `SPEC` alone means `run SPEC`; every known error becomes its exit code."""
    gc.set_threshold(_COLLECT_AFTER)
    # Objects at the end go with the process: collecting them takes a quarter of a second.
    atexit.register(gc.freeze)
    os.environ.pop("MPLBACKEND", None)  # no command opens a window, and matplotlib refuses odd ones
    _prepare_streams()
    interrupt_on_signals()
    arguments = sys.argv[1:]
    try:
        _require_current_folder()
        _refuse_empty(arguments)
        if arguments and _without_command(arguments):
            _refuse_mistyped_command(arguments[0])
            arguments = ["run", *arguments]
        command_group()(args=arguments, prog_name="profiler")
    except Interrupted as error:
        _exit_interrupted(error.message)
    except KeyboardInterrupt:  # before a command began
        _exit_interrupted("Interrupted.")
    except ProfilerError as error:
        _exit_with(error)
    except OSError as error:
        _exit_for_host_error(error)
    except MemoryError:
        _exit_with(
            EnvironmentUnusable("There is not enough memory.", remedy="Give it less, or more.")
        )
    except Exception as error:
        if _NO_THREAD in str(error):
            limit = EnvironmentUnusable("No further thread can be started.", remedy=_MORE_THREADS)
            _exit_with(limit)
        if was_signalled():  # Python replaces an exception that comes while a class is created
            _exit_interrupted("Interrupted.")
        _exit_with_traceback()
