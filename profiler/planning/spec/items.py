"""Variants and problems of an experiment, and the rules that leave some out or trust some."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    WithJsonSchema,
    model_validator,
)

from profiler.model import Params
from profiler.planning.spec.cuda_file import ArithmeticText, Launches, launches_text
from profiler.planning.spec.source import kind_of
from profiler.planning.spec.values import (
    PARAMETER_NAME,
    SCALAR_SCHEMA,
    Bound,
    Grid,
    Name,
    Names,
    Number,
    OrSingle,
    ParameterName,
    Scalar,
    SpecModel,
    Text,
    Values,
    as_list,
    check_scalar,
    did_you_mean,
    unique,
    wrong,
)

DTYPES = (
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
)
"""Names of torch dtypes that an output may have (without `torch.`)."""


_KEYS = ("default", *DTYPES)
"""Keys of tolerances."""
_BOUNDS = {"rtol": "relative", "rel": "relative", "atol": "absolute", "abs": "absolute"}
"""Other names for parts of a tolerance."""


def _check_dtype(value: str) -> str:
    if value not in _KEYS:
        raise wrong(f"unknown dtype '{value}'{did_you_mean(value, _KEYS)}")
    return value


# ---- rules ---------------------------------------------------------------------------------------


class Condition(SpecModel):
    """What a parameter must be for a rule to match: all given keys must hold."""

    _SHORT_FORM: ClassVar[dict[str, Any]] = {
        "anyOf": [SCALAR_SCHEMA, {"type": "array", "items": SCALAR_SCHEMA, "minItems": 1}]
    }

    any_of: Values | None = Field(
        default=None,
        alias="in",
        description="One of these values; a plain value or list is short for `in`.",
    )
    min: Number | None = Field(default=None, description="At least this number.")
    max: Number | None = Field(default=None, description="At most this number.")
    none_of: Values | None = Field(default=None, alias="not", description="None of these.")

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        operands = value if isinstance(value, dict) else {"in": value}
        # A list at once: a lone null would read as "no condition".
        return {
            key: as_list(operand) if key in ("in", "not") else operand
            for key, operand in operands.items()
        }

    @model_validator(mode="after")
    def _meaningful(self) -> Self:
        if all(operand is None for operand in (self.any_of, self.min, self.max, self.none_of)):
            raise wrong("needs a value, a list, or one of min, max, not")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise wrong("min is larger than max")
        return self

    def holds(self, value: str | int | float | bool | None) -> bool:
        """Whether a parameter's value meets the condition; a text is never between numbers."""
        if self.any_of is not None and not any(
            are_equal(value, allowed) for allowed in self.any_of
        ):
            return False
        if self.none_of is not None and any(
            are_equal(value, excluded) for excluded in self.none_of
        ):
            return False
        if self.min is None and self.max is None:
            return True
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return (self.min is None or value >= self.min) and (self.max is None or value <= self.max)


def are_equal(left: object, right: object) -> bool:
    """Whether two parameter values are equal; unlike in Python, `true` is not 1."""
    return isinstance(left, bool) == isinstance(right, bool) and left == right


class Rule(SpecModel):
    """A named reason to leave something out; what it removes is counted and shown."""

    name: Name = Field(description="Short name of the rule.")
    when: dict[ParameterName, Condition] = Field(
        min_length=1,
        description="Parameter → condition; all must hold. A cell without the parameter does "
        "not match. `variant` and `problem` stand for the names.",
    )
    reason: Text = Field(default="", description="The reason, for readers of the page.")

    def matches(self, values: Params) -> bool:
        """Whether every condition holds for these parameters."""
        return all(
            key in values and condition.holds(values[key]) for key, condition in self.when.items()
        )

    @property
    def label(self) -> str:
        """Name and reason in one line."""
        return f"{self.name}: {self.reason}" if self.reason else self.name


def _unique_names(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    unique(tuple(rule.name for rule in rules))
    return rules


Rules = Annotated[tuple[Rule, ...], AfterValidator(_unique_names)]


# ---- items ---------------------------------------------------------------------------------------

_SIZE_SCHEMA = {"type": ["string", "number"]}

DEFAULT_PROBLEM = "default"
"""Name of the only problem of a spec that names none."""


class Tolerance(SpecModel):
    """How far an output may be off: |out - expected| ≤ absolute + relative · |expected|."""

    absolute: Bound = Field(default=0.0, description="Absolute part.")
    relative: Bound = Field(default=0.0, description="Relative part.")


def _for_all_types(value: object) -> object:
    """Bounds without a dtype are those of all dtypes: `{relative: 1e-2}`."""
    keys = value.keys() if isinstance(value, dict) else set[object]()
    for key, meant in _BOUNDS.items():
        if key in keys:
            raise wrong(f"unknown key '{key}'; did you mean '{meant}'?")
    is_short_form = keys & Tolerance.model_fields.keys() and keys.isdisjoint(_KEYS)
    return {"default": value} if is_short_form else value


Tolerances = Annotated[
    dict[Annotated[str, AfterValidator(_check_dtype)], Tolerance], BeforeValidator(_for_all_types)
]


def _check_environment(value: object) -> object:
    """Names and texts of variables; a number is its text."""
    if not isinstance(value, dict):
        raise wrong(f"must be a mapping of variables to values, not {kind_of(value)}")
    for name, text in value.items():
        if not isinstance(name, str) or not PARAMETER_NAME.fullmatch(name):
            raise wrong(f"no name of an environment variable: {name!r}")
        if name in _OF_ALL_SESSIONS:
            raise wrong(f"{name}: {_OF_ALL_SESSIONS[name]}")
        if isinstance(text, bool) or not isinstance(text, str | int | float):
            raise wrong(f"{name}: must be a text or number, not {kind_of(text)}; quote it")
        check_scalar(text)
    return {name: str(text) for name, text in value.items()}


_OF_ALL_SESSIONS = {
    "CUDA_VISIBLE_DEVICES": "the GPU is the same for all variants; choose it with --gpu",
    "PYTHONPATH": "the runner chooses where Python imports from (docs/workloads.md)",
}
"""Variables that no variant may have of its own, and why."""

Environment = Annotated[
    dict[str, str],
    BeforeValidator(_check_environment),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": ["string", "number"]}}),
]


class Item(SpecModel):
    """One variant or problem: a name, a mapping of its parameters, or both."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": SCALAR_SCHEMA})
    _SHORT_FORM: ClassVar[dict[str, Any]] = {"type": "string"}

    name: Name | None = Field(default=None, description="Default: made from the parameters.")
    params: dict[ParameterName, Scalar] = Field(
        default_factory=dict,
        description="Its parameters; may also stand beside `name` without this key.",
    )
    note: Text = Field(default="", description="Shown beside the name on the page.")

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, value: object) -> object:
        if isinstance(value, str):
            return {"name": value}
        if not isinstance(value, dict):
            raise wrong(f"must be a name or a mapping, not {kind_of(value)} (numbers need quotes)")
        if "params" in value:
            return value
        own_keys = [key for key in cls.model_fields if key != "params"]
        params = {key: param for key, param in value.items() if key not in own_keys}
        return {key: value[key] for key in own_keys if key in value} | {"params": params}

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if self.name is None and not self.params:
            raise wrong("needs a name or parameters")
        return self


_NO_REASON = "needs a reason: why its numbers are right although they look wrong"


class VariantItem(Item):
    """One variant: a name, its parameters, or both, and whether its numbers are trusted."""

    # Grid, block and arguments of a kernel may be lists.
    _PARAMETER_SCHEMA: ClassVar[dict[str, Any]] = {
        "anyOf": [SCALAR_SCHEMA, {"type": "array", "items": _SIZE_SCHEMA}]
    }
    model_config = ConfigDict(json_schema_extra={"additionalProperties": _PARAMETER_SCHEMA})

    trust: Annotated[bool, Strict()] = Field(
        default=False,
        description="Whether the variant is ranked although its numbers look implausible "
        "(docs/plausibility.md). Needs a `reason`.",
    )
    reason: Text = Field(
        default="",
        description="Why the variant is trusted, or else why it cannot do the other problems; "
        "shown.",
    )
    when: ArithmeticText | None = Field(
        default=None,
        description="Condition, as arithmetic over parameters of variant and problem "
        "(`columns % 128 == 0`), under which the variant can do the problem. "
        "Elsewhere it is not applicable, which is no failure.",
    )
    tolerance: Tolerances = Field(
        default_factory=dict,
        description="Tolerance of this variant. Other dtypes have that of the experiment.",
    )
    launches: Launches | None = Field(
        default=None,
        description="Of a `.cu` file: several launches in a row, in place of a kernel "
        "(docs/cuda-file.md).",
    )
    env: Environment = Field(
        default_factory=dict,
        description="Environment variables of the process that measures the variant "
        "(`{NVIDIA_TF32_OVERRIDE: 1}`). Variants with other variables run in other processes.",
    )
    tags: Names = Field(
        default=(),
        description="Words for groups of variants, such as the library or the author: shown "
        "on pages, and for `--only tag=…`.",
    )

    @model_validator(mode="after")
    def _launches_are_a_parameter(self) -> Self:
        """Make the launches a parameter: they tell variants apart as a kernel would."""
        if self.launches is not None:
            if not self.params.keys().isdisjoint(("kernel", "function")):
                raise wrong("launches: each has a kernel; leave out that of the variant")
            self.params["launches"] = launches_text(self.launches)
        return self

    @model_validator(mode="after")
    def _trust_has_a_reason(self) -> Self:
        if self.trust and not self.reason.strip():
            raise wrong(f"trust: {_NO_REASON}")
        if self.reason and not self.trust and self.when is None:
            raise wrong("reason: is that of `trust: true` or `when`, which is missing")
        return self


Items = Annotated[tuple[Item, ...], Field(min_length=1)]
VariantItems = Annotated[tuple[VariantItem, ...], Field(min_length=1)]
Matrix = Annotated[tuple[Grid, ...], Field(min_length=1), BeforeValidator(as_list), OrSingle()]


def _all_have_reasons(rules: Rules) -> Rules:
    for rule in rules:
        if not rule.reason.strip():
            raise wrong(f"{rule.name}: {_NO_REASON}")
    return rules


class Variants(SpecModel):
    """The kernel versions or configurations to compare; `list`, `sets` and `matrix` add up."""

    list: VariantItems | None = Field(default=None, description="Variants one by one.")
    sets: Names = Field(
        default=(), description="Names of sets that the workload's `variant_sets()` gives."
    )
    matrix: Matrix | None = Field(
        default=None,
        description="Parameter → value or list of values: every combination is a variant. "
        "A list of such mappings adds up.",
    )
    exclude: Rules = Field(
        default=(), description="Combinations to leave out; the first rule counts."
    )
    trust: Annotated[Rules, AfterValidator(_all_have_reasons)] = Field(
        default=(),
        description="Variants that are ranked although their numbers look implausible "
        "(docs/plausibility.md); each rule needs a `reason`.",
    )

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.list is None and self.matrix is None and not self.sets:
            raise wrong("needs at least one of list, matrix, sets")
        return self


class Problems(SpecModel):
    """The sizes and types to measure at; `list` and `matrix` add up."""

    list: Items | None = Field(default=None, description="Problems one by one.")
    matrix: Matrix | None = Field(
        default=None,
        description="Parameter → value or list of values: every combination is a problem. "
        "A list of such mappings adds up.",
    )
    exclude: Rules = Field(
        default=(), description="Combinations to leave out; the first rule counts."
    )

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.list is None and self.matrix is None:
            raise wrong("needs at least one of list, matrix")
        return self
