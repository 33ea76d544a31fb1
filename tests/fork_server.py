"""Runs Python programs in forks of a process that has imported torch, pandas and scipy already.

A command of the profiler starts three to five interpreters, one inside the other: the command line,
the guard of a session, a stand-in for a tool, the runner. Nearly all of their time goes into
imports. A fork of a process that imported everything is a process as real as they are, with a
process id, a group, streams, signals and an end of its own; only the start of its interpreter is
not what a user has. Tests that guard that start, or kill what runs, use real interpreters
(`CommandLine.start`).
"""

import atexit
import contextlib
import ctypes
import fcntl
import functools
import gc
import importlib
import itertools
import json
import os
import pkgutil
import platform
import runpy
import selectors
import signal
import site
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import types
import weakref
import zipfile
from pathlib import Path

TESTS = Path(__file__).parent
SMALL_RECORDING = TESTS.parent / "experiments/recordings/transpose.zip"
FAKE_NCU = TESTS / "fake_ncu/ncu"
FAKE_NSYS = TESTS / "fake_nsys/target-linux-x64/nsys"
STAND_INS = (str(FAKE_NCU), str(FAKE_NSYS))
GUEST = str(TESTS.parent / "profiler/runner/referee/guest.py")
"""The process of a candidate or of a baseline under the referee."""
SCRIPTS = (
    *STAND_INS,
    str(TESTS.parent / "profiler/sessions/guard.py"),
    str(TESTS.parent / "profiler/runner/__main__.py"),
    str(TESTS.parent / "profiler/runner/capture/__main__.py"),
    GUEST,
)
"""What forks run by path: compiled once, not in each of hundreds."""
PRELOADED = (
    "torch",
    "torch._inductor.select_algorithm",
    "torch._inductor.runtime.triton_heuristics",
    "torch.fx.experimental.symbolic_shapes",
    "scipy.stats",
    "matplotlib.backends.backend_svg",
    "nvtx",
    "pandas.core.methods.to_dict",
    "pandas.io.formats.csvs",
    "pydantic.dataclasses",
    "rich._emoji_codes",
    "rich._unicode_data.unicode17-0-0",
    "distributed.cli.dask_scheduler",
    "distributed.http.worker",
    "mcp.server.mcpserver.tools",
    "tornado.platform.asyncio",
)
"""What nearly every command imports beside the profiler, some of it only when it is needed."""
READ_AT_START = ("PYTHON", "OMP_", "MKL_", "LD_")
"""Prefixes of variables that an interpreter and its libraries read once, when they start."""
MESSAGE_BYTES = 1 << 16
STREAMS = (1, 2, 0)
"""Streams of a fork in the order in which they are sent: without the last, its stdin is empty."""
HUGE_PAGE = 2 << 20
MADV_COLLAPSE = 25
"""Of Linux 6.1; an older one refuses it, and nothing is lost."""
ARENA = 1 << 20
"""Bytes that Python asks the system for when it needs room for small objects."""
SMALL_OBJECTS = 208 << 20
"""Bytes of arenas that hold what is imported."""
LARGEST_SMALL_OBJECT = 512
KEPT = []
"""An object in each arena, which is not given back."""
ENDS_OF_PARENTS = []
"""What Dask does at the end of a process: closing the connections of that process."""
FINDERS = sys.path_importer_cache
KNOWN_FOLDERS = set()
"""Folders of FINDERS that the server has looked through for modules."""
STREAMS_OF_PARENTS = []
"""Kept in a fork: a stream that goes away writes what it holds, and its parent will do that."""


def read_at_start(environment):
    """Variables of READ_AT_START that change how an interpreter starts."""
    usual = {"PYTHONPATH": "", "PYTHONUSERBASE": site.getuserbase()}
    return {
        name: text
        for name, text in environment.items()
        if name.startswith(READ_AT_START) and text != usual.get(name)
    }


def starts_as_here(args, environment):
    """Whether a new interpreter would start in an environment as this one did."""
    here = read_at_start(os.environ)
    if GUEST in args:  # it is given no such variable, and finds the project's folder by itself
        here = {name: text for name, text in here.items() if not name.startswith("PYTHON")}
    return read_at_start(environment) == here


class ForkServer:
    """The process that forks, as the tests of a worker see it: all workers of a run share one.

    Whoever needs it first starts it. Each order goes through a connection of its own, over which
    the end of its fork is told; the server ends with the last connection.
    """

    def __init__(self, environment, shared):
        self.environment = environment
        self.process = None
        self.forks = weakref.WeakSet()
        self.address = f"\0profiler tests in {shared}"  # nothing of it stays in the file system
        with (shared / "fork_server.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                self.connection = self._connect()
            except ConnectionRefusedError:
                self.process = self._start_server()
                self.connection = self._connect()

    def _connect(self):
        connection = _new_socket()
        try:
            connection.connect(self.address)
        except OSError:
            connection.close()
            raise
        return connection

    def _start_server(self):
        with _new_socket() as listener:
            listener.bind(self.address)
            listener.listen()
            return subprocess.Popen(
                [sys.executable, "-P", __file__, str(listener.fileno())],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # it may live longer than the worker that started it
                pass_fds=[listener.fileno()],
            )

    def serves(self, environment):
        """Whether a fresh interpreter would start in this environment as the server did."""
        return read_at_start(environment) == read_at_start(self.environment)

    def start(self, module, arguments, *, cwd, environment):
        """Start `python -m module arguments`, in a session of its own."""
        order = {"argv": [module, *arguments], "cwd": str(cwd), "environment": environment}
        fork = Forked(self._connect(), json.dumps(order).encode())
        self.forks.add(fork)
        return fork

    def command(self, module, *arguments):
        """A command line that is `python -m module arguments` with the streams that it is given."""
        client = Path(__file__).with_name("fork_client.py")
        return [sys.executable, "-I", "-S", str(client), self.address[1:], module, *arguments]

    def run(self, module, arguments, *, cwd, environment, patience_s):
        """Exit code (negative: a signal), stdout and stderr of `python -m module arguments`."""
        with self.start(module, arguments, cwd=cwd, environment=environment) as fork:
            try:
                out, err = fork.communicate(patience_s)
            except subprocess.TimeoutExpired:
                os.killpg(fork.pid, signal.SIGKILL)
                raise
        return fork.returncode, out, err

    def close(self):
        """Give it up; who started it waits until the other workers have done so too.

        A test that failed may have left a fork, whose connection the server would wait for.
        """
        for fork in list(self.forks):
            fork.end()
        self.connection.close()
        if self.process is not None:
            self.process.wait()


def _new_socket():
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class Forked:
    """What `subprocess.Popen` is, for a fork, whose parent is the server.

    Its streams are files, which can be read while it runs.
    """

    def __init__(self, connection, order):
        self.connection = connection
        self.returncode = None
        self.at_end = ("", "")
        self.streams = [_new_file() for _ in ("stdout", "stderr")]
        socket.send_fds(connection, [order], [stream.fileno() for stream in self.streams])
        self.pid = int(connection.recv(MESSAGE_BYTES))

    def poll(self):
        """The exit code, or None while it runs."""
        try:
            return self.wait(timeout=0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout=None):
        if self.returncode is None:
            self.connection.settimeout(timeout)
            try:
                self.returncode = int(self.connection.recv(MESSAGE_BYTES))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(f"fork {self.pid}", timeout) from None
            self.connection.close()
        return self.returncode

    def communicate(self, timeout=None):
        """The text on stdout and stderr, when it has ended."""
        self.wait(timeout)
        return self.close()

    def written(self):
        """The text so far on stdout and stderr."""
        return tuple(map(_text_of, self.streams)) or self.at_end

    def close(self):
        """Close its streams; gives what was written."""
        self.at_end = self.written()
        while self.streams:
            self.streams.pop().close()
        return self.at_end

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def end(self):
        """Kill it with its group where it still runs."""
        if self.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
            self.wait()
        self.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.wait()
        self.close()


def _new_file():
    return tempfile.TemporaryFile("w+")


def _text_of(stream):
    """All of a file, without moving the place where its writer goes on."""
    return Path(f"/proc/self/fd/{stream.fileno()}").read_text(encoding="utf-8")


# ---- inside the server and its forks -------------------------------------------------------------


class ForkingPopen(subprocess.Popen):
    """Popen that forks this interpreter where a new one would be started.

    `preexec_fn` runs in the child when its folder, streams, session and group are as they were
    asked for, and here it does not return.
    """

    def __init__(self, args, *rest, env=None, pass_fds=(), preexec_fn=None, **options):
        program = program_of(args)
        wanted = os.environ if env is None else env
        if program is not None and starts_as_here(args, wanted):
            preexec_fn = functools.partial(become, program, env, pass_fds)
        super().__init__(args, *rest, env=env, pass_fds=pass_fds, preexec_fn=preexec_fn, **options)


def program_of(args):
    """What a new interpreter would run, or None where another program is meant."""
    if isinstance(args, (str, bytes, os.PathLike)):
        return None
    words = [os.fspath(word) for word in args]
    if words[0] in STAND_INS:
        return functools.partial(run_script, words)
    if len(words) < 3 or words[0] != sys.executable:
        return None
    without_folder = words[1] == "-P"
    first, *rest = words[1 + without_folder :]
    if first == "-m":
        return functools.partial(run_module, rest, with_folder=not without_folder)
    if first == "-c":
        return functools.partial(run_text, rest)
    is_of_project = without_folder or first in SCRIPTS
    return functools.partial(run_script, [first, *rest]) if is_of_project else None


def execute(file, args):
    """Stand in for `os.execvp`: run in this fork what a new interpreter would run in its place."""
    program = program_of(args)
    if program is None:
        os.execvpe(file, args, os.environ)  # noqa: S606 - it is another program
    become(program, None)


def run_module(argv, *, with_folder=True):
    sys.argv = list(argv)
    if with_folder:
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as the interpreter does
    runpy.run_module(argv[0], run_name="__main__", alter_sys=True)


def run_text(argv):
    sys.argv = ["-c", *argv[1:]]
    run_code(compile(argv[0], "<string>", "exec"))


def run_script(argv):
    sys.argv = list(argv)
    run_code(code_of(argv[0]), __file__=argv[0])  # as `runpy.run_path`, which compiles each time


def run_code(code, **names):
    main = types.ModuleType("__main__")
    vars(main).update(names)
    sys.modules["__main__"] = main
    exec(code, vars(main))  # noqa: S102 - it is a program


@functools.cache
def code_of(script):
    return compile(Path(script).read_bytes(), script, "exec")


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
    # Nor is what its parent would take away or close when it ends: folders, connections.
    weakref.finalize._registry.clear()
    forget_folders()
    for at_exit in ENDS_OF_PARENTS:
        atexit.unregister(at_exit)
    numbers = sorted({2, *keep})
    for number, following in zip(numbers, [*numbers[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
        os.closerange(number + 1, following)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM):
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


def forget_folders():
    """Have folders looked through again for modules, but for those that the server knows.

    In these nothing is new. `importlib.invalidate_caches` writes to a thousand pages of memory that
    a fork has in common with its parent.
    """
    new = itertools.takewhile(lambda folder: folder not in KNOWN_FOLDERS, reversed(FINDERS))
    for folder in list(new):
        del FINDERS[folder]


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


def without_disk(_):
    """Stand in for `os.fsync`: no test takes the power away, and thousands of files would wait."""


def preload():
    lay_out_memory()
    gc.set_threshold(100_000, 50, 100)  # in the forks, too: what is looked through stays
    os.fsync = without_disk
    import distributed

    import profiler.cli
    from profiler.render.html import templates

    own = (module.name for module in pkgutil.walk_packages(profiler.__path__, "profiler."))
    for name in (*PRELOADED, *(name for name in own if not name.endswith(".__main__"))):
        importlib.import_module(name)
    ENDS_OF_PARENTS.extend(
        (distributed.client._close_global_client, distributed.deploy.spec.close_clusters)
    )
    know_arguments(profiler.cli.command_group())
    remember_no_stacks()
    platform.processor()  # starts a program, and remembers what that says
    for script in SCRIPTS:
        code_of(script)
    for name in templates().list_templates():
        templates().get_template(name)
    draw_a_page()
    # What torch takes down at the end of an interpreter takes 35 ms in each of hundreds of forks,
    # and forgetting it there 3 ms.
    weakref.finalize._registry.clear()
    KNOWN_FOLDERS.update(FINDERS)
    gc.collect()
    gc.freeze()
    collapse_memory()


def know_arguments(group):
    """Have the parsers of all commands, with pydantic's validators of their arguments and flags."""
    group.make_context("profiler", [], resilient_parsing=True)
    for name, command in group.commands.items():
        command.make_context(name, [], resilient_parsing=True)
        for parameter in command.params:
            parameter.get_runtime_param()


def remember_no_stacks():
    """Have torch keep no stack, read from its sources, for each seed that a device would get later.

    That reads the files of all functions that are running, in each process that sets a seed.
    """
    import torch

    for kind in (torch.cuda, torch.xpu, torch.mtia):
        kind.traceback = types.SimpleNamespace(format_stack=list)


def lay_out_memory():
    """Have the arenas of small objects side by side, and not one by one between libraries.

    Only whole huge pages can be collapsed: 60 MB of small ones were left at the arenas' ends, and
    took 4 of the 10 ms of a fork that does nothing.
    """
    size = LARGEST_SMALL_OBJECT - sys.getsizeof(b"") - 1
    objects = [b""] * (SMALL_OBJECTS // LARGEST_SMALL_OBJECT)  # a list that grows would leave gaps
    for place in range(len(objects)):
        objects[place] = bytes(size)
    KEPT.extend(objects[:: ARENA // LARGEST_SMALL_OBJECT // 2])


def collapse_memory():
    """Move the server's own memory to huge pages, where the kernel can.

    A fork copies, and its end frees, an entry for each page: 90,000 small ones take 20 ms, two
    thirds of all that a fork needs that does nothing.
    """
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, access, _, _, file, *name = line.split()
        if file != "0" or not access.startswith("rw") or name not in ([], ["[heap]"]):
            continue
        first, end = (int(address, 16) for address in addresses.split("-"))
        for start in range(-(-first // HUGE_PAGE) * HUGE_PAGE, end - HUGE_PAGE + 1, HUGE_PAGE):
            madvise(start, HUGE_PAGE, MADV_COLLAPSE)


def draw_a_page():
    """Fill what is filled at the first use: validators of pydantic, fonts, patterns, method caches.

    A seventh of the time of a small run, in each of hundreds of forks.
    """
    from profiler.commands.report import read_run
    from profiler.findings.find import find
    from profiler.render.console.tables import final_summary
    from profiler.render.page import render_page
    from profiler.run_folder.folder import RunFolder

    with tempfile.TemporaryDirectory() as folder:  # of its own: what it reads is gone with it
        zipfile.ZipFile(SMALL_RECORDING).extractall(folder)
        findings = find(read_run(RunFolder(Path(folder))))
    render_page(findings)
    final_summary(findings)


def serve(listener):
    """Fork once for each order, and tell its end, until the last connection is closed."""
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        connections = 0
        while True:
            for key, _ in selector.select():
                if key.fileobj is listener:
                    connections += 1
                    selector.register(listener.accept()[0], selectors.EVENT_READ)
                elif isinstance(key.fileobj, socket.socket):
                    connections -= not answer(key.fileobj, selector)
                else:
                    tell_end(*key.data)
                    selector.unregister(key.fileobj)
                    os.close(key.fileobj)
            if not connections:
                return


def answer(connection, selector):
    """Fork for an order, and look after the fork; False where the connection was closed."""
    message, descriptors, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, len(STREAMS))
    if not message:
        selector.unregister(connection)
        connection.close()
        return False
    order = json.loads(message)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        for number, descriptor in zip(STREAMS, descriptors, strict=False):
            os.dup2(descriptor, number)
        os.chdir(order["cwd"])
        become(functools.partial(run_module, order["argv"]), order["environment"])
    for descriptor in descriptors:
        os.close(descriptor)
    connection.send(str(pid).encode())
    selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, connection))
    return True


def tell_end(pid, connection):
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(OSError):  # nobody may wait for it
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())


if __name__ == "__main__":
    preload()
    subprocess.Popen = ForkingPopen
    os.execvp = execute
    serve(socket.socket(fileno=int(sys.argv[1])))
    os._exit(0)  # there is nothing to clean up, and torch takes its time
