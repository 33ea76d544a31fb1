"""The experiment file of a capture: an experiment for each operator that takes much of a step."""

from __future__ import annotations

import json
import keyword
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

EXPERIMENT_FILE = "experiment.py"
MOST_SIGNATURES = 20
"""Signatures that take most of the time: they become problems."""
_MOST_SHAPES = 3
"""Tensors of a signature that its problem is named by."""
_SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}
_OF_TORCH = "aten"

Document = Mapping[str, Any]


def experiment_text(document: Document) -> str:
    """Python source of the experiments of a capture (a `calls.json`)."""
    ranked = ranked_calls(document)
    chosen: dict[str, list[Document]] = defaultdict(list)
    for call in ranked[:MOST_SIGNATURES]:
        chosen[call["operator"]].append(call)
    parts = [_head(document, ranked, chosen)]
    parts += [_experiment(document, name, calls) for name, calls in chosen.items()]
    return "\n\n".join(parts)


def ranked_calls(document: Document) -> list[Document]:
    """Calls that can be compared, those that take most of a step first."""
    calls = [call for call in document["calls"] if not call["random"]]
    return sorted(calls, key=lambda call: (-call["time_ns"], call["id"]))


def _head(document: Document, ranked: Sequence[Document], chosen: Iterable[str]) -> str:
    total = sum(call["time_ns"] for call in document["calls"]) or 1
    share = 100 * sum(call["time_ns"] for call in ranked[:MOST_SIGNATURES]) / total
    random = sum(call["count"] for call in document["calls"] if call["random"])
    words = [
        f"These {min(MOST_SIGNATURES, len(ranked))} of {len(document['calls'])} signatures take "
        f"{share:.0f} % of the time of all operators of a step."
    ]
    if random:
        words.append(
            f"{random} calls of random operators were captured and are not compared: they need a "
            "check of their own."
        )
    words += [
        f"Left out ({reason}): {_counts(counts)}."
        for reason, counts in document["left_out"].items()
    ]
    libraries = {name.partition(".")[0] for name in chosen} - {_OF_TORCH}
    imports = [
        f"# import ...  # the module that registers the operators of {name}"
        for name in sorted(libraries)
    ]
    text = "\n".join(f"- {word}" for word in words)
    lines = "\n".join(["import torch", "", "import profiler", *imports])
    return (
        f'"""Operators of a captured program, each on the signatures that it was called with.\n\n'
        f'{text}\n"""\n\n{lines}\n\ncalls = profiler.CapturedCalls(__file__)\n'
    )


def _counts(counts: Mapping[str, int]) -> str:
    shown = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    named = ", ".join(f"{count} {name}" for name, count in shown[:_MOST_SHAPES])
    return named + (", …" if len(shown) > _MOST_SHAPES else "")


def _experiment(document: Document, operator: str, calls: Sequence[Document]) -> str:
    name = _name(operator)
    arguments = list(calls[0]["arguments"])
    wrote = calls[0]["written"]
    problems = "\n".join(
        f"        {json.dumps(_problem(call, document['steps']))}," for call in calls
    )
    step = document["uncaptured_step_ns"]
    page: dict[str, Any] = {"weights": "per_step"}
    if step is not None:
        page["step_ms"] = round(step / 1e6, 4)
    function, taken = name.replace("-", "_"), ", ".join(map(_identifier, arguments))
    in_place = "in_place=True" if wrote else ""
    call = ", ".join(
        f"{argument}={_identifier(argument)}"
        if argument in calls[0]["by_name"]
        else _identifier(argument)
        for argument in arguments
    )
    returned = ", ".join(map(_identifier, wrote))
    body = f"torch.ops.{operator}({call})"
    if wrote and calls[0]["has_results"]:
        body = f"    return {body}, {returned}"
    else:
        body = f"    {body}\n    return {returned}" if wrote else f"    return {body}"
    options = ", ".join(filter(None, ['name="eager"', "baseline=True", in_place]))
    compiled = ", ".join(filter(None, ['name="compiled"', "setup=True", in_place]))
    stub = f"({in_place})" if in_place else ""
    return f"""\
{function} = profiler.Experiment(
    "{name}",
    problems=[
{problems}
    ],
    page={json.dumps(page)},
)


@{function}.inputs
def {function}_inputs(call, device, seed):
    \"\"\"Like those that were captured.\"\"\"
    return calls.inputs(call, device, seed)


@{function}.variant({options})
def {function}_eager({taken}):
    \"\"\"What PyTorch runs.\"\"\"
{body}


@{function}.variant({compiled})
def {function}_compiled({taken}):
    \"\"\"Compiled for each signature alone.\"\"\"
    return calls.compiled({function}_eager, {taken})


# @{function}.variant{stub}
# def mine({taken}):
#     \"\"\"Your own kernel: fill in, and take away the marks of a comment.\"\"\"
#     return ...


{function}.check(calls.check)
"""


def _name(operator: str) -> str:
    """`addmm` of `aten.addmm.default`: what a person calls it, and other operators do not."""
    namespace, packet, overload = operator.split(".")
    parts = [] if namespace == _OF_TORCH else [namespace]
    parts += [packet] if overload == "default" else [packet, overload]
    text = re.sub(r"[^A-Za-z0-9_-]", "-", "-".join(parts))
    return text if text[0].isalpha() else f"op{text}"


def _identifier(argument: str) -> str:
    return f"{argument}_" if keyword.iskeyword(argument) else argument


def _problem(call: Document, steps: int) -> dict[str, Any]:
    per_step = call["count"] / steps
    return {
        "call": call["id"],
        "shapes": shapes_of(call),
        "per_step": int(per_step) if per_step == int(per_step) else round(per_step, 4),
    }


def shapes_of(call: Document) -> str:
    """Types and shapes of the first tensors of a call: `f32[64x512] f32[512]`."""
    tensors = list(_tensors(list(call["arguments"].values())))
    named = [f"{_short(t['dtype'])}[{'x'.join(map(str, t['shape']))}]" for t in tensors]
    more = len(named) - _MOST_SHAPES
    shown = " ".join(named[:_MOST_SHAPES])
    return f"{shown} and {more} more" if more > 0 else shown or "no tensor"


def _tensors(value: Any) -> Iterable[Document]:
    if isinstance(value, list):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, Mapping) and "tensor" in value:
        yield value["tensor"]


def _short(dtype: str) -> str:
    letters = re.match(r"[a-z]+", dtype)
    name = letters[0] if letters else dtype
    return dtype.replace(name, _SHORT.get(name, name), 1)
