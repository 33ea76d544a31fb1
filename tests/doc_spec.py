"""The tables of docs/spec.md, from the models, and the JSON Schema beside it."""

import json
import re

from profiler.planning.page_kinds import Question
from profiler.planning.spec import json_schema
from profiler.planning.spec.collect import Collect, OwnFormula, Timeline
from profiler.planning.spec.cuda_file import (
    CudaWorkload,
    KernelLaunch,
    StructArgument,
    TensorArgument,
)
from profiler.planning.spec.items import (
    Condition,
    Item,
    Problems,
    Rule,
    Tolerance,
    VariantItem,
    Variants,
)
from profiler.planning.spec.models import Build, Experiment, Page, Search
from profiler.planning.spec.workloads import CommandWorkload, ModuleWorkload, Parts

MODELS = (
    Experiment,
    ModuleWorkload,
    CommandWorkload,
    CudaWorkload,
    TensorArgument,
    StructArgument,
    KernelLaunch,
    Parts,
    Variants,
    Problems,
    VariantItem,
    Item,
    Rule,
    Condition,
    Collect,
    OwnFormula,
    Timeline,
    Tolerance,
    Search,
    Page,
    Build,
)

_TABLE = re.compile(r"(<!-- fields: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_SCALAR = {"string", "number", "boolean", "null"}


def schema_text():
    """The JSON Schema as it stands in docs/spec.schema.json."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def fill_tables(page):
    """The page with the table of every `<!-- fields: Model -->` … `<!-- end -->` written again."""
    by_name = {model.__name__: model for model in MODELS}
    return _TABLE.sub(lambda match: f"{match[1]}{table(by_name[match[2]])}{match[3]}", page)


def table(model):
    """A Markdown table of a model's keys."""
    return "| key | value | default | meaning |\n|---|---|---|---|\n" + "".join(_rows(model))


def _rows(model):
    schema = _own_schema(model)
    for name, field in schema["properties"].items():
        if name in schema.get("required", ()):
            default = "required"
        else:
            default = _default(field.get("default"))
        meaning = str(field.get("description", "")).replace("|", "\\|")
        yield f"| `{name}` | {_type_text(field)} | {default} | {meaning} |\n"


def _own_schema(model):
    """The schema of the long form, where a model also has a short one."""
    schema = model.model_json_schema()
    schema = schema["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return next(
        (alternative for alternative in schema.get("anyOf", ()) if "properties" in alternative),
        schema,
    )


def _default(value):
    return (
        "" if value in (None, "", [], {}) or isinstance(value, dict) else f"`{json.dumps(value)}`"
    )


def _type_text(schema):
    """Short description of the type of a value."""
    if "$ref" in schema:
        return _link(schema["$ref"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    options = [
        option
        for option in schema.get("anyOf", schema.get("oneOf", ()))
        if option.get("type") != "null"
    ]
    if options and _is_list_of(options[-1], options[0]):
        return f"{_type_text(options[0])}, or a list of such"
    if options:
        return " or ".join(dict.fromkeys(_type_text(option) for option in options))
    return _plain_type_text(schema)


def _plain_type_text(schema):
    kind = schema.get("type")
    if isinstance(kind, list):
        return "value" if set(kind) == _SCALAR else " or ".join(map(_name, kind))
    if kind == "array":
        return f"list of {_type_text(schema['items'])}"
    if kind == "object":
        inner = schema.get("additionalProperties")
        inner = inner if isinstance(inner, dict) else _only(schema.get("patternProperties"))
        return f"mapping of names to {_type_text(inner)}" if inner else "mapping"
    return _name(str(kind)) + _bounds(schema)


def _only(schemas):
    return next(iter(schemas.values()), None) if schemas else None


def _is_list_of(schema, item):
    return schema.get("type") == "array" and schema["items"] == item


def _name(kind):
    return {"string": "text", "integer": "whole number", "boolean": "true or false"}.get(kind, kind)


def _bounds(schema):
    if "minimum" in schema:
        return f" ≥ {schema['minimum']}"
    if "exclusiveMinimum" in schema:
        return f" > {schema['exclusiveMinimum']}"
    return ""


def _link(reference):
    """Link to the table of a model; of a question, which has none, those that there are."""
    name = reference.rpartition("/")[2]
    if name == Question.__name__:
        return "(" + ", ".join(f"`{question}`" for question in Question) + ")"
    return f"[{name}](#{name.lower()})"
