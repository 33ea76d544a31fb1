"""`python -P runner/referee/guest.py SOCKET`: the process in which functions of one file run.

It knows nothing of the other party, of the right results, or of later inputs: these lie in the
shared memory when a launch is requested. The file can do anything to this process: the judge trusts
the shared memory and its own clock alone.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

if not __package__:  # started by its path; last, so that nothing beside the project is found first
    sys.path.append(str(Path(__file__).absolute().parents[3]))

import torch

from profiler.runner.arrays import as_tensor, leaves
from profiler.runner.error_text import line_in, telling_line
from profiler.runner.experiment import accepted_arguments, experiment_of
from profiler.runner.import_path import import_file, name_clash
from profiler.runner.module_tasks import launch_with_inputs
from profiler.runner.referee.confine import confine
from profiler.runner.referee.exchange import Place, SharedMemory, of_message

MOST_BYTES = 1 << 17
"""Largest size of a message."""
_MOST_FILES = 1
_PARENT_ENDS = 1  # PR_SET_PDEATHSIG of linux/prctl.h

_SYNCHRONIZE = torch.cuda.synchronize
"""The function of torch, before any code of the file runs."""

Message = Mapping[str, Any]


class Refused(Exception):  # noqa: N818 - it is no error of this process
    """A request cannot be carried out: the message says why."""


class Guest:
    """Answers the requests of the judge, one message after another."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._file = Path()
        self._module: ModuleType | None = None
        self._calls: dict[str, Callable[[], Any]] = {}
        """Launch functions by the text of function and parameters, on the current memory."""
        self._arguments: tuple[tuple[Any, ...], dict[str, Any], dict[str, Any]] = ((), {}, {})
        self._init_inputs: Sequence[Any] | None = None
        """Arguments of the classes of a task of KernelBench; None for another task."""
        self._results: tuple[torch.Tensor, ...] = ()
        self._memory: SharedMemory | None = None
        self._wait: Callable[[], object] = bool
        """Waits for the device; the function of a CPU does nothing."""

    def serve(self) -> None:
        """Answer until the judge has left."""
        while True:
            content, files, _, _ = socket.recv_fds(self._channel, MOST_BYTES, _MOST_FILES)
            if not content:
                return
            message = json.loads(content)
            try:
                answer = getattr(self, f"do_{message['do']}")(message, files)
            except BaseException as error:  # of any kind, by a user's function
                answer = {"error": self._error_text(error), "line": line_in(error, self._file)}
            self._channel.send(json.dumps({"number": message["number"], **(answer or {})}).encode())

    def do_load(self, message: Message, _files: Sequence[int]) -> Message:
        """Import the file, with the rights that the judge leaves it."""
        self._file = Path(message["file"])
        readable = message["readable"]
        is_confined = bool(readable) and confine(readable, message["writable"])
        self._module = import_file(self._file)
        return {"confined": is_confined}

    def do_lay(self, message: Message, files: Sequence[int]) -> None:
        """Open the memory of another problem."""
        self._calls.clear()
        memory = SharedMemory.attach(message["memory"], files)
        tensors = [memory.tensor(Place(**place)) for place in message["places"]]
        positional, keywords, problem, self._init_inputs = (
            of_message(message[name], tensors.__getitem__)
            for name in ("positional", "named", "problem", "init_inputs")
        )
        self._memory, self._arguments = memory, (positional, keywords, problem)
        self._results = tuple(tensors[number] for number in message["results"])
        if tensors and tensors[0].is_cuda:
            self._wait = _SYNCHRONIZE

    def do_launch(self, message: Message, _files: Sequence[int]) -> None:
        """Launch once; the result lies in the shared memory when the answer is sent."""
        key = json.dumps([message["function"], message["parameters"], message["setup"]])
        if key not in self._calls:
            self._calls[key] = self._call(message)
        result = self._calls[key]()
        results = [as_tensor(value) for value in leaves(result)]
        if results or not message["writes"]:
            _require_alike(results, self._results)
            for value, place in zip(results, self._results, strict=True):
                place.copy_(value)
        self._wait()

    def _call(self, message: Message) -> Callable[[], Any]:
        function = self._function(message["function"])
        init_inputs = self._init_inputs
        if init_inputs is not None:
            function = partial(launch_with_inputs, function, lambda: init_inputs)
        positional, keywords, problem = self._arguments
        parameters = of_message(message["parameters"], self._no_tensor)
        arguments = accepted_arguments(
            function, {**problem, **keywords}, positional=len(positional)
        )
        call = partial(function, *positional, **{**arguments, **parameters})
        return call() if message["setup"] else call

    def _function(self, name: str) -> Callable[..., Any]:
        """A function of the file, by its own name or the name of a variant."""
        function = getattr(self._module, name, None)
        if not callable(function) and self._module is not None:
            experiment = experiment_of(self._module)
            variant = experiment.variants.get(name) if experiment is not None else None
            function = None if variant is None else variant.function
        if function is None or not callable(function):
            raise Refused(f"there is no function {name}")
        return function  # type: ignore[no-any-return]  # the signature is the user's promise

    def _no_tensor(self, number: int) -> torch.Tensor:
        raise Refused(f"tensor {number} is no parameter")

    def _error_text(self, error: BaseException) -> str:
        text = telling_line(str(error)) or "without a message"
        if isinstance(error, Refused):
            return text
        hint = name_clash(error, self._file)
        missing_module = getattr(error, "name", None) if isinstance(error, ImportError) else None
        if missing_module and self._file.with_name(f"{missing_module}.py").exists():
            hint = "a candidate reads nothing beside the task: give it a folder of its own"
        return f"{type(error).__name__}: {text}" + (f" ({hint})" if hint else "")


def _require_alike(results: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> None:
    """Raise Refused where results have other shapes or types than the incumbent's results."""
    for side in ("shape", "dtype"):
        result_texts, expected_texts = (
            [_text_of(getattr(t, side)) for t in tensors] for tensors in (results, expected)
        )
        if result_texts != expected_texts:
            raise Refused(
                f"returns the {side} {', '.join(result_texts) or 'of nothing'}, "
                f"not {', '.join(expected_texts)}"
            )


def _text_of(value: object) -> str:
    return str(tuple(value) if isinstance(value, torch.Size) else value).removeprefix("torch.")


def main(descriptor: int) -> None:
    """Serve the judge behind this descriptor; only the judge can end this process."""
    ctypes.CDLL(None).prctl(_PARENT_ENDS, int(signal.SIGKILL), 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the judge's to answer
    faulthandler.enable(all_threads=False)
    os.set_inheritable(descriptor, False)
    with socket.socket(fileno=descriptor) as channel, torch.no_grad():
        Guest(channel).serve()


if __name__ == "__main__":
    own_descriptor = int(sys.argv[1])
    sys.argv[1:] = []  # a file that parses its command line finds an empty one
    main(own_descriptor)
    os._exit(0)  # also threads that the file left
