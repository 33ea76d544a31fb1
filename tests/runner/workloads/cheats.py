"""A product with a vector, done right and in ways that only look right or quick.

On a GPU the same file shows the ways that need one.
"""

import threading
import time

import torch

TOLERANCES = {"float32": (2e-3, 1e-4)}

SEEN_BY_THE_CHECK = 2
"""Launches that the first check makes at most."""

references = []


def make_inputs(problem, device, seed):
    generator = torch.Generator(device).manual_seed(seed)
    shape = problem["rows"], problem["columns"]
    matrix = torch.randn(shape, device=device, generator=generator)
    vector = torch.randn(problem["columns"], device=device, generator=generator)
    return {"matrix": matrix, "vector": vector}


def reference(problem, inputs):
    references.append((inputs["matrix"].double() @ inputs["vector"].double()).float())
    return references[-1]


def flops(problem):
    return 2.0 * problem["rows"] * problem["columns"]


def bytes(problem):  # noqa: A001 - the contract's name
    return 4.0 * (problem["rows"] * problem["columns"] + problem["columns"] + problem["rows"])


def prepare(variant, problem, inputs, library):
    return WAYS[variant["how"]](inputs["matrix"], inputs["vector"])


class _IntoOutput:
    """A launch that says where it writes."""

    def __init__(self, matrix, vector):
        self.matrix, self.vector = matrix, vector
        self.outputs = (torch.zeros(len(matrix), device=matrix.device),)
        self.launches = 0

    def __call__(self):
        self.launches += 1
        self.work(self.outputs[0])
        return self.outputs[0]

    def work(self, output):
        torch.mv(self.matrix, self.vector, out=output)


class SkipsSeenInputs(_IntoOutput):
    """Tells inputs by their address and by how often torch says that they were written."""

    seen = None

    def work(self, output):
        key = (self.matrix.data_ptr(), self.matrix._version)
        if self.seen != key or bool(torch.isnan(output).any()):
            super().work(output)
        self.seen = key


class CopiesReference(_IntoOutput):
    def work(self, output):
        output.copy_(references[-1])


class HalfTheRows(_IntoOutput):
    """Only once the check is over."""

    def work(self, output):
        rows = len(output) // (1 if self.launches <= SEEN_BY_THE_CHECK else 2)
        output[:rows] = self.matrix[:rows] @ self.vector


class ReadsPoison(_IntoOutput):
    def work(self, output):
        if bool(torch.isnan(output).any()):
            super().work(output)


class OnAnotherThread(_IntoOutput):
    def work(self, output):
        threading.Thread(target=self.later, args=(output,)).start()

    def later(self, output):
        time.sleep(0.2)
        super().work(output)


class OnAnotherStream:
    """Work that nobody waits for: events on the runner's stream see none of it."""

    def __init__(self, matrix, vector):
        self.matrix, self.vector = matrix, vector
        self.stream = torch.cuda.Stream()

    def __call__(self):
        with torch.cuda.stream(self.stream):
            return self.matrix @ self.vector


def _honest(matrix, vector):
    return lambda: matrix @ vector


def _cached(matrix, vector):
    results = {}

    def launch():
        key = matrix.data_ptr()
        if key not in results:
            results[key] = matrix @ vector
        return results[key].clone()

    return launch


def _lower_precision(matrix, vector):
    def launch():
        return (matrix.bfloat16() @ vector.bfloat16()).float()

    return launch


def _constant(matrix, vector):
    answer = matrix @ vector
    return answer.clone


def _written_before(matrix, vector):
    answer = matrix @ vector
    return lambda: answer


def _replaces_timer(matrix, vector):
    clock = time.perf_counter_ns
    time.perf_counter_ns = lambda: clock() // 1000
    elapsed = torch.cuda.Event.elapsed_time
    torch.cuda.Event.elapsed_time = lambda begin, end: elapsed(begin, end) / 1000
    return lambda: matrix @ vector


def _keyed_by_content(matrix, vector):
    """Its key costs as much as its work: on a CPU nothing tells it from a right launch."""
    results = {}

    def launch():
        key = (float(matrix.sum()), float(vector.sum()))
        if key not in results:
            results[key] = matrix @ vector
        return results[key].clone()

    return launch


WAYS = {
    "honest": _honest,
    "honest, into its output": _IntoOutput,
    "cached output": _cached,
    "skipped work on seen inputs": SkipsSeenInputs,
    "copy of the reference": CopiesReference,
    "half the rows": HalfTheRows,
    "lower precision": _lower_precision,
    "work on another thread": OnAnotherThread,
    "work on another stream": OnAnotherStream,
    "replaced timer": _replaces_timer,
    "constant output": _constant,
    "output written before": _written_before,
    "reads the poison": ReadsPoison,
    "keyed by content": _keyed_by_content,
}
