"""The data model: frozen data that passes between the stages.

Nothing here reads files, starts processes or knows pandas.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

SCHEMA_VERSION = 1
"""Version of every JSON document that this project writes."""

ALPHA = 0.05
"""Share of errors that verdicts allow; looks share it."""
FEWEST_BLOCKS = 6
"""Blocks that a verdict needs: the smallest two-sided p value of 5 pairs is 0.0625."""
FEWEST_TO_CONFIRM = 3
"""Fewest variants of a problem whose best is confirmed. Two have one ratio, which was not chosen
among several and flatters no variant."""
MARGIN_PCT = 1.0
"""Differences of duration up to this many percent are the same, unless a spec says otherwise."""

KERNEL_SEPARATOR = "; "
"""Between the distinct kernels of a sample in `kernel_names`."""

Scalar = str | int | float | bool | None
"""A scalar of YAML or JSON."""

Params = Mapping[str, Scalar]
"""The parameters of one variant or problem: a flat mapping of YAML scalars."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_.=-]+")
_MAX_SLUG = 96


EXPERIMENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""Pattern of an experiment's name, which names a folder under `reports/` and a gallery's page."""


def slug(name: str) -> str:
    """Id of a name, made of `[A-Za-z0-9_.=-]`.

    A name that had to be changed or cut gets six hex digits of its own hash, so that two names
    never share an id and an id never depends on its neighbours.
    """
    safe = _UNSAFE.sub("_", name).strip("_")
    if safe == name and len(name) <= _MAX_SLUG:
        return name
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:6]
    return f"{safe[: _MAX_SLUG - 7]}-{digest}"


def seconds_of(created: str) -> float:
    """Seconds since 1970 of a time in ISO 8601; 0 where the text is none."""
    try:
        return datetime.fromisoformat(created).timestamp()
    except (ValueError, OverflowError):
        return 0.0


@dataclass(frozen=True)
class Variant:
    """One kernel version or configuration of a workload."""

    id: str
    name: str
    params: Params = field(default_factory=dict)
    note: str = ""
    trust: str = ""
    """Why the variant passes although its numbers look IMPLAUSIBLE; empty: it does not pass."""
    tolerance: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Absolute and relative bound by dtype, for dtypes with bounds of the variant's own."""
    tags: tuple[str, ...] = ()
    """Groups of the variant."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of the process that measures the variant, beside those of all variants."""
    label: str = ""
    """Short text that no other variant of a report has; empty until findings give it."""

    @property
    def remark(self) -> str:
        """Tags, variables and note as pages show them beside the variant."""
        variables = " ".join(f"{name}={value}" for name, value in self.env.items())
        return ": ".join(part for part in (", ".join(self.tags), variables, self.note) if part)


ON_ZEROS: Params = MappingProxyType({"inputs": "zeros"})


@dataclass(frozen=True)
class Problem:
    """One set of sizes and types."""

    id: str
    name: str
    params: Params = field(default_factory=dict)
    on_zeros: bool = False
    """Whether the experiment made it as a copy of another problem with zeros as inputs. The copy
    has the parameter ON_ZEROS, which the workload does not see."""


@dataclass(frozen=True)
class Cell:
    """One variant on one problem; `id` is unique, stable and made of `[A-Za-z0-9_.=-]`."""

    id: str
    variant: Variant
    problem: Problem


def cell_id(variant: Variant, problem: Problem) -> str:
    """Id of the cell of a variant and a problem."""
    return f"{variant.id}..{problem.id}"


@dataclass(frozen=True)
class Exclusion:
    """A rule that removed variants, problems or cells from the plan, and how many."""

    reason: str
    count: int
    stage: str
    """What was counted: `variant`, `problem` or `cell`."""
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class OrderedParts:
    """Parts of an external command that follow on one another, each of the same launches."""

    axis: str
    """Parameter that the parts differ in."""
    values: tuple[Scalar, ...]
    """Values of the parameter, in the order in which the command goes through them."""
    launches: int
    """Matching launches of each part."""
    skip: int
    """Launches at the beginning of each part that are left out."""
    take: int
    """Launches after those that are samples of the part."""


@dataclass(frozen=True)
class RangeParts:
    """Parts of an external command by the NVTX ranges that the command pushes."""

    pattern: str
    """Regular expression of the names that count, with `domain@` before it for another domain than
    the default one."""
    kernels: int | None = None
    """Launches in one range; None: all consecutive launches in ranges of the same names."""
    skip: int = 0
    """Ranges of each part that are left out at the beginning."""
    take: int | None = None
    """Ranges after those that are samples of the part; None: all."""


Parts = OrderedParts | RangeParts
"""How the launches of an external command are sorted into parts, each a problem of its own."""


class SessionKind(StrEnum):
    """Purpose of a session, which decides metrics, blocks and passes."""

    TIMING = "timing"
    COUNTERS = "counters"
    FINAL = "final"
    """The finalists of each problem, measured once more: the winner's number is taken from it."""
    TIMELINE = "timeline"
    """Every operation of a few launches on a time axis; decides no verdict beside a timing."""
    EXPLAIN = "explain"
    """Every counter that tells why, once for a few cells; decides no verdict."""
    IN_KERNEL = "in_kernel"
    """Stamps of each warpgroup in builds of its own; decides no verdict."""
    CHECK = "check"
    """Whether the results of an external command are right; nothing is measured."""


@dataclass(frozen=True)
class Visit:
    """One measurement of one cell in one block; the smallest thing that resume can skip."""

    cell: str
    block: int
    arm: int = 0
    """1 for the second visit of the baseline in a block: its difference to the first is noise."""

    @property
    def key(self) -> tuple[str, int, int]:
        """Cell, block and arm, which identify a visit."""
        return self.cell, self.block, self.arm


@dataclass(frozen=True)
class SessionPlan:
    """One child process under one tool: which cells it visits, in which order.

    `visits` are grouped by problem (the cells of one problem share its inputs), then by block, and
    are in random order within a block.
    """

    name: str
    collector: str
    kind: SessionKind
    metrics: tuple[str, ...]
    """Names of the catalogue, or raw ncu names."""
    visits: tuple[Visit, ...]
    recompiles: bool = False
    """Whether each block has a process of its own, which compiles anew."""
    by_environment: bool = False
    """Whether variants have variables of their own: each environment has a process of its own."""

    @property
    def starts_anew(self) -> bool:
        """Whether the session's processes run no other session, and none starts before its turn."""
        return self.recompiles or self.by_environment


@dataclass(frozen=True)
class SearchPlan:
    """Variants that a search may propose, its objective and its budget."""

    strategy: str
    seed: int
    objective: str
    """`geomean`, `worst`, or the id of a problem."""
    variants: tuple[str, ...]
    """Ids of the variants that may be proposed; all have the same parameters."""
    problems: tuple[str, ...]
    """Ids of the problems that each proposal is measured at."""
    evaluations: int | None = None
    """Budget in evaluations, where the budget is not a time."""
    seconds: float | None = None
    """Budget in seconds, where the budget is a time."""
    left_out: int = 0
    """Variants with the same parameters that are excluded at one of these problems."""

    def is_spent(self, proposals: int, elapsed_s: float) -> bool:
        """Whether so many proposals, or so many seconds, are all of the budget."""
        if self.evaluations is not None:
            return proposals >= self.evaluations
        return self.seconds is not None and elapsed_s >= self.seconds


@dataclass(frozen=True)
class Plan:
    """Everything that will be measured, before anything is."""

    experiment: str
    seed: int
    cells: tuple[Cell, ...]
    excluded: tuple[Exclusion, ...]
    sessions: tuple[SessionPlan, ...]
    baseline: str | None = None
    """Id of the variant that ratios refer to."""
    references: tuple[str, ...] = ()
    """Ids of further variants that others are compared with: never called the best."""
    looks: tuple[int, ...] = ()
    """Numbers of blocks after which the timing is judged: after all but the last, cells whose
    question is answered drop out."""
    final_blocks: int = 0
    """Blocks in which the finalists are measured again; 0: never."""
    questions: tuple[str, ...] = ("best", "baseline")
    """Questions to the timing (`planning.questions`): cells whose questions are answered drop out
    after a look, and only `best` has a final."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Pairs of variants (ids, the later one first) that are compared at every problem, beside those
    with the baseline."""
    capability: str | None = None
    """Compute capability (`9.0`) of the GPU that the sessions are for; None: of any."""
    search: SearchPlan | None = None
    """Given where the cells are those of a search: the plan has no sessions then, and the measured
    cells are in the plan that `planning.plan.judged_plan` makes of it."""

    @property
    def variants(self) -> tuple[Variant, ...]:
        """Each variant of the plan once, in the order of the cells."""
        return tuple({cell.variant.id: cell.variant for cell in self.cells}.values())

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Each problem of the plan once, in the order of the cells."""
        return tuple({cell.problem.id: cell.problem for cell in self.cells}.values())

    @property
    def problem_of(self) -> dict[str, str]:
        """Id of the problem of each cell, by cell id."""
        return {cell.id: cell.problem.id for cell in self.cells}

    @property
    def baseline_cells(self) -> dict[str, Cell]:
        """The cell of the baseline at each problem, by the id of the problem."""
        return {cell.problem.id: cell for cell in self.cells if cell.variant.id == self.baseline}

    @property
    def env_of(self) -> dict[str, Mapping[str, str]]:
        """Variables of the process that measures a cell, by cell id."""
        return {cell.id: cell.variant.env for cell in self.cells}

    @property
    def rivals(self) -> tuple[Variant, ...]:
        """The variants that may be called the best: neither the baseline nor another reference."""
        references = {self.baseline, *self.references}
        return tuple(variant for variant in self.variants if variant.id not in references)

    @property
    def problems_to_confirm(self) -> frozenset[str]:
        """Ids of the problems that have enough variants for a final."""
        counts = Counter(cell.problem.id for cell in self.cells)
        return frozenset(id_ for id_, count in counts.items() if count >= FEWEST_TO_CONFIRM)

    @property
    def has_final(self) -> bool:
        """Whether a final is measured: not where its blocks are too few for a verdict.

        Nor where `questions` has no `best`, or where all problems have too few variants.
        """
        block_count = min(self.final_blocks, self.looks[-1] if self.looks else 0)
        is_possible = "best" in self.questions and block_count >= FEWEST_BLOCKS
        return is_possible and bool(self.problems_to_confirm)

    @property
    def confirmed_problems(self) -> frozenset[str]:
        """Ids of the problems whose best is confirmed; none where there is no final."""
        return self.problems_to_confirm if self.has_final else frozenset()


class Outcome(StrEnum):
    """Outcome of a cell."""

    MEASURED = "measured"
    DUPLICATE = "duplicate"
    """Same machine code as another variant, which was measured for both."""
    COMPILE_FAILED = "compile_failed"
    WRONG_RESULT = "wrong_result"
    RAISED = "raised"
    OUT_OF_MEMORY = "out_of_memory"
    ILLEGAL_ADDRESS = "illegal_address"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    FELL_BACK = "fell_back"
    """The cell launched other kernels than the variant's: the compiled function ran uncompiled."""
    NO_KERNEL = "no_kernel"
    """The range of the cell launched nothing that the tool saw."""
    PARTS_DIFFER = "parts_differ"
    """An external command did not launch what the parts of its workload say."""
    IMPLAUSIBLE = "implausible"
    """The cell's numbers cannot come from the work that the problem needs; the cause says why."""
    NOT_MEASURED = "not_measured"
    """No failure, but no sample: the run was interrupted, or the recording lacks the cell."""

    @property
    def correct(self) -> bool:
        """Whether the cell has a correct and measured result: all others have no rank."""
        return self in (Outcome.MEASURED, Outcome.DUPLICATE)

    @property
    def failed(self) -> bool:
        """Whether this outcome is the cell's own failure (exit code 4)."""
        return not self.correct and self is not Outcome.NOT_MEASURED


class Verdict(StrEnum):
    """Result of the comparison of a candidate with a baseline, by durations."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    """Shown to differ by less than the margin."""
    UNCLEAR = "unclear"
    """Measured, but not decided; the reason says why."""
    NO_DATA = "no data"

    @property
    def word(self) -> str:
        """Word of the verdict, as pages and tables show it."""
        return self.value.upper()

    @property
    def is_open(self) -> bool:
        """Whether more blocks could decide, or there were none."""
        return self in (Verdict.UNCLEAR, Verdict.NO_DATA)


@dataclass(frozen=True)
class TunedConfig:
    """One configuration that the autotuner tried, or only chose; unreported fields are None."""

    operation: str
    """Name of the generated kernel, or the operation with its shapes (`mm(64x64, 64x64)`)."""
    choice: str
    """Kind of the configuration: a name of inductor or of a library, or `coordinate descent`."""
    config: Params = field(default_factory=dict)
    """Block sizes, num_warps, num_stages and whatever else the text names."""
    time_ns: float | None = None
    """Time that the autotuner measured; None where the measurement failed or is not reported."""
    registers: int | None = None
    """Per thread."""
    spills: int | None = None
    """Registers that were spilled, as Triton counts them."""
    shared_bytes: int | None = None
    best: bool = False
    """Whether the autotuner chose the configuration."""


@dataclass(frozen=True)
class CellFacts:
    """Facts of a cell from the runner's journal, by the names of the journal and of metrics."""

    max_abs_error: float | None = None
    max_rel_error: float | None = None
    flops: float | None = None
    """Floating-point operations: those of matrix products alone where the problem has some."""
    non_matmul_flops: float | None = None
    """Floating-point operations beside matrix products."""
    bytes: float | None = None
    result_bytes: float | None = None
    """Size of the cell's result in the check."""
    result_dtypes: tuple[str, ...] = ()
    """Names of the dtypes of the cell's outputs; empty where no check saw them."""
    written_bytes: float | None = None
    """Size of what a launch writes, inputs left out; None of launches that write their inputs."""
    compile_seconds: float | None = None
    """Compilation and first call, of the session in which it took longest: later ones find it in
    a cache."""
    buffer_bytes: float | None = None
    """Device memory that one call allocates."""
    peak_bytes: float | None = None
    """Most device memory that one call holds at one time."""


@dataclass(frozen=True)
class UntimedWork:
    """Work of a launch that the sum of its kernels' durations leaves out; None: not known."""

    copies: float | None = None
    """Copies and fills of memory in a launch that are no kernels."""
    copied_bytes: float | None = None
    """Bytes of the copies of one dimension."""
    concurrent_kernels: float | None = None
    """Most kernels of a launch that can run at once, on several streams or by programmatic
    dependent launch."""
    waiting_ns: float | None = None
    """Time in ns between CUDA events around a launch that waits for the device, with what the host
    does in between; 0 for a launch that does not wait."""


@dataclass(frozen=True)
class Tuning:
    """Configurations that an autotuner tried for a cell, and sessions with other choices."""

    tried: tuple[TunedConfig, ...] = ()
    """Configurations that it tried in the session whose durations count; empty without tuning or
    without a record of it."""
    other_sessions: tuple[str, ...] = ()
    """Names of the sessions for which it chose another configuration."""

    @property
    def is_drawn(self) -> bool:
        """Whether it tried several configurations for one of the cell's kernels."""
        operations = [config.operation for config in self.tried]
        return len(set(operations)) < len(operations)


@dataclass(frozen=True)
class CellStatus:
    """Outcome of one cell with its cause, and what its sessions recorded of it."""

    cell: str
    outcome: Outcome
    cause: str = ""
    duplicate_of: str | None = None
    """Id of the cell whose samples this one shares."""
    missing_metrics: tuple[str, ...] = ()
    facts: CellFacts = field(default_factory=CellFacts)
    untimed: UntimedWork = field(default_factory=UntimedWork)
    tuning: Tuning = field(default_factory=Tuning)


@dataclass(frozen=True)
class KernelFacts:
    """Static facts of one `__global__` function, from ptxas."""

    name: str
    registers: int | None = None
    spill_store_bytes: int | None = None
    spill_load_bytes: int | None = None
    stack_bytes: int | None = None
    shared_bytes: int | None = None
    """Static shared memory; dynamic shared memory is only known at launch."""
    constant_bytes: int | None = None


@dataclass(frozen=True)
class BuildResult:
    """Result of the build of one variant."""

    variant: str
    """Variant id."""
    ok: bool
    library: str | None = None
    """Path of the shared library, None where the variant needs no build or the build failed."""
    recipe_hash: str | None = None
    """Hash of command line, compiler and sources: the name in the cache."""
    code_hash: str | None = None
    """Hash of the machine code (device code and launch code), not of the file."""
    program: str | None = None
    """Hash of the machine code and of the parameters that act at launch: measured once."""
    kernels: tuple[KernelFacts, ...] = ()
    serialized_wgmma: str = ""
    """Why ptxas serialised products of `wgmma`, where it did."""
    duplicate_of: str | None = None
    """Id of the first variant that is the same program."""
    error: str = ""
    """Error messages of the compiler."""
    command: str = ""
    cached: bool = False


FLUSHED_PER_LAUNCH = "launch"
"""Value of `cache_control` where caches are emptied before each launch, not each kernel of it."""


@dataclass(frozen=True)
class Environment:
    """Everything about the machine that could change a number; no names, no paths, no variables."""

    gpu: str | None = None
    gpu_uuid: str | None = None
    compute_capability: str | None = None
    sm_count: int | None = None
    memory_bytes: int | None = None
    l2_bytes: int | None = None
    driver: str | None = None
    cuda_driver: str | None = None
    nvcc: str | None = None
    ncu: str | None = None
    nsys: str | None = None
    """Version of nsys; None where no session needed nsys, or none is installed."""
    torch: str | None = None
    python: str | None = None
    cpu: str | None = None
    max_sm_clock_mhz: int | None = None
    max_memory_clock_mhz: int | None = None
    peak_dram_bytes_per_s: float | None = None
    clock_control: str | None = None
    cache_control: str | None = None
    """When the caches of the GPU were emptied: FLUSHED_PER_LAUNCH, `all` (before each kernel) or
    `none`."""
    git_commit: str | None = None
    git_dirty: bool | None = None
    profiler_version: str | None = None

    @property
    def processor(self) -> str | None:
        """Name of the GPU, or of the CPU where there is none; None where it was not recorded."""
        return self.gpu or self.cpu


class SessionStep(StrEnum):
    """Steps of the process of a session, in their order."""

    STARTS = "starts"
    """Loads the tool, Python, torch and the workload."""
    WAITS = "waits"
    """For its turn, or for its visits."""
    CONTEXT = "creates its context"
    MEASURES = "measures"
    """From its first visit to its last launch."""
    ENDS = "ends"


@dataclass(frozen=True)
class Span:
    """One step of one process, in seconds since the execution of a run began."""

    row: str
    """Folder of the attempt, or the profiler itself."""
    step: str
    """A SessionStep, or a description of the profiler's own step."""
    begin_s: float
    end_s: float
