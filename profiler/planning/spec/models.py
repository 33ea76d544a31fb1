"""The experiment file as pydantic models: every key, its type, its default and its meaning."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    Strict,
    WithJsonSchema,
    model_validator,
)

from profiler.collect.registry import COLLECTORS, kinds_of
from profiler.collect.timer import WALL_CLOCK
from profiler.model import EXPERIMENT_NAME, FLUSHED_PER_LAUNCH, MARGIN_PCT
from profiler.planning.page_kinds import PAGE_KINDS, Question, questions_of
from profiler.planning.spec.collect import Collect
from profiler.planning.spec.cuda_file import is_cuda_file, with_joined_lists
from profiler.planning.spec.items import (
    DEFAULT_PROBLEM,
    Item,
    Problems,
    Rules,
    Tolerances,
    Variants,
)
from profiler.planning.spec.values import (
    LARGEST_INTEGER,
    MAX_COUNT,
    Name,
    Names,
    OrSingle,
    ParameterName,
    SpecModel,
    Text,
    as_list,
    unique,
    wrong,
)
from profiler.planning.spec.workloads import CommandWorkload, ModuleWorkload, Workload
from profiler.search import REMOVED_STRATEGIES

DEFAULT_COMPILE_LIMIT_S = 1800.0
"""The slowest kernels of FlashAttention and CUTLASS take minutes."""

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
    """An argument of nvcc; ValueError for two in one text, or for one that is set elsewhere."""
    if re.match(r"-\S+\s+-", value):
        flags = ", ".join(value.split())
        raise wrong(f"each argument of nvcc is an entry of its own: [{flags}], not {value!r}")
    if re.match(r"(-arch|-gencode|-code|--gpu-\w+|--generate-code)\b", value):
        raise wrong(f"{value!r}: the architecture stands in `arch: sm_90`, beside `flags`")
    return value


if TYPE_CHECKING:
    PageKindName = str
else:
    PageKindName = Literal[tuple(PAGE_KINDS)]
    """A name of the registry: a kind that is added there can be named in a spec."""


ParameterNames = Annotated[
    tuple[ParameterName, ...], BeforeValidator(as_list), AfterValidator(unique), OrSingle()
]


class Page(SpecModel):
    """What the page shows."""

    kind: PageKindName = Field(
        default="versions",
        description="; ".join(f"`{kind.name}`: {kind.shows}" for kind in PAGE_KINDS.values()) + ".",
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
        description="Names of variants, such as a library's: the others are compared with them, "
        "and they are never called the best. The baseline always is a reference. A reference that "
        "is excluded, for example because it needs another GPU, is left out.",
    )

    weights: ParameterName | None = Field(
        default=None,
        description="Parameter of problems: how often a step of a program calls each. The "
        "page adds up the time of the step with each variant (docs/capture.md).",
    )
    step_ms: Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="With `weights`: milliseconds of the whole step."
    )
    step_note: Text = Field(
        default="", description="With `weights`: a sentence about the step, for the page."
    )

    @model_validator(mode="after")
    def _axes_are_not_split(self) -> Self:
        if len(self.axes) == 1:
            raise wrong("axes: name two parameters, that of the rows and that of the columns")
        shared_name = next((name for name in self.split if name in self.axes), None)
        if shared_name is not None:
            raise wrong(f"split: '{shared_name}' is an axis already")
        return self


GEOMEAN, WORST = "geomean", "worst"
"""Objectives over all problems; any other one names a problem."""
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(s|min|h)")
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}
_MAX_SECONDS = 7 * 24 * 3600.0


def duration_seconds(budget: int | str) -> float | None:
    """Seconds of a time budget; None for a budget of evaluations."""
    match = _DURATION.fullmatch(budget) if isinstance(budget, str) else None
    return None if match is None else float(match[1]) * _SECONDS[match[2]]


def _check_budget(value: object) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_COUNT:
        return value
    seconds = duration_seconds(value) if isinstance(value, str) else None
    if isinstance(value, str) and seconds is not None and 0 < seconds <= _MAX_SECONDS:
        return value
    raise wrong(
        f"must be a number of evaluations (1 to {MAX_COUNT}) or a time of at most a week "
        f"(90 s, 10 min, 1.5 h), not {value!r}"
    )


def _refuse_removed(strategy: object) -> object:
    if isinstance(strategy, str) and strategy in REMOVED_STRATEGIES:
        raise wrong(REMOVED_STRATEGIES[strategy])
    return strategy


class Search(SpecModel):
    """How a search goes through the variants, and when it ends."""

    strategy: Annotated[
        Literal["portfolio", "model", "random", "exhaustive"], BeforeValidator(_refuse_removed)
    ] = Field(default="portfolio", description="What proposes configurations (docs/search.md).")
    budget: Annotated[
        int | str,
        PlainValidator(_check_budget),
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "integer", "minimum": 1, "maximum": MAX_COUNT},
                    {"type": "string", "pattern": f"^{_DURATION.pattern}$"},
                ]
            }
        ),
    ] = Field(
        default=120,
        description="Number of evaluations, failed ones included; or a time (`10 min`, `90 "
        "s`, `1.5 h`) after which no configuration is proposed.",
    )
    objective: Name = Field(
        default=GEOMEAN,
        description="Minimised: time ÷ time of the baseline, as geometric mean over the "
        "problems (`geomean`), at the problem where the ratio is largest "
        "(`worst`), or at the problem of this name.",
    )
    seed: Annotated[int, Strict(), Field(ge=0, le=LARGEST_INTEGER)] = Field(
        default=1, description="Seed of the strategy."
    )


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
        description="What the inputs hold: a text about the distribution of their values, "
        "which the page shows under How it was measured. Or a list of the values "
        "to measure each problem on: `normal` as the workload makes them, `zeros` "
        "with 0 in all tensors of floating point. `zeros` is a problem of its own "
        "(`inputs: zeros`) and shows the power that the values cost.",
    )
    changes: Text = Field(
        default="",
        description="How the sources of the variants differ, as `git diff` prints it. The page has "
        "it, folded; `compare` of git revisions writes it.",
    )
    workload: Workload = Field(
        description="The kernels to run: a module, a file, or a mapping for a module or a command."
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
        description="Tolerances by dtype of the output, with `default` for the rest; "
        "`{relative: 1e-2}` is short for a `default`. Default: the workload's own.",
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
        description="Questions for the timing; cells go on to the next look while a question about "
        "them is open. `best`: which variant is the best at each problem, and whether it differs "
        "from the baseline; `baseline`: which others differ from the baseline; `steps`: whether "
        "each variant differs from the one before it; `effects`: whether variants that differ in "
        "one parameter (of `page.parameters`) do. Only `best` has a confirmation. Default: `best` "
        "and `baseline`; with a page of kind `progression` also `steps`, of kind `ablation` also "
        "`effects`.",
    )
    search: Search | None = Field(
        default=None,
        description="Search the variants instead of measuring each; then compare the best "
        "found, the baseline and the references. See docs/search.md.",
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
        text_by_kind = {"normal": "as the workload makes them", "zeros": "zeros"}
        return (
            f"Each problem on inputs {' and on '.join(text_by_kind[kind] for kind in self.inputs)}."
        )

    @property
    def all_questions(self) -> tuple[Question, ...]:
        """Questions of the experiment: the named ones, else those of its kind of page."""
        return questions_of(self.questions, self.page.kind)

    @property
    def cache_control(self) -> str:
        """When caches are emptied: `collect.cache_control`, as far as it is possible.

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
        has_listed_launches = any(item.launches for item in self.variants.list or ())
        if has_listed_launches and not is_cuda_file(self.workload.model_dump()):
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
                "clock: leave out --timer, --fast and this key (docs/referee.md)"
            )
        if any(item.env for item in self.variants.list or ()):
            raise wrong("variants: the referee gives every process the same variables; no `env`")
        return self

    @model_validator(mode="after")
    def _inputs_fit(self) -> Self:
        workload, is_text = self.workload, isinstance(self.inputs, str)
        if self.inputs == "zeros":
            raise wrong("inputs: a text only describes them; to measure on zeros: inputs: [zeros]")
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
                "a timer (--timer, --fast) needs a workload in Python"
            )
        return self
