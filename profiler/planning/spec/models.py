"""The experiment file as pydantic models: every key, its type, its default and its meaning."""

from __future__ import annotations

import difflib
import itertools
import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    Strict,
    Tag,
    WithJsonSchema,
    model_validator,
)

from profiler.collect import Need
from profiler.collect.registry import COLLECTORS, canonical_name, kinds_of, spellings
from profiler.collect.timer import WALL_CLOCK
from profiler.metrics import queries as metrics
from profiler.metrics.catalogue import CATALOGUE, GROUPS
from profiler.metrics.own import OwnMetric
from profiler.model import EXPERIMENT_NAME, FLUSHED_PER_LAUNCH, MARGIN_PCT
from profiler.planning.page_kinds import PAGE_KINDS, Question, questions_of
from profiler.planning.spec.cuda_file import (
    ArithmeticText,
    Launches,
    is_cuda_file,
    launches_text,
    with_joined_lists,
)
from profiler.planning.spec.own_formula import OwnFormula
from profiler.planning.spec.rules import Rules
from profiler.planning.spec.search import Search
from profiler.planning.spec.source import kind_of
from profiler.planning.spec.values import (
    LARGEST_INTEGER,
    PARAMETER_NAME,
    SCALAR_SCHEMA,
    Bound,
    Grid,
    Name,
    Names,
    Natural,
    OrSingle,
    ParameterName,
    Positive,
    Scalar,
    SpecModel,
    Text,
    as_list,
    check_scalar,
    check_text,
    did_you_mean,
    unique,
    wrong,
)
from profiler.planning.spec.workloads import CommandWorkload, ModuleWorkload, Workload
from profiler.runner.protocol import CAPTURE_PROGRAM, CAPTURE_VISITS

DEVICES = r"^(auto|cpu|cuda(:[0-9]+)?)$"
"""Pattern of `collect.device`."""
DEFAULT_SEED = 0x5EED
"""Any fixed number will do: it only has to be the same from one run to the next."""
DEFAULT_COMPILE_LIMIT_S = 1800.0
"""The slowest kernels of FlashAttention and CUTLASS take minutes."""

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


_ARCHITECTURE = re.compile(r"auto|sm_[0-9]{2,3}[af]?")


def _check_experiment_name(value: str) -> str:
    if not EXPERIMENT_NAME.fullmatch(value):
        raise wrong(
            "must be 1 to 64 of the characters A-Z a-z 0-9 _ . - and begin with a letter or digit, "
            f"not {value!r}"
        )
    return value


def _check_architecture(value: str) -> str:
    if not _ARCHITECTURE.fullmatch(value):
        raise wrong(f"must be auto or an architecture like sm_90, not {value!r}")
    return value


def _check_flag(value: str) -> str:
    """An argument of nvcc; ValueError for two in one text, and for what is set elsewhere."""
    if re.match(r"-\S+\s+-", value):
        words = ", ".join(value.split())
        raise wrong(f"each argument of nvcc is an entry of its own: [{words}], not {value!r}")
    if re.match(r"(-arch|-gencode|-code|--gpu-\w+|--generate-code)\b", value):
        raise wrong(f"{value!r}: the architecture stands in `arch: sm_90`, beside `flags`")
    return value


def _check_metric(value: str) -> str:
    if not metrics.is_known(value):
        hint = did_you_mean(value, [*CATALOGUE, *GROUPS])
        raise wrong(f"unknown metric '{value}'{hint} (raw ncu names contain '__')")
    return value


def _check_dtype(value: str) -> str:
    if value != "default" and value not in DTYPES:
        raise wrong(f"unknown dtype '{value}'{did_you_mean(value, ['default', *DTYPES])}")
    return value


_SIZE_SCHEMA = {"type": ["string", "number"]}

DEFAULT_PROBLEM = "default"
"""Name of the only problem of a spec that names none."""

_MISTYPED = 0.9
"""How much alike two words are (difflib) of which one is the other, mistyped."""


def _check_capture(value: str) -> str:
    """Raise for a text that nsys would not take for the name of a range."""
    name, at, domain = check_text(value).partition("@")
    keywords = (CAPTURE_VISITS, CAPTURE_PROGRAM)
    close = difflib.get_close_matches(value.lower(), keywords, n=1, cutoff=_MISTYPED)
    if close and value not in keywords:  # as a range it would cost a session to find out
        raise wrong(
            f"must be visits, program, or a range, not {value!r}; did you mean {close[0]}? "
            "A range of such a name is written with its domain, NAME@DOMAIN"
        )
    if not name or "\\" in value or "@" in domain or (at and not domain):
        raise wrong(
            "must be visits, program, or a range as NAME or NAME@DOMAIN without a backslash, "
            f"not {value!r}"
        )
    return value


if TYPE_CHECKING:
    PageKindName = str
else:
    PageKindName = Literal[tuple(PAGE_KINDS)]
    """A name of the registry: a kind that is added there can be named in a spec."""


class Tolerance(SpecModel):
    """How far an output may be off: |out - expected| ≤ absolute + relative · |expected|."""

    absolute: Bound = Field(default=0.0, description="Absolute part.")
    relative: Bound = Field(default=0.0, description="Relative part.")


def _for_all_types(value: object) -> object:
    """Bounds without a dtype are those of all dtypes: `{relative: 1e-2}`."""
    bounds = Tolerance.model_fields.keys()
    short = isinstance(value, dict) and value.keys() and value.keys() <= bounds
    return {"default": value} if short else value


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
    note: Text = Field(default="", description="Shown beside it on the page.")

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, value: object) -> object:
        if isinstance(value, str):
            return {"name": value}
        if not isinstance(value, dict):
            raise wrong(f"must be a name or a mapping, not {kind_of(value)} (numbers need quotes)")
        if "params" in value:
            return value
        own = [key for key in cls.model_fields if key != "params"]
        params = {key: param for key, param in value.items() if key not in own}
        return {key: value[key] for key in own if key in value} | {"params": params}

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
        description="Whether it is ranked although its numbers look implausible "
        "(docs/plausibility.md). Needs a `reason`.",
    )
    reason: Text = Field(
        default="",
        description="Why it is trusted, or else why it cannot do the other problems; shown.",
    )
    when: ArithmeticText | None = Field(
        default=None,
        description="Arithmetic over parameters of variant and problem that holds where it can do "
        "the problem (`columns % 128 == 0`). Elsewhere it is not applicable: planned so, no "
        "failure.",
    )
    tolerance: Tolerances = Field(
        default_factory=dict,
        description="As that of the experiment, for this variant; a dtype that it does not name "
        "has that of the experiment.",
    )
    launches: Launches | None = Field(
        default=None,
        description="Of a `.cu` file: several launches in a row, in place of a kernel "
        "(docs/cuda-file.md).",
    )
    env: Environment = Field(
        default_factory=dict,
        description="Environment variables of the process that measures it "
        "(`{NVIDIA_TF32_OVERRIDE: 1}`), which is then another one than that of variants with other "
        "variables.",
    )
    tags: Names = Field(
        default=(),
        description="Words for groups of variants, such as the library or the author: pages show "
        "them, and `--only tag=…` takes them.",
    )

    @model_validator(mode="after")
    def _launches_are_a_parameter(self) -> Self:
        """They tell the variant from others, as its kernel would."""
        if self.launches is not None:
            if "kernel" in self.params:
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
        "(docs/plausibility.md), wherever they come from; each rule needs a `reason`.",
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


def _collector(value: object) -> str:
    """Key of a collector that may be given by its alias."""
    name = canonical_name(value) if isinstance(value, str) else None
    if name is None:
        raise wrong(f"no such collector: {value!r}{did_you_mean(value, spellings())}")
    return name


CollectorName = Annotated[
    str, PlainValidator(_collector), WithJsonSchema({"type": "string", "enum": list(spellings())})
]
Collectors = Annotated[
    tuple[CollectorName, ...],
    Field(min_length=1),
    BeforeValidator(as_list),
    AfterValidator(unique),
    OrSingle(),
]


def _ascending(values: tuple[int, ...]) -> tuple[int, ...]:
    if any(later <= earlier for earlier, later in itertools.pairwise(values)):
        raise wrong(f"must go up from look to look, not {list(values)}")
    return values


Blocks = Annotated[
    tuple[Positive, ...],
    Field(min_length=1),
    BeforeValidator(as_list),
    AfterValidator(_ascending),
    OrSingle(),
]


def _unique_metrics(items: tuple[str | OwnFormula, ...]) -> tuple[str | OwnFormula, ...]:
    unique(tuple(item if isinstance(item, str) else item.name for item in items))
    return items


Metrics = Annotated[
    tuple[
        Annotated[
            Annotated[str, AfterValidator(_check_metric), Tag("(name)")]
            | Annotated[OwnFormula, Tag("(formula)")],
            Discriminator(lambda value: "(name)" if isinstance(value, str) else "(formula)"),
        ],
        ...,
    ],
    Field(min_length=1),
    BeforeValidator(as_list),
    AfterValidator(_unique_metrics),
    OrSingle(),
]


class Timeline(SpecModel):
    """How the sessions of `nsys` and `torch` make a timeline."""

    blocks: Positive = Field(
        default=1, description="Passes over all cells; the page shows the first."
    )
    launches: Positive = Field(
        default=10, description="Launches per visit, each in a range of its own."
    )
    capture: Annotated[str, AfterValidator(_check_capture)] = Field(
        default=CAPTURE_VISITS,
        description="What nsys records. `visits`: from the first visit to the last, without "
        "set-up, check and warm-up; `program`: everything; else the first NVTX range of this "
        "name, `NAME` or `NAME@DOMAIN`. An external command has no visits: its `visits` are the "
        "program.",
    )


class Collect(SpecModel):
    """What to measure, how often, and under which conditions."""

    collectors: Collectors = Field(
        default=("ncu",),
        description="`ncu`: hardware counters; `cupti`: durations and counters in the process "
        "that launches, without ncu; `cuda_events` (or `timer`): CUDA events, or the process "
        "clock on a CPU; `profiler_kernels` (or `torch_kernels`): kernel time of "
        "torch.profiler; `sustained`: launches back to back, once clock and power have settled, "
        "with the energy of a launch; `wall_clock` (once `plain_timer`): wall clock around three "
        "launches, as a quick benchmark does. The first of these, in this order, that is asked for "
        "is judged. `nsys` and `profiler_timeline` (or `torch`) record timelines, `in_kernel` what "
        "the warpgroups of a kernel do; they are never judged. See docs/collectors.md.",
    )
    timeline: Timeline = Field(
        default_factory=Timeline, description="Timelines of `nsys` and `torch`."
    )
    device: Annotated[str, Strict(), Field(pattern=DEVICES)] = Field(
        default="auto",
        description="Where the workload runs: `auto` (a GPU if there is one), `cpu`, `cuda`, or "
        "`cuda:1`, the GPU that nvidia-smi gives this number, of those that CUDA_VISIBLE_DEVICES "
        "leaves. Sessions see no other.",
    )
    blocks: Blocks = Field(
        default=(8, 16, 32),
        description="Timing passes over all variants of a problem, each in a random order of its "
        "own, with the baseline twice. Several numbers are looks: after each but the last, only "
        "the cells go on whose question is still open.",
    )
    final_blocks: Natural = Field(
        default=8,
        description="Passes in which the variants that may be the best are measured once more, so "
        "that the winner's number does not flatter it. 0: none; none below 6 blocks, and none "
        "where a problem has only two variants.",
    )
    counter_samples: Positive = Field(
        default=1, description="Samples per cell of metrics that need several passes of a kernel."
    )
    ncu_timing: Annotated[bool, Strict()] = Field(
        default=True,
        description="Whether ncu times the blocks. `false`: it only counts, `counter_samples` "
        "times per cell, and the first other collector is judged. For what is more than its "
        "kernels, such as the gaps between those of a training step.",
    )
    explain: Annotated[bool, Strict()] = Field(
        default=True,
        description="Whether ncu counts all that tells why, once, of a few cells: the best, the "
        "baseline and the best reference; of a ladder every step. See docs/explain.md.",
    )
    recheck: Annotated[bool, Strict()] = Field(
        default=True,
        description="Whether each variant is checked again after its last visit, on inputs that "
        "are overwritten in place. See docs/plausibility.md.",
    )
    warmups: Natural = Field(default=3, description="Launches before the first that is measured.")
    repeats: Positive = Field(default=20, description="Launches per visit under the timer.")
    sustained_s: Annotated[float, Strict(), Field(gt=0, le=60, allow_inf_nan=False)] = Field(
        default=5.0,
        description="Most seconds of a visit of `sustained`. It ends as soon as clock and power "
        "have settled: after 1 s at the earliest, at the power limit after 2 s.",
    )
    metrics: Metrics = Field(
        default=("default",),
        description="Metrics or groups of the catalogue, raw ncu names, or formulas of your own.",
    )
    cache_control: Literal["launch", "all", "none"] = Field(
        default="launch",
        description="When the GPU's caches are emptied under ncu. `launch`: before each launch, so "
        "that each of its kernels finds what those before it left, as in a program. `all`: before "
        "each kernel, by ncu. `none`: never. See docs/timers.md.",
    )
    clock_control: Literal["none", "base", "boost"] = Field(
        default="none", description="Whether ncu locks the clocks; needs permission."
    )
    replay_mode: Literal["kernel", "range", "application"] = Field(
        default="kernel",
        description="How ncu repeats what needs several passes. `kernel`: each kernel alone. "
        "`range`: all of a visit, its kernels beside each other, for kernels that wait for one "
        "another. `application`: a program of yours as a whole. See docs/workloads.md.",
    )
    child_processes: Annotated[bool, Strict()] = Field(
        default=True,
        description="Whether ncu attaches to the processes that what it measures starts. They make "
        "every launch slower: 16 of them from 4 to 105 ms, even where they sleep. `false` where "
        "the program itself launches what is measured.",
    )
    recompile: Annotated[bool, Strict()] = Field(
        default=False,
        description="Whether each block has a process of its own that compiles anew, with empty "
        "caches of torch and Triton: what an autotuner chose in it is another draw, and intervals "
        "and verdicts hold what draws differ by. Takes a start and all compilations for each "
        "block. For workloads in Python.",
    )
    seed: Annotated[int, Strict(), Field(ge=0, le=LARGEST_INTEGER)] = Field(
        default=DEFAULT_SEED, description="Of the inputs and of the random orders."
    )
    time_limit_s: Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)] = Field(
        default=120.0, description="Seconds that one visit may take before it counts as hung."
    )

    @property
    def gpu_index(self) -> int | None:
        """Number of the GPU that is asked for; None: the first."""
        _, colon, number = self.device.partition(":")
        return int(number) if colon else None

    @property
    def own_metrics(self) -> tuple[OwnMetric, ...]:
        """Metrics that the file defines."""
        return tuple(item.metric for item in self.metrics if isinstance(item, OwnFormula))

    @property
    def measured_metrics(self) -> tuple[str, ...]:
        """Metrics, groups and raw names to measure: those that are named and what formulas need."""
        return tuple(
            name
            for item in self.metrics
            for name in (item.metric.needs if isinstance(item, OwnFormula) else (item,))
        )

    @property
    def shown_metrics(self) -> tuple[str, ...]:
        """Metrics to show in the order of the file, groups replaced by what they hold."""
        names = (
            (item.name,) if isinstance(item, OwnFormula) else metrics.expand([item])
            for item in self.metrics
        )
        return tuple(dict.fromkeys(name for part in names for name in part))

    @model_validator(mode="after")
    def _something_is_judged(self) -> Self:
        kinds = kinds_of(self.collectors)
        if all(kind.metric is None for kind in kinds):
            raise wrong(
                f"{kinds[0].name} measures no duration; add ncu or cuda_events to "
                "collect.collectors"
            )
        judged = [kind for kind in kinds if kind.judged]
        if not self.ncu_timing and all(Need.NCU in kind.needs for kind in judged):
            raise wrong(
                "ncu_timing: false leaves nothing that is judged; add cupti or cuda_events to "
                "collect.collectors"
            )
        return self


ParameterNames = Annotated[
    tuple[ParameterName, ...], BeforeValidator(as_list), AfterValidator(unique), OrSingle()
]


class Page(SpecModel):
    """What the page shows."""

    kind: PageKindName = Field(
        default="versions",
        description="`versions`: kernel versions side by side, per problem; `autotune`: many "
        "configurations on few problems; `ablation`: what single parameters change; "
        "`progression`: a ladder of versions, in the order of the file; `grid`: few variants on "
        "problems that differ in two sizes; `timeline`: what each launch did over time; `waves`: "
        "grids counted in waves, and what the last wave costs.",
    )
    parameters: ParameterNames = Field(
        default=(),
        description="Parameters of variants that an ablation steps through. Default: all that "
        "differ.",
    )
    axes: ParameterNames = Field(
        default=(),
        max_length=2,
        description="Parameters of problems that are the rows and the columns of a grid. Default: "
        "the two numbers that take most values.",
    )
    split: ParameterNames = Field(
        default=(),
        description="Parameters of problems that tell the grids of a page apart, the first one "
        "first. Others that differ follow. Default: all that differ.",
    )
    references: Names = Field(
        default=(),
        description="Names of variants, such as a library's, that the others are compared with "
        "and that are never called the best. The baseline always is one. One that is excluded, "
        "because it needs another GPU, say, is left out.",
    )

    weights: ParameterName | None = Field(
        default=None,
        description="Parameter of problems that says how often a step of a program calls each: "
        "the page adds up what the step would take with each variant (docs/capture.md).",
    )
    step_ms: Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="With `weights`: milliseconds of the whole step."
    )
    step_note: Text = Field(
        default="", description="With `weights`: what the page says of the step in other words."
    )

    @model_validator(mode="after")
    def _axes_are_not_split(self) -> Self:
        if len(self.axes) == 1:
            raise wrong("axes: name two parameters, that of the rows and that of the columns")
        both = next((name for name in self.split if name in self.axes), None)
        if both is not None:
            raise wrong(f"split: '{both}' is an axis already")
        return self


class Build(SpecModel):
    """How CUDA sources are compiled."""

    flags: tuple[Annotated[Text, AfterValidator(_check_flag)], ...] = Field(
        default=(), description="Extra arguments of nvcc, each an entry of its own."
    )
    arch: Annotated[str, AfterValidator(_check_architecture)] = Field(
        default="auto",
        description="`sm_90`, …; `auto`: that of the GPU.",
        json_schema_extra={"pattern": f"^({_ARCHITECTURE.pattern})$"},
    )
    time_limit_s: Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)] = Field(
        default=DEFAULT_COMPILE_LIMIT_S,
        description="Seconds that one run of nvcc may take before it is ended.",
    )


InputKinds = Annotated[
    tuple[Literal["normal", "zeros"], ...], Field(min_length=1), AfterValidator(unique)
]


def _default_problems() -> Problems:
    return Problems(list=(Item(name=DEFAULT_PROBLEM),))


class Experiment(SpecModel):
    """One experiment file."""

    name: Annotated[str, AfterValidator(_check_experiment_name)] = Field(
        description="Name of the experiment and of its folder under `reports/`.",
        json_schema_extra={"pattern": f"^{EXPERIMENT_NAME.pattern}$"},
    )
    title: Text = Field(default="", description="Heading of the page. Default: the name.")
    description: Text = Field(default="", description="What the comparison is about.")
    inputs: Text | InputKinds = Field(
        default="",
        description="What the inputs hold: the distribution of their values. The page shows it "
        "under How it was measured. Or the values to measure each problem on, a list: `normal` as "
        "the workload makes them, `zeros` with 0 in all tensors of floating point, which is a "
        "problem of its own (`inputs: zeros`) and tells what power the values cost.",
    )
    changes: Text = Field(
        default="",
        description="How the sources of the variants differ, as `git diff` prints it. The page has "
        "it, folded; `compare` of git revisions writes it.",
    )
    workload: Workload = Field(
        description="What is run: a module, a file, or a mapping for a module or a command."
    )
    variants: Variants = Field(description="The kernel versions to compare.")
    problems: Problems = Field(
        default_factory=_default_problems,
        description="The problems to measure at. Default: one without parameters, named `default`.",
    )
    exclude: Rules = Field(
        default=(), description="Cells to leave out, by parameters of variant and problem together."
    )
    baseline: Name | None = Field(
        default=None,
        description="Name of the variant that ratios refer to. Default: the first variant.",
    )
    collect: Collect = Field(default_factory=Collect, description="What to measure, and how.")
    margin_pct: Annotated[float, Strict(), Field(ge=0, lt=100, allow_inf_nan=False)] = Field(
        default=MARGIN_PCT,
        description="Differences of duration up to this many percent count as the same.",
    )
    tolerance: Tolerances = Field(
        default_factory=dict,
        description="By dtype of the output, with `default` for the rest; `{relative: 1e-2}` is "
        "short for a `default`. Default: the workload's own.",
    )
    questions: (
        Annotated[
            tuple[Question, ...],
            Field(min_length=1),
            BeforeValidator(as_list),
            AfterValidator(unique),
        ]
        | None
    ) = Field(
        default=None,
        description="What the timing shall answer; cells go on to the next look while a question "
        "about them is open. `best`: which variant is the best at each problem, and whether it "
        "differs from the baseline; `baseline`: which others differ from the baseline; `steps`: "
        "whether each variant differs from the one before it; `effects`: whether variants that "
        "differ in one parameter (of `page.parameters`) do. Only `best` has a confirmation. "
        "Default: `best` and `baseline`; with a page of kind `progression` also `steps`, of kind "
        "`ablation` also `effects`.",
    )
    search: Search | None = Field(
        default=None,
        description="Search the variants instead of measuring each: the best found, the baseline "
        "and the references are then compared as ever. See docs/search.md.",
    )
    page: Page = Field(default_factory=Page, description="Which page to write.")
    build: Build = Field(default_factory=Build, description="Compiler settings.")

    @model_validator(mode="before")
    @classmethod
    def _join_sizes(cls, value: object) -> object:
        """Lists of sizes that a variant of a `.cu` file has, as text: parameters are scalars."""
        if not isinstance(value, dict) or not is_cuda_file(value.get("workload")):
            return value
        return {**value, "variants": with_joined_lists(value.get("variants"))}

    @property
    def input_kinds(self) -> tuple[str, ...]:
        """Values that each problem is measured on."""
        return ("normal",) if isinstance(self.inputs, str) else self.inputs

    @property
    def inputs_text(self) -> str:
        """Words on the values of the inputs, as the page shows them."""
        if isinstance(self.inputs, str):
            return self.inputs
        words = {"normal": "as the workload makes them", "zeros": "zeros"}
        return f"Each problem on inputs {' and on '.join(words[kind] for kind in self.inputs)}."

    @property
    def asked(self) -> tuple[Question, ...]:
        """Questions of the experiment, those of its kind of page where it names none."""
        return questions_of(self.questions, self.page.kind)

    @property
    def cache_control(self) -> str:
        """When caches are emptied: `collect.cache_control`, as far as it can be had.

        Inside an external command, and between the passes of a range or of an application, only
        ncu can do it; before each kernel of a launch, too, and not where CUPTI times.
        """
        setting = self.collect.cache_control
        if setting == "all" and "cupti" in self.collect.collectors:
            return FLUSHED_PER_LAUNCH
        by_ncu = isinstance(self.workload, CommandWorkload) or self.collect.replay_mode != "kernel"
        return "all" if setting == FLUSHED_PER_LAUNCH and by_ncu else setting

    @model_validator(mode="after")
    def _launches_are_of_a_cuda_file(self) -> Self:
        listed = any(item.launches for item in self.variants.list or ())
        if listed and not is_cuda_file(self.workload.model_dump()):
            raise wrong("variants: launches are those of a .cu file, which the workload is not")
        return self

    @model_validator(mode="after")
    def _candidate_fits(self) -> Self:
        """A candidate is timed by another process: whatever counts in the runner sees nothing."""
        if not isinstance(self.workload, ModuleWorkload) or self.workload.candidate is None:
            return self
        if self.collect.collectors != (WALL_CLOCK.name,):
            raise wrong(
                "collect.collectors: a candidate is judged by wall_clock alone, the referee's own "
                "clock (docs/referee.md)"
            )
        if any(item.env for item in self.variants.list or ()):
            raise wrong("variants: the referee gives every process the same variables; no `env`")
        return self

    @model_validator(mode="after")
    def _inputs_fit(self) -> Self:
        workload, is_text = self.workload, isinstance(self.inputs, str)
        if isinstance(workload, CommandWorkload) and not is_text:
            raise wrong("inputs: an external command makes its inputs itself; give it a parameter")
        if isinstance(workload, ModuleWorkload) and workload.candidate is not None and not is_text:
            raise wrong("inputs: a candidate's inputs are the referee's own; leave the list out")
        return self

    @model_validator(mode="after")
    def _replay_mode_fits(self) -> Self:
        collect, is_program = self.collect, isinstance(self.workload, CommandWorkload)
        if collect.replay_mode != "kernel" and "cupti" in collect.collectors:
            raise wrong("collect.replay_mode: only ncu replays; leave it out with cupti")
        if collect.replay_mode == "range" and is_program:
            raise wrong(
                "collect.replay_mode: range replays visits, which an external command does not "
                "have; use application"
            )
        if collect.replay_mode == "application" and not is_program:
            raise wrong(
                "collect.replay_mode: application starts the whole process once per pass, with all "
                "visits in it: it is for external commands; use range"
            )
        return self

    @model_validator(mode="after")
    def _search_fits(self) -> Self:
        if self.search is None:
            return self
        if any(item.env for item in self.variants.list or ()):
            raise wrong(
                "search: its process is one for all; variants with `env` are measured without"
            )
        if isinstance(self.workload, CommandWorkload):
            raise wrong(
                "search: an external command is a process for each visit; a search needs a "
                "workload in Python or a .cu file"
            )
        if not PAGE_KINDS[self.page.kind].searched:
            kinds = [name for name, kind in PAGE_KINDS.items() if kind.searched]
            raise wrong(
                f"search: a page of kind {self.page.kind} needs every variant; use "
                f"{' or '.join(kinds)}"
            )
        return self

    @model_validator(mode="after")
    def _command_needs_ncu(self) -> Self:
        if not isinstance(self.workload, CommandWorkload):
            return self
        if any(item.env for item in self.variants.list or ()):
            raise wrong(
                "variants: an external command sets variables itself: "
                "`command: env MODE={mode} ./a`"
            )
        if not all(kind.measures_commands for kind in kinds_of(self.collect.collectors)):
            names = [kind.name for kind in COLLECTORS.values() if kind.measures_commands]
            raise wrong(
                f"collect.collectors: an external command is measured by {' or '.join(names)}; "
                "a timer needs a workload in Python"
            )
        return self
