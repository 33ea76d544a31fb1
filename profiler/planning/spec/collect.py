"""What an experiment measures, how often and under which conditions, and metrics of its own."""

from __future__ import annotations

import ast
import difflib
import itertools
import math
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    PlainValidator,
    Strict,
    StringConstraints,
    Tag,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from profiler.collect import Need
from profiler.collect.registry import COLLECTORS, canonical_name, has_counters, kinds_of, spellings
from profiler.kernels.arithmetic import ExpressionError, syntax_tree
from profiler.metrics import queries as metrics
from profiler.metrics.catalogue import CATALOGUE, GROUPS, Metric, PassClass
from profiler.metrics.formulas import EXTREMES, Formula, cell_fact, metric
from profiler.planning.spec.values import (
    LARGEST_INTEGER,
    Natural,
    OrSingle,
    ParameterName,
    Positive,
    SpecModel,
    Text,
    as_list,
    check_scalar,
    check_text,
    did_you_mean,
    unique,
    wrong,
)
from profiler.runner.protocol import CAPTURE_PROGRAM, CAPTURE_VISITS

DEVICES = r"^(auto|cpu|cuda(:[0-9]+)?)$"
"""Pattern of `collect.device`."""
DEFAULT_SEED = 0x5EED
"""Any fixed number will do: it only has to be the same from one run to the next."""


def _check_metric(value: str) -> str:
    if not metrics.is_metric_or_raw_name(value):
        hint = did_you_mean(value, [*CATALOGUE, *GROUPS])
        raise wrong(f"unknown metric '{value}'{hint} (raw ncu names contain '__')")
    return value


_MISTYPED = 0.9
"""How much alike two words are (difflib) of which one is the other, mistyped."""


def _check_capture(value: str) -> str:
    """Raise for a text that nsys does not accept as the name of a range."""
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


# ---- metrics of its own --------------------------------------------------------------------------
#
# Arithmetic over the catalogue, written as text. `parse_formula` makes of the text what derived
# metrics of the catalogue have (`Formula`), so that one evaluator computes both, over whole columns
# (`analyse/metric_values.py`). `profiler/kernels/arithmetic.py` reads the text; its own evaluator
# gives one number and knows no missing ones. Only what stands in `_formula` is understood.

MAX_CHARACTERS = 500
_SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Pow: "**",
}


def parse_formula(text: str) -> Formula:
    """Formula of a text; raises ExpressionError where it is no arithmetic on metrics.

    Numbers, names of the catalogue, `+ - * / **`, brackets, `min` and `max`.
    """
    formula = _formula(syntax_tree(text, "formula", most_characters=MAX_CHARACTERS))
    if not isinstance(formula, Formula) or next(formula.quantities(), None) is None:
        raise ExpressionError("names no metric")
    return formula


def _formula(node: ast.expr) -> Formula | float:
    match node:
        case ast.Constant(value=int() | float() as value) if _is_number(value):
            return float(value)
        case ast.Name(id=name):
            return _quantity(name)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SIGNS:
            return Formula(_SIGNS[type(op)], (_formula(left), _formula(right)))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return Formula("*", (-1.0, _formula(operand)))
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _formula(operand)
        case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]) if name in EXTREMES:
            if len(parts) < 2:
                raise ExpressionError(f"{name} takes two values or more")
            return Formula(name, tuple(map(_formula, parts)))
    raise ExpressionError(
        f"'{ast.unparse(node)}' is not arithmetic; there are numbers, metrics, + - * / **, min "
        "and max"
    )


def _is_number(value: float) -> bool:
    try:
        return not isinstance(value, bool) and math.isfinite(float(value))
    except OverflowError:
        return False


def _quantity(name: str) -> Formula:
    """The quantity with a name: measured, or declared by the workload."""
    entry = CATALOGUE.get(name)
    if entry is None:
        close = difflib.get_close_matches(name, CATALOGUE, n=1)
        hint = f"did you mean '{close[0]}'?" if close else "docs/metrics.md lists them"
        raise ExpressionError(f"there is no metric '{name}'; {hint}")
    return cell_fact(entry.fact or name) if entry.source == "runner" else metric(name)


class OwnFormula(SpecModel):
    """A metric of your own: arithmetic on metrics of the catalogue."""

    name: ParameterName = Field(description="Name of the metric; no metric has this name yet.")
    formula: Text = Field(
        description="Numbers, metrics of the catalogue, `+ - * / **`, brackets, `min`, `max`: "
        '`"dram_read_bytes / flops"`. The run measures the metrics that it needs.'
    )
    unit: Annotated[str, StringConstraints(max_length=20), AfterValidator(check_scalar)] = Field(
        default="", description="Unit, as pages show it: `B/FLOP`. Nothing is converted."
    )

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        """`{bytes_per_flop: "dram_read_bytes / flops"}` is short for a name and a formula."""
        if isinstance(value, dict) and len(value) == 1 and not {"name", "formula"} & set(value):
            ((name, formula),) = value.items()
            return {"name": name, "formula": formula}
        return value

    @field_validator("name")
    @classmethod
    def _new(cls, value: str) -> str:
        if metrics.is_metric_or_raw_name(value):
            raise wrong(f"'{value}' is a name of the catalogue")
        return value

    @field_validator("formula")
    @classmethod
    def _arithmetic(cls, value: str) -> str:
        try:
            parse_formula(value)
        except ExpressionError as error:
            raise wrong(str(error)) from error
        return value

    @property
    def metric(self) -> Metric:
        """The metric that it defines."""
        formula = parse_formula(self.formula)
        return Metric(
            name=self.name,
            label=self.name,
            unit=self.unit,
            pass_class=PassClass.DERIVED,
            definition=f"Defined by the experiment file: {formula}.",
            source="experiment file",
            formula=formula,
        )


def _collector(value: object) -> str:
    """Key of a collector, given by its key or alias."""
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
        "set-up, check and warm-up; `program`: everything; else the first NVTX "
        "range of this name, `NAME` or `NAME@DOMAIN`. An external command has no "
        "visits: for it `visits` is the program.",
    )


def _collectors(*, judged: bool) -> str:
    """Names of collectors, for the docs."""
    return ", ".join(
        f"`{kind.name}`{f' (or `{kind.alias}`)' if kind.alias else ''}"
        for kind in COLLECTORS.values()
        if kind.judged == judged
    )


class Collect(SpecModel):
    """What to measure, how often, and under which conditions."""

    collectors: Collectors = Field(
        default=("ncu",),
        description="What times, counts or records the launches; docs/collectors.md says what "
        "each measures. The first that is asked for is judged, in this order: "
        f"{_collectors(judged=True)}. Never judged: {_collectors(judged=False)}.",
    )
    timeline: Timeline = Field(
        default_factory=Timeline, description="Timelines of `nsys` and `torch`."
    )
    device: Annotated[str, Strict(), Field(pattern=DEVICES)] = Field(
        default="auto",
        description="Where the workload runs: `auto` (a GPU if there is one), `cpu`, `cuda`, "
        "or `cuda:1`, the GPU with this number in nvidia-smi, among those that "
        "CUDA_VISIBLE_DEVICES leaves. Sessions see no other GPU.",
    )
    blocks: Blocks = Field(
        default=(8, 16, 32),
        description="Timing passes over all variants of a problem, each in a random order of "
        "its own, with the baseline twice. Several numbers are looks: after each "
        "but the last, only cells whose question is still open go on.",
    )
    final_blocks: Natural = Field(
        default=12,
        description="Passes that measure the variants that may be the best once more, so that "
        "the winner's number is less biased. 0: none. There are none below 6 "
        "blocks, or if a problem has only two variants.",
    )
    counter_samples: Positive = Field(
        default=1, description="Samples per cell of metrics that need several passes of a kernel."
    )
    ncu_timing: Annotated[bool, Strict()] = Field(
        default=True,
        description="Whether ncu times the blocks. `false`: ncu only counts, `counter_samples` "
        "times per cell, and the first other collector is judged; for durations beyond kernels, "
        "such as the gaps between those of a training step.",
    )
    explain: Annotated[bool, Strict()] = Field(
        default=True,
        description="Whether ncu explains a few cells, once: the best, the baseline and the "
        "best reference; of a ladder every step. See docs/explain.md.",
    )
    recheck: Annotated[bool, Strict()] = Field(
        default=True,
        description="Whether each variant is checked again after its last visit, on inputs that "
        "are overwritten in place. See docs/plausibility.md.",
    )
    warmups: Natural = Field(
        default=3,
        description="Launches before the first measured one. By CUPTI the check of a built library "
        "counts as one, and in later sessions a long launch of an earlier session.",
    )
    repeats: Positive = Field(default=20, description="Launches per visit under the timer.")
    sustained_s: Annotated[float, Strict(), Field(gt=0, le=60, allow_inf_nan=False)] = Field(
        default=5.0,
        description="Most seconds of a visit of `sustained`. A visit ends when clock and power "
        "have settled: after 1 s at the earliest, at the power limit after 2.5 s.",
    )
    metrics: Metrics = Field(
        default=("default",),
        description="Metrics or groups of the catalogue, raw ncu names, or formulas of your own.",
    )
    cache_control: Literal["launch", "all", "none"] = Field(
        default="launch",
        description="When the GPU's caches are emptied under ncu. `launch`: before each launch, so "
        "each of its kernels finds what earlier kernels of the launch left, as in a program. "
        "`all`: before each kernel, by ncu. `none`: never. See docs/timers.md.",
    )
    clock_control: Literal["none", "base", "boost"] = Field(
        default="none", description="Whether ncu locks the clocks; needs permission."
    )
    replay_mode: Literal["kernel", "range", "application"] = Field(
        default="kernel",
        description="How ncu repeats launches for several passes. `kernel`: each kernel alone. "
        "`range`: all of a visit, its kernels beside each other, for kernels that wait for one "
        "another. `application`: a whole program of yours. See docs/workloads.md.",
    )
    child_processes: Annotated[bool, Strict()] = Field(
        default=True,
        description="Whether ncu attaches to the child processes of the measured program. "
        "They make every launch slower, even while they sleep: 16 of them from 4 "
        "to 105 ms. `false` if the program itself makes the measured launches.",
    )
    recompile: Annotated[bool, Strict()] = Field(
        default=False,
        description="Whether each block has a process of its own that compiles anew, with empty "
        "caches of torch and Triton. The autotuner's choice is then drawn in each block, and "
        "intervals and verdicts include how much the draws differ. Takes a start and all "
        "compilations for each block. For workloads in Python.",
    )
    seed: Annotated[int, Strict(), Field(ge=0, le=LARGEST_INTEGER)] = Field(
        default=DEFAULT_SEED, description="Seed of the inputs and of the random orders."
    )
    time_limit_s: Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)] = Field(
        default=120.0, description="Seconds that one visit may take before it counts as hung."
    )

    @property
    def gpu_index(self) -> int | None:
        """Number of the requested GPU; None: the first."""
        _, colon, number = self.device.partition(":")
        return int(number) if colon else None

    @property
    def reads_counters(self) -> bool:
        """Whether some collector reads counters: ncu explains cells beside such a collector."""
        return any(map(has_counters, self.collectors))

    @property
    def own_metrics(self) -> tuple[Metric, ...]:
        """Metrics that the file defines."""
        return tuple(item.metric for item in self.metrics if isinstance(item, OwnFormula))

    @property
    def measured_metrics(self) -> tuple[str, ...]:
        """Metrics, groups and raw names to measure: the named ones and the inputs of formulas."""
        return tuple(
            name
            for item in self.metrics
            for name in (item.metric.needs if isinstance(item, OwnFormula) else (item,))
        )

    @property
    def shown_metrics(self) -> tuple[str, ...]:
        """Metrics to show in the order of the file, groups replaced by their members."""
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
