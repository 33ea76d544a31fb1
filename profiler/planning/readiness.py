"""Checks, before a run, that the files an experiment names exist and its blocks suffice.

Syntax trees and files only: nothing of the user's runs here, and no GPU is needed.

How many blocks a verdict needs follows from the p value of a signed-rank test on n blocks, which is
at least 2^-n, that of all blocks on one side. Of several comparisons that are judged together it is
adjusted for their number where no other pair differs (Benjamini and Hochberg), and each look has
its part of the errors allowed.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from profiler.collect.programs import find_program
from profiler.errors import SpecError, nearest_file
from profiler.kernels.arithmetic import ExpressionError, parse
from profiler.metrics.queries import COMMONEST_CAPABILITY, correction_of_name, is_raw_name
from profiler.model import ALPHA, FEWEST_BLOCKS, Environment, Plan
from profiler.notices import Notice, NoticeKind, first_names, remedy, text
from profiler.planning.cuda_file import Fault, cuda_faults, cuda_notes
from profiler.planning.matrix import value_text
from profiler.planning.plan import command_values, variants_without_problem
from profiler.planning.python_files import function_faults, unread_names
from profiler.planning.space import Space
from profiler.planning.spec import (
    CommandWorkload,
    CudaWorkload,
    Experiment,
    LoadedSpec,
    ModuleWorkload,
)
from profiler.planning.spec.source import FieldPath, kind_of, respelled_words

NEEDED = {
    "make_inputs": ("problem", "device", "seed"),
    "prepare": ("variant", "problem", "inputs", "library"),
}
RESULTS = {"reference": ("problem", "inputs"), "expected": ("variant", "problem", "inputs")}
"""Functions that give the right result, with their arguments: one of them is needed."""
_OF_RUNNER = ("warmups", "repeats", "sustained_s", "recompile", "recheck")
"""Settings under `collect` of visits inside a process, which a command has not."""
_DEBUGGED = frozenset({"-G", "--device-debug"})
_READ_AS = {"on": "true", "yes": "true", "off": "false", "no": "false"}
"""Words that YAML reads as others where they stand without quotes."""
OPTIONAL = ("TOLERANCES", "flops", "bytes", "non_matmul_flops", "other_inputs")


def check_ready(
    loaded: LoadedSpec, plan: Plan, space: Space, *, capability: str | None = None
) -> tuple[str, ...]:
    """Sentences to warn of; raises SpecError with a line for each missing file or function.

    `capability`: compute capability of the GPU to measure on; None where that is not known, and
    names of metrics are then only warned of.
    """
    complaints = list(_complaints(loaded, plan, space))
    misspelled = list(_misspelled(loaded, capability or COMMONEST_CAPABILITY))
    if capability is not None:
        complaints += misspelled
    if complaints:
        errors = [loaded.error(field, message) for field, message in complaints]
        raise SpecError("\n".join(dict.fromkeys(error.message for error in errors)))
    notes = [] if capability else [f"{message} (on a GPU of 9.0)" for _, message in misspelled]
    return (
        *notes,
        *loaded.notes,
        *_rule_notes(loaded.experiment, plan),
        *_condition_notes(loaded.experiment, plan),
        *_flag_notes(loaded.experiment),
        *_module_notes(loaded),
        *cuda_notes(loaded, plan),
        *_command_notes(loaded, plan),
        *_nowhere_notes(loaded, plan, space),
        *_verdict_notes(plan),
    )


def unchecked_notice(experiment: Experiment) -> Notice | None:
    """Notice that nothing checks the results of a command; None where a check does."""
    workload = experiment.workload
    if not isinstance(workload, CommandWorkload):
        return None
    is_checked = workload.check is not None or workload.exit_code is not None
    return None if is_checked else Notice(NoticeKind.RESULTS_UNCHECKED)


def cpu_notice(experiment: Experiment, environment: Environment) -> Notice | None:
    """Notice that times are of the CPU because no GPU is visible.

    None where one is, or the CPU was asked for.
    """
    is_asked_for = experiment.collect.device != "auto"
    is_program = isinstance(experiment.workload, CommandWorkload)
    if environment.gpu or not environment.cpu or is_asked_for or is_program:
        return None
    return Notice(NoticeKind.NO_GPU_VISIBLE, {"cpu": environment.cpu})


def _verdict_notes(plan: Plan) -> Iterator[str]:
    """Note that the blocks are too few for a verdict, and how many suffice."""
    if notice := few_blocks_notice(plan):
        yield f"{text(notice)} {remedy(notice)}"


def _nowhere_notes(loaded: LoadedSpec, plan: Plan, space: Space) -> Iterator[str]:
    """Sentences on variants that are measured nowhere, as no problem meets their condition."""
    if any(item.stage == "cell" and item.count for item in plan.excluded):
        names_by_reason: dict[str, list[str]] = {}
        for name, reason in variants_without_problem(loaded, space).items():
            names_by_reason.setdefault(reason, []).append(name)
        for reason, names in names_by_reason.items():
            verb = "is" if len(names) == 1 else "are"
            yield f"{first_names(names)} {verb} measured at no problem: {reason}."


def _complaints(loaded: LoadedSpec, plan: Plan, space: Space) -> Iterator[Fault]:
    workload = loaded.experiment.workload
    if isinstance(workload, CommandWorkload):
        yield from _command_faults(workload, loaded.base, plan)
        return
    field: FieldPath = ("workload",)
    if isinstance(workload, CudaWorkload) and workload.source is not None:
        field = ("workload", "source")
    yield from ((field, message) for message in _missing_sources(plan, space, loaded.base))
    if isinstance(workload, ModuleWorkload):
        yield from _module_faults(workload, loaded.base)
    elif isinstance(workload, CudaWorkload):
        if loaded.experiment.collect.device == "cpu":
            yield (
                ("collect", "device"),
                "the kernels of a .cu file do not run on a CPU; `python -m profiler build SPEC "
                "--arch sm_90` compiles them without a GPU",
            )
        yield from cuda_faults(loaded, plan)


def _rule_notes(experiment: Experiment, plan: Plan) -> Iterator[str]:
    """Sentences on rules about the text of a number, or the reverse, which hold for no cell."""
    values: dict[str, dict[str, str | int | float | None]] = defaultdict(dict)
    for cell in plan.cells:
        for name, value in {**cell.variant.params, **cell.problem.params}.items():
            values[name][value_text(value)] = value
    variants, problems = experiment.variants, experiment.problems
    for rule in (*experiment.exclude, *variants.exclude, *variants.trust, *problems.exclude):
        for name, condition in rule.when.items():
            for given in (*(condition.any_of or ()), *(condition.none_of or ())):
                text_of_value = _READ_AS.get(value_text(given), value_text(given))
                value = values[name].get(text_of_value, given)
                if isinstance(given, str) != isinstance(value, str):
                    kinds = f"{kind_of(given)} in the rule '{rule.name}', and {kind_of(value)}"
                    yield (
                        f"{value_text(given)} is {kinds} among the values of '{name}': they are "
                        "never equal. Write both with quotes, or both without."
                    )


def _condition_notes(experiment: Experiment, plan: Plan) -> Iterator[str]:
    """Sentences on conditions of variants that are numbers (`n % 128`), which all but 0 meet."""
    for item in experiment.variants.list or ():
        if item.when is None:
            continue
        for problem in plan.problems:
            names = {"variant": item.name or "", "problem": problem.name}
            with suppress(ExpressionError):
                value = parse(item.when).value({**item.params, **problem.params, **names})
                if not isinstance(value, bool) and value not in (0, 1, None):
                    yield (
                        f"The condition '{item.when}' is {value} at {problem.name}, and any number "
                        "but 0 counts as true: write a comparison, such as == 0."
                    )
                    break


def _flag_notes(experiment: Experiment) -> Iterator[str]:
    """Sentence on flags of nvcc that leave kernels as slow as a debugger wants them."""
    flags = experiment.build.flags
    slow = [f for f in flags if f in _DEBUGGED or ("ptxas" in f and f.endswith("-O0"))]
    slow += [f"{a} {b}" for a, b in itertools.pairwise(flags) if "ptxas" in a and b == "-O0"]
    if slow:
        yield (
            f"build.flags has {', '.join(slow)}: kernels are compiled without optimisation, and "
            "what is measured is not what a program runs. -lineinfo has lines of the source, too."
        )


def _module_faults(workload: ModuleWorkload, base: Path) -> Iterator[Fault]:
    file = _module_file(workload, base)
    if file is None:
        return
    for fault in function_faults(file, NEEDED, RESULTS):
        yield ("workload",), fault


def _module_notes(loaded: LoadedSpec) -> Iterator[str]:
    """Sentences on names of a workload that are almost those of optional functions."""
    workload = loaded.experiment.workload
    if isinstance(workload, ModuleWorkload):
        file = _module_file(workload, loaded.base)
        yield from () if file is None else unread_names(file, OPTIONAL)


def _module_file(workload: ModuleWorkload, base: Path) -> Path | None:
    """File of a workload's functions; None for a module without Python source."""
    target = workload.target(base)
    if target.endswith(".py"):
        return Path(target)
    spec = find_spec(target)
    origin = None if spec is None else spec.origin
    return Path(origin) if origin is not None and origin.endswith(".py") else None


def _missing_sources(plan: Plan, space: Space, base: Path) -> Iterator[str]:
    """A sentence for each missing or unreadable source, with its first variant."""
    missing: dict[Path, str] = {}
    for variant in plan.variants:
        recipe = space.recipe(variant.params)
        files = () if recipe is None else (*recipe.sources, *recipe.included)
        for file in files:
            if not (file.is_file() and os.access(file, os.R_OK)):
                missing.setdefault(file, variant.name)
    for file, name in missing.items():
        fault = f"there is no such file{nearest_file(file)}"
        if file.exists():
            fault = "it cannot be read" if file.is_file() else "is no file"
        folder = base.resolve()
        display_path = file.relative_to(folder) if file.is_relative_to(folder) else file
        yield f"the source {display_path} of variant '{name}': {fault}"


def _command_faults(workload: CommandWorkload, base: Path, plan: Plan) -> Iterator[Fault]:
    folder = workload.folder(base)
    if not folder.is_dir():
        yield ("workload", "cwd"), f"there is no folder '{workload.cwd}'"
        return
    values = [command_values(cell) for cell in plan.cells]
    checks = [workload.check_arguments(of_cell) for of_cell in values]
    lines = {
        "command": [workload.arguments(of_cell) for of_cell in values],
        "check": [argv for argv in checks if argv is not None],
    }
    for key, argvs in lines.items():
        for message in _missing_programs(argvs, folder):
            yield ("workload", key), message
    for index, name in enumerate(workload.depends):
        path = base / name
        if not path.exists():
            yield ("workload", "depends", index), f"'{name}': no such file{nearest_file(path)}"


def _command_notes(loaded: LoadedSpec, plan: Plan) -> Iterator[str]:
    """Sentences on parameters that a command line does not use, or gets in another spelling."""
    workload = loaded.experiment.workload
    if not isinstance(workload, CommandWorkload):
        return
    axis = (workload.parts and workload.parts.axis) or ""  # values in the program itself
    for name in _unread_parameters(plan, {*workload.launch_placeholders, axis}):
        yield (
            f"The parameter '{name}' changes nothing: the command has no {{{name}}}, and runs "
            "the same for each of its values."
        )
    if workload.check is not None:
        for name in _unread_parameters(plan, {*workload.check_placeholders, axis}):
            if name in workload.launch_placeholders:
                yield (
                    f"The check has no {{{name}}}: it checks the same for each of its values, and "
                    "all of them count as right if it succeeds."
                )
    experiment = loaded.experiment
    named = experiment.collect.model_fields_set
    given = [f"collect.{name}" for name in _OF_RUNNER if name in named]
    of_variants = any(item.tolerance for item in experiment.variants.list or ())
    given += ["tolerance"] if experiment.tolerance or of_variants else []
    if given:
        yield (
            f"{', '.join(given)}: nothing changes by it. A command makes its launches and checks "
            "its results itself; workload.launch_skip leaves out launches, workload.check tells "
            "whether results are right."
        )
    for name, words in respelled_words(loaded.document, workload.launch_placeholders).items():
        spellings = ", ".join(f"{written or 'nothing'} as {read}" for written, read in words)
        yield f"The command gets {spellings} ({name}), as YAML reads it: put words in quotes."


def _unread_parameters(plan: Plan, placeholders: Set[str]) -> Iterator[str]:
    """Parameters of several values that no placeholder stands for.

    The name of a variant or problem stands for all its parameters.
    """
    for kind, params in (
        ("variant", [variant.params for variant in plan.variants]),
        ("problem", [problem.params for problem in plan.problems]),
    ):
        names = dict.fromkeys(name for variant_or_problem in params for name in variant_or_problem)
        for name in names if kind not in placeholders else ():
            values = {repr(variant_or_problem.get(name)) for variant_or_problem in params}
            if name not in placeholders and len(values) > 1:
                yield name


def _missing_programs(argvs: Sequence[Sequence[str]], folder: Path) -> Sequence[str]:
    messages: dict[str, str] = {}
    for argv in argvs:
        if argv[0] in messages:
            continue
        try:
            find_program(argv, folder)
            messages[argv[0]] = ""
        except SpecError as error:
            sentence = error.message.removeprefix("command: ")
            end = "" if sentence.endswith("?") else "."
            messages[argv[0]] = f"{sentence}{end} {error.remedy}"
    return [message for message in messages.values() if message]


def _misspelled(loaded: LoadedSpec, capability: str) -> Iterator[Fault]:
    for index, name in enumerate(loaded.experiment.collect.metrics):
        is_raw = isinstance(name, str) and is_raw_name(name)  # formulas have names of the catalogue
        hint = correction_of_name(str(name), capability) if is_raw else None
        if hint is not None:
            yield ("collect", "metrics", index), f"ncu knows no metric '{name}' here{hint}"


def smallest_p_value(blocks: int, comparisons: int = 1) -> float:
    """Smallest adjusted p value of a single differing pair among `comparisons` judged ones."""
    return min(1.0, comparisons * 0.5**blocks)


def can_decide(blocks: int, comparisons: int = 1, looks: int = 1) -> bool:
    """Whether signed ranks of so many blocks can show a single differing pair."""
    return blocks >= FEWEST_BLOCKS and smallest_p_value(blocks, comparisons) < ALPHA / looks / 2


def blocks_needed(comparisons: int, looks: int = 1) -> int:
    """Fewest blocks whose signed ranks can show a single differing pair."""
    return next(n for n in itertools.count(FEWEST_BLOCKS) if can_decide(n, comparisons, looks))


def blocks_for_verdicts(plan: Plan) -> int:
    """Fewest blocks that can show a single differing pair, where a problem has most variants."""
    return blocks_needed(max(1, _most_comparisons(plan)), max(1, len(plan.looks)))


def _most_comparisons(plan: Plan) -> int:
    """Variants beside the baseline, at the problem that has most."""
    return max(Counter(cell.problem.id for cell in plan.cells).values(), default=0) - 1


def few_blocks_notice(plan: Plan) -> Notice | None:
    """Notice that the blocks of a plan cannot show a single differing pair; None where they can.

    A problem's comparisons are those of its variants with the baseline; the problem that has most
    counts. What a search will compare is not known before.
    """
    if plan.baseline is None or not plan.looks or plan.search is not None:
        return None
    comparisons = _most_comparisons(plan)
    blocks, looks = plan.looks[-1], len(plan.looks)
    if comparisons < 1 or can_decide(blocks, comparisons, looks):
        return None
    needed = blocks_for_verdicts(plan)
    if blocks < FEWEST_BLOCKS:
        return Notice(NoticeKind.FEW_BLOCKS, {"blocks": blocks, "needed": needed})
    return Notice(
        NoticeKind.FEW_BLOCKS_FOR_FAMILY,
        {
            "blocks": blocks,
            "comparisons": comparisons,
            "smallest": f"{smallest_p_value(blocks, comparisons):.2g}",
            "looks_ask": "one look asks" if looks == 1 else f"{looks} looks ask",
            "level": f"{ALPHA / looks / 2:.2g}",
            "needed": needed,
        },
    )
