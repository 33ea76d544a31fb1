"""Warnings as typed values that travel with the results, and the text of each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum, unique
from textwrap import shorten
from typing import Any


class Severity(StrEnum):
    """How far a notice limits the results."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@unique
class NoticeKind(Enum):
    """Every notice that can be attached to results: severity, text and remedy.

    Text and remedy are format strings over the values of a notice.
    """

    def __init__(self, severity: Severity, text: str, remedy: str = "") -> None:
        self.severity = severity
        self.text = text
        self.remedy = remedy

    @property
    def key(self) -> str:
        """Name in documents."""
        return self.name.lower()

    REPLAYED = (
        Severity.WARNING,
        "Replayed recording: measured on {gpu} at {when} with {ncu}, not on this machine.",
        "Run it on a machine with an NVIDIA GPU and ncu; --live refuses to replay.",
    )
    REPLAY_IGNORES = (
        Severity.WARNING,
        "A replay shows what was recorded and ignores {settings}.",
        "Measure on a machine with an NVIDIA GPU and ncu; --live refuses to replay.",
    )
    NO_GPU_VISIBLE = (
        Severity.WARNING,
        "No NVIDIA GPU was visible: these are times of the CPU ({cpu}).",
        "For a GPU, see nvidia-smi and CUDA_VISIBLE_DEVICES; in a container pass it through "
        "(--gpus all). Where the CPU is meant, say so: --device cpu.",
    )
    UNLOCKED_CLOCKS = (
        Severity.INFO,
        "The GPU's clocks were not locked (clock control: {clock_control}).",
        "Compare cycles beside durations, or set collect.clock_control to base where that is "
        "allowed.",
    )
    KERNELS_REPLAYED = (
        Severity.INFO,
        "Counters of {count} of the cells with several kernels were collected kernel by kernel, "
        "each with empty caches; when timed, later kernels may find in L2 what earlier ones left.",
        "Ask for counters that fit in one pass, or set collect.cache_control to all: then both are "
        "measured alike.",
    )
    PASSES_UNFLUSHED = (
        Severity.WARNING,
        "{session}: ncu took several passes for {count} of {total} launches that were planned for "
        "one, with empty caches in the first only: counters may have been counted with warm ones.",
        "Set collect.cache_control to all, and run the same command again.",
    )
    FEW_BLOCKS = (
        Severity.WARNING,
        "Only {blocks:timing block|timing blocks}: numbers are shown, but fewer than {needed} "
        "cannot support a verdict.",
        "Raise collect.blocks or pass --blocks {needed}.",
    )
    FEW_BLOCKS_FOR_FAMILY = (
        Severity.INFO,
        "{blocks} blocks give no verdict where one of {comparisons} variants alone differs from "
        "the baseline, unless by more than three times the margin: the smallest p value of their "
        "ranks, adjusted for {comparisons} comparisons, is {smallest}, and {looks_ask} "
        "for less than {level}. {needed} blocks can.",
        "Raise collect.blocks or pass --blocks {needed}.",
    )
    FAILED_CELLS = (
        Severity.ERROR,
        "{count} of {total} cells failed: {causes}.",
        "See the outcome column under Every cell; fix the variant and run the same command again. "
        "What does not fit into memory needs a smaller problem.",
    )
    WRONG_RESULTS = (
        Severity.ERROR,
        "{count:cell gave a wrong result and is|cells gave a wrong result and are} not ranked: "
        "{cells}.",
        "Compare the kernel with its reference at that problem.",
    )
    NOT_MEASURED = (
        Severity.WARNING,
        "{count} of {total} cells have no samples.",
        "Run the same command again: it measures only what is missing.",
    )
    NOT_RECORDED = (
        Severity.WARNING,
        "{count} of {total} cells are not in the recording: the rest is compared.",
        "Select recorded cells with --only, or measure on a machine with an NVIDIA GPU and ncu.",
    )
    OTHER_TIMER = (
        Severity.WARNING,
        "Durations and verdicts are those of {measured}: {planned}, which was to be judged, timed "
        "nothing. Timers measure different quantities.",
        "See which session failed or is missing, and measure again.",
    )
    MISSING_METRICS = (
        Severity.WARNING,
        "Metrics that were asked for and did not come back: {metrics} (in {count:cell|cells}).",
        "Counters need ncu among the collectors. Check their names with `ncu --query-metrics`; "
        "ncu drops unknown names silently.",
    )
    VALUES_MISSING = (
        Severity.WARNING,
        "In {count:cell|cells} half or more of the values of {metrics} are missing, up to {share} "
        "% of them ({cell}). What is shown is the median of the others.",
        "The tool's own output is in the folder of the attempt; measuring again may give them.",
    )
    PARTS_DISAGREE = (
        Severity.INFO,
        "{metric} is missing in {count:cell|cells}: its parts were counted in different launches, "
        "and disagree ({cells}).",
        "Ask for more samples (collect.counter_samples).",
    )
    RESULTS_OF_OTHER_TYPES = (
        Severity.WARNING,
        "Not all results have the type of the baseline's: {results}. Each passed the check by the "
        "tolerance of its own type, and times are compared as they are.",
        "Where the same work is to be compared, let all variants return the same type.",
    )
    OTHER_ENVIRONMENTS = (
        Severity.INFO,
        "Variants with variables of their own were measured in processes of their own "
        "({variants}): what two processes differ by, such as where their memory lies, is in no "
        "interval of a comparison with them.",
        "Run it again with --fresh, and compare the runs.",
    )
    TUNED_OTHERWISE = (
        Severity.WARNING,
        "For {count} of {total} tuned cells the compiler's autotuner chose another configuration "
        "in {sessions} than for the durations ({cells}): what was counted there is of another "
        "kernel.",
        "Take counters of these cells with care. Where two configurations take nearly as long, the "
        "choice is chance; from torch 2.13 on its cache keeps those with scaled blocks, too.",
    )
    ONE_DRAW = (
        Severity.WARNING,
        "Cells whose times are of one draw of the compiler's autotuner: {count}. Compiled again, "
        "they may be other programs, and no verdict or interval here holds that. Of 36 compiled "
        "cells of two runs, minutes apart on one H100 (fusion and fusion_grid, 26 November "
        "2026), 8 differ beyond their margins, by up to 1.199\N{MULTIPLICATION SIGN}.",
        "Compile anew for each block with collect.recompile: true; or run it again with --fresh, "
        "and compare the runs: each is a draw.",
    )
    DRAWS = (
        Severity.INFO,
        "Cells that the compiler's autotuner chose among several programs: {count}. Each of the "
        "{blocks} blocks was compiled anew, so that intervals and verdicts hold what its choices "
        "differ by; counters and configurations that are shown are of one choice.",
    )
    SERIALIZED_WGMMA = (
        Severity.WARNING,
        "Each product of wgmma waits for the one before, as ptxas serialised them for {reason}: "
        "{variants}.",
        "Asserts in the kernel are function calls, which -DNDEBUG in build.flags removes; else "
        "take fewer registers, or do not use the accumulators between products.",
    )
    DUPLICATE_CODE = (
        Severity.INFO,
        "The same program under two names, measured once: {pairs}.",
    )
    SESSION_DIED = (
        Severity.WARNING,
        "Session {session} ended early ({cause}); its {kept} samples were kept, the rest is left "
        "to another session.",
    )
    EXPLAINING_DIED = (
        Severity.INFO,
        "Session {session} ended early ({cause}), with {kept:cell|cells} explained. It decides "
        "nothing; the rest is left to another session.",
    )
    JOURNAL_ODD = (
        Severity.WARNING,
        "{file}: {count:record is|records are} damaged and skipped; what is said there counts as "
        "not measured.",
        "Run the same command again: it measures what is missing.",
    )
    JOURNAL_LINES_LOST = (
        Severity.WARNING,
        "{file}: lines are lost at {count:place|places}; what was said there counts as not "
        "measured.",
        "Run the same command again: it measures what is missing.",
    )
    KERNELS_UNCHECKED = (
        Severity.WARNING,
        "{session}: the kernels of {count:cell|cells} were not compared with what their variants "
        "should launch.",
        "Run the same command again: it checks them first.",
    )
    DURATIONS_IMPOSSIBLE = (
        Severity.WARNING,
        "{session}: {count} of {total} durations are zero or below, or of years; they are no "
        "measurement and were left out (of {cells}).",
        "Measure again with --fresh; if it stays so, choose another timer or larger problems.",
    )
    GPU_SHARED = (
        Severity.WARNING,
        "{session}: other processes had the GPU open while it was measured: {processes}.",
        "End them or choose another GPU with CUDA_VISIBLE_DEVICES, and measure again with --fresh: "
        "what they compute changes the numbers.",
    )
    SEVERAL_GPUS = (
        Severity.INFO,
        "Measured on {count} GPUs of one model: {workers}. Every ratio is of one GPU; times of "
        "problems on different GPUs also differ by what these GPUs do.",
    )
    TRUSTED = (
        Severity.WARNING,
        "{variant} is ranked whether or not its numbers are plausible{objection}. The experiment "
        "file says why: {reason}",
    )
    NOT_RECHECKED = (
        Severity.INFO,
        "{count:cell was|cells were} not checked again on new inputs after the last visit: "
        "{cause}.",
        "Let inputs of another seed differ in the elements of tensors alone, and leave memory for "
        "a second set of them; a workload may have `other_inputs` (docs/workloads.md).",
    )
    COPIES_NOT_TIMED = (
        Severity.WARNING,
        "{count} of {cells} cells also copy or fill memory by no kernel (cudaMemcpyAsync, "
        "cudaMemsetAsync), most {cell}: {copies} in a launch, {megabytes}. Durations of kernels, "
        "and verdicts on them, do not hold the time of that.",
        "`--timer` times whole launches by CUDA events; `--timeline` shows the copies.",
    )
    CONCURRENT_KERNELS = (
        Severity.WARNING,
        "{count} of {cells} cells have kernels that can run at once, on several streams or by "
        "programmatic dependent launch, most {cell}: {kernels}. ncu and CUPTI run kernels one at a "
        "time, and their durations are added: kernels that overlap take less together than is said "
        "here.",
        "`--timer` times whole launches by CUDA events, overlap included; `--timeline` shows which "
        "kernels overlap.",
    )
    WAITING_LAUNCHES = (
        Severity.WARNING,
        "{count} of {cells} cells wait for the device within a launch, longest {cell}: "
        "{milliseconds} by CUDA events, the host's work in between included. Durations of kernels "
        "do not hold the time of that.",
        "`--timer` times whole launches. What waits is a copy to the host (`.item()`, `.cpu()`), "
        "a size that the device decides (`x[mask]`, `nonzero`), or `synchronize`.",
    )
    COMPARED_IN_OWN_TYPES = (
        Severity.WARNING,
        "Results are compared with the baseline's own at {problems}: {cause}.",
        "Write the right result in plain operations with @….reference.",
    )
    RESULTS_UNCHECKED = (
        Severity.WARNING,
        "Results are unchecked: nothing tells whether the program computes what it should.",
        "Name a command that tells whether they are right (workload.check), or the exit code of "
        "success of a program that checks itself (workload.exit_code).",
    )
    DOUBTED_RESULTS = (
        Severity.WARNING,
        "{attempts:process|processes} ended as after success, and printed what reads as a wrong "
        "result: {line} ({attempt}).",
        "Let the program end with another exit code where a result is wrong.",
    )
    COMMON_VALUE = (
        Severity.WARNING,
        "At {count} of {problems:problem|problems} all elements of the right result are the same "
        "({value} at {first}): a kernel that reads or writes wrong places is right, too.",
        "Make inputs of different values, such as random ones.",
    )
    ZEROS_ARE_RIGHT = (
        Severity.WARNING,
        "In {count} of {cells} cells an output of zeros would be right, too, first in {cell}: the "
        "tolerance is larger than all of its values, and the check tells nothing.",
        "Give a smaller one (`relative: 0.01` is one percent), or none: results may then be off by "
        "what rounding explains.",
    )
    CHECK_TELLS_LITTLE = (
        Severity.WARNING,
        "In {count} of {cells} cells a wrong result may have passed the check, first in {cell}: "
        "{cause}.",
        "Make inputs, or a check, by which a result of zeros would be wrong.",
    )
    ROUNDING_ALLOWED = (
        Severity.INFO,
        "Some right results miss the default tolerance at {problems}. They may be off from the "
        "result in float64 by up to {most}, which rounding explains.",
        "Give a tolerance to allow less or more.",
    )
    UNCONFINED = (
        Severity.WARNING,
        "The candidate may have read more than its own file (in {count:cell|cells}): {why}.",
        "Judge it in a container that sees its own file alone (docs/referee.md).",
    )
    BYTES_TOO_FEW = (
        Severity.WARNING,
        "At {count} of {problems:problem|problems} fewer bytes are declared than the results alone "
        "have, such as {declared} of {written} at {first}: shares of a roof are too small.",
        "Let `bytes` count bytes: of all that a launch must read and write.",
    )
    LESS_EXACT = (
        Severity.WARNING,
        "Results of {variants} are less exact than the baseline's: their largest error is up to "
        "{factor} times as large, as if they were computed in a narrower type.",
        "Where that is not meant, give a tolerance that refuses it.",
    )
    ATTEMPT_LINKED = (
        Severity.WARNING,
        "{attempt} was not read: it is or holds a link, and links in a run folder are not "
        "followed.",
        "Put the file or folder itself in its place.",
    )
    ATTEMPT_DAMAGED = (
        Severity.WARNING,
        "{attempt} was not read: its session.json is damaged or gone, and what it measured is not "
        "known.",
        "Run the same command again: it measures what is missing.",
    )
    SEARCH_DAMAGED = (
        Severity.WARNING,
        "{file} is damaged: what the search proposed is not known. What was measured after it is "
        "not affected.",
        "Take another copy of the run; --fresh searches again.",
    )
    SEARCH_LINES_LOST = (
        Severity.WARNING,
        "{file}: {count:record is damaged, or of a configuration of which others are lost; it does|"
        "records are damaged, or of configurations of which others are lost; they do} not count.",
    )
    ATTEMPT_FILE_DAMAGED = (
        Severity.WARNING,
        "{file} is damaged and was not used; the rest of its attempt was.",
        "Run the same command again: it measures or checks what is missing.",
    )
    NO_BASELINE = (
        Severity.WARNING,
        "Ratios are missing at {problems}: no sample of the baseline {baseline}.",
    )
    NOISE_FLOOR_UNKNOWN = (
        Severity.INFO,
        "The baseline was measured once per block at {problems}: how much its own time varies is "
        "not known, and verdicts rest on the margin of {margin} alone.",
        "Measure again: newer runs have the baseline twice in every block.",
    )
    NOISE_FLOOR_ABOVE_MARGIN = (
        Severity.WARNING,
        "The baseline varies by more than the margin of {margin} at {problems}{most}: "
        "differences below {floor} cannot be seen there.",
        "Lock the clock, run nothing else meanwhile, or measure more blocks; else what is called "
        "the same is so within the noise floor.",
    )
    MIXED_LAUNCHES = (
        Severity.WARNING,
        "Launches within a visit differ by more than visits do, up to {spread} times, in "
        "{count:cell|cells} ({cells}): they are of several kinds; there is no verdict there.",
        "Leave trials of an autotuner and warm-ups out by workload.launch_skip and launch_count, "
        "and tell sizes apart by workload.parts (docs/own-programs.md).",
    )
    SLOW_VISITS = (
        Severity.INFO,
        "Slow visits of {cell}: {count} of {visits} took {factor} the median{p95}{more}. "
        "Ratios and verdicts are of medians.",
        "Where every launch counts, compare 95th percentiles too (slow_visits in the JSON).",
    )
    BASELINE_SHIFTED = (
        Severity.WARNING,
        "The baseline took {longer} when it was measured again for confirmation, by {shift} at "
        "{worst} (beyond the margin of {margin} at {problems}).",
        "Compare ratios within the confirmation only, not its durations with those of the timing "
        "blocks; check clock and temperature.",
    )
    ORDER_REVERSED = (
        Severity.WARNING,
        "{older} was measured after {newer}: ratios are newer / older in the order given.",
        "Name the older run first.",
    )
    NOT_COMPARABLE = (
        Severity.WARNING,
        "No verdict on durations between {older} and {newer}: {why}. The numbers are shown.",
        "Measure both versions on one machine with the same settings, best in one experiment.",
    )
    NO_CONTROL = (
        Severity.WARNING,
        "No baseline that is the same program in {older} and {newer}: nothing tells a slower "
        "kernel from a slower run.",
        "Give the experiment a baseline that does not change, or name one with --baseline.",
    )
    CLOCK_MOVED = (
        Severity.WARNING,
        "The SM clock differs by {percent}\u202f% between {older} and {newer}; margins are at "
        "least that wide.",
        "Set collect.clock_control to base where that is allowed, or measure again.",
    )
    FILES_EDITED = (
        Severity.WARNING,
        "Source files differ between {older} and {newer}: {files}. Which of {variants} variants "
        "use what was edited is not known; they are taken to be the same programs.",
        "Name a variant that did not change with --baseline; variants of a Python experiment "
        "(docs/python.md) are told apart.",
    )
    ANOTHER_GPU = (
        Severity.INFO,
        "Measured on different GPUs of one model ({gpu}): one chip is not as fast as another, and "
        "only ratios to the baseline are compared.",
    )
    REDEFINED_PROBLEMS = (
        Severity.WARNING,
        "Problems of one name have other parameters in {older} than in {newer}, and are not "
        "compared: {problems}.",
    )
    DIFFERENT_EXPERIMENTS = (
        Severity.WARNING,
        "Runs of different experiments: {experiments}. Cells are joined by variant and problem.",
    )
    CSV_UNREADABLE = (
        Severity.WARNING,
        "{file}: cannot be read, though its session ended well: what it held counts as not "
        "measured.",
        "Restore the file, or measure again.",
    )
    CSV_TRUNCATED = (
        Severity.WARNING,
        "{file}: ends in the middle of a row; the {rows} complete rows before it were kept.",
    )
    CSV_BAD_ROWS = (
        Severity.WARNING,
        "{file}: {count:row does not fit the header and was|rows do not fit the header and were} "
        "left out (first at line {line}).",
        "A double quote inside an NVTX range name breaks ncu's CSV: keep to [A-Za-z0-9_.=:;|-].",
    )
    SOURCE_BAD_ROWS = (
        Severity.WARNING,
        "{file}: {count:row of the source page does not fit its header and was|rows of the source "
        "page do not fit their header and were} left out (first "
        "at line {line}).",
    )
    CSV_BAD_CELLS = (
        Severity.WARNING,
        "{file}: {metric}: {count:value is not a number and is|values are not numbers and are} "
        "treated as missing (first: {example}).",
    )
    CSV_NO_DURATIONS = (
        Severity.WARNING,
        "{file}: {metric}: {count:value is no duration and is|values are no durations and are} "
        "treated as missing (first: {example}).",
    )
    IMPORT_OF_GPUS = (
        Severity.WARNING,
        "The files are of different GPUs: {gpus}. Medians of a kernel are of launches on all of "
        "them, and a difference of two files is the GPUs', too.",
    )
    CSV_NO_UNITS = (
        Severity.WARNING,
        "{file}: no units row; values are taken as base units (ns, byte, cycle, %).",
    )
    CSV_ODD_UNIT = (
        Severity.WARNING,
        "{file}: {unit} is no unit of {metric}: its values are treated as missing.",
    )
    CSV_REPEATED_COLUMN = (
        Severity.WARNING,
        "{file}: {metric} has several columns, which differ in {count:row|rows}: its values there "
        "are treated as missing.",
    )
    IMPORT_NOT_READ = (
        Severity.WARNING,
        "{file}: {what}: not read.",
    )
    CSV_NO_LAUNCHES = (
        Severity.WARNING,
        "{file}: a table of ncu without a launch.",
        "ncu saw no kernel that its filters let through, or the file was cut off: profile again.",
    )
    CSV_REPEATED_ROWS = (
        Severity.WARNING,
        "{file}: {count:row is of a launch that has|rows are of launches that have} a row before, "
        "which counts.",
    )
    VISITS_LOST = (
        Severity.WARNING,
        "{session}: {count:visit|visits} of {cells:cell was|cells were} made, and no file has "
        "their numbers.",
        "Run the same command again: it measures what is missing.",
    )
    CSV_TOOL_MESSAGE = (Severity.WARNING, "{file}: ncu printed: {text}")
    BLOCKS_THROTTLED_MEASURED_AGAIN = (
        Severity.WARNING,
        "{session}: the GPU was throttled ({reasons}) during {count:block, which was|blocks, "
        "which were} measured again; the first measurement without throttling counts.",
        "Check the cooling and the power supply of the GPU if this comes back.",
    )
    BLOCKS_STILL_THROTTLED = (
        Severity.WARNING,
        "{session}: {count:block has|blocks have} no measurement without throttling ({reasons}), "
        "after at most {rounds} repeats; their first numbers are used.",
        "Let the GPU cool down, or lock a lower clock (`nvidia-smi --lock-gpu-clocks`), and run "
        "with --fresh.",
    )
    POWER_CAPPED = (
        Severity.INFO,
        "{session}: NVML named the power limit during {share} of the visits; {clocks}.",
        "Compare cycles beside durations: near the limit, a kernel that draws more runs at a lower "
        "clock.",
    )
    CLOCK_SPREAD = (
        Severity.WARNING,
        "{session}: the SM clock of a kernel moved by {spread} between its launches; all ran at "
        "{clocks}.",
        "Compare cycles beside durations, or lock the clock (`nvidia-smi --lock-gpu-clocks`).",
    )
    CLOCKS_DIFFER = (
        Severity.INFO,
        "The SM clock differs by more than {limit} from the baseline's in {count} of {total} "
        "comparisons; most at {cell}: {clocks}. Its ratio of cycles is {ratio} that of durations.",
        "Read the ratio of cycles beside that of durations; `collect.collectors: [ncu, sustained]` "
        "has the clock that the power limit leaves (docs/sustained.md).",
    )
    NOT_SETTLED = (
        Severity.WARNING,
        "{session}: clock or power had not settled at the end of {count} of {total} visits; "
        "{cells}.",
        "Raise collect.sustained_s, and see who else uses the GPU.",
    )
    LAUNCHES_WITH_GAPS = (
        Severity.WARNING,
        "{session}: launches of {cells} have gaps between them: they cannot be captured in a CUDA "
        "graph, and the host takes longer for them than the GPU.",
        "Compare them by one launch (ncu), or make the launch one that can be captured.",
    )


@dataclass(frozen=True)
class Notice:
    """One warning: its kind, and the values that its text needs."""

    kind: NoticeKind
    values: Mapping[str, str | int | float] = field(default_factory=dict)


_CLOCK_NOTICES = frozenset(
    {
        NoticeKind.UNLOCKED_CLOCKS,
        NoticeKind.BLOCKS_THROTTLED_MEASURED_AGAIN,
        NoticeKind.BLOCKS_STILL_THROTTLED,
        NoticeKind.POWER_CAPPED,
        NoticeKind.CLOCK_SPREAD,
        NoticeKind.CLOCKS_DIFFER,
    }
)
"""Notices about the GPU's clocks, of which each session has its own."""
_SEVERITIES = (Severity.ERROR, Severity.WARNING, Severity.INFO)
_SEVERITY_NOUNS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_CLAUSE_END = re.compile(r"[:;.]\s| \(")


@dataclass(frozen=True)
class FoldedNotice:
    """Notices of one kind, or on the GPU's clocks, as one line."""

    severity: Severity
    """Severity of the most serious part."""
    text: str
    remedy: str
    parts: tuple[Notice, ...]
    """The folded notices; the line of a single notice is its whole text."""


def fold(notices: Iterable[Notice]) -> tuple[FoldedNotice, ...]:
    """Notices in their order, with all notices of one kind, and all on the GPU's clocks, as one."""
    groups: dict[str, list[Notice]] = {}
    for notice in {text(notice): notice for notice in notices}.values():
        key = "clocks" if notice.kind in _CLOCK_NOTICES else notice.kind.key
        groups.setdefault(key, []).append(notice)
    return tuple(_folded(key, tuple(parts)) for key, parts in groups.items())


def in_one_line(folded: Sequence[FoldedNotice]) -> str:
    """Numbers of notices by severity, and the first clause of each, the most serious first."""
    ordered = sorted(folded, key=lambda notice: _SEVERITIES.index(notice.severity))
    counts = Counter(notice.severity for notice in ordered)
    numbers = ", ".join(counted(count, _SEVERITY_NOUNS[kind]) for kind, count in counts.items())
    clauses = [_first_clause(notice.text).rstrip(".") for notice in ordered]
    clause_list = "; ".join(
        shorten(clause, _LONGEST_CLAUSE, placeholder="\u2026") for clause in clauses
    )
    return f"{numbers} (in full with --verbose, and in the page): {clause_list}."


_LONGEST_CLAUSE = 120
"""Characters of a clause among others in one line."""


def _first_clause(sentence: str) -> str:
    """Text before the first end of a clause; one word or two (`ncu printed`) are no clause."""
    first, *rest = _CLAUSE_END.split(sentence, maxsplit=1)
    return f"{first}: {_first_clause(rest[0])}" if rest and first.count(" ") < 2 else first


def severity(notice: Notice) -> Severity:
    """Severity of a notice."""
    return notice.kind.severity


_MOST_LETTERS = 2000


class _Count(int):
    """A number that `{count:cell is|cells are}` formats with the singular or the plural."""

    def __format__(self, spec: str) -> str:
        singular, is_either, plural = spec.partition("|")
        if not is_either:
            return super().__format__(spec)
        return counted(int(self), singular, plural)


def counted(count: int, noun: str, plural: str = "") -> str:
    """A count and its noun: `1 cell`, `2 cells`; `plural` where no `s` makes it."""
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def all_problems(count: int) -> str:
    """`both problems`, `all 3 problems`."""
    return "both problems" if count == 2 else f"all {count} problems"


def first_names(names: Sequence[str], most: int = 4) -> str:
    """The first of many names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def text(notice: Notice) -> str:
    """The sentence of a notice."""
    return notice.kind.text.format_map(_formatted_values(notice.values))


def remedy(notice: Notice) -> str:
    """Suggested action; empty where none is needed."""
    return notice.kind.remedy.format_map(_formatted_values(notice.values))


def counted_kind(count: int, kind: str) -> str:
    """A count with its kind, given in the singular: `1 row that cannot be read`."""
    return f"{count} {kind}" if count == 1 else f"{count} \u00d7 {kind}"


def _formatted_values(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _Count(value) if type(value) is int else _shortened(value)
        for key, value in values.items()
    }


def _shortened(value: Any) -> Any:
    """A value, or a long text without its middle: a cell of a file may have megabytes."""
    too_long = isinstance(value, str) and len(value) > _MOST_LETTERS
    return (
        f"{value[: _MOST_LETTERS // 2]}\u2026{value[-_MOST_LETTERS // 2 :]}" if too_long else value
    )


def _folded(key: str, parts: tuple[Notice, ...]) -> FoldedNotice:
    worst = min(map(severity, parts), key=_SEVERITIES.index)
    if len(parts) == 1:
        return FoldedNotice(worst, text(parts[0]), remedy(parts[0]), parts)
    remedies = tuple(dict.fromkeys(filter(None, map(remedy, parts))))
    return FoldedNotice(worst, _folded_text(key, parts), remedies[0] if remedies else "", parts)


def _folded_text(key: str, parts: tuple[Notice, ...]) -> str:
    """Sentence for several notices."""
    if key != "clocks":
        return f"{text(parts[0])} ({len(parts) - 1} more like it)"
    sessions = {notice.values["session"] for notice in parts if "session" in notice.values}
    unlocked = any(notice.kind is NoticeKind.UNLOCKED_CLOCKS for notice in parts)
    throttled = any(notice.kind is NoticeKind.BLOCKS_STILL_THROTTLED for notice in parts)
    lead = "The GPU's clocks were not locked" if unlocked else "The GPU's clock was not constant"
    tail = " and some blocks were measured throttled only" if throttled else ""
    in_sessions = counted(len(sessions), "session")
    return f"{lead}: the clock moved or was held back in {in_sessions}{tail}."
