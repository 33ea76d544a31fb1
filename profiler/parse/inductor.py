"""Configurations that the autotuners of inductor and of Triton tried, from logs and caches.

Four kinds of text. Of inductor as torch 2.11 to 2.13 write them; with `TORCH_LOGS=+inductor`, each
configuration of a generated kernel, the winner, and the steps of coordinate descent:

    Benchmark all input configs for triton_red_fused_0, get:
    XBLOCK: 1, num_warps: 16, num_ctas: 1, num_stages: 1, maxnreg: None: 0.0142, nreg 32, nspill 0,
        #shared-mem 64                                                              (in one line)
    Best config for triton_red_fused_0: XBLOCK: 1, …: 0.0142, nreg 32, nspill 0, #shared-mem 64
    COORDESC: XBLOCK: 2, …: 0.0150, nreg 40, nspill 0, #shared-mem 64

With `mode="max-autotune"`, the choices of an operation, libraries among them:

    AUTOTUNE mm(4096x512, 512x4096)
      triton_mm_11 0.0912 ms 100.0% ACC_TYPE='tl.float32', BLOCK_K=32, …, num_stages=4, num_warps=8
      mm 0.0968 ms 94.2%

In inductor's cache, the winner of a kernel as JSON (`*.best_config`), without its time. And with
`TRITON_PRINT_AUTOTUNING=1`, what Triton 2 to 3.6 prints, in one line or in four:

    Triton autotuning for function add_kernel,
    with key as (1024, 'torch.float32'),
    finished after 0.42s,
    best config selected: BLOCK_SIZE: 256, num_warps: 4, num_stages: 2, maxnreg: None;

with the configurations that it tries before, from version 3.2 on:

    Autotuning kernel add_kernel with config BLOCK_SIZE: 128, num_warps: 4, …

Anything may stand before a line: a notebook indents, a server adds its time and its level.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from profiler.errors import ParseError
from profiler.model import Scalar, TunedConfig

_NS_PER_MS = 1e6

_LOG_PREFIX = re.compile(r"^(?P<before>.*?)[VDIWEC]\d{4} .*?\.py:\d+\] (?:\[[^\]]*\] )*")
"""Prefix of TORCH_LOGS before a message: level and date, time, process, source, compile id; and
any text before that."""

_WORD_START = r"(?<![\w.])"
"""Position before the first word of a message, after any prefix."""
LINE_TIME = re.compile(r"\d{4}-\d\d-\d\d|\d\d[-/]\d\d|\d\d:\d\d(?::\d\d)?|[.,]\d{3,}|\s+")
"""Parts of a prefix that differ between two lines of one process: date, time, spaces."""
_CONFIG = r"\w+: [^,:;]+(?:, \w+: [^,:;]+)*"
_TIME = re.compile(r"\d+\.\d+(?:[eE][+-]?\d{1,4})?|\d+[eE][+-]?\d{1,4}|inf|nan")
_BENCHMARKED = re.compile(_WORD_START + r"Benchmark all input configs for (?P<kernel>\S+), get:$")
_TRIED = re.compile(
    _WORD_START + r"(?:Best config for (?P<best>\S+): |(?P<step>COORDESC): )?"
    rf"(?P<config>{_CONFIG}): (?P<time>[^\s,:]+), "
    r"nreg (?P<registers>-?\w+), nspill (?P<spills>-?\w+), #shared-mem (?P<shared>-?\w+)$"
)
_TABLE = re.compile(_WORD_START + r"AUTOTUNE (?P<operation>\S+\(.*\))$")
_TABLE_ENDS = re.compile(_WORD_START + r"AUTOTUNE (?:benchmarking )?takes ")
_TUNED_BY_TRITON = re.compile(
    _WORD_START + r"Triton autotuning for function (?P<kernel>[^\s,]+)(?:,$| finished after )"
)
_TRIED_BY_TRITON = re.compile(
    rf"{_WORD_START}Autotuning kernel (?P<kernel>\S+) with config (?P<config>{_CONFIG});?$"
)
_SELECTED = re.compile(rf"{_WORD_START}best config selected: (?P<config>{_CONFIG});$")
_SHARE = r"(?:\d+(?:\.\d+)?%|nan%|<DIVIDED BY ZERO ERROR>) ?(?P<description>.*)$"
_CHOICE = re.compile(rf"(?:^|(?<=\s))\s(?P<choice>\S+) (?P<time>\S+) ms {_SHARE}")
_SPACED_CHOICE = re.compile(
    rf"(?:^|\s)(?P<choice>\S+)\s{{1,99}}(?P<time>\S+)\s{{1,9}}ms\s{{1,9}}{_SHARE}"
)
"""A choice below its heading, where collectors of logs cut its indent, or people aligned it."""
_SETTING = re.compile(r"(?P<name>\w+)=(?P<value>\'[^\']*\'|[^,]+)")
_STEP = "coordinate descent"
_LONGEST_LINE = 4096
"""Characters; lines of autotuners have some hundred."""
_ROW_WORDS = (" ms ", "#shared-mem", "with config")
"""Texts of which lines of autotuners hold one."""
_LINE_WORDS = (
    *("#shared-mem", "with config", "AUTOTUNE ", "Benchmark all input configs for "),
    *("Triton autotuning for function ", "best config selected: "),
)
"""Texts of which each line that is read holds one, but for choices: a time with its share."""
_SHARE_WORDS = ("%", "<DIVIDED BY")

_BEST_CONFIG = frozenset({"num_warps", "num_stages", "configs_hash"})
"""Keys that every `*.best_config` has."""
_NO_SETTINGS = ("configs_hash", "found_by_coordesc", "time_taken_ms", "triton_cache_hash")
"""Keys of a `*.best_config` that are no settings. `time_taken_ms` is the duration of the tuning."""


def is_inductor_log(text: str) -> bool:
    """Whether a text holds any output of the autotuner; cheap on other texts."""
    return next(_configurations(text, "", Counter()), None) is not None


def parse_inductor_log(
    text: str, name: str = "", unread: Counter[str] | None = None
) -> tuple[TunedConfig, ...]:
    """Every configuration of a log or of a `*.best_config`, in the order of the text.

    `name` is that of the operation where the text does not give it; `unread` counts the lines that
    could not be read. Raises ParseError where there is no configuration.
    """
    configurations = tuple(_configurations(text, name, Counter() if unread is None else unread))
    if not configurations:
        raise ParseError(
            f"{name or 'The text'} holds nothing of an autotuner of inductor or Triton.",
            remedy="Make it with TORCH_LOGS=+inductor, with mode='max-autotune', or with "
            "TRITON_PRINT_AUTOTUNING=1.",
        )
    return _with_winners(configurations)


def tuned_of_record(rows: object) -> tuple[TunedConfig, ...]:
    """Configurations that the runner recorded of a launch (`profiler.runner.protocol.TUNED`).

    Other values are left out: a journal may come from anywhere.
    """
    rows_of_list = rows if isinstance(rows, list) else []
    return tuple(_recorded_config(row) for row in rows_of_list if isinstance(row, dict))


def _recorded_config(row: dict[str, Any]) -> TunedConfig:
    config = row.get("config")
    if isinstance(config, dict):
        config = {name: _setting_scalar(value) for name, value in config.items()}
    else:
        config = _settings(str(row.get("description") or ""))
    return TunedConfig(
        operation=str(row.get("operation") or ""),
        choice=str(row.get("choice") or ""),
        config=config,
        time_ns=_finite(row.get("time_ns")),
        registers=_integer(row.get("registers")),
        spills=_integer(row.get("spills")),
        shared_bytes=_integer(row.get("shared_bytes")),
        best=row.get("best") is True,
    )


def _finite(value: object) -> float | None:
    try:
        number = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:  # a whole number beyond all floats
        return None
    return number if math.isfinite(number) else None


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _configurations(text: str, name: str, unread: Counter[str]) -> Iterator[TunedConfig]:
    best_config = _best_config(text, name)
    return iter((best_config,)) if best_config is not None else _read_lines(text, name, unread)


@dataclass
class _Heading:
    """Heading: the operation of the lines below it."""

    operation: str
    first: bool = False
    """Whether the next choice is the first of its table, which is sorted by time."""


_Headings = dict[str, _Heading]
"""Latest heading of each process that writes into a log, by the prefix of its lines.

The empty prefix has the latest heading of all, for lines of unknown processes.
"""


def _set_heading(headings: _Headings, source: str, heading: _Heading) -> None:
    headings[""] = headings[source] = heading


def _heading_of(headings: _Headings, source: str) -> _Heading:
    return headings.get(source, headings[""])


def _may_be_read(text: str) -> bool:
    """Whether a text can hold a line that is read or counted: takes little time on other texts."""
    return any(word in text for word in _LINE_WORDS) or (
        "ms" in text and any(word in text for word in _SHARE_WORDS)
    )


def _lines_to_read(text: str, unread: Counter[str]) -> Iterator[str]:
    """Lines that may be of an autotuner; rows that are too long are counted."""
    for line in text.splitlines() if _may_be_read(text) else ():
        if len(line) > _LONGEST_LINE:
            is_row = any(word in line for word in _ROW_WORDS)
            unread.update([f"line of more than {_LONGEST_LINE} characters"] if is_row else ())
        elif _may_be_read(line):
            yield line


def _read_lines(text: str, name: str, unread: Counter[str]) -> Iterator[TunedConfig]:
    headings = {"": _Heading(name)}
    for line in _lines_to_read(text, unread):
        prefix = _LOG_PREFIX.match(line)
        message = (line if prefix is None else line[prefix.end() :]).rstrip()
        before = "" if prefix is None else prefix["before"]
        if match := _BENCHMARKED.search(message):
            _set_heading(headings, _process_prefix(before, match), _Heading(match["kernel"]))
        elif match := _TABLE.search(message):
            _set_heading(
                headings, _process_prefix(before, match), _Heading(match["operation"], first=True)
            )
        elif match := _TABLE_ENDS.search(message):
            _set_heading(headings, _process_prefix(before, match), _Heading(name))
        elif match := _TRIED.search(message):
            unread.update(_unreadable_times(match))
            yield _tried_config(
                match, _heading_of(headings, _process_prefix(before, match)).operation
            )
        elif match := _CHOICE.search(message) or _SPACED_CHOICE.search(message):
            heading = _heading_of(headings, _process_prefix(before, match))
            is_doubtful = match.re is _SPACED_CHOICE or _unreadable_times(match)
            if is_doubtful and heading.operation == name:
                continue  # output of another program
            unread.update(_unreadable_times(match))
            yield _choice_config(match, heading.operation, best=heading.first)
            heading.first = False
        elif "autotuning" in message.lower() or "best config" in message:
            yield from _triton_configurations(message, before, name, headings)


def _triton_configurations(
    message: str, before: str, name: str, headings: _Headings
) -> Iterator[TunedConfig]:
    """Configurations that a line of TRITON_PRINT_AUTOTUNING calls tried or selected."""
    if match := _TRIED_BY_TRITON.search(message):
        config = _settings_of_config(match["config"])
        yield TunedConfig(operation=match["kernel"], choice="", config=config)
    if match := _TUNED_BY_TRITON.search(message):
        _set_heading(headings, _process_prefix(before, match), _Heading(match["kernel"]))
    if match := _SELECTED.search(message):
        source, config = _process_prefix(before, match), _settings_of_config(match["config"])
        operation = _heading_of(headings, source).operation
        yield TunedConfig(operation=operation, choice="", config=config, best=True)
        _set_heading(headings, source, _Heading(name))


def _process_prefix(before: str, match: re.Match[str]) -> str:
    """Prefix of a line by which its process is known: all before its message but the time."""
    return LINE_TIME.sub("", before + match.string[: match.start()])


def _tried_config(match: re.Match[str], operation: str) -> TunedConfig:
    return TunedConfig(
        operation=match["best"] or operation,
        choice=_STEP if match["step"] else "",
        config=_settings_of_config(match["config"]),
        time_ns=_nanoseconds(match["time"]),
        registers=_whole_number(match["registers"]),
        spills=_whole_number(match["spills"]),
        shared_bytes=_whole_number(match["shared"]),
        best=match["best"] is not None,
    )


def _settings_of_config(text: str) -> dict[str, Scalar]:
    """Settings by name of a configuration as Triton prints it."""
    pairs = (part.split(": ") for part in text.split(", "))
    return {key: _setting_value(value) for key, value in pairs}


def _choice_config(match: re.Match[str], operation: str, *, best: bool) -> TunedConfig:
    config = _settings(match["description"])
    time = _nanoseconds(match["time"])
    return TunedConfig(
        operation=operation,
        choice=match["choice"],
        config=config,
        time_ns=time,
        best=best and time is not None,
    )


def _settings(description: str) -> dict[str, Scalar]:
    """Settings by name in the description of a choice."""
    return {
        match["name"]: _setting_value(match["value"]) for match in _SETTING.finditer(description)
    }


def _best_config(text: str, name: str) -> TunedConfig | None:
    try:
        may_be_cached = text.lstrip().startswith("{") and '"configs_hash"' in text
        cached: Any = json.loads(text) if may_be_cached else None
    except (ValueError, RecursionError):  # ValueError: a number of thousands of digits, too
        return None
    if not isinstance(cached, dict) or not cached.keys() >= _BEST_CONFIG:
        return None
    config = {
        key: _setting_scalar(value) for key, value in cached.items() if key not in _NO_SETTINGS
    }
    step = _STEP if cached.get("found_by_coordesc") else ""
    return TunedConfig(operation=name, choice=step, config=config, best=True)


def _with_winners(configurations: Sequence[TunedConfig]) -> tuple[TunedConfig, ...]:
    """The configurations, with a winner that is named later marked instead of listed twice."""
    distinct: list[TunedConfig] = []
    for configuration in configurations:
        is_winner = configuration.best and not configuration.choice
        index = _index_of_config(distinct, configuration) if is_winner else None
        if index is None:
            distinct.append(configuration)
        else:
            distinct[index] = replace(distinct[index], best=True)
    return tuple(distinct)


def _index_of_config(configurations: Sequence[TunedConfig], winner: TunedConfig) -> int | None:
    config = replace(winner, best=False)
    return configurations.index(config) if config in configurations else None


def _setting_value(text: str) -> Scalar:
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):  # the last two: nested deeply
        return text.strip()
    return _setting_scalar(value, text.strip())


def _setting_scalar(value: object, text: str | None = None) -> Scalar:
    """A value that a setting can have; `text`, or its `str`, in place of any other value."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value) if text is None else text


def _nanoseconds(text: str) -> float | None:
    value = float(text) * _NS_PER_MS if _TIME.fullmatch(text) else math.inf
    return value if math.isfinite(value) else None


def _unreadable_times(match: re.Match[str]) -> tuple[str, ...]:
    """Text to count for a row whose time cannot be read; an infinite time means that it failed."""
    return () if _TIME.fullmatch(match["time"]) else ("time that cannot be read",)


_WHOLE = re.compile(r"[0-9]{1,18}")


def _whole_number(text: str) -> int | None:
    """A count; None where Triton writes None or -1."""
    return int(text) if _WHOLE.fullmatch(text) else None
