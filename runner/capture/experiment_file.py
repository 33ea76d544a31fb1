"""The experiment file of a capture: an experiment for each operator that takes much of a step."""

from __future__ import annotations

import json
import keyword
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from profiler.runner.capture.distributions import is_skewed

EXPERIMENT_FILE = "experiment.py"
MOST_SIGNATURES = 20
"""Signatures that take most of the time: they become problems."""
MOST_OF_A_FAMILY = 4
"""Most signatures that differ in one size alone."""
_MOST_SHAPES = 3
"""Tensors of a signature that its problem is named by."""
_SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}
_OF_TORCH = "aten"
REGISTERED_BY = {"prims": "torch._inductor.inductor_prims", "fsdp": "torch.distributed.fsdp"}
"""Modules of torch that register operators of a library which torch alone does not load."""
_STATE = ("workspace", "reserve")

Document = Mapping[str, Any]


def experiment_text(document: Document) -> str:
    """Python source of the experiments of a capture (a `calls.json`)."""
    families = families_of(ranked_calls(document))
    calls_by_experiment = _calls_by_experiment(document, families)
    parts = [
        _head(
            document, [call for calls in calls_by_experiment.values() for call in calls], families
        )
    ]
    parts += [_experiment(document, name, calls) for name, calls in calls_by_experiment.items()]
    return "\n\n".join(parts)


def shares_of_time(document: Document) -> dict[str, tuple[float, bool]]:
    """Share of a step's time by operator, and whether it is an experiment; the largest first."""
    ns = Counter[str]()
    for row in (*document["calls"], *document["launches"]):
        ns[row_name(row)] += row["time_ns"]
    calls_by_experiment = _calls_by_experiment(document, families_of(ranked_calls(document)))
    total = ns.total() or 1
    return {
        name: (operator_ns / total, name in calls_by_experiment)
        for name, operator_ns in ns.most_common()
    }


def gaps_sentence(document: Document) -> str:
    """Sentence on the share of kernels in a step, the kind of most launches, and the GPU's waits.

    Empty where that was not measured.
    """
    step_ns = document["uncaptured_step_ns"]
    if document["device"] != "cuda" or step_ns is None:
        return ""
    rows = (*document["calls"], *document["launches"])
    busy_ns = sum(row["time_ns"] for row in rows) / document["steps"]
    kernels = Counter[str]()
    for row in rows:
        kernels[row_name(row)] += row.get("kernels", 0)
    per_step = 1 / document["steps"]
    most = ", ".join(
        f"{count * per_step:.0f} by {name}" for name, count in kernels.most_common(_MOST_SHAPES)
    )
    return (
        f"A step took {step_ns / 1e6:.2f} ms before it was captured, its "
        f"{kernels.total() * per_step:.0f} kernels, copies and fills {busy_ns / 1e6:.2f} ms. "
        f"What is between them is shorter with fewer of them, not with faster ones (most: {most})."
        f"{_waits_sentence(document.get('waits'))}"
    )


def _waits_sentence(waits: Document | None) -> str:
    if waits is None:
        return ""
    before = waits["before_ns"]
    most = ", ".join(
        f"{ns / 1e6:.2f} ms before {name}" for name, ns in list(before.items())[:_MOST_SHAPES]
    )
    return (
        f" In a step that was not captured the GPU waited {sum(before.values()) / 1e6:.2f} ms of "
        f"{waits['span_ns'] / 1e6:.2f} ms between them (most: {most})."
    )


def row_name(row: Document) -> str:
    """Name of a call, or of a launch around the dispatcher, in a step."""
    return f"{row['kind']} {row['name']}" if "name" in row else _experiment_name(row)


def _calls_by_experiment(
    document: Document, families: Sequence[Family]
) -> dict[str, list[Document]]:
    """Calls that become problems, by the name of their experiment."""
    surplus_ids = {call["id"] for calls, _ in families for call in calls[MOST_OF_A_FAMILY:]}
    kept_calls = [call for call in ranked_calls(document) if call["id"] not in surplus_ids][
        :MOST_SIGNATURES
    ]
    calls_by_experiment: dict[str, list[Document]] = defaultdict(list)
    for call in kept_calls:
        calls_by_experiment[_experiment_name(call)].append(call)
    return calls_by_experiment


def ranked_calls(document: Document) -> list[Document]:
    """Calls that can be compared, by their share of a step, largest first."""
    calls = [
        call
        for call in document["calls"]
        if not (call["random"] or call.get("for_host") or _state_argument(call))
    ]
    return sorted(calls, key=lambda call: (-call["time_ns"], call["id"]))


def _state_argument(call: Document) -> str:
    """Argument that another call left in a library's own form, as of recurrent layers; else empty.

    It cannot be drawn, and is written although schemas do not say so.
    """
    names = (name for name in _STATE if isinstance(call["arguments"].get(name), Mapping))
    return next(names, "")


Family = tuple[Sequence[Document], Sequence[int]]
"""Signatures of one operator that differ in one size alone, as of sequences, and these sizes.

The longest total time comes first.
"""


def _family_sentence(calls: Sequence[Document], sizes: Sequence[int]) -> str:
    """Sentence on the size of a family, and on which of its signatures are in the experiment."""
    total = sum(call["time_ns"] for call in calls) or 1
    share = 100 * sum(call["time_ns"] for call in calls[:MOST_OF_A_FAMILY]) / total
    return (
        f"{len(calls)} signatures of {calls[0]['operator']} differ in one size alone "
        f"({min(sizes)} to {max(sizes)}): the {MOST_OF_A_FAMILY} that take most time "
        f"are here, {share:.0f} % of it."
    )


def families_of(ranked: Sequence[Document]) -> list[Family]:
    """Families of more than MOST_OF_A_FAMILY signatures; a signature is in one at most."""
    alike: dict[str, list[tuple[Document, list[int]]]] = defaultdict(list)
    for call in ranked:
        sizes: list[int] = []
        pattern = json.dumps([call["operator"], _without_sizes(call["arguments"], sizes)])
        alike[pattern].append((call, sizes))
    return [family for group in alike.values() for family in _families_among(group)]


def _families_among(signatures: Sequence[tuple[Document, list[int]]]) -> Iterable[Family]:
    """Families among calls that differ in sizes alone."""
    unassigned = list(signatures)
    while len(unassigned) > MOST_OF_A_FAMILY:
        first = unassigned.pop(0)
        members: dict[tuple[int, ...], list[tuple[Document, list[int]]]] = defaultdict(list)
        for signature in unassigned:
            if places := _changed_places(first[1], signature[1]):
                members[places].append(signature)
        if not members:
            continue
        places, most = max(members.items(), key=lambda item: len(item[1]))
        if len(most) >= MOST_OF_A_FAMILY:
            member_ids = {call["id"] for call, _ in most}
            unassigned = [
                signature for signature in unassigned if signature[0]["id"] not in member_ids
            ]
            calls, sizes = zip(first, *most, strict=True)
            yield calls, [of_call[places[0]] for of_call in sizes]


def _without_sizes(value: Any, sizes: list[int]) -> Any:
    """Arguments without whole numbers and sizes of tensors, which are appended to `sizes`."""
    if isinstance(value, int) and not isinstance(value, bool):
        sizes.append(value)
        return 0
    if isinstance(value, list):
        return [_without_sizes(item, sizes) for item in value]
    if isinstance(value, Mapping) and "dtype" in value and "shape" in value:
        sizes += value["shape"]
        return [value["dtype"], len(value["shape"])]
    if isinstance(value, Mapping):
        return {name: _without_sizes(item, sizes) for name, item in value.items()}
    return value


def _changed_places(sizes: Sequence[int], other_sizes: Sequence[int]) -> tuple[int, ...]:
    """Places where sizes differ, if all do by the same factor: they are of one dimension."""
    places = tuple(
        n for n, pair in enumerate(zip(sizes, other_sizes, strict=True)) if len({*pair}) > 1
    )
    first = places[:1]
    has_one_factor = all(
        sizes[n] * other_sizes[m] == other_sizes[n] * sizes[m] for n in places for m in first
    )
    return places if has_one_factor else ()


def _head(
    document: Document, compared_calls: Sequence[Document], families: Iterable[Family]
) -> str:
    launches = document.get("launches", ())
    total = sum(call["time_ns"] for call in (*document["calls"], *launches)) or 1
    share = 100 * sum(call["time_ns"] for call in compared_calls) / total
    random = sum(call["count"] for call in document["calls"] if call["random"])
    sentences = [
        f"These {len(compared_calls)} of {len(document['calls'])} signatures take "
        f"{share:.0f} % of the time of all operators of a step.",
        *(_family_sentence(*family) for family in families),
        *filter(None, [gaps_sentence(document)]),
    ]
    if not document["complete"]:
        sentences.insert(0, "The program has not ended, or was killed: later calls are missing.")
    if random:
        sentences.append(
            f"{random} calls of random operators were captured and are not compared: they need a "
            "check of their own."
        )
    of_state = Counter[str]()
    for call in filter(_state_argument, document["calls"]):
        of_state[f"{call['operator']} ({_state_argument(call)})"] += call["count"]
    if of_state:
        sentences.append(
            f"In no experiment, as they take what another call left in a form of its library: "
            f"{_counts_text(of_state)}."
        )
    sentences += [
        f"{launch['kind']} {launch['name']}: {launch['count']} launches, "
        f"{100 * launch['time_ns'] / total:.0f} % of the time, in no experiment "
        f"({launch['left_out']})."
        for launch in launches
    ]
    sentences += [
        f"Left out ({reason}): {_counts_text(counts)}."
        for reason, counts in document["left_out"].items()
    ]
    operators = {call["operator"] for call in compared_calls if "kind" not in call}
    libraries = {operator.partition(".")[0] for operator in operators} - {_OF_TORCH}
    of_torch = [
        f"import {REGISTERED_BY[name]}" for name in sorted(libraries & REGISTERED_BY.keys())
    ]
    imports = [
        f"# import ...  # the module that registers the operators of {name}"
        for name in sorted(libraries - REGISTERED_BY.keys())
    ]
    text = "\n".join(f"- {sentence}" for sentence in sentences)
    lines = "\n".join(["import torch", *of_torch, "", "import profiler", *imports])
    return (
        f'"""Operators of a captured program, each on the signatures that it was called with.\n\n'
        f'{text}\n"""\n\n{lines}\n\ncalls = profiler.CapturedCalls(__file__)\n'
    )


def _counts_text(counts: Mapping[str, int]) -> str:
    ranked_counts = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    text = ", ".join(f"{count} {name}" for name, count in ranked_counts[:_MOST_SHAPES])
    return text + (", …" if len(ranked_counts) > _MOST_SHAPES else "")


def _experiment(document: Document, name: str, calls: Sequence[Document]) -> str:
    rows = [_problem(call, document["steps"]) for call in calls]
    uniform = [
        row
        for row, call in zip(rows, calls, strict=True)
        if any(map(is_skewed, tensors_of([*call["arguments"].values()])))
    ]
    if uniform:
        rows = [{**row, "indices": "captured"} for row in rows]
        rows += [{**row, "per_step": 0, "indices": "uniform"} for row in uniform]
    problems = "\n".join(f"        {json.dumps(row)}," for row in rows)
    indices = ", indices" if uniform else ""
    step = document["uncaptured_step_ns"]
    page: dict[str, Any] = {"weights": "per_step"}
    if step is not None:
        page["step_ms"] = round(step / 1e6, 4)
    if note := gaps_sentence(document):
        page["step_note"] = note
    function = name.replace("-", "_")
    forms = {"graph": _graph_variants, "launch": _kernel_variants}
    form = next((make for key, make in forms.items() if key in calls[0]), _operator_variants)
    variants, parameters, in_place, check = form(function, calls[0])
    stub = "(in_place=True)" if in_place else ""
    return f"""\
{function} = profiler.Experiment(
    "{name}",
    problems=[
{problems}
    ],
    page={json.dumps(page)},
)


@{function}.inputs
def {function}_inputs(call, device, seed{indices}):
    \"\"\"Like those that were captured.\"\"\"
    return calls.inputs(call, device, seed{indices})

{"".join(variants)}
# @{function}.variant{stub}
# def mine({parameters}):
#     \"\"\"Your own kernel: fill in, and take away the marks of a comment.\"\"\"
#     return ...


{function}.check({check})
"""


Form = tuple[list[str], str, bool, str]
"""Source of variants, their arguments, whether they write their inputs, and what checks them."""


def _variant(name: str, options: str, function: str, parameters: str, *body: str) -> str:
    text = "\n    ".join(body)
    decorator = f"@{function}.variant(name={json.dumps(name)}{options})"
    return f"\n{decorator}\ndef {function}_{name}({parameters}):\n    {text}\n\n"


def _operator_variants(function: str, call: Document) -> Form:
    parameters = ", ".join(map(_identifier, call["arguments"]))
    wrote = call["written"]
    arguments = ", ".join(
        f"{argument}={_identifier(argument)}"
        if argument in call["by_name"]
        else _identifier(argument)
        for argument in call["arguments"]
    )
    returned = ", ".join(map(_identifier, wrote))
    call_text = f"torch.ops.{call['operator']}({arguments})"
    if wrote and call["has_results"]:
        body = [f"return {call_text}, {returned}"]
    else:
        body = [call_text, f"return {returned}"] if wrote else [f"return {call_text}"]
    in_place = ", in_place=True" if wrote else ""
    eager, docstring = f"{function}_eager", '"""What PyTorch runs."""'
    call_text = f"return calls.compiled({eager}, {parameters})"
    variants = [
        _variant("eager", f", baseline=True{in_place}", function, parameters, docstring, *body),
        _variant(
            "compiled",
            f", setup=True{in_place}",
            function,
            parameters,
            '"""Compiled for each signature alone."""',
            call_text,
        ),
    ]
    return variants, parameters, bool(wrote), "calls.check"


def _graph_variants(function: str, call: Document) -> Form:
    wrote = bool(call["graph"]["written"])
    in_place = ", in_place=True" if wrote else ""
    count = len(call["graph"]["nodes"])
    compiled = "return calls.compiled(calls.graph(call), inputs)"
    docstring = f'"""As the program runs it: {count} calls compiled into one."""'
    options = f", baseline=True, setup=True{in_place}"
    one_by_one = ('"""Operator by operator."""', "return calls.graph(call)(inputs)")
    variants = [
        _variant("compiled", options, function, "call, inputs", docstring, compiled),
        _variant("eager", in_place, function, "call, inputs", *one_by_one),
    ]
    return variants, "call, inputs", wrote, "calls.check"


def _kernel_variants(function: str, call: Document) -> Form:
    parameters = ", ".join(["call", *call["arguments"]])
    module, name = call["launch"]["module"], call["launch"]["function"]
    arguments = ", ".join(f'"{argument}": {argument}' for argument in call["arguments"])
    body = (
        '"""What the program launches."""',
        f"from {module} import {name.partition('.')[0]}",
        f"return calls.relaunch({name}, call, {{{arguments}}})",
    )
    options = ", baseline=True, in_place=True"
    variant = _variant("triton", options, function, parameters, *body)
    return [variant], parameters, True, f"calls.same_as({function}_triton)"


def _experiment_name(call: Document) -> str:
    """`addmm`, `triton-layers-add_kernel`, `compiled-graph_0-forward`."""
    if "kind" not in call:
        return _operator_name(call["operator"])
    parts = call["operator"].split(".")
    parts = ["triton", *parts[-2:]] if "launch" in call else parts
    return re.sub(r"[^A-Za-z0-9_-]", "-", "-".join(parts))


def _operator_name(operator: str) -> str:
    """`addmm` of `aten.addmm.default`: the usual name, where no other operator has it."""
    namespace, packet, overload = operator.split(".")
    parts = [] if namespace == _OF_TORCH else [namespace]
    parts += [packet] if overload == "default" else [packet, overload]
    text = re.sub(r"[^A-Za-z0-9_-]", "-", "-".join(parts))
    text = text.removeprefix("_") if text.startswith("_foreach") else text
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
    call_shapes: list[str] = []
    for value in call["arguments"].values():
        tensors = list(tensors_of(value))
        shapes = [f"{_short_dtype(t['dtype'])}[{'x'.join(map(str, t['shape']))}]" for t in tensors]
        if len(tensors) > _MOST_SHAPES:
            elements = sum(math.prod(tensor["shape"]) for tensor in tensors)
            shapes = [f"{len(tensors)}x{_short_dtype(tensors[0]['dtype'])}[{elements} in all]"]
        call_shapes += shapes
    further_count = len(call_shapes) - _MOST_SHAPES
    text = " ".join(call_shapes[:_MOST_SHAPES])
    return f"{text} and {further_count} more" if further_count > 0 else text or "no tensor"


def tensors_of(value: Any) -> Iterable[Document]:
    """Documents of the tensors of an argument, in order."""
    if isinstance(value, list):
        for item in value:
            yield from tensors_of(item)
    elif isinstance(value, Mapping) and "tensor" in value:
        yield value["tensor"]


def _short_dtype(dtype: str) -> str:
    letters = re.match(r"[a-z]+", dtype)
    name = letters[0] if letters else dtype
    return dtype.replace(name, _SHORT.get(name, name), 1)
