"""Runs Python programs in forks of a process that has imported torch, pandas and scipy already.

A command of the profiler starts three to five interpreters, one inside the other: the command line,
the guard of a session, a stand-in for a tool, the runner. Nearly all of their time goes into
imports. A fork of a process that imported everything is a process as real as they are, with a
process id, a group, streams, signals and an end of its own; only the start of its interpreter is
not what a user has. Tests that guard that start, or kill what runs, use real interpreters
(`CommandLine.start`).
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from functools import partial
from pathlib import Path

TESTS = Path(__file__).parent
FAKE_NCU = TESTS / "fake_ncu/ncu"
FAKE_NSYS = TESTS / "fake_nsys/target-linux-x64/nsys"
STAND_INS = (str(FAKE_NCU), str(FAKE_NSYS))
PRELOADED = (
    "torch",
    "scipy.stats",
    "matplotlib.backends.backend_svg",
    "nvtx",
    "pandas.core.methods.to_dict",
    "pandas.io.formats.csvs",
    "pydantic.dataclasses",
    "rich._emoji_codes",
    "profiler.cli",
    "profiler.render.console.runs",
    "profiler.render.runs.page",
)
"""What nearly every command imports, some of it only when it is needed."""
READ_AT_START = ("PYTHON", "OMP_", "MKL_", "LD_")
"""Prefixes of variables that an interpreter and its libraries read once, when they start."""
MESSAGE_BYTES = 1 << 16
STREAMS_OF_PARENTS = []
"""Kept in a fork: a stream that goes away writes what it holds, and its parent will do that."""


def read_at_start(environment):
    return {name: text for name, text in environment.items() if name.startswith(READ_AT_START)}


class ForkServer:
    """The process that forks, as the tests see it; it ends when its socket is closed."""

    def __init__(self, environment):
        self.environment = environment
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                env=environment,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def serves(self, environment):
        """Whether a fresh interpreter would start in this environment as the server did."""
        return read_at_start(environment) == read_at_start(self.environment)

    def run(self, module, arguments, *, cwd, environment, patience_s):
        """Exit code (negative: a signal), stdout and stderr of `python -m module arguments`.

        It has a session of its own, as what `CommandLine.start` starts.
        """
        order = {"argv": [module, *arguments], "cwd": str(cwd), "environment": environment}
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            code = self._wait(order, [out.fileno(), err.fileno()], patience_s)
            out.seek(0)
            err.seek(0)
            return code, out.read(), err.read()

    def _wait(self, order, descriptors, patience_s):
        self.socket.settimeout(patience_s)
        socket.send_fds(self.socket, [json.dumps(order).encode()], descriptors)
        pid = int(self.socket.recv(MESSAGE_BYTES))
        try:
            return int(self.socket.recv(MESSAGE_BYTES))
        except TimeoutError:
            os.killpg(pid, signal.SIGKILL)
            self.socket.recv(MESSAGE_BYTES)
            raise

    def close(self):
        self.socket.close()
        self.process.wait(timeout=60)


# ---- inside the server and its forks -------------------------------------------------------------


class ForkingPopen(subprocess.Popen):
    """Popen that forks this interpreter where a new one would be started.

    `preexec_fn` runs in the child when its folder, streams, session and group are as they were
    asked for, and here it does not return.
    """

    def __init__(self, args, *rest, env=None, pass_fds=(), preexec_fn=None, **options):
        program = program_of(args)
        wanted = os.environ if env is None else env
        if program is not None and read_at_start(wanted) == read_at_start(os.environ):
            preexec_fn = partial(become, program, env, pass_fds)
        super().__init__(args, *rest, env=env, pass_fds=pass_fds, preexec_fn=preexec_fn, **options)


def program_of(args):
    """What a new interpreter would run, or None where another program is meant."""
    if isinstance(args, (str, bytes, os.PathLike)):
        return None
    words = [os.fspath(word) for word in args]
    if words[0] in STAND_INS:
        return partial(run_script, words)
    if len(words) < 3 or words[0] != sys.executable:
        return None
    if words[1] == "-m":
        return partial(run_module, words[2:])
    return partial(run_script, words[2:]) if words[1] == "-P" else None


def run_module(argv):
    sys.argv = list(argv)
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as the interpreter does
    runpy.run_module(argv[0], run_name="__main__", alter_sys=True)


def run_script(argv):
    sys.argv = list(argv)
    runpy.run_path(argv[0], run_name="__main__")


def become(program, environment, keep=()):
    """Run a program in this fork as a fresh interpreter would, and end."""
    code = 1
    try:
        start_afresh(environment, keep)
        program()
        code = 0
    except SystemExit as end:
        code = exit_code(end)
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
    finally:
        leave(code)


def start_afresh(environment, keep=()):
    """Give up files, signals, streams and variables of the process that forked."""
    # What the parent still holds is never collected here: it would close files by their number.
    gc.freeze()
    gc.enable()
    numbers = sorted({2, *keep})
    for number, following in zip(numbers, [*numbers[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
        os.closerange(number + 1, following)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    if environment is not None:
        os.environ.clear()
        os.environ.update(environment)
    STREAMS_OF_PARENTS.extend((sys.stdin, sys.stdout, sys.stderr))
    sys.stdin = open(0, closefd=False, encoding="utf-8")  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False, encoding="utf-8")  # noqa: SIM115
    sys.stderr = open(  # noqa: SIM115
        2, "w", buffering=1, closefd=False, encoding="utf-8", errors="backslashreplace"
    )
    importlib.invalidate_caches()


def exit_code(end):
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code & 0xFF
    print(end.code, file=sys.stderr)  # noqa: T201
    return 1


def leave(code):
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 120  # what an interpreter ends with that cannot write what it holds
    os._exit(code)


def preload():
    import profiler.commands
    from profiler.render.page import templates

    commands = pkgutil.iter_modules(profiler.commands.__path__, "profiler.commands.")
    for name in (*PRELOADED, *(module.name for module in commands)):
        importlib.import_module(name)
    for name in templates().list_templates():
        templates().get_template(name)


def serve(channel):
    """Fork once for each order, until the tests close the other end."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, MESSAGE_BYTES, 2)
        if not message:
            return
        order = json.loads(message)
        pid = os.fork()
        if pid == 0:
            os.setsid()
            for number, descriptor in enumerate(descriptors, start=1):
                os.dup2(descriptor, number)
            os.chdir(order["cwd"])
            become(partial(run_module, order["argv"]), order["environment"])
        for descriptor in descriptors:
            os.close(descriptor)
        channel.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        channel.send(str(os.waitstatus_to_exitcode(status)).encode())


if __name__ == "__main__":
    preload()
    subprocess.Popen = ForkingPopen
    serve(socket.socket(fileno=int(sys.argv[1])))
    os._exit(0)  # there is nothing to clean up, and torch takes its time
