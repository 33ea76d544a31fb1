"""The phases of a training step as CUDA graphs: one each, in one memory pool."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch

from fusion.launches import Memory
from mlp.training import Training

_STEPS_BEFORE = 3
"""Steps before the capture: libraries take their workspaces then, and Adam makes its moments."""

Phase = Callable[[], None]


class Graphs:
    """The phases of a training, recorded once and replayed.

    A graph for each phase, and not one for all, so that a timeline still shows where a phase ends.
    They share a pool: what the way forward leaves for the way back stays where it was recorded.
    """

    def __init__(self, training: Training) -> None:
        device = training.inputs.device
        self._pool = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch's own
        self._stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(self._stream), warnings.catch_warnings():
            # Adam remarks on every step outside of a graph, which these are.
            warnings.filterwarnings("ignore", message=".*capturable=True")
            for _ in range(_STEPS_BEFORE):
                training.clear_gradients()
                training.forward()
                training.backward()
                training.update()
        torch.cuda.current_stream(device).wait_stream(self._stream)
        training.clear_gradients()  # so that the recorded pass writes them, not adds to them
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_stats(device)
        self._forward = self._record(training.forward)
        self._backward = self._record(training.backward)
        self._update = self._record(training.update) if training.has_optimizer else None
        after = torch.cuda.memory_stats(device)
        requested = "requested_bytes.all"
        self.memory = Memory(
            buffer_bytes=after[f"{requested}.allocated"] - before[f"{requested}.allocated"],
            peak_bytes=after[f"{requested}.peak"] - before[f"{requested}.current"],
        )
        """Memory of the recording, which a replay reuses without allocating."""

    def clear_gradients(self) -> None:
        """Do nothing: the backward pass overwrites its gradients."""

    def forward(self) -> None:
        """Replay the forward pass."""
        self._forward.replay()

    def backward(self) -> None:
        """Replay the backward pass."""
        self._backward.replay()

    def update(self) -> None:
        """Replay the optimiser's update, if any."""
        if self._update is not None:
            self._update.replay()

    def _record(self, phase: Phase) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            phase()
        return graph
