"""The kinds of workload: Python code, a program of the user's own, and a `.cu` file.

Parts of a program are what it does at one size after another, told apart.
"""

from __future__ import annotations

import difflib
import re
import shlex
import string
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    Strict,
    Tag,
    WithJsonSchema,
    model_validator,
)

from profiler.model import OrderedParts, RangeParts
from profiler.outside_text import bounded_pattern
from profiler.planning.spec.cuda_file import CudaWorkload
from profiler.planning.spec.values import (
    PARAMETER_NAME,
    Name,
    Natural,
    Positive,
    SpecModel,
    Text,
    Values,
    did_you_mean,
    wrong,
)
from profiler.runner.protocol import CANDIDATE, EXPERIMENT

_IN_FILTER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A placeholder in a kernel filter, where other braces belong to the regular expression."""

_SHELL = re.compile(r"\||\|\||&|&&|\S*;|[0-9]?>{1,2}(&[0-9])?|<|\S*(\$[\w({]|`)\S*")
"""Words that a shell reads: operators, variables, and commands whose output is meant."""


def _check_regex(value: str) -> str:
    if value.startswith("regex:"):
        try:
            re.compile(value.removeprefix("regex:"))
        except re.error as error:
            raise wrong(f"is not a regular expression: {error}") from error
    return value


_Command = Annotated[
    tuple[Text, ...],
    Field(min_length=1),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": ["string", "number"]}, "minItems": 1},
            ]
        }
    ),
]


def _check_module(value: str) -> str:
    """Refuse files that are no Python; a `.cu` file has a description of its own."""
    suffix = Path(value).suffix
    if suffix in (".cu", ".cuh"):
        raise wrong(
            f"{value} is CUDA; write workload: {{source: {value}, kernel: …, arguments: …, "
            "grid: …, block: …, reference: …} (docs/cuda-file.md)"
        )
    if "/" in value and suffix != ".py":
        raise wrong(f"must be a Python file (.py), or the dotted name of a package, not {value}")
    return value


class ModuleWorkload(SpecModel):
    """A workload written in Python, in this repository or in a file of your own."""

    _SHORT_FORM: ClassVar[dict[str, Any]] = {"type": "string"}

    module: Annotated[Name, AfterValidator(_check_module)] = Field(
        description="A Python file relative to the spec's folder (`./mine.py`), or a package "
        "with `workload` and, optionally, `space` inside (`my_package.softmax`)."
    )
    space: Name | None = Field(
        default=None,
        description="The torch-free half: a dotted module, or a file relative to the spec's "
        "folder. Default: the `space` beside `workload` in a package; none for another file.",
    )

    experiment: Name | None = Field(
        default=None,
        description="Name of the experiment, if a Python file has several.",
    )

    candidate: Annotated[Name, AfterValidator(_check_module)] | None = Field(
        default=None,
        description="A Python file, relative to the spec's folder, whose functions are variants "
        "too: the referee judges them, each file in a process of its own (docs/referee.md).",
    )

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        return {"module": value} if isinstance(value, str) else value

    def document(self, base: Path) -> dict[str, Any] | None:
        """Description of the workload for the runner; None where it is its module alone."""
        if self.candidate is None:
            return None if self.experiment is None else {EXPERIMENT: self.experiment}
        return {EXPERIMENT: self.experiment, CANDIDATE: str((base / self.candidate).resolve())}

    def target(self, base: Path) -> str:
        """Dotted module name, or absolute path of a file, that the runner loads."""
        if is_file_name(self.module):
            return str((base / self.module).resolve())
        return f"{self.module}.workload"


ALL_RANGES = "nvtx"
"""Short for all ranges of the default domain."""
_EXAMPLE = "such as `size: [128, 256]`"


def _check_pattern(value: str) -> str:
    expression = value.removeprefix("regex:")
    try:
        bounded_pattern(expression.rpartition("@")[2])
    except ValueError as error:
        raise wrong(str(error)) from error
    return expression


class Parts(SpecModel):
    """Parts of a program by the order of its launches, or by its own NVTX ranges."""

    model_config = ConfigDict(extra="allow")
    _SHORT_FORM: ClassVar[dict[str, Any]] = {"const": ALL_RANGES}

    __pydantic_extra__: dict[str, Values] = Field(init=False)
    launches: Positive | None = Field(
        default=None,
        description="By order: matching launches of each part, the same number for all.",
    )
    ranges: Annotated[Name, AfterValidator(_check_pattern)] | None = Field(
        default=None,
        description="By NVTX: regular expression of the names of push/pop ranges that tell parts "
        "apart, `domain@…` for another domain than the default one. `parts: nvtx` is short for "
        "all of the default domain.",
    )
    kernels: Positive | None = Field(
        default=None,
        description="By NVTX: launches in one range. Default: all launches that follow on one "
        "another in ranges of the same names.",
    )
    skip: Natural = Field(
        default=0,
        description="Launches at the beginning of each part (by NVTX: ranges of each name) that "
        "are left out.",
    )
    take: Positive | None = Field(
        default=None,
        description="Launches (by NVTX: ranges) after the skipped ones that are samples. "
        "Default: the rest.",
    )

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        if value == ALL_RANGES:
            return {"ranges": ".*"}
        if isinstance(value, str):
            raise wrong(f"must be `{ALL_RANGES}` or a mapping{did_you_mean(value, [ALL_RANGES])}")
        return value

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.ranges is not None:
            extra_keys = [*self._axes, *(["launches"] if self.launches else [])]
            if extra_keys:
                raise wrong(f"parts by ranges have no {' and no '.join(extra_keys)}")
            return self
        if self.kernels is not None:
            raise wrong("kernels belongs to parts by ranges; by order, each launch is a sample")
        self._check_axis()
        if self.launches is None:
            raise wrong("launches is missing: how many launches the program makes for each value")
        if self.skip + (self.take or 1) > self.launches:
            raise wrong(
                f"skip and take need {self.skip + (self.take or 1)} launches of each part, which "
                f"has {self.launches}"
            )
        return self

    @property
    def _axes(self) -> tuple[str, ...]:
        return tuple(self.__pydantic_extra__)

    def _check_axis(self) -> None:
        """Raise unless exactly one parameter with distinct values is given."""
        axes = self._axes
        fields = type(self).model_fields
        if not axes:
            raise wrong(f"needs a parameter with its values in the program's order, {_EXAMPLE}")
        if len(axes) > 1:
            hints = [did_you_mean(axis, fields) for axis in axes]
            close = next((hint for hint in hints if hint.startswith("; did")), "")
            raise wrong(f"has one parameter, {_EXAMPLE}, not {' and '.join(axes)}{close}")
        if not PARAMETER_NAME.fullmatch(axes[0]):
            raise wrong(
                f"a parameter's name is made of the characters A-Z a-z 0-9 _, not {axes[0]!r}"
            )
        values = self.__pydantic_extra__[axes[0]]
        if len({(type(value), value) for value in values}) < len(values):
            raise wrong(f"{axes[0]} has a value twice; each is a part of its own")

    @property
    def axis(self) -> str | None:
        """Parameter in which parts by order differ."""
        return self._axes[0] if self.ranges is None else None

    def reading(self) -> OrderedParts | RangeParts:
        """How launches are sorted into parts."""
        if self.ranges is not None:
            return RangeParts(self.ranges, self.kernels, self.skip, self.take)
        axis, launches = self._axes[0], self.launches or 0
        return OrderedParts(
            axis=axis,
            values=self.__pydantic_extra__[axis],
            launches=launches,
            skip=self.skip,
            take=self.take or launches - self.skip,
        )


class CommandWorkload(SpecModel):
    """A program of your own, run as it is: one process per visit."""

    command: _Command = Field(
        description="Command line with placeholders: `./sgemm {kernel} {size}`, or a list of "
        "arguments. A placeholder is a parameter of the variant or the problem, or `variant` or "
        "`problem` for their names. Write `{{` for a brace. No shell reads it.",
    )
    kernel: Annotated[Name, AfterValidator(_check_regex)] | None = Field(
        default=None,
        description="Only kernels of this name (without template and parameters), or `regex:…`. "
        "Default: all. May hold placeholders.",
    )
    launch_skip: Natural = Field(
        default=0, description="Matching launches to let pass before the first that is profiled."
    )
    launch_count: Positive | None = Field(
        default=None, description="Launches to profile. Default: all matching ones."
    )
    parts: Parts | None = Field(
        default=None,
        description="How to tell the parts of a program apart that goes through several sizes "
        "by itself; each part is a problem.",
    )
    check: _Command | None = Field(
        default=None,
        description="Command, with the same placeholders, that checks the results. It runs "
        "once before the first measurement, and again when the program has "
        "changed. If its exit code is not 0, the outcome is `wrong_result`.",
    )
    exit_code: Annotated[int, Strict(), Field(ge=0, le=255)] | None = Field(
        default=None,
        description="Exit code of the command if it succeeds. If given, any other code is a "
        "wrong result; if not given, a crash.",
    )
    cwd: Name | None = Field(
        default=None,
        description="Folder to run in, relative to the spec's folder. Default: the spec's folder.",
    )
    depends: tuple[Name, ...] = Field(
        default=(),
        description="Files and folders, relative to the spec's folder, that the program "
        "reads: after an edit the cells are measured again. The program and the "
        "shared objects in its own search path need not be named.",
    )

    @model_validator(mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if not isinstance(value, dict) or "command" not in value:
            return value
        commands = {key: _arguments(value[key]) for key in ("command", "check") if key in value}
        return {**value, **commands}

    @model_validator(mode="after")
    def _check_placeholders(self) -> Self:
        for part in (*self.command, *(self.check or ())):
            _placeholders(part)
        return self

    @model_validator(mode="after")
    def _one_window(self) -> Self:
        if self.parts is not None and self.parts.ranges is None and self.launch_count is not None:
            raise wrong("launch_count follows from parts: leave it out, and limit parts.take")
        return self

    @property
    def placeholders(self) -> tuple[str, ...]:
        """Distinct names of the placeholders, in the order of the command line."""
        return tuple(dict.fromkeys([*self.launch_placeholders, *self.check_placeholders]))

    @property
    def launch_placeholders(self) -> tuple[str, ...]:
        """Placeholders of what is measured: of the command and of its kernels."""
        in_command = [name for part in self.command for name in _placeholders(part)]
        return (*in_command, *_IN_FILTER.findall(self.kernel or ""))

    @property
    def check_placeholders(self) -> tuple[str, ...]:
        """Placeholders of the check."""
        return tuple(name for part in self.check or () for name in _placeholders(part))

    def arguments(self, values: Mapping[str, str]) -> tuple[str, ...]:
        """The command line with its placeholders filled; `values` by placeholder name."""
        return tuple(_fill(part, values) for part in self.command)

    def check_arguments(self, values: Mapping[str, str]) -> tuple[str, ...] | None:
        """The command line of the check with its placeholders filled; None without a check."""
        return None if self.check is None else tuple(_fill(part, values) for part in self.check)

    @property
    def success(self) -> int:
        """Exit code of a successful command."""
        return self.exit_code or 0

    def kernel_filter(self, values: Mapping[str, str]) -> str | None:
        """The kernel filter with its placeholders filled, None where every kernel counts."""
        if self.kernel is None:
            return None
        quote = re.escape if self.kernel.startswith("regex:") else str
        return _IN_FILTER.sub(lambda match: quote(values[match[1]]), self.kernel)

    def folder(self, base: Path) -> Path:
        """Absolute folder in which the command runs."""
        return (base / (self.cwd or ".")).resolve()


def is_file_name(module: str) -> bool:
    """Whether a workload or space is named by file (`./a.py`) rather than by dotted name."""
    return module.endswith(".py") or "/" in module


def _arguments(command: object) -> object:
    if isinstance(command, str):
        try:
            arguments = shlex.split(command)
        except ValueError as error:
            raise wrong(f"the command cannot be split into arguments: {error}") from error
        for argument in arguments:
            if _SHELL.fullmatch(argument):
                raise wrong(
                    f"no shell reads the command: '{argument}' would be an argument of the "
                    "program; write a script, or a list where it is meant as an argument"
                )
        return arguments
    if isinstance(command, list):
        plain_number = (int, float)
        return [
            str(part) if isinstance(part, plain_number) and not isinstance(part, bool) else part
            for part in command
        ]
    return command


def _placeholders(part: str) -> tuple[str, ...]:
    """Placeholder names in one argument; raises where a brace is used for anything else."""
    try:
        pieces = list(string.Formatter().parse(part))
    except ValueError as error:
        raise wrong(f"braces in '{part}': {error}; write {{{{ and }}}} for braces") from error
    names = []
    for _text, name, format_spec, conversion in pieces:
        if name is None:
            continue
        if format_spec or conversion or not PARAMETER_NAME.fullmatch(name):
            raise wrong(f"a placeholder in '{part}' is not a plain name like {{size}}")
        names.append(name)
    return tuple(names)


def _fill(part: str, values: Mapping[str, str]) -> str:
    pieces = string.Formatter().parse(part)
    return "".join(text + (values[name] if name is not None else "") for text, name, _, _ in pieces)


def _workload_kind(value: object) -> str | None:
    """Model of a workload: by its keys, or by the keys that were probably meant."""
    if isinstance(value, str):
        return "(module)"
    for tag, model in KINDS.items():
        if isinstance(value, model):
            return tag
    if not isinstance(value, dict) or len(_MAIN_KEYS.keys() & value.keys()) > 1:
        return None
    main = next((tag for key, tag in _MAIN_KEYS.items() if key in value), None)
    return main or _closest_kind(value)


def _closest_kind(value: Mapping[Any, Any]) -> str | None:
    """The model whose fields resemble most of the keys; None where no key resembles a field."""
    shared_keys = {
        tag: sum(_likeness(str(key), model.model_fields) for key in value)
        for tag, model in KINDS.items()
    }
    best = max(shared_keys, key=shared_keys.__getitem__)
    return best if shared_keys[best] else None


def _likeness(key: str, fields: Iterable[str]) -> float:
    """Similarity of a key and the closest field, from 0 to 1; 0 where they are not close."""
    close = difflib.get_close_matches(key, fields, n=1)
    return difflib.SequenceMatcher(None, key, close[0]).ratio() if close else 0.0


KINDS: Mapping[str, type[SpecModel]] = {
    "(module)": ModuleWorkload,
    "(command)": CommandWorkload,
    "(source)": CudaWorkload,
}
"""Models by the tags that stand for them in the paths of pydantic's errors."""
_MAIN_KEYS = {"module": "(module)", "command": "(command)", "source": "(source)"}


Workload = Annotated[
    Annotated[ModuleWorkload, Tag("(module)")]
    | Annotated[CommandWorkload, Tag("(command)")]
    | Annotated[CudaWorkload, Tag("(source)")],
    Discriminator(
        _workload_kind,
        custom_error_type="wrong",
        custom_error_message="must be a file (`./mine.py`), a module (`my_package.softmax`), "
        "or a mapping with one of `module`, `command` and `source`",
    ),
]
