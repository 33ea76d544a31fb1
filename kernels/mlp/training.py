"""A training step in three phases, in torch's own code or with a compiled loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from mlp.network import ADAM_EPSILON, LEARNING_RATE, Inputs, Tensors

Loss = Callable[[], torch.Tensor]
"""Makes the loss of the batch, with the graph that leads back from it."""


class Training:
    """State of one variant: parameters, gradients, optimiser and last loss."""

    def __init__(self, inputs: Inputs, *, adam: bool, capturable: bool = False) -> None:
        self.inputs = inputs
        self.parameters = tuple(tensor.clone().requires_grad_() for tensor in inputs.parameters)
        self._optimizer = _adam(self.parameters, capturable=capturable) if adam else None
        self._loss: Loss | None = None
        self._value: torch.Tensor | None = None

    @property
    def arguments(self) -> Tensors:
        """Arguments of the loss."""
        return (self.inputs.batch, self.inputs.target, *self.parameters)

    def set_loss(self, loss: Loss) -> None:
        """Set the function that computes the loss."""
        self._loss = loss

    def clear_gradients(self) -> None:
        """Back the gradients of the step before; nothing is launched."""
        for parameter in self.parameters:
            parameter.grad = None

    def forward(self) -> None:
        """Compute the loss."""
        if self._loss is None:
            raise RuntimeError("set_loss has to be called before the first step")
        with torch.enable_grad():
            self._value = self._loss()

    def backward(self) -> None:
        """Compute the gradients, which must have been cleared."""
        if self._value is None:
            raise RuntimeError("there is no way back without a way forward")
        self._value.backward()  # type: ignore[no-untyped-call]  # torch's own

    def first_gradients(self) -> Tensors:
        """Gradients of a first backward pass, which compiles its kernels."""
        self.backward()
        return self.results

    def update(self) -> None:
        """Update the parameters by Adam, if the variant has it."""
        if self._optimizer is not None:
            self._optimizer.step()

    @property
    def has_optimizer(self) -> bool:
        """Whether a step has an update."""
        return self._optimizer is not None

    @property
    def results(self) -> Tensors:
        """Loss and gradients of the last step, and with Adam its updated parameters."""
        if self._value is None:
            raise RuntimeError("no step was made yet")
        parameters = self.parameters
        gradients = tuple(p.grad for p in parameters if p.grad is not None)
        updated = tuple(p.detach() for p in parameters) if self.has_optimizer else ()
        return (self._value.detach(), *gradients, *updated)

    def restore(self) -> None:
        """Reset parameters and optimiser in place, because graphs hold their addresses."""
        for parameter, start in zip(self.parameters, self.inputs.parameters, strict=True):
            parameter.detach().copy_(start)
        state = self._optimizer.state if self._optimizer is not None else {}
        for values in state.values():
            for value in values.values():
                value.zero_()


def _adam(parameters: Sequence[torch.Tensor], *, capturable: bool) -> torch.optim.Adam:
    """Adam of torch; `capturable` keeps its count of steps on the device."""
    return torch.optim.Adam(
        parameters, lr=LEARNING_RATE, eps=ADAM_EPSILON, capturable=capturable, foreach=True
    )
