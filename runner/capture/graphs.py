"""Compiled graphs as data: the operators that they call, in order, and functions made of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch

from profiler.runner.capture.signatures import NotReplayableError, plain_json

_ARITHMETIC = {
    function.__name__: function
    for function in (
        *(operator.getitem, operator.add, operator.sub),
        *(operator.mul, operator.floordiv, operator.neg),
    )
}
_OF_TORCH = ("aten", "prims")
_RANDOM = "prims.inductor_"
"""Operators of the compiler in place of operators that draw random numbers."""

GraphDocument = dict[str, Any]


def graph_document(graph: torch.fx.Graph) -> GraphDocument:
    """JSON of a graph: names of its inputs, calls in order, outputs, indices of written inputs.

    Inputs that are handed on to the backward pass, and views of them, are no outputs.
    Raises NotReplayableError for a node that is no call of an operator.
    """
    document: GraphDocument = {"inputs": [], "nodes": [], "outputs": [], "written": []}
    for node in graph.nodes:
        if node.op == "placeholder":
            document["inputs"].append(node.name)
        elif node.op == "output":
            results = [value for value in node.args[0] if not _is_input(value)]
            document["outputs"] = _as_json(results)
        else:
            call = {
                "name": node.name,
                "operator": _operator_name(node),
                "arguments": _as_json(node.args),
                "named": {name: _as_json(value) for name, value in node.kwargs.items()},
            }
            document["nodes"].append(call)
            document["written"] += _written_inputs(node, document["inputs"])
    document["written"] = sorted(set(document["written"]))
    return document


def _is_input(value: Any) -> bool:
    while isinstance(value, torch.fx.Node) and getattr(value.target, "is_view", False):
        value = value.args[0]
    return isinstance(value, torch.fx.Node) and value.op == "placeholder"


def draws_random_numbers(graph: torch.fx.Graph) -> bool:
    """Whether a call of a graph draws random numbers."""
    return any(
        torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        or str(node.target).startswith(_RANDOM)
        for node in graph.nodes
    )


def _operator_name(node: torch.fx.Node) -> str:
    if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
        if node.target.namespace in _OF_TORCH:
            return str(node.target)
    elif node.op == "call_function" and node.target in _ARITHMETIC.values():
        return str(getattr(node.target, "__name__", ""))
    raise NotReplayableError(f"compiled graphs with {node.target}")


def _written_inputs(node: torch.fx.Node, inputs: list[str]) -> list[int]:
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable:
        return []
    pairs = zip(schema.arguments, node.args, strict=False)
    written_values = [value for argument, value in pairs if argument.is_write]
    return [
        inputs.index(value.name) for value in written_values if getattr(value, "name", "") in inputs
    ]


def _as_json(value: Any) -> Any:
    if isinstance(value, torch.fx.Node):
        return {"node": value.name}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    return plain_json(value)


def graph_function(
    document: Mapping[str, Any],
    operator_named: Callable[[str], Any],
    plain: Callable[[Any], Any],
) -> torch.fx.GraphModule:
    """Function of the inputs of a graph; `plain` makes the arguments that are no results."""
    graph = torch.fx.Graph()
    nodes = {name: graph.placeholder(name) for name in document["inputs"]}

    def value(captured: Any) -> Any:
        if isinstance(captured, list):
            return [value(item) for item in captured]
        if isinstance(captured, Mapping) and "node" in captured:
            return nodes[captured["node"]]
        return plain(captured)

    for call in document["nodes"]:
        target = _ARITHMETIC.get(call["operator"]) or operator_named(call["operator"])
        keywords = {name: value(item) for name, item in call["named"].items()}
        nodes[call["name"]] = graph.call_function(target, tuple(value(call["arguments"])), keywords)
    graph.output(value(document["outputs"]))
    return torch.fx.GraphModule(torch.nn.Module(), graph)
